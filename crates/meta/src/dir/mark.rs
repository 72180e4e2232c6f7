//! Marks at a site: when an update may be exposed.
//!
//! An update that the tracker does not cover is *gated*: its operation keeps its locks until the mark of its generation is
//! acknowledged and nobody holds the group, or until the owner has applied it. The first mark rides on the update's reply through
//! the switch; further ones are sent until one is acknowledged. In the owner form nothing is gated unless a collect holds the group.

use super::gate::{Gate, Gates, Opens};
use super::{site, tracker};
use crate::ops::{Req, Step};
use crate::planted::{self, Planted};
use crate::shard::Job;
use crate::state::{keys, packets};
use crate::{Core, Cx};
use hashbrown::HashMap;
use onpath_kernel::{Gauge, Need, OpId};
use onpath_wire::ids::{InodeId, JobId, LogSeq, NodeClass, NodeId, RecordSeq, RequestSeq, ShardId, TrackingEpoch};
use onpath_wire::innet::{Fingerprint, InNet, InNetResult};
use onpath_wire::limits::{GRANTS_HELD_MAX, memory};
use onpath_wire::packet::Packet;
use onpath_wire::peer::Peer;
use onpath_wire::secrets::MarkKey;
use onpath_wire::tracking::{Form, Tracking};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// First pause before a mark is sent again, microseconds; doubled up to [`MARK_RETRY_US_MAX`].
const MARK_RETRY_US: u64 = 5_000;
/// Longest pause before a mark is sent again, microseconds.
const MARK_RETRY_US_MAX: u64 = 200_000;
/// How often a holder asks whether a collect is over, microseconds.
const HOLD_ASK_US: u64 = 50_000;

/// Marks of this shard. All volatile: a restarted site exposes what the owner has applied.
pub(crate) struct Marks {
    /// What tells acknowledgements of its marks from what others say.
    key: MarkKey,
    groups: HashMap<Fingerprint, Mark>,
    gates: Gates,
    /// Generations are counted for all groups together, so that one that was forgotten is never named again.
    generation: u32,
}

/// What this shard knows of a group of directories.
#[derive(Debug)]
struct Mark {
    /// Updates are appended in this generation.
    generation: u32,
    /// Marks up to this generation are acknowledged in the present epoch.
    covered: u32,
    /// Marks up to this generation are acknowledged by the owner.
    at_owner: u32,
    /// The collect that holds the group.
    hold: Option<JobId>,
    /// Somebody sends marks until nobody waits for one.
    marking: bool,
    /// The owner is asked to take a mark.
    asking: bool,
    /// A mark of this generation was sent.
    sent: u32,
    /// Directories of which transactions want to be sure before they append (see [`settled`]).
    settling: SmallVec<[InodeId; 1]>,
    /// Epochs whose completion waits for this group.
    remarking: u32,
}

/// What a site knows of a directory, as `docs/internals/bounds.md` counts it: its grant and its mark.
const _: () = assert!(2 * size_of::<(Fingerprint, Mark)>() as u64 + site::GRANT_BYTES <= memory::GRANT);

impl Marks {
    /// No marks.
    pub(crate) fn new(key: MarkKey) -> Marks {
        Marks { key, groups: HashMap::new(), gates: Gates::default(), generation: 0 }
    }

    fn next_generation(&mut self) -> u32 {
        self.generation = self.generation.checked_add(1).expect("a shard restarts more often than this");
        self.generation
    }

    fn mark(&mut self, group: Fingerprint) -> &mut Mark {
        if !self.groups.contains_key(&group) {
            let generation = self.next_generation();
            let settling = SmallVec::new();
            let mark = Mark {
                generation,
                covered: 0,
                at_owner: 0,
                hold: None,
                marking: false,
                asking: false,
                sent: 0,
                settling,
                remarking: 0,
            };
            self.groups.insert(group, mark);
        }
        self.groups.get_mut(&group).expect("just put")
    }

