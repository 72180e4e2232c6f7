//! What crashes take from a history.

use super::*;
use onpath_sim::client::Write;
use onpath_wire::disk::block::{DataRecord, PendingMerge};
use onpath_wire::disk::inode::Inode;
use onpath_wire::ids::{DataId, Generation, RecordSeq};
use onpath_wire::request::RequestBody;

/// The processes of the shard, and of what else there is.
const HOME: usize = 0;
const OTHER: usize = 1;

impl History {
    /// A history of so many shards in two processes.
    fn of_two(shards: u16) -> History {
        History { checker: Checker::new(key(), map(shards), 2), asked: 0, lsn: 0 }.opened()
    }

    /// A crash leaves the first records of the shard's process.
    fn crashes(&mut self, kept: u64, may_lose: bool) {
        self.checker.crashed(HOME, kept, may_lose);
        self.lsn = kept;
    }

    fn ask_to_write(&mut self, id: InodeId, end: u64) -> Question {
        let body = RequestBody::of_session(Request::DataRef { id });
        let write = Some(Write { end, kill_suidgid: false });
        let asked = Rc::new(Asked { caller: Caller::default(), body, write });
        self.asked += 1;
        let question = Question { seq: RequestSeq(self.asked), asked };
        self.checker.asked(SESSION, question.seq, question.asked.clone());
        question
    }

    /// A file is written up to `end`, from question to answer.
    fn writes(&mut self, id: InodeId, end: u64) {
        let question = self.ask_to_write(id, end);
        self.records(&question, vec![merged(id, end, None)]);
        self.answers(&question, &Reply::Written { size: end });
    }

    /// A data node in the other process journals a write up to `end`, which it answers.
    fn data_records(&mut self, question: &Question, (id, end): (InodeId, u64), (lsn, seq): (u64, u64)) {
        let merge = PendingMerge {
            data: DataId { inode: id, generation: Generation(0) },
            cut: 0,
            end,
            session: SESSION,
            request: question.seq,
            oldest: question.seq,
            kill_suidgid: false,
            append: None,
            part: Some(1),
        };
        let record = DataRecord::Written { merge, stamp: Stamp(40), extents: vec![] };
        self.checker.recorded(OTHER, lsn, NodeId::data(0), (RecordSeq(seq), &record.to_stored()));
    }

    /// The shard undoes the last append to a file, which ends at `size` again.
    fn undoes(&mut self, id: InodeId, size: u64) {
        let inode = Inode { nlink: 1, size, ..Inode::new(id, Kind::File) };
        self.own_record(
            0,
            vec![Effect::Undone { session: SESSION, request: RequestSeq(9) }, Effect::PutInode { inode }],
        );
    }

    /// The home learns what a data node has answered up to `last`.
    fn learns(&mut self, id: InodeId, size: u64, last: u64) {
        self.own_record(0, vec![merged(id, size, Some(LogSeq(last)))]);
    }

    /// Somebody is shown a size.
    fn shows(&mut self, id: InodeId, size: u64) {
        let question = self.ask(Request::GetAttr { id });
        // The times of an empty file are those of its birth.
        let later = if size == 0 { 10 } else { 80 + self.asked as i64 };
        let attr = AttrWire { size, mtime: later, ..attr(id, later, 1) };
        self.answers(&question, &Reply::Attr { attr, data: DataRef::default(), shared: false });
    }
}

/// A home has this size of a file.
fn merged(id: InodeId, size: u64, last: Option<LogSeq>) -> Effect {
    let data = DataId { inode: id, generation: Generation(0) };
    let (cut, blocks, version, kill_suidgid) = (0, 1, 1, false);
    let (base, stamp, refused) = (None, last.map(|_| Stamp(40)), None);
    Effect::Merged { data, cut, size, blocks, version, kill_suidgid, base, last, stamp, refused }
}

#[test]
fn an_acknowledged_change_that_a_crash_loses() {
    for may_lose in [false, true] {
        let mut h = History::new();
        h.checker.durable(0, 1);
        h.makes("a", 1);
        h.checker.crashed(0, 1, may_lose);
        if may_lose {
            h.is_right();
            let look = h.ask(look("a"));
            h.emits(&look, &entry(file(1), 10, false));
            h.is_wrong("instead of");
        } else {
            h.is_wrong("a crash loses");
        }
    }
}

/// the answer rests on a record that was not safe.
#[test]
fn an_answer_that_shows_what_a_crash_takes_back() {
    let mut h = History::new();
    h.checker.durable(0, 1);
    let make = h.ask(create(InodeId::ROOT, &name("a")));
    h.records(&make, born("a", 1));
    let look = h.ask(look("a"));
    h.answers(&look, &entry(file(1), 10, false));
    h.is_right();
    h.checker.crashed(0, 1, false);
    h.is_wrong("a crash takes back what");
}

#[test]
fn a_change_that_stands_although_what_it_rests_on_is_lost() {
    let mut h = History { checker: Checker::new(key(), map(2), 2), asked: 0, lsn: 0 };
    let make = h.ask(create(InodeId::ROOT, &name("a")));
    h.records(&make, born("a", 1));
    let remove = h.ask(unlink(InodeId::ROOT, &name("a")));
    let record = Record {
        stamp: Stamp(9),
        session: SESSION,
        request: remove.seq,
        oldest: remove.seq,
        uid: 0,
        answer: Answer::Done,
        effects: vec![],
    };
    h.checker.appended(1, 1, NodeId::shard(ShardId(1)), &record.to_stored());
    h.checker.crashed(0, 0, true);
    h.is_wrong("rests on what is lost");
}

