//! rename(2) refused: the errno, and that nothing has changed.

use crate::posix::prelude::*;

/// Directory onto a directory that is not empty: ENOTEMPTY (POSIX also allows EEXIST), whatever is in it.
#[test]
fn onto_a_full_directory() {
    let d = area!();
    let old = d.dir("old");
    for kind in ["file", "dir", "symlink", "fifo"] {
        let new = d.dir(kind);
        let made = match kind {
            "file" => mknod(new.p("x"), S_IFREG | 0o644, 0),
            "dir" => mkdir(new.p("x"), 0o755),
            "symlink" => symlink("y", new.p("x")),
            _ => mkfifo(new.p("x"), 0o644),
        };
        ok!(made);
        moves(kind, &[(old.path(), ""), (new.path(), ""), (d.path(), "")], || {
            expect_errno!(rename(old.path(), new.path()), ENOTEMPTY | EEXIST);
        });
        assert_eq!(ok!(names(new.path())), ["x"]);
    }
}

/// A non-directory onto a directory is EISDIR, a directory onto a non-directory ENOTDIR.
#[test]
fn kinds_differ() {
    let d = area!();
    let dir = d.dir("empty");
    for (kind, path) in d.one_of_each() {
        if kind == "dir" {
            continue;
        }
        moves(kind, &[(&path, ""), (dir.path(), ""), (d.path(), "")], || {
            refused(kind, rename(&path, dir.path()), &[libc::EISDIR]);
            refused(kind, rename(dir.path(), &path), &[libc::ENOTDIR]);
        });
    }
}

/// A directory cannot move below itself (EINVAL).
#[test]
fn into_itself() {
    let d = area!();
    let a = d.dir("a");
    let deep = a.dir("b").dir("c");
    for new in [a.p("x"), a.p("b/x"), deep.p("x"), deep.path().to_path_buf(), a.p("b/../x")] {
        expect_errno!(rename(a.path(), &new), EINVAL);
    }
    d.symlink("a/b", "l");
    expect_errno!(rename(a.path(), d.p("l/x")), EINVAL);
    assert_eq!(ok!(names(a.path())), ["b"]);
}

/// Nothing can replace a directory that it lies in (ENOTEMPTY, EEXIST; EISDIR for a file).
#[test]
fn onto_an_ancestor() {
    let d = area!();
    let a = d.dir("a");
    let b = a.dir("b");
    b.dir("c");
    b.file("f");
    expect_errno!(rename(b.p("c"), a.path()), ENOTEMPTY | EEXIST);
    expect_errno!(rename(b.p("c"), b.path()), ENOTEMPTY | EEXIST);
    expect_errno!(rename(b.p("f"), b.path()), EISDIR | ENOTEMPTY | EEXIST);
}

/// "." and ".." cannot be renamed or replaced (EBUSY or EINVAL).
#[test]
fn dots() {
    let d = area!();
    d.dir("a");
    d.dir("b");
    for (old, new) in [("a/.", "c"), ("a/..", "c"), ("a", "b/."), ("a", "b/..")] {
        refused(format!("{old} → {new}"), rename(d.p(old), d.p(new)), &[libc::EBUSY, libc::EINVAL]);
    }
}

/// A trailing slash on a non-directory, old or new, is ENOTDIR; so is one on a new name for a file.
#[test]
fn slashes_of_files() {
    let d = area!();
    let f = d.file("f");
    d.file("g");
    d.symlink("f", "l");
    for (old, new) in [("f/", "x"), ("f", "x/"), ("f", "g/"), ("l/", "x"), ("f/.", "x")] {
        refused(format!("{old} → {new}"), rename(d.p(old), d.p(new)), &[libc::ENOTDIR]);
    }
    ok!(stat(&f));
}

/// A missing source, or a missing directory on either way, is ENOENT; an empty path too.
#[test]
fn missing() {
    let d = area!();
    let f = d.file("f");
    expect_errno!(rename(d.p("missing"), d.p("x")), ENOENT);
    expect_errno!(rename(d.p("missing"), &f), ENOENT);
    expect_errno!(rename(d.p("missing/y"), d.p("x")), ENOENT);
    expect_errno!(rename(&f, d.p("missing/x")), ENOENT);
    expect_errno!(rename("", d.p("x")), ENOENT);
    expect_errno!(rename(&f, ""), ENOENT);
    ok!(stat(&f));
}

