//! What a store has, of which some is fetched before it is asked for: a replay knows what it will ask, and many answers at once, in
//! the order in which they lie there, cost less than one by one.

use crate::cold::Cold;
use crate::recoverable::Pair;
use hashbrown::HashMap;
use std::sync::{Arc, RwLock};

/// Some prefixes of keys, and for each all that begins with it, in order.
pub type Answers = Vec<(Vec<u8>, Vec<Pair>)>;

/// A store that does not change while answers from it are here.
pub struct Ahead {
    below: Arc<dyn Cold>,
    answers: RwLock<HashMap<Vec<u8>, Vec<Pair>>>,
}

impl Ahead {
    /// Nothing is fetched.
    pub fn new(below: Arc<dyn Cold>) -> Ahead {
        Ahead { below, answers: RwLock::default() }
    }

    /// What begins with these prefixes.
    pub fn fetch(&self, asks: &[Vec<u8>]) -> Answers {
        let answer = |ask: &Vec<u8>| {
            let mut pairs = Vec::new();
            self.below.scan(ask, &[], &mut |key, value| {
                pairs.push((key.to_vec(), value.to_vec()));
                true
            });
            (ask.clone(), pairs)
        };
        asks.iter().map(answer).collect()
    }

    /// From now on has these answers, and forgets those of before.
    pub fn know(&self, answers: impl IntoIterator<Item = Answers>) {
        let answers = answers.into_iter().flatten().collect();
        *self.answers.write().expect("answers are replaced whole") = answers;
    }

    /// What is known of exactly this prefix.
    fn known<T>(&self, prefix: &[u8], see: impl FnOnce(&[Pair]) -> T) -> Option<T> {
        self.answers.read().expect("answers are replaced whole").get(prefix).map(|pairs| see(pairs))
    }
}

impl Cold for Ahead {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let known = self.known(key, |pairs| pairs.iter().find(|(k, _)| k == key).map(|(_, value)| value.clone()));
        known.unwrap_or_else(|| self.below.get(key))
    }

    fn scan(&self, prefix: &[u8], from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        let known = self.known(prefix, |pairs| {
            let rest = pairs.iter().skip_while(|(key, _)| key.as_slice() < from);
            rest.map(|(key, value)| each(key, value)).take_while(|go_on| *go_on).for_each(drop);
        });
        if known.is_none() {
            self.below.scan(prefix, from, each);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A store that counts how often it is asked.
    #[derive(Default)]
    struct Counted {
        all: BTreeMap<Vec<u8>, Vec<u8>>,
        asked: AtomicUsize,
    }

    impl Cold for Counted {
        fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.all.get(key).cloned()
        }

        fn scan(&self, prefix: &[u8], from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let range = self.all.iter().filter(|(key, _)| key.starts_with(prefix) && key.as_slice() >= from);
            range.map(|(key, value)| each(key, value)).take_while(|go_on| *go_on).for_each(drop);
        }
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(0u8..3, 0..4)
    }

    fn listed(store: &dyn Cold, prefix: &[u8], from: &[u8], most: usize) -> Vec<Pair> {
        let mut found = Vec::new();
        store.scan(prefix, from, &mut |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            found.len() < most
        });
        found
    }

    proptest! {
        /// Whatever is fetched, the answers are those of the store; what is fetched is not asked for again, until other answers
        /// take its place.
        #[test]
        fn what_is_fetched_is_what_is_there(
            all in prop::collection::btree_map(key(), prop::collection::vec(any::<u8>(), 0..2), 0..20),
            fetched in prop::collection::vec(prop::collection::vec(key(), 0..8), 1..4),
            looks in prop::collection::vec((key(), key(), 1usize..4), 1..20),
        ) {
            let store = Arc::new(Counted { all, ..Counted::default() });
            let ahead = Ahead::new(store.clone());
            for asks in fetched {
                ahead.know([ahead.fetch(&asks)]);
                for (prefix, from, most) in &looks {
                    let before = store.asked.load(Ordering::Relaxed);
                    let (got, found) = (ahead.get(prefix), listed(&ahead, prefix, from, *most));
                    let asked = store.asked.load(Ordering::Relaxed) - before;
                    prop_assert_eq!(asked, if asks.contains(prefix) { 0 } else { 2 });
                    prop_assert_eq!(got, store.get(prefix));
                    prop_assert_eq!(found, listed(&*store, prefix, from, *most));
                }
            }
        }
    }
}
