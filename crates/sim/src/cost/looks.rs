//! What sessions that look at paths ask for, and how they get there.

use super::work::Kind;

/// How a path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Follow {
    /// Name by name, as Tectonic does.
    Serial,
    /// All names at once, as InfiniFS does: there the ids are hashes of paths, here who looks has been told them.
    Parallel,
    /// By a path node, or by the directory server if that is modelled.
    Led,
    /// By ways that the session keeps, and by a path node where they end.
    Kept,
}

/// Why reachability bits do not say that a path may be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallBack {
    /// They are cleared: each directory is checked where the path is followed.
    Checked,
    /// A group decides that is not known of the caller, who is asked.
    Group,
    /// The same, with a client that tells of the group at once.
    GroupTold,
    /// Shards are asked name by name, as SPMeta does.
    Shards,
}

/// Shares of changes among what is asked for; the rest are looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// New files.
    pub create: f64,
    /// Removed ones.
    pub unlink: f64,
    /// New directories.
    pub mkdir: f64,
    /// Directories at the end of a path whose modes change.
    pub chmod: f64,
    /// Directories at the end of a path whose names change.
    pub rename: f64,
}

impl Shares {
    /// Which kind of thing is asked for, for a number from 0 to 1.
    pub(super) fn kind(self, mut drawn: f64) -> Kind {
        let Shares { create, unlink, mkdir, chmod, rename } = self;
        for (kind, share) in [
            (Kind::Create, create),
            (Kind::Unlink, unlink),
            (Kind::Mkdir, mkdir),
            (Kind::Chmod, chmod),
            (Kind::Rename, rename),
        ] {
            if drawn < share {
                return kind;
            }
            drawn -= share;
        }
        Kind::Look
    }
}

/// What sessions ask for.
#[derive(Clone, Debug)]
pub struct Looks {
    /// How paths are followed.
    pub follow: Follow,
    /// Names of each path, drawn anew each time.
    pub depths: Vec<u32>,
    /// A share of the looks for which reachability bits do not suffice.
    pub fall_back: Option<(FallBack, f64)>,
    /// Changes.
    pub shares: Shares,
    /// What is drawn at random comes from it.
    pub seed: u64,
}

impl Looks {
    /// Nothing but looks at paths of so many names.
    pub fn at(depth: u32, follow: Follow, seed: u64) -> Looks {
        Looks { follow, depths: vec![depth], fall_back: None, shares: Shares::default(), seed }
    }
}
