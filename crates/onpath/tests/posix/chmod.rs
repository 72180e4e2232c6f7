//! chmod(2), fchmod(2): which bits are set, by whom, and what follows.

use crate::posix::prelude::*;

/// chmod sets exactly the twelve mode bits, on every kind of object.
#[test]
fn sets_the_mode_bits() {
    let d = area!();
    for (kind, path) in d.one_of_each() {
        if kind == "symlink" {
            continue;
        }
        for mode in [0, 0o111, 0o222, 0o444, 0o640, 0o755, 0o777, 0o1777, 0o2755, 0o4755, 0o7777] {
            ok!(chmod(&path, mode));
            assert_eq!(ok!(stat(&path)).perm(), mode, "{kind}");
        }
    }
}

/// chmod leaves kind, owner, size and links alone.
#[test]
fn leaves_the_rest() {
    let d = area!();
    let f = d.file_with("f", b"12345");
    ok!(chown(&f, ALICE.uid, TEAM));
    let before = ok!(stat(&f));
    ok!(chmod(&f, 0o600));
    let after = ok!(stat(&f));
    assert_eq!(
        (after.kind(), after.uid, after.gid, after.size, after.nlink, after.ino),
        (S_IFREG, ALICE.uid, TEAM, 5, 1, before.ino)
    );
}

/// Bits outside 07777 are ignored: the kind cannot be changed.
#[test]
fn ignores_other_bits() {
    let d = area!();
    let f = d.file("f");
    ok!(chmod(&f, S_IFDIR | 0o640));
    assert_eq!(ok!(stat(&f)).mode, S_IFREG | 0o640);
}

/// chmod follows symlinks; the link's own mode stays 0777.
#[test]
fn follows_symlinks() {
    let d = area!();
    let f = d.file("f");
    let l = d.symlink("f", "l");
    ok!(chmod(&l, 0o600));
    assert_eq!((ok!(stat(&f)).perm(), ok!(lstat(&l)).perm()), (0o600, 0o777));
    expect_errno!(chmod(d.symlink("nowhere", "dangling"), 0o600), ENOENT);
}

/// The mode of a symlink itself cannot be changed (EOPNOTSUPP), and stays.
#[test]
fn not_on_a_symlink_itself() {
    let d = area!();
    let l = d.symlink("f", "l");
    expect_errno!(fchmodat2(&l, 0o600, libc::AT_SYMLINK_NOFOLLOW), EOPNOTSUPP);
    assert_eq!(ok!(lstat(&l)).perm(), 0o777);
}

/// fchmod works on a descriptor, also of a file that has no name any more, also on a read-only one; not on O_PATH (EBADF).
#[test]
fn by_descriptor() {
    let d = area!();
    let f = d.file("f");
    let fd = ok!(open(&f, O_RDONLY, 0));
    ok!(fchmod(&fd, 0o6711));
    assert_eq!(ok!(stat(&f)).perm(), 0o6711);
    expect_errno!(fchmod(ok!(open(&f, O_PATH, 0)), 0o600), EBADF);
    expect_errno!(fchmod(bad_fd(), 0o600), EBADF);
    ok!(unlink(&f));
    ok!(fchmod(&fd, 0o604));
    assert_eq!(ok!(fstat(&fd)).perm(), 0o604);
    let dir = d.dir("d");
    ok!(fchmod(ok!(open(dir.path(), O_RDONLY, 0)), 0o711));
    assert_eq!(ok!(stat(dir.path())).perm(), 0o711);
}

/// The owner may chmod any kind of object, whatever its mode.
#[test]
fn by_the_owner() {
    let d = area!();
    for (kind, path) in d.one_of_each() {
        if kind == "symlink" {
            continue;
        }
        ok!(chown(&path, ALICE.uid, ALICE.gid));
        ok!(chmod(&path, 0));
        ALICE.run(|| ok!(chmod(&path, 0o4751)));
        assert_eq!(ok!(stat(&path)).perm(), 0o4751, "{kind}");
    }
}

