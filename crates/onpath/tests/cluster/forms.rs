//! How directories are tracked across hosts: chosen by the configuration, changed while the cluster serves, and changed by itself when the
//! switch is lost.

use crate::common::cluster::{Cluster, Shape};
use crate::common::server::Site;
use crate::common::{Over, number_from_env, report, wait_until};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

fn with_switch<'a>(tracking: &'a [&'a str]) -> Shape<'a> {
    Shape { switches: 1, clients: 1, init: tracking, ..Shape::default() }
}

/// Marks that shards have sent to the switch so far.
fn marks(cluster: &Cluster) -> u64 {
    cluster.status().sum("shard", &["marks_sent"])
}

/// Makes files in a directory, and lists it.
fn update_and_read(dir: &Path, round: usize) {
    fs::create_dir(dir.join(format!("r{round}"))).expect("mkdir");
    for file in 0..20 {
        fs::write(dir.join(format!("r{round}/{file}")), b"").expect("create");
        assert_eq!(fs::read_dir(dir.join(format!("r{round}"))).expect("list").count(), file + 1);
    }
}

#[test]
fn the_form_changes_while_the_cluster_serves() {
    let test = "cluster::the_form_changes_while_the_cluster_serves";
    let Some(site) = Site::new(test) else { return };
    let Some(cluster) = Cluster::start(test, &site, with_switch(&["--tracking", "owner"])) else { return };
    let mount = cluster.mount(&site, 0, &["--cache", "none"]);
    update_and_read(mount.path(), 0);
    assert_eq!(marks(&cluster), 0, "owners need no switch");
    let mut round = 0;
    let mut set = |form: &str, other: &str| {
        let text = fs::read_to_string(cluster.config()).expect("the configuration");
        let (from, to) = (format!("tracking = \"{other}\""), format!("tracking = \"{form}\""));
        assert!(text.contains(&from));
        fs::write(cluster.config(), text.replace(&from, &to)).expect("write");
        (0..cluster.servers()).for_each(|host| cluster.process(host).signal(libc::SIGHUP));
        let before = marks(&cluster);
        wait_until("the form has changed", || {
            round += 1;
            let had = marks(&cluster);
            update_and_read(mount.path(), round);
            (marks(&cluster) > had) == (form == "network")
        });
        before
    };
    set("network", "owner");
    set("owner", "network");
    set("network", "owner");
    // What cannot be taken leaves everything as it is.
    let text = fs::read_to_string(cluster.config()).expect("the configuration");
    fs::write(cluster.config(), text.replace("\"network\"", "\"telepathy\"")).expect("write");
    cluster.process(0).signal(libc::SIGHUP);
    wait_until("the host refuses it", || cluster.process(0).said().contains("telepathy"));
    update_and_read(mount.path(), 9_999);
    mount.stop();
    cluster.stop();
}

/// The switch is lost under load, and comes back, time and again: every gap in which nothing is done is short.
#[test]
fn the_loss_of_the_switch_is_a_short_gap() {
    let test = "cluster::the_loss_of_the_switch_is_a_short_gap";
    let Some(site) = Site::new(test) else { return };
    let Some(mut cluster) = Cluster::start(test, &site, with_switch(&["--tracking", "network"])) else { return };
    let switch = cluster.servers();
    let mount = cluster.mount(&site, 0, &["--cache", "none"]);
    let (over, moments) = (Over::default(), Mutex::new(vec![]));
    let mut gaps: Vec<(Duration, Duration)> = vec![];
    std::thread::scope(|scope| {
        let _end = over.at_end();
        scope.spawn(|| {
            let dir = mount.path().join("d");
            fs::create_dir(&dir).expect("mkdir");
            for file in 0.. {
                if over.is() {
                    return;
                }
                fs::write(dir.join(file.to_string()), b"").expect("a create waits and succeeds");
                dir.metadata().expect("so does a stat");
                moments.lock().expect("moments").push(Instant::now());
            }
        });
        let count = || moments.lock().expect("moments").len();
        // Until long after the coordinator has seen what happened, which takes 0.4 s.
        let work_goes_on = |since: Instant| {
            let before = count();
            wait_until("work goes on", || count() > before + 50 && since.elapsed() > Duration::from_millis(1_200));
        };
        let longest = |from: Instant| {
            let moments = moments.lock().expect("moments");
            let after: Vec<Instant> = moments.iter().copied().filter(|&moment| moment >= from).collect();
            let first = after.first().map_or(Duration::ZERO, |first| *first - from);
            after.windows(2).map(|pair| pair[1] - pair[0]).chain([first]).max().expect("one at least")
        };
        for _ in 0..number_from_env("ONPATH_SWITCH_LOSSES", 3) {
            let marked = marks(&cluster);
            wait_until("the switch is used", || marks(&cluster) > marked + 20);
            let lost = Instant::now();
            cluster.kill(switch);
            work_goes_on(lost);
            let without = longest(lost);
            let back = Instant::now();
            cluster.serve(switch);
            work_goes_on(back);
            let marked = marks(&cluster);
            wait_until("the switch is used again", || marks(&cluster) > marked + 20);
            gaps.push((without, longest(back)));
        }
    });
    let sorted = |of: fn(&(Duration, Duration)) -> Duration| {
        let mut all: Vec<Duration> = gaps.iter().map(of).collect();
        all.sort_unstable();
        all
    };
    let (lost, back) = (sorted(|gap| gap.0), sorted(|gap| gap.1));
    let at = |all: &[Duration], share: usize| all[(all.len() - 1) * share / 100];
    report(&format!(
        "switch lost {} times: median gap {:?}, p99 {:?}; back: {:?}, {:?}",
        lost.len(),
        at(&lost, 50),
        at(&lost, 99),
        at(&back, 50),
        at(&back, 99)
    ));
    let made = moments.lock().expect("moments").len();
    assert!(fs::read_dir(mount.path().join("d")).expect("list").count() >= made, "nothing that was made is missing");
    mount.stop();
    cluster.stop();
}
