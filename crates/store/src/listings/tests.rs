//! Listings against a plain map, wherever they are.

use super::*;
use crate::cold::testing::{Imaged, Keeper, Upkeep, upkeep};
use onpath_wire::secrets::Secrets;
use proptest::prelude::*;
use std::collections::BTreeMap;

const FILE: NameValue = NameValue { child: InodeId(1), kind: Kind::File };
/// Of slot 0x1234 and birth 1.
const DIR: InodeId = InodeId(0x1234 << 37 | 1 << 17 | 0b11);

/// Nearly all names share one of four hashes.
fn narrow(key: &CookieKey, name: &[u8]) -> Cookie {
    Cookie::of_hash(key.cookie(name).hash47() % 4 + 1)
}

fn listings(narrowed: bool) -> Listings {
    let key = Secrets::of_seed(3).inner.listings();
    if narrowed { Listings::with_cookies(key, narrow) } else { Listings::new(key) }
}

fn names_of(listings: &Listings) -> Vec<(Vec<u8>, Cookie)> {
    listings.all(DIR).map(|entry| (entry.name.as_bytes().to_vec(), entry.cookie)).collect()
}

fn page_through(listings: &Listings, bytes: usize) -> Vec<DirEntry> {
    let (mut all, mut after) = (Vec::new(), Cookie(0));
    loop {
        let (page, end) = listings.page(DIR, after, bytes);
        assert!(page.is_sorted_by_key(|entry| entry.cookie) && (end || !page.is_empty()));
        after = page.last().map_or(after, |entry| entry.cookie);
        all.extend(page);
        if end {
            return all;
        }
    }
}

#[test]
fn colliding_entries_stay_where_they_are() {
    let mut listings = listings(true);
    let names: Vec<String> = (0..400).map(|i| format!("name {i}")).collect();
    names.iter().for_each(|name| assert!(listings.put(DIR, name.as_bytes(), InodeId(9), Kind::File)));
    let before: BTreeMap<Vec<u8>, Cookie> = names_of(&listings).into_iter().collect();
    names.iter().step_by(3).for_each(|name| assert!(listings.remove(DIR, name.as_bytes())));
    assert!(names_of(&listings).iter().all(|(name, cookie)| before[name] == *cookie));
    let lowest = |cookies: &[Cookie], hash: u64| {
        (0..).map(|i| Cookie(hash << 15 | i)).find(|c| !cookies.contains(c)).expect("there is a free one")
    };
    for i in 400..500 {
        let cookies: Vec<Cookie> = names_of(&listings).into_iter().map(|(_, cookie)| cookie).collect();
        let name = format!("name {i}").into_bytes();
        assert!(listings.put(DIR, &name, InodeId(9), Kind::File));
        let hash = narrow(&listings.key, &name).hash47();
        assert_eq!(listings.get(DIR, &name).map(|(cookie, _)| cookie), Some(lowest(&cookies, hash)));
    }
}

#[test]
fn a_replaced_entry_keeps_its_cookie() {
    let mut listings = listings(false);
    assert!(listings.put(DIR, b"a", InodeId(1), Kind::File));
    let (cookie, _) = listings.get(DIR, b"a").unwrap();
    assert!(!listings.put(DIR, b"a", InodeId(2), Kind::Symlink));
    let value = NameValue { child: InodeId(2), kind: Kind::Symlink };
    assert_eq!(listings.get(DIR, b"a"), Some((cookie, value)));
}

#[test]
fn pages_have_at_least_one_entry_and_at_most_the_bytes() {
    let mut listings = listings(false);
    assert_eq!(listings.page(DIR, Cookie(0), 100), (Vec::new(), true));
    (0..10).for_each(|i| assert!(listings.put(DIR, &[b'a' + i], InodeId(1), Kind::File)));
    let length = |bytes| listings.page(DIR, Cookie::DOTDOT, bytes).0.len();
    assert_eq!([length(0), length(33), length(65), length(66), length(1000)], [1, 1, 1, 2, 10]);
    assert!(!listings.page(DIR, Cookie(0), 9 * 33).1 && listings.page(DIR, Cookie(0), 10 * 33).1);
    assert_eq!(listings.page(DIR, Cookie(u64::MAX), 100), (Vec::new(), true));
}

#[test]
fn an_image_of_another_key_is_refused() {
    let mut listings = listings(false);
    let cookie = listings.key.cookie(b"a");
    assert!(listings.restore(DIR, cookie, b"a", FILE, false));
    assert!(!listings.restore(DIR, cookie, b"a", FILE, false));
    assert!(!listings.restore(DIR, Cookie(cookie.0 + (1 << 15)), b"a", FILE, false));
    assert_eq!(listings.len(DIR), 1);
}