/// Nobody else may (EPERM), not even a member of the group who may write.
#[test]
fn not_by_others() {
    let d = area!();
    for (kind, path) in d.one_of_each() {
        if kind == "symlink" {
            continue;
        }
        ok!(chown(&path, ALICE.uid, TEAM));
        ok!(chmod(&path, 0o777));
        for user in [BOB, BOB_IN_TEAM, User { gid: TEAM, ..BOB }] {
            user.run(|| expect_errno!(chmod(&path, 0o777), EPERM));
        }
        assert_eq!(ok!(stat(&path)).perm(), 0o777, "{kind}");
    }
    let f = d.file_of("f", 0o666, ALICE.uid, ALICE.gid);
    BOB.run(|| expect_errno!(fchmod(ok!(open(&f, O_RDWR, 0)), 0o600), EPERM));
    let dangling = d.p("symlink");
    BOB.run(|| expect_errno!(chmod(&dangling, 0o777), ENOENT));
}

/// An owner who is not in the object's group loses S_ISGID silently; a member by primary or supplementary group keeps it.
#[test]
fn setgid_needs_membership() {
    let d = area!();
    for (name, mode) in [("f", 0o2755), ("g", 0o2644)] {
        let f = d.file_of(name, 0o644, ALICE.uid, TEAM);
        for (user, wanted) in [(ALICE, mode & 0o777), (ALICE_IN_TEAM, mode), (User { gid: TEAM, ..ALICE }, mode)] {
            ok!(chmod(&f, 0));
            user.run(|| ok!(chmod(&f, mode)));
            assert_eq!(ok!(stat(&f)).perm(), wanted, "{name} by {user:?}");
        }
    }
    let dir = d.dir_of("d", 0o755, ALICE.uid, TEAM);
    ALICE.run(|| ok!(chmod(dir.path(), 0o2755)));
    assert_eq!(ok!(stat(dir.path())).perm(), 0o755);
    ALICE_IN_TEAM.run(|| ok!(chmod(dir.path(), 0o2755)));
    assert_eq!(ok!(stat(dir.path())).perm(), 0o2755);
}

/// The owner may set suid and the sticky bit, on files and directories.
#[test]
fn suid_and_sticky_by_the_owner() {
    let d = area!();
    let f = d.file_of("f", 0o644, ALICE.uid, ALICE.gid);
    let dir = d.dir_of("d", 0o755, ALICE.uid, ALICE.gid);
    ALICE.run(|| {
        for mode in [0o4644, 0o1644, 0o7777] {
            ok!(chmod(&f, mode));
            ok!(chmod(dir.path(), mode));
            assert_eq!((ok!(stat(&f)).perm(), ok!(stat(dir.path())).perm()), (mode, mode));
        }
    });
}

/// A new mode decides from the next call on: opening, searching, listing.
#[test]
fn decides_at_once() {
    let d = area!();
    let dir = d.dir_of("d", 0o755, ALICE.uid, ALICE.gid);
    let f = dir.file_of("f", 0o644, ALICE.uid, ALICE.gid);
    BOB.run(|| {
        ok!(open(&f, O_RDONLY, 0));
        ALICE.run(|| ok!(chmod(&f, 0o600)));
        expect_errno!(open(&f, O_RDONLY, 0), EACCES);
        ALICE.run(|| ok!(chmod(dir.path(), 0o744)));
        expect_errno!(stat(&f), EACCES);
        ok!(names(dir.path()));
        ALICE.run(|| ok!(chmod(dir.path(), 0o711)));
        ok!(stat(&f));
        expect_errno!(names(dir.path()), EACCES);
    });
}

/// A descriptor keeps the access it was opened with, whatever the mode becomes.
#[test]
fn open_descriptors_keep_their_access() {
    let d = area!();
    let f = d.file_of("f", 0o666, ALICE.uid, ALICE.gid);
    let dir = d.dir_of("d", 0o777, ALICE.uid, ALICE.gid);
    dir.file("in");
    BOB.run(|| {
        let fd = ok!(open(&f, O_RDWR, 0));
        let list = ok!(open(dir.path(), O_RDONLY, 0));
        ALICE.run(|| {
            ok!(chmod(&f, 0));
            ok!(chmod(dir.path(), 0));
        });
        assert_eq!(ok!(write(&fd, "late")), 4);
        assert_eq!(ok!(pread(&fd, 10, 0)), b"late");
        ok!(ftruncate(&fd, 2));
        assert_eq!(ok!(entries(&list)).len(), 1);
        expect_errno!(openat(&list, "in", O_RDONLY, 0), EACCES);
    });
}
