//! Of a cluster.

use super::{Said, json, status, wait_for};
use crate::common::cluster::{Cluster, Shape};
use crate::common::server::{Site, binary};
use crate::common::{Over, wait_until};

/// The status as a host of that number sees it.
fn of(cluster: &Cluster, host: usize, what: &str, args: &[&str]) -> Said {
    let mut command = cluster.net.command(host, binary());
    command.args(["status", what]);
    status(command, args)
}

#[test]
fn a_host_that_is_dead() {
    let test = "health::a_host_that_is_dead";
    let Some(site) = Site::new(test) else { return };
    let Some(mut cluster) = Cluster::start(test, &site, Shape { clients: 1, ..Shape::default() }) else { return };
    let mount = cluster.mount(&site, 0, &[]);
    let mounted = mount.path().display().to_string();
    let (config, url) = (cluster.config().display().to_string(), cluster.url());
    // A client's host knows the mount, any host the configuration, whoever has the key the hosts.
    let (client, ways) = (cluster.hosts(), [config.as_str(), url.as_str(), mounted.as_str()]);
    for what in ways {
        wait_for(0, &["healthy", "n0", "n1", "n2", &mounted], || of(&cluster, client, what, &[]));
    }
    cluster.kill(2);
    for what in ways {
        let words = [
            "degraded",
            "Host n2 does not answer, and was last heard of",
            "ago: its names and bytes cannot be reached",
        ];
        wait_for(3, &words, || of(&cluster, client, what, &[]));
    }
    let silent =
        |host: usize| json(&of(&cluster, client, &config, &["--json"]))["hosts"][host]["silent_seconds"].as_f64();
    wait_until("it is told since when it is silent", || silent(2) >= Some(6.0));
    assert_eq!(silent(0), None);
    wait_for(3, &["silent for"], || of(&cluster, client, &config, &[]));
    // A host that is asked about itself knows whom it does not hear.
    let state = cluster.state(0).display().to_string();
    wait_for(3, &["degraded", "heard nothing of host n2"], || of(&cluster, 0, &state, &[]));
    let told = json(&of(&cluster, 0, &config, &["--json"]));
    assert_eq!(
        (told["state"].as_str(), told["hosts"][2]["answers"].as_bool()),
        (Some("degraded"), Some(false)),
        "{told}"
    );
    let counters = json(&of(&cluster, 0, &config, &["--counters", "--json"]));
    assert!(counters["host@n0"].is_object() && counters["host@n2"].is_null(), "{counters}");
    cluster.serve(2);
    wait_for(0, &["healthy"], || of(&cluster, client, &config, &[]));
    cluster.process(1).signal(libc::SIGSTOP);
    wait_for(3, &["Host n1 does not answer"], || of(&cluster, client, &config, &[]));
    cluster.process(1).signal(libc::SIGCONT);
    mount.stop();
    cluster.stop_all();
    wait_for(4, &["down", "No host answers"], || of(&cluster, client, &config, &[]));
}

/// `onpath top` of a cluster shows what its mounts do, wherever it is asked.
#[test]
fn what_mounts_of_a_cluster_do() {
    let test = "health::what_mounts_of_a_cluster_do";
    let Some(site) = Site::new(test) else { return };
    let Some(cluster) = Cluster::start(test, &site, Shape { servers: 2, clients: 1, ..Shape::default() }) else {
        return;
    };
    let mount = cluster.mount(&site, 0, &[]);
    let (over, mounted) = (Over::default(), mount.path().display().to_string());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.is() {
                std::fs::write(mount.path().join("f"), "x").expect("a file");
            }
        });
        let _end = over.at_end();
        for what in [cluster.config().display().to_string(), cluster.url(), mounted] {
            wait_until("operations of the mount are shown", || {
                let mut command = cluster.net.command(cluster.hosts(), binary());
                command.args(["top", "--once", "--json", "--interval-ms", "1100", &what]);
                let output = command.output().expect("onpath runs");
                let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
                shown["operations"]["write"]["per_second"].as_f64() > Some(0.0) && shown["now"]["sessions"] == 1
            });
        }
    });
    mount.stop();
    cluster.stop();
}

/// Mounts are known to every host, so that they are shown while the host is dead that has the first shard.
#[test]
fn mounts_while_the_first_host_is_dead() {
    let test = "health::mounts_while_the_first_host_is_dead";
    let Some(site) = Site::new(test) else { return };
    let Some(mut cluster) = Cluster::start(test, &site, Shape { clients: 2, ..Shape::default() }) else { return };
    let mounts = [cluster.mount(&site, 0, &[]), cluster.mount(&site, 1, &[])];
    let names = mounts.each_ref().map(|mount| mount.path().display().to_string());
    let config = cluster.config().display().to_string();
    let state = cluster.state(1).display().to_string();
    let shown =
        |cluster: &Cluster, what: &str| json(&of(cluster, 1, what, &["--json"]))["mounts"].as_array().map(Vec::len);
    for what in [&config, &state] {
        wait_until("all hosts know both mounts", || shown(&cluster, what) == Some(2));
    }
    // Each is counted once, by whoever adds up what they do.
    wait_until("both are counted", || cluster.status().sum("mounts", &["present"]) == 2);
    cluster.kill(0);
    for what in [&config, &state] {
        wait_for(3, &["n0", &names[0], &names[1]], || of(&cluster, 1, what, &[]));
    }
    let top = || {
        let mut command = cluster.net.command(1, binary());
        command.args(["top", "--once", "--interval-ms", "100", &config]);
        String::from_utf8(command.output().expect("onpath runs").stdout).expect("text")
    };
    wait_until("top says why it tells no kinds", || {
        top().contains("through 2 mounts; of which kind, only host n0 is told")
    });
    cluster.serve(0);
    wait_until("it is told again", || cluster.status().sum("mounts", &["present"]) == 2);
    for mount in mounts {
        mount.stop();
    }
    wait_until("they have left everywhere", || [&config, &state].iter().all(|what| shown(&cluster, what) == Some(0)));
    cluster.stop();
}

#[test]
fn a_switch_that_is_lost() {
    let test = "health::a_switch_that_is_lost";
    let Some(site) = Site::new(test) else { return };
    let shape = Shape { servers: 2, switches: 1, clients: 1, init: &["--tracking", "network"], ..Shape::default() };
    let Some(mut cluster) = Cluster::start(test, &site, shape) else { return };
    let mount = cluster.mount(&site, 0, &[]);
    let config = cluster.config().display().to_string();
    wait_for(0, &["healthy", "switch"], || of(&cluster, 0, &config, &[]));
    cluster.kill(2);
    let lost = [
        "degraded",
        "Host n2 does not answer, and was last heard of",
        "Switch n2 is lost: directories are tracked by their owners",
    ];
    wait_for(3, &lost, || of(&cluster, 0, &config, &[]));
    std::fs::create_dir(mount.path().join("d")).expect("it goes on without");
    cluster.serve(2);
    wait_for(0, &["healthy"], || of(&cluster, 0, &config, &[]));
    mount.stop();
    cluster.stop();
}
