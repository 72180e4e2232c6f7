//! What comes by datagrams and streams, before it is a message.

use crate::cut::Cut;
use crate::memory::{at_most, for_input};
use crate::messages::again;
use onpath_dataplane::{CacheCommand, Command, Config as SwitchConfig, Counter, Port, Switch};
use onpath_host::fuzzing;
use onpath_host::udp::hello::Hello;
use onpath_transport::handshake::{self, To};
use onpath_transport::{
    Agreed, Config, Delivered, EndpointId, HEAD_BYTES, Head, Key, Keyring, Keys, Peer, Room, Transmit, first_of, flag,
    limits, peek,
};
use onpath_wire::checksum::crc32c;
use onpath_wire::ids::{NodeId, SessionId, ShardId};
use onpath_wire::innet::INNET_UDP_PORT;
use onpath_wire::packet::Packet;
use std::sync::Arc;

/// UDP payload of an Ethernet frame.
const PAYLOAD: usize = 1_472;
/// Bytes of memory that a peer may take besides messages that have not come completely.
const PEER_BYTES: usize = 1 << 20;
/// Bytes of a frame that are set aside before they come.
const FRAME_BYTES: usize = 4 << 20;

fn config(me: u32, boot: u64, key: Option<Key>) -> Arc<Config> {
    let keyring = Keyring::new(key.map(Keys::one));
    Arc::new(Config { cluster: 1, me: EndpointId(me), boot, keyring, room: Room::default() })
}

/// Datagrams of a peer that is known, one behind its length after the other. The first byte says whether there is a key, and whether headers and checksums are made
/// right, so that the parts behind them are looked at.
pub fn datagrams(input: &[u8]) {
    let mut cut = Cut(input);
    let how = cut.byte();
    let (sealed, repaired) = (how & 1 != 0, how & 2 == 0);
    let key = sealed.then(|| Key::new([7; 32]));
    let mut peer = Peer::new(config(2, 22, key), EndpointId(1), PAYLOAD);
    peer.set_boot(11, Agreed::new([5; 32]));
    // Something under way, so that acknowledgements meet it.
    for _ in 0..how >> 4 & 3 {
        peer.send(0, NodeId(1), Packet::encoded(vec![1; 80], vec![2; 5_000].into())).expect("room");
    }
    drain(&mut peer, 0);
    let (mut number, mut now_us, mut delivered) = (0, 1_000, Vec::<Delivered>::new());
    at_most(limits::INCOMING_BYTES_MAX + PEER_BYTES + 8 * input.len(), || {
        while !cut.is_empty() {
            number += 1;
            now_us += u64::from(cut.byte()) << 8;
            let mut datagram = cut.string().to_vec();
            if repaired && !sealed {
                repair(&mut datagram, number);
            }
            look(&datagram);
            let taken = peer.receive(now_us, &mut datagram, &mut delivered).is_ok();
            assert!(!(sealed && taken), "a datagram that nobody has sealed was taken");
            let (messages, bytes) = peer.incomplete();
            assert!(messages <= limits::INCOMING_MAX && bytes <= limits::INCOMING_BYTES_MAX);
            drain(&mut peer, now_us);
            delivered.clear();
        }
    });
}

/// What is known of a datagram before its sender is.
fn look(datagram: &[u8]) {
    let first = first_of(datagram);
    assert!(first <= datagram.len());
    if let Ok(head) = peek(datagram) {
        assert_eq!(peek(&[&head.bytes()[..], &datagram[HEAD_BYTES..]].concat()), Ok(head));
    }
    let lengths = fuzzing::datagrams(&mut datagram.to_vec());
    assert!(lengths.iter().sum::<usize>() == datagram.len() && lengths.iter().all(|length| *length > 0));
}

fn drain(peer: &mut Peer, now_us: u64) {
    let mut out = Transmit::default();
    while peer.poll_transmit(now_us, &mut out) {
        assert!(out.datagrams().count() <= limits::SEGMENTS_MAX && out.buf.len() <= limits::DATAGRAM_BYTES_MAX);
    }
    peer.next_deadline();
}

/// Puts a right header in front of the parts, of which only the flag for being sent twice may stay as it was.
fn repair(datagram: &mut Vec<u8>, number: u64) {
    datagram.truncate(limits::DATAGRAM_BYTES_MAX);
    if datagram.len() < HEAD_BYTES {
        datagram.resize(HEAD_BYTES, 0);
    }
    let (flags, length) = (datagram[3] & flag::TWICE, datagram.len() as u32);
    let endpoint = EndpointId(1);
    let head = Head { flags, cluster: 1, endpoint, check: 0, number, boot: 11, to_boot: 22, length };
    datagram[..HEAD_BYTES].copy_from_slice(&head.bytes());
    let check = crc32c(datagram);
    datagram[..HEAD_BYTES].copy_from_slice(&Head { check, ..head }.bytes());
}

/// Handshakes: as they come, with a key or without one; and what is in one whose sender has the key.
pub fn handshakes(input: &[u8]) {
    let mut cut = Cut(input);
    let how = cut.byte();
    let key = (how & 1 != 0).then(|| Key::new([7; 32]));
    let (here, there) = (config(2, 22, key.clone()), config(1, 11, key));
    if how & 2 != 0 {
        let opened = for_input(cut.0.len(), || {
            let head = peek(cut.0)?;
            _ = handshake::challenged(&head, &mut cut.0.to_vec());
            handshake::open(&here, &head, &mut cut.0.to_vec())
        });
        let Ok(bytes) = opened else { return };
        assert!(!here.keyring.seals(), "a handshake that nobody has sealed was opened");
        again::<Hello>(&bytes);
        return;
    }
    let (to_boot, count) = (u64::from(cut.byte()), u64::from(cut.byte()));
    let bytes = cut.bytes(limits::HANDSHAKE_BYTES_MAX);
    let mut datagram = handshake::make(&there, To { cluster: 1, boot: to_boot, key: None }, count, bytes);
    look(&datagram);
    let head = peek(&datagram).expect("it was made so");
    let opened = handshake::open(&here, &head, &mut datagram).expect("it was made so");
    assert_eq!((head.to_boot, &opened[..]), (to_boot, bytes));
    again::<Hello>(&opened);
}

