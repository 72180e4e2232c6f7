//! Who has what open, across restarts of its home: what somebody has open stays, with or without a name (design.md, "Sessions").

use onpath_sim::scenario::{Asker, Scenario, create, rename, shard, unlink};
use onpath_wire::codec::Blob;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::limits::SESSION_LEASE_MS;
use onpath_wire::name::Name;
use onpath_wire::reply::Reply;
use onpath_wire::request::{NewNode, Request, open};

const S: u16 = 1;
const A: u16 = 2;
/// Longer than orphans are kept after a restart, whoever has them open, ns.
const GRACE_NS: u64 = (SESSION_LEASE_MS + 1_000) * 1_000_000;

/// A directory of A's and a name in it at S, and somebody who will open things.
fn world() -> (Scenario, Asker, InodeId, Name) {
    let mut sc = Scenario::new(3);
    let (d, _) = sc.directory_of(A, "d");
    let opener = sc.reader_at(S);
    let name = sc.name_at(d, S, "f");
    (sc, opener, d, name)
}

pub(crate) fn id_of(reply: Reply) -> InodeId {
    match reply {
        Reply::Entry { attr, .. } | Reply::Attr { attr, .. } => attr.id,
        other => panic!("answered {other:?}"),
    }
}

/// The file loses its name. It is there until it is closed, and then gone.
fn outlives_its_name(mut sc: Scenario, opener: Asker, d: InodeId, name: &Name, id: InodeId) {
    sc.must(unlink(d, name));
    sc.go_on_for(GRACE_NS);
    let asked = sc.ask_by(opener, Request::GetAttr { id });
    assert_eq!(id_of(sc.succeeds(asked)), id);
    let closed = sc.ask_by(opener, Request::Release { id });
    sc.succeeds(closed);
    sc.ends_well();
}

/// The only inode of a shard is open when it restarts, and removed before its session has come back.
#[test]
fn a_shard_that_has_one_file_waits_for_its_opens_too() {
    let (mut sc, opener, d, name) = world();
    // Only sessions that live may come back.
    let joined = sc.ask_by(opener, Request::Attach { again: false });
    sc.succeeds(joined);
    let id = id_of(sc.must(create(d, &name)));
    let opened = sc.ask_by(opener, Request::Open { id, flags: open::READ | open::REGISTER });
    sc.succeeds(opened);
    sc.restart(S);
    sc.must(unlink(d, &name));
    sc.go_on();
    let again = sc.ask_by(opener, Request::Open { id, flags: open::REGISTER | open::AGAIN });
    sc.succeeds(again);
    for _ in 0..8 {
        sc.go_on_for(GRACE_NS / 8);
        let renewed = sc.ask_by(opener, Request::Renew);
        sc.succeeds(renewed);
    }
    let closed = sc.ask_by(opener, Request::Release { id });
    sc.succeeds(closed);
    sc.ends_well();
}

/// S makes and opens a file, and restarts before its answer has come. The answer to the repeated request is that of before, but S
/// has forgotten who has the file open.
#[test]
fn a_create_that_is_answered_after_a_restart_has_opened_the_file() {
    let (mut sc, opener, d, name) = world();
    let answers = sc.hold(|m| matches!(m.reply(), Some(Reply::Entry { created: true, .. })));
    let open = open::READ | open::REGISTER;
    let node = NewNode { kind: Kind::File, mode: 0o644, umask: 0, rdev: 0, target: Blob::default(), open };
    let made = sc.ask_by(opener, Request::Create { parent: d, name: name.clone(), node });
    sc.go_on();
    assert!(sc.world.held(answers) > 0);
    sc.world.lose(answers);
    sc.restart(S);
    sc.let_go(answers);
    let id = id_of(sc.succeeds(made));
    outlives_its_name(sc, opener, d, &name, id);
}

/// The same with O_TRUNC, which leaves a record as well.
#[test]
fn an_open_with_truncation_that_is_answered_after_a_restart_counts() {
    let (mut sc, opener, d, name) = world();
    let id = id_of(sc.must(create(d, &name)));
    let answers = sc.hold(move |m| m.from() == shard(S) && matches!(m.reply(), Some(Reply::Attr { .. })));
    let flags = open::WRITE | open::TRUNCATE | open::REGISTER;
    let opened = sc.ask_by(opener, Request::Open { id, flags });
    sc.go_on();
    assert!(sc.world.held(answers) > 0);
    sc.world.lose(answers);
    sc.restart(S);
    sc.let_go(answers);
    sc.succeeds(opened);
    outlives_its_name(sc, opener, d, &name, id);
}

/// S has answered, and its session has closed the file. A late copy of the create is answered, and opens nothing.
#[test]
fn a_late_copy_of_a_create_opens_nothing() {
    let (mut sc, opener, d, name) = world();
    let requests = sc.hold(|m| matches!(m.request(), Some(Request::Create { .. })));
    let open = open::READ | open::REGISTER;
    let node = NewNode { kind: Kind::File, mode: 0o644, umask: 0, rdev: 0, target: Blob::default(), open };
    let made = sc.ask_by(opener, Request::Create { parent: d, name: name.clone(), node });
    sc.go_on();
    sc.world.deliver_copy(requests);
    sc.world.stop_holding(requests);
    let id = id_of(sc.succeeds(made));
    let closed = sc.ask_by(opener, Request::Release { id });
    sc.succeeds(closed);
    sc.let_go(requests);
    sc.go_on();
    sc.must(unlink(d, &name));
    sc.ends_well();
}

/// A reader looks a name up, which is then replaced. The last who had the old file open closes it before the reader has asked for the
/// file's attributes: they are told all the same, for a moment. A reader whom that happened to twice in a row was told ESTALE.
#[test]
fn a_replaced_file_is_told_of_for_a_moment_though_it_was_closed() {
    let (mut sc, opener, d, name) = world();
    let old = id_of(sc.must(create(d, &name)));
    let opened = sc.ask_by(opener, Request::Open { id: old, flags: open::READ | open::REGISTER });
    sc.succeeds(opened);
    let new = sc.name_at(d, S, "new");
    sc.must(create(d, &new));
    sc.must(rename((d, &new), (d, &name)));
    let closed = sc.ask_by(opener, Request::Release { id: old });
    sc.succeeds(closed);
    assert_eq!(id_of(sc.must(Request::GetAttr { id: old })), old);
    sc.go_on_for(2_000_000_000);
    let late = sc.ask(Request::GetAttr { id: old });
    sc.fails(late, Errno::ESTALE);
    sc.ends_well();
}
