//! open(2), openat(2), creat(2): flags, creation, and errors.

use crate::posix::prelude::*;

/// O_CREAT makes an empty file with the asked mode, all twelve bits of it, and the caller's ids.
#[test]
fn creates() {
    let d = area!();
    ok!(chmod(d.path(), 0o777));
    for mode in [0, 0o400, 0o644, 0o755, 0o1666, 0o4755, 0o7777] {
        let path = d.p(format!("{mode:o}"));
        let user = User { gid: TEAM, ..ALICE };
        user.run(|| drop(ok!(open(&path, O_WRONLY | O_CREAT, mode))));
        let s = ok!(stat(&path));
        assert_eq!(
            (s.kind(), s.perm(), s.uid, s.gid, s.nlink, s.size, s.blocks),
            (S_IFREG, mode, ALICE.uid, TEAM, 1, 0, 0)
        );
    }
}

/// Whoever creates a file may use it as asked, even if its mode forbids that to everybody.
#[test]
fn the_creator_may_write() {
    let d = area!();
    ok!(chmod(d.path(), 0o777));
    ALICE.run(|| {
        for mode in [0, 0o444] {
            let path = d.p(format!("{mode:o}"));
            let fd = ok!(open(&path, O_RDWR | O_CREAT | O_EXCL, mode));
            assert_eq!(ok!(write(&fd, "mine")), 4);
            assert_eq!(ok!(pread(&fd, 4, 0)), b"mine");
            expect_errno!(open(&path, O_RDWR | O_CREAT, 0o666), EACCES);
        }
    });
}

/// O_CREAT of an existing file opens it and changes nothing.
#[test]
fn create_of_an_existing_file() {
    let d = area!();
    let f = d.file_with("f", b"there");
    ok!(chown(&f, 1, 2));
    ok!(chmod(&f, 0o4711));
    let before = ok!(stat(&f));
    drop(ok!(open(&f, O_RDWR | O_CREAT, 0o600)));
    assert_eq!(ok!(stat(&f)), before);
    assert_eq!(content(&f), b"there");
}

/// O_EXCL refuses every existing name (EEXIST), a dangling symlink too, and creates nothing behind it.
#[test]
fn exclusive() {
    let d = area!();
    for (_, path) in d.one_of_each() {
        expect_errno!(open(&path, O_RDWR | O_CREAT | O_EXCL, 0o644), EEXIST);
    }
    expect_errno!(lstat(d.p("nowhere")), ENOENT);
    drop(ok!(open(d.p("new"), O_RDWR | O_CREAT | O_EXCL, 0o644)));
}

/// O_CREAT through a dangling symlink creates its target.
#[test]
fn create_through_a_symlink() {
    let d = area!();
    d.dir("sub");
    let l = d.symlink("sub/target", "l");
    drop(ok!(open(&l, O_WRONLY | O_CREAT, 0o640)));
    assert_eq!(ok!(lstat(d.p("sub/target"))).mode, S_IFREG | 0o640);
    let far = d.symlink("missing/target", "far");
    expect_errno!(open(far, O_WRONLY | O_CREAT, 0o640), ENOENT);
}

/// O_TRUNC empties a file and leaves mode, ids and inode alone.
#[test]
fn truncates() {
    let d = area!();
    let f = d.file_with("f", &[7; 10_000]);
    let before = ok!(stat(&f));
    let reader = ok!(open(&f, O_RDONLY, 0));
    let fd = ok!(open(&f, O_WRONLY | O_TRUNC, 0));
    let after = ok!(fstat(&fd));
    assert_eq!((after.size, after.blocks, after.mode, after.ino), (0, 0, before.mode, before.ino));
    assert_eq!(ok!(pread(&reader, 10, 0)), b"");
    ok!(pwrite(&fd, "z", 5));
    assert_eq!(ok!(pread(&reader, 10, 0)), b"\0\0\0\0\0z");
    drop(ok!(open(&f, O_WRONLY | O_CREAT | O_TRUNC, 0o777)));
    assert_eq!((ok!(stat(&f)).size, ok!(stat(&f)).mode), (0, before.mode));
}

/// O_TRUNC needs write permission (EACCES), with O_RDONLY too, and then changes nothing.
#[test]
fn truncate_needs_permission() {
    let d = area!();
    let f = d.file_with("f", b"kept");
    ALICE.run(|| {
        for flags in [O_RDONLY, O_WRONLY, O_RDWR] {
            expect_errno!(open(&f, flags | O_TRUNC, 0), EACCES);
            expect_errno!(open(&f, flags | O_TRUNC | O_CREAT, 0o666), EACCES);
        }
    });
    assert_eq!(content(&f), b"kept");
}

/// O_DIRECTORY accepts directories only (ENOTDIR); a symlink to one is followed.
#[test]
fn directory_only() {
    let d = area!();
    for (kind, path) in d.one_of_each() {
        match kind {
            "dir" => drop(ok!(open(&path, O_RDONLY | O_DIRECTORY, 0))),
            "symlink" => expect_errno!(open(&path, O_RDONLY | O_DIRECTORY, 0), ENOENT),
            _ => expect_errno!(open(&path, O_RDONLY | O_DIRECTORY, 0), ENOTDIR),
        }
    }
    let l = d.symlink("dir", "l");
    ok!(open(&l, O_RDONLY | O_DIRECTORY, 0));
    expect_errno!(open(&l, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0), ENOTDIR);
}

