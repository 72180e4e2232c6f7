//! The network between processes and clients: loses, doubles, delays and reorders.

use super::World;
use super::process::Flight;
use super::queue::Event;
use super::role::Stimulus;
use crate::client::Heard;
use onpath_wire::ids::{NodeClass, NodeId};
use onpath_wire::packet::Packet;
use rand::Rng;

impl World {
    /// Puts a message onto the network.
    pub(super) fn transmit(&mut self, flight: Flight) {
        if !self.holds.is_empty()
            && let Some(hold) = self.holds.iter_mut().find(|hold| hold.wants(&flight))
        {
            hold.held.push(flight);
            return;
        }
        self.counters.messages += 1;
        let Some(flight) = self.steer_message(flight) else { return };
        self.faults_begin();
        self.forge(&flight);
        if self.is_cut(flight.from, flight.to) {
            return;
        }
        if self.config.loss > 0.0 && self.rng.random_bool(self.config.loss) {
            self.counters.lost += 1;
            return;
        }
        if self.config.duplicate > 0.0 && self.rng.random_bool(self.config.duplicate) {
            self.counters.doubled += 1;
            self.fly(flight.clone());
        }
        self.fly(flight);
    }

    /// A message arrives after its delay.
    pub(super) fn fly(&mut self, flight: Flight) {
        let mut delay_ns = self.rng.random_range(5_000..60_000);
        if self.config.reorder > 0.0 && self.rng.random_bool(self.config.reorder) {
            delay_ns += self.rng.random_range(0..self.config.reorder_us * 1_000);
        }
        let delay_ns = self.takes_ns(&[flight.from, flight.to], delay_ns);
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.flights.push(None);
                self.flights.len() as u32 - 1
            }
        };
        self.flights[slot as usize] = Some(flight);
        self.queue.push(self.now_ns + delay_ns, Event::Arrive(slot));
    }

    pub(super) fn arrive(&mut self, slot: u32) {
        let flight = self.flights[slot as usize].take().expect("a message arrives once");
        self.free.push(slot);
        self.deliver(flight);
    }

    pub(super) fn deliver(&mut self, flight: Flight) {
        self.note(4, &flight.packet.head);
        if flight.packet.wants_switch() || flight.to.class() == Some(NodeClass::Switch) {
            return self.switch_hears(flight);
        }
        self.narrate_message("reaches", flight.from, flight.to, &flight.packet);
        match flight.to.class() {
            Some(NodeClass::Session) => match self.session_at(flight.to) {
                Some(session) => self.session_hears(session, flight.packet),
                None => self.client_hears(flight.to.number() as usize - 1, flight.packet),
            },
            _ => self.server_hears(flight.to, flight.packet),
        }
    }

    fn server_hears(&mut self, to: NodeId, packet: Packet) {
        let found = self.processes.iter().enumerate().find_map(|(index, process)| {
            let server = process.servers.iter().position(|server| server.node == to)?;
            Some((index, server))
        });
        let Some((process, server)) = found else { return }; // nobody is there
        let life = self.processes[process].life;
        self.drain(process, server);
        if self.lives(process as u16, life) {
            self.input(process, server, Stimulus::Packet(packet));
        }
    }

    fn client_hears(&mut self, client: usize, packet: Packet) {
        let heard = self.clients[client].receive(packet, self.now_ns, &mut self.checker);
        match heard {
            Heard::Nothing => {}
            Heard::Completed(done) => {
                self.answers.0 += 1;
                self.completed.push_back(done.with_client(client));
            }
            Heard::Send(messages) => {
                for (to, packet) in messages {
                    self.send_of_client(client, to, packet);
                }
            }
        }
        self.arm_client(client);
    }

    pub(super) fn send_of_client(&mut self, client: usize, to: NodeId, packet: Packet) {
        let from = self.clients[client].node();
        self.narrate_message("asks", from, to, &packet);
        self.transmit(Flight { from, to, packet });
    }

    pub(super) fn arm_client(&mut self, client: usize) {
        if let Some(at_ns) = self.clients[client].arm() {
            self.queue.push(at_ns.max(self.now_ns), Event::Client(client as u16));
        }
    }

    pub(super) fn client_timer(&mut self, client: usize) {
        for (to, packet) in self.clients[client].timer(self.now_ns) {
            self.send_of_client(client, to, packet);
        }
        self.arm_client(client);
    }
}
