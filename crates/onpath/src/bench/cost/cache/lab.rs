//! A modelled system, measured in each way in turn: without the switch's cache first, then with it.

use crate::bench::cost::model::Setup;
use onpath_sim::cost::{
    Cache, Latencies, Load, Locks, Measured, Model, ModelConfig, NamesShape, Order, PathNodes, RECIRCULATED, Requests,
    Tracking, Until,
};

/// Sessions: each has to hear of every name that the switch has.
const SESSIONS: u32 = 8;
/// Requests of all sessions under way for each server.
const UNDER_WAY: u32 = 32;
/// A file that stands for many is given no entry, however often it is asked for.
const NEVER: u16 = u16::MAX;
/// Virtual time before anything is measured, and measured: change-logs are pushed every 50 ms, ns.
const UNTIL: Until = Until { warm_ns: 5_000_000, measured_ns: 50_000_000, operations: u64::MAX };

/// The schemes that the paper compares (Fletch §VIII-A).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// Servers follow paths.
    NoCache,
    /// Clients do, by ways that they keep.
    CCache,
    /// The first one with the switch's cache.
    Fletch,
    /// The second one with it.
    FletchPlus,
}

impl Way {
    pub(super) const ALL: [Way; 4] = [Way::NoCache, Way::CCache, Way::Fletch, Way::FletchPlus];

    fn by_switch(self) -> bool {
        matches!(self, Way::Fletch | Way::FletchPlus)
    }

    fn servers_follow(self) -> bool {
        matches!(self, Way::NoCache | Way::Fletch)
    }
}

/// How large the tree is.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench::cost) struct Size {
    /// Files that the switch is given.
    pub(in crate::bench::cost) hot: u32,
    /// Files that stand for all others.
    pub(in crate::bench::cost) cold: u32,
}

/// Files as the paper has them.
pub(super) const FILES: u64 = 32_000_000;
/// Names of the longest paths, as the paper has them.
pub(super) const DEPTH: u32 = 9;

/// What was measured of one run.
pub(super) struct Run(pub(super) Measured);

impl Run {
    /// Everything that was asked for, a second.
    pub(super) fn rate(&self) -> f64 {
        self.0.kinds.keys().map(|&kind| self.0.rate(kind)).sum()
    }

    fn operations(&self) -> f64 {
        self.0.kinds.values().map(Latencies::count).sum::<usize>().max(1) as f64
    }

    fn each(&self, counter: &str) -> f64 {
        self.0.switched.get(counter).copied().unwrap_or(0) as f64 / self.operations()
    }

    /// What the switch has answered, of all, percent.
    pub(super) fn hits(&self) -> f64 {
        100.0 * self.each("read_answered")
    }

    /// Passes through the switch beyond the first one, for each operation.
    pub(super) fn recirculations(&self) -> f64 {
        self.each(RECIRCULATED)
    }

    /// Of all that was asked for.
    pub(super) fn latencies(&self) -> Latencies {
        self.0.all()
    }
}

/// A system.
pub(super) struct Lab {
    model: Model,
    clients: u32,
    answers: bool,
}

impl Lab {
    /// So many servers, with files of the usual shape.
    pub(super) fn new(setup: &Setup, servers: u16, size: Size) -> Lab {
        Lab::of(setup, servers, size, DEPTH, Order::Random)
    }

    pub(super) fn of(setup: &Setup, servers: u16, size: Size, depth: u32, order: Order) -> Lab {
        let window = (UNDER_WAY * u32::from(servers * setup.cores)).div_ceil(SESSIONS);
        let mut model = Model::new(ModelConfig {
            path_nodes: PathNodes::Apart,
            cache: Some(Cache { entries: 1 << 16, threshold: NEVER }),
            load: Load::Closed { clients: SESSIONS, window },
            ..setup.config(servers, Tracking::Network)
        });
        let Size { hot, cold } = size;
        model.make_names(&NamesShape { depth, hot, cold, files: FILES, order });
        Lab { model, clients: SESSIONS, answers: false }
    }

    /// Each of these in every way; the ways one after the other, since a switch that answers goes on.
    pub(super) fn all(&mut self, plans: &[Requests]) -> Vec<[Run; 4]> {
        let ways = Way::ALL.map(|way| plans.iter().map(|plan| self.run(way, plan)).collect::<Vec<_>>());
        let mut ways = ways.map(Vec::into_iter);
        plans.iter().map(|_| ways.each_mut().map(|runs| runs.next().expect("one for each plan"))).collect()
    }

    /// One way.
    ///
    /// # Panics
    /// The switch answers already, and should not.
    pub(super) fn run(&mut self, way: Way, plan: &Requests) -> Run {
        self.prepare(way);
        Run(self.model.run_requests(plan, UNTIL))
    }

    /// One way, with so many requests a second of all sessions.
    pub(super) fn at_rate(&mut self, way: Way, plan: &Requests, rate: f64) -> Run {
        self.prepare(way);
        let load = Load::Open { clients: self.clients, rate };
        Run(self.model.run_requests_under(load, plan, UNTIL))
    }

    /// Lock counters in the switch from now on, or none, and the time of a pass through it.
    pub(super) fn lock(&mut self, locks: Locks, pass_ns: u64) {
        self.model.set_passes(locks, pass_ns);
    }

    fn prepare(&mut self, way: Way) {
        assert!(way.by_switch() || !self.answers, "a switch that answers goes on");
        if way.by_switch() && !self.answers {
            self.model.answer_by_switch();
            self.answers = true;
        }
        self.model.servers_follow(way.servers_follow());
    }
}
