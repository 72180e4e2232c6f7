//! Consistency of a node's index, for `fsck`: run on a node that was loaded and replayed, not started.

use crate::content::BLOCK;
use crate::index::File;
use crate::node::DataNode;
use crate::recover::BlockReader;
use crate::space::Run;
use crate::state::State;
use crate::used::Used;
use onpath_wire::checksum::crc32c;
use onpath_wire::disk::block::PendingMerge;
use onpath_wire::ids::{DataId, InodeId, RecordSeq};
use onpath_wire::limits::BLOCK_BYTES;
use thiserror::Error;

/// One generation of a file as the node has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSummary {
    /// Whose bytes.
    pub data: DataId,
    /// Newest cut told.
    pub cut: u32,
    /// Blocks (4 KiB), with those that are only reserved.
    pub blocks: u64,
    /// End of the last block with bytes; 0 if there is none. The file's size, which its home knows, ends in this block or later.
    pub end: u64,
}

/// What is wrong with an index.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// Two blocks of files are in one place.
    #[error("{data:?}: block {block} shares physical block {phys} with another")]
    Shared {
        /// One of them.
        data: DataId,
        /// Its logical block.
        block: u32,
        /// The physical block.
        phys: u32,
    },
    /// A block lies in a data file that is not there.
    #[error("{data:?}: block {block} lies in data file {file:04}, which does not exist")]
    NoFile {
        /// Whose.
        data: DataId,
        /// Logical block.
        block: u32,
        /// Number of the data file.
        file: u32,
    },
    /// The count of blocks does not fit the blocks.
    #[error("{data:?}: {counted} blocks are counted, {found} are there")]
    Count {
        /// Whose.
        data: DataId,
        /// As counted.
        counted: u64,
        /// As found.
        found: u64,
    },
    /// The map of blocks in use is not what files use.
    #[error(
        "the map of blocks in use differs from the files in {blocks} blocks, the first of which is physical block {first}"
    )]
    Map {
        /// The first block of which they say different things.
        first: u32,
        /// How many blocks.
        blocks: u64,
    },
    /// The bytes do not have their CRC.
    #[error("{data:?}: block {block} (data file {file:04}, byte {offset}) has a bad checksum")]
    BadCrc {
        /// Whose.
        data: DataId,
        /// Logical block.
        block: u32,
        /// Number of the data file.
        file: u32,
        /// Where in it.
        offset: u64,
    },
    /// The bytes cannot be read.
    #[error("{data:?}: block {block} (data file {file:04}, byte {offset}) cannot be read: {errno}")]
    Unreadable {
        /// Whose.
        data: DataId,
        /// Logical block.
        block: u32,
        /// Number of the data file.
        file: u32,
        /// Where in it.
        offset: u64,
        /// Why.
        errno: onpath_wire::Errno,
    },
}

impl DataNode {
    /// Every generation that the node has, by inode and generation.
    pub fn files(&self) -> Vec<FileSummary> {
        let mut files = Vec::new();
        self.survey(0, &mut |file| files.push(file));
        files.sort_unstable_by_key(|file| file.data);
        files
    }

    /// Shows `each` generation that the node has, in no order, and says whether [`DataNode::check`] without a reader would find
    /// nothing wrong with the index over `files` data files. What only the store has stays there.
    pub fn survey(&self, files: u32, each: &mut dyn FnMut(FileSummary)) -> bool {
        self.kernel.with(|core| {
            let (mut sound, mut check) = (true, Check::of(&core.state, files));
            core.state.index.each_file(&mut |data, file| {
                each(FileSummary {
                    data,
                    cut: file.cut,
                    blocks: u64::from(file.blocks),
                    end: file.content.last().map_or(0, |block| (u64::from(block) + 1) * BLOCK_BYTES),
                });
                check.file(data, file, None, &mut |_| sound = false);
            });
            check.map(&mut |_| sound = false);
            sound
        })
    }

    /// How many answered writes homes have yet to learn.
    pub fn owed(&self) -> usize {
        self.kernel.with(|core| core.state.parts.owed_writes())
    }

    /// Writes that the homes may not have heard of, with the records of the writes.
    pub fn pending_merges(&self) -> Vec<(RecordSeq, PendingMerge)> {
        self.kernel.with(|core| {
            let merges = core.state.index.ranges.iter().flat_map(|range| &range.merges);
            merges.map(|(&seq, recorded)| (seq, recorded.merge)).collect()
        })
    }

    /// Whether a start looks at this block and puts back what was there before if its bytes never reached the disk.
    pub fn is_suspect(&self, data: DataId, block: u32) -> bool {
        self.suspects.as_ref().is_some_and(|suspects| suspects.contains(data, block))
    }

    /// Everything wrong with the index over `files` data files, and with the bytes if there is a reader; `inodes` are those of all
    /// generations, in the order in which it is told, each once.
    pub fn check(
        &self,
        files: u32,
        inodes: &mut dyn Iterator<Item = InodeId>,
        mut reader: Option<&mut BlockReader<'_>>,
        report: &mut dyn FnMut(Fault),
    ) {
        self.kernel.with(|core| {
            let mut check = Check::of(&core.state, files);
            for inode in inodes {
                core.state
                    .index
                    .each_of(inode, &mut |data, file| check.file(data, file, reader.as_deref_mut(), report));
            }
            check.map(report);
        });
    }
}

/// A check under way.
struct Check<'a> {
    state: &'a State,
    files: u32,
    used: Used,
    bytes: Vec<u8>,
}

impl<'a> Check<'a> {
    fn of(state: &'a State, files: u32) -> Check<'a> {
        Check { state, files, used: Used::default(), bytes: vec![0; BLOCK] }
    }

    fn file(
        &mut self,
        data: DataId,
        file: &File,
        mut reader: Option<&mut BlockReader<'_>>,
        report: &mut dyn FnMut(Fault),
    ) {
        let Check { state, files, used, bytes } = self;
        let reserved = file.content.all_reserved().map(|run| u64::from(run.len)).sum::<u64>();
        let (counted, found) = (u64::from(file.blocks), file.content.blocks().count() as u64 + reserved);
        if counted != found {
            report(Fault::Count { data, counted, found });
        }
        for run in file.content.all_reserved() {
            let (phys, len) = (run.phys, run.len);
            let (number, _) = state.place(phys + (len - 1));
            let alone = used.insert_run(Run { start: phys, len });
            if number >= *files {
                report(Fault::NoFile { data, block: run.start, file: number });
            } else if !alone {
                report(Fault::Shared { data, block: run.start, phys });
            }
        }
        for (block, m) in file.content.blocks() {
            let (number, offset) = state.place(m.phys);
            let alone = used.insert(m.phys);
            if number >= *files {
                report(Fault::NoFile { data, block, file: number });
                continue;
            }
            if !alone {
                report(Fault::Shared { data, block, phys: m.phys });
            }
            match reader.as_mut().map(|reader| reader(number, offset, bytes)) {
                Some(Ok(())) if crc32c(bytes) != m.crc => {
                    report(Fault::BadCrc { data, block, file: number, offset });
                }
                Some(Err(errno)) => report(Fault::Unreadable { data, block, file: number, offset, errno }),
                _ => {}
            }
        }
    }

    /// After all files.
    fn map(&self, report: &mut dyn FnMut(Fault)) {
        let index = &self.state.index;
        if let Some((first, blocks)) = self.used.differs(index.map.used()) {
            report(Fault::Map { first, blocks });
        }
    }
}
