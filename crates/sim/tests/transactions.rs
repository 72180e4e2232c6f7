//! The schedules that broke earlier wordings of the transactions (docs/internals/counterexamples.md), directed by hand.
//!
//! C coordinates (the destination's site), P is the source's site, H a home elsewhere.

use onpath_sim::scenario::{Scenario, alice, create, make, mode, read, rename, rmdir, shard, unlink};
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::peer::Peer;
use onpath_wire::reply::Reply;
use onpath_wire::request::{Request, SetAttr, set};

const P: u16 = 0;
const C: u16 = 1;
const H: u16 = 2;

/// A directory `from` of H's with the one file `b` at P, a directory `to` of H's, and a name `a` in it at C.
fn rename_across(sc: &mut Scenario) -> (InodeId, Name, Name, InodeId, Name) {
    let (from, from_name) = sc.directory_of(H, "from");
    let (to, _) = sc.directory_of(H, "to");
    let (b, a) = (sc.name_at(from, P, "b"), sc.name_at(to, C, "a"));
    sc.must(create(from, &b));
    (from, from_name, b, to, a)
}

/// Schedule F1: P has promised, C has decided and answered, P restarts without any part. The source's directory cannot be judged
/// before P knows: rmdir waits, then succeeds.
#[test]
pub(crate) fn a_promise_makes_wait_across_a_restart() {
    let mut sc = Scenario::new(3);
    let (from, from_name, b, to, a) = rename_across(&mut sc);
    let commits =
        sc.hold(|m| m.to() == shard(P) && matches!(m.peer(), Some(Peer::Commit { .. } | Peer::Decided { .. })));
    let moved = sc.ask(rename((from, &b), (to, &a)));
    sc.succeeds(moved);
    sc.restart(P);
    let removed = sc.ask(rmdir(&from_name));
    let gone = sc.ask(Request::Lookup { parent: from, name: b.clone() });
    sc.go_on();
    sc.waits(removed);
    sc.waits(gone);
    sc.let_go(commits);
    sc.succeeds(removed);
    sc.fails(gone, Errno::ENOENT);
    sc.ends_well();
}

/// Commit is kept back for long: P asks what became of its promise, and is told by a message that is no Commit.
#[test]
fn whoever_asks_hears_of_the_decision() {
    let mut sc = Scenario::new(3);
    let (from, _, b, to, a) = rename_across(&mut sc);
    let commits = sc.hold(|m| m.to() == shard(P) && matches!(m.peer(), Some(Peer::Commit { .. })));
    let told = sc.hold(|m| m.to() == shard(P) && matches!(m.peer(), Some(Peer::Decided { .. })));
    let moved = sc.ask(rename((from, &b), (to, &a)));
    sc.succeeds(moved);
    let gone = sc.ask(Request::Lookup { parent: from, name: b.clone() });
    sc.go_on();
    assert_eq!(sc.world.held(told), 0, "nobody has asked yet");
    sc.go_on_for(300_000_000);
    sc.waits(gone);
    assert!(sc.world.held(told) > 0);
    sc.let_go(told);
    sc.fails(gone, Errno::ENOENT);
    assert!(sc.world.held(commits) > 0, "it was no Commit");
    sc.let_go(commits);
    sc.ends_well();
}

/// Schedule F2: the destination's directory is removed between Prepare and Prepared. C looks again when it decides.
#[test]
pub(crate) fn the_destination_is_checked_again_in_the_decision() {
    let mut sc = Scenario::new(3);
    let (from, _) = sc.directory_of(H, "from");
    let (to, to_name) = sc.directory_of(H, "to");
    let (b, a) = (sc.name_at(from, P, "b"), sc.name_at(to, C, "a"));
    sc.must(create(from, &b));
    let votes = sc.hold(|m| m.to() == shard(C) && matches!(m.peer(), Some(Peer::Prepared { .. })));
    let moved = sc.ask(rename((from, &b), (to, &a)));
    sc.go_on();
    assert!(sc.world.held(votes) > 0);
    sc.must(rmdir(&to_name));
    sc.let_go(votes);
    sc.fails(moved, Errno::ENOENT);
    assert_eq!(sc.names(from), [b]);
    sc.ends_well();
}

