//! Power losses of single hosts under `commit = interval`. What was synced, or is older than the interval, is there; what is younger is
//! there or as it was before, and never anything between.

use crate::cluster::kept::{File, Names, sorted};
use crate::cluster::load::{Done, Progress, RECORD, Released, assert_sums, number, prepare, record, shared};
use crate::cluster::past::{KEPT, Losses};
use crate::common::chaos::{Chaos, SOURCE_BYTES};
use crate::common::check::done;
use crate::common::cluster::{Cluster, Shape};
use crate::common::random::Random;
use crate::common::server::{Mount, Site};
use crate::common::stall::Stalled;
use crate::common::sys;
use crate::common::{number_from_env, report, seed, skipped, view};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, RwLock};
use std::time::{Duration, Instant};

/// A disk takes so long for a flush before it loses power: less than the interval.
const SLOW: Duration = Duration::from_millis(80);
/// Service goes on so soon after a host is started again.
const LIMIT: Duration = Duration::from_secs(5);
/// Data nodes have told homes again by then what these have forgotten.
const TOLD: Duration = Duration::from_secs(2);
/// Keepers on each mount.
const KEEPERS: usize = 3;
/// Files that a keeper changes at a time; it leaves each alone after some changes, in whatever state it is.
const ACTIVE: usize = 10;
/// Files of a keeper; beyond these the oldest is taken up again.
const FILES_MAX: usize = 250;

/// One who changes files, and knows what each may be like.
struct Keeper {
    number: usize,
    made: usize,
    random: Random,
    /// Those that are changed come last.
    files: Vec<File>,
    lost: usize,
}

impl Keeper {
    fn key(&self, n: usize) -> String {
        format!("k{}-{n}", self.number)
    }

    /// Lets files go that have been left alone long enough, and takes up others.
    fn tend(&mut self, losses: &Losses) {
        let from = self.files.len().saturating_sub(ACTIVE);
        if let Some(at) = (from..self.files.len()).find(|&n| self.files[n].changes_left == 0) {
            let file = self.files.remove(at);
            self.files.insert(from, file);
        } else if self.files.len() >= ACTIVE {
            return;
        }
        let changes = 5 + self.random.below(60);
        let old =
            if self.files.len() < FILES_MAX { None } else { self.files.iter().position(|f| !f.names.now().is_empty()) };
        let file = match old {
            Some(at) => self.files.remove(at).taken_up(changes),
            None => {
                self.made += 1;
                File::new(self.key(self.made), losses.count(), changes)
            }
        };
        self.files.push(file);
    }

    fn step(&mut self, tops: &[PathBuf], losses: &Losses) {
        self.tend(losses);
        let from = self.files.len().saturating_sub(ACTIVE);
        let at = from + self.random.below(self.files.len() - from);
        let top = self.random.of(tops);
        let file = &mut self.files[at];
        if file.seen < losses.count() {
            file.saw(losses.count());
            let looked = file.look(top, losses.last());
            self.lost += looked.unwrap_or_else(|why| panic!("{} on {}: {why}", file.key, top.display()));
        } else {
            file.change(top, losses, &mut self.random);
        }
        // What is gone stays gone: another file of its names would hide whether the loss of power brings it back.
        let gone = file.names.now().is_empty();
        file.changes_left = if gone { 0 } else { file.changes_left.saturating_sub(1) };
    }

    /// All files are as they may be, and there are no others.
    fn assert_there(&mut self, top: &Path, losses: &Losses, when: &str) {
        let mut strays = sorted(listed(top, &format!("k{}-", self.number)).iter());
        for file in &mut self.files {
            if file.seen < losses.count() {
                file.saw(losses.count());
                let lost = file.look(top, losses.last());
                self.lost += lost.unwrap_or_else(|why| panic!("{when}: {} on {}: {why}", file.key, top.display()));
            } else {
                // Nothing more has gone since.
                let now = Instant::now() + KEPT;
                let lost = file.look(top, now);
                lost.unwrap_or_else(|why| panic!("{when}: {} on {}, seen before: {why}", file.key, top.display()));
            }
            strays.retain(|path| !file.names.now().contains(path));
        }
        assert!(strays.is_empty(), "{when}: {strays:?} on {} are nobody's", top.display());
        self.files.retain(|file| !file.names.now().is_empty());
    }
}

