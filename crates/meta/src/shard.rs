//! The metadata shard as a role: inputs become jobs, jobs become operations.

use crate::Core;
use crate::bounds::ShardBounds;
use crate::cached::Asked;
use crate::dir::epoch::Tracked;
use crate::dir::holders::Holder;
use crate::dir::owner::SyncPolicy;
use crate::files;
use crate::files::table::Looked;
pub(crate) use crate::job::Job;
use crate::ops::{self, Req};
use crate::planted::{self, Planted};
use crate::state::commit::commit_unasked;
use crate::state::recover::{Reflected, Replayed};
use crate::state::replies::Seen;
use crate::state::{State, keys};
use crate::{cached, coord, dir, txn};
use onpath_kernel::{Input, Kernel, Now, Output, Role};
use onpath_wire::codec::Reader;
use onpath_wire::codec::Wire;
use onpath_wire::data::Merge;
use onpath_wire::disk::map::MapImage;
use onpath_wire::disk::record::{Counter, Effect};
use onpath_wire::header::{HEADER_BYTES, Header, MessageKind};
use onpath_wire::ids::{
    Birth, InodeId, NodeClass, NodeId, RecordSeq, RequestSeq, SessionId, SessionNumber, ShardId, Term,
};
use onpath_wire::innet::{InNet, VisibilityOp};
use onpath_wire::limits::{OPERATIONS_MAX, SESSION_WINDOW};
use onpath_wire::map::ClusterMap;
use onpath_wire::packet::Packet;
use onpath_wire::peer::{Peer, TxnPart};
use onpath_wire::reply::Reply;
use onpath_wire::report::OperationReport;
use onpath_wire::request::RequestBody;
use onpath_wire::request::describe::{Changes, Description, Repeated};
use onpath_wire::secrets::Inner;
use onpath_wire::tracking::{Form, Switches, Tracking, Writes};

/// What a shard is started with.
#[derive(Clone, Debug)]
pub struct ShardConfig {
    /// Which shard.
    pub shard: ShardId,
    /// Slots and shards.
    pub map: ClusterMap,
    /// This start, taken durably before.
    pub term: Term,
    /// All shards have their records in the journal of this one, so that births of their inodes can be compared.
    pub one_journal: bool,
    /// Path nodes are in the same process, and begin anew when it does: they hold nothing of a former term.
    pub ends_path_nodes: bool,
    /// What keys its tables of names and the order of its listings; no client knows it.
    pub inner: Inner,
    /// Low half of the fsid.
    pub cluster: u32,
    /// Outputs may have to wait for the disk: replies say what they rest on.
    pub track_unsynced: bool,
    /// Sessions live on when this host loses power, and are answered before its disk has what they hear: replies name the record.
    pub outlived: bool,
    /// How directories shall be tracked; the coordinator sees to it while the switch is there.
    pub form: Form,
    /// The switches that there shall be; the coordinator uses those that are there.
    pub switches: Switches,
    /// Which directories go into *sync*.
    pub sync: SyncPolicy,
    /// An acknowledged mark covers later updates too; else every update is marked, as SwitchFS does.
    pub sticky_marks: bool,
    /// Who answers writes of files (V-1).
    pub writes: Writes,
    /// The tables of switches show answered writes of files, where directories are tracked in them too.
    pub shows_files: bool,
    /// How much may wait for other nodes.
    pub bounds: ShardBounds,
}

impl ShardConfig {
    /// Whether nothing that this shard says of a record leaves the process before that is durable.
    pub(crate) fn tells_durably(&self) -> bool {
        self.track_unsynced && !self.outlived
    }
}

/// The first birth that none of the shards of a journal has reserved.
pub fn next_birth(shards: &[Shard]) -> Birth {
    Birth::after(shards.iter().map(|shard| shard.reserved(Counter::Births)).max().unwrap_or(0))
}

/// A metadata shard.
pub struct Shard {
    pub(crate) kernel: Kernel<State>,
    pub(crate) reflected: Reflected,
    pub(crate) replayed: Replayed,
    /// What is replayed was not known to be durable when the last process ended.
    pub(crate) in_tail: bool,
}

