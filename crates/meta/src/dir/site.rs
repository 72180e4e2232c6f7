//! The side that appends: parts held of directories that other shards own.

use super::{group, mark, push};
use crate::planted::{self, Planted};
use crate::state::commit::{Effects, commit_own};
use crate::state::{keys, packets};
use crate::{Core, Cx, dir};
use onpath_kernel::{Key, Mode, OpId};
use onpath_wire::disk::record::{Effect, Record};
use onpath_wire::ids::{InodeId, JobId, LogSeq, NodeId, RequestSeq, ShardId};
use onpath_wire::limits::GRANTS_HELD_MAX;
use onpath_wire::peer::{Access, Batch, GrantResult, Peer, part};
use std::collections::BTreeSet;

/// What this shard holds of a directory.
#[derive(Default, Debug)]
pub(crate) struct SiteDir {
    access: Option<Access>,
    append: bool,
    /// An update is exposed when the owner has applied it: the directory is in *sync*.
    write_through: bool,
    /// The owner has said that it is removed; ids are never reused, so this stays true.
    gone: bool,
    /// Parts that operations wait for.
    wanted: u8,
    /// A request to the owner is on its way.
    asking: bool,
    /// A recall came since we asked: the answer on its way does not count.
    void: bool,
}

/// What a table's row takes, and its place in the order.
pub(super) const GRANT_BYTES: u64 = 2 * (size_of::<(InodeId, SiteDir)>() + size_of::<InodeId>()) as u64;

/// The directory is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

