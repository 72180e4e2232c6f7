//! The index: which bytes of which generation are where, changed only by applying records (DESIGN §5).
//!
//! per inode the newest generation told and per generation the newest cut told; older requests are stale.
//! The index is split into [`RANGES`] by the high bits of the inode's slot; a record concerns one inode, so each range
//! can have a checkpoint image of its own age.

use crate::content::{Content, KEEP_ALL};
use crate::window::{Seen, Windows};
use onpath_store::StoreError;
use onpath_wire::block::{BlockRange, DataRecord, DoneWrite, Extent, Mapping, PendingMerge, ReservedRun, UndoneWrite};
use onpath_wire::data::KEEP_RESERVED;
use onpath_wire::ids::{DataId, Generation, InodeId, RecordSeq, RequestSeq, SessionId};
use std::collections::{BTreeMap, VecDeque};

use hashbrown::HashMap;

/// Ranges of the index, by the six high bits of an inode's slot.
pub(crate) const RANGES: usize = 64;
/// Dropped inodes remembered in each range, so that a late write of one is refused.
///
/// A write may arrive after the drop of its inode only if it was on its way then; the last 262,144 drops of the node
/// (4,096 in each range) cover that. If one arrived later still, nobody could ever read its bytes, since inode ids and
/// generations are never given out again: it would cost its space until a check finds it.
pub(crate) const DROPPED_PER_RANGE: usize = 4_096;

/// One generation of a file: 32 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) generation: Generation,
    pub(crate) cut: u32,
    /// Blocks it has.
    pub(crate) blocks: u32,
    pub(crate) content: Content,
}

impl File {
    fn new(data: DataId, cut: u32) -> File {
        File { generation: data.generation, cut, blocks: 0, content: Content::Empty }
    }

    /// New blocks are current; those that they replace are free, but for places that they were kept for.
    fn put(&mut self, extents: &[Extent], freed: &mut impl FnMut(u32, u32)) {
        for Extent { start, phys, crcs } in extents {
            for (i, &crc) in (0u32..).zip(crcs) {
                let to = Mapping { phys: phys + i, crc, keep: KEEP_ALL };
                match self.content.set(start + i, Some(to)) {
                    Some(old) if old != to.phys => freed(old, 1),
                    Some(_) => {}
                    None => self.blocks += 1,
                }
            }
        }
    }

    /// Everything that it has is free.
    fn free(&self, freed: &mut impl FnMut(u32, u32)) {
        self.content.blocks().for_each(|(_, m)| freed(m.phys, 1));
        self.content.all_reserved().for_each(|run| freed(run.phys, run.len));
    }
}

/// What a request's generation and cut are to what the node has been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Go on.
    Current,
    /// Older than told: ask the home again.
    Stale,
    /// Its cut is newer than told: wait for the trim.
    Newer,
}

#[derive(Debug, Default)]
pub(crate) struct Range {
    /// Newest generation of each inode.
    pub(crate) files: HashMap<InodeId, File>,
    /// Older generations that their homes have yet to drop.
    pub(crate) older: BTreeMap<DataId, File>,
    pub(crate) dropped: HashMap<InodeId, (Generation, RecordSeq)>,
    pub(crate) drops: VecDeque<(RecordSeq, InodeId)>,
    pub(crate) windows: Windows,
    pub(crate) merges: BTreeMap<RecordSeq, PendingMerge>,
    /// The last record that the range's image has; replay begins after it.
    pub(crate) upto: RecordSeq,
}

/// The index.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) ranges: Vec<Range>,
    /// The last record applied.
    pub(crate) last: RecordSeq,
    /// Blocks in use.
    pub(crate) blocks: u64,
}

/// The range of an inode.
pub(crate) fn range_of(inode: InodeId) -> usize {
    (inode.0 >> 58) as usize
}

impl Range {
    fn file(&self, data: DataId) -> Option<&File> {
        let newest = self.files.get(&data.inode)?;
        if newest.generation == data.generation { Some(newest) } else { self.older.get(&data) }
    }

    pub(crate) fn file_mut(&mut self, data: DataId) -> Option<&mut File> {
        let newest = self.files.get_mut(&data.inode).filter(|file| file.generation == data.generation);
        newest.or_else(|| self.older.get_mut(&data))
    }

