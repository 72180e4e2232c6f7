//! symlink(2), readlink(2), and how paths go through symlinks.

use crate::posix::prelude::*;

/// readlink gives back exactly the target, of any length up to 4095 bytes and of any bytes; size is its length, mode 0777.
#[test]
fn target() {
    let d = area!();
    ok!(chmod(d.path(), 0o777));
    let odd = OsString::from_vec(vec![0xff, b'\n', b' ', 0x80, b'/', b'/', b'.']);
    let targets = [1, 2, 59, 60, 61, 255, 256, 1000, 4094, 4095].map(|n| OsString::from("t".repeat(n)));
    for (i, target) in targets.into_iter().chain([odd, "..".into(), "/".into(), "a/../b/".into()]).enumerate() {
        let path = d.p(format!("l{i}"));
        User { gid: TEAM, ..ALICE }.run(|| ok!(symlink(&target, &path)));
        assert_eq!(ok!(readlink(&path)), target);
        let s = ok!(lstat(&path));
        assert_eq!((s.mode, s.size, s.uid, s.gid, s.nlink), (S_IFLNK | 0o777, target.len() as i64, ALICE.uid, TEAM, 1));
    }
}

/// An empty target is ENOENT, one of 4096 bytes or more ENAMETOOLONG.
#[test]
fn bad_targets() {
    let d = area!();
    expect_errno!(symlink("", d.p("l")), ENOENT);
    expect_errno!(symlink("t".repeat(4096), d.p("l")), ENAMETOOLONG);
    assert_eq!(ok!(names(d.path())).len(), 0);
}

/// An existing name is EEXIST, whatever it is; a trailing slash on a new one ENOENT.
#[test]
fn existing_name() {
    let d = area!();
    for (_, path) in d.one_of_each() {
        let before = ok!(lstat(&path));
        expect_errno!(symlink("x", &path), EEXIST);
        assert_eq!(ok!(lstat(&path)), before);
    }
    expect_errno!(symlink("x", d.p("new/")), ENOENT);
    expect_errno!(symlink("x", d.p("missing/new")), ENOENT);
    expect_errno!(symlink("x", d.p("file/new")), ENOTDIR);
}

/// The directory must be writable and searchable (EACCES).
#[test]
fn permissions() {
    let d = area!();
    let dir = d.dir_of("d", 0o755, ALICE.uid, ALICE.gid);
    BOB.run(|| expect_errno!(symlink("x", dir.p("l")), EACCES));
    ok!(chmod(dir.path(), 0o600));
    ALICE.run(|| expect_errno!(symlink("x", dir.p("l")), EACCES));
    ok!(chmod(dir.path(), 0o300));
    ALICE.run(|| ok!(symlink("x", dir.p("l"))));
}

/// readlink of anything else is EINVAL; a short buffer gets the beginning.
#[test]
fn readlink_of_others() {
    let d = area!();
    for (kind, path) in d.one_of_each() {
        if kind != "symlink" {
            refused(kind, readlink(&path), &[libc::EINVAL]);
        }
    }
    let l = d.symlink("abcdef", "l");
    assert_eq!(ok!(readlink_into(&l, 3)), "abc");
    expect_errno!(readlink_into(&l, 0), EINVAL);
}

/// Everybody who may search the directory may read a symlink, whoever owns it.
#[test]
fn readable_by_all() {
    let d = area!();
    let dir = d.dir_of("d", 0o711, 0, 0);
    let l = dir.symlink("x", "l");
    ALICE.run(|| assert_eq!(ok!(readlink(&l)), "x"));
    ok!(chmod(dir.path(), 0o766));
    ALICE.run(|| expect_errno!(readlink(&l), EACCES));
}

/// A path goes through symlinks: relative to where they are, absolute, up, and several in a row.
#[test]
fn followed() {
    let d = area!();
    let sub = d.dir("a").dir("b");
    d.file_with("top", b"top");
    sub.file_with("f", b"f");
    for (target, rest, wanted) in
        [("a/b", "f", "f"), ("a/b/f", "", "f"), ("a/b/../../top", "", "top"), ("./a/.//b", "f", "f")]
    {
        let l = d.symlink(target, "l");
        assert_eq!(content(if rest.is_empty() { l.clone() } else { l.join(rest) }), wanted.as_bytes(), "{target}");
        ok!(unlink(&l));
    }
    sub.symlink("../../top", "up");
    d.symlink("a/b/up", "twice");
    d.symlink(sub.path(), "absolute");
    assert_eq!((content(d.p("twice")), content(d.p("absolute/up"))), (b"top".to_vec(), b"top".to_vec()));
    assert_eq!(ok!(stat(d.p("absolute/.."))).ino, ok!(stat(d.p("a"))).ino);
}

/// Forty symlinks in a row are followed, one more is ELOOP; circles are ELOOP too.
#[test]
fn loops() {
    let d = area!();
    d.file("l0");
    for i in 1..=41 {
        d.symlink(format!("l{}", i - 1), format!("l{i}"));
    }
    ok!(stat(d.p("l40")));
    expect_errno!(stat(d.p("l41")), ELOOP);
    d.symlink("self", "self");
    d.symlink("b", "a");
    d.symlink("a", "b");
    for name in ["self", "a", "self/x"] {
        refused(name, stat(d.p(name)), &[libc::ELOOP]);
        refused(name, open(d.p(name), O_RDWR | O_CREAT, 0o644), &[libc::ELOOP]);
    }
    ok!(lstat(d.p("self")));
    ok!(unlink(d.p("self")));
}

/// unlink, rename and lstat take the link itself; a trailing slash takes what it leads to.
#[test]
fn the_link_itself() {
    let d = area!();
    d.dir("dir").file("in");
    let l = d.symlink("dir", "l");
    assert_eq!(ok!(lstat(&l)).kind(), S_IFLNK);
    assert_eq!(ok!(lstat(d.p("l/"))).kind(), S_IFDIR);
    assert_eq!(ok!(names(d.p("l"))), ["in"]);
    expect_errno!(lstat(d.symlink("dir/in", "lf").join("")), ENOTDIR);
    ok!(unlink(&l));
    assert_eq!(ok!(names(d.p("dir"))), ["in"]);
}

/// A dangling symlink leads to ENOENT until its target appears.
#[test]
fn dangling() {
    let d = area!();
    let l = d.symlink("later", "l");
    expect_errno!(stat(&l), ENOENT);
    expect_errno!(open(&l, O_RDONLY, 0), ENOENT);
    d.file_with("later", b"now");
    assert_eq!(content(&l), b"now");
    ok!(rename(d.p("later"), d.p("elsewhere")));
    expect_errno!(stat(&l), ENOENT);
}

/// A symlink made anew under the same name leads to the new target at once.
#[test]
fn replaced() {
    let d = area!();
    for i in 0..20 {
        let target = format!("t{i}");
        d.file_with(&target, target.as_bytes());
        ok!(symlink(&target, d.p("tmp")));
        ok!(rename(d.p("tmp"), d.p("l")));
        assert_eq!((ok!(readlink(d.p("l"))), content(d.p("l"))), (OsString::from(&target), target.into_bytes()));
    }
}
