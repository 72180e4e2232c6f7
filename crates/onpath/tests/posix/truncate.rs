//! truncate(2), ftruncate(2).

use crate::posix::prelude::*;

/// A size to the byte: shorter drops the rest, longer reads as zeros, also across block and chunk borders.
#[test]
fn exact_sizes() {
    let d = area!();
    let pattern: Vec<u8> = (0..9_000_000_u32).map(|i| (i % 251) as u8 + 1).collect();
    let f = d.file_with("f", &pattern);
    let fd = ok!(open(&f, O_RDWR, 0));
    let sizes = [
        8_999_999, 8_388_609, 8_388_608, 8_388_607, 4_194_305, 4_194_304, 4_194_303, 131_073, 8193, 4097, 4096, 4095,
        2, 1, 0,
    ];
    for (i, size) in sizes.into_iter().enumerate() {
        ok!(if i % 2 == 0 { truncate(&f, size) } else { ftruncate(&fd, size) });
        assert_eq!(ok!(stat(&f)).size, size);
        let tail = (size - 5).max(0);
        assert_eq!(ok!(pread(&fd, 100, tail)), &pattern[tail as usize..size as usize], "at {size}");
    }
    for (size, written) in [(1, 0), (4096, 0), (4097, 3), (10_000, 5000), (4_194_305, 9999), (9_000_000, 4_194_300)] {
        ok!(pwrite(&fd, "x", written));
        ok!(ftruncate(&fd, size));
        assert_eq!(ok!(fstat(&fd)).size, size);
        let rest = ok!(pread(&fd, size as usize, written + 1));
        assert!(rest.len() as i64 == size - written - 1 && rest.iter().all(|&b| b == 0), "at {size}");
    }
}

/// What was cut off does not come back when the file grows again, by truncate or by a write behind it.
#[test]
fn no_old_bytes() {
    let d = area!();
    for (i, (cut, back)) in
        [(1, 10), (4095, 8192), (4096, 8192), (5000, 12_288), (100, 4_194_400), (4_194_304, 4_198_400)]
            .into_iter()
            .enumerate()
    {
        let f = d.file_with(format!("f{i}"), &vec![0xaa; back as usize]);
        let fd = ok!(open(&f, O_RDWR, 0));
        ok!(ftruncate(&fd, cut));
        if i % 2 == 0 {
            ok!(ftruncate(&fd, back));
        } else {
            ok!(pwrite(&fd, [0], back - 1));
        }
        let bytes = content(&f);
        let (kept, rest) = bytes.split_at(cut as usize);
        assert!(
            bytes.len() as i64 == back && kept.iter().all(|&b| b == 0xaa) && rest.iter().all(|&b| b == 0),
            "{cut} then {back}"
        );
    }
}

/// The same size changes no byte; nothing else of the inode changes but its times.
#[test]
fn leaves_the_rest() {
    let d = area!();
    let f = d.file_with("f", b"12345");
    ok!(chown(&f, 1, 2));
    let before = ok!(stat(&f));
    for size in [5, 3, 10] {
        ok!(truncate(&f, size));
        let after = ok!(stat(&f));
        assert_eq!((after.mode, after.uid, after.gid, after.nlink, after.ino), (before.mode, 1, 2, 1, before.ino));
    }
    assert_eq!(content(&f), b"123\0\0\0\0\0\0\0");
}

/// truncate follows symlinks and sees hard links.
#[test]
fn through_links() {
    let d = area!();
    let f = d.file_with("f", b"12345");
    ok!(link(&f, d.p("hard")));
    ok!(truncate(d.symlink("hard", "soft"), 2));
    assert_eq!(content(&f), b"12");
    expect_errno!(truncate(d.symlink("nowhere", "dangling"), 2), ENOENT);
    expect_errno!(lstat(d.p("nowhere")), ENOENT);
}

/// A directory is EISDIR, any other non-file EINVAL.
#[test]
fn not_a_file() {
    let d = area!();
    for (kind, path) in d.one_of_each() {
        match kind {
            "file" | "symlink" => {}
            "dir" => expect_errno!(truncate(&path, 0), EISDIR),
            _ => refused(kind, truncate(&path, 0), &[libc::EINVAL]),
        }
    }
}

