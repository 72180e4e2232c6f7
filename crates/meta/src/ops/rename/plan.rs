//! What is where: the names and inodes of a rename, who must be asked about what, and their votes.

use super::{Rename, elsewhere};
use crate::access;
use crate::dir::site::{self, Gone};
use crate::ops::{Req, Stop, begin, need_space};
use crate::planted::{self, Planted};
use crate::state::keys;
use crate::txn::coordinator::{self, Plan, Voted};
use crate::txn::intention;
use crate::txn::participant::may_move;
use crate::{Core, Cx, cached};
use onpath_kernel::{Mode, OpId};
use onpath_store::NameValue;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{InodeId, ShardId, TxnId};
use onpath_wire::inode::Kind;
use onpath_wire::peer::{Access, InodeChange, PartState, TxnPart, part};
use onpath_wire::reply::OtherRecord;
use onpath_wire::request::rename;
use smallvec::SmallVec;

/// What this shard sees of the names; true as long as they are locked.
pub(super) struct Look {
    pub(super) source_here: bool,
    pub(super) source: Option<NameValue>,
    pub(super) destination: Option<NameValue>,
    /// Both names are the same one.
    pub(super) same_name: bool,
}

impl Look {
    pub(super) fn is_same_inode(&self) -> bool {
        self.same_name || self.source.zip(self.destination).is_some_and(|(s, d)| s.child == d.child)
    }

    /// The destination is the source's own directory, which is not empty if the source exists. It must not be sealed:
    /// the source's site needs its parts.
    pub(super) fn replaces_own_directory(&self, what: &Rename) -> bool {
        self.destination.is_some_and(|d| d.child == what.from_parent)
    }

    pub(super) fn source_kind(&self) -> Option<Kind> {
        self.source.map(|s| s.kind)
    }
}

/// Locks the names that are here and the inodes behind them whose home is here.
pub(super) async fn lock(cx: &Cx, what: &Rename) -> Look {
    loop {
        let before = cx.with(|core| look(core, what));
        let keys = cx.with(|core| {
            let key = |parent, name| keys::name(&core.state.names.at(parent, name));
            let mut locked = vec![(key(what.parent, &what.name), Mode::Exclusive)];
            if before.source_here {
                locked.push((key(what.from_parent, &what.from), Mode::Exclusive));
            }
            for found in [before.source, before.destination].into_iter().flatten() {
                if core.state.is_home(found.child) {
                    locked.push((keys::inode(found.child), Mode::Exclusive));
                }
            }
            locked
        });
        cx.lock_all(keys).await;
        let now = cx.with(|core| look(core, what));
        if (now.source, now.destination) == (before.source, before.destination) {
            for found in [now.source, now.destination].into_iter().flatten() {
                cached::clear(cx, found.child).await;
            }
            return now;
        }
        cx.unlock_all();
    }
}

fn look(core: &mut Core, what: &Rename) -> Look {
    let map = &core.state.config.map;
    let source_here = map.shard(map.site(what.from_parent, what.from.as_bytes())) == core.state.me();
    Look {
        source_here,
        source: if source_here { core.state.name(what.from_parent, &what.from) } else { None },
        destination: core.state.name(what.parent, &what.name),
        same_name: what.from_parent == what.parent && what.from == what.name,
    }
}

/// The access parts of both directories, if all parts are here at this instant.
pub(super) fn both(
    core: &mut Core,
    op: OpId,
    what: &Rename,
    source_here: bool,
) -> Option<(Result<Access, Gone>, Result<Access, Gone>)> {
    if planted::is(Planted::DecisionWithoutLook) {
        let open = Access { mode: 0o777, uid: 0, gid: 0, acls: None };
        return Some((Ok(open.clone()), Ok(open)));
    }
    let dir = site::have_settled(core, op, what.parent)?;
    let from_dir = if source_here { site::have_settled(core, op, what.from_parent)? } else { dir.clone() };
    Some((dir, from_dir))
}

