//! What shards do of their own accord: nothing that anybody sees, but that power losses took writes, or gave them back.

use super::{Checker, Excuse, decide};
use crate::client::Asked;
use crate::model::Caller;
use hashbrown::HashMap;
use onpath_wire::disk::record::{Effect, Record};
use onpath_wire::ids::{InodeId, NodeId, RequestSeq, SessionId};
use onpath_wire::inode::Kind;
use onpath_wire::request::{Request, RequestBody, SetAttr, set};
use std::collections::VecDeque;
use std::rc::Rc;

/// Sizes of files as their homes have recorded them last. That of a lent file may be older than what its data node has answered.
#[derive(Default)]
pub(super) struct Sizes {
    now: HashMap<InodeId, u64>,
    /// What a crash may take back: where it was recorded, and what was known of the file before.
    volatile: VecDeque<((usize, u64), InodeId, Option<u64>)>,
}

impl Sizes {
    /// A home has recorded this.
    pub(super) fn note(&mut self, record: &Record, at: (usize, u64)) {
        for effect in &record.effects {
            let (id, before) = match effect {
                Effect::PutInode { inode } if inode.kind == Kind::File => {
                    (inode.id, self.now.insert(inode.id, inode.size))
                }
                Effect::Merged { data, size, .. } => (data.inode, self.now.insert(data.inode, *size)),
                Effect::DropInode { id } => (*id, self.now.remove(id)),
                _ => continue,
            };
            self.volatile.push_back((at, id, before));
        }
    }

    /// A process's journal is durable up to here.
    pub(super) fn durable(&mut self, process: usize, lsn: u64) {
        self.volatile.retain(|((of, at), ..)| *of != process || *at > lsn);
    }

    /// A crash has left this prefix of a process's journal, which has all records of a file: later ones are taken back first.
    pub(super) fn crashed(&mut self, process: usize, kept: u64) {
        let is_lost = |(of, lsn): (usize, u64)| of == process && lsn > kept;
        for &(_, id, before) in self.volatile.iter().rev().filter(|(at, ..)| is_lost(*at)) {
            match before {
                Some(size) => _ = self.now.insert(id, size),
                None => _ = self.now.remove(&id),
            }
        }
        self.durable(process, u64::MAX);
    }

    fn shrinks(&self, id: InodeId, size: u64) -> bool {
        self.now.get(&id).is_some_and(|known| size < *known)
    }
}

impl Checker {
    /// What a shard does of its own accord must not be visible, but that a power loss took an append.
    pub(super) fn own_work(&mut self, by: NodeId, record: &Record, at: (usize, u64)) {
        let undoes = record.effects.iter().any(|effect| matches!(effect, Effect::Undone { .. }));
        for effect in &record.effects {
            if let Effect::PutInode { inode } = effect
                && self.model.node(inode.id).is_some_and(|node| node.kind == Kind::File && inode.size < node.size)
                && self.sizes.shrinks(inode.id, inode.size)
            {
                self.shortened(by, (inode.id, inode.size), undoes, at);
            }
            if let Effect::Merged { data, size, .. } = effect
                && self.model.node(data.inode).is_some_and(|node| *size > node.size)
            {
                self.lengthened(by, data.inode, *size, at);
            }
            if let Effect::AppliedLog { dir, from, upto, .. } = effect {
                self.applied(*dir, *from, *upto);
            }
            if let Effect::DropInode { id } = effect
                && self.model.node(*id).is_some_and(|node| node.nlink > 0)
            {
                self.violation(format!("{by:?} drops {id:?}, which has a name"));
            }
        }
    }

    /// The file ends where it did before an append; that may be repeated.
    fn shortened(&mut self, by: NodeId, (id, size): (InodeId, u64), undoes: bool, at: (usize, u64)) {
        if !self.lost_power || !undoes {
            return self.violation(format!("{by:?} shortens {id:?} to {size} bytes"));
        }
        self.excuse(Excuse::Shortened);
        for pending in self.sessions.values_mut().flat_map(|known| &mut known.pending) {
            let undone = pending.asked.write.as_ref().is_some_and(|write| write.end > size);
            if undone && pending.asked.body.request == (Request::DataRef { id }) {
                pending.witness = None;
                pending.valid.retain(|(_, change)| !*change);
            }
        }
        let set = SetAttr { valid: set::SIZE, size, ..SetAttr::default() };
        let body = RequestBody::of_session(Request::SetAttr { id, set });
        let asked = Rc::new(Asked { caller: Caller::default(), body, write: None });
        self.unasked(by, id, (SessionId(0), RequestSeq(0)), asked, at);
    }

    /// A power loss took a write from its home, and the data node tells of it once more when its session has given it up.
    fn lengthened(&mut self, by: NodeId, id: InodeId, size: u64, at: (usize, u64)) {
        let lost = |asked: &Asked| {
            asked.body.request == (Request::DataRef { id }) && asked.write.is_some_and(|write| write.end == size)
        };
        let key = self.reviving.iter().find(|(_, asked)| lost(asked)).map(|(key, _)| *key);
        match key.and_then(|key| self.reviving.remove_entry(&key)) {
            Some((key, asked)) => {
                self.revived.insert(key);
                self.excuse(Excuse::Revived);
                self.unasked(by, id, key, asked, at);
            }
            None => self.violation(format!("{by:?} lengthens {id:?} to {size} bytes")),
        }
    }

    /// A shard changes a file of its own accord as if it was asked to.
    pub(super) fn unasked(
        &mut self,
        by: NodeId,
        id: InodeId,
        who: (SessionId, RequestSeq),
        asked: Rc<Asked>,
        at: (usize, u64),
    ) {
        let change = decide(&self.model, &asked).map_err(|e| e.to_string());
        match change.and_then(|plan| self.model.apply(&plan.change, None)) {
            Ok(delta) => _ = self.log.push(who, asked, ([at].into_iter().collect(), None), None, delta),
            Err(why) => self.violation(format!("{by:?} changes {id:?}: {why}")),
        }
    }
}
