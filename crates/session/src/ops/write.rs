//! write: bytes go to the data node, which answers if it has the file's merge part, and else tells the file's home, which answers (design.md,
//! "Data"). A home or node that knows of
//! a newer generation or cut answers *stale*, and the bytes are written again under it. Over a chunk's end a write
//! goes in ascending order, the second part after the first is answered.
//!
//! O_APPEND: the home reserves the end of the file for one write; the merge of its bytes, or giving it back, ends the
//! reservation. Appends of this session to one file take turns, so that it never has two. An append is one message, even
//! over a chunk's end: its first part would end the reservation.

use crate::fs::{FsReply, FsResult, Handle};
use crate::op::{DataAnswer, Op, done};
use crate::ops::read::parts;
use crate::ops::stale::Refusals;
use crate::ops::{exact, pages};
use crate::state::{Job, State, WaitKey};
use bytes::Bytes;
use onpath_kernel::Core;
use onpath_wire::data::{DataReply, DataRequest, MergePart};
use onpath_wire::errno::Errno;
use onpath_wire::ids::{DataId, InodeId, RecordSeq};
use onpath_wire::limits::{FILE_BYTES_MAX, IO_BYTES_MAX};
use onpath_wire::reply::Reply;
use onpath_wire::request::Request;

/// Where a write goes.
#[derive(Clone, Copy)]
pub(crate) enum At {
    Offset(u64),
    /// Wherever the file ends then.
    End,
}

/// How it is written.
#[derive(Clone, Copy)]
pub(crate) struct How {
    pub(crate) kill_suidgid: bool,
    pub(crate) append: bool,
    /// A page that was changed in memory: it comes late, and over what others write.
    pub(crate) page: bool,
}

/// Writes at an offset, or at the end of the file.
pub(crate) async fn write(op: &mut Op, handle: Handle, at: At, data: Bytes, mut how: How) -> FsResult {
    let id = writable(op, handle)?;
    how.kill_suidgid |= op.with(|core| core.state.always_kills());
    if data.len() > IO_BYTES_MAX {
        return Err(Errno::EINVAL);
    }
    let n = match at {
        At::End => append(op, id, data, how).await?,
        At::Offset(offset) => write_all(op, id, offset, data, how).await?,
    };
    Ok(FsReply::Written(n as u32))
}

/// What of `data` fits below the largest size of a file.
fn fit(offset: u64, data: Bytes) -> Result<Bytes, Errno> {
    match FILE_BYTES_MAX.saturating_sub(offset) {
        0 => Err(Errno::EFBIG),
        room => Ok(data.slice(..data.len().min(room as usize))),
    }
}

