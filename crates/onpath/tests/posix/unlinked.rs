//! Files and directories that have no name any more but are still open.

use crate::posix::prelude::*;

/// An unlinked file works through its descriptors as before: data, size, mode, owner, times; nlink is 0.
#[test]
fn file_lives_on() {
    let d = area!();
    let f = d.file_with("f", b"before");
    let fd = ok!(open(&f, O_RDWR, 0));
    let other = ok!(open(&f, O_RDONLY, 0));
    ok!(unlink(&f));
    assert_eq!(ok!(fstat(&fd)).nlink, 0);
    ok!(pwrite(&fd, "after!", 3));
    assert_eq!(ok!(pread(&other, 20, 0)), b"befafter!");
    ok!(ftruncate(&fd, 5));
    ok!(fchmod(&fd, 0o4700));
    ok!(fchown(&other, 7, 8));
    ok!(futimens(&fd, [at(1, 2), at(3, 4)]));
    ok!(fsync(&fd));
    drop(fd);
    let s = ok!(fstat(&other));
    assert_eq!((s.size, s.uid, s.gid, s.mtime, s.nlink), (5, 7, 8, at(3, 4), 0));
    assert_eq!(ok!(pread(&other, 20, 0)), b"befaf");
}

/// An unlinked FIFO passes bytes on (a FUSE server is not told that it is open: its attributes are ESTALE).
#[test]
fn fifo_lives_on() {
    let d = area!();
    let path = d.path().join("fifo");
    ok!(mknod(&path, S_IFIFO | 0o600, 0));
    let fifo = ok!(open(&path, O_RDWR, 0));
    ok!(unlink(&path));
    ok!(write(&fifo, "through"));
    assert_eq!(ok!(read(&fifo, 20)), b"through");
    match fstat(&fifo) {
        Err(libc::ESTALE) if is_fuse(&d) => {}
        result => assert_eq!(done("fstat", result).nlink, 0),
    }
}

/// It can be opened again by its descriptor's path, for writing too.
#[test]
fn reopened() {
    let d = area!();
    let f = d.file_with("f", b"x");
    let fd = ok!(open(&f, O_RDONLY, 0));
    ok!(unlink(&f));
    let again = ok!(open(fd_path(&fd), O_RDWR, 0));
    drop(fd);
    ok!(pwrite(&again, "yz", 1));
    assert_eq!(ok!(pread(&again, 9, 0)), b"xyz");
}

/// A new file of the same name is another inode with its own bytes.
#[test]
fn beside_its_successor() {
    let d = area!();
    let f = d.file_with("f", b"old");
    let fd = ok!(open(&f, O_RDWR, 0));
    ok!(unlink(&f));
    d.file_with("f", b"newer");
    assert_ne!(ok!(fstat(&fd)).ino, ok!(stat(&f)).ino);
    ok!(pwrite(&fd, "OLD", 0));
    assert_eq!((ok!(pread(&fd, 9, 0)), content(&f)), (b"OLD".to_vec(), b"newer".to_vec()));
}

/// The same holds for a file replaced by rename.
#[test]
fn replaced_by_rename() {
    let d = area!();
    let (a, b) = (d.file_with("a", b"new"), d.file_with("b", b"old"));
    let fd = ok!(open(&b, O_RDWR, 0));
    ok!(rename(&a, &b));
    ok!(ftruncate(&fd, 1));
    ok!(pwrite(&fd, "more", 1));
    assert_eq!((ok!(pread(&fd, 9, 0)), content(&b)), (b"omore".to_vec(), b"new".to_vec()));
    assert_eq!((ok!(fstat(&fd)).nlink, ok!(stat(&b)).nlink), (0, 1));
}

/// A mapping outlives name and descriptor.
#[test]
fn mapped() {
    let d = area!();
    let f = d.file_with("f", &[9; 4096]);
    let fd = ok!(open(&f, O_RDWR, 0));
    let map = ok!(mmap(&fd, 4096, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED));
    ok!(unlink(&f));
    drop(fd);
    map.set(1, 7);
    ok!(map.msync());
    assert_eq!((map.get(0), map.get(1)), (9, 7));
}

