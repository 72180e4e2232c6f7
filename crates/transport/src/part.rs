//! What a datagram holds: parts, one behind the other, each beginning at a multiple of 8 bytes.
//!
//! | part | 0 | 1 | 2 | 4 | 8 … |
//! |---|---|---|---|---|---|
//! | fill | 0 | 0 | 0 | 0 | zeros up to the end of the datagram |
//! | Message | 1 | 0 | 0 | length | to 4 · head length 4 · head · bulk |
//! | Fragment | 2 | 0 | stride | length | message id 8 · to 4 · head length 4 · bulk length 4 · offset 4 · bytes |
//! | Ack | 3 | 1: complete | 0 | length | message id 8 · number 8 · delay 4 · base 4 · words of 8 |
//!
//! The length does not count the first 8 bytes nor the zeros behind a part that bring the next one to a multiple of 8. A message is
//! cut into fragments of `stride` bytes, the last one may be shorter; offsets are those in head and bulk together. An Ack says that all
//! fragments before `base` have arrived, and those of which bit `i` is set in its words, counted from `base`; `number` is that of the datagram
//! with the newest of them, which came `delay` µs before the Ack was sent.

use crate::error::ReceiveError;
use crate::limits::{
    ACK_DELAY_SAID_US_MAX, ACK_WORDS_MAX, BULK_BYTES_MAX, DATAGRAM_BYTES_MAX, FRAGMENTS_MAX, HEAD_BYTES_MAX, STRIDE_MIN,
};
use onpath_wire::NodeId;

/// Bytes in front of every part.
pub(crate) const PART_BYTES: usize = 8;
/// Bytes of a Message part in front of the message.
pub(crate) const MESSAGE_AT: usize = PART_BYTES + 8;
/// Bytes of a Fragment part in front of its bytes of the message.
pub(crate) const FRAGMENT_AT: usize = PART_BYTES + 24;
/// Bytes of an Ack part in front of its words.
const ACK_AT: usize = 24;

const MESSAGE: u8 = 1;
const FRAGMENT: u8 = 2;
const ACK: u8 = 3;
const COMPLETE: u8 = 1;

/// A part of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Message { to: NodeId, head: &'a [u8], bulk: &'a [u8] },
    Fragment(Fragment<'a>),
    Ack(Ack<'a>),
}

/// What all fragments of a message say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) id: u64,
    pub(crate) to: NodeId,
    pub(crate) head: u32,
    pub(crate) bulk: u32,
    pub(crate) stride: u16,
}

impl Shape {
    pub(crate) fn bytes(&self) -> usize {
        self.head as usize + self.bulk as usize
    }

    pub(crate) fn fragments(&self) -> u32 {
        self.bytes().div_ceil(self.stride as usize) as u32
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment<'a> {
    pub(crate) shape: Shape,
    /// Its place among the fragments.
    pub(crate) index: u32,
    pub(crate) bytes: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ack<'a> {
    pub(crate) id: u64,
    pub(crate) complete: bool,
    pub(crate) number: u64,
    pub(crate) delay_us: u32,
    pub(crate) base: u32,
    words: &'a [u8],
}

impl Ack<'_> {
    /// The words, from `base` on.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> {
        self.words.chunks_exact(8).map(|word| u64::from_le_bytes(*word.first_chunk().expect("8 bytes")))
    }
}

/// The parts of a datagram. Ends after the first error.
#[derive(Clone, Debug)]
pub(crate) struct Parts<'a> {
    rest: &'a [u8],
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("its length was checked"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("its length was checked"))
}

