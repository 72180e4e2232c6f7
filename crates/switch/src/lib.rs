//! The switch as a role: packets with an in-network header go through the in-network program, commands to its control plane.
//!
//! Layer L2. It sees bytes only: no other role knows the program's state, and it knows nothing of theirs. All it keeps is
//! volatile; a new [`Switch`] is a switch that was rebooted.

use onpath_dataplane::{CacheCommand as Cached, Config, Copy, Counter, Port, Step, Switch as Program, Waiting};
pub use onpath_dataplane::{Command, Locks};
use onpath_kernel::{Input, Need, Now, Output, Role};
use onpath_wire::cached::{CacheCommand, CacheStatus};
use onpath_wire::codec::Wire;
use onpath_wire::header::{Header, MessageKind};
use onpath_wire::ids::{NodeClass, NodeId, RecordSeq, RequestSeq, TrackingEpoch};
use onpath_wire::innet::{Cache, INNET_UDP_PORT, InNet, InNetBytes};
use onpath_wire::limits::HITS_MAX;
use onpath_wire::packet::Packet;
use onpath_wire::tracking::{SwitchCommand, SwitchStatus};
use std::collections::VecDeque;

/// What a switch is started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// Its address.
    pub node: NodeId,
    /// The file system whose packets it looks at.
    pub cluster: u32,
    /// Names this life; never the same again.
    pub boot: u64,
    /// Arrays of tags; with 0 every insert finds the set full.
    pub stages: usize,
}

impl SwitchConfig {
    /// A switch of full size.
    pub fn whole(node: NodeId, cluster: u32, boot: u64) -> SwitchConfig {
        SwitchConfig { node, cluster, boot, stages: Config::whole(cluster).stages }
    }
}

/// The in-network program where packets do not come by this process: in the kernel, or in a device.
pub trait Elsewhere: Send {
    /// Executes a command of the control plane. An error is logged where it arises; the state tells what is so.
    fn control(&mut self, command: &Command) -> bool;
    /// The present epoch of the dirty set, and whether it is complete; nothing if the program cannot be asked.
    fn tracking(&self) -> Option<(u16, bool)>;
    /// The same of the visibility table.
    fn visibility(&self) -> Option<(u16, bool)>;
    /// The epoch of the cache, and what its clock shows.
    fn cache(&self) -> Option<(u16, u32)>;
    /// How often the entry at an index of the cache has answered in this period.
    fn hits(&self, index: u32) -> u32;
    /// Named counters.
    fn counters(&self) -> Vec<(&'static str, u64)>;
}

/// By which packets of hosts come in, and those of others. Ports stand for cables; copies leave by one of their node's own, and what a session
/// asks the cache comes in by that of its own.
const HOSTS: Port = Port(1);
const ELSEWHERE: Port = Port(0);

/// Whence a packet comes, as whoever gives it to the switch has looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// From a host: it may change registers (D-44).
    Host,
    /// From a session: the cache may answer it (D-77).
    Session(NodeId),
    /// From anybody.
    Anybody,
}

impl Sender {
    fn port(self) -> Port {
        match self {
            Sender::Host => HOSTS,
            Sender::Session(node) => Port(node.0),
            Sender::Anybody => ELSEWHERE,
        }
    }
}

/// Where the in-network program runs.
enum Place {
    Here(Box<Program>),
    Elsewhere(Box<dyn Elsewhere>),
}

impl Place {
    fn control(&mut self, command: &Command) -> bool {
        match self {
            Place::Here(program) => program.control(command).is_ok(),
            Place::Elsewhere(program) => program.control(command),
        }
    }

    fn tracking(&self) -> Option<(u16, bool)> {
        match self {
            Place::Here(program) => Some((program.tracking().epoch, program.tracking().complete)),
            Place::Elsewhere(program) => program.tracking(),
        }
    }

    fn visibility(&self) -> Option<(u16, bool)> {
        match self {
            Place::Here(program) => Some((program.visibility().epoch, program.visibility().complete)),
            Place::Elsewhere(program) => program.visibility(),
        }
    }
}

