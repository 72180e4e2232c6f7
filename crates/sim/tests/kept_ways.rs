//! Ways that sessions keep (P-5): what they allow, whoever is asked by them has looked whether it is so.
//!
//! S is the site of a name, H the home of a directory on the way, X the session that keeps the way.

use crate::paths::{C, H, S, answer, made, way};
use onpath_session::fs::{FsOp, FsReply, FsResult, WaysAt};
use onpath_sim::model::Caller;
use onpath_sim::scenario::{Scenario, make, mode, rename, rmdir, shard};
use onpath_wire::errno::Errno;
use onpath_wire::ids::{InodeId, NodeClass};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::peer::{Peer, part};
use onpath_wire::reply::Reply;
use onpath_wire::request::Request;

/// Bytes for ways.
const BYTES: usize = 1 << 20;

/// A world with a path node, X, and a way of two names that X keeps, with the state in which it does.
struct Kept {
    sc: Scenario,
    x: usize,
    names: [Name; 2],
    ids: [InodeId; 2],
    at: WaysAt,
}

/// The world, X, and the way.
fn world() -> (Scenario, usize, [Name; 2], [InodeId; 2]) {
    let mut sc = Scenario::with_path_node(3);
    let x = sc.world.add_keeping_session(&[Caller::new(4_001, 4_001)], BYTES);
    sc.go_on();
    let (names, ids) = way(&mut sc);
    (sc, x, names, ids)
}

fn kept() -> Kept {
    let (mut sc, x, names, ids) = world();
    let at = keep(&mut sc, x, &names);
    Kept { sc, x, names, ids, at }
}

fn begin(sc: &mut Scenario, x: usize, names: &[Name]) -> u64 {
    let op = FsOp::Resolve { from: InodeId::ROOT, names: names.to_vec(), look: false, kept: true };
    sc.world.system_call(x, 0, op)
}

/// Where names lead X; the state, if ways say so that it keeps.
fn follow(sc: &mut Scenario, x: usize, names: &[Name]) -> (InodeId, usize, Option<WaysAt>) {
    let unique = begin(sc, x, names);
    match answer(sc, unique) {
        Ok(FsReply::Resolved { dir, names, by_ways }) => (dir, names, by_ways),
        other => panic!("{other:?}"),
    }
}

/// Follows names until X keeps the way.
fn keep(sc: &mut Scenario, x: usize, names: &[Name]) -> WaysAt {
    for _ in 0..4 {
        let (_, followed, by_ways) = follow(sc, x, names);
        assert_eq!(followed, names.len());
        if let Some(at) = by_ways {
            return at;
        }
        sc.go_on(); // shards are being heard
    }
    panic!("the way is not kept");
}

fn look(sc: &mut Scenario, x: usize, parent: InodeId, name: &Name, at: WaysAt) -> FsResult {
    let unique = sc.world.system_call_by_ways(x, 0, FsOp::Lookup { parent, name: name.clone() }, at);
    answer(sc, unique)
}

fn is_behind(result: &FsResult) -> bool {
    matches!(result, Err(Errno::ERESTART))
}

/// A way that is kept leads without a question to a path node, and the site of the last name answers.
#[test]
fn a_kept_way_asks_nobody() {
    let Kept { mut sc, x, names, ids: [_, b], at } = kept();
    let asks = sc.hold(|m| m.to().class() == Some(NodeClass::Path) && m.request().is_some());
    assert_eq!(follow(&mut sc, x, &names), (b, 2, Some(at)));
    for site in [H, S, C] {
        let name = sc.name_at(b, site, &format!("f{site}_"));
        let id = made(sc.must(make(b, &name, Kind::File, 0o644)));
        assert!(matches!(look(&mut sc, x, b, &name, at), Ok(FsReply::Entry(attr)) if attr.id == id));
        let op = FsOp::Resolve { from: InodeId::ROOT, names: [&names[..], &[name]].concat(), look: true, kept: true };
        let unique = sc.world.system_call(x, 0, op);
        // Its site is its home, and tells all of it at once.
        assert!(matches!(answer(&mut sc, unique), Ok(FsReply::Attr { attr, .. }) if attr.id == id));
    }
    assert_eq!(sc.world.held(asks), 0);
    sc.ends_well();
}

