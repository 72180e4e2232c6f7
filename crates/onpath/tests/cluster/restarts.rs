//! Hosts that start again, each as often as it likes.

use crate::common::cluster::{Cluster, Shape};
use crate::common::server::Site;
use std::fs;

/// Terms of hosts grow with their own starts, so a directory may be of a later term than the start of a host that keeps names of it.
#[test]
fn names_survive_starts_of_unequal_number() {
    let test = "cluster::names_survive_starts_of_unequal_number";
    let Some(site) = Site::new(test) else { return };
    let Some(mut cluster) = Cluster::start(test, &site, Shape { clients: 1, ..Shape::default() }) else { return };
    for host in [1, 1, 2] {
        cluster.stop_host(host);
        cluster.serve(host);
    }
    let mount = cluster.mount(&site, 0, &["--cache", "none"]);
    let path = |dir: usize, file: usize| mount.path().join(format!("d{dir}/f{file}"));
    for dir in 0..30 {
        fs::create_dir(mount.path().join(format!("d{dir}"))).expect("mkdir");
        (0..10).for_each(|file| fs::write(path(dir, file), format!("{dir} {file}")).expect("write"));
    }
    for host in 0..3 {
        cluster.stop_host(host); // with a checkpoint
    }
    (0..3).for_each(|host| cluster.serve(host));
    for dir in 0..30 {
        for file in 0..10 {
            assert_eq!(fs::read_to_string(path(dir, file)).expect("it is there"), format!("{dir} {file}"));
        }
    }
    mount.stop();
    cluster.stop();
}