/// Everything that can be checked here, in the order of rename(2).
pub(super) fn check(
    core: &mut Core,
    req: &Req,
    what: &Rename,
    look: &Look,
    source: Option<NameValue>,
    dir: Result<Access, Gone>,
    from_dir: Result<Access, Gone>,
) -> Result<(), Stop> {
    begin(core, req)?;
    let (dir, from_dir) = (dir?, from_dir?);
    if look.source_here {
        access::search(req, &from_dir)?;
    }
    access::search(req, &dir)?;
    if look.destination.is_none() && what.exchanges() {
        return Err(Errno::ENOENT.into());
    }
    let Some(source) = source else {
        // Another shard has it and must say first what it is; the same inode needs no permission at all.
        return if look.source_here { Err(Errno::ENOENT.into()) } else { Ok(()) };
    };
    if look.destination.is_some() && what.flags & rename::NOREPLACE != 0 {
        return Err(Errno::EEXIST.into());
    }
    if look.source_here && look.is_same_inode() {
        return Ok(());
    }
    if look.source_here {
        access::modify(req, &from_dir)?;
        if let Some(inode) = core.state.inodes.get(source.child) {
            access::sticky(req, &from_dir, (inode.uid, inode.gid))?;
            may_move(core, req, &inode, what.parent_changes())?;
        }
    }
    if what.parent == source.child {
        return Err(Errno::EINVAL.into());
    }
    access::modify(req, &dir)?;
    if look.replaces_own_directory(what) {
        return Err(if what.exchanges() { Errno::EINVAL } else { Errno::ENOTEMPTY }.into());
    }
    if let Some(replaced) = look.destination {
        if let Some(inode) = core.state.inodes.get(replaced.child) {
            access::sticky(req, &dir, (inode.uid, inode.gid))?;
            may_move(core, req, &inode, what.exchanges() && what.parent_changes())?;
        }
        match (source.kind == Kind::Directory, replaced.kind == Kind::Directory) {
            _ if what.exchanges() => {}
            (true, false) => return Err(Errno::ENOTDIR.into()),
            (false, true) => return Err(Errno::EISDIR.into()),
            _ => {}
        }
    }
    need_space(core)
}

/// Directories whose home is here and that have another place afterwards, if `source` is what moves: nobody may know where they are until
/// it is decided (P-1).
pub(super) fn local_directories_to_move(
    core: &Core,
    what: &Rename,
    look: &Look,
    source: InodeId,
) -> impl Iterator<Item = InodeId> + use<> {
    let other = look.destination.filter(|_| what.exchanges()).map(|other| other.child);
    let is_local = |dir: &InodeId| dir.is_directory() && core.state.is_home(*dir);
    let all: SmallVec<[InodeId; 2]> = [Some(source), other].into_iter().flatten().filter(is_local).collect();
    all.into_iter()
}

/// A directory that goes if the rename does, and whose home is here: all parts must be recalled first.
pub(super) fn local_directory_to_replace(core: &mut Core, what: &Rename, look: &Look) -> Option<InodeId> {
    let replaced = look.destination.filter(|d| d.kind == Kind::Directory)?;
    let replaces = !what.exchanges()
        && !look.is_same_inode()
        && !look.replaces_own_directory(what)
        && look.source_kind().is_none_or(|kind| kind == Kind::Directory);
    (replaces && core.state.is_home(replaced.child)).then_some(replaced.child)
}

/// The attempt, and who is asked first: the source's site, the home of what is replaced, the home of what moves.
pub(super) fn first(core: &mut Core, what: &Rename, look: &Look, attempt: u32) -> (TxnId, Plan) {
    let kept = [what.parent, what.from_parent];
    let txn = coordinator::begin(core, attempt, if look.source_here { &kept } else { &kept[..1] });
    (txn, questions(core, what, look))
}

/// Who is asked what in the first attempt, as the parts are now.
pub(super) fn questions(core: &mut Core, what: &Rename, look: &Look) -> Plan {
    let me = core.state.me();
    let map = core.state.config.map.clone();
    let mut plan: Plan = Vec::new();
    let mut ask = |shard: ShardId, part: TxnPart| {
        let Some(shard) = elsewhere(me, shard) else { return };
        match plan.iter_mut().find(|(asked, _)| *asked == shard) {
            Some((_, parts)) => parts.push(part),
            None => plan.push((shard, vec![part])),
        }
    };
    let (parent, name) = (what.from_parent, what.from.clone());
    let unless = look.destination.map(|d| d.child);
    let (at, to, to_name) = (map.shard(map.site(parent, name.as_bytes())), what.parent, what.name.clone());
    match what.leaves(look) {
        None => ask(at, TxnPart::Source { parent, name, to, to_name, unless }),
        Some(NameValue { child, kind }) => ask(at, TxnPart::Swap { parent, name, to, to_name, unless, child, kind }),
    }
    if let Some(replaced) = look.destination.filter(|_| !look.replaces_own_directory(what)) {
        let (change, sticky) = match replaced.kind {
            kind if what.exchanges() => (what.moves_back(kind), None),
            Kind::Directory => (InodeChange::RemoveDir, sticky_of(core, what.parent)), // a stranger must not seal it
            _ => (InodeChange::Replace { parent: what.parent }, None),                 // checked in the decision
        };
        ask(map.home(replaced.child), TxnPart::Inode { id: replaced.child, change, sticky });
    }
    if let Some(source) = look.source {
        let change = what.moves(source.kind);
        ask(map.home(source.child), TxnPart::Inode { id: source.child, change, sticky: None });
    }
    plan.sort_by_key(|(shard, _)| *shard);
    plan
}

