//! The schedules that broke earlier wordings of the network form (docs/internals/counterexamples.md), directed by hand.
//!
//! S and T are sites, A is the owner of the directory D; the coordinator is S. A *reader* knows the tracking epoch, so the switch
//! answers its question on the way to A. Every test ends with a comparison of everything.

pub(crate) mod epochs;
pub(crate) mod groups;
pub(crate) mod marks;
pub(crate) mod ranges;

use onpath_sim::scenario::{Asker, Scenario, create, listed, mode, read, shard};
use onpath_sim::world::{HoldId, Message};
use onpath_wire::ids::InodeId;
use onpath_wire::innet::{DirtySetOp, InNetResult};
use onpath_wire::peer::Peer;
use onpath_wire::reply::Reply;
use onpath_wire::request::Request;

const S: u16 = 0;
const T: u16 = 1;
const A: u16 = 2;
/// Less than any pause before something is sent again, ns.
const MOMENT_NS: u64 = 3_000_000;
/// Longer than it takes to notice that the switch is gone or came back, and to make a new epoch complete, ns.
const NEW_EPOCH_NS: u64 = 2_000_000_000;

/// A change-log that comes unasked.
fn push(m: &Message<'_>) -> bool {
    matches!(m.peer(), Some(Peer::Push { .. }))
}

/// Three shards, a reader, and D with `a` at S and `b` at T, both marked.
fn world() -> (Scenario, Asker, InodeId) {
    let mut sc = Scenario::network(3);
    let (d, _) = sc.directory_of(A, "d");
    let reader = sc.reader_at(A);
    for (at, prefix) in [(S, "a"), (T, "b")] {
        let name = sc.name_at(d, at, prefix);
        sc.must(create(d, &name));
    }
    (sc, reader, d)
}

/// A mark on its way to the switch.
fn mark(m: &Message<'_>) -> bool {
    m.seeks(DirtySetOp::Insert)
}

/// A remove on its way to the switch, with its question to a holder behind it.
fn remove(m: &Message<'_>, to: u16) -> bool {
    m.seeks(DirtySetOp::Remove) && m.to() == shard(to)
}

/// The switch's acknowledgement of a mark to the site that sent it.
fn acknowledgement(m: &Message<'_>, to: u16) -> bool {
    m.tracked() == Some(InNetResult::Marked) && m.to() == shard(to)
}

/// A reader's question, answered by the switch and not yet at the owner; or asked again without it.
fn answered_question(m: &Message<'_>) -> bool {
    matches!(m.request(), Some(Request::ReadDir { .. } | Request::GetAttr { .. })) && !m.seeks(DirtySetOp::Query)
}

fn said_normal(sc: &Scenario) -> u64 {
    sc.world.switch_counters().get("query_normal").copied().unwrap_or(0)
}

/// The reader asks; the switch answers "normal", and that answer is held up.
fn normal_is_held_up(sc: &mut Scenario, reader: Asker, request: Request) -> (onpath_sim::scenario::Ticket, HoldId) {
    let normal = said_normal(sc);
    let held = sc.hold(answered_question);
    let asked = sc.ask_by(reader, request);
    sc.go_on_for(MOMENT_NS);
    assert_eq!((said_normal(sc), sc.world.held(held)), (normal + 1, 1), "the switch said normal");
    (asked, held)
}

/// SwitchFS §5.2: the update leaves a mark, the reader hears "scattered" and collects, the next one hears "normal" and does not.
#[test]
pub(crate) fn a_reader_collects_once() {
    let (mut sc, reader, d) = world();
    assert_eq!(sc.names_by(reader, d).len(), 2);
    let normal = said_normal(&sc);
    let collects = sc.hold(|m| m.seeks(DirtySetOp::Remove));
    assert_eq!(sc.names_by(reader, d).len(), 2);
    assert_eq!((said_normal(&sc), sc.world.held(collects)), (normal + 1, 0));
    sc.let_go(collects);
    let x = sc.name_at(d, S, "x");
    sc.must(create(d, &x));
    assert_eq!(sc.names_by(reader, d).len(), 3);
    sc.ends_well();
}

