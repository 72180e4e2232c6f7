//! Pages that the mount keeps in memory and that may be changed there, through a shared mapping (protocol.md, "Pages in memory").
//!
//! The home of a file knows which sessions may have changed pages of it: those that have it open for reading and writing, as only that can be
//! mapped and changed. Before another session changes bytes of the file, they are asked to write back. Then the mount has no page of the
//! file any more, and the next one is read only when the home knows that it may be changed again.
//!
//! The kernel writes a page back only when nobody reads it, so that a page that is read meanwhile is let through, and the
//! file written back once more.

use crate::op::{Op, done};
use crate::ops::alone;
use crate::session::SessionOut;
use crate::state::{Job, State, WaitKey};
use onpath_kernel::Core;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::reply::Reply;
use onpath_wire::request::{Request, open};

/// What the home believes of the pages that the mount has of an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pages {
    /// None is changed in memory.
    #[default]
    Unchanged,
    /// It is being told that some may be changed; `wanted`: it has asked for them since.
    Mapping { wanted: bool },
    /// Some may be changed.
    Changed,
    /// It has asked for them, and the mount writes them back; `again`: one was read since that began.
    WritingBack { again: bool },
    /// They are written back, of which it is being told.
    Telling,
}

/// What an open tells that registers the inode again: its home does not know what others have, and this session does not either.
pub(crate) fn again(core: &mut Core<State>, id: InodeId) -> u32 {
    let Some(inode) = core.state.opens.inode(id) else { return 0 };
    inode.beside_pages = true;
    if inode.ever_wrote_pages {
        // The count of before is gone, by which others know that it has.
        inode.wrote_pages = true;
        if inode.pages == Pages::Unchanged {
            inode.pages = Pages::Changed;
        }
    }
    match inode.pages {
        Pages::Unchanged | Pages::Telling => 0,
        Pages::Mapping { .. } | Pages::Changed | Pages::WritingBack { .. } => open::MAP,
    }
}

/// An open for reading and writing is about to be asked for.
pub(crate) fn begin_open(core: &mut Core<State>, id: InodeId) {
    if let Some(inode) = core.state.opens.inode(id) {
        inode.mappers += 1;
        if inode.pages == Pages::Unchanged {
            inode.pages = Pages::Changed;
        }
    }
}

/// It has failed.
pub(crate) fn end_open(core: &mut Core<State>, id: InodeId) {
    if let Some(inode) = core.state.opens.inode(id) {
        inode.mappers -= 1;
    }
}

/// A page is about to be read that may be changed in memory.
pub(crate) async fn read(op: &mut Op, id: InodeId) -> Result<(), Errno> {
    let key = WaitKey::Pages(id);
    let tells = op.wait(key, |core| {
        let Some(inode) = core.state.opens.inode(id).filter(|inode| inode.mappers > 0) else { return Some(false) };
        match &mut inode.pages {
            Pages::Changed => Some(false),
            Pages::WritingBack { again } => {
                *again = true;
                Some(false)
            }
            pages @ Pages::Unchanged => {
                *pages = Pages::Mapping { wanted: false };
                Some(true)
            }
            Pages::Mapping { .. } | Pages::Telling => None,
        }
    });
    if !tells.await? {
        return Ok(());
    }
    let told = op.ask(Request::Map { id }).await.and_then(done);
    op.with(|core| {
        core.wake(key.hash());
        let Some(inode) = core.state.opens.inode(id) else { return };
        let Pages::Mapping { wanted } = inode.pages else { return };
        // Without an answer the home may believe either; then the page is not read.
        inode.pages = if told.is_ok() { Pages::Changed } else { Pages::Unchanged };
        if wanted && told.is_ok() {
            inode.pages = Pages::WritingBack { again: true }; // by the read that begins now
            core.emit(SessionOut::WriteBack { id });
        }
    });
    told
}

/// Another session is about to change bytes of a file.
pub(crate) fn asked(core: &mut Core<State>, id: InodeId) {
    // What is closed has no pages in memory, as its home is told.
    let Some(inode) = core.state.opens.inode(id) else { return };
    match &mut inode.pages {
        pages @ Pages::Unchanged => {
            *pages = Pages::Telling;
            core.start(Job::WrittenBack { id, wrote: false });
        }
        pages @ Pages::Changed => {
            *pages = Pages::WritingBack { again: false };
            core.emit(SessionOut::WriteBack { id });
        }
        Pages::Mapping { wanted } => *wanted = true,
        Pages::WritingBack { .. } | Pages::Telling => {}
    }
}

/// The mount has written back, and forgotten, the pages that it had.
pub(crate) fn written_back(core: &mut Core<State>, id: InodeId) {
    let Some(inode) = core.state.opens.inode(id) else { return };
    match inode.pages {
        Pages::WritingBack { again: true } => {
            inode.pages = Pages::WritingBack { again: false };
            core.emit(SessionOut::WriteBack { id });
        }
        Pages::WritingBack { again: false } => {
            inode.pages = Pages::Telling;
            let wrote = std::mem::take(&mut inode.wrote_pages);
            core.start(Job::WrittenBack { id, wrote });
        }
        _ => {}
    }
}

/// Tells the home so.
pub(crate) async fn tell(op: &mut Op, id: InodeId, wrote: bool) {
    // Without an answer it asks again.
    let _ = op.ask(Request::WrittenBack { id, wrote }).await;
    op.with(|core| {
        if let Some(inode) = core.state.opens.inode(id).filter(|inode| inode.pages == Pages::Telling) {
            inode.pages = Pages::Unchanged;
        }
        core.wake(WaitKey::Pages(id).hash());
    });
}

/// A page that was changed in memory is about to be written.
pub(crate) fn writes(core: &mut Core<State>, id: InodeId) {
    if let Some(inode) = core.state.opens.inode(id) {
        (inode.wrote_pages, inode.ever_wrote_pages) = (true, true);
    }
}

/// Bytes of a file are about to be changed: what others may have changed in memory is written back before, if they may have.
pub(crate) async fn write_back_elsewhere(op: &mut Op, id: InodeId) -> Result<(), Errno> {
    let may_have = |core: &mut Core<State>| {
        !alone::is_alone(core) && core.state.opens.inode(id).is_some_and(|inode| inode.beside_pages)
    };
    if op.with(may_have) {
        write_back(op, id, None).await?;
    }
    Ok(())
}

/// Bytes were changed while others may have changed pages in memory: whether these may lie over them now. `count`: how often pages had been
/// written back then.
pub(crate) async fn lie_over(op: &mut Op, id: InodeId, count: u64) -> Result<bool, Errno> {
    write_back(op, id, Some(count)).await
}

async fn write_back(op: &mut Op, id: InodeId, changed_at: Option<u64>) -> Result<bool, Errno> {
    let request = Request::WriteBack { id, changed_at };
    let Reply::PagesBack { again } = op.ask(request).await? else { return Err(Errno::EIO) };
    op.with(|core| {
        if let Some(inode) = core.state.opens.inode(id) {
            inode.beside_pages = false;
        }
    });
    Ok(again)
}
