//! Where the names of a file are: its inode says it of one, the others are further names (`onpath_store`). Together they are one for each
//! link, so that who has an inode finds its directories.
//!
//! Each of these changes the inode in hand and adds what else changes. They look at the state as it is before the step. Where a disk's
//! promises contradict its links, counts go as far as they can.

use crate::Core;
use crate::state::commit::Effects;
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::record::Effect;
use onpath_wire::ids::InodeId;
use onpath_wire::name::Name;

/// A file gets a name in this directory. The first one decides which directory is charged for it.
pub(crate) fn added(core: &Core, inode: &mut Inode, dir: InodeId, effects: &mut Effects) {
    if inode.nlink == 0 {
        inode.parent = dir;
    } else {
        put(inode, dir, count(core, inode, dir).saturating_add(1), effects);
    }
    inode.nlink = inode.nlink.saturating_add(1);
}

/// A file loses a name in this directory. If it was that of the inode, another one takes its place.
pub(crate) fn removed(core: &Core, inode: &mut Inode, dir: InodeId, effects: &mut Effects) {
    if inode.nlink > 1 {
        let further = count(core, inode, dir);
        if further > 0 {
            put(inode, dir, further - 1, effects);
        } else if let Some(other) = core.state.inodes.any_further(inode.id, dir).filter(|_| inode.parent == dir) {
            put(inode, other, count(core, inode, other).saturating_sub(1), effects);
            inode.parent = other;
        }
    }
    inode.nlink = inode.nlink.saturating_sub(1);
}

/// A name moves from one directory to another; `name` is the new one.
pub(crate) fn moved(
    core: &Core,
    inode: &mut Inode,
    (from, to): (InodeId, InodeId),
    name: Option<&Name>,
    effects: &mut Effects,
) {
    if inode.is_dir() {
        inode.name = name.cloned();
    }
    if inode.is_dir() || inode.parent == from || inode.nlink <= 1 {
        inode.parent = to;
        return;
    }
    let further = count(core, inode, from);
    if from != to && further > 0 {
        put(inode, from, further - 1, effects);
        put(inode, to, count(core, inode, to).saturating_add(1), effects);
    }
}

fn count(core: &Core, inode: &Inode, dir: InodeId) -> u32 {
    core.state.inodes.further(inode.id, dir)
}

fn put(inode: &Inode, dir: InodeId, names: u32, effects: &mut Effects) {
    effects.push(Effect::Further { id: inode.id, dir, names });
}
