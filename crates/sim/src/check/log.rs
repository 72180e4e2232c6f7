//! The log of changes in the order of their witnesses, each of which can be taken back.

use crate::client::Asked;
use crate::model::{Delta, Model};
use onpath_wire::ids::{InodeId, LogSeq, RequestSeq, SessionId};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::rc::Rc;

struct Entry {
    position: u64,
    request: (SessionId, RequestSeq),
    asked: Rc<Asked>,
    /// The process and position of its record, then of all others on which it rests.
    rests_on: SmallVec<[(usize, u64); 1]>,
    /// A write that a data node answers: the file, and its position there.
    write: Option<At>,
    created: Option<InodeId>,
    acknowledged: bool,
    delta: Delta,
}

/// Where a data node has a write that it answers: the file, and the position.
pub(super) type At = (InodeId, LogSeq);

/// A change that a crash took back.
pub(super) struct Lost {
    pub(super) position: u64,
    pub(super) session: SessionId,
    pub(super) seq: RequestSeq,
    pub(super) asked: Rc<Asked>,
    pub(super) write: Option<At>,
    pub(super) acknowledged: bool,
}

/// What a crash did to the log.
#[derive(Default)]
pub(super) struct Cut {
    pub(super) lost: Vec<Lost>,
    /// Changes that stand although they rest on lost ones.
    pub(super) contradictions: Vec<String>,
    /// Writes of which a data node has lost the bytes, and the home has the size and times; and whether each was acknowledged.
    pub(super) hollow: Vec<((SessionId, RequestSeq), bool)>,
}

/// The log.
pub(super) struct Log {
    entries: VecDeque<Entry>,
    end: u64,
    durable: Vec<u64>,
}

impl Log {
    pub(super) fn new(processes: usize) -> Log {
        Log { entries: VecDeque::new(), end: 0, durable: vec![0; processes] }
    }

    /// The position that the next change will have.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn push(
        &mut self,
        request: (SessionId, RequestSeq),
        asked: Rc<Asked>,
        (rests_on, write): (SmallVec<[(usize, u64); 1]>, Option<At>),
        created: Option<InodeId>,
        delta: Delta,
    ) -> u64 {
        let position = self.end;
        self.end += 1;
        self.entries.push_back(Entry {
            position,
            request,
            asked,
            rests_on,
            write,
            created,
            acknowledged: false,
            delta,
        });
        position
    }

    fn index(&self, position: u64) -> Option<usize> {
        self.entries.binary_search_by_key(&position, |entry| entry.position).ok()
    }

    fn is_volatile(&self, entry: &Entry) -> bool {
        entry.rests_on.iter().any(|&(process, lsn)| lsn > self.durable[process])
    }

    /// Whether a crash could take changes back.
    pub(super) fn anything_volatile(&self) -> bool {
        self.entries.back().is_some_and(|entry| self.is_volatile(entry))
    }

    /// The position of the first change that a crash could take back.
    pub(super) fn lasting(&self) -> u64 {
        let volatile = self.entries.iter().find(|entry| self.is_volatile(entry));
        volatile.map_or(self.end, |entry| entry.position)
    }

    pub(super) fn acknowledge(&mut self, position: u64) {
        if let Some(index) = self.index(position) {
            self.entries[index].acknowledged = true;
        }
    }

    pub(super) fn durable(&mut self, process: usize, lsn: u64) {
        self.durable[process] = lsn;
    }

    /// Forgets what nobody may have to go back over: changes before `oldest` that no crash can lose.
    pub(super) fn trim(&mut self, oldest: u64) {
        while self.entries.front().is_some_and(|e| e.position < oldest && !self.is_volatile(e)) {
            self.entries.pop_front();
        }
    }

    /// Whether a change from `since` on touched an inode.
    pub(super) fn touches(&self, id: InodeId, since: u64) -> bool {
        self.entries.iter().rev().take_while(|entry| entry.position >= since).any(|entry| entry.delta.touches(id))
    }

    /// Whether `right` holds at some moment from `since` to now; the model is as before afterwards.
    pub(super) fn search_back(
        &mut self,
        model: &mut Model,
        since: u64,
        mut right: impl FnMut(&mut Model) -> bool,
    ) -> bool {
        let mut found = false;
        let mut back = 0;
        for entry in self.entries.iter_mut().rev().take_while(|entry| entry.position >= since) {
            model.swap(&mut entry.delta);
            back += 1;
            if right(model) {
                found = true;
                break;
            }
        }
        let first = self.entries.len() - back;
        self.entries.range_mut(first..).for_each(|entry| model.swap(&mut entry.delta));
        found
    }

    /// Takes back what a crash of `process` lost, and puts the rest forward again without it. Of writes that homes have learned the
    /// records of these stand in for those that data nodes have lost.
    pub(super) fn crashed(
        &mut self,
        model: &mut Model,
        (process, kept): (usize, u64),
        learned: impl Fn(At) -> Option<(usize, u64)>,
    ) -> Cut {
        self.durable[process] = self.durable[process].max(kept);
        let is_lost = |entry: &Entry| entry.rests_on.iter().any(|&(of, lsn)| of == process && lsn > kept);
        self.lose(model, is_lost, learned)
    }

    /// The same of a write that a start of its data node has undone, since not all of its bytes were there.
    pub(super) fn undone(&mut self, model: &mut Model, at: At, learned: impl Fn(At) -> Option<(usize, u64)>) -> Cut {
        self.lose(model, |entry| entry.write == Some(at), learned)
    }

    fn lose(
        &mut self,
        model: &mut Model,
        is_lost: impl Fn(&Entry) -> bool,
        learned: impl Fn(At) -> Option<(usize, u64)>,
    ) -> Cut {
        let mut cut = Cut::default();
        for entry in self.entries.iter_mut().filter(|entry| is_lost(entry)) {
            if let Some(at) = entry.write.and_then(&learned) {
                entry.rests_on = [at].into_iter().collect();
                entry.write = None;
                cut.hollow.push((entry.request, entry.acknowledged));
            }
        }
        let Some(first) = self.entries.iter().position(&is_lost) else { return cut };
        self.entries.range_mut(first..).rev().for_each(|entry| model.swap(&mut entry.delta));
        for mut entry in self.entries.split_off(first) {
            if is_lost(&entry) {
                let ((session, seq), asked, write) = (entry.request, entry.asked, entry.write);
                let (position, acknowledged) = (entry.position, entry.acknowledged);
                cut.lost.push(Lost { position, session, seq, asked, write, acknowledged });
                continue;
            }
            let again = super::decide(model, &entry.asked);
            let delta = again.map_err(|e| e.to_string()).and_then(|plan| model.apply(&plan.change, entry.created));
            match delta {
                Ok(delta) => {
                    entry.delta = delta;
                    self.entries.push_back(entry);
                }
                Err(why) => {
                    cut.contradictions.push(format!("{:?} stands but rests on what is lost: {why}", entry.asked))
                }
            }
        }
        cut
    }
}
