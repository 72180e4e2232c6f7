//! The life of a mount: mount(2), read-ahead, unmount, and the removal of what a killed server left behind.

mod changes;
mod mountinfo;
mod namespace;
mod nesting;
mod options;
mod server;
mod users;

use onpath_wire::shown::Shown;
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::serve::{Filesystem, ServeError, ServeOptions};
use crate::transport::{DevFuse, Transport};

pub use changes::Changes;
#[cfg(feature = "fuzzing")]
pub(crate) use mountinfo::parse as parse_table;
pub use mountinfo::{DeviceNumber, MountEntry, mounts};
pub use namespace::Namespace;
pub use nesting::{refuse_below, refuse_nesting};
pub use options::{MountOptions, OptionError, ParsedOptions};
pub use server::Server;
pub use users::{Usage, User};

/// Type of our mounts in `/proc/self/mountinfo`.
pub const FILESYSTEM_TYPE: &str = "fuse.onpath";
/// Read-ahead that makes sequential READs as large as the kernel allows, in KiB.
pub const READ_AHEAD_KIB: u32 = 4096;
/// Dead mounts removed from one mountpoint before giving up.
const DEAD_MOUNTS_MAX: usize = 64;

/// Why a mount or unmount failed.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The mountpoint does not exist.
    #[error("mountpoint {} does not exist: create it first (mkdir -p)", .0.shown())]
    Missing(PathBuf),
    /// The mountpoint is not a directory.
    #[error("mountpoint {} is not a directory", .0.shown())]
    NotADirectory(PathBuf),
    /// A live mount of ours is there.
    #[error("mountpoint {path} is busy: already mounted; unmount it first (umount {path})", path = .0.shown())]
    AlreadyMounted(PathBuf),
    /// `/dev/fuse` is missing.
    #[error("/dev/fuse is missing: load the kernel module (modprobe fuse), or give the container the device")]
    NoDevice,
    /// Not allowed to mount.
    #[error("mounting needs root (CAP_SYS_ADMIN)")]
    NotRoot,
    /// Still in use.
    #[error("{} is busy: {users}", mountpoint.shown())]
    Busy {
        /// Where.
        mountpoint: PathBuf,
        /// By whom.
        users: Usage,
    },
    /// Nothing of ours is mounted there.
    #[error("{} is not an Onpath mount", .0.shown())]
    NotMounted(PathBuf),
    /// The mount would hide the directory of its own server.
    #[error(
        "directory {} and mountpoint {} lie one in the other: the mount would hide what its own server keeps; choose a mountpoint beside the directory",
        dir.shown(),
        mountpoint.shown()
    )]
    Nested {
        /// DIR.
        dir: PathBuf,
        /// The mountpoint.
        mountpoint: PathBuf,
    },
    /// The mount would hide a file to which its own server writes.
    #[error(
        "{} lies below the mountpoint {}: who serves the mount would wait for itself to write it; choose another place for it",
        file.shown(),
        mountpoint.shown()
    )]
    Hidden {
        /// The file.
        file: PathBuf,
        /// The mountpoint.
        mountpoint: PathBuf,
    },
    /// Something else is mounted over our mount.
    #[error("another file system is mounted over {}: unmount that first", .0.shown())]
    Covered(PathBuf),
    /// A system call failed otherwise.
    #[error("cannot {action} {}: {source}", path.shown())]
    System {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

impl MountError {
    fn system(action: &'static str, path: &Path, source: impl Into<std::io::Error>) -> Self {
        Self::System { action, path: path.to_path_buf(), source: source.into() }
    }
}

/// A mount of this process. Dropped while mounted it detaches itself: users get ENOTCONN once the server is gone.
#[derive(Debug)]
pub struct Mount {
    mountpoint: PathBuf,
    namespace: Option<Namespace>,
    device: Arc<DevFuse>,
    number: DeviceNumber,
}

impl Mount {
    /// Mounts at `mountpoint`, first removing what a killed server left there. Requests queue until
    /// [`Mount::serve`] runs; until then nobody can use the mount, not even stat it.
    pub fn new(mountpoint: &Path, options: &MountOptions) -> Result<Mount, MountError> {
        Mount::within(None, mountpoint, options)
    }

    /// The same in another mount name space, in which the mountpoint is looked for.
    pub fn within(
        namespace: Option<Namespace>,
        mountpoint: &Path,
        options: &MountOptions,
    ) -> Result<Mount, MountError> {
        must_be_root()?;
        let device =
            rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(
                |error| match error {
                    Errno::NOENT | Errno::NODEV | Errno::NXIO => MountError::NoDevice,
                    Errno::PERM | Errno::ACCESS => MountError::NotRoot,
                    _ => MountError::system("open", Path::new("/dev/fuse"), error),
                },
            )?;
        let (mountpoint, number) = namespace::within(namespace.as_ref(), || {
            let mountpoint = resolve(mountpoint)?;
            clear_dead(&mountpoint)?;
            must_be_directory(&mountpoint)?;
            mount_at(&device, &mountpoint, options).map(|number| (mountpoint, number))
        })?;
        Ok(Mount { mountpoint, namespace, device: Arc::new(DevFuse::new(device)), number })
    }

    /// Whether a file system of this source could be mounted there, as far as can be told beforehand: changes nothing. A mount of the same
    /// source that is there is no error; who serves that is told of its server.
    pub fn check(namespace: Option<&Namespace>, mountpoint: &Path, source: &str) -> Result<(), MountError> {
        must_be_root()?;
        namespace::within(namespace, || {
            let mountpoint = resolve(mountpoint)?;
            match top(&mountpoint)? {
                Some(entry) if entry.kind == FILESYSTEM_TYPE => {
                    let taken = entry.source != source && !is_dead(&mountpoint);
                    if taken { Err(MountError::AlreadyMounted(mountpoint)) } else { Ok(()) }
                }
                _ => must_be_directory(&mountpoint),
            }
        })
    }

    /// Where it is mounted (absolute, without symbolic links).
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// Requests of the mount; also the way to send notifications.
    pub fn transport(&self) -> Arc<dyn Transport> {
        Arc::clone(&self.device) as Arc<dyn Transport>
    }

    /// Whether something is mounted on names of this mount, in any mount name space that a thread is in; also if that cannot be told.
    /// Looks at all threads of the machine.
    pub fn covered(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let number = self.number;
        move || {
            mountinfo::is_covered(number).unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot see what is mounted");
                true
            })
        }
    }

    /// Serves the mount until it is gone; `mounted` runs as soon as it can be used. See [`serve`](crate::serve::serve).
    pub fn serve<F: Filesystem + ?Sized>(
        &self,
        filesystem: &F,
        options: ServeOptions,
        mounted: impl FnOnce(),
    ) -> Result<(), ServeError> {
        crate::serve::serve(&self.transport(), filesystem, options, || {
            if let Err(error) = self.set_read_ahead(READ_AHEAD_KIB) {
                tracing::warn!(%error, "read-ahead stays at the kernel's default");
            }
            mounted();
        })
    }

    /// Sets the read-ahead. Only after INIT is answered, which would lower it again.
    pub fn set_read_ahead(&self, kib: u32) -> Result<(), MountError> {
        let path = PathBuf::from(format!("/sys/class/bdi/{}/read_ahead_kb", self.number));
        std::fs::write(&path, kib.to_string()).map_err(|error| MountError::system("write", &path, error))
    }

    fn is_mounted(&self) -> Result<bool, MountError> {
        let mounts = mounts().map_err(|error| MountError::system("read", Path::new("/proc/self/mountinfo"), error))?;
        let here: Vec<_> = mounts.into_iter().filter(|entry| entry.mountpoint == self.mountpoint).collect();
        match here.iter().rposition(|entry| entry.device == self.number) {
            None => Ok(false),
            Some(index) if index + 1 == here.len() => Ok(true),
            Some(_) => Err(MountError::Covered(self.mountpoint.clone())),
        }
    }

    /// Unmounts; [`MountError::Busy`] names the users. No error if somebody else has unmounted it.
    pub fn unmount(&self) -> Result<(), MountError> {
        self.umount(UnmountFlags::empty())
    }

    /// Takes the mount out of the name space. It is served on until the last user is gone.
    pub fn detach(&self) -> Result<(), MountError> {
        self.umount(UnmountFlags::DETACH)
    }

    fn umount(&self, flags: UnmountFlags) -> Result<(), MountError> {
        namespace::within(self.namespace.as_ref(), || {
            if self.is_mounted()? { umount(&self.mountpoint, flags) } else { Ok(()) }
        })
    }

    /// Ends the connection (requests under way fail with ECONNABORTED, users get ENOTCONN), then detaches.
    pub fn abort(&self) -> Result<(), MountError> {
        match self.umount(UnmountFlags::FORCE) {
            Err(MountError::Busy { .. }) => self.detach(),
            result => result,
        }
    }
}

