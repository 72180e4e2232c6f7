//! Changes that were recorded and are not yet exposed: their witness comes when somebody may see them.
//!
//! A gated change is exposed by its reply, by its owner's applying it, by an answer that shows it, or by somebody else's having its
//! locks. Until then it is as if it had not happened: who reads without it is right. What a transaction decides is never gated: nobody
//! decides before what is appended is exposed at once. A write that a data node answers is exposed by that answer, by the table of a switch
//! through which it goes, and by its home's learning it.

use super::Checker;
use onpath_wire::disk::record::{Effect, Record};
use onpath_wire::disk::txn::{Found, Part};
use onpath_wire::header::HEADER_BYTES;
use onpath_wire::ids::{InodeId, LogSeq, NodeId, RequestSeq, SessionId, ShardId};
use onpath_wire::map::ClusterMap;
use onpath_wire::name::Name;
use onpath_wire::packet::Packet;
use onpath_wire::reply::Reply;
use onpath_wire::request::Request;
use std::collections::BTreeSet;
use xxhash_rust::xxh3::xxh3_64;

/// A recorded change that nobody may have seen.
pub(super) struct Gated {
    by: NodeId,
    pub(super) process: usize,
    pub(super) lsn: u64,
    pub(super) record: Record,
    /// What it has locked.
    locks: BTreeSet<Lock>,
    /// A write that a data node answers: the file, and its position there.
    pub(super) write: Option<(InodeId, LogSeq)>,
}

/// What a shard locks: names whose site it is, and inodes whose home it is.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Lock {
    Name(InodeId, Name),
    Inode(InodeId),
}

/// What whoever makes this record has locked at its shard. A name that leads to an inode says nothing of that inode's home.
fn locks(by: NodeId, record: &Record, map: &ClusterMap) -> BTreeSet<Lock> {
    let mut locks = BTreeSet::new();
    let is_home = |id: InodeId| NodeId::shard(map.home(id)) == by;
    for effect in &record.effects {
        match effect {
            Effect::PutName { parent, name, child, .. } | Effect::DropName { parent, name, child, .. } => {
                locks.insert(Lock::Name(*parent, name.clone()));
                locks.extend(is_home(*child).then_some(Lock::Inode(*child)));
            }
            Effect::PutInode { inode } => _ = locks.insert(Lock::Inode(inode.id)),
            Effect::DropInode { id }
            | Effect::Accessed { id, .. }
            | Effect::Further { id, .. }
            | Effect::SetXattr { id, .. }
            | Effect::RemoveXattr { id, .. }
            | Effect::Linkable { id } => _ = locks.insert(Lock::Inode(*id)),
            Effect::Merged { data, .. } => _ = locks.insert(Lock::Inode(data.inode)),
            Effect::Prepared { parts, found, .. } => {
                locks.extend(parts.iter().filter_map(|part| match part {
                    Part::Source { parent, name, .. }
                    | Part::Swap { parent, name, .. }
                    | Part::Put { parent, name, .. } => Some(Lock::Name(*parent, name.clone())),
                    Part::Inode { id, .. } => Some(Lock::Inode(*id)),
                    Part::Asked { .. } => None,
                }));
                locks.extend(found.iter().filter_map(|found| match found {
                    Found::Source { child, .. } if is_home(*child) => Some(Lock::Inode(*child)),
                    _ => None,
                }));
            }
            // Of these the shard's own work makes records, or an operation that has locked what its other effects name.
            Effect::AppliedLog { .. }
            | Effect::TrimLog { .. }
            | Effect::Floor { .. }
            | Effect::DataPending { .. }
            | Effect::DataDone { .. }
            | Effect::Decided { .. }
            | Effect::Finished { .. }
            | Effect::Aborted { .. }
            | Effect::Forgotten { .. }
            | Effect::Member { .. }
            | Effect::Tracking { .. }
            | Effect::Undone { .. }
            | Effect::Map { .. }
            | Effect::PowerLost { .. }
            | Effect::Reserved { .. } => {}
        }
    }
    locks
}

impl Gated {
    /// The change of a record, if it may be gated: it went to a change-log, and no transaction has decided it.
    pub(super) fn of(by: NodeId, (process, lsn): (usize, u64), record: &Record, map: &ClusterMap) -> Option<Gated> {
        let decides = record.effects.iter().any(|effect| matches!(effect, Effect::Decided { .. }));
        let gated = !decides && logs(record).next().is_some();
        let record = gated.then(|| record.clone());
        record.map(|record| Gated { by, process, lsn, locks: locks(by, &record, map), record, write: None })
    }

    /// A write that a data node has recorded, and answers.
    pub(super) fn write(by: NodeId, (process, lsn): (usize, u64), record: Record, at: (InodeId, LogSeq)) -> Gated {
        Gated { by, process, lsn, record, locks: BTreeSet::new(), write: Some(at) }
    }

