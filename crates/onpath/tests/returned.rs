//! Space of the checkpoint's store comes back: when most of its file is free it is copied, while the file system is in use. Whatever
//! happens meanwhile, nothing is lost.

use crate::common::disk::Disk;
use crate::common::random::Random;
use crate::common::server::{Mount, Site, Status, assert_clean, status_of};
use crate::common::{Over, skipped, sys, wait_until, xattr};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Attributes of a file, of so many bytes each: they are in the store.
const ATTRIBUTES: u64 = 3;
const BYTES: usize = 60_000;
/// Checkpoints come often.
const ARGS: [&str; 4] = ["--shards", "2", "--checkpoint-bytes", "3000000"];
const KILLS: u64 = 8;
const LOSSES: u64 = 4;

fn value(n: u64, attribute: u64) -> Vec<u8> {
    Random::new(n * ATTRIBUTES + attribute).bytes(BYTES)
}

fn name(n: u64) -> String {
    format!("f{n}")
}

/// A file whose attributes are about 180 kB of the store, durably.
fn make(top: &Path, n: u64) {
    let path = top.join(name(n));
    let file = fs::File::create(&path).expect("a file");
    for attribute in 0..ATTRIBUTES {
        xattr::setxattr(&path, format!("user.{attribute}"), value(n, attribute)).expect("setxattr");
    }
    file.sync_all().expect("fsync");
}

fn assert_there(top: &Path, n: u64) {
    for attribute in 0..ATTRIBUTES {
        let found = xattr::getxattr(top.join(name(n)), format!("user.{attribute}")).expect("getxattr");
        assert!(found == value(n, attribute), "attribute {attribute} of file {n}");
    }
}

/// Exactly these files are there, with their attributes.
fn assert_all(top: &Path, numbers: impl Iterator<Item = u64>) {
    let mut expected = vec![];
    for n in numbers {
        assert_there(top, n);
        expected.push(name(n));
    }
    expected.sort();
    let found = sys::names(top).expect("readdir");
    assert_eq!(found.iter().map(|name| name.to_str().expect("text")).collect::<Vec<_>>(), expected);
}

/// Fills the store, and leaves of `all` that were there and those that it makes every fifth of the new ones.
fn fill_and_remove(top: &Path, round: u64, all: &mut Vec<u64>) {
    let numbers = round * 1000..round * 1000 + 350;
    numbers.clone().for_each(|n| make(top, n));
    let (kept, new): (Vec<u64>, Vec<u64>) = numbers.partition(|n| n % 5 == 0);
    let gone = std::mem::replace(all, kept).into_iter().chain(new);
    gone.for_each(|n| fs::remove_file(top.join(name(n))).expect("unlink"));
    sys::fsync(fs::File::open(top).expect("open")).expect("fsync");
}

/// What the store takes on the disk, bytes.
fn allocated(state: &Path) -> u64 {
    let store = fs::metadata(state.join("journals/1/checkpoint/objects.redb")).expect("a store");
    store.blocks() * 512
}

fn counter(status: &Status, name: &str) -> u64 {
    status.sum("checkpoint", &[name])
}

fn copy(state: &Path) -> PathBuf {
    state.join("journals/1/checkpoint/copy.redb")
}

#[test]
fn while_it_is_in_use() {
    let Some(site) = Site::new("space of the store") else { return };
    let mount = site.dev(&ARGS);
    let top = mount.path().join("d");
    fs::create_dir(&top).expect("mkdir");
    (0..300).for_each(|n| make(&top, n));
    let mut full = 0;
    wait_until("most of it is in the store", || {
        full = allocated(&site.state());
        full > 40 << 20
    });
    let over = Over::default();
    let busy = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !over.is() {
                assert_there(&top, reads % 30 * 10);
                reads += 1;
            }
            reads
        });
        let end = over.at_end();
        let gone = (0..300).filter(|n| n % 10 != 0);
        gone.for_each(|n| fs::remove_file(top.join(name(n))).expect("unlink"));
        // Others write meanwhile, so that checkpoints are taken before, in and after the copy. A first one may come before all is removed.
        let live = || counter(&site.status(), "live_bytes");
        wait_until("space is returned", || {
            change(mount.path());
            counter(&site.status(), "compactions") > 0 && live() < 12 << 20
        });
        let (status, now, live) = (site.status(), allocated(&site.state()), live());
        assert!(now < 3 * live + (16 << 20) && now < full / 2, "{full} bytes became {now}, {live} are in use");
        assert_eq!(counter(&status, "compactions_left_out"), 0);
        drop(end);
        reader.join().expect("the reader")
    });
    assert!(busy > 0);
    assert_all(&top, (0..300).step_by(10));
    let mount = restart(&site, &site.state(), mount);
    assert_all(&mount.path().join("d"), (0..300).step_by(10));
    mount.stop();
    site.assert_clean("after the store was copied");
}

fn restart(site: &Site, state: &Path, mut mount: Mount) -> Mount {
    mount.kill();
    site.dev_on(state, &ARGS)
}

/// Changes something that stays as it is, so that checkpoints are taken, as far as there is room.
fn change(top: &Path) {
    for n in 0..100 {
        let _ =
            xattr::setxattr(top, "user.changed", value(n, 0)).and_then(|()| xattr::removexattr(top, "user.changed"));
    }
}

