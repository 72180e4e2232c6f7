//! The schedules that broke earlier wordings of the directory protocol (docs/internals/counterexamples.md), directed by hand.
//!
//! S and T are sites, A is the owner of the directory D. Every test ends with a comparison of everything.

use onpath_sim::scenario::{Scenario, alice, create, make, mode, read, rename, rmdir, shard, unlink};
use onpath_wire::acl::{Acl, AclEntry, Who};
use onpath_wire::codec::Blob;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::peer::{Peer, part};
use onpath_wire::reply::Reply;
use onpath_wire::request::Request;
use onpath_wire::xattr::{ACL_ACCESS, XattrName};

const S: u16 = 0;
const T: u16 = 1;
const A: u16 = 2;

/// Schedules C1, D1: while A collects from T, S has answered already. An update at S must not return before the collect is over,
/// or a later one at T would be shown without it.
#[test]
pub(crate) fn an_update_at_an_answered_site_waits_for_the_end_of_the_collect() {
    let mut sc = Scenario::new(3);
    let (d, _) = sc.directory_of(A, "d");
    let (a, b) = (sc.name_at(d, S, "a"), sc.name_at(d, T, "b"));
    let (x, y) = (sc.name_at(d, S, "x"), sc.name_at(d, T, "y"));
    sc.must(create(d, &a));
    sc.must(create(d, &b));
    let to_t = sc.hold(|m| m.to() == shard(T) && matches!(m.peer(), Some(Peer::Recall { .. })));
    let reader = sc.ask(read(d));
    sc.go_on();
    let x_made = sc.ask(create(d, &x));
    sc.go_on();
    sc.waits(x_made);
    let y_made = sc.ask(create(d, &y));
    sc.succeeds(y_made);
    sc.let_go(to_t);
    sc.succeeds(reader);
    sc.succeeds(x_made);
    assert_eq!(sc.names(d).len(), 4);
    sc.ends_well();
}

/// Schedule C1, second half: a read that begins after x returned must not join the collect that misses x.
#[test]
pub(crate) fn a_read_that_begins_later_shows_what_returned_before() {
    let mut sc = Scenario::new(3);
    let (d, _) = sc.directory_of(A, "d");
    let (a, b, x) = (sc.name_at(d, S, "a"), sc.name_at(d, T, "b"), sc.name_at(d, S, "x"));
    sc.must(create(d, &a));
    sc.must(create(d, &b));
    let to_t = sc.hold(|m| m.to() == shard(T) && matches!(m.peer(), Some(Peer::Recall { .. })));
    let first = sc.ask(read(d));
    sc.go_on();
    let x_made = sc.ask(create(d, &x));
    let second = sc.ask(read(d));
    sc.go_on();
    sc.let_go(to_t);
    sc.succeeds(first);
    sc.succeeds(x_made);
    sc.succeeds(second);
    assert!(sc.names(d).contains(&x));
    sc.ends_well();
}

/// Schedule C9: S answers, then crashes and forgets that it was asked. Its next update still waits: nothing is granted.
#[test]
pub(crate) fn a_site_that_restarts_during_a_collect_waits_too() {
    let mut sc = Scenario::new(3);
    let (d, _) = sc.directory_of(A, "d");
    let (a, b) = (sc.name_at(d, S, "a"), sc.name_at(d, T, "b"));
    let (x, y) = (sc.name_at(d, S, "x"), sc.name_at(d, T, "y"));
    sc.must(create(d, &a));
    sc.must(create(d, &b));
    let to_t = sc.hold(|m| m.to() == shard(T) && matches!(m.peer(), Some(Peer::Recall { .. })));
    let reader = sc.ask(read(d));
    sc.go_on();
    sc.restart(S);
    let x_made = sc.ask(create(d, &x));
    sc.go_on();
    sc.waits(x_made);
    let y_made = sc.ask(create(d, &y));
    sc.succeeds(y_made);
    sc.let_go(to_t);
    sc.succeeds(reader);
    sc.succeeds(x_made);
    sc.ends_well();
}

/// Schedules C10, C14 (c): a grant sent before the recall arrives after the recall was answered: it counts no more.
#[test]
pub(crate) fn a_grant_that_a_recall_overtook_does_not_count() {
    let mut sc = Scenario::new(3);
    let (d, _) = sc.directory_of(A, "d");
    let x = sc.name_at(d, S, "x");
    let grant = sc.hold(|m| m.to() == shard(S) && matches!(m.peer(), Some(Peer::GrantAnswer { .. })));
    let x_made = sc.ask_as(alice(), create(d, &x));
    sc.go_on();
    assert!(sc.world.held(grant) > 0);
    sc.must(Request::SetAttr { id: d, set: mode(0o700) });
    sc.let_go(grant);
    sc.fails(x_made, Errno::EACCES);
    sc.ends_well();
}

