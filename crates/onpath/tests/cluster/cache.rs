//! Hot metadata answered by a switch, across hosts: what is asked for often costs servers nothing, and what changes is shown at once.

use crate::common::cluster::{Cluster, Shape};
use crate::common::server::{Mount, Site, binary};
use crate::common::wait_until;
use serde_json::Value;
use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A stat of this file is a walk of two names, and a look at the attributes.
pub(super) fn look(path: &Path, times: usize) {
    (0..times).for_each(|_| assert_eq!(fs::metadata(path).expect("stat").len(), 10));
}

/// What one mount has changed the other one sees when that has returned.
pub(super) fn change_and_look(of_one: &Path, of_other: &Path, times: usize) {
    for mode in [0o600, 0o640, 0o644].into_iter().cycle().take(times) {
        fs::set_permissions(of_one, Permissions::from_mode(mode)).expect("chmod");
        assert_eq!(fs::metadata(of_other).expect("stat").mode() & 0o777, mode);
    }
}

fn requests(cluster: &Cluster) -> u64 {
    cluster.status().sum("shard", &["requests"])
}

/// Until shards hear of few of so many looks.
pub(super) fn wait_until_answered(cluster: &Cluster, path: &Path) {
    wait_until("the switch answers", || {
        let before = requests(cluster);
        look(path, 100);
        requests(cluster) - before < 100
    });
}

/// Two mounts, and a file in a directory of each.
pub(super) fn mounted(cluster: &Cluster, site: &Site) -> ([Mount; 2], [PathBuf; 2]) {
    let mounts = [0, 1].map(|client| cluster.mount(site, client, &["--cache", "none"]));
    fs::create_dir(mounts[0].path().join("dir")).expect("mkdir");
    let files = [0, 1].map(|mount: usize| mounts[mount].path().join("dir/file"));
    fs::write(&files[0], b"some bytes").expect("write");
    (mounts, files)
}

/// A name that is looked for again and again comes into the switch, here that of a server, and is answered there.
#[test]
fn what_is_asked_for_often_is_answered_by_the_switch() {
    let test = "cluster::what_is_asked_for_often_is_answered_by_the_switch";
    let Some(site) = Site::new(test) else { return };
    let Some(cluster) = Cluster::start(test, &site, Shape { cache: Some(0), ..Shape::default() }) else { return };
    let (mounts, [of_one, of_other]) = mounted(&cluster, &site);
    wait_until_answered(&cluster, &of_other);
    let answered = || cluster.status().sum("switch", &["read_answered"]);
    let (before, of_switch) = (requests(&cluster), answered());
    look(&of_other, 1_000);
    let (asked, by_switch) = (requests(&cluster) - before, answered() - of_switch);
    assert!(by_switch > 1_900 && asked < 300, "{by_switch} answers of the switch, {asked} of shards");
    change_and_look(&of_one, &of_other, 30);
    drop(mounts);
    cluster.stop();
}

/// A hot file that is opened, read and closed costs shards nothing, and is read as it is all the same (C-10). What is open stays.
#[test]
fn a_hot_file_is_opened_and_read_without_shards() {
    let test = "cluster::a_hot_file_is_opened_and_read_without_shards";
    let Some(site) = Site::new(test) else { return };
    let Some(cluster) = Cluster::start(test, &site, Shape { cache: Some(0), ..Shape::default() }) else { return };
    let (mounts, [of_one, of_other]) = mounted(&cluster, &site);
    wait_until_answered(&cluster, &of_other);
    let read = |times: usize| {
        let before = requests(&cluster);
        (0..times).for_each(|_| assert_eq!(fs::read(&of_other).expect("read"), b"some bytes"));
        requests(&cluster) - before
    };
    wait_until("the switch answers reads", || read(200) < 100);
    for bytes in [b"more bytes", b"some bytes"] {
        fs::write(&of_one, bytes).expect("write");
        assert_eq!(fs::read(&of_other).expect("read"), bytes);
    }
    wait_until("the switch answers reads", || read(200) < 100);
    let mut open = File::open(&of_other).expect("open");
    fs::remove_file(&of_one).expect("unlink");
    let mut bytes = String::new();
    open.read_to_string(&mut bytes).expect("it is open");
    assert_eq!(bytes, "some bytes");
    assert!(!of_other.exists());
    drop(mounts);
    cluster.stop();
}

