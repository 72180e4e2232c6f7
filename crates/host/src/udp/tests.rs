//! Attacks by who can send UDP to a host, with the key or without, and with recorded datagrams: sockets that say what they like.

use super::endpoint::{Endpoint, EndpointConfig, EndpointHooks};
use super::hello::{ClusterIs, Hello, HostIs, VERSION};
use super::{EndpointId, Key, Keys, Wait, endpoint_of_host, endpoint_of_session, join};
use crate::journal::Commit;
use crate::known::{Admission, Directory};
use crate::member::NoJournal;
use crate::node::{NoEffects, Node, NodeBuilder};
use onpath_transport::handshake::{self, To};
use onpath_transport::{Agreed, Config, Exchange, HEAD_BYTES, Keyring, Room, peek};
use onpath_wire::codec::{Blob, Wire};
use onpath_wire::identity::Holder;
use onpath_wire::ids::{NodeId, SessionNumber, ShardId};
use onpath_wire::secrets::{Pass, PassKey, Placement, Secrets};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

mod forwarded;
mod owned;

const CLUSTER: u32 = 7;
const THIS: u16 = 1;
const OTHER: u16 = 2;

/// What a host under attack was led to.
#[derive(Default)]
struct Told {
    strange: AtomicU64,
    sessions: AtomicU64,
    admitted: Mutex<Vec<u64>>,
}

struct Hooks(Arc<Told>);

impl EndpointHooks for Hooks {
    fn began_anew(&self, _node: &Node, _roles: &[NodeId]) {}
    fn admits(&self, _host: u16, told: Directory) -> Admission {
        self.0.admitted.lock().unwrap().push(told.id);
        Admission::Admitted
    }
    fn strange_to(&self, _host: u16, _old: bool) {
        self.0.strange.fetch_add(1, Ordering::Relaxed);
    }
    fn gave(&self, pass: &Pass) -> bool {
        passes().gave(pass)
    }
    fn join(&self, holder: Holder) -> Result<(Pass, Option<Placement>, ClusterIs), String> {
        let session = SessionNumber(self.0.sessions.fetch_add(1, Ordering::Relaxed) + 1);
        let hosts = vec![HostIs { number: THIS, shards: vec![0], data: true, ..HostIs::default() }];
        let cluster = ClusterIs { fsid: CLUSTER.into(), shards: 1, all: 1, hosts, ..ClusterIs::default() };
        Ok((passes().pass(session, holder), Some(Secrets::of_seed(1).placement), cluster))
    }
}

fn passes() -> PassKey {
    Secrets::of_seed(1).inner.passes()
}

fn pass_of(session: SessionNumber) -> Pass {
    passes().pass(session, Holder::Anybody)
}

/// A host that is attacked. Another one is configured, which is whoever has its socket.
struct Victim {
    endpoint: Endpoint,
    at: SocketAddr,
    told: Arc<Told>,
    other: UdpSocket,
}

fn victim(key: Option<Key>) -> Victim {
    victim_with(key.map(Keys::one))
}

fn victim_with(keys: Option<Keys>) -> Victim {
    victim_of(keys, false, |builder| _ = builder.add(NodeId::shard(ShardId(0)), owned::Deaf, NoEffects))
}

/// One with these roles; the other host has a path node, or none.
fn victim_of(keys: Option<Keys>, path: bool, roles: impl FnOnce(&mut NodeBuilder)) -> Victim {
    let other = socket("127.0.0.1");
    let place = |number, at: SocketAddr| {
        let path = path && number == OTHER;
        (HostIs { number, shards: vec![number - 1], path, ..HostIs::default() }, at)
    };
    let at = socket("127.0.0.1").local_addr().unwrap(); // free again
    let config = EndpointConfig {
        me: endpoint_of_host(THIS),
        cluster: CLUSTER,
        keys,
        bind: at,
        hosts: vec![place(THIS, at), place(OTHER, other.local_addr().unwrap())],
        serves: true,
        wait: Wait::Block,
        pass: Pass::default(),
    };
    let told = Arc::new(Told::default());
    let endpoint = Endpoint::bind(config, Hooks(told.clone())).unwrap();
    let mut builder = NodeBuilder::new();
    roles(&mut builder);
    let node = builder.start(Commit::Interval(1), None, Arc::new(NoJournal));
    endpoint.receive_for(&node).unwrap();
    Victim { endpoint, at, told, other }
}

