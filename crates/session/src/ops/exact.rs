//! What a session that is alone knows of its open files, so that a read asks the data node and nobody else (R-21; protocol.md, "Alone").
//!
//! What a home has said of a file counts as long as nobody else is in the file system and no server has restarted, until this session
//! begins what may change it. It is kept only if nothing of that kind was under way while it was asked. A read that begins with it is
//! one that has asked in that moment: what comes later, another session too, is concurrent.
//!
//! A write that ends within the size leaves what is known but for the times, and the answer to one that goes beyond it tells the size.
//! Until that answer somebody else may have been shown the new size, so that reads ask.

use crate::opens::{Exact, Known, OpenInode};
use crate::ops::alone;
use crate::state::State;
use onpath_kernel::Core;
use onpath_wire::ids::InodeId;
use onpath_wire::request::describe::{self, Description};

/// Since when what is known counts, and what is under way.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// What was learned in an earlier one is void.
    era: u64,
    restarts: u64,
    /// Requests under way that may change what is known of a file.
    requests: u32,
    /// Changes of bytes under way.
    writes: u32,
    /// Changes of bytes are under way that began before a restart: it may have taken what they were judged by.
    unsettled: bool,
    /// Begun and ended, all together.
    count: u64,
}

/// When a home was asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    era: u64,
    count: u64,
}

/// What a request to a home may change of what is known of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touched {
    Nothing,
    File(InodeId),
    /// Of a file that the request does not name.
    Any,
}

/// What a request may change; its time of change counts, as access times follow it.
pub(crate) fn touched(what: &Description<'_>) -> Touched {
    const OF_FILE: describe::Changes = describe::Changes::ATTRIBUTES.and(describe::Changes::RESERVES);
    match what.about.inode().filter(|_| what.changes.has(OF_FILE)) {
        _ if what.changes.has(describe::Changes::OTHERS) => Touched::Any,
        Some(id) => Touched::File(id),
        None => Touched::Nothing,
    }
}

/// Everything that is known is void.
pub(crate) fn forget(core: &mut Core<State>) {
    core.state.changes.era += 1;
}

/// A server has restarted.
pub(crate) fn restarted(core: &mut Core<State>) {
    let changes = &mut core.state.changes;
    (changes.era, changes.restarts) = (changes.era + 1, changes.restarts + 1);
    changes.unsettled |= changes.writes > 0;
}

/// How often a server was found restarted.
pub(crate) fn restarts(core: &Core<State>) -> u64 {
    core.state.changes.restarts
}

/// What is known of a file, if that is exact now.
pub(crate) fn known(core: &mut Core<State>, id: InodeId) -> Option<Known> {
    if !alone::is_alone(core) {
        return None;
    }
    let era = core.state.changes.era;
    let inode = core.state.opens.inode(id).filter(|inode| inode.growing == 0)?;
    let Exact { size, atime, mtime, ctime, .. } = inode.exact.filter(|exact| exact.era == era)?;
    Some(Known { data: inode.data, size, atime, mtime, ctime })
}

/// A home is about to be asked about a file.
pub(crate) fn ask(core: &Core<State>) -> Option<Asked> {
    let Changes { era, requests, unsettled, count, .. } = core.state.changes;
    (alone::is_alone(core) && requests == 0 && !unsettled).then_some(Asked { era, count })
}

/// It has answered.
pub(crate) fn answered(core: &mut Core<State>, id: InodeId, asked: Option<Asked>, known: Known) {
    let Changes { era, count, .. } = core.state.changes;
    let counts = asked.is_some_and(|asked| (asked.era, asked.count) == (era, count)) && alone::is_alone(core);
    let Known { data, size, atime, mtime, ctime } = known;
    let fits = |inode: &&mut OpenInode| counts && inode.growing == 0 && inode.data == data;
    if let Some(inode) = core.state.opens.inode(id).filter(fits) {
        inode.exact = Some(Exact { era, size, atime, mtime, ctime });
    }
}

/// A request to a home begins.
pub(crate) fn begin_request(core: &mut Core<State>, touched: Touched) {
    match touched {
        Touched::Nothing => return,
        Touched::File(id) => {
            if let Some(inode) = core.state.opens.inode(id) {
                inode.exact = None;
            }
        }
        Touched::Any => forget(core),
    }
    core.state.changes.requests += 1;
    core.state.changes.count += 1;
}

/// It has ended.
pub(crate) fn end_request(core: &mut Core<State>, touched: Touched) {
    if touched != Touched::Nothing {
        core.state.changes.requests -= 1;
        core.state.changes.count += 1;
    }
}

/// A change of a file's bytes begins; a write says where it ends. True if the file may be longer afterwards.
pub(crate) fn begin_write(core: &mut Core<State>, id: InodeId, end: Option<u64>) -> bool {
    let changes = &mut core.state.changes;
    changes.writes += 1;
    let era = changes.era;
    let Some(inode) = core.state.opens.inode(id) else { return false };
    let size = inode.exact.filter(|exact| exact.era == era).map(|exact| exact.size);
    let grows = end.is_none_or(|end| size.is_none_or(|size| end > size));
    inode.growing += u32::from(grows);
    grows
}

/// It has ended, with the file's size if it was done.
pub(crate) fn end_write(core: &mut Core<State>, id: InodeId, grows: bool, size: Option<u64>) {
    let changes = &mut core.state.changes;
    changes.writes -= 1;
    changes.unsettled &= changes.writes > 0;
    changes.count += 1;
    let now = core.state.last_stamp() as i64;
    let Some(inode) = core.state.opens.inode(id) else { return };
    inode.growing -= u32::from(grows);
    match (&mut inode.exact, size) {
        (Some(exact), Some(size)) => {
            exact.size = exact.size.max(size);
            // Later than the home's time of change, by which only the access time is judged.
            (exact.mtime, exact.ctime) = (now, now);
        }
        _ => inode.exact = None,
    }
}
