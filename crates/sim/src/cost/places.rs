//! A role of the cost model in its server: what waits for it, and what it has put out but not yet sent.

use super::clients::{CLUSTER, TERM};
use super::config::ModelConfig;
use onpath_index::Heap;
use onpath_kernel::{Input, Now, Output, Role};
use onpath_meta::{Shard, ShardBounds, ShardConfig};
use onpath_path::{PathConfig, PathNode};
use onpath_wire::ids::{Birth, Lsn, NodeId, RecordSeq, ShardId};
use onpath_wire::map::ClusterMap;
use onpath_wire::secrets::Secrets;
use onpath_wire::tracking::{Switches, Writes};
use std::collections::VecDeque;

/// Bytes that a path node's index may take: more than any tree of the model needs.
const PATH_BYTES: usize = 1 << 28;

/// An input that waits for its role.
pub(crate) struct Waiting {
    pub(crate) input: Input<()>,
    /// It came from another server, or from a client.
    pub(crate) remote: bool,
}

/// The roles that servers have.
pub(crate) enum Hosted {
    Shard(Box<Shard>),
    Path(Box<PathNode>),
}

/// Asks whichever it is.
macro_rules! each {
    ($hosted:expr, $role:ident => $does:expr) => {
        match $hosted {
            Hosted::Shard($role) => $does,
            Hosted::Path($role) => $does,
        }
    };
}

/// A role in its server.
pub(crate) struct Place {
    pub(crate) node: NodeId,
    pub(crate) server: u16,
    pub(crate) role: Hosted,
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
            one_journal: config.servers == 1,
            ends_path_nodes: false,
            inner: Secrets::of_seed(7).inner,
            cluster: CLUSTER,
            track_unsynced: config.servers > 1,
            outlived: false,
            form: config.tracking.form(),
            switches: Switches::ONE,
            sync: config.tracking.policy(),
            sticky_marks: config.sticky_marks,
            writes: Writes::Chain,
            shows_files: false,
            bounds: ShardBounds::default(),
        });
        Place::new(NodeId::shard(shard), shard.0 / config.shards_each(), Hosted::Shard(Box::new(role)))
    }

    /// A path node that knows nothing yet.
    pub(crate) fn path_node(config: &ModelConfig, map: &ClusterMap, number: u16, server: u16) -> Place {
        let (node, map, key) = (NodeId::path(number), map.clone(), [7; 16]);
        let (memory_bytes, index, loads) = (PATH_BYTES, config.index, false);
        let config = PathConfig { node, cluster: CLUSTER, map, term: TERM, key, memory_bytes, index, loads };
        Place::new(node, server, Hosted::Path(Box::new(PathNode::new(config, Heap))))
    }

    fn new(node: NodeId, server: u16, role: Hosted) -> Place {
        let (inbox, records) = (VecDeque::new(), VecDeque::new());
        Place { node, server, role, inbox, queued: false, tick_ns: None, records }
    }

    /// It begins to serve.
    pub(crate) fn start(&mut self, now: Now) {
        match &mut self.role {
            Hosted::Shard(shard) => shard.start(now, Birth(1)),
            Hosted::Path(path_node) => path_node.handle(now, Input::Tick),
        }
    }

    pub(crate) fn handle(&mut self, now: Now, input: Input<()>) {
        each!(&mut self.role, role => role.handle(now, input));
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        each!(&self.role, role => role.next_deadline())
    }

    /// All that it has put out.
    pub(crate) fn poll(&mut self) -> Vec<Output<()>> {
        each!(&mut self.role, role => std::iter::from_fn(|| role.poll_output()).collect())
    }

    /// Walks that reachability bits have spared the path node to check.
    pub(crate) fn speculated(&self) -> u64 {
        match &self.role {
            Hosted::Shard(_) => 0,
            Hosted::Path(path_node) => path_node.speculated(),
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