/// Frames of a stream, one behind the other, and the pieces of a state in them.
pub fn frames(input: &[u8]) {
    let mut rest = input;
    at_most(FRAME_BYTES + 160 * input.len(), || {
        while let Ok(frame) = fuzzing::frame(&mut rest) {
            let again = fuzzing::frame(&mut &frame[..]).expect("what was read can be written and read again");
            assert_eq!(again, frame);
        }
    });
    let mut at = 0;
    while let Ok(Some(bytes)) = fuzzing::piece(&input[at..]) {
        at += bytes;
    }
}

/// Packets to a switch, and commands of its control plane among them.
pub fn dataplane(input: &[u8]) {
    let config = SwitchConfig { index_bits: 3, stages: 3, entry_bits: 2, cache_bits: 2, ..SwitchConfig::whole(1) };
    let mut switch = Switch::new(config).expect("a valid configuration");
    let shard = NodeId::shard(ShardId(2)).0;
    let route = |node, port| Command::Route { node, port: Port(port) };
    let session = NodeId::session(SessionId(1)).0;
    let tables = [route(shard, 3), route(session, 4), Command::Host { port: Port(0) }];
    let epochs = [Command::Epoch(1), Command::Complete(1), Command::VisibilityEpoch(1), Command::VisibilityComplete(1)];
    let (epoch, key, token, index, number) = (1, 5, 1, 1, 9);
    let cache = [
        CacheCommand::Begin { epoch, until: 1 << 30 },
        CacheCommand::Stamp { epoch, index, number },
        CacheCommand::Admit { epoch, key, token, index, number },
        CacheCommand::Any { port: Port(1) },
        CacheCommand::Report { node: session, threshold: 3 },
    ];
    for command in tables.into_iter().chain(epochs).chain(cache.map(Command::Cache)) {
        switch.control(&command).expect("a command");
    }
    let mut cut = Cut(input);
    let (mut copies, mut packets) = (Vec::new(), 0);
    while !cut.is_empty() {
        let what = cut.byte();
        if what & 0xe0 == 0xe0 {
            let command = command(what, &mut cut);
            let _refused = switch.control(&command);
            if command == Command::Reboot {
                packets = 0;
            }
            continue;
        }
        let udp_port = if what & 0x10 == 0 { INNET_UDP_PORT } else { u16::from_le_bytes(cut.array()) };
        let payload = cut.string();
        copies.clear();
        let before = (what & 8 != 0).then(|| switch.state());
        let counter = switch.step(Port(u32::from(what & 3)), udp_port, payload, &mut copies);
        packets += 1;
        if counter.counts_drops() || counter == Counter::Plain {
            assert!(copies.is_empty() && before.is_none_or(|before| before == switch.state()), "{counter:?}");
        }
        assert!(copies.iter().all(|copy| copy.payload(payload).len() == payload.len()));
    }
    let counted = Counter::ALL.iter().filter(|counter| counter.counts_packets());
    assert_eq!(counted.map(|counter| switch.counters().get(*counter)).sum::<u64>(), packets);
}

fn command(what: u8, cut: &mut Cut<'_>) -> Command {
    match what & 15 {
        0 => Command::Epoch(u16::from_le_bytes(cut.array())),
        1 => Command::Complete(u16::from_le_bytes(cut.array())),
        2 => Command::Raise { shard: u16::from_le_bytes(cut.array()), term: u32::from_le_bytes(cut.array()) },
        3 => Command::Route { node: u32::from_le_bytes(cut.array()), port: Port(cut.byte().into()) },
        4 => Command::Unroute { node: u32::from_le_bytes(cut.array()) },
        5 => Command::Host { port: Port(cut.byte().into()) },
        6 => Command::Unhost { port: Port(cut.byte().into()) },
        7 => Command::Reboot,
        8 => Command::VisibilityEpoch(u16::from_le_bytes(cut.array())),
        9 => Command::VisibilityComplete(u16::from_le_bytes(cut.array())),
        10 => Command::VisibilityClear,
        11 => Command::Cache(cache_command(cut)),
        _ => Command::Clear,
    }
}

fn cache_command(cut: &mut Cut<'_>) -> CacheCommand {
    let (what, epoch) = (cut.byte(), cut.byte().into());
    let (key, token, port) = (cut.byte().into(), cut.byte(), Port(u32::from(cut.byte()) & 3));
    let (index, number) = (cut.byte().into(), cut.byte().into());
    match what % 13 {
        0 => CacheCommand::Clock(u32::from_le_bytes(cut.array())),
        1 => CacheCommand::Begin { epoch, until: u32::from_le_bytes(cut.array()) },
        2 => CacheCommand::Renew { epoch, until: u32::from_le_bytes(cut.array()) },
        3 => CacheCommand::Off,
        4 => CacheCommand::Empty,
        5 => CacheCommand::Stamp { epoch, index, number },
        6 => CacheCommand::Admit { epoch, key, token, index, number },
        7 => CacheCommand::Evict { epoch, key, token },
        8 => CacheCommand::Any { port },
        9 => CacheCommand::Caller { port, uid: index, gid: number },
        10 => CacheCommand::Unlist { port },
        11 => CacheCommand::Report { node: index, threshold: number as u16 },
        _ => CacheCommand::Reset,
    }
}