/// a reader took the parts between Prepare and Prepared, and the attempt was lost. Readers of the destination's
/// directory wait for the next attempt, which they cannot win from it.
#[test]
pub(crate) fn readers_cannot_starve_a_rename() {
    let mut sc = Scenario::new(3);
    let (from, _, b, to, a) = rename_across(&mut sc);
    let votes = |sc: &mut Scenario| sc.hold(|m| m.to() == shard(C) && matches!(m.peer(), Some(Peer::Prepared { .. })));
    let first = votes(&mut sc);
    let moved = sc.ask(rename((from, &b), (to, &a)));
    sc.go_on();
    assert!(sc.names(to).is_empty());
    let second = votes(&mut sc);
    sc.let_go(first);
    while sc.world.held(second) == 0 {
        sc.go_on();
    }
    let reads = sc.ask(read(to));
    sc.go_on();
    sc.waits(reads);
    sc.let_go(second);
    sc.succeeds(moved);
    sc.succeeds(reads);
    assert_eq!(sc.names(to), [a]);
    sc.ends_well();
}

/// The walk that refuses circles asks for the parents of directories that others want to change: they wait for the
/// attempt, so the walk must not wait for them.
#[test]
fn a_rename_that_looks_for_circles_waits_for_nobody_who_waits_for_it() {
    let mut sc = Scenario::new(3);
    let (from, _) = sc.directory_of(H, "from");
    let (to, _) = sc.directory_of(H, "to");
    let (b, a) = (sc.name_at(from, P, "b"), sc.name_at(to, C, "a"));
    sc.must(make(from, &b, Kind::Directory, 0o755));
    let turn = sc.hold(|m| matches!(m.peer(), Some(Peer::RenameLock { .. })));
    let moved = sc.ask(rename((from, &b), (to, &a)));
    sc.go_on();
    assert!(sc.world.held(turn) > 0, "the first attempt has learned that a directory moves");
    let votes = sc.hold(|m| m.to() == shard(C) && matches!(m.peer(), Some(Peer::Prepared { .. })));
    sc.let_go(turn);
    while sc.world.held(votes) == 0 {
        sc.go_on();
    }
    let chmod = sc.ask(Request::SetAttr { id: to, set: mode(0o755) });
    sc.go_on();
    sc.waits(chmod);
    sc.let_go(votes);
    sc.succeeds(moved);
    sc.succeeds(chmod);
    assert_eq!(sc.names(to), [a]);
    sc.ends_well();
}

/// Two directories move into each other. The first one has its turn, has found no circle and waits for a vote when the coordinator
/// module (P's) starts again; the second one asks for its turn then. Nobody has told the new term whose turn it is, so it asks
/// everybody before it gives one: the second one waits, and is refused.
#[test]
pub(crate) fn a_turn_at_moving_directories_lasts_across_a_restart_of_its_giver() {
    let mut sc = Scenario::new(3);
    let ((d, d_name), (e, e_name)) = (sc.directory_of(H, "d"), sc.directory_of(C, "e"));
    let (x, y) = (sc.name_at(d, H, "x"), sc.name_at(e, C, "y"));
    let turn = sc.hold(|m| matches!(m.peer(), Some(Peer::RenameLock { .. })));
    let first = sc.ask(rename((InodeId::ROOT, &d_name), (e, &y)));
    sc.go_on();
    assert!(sc.world.held(turn) > 0, "the first attempt has learned that a directory moves");
    let votes = sc.hold(|m| m.to() == shard(C) && matches!(m.peer(), Some(Peer::Prepared { .. })));
    sc.let_go(turn);
    while sc.world.held(votes) == 0 {
        sc.go_on();
    }
    sc.restart(P);
    let second = sc.ask(rename((InodeId::ROOT, &e_name), (d, &x)));
    sc.go_on_for(1_000_000_000); // less than a vote is waited for, after which a turn is over
    sc.waits(second);
    sc.let_go(votes);
    sc.succeeds(first);
    sc.fails(second, Errno::EINVAL);
    assert_eq!(sc.names(e), [y]);
    assert!(sc.names(d).is_empty());
    sc.ends_well();
}

