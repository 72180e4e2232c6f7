//! `onpath inspect PATH`: what the shards know of a directory, and of a file that is lent to its data node.

use crate::cli::{absolute, directory, say};
use crate::status;
use anyhow::Context;
use clap::Args;
use onpath_client::url;
use onpath_fuse::mount::{FILESYSTEM_TYPE, mounts};
use onpath_host::stream::request_inspection;
use onpath_wire::ids::InodeId;
use onpath_wire::shown::Shown;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `onpath inspect`.
#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// A directory or file on a mount of Onpath; with --inode the DIR of a running `onpath dev` or of a host of a cluster, which tells what
    /// its own roles know, or onpath://HOST[,HOST…]/.
    path: PathBuf,
    /// Inode to inspect, as `stat -c %i` prints it on a mount (`ls -i` of its directory does not ask for the file itself).
    #[arg(long)]
    inode: Option<u64>,
    /// The key of the cluster, all of whose hosts are asked if it is on a mount of one.
    #[arg(long, env = "ONPATH_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Print JSON: an object of roles, each an object of numbers.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: InspectArgs) -> anyhow::Result<()> {
    let (dir, inode) = match args.inode {
        Some(inode) => (args.path, inode),
        None => on_a_mount(&args.path)?,
    };
    let known = roles(&dir, args.key_file.as_deref(), InodeId(inode))?;
    say(&if args.json { known.text.clone() } else { status::table(&known.text)? });
    known.is_whole()
}

/// What roles know of an inode.
pub(crate) struct Known {
    /// An object of roles, each an object of numbers. JSON.
    pub(crate) text: String,
    /// Hosts that have not told it.
    silent: Vec<String>,
}

impl Known {
    /// An error if a host has not told what it knows.
    pub(crate) fn is_whole(&self) -> anyhow::Result<()> {
        let silent: Vec<_> = self.silent.iter().map(|name| name.shown().to_string()).collect();
        anyhow::ensure!(silent.is_empty(), "not told what they know: {}; `onpath status` says more", silent.join(", "));
        Ok(())
    }
}

/// Asks a process by its DIR, or all hosts of a cluster by its URL.
pub(crate) fn roles(dir: &Path, key_file: Option<&Path>, inode: InodeId) -> anyhow::Result<Known> {
    if !url::is_url(dir) {
        return Ok(Known { text: request_inspection(&directory(dir)?, inode)?, silent: vec![] });
    }
    let told = status::inspection(&dir.to_string_lossy(), key_file, inode, TOLD_WITHIN)?;
    Ok(Known { text: told.roles.to_string(), silent: told.silent })
}

/// Within this time all hosts of a cluster have told what they know, or are silent.
const TOLD_WITHIN: Duration = Duration::from_secs(4);

/// The DIR of the mount that a directory or file is on, or the URL of its cluster, and its inode.
fn on_a_mount(path: &Path) -> anyhow::Result<(PathBuf, u64)> {
    let (path, inode) = match listed(path) {
        Some(found) => found,
        None => {
            let path = path.canonicalize().with_context(|| format!("{}", path.shown()))?;
            let metadata = path.metadata().with_context(|| format!("{}", path.shown()))?;
            let known = metadata.is_dir() || metadata.is_file();
            anyhow::ensure!(known, "{} is neither a directory nor a file: inspect its parent", path.shown());
            (path, metadata.ino())
        }
    };
    Ok((served_by(&path)?, inode))
}

/// A file, if that is what the listing of its directory says, and its inode. A question about the file itself would take back what is lent.
fn listed(path: &Path) -> Option<(PathBuf, u64)> {
    let path = absolute(path).ok()?;
    let (parent, name) = (path.parent()?.canonicalize().ok()?, path.file_name()?);
    served_by(&parent).ok()?;
    let entry = parent.read_dir().ok()?.filter_map(Result::ok).find(|entry| entry.file_name() == name)?;
    entry.file_type().ok()?.is_file().then(|| (entry.path(), entry.ino()))
}

/// The DIR meant by a path: itself if a process serves it, else that of the mount it is on.
pub(crate) fn serving(path: &Path) -> anyhow::Result<PathBuf> {
    let path = absolute(path)?;
    let is_dir = path.join("superblock").exists() || path.join("socket").exists();
    let dir = match served_by(&path) {
        Ok(dir) if !is_dir => dir,
        _ => directory(&path)?,
    };
    anyhow::ensure!(
        !url::is_url(&dir),
        "{} is on a mount of a cluster, whose hosts do not tell this over the network: give the directory of a host, on that host",
        path.shown()
    );
    Ok(dir)
}

/// The DIR of the mount that holds `path`, or the URL of its cluster.
pub(crate) fn served_by(path: &Path) -> anyhow::Result<PathBuf> {
    let mounts = mounts().context("/proc/self/mountinfo")?;
    let over = mounts.into_iter().filter(|mount| path.starts_with(&mount.mountpoint));
    let mount = over.max_by_key(|mount| mount.mountpoint.as_os_str().len());
    match mount.filter(|mount| mount.kind == FILESYSTEM_TYPE) {
        Some(mount) => Ok(PathBuf::from(mount.source)),
        None => anyhow::bail!("{} is not on a mount of Onpath: give a directory below a mountpoint", path.shown()),
    }
}
