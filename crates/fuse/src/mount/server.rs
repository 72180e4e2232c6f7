//! The process that serves a mount, and mounts that other mount namespaces have.

use std::fs;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::mountinfo::DeviceNumber;
use super::users::Usage;

/// How long what is changed in mappings is written back before a connection ends.
const WRITTEN_WITHIN: Duration = Duration::from_secs(5);
/// How often it is looked whether a server has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Who serves a mount.
#[derive(Debug)]
pub struct Server {
    /// The process that serves it, and perhaps one that is ending and has served another mount before: the kernel gives the number of a
    /// connection away again as soon as nothing is mounted.
    pids: Vec<u32>,
    device: DeviceNumber,
}

impl Server {
    /// Who has the connection of a FUSE file system, where the kernel tells it (`fuse_connection` in fdinfo, Linux 6.18).
    pub(super) fn of(device: DeviceNumber) -> Server {
        let connection = format!("fuse_connection:\t{}", device.minor);
        let serves = |process: &Path| {
            let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
            let devices = files.filter(|file| fs::read_link(file.path()).is_ok_and(|to| to == Path::new("/dev/fuse")));
            devices.into_iter().any(|file| {
                let info = fs::read_to_string(process.join("fdinfo").join(file.file_name())).unwrap_or_default();
                info.lines().any(|line| line == connection)
            })
        };
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = processes
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok().filter(|_| serves(&entry.path())))
            .collect();
        Server { pids, device }
    }

    /// Waits until it has ended, for at most so long; not while another mount namespace has the file system. The process that goes on.
    pub fn ends_within(&self, patience: Duration) -> Result<(), u32> {
        let begun = Instant::now();
        loop {
            let Some(&pid) = self.pids.iter().find(|&&pid| !has_ended(pid)) else { return Ok(()) };
            if begun.elapsed() >= patience || !Usage::elsewhere(self.device).0.is_empty() {
                return Err(pid);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Whether all threads of a process have ended; its parent may not have heard yet.
fn has_ended(pid: u32) -> bool {
    let process = Path::new("/proc").join(pid.to_string());
    let Ok(stat) = fs::read_to_string(process.join("stat")) else { return true };
    let threads = fs::read_dir(process.join("task")).map_or(0, Iterator::count);
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X'])) && threads <= 1
}

/// Writes back what is changed in the mappings of a file system that other mount namespaces have.
pub(super) fn write_back(users: &Usage) {
    let Some(user) = users.0.first() else { return };
    let inside = user.path.strip_prefix("/").unwrap_or(&user.path);
    let root = Path::new("/proc").join(user.pid.to_string()).join("root").join(inside);
    let (done, written) = channel();
    // It waits for this very process, which may not be able to answer.
    let thread = std::thread::Builder::new().name("write-back".into()).spawn(move || {
        if let Ok(root) = fs::File::open(root) {
            _ = rustix::fs::syncfs(&root);
        }
        _ = done.send(());
    });
    if thread.is_ok() {
        _ = written.recv_timeout(WRITTEN_WITHIN);
    }
}