/// When a chmod, a rename or a removal has returned, no request that rests on the way of before is executed, at no shard.
#[test]
pub(crate) fn a_change_is_seen_by_who_keeps_a_way() {
    for site in [H, S, C] {
        let Kept { mut sc, x, names, ids: [a, b], mut at } = kept();
        let name = sc.name_at(b, site, "f");
        sc.must(make(b, &name, Kind::Directory, 0o755));
        let to = sc.name_at(InodeId::ROOT, C, "to");
        let changes = [
            Request::SetAttr { id: a, set: mode(0o700) },
            Request::SetAttr { id: a, set: mode(0o755) },
            rename((InodeId::ROOT, &names[0]), (InodeId::ROOT, &to)),
            rename((InodeId::ROOT, &to), (InodeId::ROOT, &names[0])),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            sc.must(change);
            if number % 2 == 0 {
                let looked = look(&mut sc, x, b, &name, at);
                assert!(is_behind(&looked), "at {site}, after change {number}: {looked:?}");
                let (dir, followed, by_ways) = follow(&mut sc, x, &names);
                assert!(followed < 2 && by_ways.is_none(), "{number}: {dir:?}, {followed} names, {by_ways:?}");
            } else {
                // What it has missed at that shard it hears once.
                at = keep(&mut sc, x, &names);
                if is_behind(&look(&mut sc, x, b, &name, at)) {
                    at = keep(&mut sc, x, &names);
                }
                assert!(matches!(look(&mut sc, x, b, &name, at), Ok(FsReply::Entry(_))));
            }
        }
        let (empty, gone) = sc.directory_of(site, "gone");
        let at = keep(&mut sc, x, std::slice::from_ref(&gone));
        sc.must(rmdir(&gone));
        let name = sc.name_at(empty, site, "f");
        assert!(is_behind(&look(&mut sc, x, empty, &name, at)), "it is gone");
        sc.ends_well();
    }
}

/// X has followed a way, and hears of a change at one shard before it asks another one by that way: it does not ask, whatever it knows of that shard.
#[test]
pub(crate) fn what_was_followed_before_counts_no_more() {
    let Kept { mut sc, x, ids: [a, b], at, .. } = kept();
    sc.must(Request::SetAttr { id: a, set: mode(0o700) });
    for site in [S, S, C] {
        let name = sc.name_at(b, site, "f");
        let looked = look(&mut sc, x, b, &name, at);
        assert!(is_behind(&looked), "at {site}: {looked:?}");
    }
    sc.ends_well();
}

/// Path nodes let go before anybody is told to forget ways: else X would ask them anew, and keep what they hold still (schedule K1).
#[test]
pub(crate) fn nobody_keeps_what_a_path_node_is_about_to_let_go() {
    let Kept { mut sc, x, names, ids: [a, b], at } = kept();
    let name = sc.name_at(b, S, "f");
    let recall = sc.hold(|m| matches!(m.peer(), Some(Peer::Recall { parts, .. }) if parts & part::PATH != 0));
    let chmod = sc.ask(Request::SetAttr { id: a, set: mode(0o700) });
    while sc.world.held(recall) == 0 {
        sc.go_on_for(1_000_000);
    }
    // Nothing is decided: X may look, and whatever it hears, it asks the path node for the way.
    _ = look(&mut sc, x, b, &name, at);
    let at = keep(&mut sc, x, &names);
    sc.world.stop_holding(recall);
    sc.let_go(recall);
    sc.succeeds(chmod);
    let looked = look(&mut sc, x, b, &name, at);
    assert!(is_behind(&looked), "{looked:?}");
    sc.ends_well();
}

