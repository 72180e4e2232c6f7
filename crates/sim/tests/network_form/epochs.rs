//! Tracking epochs and forms: the switch reboots, goes away, comes back.

use super::{A, MOMENT_NS, NEW_EPOCH_NS, S, T, acknowledgement, mark, push, remove, said_normal, world};
use onpath_sim::scenario::{create, read, shard};
use onpath_sim::world::Message;
use onpath_wire::peer::Peer;
use onpath_wire::tracking::{Form, SwitchCommand, TrackingSide};

/// Schedule C6: x is marked and returned; the switch reboots. It answers "unknown" until T has marked x again, so nobody is told that D is
/// normal.
#[test]
pub(crate) fn a_switch_that_rebooted_knows_nothing_until_all_is_marked_again() {
    let (mut sc, reader, d) = world();
    sc.names_by(reader, d);
    let x = sc.name_at(d, T, "x");
    let pushes = sc.hold(push);
    sc.must(create(d, &x));
    let to_t =
        sc.hold(|m| m.to() == shard(T) && matches!(m.peer(), Some(Peer::Track { side: TrackingSide::Site, .. })));
    sc.world.boot_switch();
    sc.go_on_for(NEW_EPOCH_NS);
    sc.knows(reader, A);
    assert!(sc.names_by(reader, d).contains(&x));
    sc.let_go(to_t);
    sc.let_go(pushes);
    sc.ends_well();
}

/// A reboot between mark and read, and nothing else: the reader finds x, and in the new epoch readers hear "normal" again.
#[test]
pub(crate) fn after_a_reboot_the_switch_answers_again() {
    let (mut sc, reader, d) = world();
    let x = sc.name_at(d, S, "x");
    sc.must(create(d, &x));
    sc.world.boot_switch();
    assert!(sc.names_by(reader, d).contains(&x));
    sc.go_on_for(NEW_EPOCH_NS);
    sc.knows(reader, A);
    let normal = said_normal(&sc);
    assert_eq!(sc.names_by(reader, d).len(), 3);
    assert_eq!(said_normal(&sc), normal + 1);
    sc.ends_well();
}

/// Schedule C7: a copy of a remove outlives the switch's memory of removes. In the new epoch it takes no mark away.
#[test]
pub(crate) fn a_remove_of_an_earlier_epoch_removes_nothing() {
    let (mut sc, reader, d) = world();
    let removes = sc.hold(|m| remove(m, S));
    let reading = sc.ask_by(reader, read(d));
    sc.go_on_for(MOMENT_NS);
    sc.world.stop_holding(removes);
    sc.world.deliver_copy(removes);
    sc.succeeds(reading);
    sc.world.boot_switch();
    sc.go_on_for(NEW_EPOCH_NS);
    sc.knows(reader, A);
    let x = sc.name_at(d, S, "x");
    sc.names_by(reader, d);
    sc.must(create(d, &x));
    sc.world.deliver_first(removes);
    sc.go_on_for(MOMENT_NS);
    assert!(sc.names_by(reader, d).contains(&x));
    sc.ends_well();
}

/// Schedule C8: the acknowledgement of x's mark is delayed; the switch reboots and forgets the mark. The acknowledgement arrives in the new
/// epoch, where it covers nothing: T marks x again before the epoch is complete.
#[test]
pub(crate) fn an_acknowledgement_of_an_earlier_epoch_covers_nothing() {
    let (mut sc, reader, d) = world();
    sc.names_by(reader, d);
    let x = sc.name_at(d, T, "x");
    let pushes = sc.hold(push);
    let acknowledgements = sc.hold(|m| acknowledgement(m, T));
    sc.must(create(d, &x));
    assert!(sc.world.held(acknowledgements) > 0);
    sc.world.boot_switch();
    let again = sc.hold(|m| mark(m) && m.from() == shard(T));
    sc.go_on_for(NEW_EPOCH_NS);
    sc.world.stop_holding(acknowledgements);
    sc.world.deliver_first(acknowledgements);
    sc.go_on_for(NEW_EPOCH_NS);
    sc.knows(reader, A);
    assert!(sc.names_by(reader, d).contains(&x));
    sc.let_go(again);
    sc.let_go(pushes);
    sc.ends_well();
}