    fn request(&self) -> (SessionId, RequestSeq) {
        (self.record.session, self.record.request)
    }

    /// Whether an answer may show it: it is asked for by name or id, or shown under another name.
    fn shows_in(&self, request: &Request, ids: &[InodeId]) -> bool {
        let about = request.describe().about;
        let is_asked = |id: InodeId| about.inode() == Some(id) || ids.contains(&id);
        self.record.effects.iter().any(|effect| match effect {
            Effect::PutName { parent, name, child, .. } | Effect::DropName { parent, name, child, .. } => {
                about.names().any(|(dir, asked)| dir == *parent && asked == name)
                    || is_asked(*child)
                    || is_asked(*parent)
            }
            Effect::PutInode { inode: put } => is_asked(put.id),
            _ => false,
        })
    }
}

/// Positions in change-logs that a record appends to.
fn logs(record: &Record) -> impl Iterator<Item = (InodeId, LogSeq)> + '_ {
    record.effects.iter().filter_map(|effect| match effect {
        Effect::PutName { parent, log, .. } | Effect::DropName { parent, log, .. } if log.seq != LogSeq(0) => {
            Some((*parent, log.seq))
        }
        _ => None,
    })
}

impl Checker {
    /// A reply leaves with a mark: it is seen when the switch has acknowledged that.
    pub fn left_with_mark(&mut self, to: NodeId, packet: &Packet) {
        let (Ok(header), Some(session)) = (packet.header(), to.as_session()) else { return };
        if let Some(pending) = self.pending(session, header.seq) {
            pending.on_mark = Some(xxh3_64(&packet.head[HEADER_BYTES..]));
        }
    }

    /// A crash has left this prefix of a process's journal. A reply under way for what is lost may still arrive if it `may_lose`.
    pub(super) fn forget_gated(&mut self, process: usize, kept: u64, may_lose: bool) {
        let lost = |gated: &Gated| gated.process == process && gated.lsn > kept;
        let requests: Vec<_> = self.gated.iter().filter(|g| lost(g)).map(|g| (g.request(), g.write)).collect();
        self.gated.retain(|gated| !lost(gated));
        for ((session, seq), write) in requests.into_iter().filter(|_| may_lose) {
            let Some(pending) = self.pending(session, seq) else { continue };
            pending.excused.extend(pending.on_mark);
            // Its answer may be on the way to a table.
            let asked = pending.asked.clone();
            write.into_iter().for_each(|at| _ = self.gone.insert(at, (session, seq, asked.clone())));
        }
    }

    /// An owner has applied a change-log up to here.
    pub(super) fn applied(&mut self, dir: InodeId, from: ShardId, upto: LogSeq) {
        let site = NodeId::shard(from);
        let shown = |gated: &Gated| gated.by == site && logs(&gated.record).any(|(of, seq)| of == dir && seq <= upto);
        self.expose(shown);
    }

    /// The reply of a change has left.
    pub(super) fn replied(&mut self, session: SessionId, seq: RequestSeq) {
        self.expose(|gated| gated.record.session == session && gated.record.request == seq);
    }

    /// An answer does not fit: the first gated change that it may show is exposed. True if there was one.
    pub(super) fn shown_by(&mut self, request: &Request, packet: &Packet) -> bool {
        let known = request.describe().about.names().filter_map(|(dir, name)| Some(self.model.find(dir, name)?.child));
        let mut ids: Vec<InodeId> = known.collect();
        if let Ok(Reply::Entry { attr, .. } | Reply::Attr { attr, .. }) = packet.body() {
            ids.push(attr.id);
        }
        self.expose_one(|gated| gated.shows_in(request, &ids))
    }

    /// A record was made: whatever has locked the same names or inodes at its shard before has let go of them, so it was exposed.
    pub(super) fn locked_by(&mut self, by: NodeId, record: &Record) {
        if self.gated.iter().any(|gated| gated.by == by) {
            let locks = locks(by, record, &self.map);
            self.expose(|gated| gated.by == by && !gated.locks.is_disjoint(&locks));
        }
    }

    /// In peace everything is exposed.
    pub fn expose_all(&mut self) {
        self.expose(|_| true);
    }

    pub(super) fn expose(&mut self, shown: impl Fn(&Gated) -> bool) {
        while self.expose_one(&shown) {}
    }

    /// Exposes the first of these changes; false if there is none.
    fn expose_one(&mut self, shown: impl Fn(&Gated) -> bool) -> bool {
        let Some(index) = self.gated.iter().position(shown) else { return false };
        let gated = self.gated.remove(index).expect("just found");
        self.happens(gated.by, &gated.record, (gated.process, gated.lsn), gated.write);
        true
    }
}
