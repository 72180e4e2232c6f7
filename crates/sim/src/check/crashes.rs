//! What crashes leave of what has happened: changes whose records are gone happen no more, and what rested on them is judged once more.

use super::log::Cut;
use super::writes::learned;
use super::{Checker, Excuse, reply};
use crate::model::{Model, Seen};
use onpath_wire::errno::Errno;
use onpath_wire::ids::{RequestSeq, SessionId};
use onpath_wire::reply::Reply;

impl Checker {
    /// A process's journal is durable up to here.
    pub fn durable(&mut self, process: usize, lsn: u64) {
        self.log.durable(process, lsn);
        self.sizes.durable(process, lsn);
    }

    /// A crash has left this prefix of a process's journal. What it took back happens no more; nothing
    /// acknowledged may be among it unless `may_lose`.
    pub fn crashed(&mut self, process: usize, kept: u64, may_lose: bool) {
        self.happened([4, process as u64, kept]);
        self.lost_power |= may_lose;
        self.suffered.crashes += 1;
        self.suffered.losses += u64::from(may_lose);
        self.forget_gated(process, kept, may_lose);
        self.forget_learned(process, kept);
        self.sizes.crashed(process, kept);
        self.promises.crashed(process, kept);
        let mut cut = self.log.crashed(&mut self.model, (process, kept), |at| learned(&self.learned, at));
        self.are_hollow(&mut cut, |_| may_lose);
        self.lose(cut, may_lose);
    }

    /// Changes were taken back, and happen no more; nothing acknowledged may be among them unless `may_lose`.
    pub(super) fn lose(&mut self, cut: Cut, may_lose: bool) {
        self.model.loosen_times();
        self.checks.taken_back += cut.lost.len() as u64;
        self.violations.extend(cut.contradictions);
        if !may_lose && let Some(first) = cut.lost.first().map(|lost| lost.position) {
            self.judge_taken(first);
        }
        for lost in cut.lost {
            self.forget_witness(lost.session, lost.seq, may_lose);
            let revived = self.revived.remove(&(lost.session, lost.seq));
            if (may_lose || revived) && lost.asked.write.is_some() {
                self.reviving.insert((lost.session, lost.seq), lost.asked.clone());
            }
            if let Some(at) = lost.write.filter(|_| may_lose) {
                self.gone.insert(at, (lost.session, lost.seq, lost.asked.clone()));
            }
            match (lost.acknowledged, may_lose, revived) {
                (false, ..) => {}
                (true, true, _) => self.excuse(Excuse::LostChange),
                (true, false, true) => self.excuse(Excuse::LostAgain),
                (true, false, false) => self.violation(format!(
                    "a crash loses {:?}/{}, which was acknowledged: {:?}",
                    lost.session, lost.seq, lost.asked
                )),
            }
        }
    }

    /// The home of a file has the size and times of writes, and its data node has not the bytes: they read as zeros, until the write is done
    /// again if somebody repeats it. Whether that may be depends on whether it was acknowledged.
    pub(super) fn are_hollow(&mut self, cut: &mut Cut, may_be: impl Fn(bool) -> bool) {
        for ((session, seq), acknowledged) in std::mem::take(&mut cut.hollow) {
            if !may_be(acknowledged) {
                self.violation(format!("a crash leaves the size of {session:?}/{seq} without its bytes"));
            }
            self.excuse(Excuse::Hollow);
            self.pending(session, seq).into_iter().for_each(|write| write.hollow = true);
        }
    }

    /// Changes from `first` on were taken back: answers that clients have taken must be right without them.
    fn judge_taken(&mut self, first: u64) {
        if self.forgotten > first {
            self.excuse(Excuse::Forgotten);
        }
        for taken in std::mem::take(&mut self.taken) {
            if taken.end <= first
                || matches!(taken.reply, Reply::NeedCaller { .. } | Reply::Failed { errno: Errno::ENOSPC })
            {
                continue;
            }
            let right =
                |model: &mut Model| reply::unchanged(model, &taken.asked, &taken.reply, Seen::Elsewhere).is_ok();
            let model = &mut self.model;
            if !right(model) && !self.log.search_back(model, taken.invoked, right) {
                let what = format!("a crash takes back what {:?} was answered: {:?}", taken.asked, taken.reply);
                self.violation(what);
            }
        }
    }

    /// A request's change happens no more.
    fn forget_witness(&mut self, session: SessionId, seq: RequestSeq, may_lose: bool) {
        let pending = self.sessions.get_mut(&session).and_then(|known| known.pending.iter_mut().find(|p| p.seq == seq));
        let Some(pending) = pending else { return };
        pending.witness = None;
        if may_lose {
            let valid = pending.valid.iter().filter(|(_, change)| *change).map(|(hash, _)| *hash);
            pending.excused.extend(valid.chain(pending.on_mark));
        }
        pending.valid.retain(|(_, change)| !*change);
    }
}
