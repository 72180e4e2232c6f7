//! Messages of roles: header, in-network header, and the body of each kind.

use crate::memory::for_input;
use onpath_host::checkpoint::Piece;
use onpath_host::stream::Control;
use onpath_host::udp::hello::Hello;
use onpath_wire::acl::{Acl, Acls};
use onpath_wire::attr::AttrWire;
use onpath_wire::caller::{Caller, Over, cap};
use onpath_wire::data::{DataReply, DataRequest, Merge};
use onpath_wire::header::{HEADER_BYTES, Header, MessageKind};
use onpath_wire::innet::InNet;
use onpath_wire::packet::Packet;
use onpath_wire::peer::Peer;
use onpath_wire::reply::Reply;
use onpath_wire::report::MountReport;
use onpath_wire::request::{Request, RequestBody};
use onpath_wire::tracking::{SwitchCommand, SwitchStatus, Tracking};
use onpath_wire::{Wire, WireError};
use std::hint::black_box;

/// Reads a value and all that follows from it.
type Read = fn(&[u8]) -> bool;

/// All that is read as a value that is sent, in the order in which the first byte of an input chooses.
const KINDS: [Read; 20] = [
    request,
    again::<Reply>,
    again::<Peer>,
    again::<DataRequest>,
    again::<DataReply>,
    again::<Merge>,
    again::<SwitchCommand>,
    again::<SwitchStatus>,
    again::<MountReport>,
    again::<Hello>,
    again::<Control>,
    again::<Piece>,
    again::<Header>,
    again::<Acls>,
    again::<Acl>,
    again::<AttrWire>,
    again::<Tracking>,
    caller,
    innet,
    packet,
];

/// The first byte chooses what the others are read as.
pub fn messages(input: &[u8]) {
    let Some((&kind, bytes)) = input.split_first() else { return };
    KINDS[usize::from(kind) % KINDS.len()](bytes);
}

/// Whether it is such a value; if so, it can be written and read again. An error number that is not known becomes another one.
pub(crate) fn again<T: Wire>(bytes: &[u8]) -> bool {
    let read: Result<T, WireError> = for_input(bytes.len(), || T::from_bytes(bytes));
    let Ok(value) = read else { return false };
    let written = value.to_bytes();
    let again = T::from_bytes(&written).expect("what was read can be written and read again");
    assert_eq!(again.to_bytes(), written);
    true
}

fn request(bytes: &[u8]) -> bool {
    let Ok(body) = RequestBody::from_bytes(bytes) else { return again::<RequestBody>(bytes) };
    described(&body.request);
    again::<RequestBody>(bytes)
}

/// What others than its operation know of a request, and what its receiver asks of its caller.
fn described(request: &Request) {
    black_box(request.describe());
}

fn caller(bytes: &[u8]) -> bool {
    if let Ok(caller) = Caller::from_bytes(bytes) {
        for over in [Over::Inode(caller.uid, caller.gid), Over::Uid(caller.uid), Over::All] {
            black_box(caller.caps.any(cap::ALL, over));
        }
    }
    again::<Caller>(bytes)
}

fn innet(bytes: &[u8]) -> bool {
    let Ok((header, rest)) = InNet::split(bytes) else { return false };
    assert_eq!([&header.bytes()[..], rest].concat(), bytes);
    black_box((header.common(), header.result(), header.op(), header.fingerprint(), header.structure()));
    true
}

/// A packet as a role takes it: its header says what the body is.
fn packet(bytes: &[u8]) -> bool {
    let mut packet = Packet::encoded(bytes.to_vec(), bytes::Bytes::new());
    let Ok(header) = packet.header() else { return false };
    black_box((header.oldest(), header.until_ns(), header.source.class()));
    packet.restamp(&header);
    assert_eq!(Header::from_bytes(&header.bytes()).as_ref(), Ok(&header));
    let body = &packet.head[HEADER_BYTES..];
    match header.kind() {
        MessageKind::Request => request(body),
        MessageKind::Reply => again::<Reply>(body),
        MessageKind::Peer => again::<Peer>(body),
        MessageKind::Data => again::<DataRequest>(body) | again::<Merge>(body),
        MessageKind::DataReply => again::<DataReply>(body),
        MessageKind::Switch => again::<SwitchCommand>(body),
        MessageKind::PeerAnswer => again::<Peer>(body) | again::<DataReply>(body) | again::<SwitchStatus>(body),
    }
}
