//! A full disk below the journal: said before it hurts, survived by the reserve, over when there is room again.
//! Needs to mount a small tmpfs; skipped (saying so) where that is not allowed.

use onpath_host::journal::{Commit, Journal, JournalEvents, Options};
use onpath_store::batch::BatchBuilder;
use onpath_wire::disk::superblock::JournalId;
use onpath_wire::ids::{Lsn, NodeId, RecordSeq, ShardId};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<SmallDisk> {
        let status = Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m", "none"]).arg(at).status();
        status.is_ok_and(|s| s.success()).then(|| SmallDisk(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[derive(Default)]
struct Watch {
    full: Mutex<bool>,
    changed: Condvar,
    failed: Mutex<Option<String>>,
}

impl JournalEvents for Watch {
    fn flush_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn durable(&self, _: Lsn) {}
    fn space(&self, full: bool) {
        *self.full.lock().unwrap() = full;
        self.changed.notify_all();
    }
    fn failed(&self, why: &str) {
        *self.failed.lock().unwrap() = Some(why.into());
    }
}

impl Watch {
    fn wait(&self, full: bool) {
        let now = self.full.lock().unwrap();
        let waited = self.changed.wait_timeout_while(now, Duration::from_secs(20), |now| *now != full).unwrap();
        assert!(!waited.1.timed_out(), "the journal never said full = {full}");
    }
}

fn append(journal: &Journal, n: u64) -> bool {
    let mut batch = BatchBuilder::default();
    batch.push(RecordSeq(n), &[n as u8; 1000]);
    journal.append(NodeId::shard(ShardId(0)), &mut batch).is_ok()
}

fn open(dir: &Path, from: u64) -> (Journal, Vec<u64>) {
    let journal = JournalId { fsid: 1, number: 1, created: 5 };
    let options = Options { segment_bytes: 1 << 16, commit: Commit::Interval(5), journal };
    let mut seen = vec![];
    let mut replay = |_: NodeId, seq: RecordSeq, _: &[u8]| {
        seen.push(seq.0);
        Ok(())
    };
    let (journal, _) = Journal::recover(dir, options, Lsn(from), &mut replay).unwrap();
    (journal, seen)
}

/// Waits until the journal has what it needs on a full disk; then somebody else may fill it.
fn wait_for_reserve(journal_dir: &Path) {
    let whole = |path: &Path| fs::metadata(path).is_ok_and(|m| m.len() == 1 << 16);
    while !["reserve-0", "reserve-1"].iter().all(|name| whole(&journal_dir.join(name))) {
        std::thread::yield_now();
    }
}

#[test]
fn the_journal_survives_a_full_disk() {
    let tmp = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(tmp.path()) else {
        // Past libtest, which would hide it.
        onpath_testing::skipped("full_disk", "no permission to mount a tmpfs");
        return;
    };
    let journal_dir = disk.0.join("journal");
    fs::create_dir(&journal_dir).unwrap();
    let (journal, _) = open(&journal_dir, 0);
    let watch = Arc::new(Watch::default());
    journal.start(watch.clone());
    let mut n = 0;
    let mut append_next = |journal: &Journal| {
        n += 1;
        assert!(append(journal, n));
        n
    };
    append_next(&journal);
    wait_for_reserve(&journal_dir);
    let mut hog = File::create(disk.0.join("hog")).unwrap();
    while hog.write_all(&[1; 4096]).is_ok() {}
    while !journal.is_full() {
        append_next(&journal);
    }
    watch.wait(true);
    // What frees space may still be recorded: the reserve takes it, at least one segment of it.
    (0..60).for_each(|_| _ = append_next(&journal));
    journal.flush_wait().unwrap();
    drop(hog);
    fs::remove_file(disk.0.join("hog")).unwrap();
    watch.wait(false);
    let last = (0..500).map(|_| append_next(&journal)).last().unwrap();
    // A kill, and everything is there.
    drop(journal);
    let (journal, seen) = open(&journal_dir, 0);
    assert_eq!(seen, (1..=last).collect::<Vec<_>>());
    assert!(watch.failed.lock().unwrap().is_none());
    // Full again, and this time a checkpoint makes room.
    let watch = Arc::new(Watch::default());
    journal.start(watch.clone());
    wait_for_reserve(&journal_dir);
    let mut hog = File::create(disk.0.join("hog")).unwrap();
    while hog.write_all(&[1; 4096]).is_ok() {}
    let mut n = last;
    while !journal.is_full() {
        n += 1;
        assert!(append(&journal, n));
    }
    watch.wait(true);
    let from = last - 200;
    journal.release(Lsn(from));
    watch.wait(false);
    // Without any room at all the journal stops rather than lie.
    while append(&journal, n + 1) {
        n += 1;
    }
    assert!(journal.failure().unwrap().contains("no segment"), "{:?}", journal.failure());
    drop(journal);
    // Recovery needs no room.
    let (journal, seen) = open(&journal_dir, from);
    assert_eq!(seen, (from..=n).collect::<Vec<_>>());
    drop((journal, hog));
}
