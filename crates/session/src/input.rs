//! Inputs of a session: requests are admitted, interrupts find what they mean, answers find their calls.
//!
//! Upholds R-17: a reply counts only if it comes from the term under which its request was last sent; a newer term makes
//! the session send again, under it and the same sequence numbers, all that is open there.

use crate::fs::{FsOp, FsRequest, FsResult};
use crate::limits::{EARLY_INTERRUPTS_MAX, REQUESTS_RUNNING_MAX};
use crate::ops::later::{self, tell_now, would_notice};
use crate::ops::lock::{keep_window_open, resend_waits, wait_answered};
use crate::ops::open::at_once;
use crate::ops::{alone, anew, exact, hot, pages};
use crate::running::Slot;
use crate::session::{LostReason, SessionIn, SessionOut};
use crate::state::{self, Job, Phase, State, WaitKey, wake_window};
use onpath_kernel::{Core, Input, Need};
use onpath_wire::codec::Wire;
use onpath_wire::data::{Answered, DataReply, DataRequest};
use onpath_wire::errno::Errno;
use onpath_wire::header::{HEADER_BYTES, Header, MessageKind, Of, OfReply};
use onpath_wire::ids::{NodeClass, NodeId, RecordSeq, RequestSeq, ShardId, Term};
use onpath_wire::limits::SESSION_QUEUE_MAX;
use onpath_wire::packet::Packet;
use onpath_wire::reply::Reply;
use onpath_wire::request::describe::Changes;
use onpath_wire::request::{Request, RequestBody};

/// Takes one input.
pub(crate) fn on_input(core: &mut Core<State>, input: Input<SessionIn>) {
    match input {
        Input::Packet(packet) => receive(core, packet),
        Input::Own(SessionIn::Fs(request)) => match request.op {
            FsOp::Interrupt { unique } => interrupt(core, unique),
            _ => admit(core, request),
        },
        Input::Own(SessionIn::Caller { ticket, read }) => {
            if let Some(place) = core.state.callers.get_mut(&ticket) {
                *place = Some(read);
                core.wake(WaitKey::Read(ticket).hash());
            }
        }
        Input::Own(SessionIn::WaitsAs { ticket, process }) => {
            if let Some(place) = core.state.kinds.get_mut(&ticket) {
                *place = Some(process);
                core.wake(WaitKey::Read(ticket).hash());
            }
        }
        Input::Own(SessionIn::PeerReset(node)) => {
            core.resend_all(node);
            resend_waits(core, node);
            if let (Phase::Joined, Some(shard)) = (core.state.phase, node.as_shard()) {
                core.start(Job::Greet { shard }); // it may have restarted, and others wait for what is held there
            }
        }
        Input::Own(SessionIn::Anew { session }) => anew::begin(core, session),
        Input::Own(SessionIn::WrittenBack { id }) => pages::written_back(core, id),
        Input::Own(SessionIn::Shared) => alone::shared(core),
        Input::Own(SessionIn::AccessTimes(times)) => later::access_times(core, times),
        Input::Own(SessionIn::Shutdown) => shut_down(core),
        Input::Tick | Input::Durable(_) => {}
    }
}

fn shut_down(core: &mut Core<State>) {
    match core.state.phase {
        Phase::Joining | Phase::Expired => lose(core, LostReason::Detached),
        Phase::Joined | Phase::Reopening => {
            core.state.phase = Phase::Leaving;
            tell_now(core);
            core.start(Job::Detach);
        }
        Phase::Leaving | Phase::Lost => {}
    }
}

fn reply(core: &mut Core<State>, unique: u64, result: FsResult) {
    core.emit(SessionOut::Reply { unique, result });
}

/// Starts a request, or queues it until the session has joined and has room.
fn admit(core: &mut Core<State>, request: FsRequest) {
    let state = &mut core.state;
    if matches!(state.phase, Phase::Lost | Phase::Leaving) {
        return reply(core, request.unique, Err(Errno::ENOTCONN));
    }
    if state.phase != Phase::Joined || state.running.len() >= REQUESTS_RUNNING_MAX || !state.queue.is_empty() {
        if state.queue.len() >= SESSION_QUEUE_MAX {
            return reply(core, request.unique, Err(Errno::EAGAIN));
        }
        return state.queue.push_back(request);
    }
    begin(core, request);
}

