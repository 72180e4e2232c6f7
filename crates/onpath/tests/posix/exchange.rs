//! renameat2 with RENAME_EXCHANGE and RENAME_WHITEOUT.

use crate::posix::prelude::*;
use libc::{RENAME_EXCHANGE, RENAME_NOREPLACE, RENAME_WHITEOUT};

fn exchange(one: impl AsRef<Path>, other: impl AsRef<Path>) -> Result<(), i32> {
    renameat2(one, other, RENAME_EXCHANGE)
}

/// Whether whiteouts can be had here; tests of them end where not.
fn whiteouts(d: &Dir) -> bool {
    let can = renameat2(d.file("can-old"), d.p("can-new"), RENAME_WHITEOUT) != Err(libc::EINVAL);
    if can {
        ok!(unlink(d.p("can-old")));
        ok!(unlink(d.p("can-new")));
    } else {
        skipped("a test of whiteouts", "the file system has none");
    }
    can
}

/// Every kind of object changes places with every other, in one directory and in two.
#[test]
fn all_kinds() {
    let d = area!();
    let (here, there) = (d.dir("here"), d.dir("there"));
    for (one, a) in here.one_of_each() {
        for other in there.one_of_each() {
            let (kind, b) = other;
            let (was_a, was_b) = (ok!(lstat(&a)), ok!(lstat(&b)));
            ok!(exchange(&a, &b));
            let (is_a, is_b) = (ok!(lstat(&a)), ok!(lstat(&b)));
            assert_eq!((is_a.ino, is_a.mode), (was_b.ino, was_b.mode), "{one} and {kind}");
            assert_eq!((is_b.ino, is_b.mode), (was_a.ino, was_a.mode), "{one} and {kind}");
            ok!(exchange(&b, &a));
            assert_eq!(ok!(lstat(&a)).ino, was_a.ino);
            ok!(if kind == "dir" { rmdir(&b) } else { unlink(&b) });
            if kind != "device" {
                continue;
            }
            for name in ok!(names(there.path())) {
                let path = there.p(name);
                ok!(if ok!(lstat(&path)).kind() == S_IFDIR { rmdir(&path) } else { unlink(&path) });
            }
        }
    }
    let (f, g) = (d.file_with("f", b"f"), d.file_with("g", b"g"));
    ok!(exchange(&f, &g));
    assert_eq!((content(&f), content(&g)), (b"g".to_vec(), b"f".to_vec()));
}

/// Directories keep what is in them, whether empty or not, and their ".." and the parents' links follow.
#[test]
fn directories() {
    let d = area!();
    let (a, b) = (d.dir("a"), d.dir("b"));
    a.dir("x").file("in-x");
    let full = b.dir("y");
    full.dir("deep");
    let f = b.file("f");
    ok!(exchange(a.p("x"), b.p("y")));
    assert_eq!((ok!(names(b.p("y"))), ok!(names(a.p("x")))), (vec!["in-x".into()], vec!["deep".into()]));
    for (dir, parent) in [(a.p("x"), &a), (b.p("y"), &b)] {
        assert_eq!(ok!(stat(dir.join(".."))).ino, ok!(stat(parent.path())).ino);
    }
    assert_eq!((ok!(stat(a.path())).nlink, ok!(stat(b.path())).nlink), (3, 3));
    ok!(exchange(a.p("x"), &f));
    assert_eq!((ok!(stat(a.path())).nlink, ok!(stat(b.path())).nlink), (2, 4));
    assert_eq!(ok!(stat(f.join("deep/.."))).ino, ok!(stat(&f)).ino);
    ok!(exchange(&f, a.p("x")));
    assert_eq!((ok!(stat(a.path())).nlink, ok!(stat(b.path())).nlink), (3, 3));
}

/// Both inodes' ctime moves, and mtime and ctime of both directories; nothing else does.
#[test]
fn times() {
    let d = area!();
    let (a, b) = (d.dir("a"), d.dir("b"));
    let (f, g, other) = (a.file("f"), b.file("g"), b.file("other"));
    let objects = [(a.path(), "mc"), (b.path(), "mc"), (f.as_path(), "?ac"), (other.as_path(), "")];
    let before = [ok!(stat(&f)), ok!(stat(&g))];
    moves("exchange", &[objects[0], objects[1], objects[3]], || ok!(exchange(&f, &g)));
    let after = [ok!(stat(&g)), ok!(stat(&f))];
    for (before, after) in before.iter().zip(&after) {
        assert_eq!((after.ino, after.mtime, after.size), (before.ino, before.mtime, before.size));
        assert!(after.ctime > before.ctime);
    }
}

