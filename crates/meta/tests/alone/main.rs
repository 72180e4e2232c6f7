//! A shard driven alone: its bounds, and messages in an order that is hard to come by.

mod forwarded;
mod hostile;
mod living;
mod loads;
mod objects;
mod sessions;
mod writes;

use onpath_kernel::{Input, Need, Now, Output, Role};
use onpath_meta::{Shard, ShardBounds, ShardConfig, SyncPolicy};
use onpath_store::Recoverable;
use onpath_wire::acl::{Acl, AclEntry, Who};
use onpath_wire::caller::{Caller, Caps, cap};
use onpath_wire::codec::Blob;
use onpath_wire::data::{Merge, Recorded, UndoneAppend};
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::record::{Counter, Effect, Member, MemberKind, Record};
use onpath_wire::errno::Errno;
use onpath_wire::header::{Header, MessageKind, Of, OfRequest};
use onpath_wire::ids::{
    Birth, DataId, Generation, InodeId, NodeId, RecordSeq, RequestSeq, SessionId, SessionNumber, ShardId, Slot, Stamp,
    Term,
};
use onpath_wire::inode::Kind;
use onpath_wire::limits::{OPERATIONS_MAX, SESSION_WINDOW};
use onpath_wire::map::ClusterMap;
use onpath_wire::name::Name;
use onpath_wire::packet::Packet;
use onpath_wire::peer::{Batch, GrantResult, Peer};
use onpath_wire::reply::Reply;
use onpath_wire::request::{NewNode, Request, RequestBody, SetAttr, open, rename, set};
use onpath_wire::secrets::Secrets;
use onpath_wire::tracking::{Form, Switches, Writes};
use onpath_wire::xattr::XattrName;
use onpath_wire::{Stored, Wire};

const TERM: Term = Term(5);

/// The session that is the first one with an id.
fn of_first_lap(session: SessionId) -> SessionNumber {
    SessionNumber::of(session, RequestSeq(1))
}

/// The first of two shards; the second one says nothing.
struct Alone {
    shard: Shard,
    /// In which it is asked.
    term: Term,
    now: Now,
    replies: Vec<(RequestSeq, Reply)>,
    calls: Vec<(RequestSeq, Peer)>,
    records: Vec<Record>,
    journal: Vec<(RecordSeq, Vec<u8>)>,
    /// Replies and answers that wait for the disk.
    waiting: u64,
    last: Option<Peer>,
    /// The record for whose stable storage it waits.
    after: RecordSeq,
}

fn config(term: Term) -> ShardConfig {
    ShardConfig {
        shard: ShardId(0),
        map: ClusterMap::even(2, Secrets::of_seed(7).placement),
        term,
        one_journal: true,
        ends_path_nodes: false,
        inner: Secrets::of_seed(7).inner,
        cluster: 1,
        track_unsynced: false,
        outlived: false,
        form: Form::Owner,
        switches: Switches::ONE,
        sync: SyncPolicy::Auto,
        sticky_marks: true,
        writes: Writes::Chain,
        shows_files: false,
        bounds: ShardBounds::default(),
    }
}

impl Alone {
    /// It ends without a word, and starts from its journal.
    fn restart(&mut self) {
        self.shard = Shard::new(config(Term(TERM.0 + 1)));
        for (seq, record) in &self.journal {
            self.shard.replay(*seq, record).expect("own records apply");
        }
        let first = Birth(self.shard.reserved(Counter::Births) as u32).next();
        self.shard.start(self.now, first);
        self.outputs();
    }

    fn new() -> Alone {
        Alone::of(config(TERM))
    }

    fn of(config: ShardConfig) -> Alone {
        let term = config.term;
        let mut shard = Shard::new(config);
        let now = Now { mono_us: 1, wall_ns: 1_000_000 };
        shard.start(now, Birth(1));
        let (replies, calls, records, journal) = (vec![], vec![], vec![], vec![]);
        let mut alone =
            Alone { shard, term, now, replies, calls, records, journal, waiting: 0, last: None, after: RecordSeq(0) };
        alone.outputs();
        alone
    }

