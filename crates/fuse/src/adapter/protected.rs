//! fs.protected_symlinks and its like ([`onpath_session::protected`]) for mounts. The kernel does not see the sticky bit of a directory whose permissions
//! it does not decide, so `may_follow_link` and `may_create_in_sticky` pass everything: it is decided here when the name is looked up.

use std::sync::atomic::{AtomicU64, Ordering};

use onpath_session::fs::{FsReply, FsResult};
use onpath_session::protected::{Levels, STICKY};
use onpath_wire::attr::{AttrWire, flag};
use onpath_wire::inode::Kind;

use super::caching::now_us;
use super::caller;

/// How long a setting counts that was read.
const READ_AGAIN_US: u64 = 100_000;

/// The settings of this host as they are now, or were a moment ago.
pub(super) fn levels() -> Levels {
    static LEVELS: AtomicU64 = AtomicU64::new(0);
    static READ_US: AtomicU64 = AtomicU64::new(0);
    let now_us = now_us();
    let mut bytes = LEVELS.load(Ordering::Acquire);
    if bytes == 0 || now_us.saturating_sub(READ_US.load(Ordering::Acquire)) > READ_AGAIN_US {
        let Levels { symlinks, regular, fifos, hardlinks } = Levels::read(|file| std::fs::read_to_string(file).ok());
        // The last byte tells that they were read.
        bytes = u64::from_le_bytes([symlinks, regular, fifos, hardlinks, 0, 0, 0, 1]);
        LEVELS.store(bytes, Ordering::Release);
        READ_US.store(now_us, Ordering::Release);
    }
    let [symlinks, regular, fifos, hardlinks, ..] = bytes.to_le_bytes();
    Levels { symlinks, regular, fifos, hardlinks }
}

/// Whether what a name leads to depends on who looks: such names are not cached.
pub(super) fn depends(attr: &AttrWire) -> bool {
    match attr.kind {
        Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => true,
        _ => attr.flags & STICKY != 0 && levels().keeps(attr),
    }
}

/// Where the kernel decides about permissions, it sees the sticky bit, and asks itself who may open a FIFO or a device, or connect to a socket: there
/// is one node for all.
pub(super) fn leave_to_kernel(result: &mut FsResult) {
    if let Ok(FsReply::Entry(attr)) = result {
        attr.flags &= !(STICKY | flag::APART);
    }
}

/// Whether [`question`] has to look at this answer.
pub(super) fn matters(result: &FsResult) -> bool {
    match result {
        Ok(FsReply::Entry(attr)) => attr.flags & STICKY != 0,
        Ok(FsReply::Target(_)) => true,
        _ => false,
    }
}

/// What an answer depends on: the system call of who asks for it, which is refused (EACCES) if this says so.
pub(super) type Refused = fn(&str) -> bool;

/// Who looks a name up, with this uid, gets another node of a symlink that is not to be followed, and nothing by an open(2) with O_CREAT; who
/// has that node (`apart`) may only read the link.
pub(super) fn question(result: &mut FsResult, uid: u32, apart: bool) -> Option<Refused> {
    match result {
        Ok(FsReply::Target(_)) if apart => Some(|call| !caller::is_readlink(call)),
        Ok(FsReply::Entry(attr)) if uid != attr.uid && attr.flags & STICKY != 0 && levels().keeps(attr) => {
            if attr.kind != Kind::Symlink {
                return Some(caller::has_creating_call);
            }
            attr.flags |= flag::APART;
            None
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_those_of_the_host() {
        assert_eq!(levels(), Levels::read(|file| std::fs::read_to_string(file).ok()));
    }
}
