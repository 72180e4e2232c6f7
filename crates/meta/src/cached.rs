//! Names that this home has lent to the cache of a switch (C-1, C-5, C-6): the entry of such a name says what its home has filled it with.
//!
//! A name is lent by the shard that is both its site and the home of its inode, and only while nobody else has a part in it. Whatever changes
//! name or inode has the inode locked, and clears the entry first ([`clear`]); that of a directory is filled again a moment later, any other when
//! somebody has asked about it. An access time moves while the entry goes on to tell the one of before, until it is filled again. What is known
//! is volatile, and of the newest epoch that was heard of: a home that has started again waits until the switch has nothing that it may have lent.

use crate::files::holders;
use crate::ops::named;
use crate::planted::{self, Planted};
use crate::shard::Job;
use crate::state::commit::commit_unasked;
use crate::state::{State, keys, packets};
use crate::{Core, Cx, dir};
use hashbrown::{HashMap, HashSet};
use onpath_kernel::{Answer, Mode, Need, OpId};
use onpath_wire::attr::AttrWire;
use onpath_wire::cached::{CachedName, Hot, NotLent};
use onpath_wire::disk::record::{Counter, Effect};
use onpath_wire::ids::{InodeId, NodeId, RequestSeq, TrackingEpoch};
use onpath_wire::innet::cache::{CacheResult, EntryOf, EntryValue, REVISION_END, ROOT_KEY};
use onpath_wire::innet::{Cache, InNet};
use onpath_wire::inode::Kind;
use onpath_wire::limits::{LENT_NAMES_MAX, OPEN_GRACE_MS};
use onpath_wire::packet::Packet;
use onpath_wire::peer::{Peer, part};

/// A switch that has not answered is asked again after so long, microseconds, and after so long its epoch is ended.
const ASKED_AGAIN_US: u64 = 50_000;
const GIVEN_UP_US: u64 = 300_000;
/// What is asked for is filled again after so long, microseconds: one that is changed or read again and again costs one fill in that time.
const REFILL_US: u64 = 10_000;

/// What a controller asks for.
pub(crate) struct Asked {
    pub(crate) from: NodeId,
    pub(crate) seq: RequestSeq,
    pub(crate) name: CachedName,
    pub(crate) token: u8,
    pub(crate) number: u32,
    pub(crate) epoch: u16,
    pub(crate) switch: u16,
}

/// The entry of a name that leads to an inode.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    name: CachedName,
    key: u64,
    token: u8,
    number: u32,
    /// That of the last fill.
    revision: u32,
    /// The switch may have that fill, or get it.
    filled: bool,
    controller: NodeId,
    switch: NodeId,
}

/// Names that are lent.
#[derive(Debug, Default)]
pub(crate) struct Cached {
    epoch: u16,
    /// By the inode to which it leads, which has no other name.
    marks: HashMap<InodeId, Mark>,
    /// Of these the entries are filled again a moment later.
    refills: HashSet<InodeId>,
    /// Files that were lent in this term: sessions may have opened them by what the switch said (C-10).
    opened: HashSet<InodeId>,
    /// When that was forgotten of files that are lent no more, it counts for each until then, monotonic microseconds.
    all_opened_until_us: u64,
    /// The epoch is being ended, or is over.
    ending: bool,
    over: bool,
    /// A former term may have lent names in an epoch that is not over.
    former: bool,
}

/// What the switch says of an entry that is to be cleared.
enum Cleared {
    /// It says nothing, until it is filled again.
    Yes,
    /// It is gone for good.
    Gone,
    /// Not heard.
    No,
}

impl Cached {
    /// An epoch is heard of: what was lent in earlier ones is not (C-4). Whether it is the newest one.
    fn hear(&mut self, epoch: u16) -> bool {
        if self.epoch == 0 || TrackingEpoch(epoch).is_after(TrackingEpoch(self.epoch)) {
            let opened = std::mem::take(&mut self.opened);
            let (former, all_opened_until_us) = (self.former, self.all_opened_until_us);
            *self = Cached { epoch, former, opened, all_opened_until_us, ..Cached::default() };
        }
        self.epoch == epoch && !self.over
    }

