//! Path nodes (design.md, "Paths"): what they say of a way is so, whatever is changed on it meanwhile.
//!
//! S is the site of a name, H the home of what it leads to, C the site of a new name, Q the path node.

use crate::shapes;
use onpath_path::IndexKind;
use onpath_session::fs::{FsOp, FsReply, FsResult};
use onpath_sim::model::Caller;
use onpath_sim::run;
use onpath_sim::scenario::{Scenario, make, mode, rename, rmdir, shard};
use onpath_sim::world::Message;
use onpath_wire::ids::{InodeId, NodeId};
use onpath_wire::inode::Kind;
use onpath_wire::limits::PATH_LEASE_MS;
use onpath_wire::name::Name;
use onpath_wire::peer::{GrantResult, Peer};
use onpath_wire::reply::Reply;
use onpath_wire::request::{Request, SetAttr, set};

pub(crate) const H: u16 = 0;
pub(crate) const S: u16 = 1;
pub(crate) const C: u16 = 2;
/// Lease of a path node, ns.
const LEASE_NS: u64 = PATH_LEASE_MS * 1_000_000;
/// Later than the slack of a lease, and not so late that it is asked for anew, ns.
const LATE_NS: u64 = 400_000_000;
/// Longer than a path node is waited for, ns.
const PATIENCE_NS: u64 = 400_000_000;
/// Longer than none is asked after one was silent, ns.
const SILENT_NS: u64 = 2_500_000_000;

/// A world with a path node, and somebody without privileges who walks.
fn world() -> (Scenario, usize) {
    with_walker(Scenario::with_path_node(3))
}

fn with_walker(mut sc: Scenario) -> (Scenario, usize) {
    let walker = sc.world.add_session(&[Caller::new(4_001, 4_001)]);
    sc.go_on();
    (sc, walker)
}

fn begin(sc: &mut Scenario, walker: usize, names: &[&Name]) -> u64 {
    let names = names.iter().map(|name| (*name).clone()).collect();
    sc.world.system_call(walker, 0, FsOp::Resolve { from: InodeId::ROOT, names, look: false, kept: true })
}