/// A packet that is recirculated: it comes in again by [`Switch::go_on`].
#[derive(Debug)]
pub struct Recirculated {
    packet: Packet,
    waiting: Waiting,
}

impl Recirculated {
    /// The packet as it came in.
    pub fn packet(&self) -> &Packet {
        &self.packet
    }
}

/// How far a packet has come by one pass.
#[derive(Debug)]
pub enum Pass {
    /// It has left, or was dropped. `locks`: it is a read that the cache has missed, and still holds lock counters ([`Switch::replied`]).
    Over {
        /// Whether it does.
        locks: bool,
    },
    /// It is recirculated.
    Again(Box<Recirculated>),
}

/// A switch.
pub struct Switch {
    config: SwitchConfig,
    program: Place,
    /// The last command that began or completed an epoch of the dirty set, and of the visibility table: copies of older ones change nothing.
    last_command: RequestSeq,
    last_of_table: RequestSeq,
    /// The same of the cache, and whether it was executed: it may be asked for again.
    last_of_cache: (RequestSeq, bool),
    /// The clock by which the cache's lease ends (D-73).
    tick: u32,
    copies: Vec<Copy>,
    outputs: VecDeque<Output<()>>,
    malformed: u64,
}

impl Switch {
    /// A switch that has just been switched on.
    ///
    /// # Panics
    /// More stages than a pass has.
    pub fn new(config: SwitchConfig) -> Switch {
        let program = Program::direct(Config { stages: config.stages, ..Config::whole(config.cluster) });
        let mut program = program.expect("a configuration that fits");
        program.control(&Command::Host { port: HOSTS }).expect("room for the first one");
        Switch::with(config, Place::Here(Box::new(program)))
    }

    /// The control plane of a program that was just started elsewhere.
    pub fn elsewhere(config: SwitchConfig, program: Box<dyn Elsewhere>) -> Switch {
        Switch::with(config, Place::Elsewhere(program))
    }

    fn with(config: SwitchConfig, program: Place) -> Switch {
        Switch {
            config,
            program,
            last_command: RequestSeq(0),
            last_of_table: RequestSeq(0),
            last_of_cache: (RequestSeq(0), false),
            tick: 0,
            copies: Vec::new(),
            outputs: VecDeque::new(),
            malformed: 0,
        }
    }

    /// The present tracking epoch; 0 is none.
    pub fn epoch(&self) -> TrackingEpoch {
        TrackingEpoch(self.program.tracking().map_or(0, |(epoch, _)| epoch))
    }

