//! A refused operation moves no time and changes nothing, of the object and of its directories.

use crate::posix::prelude::*;

type Attempt<'a> = (&'a str, User, i32, Box<dyn Fn() -> R + Send + Sync + 'a>);

/// Every attempt must fail with its errno and leave all objects as they were.
fn nothing_moves(objects: &[&Path], attempts: &[Attempt]) {
    let objects: Vec<(&Path, &str)> = objects.iter().map(|&path| (path, "")).collect();
    let look = || objects.iter().map(|(path, _)| ok!(lstat(path))).collect::<Vec<_>>();
    for (name, user, errno, attempt) in attempts {
        let before = look();
        moves(name, &objects, || refused(name, user.run(attempt), &[*errno]));
        assert_eq!(look(), before, "{name}");
    }
}

/// What another user may not do.
#[test]
fn for_want_of_permission() {
    let d = area!();
    let dir = d.dir_of("d", 0o755, ALICE.uid, ALICE.gid);
    let f = dir.file_of("f", 0o644, ALICE.uid, ALICE.gid);
    let sub = dir.dir_of("sub", 0o755, ALICE.uid, ALICE.gid);
    let free = d.dir_of("free", 0o777, 0, 0);
    let closed = d.dir("closed");
    let x = dir.p("x");
    let (p, e) = (libc::EPERM, libc::EACCES);
    nothing_moves(
        &[dir.path(), &f, sub.path(), free.path(), closed.path()],
        &[
            ("chmod", BOB, p, Box::new(|| chmod(&f, 0o600))),
            ("chmod of a directory", BOB, p, Box::new(|| chmod(dir.path(), 0o777))),
            ("chown", BOB, p, Box::new(|| chown(&f, BOB.uid, BOB.gid))),
            ("chown away", ALICE, p, Box::new(|| chown(&f, BOB.uid, KEEP))),
            ("utimensat", BOB, p, Box::new(|| utimens(&f, [at(1, 0), at(1, 0)]))),
            ("touch", BOB, e, Box::new(|| touch(&f))),
            ("truncate", BOB, e, Box::new(|| truncate(&f, 100))),
            ("open for writing", BOB, e, Box::new(|| open(&f, O_WRONLY, 0).map(drop))),
            ("open O_TRUNC", BOB, e, Box::new(|| open(&f, O_RDONLY | O_TRUNC, 0).map(drop))),
            ("create", BOB, e, Box::new(|| open(&x, O_WRONLY | O_CREAT, 0o644).map(drop))),
            ("mkdir", BOB, e, Box::new(|| mkdir(&x, 0o755))),
            ("mkfifo", BOB, e, Box::new(|| mkfifo(&x, 0o644))),
            ("symlink", BOB, e, Box::new(|| symlink("y", &x))),
            ("link", ALICE, p, Box::new(|| link(sub.path(), &x))),
            ("link into", ALICE, e, Box::new(|| link(&f, closed.p("x")))),
            ("unlink", BOB, e, Box::new(|| unlink(&f))),
            ("rmdir", BOB, e, Box::new(|| rmdir(sub.path()))),
            ("rename", BOB, e, Box::new(|| rename(&f, &x))),
            ("rename away", BOB, e, Box::new(|| rename(&f, free.p("f")))),
        ],
    );
}

/// What cannot be done by anybody.
#[test]
fn for_other_reasons() {
    let d = area!();
    let dir = d.dir("d");
    let f = dir.file_with("f", b"123");
    let full = dir.dir("full");
    full.file("in");
    let long = dir.p("n".repeat(256));
    nothing_moves(
        &[d.path(), dir.path(), &f, full.path(), &full.p("in")],
        &[
            ("O_EXCL", ROOT, libc::EEXIST, Box::new(|| open(&f, O_WRONLY | O_CREAT | O_EXCL, 0o644).map(drop))),
            ("mkdir", ROOT, libc::EEXIST, Box::new(|| mkdir(full.path(), 0o755))),
            ("mkfifo", ROOT, libc::EEXIST, Box::new(|| mkfifo(&f, 0o644))),
            ("symlink", ROOT, libc::EEXIST, Box::new(|| symlink("y", &f))),
            ("link", ROOT, libc::EEXIST, Box::new(|| link(&f, full.p("in")))),
            ("long create", ROOT, libc::ENAMETOOLONG, Box::new(|| open(&long, O_WRONLY | O_CREAT, 0o644).map(drop))),
            ("long mkdir", ROOT, libc::ENAMETOOLONG, Box::new(|| mkdir(&long, 0o755))),
            ("long rename", ROOT, libc::ENAMETOOLONG, Box::new(|| rename(&f, &long))),
            ("rmdir of a full directory", ROOT, libc::ENOTEMPTY, Box::new(|| rmdir(full.path()))),
            ("rmdir of a file", ROOT, libc::ENOTDIR, Box::new(|| rmdir(&f))),
            ("unlink of a directory", ROOT, libc::EISDIR, Box::new(|| unlink(full.path()))),
            ("unlink of nothing", ROOT, libc::ENOENT, Box::new(|| unlink(dir.p("missing")))),
            ("rename of nothing", ROOT, libc::ENOENT, Box::new(|| rename(dir.p("missing"), &f))),
            ("rename onto a directory", ROOT, libc::EISDIR, Box::new(|| rename(&f, full.path()))),
            ("rename onto a file", ROOT, libc::ENOTDIR, Box::new(|| rename(full.path(), &f))),
            ("rename into itself", ROOT, libc::EINVAL, Box::new(|| rename(dir.path(), full.p("x")))),
            ("rename NOREPLACE", ROOT, libc::EEXIST, Box::new(|| renameat2(&f, full.p("in"), libc::RENAME_NOREPLACE))),
            ("truncate", ROOT, libc::EINVAL, Box::new(|| truncate(&f, -1))),
            ("truncate of a directory", ROOT, libc::EISDIR, Box::new(|| truncate(full.path(), 0))),
            ("bad nanoseconds", ROOT, libc::EINVAL, Box::new(|| utimens(&f, [at(0, -1), NOW]))),
            (
                "open of a directory",
                ROOT,
                libc::EISDIR,
                Box::new(|| open(full.path(), O_RDWR | O_CREAT, 0o644).map(drop)),
            ),
        ],
    );
}

/// What the sticky bit forbids.
#[test]
fn for_the_sticky_bit() {
    let d = area!();
    let dir = d.dir_of("d", 0o1777, 0, 0);
    let f = dir.file_of("f", 0o666, ALICE.uid, ALICE.gid);
    let sub = dir.dir_of("sub", 0o777, ALICE.uid, ALICE.gid);
    let mine = dir.file_of("mine", 0o666, BOB.uid, BOB.gid);
    let p = libc::EPERM;
    nothing_moves(
        &[dir.path(), &f, sub.path(), &mine],
        &[
            ("unlink", BOB, p, Box::new(|| unlink(&f))),
            ("rmdir", BOB, p, Box::new(|| rmdir(sub.path()))),
            ("rename", BOB, p, Box::new(|| rename(&f, dir.p("x")))),
            ("rename of a directory", BOB, p, Box::new(|| rename(sub.path(), dir.p("x")))),
            ("replacing", BOB, p, Box::new(|| rename(&mine, &f))),
        ],
    );
}
