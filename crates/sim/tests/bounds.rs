//! What waits at a shard for other nodes is bounded: change-logs for owners that apply them, files without a name for the data
//! node that drops their bytes.

use onpath_meta::ShardBounds;
use onpath_session::fs::{FsOp, FsReply, Handle, OpenMode};
use onpath_sim::model::Caller;
use onpath_sim::scenario::{Scenario, create, read, rename, shard};
use onpath_wire::data::DataRequest;
use onpath_wire::ids::InodeId;
use onpath_wire::name::Name;
use onpath_wire::peer::Peer;
use onpath_wire::request::{SetAttr, set};
use std::collections::BTreeSet;

const S: u16 = 0;
const A: u16 = 1;
const T: u16 = 2;

/// Virtual time for a call that waits for nothing, ns.
const SHORT_NS: u64 = 20_000_000;

/// The names of a directory come at S, and A applies none of them: those for which there is room are made, the others wait. Readers get
/// what is there; that makes room, and in the end all are made.
#[test]
fn updates_wait_while_the_change_logs_are_full() {
    let mut sc = Scenario::bounded(3, ShardBounds { log_entries: 6, ..ShardBounds::default() });
    let (d, _) = sc.directory_of(A, "d");
    let pushes = sc.hold(|m| m.to() == shard(A) && matches!(m.peer(), Some(Peer::Push { .. })));
    let names: Vec<Name> = (0..12).map(|n| sc.name_at(d, S, &format!("n{n}-"))).collect();
    let made: Vec<_> = names.iter().map(|name| sc.ask(create(d, name))).collect();
    sc.go_on();
    let answered = made.iter().filter(|ticket| sc.answer(**ticket).is_some()).count();
    assert_eq!(answered, 5, "a record may have two entries, so there is room for one while there are four");
    assert_eq!(sc.queue(S, "entries of change-logs"), 5);
    assert_eq!(sc.queue(S, "directories whose updates wait for room"), 1);
    assert!(sc.world.held(pushes) > 0, "what waits has it pushed at once");
    let listed = sc.ask(read(d));
    sc.succeeds(listed);
    sc.go_on();
    assert!(made.iter().filter(|ticket| sc.answer(**ticket).is_some()).count() > 5, "a collect makes room too");
    sc.let_go(pushes);
    for ticket in made {
        sc.succeeds(ticket);
    }
    assert_eq!(sc.names(d).len(), names.len());
    sc.ends_well();
}

/// S has room for one change-log. Names in two directories, and a rename between two others, follow each other without any timer; and
/// a restart of S while its change-log is full changes nothing.
#[test]
fn directories_take_turns_where_there_is_room_for_one_change_log() {
    let mut sc = Scenario::bounded(3, ShardBounds { logs: 2, log_entries: 4, ..ShardBounds::default() });
    let ((d, _), (e, _)) = (sc.directory_of(A, "d"), sc.directory_of(T, "e"));
    let ([b, x], [a, z]) = (["b", "x"].map(|n| sc.name_at(d, S, n)), ["a", "z"].map(|n| sc.name_at(e, T, n)));
    let w = sc.name_at(e, S, "w");
    sc.must(create(d, &b));
    let pushes = sc.hold(|m| matches!(m.peer(), Some(Peer::Push { .. })));
    let made: Vec<_> = [create(e, &w), create(d, &x), create(e, &z)].map(|request| sc.ask(request)).into();
    let moved = sc.ask(rename((d, &b), (e, &a)));
    sc.go_on();
    sc.waits(made[0]);
    assert_eq!(sc.queue(S, "change-logs"), 1);
    sc.restart(S);
    sc.let_go(pushes);
    for ticket in made.into_iter().chain([moved]) {
        sc.succeeds(ticket);
    }
    let listed: BTreeSet<Name> = sc.names(e).into_iter().collect();
    assert_eq!(listed, BTreeSet::from([a, w, z]));
    assert_eq!(sc.names(d), [x]);
    sc.ends_well();
}

fn call(sc: &mut Scenario, session: usize, op: FsOp) -> FsReply {
    let unique = sc.world.system_call(session, 0, op);
    let until_ns = sc.world.now_ns() + SHORT_NS;
    while sc.world.now_ns() < until_ns {
        sc.world.step(until_ns);
        if let Some(finished) = sc.world.finished() {
            assert_eq!(finished.unique, unique);
            return finished.result.expect("a success");
        }
    }
    panic!("it waits");
}

/// A file of shard 1 with a block of bytes, which the session has open.
fn written(sc: &mut Scenario, session: usize, prefix: &str) -> (Name, InodeId, Handle) {
    let name = sc.name_at(InodeId::ROOT, 1, prefix);
    let open = OpenMode::READ_WRITE;
    let op = FsOp::Create { parent: InodeId::ROOT, name: name.clone(), mode: 0o644, umask: 0, open };
    let FsReply::Created { attr, opened, .. } = call(sc, session, op) else { panic!("not created") };
    let handle = opened.handle;
    call(
        sc,
        session,
        FsOp::Write { handle, offset: 0, data: vec![7; 4_096].into(), append: false, kill_suidgid: false, page: false },
    );
    (name, attr.id, handle)
}

/// The data node is told of no drop. Files go all the same: their names at once, those beyond the bound stay as inodes without a name until
/// there is room; and a file that is cut to nothing is trimmed instead. `restarts`: the home starts again meanwhile.
fn files_go_while_nothing_is_dropped(restarts: bool) {
    let mut sc = Scenario::bounded(2, ShardBounds { drops: 2, ..ShardBounds::default() });
    let session = sc.world.add_session(&[Caller::default()]);
    let files: Vec<_> = (0..5).map(|n| written(&mut sc, session, &format!("f{n}-"))).collect();
    let (_, cut, kept) = written(&mut sc, session, "kept");
    let drops = sc.hold(|m| matches!(m.data(), Some(DataRequest::Drop { .. })));
    for (name, _, handle) in files {
        call(&mut sc, session, FsOp::Release { handle, flock_owner: None });
        sc.go_on_for(SHORT_NS);
        call(&mut sc, session, FsOp::Unlink { parent: InodeId::ROOT, name });
    }
    sc.go_on_for(SHORT_NS);
    let queues = ["files not dropped yet", "orphans that wait for room"].map(|name| sc.queue(1, name));
    assert_eq!(queues, [2, 3]);
    let set = SetAttr { valid: set::SIZE, size: 0, ..SetAttr::default() };
    call(&mut sc, session, FsOp::SetAttr { id: cut, set, handle: Some(kept) });
    assert_eq!(sc.queue(1, "files not dropped yet"), 2);
    let FsReply::Data(bytes) =
        call(&mut sc, session, FsOp::Read { handle: kept, offset: 0, bytes: 4_096, page: false })
    else {
        panic!("not read")
    };
    assert!(bytes.concat().is_empty());
    if restarts {
        sc.restart(1);
    }
    sc.let_go(drops);
    call(&mut sc, session, FsOp::Release { handle: kept, flock_owner: None });
    sc.ends_well();
}

#[test]
fn files_beyond_the_bound_of_drops_stay_without_a_name_for_a_while() {
    files_go_while_nothing_is_dropped(false);
}

#[test]
fn files_beyond_the_bound_of_drops_go_after_a_restart_too() {
    files_go_while_nothing_is_dropped(true);
}
