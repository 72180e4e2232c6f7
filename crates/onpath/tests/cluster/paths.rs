//! Path nodes of hosts: clients far from them are led as beside one, and go on when one is lost.

use crate::common::cluster::{Cluster, Shape, name};
use crate::common::server::{Mount, Site, binary, run};
use crate::common::user::ALICE;
use crate::common::{PATIENCE, wait_until};
use crate::remote::paths::assert_changes_are_seen;
use onpath_client::blocking::Client;
use onpath_client::{Caller, Options};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Names above a file.
const DEPTH: usize = 40;

/// A client on the last host, with the key that is there, if there is one, that keeps nothing of what path nodes say.
fn connect(cluster: &Cluster, key_file: Option<PathBuf>) -> Client {
    connect_with(cluster, key_file, 0)
}

fn connect_with(cluster: &Cluster, key_file: Option<PathBuf>, path_cache: usize) -> Client {
    let options = Options { key_file, patience: PATIENCE, path_cache, ..Options::default() };
    let connected = cluster.net.run_on(cluster.net.hosts() - 1, || Client::connect(&cluster.url(), &options));
    connected.expect("a client")
}

/// A file below many directories; its path from the root.
fn make_deep(mount: &Mount) -> String {
    let deep: PathBuf = (0..DEPTH).map(|level| format!("d{level}")).collect();
    fs::create_dir_all(mount.path().join(&deep)).expect("mkdir");
    fs::write(mount.path().join(&deep).join("file"), "x").expect("write");
    format!("/{}/file", deep.display())
}

/// Whether a look at a deep file takes one request. Without a path node it is one for each name.
fn is_led(client: &Client, path: &str) -> bool {
    let before = client.counters();
    assert_eq!(client.stat(&Caller::root(), path).expect("stat").size, 1);
    let now = client.counters();
    let followed = now.names_followed - before.names_followed;
    (now.requests - before.requests, followed) == (1, DEPTH as u64 + 1)
}

/// Counters of the path node of a host.
fn counted(cluster: &Cluster, host: usize, counter: &str) -> u64 {
    cluster.status().sum(&format!("path-{}@{}", host + 1, name(host)), &[counter])
}

/// Each session has a path node of its own, as long as all answer.
#[test]
fn a_path_is_followed_by_one_request() {
    const TEST: &str = "cluster::paths::a_path_is_followed_by_one_request";
    let Some(site) = Site::new(TEST) else { return };
    let shape = Shape { paths: &[0, 1], ..Shape::default() };
    let Some(cluster) = Cluster::start(TEST, &site, shape) else { return };
    let mount = cluster.mount(&site, 0, &[]);
    let path = make_deep(&mount);
    let clients = [(); 2].map(|()| connect(&cluster, None));
    for client in &clients {
        wait_until("a client is led all the way", || is_led(client, &path));
    }
    let of_both = |counter| [0, 1].map(|host| counted(&cluster, host, counter));
    for counter in ["paths_resolved", "requests_forwarded", "directories_held"] {
        assert!(of_both(counter).iter().all(|&count| count > 0), "{counter}: {:?}", of_both(counter));
    }
    assert_eq!(cluster.status().sum("path", &["requests_busy", "messages_malformed"]), 0);
    assert_eq!(cluster.status().sum("udp", &["disallowed"]), 0);
    // A host tells what it holds: one with a path node the way, the home of the directory who was told it.
    let inode = fs::metadata(mount.path().join("d0/d1")).expect("stat").ino().to_string();
    let told = |host| {
        let told = Command::new(binary()).args(["inspect", "--inode", &inode]).arg(cluster.state(host)).output();
        String::from_utf8_lossy(&told.expect("onpath runs").stdout).into_owned()
    };
    let all: Vec<String> = (0..3).map(told).collect();
    assert!(all[..2].iter().all(|told| told.contains("holds_path")) && !all[2].contains("holds_path"), "{all:?}");
    assert!(all.iter().any(|told| told.contains("holders_of_path")), "{all:?}");
    clients.into_iter().for_each(Client::close);
    mount.stop();
    cluster.stop();
}

#[test]
fn changes_on_the_way_are_seen_at_once() {
    const TEST: &str = "cluster::paths::changes_on_the_way_are_seen_at_once";
    let Some(site) = Site::new(TEST) else { return };
    let shape = Shape { paths: &[0, 1], ..Shape::default() };
    let Some(cluster) = Cluster::start(TEST, &site, shape) else { return };
    let mount = cluster.mount(&site, 0, &[]);
    for path_cache in [0, 1 << 20] {
        let client = connect_with(&cluster, None, path_cache);
        assert_changes_are_seen(&mount, &client, 500);
        assert_eq!(client.counters().paths_behind > 50, path_cache > 0, "{:?}", client.counters());
        client.close();
    }
    assert!(cluster.status().sum("path", &["recalls"]) > 0);
    mount.stop();
    cluster.stop();
}

