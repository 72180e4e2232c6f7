//! Taking checkpoints: when the journal has grown by so many bytes, when the disk is full, and on request.

use super::compact::{self, Compaction};
use super::frozen::Examined;
use super::store::{OnDamage, Store};
use super::{CheckpointError, at};
use crate::held;
use crate::journal::Journal;
use crate::node::{Counters, FlushWatch, Node};
use crate::sys;
use onpath_store::{FORGET_PARTS, Image};
use onpath_wire::ids::{Lsn, NodeId};
use onpath_wire::shown::Shown;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Name of the file that keeps room for the next checkpoint on a full disk.
pub(super) const RESERVE: &str = "reserve";
/// Name of the file that is there while a checkpoint is taken.
const MARKER: &str = "writing";
/// Least room kept for the next checkpoint, bytes.
const RESERVE_BYTES_MIN: u64 = 1 << 20;
/// Most room kept for the next checkpoint, bytes.
const RESERVE_BYTES_MAX: u64 = 64 << 20;
/// How often roles are looked at whether they should forget.
const FORGET_EVERY: Duration = Duration::from_millis(100);
/// Parts that are forgotten between two looks at the memory in use.
const FORGET_LOOK: u32 = 512;
/// Images that are taken before the one is written that was taken first.
const IMAGES_AHEAD: usize = 2;
/// How much the thread that writes gives way to those that serve, as nice(1) has it.
const WRITER_NICE: i32 = 10;
/// A checkpoint that begins when the journal has grown by so many times what was due does not give way.
const LATE: u64 = 2;

/// For how long the store is copied between two looks at what else is due.
const COPY_FOR: Duration = Duration::from_millis(100);
/// After how long a copy that could not be finished is tried again.
const COPY_AGAIN: Duration = Duration::from_secs(5);

/// When a checkpoint is due, and when roles forget.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Journal bytes after which a checkpoint is due.
    pub journal_bytes: u64,
    /// Bytes of memory that the objects of all roles may take; `u64::MAX` is no limit.
    pub memory_bytes: u64,
    /// Bytes that may be free in the file of any store.
    pub waste_bytes: u64,
}

/// What a checkpoint did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CheckpointReport {
    /// The journal is replayed from here.
    pub from: Lsn,
    /// Ranges in it.
    pub images: u64,
    /// Ranges that had to be written (the others had not changed).
    pub written: u64,
    /// Objects written and removed.
    pub objects: u64,
    /// How long it took, milliseconds.
    pub took_ms: u64,
}

#[derive(Debug, Default)]
struct State {
    due: bool,
    stop: bool,
    /// Bytes that the journal had when the last checkpoint began.
    journal_bytes: u64,
    /// Bytes that the start replayed, of which there is no checkpoint yet.
    replayed_bytes: u64,
}

/// An image of a range of a role, and the last batch that it can reflect.
struct Taken {
    role: NodeId,
    range: u32,
    image: Image,
    lsn: Lsn,
}

struct Inner {
    node: Weak<Node>,
    dir: PathBuf,
    /// The one that counts.
    store: Mutex<Arc<Store>>,
    damage: OnDamage,
    pace: Pace,
    state: Mutex<State>,
    work: Condvar,
    /// Held while a checkpoint is taken, or a piece of the store is copied: one at a time.
    running: Mutex<Copying>,
    /// Copies that have taken the place of the store, and such that could not be finished.
    compactions: AtomicU64,
    compactions_left_out: AtomicU64,
    written: AtomicU64,
    failed: AtomicU64,
    /// When the last one was written, or this began.
    written_at: Mutex<Instant>,
}

/// The copy of the store, if one is made.
#[derive(Default)]
struct Copying {
    copy: Option<Compaction>,
    not_before: Option<Instant>,
}

