//! A client that says whatever a test wants it to say: its messages are made by hand, and nothing of a session's own checks is between it
//! and the hosts.

use onpath_client::way::{There, Way};
use onpath_host::journal::Commit;
use onpath_host::member::NoJournal;
use onpath_host::node::{HostedRole, NoEffects, Node, NodeBuilder, Port};
use onpath_host::stream::{Attached, ClientHooks, StreamClient, StreamError};
use onpath_kernel::{Input, Need, Now, Output, Role};
use onpath_wire::caller::Caller;
use onpath_wire::codec::{Blob, Wire};
use onpath_wire::data::{DataReply, DataRequest};
use onpath_wire::identity::Refusal;
use onpath_wire::ids::{InodeId, NodeId, RecordSeq, RequestSeq, SessionNumber, Stamp, Term};
use onpath_wire::packet::Packet;
use onpath_wire::reply::Reply;
use onpath_wire::request::{Request, RequestBody};
use onpath_wire::ticket::Ticket;
use onpath_wire::{Header, MessageKind};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, SystemTime};

/// How long an answer is waited for before the question is sent again.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// How often it is sent.
const TIMES: usize = 20;

/// Sends what it is given, and hands over what comes.
struct Mouth {
    answers: Sender<Packet>,
    outputs: VecDeque<Output<()>>,
}

impl Role for Mouth {
    type In = (NodeId, Packet);
    type Out = ();

    fn handle(&mut self, _: Now, input: Input<(NodeId, Packet)>) {
        match input {
            Input::Own((to, packet)) => {
                let (after, need) = (RecordSeq(0), Need::ByDestination);
                self.outputs.push_back(Output::Send { to, packet, after, need });
            }
            // The test may be over.
            Input::Packet(packet) => _ = self.answers.send(packet),
            Input::Tick | Input::Durable(_) => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output<()>> {
        self.outputs.pop_front()
    }

    fn next_deadline(&self) -> Option<u64> {
        None
    }
}

impl HostedRole for Mouth {}

struct Hooks;

impl ClientHooks for Hooks {
    fn reset(&self, _: &Node) {}
    fn renamed(&self, _: &Node, _: SessionNumber) {}
    fn refused(&self, _: &Node, _: &StreamError) {}
}

/// What a host says to a lie.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// It has done it, or would not have for anybody.
    Reply(Reply),
    /// The same of a data node.
    Data(DataReply, Vec<u8>),
}

impl Said {
    /// Why it was refused, if it was.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Said::Reply(Reply::Refused { why }) | Said::Data(DataReply::Refused { why }, _) => Some(*why),
            _ => None,
        }
    }
}

/// The client.
pub struct Liar {
    node: Arc<Node>,
    port: Port<Mouth>,
    answers: Receiver<Packet>,
    terms: RefCell<HashMap<NodeId, Term>>,
    /// What it was given for what it has opened.
    tickets: RefCell<HashMap<InodeId, Ticket>>,
    count: Cell<u64>,
    /// What it was told.
    pub there: There,
    way: Attached,
}

impl Liar {
    /// Comes in by the socket of a DIR, as the user of this thread, and is a session.
    pub fn at(dir: &Path) -> Liar {
        let stream = StreamClient::connect(dir).expect("everybody is let in");
        let (there, stream) = match Way::Stream(stream, String::new()) {
            way @ Way::Stream(..) => (way.there(), way),
            Way::Udp(..) => unreachable!("it is a stream"),
        };
        let (answers, heard) = channel();
        let mut builder = NodeBuilder::new();
        let mouth = Mouth { answers, outputs: VecDeque::new() };
        let port = builder.add(NodeId::session(there.session.id()), mouth, NoEffects);
        let node = builder.start(Commit::Interval(1), None, Arc::new(NoJournal));
        let Way::Stream(stream, _) = stream else { unreachable!("it is a stream") };
        let way = stream.start(&node, Hooks).expect("a thread");
        let (terms, tickets) = (RefCell::default(), RefCell::default());
        let liar = Liar { node, port, answers: heard, terms, tickets, count: Cell::new(0), there, way };
        let joined = liar.ask(Request::Attach { again: false });
        assert!(matches!(joined, Said::Reply(Reply::Attached { .. })), "{joined:?}");
        liar
    }

