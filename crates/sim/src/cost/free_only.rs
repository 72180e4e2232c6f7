//! A table of files in the switch as its authors have it, to compare with ours (Switch∆ §III-C): an entry takes a write only while it is free.

use super::clients::CLUSTER;
use super::model::{Event, Model};
use super::server::Flight;
use onpath_kernel::{Input, Role};
use onpath_wire::data::Merge;
use onpath_wire::header::{Header, MessageKind};
use onpath_wire::ids::{NodeClass, NodeId, RequestSeq, ShardId, TrackingEpoch};
use onpath_wire::innet::{EntryName, InNet, Visibility, VisibilityOp};
use onpath_wire::map::ClusterMap;
use onpath_wire::packet::Packet;
use onpath_wire::peer::Peer;
use std::collections::BTreeMap;

/// The writes of a file that its home has learned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Learned {
    entry: EntryName,
    home: ShardId,
    /// Up to which position, its lower half.
    upto: u32,
}

/// The paper's registers.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    occupied: bool,
    epoch: TrackingEpoch,
    /// CurTs: of what it has.
    current: u32,
    /// MaxTs: of all that it ever had.
    newest: u32,
}

/// Which entries are free.
#[derive(Default)]
pub(super) struct FreeOnly {
    entries: BTreeMap<u32, Entry>,
    /// What data nodes tell homes, by both and the number of the message, until it is answered.
    told: BTreeMap<(NodeId, NodeId, u64), Vec<Learned>>,
}

/// Whether a position comes after another one: both are 32 bits of a larger number.
fn is_after(one: u32, other: u32) -> bool {
    one.wrapping_sub(other).cast_signed() > 0
}

impl FreeOnly {
    /// An install reaches the switch: it takes its entry, or belongs to an epoch that never was, so that the program does not take it.
    pub(super) fn meets(&mut self, packet: &mut Packet) {
        let Some(InNet::Visibility(install)) = packet.innet.as_deref_mut() else { return };
        if install.op() != Some(VisibilityOp::Install) {
            return;
        }
        let Visibility { index, ts, epoch, .. } = *install;
        let entry = self.entries.entry(index).or_default();
        if entry.occupied || (entry.newest != 0 && !is_after(ts, entry.newest)) {
            install.epoch = 0;
        } else {
            *entry = Entry { occupied: true, epoch: TrackingEpoch(epoch), current: ts, newest: ts };
        }
    }

    /// A message leaves: what its receiver has learned, if it says so.
    fn passes(&mut self, flight: &Flight, map: &ClusterMap) -> Option<Vec<Learned>> {
        let header = flight.packet.header().ok()?;
        let (from, to, seq) = (flight.from, flight.to, header.seq.0);
        match (header.kind(), from.class(), to.class()) {
            (MessageKind::Data, Some(NodeClass::Data), Some(NodeClass::Shard)) => {
                let Ok(Merge::Answered { all }) = flight.packet.body::<Merge>() else { return None };
                let learned = all.iter().map(|one| Learned {
                    entry: map.entry(one.data.inode),
                    home: to.as_shard().expect("checked by class"),
                    upto: one.last.0 as u32,
                });
                self.told.insert((from, to, seq), learned.collect());
                None
            }
            (MessageKind::PeerAnswer, Some(NodeClass::Shard), Some(NodeClass::Data)) => {
                self.told.remove(&(to, from, seq))
            }
            _ => None,
        }
    }

    /// Of an entry that has nothing newer, what clears it in the switch.
    fn frees(&mut self, learned: &Learned) -> Option<InNet> {
        let entry = self.entries.get_mut(&learned.entry.index()).filter(|entry| entry.occupied)?;
        if is_after(entry.current, learned.upto) {
            return None;
        }
        entry.occupied = false;
        let what = (learned.home, entry.current);
        Some(InNet::clear(CLUSTER, entry.epoch, learned.entry, what, NodeId::shard(learned.home)))
    }
}

impl Model {
    /// The answer to what a data node has told a home passes the switch, which is half-way.
    pub(super) fn pass_switch(&mut self, flight: &Flight) {
        let map = self.sessions.map();
        let Some(table) = &mut self.free_only else { return };
        if let Some(learned) = table.passes(flight, map) {
            let learned = self.learned.put(learned);
            self.at(self.config.link_ns / 2, Event::Learned(learned));
        }
    }

    /// The switch hears what a home has learned.
    pub(super) fn switch_frees(&mut self, learned: &[Learned]) {
        let now = self.now();
        let (Some(table), Some(switch)) = (&mut self.free_only, &mut self.switch) else { return };
        for learned in learned {
            let Some(clear) = table.frees(learned) else { continue };
            let header = Header::new(MessageKind::PeerAnswer, NodeId::shard(learned.home), RequestSeq(0));
            let packet = Packet::new(&header, &Peer::Done).through_switch(clear);
            switch.handle(now, Input::Packet(packet));
            while switch.poll_output().is_some() {} // the answer itself goes its own way
        }
    }
}
