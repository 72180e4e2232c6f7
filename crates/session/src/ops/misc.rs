//! fsync, statfs, and the end of interrupted requests.

use crate::fs::{FsReply, FsResult, Handle, Totals};
use crate::input::abandon;
use crate::limits::{STALE_ROUNDS_MAX, UNREACHABLE_US};
use crate::op::{DataAnswer, Op, data_answer, done};
use crate::ops::kept;
use crate::ops::read::data_ref;
use crate::running::Slot as Running;
use crate::state::header;
use bytes::Bytes;
use onpath_kernel::Answer;
use onpath_wire::data::{DataReply, DataRequest};
use onpath_wire::errno::Errno;
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{DataId, InodeId, NodeId, Slot};
use onpath_wire::packet::Packet;
use onpath_wire::reply::Reply;
use onpath_wire::request::Request;

/// fsync and fdatasync: the bytes first, then what the home has recorded of them (design.md, "Durability"). That of a directory lets every holder of
/// change-log entries flush first. What was told before is there then, or it is EIO.
pub(crate) async fn fsync(op: &mut Op, handle: Handle) -> FsResult {
    let (id, directory) = op.with(|core| core.state.opens.get(handle).map(|open| (open.id, open.directory)))?;
    let told = op.with(|core| core.state.unsynced.of(id));
    if !directory {
        sync_data(op, id).await?;
    }
    done(op.ask(Request::Sync { id }).await?)?;
    kept::settle(op, handle, id, &told).await?;
    Ok(FsReply::Done)
}

async fn sync_data(op: &mut Op, id: InodeId) -> Result<(), Errno> {
    for _ in 0..STALE_ROUNDS_MAX {
        let data = op.with(|core| core.state.opens.inode(id).map(|inode| inode.data)).ok_or(Errno::EBADF)?;
        let request = DataRequest::Sync { data: DataId { inode: id, generation: data.generation } };
        match op.ask_data(id, request, Bytes::new()).await? {
            DataAnswer::Node(DataReply::Synced, _) => return Ok(()),
            DataAnswer::Node(DataReply::Stale, _) => data_ref(op, id).await?,
            _ => return Err(Errno::EIO),
        };
    }
    Err(Errno::EIO)
}

/// Inodes of all shards, space of all data nodes.
pub(crate) async fn statfs(op: &mut Op) -> FsResult {
    let peers: Vec<NodeId> = op.with(|core| core.state.config.map.roles().collect());
    let answers = op
        .call_all(&peers, |core, to, seq| match to.as_shard() {
            Some(shard) => {
                let slot = core.state.a_slot_of[shard.0 as usize];
                let body = core.state.own_body(Request::StatFs);
                Packet::new(&header(core, MessageKind::Request, to, slot, seq), &body)
            }
            None => Packet::new(&header(core, MessageKind::Data, to, Slot(0), seq), &DataRequest::Space),
        })
        .await?;
    let mut totals = Totals::default();
    for answer in answers {
        let Answer::Packet(packet) = answer else { return Err(Errno::EIO) };
        match data_answer(packet)? {
            DataAnswer::Home(Reply::StatFs { inodes, .. }) => totals.inodes += inodes,
            DataAnswer::Node(DataReply::Space { total, free }, _) => {
                totals.blocks += total;
                totals.blocks_free += free;
            }
            _ => return Err(Errno::EIO),
        }
    }
    Ok(FsReply::StatFs(totals))
}

/// The caller of a request got a signal: if its server has not answered for a second, it ends with EINTR. What it
/// asked for may still happen.
pub(crate) async fn interrupt(op: &Op, slot: Running, unique: u64) {
    loop {
        let again_us = op.with(|core| {
            let now_us = core.now.mono_us;
            let running = core.state.running.still(slot, unique).filter(|r| r.abandoned.is_none())?;
            let stuck = running.calls > 0 || running.parked.is_some();
            let due_us = if stuck { running.since_us } else { now_us } + UNREACHABLE_US;
            if due_us <= now_us {
                abandon(core, slot, Errno::EINTR);
                return None;
            }
            Some(due_us)
        });
        match again_us {
            Some(at_us) => op.cx.sleep_until(at_us).await,
            None => return,
        }
    }
}
