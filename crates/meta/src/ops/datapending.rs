//! Trims and drops: told to the data node once their record is durable, again and again until acknowledged
//! (design.md, "Data"), also after a restart. Nobody waits for a drop, so drops are collected and told together.
//!
//! A cut leaves this shard only when its record is durable, in a trim as in a reply: else a power loss could make the home
//! forget a cut under which sessions write, and the data node would wait for its trim for ever.
//!
//! Drops that are not acknowledged are bounded, and nobody waits for room: an inode beyond the bound stays as one without a name, a cut to
//! nothing is a trim, and the data node repeats late writes to files that are gone.

use super::unlink::was_written;
use crate::planted::{self, Planted};
use crate::shard::Job;
use crate::state::commit::{Effects, commit_own};
use crate::state::keys;
use crate::{Core, Cx};
use onpath_kernel::Need;
use onpath_wire::data::{DataReply, DataRequest, may_have};
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::objects::PendingObject;
use onpath_wire::disk::record::Effect;
use onpath_wire::ids::{DataId, InodeId, NodeId, RecordSeq};
use onpath_wire::limits::{DROPS_COLLECT_US, DROPS_MAX};

/// The cut of a file was raised by the last record.
pub(crate) fn trim_later(core: &mut Core, data: DataId, cut: u32) {
    let after = core.state.record_seq;
    core.state.raised.insert(data.inode, after);
    core.start(Job::Trim(data, cut, after));
}

/// A shrink: writes under the new cut wait at the data node until it has heard of it. Trims of a file go one after
/// the other: the file may have grown between them, so that the later one does not take what the earlier one does.
pub(crate) async fn trim(cx: &Cx, data: DataId, cut: u32, after: RecordSeq) {
    let key = keys::inode(data.inode).0;
    let earlier = |core: &Core| core.state.data_pending.range((data, 0, false)..(data, cut, false)).any(|(k, _)| !k.2);
    cx.until(key, |core| (planted::is(Planted::TrimsOvertake) || !earlier(core)).then_some(())).await;
    let pending = cx.with(|core| {
        core.rest_on(cx.op(), after);
        core.state.data_pending.get(&(data, cut, false)).copied()
    });
    let Some(PendingObject { size, keep_reserved }) = pending else {
        return cx.with(|core| known(core, data.inode, after));
    };
    let node = cx.with(|core| core.state.config.map.data(data.inode));
    let request = DataRequest::Trim { data, cut, size, keep_reserved };
    let answer = cx.call_when(node, Need::Durable, |core, seq| core.state.data_packet(seq, &request)).await;
    cx.with(|core| {
        if let Ok(DataReply::Trimmed { blocks, version }) = answer.body::<DataReply>()
            && may_have(blocks)
            && core.state.data_pending.contains_key(&(data, cut, false))
        {
            let effects: Effects = vec![Effect::DataDone { data, cut, drop: false, blocks, version }];
            commit_own(core, cx.op(), effects);
            core.wake(key);
        }
        known(core, data.inode, after);
    });
}

/// The cut that was raised by record `after` is durable, or of no more interest.
fn known(core: &mut Core, id: InodeId, after: RecordSeq) {
    if core.state.raised.get(&id) == Some(&after) && !planted::is(Planted::CutsRemembered) {
        core.state.raised.remove(&id);
    }
}

/// Whether a data node may be told to drop one more file.
pub(super) fn may_drop(core: &Core) -> bool {
    core.state.drops_pending < core.state.config.bounds.drops
}

/// Whether an inode without a name may go for good. If not, it stays until there is room for another drop.
pub(super) fn may_go(core: &mut Core, inode: &Inode) -> bool {
    let may = may_drop(core) || !was_written(inode);
    if !may {
        core.state.unreclaimed.insert(inode.id);
    }
    may
}

/// Orphans that waited for room go, as far as there is some.
fn reclaim_more(core: &mut Core) {
    // A journal may hold more than is let in.
    let room = core.state.config.bounds.drops.saturating_sub(core.state.drops_pending);
    for _ in 0..room.min(DROPS_MAX) {
        let Some(id) = core.state.unreclaimed.pop_first() else { return };
        core.start(Job::Reclaim(id));
    }
}

/// Files of which a data node is to hear that they are gone.
#[derive(Debug, Default)]
pub(crate) struct Drops {
    all: Vec<DataId>,
    /// [`Job::Drops`] runs.
    told: bool,
}

impl Drops {
    /// How many nobody has been told of yet.
    pub(crate) fn waiting(&self) -> usize {
        self.all.len()
    }
}

/// Bytes of a generation that is gone, to be dropped in time.
pub(crate) fn drop_later(core: &mut Core, data: DataId) {
    let node = core.state.config.map.data(data.inode);
    let drops = core.state.drops.entry(node).or_default();
    drops.all.push(data);
    if !std::mem::replace(&mut drops.told, true) {
        core.start(Job::Drops(node));
    }
}

/// Tells a data node what is gone, until there is nothing more.
pub(crate) async fn drops(cx: &Cx, node: NodeId) {
    loop {
        let until_us = cx.with(|core| core.now.mono_us + DROPS_COLLECT_US);
        cx.sleep_until(until_us).await;
        let all = cx.with(|core| {
            let last = core.state.record_seq; // they rest on the records that let them go
            core.rest_on(cx.op(), last);
            let drops = core.state.drops.get_mut(&node)?;
            let n = drops.all.len().min(DROPS_MAX);
            if n == 0 {
                core.state.drops.remove(&node);
                return None;
            }
            Some(drops.all.drain(..n).collect::<Vec<_>>())
        });
        let Some(all) = all else { return };
        let request = DataRequest::Drop { all };
        let answer = cx.call_when(node, Need::DurableInTime, |core, seq| core.state.data_packet(seq, &request)).await;
        let DataRequest::Drop { all } = request else { unreachable!("made above") };
        cx.with(|core| match answer.body::<DataReply>() {
            Ok(DataReply::Trimmed { version, .. }) => dropped(core, cx, all, version),
            _ => core.state.drops.entry(node).or_default().all.extend(all),
        });
    }
}

fn dropped(core: &mut Core, cx: &Cx, all: Vec<DataId>, version: u64) {
    let pending = all.into_iter().filter(|data| core.state.data_pending.contains_key(&(*data, 0, true)));
    let effects: Effects =
        pending.map(|data| Effect::DataDone { data, cut: 0, drop: true, blocks: 0, version }).collect();
    if !effects.is_empty() {
        commit_own(core, cx.op(), effects);
        reclaim_more(core);
    }
}