/// The home of what moves, where that is neither here nor the source's site: an attempt of its own, since that shard
/// may have been asked for another part already.
pub(super) fn second(
    core: &mut Core,
    what: &Rename,
    look: &Look,
    votes: &Votes,
    NameValue { child, kind }: NameValue,
) -> Option<(TxnId, Plan)> {
    if look.source_here {
        return None;
    }
    let map = core.state.config.map.clone();
    let home = map.home(child);
    let source_site = map.shard(map.site(what.from_parent, what.from.as_bytes()));
    if home == core.state.me() || home == source_site {
        return None;
    }
    let txn = coordinator::begin(core, 0, &[]); // the first one keeps what both rest on
    let part = TxnPart::Inode { id: child, change: what.moves(kind), sticky: votes.source_sticky };
    Some((txn, vec![(home, vec![part])]))
}

/// Whether promises may be told before they are durable, as far as is known of what moves: of a directory others have to be told where it
/// is, and what stays under the old name is made in the decision.
pub(super) fn may_be_early(what: &Rename, look: &Look, source: Option<Kind>) -> bool {
    let kinds = [source, look.destination.map(|destination| destination.kind)];
    what.flags & (rename::EXCHANGE | rename::WHITEOUT) == 0 && !kinds.contains(&Some(Kind::Directory))
}

/// Whether the rename may be answered before it is decided. What it changes here must be locked.
pub(super) fn may_intend(core: &Core, what: &Rename, look: &Look, votes: &Votes, source: NameValue) -> bool {
    let locked = look.source_here || !core.state.is_home(source.child);
    !votes.unsure.is_empty() && locked && may_be_early(what, look, Some(source.kind))
}

fn sticky_of(core: &mut Core, dir: InodeId) -> Option<u32> {
    match site::have(core, dir, part::BOTH) {
        Some(Ok(access)) => access::sticky_owner(&access),
        _ => None, // checked again at the decision, which needs the parts
    }
}

/// The attempts of one try and what their participants found.
pub(super) struct Votes {
    pub(super) plans: Vec<(TxnId, Plan)>,
    source: Option<(InodeId, Kind)>,
    source_sticky: Option<u32>,
    /// Promises that may not be durable yet.
    pub(super) unsure: SmallVec<[OtherRecord; 3]>,
    owners: SmallVec<[(InodeId, (u32, u32)); 2]>,
}

impl Votes {
    pub(super) fn new(txn: TxnId, plan: Plan) -> Votes {
        let (unsure, owners) = (SmallVec::new(), SmallVec::new());
        Votes { plans: vec![(txn, plan)], source: None, source_sticky: None, unsure, owners }
    }

    pub(super) fn hear(&mut self, voted: Voted) {
        self.unsure.extend(voted.unsure);
        for state in voted.states.into_iter().flatten() {
            match state {
                PartState::Source { child, kind, sticky } => {
                    self.source = Some((child, kind));
                    self.source_sticky = sticky;
                }
                PartState::Inode { attr, .. } => self.owners.push((attr.id, (attr.uid, attr.gid))),
            }
        }
    }

    /// Whether all promises are durable, once those who may have said so early have been asked again.
    pub(super) async fn are_sure(&self, cx: &Cx) -> bool {
        let shards = |plan: &Plan| plan.iter().map(|(shard, _)| *shard).collect();
        let asked: Vec<_> = self.plans.iter().map(|(txn, plan)| (*txn, shards(plan))).collect();
        self.unsure.is_empty() || intention::confirmed(cx, &asked).await
    }

    /// What moves.
    pub(super) fn source(&self, look: &Look) -> Option<(InodeId, Kind)> {
        look.source.map(|s| (s.child, s.kind)).or(self.source)
    }

    /// Owner and group of an inode that its home has promised to change.
    pub(super) fn owner(&self, id: InodeId) -> Option<(u32, u32)> {
        self.owners.iter().find(|(promised, _)| *promised == id).map(|&(_, owner)| owner)
    }

    /// Owner of the source directory if it is sticky.
    pub(super) fn source_sticky(&self) -> Option<u32> {
        self.source_sticky
    }

    pub(super) fn abort(&self, core: &mut Core, cx: &Cx) {
        for (txn, plan) in &self.plans {
            coordinator::abort(core, cx.op(), *txn, plan);
        }
    }
}
