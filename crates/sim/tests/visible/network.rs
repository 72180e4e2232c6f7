//! The network form (V-2, V-8 to V-11): the table of the switch shows readers what is pending.

use super::{BYTES, DATA, HOME, Pair, SHORT_NS, finish, made, write};
use onpath_session::fs::{FsOp, FsReply, OpenMode};
use onpath_sim::model::Caller;
use onpath_sim::scenario::Scenario;
use onpath_sim::world::HoldId;
use onpath_wire::data::{DataRequest, Merge};
use onpath_wire::ids::{InodeId, NodeId};
use onpath_wire::request::{SetAttr, set};

/// Virtual time in which a new tracking epoch is complete, ns.
const EPOCH_NS: u64 = 3_000_000_000;

/// A file whose part the data node has; it has answered writes, and its home has heard of none of these that are under the part.
fn lent() -> Pair {
    let mut pair = Pair::of(Scenario::lending_in_network(1)).writes();
    pair.hold_answered();
    pair.write(BYTES);
    pair
}

impl Pair {
    /// Nobody may ask the data node what it has answered.
    fn hold_questions(&mut self) -> HoldId {
        let is_question = |request| matches!(request, DataRequest::HandOver { .. } | DataRequest::Collect { .. });
        self.sc.hold(move |m| m.data().is_some_and(is_question))
    }

    fn installs(&self) -> u64 {
        self.sc.world.switch_counters().get("install_done").copied().unwrap_or_default()
    }
}

/// V-9: a reader is told by the table what is pending, and the data node goes on answering.
#[test]
pub(crate) fn the_table_shows_what_is_pending() {
    let mut pair = lent();
    let questions = pair.hold_questions();
    for n in 1..5 {
        let shown = pair.shown();
        assert_eq!((shown.size, shown.mode & 0o6000, shown.mtime), (BYTES + n * 100, 0, shown.ctime));
        pair.write(BYTES + n * 100);
    }
    assert_eq!(pair.sc.world.held(questions), 0);
    assert!(pair.installs() >= 5, "{:?}", pair.sc.world.switch_counters());
}

/// V-1: the home of a file answers a write, and moves its times on. The data node, which has yet to hear of that, answers nothing before, also not
/// what another session writes that has the part.
#[test]
pub(crate) fn what_is_answered_after_a_write_of_the_home_is_of_a_later_time() {
    let mut pair = Pair::without_pages(Scenario::lending_in_network(1));
    let late = pair.sc.hold(|m| matches!(m.merge(), Some(Merge::Written { end: 5_100, .. })));
    let first = pair.begin_write(5_000);
    pair.write_by(1, 0);
    let heard = pair.sc.hold(|m| m.peer().is_some() && m.to() == NodeId::data(DATA as u16));
    pair.sc.let_go(late);
    assert!(matches!(pair.answer(first), Some(Ok(FsReply::Written(100)))));
    let shown = pair.shown_to(0);
    let last = pair.begin_write_by(1, 200);
    assert!(pair.answer(last).is_none());
    pair.sc.let_go(heard);
    assert!(matches!(pair.answer(last), Some(Ok(FsReply::Written(100)))));
    assert!(pair.shown_to(0).mtime > shown.mtime);
}

/// V-9: where nothing is pending the home has learned all.
#[test]
fn what_is_learned_is_not_pending() {
    let mut pair = Pair::of(Scenario::lending_in_network(1)).writes();
    pair.sc.go_on_for(20_000_000);
    let questions = pair.hold_questions();
    assert_eq!(pair.shown().size, BYTES);
    assert_eq!(pair.sc.world.held(questions), 0);
}

/// V-2: what changes a file takes the part back, table or not.
#[test]
fn a_truncate_takes_the_part_back() {
    let mut pair = lent();
    pair.truncate(1);
    assert_eq!(pair.shown().size, 1);
    pair.write(0);
    assert_eq!(pair.shown().size, 100);
    pair.set(SetAttr { valid: set::MTIME, mtime: 5, ..SetAttr::default() });
    let shown = pair.shown();
    assert_eq!((shown.size, shown.mtime), (100, 5));
}

/// V-8: files of one entry. What is pending of the first is not overwritten: the home answers writes of the second until it has learned.
#[test]
pub(crate) fn an_entry_shows_one_file_at_a_time() {
    let mut pair = Pair::of(Scenario::lending_in_entries()).writes();
    let late = pair.hold_answered();
    pair.write(BYTES);
    let (session, _) = pair.by[0];
    let (other, handle) = made(&mut pair.sc, session, &mut (500..1_000));
    for offset in (0..600).step_by(100) {
        assert!(matches!(finish(&mut pair.sc, session, write(handle, offset)), Ok(FsReply::Written(100))));
    }
    assert_eq!(pair.shown().size, BYTES + 100);
    assert_eq!(pair.sc.attributes(other).size, 600);
    pair.sc.let_go(late);
    pair.sc.go_on_for(EPOCH_NS);
    assert_eq!(pair.shown().size, BYTES + 100);
}

/// V-15: somebody tells the home of writes in the name of the switch. It asks the data node.
#[test]
fn what_no_data_node_has_said_is_not_believed() {
    let mut pair = lent();
    pair.sc.world.forge_all();
    let mut size = BYTES + 100;
    for _ in 0..8 {
        pair.write(size);
        size += 100;
        assert_eq!(pair.shown().size, size);
    }
    assert!(pair.sc.world.counters().faults.forged > 8);
}

