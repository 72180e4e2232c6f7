//! A session that was declared dead while nobody heard of it goes on as another one.
//!
//! The servers have given away its locks and closed what it had open. What it had asked for was executed before its death, or never is
//! which of both, nobody knows. So what may be asked twice is asked again: what only looks, writes at a given place, opens. The
//! rest ends with EIO: an append, a change of names or attributes. Files of which it had locks say EIO through all handles of that time:
//! others may have relied on the locks since. What is open otherwise is registered again under the new id. With nothing lost nobody
//! notices more than a wait.

use crate::limits::RESTORE_BATCH;
use crate::op::Op;
use crate::ops::open::left;
use crate::ops::{alone, exact, lease, pages};
use crate::session::SessionOut;
use crate::state::{Job, Lease, Phase, State, header};
use onpath_kernel::Core;
use onpath_wire::data::DataRequest;
use onpath_wire::errno::Errno;
use onpath_wire::header::{Header, MessageKind};
use onpath_wire::ids::{InodeId, NodeId, SessionNumber};
use onpath_wire::packet::Packet;
use onpath_wire::reply::Reply;
use onpath_wire::request::describe::Changes;
use onpath_wire::request::{Request, RequestBody, open};
use std::collections::BTreeSet;

/// The coordinator does not know the session any more: its host is asked for another id.
pub(crate) fn expired(core: &mut Core<State>) {
    match core.state.phase {
        Phase::Joining | Phase::Joined | Phase::Reopening => {
            end_life(core);
            core.emit(SessionOut::Expired);
        }
        Phase::Leaving => crate::input::lose(core, crate::session::LostReason::Detached),
        Phase::Expired | Phase::Lost => {}
    }
}

/// From now on it is this session.
pub(crate) fn begin(core: &mut Core<State>, session: SessionNumber) {
    match core.state.phase {
        Phase::Leaving | Phase::Lost => return,
        Phase::Expired => {}
        Phase::Joining | Phase::Joined | Phase::Reopening => end_life(core),
    }
    core.state.lives += 1;
    core.state.config.session = session;
    core.state.node = NodeId::session(session.id());
    core.state.phase = Phase::Joining;
    core.start(Job::Attach { again: false });
}

fn end_life(core: &mut Core<State>) {
    core.state.phase = Phase::Expired;
    core.state.lease = Lease::default();
    let unlocked = core.state.held.forget_all();
    for &id in &unlocked {
        core.state.opens.lose(id);
    }
    core.state.lock_losses += u64::from(!unlocked.is_empty());
    for (_, wait) in std::mem::take(&mut core.state.waiting) {
        if !wait.answered {
            core.emit(SessionOut::Reply { unique: wait.unique, result: Err(Errno::EIO) });
        }
    }
    core.state.tickets.clear(); // they were of that session
    core.state.relock.clear();
    core.state.relocking.fill(0);
    core.state.reopening.fill(0);
    core.state.opening.clear();
    for half in core.state.halves.split_off(0) {
        left(core, half.id);
    }
    alone::over(core);
    exact::restarted(core);
    for (seq, _) in core.open_calls() {
        let goes_on = core.open_call(seq).is_some_and(|(_, packet)| may_be_asked_again(packet, &unlocked));
        if !goes_on {
            let header = Header::new(MessageKind::Reply, core.state.node, seq);
            core.answer(seq, Packet::new(&header, &Reply::Failed { errno: Errno::EIO }));
        }
    }
    // Others may have changed anything since.
    let open = core.state.opens.open();
    core.emit(SessionOut::Forget { open });
}

/// Whether a message under way may be sent under another id, as it does no harm to be executed twice. Not so if it goes by a lock that was
/// lost.
fn may_be_asked_again(packet: &Packet, unlocked: &BTreeSet<InodeId>) -> bool {
    match packet.header().map(|header| header.kind()) {
        Ok(MessageKind::Request) => packet.body::<RequestBody>().is_ok_and(|body| {
            let what = body.request.describe();
            let by_lock = what.about.inode().filter(|_| what.changes.has(Changes::LOCKS));
            what.may_be_asked_anew() && by_lock.is_none_or(|id| !unlocked.contains(&id))
        }),
        _ => packet.body::<DataRequest>().is_ok_and(|request| {
            let what = request.describe();
            let by_lock = what.data.filter(|_| what.writes);
            what.may_be_asked_anew && by_lock.is_none_or(|data| !unlocked.contains(&data.inode))
        }),
    }
}

/// Registers under the new id what is open; then requests go on.
pub(crate) async fn reopen(op: &mut Op) {
    let life = op.with(|core| core.state.lives);
    let ids = op.with(|core| core.state.opens.registered(|_| true));
    for batch in ids.chunks(RESTORE_BATCH) {
        if op.with(|core| core.state.lives != life || core.state.phase != Phase::Reopening) {
            return;
        }
        let peers: Vec<NodeId> = op.with(|core| batch.iter().map(|id| core.state.shard_at(id.slot())).collect());
        let mut next = batch.iter();
        let answers = op.call_all(&peers, |core, to, seq| {
            let id = *next.next().expect("one call an inode");
            let request = register(core, id);
            let body = core.state.own_body(request);
            Packet::new(&header(core, MessageKind::Request, to, id.slot(), seq), &body)
        });
        // An operation of the session itself is never given up.
        let Ok(answers) = answers.await else { return };
        for (answer, &id) in answers.into_iter().zip(batch) {
            let reply = answer.packet().and_then(|packet| packet.body::<Reply>().ok());
            let reply = reply.and_then(|reply| op.with(|core| core.state.take_ticket(reply)));
            let is_open = match reply {
                Some(Reply::Attr { .. }) => true,
                Some(Reply::Busy) => {
                    let again = op.with(|core| register(core, id));
                    op.ask(again).await.is_ok()
                }
                _ => false, // it has no name any more, and nobody else had it open
            };
            if !is_open {
                op.with(|core| core.state.opens.lose(id));
            }
        }
    }
    op.with(|core| {
        if core.state.lives == life && core.state.phase == Phase::Reopening {
            lease::joined(core);
            let all: Vec<NodeId> = core.state.config.map.roles().collect();
            all.into_iter().for_each(|role| core.resend_all(role));
        }
    });
}

fn register(core: &mut Core<State>, id: InodeId) -> Request {
    // Who is believed is not asked for what anew.
    let rights = if core.state.config.identity.is_some() { core.state.opens.rights(id) } else { 0 };
    Request::Open { id, flags: open::REGISTER | rights | pages::again(core, id) }
}
