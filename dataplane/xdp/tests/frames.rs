//! Frames that are not what they seem, given to the program through BPF_PROG_TEST_RUN: which are looked at, and what leaves.

mod common;

use common::frame::{frame_to, seal, sum};
use common::{SWITCH, network, route};
use onpath_dataplane::{Command, Config, Counter};
use onpath_testing::skipped;
use onpath_wire::ids::{NodeId, ShardId, TrackingEpoch};
use onpath_wire::innet::cache::{Asker, EntryOf, EntryValue, Fill, Invalidate, Purpose, Read};
use onpath_wire::innet::{DirtySet, EntryName, Fingerprint, INNET_UDP_PORT, InNet, Visibility};
use onpath_xdp::{XdpConfig, XdpSwitch};
use std::net::{Ipv4Addr, SocketAddrV4};

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_REDIRECT: u32 = 4;
const OWNER: NodeId = NodeId(0x0100_0000);
/// Bytes before the payload: link, IPv4, UDP.
const BEFORE: usize = 14 + 20 + 8;

/// A sound frame to the switch.
fn frame(payload: &[u8]) -> Vec<u8> {
    frame_to(INNET_UDP_PORT, payload)
}

fn query() -> Vec<u8> {
    let fingerprint = Fingerprint::new(5, 7).expect("a fingerprint");
    [&InNet::query(1, TrackingEpoch(1), fingerprint, OWNER).bytes()[..], b"message"].concat()
}

fn look() -> Vec<u8> {
    let name = EntryName::new(5, 7).expect("a name");
    [&InNet::look(1, TrackingEpoch(1), name, OWNER).bytes()[..], b"message"].concat()
}

/// Headers of the cache, with a message.
fn of_cache() -> [(Vec<u8>, usize); 3] {
    let asker = Asker { requester: OWNER, uid: 5, gid: 5 };
    let of = EntryOf { key: 5, token: 1, number: 7, revision: 1 };
    let read = InNet::read(1, 1, (9, &[(5, 1)]), (Purpose::Lookup, 0), asker, OWNER);
    let fill = InNet::fill(1, 1, of, &EntryValue::default(), ShardId(0), OWNER);
    let invalidate = InNet::invalidate(1, 1, of, ShardId(0));
    [(read, Read::BYTES), (fill, Fill::BYTES), (invalidate, Invalidate::BYTES)]
        .map(|(header, bytes)| ([&header.bytes()[..], b"message"].concat(), bytes))
}

fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = frame(&query());
    change(&mut frame);
    if frame.len() >= 34 {
        seal(&mut frame[14..34]);
    }
    frame
}

fn tagged(frame: &[u8]) -> Vec<u8> {
    [&frame[..12], &[0x81, 0, 0, 5], &frame[12..]].concat()
}

fn switch() -> Result<(common::Network, XdpSwitch), String> {
    let (network, mut switch) = network(1, XdpConfig { program: Config::whole(1), address: SWITCH })?;
    route(&mut switch, OWNER.0, network.hosts[0].way(9000));
    Ok((network, switch))
}

#[test]
fn frames_that_are_none_for_the_switch_pass_untouched() {
    let (_network, switch) = match switch() {
        Ok(both) => both,
        Err(why) => return skipped("frames_that_are_none_for_the_switch_pass_untouched", &why),
    };
    let cases: [(&str, Vec<u8>); 18] = [
        ("no IPv4", changed(|frame| frame.truncate(14))),
        ("half an IPv4 header", changed(|frame| frame.truncate(20))),
        ("half a UDP header", changed(|frame| frame.truncate(38))),
        ("IPv6", changed(|frame| frame[12..14].copy_from_slice(&[0x86, 0xdd]))),
        ("ARP", changed(|frame| frame[12..14].copy_from_slice(&[8, 6]))),
        ("two tags", tagged(&tagged(&frame(&query())))),
        ("half a tag", tagged(&frame(&query()))[..16].to_vec()),
        ("options", changed(|frame| frame[14] = 0x46)),
        ("another version of IP", changed(|frame| frame[14] = 0x55)),
        ("the first fragment", changed(|frame| frame[20] = 0x20)),
        ("a later fragment", changed(|frame| frame[21] = 0x10)),
        ("TCP", changed(|frame| frame[23] = 6)),
        ("another address", changed(|frame| frame[33] ^= 1)),
        ("another port", changed(|frame| frame[37] ^= 1)),
        ("longer than its frame", changed(|frame| frame.truncate(BEFORE + 10))),
        ("UDP longer than IPv4", changed(|frame| frame[39] += 1)),
        ("UDP shorter than its header", changed(|frame| (frame[16], frame[17], frame[38], frame[39]) = (0, 27, 0, 7))),
        ("at its last hop", changed(|frame| frame[22] = 1)),
    ];
    let passed = |what: &str, given: &[u8]| {
        let before = switch.count(Counter::Plain).expect("a counter");
        let (action, _, out) = switch.try_frame(given, 1).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!((action, &out[..]), (XDP_PASS, given), "{what}");
        assert!(switch.count(Counter::Plain).expect("a counter") > before, "{what}");
    };
    for (what, given) in cases {
        passed(what, &given);
    }
    let mut broken = frame(&query());
    broken[24] ^= 1;
    passed("a wrong checksum", &broken);
}

