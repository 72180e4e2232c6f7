//! Situations that begin in the middle of something: what was held back and is not any more is late when they begin, and what is
//! still held back stays away to the end.
//!
//! Each needs so much to have gone wrong before that its course would be far from the usual one of any other situation.

use super::situations::{
    A, NETWORK, OWNER, Program, S, Script, Situation, T, by_root, directory, held, lookup, stat, two_directories,
};
use crate::client::Asked;
use crate::model::Caller;
use crate::scenario::{Asker, Scenario, alice, create, mode, read, rename, shard, unlink};
use crate::world::{Commit, HoldId, Message};
use onpath_wire::ids::InodeId;
use onpath_wire::innet::{DirtySetOp, InNetResult};
use onpath_wire::name::Name;
use onpath_wire::peer::Peer;
use onpath_wire::request::Request;
use onpath_wire::tracking::{Form, SwitchCommand, TrackingSide};

/// Less than any pause before something is sent again, ns.
const MOMENT_NS: u64 = 3_000_000;
/// Longer than a change-log is idle before it is pushed, ns.
const IDLE_NS: u64 = 70_000_000;
/// Longer than it takes to notice that the switch is gone or came back, and to make a new epoch complete, ns.
const NEW_EPOCH_NS: u64 = 2_000_000_000;

/// The change-log of a directory, which comes unasked.
fn push(m: &Message<'_>, of: InodeId) -> bool {
    matches!(m.peer(), Some(Peer::Push { dir, .. }) if dir == of)
}

/// A remove on its way to the switch, with its question to a holder behind it.
fn remove(m: &Message<'_>, to: u16) -> bool {
    m.seeks(DirtySetOp::Remove) && m.to() == shard(to)
}

/// A holder's answer to a collect.
fn collected(m: &Message<'_>, from: u16) -> bool {
    m.from() == shard(from) && matches!(m.peer(), Some(Peer::Collected { .. }))
}

/// A directory with a name at S and one at T that A has not heard of, a reader, and nothing is pushed.
fn marked(sc: &mut Scenario) -> (InodeId, [Name; 3], Asker) {
    let (d, names) = directory(sc);
    let reader = sc.reader_at(A);
    held(sc, d);
    sc.hold(move |m| push(m, d));
    (d, names, reader)
}

/// The same when everything was collected: the switch says normal.
fn normal(sc: &mut Scenario) -> (InodeId, [Name; 3], Asker) {
    let (d, names, reader) = marked(sc);
    sc.names_by(reader, d);
    (d, names, reader)
}

