//! kill -9 under load: every acknowledged operation is there after the restart, the one under way wholly or not at all.
//!
//! Several writers work in the same directories, each on names of its own, so each knows exactly what must be there. The server is
//! killed, started again on the same DIR, everything is compared, and the writers go on from what was found. `ONPATH_CRASH_ROUNDS`
//! says how often; `ONPATH_SEED` gives another seed.

use crate::common::model::{Model, Op, View, differences, observe, parent};
use crate::common::random::Random;
use crate::common::server::{Mount, Site};
use crate::common::{number_from_env, report, seed, sys, wait_until};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Threads that change things.
const WRITERS: usize = 8;
/// Operations acknowledged before the kill, at least.
const ACKNOWLEDGED: usize = 1000;
/// Journal bytes between checkpoints: few, so that many a kill hits one.
const CHECKPOINT_BYTES: &str = "100000";
/// Directories that all writers use.
const SHARED: usize = 6;

struct Writer {
    model: Model,
    random: Random,
    /// The operation whose answer never came.
    in_flight: Option<Op>,
}

/// What the log line of a recovery says.
#[derive(Debug)]
struct Recovery {
    /// Objects that came from a checkpoint.
    checkpoint_objects: u64,
    /// 1 if the kill came in the midst of a checkpoint.
    checkpoint_interrupted: u64,
    /// Records replayed, and those of them that …
    records: u64,
    /// … were a collect's,
    collects: u64,
    /// … a rename's.
    renames: u64,
}

fn shared() -> Vec<String> {
    (0..SHARED).map(|n| format!("d{n}")).collect()
}

fn rounds() -> usize {
    number_from_env("ONPATH_CRASH_ROUNDS", 5)
}

/// Both commit modes alternate on one DIR, as do the numbers of the writers' operations.
#[test]
fn acknowledged_operations_survive_kill_9() {
    let Some(site) = Site::new("crash") else { return };
    sys::umask(0);
    let seed = seed("crash");
    let mut random = Random::new(seed);
    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|n| Writer { model: Model::new(n), random: Random::new(random.next()), in_flight: None })
        .collect();
    let mut mount = start(&site, 0);
    for dir in shared() {
        sys::mkdir(mount.path().join(dir), 0o755).expect("mkdir of a shared directory");
    }
    let mut acknowledged = 0;
    let mut recoveries = vec![];
    for round in 0..rounds() {
        let target = ACKNOWLEDGED + random.below(600);
        // Every second kill waits for the midst of a checkpoint.
        let images = (round % 2 == 1).then(|| site.state().join("journals/1/checkpoint"));
        acknowledged += load_and_kill(&mut mount, &mut writers, target, images.as_deref());
        mount = start(&site, round + 1);
        recoveries.push(recovery(&mount));
        compare(mount.path(), &mut writers, &format!("seed {seed}, round {round}"));
    }
    mount.stop();
    report(&format!("crash: {} rounds, {acknowledged} acknowledged operations", rounds()));
    for (what, percent, of) in [
        ("records replayed", 90, (|recovery| recovery.records > 0) as fn(&Recovery) -> bool),
        ("a checkpoint loaded", 20, |recovery| recovery.checkpoint_objects > 0),
        ("a checkpoint interrupted", 20, |recovery| recovery.checkpoint_interrupted > 0),
        ("a collect replayed", 20, |recovery| recovery.collects > 0),
        ("a rename replayed", 20, |recovery| recovery.renames > 0),
    ] {
        let hit = recoveries.iter().filter(|recovery| of(recovery)).count();
        report(&format!("crash: {hit} of {} recoveries with {what}", rounds()));
        assert!(hit * 100 >= rounds() * percent, "too few recoveries with {what}: {recoveries:#?}");
    }
    site.assert_clean("after the last round");
}

fn start(site: &Site, round: usize) -> Mount {
    let commit = if round.is_multiple_of(2) { "interval" } else { "sync" };
    site.dev(&[
        "--log-json",
        "--log",
        "info,onpath_host::server=debug",
        "--shards",
        "4",
        "--commit",
        commit,
        "--checkpoint-bytes",
        CHECKPOINT_BYTES,
    ])
}

