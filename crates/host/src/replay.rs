//! Replays much of a journal at a time: roles beside each other, and for each what its records will ask the store for is fetched
//! first, in the order in which it lies there. One by one, in the journal's order, that would be the most of a start.

use crate::journal::Given;
use onpath_data::DataNode;
use onpath_meta::Shard;
use onpath_store::cold::OWNER_BYTES;
use onpath_store::{Ahead, Answers, Recoverable, StoreError};
use onpath_wire::ids::RecordSeq;
use std::collections::HashMap;
use std::num::NonZero;
use std::sync::{Arc, Mutex};
use std::thread;

/// Most threads that replay, and that fetch for one role.
const THREADS_MAX: usize = 16;
/// So many answers, or fewer, are fetched by one thread.
const FETCH_ALONE: usize = 512;
/// So much, or less, is replayed by one thread.
const REPLAY_ALONE: usize = 512;

/// One of so many records is looked at to see whether it is worth while to fetch ahead.
const SAMPLE: usize = 16;
/// It is if so many of these ask for the same directory.
const SAMPLE_MIN: usize = 128;

/// A role that replays.
pub(crate) trait Replaying: Recoverable + Send {
    /// See [`crate::journal::Replay::was_durable`].
    fn was_durable(&mut self, seq: RecordSeq);
}

impl Replaying for Shard {
    fn was_durable(&mut self, seq: RecordSeq) {
        self.tail_was_durable(seq);
    }
}

impl Replaying for DataNode {
    fn was_durable(&mut self, seq: RecordSeq) {
        self.tail_was_durable(seq);
    }
}

/// What a journal says to one role, with its places in the window.
pub(crate) type Lines<'a> = Vec<(usize, Given<'a>)>;

/// One role's part of a window.
pub(crate) struct Lane<'a> {
    pub(crate) role: &'a mut dyn Replaying,
    pub(crate) lines: Lines<'a>,
    /// What the role asks; none if it has everything in memory.
    pub(crate) ahead: Option<&'a Arc<Ahead>>,
}

fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX)
}

/// Replays the parts of different roles; for each role that refuses something the place of that, and why.
pub(crate) fn run(lanes: Vec<Lane<'_>>) -> Vec<(usize, StoreError)> {
    let few = lanes.iter().map(|lane| lane.lines.len()).sum::<usize>() <= REPLAY_ALONE;
    let threads = if few { 1 } else { threads().min(lanes.len()) };
    let (lanes, errors) = (Mutex::new(lanes), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let Some(lane) = lanes.lock().expect("a list does not panic").pop() else { return };
            if let Err(error) = lane.run() {
                errors.lock().expect("a list does not panic").push(error);
            }
        }
    };
    thread::scope(|scope| {
        (1..threads).for_each(|_| _ = scope.spawn(work));
        work();
    });
    errors.into_inner().expect("a scope ends with its threads")
}

impl Lane<'_> {
    fn run(self) -> Result<(), (usize, StoreError)> {
        let Lane { role, lines, ahead } = self;
        if let Some(ahead) = ahead
            && is_worth_it(&foreseen(role, &lines, SAMPLE))
        {
            ahead.know(fetch(ahead, foreseen(role, &lines, 1)));
        }
        for (place, given) in lines {
            match given {
                Given::Record(_, seq, record) => role.replay(seq, record).map_err(|error| (place, error))?,
                Given::Durable(_, seq) => role.was_durable(seq),
            }
        }
        ahead.into_iter().for_each(|ahead| ahead.know([]));
        Ok(())
    }
}

/// What one of so many records will ask.
fn foreseen(role: &dyn Replaying, lines: &Lines<'_>, every: usize) -> Vec<Vec<u8>> {
    let mut asks = Vec::new();
    for (_, given) in lines.iter().step_by(every) {
        if let Given::Record(_, _, record) = given {
            role.foresee(record, &mut asks);
        }
    }
    asks
}

/// Whether much of what is asked is of one directory: then it lies scattered over many pages, which would be read again and again. Of small
/// directories the few pages are kept from one question to the next, and to fetch ahead costs more than it saves.
fn is_worth_it(sample: &[Vec<u8>]) -> bool {
    let mut of: HashMap<&[u8], usize> = HashMap::new();
    for ask in sample {
        let asked = of.entry(&ask[..ask.len().min(OWNER_BYTES)]).or_default();
        *asked += 1;
        if *asked >= SAMPLE_MIN {
            return true;
        }
    }
    false
}