impl Shard {
    /// A shard without state; load images and replay records, then [`start`](Shard::start) it.
    pub fn new(config: ShardConfig) -> Shard {
        let first_call = RequestSeq(config.term.first_seq());
        let track = config.track_unsynced;
        let kernel = Kernel::new(State::new(config), first_call, track, ops::run);
        Shard { kernel, reflected: Reflected::default(), replayed: Replayed::default(), in_tail: false }
    }

    /// Power was lost: records replayed from now on were not known to be durable when the last process ended.
    pub fn begin_tail(&mut self) {
        self.in_tail = true;
    }

    /// Records up to `upto` were durable then after all, as a later part of the journal says.
    pub fn tail_was_durable(&mut self, upto: RecordSeq) {
        self.kernel.with(|core| core.state.kept = core.state.kept.max(upto));
    }

    /// Up to where its records have reserved numbers of this kind; 0 if they have none.
    pub fn reserved(&self, counter: Counter) -> u64 {
        self.kernel.with(|core| core.state.reserved.upto(counter))
    }

    /// Numbers of this kind up to here count as given out from now on.
    pub fn reserve(&mut self, counter: Counter, upto: u64) {
        self.kernel.with(|core| commit_unasked(core, Effect::Reserved { counter, upto }));
    }

    /// Takes numbers for sessions to come, at most so many, none of which was ever taken: they may be told when what is recorded so
    /// far is durable. None if all are used up.
    pub fn take_sessions(&mut self, count: u32) -> Vec<SessionNumber> {
        self.kernel.with(|core| coord::sessions::take(core, count))
    }

    /// Takes a number for the session of this process's own mount, which ends with it.
    pub fn take_resident(&mut self) -> Option<SessionNumber> {
        self.kernel.with(coord::sessions::take_resident)
    }

    /// Begins to serve: the root exists afterwards, and what a former term left undone goes on. `first`: the birth of the first inodes
    /// of this start, above all that shards of the journal have reserved.
    pub fn start(&mut self, now: Now, first: Birth) {
        let in_tail = self.in_tail;
        self.kernel.handle(now, Input::Tick, |core, _| {
            core.state.begin_births(first);
            let wall = core.now.wall_ns;
            core.state.clock.stamp(wall);
            core.state.dirs.begin_term(core.now.mono_us);
            core.state.replies.begin_term();
            let promised = core.state.txns.prepared_ids();
            if !promised.is_empty() {
                core.state.txns.asker_runs = true;
                core.start(Job::AskDecisions);
            }
            promised.into_iter().for_each(|txn| core.start(Job::Resume(txn)));
            core.state.kept_since = core.state.power_lost;
            if in_tail {
                let term = core.state.config.term;
                commit_unasked(core, Effect::PowerLost { term });
            }
            ops::root::ensure(core);
            for txn in core.state.txns.decided_ids() {
                core.start(Job::Finish(txn));
            }
            for dir in core.state.dirs.unapplied() {
                core.start(Job::Conceal(dir));
                core.start(Job::Push(dir));
            }
            let pending: Vec<_> = core.state.data_pending.keys().copied().collect();
            for (data, cut, drop) in pending {
                if drop {
                    ops::datapending::drop_later(core, data);
                } else {
                    core.start(Job::Trim(data, cut, RecordSeq(0)));
                }
            }
            core.start(Job::Grace);
            if core.state.config.map.coordinator() == core.state.me() {
                let now_us = core.now.mono_us;
                let dead = core.state.coordinator.begin(core.state.config.term, now_us);
                dead.into_iter().for_each(|session| core.start(Job::Bury(session)));
                core.start(Job::Leases);
                core.start(Job::RenameTurns);
            }
            core.start(Job::LockGrace);
            files::holders::begin(core);
            cached::begin(core);
            dir::epoch::begin(core);
            coord::tracking::begin(core);
        });
    }

    /// Whether only what frees space may be accepted (design.md, "Durability").
    pub fn set_full(&mut self, full: bool) {
        self.kernel.with(|core| core.state.full = full);
    }

    /// From now on directories shall be tracked so. The shard of the coordinator sees to it; others hear of it from that one.
    pub fn set_tracking(&mut self, now: Now, form: Form, switches: Switches) {
        self.kernel.handle(now, Input::Tick, |core, _| coord::tracking::set(core, form, switches));
    }

