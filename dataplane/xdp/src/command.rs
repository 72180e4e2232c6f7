//! The control plane (D-37 to D-42, D-62 to D-66).

use crate::error::Doing;
use crate::layout::{self, RawRoute};
use crate::maps;
use crate::{XdpError, XdpSwitch};
use aya::maps::MapError;
use onpath_dataplane::common::routing::{HOSTS_MAX, ROUTES_MAX};
use onpath_dataplane::common::state::Entry;
use onpath_dataplane::dirty_set::registers::{SHARDS, STAGES_MAX};
use onpath_dataplane::{Command, ControlError, Port};
use onpath_wire::ids::Term;
use std::net::SocketAddrV4;

/// Commands of `onpath_command` in xdp.c.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Registers {
    Epoch = 1,
    Complete,
    Raise,
    Reboot,
    VisibilityEpoch,
    VisibilityComplete,
    CacheEpoch,
    CacheBegin,
    CacheRenew,
    CacheOff,
    CacheStamp,
    CacheLeft,
    CacheEmpty,
    CacheReset,
    CacheClock,
}

/// What it answers.
const DONE: u32 = 16;
pub(crate) const OTHER_EPOCH: u32 = 17;
pub(crate) const EPOCH_RUNS: u32 = 18;
pub(crate) const PASSED: u32 = 19;
pub(crate) const NO_ENTRY: u32 = 20;

impl XdpSwitch {
    /// Executes a command of the control plane.
    ///
    /// # Errors
    /// The reason why it is refused, or what the kernel says; then nothing has changed.
    pub fn control(&mut self, command: &Command) -> Result<(), XdpError> {
        match *command {
            Command::Epoch(epoch) => self.registers(Registers::Epoch, epoch.into(), 0).map(drop),
            Command::Complete(epoch) => match self.registers(Registers::Complete, epoch.into(), 0)? {
                OTHER_EPOCH => Err(ControlError::OtherEpoch(epoch).into()),
                _ => Ok(()),
            },
            Command::Raise { shard, .. } if usize::from(shard) >= SHARDS => Err(ControlError::Shard(shard).into()),
            Command::Raise { term, .. } if term == 0 || term > Term::MAX.0 => Err(ControlError::Term(term).into()),
            Command::Raise { shard, term } => self.registers(Registers::Raise, shard.into(), term).map(drop),
            Command::Clear => self.clear(),
            Command::VisibilityEpoch(epoch) => self.registers(Registers::VisibilityEpoch, epoch.into(), 0).map(drop),
            Command::VisibilityComplete(epoch) => {
                match self.registers(Registers::VisibilityComplete, epoch.into(), 0)? {
                    OTHER_EPOCH => Err(ControlError::OtherEpoch(epoch).into()),
                    _ => Ok(()),
                }
            }
            Command::VisibilityClear => self.clear_entries(),
            Command::Cache(command) => self.control_cache(&command),
            Command::Route { node, port } => self.route(node, port),
            Command::Unroute { node } => self.unroute(node),
            Command::Host { port } => {
                let (device, address) = self.source(port)?;
                self.list(device, address)
            }
            Command::Unhost { port } => match self.source(port) {
                Ok((device, address)) => {
                    absent(self.maps.hosts.remove(&layout::source(device, address)), "removing a host")
                }
                Err(_) => Ok(()),
            },
            Command::Reboot => self.reboot(),
        }
    }

    /// Whence frames of a port's host come.
    pub(crate) fn source(&self, port: Port) -> Result<(u32, SocketAddrV4), XdpError> {
        let way = self.ways.get(&port.0).ok_or(XdpError::NoWay(port))?;
        let device = self.devices.iter().find(|device| device.name == way.device).ok_or(XdpError::NoWay(port))?;
        Ok((device.number, way.address))
    }

    /// D-44: frames from this address are a host's if they come in by the device of this number.
    ///
    /// # Errors
    /// There are too many, or what the kernel says.
    pub fn list(&mut self, device: u32, address: SocketAddrV4) -> Result<(), XdpError> {
        bounded(self.maps.hosts.insert(layout::source(device, address), 1, 0), ("hosts", HOSTS_MAX), "writing a host")
    }

    /// Lets the program itself change registers, under its lock.
    fn registers(&self, kind: Registers, a: u32, b: u32) -> Result<u32, XdpError> {
        self.run(kind, [a, b, 0]).map(|(answer, _)| answer)
    }

