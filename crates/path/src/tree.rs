//! Which index a path node has.

use onpath_index::{
    Access, Ask, Bound, Check, DirId, Directory, Grant, Hi, Index, IndexError, Memory, NameBuf, Part, Secret, Slabs,
    Walk,
};
use onpath_mart::{Art, Mart};

/// An index that a path node can have. All of them say the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexKind {
    /// Records in a hash table ([`Hi`]), the fastest.
    #[default]
    Hi,
    /// A tree of whole paths whose inner nodes have values ([`Mart`]), as SPMeta has it.
    Mart,
    /// A tree of whole paths with values in its leaves alone ([`Art`]).
    Art,
}

impl IndexKind {
    /// All of them.
    pub const ALL: [IndexKind; 3] = [IndexKind::Hi, IndexKind::Mart, IndexKind::Art];

    /// What people call it.
    pub fn word(self) -> &'static str {
        match self {
            IndexKind::Hi => "hi",
            IndexKind::Mart => "mart",
            IndexKind::Art => "art",
        }
    }

    /// Bytes of memory with which it holds something: with half of them it holds nothing.
    pub fn bytes_min(self) -> usize {
        match self {
            IndexKind::Hi => 128 << 10,
            IndexKind::Mart | IndexKind::Art => 1 << 20,
        }
    }

    /// That of a word.
    pub fn of_word(word: &str) -> Option<IndexKind> {
        IndexKind::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// The index that a path node has.
pub(crate) enum Tree {
    Hi(Hi<Box<dyn Slabs + Send>>),
    Mart(Mart),
    Art(Art),
}

impl Tree {
    /// An empty one. `slabs` give memory to a [`Hi`]; trees take it from the allocator.
    pub(crate) fn new(kind: IndexKind, key: [u8; 16], memory_bytes: usize, slabs: Box<dyn Slabs + Send>) -> Tree {
        let secret = Secret::new(key);
        // Trees have a table of ids beside their nodes, each of which may take as much.
        match kind {
            IndexKind::Hi => Tree::Hi(Hi::new(secret, slabs, memory_bytes)),
            IndexKind::Mart => Tree::Mart(Mart::new(secret, memory_bytes / 2)),
            IndexKind::Art => Tree::Art(Art::new(secret, memory_bytes / 2)),
        }
    }
}

/// Asks whichever it is.
macro_rules! each {
    ($tree:expr, $index:ident => $does:expr) => {
        match $tree {
            Tree::Hi($index) => $does,
            Tree::Mart($index) => $does,
            Tree::Art($index) => $does,
        }
    };
}

impl Index for Tree {
    fn bind(&mut self, directory: &Directory<'_>) -> Result<Bound, IndexError> {
        each!(self, index => index.bind(directory))
    }

    fn set_access(&mut self, id: DirId, access: Access, grant: Grant) -> Result<bool, IndexError> {
        each!(self, index => index.set_access(id, access, grant))
    }

    fn remove(&mut self, id: DirId) -> Option<Part> {
        each!(self, index => index.remove(id))
    }

    fn get(&self, id: DirId) -> Option<Part> {
        each!(self, index => index.get(id))
    }

    fn name(&self, id: DirId) -> Option<NameBuf> {
        each!(self, index => index.name(id))
    }

    fn child(&self, parent: DirId, name: &[u8]) -> Option<Part> {
        each!(self, index => index.child(parent, name))
    }

    fn walk<C: Check>(&mut self, from: DirId, path: &[u8], check: &mut C) -> Walk {
        each!(self, index => index.walk(from, path, check))
    }

    fn walk_many<C: Check>(&mut self, asks: &mut [Ask<'_, C>]) {
        each!(self, index => index.walk_many(asks));
    }

    fn candidates(&mut self, count: usize, found: &mut Vec<(DirId, Grant)>) {
        each!(self, index => index.candidates(count, found));
    }

    fn each(&self, each: &mut dyn FnMut(&Directory<'_>)) {
        each!(self, index => index.each(each));
    }

    fn len(&self) -> usize {
        each!(self, index => index.len())
    }

    fn memory(&self) -> Memory {
        each!(self, index => index.memory())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_index::Heap;

    /// How many directories of a hundred an index holds.
    fn held(kind: IndexKind, memory_bytes: usize) -> usize {
        let mut tree = Tree::new(kind, [7; 16], memory_bytes, Box::new(Heap));
        let access = Access { mode: 0o755, uid: 0, gid: 0, acl: false };
        for id in 1..=100 {
            let name = if id == 1 { String::new() } else { format!("n{id}") };
            let (id, parent) = (DirId(id), DirId(id / 2));
            let grant = Grant { term: 1, count: id.0 };
            _ = tree.bind(&Directory { id, parent, name: name.as_bytes(), access, grant });
        }
        tree.len()
    }

    #[test]
    fn an_index_needs_some_room_to_hold_anything() {
        for kind in IndexKind::ALL {
            let bytes = kind.bytes_min();
            assert_eq!((held(kind, bytes), held(kind, bytes / 2)), (100, 0), "{}", kind.word());
        }
    }
}
