//! One regular file.

use super::attributes;
use super::copier::Job;
use super::object::{Destination, Facts, Object};
use crate::walk::{Failure, to, to_copy};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::ops::Range;

/// Bytes read and written at once.
const CHUNK: usize = 1 << 20;
/// What is zero is left out in units of this.
const BLOCK: usize = 4096;
/// Bytes of a block as st_blocks counts them.
const STAT_BLOCK: u64 = 512;
/// How often a file is copied that others write meanwhile.
const TRIES: usize = 3;

/// A file to be copied.
pub(super) struct File<'a, D: Destination>(pub(super) &'a Job<'a, D>);

impl<D: Destination> File<'_, D> {
    pub(super) fn copy(&self, source: &impl Object) -> Result<D::Object, Failure> {
        let job = self.0;
        let source = source.open().map_err(to("open"))?;
        for _ in 0..TRIES {
            let before = source.now().map_err(to("stat"))?;
            if let Some(there) = self.there(&source, &before)?
                && attributes::renew(&source, &before, &there, job.done)?
            {
                job.done.skipped.add(1);
                return Ok(there);
            }
            let copy = self.fill(&source, &before)?;
            let after = source.now().map_err(to("stat"))?;
            if (before.modified, before.size) != (after.modified, after.size) {
                drop(copy);
                job.to.discard(job.dir, job.name, &before)?;
                continue;
            }
            if job.verify {
                self.reread(&source, &before, &copy)?;
            }
            attributes::copy(&source, &before, &copy, job.done)?;
            job.to.place(job.dir, job.name, &before, &copy)?;
            job.done.files.add(1);
            return Ok(copy);
        }
        Err(Failure::new("copy (others go on writing into it)", Errno::BUSY))
    }

    /// The copy, if it is complete: what has its name, its size and its time of modification.
    fn there(&self, source: &impl Object, is: &Facts) -> Result<Option<D::Object>, Failure> {
        let Ok(there) = self.0.to.find(self.0.dir, self.0.name) else { return Ok(None) };
        let have = there.is();
        let same = have.kind == FileType::RegularFile && have.size == is.size;
        if !same || have.modified != is.modified {
            return Ok(None);
        }
        if self.0.verify {
            let copy = there.open().map_err(to_copy("open the copy of"))?;
            if self.equal_bytes(source, &copy)? != is.size {
                return Ok(None);
            }
        }
        Ok(Some(there))
    }

    /// Writes the bytes, from where an earlier run came to.
    fn fill(&self, source: &impl Object, is: &Facts) -> Result<D::Object, Failure> {
        let copy = self.0.to.begin(self.0.dir, self.0.name, is)?;
        let begun = copy.is().size;
        let mut from = 0;
        if begun > 0 {
            from = self.equal_bytes(source, &copy)? & !(BLOCK as u64 - 1);
            copy.set_size(from).map_err(to_copy("cut the copy of"))?;
            self.0.done.resumed.add(1);
        }
        let sparse = is.blocks.saturating_mul(STAT_BLOCK) < is.size;
        let mut end = from;
        while let Some((start, until)) = data(source, from, is.size) {
            end = end.max(self.write(source, &copy, start..until, sparse)?);
            from = until;
        }
        if end != is.size {
            copy.set_size(is.size).map_err(to_copy("extend the copy of"))?;
        }
        Ok(copy)
    }

    /// Where the last byte is that was written.
    fn write(&self, source: &impl Object, copy: &impl Object, range: Range<u64>, sparse: bool) -> Result<u64, Failure> {
        let mut buffer = vec![0; usize::try_from(range.end - range.start).unwrap_or(CHUNK).min(CHUNK)];
        let (mut at, mut end) = (range.start, 0);
        while at < range.end {
            let wanted = buffer.len().min(usize::try_from(range.end - at).unwrap_or(CHUNK));
            let got = source.read_at(&mut buffer[..wanted], at).map_err(to("read"))?;
            if got == 0 {
                break; // it became shorter: that is noticed afterwards
            }
            for (start, bytes) in runs(&buffer[..got], sparse) {
                copy.write_at(bytes, at + start as u64).map_err(to_copy("write the copy of"))?;
                end = at + (start + bytes.len()) as u64;
                self.0.done.bytes.add(bytes.len() as u64);
            }
            at += got as u64;
            self.0.progress.add_bytes(got as u64);
        }
        Ok(end)
    }

    /// What was written comes back the same, from the file system and not only from this machine's memory.
    fn reread(&self, source: &impl Object, is: &Facts, copy: &impl Object) -> Result<(), Failure> {
        copy.settle().map_err(to_copy("bring to stable storage the copy of"))?;
        if self.equal_bytes(source, copy)? == is.size {
            return Ok(());
        }
        Err(Failure::of_copy("verify the copy of (its bytes differ)", Errno::IO))
    }

    /// How many bytes of both are the same, from the start.
    fn equal_bytes(&self, source: &impl Object, copy: &impl Object) -> Result<u64, Failure> {
        let (mut ours, mut theirs) = (vec![0; CHUNK], vec![0; CHUNK]);
        let mut at = 0;
        loop {
            let read = source.read_at(&mut ours, at).map_err(to("read"))?;
            let there = copy.read_at(&mut theirs, at).map_err(to_copy("read the copy of"))?;
            let both = read.min(there);
            self.0.done.compared.add(both as u64);
            let same = ours[..both].iter().zip(&theirs[..both]).position(|(a, b)| a != b).unwrap_or(both);
            at += same as u64;
            if same < CHUNK {
                return Ok(at);
            }
        }
    }
}

/// The next range at or after `from` that is not known to be a hole.
fn data(source: &impl Object, from: u64, size: u64) -> Option<(u64, u64)> {
    if from >= size {
        return None;
    }
    let start = match source.seek(from, false) {
        Ok(start) => start,
        Err(Errno::NXIO) => return None, // nothing but a hole is left
        Err(_) => return Some((from, size)),
    };
    let end = source.seek(start, true).unwrap_or(size);
    (start < size).then_some((start, end.clamp(start + 1, size)))
}

/// Parts of the bytes that must be written: all, or what is not a block of zeros.
fn runs(bytes: &[u8], sparse: bool) -> Vec<(usize, &[u8])> {
    if !sparse {
        return vec![(0, bytes)];
    }
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (number, block) in bytes.chunks(BLOCK).enumerate() {
        let start = number * BLOCK;
        if block.iter().all(|byte| *byte == 0) {
            continue;
        }
        match runs.last_mut() {
            Some((_, end)) if *end == start => *end += block.len(),
            _ => runs.push((start, start + block.len())),
        }
    }
    runs.into_iter().map(|(start, end)| (start, &bytes[start..end])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_zeros_are_left_out() {
        let mut bytes = vec![0; 4 * BLOCK + 10];
        bytes[BLOCK] = 1;
        bytes[2 * BLOCK + 5] = 1;
        bytes[4 * BLOCK + 9] = 1;
        let places = |sparse| runs(&bytes, sparse).iter().map(|(at, run)| (*at, run.len())).collect::<Vec<_>>();
        assert_eq!(places(false), [(0, bytes.len())]);
        assert_eq!(places(true), [(BLOCK, 2 * BLOCK), (4 * BLOCK, 10)]);
    }
}
