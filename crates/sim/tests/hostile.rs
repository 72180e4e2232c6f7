//! Whatever peers and clients send: no role panics, and each starts again from what it has written.

use crate::nonsense::cluster::{Cluster, Told};
use bytes::Bytes;
use onpath_kernel::{Input, Now, Output, Role};
use onpath_session::fs::{Caller, FsOp, FsReply, FsRequest, FsResult, OpenMode};
use onpath_session::{AccessTimes, KeptWays, Session, SessionConfig, SessionIn, SessionOut};
use onpath_wire::Wire;
use onpath_wire::attr::AttrWire;
use onpath_wire::codec::Blob;
use onpath_wire::data::{DataReply, DataRequest, Merge, UndoneAppend};
use onpath_wire::errno::Errno;
use onpath_wire::header::{HEADER_BYTES, Header, MessageKind, OfRequest};
use onpath_wire::ids::{
    DataId, InodeId, LogSeq, NodeId, RequestSeq, SessionId, SessionNumber, ShardId, Slot, Stamp, Term, TxnId, TxnSeq,
};
use onpath_wire::inode::Kind;
use onpath_wire::limits::{ATTRS_ASKED_MAX, BODY_BYTES_MAX, FILE_BYTES_MAX, SESSION_WINDOW};
use onpath_wire::map::ClusterMap;
use onpath_wire::name::Name;
use onpath_wire::packet::Packet;
use onpath_wire::peer::{Batch, LogEntry, Peer};
use onpath_wire::reply::{DataRef, Reply};
use onpath_wire::request::{NewNode, Request, RequestBody};
use onpath_wire::secrets::Secrets;
use onpath_wire::tracking::Form;
use std::cell::RefCell;
use std::rc::Rc;

const STEPS: u64 = 20_000;

#[test]
fn roles_survive_nonsense() {
    for (seed, form) in [(1, Form::Owner), (2, Form::Network), (3, Form::Owner), (4, Form::Network)] {
        let mut cluster = Cluster::new(seed, form, 20);
        (0..STEPS).for_each(|_| cluster.step());
        let outcome = cluster.end();
        println!("{form:?}: {outcome:?}");
        assert!(outcome.changed > 1_000 && outcome.answers > 1_000 && outcome.asked > 1_000, "{outcome:?}");
    }
}

/// The same without anything changed: what the other test leaves to chance is there.
#[test]
fn without_nonsense_all_goes_well() {
    for form in [Form::Owner, Form::Network] {
        let mut cluster = Cluster::new(7, form, 0);
        (0..STEPS).for_each(|_| cluster.step());
        let outcome = cluster.end();
        println!("{form:?}: {outcome:?}");
        assert!(outcome.answers > 4_000 && outcome.records > 1_000 && outcome.done > 2_000, "{outcome:?}");
        assert_eq!(outcome.malformed, 0);
    }
}

#[test]
fn decoders_survive_nonsense() {
    let outcome = crate::nonsense::decoders::run(1, |done| done < 1_000_000);
    println!("{outcome:?}");
    assert!(outcome.kinds == 12 && outcome.variants >= 100, "{outcome:?}");
    assert!(outcome.decoded > 100_000, "{outcome:?}");
}

// What follows once made a role panic.

const CLIENT: NodeId = NodeId(3 << 24 | 1);
const HOME: ShardId = ShardId(0);

