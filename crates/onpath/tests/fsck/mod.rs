//! `onpath fsck`: clean file systems are clean, and every kind of planted damage is found and named, alone.
//!
//! Damage is planted on copies of a DIR that real use has left: bits are flipped, the checkpoint rewritten, and records appended
//! with the program's own encoders, as a faulty shard would have written them.

mod bytes;
pub(crate) mod craft;
mod disk;
mod names;
mod protocol;
mod repair;
mod served;

use crate::common::disk::Disk;
use crate::common::server::{Site, binary, run};
use crate::common::{process, skipped, sys, wait_until};
use craft::Original;
use onpath_wire::disk::Stored;
use onpath_wire::disk::block::DataRecord;
use onpath_wire::ids::{InodeId, NodeId};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

/// Three shards, so that names, directories and inodes live apart.
const ARGS: &[&str] = &["--shards", "3"];
/// Enough for all temporary files of a check here.
const TEMP_DISK_BYTES: u64 = 32 << 20;

/// A DIR that was used and stopped.
fn stopped(test: &str) -> Option<(Site, Original)> {
    let site = Site::new(test)?;
    let mount = site.dev(ARGS);
    fill(mount.path());
    mount.stop();
    // What the data node has not noted as heard of would excuse differences between it and the inodes.
    let copy = Original::of(&site.state()).copy();
    let merges = Original::of(copy.path()).unsettled;
    copy.append(NodeId::data(0), &DataRecord::Settled { merges }.to_stored());
    fs::rename(site.state(), site.root().join("as-stopped")).expect("rename");
    fs::rename(copy.path(), site.state()).expect("rename");
    let original = Original::of(&site.state());
    Some((site, original))
}

/// Files, links, directories and what renames and removals leave; then every directory is read, so that all is applied.
fn fill(top: &Path) {
    let at = |path: &str| top.join(path);
    for dir in ["d", "d/sub", "e", "loop", "loop/in", "gone"] {
        fs::create_dir(at(dir)).expect("mkdir");
    }
    for n in 0..20 {
        fs::write(at(&format!("d/f{n}")), vec![n as u8; 5000 + n]).expect("a file");
        fs::write(at(&format!("gone/g{n}")), "short").expect("a file");
    }
    fs::write(at("d/empty"), "").expect("an empty file");
    symlink("d/f0", at("e/link")).expect("a symlink");
    for n in 0..5 {
        fs::hard_link(at(&format!("d/f{n}")), at(&format!("e/hard{n}"))).expect("a link");
        fs::rename(at(&format!("d/f{}", n + 5)), at(&format!("e/moved{n}"))).expect("rename");
        fs::rename(at(&format!("d/f{}", n + 10)), at(&format!("d/f{}", n + 15))).expect("rename over a file");
    }
    fs::rename(at("d/sub"), at("e/sub")).expect("rename of a directory");
    fs::write(at("e/sub/big"), vec![7; 3 << 20]).expect("a large file");
    fs::File::options().write(true).open(at("e/sub/big")).and_then(|f| f.set_len(2 << 20)).expect("truncate");
    fs::remove_dir_all(at("gone")).expect("rm -r");
    rename_and_link(top);
    for dir in ["", "d", "e", "e/sub", "loop", "loop/in", "r"] {
        assert!(fs::read_dir(at(dir)).expect("readdir").count() <= 30);
    }
}

/// Directories that are renamed where they are and change places, and files whose first name goes while there are others.
fn rename_and_link(top: &Path) {
    let at = |path: &str| top.join(path);
    for dir in ["r", "r/one", "r/three", "r/four", "e/five"] {
        fs::create_dir(at(dir)).expect("mkdir");
    }
    fs::rename(at("r/one"), at("r/two")).expect("rename within a directory");
    for (one, other) in [("r/three", "r/four"), ("r/three", "e/five"), ("r/two", "d/empty")] {
        sys::renameat2(at(one), at(other), libc::RENAME_EXCHANGE).expect("exchange");
    }
    sys::renameat2(at("d/empty"), at("r/two"), libc::RENAME_EXCHANGE).expect("exchange back");
    for n in 0..6 {
        let (first, others) = (at(&format!("r/first{n}")), [at(&format!("d/l{n}")), at(&format!("e/l{n}"))]);
        fs::write(&first, "linked").expect("a file");
        others.iter().for_each(|other| fs::hard_link(&first, other).expect("a link"));
        fs::remove_file(&first).expect("unlink of the first name");
        match n {
            0 => fs::remove_file(&others[1]).expect("unlink"),
            1 => fs::rename(&others[0], at("r/moved")).expect("rename"),
            2 => fs::rename(&others[0], at("r/over")).expect("rename"),
            3 => fs::rename(&others[1], at("r/over")).expect("rename over a name of another one"),
            _ => {}
        }
    }
}