fn zeros(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

impl<'a> Parts<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Parts { rest: bytes }
    }

    #[inline]
    fn take(&mut self) -> Result<Option<Part<'a>>, ReceiveError> {
        let rest = self.rest;
        let Some(front) = rest.first_chunk::<PART_BYTES>() else {
            return if zeros(rest) { Ok(None) } else { Err(ReceiveError::Part("end")) };
        };
        let [kind, flags, _, _, ..] = *front;
        if kind == 0 {
            self.rest = &[];
            return if zeros(rest) { Ok(None) } else { Err(ReceiveError::Part("fill")) };
        }
        let spare = u16::from_le_bytes([front[2], front[3]]);
        if flags != 0 && (kind != ACK || flags != COMPLETE) {
            return Err(ReceiveError::Part("flags"));
        }
        if spare != 0 && kind != FRAGMENT {
            return Err(ReceiveError::Part("spare bytes"));
        }
        let length = u32_at(front, 4) as usize;
        let content = rest[PART_BYTES..].get(..length).ok_or(ReceiveError::Part("length"))?;
        let padded = (PART_BYTES + length).next_multiple_of(8);
        let padding = rest.get(PART_BYTES + length..padded).ok_or(ReceiveError::Part("padding"))?;
        if !zeros(padding) {
            return Err(ReceiveError::Part("padding"));
        }
        self.rest = &rest[padded..];
        let part = match kind {
            MESSAGE => message(content)?,
            FRAGMENT => Part::Fragment(fragment(content, spare)?),
            ACK => Part::Ack(ack(content, flags == COMPLETE)?),
            _ => return Err(ReceiveError::UnknownPart(kind)),
        };
        Ok(Some(part))
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = Result<Part<'a>, ReceiveError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let part = self.take().transpose();
        if !matches!(part, Some(Ok(_))) {
            self.rest = &[];
        }
        part
    }
}

fn message(content: &[u8]) -> Result<Part<'_>, ReceiveError> {
    let Some((front, rest)) = content.split_first_chunk::<8>() else {
        return Err(ReceiveError::Part("length of a message"));
    };
    let head = u32_at(front, 4) as usize;
    let (head, bulk) = rest.split_at_checked(head).ok_or(ReceiveError::Part("head length of a message"))?;
    Ok(Part::Message { to: NodeId(u32_at(front, 0)), head, bulk })
}

fn fragment(content: &[u8], stride: u16) -> Result<Fragment<'_>, ReceiveError> {
    let Some((front, bytes)) = content.split_first_chunk::<24>() else {
        return Err(ReceiveError::Part("length of a fragment"));
    };
    let shape = Shape {
        id: u64_at(front, 0),
        to: NodeId(u32_at(front, 8)),
        head: u32_at(front, 12),
        bulk: u32_at(front, 16),
        stride,
    };
    if shape.id == 0 {
        return Err(ReceiveError::Part("message id"));
    }
    if shape.head as usize > HEAD_BYTES_MAX || shape.bulk as usize > BULK_BYTES_MAX || shape.bytes() == 0 {
        return Err(ReceiveError::Part("length of a fragmented message"));
    }
    let (stride, offset) = (usize::from(stride), u32_at(front, 20) as usize);
    if stride < STRIDE_MIN || !stride.is_multiple_of(8) || !offset.is_multiple_of(stride) || offset >= shape.bytes() {
        return Err(ReceiveError::Part("place of a fragment"));
    }
    if bytes.len() != stride.min(shape.bytes() - offset) {
        return Err(ReceiveError::Part("length of a fragment"));
    }
    Ok(Fragment { shape, index: (offset / stride) as u32, bytes })
}

fn ack(content: &[u8], complete: bool) -> Result<Ack<'_>, ReceiveError> {
    let Some((front, words)) = content.split_first_chunk::<ACK_AT>() else {
        return Err(ReceiveError::Part("length of an acknowledgement"));
    };
    if !words.len().is_multiple_of(8) || words.len() > 8 * ACK_WORDS_MAX || complete && !words.is_empty() {
        return Err(ReceiveError::Part("words of an acknowledgement"));
    }
    let (delay_us, base) = (u32_at(front, 16), u32_at(front, 20));
    if base as usize > FRAGMENTS_MAX || delay_us > ACK_DELAY_SAID_US_MAX {
        return Err(ReceiveError::Part("acknowledgement"));
    }
    Ok(Ack { id: u64_at(front, 0), complete, number: u64_at(front, 8), delay_us, base, words })
}

/// Bytes of a part with this content and what pads it.
pub(crate) const fn part_bytes(content: usize) -> usize {
    (PART_BYTES + content).next_multiple_of(8)
}

