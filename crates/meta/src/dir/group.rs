//! Collects in the network form, at the owner: a remove to the switch and a question behind it.
//!
//! All directories of one fingerprint are one group to the switch: a remove takes the mark of all of them, so all their holders
//! are asked, and while that goes on all their readers wait and no append part of theirs is granted.

use super::epoch;
use super::owner::{self, apply_batch, found, table};
use crate::planted::{self, Planted};
use crate::shard::Job;
use crate::state::{keys, packets};
use crate::{Core, Cx};
use onpath_kernel::{Answer, Need};
use onpath_wire::ids::{InodeId, JobId, NodeId, RecordSeq, RequestSeq, ShardId};
use onpath_wire::innet::{DirtySetOp, Fingerprint};
use onpath_wire::packet::Packet;
use onpath_wire::peer::{Peer, part};
use onpath_wire::tracking::Form;
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// A collect that is not answered for so long is given up: the switch may be gone, and parts are recalled without it, microseconds.
const COLLECT_TIMEOUT_US: u64 = 100_000;

/// What the owner knows of a group. Volatile.
#[derive(Default, Debug)]
pub(crate) struct Group {
    /// The collect that runs.
    job: Option<JobId>,
    /// Something was applied outside a collect since the last one, or one was given up: whatever the switch says, the group is
    /// scattered.
    applied: bool,
    /// A site has marked the group here since the last collect or complete recall: whatever the switch says, the group is scattered for
    /// readers that come after that.
    marked: bool,
    /// Collects completed.
    done: u64,
    /// Directories with a table.
    members: SmallVec<[InodeId; 1]>,
}

impl Group {
    /// Whether a collect runs.
    pub(crate) fn collecting(&self) -> bool {
        self.job.is_some()
    }

    /// Whether the group is scattered whatever the switch says.
    pub(crate) fn applied(&self) -> bool {
        self.applied && !planted::is(Planted::PushedUnnoticed)
    }

    /// Whether a site has marked the group here.
    pub(crate) fn marked(&self) -> bool {
        self.marked
    }

    /// Everything of its only directory was recalled.
    pub(crate) fn recalled(&mut self) {
        self.marked &= self.members.len() > 1;
    }

    /// Collects completed so far.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// A directory has no table any more. True if it was the last one of a group in which nothing goes on.
    pub(crate) fn leaves(&mut self, dir: InodeId) -> bool {
        self.members.retain(|member| *member != dir);
        self.members.is_empty() && self.job.is_none()
    }

    /// A directory has a table now.
    pub(crate) fn joins(&mut self, dir: InodeId) {
        self.members.push(dir);
    }
}

/// Something was applied outside a collect: a push, a name of our own, entries of a recall that is not complete.
pub(crate) fn applied_outside(core: &mut Core, dir: InodeId) {
    if core.state.epochs.owner.form == Form::Network
        && let Some(group) = core.state.dirs.groups.get_mut(&core.state.config.map.fingerprint(dir))
    {
        group.applied = true;
    }
}

/// A site marks a group here, because it cannot in the switch. A group without a table needs no mark: whoever reads one of its
/// directories recalls from everybody first.
pub(crate) fn marked(cx: &Cx, from: ShardId, seq: RequestSeq, group: Fingerprint) {
    cx.with(|core| {
        let known = core.state.dirs.groups.get_mut(&group);
        if let Some(known) = known.filter(|_| !planted::is(Planted::MarkNotTaken)) {
            known.marked = true;
        }
        core.state.counters.marks_taken += 1;
        packets::answer_call(core, cx.op(), NodeId::shard(from), seq, &Peer::Done);
    });
}

/// A job of a directory is over: whoever waits for any directory of its group looks again.
pub(crate) fn wake(core: &mut Core, dir: InodeId) {
    let members =
        core.state.dirs.groups.get(&core.state.config.map.fingerprint(dir)).map(|group| group.members.clone());
    members.unwrap_or_default().into_iter().for_each(|member| owner::wake(core, member));
}

/// All parts of a directory that were asked for are back, and everything is applied.
pub(crate) fn recalled(core: &mut Core, dir: InodeId) {
    if let Some(group) = core.state.dirs.groups.get_mut(&core.state.config.map.fingerprint(dir)) {
        group.recalled();
    }
}

/// A collect that is to be made.
pub(crate) struct Gather {
    /// The directory that its reader asks about.
    dir: InodeId,
    group: Fingerprint,
    job: JobId,
    holders: SmallVec<[NodeId; 4]>,
}

/// Begins a collect of the group of `dir`, of which nobody else runs a job.
pub(crate) fn begin(core: &mut Core, dir: InodeId) -> Gather {
    let group = core.state.config.map.fingerprint(dir);
    let job = core.state.dirs.next_job(core.state.config.term);
    let known = core.state.dirs.groups.get_mut(&group).expect("a directory with a table is in its group");
    known.job = Some(job);
    (known.applied, known.marked) = (false, false);
    let mut members = known.members.clone();
    if planted::is(Planted::OneOfGroup) {
        members.retain(|member| *member == dir);
    }
    core.state.dirs.collecting += 1;
    let holders: BTreeSet<NodeId> = members.iter().flat_map(|&dir| table(core, dir).holders.of(part::APPEND)).collect();
    core.state.counters.collects += 1;
    Gather { dir, group, job, holders: holders.into_iter().collect() }
}

