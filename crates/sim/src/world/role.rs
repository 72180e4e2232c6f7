//! The roles that a process holds, behind one face.

use super::{Commit, DATA_FILE_BLOCKS, WorldConfig};
use onpath_controller::{Controller, ControllerConfig, ControllerIn};
use onpath_data::{DataConfig, DataIn, DataNode, DataOut, DiskOp, DiskResult, Ticket};
use onpath_index::Heap;
use onpath_kernel::{Input, Need, Now, Output, Role as _};
use onpath_meta::{Shard, ShardConfig};
use onpath_path::{PathConfig, PathNode};
use onpath_store::Recoverable;
use onpath_wire::ids::{NodeId, RecordSeq, ShardId, Term};
use onpath_wire::map::ClusterMap;
use onpath_wire::packet::Packet;
use onpath_wire::tracking::{Switches, Writes};

/// What a role is started with; the term is filled in.
#[derive(Clone, Debug)]
pub(crate) enum RoleConfig {
    Shard(ShardConfig),
    Data(DataConfig),
    Path(PathConfig),
    Controller(ControllerConfig),
}

impl RoleConfig {
    pub(crate) fn node(&self) -> NodeId {
        match self {
            RoleConfig::Shard(config) => NodeId::shard(config.shard),
            RoleConfig::Data(config) => NodeId::data(config.node),
            RoleConfig::Path(config) => config.node,
            RoleConfig::Controller(config) => config.node,
        }
    }

    /// Whether no role with records is in another process; a data node does not know, but the shards beside it do.
    pub(crate) fn has_one_journal(&self) -> bool {
        match self {
            RoleConfig::Shard(config) => config.one_journal,
            RoleConfig::Data(_) | RoleConfig::Path(_) | RoleConfig::Controller(_) => false,
        }
    }

    /// The role of a new term, without its state. `files`: data files that exist.
    pub(crate) fn create(&self, term: Term, files: u32) -> Role {
        match self {
            RoleConfig::Shard(config) => Role::Shard(Box::new(Shard::new(ShardConfig { term, ..config.clone() }))),
            RoleConfig::Data(config) => {
                Role::Data(Box::new(DataNode::new(DataConfig { term, files, ..config.clone() })))
            }
            RoleConfig::Path(config) => {
                Role::Path(Box::new(PathNode::new(PathConfig { term, ..config.clone() }, Heap)))
            }
            RoleConfig::Controller(config) => {
                Role::Controller(Box::new(Controller::new(ControllerConfig { term, ..config.clone() })))
            }
        }
    }
}

/// A role.
pub(crate) enum Role {
    Shard(Box<Shard>),
    Data(Box<DataNode>),
    Path(Box<PathNode>),
    Controller(Box<Controller>),
}

/// What happens to a role.
pub(crate) enum Stimulus {
    Packet(Packet),
    Tick,
    Durable(RecordSeq),
    DiskDone(Ticket, DiskResult),
    /// What its host tells a controller.
    Told(ControllerIn),
}

/// What a role does.
pub(crate) enum Action {
    Append { seq: RecordSeq, bytes: Vec<u8> },
    Send { to: NodeId, packet: Packet, after: RecordSeq, need: Need },
    Flush,
    Disk { ticket: Ticket, op: DiskOp },
}

/// Of a role that takes nothing else.
fn input<I>(stimulus: Stimulus) -> Input<I> {
    match stimulus {
        Stimulus::Packet(packet) => Input::Packet(packet),
        Stimulus::Tick => Input::Tick,
        Stimulus::Durable(seq) => Input::Durable(seq),
        Stimulus::DiskDone(..) | Stimulus::Told(_) => unreachable!("it has no disk, and decides nothing"),
    }
}

pub(crate) fn action<O>(output: Output<O>, own: impl FnOnce(O) -> Action) -> Action {
    match output {
        Output::Append { seq, bytes } => Action::Append { seq, bytes },
        Output::Send { to, packet, after, need } => Action::Send { to, packet, after, need },
        Output::Flush => Action::Flush,
        Output::Own(out) => own(out),
    }
}

