//! Collects: the job of a reader between an owner and the holders of a directory's append part.
//!
//! A collect of the owner form is a recall of the append part by a reader; what takes parts back otherwise is in [`super::holders`]. In
//! the network form readers leave the parts where they are (`group`), unless the switch cannot tell. One job a directory at a time;
//! while it runs the owner grants nothing of what it takes back, to itself neither.

use super::epoch::Tracked;
use super::group::{self, Gather, Group};
use super::holders::{Round, is_revoked, revoke, waits_for_doubt};
use super::leases;
use super::owner::{self, table, wake};
use super::tracker::{self, Look};
use super::ways;
use crate::planted::{self, Planted};
use crate::shard::Job;
use crate::state::keys;
use crate::{Core, Cx};
use onpath_wire::ids::{InodeId, NodeId};
use onpath_wire::peer::part;

/// How long a directory stays sealed for a transaction's next attempt, microseconds.
const SEAL_US: u64 = 30_000;

/// What is to be done next.
pub(super) enum Next {
    Clear,
    Ask(Round),
    /// Clients are to forget ways through the directory.
    Forget,
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
            Next::Ask(round) => round.run(cx, dir, part::APPEND).await,
            Next::Forget => unreachable!("a reader takes no path part"),
            Next::Gather(gather) => {
                if !group::gather(cx, gather).await {
                    tracked = Tracked::default(); // without the switch then
                }
            }
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

/// Takes parts back and keeps them for a moment, for the next attempt of a transaction that removes the directory or moves it: its
/// Prepare never waits.
pub(crate) async fn seal(cx: &Cx, dir: InodeId, parts: u8) {
    let running = cx.with(|core| table(core, dir).sealing & parts == parts);
    if running {
        return;
    }
    cx.with(|core| table(core, dir).sealing |= parts);
    revoke(cx, dir, parts).await;
    let until_us = cx.with(|core| core.now.mono_us + SEAL_US);
    cx.sleep_until(until_us).await;
    cx.with(|core| {
        table(core, dir).sealing &= !parts;
        wake(core, dir);
        core.start(Job::GiveGrants(dir));
    });
}

/// Whether nobody has any of `parts` of a directory. If somebody has, they are taken back on the side, and kept for a moment: the next
/// attempt finds that done (P-1, R-14).
pub(crate) fn is_withdrawn(core: &mut Core, dir: InodeId, parts: u8) -> bool {
    let revoked = is_revoked(core, dir, parts);
    if !revoked {
        core.start(Job::Seal(dir, parts));
    }
    revoked
}

/// The next step of whoever wants all entries applied, and `parts` back if `look` says so.
pub(super) fn next(core: &mut Core, dir: InodeId, parts: u8, look: impl FnOnce(&mut Core) -> Look) -> Option<Next> {
    if waits_for_doubt(core, dir, parts) {
        return None; // our own prepared record makes a recall wait like anybody's
    }
    if parts == part::APPEND && nobody_appends(core, dir) {
        return Some(Next::Clear);
    }
    table(core, dir); // whoever waits for the group's job is one of those whom its end wakes
    if group::busy(core, dir) {
        return None;
    }
    let busy = table(core, dir);
    if busy.job.is_some() || busy.telling && parts & part::PATH != 0 {
        return None;
    }
    let path_nodes = leases::living(core, dir, parts);
    let table = table(core, dir);
    let mut holders = table.holders.of(parts);
    let [all_shards, all_path_nodes] = [part::BOTH, part::PATH].map(|class| !table.holders.knows(parts & class));
    let everybody = all_shards || all_path_nodes;
    if everybody {
        let (me, map) = (core.state.me(), &core.state.config.map);
        holders.extend(map.all().filter(|&shard| all_shards && shard != me).map(NodeId::shard));
        holders.extend(path_nodes.into_iter().filter(|_| all_path_nodes));
    }
    holders.sort_unstable();
    holders.dedup();
    if holders.is_empty() {
        // When nobody can tell them of ways any more.
        return Some(if ways::are_kept(core, dir, parts) { Next::Forget } else { Next::Clear });
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
    Some(Next::Ask(Round { job, holders, everybody }))
}

/// Whether a directory has no table because it is so young that nobody can hold anything of it.
fn nobody_appends(core: &Core, dir: InodeId) -> bool {
    let born_now = core.state.births.is_new(dir) || core.state.config.map.shards() == 1;
    born_now && !core.state.dirs.owner.contains_key(&dir)
}
