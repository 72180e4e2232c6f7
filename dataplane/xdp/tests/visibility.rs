//! The visibility table in the kernel: hosts with sockets, strangers, and two processors at one entry.

mod common;
#[path = "common/sockets.rs"]
mod sockets;

use common::frame::frame_to;
use common::{Network, SWITCH, network, report, route};
use onpath_dataplane::{Command, Config, Counter, Port};
use onpath_testing::skipped;
use onpath_wire::ids::{NodeId, SessionId, ShardId, TrackingEpoch};
use onpath_wire::innet::{EntryName, INNET_UDP_PORT, InNet, METADATA_BYTES, Metadata, Visibility, VisibilityResult};
use onpath_xdp::{XdpConfig, XdpSwitch};
use sockets::{nothing_more, send};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

const CLUSTER: u32 = 7;
const EPOCH: TrackingEpoch = TrackingEpoch(3);
const HOME: ShardId = ShardId(0);
const DATA: NodeId = NodeId(0x0200_0001);

fn config() -> XdpConfig {
    XdpConfig { program: Config { index_bits: 0, ..Config::whole(CLUSTER) }, address: SWITCH }
}

fn session() -> NodeId {
    NodeId::session(SessionId(1))
}

fn file() -> EntryName {
    EntryName::new(0xfff5, 7).expect("a name")
}

/// 96 bytes that are all this one.
fn all(byte: u8) -> Metadata {
    Metadata([byte; METADATA_BYTES])
}

fn look() -> InNet {
    InNet::look(CLUSTER, EPOCH, file(), NodeId::shard(HOME))
}

fn install(ts: u32) -> InNet {
    InNet::install(CLUSTER, EPOCH, file(), (ts, all(ts as u8)), HOME, Some(session()))
}

/// Of a home that knows no epoch.
fn clear(ts: u32) -> InNet {
    InNet::clear(CLUSTER, TrackingEpoch(0), file(), (HOME, ts), DATA)
}

/// Begins an epoch in which the table is complete.
fn begin(switch: &mut XdpSwitch) {
    switch.control(&Command::VisibilityEpoch(EPOCH.0)).expect("an epoch");
    switch.control(&Command::VisibilityComplete(EPOCH.0)).expect("the present epoch");
}

fn received(socket: &UdpSocket) -> Visibility {
    match sockets::received(socket) {
        InNet::Visibility(header) => header,
        other => panic!("{other:?}"),
    }
}

fn result(socket: &UdpSocket) -> VisibilityResult {
    received(socket).result().expect("an answer")
}

/// A network of three hosts: session, home, data node. All addressed, in an epoch; the last two are hosts'.
fn three() -> Result<(Network, XdpSwitch, [UdpSocket; 3]), String> {
    let (network, mut switch) = network(3, config())?;
    let sockets = [0, 1, 2].map(|host: usize| network.hosts[host].socket(9000));
    for (node, host) in [session(), NodeId::shard(HOME), DATA].iter().zip(&network.hosts) {
        route(&mut switch, node.0, host.way(9000));
    }
    for node in [NodeId::shard(HOME), DATA] {
        switch.control(&Command::Host { port: Port(node.0) }).expect("a host");
    }
    begin(&mut switch);
    Ok((network, switch, sockets))
}

#[test]
fn an_install_goes_to_both_and_a_look_brings_it_along() {
    const TEST: &str = "an_install_goes_to_both_and_a_look_brings_it_along";
    let (_network, switch, [user, home, data]) = match three() {
        Ok(all) => all,
        Err(why) => return skipped(TEST, &why),
    };
    for ts in 1..=100 {
        send(&data, &install(ts));
        let InNet::Visibility(sent) = install(ts) else { panic!("an install") };
        let (told, answered) = (received(&home), received(&user));
        assert_eq!(told, Visibility { result: 4, destination: NodeId::shard(HOME).0, ..sent });
        assert_eq!(answered, Visibility { result: 4, destination: session().0, ..sent });
        send(&user, &look());
        let found = received(&home);
        assert_eq!((found.result(), found.metadata), (Some(VisibilityResult::Pending), all(ts as u8)));
    }
    send(&data, &install(99));
    assert_eq!(result(&home), VisibilityResult::Older);
    send(&home, &clear(99));
    assert_eq!(result(&data), VisibilityResult::Kept);
    send(&home, &clear(100));
    assert_eq!(result(&data), VisibilityResult::Cleared);
    send(&user, &look());
    let found = received(&home);
    assert_eq!((found.result(), found.metadata), (Some(VisibilityResult::None), all(0)));
    nothing_more(&[&user, &home, &data]);
    assert_eq!(switch.count(Counter::InstallDone).expect("a counter"), 100);
    assert_eq!(switch.count(Counter::CopiesSent).expect("a counter"), 304);
}