    /// How directories are tracked, as far as this shard has heard.
    pub fn tracking(&self) -> Tracking {
        self.kernel.with(|core| core.state.epochs.site)
    }

    /// The map of the file system, if this is the shard that keeps it.
    pub fn map(&self) -> Option<MapImage> {
        self.kernel.with(|core| core.state.coordinator.map.clone())
    }

    /// What the replay of this start did.
    pub fn replayed(&self) -> Replayed {
        self.replayed
    }

    /// Requests of clients and merges of data nodes that it has answered, by their kind.
    pub fn operations(&self) -> Vec<OperationReport> {
        self.kernel.with(|core| core.state.meter.operations())
    }

    /// Named counters, for `onpath status`.
    pub fn status(&self) -> Vec<(&'static str, u64)> {
        let places = self.kernel.places();
        let (mut counters, bytes) =
            self.kernel.with(|core| (core.state.status(core.now.mono_us), core.state.table_bytes(places)));
        counters.push(("operations_at_once", places as u64));
        counters.push(("table_bytes", bytes));
        counters
    }
}

impl Shard {
    /// What this shard knows of a directory, or of the writes of a file, as named numbers; nothing if it has nothing to do with it.
    pub fn inspect(&self, dir: InodeId) -> Vec<(&'static str, u64)> {
        self.kernel.with(|core| dir::inspect::inspect(core, dir))
    }
}

impl Role for Shard {
    type In = ();
    type Out = ();

    fn handle(&mut self, now: Now, input: Input<()>) {
        self.kernel.handle(now, input, |core, input| {
            if core.state.full {
                ops::opens::end_all_lingering(core);
            }
            match input {
                Input::Packet(packet) => receive(core, packet),
                Input::Durable(seq) => {
                    core.state.lent.durable(seq);
                    if core.state.births.durable(seq) {
                        core.wake(keys::BIRTH);
                    }
                }
                Input::Tick | Input::Own(()) => {}
            }
        });
    }

    fn poll_output(&mut self) -> Option<Output<()>> {
        self.kernel.poll_output()
    }

    fn next_deadline(&self) -> Option<u64> {
        self.kernel.next_deadline()
    }
}

/// Whether nodes of this class send a shard messages of this kind.
fn may_speak(kind: MessageKind, class: Option<NodeClass>) -> bool {
    match kind {
        MessageKind::Request => class == Some(NodeClass::Session),
        MessageKind::Peer => matches!(class, Some(NodeClass::Shard | NodeClass::Path | NodeClass::Controller)),
        MessageKind::Data => class == Some(NodeClass::Data),
        MessageKind::PeerAnswer => {
            use NodeClass::{Controller, Data, Path, Shard, Switch};
            matches!(class, Some(Shard | Data | Switch | Path | Controller))
        }
        MessageKind::Reply | MessageKind::DataReply | MessageKind::Switch => false,
    }
}

fn receive(core: &mut Core, packet: Packet) {
    let Ok(header) = packet.header() else {
        core.state.counters.malformed += 1;
        return;
    };
    // An answer of a data node to a session, of which the home hears by the switch.
    if let Some(InNet::Visibility(install)) = packet.innet.as_deref()
        && install.op() == Some(VisibilityOp::Install)
    {
        return files::table::installed(core, install);
    }
    // A mark that comes back from the switch: the header in front of it counts alone.
    if header.source == NodeId::shard(core.state.me())
        && let Some(innet) = &packet.innet
    {
        if let InNet::Cache(_) = &**innet {
            core.answer(header.seq, packet); // an invalidate that the switch has answered
            return;
        }
        return dir::mark::answered(core, innet);
    }
    if !may_speak(header.kind(), header.source.class()) {
        core.state.counters.malformed += 1;
        return;
    }
    if !core.state.clock.observe(header.stamp, core.now.wall_ns) {
        core.state.counters.skewed += 1;
        return;
    }
    if let Some(shard) = header.source.as_shard() {
        let heard = core.state.heard_in.entry(shard).or_default();
        *heard = header.term.max(*heard);
    }
    let taken = match header.kind() {
        MessageKind::Request => request(core, &header, &packet),
        MessageKind::Peer => peer(core, &header, &packet),
        MessageKind::Data => packet.body::<Merge>().and_then(Merge::check).map(|merge| {
            core.start(Job::Merge { from: header.source, seq: header.seq, merge });
        }),
        MessageKind::PeerAnswer => {
            if dir::group::counts(core, header.seq, header.source, &packet) {
                core.answer(header.seq, packet);
            }
            Ok(())
        }
        MessageKind::Reply | MessageKind::DataReply | MessageKind::Switch => Ok(()), // refused above
    };
    if taken.is_err() {
        core.state.counters.malformed += 1;
    }
}

