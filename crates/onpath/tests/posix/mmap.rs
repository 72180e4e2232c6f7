//! mmap(2), msync(2): mappings and the file they show.

use crate::posix::prelude::*;
use libc::{MAP_PRIVATE, MAP_SHARED, PROT_READ, PROT_WRITE};

const PAGE: usize = 4096;

/// What a shared mapping writes is read after msync, by any descriptor, and is there after unmapping and closing.
#[test]
fn writes_reach_the_file() {
    let d = area!();
    let f = d.file_with("f", &[1; 3 * PAGE]);
    let fd = ok!(open(&f, O_RDWR, 0));
    let map = ok!(mmap(&fd, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED));
    for (i, byte) in [(0, 10), (PAGE - 1, 11), (PAGE, 12), (3 * PAGE - 1, 13)] {
        map.set(i, byte);
    }
    ok!(map.msync());
    assert_eq!(
        (ok!(pread(&fd, 1, 0)), ok!(pread(&fd, 2, PAGE as i64 - 1)), content(&f)[3 * PAGE - 1]),
        (vec![10], vec![11, 12], 13)
    );
    map.set(5, 14);
    drop((map, fd));
    assert_eq!(content(&f)[5], 14);
}

/// What is written to the file is seen in the mapping.
#[test]
fn shows_the_file() {
    let d = area!();
    let f = d.file_with("f", &[1; 2 * PAGE]);
    let (fd, other) = (ok!(open(&f, O_RDONLY, 0)), ok!(open(&f, O_RDWR, 0)));
    let map = ok!(mmap(&fd, 2 * PAGE, PROT_READ, MAP_SHARED));
    assert_eq!((map.get(0), map.get(PAGE)), (1, 1));
    for byte in 2..20 {
        ok!(pwrite(&other, [byte; 2], PAGE as i64 - 1));
        assert_eq!((map.get(PAGE - 1), map.get(PAGE), map.get(0)), (byte, byte, 1));
    }
}

/// Two mappings of one file show the same bytes.
#[test]
fn two_mappings() {
    let d = area!();
    let f = d.file_with("f", &[0; PAGE]);
    let maps = [0; 2].map(|_| ok!(mmap(ok!(open(&f, O_RDWR, 0)), PAGE, PROT_READ | PROT_WRITE, MAP_SHARED)));
    for i in 0..100 {
        maps[i % 2].set(i, i as u8);
        assert_eq!(maps[(i + 1) % 2].get(i), i as u8);
    }
}

/// A private mapping keeps its writes to itself.
#[test]
fn private() {
    let d = area!();
    let f = d.file_with("f", &[1; PAGE]);
    let map = ok!(mmap(ok!(open(&f, O_RDONLY, 0)), PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE));
    map.set(0, 9);
    ok!(map.msync());
    assert_eq!((map.get(0), content(&f)[0]), (9, 1));
}

/// Behind the end of the file the rest of the page is zeros, and what is written there does not reach the file.
#[test]
fn last_page() {
    let d = area!();
    let f = d.file_with("f", &[1; 100]);
    let fd = ok!(open(&f, O_RDWR, 0));
    let map = ok!(mmap(&fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED));
    assert_eq!((map.get(99), map.get(100), map.get(PAGE - 1)), (1, 0, 0));
    map.set(99, 2);
    map.set(200, 3);
    ok!(map.msync());
    drop(map);
    assert_eq!(ok!(fstat(&fd)).size, 100);
    assert_eq!(content(&f)[99], 2);
    if !is_tmpfs(&d) {
        // tmpfs brings back what was written there.
        ok!(ftruncate(&fd, 300));
        assert_eq!(ok!(pread(&fd, 200, 100)), [0; 200]);
    }
}

/// Touching a page behind the end is SIGBUS; after a truncate the mapping ends there too.
#[test]
fn behind_the_end() {
    let d = area!();
    let f = d.file_with("f", &[1; 3 * PAGE]);
    let touch_page = |page: usize, cut: bool| {
        in_child(|| {
            let Ok(map) = open(&f, O_RDWR, 0).and_then(|fd| mmap(&fd, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED))
            else {
                return 200;
            };
            let before = map.get(2 * PAGE);
            if cut && (before != 1 || truncate(&f, 2 * PAGE as i64).is_err()) {
                return 201;
            }
            i32::from(map.get(page * PAGE))
        })
    };
    assert_eq!((touch_page(2, false), touch_page(3, false)), (End::Exit(1), End::Signal(libc::SIGBUS)));
    assert_eq!(touch_page(2, true), End::Signal(libc::SIGBUS));
}