/// A host that has started again has its own entries dropped, and others stay (C-7).
#[test]
fn a_host_that_starts_again_keeps_the_epoch() {
    let test = "cluster::a_host_that_starts_again_keeps_the_epoch";
    let Some(site) = Site::new(test) else { return };
    let Some(mut cluster) = Cluster::start(test, &site, Shape { cache: Some(0), ..Shape::default() }) else { return };
    let (mounts, [of_one, of_other]) = mounted(&cluster, &site);
    wait_until_answered(&cluster, &of_other);
    let epoch = |cluster: &Cluster| cluster.status().sum("controller", &["cache_epoch"]);
    let before = epoch(&cluster);
    let last = cluster.servers() - 1;
    cluster.kill(last);
    cluster.serve(last);
    change_and_look(&of_one, &of_other, 10);
    wait_until_answered(&cluster, &of_other);
    assert_eq!(epoch(&cluster), before);
    drop(mounts);
    cluster.stop();
}

/// The configuration turns the cache off and on while the cluster serves.
#[test]
fn a_cache_is_turned_off_and_on() {
    let test = "cluster::a_cache_is_turned_off_and_on";
    let Some(site) = Site::new(test) else { return };
    let Some(cluster) = Cluster::start(test, &site, Shape { cache: Some(1), ..Shape::default() }) else { return };
    let (mounts, [_, file]) = mounted(&cluster, &site);
    let on = fs::read_to_string(cluster.config()).expect("the configuration");
    let off = on.replace("cache = \"switch:n1\"", "cache = \"off\"");
    wait_until_answered(&cluster, &file);
    fs::write(cluster.config(), off).expect("the configuration");
    cluster.reload();
    wait_until("shards answer", || {
        let before = requests(&cluster);
        look(&file, 100);
        requests(&cluster) - before >= 200
    });
    fs::write(cluster.config(), on).expect("the configuration");
    cluster.reload();
    wait_until_answered(&cluster, &file);
    drop(mounts);
    cluster.stop();
}

/// Without its switch everything goes on, and with it again it answers.
#[test]
fn a_switch_with_a_cache_comes_and_goes() {
    comes_and_goes("cluster::a_switch_with_a_cache_comes_and_goes", None, false);
}

#[test]
fn a_switch_in_the_kernel_with_a_cache_comes_and_goes() {
    comes_and_goes("cluster::a_switch_in_the_kernel_with_a_cache_comes_and_goes", None, true);
}

/// With keys, if who serves the cluster says that attributes may be read on the way.
#[test]
fn a_switch_answers_where_clients_have_keys() {
    comes_and_goes("cluster::a_switch_answers_where_clients_have_keys", Some("the.key"), false);
}

/// `onpath switch top` shows what the switch has answered, and by how many passes, wherever it runs.
fn assert_top(cluster: &Cluster, key: Option<&Path>) {
    let mut command = cluster.net.command(0, binary());
    command.args(["switch", "top", "--json", &cluster.url()]);
    key.into_iter().for_each(|key| _ = command.arg("--key-file").arg(key));
    let output = command.output().expect("onpath runs");
    let top: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"));
    let of = |counter: &str| -> u64 {
        let roles = top.as_object().expect("roles").iter().filter(|(role, _)| role.starts_with("switch-"));
        roles.filter_map(|(_, numbers)| numbers[counter].as_u64()).sum()
    };
    let [answered, again] = ["read_answered", "passes_recirculated"].map(of);
    assert!(answered > 100 && again > 50, "{answered} answers, {again} recirculations: {top}");
}

fn comes_and_goes(test: &str, key: Option<&str>, xdp: bool) {
    let Some(site) = Site::new(test) else { return };
    let key = key.map(|key| site.root().join(key));
    let of_key = key.iter().flat_map(|key| ["--key-file", key.to_str().expect("UTF-8")]);
    let init: Vec<&str> = ["--tracking", "network"].into_iter().chain(of_key).collect();
    let shape = Shape { switches: 1, xdp, cache: Some(3), clear_text: key.is_some(), init: &init, ..Shape::default() };
    let Some(mut cluster) = Cluster::start(test, &site, shape) else { return };
    let switch = cluster.servers();
    let (mounts, [of_one, of_other]) = mounted(&cluster, &site);
    wait_until_answered(&cluster, &of_other);
    assert_top(&cluster, key.as_deref());
    change_and_look(&of_one, &of_other, 30);
    cluster.kill(switch);
    look(&of_other, 10);
    change_and_look(&of_one, &of_other, 3);
    cluster.serve(switch);
    wait_until_answered(&cluster, &of_other);
    drop(mounts);
    cluster.stop();
}
