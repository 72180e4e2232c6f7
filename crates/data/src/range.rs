//! A range of the index: the files of some slots, changed by applying records.

use crate::content::{CHUNK_BLOCKS, Content, KEEP_ALL};
use crate::map::BlockMap;
use crate::space::Run;
use crate::touched::{Part, Touched};
use crate::window::Windows;
use hashbrown::HashMap;
use onpath_store::StoreError;
use onpath_wire::disk::block::{
    BlockRange, DoneWrite, Extent, Mapping, PendingMerge, RecordedMerge, ReservedRun, UndoneWrite,
};
use onpath_wire::ids::{DataId, Generation, InodeId, RecordSeq};
use onpath_wire::limits::BLOCK_BYTES;
use std::collections::{BTreeMap, VecDeque};

/// Dropped inodes remembered in each range, so that a late write of one is refused.
///
/// A write may arrive after the drop of its inode only if it was on its way then; the last 262,144 drops of the node
/// (4,096 in each range) cover that. If one arrived later still, nobody could ever read its bytes, since inode ids and
/// generations are never given out again: it would cost its space until a check finds it.
pub(crate) const DROPPED_PER_RANGE: usize = 4_096;

/// One generation of a file: 40 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) generation: Generation,
    pub(crate) cut: u32,
    /// Blocks it has.
    pub(crate) blocks: u32,
    pub(crate) content: Content,
    pub(crate) tail: Tail,
    /// Asked for since the range last looked for something to forget.
    pub(crate) used: bool,
}

/// Bytes of a file's last block up to the end of the last write there; 0 where nobody knows, as after a start from a checkpoint. It is
/// no part of what a file is: two that differ in it only are the same.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tail(pub(crate) u16);

impl PartialEq for Tail {
    fn eq(&self, _: &Tail) -> bool {
        true
    }
}

impl Eq for Tail {}

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

/// What becomes of physical blocks by a record.
pub(crate) struct Places<'a> {
    /// None: the map has what the record does already.
    pub(crate) map: Option<&'a mut BlockMap>,
    /// Hears of freed ones, as (first, count).
    pub(crate) freed: &'a mut dyn FnMut(u32, u32),
}