impl Mount {
    /// Who has the file system in another mount namespace.
    pub fn users_elsewhere(&self) -> Usage {
        Usage::elsewhere(self.number)
    }

    /// Ends the connection although another mount namespace has it: users get ENOTCONN. What they have mapped and changed is written
    /// before, as far as that is done soon. Without the kernel's control file system (fusectl) it ends with this process.
    pub fn abort_elsewhere(&self) {
        server::write_back(&self.users_elsewhere());
        let control = format!("/sys/fs/fuse/connections/{}/abort", self.number.minor);
        if let Err(error) = std::fs::write(&control, "1") {
            tracing::debug!(%error, control, "the connection ends with this process");
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = self.detach() {
            tracing::warn!(%error, "mount left behind");
        }
    }
}

/// Unmounts the Onpath mount (of any process, dead or alive) at `mountpoint`. With `lazy`, users keep it until they are done.
pub fn unmount(mountpoint: &Path, lazy: bool) -> Result<(), MountError> {
    let mountpoint = resolve(mountpoint)?;
    match top(&mountpoint)? {
        Some(entry) if entry.kind == FILESYSTEM_TYPE => {
            umount(&mountpoint, if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() })
        }
        _ => Err(MountError::NotMounted(mountpoint)),
    }
}

/// Who serves the Onpath mount at `mountpoint`, as far as that can be told.
pub fn server_at(mountpoint: &Path) -> Result<Option<Server>, MountError> {
    let mountpoint = resolve(mountpoint)?;
    Ok(top(&mountpoint)?.filter(|entry| entry.kind == FILESYSTEM_TYPE).map(|entry| Server::of(entry.device)))
}

