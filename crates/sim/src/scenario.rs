//! Scenarios in prose: a small world whose messages and crashes a test directs by hand.
//!
//! Every shard is a process of its own, the network is calm, and nothing happens by chance but delays. The checker
//! watches as always; [`Scenario::ends_well`] settles the world and compares everything with the model.

use crate::audit;
use crate::client::Asked;
use crate::model::Caller;
use crate::world::{HoldId, Message, World, WorldConfig};
use onpath_meta::{ShardBounds, SyncPolicy};
use onpath_path::IndexKind;
use onpath_wire::attr::AttrWire;
use onpath_wire::codec::Blob;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{Birth, Cookie, InodeId, NodeId, ShardId, Slot};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::reply::Reply;
use onpath_wire::request::{NewNode, Request, SetAttr, set};
use onpath_wire::tracking::{Form, Writes};
use std::collections::{BTreeMap, VecDeque};

/// A request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    client: usize,
    number: usize,
}

/// Virtual time in which whatever can happen without timers happens, ns.
const SHORT_NS: u64 = 5_000_000;
/// Virtual time after which an operation that is not answered never will be, ns.
const STUCK_NS: u64 = 60_000_000_000;

/// Virtual time in which the first tracking epoch is complete, ns.
const EPOCH_NS: u64 = 50_000_000;

/// A client that asks one thing at a time, and knows of shards what their answers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker(usize);

/// A directed world.
pub struct Scenario {
    /// The world.
    pub world: World,
    /// What each client waits for.
    open: BTreeMap<usize, Ticket>,
    answers: BTreeMap<Ticket, Reply>,
    /// Clients that [`Scenario::client`] has not given out.
    met: VecDeque<usize>,
}

impl Scenario {
    /// One shard and the only data node in one process, which lose power together.
    pub fn of_one_process(seed: u64) -> Scenario {
        Scenario::of(WorldConfig { seed, data_nodes: 1, ..calm(1) })
    }

    /// So many shards, each in its own process; the root is everybody's.
    pub fn new(shards: u16) -> Scenario {
        Scenario::seeded(shards, 1)
    }

    /// The same with other delays, and other luck in crashes.
    pub fn seeded(shards: u16, seed: u64) -> Scenario {
        Scenario::of(WorldConfig { seed, ..calm(shards) })
    }

    /// The same with a switch, which tracks directories: the first tracking epoch is complete.
    pub fn network(shards: u16) -> Scenario {
        Scenario::of(WorldConfig { form: Form::Network, ..calm(shards) })
    }

    /// The same with so many switches.
    pub fn network_of(shards: u16, switches: u16) -> Scenario {
        Scenario::of(WorldConfig { form: Form::Network, switches, ..calm(shards) })
    }

    /// The same with a switch in which there is no room for any mark.
    pub fn network_without_room(shards: u16) -> Scenario {
        Scenario::of(WorldConfig { form: Form::Network, switch_stages: 0, ..calm(shards) })
    }

    /// The same with a switch to which all directories of a shard are one group.
    pub fn network_of_groups(shards: u16) -> Scenario {
        Scenario::of(WorldConfig { form: Form::Network, coarse_fingerprints: Some(0), ..calm(shards) })
    }

    /// The same where it is decided beforehand which directories go into *sync*.
    pub fn with_sync(shards: u16, sync: SyncPolicy) -> Scenario {
        Scenario::of(WorldConfig { sync, ..calm(shards) })
    }

    /// The same with a switch that has a cache.
    pub fn with_cache(shards: u16) -> Scenario {
        Scenario::of(WorldConfig { form: Form::Network, cache: true, ..calm(shards) })
    }

    /// The same with a switch that has a cache, and a path node.
    pub fn with_cache_and_paths(shards: u16) -> Scenario {
        Scenario::of(WorldConfig { form: Form::Network, cache: true, path_nodes: 1, ..calm(shards) })
    }

    /// The same with a switch that has a cache, and files whose writes data nodes answer.
    pub fn with_cache_and_parts(shards: u16) -> Scenario {
        let of_cache = WorldConfig { form: Form::Network, cache: true, ..calm(shards) };
        Scenario::of(WorldConfig { writes: Writes::Visible, ..of_cache })
    }

