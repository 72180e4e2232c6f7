//! Datagrams of a handshake: between processes that may not know each other's boot, or not even their cluster, yet.
//!
//! * A *question* is a header with [`flag::HANDSHAKE`] and the host's bytes, sealed, if there is a key, for whoever has that key. The sender
//!   gives every handshake of its life a number of its own, whoever it is for. Its `to_boot` is the last challenge of the receiver.
//! * A *challenge* is a header alone, in clear text and no longer than what it is for: whoever asks without the present challenge gets it
//!   before anything costly is done for him, and asks again. It says by its `number` what it is for.
//! * An *answer* has the form of a question. Its `to_boot` is the boot of who asked; its bytes say which question it answers, so that a
//!   recorded one is none.

use crate::error::ReceiveError;
use crate::head::{CHECK_AT, EndpointId, HEAD_BYTES, Head, flag};
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

/// The challenge to whoever has sent a datagram with this header; `unknown`: that was no handshake.
pub fn challenge(config: &Config, to: &Head, challenge: u64, unknown: bool) -> [u8; HEAD_BYTES] {
    let flags = flag::HANDSHAKE | flag::CHALLENGE | if unknown { flag::UNKNOWN } else { 0 };
    let (number, to_boot, length) = (to.number, to.boot, HEAD_BYTES as u32);
    let head =
        Head { flags, cluster: to.cluster, endpoint: config.me, check: 0, number, boot: challenge, to_boot, length };
    let mut datagram = head.bytes();
    let check = crc32c(&datagram);
    datagram[CHECK_AT..CHECK_AT + 4].copy_from_slice(&check.to_le_bytes());
    datagram
}

/// What a datagram with this header challenges its receiver to repeat.
///
/// # Errors
/// What is no challenge, or was damaged.
pub fn challenged(head: &Head, datagram: &mut [u8]) -> Result<u64, ReceiveError> {
    if !head.challenge() {
        return Err(ReceiveError::Head("challenge"));
    }
    datagram[CHECK_AT..CHECK_AT + 4].fill(0);
    if crc32c(datagram) == head.check { Ok(head.boot) } else { Err(ReceiveError::Checksum) }
}

/// Opens a question or an answer with this header: the sender's bytes.
///
/// # Errors
/// What is neither, or not of who has the key.
pub fn open(config: &Config, head: &Head, datagram: &mut [u8]) -> Result<Vec<u8>, ReceiveError> {
    if !head.handshake() || head.challenge() {
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
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Room;
    use crate::head::peek;
    use crate::seal::Key;

    fn config(key: Option<u8>, me: u32) -> Config {
        let key = key.map(|byte| Key::new([byte; 32]));
        Config { cluster: 7, me: EndpointId(me), boot: 99, key, room: Room::default() }
    }

    fn opened(config: &Config, datagram: &mut [u8]) -> Result<(Head, Vec<u8>), ReceiveError> {
        let head = peek(datagram)?;
        open(config, &head, datagram).map(|bytes| (head, bytes))
    }

    #[test]
    fn a_handshake_is_opened_by_whoever_has_the_key() {
        for key in [None, Some(1)] {
            let sent = make(&config(key, 5), 0, 44, 0, b"hello");
            let (head, bytes) = opened(&config(key, 6), &mut sent.clone()).unwrap();
            assert_eq!((head.endpoint, head.cluster, head.to_boot, head.boot), (EndpointId(5), 0, 44, 99));
            assert_eq!(bytes, b"hello");
            for at in 0..sent.len() {
                let mut changed = sent.clone();
                changed[at] ^= 1;
                assert!(opened(&config(key, 6), &mut changed).is_err(), "byte {at}");
            }
            for len in 0..sent.len() {
                assert!(opened(&config(key, 6), &mut sent[..len].to_vec()).is_err(), "{len} bytes");
            }
        }
        let (plain, sealed) = (make(&config(None, 5), 7, 0, 0, b"x"), make(&config(Some(1), 5), 7, 0, 0, b"x"));
        assert_eq!(opened(&config(Some(1), 6), &mut plain.clone()), Err(ReceiveError::NotSealed));
        assert_eq!(opened(&config(None, 6), &mut sealed.clone()), Err(ReceiveError::Sealed));
        assert_eq!(opened(&config(Some(2), 6), &mut sealed.clone()), Err(ReceiveError::Forged));
    }

    /// It is read without the key, says what it is for, and is no longer than that.
    #[test]
    fn a_challenge_is_no_longer_than_what_it_is_for() {
        for (key, unknown) in [(None, false), (Some(1), true)] {
            let asked = make(&config(key, 5), 0, 0, 41, b"");
            let to = peek(&asked).unwrap();
            let sent = challenge(&config(key, 6), &to, 77, unknown);
            assert!(sent.len() <= asked.len());
            let head = peek(&sent).unwrap();
            assert_eq!(challenged(&head, &mut sent.clone()), Ok(77));
            assert_eq!((head.number, head.to_boot, head.endpoint), (to.number, 99, EndpointId(6)));
            assert_eq!(head.flags & flag::UNKNOWN != 0, unknown);
            assert!(open(&config(None, 5), &head, &mut sent.clone()).is_err(), "it is no question");
            for at in 0..sent.len() {
                let mut changed = sent;
                changed[at] ^= 1;
                let read = peek(&changed).and_then(|head| challenged(&head, &mut changed));
                assert!(read.is_err(), "byte {at}: {read:?}");
            }
        }
    }
}
