//! Records of a journal, replayed into a data node as a start replays them: whatever they say, they are taken or refused, and then the node can
//! be looked at and written down.

use crate::cut::Cut;
use crate::memory::at_most;
use crate::objects::data_node;
use onpath_data::DataNode;
use onpath_store::Recoverable;
use onpath_wire::ids::RecordSeq;
use std::hint::black_box;

/// Bytes of memory that records may take for one that they have, and what grows with the first of them: pages of all blocks that there can
/// be, of which none has bits.
const A_BYTE: usize = 2_048;
const TABLES: usize = 24 << 20;
/// All that there can be: records of the tail may name one that a power loss has taken.
const DATA_FILES: u32 = 1 << 14;
/// 128 pages of the map of blocks, if they are in a row.
const SMALL_BLOCKS: u64 = 1 << 22;

/// Records of a data node.
pub fn data_records(input: &[u8]) {
    let (mut node, mut again) = (data_node(DATA_FILES), data_node(DATA_FILES));
    at_most(TABLES + A_BYTE * input.len(), || replay(&mut node, &mut again, input));
}

/// Everything that it has, as a check sees it.
fn look(node: &DataNode) {
    let mut inodes: Vec<_> = node.files().into_iter().map(|file| file.data.inode).collect();
    inodes.dedup();
    node.check(DATA_FILES, &mut inodes.into_iter(), None, &mut |fault| _ = black_box(fault.to_string()));
    black_box(node.pending_merges());
}

/// Whether its image takes about as much memory as its records: a page of the map of blocks takes 4 KiB, whatever it says of its blocks.
fn is_small(node: &DataNode) -> bool {
    node.files().iter().map(|file| file.blocks).sum::<u64>() <= SMALL_BLOCKS
}

/// Each begins with a byte: what is said, and by how much the record's number exceeds the last one. The first that is refused ends it, as it
/// ends a start. What the node has then is written down, and `again` is given that.
fn replay(node: &mut DataNode, again: &mut DataNode, input: &[u8]) {
    let (mut cut, mut seq) = (Cut(input), RecordSeq(0));
    while !cut.is_empty() {
        let how = cut.byte();
        seq.0 += u64::from(how >> 3) + 1;
        match how & 7 {
            6 => node.begin_tail(),
            7 => node.tail_was_durable(seq),
            _ => {
                let record = cut.string();
                let mut asks = Vec::new();
                node.foresee(record, &mut asks);
                black_box(asks);
                if node.replay(seq, record).is_err() {
                    break;
                }
            }
        }
    }
    look(node);
    if !is_small(node) {
        return;
    }
    for range in 0..node.ranges() {
        let mut image = node.image(range);
        image.changes.put.sort_unstable();
        let mut check = node.object_check();
        for (key, value) in &image.changes.put {
            check(key, value).expect("what is written is read");
            again.load_object(key, value).expect("what is written is read");
        }
        image.rest.iter().for_each(|(key, value)| again.load(range, key, value).expect("what is written is read"));
        node.settle(range, true);
    }
    look(again);
}
