//! The raw client: a session's protocol and nothing else – routing, terms, retries, window.
//!
//! It sends wire requests as its user gives them, so that the simulator can check metadata shards at speed.

use crate::check::{Checker, as_uncached};
use crate::model::Caller;
use crate::world::EPOCH_NS;
use onpath_wire::codec::Reader;
use onpath_wire::header::{Header, MessageKind, Of, OfRequest};
use onpath_wire::ids::{NodeId, RequestSeq, SessionId, ShardId, Slot, Stamp, Term};
use onpath_wire::limits::CLOCK_SKEW_MS_MAX;
use onpath_wire::map::ClusterMap;
use onpath_wire::packet::Packet;
use onpath_wire::reply::Reply;
use onpath_wire::request::{Request, RequestBody};
use onpath_wire::tracking::Tracking;
use std::collections::VecDeque;
use std::rc::Rc;

/// First pause before a request is sent again, ns; doubled up to [`RETRY_NS_MAX`].
const RETRY_NS: u64 = 30_000_000;
/// Longest pause before a request is sent again, ns.
const RETRY_NS_MAX: u64 = 500_000_000;

/// A question: who asks what.
#[derive(Debug)]
pub struct Asked {
    /// The truth about the caller.
    pub caller: Caller,
    /// What is asked, with what the request says of the caller's groups.
    pub body: RequestBody,
    /// For a write of bytes (`body` then names the file): what of it changes attributes.
    pub write: Option<Write>,
}

/// A write of bytes, as the file's home will hear of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// End of the write, bytes.
    pub end: u64,
    /// Clear setuid and setgid.
    pub kill_suidgid: bool,
}

impl Asked {
    /// A question that says nothing about groups and capabilities.
    pub fn new(caller: Caller, request: Request) -> Rc<Asked> {
        let told = onpath_wire::caller::Caller { uid: caller.uid, gid: caller.gid, ..Default::default() };
        Rc::new(Asked { caller, body: RequestBody { caller: told, request }, write: None })
    }

    /// The same question with membership in `gids` told, and with capabilities if they decide.
    fn with_caller(&self, gids: &[u32], caps: u32) -> Rc<Asked> {
        let mut body = self.body.clone();
        if caps != 0 {
            body.caller.caps = self.caller.caps.clone();
        }
        for &gid in gids {
            let side = if self.caller.in_group(gid) {
                &mut body.caller.groups.member
            } else {
                &mut body.caller.groups.stranger
            };
            if !side.contains(&gid) {
                side.push(gid);
            }
        }
        Rc::new(Asked { caller: self.caller.clone(), body, write: None })
    }
}

/// An answered question.
#[derive(Debug)]
pub struct Completed {
    /// Which client.
    pub client: usize,
    /// Sequence number of the (last) request.
    pub seq: RequestSeq,
    /// The question.
    pub asked: Rc<Asked>,
    /// The answer.
    pub reply: Reply,
}

impl Completed {
    pub(crate) fn with_client(self, client: usize) -> Completed {
        Completed { client, ..self }
    }
}

/// What a packet meant to a client.
pub(crate) enum Heard {
    Nothing,
    Completed(Completed),
    Send(Vec<(NodeId, Packet)>),
}

struct Sent {
    seq: RequestSeq,
    to: ShardId,
    packet: Packet,
    /// The term under which it was last sent: replies of another one do not count.
    term: Term,
    retry_ns: u64,
    pause_ns: u64,
    asked: Rc<Asked>,
}

/// A client.
pub struct Client {
    session: SessionId,
    map: ClusterMap,
    next_seq: u64,
    terms: Vec<Term>,
    /// The tracking epoch that each shard named last.
    trackings: Vec<Tracking>,
    sent: VecDeque<Sent>,
    armed_ns: Option<u64>,
    stamp: Stamp,
    /// What its requests say of its lease: by itself that it never ends.
    pub(crate) until: u32,
}

/// The shard to which a request goes.
pub(crate) fn route(map: &ClusterMap, request: &Request) -> ShardId {
    map.shard(request.describe().about.slot(map))
}

impl Client {
    pub(crate) fn new(session: u32, map: ClusterMap) -> Client {
        let terms = map.all().map(|_| Term(0)).collect();
        let trackings = map.all().map(|_| Tracking::default()).collect();
        let session = SessionId(session);
        let sent = VecDeque::new();
        Client { session, map, next_seq: 0, terms, trackings, sent, armed_ns: None, stamp: Stamp(0), until: u32::MAX }
    }

    /// The client's address.
    pub fn node(&self) -> NodeId {
        NodeId::session(self.session)
    }

    /// Number of requests without an answer.
    pub fn waiting(&self) -> usize {
        self.sent.len()
    }

    /// Sends a request for the first time.
    pub(crate) fn submit(&mut self, asked: Rc<Asked>, now_ns: u64, checker: &mut Checker) -> (NodeId, Packet) {
        let slot = asked.body.request.describe().about.slot(&self.map);
        self.submit_to(self.map.shard(slot), slot, asked, now_ns, checker)
    }

