//! Which of atime, mtime and ctime each operation moves, of the object and of its directories, and which it must not move.
//!
//! The letters are those of `moves`. Reading may move atime by the mount's rules (relatime, noatime), so it is never demanded there.

use crate::posix::prelude::*;

/// A new object's three times are the present, and its directory's mtime and ctime move, for every kind.
#[test]
fn creation() {
    let d = area!();
    let old = d.file("old");
    type Make = fn(&Path) -> R;
    let makers: [(&str, Make); 7] = [
        ("open", |path| open(path, O_WRONLY | O_CREAT, 0o644).map(drop)),
        ("open O_EXCL", |path| open(path, O_WRONLY | O_CREAT | O_EXCL, 0o644).map(drop)),
        ("mkdir", |path| mkdir(path, 0o755)),
        ("mkfifo", |path| mkfifo(path, 0o644)),
        ("mknod", |path| mknod(path, S_IFCHR | 0o644, 0)),
        ("mknod of a socket", |path| mknod(path, S_IFSOCK | 0o644, 0)),
        ("symlink", |path| symlink("x", path)),
    ];
    for (name, make) in makers {
        let path = d.p(name);
        let start = moves(name, &[(d.path(), "mc"), (&old, "")], || {
            let start = coarse_now();
            done(name, make(&path));
            start
        });
        let s = ok!(lstat(&path));
        let end = now();
        for time in [s.atime, s.mtime, s.ctime] {
            assert!(time >= start && time <= end, "{name}: {time:?} is not between {start:?} and {end:?}");
        }
    }
}

/// Opening an existing file with O_CREAT, and opening and closing without O_TRUNC, moves nothing.
#[test]
fn opening() {
    let d = area!();
    let f = d.file_with("f", b"123");
    moves("open", &[(&f, ""), (d.path(), "")], || {
        for flags in [O_RDONLY, O_WRONLY, O_RDWR, O_RDWR | O_CREAT, O_WRONLY | O_APPEND, O_PATH] {
            drop(ok!(open(&f, flags, 0o644)));
        }
    });
}

/// O_TRUNC moves the file's mtime and ctime, of an empty one too; not the directory's.
#[test]
fn truncation_by_open() {
    let d = area!();
    let f = d.file_with("f", b"123");
    for name in ["full", "empty"] {
        moves(name, &[(&f, "mc"), (d.path(), "")], || drop(ok!(open(&f, O_WRONLY | O_TRUNC, 0))));
    }
}

/// Writing moves mtime and ctime; reading at most atime; seeking, fsync and locking nothing.
#[test]
fn reading_and_writing() {
    let d = area!();
    let f = d.file_with("f", b"123");
    let fd = ok!(open(&f, O_RDWR, 0));
    let both = |letters: &'static str| [(f.as_path(), letters), (d.path(), "")];
    moves("write", &both("mc"), || ok!(write(&fd, "abc")));
    moves("overwrite", &both("mc"), || ok!(pwrite(&fd, "abc", 0)));
    moves("append", &both("mc"), || ok!(write(ok!(open(&f, O_WRONLY | O_APPEND, 0)), "x")));
    moves("read", &both("?a"), || ok!(pread(&fd, 3, 0)));
    moves("seek, sync, lock", &both("?a"), || {
        ok!(lseek(&fd, 0, libc::SEEK_END));
        ok!(fsync(&fd));
        ok!(lock(&fd, libc::F_SETLK, libc::F_WRLCK, 0, 0));
        ok!(flock(&fd, libc::LOCK_EX));
    });
    moves("close", &both(""), || drop(fd));
}

/// Several writes in a row each leave a later mtime or the same, never an earlier one.
#[test]
fn monotonic() {
    let d = area!();
    let f = d.file("f");
    let fd = ok!(open(&f, O_RDWR, 0));
    let mut last = ok!(stat(&f));
    for i in 0..200 {
        ok!(pwrite(&fd, "x", i));
        let now = ok!(stat(&f));
        assert!(now.mtime >= last.mtime && now.ctime >= last.ctime && now.ctime >= now.mtime);
        last = now;
    }
}