/// Schedule C1: S has answered a collect that T has not heard of. What is made at S then returns only after the collect, or what is made at T
/// would be shown without it; and T's remove would take its mark away.
#[test]
pub(crate) fn an_answered_site_holds_until_it_is_released() {
    let (mut sc, reader, d) = world();
    let (x, y) = (sc.name_at(d, S, "x"), sc.name_at(d, T, "y"));
    let to_t = sc.hold(|m| remove(m, T));
    let pushes = sc.hold(push);
    let reading = sc.ask_by(reader, read(d));
    sc.go_on_for(MOMENT_NS);
    let x_made = sc.ask(create(d, &x));
    sc.go_on_for(MOMENT_NS);
    sc.waits(x_made);
    let y_made = sc.ask(create(d, &y));
    sc.succeeds(y_made);
    sc.let_go(to_t);
    assert!(listed(sc.succeeds(reading)).contains(&y));
    sc.succeeds(x_made);
    assert!(sc.names_by(reader, d).contains(&x));
    sc.let_go(pushes);
    sc.ends_well();
}

/// Schedule C2: "normal" was true when the switch said it. Then x returned, and y was applied at once, at A itself. Who shows y shows x.
#[test]
pub(crate) fn what_was_applied_since_the_switch_answered_counts() {
    let (mut sc, reader, d) = world();
    let (x, y) = (sc.name_at(d, S, "x"), sc.name_at(d, A, "y"));
    sc.names_by(reader, d);
    let (reading, held) = normal_is_held_up(&mut sc, reader, read(d));
    sc.must(create(d, &x));
    sc.must(create(d, &y));
    sc.world.stop_holding(held);
    sc.world.deliver_first(held);
    assert_eq!(listed(sc.succeeds(reading)).len(), 4);
    sc.ends_well();
}

/// Schedule C2 with a push: T's change-log was idle, and came by itself.
#[test]
pub(crate) fn what_was_pushed_since_the_switch_answered_counts() {
    let (mut sc, reader, d) = world();
    let (x, y) = (sc.name_at(d, S, "x"), sc.name_at(d, T, "y"));
    sc.names_by(reader, d);
    let (reading, held) = normal_is_held_up(&mut sc, reader, read(d));
    let from_s = sc.hold(|m| m.from() == shard(S) && push(m));
    sc.must(create(d, &x));
    sc.must(create(d, &y));
    sc.go_on_for(70_000_000); // y is pushed
    sc.world.stop_holding(held);
    sc.world.deliver_first(held);
    assert_eq!(listed(sc.succeeds(reading)).len(), 4);
    sc.world.lose(held);
    sc.let_go(from_s);
    sc.ends_well();
}

/// Schedule C3: T's answer to the first round is late, and A has asked a second time. That answer does not end the collect: the second
/// remove is still on its way, and would take away the mark of what S makes next.
#[test]
pub(crate) fn an_answer_to_an_earlier_round_does_not_end_a_collect() {
    let (mut sc, reader, d) = world();
    let x = sc.name_at(d, S, "x");
    let pushes = sc.hold(push);
    let answers = sc.hold(|m| m.from() == shard(T) && matches!(m.peer(), Some(Peer::Collected { .. })));
    let reading = sc.ask_by(reader, read(d));
    sc.go_on_for(MOMENT_NS);
    let second = sc.hold(|m| remove(m, T));
    while sc.world.held(second) == 0 {
        sc.go_on_for(1_000_000);
    }
    sc.world.stop_holding(answers);
    sc.world.deliver_first(answers);
    sc.go_on_for(1_000_000);
    let x_made = sc.ask(create(d, &x));
    sc.go_on_for(MOMENT_NS);
    sc.let_go(second);
    sc.go_on_for(MOMENT_NS);
    sc.succeeds(reading);
    sc.succeeds(x_made);
    assert!(sc.names_by(reader, d).contains(&x));
    sc.let_go(pushes);
    sc.ends_well();
}

