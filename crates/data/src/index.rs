//! The index: which bytes of which generation are where, changed only by applying records (design.md, "Data").
//!
//! per inode the newest generation told and per generation the newest cut told; older requests are stale.
//! The index is split into [`RANGES`] by the high bits of the inode's slot; a record concerns one inode, so each range
//! can have a checkpoint image of its own age.
//!
//! It is a layer over the store that has the last checkpoint: an inode of which nothing has changed since may be forgotten, all
//! of its generations at once, and comes back when it is asked for.

use crate::counts::{self, Counts};
use crate::map::{self, BlockMap};
use crate::objects;
use crate::range::Places;
pub(crate) use crate::range::{File, Range, Verdict};
use crate::touched::all_of;
use crate::window::Seen;
use hashbrown::HashSet;
use onpath_store::{Changes, Cold, Pair, StoreError};
use onpath_wire::WireError;
use onpath_wire::disk::block::{DataRecord, RecordedMerge};
use onpath_wire::ids::{Birth, DataId, Generation, InodeId, RecordSeq, RequestSeq, SessionId};
use std::fmt;
use std::sync::Arc;

/// Ranges of the index, by the six high bits of an inode's slot.
pub(crate) const RANGES: usize = 64;
/// Slots that inodes have.
const SLOTS: usize = 1 << 16;

/// The index.
pub(crate) struct Index {
    pub(crate) ranges: Vec<Range>,
    /// The last record applied.
    pub(crate) last: RecordSeq,
    /// The blocks in use.
    pub(crate) map: BlockMap,
    /// What of this node's numbers is over, and what may have been given out.
    pub(crate) counts: Counts,
    cold: Option<Arc<dyn Cold>>,
    /// Inodes of this birth or a later one have nothing in the store that was not forgotten here.
    since: Birth,
    /// The last of those that was forgotten, slot by slot, as its id without the slot; empty if none was.
    forgotten: Vec<u64>,
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("last", &self.last).field("ranges", &self.ranges).finish_non_exhaustive()
    }
}

/// The range of an inode.
pub(crate) fn range_of(inode: InodeId) -> usize {
    usize::from(inode.slot().0) * RANGES / SLOTS
}

/// The inode of an object of a file, and the key without its first byte.
fn file_key(key: &[u8]) -> Result<(InodeId, &[u8]), WireError> {
    match key.split_first().ok_or(WireError::Truncated)? {
        (&objects::FILE, key) => Ok((objects::inode_of(key).ok_or(WireError::Truncated)?, key)),
        (&tag, _) => Err(WireError::UnknownTag { what: "object", tag }),
    }
}

impl Index {
    /// An empty index over data files with so many blocks. The store may have anything, until it is known what is too
    /// [young](Index::set_since) for that.
    pub(crate) fn new(room: u64) -> Index {
        let ranges = (0..RANGES).map(|_| Range::default()).collect();
        let (map, counts, forgotten) = (BlockMap::new(room), Counts::default(), Vec::new());
        Index { ranges, last: RecordSeq(0), map, counts, cold: None, since: Birth::NEVER, forgotten }
    }

    /// Nothing of this birth or a later one is in the store yet.
    pub(crate) fn set_since(&mut self, since: Birth) {
        self.since = since;
    }

    /// From now on what is not in memory is as this store has it.
    pub(crate) fn attach(&mut self, cold: Arc<dyn Cold>) -> Result<(), StoreError> {
        // At a start; later the map is newer than the store's.
        if self.cold.is_none() && self.last == RecordSeq(0) {
            self.map.load_all(&*cold)?;
        }
        self.cold = Some(cold);
        Ok(())
    }

    pub(crate) fn range(&self, inode: InodeId) -> &Range {
        &self.ranges[range_of(inode)]
    }

    fn range_mut(&mut self, inode: InodeId) -> &mut Range {
        &mut self.ranges[range_of(inode)]
    }

