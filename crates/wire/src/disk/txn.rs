//! What a participant of a transaction has promised.

use super::reply::{Attributes, Bytes};
use crate::ids::{InodeId, RequestSeq, SessionId, ShardId, TxnId};
use crate::inode::Kind;
use crate::name::Name;
use crate::peer::{InodeChange, PartState, TxnPart};
use crate::stored_enum;

stored_enum! {
    /// As [`InodeChange`].
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Change {
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
        /// Its name moves.
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

stored_enum! {
    /// As [`TxnPart`].
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Part {
        /// The source name of a rename is removed.
        1 => Source {
            /// Its directory.
            parent: InodeId,
            /// The name.
            name: Name,
            /// The new directory.
            to: InodeId,
            /// The new name.
            to_name: Name,
            /// If it leads to this inode, nothing will be done.
            unless: Option<InodeId>,
        },
        /// An inode changes at its home.
        2 => Inode {
            /// The inode.
            id: InodeId,
            /// How.
            change: Change,
            /// The uid of the sticky directory that the caller may be refused by.
            sticky: Option<u32>,
        },
        /// The source name of a rename leads to another inode.
        3 => Swap {
            /// Its directory.
            parent: InodeId,
            /// The name.
            name: Name,
            /// The new directory of what it leads to.
            to: InodeId,
            /// The new name of that.
            to_name: Name,
            /// If it leads to this inode, nothing will be done.
            unless: Option<InodeId>,
            /// What it leads to then.
            child: InodeId,
            /// Type of that.
            kind: Kind,
        },
        /// The new name of a rename leads to this inode: only in the coordinator's own intention.
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
        /// Whose promises the intention waits for.
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
}

stored_enum! {
    /// As [`PartState`].
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Found {
        /// The source name.
        1 => Source {
            /// Its child.
            child: InodeId,
            /// Type of the child.
            kind: Kind,
            /// Owner of the directory if it is sticky.
            sticky: Option<u32>,
        },
        /// The inode, as it was.
        2 => Inode {
            /// Attributes.
            attributes: Attributes,
            /// Where its bytes are.
            bytes: Bytes,
        },
    }
}

impl From<InodeChange> for Change {
    fn from(change: InodeChange) -> Change {
        match change {
            InodeChange::Link { parent } => Change::Link { parent },
            InodeChange::Unlink { parent } => Change::Unlink { parent },
            InodeChange::Move { from, to, name } => Change::Move { from, to, name },
            InodeChange::RemoveDir => Change::RemoveDir,
            InodeChange::Replace { parent } => Change::Replace { parent },
        }
    }
}

impl From<Change> for InodeChange {
    fn from(change: Change) -> InodeChange {
        match change {
            Change::Link { parent } => InodeChange::Link { parent },
            Change::Unlink { parent } => InodeChange::Unlink { parent },
            Change::Move { from, to, name } => InodeChange::Move { from, to, name },
            Change::RemoveDir => InodeChange::RemoveDir,
            Change::Replace { parent } => InodeChange::Replace { parent },
        }
    }
}

impl From<TxnPart> for Part {
    fn from(part: TxnPart) -> Part {
        match part {
            TxnPart::Source { parent, name, to, to_name, unless } => Part::Source { parent, name, to, to_name, unless },
            TxnPart::Inode { id, change, sticky } => Part::Inode { id, change: change.into(), sticky },
            TxnPart::Swap { parent, name, to, to_name, unless, child, kind } => {
                Part::Swap { parent, name, to, to_name, unless, child, kind }
            }
            TxnPart::Put { parent, name, child, kind } => Part::Put { parent, name, child, kind },
            TxnPart::Asked { txn, participants, session, request } => {
                Part::Asked { txn, participants, session, request }
            }
        }
    }
}

impl From<Part> for TxnPart {
    fn from(part: Part) -> TxnPart {
        match part {
            Part::Source { parent, name, to, to_name, unless } => TxnPart::Source { parent, name, to, to_name, unless },
            Part::Inode { id, change, sticky } => TxnPart::Inode { id, change: change.into(), sticky },
            Part::Swap { parent, name, to, to_name, unless, child, kind } => {
                TxnPart::Swap { parent, name, to, to_name, unless, child, kind }
            }
            Part::Put { parent, name, child, kind } => TxnPart::Put { parent, name, child, kind },
            Part::Asked { txn, participants, session, request } => {
                TxnPart::Asked { txn, participants, session, request }
            }
        }
    }
}

impl From<PartState> for Found {
    fn from(state: PartState) -> Found {
        match state {
            PartState::Source { child, kind, sticky } => Found::Source { child, kind, sticky },
            PartState::Inode { attr, data } => Found::Inode { attributes: attr.into(), bytes: data.into() },
        }
    }
}

impl From<Found> for PartState {
    fn from(found: Found) -> PartState {
        match found {
            Found::Source { child, kind, sticky } => PartState::Source { child, kind, sticky },
            Found::Inode { attributes, bytes } => PartState::Inode { attr: attributes.into(), data: bytes.into() },
        }
    }
}