/// A directory cannot be opened for writing, created over or truncated (EISDIR).
#[test]
fn directory_for_writing() {
    let d = area!();
    let dir = d.dir("d");
    let flags = [O_WRONLY, O_RDWR, O_RDONLY | O_CREAT, O_WRONLY | O_CREAT, O_RDONLY | O_TRUNC, O_WRONLY | O_APPEND];
    for flags in flags {
        refused(format!("flags {flags:o}"), open(dir.path(), flags, 0o644), &[libc::EISDIR]);
    }
    expect_errno!(open(d.p("new/"), O_WRONLY | O_CREAT, 0o644), EISDIR);
    let fd = ok!(open(dir.path(), O_RDONLY, 0));
    expect_errno!(read(&fd, 10), EISDIR);
    expect_errno!(write(&fd, "x"), EBADF);
    expect_errno!(ftruncate(&fd, 0), EINVAL);
}

/// O_NOFOLLOW refuses a symlink as the last component (ELOOP), not before.
#[test]
fn no_follow() {
    let d = area!();
    let dir = d.dir("dir");
    dir.file("f");
    d.symlink("dir", "l");
    expect_errno!(open(d.symlink("dir/f", "lf"), O_RDONLY | O_NOFOLLOW, 0), ELOOP);
    expect_errno!(open(d.symlink("nowhere", "dangling"), O_RDONLY | O_NOFOLLOW | O_CREAT, 0o644), ELOOP);
    ok!(open(d.p("l/f"), O_RDONLY | O_NOFOLLOW, 0));
}

/// O_PATH needs no permission on the object and gives no access to its bytes (EBADF); with O_NOFOLLOW it opens the symlink itself.
#[test]
fn path_only() {
    let d = area!();
    let f = d.file_of("f", 0, 0, 0);
    let l = d.symlink("f", "l");
    ALICE.run(|| {
        let fd = ok!(open(&f, O_PATH, 0));
        assert_eq!(ok!(fstat(&fd)).kind(), S_IFREG);
        expect_errno!(read(&fd, 1), EBADF);
        expect_errno!(write(&fd, "x"), EBADF);
        expect_errno!(fsync(&fd), EBADF);
        let fd = ok!(open(&l, O_PATH | O_NOFOLLOW, 0));
        assert_eq!(ok!(fstat(&fd)).kind(), S_IFLNK);
    });
}

/// A descriptor reads only if opened for reading, writes only if opened for writing (EBADF).
#[test]
fn access_mode_of_the_descriptor() {
    let d = area!();
    let f = d.file_with("f", b"x");
    let r = ok!(open(&f, O_RDONLY, 0));
    let w = ok!(open(&f, O_WRONLY, 0));
    expect_errno!(write(&r, "y"), EBADF);
    expect_errno!(read(&w, 1), EBADF);
    expect_errno!(ftruncate(&r, 0), EINVAL | EBADF);
    assert_eq!(content(&f), b"x");
}

/// A trailing slash means a directory: ENOTDIR on a file, or on a symlink to one.
#[test]
fn trailing_slash() {
    let d = area!();
    d.file("f");
    d.dir("dir");
    d.symlink("f", "l");
    for name in ["f/", "l/", "f/."] {
        refused(name, open(d.p(name), O_RDONLY, 0), &[libc::ENOTDIR]);
        refused(name, open(d.p(name), O_RDWR, 0), &[libc::ENOTDIR]);
    }
    ok!(open(d.p("dir/"), O_RDONLY, 0));
    ok!(open(d.p("dir//./"), O_RDONLY, 0));
}

/// openat starts from its descriptor (EBADF, ENOTDIR if that cannot be), an absolute path ignores it.
#[test]
fn at_a_descriptor() {
    let d = area!();
    let dir = d.dir("dir");
    let f = dir.file_with("f", b"x");
    let fd = ok!(open(dir.path(), O_PATH, 0));
    ok!(rename(dir.path(), d.p("moved")));
    assert_eq!(ok!(read(ok!(openat(&fd, "f", O_RDONLY, 0)), 5)), b"x");
    drop(ok!(openat(&fd, "g", O_RDWR | O_CREAT, 0o644)));
    assert_eq!(ok!(names(d.p("moved"))), ["f", "g"]);
    expect_errno!(openat(bad_fd(), "f", O_RDONLY, 0), EBADF);
    let file = ok!(open(d.p("moved/f"), O_RDONLY, 0));
    expect_errno!(openat(&file, "x", O_RDONLY, 0), ENOTDIR);
    expect_errno!(openat(bad_fd(), &f, O_RDONLY, 0), ENOENT);
    ok!(openat(bad_fd(), d.p("moved/f"), O_RDONLY, 0));
}

