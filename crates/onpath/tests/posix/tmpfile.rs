//! O_TMPFILE: files that are born without a name, and may get one.

use crate::posix::prelude::*;
use libc::{AT_EMPTY_PATH, AT_SYMLINK_FOLLOW, O_TMPFILE};

/// An unnamed file, open for reading and writing.
fn unnamed(dir: impl AsRef<Path>, mode: u32) -> std::os::fd::OwnedFd {
    ok!(open(dir, O_TMPFILE | O_RDWR, mode))
}

/// It has no name and no link, is nowhere listed, and changes nothing of its directory.
#[test]
fn leaves_no_trace() {
    let d = area!();
    let before = ok!(stat(d.path()));
    let fd = moves("tmpfile", &[(d.path(), "")], || unnamed(d.path(), 0o640));
    let s = ok!(fstat(&fd));
    assert_eq!((s.kind(), s.perm(), s.nlink, s.size), (S_IFREG, 0o640, 0, 0));
    assert_eq!(s.dev, before.dev);
    assert_eq!(ok!(names(d.path())), Vec::<OsString>::new());
    ok!(rmdir(d.dir("x").path()));
    drop(fd);
    assert_eq!(ok!(names(d.path())), Vec::<OsString>::new());
}

/// It is read and written as any other file, by each of its descriptors, and opened again by way of /proc.
#[test]
fn is_a_file() {
    let d = area!();
    let fd = unnamed(d.path(), 0o600);
    ok!(pwrite(&fd, "some bytes", 0));
    ok!(ftruncate(&fd, 4));
    let again = ok!(open(fd_path(&fd), O_RDWR | O_APPEND, 0));
    ok!(write(&again, " more"));
    assert_eq!(ok!(pread(&fd, 100, 0)), b"some more");
    ok!(fsync(&fd));
    drop(fd);
    assert_eq!(ok!(fstat(&again)).nlink, 0);
    assert_eq!(ok!(pread(&again, 100, 0)), b"some more");
}

/// link by way of /proc gives it a name: nlink, ctime, content and inode number.
#[test]
fn gets_a_name() {
    let d = area!();
    let fd = unnamed(d.path(), 0o640);
    ok!(write(&fd, "named later"));
    let before = ok!(fstat(&fd));
    moves("link", &[(d.path(), "mc")], || ok!(linkat(fd_path(&fd), d.p("f"), AT_SYMLINK_FOLLOW)));
    let after = ok!(stat(d.p("f")));
    assert_eq!((after.ino, after.nlink, after.perm(), after.mtime), (before.ino, 1, 0o640, before.mtime));
    assert!(after.ctime > before.ctime);
    assert_eq!(ok!(fstat(&fd)), after);
    assert_eq!(content(d.p("f")), b"named later");
    assert_eq!(ok!(names(d.path())), ["f"]);
    drop(fd);
    assert_eq!(content(d.p("f")), b"named later");
}

/// So does AT_EMPTY_PATH, for root.
#[test]
fn gets_a_name_by_its_descriptor() {
    let d = area!();
    let fd = unnamed(d.path(), 0o600);
    ok!(linkat_fd(&fd, d.p("f")));
    assert_eq!(ok!(stat(d.p("f"))).ino, ok!(fstat(&fd)).ino);
}

/// The name may be in another directory than the one the file was asked for in, and there may be several.
#[test]
fn gets_names_elsewhere() {
    let d = area!();
    let (a, b) = (d.dir("a"), d.dir("b"));
    for i in 0..8 {
        let fd = unnamed(a.path(), 0o600);
        ok!(write(&fd, format!("{i}")));
        ok!(linkat(fd_path(&fd), b.p(format!("f{i}")), AT_SYMLINK_FOLLOW));
        ok!(linkat(fd_path(&fd), a.p(format!("g{i}")), AT_SYMLINK_FOLLOW));
        assert_eq!(ok!(fstat(&fd)).nlink, 2);
        drop(fd);
        assert_eq!(content(b.p(format!("f{i}"))), format!("{i}").as_bytes());
    }
    assert_eq!((ok!(names(a.path())).len(), ok!(names(b.path())).len()), (8, 8));
}

