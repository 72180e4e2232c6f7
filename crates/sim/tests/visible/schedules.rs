//! Schedules that broke earlier wordings of the rules (docs/internals/counterexamples.md, "Data"), and what is like them.

use super::{BYTES, DATA, Pair, finish, write};
use onpath_session::fs::{FsOp, FsReply};
use onpath_sim::scenario::Scenario;
use onpath_sim::world::Message;
use onpath_wire::data::{DataRequest, Merge};
use onpath_wire::ids::{NodeId, ShardId};
use onpath_wire::reply::Reply;
use onpath_wire::request::{SetAttr, set};

/// Longer than a session waits for an answer before it asks again, ns.
const ASKED_AGAIN_NS: u64 = 2_000_000_000;

impl Pair {
    /// The first session writes until the data node has the part again; how long the file is then.
    fn lent_again(&mut self, mut size: u64) -> u64 {
        let told = self.sc.hold(|m| matches!(m.merge(), Some(Merge::Written { .. })));
        loop {
            let unique = self.begin_write(size);
            let mut answer = self.answer(unique);
            let by_home = answer.is_none();
            if by_home {
                assert!(self.sc.world.held(told) > 0, "the home answers");
                self.sc.world.deliver_first(told);
                answer = self.answer(unique);
            }
            assert!(matches!(answer, Some(Ok(FsReply::Written(100)))), "{answer:?}");
            size += 100;
            if !by_home {
                self.sc.let_go(told);
                return size;
            }
        }
    }
}

/// Schedule G1, by a message: a copy of an earlier revocation comes to a data node that has started again. It says which part was the last
/// one then, and is no answer to what the node asks.
#[test]
fn what_was_said_to_a_former_life_is_no_answer() {
    let mut pair = Pair::lent();
    let taken_back = pair.sc.hold(|m| matches!(m.data(), Some(DataRequest::HandOver { .. })));
    let (session, handle) = pair.by[1];
    let look = FsOp::GetAttr { id: pair.file, handle: Some(handle) };
    let unique = pair.sc.world.system_call(session, 0, look);
    assert!(pair.answer(unique).is_none());
    pair.sc.world.deliver_copy(taken_back);
    pair.sc.world.stop_holding(taken_back);
    assert!(matches!(pair.answer(unique), Some(Ok(FsReply::Attr { .. }))));
    let size = pair.lent_again(BYTES);
    assert_eq!(pair.shown().size, size, "the part is taken back");
    let unasked = pair.sc.hold(|m| matches!(m.merge(), Some(Merge::PartAsk)));
    pair.restart(DATA);
    // It asks when it is shown a part for the first time.
    let unique = pair.begin_write(size);
    pair.answer(unique);
    pair.sc.world.deliver_first(taken_back);
    for n in 1..5 {
        let unique = pair.begin_write(size + n * 100);
        let answer = pair.answer(unique);
        assert!(matches!(answer, Some(Ok(FsReply::Written(100)))), "{answer:?}");
        assert_eq!(pair.shown().size, size + n * 100 + 100);
    }
    pair.sc.let_go(unasked);
}

/// Schedule G4: while a part is taken back for a truncate, none is given with the answer to a write.
#[test]
fn no_part_is_given_while_one_is_taken_back() {
    let mut pair = Pair::lent();
    // Its answers to the home, not what it tells of its own accord.
    let is_answer = |m: &Message<'_>| m.to() == NodeId::shard(ShardId(0)) && m.merge().is_none();
    let handed = pair.sc.hold(move |m| m.from() == NodeId::data(DATA as u16) && is_answer(m));
    let lent = pair.sc.hold(|m| matches!(m.reply(), Some(Reply::WrittenLent { .. })));
    let (session, handle) = pair.by[1];
    let cut = SetAttr { valid: set::SIZE | set::OPEN_FOR_WRITE, size: 1, ..SetAttr::default() };
    let truncate = FsOp::SetAttr { id: pair.file, set: cut, handle: Some(handle) };
    let unique = pair.sc.world.system_call(session, 0, truncate);
    assert!(pair.answer(unique).is_none());
    let (writer, handle) = pair.by[0];
    pair.sc.world.system_call(writer, 0, write(handle, BYTES));
    pair.sc.go_on_for(ASKED_AGAIN_NS);
    assert_eq!(pair.sc.world.held(lent), 0, "neither is answered");
    pair.sc.let_go(handed);
    pair.sc.let_go(lent);
    for _ in 0..2 {
        let finished = loop {
            pair.sc.go_on();
            if let Some(finished) = pair.sc.world.finished() {
                break finished;
            }
        };
        assert!(finished.result.is_ok(), "{finished:?}");
    }
    assert_eq!(pair.shown().size, BYTES + 100);
    pair.write(0);
    assert_eq!(pair.shown().size, BYTES + 100);
}

/// Schedule G9: the home refuses a write, and that is lost. Repeated, it is refused again, however often the data node was told that the home
/// knows of it; its session writes once more.
#[test]
fn what_was_refused_is_not_answered_when_it_is_repeated() {
    let mut pair = Pair::new();
    pair.write(0);
    let told = pair.sc.hold(|m| matches!(m.merge(), Some(Merge::Written { .. })));
    let unique = pair.begin_write(5_000);
    assert!(pair.answer(unique).is_none() && pair.sc.world.held(told) > 0);
    pair.truncate(50);
    let refused = pair.sc.hold(|m| matches!(m.reply(), Some(Reply::Stale { .. })));
    pair.sc.let_go(told);
    assert!(pair.answer(unique).is_none() && pair.sc.world.held(refused) > 0, "it is refused");
    pair.sc.world.lose(refused);
    pair.sc.go_on_for(ASKED_AGAIN_NS);
    assert!(pair.sc.world.finished().is_none() && pair.sc.world.held(refused) > 0, "it is refused again");
    pair.sc.let_go(refused);
    assert!(matches!(pair.answer(unique), Some(Ok(FsReply::Written(100)))));
    assert_eq!(pair.shown().size, 5_100);
}

/// Schedule G11: a data node loses the record of a write that its home has learned. What it writes next is new to the home.
#[test]
fn positions_do_not_come_again_after_a_power_loss() {
    for mut pair in [Pair::lent(), Pair::of(Scenario::lending_in_network(1)).writes()] {
        pair.write(BYTES);
        assert_eq!(pair.shown().size, BYTES + 100);
        pair.sc.world.crash(DATA, true);
        while !pair.sc.world.is_up(DATA) {
            pair.sc.go_on();
        }
        let mut size = BYTES + 100;
        for _ in 0..8 {
            pair.write(size);
            size += 100;
            assert_eq!(pair.shown().size, size);
        }
    }
}

/// Schedule G12: who has a file open, and has written it, is shown that another session has cut it by its name.
#[test]
fn the_writer_is_shown_that_others_have_cut_the_file() {
    let mut pair = Pair::lent();
    let (session, _) = pair.by[1];
    let cut = SetAttr { valid: set::SIZE, size: 2, ..SetAttr::default() };
    let result = finish(&mut pair.sc, session, FsOp::SetAttr { id: pair.file, set: cut, handle: None });
    assert!(matches!(result, Ok(FsReply::Attr { .. })), "{result:?}");
    let (writer, handle) = pair.by[0];
    match finish(&mut pair.sc, writer, FsOp::GetAttr { id: pair.file, handle: Some(handle) }) {
        Ok(FsReply::Attr { attr, .. }) => assert_eq!(attr.size, 2),
        other => panic!("answered {other:?}"),
    }
}
