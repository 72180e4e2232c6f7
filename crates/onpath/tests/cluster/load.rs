//! Clients that work all the time, each call of which must succeed, however long it waits; and what they may expect in the end.

use crate::cluster::names::Names;
use crate::cluster::registers::Registers;
use crate::common::chaos::{Chaos, SHARED, SOURCE_BYTES};
use crate::common::check::{done, errno_name};
use crate::common::model::{Model, Op, View, differences, observe};
use crate::common::random::Random;
use crate::common::xattr::getxattr;
use crate::common::{Over, sys, view};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Bytes of a record that is appended.
pub(crate) const RECORD: usize = 32;
/// Calls that every worker must have done before service counts as resumed: so many that all hosts were asked.
const RESUMED: u64 = 25;
/// Users of shared names on each client: two of one client meet in its kernel, those of several at the hosts.
const NAME_USERS: usize = 2;

/// What the workers have done so far.
#[derive(Default)]
pub(crate) struct Progress {
    over: Over,
    workers: std::sync::Mutex<Vec<(String, std::sync::Arc<Done>)>>,
}

/// What one worker has done.
#[derive(Default)]
pub(crate) struct Done {
    calls: AtomicU64,
    longest_us: AtomicU64,
}

impl Done {
    /// Does one thing, and counts it.
    pub(crate) fn count<T>(&self, job: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let value = job();
        self.longest_us.fetch_max(begin.elapsed().as_micros() as u64, Relaxed);
        self.calls.fetch_add(1, Relaxed);
        value
    }
}

impl Progress {
    /// One more worker.
    pub(crate) fn worker(&self, name: String) -> std::sync::Arc<Done> {
        let done = std::sync::Arc::<Done>::default();
        self.workers.lock().expect("the workers").push((name, done.clone()));
        done
    }

    fn now(&self) -> Vec<(String, u64)> {
        let workers = self.workers.lock().expect("the workers");
        workers.iter().map(|(name, done)| (name.clone(), done.calls.load(Relaxed))).collect()
    }

    /// Calls of all.
    pub(crate) fn calls(&self) -> u64 {
        self.now().iter().map(|(_, calls)| calls).sum()
    }

    /// The longest call of all workers since this was asked before, and whose it was.
    pub(crate) fn longest(&self) -> String {
        let workers = self.workers.lock().expect("the workers");
        let longest = workers.iter().map(|(name, done)| (done.longest_us.swap(0, Relaxed), name)).max();
        longest.map_or_else(String::new, |(us, name)| format!("{:.2?} of {name}", Duration::from_micros(us)))
    }

    /// Waits until every worker has gone on from where it is now; how long that took since `begin`. Fails the test if that is longer
    /// than `limit`.
    pub(crate) fn resumed(&self, begin: Instant, limit: Duration, what: &str) -> Duration {
        let before = self.now();
        loop {
            let now = self.now();
            let behind = before.iter().zip(&now).find(|((_, before), (_, now))| *now < before + RESUMED);
            let Some(((name, before), (_, now))) = behind else { return begin.elapsed() };
            assert!(begin.elapsed() < limit, "{what}: {name} has done {} calls in {limit:?}", now - before);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.is()
    }

    /// It is over for all workers when what this gives is dropped.
    pub(crate) fn at_end(&self) -> impl Drop + '_ {
        self.over.at_end()
    }
}

/// Lets nobody wait for ever on mounts whose test has failed.
pub(crate) struct Released<'a>(pub(crate) &'a [PathBuf]);

impl Drop for Released<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.iter().for_each(|top| _ = sys::abort(top));
        }
    }
}

/// All that works on a cluster.
pub(crate) struct Load<'scope> {
    owners: Vec<ScopedJoinHandle<'scope, Model>>,
    others: Vec<ScopedJoinHandle<'scope, ()>>,
    appenders: Vec<ScopedJoinHandle<'scope, u64>>,
    counters: Vec<ScopedJoinHandle<'scope, u64>>,
}

/// What must be there in the end.
pub(crate) struct Expected {
    models: Vec<Model>,
    appended: Vec<u64>,
    counted: u64,
}

/// Directories that everybody uses.
pub(crate) fn shared() -> Vec<String> {
    (0..SHARED).map(|n| format!("d{n}")).collect()
}

/// Makes what all workers use.
pub(crate) fn prepare(top: &Path) {
    sys::umask(0);
    for dir in shared() {
        done("mkdir of a shared directory", sys::mkdir(top.join(dir), 0o755));
    }
    for file in ["appended", "counter"] {
        std::fs::write(top.join(file), "").expect("a file");
    }
    let counter = done("open", sys::open(top.join("counter"), libc::O_WRONLY, 0));
    done("pwrite", sys::pwrite(&counter, 0_u64.to_le_bytes(), 0));
}

