//! `onpath fsck --repair`: what is wrong is put right where that loses nothing, in one step.
//!
//! The state is recovered as a start would, without starting a role. Round by round the first thing that can be put right is, by
//! records that say what should be so; then the state is kept as one checkpoint more. Until that is whole the one before counts,
//! so a repair that is killed has not happened. Names at their sites count more than listings, inodes at their homes more than
//! copies elsewhere, and what nothing leads to gets a name in `/lost+found`.

mod data;
mod files;
mod fixes;
mod found;
mod inodes;
mod listings;
mod logs;
mod names;
mod places;
pub(super) mod policy;

use super::checks;
use super::code::Code;
use super::report::Report;
use super::spill::Spill;
use super::view::View;
use anyhow::Context;
use fixes::Fixes;
use onpath_host::offline::Offline;
use onpath_host::progress::{self, Unwatched, Watcher};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// A state that is not right after so many rounds never will be.
const ROUNDS_MAX: usize = 64;

/// Puts right some things, if any are wrong that it knows of.
type Stage = fn(&View, &mut Offline, &mut Fixes);

/// What comes first is what the others rest on.
const STAGES: [Stage; 9] =
    [places::fix, logs::fix, inodes::counts, listings::fix, names::fix, found::fix, inodes::fix, files::fix, data::fix];

/// What was repaired: a line for each change.
pub(super) type Repaired = Vec<(Code, String)>;

/// Repairs what can be; nothing has changed if there is an error, or nothing to repair.
pub(super) fn repair(dir: &Path, spill: &Rc<Spill>, watcher: &Arc<dyn Watcher>) -> anyhow::Result<Repaired> {
    let mut offline = Offline::open(dir, watcher)?;
    watcher.begin(progress::Stage::of("repairing", "changes"));
    let mut repaired = Repaired::new();
    for round in 0.. {
        anyhow::ensure!(round < ROUNDS_MAX, "it is not right after {round} rounds of repairs; nothing was changed");
        let fixes = next(&mut offline, spill)?;
        if fixes.is_empty() {
            break;
        }
        for (shard, id) in fixes.uprooted() {
            offline.recall(shard, id).context("nothing was changed")?;
        }
        for (role, record) in fixes.records() {
            offline.record(role, &record).context("nothing was changed")?;
            watcher.done(1);
        }
        repaired.extend(fixes.done);
    }
    let (before, after) = (count(&repaired), left(&offline, spill)?);
    if let Some((code, _)) = after.iter().find(|(code, _)| policy::of(**code).is_ok() && before.contains_key(*code)) {
        anyhow::bail!("{} {}: the repair does not help; nothing was changed", code.code(), code.name());
    }
    if !repaired.is_empty() {
        offline.keep(&**watcher)?;
    }
    Ok(repaired)
}

/// The first stage that has something to do.
fn next(offline: &mut Offline, spill: &Rc<Spill>) -> anyhow::Result<Fixes> {
    let view = view(offline, spill);
    let mut fixes = Fixes::default();
    for stage in STAGES {
        stage(&view, offline, &mut fixes);
        if !fixes.is_empty() {
            break;
        }
    }
    spill.sound().context("nothing was changed")?;
    Ok(fixes)
}

fn view(offline: &Offline, spill: &Rc<Spill>) -> View {
    View::new(&offline.superblock(), offline.shards(), offline.data(), offline.files(), spill, &Unwatched)
}

fn count(repaired: &Repaired) -> BTreeMap<Code, u64> {
    let mut counts = BTreeMap::new();
    repaired.iter().for_each(|(code, _)| *counts.entry(*code).or_default() += 1);
    counts
}

/// The faults that the changed state has, by kind.
fn left(offline: &Offline, spill: &Rc<Spill>) -> anyhow::Result<BTreeMap<Code, u64>> {
    let mut report = Report::default();
    checks::run(&view(offline, spill), offline.data(), &Unwatched, &mut report);
    spill.sound().context("nothing was changed")?;
    Ok(report.fault_kinds())
}
