//! What an image of a range holds: one pair an object, keys sorted by their first byte, the object's class.

use crate::state::State;
use crate::state::recover::{GLOBAL_RANGE, slots_of};
use onpath_store::{NameValue, Pair};
use onpath_wire::codec::{Reader, Wire, WireError};
use onpath_wire::hash::name_hash;
use onpath_wire::ids::{Cookie, DataId, InodeId, LogSeq, RequestSeq, SessionId, ShardId, Slot, TrackingEpoch};
use onpath_wire::inode::{Inode, Kind};
use onpath_wire::name::Name;
use onpath_wire::peer::{LogEntry, PartState, TxnId, TxnPart};
use onpath_wire::reply::Reply;
use onpath_wire::tracking::{Tracking, TrackingSide};
use smallvec::SmallVec;
use std::ops::RangeInclusive;

/// What is wrong with an object that is an entry at a position of another name's, or at a taken one.
pub const WRONG_COOKIE: WireError = WireError::Bad("cookie of an entry");
/// What is wrong with an object that is a change-log whose positions do not grow.
pub const DISORDERED_LOG: WireError = WireError::Bad("order of a change-log");

mod class {
    pub(super) const INODE: u8 = 1;
    pub(super) const NAME: u8 = 2;
    pub(super) const ENTRY: u8 = 3;
    pub(super) const WATERMARK: u8 = 4;
    pub(super) const DATA_PENDING: u8 = 5;
    pub(super) const LOG: u8 = 16;
    pub(super) const TRIMMED: u8 = 17;
    pub(super) const FLOOR: u8 = 18;
    pub(super) const REPLY: u8 = 19;
    pub(super) const PREPARED: u8 = 20;
    pub(super) const DECIDED: u8 = 21;
    pub(super) const FINISHED: u8 = 22;
    pub(super) const SESSION: u8 = 23;
    pub(super) const CLOCK: u8 = 24;
    pub(super) const TRACKING: u8 = 25;
}

fn key(class: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut key = vec![class];
    parts.iter().for_each(|part| key.extend_from_slice(part));
    key
}

fn value(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out);
    out
}

impl State {
    /// The objects of a range, sorted.
    pub(crate) fn image_pairs(&self, range: u32) -> Vec<Pair> {
        let mut pairs = Vec::new();
        if range == GLOBAL_RANGE {
            self.global_pairs(&mut pairs);
        } else {
            self.slot_pairs(slots_of(range), &mut pairs);
            self.dirs.watermarks_in(range).for_each(|((dir, from), upto)| {
                let key = key(class::WATERMARK, &[&dir.0.to_be_bytes(), &from.0.to_be_bytes()]);
                pairs.push((key, upto.to_bytes()));
            });
            for (&(data, cut, drop), &size) in &self.data_pending {
                if crate::state::recover::range_of(data.inode.slot()) == range {
                    let id = data.to_bytes();
                    pairs.push((key(class::DATA_PENDING, &[&id, &cut.to_bytes(), &drop.to_bytes()]), size.to_bytes()));
                }
            }
        }
        pairs.sort();
        pairs
    }

    fn slot_pairs(&self, slots: RangeInclusive<Slot>, pairs: &mut Vec<Pair>) {
        for id in self.inodes.in_slots(slots.clone()) {
            let inode = self.inodes.get(id).expect("listed");
            pairs.push((key(class::INODE, &[&id.0.to_be_bytes()]), inode.to_bytes()));
        }
        for (parent, name, found) in self.names.in_slots(slots.clone()) {
            let key = key(class::NAME, &[&parent.0.to_be_bytes(), name.as_bytes()]);
            pairs.push((
                key,
                value(|o| {
                    found.child.put(o);
                    found.kind.put(o);
                }),
            ));
        }
        for dir in self.listings.dirs_in_slots(slots) {
            for entry in self.listings.all(dir) {
                let key = key(class::ENTRY, &[&dir.0.to_be_bytes(), &entry.cookie.0.to_be_bytes()]);
                pairs.push((
                    key,
                    value(|o| {
                        entry.name.put(o);
                        entry.child.put(o);
                        entry.kind.put(o);
                    }),
                ));
            }
        }
    }