impl<'scope> Load<'scope> {
    /// For each top a writer of names of its own, a user of everybody's, users of registers and of shared names, an appender and one that
    /// counts under a lock.
    pub(crate) fn start<'a: 'scope>(
        scope: &'scope Scope<'scope, '_>,
        tops: &'a [PathBuf],
        (progress, registers, names): (&'a Progress, &'a Registers, &'a Names),
        mut random: Random,
    ) -> Load<'scope> {
        let mut load = Load { owners: vec![], others: vec![], appenders: vec![], counters: vec![] };
        for (n, top) in tops.iter().enumerate() {
            let worker = |kind: &str| progress.worker(format!("{kind} {n}"));
            let over = &progress.over;
            let (count, own) = (worker("the owner of names"), Random::new(random.next()));
            load.owners.push(scope.spawn(move || own_names(tops, n, own, &count, over)));
            let (count, any) = (worker("the user of everybody's names"), Random::new(random.next()));
            load.others.push(scope.spawn(move || everybodys_names(top, any, &count, over)));
            for _ in 0..NAME_USERS {
                let (count, mut random) = (worker("the user of shared names"), Random::new(random.next()));
                load.others.push(scope.spawn(move || {
                    while !over.is() {
                        count.count(|| names.step(top, &mut random));
                    }
                }));
            }
            let (count, mut random) = (worker("the user of registers"), Random::new(random.next()));
            load.others.push(scope.spawn(move || {
                while !over.is() {
                    count.count(|| registers.step(top, &mut random));
                }
            }));
            let count = worker("the appender");
            load.appenders.push(scope.spawn(move || append(top, n as u64, &count, over)));
            let count = worker("the counter under a lock");
            load.counters.push(scope.spawn(move || count_locked(top, &count, over)));
        }
        load
    }

    /// Waits for all, who have been told that it is over.
    pub(crate) fn join(self) -> Expected {
        joined(self.others);
        let counted = joined(self.counters).iter().sum();
        Expected { models: joined(self.owners), appended: joined(self.appenders), counted }
    }
}

/// An operation, without all its bytes.
fn brief(op: &Op) -> String {
    format!("{op:?}").chars().take(150).collect()
}

fn joined<T>(threads: Vec<ScopedJoinHandle<'_, T>>) -> Vec<T> {
    threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
}

/// Operations on names of its own in everybody's directories, each on another mount than the one before. They must succeed.
fn own_names(tops: &[PathBuf], owner: usize, mut random: Random, done: &Done, over: &Over) -> Model {
    let mut model = Model::new(owner);
    for n in 0.. {
        if over.is() {
            break;
        }
        let op = model.choose(&shared(), &mut random);
        let top = &tops[(owner + n) % tops.len()];
        let outcome = done.count(|| op.perform_from_any(top));
        outcome.unwrap_or_else(|errno| panic!("{} on {}: {}", brief(&op), top.display(), errno_name(errno)));
        model.apply(&op);
    }
    model
}

fn everybodys_names(top: &Path, mut random: Random, done: &Done, over: &Over) {
    let source = tempfile::tempfile().expect("a file on the local disk");
    sys::pwrite(&source, random.bytes(SOURCE_BYTES), 0).expect("pwrite on the local disk");
    let mut chaos = Chaos::new(top, random, &source, false);
    while !over.is() {
        done.count(|| chaos.step());
    }
}

/// A record that is appended.
pub(crate) fn record(writer: u64, n: u64) -> Vec<u8> {
    format!("{:>width$}\n", format!("{writer} {n}"), width = RECORD - 1).into_bytes()
}

/// Appends records, of which others append theirs meanwhile, and syncs some.
fn append(top: &Path, writer: u64, count: &Done, over: &Over) -> u64 {
    let fd = done("open", sys::open(top.join("appended"), libc::O_WRONLY | libc::O_APPEND, 0));
    let mut appended = 0;
    while !over.is() {
        let written = count.count(|| sys::write(&fd, record(writer, appended)));
        assert_eq!(done("append", written), RECORD, "an append is whole");
        appended += 1;
        if appended % 16 == 0 {
            done("fsync", count.count(|| sys::fsync(&fd)));
        }
    }
    appended
}

/// Adds one to a number in a file that others add to, under a lock.
fn count_locked(top: &Path, count: &Done, over: &Over) -> u64 {
    let fd = done("open", sys::open(top.join("counter"), libc::O_RDWR, 0));
    let mut added = 0;
    while !over.is() {
        count.count(|| {
            done("a lock", sys::lock(&fd, libc::F_OFD_SETLKW, libc::F_WRLCK, 0, 0));
            done("pwrite", sys::pwrite(&fd, (number(&fd) + 1).to_le_bytes(), 0));
            done("unlock", sys::lock(&fd, libc::F_OFD_SETLKW, libc::F_UNLCK, 0, 0));
        });
        added += 1;
    }
    added
}

