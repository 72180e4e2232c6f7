//! What the operations of a session share, and how its messages are made (R-17: terms and window, R-19: stamps).

use crate::fs::{FsRequest, OpenMode};
use crate::limits::WINDOW_RESERVE;
use crate::locks::{HeldLocks, LockOwner, WaitingLocks};
use crate::opens::Opens;
use crate::ops::alone::Alone;
use crate::ops::exact::Changes;
use crate::ops::halves::Halves;
use crate::ops::hot::HotNames;
use crate::ops::kept::Unsynced;
use crate::planted::{self, Planted};
use crate::running::{RunningTable, Slot};
use crate::session::{ReadCaller, SessionConfig, SessionIn, SessionOut};
use crate::ways::Ways;
use hashbrown::{HashMap, HashSet};
use onpath_kernel::{Core, Now, Protocol};
use onpath_wire::codec::{Blob, Wire};
use onpath_wire::data::DataRequest;
use onpath_wire::hash::inode_hash;
use onpath_wire::header::{Header, MessageKind};
use onpath_wire::ids::{AloneId, InodeId, NodeId, RequestSeq, ShardId, Slot as HashSlot, Stamp, Term};
use onpath_wire::limits::{LEASE_SLACK_MS, SESSION_LEASE_MS, SESSION_WINDOW, memory};
use onpath_wire::packet::Packet;
use onpath_wire::reply::{DataRef, Reply};
use onpath_wire::request::{Request, RequestBody};
use onpath_wire::ticket::Ticket;
use onpath_wire::tracking::Tracking;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Tickets of files that are not open any more, at least so many, are kept until there are as many more.
const TICKETS_SPARE: usize = 64;

/// What starts an operation.
pub(crate) enum Job {
    /// A request of the mount.
    Fs(Slot, FsRequest),
    /// Joins, or joins again after a restart of the coordinator.
    Attach { again: bool },
    /// Keeps the lease.
    Renew,
    /// Asks whether the session is alone.
    AskAlone,
    /// Says that nothing is cached any more.
    HandBack(AloneId),
    /// Hears of restarts of shards that nobody asks anything.
    Visit,
    /// Leaves.
    Detach,
    /// Registers what is open under another id.
    Reopen,
    /// Tells homes what a switch has let this session open.
    RegisterOpens,
    /// Registers opens and locks again at a restarted shard.
    Restore { shard: ShardId, term: Term },
    /// Hears how far all shards are, to keep ways from then on.
    HearWays,
    /// Asks what a restarted shard has of its former terms.
    AskKept { node: NodeId },
    /// Takes the locks of the next owner of [`State::relock`] again.
    Relock,
    /// Tells a shard something cheap, so that it hears of this session, or this session of its restart.
    Greet { shard: ShardId },
    /// Hears with which token a switch is asked for a directory.
    HearToken { dir: InodeId },
    /// Sends what is open to a restarted shard again.
    Resend { shard: ShardId },
    /// Tells the home that a file was read (relatime).
    Accessed { id: InodeId },
    /// Tells the home of the last close.
    Close { id: InodeId },
    /// Closes files that were made and not opened, as long as there are any.
    EndHalves,
    /// Tells the homes what waits to be told together.
    TellLater,
    /// Tells the home that no page of a file is changed in memory.
    WrittenBack { id: InodeId, wrote: bool },
    /// Gives an O_APPEND reservation back, then lets the next append run.
    Unreserve { id: InodeId },
    /// Asks again for waiting locks, as long as there are any.
    WatchLocks,
    /// Asks for a waiting lock under a new sequence number.
    RenewWait(RequestSeq),
    /// Its caller got a signal: the home decides whether the lock came first.
    CancelWait(u64),
    /// Looks whether a lock that has waited for so long is part of a deadlock.
    SeekDeadlock { unique: u64, after_us: u64 },
    /// Answers EINTR for a waiting lock whose home does not answer.
    CancelTimeout(u64),
    /// Gives back a lock that was granted to a caller who is gone.
    GiveBack { id: InodeId, lock: onpath_wire::request::FileLock },
    /// Ends an interrupted request if its server is unreachable.
    Interrupt { slot: Slot, unique: u64 },
}