#[inline]
fn put_front(out: &mut Vec<u8>, kind: u8, flags: u8, spare: u16, length: usize) {
    let mut front = [kind, flags, 0, 0, 0, 0, 0, 0];
    front[2..4].copy_from_slice(&spare.to_le_bytes());
    front[4..].copy_from_slice(&(length as u32).to_le_bytes());
    out.extend_from_slice(&front);
}

#[inline]
fn pad(out: &mut Vec<u8>, length: usize) {
    let padding = part_bytes(length) - PART_BYTES - length;
    out.extend_from_slice(&[0; 8][..padding]);
}

#[inline]
pub(crate) fn put_message(out: &mut Vec<u8>, to: NodeId, head: &[u8], bulk: &[u8]) {
    let length = 8 + head.len() + bulk.len();
    put_front(out, MESSAGE, 0, 0, length);
    let mut front = [0; 8];
    front[..4].copy_from_slice(&to.0.to_le_bytes());
    front[4..].copy_from_slice(&(head.len() as u32).to_le_bytes());
    out.extend_from_slice(&front);
    out.extend_from_slice(head);
    out.extend_from_slice(bulk);
    pad(out, length);
}

/// Puts fragment `index` of the message that `head` and `bulk` are.
pub(crate) fn put_fragment(out: &mut Vec<u8>, shape: &Shape, index: u32, head: &[u8], bulk: &[u8]) {
    let offset = index as usize * usize::from(shape.stride);
    let end = shape.bytes().min(offset + usize::from(shape.stride));
    put_front(out, FRAGMENT, 0, shape.stride, 24 + end - offset);
    out.extend_from_slice(&shape.id.to_le_bytes());
    for word in [shape.to.0, shape.head, shape.bulk, offset as u32] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&head[offset.min(head.len())..end.min(head.len())]);
    out.extend_from_slice(&bulk[offset.saturating_sub(head.len())..end.saturating_sub(head.len())]);
    pad(out, 24 + end - offset);
}

/// What an acknowledgement says, but for its words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckFront {
    pub(crate) id: u64,
    pub(crate) complete: bool,
    pub(crate) number: u64,
    pub(crate) delay_us: u64,
    pub(crate) base: u32,
}