/// A removed directory that is open has nlink 0, lists nothing and takes no new names (ENOENT).
#[test]
fn directory_lives_on() {
    let d = area!();
    let sub = d.dir("sub");
    sub.file("f");
    let fd = ok!(open(sub.path(), O_RDONLY | O_DIRECTORY, 0));
    ok!(unlink(sub.p("f")));
    ok!(rmdir(sub.path()));
    let s = ok!(fstat(&fd));
    assert_eq!((s.kind(), s.nlink), (S_IFDIR, 0));
    // Linux answers ENOENT to getdents before it asks a local file system; an empty list is what POSIX wants.
    assert!(matches!(entries(&fd), Err(libc::ENOENT)) || ok!(entries(&fd)).is_empty());
    expect_errno!(openat(&fd, "x", O_WRONLY | O_CREAT, 0o644), ENOENT);
    expect_errno!(mkdirat(&fd, "x", 0o755), ENOENT);
    expect_errno!(openat(&fd, "f", O_RDONLY, 0), ENOENT);
    expect_errno!(unlinkat(&fd, "f", 0), ENOENT);
    ok!(fchmod(&fd, 0o700));
    assert_eq!(ok!(fstat(&fd)).perm(), 0o700);
}

/// A removed working directory takes no new names (ENOENT); its path is gone.
#[test]
fn working_directory() {
    let d = area!();
    let sub = d.dir("sub");
    let f = d.file("f");
    in_thread(|| {
        ok!(chdir(sub.path()));
        ok!(rmdir(sub.path()));
        expect_errno!(mkdir("x", 0o755), ENOENT);
        expect_errno!(symlink("y", "x"), ENOENT);
        expect_errno!(mkfifo("x", 0o644), ENOENT);
        expect_errno!(link(&f, "x"), ENOENT);
        expect_errno!(rename(&f, "x"), ENOENT);
        expect_errno!(stat("x"), ENOENT);
        expect_errno!(rmdir(sub.path()), ENOENT);
        assert!(std::env::current_dir().is_err());
    });
    ok!(stat(&f));
}

/// A removed working directory can still be looked at (nlink 0; a FUSE server is not told of working directories: ESTALE), and left.
#[test]
fn attributes_of_a_working_directory() {
    let d = area!();
    let sub = d.dir("sub");
    in_thread(|| {
        ok!(chdir(sub.path()));
        ok!(rmdir(sub.path()));
        match stat(".") {
            Err(libc::ESTALE) if is_fuse(&d) => {}
            result => assert_eq!((ok!(result).kind(), ok!(result).nlink), (S_IFDIR, 0)),
        }
        ok!(chdir(d.path()));
        ok!(stat("."));
    });
}

/// An object held only by O_PATH keeps its attributes without a name (a FUSE server is not told of such descriptors: ESTALE).
#[test]
fn held_by_a_path_descriptor() {
    let d = area!();
    for (kind, path) in d.one_of_each() {
        let fd = ok!(open(&path, O_PATH | O_NOFOLLOW, 0));
        let before = ok!(fstat(&fd));
        ok!(if kind == "dir" { rmdir(&path) } else { unlink(&path) });
        match fstat(&fd) {
            Err(libc::ESTALE) if is_fuse(&d) => {}
            result => {
                let after = done(kind, result);
                assert_eq!((after.ino, after.mode, after.nlink), (before.ino, before.mode, 0), "{kind}");
            }
        }
    }
}

/// A directory replaced by rename is gone in the same way.
#[test]
fn directory_replaced_by_rename() {
    let d = area!();
    let (a, b) = (d.dir("a"), d.dir("b"));
    let fd = ok!(open(b.path(), O_RDONLY | O_DIRECTORY, 0));
    ok!(rename(a.path(), b.path()));
    assert_eq!(ok!(fstat(&fd)).nlink, 0);
    expect_errno!(mkdirat(&fd, "x", 0o755), ENOENT);
    b.file("y");
    assert!(entries(&fd).map_or(true, |list| list.is_empty()));
}

/// Space comes back when the last descriptor is closed, not before.
#[test]
fn space() {
    let d = area!();
    let f = d.file_with("f", &vec![1; 3 << 20]);
    let fd = ok!(open(&f, O_RDONLY, 0));
    ok!(unlink(&f));
    assert_eq!(ok!(pread(&fd, 4, (3 << 20) - 2)), [1, 1]);
    assert!(ok!(fstat(&fd)).blocks * 512 >= 3 << 20);
}

/// Hundreds of unlinked files at once keep their bytes apart.
#[test]
fn many() {
    let d = area!();
    let fds: Vec<_> = (0..200_u32)
        .map(|i| {
            let fd = ok!(open(d.p("same"), O_RDWR | O_CREAT | O_EXCL, 0o600));
            ok!(write(&fd, i.to_le_bytes()));
            ok!(unlink(d.p("same")));
            fd
        })
        .collect();
    for (i, fd) in fds.iter().enumerate() {
        assert_eq!(ok!(pread(fd, 9, 0)), (i as u32).to_le_bytes());
    }
    assert_eq!(ok!(names(d.path())).len(), 0);
}