    /// Counters of the in-network program.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = match &self.program {
            Place::Here(program) => {
                Counter::ALL.iter().map(|&counter| (counter.name(), program.counters().get(counter))).collect()
            }
            Place::Elsewhere(program) => program.counters(),
        };
        all.push(("control_malformed", self.malformed));
        all
    }

    /// The clock by which a lease of the cache ends, monotonic microseconds.
    pub fn set_clock(&mut self, mono_us: u64) {
        self.tick = ((u128::from(mono_us) * 1_000) >> 16) as u32;
        if let Place::Here(program) = &mut self.program {
            program.control(&Command::Cache(Cached::Clock(self.tick))).expect("a clock may stand anywhere");
        }
    }

    /// Runs the in-network program on the payload of a packet; `out` is given the header of each copy and the node it is for: behind it
    /// comes what followed the header in `payload`.
    pub fn step(&mut self, from: Sender, payload: &[u8], mut out: impl FnMut(NodeId, &InNetBytes)) {
        let Place::Here(program) = &mut self.program else { return };
        self.copies.clear();
        program.step(from.port(), INNET_UDP_PORT, payload, &mut self.copies);
        self.copies.iter().for_each(|copy| out(NodeId(copy.node), &copy.header));
    }

    fn packet(&mut self, packet: &Packet, innet: &InNet) {
        let mut outputs = std::mem::take(&mut self.outputs);
        self.step(sender(packet), &innet.bytes(), |to, header| outputs.push_back(copy_of(packet, to, header)));
        self.outputs = outputs;
    }

    /// The first pass of a packet that has an in-network header, where passes take time; only a program of this process has such.
    pub fn arrive(&mut self, now: Now, packet: Packet) -> Pass {
        self.set_clock(now.mono_us);
        let innet = packet.innet.as_deref().copied().filter(|innet| innet.common().result == 0);
        let (Place::Here(program), Some(innet)) = (&mut self.program, innet) else {
            self.handle(now, Input::Packet(packet));
            return Pass::Over { locks: false };
        };
        self.copies.clear();
        let step = program.arrive(sender(&packet).port(), INNET_UDP_PORT, &innet.bytes(), &mut self.copies);
        self.passed(packet, step)
    }

    /// A further pass.
    pub fn go_on(&mut self, now: Now, recirculated: Recirculated) -> Pass {
        self.set_clock(now.mono_us);
        let Recirculated { packet, waiting } = recirculated;
        let Place::Here(program) = &mut self.program else { return Pass::Over { locks: false } };
        self.copies.clear();
        let step = program.go_on(waiting, &mut self.copies);
        self.passed(packet, step)
    }

    /// The rest of a pass.
    fn passed(&mut self, packet: Packet, mut step: Step) -> Pass {
        let mut locks = false;
        loop {
            match step {
                Step::Waits(waiting) if waiting.begins_a_pass() => {
                    return Pass::Again(Box::new(Recirculated { packet, waiting }));
                }
                Step::Waits(waiting) => {
                    locks = waiting.holds_locks();
                    let Place::Here(program) = &mut self.program else { return Pass::Over { locks: false } };
                    step = program.go_on(waiting, &mut self.copies);
                }
                Step::Counted(counter) => {
                    let copies = self.copies.iter().map(|copy| copy_of(&packet, NodeId(copy.node), &copy.header));
                    self.outputs.extend(copies);
                    let is_missed = matches!(counter, Counter::ReadMissed | Counter::ReadReported);
                    return Pass::Over { locks: locks && is_missed };
                }
            }
        }
    }

    /// Has Fletch's lock counters from now on, or none: to compare with.
    pub fn set_locks(&mut self, locks: Locks) {
        if let Place::Here(program) = &mut self.program {
            program.set_locks(locks);
        }
    }

    /// A home has answered a read that the cache has missed and that holds lock counters.
    pub fn replied(&mut self, innet: &InNet) {
        if let (Place::Here(program), InNet::Cache(Cache::Read(read))) = (&mut self.program, innet) {
            program.replied(read);
        }
    }

    /// Executes a command unless a newer one of its structure has come; false if it is refused.
    fn execute(&mut self, header: &Header, command: &SwitchCommand) -> bool {
        let (last, command) = match *command {
            SwitchCommand::Status | SwitchCommand::VisibilityStatus => return true,
            SwitchCommand::Raise { shard, term } => {
                return self.program.control(&Command::Raise { shard: shard.0, term: term.0 });
            }
            SwitchCommand::Epoch { epoch } => (&mut self.last_command, Command::Epoch(epoch.0)),
            SwitchCommand::Complete { epoch } => (&mut self.last_command, Command::Complete(epoch.0)),
            SwitchCommand::VisibilityEpoch { epoch } => (&mut self.last_of_table, Command::VisibilityEpoch(epoch.0)),
            SwitchCommand::VisibilityComplete { epoch } => {
                (&mut self.last_of_table, Command::VisibilityComplete(epoch.0))
            }
            SwitchCommand::VisibilityClear => (&mut self.last_of_table, Command::VisibilityClear),
            SwitchCommand::Cache { ref command } => {
                if header.seq > self.last_of_cache.0 {
                    self.last_of_cache = (header.seq, self.cache(header.source, command));
                }
                return header.seq == self.last_of_cache.0 && self.last_of_cache.1;
            }
        };
        let newest = header.seq > *last;
        *last = (*last).max(header.seq);
        !newest || self.program.control(&command)
    }

    /// Executes a command of the cache; false if it is refused, or in the middle of what it takes.
    fn cache(&mut self, from: NodeId, command: &CacheCommand) -> bool {
        let program = &mut self.program;
        let mut all = |commands: &[Cached]| commands.iter().all(|&one| program.control(&Command::Cache(one)));
        let port = |session: NodeId| Port(session.0);
        match *command {
            CacheCommand::Status | CacheCommand::Hits { .. } => true,
            CacheCommand::Begin { epoch, until } => all(&[Cached::Off, Cached::Empty, Cached::Begin { epoch, until }]),
            CacheCommand::Renew { epoch, until } => all(&[Cached::Renew { epoch, until }]),
            CacheCommand::End => all(&[Cached::Off, Cached::Empty]),
            CacheCommand::Admit { epoch, key, token, index, number } => {
                all(&[Cached::Stamp { epoch, index, number }, Cached::Admit { epoch, key, token, index, number }])
            }
            CacheCommand::Evict { epoch, key, token, index } => {
                all(&[Cached::Evict { epoch, key, token }, Cached::Stamp { epoch, index, number: 0 }])
            }
            CacheCommand::List { session } => all(&[Cached::Any { port: port(session) }]),
            CacheCommand::Unlist { session } => all(&[Cached::Unlist { port: port(session) }]),
            CacheCommand::Count { threshold } => all(&[Cached::Report { node: from.0, threshold }, Cached::Reset]),
        }
    }

    /// What the cache's control plane is told; nothing of a program that cannot be asked.
    fn cache_status(&self, command: &CacheCommand, done: bool) -> Option<CacheStatus> {
        let (epoch, tick) = match &self.program {
            Place::Here(program) => (program.lease().epoch, self.tick),
            Place::Elsewhere(program) => program.cache()?,
        };
        let hits = |at: u32| match &self.program {
            Place::Here(program) => program.hits(at),
            Place::Elsewhere(program) => program.hits(at),
        };
        let hits = match command {
            CacheCommand::Hits { indices } => indices.iter().take(HITS_MAX).map(|&at| hits(at)).collect(),
            _ => vec![],
        };
        Some(CacheStatus { boot: self.config.boot, epoch, tick, done, hits })
    }

    fn command(&mut self, header: &Header, command: &SwitchCommand) {
        let done = self.execute(header, command);
        if !done {
            self.malformed += 1; // the answer says what is so
        }
        if let SwitchCommand::Cache { command } = command {
            let status = self.cache_status(command, done);
            return status.into_iter().for_each(|status| self.answer(header, &status));
        }
        let state = match command {
            SwitchCommand::VisibilityStatus
            | SwitchCommand::VisibilityEpoch { .. }
            | SwitchCommand::VisibilityComplete { .. }
            | SwitchCommand::VisibilityClear => self.program.visibility(),
            _ => self.program.tracking(),
        };
        // One that cannot be asked is gone, and whoever waits for the answer sees that.
        let Some((epoch, complete)) = state else { return };
        self.answer(header, &SwitchStatus { boot: self.config.boot, epoch: TrackingEpoch(epoch), complete });
    }

    fn answer(&mut self, header: &Header, status: &impl Wire) {
        let mut answer = Header::new(MessageKind::PeerAnswer, self.config.node, header.seq);
        answer.cluster = self.config.cluster;
        let packet = Packet::new(&answer, status);
        let to = header.source;
        self.outputs.push_back(Output::Send { to, packet, after: RecordSeq(0), need: Need::ByDestination });
    }
}

