//! Objects of the index as a checkpoint has them: keys and values.
//!
//! Files are objects of their own, which are written when they have changed and read when they are asked for. The rest of a range
//! (what sessions may repeat, what homes must hear of, what was dropped) is small, written whole and loaded at a start.

use crate::content::{CHUNK_BLOCKS, Content, KEEP_ALL};
use crate::index::{File, Range};
use crate::sound;
use crate::touched::Part;
use onpath_store::cold::{id_bytes, id_of};
use onpath_store::{Changes, Pair};
use onpath_wire::disk::block::{
    ChunkImage, DroppedImage, Extent, FileImage, Mapping, Mask, RecordedMerge, ReservedImage, ReservedRun, SingleBlock,
    WindowImage,
};
use onpath_wire::ids::{DataId, Generation, InodeId, RecordSeq, SessionId};
use onpath_wire::{Stored, WireError};

/// First byte of the key of an object of a file.
pub(crate) const FILE: u8 = 1;
/// Runs of reserved blocks in one object.
const RUNS_IN_OBJECT: usize = 4_096;

/// First byte of a key of the rest: the kind of object. 4 and 5 are those of [`counts`](crate::counts).
mod tag {
    pub(super) const WINDOW: u8 = 1;
    pub(super) const MERGE: u8 = 2;
    pub(super) const DROPPED: u8 = 3;
}

/// Kinds of objects of a generation, after its number, in the order in which they must be loaded.
mod part {
    pub(super) const FILE: u8 = 1;
    pub(super) const CHUNK: u8 = 2;
    pub(super) const RESERVED: u8 = 3;
}

/// What the keys of an inode's objects begin with.
pub(crate) fn prefix(inode: InodeId) -> Vec<u8> {
    [&[FILE][..], &id_bytes(inode)].concat()
}

fn key(data: DataId, part: u8, number: u32) -> Vec<u8> {
    let generation = data.generation.0.to_be_bytes();
    [&[FILE][..], &id_bytes(data.inode), &generation, &[part], &number.to_be_bytes()].concat()
}

/// The inode of a key without its first byte.
pub(crate) fn inode_of(key: &[u8]) -> Option<InodeId> {
    key.first_chunk().map(|bytes| id_of(*bytes))
}

/// What has changed in the files of a range since its last image.
pub(crate) fn changes(range: &mut Range, changes: &mut Changes) {
    for (data, part) in range.touched.leave(..) {
        let file = range.file(data);
        match part {
            Part::File => match file {
                Some(file) => changes.put.push((key(data, part::FILE, 0), file_image(file).to_stored())),
                None => changes.removed.push(key(data, part::FILE, 0)),
            },
            Part::Chunk(chunk) => {
                let image = file.and_then(|file| chunk_image(&file.content, chunk));
                match image {
                    Some(image) => changes.put.push((key(data, part::CHUNK, chunk), image.to_stored())),
                    None => changes.removed.push(key(data, part::CHUNK, chunk)),
                }
            }
            Part::Reserved => {
                let runs: Vec<ReservedRun> = file.into_iter().flat_map(|file| file.content.all_reserved()).collect();
                let mut count = 0;
                for runs in runs.chunks(RUNS_IN_OBJECT) {
                    let value = ReservedImage { runs: runs.to_vec() }.to_stored();
                    changes.put.push((key(data, part::RESERVED, count), value));
                    count += 1;
                }
                // The store may have the most of before and now, until it has kept this image.
                let before = range.reserved.remove(&data).unwrap_or(0);
                changes.removed.extend((count..before).map(|number| key(data, part::RESERVED, number)));
                if count.max(before) > 0 {
                    range.reserved.insert(data, count.max(before));
                }
            }
        }
    }
}

/// The last image of a range is `kept`, or not.
pub(crate) fn settle(range: &mut Range, kept: bool) {
    let Range { files, older, touched, reserved, .. } = range;
    touched.settle(.., kept);
    if kept && !reserved.is_empty() {
        // What was dropped since the image has yet to be removed.
        let newest = |data: &DataId| files.get(&data.inode).is_some_and(|file| file.generation == data.generation);
        reserved
            .retain(|data, _| newest(data) || older.contains_key(data) || touched.is_fresh(&(*data, Part::Reserved)));
    }
}

fn file_image(file: &File) -> FileImage {
    let single = match file.content {
        Content::One { keep, block, phys, crc } => Some(SingleBlock { block, at: Mapping { phys, crc, keep } }),
        _ => None,
    };
    FileImage { cut: file.cut, single }
}

fn chunk_image(content: &Content, chunk: u32) -> Option<ChunkImage> {
    let first = chunk * CHUNK_BLOCKS;
    let last = first + (CHUNK_BLOCKS - 1);
    content.chunks_in(first, last).next()?;
    let segments = content.segments(first, last, u32::MAX);
    let cut = segments.iter().filter(|segment| segment.keep < KEEP_ALL);
    let masks = cut.map(|segment| Mask { block: segment.extent.start, keep: segment.keep }).collect();
    Some(ChunkImage { extents: segments.into_iter().map(|segment| segment.extent).collect(), masks })
}

