//! Partitions of one direction, and slow machines.

use super::Machine;
use crate::world::World;
use onpath_wire::ids::NodeId;
use onpath_wire::limits::PATH_LEASE_MS;
use rand::Rng;
use std::ops::RangeInclusive;

/// Longest partition, ns: no session loses its lease through one.
const PARTITION_NS_MAX: u64 = 3_000_000_000;
/// Partitions that outlast the leases of path nodes, ns, and not those of sessions.
const OUTLASTING_NS: RangeInclusive<u64> = PATH_LEASE_MS * 1_000_000..=3 * PATH_LEASE_MS * 1_000_000;
/// Longest time of slowness, ns.
const SLOW_NS_MAX: u64 = 1_000_000_000;
/// How many times longer everything takes on a slow machine.
const SLOW_FACTORS: [u64; 4] = [5, 20, 80, 200];

/// Messages of this direction are lost; none: of or to everybody else.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    from: Option<Machine>,
    to: Option<Machine>,
    until_ns: u64,
}

/// A machine on which everything takes longer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slow {
    machine: Machine,
    factor: u64,
    until_ns: u64,
}

impl World {
    pub(super) fn partition(&mut self) {
        if self.config.faults.partitions_outlast_leases {
            return self.cut_off_path_node();
        }
        let process = self.some_process();
        let other = if self.faults.rng.random_bool(0.5) { Some(self.some_process()) } else { self.somebody() };
        let other = other.filter(|other| *other != process && self.faults.rng.random_bool(0.75));
        let (mut from, mut to) = (Some(process), other);
        if self.faults.rng.random_bool(0.5) {
            (from, to) = (to, from);
        }
        let takes_ns = self.while_ns(PARTITION_NS_MAX);
        self.cut(from, to, takes_ns);
    }

    /// A path node and a process with shards do not hear of each other.
    fn cut_off_path_node(&mut self) {
        let shards = self.config.processes.max(1);
        let others = self.processes.len() as u16;
        let [shard, path_node] = [0..shards, shards..others].map(|all| self.faults.rng.random_range(all));
        let takes_ns = self.faults.rng.random_range(OUTLASTING_NS);
        for (from, to) in [(shard, path_node), (path_node, shard)] {
            self.cut(Some(Machine::Process(from)), Some(Machine::Process(to)), takes_ns);
        }
    }

    fn cut(&mut self, from: Option<Machine>, to: Option<Machine>, takes_ns: u64) {
        let until_ns = self.now_ns + takes_ns;
        self.faults.cuts.push(Cut { from, to, until_ns });
        self.counters.faults.partitions += 1;
        self.narrate(|| format!("nothing gets from {from:?} to {to:?} until {until_ns} ns"));
        self.note(6, &until_ns.to_le_bytes());
    }

    /// Whether a partition swallows a message.
    pub(in crate::world) fn is_cut(&mut self, from: NodeId, to: NodeId) -> bool {
        if self.faults.cuts.is_empty() {
            return false;
        }
        let now_ns = self.now_ns;
        self.faults.cuts.retain(|cut| cut.until_ns > now_ns);
        let (from, to) = (self.machine(from), self.machine(to));
        let is = |end: Option<Machine>, machine| end.is_none_or(|end| end == machine);
        let cut = self.faults.cuts.iter().any(|cut| is(cut.from, from) && is(cut.to, to));
        self.counters.faults.cut += u64::from(cut);
        cut
    }

    pub(super) fn slow_down(&mut self) {
        let machine = match self.faults.rng.random_bool(0.25) {
            true => self.somebody().unwrap_or(Machine::Process(0)),
            false => self.some_process(),
        };
        let factor = SLOW_FACTORS[self.faults.rng.random_range(0..SLOW_FACTORS.len())];
        let until_ns = self.now_ns + self.while_ns(SLOW_NS_MAX);
        self.faults.slow.push(Slow { machine, factor, until_ns });
        self.counters.faults.slow += 1;
        self.narrate(|| format!("{machine:?} is {factor} times slower until {until_ns} ns"));
        self.note(7, &until_ns.to_le_bytes());
    }

    /// How long something takes on these machines that usually takes `ns`.
    pub(in crate::world) fn takes_ns(&mut self, nodes: &[NodeId], ns: u64) -> u64 {
        if self.faults.slow.is_empty() {
            return ns;
        }
        let now_ns = self.now_ns;
        self.faults.slow.retain(|slow| slow.until_ns > now_ns);
        let slow = |node: &NodeId| {
            let machine = self.machine(*node);
            self.faults.slow.iter().filter(|slow| slow.machine == machine).map(|slow| slow.factor).max()
        };
        let factor = nodes.iter().filter_map(slow).max();
        self.counters.faults.slowed += u64::from(factor.is_some());
        ns * factor.unwrap_or(1)
    }
}
