//! Which sessions have which inodes open, reservations of O_APPEND, and reclaiming orphans (design.md, "Sessions").
//!
//! Volatile: after a restart sessions register their opens again, and until the grace is over no orphan is reclaimed. It ends when all
//! sessions that lived have said that they have done so (`super::lockgrace`), so that the space of what is removed comes back soon; at the
//! latest after one session lease.

use super::unlink::{drop_data, drop_inode};
use super::{Req, Step, Stop, begin, bound, datapending, named};
use crate::files::holders;
use crate::planted::{self, Planted};
use crate::shard::Job;
use crate::state::commit::{Effects, commit_own};
use crate::state::{keys, packets};
use crate::{Core, Cx};
use hashbrown::hash_map::EntryRef;
use hashbrown::{HashMap, HashSet};
use onpath_kernel::{Gauge, Mode};
use onpath_wire::errno::Errno;
use onpath_wire::ids::{InodeId, NodeId, RequestSeq, SessionId, SessionNumber, ShardId};
use onpath_wire::limits::{OPEN_GRACE_MS, OPENS_PER_SESSION_MAX, SESSION_LEASE_MS, memory};
use onpath_wire::peer::Peer;
use onpath_wire::reply::Reply;
use onpath_wire::request::open;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// A session that has closed everything keeps a table for so many opens, for the next ones.
const OPENS_KEPT: usize = 64;

/// Who may write at a file's end.
#[derive(Clone, Copy, Debug)]
struct Reserved {
    session: SessionId,
    /// The request that reserved it: the write comes later.
    request: RequestSeq,
}

/// A session that has an inode open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    pub(super) session: SessionId,
    pub(super) pages: Pages,
    /// How it has opened it: bits of [`onpath_wire::ticket::right`].
    rights: u8,
}

/// What a session may have of a file in memory ([`super::pages`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pages {
    /// Nothing that is not written back.
    Unchanged,
    /// Pages that were changed through a mapping.
    Changed,
    /// The same, and it does not answer: nobody waits for it.
    Silent,
}

const _: () =
    assert!(2 * (size_of::<(InodeId, SmallVec<[Holder; 2]>)>() + size_of::<InodeId>()) as u64 <= memory::OPEN_AT_HOME);

/// Who has what open.
#[derive(Debug, Default)]
pub(crate) struct Opens {
    by_inode: HashMap<InodeId, SmallVec<[Holder; 2]>>,
    by_session: HashMap<SessionId, HashSet<InodeId>>,
    reserved: BTreeMap<InodeId, Reserved>,
    end_wanted: BTreeSet<(InodeId, SessionId)>,
    grace: bool,
    /// Orphans to be looked at, and when.
    lingering: BTreeSet<(u64, InodeId)>,
    /// The last moment of each of them: until then they are not reclaimed, whoever closes them.
    lingers: HashMap<InodeId, u64>,
}

impl Opens {
    /// Its tables: of the session that has the most open, and reservations of the ends of files.
    pub(crate) fn gauges(&self, all: &mut Vec<Gauge>) {
        let most = self.by_session.values().map(HashSet::len).max();
        all.extend([
            Gauge::table("inodes that a session has open", most.unwrap_or(0), OPENS_PER_SESSION_MAX),
            Gauge::table("ends of files reserved", self.reserved.len(), OPENS_PER_SESSION_MAX),
        ]);
    }

    /// A session has an inode open from now on, with these rights; `maps`: it may change pages of it in memory.
    pub(crate) fn register(&mut self, id: InodeId, session: SessionId, maps: bool, rights: u8) -> Result<(), Stop> {
        let mine = self.by_session.entry(session).or_default();
        if mine.len() >= OPENS_PER_SESSION_MAX {
            return Err(Errno::ENFILE.into());
        }
        let pages = if maps { Pages::Changed } else { Pages::Unchanged };
        if mine.insert(id) {
            self.by_inode.entry(id).or_default().push(Holder { session, pages, rights });
            return Ok(());
        }
        if maps {
            self.set_pages(id, session, pages);
        }
        self.add_rights(id, session, rights);
        Ok(())
    }

