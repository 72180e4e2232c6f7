//! rename(2), renameat2(2): what moves, what is replaced, what stays.

use crate::posix::prelude::*;

/// A renamed object of any kind is the same inode under the new name only.
#[test]
fn every_kind() {
    let d = area!();
    let to = d.dir("to");
    for (kind, old) in d.one_of_each() {
        let before = ok!(lstat(&old));
        for new in [d.p(format!("{kind}-2")), to.p(format!("{kind}-3")), old.clone()] {
            let from = [&old, &d.p(format!("{kind}-2")), &to.p(format!("{kind}-3"))]
                .into_iter()
                .find(|path| lstat(path).is_ok())
                .cloned();
            let from = from.expect("one of the names");
            ok!(rename(&from, &new));
            expect_errno!(lstat(&from), ENOENT);
            let after = ok!(lstat(&new));
            assert_eq!(
                (after.ino, after.mode, after.nlink, after.size, after.mtime),
                (before.ino, before.mode, before.nlink, before.size, before.mtime),
                "{kind}"
            );
        }
    }
    assert_eq!(ok!(names(to.path())).len(), 0);
}

/// An existing non-directory of any kind is replaced by one of any kind; its link count falls, its open descriptors live on.
#[test]
fn replaces() {
    let d = area!();
    for old_kind in KINDS {
        for new_kind in KINDS {
            let pair = d.dir(format!("{old_kind}-{new_kind}"));
            let (old, new) = (make(&pair, old_kind, "old"), make(&pair, new_kind, "new"));
            ok!(link(&new, pair.p("other")));
            let ino = ok!(lstat(&old)).ino;
            ok!(rename(&old, &new));
            assert_eq!(ok!(names(pair.path())), ["new", "other"], "{old_kind} onto {new_kind}");
            assert_eq!(
                (ok!(lstat(&new)).ino, ok!(lstat(pair.p("other"))).nlink),
                (ino, 1),
                "{old_kind} onto {new_kind}"
            );
        }
    }
    let (a, b) = (d.file_with("a", b"new bytes"), d.file_with("b", b"old bytes"));
    let fd = ok!(open(&b, O_RDWR, 0));
    ok!(rename(&a, &b));
    assert_eq!((ok!(read(&fd, 20)).as_slice(), content(&b).as_slice()), (&b"old bytes"[..], &b"new bytes"[..]));
    assert_eq!(ok!(fstat(&fd)).nlink, 0);
}

const KINDS: [&str; 5] = ["file", "symlink", "fifo", "socket", "device"];

fn make(d: &Dir, kind: &str, name: &str) -> PathBuf {
    let path = d.p(name);
    match kind {
        "file" => drop(d.file(name)),
        "dir" => ok!(mkdir(&path, 0o755)),
        "symlink" => ok!(symlink("nowhere", &path)),
        "fifo" => ok!(mkfifo(&path, 0o644)),
        "socket" => ok!(mknod(&path, S_IFSOCK | 0o644, 0)),
        _ => ok!(mknod(&path, S_IFCHR | 0o644, libc::makedev(1, 3))),
    }
    path
}

/// A name renamed to itself, or to another name of the same inode, changes nothing: both names stay.
#[test]
fn same_inode() {
    let d = area!();
    let a = d.file("a");
    let b = d.dir("sub").p("b");
    ok!(link(&a, &b));
    let objects = [(a.as_path(), ""), (d.path(), ""), (b.parent().expect("a parent"), "")];
    moves("rename to the same inode", &objects, || {
        ok!(rename(&a, &b));
        ok!(rename(&a, &a));
        ok!(rename(b.parent().expect("a parent"), b.parent().expect("a parent")));
    });
    assert_eq!((ok!(stat(&a)).nlink, ok!(stat(&b)).nlink), (2, 2));
}

