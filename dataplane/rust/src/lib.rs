//! The in-network program: the executable form of `dataplane/SPEC.md`, whose rules D-n the code cites.
//!
//! A [`Switch`] is a value. It takes the payload of a packet, with the port by which it comes in, and gives copies of it, each with the port by which it leaves; the
//! control plane gives [`Command`]s. It has no clock, does no I/O, and allocates only in the caller's list of copies. The files are
//! named as in every other target.
//!
//! ```
//! use onpath_dataplane::{Command, Config, Counter, Port, Switch};
//! use onpath_wire::ids::{NodeId, SessionId, ShardId, Term, TrackingEpoch};
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
//! let mark = InNet::insert(1, TrackingEpoch(1), directory, (site, Term(1), 1), Some(client));
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

pub mod control;
pub mod counters;
pub mod dirty_set;
pub mod header;
pub mod multicast;
pub mod parser;
pub mod planted;
pub mod registers;
pub mod routing;

pub use control::{Command, ControlError};
pub use counters::{Counter, Counters};
pub use header::Copy;
pub use registers::{State, Tracking};
pub use routing::{Port, Prefix};

use multicast::Groups;
use onpath_wire::innet::{INDEX_BITS, INNET_UDP_PORT};
use registers::{Registers, STAGES_MAX};
use routing::{Hosts, Peers, Routes};
use thiserror::Error;

/// What is fixed when the program is loaded; it outlives a reboot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The file system whose packets are looked at (D-4).
    pub cluster: u32,
    /// The in-network port (D-1).
    pub udp_port: u16,
    /// The fingerprints that this switch tracks (D-12); it has 2^(17 − bits) sets. With the prefix 0 of b bits and fingerprints
    /// narrowed to 17 − b bits ([`onpath_wire::innet::Fingerprint::narrowed`]) a small switch tracks all directories.
    pub own: Prefix,
    /// Arrays of tags, at most [`STAGES_MAX`]; with 0 every insert finds the set full.
    pub stages: usize,
}

impl Config {
    /// All of the dirty set in one switch.
    pub fn whole(cluster: u32) -> Config {
        Config { cluster, udp_port: INNET_UDP_PORT, own: Prefix::ALL, stages: STAGES_MAX }
    }

    /// Whether a switch can have it, on any target.
    ///
    /// # Errors
    /// Too many stages, or a prefix that is none.
    pub fn check(&self) -> Result<(), ConfigError> {
        let Prefix { value, bits } = self.own;
        if self.stages > STAGES_MAX {
            return Err(ConfigError::Stages(self.stages));
        }
        if self.own.is_valid() { Ok(()) } else { Err(ConfigError::Prefix { value, bits }) }
    }
}

/// Why a configuration is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// More arrays than a pass has stages for.
    #[error("{0} stages of registers: at most {STAGES_MAX} fit into one pass")]
    Stages(usize),
    /// Not a prefix of an index.
    #[error("{value}/{bits} is no prefix of an index of {INDEX_BITS} bits")]
    Prefix {
        /// Value given.
        value: u32,
        /// Length given.
        bits: u32,
    },
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
    registers: Registers,
    routes: Routes,
    groups: Groups,
    peers: Peers,
    hosts: Hosts,
    counters: Counters,
}

impl Switch {
    /// A switch after a reboot (D-42).
    ///
    /// # Errors
    /// Too many stages, or a prefix that is none.
    pub fn new(config: Config) -> Result<Switch, ConfigError> {
        Switch::with_state(config, &State::default())
    }

    /// A switch with these registers, as its control plane or a vector loads them.
    ///
    /// # Errors
    /// Too many stages, a prefix that is none, or registers that do not exist.
    pub fn with_state(config: Config, state: &State) -> Result<Switch, ConfigError> {
        config.check()?;
        let registers = Registers::load(config.own, config.stages, state)?;
        let (groups, peers, hosts) = (Groups::default(), Peers::default(), Hosts::default());
        let routes = Routes::Table(Default::default());
        Ok(Switch { config, registers, routes, groups, peers, hosts, counters: Counters::default() })
    }

    /// A switch after a reboot to which every node has a cable of its own, numbered like the node: it needs no routes, and has no table
    /// that packets could fill.
    ///
    /// # Errors
    /// Too many stages, or a prefix that is none.
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
        self.registers.tracking()
    }

    /// All registers that are not 0.
    pub fn state(&self) -> State {
        self.registers.state(self.config.own)
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

    /// D-11 to D-15, D-44: routes, executes, hands on or drops a packet that has an in-network header.
    fn taken(&mut self, port: Port, packet: parser::Packet, out: &mut Vec<Copy>) -> Counter {
        let mut header = *packet.header();
        if packet.is_answered() {
            self.copies(out).send(&header, header.destination);
            return Counter::Answered;
        }
        let strange = self.hosts.is_strange(port, &header);
        match routing::by_prefix(self.config.own, &self.peers, &header, strange) {
            routing::Direction::Here(set) => {
                let done = dirty_set::execute(self.registers.pass(packet, set), &header);
                header.result = done.result.map_or(0, |result| result as u8);
                self.copies(out).deliver(&header, done.deliver);
                done.counter
            }
            routing::Direction::Peer(port) => {
                self.copies(out).hand_on(&header, port);
                Counter::HandedOn
            }
            routing::Direction::Drop(counter) => counter,
        }
    }

    fn copies<'s>(&'s mut self, out: &'s mut Vec<Copy>) -> multicast::Copies<'s> {
        multicast::Copies { routes: &self.routes, groups: &self.groups, counters: &mut self.counters, out }
    }
}
