//! The roles that a process holds, behind one face.

use onpath_data::{DataConfig, DataIn, DataNode, DataOut, DiskOp, DiskResult, Ticket};
use onpath_kernel::{Input, Need, Now, Output, Role as _};
use onpath_meta::{Shard, ShardConfig};
use onpath_store::Recoverable;
use onpath_wire::ids::{NodeId, RecordSeq, Term};
use onpath_wire::packet::Packet;

/// What a role is started with; the term is filled in.
#[derive(Clone, Debug)]
pub(crate) enum RoleConfig {
    Shard(ShardConfig),
    Data(DataConfig),
}

impl RoleConfig {
    pub(crate) fn node(&self) -> NodeId {
        match self {
            RoleConfig::Shard(config) => NodeId::shard(config.shard),
            RoleConfig::Data(config) => NodeId::data(config.node),
        }
    }

    /// Whether no role with records is in another process; of a data node its shards know.
    pub(crate) fn has_one_journal(&self) -> bool {
        match self {
            RoleConfig::Shard(config) => config.one_journal,
            RoleConfig::Data(_) => true,
        }
    }

    /// The role of a new term, without its state. `files`: data files that exist.
    pub(crate) fn create(&self, term: Term, files: u32) -> Role {
        match self {
            RoleConfig::Shard(config) => Role::Shard(Box::new(Shard::new(ShardConfig { term, ..config.clone() }))),
            RoleConfig::Data(config) => {
                Role::Data(Box::new(DataNode::new(DataConfig { term, files, ..config.clone() })))
            }
        }
    }
}

/// A role.
pub(crate) enum Role {
    Shard(Box<Shard>),
    Data(Box<DataNode>),
}

/// What happens to a role.
pub(crate) enum Stimulus {
    Packet(Packet),
    Tick,
    Durable(RecordSeq),
    DiskDone(Ticket, DiskResult),
}

/// What a role does.
pub(crate) enum Action {
    Append { seq: RecordSeq, bytes: Vec<u8> },
    Send { to: NodeId, packet: Packet, after: RecordSeq, need: Need },
    Flush,
    Disk { ticket: Ticket, op: DiskOp },
}

fn input<I>(stimulus: Stimulus, disk: impl FnOnce(Ticket, DiskResult) -> I) -> Input<I> {
    match stimulus {
        Stimulus::Packet(packet) => Input::Packet(packet),
        Stimulus::Tick => Input::Tick,
        Stimulus::Durable(seq) => Input::Durable(seq),
        Stimulus::DiskDone(ticket, result) => Input::Own(disk(ticket, result)),
    }
}

fn action<O>(output: Output<O>, own: impl FnOnce(O) -> Action) -> Action {
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
            Role::Shard(shard) => shard.handle(now, input(stimulus, |_, _| unreachable!("shards have no disk"))),
            Role::Data(data) => data.handle(now, input(stimulus, |ticket, result| DataIn::DiskDone { ticket, result })),
        }
    }

    pub(crate) fn poll(&mut self) -> Option<Action> {
        match self {
            Role::Shard(shard) => Some(action(shard.poll_output()?, |()| unreachable!("shards have no own outputs"))),
            Role::Data(data) => {
                Some(action(data.poll_output()?, |DataOut::Disk { ticket, op }| Action::Disk { ticket, op }))
            }
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        match self {
            Role::Shard(shard) => shard.next_deadline(),
            Role::Data(data) => data.next_deadline(),
        }
    }

    pub(crate) fn recoverable(&mut self) -> &mut dyn Recoverable {
        match self {
            Role::Shard(shard) => &mut **shard,
            Role::Data(data) => &mut **data,
        }
    }
}
