//! Expectations: a call's errno, and which times an operation moves.

use super::sys::{self, Stat, Time, at};
use super::through;
use std::path::{Path, PathBuf};

/// The name of an errno, as the man pages have it.
pub fn errno_name(errno: i32) -> String {
    let name = match errno {
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::EINTR => "EINTR",
        libc::EIO => "EIO",
        libc::ENXIO => "ENXIO",
        libc::EBADF => "EBADF",
        libc::EAGAIN => "EAGAIN",
        libc::EACCES => "EACCES",
        libc::EBUSY => "EBUSY",
        libc::EEXIST => "EEXIST",
        libc::EXDEV => "EXDEV",
        libc::ENODEV => "ENODEV",
        libc::ENOTDIR => "ENOTDIR",
        libc::EISDIR => "EISDIR",
        libc::EINVAL => "EINVAL",
        libc::ETXTBSY => "ETXTBSY",
        libc::EFBIG => "EFBIG",
        libc::ENOSPC => "ENOSPC",
        libc::ESPIPE => "ESPIPE",
        libc::EROFS => "EROFS",
        libc::EMLINK => "EMLINK",
        libc::EDEADLK => "EDEADLK",
        libc::ENAMETOOLONG => "ENAMETOOLONG",
        libc::ENOSYS => "ENOSYS",
        libc::ENOTEMPTY => "ENOTEMPTY",
        libc::ELOOP => "ELOOP",
        libc::EOVERFLOW => "EOVERFLOW",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::ESTALE => "ESTALE",
        libc::ENOTCONN => "ENOTCONN",
        _ => return format!("errno {errno}"),
    };
    name.to_owned()
}

/// A result in words.
pub fn outcome<T>(result: &sys::R<T>) -> String {
    match result {
        Ok(_) => "success".to_owned(),
        Err(errno) => errno_name(*errno),
    }
}

/// The call must succeed; gives its value.
#[macro_export]
macro_rules! ok {
    ($call:expr) => {
        match $call {
            Ok(value) => value,
            Err(errno) => panic!("{}: {}", stringify!($call), $crate::common::check::errno_name(errno)),
        }
    };
}

/// The call must fail with this errno (or one of these).
#[macro_export]
macro_rules! expect_errno {
    ($call:expr, $($errno:ident)|+) => {
        $crate::common::check::refused(stringify!($call), $call, &[$(libc::$errno),+])
    };
}

/// The call must have failed with one of these errnos.
pub fn refused<T>(what: impl std::fmt::Display, result: sys::R<T>, wanted: &[i32]) {
    if !matches!(&result, Err(errno) if wanted.contains(errno)) {
        let names: Vec<String> = wanted.iter().map(|&errno| errno_name(errno)).collect();
        panic!("{what}: expected {}, got {}", names.join(" or "), outcome(&result));
    }
}

/// The call must have succeeded; gives its value.
pub fn done<T>(what: impl std::fmt::Display, result: sys::R<T>) -> T {
    result.unwrap_or_else(|errno| panic!("{what}: {}", errno_name(errno)))
}

/// The call must have succeeded if `allowed`, else failed with this errno.
pub fn allowed_or<T>(what: impl std::fmt::Display, allowed: bool, result: sys::R<T>, errno: i32) {
    if allowed {
        done(what, result);
    } else {
        refused(what, result, &[errno]);
    }
}

/// Waits until a file system that takes its times from the kernel's coarse clock would give a later one.
pub fn tick() {
    let start = coarse_now();
    super::wait_until("the clock moves", || coarse_now() > start);
}

/// The kernel's coarse clock: what local file systems stamp with.
pub fn coarse_now() -> Time {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    coarse_clock(&mut now);
    at(now.tv_sec, now.tv_nsec)
}

/// The present, which no time that was given before is later than.
pub fn now() -> Time {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is later than 1970");
    at(since.as_secs().cast_signed(), since.subsec_nanos().into())
}

#[allow(unsafe_code)]
fn coarse_clock(now: &mut libc::timespec) {
    // SAFETY: writes one timespec that lives in the caller.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, now) };
    assert_eq!(result, 0, "clock_gettime");
}

/// A stat that tells symlinks apart.
fn look(path: &Path) -> Stat {
    sys::lstat(path).unwrap_or_else(|errno| panic!("lstat {}: {}", path.display(), errno_name(errno)))
}

/// Runs the operation and checks the times of some objects: each is named with the times that must have moved forward, as letters out
/// of `a`, `m`, `c`; those not named must be exactly as before, except after `?`: those may change or not (`"mc?a"`).
pub fn moves<T>(what: &str, objects: &[(&Path, &str)], operation: impl FnOnce() -> T) -> T {
    let before: Vec<Stat> = objects.iter().map(|(path, _)| look(path)).collect();
    tick();
    let value = operation();
    for ((path, letters), old) in objects.iter().zip(before) {
        let new = look(path);
        for (letter, old, new) in
            [('a', old.atime, new.atime), ('m', old.mtime, new.mtime), ('c', old.ctime, new.ctime)]
        {
            let (must, may) = letters.split_once('?').unwrap_or((letters, ""));
            let name = path.file_name().unwrap_or_default().display();
            if must.contains(letter) {
                assert!(new > old, "{what}: {letter}time of {name} must move: {old:?} → {new:?}");
            } else if !may.contains(letter) {
                assert_eq!(new, old, "{what}: {letter}time of {name} must stay");
            }
        }
    }
    value
}

