//! Index records and image values of a data node (design.md, "Data"): which physical blocks hold which bytes.
//!
//! A node's state changes only by applying these records, live and in replay alike. They go into the one journal of
//! the process, so any prefix of it is a consistent cut of names, attributes and bytes.

use super::record::Counter;
use super::superblock::JournalId;
use crate::ids::{DataId, InodeId, LogSeq, RecordSeq, RequestSeq, SessionId, Stamp, Term};
use crate::{stored_enum, stored_struct};
use smallvec::SmallVec;

/// "OnpBlk01", little-endian.
pub const DATA_FILE_MAGIC: u64 = u64::from_le_bytes(*b"OnpBlk01");
/// Blocks (4 KiB) of one data file unless a file system was formatted otherwise: 1 GiB.
pub const DATA_FILE_BLOCKS: u32 = 1 << 18;
/// Bytes before the first block of a data file: a [`DataFileHeader`] and zeros.
pub const DATA_FILE_HEADER_BYTES: u64 = 4096;

stored_struct! {
    /// Head of a data file; followed by a CRC-32C of its bytes.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct DataFileHeader {
        /// [`DATA_FILE_MAGIC`].
        pub magic: u64,
        /// [`super::superblock::FORMAT_VERSION`].
        pub version: u32,
        /// Feature bits; an unknown one is refused.
        pub features: u64,
        /// Whose file it is.
        pub journal: JournalId,
        /// Number of the file.
        pub number: u32,
        /// Blocks that it has room for.
        pub file_blocks: u32,
    }
}

stored_struct! {
    /// Consecutive logical blocks that lie in consecutive physical blocks.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Extent {
        /// First logical block (4 KiB) of the file.
        pub start: u32,
        /// Physical block that holds it.
        pub phys: u32,
        /// CRC-32C of each block; its length is the extent's.
        pub crcs: SmallVec<[u32; 2]>,
    }
}

stored_struct! {
    /// Consecutive logical blocks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct BlockRange {
        /// The first one.
        pub first: u32,
        /// The last one.
        pub last: u32,
    }
}

stored_struct! {
    /// Consecutive logical blocks without bytes, for which consecutive physical blocks are kept free.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReservedRun {
        /// First logical block of the file.
        pub start: u32,
        /// Physical block kept for it.
        pub phys: u32,
        /// How many blocks.
        pub len: u32,
    }
}

stored_struct! {
    /// Where one logical block is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Mapping {
        /// Physical block.
        pub phys: u32,
        /// CRC-32C of all of it.
        pub crc: u32,
        /// Bytes at and after this offset within the block read as zeros; 4096 if all of it counts, 0 if the block is only reserved.
        pub keep: u16,
    }
}

stored_struct! {
    /// The block of a file that has one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SingleBlock {
        /// Logical block.
        pub block: u32,
        /// Where it is.
        pub at: Mapping,
    }
}

stored_struct! {
    /// A block of which a trim left only a part.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Mask {
        /// Logical block.
        pub block: u32,
        /// Bytes that remain.
        pub keep: u16,
    }
}

stored_struct! {
    /// A write that the home has yet to hear of, or whose hearing is not recorded yet.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PendingMerge {
        /// Whose bytes.
        pub data: DataId,
        /// Cut under which they were written.
        pub cut: u32,
        /// End of the write, bytes; 0 if the size stays.
        pub end: u64,
        /// The writer.
        pub session: SessionId,
        /// Its request.
        pub request: RequestSeq,
        /// The writer's oldest unanswered request then.
        pub oldest: RequestSeq,
        /// Clear setuid and setgid.
        pub kill_suidgid: bool,
        /// First byte, if that was the end of the file, which the writer has reserved.
        pub append: Option<u64>;
        /// Number of the merge part under which this node has answered the write; none: its home answers.
        1 => pub part: Option<u64>,
    }
}

stored_struct! {
    /// A pending write, and when it was recorded.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RecordedMerge {
        /// The write.
        pub merge: PendingMerge,
        /// When.
        pub stamp: Stamp,
    }
}

stored_struct! {
    /// A write that a power loss has undone.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct UndoneWrite {
        /// Its record.
        pub record: RecordSeq,
        /// The write.
        pub merge: PendingMerge,
    }
}

