//! Both mounts change one directory, or one file, at the same time, from several processes.

use crate::common::PATIENCE;
use crate::common::check::{content, done};
use crate::common::process::{Child, End, fork};
use crate::common::sys::{self, Stat, at};
use crate::two_mounts::Pair;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// Rounds of each process: eight changes and some looks each.
const ROUNDS: usize = 100;
/// How often a watcher looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

fn finish(children: Vec<Child>) {
    for child in children {
        assert_eq!(child.wait(), End::Exit(0), "a process found something wrong; see above");
    }
}

fn dir_stat(dir: &Path) -> Stat {
    done("stat of the directory", sys::stat(dir))
}

/// Names of one process that are there at the end.
fn survivors(owner: usize) -> BTreeSet<String> {
    (0..ROUNDS)
        .flat_map(|round| {
            let file = format!("file-{owner}-{round}");
            let dir = format!("dir-{owner}-{round}");
            let renamed = format!("renamed-{owner}-{round}");
            [Some(file), round.is_multiple_of(3).then_some(dir), round.is_multiple_of(2).then_some(renamed)]
        })
        .flatten()
        .collect()
}

/// Changes names of its own; what this process sees of the directory must be after what it did.
fn change(dir: &Path, owner: usize) -> i32 {
    let mut last = dir_stat(dir).mtime;
    for round in 0..ROUNDS {
        let name = |kind: &str| dir.join(format!("{kind}-{owner}-{round}"));
        done("create", sys::open(name("file"), libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL, 0o644));
        done("create", sys::open(name("old"), libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL, 0o644));
        done("mkdir", sys::mkdir(name("dir"), 0o755));
        done("rename", sys::rename(name("old"), name("renamed")));
        if !round.is_multiple_of(2) {
            done("unlink", sys::unlink(name("renamed")));
        }
        if !round.is_multiple_of(3) {
            done("rmdir", sys::rmdir(name("dir")));
        }
        done("link", sys::link(name("file"), name("link")));
        done("unlink of the link", sys::unlink(name("link")));
        let now = dir_stat(dir).mtime;
        assert!(now > last, "process {owner}: mtime {last:?} → {now:?} after changes that returned");
        last = now;
    }
    0
}

/// Looks until told to stop: times never go back, a listing has no name twice.
fn watch(dir: &Path, end: &Path) -> i32 {
    let mut last = at(0, 0);
    while sys::stat(end).is_err() {
        std::thread::sleep(LOOK_EVERY);
        let now = dir_stat(dir).mtime;
        assert!(now >= last, "mtime went back: {last:?} → {now:?}");
        last = now;
        let names = done("readdir", sys::names(dir));
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "a name was listed twice");
    }
    0
}

#[test]
fn one_directory() {
    let Some(pair) = Pair::new("both mounts in one directory", &["--shards", "4"]) else { return };
    let dirs = pair.both("shared");
    done("mkdir", sys::mkdir(&dirs[0], 0o755));
    let end = pair.site.root().join("end");
    let watchers: Vec<Child> = dirs.iter().map(|dir| fork(|| watch(dir, &end))).collect();
    let changers = (0..4).map(|owner| fork(|| change(&dirs[owner % 2], owner))).collect();
    finish(changers);
    std::fs::write(&end, "").expect("a file on the local disk");
    finish(watchers);
    let expected: BTreeSet<String> = (0..4).flat_map(survivors).collect();
    let subdirs = expected.iter().filter(|name| name.starts_with("dir-")).count() as u64;
    for dir in &dirs {
        let got: BTreeSet<String> =
            done("readdir", sys::names(dir)).into_iter().map(|name| name.into_string().expect("text")).collect();
        assert_eq!(got, expected, "names in {}", dir.display());
        assert_eq!(dir_stat(dir).nlink, 2 + subdirs, "nlink of {}", dir.display());
    }
    let [first, second] = dirs.each_ref().map(|dir| dir_stat(dir));
    let seen = |stat: Stat| (stat.ino, stat.mode, stat.nlink, stat.size, stat.mtime, stat.ctime);
    assert_eq!(seen(first), seen(second), "both mounts say the same");
    pair.stop("after both hammered one directory");
}

