//! A modelled system of each way.

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
/// Misses in a period after which a name is given one where the hottest files change, of those of which a session shows the switch one in
/// eight: what becomes hot has more, and a file that stands for many has not.
const CHANGING: u16 = 4;
/// Virtual time before anything is measured, and measured: change-logs are pushed every 50 ms, ns.
const UNTIL: Until = Until { warm_ns: 5_000_000, measured_ns: 50_000_000, operations: u64::MAX };

/// Operations where a request may take many passes.
const SOME: u64 = 10_000;

/// The schemes that the paper compares (Fletch §VIII-A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// What is modelled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) servers: u16,
    /// Files that the switch is given, and files that stand for all others.
    pub(super) hot: u32,
    pub(super) cold: u32,
    /// Names of the longest paths.
    pub(super) depth: u32,
    pub(super) order: Order,
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

/// A system of one way.
pub(super) struct Lab(Model);

impl Lab {
    /// The switch has what it is given, and nothing else.
    pub(super) fn new(setup: &Setup, shape: Shape, way: Way) -> Lab {
        Lab::of(setup, shape, way, NEVER)
    }

    /// It is also given what is missed often.
    pub(super) fn changing(setup: &Setup, shape: Shape, way: Way) -> Lab {
        Lab::of(setup, shape, way, CHANGING)
    }

    fn of(setup: &Setup, shape: Shape, way: Way, threshold: u16) -> Lab {
        let Shape { servers, hot, cold, depth, order } = shape;
        let window = (UNDER_WAY * u32::from(servers * setup.cores)).div_ceil(SESSIONS);
        let mut model = Model::new(ModelConfig {
            path_nodes: PathNodes::Apart,
            cache: Some(Cache { entries: 1 << 16, threshold }),
            load: Load::Closed { clients: SESSIONS, window },
            ..setup.config(servers, Tracking::Network)
        });
        model.make_names(&NamesShape { depth, hot, cold, files: FILES, order });
        if way.by_switch() {
            model.answer_by_switch();
        }
        model.servers_follow(way.servers_follow());
        Lab(model)
    }

    /// Requests under a load that keeps the servers busy.
    pub(super) fn run(&mut self, plan: &Requests) -> Run {
        Run(self.0.run_requests(plan, UNTIL))
    }

    /// A few of them.
    pub(super) fn run_some(&mut self, plan: &Requests) -> Run {
        Run(self.0.run_requests(plan, Until { operations: SOME, ..UNTIL }))
    }

    /// A second of them.
    pub(super) fn second(&mut self, plan: &Requests) -> Run {
        Run(self.0.run_requests(plan, Until { warm_ns: 0, measured_ns: 1_000_000_000, operations: u64::MAX }))
    }

    /// So many requests a second of all sessions.
    pub(super) fn at_rate(&mut self, plan: &Requests, rate: f64) -> Run {
        let load = Load::Open { clients: SESSIONS, rate };
        Run(self.0.run_requests_under(load, plan, UNTIL))
    }

    /// Lock counters in the switch from now on, or none, and the time of a pass through it.
    pub(super) fn set_passes(&mut self, locks: Locks, pass_ns: u64) {
        self.0.set_passes(locks, pass_ns);
    }
}

/// Each of these in every way, of which each has a system of its own: what one leaves behind is in no other's way.
pub(super) fn all(setup: &Setup, shape: Shape, plans: &[Requests]) -> Vec<[Run; 4]> {
    let ways = Way::ALL.map(|way| {
        let mut lab = Lab::new(setup, shape, way);
        plans.iter().map(|plan| lab.run(plan)).collect::<Vec<_>>()
    });
    let mut ways = ways.map(Vec::into_iter);
    plans.iter().map(|_| ways.each_mut().map(|runs| runs.next().expect("one for each plan"))).collect()
}
