//! Maps that are made once: a sorted list takes half the memory of a tree, and no more than its elements.

use std::ops::Index;

/// Values by key.
#[derive(Debug)]
pub(super) struct Sorted<K, V>(Vec<(K, V)>);

impl<K: Ord, V> Sorted<K, V> {
    /// Of several values of a key the last one counts.
    pub(super) fn of(mut pairs: Vec<(K, V)>) -> Sorted<K, V> {
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                std::mem::swap(later, kept);
            }
            same
        });
        pairs.shrink_to_fit();
        Sorted(pairs)
    }

    fn place(&self, key: &K) -> Option<usize> {
        self.0.binary_search_by(|(other, _)| other.cmp(key)).ok()
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.place(key).map(|at| &self.0[at].1)
    }

    pub(super) fn contains_key(&self, key: &K) -> bool {
        self.place(key).is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In the order of the keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    /// Those whose keys are not below `first`.
    pub(super) fn from(&self, first: &K) -> impl Iterator<Item = (&K, &V)> {
        let at = self.0.partition_point(|(key, _)| key < first);
        self.0[at..].iter().map(|(key, value)| (key, value))
    }
}

impl<K: Ord, V> Index<&K> for Sorted<K, V> {
    type Output = V;

    fn index(&self, key: &K) -> &V {
        self.get(key).expect("the key is there")
    }
}

/// Some values for each key, as one list.
#[derive(Debug)]
pub(super) struct Grouped<K, V> {
    /// The key of each value.
    keys: Vec<K>,
    values: Vec<V>,
}

impl<K: Ord, V: Ord> Grouped<K, V> {
    pub(super) fn of(mut pairs: Vec<(K, V)>) -> Grouped<K, V> {
        pairs.sort_unstable();
        let (keys, values) = pairs.into_iter().unzip();
        Grouped { keys, values }
    }

    /// The values of a key, sorted.
    pub(super) fn get(&self, key: &K) -> &[V] {
        let first = self.keys.partition_point(|other| other < key);
        let count = self.keys[first..].partition_point(|other| other == key);
        &self.values[first..first + count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_maps() {
        let map = Sorted::of(vec![(5, "e"), (1, "a"), (3, "old"), (3, "c")]);
        assert_eq!(map.iter().map(|(key, value)| (*key, *value)).collect::<Vec<_>>(), [(1, "a"), (3, "c"), (5, "e")]);
        assert_eq!((map.get(&3), map.get(&4), map[&5]), (Some(&"c"), None, "e"));
        assert_eq!(map.from(&2).next(), Some((&3, &"c")));
        assert!(map.contains_key(&1) && !map.contains_key(&0) && !map.is_empty());
        let grouped = Grouped::of(vec![(2, 'b'), (1, 'z'), (2, 'a')]);
        assert_eq!((grouped.get(&2), grouped.get(&1), grouped.get(&3)), (&['a', 'b'][..], &['z'][..], &[][..]));
    }
}
