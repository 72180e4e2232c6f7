//! The *sync* state of a directory: while reads and updates of it alternate, updates are written through to its owner, and reads find
//! everything there. S and T are sites, A is the owner of D.

use onpath_meta::SyncPolicy;
use onpath_sim::scenario::{Scenario, create, read, rename, shard, unlink};
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::name::Name;
use onpath_wire::peer::Peer;
use onpath_wire::reply::Reply;
use onpath_wire::request::Request;

const S: u16 = 0;
const T: u16 = 1;
const A: u16 = 2;

/// A directory in sync, with a file at S.
fn in_sync(sc: &mut Scenario) -> (InodeId, Name) {
    let (d, _) = sc.directory_of(A, "d");
    for round in 0..8 {
        let name = sc.name_at(d, S, &format!("f{round}-"));
        sc.must(create(d, &name));
        assert_eq!(sc.names(d).len(), round + 1);
    }
    (d, sc.name_at(d, S, "f0-"))
}

#[test]
pub(crate) fn reads_that_alternate_with_updates_take_nothing_back() {
    let mut sc = Scenario::new(3);
    let (d, _) = in_sync(&mut sc);
    let recalls = sc.hold(|m| matches!(m.peer(), Some(Peer::Recall { .. })));
    for round in 0..4 {
        let name = sc.name_at(d, S, &format!("g{round}-"));
        sc.must(create(d, &name));
        assert!(sc.names(d).contains(&name));
    }
    assert_eq!(sc.world.held(recalls), 0);
    sc.let_go(recalls);
    sc.ends_well();
}

/// Readers ask nobody, so an update is nothing yet while its owner does not have it.
#[test]
pub(crate) fn an_update_returns_when_its_owner_has_it() {
    let mut sc = Scenario::new(3);
    let (d, _) = in_sync(&mut sc);
    let x = sc.name_at(d, S, "x");
    let push = sc.hold(|m| matches!(m.peer(), Some(Peer::Push { .. })));
    let x_made = sc.ask(create(d, &x));
    sc.go_on();
    sc.waits(x_made);
    assert!(!sc.names(d).contains(&x));
    sc.let_go(push);
    sc.succeeds(x_made);
    assert!(sc.names(d).contains(&x));
    sc.ends_well();
}

/// A copy of an old recall takes the part from S, which may hold less than A believes. What S has appended before is still nothing to A,
/// who asks nobody.
#[test]
pub(crate) fn a_late_recall_exposes_nothing() {
    let mut sc = Scenario::new(3);
    let (d, _) = in_sync(&mut sc);
    let recall = sc.hold(|m| m.to() == shard(S) && matches!(m.peer(), Some(Peer::Recall { .. })));
    let name = sc.name_at(InodeId::ROOT, A, "d");
    let removed = sc.ask(Request::Rmdir { parent: InodeId::ROOT, name });
    sc.go_on();
    sc.world.deliver_copy(recall);
    sc.world.stop_holding(recall);
    sc.fails(removed, Errno::ENOTEMPTY);
    let (x, y) = (sc.name_at(d, S, "x"), sc.name_at(d, S, "y"));
    sc.must(create(d, &x));
    assert_eq!(sc.names(d).len(), 9);
    let push = sc.hold(|m| matches!(m.peer(), Some(Peer::Push { .. })));
    let y_made = sc.ask(create(d, &y));
    sc.go_on();
    sc.world.deliver_first(recall);
    sc.go_on_for(50_000_000);
    sc.waits(y_made);
    assert!(!sc.names(d).contains(&y));
    sc.let_go(push);
    sc.succeeds(y_made);
    assert!(sc.names(d).contains(&y));
    sc.ends_well();
}

/// S restarts with an update that A does not have: neither the name nor the inode shows it before A has it.
#[test]
pub(crate) fn after_a_restart_an_inode_shows_nothing_that_its_directory_does_not() {
    let mut sc = Scenario::new(3);
    let (d, f) = in_sync(&mut sc);
    let Reply::Entry { attr, .. } = sc.must(Request::Lookup { parent: d, name: f.clone() }) else { panic!("an entry") };
    let g = sc.name_at(d, S, "g");
    sc.must(Request::Link { id: attr.id, parent: d, name: g.clone() });
    let push = sc.hold(|m| matches!(m.peer(), Some(Peer::Push { .. })));
    let f_gone = sc.ask(unlink(d, &f));
    sc.go_on();
    sc.waits(f_gone);
    sc.restart(S);
    let links = sc.ask(Request::GetAttr { id: attr.id });
    sc.go_on_for(25_000_000);
    let other = sc.ask(unlink(d, &g)); // after that has come
    sc.go_on_for(50_000_000);
    sc.waits(links);
    sc.waits(other);
    assert!(sc.names(d).contains(&f));
    sc.let_go(push);
    sc.succeeds(f_gone);
    sc.succeeds(links);
    sc.succeeds(other);
    sc.ends_well();
}

