//! Measuring the roles: the model itself is run, costing nothing, with a clock around every input.

use super::calibration::{Calibration, Line};
use super::config::{Load, ModelConfig, PathNodes, Tracking};
use super::looks::{FallBack, Follow, Looks, Shares};
use super::meter::{Clock, Meter};
use super::model::{Model, Until};
use super::tree::TreeShape;
use super::users::{Accesses, FilesShape};
use super::work::{Creates, Kind, MakeDirs, Mix, Place, Touches};
use onpath_path::IndexKind;
use onpath_wire::limits::BLOCK_BYTES;
use onpath_wire::tracking::Writes;
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

/// Names of paths that are looked at.
const DEPTHS: [u32; 3] = [4, 8, 12];
/// Directories of a level of the tree in which they are: so many files for each of them.
const FILES_A_DIRECTORY: u32 = 64;

/// Looks at least, among which directories change.
const CHANGES_AMONG: u64 = 500;

/// Every way in which directories are tracked, on one process with one shard, on one with several, and on several processes.
const SHAPES: [(Tracking, u16, u16); 6] = [
    (Tracking::Owner, 1, 1),
    (Tracking::Owner, 1, 4),
    (Tracking::Owner, 4, 1),
    (Tracking::Network, 1, 4),
    (Tracking::Network, 4, 1),
    (Tracking::Sync, 4, 1),
];

/// Every way in which writes of files are answered, and homes learn of them later or at once.
const WRITTEN: [(Tracking, Writes, bool); 5] = [
    (Tracking::Owner, Writes::Chain, true),
    (Tracking::Owner, Writes::TwoPhase, true),
    (Tracking::Owner, Writes::Visible, true),
    (Tracking::Network, Writes::Visible, true),
    (Tracking::Network, Writes::Visible, false),
];
/// Blocks of a file that is written, and the part of one that a smaller write has.
const BLOCKS: u32 = 8;
const PART: u32 = 1_024;

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
            ..base()
        };
        meter = exercise(Model::new(config), meter, files);
    }
    for index in [IndexKind::Hi, IndexKind::Mart] {
        meter = look(index, meter, files);
    }
    for (tracking, writes, deferred) in WRITTEN {
        meter = read_and_write(tracking, writes, deferred, meter, files);
    }
    meter.lines()
}

/// Nothing costs anything but that each input takes a moment.
fn base() -> ModelConfig {
    ModelConfig::new(Calibration { dispatch_ns: INPUT_NS, ..Calibration::free() })
}

/// Looks at paths, with path nodes that hold directories in this index.
fn look(index: IndexKind, mut meter: Meter, files: u32) -> Meter {
    let mut model = Model::new(ModelConfig {
        servers: 4,
        path_nodes: PathNodes::Beside,
        index,
        link_ns: LINK_NS,
        load: Load::Closed { clients: 4, window: WINDOW / 4 },
        ..base()
    });
    let width = (files / FILES_A_DIRECTORY).max(10);
    model.make_tree(&TreeShape { fanout: 10, width, depths: DEPTHS.into() });
    let until = Until { operations: u64::from(files / 16), ..Until::DONE };
    // A path node that knows nothing of the ways asks.
    model.meter = Some(meter);
    model.warm(&DEPTHS, Follow::Led);
    let some = Some((FallBack::Checked, 0.5));
    for (depth, fall_back) in DEPTHS.into_iter().flat_map(|depth| [None, some].map(|why| (depth, why))) {
        model.run_looks(&Looks { fall_back, ..Looks::at(depth, Follow::Led, 1) }, until);
    }
    if index == IndexKind::Hi {
        model.warm(&DEPTHS, Follow::Kept);
        DEPTHS.into_iter().for_each(|depth| _ = model.run_looks(&Looks::at(depth, Follow::Kept, 2), until));
        let shares = Shares { chmod: 0.1, rename: 0.1, ..Shares::default() };
        let until = Until { operations: u64::from(files / 16).max(CHANGES_AMONG), ..Until::DONE };
        model.run_looks(&Looks { shares, ..Looks::at(DEPTHS[0], Follow::Kept, 3) }, until);
    }
    meter = model.meter.take().expect("just put");
    meter
}

/// Reads and writes files, whole blocks and parts of them.
fn read_and_write(tracking: Tracking, writes: Writes, deferred: bool, meter: Meter, files: u32) -> Meter {
    let mut model = Model::new(ModelConfig {
        servers: 2,
        data_servers: 2,
        tracking,
        writes,
        deferred,
        link_ns: LINK_NS,
        load: Load::Closed { clients: 4, window: WINDOW / 4 },
        ..base()
    });
    let shape = FilesShape { shared: false, files: (files / 16).clamp(16, 1_024), blocks: BLOCKS };
    model.meter = Some(meter);
    model.make_files(&shape);
    let until = Until { operations: u64::from(files / 4), ..Until::DONE };
    for (seed, bytes, reads) in [(1, BLOCK_BYTES as u32, 0.0), (2, BLOCK_BYTES as u32, 0.5), (3, PART, 0.5)] {
        let keys = u64::from(shape.files);
        model.run_accesses(&Accesses { bytes, reads, skew: 0.9, keys, seed }, until);
        model.rest(200_000_000);
    }
    model.meter.take().expect("just put")
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
