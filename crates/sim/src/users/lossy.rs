//! What is known of something that changes where a power loss may take back what was acknowledged and not synced.

use std::fmt::Debug;

/// Something: a cell of a file, or what a name leads to.
#[derive(Clone, Debug)]
pub(super) struct Lossy<V> {
    /// What may be there now.
    now: Vec<V>,
    /// What a power loss may leave: what may have been there at the last sync, and everything since.
    kept: Vec<V>,
    /// What was acknowledged last, as far as that is known, until a sync has said that it may be gone.
    told: Vec<V>,
}

impl<V: Clone + PartialEq + Debug> Lossy<V> {
    /// This was there from the beginning.
    pub(super) fn new(value: V) -> Lossy<V> {
        Lossy { now: vec![value.clone()], kept: vec![value], told: vec![] }
    }

    /// What may be there now.
    pub(super) fn may_be(&self) -> &[V] {
        &self.now
    }

    /// Power was lost.
    pub(super) fn lost(&mut self) {
        self.now = self.kept.clone();
    }

    /// A change to one of these was acknowledged; `sure` if no power was lost meanwhile.
    pub(super) fn change(&mut self, values: &[V], sure: bool) {
        self.kept.extend_from_slice(values);
        if sure {
            self.now.clear();
        }
        self.now.extend_from_slice(values);
        self.told = values.to_vec();
    }

    /// A sync was acknowledged; `sure` if no power was lost meanwhile.
    pub(super) fn synced(&mut self, sure: bool) -> Result<(), String> {
        if !self.told.is_empty() {
            let told = std::mem::take(&mut self.told);
            let there = self.shows(|value| told.contains(value), true);
            self.told = told;
            there.map_err(|why| format!("is synced as one of {:?} and {why}", self.told))?;
        }
        if sure {
            self.kept = self.now.clone();
        }
        Ok(())
    }

    /// A sync has said that what was acknowledged may be gone.
    pub(super) fn gone(&mut self) {
        self.told.clear();
    }

    /// What is there is of this kind; `sure` if no power was lost since the question, else it may have been before.
    pub(super) fn shows(&mut self, is: impl Fn(&V) -> bool, sure: bool) -> Result<(), String> {
        if !self.now.iter().any(&is) {
            return Err(format!("shows none of {:?}", self.now));
        }
        if sure {
            self.now.retain(is);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether this value may be shown.
    fn read(lossy: &mut Lossy<Option<u32>>, value: Option<u32>, sure: bool) -> Result<(), String> {
        lossy.shows(|is| *is == value, sure)
    }

    #[test]
    fn what_was_synced_stays_and_what_came_later_may() {
        let mut cell = Lossy::new(None);
        cell.change(&[Some(1)], true);
        cell.synced(true).unwrap();
        cell.change(&[Some(2)], true);
        assert!(read(&mut cell.clone(), Some(1), true).is_err(), "no power was lost");
        cell.lost();
        let mut synced = cell.clone();
        synced.synced(true).unwrap();
        assert!(read(&mut synced, Some(1), true).is_err(), "what was told is there once it is synced");
        read(&mut cell.clone(), Some(1), true).unwrap();
        read(&mut cell.clone(), Some(2), true).unwrap();
        assert!(read(&mut cell.clone(), None, true).is_err(), "it was synced");
        read(&mut cell, Some(1), true).unwrap();
        assert!(read(&mut cell, Some(2), true).is_err(), "gone once, gone for good");
        assert!(cell.synced(true).is_err(), "a sync says so");
        cell.gone();
        cell.synced(true).unwrap();
    }

    #[test]
    fn a_read_during_a_power_loss_may_show_what_was_lost() {
        let mut cell = Lossy::new(None);
        cell.change(&[Some(1)], true);
        cell.lost();
        read(&mut cell, Some(1), false).unwrap();
        read(&mut cell, None, true).unwrap();
    }

    #[test]
    fn a_write_during_a_power_loss_may_be_there() {
        let mut cell = Lossy::new(None);
        cell.change(&[Some(1)], true);
        cell.synced(true).unwrap();
        cell.lost();
        cell.change(&[Some(2)], false);
        read(&mut cell.clone(), Some(1), true).unwrap();
        read(&mut cell, Some(2), true).unwrap();
    }

    #[test]
    fn one_of_several_that_were_told_is_enough() {
        let mut name = Lossy::new(Some(1));
        name.change(&[Some(2), Some(3)], true);
        name.lost();
        name.clone().synced(true).unwrap();
        read(&mut name, Some(1), true).unwrap();
        assert!(name.synced(true).is_err());
    }
}
