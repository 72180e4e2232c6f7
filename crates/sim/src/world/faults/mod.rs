//! Faults beyond loss and crashes: messages that get through in one direction only, slow machines, clocks that jump, full
//! disks. When and how is drawn from the seed, by a generator of their own: a fault that is switched off changes no other.

mod clocks;
mod forge;
mod full;
mod links;
mod tail;

pub(super) use clocks::shown;
pub(super) use full::Asked;

use super::World;
use links::{Cut, Slow};
use onpath_wire::ids::NodeId;
use onpath_wire::innet::Metadata;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How often what goes wrong: the mean number of messages between two times; 0: never.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultConfig {
    /// Messages of one direction of a pair of machines, or of one machine, are lost for a while.
    pub partition_every: u64,
    /// Each of these is between a path node and a shard, and takes longer than the lease of the one at the other.
    pub partitions_outlast_leases: bool,
    /// A machine's messages and disks take many times as long for a while.
    pub slow_every: u64,
    /// A clock jumps, within what clocks may differ.
    pub jump_every: u64,
    /// A clock is wrong by more than clocks may differ, for a while.
    pub wrong_clock_every: u64,
    /// A process's disks are full for a while.
    pub full_every: u64,
    /// Of 100 crashes so many leave the first record, or blocks, that were not safe half written.
    pub torn_percent: u32,
    /// Of 100 power losses so many leave wrong bits in what was not durable.
    pub flipped_percent: u32,
    /// Of 100 marks, looks and installs so many are answered by somebody who is no switch, but knows all that is said, except keys.
    pub forged_percent: u32,
}

/// Counters of faults that really happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounters {
    /// Partitions.
    pub partitions: u64,
    /// Messages that a partition swallowed.
    pub cut: u64,
    /// Times of slowness.
    pub slow: u64,
    /// Messages and flushes that took longer.
    pub slowed: u64,
    /// Jumps of clocks.
    pub jumps: u64,
    /// Times of wrong clocks.
    pub wrong_clocks: u64,
    /// Messages that a shard refused, since their stamp was too far ahead.
    pub refused: u64,
    /// Times of full disks.
    pub full: u64,
    /// Answers that there is no space.
    pub no_space: u64,
    /// Torn ends of journals.
    pub torn: u64,
    /// Journals whose end had wrong bits.
    pub flipped: u64,
    /// Blocks of data files that a power loss left torn or with wrong bits.
    pub spoilt_blocks: u64,
    /// Answers that no switch gave.
    pub forged: u64,
    /// Sessions that died.
    pub deaths: u64,
    /// Sessions that had the id of one that was over.
    pub successors: u64,
}

/// What begins with some message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fault {
    Partition,
    Slow,
    Jump,
    WrongClock,
    Full,
}

/// What ends at some time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum FaultEnd {
    /// This machine's clock is right again.
    ClockRight(Machine),
    /// The disks of this process have space again.
    Freed(u16),
}

/// Where a node runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Machine {
    Process(u16),
    /// A client or session, alone on its machine.
    Alone(NodeId),
}

/// Faults that are at work.
pub(super) struct Faults {
    pub(super) rng: ChaCha8Rng,
    /// What begins with which message.
    planned: Vec<(u64, Fault)>,
    cuts: Vec<Cut>,
    slow: Vec<Slow>,
    /// What was seen last on its way to the table of a switch.
    installed: Metadata,
}

impl Faults {
    pub(super) fn new(seed: u64) -> Faults {
        let rng = ChaCha8Rng::seed_from_u64(seed ^ 0xfa_0175);
        Faults { rng, planned: vec![], cuts: vec![], slow: vec![], installed: Metadata::default() }
    }
}

impl World {
    /// Arranges the first fault of each kind.
    pub(super) fn arm_faults(&mut self) {
        for fault in [Fault::Partition, Fault::Slow, Fault::Jump, Fault::WrongClock, Fault::Full] {
            self.arm_fault(fault);
        }
    }

    fn arm_fault(&mut self, fault: Fault) {
        let config = &self.config.faults;
        let every = match fault {
            Fault::Partition => config.partition_every,
            Fault::Slow => config.slow_every,
            Fault::Jump => config.jump_every,
            Fault::WrongClock => config.wrong_clock_every,
            Fault::Full => config.full_every,
        };
        if every > 0 {
            let at = self.counters.messages + self.faults.rng.random_range(1..=every * 2);
            self.faults.planned.push((at, fault));
            self.faults.planned.sort_unstable();
        }
    }

    /// Lets those faults begin whose message has come.
    pub(super) fn faults_begin(&mut self) {
        while let Some((_, fault)) =
            self.faults.planned.first().copied().filter(|(at, _)| *at <= self.counters.messages)
        {
            self.faults.planned.remove(0);
            match fault {
                Fault::Partition => self.partition(),
                Fault::Slow => self.slow_down(),
                Fault::Jump => self.clock_jumps(),
                Fault::WrongClock => self.clock_goes_wrong(),
                Fault::Full => self.disks_full(),
            }
            self.arm_fault(fault);
        }
    }

    /// A fault ends.
    pub(super) fn fault_ends(&mut self, end: FaultEnd) {
        match end {
            FaultEnd::ClockRight(machine) => self.clock_right(machine),
            FaultEnd::Freed(process) => self.disks_freed(process),
        }
    }

    /// Ends all of them for good.
    pub(super) fn end_faults(&mut self) {
        self.faults.planned.clear();
        self.faults.cuts.clear();
        self.faults.slow.clear();
        for process in 0..self.processes.len() as u16 {
            self.clock_right(Machine::Process(process));
            self.disks_freed(process);
        }
        for session in 0..self.sessions.len() {
            self.sessions[session].wrong_ns = 0;
        }
    }

    pub(super) fn machine(&self, node: NodeId) -> Machine {
        let runs = |process: &super::process::Process| process.configs.iter().any(|config| config.node() == node);
        match self.processes.iter().position(runs) {
            Some(process) => Machine::Process(process as u16),
            None => Machine::Alone(node),
        }
    }

    fn some_process(&mut self) -> Machine {
        Machine::Process(self.faults.rng.random_range(0..self.processes.len() as u16))
    }

    /// A client or session; none if there is none yet.
    fn somebody(&mut self) -> Option<Machine> {
        let n = self.clients.len() + self.sessions.len();
        if n == 0 {
            return None;
        }
        let index = self.faults.rng.random_range(0..n);
        let node = match index.checked_sub(self.clients.len()) {
            None => self.clients[index].node(),
            Some(session) => self.sessions[session].node,
        };
        Some(Machine::Alone(node))
    }

    /// A duration of up to `most_ns`, short ones as often as long ones.
    fn while_ns(&mut self, most_ns: u64) -> u64 {
        let (shortest, longest) = (1_000_000.0f64.ln(), (most_ns as f64).ln());
        self.faults.rng.random_range(shortest..=longest).exp() as u64
    }
}
