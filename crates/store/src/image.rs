//! Bytes of a checkpoint image file: the state of one range of a role, as of one record (design.md, "Durability").
//!
//! All integers are little-endian.
//! - Header: magic 8, format version 4, feature bits 8, fsid 8, role 4, range 4, last record 8, pairs 8, CRC-32C 4.
//! - Blocks of about 64 KiB: payload bytes 4, pairs 4, CRC-32C of these and the payload 4, payload: for each pair
//!   key length 4, value length 4, key, value. Keys are sorted and unique over the whole file.
//! - Footer: 0 in place of a block's payload bytes 4, pairs 8, CRC-32C of the whole file before it 4.

use crate::recoverable::Pair;
use onpath_wire::checksum::{crc32c, crc32c_of};
use onpath_wire::codec::{Reader, Wire, WireError};
use onpath_wire::ids::{NodeId, RecordSeq};
use onpath_wire::superblock::{FEATURES_KNOWN, FORMAT_VERSION};
use onpath_wire::wire_struct;
use thiserror::Error;

/// "OnpathIm", little-endian.
const MAGIC: u64 = u64::from_le_bytes(*b"OnpathIm");
/// A block is closed when its payload has so many bytes.
const BLOCK_BYTES: usize = 64 << 10;
const BLOCK_HEAD_BYTES: usize = 12;
const PAIR_HEAD_BYTES: usize = 8;

/// What an image is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageHeader {
    /// Identity of the file system.
    pub fsid: u64,
    /// The role whose state it is.
    pub role: NodeId,
    /// The range of its state.
    pub range: u32,
    /// The last record of the role that the pairs reflect.
    pub upto: RecordSeq,
}

wire_struct! {
    /// What a file begins with; a CRC-32C of it follows.
    pub struct ImageStart {
        /// "OnpathIm", little-endian.
        pub magic: u64,
        /// [`FORMAT_VERSION`].
        pub version: u32,
        /// Feature bits; an unknown one is refused.
        pub features: u64,
        /// Identity of the file system.
        pub fsid: u64,
        /// The role whose state it is.
        pub role: NodeId,
        /// The range of its state.
        pub range: u32,
        /// The last record of the role that the pairs reflect.
        pub upto: RecordSeq,
        /// Number of pairs.
        pub pairs: u64,
    }
}

/// Why bytes are no usable image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ImageError {
    /// The magic is missing.
    #[error("not an Onpath checkpoint image: its first bytes are not \"OnpathIm\"")]
    Foreign,
    /// Written in another format.
    #[error(
        "the image has format version {found}, this program reads version {FORMAT_VERSION}: \
         use an Onpath that reads format version {found}"
    )]
    Version {
        /// The version needed.
        found: u32,
    },
    /// Written with features that this program does not know.
    #[error(
        "the image (format version {version}) uses features {unknown:#x}, unknown to this program: \
         use the Onpath that wrote it, or a later one"
    )]
    Features {
        /// Version of the format.
        version: u32,
        /// The unknown bits.
        unknown: u64,
    },
    /// The bytes are not those that were written.
    #[error("the image is damaged: {what} at byte {offset}; restore the file from a copy")]
    Damaged {
        /// Where, bytes from the start of the file.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// Keys are not sorted or not unique.
    #[error(
        "the image is damaged: the key at byte {offset} does not come after the one before it; \
         restore the file from a copy"
    )]
    Order {
        /// Where, bytes from the start of the file.
        offset: u64,
    },
}

/// The bytes of an image; `pairs` are sorted by key, keys unique.
pub fn encode(header: ImageHeader, pairs: &[Pair]) -> Vec<u8> {
    assert!(pairs.is_sorted_by(|a, b| a.0 < b.0), "pairs of an image are not sorted or not unique");
    let payload: usize = pairs.iter().map(|(key, value)| PAIR_HEAD_BYTES + key.len() + value.len()).sum();
    let mut out = Vec::with_capacity(payload + (payload / BLOCK_BYTES + 16) * BLOCK_HEAD_BYTES);
    let ImageHeader { fsid, role, range, upto } = header;
    let (version, features) = (FORMAT_VERSION, FEATURES_KNOWN);
    ImageStart { magic: MAGIC, version, features, fsid, role, range, upto, pairs: pairs.len() as u64 }.put(&mut out);
    crc32c(&out).put(&mut out);
    let mut rest = pairs;
    while !rest.is_empty() {
        rest = put_block(rest, &mut out);
    }
    0u32.put(&mut out);
    (pairs.len() as u64).put(&mut out);
    crc32c(&out).put(&mut out);
    out
}

