//! Every checker can fail: histories told by hand, right ones and wrong ones, with what must be said of the latter.
//!
//! A history is what the world tells the checker: who asks, what a shard journals and puts out, what a client takes, what a
//! crash leaves. Everything happens at shard 0; the root belongs to everybody.

mod crashes;

use onpath_sim::check::{Checker, Excuse};
use onpath_sim::client::Asked;
use onpath_sim::model::Caller;
use onpath_sim::scenario::{alice, create, mode, read, rename, unlink};
use onpath_wire::Stored;
use onpath_wire::attr::{AttrWire, flag};
use onpath_wire::disk::record::{Answer, Effect, Log, Record};
use onpath_wire::disk::txn::{Change, Part};
use onpath_wire::errno::Errno;
use onpath_wire::header::{Header, MessageKind};
use onpath_wire::ids::{
    Birth, Cookie, InodeId, LogSeq, NodeId, RequestSeq, SessionId, ShardId, Slot, Stamp, TxnId, TxnSeq,
};
use onpath_wire::inode::Kind;
use onpath_wire::map::ClusterMap;
use onpath_wire::name::Name;
use onpath_wire::packet::Packet;
use onpath_wire::reply::{DataRef, DirEntry, Reply};
use onpath_wire::request::{FileLock, LockKind, Request, SetAttr, set};
use onpath_wire::secrets::{CookieKey, Secrets};
use std::rc::Rc;

fn key() -> CookieKey {
    Secrets::of_seed(7).inner.listings()
}

fn map(shards: u16) -> ClusterMap {
    ClusterMap::even(shards, Secrets::of_seed(7).placement)
}

const LOG: Log = Log { seq: LogSeq(1), dcount: 1, dnlink: 0 };
const NO_LOG: Log = Log { seq: LogSeq(0), dcount: 1, dnlink: 0 };

fn name(name: &str) -> Name {
    Name::new(name.as_bytes()).expect("short")
}

fn file(number: u32) -> InodeId {
    InodeId::new(Slot(3), Birth(1), number as u16, Kind::File)
}

/// What was asked, and under which number.
#[derive(Clone)]
struct Question {
    seq: RequestSeq,
    asked: Rc<Asked>,
}

/// A history of one session.
struct History {
    checker: Checker,
    asked: u64,
    lsn: u64,
}

const SESSION: SessionId = SessionId(1);

impl History {
    fn new() -> History {
        History { checker: Checker::new(key(), map(1), 1), asked: 0, lsn: 0 }.opened()
    }

    /// The same, and the root belongs to everybody.
    fn opened(mut self) -> History {
        let open = self.ask(Request::SetAttr { id: InodeId::ROOT, set: mode(0o777) });
        self.records(&open, vec![]);
        self
    }

    fn ask(&mut self, request: Request) -> Question {
        self.ask_as(Caller::default(), request)
    }

    fn ask_as(&mut self, caller: Caller, request: Request) -> Question {
        self.asked += 1;
        let (seq, asked) = (RequestSeq(self.asked), Asked::new(caller, request));
        self.checker.asked(SESSION, seq, asked.clone());
        Question { seq, asked }
    }

    /// The shard journals what answers a question.
    fn records(&mut self, question: &Question, effects: Vec<Effect>) {
        self.lsn += 1;
        let record = Record { effects, ..self.record_of(question) };
        self.checker.appended(0, self.lsn, shard(), &record.to_stored());
    }

    /// A record that answers a question.
    fn record_of(&self, question: &Question) -> Record {
        Record {
            stamp: Stamp(self.lsn),
            session: SESSION,
            request: question.seq,
            oldest: question.seq,
            uid: question.asked.caller.uid,
            answer: Answer::Done,
            effects: vec![],
        }
    }

    /// A shard journals what it does of its own accord.
    fn own_record(&mut self, by: u16, effects: Vec<Effect>) {
        self.lsn += 1;
        let (session, request) = (SessionId(0), RequestSeq(0));
        let (stamp, oldest, answer) = (Stamp(self.lsn), request, Answer::Nothing);
        let record = Record { stamp, session, request, oldest, uid: 0, answer, effects };
        self.checker.appended(by.into(), self.lsn, NodeId::shard(ShardId(by)), &record.to_stored());
    }

