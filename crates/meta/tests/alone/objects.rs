//! Objects of a checkpoint that a shard is given before it runs.

use super::*;
use onpath_meta::GLOBAL_RANGE;
use onpath_wire::disk::objects::CountObject;

/// A range counts its inodes; what belongs to no range has nothing to count.
#[test]
fn a_count_is_of_a_range() {
    const COUNT: u8 = 7;
    let mut shard = Shard::new(config(TERM));
    let count = CountObject { inodes: 3, blocks: 4 }.to_stored();
    assert!(shard.load(0, &[COUNT], &count).is_ok());
    assert!(shard.load(GLOBAL_RANGE, &[COUNT], &count).is_err());
}
