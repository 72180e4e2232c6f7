//! Frames around the payloads of vectors, and the pcap files by which they come and go.

use std::io::{Error, Write};
use std::path::Path;

pub(crate) const ETHERNET: usize = 14;
pub(crate) const BEFORE_PAYLOAD: usize = ETHERNET + 20 + 8;
/// The shortest frame of Ethernet, without its check sequence.
const SHORTEST: usize = 60;
const MOST: usize = 65_535;
/// Of local experiments: nothing that a switch looks into.
const FENCE_TYPE: u16 = 0x88b5;

/// Where a node or a switch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) mac: [u8; 6],
    pub(crate) ip: u32,
    pub(crate) udp_port: u16,
}

impl Address {
    fn numbered(kind: u8, number: u32) -> Address {
        let [a, b, c, d] = number.to_be_bytes();
        let ip = 0x0a00_0000 | u32::from(kind) << 20 | (number >> 24) << 16 | number & 0xffff;
        Address { mac: [2, kind, a, b, c, d], ip, udp_port: 20_000 + (number % 20_000) as u16 }
    }

    pub(crate) fn of_node(node: u32) -> Address {
        Address::numbered(1, node)
    }

    /// Of whoever sends by this port.
    pub(crate) fn of_sender(port: u32) -> Address {
        Address::numbered(2, port)
    }

    /// To which in-network packets are sent.
    pub(crate) fn of_switch(udp_port: u16) -> Address {
        Address { udp_port, ..Address::numbered(3, 1) }
    }

    /// As simple_switch_CLI reads them.
    pub(crate) fn words(&self) -> String {
        let mac: Vec<String> = self.mac.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{} 0x{:08x} {}", mac.join(":"), self.ip, self.udp_port)
    }
}

fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum = words.sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// An IPv4 frame with this payload of UDP, without padding.
pub(crate) fn udp(from: Address, to: Address, ttl: u8, udp_checksum: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [&to.mac[..], &from.mac[..], &[8, 0]].concat();
    let length = (28 + payload.len()) as u16;
    // DSCP and identification are to come out as they went in; Don't Fragment is set.
    let mut ip = vec![0x45, 0xb8];
    ip.extend(length.to_be_bytes());
    ip.extend([0xab, 0xcd, 0x40, 0, ttl, 17, 0, 0]);
    ip.extend(from.ip.to_be_bytes());
    ip.extend(to.ip.to_be_bytes());
    let sum = checksum(&ip).to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    frame.extend(ip);
    for word in [from.udp_port, to.udp_port, length - 20, udp_checksum] {
        frame.extend(word.to_be_bytes());
    }
    [frame, payload.to_vec()].concat()
}

/// Makes IPv4's checksum right again.
pub(crate) fn sealed(mut frame: Vec<u8>) -> Vec<u8> {
    let header = ETHERNET..ETHERNET + 4 * usize::from(frame[ETHERNET] & 15);
    frame[ETHERNET + 10..ETHERNET + 12].fill(0);
    let sum = checksum(&frame[header]).to_be_bytes();
    frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&sum);
    frame
}

/// The frame as a link carries it: a short one is padded, with what could stand there. A parser that takes padding for the rest of
/// a header finds a good one.
pub(crate) fn padded(mut frame: Vec<u8>, with: &[u8]) -> Vec<u8> {
    let rest = with.iter().skip(frame.len().saturating_sub(BEFORE_PAYLOAD)).copied().chain(std::iter::repeat(0xa5));
    frame.extend(rest.take(SHORTEST.saturating_sub(frame.len())).collect::<Vec<_>>());
    frame
}

/// The frame without padding, if it is IPv4.
pub(crate) fn without_padding(frame: &[u8]) -> &[u8] {
    match frame {
        [_, _, _, _, _, _, _, _, _, _, _, _, 8, 0, _, _, high, low, ..] => {
            let length = ETHERNET + usize::from(u16::from_be_bytes([*high, *low]));
            frame.get(..length).unwrap_or(frame)
        }
        _ => frame,
    }
}

/// A frame that the bridge brings to a port: what went there before has come out when this has.
pub(crate) fn fence(port: u32, number: u32) -> Vec<u8> {
    let mut frame = [&fence_mac(port)[..], &[2, 0, 0, 0, 0, 9]].concat();
    frame.extend(FENCE_TYPE.to_be_bytes());
    frame.extend(number.to_be_bytes());
    frame.resize(SHORTEST, 0);
    frame
}

pub(crate) fn fence_mac(port: u32) -> [u8; 6] {
    let [_, _, high, low] = port.to_be_bytes();
    [2, 0xfe, 0, 0, high, low]
}

/// What a pcap file begins with: Ethernet, microseconds.
pub(crate) fn pcap_header() -> Vec<u8> {
    let words = [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, MOST as u32, 1u32];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Writes a packet; frames are delivered in the order of `time`.
pub(crate) fn write_packet(file: &mut impl Write, time: u32, frame: &[u8]) -> Result<(), Error> {
    let length = frame.len() as u32;
    let words = [1 + time, 0, length, length];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    file.write_all(&[&bytes, frame].concat())
}

/// The whole packets of a pcap file that may still be written.
pub(crate) fn read_packets(path: &Path) -> Result<Vec<Vec<u8>>, Error> {
    let bytes = std::fs::read(path)?;
    let (mut rest, mut packets) = (bytes.get(24..).unwrap_or_default(), vec![]);
    while let Some((head, after)) = rest.split_at_checked(16) {
        let length = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let Some((frame, later)) = after.split_at_checked(length) else { break };
        packets.push(frame.to_vec());
        rest = later;
    }
    Ok(packets)
}
