//! Names that this home has lent to the cache of a switch (C-1, C-5): the entry of such a name says what its home has filled it with.
//!
//! A name is lent by the shard that is both its site and the home of its inode, and only while nobody else has a part in it. What is known is
//! volatile, and of the newest epoch that was heard of.

use crate::files::holders;
use crate::ops::named;
use crate::state::{State, packets};
use crate::{Core, Cx, dir};
use hashbrown::HashMap;
use onpath_kernel::{Mode, OpId};
use onpath_wire::cached::{Hot, NotLent};
use onpath_wire::ids::{InodeId, NodeId, RequestSeq, TrackingEpoch};
use onpath_wire::innet::InNet;
use onpath_wire::innet::cache::{EntryOf, EntryValue, REVISION_END, ROOT_KEY};
use onpath_wire::inode::Kind;
use onpath_wire::limits::LENT_NAMES_MAX;
use onpath_wire::name::Name;
use onpath_wire::peer::{Peer, part};

/// What a controller asks for.
pub(crate) struct Asked {
    pub(crate) from: NodeId,
    pub(crate) seq: RequestSeq,
    /// The directory of the name; 0: the root's own entry.
    pub(crate) parent: InodeId,
    /// The name; none of the root's own entry.
    pub(crate) name: Option<Name>,
    pub(crate) token: u8,
    pub(crate) number: u32,
    pub(crate) epoch: u16,
}

/// The entry of a name that leads to an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    key: u64,
    token: u8,
    number: u32,
    /// That of the last fill.
    revision: u32,
    controller: NodeId,
}

/// Names that are lent.
#[derive(Debug, Default)]
pub(crate) struct Cached {
    epoch: u16,
    /// By the inode to which it leads, which has no other name.
    marks: HashMap<InodeId, Mark>,
}

impl Cached {
    /// An epoch is heard of: what was lent in earlier ones is not (C-4). Whether it is the newest one.
    fn hear(&mut self, epoch: u16) -> bool {
        if self.epoch == 0 || TrackingEpoch(epoch).is_after(TrackingEpoch(self.epoch)) {
            *self = Cached { epoch, ..Cached::default() };
        }
        self.epoch == epoch
    }

    /// How the switch is asked for the name of an inode, if it is lent.
    pub(crate) fn hot(&self, id: InodeId) -> Option<Hot> {
        let mark = self.marks.get(&id)?;
        let switch = NodeId::switch(mark.controller.number() as u16);
        Some(Hot { switch, epoch: self.epoch, token: mark.token })
    }

    /// The mark of a name, for its next fill; none if a newer entry is known, or too many are lent.
    fn mark(&mut self, id: InodeId, key: u64, asked: &Asked) -> Result<Mark, NotLent> {
        let known = self.marks.get(&id).copied();
        if known.is_some_and(|known| (asked.number.wrapping_sub(known.number) as i32) < 0) {
            return Err(NotLent::Older);
        }
        if known.is_none() && self.marks.len() >= LENT_NAMES_MAX {
            return Err(NotLent::Full);
        }
        let same = known.filter(|known| known.number == asked.number);
        let revision = same.map_or(1, |known| known.revision + 1);
        if revision >= REVISION_END {
            return Err(NotLent::Older);
        }
        let mark = Mark { key, token: asked.token, number: asked.number, revision, controller: asked.from };
        self.marks.insert(id, mark);
        Ok(mark)
    }
}

/// A controller wants the entry of a name to be filled. What is shown is locked, so that no change of it is under way.
pub(crate) async fn lend(cx: &Cx, asked: Asked) {
    let found = match &asked.name {
        None => {
            named::lock_inode(cx, InodeId::ROOT, Mode::Shared).await;
            Some((InodeId::ROOT, ROOT_KEY))
        }
        Some(name) => {
            let Ok(at) = named::here(cx, asked.parent, name) else { return };
            let found = named::lock(cx, &at, Mode::Shared).await;
            // As of a lookup: names are shown when the owner has applied what a former term appended.
            if dir::site::grant(cx, asked.parent, part::ACCESS).await.is_err() {
                return; // it asks again
            }
            let key = |core: &mut Core| core.state.config.map.placement().cache_key(asked.parent, name.as_bytes());
            found.map(|found| (found.child, cx.with(key)))
        }
    };
    if let Some((id, _)) = found.filter(|(id, _)| cx.with(|core| core.state.is_home(*id))) {
        Box::pin(holders::take_back(cx, id)).await;
    }
    cx.with(|core| {
        if let Err(why) = fill(core, cx.op(), &asked, found) {
            packets::answer_call(core, cx.op(), asked.from, asked.seq, &Peer::NotLent { why });
        }
    });
}

/// Marks a name and fills its entry: the answer to the controller passes the switch.
fn fill(core: &mut Core, op: OpId, asked: &Asked, found: Option<(InodeId, u64)>) -> Result<(), NotLent> {
    if !core.state.cached.hear(asked.epoch) {
        return Err(NotLent::Older);
    }
    let (id, key) = found.ok_or(NotLent::Missing)?;
    let value = value(&mut core.state, asked.parent, id).ok_or(NotLent::Unfit)?;
    let mark = core.state.cached.mark(id, key, asked)?;
    let of = EntryOf { key, token: mark.token, number: mark.number, revision: mark.revision };
    let (cluster, home) = (core.state.config.cluster, core.state.config.shard);
    let innet = InNet::fill(cluster, asked.epoch, of, &value, home, asked.from);
    let switch = NodeId::switch(asked.from.number() as u16);
    let packet = core.state.answer_packet(asked.seq, &Peer::Done).through(switch, innet);
    core.send(op, asked.from, packet);
    Ok(())
}

/// What an entry says of an inode; nothing if others have a part in it (C-1).
fn value(state: &mut State, parent: InodeId, id: InodeId) -> Option<EntryValue> {
    if !state.is_home(id) || holders::is_lent(state, id) && !id.is_directory() {
        return None;
    }
    let has_acl = state.inodes.access(id)?.acls.is_some();
    let attr = state.told(id)?;
    let data = state.inodes.data_ref(id)?;
    if has_acl || attr.kind != Kind::Directory && attr.nlink != 1 {
        return None;
    }
    Some(EntryValue {
        parent: parent.0,
        id: id.0,
        kind: attr.kind.d_type(),
        flags: attr.flags,
        mode: attr.mode,
        uid: attr.uid,
        gid: attr.gid,
        nlink: attr.nlink,
        size: attr.size,
        mtime: attr.mtime as u64,
        ctime: attr.ctime as u64,
        atime: attr.atime as u64,
        blocks_or_rdev: attr.blocks_or_rdev,
        generation: data.generation.0,
        cut: data.cut,
    })
}
