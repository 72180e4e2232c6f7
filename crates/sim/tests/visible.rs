//! Writes that a data node answers (V-1 to V-6): files whose home is in one process and whose bytes are in another.

mod gone;
pub(crate) mod listed;
mod losses;
pub(crate) mod network;
mod schedules;
pub(crate) mod two_phase;

use onpath_session::fs::{FsOp, FsReply, FsResult, Handle, OpenMode};
use onpath_sim::model::Caller;
use onpath_sim::scenario::Scenario;
use onpath_sim::world::HoldId;
use onpath_wire::attr::AttrWire;
use onpath_wire::data::{DataReply, DataRequest, Merge};
use onpath_wire::ids::{InodeId, NodeId};
use onpath_wire::name::Name;
use onpath_wire::request::{SetAttr, set};

/// Virtual time for what need not wait, ns.
const SHORT_NS: u64 = 2_000_000;
/// Virtual time in which a call is answered, ns.
const ANSWERED_NS: u64 = 60_000_000_000;
/// Bytes of a file that is lent: some writes after another, the last of which its data node has answered.
const BYTES: u64 = 600;
/// The process of the data node that is alone there.
const DATA: usize = 1;
/// The process of the home.
const HOME: usize = 0;

/// Two sessions that have the same file open.
struct Pair {
    sc: Scenario,
    file: InodeId,
    by: [(usize, Handle); 2],
}

impl Pair {
    fn new() -> Pair {
        Pair::of(Scenario::lending())
    }

    fn of(sc: Scenario) -> Pair {
        Pair::opened(sc, OpenMode::READ_WRITE)
    }

    /// Neither can have changed pages of the file in memory.
    fn without_pages(sc: Scenario) -> Pair {
        Pair::opened(sc, OpenMode { direct: true, ..OpenMode::READ_WRITE })
    }

    fn opened(mut sc: Scenario, open: OpenMode) -> Pair {
        let sessions = [(); 2].map(|()| sc.world.add_session(&[Caller::default()]));
        let mut numbers = 0..100;
        let (file, handle) = loop {
            let number = numbers.next().expect("half of the files are there");
            let name = Name::new(format!("session-{number}").as_bytes()).expect("a short name");
            let create = FsOp::Create { parent: InodeId::ROOT, name, mode: 0o6755, umask: 0, open };
            let Ok(FsReply::Created { attr, opened, .. }) = finish(&mut sc, sessions[0], create) else {
                panic!("a file")
            };
            if sc.world.map().data(attr.id) == NodeId::data(DATA as u16) {
                break (attr.id, opened.handle);
            }
        };
        let open = FsOp::Open { id: file, mode: open };
        let Ok(FsReply::Opened(other)) = finish(&mut sc, sessions[1], open) else { panic!("opened") };
        Pair { sc, file, by: [(sessions[0], handle), (sessions[1], other.handle)] }
    }

    /// The same, and the data node has the part of the file, of which it has answered a write: the file has so many bytes.
    fn lent() -> Pair {
        Pair::new().writes()
    }

    fn writes(mut self) -> Pair {
        let pair = &mut self;
        for at in (0..BYTES - 100).step_by(100) {
            pair.write(at);
        }
        let told = pair.sc.hold(|m| matches!(m.merge(), Some(Merge::Written { .. })));
        pair.write(BYTES - 100);
        assert_eq!(pair.sc.world.held(told), 0, "nobody waits for the home");
        pair.sc.world.stop_holding(told);
        self
    }

    fn begin_write(&mut self, offset: u64) -> u64 {
        self.begin_write_by(0, offset)
    }

    fn begin_write_by(&mut self, who: usize, offset: u64) -> u64 {
        let (session, handle) = self.by[who];
        self.sc.world.system_call(session, 0, write(handle, offset))
    }

    /// The first session writes a hundred bytes.
    fn write(&mut self, offset: u64) {
        self.write_by(0, offset);
    }

    fn write_by(&mut self, who: usize, offset: u64) {
        let unique = self.begin_write_by(who, offset);
        assert!(matches!(self.answer(unique), Some(Ok(FsReply::Written(100)))), "at {offset}");
    }

    /// The answer to a call, if it comes soon.
    fn answer(&mut self, unique: u64) -> Option<FsResult> {
        let until_ns = self.sc.world.now_ns() + SHORT_NS;
        while self.sc.world.now_ns() < until_ns {
            self.sc.world.step(until_ns);
            if let Some(finished) = self.sc.world.finished() {
                assert_eq!(finished.unique, unique);
                return Some(finished.result);
            }
        }
        None
    }

    /// What the second session is shown.
    fn shown(&mut self) -> AttrWire {
        self.shown_to(1)
    }