/// A collect is under way, of which these messages stay away.
fn collecting(sc: &mut Scenario, reader: Asker, d: InodeId, away: impl Fn(&Message<'_>) -> bool + 'static) -> HoldId {
    let hold = sc.hold(away);
    sc.ask_by(reader, read(d));
    while sc.world.held(hold) == 0 {
        sc.go_on_for(MOMENT_NS / 3);
    }
    hold
}

/// Somebody makes a name, and the directory is read.
fn made_and_read(d: InodeId, name: &Name) -> Vec<Program> {
    vec![by_root([create(d, name), read(d)])]
}

/// All situations that begin in the middle of something.
pub(super) const BEGUN: &[Situation] = &[
    Situation {
        name: "answered-round",
        about: "a holder's answer to a collect is late, and the next remove to it; a name comes, the directory is read",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, [x, ..], reader) = marked(sc);
            sc.meet(1);
            let answers = collecting(sc, reader, d, |m| collected(m, T));
            let again = sc.hold(|m| remove(m, T));
            while sc.world.held(again) == 0 {
                sc.go_on_for(MOMENT_NS / 3);
            }
            [answers, again].into_iter().for_each(|hold| sc.world.stop_holding(hold));
            made_and_read(d, &x)
        }),
    },
    Situation {
        name: "copied-collect",
        about: "a copy of an earlier collect is late; names come while the directory is read",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, [x, y, _], reader) = marked(sc);
            let z = sc.name_at(d, S, "z");
            let question = |m: &Message<'_>| m.tracked() == Some(InNetResult::Removed) && m.to() == shard(S);
            let copies = collecting(sc, reader, d, question);
            sc.world.stop_holding(copies);
            sc.world.deliver_copy(copies);
            sc.go_on();
            sc.must(create(d, &x));
            sc.must(create(d, &y));
            vec![by_root([read(d)]), by_root([lookup(d, &z), create(d, &z), read(d)])]
        }),
    },
    Situation {
        name: "held-stamp",
        about: "a name was made while its site held; another one comes at a site that has not heard of the collect",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, [x, y, _], reader) = marked(sc);
            sc.meet(1);
            let to_t = sc.hold(|m| remove(m, T));
            sc.ask_by(reader, stat(d));
            sc.go_on_for(MOMENT_NS);
            sc.ask(create(d, &x));
            sc.go_on_for(MOMENT_NS);
            sc.world.stop_holding(to_t);
            vec![by_root([create(d, &y), stat(d), stat(d)])]
        }),
    },
    Situation {
        name: "given-up",
        about: "a collect of two directories was given up; the other one is read",
        world: (3, Form::Network, |config| config.coarse_fingerprints = Some(0)),
        script: Script::Requests(|sc| {
            let ((d, _), (e, _)) = (sc.directory_of(A, "d"), sc.directory_of(A, "e"));
            let reader = sc.reader_at(A);
            for (dir, at) in [(d, S), (e, T)] {
                let name = sc.name_at(dir, at, "a");
                sc.must(create(dir, &name));
            }
            sc.hold(move |m| push(m, d) || push(m, e));
            let answers = sc.hold(|m| collected(m, T));
            sc.names_by(reader, d);
            sc.world.lose(answers);
            sc.world.stop_holding(answers);
            vec![by_root([read(e)])]
        }),
    },
    Situation {
        name: "former-term",
        about: "a remove of the owner's former life is late; a name comes and the directory is read",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, [x, ..], reader) = marked(sc);
            let lost = sc.hold(|m| remove(m, S)); // or S would hold the directory
            let removes = collecting(sc, reader, d, |m| remove(m, T));
            sc.world.lose(lost);
            [lost, removes].into_iter().for_each(|hold| sc.world.stop_holding(hold));
            sc.restart(A);
            sc.names(d);
            made_and_read(d, &x)
        }),
    },
    Situation {
        name: "former-epoch",
        about: "a copy of a remove of the epoch before is late; a name comes and the directory is read",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, [x, ..], reader) = marked(sc);
            let removes = collecting(sc, reader, d, |m| remove(m, S));
            sc.world.stop_holding(removes);
            sc.world.deliver_copy(removes);
            sc.go_on_for(IDLE_NS);
            sc.world.boot_switch();
            sc.go_on_for(NEW_EPOCH_NS);
            sc.names(d);
            made_and_read(d, &x)
        }),
    },
    Situation {
        name: "former-mark",
        about: "the acknowledgement of a mark is late, and the switch has rebooted since; the directory is read",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, [_, y, _], _) = normal(sc);
            let marked = |m: &Message<'_>| m.tracked() == Some(InNetResult::Marked) && m.to() == shard(T);
            let acknowledged = sc.hold(marked);
            sc.must(create(d, &y));
            sc.world.boot_switch();
            sc.hold(|m| m.seeks(DirtySetOp::Insert) && m.from() == shard(T));
            sc.go_on_for(NEW_EPOCH_NS);
            sc.world.stop_holding(acknowledged);
            vec![by_root([read(d)])]
        }),
    },
    Situation {
        name: "not-marked-again",
        about: "the switch has rebooted, and a site has not heard of the new epoch; the directory is read",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, [_, y, _], _) = normal(sc);
            sc.must(create(d, &y));
            let site = |m: &Message<'_>| matches!(m.peer(), Some(Peer::Track { side: TrackingSide::Site, .. }));
            sc.hold(move |m| m.to() == shard(T) && site(m));
            sc.world.boot_switch();
            sc.go_on_for(NEW_EPOCH_NS);
            vec![by_root([read(d)])]
        }),
    },
    Situation {
        name: "gone-for-sites",
        about: "the switch is taken for gone, of which the owner has not heard; a name comes and the directory is read",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, [x, ..], _) = normal(sc);
            sc.meet(1);
            sc.hold(|m| m.command().is_some());
            let owner = |m: &Message<'_>| matches!(m.peer(), Some(Peer::Track { side: TrackingSide::Owner, .. }));
            sc.hold(move |m| m.to() == shard(A) && owner(m));
            sc.go_on_for(NEW_EPOCH_NS);
            made_and_read(d, &x)
        }),
    },
    Situation {
        name: "back-for-owners",
        about: "a name came while the switch was taken for gone; the owner knows that it is back, the switch does not",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, [x, ..], _) = normal(sc);
            sc.meet(1);
            let commands = sc.hold(|m| m.command().is_some());
            sc.go_on_for(NEW_EPOCH_NS);
            sc.must(create(d, &x));
            sc.hold(|m| matches!(m.command(), Some(SwitchCommand::Epoch { .. })));
            let told = sc.hold(|m| match m.peer() {
                Some(Peer::Track { side: TrackingSide::Owner, tracking }) => {
                    m.to() == shard(A) && tracking.form == Form::Network
                }
                _ => false,
            });
            sc.let_go(commands);
            while sc.world.held(told) == 0 {
                sc.go_on();
            }
            sc.let_go(told);
            vec![by_root([read(d)])]
        }),
    },
    Situation {
        name: "no-marks",
        about: "no mark comes through, and a name waits for its own; the directory is closed",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, [x, ..], _) = normal(sc);
            sc.hold(|m| m.seeks(DirtySetOp::Insert));
            sc.must(Request::SetAttr { id: d, set: mode(0o755) });
            sc.ask(create(d, &x));
            vec![by_root([Request::SetAttr { id: d, set: mode(0o700) }])]
        }),
    },
    Situation {
        name: "moved",
        about: "a name comes in a directory that moves then, while it is read",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let ((d, old), (e, _)) = (sc.directory_of(A, "d"), sc.directory_of(T, "e"));
            let (a, x, new) = (sc.name_at(d, S, "a"), sc.name_at(d, S, "x"), sc.name_at(e, S, "new"));
            let reader = sc.reader_at(A);
            sc.must(create(d, &a));
            sc.names_by(reader, d);
            vec![by_root([read(d)]), by_root([create(d, &x), rename((InodeId::ROOT, &old), (e, &new))])]
        }),
    },
    Situation {
        name: "unmarked",
        about: "a site has restarted with a name that nobody has marked; it is found, and the directory is read",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, [_, y, _]) = directory(sc);
            let reader = sc.reader_at(A);
            held(sc, d);
            sc.names_by(reader, d);
            sc.meet(1);
            let (marks, pushes) = (sc.hold(|m| m.seeks(DirtySetOp::Insert)), sc.hold(move |m| push(m, d)));
            sc.ask(create(d, &y));
            sc.go_on_for(MOMENT_NS);
            sc.restart(T);
            sc.world.lose(marks);
            [marks, pushes].into_iter().for_each(|hold| sc.world.stop_holding(hold));
            vec![by_root([lookup(d, &y), read(d)])]
        }),
    },
    Situation {
        name: "starving",
        about: "a reader took a part from a rename, the votes of the next attempt are late, and one reads on and on",
        world: OWNER,
        script: Script::Requests(|sc| {
            let ((from, b), (to, a)) = two_directories(sc);
            sc.meet(1);
            let votes = |m: &Message<'_>| m.to() == shard(T) && matches!(m.peer(), Some(Peer::Prepared { .. }));
            let first = sc.hold(votes);
            sc.ask(rename((from, &b), (to, &a)));
            sc.go_on();
            sc.names(to);
            let second = sc.hold(votes);
            sc.let_go(first);
            while sc.world.held(second) == 0 {
                sc.go_on_for(MOMENT_NS / 3);
            }
            sc.world.stop_holding(second);
            vec![by_root([(); 12].map(|()| read(to)))]
        }),
    },
    Situation {
        name: "refused",
        about: "a name that is there is made, and removed by somebody else",
        world: OWNER,
        script: Script::Requests(|sc| {
            let (d, [x, ..]) = directory(sc);
            sc.must(create(d, &x));
            vec![by_root([create(d, &x)]), by_root([unlink(d, &x)])]
        }),
    },
    Situation {
        name: "looked",
        about: "alice finds a name; the directory is read and closed, and she looks again",
        world: OWNER,
        script: Script::Requests(|sc| {
            let (d, [x, ..]) = directory(sc);
            sc.must(create(d, &x));
            let closes = Request::SetAttr { id: d, set: mode(0o700) };
            let by = |caller: &Caller, request| Asked::new(caller.clone(), request);
            let (root, alice) = (Caller::default(), alice());
            let looks = || by(&alice, lookup(d, &x));
            vec![vec![looks(), by(&root, read(d)), by(&root, closes), looks()]]
        }),
    },
    Situation {
        name: "idle",
        about: "a change-log has been idle, and disks are seldom flushed; the name is looked up, the directory is read",
        world: (3, Form::Owner, |config| config.commit = Commit::Interval(1_000)),
        script: Script::Requests(|sc| {
            let (d, [x, ..]) = directory(sc);
            sc.go_on_for(IDLE_NS); // the directory's own name is pushed, for which disks are flushed
            sc.must(create(d, &x));
            let pushes = sc.hold(move |m| push(m, d));
            sc.go_on_for(IDLE_NS);
            sc.world.stop_holding(pushes);
            vec![by_root([lookup(d, &x), read(d)])]
        }),
    },
    Situation {
        name: "turn",
        about: "a directory moves into another one and its votes are late, the coordinator module has started again; the other one moves into it",
        world: OWNER,
        script: Script::Requests(|sc| {
            let ((d, d_name), (e, e_name)) = (sc.directory_of(A, "d"), sc.directory_of(T, "e"));
            let (x, y) = (sc.name_at(d, A, "x"), sc.name_at(e, T, "y"));
            sc.meet(1);
            let turn = sc.hold(|m| matches!(m.peer(), Some(Peer::RenameLock { .. })));
            sc.ask(rename((InodeId::ROOT, &d_name), (e, &y)));
            sc.go_on();
            let votes = sc.hold(|m| m.to() == shard(T) && matches!(m.peer(), Some(Peer::Prepared { .. })));
            sc.let_go(turn);
            while sc.world.held(votes) == 0 {
                sc.go_on_for(MOMENT_NS / 3);
            }
            sc.restart(S);
            sc.world.lose(votes); // but for the next one
            while sc.world.held(votes) == 0 {
                sc.go_on_for(MOMENT_NS / 3);
            }
            sc.world.stop_holding(votes);
            vec![by_root([rename((InodeId::ROOT, &e_name), (d, &x))])]
        }),
    },
];
