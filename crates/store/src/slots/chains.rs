//! Chains: the handles of one tag of one table, once they are too many to be walked one by one. They lie in the order of what they
//! lead to, so a search halves them, whatever their hashes are.

use super::Bucket;
use crate::arena::Handle;
use onpath_wire::ids::Slot;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Buckets that a run has room for: what an insertion moves at most.
const RUN_MAX: usize = 256;

/// The buckets of one tag, in order, in runs of which none is empty.
#[derive(Debug, Default)]
pub(super) struct Chain {
    runs: Vec<Vec<Bucket>>,
}

/// A run, and a place in it.
type At = (usize, usize);

impl Chain {
    /// Where something is, or where it goes; `order` is that of a handle towards it.
    fn search(&self, order: impl Fn(Handle) -> Ordering) -> Result<At, At> {
        let after = self.runs.partition_point(|run| order(run[0].handle()).is_le());
        let run = after.saturating_sub(1);
        let Some(buckets) = self.runs.get(run) else { return Err((0, 0)) };
        let place = buckets.binary_search_by(|bucket| order(bucket.handle()));
        place.map(|at| (run, at)).map_err(|at| (run, at))
    }

    pub(super) fn get(&self, order: impl Fn(Handle) -> Ordering) -> Option<&Bucket> {
        self.search(order).ok().map(|(run, at)| &self.runs[run][at])
    }

    pub(super) fn get_mut(&mut self, order: impl Fn(Handle) -> Ordering) -> Option<&mut Bucket> {
        self.search(order).ok().map(|(run, at)| &mut self.runs[run][at])
    }

    /// Inserts what is not there.
    pub(super) fn insert(&mut self, bucket: Bucket, order: impl Fn(Handle) -> Ordering) {
        let (run, at) = self.search(order).expect_err("it is not there");
        if self.runs.is_empty() {
            self.runs.push(Vec::new());
        }
        let buckets = &mut self.runs[run];
        buckets.insert(at, bucket);
        if buckets.len() == RUN_MAX {
            let upper = buckets.split_off(RUN_MAX / 2);
            self.runs.insert(run + 1, upper);
        }
    }

    fn remove(&mut self, order: impl Fn(Handle) -> Ordering) -> Option<Bucket> {
        let (run, at) = self.search(order).ok()?;
        let bucket = self.runs[run].remove(at);
        self.join(run);
        self.join(run.saturating_sub(1));
        Some(bucket)
    }

    /// Two runs that are half a run together become one, so that no many of them are nearly empty.
    fn join(&mut self, run: usize) {
        let of = |run: usize| self.runs.get(run).map(Vec::len);
        match (of(run), of(run + 1)) {
            (Some(0), None) => drop(self.runs.remove(run)),
            (Some(one), Some(other)) if one + other <= RUN_MAX / 2 => {
                let upper = self.runs.remove(run + 1);
                self.runs[run].extend(upper);
            }
            _ => {}
        }
    }

    fn iter(&self) -> impl Iterator<Item = Bucket> {
        self.runs.iter().flatten().copied()
    }

    fn len(&self) -> usize {
        self.runs.iter().map(Vec::len).sum()
    }
}

/// The chains of all tables: none, unless somebody aims at a table.
#[derive(Debug, Default)]
pub(super) struct Chains(BTreeMap<(Slot, u16), Chain>);

/// All tags of these tables, each named by its first slot.
fn of(tables: RangeInclusive<Slot>) -> RangeInclusive<(Slot, u16)> {
    (*tables.start(), 0)..=(*tables.end(), u16::MAX)
}

impl Chains {
    /// The chain of a tag of the table that begins with this slot.
    #[inline]
    pub(super) fn of(&self, table: Slot, tag: u16) -> Option<&Chain> {
        if self.0.is_empty() { None } else { self.0.get(&(table, tag)) }
    }

    #[inline]
    pub(super) fn of_mut(&mut self, table: Slot, tag: u16) -> Option<&mut Chain> {
        if self.0.is_empty() { None } else { self.0.get_mut(&(table, tag)) }
    }

    /// From now on this tag has a chain.
    pub(super) fn begin(&mut self, table: Slot, tag: u16) -> &mut Chain {
        self.0.entry((table, tag)).or_default()
    }

    /// Takes something out of a chain that there is; one that is empty then is no more.
    pub(super) fn remove(&mut self, table: Slot, tag: u16, order: impl Fn(Handle) -> Ordering) -> Option<Bucket> {
        let chain = self.0.get_mut(&(table, tag))?;
        let bucket = chain.remove(order);
        if chain.runs.is_empty() {
            self.0.remove(&(table, tag));
        }
        bucket
    }

    /// The buckets in the chains of these tables.
    pub(super) fn buckets(&self, tables: RangeInclusive<Slot>) -> impl Iterator<Item = Bucket> {
        self.0.range(of(tables)).flat_map(|(_, chain)| chain.iter())
    }

    /// The same, to be changed where they are.
    pub(super) fn buckets_mut(&mut self, tables: RangeInclusive<Slot>) -> impl Iterator<Item = &mut Bucket> {
        self.0.range_mut(of(tables)).flat_map(|(_, chain)| chain.runs.iter_mut().flatten())
    }

    /// Keeps only what `keep` says of the chains of these tables.
    pub(super) fn retain(&mut self, tables: RangeInclusive<Slot>, mut keep: impl FnMut(&mut Bucket) -> bool) {
        for (_, chain) in self.0.range_mut(of(tables.clone())) {
            chain.runs.iter_mut().for_each(|run| run.retain_mut(&mut keep));
            chain.runs.retain(|run| !run.is_empty());
        }
        self.0.extract_if(of(tables), |_, chain| chain.runs.is_empty()).for_each(drop);
    }

    /// Number of buckets.
    pub(super) fn len(&self) -> usize {
        self.0.values().map(Chain::len).sum()
    }

    /// Bytes in use, about.
    pub(super) fn bytes(&self) -> u64 {
        let runs = self.0.values().flat_map(|chain| &chain.runs);
        let runs: usize = runs.map(|run| size_of_val(run) + run.capacity() * size_of::<Bucket>()).sum();
        (runs + self.0.len() * 2 * size_of::<((Slot, u16), Chain)>()) as u64
    }
}