    /// The same with a path node.
    pub fn with_path_node(shards: u16) -> Scenario {
        Scenario::of(WorldConfig { path_nodes: 1, ..calm(shards) })
    }

    /// The same with one that keeps them in this index.
    pub fn with_path_index(shards: u16, path_index: IndexKind) -> Scenario {
        Scenario::of(WorldConfig { path_nodes: 1, path_index, ..calm(shards) })
    }

    /// The same with one that has so many bytes of memory for them.
    pub fn with_path_memory(shards: u16, path_bytes: usize) -> Scenario {
        Scenario::of(WorldConfig { path_nodes: 1, path_bytes, ..calm(shards) })
    }

    /// The same with one that asks for all directories when it starts.
    pub fn with_loading_path_node(shards: u16) -> Scenario {
        Scenario::of(WorldConfig { path_nodes: 1, path_loads: true, ..calm(shards) })
    }

    /// One shard, which lends files, with a data node beside it and one in another process.
    pub fn lending() -> Scenario {
        Scenario::of(WorldConfig { processes: 1, data_nodes: 2, writes: Writes::Visible, ..calm(1) })
    }

    /// The same where sessions bring homes what data nodes have recorded.
    pub fn lending_in_two_phases() -> Scenario {
        Scenario::of(WorldConfig { processes: 1, data_nodes: 2, writes: Writes::TwoPhase, ..calm(1) })
    }

    /// The same with so many switches, whose tables show what is pending.
    pub fn lending_in_network(switches: u16) -> Scenario {
        // Of a seed of its own: homes and data nodes have the secrets of no default.
        let config = WorldConfig { seed: 3, processes: 1, data_nodes: 2, writes: Writes::Visible, ..calm(1) };
        Scenario::of(WorldConfig { form: Form::Network, switches, ..config })
    }

    /// The same with a switch that has one entry for each data node.
    pub fn lending_in_entries() -> Scenario {
        let config = WorldConfig { processes: 1, data_nodes: 2, writes: Writes::Visible, ..calm(1) };
        Scenario::of(WorldConfig { form: Form::Network, coarse_fingerprints: Some(0), ..config })
    }

    /// The same where little may wait at a shard for other nodes.
    pub fn bounded(shards: u16, bounds: ShardBounds) -> Scenario {
        Scenario::of(WorldConfig { bounds, ..calm(shards) })
    }

    /// How full a queue of a shard is.
    ///
    /// # Panics
    /// There is no such queue.
    pub fn queue(&self, shard: u16, name: &str) -> u64 {
        let (_, gauges) = self
            .world
            .rest()
            .queues
            .into_iter()
            .find(|(node, _)| *node == self::shard(shard))
            .expect("a shard of ours");
        gauges.iter().find(|gauge| gauge.name == name).expect("a queue of a shard").len
    }

    pub(crate) fn of(config: WorldConfig) -> Scenario {
        let (open, answers) = (BTreeMap::new(), BTreeMap::new());
        let network = config.form == Form::Network;
        let mut scenario = Scenario { world: World::new(config), open, answers, met: VecDeque::new() };
        if network {
            scenario.go_on_for(EPOCH_NS);
        }
        scenario.must(Request::SetAttr { id: InodeId::ROOT, set: mode(0o777) });
        scenario
    }

    /// A client that has asked `shard` before, and so asks the switch when it reads a directory of it.
    pub fn reader_at(&mut self, shard: u16) -> Asker {
        let asker = Asker(self.world.add_client());
        self.knows(asker, shard);
        asker
    }

    /// A client that has asked every shard before: the first of those that did so at a [`Scenario::meet`], or a new one. Its number
    /// in the world.
    pub(crate) fn client(&mut self) -> usize {
        if self.met.is_empty() {
            self.meet(1);
        }
        self.met.pop_front().expect("just met")
    }

    /// So many clients ask every shard, and then nothing until they are taken.
    pub(crate) fn meet(&mut self, clients: usize) {
        for _ in 0..clients {
            let asker = Asker(self.world.add_client());
            (0..self.world.map().shards()).for_each(|shard| self.knows(asker, shard));
            self.met.push_back(asker.0);
        }
    }