    /// The range of an inode, with all that is known of the inode.
    #[inline]
    fn with(&mut self, inode: InodeId) -> &mut Range {
        let there = self.ranges[range_of(inode)].files.get_mut(&inode).map(|file| file.used = true).is_some();
        if !there {
            self.fetch(inode);
        }
        self.range_mut(inode)
    }

    /// Takes an inode from the store, if it has it.
    fn fetch(&mut self, inode: InodeId) {
        let Some(cold) = self.cold.as_deref() else { return };
        let here = self.forgotten.get(inode.slot().0 as usize);
        let may_be_there = inode.birth() < self.since || here.is_some_and(|last| inode.within_slot() <= *last);
        let range = &mut self.ranges[range_of(inode)];
        if !may_be_there || range.touched.any(all_of(inode)) {
            return;
        }
        cold.scan(&objects::prefix(inode), &[], &mut |key, value| {
            objects::load(range, &key[1..], value).expect("the store gives back what was written");
            true
        });
        range.heap_bytes += range.files.get(&inode).map_or(0, |file| file.content.heap_bytes());
    }

    /// What has changed in the files of a range since its last image, and the rest of the range. The last range has the map too, and what
    /// is of the node as a whole.
    pub(crate) fn image(&mut self, range: usize) -> (Changes, Vec<Pair>) {
        let mut changes = Changes::default();
        objects::changes(&mut self.ranges[range], &mut changes);
        let mut rest = objects::rest(&self.ranges[range]);
        if range == RANGES - 1 {
            self.map.changes(&mut changes);
            rest.extend(self.counts.images());
            rest.sort_unstable();
        }
        (changes, rest)
    }

    /// The last image of a range is `kept`, or not.
    pub(crate) fn settle(&mut self, range: usize, kept: bool) {
        objects::settle(&mut self.ranges[range], kept);
        if range == RANGES - 1 {
            self.map.settle(kept);
        }
    }

    /// Takes one of the rest of a range's image.
    pub(crate) fn load_rest(&mut self, range: usize, key: &[u8], value: &[u8]) -> Result<(), WireError> {
        match key.first() {
            Some(&(counts::FLOOR | counts::RESERVED | counts::POWER_LOST)) => self.counts.load(key, value),
            _ => objects::load_rest(&mut self.ranges[range], key, value),
        }
    }

    /// Takes an object that could also be read when it is asked for.
    pub(crate) fn load_object(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        match key.split_first() {
            Some((&map::PAGE, key)) => self.map.load(key, value),
            _ => self.load_file(key, value).map_err(map::undecodable),
        }
    }

    fn load_file(&mut self, key: &[u8], value: &[u8]) -> Result<(), WireError> {
        let (inode, key) = file_key(key)?;
        objects::load(self.range_mut(inode), key, value)
    }

    /// Shows `each` generation, in no order; those of an inode come together. What only the store has stays there.
    pub(crate) fn each_file(&self, each: &mut dyn FnMut(DataId, &File)) {
        self.ranges.iter().flat_map(Range::all).for_each(|(data, file)| each(data, file));
        let Some(cold) = &self.cold else { return };
        let (mut of, mut range) = (None, Range::default());
        cold.scan(&[objects::FILE], &[], &mut |key, value| {
            let inode = objects::inode_of(&key[1..]);
            if inode != of {
                std::mem::take(&mut range).all().for_each(|(data, file)| each(data, file));
                of = inode;
            }
            if inode.is_some_and(|inode| !self.knows(inode)) {
                objects::load(&mut range, &key[1..], value).expect("the store gives back what was written");
            }
            true
        });
        range.all().for_each(|(data, file)| each(data, file));
    }

    /// Whether memory knows what there is of an inode, whatever the store says.
    fn knows(&self, inode: InodeId) -> bool {
        let range = self.range(inode);
        range.files.contains_key(&inode) || range.touched.any(all_of(inode))
    }

