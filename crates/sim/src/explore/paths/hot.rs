//! Situations of names that a switch answers for (C-1 to C-9): their home has lent them, sessions ask the switch, and somebody changes them.
//!
//! S has the coordinator module, T is the site and the home of everything on the way, behind them is the controller. No path node leads:
//! who follows a path looks its names up one by one.

use super::scene::{Act, Has, Placed, Scene, dir, file, free};
use super::situations::{Shape, by, kept, of};
use super::walkers::asks;
use crate::explore::situations::{S, Situation, T};
use crate::scenario::{self, Scenario, shard};
use crate::users::tree::Change;
use crate::world::{Commit, Message};
use onpath_session::fs::FsOp;
use onpath_wire::ids::{InodeId, NodeId};
use onpath_wire::peer::Peer;
use onpath_wire::request::Request;
use onpath_wire::tracking::Form;

/// Virtual time in which a message has arrived, ns.
const MOMENT_NS: u64 = 1_000_000;
/// Virtual time in which an entry that was cleared is filled again, ns.
const FILLED_NS: u64 = 50_000_000;
/// The process of the controller, behind those of two shards.
const PROCESS_OF_CONTROLLER: usize = 2;

/// A switch with a cache, and nothing is acknowledged that a loss of power could take.
const HOT: Shape = (2, Form::Network, |world| (world.cache, world.commit) = (true, Commit::Sync));
/// The same with a path node, which leads in front of the controller.
const LED: Shape = (2, Form::Network, |world| {
    (world.cache, world.commit, world.path_nodes) = (true, Commit::Sync, 1);
});

/// A file in a directory, both of which a home can lend, and names that nothing has.
const FILE: &[Has] = &[dir("a", T, T), file("a/f", T, T), free("a/g", S)];
/// The same with a name that the other shard makes.
const PARTED: &[Has] = &[dir("a", T, T), file("a/f", T, T), file("a/p", S, S)];
/// The same with another file there.
const TWO: &[Has] = &[dir("a", T, T), file("a/f", T, T), file("a/h", T, T)];

/// Whether this is for the controller, from the home: on its way to the switch, or behind it.
fn fills(m: &Message<'_>, wants_switch: bool) -> bool {
    let is_of_home = m.header().is_some_and(|header| header.source == shard(T));
    m.to() == NodeId::controller(0) && m.wants_switch() == wants_switch && is_of_home && m.peer() == Some(Peer::Done)
}

/// What the home asks the switch to clear, or what that says to it.
fn clears(m: &Message<'_>, wants_switch: bool) -> bool {
    m.wants_switch() == wants_switch && m.peer() == Some(Peer::Mark)
}

fn lends(m: &Message<'_>) -> bool {
    matches!(m.peer(), Some(Peer::Lend { .. }))
}

fn counted(sc: &Scenario, figure: &str) -> u64 {
    sc.world.counted_by_controller(figure).unwrap_or_default()
}

fn answered(sc: &Scenario) -> u64 {
    sc.world.switch_counters().get("read_answered").copied().unwrap_or_default()
}

fn wait(sc: &mut Scenario, is_so: impl Fn(&mut Scenario) -> bool) {
    while !is_so(sc) {
        sc.go_on_for(MOMENT_NS);
    }
}

/// The name of a path, or the root's own, is to be given an entry.
fn admit(sc: &mut Scenario, placed: &Placed, path: &'static str) {
    let sessions = sc.world.sessions_alive() as u64;
    wait(sc, |sc| counted(sc, "cache_epoch") > 0 && counted(sc, "sessions_listed") == sessions);
    let (parent, name) = placed.place(path);
    sc.world.admit(parent, Some(name));
}

/// The same, and it has one that is filled.
fn admit_now(sc: &mut Scenario, placed: &Placed, path: &'static str) {
    let before = counted(sc, "names_admitted");
    admit(sc, placed, path);
    wait(sc, |sc| counted(sc, "names_admitted") > before);
}

fn look(placed: &Placed, path: &'static str) -> FsOp {
    let (parent, name) = placed.place(path);
    FsOp::Lookup { parent, name }
}

