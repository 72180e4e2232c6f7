//! What an image of a range holds beside what has changed in its tables: one pair an object, keys sorted by their first byte,
//! the object's class.

use crate::coord::session_of;
use crate::state::recover::{GLOBAL_RANGE, range_of, slots_of};
use crate::state::{State, sound};
use crate::survey::{Surveyed, SurveyedName};
use onpath_store::{Changes, Count, Inodes, Listings, NameValue, Names, Pair, Piece, RANGES};
use onpath_wire::codec::{Reader, Wire, WireError};
use onpath_wire::disk::Stored;
use onpath_wire::disk::log::Entry;
use onpath_wire::disk::map::MapImage;
use onpath_wire::disk::objects::{
    AttemptsObject, ClockObject, CountObject, DecidedObject, Fact, LogObject, PendingObject, PowerLostObject,
    PreparedObject, ReplyObject, ReservedObject, TrackingObject, UptoObject,
};
use onpath_wire::disk::record::{Counter, Member};
use onpath_wire::disk::reply::Answered;
use onpath_wire::disk::txn::{Found, Part};
use onpath_wire::ids::{DataId, InodeId, NodeId, RequestSeq, SessionId, ShardId, Slot, Term, TrackingEpoch, TxnId};
use onpath_wire::peer::{PartState, TxnPart};
use onpath_wire::tracking::TrackingSide;
use std::ops::RangeInclusive;

/// What is wrong with an object that is an entry at a position of another name's, or at a taken one.
pub const WRONG_COOKIE: WireError = WireError::Bad("cookie of an entry");
/// What is wrong with an object that is a change-log whose positions do not grow.
pub const DISORDERED_LOG: WireError = WireError::Bad("order of a change-log");

/// Tables of objects.
const TABLES: u8 = 3;

pub(super) mod class {
    pub(in crate::state) use onpath_store::cold::class::{ENTRY, FURTHER, INODE, NAME, XATTR};
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
    pub(in crate::state) const MEMBER: u8 = 23;
    pub(in crate::state) const CLOCK: u8 = 24;
    pub(in crate::state) const TRACKING: u8 = 25;
    pub(in crate::state) const MAP: u8 = 26;
    pub(in crate::state) const POWER_LOST: u8 = 27;
    pub(in crate::state) const RESERVED: u8 = 28;
    pub(in crate::state) const ATTEMPTS: u8 = 29;
}

