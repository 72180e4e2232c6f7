//! What an image of a range holds beside what has changed in its tables: one pair an object, keys sorted by their first byte,
//! the object's class.

use crate::state::State;
use crate::state::recover::{GLOBAL_RANGE, range_of, slots_of};
use crate::survey::{Surveyed, SurveyedName};
use onpath_store::{Changes, Count, Inodes, Listings, NameValue, Names, Pair, Piece, RANGES};
use onpath_wire::codec::{Reader, Wire, WireError};
use onpath_wire::hash::name_hash;
use onpath_wire::ids::{Cookie, DataId, InodeId, LogSeq, RequestSeq, SessionId, ShardId, Slot, TrackingEpoch};
use onpath_wire::inode::{Inode, Kind};
use onpath_wire::name::Name;
use onpath_wire::peer::{LogEntry, PartState, TxnId, TxnPart};
use onpath_wire::reply::Reply;
use onpath_wire::tracking::{Tracking, TrackingSide};
use onpath_wire::xattr::XattrName;
use smallvec::SmallVec;
use std::ops::RangeInclusive;

/// What is wrong with an object that is an entry at a position of another name's, or at a taken one.
pub const WRONG_COOKIE: WireError = WireError::Bad("cookie of an entry");
/// What is wrong with an object that is a change-log whose positions do not grow.
pub const DISORDERED_LOG: WireError = WireError::Bad("order of a change-log");

/// Tables of objects.
const TABLES: u8 = 3;
const XATTR_NAME: WireError = WireError::Bad("name of an extended attribute");

pub(super) mod class {
    pub(in crate::state) use onpath_store::cold::class::{ENTRY, INODE, NAME, XATTR};
    pub(in crate::state) const WATERMARK: u8 = 4;
    pub(in crate::state) const DATA_PENDING: u8 = 5;
    pub(in crate::state) const ORPHAN: u8 = 6;
    pub(in crate::state) const COUNT: u8 = 7;
    pub(in crate::state) const LINKABLE: u8 = 12;
    pub(in crate::state) const LOG: u8 = 16;
    pub(in crate::state) const TRIMMED: u8 = 17;
    pub(in crate::state) const FLOOR: u8 = 18;
    pub(in crate::state) const REPLY: u8 = 19;
    pub(in crate::state) const PREPARED: u8 = 20;
    pub(in crate::state) const DECIDED: u8 = 21;
    pub(in crate::state) const FINISHED: u8 = 22;
    pub(in crate::state) const SESSION: u8 = 23;
    pub(in crate::state) const CLOCK: u8 = 24;
    pub(in crate::state) const TRACKING: u8 = 25;
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
    /// Begins the image of a range: what is small, sorted. What has changed since the last one that was kept follows in pieces.
    pub(crate) fn begin_image(&mut self, range: u32) -> Vec<Pair> {
        let mut rest = Vec::new();
        if range == GLOBAL_RANGE {
            self.global_pairs(&mut rest);
        } else {
            self.inodes.begin_image(slots_of(range));
            self.names.begin_image(slots_of(range));
            self.listings.begin_image(slots_of(range));
            self.ranged_pairs(range, &mut rest);
        }
        rest.sort();
        rest
    }

    /// Adds a piece of the image that was begun; whether there is more of it.
    pub(crate) fn more_of_image(&mut self, changes: &mut Changes) -> bool {
        let piece = &mut Piece::default();
        self.inodes.more_of_image(piece, changes)
            || self.names.more_of_image(piece, changes)
            || self.listings.more_of_image(piece, changes)
    }

    /// The image of a range that was taken last is kept, or will not be; whether there is more to settle of it.
    pub(crate) fn settle_some(&mut self, range: u32, kept: bool) -> bool {
        if range == GLOBAL_RANGE {
            return false;
        }
        let (slots, piece) = (slots_of(range), &mut Piece::default());
        while self.settled_tables < TABLES {
            let more = match self.settled_tables {
                0 => self.inodes.settle(slots.clone(), kept, piece),
                1 => self.names.settle(slots.clone(), kept, piece),
                _ => self.listings.settle(slots.clone(), kept, piece),
            };
            if more {
                return true;
            }
            self.settled_tables += 1;
        }
        self.settled_tables = 0;
        false
    }