/// Writes the first pairs as a block, and returns the others.
fn put_block<'a>(pairs: &'a [Pair], out: &mut Vec<u8>) -> &'a [Pair] {
    let start = out.len();
    out.extend_from_slice(&[0; BLOCK_HEAD_BYTES]);
    let mut count = 0;
    for (key, value) in pairs {
        length(key).put(out);
        length(value).put(out);
        out.extend_from_slice(key);
        out.extend_from_slice(value);
        count += 1;
        if out.len() - start >= BLOCK_BYTES {
            break;
        }
    }
    let (head, payload) = out[start..].split_at_mut(BLOCK_HEAD_BYTES);
    head[..4].copy_from_slice(&length(payload).to_le_bytes());
    head[4..8].copy_from_slice(&(count as u32).to_le_bytes());
    let crc = crc32c_of(&[&head[..8], payload]);
    head[8..].copy_from_slice(&crc.to_le_bytes());
    &pairs[count..]
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("keys and values of an image are smaller than 4 GiB")
}

/// Reads an image back, and checks all of it.
pub fn decode(bytes: &[u8]) -> Result<(ImageHeader, Vec<Pair>), ImageError> {
    let mut cursor = Cursor { bytes, rest: Reader::new(bytes) };
    let start = cursor.start()?;
    let mut pairs: Vec<Pair> = Vec::new();
    while cursor.block(&mut pairs)? {}
    cursor.footer()?;
    if pairs.len() as u64 != start.pairs {
        return Err(ImageError::Damaged {
            offset: cursor.offset(),
            what: "the number of pairs differs from the header's",
        });
    }
    let ImageStart { fsid, role, range, upto, .. } = start;
    Ok((ImageHeader { fsid, role, range, upto }, pairs))
}

struct Cursor<'a> {
    bytes: &'a [u8],
    rest: Reader<'a>,
}

impl<'a> Cursor<'a> {
    fn offset(&self) -> u64 {
        (self.bytes.len() - self.rest.remaining()) as u64
    }

    fn damaged(&self, what: &'static str) -> ImageError {
        ImageError::Damaged { offset: self.offset(), what }
    }

    fn truncated(&self) -> impl Fn(WireError) -> ImageError + use<> {
        let offset = self.bytes.len() as u64;
        move |_| ImageError::Damaged { offset, what: "the file ends too early" }
    }

    fn start(&mut self) -> Result<ImageStart, ImageError> {
        if !self.bytes.starts_with(&MAGIC.to_le_bytes()) {
            return Err(ImageError::Foreign);
        }
        let start = ImageStart::take(&mut self.rest).map_err(self.truncated())?;
        if start.version != FORMAT_VERSION {
            return Err(ImageError::Version { found: start.version });
        }
        let unknown = start.features & !FEATURES_KNOWN;
        if unknown != 0 {
            return Err(ImageError::Features { version: start.version, unknown });
        }
        self.check(0, "the checksum of the header is wrong")?;
        Ok(start)
    }

    /// Takes the checksum of all bytes from `from` up to here.
    fn check(&mut self, from: usize, what: &'static str) -> Result<(), ImageError> {
        let covered = &self.bytes[from..self.bytes.len() - self.rest.remaining()];
        let wrong = self.damaged(what);
        let crc = u32::take(&mut self.rest).map_err(self.truncated())?;
        if crc == crc32c(covered) { Ok(()) } else { Err(wrong) }
    }

    /// Takes a block; false if what comes is the footer.
    fn block(&mut self, pairs: &mut Vec<Pair>) -> Result<bool, ImageError> {
        let begin = self.rest.clone();
        let bytes = u32::take(&mut self.rest).map_err(self.truncated())?;
        if bytes == 0 {
            self.rest = begin;
            return Ok(false);
        }
        let wrong = ImageError::Damaged { offset: self.offset() - 4, what: "the checksum of a block is wrong" };
        let count = u32::take(&mut self.rest).map_err(self.truncated())?;
        let crc = u32::take(&mut self.rest).map_err(self.truncated())?;
        let offset = self.offset();
        // A wrong length runs over the end as easily as a file that is cut off: both are named by the block.
        let payload = self.rest.bytes(bytes as usize).map_err(|_| wrong)?;
        if crc != crc32c_of(&[&bytes.to_le_bytes(), &count.to_le_bytes(), payload]) {
            return Err(wrong);
        }
        take_pairs(payload, count, offset, pairs)?;
        Ok(true)
    }

    fn footer(&mut self) -> Result<(), ImageError> {
        let total = u32::take(&mut self.rest).and_then(|_| u64::take(&mut self.rest));
        total.map_err(self.truncated())?;
        self.check(0, "the checksum of the file is wrong")?;
        match self.rest.remaining() {
            0 => Ok(()),
            _ => Err(self.damaged("bytes follow the footer")),
        }
    }
}

fn take_pairs(payload: &[u8], count: u32, offset: u64, pairs: &mut Vec<Pair>) -> Result<(), ImageError> {
    let mut rest = Reader::new(payload);
    for _ in 0..count {
        let offset = offset + (payload.len() - rest.remaining()) as u64;
        let pair =
            take_pair(&mut rest).map_err(|_| ImageError::Damaged { offset, what: "a pair exceeds its block" })?;
        if pairs.last().is_some_and(|last| last.0 >= pair.0) {
            return Err(ImageError::Order { offset });
        }
        pairs.push(pair);
    }
    let offset = offset + (payload.len() - rest.remaining()) as u64;
    rest.finish().map_err(|_| ImageError::Damaged { offset, what: "bytes follow the last pair of a block" })
}

