//! Clients with keys of their own, each of which knows no other key.

use super::*;
use crate::node::HostedRole;
use onpath_kernel::{Input, Now, Output, Role};
use onpath_transport::{OwnedKey, Peer};
use onpath_wire::caller::Caller;
use onpath_wire::header::{Header, MessageKind};
use onpath_wire::identity::{Identity, Refusal};
use onpath_wire::ids::{InodeId, RequestSeq};
use onpath_wire::packet::Packet;
use onpath_wire::reply::Reply;
use onpath_wire::request::{Request, RequestBody};
use std::net::Ipv4Addr;

/// A role that answers nothing.
pub(super) struct Deaf;

impl Role for Deaf {
    type In = ();
    type Out = ();

    fn handle(&mut self, _: Now, _: Input<()>) {}
    fn poll_output(&mut self) -> Option<Output<()>> {
        None
    }
    fn next_deadline(&self) -> Option<u64> {
        None
    }
}

impl HostedRole for Deaf {}

pub(super) fn alice() -> Identity {
    Identity { uid: 7, gids: [8, 9].into_iter().collect(), caps: 0 }
}

pub(super) fn alices() -> Key {
    Key::new([10; 32])
}

pub(super) fn bobs() -> Key {
    Key::new([11; 32])
}

/// Who may be anybody, and still is no host.
pub(super) fn anybodys() -> Key {
    Key::new([12; 32])
}

pub(super) fn keys(all: &[(Key, Option<Identity>)]) -> Keys {
    let owned = all.iter().map(|(key, identity)| {
        let (key, identity) = (key.clone(), identity.clone());
        (key.id(), OwnedKey { name: "somebody".into(), key, identity })
    });
    Keys { owned: Arc::new(owned.collect()), ..Keys::one(key().unwrap()) }
}

pub(super) fn all() -> Keys {
    let bob = Identity { uid: 17, gids: [18].into_iter().collect(), caps: 0 };
    keys(&[(alices(), Some(alice())), (bobs(), Some(bob)), (anybodys(), None)])
}

fn holder(key: &Key) -> Holder {
    Holder::Key { id: key.id() }
}

fn join() -> Hello {
    Hello::Join { version: VERSION, nonce: 4, fsid: 0, first: 0 }
}

/// Says it with the challenge, and is not answered.
fn is_not_answered(victim: &Victim, sender: &mut Sender, socket: &UdpSocket, hello: &Hello) {
    socket.send_to(&sender.says(hello), victim.at).unwrap();
    if let Heard::Challenge(challenge) = sender.hears(socket) {
        sender.challenge = challenge;
    }
    socket.send_to(&sender.says(hello), victim.at).unwrap();
    // Whoever has the key of the cluster is answered after it.
    let other = self::socket("127.0.0.1");
    let status = Hello::Status { nonce: 1 };
    Sender::new(EndpointId(super::super::JOINING | 5), 6, key()).asks(&other, victim.at, &status);
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut datagram = [0; 2_048];
    while let Ok((bytes, _)) = socket.recv_from(&mut datagram) {
        let head = peek(&datagram[..bytes]).unwrap();
        assert!(head.to_boot != sender.config.boot || head.challenge(), "{hello:?} is answered");
    }
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
}

#[test]
fn a_session_is_of_the_key_that_it_began_with() {
    let victim = victim_with(Some(all()));
    for (key, who) in [(alices(), Some(alice())), (anybodys(), None)] {
        let (socket, mut client) =
            (socket("127.0.0.1"), Sender::new(EndpointId(super::super::JOINING | 9), 11, Some(key.clone())));
        let (answer, _) = client.asks(&socket, victim.at, &join());
        let Hello::Welcome { pass, identity, .. } = answer else { panic!("{answer:?}") };
        assert_eq!((pass.holder, &identity), (holder(&key), &who));
        assert!(passes().gave(&pass));
        let mut session = Sender::new(endpoint_of_session(pass.session.id()), 12, Some(key.clone()));
        let (answer, _) = session.asks(&socket, victim.at, &greet(0, pass));
        assert!(matches!(answer, Hello::Greeted { .. }), "{answer:?}");
        let bound = victim.endpoint.shared.peers.get(session.config.me).unwrap().lock().bound.clone();
        assert_eq!(bound.map(|bound| bound.identity.clone()), who);
    }
}

#[test]
fn a_pass_of_somebody_else_is_none() {
    let victim = victim_with(Some(all()));
    let (number, socket) = (SessionNumber(5), socket("127.0.0.1"));
    let endpoint = endpoint_of_session(number.id());
    let lies = [
        passes().pass(number, holder(&bobs())),
        passes().pass(number, holder(&anybodys())),
        passes().pass(number, Holder::Anybody),
        passes().pass(number, Holder::User { uid: 7 }),
        Pass { holder: holder(&alices()), ..passes().pass(number, holder(&bobs())) },
        Pass { holder: holder(&alices()), ..passes().pass(number, Holder::Anybody) },
    ];
    for pass in lies {
        let mut client = Sender::new(endpoint, 11, Some(alices()));
        is_not_answered(&victim, &mut client, &socket, &greet(0, pass));
    }
    // Nor does the key of the cluster take over what somebody has begun with his own.
    let mut client = Sender::new(endpoint, 11, key());
    is_not_answered(&victim, &mut client, &socket, &greet(0, passes().pass(number, holder(&alices()))));
    assert_eq!(victim.boot_of(endpoint), None);
}

