//! A file system that is served is checked as of one moment: clean however much goes on, and what is wrong is found.

use crate::common::server::{Site, run};
use crate::common::{Over, wait_until};
use crate::fsck::craft::Original;
use crate::fsck::{names, stopped};
use serde_json::Value;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Checks under load.
const CHECKS: usize = 12;
/// Threads that change things.
const WRITERS: usize = 3;

fn fsck(dir: &Path, args: &[&str]) -> (Option<i32>, Value) {
    let words = ["fsck", "--json"].into_iter().chain(args.iter().copied()).map(AsRef::as_ref);
    let output = run(words.chain([dir.as_os_str()]));
    let found = serde_json::from_slice(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), found.unwrap_or_else(|error| panic!("{error}: {said}")))
}

/// One round of everything that changes more than one object, in directories that all writers share.
fn change(top: &Path, writer: usize, round: u64) -> io::Result<()> {
    let (a, b) = (top.join(format!("a{}", round % 3)), top.join(format!("b{}", round % 2)));
    let name = |kind: &str| format!("{kind}-{writer}-{}", round % 40);
    let file = a.join(name("file"));
    let mut open = fs::File::create(&file)?;
    open.write_all(&vec![writer as u8; 3000 + (round as usize * 977) % 20_000])?;
    open.set_len(round * 331 % 9000)?;
    open.write_all_at(b"beyond", round * 523 % 90_000)?;
    let hard = b.join(name("hard"));
    let _ = fs::remove_file(&hard);
    fs::hard_link(&file, &hard)?;
    let sub = b.join(name("sub"));
    fs::create_dir(&sub)?;
    symlink("elsewhere", sub.join("link"))?;
    fs::rename(&sub, a.join(name("moved")))?;
    fs::rename(&file, b.join(name("over")))?;
    if !round.is_multiple_of(4) {
        fs::remove_dir_all(a.join(name("moved")))?;
    } else {
        fs::rename(a.join(name("moved")), sub.with_extension(round.to_string()))?;
    }
    if round.is_multiple_of(3) { fs::remove_file(b.join(name("over"))) } else { Ok(()) }
}

/// Checks again and again while others write, and checkpoints are taken as fast as they can be.
fn checked_under_load(test: &str, form: &str) {
    let Some(site) = Site::new(test) else { return };
    let mount = site.dev(&["--shards", "3", "--tracking", form, "--checkpoint-bytes", "65536"]);
    let top = mount.path();
    for dir in ["a0", "a1", "a2", "b0", "b1"] {
        fs::create_dir(top.join(dir)).expect("mkdir");
    }
    let (end, rounds) = (Over::default(), AtomicU64::new(0));
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (end, rounds) = (&end, &rounds);
            scope.spawn(move || {
                for round in (0..).take_while(|_| !end.is()) {
                    change(top, writer, round).expect("a change");
                    rounds.fetch_add(1, Ordering::AcqRel);
                }
            });
        }
        let guard = end.at_end();
        let mut checked = Vec::new();
        for _ in 0..CHECKS {
            let before = rounds.load(Ordering::Acquire);
            let little = [&[][..], &["--memory", "16K"]][checked.len() % 2];
            checked.push(fsck(&site.state(), little));
            wait_until("more is written", || rounds.load(Ordering::Acquire) >= before + 20);
        }
        drop(guard);
        for (exit, found) in checked {
            assert_eq!((exit, &found["faults"]), (Some(0), &Value::Array(vec![])), "{found:#}");
            assert_eq!(found["checked"]["served"], true);
            assert_eq!(found["checked"]["namespace"], true);
        }
    });
    mount.stop();
    site.assert_clean("after the load");
}

#[test]
fn nothing_is_wrong_under_load() {
    checked_under_load("fsck under load", "owner");
}

#[test]
fn nothing_is_wrong_under_load_in_the_network_form() {
    checked_under_load("fsck under load, network form", "network");
}

/// What is in the store and what only the journal has are both seen.
#[test]
fn what_is_wrong_is_found() {
    let Some((site, original)) = stopped("fsck of a damaged DIR that is served") else { return };
    let copy = original.copy();
    names::lose_entry(&original, &copy);
    let mount = site.dev_on(copy.path(), &[]);
    let (exit, found) = fsck(copy.path(), &[]);
    assert_eq!((exit, &found["faults"][0]["code"]), (Some(4), &Value::from("F21")), "{found:#}");
    let output = run(["fsck".as_ref(), "--data".as_ref(), copy.path().as_os_str()]);
    assert_eq!(output.status.code(), Some(8));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("is served"), "{said}");
    mount.stop();
    assert_eq!(Original::of(copy.path()).superblock.shards(), original.superblock.shards());
    assert_eq!(fsck(copy.path(), &[]).1["faults"][0]["code"], "F21", "stopping has repaired it");
}
