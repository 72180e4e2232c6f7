//! The library of situations: few shards, one or two directories, at most four operations at the same time.
//!
//! S, T and A are shards; S has the coordinator module, A owns the directories unless it is said otherwise.

use super::beginnings::BEGUN;
use super::files::{Call, Calls};
use super::lent::OF_LENT;
use super::paths::{OF_HOT, OF_PATHS, Scene};
use crate::client::Asked;
use crate::model::Caller;
use crate::scenario::{Scenario, alice, calm, create, make, mode, read, rename, unlink};
use crate::world::{Commit, WorldConfig};
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::reply::Reply;
use onpath_wire::request::{self, Request};
use onpath_wire::tracking::Form;
use std::rc::Rc;

pub(super) const S: u16 = 0;
pub(super) const T: u16 = 1;
pub(super) const A: u16 = 2;

/// A small situation to be explored.
pub struct Situation {
    /// Its name.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// The world, as a calm one of so many shards in this form, but for this.
    pub(super) world: (u16, Form, fn(&mut WorldConfig)),
    pub(super) script: Script,
}

/// Who asks what.
pub(super) enum Script {
    /// Sets the world up, in which every shard has a birth; what each client then asks, one thing after the other.
    Requests(fn(&mut Scenario) -> Vec<Program>),
    /// The same where only those have one that have made an inode since: the first one waits until its birth is durable.
    FirstRequests(fn(&mut Scenario) -> Vec<Program>),
    /// Calls of sessions that have a file open.
    Calls(Calls),
    /// Sessions that follow paths, and change what is on them.
    Paths(Scene),
}

/// What a client asks, one thing after the other.
pub(super) type Program = Vec<Rc<Asked>>;

impl Situation {
    /// The world in which it is.
    pub(super) fn world(&self) -> WorldConfig {
        let (shards, form, shape) = self.world;
        // A situation is about one file at most, whose bytes are all at one data node: others would hear nothing.
        let mut config = WorldConfig { form, data_nodes: 1, ..calm(shards) };
        shape(&mut config);
        config
    }
}

/// All situations.
pub fn situations() -> impl Iterator<Item = &'static Situation> {
    SITUATIONS.iter().chain(BEGUN).chain(OF_LENT).chain(OF_HOT).chain(OF_PATHS)
}

/// The situation of this name.
pub fn situation(name: &str) -> Option<&'static Situation> {
    situations().find(|situation| situation.name == name)
}

pub(super) const NETWORK: (u16, Form, fn(&mut WorldConfig)) = (3, Form::Network, |_| {});
pub(super) const OWNER: (u16, Form, fn(&mut WorldConfig)) = (3, Form::Owner, |_| {});

/// The journal is flushed seldom, so that few timers fire until a lease is over.
const SELDOM: Commit = Commit::Interval(5_000);
/// Virtual time after which change-logs are empty, ns.
const IDLE_NS: u64 = 200_000_000;

/// root asks.
pub(super) fn by_root<const N: usize>(requests: [Request; N]) -> Program {
    requests.into_iter().map(|request| Asked::new(Caller::default(), request)).collect()
}

/// A user without privileges asks.
fn by_alice<const N: usize>(requests: [Request; N]) -> Program {
    requests.into_iter().map(|request| Asked::new(alice(), request)).collect()
}

pub(super) fn stat(id: InodeId) -> Request {
    Request::GetAttr { id }
}

pub(super) fn lookup(parent: InodeId, name: &Name) -> Request {
    Request::Lookup { parent, name: name.clone() }
}

fn mkdir(parent: InodeId, name: &Name) -> Request {
    make(parent, name, Kind::Directory, 0o777)
}

fn rmdir(parent: InodeId, name: &Name) -> Request {
    Request::Rmdir { parent, name: name.clone() }
}

fn link(id: InodeId, parent: InodeId, name: &Name) -> Request {
    Request::Link { id, parent, name: name.clone() }
}

fn rename_with(flags: u32, from: (InodeId, &Name), to: (InodeId, &Name)) -> Request {
    match rename(from, to) {
        Request::Rename { from_parent, from, parent, name, .. } => {
            Request::Rename { from_parent, from, parent, name, flags }
        }
        other => other,
    }
}

/// The inode of a name that is made.
fn made(sc: &mut Scenario, request: Request) -> InodeId {
    match sc.must(request) {
        Reply::Entry { attr, .. } => attr.id,
        other => panic!("answered {other:?}"),
    }
}

