//! After a restart of a shard, which has forgotten them: every open inode is registered there again, every lock held is
//! taken again (design.md, "Sessions").

use crate::limits::{REGISTER_US, RESTORE_BATCH};
use crate::op::Op;
use crate::ops::{lock, pages};
use crate::state::{Job, State, WaitKey, header};
use onpath_kernel::Core;
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{InodeId, NodeId, ShardId, Term};
use onpath_wire::packet::Packet;
use onpath_wire::request::{Request, open};

/// Registers all open inodes of a shard again, a batch at a time. Its locks are taken again at the same time, and then
/// all that is open there is sent again.
pub(crate) async fn restore(op: &Op, shard: ShardId, term: Term) {
    let life = op.with(|core| core.state.lives);
    let nothing = reopen(op, shard, term).await;
    op.with(|core| {
        if !nothing && core.state.lives == life && core.state.reopened(shard) {
            core.start(Job::Greet { shard }); // what was removed waits for this news
        }
    });
}

/// True if there was nothing to be done, which is noted already.
async fn reopen(op: &Op, shard: ShardId, term: Term) -> bool {
    let ids = op.with(|core| {
        let map = core.state.config.map.clone();
        let chains = core.state.relock.len().min(RESTORE_BATCH);
        (0..chains).for_each(|_| core.start(Job::Relock));
        let by_switch = core.state.opened_by_switch.iter().copied().filter(|id| map.home(*id) == shard).collect();
        core.state.opens.register(by_switch);
        // After the above: a lock that waits here must not be granted before the one it waits for is taken again.
        core.start(Job::Resend { shard });
        let ids = core.state.opens.registered(|id| map.home(id) == shard);
        if ids.is_empty() {
            core.state.reopened(shard); // before anything is sent again, so that it tells the news
        }
        ids
    });
    for batch in ids.chunks(RESTORE_BATCH) {
        // A newer term has begun its own restoration.
        if op.with(|core| core.state.terms[shard.0 as usize] != term) {
            return false;
        }
        restore_batch(op, shard, batch).await;
    }
    ids.is_empty()
}

/// Files that a switch has let this session open are registered at their homes, soon: only for a while these keep what is removed meanwhile
/// (C-10). One that is closed before is not.
pub(crate) fn register_soon(core: &mut Core<State>, id: InodeId) {
    if core.state.opened_by_switch.is_empty() {
        core.start(Job::RegisterOpens);
    }
    core.state.opened_by_switch.insert(id);
}

pub(crate) async fn register(op: &Op) {
    let until_us = op.with(|core| core.now.mono_us) + REGISTER_US;
    op.cx.sleep_until(until_us).await;
    let (ids, map) = op.with(|core| {
        let opened = core.state.opened_by_switch.drain().collect();
        (core.state.opens.register(opened), core.state.config.map.clone())
    });
    for shard in (0..map.shards()).map(ShardId) {
        let ids: Vec<InodeId> = ids.iter().copied().filter(|id| map.home(*id) == shard).collect();
        for batch in ids.chunks(RESTORE_BATCH) {
            restore_batch(op, shard, batch).await;
        }
    }
}

/// What registers an inode again: of a bound session with what shows that it had it open.
fn again(core: &mut Core<State>, id: InodeId) -> Request {
    let maps = pages::again(core, id);
    match core.state.tickets.get(&id) {
        Some(&ticket) => Request::OpenAgain { id, flags: open::REGISTER | maps, ticket },
        None => Request::Open { id, flags: open::REGISTER | open::AGAIN | maps },
    }
}

/// A bound session takes locks of what its home knows it to have open; that of others is believed. False if it is over.
pub(crate) async fn shows(op: &Op, id: InodeId) -> bool {
    if op.with(|core| !core.state.tickets.contains_key(&id)) {
        return true;
    }
    let home = op.with(|core| core.state.shard_at(id.slot()));
    let make = |core: &mut Core<State>, to, seq| {
        let request = again(core, id);
        let body = core.state.own_body(request);
        Packet::new(&header(core, MessageKind::Request, to, id.slot(), seq), &body)
    };
    // An operation of the session itself is never given up.
    op.call_all(&[home], make).await.is_ok()
}

/// Also what an older restoration still waits for: an answer that it had is of a term that is over.
async fn restore_batch(op: &Op, shard: ShardId, batch: &[InodeId]) {
    let mine: Vec<InodeId> = op.with(|core| {
        let opens = &mut core.state.opens;
        let begin = |id: &&InodeId| opens.inode(**id).is_some_and(|i| i.registered && i.busy.begin_restoring());
        batch.iter().filter(begin).copied().collect()
    });
    let peers = vec![NodeId::shard(shard); mine.len()];
    let mut next = mine.iter();
    // A refusal means that the inode is gone, and operations through its handles will be told so.
    let _ = op
        .call_all(&peers, |core, to, seq| {
            let id = *next.next().expect("one call an inode");
            let request = again(core, id);
            let body = core.state.own_body(request);
            Packet::new(&header(core, MessageKind::Request, to, id.slot(), seq), &body)
        })
        .await;
    op.with(|core| {
        for id in mine {
            core.state.opens.inode(id).expect("kept while it is restored").busy.end_restoring();
            core.wake(WaitKey::Inode(id).hash());
        }
    });
}

/// Takes the locks of one owner again, then lets the next one follow.
pub(crate) async fn relock(op: &Op) {
    let Some((owner, shard)) = op.with(|core| core.state.next_relock()) else { return };
    let turn = WaitKey::LockTurn(owner);
    if op.take_turn(turn).await.is_ok() {
        lock::take_again(op, owner).await;
        op.end_turn(turn);
    }
    op.with(|core| {
        if core.state.relocked(shard) {
            core.start(Job::Greet { shard }); // others may wait for this news
        }
        core.start(Job::Relock);
    });
}
