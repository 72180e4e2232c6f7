//! The file that says a copy into this directory is not complete, and under which boot it was begun.

use anyhow::Context;
use rustix::fs::{CWD, Mode, OFlags};
use std::ffi::CStr;
use std::path::{Path, PathBuf};

/// Its name in the destination.
pub(super) const NAME: &CStr = c".onpath-copying";

/// A copy that is under way.
pub(super) struct Marker {
    directory: PathBuf,
    path: PathBuf,
    another_boot: bool,
}

impl Marker {
    /// Marks the destination, or finds the mark of a run that was interrupted.
    pub(super) fn put(directory: &Path) -> anyhow::Result<Marker> {
        let path = directory.join(NAME.to_str().expect("a constant of ASCII"));
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").context("which boot this is")?;
        let another_boot = match std::fs::read_to_string(&path) {
            // An empty one is the work of a power loss too.
            Ok(begun) => begun != boot,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                std::fs::write(&path, &boot).with_context(|| format!("cannot write {}", path.display()))?;
                false
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let marker = Marker { directory: directory.to_owned(), path, another_boot };
        marker.sync()?;
        Ok(marker)
    }

    /// Whether the machine was restarted since: then names may have survived whose bytes did not.
    pub(super) fn is_of_another_boot(&self) -> bool {
        self.another_boot
    }

    /// Brings everything to stable storage; then, if it is all there, the destination needs no mark any more.
    pub(super) fn finish(self, complete: bool) -> anyhow::Result<()> {
        self.sync()?;
        if complete {
            let times = std::fs::metadata(&self.directory).context("times of the destination")?;
            std::fs::remove_file(&self.path).with_context(|| format!("cannot remove {}", self.path.display()))?;
            let times = std::fs::FileTimes::new().set_accessed(times.accessed()?).set_modified(times.modified()?);
            std::fs::File::open(&self.directory)?.set_times(times).context("times of the destination")?;
            self.sync()?;
        }
        Ok(())
    }

    /// syncfs(2) is not passed on by a FUSE mount, fsync(2) of a directory is: Onpath then flushes everything.
    fn sync(&self) -> anyhow::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let synced = rustix::fs::openat(CWD, &self.directory, flags, Mode::empty())
            .and_then(|fd| rustix::fs::syncfs(&fd).and_then(|()| rustix::fs::fsync(&fd)));
        synced.with_context(|| format!("cannot bring {} to stable storage", self.directory.display()))
    }
}
