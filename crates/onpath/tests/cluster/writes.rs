//! Writes that data nodes answer, across hosts: whoever reads is shown them, whether the table of a switch tells or the home asks.

use crate::common::cluster::{Cluster, Shape};
use crate::common::server::Site;
use crate::common::wait_until;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

const IN_TABLES: &[&str] = &["--tracking", "network", "--writes", "visible"];

/// One mount writes a file bit by bit, and another one looks at it each time; the file has `size` bytes.
fn write_and_look(file: &mut File, of_other: &Path, size: &mut u64, times: u64) {
    for _ in 0..times {
        file.seek(SeekFrom::Start(*size)).expect("seek");
        file.write_all(&[7; 500]).expect("write");
        *size += 500;
        assert_eq!(of_other.metadata().expect("stat").len(), *size);
    }
    assert_eq!(fs::read(of_other).expect("read"), vec![7; *size as usize]);
}

fn counted(cluster: &Cluster, counters: &[&str]) -> u64 {
    cluster.status().sum("shard", counters)
}

/// The switch's table tells readers what is pending; without the switch homes ask, and when it is back it tells again.
#[test]
fn a_table_shows_writes_to_other_hosts() {
    shows_writes("cluster::a_table_shows_writes_to_other_hosts", false, false);
}

#[test]
fn a_table_in_the_kernel_shows_writes_to_other_hosts() {
    shows_writes("cluster::a_table_in_the_kernel_shows_writes_to_other_hosts", true, false);
}

/// With keys, if who serves the cluster says that sizes and times may be read on the way.
#[test]
fn a_table_shows_writes_where_clients_have_keys() {
    shows_writes("cluster::a_table_shows_writes_where_clients_have_keys", false, true);
}

fn shows_writes(test: &str, xdp: bool, clear_text: bool) {
    let Some(site) = Site::new(test) else { return };
    let key = site.root().join("the.key");
    let key_file = ["--key-file", key.to_str().expect("UTF-8")];
    let key_file = key_file.into_iter().filter(|_| clear_text);
    let init: Vec<&str> = IN_TABLES.iter().copied().chain(key_file).collect();
    let shape = Shape { switches: 1, xdp, init: &init, clear_text, ..Shape::default() };
    let Some(mut cluster) = Cluster::start(test, &site, shape) else { return };
    let switch = cluster.servers();
    let mounts = [0, 1].map(|client| cluster.mount(&site, client, &["--cache", "none"]));
    let open = |name: &str| {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(mounts[0].path().join(name));
        (file.expect("a file"), mounts[1].path().join(name), 0)
    };
    let shown = |cluster: &Cluster| counted(cluster, &["installs_shown"]);
    let (mut file, path, mut size) = open("first");
    wait_until("a table shows writes", || {
        write_and_look(&mut file, &path, &mut size, 10);
        shown(&cluster) > 0
    });
    drop(file);
    // Files that are open there are looked up in the table; names are looked up at homes, which ask.
    let (mut file, path, mut size) = open("opened");
    let reader = File::open(&path).expect("open");
    for _ in 0..40 {
        file.write_all(&[7; 500]).expect("write");
        size += 500;
        assert_eq!(reader.metadata().expect("fstat").len(), size);
    }
    let looks = counted(&cluster, &["looks_none", "looks_pending"]);
    assert!(
        looks > 0,
        "{:?}",
        ["merge_parts_recalled", "merge_parts_collected"].map(|name| counted(&cluster, &[name]))
    );
    cluster.kill(switch);
    write_and_look(&mut file, &path, &mut size, 40);
    cluster.serve(switch);
    let before = shown(&cluster);
    wait_until("the table shows writes again", || {
        write_and_look(&mut file, &path, &mut size, 10);
        shown(&cluster) > before
    });
    // Who has a part is shown nothing less when a data node or a home begins anew.
    for host in 0..cluster.servers() {
        write_and_look(&mut file, &path, &mut size, 10);
        cluster.kill(host);
        cluster.serve(host);
        write_and_look(&mut file, &path, &mut size, 10);
    }
    drop((file, reader));
    for mount in mounts {
        mount.stop();
    }
    cluster.stop();
}

/// Sizes and times would go through switches in clear text.
#[test]
fn files_are_in_no_table_where_clients_have_keys() {
    let test = "cluster::files_are_in_no_table_where_clients_have_keys";
    let Some(site) = Site::new(test) else { return };
    let key = site.root().join("the.key");
    let key_file = ["--key-file", key.to_str().expect("UTF-8")];
    let init: Vec<&str> = IN_TABLES.iter().copied().chain(key_file).collect();
    let Some(cluster) = Cluster::start(test, &site, Shape { switches: 1, init: &init, ..Shape::default() }) else {
        return;
    };
    let mounts = [0, 1].map(|client| cluster.mount(&site, client, &["--cache", "none"]));
    let (path, other) = (mounts[0].path().join("file"), mounts[1].path().join("file"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path).expect("a file");
    let mut size = 0;
    wait_until("the data node has answered", || {
        write_and_look(&mut file, &other, &mut size, 10);
        counted(&cluster, &["merge_parts_given"]) > 0
    });
    assert_eq!(counted(&cluster, &["installs_shown", "looks_none", "looks_pending"]), 0);
    drop(file);
    for mount in mounts {
        mount.stop();
    }
    cluster.stop();
}
