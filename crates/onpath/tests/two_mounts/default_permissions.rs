//! `-o default_permissions`: the kernel decides about permissions as well, as it does on a local disk, where the same is tried.

use crate::common::check::Dir;
use crate::common::sys::{self, chdir, chmod, fchmod, mkdir, mkfifo, open, stat};
use crate::common::user::{ALICE, BOB, ROOT, in_thread};
use crate::common::wait_until;
use crate::common::xattr::{ACCESS, acl, acl_text, fgetxattr, removexattr, setxattr};
use crate::two_mounts::Pair;
use crate::{expect_errno, ok};
use libc::{EACCES, ENODATA, ESTALE, O_DIRECTORY, O_NONBLOCK, O_PATH, O_RDONLY, O_RDWR, O_WRONLY};
use std::os::unix::net::{UnixListener, UnixStream};

/// A directory on a local disk, on each of two mounts, and on one that is alone.
fn everywhere(test: &str, check: impl Fn(&Dir)) {
    let Some(pair) = Pair::with_default_permissions(test) else { return };
    let local = pair.site.root().join("local");
    ok!(mkdir(&local, 0o755));
    check(&Dir::at(local));
    for (mount, name) in [(0, "a"), (1, "b")] {
        check(&Dir::at(pair.mounts[mount].path().to_path_buf()).dir(name));
    }
    let Pair { site, mounts: [first, second] } = pair;
    let before = site.status().sum("shard", &["alone_given"]);
    second.stop();
    site.wait_alone(before);
    check(&Dir::at(first.path().to_path_buf()).dir("alone"));
    first.stop();
    site.assert_clean(test);
}

/// Who may not search a directory gets from it neither to itself nor to its parent, whether it is named or worked in.
#[test]
fn dots_of_a_closed_directory() {
    everywhere("dots with default_permissions", |dir| {
        let closed = dir.dir_of("closed", 0o766, 0, 0);
        for _ in 0..3 {
            ok!(stat(closed.p(".")));
            ALICE.run(|| {
                ok!(stat(closed.path()));
                for dots in [".", "..", "./.", "../closed"] {
                    expect_errno!(stat(closed.p(dots)), EACCES);
                    expect_errno!(open(closed.p(dots), O_PATH, 0), EACCES);
                }
                expect_errno!(chdir(closed.path()), EACCES);
            });
        }
        let worked_in = dir.dir_of("worked_in", 0o755, 0, 0);
        ALICE.run(|| {
            ok!(chdir(worked_in.path()));
            ok!(stat("."));
            ok!(chmod_as_root(&worked_in, 0o744));
            for dots in [".", "..", "../worked_in"] {
                expect_errno!(stat(dots), EACCES);
            }
            ok!(chmod_as_root(&worked_in, 0o711));
            ok!(stat(".."));
        });
    });
}

fn chmod_as_root(dir: &Dir, mode: u32) -> sys::R {
    ROOT.run(|| chmod(dir.path(), mode))
}

/// An ACL grants what the mode does not, denies what it grants, and its mask limits it.
#[test]
fn an_acl_counts() {
    everywhere("ACLs with default_permissions", |dir| {
        let granted = dir.dir_of("granted", 0o700, 0, 0);
        let file = granted.file_of("f", 0o600, 0, 0);
        let try_both = || [stat(granted.p(".")).map(drop), open(&file, O_RDWR, 0).map(drop)];
        let refused = [Err(EACCES), Err(EACCES)];
        for _ in 0..3 {
            assert_eq!(BOB.run(try_both), refused);
            for (path, bits) in [(granted.path(), "x"), (&file, "rw")] {
                ok!(setxattr(path, ACCESS, acl(&format!("u::rwx,u:{}:{bits},g::-,m::rwx,o::-", BOB.uid))));
            }
            assert_eq!(BOB.run(try_both), [Ok(()), Ok(())]);
            assert_eq!(ALICE.run(try_both), refused);
            // The group's bits of the mode are the mask.
            ok!(chmod(&file, 0o640));
            assert_eq!(BOB.run(try_both), [Ok(()), Err(EACCES)]);
            ok!(chmod(granted.path(), 0o700));
            assert_eq!(BOB.run(try_both), refused);
            for path in [granted.path(), &file] {
                ok!(setxattr(path, ACCESS, acl(&format!("u::rwx,u:{}:-,g::rwx,m::rwx,o::rwx", BOB.uid))));
            }
            assert_eq!(BOB.run(try_both), refused);
            assert_eq!(ALICE.run(try_both), [Ok(()), Ok(())]);
            for (path, mode) in [(granted.path(), 0o700), (&file, 0o600)] {
                ok!(removexattr(path, ACCESS));
                ok!(chmod(path, mode));
            }
        }
    });
}

