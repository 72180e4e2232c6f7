//! How the runtime keeps the roles of Onpath: their counters, their durable state, their disk.

use crate::blocks::BlockFiles;
use crate::node::{Counters, Effects, HostedRole, NoEffects, NodeBuilder, Port};
use onpath_controller::{Controller, ControllerConfig, THRESHOLD};
use onpath_data::{DataIn, DataNode, DataOut, DiskOp};
use onpath_meta::Shard;
use onpath_path::PathNode;
use onpath_session::Session;
use onpath_store::Recoverable;
use onpath_switch::Switch;
use onpath_wire::cached::CachedName;
use onpath_wire::ids::{InodeId, NodeId, ShardId, Term};
use onpath_wire::innet::cache::CACHE_BITS;
use onpath_wire::limits::memory;
use onpath_wire::report::OperationReport;
use std::sync::Arc;

/// Bytes from which a disk operation is given to a thread of its own kind.
const SLOW_BYTES: usize = 8 << 20;

impl HostedRole for Shard {
    fn status(&self) -> Counters {
        Shard::status(self).into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn operations(&self) -> Vec<OperationReport> {
        Shard::operations(self)
    }

    fn inspect(&self, dir: InodeId) -> Counters {
        Shard::inspect(self, dir).into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn recoverable(&mut self) -> Option<&mut dyn Recoverable> {
        Some(self)
    }

    fn disk_full(&mut self, full: bool) {
        self.set_full(full);
    }
}

impl HostedRole for DataNode {
    fn status(&self) -> Counters {
        let c = self.counters();
        let named = [
            ("writes", c.writes),
            ("writes_answered", c.answered),
            ("writes_installed", c.installed),
            ("reads", c.reads),
            ("blocks_merged", c.merged_blocks),
            ("requests_stale", c.stale),
            ("duplicates", c.duplicates),
            ("blocks_bad", c.bad_blocks),
            ("messages_malformed", c.rejected),
            ("messages_skewed", c.skewed),
            ("blocks_punched", c.punched_blocks),
            ("object_bytes", Recoverable::memory(self)),
            ("operations_at_once", self.places() as u64),
            ("table_bytes", self.places() as u64 * memory::OPERATION_AT_DATA),
        ];
        named.map(|(name, value)| (name.to_owned(), value)).into()
    }

    fn operations(&self) -> Vec<OperationReport> {
        DataNode::operations(self)
    }

    fn inspect(&self, file: InodeId) -> Counters {
        DataNode::inspect(self, file).into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn recoverable(&mut self) -> Option<&mut dyn Recoverable> {
        Some(self)
    }

    fn disk_full(&mut self, full: bool) {
        DataNode::disk_full(self, full);
    }
}

impl HostedRole for Session {
    fn status(&self) -> Counters {
        Session::status(self).into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl HostedRole for Switch {
    fn status(&self) -> Counters {
        self.counters().into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Of no directory: what it was asked for hot metadata.
    fn inspect(&self, dir: InodeId) -> Counters {
        let of_cache = |name: &str| ["read_", "fill_", "invalidate_", "passes_"].iter().any(|of| name.starts_with(of));
        let all = if dir == InodeId::NONE { HostedRole::status(self) } else { Vec::new() };
        all.into_iter().filter(|(name, _)| of_cache(name)).collect()
    }
}

/// Adds the controller of the host that has the coordinator. Nothing that was sent to a controller of another process comes to it, so that all
/// have the same term.
pub fn add_controller(
    builder: &mut NodeBuilder,
    (host, cluster): (u16, u32),
    (shards, coordinator): (u16, ShardId),
    switch: Option<NodeId>,
) -> Port<Controller> {
    let node = NodeId::controller(host);
    let (term, entries, threshold) = (Term(1), 1 << CACHE_BITS, THRESHOLD);
    let config = ControllerConfig { node, switch, cluster, coordinator, shards, term, entries, threshold };
    builder.add(node, Controller::new(config), NoEffects)
}

impl HostedRole for Controller {
    fn status(&self) -> Counters {
        Controller::status(self).into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Of no directory: what the switch answers most.
    fn inspect(&self, dir: InodeId) -> Counters {
        if dir != InodeId::NONE {
            return Vec::new();
        }
        let shown = |((parent, name), hits): (CachedName, u32)| {
            let name = name.as_ref().map_or(&b""[..], |name| name.as_bytes());
            (format!("answers_of {}/{}", parent.0, in_plain(name)), u64::from(hits))
        };
        let top = self.top(TOP_NAMES).into_iter().map(shown);
        HostedRole::status(self).into_iter().chain(top).collect()
    }
}

/// Names that are shown of those which a switch answers.
const TOP_NAMES: usize = 50;

/// A name in letters that mean nothing to anybody who shows them: others as % and two hexadecimal digits.
fn in_plain(name: &[u8]) -> String {
    let plain = |byte: &u8| match byte {
        b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'.' | b'_' | b'-' => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    name.iter().map(plain).collect()
}

impl HostedRole for PathNode {
    fn status(&self) -> Counters {
        PathNode::status(self).into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn inspect(&self, dir: InodeId) -> Counters {
        PathNode::inspect(self, dir).into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// Executes a data node's disk operations on the data files of a DIR.
pub struct Disk(pub Arc<BlockFiles>);

impl Effects<DataNode> for Disk {
    fn perform(&self, DataOut::Disk { ticket, op }: DataOut, done: &mut Vec<DataIn>) {
        done.push(DataIn::DiskDone { ticket, result: self.0.execute(op) });
    }

    fn is_slow(&self, DataOut::Disk { op, .. }: &DataOut) -> bool {
        match op {
            DiskOp::Punch { .. } | DiskOp::Reserve { .. } => true,
            DiskOp::Write { bytes, .. } => bytes.iter().map(|b| b.len()).sum::<usize>() >= SLOW_BYTES,
            DiskOp::Read { .. } | DiskOp::Space => false,
        }
    }
}
