//! Names that change places, and files that are born without one: schedules directed by hand (docs/internals/counterexamples.md).
//!
//! C coordinates (the destination's site), P is the source's site, H the home of both directories.

use onpath_sim::scenario::{Scenario, alice, create, make, read, rename, rmdir, shard, unlink};
use onpath_wire::attr::AttrWire;
use onpath_wire::codec::Blob;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{InodeId, NodeId, Slot};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::peer::Peer;
use onpath_wire::reply::Reply;
use onpath_wire::request::{NewNode, Request, open, rename as flag};

const P: u16 = 0;
const C: u16 = 1;
const H: u16 = 2;

/// Two directories of H's with a name each, at P and at C.
struct Places {
    from: InodeId,
    from_name: Name,
    b: Name,
    to: InodeId,
    a: Name,
}

impl Places {
    fn new(sc: &mut Scenario) -> Places {
        let ((from, from_name), (to, _)) = (sc.directory_of(H, "from"), sc.directory_of(H, "to"));
        let (b, a) = (sc.name_at(from, P, "b"), sc.name_at(to, C, "a"));
        Places { from, from_name, b, to, a }
    }

    /// The same with what `kinds` says under both names.
    fn with(sc: &mut Scenario, [one, other]: [Kind; 2]) -> Places {
        let places = Places::new(sc);
        sc.must(make(places.from, &places.b, one, 0o755));
        sc.must(make(places.to, &places.a, other, 0o755));
        places
    }

    fn exchange(&self) -> Request {
        with_flags(rename((self.from, &self.b), (self.to, &self.a)), flag::EXCHANGE)
    }

    fn found(&self, sc: &mut Scenario) -> [InodeId; 2] {
        [(self.from, &self.b), (self.to, &self.a)].map(|(dir, name)| look(sc, dir, name).id)
    }
}

fn with_flags(request: Request, flags: u32) -> Request {
    let Request::Rename { from_parent, from, parent, name, .. } = request else { unreachable!("it renames") };
    Request::Rename { from_parent, from, parent, name, flags }
}

fn look(sc: &mut Scenario, parent: InodeId, name: &Name) -> AttrWire {
    match sc.must(Request::Lookup { parent, name: name.clone() }) {
        Reply::Entry { attr, .. } => attr,
        other => panic!("lookup answered {other:?}"),
    }
}

/// A name is missing at the source's site, and at the destination is a directory whose home would not let it move: the source is
/// looked for first, whoever answers last.
#[test]
fn a_name_that_is_missing_counts_before_a_directory_that_must_not_move() {
    for (missing, home) in [(P, H), (H, P)] {
        let mut sc = Scenario::new(3);
        let places = Places::new(&mut sc);
        let (b, a) = (sc.name_at(places.from, missing, "missing"), sc.name_at(places.to, home, "a"));
        sc.must(make(places.to, &a, Kind::Directory, 0o755));
        sc.must(rename((places.to, &a), (places.to, &places.a)));
        let exchange = with_flags(rename((places.from, &b), (places.to, &places.a)), flag::EXCHANGE);
        let exchanged = sc.ask_as(alice(), exchange);
        sc.fails(exchanged, Errno::ENOENT);
        sc.ends_well();
    }
}

fn votes(sc: &mut Scenario) -> onpath_sim::world::HoldId {
    sc.hold(|m| m.to() == shard(C) && matches!(m.peer(), Some(Peer::Prepared { .. })))
}

/// Decided, and its reply has left, but the source's site has not heard: whoever asks for the source name waits, across a restart
/// of that site too, and then finds the other inode.
#[test]
fn nobody_finds_the_old_inode_under_both_names() {
    for restarts in [false, true] {
        let mut sc = Scenario::new(3);
        let places = Places::with(&mut sc, [Kind::File; 2]);
        let [one, other] = places.found(&mut sc);
        let commits =
            sc.hold(|m| m.to() == shard(P) && matches!(m.peer(), Some(Peer::Commit { .. } | Peer::Decided { .. })));
        let exchanged = sc.ask(places.exchange());
        sc.succeeds(exchanged);
        if restarts {
            sc.restart(P);
        }
        let source = sc.ask(Request::Lookup { parent: places.from, name: places.b.clone() });
        let listed = sc.ask(read(places.from));
        sc.go_on();
        sc.waits(source);
        sc.waits(listed);
        sc.let_go(commits);
        sc.succeeds(source);
        sc.succeeds(listed);
        assert_eq!(places.found(&mut sc), [other, one]);
        sc.ends_well();
    }
}