fn key(class: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut key = vec![class];
    parts.iter().for_each(|part| key.extend_from_slice(part));
    key
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
            pairs.push((key, UptoObject { upto }.to_stored()));
        });
        for (&(data, cut, drop), remains) in &self.data_pending {
            if range_of(data.inode.slot()) == range {
                let id = data.to_bytes();
                pairs.push((key(class::DATA_PENDING, &[&id, &cut.to_bytes(), &drop.to_bytes()]), remains.to_stored()));
            }
        }
        let orphans = self.orphans.iter().filter(|id| range_of(id.slot()) == range);
        orphans.for_each(|id| pairs.push((key(class::ORPHAN, &[&id.0.to_be_bytes()]), Fact {}.to_stored())));
        let linkable = self.linkable.iter().filter(|id| range_of(id.slot()) == range);
        linkable.for_each(|id| pairs.push((key(class::LINKABLE, &[&id.0.to_be_bytes()]), Fact {}.to_stored())));
        let Count { inodes, blocks } = self.inodes.count(range);
        pairs.push((key(class::COUNT, &[]), CountObject { inodes, blocks }.to_stored()));
    }

    fn global_pairs(&self, pairs: &mut Vec<Pair>) {
        for (dir, entries) in self.dirs.logs() {
            let entries = entries.iter().cloned().map(Entry::from).collect();
            pairs.push((key(class::LOG, &[&dir.0.to_be_bytes()]), LogObject { entries }.to_stored()));
        }
        for (dir, upto) in self.dirs.trimmed() {
            pairs.push((key(class::TRIMMED, &[&dir.0.to_be_bytes()]), UptoObject { upto }.to_stored()));
        }
        for (from, upto) in self.dirs.floors(NodeId::shard(self.me())) {
            pairs.push((key(class::FLOOR, &[&from.0.to_be_bytes()]), UptoObject { upto }.to_stored()));
        }
        for (session, request, oldest, reply) in self.replies.durable(&self.buried) {
            let key = key(class::REPLY, &[&session.0.to_be_bytes(), &request.0.to_be_bytes()]);
            let answered = Answered::of(&reply).expect("a record stands for a reply of these");
            pairs.push((key, ReplyObject { oldest, answered }.to_stored()));
        }
        for (txn, parts, states) in self.txns.all_prepared() {
            let parts = parts.iter().cloned().map(Part::from).collect();
            let found = states.iter().cloned().map(Found::from).collect();
            pairs.push((key(class::PREPARED, &[&txn.to_bytes()]), PreparedObject { parts, found }.to_stored()));
        }
        for (txn, participants) in self.txns.all_decided() {
            let participants = participants.clone();
            pairs.push((key(class::DECIDED, &[&txn.to_bytes()]), DecidedObject { participants }.to_stored()));
        }
        for txn in self.txns.all_finished() {
            pairs.push((key(class::FINISHED, &[&txn.to_bytes()]), Fact {}.to_stored()));
        }
        for (coordinator, oldest) in self.txns.all_oldest() {
            let key = key(class::ATTEMPTS, &[&coordinator.0.to_be_bytes()]);
            pairs.push((key, AttemptsObject { oldest }.to_stored()));
        }
        for (session, member) in self.coordinator.members() {
            let node = NodeId::session(session);
            pairs.push((key(class::MEMBER, &[&node.0.to_be_bytes()]), member.to_stored()));
        }
        pairs.push((key(class::CLOCK, &[]), ClockObject { last: self.clock.last() }.to_stored()));
        if self.power_lost > Term(0) {
            pairs.push((key(class::POWER_LOST, &[]), PowerLostObject { term: self.power_lost }.to_stored()));
        }
        pairs.extend(self.coordinator.map.iter().map(|map| (key(class::MAP, &[]), map.to_stored())));
        for (counter, upto) in self.reserved.all() {
            pairs.push((key(class::RESERVED, &[&counter.to_stored()]), ReservedObject { upto }.to_stored()));
        }
        for (side, tracking) in self.epochs.all() {
            if tracking.epoch != TrackingEpoch(0) {
                pairs.push((key(class::TRACKING, &[&side.to_bytes()]), TrackingObject { tracking }.to_stored()));
            }
        }
    }

    /// Takes an object that could also be read when it is asked for, as the store has it.
    pub(crate) fn load_object(&mut self, key: &[u8], value: &[u8]) -> Result<(), WireError> {
        match key.split_first().ok_or(WireError::Truncated)? {
            (&class::INODE, key) => self.inodes.load(key, value),
            (&class::NAME, key) => self.names.load(key, value),
            (&class::XATTR, key) => self.inodes.load_xattrs(key, value),
            (&class::FURTHER, key) => self.inodes.load_further(key, value),
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
            (&class::FURTHER, key) => Inodes::decode_further(key, value).map(drop),
            (&class::ENTRY, key) => in_place(&Listings::decode(key, value)?.1).then_some(()).ok_or(WRONG_COOKIE),
            (&tag, _) => Err(WireError::UnknownTag { what: "object", tag }),
        }
    }

    /// Shows `each` object of some classes, in no order and none twice. What only the store has stays there.
    pub(crate) fn each_object(&mut self, each: &mut dyn FnMut(Surveyed)) {
        for range in 0..RANGES {
            let slots = slots_of(range);
            for id in self.inodes.in_slots(slots.clone()) {
                let inode = self.inodes.get(id).map(|inode| Surveyed::Inode(self.remembered(inode)));
                inode.into_iter().for_each(&mut *each);
            }
            self.inodes.xattrs_in_slots(slots.clone()).for_each(|(id, set)| each(Surveyed::xattrs(id, set)));
            let further = self.inodes.further_in_slots(slots.clone());
            further.for_each(|(id, dir, names)| each(Surveyed::Further(id, dir, names)));
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
                (!self.inodes.knows(inode.id)).then(|| Surveyed::Inode(self.remembered(inode)))
            }
            (&class::NAME, key) => {
                let (parent, name, NameValue { child, kind }) = Names::decode(key, value)?;
                let known = self.names.knows(&self.names.at(parent, &name));
                (!known).then_some(Surveyed::Name(SurveyedName { parent, name, child, kind }))
            }
            (&class::XATTR, key) => {
                let (id, set) = Inodes::decode_xattrs(key, value)?;
                (!self.inodes.knows_xattrs(id)).then(|| Surveyed::xattrs(id, &set))
            }
            (&class::FURTHER, key) => {
                let (id, dir, names) = Inodes::decode_further(key, value)?;
                (!self.inodes.knows_further(id, dir)).then_some(Surveyed::Further(id, dir, names))
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

    /// Takes back one of the rest of a range's image.
    pub(crate) fn load_pair(&mut self, range: u32, key: &[u8], value: &[u8]) -> Result<(), WireError> {
        let (&class, key) = key.split_first().ok_or(WireError::Truncated)?;
        let mut k = Reader::new(key);
        let mut v = Reader::new(value);
        match class {
            class::ORPHAN => {
                Fact::load(&mut v)?;
                self.orphans.insert(InodeId(be64(&mut k)?));
            }
            class::COUNT if range < GLOBAL_RANGE => {
                let CountObject { inodes, blocks } = CountObject::load(&mut v)?;
                self.inodes.set_count(range, Count { inodes, blocks });
            }
            class::WATERMARK => {
                let dir = InodeId(be64(&mut k)?);
                let from = ShardId(u16::from_be_bytes(k.array()?));
                self.dirs.set_watermark(dir, from, UptoObject::load(&mut v)?.upto);
            }
            class::DATA_PENDING => {
                let id = (DataId::take(&mut k)?, u32::take(&mut k)?, bool::take(&mut k)?);
                self.data_pends(id, PendingObject::load(&mut v)?);
            }
            class::LINKABLE => {
                Fact::load(&mut v)?;
                self.linkable.insert(InodeId(be64(&mut k)?));
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
                let LogObject { entries } = LogObject::load(v)?;
                let last = self.dirs.last_entry(dir);
                let follows = entries.first().is_none_or(|first| last.is_none_or(|last| last < first.seq));
                if !follows || !entries.is_sorted_by(|a, b| a.seq < b.seq) {
                    return Err(DISORDERED_LOG);
                }
                entries.into_iter().for_each(|entry| self.dirs.append(dir, entry.into()));
            }
            class::TRIMMED => {
                let dir = InodeId(be64(k)?);
                self.dirs.trim(dir, UptoObject::load(v)?.upto);
            }
            class::FLOOR => {
                let from = NodeId(u32::from_be_bytes(k.array()?));
                self.raise_floor(from, UptoObject::load(v)?.upto);
            }
            class::REPLY => {
                let session = SessionId(u32::from_be_bytes(k.array()?));
                let request = RequestSeq(be64(k)?);
                let ReplyObject { oldest, answered } = ReplyObject::load(v)?;
                self.replies.remember(session, request, oldest, answered.into(), true);
            }
            class::PREPARED => {
                let txn = TxnId::take(k)?;
                let PreparedObject { parts, found } = PreparedObject::load(v)?;
                if self.txns.promise(txn).is_some() {
                    return Err(WireError::Bad("transaction that is prepared twice"));
                }
                if !sound::fits(&parts, &found) {
                    return Err(WireError::Bad("transaction that is prepared without what was asked"));
                }
                let parts = parts.into_iter().map(TxnPart::from).collect();
                self.txns.prepared(txn, parts, found.into_iter().map(PartState::from).collect());
            }
            class::DECIDED => self.txns.decided(TxnId::take(k)?, &DecidedObject::load(v)?.participants),
            class::ATTEMPTS => {
                let coordinator = ShardId(u16::from_be_bytes(k.array()?));
                self.txns.hear_oldest(coordinator, AttemptsObject::load(v)?.oldest);
            }
            class::FINISHED => {
                Fact::load(v)?;
                self.txns.finished(TxnId::take(k)?);
            }
            class::MEMBER => {
                let node = NodeId(u32::from_be_bytes(k.array()?));
                let member = Member::load(v)?;
                let session = session_of(node, member.kind).ok_or(WireError::Bad("address of a member"))?;
                self.coordinator.load(session, member);
            }
            class::TRACKING => self.epochs.learned(TrackingSide::take(k)?, TrackingObject::load(v)?.tracking),
            class::POWER_LOST => self.power_lost = PowerLostObject::load(v)?.term,
            class::MAP => self.coordinator.map = Some(MapImage::load(v)?),
            class::RESERVED => self.reserved.raise(Counter::load(k)?, ReservedObject::load(v)?.upto),
            class::CLOCK => {
                let ClockObject { last } = ClockObject::load(v)?;
                if !sound::is_stamp(last) {
                    return Err(WireError::Bad("clock"));
                }
                self.clock.replayed(last);
            }
            tag => return Err(WireError::UnknownTag { what: "image object", tag }),
        }
        Ok(())
    }
}

fn be64(r: &mut Reader<'_>) -> Result<u64, WireError> {
    Ok(u64::from_be_bytes(r.array()?))
}