/// Schedule C11: a copy of a push stays in the network while the entry is applied, trimmed and overwritten. It changes nothing.
#[test]
pub(crate) fn a_late_copy_of_a_push_is_not_applied_again() {
    let mut sc = Scenario::new(2);
    let (d, _) = sc.directory_of(1, "d");
    let x = sc.name_at(d, 0, "x");
    let push = sc.hold(|m| matches!(m.peer(), Some(Peer::Push { .. })));
    sc.must(create(d, &x));
    sc.go_on_for(200_000_000);
    assert!(sc.world.held(push) > 0, "an idle change-log is pushed");
    sc.world.stop_holding(push);
    sc.world.deliver_copy(push);
    sc.go_on();
    sc.must(unlink(d, &x));
    assert!(sc.names(d).is_empty());
    sc.let_go(push);
    sc.go_on();
    assert!(sc.names(d).is_empty());
    sc.ends_well();
}

/// Schedule C14 (a): a create waits for its parts while the directory is removed: it ends with ENOENT, not as an orphan.
#[test]
pub(crate) fn a_create_that_waits_while_the_directory_goes_fails() {
    let mut sc = Scenario::new(3);
    let (d, name) = sc.directory_of(A, "d");
    let x = sc.name_at(d, S, "x");
    let asks = sc.hold(|m| m.from() == shard(S) && matches!(m.peer(), Some(Peer::GrantAsk { .. })));
    let x_made = sc.ask(create(d, &x));
    sc.go_on();
    sc.must(rmdir(&name));
    sc.let_go(asks);
    sc.fails(x_made, Errno::ENOENT);
    sc.ends_well();
}

/// Schedule C14 (b): S has answered the recall of a rmdir and asks for the parts again before A has decided. It is answered after
/// the decision.
#[test]
pub(crate) fn a_site_that_asks_during_a_rmdir_hears_the_decision() {
    let mut sc = Scenario::new(3);
    let (d, name) = sc.directory_of(A, "d");
    let (a, b, x) = (sc.name_at(d, S, "a"), sc.name_at(d, T, "b"), sc.name_at(d, S, "x"));
    for old in [&a, &b] {
        sc.must(create(d, old));
        sc.must(unlink(d, old));
    }
    let to_t = sc.hold(|m| m.to() == shard(T) && matches!(m.peer(), Some(Peer::Recall { .. })));
    let removed = sc.ask(rmdir(&name));
    sc.go_on();
    let x_made = sc.ask(create(d, &x));
    sc.go_on();
    sc.waits(x_made);
    sc.let_go(to_t);
    sc.succeeds(removed);
    sc.fails(x_made, Errno::ENOENT);
    sc.ends_well();
}

/// Schedule C14 (d): a copy of the first rmdir's recall arrives during the second. Both end as they must, nothing is orphaned.
#[test]
pub(crate) fn a_copy_of_an_earlier_recall_does_no_harm() {
    let mut sc = Scenario::new(3);
    let (d, name) = sc.directory_of(A, "d");
    let (z, x) = (sc.name_at(d, S, "z"), sc.name_at(d, S, "x"));
    sc.must(create(d, &z));
    let recall =
        sc.hold(|m| m.to() == shard(S) && matches!(m.peer(), Some(Peer::Recall { parts, .. }) if parts == part::ALL));
    let first = sc.ask(rmdir(&name));
    sc.go_on();
    sc.world.stop_holding(recall);
    sc.world.deliver_copy(recall);
    sc.fails(first, Errno::ENOTEMPTY);
    sc.must(unlink(d, &z));
    let second = sc.ask(rmdir(&name));
    let x_made = sc.ask(create(d, &x));
    sc.world.deliver_first(recall);
    sc.go_on();
    sc.let_go(recall);
    let (removed, made) = (sc.wait_for(second), sc.wait_for(x_made));
    assert_ne!(matches!(removed, Reply::Failed { .. }), matches!(made, Reply::Failed { .. }), "{removed:?} {made:?}");
    sc.ends_well();
}

