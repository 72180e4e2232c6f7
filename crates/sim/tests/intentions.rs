//! Renames and removals across hosts that are answered before anybody's disk has them.
//!
//! C coordinates (the destination's site), P is the source's site, H a home elsewhere. Each shard has a process, and a journal, of its own.

use crate::shapes;
use onpath_sim::run;
use onpath_sim::scenario::{Scenario, create, read, rename, shard, unlink};
use onpath_wire::errno::Errno;
use onpath_wire::ids::{InodeId, ShardId};
use onpath_wire::name::Name;
use onpath_wire::peer::Peer;
use onpath_wire::reply::Reply;
use onpath_wire::request::Request;

const P: u16 = 0;
const C: u16 = 1;
const H: u16 = 2;

/// Long enough for all disks to have what was written, ns.
const LASTING_NS: u64 = 1_000_000_000;
/// More outputs than a shard has in a rename.
const OUTPUTS: u64 = 24;
/// Moments from the question to when all is done and flushed, each so much later, ns.
const MOMENTS: u64 = 40;
const MOMENT_NS: u64 = 15_000;

/// A shard's process loses its power at this moment from now on, and starts again.
fn loses_power(sc: &mut Scenario, dies: u16, moment: u64) {
    sc.go_on_for(moment * MOMENT_NS);
    let process = sc.world.process_of(ShardId(dies));
    sc.world.crash(process, true);
    while !sc.world.is_up(process) {
        sc.go_on();
    }
}

/// A directory with the one file `b` at P, and a name `a` in another one at C.
struct Across {
    from: InodeId,
    b: Name,
    to: InodeId,
    a: Name,
}

impl Across {
    /// With a file that was born at P, or at H.
    fn of(sc: &mut Scenario, home: u16) -> Across {
        let (from, _) = sc.directory_of(H, "from");
        let (to, _) = sc.directory_of(H, "to");
        let (b, a) = (sc.name_at(from, P, "b"), sc.name_at(to, C, "a"));
        let born = sc.name_at(from, home, "born");
        sc.must(create(from, &born));
        sc.must(rename((from, &born), (from, &b)));
        sc.go_on_for(LASTING_NS);
        Across { from, b, to, a }
    }

    fn moves(&self) -> Request {
        rename((self.from, &self.b), (self.to, &self.a))
    }

    /// The file has moved or has not, whoever looks.
    fn is_whole(&self, sc: &mut Scenario) -> bool {
        let (from, to) = (sc.names(self.from), sc.names(self.to));
        let moved = from.is_empty() && to == [self.a.clone()];
        assert!(moved || from == [self.b.clone()] && to.is_empty(), "{from:?} and {to:?}");
        moved
    }
}

/// The client has its answer before P's disk has the promise. Until C has heard that it has, nobody is shown the names or the listings.
#[test]
pub(crate) fn an_answer_waits_for_no_disk_and_shows_nothing() {
    let mut sc = Scenario::new(3);
    let across = Across::of(&mut sc, P);
    let promises = sc.hold(|m| m.to() == shard(C) && m.peer() == Some(Peer::Promised));
    sc.must(across.moves());
    sc.go_on();
    assert!(sc.world.held(promises) > 0);
    let looks = [(across.from, &across.b), (across.to, &across.a)];
    let looks = looks.map(|(parent, name)| sc.ask(Request::Lookup { parent, name: name.clone() }));
    let reads = [across.from, across.to].map(|dir| sc.ask(read(dir)));
    sc.go_on();
    looks.iter().chain(&reads).for_each(|&ticket| sc.waits(ticket));
    sc.let_go(promises);
    sc.fails(looks[0], Errno::ENOENT);
    sc.succeeds(looks[1]);
    assert!(across.is_whole(&mut sc));
    sc.ends_well();
}

/// C is killed between its answer and the decision: its names are in doubt until it has asked P again, and then the file has moved.
#[test]
pub(crate) fn an_intention_survives_its_coordinator() {
    let mut sc = Scenario::new(3);
    let across = Across::of(&mut sc, P);
    let confirms = sc.hold(|m| m.to() == shard(P) && matches!(m.peer(), Some(Peer::Confirm { .. })));
    sc.must(across.moves());
    sc.go_on();
    assert!(sc.world.held(confirms) > 0);
    sc.restart(C);
    let (looked, reads) =
        (sc.ask(Request::Lookup { parent: across.to, name: across.a.clone() }), sc.ask(read(across.to)));
    sc.go_on();
    sc.waits(looked);
    sc.waits(reads);
    sc.let_go(confirms);
    sc.succeeds(looked);
    assert!(across.is_whole(&mut sc));
    sc.ends_well();
}

