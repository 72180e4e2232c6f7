//! rmdir(2): what it removes and what it refuses.

use crate::posix::prelude::*;

/// An empty directory goes; its parent loses one link.
#[test]
fn removes() {
    let d = area!();
    let sub = d.dir("sub");
    let before = ok!(stat(d.path())).nlink;
    ok!(rmdir(sub.path()));
    expect_errno!(lstat(sub.path()), ENOENT);
    assert_eq!((ok!(names(d.path())).len(), ok!(stat(d.path())).nlink), (0, before - 1));
    expect_errno!(rmdir(sub.path()), ENOENT);
    ok!(rmdir(d.dir("slash").p("")));
}

/// A directory that holds anything is ENOTEMPTY (POSIX also allows EEXIST) and stays.
#[test]
fn not_empty() {
    let d = area!();
    let sub = d.dir("sub");
    let all = sub.one_of_each();
    for (kind, path) in all {
        refused(kind, rmdir(sub.path()), &[libc::ENOTEMPTY, libc::EEXIST]);
        ok!(if kind == "dir" { rmdir(&path) } else { unlink(&path) });
    }
    ok!(rmdir(sub.path()));
}

/// Everything that is not a directory is ENOTDIR, a symlink to one too, also with a trailing slash.
#[test]
fn not_a_directory() {
    let d = area!();
    for (kind, path) in d.one_of_each() {
        if kind != "dir" {
            refused(kind, rmdir(&path), &[libc::ENOTDIR]);
            ok!(lstat(&path));
        }
    }
    d.symlink("dir", "l");
    expect_errno!(rmdir(d.p("l")), ENOTDIR);
    expect_errno!(rmdir(d.p("l/")), ENOTDIR);
    expect_errno!(rmdir(d.p("file/")), ENOTDIR);
    ok!(stat(d.p("dir")));
}

/// "." is EINVAL, ".." ENOTEMPTY (POSIX also allows EEXIST and EINVAL), "/" EBUSY.
#[test]
fn dots() {
    let d = area!();
    d.dir("sub");
    expect_errno!(rmdir(d.p("sub/.")), EINVAL);
    expect_errno!(rmdir(d.p("sub/..")), ENOTEMPTY | EEXIST | EINVAL);
    expect_errno!(rmdir("/"), EBUSY);
    ok!(stat(d.p("sub")));
}

/// The parent must be writable and searchable (EACCES); the removed directory's own bits and owner do not matter.
#[test]
fn permissions() {
    let d = area!();
    let dir = d.dir_of("d", 0o755, ALICE.uid, ALICE.gid);
    let sub = dir.dir_of("sub", 0, 0, 0);
    for (mode, user) in [(0o500, ALICE), (0o600, ALICE), (0o077, ALICE), (0o755, BOB), (0o766, BOB)] {
        ok!(chmod(dir.path(), mode));
        user.run(|| refused(format!("{mode:o}"), rmdir(sub.path()), &[libc::EACCES]));
    }
    ok!(chmod(dir.path(), 0o300));
    ALICE.run(|| ok!(rmdir(sub.path())));
}

/// unlinkat(AT_REMOVEDIR) is rmdir; other flags are EINVAL.
#[test]
fn by_unlinkat() {
    let d = area!();
    let sub = d.dir("sub");
    let f = d.file("f");
    let fd = ok!(open(d.path(), O_RDONLY, 0));
    expect_errno!(unlinkat(&fd, "f", libc::AT_REMOVEDIR), ENOTDIR);
    expect_errno!(unlinkat(&fd, "sub", libc::AT_SYMLINK_NOFOLLOW), EINVAL);
    ok!(unlinkat(&fd, "sub", libc::AT_REMOVEDIR));
    expect_errno!(lstat(sub.path()), ENOENT);
    ok!(lstat(&f));
}

/// A directory that was full is empty again when all is unlinked or moved away, and can then be removed.
#[test]
fn emptied() {
    let d = area!();
    let sub = d.dir("sub");
    for i in 0..200 {
        sub.file(format!("f{i}"));
    }
    for i in 0..200 {
        expect_errno!(rmdir(sub.path()), ENOTEMPTY | EEXIST);
        let f = sub.p(format!("f{i}"));
        ok!(if i % 2 == 0 { unlink(&f) } else { rename(&f, d.p(format!("f{i}"))) });
    }
    ok!(rmdir(sub.path()));
    assert_eq!(ok!(names(d.path())).len(), 100);
}

/// A removed name can be made again: another, empty directory, whose number is not that of a removed one still open.
#[test]
fn name_reused() {
    let d = area!();
    for _ in 0..20 {
        let sub = d.dir("sub");
        assert_eq!(ok!(names(sub.path())).len(), 0);
        let held = ok!(open(sub.path(), O_RDONLY, 0));
        ok!(rmdir(sub.path()));
        let ino = ok!(fstat(&held)).ino;
        let again = ok!(stat(d.dir("sub").path())).ino;
        assert_ne!(ino, again);
        ok!(rmdir(sub.path()));
    }
}
