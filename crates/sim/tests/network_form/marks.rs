//! Updates that cannot be marked, or that show in two places.

use super::{A, MOMENT_NS, S, T, acknowledgement, mark, normal_is_held_up, push, world};
use onpath_sim::scenario::{Scenario, create, listed, mode, read, rename};
use onpath_sim::world::HoldId;
use onpath_wire::ids::{InodeId, NodeId, ShardId};
use onpath_wire::innet::{DirtySet, InNet, InNetResult};
use onpath_wire::peer::Peer;
use onpath_wire::request::Request;

/// Schedule C13: there is no room for any mark. Updates are pushed and returned when A has applied them; readers miss nothing.
#[test]
pub(crate) fn a_full_set_loses_nothing() {
    let mut sc = Scenario::network_without_room(3);
    let (d, _) = sc.directory_of(A, "d");
    let reader = sc.reader_at(A);
    for round in 0..3 {
        for at in [S, T, A] {
            let name = sc.name_at(d, at, &format!("r{round}-"));
            sc.must(create(d, &name));
            assert!(sc.names_by(reader, d).contains(&name));
        }
    }
    assert!(sc.world.switch_counters()["insert_full"] > 0);
    sc.ends_well();
}

/// R-10 of a rename between directories: it waits until both groups are marked, which their owners do where the switch has no room.
#[test]
pub(crate) fn owners_take_marks_that_the_switch_has_no_room_for() {
    let mut sc = Scenario::network_without_room(3);
    let ((d, _), (e, _)) = (sc.directory_of(A, "d"), sc.directory_of(A, "e"));
    let reader = sc.reader_at(A);
    let (x, y) = (sc.name_at(d, S, "x"), sc.name_at(e, S, "y"));
    sc.must(create(d, &x));
    sc.names_by(reader, d);
    sc.names_by(reader, e);
    let asked = sc.hold(|m| matches!(m.peer(), Some(Peer::MarkAtOwner { .. })));
    let moved = sc.ask(rename((d, &x), (e, &y)));
    sc.go_on_for(MOMENT_NS);
    sc.waits(moved);
    assert!(sc.world.held(asked) > 0, "the owner is asked");
    sc.let_go(asked);
    let pushes = sc.hold(push);
    sc.succeeds(moved);
    assert_eq!((sc.names_by(reader, d), sc.names_by(reader, e)), (vec![], vec![y]));
    sc.let_go(pushes);
    sc.ends_well();
}

/// A rename between two directories whose marks are not acknowledged waits: nobody sees one half of it alone.
#[test]
pub(crate) fn a_rename_waits_for_the_marks_of_both_directories() {
    let mut sc = Scenario::network(3);
    let ((d, _), (e, _)) = (sc.directory_of(A, "d"), sc.directory_of(T, "e"));
    let (at_a, at_t) = (sc.reader_at(A), sc.reader_at(T));
    let (x, y) = (sc.name_at(d, S, "x"), sc.name_at(e, S, "y"));
    sc.must(create(d, &x));
    sc.names_by(at_a, d);
    let marks = sc.hold(|m| mark(m) || matches!(m.peer(), Some(Peer::MarkAtOwner { .. })));
    let pushes = sc.hold(push);
    let moved = sc.ask(rename((d, &x), (e, &y)));
    sc.go_on_for(MOMENT_NS);
    sc.waits(moved);
    assert_eq!((sc.names_by(at_a, d), sc.names_by(at_t, e)), (vec![x], vec![]));
    sc.let_go(marks);
    sc.succeeds(moved);
    assert_eq!((sc.names_by(at_a, d), sc.names_by(at_t, e)), (vec![], vec![y]));
    sc.let_go(pushes);
    sc.ends_well();
}

