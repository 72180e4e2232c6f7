//! Access times of directories and symlinks (relatime), and O_NOATIME.

use crate::posix::prelude::*;
use libc::O_NOATIME;

fn atime(path: &Path) -> Time {
    ok!(lstat(path)).atime
}

/// Reading a directory moves its access time once after each change.
#[test]
fn of_directories() {
    let d = area!();
    let dir = d.dir("dir");
    for name in ["a", "b"] {
        tick();
        dir.file(name);
        let before = atime(dir.path());
        tick();
        ok!(names(dir.path()));
        let after = atime(dir.path());
        assert!(after > before, "it was changed since: {before:?} → {after:?}");
        tick();
        ok!(names(dir.path()));
        assert_eq!(atime(dir.path()), after, "it was not changed since");
    }
}

/// So does readlink.
#[test]
fn of_symlinks() {
    let d = area!();
    let link = d.symlink("nowhere", "link");
    let before = atime(&link);
    tick();
    assert_eq!(ok!(readlink(&link)), "nowhere");
    let after = atime(&link);
    assert!(after > before);
    tick();
    ok!(readlink(&link));
    assert_eq!(atime(&link), after);
    tick();
    ok!(lchown(&link, 1, 1));
    tick();
    ok!(readlink(&link));
    assert!(atime(&link) > after, "ctime counts too");
}

/// What is read is no change: neither mtime nor ctime moves.
#[test]
fn nothing_else() {
    let d = area!();
    let (dir, link) = (d.dir("dir"), d.symlink("nowhere", "link"));
    moves("reading", &[(dir.path(), "?a"), (&link, "?a")], || {
        ok!(names(dir.path()));
        ok!(readlink(&link));
    });
}

/// O_NOATIME leaves it alone, of files and directories.
#[test]
fn left_alone() {
    let d = area!();
    let (f, dir) = (d.file_with("f", b"bytes"), d.dir("dir"));
    moves("reading with O_NOATIME", &[(&f, ""), (dir.path(), "")], || {
        assert_eq!(ok!(pread(ok!(open(&f, O_RDONLY | O_NOATIME, 0)), 10, 0)), b"bytes");
        ok!(entries(ok!(open(dir.path(), O_RDONLY | O_DIRECTORY | O_NOATIME, 0))));
    });
}
