//! Further processes attached over a socket: handshake, loss, return.

use super::*;
use crate::journal::Commit;
use crate::node::{HostHooks, HostedRole, NoEffects, Node, NodeBuilder, Port};
use onpath_kernel::{Input, Need, Now, Output, Role};
use onpath_wire::identity::Holder;
use onpath_wire::ids::{RecordSeq, RequestSeq, SessionId, ShardId};
use onpath_wire::secrets::{PassKey, Secrets};
use onpath_wire::{Header, MessageKind};
use std::collections::VecDeque;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const FSID: u64 = 0xabc;
const DETACH: u64 = u64::MAX;

/// Answers every request of a session with the same bulk; remembers who detached.
struct Echo {
    address: NodeId,
    detached: Vec<NodeId>,
    outputs: VecDeque<Output<()>>,
}

impl Role for Echo {
    type In = ();
    type Out = ();

    fn handle(&mut self, _: Now, input: Input<()>) {
        let Input::Packet(packet) = input else { return };
        let header = packet.header().unwrap();
        if header.seq.0 == DETACH {
            return self.detached.push(header.source);
        }
        let reply = Header::new(MessageKind::Reply, self.address, header.seq);
        let packet = Packet::with_bulk(&reply, &0u8, packet.bulk);
        let (after, need) = (RecordSeq(0), Need::ByDestination);
        self.outputs.push_back(Output::Send { to: header.source, packet, after, need });
    }

    fn poll_output(&mut self) -> Option<Output<()>> {
        self.outputs.pop_front()
    }

    fn next_deadline(&self) -> Option<u64> {
        None
    }
}

impl HostedRole for Echo {}

/// Sends a request for each own input, and keeps the answers.
struct Asker {
    address: NodeId,
    got: Arc<Answers>,
    outputs: VecDeque<Output<()>>,
}

fn passes() -> PassKey {
    Secrets::of_seed(1).inner.passes()
}

/// That of a session of this process.
fn pass_of(session: u64) -> Pass {
    passes().pass(SessionNumber(session), Holder::User { uid: rustix::process::geteuid().as_raw() })
}

fn placement() -> Placement {
    Secrets::of_seed(1).placement
}

#[derive(Default)]
struct Answers {
    got: Mutex<Vec<(u64, usize)>>,
    resets: AtomicU64,
    refused: AtomicU64,
    renamed: Mutex<Option<SessionNumber>>,
    came: Condvar,
}

impl Answers {
    fn wait(&self, done: impl Fn(&[(u64, usize)]) -> bool) -> Vec<(u64, usize)> {
        let got = self.got.lock().unwrap();
        let waited = self.came.wait_timeout_while(got, Duration::from_secs(20), |got| !done(got)).unwrap();
        assert!(!waited.1.timed_out(), "{:?}", *waited.0);
        waited.0.clone()
    }

    fn changed(&self) {
        drop(self.got.lock().unwrap());
        self.came.notify_all();
    }
}

impl Role for Asker {
    type In = (u64, usize);
    type Out = ();

