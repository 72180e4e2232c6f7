//! Nodes of five sizes: without children, and with at most 4, 16, 48 and 256 (*SPMeta §V-B*).

use crate::arena::{Arena, NUMBERS, Node};
use crate::prefix::Prefix;
use crate::tree::{Embedded, Flavor};
use crate::value::Value;
use onpath_index::NAME_BYTES_MAX;

/// A node: its size in the upper three bits, its number among those of that size in the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ref(pub(crate) u32);

impl Ref {
    pub(crate) const NONE: Ref = Ref(u32::MAX);

    fn new(size: Size, number: u32) -> Ref {
        Ref((size as u32) << NUMBERS.ilog2() | number)
    }

    #[inline]
    fn size(self) -> Size {
        match self.0 >> 29 {
            0 => Size::Leaf,
            1 => Size::N4,
            2 => Size::N16,
            3 => Size::N48,
            _ => Size::N256,
        }
    }

    #[inline]
    fn number(self) -> u32 {
        self.0 & (NUMBERS as u32 - 1)
    }

    pub(crate) fn is_some(self) -> bool {
        self != Ref::NONE
    }

    pub(crate) fn is_leaf(self) -> bool {
        self.0 >> 29 == 0
    }
}

/// Sizes of nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Size {
    Leaf,
    N4,
    N16,
    N48,
    N256,
}

impl Size {
    /// Most children, and how few make it smaller: some less, so that one child more or less does not change it each time.
    fn bounds(self) -> (usize, usize) {
        match self {
            Size::Leaf => (0, 0),
            Size::N4 => (4, 0),
            Size::N16 => (16, 3),
            Size::N48 => (48, 12),
            Size::N256 => (256, 36),
        }
    }

    fn other(self, larger: bool) -> Size {
        match (self, larger) {
            (Size::Leaf, true) | (Size::N16, false) => Size::N4,
            (Size::N4, true) | (Size::N48, false) => Size::N16,
            (Size::N16, true) | (Size::N256, false) => Size::N48,
            (Size::N48 | Size::N256, true) => Size::N256,
            (Size::Leaf | Size::N4, false) => Size::Leaf,
        }
    }
}

/// Where a node hangs, and the bytes that lead to it.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) prefix: Prefix,
    pub(crate) parent: Ref,
    /// Children.
    pub(crate) count: u16,
    /// The byte before the prefix, by which its parent has it.
    pub(crate) edge: u8,
}

impl Default for Head {
    fn default() -> Head {
        Head { prefix: Prefix::default(), parent: Ref::NONE, count: 0, edge: 0 }
    }
}

/// A node without children.
#[derive(Debug, Default)]
struct Leaf {
    head: Head,
    value: Value,
}

/// A node with at most `N` children: `K` bytes say which child is whose.
#[derive(Debug)]
struct Inner<V, const K: usize, const N: usize> {
    head: Head,
    /// Of 4 and 16: the bytes of the children, in order. Of 48: the number of the child of each byte, from 1. Of 256: nothing.
    keys: [u8; K],
    children: [Ref; N],
    value: V,
}

impl<V: Default, const K: usize, const N: usize> Default for Inner<V, K, N> {
    fn default() -> Self {
        Inner { head: Head::default(), keys: [0; K], children: [Ref::NONE; N], value: V::default() }
    }
}

impl Node for Leaf {
    fn next_free(&mut self) -> &mut u32 {
        &mut self.head.parent.0
    }
}

impl<V: Default, const K: usize, const N: usize> Node for Inner<V, K, N> {
    fn next_free(&mut self) -> &mut u32 {
        &mut self.head.parent.0
    }
}

/// All nodes of a tree.
#[derive(Debug)]
pub(crate) struct Nodes<F: Flavor> {
    leaves: Arena<Leaf>,
    n4: Arena<Inner<F::Value, 4, 4>>,
    n16: Arena<Inner<F::Value, 16, 16>>,
    n48: Arena<Inner<F::Value, 256, 48>>,
    n256: Arena<Inner<F::Value, 0, 256>>,
    /// Bytes of prefixes that lie beside their nodes.
    beside: usize,
    limit_bytes: usize,
}

