//! Names are given entries (C-5): first the switch has the name, with a stamp that says nothing, and then its home fills the entry.

use crate::state::{Counters, Entry, Job, PATIENCE_US, State, command};
use onpath_kernel::{Answer, Core, Cx, Need};
use onpath_wire::cached::{CacheCommand, CachedName, NotLent};
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{InodeId, NodeId, RecordSeq, RequestSeq, ShardId};
use onpath_wire::innet::InNet;
use onpath_wire::innet::cache::{CACHE_BITS, CacheResult, ROOT_KEY, ROOT_TOKEN};
use onpath_wire::limits::OPERATIONS_MAX;
use onpath_wire::name::Name;
use onpath_wire::packet::Packet;
use onpath_wire::peer::Peer;

/// How often a home is asked to fill an entry before that is given up.
const TRIES_MAX: usize = 5;
/// Keys of which a controller remembers tokens.
const TOKENS_MAX: usize = 1 << 20;

/// A name is wanted: it is admitted unless it is, or too many are under way.
pub(crate) fn wanted(core: &mut Core<State>, what: CachedName) {
    let state = &mut core.state;
    let is_there = state.names.contains_key(&what) || state.admitting.contains(&what);
    if !is_there && state.admitting.len() < OPERATIONS_MAX {
        core.start(Job::Admit(what));
    }
}

/// Gives a name an entry, unless somebody is about to; whether it has one that is filled at the end. Else it has none.
pub(crate) async fn admit(cx: &Cx<State>, what: &CachedName) -> bool {
    if !cx.with(|core| core.state.admitting.insert(what.clone())) {
        return false;
    }
    let is_filled = admit_in(cx, what).await;
    cx.with(|core| {
        core.state.admitting.remove(what);
        let Counters { admitted, not_admitted, .. } = &mut core.state.counters;
        *if is_filled { admitted } else { not_admitted } += 1;
    });
    is_filled
}

async fn admit_in(cx: &Cx<State>, what: &CachedName) -> bool {
    let epoch = cx.with(|core| core.state.lease.epoch);
    if epoch == 0 {
        return false;
    }
    let Some(entry) = cx.with(|core| take(core, what)) else { return false };
    let Entry { key, token, index, number } = entry;
    let status = command(cx, CacheCommand::Admit { epoch, key, token, index, number }).await;
    // Of a silent switch it is not known whether the name has the entry: nobody else gets the index in this epoch.
    let is_there = status.is_some_and(|status| status.done) && cx.with(|core| core.state.lease.epoch == epoch);
    if !is_there {
        return false;
    }
    cx.with(|core| core.state.names.insert(what.clone(), entry));
    fill(cx, what, epoch, entry).await
}

/// Has the home of a name fill its entry once more, which it may have forgotten, since others had a part in the inode; whether it is filled.
pub(crate) async fn fill_again(cx: &Cx<State>, what: &CachedName, epoch: u16) -> bool {
    let entry = cx.with(|core| core.state.names.get(what).copied().filter(|_| core.state.lease.epoch == epoch));
    match entry {
        Some(entry) => fill(cx, what, epoch, entry).await,
        None => false,
    }
}

/// Whether the entry of a name is filled; else it is evicted.
async fn fill(cx: &Cx<State>, what: &CachedName, epoch: u16, entry: Entry) -> bool {
    for _ in 0..TRIES_MAX {
        match lend(cx, what, epoch, entry).await {
            Some(true) => return true,
            Some(false) => break,
            None => {}
        }
    }
    evict(cx, what, epoch, entry).await;
    false
}

/// An index, a token and a number for a name, if there are such.
fn take(core: &mut Core<State>, what: &CachedName) -> Option<Entry> {
    let (parent, name) = what;
    let state = &mut core.state;
    let (key, token) = match name {
        None => (ROOT_KEY, ROOT_TOKEN),
        Some(name) => {
            let key = state.placement?.cache_key(*parent, name.as_bytes());
            if state.tokens.len() >= TOKENS_MAX && !state.tokens.contains_key(&key) {
                state.end_epoch(); // the next one begins without tokens
                return None;
            }
            (key, token(state.tokens.entry(key).or_default(), what)?)
        }
    };
    let index = match state.free.pop() {
        Some(index) => index,
        None if state.next_index < state.config.entries.min(1 << CACHE_BITS) => {
            state.next_index += 1;
            state.next_index - 1
        }
        None => return None,
    };
    let Some(number) = state.take_number() else {
        state.free.push(index);
        return None;
    };
    Some(Entry { key, token, index, number })
}

