//! Ways that take shorter packets than before, while clients work.

use crate::common::cluster::{Cluster, Shape};
use crate::common::server::Site;
use crate::common::{Over, wait_until};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Bytes of a file: several messages of fragments.
const FILE: usize = 3 << 20;
/// Files that must have been written and read before something changes, and after it.
const ROUNDS: u64 = 5;
/// Longest that one may take: after a loss, messages are sent again.
const PATIENT: Duration = Duration::from_secs(10);

/// Writes and reads files until it is over; gives how long the longest took.
fn work(dir: &Path, rounds: &AtomicU64, over: &Over) -> Duration {
    let mut longest = Duration::ZERO;
    for round in 0.. {
        if over.is() {
            break;
        }
        let begun = Instant::now();
        let path = dir.join(format!("f{}", round % 4));
        let bytes: Vec<u8> = (0..FILE).map(|at| (at as u64 * 31 + (at as u64 >> 9) + round) as u8).collect();
        fs::write(&path, &bytes).expect("write");
        assert!(fs::read(&path).expect("read") == bytes, "{} came back otherwise", path.display());
        longest = longest.max(begun.elapsed());
        rounds.fetch_add(1, Relaxed);
    }
    longest
}

/// Clients work while `narrow` makes the ways take less, and `widen` lets them take as much as before.
fn while_working(test: &str, shape: Shape, before: fn(&Cluster), narrow: fn(&Cluster), widen: fn(&Cluster)) {
    let Some(site) = Site::new(test) else { return };
    let Some(cluster) = Cluster::start(test, &site, Shape { clients: 1, ..shape }) else { return };
    before(&cluster);
    let mount = cluster.mount(&site, 0, &["--cache", "none"]);
    let changed = || cluster.status().sum("transport", &["paths_changed"]);
    let (rounds, over) = (AtomicU64::new(0), Over::default());
    let more = |what: &str| {
        let wanted = rounds.load(Relaxed) + ROUNDS;
        wait_until(what, || rounds.load(Relaxed) >= wanted);
    };
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| work(mount.path(), &rounds, &over));
        let ending = over.at_end();
        more("files are written");
        assert_eq!(changed(), 0, "nothing has changed yet");
        narrow(&cluster);
        more("files are written in shorter datagrams");
        wait_until("hosts know the way", || changed() > 0);
        let known = changed();
        more("more files are written");
        let asked = changed() - known;
        assert!(asked <= 64, "{asked} changes of a way that does not change");
        widen(&cluster);
        more("files are written again");
        drop(ending);
        let longest = worker.join().expect("files are written and read");
        assert!(longest < PATIENT, "a file took {longest:?}");
    });
    mount.stop();
    cluster.stop();
}

#[test]
fn cables_become_narrow_under_load() {
    let (narrow, widen) =
        (|cluster: &Cluster| cluster.net.narrow(1_300), |cluster: &Cluster| cluster.net.narrow(1_500));
    while_working("cluster::cables_become_narrow_under_load", Shape::default(), |_| {}, narrow, widen);
}

/// Nobody knows but the router, which says so to whoever sends it too much.
#[test]
fn a_way_becomes_narrow_behind_a_router() {
    let route = |cluster: &Cluster| cluster.net.route();
    let narrow = |cluster: &Cluster| cluster.net.narrow_router(1_300);
    while_working("cluster::a_way_becomes_narrow_behind_a_router", Shape::default(), route, narrow, |_| {});
}

#[test]
fn a_switch_behind_narrow_cables_is_reached() {
    let shape = Shape { switches: 1, init: &["--tracking", "network"], ..Shape::default() };
    let (narrow, widen) =
        (|cluster: &Cluster| cluster.net.narrow(1_300), |cluster: &Cluster| cluster.net.narrow(1_500));
    while_working("cluster::a_switch_behind_narrow_cables_is_reached", shape, |_| {}, narrow, widen);
}
