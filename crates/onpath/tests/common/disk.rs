//! A small file system of its own (ext4 on a loop device), which can lose power.
#![allow(unsafe_code)]

use super::{sys, tool, wait_until};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `_IOR('X', 125, u32)` of the kernel: the file system takes and writes nothing more.
const FS_IOC_SHUTDOWN: libc::c_ulong = 0x8004_587d;
/// Not even what is in the log of the file system.
const NOLOGFLUSH: u32 = 2;

/// A file system; unmounted on drop.
pub struct Disk {
    image: PathBuf,
    mountpoint: PathBuf,
}

impl Disk {
    /// Of so many bytes, below `root`; or why there is none.
    pub fn new(root: &Path, bytes: u64) -> Result<Disk, String> {
        if let Some(missing) = ["losetup", "mkfs.ext4", "mount"].into_iter().find(|name| tool(name).is_none()) {
            return Err(format!("{missing} is not installed"));
        }
        let disk = Disk { image: root.join("image"), mountpoint: root.join("disk") };
        File::create(&disk.image).and_then(|file| file.set_len(bytes)).map_err(|error| error.to_string())?;
        std::fs::create_dir(&disk.mountpoint).map_err(|error| error.to_string())?;
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&disk.image))?;
        disk.mount()?;
        Ok(disk)
    }

    fn mount(&self) -> Result<(), String> {
        run(Command::new("mount").args(["-o", "loop"]).arg(&self.image).arg(&self.mountpoint))
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.mountpoint
    }

    /// Leaves so much room; the file that takes the rest.
    pub fn fill_up(&self, left: u64) -> PathBuf {
        let hog = self.mountpoint.join("hog");
        let mut file = File::create(&hog).expect("a file");
        while file.write_all(&[1; 4096]).is_ok() {}
        let length = file.metadata().expect("stat").len();
        file.set_len(length.saturating_sub(left)).expect("truncate");
        hog
    }

    /// From now on nothing reaches the disk, and whoever uses it gets errors.
    pub fn lose_power(&self) {
        let root = File::open(&self.mountpoint).expect("open of a mountpoint");
        let flags = NOLOGFLUSH;
        // SAFETY: the request reads a u32 that lives as long as the call.
        let done = unsafe { libc::ioctl(root.as_raw_fd(), FS_IOC_SHUTDOWN, &raw const flags) };
        assert_eq!(done, 0, "FS_IOC_SHUTDOWN: errno {}", sys::errno());
    }

    /// Power is back: what was not made durable is gone.
    pub fn start_again(&self) {
        run(Command::new("umount").arg(&self.mountpoint)).expect("umount");
        // The kernel gives the loop device up a little later; mount(8) would take it once more, and reads of one that goes fail.
        wait_until("the loop device to go", || {
            let output = Command::new("losetup").arg("-j").arg(&self.image).output().expect("losetup runs");
            output.status.success() && output.stdout.is_empty()
        });
        self.mount().expect("mount");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = sys::detach(&self.mountpoint);
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}
