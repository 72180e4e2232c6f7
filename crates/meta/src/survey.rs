//! Everything durable that a shard holds, read-only and in order: for checks of a DIR that nobody serves.

use crate::shard::Shard;
use crate::state::State;
use onpath_store::XattrSet;
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::objects::PendingObject;
use onpath_wire::ids::{DataId, InodeId, LogSeq, NodeId, SessionNumber, ShardId, TxnId};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::peer::{LogEntry, PartState, TxnPart};
use onpath_wire::reply::DirEntry;
use onpath_wire::xattr::XattrName;
use std::collections::{BTreeMap, BTreeSet};

/// A name as its site has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurveyedName {
    /// Directory.
    pub parent: InodeId,
    /// Name.
    pub name: Name,
    /// Inode that it leads to.
    pub child: InodeId,
    /// Its type.
    pub kind: Kind,
}

/// An object of a shard of which it may have many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Surveyed {
    /// An inode.
    Inode(Inode),
    /// All extended attributes of an inode.
    Xattrs(InodeId, Vec<(XattrName, Vec<u8>)>),
    /// A file has so many names in a directory beside the one that its inode tells of.
    Further(InodeId, InodeId, u32),
    /// A name.
    Name(SurveyedName),
    /// An entry of a directory.
    Entry(InodeId, DirEntry),
}

impl Surveyed {
    pub(crate) fn xattrs(id: InodeId, set: &XattrSet) -> Surveyed {
        Surveyed::Xattrs(id, set.iter().map(|(name, value)| (name.clone(), value.to_vec())).collect())
    }
}

/// A promise whose decision is not carried out yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The attempt.
    pub txn: TxnId,
    /// What was asked.
    pub parts: Vec<TxnPart>,
    /// What was found.
    pub states: Vec<PartState>,
}

/// A trim or drop that the data node has not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingData {
    /// Whose bytes.
    pub data: DataId,
    /// The cut.
    pub cut: u32,
    /// All of the generation goes.
    pub drop: bool,
    /// What remains otherwise, bytes.
    pub size: u64,
    /// Blocks that are only reserved stay, wherever they are.
    pub keep_reserved: bool,
}

/// The durable state of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Which shard.
    pub shard: ShardId,
    /// Inodes by slot and id.
    pub inodes: Vec<Inode>,
    /// Names by slot, parent and name.
    pub names: Vec<SurveyedName>,
    /// Entries of the directories that have some, by cookie.
    pub listings: BTreeMap<InodeId, Vec<DirEntry>>,
    /// Change-logs: entries that the owner has not acknowledged.
    pub logs: BTreeMap<InodeId, Vec<LogEntry>>,
    /// Where the change-log of a directory was trimmed last, above the shard's own floor.
    pub trimmed: BTreeMap<InodeId, LogSeq>,
    /// Everything of this shard's change-logs up to here is applied and trimmed, and every owner knows.
    pub own_floor: LogSeq,
    /// What of whose change-log is applied here, where it is above the floor.
    pub watermarks: BTreeMap<(InodeId, ShardId), LogSeq>,
    /// Everything of a site, or of a data node's writes, up to here is applied.
    pub floors: BTreeMap<NodeId, LogSeq>,
    /// Promises to coordinators.
    pub prepared: Vec<Promise>,
    /// Decisions that not all participants have acknowledged.
    pub decided: Vec<(TxnId, Vec<ShardId>)>,
    /// Attempts that this shard is done with as a participant.
    pub finished: BTreeSet<TxnId>,
    /// Trims and drops on their way.
    pub data_pending: Vec<PendingData>,
    /// Registered sessions (at the coordinator).
    pub sessions: Vec<SessionNumber>,
    /// Extended attributes of the inodes that have some.
    pub xattrs: BTreeMap<InodeId, Vec<(XattrName, Vec<u8>)>>,
    /// Directories of files with several names, and how many there beside the one that the inode tells of.
    pub further: BTreeMap<InodeId, Vec<(InodeId, u32)>>,
    /// Inodes without a name, to be reclaimed when nobody has them open.
    pub orphans: Vec<InodeId>,
}

impl Shard {
    /// The durable state as it is after load and replay.
    pub fn survey(&self) -> Survey {
        let (mut inodes, mut names) = (Vec::new(), Vec::new());
        let (mut listings, mut xattrs) = (BTreeMap::<_, Vec<DirEntry>>::new(), BTreeMap::new());
        let mut further = BTreeMap::<_, Vec<(InodeId, u32)>>::new();
        let rest = self.survey_each(&mut |object| match object {
            Surveyed::Inode(inode) => inodes.push(inode),
            Surveyed::Xattrs(id, set) => _ = xattrs.insert(id, set),
            Surveyed::Further(id, dir, names) => further.entry(id).or_default().push((dir, names)),
            Surveyed::Name(name) => names.push(name),
            Surveyed::Entry(dir, entry) => listings.entry(dir).or_default().push(entry),
        });
        let mut survey = Survey { inodes, names, listings, xattrs, further, ..rest };
        survey.sort();
        survey
    }

    /// The same without what there may be much of, which is shown in no order and not taken into memory.
    pub fn survey_each(&self, each: &mut dyn FnMut(Surveyed)) -> Survey {
        self.kernel.with(|core| {
            core.state.each_object(each);
            core.state.survey()
        })
    }
}

impl Survey {
    /// Puts what was shown in no order into order.
    pub fn sort(&mut self) {
        self.inodes.sort_unstable_by_key(|inode| inode.id);
        self.names.sort_unstable_by(|a, b| (a.parent, &a.name).cmp(&(b.parent, &b.name)));
        self.further.values_mut().for_each(|dirs| dirs.sort_unstable());
        self.listings.values_mut().for_each(|entries| entries.sort_unstable_by_key(|entry| entry.cookie));
    }
}

impl State {
    fn survey(&self) -> Survey {
        let mut survey = Survey { shard: self.me(), ..Survey::default() };
        let (me, dirs, txns) = (self.me(), &self.dirs, &self.txns);
        survey.logs = dirs.logs().collect();
        survey.trimmed = dirs.trimmed().collect();
        // Our own floor comes last, under our own name.
        survey.floors = dirs.floors(NodeId::shard(me)).collect();
        survey.own_floor = survey.floors.remove(&NodeId::shard(me)).unwrap_or_default();
        survey.watermarks = (0..crate::GLOBAL_RANGE).flat_map(|range| dirs.watermarks_in(range)).collect();
        let promise = |(txn, parts, states): (TxnId, &Vec<TxnPart>, &Vec<PartState>)| Promise {
            txn,
            parts: parts.clone(),
            states: states.clone(),
        };
        survey.prepared = txns.all_prepared().map(promise).collect();
        survey.decided = txns.all_decided().map(|(txn, participants)| (txn, participants.to_vec())).collect();
        survey.finished = txns.all_finished().collect();
        let pending = self.data_pending.iter();
        let pending = pending.map(|(&(data, cut, drop), &PendingObject { size, keep_reserved })| PendingData {
            data,
            cut,
            drop,
            size,
            keep_reserved,
        });
        survey.data_pending = pending.collect();
        survey.sessions = self.coordinator.sessions().map(|(session, _)| session).collect();
        survey.orphans = self.orphans.iter().copied().collect();
        survey
    }
}
