//! Parts of a transaction: what a participant is asked, and what it has found (design.md, "Transactions").

use crate::attr::AttrWire;
use crate::ids::{InodeId, RequestSeq, SessionId, ShardId, TxnId};
use crate::inode::Kind;
use crate::name::Name;
use crate::reply::DataRef;
use crate::wire_enum;

wire_enum! {
    /// What a transaction does to an inode at its home.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum InodeChange {
        /// A name is added. If it is the first one, its directory is charged for the inode.
        1 => Link {
            /// The directory.
            parent: InodeId,
        },
        /// A name is removed.
        2 => Unlink {
            /// Its directory.
            parent: InodeId,
        },
        /// Its name moves. If it is a directory that goes elsewhere, its ".." changes, which needs write permission on it.
        3 => Move {
            /// The directory of the old name.
            from: InodeId,
            /// The directory of the new one.
            to: InodeId,
            /// The new name, if it is a directory.
            name: Option<Name>,
        },
        /// An empty directory is removed.
        4 => RemoveDir,
        /// Its name is taken over by another inode.
        5 => Replace {
            /// The directory of the name.
            parent: InodeId,
        },
    }
}

wire_enum! {
    /// What a participant is asked to prepare.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum TxnPart {
        /// The source name of a rename is removed.
        1 => Source {
            /// Its directory.
            parent: InodeId,
            /// The name.
            name: Name,
            /// Where it goes: the new directory.
            to: InodeId,
            /// The new name.
            to_name: Name,
            /// If it leads to this inode, nothing will be done, and nothing need be allowed.
            unless: Option<InodeId>,
        },
        /// An inode changes at its home.
        2 => Inode {
            /// The inode.
            id: InodeId,
            /// How.
            change: InodeChange,
            /// The uid of the sticky directory that the caller may be refused by, if it is sticky and the coordinator does not
            /// check it itself when it decides.
            sticky: Option<u32>,
        },
        /// The source name of a rename leads to another inode (EXCHANGE, WHITEOUT).
        3 => Swap {
            /// Its directory.
            parent: InodeId,
            /// The name.
            name: Name,
            /// Where what it leads to goes: the new directory.
            to: InodeId,
            /// The new name of that.
            to_name: Name,
            /// If it leads to this inode, nothing will be done, and nothing need be allowed.
            unless: Option<InodeId>,
            /// What it leads to then.
            child: InodeId,
            /// Type of that.
            kind: Kind,
        },
        /// The new name of a rename leads to this inode. The coordinator alone promises it, to itself, in an intention.
        4 => Put {
            /// Its directory.
            parent: InodeId,
            /// The name.
            name: Name,
            /// What it leads to then.
            child: InodeId,
            /// Type of that.
            kind: Kind,
        },
        /// An intention is carried out when these have their promises on stable storage; undone if one of them has lost its promise.
        5 => Asked {
            /// The attempt under which they have promised.
            txn: TxnId,
            /// Who.
            participants: Vec<ShardId>,
            /// Whose request that was.
            session: SessionId,
            /// Its number.
            request: RequestSeq,
        },
    }
    where TxnPart::fits, else "type of an inode"
}

impl TxnPart {
    /// Whether the inode that it tells the type of can be of that type.
    fn fits(&self) -> bool {
        match self {
            TxnPart::Swap { child, kind, .. } | TxnPart::Put { child, kind, .. } => child.is_of(*kind),
            TxnPart::Source { .. } | TxnPart::Inode { .. } | TxnPart::Asked { .. } => true,
        }
    }

    /// The source name of a rename, if that is the part.
    pub fn source(&self) -> Option<(InodeId, &Name)> {
        match self {
            TxnPart::Source { parent, name, .. } | TxnPart::Swap { parent, name, .. } => Some((*parent, name)),
            TxnPart::Inode { .. } | TxnPart::Put { .. } | TxnPart::Asked { .. } => None,
        }
    }

    /// The name that changes, if one does.
    pub fn name(&self) -> Option<(InodeId, &Name)> {
        match self {
            TxnPart::Put { parent, name, .. } => Some((*parent, name)),
            part => part.source(),
        }
    }

    /// Whether only who decides promises this, to itself.
    pub fn is_of_coordinator(&self) -> bool {
        matches!(self, TxnPart::Put { .. } | TxnPart::Asked { .. })
    }
}

wire_enum! {
    /// What a participant found.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum PartState {
        /// The source name.
        1 => Source {
            /// Its child.
            child: InodeId,
            /// Type of the child.
            kind: Kind,
            /// Owner of the directory if it is sticky: to be checked against the child's owner at its home.
            sticky: Option<u32>,
        },
        /// The inode, as it was.
        2 => Inode {
            /// Attributes.
            attr: AttrWire,
            /// Where its bytes are.
            data: DataRef,
        },
    }
    where PartState::fits, else "type of an inode"
}

impl PartState {
    /// Whether the inode that it tells the type of can be of that type.
    fn fits(&self) -> bool {
        match self {
            PartState::Source { child, kind, .. } => child.is_of(*kind),
            PartState::Inode { .. } => true,
        }
    }
}
