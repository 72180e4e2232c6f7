//! Files that one mount changes in memory, through a shared mapping, while the other writes into the same pages.

use crate::common::check::{content, done};
use crate::common::sys::{self, Map};
use crate::two_mounts::Pair;
use libc::{FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, MAP_SHARED, O_APPEND, O_RDWR, O_WRONLY, PROT_READ, PROT_WRITE};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// As large as no page of it is left alone.
const BYTES: usize = 3 * 4_096 - 1_000;
const DOT: u8 = b'.';

/// A file of dots, mapped by the first mount.
struct Mapped {
    _file: OwnedFd,
    map: Map,
}

impl Mapped {
    fn new(here: &Path) -> Mapped {
        let file = done("open", sys::open(here, O_RDWR, 0));
        let map = done("mmap", sys::mmap(&file, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED));
        Mapped { _file: file, map }
    }
}

/// Whatever the other mount does to the file after a store, that is where it is, and so is the store beside it. Who has opened the file first
/// does not matter: the second one bypasses the page cache, and maps it all the same.
#[test]
fn what_is_written_beside_a_changed_page_stays() {
    let Some(pair) = Pair::new("writes beside changed pages", &[]) else { return };
    // What the other mount does, and what that makes of the file.
    type Change = fn(&OwnedFd, &Path);
    type Expected = fn(&mut Vec<u8>);
    let changes: [(&str, Change, Expected); 7] = [
        (
            "pwrite",
            |fd, _| _ = done("pwrite", sys::pwrite(fd, "there", 100)),
            |file| file[100..105].copy_from_slice(b"there"),
        ),
        (
            "over the store",
            |fd, _| _ = done("pwrite", sys::pwrite(fd, "there", 0)),
            |file| file[..5].copy_from_slice(b"there"),
        ),
        (
            "append",
            |_, path| {
                let fd = done("open", sys::open(path, O_WRONLY | O_APPEND, 0));
                done("write", sys::write(&fd, "appended"));
            },
            |file| file.extend_from_slice(b"appended"),
        ),
        ("shrink", |fd, _| done("ftruncate", sys::ftruncate(fd, 5_000)), |file| file.truncate(5_000)),
        ("grow", |fd, _| done("ftruncate", sys::ftruncate(fd, 20_000)), |file| file.resize(20_000, 0)),
        (
            "punch",
            |fd, _| done("fallocate", sys::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 50, 6_000)),
            |file| file[50..6_050].fill(0),
        ),
        (
            "copy",
            |fd, path| {
                let source = path.with_extension("source");
                std::fs::write(&source, "copied").expect("write");
                let source = done("open", sys::open(&source, libc::O_RDONLY, 0));
                assert_eq!(done("copy", sys::copy_range(&source, 0, fd, 9_000, 6, 0)), 6);
            },
            |file| file[9_000..9_006].copy_from_slice(b"copied"),
        ),
    ];
    for (what, change, expected) in changes {
        for there_first in [false, true] {
            let [here, there] = pair.both(&format!("{what}-{there_first}"));
            std::fs::write(&here, vec![DOT; BYTES]).expect("write");
            let early = there_first.then(|| done("open", sys::open(&there, O_RDWR, 0)));
            let mapped = Mapped::new(&here);
            mapped.map.set(0, b'H');
            mapped.map.set(4_096, b'H');
            mapped.map.set(BYTES - 1, b'H');
            let late = early.unwrap_or_else(|| done("open", sys::open(&there, O_RDWR, 0)));
            change(&late, &there);
            done("fsync", sys::fsync(&late));
            let mut file = vec![DOT; BYTES];
            for at in [0, 4_096, BYTES - 1] {
                file[at] = b'H';
            }
            expected(&mut file);
            assert!(content(&there) == file, "{what}, there first: {there_first}");
            drop(mapped);
            assert!(content(&there) == file, "{what}, there first: {there_first}, after munmap");
            drop(late);
            assert!(content(&here) == file, "{what}, there first: {there_first}, here");
        }
    }
    pair.stop("after writes beside changed pages");
}