/// Fetches what is asked, in order, by several threads if it is much.
fn fetch(ahead: &Ahead, mut asks: Vec<Vec<u8>>) -> Vec<Answers> {
    asks.sort_unstable();
    asks.dedup();
    let share = asks.len().div_ceil(threads()).max(FETCH_ALONE);
    thread::scope(|scope| {
        let others: Vec<_> = asks.chunks(share).skip(1).map(|asks| scope.spawn(|| ahead.fetch(asks))).collect();
        let first = ahead.fetch(&asks[..share.min(asks.len())]);
        let others = others.into_iter().map(|other| other.join().expect("fetching does not panic"));
        [first].into_iter().chain(others).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_store::{Changes, Cold, Image, ObjectCheck};
    use onpath_wire::ids::{NodeId, ShardId};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A store that has the keys that begin with an even number, and counts how often it is asked.
    #[derive(Default)]
    struct Evens(AtomicUsize);

    impl Cold for Evens {
        fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            key[0].is_multiple_of(2).then(|| key.to_vec())
        }

        fn scan(&self, prefix: &[u8], _: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
            self.get(prefix).into_iter().for_each(|value| _ = each(prefix, &value));
        }
    }

    /// Notes what it is told and what the store has of it. It does not foresee what begins with 3, and refuses what begins with 255.
    #[derive(Default)]
    struct Diary {
        cold: Option<Arc<dyn Cold>>,
        told: Vec<(RecordSeq, bool)>,
        durable: Vec<(RecordSeq, usize)>,
    }

    impl Recoverable for Diary {
        fn ranges(&self) -> u32 {
            1
        }
        fn begin_image(&mut self, _: u32) -> Image {
            Image { upto: RecordSeq(0), changes: Changes::default(), rest: vec![] }
        }
        fn settle_some(&mut self, _: u32, _: bool) -> bool {
            false
        }
        fn attach(&mut self, cold: Arc<dyn Cold>) -> Result<(), StoreError> {
            self.cold = Some(cold);
            Ok(())
        }
        fn loaded(&mut self, _: u32, _: RecordSeq) {}
        fn load(&mut self, _: u32, _: &[u8], _: &[u8]) -> Result<(), StoreError> {
            Ok(())
        }
        fn load_object(&mut self, _: &[u8], _: &[u8]) -> Result<(), StoreError> {
            Ok(())
        }
        fn object_check(&self) -> ObjectCheck {
            Box::new(|_, _| Ok(()))
        }
        fn memory(&self) -> u64 {
            0
        }
        fn forget(&mut self, _: u32) {}
        fn foresee(&self, record: &[u8], asks: &mut Vec<Vec<u8>>) {
            asks.extend((record[0] != 3).then(|| record.to_vec()));
        }
        fn replay(&mut self, seq: RecordSeq, record: &[u8]) -> Result<(), StoreError> {
            if record[0] == 255 {
                return Err(StoreError::Contradiction("255".into()));
            }
            self.told.push((seq, self.cold.as_ref().is_some_and(|cold| cold.get(record).is_some())));
            Ok(())
        }
    }

    impl Replaying for Diary {
        fn was_durable(&mut self, seq: RecordSeq) {
            self.durable.push((seq, self.told.len()));
        }
    }

    fn lines<T: AsRef<[u8]>>(records: &[T]) -> Lines<'_> {
        let role = NodeId::shard(ShardId(0));
        (1..).zip(records).map(|(n, record)| (n as usize, Given::Record(role, RecordSeq(n), record.as_ref()))).collect()
    }

    #[test]
    fn every_role_hears_its_part_in_order_and_asks_for_what_it_did_not_foresee() {
        let records: Vec<Vec<u8>> =
            (0..4_000u32).map(|n| [&[n as u8 % 4][..], &[0; 8], &n.to_be_bytes()].concat()).collect();
        let store = Arc::new(Evens::default());
        let aheads: Vec<Arc<Ahead>> = (0..3).map(|_| Arc::new(Ahead::new(store.clone()))).collect();
        let mut roles: Vec<Diary> = (0..3).map(|_| Diary::default()).collect();
        let mut lanes = Vec::new();
        for (role, ahead) in roles.iter_mut().zip(&aheads) {
            role.attach(ahead.clone()).expect("nothing is refused");
            let mut lines = lines(&records);
            lines.insert(2_000, (9_999, Given::Durable(NodeId::data(0), RecordSeq(77))));
            lanes.push(Lane { role, lines, ahead: Some(ahead) });
        }
        assert!(run(lanes).is_empty());
        assert_eq!(store.0.load(Ordering::Relaxed), 3 * 4_000, "each is asked for once");
        for role in roles {
            let expected = (1..).zip(&records).map(|(n, record)| (RecordSeq(n), record[0].is_multiple_of(2)));
            assert!(role.told == expected.collect::<Vec<_>>());
            assert_eq!(role.durable, [(RecordSeq(77), 2_000)]);
        }
    }

    #[test]
    fn what_is_asked_of_many_directories_is_not_fetched_ahead() {
        let ask = |dir: u64, n: u64| [&[2][..], &dir.to_be_bytes(), &n.to_be_bytes()].concat();
        let asks = |dirs: u64| (0..2_000).map(|n| ask(n % dirs, n)).collect::<Vec<_>>();
        assert!(is_worth_it(&asks(1)) && is_worth_it(&asks(2_000 / SAMPLE_MIN as u64)));
        assert!(!is_worth_it(&asks(100)) && !is_worth_it(&[]) && !is_worth_it(&vec![vec![1]; SAMPLE_MIN - 1]));
    }

    #[test]
    fn a_refusal_names_its_place_and_ends_its_role_only() {
        let (good, bad) = ([[1; 3]; 700], [[1; 3], [255; 3], [1; 3]]);
        let (mut a, mut b) = (Diary::default(), Diary::default());
        let lanes = vec![
            Lane { role: &mut a, lines: lines(&bad), ahead: None },
            Lane { role: &mut b, lines: lines(&good), ahead: None },
        ];
        assert_eq!(run(lanes), [(2, StoreError::Contradiction("255".into()))]);
        assert_eq!((a.told.len(), b.told.len()), (1, 700));
    }
}