/// Schedule C14 (e): A crashes while everybody has given D's parts back. D is alive afterwards and takes new names.
#[test]
pub(crate) fn an_owner_that_crashes_in_a_rmdir_leaves_nothing_sealed() {
    let mut sc = Scenario::new(3);
    let (d, name) = sc.directory_of(A, "d");
    let (a, b, x) = (sc.name_at(d, S, "a"), sc.name_at(d, T, "b"), sc.name_at(d, S, "x"));
    sc.must(create(d, &a));
    sc.must(create(d, &b));
    let to_t = sc.hold(|m| m.to() == shard(T) && matches!(m.peer(), Some(Peer::Recall { .. })));
    let removed = sc.ask(rmdir(&name));
    sc.go_on();
    let process = sc.world.process_of(onpath_wire::ids::ShardId(A));
    sc.world.crash(process, false);
    sc.world.lose(to_t);
    sc.let_go(to_t);
    sc.fails(removed, Errno::ENOTEMPTY);
    sc.must(create(d, &x));
    assert_eq!(sc.names(d).len(), 3);
    sc.ends_well();
}

/// Schedule C14 (f): a rmdir that ends with ENOTEMPTY makes no create fail.
#[test]
pub(crate) fn a_rmdir_that_fails_makes_nobody_else_fail() {
    let mut sc = Scenario::new(3);
    let (d, name) = sc.directory_of(A, "d");
    let (a, z, x) = (sc.name_at(d, S, "a"), sc.name_at(d, T, "z"), sc.name_at(d, S, "x"));
    sc.must(create(d, &a));
    sc.must(unlink(d, &a));
    sc.must(create(d, &z));
    let to_t = sc.hold(|m| m.to() == shard(T) && matches!(m.peer(), Some(Peer::Recall { .. })));
    let removed = sc.ask(rmdir(&name));
    sc.go_on();
    let x_made = sc.ask(create(d, &x));
    sc.go_on();
    sc.let_go(to_t);
    sc.fails(removed, Errno::ENOTEMPTY);
    sc.succeeds(x_made);
    sc.ends_well();
}

/// Schedule C14 (g): a create under the old mode returns before the recall of a chmod arrives; whoever reads after the chmod sees it.
#[test]
pub(crate) fn a_chmod_collects_what_was_made_under_the_old_mode() {
    let mut sc = Scenario::new(3);
    let (d, _) = sc.directory_of(A, "d");
    let (a, x, y) = (sc.name_at(d, S, "a"), sc.name_at(d, S, "x"), sc.name_at(d, S, "y"));
    sc.must(create(d, &a));
    let to_s = sc.hold(|m| m.to() == shard(S) && matches!(m.peer(), Some(Peer::Recall { .. })));
    let closed = sc.ask(Request::SetAttr { id: d, set: mode(0o700) });
    sc.go_on();
    let x_made = sc.ask_as(alice(), create(d, &x));
    sc.succeeds(x_made);
    sc.waits(closed);
    sc.let_go(to_s);
    sc.succeeds(closed);
    let y_made = sc.ask_as(alice(), create(d, &y));
    sc.fails(y_made, Errno::EACCES);
    assert_eq!(sc.names(d).len(), 2);
    sc.ends_well();
}

/// Schedules C14 (h), D10: two sites that create and a reader that collects, all at once and again and again: everybody gets on.
#[test]
pub(crate) fn nobody_starves_while_others_take_the_parts_away() {
    let mut sc = Scenario::new(3);
    let (d, name) = sc.directory_of(A, "d");
    sc.must(create(d, &name));
    for round in 0..20 {
        let names = [S, T, A].map(|at| sc.name_at(d, at, &format!("r{round}-")));
        let made = names.each_ref().map(|name| sc.ask(create(d, name)));
        let reads = [sc.ask(read(d)), sc.ask(Request::GetAttr { id: d })];
        let refused = sc.ask(rmdir(&name));
        made.into_iter().chain(reads).for_each(|ticket| drop(sc.succeeds(ticket)));
        sc.fails(refused, Errno::ENOTEMPTY);
    }
    assert_eq!(sc.names(d).len(), 61);
    sc.ends_well();
}

/// Schedule D2, R-15: A restarts. S still appends under a grant of A's former life; A's first read recalls from everybody.
#[test]
pub(crate) fn a_restarted_owner_asks_everybody() {
    let mut sc = Scenario::new(3);
    let (d, _) = sc.directory_of(A, "d");
    let (a, x, y) = (sc.name_at(d, S, "a"), sc.name_at(d, S, "x"), sc.name_at(d, T, "y"));
    sc.must(create(d, &a));
    sc.restart(A);
    sc.must(create(d, &x));
    sc.must(create(d, &y));
    assert_eq!(sc.names(d).len(), 3);
    sc.ends_well();
}

