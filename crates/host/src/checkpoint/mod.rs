//! Checkpoints: images of all ranges of all roles, so that the journal before them is not needed (design.md, "Durability").
//!
//! A checkpoint is one transaction of an ordered *store*. What has changed in a role is taken under its lock, range by range,
//! while the others go on; the transaction is committed only when the last record that it reflects is durable, so a checkpoint
//! holds only durable records. Then useless segments of the journal go, and roles may forget what the store has.

mod beside;
mod compact;
mod frozen;
mod legacy;
mod load;
mod pages;
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
use onpath_store::image::ImageError;
use onpath_wire::codec::WireError;
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
    #[error("checkpoint store {} is damaged: {why}; restore the directory from a backup", file.display())]
    Store {
        /// The store.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The manifest does not check.
    #[error("checkpoint manifest {} is damaged: {why}; restore the directory from a backup", file.display())]
    Manifest {
        /// The manifest.
        file: PathBuf,
        /// What is wrong.
        why: &'static str,
    },
    /// The manifest does not decode although its checksum fits.
    #[error("checkpoint manifest {} does not decode: {source}", file.display())]
    Undecodable {
        /// The manifest.
        file: PathBuf,
        /// Why.
        source: WireError,
    },
    /// The manifest or an image is another file system's.
    #[error("{} belongs to another file system: put the file system's own file back", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
    },
    /// The manifest has another format version.
    #[error("checkpoint {} has format version {found}: use an onpath of that version", file.display())]
    Version {
        /// The manifest.
        file: PathBuf,
        /// Its version.
        found: u32,
    },
    /// An image does not check.
    #[error("checkpoint image {}: {source}", file.display())]
    Image {
        /// The image.
        file: PathBuf,
        /// What is wrong.
        source: ImageError,
    },
    /// An image is not the one that the manifest names.
    #[error("checkpoint image {} is not the one in the manifest: {why}; restore the directory from a backup", file.display())]
    Mismatch {
        /// The image.
        file: PathBuf,
        /// What differs.
        why: &'static str,
    },
    /// An object of an image cannot be loaded.
    #[error("checkpoint {}: {source}", file.display())]
    Load {
        /// The image.
        file: PathBuf,
        /// Why.
        source: StoreError,
    },
    /// A role's images are missing, or there are images of a role that does not exist.
    #[error("checkpoint {} does not fit this file system: {why}", file.display())]
    Shape {
        /// The manifest.
        file: PathBuf,
        /// What does not fit.
        why: String,
    },
    /// The journal has stopped.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The operating system refused.
    #[error("checkpoint: {}: {source}", path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// Its error.
        source: io::Error,
    },
}
