//! Routing: by node to a port (D-17), and who is a host (D-44).

use super::control::ControlError;
use super::planted::{Planted, planted};
use std::collections::{BTreeMap, BTreeSet};

/// Most routes of a switch.
pub const ROUTES_MAX: usize = 65_536;
/// Most ports of hosts of a switch.
pub const HOSTS_MAX: usize = 256;

/// A port of the switch, or a peer's address in a program without ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port(pub u32);

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
        if node == 0 && !planted(Planted::D41) {
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

/// The ports by which hosts send.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts(BTreeSet<Port>);

impl Hosts {
    /// D-44: whether who sends by this port may change what is not its own.
    #[inline]
    pub(crate) fn may_change(&self, port: Port) -> bool {
        self.0.contains(&port) || planted(Planted::D44)
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