    /// The same: what it answers, and what it leaves in the place of the first two arguments.
    pub(crate) fn run(&self, kind: Registers, [a, b, c]: [u32; 3]) -> Result<(u32, [u32; 2]), XdpError> {
        let words = [kind as u32, a, b, c].map(u32::to_ne_bytes);
        let mut out = [0; 64];
        let answer = maps::run(&self.programs.command, words.as_flattened(), &mut out, 1)?.return_value;
        assert!((DONE..=NO_ENTRY).contains(&answer), "xdp.c does not know command {kind:?}: {answer}");
        let (words, _) = out.as_chunks();
        Ok((answer, [words[1], words[2]].map(u32::from_ne_bytes)))
    }

    /// D-40. Without an epoch no packet writes a tag.
    fn clear(&mut self) -> Result<(), XdpError> {
        if self.tracking()?.epoch != 0 {
            return Err(ControlError::EpochRuns.into());
        }
        for set in 0..self.maps.sets.len() {
            self.maps.sets.set(set, [0; STAGES_MAX], 0).doing("clearing a set")?;
        }
        Ok(())
    }

    /// D-65. Without an epoch all that a packet does is to free an entry.
    fn clear_entries(&mut self) -> Result<(), XdpError> {
        if self.visibility()?.epoch != 0 {
            return Err(ControlError::EpochRuns.into());
        }
        for number in 0..self.maps.entries.len() {
            self.maps.entries.set(number, layout::entry(&Entry::default()), 0).doing("clearing an entry")?;
        }
        Ok(())
    }

    fn raw_route(&self, port: Port) -> Result<RawRoute, XdpError> {
        let way = self.ways.get(&port.0).ok_or(XdpError::NoWay(port))?;
        let place = self.devices.iter().position(|device| device.name == way.device).ok_or(XdpError::NoWay(port))?;
        Ok(layout::route(way, &self.devices[place], place as u32))
    }

    fn route(&mut self, node: u32, port: Port) -> Result<(), XdpError> {
        if node == 0 {
            return Err(ControlError::NodeZero.into());
        }
        let raw = self.raw_route(port)?;
        bounded(self.maps.routes.insert(node, raw, 0), ("routes", ROUTES_MAX), "writing a route")
    }

    fn unroute(&mut self, node: u32) -> Result<(), XdpError> {
        absent(self.maps.routes.remove(&node), "removing a route")
    }

    /// D-42, D-66, D-122. The epochs end first: from then on no packet writes a tag, and every remove meets term 0.
    fn reboot(&mut self) -> Result<(), XdpError> {
        self.registers(Registers::Reboot, 0, 0)?;
        self.clear()?;
        self.clear_entries()?;
        self.clear_cache_tables()?;
        let nodes: Result<Vec<u32>, _> = self.maps.routes.keys().collect();
        for node in nodes.doing("reading the routes")? {
            self.unroute(node)?;
        }
        let hosts: Result<Vec<_>, _> = self.maps.hosts.keys().collect();
        for host in hosts.doing("reading the hosts")? {
            absent(self.maps.hosts.remove(&host), "removing a host")?;
        }
        let none: Vec<u64> = vec![0; aya::util::nr_cpus().map_err(|(_, error)| error).doing("counting processors")?];
        for counter in 0..self.maps.counters.len() {
            let none = aya::maps::PerCpuValues::try_from(none.clone()).doing("a value for each processor")?;
            self.maps.counters.set(counter, none, 0).doing("clearing a counter")?;
        }
        Ok(())
    }
}

/// An entry into a table that has room for so many.
pub(crate) fn bounded(
    done: Result<(), MapError>,
    (what, most): (&'static str, usize),
    doing: &str,
) -> Result<(), XdpError> {
    match done {
        Err(MapError::SyscallError(error)) if error.io_error.raw_os_error() == Some(libc::E2BIG) => {
            Err(ControlError::Full(what, most).into())
        }
        other => other.doing(doing),
    }
}

/// What is to go may be gone.
pub(crate) fn absent(done: Result<(), MapError>, doing: &str) -> Result<(), XdpError> {
    match done {
        Err(MapError::SyscallError(error)) if error.io_error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        Err(MapError::KeyNotFound) => Ok(()),
        other => other.doing(doing),
    }
}
