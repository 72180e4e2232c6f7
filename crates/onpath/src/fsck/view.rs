//! All shards seen as one namespace, with decided transactions carried out in thought.

use super::sorted::{Grouped, Sorted};
use onpath_meta::Survey;
use onpath_wire::hash::site;
use onpath_wire::ids::{InodeId, ShardId, Term};
use onpath_wire::inode::{Inode, Kind};
use onpath_wire::map::ClusterMap;
use onpath_wire::name::Name;
use onpath_wire::peer::{InodeChange, PartState, TxnId, TxnPart};
use onpath_wire::superblock::Superblock;
use std::collections::{BTreeMap, BTreeSet};

/// Longest path that is made for a message, names.
const PATH_NAMES_MAX: usize = 512;

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) child: InodeId,
    pub(super) kind: Kind,
}

/// A name with its directory.
pub(super) type NameOf<'a> = (InodeId, &'a Name);

/// What decided transactions have yet to do.
#[derive(Default)]
pub(super) struct Promised<'a> {
    /// Names that will go: their inodes have others already.
    pub(super) names: BTreeSet<NameOf<'a>>,
    /// Names that will lead to another inode.
    pub(super) swaps: BTreeMap<NameOf<'a>, Target>,
    /// Changes of nlink.
    pub(super) links: BTreeMap<InodeId, i64>,
    /// Directories that will go: they have no name any more.
    pub(super) removed: BTreeSet<InodeId>,
    /// New parents.
    pub(super) moved: BTreeMap<InodeId, InodeId>,
}

/// One namespace.
pub(super) struct View<'a> {
    pub(super) map: ClusterMap,
    pub(super) next_term: Term,
    pub(super) surveys: &'a [Survey],
    /// Inodes at their homes.
    pub(super) inodes: Sorted<InodeId, &'a Inode>,
    /// Names at their sites.
    pub(super) names: Sorted<NameOf<'a>, Target>,
    /// Names of each inode, without those that a decided transaction removes.
    names_of: Grouped<InodeId, NameOf<'a>>,
    /// Decisions on their way.
    pub(super) decided: BTreeSet<TxnId>,
    pub(super) promised: Promised<'a>,
}

impl<'a> View<'a> {
    pub(super) fn new(superblock: &Superblock, surveys: &'a [Survey]) -> View<'a> {
        let map = ClusterMap::even(superblock.shards);
        let decided: BTreeSet<TxnId> = surveys.iter().flat_map(|s| s.decided.iter().map(|(txn, _)| *txn)).collect();
        let promised = promised(surveys, &decided, &map);
        let mut inodes = Vec::with_capacity(surveys.iter().map(|survey| survey.inodes.len()).sum());
        let mut names = Vec::with_capacity(surveys.iter().map(|survey| survey.names.len()).sum());
        for survey in surveys {
            let home = survey.inodes.iter().filter(|inode| map.home(inode.id) == survey.shard);
            inodes.extend(home.map(|inode| (inode.id, inode)));
            let here = survey.names.iter().filter(|n| map.shard(site(n.parent, n.name.as_bytes())) == survey.shard);
            names.extend(here.map(|n| ((n.parent, &n.name), Target { child: n.child, kind: n.kind })));
        }
        let (inodes, names) = (Sorted::of(inodes), Sorted::of(names));
        let mut links = Vec::with_capacity(surveys.iter().map(|survey| survey.names.len()).sum());
        for (name, target) in names.iter().filter(|(name, _)| !promised.names.contains(*name)) {
            links.push((promised.swaps.get(name).unwrap_or(target).child, *name));
        }
        let names_of = Grouped::of(links);
        View { next_term: Term(superblock.next_term), map, surveys, inodes, names, names_of, decided, promised }
    }

    /// The shard's survey.
    pub(super) fn survey(&self, shard: ShardId) -> Option<&'a Survey> {
        self.surveys.get(shard.0 as usize)
    }

    /// The directory, if it exists and is not removed.
    pub(super) fn directory(&self, id: InodeId) -> Option<&'a Inode> {
        self.inodes.get(&id).copied().filter(|inode| inode.is_dir() && inode.nlink > 0)
    }

    /// Names of an inode.
    pub(super) fn names_of(&self, id: InodeId) -> &[NameOf<'a>] {
        self.names_of.get(&id)
    }

    /// A path of an inode, if names lead to it from the root.
    pub(super) fn path(&self, id: InodeId) -> Option<String> {
        let mut names = Vec::new();
        let mut at = id;
        while at != InodeId::ROOT {
            let (parent, name) = self.names_of(at).first()?;
            names.push(String::from_utf8_lossy(name.as_bytes()));
            at = *parent;
            if names.len() > PATH_NAMES_MAX {
                return None;
            }
        }
        names.reverse();
        Some(format!("/{}", names.join("/")))
    }

    /// A path of a name.
    pub(super) fn path_in(&self, parent: InodeId, name: &Name) -> Option<String> {
        let name = String::from_utf8_lossy(name.as_bytes());
        self.path(parent).map(|path| if path == "/" { format!("/{name}") } else { format!("{path}/{name}") })
    }
}

fn promised<'a>(surveys: &'a [Survey], decided: &BTreeSet<TxnId>, map: &ClusterMap) -> Promised<'a> {
    let mut promised = Promised::default();
    let promises = surveys.iter().flat_map(|survey| survey.prepared.iter().map(move |promise| (survey.shard, promise)));
    for (shard, promise) in promises.filter(|(_, promise)| decided.contains(&promise.txn)) {
        for (part, state) in promise.parts.iter().zip(&promise.states) {
            match part {
                TxnPart::Source { parent, name, to, .. } => {
                    promised.names.insert((*parent, name));
                    // An inode with its home elsewhere hears of it in another way, and may have moved on since.
                    if let PartState::Source { child, .. } = state
                        && map.home(*child) == shard
                    {
                        promised.moved.insert(*child, *to);
                    }
                }
                TxnPart::Swap { parent, name, to, child, kind, .. } => {
                    promised.swaps.insert((*parent, name), Target { child: *child, kind: *kind });
                    if let PartState::Source { child, .. } = state
                        && map.home(*child) == shard
                    {
                        promised.moved.insert(*child, *to);
                    }
                }
                TxnPart::Inode { id, change, .. } => match change {
                    InodeChange::Link | InodeChange::Name { .. } => *promised.links.entry(*id).or_default() += 1,
                    InodeChange::Unlink | InodeChange::Replace => *promised.links.entry(*id).or_default() -= 1,
                    InodeChange::Move { parent, .. } => {
                        promised.moved.insert(*id, *parent);
                    }
                    InodeChange::RemoveDir => {
                        promised.removed.insert(*id);
                    }
                },
            }
        }
    }
    promised
}
