//! read(2), write(2), lseek(2), fsync(2) and their relatives.

use crate::posix::prelude::*;
use libc::{SEEK_CUR, SEEK_END, SEEK_SET};

/// Bytes written anywhere, in any order, across block and chunk borders, are read back as written.
#[test]
fn random_access() {
    let d = area!();
    let fd = ok!(open(d.file("f"), O_RDWR, 0));
    let mut model = Vec::new();
    let mut seed = 12345_u64;
    for round in 0..300_u32 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let offset = (seed >> 33) as usize % 5_000_000;
        let length = [1, 7, 511, 512, 4095, 4096, 4097, 70_000][(seed >> 20) as usize % 8];
        let bytes = vec![(round % 255 + 1) as u8; length];
        assert_eq!(ok!(pwrite(&fd, &bytes, offset as i64)), length);
        if model.len() < offset + length {
            model.resize(offset + length, 0);
        }
        model[offset..offset + length].copy_from_slice(&bytes);
        let from = offset.saturating_sub(5000);
        let to = (offset + length + 5000).min(model.len());
        assert!(ok!(pread(&fd, to - from, from as i64)) == model[from..to], "round {round}");
    }
    assert!(content(d.p("f")) == model);
}

/// A read ends at the end of the file; behind it there is nothing.
#[test]
fn end_of_file() {
    let d = area!();
    let fd = ok!(open(d.file_with("f", b"0123456789"), O_RDWR, 0));
    assert_eq!(ok!(read(&fd, 4)), b"0123");
    assert_eq!(ok!(read(&fd, 100)), b"456789");
    assert_eq!(ok!(read(&fd, 100)), b"");
    assert_eq!(
        (ok!(pread(&fd, 5, 8)), ok!(pread(&fd, 5, 10)), ok!(pread(&fd, 5, 1 << 40))),
        (b"89".to_vec(), vec![], vec![])
    );
}

/// pread and pwrite do not move the position; dup shares it, a second open has its own.
#[test]
fn positions() {
    let d = area!();
    let f = d.file_with("f", b"0123456789");
    let (a, b) = (ok!(open(&f, O_RDWR, 0)), ok!(open(&f, O_RDWR, 0)));
    let c = ok!(dup(&a));
    assert_eq!(ok!(read(&a, 3)), b"012");
    ok!(pread(&a, 5, 5));
    ok!(pwrite(&a, "x", 9));
    assert_eq!((ok!(read(&c, 1)), ok!(read(&b, 1))), (b"3".to_vec(), b"0".to_vec()));
    assert_eq!(ok!(lseek(&a, 0, SEEK_CUR)), 4);
    ok!(write(&c, "yz"));
    assert_eq!(ok!(read(&a, 9)), b"678x");
}

/// lseek from start, position and end; negative results and unknown kinds are EINVAL; seeking writes nothing.
#[test]
fn seeking() {
    let d = area!();
    let fd = ok!(open(d.file_with("f", b"0123456789"), O_RDWR, 0));
    for (offset, whence, wanted) in [
        (4, SEEK_SET, 4),
        (3, SEEK_CUR, 7),
        (-2, SEEK_CUR, 5),
        (-10, SEEK_END, 0),
        (5, SEEK_END, 15),
        (0, SEEK_CUR, 15),
    ] {
        assert_eq!(ok!(lseek(&fd, offset, whence)), wanted);
    }
    expect_errno!(lseek(&fd, -1, SEEK_SET), EINVAL);
    expect_errno!(lseek(&fd, -16, SEEK_CUR), EINVAL);
    expect_errno!(lseek(&fd, -11, SEEK_END), EINVAL);
    expect_errno!(lseek(&fd, 0, 99), EINVAL);
    assert_eq!((ok!(lseek(&fd, 0, SEEK_CUR)), ok!(fstat(&fd)).size), (15, 10));
}