/// A push that the owner took is not taken for one that it refused, however many updates came meanwhile.
#[test]
pub(crate) fn updates_that_come_during_a_push_follow_at_once() {
    let mut sc = Scenario::new(3);
    let (d, _) = in_sync(&mut sc);
    let (x, y) = (sc.name_at(d, S, "x"), sc.name_at(d, S, "y"));
    let push = sc.hold(|m| matches!(m.peer(), Some(Peer::Push { .. })));
    let made = [x, y].map(|name| {
        let made = sc.ask(create(d, &name));
        sc.go_on();
        made
    });
    sc.let_go(push);
    sc.go_on(); // much shorter than the pause after a refusal
    assert!(made.iter().all(|made| matches!(sc.answer(*made), Some(Reply::Entry { created: true, .. }))));
    sc.ends_well();
}

/// A rename is decided elsewhere: before it is promised, the owner knows that readers must ask.
#[test]
pub(crate) fn a_rename_out_of_it_is_seen_at_once() {
    let mut sc = Scenario::new(3);
    let (d, from) = in_sync(&mut sc);
    let (e, _) = sc.directory_of(A, "e");
    let to = sc.name_at(e, T, "to");
    let commit =
        sc.hold(|m| m.to() == shard(S) && matches!(m.peer(), Some(Peer::Commit { .. } | Peer::Decided { .. })));
    let renamed = sc.ask(rename((d, &from), (e, &to)));
    sc.succeeds(renamed);
    assert!(sc.world.held(commit) > 0, "the source has not heard of it");
    let reader = sc.ask(read(d));
    sc.go_on();
    sc.let_go(commit);
    sc.succeeds(reader);
    assert!(!sc.names(d).contains(&from));
    sc.ends_well();
}

/// With a switch, readers of what the owner has marked hold the directory while they collect. Who wants to be sure of it then is sure as
/// soon as that is over, and not only when it looks again.
#[test]
pub(crate) fn a_link_goes_on_when_a_collect_lets_it() {
    let mut sc = Scenario::network(3);
    let looker = sc.reader_at(A);
    let (d, _) = in_sync(&mut sc);
    let (e, _) = sc.directory_of(T, "e");
    let file = sc.name_at(e, T, "file");
    let Reply::Entry { attr, .. } = sc.must(create(e, &file)) else { panic!("an entry") };
    let link = |sc: &mut Scenario, id| {
        let name = sc.name_at(d, S, "link");
        sc.ask(Request::Link { id, parent: d, name })
    };
    // It has the owner mark the directory, and leaves nothing in it.
    let nothing = link(&mut sc, InodeId(attr.id.0 + 1));
    sc.fails(nothing, Errno::ENOENT);
    let collected = sc.hold(|m| matches!(m.peer(), Some(Peer::Collected { .. })));
    let reader = sc.ask_by(looker, read(d));
    sc.go_on();
    assert!(sc.world.held(collected) > 0, "the reader collects");
    let linked = link(&mut sc, attr.id);
    sc.go_on_for(40_000_000);
    sc.waits(reader);
    sc.waits(linked);
    sc.let_go(collected);
    sc.go_on(); // much shorter than the pause until a mark is sent again
    assert!(matches!(sc.answer(linked), Some(Reply::Entry { .. })), "{:?}", sc.answer(linked));
    sc.succeeds(reader);
    sc.ends_well();
}