fn begin(core: &mut Core<State>, request: FsRequest) {
    if would_notice(&core.state.later, &request.op) {
        tell_now(core);
    }
    if let Some(result) = at_once(core, &request.op) {
        return reply(core, request.unique, result);
    }
    let state = &mut core.state;
    let slot = state.running.enter(request.unique);
    let unique = request.unique;
    let early = !state.early_interrupts.is_empty() && state.early_interrupts.contains(&unique);
    core.start(Job::Fs(slot, request));
    if early {
        interrupt_running(core, slot, unique);
    }
}

/// Starts queued requests as long as there is room.
pub(crate) fn drain_queue(core: &mut Core<State>) {
    while core.state.phase == Phase::Joined && core.state.running.len() < REQUESTS_RUNNING_MAX {
        let Some(request) = core.state.queue.pop_front() else { return };
        begin(core, request);
    }
}

/// A running request ends; without a result somebody else answers it later (a waiting lock).
pub(crate) fn finish(core: &mut Core<State>, slot: Slot, unique: u64, result: Option<FsResult>) {
    if let Some(result) = result {
        reply(core, unique, result);
    }
    core.state.running.leave(slot);
    wake_window(core);
    if !core.state.waiting.is_empty() {
        keep_window_open(core);
    }
    if !core.state.queue.is_empty() {
        drain_queue(core);
    }
}

/// The caller of a request got a signal.
fn interrupt(core: &mut Core<State>, unique: u64) {
    let state = &mut core.state;
    if let Some(at) = state.queue.iter().position(|r| r.unique == unique) {
        state.queue.remove(at);
        return reply(core, unique, Err(Errno::EINTR));
    }
    if let Some((_, wait)) = state.waiting.iter_mut().find(|(_, w)| w.unique == unique && !w.answered) {
        if !wait.cancelling || wait.deadlocked {
            (wait.cancelling, wait.deadlocked) = (true, false);
            core.start(Job::CancelWait(unique));
            core.start(Job::CancelTimeout(unique));
        }
        return;
    }
    if let Some(slot) = state.running.find(unique) {
        return interrupt_running(core, slot, unique);
    }
    if state.early_interrupts.len() == EARLY_INTERRUPTS_MAX {
        state.early_interrupts.pop_front();
    }
    state.early_interrupts.push_back(unique);
}

fn interrupt_running(core: &mut Core<State>, slot: Slot, unique: u64) {
    let running = core.state.running.get(slot).expect("a running request");
    if !running.interrupted {
        running.interrupted = true;
        core.start(Job::Interrupt { slot, unique });
    }
}

/// Ends what a request waits for: it continues with this error and asks nobody any more.
pub(crate) fn abandon(core: &mut Core<State>, slot: Slot, errno: Errno) {
    let Some(running) = core.state.running.get(slot) else { return };
    running.abandoned = Some(errno);
    let (first, calls, parked) = (running.first_call, running.calls, running.parked);
    let mut uncertain = false;
    for seq in (first.0..first.0 + calls).map(RequestSeq) {
        uncertain |= core.open_call(seq).is_some_and(|(_, packet)| matters(packet));
        let header = Header::new(MessageKind::Reply, core.state.node, seq);
        core.answer(seq, Packet::new(&header, &Reply::Failed { errno }));
    }
    if let Some(key) = parked {
        core.wake(key);
    }
    if uncertain {
        alone::doubt(core);
    }
}

/// Whether a session must know what has become of a message.
fn matters(packet: &Packet) -> bool {
    match packet.header().map(|header| header.kind()) {
        Ok(MessageKind::Request) => packet.body::<RequestBody>().is_ok_and(|body| body.request.describe().matters()),
        _ => packet.body::<DataRequest>().is_ok_and(|request| request.describe().writes),
    }
}

