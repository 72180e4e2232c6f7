//! Why a DIR cannot be used.

use onpath_wire::disk::superblock::FORMAT_VERSION;
use onpath_wire::limits::SHARDS_MAX;
use onpath_wire::shown::Shown;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a DIR cannot be used.
#[derive(Debug, Error)]
pub enum DirError {
    /// There is no superblock.
    #[error("{0} is no Onpath directory: it has no superblock (`onpath dev {0}` makes one of an empty directory)", path.shown())]
    NotOnpath {
        /// The directory.
        path: PathBuf,
    },
    /// Something else is in the directory.
    #[error("{} is neither an Onpath directory nor empty (it holds {found:?}): choose an empty or a new directory", path.shown())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
        /// A name found in it.
        found: String,
    },
    /// The superblock does not check.
    #[error("{} is damaged: {why}; restore it from a backup of the directory", path.shown())]
    Superblock {
        /// The superblock.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Written by another version.
    #[error("{} has format version {found}, this program reads version {FORMAT_VERSION}: mount it with an onpath that reads version {found}, and copy its files into a new directory of this one (`onpath export`, `onpath import`)", path.shown())]
    Version {
        /// The directory.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// Uses features that this program does not know.
    #[error("{} uses features {unknown:#x} of format version {version} that this program does not know: use a newer onpath", path.shown())]
    Features {
        /// The directory.
        path: PathBuf,
        /// The unknown bits.
        unknown: u64,
        /// The version that wrote them.
        version: u32,
    },
    /// Formatted with another number of shards.
    #[error("{} was formatted with {have} shards, not {asked}: leave out --shards, or change the number with `onpath reshape {} --shards {asked}`", path.shown(), path.shown())]
    Shards {
        /// The directory.
        path: PathBuf,
        /// Its number.
        have: u16,
        /// The number asked for.
        asked: u16,
    },
    /// A number of shards that no file system may have.
    #[error("{asked} shards are not possible: choose 1 to {SHARDS_MAX}")]
    ShardsRange {
        /// The number asked for.
        asked: u16,
    },
    /// It holds a part of a file system, not all of it.
    #[error("{} holds a part of a file system of several hosts: only `onpath serve` with the configuration of that cluster uses it", path.shown())]
    Part {
        /// The directory.
        path: PathBuf,
    },
    /// It is not the part of the file system that the configuration says.
    #[error("{} does not fit the configuration: {what} is {have} there, not {asked}; give this host the directory that it had, or an empty one if it is new", path.shown())]
    OtherPart {
        /// The directory.
        path: PathBuf,
        /// What differs.
        what: &'static str,
        /// What the directory has.
        have: String,
        /// What the configuration says.
        asked: String,
    },
    /// It was formatted with other secrets than those of the key file.
    #[error("{} was formatted with other secrets than `placement` and `inner` in the key file: give this host the key file of its cluster, in which only the line `key` may change, or the directory that it had", path.shown())]
    OtherSecrets {
        /// The directory.
        path: PathBuf,
    },
    /// There is nothing to format it with.
    #[error("{} is new, and the key file has no lines `placement = …` and `inner = …` to format it with: copy them from the key file of another host of the cluster; `onpath cluster init` draws those of a new one", path.shown())]
    NoSecrets {
        /// The directory.
        path: PathBuf,
    },
    /// What it knows of the hosts does not read.
    #[error("{} is damaged; bring it back from a backup of the directory, or remove it if the directory is the one that this host had last", path.shown())]
    Hosts {
        /// The file.
        path: PathBuf,
    },
    /// Another host has said so.
    #[error("{} is an old copy of this host's directory, as another host has said: bring the present one back; only if that is lost for good, move the copy away and start this host once with --replace-lost-directory", path.shown())]
    OldCopy {
        /// The directory.
        path: PathBuf,
    },
    /// Journal and superblock tell of different maps.
    #[error("{} is damaged: its coordinator keeps the map {kept}, and its superblock tells {told}; restore both from one backup of the directory", path.shown())]
    Map {
        /// The directory.
        path: PathBuf,
        /// What the coordinator's records say.
        kept: String,
        /// What the superblock says.
        told: String,
    },
    /// It belongs to another user.
    #[error("{} belongs to uid {uid}: only that user works in it (`{prefix} onpath …`); what that user serves root can mount with `onpath mount {} MOUNTPOINT`", path.shown(), path.shown())]
    Owner {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        uid: u32,
        /// What runs a command as that user.
        prefix: String,
    },
    /// Something in it cannot be trusted to be its owner's.
    #[error("{} {why}", path.shown())]
    Contents {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// Another process uses it.
    #[error("{} is in use by process {pid}: stop that one first, or attach to it with `onpath mount {} MOUNTPOINT`", path.shown(), path.shown())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Who uses it, as it says itself.
        pid: String,
    },
    /// All terms of the format are used up.
    #[error("{}: no start is left in this format", path.shown())]
    UsedUp {
        /// The directory.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("{}: {what}: {source}", path.shown())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Its error.
        source: io::Error,
    },
}
