//! A directory's inode has the name that leads to it, wherever its names and its inode are.
//!
//! `Scenario::ends_well` compares them. H is the home of the directory, P the site of its name, C that of the new one.

use onpath_sim::scenario::{Scenario, make, rename, shard};
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::peer::Peer;
use onpath_wire::request::{Request, rename as flag};

const SHARDS: u16 = 3;

/// A directory with a name at this shard, and its home where it was born.
fn directory(sc: &mut Scenario, parent: InodeId, home: u16, site: u16, prefix: &str) -> Name {
    let born = sc.name_at(parent, home, &format!("{prefix}-born"));
    sc.must(make(parent, &born, Kind::Directory, 0o755));
    let name = sc.name_at(parent, site, prefix);
    sc.must(rename((parent, &born), (parent, &name)));
    name
}

fn exchange((from_parent, from): (InodeId, &Name), (parent, name): (InodeId, &Name)) -> Request {
    Request::Rename { from_parent, from: from.clone(), parent, name: name.clone(), flags: flag::EXCHANGE }
}

/// Every place of home, old and new name, in one directory and from one to another.
#[test]
fn a_rename_tells_the_home() {
    for (home, p, c) in (0..SHARDS).flat_map(|h| (0..SHARDS).flat_map(move |p| (0..SHARDS).map(move |c| (h, p, c)))) {
        let mut sc = Scenario::new(SHARDS);
        let (other, _) = sc.directory_of(0, "other");
        for to in [InodeId::ROOT, other] {
            let old = directory(&mut sc, InodeId::ROOT, home, p, &format!("old{}", to.0));
            let new = sc.name_at(to, c, "new");
            sc.must(rename((InodeId::ROOT, &old), (to, &new)));
        }
        sc.ends_well();
    }
}

#[test]
fn an_exchange_tells_both_homes() {
    for (home, p, c) in (0..SHARDS).flat_map(|h| (0..SHARDS).flat_map(move |p| (0..SHARDS).map(move |c| (h, p, c)))) {
        let mut sc = Scenario::new(SHARDS);
        let (parent, _) = sc.directory_of(0, "other");
        for to in [InodeId::ROOT, parent] {
            let one = directory(&mut sc, InodeId::ROOT, home, p, &format!("one{}", to.0));
            let other = directory(&mut sc, to, (home + 1) % SHARDS, c, "two");
            sc.must(exchange((InodeId::ROOT, &one), (to, &other)));
            let file = sc.name_at(to, c, "file");
            sc.must(make(to, &file, Kind::File, 0o644));
            sc.must(exchange((InodeId::ROOT, &one), (to, &file)));
        }
        sc.ends_well();
    }
}

/// Decided, but a participant has not heard when it restarts: the promise has the name.
#[test]
fn a_promise_has_the_name_across_a_restart() {
    for (home, p) in [(2, 0), (2, 2), (0, 2)] {
        for exchanges in [false, true] {
            let mut sc = Scenario::new(SHARDS);
            let old = directory(&mut sc, InodeId::ROOT, home, p, "old");
            let new = sc.name_at(InodeId::ROOT, 1, "new");
            let request = if exchanges {
                sc.must(make(InodeId::ROOT, &new, Kind::Directory, 0o755));
                exchange((InodeId::ROOT, &old), (InodeId::ROOT, &new))
            } else {
                rename((InodeId::ROOT, &old), (InodeId::ROOT, &new))
            };
            let commits = sc
                .hold(|m| m.from() == shard(1) && matches!(m.peer(), Some(Peer::Commit { .. } | Peer::Decided { .. })));
            let renamed = sc.ask(request);
            sc.succeeds(renamed);
            sc.restart(home);
            sc.restart(p);
            sc.let_go(commits);
            sc.ends_well();
        }
    }
}
