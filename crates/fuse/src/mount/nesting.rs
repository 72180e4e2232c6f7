//! Whether a mount would hide, from the process that serves it, what that process keeps.
//!
//! A server whose files are below its own mount waits for itself, for ever and uninterruptibly. Two ways to a directory may have nothing
//! in common in their names: so what is compared is where they lead, and where that is in its file system (mountinfo tells which part of
//! one a bind mount shows). A bind mount counts although it may show a file system apart: a mount on one appears on the others that
//! propagate to each other, as systemd makes all mounts do.

use super::mountinfo::{DeviceNumber, MountEntry};
use super::{FILESYSTEM_TYPE, MountError, mounts, resolve};
use std::path::{Path, PathBuf};

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// In this mount name space, without symbolic links.
    path: PathBuf,
    /// In its file system, below the file system's own root.
    inner: Option<(DeviceNumber, PathBuf)>,
}

impl Place {
    fn new(path: PathBuf, table: &[MountEntry], hidden: Option<&Path>) -> Place {
        // Mounts of ours at the mountpoint itself are in the way of nothing: they are dead, or refused.
        let counts = |entry: &&MountEntry| entry.kind != FILESYSTEM_TYPE || hidden != Some(&entry.mountpoint);
        let over = table.iter().filter(counts).filter(|entry| path.starts_with(&entry.mountpoint));
        let entry = over.max_by_key(|entry| entry.mountpoint.components().count());
        let inner = entry.map(|entry| {
            let below = path.strip_prefix(&entry.mountpoint).expect("it is below it");
            (entry.device, entry.root.join(below))
        });
        Place { path, inner }
    }

    fn nests(&self, other: &Place) -> bool {
        let nest = |a: &Path, b: &Path| a.starts_with(b) || b.starts_with(a);
        let inside = match (&self.inner, &other.inner) {
            (Some((device, path)), Some((other_device, other_path))) => {
                device == other_device && nest(path, other_path)
            }
            _ => false,
        };
        inside || nest(&self.path, &other.path)
    }

    fn holds(&self, other: &Place) -> bool {
        let inside = match (&self.inner, &other.inner) {
            (Some((device, path)), Some((other_device, other_path))) => {
                device == other_device && other_path.starts_with(path)
            }
            _ => false,
        };
        inside || other.path.starts_with(&self.path)
    }
}

/// Refuses a mountpoint that has `dir` in it or is in it. `dir` need not exist.
pub fn refuse_nesting(dir: &Path, mountpoint: &Path) -> Result<(), MountError> {
    let (mountpoint, dir, table) = (resolve(mountpoint)?, existing(dir)?, table()?);
    let (at, of) = (Place::new(mountpoint.clone(), &table, Some(&mountpoint)), Place::new(dir, &table, None));
    if at.nests(&of) { Err(MountError::Nested { dir: of.path, mountpoint }) } else { Ok(()) }
}

/// Refuses a mountpoint that has a file in it to which its server writes. The file need not exist.
pub fn refuse_below(file: &Path, mountpoint: &Path) -> Result<(), MountError> {
    let (mountpoint, file, table) = (resolve(mountpoint)?, existing(file)?, table()?);
    let (at, of) = (Place::new(mountpoint.clone(), &table, Some(&mountpoint)), Place::new(file, &table, None));
    if at.holds(&of) { Err(MountError::Hidden { file: of.path, mountpoint }) } else { Ok(()) }
}

fn table() -> Result<Vec<MountEntry>, MountError> {
    mounts().map_err(|error| MountError::system("read", Path::new("/proc/self/mountinfo"), error))
}

/// The path without symbolic links, as far as it exists.
fn existing(path: &Path) -> Result<PathBuf, MountError> {
    let mut known = path;
    loop {
        match std::fs::canonicalize(known) {
            Ok(found) => {
                let rest = path.strip_prefix(known).expect("it begins so");
                return Ok(if rest.as_os_str().is_empty() { found } else { found.join(rest) });
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => match known.parent() {
                Some(parent) => known = parent,
                None => return Err(MountError::system("find", path, error)),
            },
            Err(error) => return Err(MountError::system("find", path, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(mountpoint: &str, root: &str, minor: u32) -> MountEntry {
        MountEntry {
            id: minor,
            parent: 0,
            device: DeviceNumber { major: 0, minor },
            root: root.into(),
            mountpoint: mountpoint.into(),
            options: "rw".into(),
            kind: "ext4".into(),
            source: "disk".into(),
            of_filesystem: "rw".into(),
        }
    }

    #[test]
    fn places_are_compared_by_names_and_by_file_systems() {
        let table =
            [entry("/", "/", 1), entry("/disk", "/", 2), entry("/bound", "/srv/x", 1), entry("/sub", "/deep", 2)];
        let nest = |a: &str, b: &str| {
            let place = |path: &str| Place::new(path.into(), &table, None);
            assert_eq!(place(a).nests(&place(b)), place(b).nests(&place(a)));
            place(a).nests(&place(b))
        };
        assert!(nest("/a", "/a") && nest("/a", "/a/b") && nest("/disk/data", "/"));
        assert!(nest("/disk", "/disk/data"), "by names, on another file system");
        assert!(nest("/bound/data", "/srv/x/data") && nest("/bound", "/srv/x/mnt") && nest("/bound/data", "/srv"));
        assert!(nest("/sub", "/disk/deep/mnt") && !nest("/sub", "/disk/other"));
        assert!(!nest("/a", "/ab") && !nest("/srv/x", "/disk/srv/x") && !nest("/bound/a", "/srv/y"));
    }
}
