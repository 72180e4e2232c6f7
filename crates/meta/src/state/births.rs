//! Ids of new inodes.
//!
//! An id is of a slot, a birth and a count. A start takes its birth with its first new inode, not before, so that starts that make
//! nothing cost none: it is recorded as reserved, and that record is durable before the first id leaves. All shards of a journal take
//! theirs above what any of them has reserved in former starts.
//!
//! An inode has the slot of its name. When as many as there can be are born there, it gets another slot of the shard, so that name and
//! inode stay together; when all slots are full, the shard takes the next birth.

use crate::Cx;
use crate::ops::Stop;
use crate::planted::{self, Planted};
use crate::state::commit::commit_own;
use crate::state::{State, keys};
use hashbrown::HashMap;
use onpath_wire::disk::record::{Counter, Effect};
use onpath_wire::errno::Errno;
use onpath_wire::ids::{Birth, InodeId, RecordSeq, ShardId, Slot};
use onpath_wire::inode::Kind;
use onpath_wire::map::ClusterMap;

/// Inodes of one birth in one slot.
const SLOT_INODES_MAX: u32 = 1 << 16;
/// Slots of all shards.
const SLOTS: u32 = 1 << 16;

/// A birth that is reserved.
#[derive(Debug)]
struct Taken {
    birth: Birth,
    /// The record that says so.
    record: RecordSeq,
    durable: bool,
    /// No slot has room.
    full: bool,
}

/// The births of this start, and what was born.
#[derive(Debug)]
pub(crate) struct Births {
    /// What is of an earlier one is older than this start.
    first: Birth,
    taken: Option<Taken>,
    /// Inodes of the present birth, slot by slot.
    counts: HashMap<Slot, u32>,
    /// All slots of the shard before this one are full.
    lender: u32,
    /// Inodes that a slot may have in one birth.
    slot_inodes_max: u32,
}

impl Default for Births {
    fn default() -> Self {
        Births { first: Birth::NEVER, taken: None, counts: HashMap::new(), lender: 0, slot_inodes_max: SLOT_INODES_MAX }
    }
}

impl Births {
    /// Whether something is as young as this start.
    #[inline]
    pub(crate) fn is_new(&self, id: InodeId) -> bool {
        id.birth() >= self.first
    }

    /// The first birth of this start.
    pub(crate) fn first(&self) -> Birth {
        self.first
    }

    /// Records up to this one are durable; whether somebody may wait for that.
    pub(crate) fn durable(&mut self, upto: RecordSeq) -> bool {
        let reached = |taken: &&mut Taken| !taken.durable && taken.record <= upto;
        self.taken.as_mut().filter(reached).map(|taken| taken.durable = true).is_some()
    }

    /// Whether there is a birth, with room, of which ids may leave.
    fn is_ready(&self) -> bool {
        self.taken.as_ref().is_some_and(|taken| taken.durable && !taken.full)
    }

    /// The birth to take next, if one is needed: there is none yet, or all slots are full.
    fn wanted(&self) -> Option<Birth> {
        match &self.taken {
            None => Some(self.first),
            Some(taken) => taken.full.then(|| taken.birth.next()),
        }
    }

    fn take(&mut self, birth: Birth, record: RecordSeq, durable: bool) {
        self.taken = Some(Taken { birth, record, durable, full: false });
        self.counts.clear();
        self.lender = 0;
    }

    /// An id in this slot, or another one of the shard if that is full; none if no birth is there, or all slots are full.
    fn next(&mut self, slot: Slot, kind: Kind, map: &ClusterMap, me: ShardId) -> Option<InodeId> {
        let slot = if self.has_room(slot) { slot } else { self.lend(map, me)? };
        let taken = self.taken.as_ref().filter(|taken| taken.durable)?;
        let count = self.counts.entry(slot).or_default();
        *count += 1;
        let birth = if planted::is(Planted::BirthlessIds) { Birth(1) } else { taken.birth };
        Some(InodeId::new(slot, birth, (*count - 1) as u16, kind))
    }

    fn has_room(&self, slot: Slot) -> bool {
        self.counts.get(&slot).is_none_or(|count| *count < self.slot_inodes_max)
    }

