//! How directories are tracked: epochs, forms, and what the coordinator says to the switch's control plane.

use crate::cached::CacheCommand;
use crate::codec::{Reader, Wire, WireError};
use crate::ids::{NodeId, ShardId, Term, TrackingEpoch};
use crate::innet::{ENTRY_BITS, EntryName, Fingerprint, INDEX_BITS};
use crate::limits::SWITCHES_MAX;
use crate::{wire_enum, wire_struct};
use std::fmt::{self, Debug, Formatter};

/// Who knows that a directory has pending updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Form {
    /// Its owner: whoever holds the append part may have some. No switch is needed.
    #[default]
    Owner = 1,
    /// The dirty sets in the switches.
    Network = 2,
}

/// Who answers writes of files (design.md, "Writes that data nodes answer").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Writes {
    /// The home of the file, which hears of each from the data node.
    #[default]
    Chain,
    /// The data node, if the file is lent to it; whoever asks the home is shown it.
    Visible,
    /// The home, which hears of it from the session, when that has heard from the data node: the order in which other systems do it, to
    /// compare with.
    TwoPhase,
}

impl Writes {
    /// Whether files are lent to their data nodes.
    pub fn lends(self) -> bool {
        self != Writes::Chain
    }
}

/// The switches of a tracking epoch, at least one and in order: each has an equal range of the fingerprints.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Switches([u8; SWITCHES_MAX]); // of each its number and one; 0 is none, and nothing comes after it

impl Switches {
    /// The only one.
    pub const ONE: Switches = Switches([1, 0, 0, 0, 0, 0, 0, 0]);

    /// Those of these numbers; none if there are none, or more than [`SWITCHES_MAX`], or such as no host has.
    pub fn of(numbers: impl IntoIterator<Item = u16>) -> Option<Switches> {
        let mut all = [0; SWITCHES_MAX];
        let mut count = 0;
        for number in numbers {
            *all.get_mut(count)? = u8::try_from(number).ok()?.checked_add(1)?;
            count += 1;
        }
        (count > 0).then_some(Switches(all))
    }

    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "there is one at least")]
    pub fn len(&self) -> usize {
        self.0.iter().take_while(|&&number| number != 0).count()
    }

    /// Their numbers, in order.
    pub fn numbers(&self) -> impl Iterator<Item = u16> + use<> {
        let all = self.0;
        (0..self.len()).map(move |place| u16::from(all[place]) - 1)
    }

    /// Their addresses, in order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        self.numbers().map(NodeId::switch)
    }

    /// Whether one of them has this address.
    pub fn contain(&self, switch: NodeId) -> bool {
        self.nodes().any(|node| node == switch)
    }

    /// The place of the one in whose range a group is.
    pub fn place(&self, group: Fingerprint) -> usize {
        (group.index() as usize * self.len()) >> INDEX_BITS
    }

    /// As they are told.
    #[inline]
    pub(crate) fn bytes(self) -> [u8; SWITCHES_MAX] {
        self.0
    }

    /// Those that are told so.
    ///
    /// # Errors
    /// There is none, or one behind a place without one.
    #[inline]
    pub(crate) fn of_bytes(all: [u8; SWITCHES_MAX]) -> Result<Switches, WireError> {
        let switches = Switches(all);
        let count = switches.len();
        if count == 0 || all[count..].iter().any(|&number| number != 0) {
            return Err(WireError::Bad("switches of a tracking epoch"));
        }
        Ok(switches)
    }
}

impl Default for Switches {
    fn default() -> Switches {
        Switches::ONE
    }
}

impl Debug for Switches {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.numbers()).finish()
    }
}

/// A tracking epoch and its form, which never changes.
///
/// Each switch has an epoch of its own: the first one this, the next one the following. So what a switch answers about a group that is
/// not in its range, because somebody believed other switches to be there, is the answer of another epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tracking {
    /// Given out by the coordinator; 0 before the first one, which has the owner form.
    pub epoch: TrackingEpoch,
    /// The form.
    pub form: Form,
    /// Its switches; of the owner form, those of before.
    pub switches: Switches,
    /// In the network form: their visibility tables show writes of files, too (V-2). Else homes ask data nodes back.
    pub files: bool,
}

impl Tracking {
    /// The epoch of the switch at a place.
    pub fn epoch_at(&self, place: usize) -> TrackingEpoch {
        TrackingEpoch(self.epoch.0.wrapping_add(place as u16))
    }

    /// The epoch of the switch in whose range a group is.
    pub fn epoch_of(&self, group: Fingerprint) -> TrackingEpoch {
        self.epoch_at(self.switches.place(group))
    }

    /// Whether answered writes of files are in tables of switches.
    pub fn has_files(&self) -> bool {
        self.form == Form::Network && self.files
    }

    /// The switch whose table has an entry, and its epoch.
    pub fn table_of(&self, entry: EntryName) -> (NodeId, TrackingEpoch) {
        let place = (entry.index() as usize * self.switches.len()) >> ENTRY_BITS;
        (self.switches.nodes().nth(place).expect("a place of one of them"), self.epoch_at(place))
    }

    /// Whether this switch is asked in it.
    pub fn asks(&self, switch: NodeId) -> bool {
        self.form == Form::Network && self.switches.contain(switch)
    }

    /// The switch in whose range a group is.
    pub fn switch_of(&self, group: Fingerprint) -> NodeId {
        self.switches.nodes().nth(self.switches.place(group)).expect("a place of one of them")
    }
}