/// A directory moves with all that is in it; descriptors, working directories and ".." follow.
#[test]
fn directory_with_content() {
    let d = area!();
    let (a, b) = (d.dir("a"), d.dir("b"));
    let moved = a.dir("moved");
    moved.file_with("f", b"inside");
    moved.dir("deep").file("g");
    let fd = ok!(open(moved.path(), O_RDONLY, 0));
    let file = ok!(open(moved.p("f"), O_RDWR, 0));
    in_thread(|| {
        ok!(chdir(moved.p("deep")));
        ok!(rename(moved.path(), b.p("here")));
        assert_eq!(ok!(stat("../..")).ino, ok!(stat(b.path())).ino);
        ok!(stat("g"));
        ok!(open("new", O_WRONLY | O_CREAT, 0o644));
    });
    assert_eq!(content(b.p("here/f")), b"inside");
    assert_eq!(ok!(names(b.p("here/deep"))), ["g", "new"]);
    assert_eq!(ok!(fstat(&file)).ino, ok!(stat(b.p("here/f"))).ino);
    drop(ok!(openat(&fd, "late", O_WRONLY | O_CREAT, 0o644)));
    assert_eq!(ok!(names(b.p("here"))), ["deep", "f", "late"]);
    expect_errno!(stat(moved.p("f")), ENOENT);
    let up = ok!(open(b.p("here"), O_RDONLY, 0));
    let dotdot = ok!(getdents(&up, 4096)).into_iter().find(|e| e.name == "..").expect("an entry ..");
    assert_eq!(dotdot.ino, ok!(stat(b.path())).ino);
}

/// Moving a directory moves one link from the old parent to the new; replacing an empty one takes one away.
#[test]
fn link_counts_of_the_parents() {
    let d = area!();
    let (a, b) = (d.dir("a"), d.dir("b"));
    a.dir("one");
    a.dir("two");
    a.file("f");
    let counts = || (ok!(stat(a.path())).nlink, ok!(stat(b.path())).nlink);
    assert_eq!(counts(), (4, 2));
    ok!(rename(a.p("one"), b.p("one")));
    assert_eq!(counts(), (3, 3));
    ok!(rename(a.p("f"), b.p("f")));
    assert_eq!(counts(), (3, 3));
    ok!(rename(a.p("two"), b.p("one")));
    assert_eq!(counts(), (2, 3));
    ok!(rename(b.p("one"), b.p("two")));
    assert_eq!(counts(), (2, 3));
}

/// A directory replaces an empty directory, which is gone.
#[test]
fn onto_an_empty_directory() {
    let d = area!();
    let (old, new) = (d.dir("old"), d.dir("new"));
    old.file("f");
    let gone = ok!(open(new.path(), O_RDONLY, 0));
    ok!(rename(old.path(), new.path()));
    assert_eq!(ok!(names(new.path())), ["f"]);
    assert_eq!(ok!(fstat(&gone)).nlink, 0);
    expect_errno!(openat(&gone, "x", O_WRONLY | O_CREAT, 0o644), ENOENT);
}

/// A symlink is renamed itself, at either end.
#[test]
fn symlinks() {
    let d = area!();
    d.dir("dir").file("in");
    let f = d.file("f");
    let l = d.symlink("dir", "l");
    ok!(rename(&l, d.p("m")));
    assert_eq!(ok!(readlink(d.p("m"))), "dir");
    ok!(rename(&f, d.p("m")));
    assert_eq!(ok!(lstat(d.p("m"))).kind(), S_IFREG);
    assert_eq!(ok!(names(d.p("dir"))), ["in"]);
}

/// A directory may be named with trailing slashes, old and new.
#[test]
fn slashes_of_directories() {
    let d = area!();
    d.dir("a").file("f");
    ok!(rename(d.p("a/"), d.p("b")));
    ok!(rename(d.p("b"), d.p("c/")));
    ok!(rename(d.p("c//"), d.p("d//")));
    ok!(stat(d.p("d/f")));
}