#[test]
fn a_pipe_has_no_target() {
    let mut cluster = Cluster::new(1, Form::Owner, 0);
    let answers: Rc<RefCell<Vec<Reply>>> = Rc::default();
    let heard = answers.clone();
    cluster.listen(move |told| {
        if let Told::Message(CLIENT, packet) = told {
            heard.borrow_mut().extend(packet.body::<Reply>());
        }
    });
    let target = Blob(b"x".to_vec());
    for kind in [Kind::Fifo, Kind::File, Kind::Directory] {
        let node = NewNode { kind, mode: 0o644, umask: 0, rdev: 0, target: target.clone(), open: 0 };
        let name = Name::new(b"new").expect("a name");
        let request = Request::Create { parent: InodeId::ROOT, name, node };
        cluster.ask(0, request);
    }
    let node = NewNode { kind: Kind::File, mode: 0o644, umask: 0, rdev: 0, target, open: 0 };
    cluster.ask(0, Request::TmpFile { parent: InodeId::ROOT, slot: Slot(0), node });
    (0..100).for_each(|_| cluster.settle());
    assert_eq!(answers.take(), vec![Reply::Failed { errno: Errno::EINVAL }; 4]);
}

#[test]
fn a_file_has_no_more_than_fits_it() {
    let mut cluster = Cluster::new(1, Form::Owner, 0);
    let data = DataId { inode: InodeId(77), ..DataId::default() };
    let (session, request, oldest) = (SessionId(1), RequestSeq(1 << 40), RequestSeq(1 << 40));
    let written = |end, blocks, append| Merge::Written {
        data,
        cut: 0,
        end,
        blocks,
        version: 1,
        session,
        request,
        oldest,
        kill_suidgid: false,
        append,
        again: None,
        beside: false,
    };
    let undone = vec![UndoneAppend { at: 1, from: 0, end: u64::MAX, session, request }];
    for merge in [
        written(1, u64::MAX / 4, None),
        written(FILE_BYTES_MAX + 1, 1, None),
        written(1, 1, Some(u64::MAX)),
        Merge::Counted { data, blocks: u64::MAX, version: 1, undone: vec![] },
        Merge::Counted { data, blocks: 1, version: 1, undone },
    ] {
        cluster.tell(NodeId::data(0), NodeId::shard(HOME), MessageKind::Data, &merge);
    }
    assert_eq!(cluster.end().malformed, 5);
}

/// A request says how old its session's oldest unanswered one is: beyond the window it is none, so a session makes a shard remember no more.
#[test]
fn a_request_is_in_its_sessions_window() {
    let mut cluster = Cluster::new(1, Form::Owner, 0);
    let body = RequestBody { caller: onpath_wire::caller::Caller::default(), request: Request::StatFs };
    for (seq, oldest_behind) in [(1 << 30, SESSION_WINDOW as u32), (1 << 30, u32::MAX), (9, 10)] {
        let mut header = Header::new(MessageKind::Request, CLIENT, RequestSeq(seq));
        header.term = Term(1);
        *header.of_request_mut().expect("of a request") =
            OfRequest { until: u32::MAX, oldest_behind, ..OfRequest::default() };
        cluster.tell_with(header, NodeId::shard(HOME), &body);
    }
    assert_eq!(cluster.end().malformed, 3);
}

/// The answer to a request fits a message, or the request is refused: it once ended the process that had to send it.
#[test]
fn nobody_asks_for_more_than_fits_an_answer() {
    let mut cluster = Cluster::new(1, Form::Owner, 0);
    let answers: Rc<RefCell<Vec<(Reply, usize)>>> = Rc::default();
    let heard = answers.clone();
    cluster.listen(move |told| {
        if let Told::Message(CLIENT, packet) = told {
            heard.borrow_mut().extend(packet.body::<Reply>().map(|reply| (reply, packet.head.len())));
        }
    });
    for more in [0, 1, 100_000] {
        cluster.ask(0, Request::GetAttrs { ids: vec![InodeId::ROOT; ATTRS_ASKED_MAX + more] });
        (0..50).for_each(|_| cluster.settle());
    }
    let [(Reply::Attrs { attrs }, bytes), refused @ ..] = &answers.take()[..] else { panic!("all are answered") };
    assert!(attrs.len() == ATTRS_ASKED_MAX && attrs.iter().all(Option::is_some));
    assert!(*bytes <= HEADER_BYTES + BODY_BYTES_MAX, "{bytes} bytes");
    assert_eq!(
        refused.iter().map(|(reply, _)| reply.clone()).collect::<Vec<_>>(),
        vec![Reply::Failed { errno: Errno::EINVAL }; 2]
    );
}

