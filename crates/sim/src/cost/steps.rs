//! What happens at a step of the cost model: tasks begin and end, messages travel, records become durable.

use super::config::{PathNodes, Tracking};
use super::label::{self, CLIENT, DATA_DURABLE, DATA_TICK, DISK, DURABLE, Features, SWITCH, TICK, TOLD};
use super::model::{Event, Model};
use super::places::Waiting;
use super::server::{Flight, Task};
use super::work::Work;
use crate::world::role::{Action, Stimulus, action};
use onpath_kernel::{Input, Need, Output, Role as _};
use onpath_wire::ids::{Lsn, NodeClass, NodeId, RecordSeq};
use onpath_wire::packet::Packet;

impl Model {
    /// A task is ready to run.
    pub(super) fn ready(&mut self, server: u16, task: Task) {
        self.servers[server as usize].add(task);
        self.woken.push(server);
    }

    /// Free cores of woken servers take what is ready.
    pub(super) fn begin_tasks(&mut self, work: &mut dyn Work) {
        while let Some(server) = self.woken.pop() {
            while let Some(task) = self.servers[server as usize].begin(self.now_ns) {
                let (outputs, cost_ns) = match task {
                    Task::Place(place) => self.run_place(place),
                    Task::Switch => self.run_switch(),
                    Task::Client(client) => self.run_client(client, work),
                };
                let done = self.done.put(outputs);
                self.at(cost_ns, Event::Done { server, task, done });
            }
        }
    }

    pub(super) fn cost_ns(&mut self, label: &'static str, features: Features) -> u64 {
        *self.inputs.entry(label).or_default() += 1;
        let known = self.config.costs.input_ns(label, features);
        self.unknown += u64::from(known.is_none());
        known.unwrap_or(0) + self.config.costs.dispatch_ns as u64
    }

    /// Runs something that is measured if anything is. What it grows with is known only afterwards.
    pub(super) fn metered<T>(&mut self, run: impl FnOnce(&mut Model) -> T) -> (T, u64) {
        let begin_ns = self.meter.as_mut().map_or(0, |meter| meter.now_ns());
        let result = run(self);
        let end_ns = self.meter.as_mut().map_or(0, |meter| meter.now_ns());
        (result, end_ns - begin_ns)
    }

    pub(super) fn sample(&mut self, took_ns: u64, label: &'static str, features: Features) {
        if let Some(meter) = &mut self.meter {
            meter.took(took_ns, label, features);
        }
    }

    /// The place of a role, if it is that of a server.
    fn place_of(&self, node: NodeId) -> Option<u16> {
        match node.class() {
            Some(NodeClass::Shard) => node.as_shard().map(|shard| shard.0),
            Some(NodeClass::Path) => Some(self.path_nodes_from + (node.number() as u16)),
            Some(NodeClass::Controller) => self.controller_at,
            Some(NodeClass::Data) => Some(self.data_nodes_from + (node.number() as u16)).filter(|_| self.has_bytes()),
            _ => None,
        }
    }

    /// Whether there are data nodes.
    fn has_bytes(&self) -> bool {
        self.config.data_servers > 0
    }

    fn server_of(&self, place: u16) -> u16 {
        self.places[place as usize].server
    }

    fn run_place(&mut self, number: u16) -> (Vec<Action>, u64) {
        let now = self.now();
        let place = &mut self.places[number as usize];
        let Waiting { stimulus, remote } = place.inbox.pop_front().expect("a role in the run queue has an input");
        let (mut label, entries) = of_stimulus(&stimulus, place.node);
        let mut features = Features { entries, ..Features::default() };
        let (speculated, owed) = (place.speculated(), place.owed());
        let (outputs, took_ns) = self.metered(|model| {
            let place = &mut model.places[number as usize];
            place.role.handle(now, stimulus);
            place.role.poll_all()
        });
        outputs.iter().for_each(|output| features.count(output));
        features.entries += owed.saturating_sub(self.places[number as usize].owed()) as u32;
        if label::is_walk(label) {
            let speculated = self.places[number as usize].speculated() > speculated;
            label = label::of_walk(label, self.config.index, speculated, &outputs);
        }
        self.sample(took_ns, label, features);
        let costs = &self.config.costs;
        let mut around_ns = costs.journal_ns * f64::from(features.records);
        around_ns += if remote { costs.receive_ns } else { 0.0 };
        let sends = outputs.iter().filter(|output| self.leaves(number, output)).count();
        around_ns += costs.send_ns * sends as f64;
        let blocks = outputs.iter().filter(|output| matches!(output, Action::Disk { .. })).count();
        around_ns += costs.disk_ns * blocks as f64;
        if self.waits_for_backups(number, features) {
            around_ns += costs.send_ns * f64::from(self.config.backups) + costs.receive_ns;
        }
        let is_central = self.config.path_nodes == PathNodes::Central && label::is_walk(label);
        let names = if is_central { self.directory_lookups_ns(features.entries) } else { 0 };
        let followed = if label::is_by_name(label) { self.followed_ns() } else { 0 };
        let cost_ns = self.cost_ns(label, features) + around_ns as u64 + names + followed;
        (outputs, cost_ns)
    }