/// The session is over: everybody is answered.
pub(crate) fn lose(core: &mut Core<State>, reason: LostReason) {
    if core.state.phase == Phase::Lost {
        return;
    }
    // Who leaves may hear of its end by another answer than that to its farewell.
    let reason = if core.state.phase == Phase::Leaving { LostReason::Detached } else { reason };
    core.state.phase = Phase::Lost;
    while let Some(request) = core.state.queue.pop_front() {
        reply(core, request.unique, Err(Errno::ENOTCONN));
    }
    for slot in core.state.running.all() {
        abandon(core, slot, Errno::EIO);
    }
    for (_, wait) in std::mem::take(&mut core.state.waiting) {
        if !wait.answered {
            reply(core, wait.unique, Err(Errno::EIO));
        }
    }
    core.emit(SessionOut::Lost(reason));
}

/// A message has come; what is not an answer to something open, or comes from an older term, is dropped.
fn receive(core: &mut Core<State>, packet: Packet) {
    let Ok(mut header) = packet.header() else { return };
    if header.source.class() == Some(NodeClass::Controller) {
        return hot::controller(core, &header, &packet);
    }
    if header.seq != RequestSeq(0) {
        // Operations count their calls, whichever session of this id makes them.
        let Some(count) = core.state.config.session.count_of(header.seq) else {
            return; // an answer to who had the id before
        };
        header.seq = count;
    }
    let now = core.now;
    core.state.observe(header.stamp, now);
    match (&header.of, header.source.class()) {
        (Of::Reply(replied), Some(NodeClass::Shard)) => receive_reply(core, &header, replied, packet),
        (Of::Request(_), _) if header.source == core.state.node && packet.answered_by_cache().is_some() => {
            deliver(core, header.seq, packet);
        }
        (Of::DataReply, Some(NodeClass::Data)) => receive_data_reply(core, &header, packet),
        (Of::DataReply, Some(NodeClass::Shard)) => receive_passed_on(core, &header, packet),
        // It executes nothing, so whichever life of it answers.
        (Of::Reply(_), Some(NodeClass::Path))
            if core.open_call(header.seq).is_some_and(|(to, _)| to == header.source) =>
        {
            deliver(core, header.seq, packet);
        }
        _ => {}
    }
}

/// A data node executes writes of its term only, and does everything else under any.
fn receive_data_reply(core: &mut Core<State>, header: &Header, packet: Packet) {
    let known = core.state.term(header.source);
    if header.term < known || core.state.config.map.data_nodes().all(|node| node != header.source) {
        return;
    }
    if core.open_call(header.seq).is_some_and(|(to, _)| to == header.source) {
        match packet.body() {
            Ok(DataReply::NewTerm { .. }) => {}
            Ok(DataReply::Recorded { writes, record }) => bring(core, header.seq, writes, record),
            _ => deliver(core, header.seq, packet),
        }
    }
    if header.term > known {
        if known != Term(0) {
            alone::restarted(core);
        } else {
            exact::restarted(core); // what homes said before may be of a term before
        }
        core.state.data_terms.insert(header.source, header.term);
        if core.state.unsynced.rests_on(header.source) {
            core.start(Job::AskKept { node: header.source });
        }
        core.resend_all(header.source);
    }
}

/// Brings the home of a file what the data node has recorded; then the home answers the write. If that is lost the data node is asked once
/// more.
fn bring(core: &mut Core<State>, seq: RequestSeq, writes: Answered, record: RecordSeq) {
    let id = writes.data.inode;
    let home = NodeId::shard(core.state.config.map.home(id));
    let header = state::header(core, MessageKind::Request, home, id.slot(), seq);
    let packet = Packet::new(&header, &RequestBody::of_session(Request::Learn { writes, record }));
    core.send_after(home, packet, RecordSeq(0), Need::ByDestination);
}

/// The home of a file says what its data node has answered, which no table of a switch shows (V-8).
fn receive_passed_on(core: &mut Core<State>, header: &Header, packet: Packet) {
    let is_known = core.state.terms.get(header.source.number() as usize).is_some_and(|known| header.term >= *known);
    let asked = core.open_call(header.seq).and_then(|(to, _)| to.class());
    let is_written = matches!(packet.body(), Ok(DataReply::Written { .. }));
    if is_known && is_written && asked == Some(NodeClass::Data) {
        deliver(core, header.seq, packet);
    }
}

