//! The tree: how directories are put into it, taken out and moved.

use crate::nodes::{Nodes, Ref};
use crate::prefix::Prefix;
use crate::value::Value;
use alloc::vec::Vec;
use core::fmt::Debug;
use onpath_index::{DirId, IdMap, NAME_BYTES_MAX, NameBuf, Secret};

/// What tells the two trees apart.
pub trait Flavor: Debug {
    /// What an inner node has of a directory.
    #[doc(hidden)]
    type Value: Embedded;
    /// A directory moves with all that is below it.
    #[doc(hidden)]
    const RELOCATES: bool;
}

/// A value that inner nodes have, or not.
#[doc(hidden)]
pub trait Embedded: Debug + Default {
    /// It, of the value that a node is to have.
    fn of(value: Option<Value>) -> Self;
    /// The value that the node has.
    fn get(&self) -> Option<&Value>;
    /// As [`get`](Embedded::get).
    fn get_mut(&mut self) -> Option<&mut Value>;
}

impl Embedded for Value {
    fn of(value: Option<Value>) -> Value {
        value.unwrap_or_default()
    }
    #[inline]
    fn get(&self) -> Option<&Value> {
        Some(self)
    }
    #[inline]
    fn get_mut(&mut self) -> Option<&mut Value> {
        Some(self)
    }
}

impl Embedded for () {
    fn of(_: Option<Value>) {}
    fn get(&self) -> Option<&Value> {
        None
    }
    fn get_mut(&mut self) -> Option<&mut Value> {
        None
    }
}

/// Inner nodes have values, and directories move with all that is below them.
#[derive(Debug)]
pub struct Embeds;

/// Values are at leaves of their own, and directories are taken out and put in again one by one.
#[derive(Debug)]
pub struct Separate;

impl Flavor for Embeds {
    type Value = Value;
    const RELOCATES: bool = true;
}

impl Flavor for Separate {
    type Value = ();
    const RELOCATES: bool = false;
}

/// The tree of *SPMeta §V*.
pub type Mart = Tree<Embeds>;
/// A plain adaptive radix tree.
pub type Art = Tree<Separate>;

/// The byte by which a leaf with an empty key hangs below its directory's node. No name has it.
const EMPTY: u8 = 0;

/// See the [crate](crate). Where there is an *entry* it is the node that has the directory's value; the *branch* is where what lies below the
/// directory hangs. With embedded values both are one node.
#[derive(Debug)]
pub struct Tree<F: Flavor> {
    pub(crate) nodes: Nodes<F>,
    pub(crate) ids: IdMap,
    pub(crate) len: usize,
    /// Counts changes by which reachability bits may become void.
    pub(crate) now: u32,
    /// Where the search for candidates goes on.
    pub(crate) hand: (u8, u32),
    /// Entries on a way, and where in the path the component after each begins.
    pub(crate) way: Vec<(Ref, usize)>,
}

impl<F: Flavor> Tree<F> {
    /// An empty one that has nodes of at most `limit_bytes`, free ones among them, and a table of ids of at most as much. There are five sizes
    /// of nodes, and more of one are allocated together: less than a megabyte holds nothing. A plain tree may take more while it takes out and
    /// puts in again what is below a directory.
    pub fn new(secret: Secret, limit_bytes: usize) -> Tree<F> {
        Tree {
            nodes: Nodes::new(limit_bytes),
            ids: IdMap::new(secret, limit_bytes),
            len: 0,
            now: 1,
            hand: (0, 0),
            way: Vec::new(),
        }
    }

    /// Nodes without children, and those for at most 4, 16, 48 and 256.
    pub fn nodes(&self) -> [usize; 5] {
        self.nodes.counts()
    }

    /// The entry of a directory, or of the ghost of one.
    #[inline]
    pub(crate) fn entry(&self, id: DirId) -> Option<Ref> {
        self.ids.get(id, |number| self.nodes.value(Ref(number)).is_some_and(|value| value.id() == id)).map(Ref)
    }

    /// The entry of a directory that is held.
    #[inline]
    pub(crate) fn held(&self, id: DirId) -> Option<Ref> {
        self.entry(id).filter(|&entry| !self.value(entry).is_ghost())
    }

    /// The value of an entry.
    #[inline]
    pub(crate) fn value(&self, entry: Ref) -> &Value {
        self.nodes.value(entry).expect("an entry has a value")
    }

    pub(crate) fn value_mut(&mut self, entry: Ref) -> &mut Value {
        self.nodes.value_mut(entry).expect("an entry has a value")
    }

    /// Where what is below a directory hangs; none if nothing is.
    #[inline]
    pub(crate) fn branch(&self, entry: Ref) -> Option<Ref> {
        if F::RELOCATES {
            return Some(entry).filter(|&entry| self.nodes.head(entry).count > 0);
        }
        let head = self.nodes.head(entry);
        Some(head.parent).filter(|parent| parent.is_some() && head.edge == EMPTY)
    }

