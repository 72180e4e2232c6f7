//! A client that lies in every field, as the host of its messages sees it.

use super::*;
use onpath_wire::caller::{Caller, Caps, Groups, cap};
use onpath_wire::codec::Blob;
use onpath_wire::data::{Allocation, DataRequest};
use onpath_wire::ids::{AloneId, Birth, Cookie, DataId, Generation, InodeId, RequestSeq, ShardId, Slot, Term};
use onpath_wire::name::Name;
use onpath_wire::request::{FileLock, LockKind, SetAttr};
use onpath_wire::secrets::Secrets;
use onpath_wire::ticket::{Ticket, right};
use onpath_wire::xattr::XattrName;
use smallvec::smallvec;

const ME: SessionNumber = SessionNumber(5);

fn bound() -> Bound {
    Bound { session: ME, identity: Identity { uid: 7, gids: smallvec![8, 9], caps: 0 } }
}

fn shard() -> NodeId {
    NodeId::shard(ShardId(0))
}

fn header(kind: MessageKind, session: SessionNumber) -> Header {
    let mut header = Header::new(kind, NodeId::session(session.id()), session.request(RequestSeq(3)));
    (header.cluster, header.term) = (1, Term(4));
    header
}

fn asked_as(caller: Caller, request: Request) -> Packet {
    Packet::new(&header(MessageKind::Request, ME), &RequestBody { caller, request })
}

fn asked(request: Request) -> Packet {
    asked_as(bound().identity.caller(), request)
}

/// What the client hears.
fn told(packet: &Packet) -> Option<Refusal> {
    let answer = refusal(&bound(), shard(), packet)?;
    let (asked, said) = (packet.header().unwrap(), answer.header().unwrap());
    assert_eq!((said.source, said.seq, said.term, said.cluster), (shard(), asked.seq, asked.term, asked.cluster));
    match answer.body::<Reply>() {
        Ok(Reply::Refused { why }) => Some(why),
        other => panic!("{other:?}"),
    }
}

fn file() -> InodeId {
    InodeId::new(Slot(1), Birth(1), 1, Kind::File)
}

fn new(kind: Kind, rdev: u32) -> NewNode {
    NewNode { kind, mode: 0o4666, umask: 0, rdev, target: Blob::default(), open: open::REGISTER }
}

fn create(node: NewNode) -> Request {
    Request::Create { parent: InodeId::ROOT, name: Name::new(b"n").unwrap(), node }
}

fn change(valid: u32) -> Request {
    Request::SetAttr { id: file(), set: SetAttr { valid, ..SetAttr::default() } }
}

fn opened(flags: u32) -> Request {
    Request::Open { id: file(), flags }
}

#[test]
fn whoever_it_says_it_is() {
    let me = bound().identity.caller();
    let groups = |member: &[u32], stranger: &[u32]| Groups { member: member.into(), stranger: stranger.into() };
    let all = [
        (me.clone(), None),
        (Caller { gid: 9, ..me.clone() }, None),
        (Caller { groups: groups(&[9], &[10]), ..me.clone() }, None),
        (Caller::default(), Some(Refusal::Uid)),
        (Caller { uid: 0, ..me.clone() }, Some(Refusal::Uid)),
        (Caller { uid: 8, ..me.clone() }, Some(Refusal::Uid)),
        (Caller { gid: 0, ..me.clone() }, Some(Refusal::Gid)),
        (Caller { groups: groups(&[0], &[]), ..me.clone() }, Some(Refusal::Groups)),
        (Caller { groups: groups(&[], &[9]), ..me.clone() }, Some(Refusal::Groups)),
        (Caller { caps: Caps::exactly(cap::ALL), ..me.clone() }, Some(Refusal::Capabilities)),
        (Caller { free_links: true, ..me }, Some(Refusal::Capabilities)),
    ];
    for (caller, why) in all {
        for request in [Request::GetAttr { id: file() }, Request::Renew, Request::StatFs, create(new(Kind::File, 0))] {
            assert_eq!(told(&asked_as(caller.clone(), request)), why, "{caller:?}");
        }
    }
}