/// S and T have parts of a directory, and a name each that A has not heard of.
pub(super) fn held(sc: &mut Scenario, d: InodeId) {
    let (a, b) = (sc.name_at(d, S, "a"), sc.name_at(d, T, "b"));
    sc.must(create(d, &a));
    sc.must(create(d, &b));
}

/// A directory of A's, with names in it at S, T and A that are free.
pub(super) fn directory(sc: &mut Scenario) -> (InodeId, [Name; 3]) {
    let (d, _) = sc.directory_of(A, "d");
    (d, [S, T, A].map(|shard| sc.name_at(d, shard, "n")))
}

/// Two directories of A's, the file `b` at S in the first, and a free name `a` at T in the second.
pub(super) fn two_directories(sc: &mut Scenario) -> ((InodeId, Name), (InodeId, Name)) {
    let ((from, _), (to, _)) = (sc.directory_of(A, "from"), sc.directory_of(A, "to"));
    let (b, a) = (sc.name_at(from, S, "b"), sc.name_at(to, T, "a"));
    sc.must(create(from, &b));
    ((from, b), (to, a))
}

/// A directory of A's in *sync*, which holds a few names.
fn in_sync(sc: &mut Scenario) -> InodeId {
    let (d, _) = sc.directory_of(A, "d");
    for round in 0..8 {
        let name = sc.name_at(d, S, &format!("f{round}-"));
        sc.must(create(d, &name));
        sc.names(d);
    }
    d
}

