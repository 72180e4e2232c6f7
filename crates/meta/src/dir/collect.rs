//! Collects and recalls: the job between an owner and the holders of a directory's parts.
//!
//! A collect of the owner form is a recall of the append part by a reader; chmod and rmdir recall more. In the network form
//! readers leave the parts where they are (`group`), unless the switch cannot tell. One job a directory at a
//! time; while it runs the owner grants nothing of what it takes back, to itself neither.

use super::epoch::Tracked;
use super::group::{self, Gather, Group};
use super::owner::{self, apply_batch, table, wake};
use super::tracker::{self, Look};
use crate::planted::{self, Planted};
use crate::shard::Job;
use crate::state::{keys, packets};
use crate::{Core, Cx};
use onpath_kernel::Answer;
use onpath_wire::ids::{InodeId, JobId, NodeId};
use onpath_wire::limits::RECALL_TIMEOUT_US;
use onpath_wire::peer::{Peer, part};
use smallvec::SmallVec;

/// How long a directory stays sealed for a transaction's next attempt, microseconds.
const SEAL_US: u64 = 30_000;

enum Next {
    Clear,
    Ask { job: JobId, holders: SmallVec<[NodeId; 4]>, everybody: bool },
    Gather(Gather),
}

/// After this, and until the next await, every update of the directory that has returned is applied here. `tracked`: what the switch
/// has said on the reader's way here.
pub(crate) async fn collect(cx: &Cx, dir: InodeId, mut tracked: Tracked) {
    if planted::is(Planted::NoCollect) {
        return;
    }
    let begun = cx.with(|core| collects_done(core, dir));
    loop {
        let look = |core: &mut Core| {
            let fresh = collects_done(core, dir) > begun;
            next(core, dir, part::APPEND, |core| look(core, dir, tracked, fresh))
        };
        match cx.until(keys::grants(dir), look).await {
            Next::Clear => return cx.with(|core| owner::shown(core, dir)),
            Next::Ask { job, holders, everybody } => round(cx, dir, part::APPEND, job, &holders, everybody).await,
            Next::Gather(gather) => {
                if !group::gather(cx, gather).await {
                    tracked = Tracked::default(); // without the switch then
                }
            }
        }
    }
}

/// After this, and until the next await, no other shard has any of `parts`, and all entries are applied.
pub(crate) async fn recall(cx: &Cx, dir: InodeId, parts: u8) {
    loop {
        match cx.until(keys::grants(dir), |core| next(core, dir, parts, |_| Look::Recall)).await {
            Next::Clear => return,
            Next::Ask { job, holders, everybody } => round(cx, dir, parts, job, &holders, everybody).await,
            Next::Gather(_) => unreachable!("a recall takes parts"),
        }
    }
}

/// Collects of the directory's group that were completed.
fn collects_done(core: &Core, dir: InodeId) -> u64 {
    core.state.dirs.groups.get(&core.state.config.map.fingerprint(dir)).map_or(0, Group::done)
}

/// What a reader must do while others hold the append part.
fn look(core: &mut Core, dir: InodeId, tracked: Tracked, fresh: bool) -> Look {
    let seen = core.state.epochs.believed(tracked, core.state.config.map.fingerprint(dir));
    let tracker = tracker::of(core.state.epochs.owner.form);
    let group = core
        .state
        .dirs
        .groups
        .get(&core.state.config.map.fingerprint(dir))
        .expect("a directory with a table is in its group");
    let (applied, marked) = (group.applied(), group.marked());
    let table = table(core, dir);
    let look = if table.is_through() && !marked {
        Look::Now // what has returned is applied, and what is about to be promised is marked here
    } else if table.wants_sync() {
        Look::Recall
    } else {
        // A mark covers no update that returned before the collect whose end a fresh reader has seen. Were it asked for another collect,
        // whoever waits for the mark would be held again, and neither would ever go on.
        tracker.look(seen, applied || marked && !fresh, fresh)
    };
    if look == Look::Now {
        table.read();
        core.state.counters.reads_normal += 1;
    }
    look
}

/// Takes both parts back and keeps them for a moment, for the next attempt of a transaction that removes the
/// directory: its Prepare never waits.
pub(crate) async fn seal(cx: &Cx, dir: InodeId) {
    let running = cx.with(|core| table(core, dir).sealing);
    if running {
        return;
    }
    cx.with(|core| table(core, dir).sealing = true);
    recall(cx, dir, part::BOTH).await;
    let until_us = cx.with(|core| core.now.mono_us + SEAL_US);
    cx.sleep_until(until_us).await;
    cx.with(|core| {
        table(core, dir).sealing = false;
        wake(core, dir);
        core.start(Job::GiveGrants(dir));
    });
}

