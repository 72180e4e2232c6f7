//! A path node asks for the path parts of all directories (P-6), as many at a time as fit an answer: first of those that are in memory, in the
//! order of ids, then of those that the store has. What has come into memory since its turn there was over is granted with the latter, perhaps
//! once more.

use super::holders::Holder;
use super::owner::path_part_now;
use crate::Core;
use crate::state::packets;
use onpath_kernel::OpId;
use onpath_wire::ids::{InodeId, RequestSeq, Slot};
use onpath_wire::limits::PATHS_GRANTED_MAX;
use onpath_wire::peer::{DirPath, PathsFrom, Peer};

/// Slots whose inodes are looked through for one answer: meanwhile the shard does nothing else.
const SLOTS_AT_A_TIME: u16 = 64;
/// Inodes of the store that are looked through for one answer, and those of them that are read.
const STORED_AT_A_TIME: usize = 4_096;
const READ_AT_A_TIME: usize = 64;

/// Grants the next ones.
pub(crate) fn asked(core: &mut Core, op: OpId, from: Holder, seq: RequestSeq, begin: Option<PathsFrom>) {
    let (ids, next) = match begin {
        None => in_memory(core, InodeId::NONE),
        Some(PathsFrom { after, stored: false }) => in_memory(core, after),
        Some(PathsFrom { after, stored: true }) => stored(core, after),
    };
    let grant = |id| path_part_now(core, op, from, id).map(|part| DirPath { dir: id, part });
    let parts = ids.into_iter().filter_map(grant).collect();
    packets::answer_call(core, op, from.node, seq, &Peer::Paths { parts, next });
}

fn in_memory(core: &Core, after: InodeId) -> (Vec<InodeId>, Option<PathsFrom>) {
    let own = core.state.config.map.slots(core.state.me());
    let first = own.start().0.max(after.slot().0);
    let last = (first | (SLOTS_AT_A_TIME - 1)).min(own.end().0);
    if first > last {
        return (vec![], Some(PathsFrom { after: InodeId::NONE, stored: true }));
    }
    let mut ids = core.state.inodes.in_slots(Slot(first)..=Slot(last));
    ids.retain(|id| *id > after && id.is_directory());
    let next = match ids.get(PATHS_GRANTED_MAX - 1) {
        Some(&after) => PathsFrom { after, stored: false },
        // No inode has the first number of a slot.
        None if last < own.end().0 => {
            PathsFrom { after: *InodeId::of_slots(Slot(last + 1)..=*own.end()).start(), stored: false }
        }
        None => PathsFrom { after: InodeId::NONE, stored: true },
    };
    ids.truncate(PATHS_GRANTED_MAX);
    (ids, Some(next))
}

fn stored(core: &Core, after: InodeId) -> (Vec<InodeId>, Option<PathsFrom>) {
    let (mut ids, mut seen, mut read, mut next) = (Vec::new(), 0, 0, None);
    core.state.inodes.stored_after(after.is_some().then_some(after), &mut |id| {
        seen += 1;
        if id.is_directory() {
            ids.push(id);
            read += usize::from(!core.state.inodes.knows(id));
        }
        let more = seen < STORED_AT_A_TIME && read < READ_AT_A_TIME && ids.len() < PATHS_GRANTED_MAX;
        next = (!more).then_some(PathsFrom { after: id, stored: true });
        more
    });
    (ids, next)
}
