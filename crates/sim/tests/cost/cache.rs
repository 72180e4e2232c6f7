//! Files that a switch answers for: what requests must take where it can be counted.

use super::{LINK_NS, RTT_NS, usual};
use onpath_sim::cost::{
    Cache, Calibration, Kind, Load, Locks, Measured, Model, ModelConfig, NamesShape, Order, PathNodes, RECIRCULATED,
    Requests, Tracking, Until,
};

/// A tree of three levels of directories, whose files are all hot.
fn all_hot(hot: u32) -> NamesShape {
    NamesShape { depth: 4, hot, cold: 1, files: u64::from(hot), order: Order::Random }
}

fn config(servers: u16, costs: Calibration) -> ModelConfig {
    ModelConfig {
        servers,
        tracking: Tracking::Network,
        path_nodes: PathNodes::Apart,
        cache: Some(Cache { entries: 1 << 16, threshold: u16::MAX }),
        link_ns: LINK_NS,
        load: Load::Closed { clients: 3, window: 8 },
        ..ModelConfig::new(costs)
    }
}

fn model(config: ModelConfig, shape: &NamesShape) -> Model {
    let mut model = Model::new(config);
    model.make_names(shape);
    model
}

fn of(shares: &[(Kind, f64)], skew: f64) -> Requests {
    Requests { shares: shares.to_vec(), skew, hot_in: 0, opens: false, seed: 3 }
}

fn only(kind: Kind) -> Requests {
    of(&[(kind, 1.0)], 0.9)
}

const SOME: Until = Until { operations: 600, ..Until::DONE };
const SHORTLY: Until = Until { warm_ns: 500_000, measured_ns: 3_000_000, operations: u64::MAX };

fn count(measured: &Measured, label: &str) -> u64 {
    measured.inputs.get(label).copied().unwrap_or(0)
}

fn switched(measured: &Measured, counter: &str) -> u64 {
    measured.switched.get(counter).copied().unwrap_or(0)
}

/// What the switch has answered.
fn hits(measured: &Measured) -> u64 {
    switched(measured, "read_answered")
}

#[test]
fn a_hit_costs_no_server_anything_and_without_a_cache_all_go_to_servers() {
    let mut model = model(config(4, Calibration::free()), &all_hot(40));
    for kind in [Kind::Stat, Kind::Open] {
        let without = model.run_requests(&only(kind), SOME);
        assert_eq!((count(&without, "lookup"), hits(&without), without.missed), (600, 0, 0));
        assert_eq!(without.of(kind).quantile_ns(1.0), RTT_NS);
    }
    model.answer_by_switch();
    let hot = model.run_requests(&only(Kind::Stat), SOME);
    assert_eq!((count(&hot, "lookup"), hits(&hot), hot.missed), (0, 600, 0));
    assert_eq!(hot.of(Kind::Stat).quantile_ns(1.0), RTT_NS / 2, "the switch is half-way");
    // A file that is closed again soon is opened by the switch, too.
    let opens = model.run_requests(&Requests { opens: true, ..only(Kind::Open) }, SOME);
    assert_eq!((opens.of(Kind::Open).count(), count(&opens, "open"), count(&opens, "release")), (600, 0, 0));
}

/// All that is asked for is at one server, which is full without the switch and has nothing to do with it.
#[test]
fn a_switch_takes_the_hottest_file_from_its_server() {
    let mut model = model(config(4, usual()), &all_hot(1));
    let mut busiest = || {
        let measured = model.run_requests(&only(Kind::Stat), SHORTLY);
        assert!(measured.of(Kind::Stat).count() > 100);
        let mut busy = measured.utilisation[..4].to_vec();
        busy.sort_by(f64::total_cmp);
        (busy[3], busy[2])
    };
    let (full, others) = busiest();
    assert!(full > 0.97 && others < 0.05, "{full}, {others}");
    model.answer_by_switch();
    let measured = model.run_requests(&only(Kind::Stat), SHORTLY);
    assert!(measured.utilisation[..4].iter().all(|busy| *busy < 0.05), "{:?}", measured.utilisation);
    assert_eq!(hits(&measured), measured.of(Kind::Stat).count() as u64);
}

/// Of very many files that are asked for alike the switch has nearly none.
#[test]
fn uniform_work_gains_nothing() {
    let shape = NamesShape { hot: 40, cold: 400, files: 10_000_000, ..all_hot(40) };
    let mut model = model(config(2, usual()), &shape);
    let alike = of(&[(Kind::Stat, 1.0)], 0.0);
    let without = model.run_requests(&alike, SHORTLY);
    model.answer_by_switch();
    let with = model.run_requests(&alike, SHORTLY);
    let gain = with.rate(Kind::Stat) / without.rate(Kind::Stat);
    assert!(hits(&with) < 5 && (0.95..1.02).contains(&gain), "{gain}, {} answered", hits(&with));
}

