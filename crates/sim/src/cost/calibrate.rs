//! Measuring the roles: the model itself is run, costing nothing, with a clock around every input.

use super::calibration::{Calibration, Line};
use super::config::{Load, ModelConfig, Tracking};
use super::meter::{Clock, Meter};
use super::model::{Model, Until};
use super::work::{Creates, Kind, MakeDirs, Mix, Place, Touches};
use std::collections::BTreeMap;

/// Directories.
const DIRECTORIES: u32 = 64;
/// Requests under way: enough that messages meet, as under load.
const WINDOW: u32 = 16;
/// Between nodes: enough that time passes, ns.
const LINK_NS: u64 = 2_000;
/// For each input, so that time passes inside a process too, ns.
const INPUT_NS: f64 = 500.0;
/// Creates between two statdirs.
const UPDATES: [u32; 4] = [1, 4, 16, 100];

/// Every way in which directories are tracked, on one process with one shard, on one with several, and on several processes.
const SHAPES: [(Tracking, u16, u16); 6] = [
    (Tracking::Owner, 1, 1),
    (Tracking::Owner, 1, 4),
    (Tracking::Owner, 4, 1),
    (Tracking::Network, 1, 4),
    (Tracking::Network, 4, 1),
    (Tracking::Sync, 4, 1),
];

/// What the inputs of roles cost, by label, with about `files` files in each of several file systems.
pub fn measure(clock: Clock, files: u32) -> BTreeMap<String, Line> {
    let mut meter = Meter::new(clock);
    for (tracking, servers, cores) in SHAPES {
        let config = ModelConfig {
            tracking,
            servers,
            cores,
            clients_inside: servers == 1,
            link_ns: if servers == 1 { 0 } else { LINK_NS },
            load: Load::Closed { clients: 1, window: WINDOW },
            ..ModelConfig::new(Calibration { dispatch_ns: INPUT_NS, ..Calibration::free() })
        };
        meter = exercise(Model::new(config), meter, files);
    }
    meter.lines()
}

fn exercise(mut model: Model, mut meter: Meter, files: u32) -> Meter {
    let mut making = MakeDirs::new(DIRECTORIES);
    model.run(&mut making, Until::DONE);
    let dirs = making.made;
    let until = |operations: u32| Until { operations: u64::from(operations), ..Until::DONE };
    // Half of the files are there before anything is measured.
    model.run(&mut Creates::new(dirs.clone(), Place::Anywhere, 1, 0), until(files / 2));
    model.meter = Some(meter);
    let mut creates = Creates::new(dirs.clone(), Place::Anywhere, 1, 1);
    creates.files = Some(vec![]);
    model.run(&mut creates, until(files / 4));
    let made = creates.files.unwrap_or_default();
    for (seed, updates) in (2..).zip(UPDATES) {
        let mut turns = Creates::new(dirs.clone(), Place::Anywhere, 1, seed).with_statdirs(updates);
        model.run(&mut turns, until(files / 16));
        model.rest(200_000_000);
    }
    model.run(&mut Mix::new(dirs, 100, 1), until(files / 16));
    for kind in [Kind::Lookup, Kind::Stat, Kind::Unlink] {
        model.run(&mut Touches::new(kind, made.clone()), Until::DONE);
        model.rest(200_000_000);
    }
    meter = model.meter.take().expect("just put");
    meter
}