/// Every session has heard how the switch is asked for the directory and the file, and was answered.
fn known(sc: &mut Scenario, placed: &Placed) {
    for session in 0..sc.world.sessions_alive() {
        let before = answered(sc);
        while answered(sc) == before {
            ["a", "a/f"].into_iter().for_each(|path| asks(sc, session, look(placed, path)));
            sc.go_on_for(MOMENT_NS);
        }
    }
}

/// The switch answers for the file and its directory, as all sessions know.
fn admitted(sc: &mut Scenario, placed: &mut Placed) {
    ["a", "a/f"].into_iter().for_each(|path| admit_now(sc, placed, path));
    known(sc, placed);
}

/// A name gets an entry, and the controller takes it out, since it does not hear that it is filled; meanwhile all sessions hear how the switch is
/// asked.
fn evicted(sc: &mut Scenario, placed: &Placed, path: &'static str) {
    let unheard = sc.hold(|m| fills(m, false));
    admit(sc, placed, path);
    wait(sc, |sc| sc.world.held(unheard) > 0);
    if path == "a/f" {
        known(sc, placed);
    }
    wait(sc, |sc| counted(sc, "names_not_admitted") > 0);
    sc.world.lose(unheard);
    sc.world.stop_holding(unheard);
}

/// What the controller asks the home for the next entry of a name is late.
fn asked_late(sc: &mut Scenario, placed: &Placed, path: &'static str) {
    let late = sc.hold(lends);
    admit(sc, placed, path);
    wait(sc, |sc| sc.world.held(late) > 0);
    sc.world.stop_holding(late);
}

/// The file had an entry, which the controller has taken out; the home is asked late to fill the next one.
fn lent_late(sc: &mut Scenario, placed: &mut Placed) {
    admit_now(sc, placed, "a");
    evicted(sc, placed, "a/f");
    asked_late(sc, placed, "a/f");
}

/// The same of the directory, in which the other shard has a part.
fn directory_lent_late(sc: &mut Scenario, placed: &mut Placed) {
    evicted(sc, placed, "a");
    admit_now(sc, placed, "a/f");
    asked_late(sc, placed, "a");
}

/// The file has its second entry, as all sessions know; a copy of the question for the first one is late.
fn lent_before(sc: &mut Scenario, placed: &mut Placed) {
    admit_now(sc, placed, "a");
    let unheard = sc.hold(|m| fills(m, false));
    let late = sc.hold(lends);
    admit(sc, placed, "a/f");
    wait(sc, |sc| sc.world.held(late) > 0);
    sc.world.stop_holding(late);
    sc.world.deliver_copy(late);
    wait(sc, |sc| counted(sc, "names_not_admitted") > 0);
    sc.world.lose(unheard);
    sc.world.stop_holding(unheard);
    admit_now(sc, placed, "a/f");
    known(sc, placed);
}

/// The same, where it is late that the first one was taken out.
fn evicted_late(sc: &mut Scenario, placed: &mut Placed) {
    admit_now(sc, placed, "a");
    let late = sc.hold(|m| matches!(m.peer(), Some(Peer::Evicted { .. })));
    evicted(sc, placed, "a/f");
    sc.world.stop_holding(late);
    admit_now(sc, placed, "a/f");
    known(sc, placed);
}

/// The same, where the last fill of the first one is late.
fn filled_before(sc: &mut Scenario, placed: &mut Placed) {
    admit_now(sc, placed, "a");
    let late = sc.hold(|m| fills(m, true));
    admit(sc, placed, "a/f");
    wait(sc, |sc| counted(sc, "names_not_admitted") > 0);
    while sc.world.held(late) > 1 {
        sc.world.deliver_first(late);
    }
    sc.world.stop_holding(late);
    admit_now(sc, placed, "a/f");
    known(sc, placed);
}

/// The first fill of the file's entry is late, and the second one has come.
fn filled_late(sc: &mut Scenario, placed: &mut Placed) {
    admit_now(sc, placed, "a");
    let late = sc.hold(|m| fills(m, true));
    admit(sc, placed, "a/f");
    wait(sc, |sc| sc.world.held(late) > 0);
    sc.world.stop_holding(late);
    wait(sc, |sc| counted(sc, "names_cached") == 2);
    known(sc, placed);
}

