//! Turns at moving directories (design.md, "Transactions"): what is looked at in a turn and what before it, and who waits for whom.
//!
//! C coordinates (the destination's site), P gives the turns, H is a home elsewhere.

use onpath_meta::ShardBounds;
use onpath_sim::model::Caller;
use onpath_sim::scenario::{Scenario, alice, create, make, rename, shard};
use onpath_sim::world::Message;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::limits::TURN_LEVELS_MAX;
use onpath_wire::name::Name;
use onpath_wire::peer::Peer;
use onpath_wire::reply::Reply;
use std::cell::Cell;
use std::rc::Rc;

const P: u16 = 0;
const C: u16 = 1;
const H: u16 = 2;
const BOB: u32 = 1002;

/// Two directories move into each other, where no level may be looked at in a turn. The first one has walked up from the other, and
/// waits for its turn with what it saw; meanwhile the second one moves. What the first one saw counts no more.
#[test]
pub(crate) fn what_was_seen_before_a_turn_counts_only_if_it_has_not_moved() {
    for moves in [0, 100] {
        let mut sc = Scenario::bounded(3, ShardBounds { turn_levels: 0, moves, ..ShardBounds::default() });
        let ((d, d_name), (e, e_name)) = (sc.directory_of(H, "d"), sc.directory_of(C, "e"));
        let (x, y) = (sc.name_at(d, H, "x"), sc.name_at(e, C, "y"));
        let again = sc.hold(|m| m.from() == shard(C) && matches!(m.peer(), Some(Peer::RenameLock { since: 1.., .. })));
        let first = sc.ask(rename((InodeId::ROOT, &d_name), (e, &y)));
        while sc.world.held(again) == 0 {
            sc.go_on();
        }
        let second = sc.ask(rename((InodeId::ROOT, &e_name), (d, &x)));
        sc.succeeds(second);
        sc.let_go(again);
        sc.fails(first, Errno::EINVAL);
        assert_eq!((sc.names(d), sc.names(e)), (vec![x], vec![]));
        sc.ends_well();
    }
}

/// A new directory of everybody's.
fn below(sc: &mut Scenario, dir: InodeId, name: &Name) -> InodeId {
    match sc.must(make(dir, name, Kind::Directory, 0o777)) {
        Reply::Entry { attr, .. } => attr.id,
        other => panic!("mkdir answered {other:?}"),
    }
}

/// A tree of so many levels: its first and its last directory.
fn deep(sc: &mut Scenario, levels: usize) -> (Name, InodeId) {
    let (top, name) = sc.directory_of(P, "top");
    let inside = Name::new(b"in").unwrap();
    (name, (1..levels).fold(top, |dir, _| below(sc, dir, &inside)))
}

/// Where few levels may be looked at in a turn, the others are looked at before it: a directory moves to where the tree is deep, and a
/// circle is refused there.
#[test]
fn a_directory_moves_to_where_the_tree_is_deep() {
    let mut sc = Scenario::bounded(3, ShardBounds { turn_levels: 2, ..ShardBounds::default() });
    let (top, end) = deep(&mut sc, 150);
    let (from, _) = sc.directory_of(H, "from");
    let (x, y) = (sc.name_at(from, P, "x"), sc.name_at(end, C, "y"));
    let moves = below(&mut sc, from, &x);
    let moved = sc.ask(rename((from, &x), (end, &y)));
    sc.succeeds(moved);
    assert_eq!((sc.names(end), sc.names(from)), (vec![y], vec![]));
    let z = sc.name_at(moves, C, "z");
    let circle = sc.ask(rename((InodeId::ROOT, &top), (moves, &z)));
    sc.fails(circle, Errno::EINVAL);
    let away = sc.ask(rename((InodeId::ROOT, &top), (from, &x)));
    sc.succeeds(away);
    sc.ends_well();
}

