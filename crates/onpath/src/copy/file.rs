//! One regular file.

use super::attributes::{self, same_mtime};
use super::copier::{Job, Made};
use super::inode::{Inode, id, is_ours};
use super::staging;
use crate::walk::{Failure, to, to_copy};
use rustix::fs::{Advice, FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

/// Bytes read and written at once.
const CHUNK: usize = 1 << 20;
/// What is zero is left out in units of this.
const BLOCK: usize = 4096;
/// Bytes of a block as st_blocks counts them.
const STAT_BLOCK: u64 = 512;
/// How often a file is copied that others write meanwhile.
const TRIES: usize = 3;

/// A file to be copied.
pub(super) struct File<'a>(pub(super) &'a Job<'a>);

impl File<'_> {
    pub(super) fn copy(&self, source: &Inode) -> Result<Made, Failure> {
        let job = self.0;
        let source = source.open(OFlags::RDONLY | OFlags::NONBLOCK)?;
        for _ in 0..TRIES {
            let before = rustix::fs::fstat(&source).map_err(to("stat"))?;
            if let Some(there) = self.there(&source, &before)?
                && attributes::renew(source.as_fd(), &before, &there, job.done)?
            {
                job.done.skipped.add(1);
                return Ok(there.id());
            }
            let part = job.staging.part(job.name, &before);
            let written = self.fill(&source, &before, &part)?;
            let after = rustix::fs::fstat(&source).map_err(to("stat"))?;
            if !same_mtime(&before, &after) || before.st_size != after.st_size {
                staging::discard(job.dir, &part)?;
                continue;
            }
            if job.verify {
                self.reread(&source, &before, &written)?;
            }
            attributes::copy(source.as_fd(), &before, written.as_fd(), job.done)?;
            staging::place(job.dir, &part, job.name)?;
            job.done.files.add(1);
            return Ok(id(&rustix::fs::fstat(&written).map_err(to_copy("stat the copy of"))?));
        }
        Err(Failure::new("copy (others go on writing into it)", Errno::BUSY))
    }

    /// The copy, if it is complete: what has its name, its size and its time of modification.
    fn there(&self, source: &OwnedFd, stat: &Stat) -> Result<Option<Inode>, Failure> {
        let Ok(there) = Inode::find(self.0.dir, self.0.name) else { return Ok(None) };
        let same = there.kind() == FileType::RegularFile && there.stat.st_size == stat.st_size;
        if !same || !same_mtime(&there.stat, stat) {
            return Ok(None);
        }
        if self.0.verify {
            let copy = there.open(OFlags::RDONLY)?;
            if self.equal_bytes(source, &copy)? != stat.st_size.cast_unsigned() {
                return Ok(None);
            }
        }
        Ok(Some(there))
    }

    /// A new part, or the one that an earlier run has begun.
    fn part(&self, name: &CStr) -> Result<OwnedFd, Failure> {
        let dir = self.0.dir;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let new = || {
            let flags = flags | OFlags::CREATE | OFlags::EXCL;
            rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR)
        };
        match new() {
            Err(Errno::EXIST) => {}
            result => return result.map_err(to_copy("make the copy of")),
        }
        if let Ok(begun) = rustix::fs::openat(dir, name, flags | OFlags::NONBLOCK, Mode::empty()) {
            let stat = rustix::fs::fstat(&begun).map_err(to_copy("stat the copy of"))?;
            let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            if is_file && is_ours(&stat) && stat.st_mode & 0o077 == 0 {
                return Ok(begun);
            }
        }
        staging::discard(dir, name)?;
        new().map_err(to_copy("make the copy of"))
    }

    /// Writes the bytes, from where an earlier run came to.
    fn fill(&self, source: &OwnedFd, stat: &Stat, part: &CStr) -> Result<OwnedFd, Failure> {
        let copy = self.part(part)?;
        let begun = rustix::fs::fstat(&copy).map_err(to_copy("stat the copy of"))?.st_size;
        let mut from = 0;
        if begun > 0 {
            from = self.equal_bytes(source, &copy)? & !(BLOCK as u64 - 1);
            rustix::fs::ftruncate(&copy, from).map_err(to_copy("cut the copy of"))?;
            self.0.done.resumed.add(1);
        }
        let size = stat.st_size.cast_unsigned();
        let sparse = stat.st_blocks.cast_unsigned() * STAT_BLOCK < size;
        while let Some((start, end)) = data(source, from, size) {
            self.write(source, &copy, start..end, sparse)?;
            from = end;
        }
        let have = rustix::fs::fstat(&copy).map_err(to_copy("stat the copy of"))?.st_size;
        if have != stat.st_size {
            rustix::fs::ftruncate(&copy, size).map_err(to_copy("extend the copy of"))?;
        }
        Ok(copy)
    }

    fn write(
        &self,
        source: &OwnedFd,
        copy: &OwnedFd,
        range: std::ops::Range<u64>,
        sparse: bool,
    ) -> Result<(), Failure> {
        let mut buffer = vec![0; usize::try_from(range.end - range.start).unwrap_or(CHUNK).min(CHUNK)];
        let mut at = range.start;
        while at < range.end {
            let wanted = buffer.len().min(usize::try_from(range.end - at).unwrap_or(CHUNK));
            let got = read_full(source, &mut buffer[..wanted], at).map_err(to("read"))?;
            if got == 0 {
                return Ok(()); // it became shorter: that is noticed afterwards
            }
            for (start, bytes) in runs(&buffer[..got], sparse) {
                write_full(copy, bytes, at + start as u64).map_err(to_copy("write the copy of"))?;
                self.0.done.bytes.add(bytes.len() as u64);
            }
            at += got as u64;
            self.0.progress.add_bytes(got as u64);
        }
        Ok(())
    }

    /// What was written comes back the same, from the file system and not only from this machine's memory.
    fn reread(&self, source: &OwnedFd, stat: &Stat, copy: &OwnedFd) -> Result<(), Failure> {
        rustix::fs::fsync(copy).map_err(to_copy("bring to stable storage the copy of"))?;
        // Advice: where it is not taken, pages of the cache are compared.
        _ = rustix::fs::fadvise(copy, 0, None, Advice::DontNeed);
        if self.equal_bytes(source, copy)? == stat.st_size.cast_unsigned() {
            return Ok(());
        }
        Err(Failure::of_copy("verify the copy of (its bytes differ)", Errno::IO))
    }

    /// How many bytes of both are the same, from the start.
    fn equal_bytes(&self, source: &OwnedFd, copy: &OwnedFd) -> Result<u64, Failure> {
        let (mut ours, mut theirs) = (vec![0; CHUNK], vec![0; CHUNK]);
        let mut at = 0;
        loop {
            let read = read_full(source, &mut ours, at).map_err(to("read"))?;
            let there = read_full(copy, &mut theirs, at).map_err(to_copy("read the copy of"))?;
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
fn data(source: &OwnedFd, from: u64, size: u64) -> Option<(u64, u64)> {
    if from >= size {
        return None;
    }
    let start = match rustix::fs::seek(source, SeekFrom::Data(from)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return None, // nothing but a hole is left
        Err(_) => return Some((from, size)),
    };
    let end = rustix::fs::seek(source, SeekFrom::Hole(start)).unwrap_or(size);
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

fn read_full(file: &OwnedFd, buffer: &mut [u8], at: u64) -> rustix::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::pread(file, &mut buffer[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(filled)
}

fn write_full(file: &OwnedFd, mut bytes: &[u8], mut at: u64) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file, bytes, at) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => {
                bytes = &bytes[written..];
                at += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
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
