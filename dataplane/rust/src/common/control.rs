//! The control plane: epochs, terms, tables, reboot (D-37 to D-42, D-63 to D-66); that of the cache is in [`crate::cache::control`].

use super::counters::Counters;
use super::planted::{Planted, planted};
use super::routing::{Hosts, Port};
use crate::Switch;
use crate::cache::control::CacheCommand;
use crate::dirty_set::registers::SHARDS;
use onpath_wire::ids::Term;
use thiserror::Error;

/// What the control plane may ask for. A refused command changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Begins a tracking epoch, not complete; 0 ends tracking (D-37).
    Epoch(u16),
    /// The set has every mark of this epoch (D-38).
    Complete(u16),
    /// Announces the term of a shard (D-39).
    Raise {
        /// The shard.
        shard: u16,
        /// Its term, not 0, below 2^24.
        term: u32,
    },
    /// Empties the dirty set; only without an epoch (D-40).
    Clear,
    /// Begins an epoch of the visibility table, not complete; 0 ends its use (D-63).
    VisibilityEpoch(u16),
    /// The table has every install of this epoch (D-64).
    VisibilityComplete(u16),
    /// Empties the table; only without an epoch of its own (D-65).
    VisibilityClear,
    /// One of the cache (D-111 to D-121).
    Cache(CacheCommand),
    /// A node is reached by this port (D-41).
    Route {
        /// The node.
        node: u32,
        /// Its port.
        port: Port,
    },
    /// A node is not reached any more.
    Unroute {
        /// The node.
        node: u32,
    },
    /// Who sends by this port is a host, and may change registers (D-41, D-44).
    Host {
        /// The port.
        port: Port,
    },
    /// That port is no host's any more.
    Unhost {
        /// The port.
        port: Port,
    },
    /// The switch loses all that it holds (D-42).
    Reboot,
}

/// Why a command is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ControlError {
    /// D-38, D-64, D-112, D-114.
    #[error("epoch {0} is not the present one: begin it first")]
    OtherEpoch(u16),
    /// D-39.
    #[error("shard {0}: a switch knows 256")]
    Shard(u16),
    /// D-39.
    #[error("term {0} is none: terms are from 1 to 2^24 - 1")]
    Term(u32),
    /// D-40, D-65, D-112, D-116.
    #[error("it is in use: end its epoch first")]
    EpochRuns,
    /// D-41.
    #[error("node 0 stands for none")]
    NodeZero,
    /// D-112.
    #[error("something is left of it: empty it first")]
    NotEmpty,
    /// D-112.
    #[error("that is over by the clock of the switch")]
    Passed,
    /// D-117, D-118.
    #[error("there is no such entry")]
    Entry,
    /// D-118.
    #[error("this name has an entry: evict it first")]
    Known,
    /// D-41, D-118, D-120.
    #[error("no room for more {0}: {1} is the limit")]
    Full(&'static str, usize),
}

impl Switch {
    /// Executes a command of the control plane.
    ///
    /// # Errors
    /// The reason why it is refused; then nothing has changed.
    pub fn control(&mut self, command: &Command) -> Result<(), ControlError> {
        match command {
            Command::Epoch(epoch) => {
                self.dirty_set.set_epoch(*epoch);
                if planted(Planted::D62) {
                    self.visibility.set_epoch(*epoch);
                }
                if planted(Planted::D111) {
                    self.cache.off();
                }
            }
            Command::Complete(epoch) => {
                self.dirty_set.set_complete(*epoch).then_some(()).ok_or(ControlError::OtherEpoch(*epoch))?;
            }
            Command::Raise { shard, term } => self.raise(*shard, *term)?,
            Command::Clear => self.dirty_set.clear().then_some(()).ok_or(ControlError::EpochRuns)?,
            Command::VisibilityEpoch(epoch) => self.visibility.set_epoch(*epoch),
            Command::VisibilityComplete(epoch) => {
                self.visibility.set_complete(*epoch).then_some(()).ok_or(ControlError::OtherEpoch(*epoch))?;
            }
            Command::VisibilityClear => self.visibility.clear().then_some(()).ok_or(ControlError::EpochRuns)?,
            Command::Cache(command) => self.cache.control(command)?,
            Command::Route { node, port } => self.routes.set(*node, *port)?,
            Command::Unroute { node } => self.routes.unset(*node),
            Command::Host { port } => self.hosts.set(*port)?,
            Command::Unhost { port } => self.hosts.unset(*port),
            Command::Reboot => self.reboot(),
        }
        Ok(())
    }

    fn raise(&mut self, shard: u16, term: u32) -> Result<(), ControlError> {
        if usize::from(shard) >= SHARDS {
            return Err(ControlError::Shard(shard));
        }
        if term == 0 || term > Term::MAX.0 {
            return Err(ControlError::Term(term));
        }
        self.dirty_set.raise(shard, term);
        Ok(())
    }

    fn reboot(&mut self) {
        self.dirty_set.reboot();
        self.visibility.reboot();
        self.cache.reboot();
        self.routes.clear();
        self.hosts = Hosts::default();
        self.counters = Counters::default();
    }
}
