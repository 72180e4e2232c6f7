//! What decided transactions have yet to do: a start does it, so it is no fault that it is not done.

use super::view::{NameOf, Target};
use onpath_meta::Survey;
use onpath_wire::ids::{InodeId, TxnId};
use onpath_wire::inode::Kind;
use onpath_wire::map::ClusterMap;
use onpath_wire::name::Name;
use onpath_wire::peer::{InodeChange, PartState, TxnPart};
use std::collections::{BTreeMap, BTreeSet};

/// The effects of decisions on their way.
#[derive(Default)]
pub(super) struct Promised {
    /// Names that will go: their inodes have others already.
    pub(super) names: BTreeSet<NameOf>,
    /// Names that will lead to another inode.
    pub(super) swaps: BTreeMap<NameOf, Target>,
    /// Changes of nlink.
    pub(super) links: BTreeMap<InodeId, i64>,
    /// Changes of what files say of their names: how many more in a directory.
    pub(super) dirs: BTreeMap<InodeId, BTreeMap<InodeId, i64>>,
    /// Directories that will go: they have no name any more.
    pub(super) removed: BTreeSet<InodeId>,
    /// New parents of directories, and their names there.
    pub(super) moved: BTreeMap<InodeId, NameOf>,
}

impl Promised {
    /// What these shards have promised, of what is decided.
    pub(super) fn of(surveys: &[Survey], decided: &BTreeSet<TxnId>, map: &ClusterMap) -> Promised {
        let mut promised = Promised::default();
        let promises =
            surveys.iter().flat_map(|survey| survey.prepared.iter().map(move |promise| (survey.shard, promise)));
        for (shard, promise) in promises.filter(|(_, promise)| decided.contains(&promise.txn)) {
            for (part, state) in promise.parts.iter().zip(&promise.states) {
                promised.part(part);
                // An inode with its home elsewhere hears of it in another way, and may have moved on since.
                if let PartState::Source { child, kind, .. } = state
                    && map.home(*child) == shard
                    && let Some((from, to, name)) = goes(part)
                {
                    promised.moves(*child, from, to, Some(name).filter(|_| *kind == Kind::Directory));
                }
            }
        }
        promised
    }

    fn part(&mut self, part: &TxnPart) {
        match part {
            TxnPart::Source { parent, name, .. } => _ = self.names.insert((*parent, name.clone())),
            TxnPart::Swap { parent, name, child, kind, .. } => {
                self.swaps.insert((*parent, name.clone()), Target { child: *child, kind: *kind });
            }
            TxnPart::Inode { id, change, .. } => match change {
                InodeChange::Link { parent } => self.link(*id, *parent, 1),
                InodeChange::Unlink { parent } | InodeChange::Replace { parent } => self.link(*id, *parent, -1),
                InodeChange::Move { from, to, name } => self.moves(*id, *from, *to, name.as_ref()),
                InodeChange::RemoveDir => _ = self.removed.insert(*id),
            },
            // An intention, which is over when it is decided.
            TxnPart::Put { .. } | TxnPart::Asked { .. } => {}
        }
    }

    fn link(&mut self, id: InodeId, dir: InodeId, more: i64) {
        *self.links.entry(id).or_default() += more;
        *self.dirs.entry(id).or_default().entry(dir).or_default() += more;
    }

    /// `name`: the new one, of a directory.
    fn moves(&mut self, id: InodeId, from: InodeId, to: InodeId, name: Option<&Name>) {
        if let Some(name) = name {
            self.moved.insert(id, (to, name.clone()));
        } else {
            let dirs = self.dirs.entry(id).or_default();
            *dirs.entry(from).or_default() -= 1;
            *dirs.entry(to).or_default() += 1;
        }
    }
}

/// Where what the source name leads to comes from, goes to, and what it is called there.
fn goes(part: &TxnPart) -> Option<(InodeId, InodeId, &Name)> {
    match part {
        TxnPart::Source { parent, to, to_name, .. } | TxnPart::Swap { parent, to, to_name, .. } => {
            Some((*parent, *to, to_name))
        }
        TxnPart::Inode { .. } | TxnPart::Put { .. } | TxnPart::Asked { .. } => None,
    }
}
