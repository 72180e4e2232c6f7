//! Changes of the model, each with what it takes to go back and forth over it.

use super::decide::Change;
use super::{Leads, Model, NameKey, Node, REMOVED_MAX};
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use smallvec::SmallVec;

/// The other side of a change: what stood in its places before it (or, when taken back, after it).
#[derive(Clone, Debug, Default)]
pub struct Delta {
    nodes: SmallVec<[(InodeId, Option<Node>); 4]>,
    names: SmallVec<[(NameKey, Option<Leads>); 2]>,
}

impl Delta {
    /// Whether an inode was changed.
    pub fn touches(&self, id: InodeId) -> bool {
        self.nodes.iter().any(|(touched, _)| *touched == id)
    }
}

impl Model {
    /// Applies a decided change. `id` is the one that the system chose for a created inode; it must be new.
    pub fn apply(&mut self, change: &Change, id: Option<InodeId>) -> Result<Delta, String> {
        let mut delta = Delta::default();
        match change {
            Change::Nothing => {}
            Change::Create { parent, name, node } => {
                let id = self.born(&mut delta, id, node)?;
                self.put_name(&mut delta, self.key(*parent, name), Leads { child: id, kind: node.kind });
                self.dir_changes(&mut delta, *parent, 1, i32::from(node.kind == Kind::Directory));
            }
            Change::Nameless { node } => {
                let id = self.born(&mut delta, id, node)?;
                self.removed.push_back(id);
            }
            Change::Link { id, parent, name } => {
                let node = self.edit(&mut delta, *id);
                node.nlink += 1;
                node.linkable = false;
                node.touch();
                let kind = node.kind;
                self.put_name(&mut delta, self.key(*parent, name), Leads { child: *id, kind });
                self.dir_changes(&mut delta, *parent, 1, 0);
            }
            Change::Remove { parent, name, id } => {
                let is_dir = self.nodes[id].is_dir();
                self.drop_name(&mut delta, self.key(*parent, name));
                self.dir_changes(&mut delta, *parent, -1, -i32::from(is_dir));
                self.unlinked(&mut delta, *id);
            }
            Change::Rename { .. } => self.apply_rename(&mut delta, change, id)?,
            Change::Exchange { from_parent, from, parent, name } => {
                self.exchange(&mut delta, (*from_parent, from), (*parent, name));
            }
            Change::Attributes { id, node } => *self.edit(&mut delta, *id) = (**node).clone(),
        }
        Ok(delta)
    }

    /// A new inode; its id is the system's choice.
    fn born(&mut self, delta: &mut Delta, id: Option<InodeId>, node: &Node) -> Result<InodeId, String> {
        let id = id.ok_or("a create whose record makes no inode")?;
        if !id.is_some() || self.nodes.contains_key(&id) {
            return Err(format!("inode id {id:?} is given out a second time"));
        }
        delta.nodes.push((id, None));
        self.nodes.insert(id, node.clone());
        Ok(id)
    }

    fn exchange(&mut self, delta: &mut Delta, one: (InodeId, &Name), other: (InodeId, &Name)) {
        let leads =
            [one, other].map(|(parent, name)| self.find(parent, name).expect("decided on names that are there"));
        for ((parent, name), (comes, goes)) in [(one, (leads[1], leads[0])), (other, (leads[0], leads[1]))] {
            self.put_name(delta, self.key(parent, name), comes);
            let is_dir = |leads: Leads| i32::from(leads.kind == Kind::Directory);
            self.dir_changes(delta, parent, 0, is_dir(comes) - is_dir(goes));
            let node = self.edit(delta, comes.child);
            node.touch();
            if comes.kind == Kind::Directory {
                node.parent = parent;
            }
        }
    }

    fn apply_rename(&mut self, delta: &mut Delta, change: &Change, born: Option<InodeId>) -> Result<(), String> {
        let Change::Rename { from_parent, from, parent, name, id, replaced, whiteout } = change else {
            unreachable!("only renames come here")
        };
        let kind = self.nodes[id].kind;
        let is_dir = i32::from(kind == Kind::Directory);
        if let Some(whiteout) = whiteout {
            let child = self.born(delta, born, whiteout)?;
            self.put_name(delta, self.key(*from_parent, from), Leads { child, kind: whiteout.kind });
            self.dir_changes(delta, *from_parent, 0, -is_dir);
        } else {
            self.drop_name(delta, self.key(*from_parent, from));
            self.dir_changes(delta, *from_parent, -1, -is_dir);
        }
        let (mut added, mut links) = (1, is_dir);
        if let Some(old) = replaced {
            added = 0;
            links -= i32::from(self.nodes[old].is_dir());
            self.unlinked(delta, *old);
        }
        self.put_name(delta, self.key(*parent, name), Leads { child: *id, kind });
        self.dir_changes(delta, *parent, added, links);
        let node = self.edit(delta, *id);
        node.touch();
        if kind == Kind::Directory {
            node.parent = *parent;
        }
        Ok(())
    }

    /// Goes over a change the other way: back if it stands, forth if it was taken back.
    pub fn swap(&mut self, delta: &mut Delta) {
        for (id, other) in &mut delta.nodes {
            let now = match other.take() {
                Some(node) => self.nodes.insert(*id, node),
                None => self.nodes.remove(id),
            };
            *other = now;
        }
        for (key, other) in &mut delta.names {
            let now = match other.take() {
                Some(leads) => self.names.insert(key.clone(), leads),
                None => self.names.remove(key),
            };
            *other = now;
        }
    }

    /// The node, to be changed; what it was is noted at the first change.
    fn edit(&mut self, delta: &mut Delta, id: InodeId) -> &mut Node {
        let node = self.nodes.get_mut(&id).expect("decided on a live inode");
        if !delta.nodes.iter().any(|(noted, _)| *noted == id) {
            delta.nodes.push((id, Some(node.clone())));
        }
        node
    }

    fn dir_changes(&mut self, delta: &mut Delta, dir: InodeId, entries: i64, links: i32) {
        let dir = self.edit(delta, dir);
        dir.entries = dir.entries.checked_add_signed(entries).expect("entry counts are sums of names");
        dir.nlink = dir.nlink.checked_add_signed(links).expect("links are sums of subdirectories");
        dir.modify();
    }

    fn unlinked(&mut self, delta: &mut Delta, id: InodeId) {
        let node = self.edit(delta, id);
        node.nlink = if node.is_dir() { 0 } else { node.nlink - 1 };
        node.touch();
        if node.nlink == 0 {
            self.removed.push_back(id);
        }
    }

    /// Forgets the oldest removed inodes; not while a delta may bring them back, and none that `keep` names.
    pub fn forget_removed(&mut self, mut keep: impl FnMut(InodeId) -> bool) {
        for _ in REMOVED_MAX..self.removed.len() {
            let Some(id) = self.removed.pop_front() else { return };
            if self.nodes.get(&id).is_none_or(|node| node.nlink != 0) {
                continue;
            }
            if keep(id) {
                self.removed.push_back(id);
            } else {
                self.nodes.remove(&id);
            }
        }
    }

    fn put_name(&mut self, delta: &mut Delta, key: NameKey, leads: Leads) {
        let before = self.names.insert(key.clone(), leads);
        delta.names.push((key, before));
    }

    fn drop_name(&mut self, delta: &mut Delta, key: NameKey) {
        let before = self.names.remove(&key);
        assert!(before.is_some(), "decided on a name that is there");
        delta.names.push((key, before));
    }
}