/// Another file system is EXDEV.
#[test]
fn across_file_systems() {
    let d = area!();
    let Some(other) = other_fs(&d) else { return };
    for (kind, path) in d.one_of_each() {
        refused(kind, rename(&path, other.path().join(kind)), &[libc::EXDEV]);
        ok!(lstat(&path));
    }
    std::fs::write(other.path().join("y"), "y").expect("a file on the other file system");
    expect_errno!(rename(other.path().join("y"), d.p("y")), EXDEV);
}

/// Both directories must be writable and searchable (EACCES).
#[test]
fn permissions() {
    let d = area!();
    let (from, to) = (d.dir_of("from", 0o755, ALICE.uid, ALICE.gid), d.dir_of("to", 0o755, ALICE.uid, ALICE.gid));
    from.file_of("f", 0, 0, 0);
    to.file_of("g", 0, 0, 0);
    for (from_mode, to_mode) in
        [(0o500, 0o700), (0o700, 0o500), (0o600, 0o700), (0o700, 0o600), (0o077, 0o700), (0o700, 0o077)]
    {
        ok!(chmod(from.path(), from_mode));
        ok!(chmod(to.path(), to_mode));
        ALICE.run(|| {
            refused(format!("{from_mode:o} → {to_mode:o}"), rename(from.p("f"), to.p("new")), &[libc::EACCES]);
            refused(format!("{from_mode:o} → {to_mode:o}, replacing"), rename(from.p("f"), to.p("g")), &[libc::EACCES]);
        });
    }
    ok!(chmod(from.path(), 0o300));
    ok!(chmod(to.path(), 0o300));
    BOB.run(|| expect_errno!(rename(from.p("f"), to.p("g")), EACCES));
    ALICE.run(|| ok!(rename(from.p("f"), to.p("g"))));
    assert_eq!((ok!(names(from.path())).len(), ok!(names(to.path())).len()), (0, 1));
}

/// Moving a directory to another parent changes its "..", so it must be writable itself (EACCES); a new name in place needs that not.
#[test]
fn moving_a_directory_writes_it() {
    let d = area!();
    let (from, to) = (d.dir_of("from", 0o777, 0, 0), d.dir_of("to", 0o777, 0, 0));
    let sub = from.dir_of("sub", 0o755, BOB.uid, BOB.gid);
    ALICE.run(|| {
        expect_errno!(rename(sub.path(), to.p("sub")), EACCES);
        ok!(rename(sub.path(), from.p("sub2")));
        ok!(rename(from.p("sub2"), sub.path()));
    });
    ok!(chown(sub.path(), ALICE.uid, ALICE.gid));
    ok!(chmod(sub.path(), 0o500));
    ALICE.run(|| {
        expect_errno!(rename(sub.path(), to.p("sub")), EACCES);
        ok!(chmod(sub.path(), 0o200));
        ok!(rename(sub.path(), to.p("sub")));
    });
    ok!(rename(to.p("sub"), sub.path()));
}

/// The file's own bits do not matter, neither the moved one's nor the replaced one's.
#[test]
fn files_need_no_permission() {
    let d = area!();
    ok!(chmod(d.path(), 0o777));
    let (f, g) = (d.file_of("f", 0, BOB.uid, BOB.gid), d.file_of("g", 0, 0, 0));
    ALICE.run(|| ok!(rename(&f, &g)));
    assert_eq!(ok!(stat(&g)).uid, BOB.uid);
}

/// A refused rename onto a directory leaves names, inodes and link counts as they were.
#[test]
fn nothing_half_done() {
    let d = area!();
    let (a, b) = (d.dir("a"), d.dir("b"));
    a.dir("sub").file("f");
    b.dir("sub").file("g");
    let look =
        || [a.path(), b.path(), &a.p("sub"), &b.p("sub"), &a.p("sub/f"), &b.p("sub/g")].map(|path| ok!(lstat(path)));
    let before = look();
    for _ in 0..5 {
        expect_errno!(rename(a.p("sub"), b.p("sub")), ENOTEMPTY | EEXIST);
        expect_errno!(rename(a.p("sub/f"), b.p("sub")), EISDIR);
        expect_errno!(rename(a.p("sub"), b.p("sub/g")), ENOTDIR);
        expect_errno!(rename(a.path(), a.p("sub/x")), EINVAL);
    }
    assert_eq!(look(), before);
}
