//! The controller as its host sees it: inputs in, outputs out.

use crate::admit;
use crate::hot;
use crate::lease;
use crate::state::{ControllerConfig, Job, State};
use onpath_kernel::{Core, Cx, Gauge, Input, Kernel, Now, Output, Role};
use onpath_wire::cached::CachedName;
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{InodeId, NodeClass, NodeId, RequestSeq};
use onpath_wire::innet::cache::CacheResult;
use onpath_wire::innet::{Cache, InNet};
use onpath_wire::limits::{LENT_NAMES_MAX, OPERATIONS_MAX};
use onpath_wire::name::Name;
use onpath_wire::packet::Packet;
use onpath_wire::peer::Peer;

/// What its host tells a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControllerIn {
    /// Give this name an entry: of the directory `parent`, or the root's own. It has one at the end, or nothing has changed.
    Admit {
        /// The directory of the name; 0 for the root.
        parent: InodeId,
        /// The name; none for the root.
        name: Option<Name>,
    },
    /// This switch shall answer from its cache from now on, or none.
    Switch(Option<NodeId>),
}

/// A controller, beside the coordinator.
pub struct Controller {
    kernel: Kernel<State>,
    started: bool,
}

impl Controller {
    /// One that has just been started, and knows nothing.
    pub fn new(config: ControllerConfig) -> Controller {
        let first_call = RequestSeq(config.term.first_seq());
        Controller { kernel: Kernel::new(State::new(config), first_call, false, run), started: false }
    }

    /// Named counters.
    pub fn status(&self) -> Vec<(&'static str, u64)> {
        self.kernel.with(|core| {
            let (c, lease) = (core.state.counters, &core.state.lease);
            vec![
                ("cache_epoch", u64::from(lease.epoch)),
                ("names_cached", core.state.names.len() as u64),
                ("sessions_listed", lease.listed.len() as u64),
                ("names_admitted", c.admitted),
                ("names_not_admitted", c.not_admitted),
                ("names_evicted", c.evicted),
                ("answers_counted", c.answered),
                ("leases_renewed", c.renewed),
                ("messages_malformed", c.malformed),
            ]
        })
    }

    /// The names that have answered most in the last period, at most so many, and how often.
    pub fn top(&self, count: usize) -> Vec<(CachedName, u32)> {
        self.kernel.with(|core| {
            let mut all: Vec<_> = core.state.answered.iter().map(|(name, hits)| (name.clone(), *hits)).collect();
            all.sort_by_key(|(_, hits)| std::cmp::Reverse(*hits));
            all.truncate(count);
            all
        })
    }

    /// Its queues.
    pub fn gauges(&self) -> Vec<Gauge> {
        self.kernel.with(|core| {
            vec![
                Gauge::table("names cached in a switch", core.state.names.len(), LENT_NAMES_MAX),
                Gauge::queue("names to be cached", core.state.admitting.len(), OPERATIONS_MAX),
            ]
        })
    }
}

/// Runs a job as its operation.
async fn run(cx: Cx<State>, job: Job) {
    match job {
        Job::Keep => lease::keep(&cx).await,
        Job::Admit(what) => _ = admit::admit(&cx, &what).await,
        Job::Count(epoch) => hot::count(&cx, epoch).await,
        Job::Learn(read) => hot::learn(&cx, &read).await,
        Job::Drop(shard, seq, epoch) => admit::drop_all_of(&cx, shard, seq, epoch).await,
    }
}

impl Role for Controller {
    type In = ControllerIn;
    type Out = ();

    fn handle(&mut self, now: Now, input: Input<ControllerIn>) {
        let starts = !std::mem::replace(&mut self.started, true);
        self.kernel.handle(now, input, |core, input| {
            if starts {
                core.start(Job::Keep);
            }
            match input {
                Input::Packet(packet) => receive(core, packet),
                Input::Own(ControllerIn::Admit { parent, name }) => admit::wanted(core, (parent, name)),
                Input::Own(ControllerIn::Switch(switch)) => lease::set_switch(core, switch),
                Input::Tick | Input::Durable(_) => {}
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

/// What the switch has missed often, what a shard asks for that has started, or an answer of who was asked; that of a home may come by the switch.
fn receive(core: &mut Core<State>, packet: Packet) {
    if let Some(InNet::Cache(cache @ Cache::Read(read))) = packet.innet.as_deref()
        && cache.result() == Some(CacheResult::Miss)
    {
        return hot::reported(core, read);
    }
    if let Ok(header) = packet.header()
        && header.kind() == MessageKind::Peer
        && let Some(shard) = header.source.as_shard()
        && let Ok(Peer::CacheDrop { epoch }) = packet.body()
    {
        return admit::drop_wanted(core, shard, header.seq, epoch);
    }
    let header = packet.header().ok().filter(|header| {
        header.kind() == MessageKind::PeerAnswer
            && matches!(header.source.class(), Some(NodeClass::Shard | NodeClass::Switch | NodeClass::Session))
    });
    match header {
        Some(header) => {
            if core.open_call(header.seq).is_some_and(|(to, _)| to == header.source) {
                core.answer(header.seq, packet);
            }
        }
        None => core.state.counters.malformed += 1,
    }
}
