//! The state of a shard. Durable parts change only by [`apply`](State::apply)ing records.

pub(crate) mod apply;
pub(crate) mod births;
pub(crate) mod buried;
pub(crate) mod clock;
pub(crate) mod commit;
mod foresee;
pub(crate) mod further;
pub(crate) mod image;
pub(crate) mod keys;
pub(crate) mod packets;
pub(crate) mod recover;
pub(crate) mod replies;
pub(crate) mod reshape;
mod sound;
mod status;
mod writes;

use crate::cached::Cached;
use crate::coord::Coordinator;
use crate::coord::renames::Turn;
use crate::dir::Directories;
use crate::dir::epoch::Epochs;
use crate::dir::mark::Marks;
use crate::files::holders::Lent;
use crate::files::policy::Policy;
use crate::ops::datapending::Drops;
use crate::ops::filelock::FileLocks;
use crate::ops::living::Living;
use crate::ops::lockgrace::{Grace, Returning};
use crate::ops::opens::Opens;
use crate::ops::pages::Writers;
use crate::shard::{Job, ShardConfig};
use crate::txn::Transactions;
use births::Births;
use buried::Buried;
use clock::Clock;
use hashbrown::HashSet;
use onpath_kernel::{Meter, Protocol};
use onpath_store::{Inodes, Listings, Names, ReservedNumbers};
use onpath_wire::disk::objects::PendingObject;
use onpath_wire::ids::{DataId, Generation, InodeId, NodeId, RecordSeq, RequestSeq, SessionId, ShardId, Term};
use onpath_wire::packet::Packet;
use onpath_wire::request::describe::Counted;
use onpath_wire::secrets::TicketKey;
use replies::Replies;
use std::collections::{BTreeMap, BTreeSet};

/// Everything a shard knows.
pub(crate) struct State {
    pub(crate) config: ShardConfig,
    pub(crate) clock: Clock,
    pub(crate) names: Names,
    pub(crate) inodes: Inodes,
    pub(crate) listings: Listings,
    pub(crate) dirs: Directories,
    pub(crate) marks: Marks,
    pub(crate) epochs: Epochs,
    pub(crate) txns: Transactions,
    pub(crate) coordinator: Coordinator,
    pub(crate) turn: Turn,
    pub(crate) replies: Replies,
    pub(crate) buried: Buried,
    pub(crate) living: Living,
    pub(crate) opens: Opens,
    pub(crate) lent: Lent,
    pub(crate) cached: Cached,
    pub(crate) lending: Policy,
    /// Of what bound sessions show.
    pub(crate) tickets: TicketKey,
    pub(crate) writers: Writers,
    pub(crate) filelocks: FileLocks,
    pub(crate) lock_grace: Grace,
    pub(crate) returning: Returning,
    /// Trims and drops that data nodes have not acknowledged yet.
    pub(crate) data_pending: BTreeMap<(DataId, u32, bool), PendingObject>,
    /// How many of them are drops.
    pub(crate) drops_pending: usize,
    /// Orphans that nobody has open, but there was no room for another drop.
    pub(crate) unreclaimed: BTreeSet<InodeId>,
    /// Files whose cut was raised, and the records of that: until those are durable nobody is told (see [`packets::reply`]).
    pub(crate) raised: BTreeMap<InodeId, RecordSeq>,
    /// What each data node will be told to drop.
    pub(crate) drops: BTreeMap<NodeId, Drops>,
    /// Inodes without a name, to be reclaimed when nobody has them open.
    pub(crate) orphans: BTreeSet<InodeId>,
    /// Those that were born without one and may still get it (O_TMPFILE).
    pub(crate) linkable: BTreeSet<InodeId>,
    /// The last term in which each other shard was heard: in that one it may promise something early.
    pub(crate) heard_in: BTreeMap<ShardId, Term>,
    pub(crate) record_seq: RecordSeq,
    /// The last record of former terms that no power loss can have taken.
    pub(crate) kept: RecordSeq,
    /// The term of the last start that has found that power was lost before it; 0 if none has.
    pub(crate) power_lost: Term,
    /// What was told before this term is not known to be there: power was lost since, and only the start after that knew what it took.
    pub(crate) kept_since: Term,
    /// Tables of which the last image of a range is settled while the others' is not.
    settled_tables: u8,
    pub(crate) births: Births,
    pub(crate) reserved: ReservedNumbers,
    next_generation: u64,
    /// Requests being executed: a copy of one is dropped, the first will answer.
    pub(crate) running: HashSet<(SessionId, RequestSeq)>,
    pub(crate) counters: Counters,
    pub(crate) meter: Meter,
    /// The shard refuses what needs space (design.md, "Durability").
    pub(crate) full: bool,
}