    /// From now on, no mark that was sent covers a further update.
    pub(crate) fn new_generation(&mut self, group: Fingerprint) {
        if self.groups.contains_key(&group) && !planted::is(Planted::GenerationOutlivesCollect) {
            let generation = self.next_generation();
            self.mark(group).generation = generation;
            self.tidy(group);
        }
    }

    /// Forgets a group whose last acknowledgement does not count any more, if nobody needs it: the next update begins with a
    /// generation of its own.
    fn tidy(&mut self, group: Fingerprint) {
        if self.groups.get(&group).is_some_and(|mark| mark.covered < mark.generation) {
            self.forget(group);
        }
    }

    /// Forgets a group if nobody needs it: the next update is marked again.
    pub(crate) fn forget(&mut self, group: Fingerprint) {
        let Some(mark) = self.groups.get(&group) else { return };
        let busy = mark.hold.is_some() || mark.marking || mark.asking || mark.remarking > 0;
        if !busy && mark.settling.is_empty() && !self.gates.any_in(group) {
            self.groups.remove(&group);
        }
    }

    /// Named numbers of a group.
    pub(crate) fn inspect(&self, group: Fingerprint, all: &mut Vec<(&'static str, u64)>) {
        let Some(mark) = self.groups.get(&group) else { return };
        all.push(("mark_generation", u64::from(mark.generation)));
        all.push(("mark_acknowledged", u64::from(mark.covered)));
        all.push(("held", u64::from(mark.hold.is_some())));
        all.push(("updates_gated_now", self.gates.in_group(group).count() as u64));
    }

    /// Its queues.
    pub(crate) fn gauges(&self, operations: usize, all: &mut Vec<Gauge>) {
        let count = |is: fn(&Mark) -> bool| self.groups.values().filter(|mark| is(mark)).count();
        let marked =
            self.groups.iter().filter(|(group, mark)| mark.marking || mark.asking || self.gates.any_in(**group));
        all.extend([
            Gauge::queue("updates gated", self.gates.len(), operations),
            Gauge::queue("groups held", count(|mark| mark.hold.is_some()), operations),
            Gauge::queue("groups marked", marked.count(), operations),
            Gauge::queue("groups settling", count(|mark| !mark.settling.is_empty()), operations),
            Gauge::queue("groups marked again", count(|mark| mark.remarking > 0), operations),
            Gauge::table("groups known", self.groups.len(), GRANTS_HELD_MAX),
        ]);
    }

    /// Groups of which something is known.
    pub(crate) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Updates that wait for their exposure.
    pub(crate) fn gated(&self) -> usize {
        self.gates.len()
    }
}

/// Whether acknowledged marks cover a generation. In *sync* readers ask neither the switch nor us, so only the owner's own word
/// covers anything.
fn covers(core: &Core, sync: bool, mark: Option<&Mark>, generation: u32) -> bool {
    let (covered, at_owner) = mark.map_or((0, 0), |mark| (mark.covered, mark.at_owner));
    if sync { at_owner >= generation } else { tracker::of(core.state.epochs.site.form).covers(covered, generation) }
}

/// Whether an update of `dir` would be exposed as soon as it is appended.
fn open(core: &Core, dir: InodeId) -> bool {
    let mark = core.state.marks.groups.get(&core.state.config.map.fingerprint(dir));
    let held = mark.is_some_and(|mark| mark.hold.is_some());
    !held && covers(core, site::writes_through(core, dir), mark, mark.map_or(1, |mark| mark.generation))
}

/// An update was appended, in the same step: decides whether it is gated.
pub(crate) fn appended(core: &mut Core, op: OpId, dir: InodeId, seq: LogSeq) {
    let group = core.state.config.map.fingerprint(dir);
    if !core.state.config.sticky_marks {
        core.state.marks.new_generation(group);
    }
    if open(core, dir) || planted::is(Planted::ExposedUnmarked) {
        return;
    }
    let generation = core.state.marks.mark(group).generation;
    let sync = site::writes_through(core, dir);
    let opens = if sync { Opens::Applied } else { Opens::Marked };
    core.state.marks.gates.close(op, Gate { group, generation, dir, seq, opens });
    core.state.counters.updates_gated += 1;
    if sync {
        super::push::now(core, dir);
    }
    keep_marking(core, group);
}

fn keep_marking(core: &mut Core, group: Fingerprint) {
    let mark = core.state.marks.mark(group);
    if !mark.marking {
        mark.marking = true;
        core.start(Job::Mark(group));
    }
}

fn passed(core: &Core, gate: &Gate) -> bool {
    if !core.state.dirs.holds_entry(gate.dir, gate.seq) {
        return true; // the owner has applied it
    }
    let mark = core.state.marks.groups.get(&gate.group).expect("a group with gates is kept");
    let held = mark.hold.is_some() && !planted::is(Planted::NoHold);
    let sync = gate.opens == Opens::Applied || site::writes_through(core, gate.dir);
    !held && covers(core, sync, Some(mark), gate.generation)
}

/// Whether this operation has updates that may not be seen yet.
pub(crate) fn is_gated(core: &Core, op: OpId) -> bool {
    !core.state.marks.gates.of(op).is_empty()
}

/// Waits, with all locks, until everything that this operation has appended may be seen. True if its reply must still be sent:
/// it did not travel with the mark.
pub(crate) async fn pass(cx: &Cx, answer: Option<(&Req, &Step)>) -> bool {
    let op = cx.op();
    let carried = cx.with(|core| {
        let gates: SmallVec<[Gate; 1]> = core.state.marks.gates.of(op).into();
        match (&gates[..], answer) {
            ([gate], Some((req, Ok(reply)))) if may_mark(core, gate.group) && gate.opens == Opens::Marked => {
                let record = core.reflects(op);
                let reply = packets::shown_to(core, req, reply);
                let packet = core.state.reply_resting_on(record, req.seq, &reply);
                let after = if req.early { RecordSeq(0) } else { record };
                send_mark(core, gate.group, req.from, packet, after);
                true
            }
            _ => {
                for gate in gates.iter().filter(|gate| gate.opens == Opens::Marked) {
                    mark_now(core, op, gate.group);
                }
                false
            }
        }
    });
    if planted::is(Planted::UnlockedWhileGated) {
        cx.unlock_all();
    }
    let closed = |core: &Core| core.state.marks.gates.of(op).iter().find(|gate| !passed(core, gate)).copied();
    while let Some(gate) = cx.with(|core| closed(core)) {
        cx.until(keys::group(gate.group), |core| passed(core, &gate).then_some(())).await;
    }
    cx.with(|core| {
        let gates = core.state.marks.gates.done(op);
        let network = core.state.epochs.site.form == Form::Network;
        let mut by_mark = network;
        for gate in &gates {
            let mark = core.state.marks.mark(gate.group);
            by_mark &= mark.covered >= gate.generation;
            core.state.marks.tidy(gate.group);
        }
        !(carried && by_mark)
    })
}

/// Marks are of use only in the network form, and only while nobody holds the group: what is sent then may be removed unseen.
fn may_mark(core: &Core, group: Fingerprint) -> bool {
    let held = core.state.marks.groups.get(&group).is_some_and(|mark| mark.hold.is_some());
    let held = held && !planted::is(Planted::NoHold);
    core.state.epochs.site.form == Form::Network && !held
}

fn send_mark(core: &mut Core, group: Fingerprint, to: NodeId, packet: Packet, after: RecordSeq) {
    let (cluster, site) = (core.state.config.cluster, core.state.epochs.site);
    let mark = core.state.marks.mark(group);
    mark.sent = mark.generation;
    let generation = mark.generation;
    let client = (to.class() != Some(NodeClass::Switch)).then_some(to);
    let (epoch, me) = (site.epoch_of(group), core.state.me());
    let innet = InNet::insert(cluster, epoch, group, (me, token(core, epoch, group, generation), generation), client);
    core.state.counters.marks_sent += 1;
    core.send_after(to, packet.through(site.switch_of(group), innet), after, Need::ByDestination);
}

/// What a mark of this shard's term has with it. Nobody else can say it, who has not seen the mark.
fn token(core: &Core, epoch: TrackingEpoch, group: Fingerprint, generation: u32) -> u32 {
    core.state.marks.key.token((core.state.me(), core.state.config.term, generation), epoch, group)
}

/// Sends a mark without a reply, if it is of use.
fn mark_now(core: &mut Core, op: OpId, group: Fingerprint) {
    if may_mark(core, group) {
        let packet = core.state.peer_packet(RequestSeq(0), &Peer::Mark);
        let after = core.reflects(op);
        send_mark(core, group, core.state.epochs.site.switch_of(group), packet, after);
    }
}

/// Whether everything that is appended to `dir` from now until the next await is exposed at once. A change that shows in two places
/// (a transaction, a rename between directories, a removed directory) waits for this before it is decided: nobody may see one
/// half of it while the other is gated.
pub(crate) fn settled(core: &mut Core, op: OpId, dir: InodeId) -> bool {
    let group = core.state.config.map.fingerprint(dir);
    if core.state.is_home(dir) || open(core, dir) || planted::is(Planted::UnsettledTransactions) {
        return true;
    }
    let mark = core.state.marks.mark(group);
    if !mark.settling.contains(&dir) {
        mark.settling.push(dir);
    }
    let sent = mark.sent == mark.generation;
    if site::writes_through(core, dir) {
        ask_owner(core, group);
    } else if !sent {
        mark_now(core, op, group);
    }
    keep_marking(core, group);
    false
}

/// Sends marks until nobody waits for one; what waits for long is pushed, so that the owner's word opens its gate.
pub(crate) async fn keep(cx: &Cx, group: Fingerprint) {
    let mut pause_us = MARK_RETRY_US;
    loop {
        let now_us = cx.with(|core| core.now.mono_us);
        cx.sleep_until(now_us + pause_us).await;
        pause_us = (pause_us * 2).min(MARK_RETRY_US_MAX);
        let done = cx.with(|core| {
            let waiting = waiting_dirs(core, group);
            exposed(core, group); // those who are settled by now
            let mark = core.state.marks.mark(group);
            let covered = mark.hold.is_none() && mark.covered >= mark.generation;
            if waiting.is_empty() && mark.settling.is_empty() && (mark.remarking == 0 || covered) {
                mark.marking = false;
                core.state.marks.tidy(group);
                return true;
            }
            mark_now(core, cx.op(), group);
            instead(core, group);
            false
        });
        if done {
            return;
        }
    }
}

/// The switch is full or does not answer: gated updates are pushed, and where something is waited for before it is appended, the owner
/// takes the mark.
fn instead(core: &mut Core, group: Fingerprint) {
    for dir in waiting_dirs(core, group) {
        super::push::now(core, dir);
    }
    ask_owner(core, group);
}

/// Has the owner take a mark, if somebody waits for one and nobody holds the group.
fn ask_owner(core: &mut Core, group: Fingerprint) {
    let mark = core.state.marks.mark(group);
    if !mark.settling.is_empty() && mark.hold.is_none() && !mark.asking {
        mark.asking = true;
        core.start(Job::MarkAtOwner(group));
    }
}

/// Marks a group at its owner.
pub(crate) async fn at_owner(cx: &Cx, group: Fingerprint) {
    let (owner, generation) = cx.with(|core| {
        let generation = core.state.marks.mark(group).generation;
        (NodeId::shard(core.state.config.map.shard(group.slot())), generation)
    });
    let make = |core: &mut Core, seq| core.state.peer_packet(seq, &Peer::MarkAtOwner { group });
    cx.call(owner, make).await;
    cx.with(|core| {
        let mark = core.state.marks.mark(group);
        mark.asking = false;
        // An epoch learned meanwhile has begun another generation, which this does not cover.
        mark.covered = mark.covered.max(generation);
        mark.at_owner = mark.at_owner.max(generation);
        exposed(core, group);
        ask_owner(core, group); // a collect came between, and this mark was of before
        core.state.marks.tidy(group);
    });
}

/// Whether updates of this directory's group wait for their exposure.
pub(crate) fn has_gates(core: &Core, dir: InodeId) -> bool {
    core.state.marks.gates.any_in(core.state.config.map.fingerprint(dir))
}

/// Directories of the group with gated updates.
fn waiting_dirs(core: &Core, group: Fingerprint) -> BTreeSet<InodeId> {
    core.state.marks.gates.in_group(group).filter(|gate| !passed(core, gate)).map(|gate| gate.dir).collect()
}

/// The switch's answer to a mark of ours; that it is one its token says. Of what was never sent nothing is believed.
pub(crate) fn answered(core: &mut Core, innet: &InNet) {
    let Some(group) = innet.fingerprint() else { return };
    let epoch = TrackingEpoch(innet.epoch);
    let ours = innet.shard == core.state.me().0
        && (innet.term == token(core, epoch, group, innet.sequence) || planted::is(Planted::AnyMark));
    let present = epoch == core.state.epochs.site.epoch_of(group);
    if !ours || !(present || planted::is(Planted::AnyEpochsMark)) {
        return;
    }
    match innet.result() {
        Some(InNetResult::Marked) => {
            let mark = core.state.marks.groups.get_mut(&group);
            let Some(mark) = mark.filter(|mark| innet.sequence <= mark.sent || planted::is(Planted::AnyMark)) else {
                return;
            };
            mark.covered = mark.covered.max(innet.sequence);
            core.state.counters.marks_acknowledged += 1;
            exposed(core, group);
        }
        Some(InNetResult::Full) => {
            if !core.state.marks.groups.contains_key(&group) {
                return;
            }
            core.state.counters.marks_refused += 1;
            instead(core, group);
        }
        _ => {} // of another epoch: it will be told to us
    }
}

/// Lets those look again who wait for the exposure of updates of this group.
fn exposed(core: &mut Core, group: Fingerprint) {
    core.wake(keys::group(group));
    let settling = core.state.marks.groups.get_mut(&group).map(|mark| std::mem::take(&mut mark.settling));
    for dir in settling.unwrap_or_default() {
        if open(core, dir) {
            core.wake(keys::grants(dir));
        } else {
            core.state.marks.mark(group).settling.push(dir);
        }
    }
}

/// A collect of the owner: hands over all unapplied entries of the group, and holds it. It waits for nothing but prepared
/// transactions of these directories.
pub(crate) async fn collected(cx: &Cx, from: ShardId, seq: RequestSeq, group: Fingerprint, job: JobId, round: u32) {
    if cx.with(|core| core.state.config.map.shard(group.slot())) != from {
        return; // not the owner's to collect
    }
    while let Some(dir) = cx.with(|core| core.state.txns.doubtful(&core.state.config.map, group)) {
        cx.until(keys::doubt(dir), |core| (!core.state.txns.in_doubt(dir)).then_some(())).await;
    }
    cx.with(|core| {
        core.state.counters.collects_answered += 1;
        let mark = core.state.marks.mark(group);
        let held = mark.hold.is_some();
        let before = if planted::is(Planted::HoldLowered) { None } else { mark.hold };
        mark.hold = before.max(Some(job)); // never lowered
        core.state.marks.new_generation(group);
        if !held {
            core.start(Job::WatchHold(group));
        }
        let (batches, more) = core.state.dirs.batches_of(&core.state.config.map, group);
        if !batches.is_empty() {
            let all = core.state.record_seq; // an answer with entries rests on their records
            core.rest_on(cx.op(), all);
        }
        let answer = Peer::Collected { group, job, round, batches, more };
        packets::answer_call(core, cx.op(), NodeId::shard(from), seq, &answer);
    });
}

/// The owner says that this collect, or a newer one, is over.
pub(crate) fn released(cx: &Cx, from: ShardId, group: Fingerprint, job: JobId) {
    cx.with(|core| {
        if core.state.config.map.shard(group.slot()) != from {
            return;
        }
        let Some(mark) = core.state.marks.groups.get_mut(&group) else { return };
        if mark.hold.is_none_or(|held| held > job) {
            return;
        }
        mark.hold = None;
        let wanted = !mark.settling.is_empty() || mark.remarking > 0;
        if wanted || core.state.marks.gates.any_in(group) {
            mark_now(core, cx.op(), group); // what is not covered
            keep_marking(core, group);
        }
        exposed(core, group);
        let settling = core.state.marks.mark(group).settling.clone();
        if settling.into_iter().any(|dir| site::writes_through(core, dir)) {
            ask_owner(core, group); // the switch's word does not count in *sync*
        }
        core.state.marks.tidy(group);
    });
}

/// Asks the owner whether a collect is over whose release may be lost.
pub(crate) async fn watch_hold(cx: &Cx, group: Fingerprint) {
    loop {
        let now_us = cx.with(|core| core.now.mono_us);
        cx.sleep_until(now_us + HOLD_ASK_US).await;
        let held = cx.with(|core| {
            let job = core.state.marks.groups.get(&group).and_then(|mark| mark.hold)?;
            let owner = core.state.config.map.shard(group.slot());
            packets::tell(core, cx.op(), owner, &Peer::HoldAsk { group, job });
            Some(())
        });
        if held.is_none() {
            return;
        }
    }
}

/// This shard has learned of an epoch: no acknowledgement of before counts.
pub(crate) fn epoch_learned(core: &mut Core) {
    let mut groups: Vec<Fingerprint> = core.state.marks.groups.keys().copied().collect();
    groups.sort_unstable();
    for group in groups {
        let next = core.state.marks.next_generation();
        let mark = core.state.marks.mark(group);
        let generation = if planted::is(Planted::AnyEpochsMark) { mark.generation } else { next };
        (mark.generation, mark.covered) = (generation, 0);
        exposed(core, group);
        core.state.marks.tidy(group);
    }
}

/// Waits until every unapplied entry and every prepared transaction of this shard is acknowledged in the epoch.
pub(crate) async fn all_marked(cx: &Cx, tracking: Tracking) {
    if tracking.form == Form::Owner {
        return;
    }
    let held: Vec<(Fingerprint, u32)> = cx.with(|core| {
        let dirs = core.state.dirs.unapplied().into_iter().chain(core.state.txns.in_doubt_dirs());
        let groups: BTreeSet<Fingerprint> = dirs.map(|dir| core.state.config.map.fingerprint(dir)).collect();
        let held = groups.into_iter().map(|group| {
            let mark = core.state.marks.mark(group);
            mark.remarking += 1;
            let generation = mark.generation;
            mark_now(core, cx.op(), group);
            keep_marking(core, group);
            (group, generation)
        });
        held.collect()
    });
    for (group, generation) in held {
        cx.until(keys::group(group), |core| {
            let over = core.state.epochs.site.epoch != tracking.epoch
                || core.state.marks.mark(group).covered >= generation
                || !core.state.dirs.has_entries(&core.state.config.map, group)
                    && core.state.txns.doubtful(&core.state.config.map, group).is_none();
            over.then_some(())
        })
        .await;
        cx.with(|core| {
            core.state.marks.mark(group).remarking -= 1;
            core.state.marks.tidy(group);
        });
    }
}
