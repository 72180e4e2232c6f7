//! What starts an operation of a shard, and which one.

use crate::dir::holders::Holder;
use crate::ops::{self, Req, kinds};
use crate::state::keys;
use crate::{Cx, cached, coord, dir, files, txn};
use onpath_wire::data::{Merge, Pending};
use onpath_wire::ids::{DataId, InodeId, JobId, NodeId, RecordSeq, RequestSeq, SessionNumber, ShardId, Term, TxnId};
use onpath_wire::innet::Fingerprint;
use onpath_wire::peer::{Peer, part};
use onpath_wire::report::Outcome;
use onpath_wire::request::Request;
use onpath_wire::request::describe::Counted;
use onpath_wire::tracking::Tracking;

/// What starts an operation.
pub(crate) enum Job {
    /// A client's request.
    Request(Box<(Req, Request)>),
    /// Bytes were written.
    Merge { from: NodeId, seq: RequestSeq, merge: Merge },
    /// A collect of the network form; `round` is the counter of its remove.
    Collect { from: ShardId, seq: RequestSeq, group: Fingerprint, job: JobId, round: u32 },
    /// A message of another shard that needs an operation.
    Peer { from: ShardId, term: Term, seq: RequestSeq, peer: Box<Peer> },
    /// A message of a path node.
    PathNode { from: Holder, seq: RequestSeq, peer: Box<Peer> },
    /// A controller wants the entry of a name to be filled.
    Lend(Box<cached::Asked>),
    /// Fill an entry again.
    Refill(InodeId),
    /// Have the entries of former terms dropped.
    DropLent,
    /// See to it that an epoch of the cache is over, or all are: 0.
    EndCacheEpoch(u16),
    /// It wants a lease.
    CacheLease { from: NodeId, seq: RequestSeq, epoch: u16, numbers: bool, registry: u64 },
    /// Ask the owner for grants.
    AskGrant(InodeId),
    /// Answer those who waited for grants while a job ran.
    GiveGrants(InodeId),
    /// Keep what hidden entries of a change-log are about locked.
    Conceal(InodeId),
    /// Push a change-log.
    Push(InodeId),
    /// Push what has been idle for long.
    Pusher,
    /// Tell owners the floor.
    RaiseFloor,
    /// Repeat a commit until all participants have it.
    Finish(TxnId),
    /// A prepared transaction of a former term waits for its decision.
    Resume(TxnId),
    /// Ask coordinators about promises.
    AskDecisions,
    /// Take back parts of a directory that a transaction wants to remove, or to move.
    Seal(InodeId, u8),
    /// Wake those who wait for grants of a directory no longer than until then, microseconds.
    WakeGrants(InodeId, u64),
    /// Watch the holder of the rename lock.
    WatchRename,
    /// Reclaim orphans whose names were taken over a moment ago.
    Linger,
    /// Ask sessions to write back what they have changed of a file in memory.
    WriteBack(InodeId),
    /// Wake those who wait for pages of a file no longer than until then, microseconds.
    WakePages(InodeId, u64),
    /// Tell a data node of a shrink.
    Trim(DataId, u32, RecordSeq),
    /// Tell a data node what is gone.
    Drops(NodeId),
    /// Take back all merge parts that former terms have given to a data node.
    TakeBackAll(NodeId),
    /// Take back the merge part of a file.
    TakeBack(InodeId),
    /// Reclaim an orphan that nobody has open.
    Reclaim(InodeId),
    /// A session is dead: tell all shards.
    Bury(SessionNumber),
    /// Watch the leases of sessions.
    Leases,
    /// Ask the session that is alone to hand back, as long as others wait.
    AskBack,
    /// Ask everybody whether a directory is still being moved.
    RenameTurns,
    /// Orphans may be reclaimed once every session had time to register its opens again.
    Grace,
    /// Ask the coordinator module whether a bound session lives.
    AskLiving(SessionNumber),
    /// New file locks are given once every session had time to take its own again.
    LockGrace,
    /// Send marks of a group until nobody waits for one.
    Mark(Fingerprint),
    /// Take the append parts of a directory back.
    Recall(InodeId),
    /// Mark a group at its owner.
    MarkAtOwner(Fingerprint),
    /// Ask whether the collect that holds a group is over.
    WatchHold(Fingerprint),
    /// Tell the switch our term.
    Announce(NodeId),
    /// Look after the switch and the tracking epochs.
    WatchSwitch,
    /// Tell everybody of the last tracking epoch once more.
    TellTracking,
    /// Tell data nodes of a tracking epoch.
    TrackFiles(Tracking),
    /// Answer a write that no table shows.
    PassOn(Box<Pending>),
}