/// A directory of one test, with makers of the usual objects.
#[derive(Clone, Debug)]
pub struct Dir {
    path: PathBuf,
}

impl Dir {
    /// Takes an existing directory.
    pub fn at(path: PathBuf) -> Dir {
        Dir { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path in it.
    pub fn p(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// Makes an empty file, mode 0644.
    pub fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.file_with(name, b"")
    }

    /// Makes a file with these bytes, mode 0644.
    pub fn file_with(&self, name: impl AsRef<Path>, bytes: &[u8]) -> PathBuf {
        let path = self.p(name);
        let fd = ok!(sys::open(&path, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL, 0o644));
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = &rest[ok!(sys::write(&fd, rest))..];
        }
        path
    }

    /// Makes a file with this mode and owner.
    pub fn file_of(&self, name: impl AsRef<Path>, mode: u32, uid: u32, gid: u32) -> PathBuf {
        let path = self.file(name);
        ok!(sys::chown(&path, uid, gid));
        ok!(sys::chmod(&path, mode));
        path
    }

    /// Makes a directory, mode 0755.
    pub fn dir(&self, name: impl AsRef<Path>) -> Dir {
        let path = self.p(name);
        ok!(sys::mkdir(&path, 0o755));
        Dir { path }
    }

    /// Makes a directory with this mode and owner.
    pub fn dir_of(&self, name: impl AsRef<Path>, mode: u32, uid: u32, gid: u32) -> Dir {
        let dir = self.dir(name);
        ok!(sys::chown(dir.path(), uid, gid));
        ok!(sys::chmod(dir.path(), mode));
        dir
    }

    /// Makes a symlink.
    pub fn symlink(&self, target: impl AsRef<Path>, name: impl AsRef<Path>) -> PathBuf {
        let path = self.p(name);
        ok!(sys::symlink(target, &path));
        path
    }

    /// Makes one object of each kind: regular file, directory, symlink, FIFO, socket, character device.
    pub fn one_of_each(&self) -> [(&'static str, PathBuf); 6] {
        let all = ["file", "dir", "symlink", "fifo", "socket", "device"].map(|kind| (kind, self.p(kind)));
        self.file("file");
        self.dir("dir");
        self.symlink("nowhere", "symlink");
        ok!(sys::mkfifo(self.p("fifo"), 0o644));
        ok!(sys::mknod(self.p("socket"), libc::S_IFSOCK | 0o644, 0));
        ok!(sys::mknod(self.p("device"), libc::S_IFCHR | 0o644, libc::makedev(1, 3)));
        all
    }
}

/// All bytes of a file.
pub fn content(path: impl AsRef<Path>) -> Vec<u8> {
    let path = path.as_ref();
    let what = path.display();
    let fd = done(format!("open {what}"), sys::open(path, libc::O_RDONLY, 0));
    let mut all = Vec::new();
    loop {
        let bytes = done(format!("read {what}"), sys::read(&fd, 1 << 20));
        if bytes.is_empty() {
            return all;
        }
        all.extend(bytes);
    }
}

/// Whether this is on tmpfs, which differs from what POSIX says in places.
pub fn is_tmpfs(dir: &Dir) -> bool {
    ok!(sys::file_system_type(dir.path())) == libc::TMPFS_MAGIC
}

/// Whether this is on a FUSE mount: some things its server cannot see.
pub fn is_fuse(dir: &Dir) -> bool {
    ok!(sys::file_system_type(dir.path())) == libc::FUSE_SUPER_MAGIC
}

/// Whether the kernel leaves permissions there to a FUSE server alone: it is mounted without default_permissions.
pub fn is_left_to_server(dir: &Dir) -> bool {
    if through::path(dir.path()).is_some() {
        return false; // there is no kernel between
    }
    let dev = ok!(sys::stat(dir.path())).dev;
    let number = format!("{}:{}", libc::major(dev), libc::minor(dev));
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let its = |line: &&str| line.split(' ').nth(2) == Some(&number);
    let mount = table.lines().find(its).expect("its mount");
    is_fuse(dir) && !mount.contains(",default_permissions")
}

/// A directory on another file system than the given one, removed on drop; none (said on standard error) if there is no such.
pub fn other_fs(dir: &Dir) -> Option<tempfile::TempDir> {
    assert!(through::path(dir.path()).is_none(), "not through a client: another file system");
    let here = look(dir.path()).dev;
    let found = ["/dev/shm", "/tmp", "/run"].into_iter().find(|top| sys::stat(top).is_ok_and(|stat| stat.dev != here));
    let Some(top) = found else {
        super::skipped("a check of EXDEV", "no other writable file system");
        return None;
    };
    Some(tempfile::tempdir_in(top).expect("a temporary directory"))
}
