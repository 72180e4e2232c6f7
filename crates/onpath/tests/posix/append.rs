//! O_APPEND: every write goes to the end, whoever else writes.

use crate::posix::prelude::*;

/// A write goes to the end wherever the descriptor stood, and leaves it behind the new bytes.
#[test]
fn at_the_end() {
    let d = area!();
    let f = d.file_with("f", b"0123456789");
    let fd = ok!(open(&f, O_RDWR | O_APPEND, 0));
    assert_eq!(ok!(lseek(&fd, 0, libc::SEEK_CUR)), 0);
    assert_eq!(ok!(read(&fd, 3)), b"012");
    ok!(write(&fd, "ab"));
    assert_eq!(ok!(lseek(&fd, 0, libc::SEEK_CUR)), 12);
    ok!(lseek(&fd, 2, libc::SEEK_SET));
    ok!(write(&fd, "cd"));
    assert_eq!(content(&f), b"0123456789abcd");
}

/// pwrite on such a descriptor appends as well (Linux), and does not move it.
#[test]
fn positioned_writes() {
    let d = area!();
    let f = d.file_with("f", b"0123");
    let fd = ok!(open(&f, O_WRONLY | O_APPEND, 0));
    ok!(pwrite(&fd, "x", 0));
    assert_eq!(ok!(lseek(&fd, 0, libc::SEEK_CUR)), 0);
    assert_eq!(content(&f), b"0123x");
}

/// The end is where it is at the time of the write: after others' writes, after a truncate, after growing.
#[test]
fn the_present_end() {
    let d = area!();
    let f = d.file("f");
    let (a, b) = (ok!(open(&f, O_WRONLY | O_APPEND, 0)), ok!(open(&f, O_WRONLY | O_APPEND, 0)));
    for _ in 0..3 {
        ok!(write(&a, "a"));
        ok!(write(&b, "b"));
    }
    assert_eq!(content(&f), b"ababab");
    ok!(truncate(&f, 2));
    ok!(write(&a, "c"));
    ok!(truncate(&f, 5));
    ok!(write(&b, "d"));
    assert_eq!(content(&f), b"abc\0\0d");
}

/// O_APPEND can be switched on and off on an open descriptor.
#[test]
fn switched() {
    let d = area!();
    let f = d.file_with("f", b"0123");
    let fd = ok!(open(&f, O_RDWR, 0));
    ok!(fcntl_setfl(&fd, O_APPEND));
    assert_ne!(ok!(fcntl_getfl(&fd)) & O_APPEND, 0);
    ok!(write(&fd, "x"));
    ok!(fcntl_setfl(&fd, 0));
    ok!(pwrite(&fd, "y", 0));
    assert_eq!(content(&f), b"y123x");
    let appending = ok!(open(&f, O_RDWR | O_APPEND, 0));
    ok!(fcntl_setfl(&appending, 0));
    ok!(pwrite(&appending, "z", 1));
    assert_eq!(content(&f), b"yz23x");
}

/// Writers that append at the same time lose and tear no record, each keeps its order.
#[test]
fn concurrently() {
    const WRITERS: u32 = 6;
    const RECORDS: u32 = 150;
    let d = area!();
    let f = d.file("f");
    let record = |writer: u32, i: u32| format!("{writer}:{i:04}:{}\n", "=".repeat((i as usize * 37 + 11) % 700));
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let f = &f;
            scope.spawn(move || {
                let fd = ok!(open(f, O_WRONLY | O_APPEND, 0));
                for i in 0..RECORDS {
                    let line = record(writer, i);
                    assert_eq!(ok!(write(&fd, &line)), line.len());
                }
            });
        }
    });
    let text = String::from_utf8(content(&f)).expect("text");
    let mut next = [0; WRITERS as usize];
    for line in text.split_inclusive('\n') {
        let writer: u32 = line.split(':').next().and_then(|w| w.parse().ok()).expect("a whole record");
        assert_eq!(line, record(writer, next[writer as usize]));
        next[writer as usize] += 1;
    }
    assert_eq!(next, [RECORDS; WRITERS as usize]);
}
