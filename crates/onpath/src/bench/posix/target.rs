//! A directory under test: where on it to work, what it is, who serves it.

use anyhow::{Context, bail};
use onpath_wire::shown::Shown;
use rustix::fs::{major, minor};
use serde::Serialize;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A PATH of the command line.
#[derive(Debug, Serialize)]
pub(in crate::bench) struct Target {
    /// As given.
    pub(in crate::bench) path: PathBuf,
    /// Type of the file system, as in /proc/self/mountinfo.
    pub(in crate::bench) filesystem: String,
    /// Processes whose CPU time is counted as the server's.
    pub(in crate::bench) servers: Vec<u32>,
    #[serde(skip)]
    work: WorkDirectory,
}

/// The directory in which all work is done; removed with what is in it.
#[derive(Debug)]
struct WorkDirectory(PathBuf);

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("onpath: could not remove {}: {error}", self.0.shown());
        }
    }
}

impl Target {
    /// Makes `subdirectory` in `path`, unless somebody else's things are there.
    pub(in crate::bench) fn new(path: &Path, subdirectory: &str, servers: &[u32]) -> anyhow::Result<Target> {
        let shown = path.shown();
        let metadata = std::fs::metadata(path).with_context(|| format!("cannot use {shown}"))?;
        if !metadata.is_dir() {
            bail!("{shown} is not a directory");
        }
        let path = std::path::absolute(path)?;
        let work = path.join(subdirectory);
        match std::fs::create_dir(&work) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let what = format!("{} exists", work.shown());
                let empty = std::fs::read_dir(&work).is_ok_and(|mut entries| entries.next().is_none());
                if !empty {
                    bail!("{what} and is not an empty directory: remove it, or choose another name with --subdir");
                }
            }
            result => result.with_context(|| format!("cannot make {}", work.shown()))?,
        }
        let work = WorkDirectory(work);
        let filesystem = filesystem(metadata.dev())?;
        let mut all = if filesystem.starts_with("fuse") { fuse_servers(metadata.dev()) } else { vec![] };
        all.extend(servers);
        all.sort_unstable();
        all.dedup();
        Ok(Target { path, filesystem, servers: all, work })
    }

    /// The directory in which all work is done.
    pub(in crate::bench) fn work(&self) -> &Path {
        &self.work.0
    }

    /// Makes the directory of one case, and in it one for each worker.
    pub(super) fn make(&self, case: &str, directories: u32) -> anyhow::Result<Vec<PathBuf>> {
        let case = self.work.0.join(case);
        let directories: Vec<PathBuf> = (0..directories).map(|n| case.join(format!("d{n}"))).collect();
        for directory in std::iter::once(&case).chain(&directories) {
            std::fs::create_dir(directory).with_context(|| format!("cannot make {}", directory.shown()))?;
        }
        Ok(directories)
    }

    /// Removes what [`make`](Target::make) has made; what workers made there is gone already.
    pub(super) fn remove(&self, case: &str, directories: &[PathBuf]) -> anyhow::Result<()> {
        let case = self.work.0.join(case);
        for directory in directories.iter().chain(std::iter::once(&case)) {
            std::fs::remove_dir(directory).with_context(|| format!("cannot remove {}", directory.shown()))?;
        }
        Ok(())
    }
}

fn filesystem(device: u64) -> anyhow::Result<String> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").context("cannot read /proc/self/mountinfo")?;
    Ok(filesystem_in(&table, device).unwrap_or("unknown").to_owned())
}

fn filesystem_in(table: &str, device: u64) -> Option<&str> {
    let number = format!("{}:{}", major(device), minor(device));
    let line = table.lines().find(|line| line.split(' ').nth(2) == Some(&number))?;
    line.split_once(" - ")?.1.split(' ').next()
}

/// Processes that hold the FUSE connection of a mount open. Kernels before 6.17 do not tell; then there are none.
pub(in crate::bench) fn fuse_servers(device: u64) -> Vec<u32> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return vec![] };
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter(|process| serves(*process, device).unwrap_or(false)).collect()
}

fn serves(process: u32, device: u64) -> std::io::Result<bool> {
    let connection = minor(device).to_string();
    for descriptor in std::fs::read_dir(format!("/proc/{process}/fd"))? {
        let descriptor = descriptor?;
        if std::fs::read_link(descriptor.path()).is_ok_and(|file| file == Path::new("/dev/fuse")) {
            let info = Path::new("/proc").join(process.to_string()).join("fdinfo").join(descriptor.file_name());
            let info = std::fs::read_to_string(info)?;
            let mut lines = info.lines().filter_map(|line| line.strip_prefix("fuse_connection:"));
            if lines.any(|number| number.trim() == connection) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::makedev;

    #[test]
    fn the_type_of_a_file_system_is_found_by_device() {
        let table = "21 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n30 21 0:44 / /mnt rw - fuse.onpath onpath rw\n";
        assert_eq!(filesystem_in(table, makedev(0, 44)), Some("fuse.onpath"));
        assert_eq!(filesystem_in(table, makedev(254, 0)), Some("ext4"));
        assert_eq!(filesystem_in(table, makedev(0, 4)), None);
    }
}
