//! The cache: its control plane (D-111 to D-122), and its registers.

use crate::command::{EPOCH_RUNS, NO_ENTRY, OTHER_EPOCH, PASSED, Registers, absent, bounded};
use crate::error::Doing;
use crate::layout::{self, RawCached, RawCounted};
use crate::{BPF_F_LOCK, XdpError, XdpSwitch};
use aya::maps::{Array, MapData, MapError};
use onpath_dataplane::cache::counts::ROWS;
use onpath_dataplane::cache::tables::REQUESTERS_MAX;
use onpath_dataplane::common::state::{CacheState, Lease, Stamp};
use onpath_dataplane::{CacheCommand, ConfigError, ControlError, Port};
use onpath_wire::innet::cache::VALUE_BYTES;
use std::net::SocketAddrV4;

impl XdpSwitch {
    pub(crate) fn control_cache(&mut self, command: &CacheCommand) -> Result<(), XdpError> {
        match *command {
            CacheCommand::Clock(_) => Err(XdpError::OwnClock),
            CacheCommand::Begin { epoch, until } => self.begin(epoch, until),
            CacheCommand::Renew { epoch, until } => {
                self.registers_of(Registers::CacheRenew, [epoch.into(), until, 0], epoch)
            }
            CacheCommand::Off => self.registers_of(Registers::CacheOff, [0; 3], 0),
            CacheCommand::Empty => {
                self.registers_of(Registers::CacheEmpty, [0; 3], 0)?;
                self.clear_names()
            }
            CacheCommand::Stamp { epoch, index, number } => {
                self.registers_of(Registers::CacheStamp, [index, number, epoch.into()], epoch)
            }
            CacheCommand::Admit { epoch, key, token, index, number } => {
                self.admit(epoch, (key, token), [index, number])
            }
            CacheCommand::Evict { epoch, key, token } => {
                self.of_present(epoch)?;
                absent(self.maps.names.remove(&layout::name(key, token, epoch)), "evicting a name")
            }
            CacheCommand::Any { port } => self.list_port(port, None),
            CacheCommand::Caller { port, uid, gid } => self.list_port(port, Some((uid, gid))),
            CacheCommand::Unlist { port } => self.unlist(port),
            CacheCommand::Report { node, threshold } => {
                self.maps.report.set(0, [node, threshold.into()], 0).doing("saying who hears of misses")
            }
            CacheCommand::Reset => self.registers_of(Registers::CacheReset, [0; 3], 0),
        }
    }

    /// Lets the program change registers for a command that names this epoch.
    fn registers_of(&self, kind: Registers, arguments: [u32; 3], epoch: u16) -> Result<(), XdpError> {
        match self.run(kind, arguments)?.0 {
            OTHER_EPOCH => Err(ControlError::OtherEpoch(epoch).into()),
            EPOCH_RUNS => Err(ControlError::EpochRuns.into()),
            PASSED => Err(ControlError::Passed.into()),
            NO_ENTRY => Err(ControlError::Entry.into()),
            _ => Ok(()),
        }
    }

