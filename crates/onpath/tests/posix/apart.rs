//! FIFOs, sockets and devices: the kernel asks no FUSE server who opens them or connects. Who may not, meets nobody.
//!
//! Where a local file system says EACCES a mount may say that nobody is there: ENXIO of a FIFO or device, ECONNREFUSED of a socket.

use crate::posix::prelude::*;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

/// The call must be refused.
#[track_caller]
fn kept_away<T>(what: &str, result: R<T>) {
    refused(what, result, &[libc::EACCES, libc::ENXIO, libc::ECONNREFUSED]);
}

fn os<T>(result: std::io::Result<T>) -> R<T> {
    result.map_err(|error| error.raw_os_error().expect("of the system"))
}

/// Write permission on a FIFO decides who sends; what others write, if they can open it at all, reaches nobody.
#[test]
fn fifos() {
    let d = area!();
    let p = d.p("p");
    ok!(mkfifo(&p, 0o600));
    let reader = ok!(open(&p, O_RDONLY | O_NONBLOCK, 0));
    for (mode, allowed) in [(0o600, false), (0o644, false), (0o622, true), (0o666, true), (0o606, true), (0o640, false)]
    {
        ok!(chmod(&p, mode));
        for _ in 0..10 {
            ok!(write(ok!(open(&p, O_WRONLY | O_NONBLOCK, 0)), "root"));
            assert_eq!(ok!(read(&reader, 10)), b"root");
            let sent = BOB.run(|| {
                let both = open(&p, O_RDWR | O_NONBLOCK, 0).and_then(|fd| write(&fd, "both"));
                assert!(allowed || both != Ok(4) || is_left_to_server(&d), "{mode:o}");
                open(&p, O_WRONLY | O_NONBLOCK, 0).and_then(|fd| write(&fd, "bob"))
            });
            if allowed {
                assert_eq!(sent, Ok(3), "{mode:o}");
                assert!(ok!(read(&reader, 10)).ends_with(b"bob"), "{mode:o}");
            } else {
                kept_away("a FIFO", sent);
                let nothing = read(&reader, 10);
                assert!(nothing == Ok(vec![]) || nothing == Err(libc::EAGAIN), "{mode:o}: {nothing:?}");
            }
        }
    }
}

/// A group and an ACL count, too.
#[test]
fn fifos_of_groups() {
    let d = area!();
    let p = d.p("p");
    ok!(mkfifo(&p, 0o620));
    ok!(chown(&p, 0, TEAM));
    let reader = ok!(open(&p, O_RDONLY | O_NONBLOCK, 0));
    let send = || open(&p, O_WRONLY | O_NONBLOCK, 0).and_then(|fd| write(&fd, "x"));
    kept_away("not in the group", BOB.run(send));
    ok!(BOB_IN_TEAM.run(send));
    assert_eq!(ok!(read(&reader, 10)), b"x");
    ALICE.run(|| kept_away("not in the group", send()));
}

/// What everybody sees of one is the same, whoever may open it; its owner can change it without being allowed to open it.
#[test]
fn attributes() {
    let d = area!();
    ok!(chmod(d.path(), 0o777));
    let (p, s) = (d.p("p"), d.p("s"));
    ok!(mkfifo(&p, 0o600));
    let _listener = UnixListener::bind(&s).expect("bind");
    ok!(chmod(&s, 0o600));
    for path in [&p, &s] {
        let seen = ok!(lstat(path));
        for _ in 0..3 {
            assert_eq!(BOB.run(|| ok!(lstat(path))), seen);
            assert_eq!(ok!(lstat(path)), seen);
        }
        ok!(lchown(path, ALICE.uid, ALICE.gid));
        ok!(chmod(path, 0));
        ALICE.run(|| {
            ok!(link(path, d.p("link")));
            ok!(chmod(path, 0o240));
            assert_eq!(ok!(lstat(path)).perm(), 0o240);
            ok!(rename(d.p("link"), d.p("moved")));
        });
        let now = ok!(lstat(d.p("moved")));
        assert_eq!((now.ino, now.perm(), now.nlink), (seen.ino, 0o240, 2));
        ALICE.run(|| ok!(unlink(d.p("moved"))));
        assert_eq!(ok!(lstat(path)).nlink, 1);
    }
}

/// Connecting and sending to a socket need write permission.
#[test]
fn sockets() {
    let d = area!();
    let (s, g) = (d.p("s"), d.p("g"));
    let listener = UnixListener::bind(&s).expect("bind");
    let receiver = UnixDatagram::bind(&g).expect("bind");
    receiver.set_nonblocking(true).expect("a socket");
    for (mode, allowed) in [(0o600, false), (0o755, false), (0o777, true), (0o602, true), (0o660, false)] {
        for path in [&s, &g] {
            ok!(chmod(path, mode));
        }
        for _ in 0..10 {
            UnixStream::connect(&s).expect("root connects");
            let (connected, sent) = BOB.run(|| {
                let socket = UnixDatagram::unbound().expect("a socket");
                (os(UnixStream::connect(&s)), os(socket.send_to(b"bob", &g)))
            });
            if allowed {
                ok!(connected);
                ok!(sent);
            } else {
                kept_away("connect", connected);
                kept_away("sendto", sent);
            }
            assert_eq!(receiver.recv(&mut [0; 10]).is_ok(), allowed, "{mode:o}");
            for _ in 0..1 + usize::from(allowed) {
                listener.accept().expect("a connection");
            }
        }
    }
    // Who binds is the owner, whatever the umask leaves.
    ok!(chmod(d.path(), 0o777));
    with_umask(0o777, || {
        ALICE.run(|| drop(UnixListener::bind(d.p("mine")).expect("bind")));
    });
}

/// A device is for who may read and write it; to others it is none at all.
#[test]
fn devices() {
    let d = area!();
    let zero = d.p("zero");
    ok!(mknod(&zero, S_IFCHR | 0o600, libc::makedev(1, 5)));
    if !is_fuse(&d) && open(&zero, O_RDONLY, 0).is_err() {
        return; // mounted with nodev
    }
    for (mode, allowed) in [(0o600, false), (0o666, true), (0o660, false)] {
        ok!(chmod(&zero, mode));
        assert_eq!(ok!(read(ok!(open(&zero, O_RDONLY, 0)), 3)), [0; 3], "root");
        let opened = BOB.run(|| open(&zero, O_RDWR, 0).and_then(|fd| read(&fd, 3)));
        if allowed {
            assert_eq!(opened, Ok(vec![0; 3]));
        } else {
            kept_away("a device", opened);
        }
        let seen = BOB.run(|| ok!(stat(&zero)));
        assert!(seen.rdev == libc::makedev(1, 5) || !allowed && is_left_to_server(&d), "{:#x}", seen.rdev);
    }
}
