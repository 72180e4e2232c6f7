//! A client that says whatever a test wants it to say: its messages are made by hand, and nothing of a session's own checks is between it
//! and the hosts.

use onpath_client::key;
use onpath_client::way::{There, Way, WayError};
use onpath_host::journal::Commit;
use onpath_host::member::NoJournal;
use onpath_host::node::{HostedRole, NoEffects, Node, NodeBuilder, Port};
use onpath_host::stream::{Attached, ClientHooks, StreamClient, StreamError};
use onpath_host::udp::{Endpoint, EndpointConfig, EndpointHooks, Wait, endpoint_of_session};
use onpath_kernel::{Input, Need, Now, Output, Role};
use onpath_wire::caller::Caller;
use onpath_wire::codec::{Blob, Wire};
use onpath_wire::data::{DataReply, DataRequest};
use onpath_wire::identity::Refusal;
use onpath_wire::ids::{InodeId, NodeClass, NodeId, RecordSeq, RequestSeq, SessionNumber, Stamp, Term};
use onpath_wire::packet::Packet;
use onpath_wire::reply::Reply;
use onpath_wire::report::{MountIs, MountReport};
use onpath_wire::request::describe::About;
use onpath_wire::request::{Request, RequestBody};
use onpath_wire::ticket::Ticket;
use onpath_wire::{Header, MessageKind};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
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

impl EndpointHooks for Hooks {
    fn began_anew(&self, _: &Node, _: &[NodeId]) {}
}

/// By which way its messages go.
enum Carrier {
    Stream(Attached),
    Udp(Endpoint),
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
    way: Carrier,
}

impl Liar {
    /// Comes in by the socket of a DIR, as the user of this thread, and is a session.
    pub fn at(dir: &Path) -> Liar {
        let liar = Liar::stranger_at(dir);
        liar.attach();
        liar
    }

    /// The same without saying that it is a session.
    pub fn stranger_at(dir: &Path) -> Liar {
        let stream = StreamClient::connect(dir).expect("everybody is let in");
        Liar::by(Way::Stream(stream, String::new()), None)
    }

    /// Comes in to the hosts of a URL, with this key, and is a session.
    pub fn over(url: &str, key_file: &Path, patience: Duration) -> Result<Liar, WayError> {
        let liar = Liar::stranger_over(url, key_file, patience)?;
        liar.attach();
        Ok(liar)
    }

    /// The same without saying that it is a session.
    pub fn stranger_over(url: &str, key_file: &Path, patience: Duration) -> Result<Liar, WayError> {
        let way = Way::find(Path::new(url), Some(key_file), patience)?;
        Ok(Liar::by(way, Some(key_file)))
    }

    fn by(way: Way, key_file: Option<&Path>) -> Liar {
        let there = way.there();
        let (answers, heard) = channel();
        let mut builder = NodeBuilder::new();
        let mouth = Mouth { answers, outputs: VecDeque::new() };
        let port = builder.add(NodeId::session(there.session.id()), mouth, NoEffects);
        let node = builder.start(Commit::Interval(1), None, Arc::new(NoJournal));
        let way = match way {
            Way::Stream(stream, _) => Carrier::Stream(stream.start(&node, Hooks).expect("a thread")),
            Way::Udp(joined, ..) => {
                let config = EndpointConfig {
                    me: endpoint_of_session(joined.pass.session.id()),
                    cluster: joined.cluster.fsid as u32,
                    keys: key::keys_of(key_file).expect("a key"),
                    bind: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
                    hosts: joined.hosts,
                    serves: false,
                    wait: Wait::Block,
                    pass: joined.pass,
                };
                let endpoint = Endpoint::bind(config, Hooks).expect("a socket");
                endpoint.start(&node).expect("threads");
                Carrier::Udp(endpoint)
            }
        };
        let (terms, tickets) = (RefCell::default(), RefCell::default());
        Liar { node, port, answers: heard, terms, tickets, count: Cell::new(0), there, way }
    }

    /// Says that it is a session.
    pub fn attach(&self) {
        let joined = self.ask(Request::Attach { again: false });
        assert!(matches!(joined, Said::Reply(Reply::Attached { .. })), "{joined:?}");
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
        let to = self.asked_about(&request);
        self.say(to, MessageKind::Request, session, &RequestBody { caller, request }, &[])
    }

    /// Who is asked that.
    fn asked_about(&self, request: &Request) -> NodeId {
        let (map, about) = (&self.there.map, request.describe().about);
        let path_node = map.path_nodes().next().filter(|_| matches!(about, About::Path(_)));
        path_node.unwrap_or_else(|| NodeId::shard(map.shard(about.slot(map))))
    }