    /// This epoch is over, or all are that there were.
    fn ended(&mut self, epoch: u16) {
        self.former &= epoch != 0;
        if self.epoch == epoch {
            self.marks.clear();
            self.over = true;
        }
    }

    /// Whether the switch may answer for the name of an inode.
    #[inline]
    pub(crate) fn may_be_shown(&self, id: InodeId) -> bool {
        self.former || self.is_filled(id)
    }

    /// The same by what was lent in this term.
    pub(crate) fn is_filled(&self, id: InodeId) -> bool {
        !self.marks.is_empty() && self.marks.get(&id).is_some_and(|mark| mark.filled)
    }

    /// Whether a switch that has an entry for the name of an inode answers for it now.
    pub(crate) fn entry(&self, id: InodeId) -> Option<bool> {
        Some(self.marks.get(&id)?.filled)
    }

    /// How the switch is asked for the name of an inode, if it is lent.
    pub(crate) fn hot(&self, id: InodeId) -> Option<Hot> {
        let mark = self.marks.get(&id)?;
        Some(Hot { switch: mark.switch, epoch: self.epoch, token: mark.token })
    }

    /// Whether sessions that have not told so may have a file open (C-10).
    pub(crate) fn may_be_open(&self, id: InodeId, now_us: u64) -> bool {
        self.former || self.opened.contains(&id) || now_us < self.all_opened_until_us
    }

    fn note_opened(&mut self, id: InodeId, now_us: u64) {
        if self.opened.len() >= 2 * LENT_NAMES_MAX {
            // Those that are lent are half of them at most.
            self.opened.retain(|id| self.marks.contains_key(id));
            self.all_opened_until_us = now_us + OPEN_GRACE_MS * 1_000;
        }
        if !id.is_directory() {
            self.opened.insert(id);
        }
    }

    /// The mark of a name, for its next fill; none if a newer entry is known, or too many are lent.
    fn mark(&mut self, id: InodeId, key: u64, asked: &Asked) -> Result<Mark, NotLent> {
        let known = self.marks.get(&id);
        if known.is_some_and(|known| (asked.number.wrapping_sub(known.number) as i32) < 0) {
            return Err(NotLent::Older);
        }
        if known.is_none() && self.marks.len() >= LENT_NAMES_MAX {
            return Err(NotLent::Full);
        }
        let same = known.filter(|known| known.number == asked.number);
        let revision = same.map_or(1, |known| known.revision + 1);
        if revision >= REVISION_END {
            return Err(NotLent::Older);
        }
        let Asked { token, number, from: controller, .. } = *asked;
        let (name, switch) = (asked.name.clone(), NodeId::switch(asked.switch));
        let mark = Mark { name, key, token, number, revision, filled: true, controller, switch };
        self.marks.insert(id, mark.clone());
        Ok(mark)
    }

    /// The mark of a name for its next fill.
    fn refill(&mut self, id: InodeId, name: &CachedName) -> Option<Mark> {
        let may_be = |mark: &&mut Mark| mark.name == *name && mark.revision + 1 < REVISION_END;
        let mark = self.marks.get_mut(&id).filter(may_be)?;
        (mark.revision, mark.filled) = (mark.revision + 1, true);
        Some(mark.clone())
    }

    /// A name is lent no more.
    fn forget_cleared(&mut self, id: InodeId) {
        if !self.is_filled(id) {
            self.marks.remove(&id);
        }
    }

    /// The switch has answered; whether that is about this entry, and the last of its fills.
    fn heard(&mut self, id: InodeId, asked: &Mark, cleared: &Cleared) {
        let Some(mark) = self.marks.get_mut(&id).filter(|mark| **mark == *asked) else { return };
        match cleared {
            Cleared::Yes => mark.filled = false,
            Cleared::Gone => _ = self.marks.remove(&id),
            Cleared::No => {}
        }
    }
}

/// A start: what a former term has lent counts until the switch has none of it, or all epochs are over in which that may be (C-7).
pub(crate) fn begin(core: &mut Core) {
    if core.state.reserved.upto(Counter::LentNames) > 0 && !planted::is(Planted::LentForgotten) {
        core.state.cached.former = true;
        core.start(Job::DropLent);
    }
}

