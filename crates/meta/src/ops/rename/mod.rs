//! rename: moves a name, over another one if need be; decided at the destination name's site (design.md, "Transactions").
//!
//! Semantics: renameat2(2): same inode under both names is a success that does nothing; a directory replaces only an
//! empty directory and never moves below itself. RENAME_EXCHANGE: both names are there and change places, neither being
//! above the other. RENAME_WHITEOUT: a character device 0/0 stays under the old name, made here and not at its site, which
//! so need not be told more than for an exchange. Directories that change their parent are serialized by the
//! coordinator module, which makes the walk for cycles stable.
//! Locks: both names if they are here, inodes whose home is here. Journals: names, change-log entries, inodes, the
//! decision. Rules. `plan` finds out what is where, `climb` walks and takes turns, `decide` is step 7.

mod climb;
mod decide;
mod plan;

use super::{Req, Step, Stop, named};
use crate::dir::{collect, holders, site};
use crate::state::{births, keys};
use crate::txn::Kept;
use crate::txn::coordinator::{self, Refusal};
use crate::txn::intention;
use crate::{Core, Cx};
use climb::{Climb, Found};
use onpath_kernel::OpId;
use onpath_store::NameValue;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{InodeId, ShardId};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::peer::{InodeChange, part};
use onpath_wire::reply::Reply;
use onpath_wire::request::rename;
use plan::{Look, Votes};

/// What is asked.
pub(crate) struct Rename {
    pub(crate) from_parent: InodeId,
    pub(crate) from: Name,
    pub(crate) parent: InodeId,
    pub(crate) name: Name,
    pub(crate) flags: u32,
    /// What stays under the old name (RENAME_WHITEOUT).
    pub(crate) whiteout: Option<InodeId>,
}

impl Rename {
    fn exchanges(&self) -> bool {
        self.flags & rename::EXCHANGE != 0
    }

    fn parent_changes(&self) -> bool {
        self.from_parent != self.parent
    }

    /// What happens to the source, which is of this type.
    fn moves(&self, kind: Kind) -> InodeChange {
        let name = (kind == Kind::Directory).then(|| self.name.clone());
        InodeChange::Move { from: self.from_parent, to: self.parent, name }
    }

    /// What an exchange does to the inode of this type under the new name.
    fn moves_back(&self, kind: Kind) -> InodeChange {
        let name = (kind == Kind::Directory).then(|| self.from.clone());
        InodeChange::Move { from: self.parent, to: self.from_parent, name }
    }

    /// Whether a directory gets another parent, if the source is of this type.
    fn moves_directory(&self, look: &Look, source: Option<Kind>) -> bool {
        let directory = |kind: Option<Kind>| kind == Some(Kind::Directory);
        let other = look.destination.filter(|_| self.exchanges()).map(|d| d.kind);
        self.parent_changes() && (directory(source) || directory(other))
    }

    /// What the source name leads to afterwards, if anything.
    fn leaves(&self, look: &Look) -> Option<NameValue> {
        let whiteout = self.whiteout.map(|child| NameValue { child, kind: Kind::CharDevice });
        whiteout.or(look.destination.filter(|_| self.exchanges()))
    }
}

/// What ends an attempt without ending the operation.
enum Again {
    /// Somebody was busy: after a pause.
    Later,
    /// It is a directory that moves: in its turn.
    InTurn,
    /// It moves to deep in the tree: once that is walked through.
    Deep,
}

pub(crate) async fn run(cx: &Cx, req: &Req, mut what: Rename) -> Step {
    if !rename::is_known(what.flags) {
        return Err(Errno::EINVAL.into());
    }
    let slot = named::here(cx, what.parent, &what.name)?.slot();
    if what.flags & rename::WHITEOUT != 0 {
        while what.whiteout.is_none() {
            match cx.with(|core| core.state.new_inode_id(slot, Kind::CharDevice)) {
                Some(id) => what.whiteout = Some(id),
                None => births::more(cx).await?,
            }
        }
    }
    let mut climb = Climb::new(req.caller.uid);
    let ended = attempts(cx, req, &what, &mut climb).await;
    climb.end(cx).await;
    ended
}