    /// Asks once; nothing if there is no answer in time.
    pub fn ask_once(&self, request: Request) -> Option<Said> {
        let to = self.asked_about(&request);
        let body = RequestBody { caller: self.me(), request };
        self.say_once(to, MessageKind::Request, self.there.session, &body, &[])
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
        self.show_both(ticket, None, request, bulk)
    }

    /// Asks that once; nothing if there is no answer in time.
    pub fn show_once(&self, ticket: Ticket, request: &DataRequest) -> Option<Said> {
        let to = self.there.map.data(ticket.data.inode);
        let shown = DataRequest::Shown { ticket, source: None, request: Blob(request.to_bytes()) };
        self.say_once(to, MessageKind::Data, self.there.session, &shown, &[])
    }

    /// Asks with one for the file of which a copy reads, too.
    pub fn show_both(&self, ticket: Ticket, source: Option<Ticket>, request: &DataRequest, bulk: &[u8]) -> Said {
        self.ask_data(DataRequest::Shown { ticket, source, request: Blob(request.to_bytes()) }, bulk)
    }

    /// Asks the data node of the file that it is about, or of the root.
    pub fn ask_data(&self, request: DataRequest, bulk: &[u8]) -> Said {
        let to = self.there.map.data(request.describe().data.map_or(InodeId::ROOT, |data| data.inode));
        self.say(to, MessageKind::Data, self.there.session, &request, bulk)
    }

    fn say(&self, to: NodeId, kind: MessageKind, session: SessionNumber, body: &impl Wire, bulk: &[u8]) -> Said {
        let said = self.say_once(to, kind, session, body, bulk);
        let again = |_| {
            self.count.set(self.count.get() - 1);
            self.say_once(to, kind, session, body, bulk)
        };
        said.or_else(|| (1..TIMES).find_map(again)).expect("an answer")
    }

    /// Sends a question under its next number; nothing if it is to be sent again.
    fn say_once(
        &self,
        to: NodeId,
        kind: MessageKind,
        session: SessionNumber,
        body: &impl Wire,
        bulk: &[u8],
    ) -> Option<Said> {
        self.count.set(self.count.get() + 1);
        let seq = session.request(RequestSeq(self.count.get()));
        let header = self.header(to, kind, NodeId::session(session.id()), seq);
        self.node.submit(&self.port, (to, Packet::with_bulk(&header, body, bulk.to_vec().into())));
        self.hear(to, seq)
    }

    fn header(&self, to: NodeId, kind: MessageKind, source: NodeId, seq: RequestSeq) -> Header {
        let mut header = Header::new(kind, source, seq);
        let now_ns = SystemTime::UNIX_EPOCH.elapsed().expect("it is later").as_nanos() as u64;
        header.cluster = self.there.fsid as u32;
        header.term = self.terms.borrow().get(&to).copied().unwrap_or_default();
        header.stamp = Stamp(now_ns);
        header.of_request_mut().into_iter().for_each(|asked| asked.tell_until(now_ns + 3_600_000_000_000));
        header
    }

    /// Sends a message of any kind in the name of anybody; `forwarded`: as a path node passes requests on. No answer is waited for.
    pub fn send(&self, to: NodeId, source: NodeId, kind: MessageKind, body: &[u8], forwarded: bool) {
        self.count.set(self.count.get() + 1);
        let seq = match source.class() {
            Some(NodeClass::Session) => self.there.session.request(RequestSeq(self.count.get())),
            _ => RequestSeq(self.count.get()),
        };
        let mut header = self.header(to, kind, source, seq);
        header.of_request_mut().into_iter().for_each(|asked| asked.forwarded = forwarded);
        let mut head = Vec::new();
        header.put(&mut head);
        head.extend_from_slice(body);
        self.node.submit(&self.port, (to, Packet::encoded(head, Vec::new().into())));
    }

    /// Says that it is a mount with this number.
    pub fn say_mount(&self, id: u64) {
        let is = MountIs { id, uptime_ms: 1, ..MountIs::default() };
        let report = MountReport { is, ..MountReport::default() };
        match &self.way {
            Carrier::Stream(stream) => stream.tell(report),
            Carrier::Udp(endpoint) => endpoint.tell(NodeId::shard(self.there.map.coordinator()), &report),
        }
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
        match &self.way {
            Carrier::Stream(stream) => stream.stop(),
            Carrier::Udp(endpoint) => endpoint.stop(),
        }
        self.node.stop();
    }
}