/// What one descriptor writes the others read at once, whatever they read before.
#[test]
fn seen_by_other_descriptors() {
    let d = area!();
    let f = d.file_with("f", &[0; 10_000]);
    let fds: Vec<_> = (0..3).map(|_| ok!(open(&f, O_RDWR, 0))).collect();
    for i in 0..90_usize {
        let bytes = [i as u8 + 1; 100];
        ok!(pwrite(&fds[i % 3], bytes, i as i64 * 100));
        for fd in &fds {
            assert_eq!(ok!(pread(fd, 100, i as i64 * 100)), bytes);
        }
        assert_eq!(content(&f)[i * 100..(i + 1) * 100], bytes);
    }
}

/// Writing no bytes changes nothing and is allowed anywhere.
#[test]
fn nothing_written() {
    let d = area!();
    let f = d.file_with("f", b"123");
    let fd = ok!(open(&f, O_RDWR, 0));
    moves("write of nothing", &[(&f, "")], || {
        assert_eq!(ok!(write(&fd, "")), 0);
        assert_eq!(ok!(pwrite(&fd, "", 1000)), 0);
    });
    assert_eq!(ok!(fstat(&fd)).size, 3);
}

/// A negative position is EINVAL, one at the end of all positions EFBIG (or EINVAL).
#[test]
fn impossible_positions() {
    let d = area!();
    let fd = ok!(open(d.file_with("f", b"123"), O_RDWR, 0));
    expect_errno!(pread(&fd, 1, -1), EINVAL);
    expect_errno!(pwrite(&fd, "x", -1), EINVAL);
    expect_errno!(pwrite(&fd, "x", i64::MAX), EFBIG | EINVAL | EOVERFLOW);
    assert_eq!(content(d.p("f")), b"123");
}

/// Beyond the process's file size limit a write is EFBIG, with SIGXFSZ; what fits is written.
#[test]
fn beyond_the_limit() {
    let d = area!();
    let f = d.file("f");
    let end = in_child(|| {
        set_limit(libc::RLIMIT_FSIZE, 10_000);
        ignore(libc::SIGXFSZ);
        let Ok(fd) = open(&f, O_WRONLY, 0) else { return 200 };
        if write(&fd, [1; 8000]) == Ok(8000) && write(&fd, [2; 8000]) == Ok(2000) { code(write(&fd, "x")) } else { 201 }
    });
    assert_eq!(end, End::Exit(libc::EFBIG));
    assert_eq!(ok!(stat(&f)).size, 10_000);
    let end = in_child(|| {
        set_limit(libc::RLIMIT_FSIZE, 10_000);
        code(open(&f, O_WRONLY | O_APPEND, 0).and_then(|fd| write(&fd, "x")))
    });
    assert_eq!(end, End::Signal(libc::SIGXFSZ));
}

/// fsync and fdatasync work on files and directories, also read-only opened ones.
#[test]
fn syncing() {
    let d = area!();
    let f = d.file_with("f", b"123");
    for fd in [ok!(open(&f, O_WRONLY, 0)), ok!(open(&f, O_RDONLY, 0)), ok!(open(d.path(), O_RDONLY, 0))] {
        ok!(fsync(&fd));
        ok!(fdatasync(&fd));
    }
    for flags in [libc::O_SYNC, libc::O_DSYNC] {
        let fd = ok!(open(&f, O_RDWR | flags, 0));
        ok!(write(&fd, "abc"));
        assert_eq!(ok!(pread(&fd, 9, 0)), b"abc");
    }
}

/// O_DIRECT reads and writes whole blocks, coherent with other descriptors. (A file system may not have it: EINVAL.)
#[test]
fn direct() {
    let d = area!();
    let f = d.file_with("f", &[1; 8192]);
    let direct = match open(&f, O_RDWR | libc::O_DIRECT, 0) {
        Err(libc::EINVAL) => return,
        result => ok!(result),
    };
    let cached = ok!(open(&f, O_RDWR, 0));
    let mut memory = vec![0_u8; 3 * 4096];
    let start = memory.as_ptr().align_offset(4096);
    let block = &mut memory[start..start + 4096];
    block.fill(7);
    ok!(pread(&cached, 8192, 0));
    assert_eq!(ok!(pwrite(&direct, &block, 4096)), 4096);
    assert_eq!(ok!(pread(&cached, 2, 4095)), [1, 7]);
    ok!(pwrite(&cached, [9], 0));
    assert_eq!(ok!(pread_into(&direct, block, 0)), 4096);
    assert_eq!((block[0], block[1]), (9, 1));
}

