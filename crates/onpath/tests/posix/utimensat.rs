//! utimensat(2), futimens(3): which times can be set, by whom.

use crate::posix::prelude::*;

fn times(path: &Path) -> [Time; 2] {
    let s = ok!(lstat(path));
    [s.atime, s.mtime]
}

/// Times are kept to the nanosecond, on every kind of object.
#[test]
fn exact() {
    let d = area!();
    for (kind, path) in d.one_of_each() {
        for wanted in [[at(1, 1), at(2, 999_999_999)], [at(1_000_000_000, 123_456_789), at(0, 0)], [at(5, 0), at(5, 1)]]
        {
            done(kind, lutimens(&path, wanted));
            assert_eq!(times(&path), wanted, "{kind}");
        }
    }
}

/// Times before 1970, after 2038 and after 2106 are kept.
#[test]
fn far_times() {
    let d = area!();
    let f = d.file("f");
    for s in
        [-1, -1_000_000_000, -2_147_483_647, 2_147_483_647, 2_147_483_648, 4_294_967_295, 4_294_967_296, 8_589_934_592]
    {
        let wanted = [at(s, 0), at(s, 500_000_000)];
        ok!(utimens(&f, wanted));
        assert_eq!(times(&f), wanted);
    }
}

/// UTIME_OMIT leaves a time, UTIME_NOW sets the present; each alone and together.
#[test]
fn now_and_omit() {
    let d = area!();
    let f = d.file("f");
    let old = [at(100, 1), at(200, 2)];
    for (asked, moved) in [
        ([NOW, OMIT], [true, false]),
        ([OMIT, NOW], [false, true]),
        ([NOW, NOW], [true, true]),
        ([OMIT, OMIT], [false, false]),
    ] {
        ok!(utimens(&f, old));
        let start = coarse_now();
        ok!(utimens(&f, asked));
        for i in 0..2 {
            let new = times(&f)[i];
            assert!(if moved[i] { new >= start } else { new == old[i] }, "{asked:?}: time {i} became {new:?}");
        }
    }
    ok!(utimens(&f, old));
    ok!(utimens(&f, [OMIT, at(7, 7)]));
    assert_eq!(times(&f), [old[0], at(7, 7)]);
    ok!(utimens(&f, [at(8, 8), OMIT]));
    assert_eq!(times(&f), [at(8, 8), at(7, 7)]);
    let start = coarse_now();
    ok!(touch(&f));
    assert!(times(&f).into_iter().all(|time| time >= start));
}

/// Symlinks are followed unless told otherwise; then their own times are set.
#[test]
fn symlinks() {
    let d = area!();
    let f = d.file("f");
    let l = d.symlink("f", "l");
    ok!(lutimens(&l, [at(1, 0), at(2, 0)]));
    let own = ok!(lstat(&l)).mtime;
    ok!(utimens(&l, [at(3, 0), at(4, 0)]));
    assert_eq!((times(&f), own, ok!(lstat(&l)).mtime), ([at(3, 0), at(4, 0)], at(2, 0), at(2, 0)));
    let dangling = d.symlink("nowhere", "dangling");
    expect_errno!(utimens(&dangling, [NOW, NOW]), ENOENT);
    ok!(lutimens(&dangling, [at(5, 0), at(6, 0)]));
}

/// Nanoseconds outside 0 to 999,999,999 are EINVAL and change nothing.
#[test]
fn bad_nanoseconds() {
    let d = area!();
    let f = d.file("f");
    ok!(utimens(&f, [at(1, 1), at(2, 2)]));
    for ns in [-1, 1_000_000_000, i64::MAX, i64::MIN] {
        expect_errno!(utimens(&f, [at(5, ns), at(5, 0)]), EINVAL);
        expect_errno!(utimens(&f, [at(5, 0), at(5, ns)]), EINVAL);
    }
    assert_eq!(times(&f), [at(1, 1), at(2, 2)]);
}

/// futimens works on a descriptor, a read-only one too, and of a directory; not on O_PATH.
#[test]
fn by_descriptor() {
    let d = area!();
    let wanted = [at(10, 11), at(12, 13)];
    for path in [d.file("f"), d.dir("sub").path().to_path_buf()] {
        let fd = ok!(open(&path, O_RDONLY, 0));
        ok!(futimens(&fd, wanted));
        assert_eq!(times(&path), wanted);
    }
    expect_errno!(futimens(ok!(open(d.p("f"), O_PATH, 0)), wanted), EBADF);
    expect_errno!(futimens(bad_fd(), wanted), EBADF);
}