/// Schedule D9: a refusal was told to the client; then the mode changes and S restarts. A copy of the request is not executed.
#[test]
pub(crate) fn a_refused_request_is_not_executed_after_a_restart() {
    let mut sc = Scenario::new(2);
    let (d, _) = sc.directory_of(1, "d");
    sc.must(Request::SetAttr { id: d, set: mode(0o700) });
    let x = sc.name_at(d, 0, "x");
    let wanted = x.clone();
    let copies = sc.hold(move |m| matches!(m.request(), Some(Request::Create { name, .. }) if name == wanted));
    let refused = sc.ask_as(alice(), create(d, &x));
    sc.go_on();
    sc.world.deliver_first(copies);
    sc.go_on();
    sc.world.stop_holding(copies);
    sc.fails(refused, Errno::EACCES);
    assert!(sc.world.held(copies) > 0, "a copy under the shard's term is still in the network");
    sc.must(Request::SetAttr { id: d, set: mode(0o777) });
    sc.restart(0);
    sc.let_go(copies);
    sc.go_on();
    assert!(sc.names(d).is_empty());
    sc.ends_well();
}

/// S crashes with entries that A has not applied. They are shown by readdir and by their names.
#[test]
pub(crate) fn entries_of_a_site_that_restarts_are_not_lost() {
    let mut sc = Scenario::new(2);
    let (d, _) = sc.directory_of(1, "d");
    let x = sc.name_at(d, 0, "x");
    sc.must(create(d, &x));
    let pushes = sc.hold(|m| matches!(m.peer(), Some(Peer::Push { .. })));
    sc.restart(0);
    let found = sc.ask(Request::Lookup { parent: d, name: x.clone() });
    sc.go_on();
    sc.let_go(pushes);
    sc.succeeds(found);
    assert_eq!(sc.names(d), [x]);
    sc.ends_well();
}

/// Schedule F6: S holds an access part; A restarts and a read recalls append from all. A chmod must still recall access from all.
#[test]
pub(crate) fn the_tables_of_the_two_parts_are_known_one_by_one() {
    let mut sc = Scenario::new(3);
    let (d, _) = sc.directory_of(A, "d");
    let x = sc.name_at(d, S, "x");
    sc.must(create(d, &x));
    let look = || Request::Lookup { parent: d, name: x.clone() };
    let found = sc.ask_as(alice(), look());
    sc.succeeds(found);
    sc.restart(A);
    assert_eq!(sc.names(d).len(), 1);
    sc.must(Request::SetAttr { id: d, set: mode(0o700) });
    let refused = sc.ask_as(alice(), look());
    sc.fails(refused, Errno::EACCES);
    sc.ends_well();
}

/// Tombstones: entries that arrive for a removed directory are dropped, and nothing is left of it.
#[test]
pub(crate) fn a_removed_directory_takes_nothing_any_more() {
    let mut sc = Scenario::new(3);
    let (d, name) = sc.directory_of(A, "d");
    let x = sc.name_at(d, S, "x");
    sc.must(create(d, &x));
    sc.must(unlink(d, &x));
    sc.must(rmdir(&name));
    sc.restart(A);
    let late = sc.ask(create(d, &x));
    sc.fails(late, Errno::ENOENT);
    let again = sc.ask(make(InodeId::ROOT, &name, Kind::Directory, 0o755));
    sc.succeeds(again);
    let moved = sc.ask(rename((d, &x), (InodeId::ROOT, &x)));
    sc.fails(moved, Errno::ENOENT);
    sc.ends_well();
}

/// S restarts with entries that A has not applied. Nobody sees such a name before A has it, or a reader of the
/// directory would contradict the reader of the name.
#[test]
pub(crate) fn a_name_of_a_former_term_is_not_shown_before_its_directory_has_it() {
    let mut sc = Scenario::new(2);
    let (d, _) = sc.directory_of(1, "d");
    let x = sc.name_at(d, 0, "x");
    sc.must(create(d, &x));
    let pushes = sc.hold(|m| matches!(m.peer(), Some(Peer::Push { .. })));
    sc.restart(0);
    let found = sc.ask(Request::Lookup { parent: d, name: x.clone() });
    sc.go_on();
    sc.waits(found);
    sc.let_go(pushes);
    sc.succeeds(found);
    sc.ends_well();
}

