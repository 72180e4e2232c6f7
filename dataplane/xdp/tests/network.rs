//! A switch and hosts with sockets: what is sent to the switch arrives where the rules say.

mod common;

use common::{Network, SWITCH, network, report, route};
use onpath_dataplane::dirty_set::registers::STAGES_MAX;
use onpath_dataplane::{Command, Config, Counter, Port, State};
use onpath_testing::skipped;
use onpath_wire::ids::{NodeId, SessionId, ShardId, Term, TrackingEpoch};
use onpath_wire::innet::{DirtySet, Fingerprint, INDEX_BITS, INNET_UDP_PORT, InNet, InNetResult};
use onpath_xdp::{XdpConfig, XdpSwitch};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

const CLUSTER: u32 = 7;
const EPOCH: TrackingEpoch = TrackingEpoch(3);
const OWNER: NodeId = NodeId(0x0100_0000);
const SITE: ShardId = ShardId(1);

fn config() -> XdpConfig {
    XdpConfig { program: Config::whole(CLUSTER), address: SWITCH }
}

/// Begins an epoch in which the set is complete.
fn begin(switch: &mut XdpSwitch) {
    switch.control(&Command::Raise { shard: SITE.0, term: 1 }).expect("a term");
    switch.control(&Command::Epoch(EPOCH.0)).expect("an epoch");
    switch.control(&Command::Complete(EPOCH.0)).expect("the present epoch");
}

/// Lets the place of a node change registers.
fn list(switch: &mut XdpSwitch, node: NodeId) {
    switch.control(&Command::Host { port: Port(node.0) }).expect("a host");
}

fn send(socket: &UdpSocket, header: &InNet) {
    let payload = [&header.bytes()[..], b"the message"].concat();
    socket.send_to(&payload, (SWITCH, INNET_UDP_PORT)).expect("sent");
}

/// The header of the next datagram, which comes from the switch and has the message whole.
fn received(socket: &UdpSocket) -> DirtySet {
    let mut bytes = [0; 2048];
    let (length, from) = socket.recv_from(&mut bytes).expect("a datagram in time");
    assert_eq!(from, SocketAddr::from((SWITCH, INNET_UDP_PORT)));
    let (header, message) = InNet::split(&bytes[..length]).expect("a header");
    assert_eq!(message, b"the message");
    *header
}

fn nothing_more(sockets: &[&UdpSocket]) {
    for socket in sockets {
        socket.set_nonblocking(true).expect("a socket");
        assert!(socket.recv_from(&mut [0; 64]).is_err(), "a datagram too many");
        socket.set_nonblocking(false).expect("a socket");
    }
}

fn client() -> NodeId {
    NodeId::session(SessionId(1))
}

fn directory() -> Fingerprint {
    Fingerprint::new(5, 7).expect("a fingerprint")
}

/// A network of three hosts: client, owner, site. All addressed, in an epoch.
fn three() -> Result<(Network, XdpSwitch, [UdpSocket; 3]), String> {
    let (network, mut switch) = network(3, config())?;
    let sockets = [0, 1, 2].map(|host: usize| network.hosts[host].socket(9000));
    for (node, host) in [client(), OWNER, NodeId::shard(SITE)].iter().zip(&network.hosts) {
        route(&mut switch, node.0, host.way(9000));
    }
    list(&mut switch, NodeId::shard(SITE));
    begin(&mut switch);
    Ok((network, switch, sockets))
}

#[test]
fn a_query_is_answered_on_its_way() {
    let (_network, switch, [client, owner, site]) = match three() {
        Ok(all) => all,
        Err(why) => return skipped("a_query_is_answered_on_its_way", &why),
    };
    send(&client, &InNet::query(CLUSTER, EPOCH, directory(), OWNER));
    assert_eq!(received(&owner).result(), Some(InNetResult::Normal));
    send(&client, &InNet::query(CLUSTER, TrackingEpoch(9), directory(), OWNER));
    assert_eq!(received(&owner).result(), Some(InNetResult::Unknown));
    nothing_more(&[&client, &owner, &site]);
    assert_eq!(switch.count(Counter::QueryNormal).expect("a counter"), 1);
}

