//! Objects of a checkpoint that a shard is given before it runs.

use super::*;
use onpath_meta::GLOBAL_RANGE;
use onpath_wire::disk::log::Entry;
use onpath_wire::disk::objects::{CountObject, LogObject, PreparedObject};
use onpath_wire::ids::{LogSeq, TxnId, TxnSeq};

/// A range counts its inodes; what belongs to no range has nothing to count.
#[test]
fn a_count_is_of_a_range() {
    const COUNT: u8 = 7;
    let mut shard = Shard::new(config(TERM));
    let count = CountObject { inodes: 3, blocks: 4 }.to_stored();
    assert!(shard.load(0, &[COUNT], &count).is_ok());
    assert!(shard.load(GLOBAL_RANGE, &[COUNT], &count).is_err());
}

/// What belongs to no range is in one of them only: the same in another is refused.
#[test]
fn what_belongs_to_no_range_is_there_once() {
    const LOG: u8 = 16;
    const PREPARED: u8 = 20;
    let mut shard = Shard::new(config(TERM));
    let key = [&[PREPARED][..], &TxnId { coordinator: ShardId(1), seq: TxnSeq(4) }.to_bytes()].concat();
    let prepared = PreparedObject { parts: vec![], found: vec![] }.to_stored();
    assert_eq!(shard.load(GLOBAL_RANGE, &key, &prepared), Ok(()));
    assert!(shard.load(0, &key, &prepared).is_err());

    let (name, child, kind) = (Name::new(b"name").expect("a name"), InodeId(9), Kind::File);
    let entry = Entry { seq: LogSeq(5), stamp: Stamp(1), put: true, name, child, kind, dcount: 1, dnlink: 0 };
    let (key, log) = ([&[LOG][..], &3u64.to_be_bytes()].concat(), LogObject { entries: vec![entry] }.to_stored());
    assert_eq!(shard.load(GLOBAL_RANGE, &key, &log), Ok(()));
    assert!(shard.load(0, &key, &log).is_err());
}
