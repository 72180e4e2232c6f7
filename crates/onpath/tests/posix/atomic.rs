//! What several threads do at once: exactly one wins, and nobody sees a half-done change.

use crate::posix::prelude::*;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

const THREADS: usize = 6;
const ROUNDS: usize = 25;

/// Runs the attempt in several threads at once, `ROUNDS` times; gives how many succeeded and all errnos, per round.
fn race(attempt: impl Fn(usize, usize) -> R + Sync, mut check: impl FnMut(usize, usize, Vec<i32>)) {
    for round in 0..ROUNDS {
        let start = Barrier::new(THREADS);
        let results: Vec<R> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (start, attempt) = (&start, &attempt);
                    scope.spawn(move || {
                        start.wait();
                        attempt(round, thread)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        check(
            round,
            results.iter().filter(|result| result.is_ok()).count(),
            results.into_iter().filter_map(R::err).collect(),
        );
    }
}

/// Of several exclusive creations of one name exactly one works, the others get EEXIST: open, mkdir, symlink, mknod, link.
#[test]
fn one_creator() {
    let d = area!();
    let old = d.file("old");
    type Make = fn(&Path, &Path) -> R;
    let makers: [Make; 5] = [
        |path, _| open(path, O_WRONLY | O_CREAT | O_EXCL, 0o644).map(drop),
        |path, _| mkdir(path, 0o755),
        |path, _| symlink("x", path),
        |path, _| mkfifo(path, 0o644),
        |path, old| link(old, path),
    ];
    race(
        |round, thread| makers[(round + thread) % 5](&d.p(format!("r{round}")), &old),
        |_, won, errnos| {
            assert_eq!((won, errnos), (1, vec![libc::EEXIST; THREADS - 1]));
        },
    );
    assert_eq!(ok!(names(d.path())).len(), ROUNDS + 1);
}

/// O_CREAT without O_EXCL works for all and makes one file.
#[test]
fn shared_creation() {
    let d = area!();
    race(
        |round, _| write(ok!(open(d.p(format!("r{round}")), O_WRONLY | O_CREAT | O_APPEND, 0o644)), "x").map(drop),
        |round, won, _| {
            assert_eq!((won, content(d.p(format!("r{round}"))).len()), (THREADS, THREADS));
        },
    );
}

/// Of several removals of one name exactly one works, the others get ENOENT; of several renames of one source too.
#[test]
fn one_remover() {
    let d = area!();
    for round in 0..ROUNDS {
        d.file(format!("u{round}"));
        d.dir(format!("d{round}"));
        d.file(format!("m{round}"));
    }
    race(
        |round, _| unlink(d.p(format!("u{round}"))),
        |_, won, errnos| assert_eq!((won, errnos), (1, vec![libc::ENOENT; THREADS - 1])),
    );
    race(
        |round, _| rmdir(d.p(format!("d{round}"))),
        |_, won, errnos| assert_eq!((won, errnos), (1, vec![libc::ENOENT; THREADS - 1])),
    );
    race(
        |round, thread| rename(d.p(format!("m{round}")), d.p(format!("m{round}-{thread}"))),
        |_, won, errnos| {
            assert_eq!((won, errnos), (1, vec![libc::ENOENT; THREADS - 1]));
        },
    );
    assert_eq!(ok!(names(d.path())).len(), ROUNDS);
}

/// Links and unlinks of one inode at once leave the right count.
#[test]
fn link_count() {
    let d = area!();
    let f = d.file("f");
    race(
        |round, thread| {
            ok!(link(&f, d.p(format!("l{round}-{thread}"))));
            if thread % 2 == 0 { unlink(d.p(format!("l{round}-{thread}"))) } else { Ok(()) }
        },
        |round, _, errnos| {
            assert!(errnos.is_empty(), "{errnos:?}");
            assert_eq!(ok!(stat(&f)).nlink as usize, 1 + (round + 1) * THREADS / 2);
        },
    );
}

/// A name that is replaced by rename again and again is there for every reader, with whole content of one writer.
#[test]
fn replaced_name_is_always_there() {
    let d = area!();
    let target = d.file_with("target", &[b'0'; 3000]);
    let over = Over::default();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !over.is() {
                    let bytes = content(&target);
                    assert!(bytes.len() == 3000 && bytes.iter().all(|&b| b == bytes[0]), "{} bytes", bytes.len());
                    ok!(stat(&target));
                }
            });
        }
        let _end = over.at_end();
        for i in 0..500_u32 {
            d.file_with("tmp", &[b'0' + (i % 10) as u8; 3000]);
            ok!(rename(d.p("tmp"), &target));
        }
    });
}