const _: () = assert!(2 * size_of::<FsRequest>() as u64 <= memory::REQUEST_QUEUED);

/// How far the session has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// It waits for the coordinator's answer; its requests are queued.
    Joining,
    Joined,
    /// The coordinator does not know it any more; its host looks for another id.
    Expired,
    /// It has joined under another id, and registers what is open.
    Reopening,
    Leaving,
    Lost,
}

/// What an operation waits for inside the session, hashed into one space of wake-up keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WaitKey {
    /// Room in the window.
    Window,
    /// The answer to a question for groups, or how a caller waits.
    Read(u64),
    /// The end of what is under way for an open inode.
    Inode(InodeId),
    /// The turn of an owner's next lock operation on an inode.
    LockTurn(LockOwner),
    /// The turn of the next append to an inode.
    AppendTurn(InodeId),
    /// The end of telling an access time.
    Told(InodeId),
    /// The end of telling what pages the mount has.
    Pages(InodeId),
}

impl WaitKey {
    /// Two keys of one hash only wake and wait for each other needlessly.
    pub(crate) fn hash(self) -> u64 {
        match self {
            WaitKey::Window => 0,
            WaitKey::Read(ticket) => inode_hash(InodeId(ticket)) ^ 0x1111_1111_1111_1111,
            WaitKey::Inode(id) => inode_hash(id) ^ 0x2222_2222_2222_2222,
            WaitKey::LockTurn(of) => {
                inode_hash(InodeId(of.owner ^ u64::from(of.flock))) ^ inode_hash(of.id) ^ 0x4444_4444_4444_4444
            }
            WaitKey::AppendTurn(id) => inode_hash(id) ^ 0x8888_8888_8888_8888,
            WaitKey::Pages(id) => inode_hash(id) ^ 0x3333_3333_3333_3333,
            WaitKey::Told(id) => inode_hash(id) ^ 0x7777_7777_7777_7777,
        }
    }
}

/// What a home is told soon, together with others of its kind: nobody waits for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Later {
    /// [`Job::Accessed`].
    Accessed(InodeId),
    /// [`Job::Close`].
    Close(InodeId),
}

/// Until when a session may act for its callers, counted from when it asked for that.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lease {
    /// What its requests say: nobody executes them afterwards; ns since 1970.
    until_ns: u64,
    /// When it sends nothing more that changes something, monotonic microseconds: before anybody would refuse it.
    stop_us: u64,
}

impl Lease {
    /// The coordinator has answered what was asked at that time.
    pub(crate) fn renewed(&mut self, asked: Now, lease_ms: u64) {
        self.until_ns = asked.wall_ns + lease_ms * 1_000_000;
        self.stop_us = asked.mono_us + lease_ms.saturating_sub(LEASE_SLACK_MS) * 1_000;
    }

    /// Whether the session may act.
    pub(crate) fn holds(&self, now: Now) -> bool {
        now.mono_us < self.stop_us
    }
}