/// Where the tree is deeper than anybody walks, nothing moves to, and all else goes on.
#[test]
fn a_directory_does_not_move_to_where_the_tree_is_too_deep() {
    let mut sc = Scenario::bounded(3, ShardBounds { turn_levels: 2, climb_levels: 40, ..ShardBounds::default() });
    let (top, end) = deep(&mut sc, 50);
    let (from, _) = sc.directory_of(H, "from");
    let (x, y) = (sc.name_at(from, P, "x"), sc.name_at(end, C, "y"));
    below(&mut sc, from, &x);
    let moved = sc.ask(rename((from, &x), (end, &y)));
    sc.fails(moved, Errno::ELOOP);
    let file = sc.name_at(from, H, "file");
    sc.must(create(from, &file));
    let moved = sc.ask(rename((from, &file), (end, &y)));
    sc.succeeds(moved);
    let away = sc.ask(rename((InodeId::ROOT, &top), (from, &y)));
    sc.succeeds(away); // and no word of the model: it knows of no bound
}

/// What others do while somebody waits for a turn: turns given before his own, and levels looked at in the longest of them.
#[derive(Default)]
struct Waiting {
    asked: Cell<bool>,
    turns: Cell<u64>,
    levels: Cell<u64>,
    levels_max: Cell<u64>,
}

impl Waiting {
    /// Sees every message; `uid` is whoever waits, at H.
    fn see(&self, m: &Message<'_>, uid: u32) {
        match m.peer() {
            Some(Peer::RenameLock { uid: asks, .. }) if asks == uid => self.asked.set(true),
            Some(Peer::RenameTurn { .. }) if m.to() == shard(H) => self.asked.set(false),
            Some(Peer::RenameTurn { .. }) => {
                self.turns.set(self.turns.get() + u64::from(self.asked.get()));
                self.levels.set(0);
            }
            Some(Peer::ParentOf { .. }) => self.levels.set(self.levels.get() + 1),
            Some(Peer::RenameUnlock { .. }) => self.levels_max.set(self.levels.get().max(self.levels_max.get())),
            _ => {}
        }
    }
}

/// One user moves many directories to where the tree is thousands of levels deep: nobody else waits for his walks, nor for all his
/// moves.
#[test]
fn moves_to_deep_in_the_tree_keep_nobody_else() {
    const DEEP: usize = 3_000;
    let mut sc = Scenario::new(3);
    let (_, end) = deep(&mut sc, DEEP);
    let (from, _) = sc.directory_of(P, "from");
    let names: Vec<Name> = (0..12).map(|n| sc.name_at(end, C, &format!("moved{n}_"))).collect();
    for name in &names {
        below(&mut sc, from, name);
    }
    let (bobs, _) = sc.directory_of(H, "bobs");
    let (x, y) = (sc.name_at(bobs, H, "x"), sc.name_at(bobs, P, "y"));
    let inside = below(&mut sc, bobs, &x);
    below(&mut sc, bobs, &y);
    let to = sc.name_at(inside, H, "to");
    let waiting = Rc::new(Waiting::default());
    let sees = waiting.clone();
    sc.hold(move |m| {
        sees.see(m, BOB);
        false
    });
    let moved: Vec<_> = names.iter().map(|name| sc.ask_as(alice(), rename((from, name), (end, name)))).collect();
    sc.go_on();
    let bob = sc.ask_as(Caller::new(BOB, BOB), rename((bobs, &y), (inside, &to)));
    sc.succeeds(bob);
    sc.waits(moved[11]);
    moved.into_iter().for_each(|ticket| drop(sc.succeeds(ticket)));
    assert_eq!(sc.names(inside), [to]);
    assert!(waiting.turns.get() <= 1, "{} turns are given before his", waiting.turns.get());
    // Besides the levels of the turn itself, others walk meanwhile.
    let levels = waiting.levels_max.get();
    assert!(levels <= 2 * u64::from(TURN_LEVELS_MAX) + 50, "{levels} levels are looked at in a turn");
    sc.ends_well();
}