#[test]
fn a_mark_goes_to_its_client_and_back_to_its_shard() {
    let (_network, switch, [user, owner, site]) = match three() {
        Ok(all) => all,
        Err(why) => return skipped("a_mark_goes_to_its_client_and_back_to_its_shard", &why),
    };
    let mark = InNet::insert(CLUSTER, EPOCH, directory(), (SITE, 1, 4), Some(client()));
    for _ in 0..100 {
        send(&site, &mark);
        let (acknowledged, told) = (received(&site), received(&user));
        assert_eq!(acknowledged, DirtySet { result: 4, destination: NodeId::shard(SITE).0, ..*mark });
        assert_eq!(told, DirtySet { result: 4, destination: client().0, ..*mark });
    }
    send(&user, &InNet::query(CLUSTER, EPOCH, directory(), OWNER));
    assert_eq!(received(&owner).result(), Some(InNetResult::Scattered));
    let remove = InNet::remove(CLUSTER, EPOCH, directory(), (SITE, Term(1), 1), OWNER);
    send(&site, &remove);
    assert_eq!(received(&owner), DirtySet { result: 7, ..*remove });
    send(&site, &remove);
    send(&user, &InNet::query(CLUSTER, EPOCH, directory(), OWNER));
    assert_eq!(received(&owner).result(), Some(InNetResult::Normal));
    nothing_more(&[&user, &owner, &site]);
    assert_eq!(switch.count(Counter::DropNotNewer).expect("a counter"), 1);
    assert_eq!(switch.count(Counter::CopiesSent).expect("a counter"), 203);
}

/// D-44: device, address and UDP port together tell a host.
#[test]
fn strangers_change_nothing() {
    const TEST: &str = "strangers_change_nothing";
    let (network, mut switch, [user, owner, site]) = match three() {
        Ok(all) => all,
        Err(why) => return skipped(TEST, &why),
    };
    let mark = InNet::insert(CLUSTER, EPOCH, directory(), (SITE, 1, 4), Some(client()));
    let remove = |sequence| InNet::remove(CLUSTER, EPOCH, directory(), (SITE, Term(1), sequence), OWNER);
    send(&site, &mark);
    assert_eq!((received(&site).result, received(&user).result), (4, 4));
    // A local user of the host, another host, and one that says it were the host, by another cable.
    let local = network.hosts[2].socket(9001);
    let taken = network.hosts[2].address;
    network.hosts[1].at.ip(&format!("addr add {taken}/32 dev eth0")).expect("an address");
    let forged = network.hosts[1].at.within(|| UdpSocket::bind((taken, 9000))).expect("a free port");
    for (sequence, stranger) in (1..).zip([&local, &owner, &forged]) {
        send(stranger, &remove(sequence));
        send(stranger, &mark);
        let deadline = std::time::Instant::now() + common::PATIENCE;
        while switch.count(Counter::DropStranger).expect("a counter") < 2 * u64::from(sequence) {
            assert!(std::time::Instant::now() < deadline, "not dropped: {:?}", switch.counters());
        }
    }
    send(&user, &InNet::query(CLUSTER, EPOCH, directory(), OWNER));
    assert_eq!(received(&owner).result(), Some(InNetResult::Scattered), "the mark is there");
    send(&site, &remove(1));
    assert_eq!(received(&owner).result(), Some(InNetResult::Removed), "and no counter was raised");
    nothing_more(&[&user, &owner, &site]);
    // A host that is one no longer.
    switch.control(&Command::Unhost { port: Port(NodeId::shard(SITE).0) }).expect("away");
    send(&site, &mark);
    send(&user, &InNet::query(CLUSTER, EPOCH, directory(), OWNER));
    assert_eq!(received(&owner).result(), Some(InNetResult::Normal));
    nothing_more(&[&user, &owner, &site]);
}