/// A session's state.
pub(crate) struct State {
    pub(crate) config: SessionConfig,
    pub(crate) node: NodeId,
    pub(crate) phase: Phase,
    /// As the coordinator said.
    pub(crate) lease_ms: u64,
    /// Until when the session acts.
    pub(crate) lease: Lease,
    /// How often it has got another id.
    pub(crate) lives: u64,
    /// How often it has lost file locks: what was under way then changes nothing any more.
    pub(crate) lock_losses: u64,
    pub(crate) alone: Alone,
    pub(crate) changes: Changes,
    pub(crate) unsynced: Unsynced,
    /// Term of every shard as last heard; 0 before the first answer.
    pub(crate) terms: Vec<Term>,
    /// That of every data node that has answered.
    pub(crate) data_terms: BTreeMap<NodeId, Term>,
    /// The tracking epoch that each shard named last; 0 if the switch need not be asked.
    pub(crate) trackings: Vec<Tracking>,
    /// A slot of every shard, for requests that name no object.
    pub(crate) a_slot_of: Vec<HashSlot>,
    last_stamp: u64,
    last_seq: RequestSeq,
    /// Somebody waits for room in the window.
    pub(crate) window_full: bool,
    pub(crate) queue: VecDeque<FsRequest>,
    pub(crate) running: RunningTable,
    pub(crate) opens: Opens,
    pub(crate) held: HeldLocks,
    pub(crate) waiting: WaitingLocks,
    pub(crate) watching: bool,
    /// Owners whose locks are to be taken again.
    pub(crate) relock: BTreeSet<LockOwner>,
    /// Of every shard: owners in `relock`, and those whose locks are being taken again.
    pub(crate) relocking: Vec<usize>,
    /// Of every shard: restorations of what is open there that are under way.
    pub(crate) reopening: Vec<usize>,
    /// Requests that open something, under way when their shard restarted: it may have executed them before.
    pub(crate) opening: BTreeSet<(ShardId, RequestSeq)>,
    /// Turns taken (hashed [`WaitKey`]s).
    pub(crate) turns: HashSet<u64>,
    /// Questions for groups and their answers.
    pub(crate) callers: BTreeMap<u64, Option<ReadCaller>>,
    /// Questions how a caller waits, and their answers.
    pub(crate) kinds: BTreeMap<u64, Option<Option<bool>>>,
    pub(crate) last_ticket: u64,
    /// Of every path node: until then, monotonic microseconds, it is not asked, since it has not answered.
    pub(crate) paths_silent_until_us: Vec<u64>,
    pub(crate) ways: Ways,
    /// Inodes whose names a switch answers for.
    pub(crate) hot: HotNames,
    /// Files made by the first half of an open(2).
    pub(crate) halves: Halves,
    /// Files made without a name.
    pub(crate) nameless: u64,
    /// Releases under way, or waiting in `later`, that no request waits for.
    pub(crate) releases: usize,
    /// At most [`LATER_MAX`](crate::limits::LATER_MAX).
    pub(crate) later: Vec<Later>,
    /// Access times that homes are being told.
    pub(crate) accessing: Vec<InodeId>,
    /// Files that a switch has let this session open, of which [`Job::RegisterOpens`] tells homes if they are open then.
    pub(crate) opened_by_switch: HashSet<InodeId>,
    /// [`Job::TellLater`] runs.
    pub(crate) tells_later: bool,
    pub(crate) early_interrupts: VecDeque<u64>,
    /// What a bound session shows to data nodes, by inode; of others there is nothing.
    pub(crate) tickets: HashMap<InodeId, Ticket>,
}

