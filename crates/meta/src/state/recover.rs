//! Images and replay (design.md, "Durability").
//!
//! 64 ranges of slots and one for what belongs to the shard as a whole. The global range is imaged last, so that
//! whoever replays a record for it also replays what the record did to inodes: cached replies come out the same.

use crate::shard::Shard;
use crate::state::apply::Wants;
use onpath_store::{Changes, Cold, FORGET_PARTS, Image, ObjectCheck, RANGES as SLOT_RANGES, Recoverable, StoreError};
use onpath_wire::disk::Stored;
use onpath_wire::disk::record::{Effect, Record};
use onpath_wire::ids::{RecordSeq, Slot};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// What belongs to no slot: change-logs, transactions, the reply cache, the registry of sessions.
pub const GLOBAL_RANGE: u32 = SLOT_RANGES;
/// All ranges.
pub const RANGES: u32 = SLOT_RANGES + 1;

/// The range of a slot.
#[inline]
pub(crate) fn range_of(slot: Slot) -> u32 {
    u32::from(slot.0) / (65_536 / SLOT_RANGES)
}

/// The slots of a range.
pub(crate) fn slots_of(range: u32) -> RangeInclusive<Slot> {
    let width = 65_536 / SLOT_RANGES;
    Slot((range * width) as u16)..=Slot((range * width + width - 1) as u16)
}

/// The slots of a part of what is forgotten.
fn slots_of_part(part: u32) -> RangeInclusive<Slot> {
    let width = 65_536 / FORGET_PARTS;
    Slot((part * width) as u16)..=Slot((part * width + width - 1) as u16)
}

/// What each range already reflects.
pub(crate) struct Reflected {
    pub(crate) upto: Vec<RecordSeq>,
}

impl Default for Reflected {
    fn default() -> Self {
        Reflected { upto: vec![RecordSeq(0); RANGES as usize] }
    }
}

/// What the records of a replay did, for the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Names put or dropped.
    pub names: u64,
    /// Batches of change-logs applied at owners.
    pub collects: u64,
    /// Names moved, by one shard or by a transaction.
    pub renames: u64,
    /// Transactions decided here.
    pub transactions: u64,
}

impl std::ops::AddAssign for Replayed {
    fn add_assign(&mut self, other: Replayed) {
        self.names += other.names;
        self.collects += other.collects;
        self.renames += other.renames;
        self.transactions += other.transactions;
    }
}

impl Replayed {
    fn count(&mut self, record: &Record) {
        let mut put = false;
        let mut dropped = false;
        let mut decided = false;
        for effect in &record.effects {
            match effect {
                Effect::PutName { .. } => put = true,
                Effect::DropName { .. } => dropped = true,
                Effect::AppliedLog { .. } => self.collects += 1,
                Effect::Decided { .. } => decided = true,
                _ => {}
            }
        }
        self.names += u64::from(put) + u64::from(dropped);
        self.renames += u64::from(put && (dropped || decided));
        self.transactions += u64::from(decided);
    }
}

struct Replay<'a> {
    seq: RecordSeq,
    reflected: &'a Reflected,
}

impl Wants for Replay<'_> {
    const READ: bool = true;

    #[inline]
    fn wants(&self, range: u32) -> bool {
        self.seq > self.reflected.upto[range as usize]
    }
}

impl Recoverable for Shard {
    fn ranges(&self) -> u32 {
        RANGES
    }

    fn begin_image(&mut self, range: u32) -> Image {
        self.kernel.with(|core| {
            let rest = core.state.begin_image(range);
            Image { upto: core.state.record_seq, changes: Changes::default(), rest }
        })
    }

    fn more_of_image(&mut self, changes: &mut Changes) -> bool {
        self.kernel.with(|core| core.state.more_of_image(changes))
    }

    fn settle_some(&mut self, range: u32, kept: bool) -> bool {
        self.kernel.with(|core| core.state.settle_some(range, kept))
    }

    fn attach(&mut self, cold: Arc<dyn Cold>) -> Result<(), StoreError> {
        self.kernel.with(|core| {
            core.state.inodes.attach(cold.clone());
            core.state.names.attach(cold.clone());
            core.state.listings.attach(cold);
        });
        Ok(())
    }

    fn memory(&self) -> u64 {
        self.kernel.with(|core| core.state.object_bytes())
    }

    fn spare(&self) -> u64 {
        self.kernel.with(|core| core.state.free_bytes())
    }

    fn forget(&mut self, part: u32) {
        self.kernel.with(|core| core.state.forget(slots_of_part(part)));
    }

    fn load(&mut self, range: u32, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let loaded = self.kernel.with(|core| core.state.load_pair(range, key, value));
        loaded.map_err(|source| StoreError::Undecodable { what: "object of an image", source })
    }

    fn load_object(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let loaded = self.kernel.with(|core| core.state.load_object(key, value));
        loaded.map_err(|source| StoreError::Undecodable { what: "object of a checkpoint", source })
    }

    fn object_check(&self) -> ObjectCheck {
        let mut check = self.kernel.with(|core| core.state.object_check());
        Box::new(move |key, value| {
            check(key, value).map_err(|source| StoreError::Undecodable { what: "object of a checkpoint", source })
        })
    }

    fn loaded(&mut self, range: u32, upto: RecordSeq) {
        if let Some(slot) = self.reflected.upto.get_mut(range as usize) {
            *slot = upto;
        }
        self.tail_was_durable(upto); // nothing is imaged before that
    }

    fn foresee(&self, record: &[u8], asks: &mut Vec<Vec<u8>>) {
        // A record that does not decode is refused by the replay.
        let Ok(record) = Record::from_stored(record) else { return };
        self.kernel.with(|core| core.state.foresee(&record, asks));
    }

    fn replay(&mut self, seq: RecordSeq, record: &[u8]) -> Result<(), StoreError> {
        let record =
            Record::from_stored(record).map_err(|source| StoreError::Undecodable { what: "journal record", source })?;
        self.replayed.count(&record);
        let wants = Replay { seq, reflected: &self.reflected };
        let in_tail = self.in_tail;
        self.kernel.with(|core| {
            core.state.apply(&record, &wants)?;
            core.state.counters.records += 1;
            if !in_tail {
                core.state.kept = seq;
            }
            Ok(())
        })
    }
}