    /// Shows `each` generation of an inode in order. What only the store has stays there.
    pub(crate) fn each_of(&self, inode: InodeId, each: &mut dyn FnMut(DataId, &File)) {
        let mut stored = Range::default();
        let mut range = self.range(inode);
        if let Some(cold) = self.cold.as_deref().filter(|_| !self.knows(inode)) {
            cold.scan(&objects::prefix(inode), &[], &mut |key, value| {
                objects::load(&mut stored, &key[1..], value).expect("the store gives back what was written");
                true
            });
            range = &stored;
        }
        let older = DataId { inode, generation: Generation(0) }..=DataId { inode, generation: Generation(u64::MAX) };
        range.older.range(older).for_each(|(data, file)| each(*data, file));
        let newest = range.files.get(&inode);
        newest.into_iter().for_each(|file| each(DataId { inode, generation: file.generation }, file));
    }

    /// What says of objects, shown in the order of their keys, whether they could be loaded.
    pub(crate) fn object_check(&self) -> impl FnMut(&[u8], &[u8]) -> Result<(), StoreError> + use<> {
        let (mut of, mut range, room) = (None, Range::default(), self.map.room());
        let mut check_file = move |key: &[u8], value: &[u8]| {
            let (inode, key) = file_key(key)?;
            if Some(inode) != of {
                (of, range) = (Some(inode), Range::default());
            }
            objects::load(&mut range, key, value)
        };
        move |key, value| match key.split_first() {
            Some((&map::PAGE, key)) => BlockMap::new(room).load(key, value),
            _ => check_file(key, value).map_err(map::undecodable),
        }
    }

    /// Forgets the files of a range of which the store has all and that nobody has asked for lately.
    pub(crate) fn forget(&mut self, range: usize) {
        let Index { ranges, forgotten, since, .. } = self;
        let Range { files, older, touched, reserved, heap_bytes, .. } = &mut ranges[range];
        let mut held: HashSet<InodeId> = touched.iter().map(|(data, _)| data.inode).collect();
        held.extend(older.keys().map(|data| data.inode));
        *heap_bytes = older.values().map(|file| file.content.heap_bytes()).sum();
        files.retain(|&inode, file| {
            if std::mem::take(&mut file.used) || held.contains(&inode) {
                *heap_bytes += file.content.heap_bytes();
                return true;
            }
            if inode.birth() >= *since {
                if forgotten.is_empty() {
                    *forgotten = vec![0; SLOTS];
                }
                let last = &mut forgotten[inode.slot().0 as usize];
                *last = inode.within_slot().max(*last);
            }
            if !reserved.is_empty() {
                reserved.remove(&DataId { inode, generation: file.generation });
            }
            false
        });
        if files.len() * 4 < files.capacity() {
            files.shrink_to_fit();
        }
    }

    /// Bytes in memory, about.
    pub(crate) fn bytes(&self) -> u64 {
        let file = size_of::<(InodeId, File)>() as u64 + 1;
        let of = |range: &Range| range.files.capacity() as u64 * file + range.heap_bytes + range.touched.bytes(0);
        self.ranges.iter().map(of).sum::<u64>() + self.map.bytes() + self.forgotten.len() as u64 * 8
    }

    /// How a request stands to what has been told.
    #[inline]
    pub(crate) fn verdict(&mut self, data: DataId, cut: u32) -> Verdict {
        self.with(data.inode).verdict(data, cut)
    }

    /// The file of a generation, if it has ever had bytes and is not dropped.
    #[inline]
    pub(crate) fn file(&mut self, data: DataId) -> Option<&File> {
        self.with(data.inode).file(data)
    }

    /// Whether this generation and all older ones of its inode are known to be gone.
    pub(crate) fn is_dropped(&mut self, data: DataId) -> bool {
        let range = self.with(data.inode);
        let oldest = DataId { inode: data.inode, generation: Generation(0) };
        let newest_stays = match range.files.get(&data.inode) {
            Some(file) => file.generation > data.generation,
            None => range.dropped.get(&data.inode).is_some_and(|(dropped, _)| *dropped >= data.generation),
        };
        newest_stays && range.older.range(oldest..=data).next().is_none()
    }