    /// A session that has an inode open has opened it with these rights, too.
    pub(crate) fn add_rights(&mut self, id: InodeId, session: SessionId, rights: u8) {
        let mut holders = self.by_inode.get_mut(&id).into_iter().flatten();
        if let Some(holder) = holders.find(|holder| holder.session == session) {
            holder.rights |= rights;
        }
    }

    /// How a session has opened an inode; 0 if it has not.
    pub(crate) fn rights(&self, id: InodeId, session: SessionId) -> u8 {
        self.holders(id).iter().find(|holder| holder.session == session).map_or(0, |holder| holder.rights)
    }

    /// Whether a session has opened an inode with one of these rights.
    pub(crate) fn may(&self, id: InodeId, session: SessionId, rights: u8) -> bool {
        self.rights(id, session) & rights != 0
    }

    /// Who has an inode open.
    pub(super) fn holders(&self, id: InodeId) -> &[Holder] {
        self.by_inode.get(&id).map(|holders| &holders[..]).unwrap_or_default()
    }

    /// What a session that has an inode open has of it in memory from now on.
    pub(super) fn set_pages(&mut self, id: InodeId, session: SessionId, pages: Pages) {
        let mut holders = self.by_inode.get_mut(&id).into_iter().flatten();
        if let Some(holder) = holders.find(|holder| holder.session == session) {
            holder.pages = pages;
        }
    }

    /// A session has closed an inode; true if nobody has it open any more.
    pub(crate) fn release(&mut self, id: InodeId, session: SessionId) -> bool {
        if let Some(mine) = self.by_session.get_mut(&session) {
            mine.remove(&id);
            if mine.is_empty() && mine.capacity() > OPENS_KEPT {
                self.by_session.remove(&session);
            }
        }
        let EntryRef::Occupied(mut holders) = self.by_inode.entry_ref(&id) else { return true };
        holders.get_mut().retain(|holder| holder.session != session);
        let last = holders.get().is_empty();
        if last {
            holders.remove();
        }
        last
    }

    /// Whether anybody has it open.
    pub(crate) fn is_open(&self, id: InodeId) -> bool {
        self.by_inode.contains_key(&id)
    }

    /// Whether an orphan stays: somebody has it open, or may come who has just found it under its name, or opens of a former term
    /// may not be registered yet.
    pub(crate) fn is_kept(&self, id: InodeId) -> bool {
        self.is_open(id) || self.lingers.contains_key(&id) || self.grace
    }

    /// Whether opens of a former term may not be registered yet.
    pub(super) fn in_grace(&self) -> bool {
        self.grace
    }

    /// Whether another session has it open.
    pub(crate) fn shared(&self, id: InodeId, session: SessionId) -> bool {
        self.holders(id).iter().any(|holder| holder.session != session)
    }

    /// The same, or that is not known yet.
    pub(crate) fn may_be_shared(&self, id: InodeId, session: SessionId) -> bool {
        self.grace || self.shared(id, session)
    }

    /// A session will wait for a file's end.
    pub(crate) fn want_end(&mut self, id: InodeId, session: SessionId) {
        self.end_wanted.insert((id, session));
    }

    /// Reserves a file's end; false if the session has given up waiting, nothing while another one has it.
    pub(crate) fn reserve(&mut self, id: InodeId, session: SessionId, request: RequestSeq) -> Option<bool> {
        if !self.end_wanted.contains(&(id, session)) {
            return Some(false);
        }
        let mine = Reserved { session, request };
        let holder = self.reserved.entry(id).or_insert(mine);
        (holder.session == session).then(|| {
            *holder = mine;
            self.end_wanted.remove(&(id, session))
        })
    }

    /// An append has been merged; true if it was the one of this reservation, so that others may look again.
    pub(crate) fn appended(&mut self, id: InodeId, session: SessionId, request: RequestSeq) -> bool {
        let by = |r: &Reserved| r.session == session && r.request < request;
        self.reserved.get(&id).is_some_and(by) && self.unreserve(id, session)
    }

