//! Writes of files: as questions about them, and as what data nodes answer by themselves.

use super::gated::Gated;
use super::{Checker, Excuse, Pending, Write, kinds, log};
use onpath_wire::data::{self, DataRequest};
use onpath_wire::disk::Stored;
use onpath_wire::disk::block::{DataRecord, PendingMerge, UndoneWrite};
use onpath_wire::disk::record::{Answer, Effect, Record};
use onpath_wire::ids::{InodeId, LogSeq, NodeId, RecordSeq, RequestSeq, SessionId};
use onpath_wire::innet::{InNet, VisibilityResult};
use onpath_wire::packet::Packet;
use onpath_wire::reply::Reply;
use onpath_wire::request::{Request, RequestBody};
use std::collections::VecDeque;

/// Records of homes that are remembered: a power loss takes the last ones.
const LEARNED_MAX: usize = 4_096;

/// A home has learned the writes of a file up to a position, by a record of its process.
pub(super) struct Learned {
    file: InodeId,
    upto: LogSeq,
    process: usize,
    lsn: u64,
}

/// The first record by which a home has learned a write.
pub(super) fn learned(all: &VecDeque<Learned>, (file, seq): log::At) -> Option<(usize, u64)> {
    let learned = all.iter().find(|learned| learned.file == file && seq <= learned.upto);
    learned.map(|learned| (learned.process, learned.lsn))
}

impl Pending {
    /// Whether that answers it. Of what its session has brought the home, R-17 holds too.
    pub(super) fn may_get(&self, reply: &Reply) -> bool {
        self.brought && matches!(reply, Reply::NewTerm { .. }) || kinds::may_answer(&self.asked, reply)
    }
}

impl Checker {
    /// A session sends a request: perhaps it brings the home what a data node has recorded of a write.
    pub(super) fn brings(&mut self, session: SessionId, seq: RequestSeq, request: &Request) {
        if matches!(request, Request::Learn { .. }) {
            self.pending(session, seq).into_iter().for_each(|write| write.brought = true);
        }
    }

    /// A data node has journaled a record at `lsn`. A write that it answers by itself happens when somebody may see it.
    pub fn recorded(&mut self, process: usize, lsn: u64, by: NodeId, (seq, bytes): (RecordSeq, &[u8])) {
        match DataRecord::from_stored(bytes) {
            Ok(DataRecord::Written { merge, stamp, .. }) if merge.part.is_some() => {
                let PendingMerge { data, session, request, oldest, .. } = merge;
                let (answer, effects) = (Answer::Written { id: data.inode }, vec![]);
                let record = Record { stamp, session, request, oldest, uid: 0, answer, effects };
                self.happened([2, record.session.0.into(), record.request.0]);
                self.gated.push_back(Gated::write(by, (process, lsn), record, (data.inode, LogSeq(seq.0))));
            }
            Ok(DataRecord::Restored { writes, .. }) => {
                for UndoneWrite { record, merge } in writes.into_iter().filter(|undone| undone.merge.part.is_some()) {
                    if !self.unseen(merge.session, merge.request) {
                        let at = (merge.data.inode, LogSeq(record.0));
                        let lost_power = self.lost_power;
                        let mut cut = self.log.undone(&mut self.model, at, |at| learned(&self.learned, at));
                        self.are_hollow(&mut cut, |acknowledged| lost_power || !acknowledged);
                        self.lose(cut, lost_power);
                    }
                }
            }
            Ok(_) => {}
            Err(error) => self.violation(format!("{by:?} journals what does not decode: {error}")),
        }
    }

    /// Everybody is shown the writes of a file up to this position.
    pub(super) fn written(&mut self, file: InodeId, upto: LogSeq) {
        self.expose(|gated| gated.write.is_some_and(|(of, seq)| of == file && seq <= upto));
    }

    /// A home has learned writes.
    pub(super) fn learns(&mut self, by: NodeId, record: &Record, (process, lsn): (usize, u64)) {
        for effect in &record.effects {
            if let Effect::Merged { data, last: Some(last), .. } = effect {
                self.learns_of_gone(by, (data.inode, *last), (process, lsn));
                self.learned.push_back(Learned { file: data.inode, upto: *last, process, lsn });
                if self.learned.len() > LEARNED_MAX {
                    self.learned.pop_front();
                }
                self.written(data.inode, *last);
            }
        }
    }

    /// The last of the writes that a home learns is one that its data node has lost since: a table or a message has kept what it said of them,
    /// which is all but the bytes.
    fn learns_of_gone(&mut self, by: NodeId, last: log::At, at: (usize, u64)) {
        if !self.gone.contains_key(&last) {
            return;
        }
        let of_file: Vec<_> = self.gone.range((last.0, LogSeq(0))..=last).map(|(at, _)| *at).collect();
        for (session, seq, asked) in of_file.iter().filter_map(|at| self.gone.remove(at)).collect::<Vec<_>>() {
            self.excuse(Excuse::Hollow);
            self.reviving.remove(&(session, seq));
            self.unasked(by, last.0, (session, seq), asked, at);
        }
    }

    /// A crash has left this prefix of a process's journal.
    pub(super) fn forget_learned(&mut self, process: usize, kept: u64) {
        self.learned.retain(|learned| learned.process != process || learned.lsn <= kept);
    }

    /// An answer of a data node has passed a switch, whose table shows what it says.
    pub(super) fn installed(&mut self, packet: &Packet) {
        if let Some(InNet::Visibility(install)) = packet.innet.as_deref()
            && install.result() == Some(VisibilityResult::Installed)
            && let Ok(pending) = data::Pending::unproven(&install.metadata)
        {
            self.written(pending.writes.data.inode, pending.writes.last);
        }
    }

    /// A power loss has undone a write that nobody has seen; false if somebody may have.
    pub(super) fn unseen(&mut self, session: SessionId, request: RequestSeq) -> bool {
        let before = self.gated.len();
        self.gated.retain(|gated| {
            gated.write.is_none() || (gated.record.session, gated.record.request) != (session, request)
        });
        self.gated.len() < before
    }
}

/// A write of bytes, or another change of a file at its data node, as a question about the file.
pub(super) fn write_of(request: &DataRequest, packet: &Packet) -> Option<(RequestBody, Option<Write>)> {
    let (data, end, kill_suidgid) = match *request {
        DataRequest::Write { data, offset, kill_suidgid, .. } => {
            (data, offset + packet.bulk.len() as u64, kill_suidgid)
        }
        DataRequest::Allocate { data, end, kill_suidgid, .. } => (data, end, kill_suidgid),
        DataRequest::Copy { data, offset, bytes, kill_suidgid, .. } => (data, offset + u64::from(bytes), kill_suidgid),
        DataRequest::Read { .. }
        | DataRequest::Seek { .. }
        | DataRequest::Sync { .. }
        | DataRequest::Space
        | DataRequest::Shown { .. }
        | DataRequest::Kept
        | DataRequest::HandOver { .. }
        | DataRequest::HandOverAll { .. }
        | DataRequest::Collect { .. }
        | DataRequest::CollectMany { .. }
        | DataRequest::Track { .. }
        | DataRequest::Trim { .. }
        | DataRequest::Drop { .. } => return None,
    };
    let body = RequestBody::of_session(Request::DataRef { id: data.inode });
    Some((body, Some(Write { end, kill_suidgid })))
}
