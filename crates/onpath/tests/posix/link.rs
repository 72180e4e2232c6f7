//! link(2): names of one inode, their count, and what cannot be linked.

use crate::posix::prelude::*;

/// link makes a second name of the same inode, for every kind of object but a directory; a symlink is linked itself.
#[test]
fn second_name() {
    let d = area!();
    for (kind, old) in d.one_of_each() {
        if kind == "dir" {
            continue;
        }
        let new = d.p(format!("{kind}-2"));
        ok!(link(&old, &new));
        let (a, b) = (ok!(lstat(&old)), ok!(lstat(&new)));
        assert_eq!(a, b, "{kind}");
        assert_eq!(a.nlink, 2, "{kind}");
        ok!(unlink(&old));
        assert_eq!(ok!(lstat(&new)).nlink, 1, "{kind}");
        expect_errno!(lstat(&old), ENOENT);
    }
}

/// What is changed through one name is seen through all.
#[test]
fn one_inode() {
    let d = area!();
    let a = d.file_with("a", b"one");
    let b = d.dir("sub").p("b");
    ok!(link(&a, &b));
    ok!(chmod(&b, 0o4711));
    ok!(chown(&a, 1, 2));
    ok!(chmod(&b, 0o4711));
    ok!(pwrite(ok!(open(&b, O_WRONLY, 0)), "more than one", 0));
    assert_eq!(content(&a), b"more than one");
    ok!(truncate(&a, 4));
    ok!(utimens(&b, [at(5, 6), at(7, 8)]));
    assert_eq!(ok!(stat(&a)), ok!(stat(&b)));
    let s = ok!(stat(&a));
    assert_eq!((s.perm(), s.uid, s.gid, s.size, s.mtime), (0o4711, 1, 2, 4, at(7, 8)));
}

/// The count goes up and down with each name; the last unlink frees the inode.
#[test]
fn counts() {
    let d = area!();
    let f = d.file_with("f", b"x");
    let dirs = [d.dir("d1"), d.dir("d2")];
    for i in 0..600 {
        ok!(link(&f, dirs[i % 2].p(format!("n{i}"))));
    }
    assert_eq!(ok!(stat(&f)).nlink, 601);
    for i in 0..600 {
        ok!(unlink(dirs[i % 2].p(format!("n{i}"))));
    }
    assert_eq!(ok!(stat(&f)).nlink, 1);
    for dir in dirs {
        ok!(rmdir(dir.path()));
    }
}

/// The file lives on when the directory of its first name is gone.
#[test]
fn outlives_its_first_directory() {
    let d = area!();
    let first = d.dir("first");
    let f = first.file_with("f", b"kept");
    let second = d.dir("second").p("g");
    ok!(link(&f, &second));
    ok!(unlink(&f));
    ok!(rmdir(first.path()));
    assert_eq!(content(&second), b"kept");
    ok!(rename(&second, d.p("h")));
    ok!(link(d.p("h"), &second));
    assert_eq!(ok!(stat(&second)).nlink, 2);
}

/// With AT_SYMLINK_FOLLOW the target is linked instead of the symlink.
#[test]
fn follows_when_asked() {
    let d = area!();
    let f = d.file("f");
    let l = d.symlink("f", "l");
    ok!(linkat(&l, d.p("hard"), libc::AT_SYMLINK_FOLLOW));
    assert_eq!(ok!(lstat(d.p("hard"))).ino, ok!(stat(&f)).ino);
    ok!(linkat(&l, d.p("soft"), 0));
    assert_eq!(ok!(readlink(d.p("soft"))), "f");
    expect_errno!(linkat(d.symlink("nowhere", "dangling"), d.p("x"), libc::AT_SYMLINK_FOLLOW), ENOENT);
    expect_errno!(linkat(&f, d.p("x"), libc::AT_SYMLINK_NOFOLLOW), EINVAL);
}