/// rmdir against creation in the directory: one of them fails, nothing is lost in a removed directory.
#[test]
fn removal_against_creation() {
    let d = area!();
    for round in 0..ROUNDS {
        d.dir(format!("r{round}"));
    }
    race(
        |round, thread| {
            let dir = d.p(format!("r{round}"));
            match thread % 2 {
                0 => rmdir(&dir),
                _ => open(dir.join(format!("f{thread}")), O_WRONLY | O_CREAT, 0o644).map(drop),
            }
        },
        |round, won, errnos| {
            let dir = d.p(format!("r{round}"));
            assert!(errnos.iter().all(|&errno| errno == libc::ENOTEMPTY || errno == libc::ENOENT), "{errnos:?}");
            match names(&dir) {
                Ok(list) => assert_eq!((list.len(), won), (3, 3)),
                Err(errno) => assert_eq!((errno, won), (libc::ENOENT, 1)),
            }
        },
    );
}

/// Two renames that would each put one directory below the other: at most one works, and the tree stays a tree.
#[test]
fn no_circles() {
    let d = area!();
    for round in 0..ROUNDS {
        d.dir(format!("a{round}")).dir("in");
        d.dir(format!("b{round}")).dir("in");
    }
    race(
        |round, thread| {
            let (a, b) = (d.p(format!("a{round}")), d.p(format!("b{round}")));
            if thread % 2 == 0 { rename(a, b.join("in/moved")) } else { rename(b, a.join("in/moved")) }
        },
        |round, won, errnos| {
            assert!(
                won == 1 && errnos.iter().all(|&errno| matches!(errno, libc::ENOENT | libc::EINVAL)),
                "{won} {errnos:?}"
            );
            let tops = ["a", "b"].map(|top| stat(d.p(format!("{top}{round}"))).is_ok());
            assert_ne!(tops[0], tops[1]);
            let top = d.p(format!("{}{round}", if tops[0] { "a" } else { "b" }));
            ok!(stat(top.join("in/moved/in")));
        },
    );
}

/// Crossing renames among a few names never lose or double an object.
#[test]
fn crossing_renames() {
    let d = area!();
    let dirs = [d.dir("a"), d.dir("b")];
    for i in 0..4 {
        dirs[i % 2].file(format!("n{i}"));
    }
    let moved = AtomicUsize::new(0);
    race(
        |round, thread| {
            for i in 0..4 {
                let (from, to) = (&dirs[(round + thread + i) % 2], &dirs[(round + thread + i + 1) % 2]);
                let name = format!("n{}", (i + thread) % 4);
                match renameat2(from.p(&name), to.p(&name), libc::RENAME_NOREPLACE) {
                    Ok(()) => drop(moved.fetch_add(1, Ordering::Relaxed)),
                    other => refused("rename", other, &[libc::ENOENT, libc::EEXIST]),
                }
            }
            Ok(())
        },
        |_, _, _| {
            let mut all: Vec<OsString> = dirs.iter().flat_map(|dir| ok!(names(dir.path()))).collect();
            all.sort();
            assert_eq!(all, ["n0", "n1", "n2", "n3"]);
        },
    );
    assert!(moved.into_inner() > 0);
}

/// Threads that make and remove in one directory leave exact counts, list and link count.
#[test]
fn one_busy_directory() {
    let d = area!();
    let sub = d.dir("sub");
    race(
        |round, thread| {
            let name = format!("{round}-{thread}");
            ok!(mkdir(sub.p(format!("d{name}")), 0o755));
            drop(ok!(open(sub.p(format!("f{name}")), O_WRONLY | O_CREAT | O_EXCL, 0o644)));
            ok!(symlink("x", sub.p(format!("l{name}"))));
            ok!(rename(sub.p(format!("f{name}")), sub.p(format!("g{name}"))));
            ok!(unlink(sub.p(format!("l{name}"))));
            if thread % 2 == 0 { rmdir(sub.p(format!("d{name}"))) } else { Ok(()) }
        },
        |round, _, errnos| {
            assert!(errnos.is_empty(), "{errnos:?}");
            let rounds = round + 1;
            assert_eq!(ok!(names(sub.path())).len(), rounds * (THREADS + THREADS / 2));
            assert_eq!(ok!(stat(sub.path())).nlink as usize, 2 + rounds * THREADS / 2);
        },
    );
}

/// Writers of different ranges of one file do not disturb each other.
#[test]
fn disjoint_writes() {
    let d = area!();
    let f = d.file("f");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let f = &f;
            scope.spawn(move || {
                let fd = ok!(open(f, O_WRONLY, 0));
                for i in 0..60 {
                    ok!(pwrite(&fd, [thread as u8 + 1; 1000], ((i * THREADS + thread) * 1000) as i64));
                }
            });
        }
    });
    let bytes = content(&f);
    assert!(
        bytes.len() == 60_000 * THREADS
            && bytes.iter().enumerate().all(|(i, &b)| usize::from(b) == i / 1000 % THREADS + 1)
    );
}
