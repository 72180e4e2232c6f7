//! Steps that no program is needed for: many creates, large files, direct I/O.

use anyhow::{Context, bail};
use onpath_wire::shown::Shown;
use rustix::fs::{Advice, Mode, OFlags};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MIB: usize = 1 << 20;
/// Bytes of one direct read or write, and what they are aligned to.
const BLOCK: usize = 4096;

/// Makes empty files in a directory.
pub(super) fn create(directory: &Path, files: u32) -> anyhow::Result<()> {
    let directory = rustix::fs::open(directory, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    for n in 0..files {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        rustix::fs::openat(&directory, format!("entry{n}"), flags, Mode::from_raw_mode(0o644))?;
    }
    Ok(())
}

/// Writes a file of that many MiB and has it on stable storage.
pub(super) fn write(path: &Path, mib: u32) -> anyhow::Result<()> {
    let file = File::create(path)?;
    let mut piece = vec![0x5a; MIB];
    for n in 0..mib {
        piece[..4].copy_from_slice(&n.to_le_bytes());
        file.write_all_at(&piece, u64::from(n) * MIB as u64)?;
    }
    Ok(file.sync_data()?)
}

/// Reads it, not from what the kernel has cached of it.
pub(super) fn read(path: &Path, mib: u32) -> anyhow::Result<()> {
    let file = File::open(path)?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
    let mut piece = vec![0; MIB];
    for n in 0..mib {
        file.read_exact_at(&mut piece, u64::from(n) * MIB as u64)?;
        if piece[..4] != n.to_le_bytes() {
            bail!("other bytes than were written at MiB {n}");
        }
    }
    Ok(())
}

/// Writes a file of that many blocks, each by a call of its own, and has it on stable storage.
pub(super) fn small_writes(path: &Path, count: u32) -> anyhow::Result<()> {
    let file = File::create(path)?;
    let mut block = vec![0xa5; BLOCK];
    for n in 0..count {
        block[..4].copy_from_slice(&n.to_le_bytes());
        file.write_all_at(&block, u64::from(n) * BLOCK as u64)?;
    }
    Ok(file.sync_data()?)
}

/// Places of a file, in an order that looks like chance and is the same every time.
fn places(mib: u32, count: u32) -> impl Iterator<Item = u64> {
    let blocks = u64::from(mib) * (MIB / BLOCK) as u64;
    let mut state = 1_u64;
    (0..count).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % blocks * BLOCK as u64
    })
}

fn open_direct(path: &Path, flags: OFlags) -> anyhow::Result<File> {
    let what = || format!("cannot open {} with O_DIRECT", path.shown());
    Ok(File::from(rustix::fs::open(path, flags | OFlags::DIRECT, Mode::empty()).with_context(what)?))
}

/// The part of a buffer that is aligned as direct I/O wants it.
fn aligned(buffer: &mut [u8]) -> &mut [u8] {
    let skip = buffer.as_ptr().align_offset(BLOCK);
    &mut buffer[skip..skip + BLOCK]
}

pub(super) fn direct_write(path: &Path, mib: u32, count: u32) -> anyhow::Result<()> {
    let file = open_direct(path, OFlags::WRONLY)?;
    let mut buffer = vec![0xa5; 2 * BLOCK];
    let block = aligned(&mut buffer);
    for place in places(mib, count) {
        file.write_all_at(block, place)?;
    }
    Ok(file.sync_data()?)
}

pub(super) fn direct_read(path: &Path, mib: u32, count: u32) -> anyhow::Result<()> {
    let file = open_direct(path, OFlags::RDONLY)?;
    let mut buffer = vec![0; 2 * BLOCK];
    let block = aligned(&mut buffer);
    for place in places(mib, count) {
        file.read_exact_at(block, place)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_blocks_of_the_file() {
        let places: Vec<u64> = places(3, 1000).collect();
        assert!(places.iter().all(|place| place % BLOCK as u64 == 0 && *place < 3 << 20));
        assert!(places.iter().max() > Some(&(2 << 20)) && places.iter().min() < Some(&(1 << 20)));
    }
}