/// Creating needs a writable, searchable directory (EACCES); opening an existing file with O_CREAT only a searchable one.
#[test]
fn create_permissions() {
    let d = area!();
    let dir = d.dir_of("d", 0o755, ALICE.uid, ALICE.gid);
    dir.file_of("there", 0o666, 0, 0);
    for (mode, create, existing) in [
        (0o700, true, true),
        (0o300, true, true),
        (0o500, false, true),
        (0o100, false, true),
        (0o600, false, false),
        (0o077, false, false),
    ] {
        ok!(chmod(dir.path(), mode));
        ALICE.run(|| {
            let name = format!("new{mode:o}");
            allowed_or(
                format!("create in {mode:o}"),
                create,
                open(dir.p(name), O_WRONLY | O_CREAT, 0o644),
                libc::EACCES,
            );
            allowed_or(
                format!("existing in {mode:o}"),
                existing,
                open(dir.p("there"), O_WRONLY | O_CREAT, 0o644),
                libc::EACCES,
            );
        });
    }
}

/// O_EXCL of an existing name is EEXIST also where nothing may be created.
#[test]
fn exclusive_without_permission() {
    let d = area!();
    let f = d.file("f");
    ALICE.run(|| {
        expect_errno!(open(&f, O_WRONLY | O_CREAT | O_EXCL, 0o644), EEXIST);
        expect_errno!(open(d.p("g"), O_WRONLY | O_CREAT | O_EXCL, 0o644), EACCES);
    });
}

/// O_NOATIME is for the owner and root only (EPERM).
#[test]
fn no_atime() {
    let d = area!();
    let f = d.file_of("f", 0o666, ALICE.uid, ALICE.gid);
    ALICE.run(|| ok!(open(&f, O_RDONLY | libc::O_NOATIME, 0)));
    BOB.run(|| expect_errno!(open(&f, O_RDONLY | libc::O_NOATIME, 0), EPERM));
    ok!(open(&f, O_RDONLY | libc::O_NOATIME, 0));
}

/// Opening the path of an open descriptor gives a new, independent one, with permissions checked again.
#[test]
fn reopen() {
    let d = area!();
    let f = d.file_with("f", b"abc");
    let first = ok!(open(&f, O_RDONLY, 0));
    assert_eq!(ok!(read(&first, 2)), b"ab");
    let second = ok!(open(fd_path(&first), O_RDWR, 0));
    assert_eq!(ok!(read(&second, 2)), b"ab");
    assert_eq!(ok!(write(&second, "C")), 1);
    assert_eq!(ok!(read(&first, 2)), b"C");
}

/// A running program cannot be opened for writing, and a file open for writing cannot be run (ETXTBSY).
#[test]
fn busy_text() {
    let d = area!();
    let Some(program) = program(&d, "sleep") else { return };
    let writer = ok!(open(&program, O_WRONLY, 0));
    let mut command = std::process::Command::new(&program);
    command.arg("60");
    expect_errno!(spawn(&mut command), ETXTBSY);
    drop(writer);
    // Waits for forks that copied the writer.
    drop(no_copies());
    let mut child = ok!(spawn(&mut command));
    let results =
        [open(&program, O_WRONLY, 0).err(), open(&program, O_RDWR | O_TRUNC, 0).err(), truncate(&program, 0).err()];
    ok!(open(&program, O_RDONLY, 0));
    child.kill().and_then(|()| child.wait()).expect("the child ends");
    assert_eq!(results, [Some(libc::ETXTBSY); 3]);
    ok!(open(&program, O_WRONLY, 0));
}

/// A program is run if an x bit applies to the caller, else EACCES; root needs any one.
#[test]
fn running_needs_x() {
    let d = area!();
    let Some(program) = program(&d, "true") else { return };
    ok!(chown(&program, ALICE.uid, TEAM));
    let run = |user: User| {
        user.run(|| {
            spawn(&mut std::process::Command::new(&program)).map(|mut child| child.wait().expect("ends").success())
        })
    };
    for (mode, by_alice, by_bob_in_team, by_bob, by_root) in [
        (0o777, true, true, true, true),
        (0o744, true, false, false, true),
        (0o474, false, true, false, true),
        (0o667, false, false, true, true),
        (0o666, false, false, false, false),
        (0o411, false, true, true, true),
    ] {
        ok!(chmod(&program, mode));
        for (user, allowed) in [(ALICE, by_alice), (BOB_IN_TEAM, by_bob_in_team), (BOB, by_bob), (ROOT, by_root)] {
            allowed_or(format!("{mode:o} run by {user:?}"), allowed, run(user), libc::EACCES);
        }
    }
}

/// A copy of a program of this system, mode 0755; none where there is no such.
fn program(d: &Dir, name: &str) -> Option<PathBuf> {
    let Some(original) = crate::common::tool(name) else {
        skipped("running programs", "no such program to copy");
        return None;
    };
    let copy = d.p(name);
    crate::common::process::copy_program(original, &copy);
    ok!(chmod(&copy, 0o755));
    Some(copy)
}
