//! A host whose directory is lost: it is not taken for one that is empty.

use crate::common::cluster::{Cluster, Shape};
use crate::common::server::Site;
use crate::common::{PATIENCE, wait_until};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Files, which all hosts have some of.
const FILES: usize = 60;
/// The host that loses its directory; the first one has the coordinator.
const LOSER: usize = 1;

fn file(top: &Path, n: usize) -> PathBuf {
    top.join(format!("f{n}"))
}

/// Reads all files at once, each in a thread of its own.
fn read_all(top: &Path) -> std::sync::mpsc::Receiver<io::Result<String>> {
    let (sender, receiver) = channel();
    for n in 0..FILES {
        let (sender, path) = (sender.clone(), file(top, n));
        std::thread::spawn(move || _ = sender.send(fs::read_to_string(path)));
    }
    receiver
}

/// Without its directory a host does not serve and says why, and others say it too; who needs it waits until it is back. When somebody says
/// so it begins anew, and then it is the old directory that nobody takes.
#[test]
fn a_host_without_its_directory_serves_when_that_is_meant() {
    const TEST: &str = "lost::a_host_without_its_directory_serves_when_that_is_meant";
    let Some(site) = Site::new(TEST) else { return };
    let Some(mut cluster) = Cluster::start(TEST, &site, Shape { clients: 1, ..Shape::default() }) else { return };
    let mount = cluster.mount(&site, 0, &["--cache", "none"]);
    (0..FILES).for_each(|n| fs::write(file(mount.path(), n), "here").expect("write"));

    let (state, aside) = (cluster.state(LOSER), site.root().join("aside"));
    cluster.stop_host(LOSER);
    fs::rename(&state, &aside).expect("rename");
    let all = read_all(mount.path());
    let said = cluster.refused(LOSER);
    assert!(said.contains("knows another directory of n1") && said.contains("--replace-lost-directory"), "{said}");
    let warned = |host: usize| cluster.process(host).said().contains("another directory than the one that it had");
    wait_until("a host says that it refuses another one", || warned(0) || warned(2));
    let mut answered = 0;
    while let Ok(read) = all.recv_timeout(Duration::from_secs(2)) {
        assert_eq!(read.expect("no file is gone"), "here");
        answered += 1;
    }
    assert!((1..FILES).contains(&answered), "{answered} of {FILES} files are read without a host");

    fs::remove_dir_all(&state).expect("rm of the new directory");
    fs::rename(&aside, &state).expect("rename");
    cluster.serve(LOSER);
    for _ in answered..FILES {
        assert_eq!(all.recv_timeout(PATIENCE).expect("the host is back").expect("no file is gone"), "here");
    }
    mount.stop();

    cluster.stop_host(LOSER);
    fs::rename(&state, &aside).expect("rename");
    cluster.serve_with(LOSER, &["--replace-lost-directory"]);
    for start in ["the first", "the next"] {
        let mount = cluster.mount(&site, 0, &["--cache", "none"]);
        for n in 0..FILES {
            let path = mount.path().join(format!("{start} {n}"));
            fs::write(&path, "anew").unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(fs::read_to_string(&path).expect("read"), "anew");
        }
        mount.stop();
        cluster.stop_host(LOSER);
        cluster.serve(LOSER);
    }

    cluster.stop_host(LOSER);
    fs::remove_dir_all(&state).expect("rm of the new directory");
    fs::rename(&aside, &state).expect("rename");
    let said = cluster.refused(LOSER);
    assert!(said.contains("knows another directory of n1"), "{said}");
    cluster.stop();
}

/// The largest inode number, and the highest birth, of the files of a directory.
fn last_birth(top: &Path) -> u64 {
    let all = fs::read_dir(top).expect("opendir").filter_map(|entry| entry.expect("an entry").metadata().ok());
    all.map(|metadata| metadata.ino() >> 17 & 0xf_ffff).max().expect("there are files")
}

