//! The sticky bit of directories: whose names one may remove.

use crate::posix::prelude::*;

/// Who tries, who owns the directory, who owns the object, and whether it is allowed.
const CASES: [(User, u32, u32, bool); 7] = [
    (ALICE, ALICE.uid, BOB.uid, true),
    (ALICE, BOB.uid, ALICE.uid, true),
    (ALICE, 0, ALICE.uid, true),
    (ALICE, BOB.uid, BOB.uid, false),
    (ALICE, 0, BOB.uid, false),
    (ALICE, BOB.uid, 0, false),
    (ROOT, BOB.uid, ALICE.uid, true),
];

fn for_each_case(check: impl Fn(&Dir, User, u32, bool)) {
    for (user, dir_owner, owner, allowed) in CASES {
        let Some(d) = crate::posix::fresh() else { return };
        let dir = d.dir_of("sticky", 0o1777, dir_owner, TEAM);
        check(&dir, user, owner, allowed);
    }
}

fn own(path: &Path, uid: u32) {
    ok!(lchown(path, uid, TEAM));
}

/// Removal of a name is for the object's owner, the directory's owner and root (else EPERM), for every kind.
#[test]
fn removal() {
    for_each_case(|dir, user, owner, allowed| {
        for (kind, path) in dir.one_of_each() {
            own(&path, owner);
            user.run(|| {
                let result = if kind == "dir" { rmdir(&path) } else { unlink(&path) };
                allowed_or(format!("{kind} of {owner} by {user:?}"), allowed, result, libc::EPERM);
            });
        }
    });
}

/// So is renaming it away, in place or to another directory.
#[test]
fn renaming_away() {
    for_each_case(|dir, user, owner, allowed| {
        let elsewhere = Dir::at(dir.path().parent().expect("a parent").to_path_buf()).dir_of("elsewhere", 0o777, 0, 0);
        for (i, to) in [dir.p("new"), elsewhere.p("new")].into_iter().enumerate() {
            let f = dir.file(format!("f{i}"));
            own(&f, owner);
            user.run(|| allowed_or(format!("{owner} by {user:?}"), allowed, rename(&f, &to), libc::EPERM));
        }
    });
}

/// So is replacing it by a rename.
#[test]
fn replacing() {
    for_each_case(|dir, user, owner, allowed| {
        let (mine, target) = (dir.file("mine"), dir.file("target"));
        let (my_dir, target_dir) = (dir.dir("my-dir"), dir.dir("target-dir"));
        own(&mine, user.uid);
        own(&target, owner);
        own(my_dir.path(), user.uid);
        own(target_dir.path(), owner);
        user.run(|| {
            allowed_or(format!("{owner} by {user:?}"), allowed, rename(&mine, &target), libc::EPERM);
            allowed_or(format!("{owner} by {user:?}"), allowed, rename(my_dir.path(), target_dir.path()), libc::EPERM);
        });
    });
}

/// Creating, linking and changing files is not restricted by it, nor is moving objects in.
#[test]
fn the_rest_is_free() {
    let d = area!();
    let dir = d.dir_of("sticky", 0o1777, 0, 0);
    let f = dir.file_of("f", 0o666, BOB.uid, BOB.gid);
    let free = d.dir_of("free", 0o777, 0, 0);
    let g = free.file_of("g", 0o644, BOB.uid, BOB.gid);
    ALICE.run(|| {
        ok!(mkdir(dir.p("sub"), 0o755));
        ok!(open(dir.p("new"), O_WRONLY | O_CREAT | O_EXCL, 0o644));
        ok!(write(ok!(open(&f, O_WRONLY, 0)), "x"));
        ok!(rename(&g, dir.p("g")));
        ok!(rmdir(dir.p("sub")));
        ok!(unlink(dir.p("new")));
        expect_errno!(unlink(dir.p("g")), EPERM);
    });
}

/// Without write permission the answer is EACCES, sticky or not; without the bit anybody who may write may remove.
#[test]
fn beside_the_permission_bits() {
    let d = area!();
    let dir = d.dir_of("sticky", 0o1755, 0, 0);
    let f = dir.file_of("f", 0o666, ALICE.uid, ALICE.gid);
    ALICE.run(|| expect_errno!(unlink(&f), EACCES));
    ok!(chmod(dir.path(), 0o777));
    BOB.run(|| ok!(unlink(&f)));
}
