//! Bytes that say who wrote them: a piece of data repeats eight bytes that only its writer uses.

use bytes::Bytes;
use hashbrown::HashMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Shortest piece that can be read back.
pub(crate) const PIECE_MIN: usize = 8;

/// All writers so far, by their mark.
#[derive(Debug)]
pub(crate) struct Marks {
    seed: u64,
    writers: HashMap<u64, u32>,
    last: u32,
}

impl Marks {
    /// Marks of one file: those of another seed are foreign.
    pub(crate) fn new(seed: u64) -> Marks {
        Marks { seed, writers: HashMap::new(), last: 0 }
    }

    fn mark(&self, writer: u32) -> u64 {
        xxh3_64_with_seed(&writer.to_le_bytes(), self.seed) | 1
    }

    /// A new writer, from 1 up.
    pub(crate) fn writer(&mut self) -> u32 {
        self.last += 1;
        let before = self.writers.insert(self.mark(self.last), self.last);
        assert!(before.is_none(), "64 bits are enough for all writers");
        self.last
    }

    /// Appends a writer's piece.
    pub(crate) fn put(&self, writer: u32, len: usize, to: &mut Vec<u8>) {
        assert!(len >= PIECE_MIN, "a piece holds its mark");
        to.extend(self.mark(writer).to_le_bytes().iter().cycle().take(len));
    }

    /// A piece of its own.
    pub(crate) fn piece(&self, writer: u32, len: usize) -> Bytes {
        let mut bytes = vec![];
        self.put(writer, len, &mut bytes);
        bytes.into()
    }

    /// Who wrote what begins here.
    pub(crate) fn whose(&self, piece: &[u8]) -> Option<u32> {
        let mark = u64::from_le_bytes(*piece.first_chunk()?);
        self.writers.get(&mark).copied()
    }

    /// Who wrote all of this piece; none if nobody ever wrote there.
    pub(crate) fn read(&self, piece: &[u8]) -> Result<Option<u32>, String> {
        if is_all(piece, [0; PIECE_MIN]) {
            return Ok(None);
        }
        let writer = self.whose(piece).ok_or_else(|| format!("foreign bytes {:?}", &piece[..PIECE_MIN]))?;
        let mark = self.mark(writer).to_le_bytes();
        if is_all(piece, mark) {
            return Ok(Some(writer));
        }
        let at = piece.iter().zip(mark.iter().cycle()).position(|(seen, expected)| seen != expected);
        let at = at.expect("a piece that is not all the mark differs somewhere");
        Err(format!("bytes of write {writer} up to {at} of {}, then others", piece.len()))
    }
}

/// Whether a piece is nothing but repetitions of these bytes, the last one perhaps cut.
fn is_all(piece: &[u8], mark: [u8; PIECE_MIN]) -> bool {
    let (whole, rest) = piece.as_chunks();
    // Without a way out, so that many words are compared at a time.
    whole.iter().fold(true, |same, word| same & (*word == mark)) && rest == &mark[..rest.len()]
}