    fn shown_to(&mut self, who: usize) -> AttrWire {
        let (session, handle) = self.by[who];
        match finish(&mut self.sc, session, FsOp::GetAttr { id: self.file, handle: Some(handle) }) {
            Ok(FsReply::Attr { attr, .. }) => attr,
            other => panic!("answered {other:?}"),
        }
    }

    /// The second session changes attributes.
    fn set(&mut self, set: SetAttr) {
        let (session, handle) = self.by[1];
        let result = finish(&mut self.sc, session, FsOp::SetAttr { id: self.file, set, handle: Some(handle) });
        assert!(matches!(result, Ok(FsReply::Attr { .. })), "{result:?}");
    }

    fn truncate(&mut self, size: u64) {
        self.set(SetAttr { valid: set::SIZE | set::OPEN_FOR_WRITE, size, ..SetAttr::default() });
    }

    /// The data node tells the home of nothing that it has answered.
    fn hold_answered(&mut self) -> HoldId {
        self.sc.hold(|m| matches!(m.merge(), Some(Merge::Answered { .. })))
    }

    fn restart(&mut self, process: usize) {
        self.sc.world.crash(process, false);
        while !self.sc.world.is_up(process) {
            self.sc.go_on();
        }
    }
}

pub(crate) fn write(handle: Handle, offset: u64) -> FsOp {
    FsOp::Write { handle, offset, data: vec![7; 100].into(), append: false, kill_suidgid: true, page: false }
}

/// A session makes a call and waits for its answer.
pub(crate) fn finish(sc: &mut Scenario, session: usize, op: FsOp) -> FsResult {
    let unique = sc.world.system_call(session, 0, op);
    let until_ns = sc.world.now_ns() + ANSWERED_NS;
    while sc.world.now_ns() < until_ns {
        sc.world.step(until_ns);
        if let Some(finished) = sc.world.finished() {
            assert_eq!(finished.unique, unique);
            return finished.result;
        }
    }
    panic!("not answered")
}

#[test]
pub(crate) fn what_a_data_node_has_answered_is_shown() {
    let mut pair = Pair::lent();
    pair.hold_answered();
    let AttrWire { size, mode, mtime, ctime, .. } = pair.shown();
    assert_eq!((size, mode & 0o6000, mtime), (BYTES, 0, ctime), "set-id bits are gone");
    // It has given the part back: the home answers, which has told what is so.
    pair.write(BYTES);
    assert_eq!(pair.shown().size, BYTES + 100);
}

/// V-1, V-13: where writes of several sessions are under way before a file is lent, their home answers them without asking its data node, which
/// answers the next ones.
#[test]
pub(crate) fn writes_that_are_under_way_take_no_part_back() {
    let mut pair = Pair::without_pages(Scenario::lending());
    let asked = pair.sc.hold(|m| matches!(m.data(), Some(DataRequest::HandOver { .. })));
    let told = pair.sc.hold(|m| matches!(m.merge(), Some(Merge::Written { .. })));
    for n in 0..6 {
        pair.begin_write_by(n % 2, n as u64 * 100);
    }
    pair.sc.go_on_for(SHORT_NS);
    assert_eq!(pair.sc.world.held(told), 6, "the home answers all");
    pair.sc.let_go(told);
    let mut answered = 0;
    while answered < 6 {
        pair.sc.go_on();
        answered += std::iter::from_fn(|| pair.sc.world.finished()).count();
    }
    let told = pair.sc.hold(|m| matches!(m.merge(), Some(Merge::Written { .. })));
    for n in 6..12 {
        pair.write_by(n % 2, n as u64 * 100);
    }
    assert_eq!((pair.sc.world.held(told), pair.sc.world.held(asked)), (0, 0), "nobody waits for the home");
    pair.sc.let_go(asked);
    assert_eq!(pair.shown().size, 1_200);
}

#[test]
fn a_home_learns_what_was_answered_and_a_file_at_rest_is_not_lent() {
    let mut pair = Pair::lent();
    let asked = pair.sc.hold(|m| matches!(m.data(), Some(DataRequest::HandOver { .. })));
    pair.sc.go_on_for(3_000_000_000);
    assert_eq!(pair.shown().size, BYTES);
    assert_eq!(pair.sc.world.held(asked), 0, "the home need not ask");
}

/// Schedule G1: a part of before its restart is worth nothing to a data node.
#[test]
pub(crate) fn a_restarted_data_node_takes_no_part_that_it_may_have_given_back() {
    let mut pair = Pair::lent();
    assert_eq!(pair.shown().size, BYTES);
    pair.restart(DATA);
    for n in 0..3 {
        let size = BYTES + n * 100;
        pair.write(size);
        assert_eq!(pair.shown().size, size + 100);
    }
}

