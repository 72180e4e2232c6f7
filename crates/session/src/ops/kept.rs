//! What this session was told and a power loss may take: fsync says EIO where it did.
//!
//! Under `commit = interval` a host answers before its disk has what it says. Each answer to a change names the record on which it rests, and
//! the session remembers the last one of each inode until fsync. A shard that starts again tells up to where its records are there; what
//! the session was told beyond that may be gone. So may what it was told before a loss of power that an earlier start has noticed.

use crate::fs::Handle;
use crate::limits::{TERMS_UNSYNCED_MAX, UNSYNCED_MAX};
use crate::op::{DataAnswer, Op, data_answer};
use crate::state::{State, header};
use hashbrown::HashMap;
use onpath_kernel::{Answer, Core};
use onpath_wire::data::{DataReply, DataRequest};
use onpath_wire::errno::Errno;
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{InodeId, NodeId, RecordSeq, Slot, Term, term_of_seq};
use onpath_wire::packet::Packet;
use onpath_wire::reply::{OtherRecord, Reply};
use onpath_wire::request::Request;
use onpath_wire::request::describe::{Changes, Description};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// The last record told by each shard and data node in each of its terms.
pub(crate) type Records = SmallVec<[(NodeId, RecordSeq); 1]>;

/// Which of a session's losses of what it was told; 0 for none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct LossNumber(u32);

/// What was told of one inode since it was synced.
#[derive(Debug, Default)]
struct Told {
    records: Records,
    /// The last time that some of it may have gone, and the last of which an fsync has told.
    lost: LossNumber,
    said: LossNumber,
}

/// What was told of changed inodes. Those of which nothing was heard for the longest time are forgotten when there are too many, long
/// after the disk has them: but not that something was lost of which no fsync has told.
#[derive(Debug, Default)]
pub(crate) struct Unsynced {
    young: HashMap<InodeId, Told>,
    old: HashMap<InodeId, Told>,
    last_loss: LossNumber,
    /// In which term each of them has told what it has: what it tells later of the same ones is no news.
    heard_in: BTreeMap<NodeId, Term>,
}

impl Unsynced {
    /// An answer of a shard or a data node about this inode rests on the record.
    pub(crate) fn note(&mut self, id: InodeId, node: NodeId, record: RecordSeq) {
        if self.young.len() >= UNSYNCED_MAX && !self.young.contains_key(&id) {
            let forgotten = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            let unsaid = forgotten.into_iter().filter(|(_, told)| told.lost > told.said);
            self.young.extend(unsaid.take(UNSYNCED_MAX / 2));
        }
        let Unsynced { young, old, last_loss, .. } = self;
        let Told { records, lost, .. } = young.entry(id).or_insert_with(|| old.remove(&id).unwrap_or_default());
        let same = |(of, last): &&mut (NodeId, RecordSeq)| *of == node && term_of_seq(last.0) == term_of_seq(record.0);
        if let Some((_, last)) = records.iter_mut().find(same) {
            *last = record.max(*last);
            return;
        }
        records.push((node, record));
        if records.iter().filter(|(of, _)| *of == node).count() > TERMS_UNSYNCED_MAX {
            let first = records.iter().position(|(of, _)| *of == node).expect("there are some");
            records.remove(first);
            last_loss.0 += 1;
            *lost = *last_loss;
        }
    }

    /// Memory that this takes.
    pub(crate) fn bytes(&self) -> u64 {
        ((self.young.capacity() + self.old.capacity()) * size_of::<(InodeId, Told)>()) as u64
    }

    /// What an fsync that begins now is about.
    pub(crate) fn of(&self, id: InodeId) -> Records {
        self.young.get(&id).or_else(|| self.old.get(&id)).map(|told| told.records.clone()).unwrap_or_default()
    }

    /// Whether anything was told by this shard or data node.
    pub(crate) fn rests_on(&self, node: NodeId) -> bool {
        let mut all = self.young.values().chain(self.old.values()).flat_map(|told| &told.records);
        all.any(|(of, _)| *of == node)
    }

    /// In this term it has its records since that term, up to `upto`.
    fn heard(&mut self, node: NodeId, term: Term, (since, upto): (Term, RecordSeq)) {
        if self.heard_in.insert(node, term) == Some(term) {
            return;
        }
        let loss = LossNumber(self.last_loss.0 + 1);
        for Told { records, lost, .. } in self.young.values_mut().chain(self.old.values_mut()) {
            records.retain(|&mut (of, record)| {
                let told_in = term_of_seq(record.0);
                let former = of == node && told_in < term;
                if former && (record > upto || told_in < since) {
                    (*lost, self.last_loss) = (loss, loss);
                }
                !former
            });
        }
    }

