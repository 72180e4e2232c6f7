//! Checkpoints of before the store: a *manifest* that names image files, each with all objects of a range. They are read, and
//! replaced by the first checkpoint of this version.

use super::load::{Loaded, OnError, Roles};
use super::{CheckpointError, at};
use crate::held;
use onpath_store::image;
use onpath_store::{Pair, Recoverable};
use onpath_wire::checksum::crc32c;
use onpath_wire::codec::Wire;
use onpath_wire::ids::{Lsn, NodeId, RecordSeq};
use onpath_wire::wire_struct;
use std::io;
use std::path::Path;

/// "OnpCkp01", little-endian.
const MAGIC: u64 = u64::from_le_bytes(*b"OnpCkp01");
const VERSION: u32 = 1;
const FILE_NAME: &str = "manifest";
/// Bytes of magic and version, the same in every version.
const HEAD_BYTES: usize = 12;

wire_struct! {
    /// One image of a checkpoint.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    fn file_name(&self) -> String {
        format!("{:08x}-{:06x}-{:016x}.img", self.role.0, self.range, self.upto.0)
    }
}

/// The manifest in `dir`, or nothing if no checkpoint was ever completed.
fn read(dir: &Path, fsid: u64) -> Result<Option<Manifest>, CheckpointError> {
    let file = dir.join(FILE_NAME);
    let bytes = match held::read(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(at(&file))?,
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

/// Loads such a checkpoint, if there is one.
pub(super) fn load(
    dir: &Path,
    fsid: u64,
    roles: &mut Roles<'_>,
    on_error: &mut OnError<'_>,
) -> Result<Option<Loaded>, CheckpointError> {
    let Some(manifest) = read(dir, fsid)? else { return Ok(None) };
    let shape = |why: String| CheckpointError::Shape { file: dir.join(FILE_NAME), why };
    let mut loaded = Loaded { from: manifest.from, images: 0, objects: 0 };
    for (address, role) in &mut *roles {
        for range in 0..role.ranges() {
            match manifest.images.binary_search_by_key(&(*address, range), |e| (e.role, e.range)) {
                Ok(place) => {
                    loaded.objects += load_image(dir, fsid, &manifest.images[place], *role, on_error)?;
                    loaded.images += 1;
                }
                Err(_) => on_error(shape(format!("range {range} of role {:#x} is missing", address.0)))?,
            }
        }
    }
    if loaded.images < manifest.images.len() as u64 {
        on_error(shape(format!("{} images, but the roles have {} ranges", manifest.images.len(), loaded.images)))?;
    }
    Ok(Some(loaded))
}

/// Removes what is left of such a checkpoint.
pub(super) fn remove(dir: &Path) {
    // The manifest goes first: without it nobody looks for the images.
    let _ = held::remove(&dir.join(FILE_NAME));
    for file in held::list(dir).unwrap_or_default() {
        if file.extension().is_some_and(|extension| extension == "img") {
            let removed = held::remove(&file);
            removed.unwrap_or_else(|error| tracing::warn!(%error, file = %file.display(), "cannot be removed"));
        }
    }
}

fn load_image(
    dir: &Path,
    fsid: u64,
    entry: &Entry,
    role: &mut dyn Recoverable,
    on_error: &mut OnError<'_>,
) -> Result<u64, CheckpointError> {
    let file = dir.join(entry.file_name());
    let pairs = match read_image(&file, fsid, entry) {
        Ok(pairs) => pairs,
        Err(error) => return on_error(error).map(|()| 0),
    };
    role.loaded(entry.range, entry.upto);
    for (key, value) in &pairs {
        if let Err(source) = role.load(entry.range, key, value) {
            on_error(CheckpointError::Load { file: file.clone(), source })?;
        }
    }
    Ok(pairs.len() as u64)
}

fn read_image(file: &Path, fsid: u64, entry: &Entry) -> Result<Vec<Pair>, CheckpointError> {
    let bytes = held::read(file).map_err(at(file))?;
    let mismatch = |why| CheckpointError::Mismatch { file: file.to_owned(), why };
    if bytes.len() as u64 != entry.bytes {
        return Err(mismatch("its length differs"));
    }
    let (header, pairs) =
        image::decode(&bytes).map_err(|source| CheckpointError::Image { file: file.to_owned(), source })?;
    if header.fsid != fsid {
        return Err(CheckpointError::Foreign { file: file.to_owned() });
    }
    if (header.role, header.range, header.upto) != (entry.role, entry.range, entry.upto) {
        return Err(mismatch("its header names another role, range or record"));
    }
    Ok(pairs)
}