/// A loss of power takes the bytes of an append, and the next one that the home has undone it: it does so again.
#[test]
fn an_append_that_is_undone_once_more_when_that_is_lost() {
    for (again, shown, wrong) in [(true, 100, false), (false, 300, false), (true, 300, true), (false, 100, true)] {
        let mut h = History::new();
        let a = h.makes("a", 1);
        h.writes(a, 100);
        h.writes(a, 300);
        let kept = h.lsn;
        h.checker.durable(0, kept);
        h.crashes(kept, true);
        h.undoes(a, 100);
        h.crashes(kept, true);
        if again {
            h.undoes(a, 100);
        }
        h.shows(a, shown);
        if wrong { h.is_wrong("(nlink, size, rdev)") } else { h.is_right() }
    }
}

#[test]
fn a_file_that_is_shortened_though_no_power_was_lost_or_no_append_is_undone() {
    for (may_lose, undoes) in [(false, true), (true, false)] {
        let mut h = History::new();
        let a = h.makes("a", 1);
        h.writes(a, 100);
        h.checker.durable(HOME, h.lsn);
        h.crashes(h.lsn, may_lose);
        if undoes {
            h.undoes(a, 0);
        } else {
            let inode = Inode { nlink: 1, ..Inode::new(a, Kind::File) };
            h.own_record(0, vec![Effect::PutInode { inode }]);
        }
        h.is_wrong("shortens");
    }
}

/// A data node's record of a write is lost, that of the home which has learned it is not: the file has the size. The write is done again if it is
/// repeated.
#[test]
fn a_write_of_which_the_size_is_left() {
    for (learned, shown, wrong) in [(true, 100, false), (true, 0, true), (false, 0, false), (false, 100, true)] {
        let mut h = History::of_two(1);
        let a = h.makes("a", 1);
        let write = h.ask_to_write(a, 100);
        h.data_records(&write, (a, 100), (1, 7));
        let before = h.lsn;
        h.learns(a, 100, 7);
        h.checker.durable(HOME, before);
        h.checker.crashed(OTHER, 0, true);
        if !learned {
            h.crashes(before, true);
        }
        h.shows(a, shown);
        if wrong {
            h.is_wrong("(nlink, size, rdev)");
            continue;
        }
        h.data_records(&write, (a, 100), (1, 9));
        h.learns(a, 100, 9);
        h.shows(a, 100);
        h.is_right();
        h.data_records(&write, (a, 100), (2, 11));
        h.learns(a, 100, 11);
        h.is_wrong("is executed twice");
    }
}

#[test]
fn a_kill_leaves_no_size_without_its_bytes() {
    let mut h = History::of_two(1);
    let a = h.makes("a", 1);
    let write = h.ask_to_write(a, 100);
    h.data_records(&write, (a, 100), (1, 7));
    h.learns(a, 100, 7);
    h.checker.crashed(OTHER, 0, false);
    h.is_wrong("without its bytes");
}

/// the name that is to be removed and its host's promise go with the power of that host. Its coordinator has not heard of that when it
/// makes the intention, and answers.
#[test]
fn an_intention_that_rests_on_a_promise_that_is_lost() {
    for lost in [true, false] {
        let mut h = History::of_two(2);
        let (make, txn) =
            (h.ask(create(InodeId::ROOT, &name("a"))), |n| TxnId { coordinator: ShardId(0), seq: TxnSeq(n) });
        let born = Record { effects: born("a", 1), ..h.record_of(&make) };
        h.checker.appended(OTHER, 1, NodeId::shard(ShardId(1)), &born.to_stored());
        let promised = Effect::Prepared { txn: txn(1), parts: vec![], found: vec![] };
        let promise =
            Record { session: SessionId(0), answer: Answer::Nothing, effects: vec![promised], ..h.record_of(&make) };
        h.checker.appended(OTHER, 2, NodeId::shard(ShardId(1)), &promise.to_stored());
        let remove = h.ask(unlink(InodeId::ROOT, &name("a")));
        if lost {
            h.checker.crashed(OTHER, 0, true);
        }
        let (session, request) = (SESSION, remove.seq);
        let asked = Part::Asked { txn: txn(1), participants: vec![ShardId(1)], session, request };
        h.records(&remove, vec![Effect::Prepared { txn: txn(2), parts: vec![asked], found: vec![] }]);
        h.answers(&remove, &Reply::Done);
        h.is_right();
        let look = h.ask(look("a"));
        h.answers(&look, &failed(Errno::ENOENT));
        h.is_right();
        assert_eq!(h.checker.excuses.of(Excuse::LostAnswer), u64::from(lost));
    }
}

/// A data node's record of a write is lost; what a table shows of it is not, and the home learns that afterwards. What it learns of another life of
/// the data node says nothing of it.
#[test]
fn a_write_that_a_table_shows_when_its_data_node_has_lost_it() {
    for (last, shown, wrong) in [(7, 100, false), (7, 0, true), (9, 0, false), (9, 100, true)] {
        let mut h = History::of_two(1);
        let a = h.makes("a", 1);
        let write = h.ask_to_write(a, 100);
        h.data_records(&write, (a, 100), (1, 7));
        h.learns(a, 100, 7);
        let kept = h.lsn - 1;
        h.checker.durable(HOME, kept);
        h.crashes(kept, true);
        h.checker.crashed(OTHER, 0, true);
        h.learns(a, if last == 7 { 100 } else { 0 }, last);
        h.shows(a, shown);
        if wrong { h.is_wrong("(nlink, size, rdev)") } else { h.is_right() }
    }
}