/// How far names led: to which directory, and how many of them.
fn end(sc: &mut Scenario, unique: u64) -> (InodeId, usize) {
    match answer(sc, unique) {
        Ok(FsReply::Resolved { dir, names, .. }) => (dir, names),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn answer(sc: &mut Scenario, unique: u64) -> FsResult {
    let until_ns = sc.world.now_ns() + PATIENCE_NS;
    while sc.world.now_ns() < until_ns {
        sc.world.step(until_ns);
        if let Some(finished) = sc.world.finished() {
            assert_eq!(finished.unique, unique);
            return finished.result;
        }
    }
    panic!("a walk is not answered");
}

fn follow(sc: &mut Scenario, walker: usize, names: &[&Name]) -> (InodeId, usize) {
    let unique = begin(sc, walker, names);
    end(sc, unique)
}

/// A directory of H's whose name is at S, with a directory in it.
pub(crate) fn way(sc: &mut Scenario) -> ([Name; 2], [InodeId; 2]) {
    let (id, first) = sc.directory_of(H, "first");
    let moved = sc.name_at(InodeId::ROOT, S, "a");
    sc.must(rename((InodeId::ROOT, &first), (InodeId::ROOT, &moved)));
    let inside = Name::new(b"in").expect("a short name");
    let child = made(sc.must(make(id, &inside, Kind::Directory, 0o755)));
    ([moved, inside], [id, child])
}

pub(crate) fn made(reply: Reply) -> InodeId {
    match reply {
        Reply::Entry { attr, .. } => attr.id,
        other => panic!("mkdir answered {other:?}"),
    }
}

fn is_path_part(peer: &Option<Peer>) -> bool {
    let asked_for = matches!(peer, Some(Peer::GrantAnswer { result: GrantResult::Path { .. }, .. }));
    asked_for || matches!(peer, Some(Peer::DirectoryIs { part: Some(_), .. }))
}

/// Names lead to directories, the second time without a question to any shard.
#[test]
fn what_is_held_is_not_asked_for() {
    let (mut sc, walker) = world();
    let ([a, b], [_, b_id]) = way(&mut sc);
    assert_eq!(follow(&mut sc, walker, &[&a, &b]), (b_id, 2));
    sc.hold(|m| m.from() == NodeId::path(0) && m.to().as_shard().is_some());
    assert_eq!(follow(&mut sc, walker, &[&a, &b]), (b_id, 2));
    sc.ends_well();
}

/// A path is counted by what has said how far it leads: reachability bits, the directories that are held, or shards.
#[test]
fn a_path_is_counted_once() {
    for (index, has_bits) in [(IndexKind::Hi, false), (IndexKind::Mart, true), (IndexKind::Art, true)] {
        let (mut sc, walker) = with_walker(Scenario::with_path_index(3, index));
        let ([a, b], [a_id, b_id]) = way(&mut sc);
        // Bits are those of a class, which is known of who is in the group.
        sc.must(Request::SetAttr { id: b_id, set: SetAttr { valid: set::GID, gid: 4_001, ..SetAttr::default() } });
        let count = |sc: &Scenario| {
            ["paths_resolved", "paths_speculated", "paths_checked", "paths_asked"]
                .map(|name| sc.world.counted_by_path_nodes(name))
        };
        assert_eq!((follow(&mut sc, walker, &[&a, &b]), count(&sc)), ((b_id, 2), [1, 0, 0, 1]), "{index:?}");
        let held = if has_bits { [2, 1, 0, 1] } else { [2, 0, 1, 1] };
        assert_eq!((follow(&mut sc, walker, &[&a, &b]), count(&sc)), ((b_id, 2), held), "{index:?}");
        // The bits are of paths from the root on.
        let op = FsOp::Resolve { from: a_id, names: vec![b.clone()], look: false, kept: true };
        let unique = sc.world.system_call(walker, 0, op);
        let checked = if has_bits { [3, 1, 1, 1] } else { [3, 0, 2, 1] };
        assert_eq!((end(&mut sc, unique), count(&sc)), ((b_id, 1), checked), "{index:?}");
        // What was taken back is asked for. Before a walker is denied, it is asked what else they may: that is a request of its own.
        sc.must(Request::SetAttr { id: a_id, set: mode(0o700) });
        let [_, bits, checks, _] = checked;
        assert_eq!(
            (follow(&mut sc, walker, &[&a, &b]), count(&sc)),
            ((a_id, 1), [5, bits, checks + 1, 2]),
            "{index:?}"
        );
        assert_eq!(
            (follow(&mut sc, walker, &[&a, &b]), count(&sc)),
            ((a_id, 1), [7, bits, checks + 3, 2]),
            "{index:?}"
        );
        sc.ends_well();
    }
}

/// What the last name is its site tells who has asked, by one request of the path node in his name; the site may have begun anew since.
#[test]
fn the_site_of_the_last_name_answers() {
    let (mut sc, walker) = world();
    let ([a, b], [_, b_id]) = way(&mut sc);
    assert_eq!(follow(&mut sc, walker, &[&a, &b]), (b_id, 2));
    let asks = |m: &Message<'_>| m.from() == NodeId::path(0) && m.to().as_shard().is_some() && m.request().is_none();
    let asks = sc.hold(move |m| asks(m) && !matches!(m.peer(), Some(Peer::PathLeaseAsk)));
    for restarted in [None, Some(S), Some(H)] {
        restarted.into_iter().for_each(|shard| sc.restart(shard));
        for (last, is) in [(b.clone(), Some(b_id)), (Name::new(b"none").expect("a name"), None)] {
            let op = FsOp::Resolve { from: InodeId::ROOT, names: vec![a.clone(), last], look: true, kept: true };
            let unique = sc.world.system_call(walker, 0, op);
            match (answer(&mut sc, unique), is) {
                (Ok(FsReply::Entry(attr)), Some(id)) => assert_eq!(attr.id, id),
                (Ok(FsReply::Missing), None) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(sc.world.held(asks), 0);
    sc.ends_well();
}

/// A rename takes the path part back before it is decided.
#[test]
pub(crate) fn who_moved_is_not_where_it_was() {
    let (mut sc, walker) = world();
    let ([a, b], [_, b_id]) = way(&mut sc);
    assert_eq!(follow(&mut sc, walker, &[&a, &b]), (b_id, 2));
    for site in [S, C, H] {
        let (from, to) = (a.clone(), sc.name_at(InodeId::ROOT, site, &format!("to{site}_")));
        sc.must(rename((InodeId::ROOT, &from), (InodeId::ROOT, &to)));
        assert_eq!(follow(&mut sc, walker, &[&from, &b]), (InodeId::ROOT, 0));
        assert_eq!(follow(&mut sc, walker, &[&to, &b]), (b_id, 2));
        sc.must(rename((InodeId::ROOT, &to), (InodeId::ROOT, &from)));
        assert_eq!(follow(&mut sc, walker, &[&from, &b]), (b_id, 2));
    }
    sc.ends_well();
}

/// After a chmod the path node says what the new mode allows.
#[test]
pub(crate) fn a_chmod_reaches_path_nodes() {
    let (mut sc, walker) = world();
    let ([a, b], [a_id, b_id]) = way(&mut sc);
    assert_eq!(follow(&mut sc, walker, &[&a, &b]), (b_id, 2));
    sc.must(Request::SetAttr { id: a_id, set: mode(0o700) });
    assert_eq!(follow(&mut sc, walker, &[&a, &b]), (a_id, 1));
    sc.must(Request::SetAttr { id: a_id, set: mode(0o755) });
    assert_eq!(follow(&mut sc, walker, &[&a, &b]), (b_id, 2));
    sc.ends_well();
}

/// A directory that is removed leads nowhere, wherever its home is.
#[test]
pub(crate) fn what_is_removed_leads_nowhere() {
    let (mut sc, walker) = world();
    for site in [S, C, H] {
        let (id, name) = sc.directory_of(site, &format!("gone{site}_"));
        assert_eq!(follow(&mut sc, walker, &[&name]), (id, 1));
        sc.must(rmdir(&name));
        assert_eq!(follow(&mut sc, walker, &[&name]), (InodeId::ROOT, 0));
    }
    sc.ends_well();
}

/// A grant is on its way when a chmod takes the path part back: it does not count.
#[test]
pub(crate) fn a_path_part_that_a_recall_overtook_does_not_count() {
    overtake(way);
}

/// The same of one that comes with the name, from a site that is its home too.
#[test]
pub(crate) fn nor_does_one_that_came_with_its_name() {
    overtake(|sc| {
        let (id, name) = sc.directory_of(H, "first");
        let inside = Name::new(b"in").expect("a short name");
        let child = made(sc.must(make(id, &inside, Kind::Directory, 0o755)));
        ([name, inside], [id, child])
    });
}

fn overtake(way: fn(&mut Scenario) -> ([Name; 2], [InodeId; 2])) {
    let (mut sc, walker) = world();
    let ([a, b], [a_id, b_id]) = way(&mut sc);
    assert_eq!(follow(&mut sc, walker, &[&a, &b]), (b_id, 2));
    sc.must(Request::SetAttr { id: a_id, set: mode(0o711) });
    let late = sc.hold(|m| is_path_part(&m.peer()));
    let asked = begin(&mut sc, walker, &[&a, &b]);
    while sc.world.held(late) == 0 {
        sc.go_on_for(1_000_000);
    }
    sc.must(Request::SetAttr { id: a_id, set: mode(0o700) });
    sc.world.stop_holding(late);
    sc.let_go(late);
    assert_eq!(end(&mut sc, asked), (a_id, 1));
    sc.ends_well();
}

/// A site has said which directory has a name when that moves: the grant says where it is then (schedule K3).
#[test]
pub(crate) fn a_grant_says_where_it_is() {
    let (mut sc, walker) = world();
    let ([a, b], [_, b_id]) = way(&mut sc);
    let to = sc.name_at(InodeId::ROOT, C, "to");
    let late = sc.hold(|m| matches!(m.peer(), Some(Peer::DirectoryIs { .. })));
    let asked = begin(&mut sc, walker, &[&a, &b]);
    while sc.world.held(late) == 0 {
        sc.go_on_for(1_000_000);
    }
    sc.must(rename((InodeId::ROOT, &a), (InodeId::ROOT, &to)));
    sc.world.stop_holding(late);
    sc.let_go(late);
    assert_eq!(end(&mut sc, asked), (InodeId::ROOT, 0));
    assert_eq!(follow(&mut sc, walker, &[&to, &b]), (b_id, 2));
    sc.ends_well();
}

/// A rename has returned, and the home of what it moved has not heard of the decision: it tells nobody where that was, after a restart
/// neither (schedule K4).
#[test]
pub(crate) fn a_promise_to_move_withholds_the_path_part() {
    for restarts in [false, true] {
        let (mut sc, walker) = world();
        let ([a, b], [_, b_id]) = way(&mut sc);
        let to = sc.name_at(InodeId::ROOT, C, "to");
        let tells = |peer| matches!(peer, Some(Peer::Commit { .. } | Peer::Decided { .. }));
        let late = sc.hold(move |m| m.to() == shard(H) && tells(m.peer()));
        sc.must(rename((InodeId::ROOT, &a), (InodeId::ROOT, &to)));
        if restarts {
            sc.restart(H);
        }
        assert_eq!(follow(&mut sc, walker, &[&to, &b]), (InodeId::ROOT, 0), "nobody says");
        sc.go_on_for(SILENT_NS);
        assert_eq!(follow(&mut sc, walker, &[&a, &b]), (InodeId::ROOT, 0));
        sc.world.stop_holding(late);
        sc.let_go(late);
        sc.go_on_for(SILENT_NS);
        assert_eq!(follow(&mut sc, walker, &[&to, &b]), (b_id, 2));
        sc.ends_well();
    }
}

/// A path node that has begun anew holds nothing, and what its former life asked for is granted to nobody.
#[test]
fn a_path_node_begins_anew() {
    let (mut sc, walker) = world();
    let ([a, b], [a_id, b_id]) = way(&mut sc);
    assert_eq!(follow(&mut sc, walker, &[&a, &b]), (b_id, 2));
    let behind_the_others = 3;
    sc.world.crash(behind_the_others, false);
    while !sc.world.is_up(behind_the_others) {
        sc.go_on();
    }
    sc.must(Request::SetAttr { id: a_id, set: mode(0o700) });
    sc.go_on_for(SILENT_NS);
    assert_eq!(follow(&mut sc, walker, &[&a, &b]), (a_id, 1));
    sc.ends_well();
}

/// In any weather. `ONPATH_PATH_SEEDS`: so many seeds from `ONPATH_PATH_FIRST` on, in each shape.
#[test]
fn ways_are_exact() {
    let number = |name, default| std::env::var(name).map_or(default, |n| n.parse().expect("a number"));
    let (first, seeds): (u64, u64) = (number("ONPATH_PATH_FIRST", 1), number("ONPATH_PATH_SEEDS", 60));
    let (mut ways, mut changed, mut kept, mut behind) = (0, 0, 0, 0);
    for (name, shape) in [("paths", shapes::paths as fn(u64) -> _), ("paths_cut_off", shapes::paths_cut_off)] {
        for seed in first..first + seeds {
            let outcome = run(&shape(seed));
            assert!(outcome.violations.is_empty(), "{name}, seed {seed}: {:#?}", outcome.violations);
            ways += outcome.checks.ways;
            changed += outcome.checks.ways_changed;
            kept += outcome.checks.ways_kept;
            behind += outcome.checks.ways_behind;
        }
    }
    let right = kept - behind;
    println!("{ways} ways, {changed} changed, by kept ways: {right} answered, {behind} behind");
    assert!(ways > 100 * seeds && changed > 3 * seeds, "{ways} ways, {changed} changed");
    assert!(right > 3 * seeds && behind > 3 * seeds, "by kept ways: {right} answered, {behind} behind");
}

/// What is between the path node and H.
fn between(m: &Message<'_>) -> bool {
    let (q, h) = (NodeId::path(0), shard(H));
    m.from() == q && m.to() == h || m.from() == h && m.to() == q
}

/// A path node that its homes hear nothing of holds a change up as long as it may lead by what it holds, and no longer.
#[test]
pub(crate) fn who_is_not_heard_of_leads_nowhere() {
    for restarts in [false, true] {
        let (mut sc, walker) = world();
        let ([a, b], [a_id, b_id]) = way(&mut sc);
        assert_eq!(follow(&mut sc, walker, &[&a, &b]), (b_id, 2));
        let begin_ns = sc.world.now_ns();
        let cut = sc.hold(between);
        if restarts {
            sc.restart(H);
        }
        sc.must(Request::SetAttr { id: a_id, set: mode(0o700) });
        let took_ns = sc.world.now_ns() - begin_ns;
        assert!(took_ns < 2 * LEASE_NS, "{took_ns} ns");
        assert_ne!(follow(&mut sc, walker, &[&a, &b]), (b_id, 2), "after {took_ns} ns");
        sc.world.stop_holding(cut);
        sc.let_go(cut);
        sc.go_on_for(SILENT_NS);
        assert_eq!(follow(&mut sc, walker, &[&a, &b]), (a_id, 1));
        sc.ends_well();
    }
}

/// A path node that has loaded all directories asks a home again for all that it had to give up, whether that has begun anew or was not heard of.
#[test]
fn what_is_over_is_loaded_again() {
    for restarts in [false, true] {
        let (mut sc, walker) = with_walker(Scenario::with_loading_path_node(3));
        let ([a, b], [a_id, b_id]) = way(&mut sc);
        assert_eq!(follow(&mut sc, walker, &[&a, &b]), (b_id, 2));
        for mode_then in [0o711, 0o755] {
            let cut = sc.hold(between);
            if restarts {
                sc.restart(H);
            }
            sc.go_on_for(2 * LEASE_NS);
            sc.world.stop_holding(cut);
            sc.world.lose(cut);
            sc.must(Request::SetAttr { id: a_id, set: mode(mode_then) });
            sc.go_on_for(SILENT_NS);
            // The path node asks nobody about a directory when somebody walks.
            let asks = sc.hold(|m| {
                let lease = matches!(m.peer(), Some(Peer::PathLeaseAsk));
                m.from() == NodeId::path(0) && m.to().as_shard().is_some() && m.request().is_none() && !lease
            });
            assert_eq!(follow(&mut sc, walker, &[&a, &b]), (b_id, 2));
            assert_eq!(sc.world.held(asks), 0);
            sc.world.stop_holding(asks);
        }
        sc.ends_well();
    }
}

/// A lease counts from when it was asked for, however late its answer comes.
#[test]
pub(crate) fn a_late_lease_is_a_short_one() {
    let (mut sc, walker) = world();
    let ([a, b], [a_id, b_id]) = way(&mut sc);
    assert_eq!(follow(&mut sc, walker, &[&a, &b]), (b_id, 2));
    let late = sc.hold(|m| m.from() == shard(H) && matches!(m.peer(), Some(Peer::PathLease { .. })));
    while sc.world.held(late) == 0 {
        sc.go_on_for(LATE_NS / 100);
    }
    // Nor does the home hear the question again.
    let (heard_ns, cut) = (sc.world.now_ns(), sc.hold(between));
    sc.go_on_for(LATE_NS);
    sc.world.stop_holding(late);
    sc.let_go(late);
    sc.go_on_for(heard_ns + LEASE_NS - sc.world.now_ns());
    sc.must(Request::SetAttr { id: a_id, set: mode(0o700) });
    assert_ne!(follow(&mut sc, walker, &[&a, &b]), (b_id, 2));
    sc.world.stop_holding(cut);
    sc.let_go(cut);
    sc.ends_well();
}

/// A copy of what a home has granted with all its directories comes when one of them was taken back: it is nobody's (schedule K7b).
#[test]
pub(crate) fn a_copy_of_a_load_does_not_count() {
    let (mut sc, walker) = with_walker(Scenario::with_loading_path_node(3));
    let ([a, b], [a_id, b_id]) = way(&mut sc);
    let has_a = move |m: &Message<'_>| match m.peer() {
        Some(Peer::Paths { parts, .. }) => parts.iter().any(|granted| granted.dir == a_id),
        _ => false,
    };
    let copy = sc.hold(has_a);
    let behind_the_others = 3;
    sc.world.crash(behind_the_others, false);
    while sc.world.held(copy) == 0 {
        sc.go_on_for(1_000_000);
    }
    sc.world.deliver_copy(copy);
    sc.go_on_for(SILENT_NS);
    assert_eq!(follow(&mut sc, walker, &[&a, &b]), (b_id, 2));
    sc.must(Request::SetAttr { id: a_id, set: mode(0o700) });
    sc.world.stop_holding(copy);
    sc.let_go(copy);
    sc.go_on();
    assert_eq!(follow(&mut sc, walker, &[&a, &b]), (a_id, 1));
    sc.ends_well();
}

/// A path node has given up what its homes have granted, for want of room: they take it back all the same, and it says that it is not there.
#[test]
pub(crate) fn what_was_given_up_is_taken_back() {
    let (mut sc, walker) = with_walker(Scenario::with_path_memory(3, IndexKind::Hi.bytes_min()));
    let mut dirs = vec![];
    // Each has a name of another length, for which the index takes a page.
    while sc.world.counted_by_path_nodes("directories_given_up") == 0 {
        let (id, name) = sc.directory_of(H, &format!("{:-<1$}", "d", 16 + 8 * dirs.len()));
        assert_eq!(follow(&mut sc, walker, &[&name]), (id, 1));
        dirs.push((id, name));
    }
    let inside = Name::new(b"in").expect("a short name");
    for (id, name) in &dirs {
        sc.must(Request::SetAttr { id: *id, set: mode(0o700) });
        assert_eq!(follow(&mut sc, walker, &[name, &inside]), (*id, 1));
    }
    sc.ends_well();
}

/// Of who may be in the group that decides a path node is told before it says how far names lead.
#[test]
pub(crate) fn a_path_node_asks_who_is_in_a_group() {
    let member = 4_100;
    let mut sc = Scenario::with_path_node(3);
    let callers =
        [Caller::new(4_001, 4_001), Caller { groups: [member].into_iter().collect(), ..Caller::new(4_002, 4_002) }];
    let walkers = callers.map(|caller| sc.world.add_session(&[caller]));
    sc.go_on();
    let ([a, b], [a_id, b_id]) = way(&mut sc);
    for gid in [member, 0, member] {
        let set = SetAttr { valid: set::MODE | set::GID, gid, ..mode(0o750) };
        sc.must(Request::SetAttr { id: a_id, set });
        let denied = (a_id, 1);
        let expected = if gid == member { (b_id, 2) } else { denied };
        assert_eq!(walkers.map(|walker| follow(&mut sc, walker, &[&a, &b])), [denied, expected], "group {gid}");
    }
    sc.ends_well();
}
