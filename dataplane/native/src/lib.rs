//! The C form of the in-network program (`dataplane/c/include`) over a plain struct, with the interface of
//! [`onpath_dataplane::Switch`], so that what tests the one tests the other. Only tests use it.
//!
//! ```
//! use onpath_dataplane::{Command, Config, Counter, Port};
//! use onpath_dataplane_native::Switch;
//! use onpath_wire::ids::{NodeId, ShardId, TrackingEpoch};
//! use onpath_wire::innet::{Fingerprint, InNet};
//!
//! let owner = NodeId::shard(ShardId(0));
//! let mut switch = Switch::new(Config::whole(1))?;
//! switch.control(&Command::Route { node: owner.0, port: Port(10) })?;
//! let query = InNet::query(1, TrackingEpoch(1), Fingerprint::new(5, 7)?, owner);
//! let mut copies = vec![];
//! assert_eq!(switch.step(Port(20), 4797, &query.bytes(), &mut copies), Counter::QueryUnknown);
//! assert_eq!(copies[0].port, Port(10));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ffi;

use ffi::{Memory, RawCached, RawConfig, RawEntry, RawLease, RawPair, RawTracking, RawWaiting};
use onpath_dataplane::cache::tables::REQUESTERS_MAX;
use onpath_dataplane::common::routing::{HOSTS_MAX, ROUTES_MAX};
use onpath_dataplane::common::state::{CacheState, Entry, Lease, Pair, Stamp};
use onpath_dataplane::{
    CacheCommand, Command, Config, ConfigError, ControlError, Copy, Counter, Port, State, Step, Tracking,
};
use onpath_wire::innet::cache::{CacheOp, Fill, Invalidate, Read, VALUE_BYTES};
use onpath_wire::innet::{Cache, DirtySet, InNet, InNetBytes, Structure, Visibility};

/// A switch whose program is the one in C.
#[derive(Clone, Debug)]
pub struct Switch {
    config: Config,
    memory: Memory,
}

impl Switch {
    /// A switch after a reboot (D-42).
    ///
    /// # Errors
    /// Too many stages, sets or entries.
    pub fn new(config: Config) -> Result<Switch, ConfigError> {
        Switch::with_state(config, &State::default())
    }

    /// A switch with these registers.
    ///
    /// # Errors
    /// Too many stages, sets or entries, or registers that do not exist.
    pub fn with_state(config: Config, state: &State) -> Result<Switch, ConfigError> {
        config.check()?;
        let Config { cluster, udp_port, index_bits, stages, entry_bits, cache_bits } = config;
        let (udp_port, stages) = (udp_port.into(), stages as u32);
        let raw = RawConfig { cluster, udp_port, index_bits, stages, entry_bits, cache_bits };
        let memory = Memory::new(&raw, [config.sets(), config.entries(), config.cached()]);
        let mut switch = Switch { config, memory };
        switch.load(state)?;
        Ok(switch)
    }

    fn load(&mut self, state: &State) -> Result<(), ConfigError> {
        let raw = |of: Tracking| RawTracking { epoch: of.epoch.into(), complete: of.complete.into() };
        *self.memory.tracking() = raw(state.tracking);
        *self.memory.visibility() = raw(state.visibility);
        for &(shard, Pair { min_term, counter }) in &state.pairs {
            let known = self.memory.pairs().get_mut(usize::from(shard));
            let missing = ConfigError::Register { what: "pair", at: shard.into() };
            *known.ok_or(missing)? = RawPair { min_term, counter };
        }
        for &(stage, index, tag) in &state.tags {
            if usize::from(stage) >= self.config.stages {
                return Err(ConfigError::Register { what: "array", at: stage.into() });
            }
            let set = self.memory.sets().get_mut(index as usize);
            set.ok_or(ConfigError::Register { what: "index", at: index })?[usize::from(stage)] = tag;
        }
        for &(number, Entry { fingerprint, ts, metadata }) in &state.entries {
            let known = self.memory.entries().get_mut(number as usize);
            let missing = ConfigError::Register { what: "entry", at: number };
            *known.ok_or(missing)? = RawEntry { fingerprint, ts, metadata };
        }
        self.load_cache(&state.cache)
    }

