//! Records that decode and that no node has written: each is taken or refused, and nothing else happens.

use crate::world::{FILE_BLOCKS, data};
use onpath_data::{DataConfig, DataNode};
use onpath_store::Recoverable;
use onpath_wire::disk::block::{BlockRange, DataRecord, Extent, Mapping, PendingMerge, ReservedRun};
use onpath_wire::ids::{DataId, RecordSeq, RequestSeq, SessionId, Stamp, Term};
use onpath_wire::limits::FILE_BYTES_MAX;
use onpath_wire::secrets::Secrets;
use onpath_wire::{ClusterMap, Stored};

fn merge(data: DataId) -> PendingMerge {
    PendingMerge {
        data,
        cut: 0,
        end: 1,
        session: SessionId(1),
        request: RequestSeq(1),
        oldest: RequestSeq(1),
        kill_suidgid: false,
        append: None,
        part: None,
    }
}

fn extent(start: u32, phys: u32, blocks: usize) -> Extent {
    Extent { start, phys, crcs: std::iter::repeat_n(7, blocks).collect() }
}

fn changed(hole: Option<(u32, u32)>, extents: Vec<Extent>, reserved: &[(u32, u32, u32)]) -> DataRecord {
    let hole = hole.map(|(first, last)| BlockRange { first, last });
    let reserved = reserved.iter().map(|&(start, phys, len)| ReservedRun { start, phys, len }).collect();
    DataRecord::Changed { merge: merge(data(3, 1)), stamp: Stamp(1), hole, extents, reserved }
}

/// What becomes of the last of these records, whether they are of the tail or not. Nothing before it is refused.
fn replayed(records: &[DataRecord]) -> Result<(), String> {
    let of = |in_tail: bool| {
        let map = ClusterMap::even(2, Secrets::of_seed(1).placement);
        let tickets = onpath_wire::secrets::Secrets::of_seed(1).inner.tickets();
        let config = DataConfig {
            node: 0,
            term: Term(2),
            map,
            cluster: 1,
            file_blocks: FILE_BLOCKS,
            files: 3,
            tickets,
            outlived: false,
            deferred: true,
        };
        let mut node = DataNode::new(config);
        if in_tail {
            node.begin_tail();
        }
        let (last, before) = records.split_last().expect("records");
        let mut seqs = (1..).map(RecordSeq);
        for record in before {
            node.replay(seqs.next().expect("numbers"), &record.to_stored()).expect("a record of before");
        }
        let done = node.replay(seqs.next().expect("numbers"), &last.to_stored()).map_err(|error| error.to_string());
        assert!(node.memory() < 8 << 20, "{} bytes of memory", node.memory());
        done
    };
    let (in_tail, before) = (of(true), of(false));
    assert_eq!(in_tail, before);
    before
}

#[track_caller]
fn refused(records: &[DataRecord]) {
    let error = replayed(records).expect_err("a record that no node writes");
    assert!(error.contains("record of a data node") || error.contains("contradicts"), "{error}");
}

#[test]
fn runs_that_end_behind_all_blocks_are_refused() {
    refused(&[changed(None, vec![extent(u32::MAX, 5, 2)], &[])]);
    refused(&[changed(None, vec![extent(0, u32::MAX - 1, 2)], &[])]);
    refused(&[changed(None, vec![extent(0, u32::MAX, 1)], &[])]);
    refused(&[changed(None, vec![], &[(0, u32::MAX - 4, 5)])]);
    refused(&[changed(None, vec![], &[(7, 0, u32::MAX)])]);
    refused(&[changed(None, vec![], &[(7, 0, 0)])]);
    let merge = merge(data(3, 1));
    refused(&[DataRecord::Written { merge, stamp: Stamp(1), extents: vec![extent(9, u32::MAX - 1, 3)] }]);
}

#[test]
fn the_last_block_of_a_file_and_the_last_place_are_taken() {
    assert_eq!(replayed(&[changed(None, vec![extent(u32::MAX - 1, u32::MAX - 2, 2)], &[])]), Ok(()));
    assert_eq!(replayed(&[changed(None, vec![], &[(u32::MAX, u32::MAX - 1, 1)])]), Ok(()));
    assert_eq!(replayed(&[changed(None, vec![], &[(0, 0, u32::MAX)])]), Ok(()), "a run takes no memory for its blocks");
}

/// 2^32 blocks are more than a file's count has room for.
#[test]
fn a_file_of_all_blocks_that_there_can_be_is_refused() {
    refused(&[changed(None, vec![], &[(0, 0, u32::MAX), (u32::MAX, 5, 1)])]);
    refused(&[changed(None, vec![], &[(0, 0, u32::MAX)]), changed(None, vec![extent(u32::MAX, 5, 1)], &[])]);
}

#[test]
fn holes_and_sizes_that_there_are_not_are_refused() {
    let file = changed(None, vec![extent(0, 0, 3), extent(5_000, 9, 1)], &[]);
    refused(&[file.clone(), changed(Some((5_000, 3)), vec![], &[])]);
    let trimmed = |size| DataRecord::Trimmed { data: data(3, 1), cut: 1, size, keep_reserved: false };
    refused(&[file.clone(), trimmed(FILE_BYTES_MAX + 1)]);
    assert_eq!(replayed(&[file, trimmed(FILE_BYTES_MAX)]), Ok(()));
}

#[test]
fn places_that_there_are_not_are_refused() {
    let file = changed(None, vec![extent(0, 0, 3)], &[]);
    let restored = |phys, keep| {
        let to = Some(Mapping { phys, crc: 1, keep });
        DataRecord::Restored { data: data(3, 1), block: 1, to, writes: vec![] }
    };
    refused(&[file.clone(), restored(u32::MAX, 4096)]);
    refused(&[file.clone(), restored(4, 4097)]);
    assert_eq!(replayed(&[file, restored(4, 0)]), Ok(()));
}
