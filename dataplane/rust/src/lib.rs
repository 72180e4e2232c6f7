//! The in-network program: the executable form of `dataplane/SPEC.md`, whose rules D-n the code cites.
//!
//! A [`Switch`] is a value. It takes the payload of a packet, with the port by which it comes in, and gives copies of it, each with the port by which it leaves; the
//! control plane gives [`Command`]s. It has no clock but what the control plane says, does no I/O, and allocates only in the caller's list of copies. [`common`] is what all
//! structures share, and each has a module of its own; the folders and files are named as in every other target.
//!
//! ```
//! use onpath_dataplane::{Command, Config, Counter, Port, Switch};
//! use onpath_wire::ids::{NodeId, SessionId, ShardId, TrackingEpoch};
//! use onpath_wire::innet::{Fingerprint, InNet, InNetResult};
//!
//! let (owner, site, client) = (NodeId::shard(ShardId(0)), ShardId(1), NodeId::session(SessionId(1)));
//! let mut switch = Switch::new(Config::whole(1))?;
//! for (node, port) in [(owner, 10), (NodeId::shard(site), 11), (client, 20)] {
//!     switch.control(&Command::Route { node: node.0, port: Port(port) })?;
//! }
//! switch.control(&Command::Host { port: Port(11) })?;
//! switch.control(&Command::Epoch(1))?;
//! switch.control(&Command::Complete(1))?;
//!
//! let directory = Fingerprint::new(5, 7)?;
//! let mark = InNet::insert(1, TrackingEpoch(1), directory, (site, 1, 1), Some(client));
//! let query = InNet::query(1, TrackingEpoch(1), directory, owner);
//! let mut copies = vec![];
//! assert_eq!(switch.step(Port(11), 4797, &mark.bytes(), &mut copies), Counter::InsertMarked);
//! assert_eq!(copies.iter().map(|copy| copy.port.0).collect::<Vec<_>>(), [11, 20]);
//! copies.clear();
//! switch.step(Port(20), 4797, &query.bytes(), &mut copies);
//! let (header, _message) = InNet::split(&copies[0].header)?;
//! assert_eq!((copies[0].port, header.result()), (Port(10), Some(InNetResult::Scattered)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod cache;
pub mod common;
pub mod dirty_set;
pub mod visibility;

pub use cache::Waiting;
pub use cache::control::CacheCommand;
pub use cache::locks::Locks;
pub use common::control::{Command, ControlError};
pub use common::counters::{Counter, Counters};
pub use common::header::Copy;
pub use common::routing::Port;
pub use common::state::{Lease, State};
pub use common::tracking::Tracking;

use cache::Progress;
use common::copies::Copies;
use common::parser::{self, Packet};
use common::planted::{Planted, planted};
use common::routing::{Hosts, Routes};
use dirty_set::registers::STAGES_MAX;
use onpath_wire::innet::cache::{CACHE_BITS, Read};
use onpath_wire::innet::{ENTRY_BITS, INDEX_BITS, INNET_UDP_PORT, InNet};
use thiserror::Error;

/// What is fixed when the program is loaded; it outlives a reboot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The file system whose packets are looked at (D-4).
    pub cluster: u32,
    /// The in-network port (D-1).
    pub udp_port: u16,
    /// Bits of an index, at most 17: there are so many sets (D-9, D-12). With fingerprints narrowed to as many
    /// ([`onpath_wire::innet::Fingerprint::narrowed`]) a small switch tracks all directories.
    pub index_bits: u32,
    /// Arrays of tags, at most [`STAGES_MAX`]; with 0 every insert finds the set full.
    pub stages: usize,
    /// Bits of the number of an entry of the visibility table, at most 16: there are so many entries (D-9, D-47).
    pub entry_bits: u32,
    /// Bits of an index of the cache, at most 16: it has so many entries.
    pub cache_bits: u32,
}

impl Config {
    /// A dirty set, a visibility table and a cache of full size.
    pub fn whole(cluster: u32) -> Config {
        let udp_port = INNET_UDP_PORT;
        let (index_bits, entry_bits, cache_bits) = (INDEX_BITS, ENTRY_BITS, CACHE_BITS);
        Config { cluster, udp_port, index_bits, stages: STAGES_MAX, entry_bits, cache_bits }
    }