/// A directory cannot be linked (EPERM), by root or owner.
#[test]
fn not_a_directory() {
    let d = area!();
    let dir = d.dir_of("d", 0o777, ALICE.uid, ALICE.gid);
    ok!(chmod(d.path(), 0o777));
    expect_errno!(link(dir.path(), d.p("x")), EPERM);
    ALICE.run(|| expect_errno!(link(dir.path(), d.p("x")), EPERM));
    expect_errno!(lstat(d.p("x")), ENOENT);
    assert_eq!(ok!(stat(dir.path())).nlink, 2);
}

/// An existing name is not replaced (EEXIST), whatever it is, even the file itself.
#[test]
fn existing_destination() {
    let d = area!();
    let f = d.file("f");
    for (_, path) in d.one_of_each() {
        let before = ok!(lstat(&path));
        expect_errno!(link(&f, &path), EEXIST);
        assert_eq!(ok!(lstat(&path)), before);
    }
    expect_errno!(link(&f, &f), EEXIST);
    assert_eq!(ok!(stat(&f)).nlink, 1);
}

/// A missing source is ENOENT; a trailing slash is ENOTDIR on the source and ENOENT on the new name.
#[test]
fn missing_or_with_a_slash() {
    let d = area!();
    let f = d.file("f");
    expect_errno!(link(d.p("missing"), d.p("x")), ENOENT);
    expect_errno!(link(d.p("f/"), d.p("x")), ENOTDIR);
    expect_errno!(link(&f, d.p("x/")), ENOENT);
    expect_errno!(link(&f, d.p("missing/x")), ENOENT);
    expect_errno!(link(&f, d.p("f/x")), ENOTDIR);
}

/// The destination's directory must be writable (EACCES), the source's only searchable.
#[test]
fn permissions() {
    let d = area!();
    let from = d.dir_of("from", 0o755, 0, 0);
    let to = d.dir_of("to", 0o755, 0, 0);
    let mine = d.dir_of("mine", 0o755, ALICE.uid, ALICE.gid);
    let f = from.file_of("f", 0o644, ALICE.uid, ALICE.gid);
    ALICE.run(|| {
        expect_errno!(link(&f, to.p("x")), EACCES);
        ok!(link(&f, mine.p("x")));
    });
    ok!(chmod(from.path(), 0o600));
    ALICE.run(|| expect_errno!(link(&f, mine.p("y")), EACCES));
    ok!(chmod(mine.path(), 0o500));
    ALICE.run(|| expect_errno!(link(mine.p("x"), mine.p("y")), EACCES));
    ok!(chmod(mine.path(), 0o300));
    ALICE.run(|| ok!(link(mine.p("x"), mine.p("y"))));
    assert_eq!(ok!(stat(&f)).nlink, 3);
}

/// Names on another file system cannot be links (EXDEV).
#[test]
fn across_file_systems() {
    let d = area!();
    let f = d.file("f");
    let Some(other) = other_fs(&d) else { return };
    expect_errno!(link(&f, other.path().join("x")), EXDEV);
    std::fs::write(other.path().join("y"), "y").expect("a file on the other file system");
    expect_errno!(link(other.path().join("y"), d.p("y")), EXDEV);
}

/// A file that lost its last name cannot get one again by its descriptor's path (ENOENT).
#[test]
fn not_without_a_name() {
    let d = area!();
    let f = d.file("f");
    let fd = ok!(open(&f, O_RDWR, 0));
    ok!(unlink(&f));
    expect_errno!(linkat(fd_path(&fd), d.p("again"), libc::AT_SYMLINK_FOLLOW), ENOENT);
}

/// While a file has a name, its descriptor's path may be linked.
#[test]
fn by_descriptor() {
    let d = area!();
    let f = d.file_with("f", b"data");
    let fd = ok!(open(&f, O_RDWR, 0));
    ok!(linkat(fd_path(&fd), d.p("again"), libc::AT_SYMLINK_FOLLOW));
    ok!(unlink(&f));
    assert_eq!(content(d.p("again")), b"data");
    assert_eq!(ok!(fstat(&fd)).nlink, 1);
}