/// Both names must be there (ENOENT), and with two names of one inode, or one name twice, nothing happens.
#[test]
fn names_that_are_missing_or_the_same() {
    let d = area!();
    let f = d.file("f");
    expect_errno!(exchange(&f, d.p("missing")), ENOENT);
    expect_errno!(exchange(d.p("missing"), &f), ENOENT);
    expect_errno!(exchange(d.p("missing"), d.p("missing-too")), ENOENT);
    ok!(link(&f, d.p("g")));
    moves("exchange of one inode", &[(d.path(), ""), (&f, "")], || ok!(exchange(&f, d.p("g"))));
    moves("exchange with itself", &[(d.path(), ""), (&f, "")], || ok!(exchange(&f, &f)));
    let dir = d.dir("dir");
    ok!(exchange(dir.path(), dir.path()));
}

/// No directory comes to be below itself (EINVAL), whichever of the two it is.
#[test]
fn no_circles() {
    let d = area!();
    let below = d.dir("top").dir("middle").dir("below");
    let f = below.file("f");
    for inner in [below.path(), &f, &d.p("top/middle")] {
        expect_errno!(exchange(d.p("top"), inner), EINVAL);
        expect_errno!(exchange(inner, d.p("top")), EINVAL);
    }
    let g = d.file("g");
    ok!(exchange(&g, below.path()));
    assert_eq!(ok!(names(&g)), ["f"]);
}

/// Flags that do not go together are EINVAL.
#[test]
fn flags() {
    let d = area!();
    let (f, g) = (d.file("f"), d.file("g"));
    for flags in [
        RENAME_EXCHANGE | RENAME_NOREPLACE,
        RENAME_EXCHANGE | RENAME_WHITEOUT,
        RENAME_EXCHANGE | RENAME_NOREPLACE | RENAME_WHITEOUT,
        RENAME_EXCHANGE | 8,
        1 << 31,
    ] {
        expect_errno!(renameat2(&f, &g, flags), EINVAL);
    }
}

/// Both directories must be writable, searchable, and a directory that moves must be writable itself.
#[test]
fn permissions() {
    let d = area!();
    let (a, b) = (d.dir_of("a", 0o777, 0, 0), d.dir_of("b", 0o777, 0, 0));
    let (f, g) = (a.file("f"), b.file("g"));
    for (mode, allowed) in [(0o777, true), (0o733, true), (0o755, false), (0o766, false)] {
        for closed in [&a, &b] {
            ok!(chmod(closed.path(), mode));
            ALICE.run(|| {
                for (one, other) in [(&f, &g), (&g, &f)] {
                    allowed_or(format!("{mode:o}"), allowed, exchange(one, other), libc::EACCES);
                }
            });
            ok!(chmod(closed.path(), 0o777));
        }
    }
    let mine = a.dir_of("mine", 0o755, ALICE.uid, 0);
    let foreign = b.dir_of("foreign", 0o755, BOB.uid, 0);
    ALICE.run(|| {
        expect_errno!(exchange(mine.path(), foreign.path()), EACCES);
        expect_errno!(exchange(foreign.path(), mine.path()), EACCES);
        expect_errno!(exchange(foreign.path(), &f), EACCES);
        ok!(exchange(mine.path(), &g));
        ok!(exchange(mine.path(), &g));
        // Its ".." stays.
        ok!(exchange(foreign.path(), &g));
    });
}

/// In sticky directories both objects must be the caller's, or the directory is.
#[test]
fn sticky() {
    let d = area!();
    let (a, b) = (d.dir_of("a", 0o1777, 0, 0), d.dir_of("b", 0o1777, 0, 0));
    let mine = [a.file_of("mine", 0o644, ALICE.uid, 0), b.file_of("mine", 0o644, ALICE.uid, 0)];
    let foreign = [a.file_of("foreign", 0o644, BOB.uid, 0), b.file_of("foreign", 0o644, BOB.uid, 0)];
    ALICE.run(|| {
        for here in 0..2 {
            for there in 0..2 {
                expect_errno!(exchange(&mine[here], &foreign[there]), EPERM);
                expect_errno!(exchange(&foreign[here], &mine[there]), EPERM);
            }
        }
        ok!(exchange(&mine[0], &mine[1]));
    });
    ok!(chown(b.path(), ALICE.uid, 0));
    ALICE.run(|| {
        expect_errno!(exchange(&foreign[0], &foreign[1]), EPERM);
        ok!(exchange(&mine[0], &foreign[1]));
    });
}

/// Whoever looks at both names finds both inodes there at every moment.
#[test]
fn nobody_sees_one_missing() {
    let d = area!();
    let (a, b) = (d.dir("a"), d.dir("b"));
    let (f, g) = (a.file_with("f", b"1"), b.file_with("g", b"2"));
    let over = Over::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _end = over.at_end();
            for _ in 0..400 {
                ok!(exchange(&f, &g));
            }
        });
        while !over.is() {
            assert!(matches!(&content(&f)[..], b"1" | b"2"));
            assert!(matches!(&content(&g)[..], b"1" | b"2"));
            assert_eq!((ok!(names(a.path())).len(), ok!(names(b.path())).len()), (1, 1));
        }
    });
    assert_eq!((content(&f), content(&g)), (b"1".to_vec(), b"2".to_vec()));
}

