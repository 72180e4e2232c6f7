//! Who keeps a mount busy: processes with a working directory, root, program or open file below it.

use onpath_wire::shown::Shown;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::mountinfo::{DeviceNumber, mounts_of};

/// Most users that are named.
const USERS_MAX: usize = 8;

/// A process that uses a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Process id.
    pub pid: u32,
    /// Name of the program.
    pub command: OsString,
    /// What it has there.
    pub path: PathBuf,
}

/// The users of a mount, as far as `/proc` shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage(pub Vec<User>);

impl Usage {
    /// Looks through `/proc`. Reads links only, so the mount itself is asked for nothing.
    pub fn of(mountpoint: &Path) -> Usage {
        let mut users = Vec::new();
        let Ok(processes) = fs::read_dir("/proc") else { return Usage(users) };
        for process in processes.flatten() {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if let Some(path) = used_path(&process.path(), mountpoint) {
                users.push(User { pid, command: command(&process.path()), path });
            }
        }
        users.sort_by_key(|user| user.pid);
        Usage(users)
    }

    /// Processes in other mount namespaces than the caller's that have the file system mounted, one of each namespace. What it has is
    /// the mountpoint there.
    pub(super) fn elsewhere(device: DeviceNumber) -> Usage {
        let namespace = |process: &Path| fs::read_link(process.join("ns/mnt")).ok();
        let mut seen: Vec<PathBuf> = namespace(Path::new("/proc/self")).into_iter().collect();
        let mut users = Vec::new();
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let Some(namespace) = namespace(&process.path()).filter(|namespace| !seen.contains(namespace)) else {
                continue;
            };
            seen.push(namespace);
            let mounts = mounts_of(&process.path()).unwrap_or_default();
            if let Some(entry) = mounts.into_iter().find(|entry| entry.device == device) {
                users.push(User { pid, command: command(&process.path()), path: entry.mountpoint });
            }
        }
        users.sort_by_key(|user| user.pid);
        Usage(users)
    }
}

/// The name of its program, which it may choose as it likes.
fn command(process: &Path) -> OsString {
    let mut name = fs::read(process.join("comm")).unwrap_or_default();
    if name.last() == Some(&b'\n') {
        name.pop();
    }
    OsString::from_vec(name)
}

/// The first thing below `mountpoint` that the process has.
fn used_path(process: &Path, mountpoint: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten().map(|entry| entry.path());
    let links = ["cwd", "root", "exe"].into_iter().map(|name| process.join(name)).chain(files);
    links.filter_map(|link| fs::read_link(link).ok()).find(|path| path.starts_with(mountpoint)).or_else(|| {
        let maps = fs::read_dir(process.join("map_files")).into_iter().flatten().flatten();
        maps.filter_map(|entry| fs::read_link(entry.path()).ok()).find(|path| path.starts_with(mountpoint))
    })
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("used by a process that /proc does not show, or by a mount below it");
        }
        f.write_str("used by ")?;
        for (index, user) in self.0.iter().take(USERS_MAX).enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{} (pid {}: {})", user.command.shown(), user.pid, user.path.shown())?;
        }
        match self.0.len().saturating_sub(USERS_MAX) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