/// Whether a job of another kind runs on any directory of the group.
pub(crate) fn busy(core: &Core, dir: InodeId) -> bool {
    let Some(group) = core.state.dirs.groups.get(&core.state.config.map.fingerprint(dir)) else { return false };
    let recalls = |dir: &InodeId| core.state.dirs.owner.get(dir).is_some_and(|table| table.job.is_some());
    group.collecting() || group.members.len() > 1 && group.members.iter().any(recalls)
}

/// Collects. True if every holder has answered the last round.
pub(crate) async fn gather(cx: &Cx, gather: Gather) -> bool {
    let Gather { dir, group, job, holders } = gather;
    let deadline_us = cx.with(|core| core.now.mono_us) + COLLECT_TIMEOUT_US;
    let applied_before = cx.with(|core| {
        epoch::keep_order(core, cx.op());
        core.state.counters.entries_applied
    });
    let answers = cx
        .call_all(&holders, deadline_us, |core, to, seq| {
            let packet = core.state.peer_packet(seq, &Peer::Collect { group, job });
            core.state.behind_remove(packet, group, to)
        })
        .await;
    cx.with(|core| {
        let (mut complete, mut answered) = (true, true);
        for (&holder, answer) in holders.iter().zip(answers) {
            let (came, all) = take(core, cx, group, job, holder, answer);
            answered &= came;
            complete &= all;
        }
        for holder in holders {
            let shard = holder.as_shard().expect("holders are shards");
            packets::tell(core, cx.op(), shard, &Peer::Release { group, job });
        }
        core.state.dirs.collecting -= 1;
        found(core, dir, applied_before);
        let known = core.state.dirs.groups.get_mut(&group).expect("groups with a job are kept");
        known.job = None;
        known.done += u64::from(complete);
        let given_up = !complete && !planted::is(Planted::AbandonedForgotten);
        known.applied |= given_up;
        known.marked |= given_up;
        for dir in known.members.clone() {
            owner::wake(core, dir);
            if core.state.dirs.owner.get(&dir).is_some_and(owner::OwnerDir::has_waiters) {
                core.start(Job::GiveGrants(dir));
            }
        }
        answered
    })
}

/// Takes one holder's answer: whether it came, and whether it holds nothing more that is not applied.
fn take(core: &mut Core, cx: &Cx, group: Fingerprint, job: JobId, holder: NodeId, answer: Answer) -> (bool, bool) {
    let shard = holder.as_shard().expect("holders are shards");
    let Some(Ok(Peer::Collected { job: of, batches, more, .. })) = answer.packet().map(|p| p.body::<Peer>()) else {
        core.state.counters.collects_abandoned += 1;
        return (false, false);
    };
    if of != job {
        return (false, false);
    }
    let mut all = !more;
    for entries in batches.into_iter().filter(|_| !planted::is(Planted::CollectWithoutEntries)) {
        let dir = entries.dir;
        let Some(last) = entries.batch.entries.last().map(|entry| entry.seq) else { continue };
        if core.state.config.map.fingerprint(dir) != group || !core.state.is_home(dir) {
            core.state.counters.malformed += 1;
            continue;
        }
        let upto = apply_batch(core, cx.op(), dir, shard, entries.batch);
        core.rest_on_object(cx.op(), keys::inode(dir));
        packets::tell(core, cx.op(), shard, &Peer::Applied { dir, upto });
        all &= last <= upto;
    }
    (true, all)
}

/// A remove is about to be sent again: under a counter of its own.
pub(crate) fn renew(state: &mut crate::state::State, to: NodeId, packet: &mut Packet) {
    let removes = packet.innet.as_deref().is_some_and(|innet| innet.op() == Some(DirtySetOp::Remove));
    if let (true, Some(group)) = (removes, packet.innet.as_ref().and_then(|innet| innet.fingerprint())) {
        *packet = state.behind_remove(packet.clone(), group, to);
    }
}

/// An answer between shards: whether it counts. One to an earlier round of a collect does not (schedule C3), and the holder of a collect that
/// is over is released.
pub(crate) fn counts(core: &mut Core, seq: RequestSeq, from: NodeId, packet: &Packet) -> bool {
    let last = core.open_call(seq).map(|(_, call)| call.innet.as_deref().map(|innet| innet.sequence));
    match last {
        Some(None) => true,
        Some(Some(_)) if planted::is(Planted::AnyRound) => true,
        Some(Some(counter)) => matches!(packet.body(), Ok(Peer::Collected { round, .. }) if round == counter),
        None => {
            if let (Ok(Peer::Collected { group, job, .. }), Some(shard)) = (packet.body(), from.as_shard()) {
                release_unless_running(core, shard, group, job);
            }
            false
        }
    }
}

/// A holder asks whether a collect is over, or shows that it does not know.
pub(crate) fn release_unless_running(core: &mut Core, to: ShardId, group: Fingerprint, job: JobId) {
    if core.state.dirs.groups.get(&group).and_then(|known| known.job) != Some(job) {
        let packet = core.state.peer_packet(RequestSeq(0), &Peer::Release { group, job });
        core.send_after(NodeId::shard(to), packet, RecordSeq(0), Need::ByDestination);
    }
}
