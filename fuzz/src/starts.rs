//! What a start does after a replay: a role begins to serve, nobody says anything, and time passes.

use onpath_data::{DataIn, DataNode, DataOut, DiskOp, DiskResult};
use onpath_kernel::{Input, Now, Output, Role};
use onpath_meta::Shard;
use onpath_wire::Errno;
use onpath_wire::ids::{Birth, RecordSeq};
use std::collections::VecDeque;
use std::hint::black_box;

/// When roles begin. A day of 2025.
const NOW: Now = Now { mono_us: 1_000_000, wall_ns: 1_750_000_000_000_000_000 };
/// Steps of time, each twice as long as the one before: leases end within them, and a grace.
const STEPS: u32 = 18;
const STEP_US: u64 = 1_000;
/// Rounds of answers in each of them: a data node may have to give back a place in each of many data files, some at a time.
const ROUNDS: u32 = 8;
/// Numbers of sessions that a host asks for.
const SESSIONS: u32 = 8;

/// A role that begins to serve.
pub(crate) trait Begins: Role {
    /// As a host has it begin after a replay.
    fn start(&mut self);
    /// What is answered to what only this class of role says.
    fn answer(said: Self::Out) -> Option<Self::In>;
}

impl Begins for Shard {
    fn start(&mut self) {
        let first = onpath_meta::next_birth(std::slice::from_ref(self));
        Shard::start(self, NOW, first);
        black_box((self.take_resident(), self.take_sessions(SESSIONS)));
    }

    fn answer(_: ()) -> Option<()> {
        None
    }
}

impl Begins for DataNode {
    /// Blocks that were written in the tail are zeros, and every eighth cannot be read.
    fn start(&mut self) {
        let mut blocks = 0;
        let started = DataNode::start(self, NOW, Birth::NEVER, &mut |_, _, into| {
            blocks += 1;
            into.fill(0);
            if blocks % 8 == 0 { Err(Errno::EIO) } else { Ok(()) }
        });
        black_box(started);
    }

    /// Every fourth operation fails.
    fn answer(said: DataOut) -> Option<DataIn> {
        let DataOut::Disk { ticket, op } = said;
        let result = match op {
            _ if (ticket.0 ^ ticket.0 >> 16) % 4 == 3 => DiskResult::Failed(Errno::EIO),
            DiskOp::Write { .. } | DiskOp::Reserve { .. } | DiskOp::Punch { .. } => DiskResult::Done,
            DiskOp::Read { len, .. } => DiskResult::Bytes(vec![0; len as usize].into()),
            DiskOp::Space => DiskResult::Space { total: 1 << 40, free: 1 << 39 },
        };
        Some(DataIn::DiskDone { ticket, result })
    }
}

/// Has a role begin, and time pass. What it records becomes durable, its disk answers, and others hear nothing.
pub(crate) fn begin<R: Begins>(role: &mut R) {
    role.start();
    let (mut now, mut last, mut answers) = (NOW, RecordSeq(0), VecDeque::new());
    for step in 0..STEPS {
        settle(role, now, &mut last, &mut answers);
        let after_us = now.mono_us + (STEP_US << step);
        // Never before it is due, or the deadlines of nothing would be looked at.
        let Some(due_us) = role.next_deadline() else { return };
        let passed_us = due_us.max(after_us) - now.mono_us;
        now = Now { mono_us: now.mono_us + passed_us, wall_ns: now.wall_ns.saturating_add(passed_us * 1_000) };
        role.handle(now, Input::Tick);
    }
    settle(role, now, &mut last, &mut answers);
}

/// What it says is answered, and what it says to that; the rest later.
fn settle<R: Begins>(role: &mut R, now: Now, last: &mut RecordSeq, answers: &mut VecDeque<R::In>) {
    for _ in 0..ROUNDS {
        let durable = *last;
        while let Some(output) = role.poll_output() {
            match output {
                Output::Append { seq, bytes } => {
                    assert!(seq > *last, "numbers of records grow");
                    *last = seq;
                    black_box(bytes);
                }
                Output::Own(said) => answers.extend(R::answer(said)),
                Output::Send { .. } | Output::Flush => {}
            }
        }
        if answers.is_empty() && *last == durable {
            return;
        }
        if *last > durable {
            role.handle(now, Input::Durable(*last));
        }
        answers.drain(..).for_each(|answer| role.handle(now, Input::Own(answer)));
    }
}
