//! The disk of a process: one journal with its three positions, and checkpoints of its roles (design.md, "Durability").
//!
//! kill -9 keeps what was written and perhaps some of what was only appended; a power loss keeps what was
//! flushed and perhaps some of what was written. Both keep a prefix.

use onpath_store::{Changes, Cold, Image, Pair};
use onpath_wire::ids::{Lsn, RecordSeq};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex};

/// One record in the journal.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) server: u16,
    pub(crate) seq: RecordSeq,
    pub(crate) bytes: Vec<u8>,
    /// How far the journal was durable when this was appended: what a reader of the journal knows to be durable.
    pub(crate) durable: Lsn,
}

/// The objects of a role that are read one by one.
#[derive(Debug, Default)]
pub(crate) struct Shelf(Mutex<BTreeMap<Vec<u8>, Vec<u8>>>);

impl Shelf {
    fn keep(&self, changes: Changes) {
        let mut all = self.0.lock().expect("a map does not panic");
        changes.removed.iter().for_each(|key| _ = all.remove(key));
        all.extend(changes.put);
    }
}

impl Cold for Shelf {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.lock().expect("a map does not panic").get(key).cloned()
    }

    fn scan(&self, prefix: &[u8], from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        let all = self.0.lock().expect("a map does not panic");
        let from = prefix.max(from);
        for (key, value) in all.range::<[u8], _>((Bound::Included(from), Bound::Unbounded)) {
            if !key.starts_with(prefix) || !each(key, value) {
                break;
            }
        }
    }
}

/// What is kept of one role: its objects, and of each range the last record and all else.
#[derive(Debug, Default)]
pub(crate) struct Checkpoint {
    pub(crate) objects: Arc<Shelf>,
    pub(crate) ranges: Vec<(RecordSeq, Vec<Pair>)>,
}

impl Checkpoint {
    /// Records up to here need no replay.
    fn covers(&self) -> RecordSeq {
        self.ranges.iter().map(|(upto, _)| *upto).min().unwrap_or_default()
    }

    fn keep(&mut self, images: Vec<Image>) {
        self.ranges.clear();
        for Image { upto, changes, rest } in images {
            self.objects.keep(changes);
            self.ranges.push((upto, rest));
        }
    }
}

/// A checkpoint that is being made.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) server: u16,
    pub(crate) images: Vec<Image>,
    /// The next one, of which pieces are missing.
    pub(crate) begun: Option<Image>,
    /// Once complete: the last record that it holds.
    needs: Option<Lsn>,
}

/// Journal and checkpoints.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    journal: VecDeque<Entry>,
    /// Lsn of the record before the first one kept.
    before: u64,
    written: Lsn,
    durable: Lsn,
    /// Durable as the journal itself said before the last crash.
    known_durable: Lsn,
    /// The first batch after a recovery is not complete yet.
    recovering: bool,
    checkpoints: Vec<Checkpoint>,
    pub(crate) draft: Option<Draft>,
    next_server: u16,
    /// The end of the journal when a checkpoint was begun, and how many were begun since then.
    begun: (Lsn, u16),
}

impl Disk {
    pub(crate) fn new(servers: usize) -> Disk {
        Disk { checkpoints: (0..servers).map(|_| Checkpoint::default()).collect(), ..Disk::default() }
    }

    /// The position of the last record appended.
    pub(crate) fn appended(&self) -> Lsn {
        Lsn(self.before + self.journal.len() as u64)
    }

    pub(crate) fn written(&self) -> Lsn {
        self.written
    }

    pub(crate) fn durable(&self) -> Lsn {
        self.durable
    }

    pub(crate) fn append(&mut self, server: u16, seq: RecordSeq, bytes: Vec<u8>) -> Lsn {
        let durable = if self.recovering { self.known_durable } else { self.durable };
        self.journal.push_back(Entry { server, seq, bytes, durable });
        self.appended()
    }

    /// Begins or ends the first batch after a recovery. A host writes it whole, and nobody reads a part of it: what it
    /// says of the records before it, only later ones say.
    pub(crate) fn set_recovering(&mut self, recovering: bool) {
        self.recovering = recovering;
    }