#[test]
fn flags_that_skip_checks() {
    let name = XattrName::capability;
    let lock = FileLock { flock: false, kind: LockKind::Write, start: 0, end: 1, owner: 1, pid: 1 };
    let id = file();
    let all = [
        (opened(open::READ | open::REGISTER), None),
        (opened(open::READ | open::AGAIN), Some(Refusal::Flag)),
        (opened(open::WRITE | open::MADE), Some(Refusal::Flag)),
        (opened(open::WRITE | open::TRUNCATE), Some(Refusal::Flag)),
        (opened(open::WRITE | open::TRUNCATE | open::KILL_SUIDGID), None),
        (change(set::MODE), None),
        (change(set::SIZE), Some(Refusal::Flag)),
        (change(set::SIZE | set::KILL_SUIDGID), None),
        // Whether it has opened the file its home looks at.
        (change(set::SIZE | set::KILL_SUIDGID | set::OPEN_FOR_WRITE), None),
        (change(set::SIZE | set::OPEN_FOR_WRITE), Some(Refusal::Flag)),
        (change(set::READ | set::ATIME | set::ATIME_NOW), None),
        (Request::RemoveXattr { id, name: name(), open_for_write: false }, None),
        (Request::RemoveXattr { id, name: name(), open_for_write: true }, None),
        (Request::RenewAlone, Some(Refusal::Flag)),
        (Request::HandBack { alone: AloneId::default() }, Some(Refusal::Flag)),
        (Request::Detach { gone: false }, None),
        (Request::Detach { gone: true }, Some(Refusal::Flag)),
        (create(new(Kind::File, 0)), None),
        (create(new(Kind::Fifo, 0)), None),
        (create(new(Kind::CharDevice, 0)), None),
        (create(new(Kind::CharDevice, 0x103)), Some(Refusal::Device)),
        (create(new(Kind::BlockDevice, 0)), Some(Refusal::Device)),
        (Request::ReadDir { id: InodeId::ROOT, after: Cookie(0), bytes: 100 }, None),
        (Request::SetLock { id, lock, wait: false, again: true }, None),
        (Request::Reserve { id }, None),
    ];
    for (request, why) in all {
        assert_eq!(told(&asked(request.clone())), why, "{request:?}");
    }
}

#[test]
fn who_has_the_power_to_keep_set_id_bits_keeps_them() {
    let mut all = bound();
    all.identity.caps = cap::FSETID;
    for request in [change(set::SIZE), opened(open::WRITE | open::TRUNCATE)] {
        assert_eq!(refusal(&all, shard(), &asked(request)), None);
    }
}

#[test]
fn another_session() {
    // The next one that will have its id.
    let later = SessionNumber(ME.0 + (1 << 24) - 1);
    assert_eq!(later.id(), ME.id());
    for session in [SessionNumber(6), later] {
        let body = RequestBody { caller: bound().identity.caller(), request: Request::Detach { gone: false } };
        let packet = Packet::new(&header(MessageKind::Request, session), &body);
        assert_eq!(told(&packet), Some(Refusal::Session), "{session}");
    }
}

/// What a data node hears; whether the ticket is right it sees itself.
#[test]
fn bytes_of_files() {
    let data = DataId { inode: file(), generation: Generation::default() };
    let node = NodeId::data(1);
    let ticket = Ticket::new(&Secrets::of_seed(1).inner.tickets(), ME, (data, 0), right::READ, 0);
    let shown = |request: &DataRequest| DataRequest::Shown { ticket, source: None, request: Blob(request.to_bytes()) };
    let read = DataRequest::Read { data, cut: 0, offset: 0, bytes: 1 };
    let write = |kill_suidgid| DataRequest::Write { data, cut: 0, offset: 0, kill_suidgid, append: false, part: None };
    let punch = |kill_suidgid| {
        let how = Allocation::Punch;
        DataRequest::Allocate { data, cut: 0, offset: 0, bytes: 1, how, end: 0, kill_suidgid }
    };
    for (request, why) in [
        (DataRequest::Space, None),
        (read.clone(), Some(Refusal::Bytes)),
        (write(true), Some(Refusal::Bytes)),
        (punch(true), Some(Refusal::Bytes)),
        (shown(&read), None),
        (shown(&write(true)), None),
        (shown(&write(false)), Some(Refusal::Flag)),
        (shown(&punch(false)), Some(Refusal::Flag)),
        (shown(&shown(&read)), Some(Refusal::Bytes)),
        (DataRequest::Shown { ticket, source: None, request: Blob(vec![77]) }, Some(Refusal::Bytes)),
    ] {
        let packet = Packet::new(&header(MessageKind::Data, ME), &request);
        let answer = refusal(&bound(), node, &packet);
        let said = answer.map(|answer| (answer.header().unwrap().source, answer.body().unwrap()));
        assert_eq!(said, why.map(|why| (node, DataReply::Refused { why })), "{request:?}");
    }
}

#[test]
fn what_is_no_message_is_left_to_its_receiver() {
    let mut packet = asked(Request::Renew);
    packet.head.truncate(60);
    assert_eq!(refusal(&bound(), shard(), &packet), None);
    packet.head.truncate(20);
    assert_eq!(refusal(&bound(), shard(), &packet), None);
}
