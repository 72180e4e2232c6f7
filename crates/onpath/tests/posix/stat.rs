//! stat(2), lstat(2), fstat(2), statx(2), statvfs(3).

use crate::posix::prelude::*;
use std::collections::BTreeSet;

/// The path, the link and the descriptor of an object tell the same, for every kind.
#[test]
fn same_by_path_and_descriptor() {
    let d = area!();
    for (kind, path) in d.one_of_each() {
        let fd = ok!(open(&path, O_PATH | O_NOFOLLOW, 0));
        assert_eq!(ok!(fstat(&fd)), ok!(lstat(&path)), "{kind}");
        if kind != "symlink" {
            assert_eq!(ok!(stat(&path)), ok!(lstat(&path)), "{kind}");
        }
    }
}

/// New objects: kind, one link (a directory two), size 0, one file system, numbers all different.
#[test]
fn new_objects() {
    let d = area!();
    let top = ok!(stat(d.path()));
    let mut numbers = BTreeSet::from([top.ino]);
    let kinds = [S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO, S_IFSOCK, S_IFCHR];
    for ((kind, path), wanted) in d.one_of_each().into_iter().zip(kinds) {
        let s = ok!(lstat(&path));
        assert_eq!(
            (s.kind(), s.nlink, s.dev, s.uid, s.gid),
            (wanted, if kind == "dir" { 2 } else { 1 }, top.dev, 0, 0),
            "{kind}"
        );
        assert!(numbers.insert(s.ino) && s.ino != 0 && s.blksize > 0, "{kind}");
        if kind != "dir" {
            assert_eq!((s.size, s.blocks), (if kind == "symlink" { 7 } else { 0 }, s.blocks), "{kind}");
        }
    }
    assert_eq!(ok!(stat(d.p("device"))).rdev, libc::makedev(1, 3));
}

/// The size is exact after each write; blocks cover the data once it is synced.
#[test]
fn size_and_blocks() {
    let d = area!();
    let fd = ok!(open(d.file("f"), O_RDWR, 0));
    let mut size = 0;
    for step in [1, 511, 4096, 5000, 100_000, 1 << 20] {
        size += ok!(write(&fd, vec![1; step])) as i64;
        assert_eq!(ok!(stat(d.p("f"))).size, size);
    }
    ok!(fsync(&fd));
    let s = ok!(fstat(&fd));
    assert!(s.blocks * 512 >= size && s.blocks * 512 <= size + (1 << 20), "{} blocks for {size} bytes", s.blocks);
}

/// An inode number is stable through rename, link, chmod and writing.
#[test]
fn stable_number() {
    let d = area!();
    let f = d.file("f");
    let ino = ok!(stat(&f)).ino;
    ok!(chmod(&f, 0o600));
    ok!(write(ok!(open(&f, O_WRONLY, 0)), "x"));
    ok!(link(&f, d.p("g")));
    ok!(unlink(&f));
    ok!(rename(d.p("g"), d.dir("sub").p("h")));
    assert_eq!(ok!(stat(d.p("sub/h"))).ino, ino);
}

/// stat needs no permission on the object, only search on the way.
#[test]
fn permissions() {
    let d = area!();
    let dir = d.dir_of("d", 0o711, 0, 0);
    let f = dir.file_of("f", 0, 0, 0);
    ALICE.run(|| assert_eq!(ok!(stat(&f)).perm(), 0));
    ok!(chmod(dir.path(), 0o766));
    ALICE.run(|| {
        expect_errno!(stat(&f), EACCES);
        expect_errno!(lstat(dir.p("missing")), EACCES);
        ok!(stat(dir.path()));
    });
}

/// "." and ".." and doubled slashes lead where they should.
#[test]
fn dots() {
    let d = area!();
    d.dir("a").dir("b").file("f");
    let wanted = ok!(stat(d.p("a/b/f")));
    for path in ["a/./b/f", "a//b///f", "a/../a/b/f", "a/b/../b/./f", "./a/b/f"] {
        assert_eq!(ok!(stat(d.p(path))), wanted, "{path}");
    }
    expect_errno!(stat(d.p("a/b/f/..")), ENOTDIR);
    expect_errno!(stat(d.p("missing/..")), ENOENT);
}

