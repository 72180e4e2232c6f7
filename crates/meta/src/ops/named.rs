//! Locking a name together with its inode, which is known only after looking.

use crate::state::{State, keys};
use crate::{Core, Cx};
use onpath_kernel::{Keys, Mode};
use onpath_store::NameValue;
use onpath_wire::attr::AttrWire;
use onpath_wire::hash::name_hash;
use onpath_wire::ids::InodeId;
use onpath_wire::ids::{NodeId, RequestSeq};
use onpath_wire::name::Name;
use onpath_wire::packet::Packet;
use onpath_wire::peer::Peer;
use onpath_wire::reply::DataRef;

impl State {
    /// What a name of this shard leads to.
    pub(crate) fn name(&mut self, parent: InodeId, name: &Name) -> Option<NameValue> {
        self.names.get(name_hash(parent, name.as_bytes()), parent, name.as_bytes())
    }
}

/// Locks a name and, if its inode's home is here, the inode (so that nobody sees a transaction in doubt).
pub(crate) async fn lock(cx: &Cx, parent: InodeId, name: &Name, mode: Mode) -> Option<NameValue> {
    let name_key = keys::name(parent, name);
    cx.lock_seen(|core| {
        let found = core.state.names.get(name_key.0, parent, name.as_bytes());
        let mut keys = Keys::new();
        keys.push((name_key, mode));
        if let Some(here) = found.filter(|found| core.state.is_home(found.child)) {
            keys.push((keys::inode(here.child), mode));
        }
        (found, keys)
    })
    .await
}

/// Locks an inode of this shard.
pub(crate) async fn lock_inode(cx: &Cx, id: InodeId, mode: Mode) {
    cx.lock_all([(keys::inode(id), mode)]).await;
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