    fn packet(question: &Question, reply: &Reply) -> Packet {
        Packet::new(&Header::new(MessageKind::Reply, shard(), question.seq), reply)
    }

    /// The shard puts an answer out.
    fn emits(&mut self, question: &Question, reply: &Reply) {
        self.checker.emitted(shard(), NodeId::session(SESSION), &History::packet(question, reply));
    }

    /// The client takes an answer.
    fn takes(&mut self, question: &Question, reply: &Reply) {
        self.checker.accepted(SESSION, question.seq, &History::packet(question, reply), reply);
    }

    fn answers(&mut self, question: &Question, reply: &Reply) {
        self.emits(question, reply);
        self.takes(question, reply);
    }

    /// A file is made, from question to answer.
    fn makes(&mut self, what: &str, number: u32) -> InodeId {
        let question = self.ask(create(InodeId::ROOT, &name(what)));
        self.records(&question, born(what, number));
        self.answers(&question, &entry(file(number), 10, true));
        file(number)
    }

    /// A name is removed, from question to answer.
    fn removes(&mut self, what: &str) {
        let question = self.ask(unlink(InodeId::ROOT, &name(what)));
        self.records(&question, vec![]);
        self.answers(&question, &Reply::Done);
    }

    fn is_right(&self) {
        assert!(self.checker.violations.is_empty(), "{:#?}", self.checker.violations);
    }

    /// Something is wrong, and said so.
    fn is_wrong(&self, why: &str) {
        let first = self.checker.violations.first().expect("the checker notices");
        assert!(first.contains(why), "{first}");
    }
}

fn shard() -> NodeId {
    NodeId::shard(ShardId(0))
}

fn born(what: &str, number: u32) -> Vec<Effect> {
    let (parent, name, child) = (InodeId::ROOT, name(what), file(number));
    vec![Effect::PutName { parent, name, child, kind: Kind::File, log: NO_LOG }]
}

fn dropped(what: &str, log: Log) -> Effect {
    Effect::DropName { parent: InodeId::ROOT, name: name(what), child: file(1), kind: Kind::File, log }
}

fn attr(id: InodeId, ctime: i64, nlink: u32) -> AttrWire {
    AttrWire {
        id,
        kind: Kind::File,
        flags: 0,
        mode: 0o644,
        uid: 0,
        gid: 0,
        nlink,
        size: 0,
        mtime: 10,
        ctime,
        atime: 10,
        blocks_or_rdev: 0,
    }
}

fn entry(id: InodeId, ctime: i64, created: bool) -> Reply {
    Reply::Entry { attr: attr(id, ctime, 1), data: DataRef::default(), created }
}

fn attributes(id: InodeId, ctime: i64, nlink: u32) -> Reply {
    Reply::Attr { attr: attr(id, ctime, nlink), data: DataRef::default(), shared: false }
}

/// A whole listing of the root.
fn listing(names: &[(&str, u32)]) -> Reply {
    let entry = |&(what, number): &(&str, u32)| DirEntry {
        child: file(number),
        kind: Kind::File,
        cookie: key().cookie(what.as_bytes()),
        name: name(what),
    };
    let mut entries: Vec<_> = names.iter().map(entry).collect();
    entries.sort_by_key(|entry| entry.cookie);
    Reply::Dir { parent: InodeId::ROOT, entries, end: true, due: false, flags: flag::SEARCHABLE }
}

fn look(what: &str) -> Request {
    Request::Lookup { parent: InodeId::ROOT, name: name(what) }
}

fn failed(errno: Errno) -> Reply {
    Reply::Failed { errno }
}

#[test]
fn a_right_history_passes() {
    let mut h = History::new();
    let a = h.makes("a", 1);
    h.makes("b", 2);
    let (list, gone) = (h.ask(read(InodeId::ROOT)), h.ask(look("c")));
    h.answers(&list, &listing(&[("a", 1), ("b", 2)]));
    h.answers(&gone, &failed(Errno::ENOENT));
    h.removes("b");
    let (list, attrs) = (h.ask(read(InodeId::ROOT)), h.ask(Request::GetAttr { id: a }));
    h.answers(&list, &listing(&[("a", 1)]));
    h.answers(&attrs, &attributes(a, 10, 1));
    h.is_right();
}