    fn outputs(&mut self) {
        while let Some(output) = self.shard.poll_output() {
            let packet = match output {
                Output::Send { packet, need, after, .. } => {
                    if packet.header().is_ok_and(|header| header.kind() == MessageKind::PeerAnswer) {
                        self.after = after;
                    }
                    let waits =
                        need == Need::IfOutlived && packet.header().expect("a header").kind() == MessageKind::Reply;
                    self.waiting += u64::from(waits);
                    packet
                }
                Output::Append { seq, bytes } => {
                    self.journal.push((seq, bytes.clone()));
                    self.records.push(Record::from_stored(&bytes).expect("a record"));
                    continue;
                }
                Output::Flush => {
                    let (last, _) = self.journal.last().expect("a record is waited for");
                    self.shard.handle(self.now, Input::Durable(*last));
                    continue;
                }
                Output::Own(()) => continue,
            };
            let header = packet.header().expect("a message of the shard");
            match header.kind() {
                MessageKind::Reply => self.replies.push((header.seq, packet.body().expect("a reply"))),
                MessageKind::PeerAnswer => self.last = packet.body().ok(),
                MessageKind::Peer => self.calls.push((header.seq, packet.body().expect("a message to a shard"))),
                _ => {}
            }
        }
    }

    fn hear(&mut self, kind: MessageKind, from: NodeId, seq: RequestSeq, body: &impl Wire) {
        let mut header = Header::new(kind, from, seq);
        header.term = self.term;
        header.stamp = Stamp(self.now.wall_ns);
        if kind == MessageKind::Request {
            let oldest_behind = (seq.0 - 1) as u32; // nothing is answered yet
            header.of = Of::Request(OfRequest { until: u32::MAX, oldest_behind, ..OfRequest::default() });
        }
        self.shard.handle(self.now, Input::Packet(Packet::new(&header, body)));
        self.outputs();
    }

    fn ask(&mut self, seq: u64, request: Request) {
        self.ask_as(SessionId(1), seq, request);
    }

    fn ask_as(&mut self, session: SessionId, seq: u64, request: Request) {
        let caller = Caller { caps: Caps::exactly(cap::ALL), ..Caller::default() };
        let body = RequestBody { caller, request };
        self.hear(MessageKind::Request, NodeId::session(session), RequestSeq(seq), &body);
    }

    /// A new file in the root, at home here.
    fn create(&mut self, seq: u64) -> DataId {
        let name = name_here(seq);
        let node = NewNode { kind: Kind::File, mode: 0o666, umask: 0, rdev: 0, target: Blob::default(), open: 0 };
        self.ask(seq, Request::Create { parent: InodeId::ROOT, name, node });
        let Some((_, Reply::Entry { attr, data, .. })) = self.replies.pop() else { panic!("{:?}", self.replies) };
        DataId { inode: attr.id, generation: data.generation }
    }

    /// The other shard says that a session is dead.
    fn bury(&mut self, seq: u64, session: SessionNumber) {
        self.hear(MessageKind::Peer, NodeId::shard(ShardId(1)), RequestSeq(seq), &Peer::SessionDead { session });
    }

    fn inode(&self, id: InodeId) -> Inode {
        self.shard.survey().inodes.into_iter().find(|inode| inode.id == id).expect("the inode is at home here")
    }

    fn counter(&self, name: &str) -> u64 {
        self.shard.status().into_iter().find(|(counter, _)| *counter == name).expect("a counter").1
    }
}

/// A name in the root that is here.
fn name_here(number: u64) -> Name {
    let map = ClusterMap::even(2, Secrets::of_seed(7).placement);
    let names = (0u32..).map(|i| Name::new(format!("{number}-{i}").as_bytes()).expect("a name"));
    let here = |name: &Name| map.shard(map.site(InodeId::ROOT, name.as_bytes())) == ShardId(0);
    names.into_iter().find(here).expect("every second name or so")
}

/// A removal of a name at the first shard, in a directory of the second one: it waits for its parts.
fn unlink(number: u64) -> Request {
    let parent = InodeId::new(Slot(u16::MAX), Birth(3), 1, Kind::Directory);
    let map = ClusterMap::even(2, Secrets::of_seed(7).placement);
    let names = (0u64..).map(|i| Name::new(format!("{number}-{i}").as_bytes()).expect("a name"));
    let here = |name: &Name| map.shard(map.site(parent, name.as_bytes())) == ShardId(0);
    Request::Unlink { parent, name: names.into_iter().find(here).expect("every second name or so") }
}