/// Both copies leave by one device: two nodes of one host.
#[test]
fn two_copies_leave_by_one_device() {
    const TEST: &str = "two_copies_leave_by_one_device";
    let (network, mut switch) = match network(2, config()) {
        Ok(all) => all,
        Err(why) => return skipped(TEST, &why),
    };
    let (site, user) = (network.hosts[0].socket(9000), network.hosts[0].socket(9001));
    let (other, far) = (network.hosts[1].socket(9000), NodeId::session(SessionId(2)));
    route(&mut switch, NodeId::shard(SITE).0, network.hosts[0].way(9000));
    route(&mut switch, client().0, network.hosts[0].way(9001));
    route(&mut switch, far.0, network.hosts[1].way(9000));
    list(&mut switch, NodeId::shard(SITE));
    begin(&mut switch);
    for generation in 0..200 {
        let to = if generation % 3 == 0 { far } else { client() };
        send(&site, &InNet::insert(CLUSTER, EPOCH, directory(), (SITE, 1, generation), Some(to)));
        send(&site, &InNet::insert(CLUSTER, EPOCH, directory(), (SITE, 1, 1000 + generation), Some(client())));
        for expected in [generation, 1000 + generation] {
            let acknowledged = received(&site);
            assert_eq!((acknowledged.sequence, acknowledged.destination), (expected, NodeId::shard(SITE).0));
            let (socket, node) = if expected == generation && to == far { (&other, far) } else { (&user, client()) };
            let told = received(socket);
            assert_eq!((told.sequence, told.destination, told.flags), (expected, node.0, 0));
        }
    }
    nothing_more(&[&site, &user, &other]);
}

#[test]
fn a_full_set_tells_the_shard_alone() {
    const TEST: &str = "a_full_set_tells_the_shard_alone";
    let (_network, switch, [user, owner, site]) = match three() {
        Ok(all) => all,
        Err(why) => return skipped(TEST, &why),
    };
    let mark = |tag| {
        let fingerprint = Fingerprint::new(5, tag).expect("a fingerprint");
        InNet::insert(CLUSTER, EPOCH, fingerprint, (SITE, 1, tag), Some(client()))
    };
    for tag in 1..=STAGES_MAX as u32 {
        send(&site, &mark(tag));
        assert_eq!((received(&site).result, received(&user).result), (4, 4));
    }
    send(&site, &mark(100));
    assert_eq!(received(&site).result(), Some(InNetResult::Full));
    nothing_more(&[&user, &owner, &site]);
    assert_eq!(switch.state().expect("registers").tags.len(), STAGES_MAX);
}