/// Schedule C4: the network has doubled a remove. The copy comes when x is marked, and takes nothing away.
#[test]
pub(crate) fn a_copy_of_a_remove_removes_nothing() {
    let (mut sc, reader, d) = world();
    let x = sc.name_at(d, S, "x");
    let removes = sc.hold(|m| remove(m, S));
    let reading = sc.ask_by(reader, read(d));
    sc.go_on_for(MOMENT_NS);
    sc.world.stop_holding(removes);
    sc.world.deliver_copy(removes);
    sc.succeeds(reading);
    sc.go_on_for(MOMENT_NS);
    sc.must(create(d, &x));
    sc.world.deliver_first(removes);
    sc.go_on_for(MOMENT_NS);
    assert!(sc.names_by(reader, d).contains(&x));
    sc.ends_well();
}

/// Schedule C5: x is journaled; its reply, and every mark, is lost. The request comes again: it is not answered before a mark is acknowledged.
#[test]
pub(crate) fn a_retried_request_is_not_answered_before_the_mark() {
    let (mut sc, reader, d) = world();
    sc.names_by(reader, d);
    let x = sc.name_at(d, S, "x");
    let marks = sc.hold(mark);
    let pushes = sc.hold(push);
    let x_made = sc.ask(create(d, &x));
    sc.go_on_for(MOMENT_NS);
    let found = sc.ask(Request::Lookup { parent: d, name: x.clone() });
    sc.go_on_for(100_000_000);
    assert!(sc.world.held(marks) > 1, "the mark is sent again");
    sc.waits(x_made);
    sc.waits(found);
    assert!(!sc.names_by(reader, d).contains(&x));
    sc.world.lose(marks);
    sc.world.stop_holding(marks);
    sc.succeeds(x_made);
    sc.succeeds(found);
    assert!(sc.names_by(reader, d).contains(&x));
    sc.let_go(pushes);
    sc.ends_well();
}

/// Schedule C9: S answers a collect, restarts, and has forgotten its hold. Its next update waits all the same: A grants nothing before T has
/// answered.
#[test]
pub(crate) fn a_site_that_restarts_during_a_collect_waits_too() {
    let (mut sc, reader, d) = world();
    sc.names_by(reader, d);
    let (x, y) = (sc.name_at(d, S, "x"), sc.name_at(d, T, "y"));
    sc.must(create(d, &y));
    let to_t = sc.hold(|m| remove(m, T));
    let pushes = sc.hold(push);
    let reading = sc.ask_by(reader, read(d));
    sc.go_on_for(MOMENT_NS);
    sc.restart(S);
    let x_made = sc.ask(create(d, &x));
    sc.go_on_for(MOMENT_NS);
    sc.waits(x_made);
    sc.let_go(to_t);
    sc.succeeds(reading);
    sc.succeeds(x_made);
    assert!(sc.names_by(reader, d).contains(&x));
    sc.let_go(pushes);
    sc.ends_well();
}

/// Schedule C10: the acknowledgement of x's mark comes when a collect has taken mark and entry. What S makes next is marked anew.
#[test]
pub(crate) fn an_acknowledgement_does_not_outlive_a_collect() {
    let (mut sc, reader, d) = world();
    sc.names_by(reader, d);
    let (x, y) = (sc.name_at(d, S, "x"), sc.name_at(d, S, "y"));
    let acknowledgements = sc.hold(|m| acknowledgement(m, S));
    sc.must(create(d, &x));
    assert_eq!(sc.names_by(reader, d).len(), 3);
    sc.let_go(acknowledgements);
    sc.go_on_for(MOMENT_NS);
    sc.must(create(d, &y));
    assert_eq!(sc.names_by(reader, d).len(), 4);
    sc.ends_well();
}

/// Schedule D4: chmod takes S's part; the next collect asks T alone and removes the mark of both. S gets a new part, and marks.
#[test]
pub(crate) fn an_acknowledgement_does_not_outlive_the_part() {
    let (mut sc, reader, d) = world();
    let (x, y) = (sc.name_at(d, S, "x"), sc.name_at(d, T, "y"));
    sc.must(Request::SetAttr { id: d, set: mode(0o755) });
    sc.must(create(d, &y));
    assert_eq!(sc.names_by(reader, d).len(), 3);
    sc.must(create(d, &x));
    assert_eq!(sc.names_by(reader, d).len(), 4);
    sc.ends_well();
}

