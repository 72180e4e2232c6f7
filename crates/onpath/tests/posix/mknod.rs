//! mknod(2), mkfifo(3): FIFOs, sockets, devices, and regular files by mknod.

use crate::posix::prelude::*;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

/// mknod makes the asked kind with the asked mode and the caller's ids; no kind means a regular file.
#[test]
fn kinds() {
    let d = area!();
    ok!(chmod(d.path(), 0o777));
    let user = User { gid: TEAM, ..ALICE };
    for (name, kind, wanted) in
        [("f", S_IFREG, S_IFREG), ("0", 0, S_IFREG), ("p", S_IFIFO, S_IFIFO), ("s", S_IFSOCK, S_IFSOCK)]
    {
        user.run(|| ok!(mknod(d.p(name), kind | 0o1646, 0)));
        let s = ok!(lstat(d.p(name)));
        assert_eq!(
            (s.kind(), s.perm(), s.uid, s.gid, s.nlink, s.size),
            (wanted, 0o1646, ALICE.uid, TEAM, 1, 0),
            "{name}"
        );
    }
}

/// mkfifo makes a FIFO, for anybody who may write the directory (else EACCES).
#[test]
fn fifo() {
    let d = area!();
    let dir = d.dir_of("d", 0o755, ALICE.uid, ALICE.gid);
    ALICE.run(|| ok!(mkfifo(dir.p("p"), 0o624)));
    assert_eq!(ok!(stat(dir.p("p"))).mode, S_IFIFO | 0o624);
    BOB.run(|| {
        expect_errno!(mkfifo(dir.p("q"), 0o644), EACCES);
        for kind in [S_IFREG, S_IFIFO, S_IFSOCK] {
            expect_errno!(mknod(dir.p("q"), kind | 0o644, 0), EACCES);
        }
    });
    expect_errno!(mkfifo(dir.p("missing/p"), 0o644), ENOENT);
    expect_errno!(mkfifo(dir.p("p/q"), 0o644), ENOTDIR);
}

/// Devices need CAP_MKNOD (EPERM); their numbers are kept exactly.
#[test]
fn devices() {
    let d = area!();
    ok!(chmod(d.path(), 0o777));
    for (i, (major, minor)) in [(1, 3), (0, 0), (8, 17), (255, 255), (4095, 1_048_575)].into_iter().enumerate() {
        for kind in [S_IFCHR, S_IFBLK] {
            let path = d.p(format!("{kind:o}-{i}"));
            let dev = libc::makedev(major, minor);
            if (kind, dev) != (S_IFCHR, 0) {
                // 0:0 is what an overlay file system marks removed names with; Linux lets everybody make it.
                ALICE.run(|| expect_errno!(mknod(&path, kind | 0o600, dev), EPERM));
            }
            ok!(mknod(&path, kind | 0o640, dev));
            let s = ok!(stat(&path));
            assert_eq!((s.mode, s.rdev), (kind | 0o640, dev), "{major}:{minor}");
        }
    }
}

/// A directory cannot be made by mknod (EPERM), an unknown kind is EINVAL.
#[test]
fn refused_kinds() {
    let d = area!();
    expect_errno!(mknod(d.p("x"), S_IFDIR | 0o755, 0), EPERM);
    expect_errno!(mknod(d.p("x"), S_IFLNK | 0o755, 0), EINVAL);
    expect_errno!(mknod(d.p("x"), libc::S_IFMT | 0o755, 0), EINVAL);
    assert_eq!(ok!(names(d.path())).len(), 0);
}

/// An existing name is EEXIST, whatever it is; a trailing slash on a new one ENOENT.
#[test]
fn existing_name() {
    let d = area!();
    for (_, path) in d.one_of_each() {
        let before = ok!(lstat(&path));
        for kind in [S_IFREG, S_IFIFO, S_IFSOCK, S_IFCHR] {
            expect_errno!(mknod(&path, kind | 0o644, 0), EEXIST);
        }
        assert_eq!(ok!(lstat(&path)), before);
    }
    expect_errno!(mkfifo(d.p("new/"), 0o644), ENOENT);
}

