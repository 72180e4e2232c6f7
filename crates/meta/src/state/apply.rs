//! Applying records: the same code live and in replay.
//!
//! In replay each effect is skipped for a range whose image already reflects the record (`wants`).

use crate::coord::session_of;
use crate::state::recover::{GLOBAL_RANGE, range_of};
use crate::state::{State, sound};
use onpath_store::{NameValue, StoreError};
use onpath_wire::attr::{AttrWire, flag};
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::objects::PendingObject;
use onpath_wire::disk::record::{Answer, Effect, Log, Record};
use onpath_wire::ids::{DataId, InodeId, LogSeq, NodeId, Stamp};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::peer::LogEntry;
use onpath_wire::peer::{PartState, TxnPart};
use onpath_wire::reply::{DataRef, Reply};
use smallvec::SmallVec;

/// Which ranges an effect applies to.
pub(crate) trait Wants {
    fn wants(&self, range: u32) -> bool;
    /// Whether the effects are read, and may be others than a shard makes.
    const READ: bool;
}

/// Live: everything.
pub(crate) struct Everything;

impl Wants for Everything {
    const READ: bool = false;

    #[inline]
    fn wants(&self, _: u32) -> bool {
        true
    }
}

/// The reply of a record that puts the inode which the reply shows: it need not be read back.
fn put_by(record: &Record) -> Option<Reply> {
    let (Answer::Entry { id, .. } | Answer::Attr { id }) = record.answer else { return None };
    let (Effect::PutInode { inode }, rest) = record.effects.split_first()? else { return None };
    let elsewhere = |effect: &Effect| match effect {
        Effect::PutName { parent, .. } | Effect::DropName { parent, .. } => *parent != id,
        _ => false,
    };
    if inode.id != id || !rest.iter().all(elsewhere) {
        return None;
    }
    let attr = AttrWire::of(inode);
    let data = DataRef { generation: inode.generation, cut: inode.cut, btime: inode.btime };
    Some(match record.answer {
        Answer::Entry { created, .. } => Reply::Entry { attr, data, created },
        _ => Reply::Attr { attr, data, shared: false },
    })
}

impl State {
    /// Applies a record of the present.
    pub(crate) fn apply_live(&mut self, record: &Record) -> Option<Reply> {
        self.apply(record, &Everything).expect("a record is checked before it is made")
    }

    /// Applies a record to the ranges that want it; the reply that it stands for goes into the reply cache.
    pub(crate) fn apply<W: Wants>(&mut self, record: &Record, wants: &W) -> Result<Option<Reply>, StoreError> {
        if W::READ {
            sound::ensure_stamp(record.stamp)?;
        }
        self.clock.replayed(record.stamp);
        for effect in &record.effects {
            self.apply_read(record.stamp, effect, wants)?;
        }
        let reply = put_by(record).map(|reply| self.flagged(reply)).or_else(|| self.derive(&record.answer));
        if let Some(reply) = reply.as_ref().filter(|_| record.session.0 != 0 && wants.wants(GLOBAL_RANGE)) {
            self.replies.remember(record.session, record.request, record.oldest, reply.clone(), true);
        }
        Ok(reply)
    }

    /// The reply with what an inode's record does not say of it.
    fn flagged(&mut self, mut reply: Reply) -> Reply {
        if let Reply::Entry { attr, .. } | Reply::Attr { attr, .. } = &mut reply
            && self.inodes.has_xattrs(attr.id)
        {
            attr.flags |= flag::XATTRS;
        }
        reply
    }

    fn derive(&mut self, answer: &Answer) -> Option<Reply> {
        // In replay an image may already lack the inode; the global range is imaged last, so then nobody asks.
        let gone = Reply::Failed { errno: onpath_wire::Errno::ESTALE };
        Some(match answer {
            Answer::Nothing => return None,
            Answer::Done => Reply::Done,
            Answer::Entry { id, created } => match self.inodes.shown(*id) {
                Some((attr, data)) => Reply::Entry { attr, data, created: *created },
                None => gone,
            },
            Answer::Attr { id } => match self.inodes.shown(*id) {
                Some((attr, data)) => Reply::Attr { attr, data, shared: false },
                None => gone,
            },
            Answer::Written { id } => match self.inodes.attr(*id) {
                Some(AttrWire { size, .. }) => Reply::Written { size },
                None => gone,
            },
            Answer::Literal { reply } => reply.clone().into(),
        })
    }

