//! Routing: by node to a port, by the prefix of the fingerprint to this or another switch (D-12 to D-17), and who is a host (D-44).

use crate::planted::{Planted, planted};
use crate::{ControlError, Counter};
use onpath_wire::innet::{DirtySetOp, FLAG_HANDED_ON, INDEX_BITS, InNet};
use std::collections::{BTreeMap, BTreeSet};

/// Most routes of a switch.
pub const ROUTES_MAX: usize = 65_536;
/// Most other switches of a switch.
pub const PEERS_MAX: usize = 64;
/// Most ports of hosts of a switch.
pub const HOSTS_MAX: usize = 256;

/// A port of the switch, or a peer's address in a program without ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port(pub u32);

/// The indexes that begin with these bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The bits.
    pub value: u32,
    /// How many, at most 17.
    pub bits: u32,
}

impl Prefix {
    /// Every index.
    pub const ALL: Prefix = Prefix { value: 0, bits: 0 };

    /// Whether it is a prefix of an index of 17 bits.
    pub fn is_valid(self) -> bool {
        self.bits <= INDEX_BITS && u64::from(self.value) < 1 << self.bits
    }

    /// How many indexes it has.
    pub fn sets(self) -> usize {
        1 << (INDEX_BITS - self.bits)
    }

    /// Its first index.
    pub fn first(self) -> u32 {
        self.value << (INDEX_BITS - self.bits)
    }

    /// Whether an index begins with it.
    #[inline]
    pub fn holds(self, index: u32) -> bool {
        index >> (INDEX_BITS - self.bits) == self.value
    }

    /// The index without it, for an index that begins with it.
    #[inline]
    pub fn set_of(self, index: u32) -> Option<usize> {
        self.holds(index).then(|| index as usize & (self.sets() - 1))
    }

    /// Whether two prefixes have an index in common.
    pub fn overlaps(self, other: Prefix) -> bool {
        self.holds(other.first()) || other.holds(self.first())
    }
}

/// Node → port.
#[derive(Clone, Debug)]
pub(crate) enum Routes {
    /// As the control plane says.
    Table(BTreeMap<u32, Port>),
    /// Every node is at the port of its number.
    Direct,
}

impl Routes {
    #[inline]
    pub(crate) fn port(&self, node: u32) -> Option<Port> {
        let port = match self {
            Routes::Table(table) => table.get(&node).copied(),
            Routes::Direct => (node != 0).then_some(Port(node)),
        };
        if planted(Planted::D17) { port.or(Some(Port(0))) } else { port }
    }

    /// D-41.
    pub(crate) fn set(&mut self, node: u32, port: Port) -> Result<(), ControlError> {
        if node == 0 {
            return Err(ControlError::NodeZero);
        }
        let Routes::Table(table) = self else { return Ok(()) };
        if table.len() == ROUTES_MAX && !table.contains_key(&node) {
            return Err(ControlError::Full("routes", ROUTES_MAX));
        }
        table.insert(node, port);
        Ok(())
    }

    pub(crate) fn unset(&mut self, node: u32) {
        if let Routes::Table(table) = self {
            table.remove(&node);
        }
    }

    pub(crate) fn clear(&mut self) {
        if let Routes::Table(table) = self {
            table.clear();
        }
    }
}

/// Prefix → port, for the prefixes of other switches. No two overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peers(Vec<(Prefix, Port)>);

impl Peers {
    fn port(&self, index: u32) -> Option<Port> {
        self.0.iter().find(|(prefix, _)| prefix.holds(index)).map(|(_, port)| *port)
    }

    /// D-41.
    pub(crate) fn set(&mut self, own: Prefix, prefix: Prefix, port: Port) -> Result<(), ControlError> {
        if !prefix.is_valid() {
            return Err(ControlError::Prefix { value: prefix.value, bits: prefix.bits });
        }
        if let Some((_, known)) = self.0.iter_mut().find(|(known, _)| *known == prefix) {
            *known = port;
            return Ok(());
        }
        let taken = prefix.overlaps(own) || self.0.iter().any(|(known, _)| known.overlaps(prefix));
        if taken && !planted(Planted::D41) {
            return Err(ControlError::Overlap { value: prefix.value, bits: prefix.bits });
        }
        if self.0.len() == PEERS_MAX {
            return Err(ControlError::Full("peers", PEERS_MAX));
        }
        self.0.push((prefix, port));
        Ok(())
    }

    pub(crate) fn unset(&mut self, prefix: Prefix) {
        self.0.retain(|(known, _)| *known != prefix);
    }
}

/// The ports by which hosts and other switches send.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts(BTreeSet<Port>);

impl Hosts {
    /// D-44: whether a packet that came in by this port changes what is none of its sender's.
    #[inline]
    pub(crate) fn is_strange(&self, port: Port, header: &InNet) -> bool {
        header.op() != Some(DirtySetOp::Query) && !self.0.contains(&port) && !planted(Planted::D44)
    }

    /// D-41.
    pub(crate) fn set(&mut self, port: Port) -> Result<(), ControlError> {
        if self.0.len() == HOSTS_MAX && !self.0.contains(&port) {
            return Err(ControlError::Full("hosts", HOSTS_MAX));
        }
        self.0.insert(port);
        Ok(())
    }

    pub(crate) fn unset(&mut self, port: Port) {
        self.0.remove(&port);
    }
}

/// Where the prefix of a packet's fingerprint sends it.
pub(crate) enum Direction {
    /// It is executed here, on the set of this number.
    Here(usize),
    /// To another switch.
    Peer(Port),
    /// Nowhere.
    Drop(Counter),
}

/// D-12 to D-15, D-44.
#[inline]
pub(crate) fn by_prefix(own: Prefix, peers: &Peers, header: &InNet, strange: bool) -> Direction {
    let set = own.set_of(header.index);
    if set.is_none() && header.flags & FLAG_HANDED_ON != 0 && !planted(Planted::D14) {
        return Direction::Drop(Counter::DropLoop);
    }
    if strange {
        return Direction::Drop(Counter::DropStranger);
    }
    if let Some(set) = set {
        return Direction::Here(if planted(Planted::D12) { set >> 1 } else { set });
    }
    match peers.port(header.index) {
        Some(port) => Direction::Peer(port),
        None if planted(Planted::D15) || planted(Planted::D9) => Direction::Here(header.index as usize % own.sets()),
        None => Direction::Drop(Counter::DropPrefix),
    }
}