#[test]
fn dropped_directories_leave_nothing() {
    let mut listings = listings(false);
    (0..5000u32).for_each(|i| assert!(listings.put(DIR, format!("{i}").as_bytes(), InodeId(1), Kind::File)));
    assert_eq!(listings.dirs_in_slots(DIR.slot()..=DIR.slot()), [DIR]);
    listings.drop_dir(DIR);
    assert_eq!((listings.len(DIR), listings.is_empty(DIR), listings.get(DIR, b"1")), (0, true, None));
    assert!(listings.dirs_in_slots(DIR.slot()..=DIR.slot()).is_empty());
    let memory = listings.memory();
    assert!(memory.records - memory.free < 64, "{memory:?}");
}

/// A listing as a plain map.
type Model = BTreeMap<u64, (Vec<u8>, u64)>;

fn model_put(model: &mut Model, base: Cookie, name: &[u8], child: u64) -> bool {
    if let Some((_, value)) = model.values_mut().find(|(other, _)| other == name) {
        *value = child;
        return false;
    }
    let cookie = (base.0..).find(|cookie| !model.contains_key(cookie)).expect("there is a free one");
    model.insert(cookie, (name.to_vec(), child));
    true
}

fn model_of(listings: &Listings) -> Model {
    let (all, end) = listings.page(DIR, Cookie(0), usize::MAX);
    assert!(end);
    all.into_iter().map(|e| (e.cookie.0, (e.name.as_bytes().to_vec(), e.child.0))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    /// A listing behaves as a map ordered by cookie: while it grows to many leaves, and while it shrinks, and wherever its
    /// entries are.
    #[test]
    fn listings_are_ordered_maps(
        narrowed in any::<bool>(),
        since in prop::sample::select(vec![0u32, 100]),
        long in 1usize..=255,
        steps in prop::collection::vec((0u32..400, 0u8..10, 0u8..15, upkeep()), 200..1200),
        bytes in 1usize..3000,
    ) {
        let (mut listings, mut keeper, mut model) = (listings(narrowed), Keeper::default(), Model::new());
        listings.attach(keeper.shelf.clone());
        listings.set_since(Birth(since));
        let half = steps.len() / 2;
        for (i, (number, dice, cared, upkeep)) in steps.into_iter().enumerate() {
            let name = format!("{number:0width$}", width = if number % 3 == 0 { long } else { 1 }).into_bytes();
            let puts = if i < half { 8 } else { 2 };
            if cared == 0 {
                care(&mut listings, &mut keeper, &model, narrowed, upkeep);
            } else if dice < puts {
                let base = (listings.cookie_of)(&listings.key, &name);
                let new = listings.put(DIR, &name, InodeId(i as u64), Kind::File);
                prop_assert_eq!(new, model_put(&mut model, base, &name, i as u64));
            } else {
                let cookie = model.iter().find(|(_, (other, _))| *other == name).map(|(&cookie, _)| cookie);
                prop_assert_eq!(listings.get(DIR, &name).map(|(cookie, _)| cookie.0), cookie);
                prop_assert_eq!(listings.remove(DIR, &name), cookie.is_some());
                cookie.map(|cookie| model.remove(&cookie));
            }
            prop_assert!(listings.len(DIR) <= model.len() as u64);
            if i % 50 == 0 || i == half {
                prop_assert_eq!(&model_of(&listings), &model);
            }
        }
        prop_assert_eq!(&model_of(&listings), &model);
        prop_assert_eq!(page_through(&listings, bytes), listings.page(DIR, Cookie(0), usize::MAX).0);
        for what in [Upkeep::Lose, Upkeep::Image, Upkeep::Keep] {
            care(&mut listings, &mut keeper, &model, narrowed, what);
        }
        let mut loaded = self::listings(narrowed);
        for (key, value) in keeper.shelf.all() {
            prop_assert!(loaded.load(&key[1..], &value).unwrap());
        }
        prop_assert_eq!(&model_of(&loaded), &model);
        for (name, _) in model.into_values() {
            prop_assert!(listings.remove(DIR, &name) && loaded.remove(DIR, &name));
        }
        for memory in [listings.memory(), loaded.memory()] {
            prop_assert!(memory.records - memory.free < 64, "{:?}", memory);
        }
    }
}

impl Imaged for Listings {
    fn begin(&mut self) {
        self.begin_image(DIR.slot()..=DIR.slot());
    }
    fn more(&mut self, piece: &mut Piece, changes: &mut Changes) -> bool {
        self.more_of_image(piece, changes)
    }
    fn settle(&mut self, kept: bool, piece: &mut Piece) -> bool {
        Listings::settle(self, DIR.slot()..=DIR.slot(), kept, piece)
    }
    fn forget(&mut self) {
        Listings::forget(self, DIR.slot()..=DIR.slot());
    }
}

fn care(listings: &mut Listings, keeper: &mut Keeper<Model>, model: &Model, narrowed: bool, what: Upkeep) {
    let Some(kept) = keeper.upkeep(what, listings, model) else { return };
    let mut loaded = self::listings(narrowed);
    keeper.shelf.all().iter().for_each(|(key, value)| assert!(loaded.load(&key[1..], value).unwrap()));
    assert_eq!(model_of(&loaded), kept);
}