/// The number in a file.
pub(crate) fn number(fd: impl std::os::fd::AsFd) -> u64 {
    let bytes = done("pread", sys::pread(fd, 8, 0));
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

impl Expected {
    /// All clients show the same: what the workers have left, whole and without anything that nobody left.
    pub(crate) fn assert_there(&self, tops: &[PathBuf], when: &str) -> view::View {
        for model in &self.models {
            assert_own(&tops[0], model, when);
        }
        for top in tops {
            let fd = done("open", sys::open(top.join("counter"), libc::O_RDONLY, 0));
            assert_eq!(number(fd), self.counted, "{when}: additions under a lock, on {}", top.display());
            self.assert_appended(top, when);
            assert_sums(top);
        }
        let first = view::look(&tops[0]);
        for top in &tops[1..] {
            view::assert_same(&format!("{when}, {}", top.display()), &first, &view::look(top));
        }
        first
    }

    /// Each record is there once, those of one writer in their order, and nothing else.
    fn assert_appended(&self, top: &Path, when: &str) {
        let bytes = std::fs::read(top.join("appended")).expect("read");
        let mut next = vec![0; self.appended.len()];
        for (at, piece) in bytes.chunks(RECORD).enumerate() {
            let text = String::from_utf8_lossy(piece);
            let writer = text.split_whitespace().next().and_then(|word| word.parse::<usize>().ok());
            let writer = writer.filter(|writer| *writer < next.len());
            let writer = writer.unwrap_or_else(|| panic!("{when}: record {at} is {text:?}"));
            let expected = record(writer as u64, next[writer]);
            assert_eq!(text, String::from_utf8_lossy(&expected), "{when}: record {at}");
            next[writer] += 1;
        }
        assert_eq!(next, self.appended, "{when}: records that are there, and that were appended");
    }
}

/// What a writer left is there exactly.
fn assert_own(top: &Path, model: &Model, when: &str) {
    let mine = format!("/w{}-", model.owner());
    let seen: View = observe(top).into_iter().filter(|(path, _)| path.contains(&mine)).collect();
    let wrong = differences(&model.view(), &seen);
    assert!(wrong.is_empty(), "{when}: writer {}:\n  {}", model.owner(), wrong.join("\n  "));
}

/// What every directory says of its entries is what a listing and a stat of each tell.
pub(crate) fn assert_sums(top: &Path) {
    let mut todo = vec![top.to_owned()];
    while let Some(dir) = todo.pop() {
        let [mut files, mut directories, mut others, mut bytes] = [0_u64; 4];
        let names = done("readdir", sys::names(&dir));
        for name in &names {
            let path = dir.join(name);
            let stat = done(path.display(), sys::lstat(&path));
            match stat.kind() {
                libc::S_IFREG => (files, bytes) = (files + 1, bytes + stat.size as u64),
                libc::S_IFDIR => {
                    directories += 1;
                    todo.push(path);
                }
                _ => others += 1,
            }
        }
        let sum = String::from_utf8(done("onpath.dir", getxattr(&dir, "onpath.dir"))).expect("text");
        let told = |word: &str| {
            let line = sum.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
            line.and_then(|number| number.parse::<u64>().ok()).unwrap_or_else(|| panic!("{word} in {sum:?}"))
        };
        let found = [names.len() as u64, files, directories, others, bytes];
        let words = ["entries", "files", "directories", "others", "bytes"];
        assert_eq!(words.map(told), found, "{words:?} of {}", dir.display());
    }
}

/// The operation that a client was killed in, and what it left: with it or without.
pub(crate) fn assert_with_or_without(top: &Path, model: &Model, op: &Op) {
    let mine = format!("/w{}-", model.owner());
    let seen: View = observe(top).into_iter().filter(|(path, _)| path.contains(&mine)).collect();
    let possible = op.possible().into_iter().map(|done| {
        let mut model = model.clone();
        done.iter().for_each(|op| model.apply(op));
        model
    });
    let possible: Vec<Model> = possible.collect();
    let found = possible.iter().any(|model| model.view() == seen);
    let wrong = |n: usize| differences(&possible[n].view(), &seen).join("\n  ");
    assert!(found, "killed in {}:\nwithout it:\n  {}\nwith it:\n  {}", brief(op), wrong(0), wrong(1));
}

/// Works on names of its own until its mount is gone; what it had then, and what was under way.
pub(crate) fn until_gone(top: &Path, owner: usize, mut random: Random) -> (Model, Op) {
    let mut model = Model::new(owner);
    loop {
        let op = model.choose(&shared(), &mut random);
        match op.perform_from_any(top) {
            Ok(()) => model.apply(&op),
            Err(libc::ENOTCONN | libc::ECONNABORTED) => return (model, op),
            // A write to a part of a page that the kernel could not read any more.
            Err(libc::EIO) if is_gone(top) => return (model, op),
            Err(errno) => panic!("{} on a mount that is killed: {}", brief(&op), errno_name(errno)),
        }
    }
}

fn is_gone(top: &Path) -> bool {
    top.metadata().is_err_and(|error| error.raw_os_error() == Some(libc::ENOTCONN))
}