/// What is only looked at goes on, by another path node or name by name; when the lost one is back it is asked again.
#[test]
fn a_path_node_is_lost_and_comes_back() {
    const TEST: &str = "cluster::paths::a_path_node_is_lost_and_comes_back";
    let Some(site) = Site::new(TEST) else { return };
    let shape = Shape { servers: 2, path_hosts: 2, ..Shape::default() };
    let Some(mut cluster) = Cluster::start(TEST, &site, shape) else { return };
    let (mount, both) = (cluster.mount(&site, 0, &[]), [2, 3]);
    let path = make_deep(&mount);
    let client = connect(&cluster, None);
    wait_until("the client is led all the way", || is_led(&client, &path));
    let own = both.into_iter().max_by_key(|&host| counted(&cluster, host, "paths_resolved")).expect("two");
    let other = both.into_iter().find(|&host| host != own).expect("two");
    // Whatever is asked while nobody answers is answered within this.
    let look = |client: &Client| {
        let begun = Instant::now();
        let is_led = is_led(client, &path);
        assert!(begun.elapsed() < Duration::from_secs(1), "it took {:?}", begun.elapsed());
        is_led
    };
    cluster.kill(own);
    look(&client);
    wait_until("the other path node leads", || look(&client) && counted(&cluster, other, "paths_resolved") > 0);
    cluster.kill(other);
    assert!(!look(&client), "nobody is there to lead");
    cluster.serve(own);
    wait_until("the first path node leads again", || look(&client) && counted(&cluster, own, "paths_resolved") > 0);
    cluster.serve(other);
    client.close();
    mount.stop();
    cluster.stop();
}

/// Whoever changes directories that a path node knows does not need it, however many are led by it when it is lost.
#[test]
fn a_change_does_not_wait_long_for_a_lost_path_node() {
    const TEST: &str = "cluster::paths::a_change_does_not_wait_long_for_a_lost_path_node";
    let Some(site) = Site::new(TEST) else { return };
    let shape = Shape { servers: 2, path_hosts: 1, ..Shape::default() };
    let Some(mut cluster) = Cluster::start(TEST, &site, shape) else { return };
    let mount = cluster.mount(&site, 0, &[]);
    let path = make_deep(&mount);
    let dir = mount.path().join("d0/d1");
    let (client, somebody) = (connect(&cluster, None), Caller { uid: ALICE.uid, gid: ALICE.gid, ..Caller::default() });
    wait_until("the client is led all the way", || is_led(&client, &path));
    let looks = AtomicU64::new(0);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for path_cache in [0, 1 << 20] {
            let client = connect_with(&cluster, None, path_cache);
            let (path, looks, over) = (&path, &looks, &over);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    match client.stat(&Caller::root(), path) {
                        Ok(_) => _ = looks.fetch_add(1, Ordering::Relaxed),
                        Err(error) => {
                            assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "it is being renamed: {error}")
                        }
                    }
                }
                client.close();
            });
        }
        wait_until("they look", || looks.load(Ordering::Relaxed) > 1_000);
        cluster.kill(2);
        let begun = Instant::now();
        fs::set_permissions(&dir, Permissions::from_mode(0o700)).expect("chmod");
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(4), "chmod took {took:?}");
        let refused = client.stat(&somebody, &path).expect_err("closed to her");
        assert_eq!(refused.raw_os_error(), Some(libc::EACCES));
        // It was waited for; nobody else has to.
        let begun = Instant::now();
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).expect("chmod");
        fs::rename(dir.join("d2"), dir.join("moved")).expect("rename");
        fs::rename(dir.join("moved"), dir.join("d2")).expect("rename");
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(2), "later changes took {took:?}");
        let before = looks.load(Ordering::Relaxed);
        wait_until("they go on", || looks.load(Ordering::Relaxed) > before + 100);
        over.store(true, Ordering::Relaxed);
    });
    assert!(cluster.status().sum("shard", &["path_parts_struck"]) > 0);
    cluster.serve(2);
    wait_until("the client is led again", || is_led(&client, &path));
    client.close();
    mount.stop();
    cluster.stop();
}