/// Names that begin so, in all directories that are shared.
fn listed(top: &Path, begin: &str) -> Names {
    let names = shared().into_iter().flat_map(|dir| {
        let names = done("readdir", sys::names(top.join(&dir)));
        names.into_iter().map(move |name| Path::new(&dir).join(name))
    });
    names.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(begin))).collect()
}

/// Whether a record was appended before a power loss, when one came, or after it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    Before,
    Under,
    After,
}

/// One who appends records to a file of all.
#[derive(Default)]
struct Appender {
    writer: u64,
    appended: u64,
    records: Vec<(u64, Moment, Instant)>,
    /// So many of the records are synced.
    synced: usize,
    /// Losses when the last fsync began; some records are lost, as it said.
    begun: usize,
    is_short: bool,
    seen: usize,
    lost: usize,
}

impl Appender {
    fn step(&mut self, fd: &impl std::os::fd::AsFd, losses: &Losses) {
        let before = losses.count();
        if self.appended % 16 == 15 {
            self.is_short |= !losses.fsync(fd, &mut self.begun);
            if !self.is_short {
                self.synced = self.records.len();
            }
        }
        let written = done("append", sys::write(fd, record(self.writer, self.appended)));
        assert_eq!(written, RECORD, "an append is whole");
        let moment = match losses.count() {
            now if now == self.seen => Moment::Before,
            now if now > before => Moment::Under,
            _ => Moment::After,
        };
        self.records.push((self.appended, moment, Instant::now()));
        self.appended += 1;
    }

    /// What is there are records of this writer in their order; those that are not are the last before the loss, and young.
    fn assert_there(&mut self, found: &[u64], losses: &Losses, when: &str) {
        let begin = losses.last();
        let mut found = found.iter().peekable();
        let (mut left, mut gap) = (vec![], None);
        for (n, &(number, moment, answered)) in self.records.iter().enumerate() {
            if found.next_if_eq(&&number).is_some() {
                let after = if moment == Moment::Before { gap } else { None };
                assert!(after.is_none(), "{when}: record {number} of {} is there, {after:?} is not", self.writer);
                left.push((number, Moment::Before, answered));
            } else {
                let may = self.seen < losses.count() && n >= self.synced && answered + KEPT > begin;
                let may = may && moment != Moment::After;
                assert!(may, "{when}: record {number} of {} is gone ({moment:?})", self.writer);
                gap = gap.or(Some(number));
                self.lost += 1;
            }
        }
        assert_eq!(found.next(), None, "{when}: a record of {} that is too much", self.writer);
        (self.records, self.seen, self.is_short) = (left, losses.count(), false);
        self.synced = self.synced.min(self.records.len());
    }
}

/// The numbers of the records of each writer.
fn appended(top: &Path, writers: usize, when: &str) -> Vec<Vec<u64>> {
    let bytes = std::fs::read(top.join("appended")).expect("read");
    let mut all = vec![vec![]; writers];
    for (at, piece) in bytes.chunks(RECORD).enumerate() {
        let text = String::from_utf8_lossy(piece);
        let mut words = text.split_whitespace().map(|word| word.parse::<u64>());
        let (Some(Ok(writer)), Some(Ok(n))) = (words.next(), words.next()) else {
            panic!("{when}: record {at} of {} is {text:?}", top.display());
        };
        assert_eq!(piece, record(writer, n), "{when}: record {at}");
        all[writer as usize].push(n);
    }
    all
}

/// Adds one to a synced number under a lock: no power loss takes that, nor lets two have the lock. `begun`: see [`Losses::fsync`].
fn add(fd: &impl std::os::fd::AsFd, counted: &AtomicU64, losses: &Losses, begun: &mut usize) {
    done("a lock", sys::lock(fd, libc::F_OFD_SETLKW, libc::F_WRLCK, 0, 0));
    let old = counted.load(Relaxed);
    assert_eq!(number(fd), old, "additions under a lock");
    loop {
        done("pwrite", sys::pwrite(fd, (old + 1).to_le_bytes(), 0));
        let synced = losses.fsync(fd, begun);
        let now = number(fd);
        if synced {
            assert_eq!(now, old + 1, "what was written and synced");
            break;
        }
        assert!([old, old + 1].contains(&now), "{now} after {old} and one more");
    }
    counted.store(old + 1, Relaxed);
    done("unlock", sys::lock(fd, libc::F_OFD_SETLKW, libc::F_UNLCK, 0, 0));
}

