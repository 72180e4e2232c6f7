//! The library of situations of paths.
//!
//! S has the coordinator module, Q is the path node. `a` has its name at T and its home at A; `e` is a name at S that nothing has.

use super::scene::{Act, Has, Placed, Program, Scene, closed_dir, dir, file, free, link, open_dir};
use crate::explore::situations::{A, S, Script, Situation, T};
use crate::scenario::{Scenario, shard};
use crate::world::{Commit, Message, WorldConfig};
use onpath_path::IndexKind;
use onpath_wire::ids::NodeId;
use onpath_wire::peer::Peer;
use onpath_wire::tracking::Form;

/// A world of situations.
type Shape = (u16, Form, fn(&mut WorldConfig));

/// A path node, and nothing is acknowledged that a loss of power could take.
const Q: Shape = (3, Form::Owner, |world| (world.path_nodes, world.commit) = (1, Commit::Sync));
/// The same with two of them.
const TWO: Shape = (3, Form::Owner, |world| (world.path_nodes, world.commit) = (2, Commit::Sync));
/// The same with other indexes.
const MART: Shape = (3, Form::Owner, |world| {
    (world.path_nodes, world.commit, world.path_index) = (1, Commit::Sync, IndexKind::Mart);
});
const ART: Shape = (3, Form::Owner, |world| {
    (world.path_nodes, world.commit, world.path_index) = (1, Commit::Sync, IndexKind::Art);
});
/// Path nodes that load all that there is.
const LOADS: Shape = (3, Form::Owner, |world| {
    (world.path_nodes, world.commit, world.path_loads) = (1, Commit::Sync, true);
});
/// The journal is flushed seldom, so that few timers fire until a lease is over.
const SELDOM: Shape = (3, Form::Owner, |world| (world.path_nodes, world.commit) = (1, Commit::Interval(5_000)));

/// The process of the path node, behind those of three shards.
const PROCESS_OF_Q: usize = 3;
/// Less than any pause before something is sent again, ns.
const MOMENT_NS: u64 = 1_000_000;
/// Later than the slack of a lease, and not so late that it is asked for anew, ns.
const LATE_NS: u64 = 400_000_000;

/// Virtual time in which the other homes have granted all, ns.
const LOADED_NS: u64 = 300_000_000;

/// A file two directories deep, and a name for its upper one.
const DEEP: &[Has] = &[dir("a", T, A), dir("a/b", S, T), file("a/b/f", T, T), free("e", S)];
/// The same, and a directory of the same home with its name at the same site: who has followed that knows all but the way itself.
const DEEP_BESIDE: &[Has] =
    &[dir("a", T, A), dir("a/b", S, T), file("a/b/f", T, T), free("e", S), dir("z", T, A), free("h", S)];
/// The same where everybody may make things in the lower one.
const OPEN: &[Has] = &[dir("a", T, A), open_dir("a/b", S, T), free("a/b/n", A), free("e", S)];

/// Who keeps no ways.
const fn by(acts: &'static [Act]) -> Program {
    Program { keeps: false, acts }
}

/// Who keeps ways.
const fn kept(acts: &'static [Act]) -> Program {
    Program { keeps: true, acts }
}

/// Everything is as it should be.
fn well(_: &mut Scenario, _: &Placed) {}

/// What is between Q and the home of `a`.
fn between(m: &Message<'_>) -> bool {
    let (q, home) = (NodeId::path(0), shard(A));
    m.from() == q && m.to() == home || m.from() == home && m.to() == q
}

/// The home of `a` and Q do not hear of each other any more.
fn cut_off(sc: &mut Scenario, _: &Placed) {
    sc.hold(between);
}

/// The home of `a` hears no decision.
fn undecided(sc: &mut Scenario, _: &Placed) {
    sc.hold(|m| m.to() == shard(A) && matches!(m.peer(), Some(Peer::Commit { .. } | Peer::Decided { .. })));
}

/// The same as [`cut_off`], and the home has begun anew.
fn cut_off_anew(sc: &mut Scenario, placed: &Placed) {
    cut_off(sc, placed);
    sc.restart(A);
}

