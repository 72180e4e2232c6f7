//! The hand-driven world around one session.

use bytes::Bytes;
use onpath_kernel::{Input, Now, Output, Role};
use onpath_session::fs::{Caller, FsOp, FsReply, FsRequest, FsResult, Handle, OpenMode};
use onpath_session::{AccessTimes, KeptWays, ReadCaller, Session, SessionConfig, SessionIn, SessionOut};
use onpath_wire::attr::AttrWire;
use onpath_wire::caller::{Caps, cap};
use onpath_wire::data::{DataReply, DataRequest};
use onpath_wire::disk::inode::Inode;
use onpath_wire::errno::Errno;
use onpath_wire::header::{Header, MessageKind, Of, OfReply};
use onpath_wire::ids::*;
use onpath_wire::inode::Kind;
use onpath_wire::map::ClusterMap;
use onpath_wire::name::Name;
use onpath_wire::packet::Packet;
use onpath_wire::reply::{DataRef, Reply};
use onpath_wire::request::{Request, RequestBody, open};
use onpath_wire::secrets::Secrets;
use std::collections::VecDeque;

/// Others have had this id before.
pub(crate) const ME: SessionNumber = SessionNumber(3 * ((1 << 24) - 1) + 42);
pub(crate) const SHARDS: u16 = 4;
pub(crate) const LEASE_MS: u64 = 10_000;
pub(crate) const USER: Caller = Caller { uid: 1000, gid: 100, pid: 77, known_group: None, free_links: false };

/// A message that the session has sent.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) to: NodeId,
    pub(crate) header: Header,
    pub(crate) packet: Packet,
}

impl Sent {
    pub(crate) fn body(&self) -> RequestBody {
        assert_eq!(self.header.kind(), MessageKind::Request);
        self.packet.body().unwrap()
    }

    pub(crate) fn request(&self) -> Request {
        self.body().request
    }

    pub(crate) fn data(&self) -> DataRequest {
        assert_eq!(self.header.kind(), MessageKind::Data);
        self.packet.body().unwrap()
    }
}

pub(crate) struct Rig {
    pub(crate) session: Session,
    pub(crate) now: Now,
    pub(crate) map: ClusterMap,
    /// The shards' present terms.
    pub(crate) terms: Vec<Term>,
    sent: VecDeque<Sent>,
    replies: VecDeque<(u64, FsResult)>,
    own: VecDeque<SessionOut>,
    unique: u64,
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

/// A file whose home is this shard.
pub(crate) fn inode_at(shard: u16, count: u32) -> InodeId {
    born_at(shard, count, Kind::File)
}

/// A directory whose home is this shard.
pub(crate) fn directory_at(shard: u16, count: u32) -> InodeId {
    born_at(shard, count, Kind::Directory)
}

fn born_at(shard: u16, count: u32, kind: Kind) -> InodeId {
    let slot = (usize::from(shard) * 65_536 / usize::from(SHARDS) + 5) as u16;
    InodeId::new(Slot(slot), Birth(3), count as u16, kind)
}

pub(crate) fn attr(id: InodeId, kind: Kind) -> AttrWire {
    AttrWire::of(&Inode::new(id, kind))
}

pub(crate) fn data_ref(generation: u64, cut: u32) -> DataRef {
    DataRef { generation: Generation(generation), cut, btime: 0 }
}

pub(crate) fn entry(id: InodeId) -> Reply {
    Reply::Entry { attr: attr(id, Kind::File), data: data_ref(1, 0), created: true }
}

pub(crate) fn attr_reply(id: InodeId, size: u64, data: DataRef) -> Reply {
    let kind = if id.is_directory() { Kind::Directory } else { Kind::File };
    Reply::Attr { attr: AttrWire { size, ..attr(id, kind) }, data, shared: false }
}

impl Rig {
    /// A session that has not said anything yet.
    pub(crate) fn cold(soft: bool) -> Rig {
        Rig::of(SessionConfig { soft, ..Rig::config() })
    }

    fn config() -> SessionConfig {
        SessionConfig {
            session: ME,
            cluster: 9,
            map: ClusterMap::even(SHARDS, Secrets::of_seed(9).placement),
            soft: false,
            access_times: AccessTimes::default(),
            in_halves: false,
            caches: false,
            identity: None,
            kept_ways: KeptWays::default(),
        }
    }

    fn of(config: SessionConfig) -> Rig {
        let map = config.map.clone();
        Rig {
            session: Session::new(config),
            now: Now { mono_us: 1_000, wall_ns: 1_000_000_000 },
            map,
            terms: (0..SHARDS).map(|shard| Term(10 + u32::from(shard))).collect(),
            sent: VecDeque::new(),
            replies: VecDeque::new(),
            own: VecDeque::new(),
            unique: 0,
        }
    }