    /// The first slot of the shard that has room.
    fn lend(&mut self, map: &ClusterMap, me: ShardId) -> Option<Slot> {
        while self.lender < SLOTS {
            let slot = Slot(self.lender as u16);
            if map.shard(slot) == me && self.has_room(slot) {
                return Some(slot);
            }
            self.lender += 1;
        }
        self.taken.iter_mut().for_each(|taken| taken.full = true);
        None
    }
}

impl State {
    /// What is of an earlier birth is older than this start; inodes of this one may be made.
    pub(crate) fn begin_births(&mut self, first: Birth) {
        self.births.first = first;
        if self.config.one_journal {
            self.names.set_since(first);
            self.listings.set_since(first);
        }
    }

    /// A new inode id, in this slot if there is room; never repeated, whatever a power loss forgets. Without one the caller needs
    /// [`more`] first.
    pub(crate) fn new_inode_id(&mut self, slot: Slot, kind: Kind) -> Option<InodeId> {
        self.births.next(slot, kind, &self.config.map, self.config.shard)
    }
}

/// Waits until there is room for new inodes; ENOSPC if all births were taken.
pub(crate) async fn more(cx: &Cx) -> Result<(), Stop> {
    cx.with(|core| {
        let Some(birth) = core.state.births.wanted() else { return Ok(()) };
        if birth > Birth::MAX {
            core.state.counters.births_exhausted += 1;
            return Err(Errno::ENOSPC);
        }
        let upto = u64::from(birth.0);
        let record = commit_own(core, cx.op(), vec![Effect::Reserved { counter: Counter::Births, upto }]);
        let durable = core.state.config.tells_durably();
        core.state.births.take(birth, record, durable);
        if !durable {
            core.flush();
        }
        Ok(())
    })?;
    cx.until(keys::BIRTH, |core| {
        let births = &core.state.births;
        // Those who waited before may have taken all the room.
        (births.is_ready() || births.wanted().is_some()).then_some(())
    })
    .await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: ShardId = ShardId(1);

    /// Births of a shard whose slots have room for two inodes each.
    fn births() -> (Births, ClusterMap, Vec<Slot>) {
        let map = ClusterMap::even(256, onpath_wire::secrets::Secrets::of_seed(1).placement);
        let own = (0..=u16::MAX).map(Slot).filter(|slot| map.shard(*slot) == ME).collect();
        (Births { first: Birth(7), slot_inodes_max: 2, ..Births::default() }, map, own)
    }

    #[test]
    fn no_id_is_given_before_the_birth_is_durable() {
        let (mut births, map, own) = births();
        assert_eq!(births.next(own[0], Kind::File, &map, ME), None);
        assert_eq!((births.wanted(), births.is_ready()), (Some(Birth(7)), false));
        births.take(Birth(7), RecordSeq(5), false);
        assert_eq!((births.wanted(), births.is_ready()), (None, false));
        assert_eq!(births.next(own[0], Kind::File, &map, ME), None);
        assert!(!births.durable(RecordSeq(4)) && births.durable(RecordSeq(5)) && !births.durable(RecordSeq(6)));
        let id = births.next(own[0], Kind::Directory, &map, ME).expect("it is durable");
        assert_eq!((id.slot(), id.birth(), id.is_directory()), (own[0], Birth(7), true));
        assert!(births.is_new(id) && !births.is_new(InodeId::ROOT));
    }

    #[test]
    fn a_full_slot_borrows_of_its_shard_and_then_comes_the_next_birth() {
        let (mut births, map, own) = births();
        let mut all = std::collections::BTreeSet::new();
        for birth in [Birth(7), Birth(8)] {
            births.take(birth, RecordSeq(0), true);
            for made in 0..2 * own.len() {
                let id = births.next(own[1], Kind::File, &map, ME).expect("there is room");
                assert!(map.home(id) == ME && id.birth() == birth && all.insert(id));
                assert_eq!(id.slot() == own[1], made < 2, "its own slot comes first");
            }
            assert_eq!(births.next(own[1], Kind::File, &map, ME), None);
            assert_eq!(births.wanted(), Some(birth.next()));
        }
    }

    #[test]
    fn after_the_last_birth_none_is_left() {
        let (mut births, map, own) = births();
        births.take(Birth::MAX, RecordSeq(0), true);
        (0..2 * own.len()).for_each(|_| assert!(births.next(own[0], Kind::File, &map, ME).is_some()));
        assert_eq!(births.next(own[0], Kind::File, &map, ME), None);
        assert!(births.wanted().is_some_and(|birth| birth > Birth::MAX));
    }
}