/// Does one thing with a leaf, or another with an inner node of any size.
macro_rules! of_any {
    ($self:ident.$at:ident($node:expr), $leaf:ident => $of_leaf:expr, $inner:ident => $of_inner:expr) => {
        match $node.size() {
            Size::Leaf => {
                let $leaf = $self.leaves.$at($node.number());
                $of_leaf
            }
            Size::N4 => {
                let $inner = $self.n4.$at($node.number());
                $of_inner
            }
            Size::N16 => {
                let $inner = $self.n16.$at($node.number());
                $of_inner
            }
            Size::N48 => {
                let $inner = $self.n48.$at($node.number());
                $of_inner
            }
            Size::N256 => {
                let $inner = $self.n256.$at($node.number());
                $of_inner
            }
        }
    };
}

impl<F: Flavor> Nodes<F> {
    pub(crate) fn new(limit_bytes: usize) -> Nodes<F> {
        Nodes {
            leaves: Arena::new(),
            n4: Arena::new(),
            n16: Arena::new(),
            n48: Arena::new(),
            n256: Arena::new(),
            beside: 0,
            limit_bytes,
        }
    }

    #[inline]
    pub(crate) fn head(&self, node: Ref) -> &Head {
        of_any!(self.at(node), leaf => &leaf.head, inner => &inner.head)
    }

    #[inline]
    pub(crate) fn head_mut(&mut self, node: Ref) -> &mut Head {
        of_any!(self.at_mut(node), leaf => &mut leaf.head, inner => &mut inner.head)
    }

    /// The value that a node has itself; none, or one without an id, if it has none.
    #[inline]
    pub(crate) fn value(&self, node: Ref) -> Option<&Value> {
        of_any!(self.at(node), leaf => Some(&leaf.value), inner => inner.value.get())
    }

    #[inline]
    pub(crate) fn value_mut(&mut self, node: Ref) -> Option<&mut Value> {
        of_any!(self.at_mut(node), leaf => Some(&mut leaf.value), inner => inner.value.get_mut())
    }

    pub(crate) fn set_prefix(&mut self, node: Ref, prefix: Prefix) {
        let before = core::mem::replace(&mut self.head_mut(node).prefix, prefix);
        self.beside = self.beside + self.head(node).prefix.beside() - before.beside();
    }

    /// A new leaf.
    pub(crate) fn leaf(&mut self, value: Value) -> Ref {
        Ref::new(Size::Leaf, self.leaves.put(Leaf { head: Head::default(), value }))
    }

    /// A new node for at most four children, without a value.
    pub(crate) fn fork(&mut self) -> Ref {
        Ref::new(Size::N4, self.n4.put(Inner::default()))
    }

    /// Frees a node.
    pub(crate) fn free(&mut self, node: Ref) {
        self.set_prefix(node, Prefix::default());
        of_any!(self.take(node), leaf => drop(leaf), inner => drop(inner));
    }

    /// The child of a byte.
    #[inline]
    pub(crate) fn child(&self, node: Ref, byte: u8) -> Option<Ref> {
        let child = match node.size() {
            Size::Leaf => return None,
            Size::N4 => among(&self.n4.at(node.number()).keys, &self.n4.at(node.number()).head, byte)
                .map(|at| self.n4.at(node.number()).children[at])?,
            Size::N16 => among(&self.n16.at(node.number()).keys, &self.n16.at(node.number()).head, byte)
                .map(|at| self.n16.at(node.number()).children[at])?,
            Size::N48 => {
                let inner = self.n48.at(node.number());
                inner.children[usize::from(inner.keys[usize::from(byte)].checked_sub(1)?)]
            }
            Size::N256 => self.n256.at(node.number()).children[usize::from(byte)],
        };
        Some(child).filter(|child| child.is_some())
    }

    /// Lets another node be the child of a byte that has one.
    pub(crate) fn replace_child(&mut self, node: Ref, byte: u8, child: Ref) {
        match node.size() {
            Size::Leaf => {}
            Size::N4 => replace(self.n4.at_mut(node.number()), byte, child),
            Size::N16 => replace(self.n16.at_mut(node.number()), byte, child),
            Size::N48 => {
                let inner = self.n48.at_mut(node.number());
                inner.children[usize::from(inner.keys[usize::from(byte)]) - 1] = child;
            }
            Size::N256 => self.n256.at_mut(node.number()).children[usize::from(byte)] = child,
        }
    }