/// Requests of another term are not executed: the client is told and sends again.
fn request(core: &mut Core, header: &Header, packet: &Packet) -> Result<(), onpath_wire::WireError> {
    let session = header.source.as_session().expect("checked by class");
    let forwarded = header.of_request().is_some_and(|asked| asked.forwarded);
    if header.term != core.state.config.term && !forwarded && !(planted::is(Planted::AnyTerm) && header.term.0 != 0) {
        core.state.counters.wrong_term += 1;
        let reply = core.state.reply_packet(header.seq, &Reply::NewTerm { term: core.state.config.term });
        core.send_after(header.source, reply, RecordSeq(0), onpath_kernel::Need::ByDestination);
        return Ok(());
    }
    let mut body: RequestBody = packet.body()?;
    let way = body.request.take_way().map(Box::new);
    let what = body.request.describe();
    if forwarded && (what.changes != Changes::NOTHING || what.repeated != Repeated::Executed) {
        return Err(onpath_wire::WireError::Bad("forwarded request that changes something"));
    }
    let number = SessionNumber::of(session, header.seq);
    if is_of_the_dead(core, number, &what) {
        return Ok(());
    }
    let until_ns = if what.leased { header.until_ns() } else { u64::MAX };
    if header.of_request().is_some_and(|asked| asked.taken) {
        ops::lockgrace::heard(core, number);
    }
    let behind = header.of_request().map_or(0, |asked| u64::from(asked.oldest_behind));
    if behind >= SESSION_WINDOW || behind > header.seq.0 {
        return Err(onpath_wire::WireError::Bad("request outside of its session's window"));
    }
    if what.is_remembered() && !core.state.replies.has_room(session, header.oldest()) && is_new(core, session, header) {
        core.state.counters.busy += 1;
        return Ok(()); // it comes again
    }
    if is_behind(core, session, header) {
        return Ok(());
    }
    let must_live = packet.bound && ops::living::is_needed(&what);
    if must_live && !ops::living::has_room(core, number) {
        core.state.counters.busy += 1;
        return Ok(()); // it comes again
    }
    let running = &mut core.state.running;
    if running.len() >= OPERATIONS_MAX && what.waits {
        if !running.contains(&(session, header.seq)) {
            refuse(core, header, session, what.is_remembered());
        }
        return Ok(());
    }
    if !running.insert((session, header.seq)) {
        return Ok(()); // a copy of one that runs: the first will answer
    }
    core.state.counters.requests += 1;
    let req = Req {
        from: header.source,
        session,
        seq: header.seq,
        oldest: header.oldest(),
        until_ns,
        caller: body.caller,
        bound: packet.bound.then(|| what.about.inode().unwrap_or(InodeId::ROOT)),
        must_live,
        way,
        tracked: Tracked::of(packet),
        looked: Looked::of(packet),
        early: what.early,
        remembered: what.is_remembered(),
        kind: what.counted,
        since_us: core.now.mono_us,
    };
    core.start(Job::Request(Box::new((req, body.request))));
    Ok(())
}

/// Whether the session of a request is known to be dead.
fn is_of_the_dead(core: &mut Core, session: SessionNumber, what: &Description<'_>) -> bool {
    if core.state.buried.contains(session) && !what.is_of_session() {
        return true; // a late copy: nobody waits for an answer
    }
    let returns = !what.again || core.state.returning.may(session);
    if !returns {
        ops::opens::bury(core, session); // the coordinator will tell it
    }
    !returns
}