#[test]
fn an_answer_may_be_that_of_any_moment_since_the_question() {
    let mut h = History::new();
    let early = h.ask(look("a"));
    h.makes("a", 1);
    h.answers(&early, &failed(Errno::ENOENT));
    h.is_right();
}

/// Two changes since the question, of which the model does not know the times: the answer may be that of the moment between them.
#[test]
fn an_answer_since_whose_question_something_changed_tells_only_what_was() {
    for (later, wrong) in [(30, false), (20, false), (19, true)] {
        let mut h = History::new();
        let a = h.makes("a", 1);
        let early = h.ask(Request::GetAttr { id: a });
        for _ in 0..2 {
            let chmod = h.ask(Request::SetAttr { id: a, set: mode(0o644) });
            h.records(&chmod, vec![]);
        }
        h.answers(&early, &attributes(a, 20, 1));
        let now = h.ask(Request::GetAttr { id: a });
        h.emits(&now, &attributes(a, later, 1));
        if wrong { h.is_wrong("ctime is 19") } else { h.is_right() }
    }
}

#[test]
fn a_read_after_an_update_returned_that_does_not_show_it() {
    let mut h = History::new();
    h.makes("a", 1);
    let late = h.ask(look("a"));
    h.emits(&late, &failed(Errno::ENOENT));
    h.is_wrong("failed with");
}

#[test]
fn an_answer_that_shows_what_nobody_did() {
    let mut h = History::new();
    let early = h.ask(look("a"));
    h.emits(&early, &entry(file(1), 10, false));
    h.is_wrong("instead of");
}

#[test]
fn an_answer_that_was_never_put_out_as_it_is() {
    let mut h = History::new();
    let a = h.makes("a", 1);
    let attrs = h.ask(Request::GetAttr { id: a });
    h.emits(&attrs, &attributes(a, 10, 1));
    h.takes(&attrs, &attributes(a, 10, 2));
    h.is_wrong("which was never right");
}

#[test]
fn a_listing_that_misses_a_name() {
    let mut h = History::new();
    h.makes("a", 1);
    h.makes("b", 2);
    let list = h.ask(read(InodeId::ROOT));
    h.emits(&list, &listing(&[("b", 2)]));
    h.is_wrong("misses \"a\"");
}

#[test]
fn a_listing_that_ends_too_early() {
    let mut h = History::new();
    h.makes("a", 1);
    let list = h.ask(read(InodeId::ROOT));
    h.emits(&list, &listing(&[]));
    h.is_wrong("misses \"a\"");
}

#[test]
fn a_listing_that_shows_a_name_twice_or_one_that_is_gone() {
    let mut h = History::new();
    h.makes("a", 1);
    let list = h.ask(read(InodeId::ROOT));
    h.emits(&list, &listing(&[("a", 1), ("a", 1)]));
    h.is_wrong("which is not there");
    let mut h = History::new();
    h.makes("a", 1);
    h.removes("a");
    let list = h.ask(read(InodeId::ROOT));
    h.emits(&list, &listing(&[("a", 1)]));
    h.is_wrong("which is not there");
}

/// Schedule C1: x returned, then y was made at another site: who sees y sees x.
#[test]
fn a_listing_that_shows_the_later_of_two_names_alone() {
    let mut h = History::new();
    let list = h.ask(read(InodeId::ROOT));
    h.makes("x", 1);
    h.makes("y", 2);
    for right in [listing(&[]), listing(&[("x", 1)]), listing(&[("x", 1), ("y", 2)])] {
        h.emits(&list, &right);
    }
    h.is_right();
    h.emits(&list, &listing(&[("y", 2)]));
    h.is_wrong("misses \"x\"");
}

