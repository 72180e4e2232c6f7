//! A repair is one step, keeps everything else, and leaves a file system that works. What each kind of damage becomes is tested where
//! it is planted: `craft::Copy::expect_faults` repairs all of it.

use crate::common::disk::Disk;
use crate::common::running::{On, Running, StandsStill};
use crate::common::server::{Site, binary, run};
use crate::common::skipped;
use crate::common::tree::{Times, list};
use crate::fsck::craft::{Copy, Original, name};
use crate::fsck::{names, stopped};
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::record::Effect;
use onpath_wire::inode::Kind;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Moments at which a repair is killed.
const KILLS: u32 = 12;
/// Moments at which power is lost.
const LOSSES: u32 = 5;
const DISK_BYTES: u64 = 96 << 20;

/// A listing, counts, a name without an inode, an inode without a name, a directory without a name.
fn damage(of: &Original, copy: &Copy) {
    names::lose_entry(of, copy);
    let (gone, counted, dir) = (of.inode("d/empty"), of.inode("e/link"), of.inode("e/sub"));
    copy.record(of.home(gone.id), [Effect::DropInode { id: gone.id }]);
    let lost = Inode { id: of.new_id(of.home(counted.id)), ..counted.clone() };
    copy.record(of.home(counted.id), [Effect::PutInode { inode: lost }]);
    let hard = of.inode("e/hard1");
    copy.record(of.home(hard.id), [Effect::PutInode { inode: Inode { nlink: 9, ..hard } }]);
    let (e, sub) = (of.id("e"), name("sub"));
    let site = of.site(e, &sub);
    let log = copy.log(of, e, site, -1, -1);
    copy.record(site, [Effect::DropName { parent: e, name: sub, child: dir.id, kind: Kind::Directory, log }]);
}

/// A disk with a copy of the site's DIR.
fn on_disk(site: &Site, test: &str) -> Option<(Disk, Original)> {
    let disk = Disk::new(site.root(), DISK_BYTES).map_err(|reason| skipped(test, &reason)).ok()?;
    let state = disk.path().join("state");
    let mut command = Command::new("cp");
    let status = command.args(["-a", "--sparse=always"]).arg(site.state()).arg(&state).status();
    assert!(status.expect("cp runs").success(), "cp of DIR");
    let of = Original::of(&state);
    Some((disk, of))
}

fn codes(found: &Value) -> BTreeSet<String> {
    let faults = found["faults"].as_array().expect("a list");
    faults.iter().map(|fault| fault["code"].as_str().expect("a code").to_owned()).collect()
}

fn damaged() -> BTreeSet<String> {
    ["F21", "F26", "F27", "F29"].map(str::to_owned).into()
}

#[test]
fn what_is_repaired_works_and_the_rest_is_as_it_was() {
    let Some((site, of)) = stopped("a repair, then a mount") else { return };
    let (plain, copy) = (of.copy(), of.copy());
    let mount = site.dev_on(plain.path(), &[]);
    let before = list(mount.path(), Times::Mtime);
    mount.stop();
    damage(&of, &copy);
    assert_eq!(codes(&copy.fsck_that(&[]).1), damaged());
    let output = run(["fsck".as_ref(), "--repair".as_ref(), copy.path().as_os_str()]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("repaired F21 lost-entry: ") && said.trim_end().ends_with("clean"), "{said}");
    let mount = site.dev_on(copy.path(), &[]);
    let after = list(mount.path(), Times::Mtime);
    for (path, was) in &before {
        let moved = path.starts_with("e/sub")
            || path.as_os_str() == "e"
            || path.as_os_str() == "d"
            || path.as_os_str().is_empty();
        match after.get(path) {
            _ if moved => {}
            None => assert_eq!(path.to_str(), Some("d/empty")),
            Some(is) => assert_eq!(is, was, "{path:?}"),
        }
    }
    let found = mount.path().join("lost+found");
    let sub = found.join(format!("#{:x}", of.id("e/sub").0));
    assert_eq!(fs::read(sub.join("big")).expect("what was in the directory"), vec![7; 2 << 20]);
    assert_eq!(fs::read_dir(&found).expect("lost+found").count(), 2);
    fs::rename(&sub, mount.path().join("e/sub")).expect("back to its place");
    fs::remove_dir_all(&found).expect("rm -r of lost+found");
    fs::write(mount.path().join("d/empty"), "again").expect("a new file");
    mount.stop();
    copy.expect_clean(&["--data"]);
}

/// The mount that has DIR stands still in the middle, so that it takes long.
#[test]
fn a_repair_shows_where_it_is() {
    let Some((site, of)) = stopped("a repair that shows where it is") else { return };
    let copy = of.copy();
    damage(&of, &copy);
    let outer = site.dev_on(&site.root().join("outer"), &[]);
    let state = outer.path().join("state");
    let status = Command::new("cp").args(["-a", "--sparse=always"]).arg(copy.path()).arg(&state).status();
    assert!(status.expect("cp runs").success(), "cp of DIR");
    let still = StandsStill::new(outer.pid());
    let repair = Running::start(On::Terminal, &["fsck", "--repair", state.to_str().expect("text")]);
    repair.wait_for("checking and repairing ");
    drop(still);
    let ended = repair.ends();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.error);
    let took = ended.error.lines().find(|line| line.contains("checking and repairing took ")).expect("a summary");
    for stage in ["comparing ", " changes)", "writing the checkpoint "] {
        assert!(took.contains(stage), "{took}");
    }
    outer.stop();
}

