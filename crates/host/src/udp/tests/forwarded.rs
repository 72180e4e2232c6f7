//! What a host with a path node passes on in the name of sessions, and what it may not say.

use super::owned::{Session, alice, alices, all, anybodys, bobs, keys};
use super::*;
use crate::node::HostedRole;
use bytes::Bytes;
use onpath_kernel::{Input, Now, Output, Role};
use onpath_transport::Peer;
use onpath_wire::caller::Caller;
use onpath_wire::header::{Header, MessageKind};
use onpath_wire::identity::Identity;
use onpath_wire::ids::{InodeId, RequestSeq};
use onpath_wire::name::Name;
use onpath_wire::packet::Packet;
use onpath_wire::request::{Request, RequestBody};

/// Messages that have come to roles: their senders, and whether they are bound.
type Heard = Arc<Mutex<Vec<(NodeId, bool)>>>;

/// A role that notes what comes.
struct Notes(Heard);

impl Role for Notes {
    type In = ();
    type Out = ();

    fn handle(&mut self, _: Now, input: Input<()>) {
        if let Input::Packet(packet) = input {
            self.0.lock().unwrap().push((packet.header().unwrap().source, packet.bound));
        }
    }
    fn poll_output(&mut self) -> Option<Output<()>> {
        None
    }
    fn next_deadline(&self) -> Option<u64> {
        None
    }
}

impl HostedRole for Notes {}

/// The shard of the host.
fn shard() -> NodeId {
    NodeId::shard(ShardId(0))
}

/// Its data node.
fn data() -> NodeId {
    NodeId::data(THIS)
}

/// A host that notes what it takes, and another one that has greeted it.
struct Site {
    victim: Victim,
    heard: Heard,
    other: Peer,
}

impl Site {
    fn new(path: bool) -> Site {
        let heard = Heard::default();
        let victim = victim_of(Some(all()), path, |builder| {
            for role in [shard(), data()] {
                builder.add(role, Notes(heard.clone()), NoEffects);
            }
        });
        let mut sender = Sender::new(endpoint_of_host(OTHER), 22, key());
        let (answer, _) = sender.asks(&victim.other, victim.at, &greet(2, Pass::default()));
        let Hello::Greeted { public, .. } = answer else { panic!("{answer:?}") };
        let config = Arc::new(Config { room: Room::default(), ..sender.config });
        let mut other = Peer::new(config, endpoint_of_host(THIS), 1_400);
        let agreed = Exchange::new([4; 32]).agree(public.0.try_into().unwrap()).unwrap();
        other.set_boot(victim.endpoint.shared.config.boot, agreed);
        Site { victim, heard, other }
    }

    /// The other host says that to a role.
    fn says(&mut self, to: NodeId, packet: &Packet) {
        let message = self.other.single(to, packet).unwrap();
        self.victim.other.send_to(&message, self.victim.at).unwrap();
    }

    /// What has been taken when so many messages have come and were looked at, and how many of them were foreign and disallowed.
    fn after(&self, messages: usize) -> (Vec<(NodeId, bool)>, u64, u64) {
        let counts = &self.victim.endpoint.shared.counts;
        let end = Instant::now() + Duration::from_secs(5);
        loop {
            let heard = self.heard.lock().unwrap().clone();
            let [foreign, disallowed] =
                [&counts.foreign, &counts.disallowed].map(|count| count.load(Ordering::Relaxed));
            if heard.len() + (foreign + disallowed) as usize >= messages {
                return (heard, foreign, disallowed);
            }
            assert!(Instant::now() < end, "{heard:?} is taken, {foreign} foreign, {disallowed} disallowed");
            std::thread::yield_now();
        }
    }
}

fn lookup(number: SessionNumber, kind: MessageKind, forwarded: bool, caller: Caller) -> Packet {
    let mut header = Header::new(kind, NodeId::session(number.id()), number.request(RequestSeq(1)));
    if let Some(of) = header.of_request_mut() {
        of.forwarded = forwarded;
    }
    let request = Request::Lookup { parent: InodeId::ROOT, name: Name::new(b"a").unwrap() };
    Packet::new(&header, &RequestBody { caller, request })
}

const ALICES: SessionNumber = SessionNumber(5);
const ANYBODYS: SessionNumber = SessionNumber(6);

/// What a path node of that host would send.
fn forwarded(number: SessionNumber, caller: Caller) -> Packet {
    lookup(number, MessageKind::Request, true, caller)
}

