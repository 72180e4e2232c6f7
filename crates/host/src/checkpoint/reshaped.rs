//! The store of another number of shards, while it waits to take the place of the present one (see [`crate::reshape`]).

use super::CheckpointError;
use super::store::FILE_NAME;
use crate::sys;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const PREFIX: &str = "reshaped-";

/// Where it is.
pub(super) fn reshaped(dir: &Path, shards: u16) -> PathBuf {
    dir.join(format!("{PREFIX}{shards}.redb"))
}

fn at(path: &Path) -> impl Fn(io::Error) -> CheckpointError + use<'_> {
    move |source| CheckpointError::Io { path: path.to_owned(), source }
}

/// The file system has so many shards: a store of this shape that waits takes its place, others are of reshapes that did not happen.
pub fn adopt(dir: &Path, shards: u16) -> Result<(), CheckpointError> {
    let (new, store) = (reshaped(dir, shards), dir.join(FILE_NAME));
    match fs::rename(&new, &store) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        renamed => renamed.and_then(|()| sys::sync_dir(dir)).map_err(at(&new))?,
    }
    forget_reshaped(dir)
}

/// Removes, durably, what reshapes that did not happen have left.
pub fn forget_reshaped(dir: &Path) -> Result<(), CheckpointError> {
    let mut removed = false;
    for entry in fs::read_dir(dir).map_err(at(dir))? {
        let entry = entry.map_err(at(dir))?;
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            fs::remove_file(entry.path()).map_err(at(&entry.path()))?;
            removed = true;
        }
    }
    if removed { sys::sync_dir(dir).map_err(at(dir)) } else { Ok(()) }
}