/// The same, and a lease that Q has asked for before is late.
fn cut_off_late(sc: &mut Scenario, placed: &Placed) {
    let late = sc.hold(|m| m.from() == shard(A) && matches!(m.peer(), Some(Peer::PathLease { .. })));
    while sc.world.held(late) == 0 {
        sc.go_on_for(MOMENT_NS);
    }
    cut_off(sc, placed);
    sc.go_on_for(LATE_NS);
    sc.world.stop_holding(late);
}

/// Q has begun anew, and what it was granted of `a` with others of its home is late. What comes behind it stays away, page by page.
fn loading(sc: &mut Scenario, placed: &Placed) {
    let a = placed.id("a");
    let has_a =
        move |peer| matches!(peer, Some(Peer::Paths { parts, .. }) if parts.iter().any(|granted| granted.dir == a));
    let late = sc.hold(move |m| has_a(m.peer()));
    sc.world.crash(PROCESS_OF_Q, false);
    while sc.world.held(late) == 0 {
        sc.go_on_for(MOMENT_NS);
    }
    let asks = |m: &Message<'_>| matches!(m.peer(), Some(Peer::PathsAsk { .. }));
    sc.hold(move |m| m.to() == shard(A) && asks(m));
    sc.go_on_for(LOADED_NS);
    sc.hold(asks);
    sc.world.stop_holding(late);
}

const fn of(name: &'static str, about: &'static str, world: Shape, scene: Scene) -> Situation {
    Situation { name, about, world, script: Script::Paths(scene) }
}

use Act::{Acl, Chmod, Create, Exchange, Lead, Link, MakeAt, Mkdir, Rename, Rmdir, Symlink, Unlink, Walk};

