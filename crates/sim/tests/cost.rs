//! The cost model: what it must give where the answer is known without it.

mod cache;
mod files;
mod paths;

use onpath_sim::cost::{
    Calibration, Creates, Kind, Line, Load, MakeDirs, Measured, Mix, Model, ModelConfig, Place, Tracking, Until,
    calibrate, label,
};
use onpath_wire::ids::InodeId;

const LINK_NS: u64 = 10_000;
const RTT_NS: u64 = 2 * LINK_NS;

fn dirs(model: &mut Model, count: u32) -> Vec<InodeId> {
    let mut work = MakeDirs::new(count);
    model.run(&mut work, Until::DONE);
    assert_eq!(work.made.len(), count as usize);
    work.made
}

/// Servers at a distance, where nothing else takes time.
fn distant(tracking: Tracking, sticky_marks: bool) -> Model {
    Model::new(ModelConfig {
        servers: 8,
        tracking,
        sticky_marks,
        link_ns: LINK_NS,
        ..ModelConfig::new(Calibration::free())
    })
}

/// Turns of so many creates and a statdir of one directory, each waiting for the one before.
fn turns(tracking: Tracking, sticky_marks: bool, updates: u32) -> Measured {
    let mut model = distant(tracking, sticky_marks);
    let dirs = dirs(&mut model, 1);
    // First everybody gets access to the directory.
    model.run(&mut Creates::new(dirs.clone(), Place::Own, 1, 1), Until { operations: 200, ..Until::DONE });
    let mut work = Creates::new(dirs, Place::Own, 1, 2).with_statdirs(updates);
    model.run(&mut work, Until { operations: 400, ..Until::DONE })
}

const SERVER: Tracking = Tracking::Server { cores: 1 };

/// An eighth of the names are at the owner, which needs nobody.
fn most(measured: &Measured, kind: Kind) -> f64 {
    measured.of(kind).quantile_ns(0.9) as f64 / RTT_NS as f64
}

#[test]
fn round_trips_of_a_create_after_a_read() {
    for (tracking, round_trips) in
        [(Tracking::Owner, 2.0), (Tracking::Network, 1.0), (SERVER, 1.5), (Tracking::Sync, 2.0)]
    {
        let measured = turns(tracking, true, 1);
        assert_eq!(most(&measured, Kind::Create), round_trips, "{}", tracking.name());
    }
}

#[test]
fn round_trips_of_a_read_after_a_create() {
    for (tracking, round_trips) in
        [(Tracking::Owner, 2.0), (Tracking::Network, 2.0), (SERVER, 3.0), (Tracking::Sync, 1.0)]
    {
        let measured = turns(tracking, true, 1);
        assert_eq!(most(&measured, Kind::Statdir), round_trips, "{}", tracking.name());
    }
}

/// Costs of the size that they have, for tests of what does not depend on the machine.
fn usual() -> Calibration {
    let line = |base_ns, entry_ns| Line { base_ns, entry_ns, record_ns: 400.0, reply_ns: 300.0, samples: 1 };
    let inputs = label::LABELS.iter().map(|&label| (label.to_owned(), line(300.0, 100.0))).collect();
    Calibration { inputs, dispatch_ns: 100.0, send_ns: 500.0, receive_ns: 500.0, ..Calibration::free() }
}

fn busy(servers: u16, tracking: Tracking, directories: u32) -> (Measured, ModelConfig) {
    let config = ModelConfig {
        servers,
        tracking,
        link_ns: LINK_NS,
        load: Load::Closed { clients: 8 * u32::from(servers), window: 4 },
        ..ModelConfig::new(usual())
    };
    let mut model = Model::new(config.clone());
    let dirs = dirs(&mut model, directories);
    let mut work = Creates::new(dirs, Place::Anywhere, config.load.clients(), 7);
    let until = Until { warm_ns: 3_000_000, measured_ns: 5_000_000, operations: u64::MAX };
    (model.run(&mut work, until), config)
}

#[test]
fn the_same_seed_gives_the_same_numbers() {
    for tracking in [Tracking::Owner, Tracking::Network, SERVER, Tracking::Sync] {
        assert_eq!(busy(3, tracking, 4).0, busy(3, tracking, 4).0, "{}", tracking.name());
    }
}

