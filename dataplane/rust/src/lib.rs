//! The in-network program: the executable form of `dataplane/SPEC.md`, whose rules D-n the code cites.
//!
//! A [`Switch`] is a value. It takes the payload of a packet, with the port by which it comes in, and gives copies of it, each with the port by which it leaves; the
//! control plane gives [`Command`]s. It has no clock, does no I/O, and allocates only in the caller's list of copies. [`common`] is what all
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

pub mod common;
pub mod dirty_set;
pub mod visibility;

pub use common::control::{Command, ControlError};
pub use common::counters::{Counter, Counters};
pub use common::header::Copy;
pub use common::routing::Port;
pub use common::state::State;
pub use common::tracking::Tracking;

use common::copies::Copies;
use common::parser::{self, Packet};
use common::planted::{Planted, planted};
use common::routing::{Hosts, Routes};
use dirty_set::registers::STAGES_MAX;
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
}

impl Config {
    /// A dirty set and a visibility table of full size.
    pub fn whole(cluster: u32) -> Config {
        let udp_port = INNET_UDP_PORT;
        Config { cluster, udp_port, index_bits: INDEX_BITS, stages: STAGES_MAX, entry_bits: ENTRY_BITS }
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
        if self.entry_bits <= ENTRY_BITS { Ok(()) } else { Err(ConfigError::EntryBits(self.entry_bits)) }
    }

    /// How many sets there are.
    pub fn sets(&self) -> usize {
        1 << self.index_bits
    }

    /// How many entries the visibility table has.
    pub fn entries(&self) -> usize {
        1 << self.entry_bits
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
        let (routes, hosts) = (Routes::Table(Default::default()), Hosts::default());
        Ok(Switch { config, dirty_set, visibility, routes, hosts, counters: Counters::default() })
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
        state
    }

    /// One packet: `payload` of a UDP packet to `udp_port` comes in by `port`, its copies are put into `out`. Tells what became of it; for
    /// [`Counter::Plain`] it passes as if this program did not exist.
    pub fn step(&mut self, port: Port, udp_port: u16, payload: &[u8], out: &mut Vec<Copy>) -> Counter {
        let counter = match parser::parse(&self.config, udp_port, payload) {
            Err(counter) => counter,
            Ok(packet) => self.taken(port, packet, out),
        };
        self.counters.add(counter);
        counter
    }

    /// D-11, D-44: routes, executes or drops a packet that has an in-network header.
    fn taken(&mut self, port: Port, packet: Packet, out: &mut Vec<Copy>) -> Counter {
        let mut header = packet.header();
        let common = header.common();
        if common.result != 0 && !planted(Planted::D11) {
            self.copies(out).send(&header, common.result, common.destination);
            return Counter::Answered;
        }
        if packet.changes() && !self.hosts.may_change(port) {
            return Counter::DropStranger;
        }
        let done = match packet {
            Packet::DirtySet(packet) => self.dirty_set.execute(packet),
            Packet::Visibility(packet) => {
                let InNet::Visibility(header) = &mut header else { unreachable!("it is its packet's") };
                self.visibility.execute(packet, header)
            }
        };
        self.copies(out).deliver(&header, &done);
        done.counter
    }

    fn copies<'s>(&'s mut self, out: &'s mut Vec<Copy>) -> Copies<'s> {
        Copies { routes: &self.routes, counters: &mut self.counters, out }
    }
}