/// Exchanges of directories that race with each other and with renames never lose one nor make a circle.
#[test]
fn racing() {
    let d = area!();
    let tops = ["a", "b", "c"].map(|name| d.dir(name));
    for (i, top) in tops.iter().enumerate() {
        top.dir("sub").dir(format!("in{i}"));
    }
    std::thread::scope(|scope| {
        for thread in 0..3_usize {
            let (d, tops) = (&d, &tops);
            scope.spawn(move || {
                for i in 0..120 {
                    let (one, other) = (&tops[(thread + i) % 3], &tops[(thread + i + 1) % 3]);
                    let _ = match i % 3 {
                        0 => exchange(one.path(), other.p("sub")),
                        1 => exchange(one.p("sub"), other.p("sub")),
                        _ => rename(one.p("sub"), d.p(format!("out{thread}"))),
                    };
                    let _ = renameat2(d.p(format!("out{thread}")), one.p("sub"), RENAME_NOREPLACE);
                }
            });
        }
    });
    let (mut found, mut left) = (vec![], vec![d.path().to_path_buf()]);
    while let Some(dir) = left.pop() {
        let entries = ok!(names(&dir));
        assert_eq!(ok!(stat(&dir)).nlink as usize, 2 + entries.len(), "{}", dir.display());
        left.extend(entries.iter().map(|name| dir.join(name)));
        found.extend(entries);
    }
    found.sort();
    let out = found.iter().filter(|name| name.to_string_lossy().starts_with("out")).count();
    assert_eq!(found.len(), 9, "{found:?}");
    assert_eq!(found.iter().filter(|name| name.as_encoded_bytes() == b"sub").count() + out, 3);
}

/// RENAME_WHITEOUT leaves a character device 0/0 of the caller behind, in the place of every kind of object.
#[test]
fn whiteout() {
    let d = area!();
    if !whiteouts(&d) {
        return;
    }
    let to = d.dir("to");
    for (kind, old) in d.dir("from").one_of_each() {
        let before = ok!(lstat(&old));
        ok!(renameat2(&old, to.p(kind), RENAME_WHITEOUT));
        assert_eq!(ok!(lstat(to.p(kind))).ino, before.ino, "{kind}");
        let left = ok!(lstat(&old));
        assert_eq!((left.kind(), left.rdev, left.nlink, left.uid), (S_IFCHR, 0, 1, 0), "{kind}");
        assert_ne!(left.ino, before.ino);
    }
    assert_eq!(ok!(names(d.p("from"))).len(), 6);
    assert_eq!((ok!(stat(d.p("from"))).nlink, ok!(stat(to.path())).nlink), (2, 3));
}

/// It replaces what the new name led to, unless RENAME_NOREPLACE forbids it; then nothing is left behind.
#[test]
fn whiteout_and_replacing() {
    let d = area!();
    if !whiteouts(&d) {
        return;
    }
    let (f, g) = (d.file_with("f", b"f"), d.file_with("g", b"g"));
    match renameat2(&f, &g, RENAME_WHITEOUT | RENAME_NOREPLACE) {
        Err(libc::EINVAL) => skipped("whiteout with NOREPLACE", "the file system does not have both"),
        result => refused("whiteout with NOREPLACE", result, &[libc::EEXIST]),
    }
    assert_eq!(content(&f), b"f");
    ok!(renameat2(&f, &g, RENAME_WHITEOUT));
    assert_eq!((content(&g), ok!(lstat(&f)).kind()), (b"f".to_vec(), S_IFCHR));
    ok!(unlink(&f));
    ok!(link(&g, &f));
    ok!(renameat2(&f, &g, RENAME_WHITEOUT));
    assert_eq!((ok!(lstat(&f)).kind(), ok!(stat(&g)).nlink), (S_IFREG, 2), "one inode: nothing happens");
}

/// Anybody may leave one who may rename; it belongs to them.
#[test]
fn whiteout_of_a_user() {
    let d = area!();
    if !whiteouts(&d) {
        return;
    }
    let dir = d.dir_of("dir", 0o2777, 0, TEAM);
    let f = dir.file_of("f", 0o644, ALICE.uid, ALICE.gid);
    ALICE.run(|| ok!(renameat2(&f, dir.p("g"), RENAME_WHITEOUT)));
    let left = ok!(lstat(&f));
    assert_eq!((left.kind(), left.uid, left.gid), (S_IFCHR, ALICE.uid, TEAM));
    let closed = d.dir_of("closed", 0o755, 0, 0);
    let h = closed.file("h");
    ALICE.run(|| expect_errno!(renameat2(&h, dir.p("h"), RENAME_WHITEOUT), EACCES));
}
