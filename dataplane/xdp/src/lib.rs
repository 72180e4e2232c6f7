//! The in-network program in the Linux kernel: `xdp.c`, which is the C form over BPF maps, attached to network devices, and its control
//! plane. What a target that sees frames adds to the rules is in dataplane/SPEC.md, *Frames* and *XDP*.
//!
//! Layer L3: it meets the operating system. Registers are touched by the programs alone, under their lock; tables, which no rule ties to
//! a register, are written from here.

mod cache;
mod command;
mod device;
mod error;
mod layout;
mod maps;
pub mod pins;
pub mod turns;

pub use device::Way;
pub use error::XdpError;

use aya::EbpfLoader;
use aya::maps::Map;
use aya::programs::xdp::XdpLink;
use aya::programs::{Xdp, XdpMode};
use device::Device;
use error::Doing;
use maps::{Maps, Programs};
use onpath_dataplane::common::state::{Entry, Pair};
use onpath_dataplane::{Config, ConfigError, Counter, Port, State, Tracking};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;

/// Most devices of a switch: `DEVICES_MAX` of maps.h.
pub const DEVICES_MAX: usize = 32;

/// The compiled program.
#[cfg(not(no_program))]
const OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/xdp.o"));
#[cfg(no_program)]
const OBJECT: &[u8] = &[];

/// What a switch is started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpConfig {
    /// The program.
    pub program: Config,
    /// The IPv4 address of the switch: only frames to it are looked at.
    pub address: Ipv4Addr,
}

/// A switch in the kernel. Dropped, it is gone from its devices, unless it was pinned.
pub struct XdpSwitch {
    config: XdpConfig,
    maps: Maps,
    programs: Programs,
    /// By their place in the map of devices.
    devices: Vec<Device>,
    links: Vec<(String, XdpLink)>,
    ways: BTreeMap<u32, Way>,
}

impl XdpSwitch {
    /// A switch after a reboot (D-42), attached to these devices of the caller's network namespace in native mode.
    ///
    /// # Errors
    /// What the kernel or a device does not allow; then nothing is attached.
    pub fn attach(config: XdpConfig, devices: &[&str]) -> Result<XdpSwitch, XdpError> {
        let mut switch = XdpSwitch::load(config)?;
        for device in devices {
            switch.attach_device(device)?;
        }
        Ok(switch)
    }

    /// A switch in the kernel, attached to nothing.
    ///
    /// # Errors
    /// A configuration that is none; a kernel that does not take the program.
    pub fn load(config: XdpConfig) -> Result<XdpSwitch, XdpError> {
        XdpSwitch::load_with(config, None, false)
    }

    /// The same; with a directory, maps and programs get names in it. With turns packets of the cache can be made to wait.
    fn load_with(config: XdpConfig, dir: Option<&Path>, turns: bool) -> Result<XdpSwitch, XdpError> {
        config.program.check()?;
        if OBJECT.is_empty() {
            return Err(XdpError::NoProgram);
        }
        let mut loader = EbpfLoader::new();
        loader.map_max_entries("sets", config.program.sets() as u32);
        loader.map_max_entries("entries", config.program.entries() as u32);
        for name in ["names", "cached", "counted"] {
            loader.map_max_entries(name, config.program.cached() as u32);
        }
        let mut all = loader.load(OBJECT).doing("loading the XDP program")?;
        let maps = Maps::from(|name| {
            let map = all.take_map(name).expect("a map of the program");
            if let Some(dir) = dir {
                map.pin(dir.join(name)).doing(format!("pinning map {name}"))?;
            }
            Ok(map)
        })?;
        for name in maps::PROGRAMS {
            let program: &mut Xdp = all.program_mut(name).expect("a program").try_into().doing("loading")?;
            program.load().doing(format!("loading the XDP program {name}"))?;
            if let Some(dir) = dir {
                program.pin(dir.join(name)).doing(format!("pinning program {name}"))?;
            }
        }
        if turns {
            let program: &mut Xdp = all.program_mut(maps::TURN).expect("a program").try_into().doing("loading")?;
            program.load().doing(format!("loading the XDP program {}", maps::TURN))?;
        }
        let programs = Programs::taken(&all, turns)?;
        let mut switch = XdpSwitch { config, maps, programs, devices: vec![], links: vec![], ways: BTreeMap::new() };
        let raw = layout::settings(&config.program, config.address);
        switch.maps.settings.set(0, raw, 0).doing("writing the settings")?;
        let cache = switch.programs.cache.fd().doing("giving the cache its program")?;
        switch.maps.parts.set(0, cache, 0).doing("giving the cache its program")?;
        Ok(switch)
    }

