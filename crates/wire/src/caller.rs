//! Who asks: ids, groups, and capabilities(7), as far as they are known.
//!
//! All of it is the session's word, as with AUTH_SYS. uid 0 by itself means nothing: what root may, it may by capabilities.

use crate::codec::{Reader, Wire, WireError};
use crate::wire_struct;
use smallvec::SmallVec;
use std::sync::Arc;

/// Capabilities that permissions may rest on: bit masks by Linux's numbers.
pub mod cap {
    /// Changes owners and groups.
    pub const CHOWN: u32 = 1 << 0;
    /// Passes r, w and x, but executes only what somebody may execute.
    pub const DAC_OVERRIDE: u32 = 1 << 1;
    /// Reads everything, and searches every directory.
    pub const DAC_READ_SEARCH: u32 = 1 << 2;
    /// Passes as owner.
    pub const FOWNER: u32 = 1 << 3;
    /// Keeps setuid and setgid.
    pub const FSETID: u32 = 1 << 4;
    /// Sees and sets `trusted.*`, sets `security.*`.
    pub const SYS_ADMIN: u32 = 1 << 21;
    /// Sets capabilities of files.
    pub const SETFCAP: u32 = 1 << 31;
    /// All of them.
    pub const ALL: u32 = CHOWN | DAC_OVERRIDE | DAC_READ_SEARCH | FOWNER | FSETID | SYS_ADMIN | SETFCAP;
}

wire_struct! {
    /// What is known of the caller's supplementary groups (design.md, "Sessions").
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Groups {
        /// Gids of which the caller is a member.
        pub member: SmallVec<[u32; 4]>,
        /// Gids of which the caller is no member.
        pub stranger: SmallVec<[u32; 4]>,
    }
}

wire_struct! {
    /// Ids that a user namespace has, as the server counts them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct IdRange {
        /// The first of them.
        pub first: u32,
        /// How many.
        pub count: u32,
    }
}

wire_struct! {
    /// The ids of a user namespace. Its capabilities count for inodes whose ids are among them (user_namespaces(7)).
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct IdMaps {
        /// Its uids.
        pub uids: SmallVec<[IdRange; 1]>,
        /// Its gids.
        pub gids: SmallVec<[IdRange; 1]>,
    }
}

wire_struct! {
    /// What is known of the caller's effective capabilities.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Caps {
        /// Bits of [`cap`] that the caller has.
        pub had: u32,
        /// Bits of [`cap`] that the caller has not. What is in neither is not known.
        pub not_had: u32,
        /// They count in this user namespace only; none: everywhere.
        pub within: Option<Arc<IdMaps>>,
    }
}

wire_struct! {
    /// A caller.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Caller {
        /// User id that counts for files.
        pub uid: u32,
        /// Group id that counts for files.
        pub gid: u32,
        /// Supplementary groups.
        pub groups: Groups,
        /// Capabilities.
        pub caps: Caps,
        /// The caller's host lets everybody link to everything: proc(5), fs.protected_hardlinks.
        pub free_links: bool,
    }
}

/// What a capability is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// An inode of this uid and gid.
    Inode(u32, u32),
    /// What belongs to this uid, whatever its group.
    Uid(u32),
    /// The whole file system.
    All,
}

impl Wire for Arc<IdMaps> {
    fn put(&self, out: &mut Vec<u8>) {
        (**self).put(out);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        IdMaps::take(r).map(Arc::new)
    }
}

impl IdMaps {
    fn has(&self, over: Over) -> bool {
        let among = |ranges: &[IdRange], id: u32| ranges.iter().any(|range| id.wrapping_sub(range.first) < range.count);
        match over {
            Over::Inode(uid, gid) => among(&self.uids, uid) && among(&self.gids, gid),
            Over::Uid(uid) => among(&self.uids, uid),
            Over::All => false,
        }
    }
}

impl Caps {
    /// Exactly these, everywhere.
    pub fn exactly(had: u32) -> Caps {
        Caps { had: had & cap::ALL, not_had: cap::ALL & !had, within: None }
    }

    /// Whether the caller has one of `wanted`; none if that is not known.
    pub fn any(&self, wanted: u32, over: Over) -> Option<bool> {
        if self.had & wanted != 0 {
            Some(self.within.as_ref().is_none_or(|maps| maps.has(over)))
        } else if wanted & !self.not_had == 0 {
            Some(false)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capability_is_had_or_not_or_not_known() {
        let inode = Over::Inode(5, 6);
        assert_eq!(Caps::default().any(cap::CHOWN, inode), None);
        let some = Caps { had: cap::FOWNER, not_had: cap::CHOWN, within: None };
        assert_eq!(some.any(cap::FOWNER | cap::CHOWN, inode), Some(true));
        assert_eq!(some.any(cap::CHOWN, inode), Some(false));
        assert_eq!(some.any(cap::CHOWN | cap::FSETID, inode), None);
        assert_eq!(Caps::exactly(cap::FOWNER).any(cap::FSETID, Over::All), Some(false));
    }

    #[test]
    fn those_of_a_user_namespace_count_for_its_ids() {
        let range = |first, count| [IdRange { first, count }].into_iter().collect();
        let maps = IdMaps { uids: range(100, 10), gids: range(200, 1) };
        let caps = Caps { within: Some(Arc::new(maps)), ..Caps::exactly(cap::ALL) };
        for (over, counts) in [
            (Over::Inode(100, 200), true),
            (Over::Inode(109, 200), true),
            (Over::Inode(110, 200), false),
            (Over::Inode(99, 200), false),
            (Over::Inode(100, 201), false),
            (Over::Uid(100), true),
            (Over::Uid(0), false),
            (Over::All, false),
        ] {
            assert_eq!(caps.any(cap::FOWNER, over), Some(counts), "{over:?}");
        }
    }
}