/// A truncate that changes the size moves mtime and ctime; ftruncate always does.
#[test]
fn truncation() {
    let d = area!();
    let f = d.file_with("f", b"12345");
    let fd = ok!(open(&f, O_RDWR, 0));
    for size in [3, 10, 0, 100] {
        moves("truncate", &[(&f, "mc"), (d.path(), "")], || ok!(truncate(&f, size)));
        // Linux moves nothing here, POSIX allows both; a FUSE server cannot tell truncate from ftruncate.
        moves("truncate to the same size", &[(&f, "?mc"), (d.path(), "")], || ok!(truncate(&f, size)));
        moves("ftruncate to the same size", &[(&f, "mc"), (d.path(), "")], || ok!(ftruncate(&fd, size)));
        moves("ftruncate", &[(&f, "mc"), (d.path(), "")], || ok!(ftruncate(&fd, size + 1)));
    }
}

/// chmod and chown move ctime only, for every kind and to the same value too.
#[test]
fn attributes() {
    let d = area!();
    for (kind, path) in d.one_of_each() {
        for _ in 0..2 {
            let objects = [(path.as_path(), "c"), (d.path(), "")];
            if kind != "symlink" {
                moves(kind, &objects, || ok!(chmod(&path, 0o700)));
            }
            moves(kind, &objects, || ok!(lchown(&path, 5, 6)));
            moves(kind, &objects, || ok!(lchown(&path, KEEP, 6)));
        }
        // POSIX leaves it open whether a chown of nothing counts.
        moves(kind, &[(&path, "?c"), (d.path(), "")], || ok!(lchown(&path, KEEP, KEEP)));
    }
}

/// utimensat moves ctime to the present besides what it sets; with both times omitted nothing.
#[test]
fn setting_times() {
    let d = area!();
    for (kind, path) in d.one_of_each() {
        ok!(lutimens(&path, [at(1, 0), at(1, 0)]));
        for (asked, letters) in [
            ([OMIT, at(2, 0)], "mc"),
            ([at(3, 0), OMIT], "ac"),
            ([at(4, 0), at(4, 0)], "amc"),
            ([OMIT, OMIT], ""),
            ([NOW, NOW], "amc"),
        ] {
            moves(kind, &[(&path, letters), (d.path(), "")], || ok!(lutimens(&path, asked)));
        }
    }
}

/// link moves the file's ctime and the new directory's mtime and ctime; unlink the same of what it takes from.
#[test]
fn linking() {
    let d = area!();
    let (a, b) = (d.dir("a"), d.dir("b"));
    for (kind, path) in a.one_of_each() {
        if kind == "dir" {
            continue;
        }
        let new = b.p(kind);
        moves(&format!("link of {kind}"), &[(&path, "c"), (a.path(), ""), (b.path(), "mc")], || ok!(link(&path, &new)));
        moves(&format!("unlink of {kind}"), &[(&path, "c"), (a.path(), ""), (b.path(), "mc")], || ok!(unlink(&new)));
        moves(&format!("last unlink of {kind}"), &[(a.path(), "mc"), (b.path(), ""), (d.path(), "")], || {
            ok!(unlink(&path))
        });
    }
}

/// The last unlink moves the ctime of a file that is still open.
#[test]
fn unlink_of_an_open_file() {
    let d = area!();
    let f = d.file("f");
    let fd = ok!(open(&f, O_RDWR, 0));
    let before = ok!(fstat(&fd));
    tick();
    ok!(unlink(&f));
    let after = ok!(fstat(&fd));
    assert!(after.ctime > before.ctime && after.mtime == before.mtime && after.atime == before.atime);
}

/// rmdir moves the parent's mtime and ctime, not the grandparent's.
#[test]
fn removing_directories() {
    let d = area!();
    let a = d.dir("a");
    a.dir("b");
    moves("mkdir below", &[(a.path(), "mc"), (d.path(), "")], || ok!(mkdir(a.p("c"), 0o755)));
    moves("rmdir below", &[(a.path(), "mc"), (d.path(), "")], || ok!(rmdir(a.p("b"))));
    moves("changes in a subdirectory", &[(a.path(), ""), (d.path(), ""), (&a.p("c"), "mc")], || {
        drop(Dir::at(a.p("c")).file("f"))
    });
}