/// Works until it is over, and stands still where everything is looked at.
fn work(progress: &Progress, gate: &RwLock<()>, count: &Done, mut step: impl FnMut()) {
    while !progress.is_over() {
        let _open = gate.read().expect("nobody has failed");
        count.count(&mut step);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody has failed")
}

/// All that works, and what it knows.
struct Workers {
    keepers: Vec<Mutex<Keeper>>,
    appenders: Vec<Mutex<Appender>>,
    counted: AtomicU64,
}

impl Workers {
    fn new(count: usize, random: &mut Random) -> Workers {
        let keeper =
            |number| Mutex::new(Keeper { number, made: 0, random: Random::new(random.next()), files: vec![], lost: 0 });
        let appender = |writer| Mutex::new(Appender { writer, ..Appender::default() });
        Workers {
            keepers: (0..count * KEEPERS).map(keeper).collect(),
            appenders: (0..count as u64).map(appender).collect(),
            counted: AtomicU64::new(0),
        }
    }

    /// What each may expect is there, on all mounts alike.
    fn assert_there(&self, tops: &[PathBuf], losses: &Losses, when: &str) -> view::View {
        let views: Vec<view::View> = tops
            .iter()
            .map(|top| {
                self.keepers.iter().for_each(|keeper| locked(keeper).assert_there(top, losses, when));
                let appended = appended(top, self.appenders.len(), when);
                for (appender, found) in self.appenders.iter().zip(appended) {
                    locked(appender).assert_there(&found, losses, when);
                }
                let fd = done("open", sys::open(top.join("counter"), libc::O_RDONLY, 0));
                assert_eq!(number(fd), self.counted.load(Relaxed), "{when}: additions under a lock");
                assert_sums(top);
                view::look(top)
            })
            .collect();
        for (top, view) in tops.iter().zip(&views) {
            view::assert_same(&format!("{when}, {}", top.display()), &views[0], view);
        }
        views.into_iter().next().expect("a mount")
    }

    /// Changes of files, and records, that power losses have taken.
    fn lost(&self) -> [usize; 2] {
        [
            self.keepers.iter().map(|keeper| locked(keeper).lost).sum(),
            self.appenders.iter().map(|appender| locked(appender).lost).sum(),
        ]
    }
}

/// kill -9 of a host whose disk has taken its time for a moment; a time up to which the disk has everything. A disk that is fast takes up
/// what is told within a millisecond, and there would be little to lose.
fn kill_while_the_disk_is_slow(cluster: &mut Cluster, host: usize) -> Option<Instant> {
    let begin = Instant::now();
    // What a data node tells the home of a file leaves when it is flushed there, and is then to be flushed at the home.
    (0..cluster.servers()).for_each(|any| cluster.wait_until_flushed(any));
    cluster.wait_until_flushed(host);
    let stalled = Stalled::new(cluster.process(host).pid(), "flush").ok()?;
    std::thread::sleep(SLOW);
    stalled.kill();
    cluster.kill(host);
    Some(begin)
}

/// Each host in turn loses what its disk had not yet got, while clients work; `ONPATH_POWER_LOSSES` says how often, if it is not twice.
#[test]
fn under_interval_what_was_synced_or_is_old_is_there() {
    const TEST: &str = "powers::under_interval_what_was_synced_or_is_old_is_there";
    let rounds = number_from_env("ONPATH_POWER_LOSSES", 2);
    let Some(site) = Site::new(TEST) else { return };
    let shape = Shape { init: &["--commit", "interval"], disks: 300 << 20, ..Shape::default() };
    let Some(mut cluster) = Cluster::start(TEST, &site, shape) else { return };
    let mounts: Vec<Mount> = (0..shape.clients).map(|client| cluster.mount(&site, client, &[])).collect();
    let tops: Vec<PathBuf> = mounts.iter().map(|mount| mount.path().to_owned()).collect();
    prepare(&tops[0]);
    std::thread::sleep(KEPT);
    let mut random = Random::new(seed(TEST));
    let (progress, losses, gate) = (Progress::default(), Losses::default(), RwLock::new(()));
    let workers = Workers::new(tops.len(), &mut random);
    let mut slowest = Duration::ZERO;
    std::thread::scope(|scope| {
        let _released = Released(&tops);
        let _end = progress.at_end();
        let (progress, losses, gate, workers, tops) = (&progress, &losses, &gate, &workers, &tops);
        for (n, top) in tops.iter().enumerate() {
            let count = |kind: &str| progress.worker(format!("the {kind} {n}"));
            let (appends, adds, any) = (count("appender"), count("counter"), count("user of everybody's names"));
            let random = Random::new(random.next());
            scope.spawn(move || {
                let fd = done("open", sys::open(top.join("appended"), libc::O_WRONLY | libc::O_APPEND, 0));
                work(progress, gate, &appends, || locked(&workers.appenders[n]).step(&fd, losses));
            });
            scope.spawn(move || {
                let fd = done("open", sys::open(top.join("counter"), libc::O_RDWR, 0));
                let mut begun = 0;
                work(progress, gate, &adds, || add(&fd, &workers.counted, losses, &mut begun));
            });
            scope.spawn(move || {
                let source = tempfile::tempfile().expect("a file on the local disk");
                let mut random = random;
                sys::pwrite(&source, random.bytes(SOURCE_BYTES), 0).expect("pwrite on the local disk");
                let mut chaos = Chaos::new(top, random, &source, false).that_may_be_forgotten();
                work(progress, gate, &any, || chaos.step());
            });
        }
        for keeper in &workers.keepers {
            let count = progress.worker(format!("keeper {}", locked(keeper).number));
            scope.spawn(move || work(progress, gate, &count, || locked(keeper).step(tops, losses)));
        }
        for round in 0..rounds {
            progress.resumed(Instant::now(), LIMIT, "before a loss");
            std::thread::sleep(Duration::from_millis(3_000 + random.below(1_000) as u64));
            progress.longest();
            let host = (round + 1) % cluster.servers();
            let pause = Duration::from_millis(300 + random.below(1_700) as u64);
            let what = format!("{TEST}: loss {round}, of host {host}");
            let Some(begin) = kill_while_the_disk_is_slow(&mut cluster, host) else {
                return skipped(TEST, "threads cannot be traced here");
            };
            losses.tell(begin);
            cluster.forget(host);
            std::thread::sleep(pause);
            let end = Instant::now();
            cluster.serve(host);
            let resumed = progress.resumed(end, LIMIT, &what);
            slowest = slowest.max(resumed);
            std::thread::sleep(TOLD);
            let longest = progress.longest();
            let _shut = gate.write().expect("nobody has failed");
            workers.assert_there(tops, losses, &what);
            let [changes, records] = workers.lost();
            report(&format!(
                "{what} for {pause:.2?}: resumed after {resumed:.2?}, longest call {longest}, so far \
                 {changes} changes and {records} appends are lost, as {} syncs of one who appends or adds have said",
                losses.said.load(Relaxed)
            ));
        }
    });
    let [changes, records] = workers.lost();
    assert!(changes > 0 || records > 0, "disks that lose nothing test nothing");
    report(&format!(
        "{TEST}: {rounds} losses, {} calls, slowest resumption {slowest:.2?}, {changes} changes and {records} appends lost, \
         {} additions kept",
        progress.calls(),
        workers.counted.load(Relaxed)
    ));
    let before = workers.assert_there(&tops, &losses, TEST);
    (0..cluster.hosts()).for_each(|host| cluster.stop_host(host));
    (0..cluster.hosts()).for_each(|host| cluster.serve(host));
    let after = workers.assert_there(&tops, &losses, "after a restart of all");
    view::assert_same("after a restart of all", &before, &after);
    mounts.into_iter().for_each(Mount::stop);
    cluster.stop();
}