impl Role {
    pub(crate) fn handle(&mut self, now: Now, stimulus: Stimulus) {
        match self {
            Role::Shard(shard) => shard.handle(now, input(stimulus)),
            Role::Data(data) => match stimulus {
                Stimulus::DiskDone(ticket, result) => data.handle(now, Input::Own(DataIn::DiskDone { ticket, result })),
                stimulus => data.handle(now, input(stimulus)),
            },
            Role::Path(path) => path.handle(now, input(stimulus)),
            Role::Controller(controller) => match stimulus {
                Stimulus::Told(what) => controller.handle(now, Input::Own(what)),
                stimulus => controller.handle(now, input(stimulus)),
            },
        }
    }

    pub(crate) fn poll(&mut self) -> Option<Action> {
        match self {
            Role::Shard(shard) => Some(action(shard.poll_output()?, |()| unreachable!("shards have no own outputs"))),
            Role::Data(data) => {
                Some(action(data.poll_output()?, |DataOut::Disk { ticket, op }| Action::Disk { ticket, op }))
            }
            Role::Path(path) => Some(action(path.poll_output()?, |()| unreachable!("path nodes have no own outputs"))),
            Role::Controller(controller) => {
                Some(action(controller.poll_output()?, |()| unreachable!("controllers have no own outputs")))
            }
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        match self {
            Role::Shard(shard) => shard.next_deadline(),
            Role::Data(data) => data.next_deadline(),
            Role::Path(path) => path.next_deadline(),
            Role::Controller(controller) => controller.next_deadline(),
        }
    }

    /// All that it has put out.
    pub(crate) fn poll_all(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.poll()).collect()
    }

    /// Its durable state, if it has any.
    pub(crate) fn recoverable(&mut self) -> Option<&mut dyn Recoverable> {
        match self {
            Role::Shard(shard) => Some(&mut **shard),
            Role::Data(data) => Some(&mut **data),
            Role::Path(_) | Role::Controller(_) => None,
        }
    }
}

/// A data node of a world.
pub(super) fn data_config(config: &WorldConfig, map: &ClusterMap, node: u16) -> RoleConfig {
    RoleConfig::Data(DataConfig {
        node,
        term: Term(0),
        map: map.clone(),
        cluster: 1,
        file_blocks: DATA_FILE_BLOCKS,
        files: 0,
        tickets: config.secrets().inner.tickets(),
        outlived: config.commit != Commit::Sync,
        deferred: true,
    })
}

/// A shard of a world.
pub(super) fn shard_config(config: &WorldConfig, map: &ClusterMap, shard: ShardId) -> RoleConfig {
    RoleConfig::Shard(ShardConfig {
        shard,
        map: map.clone(),
        term: Term(0),
        one_journal: config.all_processes() == 1,
        ends_path_nodes: false,
        inner: config.secrets().inner,
        cluster: 1,
        track_unsynced: config.commit == Commit::Sync || config.all_processes() > 1,
        outlived: config.commit != Commit::Sync,
        form: config.form,
        switches: Switches::of(0..config.switches).expect("as many as there can be"),
        sync: config.sync,
        sticky_marks: true,
        writes: config.writes,
        shows_files: config.writes == Writes::Visible,
        bounds: config.bounds,
    })
}

/// A path node of a world.
pub(super) fn path_config(config: &WorldConfig, map: &ClusterMap, node: NodeId) -> RoleConfig {
    let (cluster, term, key) = (1, Term(0), [7; 16]);
    let (memory_bytes, index, loads) = (config.path_bytes, config.path_index, config.path_loads);
    RoleConfig::Path(PathConfig { node, cluster, map: map.clone(), term, key, memory_bytes, index, loads })
}

/// Entries of a world's cache: few, so that names make room for others.
const CACHE_ENTRIES: u32 = 8;
/// Misses of a name in a period after which it is given an entry.
const THRESHOLD: u16 = 2;

/// The controller beside the first switch of a world.
pub(super) fn controller_config(map: &ClusterMap) -> RoleConfig {
    let (node, switch) = (NodeId::controller(0), NodeId::switch(0));
    RoleConfig::Controller(ControllerConfig {
        node,
        switch: Some(switch),
        cluster: 1,
        coordinator: map.coordinator(),
        shards: map.shards(),
        term: Term(0),
        entries: CACHE_ENTRIES,
        threshold: THRESHOLD,
    })
}
