//! Mount name spaces other than that of this process. What is in one may be anybody's: of its files none is executed and none is read;
//! the mount is made there by a thread that enters it for that and ends.

#![allow(unsafe_code)]

use super::MountError;
use rustix::fs::{Mode, OFlags};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A mount name space.
#[derive(Clone, Debug)]
pub struct Namespace {
    path: PathBuf,
    fd: Arc<OwnedFd>,
}

thread_local! {
    /// In a thread that is in another name space: its own directory in the procfs of this process's one.
    static PROC: RefCell<Option<OwnedFd>> = const { RefCell::new(None) };
}

impl Namespace {
    /// The one that a file names, or that a process is in whose id this is.
    pub fn open(name: &Path) -> Result<Namespace, MountError> {
        let id = name.to_str().and_then(|text| text.parse::<u32>().ok());
        let path = id.map_or_else(|| name.to_owned(), |id| format!("/proc/{id}/ns/mnt").into());
        match rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()) {
            Ok(fd) => Ok(Namespace { path, fd: Arc::new(fd) }),
            Err(error) => Err(MountError::system("open the mount name space", &path, error)),
        }
    }

    /// Runs `act` in a thread that is in this name space.
    fn run<T: Send>(&self, act: impl FnOnce() -> Result<T, MountError> + Send) -> Result<T, MountError> {
        let enter = || {
            let proc = rustix::fs::open("/proc/thread-self", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            // SAFETY: the thread gets a root and a working directory of its own, as entering a mount name space needs; no memory and
            // no descriptor is taken from anybody.
            unsafe { unshare_unsafe(UnshareFlags::FS) }?;
            move_into_link_name_space(self.fd.as_fd(), Some(LinkNameSpaceType::Mount))?;
            PROC.set(Some(proc));
            Ok::<_, rustix::io::Errno>(())
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("elsewhere".into()).spawn_scoped(scope, || {
                enter().map_err(|error| MountError::system("enter the mount name space", &self.path, error))?;
                act()
            });
            let thread = thread.map_err(|error| MountError::system("start a thread for", &self.path, error))?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Runs `act` in a mount name space; without one, in that of this process and in this thread.
pub(super) fn within<T: Send>(
    namespace: Option<&Namespace>,
    act: impl FnOnce() -> Result<T, MountError> + Send,
) -> Result<T, MountError> {
    match namespace {
        Some(namespace) => namespace.run(act),
        None => act(),
    }
}

/// Whether this thread is in another name space than its process.
pub(super) fn is_elsewhere() -> bool {
    PROC.with_borrow(Option::is_some)
}

/// The mount table of this thread's name space, in the words of the kernel: /proc of another one may be anything.
pub(super) fn table() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut open_table()?, &mut bytes)?;
    Ok(bytes)
}

/// The same to be read as it changes, from any thread. It keeps the name space.
pub(super) fn open_table() -> io::Result<File> {
    PROC.with_borrow(|proc| match proc {
        None => File::open("/proc/self/mountinfo"),
        Some(proc) => {
            Ok(rustix::fs::openat(proc, "mountinfo", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?.into())
        }
    })
}
