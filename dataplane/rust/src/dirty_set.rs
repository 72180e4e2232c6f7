//! The dirty set: query, insert and remove (D-18 to D-34).

use crate::Counter;
use crate::planted::{Planted, planted};
use crate::registers::{Pass, Stages};
use onpath_wire::innet::{DirtySet, DirtySetOp, InNetResult};

/// To whom a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deliver {
    /// Nobody: it is dropped.
    Nobody,
    /// Its destination.
    Destination,
    /// The shard that sent it.
    Shard,
    /// That shard and, if there is one, its destination (D-23).
    ShardAndDestination,
}

/// What an operation came to.
pub(crate) struct Done {
    pub(crate) counter: Counter,
    /// Nothing: the packet is dropped.
    pub(crate) result: Option<InNetResult>,
    pub(crate) deliver: Deliver,
}

impl Done {
    fn new(counter: Counter, result: InNetResult, deliver: Deliver) -> Done {
        Done { counter, result: Some(result), deliver }
    }
}

/// Executes the operation of a packet.
#[inline]
pub(crate) fn execute(pass: Pass<'_>, header: &DirtySet) -> Done {
    match pass.op() {
        DirtySetOp::Query => query(pass, header),
        DirtySetOp::Insert => insert(pass, header),
        DirtySetOp::Remove => remove(pass, header),
    }
}

/// D-18, D-19.
fn query(pass: Pass<'_>, header: &DirtySet) -> Done {
    let (tracking, stages) = pass.track();
    let complete = tracking.complete || planted(Planted::D19);
    if !tracking.matches(header.epoch) || !complete {
        return Done::new(Counter::QueryUnknown, InNetResult::Unknown, Deliver::Destination);
    }
    if holds(stages, header.tag) {
        Done::new(Counter::QueryScattered, InNetResult::Scattered, Deliver::Destination)
    } else {
        Done::new(Counter::QueryNormal, InNetResult::Normal, Deliver::Destination)
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
        return Done::new(Counter::InsertOtherEpoch, InNetResult::OtherEpoch, Deliver::Shard);
    }
    if put(stages, header.tag) {
        let deliver = if planted(Planted::D23) { Deliver::Destination } else { Deliver::ShardAndDestination };
        return Done::new(Counter::InsertMarked, InNetResult::Marked, deliver);
    }
    let deliver = if planted(Planted::D24) { Deliver::ShardAndDestination } else { Deliver::Shard };
    Done::new(Counter::InsertFull, InNetResult::Full, deliver)
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
        Err(counter) => return Done { counter, result: None, deliver: Deliver::Nobody },
    };
    let deliver = if planted(Planted::D34) { Deliver::Shard } else { Deliver::Destination };
    if !tracking.matches(header.epoch) && !planted(Planted::D33) {
        return Done::new(Counter::RemoveOtherEpoch, InNetResult::OtherEpoch, deliver);
    }
    take_out(stages, header.tag);
    Done::new(Counter::RemoveDone, InNetResult::Removed, deliver)
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
