//! Random trees from four mounts at once: whatever each of them did, in the end all see the same, fsck finds nothing, and a new start
//! finds it again.
//!
//! In the same directories work two kinds of writers. The first use the same few names as everybody else, so that nobody knows what comes
//! out, only which errnos are possible. The others have names of their own and do every operation through another mount than the one
//! before, so that they know exactly what must be there. `ONPATH_STORM_OPERATIONS` says how many operations each writer does;
//! `ONPATH_SEED` gives another seed. With `ONPATH_TEST_DIR` all of it runs in a directory of a local file system.

use crate::common::chaos::{Chaos, SHARED, SOURCE_BYTES};
use crate::common::check::{done, errno_name};
use crate::common::model::{Model, differences, observe};
use crate::common::random::Random;
use crate::common::server::{Mount, Site};
use crate::common::{given_dir, number_from_env, seed, sys, view, wait_until};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

/// Mounts of the file system.
const MOUNTS: usize = 4;
/// Writers of names of their own.
const OWNERS: usize = 4;
/// Journal bytes between checkpoints: few, so that there are several.
const CHECKPOINT_BYTES: &str = "400000";

fn shared() -> Vec<String> {
    (0..SHARED).map(|n| format!("d{n}")).collect()
}

/// Does operations that must succeed, each through another mount; counts them.
fn own(tops: &[PathBuf], owner: usize, mut random: Random, operations: usize, count: &AtomicUsize) -> Model {
    let mut model = Model::new(owner);
    for n in 0..operations {
        let op = model.choose(&shared(), &mut random);
        let top = &tops[(owner + n) % tops.len()];
        let what = || format!("{op:?}").chars().take(150).collect::<String>();
        op.perform_from_any(top)
            .unwrap_or_else(|errno| panic!("{} on {}: {}", what(), top.display(), errno_name(errno)));
        model.apply(&op);
        count.fetch_add(1, Ordering::Relaxed);
    }
    model
}

fn joined<T>(threads: Vec<ScopedJoinHandle<'_, T>>) -> Vec<T> {
    threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
}

fn operations() -> usize {
    number_from_env("ONPATH_STORM_OPERATIONS", 1500)
}

/// Runs all writers to their end and compares what the tops show; gives that. `meanwhile` runs beside them, and is told how many operations
/// the writers of names of their own have done.
fn storm(tops: &[PathBuf], seed: u64, maps: bool, meanwhile: impl FnOnce(&AtomicUsize) + Send) -> view::View {
    sys::umask(0);
    let operations = operations();
    let mut random = Random::new(seed);
    for dir in shared() {
        done("mkdir of a shared directory", sys::mkdir(tops[0].join(dir), 0o755));
    }
    let source = tempfile::tempfile().expect("a file on the local disk");
    done("pwrite", sys::pwrite(&source, random.bytes(SOURCE_BYTES), 0));
    let count = AtomicUsize::new(0);
    let models = std::thread::scope(|scope| {
        let count = &count;
        let chaos = tops.iter().map(|top| {
            let (random, source) = (Random::new(random.next()), &source);
            scope.spawn(move || Chaos::new(top, random, source, maps).run(operations))
        });
        let chaos: Vec<_> = chaos.collect();
        // What they do is more than every local file system does.
        let owners = if given_dir().is_some() { 0 } else { OWNERS };
        let owners = (0..owners).map(|n| {
            let random = Random::new(random.next());
            scope.spawn(move || own(tops, n, random, operations / 2, count))
        });
        let owners: Vec<_> = owners.collect();
        meanwhile(count);
        joined(chaos);
        joined(owners)
    });
    for model in &models {
        assert_own(&tops[0], model);
    }
    let first = view::look(&tops[0]);
    for top in &tops[1..] {
        view::assert_same(&format!("seed {seed}, {}", top.display()), &first, &view::look(top));
    }
    first
}

/// What a writer left is there exactly.
fn assert_own(top: &Path, model: &Model) {
    let mine = format!("/w{}-", model.owner());
    let mut seen = observe(top);
    seen.retain(|path, _| path.contains(&mine));
    let wrong = differences(&model.view(), &seen);
    assert!(wrong.is_empty(), "writer {}:\n  {}", model.owner(), wrong.join("\n  "));
}

fn on_four_mounts(test: &str, tracking: &str) {
    let Some(site) = Site::new(test) else { return };
    let args = ["--shards", "4", "--tracking", tracking, "--checkpoint-bytes", CHECKPOINT_BYTES];
    let first = site.dev(&args);
    let mut mounts: Vec<Mount> = (1..MOUNTS).map(|n| site.mount(n, &[])).collect();
    let tops: Vec<PathBuf> = [&first].into_iter().chain(&mounts).map(|mount| mount.path().to_owned()).collect();
    let before = storm(&tops, seed(test), true, |_| {});
    while let Some(mount) = mounts.pop() {
        mount.stop();
    }
    first.stop();
    site.assert_clean("after a storm");
    let again = site.dev(&args);
    view::assert_same("after a restart", &before, &view::look(again.path()));
    again.stop();
}

/// With directories tracked by their owners.
#[test]
fn four_mounts() {
    if let Some(dir) = given_dir() {
        let dir = tempfile::tempdir_in(dir).expect("a directory");
        storm(&vec![dir.path().to_owned(); MOUNTS], seed("storms"), true, |_| {});
        return;
    }
    on_four_mounts("random trees from four mounts", "owner");
}

/// With directories tracked by the switch.
#[test]
fn four_mounts_and_a_switch() {
    if given_dir().is_none() {
        on_four_mounts("random trees from four mounts, with a switch", "network");
    }
}

/// The server is killed in the midst of it, several times: whatever was under way on the other mounts goes on when it is back.
#[test]
fn mounts_outlive_kills() {
    const KILLS: usize = 3;
    if given_dir().is_some() {
        return;
    }
    let Some(site) = Site::new("random trees while the server is killed") else { return };
    let args = ["--shards", "4", "--checkpoint-bytes", CHECKPOINT_BYTES];
    let mut server = site.dev(&args);
    let mounts: Vec<Mount> = (1..MOUNTS).map(|n| site.mount(n, &[])).collect();
    let tops: Vec<PathBuf> = mounts.iter().map(|mount| mount.path().to_owned()).collect();
    let all = OWNERS * (operations() / 2);
    let before = storm(&tops, seed("storms"), false, |count| {
        for kill in 1..=KILLS {
            wait_until("some more is done", || count.load(Ordering::Relaxed) >= all * kill / (KILLS + 1));
            site.kill_server(&mut server);
            server = site.dev(&args);
        }
    });
    view::assert_same("the server's own mount", &before, &view::look(server.path()));
    mounts.into_iter().for_each(Mount::stop);
    server.stop();
    site.assert_clean("after a storm with kills");
}
