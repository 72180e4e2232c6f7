//! read: the home says which bytes a file has (generation, cut, size), unless the session knows that ([`crate::ops::exact`]), and the
//! data node gives them (design.md, "Data"). A data node
//! that has been told of a newer generation or cut refuses, and the home is asked again. Holes read as zeros.
//!
//! Through the page cache the kernel begins every read(2) by asking for the attributes. When the READ of the same thread
//! follows, the home has just been asked, inside this very read(2), and is not asked twice ([`Fresh`](crate::opens::Fresh)).

use crate::fs::{FsReply, FsResult, Handle};
use crate::limits::ZEROS_BYTES;
use crate::op::{DataAnswer, Op, attr, data_answer};
use crate::opens::Known;
use crate::ops::stale::Refusals;
use crate::ops::{exact, later, pages};
use crate::state::header;
use bytes::Bytes;
use onpath_kernel::Answer;
use onpath_wire::data::{DataReply, DataRequest};
use onpath_wire::errno::Errno;
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{DataId, InodeId, NodeId};
use onpath_wire::limits::{CHUNK_BYTES, IO_BYTES_MAX};
use onpath_wire::packet::Packet;
use onpath_wire::reply::DataRef;
use onpath_wire::request::Request;
use smallvec::SmallVec;

static ZEROS: [u8; ZEROS_BYTES] = [0; ZEROS_BYTES];

/// Parts of one read or write: offset and length, none over a chunk's end.
pub(crate) type Parts = SmallVec<[(u64, u32); 2]>;

/// Cuts a range at chunk ends.
pub(crate) fn parts(mut offset: u64, mut bytes: u64) -> Parts {
    let mut parts = Parts::new();
    while bytes > 0 {
        let n = bytes.min(CHUNK_BYTES - offset % CHUNK_BYTES);
        parts.push((offset, n as u32));
        offset += n;
        bytes -= n;
    }
    parts
}

/// Where a file's bytes are, its size and its times, as its home says now.
pub(crate) async fn data_ref(op: &mut Op, id: InodeId) -> Result<Known, Errno> {
    let asked = op.with(|core| exact::ask(core));
    let (attr, data, _) = attr(op.ask(Request::DataRef { id }).await?)?;
    let known = Known::of(&attr, data);
    op.with(|core| {
        core.state.learn(id, data);
        exact::answered(core, id, asked, known);
    });
    Ok(known)
}

/// relatime: the access time follows when it is not after the last change, or a day old.
fn atime_is_due(attr: &Known, wall_ns: u64) -> bool {
    const DAY_NS: i64 = 86_400_000_000_000;
    attr.atime <= attr.mtime || attr.atime <= attr.ctime || attr.atime.saturating_add(DAY_NS) < wall_ns as i64
}

/// A file is read: its access time follows a little later, if it is due.
pub(crate) fn accessed(op: &Op, id: InodeId, noatime: bool, known: &Known) {
    op.with(|core| {
        if !noatime && !core.state.config.access_times.never {
            let due = atime_is_due(known, core.now.wall_ns) && core.state.opens.note_access(id, known.ctime);
            later::accessed(core, id, due, true);
        }
    });
}

/// Reads; fewer bytes than asked at the end of the file.
pub(crate) async fn read(op: &mut Op, handle: Handle, offset: u64, bytes: u32, page: bool) -> FsResult {
    if page {
        let id = op.with(|core| core.state.opens.get(handle).map(|open| open.id))?;
        pages::read(op, id).await?;
    }
    let (id, noatime, heard, restarts) = op.with(|core| match core.state.opens.get(handle)? {
        open if open.directory => Err(Errno::EISDIR),
        open if !open.mode.read && !open.mode.exec => Err(Errno::EBADF),
        open => {
            let (id, noatime) = (open.id, open.mode.noatime);
            let fresh = core.state.opens.take_fresh(handle, op.caller.pid, core.now.mono_us);
            Ok((id, noatime, fresh.or_else(|| exact::known(core, id)), exact::restarts(core)))
        }
    })?;
    let mut known = match heard {
        Some(known) => known,
        None => data_ref(op, id).await?,
    };
    let mut asked = heard.is_none();
    let mut refusals = Refusals::default();
    loop {
        accessed(op, id, noatime, &known);
        let n = u64::from(bytes).min(IO_BYTES_MAX as u64).min(known.size.saturating_sub(offset));
        if n == 0 {
            return Ok(FsReply::Data(Vec::new()));
        }
        known = match read_under(op, id, known.data, &parts(offset, n)).await? {
            // A server that was found restarted may have undone what was known before.
            Some(found) if asked || op.with(|core| exact::restarts(core)) == restarts => {
                return Ok(FsReply::Data(found));
            }
            Some(_) => data_ref(op, id).await?,
            None => refusals.by_node(op, id, known.data).await?,
        };
        asked = true;
    }
}

/// Reads the parts at once; nothing if the data node knows of newer bytes.
pub(crate) async fn read_under(
    op: &Op,
    id: InodeId,
    data: DataRef,
    parts: &Parts,
) -> Result<Option<Vec<Bytes>>, Errno> {
    let node = op.with(|core| core.state.config.map.data(id));
    let peers: SmallVec<[NodeId; 2]> = parts.iter().map(|_| node).collect();
    let mut next = parts.iter();
    let answers = op
        .call_all(&peers, move |core, to, seq| {
            let &(offset, bytes) = next.next().expect("one call a part");
            let data_id = DataId { inode: id, generation: data.generation };
            let request = DataRequest::Read { data: data_id, cut: data.cut, offset, bytes };
            let request = core.state.with_tickets(request);
            Packet::new(&header(core, MessageKind::Data, to, id.slot(), seq), &request)
        })
        .await?;
    let mut found = Vec::with_capacity(answers.len());
    for (answer, &(_, bytes)) in answers.into_iter().zip(parts) {
        let Answer::Packet(packet) = answer else { return Err(Errno::EIO) };
        match data_answer(packet)? {
            DataAnswer::Node(DataReply::Bytes, bulk) if bulk.len() <= bytes as usize => {
                let hole = bytes as usize - bulk.len();
                if !bulk.is_empty() {
                    found.push(bulk);
                }
                push_zeros(&mut found, hole);
            }
            DataAnswer::Node(DataReply::Stale, _) => return Ok(None),
            _ => return Err(Errno::EIO),
        }
    }
    Ok(Some(found))
}

fn push_zeros(found: &mut Vec<Bytes>, mut hole: usize) {
    while hole > 0 {
        let n = hole.min(ZEROS_BYTES);
        found.push(Bytes::from_static(&ZEROS[..n]));
        hole -= n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_crosses_a_chunk() {
        assert_eq!(parts(10, 20).as_slice(), [(10, 20)]);
        assert_eq!(parts(CHUNK_BYTES - 1, 3).as_slice(), [(CHUNK_BYTES - 1, 1), (CHUNK_BYTES, 2)]);
        assert_eq!(parts(CHUNK_BYTES, 5).as_slice(), [(CHUNK_BYTES, 5)]);
        assert!(parts(7, 0).is_empty());
    }

    #[test]
    fn holes_are_zeros_of_any_length() {
        let mut found = Vec::new();
        push_zeros(&mut found, 2 * ZEROS_BYTES + 1);
        assert_eq!(found.iter().map(Bytes::len).collect::<Vec<_>>(), [ZEROS_BYTES, ZEROS_BYTES, 1]);
    }
}
