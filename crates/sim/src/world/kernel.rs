//! What a kernel caches for a session that is alone: names and attributes for a moment, as `onpath-fuse` lets it.
//!
//! What this mount changes is forgotten when that begins and when it ends, and an answer that was asked for before is not kept. What
//! others change is not noticed: that they do not is the point.

use super::World;
use super::queue::Event;
use onpath_session::fs::{FsOp, FsReply, FsResult, Handle};
use onpath_wire::attr::{AttrWire, flag};
use onpath_wire::ids::{AloneId, InodeId};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use std::collections::BTreeMap;

/// For how long an answer is kept, ns: shorter than a session allows, so that much happens in the life of a world.
const KEPT_NS: u64 = 20_000_000;

/// A question under way.
struct Asked {
    op: FsOp,
    alone: AloneId,
    version: u64,
}

/// The cache of one session.
#[derive(Default)]
pub(super) struct KernelCache {
    alone: AloneId,
    over: AloneId,
    alone_until_ns: u64,
    names: BTreeMap<(InodeId, Name), (Option<InodeId>, u64)>,
    attributes: BTreeMap<InodeId, (AttrWire, u64)>,
    asked: BTreeMap<u64, Asked>,
    /// Directories that are open.
    open: BTreeMap<Handle, InodeId>,
    /// Changes of this mount, begun and ended.
    version: u64,
}

impl KernelCache {
    /// The session may be alone until then.
    pub(super) fn is_alone(&mut self, alone: AloneId, until_ns: u64) {
        if alone > self.over {
            (self.alone, self.alone_until_ns) = (alone, until_ns);
        }
    }

    /// Nothing more is kept.
    fn share(&mut self, upto: AloneId) {
        (self.alone, self.over) = (AloneId::default(), self.over.max(upto));
    }

    /// A server may have forgotten what it has answered.
    pub(super) fn forget(&mut self) {
        self.version += 1;
        self.names.clear();
        self.attributes.clear();
    }

    pub(super) fn asks(&mut self, unique: u64, op: &FsOp) {
        self.change(op);
        self.asked.insert(unique, Asked { op: op.clone(), alone: self.alone, version: self.version });
    }

    pub(super) fn hears(&mut self, unique: u64, result: &FsResult, now_ns: u64) {
        let Some(Asked { op, alone, version }) = self.asked.remove(&unique) else { return };
        self.change(&op);
        match (&op, result) {
            (FsOp::OpenDir { id, .. }, Ok(FsReply::Opened(opened))) => _ = self.open.insert(opened.handle, *id),
            (FsOp::ReleaseDir { handle }, _) => _ = self.open.remove(handle),
            _ => {}
        }
        let is_alone = alone != AloneId::default() && alone == self.alone && now_ns < self.alone_until_ns;
        if !is_alone || version != self.version {
            return;
        }
        let until_ns = now_ns + KEPT_NS;
        match (op, result) {
            (FsOp::Lookup { parent, name }, Ok(FsReply::Missing)) => {
                self.names.insert((parent, name), (None, until_ns));
            }
            (FsOp::Lookup { parent, name }, Ok(FsReply::Entry(attr))) => {
                if attr.flags & flag::SEARCHABLE != 0 {
                    self.names.insert((parent, name), (Some(attr.id), until_ns));
                }
                self.keep(attr, until_ns);
            }
            (FsOp::ReadDirPlus { handle, .. }, Ok(FsReply::DirPlus(entries))) => {
                let Some(&dir) = self.open.get(&handle) else { return };
                for (entry, attr) in entries {
                    let Some(attr) = attr.filter(|attr| attr.flags & flag::SEARCHABLE != 0) else { continue };
                    self.names.insert((dir, entry.name.clone()), (Some(attr.id), until_ns));
                    self.keep(&attr, until_ns);
                }
            }
            (FsOp::GetAttr { .. } | FsOp::SetAttr { .. }, Ok(FsReply::Attr { attr, .. })) => self.keep(attr, until_ns),
            _ => {}
        }
    }

    fn keep(&mut self, attr: &AttrWire, until_ns: u64) {
        if attr.kind != Kind::Directory && attr.nlink > 0 && attr.flags & flag::UNSETTLED == 0 {
            self.attributes.insert(attr.id, (*attr, until_ns));
        }
    }

    /// Forgets what this mount changes.
    fn change(&mut self, op: &FsOp) {
        match op {
            FsOp::Lookup { .. }
            | FsOp::GetAttr { .. }
            | FsOp::OpenDir { .. }
            | FsOp::ReadDirPlus { .. }
            | FsOp::ReleaseDir { .. } => return,
            FsOp::SetAttr { id, .. } => _ = self.attributes.remove(id),
            FsOp::Make { parent, name, .. } | FsOp::Create { parent, name, .. } => {
                self.names.remove(&(*parent, name.clone()));
            }
            FsOp::Rename { from_parent, from, parent, name, .. } => {
                self.names.remove(&(*from_parent, from.clone()));
                self.names.remove(&(*parent, name.clone()));
                self.attributes.clear(); // a change time, a link less
            }
            _ => {
                self.names.clear();
                self.attributes.clear();
            }
        }
        self.version += 1;
    }
}

impl World {
    /// What the kernel of a session knows by itself of a name: nothing, or whether there is one, and what it leads to.
    pub fn cached_name(&mut self, session: usize, parent: InodeId, name: &Name) -> Option<Option<InodeId>> {
        let found = self.sessions[session].kernel.names.get(&(parent, name.clone())).copied();
        let (child, _) = found.filter(|(_, until_ns)| self.now_ns < *until_ns)?;
        self.counters.cached += 1;
        Some(child)
    }

    /// What the kernel of a session knows by itself of an inode's attributes.
    pub fn cached_attributes(&mut self, session: usize, id: InodeId) -> Option<AttrWire> {
        let found = self.sessions[session].kernel.attributes.get(&id).copied();
        let (attr, _) = found.filter(|(_, until_ns)| self.now_ns < *until_ns)?;
        self.counters.cached += 1;
        Some(attr)
    }

    /// A session is to share: what its kernel has runs out, then it says so.
    pub(super) fn session_shares(&mut self, session: usize, upto: AloneId) {
        self.sessions[session].kernel.share(upto);
        self.queue.push(self.now_ns + KEPT_NS, Event::Shared(session as u16));
    }
}
