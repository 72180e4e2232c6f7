//! The tree as an index.

use crate::nodes::Ref;
use crate::tree::{Flavor, Tree};
use crate::value::Value;
use alloc::vec::Vec;
use onpath_index::{Access, Bound, Check, DirId, Directory, Grant, Index, IndexError, Memory, NameBuf, Part, Walk};

/// Directories that were taken out, parents first, with their names one after the other.
#[derive(Default)]
struct TakenOut {
    entries: Vec<(Ref, DirId, u8)>,
    names: Vec<u8>,
}

impl<F: Flavor> Tree<F> {
    /// Whether `entry` is `below` or above it.
    fn is_above(&self, entry: Ref, below: Ref) -> bool {
        core::iter::successors(Some(below), |&at| self.above(at)).any(|at| at == entry)
    }

    /// Takes out all that is below a directory, if that cannot stay where it is.
    fn take_below(&mut self, entry: Ref) -> TakenOut {
        let mut taken = TakenOut::default();
        if F::RELOCATES || self.is_childless(entry) {
            return taken;
        }
        self.in_order(entry, &mut |tree, at| {
            let (name, above) = (tree.name_of(at), tree.above(at));
            let parent = above.map_or(DirId::NONE, |above| tree.value(above).id());
            taken.entries.push((at, parent, name.as_bytes().len() as u8));
            taken.names.extend_from_slice(name.as_bytes());
            true
        });
        for &(below, ..) in taken.entries.iter().rev() {
            self.cut(below);
        }
        taken
    }

    /// Puts in again what was taken out.
    fn put_below(&mut self, taken: &TakenOut) {
        let mut names = &taken.names[..];
        for &(entry, parent, len) in &taken.entries {
            let (name, rest) = names.split_at(len.into());
            names = rest;
            let parent = self.entry(parent).expect("parents come first");
            self.link(parent, name, entry);
        }
    }

    /// Lets a directory hang nowhere. Its ghost stays if there is something below it.
    fn take_off(&mut self, entry: Ref) {
        if self.is_childless(entry) {
            self.cut(entry);
            return self.forget(entry);
        }
        let taken = self.take_below(entry);
        self.cut(entry);
        self.value_mut(entry).set_ghost(true);
        self.put_below(&taken);
    }

    /// Puts a directory to its place, which is free; what was below its ghost or itself comes along. Two ids are reserved.
    fn place(&mut self, directory: &Directory<'_>) {
        let Directory { id, parent, name, access, grant } = *directory;
        let entry = self.entry(id).unwrap_or_else(|| self.new_entry(Value::new(id, access, grant)));
        let has_more = !self.is_childless(entry);
        // From now on it is no ghost, which would be gone with the last directory below it.
        self.value_mut(entry).set_ghost(false);
        let taken = self.take_below(entry);
        self.cut(entry);
        if parent != DirId::NONE {
            let above = self.entry(parent).unwrap_or_else(|| self.new_entry(Value::ghost(parent)));
            self.link(above, name, entry);
        }
        self.put_below(&taken);
        let changed = if has_more { self.change() } else { self.now };
        let value = self.value_mut(entry);
        value.set(access, grant);
        (value.changed, value.computed) = (changed, 0);
    }
}

impl<F: Flavor> Index for Tree<F> {
    fn bind(&mut self, directory: &Directory<'_>) -> Result<Bound, IndexError> {
        directory.check()?;
        let own = self.entry(directory.id);
        let above = self.entry(directory.parent);
        let there = above.and_then(|above| self.find(above, directory.name));
        let before = own.filter(|&own| !self.value(own).is_ghost()).map(|own| self.part(own));
        if let Some(own) = own
            && before.is_some()
            && (there == Some(own) || directory.parent == DirId::NONE)
        {
            self.set_access(directory.id, directory.access, directory.grant)?;
            return Ok(Bound { before, displaced: None });
        }
        if let (Some(own), Some(above)) = (own, above)
            && self.is_above(own, above)
        {
            return Err(IndexError::Circle);
        }
        if self.nodes.is_full() {
            return Err(IndexError::Full);
        }
        self.ids.reserve([directory.id, directory.parent])?;
        let displaced = there.map(|there| self.value(there).id()).and_then(|id| self.remove(id));
        self.place(directory);
        self.len += usize::from(before.is_none());
        Ok(Bound { before, displaced })
    }

    fn set_access(&mut self, id: DirId, access: Access, grant: Grant) -> Result<bool, IndexError> {
        Directory::root(access, grant).check()?;
        let Some(entry) = self.held(id) else { return Ok(false) };
        let changed = self.change();
        let value = self.value_mut(entry);
        value.set(access, grant);
        (value.changed, value.computed) = (changed, 0);
        Ok(true)
    }

    fn remove(&mut self, id: DirId) -> Option<Part> {
        let entry = self.held(id)?;
        let part = self.part(entry);
        self.take_off(entry);
        self.len -= 1;
        Some(part)
    }

    fn get(&self, id: DirId) -> Option<Part> {
        self.held(id).map(|entry| self.part(entry))
    }

    fn name(&self, id: DirId) -> Option<NameBuf> {
        self.held(id).map(|entry| self.name_of(entry))
    }

    fn child(&self, parent: DirId, name: &[u8]) -> Option<Part> {
        // A slash would lead on to what is below the child.
        let above = self.entry(parent).filter(|_| !name.contains(&b'/'))?;
        self.find(above, name).map(|entry| self.part(entry))
    }

    fn walk<C: Check>(&mut self, from: DirId, path: &[u8], check: &mut C) -> Walk {
        self.walk_path(from, path, check)
    }

    fn candidates(&mut self, count: usize, found: &mut Vec<(DirId, Grant)>) {
        // In two rounds everybody is seen twice. Who is found counts as used: it is not found again unless it stays.
        let end = found.len().saturating_add(count);
        for _ in 0..2 * self.nodes.round() + 2 {
            if found.len() == end {
                return;
            }
            let Some(node) = self.nodes.next_value(&mut self.hand) else {
                self.hand = (0, 0);
                continue;
            };
            let Some(&value) = self.nodes.value(node).filter(|value| value.is_held()) else { continue };
            if value.id() == DirId::ROOT || !self.is_childless(node) {
                continue;
            }
            self.value_mut(node).set_used(!value.is_used());
            if !value.is_used() {
                found.push((value.id(), value.grant()));
            }
        }
    }

    fn each(&self, each: &mut dyn FnMut(&Directory<'_>)) {
        let mut cursor = (0, 0);
        while let Some(node) = self.nodes.next_value(&mut cursor) {
            if self.nodes.value(node).is_some_and(Value::is_held) {
                let (Part { id, parent, access, grant }, name) = (self.part(node), self.name_of(node));
                each(&Directory { id, parent, name: name.as_bytes(), access, grant });
            }
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn memory(&self) -> Memory {
        let (nodes, ids) = (self.nodes.memory(), self.ids.memory());
        let way = self.way.capacity() * size_of::<(Ref, usize)>();
        Memory { reserved: nodes.0 + ids.0 + way, touched: nodes.1 + ids.1 + way }
    }
}