async fn attempts(cx: &Cx, req: &Req, what: &Rename, climb: &mut Climb) -> Step {
    for attempt in 0.. {
        let outcome = attempt_once(cx, req, what, climb, attempt).await;
        cx.unlock_all();
        match outcome? {
            Ok(reply) => return reply,
            Err(Again::InTurn) => climb.take_turn(cx).await,
            Err(Again::Deep) => {
                climb.climb(cx, what).await?;
                climb.take_turn(cx).await;
            }
            Err(Again::Later) => {
                climb.end_long_turn(cx).await;
                coordinator::back_off(cx, attempt).await?;
            }
        }
    }
    unreachable!("attempts are bounded by back_off")
}

/// One attempt: look, ask, decide. The reply of a decided rename has left when this returns.
async fn attempt_once(
    cx: &Cx,
    req: &Req,
    what: &Rename,
    climb: &mut Climb,
    attempt: u32,
) -> Result<Result<Step, Again>, Stop> {
    let look = plan::lock(cx, what).await;
    loop {
        let dir = site::grant_settled(cx, what.parent).await;
        let from_dir = if look.source_here { site::grant_settled(cx, what.from_parent).await } else { dir.clone() };
        if what.whiteout.is_some() && !look.source_here {
            // Whose group the whiteout gets. If it is gone, the source's site says so.
            _ = site::grant(cx, what.from_parent, part::ACCESS).await;
        }
        let both = cx.with(|core| plan::both(core, cx.op(), what, look.source_here));
        if both.is_none() {
            continue; // one was recalled while we waited for the other
        }
        cx.with(|core| plan::check(core, req, what, &look, look.source, dir, from_dir))?;
        let moving = look.source.map_or(InodeId::NONE, |source| source.child);
        let moving: Kept = cx.with(|core| plan::local_directories_to_move(core, what, &look, moving).collect());
        for dir in moving {
            // Sealed on the side, so that it stays so until the decision.
            if !cx.with(|core| collect::is_withdrawn(core, dir, part::PATH)) {
                cx.until(keys::grants(dir), |core| holders::is_revoked(core, dir, part::PATH).then_some(())).await;
            }
        }
        let Some(replaced) = cx.with(|core| plan::local_directory_to_replace(core, what, &look)) else { break };
        if cx.with(|core| holders::is_revoked(core, replaced, part::ALL)) {
            break;
        }
        holders::revoke(cx, replaced, part::ALL).await;
        if cx.with(|core| plan::both(core, cx.op(), what, look.source_here)).is_some() {
            break;
        }
    }
    if look.source_here && look.is_same_inode() {
        return Ok(Ok(Ok(Reply::Done)));
    }
    if !climb.has_turn() && what.moves_directory(&look, look.source_kind()) {
        return Ok(Err(Again::InTurn));
    }
    vote(cx, req, what, &look, climb, attempt).await
}