    fn handle(&mut self, _: Now, input: Input<(u64, usize)>) {
        match input {
            Input::Own((seq, bytes)) => {
                let (after, need) = (RecordSeq(0), Need::ByDestination);
                let packet = request(self.address, seq, bytes);
                self.outputs.push_back(Output::Send { to: shard(), packet, after, need });
            }
            Input::Packet(packet) => {
                let header = packet.header().unwrap();
                self.got.got.lock().unwrap().push((header.seq.0, packet.bulk.len()));
                self.got.came.notify_all();
            }
            _ => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output<()>> {
        self.outputs.pop_front()
    }

    fn next_deadline(&self) -> Option<u64> {
        None
    }
}

impl HostedRole for Asker {}

struct Hooks;

impl HostHooks for Hooks {
    fn flush_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn space(&self, _: bool) {}
    fn failed(&self, _: &str) {}
}

impl ClientHooks for Arc<Answers> {
    fn renamed(&self, _: &Node, session: SessionNumber) {
        *self.renamed.lock().unwrap() = Some(session);
    }

    fn reset(&self, _: &Node) {
        self.resets.fetch_add(1, Ordering::AcqRel);
        self.changed();
    }
    fn refused(&self, _: &Node, why: &StreamError) {
        assert!(matches!(why, StreamError::Refused { retry: false, .. }));
        self.refused.fetch_add(1, Ordering::AcqRel);
        self.changed();
    }
}

fn shard() -> NodeId {
    NodeId::shard(ShardId(0))
}

fn request(from: NodeId, seq: u64, bytes: usize) -> Packet {
    Packet::with_bulk(&Header::new(MessageKind::Request, from, RequestSeq(seq)), &0u8, vec![seq as u8; bytes].into())
}

struct Serving {
    node: Arc<Node>,
    port: Port<Echo>,
    server: StreamServer,
}

fn serve(dir: &Path, fsid: u64, next: &Arc<AtomicU64>) -> Serving {
    let mut builder = NodeBuilder::new();
    let echo = Echo { address: shard(), detached: vec![], outputs: VecDeque::new() };
    let port = builder.add(shard(), echo, NoEffects);
    let node = builder.start(Commit::Interval(100), None, Arc::new(Hooks));
    let (new, known) = (next.clone(), next.clone());
    let config = ServerConfig {
        dir: dir.to_owned(),
        fsid,
        shards: 1,
        path_nodes: vec![],
        placement: placement(),
        passes: passes(),
        sync: false,
        new_session: Box::new(move || Ok(SessionNumber(new.fetch_add(1, Ordering::AcqRel)))),
        known_session: Box::new(move |s| s.0 < known.load(Ordering::Acquire)),
        detach: Box::new(|session| (shard(), request(NodeId::session(session.id()), DETACH, 0))),
        examine: Box::new(|_| Ok(())),
        inspect: Box::new(|dir| status_json(&[("a".into(), vec![("id".into(), dir.0)])])),
        status: Box::new(|| status_json(&[("a".into(), vec![("x".into(), 1), ("y".into(), 2)]), ("b".into(), vec![])])),
    };
    let server = StreamServer::start(&node, config).unwrap();
    Serving { node, port, server }
}

impl Serving {
    fn count(&self, name: &str) -> u64 {
        self.server.status().iter().find(|(n, _)| n == name).unwrap().1
    }

    /// Waits until a condition on this side holds.
    fn until(&self, what: impl Fn(&Serving) -> bool) {
        let begin = std::time::Instant::now();
        while !what(self) {
            assert!(begin.elapsed() < Duration::from_secs(20));
            std::thread::yield_now();
        }
    }

    fn detached(&self) -> Vec<NodeId> {
        self.node.with_role(&self.port, |echo| echo.detached.clone())
    }
}

struct Client {
    node: Arc<Node>,
    port: Port<Asker>,
    got: Arc<Answers>,
    attached: Attached,
    welcome: Welcome,
}

fn client(dir: &Path) -> Client {
    let stream = StreamClient::connect(dir).unwrap();
    let (welcome, got) = (stream.welcome.clone(), Arc::new(Answers::default()));
    let address = NodeId::session(welcome.pass.session.id());
    let mut builder = NodeBuilder::new();
    let asker = Asker { address, got: got.clone(), outputs: VecDeque::new() };
    let port = builder.add(address, asker, NoEffects);
    let node = builder.start(Commit::Interval(100), None, Arc::new(Hooks));
    let attached = stream.start(&node, got.clone()).unwrap();
    Client { node, port, got, attached, welcome }
}

fn sessions() -> Arc<AtomicU64> {
    Arc::new(AtomicU64::new(5))
}

#[test]
fn what_fits_no_frame_is_lost_and_ends_nothing() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let conn = conn::Conn::new(ours);
    let packet = |bulk| {
        let header = Header::new(MessageKind::Reply, NodeId::shard(ShardId(0)), RequestSeq(1));
        Packet::with_bulk(&header, &0u8, vec![0; bulk].into())
    };
    conn.send(NodeId(7), packet(FRAME_BYTES_MAX));
    conn.send(NodeId(7), packet(5));
    assert_eq!(conn.lost.load(Ordering::Relaxed), 1);
    let Ok(Received::Message(NodeId(7), packet)) = receive(&mut &theirs) else { panic!("the other one comes") };
    assert_eq!(packet.bulk.len(), 5);
}

#[test]
fn messages_and_bulk_go_both_ways_and_the_end_detaches() {
    let tmp = tempfile::tempdir().unwrap();
    let serving = serve(tmp.path(), FSID, &sessions());
    let client = client(tmp.path());
    let (pass, placement) = (pass_of(5), placement());
    let expected = Welcome { fsid: FSID, pass, identity: None, shards: 1, path_nodes: vec![], placement, sync: false };
    assert_eq!(client.welcome, expected);
    let sizes = [0, 1, 4096, 1 << 20, 3 << 19, 17];
    for (seq, &bytes) in (0u64..).zip(&sizes) {
        client.node.submit(&client.port, (seq, bytes));
    }
    (6..5000).for_each(|seq| client.node.submit(&client.port, (seq, 100)));
    let mut got = client.got.wait(|got| got.len() == 5000);
    got.sort_unstable();
    assert!(got.iter().zip(0..).all(|(&(seq, bytes), i)| seq == i as u64 && bytes == *sizes.get(i).unwrap_or(&100)));
    assert_eq!(serving.count("streams"), 1);
    client.attached.stop();
    serving.until(|s| s.detached() == [NodeId::session(SessionId(5))]);
    assert_eq!(serving.count("malformed"), 0);
    client.node.stop();
    serving.node.stop();
}

/// A client by hand.
fn raw(dir: &Path, first: &Control) -> (UnixStream, Result<Received, StreamError>) {
    let mut stream = UnixStream::connect(dir.join("socket")).unwrap();
    send_control(&mut stream, first).unwrap();
    let answer = receive(&mut stream);
    (stream, answer)
}

fn hello(session: u64) -> Control {
    let pass = if session == 0 { Pass::default() } else { pass_of(session) };
    Control::Hello { magic: MAGIC, version: VERSION, fsid: 0, pass }
}

/// The server has refused, and is gone, before the question is written.
#[test]
fn a_refusal_is_heard_by_who_asks_too_late() {
    let (mut here, mut there) = UnixStream::pair().unwrap();
    send_control(&mut there, &Control::Refused { why: Blob(b"no\x1b[2J\nonpath: fine".to_vec()), retry: false })
        .unwrap();
    drop(there);
    let refused = super::client::ask(&mut here, &hello(0));
    let one_line = |why: &str| why == "no\\u{1b}[2J\\nonpath: fine";
    assert!(matches!(&refused, Err(StreamError::Refused { why, retry: false }) if one_line(why)), "{refused:?}");
}

#[test]
fn wrong_hellos_are_refused_with_words() {
    let tmp = tempfile::tempdir().unwrap();
    let serving = serve(tmp.path(), FSID, &sessions());
    let (magic, version, fsid, pass) = (MAGIC, VERSION, 0, Pass::default());
    let other = format!("version {}", VERSION + 1);
    let cases = [
        (Control::Hello { magic: 1, version, fsid, pass }, "no Onpath client"),
        (Control::Hello { magic, version: VERSION + 1, fsid, pass }, other.as_str()),
        (Control::Hello { magic, version, fsid: 1, pass }, "another file system"),
        (Control::StatusIs { json: Blob(vec![]) }, "the first frame is a hello"),
    ];
    for (i, (first, words)) in (1..).zip(cases) {
        let (_, answer) = raw(tmp.path(), &first);
        let Ok(Received::Control(Control::Refused { why, retry: false })) = answer else { panic!("{answer:?}") };
        assert!(String::from_utf8_lossy(&why.0).contains(words), "{}", String::from_utf8_lossy(&why.0));
        serving.until(|s| s.count("refused") == i);
    }
    let (_, unknown) = raw(tmp.path(), &hello(77));
    assert!(matches!(unknown, Ok(Received::Control(Control::Unknown { session: SessionNumber(77) }))), "{unknown:?}");
    let (_first, welcome) = raw(tmp.path(), &hello(4));
    assert!(matches!(welcome, Ok(Received::Control(Control::Welcome { pass, .. })) if pass == pass_of(4)));
    let (_, twice) = raw(tmp.path(), &hello(4));
    assert!(matches!(twice, Ok(Received::Control(Control::Refused { retry: true, .. }))), "{twice:?}");
    assert!(matches!(StreamClient::connect(Path::new("/nowhere")), Err(StreamError::NotServed { .. })));
    serving.node.stop();
}

/// Numbers of sessions can be guessed.
#[test]
fn a_session_is_gone_on_with_by_who_began_it_alone() {
    let tmp = tempfile::tempdir().unwrap();
    let serving = serve(tmp.path(), FSID, &sessions());
    let (mine, session) = (pass_of(4), SessionNumber(4));
    let other = Holder::User { uid: 12_345 };
    for pass in [
        Pass { session, ..Pass::default() },
        Pass { low: mine.low ^ 1, ..mine },
        Pass { session, ..pass_of(3) },
        Pass { holder: other, ..mine },
        passes().pass(session, other),
        passes().pass(session, Holder::Anybody),
        Secrets::of_seed(2).inner.passes().pass(session, mine.holder),
    ] {
        let (_, answer) = raw(tmp.path(), &Control::Hello { magic: MAGIC, version: VERSION, fsid: 0, pass });
        let Ok(Received::Control(Control::Refused { why, retry: false })) = answer else { panic!("{answer:?}") };
        assert!(String::from_utf8_lossy(&why.0).contains("somebody else"), "{pass:?}");
    }
    let (_first, welcome) = raw(tmp.path(), &hello(4));
    assert!(matches!(welcome, Ok(Received::Control(Control::Welcome { .. }))), "{welcome:?}");
    serving.node.stop();
}

#[test]
fn malformed_frames_close_the_stream_and_foreign_messages_are_dropped() {
    let tmp = tempfile::tempdir().unwrap();
    let serving = serve(tmp.path(), FSID, &sessions());
    let own = NodeId::session(SessionId(5));
    let frame = |to: NodeId, packet: &Packet| {
        [frame_start(to, packet).expect("it fits").as_slice(), &packet.head, &packet.bulk].concat()
    };
    let (mut stream, _) = raw(tmp.path(), &hello(0));
    let peer = Packet::new(&Header::new(MessageKind::Peer, own, RequestSeq(1)), &0u8);
    let foreign = [
        frame(shard(), &request(NodeId::session(SessionId(6)), 1, 0)),
        frame(shard(), &request(shard(), 1, 0)),
        frame(NodeId::session(SessionId(6)), &request(own, 1, 0)),
        frame(shard(), &peer),
        frame(shard(), &Packet::encoded(vec![1, 2, 3], Default::default())),
    ];
    foreign.iter().for_each(|bytes| stream.write_all(bytes).unwrap());
    stream.write_all(&frame(shard(), &request(own, 9, 3))).unwrap();
    let Ok(Received::Message(to, reply)) = receive(&mut stream) else { panic!("no reply") };
    assert_eq!((to, reply.header().unwrap().seq, reply.bulk.len()), (own, RequestSeq(9), 3));
    assert_eq!(serving.count("foreign"), 5);
    let bad: [[u32; 3]; 3] = [[u32::MAX, shard().0, 8], [20, shard().0, 13], [3, shard().0, 0]];
    for (i, words) in (1..).zip(bad) {
        stream.write_all(&words.map(u32::to_le_bytes).concat()).unwrap();
        assert!(receive(&mut stream).is_err());
        serving.until(|s| s.count("malformed") == i && s.count("streams") == 0);
        stream = raw(tmp.path(), &hello(0)).0;
    }
    assert_eq!(serving.detached().len(), 3);
    serving.node.stop();
}

#[test]
fn a_reader_that_sleeps_gets_everything_later_and_stops_nobody() {
    let tmp = tempfile::tempdir().unwrap();
    let serving = serve(tmp.path(), FSID, &sessions());
    let (mut lazy, _) = raw(tmp.path(), &hello(0));
    let own = NodeId::session(SessionId(5));
    let other = client(tmp.path());
    // The answers (32 MiB) are far more than a socket takes.
    for seq in 0..64 {
        serving.node.deliver(shard(), request(own, seq, 1 << 19));
    }
    other.node.submit(&other.port, (1, 10));
    other.got.wait(|got| got == [(1, 10)]);
    for seq in 0..64 {
        let Ok(Received::Message(_, packet)) = receive(&mut lazy) else { panic!("no answer {seq}") };
        assert_eq!(packet.header().unwrap().seq, RequestSeq(seq));
        assert!(packet.bulk.len() == 1 << 19 && packet.bulk.iter().all(|&b| b == seq as u8));
    }
    assert_eq!(serving.count("lost"), 0);
    other.node.stop();
    serving.node.stop();
}

#[test]
fn a_client_comes_back_under_its_session_when_the_server_restarts() {
    let tmp = tempfile::tempdir().unwrap();
    let ids = sessions();
    let mut serving = serve(tmp.path(), FSID, &ids);
    let client = client(tmp.path());
    client.node.submit(&client.port, (1, 0));
    client.got.wait(|got| got.len() == 1);
    assert_eq!(client.got.resets.load(Ordering::Acquire), 1);
    serving.server.stop();
    assert_eq!(serving.detached(), [], "a stopping server ends no session");
    serving.node.stop();
    let mut serving = serve(tmp.path(), FSID, &ids);
    client.got.wait(|_| client.got.resets.load(Ordering::Acquire) == 2);
    client.node.submit(&client.port, (2, 0));
    client.got.wait(|got| got.len() == 2);
    assert_eq!(ids.load(Ordering::Acquire), 6, "no new session was made");
    serving.server.stop();
    serving.node.stop();
    let serving = serve(tmp.path(), FSID + 1, &ids);
    client.got.wait(|_| client.got.refused.load(Ordering::Acquire) == 1);
    client.attached.stop();
    client.node.stop();
    serving.node.stop();
}

#[test]
fn status_is_asked_for_without_a_session() {
    let deep = tempfile::tempdir().unwrap();
    // Longer than a socket address.
    let dir = deep.path().join("d".repeat(120));
    std::fs::create_dir(&dir).unwrap();
    let serving = serve(&dir, FSID, &sessions());
    assert_eq!(request_status(&dir, ANSWER_WITHIN).unwrap(), r#"{"a":{"x":1,"y":2},"b":{}}"#);
    assert_eq!(serving.count("accepted"), 0);
    serving.node.stop();
}