/// Counters per rule path, for `onpath status`.
#[derive(Default, Debug, Clone, Copy)]
pub(crate) struct Counters {
    pub(crate) records: u64,
    pub(crate) requests: u64,
    pub(crate) wrong_term: u64,
    /// Requests refused because too many were in progress.
    pub(crate) busy: u64,
    pub(crate) replayed_replies: u64,
    pub(crate) grants_asked: u64,
    pub(crate) grants_given: u64,
    pub(crate) collects: u64,
    pub(crate) recalls: u64,
    /// Path parts granted to path nodes.
    pub(crate) path_parts_given: u64,
    pub(crate) path_parts_struck: u64,
    pub(crate) requests_behind: u64,
    pub(crate) recalls_abandoned: u64,
    /// Collects of the network form that this shard has answered, and those given up as an owner.
    pub(crate) collects_answered: u64,
    pub(crate) collects_abandoned: u64,
    /// Marks of the network form: sent, acknowledged, refused by a full set; updates that had to wait for theirs.
    pub(crate) marks_sent: u64,
    pub(crate) marks_acknowledged: u64,
    pub(crate) marks_refused: u64,
    pub(crate) updates_gated: u64,
    /// Marks that were taken for the switch, as an owner.
    pub(crate) marks_taken: u64,
    /// Reads that the switch's answer spared a collect.
    pub(crate) reads_normal: u64,
    /// Directories that went into *sync*.
    pub(crate) syncs: u64,
    /// Tracking epochs given out.
    pub(crate) epochs: u64,
    /// Times of being alone given to sessions.
    pub(crate) alone_given: u64,
    /// Sessions asked to write back pages, and given up.
    pub(crate) pages_asked: u64,
    pub(crate) pages_given_up: u64,
    /// Merge parts given to data nodes, and asked back.
    pub(crate) merge_parts_given: u64,
    pub(crate) merge_parts_recalled: u64,
    /// Lent files of which a data node was asked what it has answered, and kept the part.
    pub(crate) merge_parts_collected: u64,
    /// Messages that asked a data node about many of them at once.
    pub(crate) collects_of_many: u64,
    /// Lent files of which the table of a switch told readers that nothing was pending, or what.
    pub(crate) looks_none: u64,
    pub(crate) looks_pending: u64,
    /// Answers of data nodes that a table shows, and those that none does: the home has answered.
    pub(crate) installs_shown: u64,
    pub(crate) installs_passed_on: u64,
    /// Records of what data nodes had answered, and answered writes of bytes that this home has not: power was lost.
    pub(crate) answered_learned: u64,
    pub(crate) answered_lost: u64,
    pub(crate) pushes: u64,
    pub(crate) batches_applied: u64,
    pub(crate) entries_applied: u64,
    pub(crate) entries_compacted: u64,
    pub(crate) txns: u64,
    pub(crate) txn_busy: u64,
    /// Answered before participants had their promises on stable storage, and taken back since one has lost its promise.
    pub(crate) intentions: u64,
    pub(crate) intentions_undone: u64,
    pub(crate) malformed: u64,
    /// Creations refused because all births are taken.
    pub(crate) births_exhausted: u64,
    pub(crate) skewed: u64,
}

impl Protocol for State {
    type Job = Job;
    type In = ();
    type Out = ();

    fn resend(&mut self, to: NodeId, packet: &mut Packet) {
        crate::dir::group::renew(self, to, packet);
    }
}

impl State {
    pub(crate) fn new(config: ShardConfig) -> State {
        let listings = Listings::new(config.inner.listings());
        State {
            clock: Clock::default(),
            names: Names::new(config.map.placement(), config.inner.names()),
            inodes: Inodes::default(),
            listings,
            dirs: Directories::default(),
            marks: Marks::new(config.inner.marks()),
            epochs: Epochs::default(),
            txns: Transactions::new(config.term),
            coordinator: Coordinator::default(),
            turn: Turn::default(),
            replies: Replies::default(),
            buried: Buried::default(),
            living: Living::default(),
            opens: Opens::default(),
            lent: Lent::default(),
            cached: Cached::default(),
            lending: Policy::default(),
            tickets: config.inner.tickets(),
            writers: Writers::default(),
            filelocks: FileLocks::default(),
            lock_grace: Grace::default(),
            returning: Returning::default(),
            data_pending: BTreeMap::new(),
            drops_pending: 0,
            unreclaimed: BTreeSet::new(),
            raised: BTreeMap::new(),
            drops: BTreeMap::new(),
            orphans: BTreeSet::new(),
            linkable: BTreeSet::new(),
            heard_in: BTreeMap::new(),
            record_seq: RecordSeq(config.term.first_seq()),
            kept: RecordSeq(0),
            power_lost: Term(0),
            kept_since: Term(0),
            settled_tables: 0,
            births: Births::default(),
            reserved: ReservedNumbers::default(),
            next_generation: 0,
            running: HashSet::new(),
            counters: Counters::default(),
            meter: Meter::new(Counted::NAMES),
            full: false,
            config,
        }
    }

    /// This shard.
    pub(crate) fn me(&self) -> ShardId {
        self.config.shard
    }

    /// The term in which a participant may promise early, so that nobody waits for its disk but who asks for a promise again; 0: it
    /// may not. What is in one journal is lost together, and where replies wait for the disk they may as well wait for it there.
    pub(crate) fn early_in(&self, shard: ShardId) -> Term {
        let early = self.config.outlived && !self.config.one_journal;
        if early { self.heard_in.get(&shard).copied().unwrap_or_default() } else { Term(0) }
    }

    /// Whether this shard is the home of `id`.
    #[inline]
    pub(crate) fn is_home(&self, id: InodeId) -> bool {
        self.config.map.home(id) == self.config.shard
    }

    /// A new generation of a file's bytes; never repeated (design.md, "Data").
    pub(crate) fn new_generation(&mut self) -> Generation {
        self.next_generation += 1;
        Generation(u64::from(self.config.term.0) << 32 | self.next_generation)
    }
}
