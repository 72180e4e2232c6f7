//! The path node as its host sees it: inputs in, outputs out.

use crate::planted::{self, Planted};
use crate::resolve;
use crate::state::{Asked, Job, PathConfig, State};
use crate::{lease, load};
use onpath_index::{DirId, Index, Slabs};
use onpath_kernel::{Core, Gauge, Input, Kernel, Need, Now, Output, Role};
use onpath_wire::header::{Header, MessageKind};
use onpath_wire::ids::{InodeId, NodeClass, NodeId, RecordSeq, RequestSeq, Term};
use onpath_wire::limits::{NAMES_FOLLOWED_MAX, OPERATIONS_MAX};
use onpath_wire::name::Name;
use onpath_wire::packet::Packet;
use onpath_wire::peer::{Batch, Peer, part};
use onpath_wire::reply::Reply;
use onpath_wire::request::{Request, RequestBody};
use onpath_wire::way::Way;

/// A path node.
pub struct PathNode {
    kernel: Kernel<State>,
    started: bool,
}

impl PathNode {
    /// One that holds nothing yet, and gets the memory for what it will hold from `slabs`.
    pub fn new(config: PathConfig, slabs: impl Slabs + Send + 'static) -> PathNode {
        let first_call = RequestSeq(config.term.first_seq());
        let kernel = Kernel::new(State::new(config, Box::new(slabs)), first_call, false, resolve::run);
        PathNode { kernel, started: false }
    }

    /// Named counters, for `onpath status`.
    pub fn status(&self) -> Vec<(&'static str, u64)> {
        let places = self.kernel.places() as u64;
        self.kernel.with(|core| {
            let (c, memory) = (core.state.counters, core.state.index.memory());
            vec![
                ("directories_held", core.state.index.len() as u64),
                ("paths_resolved", c.resolved()),
                ("paths_speculated", c.speculated),
                ("paths_checked", c.checked),
                ("paths_asked", c.asked),
                ("requests_forwarded", c.forwarded),
                ("names_asked", c.names_asked),
                ("parts_granted", c.parts_granted),
                ("parts_loaded", c.parts_loaded),
                ("parts_void", c.parts_void),
                ("recalls", c.recalls),
                ("leases", core.state.leases.live() as u64),
                ("directories_lapsed", c.lapsed),
                ("directories_given_up", c.given_up),
                ("requests_busy", c.busy),
                ("messages_malformed", c.malformed),
                ("index_bytes", memory.touched as u64),
                ("operations_at_once", places),
            ]
        })
    }

    /// Paths that were followed in memory, of which reachability bits have spared it to check each directory.
    pub fn speculated(&self) -> u64 {
        self.kernel.with(|core| core.state.counters.speculated)
    }

    /// What it holds of a directory, as named numbers; nothing if it does not.
    pub fn inspect(&self, dir: InodeId) -> Vec<(&'static str, u64)> {
        let held = self.kernel.with(|core| core.state.index.get(DirId(dir.0)));
        let Some(held) = held else { return vec![] };
        vec![
            ("holds_path", 1),
            ("parent", held.parent.0),
            ("mode", u64::from(held.access.mode)),
            ("uid", u64::from(held.access.uid)),
            ("gid", u64::from(held.access.gid)),
            ("has_acl", u64::from(held.access.acl)),
            ("grant_term", u64::from(held.grant.term)),
            ("grant_number", held.grant.count),
        ]
    }

    /// Its queues.
    pub fn gauges(&self) -> Vec<Gauge> {
        self.kernel.with(|core| {
            vec![
                Gauge::queue("paths that are resolved", core.state.running.len(), OPERATIONS_MAX),
                Gauge::queue("path parts that are asked for", core.state.asking.len(), OPERATIONS_MAX),
            ]
        })
    }
}

impl Role for PathNode {
    type In = ();
    type Out = ();

    fn handle(&mut self, now: Now, input: Input<()>) {
        let starts = !std::mem::replace(&mut self.started, true);
        self.kernel.handle(now, input, |core, input| {
            if starts {
                load::begin(core);
            }
            lease::end_those_over(core);
            if let Input::Packet(packet) = input {
                receive(core, packet);
            }
        });
    }

    fn poll_output(&mut self) -> Option<Output<()>> {
        self.kernel.poll_output()
    }