/// After this, and as long as the caller has the inode locked, no switch answers for its name (C-6).
pub(crate) async fn clear(cx: &Cx, id: InodeId) {
    if cx.with(|core| core.state.cached.may_be_shown(id)) && !planted::is(Planted::ChangesUncleared) {
        Box::pin(invalidate(cx, id)).await;
    }
}

async fn invalidate(cx: &Cx, id: InodeId) {
    cx.until(keys::CACHED, |core| (!core.state.cached.former).then_some(())).await;
    let since_us = cx.with(|core| core.now.mono_us);
    let shown = |core: &mut Core| {
        let cached = &core.state.cached;
        cached.marks.get(&id).filter(|mark| mark.filled).map(|mark| (cached.epoch, mark.clone()))
    };
    while let Some((epoch, mark)) = cx.with(shown) {
        let me = cx.with(|core| NodeId::shard(core.state.me()));
        let make = |core: &mut Core, _: NodeId, seq: RequestSeq| {
            let of = EntryOf { key: mark.key, token: mark.token, number: mark.number, revision: mark.revision };
            let innet = InNet::invalidate(core.state.config.cluster, epoch, of, core.state.me());
            core.state.peer_packet(seq, &Peer::Mark).through(mark.switch, innet)
        };
        let deadline_us = cx.with(|core| core.now.mono_us) + ASKED_AGAIN_US;
        let answer = cx.call_all(&[me], deadline_us, make).await.pop().and_then(Answer::packet);
        let cleared = answer.map_or(Cleared::No, |packet| cleared(&packet, epoch, &mark));
        cx.with(|core| core.state.cached.heard(id, &mark, &cleared));
        if matches!(cleared, Cleared::No) {
            cx.sleep_until(deadline_us).await;
            if deadline_us >= since_us + GIVEN_UP_US {
                end(cx, epoch).await; // the switch cannot be reached: nobody may answer by it (C-4)
            }
        }
    }
    // Who asks for what is in a directory does not ask its home about that.
    if id.is_directory() {
        cx.with(|core| fill_again(core, id));
    }
}

/// What the switch has said to an invalidate that it has sent back.
fn cleared(packet: &Packet, epoch: u16, mark: &Mark) -> Cleared {
    let Some(InNet::Cache(cache @ Cache::Invalidate(header))) = packet.innet.as_deref() else { return Cleared::No };
    let is_its = (header.epoch, header.key, header.number) == (epoch, mark.key, mark.number);
    match cache.result().filter(|_| is_its && header.revision >= mark.revision) {
        Some(CacheResult::Cleared) => Cleared::Yes,
        Some(CacheResult::NotThere) => Cleared::Gone,
        _ => Cleared::No,
    }
}

/// Waits until an epoch is over, which somebody sees to.
async fn end(cx: &Cx, epoch: u16) {
    cx.with(|core| {
        if core.state.cached.epoch == epoch && !std::mem::replace(&mut core.state.cached.ending, true) {
            core.start(Job::EndCacheEpoch(epoch));
        }
    });
    let is_over = |core: &mut Core| core.state.cached.epoch != epoch || core.state.cached.over;
    cx.until(keys::CACHED, |core| is_over(core).then_some(())).await;
}

/// Has the controller drop the entries of former terms; if that is not to be had, all epochs end that there were (C-7).
pub(crate) async fn drop_lent(cx: &Cx) {
    if !drop_entries(cx).await {
        return end_epoch(cx, 0).await;
    }
    cx.with(|core| {
        core.state.cached.former = false;
        core.wake(keys::CACHED);
    });
}

async fn drop_entries(cx: &Cx) -> bool {
    let coordinator = cx.with(|core| NodeId::shard(core.state.config.map.coordinator()));
    let answer = cx.call(coordinator, |core, seq| core.state.peer_packet(seq, &Peer::CacheHolderAsk)).await;
    let Ok(Peer::CacheHolder { epoch: epoch @ 1.., controller }) = answer.body() else { return false };
    let make = |core: &mut Core, _: NodeId, seq| core.state.peer_packet(seq, &Peer::CacheDrop { epoch });
    let deadline_us = cx.with(|core| core.now.mono_us) + GIVEN_UP_US;
    let answer = cx.call_all(&[controller], deadline_us, make).await.pop().and_then(Answer::packet);
    answer.is_some_and(|packet| matches!(packet.body(), Ok(Peer::Done)))
}