#[test]
fn a_listing_out_of_order_or_with_a_foreign_cookie() {
    let mut h = History::new();
    h.makes("a", 1);
    let list = h.ask(read(InodeId::ROOT));
    let Reply::Dir { parent, mut entries, end, due, flags } = listing(&[("a", 1)]) else { unreachable!() };
    entries[0].cookie = Cookie(entries[0].cookie.0 + (1 << 20));
    h.emits(&list, &Reply::Dir { parent, entries, end, due, flags });
    h.is_wrong("instead of");
}

#[test]
fn wrong_links_and_times_that_go_back() {
    let mut h = History::new();
    let a = h.makes("a", 1);
    let attrs = h.ask(Request::GetAttr { id: a });
    h.emits(&attrs, &attributes(a, 10, 2));
    h.is_wrong("nlink");
    let mut h = History::new();
    let a = h.makes("a", 1);
    let chmod = h.ask(Request::SetAttr { id: a, set: mode(0o644) });
    h.records(&chmod, vec![]);
    h.emits(&chmod, &attributes(a, 10, 1));
    h.is_wrong("ctime is 10");
}

#[test]
fn a_time_that_somebody_set_and_somebody_else_does_not_see() {
    let mut h = History::new();
    let a = h.makes("a", 1);
    let to = SetAttr { valid: set::MTIME, mtime: 77, ..SetAttr::default() };
    let touch = h.ask(Request::SetAttr { id: a, set: to });
    h.records(&touch, vec![]);
    let attrs = h.ask(Request::GetAttr { id: a });
    h.emits(&attrs, &attributes(a, 20, 1));
    h.is_wrong("mtime is 10");
}

#[test]
fn a_request_that_is_executed_twice() {
    let mut h = History::new();
    let question = h.ask(create(InodeId::ROOT, &name("a")));
    h.records(&question, born("a", 1));
    h.records(&question, born("a", 2));
    h.is_wrong("is executed twice");
}

#[test]
fn a_copy_of_a_request_that_is_executed_after_its_answer() {
    let mut h = History::new();
    let question = h.ask(create(InodeId::ROOT, &name("a")));
    h.emits(&question, &failed(Errno::EEXIST));
    h.is_wrong("but changed nothing"); // nothing is in the way
    let mut h = History::new();
    let gone = h.ask(unlink(InodeId::ROOT, &name("a")));
    h.answers(&gone, &failed(Errno::ENOENT));
    h.makes("a", 1);
    h.records(&gone, vec![]);
    h.is_wrong("which nobody waits for");
}

#[test]
fn a_change_that_should_have_been_refused() {
    let mut h = History::new();
    h.makes("a", 1);
    let again = h.ask(unlink(InodeId::ROOT, &name("b")));
    h.records(&again, vec![]);
    h.is_wrong("succeeds instead of");
}

#[test]
fn permissions_that_outlive_the_chmod_that_took_them() {
    let closed = |h: &mut History| {
        let chmod = h.ask(Request::SetAttr { id: InodeId::ROOT, set: mode(0o700) });
        h.records(&chmod, vec![]);
    };
    let mut h = History::new();
    h.makes("a", 1);
    closed(&mut h);
    let look = h.ask_as(alice(), look("a"));
    h.emits(&look, &entry(file(1), 10, false));
    h.is_wrong("instead of");
    let mut h = History::new();
    let make = h.ask_as(alice(), create(InodeId::ROOT, &name("b")));
    closed(&mut h);
    h.records(&make, born("b", 2));
    h.is_wrong("succeeds instead of");
}

#[test]
fn an_inode_that_is_dropped_while_it_has_a_name() {
    let mut h = History::new();
    let a = h.makes("a", 1);
    h.own_record(0, vec![Effect::DropInode { id: a }]);
    h.is_wrong("which has a name");
}

#[test]
fn no_space_where_there_is_some_or_for_what_needs_none() {
    let mut h = History::new();
    let make = h.ask(create(InodeId::ROOT, &name("a")));
    h.emits(&make, &failed(Errno::ENOSPC));
    h.is_wrong("but changed nothing");
    let mut h = History::new();
    h.makes("a", 1);
    h.checker.full_begins();
    let (make, remove) = (h.ask(create(InodeId::ROOT, &name("b"))), h.ask(unlink(InodeId::ROOT, &name("a"))));
    h.emits(&make, &failed(Errno::ENOSPC));
    h.is_right();
    h.emits(&remove, &failed(Errno::ENOSPC));
    h.is_wrong("for want of space, of which it needs none");
}