impl Job {
    /// Runs operations that are not a client's.
    pub(crate) async fn run(self, cx: Cx) {
        match self {
            Job::Request(_) => unreachable!("requests have their own way in"),
            Job::Merge { from, seq, merge } => {
                let since_us = cx.with(|core| core.now.mono_us);
                ops::merge::run(&cx, from, seq, merge).await;
                cx.with(|core| kinds::count(core, Counted::Merge, since_us, Outcome::Ok));
            }
            Job::Collect { from, seq, group, job, round } => {
                dir::mark::collected(&cx, from, seq, group, job, round).await;
            }
            Job::Peer { from, term, seq, peer } => Box::pin(peer_job(&cx, from, term, seq, *peer)).await,
            Job::PathNode { from, seq, peer } => match *peer {
                Peer::GrantAsk { dir, parts, .. } => dir::owner::asked(&cx, from, seq, dir, parts),
                Peer::DirectoryAsk { parent, name } => {
                    Box::pin(ops::lookup::directory(&cx, from, seq, parent, &name)).await;
                }
                Peer::PathsAsk { from: begin } => cx.with(|core| dir::load::asked(core, cx.op(), from, seq, begin)),
                Peer::PathLeaseAsk => cx.with(|core| dir::leases::asked(core, cx.op(), from.node, seq)),
                _ => cx.with(|core| core.state.counters.malformed += 1),
            },
            Job::Lend(asked) => Box::pin(cached::lend(&cx, *asked)).await,
            Job::Refill(id) => Box::pin(cached::refill(&cx, id)).await,
            Job::DropLent => Box::pin(cached::drop_lent(&cx)).await,
            Job::EndCacheEpoch(epoch) => Box::pin(cached::end_epoch(&cx, epoch)).await,
            Job::CacheLease { from, seq, epoch, numbers, registry } => {
                coord::cache::asked(&cx, from, seq, epoch, numbers, registry);
            }
            Job::AskGrant(dir) => dir::site::ask(&cx, dir).await,
            Job::GiveGrants(dir) => dir::owner::give_waiting(&cx, dir),
            Job::Conceal(dir) => dir::site::conceal(&cx, dir).await,
            Job::Push(dir) => dir::push::push(&cx, dir).await,
            Job::Pusher => dir::push::idle(&cx).await,
            Job::RaiseFloor => dir::push::raise_floor(&cx).await,
            Job::Finish(txn) => txn::coordinator::finish(&cx, txn).await,
            Job::Resume(txn) => txn::participant::resume(&cx, txn).await,
            Job::Linger => ops::opens::end_lingering(&cx).await,
            Job::WriteBack(id) => ops::pages::ask(&cx, id).await,
            Job::WakePages(id, at_us) => {
                cx.sleep_until(at_us).await;
                cx.with(|core| core.wake(keys::pages(id)));
            }
            Job::AskDecisions => txn::participant::ask_decisions(&cx).await,
            Job::Seal(dir, parts) => dir::collect::seal(&cx, dir, parts).await,
            Job::WakeGrants(dir, at_us) => {
                cx.sleep_until(at_us).await;
                cx.with(|core| core.wake(keys::grants(dir)));
            }
            Job::WatchRename => coord::renames::watch(&cx).await,
            Job::Trim(data, cut, after) => ops::datapending::trim(&cx, data, cut, after).await,
            Job::Drops(node) => ops::datapending::drops(&cx, node).await,
            Job::TakeBackAll(node) => files::holders::take_back_all(&cx, node).await,
            Job::TakeBack(id) => files::holders::take_back_one(&cx, id).await,
            Job::Reclaim(id) => ops::opens::reclaim(&cx, id).await,
            Job::Bury(session) => coord::sessions::bury(&cx, session).await,
            Job::AskBack => coord::alone::ask_back(&cx).await,
            Job::Leases => coord::sessions::watch(&cx).await,
            Job::RenameTurns => coord::renames::begin(&cx).await,
            Job::Grace => ops::opens::grace(&cx).await,
            Job::AskLiving(session) => ops::living::ask(&cx, session).await,
            Job::LockGrace => ops::lockgrace::run(&cx).await,
            Job::Mark(group) => dir::mark::keep(&cx, group).await,
            Job::Recall(dir) => dir::holders::revoke(&cx, dir, part::APPEND).await,
            Job::MarkAtOwner(group) => dir::mark::at_owner(&cx, group).await,
            Job::WatchHold(group) => dir::mark::watch_hold(&cx, group).await,
            Job::Announce(switch) => dir::epoch::announce(&cx, switch).await,
            Job::WatchSwitch => Box::pin(coord::tracking::watch(&cx)).await,
            Job::TellTracking => Box::pin(coord::tracking::tell_again(&cx)).await,
            Job::TrackFiles(tracking) => Box::pin(coord::tracking::track_files(&cx, tracking)).await,
            Job::PassOn(pending) => Box::pin(files::table::pass_on(&cx, *pending)).await,
        }
    }
}

