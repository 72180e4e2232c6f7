//! A writer that uses the names of everybody: each call may fail, but only with an errno that a race can explain.

use super::check::{done, refused};
use super::given_dir;
use super::random::Random;
use super::sys::{self, R, at};
use super::xattr::{getxattr, lremovexattr, lsetxattr, removexattr, setxattr};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Directories that everybody uses.
pub const SHARED: usize = 5;
/// Bytes of the file that bytes are taken from.
pub const SOURCE_BYTES: usize = 1 << 20;
/// Names that may be anything, in each directory.
const NAMES: usize = 6;
/// Names that are directories as a rule, in each directory.
const DIRS: usize = 3;
/// Descriptors that a writer holds.
const HELD_MAX: usize = 6;
/// Where a file's bytes are as a rule, and seldom: several chunks on.
const NEAR: usize = 60_000;
const FAR: usize = 9 << 20;
/// What comes of a path whose parts others remove, replace and move.
const WALK: [i32; 4] = [libc::ENOENT, libc::ENOTDIR, libc::ELOOP, libc::ESTALE];
/// What fallocate(2) is asked for.
const ALLOCATIONS: [i32; 5] = [
    0,
    libc::FALLOC_FL_KEEP_SIZE,
    libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE,
    libc::FALLOC_FL_ZERO_RANGE,
    libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE,
];
const RENAMES: [u32; 6] = [0, 0, 0, libc::RENAME_NOREPLACE, libc::RENAME_EXCHANGE, libc::RENAME_WHITEOUT];

/// One such writer, on one mount.
pub struct Chaos<'a> {
    top: &'a Path,
    random: Random,
    source: &'a File,
    /// Whether it maps files. While the kernel writes pages of a mapping back, which no signal interrupts, the process that has mapped them
    /// cannot fork: it must not be the one that starts a killed server again.
    maps: bool,
    /// Whether open files may be gone: a power loss has taken them.
    forgotten: bool,
    held: Vec<OwnedFd>,
}

/// The call succeeded, or failed as one on a path may, or with one of these errnos.
fn may<T>(what: &str, path: &Path, result: R<T>, errnos: &[i32]) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(errno) => {
            let allowed = [&WALK[..], errnos].concat();
            refused::<()>(format!("{what} {}", path.display()), Err(errno), &allowed);
            None
        }
    }
}