    /// What a server takes to follow the path of a name that it is asked for, if clients leave that to it.
    fn followed_ns(&self) -> u64 {
        let names = Features { entries: self.config.followed, ..Features::default() };
        if self.config.followed == 0 { 0 } else { self.config.costs.input_ns(label::RESOLVE, names).unwrap_or(0) }
    }

    /// What a directory server does for so many names that a path node need not do: a lookup for each.
    fn directory_lookups_ns(&self, names: u32) -> u64 {
        let one = Features { entries: 0, records: 0, replies: 1 };
        u64::from(names) * self.config.costs.input_ns(label::LOOKUP, one).unwrap_or(0)
    }

    /// Whether an output goes over the network.
    fn leaves(&self, place: u16, output: &Action) -> bool {
        let Action::Send { to, packet, .. } = output else { return false };
        match self.place_of(*to) {
            Some(other) if !packet.wants_switch() => self.server_of(other) != self.server_of(place),
            _ => !self.config.clients_inside,
        }
    }

    /// A role's input is handled, and its core free for others.
    pub(super) fn place_done(&mut self, number: u16, outputs: Vec<Action>) {
        self.put_out(number, outputs);
        let server = self.server_of(number);
        let place = &mut self.places[number as usize];
        place.queued = !place.inbox.is_empty();
        if place.queued {
            self.ready(server, Task::Place(number));
        }
    }

    /// A role's records are journaled, then its messages leave in order.
    pub(super) fn put_out(&mut self, place: u16, outputs: Vec<Action>) {
        let server = self.server_of(place);
        let records = outputs.iter().filter(|output| matches!(output, Action::Append { .. })).count() as u32;
        let waits = self.waits_for_backups(place, Features { records, ..Features::default() });
        let mut later = vec![];
        for output in outputs {
            match output {
                Action::Append { seq, .. } => {
                    let journal = &mut self.servers[server as usize].appended;
                    journal.0 += 1;
                    self.places[place as usize].appended(seq, *journal);
                }
                Action::Send { .. } if waits => later.push(output),
                Action::Send { to, packet, after, need } => self.release(place, to, packet, after, need),
                Action::Flush => self.flush(server),
                Action::Disk { ticket, op } => {
                    let done = self.places[place as usize].execute(ticket, op);
                    self.give(place, done, false);
                }
            }
        }
        if !later.is_empty() {
            let later = self.done.put(later);
            self.at(2 * self.config.link_ns, Event::BackedUp { place, later });
        }
        self.arm_tick(place);
    }

    /// Other servers have what a data node has recorded.
    pub(super) fn backed_up(&mut self, place: u16, later: Vec<Action>) {
        for output in later {
            if let Action::Send { to, packet, after, need } = output {
                self.release(place, to, packet, after, need);
            }
        }
    }

    /// Whether what a role says after so many records waits for other servers to have them.
    fn waits_for_backups(&self, place: u16, features: Features) -> bool {
        let is_data = self.places[place as usize].node.class() == Some(NodeClass::Data);
        self.config.backups > 0 && is_data && features.records > 0
    }

    /// The output gate, where replies to clients do not wait.
    fn release(&mut self, place: u16, to: NodeId, packet: Packet, after: RecordSeq, need: Need) {
        let place = &self.places[place as usize];
        let (server, from, rests_on) = (place.server, place.node, place.rests_on(after));
        let own = self.place_of(to).is_some_and(|other| self.server_of(other) == server);
        let waits = match to.class() {
            _ if matches!(need, Need::Durable | Need::DurableInTime | Need::IfOutlived) => true,
            _ if matches!(need, Need::Nothing | Need::AsForClient) => false,
            Some(NodeClass::Session) => false,
            _ => !own,
        };
        let flight = Flight { from, to, packet };
        if !waits {
            return self.route(flight);
        }
        match self.servers[server as usize].gate.pass(rests_on, flight) {
            Some(flight) => self.route(flight),
            None if matches!(need, Need::DurableInTime | Need::InTime) => {}
            None => self.flush(server),
        }
    }