/// RENAME_NOREPLACE refuses every existing name (EEXIST) and works on a new one.
#[test]
fn no_replace() {
    let d = area!();
    let f = d.file("f");
    for (kind, path) in d.one_of_each() {
        refused(kind, renameat2(&f, &path, libc::RENAME_NOREPLACE), &[libc::EEXIST]);
    }
    expect_errno!(renameat2(&f, &f, libc::RENAME_NOREPLACE), EEXIST);
    expect_errno!(renameat2(d.dir("a").path(), d.dir("b").path(), libc::RENAME_NOREPLACE), EEXIST);
    ok!(renameat2(&f, d.p("new"), libc::RENAME_NOREPLACE));
    ok!(renameat2(d.p("a"), d.p("b/a"), libc::RENAME_NOREPLACE));
    assert_eq!(ok!(names(d.p("b"))), ["a"]);
    expect_errno!(lstat(&f), ENOENT);
}

/// RENAME_EXCHANGE swaps two objects of any kinds. (A file system may not have it: EINVAL.)
#[test]
fn exchange() {
    let d = area!();
    let (a, b) = (d.dir("a"), d.dir("b"));
    let (f, sub) = (a.file("x"), b.dir("y"));
    sub.file("in");
    let inodes = (ok!(stat(&f)).ino, ok!(stat(sub.path())).ino);
    match renameat2(&f, sub.path(), libc::RENAME_EXCHANGE) {
        Err(libc::EINVAL) => return,
        result => ok!(result),
    }
    assert_eq!((ok!(stat(b.p("y"))).ino, ok!(stat(a.p("x"))).ino), inodes);
    assert_eq!((ok!(stat(a.path())).nlink, ok!(stat(b.path())).nlink), (3, 2));
    assert_eq!(ok!(stat(a.p("x/.."))).ino, ok!(stat(a.path())).ino);
    ok!(stat(a.p("x/in")));
    expect_errno!(renameat2(a.p("x"), d.p("missing"), libc::RENAME_EXCHANGE), ENOENT);
    expect_errno!(renameat2(a.p("x"), a.path(), libc::RENAME_EXCHANGE), EINVAL | ENOTEMPTY);
}

/// Unknown and contradicting flags are EINVAL.
#[test]
fn flags() {
    let d = area!();
    let (f, g) = (d.file("f"), d.file("g"));
    expect_errno!(renameat2(&f, &g, 1 << 20), EINVAL);
    expect_errno!(renameat2(&f, &g, libc::RENAME_NOREPLACE | libc::RENAME_EXCHANGE), EINVAL);
}

/// Renaming back and forth many times keeps names, counts and content.
#[test]
fn back_and_forth() {
    let d = area!();
    let dirs = [d.dir("a"), d.dir("b"), d.dir("c")];
    dirs[0].file_with("f", b"travelled");
    dirs[0].dir("sub").file("in");
    for i in 0..60 {
        let (from, to) = (&dirs[i % 3], &dirs[(i + 1) % 3]);
        ok!(rename(from.p("f"), to.p("f")));
        ok!(rename(from.p("sub"), to.p("sub")));
    }
    assert_eq!(content(dirs[0].p("f")), b"travelled");
    assert_eq!(ok!(names(dirs[0].p("sub"))), ["in"]);
    assert_eq!(dirs.map(|dir| ok!(stat(dir.path())).nlink), [3, 2, 2]);
}

/// A chain of directories moves under another and its whole path works at once.
#[test]
fn deep_move() {
    let d = area!();
    let mut path = d.dir("top").path().to_path_buf();
    for i in 0..20 {
        path.push(format!("l{i}"));
        ok!(mkdir(&path, 0o755));
    }
    ok!(symlink("nowhere", path.join("leaf")));
    let other = d.dir("other");
    ok!(rename(d.p("top"), other.p("top")));
    let moved = other.path().join(path.strip_prefix(d.path()).expect("below"));
    ok!(lstat(moved.join("leaf")));
    ok!(rename(other.p("top/l0/l1"), d.p("l1")));
    ok!(lstat(d.p("l1/l2/l3")));
}