/// An open FIFO is EINVAL, too.
#[test]
fn of_an_open_fifo() {
    let d = area!();
    ok!(mkfifo(d.p("fifo"), 0o644));
    let p = ok!(open(d.p("fifo"), O_RDWR | O_NONBLOCK, 0));
    expect_errno!(ftruncate(&p, 0), EINVAL);
}

/// A negative size is EINVAL, a descriptor not open for writing EINVAL (or EBADF).
#[test]
fn bad_arguments() {
    let d = area!();
    let f = d.file_with("f", b"12345");
    expect_errno!(truncate(&f, -1), EINVAL);
    expect_errno!(ftruncate(ok!(open(&f, O_RDWR, 0)), -1), EINVAL);
    expect_errno!(truncate(&f, i64::MIN), EINVAL);
    expect_errno!(ftruncate(ok!(open(&f, O_RDONLY, 0)), 0), EINVAL | EBADF);
    expect_errno!(ftruncate(ok!(open(&f, O_PATH, 0)), 0), EBADF);
    expect_errno!(ftruncate(bad_fd(), 0), EBADF);
    assert_eq!(content(&f), b"12345");
}

/// truncate needs write permission now (EACCES), for the owner too; ftruncate needed it at open.
#[test]
fn permissions() {
    let d = area!();
    let f = d.file_of("f", 0o644, ALICE.uid, ALICE.gid);
    BOB.run(|| expect_errno!(truncate(&f, 1), EACCES));
    ALICE.run(|| {
        let fd = ok!(open(&f, O_RDWR, 0));
        ok!(chmod(&f, 0o444));
        expect_errno!(truncate(&f, 1), EACCES);
        ok!(ftruncate(&fd, 1));
    });
    ok!(chmod(&f, 0o606));
    BOB.run(|| ok!(truncate(&f, 2)));
    ok!(chmod(&f, 0));
    ok!(truncate(&f, 3));
    assert_eq!(ok!(stat(&f)).size, 3);
}

/// A size beyond the largest possible is EFBIG (or EINVAL), unless the file system can hold it; nothing changes.
#[test]
fn too_large() {
    let d = area!();
    let f = d.file_with("f", b"12345");
    match truncate(&f, i64::MAX) {
        Ok(()) => assert_eq!(ok!(stat(&f)).size, i64::MAX),
        other => {
            refused("truncate(2^63 - 1)", other, &[libc::EFBIG, libc::EINVAL]);
            assert_eq!(content(&f), b"12345");
        }
    }
}

/// A size beyond the process's limit is EFBIG, with SIGXFSZ; shrinking is not.
#[test]
fn beyond_the_limit() {
    let d = area!();
    let f = d.file_with("f", &[1; 20_000]);
    let end = in_child(|| {
        set_limit(libc::RLIMIT_FSIZE, 10_000);
        ignore(libc::SIGXFSZ);
        let shrunk = truncate(&f, 5000);
        let grown = truncate(&f, 10_001);
        if shrunk.is_ok() { code(grown) } else { 200 }
    });
    assert_eq!(end, End::Exit(libc::EFBIG));
    assert_eq!(ok!(stat(&f)).size, 5000);
    let end = in_child(|| {
        set_limit(libc::RLIMIT_FSIZE, 10_000);
        code(truncate(&f, 10_001))
    });
    assert_eq!(end, End::Signal(libc::SIGXFSZ));
}

/// Readers with open descriptors see the new size at once, behind it the end of the file.
#[test]
fn seen_by_readers() {
    let d = area!();
    let f = d.file_with("f", &[5; 10_000]);
    let fd = ok!(open(&f, O_RDONLY, 0));
    assert_eq!(ok!(pread(&fd, 20_000, 0)).len(), 10_000);
    ok!(truncate(&f, 100));
    assert_eq!(
        (ok!(pread(&fd, 20_000, 0)).len(), ok!(pread(&fd, 10, 100)).len(), ok!(lseek(&fd, 0, libc::SEEK_END))),
        (100, 0, 100)
    );
    ok!(truncate(&f, 6000));
    assert_eq!(ok!(pread(&fd, 20_000, 90)), [vec![5; 10], vec![0; 5900]].concat());
}
