//! lseek SEEK_DATA and SEEK_HOLE: the size from the file's home, blocks from the data node.

use crate::fs::{FsReply, FsResult, Handle};
use crate::op::{DataAnswer, Op};
use crate::opens::Known;
use crate::ops::read::data_ref;
use crate::ops::stale::Refusals;
use bytes::Bytes;
use onpath_wire::data::{DataReply, DataRequest};
use onpath_wire::errno::Errno;
use onpath_wire::ids::{DataId, InodeId};
use onpath_wire::reply::DataRef;

/// There is a hole behind the end, but none and no data from there on.
pub(crate) async fn seek(op: &mut Op, handle: Handle, offset: u64, hole: bool) -> FsResult {
    let id = op.with(|core| match core.state.opens.get(handle)? {
        open if open.directory => Err(Errno::EINVAL),
        open => Ok(open.id),
    })?;
    let mut known = data_ref(op, id).await?;
    let found = next(op, id, &mut known, offset, hole).await?;
    match found.filter(|&found| found < known.size) {
        _ if offset >= known.size => Err(Errno::ENXIO),
        Some(found) => Ok(FsReply::Position(found)),
        None if hole => Ok(FsReply::Position(known.size)),
        None => Err(Errno::ENXIO),
    }
}

/// Where the next data or hole begins, wherever the file ends. `known` is what the home has said of the file, and is renewed if that
/// was stale. Nothing is asked behind the end.
pub(crate) async fn next(
    op: &mut Op,
    id: InodeId,
    known: &mut Known,
    offset: u64,
    hole: bool,
) -> Result<Option<u64>, Errno> {
    let mut refusals = Refusals::default();
    while offset < known.size {
        let DataRef { generation, cut, .. } = known.data;
        let request = DataRequest::Seek { data: DataId { inode: id, generation }, cut, offset, hole };
        match op.ask_data(id, request, Bytes::new()).await? {
            DataAnswer::Node(DataReply::Position { offset: Some(found) }, _) if found < offset => {
                return Err(Errno::EIO);
            }
            DataAnswer::Node(DataReply::Position { offset: found }, _) => return Ok(found),
            DataAnswer::Node(DataReply::Stale, _) => *known = refusals.by_node(op, id, known.data).await?,
            _ => return Err(Errno::EIO),
        }
    }
    Ok(None)
}