/// While a reader collects, another site has the owner mark the directory. What that covers is younger than the collect, and the reader
/// needs no further one: sites that mark when they are released, and readers that collect because of that, would never end.
#[test]
pub(crate) fn a_mark_during_a_collect_asks_for_no_other() {
    let mut sc = Scenario::network(3);
    let looker = sc.reader_at(A);
    let (d, _) = in_sync(&mut sc);
    let at_t = sc.name_at(d, T, "at-t");
    sc.must(create(d, &at_t));
    let mark_at = |sc: &mut Scenario, site| {
        let name = sc.name_at(d, site, "link");
        let nothing = sc.ask(Request::Link { id: InodeId(d.0 + 1), parent: d, name });
        sc.fails(nothing, Errno::ENOENT);
    };
    mark_at(&mut sc, S);
    let collect = sc.hold(|m| m.to() == shard(T) && matches!(m.peer(), Some(Peer::Collect { .. })));
    let reader = sc.ask_by(looker, read(d));
    sc.go_on();
    assert!(sc.world.held(collect) > 0, "the reader collects");
    mark_at(&mut sc, T);
    let further = sc.hold(|m| m.to() == shard(S) && matches!(m.peer(), Some(Peer::Collect { .. })));
    sc.let_go(collect);
    sc.go_on();
    assert_eq!(sc.world.held(further), 0);
    sc.succeeds(reader);
    sc.let_go(further);
    sc.ends_well();
}

/// The directory itself is renamed while an update waits for its owner: that moves its ctime on, and the update moves both times on.
#[test]
pub(crate) fn what_its_owner_has_later_is_younger_than_all_that_was_seen() {
    let mut sc = Scenario::new(3);
    let (d, _) = in_sync(&mut sc);
    let name = sc.name_at(InodeId::ROOT, A, "d");
    let to = sc.name_at(InodeId::ROOT, A, "to");
    let x = sc.name_at(d, S, "x");
    let push = sc.hold(|m| matches!(m.peer(), Some(Peer::Push { .. })));
    let x_made = sc.ask(create(d, &x));
    sc.go_on();
    sc.must(rename((InodeId::ROOT, &name), (InodeId::ROOT, &to)));
    let before = sc.attributes(d);
    sc.waits(x_made);
    sc.let_go(push);
    sc.succeeds(x_made);
    let after = sc.attributes(d);
    assert!(after.mtime > before.mtime && after.ctime > before.ctime, "{before:?} {after:?}");
    sc.ends_well();
}

/// Updates without reads: the directory goes back, and updates wait for nobody.
#[test]
pub(crate) fn without_reads_it_ends() {
    let mut sc = Scenario::new(3);
    let (d, _) = in_sync(&mut sc);
    for round in 0..40 {
        let name = sc.name_at(d, S, &format!("g{round}-"));
        sc.must(create(d, &name));
    }
    let push = sc.hold(|m| matches!(m.peer(), Some(Peer::Push { .. })));
    let x = sc.name_at(d, S, "x");
    sc.must(create(d, &x));
    assert!(sc.names(d).contains(&x));
    sc.let_go(push);
    sc.ends_well();
}

/// By configuration: from the first update on, and without an end.
#[test]
pub(crate) fn always_means_always() {
    let mut sc = Scenario::with_sync(3, SyncPolicy::Always);
    let (d, _) = sc.directory_of(A, "d");
    for round in 0..40 {
        let name = sc.name_at(d, S, &format!("f{round}-"));
        sc.must(create(d, &name));
    }
    let recalls = sc.hold(|m| matches!(m.peer(), Some(Peer::Recall { .. })));
    let push = sc.hold(|m| matches!(m.peer(), Some(Peer::Push { .. })));
    let x = sc.name_at(d, S, "x");
    let x_made = sc.ask(create(d, &x));
    sc.go_on();
    sc.waits(x_made);
    assert_eq!(sc.names(d).len(), 40);
    sc.let_go(push);
    sc.succeeds(x_made);
    assert_eq!(sc.world.held(recalls), 0);
    sc.let_go(recalls);
    sc.ends_well();
}

#[test]
pub(crate) fn never_means_never() {
    let mut sc = Scenario::with_sync(3, SyncPolicy::Never);
    let (d, _) = in_sync(&mut sc);
    let name = sc.name_at(d, S, "x");
    sc.must(create(d, &name));
    let recalls = sc.hold(|m| matches!(m.peer(), Some(Peer::Recall { .. })));
    let reader = sc.ask(read(d));
    sc.go_on();
    sc.waits(reader);
    assert_eq!(sc.world.held(recalls), 1);
    sc.let_go(recalls);
    sc.succeeds(reader);
    sc.ends_well();
}
