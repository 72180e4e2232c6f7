//! copy_file_range(2).

use crate::posix::prelude::*;
use libc::{SEEK_DATA, SEEK_HOLE};

const MIB: usize = 1 << 20;

/// Bytes that do not repeat with the blocks.
fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i % 253) as u8 + 1).collect()
}

/// Copies all of it, however often that takes.
fn copy(from: &OwnedFd, from_offset: i64, to: &OwnedFd, offset: i64, bytes: usize) -> usize {
    let mut copied = 0;
    while copied < bytes {
        let at = copied as i64;
        match ok!(copy_range(from, from_offset + at, to, offset + at, bytes - copied, 0)) {
            0 => break,
            n => copied += n,
        }
    }
    copied
}

/// Bytes arrive as they are, at any offset, over blocks and chunks; what lies around them stays.
#[test]
fn anywhere() {
    let d = area!();
    let bytes = pattern(9 * MIB);
    let from = ok!(open(d.file_with("from", &bytes), O_RDONLY, 0));
    for (n, (from_offset, offset, length)) in [
        (0, 0, 9 * MIB),
        (4096, 8192, 4096),
        (1, 1, 1),
        (100, 5000, 70_000),
        (4 * MIB - 10, 3, 20),
        (12_345, 4 * MIB - 4097, 5 * MIB),
    ]
    .into_iter()
    .enumerate()
    {
        let g = d.file_with(format!("to{n}"), &vec![0xff; 6 * MIB]);
        let to = ok!(open(&g, O_RDWR, 0));
        assert_eq!(copy(&from, from_offset as i64, &to, offset as i64, length), length);
        let mut expected = vec![0xff; (6 * MIB).max(offset + length)];
        expected[offset..offset + length].copy_from_slice(&bytes[from_offset..from_offset + length]);
        assert!(content(&g) == expected, "{length} bytes from {from_offset} to {offset}");
    }
    assert!(content(d.p("from")) == bytes);
}

/// Without offsets both positions move; with them neither does.
#[test]
fn positions() {
    let d = area!();
    let from = ok!(open(d.file_with("from", b"0123456789"), O_RDONLY, 0));
    let to = ok!(open(d.file("to"), O_RDWR, 0));
    ok!(lseek(&from, 2, libc::SEEK_SET));
    assert_eq!(ok!(copy_file_range(&from, &to, 3)), 3);
    assert_eq!(ok!(copy_range(&from, 0, &to, 3, 2, 0)), 2);
    assert_eq!((ok!(lseek(&from, 0, libc::SEEK_CUR)), ok!(lseek(&to, 0, libc::SEEK_CUR))), (5, 3));
    assert_eq!(content(d.p("to")), b"23401");
}

/// It ends with the source, and behind its end there is nothing to copy.
#[test]
fn end_of_the_source() {
    let d = area!();
    let from = ok!(open(d.file_with("from", &pattern(5000)), O_RDONLY, 0));
    let to = ok!(open(d.file("to"), O_RDWR, 0));
    assert_eq!(ok!(copy_range(&from, 4000, &to, 0, MIB, 0)), 1000);
    for offset in [5000, 5001, 1 << 40] {
        assert_eq!(ok!(copy_range(&from, offset, &to, 0, 10, 0)), 0);
    }
    assert_eq!(ok!(copy_range(&from, 0, &to, 0, 0, 0)), 0);
    assert_eq!(ok!(fstat(&to)).size, 1000);
}

/// Within one file: apart it works, overlapping it is EINVAL.
#[test]
fn one_file() {
    let d = area!();
    let bytes = pattern(30_000);
    let f = d.file_with("f", &bytes);
    let fd = ok!(open(&f, O_RDWR, 0));
    assert_eq!(copy(&fd, 0, &fd, 40_000, 30_000), 30_000);
    let now = content(&f);
    assert!(now[..30_000] == bytes && now[30_000..40_000] == [0; 10_000] && now[40_000..] == bytes);
    for (from, to, length) in [(0, 0, 10), (0, 9, 10), (9, 0, 10), (0, 4096, 4097)] {
        expect_errno!(copy_range(&fd, from, &fd, to, length, 0), EINVAL);
    }
    assert_eq!(ok!(copy_range(&fd, 0, &fd, 10, 10, 0)), 10);
    assert!(content(&f)[10..20] == bytes[..10]);
}

/// What is refused, and with what.
#[test]
fn errors() {
    let d = area!();
    let (f, g) = (d.file_with("f", &pattern(5000)), d.file_with("g", &pattern(5000)));
    let (from, to) = (ok!(open(&f, O_RDONLY, 0)), ok!(open(&g, O_RDWR, 0)));
    expect_errno!(copy_range(&from, 0, ok!(open(&g, O_RDONLY, 0)), 0, 10, 0), EBADF);
    expect_errno!(copy_range(ok!(open(&f, O_WRONLY, 0)), 0, &to, 0, 10, 0), EBADF);
    expect_errno!(copy_range(&from, 0, ok!(open(&g, O_RDWR | O_APPEND, 0)), 0, 10, 0), EBADF);
    expect_errno!(copy_range(bad_fd(), 0, &to, 0, 10, 0), EBADF);
    expect_errno!(copy_range(&from, 0, &to, 0, 10, 1), EINVAL);
    expect_errno!(copy_range(ok!(open(d.path(), O_RDONLY, 0)), 0, &to, 0, 10, 0), EISDIR);
    expect_errno!(copy_range(&from, -1, &to, 0, 10, 0), EINVAL | EOVERFLOW);
    assert_eq!(content(&g), pattern(5000));
    if is_fuse(&d) {
        expect_errno!(copy_range(&from, 0, &to, 16 << 40, 10, 0), EFBIG);
        assert_eq!(ok!(copy_range(&from, 0, &to, (16 << 40) - 4, 10, 0)), 4);
        ok!(ftruncate(&to, 0));
    }
}