/// The key of a client opens nothing of a host's.
#[test]
fn a_client_is_no_host() {
    let victim = victim_with(Some(all()));
    let host = endpoint_of_host(OTHER);
    for key in [alices(), anybodys()] {
        // From the very address of the host.
        let mut liar = Sender::new(host, 66, Some(key.clone()));
        is_not_answered(&victim, &mut liar, &victim.other, &greet(9, Pass::default()));
        // It knows the boot of who it lies to, and tries the numbers of its questions.
        liar.challenge = victim.endpoint.shared.config.boot;
        let public = Blob(Exchange::new([4; 32]).public().to_vec());
        for question in 0..50 {
            let greeted = Hello::Greeted { question, directory: Directory::default(), public: public.clone() };
            for hello in [greeted, Hello::Strange { question, old: true }] {
                victim.other.send_to(&liar.says(&hello), victim.at).unwrap();
            }
        }
        let socket = socket("127.0.0.1");
        for hello in [
            Hello::Status { nonce: 1 },
            Hello::Tell { nonce: 1, part: 0 },
            Hello::Inspect { nonce: 1, part: 0, inode: InodeId::ROOT },
            Hello::Next { nonce: 1, number: OTHER },
            greet(0, Pass::default()),
        ] {
            let mut client = Sender::new(EndpointId(super::super::JOINING | 9), 11, Some(key.clone()));
            is_not_answered(&victim, &mut client, &socket, &hello);
        }
    }
    assert_eq!(victim.boot_of(host), None);
    assert_eq!(victim.told.strange.load(Ordering::Relaxed), 0);
    assert!(victim.told.admitted.lock().unwrap().is_empty(), "no directory was looked at");
}

/// A session that has been let in.
pub(super) struct Session {
    pub(super) socket: UdpSocket,
    pub(super) peer: Peer,
    pub(super) number: SessionNumber,
}

impl Session {
    pub(super) fn begin(victim: &Victim, key: &Key, number: SessionNumber) -> Session {
        let socket = socket("127.0.0.1");
        let pass = passes().pass(number, holder(key));
        let mut client = Sender::new(endpoint_of_session(number.id()), 12, Some(key.clone()));
        let exchange = Exchange::new([4; 32]);
        let (answer, _) = client.asks(&socket, victim.at, &greet(0, pass));
        let Hello::Greeted { public, .. } = answer else { panic!("{answer:?}") };
        let config = Arc::new(Config { room: Room::default(), ..client.config });
        let mut peer = Peer::new(config, endpoint_of_host(THIS), 1_400);
        let agreed = exchange.agree(public.0.try_into().unwrap()).unwrap();
        peer.set_boot(victim.endpoint.shared.config.boot, agreed);
        Session { socket, peer, number }
    }

    /// Asks a shard as somebody; the answer, if one comes.
    fn asks(&mut self, victim: &Victim, caller: Caller) -> Option<Reply> {
        let me = NodeId::session(self.number.id());
        let header = Header::new(MessageKind::Request, me, self.number.request(RequestSeq(1)));
        let packet = Packet::new(&header, &RequestBody { caller, request: Request::Renew });
        let message = self.peer.single(NodeId::shard(ShardId(0)), &packet).unwrap();
        self.socket.send_to(&message, victim.at).unwrap();
        self.socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let (mut datagram, mut delivered) = ([0; 2_048], Vec::new());
        while let Ok((bytes, _)) = self.socket.recv_from(&mut datagram) {
            // Another one may be a challenge.
            _ = self.peer.receive(1, &mut datagram[..bytes], &mut delivered);
            if let Some((to, packet)) = delivered.pop() {
                assert_eq!(to, me);
                return packet.body().ok();
            }
        }
        None
    }
}

/// The key is looked at with each message, and not only at the beginning.
#[test]
fn whose_key_is_taken_away_says_nothing_more() {
    let victim = victim_with(Some(all()));
    let mut session = Session::begin(&victim, &alices(), SessionNumber(5));
    let count = || victim.endpoint.shared.counts.disallowed.load(Ordering::Relaxed);
    let refused = session.asks(&victim, Caller::default());
    assert_eq!(refused, Some(Reply::Refused { why: Refusal::Uid }));
    assert_eq!(count(), 1);
    // Its key is somebody else's now.
    let other = Identity { uid: 70, ..alice() };
    victim.endpoint.keyring()(keys(&[(alices(), Some(other))]));
    assert_eq!(session.asks(&victim, alice().caller()), Some(Reply::Refused { why: Refusal::Uid }));
    assert_eq!(count(), 2);
    victim.endpoint.keyring()(keys(&[(bobs(), Some(alice()))]));
    assert_eq!(session.asks(&victim, Caller::default()), None);
    assert_eq!(count(), 2, "it was not even looked at");
    let socket = socket("127.0.0.1");
    let mut client = Sender::new(EndpointId(super::super::JOINING | 9), 11, Some(alices()));
    is_not_answered(&victim, &mut client, &socket, &join());
    assert!(socket.local_addr().unwrap().ip() == Ipv4Addr::LOCALHOST);
}