/// Whoever gives a packet to this role has looked who sends it; a session changes nothing.
fn sender(packet: &Packet) -> Sender {
    packet.header().map_or(Sender::Anybody, |header| match header.source.class() {
        Some(NodeClass::Shard | NodeClass::Data) => Sender::Host,
        Some(NodeClass::Session) => Sender::Session(header.source),
        _ => Sender::Anybody,
    })
}

fn copy_of(packet: &Packet, to: NodeId, header: &InNetBytes) -> Output<()> {
    let header = InNet::of_bytes(header).expect("a copy has the header of its packet, and what a switch writes");
    let packet = packet.clone().through_switch(header);
    Output::Send { to, packet, after: RecordSeq(0), need: Need::ByDestination }
}

impl Role for Switch {
    type In = ();
    type Out = ();

    fn handle(&mut self, now: Now, input: Input<()>) {
        self.set_clock(now.mono_us);
        let Input::Packet(packet) = input else { return };
        if let Some(innet) = packet.innet.as_deref().copied().filter(|innet| innet.common().result == 0) {
            return self.packet(&packet, &innet);
        }
        match (packet.header(), packet.body::<SwitchCommand>()) {
            (Ok(header), Ok(command)) if header.kind() == MessageKind::Switch => self.command(&header, &command),
            _ => self.malformed += 1,
        }
    }

