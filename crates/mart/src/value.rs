//! What a tree has of a directory.

use crate::reach::Reach;
use onpath_index::{Access, DirId, Grant};

const ID_MASK: u64 = (1 << 53) - 1;
const GHOST: u64 = 1 << 63;
const USED: u64 = 1 << 62;
const ACL: u64 = 1 << 61;

/// A directory, or the ghost of one. An id of 0: neither.
#[derive(Clone, Copy, Debug, Default)]
pub struct Value {
    id_and_flags: u64,
    grant_term: u32,
    grant_high: u8,
    reach: Reach,
    mode: u16,
    grant_low: u32,
    uid: u32,
    gid: u32,
    /// When its access part or its place changed last.
    pub(crate) changed: u32,
    /// When [`reach`](Value::reach) was found out; 0: never.
    pub(crate) computed: u32,
}

const _: () = assert!(size_of::<Value>() == 40);

impl Value {
    pub(crate) fn new(id: DirId, access: Access, grant: Grant) -> Value {
        let mut value = Value { id_and_flags: id.0, ..Value::default() };
        value.set(access, grant);
        value
    }

    pub(crate) fn ghost(id: DirId) -> Value {
        Value { id_and_flags: id.0 | GHOST, ..Value::default() }
    }

    #[inline]
    pub(crate) fn id(&self) -> DirId {
        DirId(self.id_and_flags & ID_MASK)
    }

    #[inline]
    pub(crate) fn is_some(&self) -> bool {
        self.id_and_flags != 0
    }

    #[inline]
    pub(crate) fn is_ghost(&self) -> bool {
        self.id_and_flags & GHOST != 0
    }

    pub(crate) fn is_held(&self) -> bool {
        self.is_some() && !self.is_ghost()
    }

    pub(crate) fn set_ghost(&mut self, ghost: bool) {
        self.id_and_flags = self.id_and_flags & !GHOST | if ghost { GHOST } else { 0 };
    }

    pub(crate) fn is_used(&self) -> bool {
        self.id_and_flags & USED != 0
    }

    pub(crate) fn set_used(&mut self, used: bool) {
        self.id_and_flags = self.id_and_flags & !USED | if used { USED } else { 0 };
    }

    #[inline]
    pub(crate) fn access(&self) -> Access {
        let Value { mode, uid, gid, .. } = *self;
        Access { mode, uid, gid, acl: self.id_and_flags & ACL != 0 }
    }

    pub(crate) fn grant(&self) -> Grant {
        Grant { term: self.grant_term, count: u64::from(self.grant_high) << 32 | u64::from(self.grant_low) }
    }

    pub(crate) fn set(&mut self, access: Access, grant: Grant) {
        (self.mode, self.uid, self.gid) = (access.mode, access.uid, access.gid);
        self.id_and_flags = self.id_and_flags & !ACL | if access.acl { ACL } else { 0 };
        (self.grant_term, self.grant_high, self.grant_low) =
            (grant.term, (grant.count >> 32) as u8, grant.count as u32);
    }

    /// Who reaches it, if nothing on its way has changed after `changed`.
    #[inline]
    pub(crate) fn reach(&self, changed: u32) -> Option<Reach> {
        (self.computed >= changed && self.computed > 0).then_some(self.reach)
    }

    pub(crate) fn set_reach(&mut self, reach: Reach, now: u32) {
        (self.reach, self.computed) = (reach, now);
    }
}