#[test]
fn short_payloads_are_dropped_whatever_the_frame_has_behind_them() {
    const TEST: &str = "short_payloads_are_dropped_whatever_the_frame_has_behind_them";
    let (_network, switch) = match switch() {
        Ok(both) => both,
        Err(why) => return skipped(TEST, &why),
    };
    let [read, fill, invalidate] = of_cache();
    let whole = [(query(), DirtySet::BYTES), (look(), Visibility::BYTES), read, fill, invalidate];
    let lengths = whole.iter().flat_map(|(payload, whole)| (0..*whole).map(move |length| (payload, length)));
    for (number, (payload, length)) in (1..).zip(lengths) {
        let mut given = frame(&payload[..length]);
        given.extend(&payload[length..]);
        assert_eq!(switch.try_frame(&given, 1).expect("a frame").0, XDP_DROP, "{length} bytes");
        assert_eq!(switch.count(Counter::DropTruncated).expect("a counter"), number);
    }
}

#[test]
fn a_copy_has_the_addresses_of_its_node_and_a_sound_checksum() {
    const TEST: &str = "a_copy_has_the_addresses_of_its_node_and_a_sound_checksum";
    let (network, switch) = match switch() {
        Ok(both) => both,
        Err(why) => return skipped(TEST, &why),
    };
    let host = &network.hosts[0];
    let (query, look) = (frame(&query()), frame(&look()));
    // Without an epoch a read is a miss.
    let read = frame(&of_cache()[0].0);
    let results = [(&query, 3), (&look, 3), (&read, 1)];
    for (given, at, result) in
        results.into_iter().flat_map(|(given, result)| [(given.clone(), 14, result), (tagged(given), 18, result)])
    {
        let (action, _, out) = switch.try_frame(&given, 1).expect("a frame");
        assert_eq!((action, out.len()), (XDP_REDIRECT, given.len()));
        assert_eq!(out[..6], host.mac);
        assert_eq!(out[12..at], given[12..at], "the tag stays");
        let (ip, udp) = (&out[at..at + 20], &out[at + 20..at + 28]);
        assert_eq!((sum(ip), ip[8]), (0xffff, 63));
        assert_eq!(
            (&ip[..8], &ip[12..16], &ip[16..]),
            (&given[at..at + 8], &SWITCH.octets()[..], &host.address.octets()[..])
        );
        assert_eq!(
            udp,
            [&INNET_UDP_PORT.to_be_bytes()[..], &9000u16.to_be_bytes(), &given[at + 24..at + 26], &[0, 0]].concat()
        );
        let (header, message) = InNet::split(&out[at + 28..]).expect("a header");
        let common = header.common();
        assert_eq!((common.result, common.destination, message), (result, OWNER.0, &b"message"[..]));
    }
}

/// What is sent to a node without a route, or by a stranger, is dropped and counted.
#[test]
fn what_has_no_way_is_dropped_and_counted() {
    let (_network, mut switch) = match switch() {
        Ok(both) => both,
        Err(why) => return skipped("what_has_no_way_is_dropped_and_counted", &why),
    };
    let unrouted = |switch: &XdpSwitch| switch.count(Counter::CopiesUnrouted).expect("a counter");
    let fingerprint = Fingerprint::new(5, 7).expect("a fingerprint");
    let remove = InNet::remove(1, TrackingEpoch(1), fingerprint, (ShardId(0), onpath_wire::ids::Term(1), 1), OWNER);
    let [read, fill, invalidate] = of_cache().map(|(payload, _)| frame(&payload));
    switch.control(&Command::Raise { shard: 0, term: 1 }).expect("a term");
    assert_eq!(switch.try_frame(&frame(&remove.bytes()), 1).expect("a frame").0, XDP_DROP);
    for given in [&fill, &invalidate] {
        assert_eq!(switch.try_frame(given, 1).expect("a frame").0, XDP_DROP);
    }
    assert_eq!((unrouted(&switch), switch.count(Counter::DropStranger).expect("a counter")), (0, 3), "no host");
    // What is given to the program comes in by the loopback device, which is number 1 everywhere.
    switch.list(1, SocketAddrV4::new(Ipv4Addr::new(10, 9, 0, 1), 9000)).expect("a host");
    switch.control(&Command::Unroute { node: OWNER.0 }).expect("a route");
    assert_eq!(switch.try_frame(&frame(&remove.bytes()), 1).expect("a frame").0, XDP_DROP);
    assert_eq!(switch.try_frame(&frame(&query()), 1).expect("a frame").0, XDP_DROP);
    assert_eq!(unrouted(&switch), 2, "a remove and a query");
    for given in [&read, &fill, &invalidate] {
        assert_eq!(switch.try_frame(given, 1).expect("a frame").0, XDP_DROP);
    }
    assert_eq!(unrouted(&switch), 5, "and those of the cache");
}