/// Two processors insert and remove at once, in the same sets: at the end the set has what must be there, and no tag twice.
#[test]
fn two_processors_lose_no_mark() {
    const TEST: &str = "two_processors_lose_no_mark";
    const ROUNDS: u32 = 30_000;
    let small = XdpConfig { program: Config { index_bits: 2, ..Config::whole(CLUSTER) }, address: SWITCH };
    let (network, mut switch) = match network(2, small) {
        Ok(all) => all,
        Err(why) => return skipped(TEST, &why),
    };
    begin(&mut switch);
    for (number, host) in (1..).zip(&network.hosts) {
        switch.set_way(Port(number), host.way(9000)).expect("a device of the switch");
        switch.control(&Command::Host { port: Port(number) }).expect("a host");
    }
    switch.control(&Command::Raise { shard: 0, term: 1 }).expect("a term");
    // Every shard has tags of its own, at the four indexes of both: those of an even number stay at the end.
    let hammer = |host: usize| {
        let (socket, shard) = (network.hosts[host].socket(9000), ShardId(host as u16));
        move || {
            let mut sequence = 0;
            for round in 0..ROUNDS {
                let tag = 1 + host as u32 * 100 + round % 4;
                let fingerprint = Fingerprint::new(round / 4 % 4, tag).expect("a fingerprint");
                send(&socket, &InNet::insert(CLUSTER, EPOCH, fingerprint, (shard, 1, round), None));
                if tag % 2 == 1 {
                    sequence += 1;
                    send(&socket, &InNet::remove(CLUSTER, EPOCH, fingerprint, (shard, Term(1), sequence), OWNER));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for host in 0..2 {
            let work = hammer(host);
            scope.spawn(move || {
                common::pin_to(host);
                work();
            });
        }
    });
    let sent = u64::from(ROUNDS) * 3;
    let done = || {
        let [marked, removed] =
            [Counter::InsertMarked, Counter::RemoveDone].map(|counter| switch.count(counter).expect("a counter"));
        marked + removed
    };
    let deadline = std::time::Instant::now() + common::PATIENCE;
    while done() < sent && std::time::Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!(done(), sent, "each was executed once: {:?}", switch.counters());
    let State { tags, pairs, .. } = switch.state().expect("registers");
    let mut there: Vec<(u32, u32)> = tags.iter().map(|&(_, index, tag)| (index, tag)).collect();
    there.sort_unstable();
    let wanted: Vec<(u32, u32)> = (0..4).flat_map(|index| [2, 4, 102, 104].map(|tag| (index, tag))).collect();
    assert_eq!(there, wanted);
    assert!(pairs.iter().all(|(_, pair)| pair.counter == ROUNDS / 2), "{pairs:?}");
    report(&format!("{TEST}: {sent} packets of two processors"));
}

/// Two processors put a tag each into the same empty set at the same moment, set after set: both are there, also that which came second.
#[test]
fn marks_of_one_moment_are_both_there() {
    const TEST: &str = "marks_of_one_moment_are_both_there";
    // Without routes no copy leaves and no frame is changed, so the program may be run on one again and again.
    let (_network, mut switch) = match network(1, config()) {
        Ok(both) => both,
        Err(why) => return skipped(TEST, &why),
    };
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return skipped(TEST, "one processor");
    }
    begin(&mut switch);
    // What is given to the program comes in by the loopback device, which is number 1 everywhere.
    switch.list(1, SocketAddrV4::new(Ipv4Addr::new(10, 9, 0, 1), 9000)).expect("a host");
    let (switch, sets) = (&switch, 1u32 << INDEX_BITS);
    let reached = [AtomicU32::new(0), AtomicU32::new(0)];
    let mark = &|me: usize| {
        common::pin_to(me);
        for index in 0..sets {
            let fingerprint = Fingerprint::new(index, 1 + me as u32).expect("a fingerprint");
            let insert = InNet::insert(CLUSTER, EPOCH, fingerprint, (SITE, 1, 1), None);
            let frame = common::frame::frame_to(INNET_UDP_PORT, &insert.bytes());
            reached[me].store(index + 1, Ordering::SeqCst);
            while reached[1 - me].load(Ordering::SeqCst) <= index {
                std::hint::spin_loop();
            }
            // Not at the very same distance each time.
            (0..index % 64 * (1 + me as u32)).for_each(|_| std::hint::spin_loop());
            switch.try_frame(&frame, 4).expect("a frame");
        }
    };
    std::thread::scope(|scope| {
        [0, 1].map(|me| scope.spawn(move || mark(me))).map(|thread| thread.join().expect("marked"))
    });
    let tags = switch.state().expect("registers").tags;
    assert_eq!(tags.len(), 2 * sets as usize, "each tag of both is in every set, once");
}

#[test]
fn detached_a_device_is_as_before() {
    const TEST: &str = "detached_a_device_is_as_before";
    let network = match Network::of(1) {
        Ok(network) => network,
        Err(why) => return skipped(TEST, &why),
    };
    let shown = || network.switch.ip("-d link show dev port0").expect("a device");
    let before = shown();
    let switch = match network.attach(config()) {
        Ok(switch) => switch,
        Err(error) => return skipped(TEST, &error.to_string()),
    };
    assert!(shown().contains("prog/xdp"), "{}", shown());
    switch.detach();
    assert_eq!(shown(), before);
}