    /// Whether a switch can have it, on any target.
    ///
    /// # Errors
    /// Too many stages, sets or entries.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.stages > STAGES_MAX {
            return Err(ConfigError::Stages(self.stages));
        }
        if self.index_bits > INDEX_BITS {
            return Err(ConfigError::IndexBits(self.index_bits));
        }
        if self.entry_bits > ENTRY_BITS {
            return Err(ConfigError::EntryBits(self.entry_bits));
        }
        if self.cache_bits <= CACHE_BITS { Ok(()) } else { Err(ConfigError::CacheBits(self.cache_bits)) }
    }

    /// How many sets there are.
    pub fn sets(&self) -> usize {
        1 << self.index_bits
    }

    /// How many entries the visibility table has.
    pub fn entries(&self) -> usize {
        1 << self.entry_bits
    }

    /// How many entries the cache has.
    pub fn cached(&self) -> usize {
        1 << self.cache_bits
    }
}

/// Why a configuration is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// More arrays than a pass has stages for.
    #[error("{0} stages of registers: at most {STAGES_MAX} fit into one pass")]
    Stages(usize),
    /// More sets than fingerprints name.
    #[error("an index of {0} bits: at most {INDEX_BITS} are in a fingerprint")]
    IndexBits(u32),
    /// More entries than packets name.
    #[error("numbers of {0} bits: at most {ENTRY_BITS} name an entry")]
    EntryBits(u32),
    /// More entries than the tables of the cache name.
    #[error("an index of {0} bits: at most {CACHE_BITS} are in the cache")]
    CacheBits(u32),
    /// A register that this configuration does not have.
    #[error("register {what} {at} does not exist in this configuration")]
    Register {
        /// Which array.
        what: &'static str,
        /// Which place in it.
        at: u32,
    },
}

/// A switch: tables, registers, counters.
#[derive(Clone, Debug)]
pub struct Switch {
    config: Config,
    dirty_set: dirty_set::registers::Registers,
    visibility: visibility::registers::Registers,
    cache: cache::registers::Registers,
    routes: Routes,
    hosts: Hosts,
    counters: Counters,
}

impl Switch {
    /// A switch after a reboot (D-42).
    ///
    /// # Errors
    /// Too many stages, sets or entries.
    pub fn new(config: Config) -> Result<Switch, ConfigError> {
        Switch::with_state(config, &State::default())
    }

    /// A switch with these registers, as its control plane or a vector loads them.
    ///
    /// # Errors
    /// Too many stages, sets or entries, or registers that do not exist.
    pub fn with_state(config: Config, state: &State) -> Result<Switch, ConfigError> {
        config.check()?;
        let dirty_set = dirty_set::registers::Registers::load(&config, state)?;
        let visibility = visibility::registers::Registers::load(&config, state)?;
        let cache = cache::registers::Registers::load(&config, state)?;
        let (routes, hosts) = (Routes::Table(Default::default()), Hosts::default());
        Ok(Switch { config, dirty_set, visibility, cache, routes, hosts, counters: Counters::default() })
    }

    /// A switch after a reboot to which every node has a cable of its own, numbered like the node: it needs no routes, and has no table
    /// that packets could fill.
    ///
    /// # Errors
    /// Too many stages, sets or entries.
    pub fn direct(config: Config) -> Result<Switch, ConfigError> {
        Ok(Switch { routes: Routes::Direct, ..Switch::new(config)? })
    }

    /// What was configured.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// All counters (D-43).
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The register of the tracking epoch.
    pub fn tracking(&self) -> Tracking {
        self.dirty_set.tracking()
    }

    /// The register of the visibility table's epoch.
    pub fn visibility(&self) -> Tracking {
        self.visibility.tracking()
    }

    /// All registers that are not 0.
    pub fn state(&self) -> State {
        let mut state = State::default();
        self.dirty_set.tell(&mut state);
        self.visibility.tell(&mut state);
        self.cache.tell(&mut state);
        state
    }

    /// The register of the cache's lease.
    pub fn lease(&self) -> Lease {
        self.cache.lease()
    }

    /// How often a name was missed in this period, or more (D-106).
    pub fn missed(&self, key: u64) -> u16 {
        self.cache.missed_so_far(key)
    }

    /// How often the entry of the cache at this index has answered in this period (D-110).
    pub fn hits(&self, index: u32) -> u32 {
        self.cache.hits(index)
    }

    /// Has Fletch's lock counters from now on, all 0, or none: to compare with.
    pub fn set_locks(&mut self, how: Locks) {
        self.cache.set_locks(how);
    }

    /// A shard has answered a read that was missed, as its header has left the switch: the lock counters that it still holds are lowered.
    pub fn replied(&mut self, read: &Read) {
        self.cache.replied(read);
    }

    /// The sum of all lock counters: names that are being read.
    pub fn locked(&self) -> u64 {
        self.cache.locked()
    }