/// Schedule C12, the other way round: the coordinator takes the switch for gone, while it still answers readers. A has not heard of the owner
/// form; before it has, S must not stop to mark.
#[test]
pub(crate) fn owners_hear_of_another_form_before_sites_do() {
    let (mut sc, reader, d) = world();
    sc.names_by(reader, d);
    let x = sc.name_at(d, S, "x");
    let pushes = sc.hold(push);
    let commands = sc.hold(|m| m.command().is_some());
    let to_a =
        sc.hold(|m| m.to() == shard(A) && matches!(m.peer(), Some(Peer::Track { side: TrackingSide::Owner, .. })));
    sc.go_on_for(NEW_EPOCH_NS);
    assert!(sc.world.held(to_a) > 0, "another form is tried");
    sc.must(create(d, &x));
    assert!(sc.names_by(reader, d).contains(&x));
    [commands, to_a, pushes].into_iter().for_each(|hold| sc.let_go(hold));
    sc.ends_well();
}

/// x was made in the owner form, and is marked nowhere. A knows the next epoch of the network form, the switch only the one
/// before: its "normal" is of a time that is over.
#[test]
pub(crate) fn an_answer_of_an_earlier_epoch_is_not_believed() {
    let (mut sc, reader, d) = world();
    sc.names_by(reader, d);
    let x = sc.name_at(d, S, "x");
    let pushes = sc.hold(push);
    let commands = sc.hold(|m| m.command().is_some());
    sc.go_on_for(NEW_EPOCH_NS);
    let marks = sc.hold(mark);
    sc.must(create(d, &x));
    assert_eq!(sc.world.held(marks), 0, "the owner form needs no marks");
    let epochs = sc.hold(|m| matches!(m.command(), Some(SwitchCommand::Epoch { .. })));
    let network = |m: &Message<'_>| matches!(m.peer(), Some(Peer::Track { side: TrackingSide::Owner, tracking }) if tracking.form == Form::Network);
    sc.let_go(commands);
    let told = sc.hold(move |m| m.to() == shard(A) && network(m));
    while sc.world.held(told) == 0 {
        sc.go_on();
    }
    sc.let_go(told);
    sc.go_on();
    assert!(sc.names_by(reader, d).contains(&x));
    [marks, epochs, pushes].into_iter().for_each(|hold| sc.let_go(hold));
    sc.ends_well();
}

/// The switch is gone: everything goes on, slower at first, then in the owner form without any mark. It comes back, and readers hear
/// "normal" again.
#[test]
pub(crate) fn a_switch_that_is_gone_and_back_is_missed_by_nobody() {
    let (mut sc, reader, d) = world();
    sc.world.stop_switch();
    let (x, y, z) = (sc.name_at(d, S, "x"), sc.name_at(d, T, "y"), sc.name_at(d, S, "z"));
    sc.must(create(d, &x));
    assert_eq!(sc.names_by(reader, d).len(), 3);
    sc.go_on_for(NEW_EPOCH_NS);
    let marks = sc.hold(mark);
    sc.must(create(d, &y));
    assert_eq!(sc.names_by(reader, d).len(), 4);
    assert_eq!(sc.world.held(marks), 0, "the owner form needs no marks");
    sc.let_go(marks);
    sc.world.boot_switch();
    sc.go_on_for(NEW_EPOCH_NS);
    sc.knows(reader, A);
    sc.must(create(d, &z));
    assert_eq!(sc.names_by(reader, d).len(), 5);
    let normal = said_normal(&sc);
    assert_eq!(sc.names_by(reader, d).len(), 5);
    assert_eq!(said_normal(&sc), normal + 1);
    sc.ends_well();
}
