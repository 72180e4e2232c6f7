//! In what situations of paths begin.
//!
//! A is the home of `a`, Q the path node, X who keeps ways.

use super::scene::Placed;
use super::walkers::follow;
use crate::explore::situations::{A, T};
use crate::model::Caller;
use crate::scenario::{Scenario, shard};
use crate::users::tree::{Change, WALKER};
use crate::world::{HoldId, Message};
use onpath_wire::ids::{InodeId, NodeClass, NodeId};
use onpath_wire::peer::Peer;
use onpath_wire::request::Request;
use std::cell::Cell;

/// The process of the path node, behind those of three shards.
const PROCESS_OF_Q: usize = 3;
/// Less than any pause before something is sent again, ns.
const MOMENT_NS: u64 = 1_000_000;
/// Later than the slack of a lease, and not so late that it is asked for anew, ns.
const LATE_NS: u64 = 400_000_000;

/// A request, and its first repetition.
const LOST: u32 = 2;
/// Virtual time in which the other homes have granted all, ns.
const LOADED_NS: u64 = 300_000_000;

/// Everything is as it should be.
pub(super) fn well(_: &mut Scenario, _: &mut Placed) {}

/// What is between Q and the home of `a`.
fn between(m: &Message<'_>) -> bool {
    let (q, home) = (NodeId::path(0), shard(A));
    m.from() == q && m.to() == home || m.from() == home && m.to() == q
}

/// The home of `a` and Q do not hear of each other any more.
pub(super) fn cut_off(sc: &mut Scenario, _: &mut Placed) {
    sc.hold(between);
}

/// The home of `a` hears no decision.
pub(super) fn undecided(sc: &mut Scenario, _: &mut Placed) {
    sc.hold(|m| m.to() == shard(A) && matches!(m.peer(), Some(Peer::Commit { .. } | Peer::Decided { .. })));
}

/// The same as [`cut_off`], and the home has begun anew.
pub(super) fn cut_off_anew(sc: &mut Scenario, placed: &mut Placed) {
    cut_off(sc, placed);
    sc.restart(A);
}

/// The same, and a lease that Q has asked for before is late.
pub(super) fn cut_off_late(sc: &mut Scenario, placed: &mut Placed) {
    let late = sc.hold(|m| m.from() == shard(A) && matches!(m.peer(), Some(Peer::PathLease { .. })));
    while sc.world.held(late) == 0 {
        sc.go_on_for(MOMENT_NS);
    }
    cut_off(sc, placed);
    sc.go_on_for(LATE_NS);
    sc.world.stop_holding(late);
}

/// Q has begun anew, and what it was granted of `a` with others of its home is late. What comes behind it stays away, page by page.
pub(super) fn loading(sc: &mut Scenario, placed: &mut Placed) {
    let late = loads(sc, placed.id("a"));
    sc.hold(|m| m.to() == shard(A) && asks_for_more(m));
    sc.go_on_for(LOADED_NS);
    sc.hold(asks_for_more);
    sc.world.stop_holding(late);
}

fn asks_for_more(m: &Message<'_>) -> bool {
    matches!(m.peer(), Some(Peer::PathsAsk { .. }))
}

/// Q begins anew, until it was granted a directory with others of its home; that is held.
fn loads(sc: &mut Scenario, dir: InodeId) -> HoldId {
    let has_it =
        move |peer| matches!(peer, Some(Peer::Paths { parts, .. }) if parts.iter().any(|granted| granted.dir == dir));
    let late = sc.hold(move |m| has_it(m.peer()));
    sc.world.crash(PROCESS_OF_Q, false);
    while sc.world.held(late) == 0 {
        sc.go_on_for(MOMENT_NS);
    }
    late
}

/// Q has begun anew and holds all; a copy of what it was granted of `a` with others of its home is late (schedule K7b).
pub(super) fn loaded_twice(sc: &mut Scenario, placed: &mut Placed) {
    let late = loads(sc, placed.id("a"));
    sc.world.deliver_copy(late);
    sc.go_on_for(LOADED_NS);
    sc.hold(asks_for_more);
    sc.world.stop_holding(late);
}

/// The same of `a/b`, and Q has given that up, since it was led elsewhere.
pub(super) fn loaded_and_given_up(sc: &mut Scenario, placed: &mut Placed) {
    let late = loads(sc, placed.id("a/b"));
    sc.world.deliver_copy(late);
    sc.go_on_for(LOADED_NS);
    sc.hold(asks_for_more);
    led_elsewhere(sc, placed);
    sc.world.stop_holding(late);
}

/// Q has held `a/b`, and was led elsewhere: for that it has given up what has nothing below it.
pub(super) fn led_elsewhere(sc: &mut Scenario, placed: &mut Placed) {
    ["a/b", "z", "y"].into_iter().for_each(|path| followed(sc, placed, path));
    assert!(sc.world.counted_by_path_nodes("directories_given_up") > 0, "there is room for all");
}

/// Somebody else follows a path, so that Q holds more than X keeps.
fn followed(sc: &mut Scenario, placed: &Placed, path: &str) {
    let session = sc.world.add_keeping_session(&[Caller::default(), Caller::new(WALKER, WALKER)], 0);
    sc.go_on();
    follow(sc, session, placed.way(path));
}

/// The same for a directory that X does not know.
pub(super) fn followed_deeper(sc: &mut Scenario, placed: &mut Placed) {
    followed(sc, placed, "a/b/d");
}

/// `a` is closed already, of which X has not heard.
pub(super) fn closed(sc: &mut Scenario, placed: &mut Placed) {
    let id = placed.id("a");
    placed.set(sc, &Change::Chmod { id, mode: 0o700 });
}

/// The same, and T has begun anew since. The first request that X makes there by its ways is lost, and so is the first repetition (schedule K6).
pub(super) fn closed_and_anew(sc: &mut Scenario, placed: &mut Placed) {
    closed(sc, placed);
    sc.restart(T);
    let (first, lost) = (Cell::new(None), Cell::new(0));
    sc.hold(move |m| {
        let is_of_session = m.to() == shard(T) && m.from().class() == Some(NodeClass::Session);
        if !is_of_session || !matches!(m.request(), Some(Request::Lookup { .. })) || lost.get() == LOST {
            return false;
        }
        let seq = m.header().map(|header| header.seq);
        let is_first = first.get().is_none_or(|first| first == seq);
        if is_first {
            first.set(Some(seq));
            lost.set(lost.get() + 1);
        }
        is_first
    });
}
