//! Keys of clients, each with an owner.

use crate::common::cluster::{Cluster, Shape};
use crate::common::server::{Mount, Site, binary, run};
use crate::common::user::ALICE;
use crate::common::{PATIENCE, wait_until};
use onpath_client::blocking::Client;
use onpath_client::{Caller, Options};
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// `onpath cluster key WORDS… --key-file FILE`.
fn key(file: &Path, words: &[&str]) -> Output {
    let file = file.display().to_string();
    run(["cluster", "key"].iter().chain(words).chain(&["--key-file", &file]).map(AsRef::as_ref))
}

#[test]
fn keys_are_added_listed_and_revoked() {
    let dir = tempfile::tempdir().expect("a directory");
    let (config, file) = (dir.path().join("c.toml"), dir.path().join("c.key"));
    let init = |more: &[&str]| {
        let words = ["cluster", "init", &config.display().to_string(), "a=127.0.0.1"].map(str::to_owned);
        run(words.iter().map(String::as_str).chain(more.iter().copied()).map(AsRef::as_ref))
    };
    assert!(init(&[]).status.success());
    let before = fs::read_to_string(&file).expect("the secrets");
    let added = key(&file, &["add", "alice", "--uid", "1000", "--gid", "100,27"]);
    assert!(added.status.success() && said(&added).contains("uid 1000 with groups 100, 27"), "{}", said(&added));
    let of_client = dir.path().join("c.alice.key");
    assert_eq!(fs::metadata(&of_client).expect("the client's").permissions().mode() & 0o777, 0o600);
    let other = dir.path().join("roots").display().to_string();
    assert!(key(&file, &["add", "root", "--any-user", "--output", &other]).status.success());
    let [mine, hosts] = [&of_client, &file].map(|file| fs::read_to_string(file).expect("a key"));
    let digits = mine.lines().find_map(|line| line.strip_prefix("key = ")).expect("a key");
    assert!(hosts.contains(&format!("client.alice = {digits} uid=1000 gid=100,27\n")), "{hosts}");
    assert!(!mine.contains("inner") && !mine.contains("placement"), "{mine}");
    let listed = said(&key(&file, &["list"]));
    assert!(listed.contains("uid 1000 with groups 100, 27") && listed.contains("any user"), "{listed}");
    assert!(!listed.contains(digits), "the key itself is not shown");
    let json: serde_json::Value = serde_json::from_str(&said(&key(&file, &["list", "--json"]))).expect("JSON");
    assert_eq!((&json["clients"][0]["name"], &json["clients"][0]["uid"]), (&"alice".into(), &1_000.into()));
    assert_eq!(json["clients"][1]["gids"], serde_json::Value::Null);
    for (words, why) in [
        (&["add", "alice", "--any-user"][..], "has a key already"),
        (&["add", "a/b", "--any-user"], "letters, digits"),
        (&["add", "bob"], "--uid"),
        (&["add", "bob", "--uid", "5"], "--gid"),
        (&["add", "bob", "--uid", "5", "--gid", "5", "--any-user"], "cannot be used with"),
        (&["revoke", "bob"], "no client bob"),
    ] {
        let refused = key(&file, words);
        assert!(!refused.status.success() && said(&refused).contains(why), "{words:?}: {}", said(&refused));
    }
    for name in ["alice", "root"] {
        assert!(key(&file, &["revoke", name]).status.success());
    }
    assert_eq!(fs::read_to_string(&file).expect("the secrets"), before, "nothing else has changed");
    // Where nothing is sealed a key is of no use.
    [&config, &file].iter().for_each(|file| fs::remove_file(file).expect("it goes"));
    assert!(init(&["--no-key"]).status.success());
    assert!(said(&key(&file, &["add", "alice", "--any-user"])).contains("not sealed"));
}

/// A cluster, and the file of its hosts' secrets.
fn cluster(test: &str, site: &Site) -> Option<(Cluster, PathBuf)> {
    let file = site.root().join("cluster.key");
    let named = file.display().to_string();
    let shape = Shape { servers: 2, clients: 2, init: &["--key-file", &named], ..Shape::default() };
    Some((Cluster::start(test, site, shape)?, file))
}

fn connect(cluster: &Cluster, key: &Path, patience: Duration) -> Result<Client, onpath_client::Error> {
    let options = Options { key_file: Some(key.to_owned()), patience, ..Options::default() };
    cluster.net.run_on(3, || Client::connect(&cluster.url(), &options))
}

