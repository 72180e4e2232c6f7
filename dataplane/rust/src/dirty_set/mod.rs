//! The dirty set: query, insert and remove (D-12, D-18 to D-34).

pub mod parser;
pub mod registers;

use crate::common::copies::{Deliver, Done};
use crate::common::counters::Counter;
use crate::common::planted::{Planted, planted};
use onpath_wire::innet::{DirtySet, DirtySetOp, InNetResult};
use parser::Packet;
use registers::{Pass, Registers, Stages};

fn done(counter: Counter, result: InNetResult, deliver: Deliver) -> Done {
    Done { counter, result: result as u8, deliver }
}

impl Registers {
    /// Executes the operation of a packet on the set of its index (D-12).
    #[inline]
    pub(crate) fn execute(&mut self, packet: Packet) -> Done {
        let header = *packet.header();
        let pass = self.pass(packet, if planted(Planted::D12) { header.index >> 1 } else { header.index });
        match pass.op() {
            DirtySetOp::Query => query(pass, &header),
            DirtySetOp::Insert => insert(pass, &header),
            DirtySetOp::Remove => remove(pass, &header),
        }
    }
}

/// D-18, D-19.
fn query(pass: Pass<'_>, header: &DirtySet) -> Done {
    let (tracking, stages) = pass.track();
    let complete = tracking.complete || planted(Planted::D19);
    if !tracking.matches(header.epoch) || !complete {
        return done(Counter::QueryUnknown, InNetResult::Unknown, Deliver::Destination);
    }
    if holds(stages, header.tag) {
        done(Counter::QueryScattered, InNetResult::Scattered, Deliver::Destination)
    } else {
        done(Counter::QueryNormal, InNetResult::Normal, Deliver::Destination)
    }
}

/// Register query in every stage.
fn holds(mut stages: Stages<'_>, tag: u32) -> bool {
    let (mut found, mut first) = (false, true);
    while let Some((register, later)) = stages.next() {
        found |= register.query(tag) && (first || !planted(Planted::D18));
        (stages, first) = (later, false);
    }
    found
}

/// D-20 to D-26.
fn insert(pass: Pass<'_>, header: &DirtySet) -> Done {
    let (tracking, stages) = pass.track();
    if !tracking.matches(header.epoch) && !planted(Planted::D26) {
        return done(Counter::InsertOtherEpoch, InNetResult::OtherEpoch, Deliver::Shard);
    }
    if put(stages, header.tag) {
        let deliver = if planted(Planted::D23) { Deliver::Destination } else { Deliver::ShardAndDestination };
        return done(Counter::InsertMarked, InNetResult::Marked, deliver);
    }
    let deliver = if planted(Planted::D24) { Deliver::ShardAndDestination } else { Deliver::Shard };
    done(Counter::InsertFull, InNetResult::Full, deliver)
}

/// Conditional insert stage by stage until one succeeds, conditional remove in those after it. Whether one succeeded.
fn put(mut stages: Stages<'_>, tag: u32) -> bool {
    let mut placed = false;
    if planted(Planted::D20) {
        let Some((_, later)) = stages.next() else { return false };
        stages = later;
    }
    while let Some((register, later)) = stages.next() {
        if !placed {
            placed = register.conditional_insert(tag);
        } else if !planted(Planted::D21) {
            register.conditional_remove(tag);
        }
        stages = later;
    }
    placed
}

/// D-27 to D-34.
fn remove(pass: Pass<'_>, header: &DirtySet) -> Done {
    let (tracking, stages) = match pass.track_and_admit(header) {
        Ok(admitted) => admitted,
        Err(counter) => return Done::dropped(counter),
    };
    let deliver = if planted(Planted::D34) { Deliver::Shard } else { Deliver::Destination };
    if !tracking.matches(header.epoch) && !planted(Planted::D33) {
        return done(Counter::RemoveOtherEpoch, InNetResult::OtherEpoch, deliver);
    }
    take_out(stages, header.tag);
    done(Counter::RemoveDone, InNetResult::Removed, deliver)
}

/// Conditional remove in every stage.
fn take_out(mut stages: Stages<'_>, tag: u32) {
    while let Some((register, later)) = stages.next() {
        register.conditional_remove(tag);
        if planted(Planted::D27) {
            return;
        }
        stages = later;
    }
}
