//! The only way to change durable state: commit a record, which journals and applies it in one step.

use crate::Core;
use crate::cached;
use crate::ops::Req;
use crate::planted::{self, Planted};
use crate::state::{State, keys};
use onpath_kernel::{Key, OpId};
use onpath_wire::disk::Stored;
use onpath_wire::disk::record::{Answer, Effect, Log, Record};
use onpath_wire::ids::{InodeId, LogSeq, RecordSeq, RequestSeq, SessionId, Stamp};
use onpath_wire::reply::Reply;
use onpath_wire::secrets::NameKey;

/// Effects of one step, in order.
pub(crate) type Effects = Vec<Effect>;

/// Room for most records at once: a create or an unlink has about 200.
const RECORD_BYTES: usize = 256;

/// Journals and applies what a client's request does, and gives its reply.
pub(crate) fn commit(core: &mut Core, op: OpId, req: &Req, stamp: Stamp, answer: Answer, effects: Effects) -> Reply {
    let record = Record {
        stamp,
        session: req.session,
        request: req.seq,
        oldest: req.oldest,
        uid: req.caller.uid,
        answer,
        effects,
    };
    record_and_apply(core, op, record).expect("a client's record has an answer")
}

/// Journals and applies the shard's own work.
pub(crate) fn commit_own(core: &mut Core, op: OpId, effects: Effects) -> RecordSeq {
    let record = own(core, effects);
    record_and_apply(core, op, record);
    core.state.record_seq
}

/// The same outside of any operation: no output rests on it, so that who relies on it waits until it is durable.
pub(crate) fn commit_unasked(core: &mut Core, effect: Effect) {
    let record = own(core, vec![effect]);
    let seq = core.state.next_record();
    core.append_unasked(seq, record.to_stored());
    core.state.apply_live(&record);
}

fn own(core: &Core, effects: Effects) -> Record {
    Record {
        stamp: core.state.clock.last(),
        session: SessionId(0),
        request: RequestSeq(0),
        oldest: RequestSeq(0),
        uid: 0,
        answer: Answer::Nothing,
        effects,
    }
}

fn record_and_apply(core: &mut Core, op: OpId, record: Record) -> Option<Reply> {
    debug_assert!(
        !record.effects.iter().any(|effect| is_shown(core, effect)),
        "{record:?} is shown otherwise by a switch"
    );
    let seq = core.state.next_record();
    let mut bytes = Vec::with_capacity(RECORD_BYTES);
    record.store(&mut bytes);
    let names = core.state.names.key();
    core.append(op, seq, bytes, record.effects.iter().flat_map(|effect| touched(names, effect)));
    let reply = core.state.apply_live(&record);
    record.effects.iter().filter_map(is_shown_late).for_each(|id| cached::moved(core, id));
    crate::dir::site::appended(core, op, &record);
    reply
}

/// What an effect changes by and by, whoever looks: a switch goes on to show that as it was for a moment (C-6).
fn is_shown_late(effect: &Effect) -> Option<InodeId> {
    match effect {
        Effect::Accessed { id, .. } => Some(*id),
        Effect::DataDone { data, drop: false, .. } => Some(data.inode), // how many blocks are left when it was cut
        _ => None,
    }
}

/// Whether a switch may go on to show what an effect changes (C-6).
fn is_shown(core: &Core, effect: &Effect) -> bool {
    let id = match effect {
        Effect::PutInode { inode } => inode.id,
        Effect::DropInode { id } | Effect::SetXattr { id, .. } | Effect::RemoveXattr { id, .. } => *id,
        Effect::Merged { data, .. } => data.inode,
        _ => return false,
    };
    core.state.cached.is_filled(id) && !planted::is(Planted::ChangesUncleared)
}

/// The objects that an effect changes: whoever shows one of them rests on its record.
fn touched(names: NameKey, effect: &Effect) -> impl Iterator<Item = Key> {
    let keys = match effect {
        Effect::PutName { parent, name, log, .. } | Effect::DropName { parent, name, log, .. } => {
            let listed_here = (log.seq == LogSeq(0)).then(|| keys::inode(*parent));
            [Some(Key(names.hash(*parent, name.as_bytes()))), listed_here]
        }
        Effect::PutInode { inode } => [Some(keys::inode(inode.id)), None],
        Effect::DropInode { id }
        | Effect::Accessed { id, .. }
        | Effect::Further { id, .. }
        | Effect::SetXattr { id, .. }
        | Effect::RemoveXattr { id, .. } => [Some(keys::inode(*id)), None],
        Effect::AppliedLog { dir, .. } => [Some(keys::inode(*dir)), None],
        Effect::Merged { data, .. } | Effect::DataDone { data, .. } => [Some(keys::inode(data.inode)), None],
        _ => [None, None],
    };
    keys.into_iter().flatten()
}

impl State {
    /// The number of the next record.
    pub(crate) fn next_record(&mut self) -> RecordSeq {
        self.record_seq.0 += 1;
        self.counters.records += 1;
        self.record_seq
    }

    /// How a change of a name in `dir` reaches the directory: at once if its owner is here, else by the change-log.
    pub(crate) fn log(&mut self, dir: InodeId, dcount: i8, dnlink: i8) -> Log {
        let seq = if self.is_home(dir) { LogSeq(0) } else { self.dirs.next_log_seq(self.config.term) };
        Log { seq, dcount, dnlink }
    }
}
