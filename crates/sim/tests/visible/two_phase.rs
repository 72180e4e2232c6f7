//! Two phases (V-2): a session brings the home what the data node has recorded, before its write returns.

use super::{BYTES, DATA, HOME, Pair};
use onpath_session::fs::FsReply;
use onpath_sim::scenario::Scenario;
use onpath_sim::world::HoldId;
use onpath_wire::data::DataRequest;
use onpath_wire::request::Request;

/// Longer than a session waits for an answer before it asks again, ns.
const ASKED_AGAIN_NS: u64 = 1_000_000_000;

fn lent() -> Pair {
    Pair::of(Scenario::lending_in_two_phases()).writes()
}

impl Pair {
    /// No session tells the home.
    fn hold_brought(&mut self) -> HoldId {
        self.sc.hold(|m| matches!(m.request(), Some(Request::Learn { .. })))
    }

    /// A write that its data node has recorded and of which the home does not know.
    fn recorded(&mut self, offset: u64) -> (u64, HoldId) {
        let brought = self.hold_brought();
        let unique = self.begin_write(offset);
        assert!(self.answer(unique).is_none() && self.sc.world.held(brought) > 0);
        (unique, brought)
    }

    fn returns(&mut self, unique: u64) {
        let until_ns = self.sc.world.now_ns() + 60 * ASKED_AGAIN_NS;
        while self.sc.world.now_ns() < until_ns {
            if let Some(result) = self.answer(unique) {
                return assert!(matches!(result, Ok(FsReply::Written(100))), "{result:?}");
            }
        }
        panic!("the write does not return");
    }
}

/// Whoever looks at the file is shown what the home knows: the data node is asked for nothing, and keeps the part.
#[test]
pub(crate) fn a_write_returns_when_its_session_has_told_the_home() {
    let mut pair = lent();
    let asked = pair.sc.hold(|m| matches!(m.data(), Some(DataRequest::HandOver { .. } | DataRequest::Collect { .. })));
    pair.hold_answered();
    for n in 0..4 {
        let size = BYTES + n * 100;
        assert_eq!(pair.shown().size, size);
        let (unique, brought) = pair.recorded(size);
        assert_eq!(pair.shown().size, size);
        pair.sc.let_go(brought);
        pair.returns(unique);
        assert_eq!(pair.shown().size, size + 100);
    }
    assert_eq!(pair.sc.world.held(asked), 0);
}

/// As schedule G10: what is brought after a truncate that has learned it is answered, and not executed again.
#[test]
fn what_a_truncate_has_learned_is_answered() {
    let mut pair = lent();
    let (unique, brought) = pair.recorded(BYTES);
    pair.truncate(1);
    pair.sc.let_go(brought);
    pair.returns(unique);
    assert_eq!(pair.shown().size, 1);
}

/// A data node that has started again does not know in which way its home hears of writes: it answers when the home has learned.
#[test]
fn what_was_recorded_is_brought_across_restarts() {
    for process in [DATA, HOME] {
        let mut pair = lent();
        let late = pair.hold_answered();
        let (unique, brought) = pair.recorded(BYTES);
        pair.restart(process);
        pair.sc.go_on_for(ASKED_AGAIN_NS);
        pair.sc.let_go(late);
        pair.sc.let_go(brought);
        pair.returns(unique);
        assert_eq!(pair.shown().size, BYTES + 100, "process {process}");
    }
}