/// Whoever has a key of his own is its owner, also where a path node asks in his name.
#[test]
fn who_is_led_is_who_he_is() {
    const TEST: &str = "cluster::paths::who_is_led_is_who_he_is";
    let Some(site) = Site::new(TEST) else { return };
    let file = site.root().join("cluster.key");
    let named = file.display().to_string();
    let shape = Shape { servers: 2, path_hosts: 1, init: &["--key-file", &named], ..Shape::default() };
    let Some(cluster) = Cluster::start(TEST, &site, shape) else { return };
    let mount = cluster.mount(&site, 0, &[]);
    let path = make_deep(&mount);
    let closed = |mode| {
        fs::set_permissions(mount.path().join("d0/d1"), Permissions::from_mode(mode)).expect("chmod");
    };
    closed(0o700);
    let (uid, gid) = (ALICE.uid.to_string(), ALICE.gid.to_string());
    for words in [&["add", "alice", "--uid", &uid, "--gid", &gid][..], &["add", "any", "--any-user"]] {
        let words = [&["cluster", "key"], words, &["--key-file", &named]].concat();
        assert!(run(words.iter().map(AsRef::as_ref)).status.success());
    }
    let [alice, any] = ["alice", "any"].map(|name| connect(&cluster, Some(file.with_extension(format!("{name}.key")))));
    let told = |client: &Client, caller: &Caller| {
        client.stat(caller, &path).map(|is| is.size).map_err(|error| error.raw_os_error())
    };
    let somebody = Caller { uid: ALICE.uid, gid: ALICE.gid, ..Caller::default() };
    wait_until("whoever may be root is led", || is_led(&any, &path));
    assert_eq!(told(&any, &somebody), Err(Some(libc::EACCES)));
    // Whatever she says that she is.
    for caller in [Caller::root(), somebody.clone()] {
        assert_eq!(told(&alice, &caller), Err(Some(libc::EACCES)));
    }
    closed(0o755);
    wait_until("she is led where anybody may go", || is_led(&alice, &path));
    assert!(cluster.status().sum("path", &["requests_forwarded"]) >= 2);
    assert_eq!(cluster.status().sum("udp", &["disallowed"]), 0);
    [alice, any].into_iter().for_each(Client::close);
    mount.stop();
    cluster.stop();
}

/// `onpath cluster init` writes which hosts have path nodes, and takes no other names.
#[test]
fn a_new_cluster_has_path_nodes_where_they_are_asked_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("cluster.toml");
    let init = |nodes: &[&str]| {
        let words = ["cluster", "init", file.to_str().expect("UTF-8"), "a=10.0.0.1", "b=10.0.0.2", "c=10.0.0.3"];
        run(words.iter().chain(nodes).map(AsRef::as_ref))
    };
    let refused = init(&["--path-node", "a", "--path-node", "d"]);
    assert!(!refused.status.success() && !file.exists());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("--path-node d: no host is called so"), "{said}");
    assert!(init(&["--path-node", "a", "--path-node", "c"]).status.success());
    let text = fs::read_to_string(&file).expect("the configuration");
    let have = text.split("[[host]]").skip(1).map(|host| host.contains("\npath = true\n"));
    assert_eq!(have.collect::<Vec<_>>(), [true, false, true], "{text}");
}

/// A configuration that cannot be meant is refused with the line, and the host serves by the right one.
#[test]
fn a_path_node_is_configured_and_shown() {
    const TEST: &str = "cluster::paths::a_path_node_is_configured_and_shown";
    let Some(site) = Site::new(TEST) else { return };
    let shape = Shape { servers: 1, path_hosts: 1, clients: 1, ..Shape::default() };
    let Some(mut cluster) = Cluster::start(TEST, &site, shape) else { return };
    let right = fs::read_to_string(cluster.config()).expect("the configuration");
    cluster.stop_host(1);
    let directory = format!("directory = {:?}\npath = true\n", cluster.state(1));
    assert!(right.ends_with(&directory), "{right}");
    for (instead, why) in [
        ("path = true\n".to_owned(), "a host with shards, data or a path node needs a directory"),
        (format!("{directory}path_memory = \"5\"\n"), "host.path_memory: at least 1048576 bytes are needed"),
        (directory.replace("path = true", "path_memory = \"64M\""), "host.path_memory: only a path node takes it"),
    ] {
        fs::write(cluster.config(), right.replace(&directory, &instead)).expect("written");
        let said = cluster.refused(1);
        assert!(said.contains(why), "{said}");
    }
    fs::write(cluster.config(), format!("{right}path_memory = \"2M\"\n")).expect("written");
    cluster.serve(1);
    let onpath = |cluster: &Cluster, words: &[&str]| {
        let output = cluster.net.command(0, binary()).args(words).arg(cluster.config()).output();
        String::from_utf8_lossy(&output.expect("onpath runs").stdout).into_owned()
    };
    let shown: serde_json::Value =
        serde_json::from_str(&onpath(&cluster, &["cluster", "status", "--json"])).expect("JSON");
    assert_eq!([0, 1].map(|host| shown["hosts"][host]["path"] == true), [false, true], "{shown}");
    wait_until("the status names it", || {
        let told = onpath(&cluster, &["status"]);
        told.contains("healthy") && told.contains("path node")
    });
    cluster.kill(1);
    wait_until("the status misses it", || {
        onpath(&cluster, &["status"]).contains("look names up without its path node")
    });
    cluster.stop();
}