/// Whether [`recall`] would return at once.
pub(crate) fn is_clear(core: &mut Core, dir: InodeId, parts: u8) -> bool {
    !core.state.txns.in_doubt(dir) && {
        let table = table(core, dir);
        table.job.is_none() && table.knows(parts) && table.holders_of(parts).is_empty()
    }
}

/// The next step of whoever wants all entries applied, and `parts` back if `look` says so.
fn next(core: &mut Core, dir: InodeId, parts: u8, look: impl FnOnce(&mut Core) -> Look) -> Option<Next> {
    if core.state.txns.in_doubt(dir) {
        return None; // our own prepared record makes a recall wait like anybody's
    }
    if parts == part::APPEND && nobody_appends(core, dir) {
        return Some(Next::Clear);
    }
    table(core, dir); // whoever waits for the group's job is one of those whom its end wakes
    if group::busy(core, dir) {
        return None;
    }
    let me = core.state.me();
    let all = core.state.config.map.all();
    let table = table(core, dir);
    if table.job.is_some() {
        return None;
    }
    let everybody = !table.knows(parts);
    let holders: SmallVec<[NodeId; 4]> = if everybody {
        all.filter(|&shard| shard != me).map(NodeId::shard).collect()
    } else {
        table.holders_of(parts).into_iter().map(NodeId::shard).collect()
    };
    if holders.is_empty() {
        return Some(Next::Clear);
    }
    // Until this part was recalled from everybody, nobody knows whom to collect from.
    match if everybody { Look::Recall } else { look(core) } {
        Look::Now => return Some(Next::Clear),
        Look::Collect => return Some(Next::Gather(group::begin(core, dir))),
        Look::Recall => {}
    }
    let job = core.state.dirs.next_job(core.state.config.term);
    core.state.counters.collects += 1;
    self::table(core, dir).job = Some((job, parts));
    Some(Next::Ask { job, holders, everybody })
}

/// Whether a directory has no table because it is so young that nobody can hold anything of it.
fn nobody_appends(core: &Core, dir: InodeId) -> bool {
    let born_now = core.state.births.is_new(dir) || core.state.config.map.shards() == 1;
    born_now && !core.state.dirs.owner.contains_key(&dir)
}

async fn round(cx: &Cx, dir: InodeId, parts: u8, job: JobId, holders: &[NodeId], everybody: bool) {
    let deadline_us = cx.with(|core| core.now.mono_us) + RECALL_TIMEOUT_US;
    let applied_before = cx.with(|core| core.state.counters.entries_applied);
    let answers = cx
        .call_all(holders, deadline_us, |core, _, seq| core.state.peer_packet(seq, &Peer::Recall { dir, parts, job }))
        .await;
    cx.with(|core| {
        let mut complete = true;
        for (&holder, answer) in holders.iter().zip(answers) {
            complete &= take_back(core, cx, dir, parts, job, holder, answer);
        }
        let table = table(core, dir);
        if complete && everybody {
            table.learn(parts);
        }
        table.job = None;
        let waiters = table.has_waiters();
        if complete {
            if parts == part::APPEND {
                owner::found(core, dir, applied_before);
            }
            if parts & part::APPEND != 0 {
                group::recalled(core, dir);
            }
        } else {
            group::applied_outside(core, dir); // fewer than all
        }
        group::wake(core, dir);
        if waiters {
            // A job, not a call: readers that waited for this collect run first and need no further one.
            core.start(Job::GiveGrants(dir));
        }
    });
}

/// Takes one holder's answer; true when it holds nothing more of what was recalled.
fn take_back(core: &mut Core, cx: &Cx, dir: InodeId, parts: u8, job: JobId, holder: NodeId, answer: Answer) -> bool {
    let shard = holder.as_shard().expect("holders are shards");
    let Some(Ok(Peer::Recalled { job: of, batch, more, .. })) = answer.packet().map(|p| p.body::<Peer>()) else {
        core.state.counters.recalls_abandoned += 1; // it stays in the table; the next round asks again
        return false;
    };
    if of != job {
        return false;
    }
    let entries = !batch.entries.is_empty();
    let last = batch.entries.last().map(|entry| entry.seq);
    let upto = apply_batch(core, cx.op(), dir, shard, batch);
    if entries {
        core.rest_on_object(cx.op(), keys::inode(dir));
        packets::tell(core, cx.op(), shard, &Peer::Applied { dir, upto });
    }
    let all_applied = !more && last.is_none_or(|last| last <= upto);
    if all_applied {
        table(core, dir).gave_back(shard, parts);
    }
    all_applied
}
