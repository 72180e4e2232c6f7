//! Locking a name together with its inode, which is known only after looking.

use super::Stop;
use crate::files::holders;
use crate::files::table::Looked;
use crate::state::{State, keys};
use crate::{Core, Cx, cached};
use onpath_kernel::{Keys, Mode};
use onpath_store::{NameValue, Named};
use onpath_wire::attr::AttrWire;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::ids::{NodeId, RequestSeq};
use onpath_wire::name::Name;
use onpath_wire::packet::Packet;
use onpath_wire::peer::Peer;
use onpath_wire::reply::DataRef;

impl State {
    /// What a name of this shard leads to.
    pub(crate) fn name(&mut self, parent: InodeId, name: &Name) -> Option<NameValue> {
        self.names.get(&self.names.at(parent, name))
    }
}

/// Where a name is that a client asks about. What another shard has is refused: nobody would find there what is made here.
pub(crate) fn here<'a>(cx: &Cx, parent: InodeId, name: &'a Name) -> Result<Named<'a>, Stop> {
    cx.with(|core| {
        let at = core.state.names.at(parent, name);
        if core.state.config.map.shard(at.slot()) != core.state.me() {
            core.state.counters.malformed += 1;
            return Err(Errno::EINVAL.into());
        }
        Ok(at)
    })
}

/// As [`lock`], for who shows what there is to know of the inode (V-2).
pub(crate) async fn lock_name_shown(cx: &Cx, at: &Named<'_>, mode: Mode) -> Option<NameValue> {
    let found = lock(cx, at, mode).await;
    if let Some(here) = found.filter(|found| cx.with(|core| core.state.is_home(found.child))) {
        holders::show(cx, here.child, &Looked::default()).await;
    }
    found
}

/// Locks a name and, if its inode's home is here, the inode (so that nobody sees a transaction in doubt). For a change no switch answers for it
/// any more (C-6).
pub(crate) async fn lock(cx: &Cx, at: &Named<'_>, mode: Mode) -> Option<NameValue> {
    let found = lock_found(cx, at, mode).await;
    if let Some(found) = found.filter(|_| mode == Mode::Exclusive) {
        cached::clear(cx, found.child).await;
    }
    found
}

async fn lock_found(cx: &Cx, at: &Named<'_>, mode: Mode) -> Option<NameValue> {
    cx.lock_seen(|core| {
        let found = core.state.names.get(at);
        let mut keys = Keys::new();
        keys.push((keys::name(at), mode));
        if let Some(here) = found.filter(|found| core.state.is_home(found.child)) {
            keys.push((keys::inode(here.child), mode));
        }
        (found, keys)
    })
    .await
}

/// Locks an inode whose access time moves, which switches show as of when they were told (C-1).
pub(crate) async fn lock_accessed(cx: &Cx, id: InodeId) {
    cx.lock_all([(keys::inode(id), Mode::Exclusive)]).await;
}

/// Locks an inode of this shard; for a change no switch answers for it any more (C-6).
pub(crate) async fn lock_inode(cx: &Cx, id: InodeId, mode: Mode) {
    cx.lock_all([(keys::inode(id), mode)]).await;
    if mode == Mode::Exclusive {
        cached::clear(cx, id).await;
    }
}

/// The same for who shows what there is to know of it (V-2).
pub(crate) async fn lock_shown(cx: &Cx, id: InodeId, looked: &Looked) {
    lock_inode(cx, id, Mode::Shared).await;
    holders::show(cx, id, looked).await;
}

/// Attributes of an inode whose home is another shard; none if it is gone.
pub(crate) async fn read_home(cx: &Cx, id: InodeId) -> Option<(AttrWire, DataRef)> {
    let home = NodeId::shard(cx.with(|core| core.state.config.map.home(id)));
    let make = |core: &mut Core, seq: RequestSeq| -> Packet { core.state.peer_packet(seq, &Peer::HomeRead { id }) };
    match cx.call(home, make).await.body::<Peer>() {
        Ok(Peer::HomeAttr { attr: Some(attr), data }) => Some((attr, data)),
        _ => None,
    }
}
