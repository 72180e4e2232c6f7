//! The floor of positions, and what is reserved of counters: neither is ever lowered, wherever the journal is cut and images are taken.

use crate::world::{FILE_BLOCKS, World, data};
use onpath_data::{DataConfig, DataNode};
use onpath_store::{Image, Recoverable};
use onpath_wire::disk::block::DataRecord;
use onpath_wire::disk::record::Counter;
use onpath_wire::ids::{LogSeq, RecordSeq, Term};
use onpath_wire::secrets::Secrets;
use onpath_wire::{ClusterMap, Stored};

type Journal = Vec<(RecordSeq, Vec<u8>)>;

fn node() -> DataNode {
    let map = ClusterMap::even(2, Secrets::of_seed(1).placement);
    DataNode::new(DataConfig {
        node: 0,
        term: Term(2),
        map,
        cluster: 1,
        file_blocks: FILE_BLOCKS,
        files: 3,
        tickets: onpath_wire::secrets::Secrets::of_seed(1).inner.tickets(),
        outlived: false,
        deferred: true,
    })
}

/// Writes of some files, and records of numbers between them, some of which would lower what others have raised.
fn journal() -> Journal {
    let mut w = World::default();
    (1..9).for_each(|n| _ = w.write(data(n, 1), 0, n * 1000, &[n as u8; 5000]));
    let reserved = |counter, upto| DataRecord::Reserved { counter, upto };
    let numbers = [
        reserved(Counter::Positions, 1 << 20),
        DataRecord::Floor { upto: LogSeq(40) },
        reserved(Counter::Positions, 2 << 20),
        reserved(Counter::Positions, 1 << 20),
        DataRecord::Floor { upto: LogSeq(1 << 50) },
        DataRecord::Floor { upto: LogSeq(41) },
        reserved(Counter::EntryNumbers, u64::MAX),
    ];
    let doubled = |(seq, record): &(RecordSeq, Vec<u8>)| (RecordSeq(seq.0 * 2), record.clone());
    let mut all: Journal = w.journal.iter().map(doubled).collect();
    let between: Journal =
        all.iter().zip(&numbers).map(|((seq, _), n)| (RecordSeq(seq.0 + 1), n.to_stored())).collect();
    assert_eq!(between.len(), numbers.len());
    all.extend(between);
    all.sort();
    all
}

fn replay(node: &mut DataNode, journal: &[(RecordSeq, Vec<u8>)]) {
    journal.iter().for_each(|(seq, record)| node.replay(*seq, record).expect("own records apply"));
}

fn images(journal: &[(RecordSeq, Vec<u8>)]) -> Vec<Image> {
    let mut node = node();
    replay(&mut node, journal);
    (0..node.ranges()).map(|range| node.image(range)).collect()
}

fn numbers(node: &DataNode) -> (LogSeq, Vec<u64>) {
    let counters = [Counter::Positions, Counter::CacheEpochs, Counter::EntryNumbers, Counter::Births];
    (node.floor(), counters.map(|counter| node.reserved(counter)).to_vec())
}

#[test]
fn numbers_only_grow_and_survive_images_and_replays_in_any_cut() {
    let journal = journal();
    let mut highest = (LogSeq(0), vec![0; 4]);
    let mut lived: Vec<_> = vec![highest.clone()];
    let mut node = node();
    for record in &journal {
        replay(&mut node, std::slice::from_ref(record));
        let now = numbers(&node);
        assert!(now.0 >= highest.0 && now.1.iter().zip(&highest.1).all(|(now, before)| now >= before));
        highest = now.clone();
        lived.push(now);
    }
    assert_eq!(highest, (LogSeq(1 << 50), vec![2 << 20, 0, u64::MAX, 0]));
    for cut in 0..=journal.len() {
        // Images of the ranges are of different age: those with an odd number newer, the last one, which has the numbers, among them.
        let (older, newer) = (images(&journal[..cut / 2]), images(&journal[..cut]));
        let mut again = self::node();
        for (range, images) in (0..again.ranges()).zip([&older, &newer].into_iter().cycle()) {
            let image = &images[range as usize];
            again.loaded(range, image.upto);
            image.rest.iter().for_each(|(key, value)| again.load(range, key, value).expect("own images load"));
            image.changes.put.iter().for_each(|(key, value)| again.load_object(key, value).expect("own images load"));
        }
        assert_eq!(numbers(&again), lived[cut], "loaded at {cut}");
        for end in 0..=journal.len() {
            if end == 0 {
                continue;
            }
            replay(&mut again, &journal[end - 1..end]);
            assert_eq!(numbers(&again), lived[end.max(cut)], "loaded at {cut}, replayed up to {end}");
        }
        let range = again.ranges() - 1;
        assert_eq!(again.image(range).rest, node.image(range).rest);
        node.settle(range, false);
    }
}

#[test]
fn a_node_without_numbers_has_the_image_of_before() {
    let mut node = node();
    assert_eq!(numbers(&node), (LogSeq(0), vec![0; 4]));
    assert_eq!(node.image(node.ranges() - 1).rest, []);
    for (key, value) in [(&[4, 1][..], &[1; 9][..]), (&[5][..], &[1; 9]), (&[5, 9, 0], &[1; 9]), (&[4], &[1; 3])] {
        assert!(node.load(63, key, value).is_err(), "{key:?}");
    }
}