    fn verdict(&self, data: DataId, cut: u32) -> Verdict {
        match self.files.get(&data.inode) {
            Some(file) if data.generation < file.generation => Verdict::Stale,
            Some(file) if data.generation > file.generation => Verdict::Current,
            Some(file) if cut < file.cut => Verdict::Stale,
            Some(file) if cut > file.cut => Verdict::Newer,
            Some(_) => Verdict::Current,
            // Of a generation without bytes any cut may be written: a later trim to it has nothing to take away.
            None => match self.dropped.get(&data.inode) {
                Some((dropped, _)) if data.generation <= *dropped => Verdict::Stale,
                _ => Verdict::Current,
            },
        }
    }

    /// The file of this generation, made if it is new; an older generation waits aside for its drop.
    fn file_for(&mut self, data: DataId, cut: u32) -> &mut File {
        let fresh = || File::new(data, cut);
        let file = self.files.entry(data.inode).or_insert_with(fresh);
        if file.generation < data.generation {
            let old = std::mem::replace(file, fresh());
            // The cut too may be needed again, if the new generation turns out to be void.
            if old.blocks > 0 || old.cut > 0 {
                self.older.insert(DataId { inode: data.inode, generation: old.generation }, old);
            }
        }
        if !self.dropped.is_empty() {
            self.dropped.remove(&data.inode);
        }
        file
    }

    /// The same, where the generation may be an older one whose cut counts again when the newest one is void.
    fn file_to_trim(&mut self, data: DataId, cut: u32) -> &mut File {
        match self.files.get(&data.inode).map(|newest| newest.generation) {
            Some(newest) if data.generation < newest => self.older.entry(data).or_insert_with(|| File::new(data, cut)),
            _ => self.file_for(data, cut),
        }
    }

    fn note_dropped(&mut self, data: DataId, seq: RecordSeq) {
        self.dropped.insert(data.inode, (data.generation, seq));
        self.drops.push_back((seq, data.inode));
        if self.drops.len() > DROPPED_PER_RANGE {
            let (seq, inode) = self.drops.pop_front().expect("not empty");
            if self.dropped.get(&inode).is_some_and(|&(_, at)| at == seq) {
                self.dropped.remove(&inode);
            }
        }
    }
}

impl Default for Index {
    fn default() -> Self {
        let ranges = (0..RANGES).map(|_| Range::default()).collect();
        Index { ranges, last: RecordSeq(0), blocks: 0 }
    }
}

impl Index {
    pub(crate) fn range(&self, inode: InodeId) -> &Range {
        &self.ranges[range_of(inode)]
    }

    fn range_mut(&mut self, inode: InodeId) -> &mut Range {
        &mut self.ranges[range_of(inode)]
    }

    /// How a request stands to what has been told.
    #[inline]
    pub(crate) fn verdict(&self, data: DataId, cut: u32) -> Verdict {
        self.range(data.inode).verdict(data, cut)
    }

    /// The file of a generation, if it has ever had bytes and is not dropped.
    #[inline]
    pub(crate) fn file(&self, data: DataId) -> Option<&File> {
        self.range(data.inode).file(data)
    }

    /// Whether this generation and all older ones of its inode are known to be gone.
    pub(crate) fn is_dropped(&self, data: DataId) -> bool {
        let range = self.range(data.inode);
        let oldest = DataId { inode: data.inode, generation: Generation(0) };
        let newest_stays = match range.files.get(&data.inode) {
            Some(file) => file.generation > data.generation,
            None => range.dropped.get(&data.inode).is_some_and(|(dropped, _)| *dropped >= data.generation),
        };
        newest_stays && range.older.range(oldest..=data).next().is_none()
    }

    /// The newest generation told of an inode that is not dropped.
    pub(crate) fn newest(&self, inode: InodeId) -> Option<Generation> {
        self.range(inode).files.get(&inode).map(|file| file.generation)
    }

