//! Several switches, each with a range of the directories, and switches that come and go while the cluster serves.

use crate::common::cluster::{Cluster, Shape};
use crate::common::server::{Site, binary, run};
use crate::common::{Over, wait_until};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Directories of the load: with so many, every switch has a good part of them. Of eight, a switch of two has at most one in each 14th run.
const DIRECTORIES: usize = 64;

/// Files that are made in a directory before it is looked at: were they fewer, it would be written through, without a switch.
const BURST: usize = 4;

/// Files are made in a directory, and the directory looked at, time and again; how many there are then is known.
fn load(top: &Path, over: &Over, made: &AtomicUsize) {
    let dir = |number: usize| top.join(format!("d{number}"));
    (0..DIRECTORIES).for_each(|number| fs::create_dir(dir(number)).expect("mkdir"));
    for burst in 0.. {
        if over.is() {
            return;
        }
        let dir = dir(burst % DIRECTORIES);
        for file in 0..BURST {
            fs::write(dir.join(format!("{burst}-{file}")), b"").expect("a create waits and succeeds");
        }
        dir.metadata().expect("so does a stat");
        let count = fs::read_dir(&dir).expect("and a listing").count();
        assert_eq!(count, (burst / DIRECTORIES + 1) * BURST, "{}", dir.display());
        made.fetch_add(BURST, Ordering::Relaxed);
    }
}

/// Marks that shards have had acknowledged so far, and reads that a switch's answer has spared a collect.
fn used(cluster: &Cluster) -> [u64; 2] {
    let status = cluster.status();
    ["marks_acknowledged", "reads_spared_collect"].map(|counter| status.sum("shard", &[counter]))
}

/// Waits until switches are of use, and more is done.
fn switches_are_used(what: &str, cluster: &Cluster, made: &AtomicUsize) {
    let (before, done) = (used(cluster), made.load(Ordering::Relaxed));
    wait_until(what, || {
        let now = used(cluster);
        let more = now.iter().zip(before).all(|(now, before)| *now > before + 30);
        more && made.load(Ordering::Relaxed) > done + 30
    });
}

/// What `onpath cluster status` tells of each host.
fn hosts(cluster: &Cluster) -> Vec<Value> {
    let mut command = cluster.net.command(0, binary());
    command.args(["cluster", "status", "--json"]).arg(cluster.config());
    let output = command.output().expect("onpath runs");
    let line = String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned();
    let status: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    status["hosts"].as_array().expect("hosts").clone()
}

/// Whether the switches answer.
fn switches_up(cluster: &Cluster) -> Vec<bool> {
    hosts(cluster).iter().filter(|host| host["switch"] == true).map(|host| host["up"] == true).collect()
}

/// Whether all hosts with shards say that these hosts are the switches that track directories.
fn tracked_by(cluster: &Cluster, switches: &[usize]) -> bool {
    let hosts = hosts(cluster);
    let expected: Value = switches.iter().map(|&switch| hosts[switch]["number"].clone()).collect();
    hosts[..cluster.servers()].iter().all(|host| host["tracked_by"] == expected)
}

/// Datagrams that have come to a switch in a namespace.
fn came_to(cluster: &Cluster, namespace: usize) -> u64 {
    let mut command: Command = cluster.net.command(namespace, "cat");
    let output = command.arg("/proc/net/snmp").output().expect("cat");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text.lines().filter(|line| line.starts_with("Udp:"));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let place = names.split(' ').position(|name| name == "InDatagrams").expect("a counter");
    values.split(' ').nth(place).expect("its value").parse().expect("a number")
}