/// Schedule D1: A collects from S alone, and the remove is on its way. T asks for its part and gets it after the collect: that remove would
/// take away T's first mark.
#[test]
pub(crate) fn nothing_is_granted_during_a_collect() {
    let mut sc = Scenario::network(3);
    let (d, _) = sc.directory_of(A, "d");
    let reader = sc.reader_at(A);
    let (a, x) = (sc.name_at(d, S, "a"), sc.name_at(d, T, "x"));
    sc.must(create(d, &a));
    let removes = sc.hold(|m| remove(m, S));
    let pushes = sc.hold(push);
    let reading = sc.ask_by(reader, read(d));
    sc.go_on_for(MOMENT_NS);
    let x_made = sc.ask(create(d, &x));
    sc.go_on_for(MOMENT_NS);
    sc.waits(x_made);
    sc.let_go(removes);
    sc.succeeds(reading);
    sc.succeeds(x_made);
    assert!(sc.names_by(reader, d).contains(&x));
    sc.let_go(pushes);
    sc.ends_well();
}

/// Schedule D2: A restarts. S goes on under a part of A's former life, of which A knows nothing: the first read recalls from everybody.
#[test]
pub(crate) fn a_restarted_owner_asks_everybody() {
    let (mut sc, reader, d) = world();
    sc.restart(A);
    let x = sc.name_at(d, S, "x");
    sc.must(create(d, &x));
    assert_eq!(sc.names_by(reader, d).len(), 3);
    assert_eq!(sc.names_by(reader, d).len(), 3);
    sc.ends_well();
}

/// A sent a remove, and restarts before it reaches the switch. When it does, it is of a lower term, and takes no mark away.
#[test]
pub(crate) fn a_remove_of_an_earlier_term_removes_nothing() {
    let (mut sc, reader, d) = world();
    let removes = sc.hold(|m| m.seeks(DirtySetOp::Remove));
    let reading = sc.ask_by(reader, read(d));
    sc.go_on_for(MOMENT_NS);
    assert_eq!(sc.world.held(removes), 2);
    sc.world.stop_holding(removes);
    sc.restart(A);
    sc.succeeds(reading);
    sc.names_by(reader, d);
    let x = sc.name_at(d, S, "x");
    let pushes = sc.hold(push);
    sc.must(create(d, &x));
    sc.world.deliver_last(removes);
    sc.go_on_for(MOMENT_NS);
    assert!(sc.names_by(reader, d).contains(&x));
    sc.let_go(pushes);
    sc.ends_well();
}

/// the network brings a copy of an earlier collect while S holds for a later one. The hold stays.
#[test]
pub(crate) fn a_copy_of_an_earlier_collect_does_not_lower_the_hold() {
    let (mut sc, reader, d) = world();
    let copies = sc.hold(|m| m.tracked() == Some(InNetResult::Removed) && m.to() == shard(S));
    let pushes = sc.hold(push);
    let first = sc.ask_by(reader, read(d));
    while sc.world.held(copies) == 0 {
        sc.go_on_for(1_000_000);
    }
    sc.world.stop_holding(copies);
    sc.world.deliver_copy(copies);
    sc.succeeds(first);
    let (x, y, z) = (sc.name_at(d, S, "x"), sc.name_at(d, T, "y"), sc.name_at(d, S, "z"));
    sc.must(create(d, &x));
    sc.must(create(d, &y));
    let to_t = sc.hold(|m| remove(m, T));
    let second = sc.ask_by(reader, read(d));
    sc.go_on_for(MOMENT_NS);
    sc.world.deliver_first(copies);
    sc.go_on_for(MOMENT_NS);
    let z_made = sc.ask(create(d, &z));
    sc.go_on_for(MOMENT_NS);
    sc.waits(z_made);
    sc.let_go(to_t);
    sc.succeeds(second);
    sc.succeeds(z_made);
    assert_eq!(sc.names_by(reader, d).len(), 5);
    sc.let_go(pushes);
    sc.ends_well();
}