/// Changes something until a copy is made, then waits so long; whether it is still not whole.
fn in_a_copy(state: &Path, top: &Path, pause: Duration) -> bool {
    wait_until("a copy begins or is over", || {
        change(top);
        copy(state).exists() || counter(&served(state), "compactions") > 0
    });
    std::thread::sleep(pause);
    copy(state).exists()
}

fn served(state: &Path) -> Status {
    status_of(state).expect("it is served")
}

#[test]
fn a_kill_at_any_moment() {
    let Some(site) = Site::new("kill -9 while the store is copied") else { return };
    let mut mount = site.dev(&ARGS);
    let state = site.state();
    let mut all = vec![];
    let (mut interrupted, mut whole) = (0, 0);
    for round in 0..KILLS {
        if copy_is_over(&state) {
            fill_and_remove(mount.path(), round, &mut all);
        }
        let here = in_a_copy(&state, mount.path(), Duration::from_millis(round * 12));
        interrupted += u64::from(here);
        whole += u64::from(!here);
        let more = 1_000_000 + round;
        make(mount.path(), more);
        all.push(more);
        mount = restart(&site, &state, mount);
        assert_all(mount.path(), all.iter().copied());
    }
    crate::common::report(&format!("kill -9: {interrupted} copies interrupted, {whole} were whole"));
    assert!(interrupted > 0, "no copy was interrupted");
    wait_until("the last copy is over", || copy_is_over(&state));
    mount.stop();
    assert!(!copy(&state).exists(), "nothing is left of copies");
    site.assert_clean("after kills");
}

/// Whether most of the store's file is free.
fn is_wasteful(state: &Path) -> bool {
    allocated(state) >= 3 * counter(&served(state), "live_bytes") + (16 << 20)
}

fn copy_is_over(state: &Path) -> bool {
    !copy(state).exists() && !is_wasteful(state)
}

fn disk(site: &Site, test: &str, bytes: u64) -> Option<Disk> {
    Disk::new(site.root(), bytes).map_err(|reason| skipped(test, &reason)).ok()
}

#[test]
fn a_power_loss_at_any_moment() {
    const TEST: &str = "power losses while the store is copied";
    let Some(site) = Site::new(TEST) else { return };
    let Some(disk) = disk(&site, TEST, 600 << 20) else { return };
    let state = disk.path().join("state");
    let mut mount = site.dev_on(&state, &ARGS);
    let mut all = vec![];
    for round in 0..LOSSES {
        if copy_is_over(&state) {
            fill_and_remove(mount.path(), round, &mut all);
        }
        // The last one comes when the copy has just taken its place.
        if round + 1 < LOSSES {
            in_a_copy(&state, mount.path(), Duration::from_millis(round * 150));
        } else {
            wait_until("the copy is whole", || copy_is_over(&state));
        }
        disk.lose_power();
        mount.kill();
        drop(mount);
        disk.start_again();
        fs::write(state.join("boot"), format!("boot {round}\n")).expect("write of the boot id");
        assert_clean(&state, &format!("after power loss {round}"));
        mount = site.dev_on(&state, &ARGS);
        assert_all(mount.path(), all.iter().copied());
    }
    mount.stop();
    assert_clean(&state, "at the end");
}

/// Without room for a copy there is none, and nothing fails for it; with room again it is made.
#[test]
fn a_full_disk() {
    const TEST: &str = "a full disk and a store that is mostly free";
    let Some(site) = Site::new(TEST) else { return };
    let Some(disk) = disk(&site, TEST, 320 << 20) else { return };
    let state = disk.path().join("state");
    let mount = site.dev_on(&state, &ARGS);
    let top = mount.path().join("d");
    fs::create_dir(&top).expect("mkdir");
    (0..300).for_each(|n| make(&top, n));
    let filler = fs::File::create(mount.path().join("filler")).expect("a file");
    let bytes = vec![1; 1 << 20];
    while sys::write(&filler, &bytes).is_ok() {}
    (0..300).filter(|n| n % 10 != 0).for_each(|n| fs::remove_file(top.join(name(n))).expect("unlink"));
    // Room for small changes, and not for a copy.
    let length = filler.metadata().expect("stat").len();
    filler.set_len(length - (8 << 20)).expect("truncate");
    let begin = Instant::now();
    while !is_wasteful(&state) || begin.elapsed() < Duration::from_secs(2) {
        change(&top);
        assert!(begin.elapsed() < crate::common::PATIENCE, "the store is never mostly free");
    }
    assert_eq!(counter(&served(&state), "compactions"), 0, "there was no room");
    assert_all(&top, (0..300).step_by(10));
    drop(filler);
    fs::remove_file(mount.path().join("filler")).expect("unlink");
    wait_until("the store is copied when there is room", || {
        change(&top);
        counter(&served(&state), "compactions") > 0
    });
    assert_all(&top, (0..300).step_by(10));
    let mount = restart(&site, &state, mount);
    assert_all(&mount.path().join("d"), (0..300).step_by(10));
    mount.stop();
    assert_clean(&state, "after a full disk");
}