/// The same, and a new epoch has begun since, in which the file has an entry.
fn filled_in_former_epoch(sc: &mut Scenario, placed: &mut Placed) {
    filled_late(sc, placed);
    begins_anew(sc);
    admitted(sc, placed);
}

/// The controller begins anew: no epoch has begun yet.
fn begins_anew(sc: &mut Scenario) {
    sc.world.crash(PROCESS_OF_CONTROLLER, false);
    wait(sc, |sc| sc.world.is_up(PROCESS_OF_CONTROLLER));
}

/// The file was changed, and filled again; a copy of what the switch said when it was cleared is late.
fn cleared_before(sc: &mut Scenario, placed: &mut Placed) {
    admitted(sc, placed);
    let late = sc.hold(|m| clears(m, false));
    let (id, mode) = (placed.id("a/f"), 0o640);
    let asked = sc.ask(Request::SetAttr { id, set: scenario::mode(mode) });
    wait(sc, |sc| sc.world.held(late) > 0);
    sc.world.stop_holding(late);
    sc.world.deliver_copy(late);
    sc.succeeds(asked);
    placed.tree.change(&Change::Chmod { id, mode }, InodeId::NONE);
    sc.go_on_for(FILLED_NS);
    known(sc, placed);
}

/// Nothing that the home asks the switch to clear comes there.
fn cut_off(sc: &mut Scenario, placed: &mut Placed) {
    admitted(sc, placed);
    sc.hold(|m| clears(m, true));
}

/// The home has begun anew, and has yet to hear that what it has lent is void.
fn home_anew(sc: &mut Scenario, placed: &mut Placed) {
    admitted(sc, placed);
    sc.world.crash(usize::from(T), false);
    wait(sc, |sc| sc.world.is_up(usize::from(T)));
}

/// The same, and a copy of what the controller had asked it before is late.
fn home_anew_lent_before(sc: &mut Scenario, placed: &mut Placed) {
    admit_now(sc, placed, "a");
    let late = sc.hold(lends);
    admit(sc, placed, "a/f");
    wait(sc, |sc| sc.world.held(late) > 0);
    sc.world.stop_holding(late);
    sc.world.deliver_copy(late);
    known(sc, placed);
    sc.world.crash(usize::from(T), false);
    wait(sc, |sc| sc.world.is_up(usize::from(T)));
}

/// The controller has begun anew, and an epoch since, in which the home is asked late to fill the file's entry.
fn controller_anew(sc: &mut Scenario, placed: &mut Placed) {
    admitted(sc, placed);
    begins_anew(sc);
    let late = sc.hold(lends);
    admit(sc, placed, "a/f");
    wait(sc, |sc| sc.world.held(late) > 0);
    sc.world.stop_holding(late);
}

/// The switch answers for the whole path, the root with it, as the first session knows, which keeps it.
fn path_admitted(sc: &mut Scenario, placed: &mut Placed) {
    let sessions = sc.world.sessions_alive() as u64;
    wait(sc, |sc| counted(sc, "sessions_listed") == sessions);
    sc.world.admit(InodeId(0), None);
    ["a", "a/f"].into_iter().for_each(|path| admit_now(sc, placed, path));
    wait(sc, |sc| counted(sc, "names_admitted") == 3);
    let before = answered(sc);
    while answered(sc) < before + 2 {
        let resolve = FsOp::Resolve { from: InodeId::ROOT, names: placed.way("a/f"), look: true, kept: true };
        asks(sc, 0, resolve);
        sc.go_on_for(MOMENT_NS);
    }
}

use Act::{Chmod, Create, Link, Look, Rename, Stat, Unlink, Walk};

