//! Stores beside the one that counts: one of another number of shards, which waits to take its place (see [`crate::reshape`]), and a
//! copy without what is free in it, while that is made (see [`super::compact`]).

use super::store::FILE_NAME;
use super::{CheckpointError, at};
use crate::sys;
use std::fs::{self, OpenOptions};
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
    let emptied = OpenOptions::new().write(true).open(copy(dir)).and_then(|file| file.set_len(0));
    emptied.is_ok() && fs::remove_file(copy(dir)).is_ok()
}

/// The file system has so many shards: a store of this shape that waits takes its place, others are of reshapes that did not happen.
pub fn adopt(dir: &Path, shards: u16) -> Result<(), CheckpointError> {
    let new = reshaped(dir, shards);
    if new.exists() {
        replace(dir, &new)?;
    }
    forget_others(dir)
}

/// Lets a whole store be the one that counts, durably and at once.
pub(super) fn replace(dir: &Path, new: &Path) -> Result<(), CheckpointError> {
    fs::rename(new, dir.join(FILE_NAME)).and_then(|()| sys::sync_dir(dir)).map_err(at(new))
}

/// Removes, durably, what reshapes that did not happen, and copies that did not become whole, have left.
pub fn forget_others(dir: &Path) -> Result<(), CheckpointError> {
    let mut removed = false;
    for entry in fs::read_dir(dir).map_err(at(dir))? {
        let entry = entry.map_err(at(dir))?;
        if entry.file_name() == COPY || entry.file_name().to_string_lossy().starts_with(RESHAPED) {
            fs::remove_file(entry.path()).map_err(at(&entry.path()))?;
            removed = true;
        }
    }
    if removed { sys::sync_dir(dir).map_err(at(dir)) } else { Ok(()) }
}
