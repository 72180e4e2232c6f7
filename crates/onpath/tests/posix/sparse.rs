//! Holes, and files beyond 4 GiB.

use crate::posix::prelude::*;
use libc::{SEEK_DATA, SEEK_HOLE, SEEK_SET};

const GIB: i64 = 1 << 30;

/// A write far behind the end leaves a hole that reads as zeros and takes no space.
#[test]
fn holes() {
    let d = area!();
    let fd = ok!(open(d.file("f"), O_RDWR, 0));
    ok!(pwrite(&fd, "begin", 0));
    ok!(pwrite(&fd, "end", 100_000_000));
    ok!(fsync(&fd));
    let s = ok!(fstat(&fd));
    assert_eq!(s.size, 100_000_003);
    assert!(s.blocks * 512 < 10_000_000, "{} blocks", s.blocks);
    for offset in [5, 4095, 4096, 1 << 22, 50_000_000, 99_999_000] {
        assert_eq!(ok!(pread(&fd, 1000, offset)), [0; 1000]);
    }
    assert_eq!(ok!(pread(&fd, 10, 99_999_999)), b"\0end");
}

/// Offsets beyond 2 GiB, 4 GiB and 1 TiB work: write, read, append, seek, truncate.
#[test]
fn large_offsets() {
    let d = area!();
    let f = d.file("f");
    let fd = ok!(open(&f, O_RDWR, 0));
    let marks = [2 * GIB - 2, 4 * GIB - 2, 4 * GIB + 4093, 5 * GIB, 1024 * GIB + 1];
    for (i, offset) in marks.into_iter().enumerate() {
        ok!(pwrite(&fd, [i as u8 + 1; 5], offset));
        assert_eq!(ok!(fstat(&fd)).size, offset + 5);
    }
    for (i, offset) in marks.into_iter().enumerate() {
        assert_eq!(ok!(pread(&fd, 7, offset - 1))[..6], [[0].as_slice(), &[i as u8 + 1; 5]].concat());
    }
    assert_eq!(ok!(pread(&fd, 3, 0)), [0; 3]);
    ok!(write(ok!(open(&f, O_WRONLY | O_APPEND, 0)), "tail"));
    assert_eq!(ok!(lseek(&fd, -4, libc::SEEK_END)), 1024 * GIB + 6);
    assert_eq!(ok!(read(&fd, 9)), b"tail");
    assert!(ok!(stat(&f)).blocks * 512 < 10 << 20);
    ok!(truncate(&f, 4 * GIB));
    assert_eq!((ok!(stat(&f)).size, ok!(pread(&fd, 9, 4 * GIB - 2))), (4 * GIB, vec![2, 2]));
    ok!(truncate(&f, 6 * GIB));
    assert_eq!((ok!(pread(&fd, 5, 5 * GIB)), ok!(pread(&fd, 4, 4 * GIB - 1))), (vec![0; 5], vec![2, 0, 0, 0]));
    ok!(truncate(&f, 3));
    assert_eq!(content(&f), [0; 3]);
}

/// The files's bytes at the same low 32 bits of the offset are different bytes.
#[test]
fn no_aliases() {
    let d = area!();
    let fd = ok!(open(d.file("f"), O_RDWR, 0));
    for i in 0..4 {
        ok!(pwrite(&fd, [i as u8 + 1; 100], i * 4 * GIB + 50));
    }
    for i in 0..4 {
        assert_eq!(ok!(pread(&fd, 100, i * 4 * GIB + 50)), [i as u8 + 1; 100]);
    }
}

/// SEEK_DATA finds no place behind the next data, SEEK_HOLE none before the end of it; behind the end both are ENXIO.
#[test]
fn seeking() {
    let d = area!();
    let fd = ok!(open(d.file("f"), O_RDWR, 0));
    ok!(ftruncate(&fd, 64 << 20));
    ok!(pwrite(&fd, vec![1; 1 << 20], 32 << 20));
    ok!(fsync(&fd));
    // A file system may take more for data than was written, down to "all is data".
    let data = ok!(lseek(&fd, 0, SEEK_DATA));
    assert!((0..=32 << 20).contains(&data));
    assert!((32 << 20..33 << 20).contains(&ok!(lseek(&fd, 32 << 20, SEEK_DATA))));
    assert!((33 << 20..=64 << 20).contains(&ok!(lseek(&fd, 32 << 20, SEEK_HOLE))));
    assert!(ok!(lseek(&fd, (64 << 20) - 1, SEEK_HOLE)) <= 64 << 20);
    expect_errno!(lseek(&fd, 64 << 20, SEEK_DATA), ENXIO);
    expect_errno!(lseek(&fd, 64 << 20, SEEK_HOLE), ENXIO);
    ok!(lseek(&fd, 0, SEEK_SET));
}

/// A truncate to larger takes no space; to smaller it gives space back.
#[test]
fn space() {
    let d = area!();
    let f = d.file("f");
    ok!(truncate(&f, 3 * GIB));
    assert_eq!((ok!(stat(&f)).size, ok!(stat(&f)).blocks), (3 * GIB, 0));
    let fd = ok!(open(&f, O_RDWR, 0));
    ok!(pwrite(&fd, vec![1; 2 << 20], 1 << 20));
    ok!(fsync(&fd));
    let full = ok!(fstat(&fd)).blocks;
    ok!(truncate(&f, 2 << 20));
    assert!(full * 512 >= 2 << 20);
    // POSIX leaves open when st_blocks follows.
    wait_until("the blocks follow", || (1 << 20..full * 512).contains(&(ok!(fstat(&fd)).blocks * 512)));
    ok!(truncate(&f, 0));
    assert_eq!(ok!(fstat(&fd)).blocks, 0);
}
