//! The permission bits of files and directories, for every class of user.

use crate::posix::prelude::*;

/// A file opens for reading and writing by the bits of the one class that applies to the caller.
#[test]
fn files() {
    let d = area!();
    for class in CLASSES {
        let f = d.file_of(class.name, 0, class.uid, class.gid);
        for (bits, mode) in class.modes() {
            ok!(chmod(&f, mode));
            class.user.run(|| {
                for (flags, need) in
                    [(O_RDONLY, 4), (O_WRONLY, 2), (O_RDWR, 6), (O_WRONLY | O_TRUNC, 2), (O_RDONLY | O_TRUNC, 6)]
                {
                    let what = format!("{}: mode {mode:03o}, flags {flags:o}", class.name);
                    allowed_or(what, bits & need == need, open(&f, flags, 0), libc::EACCES);
                }
            });
        }
    }
}

/// A directory is listed by r, searched by x, changed by w and x of the one class that applies.
#[test]
fn directories() {
    let d = area!();
    for class in CLASSES {
        let dir = d.dir_of(class.name, 0, class.uid, class.gid);
        dir.dir("sub").file("g");
        for (bits, mode) in class.modes() {
            for name in ["f", "rename-me", "unlink-me"] {
                dir.file_of(name, 0o600, class.user.uid, class.user.gid);
            }
            dir.dir("rmdir-me");
            ok!(chmod(dir.path(), mode));
            class.user.run(|| {
                let check = |what: &str, need: u32, result: R| {
                    allowed_or(
                        format!("{} in {}: mode {mode:03o}", what, class.name),
                        bits & need == need,
                        result,
                        libc::EACCES,
                    );
                };
                check("list", 4, names(dir.path()).map(drop));
                check("stat", 1, stat(dir.p("f")).map(drop));
                check("stat deeper", 1, stat(dir.p("sub/g")).map(drop));
                check("chdir", 1, chdir(dir.path()));
                check("create", 3, open(dir.p("new"), O_WRONLY | O_CREAT | O_EXCL, 0o600).map(drop));
                check("link", 3, link(dir.p("f"), dir.p("new-link")));
                check("rename", 3, rename(dir.p("rename-me"), dir.p("new-name")));
                check("symlink", 3, symlink("x", dir.p("new-symlink")));
                check("mkdir", 3, mkdir(dir.p("new-dir"), 0o755));
                check("mkfifo", 3, mkfifo(dir.p("new-fifo"), 0o644));
                check("rmdir", 3, rmdir(dir.p("rmdir-me")));
                check("unlink", 3, unlink(dir.p("unlink-me")));
            });
            for name in ok!(names(dir.path())) {
                let _ = if name == "sub" { Ok(()) } else { unlink(dir.p(&name)).or_else(|_| rmdir(dir.p(&name))) };
            }
        }
    }
}

/// The bits of the class that applies decide, even if another class has more: no falling through.
#[test]
fn the_first_class_decides() {
    let d = area!();
    let f = d.file_of("f", 0o077, ALICE.uid, ALICE.gid);
    let g = d.file_of("g", 0o707, 0, TEAM);
    ALICE.run(|| expect_errno!(open(&f, O_RDONLY, 0), EACCES));
    BOB.run(|| ok!(open(&f, O_RDWR, 0)));
    BOB_IN_TEAM.run(|| expect_errno!(open(&g, O_RDONLY, 0), EACCES));
    BOB.run(|| ok!(open(&g, O_RDWR, 0)));
}

/// Supplementary groups count as of the call, for lookup, open, create and removal.
#[test]
fn supplementary_groups() {
    let d = area!();
    let dir = d.dir_of("d", 0o070, 0, TEAM);
    let f = dir.file_of("f", 0o060, 0, CREW);
    BOB.run(|| expect_errno!(open(&f, O_RDWR, 0), EACCES));
    BOB_IN_TEAM.run(|| expect_errno!(open(&f, O_RDWR, 0), EACCES));
    let both = User { groups: &[1, 2, 3, 4, 5, CREW, 6, TEAM], ..BOB };
    both.run(|| {
        ok!(open(&f, O_RDWR, 0));
        ok!(names(dir.path()));
        ok!(mkdir(dir.p("sub"), 0o755));
        ok!(rename(dir.p("sub"), dir.p("sub2")));
        ok!(rmdir(dir.p("sub2")));
        ok!(symlink("x", dir.p("s")));
        ok!(truncate(&f, 10));
        ok!(touch(&f));
        ok!(link(&f, dir.p("g")));
        ok!(unlink(&f));
        ok!(access(dir.p("g"), libc::R_OK | libc::W_OK));
        expect_errno!(access(dir.p("g"), libc::X_OK), EACCES);
    });
}

/// Root reads and writes whatever the bits say.
#[test]
fn root() {
    let d = area!();
    let dir = d.dir_of("d", 0, ALICE.uid, ALICE.gid);
    let f = dir.file_of("f", 0, ALICE.uid, ALICE.gid);
    ok!(open(&f, O_RDWR | O_TRUNC, 0));
    assert_eq!(ok!(names(dir.path())), ["f"]);
    ok!(rename(&f, dir.p("g")));
    ok!(unlink(dir.p("g")));
}

/// Every directory on the way must be searchable, not readable; the object's own bits do not matter for stat.
#[test]
fn search_on_the_way() {
    let d = area!();
    let a = d.dir_of("a", 0o711, 0, 0);
    let b = a.dir_of("b", 0o711, 0, 0);
    let f = b.file_of("f", 0, 0, 0);
    ALICE.run(|| ok!(stat(&f)));
    for closed in [a.path(), b.path()] {
        ok!(chmod(closed, 0o766));
        ALICE.run(|| {
            expect_errno!(stat(&f), EACCES);
            expect_errno!(open(b.p("new"), O_WRONLY | O_CREAT, 0o644), EACCES);
            expect_errno!(readlink(b.p("missing")), EACCES);
        });
        ok!(chmod(closed, 0o711));
    }
}

/// A name that root has just looked up is not open to others by that.
#[test]
fn looked_up_by_root_before() {
    let d = area!();
    let dir = d.dir_of("d", 0o700, 0, 0);
    let f = dir.file_of("f", 0o666, 0, 0);
    ok!(stat(&f));
    ALICE.run(|| expect_errno!(stat(&f), EACCES));
    ok!(stat(&f));
    ALICE.run(|| expect_errno!(open(&f, O_RDONLY, 0), EACCES));
}

/// `.` and `..` need search permission on the directory that they are looked for in, except on FUSE, where the kernel goes there by itself and
/// asks nothing. What is behind them is asked for by name, and decided.
#[test]
fn dots_of_a_closed_directory() {
    let d = area!();
    let closed = d.dir_of("closed", 0o766, 0, 0);
    let f = closed.file_of("f", 0o666, 0, 0);
    ALICE.run(|| {
        for dots in [".", ".."] {
            allowed_or(dots, is_left_to_server(&d), stat(closed.p(dots)), libc::EACCES);
            expect_errno!(mkdir(closed.p(dots).join("closed/new"), 0o755), EACCES);
        }
        expect_errno!(stat(closed.p("./f")), EACCES);
        expect_errno!(stat(&f), EACCES);
    });
}
