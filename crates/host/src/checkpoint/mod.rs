//! Checkpoints: images of all ranges of all roles, so that the journal before them is not needed (design.md, "Durability").
//!
//! A checkpoint is one transaction of an ordered *store*. What has changed in a role is taken under its lock, range by range,
//! while the others go on; the transaction is committed only when the last record that it reflects is durable, so a checkpoint
//! holds only durable records. Then useless segments of the journal go, and roles may forget what the store has.

mod beside;
mod compact;
mod frozen;
mod load;
mod pages;
mod pointers;
mod run;
mod store;

#[cfg(test)]
mod tests;

pub use beside::{adopt, forget_others};
pub use frozen::{Frozen, Piece};
pub use load::{Loaded, OnError, Roles, ViewOf, attach, look};
pub use run::{CheckpointReport, Checkpointer, Pace, clear_interrupted};
pub use store::{Draft, Each, Head, OnDamage, Store};

use crate::journal::JournalError;
use onpath_store::StoreError;
use onpath_wire::shown::Shown;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What happened at a path.
fn at(path: &Path) -> impl Fn(io::Error) -> CheckpointError + use<'_> {
    move |source| CheckpointError::Io { path: path.to_owned(), source }
}

/// Why a checkpoint cannot be written or read.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// The store does not check.
    #[error("checkpoint store {} is damaged: {why}; restore the directory from a backup", file.shown())]
    Store {
        /// The store.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The store is another file system's, or another journal's.
    #[error("{} belongs to another file system or journal: put the file system's own file back", file.shown())]
    Foreign {
        /// The file.
        file: PathBuf,
    },
    /// The store has another format version.
    #[error("checkpoint {} has format version {found}: use an onpath of that version", file.shown())]
    Version {
        /// The store.
        file: PathBuf,
        /// Its version.
        found: u32,
    },
    /// An object cannot be loaded.
    #[error("checkpoint {}: {source}", file.shown())]
    Load {
        /// The store.
        file: PathBuf,
        /// Why.
        source: StoreError,
    },
    /// Ranges of a role are missing, or there are some of a role that does not exist.
    #[error("checkpoint {} does not fit this file system: {why}", file.shown())]
    Shape {
        /// The store.
        file: PathBuf,
        /// What does not fit.
        why: String,
    },
    /// The journal has stopped.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The operating system refused.
    #[error("checkpoint: {}: {source}", path.shown())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// Its error.
        source: io::Error,
    },
}