/// Schedule F3: a copy of an aborted attempt's Prepare arrives while the next attempt runs. It counts for nothing.
#[test]
pub(crate) fn every_attempt_has_its_own_name() {
    let mut sc = Scenario::new(3);
    let (from, _, b, to, a) = rename_across(&mut sc);
    let prepares = sc.hold(|m| m.to() == shard(P) && matches!(m.peer(), Some(Peer::Prepare { .. })));
    let moved = sc.ask(rename((from, &b), (to, &a)));
    sc.go_on();
    assert!(sc.world.held(prepares) > 0);
    // P loses its parts, so that the first attempt meets Busy.
    sc.must(read(from));
    sc.world.deliver_copy(prepares);
    sc.go_on();
    sc.world.deliver_copy(prepares);
    sc.let_go(prepares);
    sc.succeeds(moved);
    assert_eq!(sc.names(to), [a]);
    assert!(sc.names(from).is_empty());
    sc.ends_well();
}

/// Schedule F4: the transaction is over and b exists again. A copy of its Prepare is ignored.
#[test]
pub(crate) fn a_copy_of_prepare_after_the_end_is_ignored() {
    let mut sc = Scenario::new(3);
    let (from, _, b, to, a) = rename_across(&mut sc);
    let prepares = sc.hold(|m| m.to() == shard(P) && matches!(m.peer(), Some(Peer::Prepare { .. })));
    let moved = sc.ask(rename((from, &b), (to, &a)));
    sc.go_on();
    sc.world.stop_holding(prepares);
    // C does not hear that P is done, so it still knows the decision.
    let acks = sc.hold(|m| m.from() == shard(P) && m.to() == shard(C) && m.peer() == Some(Peer::Done));
    sc.world.deliver_copy(prepares);
    sc.succeeds(moved);
    sc.go_on();
    assert!(sc.world.held(acks) > 0);
    sc.must(create(from, &b));
    sc.let_go(prepares);
    sc.go_on_for(2_000_000_000);
    sc.let_go(acks);
    sc.go_on_for(2_000_000_000);
    assert_eq!(sc.names(from), [b]);
    assert_eq!(sc.names(to), [a]);
    sc.ends_well();
}

/// The same long afterwards: P has heard that C's attempts up to then are over, has a checkpoint without them, and starts again. Copies of
/// Prepare and of Commit do nothing.
#[test]
pub(crate) fn copies_of_a_transaction_that_was_over_before_a_restart_are_ignored() {
    let mut sc = Scenario::new(3);
    let (from, _, b, to, a) = rename_across(&mut sc);
    let prepares = sc.hold(|m| m.to() == shard(P) && matches!(m.peer(), Some(Peer::Prepare { .. })));
    let commits =
        sc.hold(|m| m.to() == shard(P) && matches!(m.peer(), Some(Peer::Commit { .. } | Peer::Decided { .. })));
    let moved = sc.ask(rename((from, &b), (to, &a)));
    for copies in [prepares, commits] {
        sc.go_on();
        sc.world.stop_holding(copies);
        sc.world.deliver_copy(copies);
    }
    sc.succeeds(moved);
    for _ in 0..2 {
        sc.must(create(from, &b));
        sc.must(rename((from, &b), (to, &a)));
    }
    sc.must(create(from, &b));
    let process = sc.world.process_of(onpath_wire::ids::ShardId(P));
    for _role in 0..2 {
        sc.world.checkpoint(process);
        sc.go_on_for(1_000_000_000);
    }
    sc.restart(P);
    for copies in [prepares, commits] {
        sc.let_go(copies);
        sc.go_on_for(1_000_000);
    }
    assert_eq!(sc.names(from), [b]);
    sc.ends_well();
}

/// Schedule F5: EEXIST is on its way when the site restarts. The client has asked again, and takes only the new term's answer.
#[test]
pub(crate) fn an_answer_of_a_former_term_is_not_taken() {
    let mut sc = Scenario::new(2);
    let (d, _) = sc.directory_of(1, "d");
    let b = sc.name_at(d, 0, "b");
    sc.must(create(d, &b));
    let refusals = sc.hold(|m| matches!(m.reply(), Some(Reply::Failed { errno: Errno::EEXIST })));
    let made = sc.ask(create(d, &b));
    sc.go_on();
    assert!(sc.world.held(refusals) > 0);
    sc.world.stop_holding(refusals);
    let wanted = b.clone();
    let again = sc.hold(move |m| {
        let new_term = m.header().is_some_and(|header| header.term.0 > 2);
        new_term && matches!(m.request(), Some(Request::Create { name, .. }) if name == wanted)
    });
    sc.restart(0);
    sc.go_on_for(2_000_000_000);
    assert!(sc.world.held(again) > 0, "the client has heard of the new term");
    sc.must(unlink(d, &b));
    sc.let_go(refusals);
    sc.go_on();
    sc.let_go(again);
    sc.succeeds(made);
    assert_eq!(sc.names(d), [b]);
    sc.ends_well();
}