fn receive_reply(core: &mut Core<State>, header: &Header, replied: &OfReply, packet: Packet) {
    let shard = ShardId(header.source.number() as u16);
    let Some(&known) = core.state.terms.get(shard.0 as usize) else { return };
    if let Some(term) = new_term(&packet) {
        return adopt(core, shard, term);
    }
    if header.term < known {
        return;
    }
    adopt(core, shard, header.term);
    core.state.trackings[shard.0 as usize] = replied.tracked;
    if header.seq == RequestSeq(0) {
        return match packet.body::<Reply>() {
            Ok(Reply::GiveBack { alone }) => alone::give_back(core, alone),
            Ok(Reply::MayBeAlone) => alone::ask(core),
            Ok(Reply::WriteBack { id }) => pages::asked(core, id),
            _ => {}
        };
    }
    match core.open_call(header.seq).map(|(to, _)| to) {
        // The answer of a term under which the request was not last sent: `adopt` has sent it again.
        Some(to) if to == header.source && header.term != known => {}
        // A write goes to the data node, and is answered by the file's home; what a path node was asked, by the site of the last name.
        Some(to) if to == header.source || matches!(to.class(), Some(NodeClass::Data | NodeClass::Path)) => {
            deliver(core, header.seq, packet);
            if let Some(shard) = core.state.opened(shard, header.seq) {
                core.start(Job::Greet { shard });
            }
        }
        Some(_) => {}
        None => {
            if core.state.waiting.contains_key(&header.seq) {
                wait_answered(core, header.seq, &packet);
            }
        }
    }
}

fn deliver(core: &mut Core<State>, seq: RequestSeq, packet: Packet) {
    core.answer(seq, packet);
    wake_window(core);
}

/// The term that a `NewTerm` reply names.
fn new_term(packet: &Packet) -> Option<Term> {
    const NEW_TERM_TAG: u8 = 15;
    if packet.head.get(HEADER_BYTES) != Some(&NEW_TERM_TAG) {
        return None;
    }
    match Reply::from_bytes(&packet.head[HEADER_BYTES..]) {
        Ok(Reply::NewTerm { term }) => Some(term),
        _ => None,
    }
}

/// A shard is in a newer term than known: joins again at the coordinator, opens and locks again what this session has
/// there, and sends again what is open, in this order.
fn adopt(core: &mut Core<State>, shard: ShardId, term: Term) {
    let known = &mut core.state.terms[shard.0 as usize];
    if term <= *known {
        return;
    }
    let first_contact = *known == Term(0);
    *known = term;
    if matches!(core.state.phase, Phase::Joined | Phase::Reopening) && shard == core.state.config.map.coordinator() {
        core.start(Job::Attach { again: true });
    }
    if first_contact {
        resend(core, shard);
    } else {
        alone::restarted(core); // before anything is answered under the new term
        // Before anything else is said under the new term.
        core.state.relock(shard);
        core.state.reopening[shard.0 as usize] += 1;
        note_opening(core, shard);
        core.start(Job::Restore { shard, term });
        let node = NodeId::shard(shard);
        if core.state.unsynced.rests_on(node) {
            core.start(Job::AskKept { node });
        }
    }
}

/// Notes which requests under way open something at a shard: it may have executed them in its former term, and forgotten that.
fn note_opening(core: &mut Core<State>, shard: ShardId) {
    core.state.opening.retain(|(at, _)| *at != shard);
    for (seq, to) in core.open_calls() {
        let opens = to == NodeId::shard(shard)
            && core.open_call(seq).is_some_and(|(_, packet)| {
                packet.header().is_ok_and(|header| header.kind() == MessageKind::Request)
                    && packet.body::<RequestBody>().is_ok_and(|body| registers(&body.request))
            });
        if opens {
            core.state.opening.insert((shard, seq));
        }
    }
}

fn registers(request: &Request) -> bool {
    request.describe().changes.has(Changes::OPENS)
}

/// Sends all that is open at a shard again, under its present term.
pub(crate) fn resend(core: &mut Core<State>, shard: ShardId) {
    core.resend_all(NodeId::shard(shard));
    resend_waits(core, NodeId::shard(shard));
}