    fn poll_output(&mut self) -> Option<Output<()>> {
        self.outputs.pop_front()
    }

    fn next_deadline(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::ids::{SessionId, ShardId};
    use onpath_wire::innet::cache::{Asker, CacheResult, EntryOf, EntryValue, Purpose};
    use onpath_wire::innet::{EntryName, Metadata};

    const SWITCH: NodeId = NodeId::SWITCH;

    fn told(switch: &mut Switch) -> Vec<(NodeId, Packet)> {
        let outputs = std::iter::from_fn(|| switch.poll_output());
        outputs
            .map(|output| if let Output::Send { to, packet, .. } = output { (to, packet) } else { panic!() })
            .collect()
    }

    fn say(switch: &mut Switch, packet: Packet) -> Vec<(NodeId, Packet)> {
        say_at(switch, 0, packet)
    }

    fn say_at(switch: &mut Switch, mono_us: u64, packet: Packet) -> Vec<(NodeId, Packet)> {
        switch.handle(Now { mono_us, wall_ns: 0 }, Input::Packet(packet));
        told(switch)
    }

    fn status(switch: &mut Switch, seq: u64, command: SwitchCommand) -> (u16, bool) {
        let header = Header::new(MessageKind::Switch, NodeId::shard(ShardId(0)), RequestSeq(seq));
        let answers = say(switch, Packet::new(&header, &command));
        let status: SwitchStatus = answers[0].1.body().expect("a status");
        (status.epoch.0, status.complete)
    }

    /// A name that a command names is answered to the sessions that are listed, as long as the lease lasts.
    #[test]
    fn a_name_that_was_admitted_and_filled_is_answered() {
        let mut switch = Switch::new(SwitchConfig::whole(SWITCH, 1, 1));
        let (controller, home, session) = (NodeId::controller(0), ShardId(0), NodeId::session(SessionId(5)));
        let of = EntryOf { key: 77, token: 3, number: 9, revision: 1 };
        let command = |switch: &mut Switch, seq, command| {
            let header = Header::new(MessageKind::Switch, controller, RequestSeq(seq));
            let answers = say(switch, Packet::new(&header, &SwitchCommand::Cache { command }));
            let status: CacheStatus = answers[0].1.body().expect("a status");
            (status.epoch, status.done)
        };
        let admit = CacheCommand::Admit { epoch: 4, key: of.key, token: of.token, index: 0, number: of.number };
        assert_eq!(command(&mut switch, 1, admit.clone()), (0, false), "there is no epoch");
        assert_eq!(command(&mut switch, 2, CacheCommand::Begin { epoch: 4, until: 1_000 }), (4, true));
        assert_eq!(command(&mut switch, 3, admit.clone()), (4, true));
        assert_eq!(command(&mut switch, 3, admit.clone()), (4, true), "asked for again");
        assert_eq!(command(&mut switch, 2, CacheCommand::Begin { epoch: 5, until: 1_000 }), (4, false), "late");
        let value = EntryValue { parent: 1, id: 66, kind: 1, mode: 0o644, ..EntryValue::default() };
        let fill = InNet::fill(1, 4, of, &value, home, controller);
        let read = InNet::read(
            1,
            4,
            (1, &[(of.key, of.token)]),
            (Purpose::Stat, 0),
            Asker { requester: session, uid: 1, gid: 1 },
            NodeId::shard(home),
        );
        let by = |source, innet| {
            let header = Header::new(MessageKind::Request, source, RequestSeq(1));
            Packet::encoded(header.bytes().to_vec(), Default::default()).through_switch(innet)
        };
        let result = |copies: Vec<(NodeId, Packet)>| -> Vec<(NodeId, u8)> {
            let of = |(to, packet): (NodeId, Packet)| (to, packet.innet.expect("it has its header").common().result);
            copies.into_iter().map(of).collect()
        };
        let missed = [(NodeId::shard(home), CacheResult::Miss as u8)];
        assert_eq!(result(say(&mut switch, by(session, read))), missed, "not listed");
        assert_eq!(command(&mut switch, 4, CacheCommand::List { session }), (4, true));
        assert!(say(&mut switch, by(session, fill)).is_empty(), "only hosts fill");
        assert_eq!(result(say(&mut switch, by(session, read))), missed);
        assert_eq!(result(say(&mut switch, by(NodeId::shard(home), fill))), [(controller, CacheResult::Filled as u8)]);
        let answers = say(&mut switch, by(session, read));
        assert!(matches!(answers[0].1.innet.as_deref(), Some(InNet::Cache(cache)) if cache.answer() == Some(value)));
        assert_eq!(result(answers), [(session, CacheResult::Answered as u8)]);
        assert_eq!(result(say_at(&mut switch, 66_000, by(session, read))), missed, "the lease is over");
        assert_eq!(result(say(&mut switch, by(session, read))), missed, "for good");
    }

    /// Commands of one structure leave the other alone, and copies of older ones change nothing.
    #[test]
    fn each_structure_has_its_epoch() {
        let mut switch = Switch::new(SwitchConfig::whole(SWITCH, 1, 1));
        let epoch = TrackingEpoch;
        assert_eq!(status(&mut switch, 1, SwitchCommand::Epoch { epoch: epoch(3) }), (3, false));
        assert_eq!(status(&mut switch, 2, SwitchCommand::VisibilityEpoch { epoch: epoch(5) }), (5, false));
        assert_eq!(status(&mut switch, 3, SwitchCommand::VisibilityComplete { epoch: epoch(5) }), (5, true));
        assert_eq!(status(&mut switch, 2, SwitchCommand::VisibilityEpoch { epoch: epoch(4) }), (5, true), "a copy");
        assert_eq!(status(&mut switch, 4, SwitchCommand::VisibilityClear), (5, true), "refused");
        assert_eq!(status(&mut switch, 5, SwitchCommand::Status), (3, false));
        assert_eq!(status(&mut switch, 6, SwitchCommand::VisibilityStatus), (5, true));
        assert!(switch.counters().contains(&("control_malformed", 1)));
    }

    #[test]
    fn a_data_node_installs_and_a_session_does_not() {
        let mut switch = Switch::new(SwitchConfig::whole(SWITCH, 1, 1));
        let name = EntryName::new(5, 7).expect("a name");
        let (epoch, home, session) = (TrackingEpoch(5), ShardId(0), NodeId::session(SessionId(1)));
        status(&mut switch, 1, SwitchCommand::VisibilityEpoch { epoch });
        let install = InNet::install(1, epoch, name, (9, Metadata::default()), home, Some(session));
        let by = |source| {
            let header = Header::new(MessageKind::DataReply, source, RequestSeq(1));
            Packet::encoded(header.bytes().to_vec(), Default::default()).through_switch(install)
        };
        assert!(say(&mut switch, by(session)).is_empty());
        let copies = say(&mut switch, by(NodeId::data(0)));
        assert_eq!(copies.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [NodeId::shard(home), session]);
        assert!(copies.iter().all(|(_, packet)| !packet.wants_switch()));
        let counters = switch.counters();
        assert!(counters.contains(&("install_done", 1)) && counters.contains(&("drop_stranger", 1)));
    }
}
