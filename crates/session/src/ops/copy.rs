//! copy_file_range: the data node copies its own bytes, none come here (design.md, "Data").
//!
//! Piece by piece in ascending order: data is copied, no piece over a chunk's end of the destination, and a hole of the source is punched
//! into the destination, which is as long afterwards. After the first piece an error only shortens the copy. The home of the destination
//! answers each piece with its own stamp; reading moves the source's access time as a read does.
//!
//! Between files of different data nodes the bytes come here and are written; holes stay holes all the same.
//!
//! The kernel has refused ranges of one file that overlap, O_APPEND, and files that are none.

use crate::fs::{FsReply, FsResult, Handle};
use crate::op::Op;
use crate::opens::Known;
use crate::ops::allocate::{self, Range};
use crate::ops::read::{accessed, data_ref, parts, read_under};
use crate::ops::stale::Refusals;
use crate::ops::write::{Changed, How, change_once, writable, write_part};
use crate::ops::{pages, seek};
use bytes::Bytes;
use onpath_wire::data::{Allocation, DataRequest};
use onpath_wire::errno::Errno;
use onpath_wire::ids::{DataId, InodeId};
use onpath_wire::limits::{CHUNK_BYTES, COPY_BYTES_MAX, COPY_PIECES_MAX, FILE_BYTES_MAX, IO_BYTES_MAX};

/// A copy as far as it has come.
struct Copy {
    from: InodeId,
    from_offset: u64,
    id: InodeId,
    offset: u64,
    /// What is left.
    bytes: u64,
    copied: u64,
    /// Of those, bytes of data.
    data: u64,
    /// Up to where the source has data, as far as is known.
    data_until: u64,
}

pub(crate) async fn copy(op: &mut Op, source: (Handle, u64), to: (Handle, u64), bytes: u64) -> FsResult {
    let (from, noatime) = op.with(|core| match core.state.opens.get(source.0)? {
        open if open.directory || !open.mode.read => Err(Errno::EBADF),
        open => Ok((open.id, open.mode.noatime)),
    })?;
    let id = writable(op, to.0)?;
    let (from_offset, offset) = (source.1, to.1);
    let mut known = data_ref(op, from).await?;
    accessed(op, from, noatime, &known);
    let bytes = bytes.min(known.size.saturating_sub(from_offset));
    if bytes == 0 {
        return Ok(FsReply::Copied(0));
    }
    if from == id && from_offset.abs_diff(offset) < bytes {
        return Err(Errno::EINVAL);
    }
    let bytes = match FILE_BYTES_MAX.saturating_sub(offset) {
        0 => return Err(Errno::EFBIG),
        room => bytes.min(room),
    };
    let mut copy = Copy { from, from_offset, id, offset, bytes, copied: 0, data: 0, data_until: 0 };
    for _ in 0..COPY_PIECES_MAX {
        if copy.bytes == 0 || copy.data >= COPY_BYTES_MAX {
            break;
        }
        match copy.piece(op, &mut known).await {
            Ok(0) => break,
            Ok(n) => copy.done(n),
            Err(errno) if copy.copied == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(FsReply::Copied(copy.copied))
}

impl Copy {
    fn done(&mut self, n: u64) {
        self.from_offset += n;
        self.offset += n;
        self.bytes -= n;
        self.copied += n;
    }

    /// Copies the next data or hole; says how long that was, 0 at the end of a source that has become shorter.
    async fn piece(&mut self, op: &mut Op, known: &mut Known) -> Result<u64, Errno> {
        if self.from_offset >= self.data_until {
            let data = seek::next(op, self.from, known, self.from_offset, false).await?;
            let left = self.bytes.min(known.size.saturating_sub(self.from_offset));
            let hole = data.map_or(left, |data| left.min(data - self.from_offset));
            if left == 0 {
                return Ok(0);
            }
            if hole > 0 {
                let (offset, end) = (self.offset, self.offset + hole);
                let range = Range { how: Allocation::Punch, offset, bytes: hole, end };
                allocate::range(op, self.id, range).await?;
                return Ok(hole);
            }
            let hole = seek::next(op, self.from, known, self.from_offset, true).await?;
            self.data_until = hole.unwrap_or(FILE_BYTES_MAX);
        }
        let bytes = self.bytes.min(known.size.saturating_sub(self.from_offset)).min(self.data_until - self.from_offset);
        let bytes = bytes.min(IO_BYTES_MAX as u64).min(CHUNK_BYTES - self.offset % CHUNK_BYTES);
        if bytes == 0 {
            return Ok(0);
        }
        self.data(op, known, bytes as u32).await?;
        self.data += bytes;
        Ok(bytes)
    }

    async fn data(&self, op: &mut Op, known: &mut Known, bytes: u32) -> Result<(), Errno> {
        let &Copy { from, from_offset, id, offset, .. } = self;
        let kill_suidgid = !op.keeps_suid().await?;
        if op.with(|core| core.state.config.map.data(from) != core.state.config.map.data(id)) {
            return self.by_hand(op, known, bytes, kill_suidgid).await;
        }
        let (mut refusals, mut source_refusals) = (Refusals::default(), Refusals::default());
        loop {
            let (generation, from_cut) = (known.data.generation, known.data.cut);
            let from = DataId { inode: from, generation };
            let make =
                |data, cut| DataRequest::Copy { data, cut, offset, from, from_cut, from_offset, bytes, kill_suidgid };
            pages::write_back_elsewhere(op, id).await?;
            match change_once(op, id, None, make, Bytes::new(), &mut refusals).await? {
                Changed::Done => return Ok(()),
                Changed::BesidePages { count } if refusals.by_pages(op, id, count).await? => return Ok(()),
                Changed::BesidePages { .. } | Changed::Stale => {}
                // What the source has lost meanwhile is copied as zeros, as if that had come in between.
                Changed::SourceStale => *known = source_refusals.by_node(op, from.inode, known.data).await?,
            }
        }
    }

    /// The same where source and destination have different data nodes.
    async fn by_hand(&self, op: &mut Op, known: &mut Known, bytes: u32, kill_suidgid: bool) -> Result<(), Errno> {
        let &Copy { from, from_offset, id, offset, .. } = self;
        let mut refusals = Refusals::default();
        let found = loop {
            match read_under(op, from, known.data, &parts(from_offset, u64::from(bytes))).await? {
                Some(found) => break found,
                None => *known = refusals.by_node(op, from, known.data).await?,
            }
        };
        let found = Bytes::from(found.concat());
        write_part(op, id, offset, found, How { kill_suidgid, append: false, page: false }).await
    }
}