    /// The entry of the directory whose key ends at a node; none if no key ends there.
    #[inline]
    pub(crate) fn entry_at(&self, node: Ref) -> Option<Ref> {
        if F::RELOCATES || node.is_leaf() {
            return Some(node).filter(|&node| self.nodes.value(node).is_some_and(Value::is_some));
        }
        self.nodes.child(node, EMPTY)
    }

    /// The topmost node of a directory's own: what hangs above it is its parent's.
    fn top(&self, entry: Ref) -> Ref {
        if F::RELOCATES { entry } else { self.branch(entry).unwrap_or(entry) }
    }

    pub(crate) fn is_childless(&self, entry: Ref) -> bool {
        self.branch(entry).is_none()
    }

    /// The entry of a name below a directory.
    #[inline]
    pub(crate) fn find(&self, entry: Ref, name: &[u8]) -> Option<Ref> {
        let (mut node, mut rest) = (self.branch(entry)?, name);
        loop {
            let Some((&byte, after)) = rest.split_first() else {
                // All but the slash was passed.
                let child = self.nodes.child(node, b'/')?;
                return if self.nodes.head(child).prefix.bytes().is_empty() { self.entry_at(child) } else { None };
            };
            node = self.nodes.child(node, byte)?;
            let prefix = self.nodes.head(node).prefix.bytes();
            match after.strip_prefix(prefix) {
                Some(below) => rest = below,
                None if prefix.strip_suffix(b"/") == Some(after) => return self.entry_at(node),
                None => return None,
            }
        }
    }

    /// The entry of the directory above an entry; none of a root.
    pub(crate) fn above(&self, entry: Ref) -> Option<Ref> {
        let mut node = self.nodes.head(self.top(entry)).parent;
        while node.is_some() {
            let ends = self.entry_at(node);
            if ends.is_some() {
                return ends;
            }
            node = self.nodes.head(node).parent;
        }
        None
    }

    /// The name of an entry that is no root.
    pub(crate) fn name_of(&self, entry: Ref) -> NameBuf {
        // A name of 255 bytes and its slash have no more edges.
        let (mut parts, mut edges) = ([&[][..]; NAME_BYTES_MAX + 1], [0; NAME_BYTES_MAX + 1]);
        let (mut at, mut depth, mut node) = (parts.len(), 0, self.top(entry));
        loop {
            let head = self.nodes.head(node);
            if !head.parent.is_some() || depth > 0 && self.entry_at(node).is_some() {
                break;
            }
            at -= 1;
            parts[at] = head.prefix.bytes();
            edges[depth] = head.edge;
            depth += 1;
            node = head.parent;
        }
        let (mut name, mut len) = ([0; 257], 0);
        for (part, edge) in parts[at..].iter().zip(edges[..depth].iter().rev()) {
            name[len] = *edge;
            name[len + 1..len + 1 + part.len()].copy_from_slice(part);
            len += 1 + part.len();
        }
        NameBuf::new(&name[..len.saturating_sub(1)]) // without the slash
    }

    /// Notes where an entry is now.
    fn moved(&mut self, before: Ref, entry: Ref) {
        if before != entry
            && let Some(id) = self.nodes.value(entry).filter(|value| value.is_some()).map(Value::id)
        {
            self.ids.change(id, before.0, entry.0);
        }
    }

    /// Makes an entry that hangs nowhere yet. Its id is reserved.
    pub(crate) fn new_entry(&mut self, value: Value) -> Ref {
        let entry = self.nodes.leaf(value);
        self.ids.put(value.id(), entry.0).expect("its id was reserved");
        entry
    }

    /// Hangs `child` below `node`, whose entry may move by that.
    fn hang(&mut self, node: Ref, byte: u8, child: Ref) {
        let now = self.nodes.hang(node, byte, child);
        self.moved(node, now);
    }

    /// Where children of a directory can hang; an entry without any gets such a node.
    fn make_branch(&mut self, entry: Ref) -> Ref {
        if F::RELOCATES {
            return entry;
        }
        if let Some(branch) = self.branch(entry) {
            return branch;
        }
        let fork = self.nodes.fork();
        let prefix = core::mem::take(&mut self.nodes.head_mut(entry).prefix);
        let (parent, edge) = (self.nodes.head(entry).parent, self.nodes.head(entry).edge);
        let head = self.nodes.head_mut(fork);
        (head.prefix, head.parent, head.edge) = (prefix, parent, edge);
        if parent.is_some() {
            self.nodes.replace_child(parent, edge, fork);
        }
        self.nodes.hang(fork, EMPTY, entry)
    }