/// Schedule F7: b is replaced by a; b's inode lives at H. Nobody reads b from the first Prepare to the decision.
#[test]
pub(crate) fn a_name_is_not_readable_while_its_fate_is_open() {
    let mut sc = Scenario::new(3);
    let (d, _) = sc.directory_of(H, "d");
    let (born, b, a) = (sc.name_at(d, H, "born"), sc.name_at(d, C, "b"), sc.name_at(d, P, "a"));
    sc.must(create(d, &born));
    sc.must(rename((d, &born), (d, &b)));
    sc.must(create(d, &a));
    let votes = sc.hold(|m| m.to() == shard(C) && matches!(m.peer(), Some(Peer::Prepared { .. })));
    let replaced = sc.ask(rename((d, &a), (d, &b)));
    sc.go_on();
    let looked = sc.ask(Request::Lookup { parent: d, name: b.clone() });
    sc.go_on();
    sc.waits(looked);
    sc.let_go(votes);
    sc.succeeds(replaced);
    sc.succeeds(looked);
    assert_eq!(sc.names(d), [b]);
    sc.ends_well();
}

/// `mv a b` and `mv b a` at once, in both directions across two shards: one after the other, in some order.
#[test]
pub(crate) fn two_renames_against_each_other_end() {
    for round in 0..30 {
        let mut sc = Scenario::new(3);
        let (d, _) = sc.directory_of(H, "d");
        let (a, b) = (sc.name_at(d, P, "a"), sc.name_at(d, C, "b"));
        sc.must(create(d, &a));
        sc.must(create(d, &b));
        let there = sc.ask(rename((d, &a), (d, &b)));
        sc.go_on_for(round * 10_000);
        let back = sc.ask(rename((d, &b), (d, &a)));
        sc.wait_for(there);
        sc.wait_for(back);
        sc.ends_well();
    }
}

/// C crashes after its decision was told to the client but not to the participants; then after every other output.
#[test]
pub(crate) fn a_decision_survives_its_coordinator() {
    for outputs in 1..30 {
        let mut sc = Scenario::new(3);
        let (from, _, b, to, a) = rename_across(&mut sc);
        let process = sc.world.process_of(onpath_wire::ids::ShardId(C));
        sc.world.crash_at_output(process, outputs, false);
        let moved = sc.ask(rename((from, &b), (to, &a)));
        sc.succeeds(moved);
        assert_eq!(sc.names(to), [a]);
        assert!(sc.names(from).is_empty());
        sc.ends_well();
    }
}

/// P crashes at every output of its part.
#[test]
pub(crate) fn a_participant_may_crash_at_any_output() {
    for outputs in 1..30 {
        let mut sc = Scenario::new(3);
        let (from, _, b, to, a) = rename_across(&mut sc);
        let process = sc.world.process_of(onpath_wire::ids::ShardId(P));
        sc.world.crash_at_output(process, outputs, false);
        let moved = sc.ask(rename((from, &b), (to, &a)));
        sc.succeeds(moved);
        assert_eq!(sc.names(to), [a]);
        sc.ends_well();
    }
}

/// H has promised that an inode loses its name, C has decided and answered, H restarts. Nobody reads the inode before H
/// knows the decision.
#[test]
pub(crate) fn a_promised_inode_is_locked_across_a_restart() {
    let mut sc = Scenario::new(3);
    let (d, _) = sc.directory_of(C, "d");
    let (born, b) = (sc.name_at(d, H, "born"), sc.name_at(d, C, "b"));
    let Reply::Entry { attr, .. } = sc.must(create(d, &born)) else { panic!("create answers with an entry") };
    sc.must(Request::Link { id: attr.id, parent: d, name: b.clone() });
    let commits =
        sc.hold(|m| m.to() == shard(H) && matches!(m.peer(), Some(Peer::Commit { .. } | Peer::Decided { .. })));
    sc.must(unlink(d, &b));
    sc.restart(H);
    let looked = sc.ask(Request::GetAttr { id: attr.id });
    sc.go_on();
    sc.waits(looked);
    sc.let_go(commits);
    let Reply::Attr { attr, .. } = sc.succeeds(looked) else { panic!("getattr answers with attributes") };
    assert_eq!(attr.nlink, 1);
    sc.ends_well();
}