impl Places<'_> {
    fn take(&mut self, start: u32, len: u32) {
        if let Some(map) = &mut self.map {
            map.take(Run { start, len });
        }
    }

    fn free(&mut self, start: u32, len: u32) {
        if let Some(map) = &mut self.map {
            map.free(Run { start, len });
        }
        (self.freed)(start, len);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Range {
    /// Newest generation of each inode; what is not here may be in the store.
    pub(crate) files: HashMap<InodeId, File>,
    /// Older generations that their homes have yet to drop. Their inodes are in `files` too.
    pub(crate) older: BTreeMap<DataId, File>,
    /// What the store does not have yet.
    pub(crate) touched: Touched,
    /// Objects with reserved blocks that the store may have of a generation, if any.
    pub(crate) reserved: BTreeMap<DataId, u32>,
    pub(crate) dropped: HashMap<InodeId, (Generation, RecordSeq)>,
    pub(crate) drops: VecDeque<(RecordSeq, InodeId)>,
    pub(crate) windows: Windows,
    pub(crate) merges: BTreeMap<RecordSeq, RecordedMerge>,
    /// The last record that the range's image has; replay begins after it.
    pub(crate) upto: RecordSeq,
    /// Bytes of the contents of its files when they were last summed up, and of those that came from the store since.
    pub(crate) heap_bytes: u64,
}

impl File {
    pub(crate) fn new(data: DataId, cut: u32) -> File {
        File { generation: data.generation, cut, blocks: 0, content: Content::Empty, tail: Tail(0), used: true }
    }

    /// New blocks are current; those that they replace are free, but for places that they were kept for.
    fn put(&mut self, data: DataId, extents: &[Extent], places: &mut Places<'_>) -> Result<(), StoreError> {
        for Extent { start, phys, crcs } in extents {
            for (i, &crc) in (0u32..).zip(crcs) {
                let to = Mapping { phys: phys + i, crc, keep: KEEP_ALL };
                match self.content.set(start + i, Some(to)) {
                    Some(old) if old == to.phys => continue,
                    Some(old) => places.free(old, 1),
                    None => self.add_blocks(data, 1)?,
                }
                places.take(to.phys, 1);
            }
        }
        Ok(())
    }

    /// It has more blocks, of which 2^32 are one too many.
    fn add_blocks(&mut self, data: DataId, more: u32) -> Result<(), StoreError> {
        let blocks = self.blocks.checked_add(more).ok_or_else(|| contradiction("counted", data, self.cut))?;
        self.blocks = blocks;
        Ok(())
    }

    /// Bytes were written up to `end`; `last`: the last block before that.
    fn note_end(&mut self, end: u64, last: Option<u32>) {
        let at = end.saturating_sub(1); // a write has bytes
        let (block, bytes) = (at / BLOCK_BYTES, (at % BLOCK_BYTES + 1) as u16);
        match last.map(u64::from) {
            Some(last) if block < last => {}
            Some(last) if block == last && self.tail.0 == 0 => {}
            Some(last) if block == last => self.tail.0 = self.tail.0.max(bytes),
            _ => self.tail.0 = bytes,
        }
    }

    /// Whether bytes were written at `offset` or beyond; `before`: the bytes of its block, if it lies within one that has any. Places that
    /// are kept do not count.
    pub(crate) fn reaches_beyond(&self, offset: u64, before: &[u8]) -> bool {
        let (block, within) = ((offset / BLOCK_BYTES) as u32, (offset % BLOCK_BYTES) as usize);
        let Some(last) = self.content.last() else { return false };
        if last > block || last == block && within == 0 {
            return true;
        }
        match self.tail.0 {
            _ if last < block => false,
            0 => before.get(within..).is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0)),
            written => usize::from(written) > within,
        }
    }

    /// Everything that it has is free.
    fn free(&self, places: &mut Places<'_>) {
        self.content.blocks().for_each(|(_, m)| places.free(m.phys, 1));
        self.content.all_reserved().for_each(|run| places.free(run.phys, run.len));
    }
}

/// Notes what a change of the blocks `first..=last` of a file touches, before it is made.
fn touch_blocks(touched: &mut Touched, data: DataId, content: &Content, first: u32, last: u32) {
    touched.add((data, Part::File));
    content.chunks_in(first, last).for_each(|chunk| touched.add((data, Part::Chunk(chunk))));
    if content.has_reserved() {
        touched.add((data, Part::Reserved));
    }
}

/// Notes the chunks of blocks that a file has now, if it has chunks; `before`: the block it had when that was its only one.
fn touch_put(touched: &mut Touched, data: DataId, content: &Content, before: Option<u32>, extents: &[Extent]) {
    if !matches!(content, Content::Many(_)) {
        return;
    }
    before.into_iter().for_each(|block| touched.add((data, Part::Chunk(block / CHUNK_BLOCKS))));
    for Extent { start, crcs, .. } in extents {
        let Some(more) = (crcs.len() as u32).checked_sub(1) else { continue };
        (start / CHUNK_BLOCKS..=(start + more) / CHUNK_BLOCKS).for_each(|n| touched.add((data, Part::Chunk(n))));
    }
}

/// The block of a file that has only one.
fn only_block(content: &Content) -> Option<u32> {
    if let Content::One { block, .. } = content { Some(*block) } else { None }
}

impl Range {
    pub(crate) fn file(&self, data: DataId) -> Option<&File> {
        let newest = self.files.get(&data.inode)?;
        if newest.generation == data.generation { Some(newest) } else { self.older.get(&data) }
    }

    pub(crate) fn file_mut(&mut self, data: DataId) -> Option<&mut File> {
        let newest = self.files.get_mut(&data.inode).filter(|file| file.generation == data.generation);
        newest.or_else(|| self.older.get_mut(&data))
    }