    /// Blocks that a generation has.
    pub(crate) fn blocks_of(&self, data: DataId) -> u64 {
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
        freed: &mut impl FnMut(u32, u32),
    ) -> Result<(), StoreError> {
        match record {
            DataRecord::Written { merge, extents, .. } => self.written(seq, merge, extents, freed)?,
            DataRecord::Trimmed { data, cut, size } => self.trimmed(*data, *cut, *size, freed)?,
            DataRecord::Dropped { data } => self.dropped(seq, *data, freed),
            DataRecord::Settled { merges } => self.settled(seq, merges),
            DataRecord::Voided { data } => self.voided(*data, freed),
            DataRecord::Changed { merge, hole, extents, reserved, .. } => {
                self.changed(seq, merge, *hole, extents, reserved, freed)?;
            }
            DataRecord::Restored { data, block, to, writes } => {
                self.undone(data.inode, writes);
                self.restored(*data, *block, *to, freed)?;
            }
        }
        self.last = self.last.max(seq);
        Ok(())
    }

    fn written(
        &mut self,
        seq: RecordSeq,
        merge: &PendingMerge,
        extents: &[Extent],
        freed: &mut impl FnMut(u32, u32),
    ) -> Result<(), StoreError> {
        self.note(seq, merge)?;
        let file = self.range_mut(merge.data.inode).file_for(merge.data, merge.cut);
        let before = file.blocks;
        file.put(extents, freed);
        let added = u64::from(file.blocks - before);
        self.blocks += added;
        Ok(())
    }

    /// Remembers a request that is done, and that its home must hear of it.
    fn note(&mut self, seq: RecordSeq, merge: &PendingMerge) -> Result<(), StoreError> {
        let PendingMerge { data, cut, session, request, oldest, .. } = *merge;
        let range = self.range_mut(data.inode);
        if range.verdict(data, cut) != Verdict::Current {
            return Err(contradiction("written", data, cut));
        }
        range.windows.note(session, oldest, DoneWrite { request, data, cut }, seq);
        range.merges.insert(seq, *merge);
        Ok(())
    }

    fn changed(
        &mut self,
        seq: RecordSeq,
        merge: &PendingMerge,
        hole: Option<BlockRange>,
        extents: &[Extent],
        reserved: &[ReservedRun],
        freed: &mut impl FnMut(u32, u32),
    ) -> Result<(), StoreError> {
        self.note(seq, merge)?;
        let file = self.range_mut(merge.data.inode).file_for(merge.data, merge.cut);
        let before = i64::from(file.blocks);
        if let Some(BlockRange { first, last }) = hole {
            file.content.punch(first, last, &mut |phys, n| {
                file.blocks -= n;
                freed(phys, n);
            });
        }
        file.put(extents, freed);
        for &run in reserved {
            let last = run.len.checked_sub(1).and_then(|more| run.start.checked_add(more));
            let free = last.and_then(|last| file.content.gaps(run.start, last).next());
            if free != Some((run.start, u64::from(run.len))) {
                return Err(contradiction("reserved", merge.data, merge.cut));
            }
            file.content.reserve(run);
            file.blocks += run.len;
        }
        let more = i64::from(file.blocks) - before;
        self.blocks = (self.blocks as i64 + more) as u64;
        Ok(())
    }

    fn trimmed(
        &mut self,
        data: DataId,
        cut: u32,
        size: u64,
        freed: &mut impl FnMut(u32, u32),
    ) -> Result<(), StoreError> {
        let range = self.range_mut(data.inode);
        if range.file(data).is_some_and(|file| cut < file.cut) {
            return Err(contradiction("trimmed", data, cut));
        }
        let file = range.file_to_trim(data, cut);
        let before = file.blocks;
        file.cut = cut;
        file.content.trim(size & !KEEP_RESERVED, size & KEEP_RESERVED == 0, |phys, n| {
            file.blocks -= n;
            freed(phys, n);
        });
        let less = u64::from(before - file.blocks);
        self.blocks -= less;
        Ok(())
    }

