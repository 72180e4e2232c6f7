//! The manifest: which images make up the checkpoint.

use super::CheckpointError;
use crate::dir::replace_file;
use onpath_wire::checksum::crc32c;
use onpath_wire::codec::Wire;
use onpath_wire::ids::{Lsn, NodeId, RecordSeq};
use onpath_wire::wire_struct;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// "OnpCkp01", little-endian.
const MAGIC: u64 = u64::from_le_bytes(*b"OnpCkp01");
const VERSION: u32 = 1;
pub(super) const FILE_NAME: &str = "manifest";
/// Bytes of magic and version, the same in every version.
const HEAD_BYTES: usize = 12;

wire_struct! {
    /// One image of a checkpoint.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Entry {
        /// Whose state.
        pub role: NodeId,
        /// Which range of it.
        pub range: u32,
        /// The last record that it reflects.
        pub upto: RecordSeq,
        /// Length of the file, bytes.
        pub bytes: u64,
    }
}

wire_struct! {
    /// A checkpoint; on disk magic and version come before it, a CRC-32C of all after it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Manifest {
        /// The file system.
        pub fsid: u64,
        /// The first lsn that is replayed over the images.
        pub from: Lsn,
        /// All images, sorted by role and range.
        pub images: Vec<Entry>,
    }
}

impl Entry {
    /// Name of the image's file.
    pub(super) fn file_name(&self) -> String {
        format!("{:08x}-{:06x}-{:016x}.img", self.role.0, self.range, self.upto.0)
    }
}

/// Replaces the manifest in `dir`.
pub(super) fn write(dir: &Path, manifest: &Manifest) -> Result<(), (PathBuf, io::Error)> {
    let mut bytes = Vec::new();
    MAGIC.put(&mut bytes);
    VERSION.put(&mut bytes);
    manifest.put(&mut bytes);
    let crc = crc32c(&bytes);
    crc.put(&mut bytes);
    replace_file(dir, FILE_NAME, &bytes)
}

/// The manifest in `dir`, or nothing if no checkpoint was ever completed.
pub(super) fn read(dir: &Path, fsid: u64) -> Result<Option<Manifest>, CheckpointError> {
    let file = dir.join(FILE_NAME);
    let bytes = match fs::read(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|source| CheckpointError::Io { path: file.clone(), source })?,
    };
    let damaged = |why| CheckpointError::Manifest { file: file.clone(), why };
    let (body, crc) = bytes.split_last_chunk::<4>().ok_or(damaged("it is too short"))?;
    let (head, rest) = body.split_first_chunk::<HEAD_BYTES>().ok_or(damaged("it is too short"))?;
    if head[..8] != MAGIC.to_le_bytes() {
        return Err(damaged("it does not begin with the manifest's magic number"));
    }
    let version = u32::from_le_bytes(head[8..].try_into().expect("four bytes"));
    if version != VERSION {
        return Err(CheckpointError::Version { file, found: version });
    }
    if crc32c(body) != u32::from_le_bytes(*crc) {
        return Err(damaged("checksum mismatch"));
    }
    let manifest =
        Manifest::from_bytes(rest).map_err(|source| CheckpointError::Undecodable { file: file.clone(), source })?;
    if manifest.fsid != fsid {
        return Err(CheckpointError::Foreign { file });
    }
    Ok(Some(manifest))
}