    fn load_cache(&mut self, state: &CacheState) -> Result<(), ConfigError> {
        let missing = |what, at| ConfigError::Register { what, at };
        let cached = self.config.cached();
        *self.memory.lease() = RawLease { until: state.lease.until, epoch: state.lease.epoch.into() };
        for &(row, at, count) in &state.sketch {
            let places = self.memory.missed().chunks_exact_mut(cached).nth(row.into());
            let place = places.ok_or(missing("row", row.into()))?.get_mut(at as usize);
            *place.ok_or(missing("sketch", at))? = count;
        }
        for &at in &state.reported {
            *self.memory.reported().get_mut(at as usize).ok_or(missing("reported", at))? = 1;
        }
        for &(at, count) in &state.hits {
            *self.memory.hits().get_mut(at as usize).ok_or(missing("hits", at))? = count;
        }
        for &(at, Stamp { number, state }) in &state.stamps {
            let entry = self.memory.cached().get_mut(at as usize).ok_or(missing("stamp", at))?;
            (entry.number, entry.state) = (number, state);
        }
        for &(at, value) in &state.values {
            self.memory.cached().get_mut(at as usize).ok_or(missing("value", at))?.value = value;
        }
        Ok(())
    }

    fn cache_state(&mut self) -> CacheState {
        let RawLease { until, epoch } = *self.memory.lease();
        let lease = Lease { epoch: u16::try_from(epoch).expect("an epoch has 16 bits"), until };
        let cached = self.config.cached();
        let used = |(at, entry): (u32, &RawCached)| (at, Stamp { number: entry.number, state: entry.state });
        let stamps = (0..).zip(self.memory.cached().iter()).map(used).filter(|(_, stamp)| *stamp != Stamp::default());
        let stamps = stamps.collect();
        let values = (0..).zip(self.memory.cached().iter()).map(|(at, entry)| (at, entry.value));
        let values = values.filter(|(_, value)| *value != [0; VALUE_BYTES]).collect();
        let mut sketch = vec![];
        for (row, places) in (0..).zip(self.memory.missed().chunks_exact(cached)) {
            let used = (0..).zip(places).filter(|(_, count)| **count != 0);
            sketch.extend(used.map(|(at, count)| (row, at, *count)));
        }
        let reported = (0..).zip(self.memory.reported().iter()).filter(|(_, told)| **told != 0).map(|(at, _)| at);
        let reported = reported.collect();
        let hits = (0..).zip(self.memory.hits().iter()).filter(|(_, count)| **count != 0);
        let hits = hits.map(|(at, count)| (at, *count)).collect();
        CacheState { lease, stamps, values, sketch, reported, hits }
    }

    /// What was configured.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The value of a counter (D-43).
    pub fn count(&self, counter: Counter) -> u64 {
        self.memory.counters()[counter as usize]
    }

    /// All registers that are not 0, those of arrays that are not used among them.
    pub fn state(&mut self) -> State {
        let told = |raw: RawTracking| Tracking {
            epoch: u16::try_from(raw.epoch).expect("an epoch has 16 bits"),
            complete: raw.complete != 0,
        };
        let (tracking, visibility) = (told(*self.memory.tracking()), told(*self.memory.visibility()));
        let pairs = self.memory.pairs().iter().enumerate();
        let pairs = pairs.map(|(shard, pair)| (shard as u16, Pair { min_term: pair.min_term, counter: pair.counter }));
        let pairs = pairs.filter(|(_, pair)| *pair != Pair::default()).collect();
        let mut tags = vec![];
        for (index, set) in (0..).zip(self.memory.sets().iter()) {
            let used = set.iter().enumerate().filter(|(_, tag)| **tag != 0);
            tags.extend(used.map(|(stage, &tag)| (stage as u16, index, tag)));
        }
        tags.sort_unstable();
        let entry = |raw: &RawEntry| Entry { fingerprint: raw.fingerprint, ts: raw.ts, metadata: raw.metadata };
        let entries =
            (0..).zip(self.memory.entries().iter().map(entry)).filter(|(_, entry)| *entry != Entry::default());
        let entries = entries.collect();
        State { tracking, pairs, tags, visibility, entries, cache: self.cache_state() }
    }