#[test]
fn more_servers_are_not_slower_and_nobody_works_more_than_always() {
    for tracking in [Tracking::Owner, Tracking::Network, Tracking::Sync] {
        let mut before = 0.0;
        for servers in [1, 2, 4] {
            let (measured, _) = busy(servers, tracking, 32);
            let rate = measured.rate(Kind::Create);
            assert!(rate >= before, "{} {servers}: {rate} after {before}", tracking.name());
            assert!(
                measured.utilisation.iter().all(|&share| share > 0.7 && share <= 1.0),
                "{:?}",
                measured.utilisation
            );
            assert_eq!(measured.unknown, 0, "{:?}", measured.inputs);
            before = rate;
        }
    }
}

/// Little's law: what is under way is rate times latency, whatever the model does in between.
#[test]
fn requests_under_way_are_rate_times_latency() {
    let (measured, config) = busy(2, Tracking::Network, 32);
    let Load::Closed { clients, window } = config.load else { unreachable!("as configured") };
    let under_way = measured.rate(Kind::Create) * measured.of(Kind::Create).mean_ns() / 1e9;
    let share = under_way / f64::from(clients * window);
    assert!((0.95..1.05).contains(&share), "{under_way} of {}", clients * window);
}

/// A tracking server takes each packet that asks or marks, so it ends the growth that a switch would allow.
#[test]
fn a_tracking_server_is_a_ceiling() {
    let run = |tracking| {
        let config = ModelConfig {
            servers: 4,
            tracking,
            sticky_marks: false,
            link_ns: LINK_NS,
            load: Load::Closed { clients: 32, window: 8 },
            ..ModelConfig::new(usual())
        };
        let mut model = Model::new(config);
        let dirs = dirs(&mut model, 32);
        model.run(
            &mut Mix::new(dirs, 100, 1),
            Until { warm_ns: 1_000_000, measured_ns: 5_000_000, operations: u64::MAX },
        )
    };
    let (network, server) = (run(Tracking::Network), run(SERVER));
    let busy = server.utilisation.last().copied().expect("the tracking server comes last");
    assert!((0.98..=1.0).contains(&busy), "{:?}", server.utilisation);
    assert!(server.rate(Kind::Statdir) < 0.6 * network.rate(Kind::Statdir));
}

/// Half of what a server can do, at random: it is half busy, and the rate is the one that was asked for.
#[test]
fn an_open_load_is_met_while_there_are_cores() {
    let peak = busy(2, Tracking::Owner, 32).0.rate(Kind::Create);
    let load = Load::Open { clients: 16, rate: peak / 2.0 };
    let config = ModelConfig { servers: 2, link_ns: LINK_NS, load, ..ModelConfig::new(usual()) };
    let mut model = Model::new(config);
    let mut making = MakeDirs::new(32);
    model.run_under(Load::Closed { clients: 16, window: 1 }, &mut making, Until::DONE);
    let until = Until { warm_ns: 5_000_000, measured_ns: 20_000_000, operations: u64::MAX };
    let measured = model.run(&mut Mix::new(making.made, 0, 3), until);
    let share = measured.rate(Kind::Create) / (peak / 2.0);
    assert!((0.95..1.05).contains(&share), "{share}");
    assert!(measured.utilisation.iter().all(|busy| (0.4..0.65).contains(busy)), "{:?}", measured.utilisation);
}

/// The difference that sticky marks make: without them every create is a packet more at the site.
#[test]
fn every_update_is_marked_without_sticky_marks() {
    let messages = |sticky_marks| {
        let mut model = distant(Tracking::Network, sticky_marks);
        let dirs = dirs(&mut model, 1);
        model.run(&mut Creates::new(dirs.clone(), Place::Own, 1, 1), Until { operations: 200, ..Until::DONE });
        let measured = model.run(&mut Creates::new(dirs, Place::Own, 1, 2), Until { operations: 800, ..Until::DONE });
        measured.messages as f64 / 800.0
    };
    let (sticky, all) = (messages(true), messages(false));
    assert!((2.0..2.2).contains(&sticky), "a request and a reply: {sticky}");
    assert!((3.4..4.2).contains(&all), "for seven of eight also to the switch, and back: {all}");
}

#[test]
fn the_reference_knows_every_label() {
    let reference = Calibration::reference();
    for label in label::LABELS.iter().filter(|label| **label != "request") {
        assert!(reference.inputs.contains_key(*label), "{label}");
    }
}

/// Every shape of a system is exercised, and every input that the reference knows is met.
#[test]
fn a_calibration_measures_every_input() {
    let mut now_ns = 0;
    let clock = move || {
        now_ns += 100;
        now_ns
    };
    let measured = calibrate::measure(Box::new(clock), 1_000);
    let missing: Vec<_> = Calibration::reference().inputs.into_keys().filter(|l| !measured.contains_key(l)).collect();
    assert!(missing.is_empty(), "never met: {missing:?}");
}