/// O_DIRECT at any place and of any length is whole or EINVAL, never something else.
#[test]
fn direct_unaligned() {
    let d = area!();
    let f = d.file_with("f", &[1; 10_000]);
    let direct = match open(&f, O_RDWR | libc::O_DIRECT, 0) {
        Err(libc::EINVAL) => return,
        result => ok!(result),
    };
    let mut expected = vec![1; 10_000];
    for (round, (offset, length)) in [(5, 10), (4090, 20), (100, 5000), (9_990, 300)].into_iter().enumerate() {
        match pwrite(&direct, vec![round as u8 + 2; length], offset as i64) {
            Err(libc::EINVAL) => continue,
            result => assert_eq!(ok!(result), length),
        }
        expected.resize(expected.len().max(offset + length), 0);
        expected[offset..offset + length].fill(round as u8 + 2);
        match pread(&direct, length, offset as i64) {
            Err(libc::EINVAL) => {}
            result => assert!(ok!(result) == expected[offset..offset + length]),
        }
    }
    assert!(content(&f) == expected);
}

/// copy_file_range copies bytes and holes, within what is there.
#[test]
fn copying() {
    let d = area!();
    let pattern: Vec<u8> = (0..300_000_u32).map(|i| (i % 253) as u8).collect();
    let from = ok!(open(d.file_with("from", &pattern), O_RDONLY, 0));
    let to = ok!(open(d.file("to"), O_RDWR, 0));
    let mut copied = 0;
    loop {
        match ok!(copy_file_range(&from, &to, 1 << 20)) {
            0 => break,
            n => copied += n,
        }
    }
    assert_eq!(copied, pattern.len());
    assert!(content(d.p("to")) == pattern);
    expect_errno!(copy_file_range(&to, &from, 10), EBADF);
}

/// fallocate extends and reserves, punches holes and zeroes ranges. (A file system may lack any of them: EOPNOTSUPP.)
#[test]
fn allocating() {
    let d = area!();
    let f = d.file_with("f", &[1; 20_000]);
    let fd = ok!(open(&f, O_RDWR, 0));
    let (keep, punch, zero) = (libc::FALLOC_FL_KEEP_SIZE, libc::FALLOC_FL_PUNCH_HOLE, libc::FALLOC_FL_ZERO_RANGE);
    let try_it = |mode, offset, length| match fallocate(&fd, mode, offset, length) {
        Err(libc::EOPNOTSUPP) => false,
        result => {
            ok!(result);
            true
        }
    };
    if try_it(punch | keep, 5000, 10_000) {
        let bytes = content(&f);
        assert!(
            bytes.len() == 20_000
                && bytes[..5000].iter().all(|&b| b == 1)
                && bytes[5000..15_000].iter().all(|&b| b == 0)
                && bytes[15_000..].iter().all(|&b| b == 1)
        );
    }
    if try_it(zero, 100, 50) {
        assert!(content(&f)[99..151].iter().map(|&b| u32::from(b)).sum::<u32>() == 2);
    }
    if try_it(keep, 20_000, 10_000) {
        assert_eq!(ok!(stat(&f)).size, 20_000);
    }
    if try_it(0, 25_000, 5000) {
        assert_eq!((ok!(stat(&f)).size, content(&f)[20_000..].iter().any(|&b| b != 0)), (30_000, false));
    }
    expect_errno!(fallocate(&fd, 0, -1, 10), EINVAL);
    expect_errno!(fallocate(&fd, 0, 0, 0), EINVAL);
    expect_errno!(fallocate(ok!(open(&f, O_RDONLY, 0)), 0, 0, 10), EBADF);
}