/// A listing does not wait for what H has promised: it leaves those attributes out, as another session may have heard already how it ended.
#[test]
fn a_listing_leaves_out_what_is_promised() {
    let mut sc = Scenario::new(3);
    let (d, _) = sc.directory_of(C, "d");
    let (born, other, b) = (sc.name_at(d, H, "born"), sc.name_at(d, H, "other"), sc.name_at(d, C, "b"));
    let [id, beside] = [&born, &other].map(|name| match sc.must(create(d, name)) {
        Reply::Entry { attr, .. } => attr.id,
        reply => panic!("create answers with an entry: {reply:?}"),
    });
    let nlinks = |sc: &mut Scenario| match sc.must(Request::GetAttrs { ids: vec![id, beside] }) {
        Reply::Attrs { attrs } => attrs.into_iter().map(|attr| attr.map(|attr| attr.nlink)).collect::<Vec<_>>(),
        reply => panic!("attributes are asked for: {reply:?}"),
    };
    let commits =
        sc.hold(|m| m.to() == shard(H) && matches!(m.peer(), Some(Peer::Commit { .. } | Peer::Decided { .. })));
    sc.must(Request::Link { id, parent: d, name: b });
    assert_eq!(nlinks(&mut sc), [None, Some(1)]);
    sc.let_go(commits);
    sc.go_on();
    assert_eq!(nlinks(&mut sc), [Some(2), Some(1)]);
    sc.ends_well();
}

/// Step 7: d becomes sticky between Prepare and Prepared. H has checked what was true before; C asks again.
#[test]
pub(crate) fn a_directory_that_became_sticky_is_checked_again_in_the_decision() {
    let mut sc = Scenario::new(3);
    let (d, _) = sc.directory_of(P, "d");
    let (born, b, z) = (sc.name_at(d, H, "born"), sc.name_at(d, C, "b"), sc.name_at(d, C, "z"));
    let Reply::Entry { attr, .. } = sc.must(create(d, &born)) else { panic!("create answers with an entry") };
    sc.must(Request::Link { id: attr.id, parent: d, name: b.clone() });
    let votes = sc.hold(|m| m.to() == shard(C) && matches!(m.peer(), Some(Peer::Prepared { .. })));
    let removed = sc.ask_as(alice(), unlink(d, &b));
    sc.go_on();
    assert!(sc.world.held(votes) > 0);
    sc.must(Request::SetAttr { id: d, set: mode(0o1777) });
    sc.must(create(d, &z)); // C has the parts again
    sc.let_go(votes);
    sc.fails(removed, Errno::EPERM);
    sc.ends_well();
}

/// Step 5: both names lead to the same inode, which alice may not take out of a sticky directory. Nothing is to be done, and that
/// needs no permission.
#[test]
pub(crate) fn two_names_of_one_inode_need_no_permission() {
    let mut sc = Scenario::new(3);
    let (d, _) = sc.directory_of(P, "d");
    let (x, y) = (sc.name_at(d, H, "x"), sc.name_at(d, C, "y"));
    let Reply::Entry { attr, .. } = sc.must(create(d, &x)) else { panic!("create answers with an entry") };
    sc.must(Request::Link { id: attr.id, parent: d, name: y.clone() });
    sc.must(Request::SetAttr { id: d, set: mode(0o1777) });
    let moved = sc.ask_as(alice(), rename((d, &x), (d, &y)));
    sc.succeeds(moved);
    assert_eq!(sc.names(d).len(), 2);
    sc.ends_well();
}

/// Step 5 where the inode lives at neither name's site: H does not know that both names lead to it.
#[test]
fn two_names_of_an_inode_that_lives_elsewhere_need_no_permission() {
    let mut sc = Scenario::new(3);
    let (d, _) = sc.directory_of(P, "d");
    let (born, x, y) = (sc.name_at(d, H, "born"), sc.name_at(d, P, "x"), sc.name_at(d, C, "y"));
    let Reply::Entry { attr, .. } = sc.must(create(d, &born)) else { panic!("create answers with an entry") };
    for name in [&x, &y] {
        sc.must(Request::Link { id: attr.id, parent: d, name: name.clone() });
    }
    sc.must(Request::SetAttr { id: d, set: mode(0o1777) });
    let moved = sc.ask_as(alice(), rename((d, &x), (d, &y)));
    sc.succeeds(moved);
    assert_eq!(sc.names(d).len(), 3);
    sc.ends_well();
}

