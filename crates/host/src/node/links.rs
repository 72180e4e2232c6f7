//! The ways out of a process: to each role that has one of its own, and to all others.

use super::{Node, Work};
use onpath_wire::ids::NodeId;
use onpath_wire::packet::Packet;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

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

/// The ways that a process has. Most have the default one only, which is found without a lock.
#[derive(Default)]
pub(super) struct Links {
    by_address: Mutex<HashMap<NodeId, Arc<dyn Link>>>,
    /// Whether there may be any of these.
    has_direct: AtomicBool,
    default: OnceLock<Arc<dyn Link>>,
}

impl Links {
    /// Sends the messages that go by a link of their destination's own.
    fn send_direct(&self, messages: &mut Vec<(NodeId, Packet)>) {
        let link_of = |to: NodeId, packet: &Packet| {
            let by_address = self.by_address.lock().expect("links do not panic");
            by_address.get(&to).filter(|_| !packet.wants_switch()).cloned()
        };
        for (to, packet) in std::mem::take(messages) {
            match link_of(to, &packet) {
                Some(link) => link.send(to, packet),
                None => messages.push((to, packet)),
            }
        }
    }
}

impl Node {
    /// Messages to other processes leave together, once nobody here has anything to do: a peer gets several in one packet.
    pub(super) fn send_remote(&self, work: &mut Work) {
        if self.links.has_direct.load(Ordering::Acquire) {
            self.links.send_direct(&mut work.remote);
        }
        match self.links.default.get() {
            Some(link) => link.send_all(&mut work.remote),
            None => _ = self.lost.fetch_add(work.remote.len() as u64, Ordering::Relaxed),
        }
        work.remote.clear();
    }

    /// Makes `link` the way to a role of another process.
    pub fn attach(&self, to: NodeId, link: Arc<dyn Link>) {
        self.links.by_address.lock().expect("links do not panic").insert(to, link);
        self.links.has_direct.store(true, Ordering::Release);
    }

    /// The role is not reachable any more, unless by another link than `link`.
    pub fn detach(&self, to: NodeId, link: &Arc<dyn Link>) {
        let mut by_address = self.links.by_address.lock().expect("links do not panic");
        if by_address.get(&to).is_some_and(|l| Arc::ptr_eq(l, link)) {
            by_address.remove(&to);
        }
    }

    /// Makes `link` the way to all roles that are neither here nor attached by their own link; once.
    pub fn attach_default(&self, link: Arc<dyn Link>) {
        assert!(self.links.default.set(link).is_ok(), "a process has one way to all others");
    }
}
