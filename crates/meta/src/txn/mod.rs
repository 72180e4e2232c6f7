//! Transactions over several shards: two-phase commits in the order that was explored (design.md, "Transactions"; R-23).
//!
//! `coordinator` decides, `participant` prepares and obeys; `intention` is how a coordinator answers before anybody's disk has it; `unlink`
//! is the transaction of a name whose inode lives elsewhere. link and rename are operations (`ops`) that use them.

pub(crate) mod coordinator;
pub(crate) mod intention;
pub(crate) mod participant;
pub(crate) mod unlink;

use crate::planted::{self, Planted};
use hashbrown::HashMap;
use onpath_kernel::Gauge;
use onpath_wire::ids::{InodeId, RecordSeq, RequestSeq, SessionId, ShardId, Term, TxnId, TxnSeq};
use onpath_wire::innet::Fingerprint;
use onpath_wire::map::ClusterMap;
use onpath_wire::peer::{InodeChange, PartState, TxnPart};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// Transactions that this shard takes part in or decides.
pub(crate) struct Transactions {
    next: u64,
    prepared: BTreeMap<TxnId, Prepared>,
    decided: BTreeMap<TxnId, SmallVec<[ShardId; 3]>>,
    finished: BTreeSet<TxnId>,
    /// Our own attempts that are not decided (volatile), and the directories whose recalls wait for them.
    active: BTreeMap<TxnSeq, Kept>,
    /// Our own attempts that are answered and not decided: their participants may not have promised durably. The promise to
    /// ourselves has the name of the first one.
    intended: BTreeSet<TxnSeq>,
    /// Directories whose recalls need not wait for an attempt of ours any more, to be woken.
    let_go: Kept,
    /// Decisions that a participant's operation has yet to carry out (volatile).
    pub(crate) told: BTreeMap<TxnId, bool>,
    /// Below this, a coordinator's attempts are over.
    oldest_of: BTreeMap<ShardId, TxnSeq>,
    /// Directories whose recalls wait: for a prepared record, or for an attempt of ours.
    doubt: HashMap<InodeId, u32>,
    /// Directories that a prepared transaction removes.
    sealed: HashMap<InodeId, u32>,
    /// Directories that a prepared transaction moves: nobody is told where they are.
    moving: HashMap<InodeId, u32>,
    pub(crate) asker_runs: bool,
}

/// Directories of which this shard answers no recall for now.
pub(crate) type Kept = SmallVec<[InodeId; 2]>;

/// A durable promise.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) parts: Vec<TxnPart>,
    pub(crate) states: Vec<PartState>,
    /// Its record, if it is of this term.
    pub(crate) record: RecordSeq,
}

impl Transactions {
    pub(crate) fn new(term: Term) -> Transactions {
        Transactions {
            next: term.first_seq(),
            prepared: BTreeMap::new(),
            decided: BTreeMap::new(),
            finished: BTreeSet::new(),
            active: BTreeMap::new(),
            intended: BTreeSet::new(),
            let_go: Kept::new(),
            told: BTreeMap::new(),
            oldest_of: BTreeMap::new(),
            doubt: HashMap::new(),
            sealed: HashMap::new(),
            moving: HashMap::new(),
            asker_runs: false,
        }
    }

    /// A new attempt of this shard; every attempt has its own name (schedule F3). Until it is over, recalls of the `kept`
    /// directories wait here.
    pub(crate) fn begin(&mut self, me: ShardId, kept: Kept) -> TxnId {
        self.next += 1;
        kept.iter().for_each(|&dir| count(&mut self.doubt, dir, true));
        self.active.insert(TxnSeq(self.next), kept);
        TxnId { coordinator: me, seq: TxnSeq(self.next) }
    }

    /// An attempt is over without a decision, or after one.
    pub(crate) fn end(&mut self, txn: TxnId) {
        for dir in self.active.remove(&txn.seq).unwrap_or_default() {
            count(&mut self.doubt, dir, false);
            self.let_go.push(dir);
        }
    }

    /// Its queues.
    pub(crate) fn gauges(&self, operations: usize, all: &mut Vec<Gauge>) {
        all.extend([
            Gauge::queue("promises", self.prepared.len(), operations),
            Gauge::queue("decisions", self.decided.len(), operations),
            Gauge::queue("attempts", self.active.len(), operations),
            Gauge::queue("intentions", self.intended.len(), operations),
            Gauge::queue("recalls let go", self.let_go.len(), operations),
            Gauge::queue("decisions told", self.told.len(), operations),
            Gauge::queue("directories in doubt", self.doubt.len(), operations),
            Gauge::queue("directories sealed", self.sealed.len(), operations),
            Gauge::queue("directories that move", self.moving.len(), operations),
        ]);
    }

