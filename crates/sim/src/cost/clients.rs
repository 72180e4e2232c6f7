//! Clients without failures: the protocol of a session, and when each request was made. The model and the real system that it is
//! compared with are asked by the same.

use super::config::Load;
use super::work::{Ask, Kind, Work};
use crate::client::route;
use onpath_wire::header::{Header, MessageKind, Of, OfRequest};
use onpath_wire::ids::{NodeId, RequestSeq, SessionId, Stamp, Term};
use onpath_wire::limits::SESSION_WINDOW;
use onpath_wire::map::ClusterMap;
use onpath_wire::packet::Packet;
use onpath_wire::reply::Reply;
use onpath_wire::request::RequestBody;
use onpath_wire::tracking::Tracking;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;

/// Cluster number of the model.
pub(crate) const CLUSTER: u32 = 1;

/// The term in which the shards of the model serve: nobody restarts.
pub(crate) const TERM: Term = Term(1);

/// An answered request.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// What was asked.
    pub kind: Kind,
    /// Since it was asked, ns.
    pub latency_ns: u64,
}

/// Whom clients talk to.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Number of the file system.
    pub number: u32,
    /// Slots and shards.
    pub map: ClusterMap,
    /// The term in which all shards serve.
    pub term: Term,
    /// The session of client 0; the next client has the next one.
    pub first_session: SessionId,
}

struct Sent {
    seq: RequestSeq,
    ask: Ask,
    asked_ns: u64,
}

struct Client {
    session: SessionId,
    next_seq: u64,
    sent: VecDeque<Sent>,
    trackings: Vec<Tracking>,
    stamp: Stamp,
}

/// All clients and their load.
pub struct Clients {
    all: Vec<Client>,
    cluster: Cluster,
    pub(crate) load: Load,
    /// Nobody asks any more.
    pub over: bool,
    /// Somebody has had the opportunity to ask since the load began.
    pub(crate) begun: bool,
    under_way: u64,
}

impl Clients {
    /// Clients that have not asked anything yet.
    pub fn new(cluster: Cluster, load: Load) -> Clients {
        let client = |number| Client {
            session: SessionId(cluster.first_session.0 + number),
            next_seq: 0,
            sent: VecDeque::new(),
            trackings: cluster.map.all().map(|_| Tracking::default()).collect(),
            stamp: Stamp(0),
        };
        let all = (0..load.clients()).map(client).collect();
        Clients { all, cluster, load, over: true, begun: false, under_way: 0 }
    }

    /// How many.
    pub fn number(&self) -> u32 {
        self.all.len() as u32
    }

    /// Requests without an answer.
    pub fn under_way(&self) -> u64 {
        self.under_way
    }

    /// Nobody has anything more to ask.
    pub(crate) fn finished(&self) -> bool {
        !self.over && self.begun && self.under_way == 0 && matches!(self.load, Load::Closed { .. })
    }

    /// Requests come in their own time.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.load, Load::Open { .. })
    }

    /// The address of a client.
    pub(crate) fn address(&self, number: u32) -> NodeId {
        NodeId::session(self.all[number as usize].session)
    }

    /// The number of the client with this address.
    pub fn at(&self, node: NodeId) -> u32 {
        node.number() - self.cluster.first_session.0
    }

    /// A client's next request, if the load and the work let it make one.
    pub fn ask(&mut self, number: u32, work: &mut dyn Work, now_ns: u64) -> Option<(NodeId, Packet)> {
        self.begun |= !self.over;
        let client = &mut self.all[number as usize];
        let window = match self.load {
            Load::Closed { window, .. } => u64::from(window),
            Load::Open { .. } => SESSION_WINDOW,
        };
        if self.over || client.sent.len() as u64 >= window {
            return None;
        }
        let ask = work.next(number, client.sent.len() as u32)?;
        let slot = ask.request.describe().about.slot(&self.cluster.map);
        let shard = route(&self.cluster.map, &ask.request);
        client.next_seq += 1;
        let seq = RequestSeq(client.next_seq);
        let oldest = client.sent.front().map_or(seq, |sent| sent.seq);
        let mut header = Header::new(MessageKind::Request, NodeId::session(client.session), seq);
        header.cluster = self.cluster.number;
        header.term = self.cluster.term;
        header.slot = slot;
        let oldest_behind = (seq.0 - oldest.0) as u32;
        header.of = Of::Request(OfRequest { until: u32::MAX, oldest_behind, ..OfRequest::default() });
        header.stamp = client.stamp;
        let to = NodeId::shard(shard);
        let body = RequestBody::of_session(ask.request);
        let packet = body.packet(&header, to, client.trackings[shard.0 as usize], &self.cluster.map);
        let ask = Ask { kind: ask.kind, request: body.request };
        self.under_way += 1;
        client.sent.push_back(Sent { seq, ask, asked_ns: now_ns });
        Some((to, packet))
    }

    /// A client takes a reply.
    ///
    /// # Panics
    /// The reply is none: nothing is lost or repeated in the model.
    pub fn hear(&mut self, number: u32, packet: &Packet, work: &mut dyn Work, now_ns: u64) -> Option<Answered> {
        let client = &mut self.all[number as usize];
        let header = packet.header().expect("a shard's own header");
        let place = client.sent.iter().position(|sent| sent.seq == header.seq)?;
        let shard = header.source.as_shard().expect("shards answer");
        client.trackings[shard.0 as usize] = header.of_reply().expect("a reply").tracked;
        client.stamp = client.stamp.max(header.stamp);
        let sent = client.sent.remove(place).expect("just found");
        self.under_way -= 1;
        let reply: Reply = packet.body().expect("a shard's own reply");
        work.answered(number, &sent.ask, &reply);
        Some(Answered { kind: sent.ask.kind, latency_ns: now_ns - sent.asked_ns })
    }

    /// Time until the next request of an open load.
    pub(crate) fn pause_ns(&self, rng: &mut ChaCha8Rng) -> Option<u64> {
        let Load::Open { rate, .. } = self.load else { return None };
        let uniform: f64 = rng.random_range(f64::EPSILON..1.0);
        Some((-uniform.ln() * 1e9 / rate) as u64)
    }
}