impl State {
    pub(crate) fn new(mut config: SessionConfig) -> State {
        // Both rest on a host's trust.
        let is_anybody = config.identity.is_none();
        config.caches &= is_anybody;
        config.in_halves &= is_anybody;
        let shards = config.map.shards() as usize;
        let mut a_slot_of = vec![HashSlot(0); shards];
        for slot in (0..=u16::MAX).rev().map(HashSlot) {
            a_slot_of[config.map.shard(slot).0 as usize] = slot;
        }
        State {
            node: NodeId::session(config.session.id()),
            phase: Phase::Joining,
            lease_ms: SESSION_LEASE_MS,
            lease: Lease::default(),
            lives: 0,
            lock_losses: 0,
            alone: Alone::default(),
            changes: Changes::default(),
            unsynced: Unsynced::default(),
            terms: vec![Term(0); shards],
            data_terms: BTreeMap::new(),
            trackings: vec![Tracking::default(); shards],
            a_slot_of,
            last_stamp: 0,
            last_seq: RequestSeq(0),
            window_full: false,
            queue: VecDeque::new(),
            running: RunningTable::default(),
            opens: Opens::default(),
            held: HeldLocks::default(),
            waiting: WaitingLocks::new(),
            watching: false,
            relock: BTreeSet::new(),
            relocking: vec![0; shards],
            reopening: vec![0; shards],
            opening: BTreeSet::new(),
            turns: HashSet::new(),
            callers: BTreeMap::new(),
            kinds: BTreeMap::new(),
            last_ticket: 0,
            paths_silent_until_us: vec![0; config.map.path_nodes().count()],
            ways: Ways::new(config.kept_ways, shards),
            hot: HotNames::default(),
            halves: Halves::new(),
            nameless: 0,
            releases: 0,
            later: Vec::new(),
            accessing: Vec::new(),
            tells_later: false,
            opened_by_switch: HashSet::new(),
            early_interrupts: VecDeque::new(),
            tickets: HashMap::new(),
            config,
        }
    }

    /// Counters and table sizes; `places` for operations are kept.
    pub(crate) fn status(&self, places: u64) -> Vec<(&'static str, u64)> {
        let (handles, locks) = (self.opens.handles() as u64, (self.held.len() + self.waiting.len()) as u64);
        let queued = self.queue.len() as u64;
        let bytes = places * memory::REQUEST_AT_SESSION
            + handles * memory::OPEN_AT_SESSION
            + locks * memory::LOCK_AT_SESSION
            + queued * memory::REQUEST_QUEUED
            + self.unsynced.bytes();
        let mut all = vec![
            ("requests_running", self.running.len() as u64),
            ("requests_queued", queued),
            ("operations_at_once", places),
            ("handles_open", handles),
            ("file_locks", locks),
            ("table_bytes", bytes),
        ];
        all.extend(self.ways.status());
        all
    }

    /// A request of the session itself, which needs no permission.
    pub(crate) fn own_body(&self, request: Request) -> RequestBody {
        match &self.config.identity {
            None => RequestBody::of_session(request),
            Some(identity) => RequestBody { caller: identity.caller(), request },
        }
    }

    /// The reply itself, if it comes with a ticket, which is kept. Nothing if it makes no sense.
    pub(crate) fn take_ticket(&mut self, reply: Reply) -> Option<Reply> {
        let Reply::Shown { ticket, reply } = reply else { return Some(reply) };
        if self.tickets.len() >= 2 * self.opens.handles() + TICKETS_SPARE {
            let State { tickets, opens, .. } = self;
            tickets.retain(|id, _| opens.inode(*id).is_some());
        }
        self.tickets.insert(ticket.data.inode, ticket);
        Reply::inside(&reply)
    }

    /// A request to a data node, with the tickets that it needs.
    pub(crate) fn with_tickets(&self, request: DataRequest) -> DataRequest {
        let ticket = request.describe().data.and_then(|data| self.tickets.get(&data.inode));
        let Some(&ticket) = ticket else { return request };
        let source = match &request {
            DataRequest::Copy { from, .. } => self.tickets.get(&from.inode).copied(),
            _ => None,
        };
        DataRequest::Shown { ticket, source, request: Blob(request.to_bytes()) }
    }

    /// Whether all that it writes loses set-id bits, whatever the mount says of that: hosts take no word for it.
    pub(crate) fn always_kills(&self) -> bool {
        self.config.identity.as_ref().is_some_and(|identity| !identity.keeps_suid())
    }

    /// How a file is opened that shall be opened so.
    pub(crate) fn opening_as(&self, mode: OpenMode) -> OpenMode {
        OpenMode { kill_suidgid: mode.kill_suidgid || mode.truncate && self.always_kills(), ..mode }
    }

