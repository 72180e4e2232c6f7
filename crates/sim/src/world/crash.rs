//! Crashes between any two outputs, and what comes after.

use super::queue::Event;
use super::{Doom, World};
use onpath_wire::ids::{Lsn, NodeClass};
use onpath_wire::tracking::Form;
use rand::Rng;

/// Random deaths that come whatever is achieved between them.
const DEATHS_FREE: u64 = 3;
/// Answers to clients, and to system calls where there are sessions, that make up for one more. Else deaths that come faster
/// than a restart is over would go on for ever: nobody would get anything done, and nothing would be tested.
const ANSWERS_A_DEATH: (u64, u64) = (20, 8);

impl World {
    /// Counts an output, `leaving` or only thought of; true if the process crashes instead of it.
    pub(super) fn doomed(&mut self, process: usize, leaving: bool) -> bool {
        if let Some(steered) = &mut self.steered {
            steered.leaving.push(leaving);
            return steered.death.is_some_and(|death| death.output + 1 == steered.leaving.len());
        }
        if self.doom.outputs == 0 || self.doom.process.is_some_and(|doomed| doomed != process) {
            return false;
        }
        self.doom.outputs -= 1;
        if self.doom.outputs == 0 && self.doom.process.is_none() && !self.may_die() {
            self.plan_crash();
            return false;
        }
        self.doom.outputs == 0
    }

    /// Whether enough was achieved since the beginning for one more death.
    fn may_die(&self) -> bool {
        let deaths = (self.counters.kills + self.counters.power_losses).saturating_sub(DEATHS_FREE);
        let (of_client, of_session) = ANSWERS_A_DEATH;
        let clients = self.clients.is_empty() || self.answers.0 / of_client >= deaths;
        clients && (self.sessions.is_empty() || self.answers.1 / of_session >= deaths)
    }

    /// Plans the next random crash.
    pub(super) fn plan_crash(&mut self) {
        let every = self.config.crash_every;
        self.doom = if every == 0 {
            Doom::default()
        } else {
            let power = self.config.power_loss && self.rng.random_bool(0.5);
            Doom { outputs: self.rng.random_range(1..=every * 2), process: None, power }
        };
    }

    /// No random crash before [`World::roughen`].
    pub(crate) fn hold_crashes(&mut self) {
        self.rough = false;
        self.doom = Doom::default();
    }

    /// Whether random crashes may come.
    pub(crate) fn is_rough(&self) -> bool {
        self.rough
    }

    /// Everything so far is durable; from now on random crashes may come.
    pub(crate) fn roughen(&mut self) {
        for process in 0..self.processes.len() {
            // The one under way, and one for the rest.
            for _ in 0..2 {
                self.flush(process);
                self.flushed(process);
            }
        }
        self.rough = true;
        self.plan_crash();
    }

    /// Lets a process crash at its `outputs`-th output from now.
    pub fn crash_at_output(&mut self, process: usize, outputs: u64, power: bool) {
        self.doom = Doom { outputs, process: Some(process), power };
    }

    /// Ends random crashes, loss, duplication, long delays and all other faults: what is under way may come to rest.
    pub fn calm(&mut self) {
        self.config.crash_every = 0;
        self.doom = Doom::default();
        (self.config.loss, self.config.duplicate, self.config.reorder) = (0.0, 0.0, 0.0);
        self.config.switch_fails_every_us = 0;
        if self.config.form == Form::Network {
            self.boot_all();
        }
        self.end_faults();
    }

    /// A process dies now and starts again a little later.
    pub fn crash(&mut self, index: usize, power: bool) {
        let process = &mut self.processes[index];
        if !process.up {
            return;
        }
        let appended = process.disk.appended().0;
        let safe = if power { process.disk.durable() } else { process.disk.written() }.0;
        let steered = self.steered.is_some();
        let keeps_safe = steered || process.disk.is_recovering() || self.rng.random_bool(0.5);
        let kept = if keeps_safe { safe } else { self.rng.random_range(safe..=appended) };
        let kept = self.damaged_tail(index, safe, kept, power);
        self.counters.faults.refused += self.processes[index].refused();
        let process = &mut self.processes[index];
        process.stop();
        let forgets = process.noted.take().is_some_and(|noted| process.disk.durable() >= noted);
        process.lost_power = power || process.lost_power && !forgets;
        self.doubts += u64::from(process.lost_power);
        process.disk.cut(Lsn(kept));
        while let Some((_, _, _, op)) = process.disk_ops.pop_front() {
            if !steered && self.rng.random_bool(0.5) {
                let _ = process.files.execute(op);
            }
        }
        if power {
            let spoils = (self.config.faults.torn_percent, self.config.faults.flipped_percent);
            let spoilt = process.files.lose_power(&mut self.rng, &mut self.faults.rng, spoils);
            self.counters.faults.spoilt_blocks += spoilt;
        }
        self.counters.kills += u64::from(!power);
        self.counters.power_losses += u64::from(power);
        self.narrate(|| format!("process {index} dies (power: {power}), keeps {kept} of {appended} records"));
        self.note(2, &kept.to_le_bytes());
        let may_lose = power && self.config.commit != super::Commit::Sync;
        self.checker.crashed(index, kept, may_lose);
        let down_ns = if steered { 0 } else { self.rng.random_range(100_000..30_000_000) };
        let at_ns = self.now_ns + down_ns;
        self.queue.push(at_ns, Event::Restart { process: index as u16 });
    }

    /// Starts a process that is down: recovery, then service under a new term.
    pub fn restart(&mut self, index: usize) {
        if self.processes[index].up {
            return;
        }
        self.counters.replayed += self.processes[index].disk.records() as u64;
        let recovered = self.processes[index].recover();
        if let Err(why) = recovered {
            self.checker.violation(format!("process {index} does not recover: {why}"));
            return;
        }
        self.narrate(|| format!("process {index} starts again"));
        self.note(3, &(index as u64).to_le_bytes());
        self.tell_roles(index);
        self.arm_interval(index as u16);
        self.arm_checkpoint(index as u16);
        let (life, now) = (self.processes[index].life, self.clocks(index));
        // As in a host, what the data node has found of lost blocks is the first thing that is recorded, and at once.
        let servers = &self.processes[index].servers;
        let (data, shards): (Vec<_>, Vec<_>) =
            (0..servers.len()).partition(|server| servers[*server].node.class() == Some(NodeClass::Data));
        for (servers, first) in [(data, true), (shards, false)] {
            for server in servers {
                if self.lives(index as u16, life) {
                    self.processes[index].disk.set_recovering(first);
                    self.processes[index].start(server, now);
                    self.outputs(index, server);
                }
            }
        }
        let process = &mut self.processes[index];
        process.disk.set_recovering(false);
        if process.up && process.life == life {
            process.noted = Some(process.disk.appended());
        }
    }

    /// Whether a process is up.
    pub fn is_up(&self, process: usize) -> bool {
        self.processes[process].up
    }

    /// Number of processes.
    pub(crate) fn processes(&self) -> usize {
        self.processes.len()
    }

    /// The process of a shard.
    pub fn process_of(&self, shard: onpath_wire::ids::ShardId) -> usize {
        usize::from(shard.0 % self.config.processes)
    }
}