    fn dropped(&mut self, seq: RecordSeq, data: DataId, freed: &mut impl FnMut(u32, u32)) {
        let range = self.range_mut(data.inode);
        let mut gone: Vec<File> = Vec::new();
        let oldest = DataId { inode: data.inode, generation: Generation(0) };
        while let Some((&id, _)) = range.older.range(oldest..=data).next() {
            gone.extend(range.older.remove(&id));
        }
        if range.files.get(&data.inode).is_none_or(|file| file.generation <= data.generation) {
            gone.extend(range.files.remove(&data.inode));
            range.note_dropped(data, seq);
        }
        for file in gone {
            self.blocks -= u64::from(file.blocks);
            file.free(freed);
        }
    }

    fn voided(&mut self, data: DataId, freed: &mut impl FnMut(u32, u32)) {
        let range = self.range_mut(data.inode);
        let newest = range.files.get(&data.inode).is_some_and(|file| file.generation == data.generation);
        let gone = if newest { range.files.remove(&data.inode) } else { range.older.remove(&data) };
        let oldest = DataId { inode: data.inode, generation: Generation(0) };
        let before = range.older.range(oldest..data).next_back().map(|(&before, _)| before);
        if let Some(before) = before.filter(|_| newest) {
            let file = range.older.remove(&before).expect("just seen");
            range.files.insert(data.inode, file);
        }
        if let Some(file) = gone {
            self.blocks -= u64::from(file.blocks);
            file.free(freed);
        }
    }

    fn settled(&mut self, seq: RecordSeq, merges: &[RecordSeq]) {
        for range in self.ranges.iter_mut().filter(|range| range.upto < seq && !range.merges.is_empty()) {
            for merge in merges {
                range.merges.remove(merge);
            }
        }
    }

    /// These writes never happened, as requests too: an acknowledgement would promise bytes that are not there.
    fn undone(&mut self, inode: InodeId, writes: &[UndoneWrite]) {
        let range = self.range_mut(inode);
        for UndoneWrite { record, merge } in writes {
            range.merges.remove(record);
            range.windows.forget(merge.session, merge.request);
        }
    }

    fn restored(
        &mut self,
        data: DataId,
        block: u32,
        to: Option<Mapping>,
        freed: &mut impl FnMut(u32, u32),
    ) -> Result<(), StoreError> {
        let Some(file) = self.range_mut(data.inode).file_mut(data) else {
            return Err(contradiction("restored", data, 0));
        };
        let before = file.content.set(block, to);
        before.filter(|&phys| to.is_none_or(|m| m.phys != phys)).into_iter().for_each(|phys| freed(phys, 1));
        let change = i64::from(to.is_some()) - i64::from(before.is_some());
        file.blocks = (i64::from(file.blocks) + change) as u32;
        self.blocks = (self.blocks as i64 + change) as u64;
        Ok(())
    }

    /// Every generation in order, with the files behind them.
    pub(crate) fn files(&self) -> Vec<(DataId, &File)> {
        let mut all: Vec<_> = self.ranges.iter().flat_map(Range::all).collect();
        all.sort_unstable_by_key(|(data, _)| *data);
        all
    }
}

impl Range {
    /// Every generation, in no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = (DataId, &File)> {
        let newest = self.files.iter();
        let newest = newest.map(|(&inode, file)| (DataId { inode, generation: file.generation }, file));
        newest.chain(self.older.iter().map(|(&data, file)| (data, file)))
    }
}

fn contradiction(what: &str, data: DataId, cut: u32) -> StoreError {
    StoreError::Contradiction(format!("{what}: {data:?}, cut {cut}, is not what the index has been told"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_takes_forty_bytes_with_its_key() {
        assert_eq!(size_of::<(InodeId, File)>(), 40);
    }

    #[test]
    fn the_memory_of_dropped_inodes_is_bounded() {
        let mut index = Index::default();
        let id = |n: u64| DataId { inode: InodeId(n), generation: Generation(1) };
        for n in 0..=DROPPED_PER_RANGE as u64 {
            index.apply(RecordSeq(n + 1), &DataRecord::Dropped { data: id(n) }, &mut |_, _| ()).unwrap();
        }
        assert_eq!(index.ranges[0].dropped.len(), DROPPED_PER_RANGE);
        assert_eq!(index.verdict(id(1), 0), Verdict::Stale);
        assert_eq!(index.verdict(id(0), 0), Verdict::Current);
    }
}