async fn peer_job(cx: &Cx, from: ShardId, term: Term, seq: RequestSeq, peer: Peer) {
    match peer {
        Peer::CacheHolderAsk => coord::cache::holder(cx, NodeId::shard(from), seq),
        Peer::CacheEnd { epoch } => coord::cache::end(cx, NodeId::shard(from), seq, epoch).await,
        Peer::GrantAsk { dir, parts, .. } => {
            let holder = Holder { node: NodeId::shard(from), incarnation: term };
            dir::owner::asked(cx, holder, seq, dir, parts);
        }
        Peer::Recall { dir, parts, job } => dir::site::recalled(cx, from, seq, dir, parts, job).await,
        Peer::ForgetWays { dir } => dir::ways::told(cx, from, seq, dir),
        Peer::Applied { dir, upto } => dir::site::applied(cx, from, dir, upto),
        Peer::Push { dir, batch } => dir::owner::pushed(cx, from, seq, dir, batch),
        Peer::Floor { upto } => dir::owner::floor(cx, NodeId::shard(from), seq, upto),
        Peer::HomeRead { id } => ops::getattr::home_read(cx, from, seq, id).await,
        Peer::ParentOf { dir } => ops::getattr::parent_of(cx, from, seq, dir),
        peer @ Peer::Prepare { .. } => txn::participant::prepare(cx, from, seq, peer).await,
        Peer::Commit { txn } => txn::participant::commit(cx, from, seq, txn).await,
        Peer::Confirm { txn } => txn::participant::confirm(cx, from, seq, txn),
        Peer::Ask { txn } => txn::coordinator::asked(cx, from, txn),
        Peer::SessionsAsk => ops::lockgrace::asked(cx, from, seq),
        Peer::SessionAsk { session } => ops::living::asked(cx, from, seq, session),
        Peer::SessionDead { session } => ops::opens::session_dead(cx, from, seq, session),
        Peer::RenameLock { txn, uid, since } => coord::renames::lock(cx, from, seq, txn, uid, since).await,
        Peer::RenameTurns { term } => coord::renames::turns(cx, from, seq, term).await,
        Peer::RenameUnlock { txn, moved } if moved.len() <= 2 => coord::renames::unlock(cx, from, seq, txn, &moved),
        Peer::MarkAtOwner { group } => dir::group::marked(cx, from, seq, group),
        Peer::Release { group, job } => dir::mark::released(cx, from, group, job),
        Peer::HoldAsk { group, job } => cx.with(|core| dir::group::release_unless_running(core, from, group, job)),
        Peer::Track { side, tracking } => dir::epoch::track(cx, from, seq, side, tracking).await,
        Peer::RenameOver { txn } => txn::coordinator::over(cx, from, seq, txn).await,
        _ => cx.with(|core| core.state.counters.malformed += 1),
    }
}