/// All situations of names that a switch answers for.
pub(crate) const OF_HOT: &[Situation] = &[
    of(
        "hot-chmod",
        "a file that the switch answers for is closed, while others look for it and at it",
        HOT,
        Scene {
            tree: FILE,
            programs: &[
                by(&[Chmod("a/f", 0o600), Stat("a/f")]),
                by(&[Look("a/f"), Stat("a/f")]),
                by(&[Stat("a/f"), Look("a/f")]),
            ],
            known: &[],
            begin: admitted,
        },
    ),
    of(
        "hot-two-chmods",
        "two change the mode of a file that the switch answers for, and look at it",
        HOT,
        Scene {
            tree: FILE,
            programs: &[by(&[Chmod("a/f", 0o600), Stat("a/f")]), by(&[Chmod("a/f", 0o640), Look("a/f")])],
            known: &[],
            begin: admitted,
        },
    ),
    of(
        "hot-search",
        "a directory that the switch answers for is closed, while others look for a file in it",
        HOT,
        Scene {
            tree: FILE,
            programs: &[by(&[Chmod("a", 0o700), Look("a/f")]), by(&[Look("a/f"), Look("a/f")])],
            known: &[],
            begin: admitted,
        },
    ),
    of(
        "hot-both",
        "a directory that the switch answers for is closed, a file in it changed, and both are open again; others look for the file",
        HOT,
        Scene {
            tree: FILE,
            programs: &[
                by(&[Chmod("a", 0o700), Chmod("a/f", 0o600), Chmod("a", 0o755)]),
                by(&[Look("a/f"), Look("a/f")]),
            ],
            known: &[],
            begin: admitted,
        },
    ),
    of(
        "hot-unlink",
        "a file that the switch answers for is removed and its name made again, while others look for it and at it",
        HOT,
        Scene {
            tree: FILE,
            programs: &[by(&[Unlink("a/f"), Create("a/f"), Look("a/f")]), by(&[Look("a/f"), Stat("a/f")])],
            known: &[],
            begin: admitted,
        },
    ),
    of(
        "hot-rename",
        "a file that the switch answers for is given a name of another shard, while others look for both names",
        HOT,
        Scene {
            tree: FILE,
            programs: &[by(&[Rename("a/f", "a/g"), Look("a/f")]), by(&[Look("a/g"), Look("a/f")])],
            known: &[],
            begin: admitted,
        },
    ),
    of(
        "hot-replaced",
        "a file that the switch answers for is replaced by another one, while others look for it and at it",
        HOT,
        Scene {
            tree: TWO,
            programs: &[by(&[Rename("a/h", "a/f"), Look("a/f")]), by(&[Look("a/f"), Stat("a/f")])],
            known: &[],
            begin: admitted,
        },
    ),
    of(
        "hot-linked",
        "a file that the switch answers for gets a second name, and loses the first one",
        HOT,
        Scene {
            tree: FILE,
            programs: &[by(&[Link("a/f", "a/g"), Unlink("a/f"), Look("a/f")]), by(&[Look("a/f"), Look("a/g")])],
            known: &[],
            begin: admitted,
        },
    ),
    of(
        "hot-lent-late",
        "the home is asked late to fill the next entry of a file, which is closed",
        HOT,
        Scene {
            tree: FILE,
            programs: &[by(&[Chmod("a/f", 0o600), Stat("a/f")]), by(&[Look("a/f"), Stat("a/f")])],
            known: &[],
            begin: lent_late,
        },
    ),
    of(
        "hot-lent-search",
        "the same of a directory in which another shard has a part",
        HOT,
        Scene {
            tree: PARTED,
            programs: &[by(&[Chmod("a", 0o700), Look("a/f")]), by(&[Look("a/p"), Look("a/f")])],
            known: &[],
            begin: directory_lent_late,
        },
    ),
    of(
        "hot-lent-rename",
        "the home is asked late to fill the next entry of a file, which is given a name of another shard",
        HOT,
        Scene {
            tree: FILE,
            programs: &[by(&[Rename("a/f", "a/g"), Look("a/f")]), by(&[Look("a/g"), Look("a/f")])],
            known: &[],
            begin: lent_late,
        },
    ),
    of(
        "hot-lent-before",
        "a file has its second entry, and the home hears late of the first one; it is closed",
        HOT,
        Scene {
            tree: FILE,
            programs: &[by(&[Chmod("a/f", 0o600), Stat("a/f")]), by(&[Look("a/f"), Stat("a/f")])],
            known: &[],
            begin: lent_before,
        },
    ),
    of(
        "hot-evicted-late",
        "the same where the home hears late that the first entry is gone",
        HOT,
        Scene {
            tree: FILE,
            programs: &[by(&[Chmod("a/f", 0o600), Stat("a/f")]), by(&[Look("a/f"), Stat("a/f")])],
            known: &[],
            begin: evicted_late,
        },
    ),
    of(
        "hot-filled-before",
        "the same where the last fill of the first entry is late",
        HOT,
        Scene {
            tree: FILE,
            programs: &[by(&[Chmod("a/f", 0o600), Stat("a/f")]), by(&[Look("a/f"), Stat("a/f")])],
            known: &[],
            begin: filled_before,
        },
    ),
    of(
        "hot-filled-late",
        "the first fill of a file's entry is late, and the second one has come; it is closed",
        HOT,
        Scene {
            tree: FILE,
            programs: &[by(&[Chmod("a/f", 0o600), Stat("a/f")]), by(&[Look("a/f"), Stat("a/f")])],
            known: &[],
            begin: filled_late,
        },
    ),
    of(
        "hot-former-epoch",
        "the same in the epoch after that of the late fill",
        HOT,
        Scene {
            tree: FILE,
            programs: &[by(&[Chmod("a/f", 0o600), Stat("a/f")]), by(&[Look("a/f"), Stat("a/f")])],
            known: &[],
            begin: filled_in_former_epoch,
        },
    ),
    of(
        "hot-cleared-before",
        "a copy of what the switch said of an earlier change is late; the file is closed",
        HOT,
        Scene {
            tree: FILE,
            programs: &[by(&[Chmod("a/f", 0o600), Stat("a/f")]), by(&[Look("a/f"), Stat("a/f")])],
            known: &[],
            begin: cleared_before,
        },
    ),
    of(
        "hot-cut-off",
        "a home that does not reach the switch closes a file that this answers for",
        HOT,
        Scene {
            tree: FILE,
            programs: &[by(&[Chmod("a/f", 0o600), Stat("a/f")]), by(&[Look("a/f"), Stat("a/f")])],
            known: &[],
            begin: cut_off,
        },
    ),
    of(
        "hot-anew",
        "a home that has begun anew closes a file that the switch answers for",
        HOT,
        Scene {
            tree: FILE,
            programs: &[by(&[Chmod("a/f", 0o600), Stat("a/f")]), by(&[Look("a/f"), Stat("a/f")])],
            known: &[],
            begin: home_anew,
        },
    ),
    of(
        "hot-anew-lent",
        "the same when it hears late what it was asked before",
        HOT,
        Scene {
            tree: FILE,
            programs: &[by(&[Chmod("a/f", 0o600), Stat("a/f")]), by(&[Look("a/f"), Stat("a/f")])],
            known: &[],
            begin: home_anew_lent_before,
        },
    ),
    of(
        "hot-new-epoch",
        "the controller has begun anew, and the home hears late of the new epoch; a file is closed",
        HOT,
        Scene {
            tree: FILE,
            programs: &[by(&[Chmod("a/f", 0o600), Stat("a/f")]), by(&[Look("a/f"), Stat("a/f")])],
            known: &[],
            begin: controller_anew,
        },
    ),
    of(
        "hot-path",
        "a directory on a path that the switch follows for who keeps it is closed",
        LED,
        Scene {
            tree: FILE,
            programs: &[kept(&[Walk("a/f"), Walk("a/f")]), by(&[Chmod("a", 0o700), Look("a/f")])],
            known: &[],
            begin: path_admitted,
        },
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::course::Course;
    use std::collections::BTreeMap;

    /// In the usual course of each of them the switch answers somebody or clears something; what is late by then may be the entry, and of a home
    /// that begins anew it is dropped.
    #[test]
    fn the_switch_is_asked() {
        for situation in OF_HOT {
            let mut course = Course::begin(situation, None);
            let before = course.switch_counters();
            while course.usual() {}
            let after = course.switch_counters();
            let counted = |counters: &BTreeMap<&str, u64>, name| counters.get(name).copied().unwrap_or_default();
            let more = |name| counted(&after, name) - counted(&before, name);
            let has_none =
                ["hot-lent-", "hot-anew", "hot-new-epoch"].iter().any(|name| situation.name.starts_with(name));
            let asked = ["read_answered", "read_denied", "invalidate_done"].map(more).iter().sum::<u64>();
            assert!(asked > 0 || has_none, "{}", situation.name);
        }
    }
}