    /// Who it really is.
    pub fn me(&self) -> Caller {
        self.there.identity.as_ref().expect("it is somebody").caller()
    }

    /// Asks as who it is.
    pub fn ask(&self, request: Request) -> Said {
        self.ask_as(self.me(), request)
    }

    /// Asks as somebody.
    pub fn ask_as(&self, caller: Caller, request: Request) -> Said {
        self.say_as(self.there.session, caller, request)
    }

    /// Asks in the name of a session.
    pub fn say_as(&self, session: SessionNumber, caller: Caller, request: Request) -> Said {
        let map = &self.there.map;
        let to = NodeId::shard(map.shard(request.describe().about.slot(map)));
        self.say(to, MessageKind::Request, session, &RequestBody { caller, request }, &[])
    }

    /// Asks something else under the number of its last question.
    pub fn ask_instead(&self, request: Request) -> Said {
        self.count.set(self.count.get() - 1);
        self.ask(request)
    }

    /// What it was given for a file that it has opened.
    pub fn ticket(&self, id: InodeId) -> Option<Ticket> {
        self.tickets.borrow().get(&id).copied()
    }

    /// Asks a data node with this ticket.
    pub fn show(&self, ticket: Ticket, request: &DataRequest, bulk: &[u8]) -> Said {
        self.ask_data(DataRequest::Shown { ticket, source: None, request: Blob(request.to_bytes()) }, bulk)
    }

    /// Asks a data node.
    pub fn ask_data(&self, request: DataRequest, bulk: &[u8]) -> Said {
        let to = self.there.map.data(request.describe().data.expect("of a file").inode);
        self.say(to, MessageKind::Data, self.there.session, &request, bulk)
    }

    fn say(&self, to: NodeId, kind: MessageKind, session: SessionNumber, body: &impl Wire, bulk: &[u8]) -> Said {
        self.count.set(self.count.get() + 1);
        let seq = session.request(RequestSeq(self.count.get()));
        for _ in 0..TIMES {
            let mut header = Header::new(kind, NodeId::session(session.id()), seq);
            let now_ns = SystemTime::UNIX_EPOCH.elapsed().expect("it is later").as_nanos() as u64;
            header.cluster = self.there.fsid as u32;
            header.term = self.terms.borrow().get(&to).copied().unwrap_or_default();
            header.stamp = Stamp(now_ns);
            header.of_request_mut().expect("a request").tell_until(now_ns + 3_600_000_000_000);
            let packet = Packet::with_bulk(&header, body, bulk.to_vec().into());
            self.node.submit(&self.port, (to, packet));
            if let Some(said) = self.hear(to, seq) {
                return said;
            }
        }
        panic!("no answer")
    }

    /// The answer to a question; none if the question is to be sent again.
    fn hear(&self, to: NodeId, seq: RequestSeq) -> Option<Said> {
        loop {
            let packet = self.answers.recv_timeout(ANSWER_WITHIN).ok()?;
            let header = packet.header().expect("of a host");
            if header.seq != seq {
                continue;
            }
            self.terms.borrow_mut().insert(header.source, header.term);
            let said = match header.kind() {
                MessageKind::DataReply => Said::Data(packet.body().expect("an answer"), packet.bulk.to_vec()),
                _ => Said::Reply(packet.body().expect("an answer")),
            };
            match said {
                Said::Reply(Reply::Shown { ticket, reply }) => {
                    self.tickets.borrow_mut().insert(ticket.data.inode, ticket);
                    return Reply::inside(&reply).map(Said::Reply);
                }
                Said::Reply(Reply::NewTerm { term }) | Said::Data(DataReply::NewTerm { term }, _) => {
                    self.terms.borrow_mut().insert(to, term);
                    return None;
                }
                said => return Some(said),
            }
        }
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.way.stop();
        self.node.stop();
    }
}