/// With O_EXCL it never gets one (ENOENT); nor does it get a second first name after its last one is gone.
#[test]
fn may_be_denied_a_name() {
    let d = area!();
    let never = ok!(open(d.path(), O_TMPFILE | O_RDWR | O_EXCL, 0o600));
    expect_errno!(linkat(fd_path(&never), d.p("f"), AT_SYMLINK_FOLLOW), ENOENT);
    ok!(write(&never, "all the same a file"));
    let once = unnamed(d.path(), 0o600);
    ok!(linkat(fd_path(&once), d.p("f"), AT_SYMLINK_FOLLOW));
    ok!(unlink(d.p("f")));
    expect_errno!(linkat(fd_path(&once), d.p("f"), AT_SYMLINK_FOLLOW), ENOENT);
    assert_eq!(ok!(fstat(&once)).nlink, 0);
    expect_errno!(stat(d.p("f")), ENOENT);
}

/// The usual errors of link hold for it, and it may be tried again.
#[test]
fn refused_names() {
    let d = area!();
    let there = d.file("there");
    let fd = unnamed(d.path(), 0o600);
    expect_errno!(linkat(fd_path(&fd), &there, AT_SYMLINK_FOLLOW), EEXIST);
    expect_errno!(linkat(fd_path(&fd), d.p("missing/f"), AT_SYMLINK_FOLLOW), ENOENT);
    expect_errno!(linkat(fd_path(&fd), d.p("there/f"), AT_SYMLINK_FOLLOW), ENOTDIR);
    expect_errno!(linkat(fd_path(&fd), d.p("n".repeat(256)), AT_SYMLINK_FOLLOW), ENAMETOOLONG);
    let closed = d.dir_of("closed", 0o555, 0, 0);
    ok!(chmod(d.path(), 0o777));
    ALICE.run(|| {
        let fd = unnamed(d.path(), 0o600);
        expect_errno!(linkat(fd_path(&fd), closed.p("f"), AT_SYMLINK_FOLLOW), EACCES);
        ok!(linkat(fd_path(&fd), d.p("alice"), AT_SYMLINK_FOLLOW));
    });
    assert_eq!(ok!(stat(d.p("alice"))).uid, ALICE.uid);
    ok!(linkat(fd_path(&fd), d.p("f"), AT_SYMLINK_FOLLOW));
}

/// Making one needs w and x on the directory, for every class.
#[test]
fn permissions() {
    for class in CLASSES {
        let Some(d) = crate::posix::fresh() else { return crate::posix::cannot_run() };
        for (bits, mode) in class.modes() {
            let dir = d.dir_of(format!("{mode:o}"), mode, class.uid, class.gid);
            class.user.run(|| {
                let result = open(dir.path(), O_TMPFILE | O_RDWR, 0o600);
                allowed_or(format!("{} {mode:o}", class.name), bits & 3 == 3, result, libc::EACCES);
            });
            ok!(chmod(dir.path(), 0o755));
            ok!(rmdir(dir.path()));
        }
    }
}

/// Owner, group and mode are those that a create would give: umask, setgid directory.
#[test]
fn owner_group_and_mode() {
    let d = area!();
    let plain = d.dir_of("plain", 0o777, 0, 0);
    let setgid = d.dir_of("setgid", 0o2777, 0, TEAM);
    ALICE.run(|| {
        umask(0o027);
        let s = ok!(fstat(unnamed(plain.path(), 0o666)));
        assert_eq!((s.uid, s.gid, s.perm()), (ALICE.uid, ALICE.gid, 0o640));
        let s = ok!(fstat(unnamed(setgid.path(), 0o2766)));
        assert_eq!((s.uid, s.gid), (ALICE.uid, TEAM));
        umask(0);
    });
    // The mode counts for later opens, not for this one.
    let fd = ALICE.run(|| ok!(open(plain.path(), O_TMPFILE | O_RDWR, 0)));
    ok!(write(&fd, "x"));
    ok!(linkat(fd_path(&fd), plain.p("f"), AT_SYMLINK_FOLLOW));
    ALICE.run(|| expect_errno!(open(plain.p("f"), O_RDONLY, 0), EACCES));
}

/// It must be opened for writing, in a directory.
#[test]
fn bad_arguments() {
    let d = area!();
    expect_errno!(open(d.path(), O_TMPFILE | O_RDONLY, 0o600), EINVAL);
    expect_errno!(open(d.file("f"), O_TMPFILE | O_RDWR, 0o600), ENOTDIR);
    expect_errno!(open(d.p("missing"), O_TMPFILE | O_RDWR, 0o600), ENOENT);
    ok!(open(d.path(), O_TMPFILE | O_WRONLY, 0o600));
}

fn linkat_fd(fd: impl std::os::fd::AsFd, new: PathBuf) -> Result<(), i32> {
    linkat_from(fd, "", new, AT_EMPTY_PATH)
}