/// How a [`Tracking`] is told: form 1 and 2 are the owner's and the network's with the only switch, 3 and 4 the same with several, 6 and 8
/// the network's with files.
const LISTED: u8 = 2;
const FILES: u8 = 4;

impl Wire for Tracking {
    fn put(&self, out: &mut Vec<u8>) {
        let form = self.form as u8 + if self.has_files() { FILES } else { 0 };
        self.epoch.put(out);
        if self.switches == Switches::ONE {
            return form.put(out);
        }
        (form + LISTED).put(out);
        out.extend_from_slice(&self.switches.0);
    }

    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let (epoch, code) = (TrackingEpoch::take(r)?, u8::take(r)?);
        let (form, listed, files) = match code {
            1 | 3 => (Form::Owner, code == 3, false),
            2 | 4 => (Form::Network, code == 4, false),
            6 | 8 => (Form::Network, code == 8, true),
            _ => return Err(WireError::Bad("form of a tracking epoch")),
        };
        let switches = if listed { Switches::of_bytes(r.array()?)? } else { Switches::ONE };
        Ok(Tracking { epoch, form, switches, files })
    }
}

wire_enum! {
    /// In what role a shard knows a tracking epoch: owners first, then sites.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum TrackingSide {
        /// The coordinator has given it out.
        1 => Given,
        /// As the owner of directories.
        2 => Owner,
        /// As a site of names.
        3 => Site,
    }
}

wire_enum! {
    /// A command of the control plane (dataplane/SPEC.md, D-37 to D-39, D-63 to D-65). A call; answered by [`SwitchStatus`].
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum SwitchCommand {
        /// Only tell.
        1 => Status,
        /// Begin a tracking epoch.
        2 => Epoch {
            /// Which.
            epoch: TrackingEpoch,
        },
        /// Every shard has its held entries acknowledged in this epoch.
        3 => Complete {
            /// Which.
            epoch: TrackingEpoch,
        },
        /// This shard's removes of lower terms are ignored from now on.
        4 => Raise {
            /// Whose.
            shard: ShardId,
            /// Its present term.
            term: Term,
        },
        /// Only tell, of the visibility table.
        5 => VisibilityStatus,
        /// Begin an epoch of the visibility table.
        6 => VisibilityEpoch {
            /// Which.
            epoch: TrackingEpoch,
        },
        /// Every data node has had applied what it had before this epoch.
        7 => VisibilityComplete {
            /// Which.
            epoch: TrackingEpoch,
        },
        /// Empty the visibility table, which has no epoch.
        8 => VisibilityClear,
        /// Of the cache; answered by [`CacheStatus`](crate::cached::CacheStatus).
        9 => Cache {
            /// Which.
            command: CacheCommand,
        },
    }
}

wire_struct! {
    /// The state of a switch after a command: of the dirty set, or of the visibility table if that was a command of it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SwitchStatus {
        /// Names its life: another one has forgotten everything.
        pub boot: u64,
        /// The present epoch; 0 is none.
        pub epoch: TrackingEpoch,
        /// Whether that is complete.
        pub complete: bool,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(index: u32) -> Fingerprint {
        Fingerprint::new(index, 7).unwrap()
    }

    #[test]
    fn ranges_are_equal_and_every_group_has_a_switch() {
        for count in 1..=SWITCHES_MAX as u16 {
            let switches = Switches::of((0..count).map(|place| 250 - place)).unwrap();
            let tracking = Tracking { epoch: TrackingEpoch(9), form: Form::Network, switches, files: false };
            let mut found = vec![0; count.into()];
            for index in 0..1 << INDEX_BITS {
                let place = switches.place(group(index));
                found[place] += 1;
                assert_eq!(tracking.switch_of(group(index)), NodeId::switch(250 - place as u16));
                assert_eq!(tracking.epoch_of(group(index)), TrackingEpoch(9 + place as u16));
            }
            assert!(found.iter().max().unwrap() - found.iter().min().unwrap() <= 1, "{found:?}");
            assert!(found.len() == switches.len() && switches.contain(NodeId::switch(250)));
        }
    }

    #[test]
    fn what_is_told_is_what_is_heard() {
        assert_eq!((Switches::of([]), Switches::of([1; 9]), Switches::of([255])), (None, None, None));
        let several = Switches::of([3, 0, 250]).unwrap();
        for switches in [Switches::ONE, several, Switches::of(1..9).unwrap()] {
            for (form, files) in [(Form::Owner, false), (Form::Network, false), (Form::Network, true)] {
                let tracking = Tracking { epoch: TrackingEpoch(300), form, switches, files };
                assert_eq!(Tracking::from_bytes(&tracking.to_bytes()), Ok(tracking));
            }
            assert_eq!(Switches::of_bytes(switches.bytes()), Ok(switches));
        }
        assert!(
            Switches::of_bytes([0; SWITCHES_MAX]).is_err() && Switches::of_bytes([1, 0, 5, 0, 0, 0, 0, 0]).is_err()
        );
        let (epoch, form, switches) = (TrackingEpoch(300), Form::Network, Switches::ONE);
        let one = Tracking { epoch, form, switches, files: false };
        assert_eq!(one.to_bytes(), [44, 1, 2], "as before there could be several");
        for wrong in [
            &[1, 0, 5][..],
            &[1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0],
            &[1, 0, 4, 1, 0, 2, 0, 0, 0, 0, 0],
            &[1, 0, 3, 1],
            &[1, 0, 5],
            &[1, 0, 7],
        ] {
            assert!(Tracking::from_bytes(wrong).is_err(), "{wrong:?}");
        }
    }
}
