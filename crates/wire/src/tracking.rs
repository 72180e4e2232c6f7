//! How directories are tracked (DESIGN §3, R-7): epochs, forms, and what the coordinator says to the switch's control plane.

use crate::ids::{ShardId, Term, TrackingEpoch};
use crate::{wire_enum, wire_struct};

wire_enum! {
    /// Who knows that a directory has pending updates.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub enum Form {
        /// Its owner: whoever holds the append part may have some. No switch is needed.
        #[default]
        1 => Owner,
        /// The dirty set in the switch.
        2 => Network,
    }
}

wire_struct! {
    /// A tracking epoch and its form, which never changes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct Tracking {
        /// Given out by the coordinator; 0 before the first one, which has the owner form.
        pub epoch: TrackingEpoch,
        /// The form.
        pub form: Form,
    }
}

wire_enum! {
    /// In what role a shard knows a tracking epoch: owners first, then sites.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum TrackingSide {
        /// The coordinator has given it out.
        1 => Given,
        /// As the owner of directories.
        2 => Owner,
        /// As a site of names.
        3 => Site,
    }
}

wire_enum! {
    /// A command of the control plane (dataplane/SPEC.md, D-37 to D-39). A call; answered by [`SwitchStatus`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SwitchCommand {
        /// Only tell.
        1 => Status,
        /// Begin a tracking epoch.
        2 => Epoch {
            /// Which.
            epoch: TrackingEpoch,
        },
        /// Every shard has its held entries acknowledged in this epoch.
        3 => Complete {
            /// Which.
            epoch: TrackingEpoch,
        },
        /// This shard's removes of lower terms are ignored from now on.
        4 => Raise {
            /// Whose.
            shard: ShardId,
            /// Its present term.
            term: Term,
        },
    }
}

wire_struct! {
    /// The state of a switch after a command.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SwitchStatus {
        /// Names its life: another one has forgotten everything.
        pub boot: u64,
        /// Its tracking epoch; 0 is none.
        pub epoch: TrackingEpoch,
        /// Whether that is complete.
        pub complete: bool,
    }
}