    /// The client learns how `shard` tracks its directories now.
    pub fn knows(&mut self, asker: Asker, shard: u16) {
        let nobodys = (1..).map(|slot| InodeId::new(Slot(slot), Birth(1), 1, Kind::File));
        let id =
            nobodys.into_iter().find(|&id| self.world.map().home(id) == ShardId(shard)).expect("every shard has slots");
        let asked = self.ask_by(asker, Request::ReadLink { id });
        self.wait_for(asked);
    }

    /// The lease of this client ends when so much time has passed.
    pub fn lease_ends_in(&mut self, asker: Asker, ns: u64) {
        self.world.end_lease_in(asker.0, ns);
    }

    /// root asks something through this client, which waits for nothing.
    pub fn ask_by(&mut self, asker: Asker, request: Request) -> Ticket {
        self.submit(asker.0, Caller::default(), request)
    }

    fn submit(&mut self, client: usize, caller: Caller, request: Request) -> Ticket {
        let number = self.answers.keys().filter(|ticket| ticket.client == client).count();
        let ticket = Ticket { client, number };
        assert!(self.open.insert(client, ticket).is_none(), "one question at a time");
        self.world.submit(client, Asked::new(caller, request));
        ticket
    }

    /// A name in `dir` that lives at `shard`.
    pub fn name_at(&self, dir: InodeId, shard: u16, prefix: &str) -> Name {
        let names = (0..).map(|n| Name::new(format!("{prefix}{n}").as_bytes()).expect("a short name"));
        let map = self.world.map();
        let at = |name: &Name| map.shard(map.site(dir, name.as_bytes())) == ShardId(shard);
        names.into_iter().find(at).expect("some name lives everywhere")
    }

    /// A directory of everybody's below the root whose owner is `shard`.
    pub fn directory_of(&mut self, shard: u16, prefix: &str) -> (InodeId, Name) {
        let name = self.name_at(InodeId::ROOT, shard, prefix);
        match self.must(make(InodeId::ROOT, &name, Kind::Directory, 0o777)) {
            Reply::Entry { attr, .. } => (attr.id, name),
            other => panic!("mkdir answered {other:?}"),
        }
    }

    /// Every shard has made an inode in its term, so that none waits until its birth is durable any more.
    pub fn all_have_births(&mut self) {
        for shard in self.world.map().all() {
            let name = self.name_at(InodeId::ROOT, shard.0, "first");
            self.must(create(InodeId::ROOT, &name));
            self.must(unlink(InodeId::ROOT, &name));
        }
        self.go_on();
    }

    /// root asks something, through a client of its own.
    pub fn ask(&mut self, request: Request) -> Ticket {
        self.ask_as(Caller::default(), request)
    }

    /// Somebody asks something, through a client of their own.
    pub fn ask_as(&mut self, caller: Caller, request: Request) -> Ticket {
        let client = self.world.add_client();
        self.submit(client, caller, request)
    }

    /// Lets everything happen that can happen within a few milliseconds.
    pub fn go_on(&mut self) {
        self.go_on_for(SHORT_NS);
    }

    /// Lets everything happen that happens within `ns`.
    pub fn go_on_for(&mut self, ns: u64) {
        let until_ns = self.world.now_ns() + ns;
        while let Some(done) = self.world.step(until_ns) {
            let ticket = self.open.remove(&done.client).expect("it has asked");
            self.answers.insert(ticket, done.reply);
        }
    }

    /// The answer, if it has come.
    pub fn answer(&self, ticket: Ticket) -> Option<&Reply> {
        self.answers.get(&ticket)
    }

    /// Asserts that there is no answer yet.
    pub fn waits(&self, ticket: Ticket) {
        assert!(self.answer(ticket).is_none(), "answered {:?}", self.answer(ticket));
    }

    /// Waits for the answer.
    pub fn wait_for(&mut self, ticket: Ticket) -> Reply {
        let until_ns = self.world.now_ns() + STUCK_NS;
        while self.answer(ticket).is_none() {
            assert!(self.world.now_ns() < until_ns, "no answer comes");
            self.go_on();
        }
        self.answers[&ticket].clone()
    }

