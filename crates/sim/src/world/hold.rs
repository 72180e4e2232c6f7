//! Manual control over messages, for scenarios: hold back what a predicate names, then deliver, double or drop it.

use super::World;
use super::process::Flight;
use onpath_wire::data::{DataReply, DataRequest, Merge};
use onpath_wire::header::{Header, MessageKind};
use onpath_wire::ids::{NodeClass, NodeId};
use onpath_wire::innet::{DirtySetOp, InNetResult};
use onpath_wire::packet::Packet;
use onpath_wire::peer::Peer;
use onpath_wire::reply::Reply;
use onpath_wire::request::{Request, RequestBody};
use onpath_wire::tracking::SwitchCommand;

/// A message as a predicate sees it.
pub struct Message<'a> {
    pub(super) flight: &'a Flight,
}

impl Message<'_> {
    /// The sender.
    pub fn from(&self) -> NodeId {
        self.flight.from
    }

    /// The receiver.
    pub fn to(&self) -> NodeId {
        self.flight.to
    }

    /// The header.
    pub fn header(&self) -> Option<Header> {
        self.flight.packet.header().ok()
    }

    fn kind(&self) -> Option<MessageKind> {
        self.header().map(|header| header.kind())
    }

    /// Whether it is on its way to the switch with this operation for the dirty set.
    pub fn seeks(&self, op: DirtySetOp) -> bool {
        self.flight.packet.wants_switch() && self.flight.packet.innet.as_ref().and_then(|innet| innet.op()) == Some(op)
    }

    /// Whether a switch has yet to see it.
    pub fn wants_switch(&self) -> bool {
        self.flight.packet.wants_switch()
    }

    /// What the switch has answered on its way.
    pub fn tracked(&self) -> Option<InNetResult> {
        self.flight.packet.innet.as_ref()?.result()
    }

    /// The body of a command to the control plane of the switch.
    pub fn command(&self) -> Option<SwitchCommand> {
        (self.kind() == Some(MessageKind::Switch)).then(|| self.flight.packet.body().ok())?
    }

    /// The body of a message or answer between shards.
    pub fn peer(&self) -> Option<Peer> {
        matches!(self.kind(), Some(MessageKind::Peer | MessageKind::PeerAnswer))
            .then(|| self.flight.packet.body().ok())?
    }

    /// The body of a client's request.
    pub fn request(&self) -> Option<Request> {
        let body =
            (self.kind() == Some(MessageKind::Request)).then(|| self.flight.packet.body::<RequestBody>().ok())?;
        body.map(|body| body.request)
    }

    /// The body of a request to a data node.
    pub fn data(&self) -> Option<DataRequest> {
        (self.kind() == Some(MessageKind::Data)).then(|| self.flight.packet.body().ok())?
    }

    /// What a data node tells a home.
    pub fn merge(&self) -> Option<Merge> {
        let told = self.kind() == Some(MessageKind::Data) && self.to().class() == Some(NodeClass::Shard);
        told.then(|| self.flight.packet.body().ok())?
    }

    /// The body of an answer of a data node to a session.
    pub fn data_reply(&self) -> Option<DataReply> {
        (self.kind() == Some(MessageKind::DataReply)).then(|| self.flight.packet.body().ok())?
    }

    /// The body of a reply to a client.
    pub fn reply(&self) -> Option<Reply> {
        (self.kind() == Some(MessageKind::Reply)).then(|| self.flight.packet.body().ok())?
    }
}

/// A predicate over messages.
type Predicate = Box<dyn Fn(&Message<'_>) -> bool>;

/// Names a hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HoldId(u64);

pub(super) struct Hold {
    id: HoldId,
    wants: Predicate,
    open: bool,
    pub(super) held: Vec<Flight>,
}

impl Hold {
    pub(super) fn wants(&self, flight: &Flight) -> bool {
        !self.open && (self.wants)(&Message { flight })
    }
}

impl World {
    /// From now on keeps back every message that `wants` names, also between roles of one process.
    pub fn hold(&mut self, wants: impl Fn(&Message<'_>) -> bool + 'static) -> HoldId {
        let id = HoldId(self.holds.len() as u64);
        self.holds.push(Hold { id, wants: Box::new(wants), open: false, held: vec![] });
        id
    }

    fn holding(&mut self, id: HoldId) -> &mut Hold {
        self.holds.iter_mut().find(|hold| hold.id == id).expect("a hold of this world")
    }

    /// Number of messages kept back.
    pub fn held(&mut self, id: HoldId) -> usize {
        self.holding(id).held.len()
    }

    /// Keeps nothing back any more; what was held stays where it is.
    pub fn stop_holding(&mut self, id: HoldId) {
        self.holding(id).open = true;
    }

    /// Delivers the first message held, now.
    pub fn deliver_first(&mut self, id: HoldId) {
        let flight = self.holding(id).held.remove(0);
        self.deliver(flight);
    }

    /// Delivers the last message held, now.
    pub fn deliver_last(&mut self, id: HoldId) {
        let flight = self.holding(id).held.pop().expect("a message is held");
        self.deliver(flight);
    }

    /// Delivers a copy of the first message held, now; it stays held.
    pub fn deliver_copy(&mut self, id: HoldId) {
        let flight = self.holding(id).held.first().expect("a message is held").clone();
        self.deliver(flight);
    }

    /// Delivers, now, what somebody makes of the first message held, who changes to whom it goes and what it says; it stays held.
    pub fn deliver_forged(&mut self, id: HoldId, forge: impl FnOnce(&mut NodeId, &mut Packet)) {
        let mut flight = self.holding(id).held.first().expect("a message is held").clone();
        forge(&mut flight.to, &mut flight.packet);
        self.deliver(flight);
    }

    /// Lets everything go that was held, and holds no more.
    pub fn let_go(&mut self, id: HoldId) {
        self.stop_holding(id);
        for flight in std::mem::take(&mut self.holding(id).held) {
            self.fly(flight);
        }
    }

    /// Lets everything go, and holds nothing more.
    pub(crate) fn let_all_go(&mut self) {
        let ids: Vec<HoldId> = self.holds.iter().map(|hold| hold.id).collect();
        ids.into_iter().for_each(|id| self.let_go(id));
    }

    /// Takes what lies in holds that hold nothing more.
    pub(super) fn take_left(&mut self) -> Vec<Flight> {
        self.holds.iter_mut().filter(|hold| hold.open).flat_map(|hold| std::mem::take(&mut hold.held)).collect()
    }

    /// Loses everything that was held.
    pub fn lose(&mut self, id: HoldId) {
        self.holding(id).held.clear();
    }
}
