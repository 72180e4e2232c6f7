//! Directory renames take turns: the walk that refuses cycles is true only while no other directory moves.

use crate::planted::{self, Planted};
use crate::shard::Job;
use crate::state::{State, keys, packets};
use crate::txn::Kept;
use crate::{Core, Cx};
use onpath_wire::ids::{InodeId, NodeId, RequestSeq, ShardId, Term, TxnId};
use onpath_wire::peer::Peer;

/// How often the holder of the lock is asked whether it is done, microseconds.
const WATCH_US: u64 = 1_000_000;

/// What a shard knows of its own turn. Volatile, as is what the coordinator module knows: a new term of that asks everybody first.
#[derive(Default)]
pub(crate) struct Turn {
    /// The attempt whose turn it is.
    held: Option<TxnId>,
    /// Turns given in earlier terms of the coordinator module do not count.
    since: Term,
}

/// Waits for this shard's turn; the returned attempt names the lock.
pub(crate) async fn acquire(cx: &Cx) -> TxnId {
    let (guard, coordinator, me) = cx.with(|core| {
        let me = core.state.me();
        (core.state.txns.begin(me, Kept::new()), core.state.config.map.coordinator(), me)
    });
    loop {
        let given = if coordinator == me {
            take(cx, me, guard).await; // this term asks, so it is not outlived
            None
        } else {
            let lock = Peer::RenameLock { txn: guard };
            let answer = cx.call(NodeId::shard(coordinator), |core, seq| core.state.peer_packet(seq, &lock)).await;
            answer.header().ok().map(|header| header.term)
        };
        let counts = cx.with(|core| {
            let turn = &mut core.state.turn;
            let counts = given.is_none_or(|term| term >= turn.since);
            if counts {
                turn.held = Some(guard);
            }
            counts
        });
        if counts {
            return guard;
        }
    }
}

/// Ends this shard's turn.
pub(crate) async fn release(cx: &Cx, guard: TxnId) {
    let (coordinator, me) = cx.with(|core| {
        core.state.txns.end(guard);
        core.state.turn.held = None;
        core.wake(keys::RENAME_TURN);
        (core.state.config.map.coordinator(), core.state.me())
    });
    if coordinator == me {
        cx.with(|core| free(core, guard));
    } else {
        cx.call(NodeId::shard(coordinator), |core, seq| {
            core.state.peer_packet(seq, &Peer::RenameUnlock { txn: guard })
        })
        .await;
    }
}

/// Waits for a turn; false if whoever asked has started again meanwhile, so that nobody would end it.
async fn take(cx: &Cx, from: ShardId, guard: TxnId) -> bool {
    let given = cx.until(keys::RENAME_TURN, |core| match core.state.coordinator.rename_holder {
        _ if core.state.coordinator.is_outlived(from, guard) => Some(false),
        None if !core.state.coordinator.turns_known => None,
        None => {
            core.state.coordinator.rename_holder = Some((from, guard));
            Some(true)
        }
        Some((_, holder)) => (holder == guard).then_some(true),
    });
    let given = given.await;
    cx.with(|core| {
        if given && !core.state.coordinator.rename_watched {
            core.state.coordinator.rename_watched = true;
            core.start(Job::WatchRename);
        }
    });
    given
}

fn free(core: &mut Core, guard: TxnId) {
    if core.state.coordinator.rename_holder.is_some_and(|(_, holder)| holder == guard) {
        core.state.coordinator.rename_holder = None;
        core.wake(keys::RENAME_TURN);
    }
}

/// Another shard wants its turn.
pub(crate) async fn lock(cx: &Cx, from: ShardId, seq: RequestSeq, guard: TxnId) {
    let begins = cx.with(|core| {
        let begins = core.state.coordinator.begins_to_wait(from, guard);
        core.wake(keys::RENAME_TURN); // others may be outlived
        begins
    });
    if !begins {
        return;
    }
    let given = take(cx, from, guard).await;
    cx.with(|core| {
        core.state.coordinator.rename_waits.remove(&guard);
        if given {
            packets::answer_call(core, cx.op(), NodeId::shard(from), seq, &Peer::Done);
        }
    });
}

/// Another shard's turn is over.
pub(crate) fn unlock(cx: &Cx, from: ShardId, seq: RequestSeq, guard: TxnId) {
    cx.with(|core| {
        free(core, guard);
        packets::answer_call(core, cx.op(), NodeId::shard(from), seq, &Peer::Done);
    });
}

/// A new term of the coordinator module: it is nobody's turn while one that was given before may go on.
pub(crate) async fn begin(cx: &Cx) {
    let (shards, me, term) = cx.with(|core| {
        let State { config, .. } = &core.state;
        (config.map.shards(), core.state.me(), config.term)
    });
    for shard in (0..shards).map(ShardId).filter(|&shard| shard != me && !planted::is(Planted::TurnsForgotten)) {
        let ask = Peer::RenameTurns { term };
        cx.call(NodeId::shard(shard), |core, seq| core.state.peer_packet(seq, &ask)).await;
    }
    cx.until(keys::RENAME_TURN, |core| (!core.state.txns.former_decisions(term)).then_some(())).await;
    cx.with(|core| {
        core.state.coordinator.turns_known = true;
        core.wake(keys::RENAME_TURN);
    });
}

/// The coordinator module has a new term.
pub(crate) async fn turns(cx: &Cx, from: ShardId, seq: RequestSeq, term: Term) {
    cx.with(|core| core.state.turn.since = core.state.turn.since.max(term));
    cx.until(keys::RENAME_TURN, |core| {
        let over = core.state.turn.held.is_none() && !core.state.txns.former_decisions(core.state.config.term);
        over.then_some(())
    })
    .await;
    cx.with(|core| packets::answer_call(core, cx.op(), NodeId::shard(from), seq, &Peer::Done));
}

/// Asks the holder whether it is done, in case it crashed or its unlock was a copy of a lock's.
pub(crate) async fn watch(cx: &Cx) {
    let mut last = None;
    loop {
        let now_us = cx.with(|core| core.now.mono_us);
        cx.sleep_until(now_us + WATCH_US).await;
        let (holder, me) = cx.with(|core| (core.state.coordinator.rename_holder, core.state.me()));
        let Some((shard, guard)) = holder else {
            cx.with(|core| core.state.coordinator.rename_watched = false);
            return;
        };
        if last == holder && shard != me {
            cx.call(NodeId::shard(shard), |core, seq| core.state.peer_packet(seq, &Peer::RenameOver { txn: guard }))
                .await;
            cx.with(|core| free(core, guard));
        }
        last = holder;
    }
}

/// The parent of a directory; none if it is gone.
pub(crate) async fn parent_of(cx: &Cx, dir: InodeId) -> Option<InodeId> {
    let (home, me) = cx.with(|core| (core.state.config.map.home(dir), core.state.me()));
    if home == me {
        return cx.with(|core| core.state.inodes.get(dir).map(|inode| inode.parent));
    }
    let answer = cx.call(NodeId::shard(home), |core, seq| core.state.peer_packet(seq, &Peer::ParentOf { dir })).await;
    match answer.body::<Peer>() {
        Ok(Peer::ParentIs { parent }) => parent,
        _ => None,
    }
}