/// The load goes on by the other switch while one is lost; marks and the questions of clients are spread over both.
#[test]
fn a_switch_of_two_takes_what_the_other_had() {
    let test = "switches::a_switch_of_two_takes_what_the_other_had";
    let Some(site) = Site::new(test) else { return };
    let shape = Shape { switches: 2, clients: 1, init: &["--tracking", "network"], ..Shape::default() };
    let Some(mut cluster) = Cluster::start(test, &site, shape) else { return };
    let mount = cluster.mount(&site, 0, &["--cache", "none"]);
    let switches = [cluster.servers(), cluster.servers() + 1];
    assert_eq!(switches_up(&cluster), [true, true]);
    let (over, made) = (Over::default(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let _end = over.at_end();
        scope.spawn(|| load(mount.path(), &over, &made));
        switches_are_used("both switches are used", &cluster, &made);
        for lost in [1, 0, 1] {
            let before = switches.map(|host| came_to(&cluster, host));
            switches_are_used("switches are used", &cluster, &made);
            let after = switches.map(|host| came_to(&cluster, host));
            let came = [after[0] - before[0], after[1] - before[1]];
            assert!(came.iter().all(|&came| came > 20), "each has a range: {came:?}");
            cluster.kill(switches[lost]);
            switches_are_used("the other switch has everything", &cluster, &made);
            let mut up = [true, true];
            up[lost] = false;
            assert_eq!(switches_up(&cluster), up);
            wait_until("status tells of the other switch", || tracked_by(&cluster, &[switches[1 - lost]]));
            cluster.serve(switches[lost]);
            wait_until("the switch has its range again", || {
                let before = came_to(&cluster, switches[lost]);
                let done = made.load(Ordering::Relaxed);
                wait_until("more is done", || made.load(Ordering::Relaxed) > done + 30);
                came_to(&cluster, switches[lost]) > before + 20
            });
            wait_until("status tells of both", || tracked_by(&cluster, &switches));
        }
    });
    mount.stop();
    cluster.stop();
}

/// A cluster without a switch gets one, gets another one, and loses the first, all under load and without any start of a server or client.
#[test]
fn switches_come_and_go_under_load() {
    let test = "switches::switches_come_and_go_under_load";
    let Some(site) = Site::new(test) else { return };
    let shape = Shape { clients: 3, ..Shape::default() };
    let Some(mut cluster) = Cluster::start(test, &site, shape) else { return };
    let mount = cluster.mount(&site, 0, &["--cache", "none"]);
    let config = cluster.config().to_owned();
    let edit = |from: &str, to: &str| {
        let text = fs::read_to_string(&config).expect("the configuration");
        assert!(text.contains(from), "{text}");
        fs::write(&config, text.replacen(from, to, 1)).expect("write");
    };
    let add = |cluster: &mut Cluster, name: &str, namespace: usize| {
        let place = format!("{name}={}", cluster.net.address(namespace));
        let words = ["cluster".as_ref(), "add".as_ref(), config.as_os_str(), place.as_ref(), "--switch".as_ref()];
        let output = run(words);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        cluster.serve_as(name, namespace)
    };
    let (over, made) = (Over::default(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let _end = over.at_end();
        scope.spawn(|| load(mount.path(), &over, &made));
        wait_until("files are made", || made.load(Ordering::Relaxed) > 50);
        assert_eq!(used(&cluster)[0], 0, "owners need no switch");
        let [one, two] = [cluster.hosts() + 1, cluster.hosts() + 2];
        let mut first = add(&mut cluster, "s1", one);
        edit("tracking = \"owner\"", "tracking = \"network\"");
        cluster.reload();
        switches_are_used("the new switch is used", &cluster, &made);
        let second = add(&mut cluster, "s2", two);
        first.signal(libc::SIGHUP);
        cluster.reload();
        wait_until("both are used", || {
            let before = [one, two].map(|namespace| came_to(&cluster, namespace));
            let done = made.load(Ordering::Relaxed);
            wait_until("more is done", || made.load(Ordering::Relaxed) > done + 30);
            let after = [one, two].map(|namespace| came_to(&cluster, namespace));
            after.iter().zip(before).all(|(after, before)| *after > before + 20)
        });
        let text = fs::read_to_string(&config).expect("the configuration");
        let begin = text.find("\n[[host]]\nname = \"s1\"").expect("its table");
        let end = text.find("\n[[host]]\nname = \"s2\"").expect("the next one");
        edit(&text[begin..end], "");
        cluster.reload();
        second.signal(libc::SIGHUP);
        switches_are_used("the second one has everything", &cluster, &made);
        first.kill();
        switches_are_used("nobody misses the first one", &cluster, &made);
        edit("tracking = \"network\"", "tracking = \"owner\"");
        cluster.reload();
        wait_until("owners track", || {
            let before = used(&cluster)[0];
            let done = made.load(Ordering::Relaxed);
            wait_until("more is done", || made.load(Ordering::Relaxed) > done + 30);
            used(&cluster)[0] == before
        });
        second.stop();
    });
    mount.stop();
    cluster.stop();
}
