//! What bounds a lookup: the hashes do not.

use super::*;
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;

/// A table of numbers: a handle leads to itself. It counts how often it is asked for an order, each of which reads a record.
#[derive(Default)]
struct Numbers {
    tables: SlotTables,
    steps: Cell<u64>,
}

impl Numbers {
    fn order(&self, number: u32) -> impl Fn(Handle) -> Ordering {
        move |handle| {
            self.steps.set(self.steps.get() + 1);
            handle.0.cmp(&number)
        }
    }

    fn find(&self, slot: Slot, hash: u64, number: u32) -> Option<Handle> {
        self.tables.find(slot, hash, self.order(number))
    }

    fn insert(&mut self, slot: Slot, hash: u64, number: u32, flags: u8) {
        let Numbers { tables, steps } = self;
        tables.insert(slot, hash, (Handle(number), flags), |one, other| {
            steps.set(steps.get() + 1);
            one.0.cmp(&other.0)
        });
    }

    fn remove(&mut self, slot: Slot, hash: u64, number: u32) -> Option<(Handle, u8)> {
        let Numbers { tables, steps } = self;
        tables.remove(slot, hash, |handle| {
            steps.set(steps.get() + 1);
            handle.0.cmp(&number)
        })
    }

    /// Steps since they were asked for last.
    fn steps(&self) -> u64 {
        self.steps.take()
    }
}

const MANY: u32 = 100_000;
/// Steps that anything may take when there are that many, but for the step at which a chain begins.
const STEPS_MAX: u64 = 40;

/// Numbers below [`MANY`] in an order that is not theirs.
fn mixed() -> impl Iterator<Item = u32> {
    (0..MANY).map(|n| (u64::from(n) * 38_501 % u64::from(MANY)) as u32)
}

/// The longest of the hashes' ways: all are equal; one tag, as of names that are chosen; one table, as of names that are aimed by placement.
#[test]
fn no_hashes_make_a_lookup_slow() {
    let equal = |_: u32| 0x5555_u64;
    let one_tag = |number: u32| u64::from(number) << 16 | 0x0120;
    let one_table = |number: u32| u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    for (what, hash) in [("equal", equal as fn(u32) -> u64), ("one tag", one_tag), ("one table", one_table)] {
        let (mut numbers, slot) = (Numbers::default(), Slot(35));
        let mut worst = [0; 3];
        let mut beginnings = 0;
        for number in mixed() {
            let absent = numbers.find(slot, hash(number), number);
            assert_eq!(
                (absent, numbers.steps() <= STEPS_MAX),
                (None, true),
                "{what}: {number} is sought before it is there"
            );
            numbers.insert(slot, hash(number), number, 0);
            let steps = numbers.steps();
            beginnings += u64::from(steps > STEPS_MAX);
            worst[0] = steps.max(worst[0]);
        }
        assert_eq!(numbers.tables.len(), u64::from(MANY));
        for number in mixed() {
            assert_eq!(numbers.find(slot, hash(number), number), Some(Handle(number)), "{what}");
            worst[1] = numbers.steps().max(worst[1]);
        }
        for number in mixed() {
            assert_eq!(numbers.remove(slot, hash(number), number), Some((Handle(number), 0)), "{what}");
            worst[2] = numbers.steps().max(worst[2]);
        }
        assert_eq!((numbers.tables.len(), numbers.tables.chains.len()), (0, 0));
        let tags = if what == "one table" { 4_096 } else { 1 };
        assert!(worst[0] < 10 * STEPS_MAX && beginnings <= tags, "{what}: {worst:?}, {beginnings} chains begin");
        assert!(worst[1] <= STEPS_MAX && worst[2] <= STEPS_MAX, "{what}: {worst:?}");
    }
}

/// What a chain of many leaves, when nearly all of it goes, takes little room.
#[test]
fn a_chain_gives_its_room_back() {
    let mut numbers = Numbers::default();
    mixed().for_each(|number| numbers.insert(Slot(1), 0, number, 0));
    let full = numbers.tables.bytes();
    mixed().filter(|number| number % 100 != 0).for_each(|number| {
        numbers.remove(Slot(1), 0, number);
    });
    let left = numbers.tables.bytes();
    assert_eq!(numbers.tables.chains.len(), MANY as usize / 100);
    assert!(left * 10 < full, "{left} of {full} bytes");
}

proptest! {
    /// A table is a map, whatever hashes its handles have: numbers have equal ones, and fill chains that come and go.
    #[test]
    fn a_table_is_a_map(steps in prop::collection::vec((0u32..200, 0u8..8, 0u8..12), 1..1500)) {
        let (mut numbers, mut model) = (Numbers::default(), BTreeMap::new());
        for (number, flag, operation) in steps {
            let (slot, hash, flag) = (Slot(16 + number as u16 % 2), u64::from(number % 3) << FLAGS_SHIFT, flag << 5);
            match operation {
                0 => {
                    let keep = |handle: Handle| handle.0 % 7 != number % 7;
                    numbers.tables.forget(Slot(20)..=Slot(20), |handle, _| !keep(handle));
                    model.retain(|&other: &u32, _| keep(Handle(other)));
                }
                1 | 2 => prop_assert_eq!(numbers.remove(slot, hash, number), model.remove(&number).map(|flags| (Handle(number), flags))),
                3 => {
                    let flagged = numbers.tables.flag(slot, hash, flag, |handle| handle.0.cmp(&number));
                    prop_assert_eq!(flagged.is_some(), model.contains_key(&number));
                    model.entry(number).and_modify(|flags| *flags |= flag);
                }
                4 => {
                    let seen = numbers.tables.visit(Slot(16), |_, flags| *flags |= flag);
                    prop_assert_eq!(seen, model.len());
                    model.values_mut().for_each(|flags| *flags |= flag);
                }
                _ if !model.contains_key(&number) => {
                    numbers.insert(slot, hash, number, flag);
                    model.insert(number, flag);
                }
                _ => prop_assert_eq!(numbers.find(slot, hash, number), Some(Handle(number))),
            }
            prop_assert_eq!(numbers.tables.len(), model.len() as u64);
        }
        let mut all: Vec<u32> = numbers.tables.handles(Slot(16)..=Slot(31)).map(|handle| handle.0).collect();
        all.sort_unstable();
        prop_assert_eq!(all, model.into_keys().collect::<Vec<_>>());
    }
}