/// However often both mounts look at a directory, what changes it gets its turn: every kind of change is done so often in [`PATIENCE`].
#[test]
fn changes_are_not_starved() {
    const CHANGES: usize = 300;
    let Some(pair) = Pair::new("changes under constant looks", &["--shards", "4"]) else { return };
    let dirs = pair.both("shared");
    done("mkdir", sys::mkdir(&dirs[0], 0o755));
    let end = pair.site.root().join("end");
    let look = |dir: &Path| {
        while sys::stat(&end).is_err() {
            dir_stat(dir);
        }
        0
    };
    let watchers: Vec<Child> = dirs.iter().map(|dir| fork(|| look(dir))).collect();
    let change = |kind: &str| {
        let name = |n: usize| dirs[0].join(format!("{kind}{n}"));
        let start = Instant::now();
        done("create", sys::open(name(0), libc::O_WRONLY | libc::O_CREAT, 0o644));
        for n in 0..CHANGES {
            match kind {
                "rename" => done(kind, sys::rename(name(n), name(n + 1))),
                "link" => done(kind, sys::link(name(n), name(n + 1)).and_then(|()| sys::unlink(name(n)))),
                _ => done(kind, sys::mkdir(name(n + 1), 0o755).and_then(|()| sys::rmdir(name(n + 1)))),
            }
            assert!(start.elapsed() < PATIENCE, "{n} times {kind} in {:?}", start.elapsed());
        }
        0
    };
    finish(["rename", "link", "mkdir"].map(|kind| fork(|| change(kind))).into());
    std::fs::write(&end, "").expect("a file on the local disk");
    finish(watchers);
    pair.stop("after changes under constant looks");
}

/// Each name may be made by one of them only, removed by one only.
#[test]
fn the_same_names() {
    let Some(pair) = Pair::new("both mounts at the same names", &["--shards", "4"]) else { return };
    let dirs = pair.both("contended");
    done("mkdir", sys::mkdir(&dirs[0], 0o755));
    let tally = pair.site.root().join("tally");
    std::fs::create_dir(&tally).expect("mkdir");
    let contend = |owner: usize| {
        let dir = &dirs[owner % 2];
        let (mut made, mut removed) = (0_i64, 0_i64);
        for round in 0..600 {
            let path = dir.join(format!("name{}", round % 7));
            match sys::open(&path, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL, 0o644) {
                Ok(_) => made += 1,
                Err(errno) => assert_eq!(errno, libc::EEXIST, "create"),
            }
            match sys::unlink(&path) {
                Ok(()) => removed += 1,
                Err(errno) => assert_eq!(errno, libc::ENOENT, "unlink"),
            }
        }
        std::fs::write(tally.join(owner.to_string()), (made - removed).to_string()).expect("a file");
        0
    };
    finish((0..4).map(|owner| fork(|| contend(owner))).collect());
    let left: i64 = (0..4)
        .map(|owner| std::fs::read_to_string(tally.join(owner.to_string())).expect("a tally"))
        .map(|text| text.parse::<i64>().expect("a number"))
        .sum();
    for dir in &dirs {
        assert_eq!(done("readdir", sys::names(dir)).len() as i64, left, "made minus removed");
    }
    pair.stop("after both contended");
}

/// O_APPEND from both mounts: no record is lost or torn, each writer's order stays.
#[test]
fn appending() {
    const RECORDS: usize = 400;
    let Some(pair) = Pair::new("O_APPEND from both mounts", &[]) else { return };
    let files = pair.both("log");
    std::fs::write(&files[0], "").expect("a file");
    let record = |owner: usize, n: usize| format!("{owner}:{n}:{}\n", "=".repeat((n * 37 + owner * 11) % 900));
    let append = |owner: usize| {
        let fd = done("open", sys::open(&files[owner % 2], libc::O_WRONLY | libc::O_APPEND, 0));
        for n in 0..RECORDS {
            let line = record(owner, n);
            assert_eq!(done("append", sys::write(&fd, &line)), line.len());
        }
        0
    };
    finish((0..4).map(|owner| fork(|| append(owner))).collect());
    for file in &files {
        let text = String::from_utf8(content(file)).expect("text");
        let mut next = [0; 4];
        for line in text.split_inclusive('\n') {
            let owner: usize = line.split(':').next().and_then(|owner| owner.parse().ok()).expect("a whole record");
            assert_eq!(line, record(owner, next[owner]), "record {} of writer {owner}", next[owner]);
            next[owner] += 1;
        }
        assert_eq!(next, [RECORDS; 4], "records of each writer");
    }
    pair.stop("after appending");
}