/// Who may not open one is told so; who may only read a FIFO reads what others write.
#[test]
fn fifos_and_sockets() {
    everywhere("FIFOs with default_permissions", |dir| {
        let (fifo, socket) = (dir.p("p"), dir.p("s"));
        ok!(mkfifo(&fifo, 0o600));
        let listener = UnixListener::bind(&socket).expect("bind");
        ok!(chmod(&socket, 0o700));
        let connects = || UnixStream::connect(&socket).map(drop).map_err(|error| error.raw_os_error());
        let writer = ok!(open(&fifo, O_RDWR | O_NONBLOCK, 0));
        for _ in 0..3 {
            BOB.run(|| {
                for how in [O_RDONLY, O_WRONLY, O_RDWR] {
                    expect_errno!(open(&fifo, how | O_NONBLOCK, 0), EACCES);
                }
                assert_eq!(connects(), Err(Some(EACCES)));
            });
        }
        ok!(chmod(&fifo, 0o604));
        ok!(chmod(&socket, 0o702));
        ok!(sys::write(&writer, "to read"));
        BOB.run(|| {
            expect_errno!(open(&fifo, O_WRONLY | O_NONBLOCK, 0), EACCES);
            let reader = ok!(open(&fifo, O_RDONLY | O_NONBLOCK, 0));
            assert_eq!(ok!(sys::read(&reader, 10)), b"to read");
            assert_eq!(connects(), Ok(()));
        });
        listener.accept().expect("a connection");
    });
}

/// What the other mount grants or takes by mode or ACL counts here when its call has returned, for what has been looked up or opened before too.
#[test]
fn changes_by_the_other_mount_count_at_once() {
    let Some(pair) = Pair::with_default_permissions("chmod by the other mount with default_permissions") else {
        return;
    };
    for changing in [0, 1] {
        let [dirs, files] = [format!("d{changing}"), format!("d{changing}/f")].map(|name| pair.both(&name));
        ok!(mkdir(&dirs[changing], 0o755));
        std::fs::write(&files[changing], "x").expect("write");
        let (dir, file) = (&dirs[1 - changing], &files[1 - changing]);
        let handle = ok!(open(dir, O_RDONLY | O_DIRECTORY, 0));
        let try_all = || {
            let by_name = stat(dir.join(".")).map(drop);
            let by_handle = sys::openat(&handle, ".", O_PATH, 0).map(drop);
            [by_name, by_handle, open(file, O_RDONLY, 0).map(drop)]
        };
        let (granted, refused) = ([Ok(()); 3], [Err(EACCES); 3]);
        let denying = acl(&format!("u::rwx,u:{}:-,g::rx,m::rwx,o::rx", BOB.uid));
        for _ in 0..30 {
            assert_eq!(BOB.run(try_all), granted);
            ok!(chmod(&dirs[changing], 0o744));
            assert_eq!(BOB.run(try_all), refused);
            ok!(chmod(&dirs[changing], 0o755));
            assert_eq!(BOB.run(try_all), granted);
            ok!(setxattr(&dirs[changing], ACCESS, &denying));
            assert_eq!((BOB.run(try_all), ALICE.run(try_all)), (refused, granted));
            ok!(removexattr(&dirs[changing], ACCESS));
            ok!(chmod(&dirs[changing], 0o755));
        }
    }
    pair.stop("chmod by the other mount");
}

/// What the kernel decides by without asking is as old as its last look at the inode: what it is asked to set through a descriptor, and the ACL that
/// one shows. Who gained the right to is refused until somebody looks; who lost it is refused by the server.
#[test]
fn through_a_descriptor_the_last_look_decides() {
    let Some(pair) = Pair::with_default_permissions("descriptors with default_permissions") else { return };
    let [here, there] = pair.both("f");
    std::fs::write(&here, "x").expect("write");
    ok!(sys::chown(&here, ALICE.uid, ALICE.gid));
    let open = ok!(open(&there, O_RDWR, 0));
    assert_eq!(fgetxattr(&open, ACCESS), Err(ENODATA));
    ok!(sys::chown(&here, BOB.uid, BOB.gid));
    ok!(setxattr(&here, ACCESS, acl("u::rw,u:1:r,g::r,m::r,o::-")));
    let change = || fchmod(&open, 0o640);
    expect_errno!(BOB.run(change), EPERM);
    expect_errno!(ALICE.run(change), EPERM);
    assert_eq!(fgetxattr(&open, ACCESS), Err(ENODATA));
    ok!(stat(&there));
    ok!(BOB.run(change));
    assert_eq!(acl_text(&ok!(fgetxattr(&open, ACCESS))), "u::rw,u:1:r,g::r,m::r,o::-");
    drop(open);
    pair.stop("after descriptors with default_permissions");
}

/// A working directory that the other mount has removed has no attributes to decide by, once nobody has it open: it is left by an absolute path.
#[test]
fn removed_working_directories() {
    let Some(pair) = Pair::with_default_permissions("removed working directories with default_permissions") else {
        return;
    };
    let [here, there] = pair.both("d");
    ok!(mkdir(&here, 0o755));
    in_thread(|| {
        ok!(chdir(&there));
        ok!(sys::rmdir(&here));
        wait_until("it is gone here as well", || stat(".") == Err(ESTALE));
        expect_errno!(chdir(".."), ESTALE);
        ok!(chdir(there.parent().expect("a mount")));
    });
    pair.stop("after removed working directories with default_permissions");
}