    /// A session that has joined and knows every shard's term.
    pub(crate) fn new() -> Rig {
        Rig::joined(false)
    }

    pub(crate) fn joined(soft: bool) -> Rig {
        Rig::cold(soft).join()
    }

    /// One in a cluster with these data nodes.
    pub(crate) fn with_data_nodes(data: &[u16]) -> Rig {
        let config = Rig::config();
        Rig::of(SessionConfig { map: config.map.with_data_nodes(data), ..config }).join()
    }

    /// One in a cluster with these path nodes.
    pub(crate) fn with_path_nodes(paths: &[u16]) -> Rig {
        let config = Rig::config();
        Rig::of(SessionConfig { map: config.map.with_path_nodes(paths), ..config }).join()
    }

    /// One whose mount makes files in two halves.
    pub(crate) fn in_halves() -> Rig {
        Rig::of(SessionConfig { in_halves: true, ..Rig::config() }).join()
    }

    /// One that is alone, and so far for as long as it may believe that.
    pub(crate) fn alone() -> Rig {
        let mut rig = Rig::of(SessionConfig { caches: true, ..Rig::config() }).join();
        let ask = rig.find(&Request::RenewAlone);
        rig.reply(&ask, Reply::Renewed { alone: AloneId(3) });
        assert!(matches!(rig.own(), SessionOut::Alone { alone: AloneId(3), .. }));
        rig
    }

    fn join(mut self) -> Rig {
        let rig = &mut self;
        assert_eq!(rig.session.next_deadline(), Some(0), "a session wants to begin");
        rig.input(Input::Tick);
        let attach = rig.sent();
        rig.new_term(&attach);
        let attach = rig.sent();
        rig.reply(&attach, Reply::Attached { session: ME.id(), lease_ms: LEASE_MS });
        assert!(matches!(rig.own(), SessionOut::Attached));
        let renewal = rig.try_sent();
        for shard in 1..SHARDS {
            let unique = rig.fs(FsOp::Access { id: inode_at(shard, 1), mask: 4 });
            let access = rig.sent();
            rig.new_term(&access);
            let access = rig.sent();
            rig.reply(&access, Reply::Done);
            assert!(matches!(rig.result(unique), Ok(FsReply::Done)));
        }
        rig.sent.extend(renewal);
        self
    }

