//! What `onpath cluster` writes and shows, and what is refused.

use crate::common::cluster::{Cluster, Shape};
use crate::common::server::{Site, run};
use crate::common::wait_until;
use serde_json::Value;
use std::path::Path;
use std::process::Output;

fn onpath(words: &[&str]) -> Output {
    run(words.iter().map(AsRef::as_ref))
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// What `onpath cluster status` tells on a host.
fn status(cluster: &Cluster, host: usize, json: bool) -> (bool, String) {
    let mut command = cluster.net.command(host, crate::common::server::binary());
    command.args(["cluster", "status"]).arg(cluster.config()).args(json.then_some("--json"));
    let output = command.output().expect("onpath runs");
    (output.status.success(), said(&output))
}

#[test]
fn hosts_that_answer_are_told_from_those_that_do_not() {
    let test = "cluster::hosts_that_answer_are_told_from_those_that_do_not";
    let Some(site) = Site::new(test) else { return };
    let Some(mut cluster) = Cluster::start(test, &site, Shape { clients: 1, ..Shape::default() }) else { return };
    let mount = cluster.mount(&site, 0, &[]);
    let hosts = |cluster: &Cluster| -> Vec<Value> {
        let (_, json) = status(cluster, 1, true);
        let json = json.lines().next().expect("a line").to_owned();
        let status: Value = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
        status["hosts"].as_array().expect("hosts").clone()
    };
    wait_until("all hosts reach each other", || {
        hosts(&cluster).iter().all(|host| host["reaches"].as_array().is_some_and(|all| all.len() == 2))
    });
    assert!(hosts(&cluster).iter().all(|host| host["clients"] == 1 && host["up"] == true));
    let (all_answer, table) = status(&cluster, 0, false);
    assert!(all_answer && table.contains("6 shards on 3 hosts; directories are tracked by their owners"), "{table}");
    cluster.kill(2);
    assert_eq!(hosts(&cluster)[2]["up"], false);
    let (all_answer, table) = status(&cluster, 0, false);
    assert!(!all_answer && table.contains("silent") && table.contains("1 of 3 hosts do not answer"), "{table}");
    cluster.serve(2);
    wait_until("the host is back", || hosts(&cluster)[2]["up"] == true);
    mount.stop();
    cluster.stop();
}

#[test]
fn configurations_are_written_once_and_checked() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("c.toml").display().to_string();
    let init = |more: &[&str]| onpath(&[&["cluster", "init", &file], more].concat());
    let refused = |output: Output, why: &str| {
        assert!(!output.status.success() && said(&output).contains(why), "{}", said(&output));
    };
    refused(init(&["a"]), "NAME=ADDRESS[:PORT]");
    refused(init(&["a=1.2.3.4:x"]), "is no port");
    refused(init(&["a=1.2.3.4", "a=1.2.3.5"]), "twice");
    refused(init(&["a=1.2.3.4", "b=1.2.3.4"]), "another host's");
    refused(init(&["--tracking", "network", "a=1.2.3.4"]), "--switch");
    assert!(!Path::new(&file).exists(), "nothing was written");
    let made = init(&["a=1.2.3.4", "b=[::1]:99", "--shards", "3"]);
    assert!(made.status.success() && said(&made).contains("2 hosts with 3 shards"), "{}", said(&made));
    refused(init(&["a=1.2.3.4"]), "it was left alone");
    let before = std::fs::read_to_string(&file).expect("the configuration");
    refused(onpath(&["cluster", "add", &file, "a=1.2.3.5", "--switch"]), "twice");
    assert_eq!(std::fs::read_to_string(&file).expect("the configuration"), before);
    let added = onpath(&["cluster", "add", &file, "s=1.2.3.5", "--switch"]);
    assert!(added.status.success(), "{}", said(&added));
    let after = std::fs::read_to_string(&file).expect("the configuration");
    assert!(after.starts_with(&before) && after.contains("switch_port = 4797"));
    std::fs::write(&file, after.replace("shards = 3", "shards = 4")).expect("write");
    refused(onpath(&["serve", "--config", &file, "--host", "a"]), "c.toml:7: cluster.shards: no host has shard 3");
    refused(onpath(&["cluster", "status", "/nowhere.toml"]), "onpath cluster init");
}

/// A directory is used only as the part of the file system that it is.
#[test]
fn directories_of_other_clusters_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, state) = (dir.path().join("c.toml"), dir.path().join("state"));
    let words = ["cluster", "init", &file.display().to_string(), "a=127.0.0.1:14799"].map(str::to_owned);
    let more = ["--directory".to_owned(), state.display().to_string()];
    assert!(run(words.iter().chain(&more).map(AsRef::as_ref)).status.success());
    let serve = || onpath(&["serve", "--config", &file.display().to_string()]);
    assert!(onpath(&["format", &state.display().to_string()]).status.success());
    let output = serve();
    assert!(said(&output).contains("the file system is"), "{}", said(&output));
    std::fs::remove_dir_all(&state).expect("the directory goes");
    // Made as a part, by a start that finds its port taken only afterwards.
    let format = |config: &str| std::fs::write(&file, config).expect("write");
    let config = std::fs::read_to_string(&file).expect("the configuration");
    format(&config.replace("port = 14799", "port = 1").replace("127.0.0.1", "192.0.2.1"));
    let output = serve();
    assert_eq!(output.status.code(), Some(32), "{}", said(&output));
    assert!(said(&output).contains("the address must be one of this host"), "{}", said(&output));
    assert!(!state.exists(), "nothing of the directory changed");
}