    /// Hangs the nodes of a directory below another one by a name that nobody there has.
    pub(crate) fn link(&mut self, parent: Ref, name: &[u8], entry: Ref) {
        let mut buffer = [b'/'; NAME_BYTES_MAX + 1];
        buffer[..name.len()].copy_from_slice(name);
        let key = &buffer[..=name.len()];
        let top = self.top(entry);
        let (mut node, mut at) = (self.make_branch(parent), 0);
        while let Some(child) = self.nodes.child(node, key[at]) {
            let prefix = self.nodes.head(child).prefix.bytes();
            let common = prefix.iter().zip(&key[at + 1..]).take_while(|(a, b)| a == b).count();
            node = if common < prefix.len() { self.split(node, child, common) } else { child };
            at += 1 + common;
        }
        self.nodes.set_prefix(top, Prefix::new(&[&key[at + 1..]]));
        self.hang(node, key[at], top);
    }

    /// Puts a node between `node` and `child` that takes so many bytes of the child's prefix.
    fn split(&mut self, node: Ref, child: Ref, common: usize) -> Ref {
        let fork = self.nodes.fork();
        let head = self.nodes.head(child);
        let (bytes, edge) = (head.prefix.bytes(), head.edge);
        let (upper, byte, lower) =
            (Prefix::new(&[&bytes[..common]]), bytes[common], Prefix::new(&[&bytes[common + 1..]]));
        self.nodes.set_prefix(fork, upper);
        self.nodes.set_prefix(child, lower);
        self.nodes.replace_child(node, edge, fork);
        let head = self.nodes.head_mut(fork);
        (head.parent, head.edge) = (node, edge);
        self.nodes.hang(fork, byte, child)
    }

    /// Takes the nodes of a directory off what they hang below. A ghost of which nothing is left is gone.
    pub(crate) fn cut(&mut self, entry: Ref) {
        let top = self.top(entry);
        let before = self.nodes.head(top).parent;
        if !before.is_some() {
            return;
        }
        let node = self.nodes.unhang(top);
        self.moved(before, node);
        self.nodes.set_prefix(top, Prefix::default());
        if self.nodes.head(node).count == 1 && (!F::RELOCATES || self.entry_at(node).is_none()) {
            self.merge(node);
        } else if F::RELOCATES
            && self.nodes.head(node).count == 0
            && self.nodes.value(node).is_some_and(Value::is_ghost)
        {
            self.forget(node);
        }
    }

    /// Lets the only child of a node without a value take its place.
    fn merge(&mut self, node: Ref) {
        let (byte, child) = self.nodes.next_child(node, 0).expect("it has one child");
        let (above, below) = (self.nodes.head(node).prefix.bytes(), self.nodes.head(child).prefix.bytes());
        let prefix = if byte == EMPTY { Prefix::new(&[above]) } else { Prefix::new(&[above, &[byte], below]) };
        self.nodes.set_prefix(child, prefix);
        let (parent, edge) = (self.nodes.head(node).parent, self.nodes.head(node).edge);
        let head = self.nodes.head_mut(child);
        (head.parent, head.edge) = (parent, edge);
        if parent.is_some() {
            self.nodes.replace_child(parent, edge, child);
        }
        self.nodes.free(node);
        if !F::RELOCATES && !parent.is_some() && self.nodes.value(child).is_some_and(Value::is_ghost) {
            self.forget(child);
        }
    }

    /// Frees an entry that hangs nowhere and has nothing below it.
    pub(crate) fn forget(&mut self, entry: Ref) {
        let id = self.value(entry).id();
        self.ids.remove(id, entry.0);
        self.nodes.free(entry);
    }

    /// Counts a change by which bits become void.
    pub(crate) fn change(&mut self) -> u32 {
        if self.now == u32::MAX {
            // Once in 2^32 changes all bits are forgotten.
            let mut cursor = (0, 0);
            while let Some(node) = self.nodes.next_value(&mut cursor) {
                if let Some(value) = self.nodes.value_mut(node) {
                    (value.changed, value.computed) = (0, 0);
                }
            }
            self.now = 0;
        }
        self.now += 1;
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_index::{Access, Check, Class, Directory, Grant, Index, Search};

    struct Other;

    impl Check for Other {
        fn search(&mut self, _: DirId, access: &Access) -> Search {
            if access.mode & 1 == 1 { Search::Allowed } else { Search::Denied }
        }

        fn class(&self, _: &Access) -> Option<Class> {
            Some(Class::Other)
        }
    }

    #[test]
    fn bits_of_before_the_counter_began_anew_are_void() {
        let mut tree = Mart::new(Secret::new([1; 16]), 1 << 20);
        let (open, closed, grant) = (Access { mode: 0o755, ..Access::default() }, Access::default(), Grant::default());
        tree.bind(&Directory::root(open, grant)).unwrap();
        for (id, parent) in [(2, 1), (3, 2)] {
            let directory = Directory { id: DirId(id), parent: DirId(parent), name: b"d", access: open, grant };
            tree.bind(&directory).unwrap();
        }
        tree.now = u32::MAX - 2;
        for _ in 0..4 {
            for (access, found) in [(open, true), (closed, false)] {
                tree.set_access(DirId(2), access, grant).unwrap();
                assert_eq!(tree.walk(DirId::ROOT, b"d/d", &mut Other).speculated, found, "{}", tree.now);
            }
        }
        assert!(tree.now < 10);
    }
}