/// nobody but an attempt's coordinator asks for it, decides it or ends it.
#[test]
fn an_attempt_is_its_coordinators() {
    let mut cluster = Cluster::new(1, Form::Owner, 0);
    let txn = TxnId { coordinator: ShardId(2), seq: TxnSeq(1 << 40) };
    let caller = onpath_wire::caller::Caller::default();
    let (oldest_unfinished, stamp, early) = (txn.seq, Stamp(1), Term(0));
    let prepare = Peer::Prepare { txn, oldest_unfinished, stamp, caller, parts: vec![], early };
    let turns = [Peer::RenameLock { txn, uid: 0, since: 0 }, Peer::RenameUnlock { txn, moved: vec![] }];
    for told in [prepare, Peer::Commit { txn }, Peer::Decided { txn }, Peer::Abort { txn }].into_iter().chain(turns) {
        cluster.tell(NodeId::shard(ShardId(1)), NodeId::shard(HOME), MessageKind::Peer, &told);
    }
    assert_eq!(cluster.end().malformed, 6);
}

#[test]
fn a_directory_hears_of_no_more_than_can_be() {
    let mut cluster = Cluster::new(1, Form::Owner, 0);
    let good = LogEntry {
        seq: LogSeq(1 << 50),
        stamp: Stamp(1),
        put: true,
        name: Name::new(b"n").expect("a name"),
        child: InodeId(78),
        kind: Kind::File,
        dcount: 1,
        dnlink: 0,
    };
    let later = LogEntry { seq: LogSeq(good.seq.0 + 1), ..good.clone() };
    for entries in [
        vec![LogEntry { dcount: -48, ..good.clone() }],
        vec![LogEntry { dnlink: i8::MIN, ..good.clone() }],
        vec![LogEntry { child: InodeId(77), ..good.clone() }], // the number of a directory
        vec![LogEntry { stamp: Stamp(u64::MAX), ..good.clone() }],
        vec![later.clone(), good.clone()],
        std::iter::repeat_n(LogEntry { dcount: -1, ..good.clone() }, 4_000)
            .zip(1 << 50..)
            .map(|(entry, seq)| LogEntry { seq: LogSeq(seq), ..entry })
            .collect(),
    ] {
        let push = Peer::Push { dir: InodeId::ROOT, batch: Batch { before: LogSeq(0), entries } };
        cluster.tell(NodeId::shard(ShardId(1)), NodeId::shard(HOME), MessageKind::Peer, &push);
    }
    // It still hears of what can be.
    let push = Peer::Push { dir: InodeId::ROOT, batch: Batch { before: LogSeq(0), entries: vec![good, later] } };
    cluster.tell(NodeId::shard(ShardId(1)), NodeId::shard(HOME), MessageKind::Peer, &push);
    let outcome = cluster.end();
    assert_eq!(outcome.malformed, 6);
}

#[test]
fn a_session_has_a_number_that_can_be() {
    let mut cluster = Cluster::new(1, Form::Owner, 0);
    for session in [SessionNumber::MAX.0 + 1, u64::MAX] {
        let dead = Peer::SessionDead { session: SessionNumber(session) };
        cluster.tell(NodeId::shard(ShardId(1)), NodeId::shard(HOME), MessageKind::Peer, &dead);
    }
    assert_eq!(cluster.end().malformed, 2);
}

/// A clock that is far ahead is not believed by a data node either: it would tell the homes of a time that they refuse.
#[test]
fn a_data_node_does_not_follow_a_clock_that_is_far_ahead() {
    let mut cluster = Cluster::new(1, Form::Owner, 0);
    let now_ns = cluster.now().wall_ns;
    for (number, stamp) in [u64::MAX, now_ns + 600_000_000, now_ns + 400_000_000].into_iter().enumerate() {
        let mut header = Header::new(MessageKind::Data, CLIENT, RequestSeq(1 << 41 | number as u64));
        header.stamp = Stamp(stamp);
        cluster.tell_with(header, NodeId::data(0), &DataRequest::Space);
    }
    assert_eq!(cluster.skewed(), 2);
}