/// Any of the three loses its power at any moment of the rename or after its answer: the file has moved or has not.
#[test]
pub(crate) fn whoever_loses_power_both_names_change_or_none() {
    let (mut moved, mut not) = (0, 0);
    for (dies, home) in [(P, P), (C, P), (P, H), (C, H), (H, H)] {
        for moment in 0..MOMENTS {
            let mut sc = Scenario::seeded(3, moment);
            let across = Across::of(&mut sc, home);
            let answer = sc.ask(across.moves());
            loses_power(&mut sc, dies, moment);
            sc.succeeds(answer);
            sc.go_on_for(LASTING_NS);
            *(if across.is_whole(&mut sc) { &mut moved } else { &mut not }) += 1;
            sc.ends_well();
        }
    }
    println!("moved {moved} times, lost {not} times");
    assert!(moved > 50 && not > 10, "moved {moved} times, lost {not} times");
}

/// Any of the three is killed at any of its outputs: what was acknowledged has happened.
#[test]
fn whoever_is_killed_the_file_has_moved() {
    for dies in [P, C, H] {
        for outputs in 1..=OUTPUTS {
            let mut sc = Scenario::new(3);
            let across = Across::of(&mut sc, H);
            let process = sc.world.process_of(ShardId(dies));
            sc.world.crash_at_output(process, outputs, false);
            sc.must(across.moves());
            sc.go_on_for(LASTING_NS);
            assert!(across.is_whole(&mut sc), "the kill of {dies} at output {outputs} has lost what was acknowledged");
            sc.ends_well();
        }
    }
}

/// A power loss while a name goes whose inode is at P, and has another name there.
#[test]
pub(crate) fn whoever_loses_power_a_removed_name_and_its_link_count_agree() {
    for (dies, moment) in [P, C].into_iter().flat_map(|dies| (0..MOMENTS).map(move |moment| (dies, moment))) {
        let mut sc = Scenario::seeded(3, moment);
        let (d, _) = sc.directory_of(H, "d");
        let (born, b) = (sc.name_at(d, P, "born"), sc.name_at(d, C, "b"));
        let Reply::Entry { attr, .. } = sc.must(create(d, &born)) else { panic!("create answers with an entry") };
        sc.must(Request::Link { id: attr.id, parent: d, name: b.clone() });
        sc.go_on_for(LASTING_NS);
        let answer = sc.ask(unlink(d, &b));
        loses_power(&mut sc, dies, moment);
        sc.succeeds(answer);
        sc.go_on_for(LASTING_NS);
        let names = sc.names(d).len();
        assert_eq!(sc.attributes(attr.id).nlink as usize, names, "{dies} dies at moment {moment}");
        sc.ends_well();
    }
}

/// P has lost its promise with its power, and a late copy of the question comes: it is of a term that is over, so that C does not take a
/// promise that was made anew for the one that it has heard of.
#[test]
pub(crate) fn a_promise_that_was_lost_is_not_made_anew() {
    let mut undone = 0;
    for moment in 0..MOMENTS / 2 {
        let mut sc = Scenario::seeded(3, moment);
        let across = Across::of(&mut sc, P);
        let prepares = sc.hold(|m| m.to() == shard(P) && matches!(m.peer(), Some(Peer::Prepare { .. })));
        let confirms = sc.hold(|m| m.to() == shard(P) && matches!(m.peer(), Some(Peer::Confirm { .. })));
        let moved = sc.ask(across.moves());
        sc.go_on();
        sc.world.stop_holding(prepares);
        sc.world.deliver_copy(prepares);
        loses_power(&mut sc, P, moment);
        sc.go_on();
        sc.let_go(prepares);
        sc.go_on();
        sc.let_go(confirms);
        sc.succeeds(moved);
        sc.go_on_for(LASTING_NS);
        undone += usize::from(!across.is_whole(&mut sc));
        sc.ends_well();
    }
    assert!(undone > 0, "no promise was lost");
}

/// Renames, links and removals by many, where everybody loses power again and again.
#[test]
fn storms_of_power_losses_leave_nothing_half_done() {
    let (mut intentions, mut losses) = (0, 0);
    for seed in seeds(12) {
        let outcome = run(&shapes::renames_that_lose_power(seed));
        assert!(outcome.violations.is_empty(), "seed {seed}: {:#?}", outcome.violations);
        intentions += outcome.checks.intentions;
        losses += outcome.counters.power_losses;
    }
    println!("{intentions} intentions, {losses} losses of power");
    assert!(intentions > 300 && losses > 50, "{intentions} intentions, {losses} losses");
}

/// Some fixed seeds, or as many as `ONPATH_INTENTIONS` says.
fn seeds(few: u64) -> std::ops::RangeInclusive<u64> {
    1..=std::env::var("ONPATH_INTENTIONS").map_or(few, |n| n.parse().expect("ONPATH_INTENTIONS is a number"))
}