/// What is not of files, sorted.
pub(crate) fn rest(range: &Range) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (session, window) in range.windows.images() {
        let key = [&[tag::WINDOW][..], &session.0.to_be_bytes()].concat();
        pairs.push((key, window.to_stored()));
    }
    for (seq, merge) in &range.merges {
        pairs.push(([&[tag::MERGE][..], &seq.0.to_be_bytes()].concat(), merge.to_stored()));
    }
    for (seq, inode) in &range.drops {
        if let Some((generation, _)) = range.dropped.get(inode).filter(|(_, at)| at == seq) {
            let data = DataId { inode: *inode, generation: *generation };
            pairs.push(([&[tag::DROPPED][..], &seq.0.to_be_bytes()].concat(), DroppedImage { data }.to_stored()));
        }
    }
    pairs.sort_unstable();
    pairs
}

fn be64(bytes: &[u8], at: usize) -> Result<u64, WireError> {
    let bytes = bytes.get(at..at + 8).ok_or(WireError::Truncated)?;
    Ok(u64::from_be_bytes(bytes.try_into().expect("eight bytes")))
}

/// Takes one of the rest.
pub(crate) fn load_rest(range: &mut Range, key: &[u8], value: &[u8]) -> Result<(), WireError> {
    let (&tag, rest) = key.split_first().ok_or(WireError::Truncated)?;
    match tag {
        tag::WINDOW => {
            let session = rest.try_into().map_err(|_| WireError::Truncated)?;
            range.windows.load(SessionId(u32::from_be_bytes(session)), WindowImage::from_stored(value)?);
        }
        tag::MERGE => _ = range.merges.insert(RecordSeq(be64(rest, 0)?), RecordedMerge::from_stored(value)?),
        tag::DROPPED => {
            let (seq, data) = (RecordSeq(be64(rest, 0)?), DroppedImage::from_stored(value)?.data);
            range.dropped.insert(data.inode, (data.generation, seq));
            range.drops.push_back((seq, data.inode));
        }
        tag => return Err(WireError::UnknownTag { what: "image key", tag }),
    }
    Ok(())
}

/// Takes an object of a file; `key` without its first byte.
pub(crate) fn load(range: &mut Range, key: &[u8], value: &[u8]) -> Result<(), WireError> {
    let inode = inode_of(key).ok_or(WireError::Truncated)?;
    let data = DataId { inode, generation: Generation(be64(key, 8)?) };
    let &part = key.get(16).ok_or(WireError::Truncated)?;
    if part == part::RESERVED {
        *range.reserved.entry(data).or_default() += 1;
    }
    load_part(range, data, part, value)
}

fn load_part(range: &mut Range, data: DataId, part: u8, value: &[u8]) -> Result<(), WireError> {
    let of = |range: &'_ mut Range| -> Result<(), WireError> {
        let file = range.file_mut(data).ok_or(WireError::Bad("part of an unknown file"))?;
        match part {
            part::CHUNK => load_chunk(file, ChunkImage::from_stored(value)?),
            _ => load_reserved(file, &ReservedImage::from_stored(value)?),
        }
    };
    match part {
        part::FILE => load_file(range, data, FileImage::from_stored(value)?),
        part::CHUNK | part::RESERVED => of(range),
        tag => Err(WireError::UnknownTag { what: "part of a file", tag }),
    }
}

fn load_file(range: &mut Range, data: DataId, image: FileImage) -> Result<(), WireError> {
    let mut file = File::new(data, image.cut);
    if let Some(SingleBlock { block, at }) = image.single {
        sound::mapping(at, 1)?;
        file.content.set(block, Some(at));
        file.blocks = 1;
    }
    match range.files.insert(data.inode, file) {
        Some(old) if old.generation < data.generation => {
            range.older.insert(DataId { inode: data.inode, generation: old.generation }, old);
            Ok(())
        }
        Some(_) => Err(WireError::Bad("order of generations")),
        None => Ok(()),
    }
}

fn add_blocks(file: &mut File, more: u32) -> Result<(), WireError> {
    file.blocks = file.blocks.checked_add(more).ok_or(WireError::Bad("count of blocks"))?;
    Ok(())
}

fn load_chunk(file: &mut File, image: ChunkImage) -> Result<(), WireError> {
    sound::extents(&image.extents)?;
    // Also of one block: what the store has as a chunk is written and removed as one.
    file.content.many();
    for Extent { start, phys, crcs } in &image.extents {
        for (i, &crc) in (0u32..).zip(crcs) {
            file.content.set(start + i, Some(Mapping { phys: phys + i, crc, keep: KEEP_ALL }));
            add_blocks(file, 1)?;
        }
    }
    for Mask { block, keep } in image.masks {
        let at = file.content.get(block).ok_or(WireError::Bad("mask of a hole"))?;
        let at = Mapping { keep, ..at };
        sound::mapping(at, 1)?;
        file.content.set(block, Some(at));
    }
    Ok(())
}

fn load_reserved(file: &mut File, image: &ReservedImage) -> Result<(), WireError> {
    sound::reserved(&image.runs)?;
    for &run in &image.runs {
        let last = run.len.checked_sub(1).and_then(|more| run.start.checked_add(more));
        let gap = last.and_then(|last| file.content.gaps(run.start, last).next());
        if gap != Some((run.start, u64::from(run.len))) {
            return Err(WireError::Bad("reservation of a block that is there"));
        }
        file.content.reserve(run);
        add_blocks(file, run.len)?;
    }
    Ok(())
}