impl SiteDir {
    pub(crate) fn inspect(&self, all: &mut Vec<(&'static str, u64)>) {
        all.push(("holds_access", u64::from(self.access.is_some())));
        all.push(("holds_append", u64::from(self.append)));
        all.push(("writes_through", u64::from(self.write_through)));
        all.push(("knows_it_gone", u64::from(self.gone)));
    }

    fn holds(&self) -> u8 {
        (if self.access.is_some() { part::ACCESS } else { 0 }) | (if self.append { part::APPEND } else { 0 })
    }
}

/// Whether updates of `dir` are exposed only when the owner has applied them.
pub(crate) fn writes_through(core: &Core, dir: InodeId) -> bool {
    core.state.dirs.site.get(&dir).is_some_and(|site| site.write_through)
}

/// The access part of `dir` if this shard has `parts` of it now; else they are asked for.
pub(crate) fn have(core: &mut Core, dir: InodeId, parts: u8) -> Option<Result<Access, Gone>> {
    if core.state.is_home(dir) {
        return dir::owner::own(core, dir, parts);
    }
    if core.state.dirs.hidden(dir) && !planted::is(Planted::ShownTooEarly) {
        return None; // shown when the owner has applied it
    }
    let site = core.state.dirs.site.entry(dir).or_default();
    if site.gone {
        return Some(Err(Gone));
    }
    if let (Some(access), true) = (site.access.clone(), site.holds() & parts == parts) {
        let room = parts & part::APPEND == 0 || push::has_room(core, dir);
        return room.then_some(Ok(access));
    }
    site.wanted |= parts | part::ACCESS;
    if !site.asking {
        site.asking = true;
        core.start(crate::shard::Job::AskGrant(dir));
    }
    None
}

/// After a restart: nobody sees the inodes of this shard that hidden entries are about. As before, they are locked until the owner has
/// applied those.
pub(crate) async fn conceal(cx: &Cx, dir: InodeId) {
    if planted::is(Planted::ShownTooEarly) {
        return;
    }
    let keys: BTreeSet<Key> = cx.with(|core| {
        let ours = core.state.dirs.children(dir).filter(|&child| core.state.is_home(child));
        let keys: BTreeSet<Key> = ours.map(keys::inode).collect();
        core.state.dirs.concealed += keys.len();
        keys
    });
    let concealed = keys.len();
    cx.lock_all(keys.into_iter().map(|key| (key, Mode::Exclusive))).await;
    cx.until(keys::grants(dir), |core| (!core.state.dirs.hidden(dir)).then_some(())).await;
    cx.with(|core| core.state.dirs.concealed -= concealed);
}

/// [`have`] with both parts, for a change that shows in two places: only while what is appended is exposed at once.
pub(crate) fn have_settled(core: &mut Core, op: OpId, dir: InodeId) -> Option<Result<Access, Gone>> {
    let access = have(core, dir, part::BOTH)?;
    (access.is_err() || mark::settled(core, op, dir)).then_some(access)
}

/// Waits for both parts of a directory and until what is appended is exposed at once; good until the next await.
pub(crate) async fn grant_settled(cx: &Cx, dir: InodeId) -> Result<Access, Gone> {
    cx.until(keys::grants(dir), |core| have_settled(core, cx.op(), dir)).await
}

/// Waits for `parts` of a directory. They are good until the next await.
pub(crate) async fn grant(cx: &Cx, dir: InodeId, parts: u8) -> Result<Access, Gone> {
    cx.until(keys::grants(dir), |core| have(core, dir, parts)).await
}

/// Asks the owner until what is wanted is there, or the directory is gone.
pub(crate) async fn ask(cx: &Cx, dir: InodeId) {
    let owner = cx.with(|core| {
        core.state.counters.grants_asked += 1;
        NodeId::shard(core.state.config.map.home(dir))
    });
    loop {
        let answer = cx
            .call(owner, |core, seq| {
                let site = core.state.dirs.site.entry(dir).or_default();
                site.void = false;
                let parts = site.wanted;
                core.state.peer_packet(seq, &Peer::GrantAsk { dir, parts, nonce: seq.0 })
            })
            .await;
        let done = cx.with(|core| match answer.body::<Peer>() {
            Ok(Peer::GrantAnswer { result, .. }) => install(core, dir, result),
            _ => false,
        });
        if done {
            return;
        }
    }
}

fn install(core: &mut Core, dir: InodeId, result: GrantResult) -> bool {
    let dirs = &mut core.state.dirs;
    let site = dirs.site.entry(dir).or_default();
    match result {
        GrantResult::Gone => site.gone = true,
        GrantResult::Path { .. } => return false, // a shard has not asked for it
        GrantResult::Granted { .. } if site.void && !planted::is(Planted::OvertakenGrant) => return false,
        GrantResult::Granted { parts, access, write_through } => {
            if parts & part::ACCESS != 0 {
                site.access = Some(access);
            }
            if parts & part::APPEND != 0 {
                (site.append, site.write_through) = (true, write_through);
            }
            core.state.marks.new_generation(core.state.config.map.fingerprint(dir));
        }
    }
    let dirs = &mut core.state.dirs;
    let site = dirs.site.entry(dir).or_default();
    let done = site.gone || site.wanted & !site.holds() == 0;
    if done {
        site.asking = false;
        site.wanted = 0;
        dirs.held_order.push_back(dir);
        forget_oldest(core);
    }
    core.wake(keys::grants(dir));
    done
}

/// Holding less than the owner believes is always safe, so the oldest grants are dropped when there are too many.
fn forget_oldest(core: &mut Core) {
    let dirs = &mut core.state.dirs;
    while dirs.held_order.len() > GRANTS_HELD_MAX {
        let Some(oldest) = dirs.held_order.pop_front() else { return };
        if dirs.site.get(&oldest).is_some_and(|site| !site.asking) {
            dirs.site.remove(&oldest);
            core.state.marks.forget(core.state.config.map.fingerprint(oldest));
        }
    }
}

/// A recall of the owner: gives the parts back and hands over all unapplied entries. It waits for nothing but
/// prepared transactions of this directory (R-13, transactions step 4).
pub(crate) async fn recalled(cx: &Cx, from: ShardId, seq: RequestSeq, dir: InodeId, parts: u8, job: JobId) {
    if cx.with(|core| core.state.config.map.home(dir)) != from {
        return; // not the owner's to recall
    }
    let doubts = !planted::is(Planted::PromiseWithoutDoubt);
    cx.until(keys::doubt(dir), |core| (!doubts || !core.state.txns.in_doubt(dir)).then_some(())).await;
    if planted::is(Planted::RecallWaitsForMark) {
        let group = cx.with(|core| core.state.config.map.fingerprint(dir));
        cx.until(keys::group(group), |core| (!mark::has_gates(core, dir)).then_some(())).await;
    }
    cx.with(|core| {
        if let Some(site) = core.state.dirs.site.get_mut(&dir) {
            if parts & part::ACCESS != 0 {
                site.access = None;
            }
            if parts & part::APPEND != 0 {
                (site.append, site.write_through) = (false, false);
            }
            site.void = site.asking;
        }
        core.state.marks.new_generation(core.state.config.map.fingerprint(dir));
        core.state.counters.recalls += 1;
        let append = parts & part::APPEND != 0 && !planted::is(Planted::RecallWithoutEntries);
        let (batch, more) = if append { core.state.dirs.batch(dir) } else { (Batch::default(), false) };
        if !batch.entries.is_empty() {
            let all = core.state.record_seq; // an answer with entries rests on their records
            core.rest_on(cx.op(), all);
        }
        let answer = Peer::Recalled { dir, job, batch, more };
        packets::answer_call(core, cx.op(), NodeId::shard(from), seq, &answer);
    });
}

/// The owner has applied our change-log up to here.
pub(crate) fn applied(cx: &Cx, from: ShardId, dir: InodeId, upto: LogSeq) {
    cx.with(|core| {
        if core.state.config.map.home(dir) == from {
            trim(core, cx.op(), dir, upto);
        }
    });
}

/// Trims a change-log and shows what waited for that.
pub(crate) fn trim(core: &mut Core, op: OpId, dir: InodeId, upto: LogSeq) {
    if core.state.dirs.holds_entry(dir, upto) {
        let effects: Effects = vec![Effect::TrimLog { dir, upto }];
        commit_own(core, op, effects);
        core.wake(keys::grants(dir));
        core.wake(keys::group(core.state.config.map.fingerprint(dir)));
        push::room(core);
        push::rest(core, dir);
        push::consider_floor(core);
    }
}

/// A record was committed: what it appended is exposed in time and pushed in time.
pub(crate) fn appended(core: &mut Core, op: OpId, record: &Record) {
    for effect in &record.effects {
        match effect {
            Effect::PutName { parent, log, .. } | Effect::DropName { parent, log, .. } => {
                if log.seq == LogSeq(0) {
                    group::applied_outside(core, *parent);
                } else {
                    mark::appended(core, op, *parent, log.seq);
                    push::consider(core, *parent, log.seq);
                }
            }
            // A directory was moved, say: whoever sees that must see what returned before.
            Effect::PutInode { inode } if inode.is_dir() && !planted::is(Planted::InodeUnnoticed) => {
                group::applied_outside(core, inode.id)
            }
            Effect::DropInode { id } => {
                core.state.dirs.forget_owned(*id, core.state.config.map.fingerprint(*id));
                core.wake(keys::grants(*id)); // of the group's jobs it hears no more
            }
            _ => {}
        }
    }
}