    /// One packet: `payload` of a UDP packet to `udp_port` comes in by `port`, its copies are put into `out`. Tells what became of it.
    pub fn step(&mut self, port: Port, udp_port: u16, payload: &[u8], out: &mut Vec<Copy>) -> Counter {
        let (counter, copies) = self.memory.step(port.0, udp_port, payload);
        out.extend(copies.iter().map(|copy| Copy { port: Port(copy.port), node: copy.node, header: header(copy) }));
        *Counter::ALL.get(counter as usize).expect("a packet is counted as something")
    }

    /// The same, as far as the packet comes without having to wait.
    pub fn arrive(&mut self, port: Port, udp_port: u16, payload: &[u8], out: &mut Vec<Copy>) -> Step<Waiting> {
        let (end, copies) = self.memory.arrive(port.0, udp_port, payload);
        out.extend(copies.iter().map(|copy| Copy { port: Port(copy.port), node: copy.node, header: header(copy) }));
        ended(end)
    }

    /// A packet that has waited, to where it waits next, or nowhere.
    pub fn go_on(&mut self, waiting: Waiting, out: &mut Vec<Copy>) -> Step<Waiting> {
        let (end, copies) = self.memory.go_on(waiting.0);
        out.extend(copies.iter().map(|copy| Copy { port: Port(copy.port), node: copy.node, header: header(copy) }));
        ended(end)
    }

    /// Executes a command of the control plane.
    ///
    /// # Errors
    /// The reason why it is refused; then nothing has changed.
    pub fn control(&mut self, command: &Command) -> Result<(), ControlError> {
        let (number, arguments) = match *command {
            Command::Epoch(epoch) => (0, [epoch.into(), 0, 0]),
            Command::Complete(epoch) => (1, [epoch.into(), 0, 0]),
            Command::Raise { shard, term } => (2, [shard.into(), term, 0]),
            Command::Clear => (3, [0; 3]),
            Command::Route { node, port } => (4, [node, 0, port.0]),
            Command::Unroute { node } => (5, [node, 0, 0]),
            Command::Host { port } => (6, [0, 0, port.0]),
            Command::Unhost { port } => (7, [0, 0, port.0]),
            Command::VisibilityEpoch(epoch) => (8, [epoch.into(), 0, 0]),
            Command::VisibilityComplete(epoch) => (9, [epoch.into(), 0, 0]),
            Command::VisibilityClear => (10, [0; 3]),
            Command::Cache(of_cache) => {
                let (number, arguments) = cache_command(&of_cache);
                return match self.memory.cache(number, arguments) {
                    0 => Ok(()),
                    refusal => Err(refused(&self.config, command, refusal)),
                };
            }
            Command::Reboot => (11, [0; 3]),
        };
        match self.memory.control(number, arguments) {
            0 => Ok(()),
            refusal => Err(refused(&self.config, command, refusal)),
        }
    }
}

/// A packet that waits on its way.
#[derive(Debug)]
pub struct Waiting(RawWaiting);

fn ended(end: Result<u32, RawWaiting>) -> Step<Waiting> {
    match end {
        Ok(counter) => Step::Counted(*Counter::ALL.get(counter as usize).expect("a packet is counted as something")),
        Err(waiting) => Step::Waits(Waiting(waiting)),
    }
}

