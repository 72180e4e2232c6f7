//! What happens, in words, for whoever looks into a failing seed.

use super::World;
use super::hold::Message;
use super::process::Flight;
use onpath_wire::data::{DataReply, DataRequest, Merge};
use onpath_wire::disk::Stored;
use onpath_wire::disk::block::DataRecord;
use onpath_wire::disk::record::Record;
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{NodeClass, NodeId};
use onpath_wire::packet::Packet;

fn who(node: NodeId) -> String {
    let class = match node.class() {
        Some(NodeClass::Shard) => "shard",
        Some(NodeClass::Data) => "data",
        Some(NodeClass::Session) => "session",
        Some(NodeClass::Switch) => "switch",
        Some(NodeClass::Path) => "path node",
        Some(NodeClass::Controller) => "controller",
        None => "nobody",
    };
    format!("{class} {}", node.number())
}

impl World {
    pub(crate) fn narrate(&mut self, what: impl FnOnce() -> String) {
        if let Some(narrator) = &mut self.narrator {
            narrator(format!("{:>12} ns  {}", self.now_ns, what()));
        }
    }

    pub(super) fn narrate_record(&mut self, by: NodeId, bytes: &[u8]) {
        self.narrate(|| match by.class() {
            Some(NodeClass::Data) => format!("{} records {:?}", who(by), DataRecord::from_stored(bytes)),
            _ => format!("{} records {:?}", who(by), Record::from_stored(bytes)),
        });
    }

    pub(super) fn narrate_message(&mut self, verb: &str, from: NodeId, to: NodeId, packet: &Packet) {
        if self.narrator.is_none() {
            return;
        }
        let flight = Flight { from, to, packet: packet.clone() };
        let message = Message { flight: &flight };
        let (seq, term) = message.header().map_or((0, 0), |header| (header.seq.0, header.term.0));
        let body = match (message.peer(), message.request(), message.reply()) {
            (Some(peer), _, _) => format!("{peer:?}"),
            (_, Some(request), _) => format!("{request:?}"),
            (_, _, Some(reply)) => format!("{reply:?}"),
            _ => match message.header().map(|header| header.kind()) {
                Some(MessageKind::Data) if from.class() == Some(NodeClass::Data) => {
                    format!("{:?}", packet.body::<Merge>())
                }
                Some(MessageKind::Data) => format!("{:?} + {} bytes", packet.body::<DataRequest>(), packet.bulk.len()),
                Some(MessageKind::DataReply) => {
                    format!("{:?} + {} bytes", packet.body::<DataReply>(), packet.bulk.len())
                }
                _ => format!("{} bytes", packet.head.len()),
            },
        };
        self.narrate(|| format!("{} {verb} {} #{seq:x} term {term}: {body}", who(from), who(to)));
    }
}
