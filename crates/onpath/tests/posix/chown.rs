//! chown(2), lchown(2), fchown(2): who may give what to whom.

use crate::posix::prelude::*;

fn owner(path: &Path) -> (u32, u32) {
    let stat = ok!(lstat(path));
    (stat.uid, stat.gid)
}

/// Root sets owner and group of every kind of object; −1 keeps either.
#[test]
fn by_root() {
    let d = area!();
    for (kind, path) in d.one_of_each() {
        let cases =
            [((1, 2), (1, 2)), ((3, KEEP), (3, 2)), ((KEEP, 4), (3, 4)), ((KEEP, KEEP), (3, 4)), ((0, 0), (0, 0))];
        for ((uid, gid), wanted) in cases {
            ok!(lchown(&path, uid, gid));
            assert_eq!(owner(&path), wanted, "{kind}: lchown({uid}, {gid})");
        }
    }
}

/// All 32-bit ids but −1 are kept exactly.
#[test]
fn large_ids() {
    let d = area!();
    let f = d.file("f");
    for id in [65_534, 65_535, 65_536, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe] {
        ok!(chown(&f, id, id - 1));
        assert_eq!(owner(&f), (id, id - 1));
    }
}

/// chown follows symlinks, lchown changes the link itself.
#[test]
fn symlinks() {
    let d = area!();
    let f = d.file("f");
    let l = d.symlink("f", "l");
    ok!(chown(&l, 1, 2));
    assert_eq!((owner(&f), owner(&l)), ((1, 2), (0, 0)));
    ok!(lchown(&l, 3, 4));
    assert_eq!((owner(&f), owner(&l)), ((1, 2), (3, 4)));
    let dangling = d.symlink("nowhere", "dangling");
    expect_errno!(chown(&dangling, 1, 2), ENOENT);
    ok!(lchown(&dangling, 1, 2));
}

/// fchown works on a descriptor, also of a file without a name; not on O_PATH (EBADF).
#[test]
fn by_descriptor() {
    let d = area!();
    let f = d.file("f");
    let fd = ok!(open(&f, O_RDONLY, 0));
    ok!(fchown(&fd, 5, 6));
    assert_eq!(owner(&f), (5, 6));
    expect_errno!(fchown(ok!(open(&f, O_PATH, 0)), 1, 1), EBADF);
    expect_errno!(fchown(bad_fd(), 1, 1), EBADF);
    ok!(unlink(&f));
    ok!(fchown(&fd, 7, 8));
    assert_eq!(ok!(fstat(&fd)).uid, 7);
    let dir = d.dir("d");
    ok!(fchown(ok!(open(dir.path(), O_RDONLY, 0)), 9, 10));
    assert_eq!(owner(dir.path()), (9, 10));
}

/// The owner may change the group to one it is in (primary or supplementary), on every kind of object.
#[test]
fn the_owner_changes_the_group() {
    let d = area!();
    for (kind, path) in d.one_of_each() {
        ok!(lchown(&path, ALICE.uid, CREW));
        ALICE_IN_TEAM.run(|| {
            for gid in [TEAM, ALICE.gid, TEAM] {
                ok!(lchown(&path, KEEP, gid));
                assert_eq!(owner(&path), (ALICE.uid, gid), "{kind}");
                ok!(lchown(&path, ALICE.uid, gid));
            }
        });
    }
}

/// The owner may not change the group to another one (EPERM).
#[test]
fn the_owner_only_to_own_groups() {
    let d = area!();
    for (kind, path) in d.one_of_each() {
        ok!(lchown(&path, ALICE.uid, ALICE.gid));
        for gid in [CREW, BOB.gid, 0] {
            ALICE_IN_TEAM.run(|| expect_errno!(lchown(&path, KEEP, gid), EPERM));
        }
        ALICE.run(|| expect_errno!(lchown(&path, KEEP, TEAM), EPERM));
        assert_eq!(owner(&path), (ALICE.uid, ALICE.gid), "{kind}");
    }
}

/// The owner may not give an object away (EPERM), nor take group and owner at once.
#[test]
fn the_owner_may_not_give_away() {
    let d = area!();
    for (kind, path) in d.one_of_each() {
        ok!(lchown(&path, ALICE.uid, ALICE.gid));
        ALICE_IN_TEAM.run(|| {
            for (uid, gid) in [(BOB.uid, KEEP), (0, KEEP), (BOB.uid, TEAM), (BOB.uid, ALICE.gid)] {
                expect_errno!(lchown(&path, uid, gid), EPERM);
            }
        });
        assert_eq!(owner(&path), (ALICE.uid, ALICE.gid), "{kind}");
    }
}

/// Others may change neither (EPERM), whatever they may write, not even to what is there.
#[test]
fn not_by_others() {
    let d = area!();
    for (kind, path) in d.one_of_each() {
        ok!(lchown(&path, ALICE.uid, TEAM));
        if kind != "symlink" {
            ok!(chmod(&path, 0o777));
        }
        BOB_IN_TEAM.run(|| {
            for (uid, gid) in [
                (BOB.uid, KEEP),
                (KEEP, TEAM),
                (KEEP, BOB.gid),
                (ALICE.uid, TEAM),
                (ALICE.uid, KEEP),
                (BOB.uid, BOB.gid),
            ] {
                expect_errno!(lchown(&path, uid, gid), EPERM);
            }
        });
        assert_eq!(owner(&path), (ALICE.uid, TEAM), "{kind}");
    }
}

/// Changing nothing (−1, −1) is allowed to everybody.
#[test]
fn changing_nothing() {
    let d = area!();
    let f = d.file_of("f", 0o600, ALICE.uid, ALICE.gid);
    BOB.run(|| ok!(chown(&f, KEEP, KEEP)));
    ALICE.run(|| ok!(chown(&f, KEEP, KEEP)));
    assert_eq!(owner(&f), (ALICE.uid, ALICE.gid));
}

/// fchown follows the same rules for other users.
#[test]
fn by_descriptor_as_other_users() {
    let d = area!();
    let f = d.file_of("f", 0o666, ALICE.uid, ALICE.gid);
    BOB_IN_TEAM.run(|| {
        let fd = ok!(open(&f, O_RDWR, 0));
        expect_errno!(fchown(&fd, BOB.uid, KEEP), EPERM);
        expect_errno!(fchown(&fd, KEEP, TEAM), EPERM);
    });
    ALICE_IN_TEAM.run(|| ok!(fchown(ok!(open(&f, O_RDONLY, 0)), KEEP, TEAM)));
    assert_eq!(owner(&f), (ALICE.uid, TEAM));
}

/// A new owner decides from the next call on.
#[test]
fn decides_at_once() {
    let d = area!();
    let f = d.file_of("f", 0o640, ALICE.uid, TEAM);
    BOB.run(|| {
        expect_errno!(open(&f, O_RDONLY, 0), EACCES);
        ROOT.run(|| ok!(chown(&f, BOB.uid, KEEP)));
        ok!(open(&f, O_RDWR, 0));
    });
    BOB_IN_TEAM.run(|| ok!(open(&f, O_RDONLY, 0)));
    ok!(chown(&f, ALICE.uid, KEEP));
    BOB_IN_TEAM.run(|| {
        ok!(open(&f, O_RDONLY, 0));
        expect_errno!(open(&f, O_RDWR, 0), EACCES);
    });
    ok!(chown(&f, KEEP, CREW));
    BOB_IN_TEAM.run(|| expect_errno!(open(&f, O_RDONLY, 0), EACCES));
}