    /// Adds the child of a byte that has none; there is room.
    fn add(&mut self, node: Ref, byte: u8, child: Ref) {
        match node.size() {
            Size::Leaf => {}
            Size::N4 => insert(self.n4.at_mut(node.number()), byte, child),
            Size::N16 => insert(self.n16.at_mut(node.number()), byte, child),
            Size::N48 => {
                let inner = self.n48.at_mut(node.number());
                let at = inner.children.iter().position(|child| !child.is_some()).expect("there is room");
                inner.children[at] = child;
                inner.keys[usize::from(byte)] = at as u8 + 1;
            }
            Size::N256 => self.n256.at_mut(node.number()).children[usize::from(byte)] = child,
        }
        self.head_mut(node).count += 1;
    }

    fn drop_child(&mut self, node: Ref, byte: u8) {
        match node.size() {
            Size::Leaf => {}
            Size::N4 => delete(self.n4.at_mut(node.number()), byte),
            Size::N16 => delete(self.n16.at_mut(node.number()), byte),
            Size::N48 => {
                let inner = self.n48.at_mut(node.number());
                let at = core::mem::take(&mut inner.keys[usize::from(byte)]);
                inner.children[usize::from(at) - 1] = Ref::NONE;
            }
            Size::N256 => self.n256.at_mut(node.number()).children[usize::from(byte)] = Ref::NONE,
        }
        self.head_mut(node).count -= 1;
    }

    /// The first child whose byte is `from` or more.
    pub(crate) fn next_child(&self, node: Ref, from: u16) -> Option<(u8, Ref)> {
        let sorted = |keys: &[u8], children: &[Ref], count: u16| {
            let at = keys[..usize::from(count)].iter().position(|&key| u16::from(key) >= from)?;
            Some((keys[at], children[at]))
        };
        let number = node.number();
        match node.size() {
            Size::Leaf => None,
            Size::N4 => {
                let inner = self.n4.at(number);
                sorted(&inner.keys, &inner.children, inner.head.count)
            }
            Size::N16 => {
                let inner = self.n16.at(number);
                sorted(&inner.keys, &inner.children, inner.head.count)
            }
            Size::N48 | Size::N256 => (from..256).find_map(|byte| Some((byte as u8, self.child(node, byte as u8)?))),
        }
    }

    /// A node of another size with all that this one has: what was it is free.
    fn resized(&mut self, node: Ref, size: Size) -> Ref {
        let value = self.value(node).copied();
        let number = match size {
            Size::Leaf => self.leaves.put(Leaf { head: Head::default(), value: value.unwrap_or_default() }),
            Size::N4 => self.n4.put(Inner { value: F::Value::of(value), ..Inner::default() }),
            Size::N16 => self.n16.put(Inner { value: F::Value::of(value), ..Inner::default() }),
            Size::N48 => self.n48.put(Inner { value: F::Value::of(value), ..Inner::default() }),
            Size::N256 => self.n256.put(Inner { value: F::Value::of(value), ..Inner::default() }),
        };
        let new = Ref::new(size, number);
        let mut from = 0;
        while let Some((byte, child)) = self.next_child(node, from) {
            self.add(new, byte, child);
            self.head_mut(child).parent = new;
            from = u16::from(byte) + 1;
        }
        let Head { prefix, parent, edge, .. } = core::mem::take(self.head_mut(node));
        let head = self.head_mut(new);
        (head.prefix, head.parent, head.edge) = (prefix, parent, edge);
        of_any!(self.take(node), leaf => drop(leaf), inner => drop(inner));
        if parent.is_some() {
            self.replace_child(parent, edge, new);
        }
        new
    }

    /// Hangs a node below another one by a byte, and tells which node that is now: it may have grown.
    pub(crate) fn hang(&mut self, node: Ref, byte: u8, child: Ref) -> Ref {
        let full = usize::from(self.head(node).count) == node.size().bounds().0;
        let node = if full { self.resized(node, node.size().other(true)) } else { node };
        self.add(node, byte, child);
        let head = self.head_mut(child);
        (head.parent, head.edge) = (node, byte);
        node
    }

    /// Takes a child off, and tells which node that was below is now: it may have shrunk.
    pub(crate) fn unhang(&mut self, child: Ref) -> Ref {
        let Head { parent, edge, .. } = *self.head(child);
        self.head_mut(child).parent = Ref::NONE;
        self.drop_child(parent, edge);
        let few = parent.size() > Size::N4 && usize::from(self.head(parent).count) <= parent.size().bounds().1;
        // A smaller node takes memory before the larger one is free: without any it stays too large.
        let smaller = parent.size().other(false);
        if few && (self.has_room(smaller) || !self.is_full()) { self.resized(parent, smaller) } else { parent }
    }