/// What is made here of a name that another shard has would never be found.
#[test]
fn names_of_another_shard_are_refused() {
    let mut alone = Alone::new();
    let (map, parent) = (config(TERM).map, InodeId::ROOT);
    let id = alone.create(1).inode;
    let names = (0u32..).map(|i| Name::new(format!("{i}").as_bytes()).expect("a name"));
    let at = move |shard: u16| {
        let map = map.clone();
        let there = move |name: &Name| map.shard(map.site(parent, name.as_bytes())) == ShardId(shard);
        names.clone().find(there).expect("every second name or so")
    };
    let (here, there) = (at(0), at(1));
    let node = NewNode { kind: Kind::File, mode: 0o666, umask: 0, rdev: 0, target: Blob::default(), open: 0 };
    let asked = |name: Name| {
        let moves =
            |flags| Request::Rename { from_parent: parent, from: here.clone(), parent, name: name.clone(), flags };
        [
            Request::Lookup { parent, name: name.clone() },
            Request::Create { parent, name: name.clone(), node: node.clone() },
            Request::Link { id, parent, name: name.clone() },
            Request::Unlink { parent, name: name.clone() },
            Request::Rmdir { parent, name: name.clone() },
            moves(0),
            moves(rename::WHITEOUT),
        ]
    };
    let records = alone.records.len();
    for (seq, request) in (2..).zip(asked(there)) {
        alone.ask(seq, request);
        assert_eq!(alone.replies.pop(), Some((RequestSeq(seq), Reply::Failed { errno: Errno::EINVAL })));
    }
    assert_eq!((alone.counter("messages_malformed"), alone.records.len()), (7, records));
    alone.ask(20, Request::Lookup { parent, name: here });
    assert_eq!(alone.replies.pop(), Some((RequestSeq(20), Reply::Missing)));
}

#[test]
fn too_many_operations_are_refused_and_not_executed_later() {
    let mut alone = Alone::new();
    let full = OPERATIONS_MAX as u64;
    // A session may have so many under way; others come.
    let of = |n: u64| (SessionId(2 + (n / SESSION_WINDOW) as u32), 1 + n % SESSION_WINDOW);
    (0..full).map(|n| (n, of(n))).for_each(|(n, (session, seq))| alone.ask_as(session, seq, unlink(n)));
    assert_eq!(alone.counter("requests_running"), full);
    assert!(alone.replies.is_empty(), "all of them wait");
    alone.ask(1, unlink(full));
    assert_eq!(alone.replies.pop(), Some((RequestSeq(1), Reply::Busy)));
    alone.ask_as(SessionId(2), 1, unlink(0));
    assert!(alone.replies.is_empty(), "a copy of one in progress is not refused: the first will answer");
    alone.ask(2, Request::StatFs);
    assert!(matches!(alone.replies.pop(), Some((_, Reply::StatFs { .. }))), "what never waits is always served");
    // The parts come: the directory is gone, so everything ends.
    let (seq, dir) = alone
        .calls
        .iter()
        .find_map(|(seq, peer)| match peer {
            Peer::GrantAsk { dir, .. } => Some((*seq, *dir)),
            _ => None,
        })
        .expect("it asks for the parts");
    let gone = Peer::GrantAnswer { dir, nonce: seq.0, result: GrantResult::Gone };
    alone.hear(MessageKind::PeerAnswer, NodeId::shard(ShardId(1)), seq, &gone);
    assert_eq!(alone.replies.len() as u64, full);
    assert_eq!((alone.counter("requests_running"), alone.counter("requests_refused_busy")), (0, 1));
    alone.replies.clear();
    // A late copy of the refused request is not executed: its client has asked again under another number.
    alone.ask(1, unlink(full));
    assert_eq!(alone.replies.pop(), Some((RequestSeq(1), Reply::Busy)));
    alone.ask(3, unlink(full));
    assert!(matches!(alone.replies.pop(), Some((_, Reply::Failed { .. }))));
}

/// Written before its removal was known, told after it: the home had seen no bytes when the file went, so it must remember
/// now that they are to be dropped, or a crash leaves them to nobody.
#[test]
fn bytes_of_a_file_that_is_gone_are_dropped_even_after_a_crash() {
    let mut alone = Alone::new();
    let data = DataId { inode: InodeId::new(Slot(3), Birth(4), 9, Kind::File), generation: Generation(0) };
    let merge = Merge::Written {
        data,
        cut: 0,
        end: 4096,
        blocks: 1,
        version: 1,
        session: SessionId(1),
        request: RequestSeq(1),
        oldest: RequestSeq(1),
        kill_suidgid: false,
        append: None,
        again: None,
        beside: false,
    };
    let drops = |alone: &Alone| {
        let effects = alone.records.iter().flat_map(|record| &record.effects);
        effects.filter(|e| matches!(e, Effect::DataPending { data: d, drop: true, .. } if *d == data)).count()
    };
    alone.hear(MessageKind::Data, NodeId::data(0), RequestSeq(1), &merge);
    assert!(matches!(alone.replies.pop(), Some((_, Reply::Failed { .. }))));
    assert_eq!((drops(&alone), alone.counter("data_pending")), (1, 1));
    alone.hear(MessageKind::Data, NodeId::data(0), RequestSeq(2), &merge);
    assert_eq!((drops(&alone), alone.counter("data_pending")), (1, 1), "once is enough");
}

