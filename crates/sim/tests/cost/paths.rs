//! Looks at paths: what they must take where it can be counted.

use super::{LINK_NS, RTT_NS, usual};
use onpath_sim::cost::IndexKind;
use onpath_sim::cost::{
    Calibration, FallBack, Follow, Kind, Load, Looks, Measured, Model, ModelConfig, PathNodes, Shares, TreeShape, Until,
};

const DEPTH: u32 = 5;

fn shape() -> TreeShape {
    TreeShape { fanout: 3, width: 12, depths: vec![DEPTH] }
}

fn model(config: ModelConfig) -> Model {
    let mut model = Model::new(config);
    model.make_tree(&shape());
    model
}

/// Three servers at a distance, where nothing else takes time, and one who looks.
fn distant(path_nodes: PathNodes, index: IndexKind) -> Model {
    model(ModelConfig { servers: 3, path_nodes, index, link_ns: LINK_NS, ..ModelConfig::new(Calibration::free()) })
}

/// Shortest and longest, round trips, when all that is kept of the ways is there.
fn round_trips(path_nodes: PathNodes, follow: Follow, fall_back: Option<FallBack>) -> [f64; 2] {
    let mut model = distant(path_nodes, IndexKind::Mart);
    model.warm(&[DEPTH], follow);
    let looks = Looks { fall_back: fall_back.map(|why| (why, 1.0)), ..Looks::at(DEPTH, follow, 3) };
    let measured = model.run_looks(&looks, Until { operations: 200, ..Until::DONE });
    assert_eq!((measured.of(Kind::Look).count(), measured.missed), (200, 0));
    [0.0, 1.0].map(|share| measured.of(Kind::Look).quantile_ns(share) as f64 / RTT_NS as f64)
}

#[test]
fn round_trips_of_a_look() {
    for (path_nodes, follow, least, most) in [
        (PathNodes::None, Follow::Serial, 5.0, 5.0),
        (PathNodes::None, Follow::Parallel, 1.0, 1.0),
        // The directory, then its file.
        (PathNodes::Central, Follow::Led, 2.0, 2.0),
        // To the path node, to the shard, back.
        (PathNodes::Apart, Follow::Led, 1.5, 1.5),
        // For a third of the names the shard is beside the path node.
        (PathNodes::Beside, Follow::Led, 1.0, 1.5),
        (PathNodes::Beside, Follow::Kept, 1.0, 1.0),
    ] {
        assert_eq!(round_trips(path_nodes, follow, None), [least, most], "{path_nodes:?} {follow:?}");
    }
}

#[test]
fn round_trips_of_a_fall_back() {
    for (why, more) in [
        (FallBack::Checked, 0.0),
        // The path node asks who looks for its groups.
        (FallBack::Group, 1.0),
        (FallBack::GroupTold, 0.0),
        (FallBack::Shards, 3.5),
    ] {
        let expected = [1.5 + more; 2];
        assert_eq!(round_trips(PathNodes::Apart, Follow::Led, Some(why)), expected, "{why:?}");
    }
}

const SHORTLY: Until = Until { warm_ns: 500_000, measured_ns: 2_000_000, operations: u64::MAX };

fn busy(path_nodes: PathNodes, index: IndexKind, looks: &Looks, until: Until) -> (Measured, ModelConfig) {
    let config = ModelConfig {
        servers: 2,
        path_nodes,
        index,
        link_ns: LINK_NS,
        load: Load::Closed { clients: 6, window: 8 },
        ..ModelConfig::new(usual())
    };
    let mut model = model(config.clone());
    model.warm(&[DEPTH], looks.follow);
    (model.run_looks(looks, until), config)
}

/// A path node that is full: what it does for a look is received, handled and sent, and nothing else ends its rate.
#[test]
fn a_path_node_is_a_ceiling_and_a_directory_server_a_lower_one() {
    let names = f64::from(DEPTH);
    // As `usual` has it: around an input, an input with so many names, a reply, and a lookup.
    let (around, input, name, reply) = (500.0 + 100.0 + 500.0, 300.0, 100.0, 300.0);
    let lookup = input + reply;
    let led = around + input + names * name;
    let central = around + input + (names - 1.0) * name + reply + (names - 1.0) * lookup;
    for (path_nodes, each_ns) in [(PathNodes::Apart, led), (PathNodes::Central, central)] {
        let (measured, config) = busy(path_nodes, IndexKind::Hi, &Looks::at(DEPTH, Follow::Led, 5), SHORTLY);
        let share = measured.rate(Kind::Look) * each_ns / 1e9;
        assert!((0.98..=1.01).contains(&share), "{path_nodes:?}: {share}, {:?}", measured.utilisation);
        assert_eq!((measured.unknown, measured.utilisation.len()), (0, usize::from(config.servers) + 1));
    }
}

#[test]
fn bits_say_who_may_where_they_descend() {
    let speculated = |index, fall_back| {
        let looks = Looks { fall_back, ..Looks::at(DEPTH, Follow::Led, 5) };
        let (measured, _) = busy(PathNodes::Beside, index, &looks, SHORTLY);
        let count = |label| measured.inputs.get(label).copied().unwrap_or(0) as f64;
        let all = count("resolve") + count("resolve speculated") + count("resolve checked");
        count("resolve speculated") / all
    };
    assert_eq!(speculated(IndexKind::Hi, None), 0.0, "it has no bits");
    assert_eq!(speculated(IndexKind::Mart, None), 1.0);
    let share = speculated(IndexKind::Mart, Some((FallBack::Checked, 0.2)));
    assert!((0.75..0.85).contains(&share), "{share}");
}

#[test]
fn the_same_seed_gives_the_same_looks() {
    let shares = Shares { create: 0.05, unlink: 0.04, mkdir: 0.04, chmod: 0.04, rename: 0.04 };
    for (path_nodes, follow) in [
        (PathNodes::None, Follow::Serial),
        (PathNodes::None, Follow::Parallel),
        (PathNodes::Central, Follow::Led),
        (PathNodes::Beside, Follow::Kept),
    ] {
        let looks = Looks { shares, ..Looks::at(DEPTH, follow, 7) };
        let until = Until { operations: 1_500, ..Until::DONE };
        let [one, two] = [0, 1].map(|_| busy(path_nodes, IndexKind::Hi, &looks, until).0);
        assert_eq!(one, two, "{path_nodes:?} {follow:?}");
        for kind in [Kind::Look, Kind::Create, Kind::Unlink, Kind::Mkdir, Kind::Chmod, Kind::Rename] {
            assert!(one.of(kind).count() > 0, "{path_nodes:?} {follow:?}: no {}", kind.name());
        }
        let looks = one.of(Kind::Look).count() as u64;
        assert!(one.missed < looks / 5 && looks > 50, "{} of {looks} looks led nowhere", one.missed);
    }
}
