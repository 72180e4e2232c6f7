//! Frames, byte for byte.

use super::SWITCH;

pub(crate) fn sum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// Makes the checksum of an IPv4 header right.
pub(crate) fn seal(ip: &mut [u8]) {
    ip[10..12].fill(0);
    let check = !sum(&ip[..20]);
    ip[10..12].copy_from_slice(&check.to_be_bytes());
}

/// A sound frame to a port of the switch.
pub(crate) fn frame_to(udp_port: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let (ip_length, udp_length) = (28 + payload.len() as u16, 8 + payload.len() as u16);
    frame.extend([0x45, 0]);
    frame.extend(ip_length.to_be_bytes());
    frame.extend([0x12, 0x34, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 1]);
    frame.extend(SWITCH.octets());
    frame.extend(9000u16.to_be_bytes());
    frame.extend(udp_port.to_be_bytes());
    frame.extend(udp_length.to_be_bytes());
    frame.extend([0xab, 0xcd]);
    frame.extend(payload);
    seal(&mut frame[14..34]);
    frame
}
