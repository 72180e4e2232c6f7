//! The key of a cluster: who draws it, and who does not come in without it.

use crate::common::cluster::{Cluster, Shape};
use crate::common::server::{Site, binary, run};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

fn init(file: &Path, more: &[&str]) -> Output {
    let file = file.display().to_string();
    let words = ["cluster", "init", file.as_str(), "a=127.0.0.1", "b=127.0.0.2"];
    run(words.iter().chain(more).map(AsRef::as_ref))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn lines(text: &str) -> Vec<(&str, &str)> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" = ")).collect()
}

/// A new cluster has a key that only root can read, and who needs what is said.
#[test]
fn init_draws_a_key() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, key) = (dir.path().join("c.toml"), dir.path().join("c.key"));
    let made = init(&file, &[]);
    let told = said(&made);
    assert!(made.status.success(), "{told}");
    for what in ["c.toml", "c.key", "c.client.key", "every host (a, b)", "every client", "--key-file"] {
        assert!(told.contains(what), "{what}: {told}");
    }
    let client = dir.path().join("c.client.key");
    for file in [&key, &client] {
        assert_eq!(fs::metadata(file).expect("the key").permissions().mode() & 0o777, 0o600);
    }
    let text = fs::read_to_string(&key).expect("the key");
    let of_client = fs::read_to_string(&client).expect("the client's key");
    let [("key", digits), ("placement", placement), ("inner", inner)] = lines(&text)[..] else { panic!("{text}") };
    for (secret, length) in [(digits, 64), (placement, 32), (inner, 32)] {
        assert!(secret.len() == length && secret.chars().all(|digit| digit.is_ascii_hexdigit()), "{text}");
    }
    // A client is told no other secret.
    assert_eq!(lines(&of_client), [("key", digits)]);
    assert!(placement != inner && !of_client.contains(placement) && !of_client.contains(inner), "{of_client}");
    let config = fs::read_to_string(&file).expect("the configuration");
    assert!(config.contains("key_file = \"c.key\"\n"), "it is beside the configuration, wherever that is: {config}");
    // Neither is written over, and no key stays for a configuration that was not written.
    let again = init(&file, &[]);
    assert!(!again.status.success() && said(&again).contains("left alone"), "{}", said(&again));
    assert_eq!(fs::read_to_string(&key).expect("the key"), text);
    for file in [&key, &client] {
        fs::remove_file(file).expect("the key goes");
    }
    assert!(!init(&file, &[]).status.success() && !key.exists() && !client.exists());
    // Further secrets have a place beside it; a file that others can read, or without a key, is none.
    let status = |text: &str, mode: u32| {
        fs::write(&key, text).expect("write");
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).expect("chmod");
        said(&run(["cluster", "status", &file.display().to_string()].iter().map(AsRef::as_ref)))
    };
    assert!(status(&format!("{text}other = secret\n"), 0o600).contains("hosts do not answer"));
    assert!(status(&text, 0o640).contains("chmod 600"));
    assert!(status("key = 12\n", 0o600).contains("c.key:1: a key has 64 hexadecimal digits"));
    assert!(status("other = secret\n", 0o600).contains("no line `key = …`"));
}

#[test]
fn init_draws_no_key_if_asked_not_to() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("c.toml");
    let made = init(&file, &["--no-key"]);
    assert!(made.status.success() && said(&made).contains("without a key"), "{}", said(&made));
    assert_eq!(fs::read_dir(dir.path()).expect("the directory").count(), 2, "clients need no file");
    // The secrets of the file system are drawn all the same.
    let text = fs::read_to_string(dir.path().join("c.key")).expect("the secrets");
    let [("key", "none"), ("placement", _), ("inner", _)] = lines(&text)[..] else { panic!("{text}") };
    assert!(fs::read_to_string(&file).expect("the configuration").contains("key_file = \"c.key\"\n"));
}

/// A client that does not have the key gets no answer.
#[test]
fn without_the_key_nobody_comes_in() {
    const TEST: &str = "cluster::without_the_key_nobody_comes_in";
    let Some(site) = Site::new(TEST) else { return };
    let key = site.root().join("cluster.key").display().to_string();
    let other = site.root().join("other.client.key");
    let shape = Shape { servers: 1, clients: 1, init: &["--key-file", &key], ..Shape::default() };
    let Some(cluster) = Cluster::start(TEST, &site, shape) else { return };
    assert!(init(&site.root().join("other.toml"), &[]).status.success());
    let mount = |args: &[&str]| {
        let mut command = cluster.net.command(1, binary());
        command.args(["mount", "--timeout", "1", &cluster.url()]).arg(site.mountpoint(0)).args(args);
        said(&command.output().expect("onpath runs"))
    };
    assert!(mount(&[]).contains("no host answers"));
    assert!(mount(&["--key-file", &other.display().to_string()]).contains("no host answers"));
    cluster.mount(&site, 0, &[]).stop();
    cluster.stop();
}

