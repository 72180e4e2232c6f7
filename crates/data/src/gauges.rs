//! How full the queues and tables of a data node are: each has a bound, and what waits or is under way comes to an end.

use crate::node::DataNode;
use crate::space::PUNCHES_MAX;
use crate::state::{FAILURES_MAX, HOME_WAITERS_MAX, SETTLE_BATCH};
use crate::window::SESSIONS_PER_RANGE;
use onpath_kernel::Gauge;
use onpath_wire::limits::{ANSWERED_MAX, OPERATIONS_MAX, SESSION_WINDOW};

impl DataNode {
    /// Its queues and tables, between inputs.
    pub fn gauges(&self) -> Vec<Gauge> {
        let mut all = self.kernel.gauges(false, 0).to_vec();
        self.kernel.with(|core| {
            let state = &core.state;
            let ranges = || state.index.ranges.iter();
            let (sessions, most) =
                ranges().map(|range| range.windows.len()).fold((0, 0), |a, b| (a.0.max(b.0), a.1.max(b.1)));
            let merges = ranges().map(|range| range.merges.len()).sum();
            all.extend([
                Gauge::queue("writes", state.running.len(), OPERATIONS_MAX),
                Gauge::queue("reads, and writes to reserved places", state.space.reading(), 2 * OPERATIONS_MAX),
                Gauge::queue("requests that wait for homes", state.home_waiters, HOME_WAITERS_MAX),
                Gauge::queue("disk operations", state.disk.len(), 2 * OPERATIONS_MAX),
                Gauge::queue("punches", state.space.punching(), PUNCHES_MAX),
                Gauge::queue("writes to be told to homes", merges, 2 * OPERATIONS_MAX + ANSWERED_MAX),
                Gauge::queue("writes told and not recorded", state.settled.len(), SETTLE_BATCH),
                Gauge::table("failures", state.failures(), FAILURES_MAX),
                Gauge::table("sessions of a range", sessions, SESSIONS_PER_RANGE),
                Gauge::table("writes of a session", most, SESSION_WINDOW as usize),
            ]);
            all.extend(state.parts.gauges());
            all.push(state.table.gauge());
        });
        all
    }
}