#[test]
fn a_path_node_passes_on_what_sessions_ask() {
    let mut site = Site::new(true);
    for (key, number) in [(alices(), ALICES), (anybodys(), ANYBODYS)] {
        Session::begin(&site.victim, &key, number);
    }
    let [alices_node, anybodys_node] = [ALICES, ANYBODYS].map(|number| NodeId::session(number.id()));
    site.says(shard(), &forwarded(ALICES, alice().caller()));
    site.says(shard(), &forwarded(ANYBODYS, Caller::default()));
    // As somebody else she may not ask, whatever the path node has seen.
    site.says(shard(), &forwarded(ALICES, Caller::default()));
    let taken = vec![(alices_node, true), (anybodys_node, false)];
    assert_eq!(site.after(3), (taken.clone(), 0, 1));
    // Her key is somebody else's, and then it is gone.
    let keyring = site.victim.endpoint.keyring();
    keyring(keys(&[(alices(), Some(Identity { uid: 70, ..alice() })), (anybodys(), None)]));
    site.says(shard(), &forwarded(ALICES, alice().caller()));
    assert_eq!(site.after(4), (taken.clone(), 0, 2));
    keyring(keys(&[(bobs(), Some(alice()))]));
    site.says(shard(), &forwarded(ALICES, alice().caller()));
    site.says(shard(), &forwarded(ANYBODYS, Caller::default()));
    assert_eq!(site.after(6), (taken, 2, 2));
}

#[test]
fn a_path_node_says_nothing_else_in_the_name_of_others() {
    let mut site = Site::new(true);
    Session::begin(&site.victim, &anybodys(), ANYBODYS);
    let caller = Caller::default;
    let later = SessionNumber(ANYBODYS.0 + ((1 << 24) - 1));
    assert_eq!(later.id(), ANYBODYS.id(), "the next holder of the id");
    let of_role = |role, kind| Packet::encoded(Header::new(kind, role, RequestSeq(1)).bytes().to_vec(), Bytes::new());
    let lies = [
        (shard(), lookup(ANYBODYS, MessageKind::Request, false, caller())),
        (data(), forwarded(ANYBODYS, caller())),
        (shard(), lookup(ANYBODYS, MessageKind::Data, true, caller())),
        (data(), lookup(ANYBODYS, MessageKind::Data, true, caller())),
        (shard(), lookup(ANYBODYS, MessageKind::Peer, false, caller())),
        (shard(), lookup(ANYBODYS, MessageKind::Reply, false, caller())),
        // Nobody of that number has greeted this host.
        (shard(), forwarded(later, caller())),
        (shard(), forwarded(SessionNumber(77), caller())),
        // Roles of others.
        (shard(), of_role(NodeId::path(THIS), MessageKind::Peer)),
        (shard(), of_role(NodeId::path(3), MessageKind::Peer)),
        (shard(), of_role(NodeId::shard(ShardId(7)), MessageKind::Peer)),
    ];
    for (to, packet) in &lies {
        site.says(*to, packet);
    }
    assert_eq!(site.after(lies.len()), (vec![], lies.len() as u64, 0));
    // It speaks for itself.
    site.says(shard(), &of_role(NodeId::path(OTHER), MessageKind::Peer));
    assert_eq!(site.after(lies.len() + 1).0, [(NodeId::path(OTHER), false)]);
}

#[test]
fn a_host_without_a_path_node_passes_nothing_on() {
    let mut site = Site::new(false);
    Session::begin(&site.victim, &anybodys(), ANYBODYS);
    site.says(shard(), &forwarded(ANYBODYS, Caller::default()));
    let own = Header::new(MessageKind::Peer, NodeId::path(OTHER), RequestSeq(1));
    site.says(shard(), &Packet::encoded(own.bytes().to_vec(), Bytes::new()));
    assert_eq!(site.after(2), (vec![], 2, 0));
}

#[test]
fn a_session_passes_nothing_on() {
    let site = Site::new(true);
    let mut session = Session::begin(&site.victim, &anybodys(), ANYBODYS);
    for (count, packet) in [
        forwarded(ANYBODYS, Caller::default()),
        forwarded(SessionNumber(77), Caller::default()),
        lookup(SessionNumber(77), MessageKind::Request, false, Caller::default()),
    ]
    .iter()
    .enumerate()
    {
        let message = session.peer.single(shard(), packet).unwrap();
        session.socket.send_to(&message, site.victim.at).unwrap();
        assert_eq!(site.after(count + 1), (vec![], count as u64 + 1, 0));
    }
    let asked = lookup(session.number, MessageKind::Request, false, Caller::default());
    let message = session.peer.single(shard(), &asked).unwrap();
    session.socket.send_to(&message, site.victim.at).unwrap();
    assert_eq!(site.after(4).0, [(NodeId::session(ANYBODYS.id()), false)]);
}