    /// Gives up a session's reservation, or its waiting for one; true if others may look again.
    pub(crate) fn unreserve(&mut self, id: InodeId, session: SessionId) -> bool {
        let waited = self.end_wanted.remove(&(id, session));
        let mine = self.reserved.get(&id).is_some_and(|holder| holder.session == session);
        if mine {
            self.reserved.remove(&id);
        }
        mine || waited
    }

    /// A session is dead: what it had open alone, and what it had reserved.
    fn forget(&mut self, session: SessionId) -> (Vec<InodeId>, Vec<InodeId>) {
        let mut opened: Vec<_> = self.by_session.get(&session).into_iter().flatten().copied().collect();
        opened.sort_unstable();
        let closed = opened.into_iter().filter(|&id| self.release(id, session)).collect();
        self.by_session.remove(&session);
        let reserved: Vec<_> =
            self.reserved.iter().filter(|(_, holder)| holder.session == session).map(|(&id, _)| id).collect();
        reserved.iter().for_each(|id| {
            self.reserved.remove(id);
        });
        self.end_wanted.retain(|(_, waiting)| *waiting != session);
        (closed, reserved)
    }

    /// Number of inodes that somebody has open.
    pub(crate) fn len(&self) -> usize {
        self.by_inode.len()
    }
}

/// As [`begin`], for a request that opens too. What a former term has executed is answered again, but with that term went what it
/// had registered. Only once: a late copy may come after the file was closed.
pub(crate) fn begin_open(core: &mut Core, req: &Req, flags: u32) -> Result<(), Stop> {
    let begun = begin(core, req);
    if let Err(Stop::Again(reply)) = &begun
        && flags & open::REGISTER != 0
        && let Reply::Entry { attr, created: true, .. } | Reply::Attr { attr, .. } = &**reply
        && core.state.inodes.contains(attr.id)
    {
        // What is remembered may be the answer to another request: a bound session is not believed that it was this one.
        if req.bound.is_some()
            && matches!(**reply, Reply::Attr { .. })
            && let Some((attr, _)) = core.state.inodes.shown(attr.id)
        {
            super::open::permitted(core, req, &attr, flags)?;
        }
        if !core.state.replies.asked_again(req.session, req.seq) {
            return begun;
        }
        core.state.opens.register(attr.id, req.session, flags & open::MAP != 0, bound::rights(flags))?;
        holders::opened(core, attr.id, req.session);
    }
    begun
}

/// The session has closed its last handle.
pub(crate) async fn release(cx: &Cx, req: &Req, id: InodeId) -> Step {
    cx.with(|core| {
        begin(core, req)?;
        if core.state.opens.release(id, req.session) && core.state.inodes.nlink(id) == Some(0) {
            core.start(Job::Reclaim(id));
        }
        Ok(Reply::Done)
    })
}

/// How long an orphan whose name was taken over stays, microseconds.
const LINGER_US: u64 = 1_000_000;

/// Keeps an orphan for a moment, even if it is opened and closed meanwhile; then it is reclaimed unless somebody has it open. One that a
/// session may have opened by what a switch said stays until that has told so.
pub(crate) fn linger(core: &mut Core, id: InodeId) {
    let is_open = linger_if_opened(core, id);
    if !is_open {
        linger_for(core, id, LINGER_US);
    }
}

/// Keeps an orphan that a session may have opened by what a switch said, unless the space is needed (C-10).
pub(crate) fn linger_if_opened(core: &mut Core, id: InodeId) -> bool {
    let is_open = core.state.cached.may_be_open(id, core.now.mono_us) && !core.state.full;
    if is_open {
        linger_for(core, id, OPEN_GRACE_MS * 1_000);
    }
    is_open
}

