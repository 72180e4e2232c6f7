//! Emptying change-logs unasked and keeping them within their bounds, and raising the floor below which nobody keeps watermarks.

use super::site::trim;
use crate::planted::{self, Planted};
use crate::shard::Job;
use crate::state::commit::{Effects, commit_own};
use crate::state::{State, keys};
use crate::{Core, Cx};
use onpath_wire::disk::record::Effect;
use onpath_wire::ids::{InodeId, LogSeq, NodeId};
use onpath_wire::limits::{CALL_RETRY_US, PUSH_ENTRIES, PUSH_IDLE_US};
use onpath_wire::peer::Peer;

/// Entries that one record appends to a change-log at most: a rename within a directory. So the first of a log come together.
pub(super) const RECORD_ENTRIES_MAX: usize = 2;
/// Idle change-logs that fall due within this time are pushed together, microseconds: few wake-ups however many there are.
const IDLE_TOGETHER_US: u64 = 5_000;

/// An entry was appended to the change-log of `dir`, at `seq`.
pub(crate) fn consider(core: &mut Core, dir: InodeId, seq: LogSeq) {
    core.state.dirs.note(core.now.mono_us, seq);
    let pending = core.state.dirs.log_len(dir);
    if pending >= PUSH_ENTRIES {
        now(core, dir);
    } else if pending <= RECORD_ENTRIES_MAX {
        when_idle(core, dir, seq);
    }
}

/// Pushes the change-log of `dir` as soon as possible.
pub(crate) fn now(core: &mut Core, dir: InodeId) {
    if core.state.dirs.log_len(dir) > 0 && core.state.dirs.pushing.insert(dir) {
        core.start(Job::Push(dir));
    }
}

/// Whether an update may append to the change-log of `dir` now. If not, it waits until owners have applied others, of which the one
/// that has been idle for longest is pushed at once. An owner that applies a push waits for nothing.
pub(super) fn has_room(core: &mut Core, dir: InodeId) -> bool {
    let State { dirs, txns, config, .. } = &mut core.state;
    let room = dirs.has_room(dir, &config.bounds, txns.promises()) || planted::is(Planted::UpdatesWithoutRoom);
    if !room {
        dirs.starved.insert(dir);
        push_oldest(core);
    }
    room
}

/// There may be room again: updates that waited for it look again.
pub(crate) fn room(core: &mut Core) {
    for dir in std::mem::take(&mut core.state.dirs.starved) {
        core.wake(keys::grants(dir));
    }
}

/// Pushes what has been idle for longest.
fn push_oldest(core: &mut Core) {
    while let Some((_, dir, seq)) = core.state.dirs.idle.pop_front() {
        if core.state.dirs.holds_entry(dir, seq) {
            return now(core, dir);
        }
    }
}

/// What is left of the change-log of `dir` after it was trimmed, or after a push that came too late for it, has its own time.
pub(crate) fn rest(core: &mut Core, dir: InodeId) {
    if let Some(first) = core.state.dirs.first_entry(dir) {
        when_idle(core, dir, first);
    }
}

/// Pushes the change-log of `dir` after a while if it then still holds the entry at `seq`.
fn when_idle(core: &mut Core, dir: InodeId, seq: LogSeq) {
    if core.state.dirs.idle.len() >= core.state.config.bounds.logs {
        push_oldest(core);
    }
    let due_us = core.now.mono_us + PUSH_IDLE_US;
    core.state.dirs.idle.push_back((due_us, dir, seq));
    if !core.state.dirs.pusher_runs {
        core.state.dirs.pusher_runs = true;
        core.start(Job::Pusher);
    }
}

/// Pushes change-logs that were begun a while ago, until there are none.
pub(crate) async fn idle(cx: &Cx) {
    while let Some((due_us, ..)) = cx.with(|core| core.state.dirs.idle.front().copied()) {
        cx.sleep_until(due_us + IDLE_TOGETHER_US).await;
        cx.with(|core| {
            while let Some((_, dir, seq)) = core.state.dirs.idle.pop_front_if(|(due, ..)| *due <= core.now.mono_us) {
                if core.state.dirs.holds_entry(dir, seq) {
                    now(core, dir);
                }
            }
        });
    }
    cx.with(|core| core.state.dirs.pusher_runs = false);
}

/// Pushes a change-log until it is short and holds nothing of a former term.
pub(crate) async fn push(cx: &Cx, dir: InodeId) {
    let owner = cx.with(|core| {
        core.state.dirs.pushing.insert(dir);
        core.state.counters.pushes += 1;
        NodeId::shard(core.state.config.map.home(dir))
    });
    loop {
        let first = cx.with(|core| core.state.dirs.first_entry(dir));
        if first.is_none() {
            break;
        }
        let answer = cx
            .call(owner, |core, seq| {
                let (batch, _) = core.state.dirs.batch(dir);
                let all = core.state.record_seq; // a push rests on its records
                if !planted::is(Planted::PushBeforeDurable) {
                    core.rest_on(cx.op(), all);
                }
                core.state.peer_packet(seq, &Peer::Push { dir, batch })
            })
            .await;
        let (left, refused, hidden, now_us) = cx.with(|core| {
            if let Ok(Peer::Applied { dir: of, upto }) = answer.body::<Peer>()
                && of == dir
            {
                trim(core, cx.op(), dir, upto);
            }
            let dirs = &core.state.dirs;
            // However much was appended meanwhile: an owner that took it took the first.
            (dirs.log_len(dir), dirs.first_entry(dir) == first, dirs.hidden(dir), core.now.mono_us)
        });
        if refused {
            cx.sleep_until(now_us + CALL_RETRY_US).await; // the owner lacks what came before
        } else if left < PUSH_ENTRIES && !hidden && !cx.with(|core| super::site::writes_through(core, dir)) {
            break;
        }
    }
    cx.with(|core| {
        core.state.dirs.pushing.remove(&dir);
        room(core);
        rest(core, dir);
    });
}

/// Starts raising the floor when many positions are remembered.
pub(crate) fn consider_floor(core: &mut Core) {
    if core.state.dirs.trimmed_len() >= core.state.config.bounds.floor_every && !core.state.dirs.floor_runs {
        core.state.dirs.floor_runs = true;
        core.start(Job::RaiseFloor);
    }
}

/// Tells every owner that all our entries up to here are applied and trimmed, then forgets their positions.
pub(crate) async fn raise_floor(cx: &Cx) {
    let (upto, peers) = cx.with(|core| {
        let me = core.state.me();
        let all = core.state.record_seq;
        core.rest_on(cx.op(), all);
        let peers: Vec<_> = core.state.config.map.all().filter(|&s| s != me).map(NodeId::shard).collect();
        (core.state.dirs.floor_now(), peers)
    });
    let answers =
        cx.call_all(&peers, u64::MAX, |core, _, seq| core.state.peer_packet(seq, &Peer::Floor { upto })).await;
    cx.with(|core| {
        let all = answers.into_iter().all(|a| a.packet().is_some_and(|p| p.body::<Peer>() == Ok(Peer::Done)));
        if all {
            let effects: Effects = vec![Effect::Floor { from: NodeId::shard(core.state.me()), upto }];
            commit_own(core, cx.op(), effects);
        }
        core.state.dirs.floor_runs = false;
    });
}