stored_enum! {
    /// One change of a data node's index. Its number in the node's journal is the position of a write, which homes are told.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum DataRecord {
        /// New blocks are current; those they replace are free.
        1 => Written {
            /// What the home will be told.
            merge: PendingMerge,
            /// When.
            stamp: Stamp,
            /// Where the blocks are.
            extents: Vec<Extent>,
        },
        /// Bytes at and after `size` are gone; older cuts are stale.
        2 => Trimmed {
            /// Whose bytes.
            data: DataId,
            /// The cut.
            cut: u32,
            /// What remains, bytes.
            size: u64,
            /// Blocks that are only reserved stay, wherever they are.
            keep_reserved: bool,
        },
        /// This generation and all older ones of its inode are gone.
        3 => Dropped {
            /// Whose bytes.
            data: DataId,
        },
        /// The homes have heard of these writes.
        4 => Settled {
            /// The records of the writes.
            merges: Vec<RecordSeq>,
        },
        /// After a power loss: the block's bytes never reached the disk, so what was there before counts again.
        5 => Restored {
            /// Whose bytes.
            data: DataId,
            /// Logical block.
            block: u32,
            /// Where it is now; none for a hole.
            to: Option<Mapping>,
            /// The writes that are undone: no home hears of them, and whoever asks again writes again.
            writes: Vec<UndoneWrite>,
        },
        /// This generation, which its home has forgotten in a power loss, is gone; the one before it counts again.
        6 => Voided {
            /// Whose bytes.
            data: DataId,
        },
        /// A file has changed otherwise than by new bytes alone: blocks of a hole are free, then others are current, then free
        /// places are kept for holes.
        7 => Changed {
            /// What the home will be told.
            merge: PendingMerge,
            /// When.
            stamp: Stamp,
            /// What becomes a hole.
            hole: Option<BlockRange>,
            /// Where new blocks are.
            extents: Vec<Extent>,
            /// What is reserved.
            reserved: Vec<ReservedRun>,
        },
        /// All writes up to here, by the positions that this node gives them, are applied by their homes and trimmed: nobody names one of
        /// them again.
        8 => Floor {
            /// The last of them. It grows.
            upto: LogSeq,
        },
        /// The node may give out numbers up to here; before one leaves, this is durable.
        9 => Reserved {
            /// Of which kind.
            counter: Counter,
            /// The last of them. It grows.
            upto: u64,
        },
        /// A start has found that power was lost before it.
        10 => PowerLost {
            /// Its term.
            term: Term,
        },
    }
}

impl DataRecord {
    /// The inode that it changes, if it is one.
    pub fn inode(&self) -> Option<InodeId> {
        match self {
            DataRecord::Written { merge, .. } | DataRecord::Changed { merge, .. } => Some(merge.data.inode),
            DataRecord::Trimmed { data, .. } | DataRecord::Dropped { data } => Some(data.inode),
            DataRecord::Restored { data, .. } | DataRecord::Voided { data } => Some(data.inode),
            DataRecord::Settled { .. }
            | DataRecord::Floor { .. }
            | DataRecord::Reserved { .. }
            | DataRecord::PowerLost { .. } => None,
        }
    }
}

stored_struct! {
    /// Image of one generation of a file. Content of more than one block follows as [`ChunkImage`]s.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct FileImage {
        /// Newest cut told.
        pub cut: u32,
        /// The only block of a small file.
        pub single: Option<SingleBlock>,
    }
}

stored_struct! {
    /// A page of the map of blocks that are in use: one bit a block.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct MapPage {
        /// From the first block of the page on, lowest bit first.
        pub words: Vec<u64>,
    }
}

stored_struct! {
    /// Image of what is gone: this generation and all older ones of its inode.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DroppedImage {
        /// Whose bytes.
        pub data: DataId,
    }
}

stored_struct! {
    /// Image of one chunk of a file. Reserved later field 128, which no reader may pass over: its bytes are *elsewhere*, in another store
    /// under a name, with the checksums of its blocks.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ChunkImage {
        /// Its blocks in order; holes are left out.
        pub extents: Vec<Extent>,
        /// Those among them that are partly trimmed.
        pub masks: Vec<Mask>,
    }
}

stored_struct! {
    /// Image of some of a file's reserved blocks.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ReservedImage {
        /// In order.
        pub runs: Vec<ReservedRun>,
    }
}

stored_struct! {
    /// A write that a session may still repeat.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DoneWrite {
        /// The request.
        pub request: RequestSeq,
        /// What it wrote.
        pub data: DataId,
        /// Under which cut.
        pub cut: u32;
        /// Number of the merge part under which this node has answered it.
        1 => pub part: Option<u64>,
    }
}

stored_struct! {
    /// Image of what is remembered of one session in one range.
    #[derive(Clone, Debug, PartialEq, Eq, Default)]
    pub struct WindowImage {
        /// Requests before this one never come again.
        pub oldest: RequestSeq,
        /// The record that touched the window last.
        pub last: RecordSeq,
        /// Writes done, by request.
        pub done: Vec<DoneWrite>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Stored;
    use crate::ids::Generation;

    #[test]
    fn a_write_of_one_block_takes_little_room_in_the_journal() {
        let data = DataId { inode: InodeId(77), generation: Generation(1 << 32) };
        let merge = PendingMerge {
            data,
            cut: 0,
            end: 4096,
            session: SessionId(1),
            request: RequestSeq(9),
            oldest: RequestSeq(8),
            kill_suidgid: false,
            append: None,
            part: None,
        };
        let extent = Extent { start: 0, phys: 5, crcs: SmallVec::from_slice(&[7]) };
        let record = DataRecord::Written { merge, stamp: Stamp(3), extents: vec![extent] };
        let bytes = record.to_stored();
        assert!(bytes.len() <= 96, "{} bytes", bytes.len());
        assert_eq!(DataRecord::from_stored(&bytes), Ok(record));
    }

    /// Tags and bytes, which later builds read.
    #[test]
    fn what_a_node_has_reserved_and_what_is_trimmed_are_records_of_no_inode() {
        let floor = DataRecord::Floor { upto: LogSeq(1 << 56 | 2) };
        assert_eq!(floor.to_stored(), [8, 2, 0, 0, 0, 0, 0, 0, 1, 0]);
        let reserved = DataRecord::Reserved { counter: Counter::Positions, upto: 1 << 20 };
        assert_eq!(reserved.to_stored(), [9, 3, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0]);
        for record in [floor, reserved] {
            assert_eq!(record.inode(), None);
            assert_eq!(DataRecord::from_stored(&record.to_stored()), Ok(record));
        }
        assert!(DataRecord::from_stored(&[9, 8, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0]).is_err());
    }
}
