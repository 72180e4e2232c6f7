//! Datagrams of a handshake: between processes that may not know each other's boot, or not even their cluster, yet.
//!
//! Each is a header with [`flag::HANDSHAKE`] and the host's bytes. It is sealed, if there is a key, for whoever has that key: the sender
//! gives every handshake of its life a number of its own, whoever it is for. Whether it is a recorded one its receiver sees by
//! `to_boot`, which an old one cannot have right.

use crate::error::ReceiveError;
use crate::head::{CHECK_AT, EndpointId, HEAD_BYTES, Head, flag, peek};
use crate::limits::HANDSHAKE_BYTES_MAX;
use crate::peer::Config;
use crate::seal::{Seal, TAG_BYTES};
use onpath_wire::checksum::crc32c;

/// The receiver from which keys of handshakes are derived: no endpoint has this number.
const WHOEVER: EndpointId = EndpointId(u32::MAX);

fn seal(config: &Config, cluster: u32, sender: EndpointId, boot: u64) -> Option<Seal> {
    config.key.as_ref().map(|key| Seal::new(key, cluster, sender, boot, WHOEVER))
}

/// A handshake of this endpoint. `count` must never repeat in its life; `cluster` is 0 as long as that is not known.
///
/// # Panics
/// More bytes than [`HANDSHAKE_BYTES_MAX`].
pub fn make(config: &Config, cluster: u32, to_boot: u64, count: u64, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() <= HANDSHAKE_BYTES_MAX, "{} bytes of a handshake", bytes.len());
    let seal = seal(config, cluster, config.me, config.boot);
    let flags = flag::HANDSHAKE | if seal.is_some() { flag::SEALED } else { 0 };
    let number = count + 1;
    let length = HEAD_BYTES + bytes.len() + if seal.is_some() { TAG_BYTES } else { 0 };
    let (endpoint, boot) = (config.me, config.boot);
    let head = Head { flags, cluster, endpoint, check: 0, number, boot, to_boot, length: length as u32 };
    let mut datagram = Vec::with_capacity(length);
    datagram.extend_from_slice(&head.bytes());
    datagram.extend_from_slice(bytes);
    match seal {
        Some(seal) => {
            let tag = seal.seal(number, &mut datagram);
            datagram.extend_from_slice(&tag);
        }
        None => {
            let check = crc32c(&datagram);
            datagram[CHECK_AT..CHECK_AT + 4].copy_from_slice(&check.to_le_bytes());
        }
    }
    datagram
}

/// Opens a handshake: its header and the sender's bytes.
///
/// # Errors
/// What is no handshake, or not of who has the key.
pub fn open(config: &Config, datagram: &mut [u8]) -> Result<(Head, Vec<u8>), ReceiveError> {
    let head = peek(datagram)?;
    if !head.handshake() {
        return Err(ReceiveError::Head("no handshake"));
    }
    let bytes = match seal(config, head.cluster, head.endpoint, head.boot) {
        Some(_) if !head.sealed() => return Err(ReceiveError::NotSealed),
        None if head.sealed() => return Err(ReceiveError::Sealed),
        Some(seal) => seal.open(head.number, datagram).ok_or(ReceiveError::Forged)?.to_vec(),
        None => {
            datagram[CHECK_AT..CHECK_AT + 4].fill(0);
            if crc32c(datagram) != head.check {
                return Err(ReceiveError::Checksum);
            }
            datagram[HEAD_BYTES..].to_vec()
        }
    };
    if bytes.len() > HANDSHAKE_BYTES_MAX {
        return Err(ReceiveError::Oversized);
    }
    Ok((head, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::Key;

    fn config(key: Option<u8>, me: u32) -> Config {
        Config { cluster: 7, me: EndpointId(me), boot: 99, key: key.map(|byte| Key::new([byte; 32])) }
    }

    #[test]
    fn a_handshake_is_opened_by_whoever_has_the_key() {
        for key in [None, Some(1)] {
            let sent = make(&config(key, 5), 0, 44, 0, b"hello");
            let (head, bytes) = open(&config(key, 6), &mut sent.clone()).unwrap();
            assert_eq!((head.endpoint, head.cluster, head.to_boot, head.boot), (EndpointId(5), 0, 44, 99));
            assert_eq!(bytes, b"hello");
            for at in 0..sent.len() {
                let mut changed = sent.clone();
                changed[at] ^= 1;
                assert!(open(&config(key, 6), &mut changed).is_err(), "byte {at}");
            }
            for len in 0..sent.len() {
                assert!(open(&config(key, 6), &mut sent[..len].to_vec()).is_err(), "{len} bytes");
            }
        }
        let (plain, sealed) = (make(&config(None, 5), 7, 0, 0, b"x"), make(&config(Some(1), 5), 7, 0, 0, b"x"));
        assert_eq!(open(&config(Some(1), 6), &mut plain.clone()), Err(ReceiveError::NotSealed));
        assert_eq!(open(&config(None, 6), &mut sealed.clone()), Err(ReceiveError::Sealed));
        assert_eq!(open(&config(Some(2), 6), &mut sealed.clone()), Err(ReceiveError::Forged));
    }
}