/// Two hosts and a mount go on while another key takes the place of theirs, and then the former one opens nothing.
#[test]
fn a_key_is_changed_under_work() {
    const TEST: &str = "cluster::a_key_is_changed_under_work";
    let Some(site) = Site::new(TEST) else { return };
    let (key, former) = (site.root().join("cluster.key"), site.root().join("former.key"));
    let named = key.display().to_string();
    let shape = Shape { servers: 2, clients: 1, init: &["--key-file", &named], ..Shape::default() };
    let Some(cluster) = Cluster::start(TEST, &site, shape) else { return };
    let mount = cluster.mount(&site, 0, &[]);
    fs::copy(&key, &former).expect("the key is copied");
    let keys_of_hosts = || -> Vec<Vec<String>> {
        let config = site.root().join("cluster.toml").display().to_string();
        let mut command = cluster.net.command(2, binary());
        let output = command.args(["cluster", "status", "--json", &config]).output().expect("onpath runs");
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let keys = |host: &serde_json::Value| {
            let keys = host["keys"].as_array().into_iter().flatten();
            keys.map(|key| key.as_str().expect("a name").to_owned()).collect()
        };
        status["hosts"].as_array().expect("hosts").iter().map(keys).collect()
    };
    let first = keys_of_hosts()[0].clone();
    assert_eq!(first.len(), 1);
    let mut made = 0;
    for (step, count) in [("step 1", 2), ("step 2", 2), ("step 3", 1)] {
        let before = keys_of_hosts();
        let output = run(["cluster", "key", "rotate", &named].iter().map(AsRef::as_ref));
        assert!(output.status.success() && said(&output).contains(step), "{}", said(&output));
        let end = Instant::now() + Duration::from_secs(20);
        // One host has read the file, another one has not: it makes no difference to who works.
        loop {
            let file = site.mountpoint(0).join(format!("{step} {made}"));
            fs::write(&file, file.display().to_string()).expect("the mount goes on");
            assert_eq!(fs::read_to_string(&file).expect("it is there"), file.display().to_string());
            made += 1;
            let now = keys_of_hosts();
            if now.iter().zip(&before).all(|(now, before)| now != before && now.len() == count) {
                break;
            }
            assert!(Instant::now() < end, "{step}: {now:?}");
        }
    }
    assert_eq!(fs::read_dir(site.mountpoint(0)).expect("a listing").count(), made);
    assert_ne!(keys_of_hosts()[0], first);
    let answered = |key: &Path| {
        let mut command = cluster.net.command(2, binary());
        command.args(["mount", "--timeout", "1", &cluster.url()]).arg(site.mountpoint(1)).arg("--key-file").arg(key);
        said(&command.output().expect("onpath runs"))
    };
    assert!(answered(&former).contains("no host answers"));
    mount.stop();
    // Who mounts now has the new one.
    cluster.mount(&site, 0, &[]).stop();
    cluster.stop();
}

/// Whoever can listen on the way could answer as a host and make a set-user-id program.
#[test]
fn a_mount_without_a_key_trusts_no_file() {
    const TEST: &str = "cluster::a_mount_without_a_key_trusts_no_file";
    let Some(site) = Site::new(TEST) else { return };
    let Some(cluster) = Cluster::start(TEST, &site, Shape { servers: 1, clients: 1, ..Shape::default() }) else {
        return;
    };
    let options = |args: &[&str]| {
        let mount = cluster.mount(&site, 0, args);
        let place = site.mountpoint(0).display().to_string();
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let line = mounts.lines().find(|line| line.split(' ').nth(4) == Some(&place)).expect("it is mounted");
        let options: Vec<String> = line.split(' ').nth(5).expect("options").split(',').map(str::to_owned).collect();
        mount.stop();
        ["nosuid", "nodev"].map(|option| options.iter().any(|has| has == option))
    };
    assert_eq!(options(&[]), [true, true]);
    assert_eq!(options(&["-o", "suid,dev"]), [false, false]);
    assert_eq!(options(&["-o", "dev"]), [true, false]);
    cluster.stop();
}