/// A mount with a key of its own.
fn mount_with(cluster: &Cluster, site: &Site, key: &Path) -> Mount {
    let mut command = cluster.net.command(3, binary());
    command.args(["mount", "--key-file"]).arg(key).arg(cluster.url()).arg(site.mountpoint(1));
    Mount::start(command, site.mountpoint(1), site.log("limited"))
}

#[test]
fn who_has_a_key_is_its_owner() {
    const TEST: &str = "cluster::owned::who_has_a_key_is_its_owner";
    let Some(site) = Site::new(TEST) else { return };
    let Some((cluster, file)) = cluster(TEST, &site) else { return };
    let mount = cluster.mount(&site, 0, &[]);
    let root = mount.path();
    fs::create_dir(root.join("closed")).expect("mkdir");
    fs::write(root.join("closed/file"), "secret").expect("write");
    fs::set_permissions(root.join("closed"), Permissions::from_mode(0o700)).expect("chmod");
    fs::create_dir(root.join("alice")).expect("mkdir");
    chown(root.join("alice"), Some(ALICE.uid), Some(ALICE.gid)).expect("chown");
    let (uid, gid) = (ALICE.uid.to_string(), ALICE.gid.to_string());
    assert!(key(&file, &["add", "alice", "--uid", &uid, "--gid", &gid]).status.success());
    assert!(key(&file, &["add", "any", "--any-user"]).status.success());
    // Hosts read their file within seconds.
    let (alice, any) = (file.with_extension("alice.key"), file.with_extension("any.key"));
    let clients = [&alice, &any].map(|key| connect(&cluster, key, PATIENCE).expect("it is let in"));
    let told = |client: &Client, caller: &Caller| {
        client.stat(caller, "/closed/file").map(|is| is.size).map_err(|error| error.raw_os_error())
    };
    let somebody = Caller { uid: ALICE.uid, gid: ALICE.gid, ..Caller::default() };
    assert_eq!(told(&clients[0], &Caller::root()), Err(Some(libc::EACCES)));
    assert_eq!(told(&clients[1], &Caller::root()), Ok(6));
    assert_eq!(told(&clients[1], &somebody), Err(Some(libc::EACCES)));
    clients.into_iter().for_each(Client::close);
    // A mount with it is Alice's, whoever works there: this process is root's.
    let limited = mount_with(&cluster, &site, &alice);
    assert!(limited.said().contains(&format!("done as uid {uid} with groups {gid}")), "{}", limited.said());
    let denied = fs::metadata(limited.path().join("closed/file")).expect_err("it is root's");
    assert_eq!(denied.raw_os_error(), Some(libc::EACCES));
    fs::create_dir(limited.path().join("alice/new")).expect("mkdir");
    let made = fs::metadata(root.join("alice/new")).expect("it is there");
    assert_eq!((made.uid(), made.gid()), (ALICE.uid, ALICE.gid));
    let file = limited.path().join("alice/file");
    fs::write(&file, "hello").expect("write");
    let mut opened = fs::File::options().append(true).read(true).open(&file).expect("open");
    opened.write_all(b" there").expect("append");
    opened.sync_all().expect("fsync");
    drop(opened);
    assert_eq!(fs::read(&file).expect("read"), b"hello there");
    assert_eq!(fs::read(root.join("alice/file")).expect("root reads"), b"hello there");
    assert_eq!(fs::read_dir(limited.path().join("alice")).expect("a listing").count(), 2);
    assert_eq!(fs::create_dir(limited.path().join("new")).expect_err("root's").raw_os_error(), Some(libc::EACCES));
    limited.stop();
    mount.stop();
    cluster.stop();
}

#[test]
fn a_revoked_key_opens_nothing() {
    const TEST: &str = "cluster::owned::a_revoked_key_opens_nothing";
    let Some(site) = Site::new(TEST) else { return };
    let Some((cluster, file)) = cluster(TEST, &site) else { return };
    let mount = cluster.mount(&site, 0, &[]);
    assert!(key(&file, &["add", "alice", "--uid", "1000", "--gid", "1000"]).status.success());
    let alice = file.with_extension("alice.key");
    let client = connect(&cluster, &alice, PATIENCE).expect("it is let in");
    client.stat(&Caller::default(), "/").expect("the root");
    let sessions = || cluster.status().sum("shard", &["sessions"]);
    let before = sessions();
    assert!(key(&file, &["revoke", "alice"]).status.success());
    wait_until("the session ends", || sessions() < before);
    assert!(connect(&cluster, &alice, Duration::from_secs(1)).is_err(), "it does not come in again");
    // Others do not notice.
    fs::write(mount.path().join("file"), "1").expect("write");
    drop(client);
    mount.stop();
    cluster.stop();
}