    /// The epoch, which is none from the moment that the lease is found passed (D-74), and the tick that the switch's clock shows.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn cache_epoch(&self) -> Result<(u16, u32), XdpError> {
        let (_, [epoch, tick]) = self.run(Registers::CacheEpoch, [0; 3])?;
        Ok((epoch as u16, tick))
    }

    /// How often the entry at an index has answered in this period (D-110).
    ///
    /// # Errors
    /// There is no such index, or what the kernel says.
    pub fn hits(&self, index: u32) -> Result<u32, XdpError> {
        let counts = self.maps.counted.get(&index, 0).doing("reading what is counted")?;
        Ok(layout::hits_of(&counts))
    }

    /// Lets the clock stand at a tick, for vectors: a switch that serves must not.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn stop_clock(&mut self, tick: u32) -> Result<(), XdpError> {
        self.run(Registers::CacheClock, [tick, 0, 0]).map(drop)
    }

    /// D-112. Without an epoch nothing becomes less empty meanwhile.
    fn begin(&mut self, epoch: u16, until: u32) -> Result<(), XdpError> {
        if epoch == 0 {
            return Err(ControlError::OtherEpoch(epoch).into());
        }
        if self.cache_epoch()?.0 != 0 {
            return Err(ControlError::EpochRuns.into());
        }
        let (_, [stamps, _]) = self.run(Registers::CacheLeft, [0; 3])?;
        let name = self.maps.names.keys().next().transpose().doing("reading the names")?;
        if stamps != 0 || name.is_some() {
            return Err(ControlError::NotEmpty.into());
        }
        self.registers_of(Registers::CacheBegin, [epoch.into(), until, 0], epoch)
    }

    /// D-114.
    fn of_present(&self, epoch: u16) -> Result<(), XdpError> {
        match self.cache_epoch()?.0 {
            present if present == epoch && epoch != 0 => Ok(()),
            _ => Err(ControlError::OtherEpoch(epoch).into()),
        }
    }

    /// D-118.
    fn admit(&mut self, epoch: u16, (key, token): (u64, u8), found: [u32; 2]) -> Result<(), XdpError> {
        const BPF_NOEXIST: u64 = 1;
        self.of_present(epoch)?;
        let [index, number] = found;
        if token == 0 || number == 0 || index >= self.maps.cached.len() {
            return Err(ControlError::Entry.into());
        }
        let most = self.config.program.cached();
        match self.maps.names.insert(layout::name(key, token, epoch), found, BPF_NOEXIST) {
            Err(MapError::SyscallError(error)) if error.io_error.raw_os_error() == Some(libc::EEXIST) => {
                Err(ControlError::Known.into())
            }
            done => bounded(done, ("names", most), "admitting a name"),
        }
    }

    /// D-120.
    fn list_port(&mut self, port: Port, caller: Option<(u32, u32)>) -> Result<(), XdpError> {
        let (device, address) = self.source(port)?;
        self.list_requester(device, address, caller)
    }

    /// D-120: reads that come in by the device of this number from this address may name anybody, or a caller, uid and gid.
    ///
    /// # Errors
    /// There are too many, or what the kernel says.
    pub fn list_requester(
        &mut self,
        device: u32,
        address: SocketAddrV4,
        caller: Option<(u32, u32)>,
    ) -> Result<(), XdpError> {
        let raw = layout::requester(&layout::source(device, address), caller);
        bounded(self.maps.requesters.insert(raw, 1, 0), ("requesters", REQUESTERS_MAX), "listing who may ask")
    }

    /// D-120.
    fn unlist(&mut self, port: Port) -> Result<(), XdpError> {
        let Ok((device, address)) = self.source(port) else { return Ok(()) };
        let from = layout::source(device, address);
        let all: Result<Vec<_>, _> = self.maps.requesters.keys().collect();
        for requester in all.doing("reading who may ask")?.iter().filter(|raw| raw.starts_with(&from)) {
            absent(self.maps.requesters.remove(requester), "unlisting who may ask")?;
        }
        Ok(())
    }

    fn clear_names(&mut self) -> Result<(), XdpError> {
        let names: Result<Vec<_>, _> = self.maps.names.keys().collect();
        names
            .doing("reading the names")?
            .iter()
            .try_for_each(|name| absent(self.maps.names.remove(name), "evicting a name"))
    }

    /// D-122: what of a reboot no packet minds.
    pub(crate) fn clear_cache_tables(&mut self) -> Result<(), XdpError> {
        self.clear_names()?;
        self.maps.report.set(0, [0; 2], 0).doing("saying who hears of misses")?;
        let all: Result<Vec<_>, _> = self.maps.requesters.keys().collect();
        let all = all.doing("reading who may ask")?;
        all.iter().try_for_each(|requester| absent(self.maps.requesters.remove(requester), "unlisting who may ask"))
    }

    pub(crate) fn cache_state(&self) -> Result<CacheState, XdpError> {
        let lease = layout::lease_of(&self.maps.lease.get(&0, BPF_F_LOCK).doing("reading the lease")?);
        let mut state = CacheState { lease, ..CacheState::default() };
        for at in 0..self.maps.cached.len() {
            let raw = self.maps.cached.get(&at, BPF_F_LOCK).doing("reading an entry of the cache")?;
            let (stamp, value) = (layout::stamp_of(&raw), layout::value_of(&raw));
            state.stamps.extend((stamp != Stamp::default()).then_some((at, stamp)));
            state.values.extend((value != [0; VALUE_BYTES]).then_some((at, value)));
            let counts = self.maps.counted.get(&at, 0).doing("reading what is counted")?;
            let rows = (0..ROWS).map(|row| (row as u8, at, layout::missed_of(&counts, row)));
            state.sketch.extend(rows.filter(|(_, _, count)| *count != 0));
            state.reported.extend(layout::is_reported(&counts).then_some(at));
            let hits = layout::hits_of(&counts);
            state.hits.extend((hits != 0).then_some((at, hits)));
        }
        state.sketch.sort_unstable();
        Ok(state)
    }

    pub(crate) fn set_cache_state(&mut self, state: &CacheState) -> Result<(), XdpError> {
        let Lease { until, epoch } = state.lease;
        let mut leased = self.maps.lease.get(&0, BPF_F_LOCK).doing("reading the lease")?;
        (leased[0], leased[1]) = (until, epoch.into());
        self.maps.lease.set(0, leased, BPF_F_LOCK).doing("writing the lease")?;
        for &(at, stamp) in &state.stamps {
            change_cached(&mut self.maps.cached, at, "stamp", |raw| (raw[0], raw[1]) = (stamp.number, stamp.state))?;
        }
        for (at, value) in &state.values {
            change_cached(&mut self.maps.cached, *at, "value", |raw| {
                *raw = layout::cached(&layout::stamp_of(raw), value)
            })?;
        }
        let counted = &mut self.maps.counted;
        for &(row, at, count) in &state.sketch {
            if usize::from(row) >= ROWS {
                return Err(ConfigError::Register { what: "row", at: row.into() }.into());
            }
            change_counted(counted, at, "sketch", |raw| layout::set_missed(raw, row.into(), count))?;
        }
        for &at in &state.reported {
            change_counted(counted, at, "reported", layout::set_reported)?;
        }
        for &(at, count) in &state.hits {
            change_counted(counted, at, "hits", |raw| layout::set_hits(raw, count))?;
        }
        Ok(())
    }
}

/// Changes an entry of a switch that no packet reaches yet.
fn change_cached(
    map: &mut Array<MapData, RawCached>,
    at: u32,
    what: &'static str,
    change: impl FnOnce(&mut RawCached),
) -> Result<(), XdpError> {
    if at >= map.len() {
        return Err(ConfigError::Register { what, at }.into());
    }
    let mut raw = map.get(&at, BPF_F_LOCK).doing("reading an entry of the cache")?;
    change(&mut raw);
    map.set(at, raw, BPF_F_LOCK).doing("writing an entry of the cache")
}

/// The same of what is counted.
fn change_counted(
    map: &mut Array<MapData, RawCounted>,
    at: u32,
    what: &'static str,
    change: impl FnOnce(&mut RawCounted),
) -> Result<(), XdpError> {
    if at >= map.len() {
        return Err(ConfigError::Register { what, at }.into());
    }
    let mut raw = map.get(&at, 0).doing("reading what is counted")?;
    change(&mut raw);
    map.set(at, raw, 0).doing("writing what is counted")
}