/// Writes part after part; after the first one an error only shortens the write.
async fn write_all(op: &mut Op, id: InodeId, offset: u64, data: Bytes, how: How) -> Result<usize, Errno> {
    if data.is_empty() {
        return Ok(0);
    }
    let data = fit(offset, data)?;
    let mut written = 0;
    for (at, n) in parts(offset, data.len() as u64) {
        let part = data.slice(written..written + n as usize);
        match write_part(op, id, at, part, how).await {
            Ok(()) => written += n as usize,
            Err(errno) if written == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(written)
}

/// Writes what is within one chunk of a file.
pub(crate) async fn write_part(op: &mut Op, id: InodeId, offset: u64, part: Bytes, how: How) -> Result<(), Errno> {
    let mut refusals = Refusals::default();
    loop {
        match how.page {
            true => op.with(|core| pages::writes(core, id)),
            false => pages::write_back_elsewhere(op, id).await?,
        }
        match write_once(op, id, offset, part.clone(), how, &mut refusals).await? {
            Changed::Done => return Ok(()),
            Changed::BesidePages { .. } if how.page => return Ok(()),
            Changed::BesidePages { count } if refusals.by_pages(op, id, count).await? => return Ok(()),
            Changed::BesidePages { .. } | Changed::Stale | Changed::SourceStale => {}
        }
    }
}

/// Writes under what this session knows of the file's bytes.
async fn write_once(
    op: &mut Op,
    id: InodeId,
    offset: u64,
    part: Bytes,
    how: How,
    refusals: &mut Refusals,
) -> Result<Changed, Errno> {
    let How { kill_suidgid, append, .. } = how;
    let merge_part = op.with(|core| core.state.opens.inode(id).and_then(|inode| inode.part.as_deref().copied()));
    let make = |data, cut| DataRequest::Write { data, cut, offset, kill_suidgid, append, part: merge_part };
    let end = (!append).then(|| offset + part.len() as u64);
    change_once(op, id, end, make, part, refusals).await
}

/// How a change of a file ended that was asked for once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changed {
    Done,
    /// It is done, but others may have changed pages of the file in memory, which they write back over it.
    BesidePages {
        /// How often pages had been written back at its home.
        count: u64,
    },
    /// What this session knew of the file's bytes was stale; now it knows better.
    Stale,
    /// What it knew of the source of a copy was stale.
    SourceStale,
}

/// Asks the data node for a change under what this session knows of the file's bytes; the file's home answers. A write that
/// is no append says where it ends.
pub(crate) async fn change_once(
    op: &mut Op,
    id: InodeId,
    end: Option<u64>,
    make: impl FnOnce(DataId, u32) -> DataRequest,
    bulk: Bytes,
    refusals: &mut Refusals,
) -> Result<Changed, Errno> {
    let changed = |core: &mut Core<State>| {
        core.state.opens.inode(id).map(|inode| {
            inode.fresh = None;
            inode.data
        })
    };
    let (data, grows) =
        op.with(|core| changed(core).map(|data| (data, exact::begin_write(core, id, end)))).ok_or(Errno::EBADF)?;
    let request = make(DataId { inode: id, generation: data.generation }, data.cut);
    let answered = op.ask_data(id, request, bulk).await;
    op.with(|core| {
        let size = match answered {
            Ok(DataAnswer::Home(Reply::Written { size } | Reply::WrittenBesidePages { size, .. })) => Some(size),
            Ok(DataAnswer::Home(Reply::WrittenLent { size, part })) => {
                // Answers to writes that are under way together come in any order.
                if let Some(inode) = core.state.opens.inode(id) {
                    let had = inode.part.as_deref().copied().unwrap_or_default();
                    inode.part = Some(Box::new(MergePart { stamp: part.stamp.max(had.stamp), ..part.max(had) }));
                }
                Some(size)
            }
            // The data node has the file's merge part, and does not know its size: it is at least this.
            Ok(DataAnswer::Node(DataReply::Written { record }, _)) => {
                let node = core.state.config.map.data(id);
                if record > RecordSeq(0) {
                    core.state.unsynced.note(id, node, record);
                }
                if let Some((inode, end)) = core.state.opens.inode(id).filter(|inode| inode.data == data).zip(end) {
                    inode.answered_end = end.max(inode.answered_end);
                }
                end
            }
            _ => None,
        };
        exact::end_write(core, id, grows, size);
        changed(core);
    });
    match answered? {
        DataAnswer::Home(Reply::Written { .. } | Reply::WrittenLent { .. }) => Ok(Changed::Done),
        DataAnswer::Node(DataReply::Written { .. }, _) => Ok(Changed::Done),
        DataAnswer::Home(Reply::WrittenBesidePages { count, .. }) => Ok(Changed::BesidePages { count }),
        DataAnswer::Home(Reply::Stale { data }) => {
            op.with(|core| core.state.learn(id, data));
            refusals.by_home()?;
            Ok(Changed::Stale)
        }
        DataAnswer::Node(DataReply::Stale, _) => {
            refusals.by_node(op, id, data).await?;
            Ok(Changed::Stale)
        }
        DataAnswer::Node(DataReply::SourceStale, _) => Ok(Changed::SourceStale),
        _ => Err(Errno::EIO),
    }
}

/// The inode of a handle that may be written through.
pub(crate) fn writable(op: &Op, handle: Handle) -> Result<InodeId, Errno> {
    op.with(|core| match core.state.opens.get(handle)? {
        open if open.directory || !open.mode.write => Err(Errno::EBADF),
        open => Ok(open.id),
    })
}

/// One reservation and the bytes written under it.
async fn append(op: &mut Op, id: InodeId, data: Bytes, how: How) -> Result<usize, Errno> {
    if data.is_empty() {
        return Ok(0);
    }
    let turn = WaitKey::AppendTurn(id);
    op.take_turn(turn).await?;
    let result = append_in_turn(op, id, data, how).await;
    if result.is_ok() {
        op.end_turn(turn);
    } else {
        // The reservation may be there: nobody appends before it is given back.
        op.with(|core| core.start(Job::Unreserve { id }));
    }
    result
}

async fn append_in_turn(op: &mut Op, id: InodeId, data: Bytes, how: How) -> Result<usize, Errno> {
    let mut refusals = Refusals::default();
    loop {
        let Reply::Reserved { offset, data: place } = op.ask(Request::Reserve { id }).await? else {
            return Err(Errno::EIO);
        };
        op.with(|core| core.state.learn(id, place));
        let part = fit(offset, data.clone())?;
        let n = part.len();
        match write_once(op, id, offset, part.clone(), how, &mut refusals).await? {
            Changed::Done => return Ok(n),
            // It has its place.
            Changed::BesidePages { count } => {
                if pages::lie_over(op, id, count).await? {
                    write_part(op, id, offset, part, How { append: false, ..how }).await?;
                }
                return Ok(n);
            }
            Changed::Stale | Changed::SourceStale => {}
        }
        // The file was truncated meanwhile: its end is elsewhere.
        done(op.ask(Request::Unreserve { id }).await?)?;
    }
}

/// Gives a reservation back that may be there, however long that takes; then the next append has its turn.
pub(crate) async fn unreserve(op: &mut Op, id: InodeId) {
    // A refusal means that there is none.
    let _ = op.ask(Request::Unreserve { id }).await;
    op.end_turn(WaitKey::AppendTurn(id));
}