    /// The address of the shard that holds a slot.
    #[inline]
    pub(crate) fn shard_at(&self, slot: HashSlot) -> NodeId {
        NodeId::shard(self.config.map.shard(slot))
    }

    /// The path node to ask now, and its place among all: sessions take different ones, and while one is silent the next.
    pub(crate) fn path_node(&self, now_us: u64) -> Option<(usize, NodeId)> {
        let count = self.paths_silent_until_us.len();
        let first = (self.config.session.0 % count.max(1) as u64) as usize;
        let mut places = (first..count).chain(0..first);
        let place = places.find(|&place| self.paths_silent_until_us[place] <= now_us)?;
        Some((place, self.config.map.path_nodes().nth(place)?))
    }

    /// The receiver's term as last heard; 0 before the first answer.
    #[inline]
    pub(crate) fn term(&self, to: NodeId) -> Term {
        match to.as_shard() {
            Some(shard) => self.terms.get(shard.0 as usize).copied().unwrap_or_default(),
            None => self.data_terms.get(&to).copied().unwrap_or_default(),
        }
    }

    /// The tracking epoch in which readers of this shard's directories ask the switch.
    #[inline]
    pub(crate) fn tracking(&self, to: NodeId) -> Tracking {
        to.as_shard().and_then(|shard| self.trackings.get(shard.0 as usize).copied()).unwrap_or_default()
    }

    /// Learns from the home of an inode where its bytes are now.
    pub(crate) fn learn(&mut self, id: InodeId, data: DataRef) {
        let told_in = self.term(self.shard_at(id.slot()));
        self.opens.learn(id, told_in, data);
    }

    /// A new stamp.
    #[inline]
    fn stamp(&mut self, now: Now) -> Stamp {
        self.last_stamp = now.wall_ns.max(self.last_stamp + 1);
        Stamp(self.last_stamp)
    }

    /// The last stamp made or heard.
    pub(crate) fn last_stamp(&self) -> u64 {
        self.last_stamp
    }

    /// Follows a peer's clock, unless it is further ahead than clocks may be.
    #[inline]
    pub(crate) fn observe(&mut self, stamp: Stamp, now: Now) {
        if stamp.is_believed_at(now.wall_ns) {
            self.last_stamp = self.last_stamp.max(stamp.0);
        }
    }

    /// Writes what has changed since into a message that is sent again.
    pub(crate) fn restamp(&self, to: NodeId, packet: &mut Packet) {
        let mut header = packet.header().expect("a message that this session made");
        // The session may have begun anew since.
        header.source = self.node;
        header.seq = self.config.session.request(header.seq);
        header.term = self.term(to);
        if let Some(asked) = header.of_request_mut() {
            asked.taken = self.tells_taken(to);
            asked.tell_until(self.lease.until_ns);
            // What the request rests on stays what it was (schedule K6).
            if planted::is(Planted::PresentPosition) && asked.made_at.is_some() {
                let present = to.as_shard().and_then(|shard| self.ways.heard(self.ways.asks()?, shard));
                asked.made_at = present.or(asked.made_at);
            }
        }
        packet.restamp(&header);
    }

    /// Whether a request says to this peer that everything is taken again there.
    #[inline]
    fn tells_taken(&self, to: NodeId) -> bool {
        to.as_shard().is_some_and(|shard| self.has_taken(shard))
    }

    /// Whether everything that was held at a shard before it restarted is taken again there.
    pub(crate) fn has_taken(&self, shard: ShardId) -> bool {
        let at = shard.0 as usize;
        let opening =
            |shard| self.opening.range((shard, RequestSeq(0))..=(shard, RequestSeq(u64::MAX))).next().is_some();
        self.relocking[at] == 0 && self.reopening[at] == 0 && (self.opening.is_empty() || !opening(shard))
    }

