//! What path nodes send: requests in the name of sessions, and questions of their own.

use crate::{Alone, TERM, config, name_here, of_first_lap};
use onpath_kernel::{Input, Role};
use onpath_meta::ShardConfig;
use onpath_wire::caller::{Caller, Caps, cap};
use onpath_wire::header::{Header, MessageKind, Of, OfRequest};
use onpath_wire::ids::{InodeId, NodeId, RequestSeq, SessionId, ShardId};
use onpath_wire::packet::Packet;
use onpath_wire::peer::{Peer, part};
use onpath_wire::reply::Reply;
use onpath_wire::request::{Request, RequestBody};

/// What is forwarded only reads: nobody has something changed by a message that names no term, and a path node asks for nothing else.
#[test]
fn what_is_forwarded_only_reads() {
    let config = config(TERM);
    let map = config.map.clone().with_path_nodes(&[0]);
    let mut alone = Alone::of(ShardConfig { map, ..config });
    alone.create(1);
    let forward = |alone: &mut Alone, seq: u64, request: Request| {
        let caller = Caller { caps: Caps::exactly(cap::ALL), ..Caller::default() };
        let mut header = Header::new(MessageKind::Request, NodeId::session(SessionId(1)), RequestSeq(seq));
        header.of = Of::Request(OfRequest { until: u32::MAX, forwarded: true, ..OfRequest::default() });
        let packet = Packet::new(&header, &RequestBody { caller, request });
        alone.shard.handle(alone.now, Input::Packet(packet));
        alone.outputs();
    };
    forward(&mut alone, 2, Request::Lookup { parent: InodeId::ROOT, name: name_here(1) });
    assert!(matches!(alone.replies.pop(), Some((RequestSeq(2), Reply::Entry { .. }))));
    let (refused, records) = (alone.counter("messages_malformed"), alone.records.len());
    forward(&mut alone, 3, Request::Unlink { parent: InodeId::ROOT, name: name_here(1) });
    forward(&mut alone, 4, Request::StatFs);
    assert!(matches!(alone.replies[..], [(RequestSeq(4), Reply::StatFs { .. })]));
    assert_eq!((alone.counter("messages_malformed"), alone.records.len()), (refused + 1, records));
    alone.last = None;
    for (from, parts, is_granted) in [
        (NodeId::path(0), part::ACCESS, false),
        (NodeId::path(0), part::ALL, false),
        (NodeId::path(1), part::PATH, false), // it is not in the map
        (NodeId::shard(ShardId(1)), part::PATH, false),
        (NodeId::path(0), part::PATH, true),
    ] {
        let ask = Peer::GrantAsk { dir: InodeId::ROOT, parts, nonce: 1 };
        alone.hear(MessageKind::Peer, from, RequestSeq(9), &ask);
        assert_eq!(alone.last.take().is_some(), is_granted, "{from:?} asks for {parts}");
    }
    alone.hear(
        MessageKind::Peer,
        NodeId::path(0),
        RequestSeq(10),
        &Peer::SessionDead { session: of_first_lap(SessionId(1)) },
    );
    assert_eq!(alone.last, None, "a path node knows of no sessions");
}
