//! A shard of the cost model: what waits for it, and what it has put out but not yet sent.

use super::clients::{CLUSTER, TERM};
use super::config::ModelConfig;
use onpath_kernel::{Input, Output, Role};
use onpath_meta::{Shard, ShardBounds, ShardConfig};
use onpath_wire::ids::{Lsn, NodeId, RecordSeq, ShardId};
use onpath_wire::map::ClusterMap;
use onpath_wire::secrets::Secrets;
use onpath_wire::tracking::Switches;
use std::collections::VecDeque;

/// An input that waits for its shard.
pub(crate) struct Waiting {
    pub(crate) input: Input<()>,
    /// It came from another server, or from a client.
    pub(crate) remote: bool,
}

/// A shard in its server.
pub(crate) struct Place {
    pub(crate) node: NodeId,
    pub(crate) role: Shard,
    pub(crate) inbox: VecDeque<Waiting>,
    /// It runs, or is in the run queue.
    pub(crate) queued: bool,
    /// The earliest tick arranged, ns.
    pub(crate) tick_ns: Option<u64>,
    /// Records that are not durable yet.
    records: VecDeque<(RecordSeq, Lsn)>,
}

impl Place {
    pub(crate) fn new(config: &ModelConfig, map: &ClusterMap, shard: ShardId) -> Place {
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
            bounds: ShardBounds::default(),
        });
        let (inbox, records) = (VecDeque::new(), VecDeque::new());
        Place { node: NodeId::shard(shard), role, inbox, queued: false, tick_ns: None, records }
    }

    /// All that it has put out.
    pub(crate) fn poll(&mut self) -> Vec<Output<()>> {
        std::iter::from_fn(|| self.role.poll_output()).collect()
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