    fn ranged_pairs(&self, range: u32, pairs: &mut Vec<Pair>) {
        self.dirs.watermarks_in(range).for_each(|((dir, from), upto)| {
            let key = key(class::WATERMARK, &[&dir.0.to_be_bytes(), &from.0.to_be_bytes()]);
            pairs.push((key, upto.to_bytes()));
        });
        for (&(data, cut, drop), &size) in &self.data_pending {
            if range_of(data.inode.slot()) == range {
                let id = data.to_bytes();
                pairs.push((key(class::DATA_PENDING, &[&id, &cut.to_bytes(), &drop.to_bytes()]), size.to_bytes()));
            }
        }
        let orphans = self.orphans.iter().filter(|id| range_of(id.slot()) == range);
        orphans.for_each(|id| pairs.push((key(class::ORPHAN, &[&id.0.to_be_bytes()]), Vec::new())));
        let linkable = self.linkable.iter().filter(|id| range_of(id.slot()) == range);
        linkable.for_each(|id| pairs.push((key(class::LINKABLE, &[&id.0.to_be_bytes()]), Vec::new())));
        let Count { inodes, blocks } = self.inodes.count(range);
        let count = value(|o| {
            inodes.put(o);
            blocks.put(o);
        });
        pairs.push((key(class::COUNT, &[]), count));
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

    /// Takes an object that could also be read when it is asked for, as the store has it.
    pub(crate) fn load_object(&mut self, key: &[u8], value: &[u8]) -> Result<(), WireError> {
        match key.split_first().ok_or(WireError::Truncated)? {
            (&class::INODE, key) => self.inodes.load(key, value),
            (&class::NAME, key) => self.names.load(key, value),
            (&class::XATTR, key) => self.inodes.load_xattrs(key, value),
            (&class::ENTRY, key) => self.listings.load(key, value)?.then_some(()).ok_or(WRONG_COOKIE),
            (&tag, _) => Err(WireError::UnknownTag { what: "object", tag }),
        }
    }

    /// What says of objects whether they could be loaded.
    pub(crate) fn object_check(&self) -> impl FnMut(&[u8], &[u8]) -> Result<(), WireError> + use<> {
        let in_place = self.listings.position_check();
        move |key, value| match key.split_first().ok_or(WireError::Truncated)? {
            (&class::INODE, key) => Inodes::decode(key, value).map(drop),
            (&class::NAME, key) => Names::decode(key, value).map(drop),
            (&class::XATTR, key) => Inodes::decode_xattrs(key, value).map(drop),
            (&class::ENTRY, key) => in_place(&Listings::decode(key, value)?.1).then_some(()).ok_or(WRONG_COOKIE),
            (&tag, _) => Err(WireError::UnknownTag { what: "object", tag }),
        }
    }

    /// Shows `each` object of some classes, in no order and none twice. What only the store has stays there.
    pub(crate) fn each_object(&mut self, each: &mut dyn FnMut(Surveyed)) {
        for range in 0..RANGES {
            let slots = slots_of(range);
            for id in self.inodes.in_slots(slots.clone()) {
                self.inodes.get(id).map(Surveyed::Inode).into_iter().for_each(&mut *each);
            }
            self.inodes.xattrs_in_slots(slots.clone()).for_each(|(id, set)| each(Surveyed::xattrs(id, set)));
            for (parent, name, NameValue { child, kind }) in self.names.in_slots(slots.clone()) {
                each(Surveyed::Name(SurveyedName { parent, name, child, kind }));
            }
            for dir in self.listings.dirs_in_slots(slots) {
                self.listings.all(dir).for_each(|entry| each(Surveyed::Entry(dir, entry)));
            }
        }
        let Some(cold) = self.inodes.attached() else { return };
        cold.scan(&[], &[], &mut |key, value| {
            let object = self.stored(key, value).expect("the store gives back what was written");
            object.into_iter().for_each(&mut *each);
            true
        });
    }

    /// What the store has of an object; none if memory knows better.
    fn stored(&self, key: &[u8], value: &[u8]) -> Result<Option<Surveyed>, WireError> {
        Ok(match key.split_first().ok_or(WireError::Truncated)? {
            (&class::INODE, key) => {
                let inode = Inodes::decode(key, value)?;
                (!self.inodes.knows(inode.id)).then_some(Surveyed::Inode(inode))
            }
            (&class::NAME, key) => {
                let (parent, name, NameValue { child, kind }) = Names::decode(key, value)?;
                let known = self.names.knows(name_hash(parent, name.as_bytes()), parent, name.as_bytes());
                (!known).then_some(Surveyed::Name(SurveyedName { parent, name, child, kind }))
            }
            (&class::XATTR, key) => {
                let (id, set) = Inodes::decode_xattrs(key, value)?;
                (!self.inodes.knows_xattrs(id)).then(|| Surveyed::xattrs(id, &set))
            }
            (&class::ENTRY, key) => {
                let (dir, entry) = Listings::decode(key, value)?;
                (!self.listings.knows(dir, entry.cookie)).then_some(Surveyed::Entry(dir, entry))
            }
            (&tag, _) => return Err(WireError::UnknownTag { what: "object", tag }),
        })
    }

    /// Forgets what the store has too and nobody has asked for lately, of whole tables of slots.
    pub(crate) fn forget(&mut self, slots: RangeInclusive<Slot>) {
        self.inodes.forget(slots.clone());
        self.names.forget(slots.clone());
        self.listings.forget(slots);
    }

    /// Takes back one of the rest of a range's image. Images of before the store have all objects there.
    pub(crate) fn load_pair(&mut self, range: u32, key: &[u8], value: &[u8]) -> Result<(), WireError> {
        let (&class, key) = key.split_first().ok_or(WireError::Truncated)?;
        let mut k = Reader::new(key);
        let mut v = Reader::new(value);
        match class {
            class::INODE => {
                let inode = Inode::take(&mut v)?;
                if be64(&mut k)? != inode.id.0 {
                    return Err(WireError::Bad("key of an inode"));
                }
                self.put_inode(&inode, true);
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
                let value = NameValue { child: InodeId::take(&mut v)?, kind: Kind::take(&mut v)? };
                if !self.listings.restore(dir, cookie, name.as_bytes(), value, false) {
                    return Err(WRONG_COOKIE);
                }
            }
            class::XATTR => {
                let id = InodeId(be64(&mut k)?);
                let name = XattrName::new(k.bytes(k.remaining())?).map_err(|_| XATTR_NAME)?;
                self.inodes.set_xattr(id, &name, v.bytes(v.remaining())?);
            }
            class::ORPHAN => _ = self.orphans.insert(InodeId(be64(&mut k)?)),
            class::COUNT => {
                let count = Count { inodes: u64::take(&mut v)?, blocks: u64::take(&mut v)? };
                self.inodes.set_count(range, count);
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
            class::LINKABLE => _ = self.linkable.insert(InodeId(be64(&mut k)?)),
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