/// A FIFO has no range to copy (EINVAL).
#[test]
fn of_a_fifo() {
    let d = area!();
    let to = ok!(open(d.file("f"), O_RDWR, 0));
    ok!(mknod(d.p("fifo"), S_IFIFO | 0o644, 0));
    expect_errno!(copy_range(ok!(open(d.p("fifo"), O_RDWR, 0)), 0, &to, 0, 10, 0), EINVAL);
}

/// Beyond the process's file size limit it is EFBIG; up to it bytes are copied.
#[test]
fn beyond_the_limit() {
    let d = area!();
    let (f, g) = (d.file_with("f", &pattern(5000)), d.file("g"));
    let end = in_child(|| {
        set_limit(libc::RLIMIT_FSIZE, 3000);
        ignore(libc::SIGXFSZ);
        let (Ok(from), Ok(to)) = (open(&f, O_RDONLY, 0), open(&g, O_WRONLY, 0)) else { return 200 };
        if copy_range(&from, 0, &to, 0, 5000, 0) != Ok(3000) {
            return 201;
        }
        code(copy_range(&from, 3000, &to, 3000, 100, 0))
    });
    assert_eq!((end, ok!(stat(&g)).size), (End::Exit(libc::EFBIG), 3000));
}

/// The destination's mtime and ctime move; the source's atime may.
#[test]
fn times() {
    let d = area!();
    let (f, g) = (d.file_with("f", &pattern(5000)), d.file("g"));
    let (from, to) = (ok!(open(&f, O_RDONLY, 0)), ok!(open(&g, O_RDWR, 0)));
    moves("copy_file_range", &[(&f, "?a"), (&g, "mc")], || ok!(copy_range(&from, 0, &to, 0, 5000, 0)));
}

/// Who is not root takes setuid and setgid of the destination with it.
#[test]
fn suid() {
    let d = area!();
    let (f, g) = (d.file_with("f", &pattern(5000)), d.file("g"));
    ok!(chown(&g, ALICE.uid, ALICE.gid));
    ok!(chmod(&g, 0o6777));
    let copy = || {
        let (from, to) = (ok!(open(&f, O_RDONLY, 0)), ok!(open(&g, O_RDWR, 0)));
        ok!(copy_range(&from, 0, &to, 0, 5000, 0))
    };
    copy();
    assert_eq!(ok!(stat(&g)).perm(), 0o6777, "by root");
    ALICE.run(copy);
    assert_eq!(ok!(stat(&g)).perm(), 0o777);
}

/// Holes of the source are holes of the copy, whatever was there before. (A local file system may fill them.)
#[test]
fn holes() {
    let d = area!();
    let from = ok!(open(d.file("from"), O_RDWR, 0));
    let g = d.file_with("to", &vec![0xff; 10 * MIB]);
    let to = ok!(open(&g, O_RDWR, 0));
    ok!(pwrite(&from, pattern(10_000), 8192));
    ok!(pwrite(&from, pattern(10_000), 4 * MIB as i64));
    ok!(ftruncate(&from, 9 * MIB as i64 + 7));
    assert_eq!(copy(&from, 0, &to, 0, 9 * MIB + 7), 9 * MIB + 7);
    let (source, copied) = (content(d.p("from")), content(&g));
    assert!(copied[..source.len()] == source && copied[source.len()..].iter().all(|&byte| byte == 0xff));
    if is_fuse(&d) {
        let (data, hole) = (ok!(lseek(&to, 0, SEEK_DATA)), ok!(lseek(&to, 8192, SEEK_HOLE)));
        assert_eq!((data, hole), (8192, 8192 + 12_288));
        assert_eq!(ok!(lseek(&to, hole, SEEK_DATA)), 4 * MIB as i64);
    }
    let all = ok!(open(d.file("all"), O_RDWR, 0));
    ok!(ftruncate(&from, 1 << 40));
    if is_fuse(&d) {
        assert_eq!(ok!(copy_range(&from, 1 << 30, &all, 0, 1 << 30, 0)), 1 << 30, "a hole at once");
        assert_eq!((ok!(fstat(&all)).size, ok!(fstat(&all)).blocks), (1 << 30, 0));
    }
}

/// The cached pages of the destination go.
#[test]
fn cached() {
    let d = area!();
    let bytes = pattern(20_000);
    let from = ok!(open(d.file_with("from", &bytes), O_RDONLY, 0));
    let fd = ok!(open(d.file_with("to", &[9; 20_000]), O_RDWR, 0));
    let map = ok!(mmap(&fd, 20_000, libc::PROT_READ, libc::MAP_SHARED));
    assert_eq!((map.get(5000), ok!(pread(&fd, 1, 5000))), (9, vec![9]));
    assert_eq!(copy(&from, 4000, &fd, 4096, 9000), 9000);
    let mut expected = vec![9; 20_000];
    expected[4096..13_096].copy_from_slice(&bytes[4000..13_000]);
    assert!(ok!(pread(&fd, 20_000, 0)) == expected);
    assert_eq!([4095, 4096, 13_095, 13_096].map(|at| map.get(at)), [4095, 4096, 13_095, 13_096].map(|at| expected[at]));
}
