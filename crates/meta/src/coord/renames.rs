//! Directory renames take turns: the walk that refuses cycles is true only while no other directory moves. Whose turn it is knows
//! [`super::turns`].

use crate::planted::{self, Planted};
use crate::shard::Job;
use crate::state::{State, keys, packets};
use crate::txn::Kept;
use crate::{Core, Cx};
use onpath_wire::ids::{InodeId, NodeId, RequestSeq, ShardId, Term, TxnId};
use onpath_wire::peer::Peer;
use std::collections::BTreeSet;

/// How often the holder of the lock is asked whether it is done, microseconds.
const WATCH_US: u64 = 1_000_000;

/// What a shard knows of its own turn. Volatile, as is what the coordinator module knows: a new term of that asks everybody first.
#[derive(Default)]
pub(crate) struct Turn {
    /// The attempt whose turn it is.
    held: Option<TxnId>,
    /// Turns given in earlier terms of the coordinator module do not count.
    since: Term,
    /// Users of whom a rename here walks through a deep tree.
    pub(crate) climbers: BTreeSet<u32>,
}

/// A turn of this shard.
pub(crate) struct Given {
    /// The attempt that names it.
    guard: TxnId,
    /// The number of the last turn in which something has moved.
    pub(crate) number: u64,
    /// What has moved since the turn that was asked about; none if nobody knows.
    pub(crate) moved: Option<Vec<InodeId>>,
}

/// Waits for this shard's turn, for this user; `since` is the number of an earlier turn, or 0.
pub(crate) async fn acquire(cx: &Cx, uid: u32, since: u64) -> Given {
    let (guard, coordinator, me) = cx.with(|core| {
        let me = core.state.me();
        (core.state.txns.begin(me, Kept::new()), core.state.config.map.coordinator(), me)
    });
    loop {
        let (term, given) = if coordinator == me {
            take(cx, me, guard, uid).await; // this term asks, so it is not outlived
            (None, cx.with(|core| told(core, since)))
        } else {
            let lock = Peer::RenameLock { txn: guard, uid, since };
            let answer = cx.call(NodeId::shard(coordinator), |core, seq| core.state.peer_packet(seq, &lock)).await;
            (answer.header().ok().map(|header| header.term), answer.body::<Peer>().unwrap_or(Peer::Done))
        };
        let counts = cx.with(|core| {
            let turn = &mut core.state.turn;
            let counts = term.is_none_or(|term| term >= turn.since);
            if counts {
                turn.held = Some(guard);
            }
            counts
        });
        if counts {
            let Peer::RenameTurn { number, moved } = given else { return Given { guard, number: 0, moved: None } };
            return Given { guard, number, moved };
        }
    }
}

/// What is told with a turn.
fn told(core: &Core, since: u64) -> Peer {
    let turns = &core.state.coordinator.turns;
    Peer::RenameTurn { number: turns.number(), moved: turns.moved_since(since) }
}

/// Ends this shard's turn, in which these directories have moved.
pub(crate) async fn release(cx: &Cx, Given { guard, .. }: Given, moved: Vec<InodeId>) {
    let (coordinator, me) = cx.with(|core| {
        core.state.txns.end(guard);
        core.state.turn.held = None;
        core.wake(keys::RENAME_TURN);
        (core.state.config.map.coordinator(), core.state.me())
    });
    if coordinator == me {
        cx.with(|core| end(core, guard, &moved));
    } else {
        let unlock = Peer::RenameUnlock { txn: guard, moved };
        cx.call(NodeId::shard(coordinator), |core, seq| core.state.peer_packet(seq, &unlock)).await;
    }
}

/// Waits for a turn; false if whoever asked has started again meanwhile, so that nobody would end it.
async fn take(cx: &Cx, from: ShardId, guard: TxnId, uid: u32) -> bool {
    cx.with(|core| core.state.coordinator.turns.wait(uid, (from, guard)));
    let given = cx.until(keys::RENAME_TURN, |core| {
        let coordinator = &mut core.state.coordinator;
        if coordinator.is_outlived(from, guard) {
            coordinator.turns.leave(uid, (from, guard));
            return Some(false);
        }
        coordinator.give_turn();
        (coordinator.turns.holder() == Some((from, guard))).then_some(true)
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

fn end(core: &mut Core, guard: TxnId, moved: &[InodeId]) {
    let remembered = core.state.config.bounds.moves;
    if core.state.coordinator.turns.end(guard, moved, remembered) {
        core.wake(keys::RENAME_TURN);
    }
}

/// Another shard wants its turn.
pub(crate) async fn lock(cx: &Cx, from: ShardId, seq: RequestSeq, guard: TxnId, uid: u32, since: u64) {
    let begins = cx.with(|core| {
        let begins = core.state.coordinator.begins_to_wait(from, guard);
        core.wake(keys::RENAME_TURN); // others may be outlived
        begins
    });
    if !begins {
        return;
    }
    let given = take(cx, from, guard, uid).await;
    cx.with(|core| {
        core.state.coordinator.rename_waits.remove(&guard);
        if given {
            let told = told(core, since);
            packets::answer_call(core, cx.op(), NodeId::shard(from), seq, &told);
        }
    });
}

/// Another shard's turn is over.
pub(crate) fn unlock(cx: &Cx, from: ShardId, seq: RequestSeq, guard: TxnId, moved: &[InodeId]) {
    cx.with(|core| {
        end(core, guard, moved);
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
        core.state.coordinator.turns.known = true;
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
        let (holder, me) = cx.with(|core| (core.state.coordinator.turns.holder(), core.state.me()));
        let Some((shard, guard)) = holder else {
            cx.with(|core| core.state.coordinator.rename_watched = false);
            return;
        };
        if last == holder && shard != me {
            cx.call(NodeId::shard(shard), |core, seq| core.state.peer_packet(seq, &Peer::RenameOver { txn: guard }))
                .await;
            cx.with(|core| {
                if core.state.coordinator.turns.lose(guard) {
                    core.wake(keys::RENAME_TURN);
                }
            });
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