/// x is stamped while S holds, and y later at T, but y is applied first and shown. Who then finds x finds a later time as well.
#[test]
pub(crate) fn what_was_held_moves_the_time_on() {
    let (mut sc, reader, d) = world();
    let (x, y) = (sc.name_at(d, S, "x"), sc.name_at(d, T, "y"));
    let pushes = sc.hold(push);
    let to_t = sc.hold(|m| remove(m, T));
    let looking = sc.ask_by(reader, Request::GetAttr { id: d });
    sc.go_on_for(MOMENT_NS);
    let x_made = sc.ask(create(d, &x));
    sc.go_on_for(MOMENT_NS);
    sc.must(create(d, &y));
    sc.let_go(to_t);
    let Reply::Attr { attr: before, .. } = sc.succeeds(looking) else { panic!("getattr answers with attributes") };
    sc.succeeds(x_made);
    let looking = sc.ask_by(reader, Request::GetAttr { id: d });
    let Reply::Attr { attr: after, .. } = sc.succeeds(looking) else { panic!("getattr answers with attributes") };
    assert!(after.size > before.size && after.mtime > before.mtime && after.ctime > before.ctime);
    sc.let_go(pushes);
    sc.ends_well();
}

/// The same with an owner that restarts in between: it has forgotten what it had shown.
#[test]
fn what_was_held_moves_the_time_on_across_a_restart_of_the_owner() {
    let (mut sc, reader, d) = world();
    let (x, y) = (sc.name_at(d, S, "x"), sc.name_at(d, T, "y"));
    let pushes = sc.hold(push);
    let to_t = sc.hold(|m| remove(m, T));
    let looking = sc.ask_by(reader, Request::GetAttr { id: d });
    sc.go_on_for(MOMENT_NS);
    let x_made = sc.ask(create(d, &x));
    sc.go_on_for(MOMENT_NS);
    sc.must(create(d, &y));
    let releases = sc.hold(|m| m.to() == shard(S) && matches!(m.peer(), Some(Peer::Release { .. })));
    sc.let_go(to_t);
    let Reply::Attr { attr: before, .. } = sc.succeeds(looking) else { panic!("getattr answers with attributes") };
    sc.waits(x_made);
    sc.world.lose(releases);
    sc.restart(A);
    sc.let_go(releases);
    sc.let_go(pushes);
    sc.succeeds(x_made);
    let after = sc.attributes(d);
    assert!(after.size > before.size && after.mtime > before.mtime && after.ctime > before.ctime);
    sc.ends_well();
}

/// the release is lost. S asks after a while, and what it holds returns.
#[test]
pub(crate) fn a_lost_release_is_asked_for() {
    let (mut sc, reader, d) = world();
    let releases = sc.hold(|m| m.to() == shard(S) && matches!(m.peer(), Some(Peer::Release { .. })));
    let pushes = sc.hold(push);
    sc.names_by(reader, d);
    let x = sc.name_at(d, S, "x");
    let x_made = sc.ask(create(d, &x));
    sc.go_on_for(MOMENT_NS);
    sc.waits(x_made);
    sc.world.lose(releases);
    sc.world.stop_holding(releases);
    sc.succeeds(x_made);
    assert!(sc.names_by(reader, d).contains(&x));
    sc.let_go(pushes);
    sc.ends_well();
}

/// T restarts with an entry that A has not applied. Its name is shown when A has it: by a read, which collects.
#[test]
pub(crate) fn a_name_of_a_former_term_is_shown_when_its_directory_has_it() {
    let (mut sc, reader, d) = world();
    let b = sc.name_at(d, T, "b");
    let pushes = sc.hold(push);
    sc.restart(T);
    let found = sc.ask(Request::Lookup { parent: d, name: b });
    sc.go_on_for(MOMENT_NS);
    sc.waits(found);
    assert_eq!(sc.names_by(reader, d).len(), 2);
    sc.succeeds(found);
    sc.let_go(pushes);
    sc.ends_well();
}