/// V-11: a switch that was rebooted shows nothing, and nothing is lost: homes ask until all that was pending is learned.
#[test]
pub(crate) fn a_table_that_was_lost_shows_nothing_until_all_is_learned() {
    let mut pair = lent();
    pair.sc.world.boot_switch();
    pair.sc.go_on_for(EPOCH_NS);
    // The reader hears of the new epoch, in which the data node has yet to tell the home.
    let (session, _) = pair.by[1];
    assert!(finish(&mut pair.sc, session, FsOp::GetAttr { id: InodeId::ROOT, handle: None }).is_ok());
    assert_eq!(pair.shown().size, BYTES + 100);
    pair.write(BYTES + 100);
    assert_eq!(pair.shown().size, BYTES + 200);
}

/// V-11: without a switch homes take parts back, as long as there is none.
#[test]
fn without_the_switch_files_are_asked_back() {
    let mut pair = lent();
    pair.sc.world.stop_switch();
    assert_eq!(pair.shown().size, BYTES + 100);
    pair.sc.go_on_for(EPOCH_NS);
    let (installs, mut size) = (pair.installs(), BYTES + 100);
    for _ in 0..6 {
        pair.write(size);
        size += 100;
    }
    assert_eq!((pair.shown().size, pair.installs()), (size, installs));
    pair.sc.world.boot_switch();
    pair.sc.go_on_for(EPOCH_NS);
    for _ in 0..6 {
        pair.write(size);
        size += 100;
    }
    assert_eq!(pair.shown().size, size);
    assert!(pair.installs() > installs, "{:?}", pair.sc.world.switch_counters());
}

/// V-11: no two processes of a data node install in one epoch; what the first has answered is shown all the while.
#[test]
pub(crate) fn what_was_answered_is_shown_across_restarts() {
    for process in [DATA, HOME] {
        let mut pair = lent();
        pair.restart(process);
        assert_eq!(pair.shown().size, BYTES + 100, "process {process}");
        pair.sc.go_on_for(EPOCH_NS);
        let installs = pair.installs();
        for n in 1..6 {
            pair.write(BYTES + n * 100);
            assert_eq!(pair.shown().size, BYTES + n * 100 + 100, "process {process}");
        }
        assert!(pair.installs() > installs, "process {process}");
    }
}

/// V-8: a data node that has not heard of the epoch answers through a table of another one. Its home answers instead.
#[test]
pub(crate) fn what_no_table_shows_is_answered_by_the_home() {
    let mut pair = lent();
    let untold = pair.sc.hold(|m| matches!(m.data(), Some(DataRequest::Track { .. })));
    pair.sc.world.boot_switch();
    pair.sc.go_on_for(EPOCH_NS);
    assert!(pair.sc.world.held(untold) > 0, "the data node is to be told");
    pair.write(BYTES + 100);
    let counters = pair.sc.world.switch_counters();
    assert!(counters.get("install_other_epoch").is_some_and(|count| *count > 0), "{counters:?}");
    assert_eq!(pair.shown().size, BYTES + 200);
    pair.sc.let_go(untold);
    pair.sc.go_on_for(EPOCH_NS);
    assert_eq!(pair.shown().size, BYTES + 200);
}

/// V-9: what a switch tells that the coordinator has given up is not believed: data nodes install elsewhere.
#[test]
fn a_switch_that_was_given_up_is_not_believed() {
    let mut pair = Pair::of(Scenario::lending_in_network(2)).writes();
    let place = pair.sc.world.map().entry(pair.file).index() >> 15;
    let (given_up, other) = (NodeId::switch(place as u16), 1 - place as u16);
    pair.sc.go_on_for(20_000_000);
    assert_eq!(pair.shown().size, BYTES);
    pair.sc.hold(move |m| m.to() == given_up && m.command().is_some());
    pair.sc.go_on_for(800_000_000);
    pair.hold_answered();
    pair.write(BYTES);
    let installed = pair.sc.world.counters_of(other).get("install_done").copied();
    assert!(installed.is_some_and(|count| count > 0), "the other one has its entry");
    assert_eq!(pair.shown().size, BYTES + 100);
}

/// A second session that opens a file is not its only writer any more, though the part stays: who sets a time then is shown all writes.
#[test]
pub(crate) fn the_only_writer_is_not_alone_when_another_has_opened() {
    let mut sc = Scenario::lending_in_network(1);
    let sessions = [(); 2].map(|()| sc.world.add_session(&[Caller::default()]));
    let mut numbers = 0..1_000;
    let (_, handle) = made(&mut sc, sessions[0], &mut numbers);
    assert!(matches!(finish(&mut sc, sessions[0], write(handle, 0)), Ok(FsReply::Written(100))));
    sc.go_on_for(EPOCH_NS);
    let (file, handle) = made(&mut sc, sessions[0], &mut numbers);
    let mut pair = Pair { sc, file, by: [(sessions[0], handle), (sessions[1], handle)] };
    pair.hold_answered();
    pair.write(0);
    let attr = pair.writer_sets(SetAttr { valid: set::MTIME, mtime: 5, ..SetAttr::default() }, false);
    assert_eq!((attr.size, attr.mtime), (100, 5));
    let open = FsOp::Open { id: file, mode: OpenMode { read: false, ..OpenMode::READ_WRITE } };
    let Ok(FsReply::Opened(other)) = finish(&mut pair.sc, sessions[1], open) else { panic!("opened") };
    pair.by[1].1 = other.handle;
    let (session, handle) = pair.by[1];
    let unique = pair.sc.world.system_call(session, 0, write(handle, 100));
    assert!(matches!(pair.answer(unique), Some(Ok(FsReply::Written(100)))), "the data node answers whoever writes");
    let attr = pair.writer_sets(SetAttr { valid: set::MTIME, mtime: 7, ..SetAttr::default() }, true);
    assert_eq!((attr.size, attr.mtime), (200, 7));
    pair.sc.go_on_for(SHORT_NS);
    let shown = pair.shown();
    assert_eq!((shown.size, shown.mtime), (200, 7));
}
