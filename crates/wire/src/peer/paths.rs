//! What homes tell path nodes of directories.

use super::Access;
use crate::ids::InodeId;
use crate::name::Name;
use crate::wire_struct;

wire_struct! {
    /// The path part of a directory: where it is, and who may search it (P-1).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PathPart {
        /// The directory that it is in; none: it is the root.
        pub parent: Option<InodeId>,
        /// Its name there; none: it is the root.
        pub name: Option<Name>,
        /// The access part.
        pub access: Access,
        /// Which grant of its home's term it is: later ones are larger.
        pub number: u64,
    }
    where PathPart::fits, else "place of a directory"
}

wire_struct! {
    /// Where a shard goes on with its directories: first those in memory, then those that its store has.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PathsFrom {
        /// Behind this one.
        pub after: InodeId,
        /// In the store, in the order of its keys; else in memory, in that of ids.
        pub stored: bool,
    }
}

wire_struct! {
    /// The path part of one of several directories.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct DirPath {
        /// The directory.
        pub dir: InodeId,
        /// Its part.
        pub part: PathPart,
    }
}

impl PathPart {
    /// Whether it has both, a parent and a name there, or neither.
    fn fits(&self) -> bool {
        self.parent.is_some() == self.name.is_some()
    }
}