/// Has the coordinator end an epoch, or the present one: 0.
pub(crate) async fn end_epoch(cx: &Cx, epoch: u16) {
    let coordinator = cx.with(|core| NodeId::shard(core.state.config.map.coordinator()));
    let body = Peer::CacheEnd { epoch };
    cx.call(coordinator, |core, seq| core.state.peer_packet(seq, &body)).await;
    cx.with(|core| {
        core.state.cached.ended(epoch);
        core.wake(keys::CACHED);
    });
}

/// How the switch is asked for the name of an inode from now on, if it is lent. Somebody asks its home: what was cleared is filled again.
pub(crate) fn asked_about(core: &mut Core, id: InodeId) -> Option<Hot> {
    if !core.state.cached.entry(id)? {
        fill_again(core, id);
    }
    core.state.cached.hot(id)
}

/// The access time of an inode has moved, or its blocks: a switch that tells those of before is told the new ones. Those of a directory it does
/// not tell.
pub(crate) fn moved(core: &mut Core, id: InodeId) {
    if core.state.cached.is_filled(id) && !id.is_directory() {
        fill_again(core, id);
    }
}

fn fill_again(core: &mut Core, id: InodeId) {
    let cached = &mut core.state.cached;
    if cached.marks.contains_key(&id) && cached.refills.insert(id) {
        core.start(Job::Refill(id));
    }
}

/// Fills an entry again, if its name still leads to this inode.
pub(crate) async fn refill(cx: &Cx, id: InodeId) {
    let until_us = cx.with(|core| core.now.mono_us) + REFILL_US;
    cx.sleep_until(until_us).await;
    let name = cx.with(|core| {
        core.state.cached.refills.remove(&id);
        core.state.cached.marks.get(&id).map(|mark| mark.name.clone())
    });
    let Some(name) = name else { return };
    let found = find(cx, &name).await;
    cx.with(|core| {
        let leads_here = matches!(found, Ok(Some((child, _))) if child == id);
        let value = if leads_here { value(&mut core.state, name.0, id) } else { None };
        let epoch = core.state.cached.epoch;
        match value.and_then(|value| Some((core.state.cached.refill(id, &name)?, value))) {
            Some((mark, value)) => send(core, cx.op(), RequestSeq(0), epoch, &mark, &value),
            None => core.state.cached.forget_cleared(id),
        }
    });
}

/// Where a name leads, locked, and its key; nothing if it is not here, or its directory is not.
async fn find(cx: &Cx, (parent, name): &CachedName) -> Result<Option<(InodeId, u64)>, ()> {
    let Some(name) = name else {
        named::lock_inode(cx, InodeId::ROOT, Mode::Shared).await;
        return Ok(Some((InodeId::ROOT, ROOT_KEY)));
    };
    let at = named::here(cx, *parent, name).map_err(drop)?;
    let found = named::lock(cx, &at, Mode::Shared).await;
    // As of a lookup: names are shown when the owner has applied what a former term appended.
    dir::site::grant(cx, *parent, part::ACCESS).await.map_err(drop)?;
    let key = cx.with(|core| core.state.config.map.placement().cache_key(*parent, name.as_bytes()));
    Ok(found.map(|found| (found.child, key)))
}

/// A controller wants the entry of a name to be filled. What is shown is locked, so that no change of it is under way.
pub(crate) async fn lend(cx: &Cx, asked: Asked) {
    if cx.with(|core| core.state.cached.former) {
        return; // it asks again
    }
    let Ok(found) = find(cx, &asked.name).await else { return }; // it asks again
    if let Some((id, _)) = found.filter(|(id, _)| cx.with(|core| core.state.is_home(*id))) {
        Box::pin(holders::take_back(cx, id)).await;
    }
    cx.with(|core| {
        if let Err(why) = fill(core, cx.op(), &asked, found) {
            packets::answer_call(core, cx.op(), asked.from, asked.seq, &Peer::NotLent { why });
        }
    });
}

