//! What the visibility tables of switches tell homes of writes that data nodes have answered (V-8, V-9).

use super::{holders, learn};
use crate::ops::{Req, Step, Stop};
use crate::shard::Job;
use crate::state::{State, keys};
use crate::{Core, Cx};
use onpath_wire::data::{Answered, DataReply, DataRequest, Pending};
use onpath_wire::errno::Errno;
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{InodeId, NodeId, RecordSeq, RequestSeq, SessionId};
use onpath_wire::innet::{InNet, Visibility, VisibilityOp, VisibilityResult};
use onpath_wire::limits::OPERATIONS_MAX;
use onpath_wire::packet::Packet;
use onpath_wire::tracking::Writes;

/// What a switch has answered a reader's look on its way here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Looked(Option<Box<Visibility>>);

impl Looked {
    /// The answer in a packet; none if it did not pass a switch.
    pub(crate) fn of(packet: &Packet) -> Looked {
        match packet.innet.as_deref() {
            Some(InNet::Visibility(look)) if look.op() == Some(VisibilityOp::Look) => Looked(Some(Box::new(*look))),
            _ => Looked(None),
        }
    }
}

/// What is to be done before a file is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sees {
    /// Nothing.
    All,
    /// The data node is asked what it has answered.
    Collect,
    /// The data node gives the part back.
    Recall,
}

/// What a reader sees of a lent file; learns what a table has shown it.
pub(super) fn sees(core: &mut Core, cx: &Cx, id: InodeId, looked: &Looked) -> Sees {
    if id.is_directory() || !holders::is_lent(&core.state, id) {
        return Sees::All;
    }
    let tables = core.state.epochs.owner.has_files();
    if holders::may_be_of_former_term(&core.state, id) {
        return if tables { Sees::Collect } else { Sees::Recall };
    }
    if core.state.config.writes == Writes::TwoPhase {
        return Sees::All; // what its writer has not brought here has not returned
    }
    if !tables {
        return Sees::Recall;
    }
    match believed(&core.state, id, looked) {
        Some(None) => core.state.counters.looks_none += 1,
        Some(Some(pending)) if learn::learn_all(core, cx, &[pending.writes]) => core.state.counters.looks_pending += 1,
        _ => return Sees::Collect,
    }
    core.rest_on_object(cx.op(), keys::inode(id));
    Sees::All
}

/// What is pending of a file, if a table tells that in the epoch that this home knows.
fn believed(state: &State, id: InodeId, looked: &Looked) -> Option<Option<Pending>> {
    let (look, entry) = (looked.0.as_deref()?, state.config.map.entry(id));
    let (_, epoch) = state.epochs.owner.table_of(entry);
    if look.epoch != epoch.0 || look.name() != Some(entry) {
        return None;
    }
    match look.result()? {
        VisibilityResult::None => Some(None),
        // Of a file with the same fingerprint: nothing is pending of this one.
        VisibilityResult::Pending => {
            let pending = Pending::of(&look.metadata, &state.tickets).ok()?;
            Some(Some(pending).filter(|pending| pending.writes.data.inode == id))
        }
        _ => None,
    }
}

/// An answer of a data node has come by a switch. Shown, it is no concern of the home, which hears of it in time; else the session was not
/// answered, and the home does that.
pub(crate) fn installed(core: &mut Core, install: &Visibility) {
    let is_shown = install.result() == Some(VisibilityResult::Installed);
    core.state.counters.installs_shown += u64::from(is_shown);
    if is_shown {
        return;
    }
    match Pending::of(&install.metadata, &core.state.tickets) {
        Ok(pending) if core.state.is_home(pending.writes.data.inode) => {
            let running = &mut core.state.running;
            // Of a copy, or if too much is under way, nothing comes: the session asks its data node again.
            if running.len() < OPERATIONS_MAX && running.insert((pending.session, pending.request)) {
                core.start(Job::PassOn(Box::new(pending)));
            }
        }
        _ => core.state.counters.malformed += 1,
    }
}

/// Answers a write that the data node has recorded and no table shows, when it is durable there: the session hears of no record on which
/// that rests.
pub(crate) async fn pass_on(cx: &Cx, pending: Pending) {
    pass_on_learned(cx, &pending).await;
    cx.with(|core| core.state.running.remove(&(pending.session, pending.request)));
}

async fn pass_on_learned(cx: &Cx, pending: &Pending) {
    let data = pending.writes.data;
    if !cx.with(|core| learn::learn_all(core, cx, &[pending.writes])) {
        return; // the session asks again
    }
    let node = cx.with(|core| core.state.config.map.data(data.inode));
    let synced = cx.call(node, |core, seq| core.state.data_packet(seq, &DataRequest::Sync { data })).await;
    if synced.body() != Ok(DataReply::Synced) {
        return;
    }
    cx.with(|core| {
        core.state.counters.installs_passed_on += 1;
        answer(core, cx, (pending.session, pending.request), data.inode, RecordSeq(0));
    });
}

/// Answers a write in the name of its data node, when what was learned of the file is as durable as an answer has to be.
fn answer(core: &mut Core, cx: &Cx, to: (SessionId, RequestSeq), id: InodeId, record: RecordSeq) {
    core.rest_on_object(cx.op(), keys::inode(id));
    let header = core.state.header(MessageKind::DataReply, to.1);
    core.send(cx.op(), NodeId::session(to.0), Packet::new(&header, &DataReply::Written { record }));
}

/// A session brings what a data node has recorded for it, and its write is answered.
pub(crate) fn brought(cx: &Cx, req: &Req, writes: Answered, record: RecordSeq) -> Step {
    cx.with(|core| {
        if core.state.config.writes != Writes::TwoPhase || req.bound.is_some() {
            return Err(Errno::EOPNOTSUPP.into());
        }
        if !learn::learn_all(core, cx, &[writes]) {
            return Err(Stop::Over); // it asks again
        }
        answer(core, cx, (req.session, req.seq), writes.data.inode, record);
        Err(Stop::Answered)
    })
}