    /// Every generation in memory, in no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = (DataId, &File)> {
        let newest = self.files.iter();
        let newest = newest.map(|(&inode, file)| (DataId { inode, generation: file.generation }, file));
        newest.chain(self.older.iter().map(|(&data, file)| (data, file)))
    }

    pub(crate) fn verdict(&self, data: DataId, cut: u32) -> Verdict {
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

    /// Makes the file of this generation if it is new; an older generation waits aside for its drop.
    fn begin_file(&mut self, data: DataId, cut: u32) {
        match self.files.get_mut(&data.inode) {
            Some(file) if file.generation < data.generation => {
                let old = std::mem::replace(file, File::new(data, cut));
                let id = DataId { inode: data.inode, generation: old.generation };
                // The cut too may be needed again, if the new generation turns out to be void.
                if old.blocks > 0 || old.cut > 0 {
                    self.older.insert(id, old);
                } else {
                    self.touched.add((id, Part::File));
                }
            }
            Some(_) => {}
            None => _ = self.files.insert(data.inode, File::new(data, cut)),
        }
        if !self.dropped.is_empty() {
            self.dropped.remove(&data.inode);
        }
    }

    /// The same, where the generation may be an older one whose cut counts again when the newest one is void.
    fn begin_trim(&mut self, data: DataId, cut: u32) {
        match self.files.get(&data.inode).map(|newest| newest.generation) {
            Some(newest) if data.generation < newest => {
                self.older.entry(data).or_insert_with(|| File::new(data, cut));
            }
            _ => self.begin_file(data, cut),
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

    /// Remembers a request that is done, and that its home must hear of it.
    fn note(&mut self, seq: RecordSeq, recorded: RecordedMerge) -> Result<(), StoreError> {
        let PendingMerge { data, cut, session, request, oldest, part, .. } = recorded.merge;
        if self.verdict(data, cut) != Verdict::Current {
            return Err(contradiction("written", data, cut));
        }
        self.windows.note(session, oldest, DoneWrite { request, data, cut, part }, seq);
        self.merges.insert(seq, recorded);
        Ok(())
    }

    /// What is touched, and the generation itself, which must be there.
    fn parts(&mut self, data: DataId) -> (&mut Touched, &mut File) {
        let Range { files, older, touched, .. } = self;
        let newest = files.get_mut(&data.inode).filter(|file| file.generation == data.generation);
        (touched, newest.or_else(|| older.get_mut(&data)).expect("the generation was made before"))
    }

    pub(crate) fn written(
        &mut self,
        seq: RecordSeq,
        recorded: RecordedMerge,
        extents: &[Extent],
        places: &mut Places<'_>,
    ) -> Result<(), StoreError> {
        let PendingMerge { data, end, .. } = recorded.merge;
        let (last, tail) = self.file(data).map_or((None, Tail(0)), |file| (file.content.last(), file.tail));
        self.changed(seq, recorded, None, extents, &[], places)?;
        let (_, file) = self.parts(data);
        file.tail = tail;
        file.note_end(end, last);
        Ok(())
    }

    pub(crate) fn changed(
        &mut self,
        seq: RecordSeq,
        recorded: RecordedMerge,
        hole: Option<BlockRange>,
        extents: &[Extent],
        reserved: &[ReservedRun],
        places: &mut Places<'_>,
    ) -> Result<(), StoreError> {
        self.note(seq, recorded)?;
        let merge = recorded.merge;
        self.begin_file(merge.data, merge.cut);
        let (touched, file) = self.parts(merge.data);
        let before = only_block(&file.content);
        touched.add((merge.data, Part::File));
        if let Some(BlockRange { first, last }) = hole {
            touch_blocks(touched, merge.data, &file.content, first, last);
            let File { content, blocks, .. } = file;
            content.punch(first, last, &mut |phys, n| {
                *blocks -= n;
                places.free(phys, n);
            });
        }
        if file.content.has_reserved() {
            touched.add((merge.data, Part::Reserved));
        }
        file.put(merge.data, extents, places)?;
        file.tail = Tail(0);
        for &run in reserved {
            let last = run.len.checked_sub(1).and_then(|more| run.start.checked_add(more));
            let free = last.and_then(|last| file.content.gaps(run.start, last).next());
            if free != Some((run.start, u64::from(run.len))) {
                return Err(contradiction("reserved", merge.data, merge.cut));
            }
            touched.add((merge.data, Part::Reserved));
            file.content.reserve(run);
            file.add_blocks(merge.data, run.len)?;
            places.take(run.phys, run.len);
        }
        touch_put(touched, merge.data, &file.content, before, extents);
        Ok(())
    }

    pub(crate) fn trimmed(
        &mut self,
        data: DataId,
        cut: u32,
        size: u64,
        keep_reserved: bool,
        places: &mut Places<'_>,
    ) -> Result<(), StoreError> {
        if self.file(data).is_some_and(|file| cut < file.cut) {
            return Err(contradiction("trimmed", data, cut));
        }
        self.begin_trim(data, cut);
        let (touched, file) = self.parts(data);
        let first = u32::try_from(size / BLOCK_BYTES).unwrap_or(u32::MAX);
        touch_blocks(touched, data, &file.content, first, u32::MAX);
        file.cut = cut;
        file.tail = Tail(0);
        let File { content, blocks, .. } = file;
        content.trim(size, !keep_reserved, |phys, n| {
            *blocks -= n;
            places.free(phys, n);
        });
        Ok(())
    }

    fn gone(&mut self, data: DataId, file: &File, places: &mut Places<'_>) {
        touch_blocks(&mut self.touched, data, &file.content, 0, u32::MAX);
        if self.reserved.contains_key(&data) {
            self.touched.add((data, Part::Reserved));
        }
        file.free(places);
    }

    pub(crate) fn drop_all(&mut self, seq: RecordSeq, data: DataId, places: &mut Places<'_>) {
        let oldest = DataId { inode: data.inode, generation: Generation(0) };
        while let Some((&id, _)) = self.older.range(oldest..=data).next() {
            let file = self.older.remove(&id).expect("just seen");
            self.gone(id, &file, places);
        }
        if self.files.get(&data.inode).is_none_or(|file| file.generation <= data.generation) {
            if let Some(file) = self.files.remove(&data.inode) {
                self.gone(DataId { inode: data.inode, generation: file.generation }, &file, places);
            }
            self.note_dropped(data, seq);
        }
    }

    pub(crate) fn voided(&mut self, data: DataId, places: &mut Places<'_>) {
        let newest = self.files.get(&data.inode).is_some_and(|file| file.generation == data.generation);
        let gone = if newest { self.files.remove(&data.inode) } else { self.older.remove(&data) };
        let oldest = DataId { inode: data.inode, generation: Generation(0) };
        let before = self.older.range(oldest..data).next_back().map(|(&before, _)| before);
        if let Some(before) = before.filter(|_| newest) {
            let file = self.older.remove(&before).expect("just seen");
            self.files.insert(data.inode, file);
        }
        if let Some(file) = gone {
            self.gone(data, &file, places);
        }
    }

    /// These writes never happened, as requests too: an acknowledgement would promise bytes that are not there.
    pub(crate) fn undone(&mut self, writes: &[UndoneWrite]) {
        for UndoneWrite { record, merge } in writes {
            self.merges.remove(record);
            self.windows.forget(merge.session, merge.request);
        }
    }

    pub(crate) fn restored(
        &mut self,
        data: DataId,
        block: u32,
        to: Option<Mapping>,
        places: &mut Places<'_>,
    ) -> Result<(), StoreError> {
        if self.file(data).is_none() {
            return Err(contradiction("restored", data, 0));
        }
        let (touched, file) = self.parts(data);
        let only = only_block(&file.content);
        touch_blocks(touched, data, &file.content, block, block);
        file.tail = Tail(0);
        let before = file.content.set(block, to);
        touch_blocks(touched, data, &file.content, block, block);
        if let (Some(only), Content::Many(_)) = (only, &file.content) {
            touched.add((data, Part::Chunk(only / CHUNK_BLOCKS)));
        }
        if before != to.map(|m| m.phys) {
            before.into_iter().for_each(|phys| places.free(phys, 1));
            to.into_iter().for_each(|m| places.take(m.phys, 1));
        }
        let change = i64::from(to.is_some()) - i64::from(before.is_some());
        file.blocks = (i64::from(file.blocks) + change) as u32;
        Ok(())
    }
}

fn contradiction(what: &str, data: DataId, cut: u32) -> StoreError {
    StoreError::Contradiction(format!("{what}: {data:?}, cut {cut}, is not what the index has been told"))
}