/// Marks a name and fills its entry: the answer to the controller passes the switch.
fn fill(core: &mut Core, op: OpId, asked: &Asked, found: Option<(InodeId, u64)>) -> Result<(), NotLent> {
    let is_newest = core.state.cached.hear(asked.epoch);
    core.wake(keys::CACHED);
    if !is_newest {
        return Err(NotLent::Older);
    }
    let (id, key) = found.ok_or(NotLent::Missing)?;
    let value = value(&mut core.state, asked.name.0, id).ok_or(NotLent::Unfit)?;
    let mark = core.state.cached.mark(id, key, asked)?;
    core.state.cached.note_opened(id, core.now.mono_us);
    if core.state.reserved.upto(Counter::LentNames) == 0 {
        commit_unasked(core, Effect::Reserved { counter: Counter::LentNames, upto: 1 });
    }
    send(core, op, asked.seq, asked.epoch, &mark, &value);
    Ok(())
}

/// Sends a fill, which shows what is durable: also that this home may have lent something.
fn send(core: &mut Core, op: OpId, seq: RequestSeq, epoch: u16, mark: &Mark, value: &EntryValue) {
    let of = EntryOf { key: mark.key, token: mark.token, number: mark.number, revision: mark.revision };
    let (cluster, home) = (core.state.config.cluster, core.state.config.shard);
    let innet = InNet::fill(cluster, epoch, of, value, home, mark.controller);
    let packet = core.state.answer_packet(seq, &Peer::Done).through(mark.switch, innet);
    let after = if seq == RequestSeq(0) { core.reflects(op) } else { core.state.record_seq };
    core.send_after(mark.controller, packet, after, Need::Durable);
}

/// The switch has this entry no more, and will not have it again.
pub(crate) fn evicted(core: &mut Core, (parent, name): CachedName, number: u32, epoch: u16) {
    let cached = &mut core.state.cached;
    let is_it = |mark: &Mark| mark.number == number && mark.name == (parent, name.clone());
    if cached.epoch == epoch {
        let found = |name| core.state.names.get(&core.state.names.at(parent, name)).map(|found| found.child);
        let id = name.as_ref().map_or(Some(InodeId::ROOT), found);
        if let Some(id) = id.filter(|id| cached.marks.get(id).is_some_and(is_it)) {
            cached.marks.remove(&id);
        }
    }
}

/// A directory whose names are shown with what fs.protected_* look at (proc(5)), which entries of names do not say.
fn protects(attr: &AttrWire) -> bool {
    const STICKY: u16 = 0o1000;
    attr.kind == Kind::Directory && attr.mode & STICKY != 0 && attr.mode & 0o022 != 0
}

/// What an entry says of an inode; nothing if others have a part in it (C-1).
fn value(state: &mut State, parent: InodeId, id: InodeId) -> Option<EntryValue> {
    if !state.is_home(id) || holders::is_lent(state, id) && !id.is_directory() {
        return None;
    }
    let has_acl = state.inodes.access(id)?.acls.is_some();
    let attr = state.told(id)?;
    let data = state.inodes.data_ref(id)?;
    if has_acl || protects(&attr) || attr.kind != Kind::Directory && attr.nlink != 1 {
        return None;
    }
    Some(EntryValue::of_inode(parent, &attr, &data))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::ids::{Birth, Slot};

    /// C-10: however many files were lent, one that still is may be open, and for a while each other one.
    #[test]
    fn what_is_lent_may_be_open() {
        let id = |number: usize| {
            InodeId::new(Slot(1), Birth(1 + number as u32 / 60_000), (number % 60_000) as u16, Kind::File)
        };
        let mut cached = Cached::default();
        let name = (InodeId::ROOT, None);
        let (switch, controller) = (NodeId::switch(1), NodeId(1));
        let mark = Mark { name, key: 1, token: 1, number: 1, revision: 1, filled: true, controller, switch };
        cached.marks.insert(id(0), mark);
        (0..=2 * LENT_NAMES_MAX).for_each(|number| cached.note_opened(id(number), 1));
        let grace_us = OPEN_GRACE_MS * 1_000;
        assert!(cached.opened.len() <= 2 * LENT_NAMES_MAX);
        assert!([0, 1, 2 * LENT_NAMES_MAX].iter().all(|number| cached.may_be_open(id(*number), grace_us)));
        assert_eq!(
            [0, 1, 2 * LENT_NAMES_MAX].map(|number| cached.may_be_open(id(number), 2 + grace_us)),
            [true, false, true]
        );
    }
}