/// Sessions must not know a cut that a power loss makes the home forget.
#[test]
fn a_shorter_file_is_told_when_that_is_durable() {
    let mut alone = Alone::new();
    let id = alone.create(1).inode;
    let truncate = |size| SetAttr { valid: set::SIZE, size, ..SetAttr::default() };
    alone.ask(2, Request::SetAttr { id, set: truncate(100) });
    alone.ask(3, Request::GetAttr { id });
    assert_eq!(alone.waiting, 0, "longer files wait for nothing");
    alone.ask(4, Request::SetAttr { id, set: truncate(50) });
    assert_eq!(alone.waiting, 1);
    alone.ask(5, Request::GetAttr { id });
    alone.ask(6, Request::Reserve { id });
    assert_eq!(alone.waiting, 3, "who asks afterwards hears of it too");
    alone.ask(7, Request::SetAttr { id, set: truncate(0) });
    assert_eq!((alone.waiting, alone.replies.len()), (4, 6), "the trim of the former cut is not acknowledged");
}

/// A generation that is newer than the home's own can only be one that it has forgotten.
#[test]
fn a_forgotten_generation_is_void() {
    let mut alone = Alone::new();
    let data = alone.create(1);
    let forgotten = DataId { generation: Generation(1 << 32 | 7), ..data };
    for (seq, data, answer) in [(2, forgotten, Peer::Void), (3, data, Peer::Done), (2, forgotten, Peer::Void)] {
        let merge = Merge::Written {
            data,
            cut: 0,
            end: 10,
            blocks: 1,
            version: seq,
            session: SessionId(1),
            request: RequestSeq(seq),
            oldest: RequestSeq(1),
            kill_suidgid: false,
            append: None,
            again: None,
            beside: false,
        };
        alone.hear(MessageKind::Data, NodeId::data(0), RequestSeq(seq), &merge);
        assert_eq!(alone.last.take(), Some(answer));
        let reply = alone.replies.pop().expect("a reply").1;
        assert_eq!(matches!(reply, Reply::Stale { .. }), data == forgotten, "{reply:?}");
    }
}

/// The home's count of blocks follows what a data node puts back after a power loss, and never goes back in time.
#[test]
fn blocks_that_a_power_loss_took_are_counted_again() {
    let mut alone = Alone::new();
    let data = alone.create(1);
    let blocks = |alone: &mut Alone, seq| {
        alone.ask(seq, Request::GetAttr { id: data.inode });
        match alone.replies.pop() {
            Some((_, Reply::Attr { attr, .. })) => attr.blocks_or_rdev,
            other => panic!("{other:?}"),
        }
    };
    let written = Merge::Written {
        data,
        cut: 0,
        end: 3 * 4096,
        blocks: 3,
        version: 10,
        session: SessionId(1),
        request: RequestSeq(2),
        oldest: RequestSeq(2),
        kill_suidgid: false,
        append: None,
        again: None,
        beside: false,
    };
    alone.hear(MessageKind::Data, NodeId::data(0), RequestSeq(1), &written);
    let before = blocks(&mut alone, 3);
    for (call, blocks_now, version) in [(2, 1, 20), (3, 2, 15)] {
        let counted = Merge::Counted { data, blocks: blocks_now, version, undone: vec![] };
        alone.hear(MessageKind::Data, NodeId::data(0), RequestSeq(call), &counted);
        assert_eq!(3 * blocks(&mut alone, 10 + call), before, "one of three blocks is left");
    }
}