    #[inline]
    fn apply_read<W: Wants>(&mut self, stamp: Stamp, effect: &Effect, wants: &W) -> Result<(), StoreError> {
        if W::READ {
            self.check(effect, wants)?;
        }
        self.apply_effect(stamp, effect, wants)
    }

    fn apply_effect(&mut self, stamp: Stamp, effect: &Effect, wants: &impl Wants) -> Result<(), StoreError> {
        match effect {
            Effect::PutName { parent, name, child, kind, log } => {
                self.apply_name(stamp, *parent, name, *child, *kind, *log, true, wants);
            }
            Effect::DropName { parent, name, child, kind, log } => {
                self.apply_name(stamp, *parent, name, *child, *kind, *log, false, wants);
            }
            Effect::PutInode { inode } if wants.wants(range_of(inode.id.slot())) => {
                self.put_inode(inode, inode.btime == stamp.0 as i64);
            }
            Effect::DropInode { id } if wants.wants(range_of(id.slot())) => {
                self.inodes.remove(*id);
                self.lent.forget(*id);
                self.orphans.remove(id);
                self.linkable.remove(id);
                self.unreclaimed.remove(id);
                self.listings.drop_dir(*id);
            }
            Effect::Merged { data, .. } if wants.wants(range_of(data.inode.slot())) => {
                self.apply_merged(stamp, effect)?
            }
            Effect::Further { id, dir, names } if wants.wants(range_of(id.slot())) => {
                self.inodes.set_further(*id, *dir, *names);
            }
            Effect::SetXattr { id, name, value } if wants.wants(range_of(id.slot())) => {
                self.inodes.set_xattr(*id, name, &value.0);
            }
            Effect::RemoveXattr { id, name } if wants.wants(range_of(id.slot())) => {
                self.inodes.remove_xattr(*id, name);
            }
            Effect::AppliedLog { dir, from, upto, entries, dcount, dnlink, stamp }
                if wants.wants(range_of(dir.slot())) =>
            {
                for entry in entries {
                    self.list(*dir, &entry.name, entry.child, entry.kind, entry.put);
                }
                self.inodes.touch_dir(*dir, *dcount, *dnlink, *stamp);
                self.dirs.set_watermark(*dir, *from, *upto);
            }
            Effect::DataPending { data, cut, size, keep_reserved, drop }
                if wants.wants(range_of(data.inode.slot())) =>
            {
                self.data_pends((*data, *cut, *drop), PendingObject { size: *size, keep_reserved: *keep_reserved });
            }
            Effect::Accessed { id, atime } if wants.wants(range_of(id.slot())) => {
                if let Some(mut inode) = self.inodes.get(*id) {
                    inode.atime = *atime;
                    self.inodes.put(&inode, false);
                }
            }
            Effect::Linkable { id } if wants.wants(range_of(id.slot())) => {
                self.linkable.insert(*id);
            }
            Effect::DataDone { data, cut, drop, blocks, version } if wants.wants(range_of(data.inode.slot())) => {
                self.data_done(*data, *cut, *drop);
                self.trimmed(*data, *blocks, *version);
            }
            _ if wants.wants(GLOBAL_RANGE) => self.apply_global(effect),
            _ => {}
        }
        Ok(())
    }

