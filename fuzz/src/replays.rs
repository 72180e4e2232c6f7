//! Records of a journal, replayed into a role as a start replays them: whatever they say, they are taken or refused, and then the role can
//! be looked at, written down, and started.

use crate::cut::Cut;
use crate::memory::at_most;
use crate::objects::{data_node, shard};
use crate::starts::{Begins, begin};
use onpath_data::DataNode;
use onpath_meta::Shard;
use onpath_store::Recoverable;
use onpath_wire::ids::RecordSeq;
use std::hint::black_box;

/// Bytes of memory that records may take for one that they have, and what grows with the first of them: of a data node pages of all blocks
/// that there can be, of which none has bits; of a shard tables of slots, and an operation for what a former term has left undone.
const A_BYTE: usize = 2_048;
const TABLES: usize = 24 << 20;
/// All that there can be: records of the tail may name one that a power loss has taken.
const DATA_FILES: u32 = 1 << 14;
/// Those that are there at a start, which gives back what is free in each.
const DATA_FILES_THERE: u32 = 2;
/// 128 pages of the map of blocks, if they are in a row.
const SMALL_BLOCKS: u64 = 1 << 22;

/// Of inputs whose length is a multiple of this more is asked than that they are replayed: the rest takes many times as long.
const WHOLE: usize = 64;

/// Records of a data node.
pub fn data_records(input: &[u8]) {
    records(|| data_node(DATA_FILES), || data_node(DATA_FILES_THERE), input);
}

/// Records of a shard.
pub fn shard_records(input: &[u8]) {
    records(shard, shard, input);
}

/// A role with a journal.
pub(crate) trait Records: Recoverable {
    /// The records that follow were not known to be durable.
    fn begin_tail(&mut self);
    /// Those up to here were durable after all.
    fn tail_was_durable(&mut self, upto: RecordSeq);
    /// Everything that it has, as a check sees it.
    fn look(&self);
    /// Whether its image takes about as much memory as its records, and a start as much time.
    fn is_small(&self) -> bool;
}

impl Records for DataNode {
    fn begin_tail(&mut self) {
        DataNode::begin_tail(self);
    }

    fn tail_was_durable(&mut self, upto: RecordSeq) {
        DataNode::tail_was_durable(self, upto);
    }

    fn look(&self) {
        let mut inodes: Vec<_> = self.files().into_iter().map(|file| file.data.inode).collect();
        inodes.dedup();
        self.check(DATA_FILES, &mut inodes.into_iter(), None, &mut |fault| _ = black_box(fault.to_string()));
        black_box(self.pending_merges());
    }

    /// A page of the map of blocks takes 4 KiB, whatever it says of its blocks, of which a start looks at all.
    fn is_small(&self) -> bool {
        self.files().iter().map(|file| file.blocks).sum::<u64>() <= SMALL_BLOCKS
    }
}

impl Records for Shard {
    fn begin_tail(&mut self) {
        Shard::begin_tail(self);
    }

    fn tail_was_durable(&mut self, upto: RecordSeq) {
        Shard::tail_was_durable(self, upto);
    }

    fn look(&self) {
        black_box((self.survey(), self.status(), self.unsettled(), self.map(), self.tracking(), self.replayed()));
    }

    fn is_small(&self) -> bool {
        true
    }
}

/// One role is looked at and written down, and another one `begins`.
fn records<R: Records + Begins>(make: impl Fn() -> R, begins: impl Fn() -> R, input: &[u8]) {
    let mut role = make();
    let most = TABLES + A_BYTE * input.len();
    let taken = at_most(most, || replay(&mut role, input));
    if !input.len().is_multiple_of(WHOLE) {
        return;
    }
    let (mut again, mut begins) = (make(), begins());
    at_most(most, || {
        role.look();
        if !role.is_small() {
            return;
        }
        write_down(&mut role, &mut again);
        // What was taken before something was refused is a journal, too.
        replay(&mut begins, &input[..taken]);
        begin(&mut begins);
    });
}

/// Each begins with a byte: what is said, and by how much the record's number exceeds the last one. The first that is refused ends it, as it
/// ends a start: how many bytes were taken.
fn replay(role: &mut impl Records, input: &[u8]) -> usize {
    let (mut cut, mut seq) = (Cut(input), RecordSeq(0));
    while !cut.is_empty() {
        let taken = input.len() - cut.0.len();
        let how = cut.byte();
        seq.0 += u64::from(how >> 3) + 1;
        match how & 7 {
            6 => role.begin_tail(),
            7 => role.tail_was_durable(seq),
            _ => {
                let record = cut.string();
                let mut asks = Vec::new();
                role.foresee(record, &mut asks);
                black_box(asks);
                if role.replay(seq, record).is_err() {
                    return taken;
                }
            }
        }
    }
    input.len()
}

/// Writes down what a role has; `again` is given that.
fn write_down(role: &mut impl Records, again: &mut impl Records) {
    for range in 0..role.ranges() {
        let mut image = role.image(range);
        image.changes.put.sort_unstable();
        let mut check = role.object_check();
        for (key, value) in &image.changes.put {
            check(key, value).expect("what is written is read");
            again.load_object(key, value).expect("what is written is read");
        }
        image.rest.iter().for_each(|(key, value)| again.load(range, key, value).expect("what is written is read"));
        role.settle(range, true);
    }
    again.look();
}