    /// What was configured.
    pub fn config(&self) -> &XdpConfig {
        &self.config
    }

    /// Names of the devices that copies may leave by.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        self.devices.iter().map(|device| device.name.as_str())
    }

    /// Attaches the program to one more device, by which copies may then leave too.
    ///
    /// # Errors
    /// What the kernel or the device does not allow.
    pub fn attach_device(&mut self, name: &str) -> Result<(), XdpError> {
        let device = Device::named(name)?;
        if self.devices.iter().any(|known| known.number == device.number) {
            return Err(XdpError::Busy(name.to_owned()));
        }
        let place = self.devices.len();
        if place == DEVICES_MAX {
            return Err(XdpError::Devices(name.to_owned()));
        }
        self.ways_out(&device, place as u32)?;
        let attached = self.programs.switch.attach_to_if_index(device.number, XdpMode::Driver);
        let id = attached.map_err(|error| error::attaching(name, Box::new(error)))?;
        self.links.push((name.to_owned(), self.programs.switch.take_link(id).doing("keeping the link")?));
        self.devices.push(device);
        Ok(())
    }

    /// Lets copies leave by a device, alone and in each pair.
    fn ways_out(&mut self, device: &Device, place: u32) -> Result<(), XdpError> {
        let what = || format!("{}: letting copies leave by it", device.name);
        let twin = &self.programs.twin;
        self.maps.devices.set(place, device.number, Some(twin.fd().doing(what())?), 0).doing(what())?;
        let known = self.devices.iter().map(|known| known.number).chain([device.number]);
        for (other, number) in (0..).zip(known) {
            let there = maps::two_devices(device.number, number, twin)?;
            let back = maps::two_devices(number, device.number, twin)?;
            for (first, second, map) in [(place, other, there), (other, place, back)] {
                let Map::DevMap(data) = &map else { unreachable!("it was made as one") };
                self.maps.two_devices.set(first * DEVICES_MAX as u32 + second, data, 0).doing(what())?;
            }
        }
        Ok(())
    }

    /// Says where a port leads: `route` and `host` commands name it.
    ///
    /// # Errors
    /// A device that the switch is not attached to.
    pub fn set_way(&mut self, port: Port, way: Way) -> Result<(), XdpError> {
        if !self.devices.iter().any(|device| device.name == way.device) {
            return Err(XdpError::NotAttached(way.device));
        }
        self.ways.insert(port.0, way);
        Ok(())
    }

    /// The value of a counter (D-43).
    ///
    /// # Errors
    /// What the kernel says.
    pub fn count(&self, counter: Counter) -> Result<u64, XdpError> {
        let each = self.maps.counters.get(&(counter as u32), 0).doing("reading a counter")?;
        Ok(each.iter().sum())
    }

    /// All counters with their names.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn counters(&self) -> Result<Vec<(&'static str, u64)>, XdpError> {
        Counter::ALL.iter().map(|&counter| Ok((counter.name(), self.count(counter)?))).collect()
    }

    /// The register of the tracking epoch.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn tracking(&self) -> Result<Tracking, XdpError> {
        let raw = self.maps.tracking.get(&0, BPF_F_LOCK).doing("reading the epoch")?;
        Ok(layout::tracking_of(&raw))
    }

    /// The register of the visibility table's epoch.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn visibility(&self) -> Result<Tracking, XdpError> {
        let raw = self.maps.visibility.get(&0, BPF_F_LOCK).doing("reading the table's epoch")?;
        Ok(layout::tracking_of(&raw))
    }

    /// All registers that are not 0. While packets come in, each set is of another moment.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn state(&self) -> Result<State, XdpError> {
        let mut state = State { tracking: self.tracking()?, visibility: self.visibility()?, ..State::default() };
        for shard in 0..self.maps.pairs.len() {
            let pair = layout::pair_of(&self.maps.pairs.get(&shard, 0).doing("reading a pair")?);
            if pair != Pair::default() {
                state.pairs.push((shard as u16, pair));
            }
        }
        for set in 0..self.maps.sets.len() {
            let tags = self.maps.sets.get(&set, 0).doing("reading a set")?;
            let used = (0u16..).zip(tags).filter(|(_, tag)| *tag != 0);
            state.tags.extend(used.map(|(stage, tag)| (stage, set, tag)));
        }
        state.tags.sort_unstable();
        for number in 0..self.maps.entries.len() {
            let entry = layout::entry_of(&self.maps.entries.get(&number, 0).doing("reading an entry")?);
            state.entries.extend((entry != Entry::default()).then_some((number, entry)));
        }
        state.cache = self.cache_state()?;
        Ok(state)
    }

    /// Writes registers into a switch that no packet reaches yet, as a vector does.
    ///
    /// # Errors
    /// Registers that do not exist.
    pub fn set_state(&mut self, state: &State) -> Result<(), XdpError> {
        let raw = |of: Tracking| [of.epoch.into(), of.complete.into(), 0];
        self.maps.tracking.set(0, raw(state.tracking), BPF_F_LOCK).doing("writing the epoch")?;
        self.maps.visibility.set(0, raw(state.visibility), BPF_F_LOCK).doing("writing the table's epoch")?;
        for &(shard, Pair { min_term, counter }) in &state.pairs {
            self.maps.pairs.set(shard.into(), [min_term, counter], 0).doing("writing a pair")?;
        }
        for &(stage, index, tag) in &state.tags {
            if index >= self.maps.sets.len() {
                return Err(ConfigError::Register { what: "index", at: index }.into());
            }
            let mut tags = self.maps.sets.get(&index, 0).doing("reading a set")?;
            let missing = ConfigError::Register { what: "array", at: stage.into() };
            *tags.get_mut(usize::from(stage)).ok_or(missing)? = tag;
            self.maps.sets.set(index, tags, 0).doing("writing a set")?;
        }
        for (number, entry) in &state.entries {
            if *number >= self.maps.entries.len() {
                return Err(ConfigError::Register { what: "entry", at: *number }.into());
            }
            self.maps.entries.set(*number, layout::entry(entry), 0).doing("writing an entry")?;
        }
        self.set_cache_state(&state.cache)
    }

    /// What the program makes of a frame that is given to it and goes nowhere: what it returns, its nanoseconds, and the frame after it.
    ///
    /// # Errors
    /// What the kernel says, to frames of less than 14 bytes among them.
    pub fn try_frame(&self, frame: &[u8], repeat: u32) -> Result<(u32, u64, Vec<u8>), XdpError> {
        let mut out = vec![0; frame.len() + 256];
        let result = maps::run(&self.programs.switch, frame, &mut out, repeat)?;
        out.truncate(result.data_size_out as usize);
        Ok((result.return_value, result.duration.as_nanos() as u64, out))
    }

    /// Takes the program off all devices: they are as they were before.
    pub fn detach(self) {}
}

/// The whole value under its lock.
const BPF_F_LOCK: u64 = 4;