    /// One packet: `payload` of a UDP packet to `udp_port` comes in by `port`, its copies are put into `out`. Tells what became of it; for
    /// [`Counter::Plain`] it passes as if this program did not exist.
    pub fn step(&mut self, port: Port, udp_port: u16, payload: &[u8], out: &mut Vec<Copy>) -> Counter {
        match parser::parse(&self.config, udp_port, payload) {
            Err(counter) => self.counted(counter),
            Ok(Packet::DirtySet(packet)) => self.track(port, packet, out),
            Ok(Packet::Visibility(packet)) => self.show(port, packet, out),
            Ok(Packet::Cache(packet)) => {
                let mut step = self.begin_walk(port, packet, out);
                loop {
                    match step {
                        Step::Counted(counter) => return counter,
                        Step::Waits(waiting) => step = self.go_on(waiting, out),
                    }
                }
            }
        }
    }

    /// The same, as far as the packet comes without having to wait: only those of the cache do.
    pub fn arrive(&mut self, port: Port, udp_port: u16, payload: &[u8], out: &mut Vec<Copy>) -> Step {
        Step::Counted(match parser::parse(&self.config, udp_port, payload) {
            Err(counter) => self.counted(counter),
            Ok(Packet::DirtySet(packet)) => self.track(port, packet, out),
            Ok(Packet::Visibility(packet)) => self.show(port, packet, out),
            Ok(Packet::Cache(packet)) => return self.begin_walk(port, packet, out),
        })
    }

    /// A packet that has waited, to where it waits next: before the names of its next pass, between names and stamp, or nowhere.
    pub fn go_on(&mut self, waiting: Waiting, out: &mut Vec<Copy>) -> Step {
        // D-123.
        if waiting.begins_a_pass() && !planted(Planted::D123) {
            self.counted(Counter::PassesRecirculated);
        }
        let progress = self.cache.go_on(waiting);
        self.proceeded(progress, out)
    }

    fn counted(&mut self, counter: Counter) -> Counter {
        self.counters.add(counter);
        counter
    }

    /// D-11, D-44: routes or drops what is not to be executed.
    #[inline]
    fn is_over(&mut self, port: Port, header: &InNet, changes: bool, out: &mut Vec<Copy>) -> Option<Counter> {
        let common = header.common();
        if common.result != 0 && !planted(Planted::D11) {
            self.copies(out).send(header, common.result, common.destination);
            return Some(self.counted(Counter::Answered));
        }
        (changes && !self.hosts.may_change(port)).then(|| self.counted(Counter::DropStranger))
    }

    fn track(&mut self, port: Port, packet: dirty_set::parser::Packet, out: &mut Vec<Copy>) -> Counter {
        let header = InNet::DirtySet(*packet.header());
        if let Some(counter) = self.is_over(port, &header, packet.changes(), out) {
            return counter;
        }
        let done = self.dirty_set.execute(packet);
        self.copies(out).deliver(&header, &done);
        self.counted(done.counter)
    }

    fn show(&mut self, port: Port, packet: visibility::parser::Packet, out: &mut Vec<Copy>) -> Counter {
        let mut header = *packet.header();
        if let Some(counter) = self.is_over(port, &InNet::Visibility(header), packet.changes(), out) {
            return counter;
        }
        let done = self.visibility.execute(packet, &mut header);
        self.copies(out).deliver(&InNet::Visibility(header), &done);
        self.counted(done.counter)
    }

    /// To where a packet of the cache waits for the first time.
    fn begin_walk(&mut self, port: Port, packet: cache::parser::Packet, out: &mut Vec<Copy>) -> Step {
        if let Some(counter) = self.is_over(port, &InNet::Cache(*packet.header()), packet.changes(), out) {
            return Step::Counted(counter);
        }
        let progress = self.cache.arrive(&packet, port);
        self.proceeded(progress, out)
    }

    fn proceeded(&mut self, progress: Progress, out: &mut Vec<Copy>) -> Step {
        match progress {
            Progress::Waits(waiting) => Step::Waits(waiting),
            Progress::Done(header, done) => {
                self.copies(out).deliver(&InNet::Cache(header), &done);
                Step::Counted(self.counted(done.counter))
            }
        }
    }

    fn copies<'s>(&'s mut self, out: &'s mut Vec<Copy>) -> Copies<'s> {
        Copies { routes: &self.routes, counters: &mut self.counters, out }
    }
}

/// How far a packet has come.
#[derive(Debug)]
pub enum Step<W = Waiting> {
    /// What became of it.
    Counted(Counter),
    /// It waits for [`Switch::go_on`].
    Waits(W),
}
