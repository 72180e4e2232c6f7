//! The setgid bit of directories: new objects get the directory's group.

use crate::posix::prelude::*;

fn setgid_dir(d: &Dir) -> Dir {
    d.dir_of("d", 0o2777, 0, TEAM)
}

/// New objects of every kind get the group of a setgid directory, by whomever they are made.
#[test]
fn group_is_inherited() {
    for user in [ROOT, ALICE, ALICE_IN_TEAM] {
        let d = area!();
        let dir = setgid_dir(&d);
        user.run(|| {
            drop(ok!(open(dir.p("f"), O_WRONLY | O_CREAT, 0o644)));
            ok!(mkdir(dir.p("sub"), 0o755));
            ok!(symlink("x", dir.p("l")));
            ok!(mkfifo(dir.p("p"), 0o644));
            ok!(mknod(dir.p("s"), S_IFSOCK | 0o644, 0));
            ok!(mknod(dir.p("n"), S_IFREG | 0o644, 0));
        });
        for name in ["f", "sub", "l", "p", "s", "n"] {
            let s = ok!(lstat(dir.p(name)));
            assert_eq!((s.uid, s.gid), (user.uid, TEAM), "{name} by {user:?}");
        }
    }
}

/// A new directory gets the bit itself, so that it goes on below; files do not.
#[test]
fn bit_is_inherited_by_directories() {
    let d = area!();
    let dir = setgid_dir(&d);
    for user in [ROOT, ALICE, ALICE_IN_TEAM] {
        user.run(|| {
            ok!(mkdir(dir.p("sub"), 0o700));
            ok!(mkdir(dir.p("sub/deep"), 0o1755));
            drop(ok!(open(dir.p("sub/deep/f"), O_WRONLY | O_CREAT, 0o755)));
        });
        let perm = |name: &str| (ok!(stat(dir.p(name))).perm(), ok!(stat(dir.p(name))).gid);
        assert_eq!(
            (perm("sub"), perm("sub/deep"), perm("sub/deep/f")),
            ((0o2700, TEAM), (0o3755, TEAM), (0o755, TEAM))
        );
        ok!(unlink(dir.p("sub/deep/f")));
        ok!(rmdir(dir.p("sub/deep")));
        ok!(rmdir(dir.p("sub")));
    }
}

/// Without the bit new objects get the caller's effective group, whatever the directory's group is.
#[test]
fn without_the_bit() {
    let d = area!();
    let dir = d.dir_of("d", 0o777, 0, TEAM);
    User { gid: CREW, ..ALICE_IN_TEAM }.run(|| {
        drop(ok!(open(dir.p("f"), O_WRONLY | O_CREAT, 0o644)));
        ok!(mkdir(dir.p("sub"), 0o755));
        ok!(symlink("x", dir.p("l")));
    });
    for name in ["f", "sub", "l"] {
        assert_eq!(ok!(lstat(dir.p(name))).gid, CREW, "{name}");
    }
    assert_eq!(ok!(stat(dir.p("sub"))).perm(), 0o755);
}

/// A new group-executable file keeps an asked setgid bit only if its maker is in the inherited group, or root.
#[test]
fn setgid_of_a_new_file() {
    let d = area!();
    let dir = setgid_dir(&d);
    let group_member = User { gid: TEAM, ..ALICE };
    for (i, (user, wanted)) in
        [(ROOT, 0o2755), (ALICE_IN_TEAM, 0o2755), (group_member, 0o2755), (ALICE, 0o755)].into_iter().enumerate()
    {
        let name = format!("f{i}");
        user.run(|| drop(ok!(open(dir.p(&name), O_WRONLY | O_CREAT, 0o2755))));
        assert_eq!(ok!(stat(dir.p(&name))).perm(), wanted, "{user:?}");
    }
}

/// Linking and renaming into such a directory changes no group.
#[test]
fn not_for_moved_objects() {
    let d = area!();
    let dir = setgid_dir(&d);
    let (f, g) = (d.file_of("f", 0o644, 0, CREW), d.dir_of("g", 0o755, 0, CREW));
    ok!(link(&f, dir.p("f")));
    ok!(rename(g.path(), dir.p("g")));
    assert_eq!(
        (ok!(stat(dir.p("f"))).gid, ok!(stat(dir.p("g"))).gid, ok!(stat(dir.p("g"))).perm()),
        (CREW, CREW, 0o755)
    );
}

/// A change of the bit or group decides for the next new object.
#[test]
fn changes_count_at_once() {
    let d = area!();
    let dir = setgid_dir(&d);
    let gid_of_new = |name: &str| {
        drop(ok!(open(dir.p(name), O_WRONLY | O_CREAT | O_EXCL, 0o644)));
        ok!(stat(dir.p(name))).gid
    };
    assert_eq!(gid_of_new("a"), TEAM);
    ok!(chown(dir.path(), KEEP, CREW));
    assert_eq!(gid_of_new("b"), CREW);
    ok!(chmod(dir.path(), 0o777));
    assert_eq!(gid_of_new("c"), 0);
}
