//! Stores beside the one that counts: one of another number of shards, which waits to take its place (see [`crate::reshape`]), and a
//! copy without what is free in it, while that is made (see [`super::compact`]).

use super::store::FILE_NAME;
use super::{CheckpointError, at};
use crate::held;
use crate::sys;
use std::path::{Path, PathBuf};

const RESHAPED: &str = "reshaped-";
const COPY: &str = "copy.redb";

/// Where the store of so many shards is.
pub(super) fn reshaped(dir: &Path, shards: u16) -> PathBuf {
    dir.join(format!("{RESHAPED}{shards}.redb"))
}

/// Where the copy is.
pub(super) fn copy(dir: &Path) -> PathBuf {
    dir.join(COPY)
}

/// Gives back what a copy takes, though somebody may still write to it: without its name it never counts. False if there is none.
pub(super) fn end_copy(dir: &Path) -> bool {
    let emptied = held::open_to_write(&copy(dir)).and_then(|file| file.set_len(0));
    emptied.is_ok() && held::remove(&copy(dir)).is_ok()
}

/// The file system has so many shards: a store of this shape that waits takes its place, others are of reshapes that did not happen.
pub fn adopt(dir: &Path, shards: u16) -> Result<(), CheckpointError> {
    let new = reshaped(dir, shards);
    if held::exists(&new).map_err(at(&new))? {
        replace(dir, &new)?;
    }
    forget_others(dir)
}

/// Lets a whole store be the one that counts, durably and at once.
pub(super) fn replace(dir: &Path, new: &Path) -> Result<(), CheckpointError> {
    held::rename(new, &dir.join(FILE_NAME)).and_then(|()| sys::sync_dir(dir)).map_err(at(new))
}

/// Removes, durably, what reshapes that did not happen, and copies that did not become whole, have left.
pub fn forget_others(dir: &Path) -> Result<(), CheckpointError> {
    let mut removed = false;
    for path in held::list(dir).map_err(at(dir))? {
        let name = path.file_name().unwrap_or_default();
        if name == COPY || name.to_string_lossy().starts_with(RESHAPED) {
            held::remove(&path).map_err(at(&path))?;
            removed = true;
        }
    }
    if removed { sys::sync_dir(dir).map_err(at(dir)) } else { Ok(()) }
}
