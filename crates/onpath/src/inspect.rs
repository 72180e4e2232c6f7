//! `onpath inspect PATH`: what the shards know of a directory.

use crate::cli::{absolute, say};
use crate::status;
use anyhow::Context;
use clap::Args;
use onpath_fuse::mount::{FILESYSTEM_TYPE, mounts};
use onpath_host::stream::request_inspection;
use onpath_wire::ids::InodeId;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Arguments of `onpath inspect`.
#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// A directory on a mount of Onpath.
    path: PathBuf,
    /// Print JSON: an object of roles, each an object of numbers.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: InspectArgs) -> anyhow::Result<()> {
    let path = args.path.canonicalize().with_context(|| format!("{}", args.path.display()))?;
    let metadata = path.metadata().with_context(|| format!("{}", path.display()))?;
    anyhow::ensure!(metadata.is_dir(), "{} is not a directory: inspect its parent", path.display());
    let dir = served_by(&path)?;
    let text = request_inspection(&absolute(&dir)?, InodeId(metadata.ino()))?;
    if args.json {
        say(&text);
        return Ok(());
    }
    status::table(&text)
}

/// The DIR meant by a path: itself if a process serves it, else that of the mount it is on.
pub(crate) fn serving(path: &Path) -> anyhow::Result<PathBuf> {
    let path = absolute(path)?;
    let is_dir = path.join("superblock").exists() || path.join("socket").exists();
    if is_dir { Ok(path) } else { served_by(&path).or(Ok(path)) }
}

/// The DIR of the mount that holds `path`.
pub(crate) fn served_by(path: &Path) -> anyhow::Result<PathBuf> {
    let mounts = mounts().context("/proc/self/mountinfo")?;
    let over = mounts.into_iter().filter(|mount| path.starts_with(&mount.mountpoint));
    let mount = over.max_by_key(|mount| mount.mountpoint.as_os_str().len());
    match mount.filter(|mount| mount.kind == FILESYSTEM_TYPE) {
        Some(mount) => Ok(PathBuf::from(mount.source)),
        None => anyhow::bail!("{} is not on a mount of Onpath: give a directory below a mountpoint", path.display()),
    }
}
