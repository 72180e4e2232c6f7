//! A role of the cost model in its server: what waits for it, and what it has put out but not yet sent.

use super::clients::{CLUSTER, TERM};
use super::config::{Cache, ModelConfig};
use crate::world::files::Files;
use crate::world::role::{Role, Stimulus};
use onpath_controller::{Controller, ControllerConfig};
use onpath_data::{DataConfig, DataNode, DiskOp, Ticket};
use onpath_index::Heap;
use onpath_kernel::{Input, Now, Role as _};
use onpath_meta::{Shard, ShardBounds, ShardConfig};
use onpath_path::{PathConfig, PathNode};
use onpath_wire::ids::{Birth, Lsn, NodeId, RecordSeq, ShardId};
use onpath_wire::map::ClusterMap;
use onpath_wire::secrets::Secrets;
use onpath_wire::tracking::{Switches, Writes};
use std::collections::VecDeque;

/// Bytes that a path node's index may take: more than any tree of the model needs.
const PATH_BYTES: usize = 1 << 28;
/// 4 KiB blocks of a data file: more than all files of the model have.
const DATA_FILE_BLOCKS: u32 = 1 << 22;

/// What waits for its role.
pub(crate) struct Waiting {
    pub(crate) stimulus: Stimulus,
    /// It came from another server, or from a client.
    pub(crate) remote: bool,
}

/// A role in its server.
pub(crate) struct Place {
    pub(crate) node: NodeId,
    pub(crate) server: u16,
    pub(crate) role: Role,
    /// The disk of a data node: memory.
    files: Files,
    pub(crate) inbox: VecDeque<Waiting>,
    /// It runs, or is in the run queue.
    pub(crate) queued: bool,
    /// The earliest tick arranged, ns.
    pub(crate) tick_ns: Option<u64>,
    /// Records that are not durable yet.
    records: VecDeque<(RecordSeq, Lsn)>,
}

impl Place {
    pub(crate) fn shard(config: &ModelConfig, map: &ClusterMap, shard: ShardId) -> Place {
        let role = Shard::new(ShardConfig {
            shard,
            map: map.clone(),
            term: TERM,
            one_journal: config.servers == 1 && config.data_servers == 0,
            ends_path_nodes: false,
            inner: Secrets::of_seed(7).inner,
            cluster: CLUSTER,
            track_unsynced: config.servers > 1 || config.data_servers > 0,
            outlived: false,
            form: config.tracking.form(),
            switches: Switches::ONE,
            sync: config.tracking.policy(),
            sticky_marks: config.sticky_marks,
            writes: config.writes,
            shows_files: config.writes == Writes::Visible,
            bounds: ShardBounds::default(),
        });
        Place::new(NodeId::shard(shard), shard.0 / config.shards_each(), Role::Shard(Box::new(role)))
    }

    /// A path node that knows nothing yet.
    pub(crate) fn path_node(config: &ModelConfig, map: &ClusterMap, number: u16, server: u16) -> Place {
        let (node, map, key) = (NodeId::path(number), map.clone(), [7; 16]);
        let (memory_bytes, index, loads) = (PATH_BYTES, config.index, false);
        let config = PathConfig { node, cluster: CLUSTER, map, term: TERM, key, memory_bytes, index, loads };
        Place::new(node, server, Role::Path(Box::new(PathNode::new(config, Heap))))
    }

    /// A data node without files.
    pub(crate) fn data_node(config: &ModelConfig, map: &ClusterMap, number: u16, server: u16) -> Place {
        let role = DataNode::new(DataConfig {
            node: number,
            term: TERM,
            map: map.clone(),
            cluster: CLUSTER,
            file_blocks: DATA_FILE_BLOCKS,
            files: 0,
            outlived: false,
            deferred: config.deferred,
            tickets: Secrets::of_seed(7).inner.tickets(),
        });
        Place::new(NodeId::data(number), server, Role::Data(Box::new(role)))
    }

    /// The controller of the switch's cache, which answers nothing yet.
    pub(crate) fn controller(cache: Cache, map: &ClusterMap, server: u16) -> Place {
        let node = NodeId::controller(0);
        let Cache { entries, threshold } = cache;
        let (coordinator, shards) = (map.coordinator(), map.shards());
        let (switch, cluster, term) = (None, CLUSTER, TERM);
        let config = ControllerConfig { node, switch, cluster, coordinator, shards, term, entries, threshold };
        Place::new(node, server, Role::Controller(Box::new(Controller::new(config))))
    }

    fn new(node: NodeId, server: u16, role: Role) -> Place {
        let (inbox, records) = (VecDeque::new(), VecDeque::new());
        Place { node, server, role, files: Files::default(), inbox, queued: false, tick_ns: None, records }
    }

    /// It begins to serve.
    pub(crate) fn start(&mut self, now: Now) {
        match &mut self.role {
            Role::Shard(shard) => shard.start(now, Birth(1)),
            Role::Data(data) => {
                data.start(now, Birth::NEVER, &mut |file, at, into| self.files.read(file, at, into));
            }
            Role::Path(path_node) => path_node.handle(now, Input::Tick),
            Role::Controller(controller) => controller.handle(now, Input::Tick),
        }
    }

    /// Does what its data node asks of the disk.
    pub(crate) fn execute(&mut self, ticket: Ticket, op: DiskOp) -> Stimulus {
        let result = self.files.execute(op);
        self.files.sync();
        Stimulus::DiskDone(ticket, result)
    }

    /// Walks that reachability bits have spared the path node to check.
    pub(crate) fn speculated(&self) -> u64 {
        match &self.role {
            Role::Path(path_node) => path_node.speculated(),
            Role::Shard(_) | Role::Data(_) | Role::Controller(_) => 0,
        }
    }

    /// Writes that the data node has to tell homes of.
    pub(crate) fn owed(&self) -> usize {
        match &self.role {
            Role::Data(data) => data.owed(),
            Role::Shard(_) | Role::Path(_) | Role::Controller(_) => 0,
        }
    }

    pub(crate) fn appended(&mut self, seq: RecordSeq, lsn: Lsn) {
        self.records.push_back((seq, lsn));
    }

    /// The journal position of its record `after`, unless that is durable.
    pub(crate) fn rests_on(&self, after: RecordSeq) -> Lsn {
        let index = self.records.partition_point(|(seq, _)| *seq <= after);
        if index == 0 { Lsn(0) } else { self.records[index - 1].1 }
    }

    /// Its last record that has become durable, if any has.
    pub(crate) fn durable(&mut self, upto: Lsn) -> Option<RecordSeq> {
        let mut last = None;
        while let Some((seq, _)) = self.records.pop_front_if(|(_, lsn)| *lsn <= upto) {
            last = Some(seq);
        }
        last
    }
}
