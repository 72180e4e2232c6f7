//! The maps and programs in the kernel.

use crate::XdpError;
use crate::error::Doing;
use crate::layout::{
    RawCached, RawCounted, RawEntry, RawFound, RawLeased, RawName, RawPair, RawReport, RawRequester, RawRoute, RawSet,
    RawSettings, RawSource, RawTracked, RawTurn,
};
use aya::maps::{Array, ArrayOfMaps, DevMap, HashMap, Map, MapData, PerCpuArray, ProgramArray};
use aya::programs::{TestRun, TestRunOptions, TestRunResult, Xdp};
use aya_obj::programs::XdpAttachType;
use std::path::Path;

/// Whether a map was given to the kernel or found among pins, all of its users go through this.
pub(crate) struct Maps {
    pub(crate) settings: Array<MapData, RawSettings>,
    pub(crate) tracking: Array<MapData, RawTracked>,
    pub(crate) pairs: Array<MapData, RawPair>,
    pub(crate) sets: Array<MapData, RawSet>,
    pub(crate) visibility: Array<MapData, RawTracked>,
    pub(crate) entries: Array<MapData, RawEntry>,
    pub(crate) counters: PerCpuArray<MapData, u64>,
    pub(crate) routes: HashMap<MapData, u32, RawRoute>,
    pub(crate) hosts: HashMap<MapData, RawSource, u32>,
    pub(crate) lease: Array<MapData, RawLeased>,
    pub(crate) names: HashMap<MapData, RawName, RawFound>,
    pub(crate) cached: Array<MapData, RawCached>,
    pub(crate) counted: Array<MapData, RawCounted>,
    pub(crate) requesters: HashMap<MapData, RawRequester, u32>,
    pub(crate) report: Array<MapData, RawReport>,
    pub(crate) turns: Array<MapData, RawTurn>,
    /// Programs of structures that have one of their own: it is empty when nobody holds the map.
    pub(crate) parts: ProgramArray<MapData>,
    pub(crate) devices: DevMap<MapData>,
    pub(crate) two_devices: ArrayOfMaps<MapData, MapData>,
}

/// The programs of xdp.c.
pub(crate) struct Programs {
    pub(crate) switch: Xdp,
    pub(crate) twin: Xdp,
    pub(crate) command: Xdp,
    pub(crate) cache: Xdp,
    /// Of a switch for vectors.
    pub(crate) turn: Option<Xdp>,
}

/// Names of the maps in maps.h.
pub(crate) const MAPS: [&str; 19] = [
    "settings",
    "tracking",
    "pairs",
    "sets",
    "visibility",
    "entries",
    "counters",
    "routes",
    "hosts",
    "lease",
    "names",
    "cached",
    "counted",
    "requesters",
    "report",
    "turns",
    "parts",
    "devices",
    "two_devices",
];
/// Names of the programs in xdp.c.
pub(crate) const PROGRAMS: [&str; 4] = ["onpath_switch", "onpath_twin", "onpath_command", "onpath_cache"];

/// One more, which is loaded for vectors alone.
pub(crate) const TURN: &str = "onpath_turn";

impl Maps {
    /// Each map by its name.
    pub(crate) fn from(mut get: impl FnMut(&str) -> Result<Map, XdpError>) -> Result<Maps, XdpError> {
        macro_rules! map {
            ($name:literal) => {
                get($name)?.try_into().doing(concat!("opening map ", $name))?
            };
        }
        Ok(Maps {
            settings: map!("settings"),
            tracking: map!("tracking"),
            pairs: map!("pairs"),
            sets: map!("sets"),
            visibility: map!("visibility"),
            entries: map!("entries"),
            counters: map!("counters"),
            routes: map!("routes"),
            hosts: map!("hosts"),
            lease: map!("lease"),
            names: map!("names"),
            cached: map!("cached"),
            counted: map!("counted"),
            requesters: map!("requesters"),
            report: map!("report"),
            turns: map!("turns"),
            parts: map!("parts"),
            devices: map!("devices"),
            two_devices: map!("two_devices"),
        })
    }
}

impl Programs {
    /// Those of a loaded object: they stay loaded when it goes.
    pub(crate) fn taken(all: &aya::Ebpf, turns: bool) -> Result<Programs, XdpError> {
        let open = |name: &'static str, kind| -> Result<Xdp, XdpError> {
            let program: &Xdp = all.program(name).expect("a program").try_into().doing("loading")?;
            Xdp::from_program_info(program.info().doing("loading")?, name.into(), kind).doing("loading")
        };
        let turn = turns.then(|| open(TURN, XdpAttachType::Interface)).transpose()?;
        Ok(Programs {
            switch: open(PROGRAMS[0], XdpAttachType::Interface)?,
            twin: open(PROGRAMS[1], XdpAttachType::DevMap)?,
            command: open(PROGRAMS[2], XdpAttachType::Interface)?,
            cache: open(PROGRAMS[3], XdpAttachType::Interface)?,
            turn,
        })
    }

    /// Those pinned in a directory.
    pub(crate) fn pinned(dir: &Path) -> Result<Programs, XdpError> {
        let open = |name: &str, kind| Xdp::from_pin(dir.join(name), kind).doing(format!("opening program {name}"));
        Ok(Programs {
            switch: open(PROGRAMS[0], XdpAttachType::Interface)?,
            twin: open(PROGRAMS[1], XdpAttachType::DevMap)?,
            command: open(PROGRAMS[2], XdpAttachType::Interface)?,
            cache: open(PROGRAMS[3], XdpAttachType::Interface)?,
            turn: None,
        })
    }
}

/// A map for two copies, from one device to the first and from another, or the same, to the second.
pub(crate) fn two_devices(first: u32, second: u32, twin: &Xdp) -> Result<Map, XdpError> {
    const WHAT: &str = "making the map of two devices";
    let (kind, value_bytes) = (aya_obj::generated::bpf_map_type::BPF_MAP_TYPE_DEVMAP as u32, 8);
    let data = MapData::create(aya_obj::Map::new_from_params(kind, 4, value_bytes, 2, 0), "two_devices", None);
    let mut map = Map::from_map_data(data.doing(WHAT)?).doing(WHAT)?;
    let mut devices = DevMap::try_from(&mut map).doing(WHAT)?;
    let twin = twin.fd().doing(WHAT)?;
    devices.set(0, first, Some(twin), 0).doing(WHAT)?;
    devices.set(1, second, Some(twin), 0).doing(WHAT)?;
    Ok(map)
}

/// Runs a program on a frame, that many times.
pub(crate) fn run(program: &Xdp, frame: &[u8], out: &mut [u8], repeat: u32) -> Result<TestRunResult, XdpError> {
    let options = TestRunOptions { data_in: Some(frame), data_out: Some(out), repeat, ..TestRunOptions::new() };
    program.test_run(options).doing("running a program on a frame")
}
