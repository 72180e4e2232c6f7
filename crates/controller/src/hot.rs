//! Names are given entries that the switch has missed often (C-5): it counts, and tells which keys it misses; who has asked for one says what
//! its name is, and so of the directories above it. What answers least often makes room.

use crate::admit::{admit, evict, fill_again};
use crate::state::{Job, PATIENCE_US, State, command};
use onpath_kernel::{Answer, Core, Cx, Need};
use onpath_wire::cached::{CacheCommand, CachedName, NameIn};
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{InodeId, NodeId, RecordSeq, RequestSeq};
use onpath_wire::innet::cache::Read;
use onpath_wire::limits::{CACHE_PERIOD_MS, HITS_MAX, OPERATIONS_MAX};
use onpath_wire::packet::Packet;
use onpath_wire::peer::Peer;

/// So many entries at most are known at a time that could make room.
const IDLE_MAX: usize = 4_096;

/// The switch has missed this more often than its threshold: its key is looked into unless it is, or too many are.
pub(crate) fn reported(core: &mut Core<State>, read: &Read) {
    let state = &mut core.state;
    let is_present = read.epoch == state.lease.epoch && read.epoch != 0;
    let is_known = state.lease.listed.contains(&NodeId(read.requester));
    let Some(key) = last_key(read).filter(|_| is_present && is_known) else { return };
    if state.asked.len() < OPERATIONS_MAX && state.asked.insert(key) {
        core.start(Job::Learn(*read));
    }
}

fn last_key(read: &Read) -> Option<u64> {
    Some(read.levels.at(usize::from(read.depth).checked_sub(1)?).0)
}

/// Asks for the names of a walk, and gives each an entry that has none, from the top.
pub(crate) async fn learn(cx: &Cx<State>, read: &Read) {
    let keys: Vec<u64> = (0..usize::from(read.depth)).map(|level| read.levels.at(level).0).collect();
    if let Some(names) = ask(cx, NodeId(read.requester), read.epoch, keys.clone()).await {
        let mut walk = cx.with(|core| walk(core, &keys, names));
        let mut reached = usize::from(read.level);
        if read.start == 0 && !walk.is_empty() {
            walk.insert(0, (InodeId(0), None));
        }
        for (place, what) in walk.iter().enumerate() {
            let is_there = cx.with(|core| core.state.names.contains_key(what) || core.state.admitting.contains(what));
            let is_passed = match is_there {
                true if reached == 0 => fill_again(cx, what, read.epoch).await, // there it ended
                true => true,
                false => make_room(cx, read.epoch).await && admit(cx, what).await,
            };
            if !is_passed {
                break; // nobody could pass there
            }
            // It leads to the directory of the next name, and does not make room for that.
            let next = walk.get(place + 1).map(|(dir, _)| *dir);
            cx.with(|core| core.state.leads(what, next));
            reached = reached.wrapping_sub(1);
        }
    }
    cx.with(|core| last_key(read).map(|key| core.state.asked.remove(&key)));
}

/// What a session says that names with these keys are.
async fn ask(cx: &Cx<State>, session: NodeId, epoch: u16, keys: Vec<u64>) -> Option<Vec<NameIn>> {
    let make = |core: &mut Core<State>, _: NodeId, seq: RequestSeq| {
        let body = on(core, epoch, keys.clone());
        Packet::new(&core.state.header(MessageKind::Peer, seq), &body)
    };
    let deadline_us = cx.with(|core| core.now.mono_us) + PATIENCE_US;
    let answer = cx.call_all(&[session], deadline_us, make).await.pop().and_then(Answer::packet)?;
    match answer.body() {
        Ok(Peer::CacheNames { names }) => Some(names),
        _ => None,
    }
}

/// The names that have these keys, as far as all above them are known. Whatever a session says, a name has one key.
fn walk(core: &Core<State>, keys: &[u64], names: Vec<NameIn>) -> Vec<CachedName> {
    let Some(placement) = core.state.placement else { return Vec::new() };
    let key = |known: &&NameIn| placement.cache_key(known.parent, known.name.as_bytes());
    let of_key = |wanted: &u64| names.iter().find(|known| key(known) == *wanted);
    keys.iter().map_while(of_key).map(|known| (known.parent, Some(known.name.clone()))).collect()
}