/// All situations of paths.
pub(crate) const OF_PATHS: &[Situation] = &[
    of(
        "path-rename",
        "a directory on a path that Q holds is renamed; the path is followed by both names",
        Q,
        Scene {
            tree: DEEP,
            programs: &[by(&[Rename("a", "e"), Walk("e/b/f"), Walk("a/b/f")]), by(&[Walk("a/b/f")])],
            known: &["a/b"],
            begin: well,
        },
    ),
    of(
        "path-rename-cold",
        "the same where Q holds another one",
        Q,
        Scene {
            tree: DEEP_BESIDE,
            programs: &[by(&[Mkdir("h"), Rename("a", "e"), Walk("e/b/f")]), by(&[Walk("a/b/f")])],
            known: &["z"],
            begin: well,
        },
    ),
    of(
        "path-rename-mart",
        "a directory on a path that Q holds in the tree of the paper is renamed, and back",
        MART,
        Scene {
            tree: DEEP,
            programs: &[by(&[Rename("a", "e"), Rename("e", "a")]), by(&[Walk("a/b/f")])],
            known: &["a/b"],
            begin: well,
        },
    ),
    of(
        "path-rename-art",
        "a directory on a path that Q holds in a plain tree of paths is renamed",
        ART,
        Scene {
            tree: DEEP,
            programs: &[by(&[Rename("a", "e")]), by(&[Walk("a/b/f"), Walk("e/b/f")])],
            known: &["a/b"],
            begin: well,
        },
    ),
    of(
        "path-exchange",
        "two directories that Q holds are exchanged while both are followed",
        Q,
        Scene {
            tree: &[dir("a", T, A), file("a/f", S, S), dir("c", S, T), file("c/g", A, A)],
            programs: &[by(&[Exchange("a", "c")]), by(&[Walk("a/f"), Walk("c/f")])],
            known: &["a", "c"],
            begin: well,
        },
    ),
    of(
        "path-rmdir",
        "a directory that Q holds is removed, and another one made under its name, with a file in it",
        Q,
        Scene {
            tree: &[dir("a", T, A), dir("a/b", T, T), free("a/b/x", A)],
            programs: &[by(&[Rmdir("a/b"), Mkdir("a/b"), Create("a/b/x")]), by(&[Walk("a/b/x")])],
            known: &["a/b"],
            begin: well,
        },
    ),
    of(
        "path-over",
        "an empty directory that Q holds is replaced by another one while names in it are looked up",
        Q,
        Scene {
            tree: &[dir("a", T, A), dir("a/b", S, T), dir("a/c", A, S), file("a/c/x", T, T)],
            programs: &[by(&[Rename("a/c", "a/b")]), by(&[Walk("a/b/x"), Walk("a/c/x")])],
            known: &["a/b", "a/c"],
            begin: well,
        },
    ),
    of(
        "path-chmod",
        "a directory on a path that Q holds is closed while the path is followed",
        Q,
        Scene {
            tree: DEEP,
            programs: &[by(&[Chmod("a", 0o700), Walk("a/b/f")]), by(&[Walk("a/b/f")])],
            known: &["a/b"],
            begin: well,
        },
    ),
    of(
        "path-chmod-cold",
        "the same where Q holds another one",
        Q,
        Scene {
            tree: DEEP_BESIDE,
            programs: &[by(&[Mkdir("h"), Chmod("a", 0o700), Walk("a/b/f")]), by(&[Walk("a/b/f")])],
            known: &["z"],
            begin: well,
        },
    ),
    of(
        "path-acl",
        "an ACL is given to a directory on a path that Q holds, which refuses who follows it",
        Q,
        Scene {
            tree: DEEP,
            programs: &[by(&[Acl("a", 0), Walk("a/b/f")]), by(&[Walk("a/b/f")])],
            known: &["a/b"],
            begin: well,
        },
    ),
    of(
        "path-opened",
        "a directory that nobody may search is opened, and what is in it renamed",
        Q,
        Scene {
            tree: &[closed_dir("a", T, A), dir("a/b", S, T), file("a/b/f", T, T), free("a/c", S)],
            programs: &[by(&[Chmod("a", 0o755), Rename("a/b", "a/c")]), by(&[Walk("a/b/f"), Walk("a/c/f")])],
            known: &["a"],
            begin: well,
        },
    ),
    of(
        "path-last-made-anew",
        "the last name of a path is unlinked and made anew",
        Q,
        Scene {
            tree: DEEP,
            programs: &[by(&[Unlink("a/b/f"), Create("a/b/f")]), by(&[Walk("a/b/f")])],
            known: &["a/b"],
            begin: well,
        },
    ),
    of(
        "path-last-replaced",
        "the last name of a path is replaced by a rename, and is closed",
        Q,
        Scene {
            tree: &[dir("a", T, A), dir("a/b", S, T), file("a/b/f", T, T), file("a/g", A, S)],
            programs: &[by(&[Rename("a/g", "a/b/f"), Chmod("a/g", 0o600)]), by(&[Walk("a/b/f"), Walk("a/g")])],
            known: &["a/b"],
            begin: well,
        },
    ),
    of(
        "path-last-linked",
        "the last name of a path gets another one, and is unlinked",
        Q,
        Scene {
            tree: &[dir("a", T, A), dir("a/b", S, T), file("a/b/f", T, T), free("a/g", A)],
            programs: &[by(&[Link("a/b/f", "a/g"), Unlink("a/b/f")]), by(&[Walk("a/b/f"), Walk("a/g")])],
            known: &["a/b"],
            begin: well,
        },
    ),
    of(
        "path-link-replaced",
        "a symbolic link at the end of a path is replaced by another one while it is followed",
        Q,
        Scene {
            tree: &[dir("a", T, A), link("a/l", S, "a/f"), file("a/f", T, T), file("a/g", A, A), free("a/m", A)],
            programs: &[by(&[Symlink("a/m", "a/g"), Rename("a/m", "a/l")]), by(&[Walk("a/l")])],
            known: &["a"],
            begin: well,
        },
    ),
    of(
        "path-two-renames",
        "both directories on a path are renamed at once by two, while it is followed",
        Q,
        Scene {
            tree: &[dir("a", T, A), dir("a/b", S, T), file("a/b/f", T, T), free("e", S), free("h", A)],
            programs: &[by(&[Rename("a", "e")]), by(&[Rename("a/b", "h")]), by(&[Walk("a/b/f")])],
            known: &["a/b"],
            begin: well,
        },
    ),
    of(
        "path-two-changes",
        "a directory is renamed and closed at once by two, while it is followed",
        Q,
        Scene {
            tree: DEEP,
            programs: &[by(&[Rename("a", "e")]), by(&[Chmod("a", 0o700)]), by(&[Walk("a/b/f")])],
            known: &["a/b"],
            begin: well,
        },
    ),
    of(
        "path-two-nodes",
        "a directory that two path nodes hold is renamed while two follow it",
        TWO,
        Scene {
            tree: DEEP,
            programs: &[by(&[Walk("a/b/f"), Walk("e/b/f")]), by(&[Rename("a", "e"), Walk("a/b/f")])],
            known: &["a/b"],
            begin: well,
        },
    ),
    of(
        "path-load",
        "Q asks for all, and what it was granted is late; a directory is closed",
        LOADS,
        Scene { tree: DEEP, programs: &[by(&[Chmod("a", 0o700), Walk("a/b/f")])], known: &[], begin: loading },
    ),
    of(
        "path-load-rename",
        "the same where a directory is renamed by one, and followed by another one",
        LOADS,
        Scene {
            tree: DEEP,
            programs: &[by(&[Rename("a", "e")]), by(&[Walk("a/b/f"), Walk("e/b/f")])],
            known: &[],
            begin: loading,
        },
    ),
    of(
        "path-promised",
        "a directory on a path that Q holds is renamed, and its home does not hear that this is decided; both names are followed",
        SELDOM,
        Scene {
            tree: DEEP,
            programs: &[by(&[Rename("a", "e"), Lead("e/b"), Lead("a/b")])],
            known: &["a/b"],
            begin: undecided,
        },
    ),
    of(
        "path-cut-off",
        "a home that does not hear of Q closes a directory that Q holds",
        SELDOM,
        Scene { tree: DEEP, programs: &[by(&[Chmod("a", 0o700), Walk("a/b/f")])], known: &["a/b"], begin: cut_off },
    ),
    of(
        "path-cut-off-anew",
        "the same when the home has begun anew",
        SELDOM,
        Scene {
            tree: DEEP,
            programs: &[by(&[Chmod("a", 0o700), Walk("a/b/f")])],
            known: &["a/b"],
            begin: cut_off_anew,
        },
    ),
    of(
        "path-late-lease",
        "the same when Q hears late of a lease",
        SELDOM,
        Scene {
            tree: DEEP,
            programs: &[by(&[Chmod("a", 0o700), Walk("a/b/f")])],
            known: &["a/b"],
            begin: cut_off_late,
        },
    ),
    of(
        "way-chmod",
        "a directory on a way that a session keeps is closed while it follows it",
        Q,
        Scene {
            tree: DEEP,
            programs: &[kept(&[Walk("a/b/f"), Walk("a/b/f")]), by(&[Chmod("a", 0o700)])],
            known: &["a/b"],
            begin: well,
        },
    ),
    of(
        "way-closed",
        "who keeps a way closes a directory on it, and follows it",
        Q,
        Scene { tree: DEEP, programs: &[kept(&[Chmod("a", 0o700), Walk("a/b/f")])], known: &["a/b"], begin: well },
    ),
    of(
        "way-make",
        "a directory is made by a way that a session keeps, while one on the way is closed and opened",
        Q,
        Scene {
            tree: OPEN,
            programs: &[kept(&[MakeAt("a/b/n")]), by(&[Chmod("a", 0o700), Chmod("a", 0o755)])],
            known: &["a/b"],
            begin: well,
        },
    ),
    of(
        "way-rename",
        "a directory is made by a way that a session keeps, while one on the way is renamed",
        Q,
        Scene {
            tree: OPEN,
            programs: &[kept(&[MakeAt("a/b/n")]), by(&[Rename("a", "e")])],
            known: &["a/b"],
            begin: well,
        },
    ),
    of(
        "way-rmdir",
        "a directory is made by a way that a session keeps, while the one in which it is to be is removed",
        Q,
        Scene { tree: OPEN, programs: &[kept(&[MakeAt("a/b/n")]), by(&[Rmdir("a/b")])], known: &["a/b"], begin: well },
    ),
    of(
        "way-two",
        "two that keep a way follow it while a directory on it is renamed",
        Q,
        Scene {
            tree: DEEP,
            programs: &[kept(&[Walk("a/b/f")]), kept(&[Walk("a/b/f")]), by(&[Rename("a", "e")])],
            known: &["a/b"],
            begin: well,
        },
    ),
];
