//! A client whose cable is out for longer than its lease.

use crate::common::check::{content, done};
use crate::common::cluster::{Cluster, Shape};
use crate::common::server::{Site, is_mounted};
use crate::common::{PATIENCE, sys, wait_until};
use libc::{O_CREAT, O_RDWR};
use std::fs;
use std::sync::mpsc::channel;

/// It is declared dead, and comes back by itself when the cable is in again: nothing is written below the mountpoint, what was open goes on.
#[test]
fn a_client_without_network_comes_back() {
    const TEST: &str = "clients::a_client_without_network_comes_back";
    let Some(site) = Site::new(TEST) else { return };
    let Some(cluster) = Cluster::start(TEST, &site, Shape { clients: 2, ..Shape::default() }) else { return };
    let (here, there) = (cluster.mount(&site, 0, &["--cache", "none"]), cluster.mount(&site, 1, &["--cache", "none"]));
    let client = cluster.servers() + 1;
    let open = done("open", sys::open(there.path().join("f"), O_RDWR | O_CREAT, 0o644));
    done("write", sys::pwrite(&open, "before", 0));
    let sessions = || cluster.status().sum("shard", &["sessions"]);
    let before = sessions();
    cluster.net.link(client, false);
    wait_until("the client is dead", || sessions() < before);
    // Asked meanwhile, it waits.
    let (sender, made) = channel();
    let dir = there.path().join("a/b");
    std::thread::spawn(move || _ = sender.send(fs::create_dir_all(dir)));
    cluster.net.link(client, true);
    made.recv_timeout(PATIENCE).expect("the client is back").expect("mkdir");
    assert!(is_mounted(there.path()));
    done("write", sys::pwrite(&open, "after!", 0));
    assert_eq!(content(here.path().join("f")), b"after!");
    assert!(here.path().join("a/b").is_dir(), "it is not below the mountpoint");
    drop(open);
    there.stop();
    here.stop();
    cluster.stop();
}