/// Number and arguments of a command of the cache, as native.c takes them.
fn cache_command(command: &CacheCommand) -> (u32, [u64; 5]) {
    match *command {
        CacheCommand::Clock(tick) => (0, [tick.into(), 0, 0, 0, 0]),
        CacheCommand::Begin { epoch, until } => (1, [epoch.into(), until.into(), 0, 0, 0]),
        CacheCommand::Renew { epoch, until } => (2, [epoch.into(), until.into(), 0, 0, 0]),
        CacheCommand::Off => (3, [0; 5]),
        CacheCommand::Empty => (4, [0; 5]),
        CacheCommand::Stamp { epoch, index, number } => (5, [epoch.into(), index.into(), number.into(), 0, 0]),
        CacheCommand::Admit { epoch, key, token, index, number } => {
            (6, [epoch.into(), key, token.into(), index.into(), number.into()])
        }
        CacheCommand::Evict { epoch, key, token } => (7, [epoch.into(), key, token.into(), 0, 0]),
        CacheCommand::Any { port } => (8, [port.0.into(), 0, 0, 0, 0]),
        CacheCommand::Caller { port, uid, gid } => (9, [port.0.into(), uid.into(), gid.into(), 0, 0]),
        CacheCommand::Unlist { port } => (10, [port.0.into(), 0, 0, 0, 0]),
        CacheCommand::Report { node, threshold } => (11, [node.into(), threshold.into(), 0, 0, 0]),
        CacheCommand::Reset => (12, [0; 5]),
    }
}

/// The header of a copy: as many bytes as its structure and operation say.
fn header(copy: &ffi::RawCopy) -> InNetBytes {
    let own = "the longest header";
    match Structure::of_byte(copy.header[0]) {
        Some(Structure::Visibility) => {
            InNet::Visibility(Visibility::of_bytes(copy.header.first_chunk().expect(own))).bytes()
        }
        Some(Structure::Cache) => InNet::Cache(match CacheOp::of_code(copy.header[0] & 0xf) {
            Some(CacheOp::Fill) => Cache::Fill(Fill::of_bytes(copy.header.first_chunk().expect(own))),
            Some(CacheOp::Invalidate) => Cache::Invalidate(Invalidate::of_bytes(copy.header.first_chunk().expect(own))),
            _ => Cache::Read(Read::of_bytes(copy.header.first_chunk().expect(own))),
        })
        .bytes(),
        _ => InNet::DirtySet(DirtySet::of_bytes(copy.header.first_chunk().expect(own))).bytes(),
    }
}

/// `enum onpath_refusal`, with what the command said.
fn refused(config: &Config, command: &Command, refusal: u32) -> ControlError {
    match (refusal, *command) {
        (1, Command::Complete(epoch) | Command::VisibilityComplete(epoch)) => ControlError::OtherEpoch(epoch),
        (2, Command::Raise { shard, .. }) => ControlError::Shard(shard),
        (3, Command::Raise { term, .. }) => ControlError::Term(term),
        (4, _) => ControlError::EpochRuns,
        (5, _) => ControlError::NodeZero,
        (6, Command::Route { .. }) => ControlError::Full("routes", ROUTES_MAX),
        (6, Command::Host { .. }) => ControlError::Full("hosts", HOSTS_MAX),
        (1, Command::Cache(of_cache)) => ControlError::OtherEpoch(epoch_of(&of_cache)),
        (6, Command::Cache(CacheCommand::Admit { .. })) => ControlError::Full("names", config.cached()),
        (6, Command::Cache(CacheCommand::Any { .. } | CacheCommand::Caller { .. })) => {
            ControlError::Full("requesters", REQUESTERS_MAX)
        }
        (7, _) => ControlError::NotEmpty,
        (8, _) => ControlError::Passed,
        (9, _) => ControlError::Entry,
        (10, _) => ControlError::Known,
        (other, command) => panic!("C refuses {command:?} for a reason that it has not: {other}"),
    }
}

/// The epoch that a command names.
fn epoch_of(command: &CacheCommand) -> u16 {
    match *command {
        CacheCommand::Begin { epoch, .. }
        | CacheCommand::Renew { epoch, .. }
        | CacheCommand::Stamp { epoch, .. }
        | CacheCommand::Admit { epoch, .. }
        | CacheCommand::Evict { epoch, .. } => epoch,
        _ => 0,
    }
}

/// Plants a bug for every switch on this thread.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<onpath_dataplane::common::planted::Planted>) {
    ffi::plant(bug.map_or(0, |bug| bug as u32));
}
