//! The header in front of every datagram.

use crate::error::ReceiveError;
use crate::limits::{DATAGRAM_BYTES_MAX, NUMBER_MAX};

/// "ON".
pub const MAGIC: u16 = 0x4e4f;
/// Version of the datagrams.
pub const VERSION: u8 = 3;
/// Bytes of the header.
pub const HEAD_BYTES: usize = 44;
/// Where the checksum is.
pub(crate) const CHECK_AT: usize = 12;
/// Where the length is.
const LENGTH_AT: usize = 40;

/// Bits of [`Head::flags`].
pub mod flag {
    /// Sealed with the cluster's key; a tag follows the parts.
    pub const SEALED: u8 = 1;
    /// A handshake: holds the host's bytes and no parts, and may come from and go to a boot that is not known yet.
    pub const HANDSHAKE: u8 = 2;
    /// It is sent twice.
    pub const TWICE: u8 = 4;
    /// With [`HANDSHAKE`]: a header alone, never sealed, by which a receiver challenges the sender of a datagram.
    pub const CHALLENGE: u8 = 8;
    /// With [`CHALLENGE`]: what the receiver got was no handshake, and is of nobody that it knows.
    pub const UNKNOWN: u8 = 16;
    /// All of them.
    pub const ALL: u8 = SEALED | HANDSHAKE | TWICE | CHALLENGE | UNKNOWN;
}

/// A process of the cluster: servers have small numbers, clients `0x8000_0000 | session`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub u32);

/// The header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bits of [`flag`].
    pub flags: u8,
    /// Number of the cluster.
    pub cluster: u32,
    /// The sender.
    pub endpoint: EndpointId,
    /// CRC-32C of the datagram with this field 0; of a sealed one the name of its key ([`crate::Key::id`]).
    pub check: u32,
    /// Counts the sender's datagrams to this receiver, from 1.
    pub number: u64,
    /// Random name of the sender's start; of a challenge, the challenge.
    pub boot: u64,
    /// The receiver's boot as the sender knows it. In a handshake that asks it is the receiver's last challenge, 0 if there was none.
    pub to_boot: u64,
    /// Bytes of the datagram, header and tag among them: the system hands over several as one, and how long each of them is it says in a
    /// control message only, which costs something.
    pub length: u32,
}

fn u32_at(bytes: &[u8; HEAD_BYTES], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("inside the header"))
}

fn u64_at(bytes: &[u8; HEAD_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("inside the header"))
}

impl Head {
    /// The encoded header.
    #[inline]
    pub fn bytes(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..2].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[2] = VERSION;
        bytes[3] = self.flags;
        bytes[4..8].copy_from_slice(&self.cluster.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.endpoint.0.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.check.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.boot.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.to_boot.to_le_bytes());
        bytes[LENGTH_AT..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// Whether it is sealed.
    #[inline]
    pub fn sealed(&self) -> bool {
        self.flags & flag::SEALED != 0
    }

    /// Whether it is sent twice.
    #[inline]
    pub fn twice(&self) -> bool {
        self.flags & flag::TWICE != 0
    }

    /// Whether it is a handshake.
    #[inline]
    pub fn handshake(&self) -> bool {
        self.flags & flag::HANDSHAKE != 0
    }

    /// Whether it is a challenge.
    #[inline]
    pub fn challenge(&self) -> bool {
        self.flags & flag::CHALLENGE != 0
    }
}

/// Bytes of the first of several datagrams that lie one behind the other: what it says, unless that makes no sense; then all.
#[inline]
pub fn first_of(run: &[u8]) -> usize {
    let head: Option<&[u8; HEAD_BYTES]> = run.first_chunk();
    let head = head.filter(|bytes| bytes[..2] == MAGIC.to_le_bytes() && bytes[2] == VERSION);
    let said = head.map(|bytes| u32_at(bytes, LENGTH_AT) as usize);
    said.filter(|said| (HEAD_BYTES..=run.len()).contains(said)).unwrap_or(run.len())
}

/// Looks at the header only: what it says is not verified.
///
/// # Errors
/// Bytes that are no datagram of this version.
#[inline]
pub fn peek(datagram: &[u8]) -> Result<Head, ReceiveError> {
    if datagram.len() > DATAGRAM_BYTES_MAX {
        return Err(ReceiveError::Oversized);
    }
    let bytes: &[u8; HEAD_BYTES] = datagram.first_chunk().ok_or(ReceiveError::Truncated)?;
    if bytes[..2] != MAGIC.to_le_bytes() || bytes[2] != VERSION {
        return Err(ReceiveError::NotOnpath);
    }
    let flags = bytes[3];
    if flags & !flag::ALL != 0 {
        return Err(ReceiveError::UnknownFlags(flags));
    }
    let head = Head {
        flags,
        cluster: u32_at(bytes, 4),
        endpoint: EndpointId(u32_at(bytes, 8)),
        check: u32_at(bytes, CHECK_AT),
        number: u64_at(bytes, 16),
        boot: u64_at(bytes, 24),
        to_boot: u64_at(bytes, 32),
        length: u32_at(bytes, LENGTH_AT),
    };
    if head.number == 0 || head.number >= NUMBER_MAX {
        return Err(ReceiveError::Head("number"));
    }
    if head.length as usize != datagram.len() {
        return Err(ReceiveError::Head("length"));
    }
    if head.boot == 0 {
        return Err(ReceiveError::Head("boot"));
    }
    if head.sealed() && head.check == 0 {
        return Err(ReceiveError::Head("checksum"));
    }
    let alone = flags & flag::HANDSHAKE != 0 && !head.sealed() && datagram.len() == HEAD_BYTES;
    if head.challenge() && !alone || flags & flag::UNKNOWN != 0 && !head.challenge() {
        return Err(ReceiveError::Head("challenge"));
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            flags: flag::HANDSHAKE,
            cluster: 0x0102_0304,
            endpoint: EndpointId(0x8000_0009),
            check: 0x0506_0708,
            number: 0x11,
            boot: 0x2222,
            to_boot: 0x3333,
            length: 44,
        }
    }

