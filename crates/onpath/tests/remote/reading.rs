//! `ls`, `cat` and `stat` without a mount, beside coreutils on one.

use super::make_tree;
use super::shell::Shell;
use crate::common::cluster::{Cluster, Shape};
use crate::common::server::{Mount, Site};
use crate::common::user::{ALICE, BOB};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::Command;

/// What a program of coreutils prints in the mount.
fn coreutils(mount: &Mount, program: &str, args: &[&str]) -> Vec<u8> {
    let mut command = Command::new(program);
    command.args(args).current_dir(mount.path()).env("LC_ALL", "C").env("TZ", "UTC");
    let output = command.output().expect("coreutils run");
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
    output.stdout
}

fn set_time(mount: &Mount, name: &str, when: &str) {
    coreutils(mount, "touch", &["-h", "-d", when, name]);
}

#[test]
fn lists_are_those_of_ls() {
    let Some(site) = Site::new("remote/reading::lists_are_those_of_ls") else { return };
    let mount = site.dev(&["--shards", "2"]);
    make_tree(mount.path());
    fs::write(mount.path().join("a/.hidden"), vec![1; 70_000]).expect("a file");
    chown(mount.path().join("a/.hidden"), Some(ALICE.uid), Some(BOB.gid)).expect("chown");
    set_time(&mount, "a/.hidden", "2001-02-03 04:05:06.7");
    set_time(&mount, "a/to-file", "2031-02-03 04:05:06.7");
    coreutils(&mount, "mknod", &["a/b/device", "c", "1", "300"]);
    let shell = Shell::at(&site);
    for args in [
        &["-1", "."][..],
        &["-1", "a", "a/b"],
        &["-1a", "a"],
        &["-1d", "a", "dangling"],
        &["-1t", "a"],
        &["-1tr", "a"],
        &["-1S", "-a", "a/b/c", "a"],
        &["-R", "a", "slash"],
        &["-Ra", "a"],
        &["-l", "a"],
        &["-l", "."],
        &["-la", "a/b", "a/second"],
        &["-lhS", "a", "slash"],
        &["-lt", "a"],
        &["-n", "a"],
        &["-ld", "a", "slash", "slash/"],
        &["slash", "a/to-file", "dangling"],
    ] {
        let [ours, theirs] = [shell.ok("ls", args), coreutils(&mount, "ls", args)]
            .map(|text| String::from_utf8_lossy(&text).into_owned());
        assert_eq!(ours, theirs, "ls {args:?}");
    }
    mount.stop();
}

#[test]
fn json_has_a_line_for_each_name() {
    let Some(site) = Site::new("remote/reading::json_has_a_line_for_each_name") else { return };
    let mount = site.dev(&[]);
    make_tree(mount.path());
    let shell = Shell::at(&site);
    let lines = shell.text("ls", &["--json", "-R", "/a"]);
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let paths: Vec<&str> = rows.iter().map(|row| row["path"].as_str().expect("text")).collect();
    let wanted = ["/a/b", "/a/second", "/a/to-file", "/a/b/c", "/a/b/up", "/a/b/c/file", "/a/b/c/from-root"];
    assert_eq!(paths, wanted);
    let is = fs::symlink_metadata(mount.path().join("a/b/c/file")).expect("stat");
    assert_eq!((&rows[5]["ino"], &rows[5]["mode"]), (&is.ino().into(), &"104751".into()));
    assert_eq!((&rows[6]["target"], &rows[6]["name"]), (&"/a/b".into(), &"from-root".into()));
    // A name that is no text.
    let odd = shell.text("stat", &[OsStr::new("--json"), OsStr::from_bytes(b"\xff\xfe\n name")]);
    let odd: Value = serde_json::from_str(&odd).expect("one line");
    assert_eq!(odd["path_hex"], "fffe0a206e616d65");
    mount.stop();
}

#[test]
fn what_cannot_be_listed_is_told_and_the_rest_is_listed() {
    let Some(site) = Site::new("remote/reading::what_cannot_be_listed_is_told_and_the_rest_is_listed") else { return };
    let mount = site.dev(&[]);
    make_tree(mount.path());
    let shell = Shell::at(&site);
    let state = site.state().display().to_string();
    let said = shell.fails(2, "ls", &["missing", "a/b", "a/second/x"], &[]);
    assert_eq!(said.out, b"a/b:\nc\nup\n");
    for words in ["missing: No such file or directory", "a/second/x: Not a directory", "2 failures", &state] {
        assert!(said.errors.contains(words), "{words}: {said:?}");
    }
    let said = shell.fails(1, "cat", &["a/b/c/file", "a", "missing", "a/second", "fifo"], &["3 failures"]);
    assert_eq!(said.out, vec![7; 10_000], "what can be read is printed");
    for words in ["/a: Is a directory", "/missing: No such file", "/fifo: No such device"] {
        assert!(said.errors.contains(words), "{words}: {said:?}");
    }
    // A name is a word, whatever is in it.
    let said = shell.fails(1, "cat", &["no\nonpath: forged\x1b[2J"], &["1 failure"]);
    assert!(!said.errors.contains('\x1b') && !said.errors.contains("\nonpath: forged"), "{said:?}");
    assert_eq!(shell.fails(2, "ls", &["--no-such"], &["--no-such"]).out, b"");
    let nowhere = Command::new(crate::common::server::binary()).args(["ls", "--at", "/no/where", "/"]).output();
    assert_eq!(nowhere.expect("onpath runs").status.code(), Some(32));
    mount.stop();
}

#[test]
fn other_users_and_hosts() {
    const TEST: &str = "remote/reading::other_users_and_hosts";
    let Some(site) = Site::new(TEST) else { return };
    let Some(cluster) = Cluster::start(TEST, &site, Shape { servers: 2, clients: 2, ..Shape::default() }) else {
        return;
    };
    let mount = cluster.mount(&site, 0, &[]);
    make_tree(mount.path());
    for (name, mode) in [("a/b", 0o700), ("a/second", 0o600)] {
        fs::set_permissions(mount.path().join(name), Permissions::from_mode(mode)).expect("chmod");
    }
    let root = Shell::on(&cluster, &site, 3);
    assert_eq!(root.text("ls", &["/a/b"]), "c\nup\n");
    let alice = Shell::on(&cluster, &site, 3).of(ALICE);
    assert_eq!(alice.text("ls", &["/a"]), "b\nsecond\nto-file\n");
    let url = cluster.url();
    let said = alice.fails(2, "ls", &["/a/b/c"], &["a/b/c: Permission denied", "1 failure"]);
    assert!(said.errors.contains(url.trim_end_matches('/')), "{said:?}");
    // A directory below one that is listed.
    let said = alice.fails(1, "ls", &["-R", "/a"], &["/a/b: Permission denied"]);
    assert_eq!(said.out, b"/a:\nb\nsecond\nto-file\n");
    alice.fails(1, "cat", &["/a/second"], &["second: Permission denied"]);
    alice.fails(1, "mkdir", &["/new"], &["/new: Permission denied"]);
    // A URL names host and path together, and names are shown as they were given.
    let listed = root.plain(&["ls", "-d", &format!("{url}a/*")]).output().expect("onpath runs");
    assert_eq!(String::from_utf8_lossy(&listed.stdout), format!("{url}a/b\n{url}a/second\n{url}a/to-file\n"));
    mount.stop();
    cluster.stop();
}
