//! `onpath reshape`: another number of shards, the same file system; killed at any moment, the old shape or the new one.

use crate::common::disk::Disk;
use crate::common::server::{Site, binary, run};
use crate::common::tree::{Listing, Times, list};
use crate::common::{skipped, wait_until, xattr};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Moments at which a reshape is killed.
const KILLS: u32 = 10;
/// Moments at which power is lost.
const LOSSES: u32 = 6;
const DISK_BYTES: u64 = 96 << 20;

/// What a tree has beside what `list` shows: inode numbers and extended attributes.
type More = BTreeMap<PathBuf, (u64, BTreeMap<String, Vec<u8>>)>;

fn fill(top: &Path) {
    for dir in ["a", "a/b", "a/b/c", "d", "gone"] {
        fs::create_dir(top.join(dir)).expect("mkdir");
    }
    for n in 0..60usize {
        let dir = ["a", "a/b", "a/b/c", "d", ""][n % 5];
        fs::write(top.join(dir).join(format!("file{n}")), vec![n as u8; n * 700]).expect("a file");
        fs::write(top.join("gone").join(format!("gone{n}")), "removed").expect("a file");
    }
    for n in 0..10 {
        fs::hard_link(top.join(format!("a/file{}", n * 5)), top.join(format!("d/hard{n}"))).expect("a link");
        symlink(format!("../a/file{n}"), top.join(format!("d/link{n}"))).expect("a symlink");
    }
    for n in 0..5 {
        fs::rename(top.join(format!("a/b/file{}", n * 5 + 1)), top.join(format!("a/b/c/moved{n}"))).expect("rename");
    }
    let sparse = fs::File::create(top.join("d/sparse")).expect("a file");
    sparse.write_all_at(b"far away", 5 << 20).expect("a write");
    let status = Command::new("mkfifo").arg(top.join("a/fifo")).status().expect("mkfifo runs");
    assert!(status.success());
    for path in ["a/file5", "a/b", "d"] {
        xattr::setxattr(top.join(path), "user.kept", path.as_bytes()).expect("setxattr");
        let acl =
            [&2u32.to_le_bytes()[..], &entry(1, 6), &entry_of(2, 4, 1234), &entry(4, 4), &entry(16, 7), &entry(32, 0)];
        xattr::setxattr(top.join(path), "system.posix_acl_access", acl.concat()).expect("an ACL");
    }
    fs::remove_dir_all(top.join("gone")).expect("rm -r");
}

fn entry(tag: u16, perm: u16) -> Vec<u8> {
    entry_of(tag, perm, u32::MAX)
}

fn entry_of(tag: u16, perm: u16, id: u32) -> Vec<u8> {
    [&tag.to_le_bytes()[..], &perm.to_le_bytes(), &id.to_le_bytes()].concat()
}

fn all(top: &Path) -> (Listing, More) {
    let listing = list(top, Times::Mtime);
    let more = |path: &PathBuf| {
        let full = top.join(path);
        let names = xattr::listxattr(&full).unwrap_or_default();
        let value = |name: String| {
            let value = xattr::getxattr(&full, &name).expect("getxattr");
            (name, value)
        };
        let about = fs::symlink_metadata(&full).expect("stat");
        (path.clone(), (about.ino(), names.into_iter().map(value).collect()))
    };
    let more = listing.keys().map(more).collect();
    (listing, more)
}

/// Serves the DIR and compares everything; it is clean afterwards.
fn assert_holds(site: &Site, state: &Path, before: &(Listing, More)) {
    let mount = site.dev_on(state, &[]);
    let now = all(mount.path());
    assert!(now == *before, "{now:#?}\nnot {before:#?}");
    mount.stop();
    crate::common::server::assert_clean(state, "at the end");
}