/// A data node that has undone writes in a power loss does them again when they are repeated; the home knows them already.
#[test]
fn what_is_repeated_changes_no_more_than_the_count_of_blocks() {
    let mut alone = Alone::new();
    let data = alone.create(1);
    let mut call = 0;
    let mut hear = |alone: &mut Alone, request, end, blocks| {
        call += 1;
        let written = Merge::Written {
            data,
            cut: 0,
            end,
            blocks,
            version: call,
            session: SessionId(1),
            request: RequestSeq(request),
            oldest: RequestSeq(request),
            kill_suidgid: false,
            append: None,
            again: None,
            beside: false,
        };
        alone.hear(MessageKind::Data, NodeId::data(0), RequestSeq(call), &written);
        alone.inode(data.inode)
    };
    let written = hear(&mut alone, 2, 3 * 4096, 3);
    assert_eq!((written.size, written.blocks), (3 * 4096, 3));
    let again = hear(&mut alone, 2, 3 * 4096, 2);
    assert_eq!((again.size, again.blocks, again.mtime), (written.size, 2, written.mtime));
    let later = hear(&mut alone, 5, 4096, 3);
    assert_eq!((later.size, later.blocks), (written.size, 3));
    let over = hear(&mut alone, 2, 3 * 4096, 4);
    assert_eq!((over.size, over.blocks, over.mtime), (written.size, 4, later.mtime), "nobody waits for it");
    let given_up = hear(&mut alone, 3, 5 * 4096, 5);
    assert_eq!((given_up.size, given_up.blocks), (5 * 4096, 5), "its session gave it up before it was done");
    assert!(given_up.mtime > later.mtime);
}

/// After a restart a data node tells of the last writes again, when nobody knows their sessions any more.
#[test]
fn a_write_of_a_forgotten_session_moves_times_only_if_it_was_not_heard_of() {
    let mut alone = Alone::new();
    let data = alone.create(1);
    let (mut call, version) = (0, 40);
    let mut hear = |alone: &mut Alone, end, version, again| {
        call += 1;
        alone.now.wall_ns += 1_000;
        let written = Merge::Written {
            data,
            cut: 0,
            end,
            blocks: 1,
            version,
            session: SessionId(100 + call),
            request: RequestSeq(2),
            oldest: RequestSeq(2),
            kill_suidgid: true,
            append: None,
            again,
            beside: false,
        };
        alone.hear(MessageKind::Data, NodeId::data(0), RequestSeq(u64::from(call)), &written);
        let answered = matches!(alone.replies.pop(), Some((RequestSeq(2), Reply::Written { .. })));
        (alone.inode(data.inode), answered)
    };
    let recorded = |seq, stamp| Some(Recorded { seq: RecordSeq(seq), stamp });
    let (first, _) = hear(&mut alone, 4096, version, None);
    let set_id = SetAttr { valid: set::MODE, mode: 0o4755, ..SetAttr::default() };
    alone.ask_as(SessionId(1), 3, Request::SetAttr { id: data.inode, set: set_id });
    let heard_of = first.mtime_stamp;
    alone.replies.clear();
    let (same, answered) = hear(&mut alone, 4096, version + 20, recorded(version, heard_of));
    assert!(!answered, "who lives asks again");
    assert_eq!((same.mtime, same.mtime_stamp, same.mode & 0o4000), (first.mtime, heard_of, 0o4000));
    assert_eq!(same.blocks_version, version + 20, "the blocks that there are now");
    let seen = alone.inode(data.inode);
    alone.restart();
    assert_eq!(alone.inode(data.inode), seen);
    // Its record is younger than what was heard, or its time, or it ends where nothing that was heard of did.
    for (end, seq, stamp) in
        [(4096, version + 21, heard_of), (4096, version, Stamp(heard_of.0 + 1)), (9000, version, heard_of)]
    {
        let before = alone.inode(data.inode);
        alone.ask_as(SessionId(1), 4 + end + seq, Request::SetAttr { id: data.inode, set: set_id });
        let stamp = Stamp(stamp.0 + before.mtime_stamp.0 - heard_of.0);
        let (now, answered) = hear(&mut alone, end, version + 20, recorded(seq, stamp));
        assert!(answered && now.mtime > before.mtime && now.size == end && now.mode & 0o4000 == 0, "{now:?}");
    }
}

