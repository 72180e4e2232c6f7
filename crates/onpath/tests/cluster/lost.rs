//! A host whose directory is lost: it is not taken for one that is empty.

use crate::common::cluster::{Cluster, Shape};
use crate::common::server::Site;
use crate::common::{PATIENCE, wait_until};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
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
