//! Writes that data nodes answer, across hosts: whoever reads is shown them, whether the table of a switch tells or the home asks.

use crate::common::cluster::{Cluster, Shape};
use crate::common::server::{Site, binary};
use crate::common::{Over, wait_until};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Output;

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

/// A listing with attributes asks each data node about all lent files of a home at once, and takes nothing back.
#[test]
fn a_listing_asks_about_all_lent_files_at_once() {
    const FILES: u64 = 120;
    let test = "cluster::a_listing_asks_about_all_lent_files_at_once";
    let Some(site) = Site::new(test) else { return };
    let shape = Shape { servers: 2, init: &["--writes", "visible"], clients: 1, ..Shape::default() };
    let Some(cluster) = Cluster::start(test, &site, shape) else { return };
    let mount = cluster.mount(&site, 0, &[]);
    let paths: Vec<_> = (0..FILES).map(|n| mount.path().join(format!("f{n}"))).collect();
    let files: Vec<File> = paths.iter().map(|path| File::create(path).expect("a file")).collect();
    let of = |counter: &str| counted(&cluster, &[counter]);
    let mut size = 0;
    wait_until("a listing asks about files that are lent", || {
        files.iter().for_each(|file| file.write_all_at(b"hello", size).expect("a write"));
        size += 5;
        let [files_before, messages_before, recalled_before] =
            ["merge_parts_collected", "collects_of_many", "merge_parts_recalled"].map(of);
        for entry in fs::read_dir(mount.path()).expect("readdir") {
            assert_eq!(entry.expect("an entry").metadata().expect("stat").len(), size);
        }
        let (asked, messages) = (of("merge_parts_collected") - files_before, of("collects_of_many") - messages_before);
        // Two homes ask two data nodes, about the files of a page of some twenty names.
        asked >= FILES / 2 && messages <= asked / 3 && of("merge_parts_recalled") <= recalled_before + FILES / 10
    });
    drop(files);
    mount.stop();
    cluster.stop();
}

/// What hosts know of a file on a mount is asked of all of them: the home may be on one, the data node on another.
#[test]
fn all_hosts_tell_what_they_know_of_a_file() {
    let test = "cluster::all_hosts_tell_what_they_know_of_a_file";
    let Some(site) = Site::new(test) else { return };
    let key = site.root().join("the.key").display().to_string();
    let shape = Shape { init: &["--writes", "visible", "--key-file", &key], clients: 1, ..Shape::default() };
    let Some(mut cluster) = Cluster::start(test, &site, shape) else { return };
    let mount = cluster.mount(&site, 0, &[]);
    let paths: Vec<_> = (0..8).map(|n| mount.path().join(format!("f{n}"))).collect();
    let files: Vec<File> = paths.iter().map(|path| File::create(path).expect("a file")).collect();
    let inspect = |cluster: &Cluster, path: &Path, more: &[&str]| -> Output {
        let mut command = cluster.net.command(cluster.hosts(), binary());
        command.args(["inspect", "--json"]).args(more).arg(path).output().expect("onpath runs")
    };
    let over = Over::default();
    std::thread::scope(|scope| {
        let _over = over.at_end();
        scope.spawn(|| {
            while !over.is() {
                files.iter().for_each(|file| file.write_all_at(b"hello", 0).expect("a write"));
            }
        });
        let is_apart = |path: &Path| {
            let output = inspect(&cluster, path, &["--key-file", &key]);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let known: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let lent = host_with(&known, "merge_part", "shard");
            let held = host_with(&known, "merge_part_held", "data").filter(|_| {
                // Not applied by the home yet: which the data node alone knows.
                host_with(&known, "writes_not_learned", "data").is_some()
            });
            lent.zip(held).is_some_and(|((home, lent), (data, held))| home != data && lent == held)
        };
        wait_until("a file is lent from one host to another", || paths.iter().any(|path| is_apart(path)));
    });
    // Who does not tell it is named; without the key nobody does.
    cluster.kill(2);
    let output = inspect(&cluster, mount.path(), &["--key-file", &key]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("not told what they know: n2;"), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("shard"), "the others have told it");
    let output = inspect(&cluster, mount.path(), &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("--key-file"), "{said}");
    cluster.serve(2);
    drop(files);
    mount.stop();
    cluster.stop();
}

/// The host on which a role of this kind knows this number of a file, and the number.
fn host_with(known: &Value, number: &str, kind: &str) -> Option<(String, u64)> {
    let mut roles = known.as_object().expect("an object of roles").iter();
    roles.find_map(|(role, numbers)| {
        let (role, host) = role.split_once('@').expect("role@host");
        Some((host.to_owned(), numbers[number].as_u64().filter(|_| role.starts_with(kind))?))
    })
}