/// What was answered before a restart is shown after it, whichever restarts.
#[test]
pub(crate) fn what_was_answered_is_shown_across_restarts() {
    for process in [DATA, HOME] {
        let mut pair = Pair::lent();
        pair.hold_answered();
        pair.restart(process);
        assert_eq!(pair.shown().size, BYTES, "process {process}");
    }
}

/// Schedule G10: the answer to a write is slow, and a truncate comes in between. A repetition is answered, and not executed again.
#[test]
pub(crate) fn a_repeated_write_that_was_answered_is_answered_again() {
    let mut pair = Pair::lent();
    let slow = pair.sc.hold(|m| matches!(m.data_reply(), Some(DataReply::Written { .. })));
    let unique = pair.begin_write(BYTES);
    assert!(pair.answer(unique).is_none() && pair.sc.world.held(slow) > 0);
    pair.truncate(1);
    assert_eq!(pair.shown().size, 1);
    // It asks again meanwhile.
    pair.sc.go_on_for(1_000_000_000);
    assert!(pair.sc.world.held(slow) > 1, "asked once more");
    pair.sc.let_go(slow);
    assert!(matches!(pair.answer(unique), Some(Ok(FsReply::Written(100)))));
    assert_eq!(pair.shown().size, 1);
}

/// V-2: what was answered before a time was set does not move it afterwards.
#[test]
pub(crate) fn a_time_that_is_set_stays() {
    let mut pair = Pair::lent();
    let late = pair.hold_answered();
    pair.write(BYTES);
    pair.sc.go_on_for(SHORT_NS * 10);
    pair.set(SetAttr { valid: set::MTIME, mtime: 5, ..SetAttr::default() });
    pair.sc.let_go(late);
    pair.sc.go_on_for(3_000_000_000);
    let shown = pair.shown();
    assert_eq!((shown.mtime, shown.size), (5, BYTES + 100));
}

/// V-3: a write with a part that was taken back is answered by the home.
#[test]
pub(crate) fn a_part_that_was_taken_back_is_worth_nothing() {
    let mut pair = Pair::lent();
    let on_its_way = pair.sc.hold(|m| matches!(m.data(), Some(DataRequest::Write { .. })));
    let unique = pair.begin_write(BYTES);
    assert!(pair.answer(unique).is_none());
    assert_eq!(pair.shown().size, BYTES);
    let to_home = pair.sc.hold(|m| matches!(m.merge(), Some(Merge::Written { .. })));
    pair.sc.let_go(on_its_way);
    assert!(pair.answer(unique).is_none(), "the home answers");
    assert_eq!(pair.shown().size, BYTES);
    pair.sc.let_go(to_home);
    assert!(matches!(pair.answer(unique), Some(Ok(FsReply::Written(100)))));
    assert_eq!(pair.shown().size, BYTES + 100);
}

/// A session that makes a file whose bytes are at [`DATA`], which knows this home.
fn made(sc: &mut Scenario, session: usize, numbers: &mut std::ops::Range<u32>) -> (InodeId, Handle) {
    loop {
        let number = numbers.next().expect("half of the files are there");
        let name = Name::new(format!("born-{number}").as_bytes()).expect("a short name");
        let create = FsOp::Create { parent: InodeId::ROOT, name, mode: 0o644, umask: 0, open: OpenMode::READ_WRITE };
        let Ok(FsReply::Created { attr, opened, .. }) = finish(sc, session, create) else { panic!("a file") };
        let (home, data) = (sc.world.map().home(attr.id), sc.world.map().data(attr.id));
        if data == NodeId::data(DATA as u16) && sc.world.process_of(home) == HOME {
            return (attr.id, opened.handle);
        }
    }
}

/// Two sessions; the first one has made a file and written to it, which its home has not heard.
fn born() -> Pair {
    let mut sc = Scenario::lending();
    let sessions = [(); 2].map(|()| sc.world.add_session(&[Caller::default()]));
    let mut numbers = 0..1_000;
    // A data node that has just started has yet to ask the home which part it gave last.
    let (_, handle) = made(&mut sc, sessions[0], &mut numbers);
    assert!(matches!(finish(&mut sc, sessions[0], write(handle, 0)), Ok(FsReply::Written(100))));
    sc.go_on_for(3_000_000_000);
    let (file, handle) = made(&mut sc, sessions[0], &mut numbers);
    let mut pair = Pair { sc, file, by: [(sessions[0], handle), (sessions[1], handle)] };
    let told = pair.sc.hold(|m| matches!(m.merge(), Some(Merge::Written { .. })));
    pair.hold_answered();
    pair.write(0);
    assert_eq!(pair.sc.world.held(told), 0, "the first write of a new file does not wait for its home");
    pair.sc.world.stop_holding(told);
    pair
}