fn socket(ip: &str) -> UdpSocket {
    let socket = UdpSocket::bind((ip, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

/// Somebody who says who he is.
struct Sender {
    config: Config,
    count: u64,
    challenge: u64,
}

impl Sender {
    fn new(me: EndpointId, boot: u64, key: Option<Key>) -> Sender {
        let config =
            Config { cluster: CLUSTER, me, boot, keyring: Keyring::new(key.map(Keys::one)), room: Room::default() };
        Sender { config, count: 0, challenge: 0 }
    }

    fn says(&mut self, hello: &Hello) -> Vec<u8> {
        self.count += 1;
        let to = To { cluster: CLUSTER, boot: self.challenge, key: None };
        handshake::make(&self.config, to, self.count, &hello.to_bytes())
    }

    /// Says it, and again with the challenge; the answer, and the datagram that was answered.
    fn asks(&mut self, socket: &UdpSocket, at: SocketAddr, hello: &Hello) -> (Hello, Vec<u8>) {
        for _ in 0..2 {
            let said = self.says(hello);
            socket.send_to(&said, at).unwrap();
            match self.hears(socket) {
                Heard::Answer(answer) => return (answer, said),
                Heard::Challenge(challenge) => self.challenge = challenge,
            }
        }
        panic!("challenged again");
    }

    /// The next datagram that is for this boot.
    fn hears(&self, socket: &UdpSocket) -> Heard {
        let mut datagram = [0; 2_048];
        loop {
            let (bytes, _) = socket.recv_from(&mut datagram).expect("the host says something");
            let head = peek(&datagram[..bytes]).unwrap();
            if head.to_boot != self.config.boot {
                continue; // the host greets
            }
            if head.challenge() {
                return Heard::Challenge(handshake::challenged(&head, &mut datagram[..bytes]).unwrap());
            }
            let opened = handshake::open(&self.config, &head, &mut datagram[..bytes]).unwrap();
            return Heard::Answer(Hello::from_bytes(&opened).unwrap());
        }
    }
}

#[derive(Debug, PartialEq)]
enum Heard {
    Challenge(u64),
    Answer(Hello),
}

fn key() -> Option<Key> {
    Some(Key::new([3; 32]))
}

fn greet(id: u64, pass: Pass) -> Hello {
    let public = Blob(Exchange::new([4; 32]).public().to_vec());
    Hello::Greet { version: VERSION, directory: Directory { id, ..Directory::default() }, pass, public }
}

impl Victim {
    fn boot_of(&self, endpoint: EndpointId) -> Option<u64> {
        self.endpoint.shared.peers.get(endpoint)?.lock().peer.boot()
    }

    fn address_of(&self, endpoint: EndpointId) -> Option<SocketAddr> {
        Some(self.endpoint.shared.peers.get(endpoint)?.lock().address)
    }
}

#[test]
fn a_recorded_greeting_brings_no_former_boot_back() {
    for key in [None, key()] {
        let victim = victim(key.clone());
        let host = endpoint_of_host(OTHER);
        let [mut former, mut present] = [11, 22].map(|boot| Sender::new(host, boot, key.clone()));
        let mut recorded = Vec::new();
        for (sender, id) in [(&mut former, 1), (&mut present, 2)] {
            let (answer, said) = sender.asks(&victim.other, victim.at, &greet(id, Pass::default()));
            assert!(matches!(answer, Hello::Greeted { question, .. } if question == sender.count + 1), "{answer:?}");
            recorded.push(said);
        }
        assert_eq!(victim.boot_of(host), Some(22));
        // The present one is known by what it has repeated before.
        let Heard::Answer(Hello::Greeted { .. }) = ({
            victim.other.send_to(&present.says(&greet(2, Pass::default())), victim.at).unwrap();
            present.hears(&victim.other)
        }) else {
            panic!("challenged again");
        };
        // From its own address, with the right key, and a moment after it was right.
        victim.other.send_to(&recorded[0], victim.at).unwrap();
        assert!(matches!(former.hears(&victim.other), Heard::Challenge(_)));
        assert_eq!(victim.boot_of(host), Some(22));
        assert_eq!(*victim.told.admitted.lock().unwrap(), [1, 2, 2], "nothing was asked of the former directory");
    }
}

/// Whoever listens knows the boot of a host, and can say that he is that host.
#[test]
fn nobody_else_is_this_process() {
    for key in [None, key()] {
        let victim = victim(key.clone());
        let (elsewhere, boot) = (socket("127.0.0.2"), victim.endpoint.shared.config.boot);
        let mut liar = Sender::new(endpoint_of_host(THIS), boot, None);
        for challenge in [0, 1, boot] {
            liar.challenge = challenge;
            elsewhere.send_to(&liar.says(&greet(9, Pass::default())), victim.at).unwrap();
        }
        // It goes on.
        let (client, status) = (EndpointId(super::JOINING | 1), Hello::Status { nonce: 2 });
        let (answer, _) = Sender::new(client, 4, key).asks(&elsewhere, victim.at, &status);
        assert!(matches!(answer, Hello::StatusIs { .. }), "{answer:?}");
        assert_eq!(victim.boot_of(endpoint_of_host(THIS)), Some(boot));
    }
}

#[test]
fn an_address_changes_for_whoever_answers_from_there() {
    let victim = victim(key());
    let (session, [here, there]) = (SessionNumber(5), [socket("127.0.0.1"), socket("127.0.0.2")]);
    let endpoint = endpoint_of_session(session.id());
    let mut client = Sender::new(endpoint, 11, key());
    let (_, recorded) = client.asks(&here, victim.at, &greet(0, pass_of(session)));
    assert_eq!(victim.address_of(endpoint), here.local_addr().ok());
    // Somebody sends what he has recorded from where he would like the answers.
    there.send_to(&recorded, victim.at).unwrap();
    assert!(matches!(client.hears(&there), Heard::Challenge(_)));
    assert_eq!(victim.address_of(endpoint), here.local_addr().ok());
    // The client itself has moved.
    client.asks(&there, victim.at, &greet(0, pass_of(session)));
    assert_eq!(victim.address_of(endpoint), there.local_addr().ok());
}

#[test]
fn a_session_is_whoever_was_given_it() {
    let victim = victim(key());
    let (number, socket) = (SessionNumber(5), socket("127.0.0.1"));
    let endpoint = endpoint_of_session(number.id());
    let later = SessionNumber(number.0 + ((1 << 24) - 1));
    assert_eq!(later.id(), number.id(), "the next holder of the id");
    let mut client = Sender::new(endpoint, 11, key());
    let wrong = [
        Pass { low: pass_of(number).low ^ 1, ..pass_of(number) },
        Pass { session: later, ..pass_of(number) },
        pass_of(SessionNumber(6)),
        Pass::default(),
    ];
    for pass in wrong {
        let Heard::Challenge(challenge) = ({
            socket.send_to(&client.says(&greet(0, pass)), victim.at).unwrap();
            client.hears(&socket)
        }) else {
            panic!("not challenged");
        };
        client.challenge = challenge;
        socket.send_to(&client.says(&greet(0, pass)), victim.at).unwrap();
        client.challenge = 0;
    }
    // What was sent before has been looked at when this is answered.
    client.asks(&socket, victim.at, &Hello::Status { nonce: 1 });
    assert_eq!(victim.boot_of(endpoint), None);
    client.asks(&socket, victim.at, &greet(0, pass_of(later)));
    assert_eq!(victim.boot_of(endpoint), Some(11));
    // The former holder is late.
    let mut former = Sender::new(endpoint, 9, key());
    socket.send_to(&former.says(&greet(0, pass_of(number))), victim.at).unwrap();
    let Heard::Challenge(challenge) = former.hears(&socket) else { panic!("not challenged") };
    former.challenge = challenge;
    socket.send_to(&former.says(&greet(0, pass_of(number))), victim.at).unwrap();
    client.asks(&socket, victim.at, &Hello::Status { nonce: 2 });
    assert_eq!(victim.boot_of(endpoint), Some(11));
}

#[test]
fn a_challenge_comes_before_a_join_and_is_no_longer_than_it() {
    let victim = victim(None);
    let (socket, boot) = (socket("127.0.0.1"), 11);
    let mut client = Sender::new(EndpointId(super::JOINING | 9), boot, None);
    let join = Hello::Join { version: VERSION, nonce: 4, fsid: 0, first: 0 };
    let mut datagram = [0; 2_048];
    for _ in 0..100 {
        let said = client.says(&join);
        socket.send_to(&said, victim.at).unwrap();
        let (bytes, _) = socket.recv_from(&mut datagram).unwrap();
        assert!(bytes == HEAD_BYTES && bytes <= said.len());
    }
    assert_eq!(victim.told.sessions.load(Ordering::Relaxed), 0, "nothing was spent");
    let (answer, recorded) = client.asks(&socket, victim.at, &join);
    assert!(matches!(answer, Hello::Welcome { pass, .. } if pass == pass_of(SessionNumber(1))));
    // The same question of somewhere else is not taken: its answer would be long.
    let elsewhere = self::socket("127.0.0.2");
    elsewhere.send_to(&recorded, victim.at).unwrap();
    let (bytes, _) = elsewhere.recv_from(&mut datagram).unwrap();
    assert_eq!(bytes, HEAD_BYTES);
}

/// Datagrams of somebody without the key, of 44 bytes and such as must be opened to see that, keep nobody else out.
#[test]
fn who_has_no_key_keeps_nobody_out() {
    let victim = victim(key());
    let flood = socket("127.0.0.2");
    let mut stranger = Sender::new(endpoint_of_session(SessionNumber(3).id()), 5, Some(Key::new([9; 32])));
    let status = Hello::Status { nonce: 1 };
    flood.send_to(&stranger.says(&status), victim.at).unwrap();
    let Heard::Challenge(challenge) = stranger.hears(&flood) else { panic!("not challenged") };
    let end = Instant::now() + Duration::from_secs(2);
    let mut rounds = 0;
    while Instant::now() < end {
        for challenge in [0, challenge] {
            stranger.challenge = challenge;
            flood.send_to(&stranger.says(&status), victim.at).unwrap();
        }
        rounds += 1;
        if rounds % 2_000 == 0 {
            let answered = super::ask_status(victim.at, key().map(Keys::one).as_ref()).unwrap();
            assert!(answered.is_some(), "after {rounds} rounds");
        }
    }
    assert!(rounds > 4_000, "{rounds}");
    let joined = join(&[victim.at], key().map(Keys::one).as_ref(), 0, Duration::from_secs(5));
    // The cluster of this test has no address to tell, which is found out after the host has answered.
    assert!(matches!(joined, Err(super::JoinError::Address { .. })), "{joined:?}");
    let counts = &victim.endpoint.shared.counts;
    assert!(counts.refused.load(Ordering::Relaxed) > 0, "its budgets are used up");
}

/// Without a key only the address of a host speaks for it, and nobody who guesses ends the process.
#[test]
fn without_a_key_a_host_is_where_it_is_configured() {
    let victim = victim(None);
    let host = endpoint_of_host(OTHER);
    let elsewhere = socket("127.0.0.2");
    let mut liar = Sender::new(host, 66, None);
    elsewhere.send_to(&liar.says(&greet(9, Pass::default())), victim.at).unwrap();
    let Heard::Challenge(challenge) = liar.hears(&elsewhere) else { panic!("not challenged") };
    liar.challenge = challenge;
    elsewhere.send_to(&liar.says(&greet(9, Pass::default())), victim.at).unwrap();
    // What a listener on the way knows: the boot of the host. The number of a question he sees, too, so he tries some.
    liar.challenge = victim.endpoint.shared.config.boot;
    for question in 0..50 {
        elsewhere.send_to(&liar.says(&Hello::Strange { question, old: false }), victim.at).unwrap();
    }
    // From the right address, but to no question that is open.
    for question in [u64::MAX, 1 << 40] {
        victim.other.send_to(&liar.says(&Hello::Strange { question, old: false }), victim.at).unwrap();
    }
    let mut other = Sender::new(host, 22, None);
    other.asks(&victim.other, victim.at, &greet(2, Pass::default()));
    assert_eq!(victim.boot_of(host), Some(22));
    assert_eq!(victim.told.strange.load(Ordering::Relaxed), 0);
    assert_eq!(*victim.told.admitted.lock().unwrap(), [2]);
    // A message of the host's present life, from elsewhere.
    let shared = &victim.endpoint.shared;
    let config = Arc::new(Config { room: Room::default(), ..other.config });
    let mut peer = onpath_transport::Peer::new(config, endpoint_of_host(THIS), 1_400);
    peer.set_boot(shared.config.boot, Agreed::new([0; 32]));
    let said = onpath_wire::packet::Packet::encoded(vec![0; 60], Default::default());
    let message = peer.single(NodeId::data(THIS), &said).unwrap();
    let before = shared.counts.malformed.load(Ordering::Relaxed);
    let foreign = shared.counts.foreign.load(Ordering::Relaxed);
    elsewhere.send_to(&message, victim.at).unwrap();
    let mut client = Sender::new(EndpointId(super::JOINING | 1), 4, None);
    client.asks(&elsewhere, victim.at, &Hello::Status { nonce: 2 });
    assert_eq!(shared.counts.malformed.load(Ordering::Relaxed), before + 1);
    assert_eq!(shared.counts.foreign.load(Ordering::Relaxed), foreign);
    // The same from where it is: it is looked at.
    victim.other.send_to(&message, victim.at).unwrap();
    client.asks(&elsewhere, victim.at, &Hello::Status { nonce: 3 });
    assert_eq!(shared.counts.foreign.load(Ordering::Relaxed), foreign + 1);
}
