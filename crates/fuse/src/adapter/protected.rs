//! What proc(5) calls protected_symlinks, protected_regular, protected_fifos and protected_hardlinks. The kernel does not see the sticky bit of
//! a directory whose permissions it does not decide, so `may_follow_link` and `may_create_in_sticky` pass everything. The shard says of a name
//! whether its directory is one of those that matter; the rest is decided here, as this host has it set, when the name is looked up.

use std::sync::atomic::{AtomicU64, Ordering};

use onpath_session::fs::{FsReply, FsResult};
use onpath_wire::attr::{AttrWire, flag};
use onpath_wire::errno::Errno;
use onpath_wire::inode::Kind;

use super::caching::now_us;
use super::caller;

/// How long a setting counts that was read.
const READ_AGAIN_US: u64 = 100_000;
/// Flags of names that may be protected.
const STICKY: u8 = flag::STICKY_FOR_ALL | flag::STICKY_FOR_GROUP;
const NAMES: [&str; 4] = ["symlinks", "regular", "fifos", "hardlinks"];

/// The settings of this host: 0 is off, 1 on, 2 in directories that a group may write as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Levels {
    symlinks: u8,
    regular: u8,
    fifos: u8,
    hardlinks: u8,
}

impl Levels {
    /// As they are now, or were a moment ago.
    pub(super) fn now() -> Levels {
        static LEVELS: AtomicU64 = AtomicU64::new(0);
        static READ_US: AtomicU64 = AtomicU64::new(0);
        let now_us = now_us();
        let mut bytes = LEVELS.load(Ordering::Acquire);
        if bytes == 0 || now_us.saturating_sub(READ_US.load(Ordering::Acquire)) > READ_AGAIN_US {
            bytes = u64::from_le_bytes(Levels::read().bytes());
            LEVELS.store(bytes, Ordering::Release);
            READ_US.store(now_us, Ordering::Release);
        }
        let [symlinks, regular, fifos, hardlinks, ..] = bytes.to_le_bytes();
        Levels { symlinks, regular, fifos, hardlinks }
    }

    /// The last byte tells that they were read.
    fn bytes(self) -> [u8; 8] {
        [self.symlinks, self.regular, self.fifos, self.hardlinks, 0, 0, 0, 1]
    }

    /// What cannot be read counts as on.
    fn read() -> Levels {
        let level = |name| {
            let text = std::fs::read_to_string(format!("/proc/sys/fs/protected_{name}"));
            text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(1)
        };
        let [symlinks, regular, fifos, hardlinks] = NAMES.map(level);
        Levels { symlinks, regular, fifos, hardlinks }
    }

    /// Whether somebody else's files get no further names.
    pub(super) fn keeps_links(self) -> bool {
        self.hardlinks != 0
    }

    /// Whether who does not own an inode found by name is kept from it.
    fn keeps(self, attr: &AttrWire) -> bool {
        let level = match attr.kind {
            Kind::Symlink => self.symlinks.min(1),
            Kind::File => self.regular,
            Kind::Fifo => self.fifos,
            _ => 0,
        };
        attr.flags & flag::STICKY_FOR_ALL != 0 && level > 0 || attr.flags & flag::STICKY_FOR_GROUP != 0 && level > 1
    }
}

/// Whether what a name leads to depends on who looks: such names are not cached.
pub(super) fn depends(attr: &AttrWire) -> bool {
    match attr.kind {
        Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => true,
        _ => attr.flags & STICKY != 0 && Levels::now().keeps(attr),
    }
}

/// Where the kernel decides about permissions, it sees the sticky bit, and asks itself who may open a FIFO or a device, or connect to a socket: there
/// is one node for all.
pub(super) fn leave_to_kernel(result: &mut FsResult) {
    if let Ok(FsReply::Entry(attr)) = result {
        attr.flags &= !(STICKY | flag::APART);
    }
}

/// Whether [`decide`] has to look at this answer.
pub(super) fn matters(result: &FsResult) -> bool {
    matches!(result, Ok(FsReply::Entry(attr)) if attr.flags & STICKY != 0)
}

/// The answer for who has looked a name up: another node of a symlink that is not to be followed, EACCES for an open(2) with O_CREAT.
pub(super) fn decide(result: &mut FsResult, uid: u32, pid: u32) {
    let Ok(FsReply::Entry(attr)) = result else { return };
    if uid == attr.uid || !Levels::now().keeps(attr) {
        return;
    }
    if attr.kind == Kind::Symlink {
        attr.flags |= flag::APART;
    } else if caller::creates(pid) {
        *result = Err(Errno::EACCES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::disk::inode::Inode;
    use onpath_wire::ids::InodeId;

    #[test]
    fn the_level_and_the_directory_decide() {
        let levels = |level| Levels { symlinks: level, regular: level, fifos: level, hardlinks: level };
        for (kind, flags, from) in [
            (Kind::Symlink, flag::STICKY_FOR_ALL, 1),
            (Kind::File, flag::STICKY_FOR_ALL, 1),
            (Kind::Fifo, flag::STICKY_FOR_ALL, 1),
            (Kind::File, flag::STICKY_FOR_GROUP, 2),
            (Kind::Fifo, flag::STICKY_FOR_GROUP, 2),
            (Kind::Symlink, flag::STICKY_FOR_GROUP, 3),
            (Kind::Directory, flag::STICKY_FOR_ALL, 3),
            (Kind::File, flag::SEARCHABLE, 3),
        ] {
            let attr = AttrWire { flags, ..AttrWire::of(&Inode::new(InodeId(9), kind)) };
            for level in 0..3 {
                assert_eq!(levels(level).keeps(&attr), level >= from, "{kind:?} {flags} {level}");
            }
        }
    }

    #[test]
    fn settings_are_those_of_the_host() {
        let now = Levels::now();
        assert_eq!(now, Levels::read());
        assert_eq!(now.bytes()[7], 1);
    }
}
