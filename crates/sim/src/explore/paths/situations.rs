//! The library of situations of paths.
//!
//! S has the coordinator module, Q is the path node. `a` has its name at T and its home at A; `e` is a name at S that nothing has.

use super::beginnings::{
    closed, closed_and_anew, cut_off, cut_off_anew, cut_off_late, followed_deeper, led_elsewhere, loaded_and_given_up,
    loaded_twice, loading, undecided, well,
};
use super::scene::{Act, Has, Of, Program, Scene, closed_dir, dir, file, free, group_dir, link, open_dir};
use crate::explore::situations::{A, S, Script, Situation, T};
use crate::world::{Commit, WorldConfig};
use onpath_path::IndexKind;
use onpath_wire::tracking::Form;

/// A world of situations.
pub(super) type Shape = (u16, Form, fn(&mut WorldConfig));

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

/// Bytes of memory in which an index has room for three directories with names of [different widths](Has::wide).
const ROOM: usize = 25 * 4096;
/// A path node with so much room.
const SMALL: Shape = (3, Form::Owner, |world| {
    (world.path_nodes, world.commit, world.path_bytes) = (1, Commit::Sync, ROOM);
});
/// The same which loads all for which there is room.
const SMALL_LOADS: Shape = (3, Form::Owner, |world| {
    (world.path_nodes, world.commit, world.path_bytes, world.path_loads) = (1, Commit::Sync, ROOM, true);
});

/// A file two directories deep, and a name for its upper one.
const DEEP: &[Has] = &[dir("a", T, A), dir("a/b", S, T), file("a/b/f", T, T), free("e", S)];
/// The same, and a directory of the same home with its name at the same site: who has followed that knows all but the way itself.
const DEEP_BESIDE: &[Has] =
    &[dir("a", T, A), dir("a/b", S, T), file("a/b/f", T, T), free("e", S), dir("z", T, A), free("h", S)];
/// The same where everybody may make things in the lower one.
const OPEN: &[Has] = &[dir("a", T, A), open_dir("a/b", S, T), free("a/b/n", A), free("e", S)];

/// The same, and a file there whose name has the same site as what is made.
const OPEN_BESIDE: &[Has] = &[dir("a", T, A), open_dir("a/b", S, T), free("a/b/n", T), file("a/b/f", T, T)];
/// A file two directories deep with names that take room, and two other directories, each of which takes as much.
const WIDE: &[Has] = &[
    dir("a", T, A).wide(24),
    dir("a/b", S, T).wide(40),
    file("a/b/f", T, T),
    free("e", S).wide(56),
    dir("z", A, T).wide(72),
    dir("y", S, T).wide(88),
    file("y/g", T, T),
];
/// A file two directories deep, of which a group may search the upper one.
const GROUPS: &[Has] = &[group_dir("a", T, A), dir("a/b", S, T), file("a/b/f", T, T), free("e", S)];
/// A file in a directory that is three deep, and one beside that.
const DEEPER: &[Has] =
    &[dir("a", T, A), dir("a/b", S, T), file("a/b/f", T, T), dir("a/b/d", T, A), file("a/b/d/g", S, S)];

/// Who keeps no ways.
pub(super) const fn by(acts: &'static [Act]) -> Program {
    Program { of: Of::Asking, acts }
}

/// Who keeps ways.
pub(super) const fn kept(acts: &'static [Act]) -> Program {
    Program { of: Of::Keeping, acts }
}

/// One more thread of the session before.
const fn also(acts: &'static [Act]) -> Program {
    Program { of: Of::Same, acts }
}

pub(super) const fn of(name: &'static str, about: &'static str, world: Shape, scene: Scene) -> Situation {
    Situation { name, about, world, script: Script::Paths(scene) }
}

use Act::{Acl, Chgrp, Chmod, Create, Exchange, Lead, Link, MakeAt, Mkdir, Rename, Rmdir, Symlink, Unlink, Walk};

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
        "path-load-copied",
        "Q holds all, and a copy of what it was granted is late; a directory is closed",
        LOADS,
        Scene { tree: DEEP, programs: &[by(&[Chmod("a", 0o700), Lead("a/b")])], known: &[], begin: loaded_twice },
    ),
    of(
        "path-load-given-up",
        "the same when Q has given up for want of room what it was granted; a directory is renamed",
        SMALL_LOADS,
        Scene {
            tree: WIDE,
            programs: &[by(&[Rename("a/b", "e"), Lead("a/b")])],
            known: &[],
            begin: loaded_and_given_up,
        },
    ),
    of(
        "path-room",
        "a directory that Q has given up for want of room is closed",
        SMALL,
        Scene {
            tree: WIDE,
            programs: &[by(&[Chmod("a/b", 0o700), Walk("a/b/f")]), by(&[Walk("a/b/f")])],
            known: &["a/b"],
            begin: led_elsewhere,
        },
    ),
    of(
        "path-room-rename",
        "a directory on a path that Q holds is renamed while Q gives it up for want of room, and is led through it again",
        SMALL,
        Scene {
            tree: WIDE,
            programs: &[by(&[Rename("a/b", "e"), Walk("e/f")]), by(&[Walk("y/g"), Walk("a/b/f")])],
            known: &["z", "a/b"],
            begin: well,
        },
    ),
    of(
        "path-group",
        "a directory that a group may search, which Q is not told at once, is closed while the path is followed",
        Q,
        Scene {
            tree: GROUPS,
            programs: &[by(&[Chmod("a", 0o700), Walk("a/b/f")]), by(&[Walk("a/b/f")])],
            known: &["a/b"],
            begin: well,
        },
    ),
    of(
        "path-group-given",
        "a directory that a group may search is given to another one, and renamed, while the path is followed",
        Q,
        Scene {
            tree: GROUPS,
            programs: &[by(&[Chgrp("a", false), Rename("a", "e")]), by(&[Walk("a/b/f"), Walk("e/b/f")])],
            known: &["a/b"],
            begin: well,
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
        "way-group",
        "who keeps a way through a directory that a group may search gives it to another one, and follows it",
        Q,
        Scene {
            tree: GROUPS,
            programs: &[kept(&[Chgrp("a", false), Walk("a/b/f")]), by(&[Walk("a/b/f")])],
            known: &["a/b"],
            begin: well,
        },
    ),
    of(
        "way-late",
        "Q tells a session a way; another thread of it closes a directory on that, and follows what the session keeps",
        Q,
        Scene {
            tree: DEEPER,
            programs: &[kept(&[Walk("a/b/d/g")]), also(&[Chmod("a", 0o700), Walk("a/b/f"), Walk("a/b/f")])],
            known: &["a/b"],
            begin: followed_deeper,
        },
    ),
    of(
        "way-anew",
        "two threads of a session follow a way that was closed, at a shard that has begun anew; a request of one of them is lost",
        Q,
        Scene {
            tree: DEEP,
            programs: &[kept(&[Walk("a/b/f")]), also(&[Walk("a/b/f")])],
            known: &["a/b"],
            begin: closed_and_anew,
        },
    ),
    of(
        "way-former",
        "a thread of a session makes a directory by a way that was closed, and another one hears of that",
        Q,
        Scene {
            tree: OPEN_BESIDE,
            programs: &[kept(&[MakeAt("a/b/n")]), also(&[Walk("a/b/f")])],
            known: &["a/b"],
            begin: closed,
        },
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