impl Pair {
    /// The first session changes attributes through its handle; the home may or may not have to ask the data node.
    fn writer_sets(&mut self, set: SetAttr, asks: bool) -> AttrWire {
        let asked = self.sc.hold(|m| matches!(m.data(), Some(DataRequest::HandOver { .. })));
        let (session, handle) = self.by[0];
        let unique = self.sc.world.system_call(session, 0, FsOp::SetAttr { id: self.file, set, handle: Some(handle) });
        let answer = self.answer(unique);
        assert_eq!((answer.is_none(), self.sc.world.held(asked) > 0), (asks, asks), "{set:?}");
        self.sc.let_go(asked);
        match answer.or_else(|| self.answer(unique)) {
            Some(Ok(FsReply::Attr { attr, .. })) => attr,
            other => panic!("answered {other:?}"),
        }
    }

    fn opened_by_the_other(&mut self) {
        let (session, _) = self.by[1];
        let open = FsOp::Open { id: self.file, mode: OpenMode::READ_WRITE };
        let Ok(FsReply::Opened(other)) = finish(&mut self.sc, session, open) else { panic!("opened") };
        self.by[1].1 = other.handle;
    }
}

/// V-7, V-13: what tar(1), cp -p and rsync(1) do to a new file. Its only writer sets a time, and nobody asks the data node: the time is a
/// register of value and stamp, and the writer knows the size.
#[test]
pub(crate) fn the_only_writer_sets_times_beside_its_writes() {
    let mut pair = born();
    let set = SetAttr { valid: set::MTIME | set::ATIME, mtime: 5, atime: 6, ..SetAttr::default() };
    let attr = pair.writer_sets(set, false);
    assert_eq!((attr.size, attr.mtime, attr.atime), (100, 5, 6));
    let attr = pair.writer_sets(SetAttr { valid: set::MODE, mode: 0o600, ..SetAttr::default() }, false);
    assert_eq!((attr.size, attr.mtime, attr.mode), (100, 5, 0o600));
    // As Linux asks for a chown: the file has no set-id bits that it could clear.
    let valid = set::UID | set::GID | set::KILL_SUIDGID;
    let attr = pair.writer_sets(SetAttr { valid, uid: 0, gid: 0, ..SetAttr::default() }, false);
    assert_eq!((attr.size, attr.mtime), (100, 5));
    // The home learns the write when the other one opens the file: the time stays.
    pair.opened_by_the_other();
    let shown = pair.shown();
    assert_eq!((shown.size, shown.mtime, shown.mode), (100, 5, 0o600));
    // Now that another one may write it is asked.
    pair.write(100);
    pair.write(200);
    let attr = pair.shown();
    assert!((attr.size, attr.mtime > 5) == (300, true), "a later write moves the time");
}

/// A write after the time was set moves it, though the home learns both writes at once.
#[test]
fn a_write_after_a_time_was_set_counts() {
    let mut pair = born();
    pair.writer_sets(SetAttr { valid: set::MTIME, mtime: 5, ..SetAttr::default() }, false);
    pair.write(100);
    pair.opened_by_the_other();
    let attr = pair.shown();
    assert!((attr.size, attr.mtime > 5) == (200, true), "{attr:?}");
}

/// What does not commute with writes asks: a size, and set-id bits, which a write would have to clear.
#[test]
pub(crate) fn what_does_not_commute_asks_the_data_node() {
    let suid = SetAttr { valid: set::MODE, mode: 0o4755, ..SetAttr::default() };
    let size = SetAttr { valid: set::SIZE | set::OPEN_FOR_WRITE, size: 7, ..SetAttr::default() };
    for (set, size) in [(suid, 100), (size, 7)] {
        let attr = born().writer_sets(set, true);
        assert_eq!(attr.size, size);
        assert_eq!(attr.mode & 0o4000 != 0, set.valid & set::MODE != 0);
    }
}

/// Another session that has the file open writes it by the same part: whoever sets a time is shown that write.
#[test]
pub(crate) fn who_sets_a_time_beside_another_writer_is_shown_its_writes() {
    let mut pair = Pair::lent();
    pair.hold_answered();
    let (session, handle) = pair.by[1];
    let unique = pair.sc.world.system_call(session, 0, write(handle, BYTES));
    assert!(matches!(pair.answer(unique), Some(Ok(FsReply::Written(100)))), "the data node answers whoever writes");
    let attr = pair.writer_sets(SetAttr { valid: set::MTIME, mtime: 5, ..SetAttr::default() }, true);
    assert_eq!((attr.size, attr.mtime), (BYTES + 100, 5));
}