/// statx tells the same as stat.
#[test]
fn extended() {
    let d = area!();
    let f = d.file_with("f", b"123");
    let all = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
    let x = ok!(statx(&f, 0, all));
    let s = ok!(stat(&f));
    assert_eq!(
        (u32::from(x.stx_mode), x.stx_ino, x.stx_size as i64, u64::from(x.stx_nlink), x.stx_uid, x.stx_gid),
        (s.mode, s.ino, s.size, s.nlink, s.uid, s.gid)
    );
    assert_eq!(
        (at(x.stx_mtime.tv_sec, x.stx_mtime.tv_nsec.into()), x.stx_mask & libc::STATX_BASIC_STATS),
        (s.mtime, libc::STATX_BASIC_STATS)
    );
    for (major, minor) in [(1, 3), (0xfff, 0xf_ffff)] {
        let device = d.p(format!("{major}-{minor}"));
        ok!(mknod(&device, S_IFCHR | 0o644, libc::makedev(major, minor)));
        let x = ok!(statx(&device, 0, all));
        assert_eq!((x.stx_rdev_major, x.stx_rdev_minor), (major, minor));
    }
}

/// The time of birth is not after the first change, and never moves.
#[test]
fn birth() {
    let d = area!();
    let birth = |path: &Path| {
        let x = ok!(statx(path, libc::AT_SYMLINK_NOFOLLOW, libc::STATX_BASIC_STATS | libc::STATX_BTIME));
        assert!(x.stx_mask & libc::STATX_BTIME != 0, "{path:?} has no time of birth");
        at(x.stx_btime.tv_sec, x.stx_btime.tv_nsec.into())
    };
    let start = coarse_now();
    let all = [d.file_with("f", b"123"), d.dir("d").path().to_owned(), d.symlink("f", "l")];
    let born: Vec<_> = all.iter().map(|path| birth(path)).collect();
    for (path, born) in all.iter().zip(&born) {
        assert!(start <= *born && *born <= ok!(lstat(path)).ctime, "{path:?} was born {born:?}");
    }
    tick();
    ok!(chmod(&all[0], 0o600));
    ok!(truncate(&all[0], 0));
    ok!(lchown(&all[2], 7, 7));
    d.file("d/child");
    for (path, born) in all.iter().zip(born) {
        let moved = d.p(format!("{}-moved", path.file_name().expect("a name").display()));
        ok!(rename(path, &moved));
        assert!(ok!(lstat(&moved)).ctime > born, "{path:?} was changed");
        assert_eq!(birth(&moved), born, "{path:?}");
    }
}

/// statx by descriptor with an empty path; unknown flags are EINVAL.
#[test]
fn extended_flags() {
    let d = area!();
    let f = d.file("f");
    let l = d.symlink("f", "l");
    let x = ok!(statx(&l, libc::AT_SYMLINK_NOFOLLOW, libc::STATX_TYPE));
    assert_eq!(u32::from(x.stx_mode) & libc::S_IFMT, S_IFLNK);
    assert_eq!(ok!(statx(&l, libc::AT_STATX_FORCE_SYNC, libc::STATX_INO)).stx_ino, ok!(stat(&f)).ino);
    expect_errno!(statx(&f, 1 << 30, libc::STATX_TYPE), EINVAL);
    expect_errno!(statx("", 0, libc::STATX_TYPE), ENOENT);
}

/// The file system tells its limits: names of 255 bytes, and no more free than there is.
#[test]
fn file_system() {
    let d = area!();
    let v = ok!(statvfs(d.path()));
    assert_eq!(v.f_namemax, 255);
    assert!(v.f_bsize > 0 && v.f_frsize > 0 && v.f_blocks > 0);
    assert!(v.f_bavail <= v.f_bfree && v.f_bfree <= v.f_blocks && v.f_favail <= v.f_ffree);
    let f = ok!(statvfs(d.file("f")));
    assert_eq!((f.f_namemax, f.f_bsize, f.f_frsize, f.f_fsid), (255, v.f_bsize, v.f_frsize, v.f_fsid));
}

/// A descriptor that is not open is EBADF everywhere.
#[test]
fn bad_descriptor() {
    expect_errno!(fstat(bad_fd()), EBADF);
    expect_errno!(read(bad_fd(), 1), EBADF);
    expect_errno!(write(bad_fd(), "x"), EBADF);
    expect_errno!(lseek(bad_fd(), 0, libc::SEEK_SET), EBADF);
    expect_errno!(fsync(bad_fd()), EBADF);
}
