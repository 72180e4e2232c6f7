//! The rules of datagrams, one by one.

mod common;

use bytes::Bytes;
use common::{PAYLOAD, config, drain, packet, pair};
use onpath_transport::handshake::To;
use onpath_transport::{
    Agreed, Config, Delivered, EndpointId, Key, Keys, Peer, ReceiveError, Room, SendError, Transmit, handshake, limits,
    peek,
};
use onpath_wire::innet::{DirtySet, InNet, Visibility};
use onpath_wire::{NodeId, Packet};
use std::sync::Arc;

fn key() -> Option<Key> {
    Some(Key::new([9; 32]))
}

fn receive(peer: &mut Peer, datagram: &[u8]) -> Result<Vec<Delivered>, ReceiveError> {
    let mut delivered = Vec::new();
    peer.receive(0, &mut datagram.to_vec(), &mut delivered).map(|()| delivered)
}

fn one(peer: &mut Peer) -> Vec<u8> {
    peer.send(0, NodeId(2), packet(1, 80, 10)).unwrap();
    let mut all = drain(peer, 0);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

/// Other versions must send the same bytes.
#[test]
fn a_whole_datagram_is_frozen() {
    let (mut a, _) = pair(None);
    a.send(0, NodeId(2), Packet::encoded(b"hi".to_vec(), Bytes::from_static(b"!"))).unwrap();
    let hex: String = drain(&mut a, 0)[0].iter().map(|byte| format!("{byte:02x}")).collect();
    let front = ["4f4e", "03", "00", "01000000", "01000000", "CHECK", "0100000000000000"].concat();
    let front = front + "0b00000000000000" + "1600000000000000" + "44000000";
    let expected = front + "010000000b000000" + "0200000002000000" + "6869210000000000";
    assert_eq!(hex, expected.replace("CHECK", FROZEN_CHECK));
}
const FROZEN_CHECK: &str = "8c000a0a";

#[test]
fn a_datagram_is_taken_once() {
    for key in [None, key()] {
        let (mut a, mut b) = pair(key);
        let first = one(&mut a);
        assert!(receive(&mut b, &first).is_ok());
        assert_eq!(receive(&mut b, &first), Err(ReceiveError::Duplicate));
        let late = one(&mut a);
        for _ in 0..limits::WINDOW {
            let datagram = one(&mut a);
            assert!(receive(&mut b, &datagram).is_ok());
        }
        assert_eq!(receive(&mut b, &late), Err(ReceiveError::Old));
    }
}

#[test]
fn boots_of_both_ends_are_those_of_now() {
    for key in [None, key()] {
        let (mut a, mut b) = pair(key.clone());
        let datagram = one(&mut a);
        let mut restarted = Peer::new(config(2, 23, key.clone()), EndpointId(1), PAYLOAD);
        restarted.set_boot(11, Agreed::new([5; 32]));
        assert_eq!(receive(&mut restarted, &datagram), Err(ReceiveError::StaleBoot { to_boot: 22 }));
        b.set_boot(12, Agreed::new([5; 32]));
        assert_eq!(receive(&mut b, &datagram), Err(ReceiveError::ForeignBoot { boot: 11 }));
        b.set_boot(11, Agreed::new([5; 32]));
        assert!(receive(&mut b, &datagram).is_ok(), "set back, the window is a new one");
        let other = Peer::new(config(3, 33, key), EndpointId(1), PAYLOAD);
        assert_eq!(other.boot(), None);
        assert_eq!(peek(&datagram).map(|head| (head.endpoint, head.boot, head.to_boot)), Ok((EndpointId(1), 11, 22)));
    }
}

/// Who changes the boot that it is for needs the key.
#[test]
fn a_record_of_before_does_not_open() {
    let (mut a, _) = pair(key());
    let mut datagram = one(&mut a);
    datagram[32..40].copy_from_slice(&23_u64.to_le_bytes());
    let mut restarted = Peer::new(config(2, 23, key()), EndpointId(1), PAYLOAD);
    restarted.set_boot(11, Agreed::new([5; 32]));
    assert_eq!(receive(&mut restarted, &datagram), Err(ReceiveError::Forged));
}

/// Handshakes are the host's: nothing leaves before one has told the boot, and no peer takes one.
#[test]
fn messages_wait_for_the_boot() {
    for key in [None, key()] {
        let mut a = Peer::new(config(1, 11, key.clone()), EndpointId(2), PAYLOAD);
        let mut b = Peer::new(config(2, 22, key.clone()), EndpointId(1), PAYLOAD);
        a.send(0, NodeId(2), packet(1, 80, 10)).unwrap();
        assert!(drain(&mut a, 0).is_empty(), "nothing leaves before the boot is known");
        assert_eq!(a.single(NodeId(2), &packet(1, 80, 10)), Err(SendError::NoBoot));
        b.set_boot(11, Agreed::new([5; 32]));
        let hello = handshake::make(&config(1, 11, key), To { cluster: 1, boot: 22, key: None }, 0, b"hello");
        assert_eq!(receive(&mut b, &hello), Err(ReceiveError::Head("handshake flag")));
        a.set_boot(22, Agreed::new([5; 32]));
        let waited = drain(&mut a, 0);
        assert_eq!(waited.len(), 1, "what was queued leaves now");
        assert!(matches!(receive(&mut b, &waited[0]).unwrap()[..], [(NodeId(2), _)]));
    }
}

#[test]
fn keys_and_clusters_do_not_mix() {
    let ((mut plain, mut plain_b), (mut sealed, mut sealed_b)) = (pair(None), pair(key()));
    assert_eq!(receive(&mut sealed_b, &one(&mut plain)), Err(ReceiveError::NotSealed));
    assert_eq!(receive(&mut plain_b, &one(&mut sealed)), Err(ReceiveError::Sealed));
    let (_, mut other) = pair(Some(Key::new([8; 32])));
    assert_eq!(receive(&mut other, &one(&mut sealed)), Err(ReceiveError::OtherKey));
    let datagram = one(&mut plain);
    let mut third = Peer::new(config(2, 22, None), EndpointId(7), PAYLOAD);
    assert_eq!(receive(&mut third, &datagram), Err(ReceiveError::Endpoint(1)));
    let mut foreign = datagram.clone();
    foreign[4] = 9;
    assert_eq!(receive(&mut plain_b, &foreign), Err(ReceiveError::Cluster(9)));
    // What goes to one endpoint does not open at another, nor does what is sent back.
    let mut third = Peer::new(config(3, 22, key()), EndpointId(1), PAYLOAD);
    third.set_boot(11, Agreed::new([5; 32]));
    assert_eq!(receive(&mut third, &one(&mut sealed)), Err(ReceiveError::Forged));
}

#[test]
fn small_messages_share_datagrams_of_equal_size() {
    for key in [None, key()] {
        let (mut a, mut b) = pair(key);
        (0..100).for_each(|name| a.send(0, NodeId(77), packet(name, 150, 0)).unwrap());
        let mut out = Transmit::default();
        assert!(a.poll_transmit(0, &mut out));
        let sizes: Vec<usize> = out.datagrams().map(<[u8]>::len).collect();
        assert!(sizes.len() < 16 && sizes[0] <= PAYLOAD, "{sizes:?}");
        assert!(sizes[..sizes.len() - 1].iter().all(|size| *size == out.segment), "{sizes:?}");
        let mut delivered = Vec::new();
        for datagram in out.datagrams() {
            delivered.extend(receive(&mut b, datagram).unwrap());
        }
        let names: Vec<u64> = delivered.iter().map(|(_, packet)| common::name_of(packet)).collect();
        assert_eq!(names, (0..100).collect::<Vec<u64>>());
        assert!(!a.poll_transmit(0, &mut out) && a.next_deadline().is_none() && out.buf.is_empty());
    }
}

#[test]
fn single_messages_leave_room_for_the_header_in_front() {
    // What a frame of Ethernet leaves to a message: dataplane/SPEC.md says it.
    let headers = [(InNet::DirtySet(DirtySet::default()), 1_352), (InNet::Visibility(Visibility::default()), 1_264)];
    for (header, left) in headers {
        let (mut a, mut b) = pair(key());
        let front = header.bytes().len();
        let switched = |head| packet(1, head, 0).through_switch(header);
        let datagram = a.single(NodeId(2), &switched(1_200)).unwrap();
        assert!(datagram.len() + front <= PAYLOAD);
        assert!(matches!(receive(&mut b, &datagram).unwrap()[..], [(NodeId(2), _)]));
        let largest = (0..PAYLOAD).rev().find(|head| a.single(NodeId(2), &switched(*head)).is_ok()).unwrap();
        assert_eq!(largest, left, "parts begin at multiples of 8");
        let datagram = a.single(NodeId(2), &switched(largest)).unwrap();
        assert!(datagram.len() + front <= PAYLOAD, "the largest fits");
        assert!(matches!(receive(&mut b, &datagram).unwrap()[..], [(NodeId(2), _)]));
    }
}

#[test]
fn what_waits_is_bounded() {
    let mut a = Peer::new(config(1, 11, None), EndpointId(2), PAYLOAD);
    let long = packet(1, 100, 1 << 20);
    let mut taken = 0;
    while a.send(0, NodeId(2), long.clone()).is_ok() {
        taken += 1;
    }
    assert_eq!(taken, limits::QUEUED_BYTES_MAX / ((1 << 20) + 100));
    assert_eq!((a.send(0, NodeId(2), long), a.counters().messages_refused), (Err(SendError::Full), 2));
    let too_long = packet(1, limits::HEAD_BYTES_MAX + 1, 0);
    assert!(matches!(a.send(0, NodeId(2), too_long), Err(SendError::TooLong { .. })));
    // Long messages are given up in time although no handshake comes.
    assert_eq!(a.next_deadline(), Some(limits::QUEUE_GIVE_UP_US));
    a.poll_transmit(limits::QUEUE_GIVE_UP_US, &mut Transmit::default());
    assert_eq!((a.queued(), a.counters().messages_given_up), ((0, 0), taken as u64));
}

/// Bulk bytes of a long message come as they are, head and bulk apart, wherever the border between them is.
#[test]
fn the_longest_message_comes() {
    let (mut a, mut b) = pair(None);
    a.send(0, NodeId(2), packet(1, limits::HEAD_BYTES_MAX, limits::BULK_BYTES_MAX)).unwrap();
    let (mut delivered, mut now_us) = (Vec::new(), 0);
    while delivered.is_empty() {
        now_us += 200;
        assert!(now_us < 10_000_000);
        drain(&mut a, now_us).iter_mut().for_each(|d| b.receive(now_us, d, &mut delivered).unwrap());
        drain(&mut b, now_us).iter_mut().for_each(|d| a.receive(now_us, d, &mut Vec::new()).unwrap());
    }
    let [(NodeId(2), packet)] = &delivered[..] else { panic!("one message") };
    assert_eq!((common::name_of(packet), packet.bulk.len()), (1, limits::BULK_BYTES_MAX));
}

#[test]
fn numbers_never_repeat() {
    let mut a = Peer::resume(config(1, 11, key()), EndpointId(2), PAYLOAD, (1 << 63) - 100);
    a.set_boot(22, Agreed::new([5; 32]));
    a.send(0, NodeId(2), packet(1, 80, 0)).unwrap();
    assert!(drain(&mut a, 0).is_empty(), "no number is left for a run");
    assert_eq!(a.single(NodeId(2), &packet(1, 80, 0)), Err(SendError::Exhausted));
    let mut a = Peer::resume(config(1, 11, key()), EndpointId(2), PAYLOAD, 41);
    a.set_boot(22, Agreed::new([5; 32]));
    assert_eq!(peek(&one(&mut a)).map(|head| head.number), Ok(42));
    a.set_boot(23, Agreed::new([5; 32]));
    assert_eq!(peek(&one(&mut a)).map(|head| head.number), Ok(43), "nor do they begin again for another boot");
    assert_eq!(a.number(), 43);
}

/// While one key takes the place of another, whoever has one of them is understood.
#[test]
fn two_keys_are_valid_at_a_time() {
    let [one, two] = [1, 2].map(|byte| Key::new([byte; 32]));
    let both = |first: &Key, second: &Key| Keys { second: Some(second.clone()), ..Keys::one(first.clone()) };
    let (a, b) = (config(1, 11, Some(one.clone())), config(2, 22, Some(one.clone())));
    let (rings, mut a, mut b) = (
        [a.keyring.clone(), b.keyring.clone()],
        Peer::new(a, EndpointId(2), PAYLOAD),
        Peer::new(b, EndpointId(1), PAYLOAD),
    );
    a.set_boot(22, Agreed::new([5; 32]));
    b.set_boot(11, Agreed::new([5; 32]));
    let former = one_of(&mut a, &mut b, Ok(()));
    rings[0].set(both(&one, &two));
    one_of(&mut a, &mut b, Ok(()));
    rings[0].set(both(&two, &one));
    one_of(&mut a, &mut b, Err(ReceiveError::OtherKey));
    // b has shown that it has the former one only.
    a.use_key(one.id());
    one_of(&mut a, &mut b, Ok(()));
    rings[1].set(both(&one, &two));
    a.use_key(two.id());
    let late = one_of(&mut a, &mut b, Ok(()));
    assert_ne!(former[12..16], late[12..16], "a datagram names its key");
    rings.iter().for_each(|ring| ring.set(Keys::one(two.clone())));
    one_of(&mut a, &mut b, Ok(()));
    assert_eq!(receive(&mut b, &former), Err(ReceiveError::Duplicate));
    rings[0].set(Keys::one(one));
    one_of(&mut a, &mut b, Err(ReceiveError::OtherKey));
}

/// A datagram of a, and how b takes it.
fn one_of(a: &mut Peer, b: &mut Peer, expected: Result<(), ReceiveError>) -> Vec<u8> {
    let datagram = one(a);
    assert_eq!(receive(b, &datagram).map(drop), expected);
    datagram
}

/// Last fragments alone announce long messages: however many peers send such, the memory of all is bounded, and another one is served.
#[test]
fn long_messages_of_all_peers_share_one_room() {
    let room = Room::new(32 << 20);
    let receiver = Arc::new(Config { room: room.clone(), ..(*config(2, 22, None)).clone() });
    let last_fragment = |number: u32, name: u64| {
        let mut a = Peer::new(config(number, 11, None), EndpointId(2), PAYLOAD);
        a.set_boot(22, Agreed::new([5; 32]));
        a.send(0, NodeId(2), packet(name, 80, 1 << 20)).unwrap();
        // What is acknowledged as lost makes no difference here: the first ones are kept back.
        drain(&mut a, 0).pop().unwrap()
    };
    let mut all = Vec::new();
    for number in 100..200 {
        let mut b = Peer::new(receiver.clone(), EndpointId(number), PAYLOAD);
        b.set_boot(11, Agreed::new([5; 32]));
        let datagram = last_fragment(number, 1);
        assert!(receive(&mut b, &datagram).is_ok());
        assert!(room.taken() <= 32 << 20, "{} bytes", room.taken());
        all.push(b);
    }
    let refused: u64 = all.iter().map(|b| b.counters().fragments_without_room).sum();
    assert!(refused > 0 && room.taken() > 16 << 20, "{refused} refused, {} bytes", room.taken());
    // They go, and what they had is there for others.
    all.clear();
    assert_eq!(room.taken(), 0);
}
