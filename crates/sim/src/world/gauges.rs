//! How full everything is, looked at as the world goes on.

use super::World;
use super::process::{Process, Server};
use super::role::Role;
use onpath_kernel::Gauge;
use onpath_wire::ids::NodeId;
use onpath_wire::limits::{INBOX_MAX, OPERATIONS_MAX};

/// Events between two looks at the role that an event concerns, where nobody steers; there every step is followed by one.
pub(super) const LOOK_EVERY: u64 = 16;

impl Role {
    fn gauges(&self) -> Vec<Gauge> {
        match self {
            Role::Shard(shard) => shard.gauges(),
            Role::Data(data) => data.gauges(),
            Role::Path(path) => path.gauges(),
            Role::Controller(controller) => controller.gauges(),
        }
    }
}

/// A role with what its process has for it and of it.
fn gauges(process: &Process, server: &Server) -> Vec<Gauge> {
    let mut all = server.role.gauges();
    all.extend([
        Gauge::queue("messages in the inbox", server.inbox.len(), INBOX_MAX),
        Gauge::queue("outputs that wait for the journal", process.gate.len(), 2 * INBOX_MAX),
        Gauge::queue("disk operations of the process", process.disk_ops.len(), 2 * OPERATIONS_MAX),
    ]);
    all
}

impl World {
    fn is_time_to_look(&self) -> bool {
        self.steered.is_some() || self.counters.events.is_multiple_of(LOOK_EVERY)
    }

    /// Looks at a server after one of its inputs.
    pub(super) fn look_at(&mut self, process: usize, server: usize) {
        if !self.is_time_to_look() {
            return;
        }
        let process = &self.processes[process];
        let Some(server) = process.servers.get(server) else { return }; // it has just crashed
        self.checker.look(server.node, &gauges(process, server));
    }

    /// Looks at a session after one of its inputs.
    pub(super) fn look_at_session(&mut self, session: usize) {
        if self.is_time_to_look() {
            let session = &self.sessions[session];
            self.checker.look(session.node, &session.session.gauges());
        }
    }

    /// All roles and the sessions that are alive.
    pub(super) fn gauges(&self) -> Vec<(NodeId, Vec<Gauge>)> {
        let servers =
            self.processes.iter().flat_map(|process| process.servers.iter().map(move |server| (process, server)));
        let servers = servers.map(|(process, server)| (server.node, gauges(process, server)));
        let sessions = self.sessions.iter().filter(|session| !session.dead);
        servers.chain(sessions.map(|session| (session.node, session.session.gauges()))).collect()
    }
}