    fn global_pairs(&self, pairs: &mut Vec<Pair>) {
        for (dir, entries) in self.dirs.logs() {
            pairs.push((key(class::LOG, &[&dir.0.to_be_bytes()]), entries.to_bytes()));
        }
        for (dir, upto) in self.dirs.trimmed() {
            pairs.push((key(class::TRIMMED, &[&dir.0.to_be_bytes()]), upto.to_bytes()));
        }
        for (from, upto) in self.dirs.floors(self.config.shard) {
            pairs.push((key(class::FLOOR, &[&from.0.to_be_bytes()]), upto.to_bytes()));
        }
        for (session, request, oldest, reply) in self.replies.durable(&self.buried) {
            let key = key(class::REPLY, &[&session.0.to_be_bytes(), &request.0.to_be_bytes()]);
            pairs.push((
                key,
                value(|o| {
                    oldest.put(o);
                    reply.put(o);
                }),
            ));
        }
        for (txn, parts, states) in self.txns.all_prepared() {
            pairs.push((
                key(class::PREPARED, &[&txn.to_bytes()]),
                value(|o| {
                    parts.put(o);
                    states.put(o);
                }),
            ));
        }
        for (txn, participants) in self.txns.all_decided() {
            pairs.push((key(class::DECIDED, &[&txn.to_bytes()]), participants.to_bytes()));
        }
        for txn in self.txns.all_finished() {
            pairs.push((key(class::FINISHED, &[&txn.to_bytes()]), Vec::new()));
        }
        for (session, alive) in self.coordinator.sessions() {
            pairs.push((key(class::SESSION, &[&session.0.to_be_bytes()]), alive.to_bytes()));
        }
        pairs.push((key(class::CLOCK, &[]), self.clock.last().to_bytes()));
        for (side, tracking) in self.epochs.all() {
            if tracking.epoch != TrackingEpoch(0) {
                pairs.push((key(class::TRACKING, &[&side.to_bytes()]), tracking.to_bytes()));
            }
        }
    }

    /// Takes back one pair.
    pub(crate) fn load_pair(&mut self, key: &[u8], value: &[u8]) -> Result<(), WireError> {
        let (&class, key) = key.split_first().ok_or(WireError::Truncated)?;
        let mut k = Reader::new(key);
        let mut v = Reader::new(value);
        match class {
            class::INODE => {
                let inode = Inode::take(&mut v)?;
                if be64(&mut k)? != inode.id.0 {
                    return Err(WireError::Bad("key of an inode"));
                }
                self.put_inode(&inode);
            }
            class::NAME => {
                let parent = InodeId(be64(&mut k)?);
                let name = k.bytes(k.remaining())?;
                let found = NameValue { child: InodeId::take(&mut v)?, kind: Kind::take(&mut v)? };
                self.names.put(name_hash(parent, name), parent, name, found);
            }
            class::ENTRY => {
                let (dir, cookie) = (InodeId(be64(&mut k)?), Cookie(be64(&mut k)?));
                let name = Name::take(&mut v)?;
                let (child, kind) = (InodeId::take(&mut v)?, Kind::take(&mut v)?);
                if !self.listings.restore(dir, cookie, name.as_bytes(), child, kind) {
                    return Err(WRONG_COOKIE);
                }
            }
            class::WATERMARK => {
                let dir = InodeId(be64(&mut k)?);
                let from = ShardId(u16::from_be_bytes(k.array()?));
                self.dirs.set_watermark(dir, from, LogSeq::take(&mut v)?);
            }
            class::DATA_PENDING => {
                let id = (DataId::take(&mut k)?, u32::take(&mut k)?, bool::take(&mut k)?);
                self.data_pends(id, u64::take(&mut v)?);
            }
            _ => self.load_global(class, &mut k, &mut v)?,
        }
        k.finish()?;
        v.finish()
    }

    fn load_global(&mut self, class: u8, k: &mut Reader<'_>, v: &mut Reader<'_>) -> Result<(), WireError> {
        match class {
            class::LOG => {
                let dir = InodeId(be64(k)?);
                let entries = Vec::<LogEntry>::take(v)?;
                if !entries.is_sorted_by(|a, b| a.seq < b.seq) {
                    return Err(DISORDERED_LOG);
                }
                entries.into_iter().for_each(|entry| self.dirs.append(dir, entry));
            }
            class::TRIMMED => {
                let dir = InodeId(be64(k)?);
                self.dirs.trim(dir, LogSeq::take(v)?);
            }
            class::FLOOR => {
                let from = ShardId(u16::from_be_bytes(k.array()?));
                self.raise_floor(from, LogSeq::take(v)?);
            }
            class::REPLY => {
                let session = SessionId(u32::from_be_bytes(k.array()?));
                let request = RequestSeq(be64(k)?);
                let oldest = RequestSeq::take(v)?;
                self.replies.remember(session, request, oldest, Reply::take(v)?, true);
            }
            class::PREPARED => {
                let txn = TxnId::take(k)?;
                self.txns.prepared(txn, &Vec::<TxnPart>::take(v)?, &Vec::<PartState>::take(v)?);
            }
            class::DECIDED => self.txns.decided(TxnId::take(k)?, &SmallVec::<[ShardId; 3]>::take(v)?),
            class::FINISHED => self.txns.finished(TxnId::take(k)?),
            class::SESSION => {
                let session = SessionId(u32::from_be_bytes(k.array()?));
                self.coordinator.load(session, bool::take(v)?);
            }
            class::TRACKING => self.epochs.learned(TrackingSide::take(k)?, Tracking::take(v)?),
            class::CLOCK => self.clock.replayed(onpath_wire::ids::Stamp::take(v)?),
            tag => return Err(WireError::UnknownTag { what: "image object", tag }),
        }
        Ok(())
    }
}

fn be64(r: &mut Reader<'_>) -> Result<u64, WireError> {
    Ok(u64::from_be_bytes(r.array()?))
}