/// An exchange has its votes on the way when something else begins that wants one of its names, inodes or directories.
#[test]
fn an_exchange_and_what_races_with_it() {
    type Racer = fn(&Places) -> Request;
    let racers: [Racer; 9] = [
        |p| unlink(p.from, &p.b),
        |p| unlink(p.to, &p.a),
        |p| Request::Rmdir { parent: p.to, name: p.a.clone() },
        |p| rename((p.from, &p.b), (p.to, &p.a)),
        |p| rename((p.to, &p.a), (p.from, &p.b)),
        |p| with_flags(rename((p.to, &p.a), (p.from, &p.b)), flag::EXCHANGE),
        |p| with_flags(rename((p.from, &p.b), (p.to, &p.a)), flag::WHITEOUT),
        |p| rmdir(&p.from_name),
        |p| Request::SetAttr { id: p.from, set: onpath_sim::scenario::mode(0o711) },
    ];
    for kinds in [[Kind::File; 2], [Kind::File, Kind::Directory], [Kind::Directory; 2]] {
        for racer in racers {
            let mut sc = Scenario::new(3);
            let places = Places::with(&mut sc, kinds);
            let held = votes(&mut sc);
            let exchanged = sc.ask(places.exchange());
            while sc.world.held(held) == 0 {
                sc.go_on();
            }
            let raced = sc.ask(racer(&places));
            sc.go_on();
            sc.let_go(held);
            sc.succeeds(exchanged);
            sc.wait_for(raced);
            sc.ends_well();
        }
    }
}

/// Two exchanges, each of which alone is allowed, would together put two directories into each other: they take turns.
#[test]
fn two_exchanges_make_no_circle() {
    let mut sc = Scenario::new(3);
    let ((d, d_name), (e, e_name)) = (sc.directory_of(H, "d"), sc.directory_of(C, "e"));
    let (x, y) = (sc.name_at(d, H, "x"), sc.name_at(e, C, "y"));
    sc.must(create(d, &x));
    sc.must(create(e, &y));
    let root = InodeId::ROOT;
    let turn = sc.hold(|m| matches!(m.peer(), Some(Peer::RenameLock { .. })));
    let first = sc.ask(with_flags(rename((root, &d_name), (e, &y)), flag::EXCHANGE));
    let second = sc.ask(with_flags(rename((root, &e_name), (d, &x)), flag::EXCHANGE));
    sc.go_on();
    sc.let_go(turn);
    let ends = [sc.wait_for(first), sc.wait_for(second)];
    let refused = ends.iter().filter(|end| **end == Reply::Failed { errno: Errno::EINVAL }).count();
    assert_eq!((refused, ends.contains(&Reply::Done)), (1, true), "{ends:?}");
    sc.ends_well();
}

/// Neither may be above the other, wherever names and homes are.
#[test]
fn no_exchange_with_what_is_above() {
    let mut sc = Scenario::new(3);
    let (top, top_name) = sc.directory_of(P, "top");
    let (mut at, mut name) = (top, top_name.clone());
    for shard in [C, H, P] {
        let next = sc.name_at(at, shard, "in");
        sc.must(make(at, &next, Kind::Directory, 0o755));
        for (one, other) in [((InodeId::ROOT, &top_name), (at, &next)), ((at, &next), (InodeId::ROOT, &top_name))] {
            let circle = sc.ask(with_flags(rename(one, other), flag::EXCHANGE));
            sc.fails(circle, Errno::EINVAL);
        }
        (at, name) = (look(&mut sc, at, &next).id, next);
    }
    assert_ne!(name, top_name);
    sc.ends_well();
}