/// A server that is full: what it does for a look is received, handled and sent; with so many names more if it follows the path.
#[test]
fn who_follows_paths_pays_for_the_names() {
    let mut model = model(config(1, usual()), &all_hot(40));
    // As `usual` has it: around an input, an input, a name, a reply.
    let (around, input, name, reply) = (500.0 + 100.0 + 500.0, 300.0, 100.0, 300.0);
    let look = around + input + reply;
    let clients = model.run_requests(&only(Kind::Stat), SHORTLY);
    model.servers_follow(true);
    let servers = model.run_requests(&only(Kind::Stat), SHORTLY);
    let share = clients.rate(Kind::Stat) * look / 1e9;
    assert!((0.97..=1.01).contains(&share), "{share}");
    // There are one to three directories above a file, two or three above most.
    let names = (1e9 / servers.rate(Kind::Stat) - look - input) / name;
    assert!((1.8..3.2).contains(&names), "{names}");
}

/// C-6: each change clears what the switch has, once until that is filled again.
#[test]
fn what_is_changed_is_cleared_and_filled_again() {
    let mut model = model(config(4, usual()), &all_hot(40));
    model.answer_by_switch();
    let changed = model.run_requests(&only(Kind::Chmod), SOME);
    let (cleared, filled) = (switched(&changed, "invalidate_done"), switched(&changed, "fill_done"));
    assert!((20..=600).contains(&cleared) && filled <= cleared, "{cleared} cleared, {filled} filled");
    model.rest(50_000_000);
    let after = model.run_requests(&only(Kind::Stat), SOME);
    assert_eq!(hits(&after), 600);
}

/// Fletch §V-B, table II: readers take as many passes with locks as without, and writers wait.
#[test]
fn locks_make_more_recirculations_than_none() {
    let mut model = model(config(2, usual()), &all_hot(3));
    model.answer_by_switch();
    let mut each = |locks, chmods: f64| {
        model.set_passes(locks, 1_000);
        let requests = of(&[(Kind::Open, 1.0 - chmods), (Kind::Chmod, chmods)], 0.9);
        let measured = model.run_requests(&requests, Until { measured_ns: 100_000_000, ..SHORTLY });
        let all = measured.all().count();
        assert!(all > 500);
        switched(&measured, RECIRCULATED) as f64 / all as f64
    };
    let [off, single, multi] = [Locks::Off, Locks::Single, Locks::Multi].map(|locks| each(locks, 0.0));
    assert!(off > 1.0 && [single, multi].iter().all(|one| (one / off - 1.0).abs() < 0.02), "{off} {single} {multi}");
    let [off, single, multi] = [Locks::Off, Locks::Single, Locks::Multi].map(|locks| each(locks, 0.5));
    assert!(off + 1.0 < multi && off + 1.0 < single, "{off} {multi} {single}");
}

#[test]
fn the_same_seed_gives_the_same_requests() {
    let shares = [
        (Kind::Open, 0.4),
        (Kind::Create, 0.2),
        (Kind::Readdir, 0.05),
        (Kind::Chmod, 0.1),
        (Kind::Unlink, 0.05),
        (Kind::Statdir, 0.05),
        (Kind::Mkdir, 0.1),
        (Kind::Rmdir, 0.03),
        (Kind::Rename, 0.02),
    ];
    let [one, two] = [0, 1].map(|_| {
        let shape = NamesShape { cold: 100, files: 1_000_000, ..all_hot(40) };
        let mut model = model(config(3, usual()), &shape);
        let without = model.run_requests(&of(&shares, 0.9), SHORTLY);
        model.answer_by_switch();
        [without, model.run_requests(&of(&shares, 0.9), SHORTLY)]
    });
    assert_eq!(one, two);
    for measured in one {
        assert_eq!((measured.missed, measured.unknown), (0, 0), "{:?}", measured.inputs);
        let met = shares.iter().filter(|(kind, _)| measured.of(*kind).count() > 0).count();
        assert_eq!(met, shares.len(), "{:?}", measured.kinds.keys());
    }
}

/// The hottest files are others: the switch misses them until it is given them.
#[test]
fn what_becomes_hot_is_given_to_the_switch() {
    let shape = NamesShape { hot: 150, cold: 1_000, files: 1_150, ..all_hot(150) };
    let base = config(2, usual());
    let mut model = model(ModelConfig { cache: Some(Cache { entries: 1 << 16, threshold: 4 }), ..base }, &shape);
    model.answer_by_switch();
    let share = |model: &mut Model, hot_in| {
        let requests = Requests { hot_in, ..of(&[(Kind::Stat, 1.0)], 1.2) };
        let measured = model.run_requests(&requests, Until { measured_ns: 20_000_000, ..SHORTLY });
        hits(&measured) as f64 / measured.of(Kind::Stat).count() as f64
    };
    let before = share(&mut model, 0);
    let first = share(&mut model, 1);
    let later = (0..4).map(|_| share(&mut model, 1)).last().expect("some");
    assert!(first < before - 0.05 && later > first + 0.05, "{before}, then {first}, then {later}");
}
