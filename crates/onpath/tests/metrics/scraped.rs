//! What a process answers to who scrapes it.

use super::{exchange, operations, operations_of, place, place_of, scrape, series};
use crate::common::cluster::{Cluster, Shape};
use crate::common::server::{Site, Status, status_of};
use crate::common::wait_until;
use onpath_host::metrics::{GROUPS, group};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// A known load: so many files, looked at by nobody else.
fn load(dir: &Path, files: usize) {
    for number in 0..files {
        fs::write(dir.join(format!("file{number}")), "x").expect("a file");
    }
    let refused = fs::create_dir(dir.join("file0"));
    assert!(refused.is_err(), "there is a file of that name");
}

#[test]
fn a_scrape_tells_what_was_done() {
    let Some(site) = Site::new("a scrape") else { return };
    let mount = site.dev(&["--metrics", "0"]);
    let second = site.mount(1, &["--metrics", "0"]);
    let (server, client) = (place_of(&mount), place_of(&second));
    assert!(server.ip().is_loopback() && client.ip().is_loopback());
    load(mount.path(), 20);
    fs::create_dir(second.path().join("d")).expect("mkdir");
    load(&second.path().join("d"), 30);
    // The second mount tells the server once a second, and its own scrapers at once.
    assert_eq!(operations(&scrape(client), "create", "ok"), 30.0);
    wait_until("the server has heard of both", || operations(&scrape(server), "create", "ok") == 50.0);
    let text = scrape(server);
    assert_eq!(operations(&text, "mkdir", "ok"), 1.0);
    assert_eq!(operations(&text, "write", "failed"), 0.0);
    let all = series(&text);
    assert_eq!(all["onpath_shard_sessions"], 2.0);
    assert_eq!(all["onpath_mounts_present"], 2.0);
    assert!(all["onpath_shard_inodes"] >= 51.0 && all["onpath_disk_free_bytes"] > 0.0);
    assert!(all.len() <= 2_000, "{} series", all.len());
    let secret = |word: &[u8]| text.contains(&*String::from_utf8_lossy(word));
    assert!(!secret(site.root().as_os_str().as_bytes()) && !secret(b"file0"), "no path is told");
    // Nothing becomes less when a mount leaves.
    second.stop();
    wait_until("the mount has left", || series(&scrape(server))["onpath_mounts_present"] == 1.0);
    let after = series(&scrape(server));
    for (name, before) in all.iter().filter(|(name, _)| name.contains("_total") || name.contains("_bucket")) {
        assert!(after[name] >= *before, "{name}: {} after {before}", after[name]);
    }
    assert_eq!(operations(&scrape(server), "create", "ok"), 50.0);
    mount.stop();
}

/// Shards and data nodes tell by kind and result what they have answered, and how long it took: here, what waits for the disk.
#[test]
fn shards_and_data_nodes_tell_their_operations() {
    let Some(site) = Site::new("operations of roles") else { return };
    let mount = site.dev(&["--metrics", "0", "--commit", "sync"]);
    let at = place_of(&mount);
    load(mount.path(), 20);
    fs::create_dir(mount.path().join("d")).expect("mkdir");
    fs::write(mount.path().join("d/f"), "").expect("a file");
    assert!(fs::remove_dir(mount.path().join("d")).is_err(), "it is not empty");
    // The data node tells a home again that takes its time.
    wait_until("homes have answered the data node", || {
        let text = scrape(at);
        operations_of(&text, "data", "write", "ok") == 20.0 && operations_of(&text, "shard", "merge", "ok") >= 20.0
    });
    let text = scrape(at);
    let of = |role: &str, operation: &str, result: &str| operations_of(&text, role, operation, result);
    assert_eq!((of("shard", "create", "ok"), of("data", "write", "ok")), (22.0, 20.0), "{text}");
    assert_eq!((of("shard", "rmdir", "refused"), of("shard", "rmdir", "failed")), (1.0, 0.0), "{text}");
    let all = series(&text);
    let took = |role: &str, operation: &str, what: &str| {
        all[&format!("onpath_operation_duration_seconds_{what}{{operation=\"{operation}\",role=\"{role}\"}}")]
    };
    assert_eq!((took("shard", "create", "count"), took("data", "write", "count")), (22.0, 20.0));
    // A write waits for its home, which answers what is written to the disk only.
    assert!(took("data", "write", "sum") > 0.0 && took("data", "write", "sum") < 100.0, "{text}");
    mount.stop();
}

