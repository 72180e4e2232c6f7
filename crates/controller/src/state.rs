//! What a controller knows. All of it is volatile.

use onpath_kernel::{Core, Cx, Protocol};
use onpath_wire::cached::{CacheCommand, CacheStatus, CachedName};
use onpath_wire::header::{Header, MessageKind};
use onpath_wire::ids::{InodeId, NodeId, RequestSeq, ShardId, Term};
use onpath_wire::innet::cache::Read;
use onpath_wire::limits::ENTRY_NUMBERS;
use onpath_wire::map::ClusterMap;
use onpath_wire::packet::Packet;
use onpath_wire::secrets::Placement;
use onpath_wire::tracking::SwitchCommand;
use std::collections::{BTreeMap, BTreeSet};

/// Nobody is waited for longer than this before the next look, microseconds.
pub(crate) const PATIENCE_US: u64 = 100_000;
/// By which operations wait for their turn to speak with the switch.
const TURN: u64 = 1;

/// Misses of a name in a period after which it is given an entry, unless somebody says otherwise: sessions let the switch count one of eight
/// questions.
pub const THRESHOLD: u16 = 8;

/// What a controller is started with.
#[derive(Clone, Debug)]
pub struct ControllerConfig {
    /// Its address.
    pub node: NodeId,
    /// The switch that shall answer from its cache; none: none shall.
    pub switch: Option<NodeId>,
    /// Low half of the fsid.
    pub cluster: u32,
    /// Where the coordinator is, and how many shards there are.
    pub coordinator: ShardId,
    /// Shards of the file system.
    pub shards: u16,
    /// This start: larger than those before.
    pub term: Term,
    /// Entries that the cache has, at most 2^16.
    pub entries: u32,
    /// A name is given an entry that is missed more often in a period ([`CACHE_PERIOD_MS`](onpath_wire::limits::CACHE_PERIOD_MS)).
    pub threshold: u16,
}

/// What starts an operation.
pub(crate) enum Job {
    /// Keeps the lease.
    Keep,
    /// Gives a name an entry.
    Admit(CachedName),
    /// Counts in this epoch.
    Count(u16),
    /// Looks into what is missed often.
    Learn(Read),
    /// Drops what a shard has lent before it started.
    Drop(ShardId, RequestSeq, u16),
}

/// The entry of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: u64,
    pub(crate) token: u8,
    pub(crate) index: u32,
    pub(crate) number: u32,
}

/// The lease, and what came with it.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    /// The epoch; 0: there is none.
    pub(crate) epoch: u16,
    /// The life of the switch in which it began.
    pub(crate) boot: u64,
    /// State of the registry of sessions.
    pub(crate) registry: u64,
    /// Sessions that the switch answers.
    pub(crate) listed: BTreeSet<NodeId>,
    /// The switch may have an entry that it was told to give up, and did not say so.
    pub(crate) unsure: bool,
    /// Numbers of entries that nobody has: from, and up to before.
    pub(crate) numbers: (u32, u32),
}

/// What happened since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    /// Names that were given an entry which their home has filled.
    pub(crate) admitted: u64,
    /// Names that were not.
    pub(crate) not_admitted: u64,
    /// Names that made room for others.
    pub(crate) evicted: u64,
    /// Answers of entries, up to the last period.
    pub(crate) answered: u64,
    /// Leases that were prolonged.
    pub(crate) renewed: u64,
    /// Messages that make no sense.
    pub(crate) malformed: u64,
}

/// A controller's state.
pub(crate) struct State {
    pub(crate) config: ControllerConfig,
    pub(crate) lease: Lease,
    /// The switch that is spoken with.
    pub(crate) switch: Option<NodeId>,
    /// Where names are, as the coordinator has said with the first lease.
    pub(crate) placement: Option<Placement>,
    /// Names that have an entry.
    pub(crate) names: BTreeMap<CachedName, Entry>,
    /// The names that have had a token in this epoch, by their keys: a name's is its place there, so none is given to another name (C-8).
    pub(crate) tokens: BTreeMap<u64, Vec<CachedName>>,
    /// Indices of entries that were given up, and the first one that never was given.
    pub(crate) free: Vec<u32>,
    pub(crate) next_index: u32,
    /// Names that are to be given an entry.
    pub(crate) admitting: BTreeSet<CachedName>,
    /// The directories to which names with an entry lead, as far as that is known.
    pub(crate) leads_to: BTreeMap<CachedName, InodeId>,
    /// Names that answered least in the last period, the least ones last.
    pub(crate) idle: Vec<CachedName>,
    /// How often names have answered in the last period.
    pub(crate) answered: BTreeMap<CachedName, u32>,
    /// Shards whose names are being dropped.
    pub(crate) dropping: BTreeSet<ShardId>,
    /// Keys that are looked into.
    pub(crate) asked: BTreeSet<u64>,
    pub(crate) counters: Counters,
    /// Somebody speaks with the switch, which executes commands in the order in which they were made.
    speaks: bool,
}