/// Answers a request that comes by ways which may not be right any more (P-5). Who has been answered before gets that answer, whatever was
/// heard since (schedule K5).
fn is_behind(core: &mut Core, session: SessionId, header: &Header) -> bool {
    let Some(heard) = header.of_request().and_then(|asked| asked.made_at) else { return false };
    let is_known = core.state.running.contains(&(session, header.seq)) || !is_new(core, session, header);
    if is_known && !planted::is(Planted::BehindAlthoughDone) {
        return false;
    }
    let Some(reply) = dir::ways::behind(core, heard) else { return false };
    let reply = core.state.reply_packet(header.seq, &reply);
    core.send_after(header.source, reply, RecordSeq(0), onpath_kernel::Need::ByDestination);
    true
}

/// Whether nothing is known of a request.
fn is_new(core: &Core, session: SessionId, header: &Header) -> bool {
    matches!(core.state.replies.seen(session, header.seq), Seen::New)
}

/// Too much is in progress. The client goes on under another number, so a late copy of this request must find the answer.
fn refuse(core: &mut Core, header: &Header, session: SessionId, is_remembered: bool) {
    core.state.counters.busy += 1;
    if is_remembered && is_new(core, session, header) {
        core.state.replies.remember(session, header.seq, header.oldest(), Reply::Busy, false);
    }
    let reply = core.state.reply_packet(header.seq, &Reply::Busy);
    core.send_after(header.source, reply, RecordSeq(0), onpath_kernel::Need::ByDestination);
}

/// What a controller asks for.
fn controller(core: &mut Core, header: &Header, peer: Peer) -> Result<(), onpath_wire::WireError> {
    let (from, seq) = (header.source, header.seq);
    match peer {
        Peer::CacheLeaseAsk { epoch, numbers, registry } => {
            core.start(Job::CacheLease { from, seq, epoch, numbers, registry });
        }
        Peer::Lend { parent, name, token, number, epoch, switch } if token != 0 && number != 0 && epoch != 0 => {
            let is_root = name.is_none();
            if is_root != (parent == InodeId::NONE) || is_root && !core.state.is_home(InodeId::ROOT) {
                return Err(onpath_wire::WireError::Bad("a name to be lent"));
            }
            core.start(Job::Lend(Box::new(Asked { from, seq, name: (parent, name), token, number, epoch, switch })));
        }
        Peer::Evicted { parent, name, number, epoch } => cached::evicted(core, (parent, name), number, epoch),
        _ => return Err(onpath_wire::WireError::Bad("a question of a controller")),
    }
    Ok(())
}

fn peer(core: &mut Core, header: &Header, packet: &Packet) -> Result<(), onpath_wire::WireError> {
    let mut r = Reader::new(packet.head.get(HEADER_BYTES..).unwrap_or_default());
    let peer = Peer::take(&mut r)?;
    r.finish()?;
    if header.source.class() == Some(NodeClass::Controller) {
        return controller(core, header, peer);
    }
    let Some(from) = header.source.as_shard() else {
        let from = Holder { node: header.source, incarnation: header.term };
        if !core.state.config.map.path_nodes().any(|node| node == from.node) {
            return Err(onpath_wire::WireError::Bad("a path node that is not there"));
        }
        core.start(Job::PathNode { from, seq: header.seq, peer: Box::new(peer) });
        return Ok(());
    };
    if peer.of_its_coordinator().is_some_and(|txn| txn.coordinator != from) {
        return Err(onpath_wire::WireError::Bad("an attempt of another shard"));
    }
    if matches!(&peer, Peer::Prepare { parts, .. } if parts.iter().any(TxnPart::is_of_coordinator)) {
        return Err(onpath_wire::WireError::Bad("a part that nobody else is asked for"));
    }
    match peer {
        // Answers to a participant's question: it waits for them by name.
        Peer::Decided { txn } => txn::participant::told(core, txn, true),
        Peer::Abort { txn } => txn::participant::told(core, txn, false),
        // Behind its remove, which the switch has answered.
        Peer::Collect { group, job } => match packet.innet.as_ref().filter(|innet| innet.result != 0) {
            Some(innet) => core.start(Job::Collect { from, seq: header.seq, group, job, round: innet.sequence }),
            None => return Err(onpath_wire::WireError::Bad("collect without a remove")),
        },
        peer => core.start(Job::Peer { from, term: header.term, seq: header.seq, peer: Box::new(peer) }),
    }
    Ok(())
}