#[test]
fn a_killed_repair_has_happened_or_not() {
    let Some((_site, of)) = stopped("a killed repair") else { return };
    let repair = |copy: &Copy| {
        let mut command = Command::new(binary());
        command.args(["fsck", "--repair", "--quiet"]).arg(copy.path()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("fsck runs")
    };
    let whole = of.copy();
    damage(&of, &whole);
    let begin = Instant::now();
    assert_eq!(repair(&whole).wait().expect("wait").code(), Some(1));
    let time = begin.elapsed();
    let (mut old, mut new) = (0, 0);
    for n in 0..=KILLS {
        let copy = of.copy();
        damage(&of, &copy);
        let mut child = repair(&copy);
        std::thread::sleep(time * n / KILLS + Duration::from_millis(1));
        child.kill().expect("kill -9");
        child.wait().expect("wait");
        let (_, found) = copy.fsck_that(&[]);
        if codes(&found).is_empty() {
            new += 1;
        } else {
            assert_eq!(codes(&found), damaged(), "{found:#}");
            old += 1;
            assert_eq!(copy.fsck_that(&["--repair"]).0, Some(1), "a repair after a killed one");
        }
        copy.expect_clean(&[]);
    }
    assert!(old > 0, "no repair was killed in time: {new}");
}

/// Wherever the room ends, what is damaged stays as it was; with enough of it the repair is done.
#[test]
fn a_repair_on_a_full_disk_changes_nothing() {
    let Some((site, _)) = stopped("a repair on a full disk") else { return };
    let Some((disk, of)) = on_disk(&site, "a repair on a full disk") else { return };
    let copy = of.copy();
    damage(&of, &copy);
    let (mut refused, mut left) = (0, 0);
    loop {
        let hog = disk.fill_up(left);
        let output = run(["fsck".as_ref(), "--repair".as_ref(), copy.path().as_os_str()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        fs::remove_file(hog).expect("unlink");
        if output.status.code() == Some(1) {
            break;
        }
        refused += 1;
        assert_eq!(output.status.code(), Some(8), "{left}: {said}");
        assert!(said.contains("No space left on device") && !said.contains("panicked"), "{left}: {said}");
        assert_eq!(codes(&copy.fsck_that(&[]).1), damaged(), "{left}: {said}");
        left += 64 << 10;
    }
    assert!(refused > 0, "there was room");
    copy.expect_clean(&[]);
}

/// So it is when what was not durable is lost, at any moment of a repair and right after it.
#[test]
fn a_repair_has_happened_or_not_after_a_power_loss() {
    let Some((site, _)) = stopped("a repair and power losses") else { return };
    let Some((disk, of)) = on_disk(&site, "a repair and power losses") else { return };
    let mut time = Duration::ZERO;
    let mut old = 0;
    for n in (0..=LOSSES).rev() {
        let copy = of.copy();
        damage(&of, &copy);
        let status = Command::new("sync").arg("-f").arg(copy.path()).status();
        assert!(status.expect("sync runs").success(), "sync");
        let begin = Instant::now();
        let mut command = Command::new(binary());
        command.args(["fsck", "--repair", "--quiet"]).arg(copy.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("fsck runs");
        if n == LOSSES {
            assert_eq!(child.wait().expect("wait").code(), Some(1));
            time = begin.elapsed();
        } else {
            std::thread::sleep(time * n / LOSSES + Duration::from_millis(1));
        }
        disk.lose_power();
        child.wait().expect("wait");
        disk.start_again();
        fs::write(copy.path().join("boot"), format!("boot {n}\n")).expect("write of the boot id");
        let (_, found) = copy.fsck_that(&[]);
        if !codes(&found).is_empty() {
            assert!(n < LOSSES && codes(&found) == damaged(), "{n}: {found:#}");
            old += 1;
            assert_eq!(copy.fsck_that(&["--repair"]).0, Some(1), "a repair after a power loss");
        }
        copy.expect_clean(&[]);
    }
    assert!(old > 0, "no repair was interrupted");
}

#[test]
fn nothing_is_repaired_unasked_or_while_it_is_served() {
    let Some((site, of)) = stopped("no repair") else { return };
    let copy = of.copy();
    damage(&of, &copy);
    assert_eq!(codes(&copy.fsck_that(&[]).1), damaged());
    assert_eq!(codes(&copy.fsck_that(&[]).1), damaged(), "fsck has repaired something");
    let output = run(["fsck".as_ref(), "--repair".as_ref(), site.state().as_os_str()]);
    assert_eq!(output.status.code(), Some(0), "a clean one needs no repair");
    let mount = site.dev_on(copy.path(), &[]);
    let output = run(["fsck".as_ref(), "--repair".as_ref(), copy.path().as_os_str()]);
    assert_eq!(output.status.code(), Some(8));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("stop it first"), "{said}");
    mount.stop();
    assert_eq!(copy.fsck_that(&["--repair"]).0, Some(1));
    copy.expect_clean(&[]);
}