/// A copy of a host's directory from before is refused, which says what to do; and one that takes its place gives out no number that the
/// lost one may have given out.
#[test]
fn an_old_copy_is_refused_and_a_new_directory_begins_above() {
    const TEST: &str = "lost::an_old_copy_is_refused_and_a_new_directory_begins_above";
    let Some(site) = Site::new(TEST) else { return };
    let Some(mut cluster) = Cluster::start(TEST, &site, Shape { clients: 1, ..Shape::default() }) else { return };
    let mount = cluster.mount(&site, 0, &["--cache", "none"]);
    (0..FILES).for_each(|n| fs::write(file(mount.path(), n), "here").expect("write"));
    let (state, copy) = (cluster.state(LOSER), site.root().join("copy"));
    cluster.stop_host(LOSER);
    let copied = Command::new("cp").args(["-a", "--sparse=always"]).arg(&state).arg(&copy).status().expect("cp runs");
    assert!(copied.success());
    cluster.serve(LOSER);
    (FILES..2 * FILES).for_each(|n| fs::write(file(mount.path(), n), "later").expect("write"));
    let before = last_birth(mount.path());

    cluster.stop_host(LOSER);
    fs::remove_dir_all(&state).expect("rm of the directory");
    fs::rename(&copy, &state).expect("rename");
    let said = cluster.refused(LOSER);
    assert!(said.contains("has heard of a later state of the directory of n1"), "{said}");
    assert!(said.contains("is an old copy") && said.contains("--replace-lost-directory"), "{said}");
    let warned = |host: usize| cluster.process(host).said().contains("a host has an old copy of its directory");
    wait_until("a host says that it refuses an old copy", || warned(0) || warned(2));
    let said = cluster.refused(LOSER);
    assert!(said.contains("is an old copy of this host's directory, as another host has said"), "{said}");
    mount.stop();

    fs::remove_dir_all(&state).expect("rm of the copy");
    cluster.serve_with(LOSER, &["--replace-lost-directory"]);
    for start in 0..2 {
        let mount = cluster.mount(&site, 0, &["--cache", "none"]);
        let top = mount.path().join(format!("anew{start}"));
        fs::create_dir(&top).expect("mkdir");
        (0..FILES).for_each(|n| fs::write(file(&top, n), "anew").expect("write"));
        assert!(last_birth(&top) > before + 1_000, "{} after {before}", last_birth(&top));
        mount.stop();
        cluster.stop_host(LOSER);
        cluster.serve(LOSER);
    }
    cluster.stop();
}

/// Without another host nobody knows where a new directory is to begin, and nothing is served.
#[test]
fn a_new_directory_does_not_begin_without_the_others() {
    const TEST: &str = "lost::a_new_directory_does_not_begin_without_the_others";
    let Some(site) = Site::new(TEST) else { return };
    let Some(mut cluster) = Cluster::start(TEST, &site, Shape { clients: 1, ..Shape::default() }) else { return };
    (0..cluster.hosts()).for_each(|host| cluster.stop_host(host));
    fs::remove_dir_all(cluster.state(LOSER)).expect("rm of the directory");
    let said = cluster.refused_with(LOSER, &["--replace-lost-directory"]);
    assert!(said.contains("no other host tells how far the lost directory was"), "{said}");
    assert!(!cluster.state(LOSER).join("superblock").exists());
}

/// At their first start hosts wait for each other, and clients for them.
#[test]
fn clients_wait_until_all_hosts_were_there_once() {
    const TEST: &str = "lost::clients_wait_until_all_hosts_were_there_once";
    let Some(site) = Site::new(TEST) else { return };
    let Some(mut cluster) = Cluster::start(TEST, &site, Shape { clients: 1, ..Shape::default() }) else { return };
    for host in 0..cluster.hosts() {
        cluster.stop_host(host);
        fs::remove_dir_all(cluster.state(host)).expect("rm");
    }
    (0..2).for_each(|host| cluster.serve(host));
    wait_until("a host says that it waits", || cluster.process(0).said().contains("clients are served when"));
    std::thread::sleep(Duration::from_millis(500));
    assert!(!cluster.process(0).said().contains("all other hosts know the directory"));
    cluster.serve(2);
    let mount = cluster.mount(&site, 0, &[]);
    fs::write(file(mount.path(), 0), "here").expect("write");
    wait_until("all know each other", || {
        (0..3).all(|host| cluster.process(host).said().contains("all other hosts know the directory"))
    });
    mount.stop();
    cluster.stop();
}
