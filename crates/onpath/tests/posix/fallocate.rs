//! fallocate(2): reserve, punch, zero; with and without a change of the size.

use crate::common::random::Random;
use crate::posix::prelude::*;
use libc::{FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE, SEEK_DATA, SEEK_HOLE};

const KEEP_SIZE: i32 = libc::FALLOC_FL_KEEP_SIZE;
const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | KEEP_SIZE;
const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE;
const MIB: i64 = 1 << 20;

fn bytes_of(fd: &OwnedFd) -> i64 {
    ok!(fstat(fd)).blocks * 512
}

/// Whether this mode is there. (A local file system may lack ZERO_RANGE.)
fn has(fd: &OwnedFd, mode: i32) -> bool {
    !matches!(fallocate(fd, mode, 0, 1), Err(libc::EOPNOTSUPP))
}

/// Mode 0 makes the file as long as the range and takes its space; what was there stays, the rest reads as zeros.
#[test]
fn reserving() {
    let d = area!();
    let f = d.file_with("f", &[7; 5000]);
    let fd = ok!(open(&f, O_RDWR, 0));
    ok!(fallocate(&fd, 0, 1000, 3 * MIB));
    assert_eq!(ok!(fstat(&fd)).size, 3 * MIB + 1000);
    assert!(bytes_of(&fd) >= 3 * MIB, "{} bytes", bytes_of(&fd));
    let bytes = content(&f);
    assert!(bytes[..5000] == [7; 5000] && bytes[5000..].iter().all(|&byte| byte == 0));
    let before = bytes_of(&fd);
    ok!(fallocate(&fd, 0, 0, 2 * MIB));
    assert_eq!((ok!(fstat(&fd)).size, bytes_of(&fd)), (3 * MIB + 1000, before), "all of it was there");
    ok!(pwrite(&fd, [9; 10_000], 2 * MIB - 5000));
    ok!(fsync(&fd));
    let bytes = content(&f);
    let at = 2 * 1024 * 1024 - 5000;
    assert!(bytes[at..at + 10_000] == [9; 10_000] && bytes[at - 1] == 0 && bytes[at + 10_000] == 0);
    assert_eq!(bytes_of(&fd), before, "written where it was reserved");
}

/// KEEP_SIZE takes space, also behind the end, which a truncate to the same size gives back.
#[test]
fn keeping_the_size() {
    let d = area!();
    let f = d.file_with("f", &[7; 4096]);
    let fd = ok!(open(&f, O_RDWR, 0));
    let before = bytes_of(&fd);
    ok!(fallocate(&fd, KEEP_SIZE, 0, 5 * MIB));
    assert_eq!(ok!(fstat(&fd)).size, 4096);
    assert!(bytes_of(&fd) >= 5 * MIB);
    assert_eq!(content(&f), [7; 4096]);
    assert_eq!(ok!(pread(&fd, 10, 4096)), b"", "the end is where it was");
    ok!(ftruncate(&fd, 8192));
    assert_eq!(content(&f)[4096..], [0; 4096]);
    ok!(ftruncate(&fd, 8192));
    wait_until("what lies behind the end goes", || bytes_of(&fd) <= before + 4096);
    let empty = ok!(open(d.file("g"), O_RDWR, 0));
    ok!(fallocate(&empty, KEEP_SIZE, 0, MIB));
    assert_eq!((ok!(fstat(&empty)).size, bytes_of(&empty) >= MIB), (0, true));
    ok!(ftruncate(&empty, 0));
    wait_until("what lies behind no bytes goes", || bytes_of(&empty) == 0);
}

