//! mkdir(2): what a new directory is, and when there is none.

use crate::posix::prelude::*;

/// A new directory is empty, has the asked mode, the caller's ids and two links; its parent gains one.
#[test]
fn new_directory() {
    let d = area!();
    ok!(chmod(d.path(), 0o777));
    let before = ok!(stat(d.path())).nlink;
    User { gid: TEAM, ..ALICE }.run(|| ok!(mkdir(d.p("sub"), 0o751)));
    let s = ok!(stat(d.p("sub")));
    assert_eq!((s.kind(), s.perm(), s.uid, s.gid, s.nlink), (S_IFDIR, 0o751, ALICE.uid, TEAM, 2));
    assert_eq!(ok!(names(d.p("sub"))).len(), 0);
    assert_eq!(ok!(stat(d.path())).nlink, before + 1);
}

/// mkdir takes the permission bits and the sticky bit; suid and setgid are not for mkdir to set.
#[test]
fn mode() {
    let d = area!();
    for (i, (mode, wanted)) in
        [(0, 0), (0o777, 0o777), (0o1777, 0o1777), (0o1000, 0o1000), (0o6755, 0o755), (0o7777, 0o1777)]
            .into_iter()
            .enumerate()
    {
        let sub = d.p(format!("d{i}"));
        ok!(mkdir(&sub, mode));
        assert_eq!(ok!(stat(&sub)).perm(), wanted, "mkdir({mode:o})");
    }
}

/// An existing name of whatever kind is EEXIST, a dangling symlink too, and stays as it is.
#[test]
fn existing_name() {
    let d = area!();
    for (_, path) in d.one_of_each() {
        let before = ok!(lstat(&path));
        expect_errno!(mkdir(&path, 0o755), EEXIST);
        assert_eq!(ok!(lstat(&path)), before);
    }
    for path in [d.p("."), d.p(".."), d.p("dir/."), d.p("dir/.."), PathBuf::from("/")] {
        expect_errno!(mkdir(path, 0o755), EEXIST);
    }
}

/// A trailing slash is allowed; "." of a directory that is not there is ENOENT.
#[test]
fn slashes() {
    let d = area!();
    ok!(mkdir(d.p("a/"), 0o755));
    ok!(mkdir(d.p("b//"), 0o755));
    expect_errno!(mkdir(d.p("missing/."), 0o755), ENOENT);
    expect_errno!(mkdir(d.p("missing/x"), 0o755), ENOENT);
    assert_eq!(ok!(names(d.path())), ["a", "b"]);
}

/// The parent must be writable and searchable (EACCES).
#[test]
fn permissions() {
    let d = area!();
    let dir = d.dir_of("d", 0o755, ALICE.uid, ALICE.gid);
    for (mode, allowed) in
        [(0o755, true), (0o700, true), (0o300, true), (0o500, false), (0o600, false), (0o200, false), (0o077, false)]
    {
        ok!(chmod(dir.path(), mode));
        let result = ALICE.run(|| mkdir(dir.p(format!("m{mode}")), 0o755));
        allowed_or(format!("mkdir in {mode:o}"), allowed, result, libc::EACCES);
    }
    ok!(chmod(dir.path(), 0o755));
    BOB.run(|| expect_errno!(mkdir(dir.p("bob"), 0o755), EACCES));
    ok!(mkdir(dir.p("root"), 0o755));
}

/// mkdirat starts from its descriptor.
#[test]
fn at_a_descriptor() {
    let d = area!();
    let dir = d.dir("d");
    let fd = ok!(open(dir.path(), O_RDONLY | O_DIRECTORY, 0));
    ok!(mkdirat(&fd, "sub", 0o755));
    ok!(rename(dir.path(), d.p("moved")));
    ok!(mkdirat(&fd, "sub/deeper", 0o755));
    assert_eq!(ok!(stat(d.p("moved/sub/deeper"))).kind(), S_IFDIR);
    let file = ok!(open(d.file("f"), O_RDONLY, 0));
    expect_errno!(mkdirat(&file, "x", 0o755), ENOTDIR);
    expect_errno!(mkdirat(bad_fd(), "x", 0o755), EBADF);
}

/// Each subdirectory counts as a link of its parent; files do not.
#[test]
fn link_count_of_the_parent() {
    let d = area!();
    for i in 0..300 {
        ok!(mkdir(d.p(format!("d{i}")), 0o755));
    }
    d.file("f");
    d.symlink("d0", "l");
    assert_eq!(ok!(stat(d.path())).nlink, 302);
    for i in 0..100 {
        ok!(rmdir(d.p(format!("d{i}"))));
    }
    assert_eq!(ok!(stat(d.path())).nlink, 202);
}

/// Directories nest deeply; ".." leads up each step.
#[test]
fn deep() {
    let d = area!();
    let mut path = d.path().to_path_buf();
    for i in 0..200 {
        path.push(format!("n{i}"));
        ok!(mkdir(&path, 0o755));
    }
    assert_eq!(ok!(stat(path.join(".."))).ino, ok!(stat(path.parent().expect("a parent"))).ino);
    let up = "../".repeat(200);
    assert_eq!(ok!(stat(path.join(up))).ino, ok!(stat(d.path())).ino);
}
