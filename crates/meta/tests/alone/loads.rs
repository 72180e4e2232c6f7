//! A path node asks for all directories, of which some come into memory meanwhile (P-6).

use super::*;
use onpath_store::Cold;
use onpath_wire::peer::PathsFrom;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// What a checkpoint has.
#[derive(Default)]
struct Shelf(BTreeMap<Vec<u8>, Vec<u8>>);

impl Cold for Shelf {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key).cloned()
    }

    fn scan(&self, prefix: &[u8], from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        let from = from.max(prefix);
        let range = self.0.range::<[u8], _>((Bound::Included(from), Bound::Unbounded));
        range.take_while(|(key, _)| key.starts_with(prefix)).all(|(key, value)| each(key, value));
    }
}

fn path_node() -> NodeId {
    NodeId::path(1)
}

fn with_path_node(term: Term) -> ShardConfig {
    let config = config(term);
    ShardConfig { map: config.map.clone().with_path_nodes(&[1]), ..config }
}

impl Alone {
    /// A shard of the next term, which has everything in its store and nothing in memory.
    fn restarted_from_images(mut self) -> Alone {
        let (upto, _) = *self.journal.last().expect("something is recorded");
        let images: Vec<_> = (0..self.shard.ranges()).map(|range| self.shard.image(range)).collect();
        let shelf = images.iter().flat_map(|image| image.changes.put.iter().cloned()).collect();
        let mut shard = Shard::new(with_path_node(Term(TERM.0 + 1)));
        shard.attach(Arc::new(Shelf(shelf))).expect("own objects load");
        for (range, image) in (0..).zip(&images) {
            shard.loaded(range, upto);
            image.rest.iter().for_each(|(key, value)| shard.load(range, key, value).expect("own objects load"));
        }
        let first = Birth(shard.reserved(Counter::Births) as u32).next();
        shard.start(self.now, first);
        (self.shard, self.term) = (shard, Term(TERM.0 + 1));
        self.outputs();
        self
    }

    /// What the path node is granted, and where to go on.
    fn granted(&mut self, seq: u64, from: Option<PathsFrom>) -> (Vec<InodeId>, Option<PathsFrom>) {
        self.hear(MessageKind::Peer, path_node(), RequestSeq(seq), &Peer::PathsAsk { from });
        match self.last.take() {
            Some(Peer::Paths { parts, next }) => (parts.into_iter().map(|part| part.dir).collect(), next),
            other => panic!("answered {other:?}"),
        }
    }
}

#[test]
fn what_comes_into_memory_during_a_load_is_granted() {
    let mut alone = Alone::of(with_path_node(TERM));
    let mut made = BTreeSet::new();
    for seq in 1..=8 {
        let node = NewNode { kind: Kind::Directory, mode: 0o777, umask: 0, rdev: 0, target: Blob::default(), open: 0 };
        alone.ask(seq, Request::Create { parent: InodeId::ROOT, name: name_here(seq), node });
        let Some((_, Reply::Entry { attr, .. })) = alone.replies.pop() else { panic!("{:?}", alone.replies) };
        made.insert(attr.id);
    }
    let mut alone = alone.restarted_from_images();
    alone.hear(MessageKind::Peer, path_node(), RequestSeq(100), &Peer::PathLeaseAsk);
    let (mut all, mut next, mut seq) = (BTreeSet::new(), None, 101);
    loop {
        let (granted, from) = alone.granted(seq, next);
        (next, seq) = (from, seq + 1);
        all.extend(granted);
        if next.is_none_or(|from| from.stored) {
            break;
        }
    }
    // The turn of what is in memory is over.
    let id = *made.first().expect("some are made");
    assert!(!all.contains(&id), "it is not in memory yet");
    let set = SetAttr { valid: set::READ | set::ATIME | set::ATIME_NOW, ..SetAttr::default() };
    alone.ask(200, Request::SetAttr { id, set });
    while next.is_some() {
        let (granted, from) = alone.granted(seq, next);
        (next, seq) = (from, seq + 1);
        all.extend(granted);
    }
    assert!(all.is_superset(&made), "{made:?} were made, and {all:?} are granted");
}