/// PUNCH_HOLE makes zeros of bytes and holes of blocks; the size stays, and behind the end nothing happens.
#[test]
fn punching() {
    let d = area!();
    let f = d.file_with("f", &[7; 40_000]);
    let fd = ok!(open(&f, O_RDWR, 0));
    ok!(fsync(&fd));
    let before = bytes_of(&fd);
    ok!(fallocate(&fd, PUNCH, 5000, 20_000));
    let bytes = content(&f);
    assert_eq!(bytes.len(), 40_000);
    assert!(
        bytes[..5000] == [7; 5000] && bytes[25_000..] == [7; 15_000] && bytes[5000..25_000].iter().all(|&b| b == 0)
    );
    assert_eq!(bytes_of(&fd), before - 4 * 4096, "blocks 2 to 5");
    ok!(fallocate(&fd, PUNCH, 100, 10));
    assert_eq!(content(&f)[99..111], [7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
    ok!(fallocate(&fd, PUNCH, 30_000, MIB));
    assert_eq!((ok!(fstat(&fd)).size, content(&f)[30_000..].iter().all(|&b| b == 0)), (40_000, true));
    ok!(fallocate(&fd, PUNCH, 4 * MIB, MIB));
    assert_eq!(ok!(fstat(&fd)).size, 40_000);
    ok!(fallocate(&fd, PUNCH, 0, 40_960));
    assert_eq!((ok!(fstat(&fd)).size, bytes_of(&fd)), (40_000, 0));
    ok!(pwrite(&fd, "new", 10_000));
    assert_eq!(ok!(pread(&fd, 7, 9998)), b"\0\0new\0\0");
}

/// ZERO_RANGE makes zeros that have space, within the file or as its new end.
#[test]
fn zeroing() {
    let d = area!();
    let f = d.file_with("f", &[7; 40_000]);
    let fd = ok!(open(&f, O_RDWR, 0));
    if !has(&ok!(open(d.file("probe"), O_RDWR, 0)), ZERO) {
        return;
    }
    let before = bytes_of(&fd);
    ok!(fallocate(&fd, ZERO, 5000, 20_000));
    let bytes = content(&f);
    assert!(
        bytes[..5000] == [7; 5000] && bytes[25_000..] == [7; 15_000] && bytes[5000..25_000].iter().all(|&b| b == 0)
    );
    assert_eq!((bytes.len(), bytes_of(&fd)), (40_000, before));
    ok!(fallocate(&fd, ZERO | KEEP_SIZE, 39_000, MIB));
    assert_eq!(ok!(fstat(&fd)).size, 40_000);
    assert!(bytes_of(&fd) >= MIB && content(&f)[39_000..] == [0; 1000]);
    ok!(fallocate(&fd, ZERO, 39_000, 2 * MIB));
    assert_eq!(ok!(fstat(&fd)).size, 39_000 + 2 * MIB);
    assert!(bytes_of(&fd) >= 2 * MIB);
}

/// Every mode moves mtime and ctime. (tmpfs moves less.)
#[test]
fn times() {
    let d = area!();
    let f = d.file_with("f", &[7; 40_000]);
    if is_tmpfs(&d) {
        return;
    }
    let fd = ok!(open(&f, O_RDWR, 0));
    for (mode, offset, length) in [(0, 0, 10), (KEEP_SIZE, 0, MIB), (PUNCH, 100, 10_000), (ZERO, 0, 100), (0, 0, MIB)] {
        moves("fallocate", &[(&f, "mc")], || ok!(fallocate(&fd, mode, offset, length)));
    }
}

/// Who is not root takes setuid and setgid with it, as by writing. (tmpfs leaves them.)
#[test]
fn suid() {
    let d = area!();
    if is_tmpfs(&d) {
        return;
    }
    for (n, mode) in [0, KEEP_SIZE, PUNCH, ZERO].into_iter().enumerate() {
        let f = d.file_with(format!("f{n}"), &[7; 8192]);
        ok!(chown(&f, ALICE.uid, ALICE.gid));
        ok!(chmod(&f, 0o6777));
        ok!(fallocate(ok!(open(&f, O_RDWR, 0)), mode, 0, 4096));
        assert_eq!(ok!(stat(&f)).perm(), 0o6777, "by root");
        ALICE.run(|| ok!(fallocate(ok!(open(&f, O_RDWR, 0)), mode, 0, 4096)));
        assert_eq!(ok!(stat(&f)).perm(), 0o777);
    }
}

/// What is refused, and with what.
#[test]
fn errors() {
    let d = area!();
    let f = d.file_with("f", &[7; 8192]);
    let fd = ok!(open(&f, O_RDWR, 0));
    for mode in [0, KEEP_SIZE, PUNCH] {
        expect_errno!(fallocate(&fd, mode, 0, 0), EINVAL);
        expect_errno!(fallocate(&fd, mode, -1, 10), EINVAL);
        expect_errno!(fallocate(&fd, mode, 10, -1), EINVAL);
        expect_errno!(fallocate(ok!(open(&f, O_RDONLY, 0)), mode, 0, 10), EBADF);
        expect_errno!(fallocate(bad_fd(), mode, 0, 10), EBADF);
        expect_errno!(fallocate(&fd, mode, i64::MAX, 10), EFBIG);
    }
    expect_errno!(fallocate(&fd, libc::FALLOC_FL_PUNCH_HOLE, 0, 10), EOPNOTSUPP);
    expect_errno!(fallocate(&fd, PUNCH | ZERO, 0, 10), EOPNOTSUPP);
    expect_errno!(fallocate(&fd, 0x1000, 0, 10), EOPNOTSUPP);
    if is_fuse(&d) {
        expect_errno!(fallocate(&fd, 0, 17 << 40, 10), EFBIG);
        expect_errno!(fallocate(&fd, FALLOC_FL_COLLAPSE_RANGE, 0, 4096), EOPNOTSUPP);
        expect_errno!(fallocate(&fd, FALLOC_FL_INSERT_RANGE, 0, 4096), EOPNOTSUPP);
    }
    expect_errno!(fallocate(ok!(open(d.path(), O_RDONLY, 0)), 0, 0, 10), EBADF);
    expect_errno!(fallocate(ok!(open("/dev/null", O_RDWR, 0)), 0, 0, 10), ENODEV);
    let s = ok!(fstat(&fd));
    assert_eq!((s.size, content(&f)), (8192, vec![7; 8192]), "nothing of it has happened");
}

/// A FIFO has no room to reserve (ESPIPE).
#[test]
fn of_a_fifo() {
    let d = area!();
    ok!(mknod(d.p("fifo"), S_IFIFO | 0o644, 0));
    expect_errno!(fallocate(ok!(open(d.p("fifo"), O_RDWR, 0)), 0, 0, 10), ESPIPE);
}

/// Beyond the process's file size limit it is EFBIG, with SIGXFSZ, before anything happens.
#[test]
fn beyond_the_limit() {
    let d = area!();
    let f = d.file("f");
    let end = in_child(|| {
        set_limit(libc::RLIMIT_FSIZE, 10_000);
        ignore(libc::SIGXFSZ);
        code(open(&f, O_WRONLY, 0).and_then(|fd| fallocate(&fd, 0, 0, 10_001)))
    });
    assert_eq!(end, End::Exit(libc::EFBIG));
    assert_eq!((ok!(stat(&f)).size, ok!(stat(&f)).blocks), (0, 0));
}

/// More than the disk has is ENOSPC, and nothing has happened. (A local file system may take all that there is first.)
#[test]
fn no_space() {
    let d = area!();
    if !is_fuse(&d) {
        return;
    }
    let f = d.file_with("f", &[7; 8192]);
    let fd = ok!(open(&f, O_RDWR, 0));
    let free = ok!(statvfs(&f));
    let more = free.f_bavail as i64 * free.f_frsize as i64 + (1 << 40);
    let before = bytes_of(&fd);
    for mode in [0, KEEP_SIZE, ZERO] {
        expect_errno!(fallocate(&fd, mode, 0, more), ENOSPC | EFBIG);
    }
    assert_eq!((ok!(fstat(&fd)).size, bytes_of(&fd)), (8192, before));
    assert_eq!(content(&f), [7; 8192]);
}

/// A mapping shows zeros where a hole was punched.
#[test]
fn mapped() {
    let d = area!();
    let fd = ok!(open(d.file_with("f", &[7; 16_384]), O_RDWR, 0));
    let map = ok!(mmap(&fd, 16_384, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED));
    map.set(5000, 9);
    ok!(fallocate(&fd, PUNCH, 4096, 8192));
    assert_eq!([4095, 4096, 5000, 12_287, 12_288].map(|at| map.get(at)), [7, 0, 0, 0, 7]);
    map.set(6000, 8);
    ok!(map.msync());
    assert_eq!(ok!(pread(&fd, 3, 5999)), [0, 8, 0]);
}

/// A range of any length is punched at once, over many chunks, and a hole stays one.
#[test]
fn long_ranges() {
    let d = area!();
    let fd = ok!(open(d.file("f"), O_RDWR, 0));
    for chunk in 0..5 {
        ok!(pwrite(&fd, [7; 100_000], chunk * 4 * MIB - if chunk > 0 { 50_000 } else { 0 }));
    }
    ok!(ftruncate(&fd, 1 << 40));
    ok!(fallocate(&fd, PUNCH, 1, (1 << 40) - 2));
    assert_eq!(ok!(pread(&fd, 5, 0)), [7, 0, 0, 0, 0]);
    assert!(bytes_of(&fd) <= 4096);
    assert_eq!(ok!(fstat(&fd)).size, 1 << 40);
    assert_eq!(ok!(lseek(&fd, 0, SEEK_HOLE)), 4096);
    expect_errno!(lseek(&fd, 4096, SEEK_DATA), ENXIO);
}

/// Random operations on one file and what it must contain.
struct Fuzz {
    fd: OwnedFd,
    random: Random,
    bytes: Vec<u8>,
    modes: Vec<i32>,
}

/// Largest size of the file: over a chunk's end.
const FUZZ_BYTES: usize = 5 << 20;

impl Fuzz {
    fn range(&mut self) -> (usize, usize) {
        let near = [0, (4 << 20) - 20_000, self.bytes.len().saturating_sub(10_000)];
        let from = *self.random.of(&near) + self.random.below(40_000);
        let length: usize = *self.random.of(&[1, 100, 4096, 10_000, 70_000]);
        match self.random.below(3) {
            0 => (from / 4096 * 4096, length.next_multiple_of(4096)),
            _ => (from, length),
        }
    }

    fn step(&mut self) {
        let (from, length) = self.range();
        let end = from + length;
        match self.random.below(10) {
            0..3 => {
                let bytes = self.random.bytes(length);
                assert_eq!(ok!(pwrite(&self.fd, &bytes, from as i64)), length);
                self.bytes.resize(self.bytes.len().max(end), 0);
                self.bytes[from..end].copy_from_slice(&bytes);
            }
            3 => {
                let size = self.random.below(FUZZ_BYTES / 4) + if self.random.below(2) == 0 { 4 << 20 } else { 0 };
                ok!(ftruncate(&self.fd, size as i64));
                self.bytes.resize(size, 0);
            }
            4 => {
                let to = self.range().0;
                if self.bytes.len() > from && from.abs_diff(to) >= length {
                    let n = length.min(self.bytes.len() - from);
                    let copied = ok!(copy_range(&self.fd, from as i64, &self.fd, to as i64, length, 0));
                    assert!(copied > 0 && copied <= n);
                    self.bytes.resize(self.bytes.len().max(to + copied), 0);
                    self.bytes.copy_within(from..from + copied, to);
                }
            }
            _ => {
                let mode = *self.random.of(&self.modes);
                ok!(fallocate(&self.fd, mode, from as i64, length as i64));
                if mode & KEEP_SIZE == 0 {
                    self.bytes.resize(self.bytes.len().max(end), 0);
                }
                let size = self.bytes.len();
                if mode & (PUNCH | ZERO) & !KEEP_SIZE != 0 {
                    self.bytes[from.min(size)..end.min(size)].fill(0);
                }
            }
        }
    }

    /// Every byte is what it must be, and data is found where it is not zero.
    fn check(&mut self) {
        let size = self.bytes.len();
        assert_eq!(ok!(fstat(&self.fd)).size, size as i64);
        let (from, length) = self.range();
        let expected = &self.bytes[from.min(size)..(from + length).min(size)];
        assert!(ok!(pread(&self.fd, length, from as i64)) == expected);
        if from >= size {
            return expect_errno!(lseek(&self.fd, from as i64, SEEK_HOLE), ENXIO);
        }
        let data = self.bytes[from..].iter().position(|&byte| byte != 0).map(|at| from + at);
        match (lseek(&self.fd, from as i64, SEEK_DATA), data) {
            (Err(libc::ENXIO), None) => {}
            (found, data) => assert!(data.is_none_or(|data| ok!(found) as usize <= data)),
        }
        let hole = ok!(lseek(&self.fd, from as i64, SEEK_HOLE)) as usize;
        assert!(hole >= from && hole <= size);
        assert!(hole == size || self.bytes[hole..(hole / 4096 * 4096 + 4096).min(size)].iter().all(|&byte| byte == 0));
    }
}

/// Thousands of writes, truncates, copies, reservations, punches and zeroings of one file leave exactly the bytes they should.
#[test]
fn everything_at_random() {
    let d = area!();
    let probe = ok!(open(d.file("probe"), O_RDWR, 0));
    let modes: Vec<i32> =
        [0, KEEP_SIZE, PUNCH, ZERO, ZERO | KEEP_SIZE].into_iter().filter(|&m| has(&probe, m)).collect();
    for seed in 1..5 {
        let f = d.file(format!("f{seed}"));
        let fd = ok!(open(&f, O_RDWR, 0));
        let mut fuzz = Fuzz { fd, random: Random::new(seed), bytes: vec![], modes: modes.clone() };
        for step in 0..400 {
            fuzz.step();
            fuzz.check();
            if step % 100 == 99 {
                assert!(content(&f) == fuzz.bytes, "seed {seed}, step {step}");
            }
        }
    }
}
