//! The ways out of a process: to each role that has one of its own, and to all others.

use super::{Node, Work};
use onpath_wire::ids::NodeId;
use onpath_wire::packet::Packet;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The way to a role in another process. `send` neither blocks nor fails, and runs no role: what cannot be sent is lost, and
/// the roles repeat what matters to them.
pub trait Link: Send + Sync {
    /// Sends a message to `to`.
    fn send(&self, to: NodeId, packet: Packet);
    /// Sends what one thread has for others at a time, and leaves nothing.
    fn send_all(&self, messages: &mut Vec<(NodeId, Packet)>) {
        messages.drain(..).for_each(|(to, packet)| self.send(to, packet));
    }
}

/// The ways that a process has.
#[derive(Default)]
pub(super) struct Links {
    by_address: HashMap<NodeId, Arc<dyn Link>>,
    default: Option<Arc<dyn Link>>,
}

impl Node {
    /// Messages to other processes leave together, once nobody here has anything to do: a peer gets several in one packet.
    pub(super) fn send_remote(&self, work: &mut Work) {
        let (mut direct, default) = {
            let links = self.links.read().expect("links do not panic");
            let way = |(to, packet): &mut (NodeId, Packet)| links.by_address.get(to).filter(|_| !packet.wants_switch());
            let mut direct = Vec::new();
            if !links.by_address.is_empty() {
                for mut message in std::mem::take(&mut work.remote) {
                    match way(&mut message).cloned() {
                        Some(link) => direct.push((link, message)),
                        None => work.remote.push(message),
                    }
                }
            }
            (direct, links.default.clone())
        };
        direct.drain(..).for_each(|(link, (to, packet))| link.send(to, packet));
        match default {
            Some(link) => link.send_all(&mut work.remote),
            None => _ = self.lost.fetch_add(work.remote.len() as u64, Ordering::Relaxed),
        }
        work.remote.clear();
    }

    /// Makes `link` the way to a role of another process.
    pub fn attach(&self, to: NodeId, link: Arc<dyn Link>) {
        self.links.write().expect("links do not panic").by_address.insert(to, link);
    }

    /// The role is not reachable any more, unless by another link than `link`.
    pub fn detach(&self, to: NodeId, link: &Arc<dyn Link>) {
        let mut links = self.links.write().expect("links do not panic");
        if links.by_address.get(&to).is_some_and(|l| Arc::ptr_eq(l, link)) {
            links.by_address.remove(&to);
        }
    }

    /// Makes `link` the way to all roles that are neither here nor attached by their own link.
    pub fn attach_default(&self, link: Arc<dyn Link>) {
        self.links.write().expect("links do not panic").default = Some(link);
    }
}