/// The whiteout is made where the destination is, and is there in the same moment, across a restart of the source's site.
#[test]
fn a_whiteout_is_there_when_the_name_has_moved() {
    let mut sc = Scenario::new(3);
    let places = Places::new(&mut sc);
    sc.must(create(places.from, &places.b));
    let moved = look(&mut sc, places.from, &places.b).id;
    let commits =
        sc.hold(|m| m.to() == shard(P) && matches!(m.peer(), Some(Peer::Commit { .. } | Peer::Decided { .. })));
    let renamed = with_flags(rename((places.from, &places.b), (places.to, &places.a)), flag::WHITEOUT);
    let renamed = sc.ask(renamed);
    sc.succeeds(renamed);
    sc.restart(P);
    sc.let_go(commits);
    let left = look(&mut sc, places.from, &places.b);
    assert_eq!((left.kind, left.rdev(), left.mode, left.nlink), (Kind::CharDevice, 0, 0, 1));
    assert_eq!(look(&mut sc, places.to, &places.a).id, moved);
    assert_eq!(sc.names(places.from), std::slice::from_ref(&places.b));
    sc.ends_well();
}

/// A file without a name at P, of nobody: it stays for a second.
fn nameless(sc: &mut Scenario, open: u32) -> InodeId {
    let slot = (0..).map(Slot).find(|&slot| NodeId::shard(sc.world.map().shard(slot)) == shard(P));
    let (slot, target) = (slot.expect("every shard has slots"), Blob::default());
    let node = NewNode { kind: Kind::File, mode: 0o600, umask: 0, rdev: 0, target, open };
    match sc.must(Request::TmpFile { parent: InodeId::ROOT, slot, node }) {
        Reply::Entry { attr, created: true, .. } if attr.nlink == 0 => attr.id,
        other => panic!("tmpfile answered {other:?}"),
    }
}

/// A nameless file is to be reclaimed while link is under way to give it a name: before it is promised the link fails, afterwards
/// it is the reclaiming that finds a name, across a restart of the home too.
#[test]
fn a_nameless_file_is_named_or_gone() {
    for (promised, restarts) in [(false, false), (true, false), (true, true)] {
        let mut sc = Scenario::new(3);
        let id = nameless(&mut sc, 0);
        let name = sc.name_at(InodeId::ROOT, C, "f");
        let held = match promised {
            true => votes(&mut sc),
            false => sc.hold(|m| m.to() == shard(P) && matches!(m.peer(), Some(Peer::Prepare { .. }))),
        };
        let linked = sc.ask(Request::Link { id, parent: InodeId::ROOT, name: name.clone() });
        while sc.world.held(held) == 0 {
            sc.go_on();
        }
        if restarts {
            sc.restart(P);
        }
        sc.go_on_for(if restarts { 1_000_000_000 } else { 1_900_000_000 });
        sc.let_go(held);
        if promised {
            sc.succeeds(linked);
            sc.go_on_for(15_000_000_000); // the grace of a restart is over
            assert_eq!(look(&mut sc, InodeId::ROOT, &name).id, id);
        } else {
            sc.fails(linked, Errno::ENOENT);
        }
        sc.ends_well();
    }
}

/// It may be named across a restart of its home; what O_EXCL has made never is, nor what has lost its name again.
#[test]
fn who_may_get_a_name_outlives_a_restart() {
    let mut sc = Scenario::new(3);
    // A session that lives and does not say whether it has taken everything again: the grace of opens goes on.
    let silent = sc.reader_at(P);
    let joined = sc.ask_by(silent, Request::Attach { again: false });
    sc.succeeds(joined);
    let [named, never, lost] = [0, open::EXCLUSIVE, 0].map(|open| nameless(&mut sc, open));
    let link = |id, name: &Name| Request::Link { id, parent: InodeId::ROOT, name: name.clone() };
    let names = [P, C, H].map(|shard| sc.name_at(InodeId::ROOT, shard, "f"));
    sc.must(link(lost, &names[0]));
    sc.must(Request::Open { id: lost, flags: open::READ | open::REGISTER });
    sc.must(unlink(InodeId::ROOT, &names[0]));
    sc.restart(P);
    sc.must(link(named, &names[1]));
    for id in [never, lost] {
        for name in [&names[0], &names[2]] {
            let refused = sc.ask(link(id, name));
            sc.fails(refused, Errno::ENOENT);
        }
    }
    assert_eq!(look(&mut sc, InodeId::ROOT, &names[1]).nlink, 1);
    sc.ends_well();
}