    pub(crate) fn input(&mut self, input: Input<SessionIn>) {
        self.now.mono_us += 1;
        self.now.wall_ns += 1_000;
        self.session.handle(self.now, input);
        let mut without_fsetid = Vec::new();
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Send { to, packet, .. } => {
                    let header = packet.header().unwrap();
                    self.sent.push_back(Sent { to, header, packet });
                }
                Output::Own(SessionOut::Reply { unique, result }) => self.replies.push_back((unique, result)),
                // Whether writes keep setuid and setgid: the user has no capabilities.
                Output::Own(SessionOut::ReadCaller { ticket, question }) if question.caps == cap::FSETID => {
                    without_fsetid.push(ticket);
                }
                Output::Own(own) => self.own.push_back(own),
                Output::Append { .. } | Output::Flush => panic!("a session has no journal"),
            }
        }
        for ticket in without_fsetid {
            let read = ReadCaller { groups: None, caps: Caps::exactly(0) };
            self.input(Input::Own(SessionIn::Caller { ticket, read }));
        }
    }

    pub(crate) fn fs(&mut self, op: FsOp) -> u64 {
        self.fs_as(USER, op)
    }

    pub(crate) fn fs_as(&mut self, caller: Caller, op: FsOp) -> u64 {
        self.unique += 1;
        let unique = self.unique;
        self.input(Input::Own(SessionIn::Fs(FsRequest { unique, caller, op, by_ways: None })));
        unique
    }

    pub(crate) fn interrupt(&mut self, unique: u64) {
        self.fs(FsOp::Interrupt { unique });
    }

    /// The next message of the session.
    #[track_caller]
    pub(crate) fn sent(&mut self) -> Sent {
        self.sent.pop_front().expect("the session should have sent something")
    }

    /// The next message with this request; what was sent before it is lost.
    #[track_caller]
    pub(crate) fn find(&mut self, wanted: &Request) -> Sent {
        std::iter::from_fn(|| self.sent.pop_front())
            .find(|sent| sent.header.kind() == MessageKind::Request && sent.request() == *wanted)
            .expect("the request should have been sent")
    }

    pub(crate) fn try_sent(&mut self) -> Option<Sent> {
        self.sent.pop_front()
    }

    /// Messages that nobody has looked at are lost.
    pub(crate) fn lose_sent(&mut self) {
        self.sent.clear();
    }

    #[track_caller]
    pub(crate) fn silent(&self) {
        assert!(self.sent.is_empty(), "nothing should have been sent: {:?}", self.sent);
        assert!(self.replies.is_empty(), "nothing should have been answered: {:?}", self.replies);
    }

    #[track_caller]
    pub(crate) fn own(&mut self) -> SessionOut {
        self.own.pop_front().expect("the session should have said something to its host")
    }

    pub(crate) fn try_own(&mut self) -> Option<SessionOut> {
        self.own.pop_front()
    }

    pub(crate) fn try_result(&mut self) -> Option<(u64, FsResult)> {
        self.replies.pop_front()
    }

    #[track_caller]
    pub(crate) fn result(&mut self, unique: u64) -> FsResult {
        let (of, result) = self.replies.pop_front().expect("the request should have been answered");
        assert_eq!(of, unique, "another request was answered");
        result
    }

    #[track_caller]
    pub(crate) fn fails(&mut self, unique: u64, errno: Errno) {
        assert_eq!(self.result(unique).unwrap_err(), errno);
    }

    /// The server that was asked answers, in its present term.
    pub(crate) fn reply(&mut self, to: &Sent, reply: Reply) {
        self.reply_from(to.to, to.header.seq, reply);
    }

    pub(crate) fn reply_from(&mut self, source: NodeId, seq: RequestSeq, reply: Reply) {
        let term = self.terms[source.as_shard().unwrap().0 as usize];
        self.reply_in(source, term, seq, reply);
    }

    pub(crate) fn reply_in(&mut self, source: NodeId, term: Term, seq: RequestSeq, reply: Reply) {
        self.reply_of(RecordSeq(0), source, term, seq, reply);
    }

    /// As [`Rig::reply`], resting on a record that a power loss may take.
    pub(crate) fn reply_resting_on(&mut self, record: RecordSeq, to: &Sent, reply: Reply) {
        let term = self.terms[to.to.as_shard().unwrap().0 as usize];
        self.reply_of(record, to.to, term, to.header.seq, reply);
    }

    fn reply_of(&mut self, record: RecordSeq, source: NodeId, term: Term, seq: RequestSeq, reply: Reply) {
        let mut header = Header::new(MessageKind::Reply, source, seq);
        header.term = term;
        header.stamp = Stamp(self.now.wall_ns + 10_000);
        header.of = Of::Reply(OfReply { record, ..OfReply::default() });
        self.input(Input::Packet(Packet::new(&header, &reply)));
    }

    pub(crate) fn data_reply(&mut self, to: &Sent, reply: DataReply, bulk: Bytes) {
        self.data_reply_in(to.header.term, to, reply, bulk);
    }

    pub(crate) fn data_reply_in(&mut self, term: Term, to: &Sent, reply: DataReply, bulk: Bytes) {
        let mut header = Header::new(MessageKind::DataReply, to.to, to.header.seq);
        header.term = term;
        self.input(Input::Packet(Packet::with_bulk(&header, &reply, bulk)));
    }

    /// The shard that was asked says that its term is another.
    pub(crate) fn new_term(&mut self, to: &Sent) {
        let term = self.terms[to.to.as_shard().unwrap().0 as usize];
        self.reply(to, Reply::NewTerm { term });
    }

    /// Time passes; deadlines on the way are met one by one.
    pub(crate) fn pass(&mut self, us: u64) {
        let end = self.now.mono_us + us;
        while let Some(at) = self.session.next_deadline().filter(|&at| at <= end) {
            let step = at.saturating_sub(self.now.mono_us);
            self.now.mono_us += step;
            self.now.wall_ns += step * 1_000;
            self.input(Input::Tick);
        }
        self.now.mono_us = self.now.mono_us.max(end);
    }

    /// A handle of a file that the home knows under this data identity.
    pub(crate) fn open(&mut self, id: InodeId, mode: OpenMode, data: DataRef) -> Handle {
        let unique = self.fs(FsOp::Open { id, mode });
        let sent = self.sent();
        assert!(matches!(sent.request(), Request::Open { flags, .. } if flags & open::AGAIN == 0));
        self.reply(&sent, attr_reply(id, 0, data));
        match self.result(unique) {
            Ok(FsReply::Opened(opened)) => opened.handle,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) const READ_WRITE: OpenMode = OpenMode::READ_WRITE;
