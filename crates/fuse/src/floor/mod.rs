//! The floor: a bare passthrough to a local directory (meant for tmpfs) on the transport and with the settings of the real
//! mount. What it costs is what any mount costs at least; benchmarks compare with it.
//!
//! All validities are 0, as in a shared mount. It checks no permissions, unless the kernel is to (`default_permissions`), and keeps locks in
//! the kernel (it does not ask for `POSIX_LOCKS` and `FLOCK_LOCKS`, which cost nothing unless locks are taken); otherwise it is a usable
//! file system.

mod attributes;
mod directories;
mod files;
mod names;
mod table;

use onpath_wire::shown::Shown;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::abi::init;
use crate::mount::{Mount, MountError, MountOptions};
use crate::reply::Replier;
use crate::request::{Operation, Request};
use crate::serve::{Filesystem, INIT_FLAGS, ServeError, ServeOptions};

use directories::DirectoryStream;
use table::{Handles, Nodes};

/// Why the floor could not be run.
#[derive(Debug, thiserror::Error)]
pub enum FloorError {
    /// The directory to show cannot be opened.
    #[error("cannot open directory {}: {source}", path.shown())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The mountpoint lies below the directory shown: the server would wait for itself.
    #[error("mountpoint {} lies in the directory {} it is to show: choose another", mountpoint.shown(), directory.shown())]
    Inside {
        /// Mountpoint.
        mountpoint: PathBuf,
        /// Directory.
        directory: PathBuf,
    },
    /// `/proc` is needed to open files by descriptor.
    #[error("cannot open /proc/self/fd: {0}")]
    Proc(#[source] Errno),
    /// Mounting failed.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// Serving failed.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// A passthrough to a directory.
pub struct FloorFs {
    nodes: Nodes,
    files: Handles<OwnedFd>,
    directories: Handles<DirectoryStream>,
    /// `/proc/self/fd`: the way from one descriptor of a file to another with other rights.
    descriptors: OwnedFd,
    init_flags: u64,
}

impl FloorFs {
    /// Shows `directory`. Sets the umask of the process to 0: modes are taken as the kernel gives them.
    pub fn new(directory: &Path) -> Result<Self, FloorError> {
        let failed = |source: Errno| FloorError::Directory { path: directory.to_path_buf(), source: source.into() };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(directory, flags, Mode::empty()).map_err(failed)?;
        let stat = rustix::fs::fstat(&root).map_err(failed)?;
        let descriptors = rustix::fs::open("/proc/self/fd", flags, Mode::empty()).map_err(FloorError::Proc)?;
        rustix::process::umask(Mode::empty());
        Ok(Self {
            nodes: Nodes::new(root, &stat),
            files: Handles::default(),
            directories: Handles::default(),
            descriptors,
            init_flags: INIT_FLAGS & !(init::POSIX_LOCKS | init::FLOCK_LOCKS),
        })
    }

    fn file(&self, handle: u64) -> Result<Arc<OwnedFd>, Errno> {
        self.files.get(handle).ok_or(Errno::BADF)
    }
}

impl Filesystem for FloorFs {
    fn init_flags(&self) -> u64 {
        self.init_flags
    }

    fn forget(&self, nodeid: u64, lookups: u64) {
        self.nodes.forget(nodeid, lookups);
    }

    fn handle(&self, request: Request<'_>, replier: Replier) {
        let header = &request.header;
        match request.operation {
            Operation::Lookup { .. }
            | Operation::Create { .. }
            | Operation::Tmpfile { .. }
            | Operation::Mkdir { .. }
            | Operation::Mknod { .. }
            | Operation::Symlink { .. }
            | Operation::Link { .. } => self.entry_operation(header, &request.operation, replier),
            Operation::Unlink { name } => replier.unit(self.remove(header.nodeid, name, false)),
            Operation::Rmdir { name } => replier.unit(self.remove(header.nodeid, name, true)),
            Operation::Rename { name, new_parent, new_name, flags } => {
                replier.unit(self.rename(header.nodeid, name, new_parent, new_name, flags));
            }
            Operation::Getattr { .. }
            | Operation::Statx { .. }
            | Operation::Setattr(_)
            | Operation::Statfs
            | Operation::Setxattr { .. }
            | Operation::Getxattr { .. }
            | Operation::Listxattr { .. }
            | Operation::Removexattr { .. } => self.attribute_operation(header, &request.operation, replier),
            Operation::Opendir { .. } => self.opendir(header.nodeid, replier),
            Operation::Readdir { handle, offset, size } => self.readdir(handle, offset, size, false, replier),
            Operation::Readdirplus { handle, offset, size } => self.readdir(handle, offset, size, true, replier),
            Operation::Releasedir { handle, .. } => {
                self.directories.remove(handle);
                replier.ok();
            }
            Operation::Fsyncdir { handle, .. } => replier.unit(self.fsyncdir(handle)),
            // Access is the server's to decide; the floor grants everything.
            Operation::Access { .. } => replier.ok(),
            Operation::Ioctl { .. } => replier.error(Errno::NOTTY),
            Operation::Poll { .. } | Operation::Getlk(_) | Operation::Setlk { .. } => replier.error(Errno::NOSYS),
            _ => self.file_operation(header, &request.operation, replier),
        }
    }
}

/// A mounted floor, not yet served.
pub struct Floor {
    mount: Mount,
    filesystem: FloorFs,
}

impl Floor {
    /// Mounts a passthrough to `directory` at `mountpoint`.
    pub fn new(directory: &Path, mountpoint: &Path, options: &MountOptions) -> Result<Floor, FloorError> {
        // Before anything is mounted: a look at the directory must not end in our own, unserved mount.
        let shown = std::fs::canonicalize(directory)
            .map_err(|source| FloorError::Directory { path: directory.to_path_buf(), source })?;
        let mountpoint = crate::mount::resolve(mountpoint)?;
        if mountpoint.starts_with(&shown) {
            return Err(FloorError::Inside { mountpoint, directory: shown });
        }
        let mut filesystem = FloorFs::new(directory)?;
        if options.default_permissions() {
            filesystem.init_flags |= init::POSIX_ACL;
        }
        let mount = Mount::new(&mountpoint, &options.clone().with_source("onpath-floor"))?;
        Ok(Floor { mount, filesystem })
    }

    /// The mount, for unmounting from another thread.
    pub fn mount(&self) -> &Mount {
        &self.mount
    }

    /// Serves until unmounted; `mounted` runs as soon as the mount can be used.
    pub fn serve(&self, options: ServeOptions, mounted: impl FnOnce()) -> Result<(), FloorError> {
        Ok(self.mount.serve(&self.filesystem, options, mounted)?)
    }
}

/// Mounts a passthrough to `directory` at `mountpoint` and serves it, with one reader, until it is unmounted.
pub fn run_floor(directory: &Path, mountpoint: &Path, options: &MountOptions) -> Result<(), FloorError> {
    Floor::new(directory, mountpoint, options)?.serve(ServeOptions::default(), || {})
}
