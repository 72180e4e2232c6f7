//! Changes that are to be made, in order, and what is said of them.

use super::Repaired;
use crate::fsck::checks::listings::expected_of;
use crate::fsck::code::Code;
use crate::fsck::view::{Target, View};
use onpath_host::offline::Offline;
use onpath_wire::disk::Stored;
use onpath_wire::disk::block::DataRecord;
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::log::Entry;
use onpath_wire::disk::record::{Answer, Counter, Effect, Log, Record};
use onpath_wire::ids::{Birth, InodeId, LogSeq, NodeId, RequestSeq, SessionId, ShardId, Stamp};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;

/// When repairs happen: before everything else, so that nothing looks newer for them.
pub(super) const STAMP: Stamp = Stamp(1);

/// Changes of one round.
#[derive(Default)]
pub(super) struct Fixes {
    shards: Vec<(ShardId, Effect)>,
    data: Vec<DataRecord>,
    pub(super) done: Repaired,
}

impl Fixes {
    pub(super) fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    /// Because of such a finding this is done; what it takes follows.
    pub(super) fn because(&mut self, code: Code, what: String) {
        self.done.push((code, what));
    }

    pub(super) fn effect(&mut self, shard: ShardId, effect: Effect) {
        self.shards.push((shard, effect));
    }

    pub(super) fn data(&mut self, record: DataRecord) {
        self.data.push(record);
    }

    /// All births up to this one are taken, in the whole journal, whichever shard says so.
    pub(super) fn reserve(&mut self, view: &View, birth: Birth) {
        let upto = u64::from(birth.0);
        self.effect(view.map.home(InodeId::ROOT), Effect::Reserved { counter: Counter::Births, upto });
    }

    /// An inode shall be so.
    pub(super) fn inode(&mut self, view: &View, inode: Inode) {
        self.effect(view.map.home(inode.id), Effect::PutInode { inode });
    }

    /// A name shall lead there, and its directory shall list it.
    pub(super) fn put_name(&mut self, view: &View, offline: &mut Offline, of: (InodeId, &Name), to: Target) {
        let (parent, name) = of;
        let log = log(view, offline, parent, name, Some(to.kind));
        let effect = Effect::PutName { parent, name: name.clone(), child: to.child, kind: to.kind, log };
        self.effect(site_of(view, parent, name), effect);
    }

    /// There shall be no such name, nor a listing of it.
    pub(super) fn drop_name(&mut self, view: &View, offline: &mut Offline, of: (InodeId, &Name), was: Target) {
        let (parent, name) = of;
        let log = log(view, offline, parent, name, None);
        let effect = Effect::DropName { parent, name: name.clone(), child: was.child, kind: was.kind, log };
        self.effect(site_of(view, parent, name), effect);
    }

    /// A directory shall list these names so, or not at all; its counts stay.
    pub(super) fn list(&mut self, owner: ShardId, dir: InodeId, names: Vec<(Name, Target, bool)>) {
        let entry = |(name, to, put): (Name, Target, bool)| Entry {
            seq: LogSeq(0),
            stamp: STAMP,
            put,
            name,
            child: to.child,
            kind: to.kind,
            dcount: 0,
            dnlink: 0,
        };
        let entries = names.into_iter().map(entry).collect();
        let (dcount, dnlink, upto) = (0, 0, LogSeq(0));
        self.effect(owner, Effect::AppliedLog { dir, from: owner, upto, entries, dcount, dnlink, stamp: STAMP });
    }

    /// Inodes of which something is removed at a shard that no role would remove so: their listings, or attributes of none.
    pub(super) fn uprooted(&self) -> impl Iterator<Item = (ShardId, InodeId)> {
        self.shards.iter().filter_map(|(shard, effect)| match effect {
            Effect::DropInode { id } | Effect::RemoveXattr { id, .. } => Some((*shard, *id)),
            _ => None,
        })
    }

    /// The records that make the changes.
    pub(super) fn records(&self) -> impl Iterator<Item = (NodeId, Vec<u8>)> {
        let of_shard = |(shard, effect): &(ShardId, Effect)| {
            let record = Record {
                stamp: STAMP,
                session: SessionId(0),
                request: RequestSeq(0),
                oldest: RequestSeq(0),
                uid: 0,
                answer: Answer::Nothing,
                effects: vec![effect.clone()],
            };
            (NodeId::shard(*shard), record.to_stored())
        };
        let of_data = |record: &DataRecord| (NodeId::data(0), record.to_stored());
        self.shards.iter().map(of_shard).chain(self.data.iter().map(of_data))
    }
}

/// The shard where a name is.
pub(super) fn site_of(view: &View, parent: InodeId, name: &Name) -> ShardId {
    view.map.shard(view.map.site(parent, name.as_bytes()))
}

/// How a name that is new, changes or goes reaches its directory: by the change-log of its site, or at once.
fn log(view: &View, offline: &mut Offline, dir: InodeId, name: &Name, kind: Option<Kind>) -> Log {
    if view.directory(dir).is_none() {
        return Log { seq: LogSeq(0), dcount: 0, dnlink: 0 };
    }
    let listed = expected_of(view, dir, name).map(|target| target.kind);
    let is_dir = |kind: Option<Kind>| i8::from(kind == Some(Kind::Directory));
    let site = site_of(view, dir, name);
    Log {
        seq: if view.map.home(dir) == site { LogSeq(0) } else { offline.next_log_seq() },
        dcount: i8::from(kind.is_some()) - i8::from(listed.is_some()),
        dnlink: is_dir(kind) - is_dir(listed),
    }
}
