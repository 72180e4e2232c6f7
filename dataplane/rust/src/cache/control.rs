//! The control plane of the cache (D-111 to D-122).

use super::counts::Report;
use super::registers::{Registers, is_after};
use super::tables::Found;
use crate::Port;
use crate::common::control::ControlError;
use crate::common::planted::{Planted, planted};
use crate::common::state::{Lease, Stamp};

/// What the control plane may ask for of the cache. A refused command changes nothing, but for a lease that it finds passed (D-74).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheCommand {
    /// The clock of a switch that has none of its own stands at this tick.
    Clock(u32),
    /// Begins an epoch, with an empty cache (D-112).
    Begin {
        /// The epoch, not 0.
        epoch: u16,
        /// A tick of the switch's clock, which is ahead.
        until: u32,
    },
    /// Prolongs the epoch's lease (D-113).
    Renew {
        /// The epoch.
        epoch: u16,
        /// A tick of the switch's clock.
        until: u32,
    },
    /// Ends the epoch (D-115).
    Off,
    /// Takes everything out; only without an epoch (D-116).
    Empty,
    /// Says whose an index is, empty (D-117).
    Stamp {
        /// The present epoch.
        epoch: u16,
        /// The index.
        index: u32,
        /// Number of the entry, 0 for none.
        number: u32,
    },
    /// Gives a name an entry (D-118).
    Admit {
        /// The present epoch.
        epoch: u16,
        /// Key of the name.
        key: u64,
        /// Its token, not 0.
        token: u8,
        /// The index.
        index: u32,
        /// Number of the entry, not 0.
        number: u32,
    },
    /// Takes a name out (D-119).
    Evict {
        /// The present epoch.
        epoch: u16,
        /// Key of the name.
        key: u64,
        /// Its token.
        token: u8,
    },
    /// Who sends by this port may ask in anybody's name (D-120).
    Any {
        /// The port.
        port: Port,
    },
    /// Who sends by this port may ask in this caller's name (D-120).
    Caller {
        /// The port.
        port: Port,
        /// The caller.
        uid: u32,
        /// Its group.
        gid: u32,
    },
    /// Who sends by this port is not answered (D-120).
    Unlist {
        /// The port.
        port: Port,
    },
    /// Who hears of names that are missed often (D-121).
    Report {
        /// The node, 0 for nobody.
        node: u32,
        /// More misses than these are told.
        threshold: u16,
    },
    /// Begins a period of counting (D-121).
    Reset,
}

impl Registers {
    /// Executes a command.
    ///
    /// # Errors
    /// The reason why it is refused.
    pub(crate) fn control(&mut self, command: &CacheCommand) -> Result<(), ControlError> {
        match *command {
            CacheCommand::Clock(tick) => self.clock = tick,
            CacheCommand::Begin { epoch, until } => self.begin(epoch, until)?,
            CacheCommand::Renew { epoch, until } => self.renew(epoch, until)?,
            CacheCommand::Off => self.off(),
            CacheCommand::Empty => self.empty()?,
            CacheCommand::Stamp { epoch, index, number } => self.stamp(epoch, index, number)?,
            CacheCommand::Admit { epoch, key, token, index, number } => {
                self.of_present(epoch)?;
                self.names.admit((key, token), Found { index, number }, self.entries)?;
            }
            CacheCommand::Evict { epoch, key, token } => {
                self.of_present(epoch)?;
                self.names.evict((key, token));
            }
            CacheCommand::Any { port } => self.requesters.list(port, None)?,
            CacheCommand::Caller { port, uid, gid } => self.requesters.list(port, Some((uid, gid)))?,
            CacheCommand::Unlist { port } => self.requesters.unlist(port),
            CacheCommand::Report { node, threshold } => self.report = Report { node, threshold },
            CacheCommand::Reset => self.counts.reset(),
        }
        Ok(())
    }

    /// D-112.
    fn begin(&mut self, epoch: u16, until: u32) -> Result<(), ControlError> {
        if epoch == 0 {
            return Err(ControlError::OtherEpoch(epoch));
        }
        if self.epoch() != 0 {
            return Err(ControlError::EpochRuns);
        }
        let left = !self.names.is_empty() || self.stamps.iter().any(|stamp| *stamp != Stamp::default());
        if left && !planted(Planted::D112) {
            return Err(ControlError::NotEmpty);
        }
        if !is_after(until, self.clock) {
            return Err(ControlError::Passed);
        }
        self.unfold();
        self.lease = Lease { epoch, until };
        Ok(())
    }

    /// D-113.
    fn renew(&mut self, epoch: u16, until: u32) -> Result<(), ControlError> {
        self.of_present(epoch)?;
        if is_after(until, self.lease.until) || planted(Planted::D113) {
            self.lease.until = until;
        }
        Ok(())
    }

    /// D-114.
    fn of_present(&mut self, epoch: u16) -> Result<(), ControlError> {
        let present = self.epoch() == epoch && epoch != 0;
        if present || planted(Planted::D114) { Ok(()) } else { Err(ControlError::OtherEpoch(epoch)) }
    }

    /// D-115.
    pub(crate) fn off(&mut self) {
        if !planted(Planted::D115) {
            self.lease.epoch = 0;
        }
    }

    /// D-116.
    fn empty(&mut self) -> Result<(), ControlError> {
        if self.epoch() != 0 && !planted(Planted::D116) {
            return Err(ControlError::EpochRuns);
        }
        self.names.clear();
        self.stamps.fill(Stamp::default());
        Ok(())
    }

    /// D-117.
    fn stamp(&mut self, epoch: u16, index: u32, number: u32) -> Result<(), ControlError> {
        self.of_present(epoch)?;
        let stamp = self.stamps.get_mut(index as usize).ok_or(ControlError::Entry)?;
        let state = if planted(Planted::D117) { stamp.state } else { 0 };
        *stamp = Stamp { number, state };
        Ok(())
    }
}
