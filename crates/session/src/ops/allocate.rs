//! fallocate: the data node reserves, frees or zeroes a range and tells the file's home, which answers, as for a write.
//!
//! The kernel has refused other modes, negative ranges, files that are none and descriptors that may not write, and has looked at the
//! process's file size limit. It does not say whether the caller may keep setuid and setgid: CAP_FSETID tells.

use crate::fs::{FsReply, FsResult, Handle};
use crate::op::Op;
use crate::ops::pages;
use crate::ops::stale::Refusals;
use crate::ops::write::{Changed, change_once, writable};
use bytes::Bytes;
use onpath_wire::data::{Allocation, DataRequest};
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::limits::FILE_BYTES_MAX;

/// FALLOC_FL_KEEP_SIZE.
const KEEP_SIZE: u32 = 1;
/// FALLOC_FL_PUNCH_HOLE, only with [`KEEP_SIZE`].
const PUNCH_HOLE: u32 = 2;
/// FALLOC_FL_ZERO_RANGE.
const ZERO_RANGE: u32 = 16;

/// What becomes of a range.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    pub(crate) how: Allocation,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// The file is at least so long afterwards.
    pub(crate) end: u64,
}

pub(crate) async fn allocate(op: &mut Op, handle: Handle, mode: u32, offset: u64, bytes: u64) -> FsResult {
    let id = writable(op, handle)?;
    let how = match mode & !KEEP_SIZE {
        0 => Allocation::Reserve,
        PUNCH_HOLE if mode & KEEP_SIZE != 0 => Allocation::Punch,
        ZERO_RANGE => Allocation::Zero,
        _ => return Err(Errno::EOPNOTSUPP),
    };
    let last = offset.checked_add(bytes).filter(|&end| end <= FILE_BYTES_MAX);
    let last = match last {
        _ if bytes == 0 => return Err(Errno::EINVAL),
        None => return Err(Errno::EFBIG),
        Some(last) => last,
    };
    let end = if mode & KEEP_SIZE != 0 { 0 } else { last };
    range(op, id, Range { how, offset, bytes, end }).await?;
    Ok(FsReply::Done)
}

/// Asks for it until what this session knows of the file is not stale.
pub(crate) async fn range(op: &mut Op, id: InodeId, range: Range) -> Result<(), Errno> {
    let Range { how, offset, bytes, end } = range;
    let kill_suidgid = !op.keeps_suid().await?;
    let mut refusals = Refusals::default();
    loop {
        let make = |data, cut| DataRequest::Allocate { data, cut, offset, bytes, how, end, kill_suidgid };
        pages::write_back_elsewhere(op, id).await?;
        match change_once(op, id, None, make, Bytes::new(), &mut refusals).await? {
            Changed::Done => return Ok(()),
            Changed::BesidePages { count } if refusals.by_pages(op, id, count).await? => return Ok(()),
            Changed::BesidePages { .. } | Changed::Stale | Changed::SourceStale => {}
        }
    }
}