/// rename moves both directories' mtime and ctime and the moved object's ctime, for every kind.
#[test]
fn renaming() {
    let d = area!();
    let (a, b) = (d.dir("a"), d.dir("b"));
    for (kind, path) in a.one_of_each() {
        let new = b.p(kind);
        let start = ok!(lstat(&path));
        moves(&format!("rename of {kind}"), &[(a.path(), "mc"), (b.path(), "mc"), (d.path(), "")], || {
            ok!(rename(&path, &new))
        });
        let end = ok!(lstat(&new));
        assert!(end.ctime > start.ctime && end.mtime == start.mtime && end.atime == start.atime, "{kind}");
        moves(&format!("rename of {kind} in place"), &[(a.path(), ""), (b.path(), "mc"), (d.path(), "")], || {
            ok!(rename(&new, b.p("other")))
        });
        ok!(rename(b.p("other"), &path));
    }
}

/// A file replaced by rename but still linked elsewhere has a new ctime.
#[test]
fn replacing() {
    let d = area!();
    let (f, g) = (d.file("f"), d.file("g"));
    let kept = d.dir("sub").p("kept");
    ok!(link(&g, &kept));
    moves("rename over a linked file", &[(&kept, "c"), (d.path(), "mc"), (&d.p("sub"), "")], || ok!(rename(&f, &g)));
}

/// Looking up, stat, access, readlink, listing and statvfs move nothing but atime.
#[test]
fn looking() {
    let d = area!();
    let (f, l) = (d.file("f"), d.symlink("f", "l"));
    moves("looking", &[(&f, ""), (&l, "?a"), (d.path(), "?a")], || {
        ok!(stat(&l));
        ok!(readlink(&l));
        ok!(access(&f, libc::R_OK));
        ok!(names(d.path()));
        ok!(statvfs(&f));
        expect_errno!(stat(d.p("missing")), ENOENT);
    });
}

/// Reading moves atime forward if at all.
#[test]
fn atime_of_readers() {
    let d = area!();
    let f = d.file_with("f", b"123");
    ok!(utimens(&f, [at(1, 0), OMIT]));
    let fd = ok!(open(&f, O_RDONLY, 0));
    for _ in 0..3 {
        let before = ok!(fstat(&fd)).atime;
        ok!(pread(&fd, 3, 0));
        assert!(ok!(fstat(&fd)).atime >= before);
    }
}

/// Reading a file that changed since its last reading moves atime to the present, unless the mount says noatime.
#[test]
fn atime_of_a_first_reader() {
    let d = area!();
    let f = d.file_with("f", b"123");
    if ok!(statvfs(&f)).f_flag & libc::ST_NOATIME != 0 {
        return;
    }
    ok!(utimens(&f, [at(1, 0), at(2, 0)]));
    let start = coarse_now();
    let fd = ok!(open(&f, O_RDONLY, 0));
    ok!(read(&fd, 3));
    wait_until("atime moves", || ok!(stat(&f)).atime >= start);
    assert_eq!(ok!(stat(&f)).mtime, at(2, 0));
}

/// Writing through any name or descriptor moves the times of the one inode.
#[test]
fn through_links() {
    let d = area!();
    let f = d.file("f");
    let g = d.dir("sub").p("g");
    ok!(link(&f, &g));
    moves("write by another name", &[(&f, "mc"), (&d.p("sub"), "")], || ok!(write(ok!(open(&g, O_WRONLY, 0)), "x")));
    let l = d.symlink("f", "l");
    moves("write through a symlink", &[(&g, "mc"), (&l, "?a")], || ok!(write(ok!(open(&l, O_WRONLY, 0)), "x")));
}

/// A directory's mtime after a change is never before one that was seen earlier, over many changes of many kinds.
#[test]
fn directory_times_grow() {
    let d = area!();
    let sub = d.dir("sub");
    let mut last = ok!(stat(sub.path()));
    for i in 0..60 {
        let path = sub.p(format!("n{}", i % 7));
        match i % 3 {
            0 => ok!(mkdir(&path, 0o755)),
            1 => ok!(symlink("x", sub.p("l"))),
            _ => ok!(unlink(sub.p("l"))),
        }
        let _ = if i % 3 == 0 { rmdir(&path) } else { Ok(()) };
        let now = ok!(stat(sub.path()));
        assert!(now.mtime >= last.mtime && now.ctime >= last.ctime);
        last = now;
    }
}
