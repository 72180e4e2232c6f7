//! The root directory: made by the home of slot 0 when the file system begins to exist.

use crate::Core;
use onpath_wire::disk::Stored;
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::record::{Answer, Effect, Record};
use onpath_wire::ids::{InodeId, RequestSeq, SessionId};
use onpath_wire::inode::Kind;

/// Makes the root unless it exists or is another shard's.
pub(crate) fn ensure(core: &mut Core) {
    if !core.state.is_home(InodeId::ROOT) || core.state.inodes.contains(InodeId::ROOT) {
        return;
    }
    let stamp = core.state.clock.stamp(core.now.wall_ns);
    let now = stamp.0 as i64;
    let mut inode = Inode::new(InodeId::ROOT, Kind::Directory);
    inode.mode = 0o755;
    inode.parent = InodeId::ROOT;
    (inode.atime, inode.mtime, inode.ctime, inode.btime) = (now, now, now, now);
    inode.mtime_stamp = stamp;
    let record = Record {
        stamp,
        session: SessionId(0),
        request: RequestSeq(0),
        oldest: RequestSeq(0),
        uid: 0,
        answer: Answer::Nothing,
        effects: vec![Effect::PutInode { inode }],
    };
    let seq = core.state.next_record();
    core.append_unasked(seq, record.to_stored());
    core.state.apply_live(&record);
}