/// D-44: device, address and UDP port together tell a host.
#[test]
fn strangers_install_and_clear_nothing() {
    const TEST: &str = "strangers_install_and_clear_nothing";
    let (network, mut switch, [user, home, data]) = match three() {
        Ok(all) => all,
        Err(why) => return skipped(TEST, &why),
    };
    send(&data, &install(5));
    assert_eq!((result(&home), result(&user)), (VisibilityResult::Installed, VisibilityResult::Installed));
    // A local user of the data node's host, the session's host, and one that says it were the data node, by another cable.
    let local = network.hosts[2].socket(9001);
    let taken = network.hosts[2].address;
    network.hosts[0].at.ip(&format!("addr add {taken}/32 dev eth0")).expect("an address");
    let forged = network.hosts[0].at.within(|| UdpSocket::bind((taken, 9000))).expect("a free port");
    for (stranger, dropped) in [&local, &user, &forged].into_iter().zip([2, 4, 6]) {
        send(stranger, &install(6));
        send(stranger, &clear(5));
        let deadline = std::time::Instant::now() + common::PATIENCE;
        while switch.count(Counter::DropStranger).expect("a counter") < dropped {
            assert!(std::time::Instant::now() < deadline, "not dropped: {:?}", switch.counters());
        }
    }
    send(&user, &look());
    let found = received(&home);
    assert_eq!((found.result(), found.metadata), (Some(VisibilityResult::Pending), all(5)));
    // A host that is one no longer.
    switch.control(&Command::Unhost { port: Port(DATA.0) }).expect("away");
    send(&data, &install(6));
    send(&user, &look());
    assert_eq!(received(&home).metadata, all(5));
    nothing_more(&[&user, &home, &data]);
}

/// One processor installs and another looks: what that finds is of one install.
#[test]
fn two_processors_tear_no_entry() {
    const TEST: &str = "two_processors_tear_no_entry";
    const INSTALLS: u32 = 50_000;
    let (network, mut switch) = match network(1, config()) {
        Ok(both) => both,
        Err(why) => return skipped(TEST, &why),
    };
    route(&mut switch, NodeId::shard(HOME).0, network.hosts[0].way(9000));
    begin(&mut switch);
    // What is given to the program comes in by the loopback device, which is number 1 everywhere.
    switch.list(1, SocketAddrV4::new(Ipv4Addr::new(10, 9, 0, 1), 9000)).expect("a host");
    let (switch, over) = (&switch, &AtomicBool::new(false));
    let installs = || {
        common::pin_to(0);
        for ts in 1..=INSTALLS {
            let frame = frame_to(INNET_UDP_PORT, &install(ts).bytes());
            switch.try_frame(&frame, 1).expect("a frame");
        }
        over.store(true, Ordering::SeqCst);
    };
    let looks = || {
        common::pin_to(1);
        let (frame, mut different, mut last) = (frame_to(INNET_UDP_PORT, &look().bytes()), 0u32, all(0));
        while !over.load(Ordering::SeqCst) {
            let (_, _, out) = switch.try_frame(&frame, 1).expect("a frame");
            let (InNet::Visibility(header), _) = InNet::split(&out[42..]).expect("a header") else { panic!("a look") };
            let first = header.metadata.0[0];
            assert_eq!(header.metadata, all(first), "of two installs");
            different += u32::from(header.metadata != last);
            last = header.metadata;
        }
        different
    };
    let different = std::thread::scope(|scope| {
        let (writer, reader) = (scope.spawn(installs), scope.spawn(looks));
        writer.join().expect("installed");
        reader.join().expect("nothing torn")
    });
    assert_eq!(switch.count(Counter::InstallDone).expect("a counter"), INSTALLS.into());
    let state = switch.state().expect("registers");
    assert_eq!((state.entries[0].1.ts, state.entries[0].1.metadata), (INSTALLS, all(INSTALLS as u8).0));
    report(&format!("{TEST}: {different} of {INSTALLS} installs were seen"));
}