/// Takes mounts of `source` out of the name space whose server is gone, but for one at `except`. Where a server lives but does not
/// answer, this waits for it.
pub fn detach_dead(source: &str, except: Option<&Path>) -> Result<(), MountError> {
    let mounts = mounts().map_err(|error| MountError::system("read", Path::new("/proc/self/mountinfo"), error))?;
    for entry in mounts.iter().filter(|entry| entry.kind == FILESYSTEM_TYPE && entry.source == source) {
        if except != Some(entry.mountpoint.as_path()) && is_dead(&entry.mountpoint) {
            tracing::info!(mountpoint = %entry.mountpoint.shown(), "removing the mount of a server that is gone");
            umount(&entry.mountpoint, UnmountFlags::DETACH)?;
        }
    }
    Ok(())
}

/// Changes the flags (`ro`, `noatime`, …) of the Onpath mount at `mountpoint` to those of `options`.
pub fn remount(namespace: Option<&Namespace>, mountpoint: &Path, options: &MountOptions) -> Result<(), MountError> {
    namespace::within(namespace, || {
        let mountpoint = resolve(mountpoint)?;
        if top(&mountpoint)?.is_none_or(|entry| entry.kind != FILESYSTEM_TYPE) {
            return Err(MountError::NotMounted(mountpoint));
        }
        rustix::mount::mount_remount(&mountpoint, options.flags(), "").map_err(|error| match error {
            Errno::PERM => MountError::NotRoot,
            Errno::BUSY => busy(&mountpoint),
            _ => MountError::system("remount", &mountpoint, error),
        })
    })
}

fn busy(mountpoint: &Path) -> MountError {
    // What /proc is in another name space is anybody's.
    let users = if namespace::is_elsewhere() { Usage::default() } else { Usage::of(mountpoint) };
    MountError::Busy { mountpoint: mountpoint.to_path_buf(), users }
}

fn must_be_root() -> Result<(), MountError> {
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err(MountError::NotRoot) }
}