/// Takes checkpoints of a node on a thread of its own.
pub struct Checkpointer {
    inner: Arc<Inner>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Checkpointer {
    /// Starts, for the store in `dir`; the journal had `replayed_bytes` behind it, which count towards the next checkpoint, so that
    /// starts that follow each other do not replay ever more.
    pub fn start(
        node: &Arc<Node>,
        dir: &Path,
        store: Arc<Store>,
        damage: OnDamage,
        pace: Pace,
        replayed_bytes: u64,
    ) -> Checkpointer {
        let inner = Arc::new(Inner {
            node: Arc::downgrade(node),
            dir: dir.to_owned(),
            store: Mutex::new(store),
            damage,
            pace,
            state: Mutex::new(State { replayed_bytes, ..State::default() }),
            work: Condvar::new(),
            running: Mutex::default(),
            compactions: AtomicU64::new(0),
            compactions_left_out: AtomicU64::new(0),
            written: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            written_at: Mutex::new(Instant::now()),
        });
        let told = Arc::downgrade(&inner);
        let counters = move || told.upgrade().map_or_else(Vec::new, |inner| inner.status());
        node.add_status("checkpoint".into(), Box::new(counters));
        node.watch_flushes(inner.clone());
        let run = {
            let inner = inner.clone();
            move || inner.run()
        };
        let thread = Builder::new().name("checkpoint".into()).spawn(run);
        let thread = Mutex::new(Some(thread.expect("a process can have a few threads")));
        Checkpointer { inner, thread }
    }

    /// Takes a checkpoint now and waits for it.
    pub fn checkpoint(&self) -> Result<CheckpointReport, CheckpointError> {
        self.inner.checkpoint(true)
    }

    /// Lends the last checkpoint and the journal that follows it, all of it as of now; one more is taken first if there is none.
    pub(super) fn with_examined(
        &self,
        look: &mut dyn FnMut(Examined<'_>) -> Result<(), CheckpointError>,
    ) -> Result<(), CheckpointError> {
        let inner = &self.inner;
        if inner.store().head()?.is_none() {
            inner.checkpoint(true)?;
        }
        let Some(node) = inner.node.upgrade() else { return Ok(()) };
        let Some(journal) = node.journal() else { return Ok(()) };
        let store;
        let examined = {
            // Between two checkpoints nothing is released that the store needs.
            let _none = inner.running.lock().expect("a checkpoint does not panic");
            store = inner.store();
            let store = store.frozen()?;
            let from = store.head()?.map_or(Lsn(1), |head| head.from);
            Examined { store, from, journal: journal.hold(from) }
        };
        look(examined)
    }

    #[cfg(test)]
    pub(super) fn view(&self, role: NodeId, damage: OnDamage) -> Arc<dyn onpath_store::Cold> {
        self.inner.store().view(role, damage).expect("a store that can be read")
    }

    #[cfg(test)]
    pub(super) fn head(&self) -> Option<super::Head> {
        self.inner.store().head().expect("a store that can be read")
    }

    /// From now on no checkpoint waits for room on a full disk: what is not in the store is in the journal.
    pub fn give_up_waiting(&self) {
        // Under the lock: a copy that takes its place then gives up too.
        self.inner.store.lock().expect("nobody panics with it").room.give_up();
    }

    /// Asks for a checkpoint soon.
    pub fn request(&self) {
        self.inner.request();
    }

    /// Ends the thread; a checkpoint in progress is finished first.
    pub fn stop(&self) {
        self.inner.state.lock().expect("checkpoint control does not panic").stop = true;
        self.give_up_waiting();
        self.inner.work.notify_all();
        let thread = self.thread.lock().expect("checkpoint control does not panic").take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the checkpoint thread panicked");
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl FlushWatch for Inner {
    fn flushed(&self, journal_bytes: u64) {
        let mut state = self.state.lock().expect("checkpoint control does not panic");
        let since = journal_bytes.saturating_sub(state.journal_bytes) + state.replayed_bytes;
        if !state.due && since >= self.pace.journal_bytes {
            state.due = true;
            self.work.notify_all();
        }
    }

    fn space(&self, full: bool) {
        if full {
            self.request();
        }
    }
}

/// What objects may take of `limit`, bytes, that take `used` and have left `spare`. What they have left does not go back to the system, so
/// as far as both together exceed the limit it is taken from what they may use; half of the limit they may always use.
fn budget(limit: u64, used: u64, spare: u64) -> u64 {
    let over = used.saturating_add(spare).saturating_sub(limit);
    limit.saturating_sub(over).max(limit / 2)
}

impl Inner {
    fn request(&self) {
        self.state.lock().expect("checkpoint control does not panic").due = true;
        self.work.notify_all();
    }

    fn store(&self) -> Arc<Store> {
        self.store.lock().expect("nobody panics with it").clone()
    }

    fn status(&self) -> Counters {
        let store = self.store();
        let counters = [
            ("store_bytes", store.allocated()),
            ("live_bytes", store.live().ok().flatten().unwrap_or(0)),
            ("compactions", self.compactions.load(Ordering::Relaxed)),
            ("compactions_left_out", self.compactions_left_out.load(Ordering::Relaxed)),
            ("written", self.written.load(Ordering::Relaxed)),
            ("failed", self.failed.load(Ordering::Relaxed)),
            ("age_ms", self.written_at.lock().expect("a clock does not panic").elapsed().as_millis() as u64),
            ("journal_bytes", self.uncovered()),
            ("journal_bytes_due", self.pace.journal_bytes),
        ];
        counters.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// Bytes of the journal that no checkpoint has, nor one that is being written.
    fn uncovered(&self) -> u64 {
        let bytes = self.node.upgrade().and_then(|node| Some(node.journal()?.status().bytes)).unwrap_or_default();
        let state = self.state.lock().expect("checkpoint control does not panic");
        bytes.saturating_sub(state.journal_bytes) + state.replayed_bytes
    }

    fn run(&self) {
        while self.next() {
            match self.checkpoint(false) {
                Ok(report) => tracing::info!(?report, "checkpoint"),
                Err(error) => tracing::warn!(%error, "no checkpoint; the journal is kept"),
            }
            self.compact();
        }
        self.running.lock().expect("a checkpoint does not panic").copy = None;
    }

    /// Waits until a checkpoint is due, and sees to it in between that roles forget; false when it is to end.
    fn next(&self) -> bool {
        let mut state = self.state.lock().expect("checkpoint control does not panic");
        while !state.stop && !state.due {
            let waited = self.work.wait_timeout(state, FORGET_EVERY).expect("checkpoint control does not panic");
            state = waited.0;
            if waited.1.timed_out() {
                drop(state);
                let full = self.pace.memory_bytes < u64::MAX && self.forget();
                self.compact();
                state = self.state.lock().expect("checkpoint control does not panic");
                state.due |= full;
            }
        }
        state.due = false;
        !state.stop
    }

    /// Lets roles forget until they keep to the limit; true if that takes a checkpoint first.
    fn forget(&self) -> bool {
        let Some(node) = self.node.upgrade() else { return false };
        let roles = node.recoverable();
        let memory = || roles.iter().map(|(role, _)| node.memory(*role)).sum::<u64>();
        let before = memory();
        let budget = budget(self.pace.memory_bytes, before, roles.iter().map(|(role, _)| node.spare(*role)).sum());
        if before <= budget {
            return false;
        }
        // A second round forgets what the first one has found to be used.
        for part in (0..FORGET_PARTS).chain(0..FORGET_PARTS) {
            roles.iter().for_each(|(role, _)| node.forget(*role, part));
            if part % FORGET_LOOK == 0 && memory() <= budget / 8 * 7 {
                return false;
            }
        }
        memory() > budget
    }

    /// Copies some of the store if much of its file is free, and lets the copy take its place when it is whole. Gives way to whoever
    /// serves.
    fn compact(&self) {
        if !self.shall_compact() {
            return;
        }
        let act = || {
            sys::give_way(WRITER_NICE);
            let begin = Instant::now();
            while begin.elapsed() < COPY_FOR && self.compact_step() {}
        };
        std::thread::scope(|scope| match Builder::new().name("checkpoint-copy".into()).spawn_scoped(scope, act) {
            Ok(thread) => thread.join().expect("who copies the store does not panic"),
            Err(error) => tracing::warn!(%error, "the store is not copied"),
        });
    }

    fn shall_compact(&self) -> bool {
        let copying = self.running.lock().expect("a checkpoint does not panic");
        if copying.copy.is_some() {
            return true;
        }
        if copying.not_before.is_some_and(|moment| Instant::now() < moment) {
            return false;
        }
        let (store, least) = (self.store(), self.pace.waste_bytes);
        // One that cannot be read is told by whoever reads it for somebody.
        let Ok(Some(live)) = store.live() else { return false };
        compact::is_wasteful(store.allocated(), live, least)
            && sys::space(&self.dir).is_ok_and(|(_, free)| free >= compact::room_needed(live, least))
    }

    /// Copies a piece; false if that was the last one, or there will be none.
    fn compact_step(&self) -> bool {
        // Nobody else changes which one counts. If it is not the one any more it is closed when the lock is free again.
        let store = self.store();
        let mut copying = self.running.lock().expect("a checkpoint does not panic");
        self.copy_piece(&store, &mut copying).unwrap_or_else(|error| {
            tracing::warn!(%error, "the store of the checkpoint keeps its size for now");
            *copying = Copying { copy: None, not_before: Some(Instant::now() + COPY_AGAIN) };
            self.compactions_left_out.fetch_add(1, Ordering::Relaxed);
            false
        })
    }

    fn copy_piece(&self, store: &Store, copying: &mut Copying) -> Result<bool, CheckpointError> {
        let Some(node) = self.node.upgrade() else { return Ok(false) };
        if node.journal().is_some_and(Journal::is_full) {
            return Err(at(store.file())(io::Error::from_raw_os_error(libc::ENOSPC)));
        }
        let mut copy = match copying.copy.take() {
            Some(copy) => copy,
            None => Compaction::begin(&self.dir, store.journal())?,
        };
        if copy.step(store)? {
            copying.copy = Some(copy);
            return Ok(true);
        }
        let before = store.allocated();
        self.replace(&node, copy.finish(store)?);
        tracing::info!(before, now = self.store().allocated(), "space of the checkpoint's store is returned");
        Ok(false)
    }

    /// From now on `new`, which has the name of the one that counts and the same in it, is that.
    fn replace(&self, node: &Node, new: Store) {
        // Until its name is durable nothing may be in it that is not in the other one.
        if let Err(error) = sys::sync_dir(&self.dir) {
            (self.damage)(&format!("{}: {error}", self.dir.shown()));
        }
        {
            let mut store = self.store.lock().expect("nobody panics with it");
            new.room.succeed(&store.room);
            *store = Arc::new(new);
        }
        self.attach(node);
        self.compactions.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a checkpoint; `awaited`: somebody waits for it.
    fn checkpoint(&self, awaited: bool) -> Result<CheckpointReport, CheckpointError> {
        let mut copying = self.running.lock().expect("a checkpoint does not panic");
        let Some(node) = self.node.upgrade() else { return Ok(CheckpointReport::default()) };
        let Some(journal) = node.journal() else { return Ok(CheckpointReport::default()) };
        let (replayed, late) = {
            let mut state = self.state.lock().expect("checkpoint control does not panic");
            let bytes = journal.status().bytes;
            let since = bytes.saturating_sub(std::mem::replace(&mut state.journal_bytes, bytes));
            let replayed = std::mem::take(&mut state.replayed_bytes);
            (replayed, since + replayed >= self.pace.journal_bytes.saturating_mul(LATE))
        };
        let hurries = awaited || late || journal.is_full();
        let begin = Instant::now();
        let marker = self.dir.join(MARKER);
        held::create(&marker).map_err(at(&marker))?;
        let mut taken = Vec::new();
        let written = self.write(&node, journal, hurries, copying.copy.as_mut(), &mut taken);
        let _ = held::remove(&marker);
        if written.is_ok() {
            self.attach(&node);
        }
        for (role, range) in &taken {
            node.settle(*role, *range, written.is_ok());
        }
        let written = written.inspect_err(|_| {
            self.failed.fetch_add(1, Ordering::Relaxed);
            // It may have what the store has not.
            copying.copy = None;
            self.state.lock().expect("checkpoint control does not panic").replayed_bytes = replayed;
        })?;
        let report =
            CheckpointReport { images: taken.len() as u64, took_ms: begin.elapsed().as_millis() as u64, ..written };
        self.written.fetch_add(1, Ordering::Relaxed);
        *self.written_at.lock().expect("a clock does not panic") = Instant::now();
        self.keep_room();
        journal.release(report.from);
        Ok(report)
    }

    /// Takes the images of all ranges, while another thread writes those that have changed since the last checkpoint: that gives
    /// way to whoever serves, unless it `hurries`. Whoever takes images does not give way, because roles wait for it.
    fn write(
        &self,
        node: &Node,
        journal: &Journal,
        hurries: bool,
        copy: Option<&mut Compaction>,
        taken: &mut Vec<(NodeId, u32)>,
    ) -> Result<CheckpointReport, CheckpointError> {
        std::thread::scope(|scope| {
            let (sender, images) = sync_channel(IMAGES_AHEAD);
            let write = move || {
                if !hurries {
                    sys::give_way(WRITER_NICE);
                }
                self.write_images(journal, &images, copy)
            };
            let writer = Builder::new().name("checkpoint-write".into()).spawn_scoped(scope, write);
            let writer = writer.map_err(at(&self.dir))?;
            let ranges = node.recoverable().into_iter().flat_map(|(role, ranges)| (0..ranges).map(move |r| (role, r)));
            for (role, range) in ranges {
                let (image, lsn) = node.image(role, range).expect("a recoverable role stays where it is");
                taken.push((role, range));
                if sender.send(Some(Taken { role, range, image, lsn })).is_err() {
                    break;
                }
            }
            // Nobody listens if it has failed, which it says itself.
            let _ = sender.send(None);
            writer.join().expect("the writer of a checkpoint does not panic")
        })
    }

    /// Writes images until there are no more, and makes them the checkpoint.
    fn write_images(
        &self,
        journal: &Journal,
        images: &Receiver<Option<Taken>>,
        copy: Option<&mut Compaction>,
    ) -> Result<CheckpointReport, CheckpointError> {
        let store = self.store();
        let before = store.ranges()?;
        let mut report = CheckpointReport { from: Lsn(u64::MAX), ..CheckpointReport::default() };
        let mut last = Lsn(0);
        let mut draft = store.begin()?.with(copy);
        while let Some(Taken { role, range, image, lsn }) =
            images.recv().expect("whoever takes images says when it ends")
        {
            report.from = report.from.min(Lsn(lsn.0 + 1));
            last = last.max(lsn);
            // A range without new records may have changes all the same: those of an older form that is taken over.
            if before.get(&(role, range)) != Some(&image.upto) || !image.changes.is_empty() {
                draft.put(role, range, image)?;
                report.written += 1;
            }
        }
        // The journal is released up to where the store says, even if no range has changed. A range may also have changed after the
        // first one was taken, which nothing had reached since the last checkpoint: then only the ranges are new.
        if report.written > 0 || store.head()?.is_none_or(|head| head.from != report.from) {
            journal.wait_durable(last)?;
            report.objects = draft.commit(report.from)?;
        }
        Ok(report)
    }

    /// Gives each role what the store has now.
    fn attach(&self, node: &Node) {
        let store = self.store();
        for (role, _) in node.recoverable() {
            match store.view(role, self.damage.clone()) {
                Ok(view) => node.attach_store(role, view),
                Err(error) => (self.damage)(&error.to_string()),
            }
        }
    }

    /// Keeps room for the next checkpoint if there is any.
    fn keep_room(&self) {
        let room = (self.store().allocated() / 4).clamp(RESERVE_BYTES_MIN, RESERVE_BYTES_MAX);
        let path = self.dir.join(RESERVE);
        let reserved = held::look(&path).is_ok_and(|about| (room..=room * 2).contains(&about.len()));
        if !reserved && held::create(&path).and_then(|file| sys::allocate(&file, room)).is_err() {
            // Without room for a whole reserve half of one helps nobody.
            let _ = held::remove(&path);
        }
    }
}

/// Forgets that a checkpoint in `dir` was interrupted by the end of its process; whether one was.
pub fn clear_interrupted(dir: &Path) -> bool {
    held::remove(&dir.join(MARKER)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::budget;

    #[test]
    fn what_objects_have_left_is_taken_from_what_they_may_use() {
        assert_eq!(budget(100, 60, 0), 100);
        assert_eq!(budget(100, 60, 40), 100, "both together keep to the limit");
        assert_eq!(budget(100, 60, 60), 80);
        assert_eq!(budget(100, 90, 500), 50, "half of it is always theirs");
        assert_eq!(budget(u64::MAX, 1, u64::MAX), u64::MAX);
    }
}