    fn next_deadline(&self) -> Option<u64> {
        if self.started { self.kernel.next_deadline() } else { Some(0) }
    }
}

fn receive(core: &mut Core<State>, packet: Packet) {
    let Ok(header) = packet.header() else {
        core.state.counters.malformed += 1;
        return;
    };
    let now = core.now;
    core.state.observe(header.stamp, now);
    let taken = match (header.kind(), header.source.class()) {
        (MessageKind::Request, Some(NodeClass::Session)) => request(core, &header, &packet),
        (MessageKind::Peer, Some(NodeClass::Shard)) => recall(core, &header, &packet),
        (MessageKind::PeerAnswer, Some(NodeClass::Shard)) => {
            if core.open_call(header.seq).is_some_and(|(to, _)| to == header.source) {
                core.answer(header.seq, packet);
            } else if planted::is(Planted::CopiedLoad) {
                load::installed_again(core, &header, &packet);
            }
            Some(())
        }
        _ => None,
    };
    if taken.is_none() {
        core.state.counters.malformed += 1;
    }
}

fn request(core: &mut Core<State>, header: &Header, packet: &Packet) -> Option<()> {
    let body: RequestBody = packet.body().ok()?;
    let Request::Resolve { from, mut names, mut look, tell } = body.request else { return None };
    look &= (1..=NAMES_FOLLOWED_MAX).contains(&names.len());
    names.truncate(NAMES_FOLLOWED_MAX);
    let key = (header.source, header.seq);
    if core.state.running.len() >= OPERATIONS_MAX {
        if !core.state.running.contains(&key) {
            core.state.counters.busy += 1;
            answer(core, header.source, header.seq, &Reply::Busy);
        }
    } else if core.state.running.insert(key) {
        let (header, caller, bound) = (header.clone(), body.caller, packet.bound);
        core.start(Job::Resolve(Box::new(Asked { header, caller, bound, from, names, look, tell })));
    }
    Some(())
}

/// Answers a session.
pub(crate) fn answer(core: &mut Core<State>, to: NodeId, seq: RequestSeq, reply: &Reply) {
    let packet = Packet::new(&core.state.header(MessageKind::Reply, seq), reply);
    core.send_after(to, packet, RecordSeq(0), Need::ByDestination);
}

/// Passes a request on to the site of its last name, which answers who has asked (P-4).
pub(crate) fn forward(core: &mut Core<State>, asked: &Asked, parent: InodeId, name: Name, way: Option<Way>) {
    let slot = core.state.config.map.site(parent, name.as_bytes());
    let site = NodeId::shard(core.state.config.map.shard(slot));
    let mut header = asked.header.clone();
    (header.slot, header.term) = (slot, Term(0));
    if let Some(of) = header.of_request_mut() {
        // What it has taken again is said of the shard to which it speaks itself.
        (of.forwarded, of.taken) = (true, false);
    }
    let request = match way {
        Some(way) => Request::LookupLed { parent, name, way },
        None => Request::Lookup { parent, name },
    };
    let body = RequestBody { caller: asked.caller.clone(), request };
    let packet = Packet { bound: asked.bound, ..Packet::new(&header, &body) };
    core.state.counters.forwarded += 1;
    core.send_after(site, packet, RecordSeq(0), Need::ByDestination);
}

/// A home takes a path part back. It waits for nothing (P-1).
fn recall(core: &mut Core<State>, header: &Header, packet: &Packet) -> Option<()> {
    let Ok(Peer::Recall { dir, parts, job }) = packet.body() else { return None };
    if parts & part::PATH == 0 || header.source != NodeId::shard(core.state.config.map.home(dir)) {
        return None;
    }
    if planted::is(Planted::GivenUpUnanswered) && core.state.index.get(DirId(dir.0)).is_none() {
        return Some(());
    }
    core.state.counters.recalls += 1;
    *core.state.taken.entry(header.source).or_default() += 1;
    if !planted::is(Planted::KeepsRecalled) {
        core.state.index.remove(DirId(dir.0));
    }
    if let Some(asking) = core.state.asking.get_mut(&dir) {
        asking.void = true;
    }
    let body = Peer::Recalled { dir, job, batch: Batch::default(), more: false };
    let packet = Packet::new(&core.state.header(MessageKind::PeerAnswer, header.seq), &body);
    core.send_after(header.source, packet, RecordSeq(0), Need::ByDestination);
    Some(())
}