/// Every counter that a process tells has a line in the tables, and the other way round.
#[test]
fn every_counter_is_described() {
    let test = "metrics::every_counter_is_described";
    let Some(site) = Site::new(test) else { return };
    let mut told = BTreeSet::new();
    let mut look = |status: Status| {
        for (role, counters) in status.names() {
            let role = role.split('@').next().expect("a role").to_owned();
            if ["mount", "told"].contains(&role.as_str()) {
                continue; // operations, under the names of the kernel
            }
            let group = group(&role).unwrap_or_else(|| panic!("no group describes {role}"));
            for counter in counters {
                assert!(group.metric(&counter).is_some(), "no line describes {counter} of {role}");
                told.insert((group.role, counter));
            }
        }
    };
    let mount = site.dev(&["--tracking", "network", "--switch-cache"]);
    look(status_of(&site.state()).expect("onpath status"));
    mount.stop();
    if let Some(cluster) = Cluster::start(test, &site, Shape { servers: 2, clients: 0, ..Shape::default() }) {
        look(cluster.status());
        cluster.stop();
        let lines =
            GROUPS.iter().flat_map(|group| group.metrics.iter().map(|metric| (group.role, metric.name.to_owned())));
        let untold: Vec<_> = lines.filter(|line| !told.contains(line)).collect();
        assert!(untold.is_empty(), "lines of counters that nobody tells: {untold:?}");
    }
}

/// Mounts tell the host of the coordinator, which keeps what those did who have left.
#[test]
fn mounts_of_a_cluster_tell_their_hosts() {
    let test = "metrics::mounts_of_a_cluster_tell_their_hosts";
    let Some(site) = Site::new(test) else { return };
    let shape = Shape { servers: 2, clients: 2, ..Shape::default() };
    let Some(cluster) = Cluster::start(test, &site, shape) else { return };
    let mounts = [cluster.mount(&site, 0, &[]), cluster.mount(&site, 1, &[])];
    load(mounts[0].path(), 25);
    fs::create_dir(mounts[1].path().join("d")).expect("mkdir");
    load(&mounts[1].path().join("d"), 15);
    let created = || cluster.status().sum("told", &["create"]);
    wait_until("both have told", || created() == 40 && cluster.status().sum("mounts", &["present"]) == 2);
    let [first, second] = mounts;
    second.stop();
    wait_until("one has left", || cluster.status().sum("mounts", &["present"]) == 1);
    assert_eq!(created(), 40);
    first.stop();
    cluster.stop();
}

/// Who reaches the port can neither change anything nor keep it from others.
#[test]
fn scrapers_are_bounded() {
    let Some(site) = Site::new("scrapers") else { return };
    let mount = site.dev(&["--metrics", "127.0.0.1:0"]);
    let at = place_of(&mount);
    assert!(exchange(at, b"DELETE /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    assert!(exchange(at, b"GET /../etc/passwd HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(exchange(at, &[b'x'; 9_000]).starts_with("HTTP/1.1 400"));
    let idle: Vec<TcpStream> = (0..64).map(|_| TcpStream::connect(at).expect("somebody listens")).collect();
    // Those beyond the bound are closed at once, the others when their patience is over; then there is room again.
    for mut stream in idle {
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket has a patience");
        let _ = stream.write_all(b"GET");
        let _ = stream.read(&mut [0; 64]);
    }
    wait_until("there is room again", || {
        let mut stream = TcpStream::connect(at).expect("somebody listens");
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.starts_with("HTTP/1.1 200")
    });
    mount.stop();
}

#[test]
fn nothing_listens_unless_it_is_asked_for() {
    let Some(site) = Site::new("no metrics") else { return };
    let mount = site.dev(&["--metrics", "0"]);
    let port = place(|| mount.said()).port().to_string();
    let taken = crate::common::server::run([
        "mount".as_ref(),
        site.state().as_os_str(),
        site.mountpoint(1).as_os_str(),
        "--metrics".as_ref(),
        port.as_ref(),
    ]);
    let said = String::from_utf8_lossy(&taken.stderr).into_owned();
    assert!(!taken.status.success() && said.contains("the port free"), "{said}");
    let quiet = site.mount(1, &[]);
    assert!(!quiet.said().contains("metrics are at"), "{}", quiet.said());
    let sockets =
        fs::read_to_string(format!("/proc/{}/net/tcp", quiet.pid())).expect("the sockets of the network namespace");
    let inodes: Vec<&str> = sockets
        .lines()
        .filter(|line| line.contains(" 0A "))
        .filter_map(|line| line.split_whitespace().nth(9))
        .collect();
    let open = fs::read_dir(format!("/proc/{}/fd", quiet.pid())).expect("its files");
    let listens = open
        .flatten()
        .filter_map(|fd| fs::read_link(fd.path()).ok())
        .any(|target| inodes.iter().any(|inode| target.as_os_str() == format!("socket:[{inode}]").as_str()));
    assert!(!listens, "it listens on TCP");
    quiet.stop();
    mount.stop();
}