    /// Promises of this shard that are not decided, as far as it knows.
    pub(crate) fn promises(&self) -> usize {
        self.prepared.len()
    }

    /// Directories whose recalls may go on, once.
    pub(crate) fn take_let_go(&mut self) -> Kept {
        std::mem::take(&mut self.let_go)
    }

    /// Whether an attempt of ours is undecided.
    pub(crate) fn is_active(&self, txn: TxnId) -> bool {
        self.active.contains_key(&txn.seq) || self.intended.contains(&txn.seq)
    }

    /// The oldest of our attempts that anybody may still ask about.
    pub(crate) fn oldest_unfinished(&self) -> TxnSeq {
        let active = self.active.keys().chain(&self.intended).min().copied();
        let decided = self.decided.keys().map(|txn| txn.seq).min();
        active.into_iter().chain(decided).min().unwrap_or(TxnSeq(self.next + 1))
    }

    /// A coordinator says that its attempts below `oldest` are over: their copies are ignored.
    pub(crate) fn hear_oldest(&mut self, coordinator: ShardId, oldest: TxnSeq) {
        let known = self.oldest_of.entry(coordinator).or_default();
        *known = (*known).max(oldest);
        let known = *known;
        self.finished.retain(|txn| txn.coordinator != coordinator || txn.seq >= known);
    }

    /// Whether a Prepare is a late copy (schedule F4).
    pub(crate) fn is_over(&self, txn: TxnId) -> bool {
        !planted::is(Planted::PrepareAfterEnd)
            && (self.finished.contains(&txn)
                || self.oldest_of.get(&txn.coordinator).is_some_and(|&oldest| txn.seq < oldest))
    }

    /// What was promised, if it still is.
    pub(crate) fn promise(&self, txn: TxnId) -> Option<&Prepared> {
        self.prepared.get(&txn)
    }

    /// That was promised by this record.
    pub(crate) fn promised_by(&mut self, txn: TxnId, record: RecordSeq) {
        if let Some(promise) = self.prepared.get_mut(&txn) {
            promise.record = record;
        }
    }

    /// Whether a prepared record, or an attempt of ours, makes recalls of this directory wait.
    pub(crate) fn in_doubt(&self, dir: InodeId) -> bool {
        !self.doubt.is_empty() && self.doubt.contains_key(&dir)
    }

    /// Directories whose recalls wait.
    pub(crate) fn in_doubt_dirs(&self) -> Vec<InodeId> {
        self.doubt.keys().copied().collect()
    }

    /// A directory of this group whose collects wait.
    pub(crate) fn doubtful(&self, map: &ClusterMap, group: Fingerprint) -> Option<InodeId> {
        self.doubt.keys().copied().filter(|&dir| map.fingerprint(dir) == group).min()
    }

    /// Whether a prepared transaction removes this directory: nothing of it is granted.
    pub(crate) fn is_sealed(&self, dir: InodeId) -> bool {
        !self.sealed.is_empty() && self.sealed.contains_key(&dir)
    }

    /// Whether a prepared transaction moves this directory: its path part is not granted.
    pub(crate) fn is_moving(&self, dir: InodeId) -> bool {
        !self.moving.is_empty() && self.moving.contains_key(&dir)
    }

    /// Whether a decision of ours is not known to all participants.
    pub(crate) fn is_decided(&self, txn: TxnId) -> bool {
        self.decided.contains_key(&txn)
    }

    /// Whether decisions of a former term wait for their participants.
    pub(crate) fn former_decisions(&self, term: Term) -> bool {
        self.decided.keys().any(|txn| txn.seq.0 < term.first_seq())
    }

    /// Participants of a decision.
    pub(crate) fn participants(&self, txn: TxnId) -> SmallVec<[ShardId; 3]> {
        self.decided.get(&txn).cloned().unwrap_or_default()
    }

    /// Of an intention of ours: its attempts, who has promised what they need, and whose request it was.
    pub(crate) fn intention(&self, txn: TxnId) -> Vec<(TxnId, Vec<ShardId>, (SessionId, RequestSeq))> {
        let parts = self.promise(txn).map(|promise| &promise.parts[..]).unwrap_or_default();
        let asked = parts.iter().filter_map(|part| match part {
            TxnPart::Asked { txn, participants, session, request } => {
                Some((*txn, participants.clone(), (*session, *request)))
            }
            _ => None,
        });
        asked.collect()
    }