/// A size that moved over bytes which a power loss took moves back, once; what is repeated then is done like anything new.
#[test]
fn an_append_that_a_power_loss_took_is_taken_back() {
    let mut alone = Alone::new();
    let data = alone.create(1);
    let mut call = 0;
    let mut size_after = |alone: &mut Alone, merge: Merge| {
        call += 1;
        alone.hear(MessageKind::Data, NodeId::data(0), RequestSeq(call), &merge);
        alone.inode(data.inode).size
    };
    let append = |cut, request, from, end, version| Merge::Written {
        data,
        cut,
        end,
        blocks: 1,
        version,
        session: SessionId(1),
        request: RequestSeq(request),
        oldest: RequestSeq(2),
        kill_suidgid: false,
        append: Some(from),
        again: None,
        beside: false,
    };
    let undone =
        |request, from, end| UndoneAppend { at: 20, from, end, session: SessionId(1), request: RequestSeq(request) };
    let counted = |version| {
        let undone = vec![undone(5, 400, 500), undone(4, 300, 400), undone(3, 100, 300)];
        Merge::Counted { data, blocks: 1, version, undone }
    };
    size_after(&mut alone, append(0, 2, 0, 100, 10));
    size_after(&mut alone, append(0, 3, 100, 300, 11));
    assert_eq!(size_after(&mut alone, append(0, 4, 300, 400, 12)), 400);
    assert_eq!(size_after(&mut alone, counted(21)), 100, "of the last one it had not heard");
    // It remembers that, and what it answered before it heard that counts no longer.
    alone.restart();
    assert_eq!(
        size_after(&mut alone, append(0, 4, 300, 400, 22)),
        100,
        "reserved where the file ended before the power loss"
    );
    assert!(matches!(alone.replies.last(), Some((RequestSeq(4), Reply::Stale { data })) if data.cut == 1));
    assert_eq!(size_after(&mut alone, append(1, 5, 100, 300, 23)), 300);
    assert_eq!(size_after(&mut alone, append(1, 6, 300, 400, 24)), 400);
    assert_eq!(size_after(&mut alone, counted(25)), 400, "told again: what ends there now is new");
}

/// Attributes and ACLs come back from the journal, and from images with and without what followed them.
#[test]
fn attributes_outlive_a_restart() {
    let mut alone = Alone::new();
    let id = alone.create(1).inode;
    let name = |text: &str| XattrName::new(text.as_bytes()).expect("a name");
    let acl = |perm| {
        let whos = [Who::Owner, Who::User(7), Who::OwningGroup, Who::Mask, Who::Other];
        Acl::new(whos.map(|who| AclEntry { who, perm }).into()).expect("an ACL").to_xattr()
    };
    let set = |id, text: &str, value: &[u8]| Request::SetXattr {
        id,
        name: name(text),
        value: Blob(value.to_vec()),
        flags: 0,
    };
    let requests = [
        set(id, "user.a", b"first"),
        set(id, "user.b", &[0; 60_000]),
        set(InodeId::ROOT, "system.posix_acl_default", &acl(6)),
        set(id, "user.a", b"second"),
        set(id, "system.posix_acl_access", &acl(5)),
        Request::RemoveXattr { id, name: name("user.b"), open_for_write: false },
    ];
    let mut images = None;
    for (seq, request) in (2..).zip(requests) {
        if seq == 5 {
            images = Some((0..alone.shard.ranges()).map(|range| alone.shard.image(range)).collect::<Vec<_>>());
        }
        alone.ask(seq, request);
        // A directory's change waits for the parts that the other shard might hold.
        if let Some((seq, Peer::Recall { dir, job, .. })) = alone.calls.pop() {
            let answer = Peer::Recalled { dir, job, batch: Batch::default(), more: false };
            alone.hear(MessageKind::PeerAnswer, NodeId::shard(ShardId(1)), seq, &answer);
        }
        assert!(matches!(alone.replies.pop(), Some((_, Reply::Attr { .. }))), "request {seq}");
    }
    let wanted = alone.shard.survey();
    assert_eq!(wanted.xattrs.len(), 2);
    assert_eq!(wanted.xattrs[&id].iter().map(|(_, value)| value.len()).collect::<Vec<_>>(), [44, 6]);
    assert_eq!(alone.inode(id).mode, 0o555);
    let mut other = Shard::new(config(Term(TERM.0 + 1)));
    for (range, image) in (0..).zip(images.expect("taken in between")) {
        other.loaded(range, image.upto);
        for (key, value) in &image.rest {
            other.load(range, key, value).expect("own objects load");
        }
        for (key, value) in &image.changes.put {
            other.load_object(key, value).expect("own objects load");
        }
    }
    for (seq, record) in &alone.journal {
        other.replay(*seq, record).expect("own records apply");
    }
    assert_eq!(other.survey().xattrs, wanted.xattrs, "an image and what followed it");
    alone.restart();
    assert_eq!(alone.shard.survey().xattrs, wanted.xattrs, "the journal");
    alone.ask(20, Request::GetXattr { id, name: name("user.a") });
    assert!(matches!(alone.replies.pop(), Some((_, Reply::NewTerm { .. }))));
}
