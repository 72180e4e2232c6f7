//! unlink(2), unlinkat(2).

use crate::posix::prelude::*;

/// Every kind of object but a directory loses its name; what a symlink leads to stays.
#[test]
fn every_kind() {
    let d = area!();
    for (kind, path) in d.one_of_each() {
        if kind != "dir" {
            done(kind, unlink(&path));
            expect_errno!(lstat(&path), ENOENT);
            expect_errno!(unlink(&path), ENOENT);
        }
    }
    let f = d.file("f");
    ok!(unlink(d.symlink("f", "l")));
    ok!(unlink(d.symlink("dir", "m")));
    ok!(stat(&f));
    assert_eq!(ok!(names(d.path())), ["dir", "f"]);
}

/// A directory is EISDIR on Linux (POSIX: EPERM), for everybody; it stays.
#[test]
fn not_a_directory() {
    let d = area!();
    ok!(chmod(d.path(), 0o777));
    let dir = d.dir_of("dir", 0o777, ALICE.uid, ALICE.gid);
    expect_errno!(unlink(dir.path()), EISDIR | EPERM);
    ALICE.run(|| expect_errno!(unlink(dir.path()), EISDIR | EPERM));
    for path in ["dir/", "dir/.", "dir/.."] {
        refused(path, unlink(d.p(path)), &[libc::EISDIR, libc::EPERM, libc::EINVAL]);
    }
    ok!(stat(dir.path()));
}

/// A trailing slash on anything else is ENOTDIR.
#[test]
fn trailing_slash() {
    let d = area!();
    d.file("f");
    d.dir("dir");
    d.symlink("dir", "l");
    expect_errno!(unlink(d.p("f/")), ENOTDIR);
    expect_errno!(unlink(d.p("l/")), ENOTDIR | EISDIR);
    expect_errno!(unlink(d.p("f/x")), ENOTDIR);
    assert_eq!(ok!(names(d.path())), ["dir", "f", "l"]);
}

/// The directory must be writable and searchable (EACCES); the file's own bits and owner do not matter.
#[test]
fn permissions() {
    let d = area!();
    let dir = d.dir_of("d", 0o755, ALICE.uid, ALICE.gid);
    let f = dir.file_of("f", 0, 0, 0);
    for (mode, user) in [(0o500, ALICE), (0o600, ALICE), (0o077, ALICE), (0o755, BOB), (0o766, BOB)] {
        ok!(chmod(dir.path(), mode));
        user.run(|| refused(format!("{mode:o}"), unlink(&f), &[libc::EACCES]));
    }
    ok!(chmod(dir.path(), 0o300));
    ALICE.run(|| ok!(unlink(&f)));
}

/// A missing name is EACCES where one may not search, else ENOENT also where one may not write.
#[test]
fn missing_name() {
    let d = area!();
    let dir = d.dir_of("d", 0o755, 0, 0);
    BOB.run(|| expect_errno!(unlink(dir.p("x")), ENOENT));
    ok!(chmod(dir.path(), 0o766));
    BOB.run(|| expect_errno!(unlink(dir.p("x")), EACCES));
}

/// unlinkat starts from its descriptor; unknown flags are EINVAL.
#[test]
fn at_a_descriptor() {
    let d = area!();
    let dir = d.dir("d");
    let f = dir.file("f");
    let fd = ok!(open(dir.path(), O_PATH, 0));
    expect_errno!(unlinkat(&fd, "f", 1 << 20), EINVAL);
    ok!(rename(dir.path(), d.p("moved")));
    ok!(unlinkat(&fd, "f", 0));
    expect_errno!(unlinkat(&fd, "f", 0), ENOENT);
    expect_errno!(unlinkat(bad_fd(), "f", 0), EBADF);
    expect_errno!(lstat(&f), ENOENT);
}

/// Only the named link goes: the others, and the count, say so.
#[test]
fn one_of_many_names() {
    let d = area!();
    let f = d.file_with("f0", b"shared");
    for i in 1..5 {
        ok!(link(&f, d.p(format!("f{i}"))));
    }
    for i in 0..4 {
        ok!(unlink(d.p(format!("f{i}"))));
        assert_eq!((ok!(stat(d.p("f4"))).nlink, content(d.p("f4"))), (4 - i, b"shared".to_vec()));
    }
}

/// A name can be used again at once, for any kind of object.
#[test]
fn name_reused() {
    let d = area!();
    let path = d.p("x");
    for _ in 0..10 {
        d.file_with("x", b"old");
        ok!(unlink(&path));
        d.file("x");
        assert_eq!(content(&path), b"");
        ok!(unlink(&path));
        d.dir("x");
        ok!(rmdir(&path));
        d.symlink("target", "x");
        ok!(unlink(&path));
        ok!(mkfifo(&path, 0o600));
        ok!(unlink(&path));
    }
}

/// Thousands of names come and go; the directory is empty afterwards.
#[test]
fn many() {
    let d = area!();
    for i in 0..2000 {
        d.file(format!("f{i}"));
    }
    assert_eq!(ok!(names(d.path())).len(), 2000);
    for i in 0..2000 {
        ok!(unlink(d.p(format!("f{i}"))));
    }
    assert_eq!(ok!(names(d.path())).len(), 0);
}
