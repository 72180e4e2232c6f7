//! Change-logs join what their directories' owners have applied, without gap and without overlap.

use crate::fsck::code::Code;
use crate::fsck::report::{Finding, Report};
use crate::fsck::view::View;
use onpath_meta::Survey;
use onpath_wire::ids::{InodeId, LogSeq, NodeId};

pub(super) fn check(view: &View, report: &mut Report) {
    for site in &view.surveys {
        trimmed(view, site, report);
        floors(view, site, report);
    }
    for owner in &view.surveys {
        watermarks(view, owner, report);
    }
}

fn owner_of(view: &View, dir: InodeId) -> Option<&Survey> {
    // Entries for a removed directory are acknowledged and dropped: nothing to compare.
    view.directory(dir).and_then(|_| view.survey(view.map.home(dir)))
}

fn finding(view: &View, dir: InodeId, site: &Survey, code: Code, message: String) -> Finding {
    Finding::new(code, message).inode(dir).shard(site.shard).path(view.path(dir))
}

fn trimmed(view: &View, site: &Survey, report: &mut Report) {
    for (&dir, &trimmed) in &site.trimmed {
        let Some(owner) = owner_of(view, dir) else { continue };
        let floor = owner.floors.get(&NodeId::shard(site.shard)).copied().unwrap_or_default();
        let applied = owner.watermarks.get(&(dir, site.shard)).copied().unwrap_or_default().max(floor);
        if trimmed > applied {
            let message = format!(
                "the change-log of shard {} for this directory was trimmed up to {trimmed}, \
                 its owner (shard {}) has applied it up to {applied}",
                site.shard, owner.shard
            );
            report.add(finding(view, dir, site, Code::StaleWatermark, message));
        }
    }
}

fn watermarks(view: &View, owner: &Survey, report: &mut Report) {
    for (&(dir, from), &applied) in &owner.watermarks {
        let Some(site) = view.survey(from).filter(|_| view.directory(dir).is_some()) else { continue };
        let appended = site.logs.get(&dir).and_then(|log| log.last()).map(|entry| entry.seq);
        let trimmed = site.trimmed.get(&dir).copied();
        let known = appended.into_iter().chain(trimmed).max().unwrap_or_default().max(site.own_floor);
        if applied > known {
            let message = format!(
                "the owner (shard {}) has applied the change-log of shard {from} up to {applied}, which ends at {known}",
                owner.shard
            );
            report.add(finding(view, dir, site, Code::WatermarkAhead, message));
        }
    }
}

fn floors(view: &View, site: &Survey, report: &mut Report) {
    for (&dir, log) in &site.logs {
        let Some(first) = log.first().map(|entry| entry.seq) else { continue };
        let at_owner = owner_of(view, dir).and_then(|owner| owner.floors.get(&NodeId::shard(site.shard))).copied();
        let floor = at_owner.unwrap_or(LogSeq(0)).max(site.own_floor);
        if first <= floor {
            let message =
                format!("shard {} has an entry at {first} for this directory, below its floor {floor}", site.shard);
            report.add(finding(view, dir, site, Code::FloorAhead, message));
        }
    }
}