#[test]
fn inodes_tell_how_they_are_called_and_where() {
    let Some((_site, of)) = stopped("names in inodes") else { return };
    for (path, own) in [("d", "d"), ("e/sub", "sub"), ("r/two", "two"), ("r/four", "four"), ("e/five", "five")] {
        assert_eq!(of.inode(path).name, Some(craft::name(own)), "{path}");
    }
    let [d, e, r] = ["d", "e", "r"].map(|path| of.id(path));
    let all: [(&str, &[InodeId]); 5] =
        [("d/l0", &[d]), ("e/l1", &[e, r]), ("e/l2", &[e]), ("d/l3", &[d, r]), ("d/l4", &[d, e])];
    for (path, dirs) in all {
        let inode = of.inode(path);
        let further = of.surveys.iter().filter_map(|survey| survey.further.get(&inode.id)).flatten();
        assert!(further.clone().all(|(_, names)| *names == 1), "{path}");
        let told: BTreeSet<InodeId> = further.map(|(dir, _)| *dir).chain([inode.parent]).collect();
        assert_eq!(told, dirs.iter().copied().collect(), "{path}");
    }
}

#[test]
fn a_file_system_that_was_stopped_is_clean() {
    let Some((_site, original)) = stopped("fsck of a clean DIR") else { return };
    original.copy().expect_clean(&[]);
    original.copy().expect_clean(&["--data"]);
}

/// No recovery has run: the journal ends wherever it was, entries and transactions are on their way.
#[test]
fn a_killed_file_system_is_clean_before_its_recovery() {
    let Some(site) = Site::new("fsck after kill -9") else { return };
    for round in 0..3 {
        let mut mount = site.dev(ARGS);
        let top = mount.path().join(format!("round{round}"));
        fs::create_dir(&top).expect("mkdir");
        fill(&top);
        mount.kill();
        drop(mount);
        Original::of(&site.state()).copy().expect_clean(&["--data"]);
    }
    let mount = site.dev(ARGS);
    assert_eq!(fs::read(mount.path().join("round1/e/moved0")).expect("a file").len(), 5005);
    mount.stop();
    site.assert_clean("after the last stop");
}

#[test]
fn what_cannot_be_checked_is_said() {
    let Some(site) = Site::new("fsck that cannot check") else { return };
    site.dev(ARGS).stop();
    // Somebody uses it who does not serve it.
    let lock = fs::File::open(site.state().join("lock")).expect("the lock");
    lock.lock().expect("nobody else has it");
    let output = run(["fsck".as_ref(), site.state().as_os_str()]);
    assert_eq!(output.status.code(), Some(8));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("in use"), "{said}");
    drop(lock);
    let empty = site.root().join("empty");
    fs::create_dir(&empty).expect("mkdir");
    let output = run(["fsck".as_ref(), empty.as_os_str()]);
    assert_eq!(output.status.code(), Some(8));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no superblock"));
    assert_eq!(fs::read_dir(&empty).expect("list").count(), 0, "something was made");
}

/// Wrong use is 16, where other commands have 1.
#[test]
fn wrong_use_has_its_own_exit_code() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path().as_os_str();
    let wrong: [&[&OsStr]; 4] = [&[], &["--nonsense".as_ref(), dir], &[dir, dir], &["--json=5".as_ref(), dir]];
    for args in wrong {
        for log in [&[][..], &["--log".as_ref(), "warn".as_ref()]] {
            let output = run(log.iter().copied().chain(["fsck".as_ref()]).chain(args.iter().copied()));
            assert_eq!(output.status.code(), Some(16), "{args:?}: {output:?}");
            assert!(String::from_utf8_lossy(&output.stderr).contains("Usage: onpath fsck"), "{output:?}");
        }
    }
    let help = run(["fsck".as_ref(), "--help".as_ref()]);
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("16 wrong use, 32 cancelled"));
    assert_eq!(run(["format".as_ref(), "--nonsense".as_ref(), dir]).status.code(), Some(1), "other commands");
}

