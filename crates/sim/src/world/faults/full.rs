//! Disks that are full for a while: no room for the journal of a process, for its data files, or for both (design.md, "Durability").
//!
//! Whoever is told ENOSPC knows that nothing was done, and asks again later; so do system calls of sessions, on their
//! users' behalf.

use super::FaultEnd;
use crate::world::World;
use crate::world::queue::Event;
use crate::world::role::Role;
use onpath_session::fs::{FsOp, FsReply, FsResult};
use onpath_wire::errno::Errno;
use rand::Rng;

/// Longest time for which disks are full, ns.
const FULL_NS_MAX: u64 = 200_000_000;
/// Pause before a system call that found no space is made again, ns.
const AGAIN_NS: u64 = 5_000_000;

/// A system call under way, to be made again when there was no space.
#[derive(Clone, Debug)]
pub(in crate::world) struct Asked {
    pub(in crate::world) unique: u64,
    pub(in crate::world) caller: usize,
    pub(in crate::world) op: FsOp,
    /// Times of full disks that were over when it was made.
    pub(in crate::world) fulls: u64,
    /// Bytes of a write that are there; `op` is about the rest.
    pub(in crate::world) written: u32,
}

impl World {
    pub(super) fn disks_full(&mut self) {
        let index = self.faults.rng.random_range(0..self.processes.len());
        let (journal, files) = [(true, false), (false, true), (true, true)][self.faults.rng.random_range(0..3)];
        let lasts_ns = self.while_ns(FULL_NS_MAX);
        let process = &mut self.processes[index];
        if process.full || process.files.full {
            return;
        }
        (process.full, process.files.full) = (journal, files);
        self.counters.faults.full += 1;
        self.checker.full_begins();
        self.tell_roles(index);
        self.narrate(|| format!("the disks of process {index} are full for {lasts_ns} ns: {journal} {files}"));
        self.note(10, &lasts_ns.to_le_bytes());
        self.queue.push(self.now_ns + lasts_ns, Event::FaultEnds(FaultEnd::Freed(index as u16)));
    }

    /// The journals of all processes are full from now on.
    pub fn fill_journals(&mut self) {
        for index in 0..self.processes.len() {
            self.processes[index].full = true;
            self.tell_roles(index);
        }
    }

    pub(super) fn disks_freed(&mut self, index: u16) {
        let process = &mut self.processes[index as usize];
        if process.full || process.files.full {
            (process.full, process.files.full) = (false, false);
            self.checker.full_ends();
            self.tell_roles(index as usize);
        }
    }

    /// Lets the roles of a process know whether its journal has room.
    pub(in crate::world) fn tell_roles(&mut self, index: usize) {
        let process = &mut self.processes[index];
        for server in &mut process.servers {
            match &mut server.role {
                Role::Shard(shard) => shard.set_full(process.full),
                Role::Data(data) => data.disk_full(process.full),
                Role::Path(_) | Role::Controller(_) => {}
            }
        }
    }

    /// What a system call's user is answered; nothing if it found no space because disks are full now and then: then it
    /// is made again, a little later.
    pub(in crate::world) fn with_space(&mut self, session: usize, unique: u64, result: FsResult) -> Option<FsResult> {
        let asked = &mut self.sessions[session].asked;
        let Some(index) = asked.iter().position(|asked| asked.unique == unique) else { return Some(result) };
        let call = &mut asked[index];
        let (short, result) = match (&mut call.op, result) {
            // Over a chunk's end a write found space for its first part alone. Only the rest is written again: what others
            // wrote over the first part meanwhile stays.
            (FsOp::Write { data, offset, append: false, .. }, Ok(FsReply::Written(n))) => {
                call.written += n;
                *data = data.slice(n as usize..);
                *offset += u64::from(n);
                (!data.is_empty(), Ok(FsReply::Written(call.written)))
            }
            (_, result) => (matches!(result, Err(Errno::ENOSPC)), result),
        };
        if !short || !self.checker.was_full(call.fulls) {
            asked.swap_remove(index);
            return Some(result);
        }
        self.counters.faults.no_space += 1;
        self.queue.push(self.now_ns + AGAIN_NS, Event::Again { session: session as u16, unique });
        None
    }
}
