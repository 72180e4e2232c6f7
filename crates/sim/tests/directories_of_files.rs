//! A file tells in which directories its names are, wherever these and its inode are.
//!
//! `Scenario::ends_well` compares what all files tell with all names.

use onpath_sim::scenario::{Scenario, create, make, rename, shard, unlink};
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::peer::Peer;
use onpath_wire::reply::Reply;
use onpath_wire::request::{Request, rename as flag};

const SHARDS: u16 = 3;

fn born(sc: &mut Scenario, request: Request) -> InodeId {
    match sc.must(request) {
        Reply::Entry { attr, .. } => attr.id,
        other => panic!("create answered {other:?}"),
    }
}

fn link(id: InodeId, parent: InodeId, name: &Name) -> Request {
    Request::Link { id, parent, name: name.clone() }
}

fn exchange((from_parent, from): (InodeId, &Name), (parent, name): (InodeId, &Name)) -> Request {
    Request::Rename { from_parent, from: from.clone(), parent, name: name.clone(), flags: flag::EXCHANGE }
}

fn places() -> impl Iterator<Item = [u16; 3]> {
    (0..SHARDS).flat_map(|h| (0..SHARDS).flat_map(move |p| (0..SHARDS).map(move |c| [h, p, c])))
}

/// A file whose inode is at one shard and whose names at two others; what is done to it, and after how much of that it is looked at.
fn story(sc: &mut Scenario, [home, p, c]: [u16; 3], until: usize) {
    let [(a, _), (b, _), (d, _)] = ["a", "b", "d"].map(|name| sc.directory_of(0, name));
    let (x, y, z) = (sc.name_at(a, home, "x"), sc.name_at(b, p, "y"), sc.name_at(d, c, "z"));
    let (y_in_a, z_in_b) = (sc.name_at(a, p, "y"), sc.name_at(b, c, "z"));
    let (u, v) = (sc.name_at(d, p, "u"), sc.name_at(a, c, "v"));
    let file = born(sc, create(a, &x));
    born(sc, create(d, &u));
    let steps = [
        link(file, b, &y),
        unlink(a, &x), // its directory is b now
        link(file, b, &z_in_b),
        link(file, d, &z),
        rename((b, &y), (a, &y_in_a)),
        rename((a, &y_in_a), (a, &v)), // within one directory
        exchange((b, &z_in_b), (d, &u)),
        rename((b, &z_in_b), (d, &z)), // takes the name over
        unlink(a, &v),
        unlink(d, &u),
    ];
    for step in steps.into_iter().take(until) {
        sc.must(step);
    }
}

#[test]
fn a_file_tells_where_its_names_are() {
    for place in places() {
        for until in 0..=10 {
            let mut sc = Scenario::new(SHARDS);
            story(&mut sc, place, until);
            sc.ends_well();
        }
    }
}

/// The home restarts: what it tells comes from its journal.
#[test]
fn it_tells_so_after_a_restart() {
    for home in 0..SHARDS {
        for until in 0..=10 {
            let mut sc = Scenario::new(SHARDS);
            story(&mut sc, [home, (home + 1) % SHARDS, (home + 2) % SHARDS], until);
            sc.restart(home);
            sc.ends_well();
        }
    }
}

/// Decided, but the home has not heard when it restarts: the promise has the directory.
#[test]
fn a_promise_has_the_directory_across_a_restart() {
    type What = fn(InodeId, InodeId, &Name, InodeId, &Name) -> Request;
    let all: [What; 3] = [
        |file, _, _, to, name| link(file, to, name),
        |_, from, old, _, _| unlink(from, old),
        |_, from, old, to, name| rename((from, old), (to, name)),
    ];
    for what in all {
        let mut sc = Scenario::new(SHARDS);
        let ((a, _), (b, _)) = (sc.directory_of(0, "a"), sc.directory_of(0, "b"));
        let (x, y, z) = (sc.name_at(a, 2, "x"), sc.name_at(a, 1, "y"), sc.name_at(b, 1, "z"));
        let file = born(&mut sc, create(a, &x));
        sc.must(link(file, a, &y));
        let commits =
            sc.hold(|m| m.to() == shard(2) && matches!(m.peer(), Some(Peer::Commit { .. } | Peer::Decided { .. })));
        let done = sc.ask(what(file, a, &y, b, &z));
        sc.succeeds(done);
        sc.restart(2);
        sc.let_go(commits);
        sc.ends_well();
    }
}

/// Files of all kinds, and names of one file in one directory.
#[test]
fn further_names_in_one_directory() {
    for (kind, home) in [(Kind::Symlink, 0), (Kind::Fifo, 1), (Kind::File, 2)] {
        let mut sc = Scenario::new(SHARDS);
        let (dir, _) = sc.directory_of(1, "dir");
        let first = sc.name_at(dir, home, "first");
        let id = born(&mut sc, make(dir, &first, kind, 0o644));
        let names: Vec<Name> = (0..SHARDS).map(|at| sc.name_at(dir, at, "more")).collect();
        names.iter().for_each(|name| _ = sc.must(link(id, dir, name)));
        sc.must(unlink(dir, &first));
        sc.must(unlink(dir, &names[1]));
        sc.ends_well();
    }
}