    /// What who opens this inode now need not be told any more.
    pub(crate) fn told_loss(&self, id: InodeId) -> LossNumber {
        self.young.get(&id).or_else(|| self.old.get(&id)).map(|told| told.said).unwrap_or_default()
    }

    /// All that `records` tell is durable or gone; the last time that some may have gone.
    fn synced(&mut self, id: InodeId, synced: &Records) -> LossNumber {
        let Unsynced { young, old, .. } = self;
        let of = if young.contains_key(&id) { young } else { old };
        let Some(told) = of.get_mut(&id) else { return LossNumber::default() };
        told.records.retain(|now| !synced.contains(now));
        told.said = told.lost;
        if told.records.is_empty() && told.lost == LossNumber::default() {
            of.remove(&id);
            return LossNumber::default();
        }
        told.lost
    }
}

/// A request was answered by a shard: an fsync of each inode and directory that it has changed says whether the change is there.
pub(crate) fn note(core: &mut Core<State>, what: &Description<'_>, answer: &Packet, reply: &Reply) {
    let inode = what.about.inode().filter(|_| what.changes.has(Changes::ATTRIBUTES));
    let directories = what.about.names().map(|(parent, _)| parent).filter(|_| what.changes.has(Changes::NAMES));
    for id in inode.into_iter().chain(directories) {
        note_of(core, id, answer);
        let Reply::DoneOn { records } = reply else { continue };
        let known = |told: &&OtherRecord| usize::from(told.shard.0) < core.state.terms.len();
        let records: SmallVec<[OtherRecord; 3]> = records.iter().filter(known).copied().collect();
        for OtherRecord { shard, record } in records {
            core.state.unsynced.note(id, NodeId::shard(shard), record);
        }
    }
}

/// A shard has answered about this inode.
pub(crate) fn note_of(core: &mut Core<State>, id: InodeId, answer: &Packet) {
    let Ok(header) = answer.header() else { return };
    let record = header.of_reply().map(|replied| replied.record).filter(|record| *record > RecordSeq(0));
    if let Some(record) = record {
        core.state.unsynced.note(id, header.source, record);
    }
}

/// Asks a shard or data node that has started again what of its former terms is there.
pub(crate) async fn ask(op: &Op, node: NodeId) {
    // With `soft` it is given up; then fsync asks.
    let _ = ask_all(op, &[node]).await;
}

async fn ask_all(op: &Op, nodes: &[NodeId]) -> Result<(), Errno> {
    let body = op.with(|core| core.state.own_body(Request::Kept));
    let make = |core: &mut Core<State>, to: NodeId, seq| match to.as_shard() {
        Some(shard) => {
            let slot = core.state.a_slot_of[shard.0 as usize];
            Packet::new(&header(core, MessageKind::Request, to, slot, seq), &body)
        }
        None => Packet::new(&header(core, MessageKind::Data, to, Slot(0), seq), &DataRequest::Kept),
    };
    for answer in op.call_all(nodes, make).await? {
        let Answer::Packet(packet) = answer else { return Err(Errno::EIO) };
        let header = packet.header().map_err(|_| Errno::EIO)?;
        let kept = match data_answer(packet)? {
            DataAnswer::Home(Reply::Kept { since, upto }) => (since, upto),
            DataAnswer::Node(DataReply::Kept { since, upto }, _) => (since, upto),
            _ => return Err(Errno::EIO),
        };
        op.with(|core| core.state.unsynced.heard(header.source, header.term, kept));
    }
    Ok(())
}

