//! The naive tree with which every index is compared: two ordered maps, and nothing clever.

use onpath_index::{
    Access, Bound, Check, Components, DirId, Directory, End, Grant, Index, IndexError, Memory, NameBuf, Part, Search,
    Walk,
};
use std::collections::BTreeMap;

/// See the file's comment.
#[derive(Default)]
pub(crate) struct Naive {
    by_id: BTreeMap<DirId, (Part, Vec<u8>)>,
    by_name: BTreeMap<(DirId, Vec<u8>), DirId>,
}

impl Naive {
    /// Whether `id` is `at` or above it.
    pub(crate) fn is_above(&self, id: DirId, mut at: DirId) -> bool {
        while at != id {
            let Some((part, _)) = self.by_id.get(&at) else { return false };
            at = part.parent;
        }
        true
    }

    /// Whether it has a child that is held.
    pub(crate) fn is_leaf(&self, id: DirId) -> bool {
        self.by_name.range((id, vec![])..).next().is_none_or(|((parent, _), _)| *parent != id)
    }

    /// All that can be given up.
    pub(crate) fn leaves(&self) -> Vec<DirId> {
        self.by_id.keys().copied().filter(|&id| id != DirId::ROOT && self.is_leaf(id)).collect()
    }
}

impl Index for Naive {
    fn bind(&mut self, directory: &Directory<'_>) -> Result<Bound, IndexError> {
        directory.check()?;
        if self.is_above(directory.id, directory.parent) {
            return Err(IndexError::Circle);
        }
        let before = self.remove(directory.id);
        let there = (directory.parent, directory.name.to_vec());
        let displaced = self.by_name.get(&there).copied().and_then(|id| self.remove(id));
        self.by_name.insert(there, directory.id);
        self.by_id.insert(directory.id, (directory.part(), directory.name.to_vec()));
        Ok(Bound { before, displaced })
    }

    fn set_access(&mut self, id: DirId, access: Access, grant: Grant) -> Result<bool, IndexError> {
        Directory::root(access, grant).check()?;
        let Some((part, _)) = self.by_id.get_mut(&id) else { return Ok(false) };
        (part.access, part.grant) = (access, grant);
        Ok(true)
    }

    fn remove(&mut self, id: DirId) -> Option<Part> {
        let (part, name) = self.by_id.remove(&id)?;
        self.by_name.remove(&(part.parent, name));
        Some(part)
    }

    fn get(&self, id: DirId) -> Option<Part> {
        self.by_id.get(&id).map(|(part, _)| *part)
    }

    fn name(&self, id: DirId) -> Option<NameBuf> {
        self.by_id.get(&id).map(|(_, name)| NameBuf::new(name))
    }

    fn child(&self, parent: DirId, name: &[u8]) -> Option<Part> {
        self.get(*self.by_name.get(&(parent, name.to_vec()))?).filter(|_| parent != DirId::NONE)
    }

    fn walk<C: Check>(&mut self, from: DirId, path: &[u8], check: &mut C) -> Walk {
        let Some(mut part) = self.get(from) else { return Walk::NO_START };
        let mut depth = 0;
        for next in Components::new(path) {
            let end = match check.search(part.id, &part.access) {
                Search::Denied => Some(End::Denied),
                Search::Unknown => Some(End::Unknown),
                Search::Allowed => self.child(part.id, next.name).is_none().then_some(End::Missing),
            };
            if let Some(end) = end {
                return Walk { end, last: Some(part), at: next.at, depth, speculated: false };
            }
            part = self.child(part.id, next.name).expect("it was found");
            depth += 1;
        }
        Walk { end: End::Found, last: Some(part), at: path.len(), depth, speculated: false }
    }

    fn candidates(&mut self, count: usize, found: &mut Vec<(DirId, Grant)>) {
        found.extend(self.leaves().into_iter().take(count).map(|id| (id, self.by_id[&id].0.grant)));
    }

    fn each(&self, each: &mut dyn FnMut(&Directory<'_>)) {
        for (part, name) in self.by_id.values() {
            let Part { id, parent, access, grant } = *part;
            each(&Directory { id, parent, name, access, grant });
        }
    }

    fn len(&self) -> usize {
        self.by_id.len()
    }

    fn memory(&self) -> Memory {
        Memory::default()
    }
}
