//! Messages between processes on UDP (design.md, "Packets"): sockets and threads around the transport, which is a value (`onpath-transport`).
//!
//! An [`Endpoint`] is what a process has of it: the way to all roles that are not in it. It packs what one thread has for a peer at a
//! time into one datagram; what it receives it delivers on the thread that received it, which runs the roles and sends their answers.
//! Peers are the hosts of the configuration and the clients that greet ([`hello`]).
//!
//! What comes through a switch comes to the same port, behind an in-network header; to a switch it goes at a port of the switch's own.

mod admit;
mod endpoint;
mod greet;
pub mod hello;
mod hosts;
mod join;
mod lane;
mod owned;
mod peers;
mod receive;
mod socket;
mod strangers;
mod switch;
#[cfg(test)]
mod tests;
mod timer;
mod told;
mod ways;

pub use admit::may_send;
pub use endpoint::{Endpoint, EndpointConfig, EndpointHooks};
pub use hello::{ClusterIs, HostIs, HostStatus};
pub use join::{JoinError, Joined, ask_inspection, ask_next, ask_report, ask_status, join};
pub use onpath_transport::{EndpointId, Key, Keys, OwnedKey};
pub(crate) use peers::COORDINATOR;
#[cfg(feature = "fuzzing")]
pub(crate) use receive::Datagrams;

use onpath_wire::ids::{NodeClass, NodeId, SessionId};
use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// Set in the numbers of clients' endpoints; the rest is the session.
const CLIENT: u32 = 0x8000_0000;
/// Set in the numbers under which clients join, which are drawn.
const JOINING: u32 = 0x4000_0000;

/// To whom a message is that is for no role, but for the process: a report of a mount.
const THIS_PROCESS: NodeId = NodeId(0);

/// The endpoint of a host.
pub fn endpoint_of_host(number: u16) -> EndpointId {
    EndpointId(u32::from(number))
}

/// The endpoint of a client.
pub fn endpoint_of_session(session: SessionId) -> EndpointId {
    EndpointId(CLIENT | session.0)
}

/// The session of a client's endpoint.
fn session_of(endpoint: EndpointId) -> Option<SessionId> {
    let session = SessionId(endpoint.0 & !CLIENT);
    (endpoint.0 & CLIENT != 0 && session.0 != 0 && session.0 < 1 << 24).then_some(session)
}

/// The endpoint of a role whose number is that of its host, or its session's; of a shard the configuration says it.
fn endpoint_of(node: NodeId) -> Option<EndpointId> {
    match node.class()? {
        NodeClass::Session => node.as_session().map(endpoint_of_session),
        NodeClass::Data | NodeClass::Switch | NodeClass::Path | NodeClass::Controller => {
            Some(EndpointId(node.number()))
        }
        NodeClass::Shard => None,
    }
}

/// How the threads of an endpoint wait for datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// In the kernel.
    #[default]
    Block,
    /// They look again and again: each keeps a CPU busy, and nobody has to wake it.
    Spin,
}

/// Why an endpoint does not start.
#[derive(Debug, Error)]
pub enum UdpError {
    /// The address cannot be used.
    #[error("UDP {address}: {source}; the address must be one of this host, and the port free")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The operating system refused something else.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}