/// Whether there is room for one more entry: if not, one is evicted that answers less often than what is missed is.
async fn make_room(cx: &Cx<State>, epoch: u16) -> bool {
    let candidates = cx.with(|core| {
        let state = &mut core.state;
        let is_full = state.names.len() + state.admitting.len() >= state.config.entries as usize;
        is_full.then(|| [state.idle.pop(), state.idle.pop()])
    });
    let Some(candidates) = candidates else { return true };
    // What they answer by now: some may have become hot.
    let mut least: Option<(u32, CachedName)> = None;
    for name in candidates.into_iter().flatten() {
        let entry = cx.with(|core| core.state.names.get(&name).copied().filter(|_| !core.state.leads_on(&name)));
        let Some(entry) = entry else { continue };
        let status = command(cx, CacheCommand::Hits { indices: vec![entry.index] }).await;
        let Some(hits) = status.and_then(|status| status.hits.first().copied()) else { continue };
        if least.as_ref().is_none_or(|(least, _)| hits < *least) {
            least = Some((hits, name));
        }
    }
    let threshold = cx.with(|core| u32::from(core.state.config.threshold));
    let Some((_, name)) = least.filter(|(hits, _)| *hits < threshold) else { return false };
    let Some(entry) = cx.with(|core| core.state.names.get(&name).copied()) else { return false };
    cx.with(|core| core.state.counters.evicted += 1);
    evict(cx, &name, epoch, entry).await;
    true
}

/// Counts as long as this epoch lasts, and tells the sessions that are answered that they are.
pub(crate) async fn count(cx: &Cx<State>, epoch: u16) {
    while cx.with(|core| core.state.lease.epoch == epoch) {
        let since_us = cx.with(|core| core.now.mono_us);
        weigh(cx, epoch).await;
        let threshold = cx.with(|core| core.state.config.threshold);
        command(cx, CacheCommand::Count { threshold }).await;
        cx.with(|core| core.state.lease.listed.clone().into_iter().for_each(|session| tell(core, session)));
        cx.sleep_until(since_us + CACHE_PERIOD_MS * 1_000).await;
    }
}

fn on(core: &Core<State>, epoch: u16, wanted: Vec<u64>) -> Peer {
    let switch = core.state.switch.map_or(0, |switch| switch.number() as u16);
    Peer::CacheOn { switch, epoch, wanted }
}

/// A session is answered from now on.
pub(crate) fn tell(core: &mut Core<State>, session: NodeId) {
    let body = on(core, core.state.lease.epoch, vec![]);
    let packet = Packet::new(&core.state.header(MessageKind::Peer, RequestSeq(0)), &body);
    core.send_after(session, packet, RecordSeq(0), Need::ByDestination);
}

/// How often the entries have answered in the period that ends: those that did least may make room in the next one.
async fn weigh(cx: &Cx<State>, epoch: u16) {
    let all: Vec<(CachedName, u32)> =
        cx.with(|core| core.state.names.iter().map(|(name, entry)| (name.clone(), entry.index)).collect());
    let mut weighed = Vec::with_capacity(all.len());
    for some in all.chunks(HITS_MAX) {
        let indices = some.iter().map(|(_, index)| *index).collect();
        let Some(status) = command(cx, CacheCommand::Hits { indices }).await else { return };
        weighed.extend(some.iter().map(|(name, _)| name).zip(status.hits));
    }
    cx.with(|core| {
        let state = &mut core.state;
        if state.lease.epoch != epoch {
            return;
        }
        state.counters.answered += weighed.iter().map(|(_, hits)| u64::from(*hits)).sum::<u64>();
        state.answered = weighed.iter().map(|(name, hits)| ((*name).clone(), *hits)).collect();
        weighed.retain(|(name, _)| !state.leads_on(name));
        weighed.sort_by_key(|(_, hits)| *hits);
        state.idle = weighed.into_iter().take(IDLE_MAX).map(|(name, _)| name.clone()).rev().collect();
    });
}
