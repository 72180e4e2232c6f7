//! What a path node asks of an index.

use crate::types::{Access, DirId, Directory, Grant, IndexError, NameBuf, Part};
use crate::walk::{Ask, Check, Walk};

/// What [`Index::bind`] did beside binding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bound {
    /// What was known of the directory until now.
    pub before: Option<Part>,
    /// Another directory had this name, and is not held any longer.
    pub displaced: Option<Part>,
}

/// What an index takes, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// All that it has allocated or was given.
    pub reserved: usize,
    /// What of it was written to at some time: the rest costs address space only, if the system gives memory when it is touched.
    pub touched: usize,
}

/// Directories that are held, each by its id, the id of its parent and its name.
///
/// A directory may be held while its parent is not: paths do not lead to it then, ids do. No index decides who may: that says the
/// [`Check`] of who walks. What is refused changes nothing.
pub trait Index {
    /// Holds a directory from now on under this parent and name, with this access part and grant, whatever was known of it. A directory that
    /// had this place is held no longer. Its children stay what they are: they are bound to its id. [`IndexError::Circle`] if it would lie below
    /// itself: to see that, all directories above the parent are looked at if the directory has held children.
    fn bind(&mut self, directory: &Directory<'_>) -> Result<Bound, IndexError>;

    /// Changes the access part and the grant of a directory; none is held by this id: false.
    fn set_access(&mut self, id: DirId, access: Access, grant: Grant) -> Result<bool, IndexError>;

    /// Holds a directory no longer. What is below it stays, and paths lead there again once the directory is bound again.
    fn remove(&mut self, id: DirId) -> Option<Part>;

    /// A directory by its id.
    fn get(&self, id: DirId) -> Option<Part>;

    /// The name of a directory.
    fn name(&self, id: DirId) -> Option<NameBuf>;

    /// A directory by its name in its parent, which need not be held.
    fn child(&self, parent: DirId, name: &[u8]) -> Option<Part>;

    /// Follows a path from a directory: asks `check` for each directory in which it looks, EACCES comes before ENOENT. The last directory
    /// counts as used.
    fn walk<C: Check>(&mut self, from: DirId, path: &[u8], check: &mut C) -> Walk;

    /// Walks several paths side by side: while one waits for memory, others go on. The answers are as of one after the other.
    fn walk_many<C: Check>(&mut self, asks: &mut [Ask<'_, C>]) {
        for ask in asks {
            ask.walk = self.walk(ask.from, ask.path, &mut ask.check);
        }
    }

    /// At most `count` directories to be given up next, with the grants to be told to their homes: never the root nor one with held children,
    /// those that were not used lately first. Who gets them removes them.
    fn candidates(&mut self, count: usize, found: &mut alloc::vec::Vec<(DirId, Grant)>);

    /// Gives up at most `count` directories; how many.
    fn give_up(&mut self, count: usize) -> usize {
        let mut candidates = alloc::vec::Vec::new();
        self.candidates(count, &mut candidates);
        candidates.iter().filter(|(id, _)| self.remove(*id).is_some()).count()
    }

    /// Calls `each` for all directories, in no order that means anything.
    fn each(&self, each: &mut dyn FnMut(&Directory<'_>));

    /// Directories that are held.
    fn len(&self) -> usize;

    /// Whether none is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What it takes of memory, exactly.
    fn memory(&self) -> Memory;
}