/// All that was told of an inode in `records` is durable at its home and its data node: EIO if it is not what was told, once for each handle that was open
/// then, or for one that is opened later, as Linux does. Others may have started again since and not be known to have, and the home is in
/// the term in which it said so.
pub(crate) async fn settle(op: &Op, handle: Handle, id: InodeId, records: &Records) -> Result<(), Errno> {
    let mut doubtful: SmallVec<[NodeId; 4]> = op.with(|core| {
        let state = &core.state;
        let synced = [NodeId::shard(state.config.map.home(id)), state.config.map.data(id)];
        let is_told_now =
            |(node, record): &&(NodeId, RecordSeq)| synced.contains(node) && term_of_seq(record.0) == state.term(*node);
        records.iter().filter(|told| !is_told_now(told)).map(|&(node, _)| node).collect()
    });
    doubtful.sort_unstable();
    doubtful.dedup();
    if !doubtful.is_empty() {
        ask_all(op, &doubtful).await?;
    }
    op.with(|core| {
        let lost = core.state.unsynced.synced(id, records);
        // A handle that was closed meanwhile tells nobody.
        let Ok(open) = core.state.opens.get(handle) else { return Ok(()) };
        let new = lost > open.told_loss;
        open.told_loss = open.told_loss.max(lost);
        if new { Err(Errno::EIO) } else { Ok(()) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::ids::ShardId;

    const FILE: InodeId = InodeId(77);
    fn home() -> NodeId {
        NodeId::shard(ShardId(3))
    }

    fn record(term: u32, count: u64) -> RecordSeq {
        RecordSeq(Term(term).first_seq() + count)
    }

    /// Whether fsync says that something was lost, by a handle of before, at a home in `term` that has its records since another one up to
    /// `upto`.
    fn fsync(unsynced: &mut Unsynced, term: u32, since: u32, upto: RecordSeq) -> bool {
        let (told, before) = (unsynced.of(FILE), unsynced.told_loss(FILE));
        unsynced.heard(home(), Term(term), (Term(since), upto));
        unsynced.synced(FILE, &told) > before
    }

    #[test]
    fn what_is_there_is_synced_and_what_is_gone_is_said_once() {
        let cases = [
            (record(5, 10), 5, 5, record(4, 900), false), // told in this term
            (record(5, 10), 6, 0, record(5, 10), false),
            (record(5, 11), 6, 0, record(5, 10), true),
            (record(5, 1), 7, 5, record(6, 3), false),
            (record(5, 1), 7, 6, record(6, 3), true), // nobody knows any more
        ];
        for (told, term, since, upto, lost) in cases {
            let mut unsynced = Unsynced::default();
            unsynced.note(FILE, home(), told);
            assert_eq!(fsync(&mut unsynced, term, since, upto), lost, "{told:?} in {term} since {since} with {upto:?}");
            assert!(!fsync(&mut unsynced, term, since, upto), "once");
            assert!(unsynced.of(FILE).is_empty() && unsynced.young.is_empty() != lost);
        }
    }

    #[test]
    fn later_writes_hide_no_loss_and_other_shards_are_others() {
        let mut unsynced = Unsynced::default();
        unsynced.note(FILE, home(), record(5, 11));
        unsynced.heard(home(), Term(6), (Term(0), record(5, 10)));
        unsynced.note(FILE, home(), record(6, 1));
        unsynced.note(FILE, NodeId::shard(ShardId(4)), record(2, 1));
        unsynced.heard(NodeId::shard(ShardId(4)), Term(3), (Term(0), record(2, 1)));
        assert!(fsync(&mut unsynced, 6, 0, record(5, 10)));
        // As many terms as nobody has asked about: the first is as good as lost.
        (0..=TERMS_UNSYNCED_MAX as u32).for_each(|n| unsynced.note(FILE, home(), record(10 + n, 1)));
        assert!(unsynced.of(FILE).len() <= TERMS_UNSYNCED_MAX);
        assert!(fsync(&mut unsynced, 10 + TERMS_UNSYNCED_MAX as u32, 0, record(99, 1)));
    }

    #[test]
    fn what_is_told_during_an_fsync_is_left_for_the_next() {
        let mut unsynced = Unsynced::default();
        unsynced.note(FILE, home(), record(5, 10));
        let told = unsynced.of(FILE);
        unsynced.note(FILE, home(), record(5, 11));
        assert_eq!(unsynced.synced(FILE, &told), LossNumber::default());
        assert!(fsync(&mut unsynced, 6, 0, record(5, 10)));
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut unsynced = Unsynced::default();
        unsynced.note(FILE, home(), record(5, 11));
        let others = |from: usize| (from..from + UNSYNCED_MAX).map(|n| InodeId(1_000 + n as u64));
        others(0).for_each(|id| unsynced.note(id, home(), record(5, 11)));
        assert!(!unsynced.of(FILE).is_empty());
        unsynced.note(FILE, home(), record(5, 12)); // it is young again
        others(UNSYNCED_MAX).for_each(|id| unsynced.note(id, home(), record(5, 11)));
        assert!(!unsynced.of(FILE).is_empty());
        others(2 * UNSYNCED_MAX).for_each(|id| unsynced.note(id, home(), record(5, 11)));
        assert!(unsynced.of(FILE).is_empty() && unsynced.rests_on(home()));
        // All of these may be gone now, and of as many as may be kept that is known whatever comes then.
        unsynced.heard(home(), Term(6), (Term(0), record(5, 10)));
        for from in 3..6 {
            others(from * UNSYNCED_MAX).for_each(|id| unsynced.note(id, home(), record(6, 1)));
        }
        let unsaid = unsynced.young.values().chain(unsynced.old.values()).filter(|told| told.lost > told.said).count();
        assert!((UNSYNCED_MAX / 2..=UNSYNCED_MAX).contains(&unsaid), "{unsaid}");
        assert!(unsynced.young.len() + unsynced.old.len() <= 2 * UNSYNCED_MAX);
    }
}