/// Schedule C5, second half: a refusal was told; a copy of the request arrives when it could succeed. It must not.
#[test]
pub(crate) fn a_refusal_is_remembered() {
    let mut sc = Scenario::new(2);
    let (d, _) = sc.directory_of(1, "d");
    let x = sc.name_at(d, 0, "x");
    sc.must(create(d, &x));
    let wanted = x.clone();
    let copies = sc.hold(move |m| matches!(m.request(), Some(Request::Create { name, .. }) if name == wanted));
    let refused = sc.ask(create(d, &x));
    sc.go_on();
    sc.world.deliver_first(copies);
    sc.go_on();
    sc.world.stop_holding(copies);
    sc.world.deliver_copy(copies);
    sc.fails(refused, Errno::EEXIST);
    sc.must(unlink(d, &x));
    sc.let_go(copies);
    sc.go_on();
    assert!(sc.names(d).is_empty());
    sc.ends_well();
}

/// Schedule D5, R-16: an entry reaches another process only when its record is durable; or a power loss of S leaves a ghost.
#[test]
pub(crate) fn a_push_leaves_when_its_records_are_durable() {
    for seed in 1..8 {
        let mut sc = Scenario::seeded(2, seed);
        let (d, _) = sc.directory_of(1, "d");
        let process = sc.world.process_of(onpath_wire::ids::ShardId(0));
        let x = sc.name_at(d, 0, "x");
        sc.must(create(d, &x));
        let pushes = sc.hold(|m| matches!(m.peer(), Some(Peer::Push { .. })));
        for n in 0..80 {
            let name = sc.name_at(d, 0, &format!("more{n}-"));
            sc.ask(create(d, &name));
        }
        while sc.world.held(pushes) == 0 {
            sc.go_on_for(1_000);
        }
        sc.world.crash(process, true);
        sc.let_go(pushes);
        sc.ends_well();
    }
}

/// who only looks holds no append part. A chmod takes their access part away all the same.
#[test]
pub(crate) fn a_chmod_reaches_those_who_only_look() {
    let mut sc = Scenario::new(3);
    let (d, _) = sc.directory_of(A, "d");
    let x = sc.name_at(d, S, "x");
    sc.must(create(d, &x));
    let look = || Request::Lookup { parent: d, name: x.clone() };
    let found = sc.ask_as(alice(), look());
    sc.succeeds(found);
    sc.must(Request::SetAttr { id: d, set: mode(0o700) });
    let refused = sc.ask_as(alice(), look());
    sc.fails(refused, Errno::EACCES);
    sc.ends_well();
}

/// an ACL of a directory is part of what sites decide with. It reaches them before it is answered, and so does its removal.
#[test]
pub(crate) fn an_acl_reaches_those_who_only_look() {
    let mut sc = Scenario::new(3);
    let (d, _) = sc.directory_of(A, "d");
    let x = sc.name_at(d, S, "x");
    sc.must(create(d, &x));
    let look = || Request::Lookup { parent: d, name: x.clone() };
    let found = sc.ask_as(alice(), look());
    sc.succeeds(found);
    let whos = [Who::Owner, Who::User(alice().uid), Who::OwningGroup, Who::Mask, Who::Other];
    let acl = |alices| {
        let perm = |who| if who == Who::User(alice().uid) { alices } else { 7 };
        Acl::new(whos.map(|who| AclEntry { who, perm: perm(who) }).into()).expect("an ACL").to_xattr()
    };
    let name = XattrName::new(ACL_ACCESS).expect("a name");
    let set = |value| Request::SetXattr { id: d, name: name.clone(), value: Blob(value), flags: 0 };
    sc.must(set(acl(0)));
    let refused = sc.ask_as(alice(), look());
    sc.fails(refused, Errno::EACCES);
    sc.must(set(acl(7)));
    let found = sc.ask_as(alice(), look());
    sc.succeeds(found);
    sc.must(set(acl(0)));
    sc.must(Request::RemoveXattr { id: d, name: name.clone(), open_for_write: false });
    let found = sc.ask_as(alice(), look());
    sc.succeeds(found);
    sc.ends_well();
}

/// a rename appends two entries at once to an empty change-log; they are pushed though nobody reads the directory.
#[test]
pub(crate) fn a_rename_alone_in_a_change_log_is_pushed_in_time() {
    let mut sc = Scenario::new(3);
    let (d, _) = sc.directory_of(A, "d");
    let (a, b) = (sc.name_at(d, S, "a"), sc.name_at(d, S, "b"));
    sc.must(create(d, &a));
    assert_eq!(sc.names(d).len(), 1);
    sc.must(rename((d, &a), (d, &b)));
    sc.go_on_for(1_000_000_000);
    assert!(sc.world.rest().shards.iter().all(|shard| shard.logs.is_empty()));
    sc.ends_well();
}
