//! Leases of a switch's cache, and its epochs (C-4): at most one epoch has a lease, and the next one is given out when the last one is over
//! whatever became of its messages. None is given out twice, and no number of an entry is.

use super::Coordinator;
use crate::state::commit::commit_unasked;
use crate::state::packets;
use crate::{Core, Cx};
use onpath_kernel::Need;
use onpath_wire::cached::CacheLease;
use onpath_wire::disk::record::{Counter, Effect};
use onpath_wire::ids::{NodeId, RequestSeq};
use onpath_wire::limits::{CACHE_LEASE_MS, CACHE_SESSIONS_MAX, ENTRY_NUMBERS};
use onpath_wire::peer::Peer;

/// A lease is over by this clock, whatever that of the switch shows: clocks differ by less than a hundredth in how fast they run.
const LEASE_US: u64 = CACHE_LEASE_MS * 1_000 * 101 / 100;

/// The lease that was given last.
#[derive(Debug, Default)]
pub(super) struct Lease {
    /// The epoch; 0: none in this term.
    epoch: u16,
    /// To whom; none: to nobody.
    holder: Option<NodeId>,
    /// When it is over, monotonic microseconds.
    over_us: u64,
}

impl Lease {
    /// A term begins: an earlier one may have given a lease just now.
    pub(super) fn begin(&mut self, now_us: u64) {
        *self = Lease { over_us: now_us + LEASE_US, ..Lease::default() };
    }

    /// Whether a controller is given more time for its epoch.
    fn prolong(&mut self, from: NodeId, epoch: u16, now_us: u64) -> bool {
        let is_its = epoch != 0 && (self.epoch, self.holder) == (epoch, Some(from)) && now_us < self.over_us;
        if is_its {
            self.over_us = now_us + LEASE_US;
        }
        is_its
    }
}

impl Coordinator {
    /// State of the registry; no other term has had it.
    fn registry(&self, term: u32) -> u64 {
        u64::from(term) << 32 | u64::from(self.changes)
    }
}

/// A controller asks for a lease: for its epoch, or for a new one. What it is told is durable.
pub(crate) fn asked(cx: &Cx, from: NodeId, seq: RequestSeq, epoch: u16, numbers: bool, registry: u64) {
    cx.with(|core| {
        if core.state.config.map.coordinator() != core.state.config.shard {
            core.state.counters.malformed += 1;
            return;
        }
        let now_us = core.now.mono_us;
        let lease = &mut core.state.coordinator.cache;
        let epoch = if lease.prolong(from, epoch, now_us) {
            epoch
        } else if epoch == 0 && now_us >= lease.over_us {
            next_epoch(core, from)
        } else {
            0
        };
        let ms = if epoch == 0 { 0 } else { CACHE_LEASE_MS as u32 };
        let numbers = if numbers && epoch != 0 { take_numbers(core) } else { 0 };
        let present = core.state.coordinator.registry(core.state.config.term.0);
        let sessions = (epoch != 0 && registry != present).then(|| living(core));
        let placement = core.state.config.map.placement();
        let lease = CacheLease { epoch, ms, numbers, placement, registry: present, sessions };
        let body = Peer::CacheLease { lease };
        let packet = core.state.answer_packet(seq, &body);
        core.send_after(from, packet, core.state.record_seq, Need::Durable);
    });
}

/// Somebody may not be able to reach the switch of an epoch, or of any, 0: it is over before this is answered, and so is what was lent in it.
pub(crate) async fn end(cx: &Cx, from: NodeId, seq: RequestSeq, epoch: u16) {
    let over_us = cx.with(|core| {
        let lease = &mut core.state.coordinator.cache;
        let is_later = epoch != 0 && lease.epoch != 0 && lease.epoch != epoch;
        if is_later {
            return 0; // none is given out before the last one is over
        }
        (lease.epoch, lease.holder) = (0, None);
        lease.over_us
    });
    cx.sleep_until(over_us).await;
    cx.with(|core| {
        let packet = core.state.answer_packet(seq, &Peer::Done);
        core.send(cx.op(), from, packet);
    });
}

/// A home that has started asks who has the lease.
pub(crate) fn holder(cx: &Cx, from: NodeId, seq: RequestSeq) {
    cx.with(|core| {
        let lease = &core.state.coordinator.cache;
        let body = match lease.holder {
            Some(controller) if core.now.mono_us < lease.over_us => {
                Peer::CacheHolder { epoch: lease.epoch, controller }
            }
            _ => Peer::CacheHolder { epoch: 0, controller: NodeId(0) },
        };
        packets::answer_call(core, cx.op(), from, seq, &body);
    });
}

fn next_epoch(core: &mut Core, holder: NodeId) -> u16 {
    let upto = core.state.reserved.upto(Counter::CacheEpochs) + 1;
    commit_unasked(core, Effect::Reserved { counter: Counter::CacheEpochs, upto });
    let epoch = ((upto - 1) % u64::from(u16::MAX)) as u16 + 1;
    let over_us = core.now.mono_us + LEASE_US;
    core.state.coordinator.cache = Lease { epoch, holder: Some(holder), over_us };
    epoch
}

/// The first of so many numbers of entries, or 0 when all were given.
fn take_numbers(core: &mut Core) -> u32 {
    let first = core.state.reserved.upto(Counter::EntryNumbers) + 1;
    let upto = first + u64::from(ENTRY_NUMBERS) - 1;
    if upto > u64::from(u32::MAX) {
        return 0;
    }
    commit_unasked(core, Effect::Reserved { counter: Counter::EntryNumbers, upto });
    first as u32
}

/// Sessions that live and may name any caller, the first ones of them.
fn living(core: &Core) -> Vec<NodeId> {
    let may_ask = core.state.coordinator.members().filter(|(_, member)| member.alive && member.key.is_none());
    may_ask.map(|(session, _)| NodeId::session(session)).take(CACHE_SESSIONS_MAX).collect()
}