/// Schedule D7: marks get lost, the switch is gone. A chmod does not wait for it: S hands over what is not yet exposed, too.
#[test]
pub(crate) fn a_recall_waits_for_no_mark() {
    let (mut sc, _, d) = world();
    let (x, y) = (sc.name_at(d, S, "x"), sc.name_at(d, T, "y"));
    let pushes = sc.hold(push);
    sc.must(Request::SetAttr { id: d, set: mode(0o755) });
    sc.world.stop_switch();
    let made = [sc.ask(create(d, &x)), sc.ask(create(d, &y))];
    sc.go_on_for(MOMENT_NS);
    made.iter().for_each(|&made| sc.waits(made));
    let closed = sc.ask(Request::SetAttr { id: d, set: mode(0o700) });
    sc.go_on_for(30_000_000);
    assert!(sc.answer(closed).is_some(), "nothing of this needs a switch");
    made.into_iter().for_each(|made| drop(sc.succeeds(made)));
    sc.let_go(pushes);
    sc.ends_well();
}

/// "normal" was true. Then x was made in D, and D itself was moved, which A records in D's inode. Who shows the new parent shows
/// x.
#[test]
pub(crate) fn a_directory_that_was_moved_since_the_switch_answered_is_collected() {
    let mut sc = Scenario::network(3);
    let ((d, old), (e, _)) = (sc.directory_of(A, "d"), sc.directory_of(T, "e"));
    let reader = sc.reader_at(A);
    let (a, x, new) = (sc.name_at(d, S, "a"), sc.name_at(d, S, "x"), sc.name_at(e, S, "new"));
    sc.must(create(d, &a));
    sc.names_by(reader, d);
    let (reading, held) = normal_is_held_up(&mut sc, reader, read(d));
    let pushes = sc.hold(push);
    sc.must(create(d, &x));
    sc.must(rename((InodeId::ROOT, &old), (e, &new)));
    sc.world.stop_holding(held);
    sc.world.deliver_first(held);
    assert_eq!(listed(sc.succeeds(reading)).len(), 2);
    sc.let_go(pushes);
    sc.ends_well();
}

/// What somebody makes of a mark on its way: as if the switch had answered it.
fn forged(sc: &mut Scenario, marks: HoldId, change: impl Fn(&mut DirtySet)) {
    sc.world.deliver_forged(marks, |to, packet| {
        let InNet::DirtySet(header) = &mut **packet.innet.as_mut().expect("a mark") else { panic!("no mark") };
        header.result = InNetResult::Marked as u8;
        change(header);
        *to = NodeId::shard(ShardId(S));
    });
    sc.go_on_for(MOMENT_NS);
}

/// No mark reaches the switch, and somebody who knows all but the key of marks says that they did, or that much later ones did, or says again
/// what was said of an earlier one. Nothing returns unmarked.
#[test]
pub(crate) fn what_nobody_but_the_switch_can_say_counts() {
    let (mut sc, reader, d) = world();
    let (x, y) = (sc.name_at(d, S, "x"), sc.name_at(d, S, "y"));
    sc.names_by(reader, d); // what was marked before covers nothing any more
    let answers = sc.hold(move |m| acknowledgement(m, S));
    let first = sc.ask(create(d, &x));
    while sc.world.held(answers) == 0 {
        sc.go_on_for(MOMENT_NS);
    }
    sc.world.stop_holding(answers);
    sc.world.deliver_copy(answers);
    sc.succeeds(first);
    sc.names_by(reader, d);
    let (pushes, marks) = (sc.hold(push), sc.hold(mark));
    let made = sc.ask(create(d, &y));
    while sc.world.held(marks) == 0 {
        sc.go_on_for(MOMENT_NS);
    }
    let term = 1..9;
    for token in term.chain([0, u32::MAX]) {
        forged(&mut sc, marks, |header| (header.term, header.sequence) = (token, u32::MAX));
        forged(&mut sc, marks, |header| header.term = token);
    }
    forged(&mut sc, marks, |header| header.sequence += 1);
    forged(&mut sc, marks, |header| header.sequence = u32::MAX);
    forged(&mut sc, marks, |header| header.tag ^= 1);
    sc.world.deliver_copy(answers); // of x
    sc.go_on_for(MOMENT_NS);
    sc.waits(made);
    assert!(!sc.names_by(reader, d).contains(&y), "it has not returned");
    sc.let_go(marks);
    sc.succeeds(made);
    assert!(sc.names_by(reader, d).contains(&y));
    sc.let_go(pushes);
    sc.ends_well();
}
