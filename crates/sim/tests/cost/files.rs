//! Reads and writes of files: what they must take where it can be counted.

use super::{LINK_NS, RTT_NS};
use onpath_sim::cost::{
    Accesses, Calibration, FilesShape, Kind, Line, Load, Measured, Model, ModelConfig, Table, Tracking, Until,
};
use onpath_wire::tracking::Writes;

const OWN: FilesShape = FilesShape { shared: false, files: 4, blocks: 4 };
const WRITES: Accesses = Accesses { bytes: 4_096, reads: 0.0, skew: 0.99, keys: 4, seed: 1 };
/// Everybody has written each file, and what was lent is lent.
const UNTIL: Until = Until { warm_ns: 20_000_000, measured_ns: u64::MAX / 4, operations: 400 };

/// Two servers with shards and two with data nodes, at a distance, where nothing else takes time.
fn distant(tracking: Tracking, writes: Writes) -> ModelConfig {
    let load = Load::Closed { clients: 2, window: 1 };
    let config = ModelConfig::new(Calibration::free());
    ModelConfig { servers: 2, data_servers: 2, tracking, writes, load, link_ns: LINK_NS, ..config }
}

fn run(config: ModelConfig, shape: FilesShape, accesses: Accesses) -> Measured {
    let mut model = Model::new(config);
    model.make_files(&shape);
    model.run_accesses(&accesses, UNTIL)
}

/// Shortest and longest, round trips.
fn round_trips(measured: &Measured, kind: Kind) -> [f64; 2] {
    [0.0, 1.0].map(|share| measured.of(kind).quantile_ns(share) as f64 / RTT_NS as f64)
}

#[test]
fn round_trips_of_a_write() {
    for (tracking, writes, expected) in [
        // By the home, which answers.
        (Tracking::Owner, Writes::Chain, 1.5),
        (Tracking::Network, Writes::Chain, 1.5),
        (Tracking::Owner, Writes::TwoPhase, 2.0),
        (Tracking::Owner, Writes::Visible, 1.0),
        (Tracking::Network, Writes::Visible, 1.0),
    ] {
        let measured = run(distant(tracking, writes), OWN, WRITES);
        assert_eq!(round_trips(&measured, Kind::Write), [expected; 2], "{tracking:?} {writes:?}");
        let by_data_nodes = if writes == Writes::Visible { 400 } else { 0 };
        assert_eq!(
            (measured.of(Kind::Write).count(), measured.written),
            (400, by_data_nodes),
            "{tracking:?} {writes:?}"
        );
    }
}

#[test]
fn a_write_waits_for_backups() {
    let config = ModelConfig { backups: 2, ..distant(Tracking::Network, Writes::Visible) };
    assert_eq!(round_trips(&run(config, OWN, WRITES), Kind::Write), [2.0; 2]);
}

/// One file is written, faster than its home learns: in the table of the paper, what finds its entry occupied goes by the home.
#[test]
fn an_entry_that_is_not_free_sends_a_write_to_the_home() {
    let one = FilesShape { shared: true, files: 1, blocks: 4 };
    let load = Load::Closed { clients: 1, window: 1 };
    let slow = Line { base_ns: 10.0 * LINK_NS as f64, ..Line::default() };
    let costs = Calibration { inputs: [("learn".to_owned(), slow)].into(), ..Calibration::free() };
    let [ours, theirs] = [Table::NewestWins, Table::FreeOnly].map(|table| {
        let config = distant(Tracking::Network, Writes::Visible);
        let deferred = table == Table::NewestWins;
        run(ModelConfig { table, deferred, load, costs: costs.clone(), ..config }, one, WRITES)
    });
    assert_eq!(ours.written, 400, "{ours:?}");
    assert!((1..300).contains(&theirs.written), "{theirs:?}");
    assert!(theirs.switched["install_other_epoch"] > 0, "{theirs:?}");
}

/// However many writes of a file are under way, of whichever sessions, its data node answers them.
#[test]
fn many_writes_of_one_file_are_answered_by_its_data_node() {
    let one = FilesShape { shared: true, files: 1, blocks: 4 };
    for (clients, window) in [(1, 8), (8, 1), (4, 4)] {
        let load = Load::Closed { clients, window };
        // So far away that it never has more to tell its home than it may.
        let config = distant(Tracking::Network, Writes::Visible);
        let measured = run(ModelConfig { load, link_ns: 4 * LINK_NS, ..config }, one, WRITES);
        assert_eq!(measured.written, 400, "{clients} with {window} each: {measured:?}");
    }
}

#[test]
fn a_read_asks_the_home_and_the_data_node() {
    let reads = Accesses { reads: 1.0, ..WRITES };
    for (tracking, writes) in [(Tracking::Owner, Writes::Chain), (Tracking::Network, Writes::Visible)] {
        let measured = run(distant(tracking, writes), OWN, reads);
        assert_eq!(round_trips(&measured, Kind::Read), [2.0; 2], "{tracking:?} {writes:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_writes() {
    let once = || {
        let costs = Calibration { send_ns: 300.0, dispatch_ns: 200.0, ..Calibration::free() };
        let config = ModelConfig { costs, ..distant(Tracking::Network, Writes::Visible) };
        run(config, FilesShape { shared: true, ..OWN }, Accesses { reads: 0.5, bytes: 1_024, ..WRITES })
    };
    assert_eq!(once(), once());
}