    fn apply_global(&mut self, effect: &Effect) {
        match effect {
            Effect::TrimLog { dir, upto } => self.dirs.trim(*dir, *upto),
            Effect::Floor { from, upto } => self.raise_floor(*from, *upto),
            Effect::Prepared { txn, parts, found } => {
                let parts = parts.iter().cloned().map(TxnPart::from).collect();
                self.txns.prepared(*txn, parts, found.iter().cloned().map(PartState::from).collect());
            }
            Effect::Decided { txn, participants } => self.txns.decided(*txn, participants),
            Effect::Finished { txn } => self.txns.finished(*txn),
            Effect::Aborted { txn } => self.txns.aborted(*txn),
            Effect::Forgotten { txn } => self.txns.forgotten(*txn),
            Effect::Member { node, member } => {
                if let Some(session) = session_of(*node, member.kind) {
                    self.coordinator.registered(session, member);
                    if !member.alive && !self.buried.contains(member.number) {
                        self.replies.forget(member.number);
                    }
                }
            }
            Effect::Reserved { counter, upto } => self.reserved.raise(*counter, *upto),
            Effect::Undone { session, request } => self.replies.undo(*session, *request),
            Effect::PowerLost { term } => self.power_lost = self.power_lost.max(*term),
            Effect::Map { map } => self.coordinator.map = Some(map.clone()),
            Effect::Tracking { side, tracking } => self.epochs.learned(*side, *tracking),
            // The file has it already, and the clock follows in any case.
            Effect::Merged { stamp: Some(newest), .. } => self.clock.replayed(*newest),
            _ => {} // a ranged effect that its range does not want
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn apply_name(
        &mut self,
        stamp: Stamp,
        parent: InodeId,
        name: &Name,
        child: InodeId,
        kind: Kind,
        log: Log,
        put: bool,
        wants: &impl Wants,
    ) {
        let at = self.names.at(parent, name);
        if wants.wants(range_of(at.slot())) {
            if put {
                self.names.put(&at, NameValue { child, kind });
            } else {
                self.names.remove(&at);
            }
        }
        if log.seq != LogSeq(0) {
            if wants.wants(GLOBAL_RANGE) {
                let Log { seq, dcount, dnlink } = log;
                let entry = LogEntry { seq, stamp, put, name: name.clone(), child, kind, dcount, dnlink };
                self.dirs.append(parent, entry);
            }
        } else if wants.wants(range_of(parent.slot())) {
            self.list(parent, name, child, kind, put);
            self.inodes.touch_dir(parent, i64::from(log.dcount), i64::from(log.dnlink), stamp);
        }
    }

    fn list(&mut self, dir: InodeId, name: &Name, child: InodeId, kind: Kind, put: bool) {
        if put {
            self.listings.put(dir, name.as_bytes(), child, kind);
        } else {
            self.listings.remove(dir, name.as_bytes());
        }
    }

    /// Puts an inode; one without a name is an orphan (design.md, "Sessions"). `born`: there never was one of its id.
    pub(crate) fn put_inode(&mut self, inode: &Inode, born: bool) {
        if inode.nlink == 0 {
            self.orphans.insert(inode.id);
        } else if self.linkable.remove(&inode.id) {
            self.orphans.remove(&inode.id); // born without a name, it has one now
        }
        if inode.merged.is_some() || inode.refused.is_some() {
            self.inodes.put(&self.remembered(inode.clone()), born);
        } else {
            self.inodes.put(inode, born);
        }
    }

    /// The floor of a site or of a data node rises; our own means that every owner knows ours.
    pub(crate) fn raise_floor(&mut self, from: NodeId, upto: LogSeq) {
        if from == NodeId::shard(self.me()) {
            self.dirs.raise_own_floor(upto);
        } else {
            self.dirs.raise_floor(from, upto);
        }
    }

    /// The data node is to be told of a trim or a drop.
    pub(super) fn data_pends(&mut self, key: (DataId, u32, bool), remains: PendingObject) {
        let before = self.data_pending.insert(key, remains);
        self.drops_pending += usize::from(key.2 && before.is_none());
    }

    /// The data node has acknowledged a drop, or every trim up to this cut.
    fn data_done(&mut self, data: DataId, cut: u32, drop: bool) {
        let first = if drop { cut } else { 0 };
        let done = self.data_pending.range((data, first, false)..=(data, cut, true));
        let done: SmallVec<[_; 2]> = done.map(|(key, _)| *key).filter(|key| key.2 == drop).collect();
        for key in done {
            self.data_pending.remove(&key);
            self.drops_pending -= usize::from(drop);
        }
    }

    fn trimmed(&mut self, data: DataId, blocks: u64, version: u64) {
        let Some(mut inode) = self.inodes.get(data.inode) else { return };
        if inode.generation == data.generation && version > inode.blocks_version {
            inode.blocks = blocks;
            inode.blocks_version = version;
            self.inodes.put(&inode, false);
        }
    }
}
