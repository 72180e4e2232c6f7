//! Attributes that a switch tells (C-2): of files whose names homes have lent to its cache. What the switch does not answer it passes on to the
//! home, and a switch that is silent is not asked again before somebody says that it answers.

use crate::op::Op;
use crate::state::{State, header};
use hashbrown::HashMap;
use onpath_kernel::{Answer, Core};
use onpath_wire::attr::AttrWire;
use onpath_wire::cached::Hot;
use onpath_wire::errno::Errno;
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{Generation, InodeId, NodeId, RequestSeq, Stamp, TrackingEpoch};
use onpath_wire::innet::cache::{Asker, EntryValue, Purpose};
use onpath_wire::innet::{Cache, InNet};
use onpath_wire::limits::HOT_NAMES_MAX;
use onpath_wire::packet::Packet;
use onpath_wire::reply::{DataRef, Reply};
use onpath_wire::request::{Request, RequestBody};

/// A switch answers at once, and a home that it passes a request on to soon after: who waits longer asks the home itself, microseconds.
const PATIENCE_US: u64 = 20_000;

/// The name of an inode, as the switch knows it.
#[derive(Clone, Copy, Debug)]
struct HotName {
    hot: Hot,
    parent: InodeId,
    key: u64,
    /// Birth time of the inode, which the switch does not know.
    btime: i64,
}

/// Inodes whose names a switch answers for, as homes have told.
#[derive(Debug, Default)]
pub(crate) struct HotNames {
    epoch: u16,
    names: HashMap<InodeId, HotName>,
}

impl HotNames {
    fn learn(&mut self, id: InodeId, name: HotName) {
        if self.epoch != name.hot.epoch {
            if TrackingEpoch(self.epoch).is_after(TrackingEpoch(name.hot.epoch)) && self.epoch != 0 {
                return; // its tokens are void
            }
            self.forget();
            self.epoch = name.hot.epoch;
        }
        if self.names.len() >= HOT_NAMES_MAX && !self.names.contains_key(&id) {
            self.names.clear();
        }
        self.names.insert(id, name);
    }

    fn forget(&mut self) {
        self.names.clear();
    }
}

/// Takes what a home has told of a name out of its reply.
pub(crate) fn told(core: &mut Core<State>, request: &Request, reply: Reply) -> Result<Reply, Errno> {
    let Reply::Hot { hot, reply } = reply else { return Ok(reply) };
    let reply = Reply::inside(&reply).ok_or(Errno::EIO)?;
    if let (Request::Lookup { parent, name }, Reply::Entry { attr, data, .. }) = (request, &reply)
        && !attr.id.is_directory()
    {
        let key = core.state.config.map.placement().cache_key(*parent, name.as_bytes());
        core.state.hot.learn(attr.id, HotName { hot, parent: *parent, key, btime: data.btime });
    }
    Ok(reply)
}

/// Attributes of an inode from the switch, or from its home to which that has passed the question on; none if it is to be asked anew.
pub(crate) async fn attr(op: &mut Op, id: InodeId) -> Result<Option<(AttrWire, DataRef)>, Errno> {
    let Some(name) = op.with(|core| core.state.hot.names.get(&id).copied()) else { return Ok(None) };
    let home = op.with(|core| NodeId::shard(core.state.config.map.home(id)));
    let make = |core: &mut Core<State>, _: NodeId, seq: RequestSeq| {
        let header = header(core, MessageKind::Request, home, id.slot(), seq);
        let body = RequestBody { caller: op.told().clone(), request: Request::GetAttr { id } };
        let asker = Asker { requester: core.state.node, uid: body.caller.uid, gid: body.caller.gid };
        let levels = [(name.key, name.hot.token)];
        let start = (name.parent.0, &levels[..]);
        let read = InNet::read(header.cluster, name.hot.epoch, start, (Purpose::Stat, 0), asker, home);
        Packet::new(&header, &body).through(name.hot.switch, read)
    };
    let answer = op.call_until(home, PATIENCE_US, make).await?;
    op.with(|core| Ok(heard(core, id, name, answer.and_then(Answer::packet))))
}

fn heard(core: &mut Core<State>, id: InodeId, name: HotName, answer: Option<Packet>) -> Option<(AttrWire, DataRef)> {
    let Some(packet) = answer else {
        core.state.hot.forget();
        return None;
    };
    let Some(value) = answered(&packet) else {
        return match packet.body() {
            Ok(Reply::Attr { attr, data, .. }) => Some((attr, data)),
            _ => None,
        };
    };
    let attr = value.attr().filter(|attr| attr.id == id);
    let Some(attr) = attr else {
        core.state.hot.names.remove(&id); // the name leads elsewhere by now
        return None;
    };
    let now = core.now;
    core.state.observe(Stamp(attr.ctime as u64), now);
    let data = DataRef { generation: Generation(value.generation), cut: value.cut, btime: name.btime };
    Some((attr, data))
}

/// What the switch has answered to a request of this session, which it has sent back.
pub(crate) fn answered(packet: &Packet) -> Option<EntryValue> {
    match packet.innet.as_deref() {
        Some(InNet::Cache(cache @ Cache::Read(_))) => cache.answer(),
        _ => None,
    }
}