/// Each of these answers may be right by itself: a run of nothing else shows nothing.
#[test]
fn too_many_excuses_are_wrong() {
    let mut h = History::new();
    let id = h.makes("a", 1);
    let lock = FileLock { owner: 1, pid: 1, flock: false, kind: LockKind::Write, start: 0, end: 9 };
    for _ in 0..100 {
        let refused = h.ask(Request::SetLock { id, lock, wait: false, again: false });
        h.answers(&refused, &failed(Errno::EAGAIN));
    }
    h.is_right();
    assert_eq!(h.checker.excuses.of(Excuse::Lock), 100);
    h.checker.judge_excuses(1_500);
    h.is_right();
    h.checker.judge_excuses(0);
    h.is_wrong("lock is the excuse");
}

/// A file was renamed from a name at shard 1 to "b" at shard 0, its home. Shard 1 has not heard of that when "b" is removed, which is recorded
/// and perhaps not exposed.
fn renamed_and_removed() -> (History, Question, TxnId) {
    let mut h = History { checker: Checker::new(key(), map(2), 2), asked: 0, lsn: 0 };
    let open = h.ask(Request::SetAttr { id: InodeId::ROOT, set: mode(0o777) });
    h.records(&open, vec![]);
    let a = h.makes("a", 1);
    let txn = TxnId { coordinator: ShardId(0), seq: TxnSeq(1) };
    let rename = h.ask(rename((InodeId::ROOT, &name("a")), (InodeId::ROOT, &name("b"))));
    let decided = Effect::Decided { txn, participants: [ShardId(1)].into_iter().collect() };
    let put = Effect::PutName { parent: InodeId::ROOT, name: name("b"), child: a, kind: Kind::File, log: LOG };
    h.records(&rename, vec![decided, put]);
    h.answers(&rename, &Reply::Done);
    let remove = h.ask(unlink(InodeId::ROOT, &name("b")));
    let log = Log { seq: LogSeq(2), dcount: -1, dnlink: 0 };
    h.records(&remove, vec![dropped("b", log)]);
    h.is_right();
    (h, remove, txn)
}

/// What a participant records late says nothing of the locks of others: owner seed 702739 and network seed 2772 once.
#[test]
fn a_late_record_of_a_participant_exposes_nothing_at_another_shard() {
    let (mut h, remove, txn) = renamed_and_removed();
    let list = h.ask(read(InodeId::ROOT));
    h.own_record(1, vec![dropped("a", LOG), Effect::Finished { txn }]);
    h.answers(&list, &listing(&[("b", 1)]));
    h.is_right();
    let later = h.ask(read(InodeId::ROOT));
    h.answers(&remove, &Reply::Done);
    h.answers(&later, &listing(&[]));
    h.is_right();
    let late = h.ask(read(InodeId::ROOT));
    h.answers(&late, &listing(&[("b", 1)]));
    h.is_wrong("which is not there");
}

/// Who promises at the same shard has the locks that were held until the change was exposed.
#[test]
fn a_promise_exposes_what_has_let_go_of_its_locks() {
    for part in [
        Part::Inode { id: file(1), change: Change::Unlink { parent: InodeId::ROOT }, sticky: None },
        Part::Source { parent: InodeId::ROOT, name: name("b"), to: InodeId::ROOT, to_name: name("d"), unless: None },
    ] {
        let (mut h, _, txn) = renamed_and_removed();
        h.own_record(0, vec![Effect::Prepared { txn, parts: vec![part], found: vec![] }]);
        let list = h.ask(read(InodeId::ROOT));
        h.answers(&list, &listing(&[("b", 1)]));
        h.is_wrong("which is not there");
    }
}

/// What a transaction has decided is exposed: it does not wait for the owner.
#[test]
fn what_is_decided_is_not_gated() {
    let (mut h, ..) = renamed_and_removed();
    let list = h.ask(read(InodeId::ROOT));
    h.answers(&list, &listing(&[("a", 1)]));
    h.is_wrong("which is not there");
}
