//! Three hosts and two clients: one file system.

use crate::common::cluster::{Cluster, Shape};
use crate::common::server::Site;
use crate::common::wait_until;
use std::fs;

/// Names, bytes and attributes that one client makes are there for the other, whichever hosts they fall to.
#[test]
fn two_clients_see_the_same() {
    see_the_same("cluster::two_clients_see_the_same", Shape::default());
}

/// The same with all messages sealed.
#[test]
fn two_clients_with_the_key_see_the_same() {
    let Some(place) = Site::new("cluster::two_clients_with_the_key_see_the_same") else { return };
    let key = place.root().join("key").display().to_string();
    let init = ["--key-file", key.as_str()];
    see_the_same("cluster::two_clients_with_the_key_see_the_same", Shape { init: &init, ..Shape::default() });
}

/// The same with the dirty set in a switch, on a host of its own.
#[test]
fn two_clients_see_the_same_through_a_switch() {
    let shape = Shape { init: &["--tracking", "network"], switches: 1, ..Shape::default() };
    see_the_same("cluster::two_clients_see_the_same_through_a_switch", shape);
}

/// The same with that switch in the kernel: no packet of it comes to a process there.
#[test]
fn two_clients_see_the_same_through_xdp() {
    let shape = Shape { init: &["--tracking", "network"], switches: 1, xdp: true, ..Shape::default() };
    see_the_same("cluster::two_clients_see_the_same_through_xdp", shape);
}

/// The same with two of them, each in the kernel of its host.
#[test]
fn two_clients_see_the_same_through_two_switches_in_kernels() {
    let shape = Shape { init: &["--tracking", "network"], switches: 2, xdp: true, ..Shape::default() };
    see_the_same("cluster::two_clients_see_the_same_through_two_switches_in_kernels", shape);
}

fn see_the_same(test: &str, shape: Shape) {
    let Some(site) = Site::new(test) else { return };
    let Some(cluster) = Cluster::start(test, &site, shape) else { return };
    if shape.xdp {
        for switch in cluster.servers()..cluster.hosts() {
            let device = cluster.net.command(switch, "ip").args(["link", "show", "eth0"]).output();
            let device = String::from_utf8_lossy(&device.expect("ip runs").stdout).into_owned();
            assert!(device.contains("xdp"), "{device}");
        }
    }
    if shape.switches > 0 {
        use_the_switch(&site, &cluster);
    }
    let [a, b] = [0, 1].map(|client| cluster.mount(&site, client, &[]));
    for dir in 0..8 {
        fs::create_dir(a.path().join(format!("d{dir}"))).expect("mkdir");
        for file in 0..50 {
            let bytes = vec![file as u8; 1 + file * 997];
            fs::write(a.path().join(format!("d{dir}/f{file}")), bytes).expect("write");
        }
    }
    for dir in 0..8 {
        let dir = format!("d{dir}");
        assert_eq!(fs::read_dir(b.path().join(&dir)).expect("a listing").count(), 50);
        for file in 0..50 {
            let bytes = fs::read(b.path().join(format!("{dir}/f{file}"))).expect("read");
            assert!(bytes.len() == 1 + file * 997 && bytes.iter().all(|&byte| byte == file as u8));
        }
        fs::rename(b.path().join(format!("{dir}/f7")), b.path().join(format!("{dir}-f7"))).expect("rename");
        assert!(!a.path().join(format!("{dir}/f7")).exists() && a.path().join(format!("{dir}-f7")).exists());
    }
    let large = vec![0x5a; 9 << 20];
    fs::write(a.path().join("large"), &large).expect("a large write");
    assert!(fs::read(b.path().join("large")).expect("a large read") == large);
    b.stop();
    a.stop();
    cluster.stop();
}

/// Updates and reads until shards have heard from the switch that their marks are there. A directory that is read after each update is soon
/// written through, without marks: so each time another one.
fn use_the_switch(site: &Site, cluster: &Cluster) {
    let mount = cluster.mount(site, 0, &["--cache", "none"]);
    let mut round = 0;
    wait_until("marks are acknowledged", || {
        round += 1;
        let dir = mount.path().join(format!("marked{round}"));
        fs::create_dir(&dir).expect("mkdir");
        for file in 1..=4 {
            fs::write(dir.join(file.to_string()), b"").expect("create");
            assert_eq!(fs::read_dir(&dir).expect("list").count(), file);
        }
        cluster.status().sum("shard", &["marks_acknowledged"]) > 20
    });
    mount.stop();
}