    /// Brings a released message on its way.
    pub(super) fn route(&mut self, flight: Flight) {
        self.pass_switch(&flight);
        self.unlocks(&flight);
        let link_ns = self.config.link_ns;
        let to_switch = flight.packet.wants_switch() || flight.to == NodeId::SWITCH;
        let inside = match (self.place_of(flight.from), self.place_of(flight.to)) {
            (Some(from), Some(to)) => self.server_of(from) == self.server_of(to),
            _ => self.config.clients_inside,
        };
        if to_switch {
            // The switch is half-way; a server that does its work is as far away as any other.
            let in_ns = if self.config.tracking == Tracking::Network { link_ns / 2 } else { link_ns };
            self.messages += 1;
            let place = self.flights.put(flight);
            self.at(in_ns, Event::ArriveAtSwitch(place));
        } else if inside && let Some(place) = self.place_of(flight.to) {
            self.give(place, Stimulus::Packet(flight.packet), false);
        } else {
            self.messages += u64::from(!inside);
            let in_ns = if flight.from == NodeId::SWITCH && self.config.tracking == Tracking::Network {
                link_ns - link_ns / 2
            } else {
                link_ns
            };
            let place = self.flights.put(flight);
            self.at(in_ns, Event::Arrive(place));
        }
    }

    pub(super) fn arrive(&mut self, flight: Flight, work: &mut dyn Work) {
        if let Some(place) = self.place_of(flight.to) {
            return self.give(place, Stimulus::Packet(flight.packet), !self.config.clients_inside);
        }
        if let Some(session) = self.sessions.at(flight.to) {
            self.users.hears(&flight.packet);
            return self.session_input(session, Input::Packet(flight.packet));
        }
        if flight.to.class() != Some(NodeClass::Session) {
            return; // nobody is there: the data node of files that were removed
        }
        let client = self.clients.at(flight.to);
        if self.config.clients_inside {
            self.client_inbox[client as usize].push_back(flight.packet);
            self.ready(0, Task::Client(client));
        } else {
            self.hear(client, &flight.packet, work);
            if !self.clients.is_open() {
                self.ask(client, work);
            }
        }
    }

    fn hear(&mut self, client: u32, packet: &Packet, work: &mut dyn Work) {
        let answered = self.clients.hear(client, packet, work, self.now_ns);
        self.answered.extend(answered.filter(|_| self.measuring));
    }

    /// A client that costs nothing asks as long as it may.
    pub(super) fn ask(&mut self, client: u32, work: &mut dyn Work) {
        let from = self.clients.address(client);
        while let Some((to, packet)) = self.clients.ask(client, work, self.now_ns) {
            self.route(Flight { from, to, packet });
            if self.clients.is_open() {
                return;
            }
        }
    }

    fn run_client(&mut self, client: u32, work: &mut dyn Work) -> (Vec<Action>, u64) {
        let (outputs, took_ns) = self.metered(|model| {
            if let Some(packet) = model.client_inbox[client as usize].pop_front() {
                model.hear(client, &packet, work);
            }
            let mut outputs = vec![];
            while let Some((to, packet)) = model.clients.ask(client, work, model.now_ns) {
                outputs.push(Action::Send { to, packet, after: RecordSeq(0), need: Need::ByDestination });
            }
            outputs
        });
        let asked = Features { entries: 0, records: 0, replies: outputs.len() as u32 };
        self.sample(took_ns, CLIENT, asked);
        let cost_ns = self.cost_ns(CLIENT, asked);
        (outputs, cost_ns)
    }

    pub(super) fn client_done(&mut self, client: u32, outputs: Vec<Action>) {
        let from = self.clients.address(client);
        for output in outputs {
            if let Action::Send { to, packet, .. } = output {
                self.route(Flight { from, to, packet });
            }
        }
    }