/// Gives a session an input, and answers all that it asks as a host does that `tells` lies; what its mount gets.
fn converse(session: &mut Session, input: Input<SessionIn>, tells: impl Fn(&Request) -> Reply) -> Vec<FsResult> {
    let now = Now { mono_us: 1, wall_ns: 1 };
    let answer = |kind, to, seq, body: &[u8]| {
        let mut header = Header::new(kind, to, seq);
        header.term = Term(1);
        Packet::encoded([&header.bytes()[..], body].concat(), Bytes::new())
    };
    session.handle(now, input);
    let mut results = vec![];
    while let Some(output) = session.poll_output() {
        match output {
            Output::Own(SessionOut::Reply { result, .. }) => results.push(result),
            Output::Send { to, packet, .. } => {
                let asked = packet.header().expect("its own message");
                let told = match packet.body::<RequestBody>() {
                    Ok(body) if asked.kind() == MessageKind::Request => {
                        answer(MessageKind::Reply, to, asked.seq, &tells(&body.request).to_bytes())
                    }
                    _ => {
                        let before = DataReply::Position { offset: Some(0) };
                        answer(MessageKind::DataReply, to, asked.seq, &before.to_bytes())
                    }
                };
                session.handle(now, Input::Packet(told));
            }
            _ => {}
        }
    }
    results
}

/// A lease that never ends, an answer about another inode, data that lies before the place where it was looked for.
#[test]
fn a_session_does_not_believe_what_cannot_be() {
    let mut session = Session::new(SessionConfig {
        session: SessionNumber(9),
        cluster: 1,
        map: ClusterMap::even(1, Secrets::of_seed(1).placement),
        soft: false,
        access_times: AccessTimes::default(),
        in_halves: false,
        caches: false,
        identity: None,
        kept_ways: KeptWays::default(),
    });
    let tells = |other: u64| {
        move |request: &Request| {
            let about = |id: InodeId| {
                let id = InodeId(id.0 + other);
                let (mode, size, now) = (0o644, 10_000, 1);
                let (mtime, ctime, atime) = (now, now, now);
                let attr = AttrWire {
                    id,
                    kind: Kind::File,
                    flags: 0,
                    mode,
                    uid: 0,
                    gid: 0,
                    nlink: 1,
                    size,
                    mtime,
                    ctime,
                    atime,
                    blocks_or_rdev: 0,
                };
                Reply::Attr { attr, data: DataRef::default(), shared: false }
            };
            match *request {
                Request::Attach { .. } => Reply::Attached { session: SessionId(9), lease_ms: u64::MAX },
                Request::Open { id, .. } | Request::DataRef { id } => about(id),
                _ => Reply::Done,
            }
        }
    };
    let ask = |op| Input::Own(SessionIn::Fs(FsRequest { unique: 1, caller: Caller::default(), op, by_ways: None }));
    converse(&mut session, Input::Tick, tells(0));
    let open = FsOp::Open { id: InodeId(78), mode: OpenMode::READ_WRITE };
    let told = converse(&mut session, ask(open.clone()), tells(2));
    assert!(matches!(told[..], [Err(Errno::EIO)]), "{told:?}");
    let told = converse(&mut session, ask(open), tells(0));
    let [Ok(FsReply::Opened(opened))] = told[..] else { panic!("{told:?}") };
    let seek = FsOp::Seek { handle: opened.handle, offset: 5_000, hole: false };
    let told = converse(&mut session, ask(seek), tells(0));
    assert!(matches!(told[..], [Err(Errno::EIO)]), "{told:?}");
}
