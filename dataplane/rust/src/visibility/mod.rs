//! The visibility table: look, install and clear (D-45 to D-66).

pub mod parser;
pub mod registers;

use crate::common::copies::{Deliver, Done};
use crate::common::counters::Counter;
use crate::common::planted::{Planted, planted};
use onpath_wire::innet::{Metadata, Visibility, VisibilityOp, VisibilityResult};
use parser::Packet;
use registers::{Pass, Registers};

fn done(counter: Counter, result: VisibilityResult, deliver: Deliver) -> Done {
    Done { counter, result: result as u8, deliver }
}

impl Registers {
    /// Executes the operation of a packet on the entry of its index (D-47). What it attaches is put into `header`.
    #[inline]
    pub(crate) fn execute(&mut self, packet: Packet, header: &mut Visibility) -> Done {
        let pass = self.pass(packet, if planted(Planted::D47) { header.index >> 1 } else { header.index });
        match pass.op() {
            VisibilityOp::Look => look(pass, header),
            VisibilityOp::Install => install(pass, header),
            VisibilityOp::Clear => clear(pass, header),
        }
    }
}

/// D-56, D-57.
fn look(pass: Pass<'_>, header: &mut Visibility) -> Done {
    let (tracking, gate) = pass.track();
    let complete = tracking.complete || planted(Planted::D57);
    if !tracking.matches(header.epoch) || !complete {
        return done(Counter::LookUnknown, VisibilityResult::Unknown, Deliver::Destination);
    }
    match gate.look(header.fingerprint) {
        (true, values) => {
            header.metadata = Metadata(values.read());
            done(Counter::LookPending, VisibilityResult::Pending, Deliver::Destination)
        }
        (false, _) => done(Counter::LookNone, VisibilityResult::None, Deliver::Destination),
    }
}

/// D-48 to D-55.
fn install(pass: Pass<'_>, header: &Visibility) -> Done {
    let (tracking, gate) = pass.track();
    if !tracking.matches(header.epoch) && !planted(Planted::D55) {
        return done(Counter::InstallOtherEpoch, VisibilityResult::OtherEpoch, Deliver::Shard);
    }
    match gate.install(header.fingerprint, header.ts) {
        (true, values) => {
            values.write(&header.metadata.0);
            let deliver = if planted(Planted::D53) { Deliver::Destination } else { Deliver::ShardAndDestination };
            done(Counter::InstallDone, VisibilityResult::Installed, deliver)
        }
        (false, _) => {
            let deliver = if planted(Planted::D54) { Deliver::ShardAndDestination } else { Deliver::Shard };
            done(Counter::InstallOlder, VisibilityResult::Older, deliver)
        }
    }
}

/// D-58 to D-61.
fn clear(pass: Pass<'_>, header: &Visibility) -> Done {
    let (tracking, gate) = pass.track();
    let deliver = if planted(Planted::D61) { Deliver::Shard } else { Deliver::Destination };
    let left = planted(Planted::D60) && !tracking.matches(header.epoch);
    if !left && gate.clear(header.ts) {
        done(Counter::ClearDone, VisibilityResult::Cleared, deliver)
    } else {
        done(Counter::ClearKept, VisibilityResult::Kept, deliver)
    }
}