pub(crate) fn put_ack(out: &mut Vec<u8>, front: &AckFront, words: &[u64]) {
    let flags = if front.complete { COMPLETE } else { 0 };
    put_front(out, ACK, flags, 0, ACK_AT + 8 * words.len());
    out.extend_from_slice(&front.id.to_le_bytes());
    out.extend_from_slice(&front.number.to_le_bytes());
    out.extend_from_slice(&(front.delay_us.min(u64::from(ACK_DELAY_SAID_US_MAX)) as u32).to_le_bytes());
    out.extend_from_slice(&front.base.to_le_bytes());
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

/// Most bytes of an Ack part.
pub(crate) const ACK_BYTES_MAX: usize = part_bytes(ACK_AT + 8 * ACK_WORDS_MAX);
// Acknowledgements fit the smallest datagram, and a stride fits its field.
const _: () = {
    let room = crate::limits::DATAGRAM_BYTES_MIN - crate::head::HEAD_BYTES - crate::seal::TAG_BYTES;
    assert!(ACK_BYTES_MAX <= room && FRAGMENT_AT + STRIDE_MIN <= room);
    assert!(DATAGRAM_BYTES_MAX <= u16::MAX as usize);
};

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<Part<'_>>, ReceiveError> {
        Parts::new(bytes).collect()
    }

    const SHAPE: Shape = Shape { id: 7, to: NodeId(9), head: 3, bulk: 259, stride: 256 };

    fn sample() -> Vec<u8> {
        let mut out = Vec::new();
        put_message(&mut out, NodeId(0x0100_0002), b"head", b"bulk!");
        put_ack(&mut out, &AckFront { id: 5, complete: false, number: 6, delay_us: 7, base: 8 }, &[0x10]);
        put_fragment(&mut out, &SHAPE, 1, b"abc", &[0x55; 259]);
        out
    }

    #[test]
    fn the_layout_is_frozen() {
        let hex: String = sample().iter().map(|byte| format!("{byte:02x}")).collect();
        let message = "0100000011000000 0200000104000000 6865616462756c6b 2100000000000000";
        let ack = "0300000020000000 0500000000000000 0600000000000000 0700000008000000 1000000000000000";
        let fragment = "020000011e000000 0700000000000000 0900000003000000 0301000000010000 5555555555550000";
        assert_eq!(hex, [message, ack, fragment].concat().replace(' ', ""));
    }

    #[test]
    fn parts_come_back() {
        let mut bytes = sample();
        bytes.extend_from_slice(&[0; 16]);
        let parts = all(&bytes).unwrap();
        assert_eq!(parts[0], Part::Message { to: NodeId(0x0100_0002), head: b"head", bulk: b"bulk!" });
        let Part::Ack(ack) = parts[1] else { panic!("{parts:?}") };
        assert_eq!((ack.id, ack.complete, ack.number, ack.delay_us, ack.base), (5, false, 6, 7, 8));
        assert_eq!(ack.words().collect::<Vec<u64>>(), [0x10]);
        assert_eq!(parts[2], Part::Fragment(Fragment { shape: SHAPE, index: 1, bytes: &[0x55; 6] }));
        assert_eq!(parts.len(), 3);
        assert_eq!(all(&[]), Ok(vec![]));
    }

    /// Each byte that is not content of a message is looked at: changed, something else or nothing comes out.
    #[test]
    fn what_does_not_fit_is_told() {
        let one = |put: &dyn Fn(&mut Vec<u8>), at: usize, byte: u8| {
            let mut bytes = Vec::new();
            put(&mut bytes);
            bytes[at] = byte;
            all(&bytes).map(|parts| parts.len())
        };
        let message = |out: &mut Vec<u8>| put_message(out, NodeId(1), b"head", b"x");
        let fragment = |out: &mut Vec<u8>| put_fragment(out, &SHAPE, 1, b"abc", &[0x55; 259]);
        let front = AckFront { id: 5, complete: true, number: 6, delay_us: 7, base: 8 };
        let ack = |out: &mut Vec<u8>| put_ack(out, &front, &[]);
        assert_eq!(one(&message, 0, 9), Err(ReceiveError::UnknownPart(9)));
        assert_eq!(one(&message, 0, 0), Err(ReceiveError::Part("fill")));
        assert_eq!(one(&message, 1, 1), Err(ReceiveError::Part("flags")));
        assert_eq!(one(&message, 2, 1), Err(ReceiveError::Part("spare bytes")));
        assert_eq!(one(&message, 4, 255), Err(ReceiveError::Part("length")));
        assert_eq!(one(&message, 4, 11), Err(ReceiveError::Part("padding")));
        assert_eq!(one(&message, 12, 6), Err(ReceiveError::Part("head length of a message")));
        assert_eq!(one(&message, 23, 1), Err(ReceiveError::Part("padding")));
        assert_eq!(one(&fragment, 8, 0), Err(ReceiveError::Part("message id")));
        assert_eq!(one(&fragment, 2, 8), Err(ReceiveError::Part("place of a fragment")), "not a multiple");
        assert_eq!(one(&fragment, 3, 0), Err(ReceiveError::Part("place of a fragment")), "no stride");
        assert_eq!(one(&fragment, 29, 2), Err(ReceiveError::Part("place of a fragment")), "beyond the end");
        assert_eq!(one(&fragment, 29, 0), Err(ReceiveError::Part("length of a fragment")), "not the last one");
        assert_eq!(one(&fragment, 23, 1), Err(ReceiveError::Part("length of a fragmented message")));
        assert_eq!(one(&ack, 27, 1), Err(ReceiveError::Part("acknowledgement")), "delay");
        assert_eq!(one(&ack, 31, 1), Err(ReceiveError::Part("acknowledgement")), "base");
        assert_eq!(all(&[1, 0, 0]), Err(ReceiveError::Part("end")));
    }
}
