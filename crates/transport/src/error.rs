//! Why a message is not taken, and why a datagram is not.

use thiserror::Error;

/// Why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    /// Longer than a message, or the one datagram it should fit.
    #[error("{bytes} bytes, at most {max} fit")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// Length allowed.
        max: usize,
    },
    /// Too much waits for this peer.
    #[error("too much waits for this peer")]
    Full,
    /// The peer's present start is not known yet.
    #[error("the peer's boot is not known")]
    NoBoot,
    /// All numbers of datagrams are used.
    #[error("no datagram number is left")]
    Exhausted,
}

macro_rules! receive_errors {
    ($($(#[$doc:meta])* $name:ident $({ $field:ident : $t:ty })? $(($inner:ty))?, $counter:literal, $text:literal;)*) => {
        /// Why a datagram is dropped. Nothing of it had an effect.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
        pub enum ReceiveError {
            $($(#[$doc])* #[error($text)] $name $({
                /// What it says.
                $field: $t
            })? $(($inner))?,)*
        }

        impl ReceiveError {
            /// The names of the counters of all kinds.
            pub const NAMES: &[&str] = &[$($counter),*];

            /// The place of its kind among [`ReceiveError::NAMES`].
            pub fn index(&self) -> usize {
                enum Place { $($name),* }
                match self { $(ReceiveError::$name { .. } => Place::$name as usize),* }
            }
        }
    };
}

receive_errors! {
    /// Shorter than a header and tag.
    Truncated, "dropped_truncated", "datagram is truncated";
    /// Longer than any datagram.
    Oversized, "dropped_oversized", "datagram is too long";
    /// Magic or version are others.
    NotOnpath, "dropped_not_onpath", "not an Onpath datagram of this version";
    /// A flag that this version does not know.
    UnknownFlags(u8), "dropped_unknown_flags", "unknown flags {0:#x}";
    /// Of another cluster.
    Cluster(u32), "dropped_cluster", "datagram of cluster {0}";
    /// Of another endpoint than the one asked.
    Endpoint(u32), "dropped_endpoint", "datagram of endpoint {0:#x}";
    /// A value in the header that is not allowed there.
    Head(&'static str), "dropped_head", "bad {0} in the header of a datagram";
    /// Not sealed, although there is a key.
    NotSealed, "dropped_not_sealed", "datagram is not sealed";
    /// Sealed, although there is no key.
    Sealed, "dropped_sealed", "datagram is sealed and there is no key";
    /// From another start of the peer than the present one: time for a handshake. Nothing is verified yet.
    ForeignBoot { boot: u64 }, "dropped_foreign_boot", "datagram of boot {boot:#x} of the peer";
    /// For another start of ours, or for none: the sender must hear of this one. Nothing is verified yet.
    StaleBoot { to_boot: u64 }, "dropped_stale_boot", "datagram for our boot {to_boot:#x}";
    /// The checksum differs.
    Checksum, "dropped_checksum", "checksum of a datagram differs";
    /// Sealed with a key that is not among ours.
    OtherKey, "dropped_other_key", "datagram is sealed with another key";
    /// The tag differs: changed, or sealed by who has not the key.
    Forged, "dropped_forged", "datagram does not open with the key";
    /// Seen before.
    Duplicate, "dropped_duplicate", "datagram was seen before";
    /// Too old to know whether it was seen before.
    Old, "dropped_old", "datagram is older than the window";
    /// A part that this version does not know.
    UnknownPart(u8), "dropped_unknown_part", "unknown part {0} of a datagram";
    /// A part with a value or length that is not allowed.
    Part(&'static str), "dropped_part", "bad {0} in a part of a datagram";
    /// A fragment that contradicts earlier ones of its message.
    Conflict, "dropped_conflict", "fragment contradicts earlier ones";
}