impl Chaos<'_> {
    pub fn new<'a>(top: &'a Path, random: Random, source: &'a File, maps: bool) -> Chaos<'a> {
        Chaos { top, random, source, maps, forgotten: false, held: vec![] }
    }

    /// Where power losses take what nobody has synced.
    pub fn that_may_be_forgotten(self) -> Self {
        Chaos { forgotten: true, ..self }
    }

    /// So many operations; then everything is closed.
    pub fn run(mut self, operations: usize) {
        for _ in 0..operations {
            self.step();
        }
    }

    /// The call on a descriptor succeeded, or failed with one of these errnos.
    fn held<T>(&self, what: &str, result: R<T>, errnos: &[i32]) {
        match result {
            Err(libc::ESTALE) if self.forgotten => {}
            // What others have done by this mount may be lost, too.
            Err(libc::EIO) if self.forgotten && ["fsync", "msync"].contains(&what) => {}
            Err(errno) => refused::<()>(format!("{what} of an open file"), Err(errno), errnos),
            Ok(_) => {}
        }
    }

    /// One operation.
    pub fn step(&mut self) {
        match self.random.below(100) {
            0..14 => self.open(),
            14..19 => self.nameless(),
            19..38 => self.make(),
            38..52 => self.remove(),
            52..64 => self.rename(),
            64..72 => self.attributes(),
            72..76 => self.extended(),
            76..80 => self.look(),
            _ => self.use_held(),
        }
    }

    fn dir(&mut self) -> PathBuf {
        let mut path = self.top.join(format!("d{}", self.random.below(SHARED)));
        for odds in [2, 3] {
            if self.random.below(odds) == 0 {
                path.push(format!("x{}", self.random.below(DIRS)));
            }
        }
        path
    }

    fn path(&mut self) -> PathBuf {
        let name = match self.random.below(6) {
            0 => format!("x{}", self.random.below(DIRS)),
            _ => format!("n{}", self.random.below(NAMES)),
        };
        self.dir().join(name)
    }

    fn dir_path(&mut self) -> PathBuf {
        let dir = self.dir();
        dir.join(format!("x{}", self.random.below(DIRS)))
    }

    fn offset(&mut self) -> i64 {
        let reach = if self.random.below(100) == 0 { FAR } else { NEAR };
        self.random.below(reach) as i64
    }

    fn bytes(&mut self) -> Vec<u8> {
        let count = 1 + self.random.below(20_000);
        let from = self.random.below(SOURCE_BYTES - count);
        sys::pread(self.source, count, from as i64).expect("pread on the local disk")
    }

    /// Keeps a descriptor of a regular file; an older one goes for it. A FIFO, which the kernel opens by itself, is ESTALE once another mount
    /// has removed it.
    fn keep(&mut self, fd: OwnedFd) {
        let kind = match sys::fstat(&fd) {
            Err(libc::ESTALE) if sys::lseek(&fd, 0, libc::SEEK_CUR) == Err(libc::ESPIPE) => libc::S_IFIFO,
            Err(libc::ESTALE) if self.forgotten => return,
            result => done("fstat of what was just opened", result).kind(),
        };
        if kind == libc::S_IFREG {
            if self.held.len() == HELD_MAX {
                let n = self.random.below(HELD_MAX);
                self.held.swap_remove(n);
            }
            self.held.push(fd);
        }
    }

    fn open(&mut self) {
        let path = self.path();
        let create = *self.random.of(&[libc::O_CREAT, libc::O_CREAT, libc::O_CREAT | libc::O_EXCL, 0]);
        let more = *self.random.of(&[0, 0, libc::O_TRUNC, libc::O_APPEND, libc::O_DIRECT, libc::O_NOFOLLOW]);
        // Local file systems want aligned direct I/O, and copy_file_range appends nowhere.
        let more = if given_dir().is_some() { more & !libc::O_DIRECT } else { more };
        let flags = libc::O_RDWR | libc::O_NONBLOCK | create | more;
        let opened = sys::open(&path, flags, 0o600 | self.random.below(0o200) as u32);
        // Devices are ENXIO or, on a mount with nodev, EACCES; FIFOs know no O_DIRECT.
        let errnos = [libc::EEXIST, libc::EISDIR, libc::ENXIO, libc::EACCES, libc::EINVAL];
        let errnos = if more == libc::O_DIRECT { &errnos } else { &errnos[..4] };
        if let Some(fd) = may("open", &path, opened, errnos) {
            self.keep(fd);
        }
    }

    fn nameless(&mut self) {
        let (dir, path) = (self.dir(), self.path());
        let opened = sys::open(&dir, libc::O_TMPFILE | libc::O_RDWR, 0o640);
        let Some(fd) = may("O_TMPFILE", &dir, opened, &[]) else { return };
        let written = sys::pwrite(&fd, self.bytes(), 0);
        self.held("write", written, &[]);
        let linked = sys::linkat(sys::fd_path(&fd), &path, libc::AT_SYMLINK_FOLLOW);
        may("link of a nameless file", &path, linked, &[libc::EEXIST]);
        self.keep(fd);
    }

    fn make(&mut self) {
        let (path, dir_path) = (self.path(), self.dir_path());
        let exists = &[libc::EEXIST];
        match self.random.below(12) {
            0 => may("mkfifo", &path, sys::mkfifo(&path, 0o644), exists),
            1 => {
                let device = libc::makedev(1, 3 + self.random.below(3) as u32);
                may("mknod", &path, sys::mknod(&path, libc::S_IFCHR | 0o600, device), exists)
            }
            2..5 => {
                let target = if self.random.below(2) == 0 {
                    "n1".to_owned()
                } else {
                    format!("../d{}/n2", self.random.below(SHARED))
                };
                may("symlink", &path, sys::symlink(target, &path), exists)
            }
            5..8 => {
                let old = self.path();
                may("link", &path, sys::link(&old, &path), &[libc::EEXIST, libc::EPERM])
            }
            _ => may("mkdir", &dir_path, sys::mkdir(&dir_path, 0o755), exists),
        };
    }

    fn remove(&mut self) {
        let (path, dir_path) = (self.path(), self.dir_path());
        if self.random.below(3) == 0 {
            may("rmdir", &dir_path, sys::rmdir(&dir_path), &[libc::ENOTEMPTY]);
        } else {
            may("unlink", &path, sys::unlink(&path), &[libc::EISDIR]);
        }
    }

    fn rename(&mut self) {
        let dirs = self.random.below(2) == 0;
        let mut some = || if dirs { self.dir_path() } else { self.path() };
        let (old, new) = (some(), some());
        let flags = *self.random.of(&RENAMES);
        let errnos = [libc::EEXIST, libc::ENOTEMPTY, libc::EISDIR, libc::EINVAL];
        may(&format!("rename ({flags}) of {} to", old.display()), &new, sys::renameat2(&old, &new, flags), &errnos);
    }

    fn attributes(&mut self) {
        let path = self.path();
        let number = self.random.below(1000);
        let time = at(1_600_000_000 + number as i64, number as i64);
        match self.random.below(5) {
            0 => may("chmod", &path, sys::chmod(&path, 0o600 | (number & 0o177) as u32), &[]),
            1 => may("lchown", &path, sys::lchown(&path, number as u32, 1 + number as u32), &[]),
            2 => may("utimensat", &path, sys::lutimens(&path, [time, time]), &[]),
            3 => may("touch", &path, sys::touch(&path), &[]),
            _ => may("truncate", &path, sys::truncate(&path, self.offset()), &[libc::EISDIR, libc::EINVAL]),
        };
    }

    fn extended(&mut self) {
        let path = self.path();
        let name = format!("user.a{}", self.random.below(3));
        let trusted = format!("trusted.a{}", self.random.below(2));
        let value = vec![b'v'; self.random.below(300)];
        let none = [libc::EPERM, libc::ENODATA];
        match self.random.below(6) {
            0 | 1 => may("setxattr", &path, setxattr(&path, &name, value), &none),
            2 => may("removexattr", &path, removexattr(&path, &name), &none),
            3 => may("getxattr", &path, getxattr(&path, &name).map(drop), &none),
            4 => may("lsetxattr", &path, lsetxattr(&path, &trusted, value), &[]),
            _ => may("lremovexattr", &path, lremovexattr(&path, &trusted), &none),
        };
    }

    fn look(&mut self) {
        let (dir, path) = (self.dir(), self.path());
        match self.random.below(3) {
            0 => {
                if let Some(names) = may("readdir", &dir, sys::names(&dir), &[]) {
                    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "twice in {}: {names:?}", dir.display());
                }
            }
            1 => drop(may("lstat", &path, sys::lstat(&path), &[])),
            _ => drop(may("readlink", &path, sys::readlink(&path), &[libc::EINVAL])),
        }
    }

    /// Something with a file that is held, whether it has a name or not: nothing that others do is an excuse.
    fn use_held(&mut self) {
        if self.held.is_empty() {
            return self.open();
        }
        let n = self.random.below(self.held.len());
        let (offset, length, bytes) = (self.offset(), self.offset(), self.bytes());
        let mode = *self.random.of(&ALLOCATIONS);
        let whence = *self.random.of(&[libc::SEEK_HOLE, libc::SEEK_DATA]);
        let die = self.random.below(14);
        let fd = &self.held[n];
        match die {
            0 | 1 => self.held("read", sys::pread(fd, 20_000, offset), &[]),
            2..5 => self.held("write", sys::pwrite(fd, bytes, offset), &[]),
            5 => self.held("fallocate", sys::fallocate(fd, mode, offset, length + 1), &[]),
            6 => self.held("ftruncate", sys::ftruncate(fd, length), &[]),
            7 => self.held("fsync", sys::fsync(fd), &[]),
            8 => self.held("fchmod", sys::fchmod(fd, 0o640), &[]),
            9 if self.maps => self.map(n, offset),
            10 => self.copy(n, offset, length),
            11 => self.held("lseek", sys::lseek(fd, offset, whence), &[libc::ENXIO]),
            12 => self.lock(n, offset, length),
            _ => drop(self.held.swap_remove(n)),
        }
    }

    /// Writes through a mapping; a page that a truncation has taken gives EFAULT.
    fn map(&mut self, n: usize, offset: i64) {
        let (fd, offset) = (&self.held[n], (offset as usize).min(NEAR));
        let map = sys::mmap(fd, NEAR + 4096, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED).expect("mmap");
        let count = 1 + self.random.below(4000);
        self.held("a store", map.pread(offset, count, self.source, offset as i64), &[libc::EFAULT]);
        if self.random.below(2) == 0 {
            self.held("msync", map.msync(), &[]);
        }
    }

    fn copy(&mut self, n: usize, offset: i64, to: i64) {
        let other = self.random.below(self.held.len());
        let count = 1 + self.random.below(NEAR);
        // Overlapping ranges of one file, and descriptors that append.
        let refused = [libc::EINVAL, libc::EBADF];
        self.held("copy", sys::copy_range(&self.held[n], offset, &self.held[other], to, count, 0), &refused);
    }

    fn lock(&mut self, n: usize, offset: i64, length: i64) {
        let kind = *self.random.of(&[libc::F_RDLCK, libc::F_WRLCK, libc::F_UNLCK]);
        let whole = *self.random.of(&[libc::LOCK_SH, libc::LOCK_EX, libc::LOCK_UN]) | libc::LOCK_NB;
        let (of_records, fd) = (self.random.below(2) == 0, &self.held[n]);
        if of_records {
            let locked = sys::lock(fd, libc::F_OFD_SETLK, kind, offset, length);
            self.held("a record lock", locked, &[libc::EAGAIN]);
        } else {
            self.held("flock", sys::flock(fd, whole), &[libc::EAGAIN]);
        }
    }
}
