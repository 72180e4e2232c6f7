//! Change-logs that do not join what their directories' owners have applied, and those in the way of a repair.

use super::fixes::Fixes;
use crate::fsck::checks::listings::first_mismatch;
use crate::fsck::code::Code;
use crate::fsck::view::View;
use onpath_host::offline::Offline;
use onpath_meta::Survey;
use onpath_wire::disk::log::Entry;
use onpath_wire::disk::record::Effect;
use onpath_wire::ids::{InodeId, LogSeq, NodeId};
use onpath_wire::peer::LogEntry;
use std::collections::BTreeSet;

pub(super) fn fix(view: &View, _: &mut Offline, fixes: &mut Fixes) {
    for site in &view.surveys {
        for (&dir, log) in &site.logs {
            let Some(owner) = owner_of(view, dir) else { continue };
            let floor = owner.floors.get(&NodeId::shard(site.shard)).copied().unwrap_or_default().max(site.own_floor);
            if log.first().is_some_and(|first| first.seq <= floor) {
                apply(owner, site, dir, log, Code::FloorAhead, fixes);
            }
        }
        trimmed(view, site, fixes);
    }
    for owner in &view.surveys {
        ahead(view, owner, fixes);
    }
    if fixes.is_empty() {
        in_the_way(view, fixes);
    }
}

fn owner_of(view: &View, dir: InodeId) -> Option<&Survey> {
    view.directory(dir).and_then(|_| view.survey(view.map.home(dir)))
}

/// Lets the owner have applied all of a change-log, as a push would.
fn apply(owner: &Survey, site: &Survey, dir: InodeId, log: &[LogEntry], code: Code, fixes: &mut Fixes) {
    let Some(last) = log.last() else { return };
    let applied = owner.watermarks.get(&(dir, site.shard)).copied().unwrap_or_default();
    let entries: Vec<LogEntry> = log.iter().filter(|entry| entry.seq > applied).cloned().collect();
    fixes.because(
        code,
        format!("{} entries of shard {} are applied to directory {:#x}", entries.len(), site.shard, dir.0),
    );
    let effect = Effect::AppliedLog {
        dir,
        from: site.shard,
        upto: last.seq,
        dcount: entries.iter().map(|entry| i64::from(entry.dcount)).sum(),
        dnlink: entries.iter().map(|entry| i64::from(entry.dnlink)).sum(),
        stamp: entries.iter().map(|entry| entry.stamp).max().unwrap_or_default(),
        entries: entries.into_iter().map(Entry::from).collect(),
    };
    fixes.effect(owner.shard, effect);
    fixes.effect(site.shard, Effect::TrimLog { dir, upto: last.seq });
}

/// What was trimmed counts as applied; whether the listing is right is another question.
fn trimmed(view: &View, site: &Survey, fixes: &mut Fixes) {
    for (&dir, &upto) in &site.trimmed {
        let Some(owner) = owner_of(view, dir) else { continue };
        let floor = owner.floors.get(&NodeId::shard(site.shard)).copied().unwrap_or_default();
        if upto > owner.watermarks.get(&(dir, site.shard)).copied().unwrap_or_default().max(floor) {
            fixes.because(
                Code::StaleWatermark,
                format!("directory {:#x} has applied what shard {} trimmed", dir.0, site.shard),
            );
            let (from, entries, stamp) = (site.shard, Vec::new(), super::fixes::STAMP);
            fixes.effect(owner.shard, Effect::AppliedLog { dir, from, upto, entries, dcount: 0, dnlink: 0, stamp });
        }
    }
}

/// What was applied counts as trimmed.
fn ahead(view: &View, owner: &Survey, fixes: &mut Fixes) {
    for (&(dir, from), &applied) in &owner.watermarks {
        let Some(site) = view.survey(from).filter(|_| view.directory(dir).is_some()) else { continue };
        let appended = site.logs.get(&dir).and_then(|log| log.last()).map(|entry| entry.seq);
        let known = appended.into_iter().chain(site.trimmed.get(&dir).copied()).max();
        if applied > known.unwrap_or(LogSeq(0)).max(site.own_floor) {
            fixes.because(
                Code::WatermarkAhead,
                format!("shard {from} has trimmed what directory {:#x} has applied", dir.0),
            );
            fixes.effect(site.shard, Effect::TrimLog { dir, upto: applied });
        }
    }
}

/// Change-logs of directories whose listings are wrong: what they say comes first, so that it does not undo what is repaired.
fn in_the_way(view: &View, fixes: &mut Fixes) {
    let with_logs: BTreeSet<InodeId> = view.surveys.iter().flat_map(|site| site.logs.keys().copied()).collect();
    for dir in with_logs {
        let Some(owner) = owner_of(view, dir) else { continue };
        let Some(wrong) = first_mismatch(view, dir) else { continue };
        let logs = view.surveys.iter().filter_map(|site| site.logs.get(&dir).map(|log| (site, log)));
        logs.for_each(|(site, log)| apply(owner, site, dir, log, wrong, fixes));
    }
}
