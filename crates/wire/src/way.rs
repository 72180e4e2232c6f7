//! What a path node tells of a way, for a client to keep (P-5): the directories through which names led, each with what decides who may search
//! it.

use crate::caller::{Caller, Over, cap};
use crate::ids::InodeId;
use crate::inode::Kind;
use crate::limits::NAMES_FOLLOWED_MAX;
use crate::name::Name;
use crate::permission::{self, Owned, Unknown};
use crate::wire_struct;

wire_struct! {
    /// Who may search a directory, as far as that can be said without its ACL.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Searchable {
        /// Permission bits.
        pub mode: u16,
        /// Owner.
        pub uid: u32,
        /// Group.
        pub gid: u32,
        /// It has an access ACL, which is not told.
        pub acl: bool,
    }
    where Searchable::fits, else "permission bits of a directory"
}

wire_struct! {
    /// A directory on a way.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WayDir {
        /// Its id.
        pub id: InodeId,
        /// Who may search it.
        pub access: Searchable,
    }
    where WayDir::fits, else "a directory on a way"
}

wire_struct! {
    /// A way: where it begins, and the directories of the names that were followed from there.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Way {
        /// The parent of the directory where it begins; none of the root.
        pub parent: InodeId,
        /// Its name there; none of the root.
        pub name: Option<Name>,
        /// That directory, and one for each name.
        pub dirs: Vec<WayDir>,
    }
    where Way::fits, else "a way"
}

impl Searchable {
    fn fits(&self) -> bool {
        self.mode <= 0o7777
    }
}

impl WayDir {
    fn fits(&self) -> bool {
        self.id.is_directory()
    }
}

impl Way {
    fn fits(&self) -> bool {
        (1..=NAMES_FOLLOWED_MAX + 1).contains(&self.dirs.len())
    }
}

/// Whether the caller may search a directory.
///
/// # Errors
/// What is to be asked of the caller; nothing if only the ACL can say.
pub fn may_search(caller: &Caller, access: Searchable) -> Result<bool, Option<Unknown>> {
    let Searchable { mode, uid, gid, acl } = access;
    if acl && caller.uid != uid {
        // It keeps nobody out who may search everything.
        let passes = caller.caps.any(cap::DAC_OVERRIDE | cap::DAC_READ_SEARCH, Over::Inode(uid, gid));
        return if passes == Some(true) { Ok(true) } else { Err(None) };
    }
    let what = Owned { mode, uid, gid, acl: None };
    permission::may(caller, what, Kind::Directory, permission::EXEC).map_err(Some)
}