    /// All nodes that may have a value: the next one from a cursor on.
    pub(crate) fn next_value(&self, cursor: &mut (u8, u32)) -> Option<Ref> {
        let sizes = [Size::Leaf, Size::N4, Size::N16, Size::N48, Size::N256];
        while let Some(&size) = sizes.get(usize::from(cursor.0)) {
            let numbers = match size {
                Size::Leaf => self.leaves.numbers(),
                Size::N4 => self.n4.numbers(),
                Size::N16 => self.n16.numbers(),
                Size::N48 => self.n48.numbers(),
                Size::N256 => self.n256.numbers(),
            };
            if cursor.1 >= numbers {
                *cursor = (cursor.0 + 1, 0);
                continue;
            }
            cursor.1 += 1;
            return Some(Ref::new(size, cursor.1 - 1));
        }
        None
    }

    /// Looks that [`next_value`](Nodes::next_value) needs to see all once.
    pub(crate) fn round(&self) -> usize {
        let all =
            [self.leaves.numbers(), self.n4.numbers(), self.n16.numbers(), self.n48.numbers(), self.n256.numbers()];
        all.into_iter().map(|numbers| numbers as usize).sum()
    }

    /// Nodes of each size.
    pub(crate) fn counts(&self) -> [usize; 5] {
        [self.leaves.len(), self.n4.len(), self.n16.len(), self.n48.len(), self.n256.len()]
    }

    /// Whether a node of this size takes no memory.
    fn has_room(&self, size: Size) -> bool {
        let growth = match size {
            Size::Leaf => self.leaves.growth(1),
            Size::N4 => self.n4.growth(1),
            Size::N16 => self.n16.growth(1),
            Size::N48 => self.n48.growth(1),
            Size::N256 => self.n256.growth(1),
        };
        growth == Some(0)
    }

    /// Whether there may be no memory for a change.
    pub(crate) fn is_full(&self) -> bool {
        self.growth().is_none_or(|growth| self.memory().0 + growth > self.limit_bytes)
    }

    /// Bytes that a change may need; none if it may need more nodes than can be numbered. It takes no more than a few nodes of each size, and
    /// a name.
    fn growth(&self) -> Option<usize> {
        const NODES: usize = 8;
        let nodes = self.leaves.growth(NODES)?
            + self.n4.growth(NODES)?
            + self.n16.growth(NODES)?
            + self.n48.growth(NODES)?
            + self.n256.growth(NODES)?;
        Some(nodes + 2 * NAME_BYTES_MAX)
    }

    /// Bytes that were allocated, and that were written to at some time.
    pub(crate) fn memory(&self) -> (usize, usize) {
        let all = [self.leaves.memory(), self.n4.memory(), self.n16.memory(), self.n48.memory(), self.n256.memory()];
        let sum = |of: fn(&(usize, usize)) -> usize| all.iter().map(of).sum::<usize>() + self.beside;
        (sum(|memory| memory.0), sum(|memory| memory.1))
    }
}

#[inline]
fn among(keys: &[u8], head: &Head, byte: u8) -> Option<usize> {
    keys[..usize::from(head.count)].iter().position(|&key| key == byte)
}

fn replace<V, const N: usize>(inner: &mut Inner<V, N, N>, byte: u8, child: Ref) {
    if let Some(at) = among(&inner.keys, &inner.head, byte) {
        inner.children[at] = child;
    }
}

fn insert<V, const N: usize>(inner: &mut Inner<V, N, N>, byte: u8, child: Ref) {
    let count = usize::from(inner.head.count);
    let at = inner.keys[..count].partition_point(|&key| key < byte);
    inner.keys.copy_within(at..count, at + 1);
    inner.children.copy_within(at..count, at + 1);
    (inner.keys[at], inner.children[at]) = (byte, child);
}

fn delete<V, const N: usize>(inner: &mut Inner<V, N, N>, byte: u8) {
    let count = usize::from(inner.head.count);
    if let Some(at) = among(&inner.keys, &inner.head, byte) {
        inner.keys.copy_within(at + 1..count, at);
        inner.children.copy_within(at + 1..count, at);
        inner.children[count - 1] = Ref::NONE;
    }
}