    pub(super) fn arrive_at_switch(&mut self, mut packet: Packet) {
        self.free_only.iter_mut().for_each(|table| table.meets(&mut packet));
        if self.config.pass_ns > 0 && packet.innet.is_some() {
            return self.pass_first(packet);
        }
        self.switch_inbox.push_back(packet);
        if matches!(self.config.tracking, Tracking::Server { .. }) {
            self.ready(self.config.servers, Task::Switch);
        } else if self.config.clients_inside {
            self.ready(0, Task::Switch); // the program runs in the process
        } else {
            let (outputs, _) = self.run_switch();
            self.switch_done(outputs);
        }
    }

    fn run_switch(&mut self) -> (Vec<Action>, u64) {
        let packet = self.switch_inbox.pop_front().expect("a packet for each task");
        let now = self.now();
        let (outputs, took_ns) = self.metered(|model| {
            let Some(switch) = &mut model.switch else { return vec![] };
            switch.handle(now, Input::Packet(packet));
            let sent = |output: Output<()>| action(output, |()| unreachable!("a switch only sends"));
            std::iter::from_fn(|| switch.poll_output().map(sent)).collect::<Vec<_>>()
        });
        let copies = Features { entries: 0, records: 0, replies: outputs.len() as u32 };
        self.sample(took_ns, SWITCH, copies);
        let costs = &self.config.costs;
        let around_ns = if self.config.clients_inside {
            0
        } else {
            (costs.receive_ns + costs.send_ns * outputs.len() as f64) as u64
        };
        let cost_ns = self.cost_ns(SWITCH, copies) + around_ns;
        (outputs, cost_ns)
    }

    pub(super) fn switch_done(&mut self, outputs: Vec<Action>) {
        for output in outputs {
            if let Action::Send { to, packet, .. } = output {
                self.route(Flight { from: NodeId::SWITCH, to, packet });
            }
        }
    }

    /// An input for a role, which waits for its turn.
    pub(super) fn give(&mut self, number: u16, stimulus: Stimulus, remote: bool) {
        let place = &mut self.places[number as usize];
        place.inbox.push_back(Waiting { stimulus, remote });
        if !place.queued {
            place.queued = true;
            self.ready(self.server_of(number), Task::Place(number));
        }
    }

    pub(super) fn tick(&mut self, number: u16) {
        let place = &mut self.places[number as usize];
        if place.tick_ns != Some(self.now_ns) {
            return; // a tick arranged later, but for an earlier time, has come before
        }
        place.tick_ns = None;
        if place.role.next_deadline().is_some_and(|at_us| at_us * 1_000 <= self.now_ns) {
            self.give(number, Stimulus::Tick, false);
        } else {
            self.arm_tick(number);
        }
    }

    fn arm_tick(&mut self, number: u16) {
        let place = &mut self.places[number as usize];
        let Some(deadline_us) = place.role.next_deadline() else { return };
        let at_ns = (deadline_us * 1_000).max(self.now_ns);
        if place.tick_ns.is_none_or(|tick_ns| at_ns < tick_ns) {
            place.tick_ns = Some(at_ns);
            self.at(at_ns - self.now_ns, Event::Tick(number));
        }
    }

    pub(super) fn flush(&mut self, server: u16) {
        if self.servers[server as usize].begin_flush() {
            self.at(self.config.flush_ns, Event::Flushed(server));
        }
    }

    pub(super) fn flushed(&mut self, server: u16) {
        let (upto, released): (Lsn, Vec<Flight>) = self.servers[server as usize].flushed();
        released.into_iter().for_each(|flight| self.route(flight));
        for number in 0..self.places.len() as u16 {
            let place = &mut self.places[number as usize];
            if place.server == server
                && let Some(seq) = place.durable(upto)
            {
                self.give(number, Stimulus::Durable(seq), false);
            }
        }
        if !self.servers[server as usize].gate.is_empty() {
            self.flush(server);
        }
    }
}

/// The label of an input and the change-log entries in it.
fn of_stimulus(stimulus: &Stimulus, node: NodeId) -> (&'static str, u32) {
    let of_data = node.class() == Some(NodeClass::Data);
    match stimulus {
        Stimulus::Packet(packet) => label::of_packet(packet, node),
        Stimulus::Tick => (if of_data { DATA_TICK } else { TICK }, 0),
        Stimulus::Durable(_) => (if of_data { DATA_DURABLE } else { DURABLE }, 0),
        Stimulus::DiskDone(..) => (DISK, 0),
        Stimulus::Told(_) => (TOLD, 0),
    }
}
