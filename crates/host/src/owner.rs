//! Whose DIR is: it belongs to the one user who works in it, and is closed to all others.
//!
//! DIR has mode 0711, so that everybody reaches its socket; what is in it has 0700 and 0600. Root does not work in the DIR of another
//! user, who could lead it to any file by links. What others have put into DIR, or could write to, is refused.

use crate::dir::DirError;
use crate::held::{self, FILE_MODE, Held, SUBDIRECTORY_MODE};
use crate::sys;
use onpath_wire::shown::Shown;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// Mode of DIR.
pub(crate) const DIR_MODE: RawMode = 0o711;
/// Who may write that is not the owner.
const OTHERS_WRITE: RawMode = 0o022;
/// Directories below each other in DIR; there are two.
const DEPTH_MAX: usize = 16;

/// What is done with modes that are too wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Modes {
    /// They are changed.
    Close,
    /// They are left: somebody only looks at DIR.
    Leave,
}

/// Opens DIR if it belongs to the user that this process is.
pub(crate) fn hold(path: &Path) -> Result<Arc<Held>, DirError> {
    let io = |source| DirError::Io { path: path.to_owned(), what: "open", source };
    // Of one that is not the caller's the owner is told even if it cannot be opened.
    let owner = std::fs::metadata(path).map_err(io)?.uid();
    let mine = |uid: u32| {
        let other = || DirError::Owner { path: path.to_owned(), uid, prefix: acting_as(uid) };
        (uid == rustix::process::geteuid().as_raw()).then_some(()).ok_or_else(other)
    };
    mine(owner)?;
    let held = Held::new(path).map_err(io)?;
    mine(held.stat().map_err(io)?.st_uid)?;
    Ok(held)
}

/// What runs a command as a user.
fn acting_as(uid: u32) -> String {
    match sys::user_name(uid) {
        Some(name) => format!("runuser -u {name} --"),
        None => format!("setpriv --reuid={uid} --regid={uid} --clear-groups"),
    }
}

/// Refuses what in DIR is not its owner's, and closes DIR and what is in it to everybody else.
pub(crate) fn check(held: &Held, path: &Path, modes: Modes) -> Result<(), DirError> {
    let failed = |source| DirError::Io { path: path.to_owned(), what: "look at", source };
    let stat = held.stat().map_err(failed)?;
    let mut walk = Walk { owner: stat.st_uid, shared: stat.st_mode & OTHERS_WRITE != 0, modes, changed: 0 };
    if modes == Modes::Close && stat.st_mode & 0o7777 != DIR_MODE {
        // First: from here on nobody else adds anything.
        let failed = |source| DirError::Io { path: path.to_owned(), what: "change the mode of", source };
        held.set_mode(DIR_MODE).map_err(failed)?;
        walk.changed += 1;
    }
    walk.folder(&held::folder(path).map_err(failed)?, path, 0)?;
    if walk.changed > 0 {
        tracing::warn!(
            dir = %path.shown(),
            changed = walk.changed,
            "modes are changed: DIR has 0711 now, directories in it 0700, files 0600; other users reach its socket and nothing else"
        );
    }
    Ok(())
}

struct Walk {
    owner: u32,
    /// Others could write to DIR itself until now.
    shared: bool,
    modes: Modes,
    changed: u64,
}

impl Walk {
    fn folder(&mut self, folder: &OwnedFd, path: &Path, depth: usize) -> Result<(), DirError> {
        let failed = |path: &Path, source| DirError::Io { path: path.to_owned(), what: "look at", source };
        for name in held::names(folder.as_fd()).map_err(|error| failed(path, error))? {
            let below = path.join(&name);
            let failed = |source: io::Error| failed(&below, source);
            let stat = match rustix::fs::statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
                // The process that serves goes on meanwhile.
                Err(Errno::NOENT) => continue,
                stat => stat.map_err(|error| failed(error.into()))?,
            };
            let kind = FileType::from_raw_mode(stat.st_mode);
            let is_socket = depth == 0 && name == "socket" && kind == FileType::Socket;
            self.refuse(&below, kind, &stat, is_socket)?;
            // What root has there (lost+found, say) root alone changes.
            if is_socket || stat.st_uid != self.owner {
                continue;
            }
            let mode = if kind == FileType::Directory { SUBDIRECTORY_MODE } else { FILE_MODE };
            if self.modes == Modes::Close && stat.st_mode & 0o7777 != mode {
                // It is no link, and only its owner could make one of it now.
                match rustix::fs::chmodat(folder, &name, Mode::from_raw_mode(mode), AtFlags::empty()) {
                    Err(Errno::NOENT) => continue,
                    changed => changed.map_err(|error| failed(error.into()))?,
                }
                self.changed += 1;
            }
            if kind == FileType::Directory && depth < DEPTH_MAX {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let inner = rustix::fs::openat(folder, &name, flags, Mode::empty());
                self.folder(&inner.map_err(|error| failed(error.into()))?, &below, depth + 1)?;
            }
        }
        Ok(())
    }

    /// Refuses what somebody else has put there, or may have written to.
    fn refuse(&self, path: &Path, kind: FileType, stat: &Stat, is_socket: bool) -> Result<(), DirError> {
        let refuse = |why: String| Err(DirError::Contents { path: path.to_owned(), why });
        if kind == FileType::Symlink {
            return refuse("is a symbolic link, and none is followed there: put what it names in its place".into());
        }
        if stat.st_uid != self.owner && stat.st_uid != 0 {
            return refuse(format!(
                "belongs to uid {}, neither to the owner of the directory (uid {}) nor to root: remove it, or give it to the owner \
                 if its contents are trusted",
                stat.st_uid, self.owner
            ));
        }
        if !is_socket && !matches!(kind, FileType::Directory | FileType::RegularFile) {
            return refuse("is neither a file nor a directory: remove it".into());
        }
        if !is_socket && stat.st_mode & OTHERS_WRITE != 0 {
            return refuse(format!(
                "has mode {:04o}: others than its owner may have written to it; remove it, or take that right away if its contents are \
                 trusted (chmod go-w)",
                stat.st_mode & 0o7777
            ));
        }
        if self.shared && kind == FileType::RegularFile && stat.st_nlink > 1 {
            return refuse("is a file with further names in a directory that others could write to: remove it".into());
        }
        Ok(())
    }
}
