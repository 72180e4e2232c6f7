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
use crate::seal::{Key, Seal, TAG_BYTES};
use onpath_wire::checksum::crc32c;

/// The receiver from which keys of handshakes are derived: no endpoint has this number.
const WHOEVER: EndpointId = EndpointId(u32::MAX);

fn seal(key: &Key, cluster: u32, sender: EndpointId, boot: u64) -> Seal {
    Seal::new((key, None), cluster, sender, boot, WHOEVER)
}

/// Whom a handshake is for.
#[derive(Clone, Copy, Debug, Default)]
pub struct To {
    /// Number of the cluster; 0 as long as that is not known.
    pub cluster: u32,
    /// The challenge that is repeated, or the boot that is answered.
    pub boot: u64,
    /// Name of the key that is answered; none in a question.
    pub key: Option<u32>,
}

impl To {
    /// An answer to the question with this header.
    pub fn answer(head: &Head) -> To {
        To { cluster: head.cluster, boot: head.boot, key: head.sealed().then_some(head.check) }
    }
}

/// A handshake of this endpoint. `count` must never repeat in its life.
///
/// # Panics
/// More bytes than [`HANDSHAKE_BYTES_MAX`].
pub fn make(config: &Config, to: To, count: u64, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() <= HANDSHAKE_BYTES_MAX, "{} bytes of a handshake", bytes.len());
    let To { cluster, boot: to_boot, key } = to;
    // A key that is not valid any more was when the question was opened; then its sender has the other one, or will.
    let key = key.and_then(|id| config.keyring.key(Some(id))).or_else(|| config.keyring.key(None));
    let check = key.as_ref().map_or(0, Key::id);
    let seal = key.map(|key| seal(&key, cluster, config.me, config.boot));
    let flags = flag::HANDSHAKE | if seal.is_some() { flag::SEALED } else { 0 };
    let number = count + 1;
    let length = HEAD_BYTES + bytes.len() + if seal.is_some() { TAG_BYTES } else { 0 };
    let (endpoint, boot) = (config.me, config.boot);
    let head = Head { flags, cluster, endpoint, check, number, boot, to_boot, length: length as u32 };
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
    let bytes = match (config.keyring.seals(), head.sealed()) {
        (true, false) => return Err(ReceiveError::NotSealed),
        (false, true) => return Err(ReceiveError::Sealed),
        (true, true) => {
            let key = config.keyring.key(Some(head.check)).ok_or(ReceiveError::OtherKey)?;
            let seal = seal(&key, head.cluster, head.endpoint, head.boot);
            seal.open(head.number, datagram).ok_or(ReceiveError::Forged)?.to_vec()
        }
        (false, false) => {
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
    use crate::head::peek;
    use crate::{Keyring, Keys, Room};

    fn config(key: Option<u8>, me: u32) -> Config {
        let keyring = Keyring::new(key.map(|byte| Keys::one(Key::new([byte; 32]))));
        Config { cluster: 7, me: EndpointId(me), boot: 99, keyring, room: Room::default() }
    }

    fn opened(config: &Config, datagram: &mut [u8]) -> Result<(Head, Vec<u8>), ReceiveError> {
        let head = peek(datagram)?;
        open(config, &head, datagram).map(|bytes| (head, bytes))
    }

    #[test]
    fn a_handshake_is_opened_by_whoever_has_the_key() {
        for key in [None, Some(1)] {
            let sent = make(&config(key, 5), To { boot: 44, ..To::default() }, 0, b"hello");
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
        let [plain, sealed] = [None, Some(1)].map(|key| make(&config(key, 5), To::default(), 0, b"x"));
        assert_eq!(opened(&config(Some(1), 6), &mut plain.clone()), Err(ReceiveError::NotSealed));
        assert_eq!(opened(&config(None, 6), &mut sealed.clone()), Err(ReceiveError::Sealed));
        assert_eq!(opened(&config(Some(2), 6), &mut sealed.clone()), Err(ReceiveError::OtherKey));
    }

    /// It is read without the key, says what it is for, and is no longer than that.
    #[test]
    fn a_challenge_is_no_longer_than_what_it_is_for() {
        for (key, unknown) in [(None, false), (Some(1), true)] {
            let asked = make(&config(key, 5), To::default(), 41, b"");
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