impl State {
    pub(crate) fn new(config: ControllerConfig) -> State {
        State {
            config,
            lease: Lease::default(),
            switch: None,
            placement: None,
            names: BTreeMap::new(),
            tokens: BTreeMap::new(),
            free: Vec::new(),
            next_index: 0,
            admitting: BTreeSet::new(),
            leads_to: BTreeMap::new(),
            idle: Vec::new(),
            answered: BTreeMap::new(),
            dropping: BTreeSet::new(),
            asked: BTreeSet::new(),
            counters: Counters::default(),
            speaks: false,
        }
    }

    pub(crate) fn header(&self, kind: MessageKind, seq: RequestSeq) -> Header {
        let mut header = Header::new(kind, self.config.node, seq);
        (header.cluster, header.term) = (self.config.cluster, self.config.term);
        header
    }

    /// Slots and shards; nothing before the first lease.
    pub(crate) fn map(&self) -> Option<ClusterMap> {
        Some(ClusterMap::even(self.config.shards, self.placement?))
    }

    /// The epoch is over: nothing of it counts.
    pub(crate) fn end_epoch(&mut self) {
        let Lease { numbers, .. } = std::mem::take(&mut self.lease);
        self.lease.numbers = numbers;
        self.names.clear();
        self.leads_to.clear();
        self.idle.clear();
        self.answered.clear();
        self.tokens.clear();
        self.free.clear();
        self.next_index = 0;
    }

    /// A name that has an entry leads to this directory.
    pub(crate) fn leads(&mut self, name: &CachedName, dir: Option<InodeId>) {
        if let Some(dir) = dir.filter(|_| self.names.contains_key(name)) {
            self.leads_to.insert(name.clone(), dir);
        }
    }

    /// Whether others with an entry are below this name.
    pub(crate) fn leads_on(&self, name: &CachedName) -> bool {
        let dir = self.leads_to.get(name);
        dir.is_some_and(|dir| self.names.range((*dir, None)..).next().is_some_and(|((parent, _), _)| parent == dir))
    }

    /// A number that no entry ever had, if there is one left.
    pub(crate) fn take_number(&mut self) -> Option<u32> {
        let (from, end) = &mut self.lease.numbers;
        (*from < *end).then(|| std::mem::replace(from, *from + 1))
    }

    /// Numbers should be asked for.
    pub(crate) fn wants_numbers(&self) -> bool {
        let (from, end) = self.lease.numbers;
        end - from < ENTRY_NUMBERS / 2
    }
}

impl Protocol for State {
    type Job = Job;
    type In = crate::controller::ControllerIn;
    type Out = ();
}

/// Gives the switch a command; what it says, unless it is silent. One at a time, since the switch executes none that is older than another.
pub(crate) async fn command(cx: &Cx<State>, command: CacheCommand) -> Option<CacheStatus> {
    cx.until(TURN, |core| (!std::mem::replace(&mut core.state.speaks, true)).then_some(())).await;
    let switch = cx.with(|core| core.state.switch);
    let make = |core: &mut Core<State>, _: NodeId, seq| {
        let command = SwitchCommand::Cache { command: command.clone() };
        Packet::new(&core.state.header(MessageKind::Switch, seq), &command)
    };
    let deadline_us = cx.with(|core| core.now.mono_us) + PATIENCE_US;
    let answer = match switch {
        Some(switch) => cx.call_all(&[switch], deadline_us, make).await.pop(),
        None => None,
    };
    cx.with(|core| {
        core.state.speaks = false;
        core.wake(TURN);
    });
    answer.and_then(onpath_kernel::Answer::packet).and_then(|packet| packet.body().ok())
}
