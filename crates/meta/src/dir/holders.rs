//! Who holds what of an object, and the one way to take it back.
//!
//! A holder is a life of a role: it counts under its address and its *incarnation*, so that a late message of a former life takes and
//! gives nothing. A table is volatile: after a restart everybody may hold everything, until a part was taken back from all.
//! Whatever must not happen while others decide with a part of a directory – chmod, ACLs, rmdir, renames, changes of state – goes through
//! [`revoke`]. Shards hold access and append parts, path nodes hold path parts (P-1); a table knows of each part for itself whether it has
//! all holders.

use super::collect::{Next, next};
use super::owner::{self, apply_batch, table};
use super::tracker::Look;
use super::{group, leases, ways};
use crate::planted::{self, Planted};
use crate::shard::Job;
use crate::state::{keys, packets};
use crate::{Core, Cx};
use onpath_kernel::Answer;
use onpath_wire::ids::{InodeId, JobId, NodeId, Term};
use onpath_wire::limits::RECALL_TIMEOUT_US;
use onpath_wire::peer::{Peer, part};
use smallvec::SmallVec;

/// A life of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holder {
    /// Its address.
    pub(crate) node: NodeId,
    /// Grows with each of its lives: of a shard its term.
    pub(crate) incarnation: Term,
}

/// The holders of one object, with the parts that each has.
#[derive(Default, Debug)]
pub(crate) struct Holders {
    held: SmallVec<[(Holder, u8); 2]>,
    /// Parts whose holders are all in the table.
    known: u8,
}

impl Holders {
    /// A table that has all holders of these parts: none.
    pub(crate) fn known(parts: u8) -> Holders {
        Holders { known: parts, ..Holders::default() }
    }

    /// Holders of any of `parts` in the table.
    pub(crate) fn of(&self, parts: u8) -> SmallVec<[NodeId; 4]> {
        self.held.iter().filter(|(_, held)| held & parts != 0).map(|(holder, _)| holder.node).collect()
    }

    /// Whether nobody in the table has any of `parts`.
    pub(crate) fn is_free(&self, parts: u8) -> bool {
        self.held.iter().all(|(_, held)| held & parts == 0)
    }

    /// Whether the table has all holders of `parts`.
    pub(crate) fn knows(&self, parts: u8) -> bool {
        self.known & parts == parts
    }

    /// `parts` were taken back from everybody.
    pub(crate) fn learn(&mut self, parts: u8) {
        self.known |= if planted::is(Planted::OneKnownForBoth) { part::BOTH } else { parts };
    }

    /// `node` has given `parts` back; whether it had any of them.
    pub(crate) fn gave_back(&mut self, node: NodeId, parts: u8) -> bool {
        let Some(at) = self.held.iter().position(|(holder, _)| holder.node == node) else { return false };
        let had = self.held[at].1 & parts != 0;
        self.held[at].1 &= !parts;
        if self.held[at].1 == 0 {
            self.held.remove(at);
        }
        had
    }

    /// `holder` has `parts` from now on. False, and nothing happens, if a later life of it has been granted something: what asks is a
    /// late copy. What a former life had counts as this one's until it is taken back: the role says then that it has nothing.
    pub(crate) fn grant(&mut self, holder: Holder, parts: u8) -> bool {
        match self.held.iter_mut().find(|(known, _)| known.node == holder.node) {
            Some((known, _)) if known.incarnation > holder.incarnation => return false,
            Some((known, held)) => {
                known.incarnation = holder.incarnation;
                *held |= parts;
            }
            None => {
                self.held.push((holder, parts));
                self.held.sort_unstable();
            }
        }
        true
    }
}

/// After this, and until the next await, no other role has any of `parts` of a directory, and all entries are applied.
pub(crate) async fn revoke(cx: &Cx, dir: InodeId, parts: u8) {
    if planted::is(Planted::ForgottenTooEarly) && cx.with(|core| ways::are_kept(core, dir, parts)) {
        ways::forget(cx, dir).await;
    }
    loop {
        match cx.until(keys::grants(dir), |core| next(core, dir, parts, |_| Look::Recall)).await {
            Next::Clear => return,
            Next::Ask(round) => round.run(cx, dir, parts).await,
            Next::Forget => ways::forget(cx, dir).await,
            Next::Gather(_) => unreachable!("a revocation takes parts"),
        }
    }
}

/// Whether [`revoke`] would return at once.
pub(crate) fn is_revoked(core: &mut Core, dir: InodeId, parts: u8) -> bool {
    if parts == part::PATH && (!core.state.config.map.has_path_nodes() || planted::is(Planted::MovedWithoutRecall)) {
        return true; // no table is made for it
    }
    !waits_for_doubt(core, dir, parts) && !ways::are_kept(core, dir, parts) && {
        let table = table(core, dir);
        table.job.is_none() && table.holders.knows(parts) && table.holders.is_free(parts)
    }
}