fn linger_for(core: &mut Core, id: InodeId, us: u64) {
    let due_us = core.now.mono_us + us;
    let opens = &mut core.state.opens;
    let is_first = opens.lingering.first().is_none_or(|&(first_us, _)| due_us < first_us);
    opens.lingering.insert((due_us, id));
    opens.lingers.insert(id, due_us);
    if is_first {
        core.start(Job::Linger);
    }
}

/// Reclaims what has lingered long enough, until there is nothing more.
pub(crate) async fn end_lingering(cx: &Cx) {
    while let Some((due_us, id)) = cx.with(|core| core.state.opens.lingering.first().copied()) {
        cx.sleep_until(due_us).await;
        cx.with(|core| end_one(core, due_us, id));
    }
}

fn end_one(core: &mut Core, due_us: u64, id: InodeId) {
    let opens = &mut core.state.opens;
    if opens.lingering.remove(&(due_us, id)) && opens.lingers.get(&id) == Some(&due_us) {
        opens.lingers.remove(&id);
        core.start(Job::Reclaim(id));
    }
}

/// Space is needed: nothing lingers any longer.
pub(crate) fn end_all_lingering(core: &mut Core) {
    for (due_us, id) in core.state.opens.lingering.clone() {
        end_one(core, due_us, id);
    }
}

/// Reclaims an orphan unless it is kept.
pub(crate) async fn reclaim(cx: &Cx, id: InodeId) {
    named::lock_inode(cx, id, Mode::Exclusive).await;
    cx.with(|core| {
        let orphan = core.state.inodes.get(id).filter(|inode| inode.nlink == 0);
        let Some(inode) = orphan.filter(|_| !core.state.opens.is_kept(id)) else { return };
        if !datapending::may_go(core, &inode) {
            return;
        }
        let mut effects = Effects::new();
        let dropped = drop_inode(&inode, &mut effects);
        commit_own(core, cx.op(), effects);
        drop_data(core, dropped);
    });
}

/// Waits one session lease after a restart; then orphans that nobody has registered are reclaimed.
pub(crate) async fn grace(cx: &Cx) {
    let (orphans_possible, now_us) = cx.with(|core| {
        let root = u64::from(core.state.is_home(InodeId::ROOT));
        let possible = core.state.inodes.len() > root;
        core.state.opens.grace = possible && !planted::is(Planted::OrphansWithoutGrace);
        (possible, core.now.mono_us)
    });
    if !orphans_possible {
        return; // freshly made: nobody can have anything open
    }
    if cx.with(|core| core.state.opens.grace) {
        cx.sleep_until(now_us + SESSION_LEASE_MS * 1_000).await;
    }
    cx.with(end_grace);
}

/// Whatever is open is registered again: orphans that are not are reclaimed.
pub(crate) fn end_grace(core: &mut Core) {
    core.state.opens.grace = false;
    let orphans = orphans(core);
    orphans.into_iter().for_each(|id| core.start(Job::Reclaim(id)));
}

fn orphans(core: &Core) -> Vec<InodeId> {
    core.state.orphans.iter().copied().collect()
}

/// The coordinator module says that a session is dead.
pub(crate) fn session_dead(cx: &Cx, from: ShardId, seq: RequestSeq, session: SessionNumber) {
    cx.with(|core| {
        bury(core, session);
        packets::answer_call(core, cx.op(), NodeId::shard(from), seq, &Peer::Done);
    });
}

/// Drops everything that a dead session holds here.
pub(crate) fn bury(core: &mut Core, dead: SessionNumber) {
    let session = dead.id();
    core.state.living.forget(dead);
    let (closed, reserved) = core.state.opens.forget(session);
    for id in closed {
        if core.state.inodes.nlink(id) == Some(0) {
            core.start(Job::Reclaim(id));
        }
    }
    reserved.into_iter().for_each(|id| core.wake(keys::inode(id).0));
    super::lock::session_dead(core, session);
    super::lockgrace::heard(core, dead);
    let forgotten = core.state.buried.add(dead, core.state.replies.of(dead));
    forgotten.into_iter().for_each(|session| core.state.replies.forget(session));
}
