//! Loading a checkpoint into fresh roles, before the journal is replayed.

use super::CheckpointError;
use super::manifest::{self, Entry, FILE_NAME};
use onpath_store::image;
use onpath_store::{Pair, Recoverable};
use onpath_wire::ids::{Lsn, NodeId};
use std::fs;
use std::path::Path;

/// What was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The first lsn to replay.
    pub from: Lsn,
    /// Images loaded; 0 if there was no checkpoint.
    pub images: u64,
    /// Objects loaded.
    pub objects: u64,
}

/// What happens on an error: it ends the load, or is noted and the load goes on with the next object.
pub type OnError<'a> = dyn FnMut(CheckpointError) -> Result<(), CheckpointError> + 'a;

/// Loads the checkpoint in `dir`, if there is one, into these fresh roles. Every image is checked; every range
/// of every role must have one.
pub fn load(dir: &Path, fsid: u64, roles: &mut [(NodeId, &mut dyn Recoverable)]) -> Result<Loaded, CheckpointError> {
    load_with(dir, fsid, roles, &mut Err)
}

/// As [`load`], but `on_error` decides about each error except those of the manifest, which always end it.
pub fn load_with(
    dir: &Path,
    fsid: u64,
    roles: &mut [(NodeId, &mut dyn Recoverable)],
    on_error: &mut OnError<'_>,
) -> Result<Loaded, CheckpointError> {
    let Some(manifest) = manifest::read(dir, fsid)? else {
        return Ok(Loaded { from: Lsn(1), images: 0, objects: 0 });
    };
    let shape = |why: String| CheckpointError::Shape { file: dir.join(FILE_NAME), why };
    let mut loaded = Loaded { from: manifest.from, images: 0, objects: 0 };
    for (address, role) in &mut *roles {
        for range in 0..role.ranges() {
            let place = manifest.images.binary_search_by_key(&(*address, range), |e| (e.role, e.range));
            match place {
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
    Ok(loaded)
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
    for (key, value) in &pairs {
        if let Err(source) = role.load(entry.range, entry.upto, key, value) {
            on_error(CheckpointError::Load { file: file.clone(), source })?;
        }
    }
    role.loaded(entry.range, entry.upto);
    Ok(pairs.len() as u64)
}

fn read_image(file: &Path, fsid: u64, entry: &Entry) -> Result<Vec<Pair>, CheckpointError> {
    let bytes = fs::read(file).map_err(|source| CheckpointError::Io { path: file.to_owned(), source })?;
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