/// A directory `d` of P's with a name at C of what lives at H, which belongs to alice; and what she does with that name.
fn of_alices(sc: &mut Scenario, kind: Kind) -> (InodeId, Name, InodeId) {
    let (d, _) = sc.directory_of(P, "d");
    let (born, b) = (sc.name_at(d, H, "born"), sc.name_at(d, C, "b"));
    let made = sc.ask_as(alice(), make(d, &born, kind, 0o755));
    let Reply::Entry { attr, .. } = sc.succeeds(made) else { panic!("create answers with an entry") };
    sc.must(rename((d, &born), (d, &b)));
    (d, b, attr.id)
}

/// A Prepare is on its way with a sticky directory; the directory is sticky no more, and then the inode is not alice's any more. At no
/// moment was she to be refused.
fn is_refused_at_no_moment(sc: &mut Scenario, d: InodeId, id: InodeId, request: Request) {
    sc.must(Request::SetAttr { id: d, set: mode(0o1777) });
    let prepares = sc.hold(|m| m.to() == shard(H) && matches!(m.peer(), Some(Peer::Prepare { .. })));
    let asked = sc.ask_as(alice(), request);
    while sc.world.held(prepares) == 0 {
        sc.go_on();
    }
    sc.must(Request::SetAttr { id: d, set: mode(0o777) });
    sc.must(Request::SetAttr { id, set: SetAttr { valid: set::UID, uid: 7, ..SetAttr::default() } });
    sc.let_go(prepares);
    sc.succeeds(asked);
}

#[test]
fn a_removal_is_refused_by_the_stickiness_of_one_moment() {
    let mut sc = Scenario::new(3);
    let (d, b, id) = of_alices(&mut sc, Kind::File);
    is_refused_at_no_moment(&mut sc, d, id, unlink(d, &b));
    sc.ends_well();
    let mut sc = Scenario::new(3);
    let (d, b, id) = of_alices(&mut sc, Kind::Directory);
    is_refused_at_no_moment(&mut sc, d, id, Request::Rmdir { parent: d, name: b });
    sc.ends_well();
}

#[test]
fn a_rename_is_refused_by_the_stickiness_of_one_moment() {
    for kind in [Kind::File, Kind::Directory] {
        let mut sc = Scenario::new(3);
        let (e, _) = sc.directory_of(P, "e");
        let (d, b, id) = of_alices(&mut sc, kind);
        let a = sc.name_at(e, P, "a");
        let made = sc.ask_as(alice(), make(e, &a, kind, 0o755));
        sc.succeeds(made);
        is_refused_at_no_moment(&mut sc, d, id, rename((e, &a), (d, &b)));
        assert_eq!(sc.names(d), [b]);
        sc.ends_well();
    }
}

/// The other way: H has promised, then the directory becomes sticky, and C has its parts again when it decides.
#[test]
fn what_a_rename_replaces_is_protected_at_the_moment_of_the_decision() {
    for kind in [Kind::File, Kind::Directory] {
        let mut sc = Scenario::new(3);
        let (e, _) = sc.directory_of(P, "e");
        let (d, _) = sc.directory_of(P, "d");
        let (born, b, z) = (sc.name_at(d, H, "born"), sc.name_at(d, C, "b"), sc.name_at(d, C, "z"));
        sc.must(make(d, &born, kind, 0o755));
        sc.must(rename((d, &born), (d, &b)));
        let a = sc.name_at(e, P, "a");
        let made = sc.ask_as(alice(), make(e, &a, kind, 0o755));
        sc.succeeds(made);
        let votes =
            sc.hold(|m| m.from() == shard(H) && m.to() == shard(C) && matches!(m.peer(), Some(Peer::Prepared { .. })));
        let moved = sc.ask_as(alice(), rename((e, &a), (d, &b)));
        while sc.world.held(votes) == 0 {
            sc.go_on();
        }
        sc.must(Request::SetAttr { id: d, set: mode(0o1777) });
        sc.must(create(d, &z)); // C has the parts again
        sc.let_go(votes);
        sc.fails(moved, Errno::EPERM);
        assert_eq!(sc.names(e), [a]);
        sc.ends_well();
    }
}
