//! Decisions and promises belong together.

use crate::fsck::code::Code;
use crate::fsck::report::{Finding, Report};
use crate::fsck::view::View;
use onpath_meta::{Promise, Survey};
use onpath_wire::ids::{ShardId, TxnId};
use onpath_wire::peer::TxnPart;

pub(super) fn check(view: &View, report: &mut Report) {
    for survey in &view.surveys {
        for (txn, participants) in &survey.decided {
            for &participant in participants {
                decision(view, survey, *txn, participant, report);
            }
        }
        for promise in &survey.prepared {
            self::promise(view, survey, promise, report);
        }
    }
}

fn decision(view: &View, coordinator: &Survey, txn: TxnId, participant: ShardId, report: &mut Report) {
    let knows = |survey: &Survey| survey.finished.contains(&txn) || survey.prepared.iter().any(|p| p.txn == txn);
    if !view.survey(participant).is_some_and(knows) {
        let message = format!(
            "shard {} has decided transaction {:#x}, but shard {participant} neither is prepared for it nor has finished it",
            coordinator.shard, txn.seq.0
        );
        report.add(Finding::new(Code::DecisionLost, message).shard(participant));
    }
}

fn promise(view: &View, survey: &Survey, promise: &Promise, report: &mut Report) {
    let TxnId { coordinator, seq } = promise.txn;
    let (code, what) = if view.decided.contains(&promise.txn) {
        (Code::Unfinished, "decided, and not carried out yet")
    } else {
        (Code::Undecided, "not decided")
    };
    let message = format!("transaction {:#x} of shard {coordinator} is prepared here; it is {what}", seq.0);
    let finding = Finding::new(code, message).shard(survey.shard);
    report.add(match promise.parts.first() {
        Some(part) if let Some((parent, name)) = part.name() => finding.inode(parent).path(view.path_in(parent, name)),
        Some(TxnPart::Inode { id, .. }) => finding.inode(*id).path(view.path(*id)),
        _ => finding,
    });
}
