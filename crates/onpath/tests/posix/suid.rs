//! When suid and setgid bits of a file are taken away, and when not.

use crate::posix::prelude::*;

/// A change by the owner, not root, and the mode that a file with some mode has afterwards.
fn after(mode: u32, user: User, change: impl FnOnce(&Path) + Send) -> u32 {
    let Some(d) = crate::posix::fresh() else { return u32::MAX };
    let f = d.file_with("f", b"12345");
    ok!(chown(&f, ALICE.uid, ALICE.gid));
    ok!(chmod(&f, mode));
    user.run(|| change(&f));
    ok!(stat(&f)).perm()
}

/// What the modes become; none where nothing could be mounted.
fn check(what: &str, user: User, wanted: &[(u32, u32)], change: impl Fn(&Path) + Sync) {
    for &(mode, wanted) in wanted {
        let got = after(mode, user, |path| change(path));
        assert!(got == wanted || got == u32::MAX, "{what}: {mode:o} became {got:o}, not {wanted:o}");
    }
}

/// suid goes; setgid goes with group x, else it is a lock mark and stays; the rest stays.
const TAKEN: [(u32, u32); 6] =
    [(0o6777, 0o777), (0o4755, 0o755), (0o2775, 0o775), (0o6766, 0o2766), (0o4666, 0o666), (0o1777, 0o1777)];
const KEPT: [(u32, u32); 3] = [(0o6777, 0o6777), (0o4755, 0o4755), (0o2775, 0o2775)];

fn writes(path: &Path) {
    ok!(pwrite(ok!(open(path, O_WRONLY, 0)), "x", 1));
}

/// Writing by anybody but root takes the bits.
#[test]
fn writing() {
    check("write by the owner", ALICE, &TAKEN, writes);
    check("write by another", BOB, &[(0o6777, 0o777), (0o4777, 0o777)], writes);
    check("append", ALICE, &TAKEN, |path| {
        ok!(write(ok!(open(path, O_WRONLY | O_APPEND, 0)), "x"));
    });
    check("write by root", ROOT, &KEPT, writes);
}

/// Also a write that is refused for its address.
#[test]
fn writing_from_nowhere() {
    check("write from a bad address", ALICE, &TAKEN, |path| {
        expect_errno!(write_from_nowhere(ok!(open(path, O_WRONLY, 0))), EFAULT);
    });
}

/// So does truncating, by path, by descriptor and by O_TRUNC.
#[test]
fn truncating() {
    check("truncate", ALICE, &TAKEN, |path| ok!(truncate(path, 1)));
    check("truncate to longer", ALICE, &TAKEN, |path| ok!(truncate(path, 100)));
    check("ftruncate", ALICE, &TAKEN, |path| ok!(ftruncate(ok!(open(path, O_WRONLY, 0)), 1)));
    check("O_TRUNC", ALICE, &TAKEN, |path| drop(ok!(open(path, O_WRONLY | O_TRUNC, 0))));
    check("truncate by root", ROOT, &KEPT, |path| ok!(truncate(path, 1)));
    check("O_TRUNC by root", ROOT, &KEPT, |path| drop(ok!(open(path, O_WRONLY | O_TRUNC, 0))));
}

/// A lock mark (setgid without group x) goes when somebody truncates who is not in the group.
#[test]
fn truncating_by_strangers() {
    const MARKED: u32 = 0o2666;
    check("truncate by another", BOB, &[(MARKED, 0o666)], |path| ok!(truncate(path, 1)));
    check("O_TRUNC by another", BOB, &[(MARKED, 0o666)], |path| drop(ok!(open(path, O_WRONLY | O_TRUNC, 0))));
    for (owner, left) in [(ALICE, 0o666), (ALICE_IN_TEAM, MARKED)] {
        check("truncate by the owner", ROOT, &[(MARKED, left)], |path| {
            ok!(chown(path, ALICE.uid, TEAM));
            ok!(chmod(path, MARKED));
            owner.run(|| ok!(truncate(path, 1)));
        });
        check("chown by the owner", ROOT, &[(MARKED, left)], |path| {
            ok!(chown(path, ALICE.uid, TEAM));
            ok!(chmod(path, MARKED));
            owner.run(|| ok!(chown(path, KEEP, ALICE.gid)));
        });
    }
}

/// A change of owner or group takes them, by root too.
#[test]
fn changing_the_owner() {
    check("chgrp by the owner", ALICE_IN_TEAM, &[(0o6777, 0o777), (0o4755, 0o755), (0o2775, 0o775)], |path| {
        ok!(chown(path, KEEP, TEAM))
    });
    check("chown by root", ROOT, &[(0o6777, 0o777), (0o4755, 0o755), (0o2775, 0o775)], |path| {
        ok!(chown(path, BOB.uid, BOB.gid))
    });
    check("fchown by root", ROOT, &[(0o6777, 0o777)], |path| ok!(fchown(ok!(open(path, O_RDONLY, 0)), BOB.uid, KEEP)));
    check("chown of a file without x", ROOT, &[(0o6644, 0o2644)], |path| ok!(chown(path, BOB.uid, BOB.gid)));
}

/// A chown that keeps both ids takes them too: by the owner and by root, and by nobody else (EPERM, except on FUSE, where the kernel sends the
/// same before a write of somebody who may).
#[test]
fn keeping_both_ids() {
    let d = area!();
    let fuse = is_fuse(&d);
    for user in [ALICE, ROOT] {
        check("chown to the same", user, &TAKEN, |path| ok!(chown(path, KEEP, KEEP)));
    }
    check("by another", BOB, &KEPT, |path| {
        allowed_or("chown to the same", fuse, chown(path, KEEP, KEEP), libc::EPERM);
    });
    check("by another, nothing to take", BOB, &[(0o755, 0o755)], |path| ok!(chown(path, KEEP, KEEP)));
}

/// Reading, opening, linking, renaming, setting times and chmod keep them.
#[test]
fn other_changes() {
    check("read", ALICE, &KEPT, |path| {
        ok!(read(ok!(open(path, O_RDWR, 0)), 3));
    });
    check("utimens", ALICE, &KEPT, |path| ok!(utimens(path, [NOW, at(1, 0)])));
    check("chmod", ALICE, &KEPT, |path| ok!(chmod(path, ok!(stat(path)).perm())));
    check("link and rename", ROOT, &KEPT, |path| {
        ok!(link(path, path.with_file_name("g")));
        ok!(rename(path, path.with_file_name("h")));
        ok!(rename(path.with_file_name("h"), path));
    });
}

/// A directory keeps its bits when its owner or group changes.
#[test]
fn directories() {
    let d = area!();
    let dir = d.dir_of("d", 0o6755, ALICE.uid, ALICE.gid);
    ok!(chmod(dir.path(), 0o6755));
    ok!(chown(dir.path(), BOB.uid, TEAM));
    assert_eq!(ok!(stat(dir.path())).perm(), 0o6755);
    BOB_IN_TEAM.run(|| ok!(chown(dir.path(), KEEP, BOB.gid)));
    assert_eq!(ok!(stat(dir.path())).perm(), 0o6755);
}

/// A refused change keeps them.
#[test]
fn refused_changes() {
    check("refused", BOB, &[(0o6755, 0o6755)], |path| {
        expect_errno!(open(path, O_WRONLY, 0), EACCES);
        expect_errno!(truncate(path, 0), EACCES);
        expect_errno!(chown(path, KEEP, BOB.gid), EPERM);
    });
}