/// A growing file shows up in a mapping that was larger than it.
#[test]
fn growing() {
    let d = area!();
    let fd = ok!(open(d.file_with("f", &[1; 10]), O_RDWR, 0));
    let map = ok!(mmap(&fd, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED));
    assert_eq!(map.get(9), 1);
    ok!(ftruncate(&fd, 2 * PAGE as i64));
    ok!(pwrite(&fd, [5], PAGE as i64 + 1));
    assert_eq!((map.get(10), map.get(PAGE), map.get(PAGE + 1)), (0, 0, 5));
    map.set(2 * PAGE - 1, 6);
    ok!(map.msync());
    assert_eq!(ok!(pread(&fd, 1, 2 * PAGE as i64 - 1)), [6]);
}

/// A shared writable mapping needs a descriptor open for both, any mapping one open for reading (EACCES); no directories (ENODEV).
#[test]
fn errors() {
    let d = area!();
    let f = d.file_with("f", &[1; PAGE]);
    let (r, w) = (ok!(open(&f, O_RDONLY, 0)), ok!(open(&f, O_WRONLY, 0)));
    expect_errno!(mmap(&r, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED).map(drop), EACCES);
    expect_errno!(mmap(&w, PAGE, PROT_READ, MAP_SHARED).map(drop), EACCES);
    expect_errno!(mmap(&w, PAGE, PROT_READ, MAP_PRIVATE).map(drop), EACCES);
    expect_errno!(mmap(&r, 0, PROT_READ, MAP_SHARED).map(drop), EINVAL);
    expect_errno!(mmap(ok!(open(d.path(), O_RDONLY, 0)), PAGE, PROT_READ, MAP_SHARED).map(drop), ENODEV);
    expect_errno!(mmap(bad_fd(), PAGE, PROT_READ, MAP_SHARED).map(drop), EBADF);
}

/// A write through a mapping moves mtime and ctime, by the next msync at the latest.
#[test]
fn times() {
    let d = area!();
    let f = d.file_with("f", &[1; PAGE]);
    let map = ok!(mmap(ok!(open(&f, O_RDWR, 0)), PAGE, PROT_READ | PROT_WRITE, MAP_SHARED));
    moves("a read through a mapping", &[(&f, "?a")], || assert_eq!(map.get(0), 1));
    // tmpfs does not notice a write to a page that was read before.
    let letters = if is_tmpfs(&d) { "?mca" } else { "mc?a" };
    moves("a write through a mapping", &[(&f, letters), (d.path(), "")], || {
        map.set(0, 2);
        ok!(map.msync());
    });
}

/// A write through a mapping of an O_APPEND descriptor changes the bytes it shows, it appends nothing.
#[test]
fn of_an_appending_descriptor() {
    let d = area!();
    let f = d.file_with("f", &[1; PAGE]);
    let fd = ok!(open(&f, O_RDWR | O_APPEND, 0));
    let map = ok!(mmap(&fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED));
    map.set(10, 2);
    ok!(map.msync());
    ok!(write(&fd, "end"));
    map.set(11, 3);
    drop((map, fd));
    let bytes = content(&f);
    assert_eq!((bytes.len(), &bytes[9..13], &bytes[PAGE..]), (PAGE + 3, &[1, 2, 3, 1][..], &b"end"[..]));
}

/// A large mapping written page by page is stored whole.
#[test]
fn large() {
    let d = area!();
    let f = d.file("f");
    let size = 6 << 20;
    ok!(truncate(&f, size as i64));
    let map = ok!(mmap(ok!(open(&f, O_RDWR, 0)), size, PROT_READ | PROT_WRITE, MAP_SHARED));
    for i in (0..size).step_by(1021) {
        map.set(i, (i % 255) as u8 + 1);
    }
    drop(map);
    let bytes = content(&f);
    assert!(
        bytes.len() == size
            && bytes.iter().enumerate().all(|(i, &b)| b == if i % 1021 == 0 { (i % 255) as u8 + 1 } else { 0 })
    );
}

/// What utimensat sets stays, whatever was dirty before, also if it is written back later; what is written after it moves mtime.
#[test]
fn times_that_are_set_stay() {
    let d = area!();
    let f = d.file_with("f", &[1; 2 * PAGE]);
    let mtime = || ok!(stat(&f)).mtime;
    for round in 1..6_u8 {
        let fd = ok!(open(&f, O_RDWR, 0));
        let map = ok!(mmap(&fd, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED));
        let then = at(1_000_000 + i64::from(round), 5);
        let set = || if round % 2 == 0 { ok!(utimens(&f, [then; 2])) } else { ok!(futimens(&fd, [OMIT, then])) };
        map.set(0, round);
        set();
        assert_eq!(mtime(), then);
        ok!(map.msync());
        assert_eq!(mtime(), then, "written back after it was set");
        map.set(PAGE, round);
        ok!(map.msync());
        assert!(mtime() > then, "written after it was set");
        map.set(1, round);
        set();
        drop(map);
        drop(fd);
        assert_eq!(mtime(), then, "written back by the close");
        assert_eq!(content(&f)[..2], [round; 2]);
    }
}
