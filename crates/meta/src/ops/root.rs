//! What the home of slot 0, the coordinator, makes when the file system begins to exist: the root directory, and the record of the map.

use crate::Core;
use crate::state::commit::commit_unasked;
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::map::MapImage;
use onpath_wire::disk::record::Effect;
use onpath_wire::ids::{InodeId, Stamp};
use onpath_wire::inode::Kind;

/// Makes the root unless it exists or is another shard's, and keeps the map unless it is kept.
pub(crate) fn ensure(core: &mut Core) {
    if !core.state.is_home(InodeId::ROOT) {
        return;
    }
    if core.state.coordinator.map.is_none() {
        let map = MapImage::of(&core.state.config.map);
        commit_unasked(core, Effect::Map { map });
    }
    if !core.state.inodes.contains(InodeId::ROOT) {
        let stamp = core.state.clock.stamp(core.now.wall_ns);
        commit_unasked(core, Effect::PutInode { inode: root(stamp) });
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
