//! Whose a client is, by the key that it comes with.

use super::endpoint::Shared;
use super::peers::OtherState;
use onpath_transport::Head;
use onpath_wire::identity::{Bound, Holder, Identity};
use std::sync::Arc;

impl Shared {
    /// Whose a session is that is begun, or gone on with, by a handshake with this header.
    pub(super) fn holder(&self, head: &Head) -> Holder {
        let owned = head.sealed() && self.config.keyring.owned(head.check).is_some();
        if owned { Holder::Key { id: head.check } } else { Holder::Anybody }
    }

    /// As whom alone a holder acts, if not as anybody; nothing if its key is gone.
    pub(super) fn identity_of(&self, holder: Holder) -> Option<Option<Identity>> {
        match holder {
            Holder::Key { id } => self.config.keyring.owned(id).map(|owned| owned.identity),
            Holder::Anybody => Some(None),
            Holder::User { .. } => None,
        }
    }

    /// What the key of a holder is called, if he has one of his own.
    pub(super) fn name_of(&self, holder: Holder) -> Option<Arc<str>> {
        match holder {
            Holder::Key { id } => self.config.keyring.owned(id).map(|owned| owned.name),
            Holder::Anybody | Holder::User { .. } => None,
        }
    }

    /// From now on a peer is its holder's; false if there is no such one.
    pub(super) fn bind(&self, state: &mut OtherState, holder: Holder) -> bool {
        let (version, session) = (self.config.keyring.version(), state.session);
        let Some(identity) = self.identity_of(holder) else { return false };
        (state.holder, state.bound_at) = (holder, version);
        state.bound = identity.map(|identity| Arc::new(Bound { session, identity }));
        true
    }

    /// As whom alone a peer acts, if not as anybody, by the keys of now; nothing if its key is gone: then nothing of it is taken.
    pub(super) fn bound(&self, state: &mut OtherState) -> Option<Option<Arc<Bound>>> {
        if state.holder == Holder::Anybody {
            return Some(None);
        }
        let stands = state.bound_at == self.config.keyring.version() || self.bind(state, state.holder);
        stands.then(|| state.bound.clone())
    }
}
