//! Operations that make, find and remove names.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid};
use rustix::io::Errno;

use super::FloorFs;
use super::attributes::attr;
use super::table::NodeId;
use crate::reply::{Entry, Opened, Replier};
use crate::request::{Header, Operation};

const S_ISGID: u32 = 0o2000;

/// What of open(2)'s flags reaches the file below: neither creation, nor O_DIRECT (the file below has other rules of
/// alignment), nor kernel-internal bits.
pub(super) fn open_flags(flags: u32) -> OFlags {
    let passed = OFlags::ACCMODE | OFlags::TRUNC | OFlags::APPEND | OFlags::SYNC | OFlags::NOATIME;
    (OFlags::from_bits_retain(flags) & passed) | OFlags::CLOEXEC | OFlags::NOFOLLOW
}

fn entry(node: NodeId, stat: &Stat) -> Entry {
    Entry {
        nodeid: node.id,
        generation: node.generation,
        attr: attr(stat),
        entry_valid: Duration::ZERO,
        attr_valid: Duration::ZERO,
    }
}

/// New objects belong to the caller, and to the directory's group where the directory says so.
fn give_to_caller(header: &Header, parent: &OwnedFd, path: impl AsFd, name: &CStr) -> Result<(), Errno> {
    if header.uid == 0 && header.gid == 0 {
        return Ok(());
    }
    let inherits = rustix::fs::fstat(parent)?.st_mode & S_ISGID != 0;
    let gid = (!inherits).then(|| Gid::from_raw(header.gid));
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
    rustix::fs::chownat(path, name, Some(Uid::from_raw(header.uid)), gid, flags)
}

impl FloorFs {
    pub(super) fn entry_operation(&self, header: &Header, operation: &Operation<'_>, replier: Replier) {
        let result = match *operation {
            Operation::Lookup { name } => self.lookup(header.nodeid, name),
            Operation::Link { inode, name } => self.link(header.nodeid, inode, name),
            Operation::Create { name, flags, mode, umask, .. } => {
                return match self.create(header, name, flags, mode & !umask) {
                    Ok((entry, opened)) => replier.created(&entry, &opened),
                    Err(errno) => replier.error(errno),
                };
            }
            Operation::Tmpfile { flags, mode, umask } => {
                return match self.tmpfile(header, flags, mode & !umask) {
                    Ok((entry, opened)) => replier.created(&entry, &opened),
                    Err(errno) => replier.error(errno),
                };
            }
            _ => self.make(header, operation),
        };
        match result {
            Ok(entry) => replier.entry(&entry),
            Err(errno) => replier.error(errno),
        }
    }

    fn lookup(&self, parent: u64, name: &CStr) -> Result<Entry, Errno> {
        let stat = rustix::fs::statat(self.nodes.directory(parent)?, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(entry(self.nodes.found(&stat, parent, name), &stat))
    }

    /// MKDIR, MKNOD, SYMLINK.
    fn make(&self, header: &Header, operation: &Operation<'_>) -> Result<Entry, Errno> {
        let parent = self.nodes.directory(header.nodeid)?;
        let name = match *operation {
            Operation::Mkdir { name, mode, umask } => {
                rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(mode & !umask))?;
                name
            }
            Operation::Mknod { name, mode, umask, device } => {
                let mode = mode & !umask;
                let kind = FileType::from_raw_mode(mode);
                rustix::fs::mknodat(&parent, name, kind, Mode::from_raw_mode(mode), u64::from(device))?;
                name
            }
            Operation::Symlink { name, target } => {
                rustix::fs::symlinkat(target, &parent, name)?;
                name
            }
            _ => return Err(Errno::NOSYS),
        };
        give_to_caller(header, &parent, &parent, name)?;
        self.lookup(header.nodeid, name)
    }

    fn create(&self, header: &Header, name: &CStr, flags: u32, mode: u32) -> Result<(Entry, Opened), Errno> {
        let parent = self.nodes.directory(header.nodeid)?;
        let passed = open_flags(flags);
        let mode = Mode::from_raw_mode(mode);
        let exclusive = rustix::fs::openat(&parent, name, passed | OFlags::CREATE | OFlags::EXCL, mode);
        let descriptor = match exclusive {
            Err(Errno::EXIST) if flags & OFlags::EXCL.bits() == 0 => {
                rustix::fs::openat(&parent, name, passed | OFlags::CREATE, mode)?
            }
            result => {
                let descriptor = result?;
                give_to_caller(header, &parent, &descriptor, c"")?;
                descriptor
            }
        };
        self.opened_entry(header.nodeid, name, descriptor)
    }

    fn tmpfile(&self, header: &Header, flags: u32, mode: u32) -> Result<(Entry, Opened), Errno> {
        let parent = self.nodes.directory(header.nodeid)?;
        let exclusive = OFlags::from_bits_retain(flags) & OFlags::EXCL;
        let passed = open_flags(flags) | OFlags::TMPFILE | exclusive;
        let descriptor = rustix::fs::openat(&parent, c".", passed, Mode::from_raw_mode(mode))?;
        give_to_caller(header, &parent, &descriptor, c"")?;
        // Reached by its handle only, until it gets a name.
        self.opened_entry(header.nodeid, c"", descriptor)
    }

    /// Every close is told, as in any file system that has record locks.
    fn opened_entry(&self, parent: u64, name: &CStr, file: OwnedFd) -> Result<(Entry, Opened), Errno> {
        let stat = rustix::fs::fstat(&file)?;
        let file = Arc::new(file);
        let node = self.nodes.found_open(&stat, parent, name, Arc::clone(&file));
        let handle = self.files.insert(file);
        Ok((entry(node, &stat), Opened { handle, flags: 0 }))
    }

    fn link(&self, parent: u64, inode: u64, name: &CStr) -> Result<Entry, Errno> {
        let place = self.nodes.place(inode)?;
        let (directory, old_name, flags) = place.at();
        rustix::fs::linkat(directory, old_name, self.nodes.directory(parent)?, name, flags & AtFlags::EMPTY_PATH)?;
        self.lookup(parent, name)
    }

    pub(super) fn remove(&self, parent: u64, name: &CStr, directory: bool) -> Result<(), Errno> {
        let flags = if directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(self.nodes.directory(parent)?, name, flags)
    }

    pub(super) fn rename(&self, from: u64, name: &CStr, to: u64, new_name: &CStr, flags: u32) -> Result<(), Errno> {
        let (from_directory, to_directory) = (self.nodes.directory(from)?, self.nodes.directory(to)?);
        let flags = RenameFlags::from_bits_retain(flags);
        rustix::fs::renameat_with(&from_directory, name, &to_directory, new_name, flags)?;
        // Programs that hold the directory moved, or a file in it, do not look its name up again.
        if let Ok(stat) = rustix::fs::statat(&to_directory, new_name, AtFlags::SYMLINK_NOFOLLOW) {
            self.nodes.moved(&stat, to, new_name);
        }
        if flags.contains(RenameFlags::EXCHANGE)
            && let Ok(stat) = rustix::fs::statat(&from_directory, name, AtFlags::SYMLINK_NOFOLLOW)
        {
            self.nodes.moved(&stat, from, name);
        }
        Ok(())
    }
}
