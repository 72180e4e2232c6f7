//! The header on its way out: what a switch writes (D-16), and nothing else.

use super::planted::{Planted, planted};
use super::routing::Port;
use onpath_wire::innet::{InNet, InNetBytes};

/// A packet that leaves: the rewritten header; after it comes what followed the header of the packet that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Where it leaves.
    pub port: Port,
    /// The node it is for.
    pub node: u32,
    /// The first bytes of its payload.
    pub header: InNetBytes,
}

impl Copy {
    /// The copy for a node (D-16).
    #[inline]
    pub(crate) fn to_node(header: &InNet, result: u8, node: u32, port: Port) -> Copy {
        let destination = if planted(Planted::D16) { header.common().destination } else { node };
        Copy { port, node, header: header.switched(result, destination).bytes() }
    }

    /// The whole payload, given the one that came in.
    pub fn payload(&self, came_in: &[u8]) -> Vec<u8> {
        [&self.header[..], came_in.get(self.header.len()..).unwrap_or_default()].concat()
    }
}
