//! Inode numbers: below 2^53, one an inode, the same wherever they are shown, never given out again, and what becomes of it when none is
//! left.

use crate::common::check::done;
use crate::common::server::{Site, binary, tail};
use crate::common::sys::{self, handle_of, open_by_handle};
use crate::fsck::craft::Original;
use onpath_wire::disk::record::{Counter, Effect};
use onpath_wire::ids::{Birth, ShardId};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Output};

/// Of so many files some 190 shared a number, as a double has it, when numbers had 64 bits.
const FILES: usize = 5_000;

/// The numbers of all files of a directory, in the order of their names: as stat and as readdir has them, which agree.
fn numbers(dir: &Path) -> Vec<u64> {
    let mut all: Vec<_> = fs::read_dir(dir).expect("opendir").map(|entry| entry.expect("an entry")).collect();
    all.sort_by_key(|entry| entry.file_name());
    let number = |entry: &fs::DirEntry| {
        let stat = fs::symlink_metadata(entry.path()).expect("stat").ino();
        assert_eq!(entry.ino(), stat, "{:?}", entry.path());
        stat
    };
    all.iter().map(number).collect()
}

fn fill(dir: &Path, files: usize) {
    fs::create_dir(dir).expect("mkdir");
    (0..files).for_each(|n| fs::write(dir.join(format!("{n:05}")), "").expect("a file"));
}

#[test]
fn distinct_and_the_same_after_a_restart() {
    let Some(site) = Site::new("inode numbers after a restart") else { return };
    let mut mount = site.dev(&[]);
    fill(&mount.path().join("a"), FILES);
    let before = numbers(&mount.path().join("a"));
    for restart in ["stopped", "killed"] {
        if restart == "stopped" {
            mount.stop();
        } else {
            mount.kill();
        }
        mount = site.dev(&[]);
        assert_eq!(numbers(&mount.path().join("a")), before, "{restart}");
        fill(&mount.path().join(restart), 100);
    }
    let later = ["stopped", "killed"].map(|dir| numbers(&mount.path().join(dir))).concat();
    let dirs = ["a", "stopped", "killed"].map(|dir| fs::metadata(mount.path().join(dir)).expect("stat").ino());
    let all: Vec<u64> = before.into_iter().chain(later).chain(dirs).chain([1]).collect();
    let as_doubles: BTreeSet<u64> = all.iter().map(|number| (*number as f64).to_bits()).collect();
    assert_eq!((all.len(), as_doubles.len()), (FILES + 204, FILES + 204));
    assert!(all.iter().all(|number| *number < 1 << 53));
    assert!(dirs.iter().all(|number| number % 2 == 1), "directories: {dirs:?}");
    assert_eq!(all.iter().filter(|number| **number % 2 == 1).count(), 4);
    assert_eq!(fs::metadata(mount.path()).expect("stat").ino(), 1);
    mount.stop();
    site.assert_clean("after two restarts");
}

/// A start that makes nothing takes no number for itself.
#[test]
fn starts_that_make_nothing_cost_none() {
    let Some(site) = Site::new("starts that make nothing") else { return };
    site.dev(&[]).stop();
    let births = || Original::of(&site.state()).births;
    assert_eq!(births(), 0, "the root needs none");
    let mount = site.dev(&[]);
    fill(&mount.path().join("a"), 20);
    mount.stop();
    assert_eq!(births(), 1);
    for _ in 0..3 {
        let mut mount = site.dev(&[]);
        fs::remove_file(mount.path().join("a").join(numbers(&mount.path().join("a")).len().to_string())).unwrap_err();
        mount.kill();
    }
    assert_eq!(births(), 1);
    let mount = site.dev(&[]);
    fs::write(mount.path().join("b"), "").expect("a file");
    mount.stop();
    assert_eq!(births(), 2);
}

/// They agree wherever they are shown, and handles lead to the same files.
#[test]
fn of_32_bits() {
    let Some(site) = Site::new("inode numbers of 32 bits") else { return };
    let mount = site.dev(&["-o", "inode32"]);
    fill(&mount.path().join("a"), 200);
    let folded = numbers(&mount.path().join("a"));
    assert!(folded.iter().all(|number| (1..1 << 32).contains(number)), "{folded:?}");
    let handle = done("a handle", handle_of(mount.path().join("a/00007")));
    fs::write("/proc/sys/vm/drop_caches", "2").expect("root may");
    let top = done("open", sys::open(mount.path(), libc::O_RDONLY | libc::O_DIRECTORY, 0));
    let file = done("open by a handle", open_by_handle(&top, &handle, libc::O_RDONLY));
    assert_eq!(done("fstat", sys::fstat(&file)).ino, folded[7]);
    drop((file, top));
    let whole = site.mount(1, &[]);
    let wanted = numbers(&whole.path().join("a")).into_iter().map(|number| (number ^ number >> 32) & 0xffff_ffff);
    assert_eq!(folded, wanted.collect::<Vec<_>>());
    whole.stop();
    mount.stop();
}

fn status(state: &Path) -> Output {
    Command::new(binary()).arg("status").arg(state).output().expect("onpath runs")
}

/// What is there can be used and removed.
#[test]
fn none_is_left() {
    let Some(site) = Site::new("no inode number is left") else { return };
    let mount = site.dev(&["--shards", "2"]);
    fill(&mount.path().join("a"), 20);
    mount.stop();
    let reserved = |upto: u32| {
        let copy = Original::of(&site.state()).copy();
        copy.record(ShardId(1), [Effect::Reserved { counter: Counter::Births, upto: upto.into() }]);
        copy
    };

    let nearly = reserved(Birth::MAX.0 / 100 * 92);
    let mount = site.dev_on(nearly.path(), &[]);
    fs::write(mount.path().join("b"), "").expect("there are more");
    let said = status(nearly.path());
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.status.code() == Some(3) && text.contains("has used 92 % of its numbers for new inodes"), "{text}");
    mount.stop();

    let none = reserved(Birth::MAX.0);
    let mount = site.dev_on(none.path(), &[]);
    let refused = sys::open(mount.path().join("c"), libc::O_CREAT | libc::O_WRONLY, 0o644).map(drop);
    assert_eq!(refused, Err(libc::ENOSPC));
    assert_eq!(sys::mkdir(mount.path().join("d"), 0o755), Err(libc::ENOSPC));
    done("a write", sys::open(mount.path().join("a/00001"), libc::O_WRONLY, 0));
    fs::write(mount.path().join("a/00001"), "there is room for bytes").expect("a write");
    fs::rename(mount.path().join("a/00001"), mount.path().join("e")).expect("a rename");
    fs::remove_file(mount.path().join("a/00002")).expect("unlink");
    let said = status(none.path());
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(text.contains("no number left for new inodes") && text.contains("onpath export"), "{}", tail(&text));
    mount.stop();
    none.expect_clean(&[]);
}