/// What a path node has said before X hears of a change is not kept, however late it comes (schedule K6a).
#[test]
pub(crate) fn a_late_answer_is_not_kept() {
    let Kept { mut sc, x, names, ids: [a, b], at } = kept();
    let (inside, name) = (Name::new(b"deeper").expect("a name"), sc.name_at(b, S, "f"));
    sc.must(make(b, &inside, Kind::Directory, 0o755));
    let deeper = [&names[..], &[inside]].concat();
    let late = sc.hold(|m| m.from().class() == Some(NodeClass::Path) && m.reply().is_some());
    let asked = begin(&mut sc, x, &deeper);
    while sc.world.held(late) == 0 {
        sc.go_on_for(1_000_000);
    }
    sc.must(Request::SetAttr { id: a, set: mode(0o700) });
    let unique = sc.world.system_call_by_ways(x, 0, FsOp::Lookup { parent: b, name }, at);
    assert!(is_behind(&answer(&mut sc, unique)));
    sc.world.stop_holding(late);
    sc.let_go(late);
    let _ = answer(&mut sc, asked);
    let (dir, followed, by_ways) = follow(&mut sc, x, &deeper);
    assert_eq!((dir, followed, by_ways), (a, 1, None));
    sc.ends_well();
}

/// A change by a way was executed and its answer lost; then the way is not right any more. The repetition gets the answer: were X behind, it
/// would ask once more under another number (schedule K5).
#[test]
pub(crate) fn what_was_done_is_not_done_again() {
    let (mut sc, x, names, [a, b]) = world();
    sc.must(Request::SetAttr { id: b, set: mode(0o777) });
    let at = keep(&mut sc, x, &names);
    let name = sc.name_at(b, S, "new");
    let lost = sc.hold(|m| m.from() == shard(S) && matches!(m.reply(), Some(Reply::Entry { created: true, .. })));
    let (kind, mode_of, umask) = (Kind::Directory, 0o755, 0);
    let op = FsOp::Make { parent: b, name, kind, mode: mode_of, umask, rdev: 0, target: vec![] };
    let made = sc.world.system_call_by_ways(x, 0, op, at);
    while sc.world.held(lost) == 0 {
        sc.go_on_for(1_000_000);
    }
    sc.must(Request::SetAttr { id: a, set: mode(0o700) });
    sc.world.stop_holding(lost);
    sc.world.lose(lost);
    assert!(matches!(answer(&mut sc, made), Ok(FsReply::Entry(_))));
    sc.ends_well();
}

/// A shard that has begun anew has forgotten what it was told to note: who comes by a way of before forgets all, also with a request that is
/// repeated under the new term (schedule K6).
#[test]
pub(crate) fn a_shard_begins_anew() {
    let Kept { mut sc, x, names, ids: [a, b], at } = kept();
    let name = sc.name_at(b, S, "f");
    let (of_late, beside) = (name.clone(), sc.name_at(b, S, "beside"));
    let lost = sc.hold(move |m| {
        m.to() == shard(S) && matches!(m.request(), Some(Request::Lookup { name, .. }) if name == of_late)
    });
    let late = sc.world.system_call_by_ways(x, 0, FsOp::Lookup { parent: b, name }, at);
    while sc.world.held(lost) == 0 {
        sc.go_on_for(1_000_000);
    }
    sc.must(Request::SetAttr { id: a, set: mode(0o700) });
    sc.restart(S);
    // Another thread of X hears of S before the request is repeated that gets there.
    let looked = look(&mut sc, x, b, &beside, at);
    assert!(is_behind(&looked), "{looked:?}");
    sc.world.stop_holding(lost);
    sc.world.lose(lost);
    let finished = loop {
        sc.go_on_for(1_000_000);
        if let Some(finished) = sc.world.finished() {
            break finished;
        }
    };
    assert!(finished.unique == late && is_behind(&finished.result), "{finished:?}");
    let (dir, followed, by_ways) = follow(&mut sc, x, &names);
    assert_eq!((dir, followed, by_ways), (a, 1, None));
    sc.ends_well();
}