/// Present and given times for the owner, whatever the mode; for root always.
#[test]
fn by_the_owner() {
    let d = area!();
    for (kind, path) in d.one_of_each() {
        ok!(lchown(&path, ALICE.uid, ALICE.gid));
        if kind != "symlink" {
            ok!(chmod(&path, 0));
        }
        for user in [ALICE, ROOT] {
            user.run(|| {
                for asked in [
                    [NOW, NOW],
                    [NOW, OMIT],
                    [OMIT, NOW],
                    [OMIT, OMIT],
                    [at(1, 0), at(2, 0)],
                    [NOW, at(3, 0)],
                    [at(4, 0), OMIT],
                ] {
                    done(kind, lutimens(&path, asked));
                }
            });
        }
    }
}

/// Who may only write can set both times to now; anything else is EPERM for him.
#[test]
fn by_a_writer() {
    let d = area!();
    let dir = d.dir_of("dir", 0o777, ALICE.uid, ALICE.gid);
    for path in [d.file_of("f", 0o666, ALICE.uid, ALICE.gid), dir.path().to_path_buf()] {
        ok!(utimens(&path, [at(1, 0), at(2, 0)]));
        BOB.run(|| {
            for asked in
                [[NOW, OMIT], [OMIT, NOW], [at(1, 0), at(2, 0)], [NOW, at(3, 0)], [at(4, 0), OMIT], [at(4, 0), NOW]]
            {
                expect_errno!(utimens(&path, asked), EPERM);
            }
            assert_eq!(times(&path), [at(1, 0), at(2, 0)]);
            ok!(utimens(&path, [OMIT, OMIT]));
            ok!(utimens(&path, [NOW, NOW]));
            ok!(touch(&path));
        });
    }
    let g = d.file_of("g", 0o664, ALICE.uid, TEAM);
    BOB_IN_TEAM.run(|| ok!(touch(&g)));
}

/// Who may not even write gets EACCES for now, EPERM for given times; changing nothing is allowed.
#[test]
fn by_others() {
    let d = area!();
    let f = d.file_of("f", 0o644, ALICE.uid, ALICE.gid);
    ok!(utimens(&f, [at(1, 0), at(2, 0)]));
    BOB.run(|| {
        expect_errno!(utimens(&f, [NOW, NOW]), EACCES);
        expect_errno!(touch(&f), EACCES);
        for asked in [[at(1, 0), at(2, 0)], [OMIT, at(2, 0)], [at(1, 0), NOW]] {
            expect_errno!(utimens(&f, asked), EPERM);
        }
        ok!(utimens(&f, [OMIT, OMIT]));
    });
    assert_eq!(times(&f), [at(1, 0), at(2, 0)]);
}

/// Set times survive close, reads of attributes and a rename; a later write moves mtime to the present.
#[test]
fn kept_until_changed() {
    let d = area!();
    let f = d.file("f");
    let fd = ok!(open(&f, O_RDWR, 0));
    ok!(write(&fd, "data"));
    ok!(futimens(&fd, [at(1, 1), at(2, 2)]));
    ok!(fsync(&fd));
    drop(fd);
    ok!(rename(&f, d.p("g")));
    assert_eq!(times(&d.p("g")), [at(1, 1), at(2, 2)]);
    let start = coarse_now();
    ok!(write(ok!(open(d.p("g"), O_WRONLY, 0)), "x"));
    assert!(times(&d.p("g"))[1] >= start);
}

/// A directory's set times stay until it changes, then are the present: neither lost to earlier changes nor stuck.
#[test]
fn of_a_directory() {
    let d = area!();
    for i in 0..10 {
        let sub = d.dir(format!("sub{i}"));
        for j in 0..10 {
            sub.file(format!("f{j}"));
        }
        ok!(utimens(sub.path(), [at(1, 1), at(2, 2)]));
        assert_eq!(times(sub.path())[1], at(2, 2));
        let start = coarse_now();
        sub.file("g");
        assert!(times(sub.path())[1] >= start);
        ok!(utimens(sub.path(), [at(3, 3), at(4, 4)]));
        assert_eq!(times(sub.path())[1], at(4, 4));
    }
}