fn take_pair(rest: &mut Reader<'_>) -> Result<Pair, WireError> {
    let (key, value) = (u32::take(rest)?, u32::take(rest)?);
    Ok((rest.bytes(key as usize)?.to_vec(), rest.bytes(value as usize)?.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const HEADER: ImageHeader = ImageHeader { fsid: 0xfeed, role: NodeId(1 << 24 | 3), range: 17, upto: RecordSeq(99) };
    const HEADER_BYTES: usize = 56;
    const CRC_BYTES: usize = 4;

    fn pairs(count: u32, value_bytes: usize) -> Vec<Pair> {
        (0..count).map(|i| (i.to_be_bytes().to_vec(), vec![i as u8; value_bytes])).collect()
    }

    /// Sets bytes of the header and makes its checksum right again.
    fn with_header(at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut image = encode(HEADER, &pairs(3, 3));
        image[at..at + bytes.len()].copy_from_slice(bytes);
        let crc = crc32c(&image[..HEADER_BYTES - CRC_BYTES]);
        image[HEADER_BYTES - CRC_BYTES..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
        image
    }

    #[test]
    fn images_of_no_one_and_many_blocks_come_back() {
        for pairs in [pairs(0, 0), pairs(1, 0), pairs(5000, 100), pairs(3, 200_000)] {
            assert_eq!(decode(&encode(HEADER, &pairs)), Ok((HEADER, pairs)));
        }
    }

    #[test]
    fn other_formats_are_refused_with_what_they_need() {
        assert_eq!(decode(b""), Err(ImageError::Foreign));
        assert_eq!(decode(b"Onpath01 and so on"), Err(ImageError::Foreign));
        let newer = decode(&with_header(8, &7u32.to_le_bytes())).unwrap_err();
        assert_eq!(newer, ImageError::Version { found: 7 });
        assert!(newer.to_string().ends_with("use an Onpath that reads format version 7"), "{newer}");
        let features = decode(&with_header(12, &(1u64 << 63).to_le_bytes())).unwrap_err();
        assert_eq!(features, ImageError::Features { version: FORMAT_VERSION, unknown: 1 << 63 });
    }

    #[test]
    fn keys_out_of_order_are_refused_even_with_right_checksums() {
        for keys in [[2u32, 1], [1, 1]] {
            let mut out = encode(HEADER, &[])[..HEADER_BYTES].to_vec();
            put_block(&keys.map(|key| (key.to_be_bytes().to_vec(), Vec::new())), &mut out);
            assert_eq!(decode(&out), Err(ImageError::Order { offset: (HEADER_BYTES + BLOCK_HEAD_BYTES + 12) as u64 }));
        }
    }

    #[test]
    fn a_header_of_another_file_is_noticed() {
        let error = decode(&with_header(44, &4u64.to_le_bytes())).unwrap_err();
        assert!(matches!(error, ImageError::Damaged { .. }), "{error}");
    }

    #[test]
    fn damage_names_its_block() {
        let mut image = encode(HEADER, &pairs(5000, 100));
        let second = HEADER_BYTES
            + BLOCK_HEAD_BYTES
            + u32::from_le_bytes(*image[HEADER_BYTES..].first_chunk().unwrap()) as usize;
        image[second + 1000] ^= 1;
        let what = "the checksum of a block is wrong";
        assert_eq!(decode(&image), Err(ImageError::Damaged { offset: second as u64, what }));
    }

    fn bytes(below: usize) -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..below)
    }

    proptest! {
        #[test]
        fn images_come_back(map in prop::collection::btree_map(bytes(12), bytes(40), 0..60)) {
            let pairs: Vec<Pair> = BTreeMap::into_iter(map).collect();
            prop_assert_eq!(decode(&encode(HEADER, &pairs)), Ok((HEADER, pairs)));
        }

        #[test]
        fn every_flip_and_every_cut_is_noticed(count in 0u32..40, pick in any::<prop::sample::Index>(), bit in 0u8..8) {
            let image = encode(HEADER, &pairs(count, 9));
            let at = pick.index(image.len());
            prop_assert!(decode(&image[..at]).is_err());
            let mut flipped = image;
            flipped[at] ^= 1 << bit;
            prop_assert!(decode(&flipped).is_err());
            flipped[at] ^= 1 << bit;
            flipped.push(0);
            prop_assert!(decode(&flipped).is_err());
        }

        #[test]
        fn arbitrary_bytes_are_refused(bytes in bytes(300)) {
            let mut image = encode(HEADER, &[])[..HEADER_BYTES].to_vec();
            image.extend_from_slice(&bytes);
            prop_assert!(decode(&image).is_err());
        }
    }
}
