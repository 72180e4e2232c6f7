//! Hot metadata in a switch (design.md, "Hot metadata answered by the switch"): what controllers say to its control plane, and what homes and
//! sessions hear of names that have an entry there.

use crate::ids::{InodeId, NodeId};
use crate::name::Name;
use crate::secrets::Placement;
use crate::{wire_enum, wire_struct};

wire_enum! {
    /// A command of the cache's control plane (dataplane/SPEC.md, D-111 to D-122).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum CacheCommand {
        /// Only tell.
        1 => Status,
        /// Begin an epoch, with an empty cache.
        2 => Begin {
            /// The epoch, not 0.
            epoch: u16,
            /// Its lease: a tick of the switch's clock.
            until: u32,
        },
        /// Prolong the lease.
        3 => Renew {
            /// The present epoch.
            epoch: u16,
            /// A tick of the switch's clock.
            until: u32,
        },
        /// End the epoch, and take everything out.
        4 => End,
        /// Give a name an entry, which says nothing before its home fills it.
        5 => Admit {
            /// The present epoch.
            epoch: u16,
            /// Key of the name.
            key: u64,
            /// Its token, not 0.
            token: u8,
            /// Where the entry is.
            index: u32,
            /// Number of the entry, not 0.
            number: u32,
        },
        /// Take a name out, and empty its entry.
        6 => Evict {
            /// The present epoch.
            epoch: u16,
            /// Key of the name.
            key: u64,
            /// Its token.
            token: u8,
            /// Where the entry is.
            index: u32,
        },
        /// This session may ask in anybody's name.
        7 => List {
            /// Its address.
            session: NodeId,
        },
        /// It may not any more.
        8 => Unlist {
            /// Its address.
            session: NodeId,
        },
        /// Begin to count anew, and tell whoever commands of names that are missed more often than so.
        9 => Count {
            /// In a period that the next command of this kind ends.
            threshold: u16,
        },
        /// Tell how often these entries have answered in this period.
        10 => Hits {
            /// Where they are, at most [`HITS_MAX`](crate::limits::HITS_MAX).
            indices: Vec<u32>,
        },
    }
}

wire_struct! {
    /// The cache of a switch after a command.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CacheStatus {
        /// Names the switch's life: another one has forgotten everything.
        pub boot: u64,
        /// The present epoch; 0 is none.
        pub epoch: u16,
        /// Its clock.
        pub tick: u32,
        /// Whether the command was executed.
        pub done: bool,
        /// What was asked for, in that order.
        pub hits: Vec<u32>,
    }
}

wire_struct! {
    /// The lease of a cache (C-4), and what comes with it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CacheLease {
        /// The epoch; 0: one before may not be over.
        pub epoch: u16,
        /// For so long from when it was asked for, milliseconds.
        pub ms: u32,
        /// The first of [`ENTRY_NUMBERS`](crate::limits::ENTRY_NUMBERS) numbers of entries that nobody else is given; 0: none.
        pub numbers: u32,
        /// Where names are, and what their keys are made with.
        pub placement: Placement,
        /// State of the registry of sessions.
        pub registry: u64,
        /// Those that live, in order, if the asker knows another state.
        pub sessions: Option<Vec<NodeId>>,
    }
}

wire_enum! {
    /// Why the home of a name does not fill its entry.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum NotLent {
        /// Nothing has this name.
        1 => Missing,
        /// Others would have to be asked when it changes: its inode's home is elsewhere, or it has an ACL, or a second name.
        2 => Unfit,
        /// The entry is not the newest one of the name, or its epoch is over.
        3 => Older,
        /// Too many are lent.
        4 => Full,
    }
}

/// A name of a directory; without one, of the directory 0: the root's own entry.
pub type CachedName = (InodeId, Option<Name>);

wire_struct! {
    /// A name of a directory.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct NameIn {
        /// The directory.
        pub parent: InodeId,
        /// The name.
        pub name: Name,
    }
}

wire_struct! {
    /// How a session asks the switch for a name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Hot {
        /// The switch.
        pub switch: NodeId,
        /// The epoch of the token.
        pub epoch: u16,
        /// The token of the name, not 0.
        pub token: u8,
    }
}