/// The token of a name, if there is one left among those of its key.
fn token(names: &mut Vec<CachedName>, what: &CachedName) -> Option<u8> {
    let place = names.iter().position(|name| name == what).unwrap_or(names.len());
    let token = u8::try_from(place + 1).ok()?;
    if place == names.len() {
        names.push(what.clone());
    }
    Some(token)
}

/// Asks the home of a name to fill its entry: whether it is filled, if it has answered.
async fn lend(cx: &Cx<State>, (parent, name): &CachedName, epoch: u16, entry: Entry) -> Option<bool> {
    let Entry { token, number, .. } = entry;
    let site = cx.with(|core| site(core, *parent, name.as_ref()))?;
    let make = |core: &mut Core<State>, _: NodeId, seq| {
        let switch = core.state.switch.map_or(0, |switch| switch.number() as u16);
        let body = Peer::Lend { parent: *parent, name: name.clone(), token, number, epoch, switch };
        Packet::new(&core.state.header(MessageKind::Peer, seq), &body)
    };
    let deadline_us = cx.with(|core| core.now.mono_us) + PATIENCE_US;
    let answer = cx.call_all(&[site], deadline_us, make).await.pop().and_then(Answer::packet)?;
    if let Ok(Peer::NotLent { why }) = answer.body() {
        return (why != NotLent::Full).then_some(false);
    }
    match answer.innet.as_deref() {
        // A newer fill of the same entry has come before: the home speaks of it as often as it is asked.
        Some(InNet::Cache(cache)) => Some(matches!(cache.result(), Some(CacheResult::Filled | CacheResult::NotNewer))),
        _ => Some(false),
    }
}

/// Who answers for a name.
fn site(core: &Core<State>, parent: InodeId, name: Option<&Name>) -> Option<NodeId> {
    let map = core.state.map()?;
    Some(NodeId::shard(match name {
        None => map.home(InodeId::ROOT),
        Some(name) => map.shard(map.site(parent, name.as_bytes())),
    }))
}

/// A shard has started: its entries are to go, unless they are going. It asks until it is answered.
pub(crate) fn drop_wanted(core: &mut Core<State>, shard: ShardId, seq: RequestSeq, epoch: u16) {
    if shard.0 < core.state.config.shards && core.state.dropping.insert(shard) {
        core.start(Job::Drop(shard, seq, epoch));
    }
}

/// A shard has started, and knows nothing of what it has lent: none of its names has an entry when it is answered (C-7). It is not if that cannot
/// be said, and then has the epoch ended.
pub(crate) async fn drop_all_of(cx: &Cx<State>, shard: ShardId, seq: RequestSeq, epoch: u16) {
    let its = |core: &mut Core<State>| {
        let is_its = |(parent, name): &CachedName| site(core, *parent, name.as_ref()) == Some(NodeId::shard(shard));
        let state = &core.state;
        let all = state.names.iter().filter(|(what, _)| state.lease.epoch == epoch && is_its(what));
        all.map(|(what, entry)| (what.clone(), *entry)).collect::<Vec<_>>()
    };
    for (what, entry) in cx.with(its) {
        evict(cx, &what, epoch, entry).await;
    }
    cx.with(|core| {
        core.state.dropping.remove(&shard);
        if core.state.lease.epoch == epoch && !core.state.lease.unsure {
            let packet = Packet::new(&core.state.header(MessageKind::PeerAnswer, seq), &Peer::Done);
            core.send_after(NodeId::shard(shard), packet, RecordSeq(0), Need::ByDestination);
        }
    });
}

/// Takes a name out again; its home hears of it, and else would find out with the next change.
pub(crate) async fn evict(cx: &Cx<State>, what: &CachedName, epoch: u16, entry: Entry) {
    let Entry { key, token, index, number } = entry;
    let status = command(cx, CacheCommand::Evict { epoch, key, token, index }).await;
    let is_gone = status.is_some_and(|status| status.done);
    cx.with(|core| {
        if core.state.lease.epoch != epoch || core.state.names.get(what) != Some(&entry) {
            return;
        }
        core.state.names.remove(what);
        core.state.leads_to.remove(what);
        core.state.lease.unsure |= !is_gone;
        if is_gone {
            core.state.free.push(index);
            let (parent, name) = what.clone();
            let Some(site) = site(core, parent, name.as_ref()) else { return };
            let body = Peer::Evicted { parent, name, number, epoch };
            let packet = Packet::new(&core.state.header(MessageKind::Peer, RequestSeq(0)), &body);
            core.send_after(site, packet, RecordSeq(0), Need::ByDestination);
        }
    });
}
