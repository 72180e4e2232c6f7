//! lseek(2) with SEEK_HOLE and SEEK_DATA.

use crate::posix::prelude::*;
use libc::{SEEK_CUR, SEEK_DATA, SEEK_HOLE};
use std::time::{Duration, Instant};

const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
const MIB: i64 = 1 << 20;

/// The ranges of data, as seeking finds them.
fn data(fd: &OwnedFd) -> Vec<(i64, i64)> {
    let (mut found, mut at) = (vec![], 0);
    loop {
        match lseek(fd, at, SEEK_DATA) {
            Err(libc::ENXIO) => return found,
            start => {
                let start = ok!(start);
                at = ok!(lseek(fd, start, SEEK_HOLE));
                assert!(at > start);
                found.push((start, at));
            }
        }
    }
}

/// Data and holes are told apart block by block, over the ends of chunks; the end of the file is a hole.
#[test]
fn pattern() {
    let d = area!();
    let fd = ok!(open(d.file("f"), O_RDWR, 0));
    ok!(ftruncate(&fd, 20 * MIB));
    assert_eq!(data(&fd), []);
    for (offset, bytes) in [(8192, 4096), (40_960, 8192), (4 * MIB - 4096, 8192), (12 * MIB, 1)] {
        ok!(pwrite(&fd, vec![7; bytes], offset));
    }
    let block = 12 * MIB + 4096;
    let expected = [(8192, 12_288), (40_960, 49_152), (4 * MIB - 4096, 4 * MIB + 4096), (12 * MIB, block)];
    assert_eq!(data(&fd), expected);
    ok!(fsync(&fd));
    assert_eq!(data(&fd), expected);
    assert_eq!((ok!(lseek(&fd, 9000, SEEK_DATA)), ok!(lseek(&fd, 9000, SEEK_HOLE))), (9000, 12_288));
    assert_eq!((ok!(lseek(&fd, 100, SEEK_HOLE)), ok!(lseek(&fd, 0, SEEK_CUR))), (100, 100));
    ok!(pwrite(&fd, "x", 20 * MIB - 1));
    assert_eq!(data(&fd).last(), Some(&(20 * MIB - 4096, 20 * MIB)), "it ends with the file");
}

/// Behind the end, and before the begin, there is neither; a failed seek leaves the position.
#[test]
fn errors() {
    let d = area!();
    let fd = ok!(open(d.file_with("f", b"0123456789"), O_RDWR, 0));
    ok!(lseek(&fd, 3, libc::SEEK_SET));
    for whence in [SEEK_DATA, SEEK_HOLE] {
        expect_errno!(lseek(&fd, 10, whence), ENXIO);
        expect_errno!(lseek(&fd, i64::MAX, whence), ENXIO);
        expect_errno!(lseek(&fd, -1, whence), ENXIO);
    }
    assert_eq!(ok!(lseek(&fd, 0, SEEK_CUR)), 3);
    assert_eq!((ok!(lseek(&fd, 9, SEEK_DATA)), ok!(lseek(&fd, 9, SEEK_HOLE))), (9, 10));
    let empty = ok!(open(d.file("g"), O_RDWR, 0));
    expect_errno!(lseek(&empty, 0, SEEK_DATA), ENXIO);
    expect_errno!(lseek(&empty, 0, SEEK_HOLE), ENXIO);
    let read_only = ok!(open(d.p("f"), O_RDONLY, 0));
    assert_eq!((ok!(lseek(&read_only, 2, SEEK_DATA)), ok!(lseek(&read_only, 2, SEEK_HOLE))), (2, 10));
}

/// A punched block is a hole, what is written there is data again; a truncate takes data away and leaves a hole.
#[test]
fn changes() {
    let d = area!();
    let fd = ok!(open(d.file("f"), O_RDWR, 0));
    ok!(pwrite(&fd, vec![7; 65_536], 0));
    ok!(fallocate(&fd, PUNCH, 8000, 20_000));
    assert_eq!(data(&fd), [(0, 8192), (24_576, 65_536)]);
    ok!(pwrite(&fd, "x", 16_384));
    assert_eq!(data(&fd), [(0, 8192), (16_384, 20_480), (24_576, 65_536)]);
    ok!(ftruncate(&fd, 30_000));
    ok!(ftruncate(&fd, 100_000));
    assert_eq!(data(&fd), [(0, 8192), (16_384, 20_480), (24_576, 32_768)]);
    ok!(fallocate(&fd, PUNCH, 0, 100_000));
    assert_eq!(data(&fd), []);
}

/// What is reserved and not written is a hole.
#[test]
fn reserved() {
    let d = area!();
    let fd = ok!(open(d.file("f"), O_RDWR, 0));
    ok!(fallocate(&fd, 0, 0, 9 * MIB));
    assert_eq!((data(&fd), ok!(lseek(&fd, 0, SEEK_HOLE))), (vec![], 0));
    ok!(pwrite(&fd, [7; 4096], 5 * MIB));
    assert_eq!(data(&fd), [(5 * MIB, 5 * MIB + 4096)]);
}

/// The far end of a huge file is found at once, however much emptiness, or data, lies before it.
#[test]
fn far_away() {
    let d = area!();
    let fd = ok!(open(d.file("f"), O_RDWR, 0));
    let end = (16 << 40) - if is_fuse(&d) { 0 } else { MIB };
    ok!(pwrite(&fd, [7; 3], 0));
    ok!(pwrite(&fd, "end", end - 3));
    assert_eq!(ok!(fstat(&fd)).size, end);
    let start = Instant::now();
    let last = (end - 1) / 4096 * 4096;
    for _ in 0..10 {
        assert_eq!(data(&fd), [(0, 4096), (last, end)]);
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(ok!(pread(&fd, 10, end - 4)), b"\0end");
    assert_eq!(ok!(pread(&fd, 3, 8 << 40)), [0; 3]);
    assert!(ok!(fstat(&fd)).blocks * 512 < MIB);
    if is_fuse(&d) {
        expect_errno!(pwrite(&fd, "x", end), EFBIG);
        assert_eq!(ok!(pwrite(&fd, "xyz", end - 2)), 2, "what fits is written");
        expect_errno!(ftruncate(&fd, end + 1), EFBIG | EINVAL);
        expect_errno!(fallocate(&fd, libc::FALLOC_FL_KEEP_SIZE, end - 1, 2), EFBIG);
        ok!(ftruncate(&fd, end));
    }
    ok!(fallocate(&fd, PUNCH, 4096, end - 4096));
    assert_eq!((data(&fd), ok!(fstat(&fd)).size), (vec![(0, 4096)], end));
    ok!(ftruncate(&fd, 1));
}