/// A check that waits for a server which is stopped, not ended.
#[test]
fn a_cancelled_check_says_so() {
    let Some(site) = Site::new("fsck cancelled") else { return };
    let mount = site.dev(ARGS);
    mount.signal(libc::SIGSTOP);
    for signal in ["INT", "TERM"] {
        let mut command = Command::new(binary());
        command.args(["fsck", "--quiet"]).arg(site.state()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = process::spawn(&mut command).expect("fsck runs");
        let tasks = format!("/proc/{}/task", child.id());
        let listens = |task: fs::DirEntry| fs::read(task.path().join("comm")).is_ok_and(|name| name == b"cancel\n");
        wait_until("fsck listens for signals", || fs::read_dir(&tasks).is_ok_and(|tasks| tasks.flatten().any(listens)));
        let sent = Command::new("kill").args(["-s", signal]).arg(child.id().to_string()).status();
        assert!(sent.is_ok_and(|status| status.success()));
        let output = child.wait_with_output().expect("fsck ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(32), "SIG{signal}: {said}");
        assert!(said.contains("cancelled; nothing was changed"), "{said}");
    }
    mount.signal(libc::SIGCONT);
    mount.stop();
    site.assert_clean("after a cancelled check");
}

/// What is compared goes to temporary files beyond some memory: where they cannot be written, the check says so and what to do.
#[test]
fn temporary_files_without_room() {
    let Some((site, original)) = stopped("fsck without room for temporary files") else { return };
    let copy = original.copy();
    names::lose_entry(&original, &copy);
    let disk = match Disk::new(site.root(), TEMP_DISK_BYTES) {
        Ok(disk) => disk,
        Err(reason) => return skipped("fsck without room for temporary files", &reason),
    };
    let fsck = |args: &[&str]| {
        let words = ["fsck", "--temp"].map(OsStr::new).into_iter().chain([disk.path().as_os_str()]);
        let output = run(words.chain(args.iter().map(OsStr::new)).chain([copy.path().as_os_str()]));
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let expect_no_room = |args: &[&str]| {
        let (code, said) = fsck(args);
        assert_eq!(code, Some(8), "{said}");
        assert!(said.contains("No space left on device") && said.contains("--temp"), "{said}");
        assert!(!said.contains("panicked"), "{said}");
    };
    let hog = disk.fill_up(0);
    assert_eq!(fsck(&[]).0, Some(4), "all in memory");
    expect_no_room(&["--memory", "16K"]);
    expect_no_room(&["--memory", "16K", "--repair"]);
    let mount = site.dev_on(copy.path(), &[]);
    expect_no_room(&["--memory", "16K"]);
    fs::remove_file(hog).expect("unlink");
    assert_eq!(fsck(&["--memory", "16K"]).0, Some(4), "what is served");
    mount.stop();
    assert_eq!(fsck(&["--memory", "16K"]).0, Some(4));
    let left: Vec<_> =
        fs::read_dir(disk.path()).expect("list").map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(left, ["lost+found"], "temporary files are unlinked at once");
    let (code, said) = fsck(&["--memory", "3"]);
    assert!(code == Some(16) && said.contains("at least"), "{said}");
}

/// Who does not read what is said hears of faults all the same.
#[test]
fn the_exit_code_needs_no_reader() {
    let Some((_site, original)) = stopped("fsck without a reader") else { return };
    let copy = original.copy();
    names::lose_entry(&original, &copy);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(binary());
    let status = command.arg("fsck").arg(copy.path()).stdout(writer).stderr(Stdio::null()).status();
    assert_eq!(status.expect("fsck runs").code(), Some(4));
}

/// Without --json: a line for each finding on standard output, the first fault on standard error.
#[test]
fn findings_are_readable() {
    let Some((site, original)) = stopped("fsck in words") else { return };
    let output = run(["fsck".as_ref(), site.state().as_os_str()]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.trim_end().ends_with("clean"), "{said}");
    let copy = original.copy();
    names::lose_entry(&original, &copy);
    let output = run(["fsck".as_ref(), copy.path().as_os_str()]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("F21 lost-entry: ") && said.contains("path /d/f0"), "{said}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("F21 lost-entry"), "{output:?}");
    let help = run(["fsck".as_ref(), "--help".as_ref()]);
    assert!(String::from_utf8_lossy(&help.stdout).contains("F21 lost-entry"), "{help:?}");
}
