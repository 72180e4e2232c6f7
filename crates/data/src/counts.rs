//! What a data node's records say of numbers, not of files: up to where positions of its writes are over, and up to where numbers may
//! have been given out. Both only grow, so a record that an image has already changes nothing when it is replayed.

use onpath_store::{Pair, ReservedNumbers};
use onpath_wire::disk::objects::{ReservedObject, UptoObject};
use onpath_wire::disk::record::Counter;
use onpath_wire::ids::{LogSeq, Term};
use onpath_wire::{Stored, WireError};

/// First byte of the key of the floor, in the rest of the last range's image.
pub(crate) const FLOOR: u8 = 4;
/// The same of what is reserved of a counter.
pub(crate) const RESERVED: u8 = 5;

/// The same of the last start that has found that power was lost.
pub(crate) const POWER_LOST: u8 = 6;

/// The floor, and the last number reserved of each kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    floor: LogSeq,
    reserved: ReservedNumbers,
    power_lost: Term,
}

impl Counts {
    /// All writes up to this position are applied by their homes and trimmed.
    pub(crate) fn floor(&self) -> LogSeq {
        self.floor
    }

    /// The last number of a kind that is reserved; 0 if none is.
    pub(crate) fn reserved(&self, counter: Counter) -> u64 {
        self.reserved.upto(counter)
    }

    pub(crate) fn raise_floor(&mut self, upto: LogSeq) {
        self.floor = self.floor.max(upto);
    }

    /// The term of the last start that has found that power was lost before it; 0 if none has.
    pub(crate) fn power_lost(&self) -> Term {
        self.power_lost
    }

    pub(crate) fn lose_power(&mut self, term: Term) {
        self.power_lost = self.power_lost.max(term);
    }

    pub(crate) fn reserve(&mut self, counter: Counter, upto: u64) {
        self.reserved.raise(counter, upto);
    }

    /// Objects of an image, none while nothing is known.
    pub(crate) fn images(&self) -> impl Iterator<Item = Pair> {
        let floor = (self.floor > LogSeq(0)).then(|| (vec![FLOOR], UptoObject { upto: self.floor }.to_stored()));
        let reserved = self.reserved.all().map(|(counter, upto)| {
            ([&[RESERVED][..], &counter.to_stored()].concat(), ReservedObject { upto }.to_stored())
        });
        let lost = LogSeq(u64::from(self.power_lost.0));
        let lost = (lost > LogSeq(0)).then(|| (vec![POWER_LOST], UptoObject { upto: lost }.to_stored()));
        floor.into_iter().chain(reserved).chain(lost)
    }

    /// Takes one of them.
    pub(crate) fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), WireError> {
        match key.split_first().ok_or(WireError::Truncated)? {
            (&FLOOR, []) => self.raise_floor(UptoObject::from_stored(value)?.upto),
            (&POWER_LOST, []) => {
                let term = u32::try_from(UptoObject::from_stored(value)?.upto.0);
                self.lose_power(term.map(Term).map_err(|_| WireError::Bad("term"))?);
            }
            (&(FLOOR | POWER_LOST), more) => return Err(WireError::Trailing(more.len())),
            (_, counter) => self.reserve(Counter::from_stored(counter)?, ReservedObject::from_stored(value)?.upto),
        }
        Ok(())
    }
}