    /// Promises whose decision is not known.
    pub(crate) fn undecided(&self) -> Vec<TxnId> {
        self.prepared.keys().filter(|txn| !self.told.contains_key(txn)).copied().collect()
    }

    fn count_parts(&mut self, promise: &Prepared, up: bool) {
        for (part, state) in promise.parts.iter().zip(&promise.states) {
            match part {
                TxnPart::Source { parent, .. } | TxnPart::Swap { parent, .. } | TxnPart::Put { parent, .. } => {
                    count(&mut self.doubt, *parent, up);
                }
                TxnPart::Inode { id, change: InodeChange::RemoveDir, .. } => count(&mut self.sealed, *id, up),
                TxnPart::Inode { .. } => {}
                TxnPart::Asked { txn, .. } if up => _ = self.intended.insert(txn.seq),
                TxnPart::Asked { txn, .. } => _ = self.intended.remove(&txn.seq),
            }
            if let Some(moved) = moved_directory(part, state) {
                count(&mut self.moving, moved, up);
            }
        }
    }

    // What records do, live and in replay.

    pub(crate) fn prepared(&mut self, txn: TxnId, parts: Vec<TxnPart>, states: Vec<PartState>) {
        let promise = Prepared { parts, states, record: RecordSeq(0) };
        self.count_parts(&promise, true);
        // An intention keeps what its attempts have kept.
        let asked = |part: &TxnPart| if let TxnPart::Asked { txn, .. } = part { Some(*txn) } else { None };
        promise.parts.iter().filter_map(asked).for_each(|txn| self.end(txn));
        let before = self.prepared.insert(txn, promise);
        assert!(before.is_none(), "a transaction is prepared once");
    }

    pub(crate) fn finished(&mut self, txn: TxnId) {
        self.aborted(txn);
        self.finished.insert(txn);
    }

    pub(crate) fn aborted(&mut self, txn: TxnId) {
        if let Some(promise) = self.prepared.remove(&txn) {
            self.count_parts(&promise, false);
        }
        self.told.remove(&txn);
    }

    pub(crate) fn decided(&mut self, txn: TxnId, participants: &[ShardId]) {
        self.end(txn);
        self.aborted(txn); // an intention is over with its decision
        self.decided.insert(txn, participants.into());
    }

    pub(crate) fn forgotten(&mut self, txn: TxnId) {
        self.decided.remove(&txn);
    }

    // What an image holds.

    pub(crate) fn prepared_ids(&self) -> Vec<TxnId> {
        self.prepared.keys().copied().collect()
    }

    pub(crate) fn decided_ids(&self) -> Vec<TxnId> {
        self.decided.keys().copied().collect()
    }

    pub(crate) fn all_prepared(&self) -> impl Iterator<Item = (TxnId, &Vec<TxnPart>, &Vec<PartState>)> {
        self.prepared.iter().map(|(&txn, p)| (txn, &p.parts, &p.states))
    }

    pub(crate) fn all_decided(&self) -> impl Iterator<Item = (TxnId, &SmallVec<[ShardId; 3]>)> {
        self.decided.iter().map(|(&txn, p)| (txn, p))
    }

    /// What coordinators have said: by that finished ones are forgotten, so it must outlive them.
    pub(crate) fn all_oldest(&self) -> impl Iterator<Item = (ShardId, TxnSeq)> + '_ {
        self.oldest_of.iter().map(|(&coordinator, &oldest)| (coordinator, oldest))
    }

    pub(crate) fn all_finished(&self) -> impl Iterator<Item = TxnId> + '_ {
        self.finished.iter().copied()
    }
}

/// The directory that a part of a transaction gives another place.
pub(crate) fn moved_directory(part: &TxnPart, state: &PartState) -> Option<InodeId> {
    match (part, state) {
        (TxnPart::Inode { id, change: InodeChange::Move { .. }, .. }, _) => id.is_directory().then_some(*id),
        (TxnPart::Source { .. } | TxnPart::Swap { .. }, PartState::Source { child, .. }) => {
            child.is_directory().then_some(*child)
        }
        _ => None,
    }
}

fn count(table: &mut HashMap<InodeId, u32>, dir: InodeId, up: bool) {
    let n = table.entry(dir).or_insert(0);
    *n = if up { *n + 1 } else { *n - 1 };
    if *n == 0 {
        table.remove(&dir);
    }
}