    /// Whether that batch is not complete: nothing of it is written.
    pub(crate) fn is_recovering(&self) -> bool {
        self.recovering
    }

    /// Everything appended is with the operating system.
    pub(crate) fn write(&mut self) {
        self.written = self.appended();
    }

    /// A flush that began at `upto` has ended; a finished checkpoint that it covers takes effect: of which role.
    pub(crate) fn flushed(&mut self, upto: Lsn) -> Option<u16> {
        self.durable = self.durable.max(upto);
        let ready = self.draft.as_ref().is_some_and(|d| d.needs.is_some_and(|needs| needs <= self.durable));
        if !ready {
            return None;
        }
        let draft = self.draft.take().expect("just seen");
        self.checkpoints[draft.server as usize].keep(draft.images);
        let covers: Vec<_> = self.checkpoints.iter().map(Checkpoint::covers).collect();
        while self.journal.front().is_some_and(|entry| entry.seq <= covers[entry.server as usize]) {
            self.journal.pop_front();
            self.before += 1;
        }
        Some(draft.server)
    }

    /// The checkpoint to go on with; none while a finished one waits for its records, and none if every role has one of all
    /// that there is.
    pub(crate) fn draft(&mut self) -> Option<&mut Draft> {
        let servers = self.checkpoints.len() as u16;
        if self.draft.is_none() {
            let end = self.appended();
            let begun = if self.begun.0 == end { self.begun.1 } else { 0 };
            if begun == servers {
                return None;
            }
            self.begun = (end, begun + 1);
            self.draft = Some(Draft { server: self.next_server % servers, images: vec![], begun: None, needs: None });
            self.next_server = (self.next_server + 1) % servers;
        }
        self.draft.as_mut().filter(|draft| draft.needs.is_none())
    }

    /// The draft has all ranges; it takes effect once everything that it holds is durable.
    pub(crate) fn draft_complete(&mut self) -> Option<u16> {
        let appended = self.appended();
        self.draft.as_mut().expect("a draft").needs = Some(appended);
        self.flushed(self.durable)
    }

    /// There is no room for the draft: it comes to nothing.
    pub(crate) fn drop_draft(&mut self) {
        self.draft = None;
    }

    /// A crash leaves this prefix.
    pub(crate) fn cut(&mut self, upto: Lsn) {
        assert!(upto <= self.appended() && upto >= self.durable, "a crash keeps what is durable");
        while self.appended() > upto {
            self.journal.pop_back();
        }
        (self.draft, self.begun, self.recovering) = (None, (Lsn(0), 0), false);
        self.known_durable = self.journal.back().map_or(Lsn(self.before), |entry| entry.durable);
        // Recovery flushes what it took before it serves.
        (self.written, self.durable) = (upto, upto);
    }

    /// Records after `after`, with their positions.
    pub(crate) fn tail(&self, after: Lsn) -> impl Iterator<Item = (Lsn, &Entry)> {
        let skip = (after.0 - self.before) as usize;
        self.journal.iter().skip(skip).zip(after.0 + 1..).map(|(entry, lsn)| (Lsn(lsn), entry))
    }

    /// What is kept of a role.
    pub(crate) fn kept(&self, server: u16) -> &Checkpoint {
        &self.checkpoints[server as usize]
    }

    /// The checkpoint and the records of one role, with their positions, for its recovery.
    pub(crate) fn of(&self, server: u16) -> (&Checkpoint, impl Iterator<Item = (Lsn, &Entry)>) {
        let records = self.journal.iter().zip(self.before + 1..).map(|(entry, lsn)| (Lsn(lsn), entry));
        (self.kept(server), records.filter(move |(_, entry)| entry.server == server))
    }

    /// What the journal said to be durable before the last crash.
    pub(crate) fn known_durable(&self) -> Lsn {
        self.known_durable
    }

    /// Number of records that a recovery would read.
    pub(crate) fn records(&self) -> usize {
        self.journal.len()
    }
}