fn reshape(state: &Path, shards: u16) {
    let shards = shards.to_string();
    let output = run(["reshape".as_ref(), state.as_os_str(), OsStr::new("--shards"), shards.as_ref()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

/// Number of shards as the file system says it.
fn shards(state: &Path) -> u16 {
    onpath_host::dir::read_superblock(state).expect("a superblock").shards()
}

#[test]
fn every_shape_holds_the_same() {
    let Some(site) = Site::new("reshape") else { return };
    let mount = site.dev(&["--shards", "1"]);
    fill(mount.path());
    let before = all(mount.path());
    mount.stop();
    for to in [4, 2, 3, 7, 1] {
        reshape(&site.state(), to);
        assert_eq!(shards(&site.state()), to);
        site.assert_clean("after a reshape");
        let output = run(["fsck".as_ref(), "--data".as_ref(), site.state().as_os_str()]);
        assert!(output.status.success());
        let mount = site.dev(&["--shards", &to.to_string()]);
        let now = all(mount.path());
        assert!(now == before, "{to} shards: {now:#?}\nnot {before:#?}");
        // It goes on in the new shape.
        let new = mount.path().join("new");
        fs::create_dir(&new).expect("mkdir");
        (0..40).for_each(|n| fs::write(new.join(n.to_string()), n.to_string()).expect("a file"));
        fs::rename(new.join("0"), mount.path().join("d/0")).expect("rename");
        fs::remove_file(mount.path().join("d/0")).expect("unlink");
        fs::remove_dir_all(&new).expect("rm -r");
        let output = run(["fsck".as_ref(), site.state().as_os_str()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        for path in [mount.path(), &mount.path().join("d")] {
            restore_time(path, &before.0);
        }
        mount.stop();
        site.assert_clean("after use in the new shape");
    }
}

/// Sets the mtime of a directory to what it was.
fn restore_time(path: &Path, before: &Listing) {
    let relative = path.file_name().filter(|name| *name == "d").map_or(PathBuf::new(), PathBuf::from);
    let line = &before[&relative];
    let time = line.rsplit_once("mtime ").expect("a time").1;
    let status = Command::new("touch").args(["-m", "-d", &format!("@{time}")]).arg(path).status();
    assert!(status.expect("touch runs").success());
}

/// What was under way when the server was killed: files without a name, half done renames, change-logs.
#[test]
fn after_a_kill_under_load() {
    let Some(site) = Site::new("reshape after kill -9") else { return };
    let mut mount = site.dev(&["--shards", "3"]);
    let top = mount.path().to_owned();
    for dir in ["x", "y"] {
        fs::create_dir(top.join(dir)).expect("mkdir");
    }
    let open = fs::File::create(top.join("nameless")).expect("a file");
    open.write_all_at(&[1; 9000], 0).expect("a write");
    fs::remove_file(top.join("nameless")).expect("unlink of an open file");
    let writer = std::thread::spawn({
        let top = top.clone();
        move || {
            for n in 0.. {
                let done = fs::write(top.join(format!("x/{n}")), vec![3; 5000])
                    .and_then(|()| fs::rename(top.join(format!("x/{n}")), top.join(format!("y/{n}"))));
                if done.is_err() {
                    return n;
                }
            }
            0
        }
    });
    wait_until("some work", || fs::read_dir(top.join("y")).is_ok_and(|all| all.count() > 30));
    mount.kill();
    let done: u64 = writer.join().expect("the writer");
    drop((open, mount));
    reshape(&site.state(), 2);
    site.assert_clean("after a reshape");
    let mount = site.dev(&[]);
    let there = |n: u64| mount.path().join(format!("y/{n}"));
    for n in 0..done {
        assert_eq!(fs::read(there(n)).expect("a renamed file"), vec![3; 5000], "{n}");
    }
    mount.stop();
    site.assert_clean("at the end");
}

#[test]
fn a_killed_reshape_leaves_the_old_shape_or_the_new() {
    let Some(site) = Site::new("a killed reshape") else { return };
    let mount = site.dev(&["--shards", "2"]);
    fill(mount.path());
    let before = all(mount.path());
    mount.stop();
    let begin = Instant::now();
    reshape(&site.state(), 5);
    let time = begin.elapsed();
    let mut old = 0;
    for n in 0..=KILLS {
        let (from, to) = if shards(&site.state()) == 5 { (5, 2) } else { (2, 5) };
        let mut child = Command::new(binary());
        child.args(["reshape", "--quiet", "--shards", &to.to_string()]).arg(site.state());
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("onpath runs");
        std::thread::sleep(time * n / KILLS + Duration::from_millis(1));
        child.kill().expect("kill -9");
        child.wait().expect("wait");
        let now = shards(&site.state());
        assert!([from, to].contains(&now));
        old += u32::from(now == from);
        site.assert_clean("after a killed reshape");
    }
    assert!(old > 0, "none was killed in time");
    assert_holds(&site, &site.state(), &before);
    let left = fs::read_dir(site.state().join("journals/1/checkpoint")).expect("list");
    let names: Vec<_> = left.map(|entry| entry.expect("an entry").file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().starts_with("reshaped")), "{names:?}");
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").args(["-a", "--sparse=always"]).arg(from).arg(to).status();
    assert!(status.expect("cp runs").success(), "cp of DIR");
}

/// The two moments that a kill hits rarely: a store of the new shape is not whole, and it is, but has not taken its place yet.
#[test]
fn the_superblock_says_which_store_counts() {
    let Some(site) = Site::new("moments of a reshape") else { return };
    let mount = site.dev(&["--shards", "2"]);
    fill(mount.path());
    let before = all(mount.path());
    mount.stop();
    let (torn, late) = (site.root().join("torn"), site.root().join("late"));
    copy(&site.state(), &torn);
    copy(&site.state(), &late);
    reshape(&late, 4);
    let place = |state: &Path, name: &str| state.join("journals/1/checkpoint").join(name);
    fs::write(place(&torn, "reshaped-4.redb"), "not all of it").expect("a torn store");
    fs::rename(place(&late, "objects.redb"), place(&late, "reshaped-4.redb")).expect("rename");
    copy(&place(&site.state(), "objects.redb"), &place(&late, "objects.redb"));
    for (state, has) in [(torn, 2), (late, 4)] {
        assert_eq!(shards(&state), has);
        crate::common::server::assert_clean(&state, "before it is opened");
        assert!(place(&state, "reshaped-4.redb").exists(), "fsck has changed something");
        let mount = site.dev_on(&state, &[]);
        let now = all(mount.path());
        assert!(now == before, "{now:#?}\nnot {before:#?}");
        mount.stop();
        assert!(!place(&state, "reshaped-4.redb").exists());
        crate::common::server::assert_clean(&state, "at the end");
    }
}

fn disk(site: &Site, test: &str) -> Option<Disk> {
    Disk::new(site.root(), DISK_BYTES).map_err(|reason| skipped(test, &reason)).ok()
}

/// Wherever the room ends, the old shape stays as it was; with enough of it the reshape is done.
#[test]
fn a_full_disk_leaves_the_old_shape() {
    let Some(site) = Site::new("reshape of a full disk") else { return };
    let Some(disk) = disk(&site, "reshape of a full disk") else { return };
    let state = disk.path().join("state");
    let mount = site.dev_on(&state, &["--shards", "2"]);
    fill(mount.path());
    // More than the journal gives back when the file system comes to rest.
    let many = mount.path().join("many");
    fs::create_dir(&many).expect("mkdir");
    for n in 0..300 {
        let file = many.join(n.to_string());
        fs::File::create(&file).expect("a file");
        xattr::setxattr(&file, "user.large", vec![n as u8; 60_000]).expect("setxattr");
    }
    let before = all(mount.path());
    mount.stop();
    let (mut refused, mut left) = (0, 0);
    loop {
        let hog = disk.fill_up(left);
        let output = run(["reshape".as_ref(), state.as_os_str(), "--shards".as_ref(), "5".as_ref()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        crate::common::server::assert_clean(&state, &format!("with {left} bytes of room"));
        fs::remove_file(hog).expect("unlink");
        if output.status.success() {
            break;
        }
        refused += 1;
        assert!(said.contains("No space left on device") && !said.contains("panicked"), "{left}: {said}");
        assert_eq!(shards(&state), 2, "{left}: {said}");
        left += 4 << 20;
    }
    assert!(refused > 2, "{refused}");
    assert_eq!(shards(&state), 5);
    assert_holds(&site, &state, &before);
}

/// What the disk has not made durable is gone, at any moment of a reshape and right after it.
#[test]
fn a_power_loss_leaves_the_old_shape_or_the_new() {
    let Some(site) = Site::new("reshape and power losses") else { return };
    let Some(disk) = disk(&site, "reshape and power losses") else { return };
    let state = disk.path().join("state");
    let mount = site.dev_on(&state, &["--shards", "2"]);
    fill(mount.path());
    let before = all(mount.path());
    mount.stop();
    let begin = Instant::now();
    reshape(&state, 5);
    let time = begin.elapsed();
    let mut old = 0;
    for n in 0..=LOSSES {
        let (from, to) = if shards(&state) == 5 { (5, 2) } else { (2, 5) };
        if n == LOSSES {
            reshape(&state, to);
            disk.lose_power();
        } else {
            let mut child = Command::new(binary());
            child.args(["reshape", "--quiet", "--shards", &to.to_string()]).arg(&state);
            let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("onpath runs");
            std::thread::sleep(time * n / LOSSES + Duration::from_millis(1));
            disk.lose_power();
            child.wait().expect("wait");
        }
        disk.start_again();
        fs::write(state.join("boot"), format!("boot {n}\n")).expect("write of the boot id");
        let now = shards(&state);
        assert!(now == to || now == from && n < LOSSES, "{n}: {now}");
        old += u32::from(now == from);
        crate::common::server::assert_clean(&state, &format!("after power loss {n}"));
    }
    assert!(old > 0, "no reshape was interrupted");
    assert_holds(&site, &state, &before);
}

#[test]
fn what_cannot_be_reshaped_is_said() {
    let Some(site) = Site::new("a reshape that cannot be") else { return };
    let mount = site.dev(&["--shards", "2"]);
    let refused = |shards: &str, words: &str| {
        let output = run(["reshape".as_ref(), site.state().as_os_str(), OsStr::new("--shards"), shards.as_ref()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(words), "{said}");
    };
    refused("3", "in use");
    mount.stop();
    refused("0", "shards");
    refused("60000", "shards");
    reshape(&site.state(), 2);
    assert_eq!(shards(&site.state()), 2);
    site.assert_clean("after reshapes that were none");
}
