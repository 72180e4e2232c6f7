//! What an intention rests on: it is answered before the promises of its participants are durable, so that a loss of power of any of them
//! takes it back.

use onpath_wire::disk::record::{Effect, Record};
use onpath_wire::disk::txn::Part;
use onpath_wire::ids::{NodeId, TxnId};
use std::collections::BTreeMap;

/// The records of promises that are not over: of each the process and the position, or none once a crash has taken it.
#[derive(Default)]
pub(super) struct Promises(BTreeMap<(TxnId, NodeId), Option<(usize, u64)>>);

impl Promises {
    /// A shard has made this record.
    pub(super) fn note(&mut self, by: NodeId, at: (usize, u64), record: &Record) {
        for effect in &record.effects {
            match effect {
                Effect::Prepared { txn, .. } => _ = self.0.insert((*txn, by), Some(at)),
                Effect::Finished { txn } | Effect::Aborted { txn } => _ = self.0.remove(&(*txn, by)),
                _ => {}
            }
        }
    }

    /// A crash has left this prefix of a process's journal.
    pub(super) fn crashed(&mut self, process: usize, kept: u64) {
        let lost = |at: &&mut Option<(usize, u64)>| at.is_some_and(|(of, lsn)| of == process && lsn > kept);
        self.0.values_mut().filter(lost).for_each(|at| *at = None);
    }
}

/// On which records of others a change rests; nothing if one of them is lost already.
pub(super) fn rests_on(Promises(all): &Promises, by: NodeId, record: &Record) -> Option<Vec<(usize, u64)>> {
    let intends =
        |effect: &Effect| matches!(effect, Effect::Prepared { txn, .. } if NodeId::shard(txn.coordinator) == by);
    let parts = record.effects.iter().filter(|effect| intends(effect)).flat_map(|effect| match effect {
        Effect::Prepared { parts, .. } => &parts[..],
        _ => &[],
    });
    let asked = parts.filter_map(|part| match part {
        Part::Asked { txn, participants, .. } => Some((txn, participants)),
        _ => None,
    });
    let each = asked.flat_map(|(txn, participants)| participants.iter().map(|shard| (*txn, NodeId::shard(*shard))));
    each.map(|promise| all.get(&promise).copied().flatten()).collect()
}