/// The same while pages are changed all the time, in turns and at once: each mount has bytes of its own in one page.
#[test]
fn what_is_written_beside_a_page_that_changes_all_the_time_stays() {
    let Some(pair) = Pair::new("writes beside a page that changes all the time", &[]) else { return };
    let [here, there] = pair.both("f");
    std::fs::write(&here, vec![DOT; BYTES]).expect("write");
    let writer = done("open", sys::open(&there, O_RDWR, 0));
    let over = AtomicBool::new(false);
    let last = std::thread::scope(|scope| {
        let stores = scope.spawn(|| {
            let mapped = Mapped::new(&here);
            let mut n = 0_u8;
            while !over.load(Ordering::Relaxed) {
                n = n.wrapping_add(1);
                mapped.map.set(7, n);
                std::thread::sleep(Duration::from_micros(20));
            }
            done("msync", mapped.map.msync());
            n
        });
        let end = Instant::now() + Duration::from_secs(3);
        let mut round = 0_u32;
        while Instant::now() < end {
            round += 1;
            let at = 100 + i64::from(round % 50) * 4;
            done("pwrite", sys::pwrite(&writer, round.to_le_bytes(), at));
            assert_eq!(done("pread", sys::pread(&writer, 4, at)), round.to_le_bytes(), "round {round}");
        }
        over.store(true, Ordering::Relaxed);
        assert!(round > 50, "{round} rounds");
        let last = stores.join().expect("the stores");
        for round in round - 49..=round {
            let at = 100 + i64::from(round % 50) * 4;
            assert_eq!(done("pread", sys::pread(&writer, 4, at)), round.to_le_bytes(), "round {round}, in the end");
        }
        last
    });
    assert_eq!(done("pread", sys::pread(&writer, 1, 7)), [last]);
    drop(writer);
    pair.stop("after a page that changes all the time");
}

/// A time that one mount sets is not moved by what the other had changed before.
#[test]
fn times_that_the_other_sets_stay() {
    let Some(pair) = Pair::new("times of changed pages", &[]) else { return };
    let [here, there] = pair.both("f");
    std::fs::write(&here, vec![DOT; BYTES]).expect("write");
    let mapped = Mapped::new(&here);
    mapped.map.set(0, b'H');
    let time = sys::at(1_000_000_000, 5);
    done("utimensat", sys::utimens(&there, [time, time]));
    drop(mapped);
    assert_eq!(done("stat", sys::stat(&there)).mtime, time);
    assert_eq!(content(&there)[0], b'H');
    pair.stop("after times of changed pages");
}

/// A mount that does not answer is waited for for a second, once.
#[test]
fn who_does_not_answer_is_not_waited_for() {
    let Some(pair) = Pair::new("changed pages of a mount that is stopped", &[]) else { return };
    let [there, here] = pair.both("f");
    std::fs::write(&here, vec![DOT; BYTES]).expect("write");
    let mapped = Mapped::new(&here);
    mapped.map.set(0, b'H');
    let writer = done("open", sys::open(&there, O_RDWR, 0));
    pair.mounts[1].signal(libc::SIGSTOP);
    let begun = Instant::now();
    done("pwrite", sys::pwrite(&writer, "first", 100));
    let first = begun.elapsed();
    (0..10).for_each(|n| _ = done("pwrite", sys::pwrite(&writer, "second", 200 + n * 10)));
    let second = begun.elapsed() - first;
    pair.mounts[1].signal(libc::SIGCONT);
    assert!(first >= Duration::from_millis(900) && first < Duration::from_secs(5), "{first:?}");
    assert!(second < Duration::from_millis(800), "{second:?}");
    drop((mapped, writer));
    pair.stop("after a mount that was stopped");
}