    /// The newest generation told of an inode that is not dropped.
    pub(crate) fn newest(&mut self, inode: InodeId) -> Option<Generation> {
        self.with(inode).files.get(&inode).map(|file| file.generation)
    }

    /// Blocks that a generation has.
    pub(crate) fn blocks_of(&mut self, data: DataId) -> u64 {
        self.file(data).map_or(0, |file| u64::from(file.blocks))
    }

    /// What is known of a session's write.
    pub(crate) fn seen(&self, session: SessionId, request: RequestSeq, data: DataId, cut: u32) -> Seen {
        self.range(data.inode).windows.seen(session, request, data, cut)
    }

    /// Applies a record; physical blocks that it frees go to `freed`, as (first, count).
    pub(crate) fn apply(
        &mut self,
        seq: RecordSeq,
        record: &DataRecord,
        freed: &mut dyn FnMut(u32, u32),
    ) -> Result<(), StoreError> {
        self.last = self.last.max(seq);
        let Some(inode) = record.inode() else {
            match record {
                DataRecord::Settled { merges } => self.settled(seq, merges),
                DataRecord::Floor { upto } => self.counts.raise_floor(*upto),
                DataRecord::Reserved { counter, upto } => self.counts.reserve(*counter, *upto),
                DataRecord::PowerLost { term } => self.counts.lose_power(*term),
                _ => unreachable!("of an inode"),
            }
            return Ok(());
        };
        self.with(inode);
        // The map is as of the last range's image, and a replay may begin before it.
        let counts = seq > self.ranges[RANGES - 1].upto;
        let mut places = Places { map: counts.then_some(&mut self.map), freed };
        let (range, places) = (&mut self.ranges[range_of(inode)], &mut places);
        match record {
            DataRecord::Written { merge, stamp, extents } => {
                range.written(seq, RecordedMerge { merge: *merge, stamp: *stamp }, extents, places)
            }
            DataRecord::Trimmed { data, cut, size, keep_reserved } => {
                range.trimmed(*data, *cut, *size, *keep_reserved, places)
            }
            DataRecord::Changed { merge, stamp, hole, extents, reserved } => {
                range.changed(seq, RecordedMerge { merge: *merge, stamp: *stamp }, *hole, extents, reserved, places)
            }
            DataRecord::Restored { data, block, to, writes } => {
                range.undone(writes);
                range.restored(*data, *block, *to, places)
            }
            DataRecord::Dropped { data } => {
                range.drop_all(seq, *data, places);
                Ok(())
            }
            DataRecord::Voided { data } => {
                range.voided(*data, places);
                Ok(())
            }
            DataRecord::Settled { .. }
            | DataRecord::Floor { .. }
            | DataRecord::Reserved { .. }
            | DataRecord::PowerLost { .. } => {
                unreachable!("of no inode")
            }
        }
    }

    fn settled(&mut self, seq: RecordSeq, merges: &[RecordSeq]) {
        for range in self.ranges.iter_mut().filter(|range| range.upto < seq && !range.merges.is_empty()) {
            for merge in merges {
                range.merges.remove(merge);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::DROPPED_PER_RANGE;

    #[test]
    fn a_file_takes_forty_eight_bytes_with_its_key() {
        assert_eq!(size_of::<(InodeId, File)>(), 48);
    }

    #[test]
    fn the_memory_of_dropped_inodes_is_bounded() {
        let mut index = Index::new(0);
        let id = |n: u64| DataId { inode: InodeId(n), generation: Generation(1) };
        for n in 0..=DROPPED_PER_RANGE as u64 {
            index.apply(RecordSeq(n + 1), &DataRecord::Dropped { data: id(n) }, &mut |_, _| ()).unwrap();
        }
        assert_eq!(index.ranges[0].dropped.len(), DROPPED_PER_RANGE);
        assert_eq!(index.verdict(id(1), 0), Verdict::Stale);
        assert_eq!(index.verdict(id(0), 0), Verdict::Current);
    }
}