async fn vote(
    cx: &Cx,
    req: &Req,
    what: &Rename,
    look: &Look,
    climb: &mut Climb,
    attempt: u32,
) -> Result<Result<Step, Again>, Stop> {
    let (txn, plan) = cx.with(|core| plan::first(core, what, look, attempt));
    let mut votes = Votes::new(txn, plan);
    let early = plan::may_be_early(what, look, look.source_kind());
    match coordinator::prepare(cx, req, txn, &votes.plans[0].1, early).await {
        Ok(voted) => votes.hear(voted),
        Err(Refusal::Busy) => return Ok(Err(Again::Later)),
        Err(Refusal::Stop(stop)) if coordinator::is_outdated(&stop, attempt, &votes.plans[0].1) => {
            return Ok(Err(Again::Later));
        }
        Err(Refusal::Stop(stop)) => return Err(stop),
    }
    let Some((child, kind)) = votes.source(look) else { unreachable!("the source is here or was prepared") };
    let source = NameValue { child, kind };
    let early = cx.with(|core| judge(core, cx.op(), req, what, look, source, climb.has_turn()));
    if let Some(early) = early {
        cx.with(|core| votes.abort(core, cx));
        return early;
    }
    let found = if what.parent_changes() { climb.look(cx, what, look, source).await } else { Found::NoCircle };
    if found != Found::NoCircle {
        cx.with(|core| votes.abort(core, cx));
        return if found == Found::Deep { Ok(Err(Again::Deep)) } else { Err(Errno::EINVAL.into()) };
    }
    if let Some((txn, plan)) = cx.with(|core| plan::second(core, what, look, &votes, source)) {
        let early = plan::may_be_early(what, look, Some(kind));
        match coordinator::prepare(cx, req, txn, &plan, early).await {
            Ok(voted) => {
                votes.plans.push((txn, plan));
                votes.hear(voted);
            }
            Err(refusal) => {
                cx.with(|core| votes.abort(core, cx));
                return match refusal {
                    Refusal::Busy => Ok(Err(Again::Later)),
                    Refusal::Stop(stop) => Err(stop),
                };
            }
        }
    }
    conclude(cx, req, what, look, climb, &votes, source).await
}

/// Step 7, and what follows it: the decision, or an answer before it.
async fn conclude(
    cx: &Cx,
    req: &Req,
    what: &Rename,
    look: &Look,
    climb: &mut Climb,
    votes: &Votes,
    source: NameValue,
) -> Result<Result<Step, Again>, Stop> {
    let intends = cx.with(|core| plan::may_intend(core, what, look, votes, source));
    if !intends && !votes.are_sure(cx).await {
        cx.with(|core| votes.abort(core, cx));
        return Ok(Err(Again::Later));
    }
    let decided = cx.with(|core| decide::step(core, cx, req, what, look, votes, source, intends));
    match decided {
        None => {
            cx.with(|core| votes.abort(core, cx));
            Ok(Err(Again::Later))
        }
        Some(Err(stop)) => {
            cx.with(|core| votes.abort(core, cx));
            Err(stop)
        }
        Some(Ok(())) if intends => {
            intention::settle(cx, votes.plans[0].0).await;
            Ok(Ok(Err(Stop::Answered)))
        }
        Some(Ok(())) => {
            climb.moved(what, look, source);
            cx.unlock_all();
            for (txn, plan) in &votes.plans {
                if !plan.is_empty() {
                    coordinator::finish(cx, *txn).await;
                }
            }
            Ok(Ok(Err(Stop::Answered)))
        }
    }
}

/// What can be said as soon as the source is known: an answer, or the need for a turn.
fn judge(
    core: &mut Core,
    op: OpId,
    req: &Req,
    what: &Rename,
    look: &Look,
    source: NameValue,
    has_turn: bool,
) -> Option<Result<Result<Step, Again>, Stop>> {
    if look.destination.is_some_and(|d| d.child == source.child) && what.flags & rename::NOREPLACE == 0 {
        return Some(Ok(Ok(Ok(Reply::Done))));
    }
    let Some((dir, from_dir)) = plan::both(core, op, what, look.source_here) else {
        return Some(Ok(Err(Again::Later)));
    };
    if let Err(stop) = plan::check(core, req, what, look, Some(source), dir, from_dir) {
        return Some(Err(stop));
    }
    let moves = what.moves_directory(look, Some(source.kind));
    (moves && !has_turn).then_some(Ok(Err(Again::InTurn)))
}

/// The shard that must be asked about a part, unless it is this one.
fn elsewhere(me: ShardId, shard: ShardId) -> Option<ShardId> {
    (shard != me).then_some(shard)
}