    #[test]
    fn the_layout_is_frozen() {
        let hex: String = head().bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let fields = ["4f4e", "03", "02", "04030201", "09000080", "08070605"].concat();
        assert_eq!(hex, fields + "1100000000000000" + "2222000000000000" + "3333000000000000" + "2c000000");
        assert_eq!(peek(&head().bytes()), Ok(head()));
    }

    #[test]
    fn what_is_no_datagram_is_told() {
        let bytes = head().bytes();
        let with = |at: usize, byte: u8| {
            let mut bytes = bytes;
            bytes[at] = byte;
            peek(&bytes)
        };
        assert_eq!(peek(&bytes[..43]), Err(ReceiveError::Truncated));
        assert_eq!(peek(&vec![0; DATAGRAM_BYTES_MAX + 1]), Err(ReceiveError::Oversized));
        assert_eq!(with(0, 0), Err(ReceiveError::NotOnpath));
        assert_eq!(with(2, 1), Err(ReceiveError::NotOnpath));
        assert_eq!(with(3, 32), Err(ReceiveError::UnknownFlags(32)));
        for alone in [flag::CHALLENGE, flag::UNKNOWN, flag::HANDSHAKE | flag::UNKNOWN] {
            assert_eq!(with(3, alone), Err(ReceiveError::Head("challenge")));
        }
        assert_eq!(
            peek(&Head { flags: flag::SEALED, check: 0, ..head() }.bytes()),
            Err(ReceiveError::Head("checksum"))
        );
        assert_eq!(with(16, 0), Err(ReceiveError::Head("number")));
        assert_eq!(with(23, 0x80), Err(ReceiveError::Head("number")));
        assert_eq!(with(40, 45), Err(ReceiveError::Head("length")));
        assert_eq!(peek(&Head { boot: 0, ..head() }.bytes()), Err(ReceiveError::Head("boot")));
    }

    #[test]
    fn what_lies_together_is_cut_where_it_says() {
        let datagram = |length: u32| [&Head { length, ..head() }.bytes()[..], &[7; 16]].concat();
        assert_eq!(first_of(&[datagram(60), datagram(60)].concat()), 60);
        assert_eq!(first_of(&datagram(60)), 60);
        for lie in [0, 1, 43, 61, u32::MAX] {
            assert_eq!(first_of(&datagram(lie)), 60, "a length of {lie}");
        }
        assert_eq!((first_of(&[]), first_of(&datagram(60)[..43]), first_of(&[9; 100])), (0, 43, 100));
    }
}
