//! The switch between them: messages with an in-network header go to it first, and are lost with it.

use super::World;
use super::process::{Flight, Server};
use super::queue::Event;
use super::role::{Role, Stimulus};
use onpath_controller::ControllerIn;
use onpath_kernel::{Input, Now, Output, Role as _};
use onpath_meta::planted::{self, Planted};
use onpath_switch::{Switch, SwitchConfig};
use onpath_wire::ids::{InodeId, NodeClass, NodeId};
use onpath_wire::innet::{DirtySet, DirtySetOp, InNet};
use onpath_wire::name::Name;
use onpath_wire::packet::Packet;
use onpath_wire::tracking::Form;
use rand::Rng;
use std::collections::BTreeMap;

/// Cluster number of the world.
const CLUSTER: u32 = 1;

impl World {
    /// Switches the first switch on; whatever it knew is gone.
    pub fn boot_switch(&mut self) {
        self.boot(0);
    }

    /// Switches a switch on.
    pub fn boot(&mut self, number: u16) {
        self.counters.switch_boots += 1;
        self.narrate(|| format!("switch {number} boots"));
        self.switch_past = self.switch_counters();
        let boot = self.counters.switch_boots;
        let stages = self.config.switch_stages;
        let config = SwitchConfig { node: NodeId::switch(number), cluster: CLUSTER, boot, stages };
        self.switches[usize::from(number)] = Some(Switch::new(config));
    }

    /// The controller of the first switch's cache is told to give a name an entry, if it runs: of a directory, or the root's own.
    pub fn admit(&mut self, parent: InodeId, name: Option<Name>) {
        if let Some(process) = self.process_at(NodeId::controller(0)) {
            self.input(process, 0, Stimulus::Told(ControllerIn::Admit { parent, name }));
        }
    }

    /// The process that has a role, while it runs.
    pub fn process_at(&self, node: NodeId) -> Option<usize> {
        let has = |server: &Server| server.node == node;
        self.processes.iter().position(|process| process.servers.iter().any(has))
    }

    /// A figure of the controller; nothing while it is down.
    pub fn counted_by_controller(&self, name: &str) -> Option<u64> {
        let mut servers = self.processes.iter().flat_map(|process| &process.servers);
        servers.find_map(|server| match &server.role {
            Role::Controller(role) => role.status().into_iter().find(|(of, _)| *of == name).map(|(_, count)| count),
            _ => None,
        })
    }

    /// Whether the first switch is on.
    pub(crate) fn has_switch(&self) -> bool {
        self.switches[0].is_some()
    }

    /// Switches the first switch off.
    pub fn stop_switch(&mut self) {
        self.stop(0);
    }

    /// Switches a switch off.
    pub fn stop(&mut self, number: u16) {
        self.narrate(|| format!("switch {number} is gone"));
        self.switch_past = self.switch_counters();
        self.switches[usize::from(number)] = None;
    }

    /// Switches those on that are off.
    pub(super) fn boot_all(&mut self) {
        let off = |number: &u16| self.switches[usize::from(*number)].is_none();
        let off: Vec<u16> = (0..self.config.switches).filter(off).collect();
        off.into_iter().for_each(|number| self.boot(number));
    }

    /// What a switch has counted in its present life.
    pub fn counters_of(&self, number: u16) -> BTreeMap<&'static str, u64> {
        self.switches[usize::from(number)].iter().flat_map(Switch::counters).filter(|(_, count)| *count > 0).collect()
    }

    /// What the in-network program has counted, over all its lives.
    pub fn switch_counters(&self) -> BTreeMap<&'static str, u64> {
        let mut all = self.switch_past.clone();
        let present = self.switches.iter().flatten().flat_map(Switch::counters);
        present.for_each(|(name, count)| *all.entry(name).or_default() += count);
        all.retain(|_, count| *count > 0);
        all
    }

    pub(super) fn begin_switch(&mut self) {
        if self.config.form == Form::Network {
            self.boot_all();
            self.plan_switch();
        }
    }

    /// Plans the next reboot or loss of the switch.
    fn plan_switch(&mut self) {
        let every_ns = self.config.switch_fails_every_us * 1_000;
        if every_ns > 0 {
            let at_ns = self.now_ns + self.rng.random_range(1..=2 * every_ns);
            self.queue.push(at_ns, Event::Switch);
        }
    }

    /// The switch reboots, goes away, or comes back.
    pub(super) fn switch_fails(&mut self) {
        if self.config.switch_fails_every_us == 0 {
            return; // peace has come
        }
        self.note(5, &[]);
        let number = match self.config.switches {
            1 => 0,
            several => self.rng.random_range(0..several),
        };
        match self.switches[usize::from(number)] {
            Some(_) if self.rng.random_bool(0.5) => self.stop(number),
            _ => self.boot(number),
        }
        self.plan_switch();
    }

    pub(super) fn switch_hears(&mut self, flight: Flight) {
        let node = if flight.packet.wants_switch() { flight.packet.switch } else { flight.to };
        let place = node.number() as usize;
        let Some(mut switch) = self.switches.get_mut(place).and_then(Option::take) else {
            self.counters.lost += 1;
            return;
        };
        let now = Now { mono_us: self.now_ns / 1_000, wall_ns: 0 };
        let (packet, remove) = planted_in_switch(flight.packet, &switch, now.mono_us as u32);
        switch.handle(now, Input::Packet(packet));
        while let Some(output) = switch.poll_output() {
            let Output::Send { to, mut packet, .. } = output else { unreachable!("a switch only sends") };
            if let (Some(before), Some(InNet::DirtySet(innet))) = (&remove, packet.innet.as_deref_mut()) {
                (innet.sequence, innet.epoch) = (before.sequence, before.epoch);
            }
            if to.class() == Some(NodeClass::Session)
                && let Ok(header) = packet.header()
            {
                self.checker.emitted(header.source, to, &packet); // a reply that the mark on it was acknowledged with
            }
            let from = node;
            self.narrate_message("forwards", from, to, &packet);
            self.transmit(Flight { from, to, packet });
        }
        self.switches[place] = Some(switch);
    }
}

/// Takes a rule of the switch away, if such a bug is planted: removes come with a counter that is newer than all, or with the
/// present epoch. Also what the remove was before.
fn planted_in_switch(mut packet: Packet, switch: &Switch, newest: u32) -> (Packet, Option<DirtySet>) {
    let removes = match packet.innet.as_deref_mut() {
        Some(InNet::DirtySet(innet)) if innet.op() == Some(DirtySetOp::Remove) => Some(innet),
        _ => None,
    };
    let before = removes.as_deref().copied();
    if let Some(innet) = removes {
        if planted::is(Planted::EqualRemoves) {
            innet.sequence = newest;
        }
        if planted::is(Planted::AnyEpochsRemove) {
            innet.epoch = switch.epoch().0;
        }
    }
    (packet, before)
}
