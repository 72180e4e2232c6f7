//! The header on its way out: what a switch writes (D-16), and nothing else.

use crate::planted::{Planted, planted};
use crate::routing::Port;
use onpath_wire::innet::{FLAG_HANDED_ON, INNET_BYTES, InNet};

/// A packet that leaves: the rewritten header; after it comes what followed the header of the packet that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Where it leaves.
    pub port: Port,
    /// The node it is for; 0 if it is handed on.
    pub node: u32,
    /// The first bytes of its payload.
    pub header: [u8; INNET_BYTES],
}

impl Copy {
    /// The copy for a node (D-16).
    #[inline]
    pub(crate) fn to_node(header: &InNet, node: u32, port: Port) -> Copy {
        let flags = if planted(Planted::D16) { header.flags } else { 0 };
        Copy { port, node, header: InNet { destination: node, flags, ..*header }.bytes() }
    }

    /// The packet for the switch of its prefix (D-13).
    pub(crate) fn handed_on(header: &InNet, port: Port) -> Copy {
        let flags = if planted(Planted::D13) { header.flags } else { header.flags | FLAG_HANDED_ON };
        Copy { port, node: 0, header: InNet { flags, ..*header }.bytes() }
    }

    /// The whole payload, given the one that came in.
    pub fn payload(&self, came_in: &[u8]) -> Vec<u8> {
        [&self.header, came_in.get(INNET_BYTES..).unwrap_or_default()].concat()
    }
}
