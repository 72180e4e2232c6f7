//! Deadlocks of fcntl locks (EDEADLK): waits are followed from their owner to the holders, from there to what those wait for, and so
//! on, over all shards and sessions.
//!
//! A wait is known where its file lives, so each step asks every shard. What the steps see is of different moments: a circle
//! found is asked for once more, and counts if nothing of it has changed ([`WaitEdge`]), for then all of it was there at
//! once in between. A circle ends only if somebody in it gives up. That is the one who closed it, by the homes' clocks: everybody
//! who sees the circle sees the same one. The others may not have said yet what they are when it looks for the first time, so it looks
//! again. Locks of open files and flock(2) do not count, as on Linux.

use crate::limits::{DEADLOCK_DEPTH_MAX, DEADLOCK_LOOK_US, DEADLOCK_LOOKS_MAX, DEADLOCK_OWNERS_MAX};
use crate::locks::WaitingLock;
use crate::op::{Op, done};
use crate::ops::lock;
use crate::session::SessionOut;
use crate::state::{State, WaitKey, header};
use onpath_kernel::{Answer, Core};
use onpath_wire::errno::Errno;
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{NodeId, RequestSeq};
use onpath_wire::limits::LOCKERS_ASKED_MAX;
use onpath_wire::packet::Packet;
use onpath_wire::reply::{Reply, WaitEdge};
use onpath_wire::request::{Locker, Request};
use std::collections::BTreeMap;

/// Looks, after a while, whether the lock that a request waits for is part of a deadlock, and then gives it up if it is its turn.
pub(crate) async fn seek(mut op: Op, unique: u64, after_us: u64) {
    let mut pause_us = after_us;
    let looks = if after_us == 0 { 1 } else { DEADLOCK_LOOKS_MAX };
    for look in 1..=looks {
        let at_us = op.with(|core| core.now.mono_us) + pause_us;
        op.cx.sleep_until(at_us).await;
        pause_us = DEADLOCK_LOOK_US << look;
        let Some((seq, wait)) = waits(&op, unique) else { return };
        op.caller = wait.caller;
        if !is_process(&op, unique, &wait).await {
            return;
        }
        let (id, lock) = (wait.id, wait.lock);
        if op.ask(Request::ConfirmWait { id, lock }).await.and_then(done).is_err() {
            return;
        }
        let me = Locker { session: op.with(|core| core.state.config.session.id()), owner: lock.owner };
        let Some(circle) = search(&op, me, seq).await else { continue };
        if stands(&op, &circle).await {
            let last = circle.iter().max_by_key(|edge| (edge.stamp, edge.waiter)).expect("a circle has an edge");
            if last.waiter == me && give_up(&op, unique, seq) {
                lock::cancel(op, unique, Errno::EDEADLK).await;
            }
            return;
        }
    }
}

/// The lock of a request, if it still waits and nobody is giving it up.
fn waits(op: &Op, unique: u64) -> Option<(RequestSeq, WaitingLock)> {
    op.with(|core| {
        let seq = lock::seq_of(core, unique)?;
        let wait = core.state.waiting[&seq].clone();
        (!wait.cancelling && !wait.renewing && !wait.answered).then_some((seq, wait))
    })
}

/// Whether the lock is a process's, as the caller's system call says.
async fn is_process(op: &Op, unique: u64, wait: &WaitingLock) -> bool {
    if let Some(process) = wait.process {
        return process;
    }
    let pid = wait.caller.pid;
    if pid == 0 {
        return false;
    }
    let ticket = op.with(|core| {
        core.state.last_ticket += 1;
        let ticket = core.state.last_ticket;
        core.state.kinds.insert(ticket, None);
        core.emit(SessionOut::HowItWaits { ticket, pid });
        ticket
    });
    let told = op.wait(WaitKey::Read(ticket), |core| core.state.kinds.get_mut(&ticket).and_then(Option::take)).await;
    op.with(|core| {
        core.state.kinds.remove(&ticket);
        let process = told.ok().flatten();
        let seq = lock::seq_of(core, unique);
        if let Some(wait) = seq.and_then(|seq| core.state.waiting.get_mut(&seq)) {
            wait.process = process;
        }
        process == Some(true)
    })
}

/// A circle of waits through this one of ours, as far as it can be seen step by step.
async fn search(op: &Op, me: Locker, seq: RequestSeq) -> Option<Vec<WaitEdge>> {
    let mut reached: BTreeMap<Locker, WaitEdge> = BTreeMap::new();
    let mut frontier = vec![me];
    for _ in 0..DEADLOCK_DEPTH_MAX {
        let mut next = Vec::new();
        for edge in edges(op, &frontier).await? {
            if edge.waiter == me && edge.seq != seq {
                continue; // another thread of ours
            }
            if edge.blocker == me {
                return Some(circle(&reached, me, edge));
            }
            if reached.len() < DEADLOCK_OWNERS_MAX && !reached.contains_key(&edge.blocker) {
                reached.insert(edge.blocker, edge);
                next.push(edge.blocker);
            }
        }
        if next.is_empty() {
            return None;
        }
        frontier = next;
    }
    None
}

/// The way that led to us.
fn circle(reached: &BTreeMap<Locker, WaitEdge>, me: Locker, last: WaitEdge) -> Vec<WaitEdge> {
    let mut circle = vec![last];
    let mut at = last.waiter;
    while at != me {
        let edge = reached[&at];
        circle.push(edge);
        at = edge.waiter;
    }
    circle
}

/// Whether nothing of a circle has changed.
async fn stands(op: &Op, circle: &[WaitEdge]) -> bool {
    let waiters: Vec<Locker> = circle.iter().map(|edge| edge.waiter).collect();
    let now = edges(op, &waiters).await;
    now.is_some_and(|now| circle.iter().all(|edge| now.contains(edge)))
}

/// For whom these wait, by what all shards know; nothing if one of them does not say.
async fn edges(op: &Op, of: &[Locker]) -> Option<Vec<WaitEdge>> {
    let mut all = Vec::new();
    for some in of.chunks(LOCKERS_ASKED_MAX) {
        let peers: Vec<NodeId> = op.with(|core| core.state.config.map.all().map(NodeId::shard).collect());
        let ask = |core: &mut Core<State>, to: NodeId, seq| {
            let slot = core.state.a_slot_of[to.as_shard().expect("one of the shards").0 as usize];
            let body = core.state.own_body(Request::LockWaits { of: some.to_vec() });
            Packet::new(&header(core, MessageKind::Request, to, slot, seq), &body)
        };
        for answer in op.call_all(&peers, ask).await.ok()? {
            let Answer::Packet(packet) = answer else { return None };
            let Ok(Reply::LockWaits { edges }) = packet.body() else { return None };
            all.extend(edges);
        }
    }
    Some(all)
}

/// Our lock is to be given up, unless it was granted or somebody gives it up already.
fn give_up(op: &Op, unique: u64, seq: RequestSeq) -> bool {
    op.with(|core| {
        let same = lock::seq_of(core, unique) == Some(seq);
        let Some(wait) = core.state.waiting.get_mut(&seq).filter(|w| same && !w.cancelling) else { return false };
        (wait.cancelling, wait.deadlocked) = (true, true);
        true
    })
}