fn recovery(mount: &Mount) -> Recovery {
    let said = mount.said();
    let line = said
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find(|line| line["fields"]["message"] == "recovered")
        .unwrap_or_else(|| panic!("no line about the recovery in\n{said}"));
    let field = |name: &str| line["fields"][name].as_u64().unwrap_or_else(|| panic!("no number of {name} in {line}"));
    Recovery {
        checkpoint_objects: field("checkpoint_objects"),
        checkpoint_interrupted: field("checkpoint_interrupted"),
        records: field("records"),
        collects: field("collects"),
        renames: field("renames"),
    }
}

/// Names in a directory of the local disk.
fn names(dir: &Path) -> BTreeSet<OsString> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect()
}

/// Lets the writers work until so many operations are acknowledged, and a file comes that is new in `images`; then kills the
/// server under them, and gives the number.
fn load_and_kill(mount: &mut Mount, writers: &mut [Writer], target: usize, images: Option<&Path>) -> usize {
    let acknowledged = AtomicUsize::new(0);
    let killed = AtomicBool::new(false);
    let top = mount.path().to_owned();
    std::thread::scope(|scope| {
        let threads: Vec<_> = writers
            .iter_mut()
            .map(|writer| {
                let (top, acknowledged, killed) = (&top, &acknowledged, &killed);
                scope.spawn(move || write(writer, top, acknowledged, killed))
            })
            .collect();
        let reader = scope.spawn(|| read(&top));
        wait_until("enough operations are acknowledged", || {
            acknowledged.load(Ordering::Relaxed) >= target || threads.iter().any(|thread| thread.is_finished())
        });
        if let Some(images) = images {
            let mut before = names(images);
            wait_until("a checkpoint begins", || {
                let now = names(images);
                let begins = now.iter().any(|name| !before.contains(name));
                before = now;
                begins || threads.iter().any(|thread| thread.is_finished())
            });
        }
        killed.store(true, Ordering::SeqCst);
        mount.kill();
        for thread in threads.into_iter().chain([reader]) {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    acknowledged.into_inner()
}

fn write(writer: &mut Writer, top: &Path, acknowledged: &AtomicUsize, killed: &AtomicBool) {
    let shared = shared();
    loop {
        let op = writer.model.choose(&shared, &mut writer.random);
        match op.perform(top) {
            Ok(()) => {
                writer.model.apply(&op);
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Err(errno) => {
                let name = crate::common::check::errno_name(errno);
                assert!(killed.load(Ordering::SeqCst), "{op:?} failed while the server lived: {name}");
                writer.in_flight = Some(op);
                return;
            }
        }
    }
}

/// Reads the shared directories, so that their updates are collected, until the server is gone.
fn read(top: &Path) {
    loop {
        for dir in shared() {
            if sys::stat(top.join(&dir)).is_err() || sys::names(top.join(&dir)).is_err() {
                return;
            }
        }
    }
}

/// Every writer's names must be as it remembers them, with or without its last operation; the directories must fit what is in them.
fn compare(top: &Path, writers: &mut [Writer], when: &str) {
    let seen = observe(top);
    for (number, writer) in writers.iter_mut().enumerate() {
        let mine = format!("/w{number}-");
        let seen: View = seen.clone().into_iter().filter(|(path, _)| path.contains(&mine)).collect();
        let op = writer.in_flight.take().unwrap_or_else(|| panic!("{when}: writer {number} was not interrupted"));
        let outcomes: Vec<Model> = op.possible().into_iter().map(|done| with(&writer.model, done)).collect();
        writer.model = outcomes.iter().find(|model| model.view() == seen).cloned().unwrap_or_else(|| {
            let [without, with] = [0, 1].map(|n| differences(&outcomes[n].view(), &seen).join("\n  "));
            panic!("{when}: writer {number}, interrupted in {op:.50?}:\nwithout it:\n  {without}\nwith it:\n  {with}")
        });
    }
    for dir in shared() {
        let subdirs = seen.iter().filter(|(path, line)| parent(path) == dir && line.starts_with("directory")).count();
        assert_eq!(seen[&dir], format!("directory 755 nlink {}", 2 + subdirs), "{when}: {dir}");
    }
    assert_eq!(
        seen.keys().filter(|path| !path.contains('/')).collect::<Vec<_>>(),
        shared().iter().collect::<Vec<_>>(),
        "{when}: the top"
    );
}

fn with(model: &Model, done: Option<Op>) -> Model {
    let mut model = model.clone();
    if let Some(op) = done {
        model.apply(&op);
    }
    model
}