    /// Sends a request for the first time, to a shard of the caller's choice.
    pub(crate) fn submit_to(
        &mut self,
        to: ShardId,
        slot: Slot,
        asked: Rc<Asked>,
        now_ns: u64,
        checker: &mut Checker,
    ) -> (NodeId, Packet) {
        self.next_seq += 1;
        let seq = RequestSeq(self.next_seq);
        let term = self.terms[to.0 as usize];
        let oldest = self.sent.front().map_or(seq, |sent| sent.seq);
        let mut header = Header::new(MessageKind::Request, self.node(), seq);
        header.cluster = 1;
        header.term = term;
        header.slot = slot;
        let oldest_behind = (seq.0 - oldest.0) as u32;
        header.of = Of::Request(OfRequest { until: self.until, oldest_behind, ..OfRequest::default() });
        header.stamp = self.stamp;
        let packet = asked.body.packet(&header, NodeId::shard(to), self.trackings[to.0 as usize], &self.map);
        checker.asked(self.session, seq, asked.clone());
        let retry_ns = now_ns + RETRY_NS;
        let copy = packet.clone();
        self.sent.push_back(Sent { seq, to, packet, term, retry_ns, pause_ns: RETRY_NS, asked });
        (NodeId::shard(to), copy)
    }

    /// Takes a packet: a reply, or the news that a shard has a new term.
    pub(crate) fn receive(&mut self, packet: Packet, now_ns: u64, checker: &mut Checker) -> Heard {
        let Ok(header) = packet.header() else { return Heard::Nothing };
        let (Some(shard), MessageKind::Reply) = (header.source.as_shard(), header.kind()) else {
            return Heard::Nothing;
        };
        let mut body = Reader::new(&packet.head[onpath_wire::header::HEADER_BYTES..]);
        let Ok(reply) = <Reply as onpath_wire::Wire>::take(&mut body) else { return Heard::Nothing };
        if header.stamp.0 <= EPOCH_NS + now_ns + CLOCK_SKEW_MS_MAX * 1_000_000 {
            self.stamp = self.stamp.max(header.stamp);
        }
        if let Reply::NewTerm { term } = reply {
            return self.new_term(shard, term, now_ns);
        }
        let Ok(index) = self.sent.binary_search_by_key(&header.seq, |sent| sent.seq) else { return Heard::Nothing };
        if self.sent[index].term != header.term || self.sent[index].to != shard {
            return Heard::Nothing; // only from the term under which it was last sent
        }
        self.trackings[shard.0 as usize] = header.of_reply().map_or_else(Tracking::default, |replied| replied.tracked);
        if matches!(reply, Reply::Queued) {
            return Heard::Nothing;
        }
        let reply = as_uncached(reply);
        let sent = self.sent.remove(index).expect("just found");
        checker.accepted(self.session, sent.seq, &packet, &reply);
        if let Reply::NeedCaller { gids, caps } = &reply {
            let again = sent.asked.with_caller(gids, *caps);
            return Heard::Send(vec![self.submit(again, now_ns, checker)]);
        }
        Heard::Completed(Completed { client: 0, seq: sent.seq, asked: sent.asked, reply })
    }

    fn new_term(&mut self, shard: ShardId, term: Term, now_ns: u64) -> Heard {
        if term <= self.terms[shard.0 as usize] {
            return Heard::Nothing;
        }
        self.terms[shard.0 as usize] = term;
        let mut messages = vec![];
        for sent in self.sent.iter_mut().filter(|sent| sent.to == shard) {
            messages.push(sent.again(term, now_ns));
        }
        Heard::Send(messages)
    }

    /// The time of the next retry, if none is arranged for then or before.
    pub(crate) fn arm(&mut self) -> Option<u64> {
        let at_ns = self.sent.iter().map(|sent| sent.retry_ns).min()?;
        if self.armed_ns.is_some_and(|armed| armed <= at_ns) {
            return None;
        }
        self.armed_ns = Some(at_ns);
        Some(at_ns)
    }

    /// What must be sent again now.
    pub(crate) fn timer(&mut self, now_ns: u64) -> Vec<(NodeId, Packet)> {
        if self.armed_ns.is_some_and(|armed| armed <= now_ns) {
            self.armed_ns = None;
        }
        let due = self.sent.iter_mut().filter(|sent| sent.retry_ns <= now_ns);
        due.map(|sent| sent.again(self.terms[sent.to.0 as usize], now_ns)).collect()
    }
}

impl Sent {
    /// The same request under the shard's present term.
    fn again(&mut self, term: Term, now_ns: u64) -> (NodeId, Packet) {
        if term != self.term {
            let mut header = self.packet.header().expect("our own packet");
            header.term = term;
            self.packet.restamp(&header);
            self.term = term;
        }
        self.packet.innet = None; // the switch may be gone
        self.pause_ns = (self.pause_ns * 2).min(RETRY_NS_MAX);
        self.retry_ns = now_ns + self.pause_ns;
        (NodeId::shard(self.to), self.packet.clone())
    }
}