/// A FIFO carries bytes from writer to reader; the file itself stays empty.
#[test]
fn fifo_carries_data() {
    let d = area!();
    let p = d.p("p");
    ok!(mkfifo(&p, 0o644));
    std::thread::scope(|scope| {
        scope.spawn(|| std::fs::write(&p, "through the pipe").expect("write"));
        let mut text = String::new();
        std::fs::File::open(&p).expect("open").read_to_string(&mut text).expect("read");
        assert_eq!(text, "through the pipe");
    });
    assert_eq!(ok!(stat(&p)).size, 0);
}

/// A FIFO without a reader refuses a non-blocking writer (ENXIO); a non-blocking reader opens at once. Positions do not exist (ESPIPE).
#[test]
fn fifo_nonblocking() {
    let d = area!();
    let p = d.p("p");
    ok!(mkfifo(&p, 0o644));
    expect_errno!(open(&p, O_WRONLY | O_NONBLOCK, 0), ENXIO);
    let reader = ok!(open(&p, O_RDONLY | O_NONBLOCK, 0));
    let writer = ok!(open(&p, O_WRONLY | O_NONBLOCK, 0));
    assert_eq!(ok!(write(&writer, "x")), 1);
    assert_eq!(ok!(read(&reader, 5)), b"x");
    expect_errno!(lseek(&reader, 0, libc::SEEK_SET), ESPIPE);
    expect_errno!(pread(&reader, 1, 0), ESPIPE);
    expect_errno!(fsync(&writer), EINVAL);
}

/// FIFOs are opened by their permission bits as files are; on FUSE who may not write meets nobody (`apart`).
#[test]
fn fifo_permissions() {
    let d = area!();
    let p = d.p("p");
    ok!(mkfifo(&p, 0o604));
    BOB.run(|| {
        ok!(open(&p, O_RDONLY | O_NONBLOCK, 0));
        // The kernel opens FIFOs and devices by itself: `fuse_permission` asks nothing without default_permissions.
        allowed_or("open for both", is_left_to_server(&d), open(&p, O_RDWR | O_NONBLOCK, 0), libc::EACCES);
        expect_errno!(access(&p, libc::W_OK), EACCES);
    });
}

/// The way to a FIFO or device must be searchable, on FUSE too: that is how to keep others off them.
#[test]
fn fifo_in_a_closed_directory() {
    let d = area!();
    let closed = d.dir_of("closed", 0o700, 0, 0);
    ok!(mkfifo(closed.p("p"), 0o666));
    BOB.run(|| expect_errno!(open(closed.p("p"), O_RDWR | O_NONBLOCK, 0), EACCES));
}

/// A socket cannot be opened (ENXIO).
#[test]
fn open_a_socket() {
    let d = area!();
    ok!(mknod(d.p("s"), S_IFSOCK | 0o777, 0));
    expect_errno!(open(d.p("s"), O_RDWR, 0), ENXIO);
}

/// bind makes a socket that others find by its name; its second bind is EADDRINUSE; unlink ends it.
#[test]
fn unix_sockets() {
    let d = area!();
    let path = d.p("s");
    let listener = UnixListener::bind(&path).expect("bind");
    assert_eq!(ok!(lstat(&path)).kind(), S_IFSOCK);
    assert_eq!(UnixListener::bind(&path).err().and_then(|error| error.raw_os_error()), Some(libc::EADDRINUSE));
    let mut client = UnixStream::connect(&path).expect("connect");
    client.write_all(b"hello").expect("write");
    let mut bytes = [0; 5];
    listener.accept().expect("accept").0.read_exact(&mut bytes).expect("read");
    assert_eq!(&bytes, b"hello");
    ok!(rename(&path, d.p("t")));
    UnixStream::connect(d.p("t")).expect("connect by the new name");
    ok!(unlink(d.p("t")));
    assert!(UnixStream::connect(d.p("t")).is_err());
}

/// A device node works as that device, unless the mount says nodev (EACCES).
#[test]
fn open_a_device() {
    let d = area!();
    let path = d.p("zero");
    ok!(mknod(&path, S_IFCHR | 0o666, libc::makedev(1, 5)));
    match open(&path, O_RDONLY, 0) {
        Ok(fd) => assert_eq!(ok!(read(&fd, 3)), [0, 0, 0]),
        other => {
            assert!(!is_fuse(&d), "nobody said nodev of the mount");
            refused("open of a device", other, &[libc::EACCES]);
        }
    }
}