/// Situations that begin in peace.
const SITUATIONS: &[Situation] = &[
    Situation {
        name: "readdir",
        about: "a name comes, another one goes, and the directory is read; two shards",
        world: (2, Form::Network, |_| {}),
        script: Script::Requests(|sc| {
            let (d, _) = sc.directory_of(T, "d");
            let (a, b) = (sc.name_at(d, S, "a"), sc.name_at(d, T, "b"));
            sc.must(create(d, &a));
            vec![by_root([create(d, &b), unlink(d, &a)]), by_root([read(d)])]
        }),
    },
    Situation {
        name: "two-sites",
        about: "names come at S and then at T; the directory is read twice",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, [x, y, _]) = directory(sc);
            vec![by_root([create(d, &x), create(d, &y)]), by_root([read(d), read(d)])]
        }),
    },
    Situation {
        name: "first-births",
        about: "the first two names come at S, one from each client, and then the first one at T; the directory is read",
        world: OWNER,
        script: Script::FirstRequests(|sc| {
            let (d, [x, y, _]) = directory(sc);
            let z = sc.name_at(d, S, "z");
            vec![by_root([create(d, &x), create(d, &y)]), by_root([create(d, &z), read(d)])]
        }),
    },
    Situation {
        name: "collect",
        about: "a directory with names at S and T is read twice, while names come at S and then at T a little later",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, [x, y, _]) = directory(sc);
            held(sc, d);
            vec![by_root([lookup(d, &x), create(d, &x), create(d, &y)]), by_root([read(d), read(d)])]
        }),
    },
    Situation {
        name: "rename-again",
        about: "a file moves, its old name is made again, and both directories are read",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let ((from, b), (to, a)) = two_directories(sc);
            vec![by_root([rename((from, &b), (to, &a)), create(from, &b), read(from)]), by_root([read(to)])]
        }),
    },
    Situation {
        name: "three-sites",
        about: "names come at three sites beside A while the directory is read; four shards",
        world: (4, Form::Network, |_| {}),
        script: Script::Requests(|sc| {
            let (d, _) = sc.directory_of(3, "d");
            let [x, y, z] = [0, 1, 2].map(|shard| sc.name_at(d, shard, "n"));
            sc.must(create(d, &y));
            vec![by_root([create(d, &x), create(d, &z)]), by_root([unlink(d, &y)]), by_root([read(d)])]
        }),
    },
    Situation {
        name: "rename",
        about: "a file moves from one directory to another, and both are read",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let ((from, b), (to, a)) = two_directories(sc);
            vec![by_root([rename((from, &b), (to, &a))]), by_root([read(from), read(to)])]
        }),
    },
    Situation {
        name: "rename-owner",
        about: "the same in the owner form",
        world: OWNER,
        script: Script::Requests(|sc| {
            let ((from, b), (to, a)) = two_directories(sc);
            vec![by_root([rename((from, &b), (to, &a))]), by_root([read(to), read(from)])]
        }),
    },
    Situation {
        name: "rename-durable",
        about: "the same in the network form, where replies wait for the disk",
        world: (3, Form::Network, |config| config.commit = Commit::Sync),
        script: Script::Requests(|sc| {
            let ((from, b), (to, a)) = two_directories(sc);
            vec![by_root([rename((from, &b), (to, &a)), stat(from)]), by_root([lookup(from, &b)])]
        }),
    },
    Situation {
        name: "noreplace",
        about: "a file moves to a name that may not be there, which somebody else makes and removes",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let ((from, b), (to, a)) = two_directories(sc);
            let moves = rename_with(request::rename::NOREPLACE, (from, &b), (to, &a));
            vec![by_root([moves]), by_root([create(to, &a), unlink(to, &a)])]
        }),
    },
    Situation {
        name: "exchange",
        about: "two names of two directories change places, while one is looked up and the other is removed",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let ((from, b), (to, a)) = two_directories(sc);
            sc.must(create(to, &a));
            let exchanges = rename_with(request::rename::EXCHANGE, (from, &b), (to, &a));
            vec![by_root([exchanges, lookup(from, &b)]), by_root([unlink(to, &a), read(from)])]
        }),
    },
    Situation {
        name: "rename-chain",
        about: "a to b, b to c and c to a at the same time, in one directory",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, [a, b, c]) = directory(sc);
            sc.must(create(d, &a));
            sc.must(create(d, &b));
            let moves = [(&a, &b), (&b, &c), (&c, &a)];
            moves.map(|(from, to)| by_root([rename((d, from), (d, to))])).to_vec()
        }),
    },
    Situation {
        name: "three-names",
        about: "of the names of an inode one goes, one comes and one moves, while it is looked at",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, [a, b, c]) = directory(sc);
            let id = made(sc, create(d, &a));
            sc.must(link(id, d, &b));
            vec![by_root([unlink(d, &a)]), by_root([link(id, d, &c)]), by_root([unlink(d, &b), stat(id)])]
        }),
    },
    Situation {
        name: "directory-rename",
        about: "a directory moves into another one, while names are made in it and both are read",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, d_name) = sc.directory_of(A, "d");
            let (e, _) = sc.directory_of(T, "e");
            let (x, y) = (sc.name_at(d, S, "x"), sc.name_at(e, S, "y"));
            vec![
                by_root([rename((InodeId::ROOT, &d_name), (e, &y))]),
                by_root([create(d, &x), stat(d)]),
                by_root([read(e)]),
            ]
        }),
    },
    Situation {
        name: "circle",
        about: "two directories move into each other",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, d_name) = sc.directory_of(A, "d");
            let (e, e_name) = sc.directory_of(T, "e");
            let (x, y) = (sc.name_at(d, S, "x"), sc.name_at(e, S, "y"));
            let into = |name: &Name, dir, to: &Name| by_root([rename((InodeId::ROOT, name), (dir, to))]);
            vec![into(&d_name, e, &y), into(&e_name, d, &x), by_root([read(d)])]
        }),
    },
    Situation {
        name: "replaced-directory",
        about: "a directory replaces an empty one, in which somebody makes a name",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let ((_, d_name), (e, e_name)) = (sc.directory_of(T, "d"), sc.directory_of(A, "e"));
            let x = sc.name_at(e, S, "x");
            let replaces = rename((InodeId::ROOT, &d_name), (InodeId::ROOT, &e_name));
            vec![by_root([replaces]), by_root([create(e, &x), unlink(e, &x)]), by_root([stat(e)])]
        }),
    },
    Situation {
        name: "group",
        about: "two directories of one group, each with a name that comes, both read",
        world: (3, Form::Network, |config| config.coarse_fingerprints = Some(0)),
        script: Script::Requests(|sc| {
            let ((d, _), (e, _)) = (sc.directory_of(A, "d"), sc.directory_of(A, "e"));
            let (x, y) = (sc.name_at(d, S, "x"), sc.name_at(e, T, "y"));
            vec![by_root([create(d, &x), create(e, &y)]), by_root([read(e), read(d)])]
        }),
    },
    Situation {
        name: "group-rename",
        about: "a file moves between two directories of one group, both read",
        world: (3, Form::Network, |config| config.coarse_fingerprints = Some(0)),
        script: Script::Requests(|sc| {
            let ((from, b), (to, a)) = two_directories(sc);
            vec![by_root([rename((from, &b), (to, &a))]), by_root([read(to), read(from)])]
        }),
    },
    Situation {
        name: "overflow",
        about: "the switch has no room: names come while the directory is read and its mode changes",
        world: (3, Form::Network, |config| config.switch_stages = 0),
        script: Script::Requests(|sc| {
            let (d, [x, y, _]) = directory(sc);
            let closes = Request::SetAttr { id: d, set: mode(0o755) };
            held(sc, d);
            vec![by_alice([create(d, &x), create(d, &y)]), by_root([closes]), by_root([read(d)])]
        }),
    },
    Situation {
        name: "chmod",
        about: "a directory is closed while names come, and is read then",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, [x, y, _]) = directory(sc);
            let closes = Request::SetAttr { id: d, set: mode(0o755) };
            held(sc, d);
            vec![by_alice([create(d, &x), create(d, &y)]), by_root([closes, read(d)])]
        }),
    },
    Situation {
        name: "closed",
        about: "somebody looks names up in a directory that is closed meanwhile",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, [x, ..]) = directory(sc);
            sc.must(create(d, &x));
            let closes = Request::SetAttr { id: d, set: mode(0o700) };
            vec![by_alice([lookup(d, &x), lookup(d, &x)]), by_root([closes])]
        }),
    },
    Situation {
        name: "sync",
        about: "a directory in sync gets a name, loses another one and is read; the switch may reboot, which is a change of form",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let d = in_sync(sc);
            let (x, f) = (sc.name_at(d, T, "x"), sc.name_at(d, S, "f0-"));
            vec![by_root([create(d, &x), read(d)]), by_root([unlink(d, &f)])]
        }),
    },
    Situation {
        name: "sync-rename",
        about: "a file leaves a directory in sync for another one, both read",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let d = in_sync(sc);
            let (e, _) = sc.directory_of(T, "e");
            let (f, a) = (sc.name_at(d, S, "f0-"), sc.name_at(e, A, "a"));
            vec![by_root([rename((d, &f), (e, &a))]), by_root([read(e), read(d)])]
        }),
    },
    Situation {
        name: "create-create",
        about: "two make the same name, a third looks it up and reads the directory",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, [x, ..]) = directory(sc);
            vec![by_root([create(d, &x)]), by_root([mkdir(d, &x)]), by_root([lookup(d, &x), read(d)])]
        }),
    },
    Situation {
        name: "create-unlink",
        about: "a name is removed and made again, by different people, and the directory is read",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, [x, ..]) = directory(sc);
            sc.must(create(d, &x));
            vec![by_root([unlink(d, &x)]), by_root([create(d, &x)]), by_root([read(d), lookup(d, &x)])]
        }),
    },
    Situation {
        name: "mkdir-rmdir",
        about: "a directory is removed and its name made again, while somebody makes a name in it",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, d_name) = sc.directory_of(A, "d");
            let x = sc.name_at(d, S, "x");
            let (goes, comes) = (rmdir(InodeId::ROOT, &d_name), mkdir(InodeId::ROOT, &d_name));
            vec![by_root([goes, comes]), by_root([create(d, &x)]), by_root([stat(InodeId::ROOT)])]
        }),
    },
    Situation {
        name: "compaction",
        about: "one name is made, removed and made again at one site before anybody reads",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, [x, y, _]) = directory(sc);
            sc.must(create(d, &y));
            vec![by_root([create(d, &x), unlink(d, &x), mkdir(d, &x)]), by_root([read(d)])]
        }),
    },
    Situation {
        name: "epoch",
        about: "names come and the directory is read; meant for reboots of the switch and deaths of the coordinator",
        world: NETWORK,
        script: Script::Requests(|sc| {
            let (d, [x, y, _]) = directory(sc);
            vec![by_root([create(d, &x), read(d)]), by_root([create(d, &y)])]
        }),
    },
    Situation {
        name: "write-truncate",
        about: "a block is written, cut and written again by two sessions, and read",
        world: (2, Form::Owner, |_| {}),
        script: Script::Calls(&[&[Call::Write(0, 2), Call::Read], &[Call::Truncate(1), Call::Write(1, 2)]]),
    },
    Situation {
        name: "two-truncates",
        about: "two sessions cut a file at different places and write behind that",
        world: (2, Form::Owner, |_| {}),
        script: Script::Calls(&[&[Call::Truncate(1), Call::Write(2, 3)], &[Call::Truncate(0), Call::Write(0, 1)]]),
    },
    Situation {
        name: "write-write",
        about: "two sessions write to one block while a third reads it; replies wait for the disk",
        world: (2, Form::Owner, |config| config.commit = Commit::Sync),
        script: Script::Calls(&[&[Call::Write(0, 2)], &[Call::Write(1, 3), Call::Sync], &[Call::Read]]),
    },
    Situation {
        name: "trims",
        about: "a file is cut, grows without being written and is cut behind the first place",
        world: (2, Form::Owner, |_| {}),
        script: Script::Calls(&[&[Call::Truncate(1), Call::Truncate(3), Call::Truncate(2), Call::Read]]),
    },
    Situation {
        name: "appends",
        about: "two sessions append to a file, and one of them reads it; replies wait for the disk",
        world: (2, Form::Owner, |config| config.commit = Commit::Sync),
        script: Script::Calls(&[&[Call::Append, Call::Read], &[Call::Append]]),
    },
    Situation {
        name: "append-death",
        about: "a session appends to a file and may die of it, while another one appends and reads",
        world: (2, Form::Owner, |config| config.commit = SELDOM),
        script: Script::Calls(&[&[Call::Append, Call::DieSoon], &[Call::Append, Call::Read]]),
    },
    Situation {
        name: "locks",
        about: "two sessions lock a file; one of them reads it meanwhile",
        world: (2, Form::Owner, |config| config.commit = SELDOM),
        script: Script::Calls(&[&[Call::Lock, Call::Read, Call::Unlock], &[Call::Lock, Call::Unlock]]),
    },
    Situation {
        name: "lock-cancel",
        about: "two sessions lock a file, and who waits gets a signal; a third one tries",
        world: (2, Form::Owner, |config| config.commit = SELDOM),
        script: Script::Calls(&[
            &[Call::Lock, Call::Unlock],
            &[Call::Lock, Call::Cancel, Call::Unlock],
            &[Call::TryLock, Call::Unlock],
        ]),
    },
    Situation {
        name: "lease",
        about: "a session removes the name of a file that it has open and locked, and dies; another one waits for the lock",
        world: (2, Form::Owner, |config| config.commit = SELDOM),
        script: Script::Calls(&[&[Call::Lock, Call::Unlink, Call::Die], &[Call::Lock, Call::Read, Call::Unlock]]),
    },
    Situation {
        name: "false-death",
        about: "a session removes the name of a file that it has open and locked, and is declared dead while it goes on; another one locks it",
        world: (2, Form::Owner, |config| config.commit = SELDOM),
        script: Script::Calls(&[
            &[Call::Lock, Call::Unlink, Call::Silence, Call::Append, Call::Read],
            &[Call::Lock, Call::Append, Call::Unlock, Call::Lock, Call::Unlock],
        ]),
    },
    Situation {
        name: "unlinked",
        about: "a file loses its name while two sessions have it open, who go on",
        world: (2, Form::Owner, |config| config.commit = SELDOM),
        script: Script::Calls(&[&[Call::Unlink, Call::Read], &[Call::Write(0, 1), Call::Append, Call::Read]]),
    },
    Situation {
        name: "floor",
        about: "the floor of a site rises after each change-log that is trimmed, while names come in two directories",
        world: (3, Form::Network, |config| config.bounds.floor_every = 1),
        script: Script::Requests(|sc| {
            let ((d, _), (e, _)) = (sc.directory_of(A, "d"), sc.directory_of(T, "e"));
            let [x, y] = ["x", "y"].map(|prefix| sc.name_at(d, S, prefix));
            let z = sc.name_at(e, S, "z");
            vec![by_root([create(d, &x), read(d), create(d, &y)]), by_root([create(e, &z), read(e)])]
        }),
    },
    Situation {
        name: "room",
        about: "names come in three directories at a site that has room for one change-log, and a file moves between two of them",
        world: (3, Form::Owner, |config| (config.bounds.logs, config.bounds.log_entries) = (2, 4)),
        script: Script::Requests(|sc| {
            let [d, e, g] = [(A, "d"), (T, "e"), (A, "g")].map(|(owner, name)| sc.directory_of(owner, name).0);
            let [b, x] = ["b", "x"].map(|name| sc.name_at(d, S, name));
            let [a, z] = ["a", "z"].map(|name| sc.name_at(e, S, name));
            let w = sc.name_at(g, S, "w");
            sc.must(create(d, &b));
            sc.go_on_for(IDLE_NS);
            let makes = [create(d, &x), create(g, &w)].map(|request| by_root([request]));
            let moves = by_root([rename((d, &b), (e, &a))]);
            makes.into_iter().chain([by_root([create(e, &z), read(e)]), moves]).collect()
        }),
    },
];
