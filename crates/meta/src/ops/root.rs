//! What the home of slot 0, the coordinator, makes when the file system begins to exist: the root directory, and the record of the map.

use crate::Core;
use onpath_wire::disk::Stored;
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::map::MapImage;
use onpath_wire::disk::record::{Answer, Effect, Record};
use onpath_wire::ids::{InodeId, RequestSeq, SessionId, Stamp};
use onpath_wire::inode::Kind;

/// Makes the root unless it exists or is another shard's, and keeps the map unless it is kept.
pub(crate) fn ensure(core: &mut Core) {
    if !core.state.is_home(InodeId::ROOT) {
        return;
    }
    if core.state.coordinator.map.is_none() {
        let map = MapImage::of(&core.state.config.map);
        record(core, |_| Effect::Map { map });
    }
    if !core.state.inodes.contains(InodeId::ROOT) {
        record(core, |stamp| Effect::PutInode { inode: root(stamp) });
    }
}

fn root(stamp: Stamp) -> Inode {
    let now = stamp.0 as i64;
    let mut inode = Inode::new(InodeId::ROOT, Kind::Directory);
    inode.mode = 0o755;
    inode.parent = InodeId::ROOT;
    (inode.atime, inode.mtime, inode.ctime, inode.btime) = (now, now, now, now);
    inode.mtime_stamp = stamp;
    inode
}

/// Records what nobody has asked for.
pub(crate) fn record(core: &mut Core, effect: impl FnOnce(Stamp) -> Effect) {
    let stamp = core.state.clock.stamp(core.now.wall_ns);
    let record = Record {
        stamp,
        session: SessionId(0),
        request: RequestSeq(0),
        oldest: RequestSeq(0),
        uid: 0,
        answer: Answer::Nothing,
        effects: vec![effect(stamp)],
    };
    let seq = core.state.next_record();
    core.append_unasked(seq, record.to_stored());
    core.state.apply_live(&record);
}