/// Whether parts of a directory cannot be taken back now, since names in it are in doubt. Where it is itself has nothing to do with them.
pub(super) fn waits_for_doubt(core: &Core, dir: InodeId, parts: u8) -> bool {
    parts & part::BOTH != 0 && core.state.txns.in_doubt(dir)
}

/// A question to holders for what they have.
pub(super) struct Round {
    pub(super) job: JobId,
    pub(super) holders: SmallVec<[NodeId; 4]>,
    /// Everybody is asked, so that the table is complete afterwards.
    pub(super) everybody: bool,
}

impl Round {
    /// Asks, applies what they hand over, and wakes who waits.
    pub(super) async fn run(self, cx: &Cx, dir: InodeId, parts: u8) {
        let Round { job, holders, everybody } = self;
        let deadline_us =
            cx.with(|core| (core.now.mono_us + RECALL_TIMEOUT_US).min(leases::first_over_us(core, &holders)));
        let applied_before = cx.with(|core| core.state.counters.entries_applied);
        let recall = Peer::Recall { dir, parts, job };
        let answers = cx.call_all(&holders, deadline_us, |core, _, seq| core.state.peer_packet(seq, &recall)).await;
        cx.with(|core| {
            let mut complete = true;
            for (&holder, answer) in holders.iter().zip(answers) {
                complete &= take_back(core, cx, dir, parts, job, holder, answer);
            }
            let table = table(core, dir);
            if complete && everybody {
                table.holders.learn(parts);
            }
            table.job = None;
            let waiters = table.has_waiters();
            if complete && parts == part::APPEND {
                owner::found(core, dir, applied_before);
            }
            match (complete, parts & part::APPEND != 0) {
                (true, true) => group::recalled(core, dir),
                (false, true) => group::applied_outside(core, dir), // fewer than all
                (_, false) => {}
            }
            group::wake(core, dir);
            if waiters {
                // A job, not a call: readers that waited for this collect run first and need no further one.
                core.start(Job::GiveGrants(dir));
            }
        });
    }
}

/// Takes one holder's answer; true when it holds nothing more of what was recalled.
fn take_back(core: &mut Core, cx: &Cx, dir: InodeId, parts: u8, job: JobId, holder: NodeId, answer: Answer) -> bool {
    let Some(Ok(Peer::Recalled { job: of, batch, more, .. })) = answer.packet().map(|p| p.body::<Peer>()) else {
        if holder.as_shard().is_none() && !leases::is_live(core, holder) {
            leases::strike(core, dir, holder);
            return true;
        }
        core.state.counters.recalls_abandoned += 1; // it stays in the table; the next round asks again
        return false;
    };
    if of != job {
        return false;
    }
    let Some(shard) = holder.as_shard() else {
        table(core, dir).holders.gave_back(holder, parts); // a path node appends nothing
        return true;
    };
    let entries = !batch.entries.is_empty();
    let last = batch.entries.last().map(|entry| entry.seq);
    let upto = apply_batch(core, cx.op(), dir, shard, batch);
    if entries {
        core.rest_on_object(cx.op(), keys::inode(dir));
        packets::tell(core, cx.op(), shard, &Peer::Applied { dir, upto });
    }
    let all_applied = !more && last.is_none_or(|last| last <= upto);
    if all_applied {
        table(core, dir).holders.gave_back(holder, parts);
    }
    all_applied
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::ids::ShardId;

    fn holder(shard: u16, term: u32) -> Holder {
        Holder { node: NodeId::shard(ShardId(shard)), incarnation: Term(term) }
    }

    #[test]
    fn a_table_tells_who_has_what() {
        let mut table = Holders::known(part::APPEND);
        assert!(table.grant(holder(2, 5), part::ACCESS) && table.grant(holder(1, 5), part::BOTH));
        assert_eq!(table.of(part::ACCESS)[..], [holder(1, 5).node, holder(2, 5).node]);
        assert_eq!(table.of(part::APPEND)[..], [holder(1, 5).node]);
        assert!(table.knows(part::APPEND) && !table.knows(part::BOTH));
        table.gave_back(holder(1, 5).node, part::APPEND);
        assert!(table.is_free(part::APPEND) && !table.is_free(part::ACCESS));
        table.learn(part::ACCESS);
        assert!(table.knows(part::BOTH));
    }

    #[test]
    fn a_former_life_is_granted_nothing() {
        let mut table = Holders::known(part::BOTH);
        assert!(table.grant(holder(1, 6), part::ACCESS));
        assert!(!table.grant(holder(1, 5), part::APPEND), "a late copy of what it asked before its restart");
        assert!(table.is_free(part::APPEND));
        assert!(table.grant(holder(1, 7), part::APPEND));
        assert_eq!(table.held[..], [(holder(1, 7), part::BOTH)], "until it says that it has nothing of before");
    }
}