    /// Waits for success.
    pub fn succeeds(&mut self, ticket: Ticket) -> Reply {
        let reply = self.wait_for(ticket);
        assert!(!matches!(reply, Reply::Failed { .. }), "{reply:?}");
        reply
    }

    /// Waits for this failure.
    pub fn fails(&mut self, ticket: Ticket, errno: Errno) {
        assert_eq!(self.wait_for(ticket), Reply::Failed { errno });
    }

    /// root asks and gets it.
    pub fn must(&mut self, request: Request) -> Reply {
        let ticket = self.ask(request);
        self.succeeds(ticket)
    }

    /// The names in a directory, as readdir shows them.
    pub fn names(&mut self, id: InodeId) -> Vec<Name> {
        listed(self.must(read(id)))
    }

    /// The names in a directory, as readdir shows them to this client.
    pub fn names_by(&mut self, asker: Asker, id: InodeId) -> Vec<Name> {
        let asked = self.ask_by(asker, read(id));
        listed(self.succeeds(asked))
    }

    /// What root sees of an inode.
    pub fn attributes(&mut self, id: InodeId) -> AttrWire {
        match self.must(Request::GetAttr { id }) {
            Reply::Attr { attr, .. } => attr,
            other => panic!("getattr answered {other:?}"),
        }
    }

    /// Keeps messages back; see [`World::hold`].
    pub fn hold(&mut self, wants: impl Fn(&Message<'_>) -> bool + 'static) -> HoldId {
        self.world.hold(wants)
    }

    /// Lets what was kept back go.
    pub fn let_go(&mut self, hold: HoldId) {
        self.world.let_go(hold);
    }

    /// Kills the process of a shard and waits until it serves again.
    pub fn restart(&mut self, shard: u16) {
        let process = self.world.process_of(ShardId(shard));
        self.world.crash(process, false);
        while !self.world.is_up(process) {
            self.go_on();
        }
    }

    /// Settles the world: everything is answered, everything is as the model says, nothing was wrong on the way.
    pub fn ends_well(mut self) {
        audit::settle(&mut self.world, &mut []);
        let violations = &self.world.checker.violations;
        assert!(violations.is_empty(), "{violations:#?}");
    }
}

/// The names that an answer to [`read`] lists.
///
/// # Panics
/// It is the answer to something else.
pub fn listed(reply: Reply) -> Vec<Name> {
    match reply {
        Reply::Dir { entries, .. } => entries.into_iter().map(|entry| entry.name).collect(),
        other => panic!("readdir answered {other:?}"),
    }
}

pub(crate) fn calm(shards: u16) -> WorldConfig {
    WorldConfig { shards, processes: shards, checkpoint_us: 0, ..WorldConfig::default() }
}

/// A change of permission bits.
pub fn mode(mode: u16) -> SetAttr {
    SetAttr { valid: set::MODE, mode, ..SetAttr::default() }
}

/// A request for a new inode.
pub fn make(parent: InodeId, name: &Name, kind: Kind, mode: u16) -> Request {
    let node = NewNode { kind, mode, umask: 0, rdev: 0, target: Blob::default(), open: 0 };
    Request::Create { parent, name: name.clone(), node }
}

/// A request for a new file.
pub fn create(parent: InodeId, name: &Name) -> Request {
    make(parent, name, Kind::File, 0o644)
}

/// A request for all names of a small directory.
pub fn read(id: InodeId) -> Request {
    Request::ReadDir { id, after: Cookie(0), bytes: 1 << 16 }
}

/// A request to remove a file.
pub fn unlink(parent: InodeId, name: &Name) -> Request {
    Request::Unlink { parent, name: name.clone() }
}

/// A request to remove a directory below the root.
pub fn rmdir(name: &Name) -> Request {
    Request::Rmdir { parent: InodeId::ROOT, name: name.clone() }
}

/// A request to rename.
pub fn rename((from_parent, from): (InodeId, &Name), (parent, name): (InodeId, &Name)) -> Request {
    Request::Rename { from_parent, from: from.clone(), parent, name: name.clone(), flags: 0 }
}

/// The address of a shard.
pub fn shard(number: u16) -> NodeId {
    NodeId::shard(ShardId(number))
}

/// A user without privileges.
pub fn alice() -> Caller {
    Caller::new(1001, 1001)
}