fn must_be_directory(mountpoint: &Path) -> Result<(), MountError> {
    let metadata = std::fs::metadata(mountpoint).map_err(|error| missing_or(mountpoint, error))?;
    if metadata.is_dir() { Ok(()) } else { Err(MountError::NotADirectory(mountpoint.to_path_buf())) }
}

/// Mounts what is served by this device in the thread's name space.
fn mount_at(device: &OwnedFd, mountpoint: &Path, options: &MountOptions) -> Result<DeviceNumber, MountError> {
    let data = options.mount_data(device.as_raw_fd());
    let mounted =
        rustix::mount::mount(options.source(), mountpoint, FILESYSTEM_TYPE, options.flags(), Some(data.as_c_str()));
    mounted.map_err(|error| match error {
        Errno::PERM => MountError::NotRoot,
        Errno::NOENT => MountError::Missing(mountpoint.to_path_buf()),
        Errno::NOTDIR => MountError::NotADirectory(mountpoint.to_path_buf()),
        Errno::NODEV => MountError::NoDevice,
        Errno::BUSY => MountError::AlreadyMounted(mountpoint.to_path_buf()),
        _ => MountError::system("mount", mountpoint, error),
    })?;
    match top(mountpoint)? {
        Some(entry) if entry.kind == FILESYSTEM_TYPE => Ok(entry.device),
        _ => Err(MountError::NotMounted(mountpoint.to_path_buf())),
    }
}

fn umount(mountpoint: &Path, flags: UnmountFlags) -> Result<(), MountError> {
    match rustix::mount::unmount(mountpoint, flags | UnmountFlags::NOFOLLOW) {
        // Not mounted any more: somebody was faster.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(Errno::BUSY) => Err(busy(mountpoint)),
        Err(Errno::PERM) => Err(MountError::NotRoot),
        Err(error) => Err(MountError::system("unmount", mountpoint, error)),
    }
}

/// Removes mounts of ours at `mountpoint` whose server is gone. A live one is an error.
fn clear_dead(mountpoint: &Path) -> Result<(), MountError> {
    for _ in 0..DEAD_MOUNTS_MAX {
        match top(mountpoint)? {
            Some(entry) if entry.kind == FILESYSTEM_TYPE => {}
            _ => return Ok(()),
        }
        if !is_dead(mountpoint) {
            break;
        }
        tracing::info!(mountpoint = %mountpoint.shown(), "removing the mount of a server that is gone");
        umount(mountpoint, UnmountFlags::DETACH)?;
    }
    Err(MountError::AlreadyMounted(mountpoint.to_path_buf()))
}

/// Whether the server of a mount is gone. Asks what the kernel never answers from its cache.
fn is_dead(mountpoint: &Path) -> bool {
    rustix::fs::statfs(mountpoint).err() == Some(Errno::NOTCONN)
}

/// What is mounted at `mountpoint`, the topmost if several are.
fn top(mountpoint: &Path) -> Result<Option<MountEntry>, MountError> {
    let mounts = mounts().map_err(|error| MountError::system("read", Path::new("/proc/self/mountinfo"), error))?;
    Ok(mounts.into_iter().rfind(|entry| entry.mountpoint == mountpoint))
}

/// The path as mountinfo shows it, found without asking a dead or stuck mount for anything.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf, MountError> {
    let Some(name) = path.file_name() else {
        return std::fs::canonicalize(path).map_err(|error| missing_or(path, error));
    };
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let resolved = std::fs::canonicalize(parent).map_err(|error| missing_or(path, error))?.join(name);
    if CString::new(resolved.as_os_str().as_bytes()).is_err() {
        return Err(MountError::Missing(resolved));
    }
    // Of a mountpoint readlink asks the file system nothing: its root is a directory, whatever the server says.
    match std::fs::read_link(&resolved) {
        Ok(_) => std::fs::canonicalize(&resolved).map_err(|error| missing_or(path, error)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(MountError::Missing(resolved)),
        Err(_) => Ok(resolved),
    }
}

fn missing_or(path: &Path, error: std::io::Error) -> MountError {
    match error.kind() {
        std::io::ErrorKind::NotFound => MountError::Missing(path.to_path_buf()),
        std::io::ErrorKind::NotADirectory => MountError::NotADirectory(path.to_path_buf()),
        _ => MountError::system("find", path, error),
    }
}