    /// The locks held at a restarted shard are to be taken again.
    pub(crate) fn relock(&mut self, shard: ShardId) {
        let map = &self.config.map;
        for owner in self.held.owners(|id| map.home(id) == shard) {
            self.relocking[shard.0 as usize] += usize::from(self.relock.insert(owner));
        }
    }

    /// The next owner whose locks are to be taken again, and where.
    pub(crate) fn next_relock(&mut self) -> Option<(LockOwner, ShardId)> {
        let owner = self.relock.pop_first()?;
        Some((owner, self.config.map.home(owner.id)))
    }

    /// One owner's locks are taken again; true if nothing is missing at that shard any more.
    pub(crate) fn relocked(&mut self, shard: ShardId) -> bool {
        let left = &mut self.relocking[shard.0 as usize];
        *left = left.saturating_sub(1); // whoever was declared dead meanwhile has none
        self.has_taken(shard)
    }

    /// One restoration of what is open has ended; true if nothing is missing at that shard any more.
    pub(crate) fn reopened(&mut self, shard: ShardId) -> bool {
        let left = &mut self.reopening[shard.0 as usize];
        *left = left.saturating_sub(1); // as above
        self.has_taken(shard)
    }

    /// A request is answered; the shard at which nothing is missing any more because of that.
    pub(crate) fn opened(&mut self, shard: ShardId, seq: RequestSeq) -> Option<ShardId> {
        (self.opening.remove(&(shard, seq)) && self.has_taken(shard)).then_some(shard)
    }
}

impl Protocol for State {
    type Job = Job;
    type In = SessionIn;
    type Out = SessionOut;

    fn resend(&mut self, to: NodeId, packet: &mut Packet) {
        packet.innet = None; // the switch may be gone: its owner can tell without it
        self.restamp(to, packet);
    }
}

/// The sequence number of the oldest request that is not answered. A waiting lock counts as unanswered.
fn oldest(core: &Core<State>) -> Option<RequestSeq> {
    match (core.oldest_call(), core.state.waiting.first_key_value()) {
        (Some(call), Some((&wait, _))) => Some(call.min(wait)),
        (call, wait) => call.or(wait.map(|(&seq, _)| seq)),
    }
}

/// How many of the window's numbers are in use, counted from the oldest unanswered request.
pub(crate) fn window_used(core: &Core<State>) -> u64 {
    oldest(core).map_or(0, |oldest| core.state.last_seq.0 + 1 - oldest.0)
}

/// Whether `calls` further requests fit the window; requests of the mount leave a reserve.
#[inline]
pub(crate) fn window_has_room(core: &Core<State>, calls: usize, slot: Slot) -> bool {
    let limit = if slot == Slot::BACKGROUND { SESSION_WINDOW } else { SESSION_WINDOW - WINDOW_RESERVE };
    // An empty window takes any group of calls: there are fewer shards than numbers.
    window_used(core) + calls as u64 <= limit
}

/// The header of a request.
pub(crate) fn header(core: &mut Core<State>, kind: MessageKind, to: NodeId, slot: HashSlot, seq: RequestSeq) -> Header {
    let behind = oldest(core).map_or(0, |oldest| seq.0.saturating_sub(oldest.0));
    let now = core.now;
    let state = &mut core.state;
    state.last_seq = state.last_seq.max(seq);
    let mut header = Header::new(kind, state.node, state.config.session.request(seq));
    header.cluster = state.config.cluster;
    header.term = state.term(to);
    if let Some(asked) = header.of_request_mut() {
        asked.oldest_behind = u32::try_from(behind).expect("the window is bounded");
        asked.taken = state.tells_taken(to);
        asked.tell_until(state.lease.until_ns);
    }
    header.slot = slot;
    header.stamp = state.stamp(now);
    header
}

/// Lets those look again who wait for room in the window.
#[inline]
pub(crate) fn wake_window(core: &mut Core<State>) {
    if core.state.window_full {
        core.state.window_full = false;
        core.wake(WaitKey::Window.hash());
    }
}
