//! How full the queues and tables of a session are: each has a bound, and what waits or is under way comes to an end.

use crate::limits::{
    EARLY_INTERRUPTS_MAX, HANDLES_MAX, HELD_LOCKS_MAX, LATER_MAX, RELEASES_MAX, REQUESTS_RUNNING_MAX, WAITING_LOCKS_MAX,
};
use crate::session::Session;
use onpath_kernel::Gauge;
use onpath_wire::limits::SESSION_QUEUE_MAX;

impl Session {
    /// Its queues and tables, between inputs.
    pub fn gauges(&self) -> Vec<Gauge> {
        let mut all = self.kernel.gauges(true, 0).to_vec();
        self.kernel.with(|core| {
            let state = &core.state;
            all.extend([
                Gauge::queue("requests", state.running.len(), REQUESTS_RUNNING_MAX),
                Gauge::queue("requests queued", state.queue.len(), SESSION_QUEUE_MAX),
                Gauge::queue("releases", state.releases, RELEASES_MAX),
                Gauge::queue("things told later", state.later.len(), LATER_MAX),
                Gauge::queue("turns taken", state.turns.len(), 2 * REQUESTS_RUNNING_MAX),
                Gauge::queue("questions for callers", state.callers.len(), REQUESTS_RUNNING_MAX),
                Gauge::queue("locks waited for", state.waiting.len(), WAITING_LOCKS_MAX),
                Gauge::queue("owners whose locks are taken again", state.relock.len(), HELD_LOCKS_MAX),
                Gauge::table("ranges locked", state.held.len(), HELD_LOCKS_MAX),
                Gauge::table("handles", state.opens.handles(), HANDLES_MAX),
                Gauge::table("early interrupts", state.early_interrupts.len(), EARLY_INTERRUPTS_MAX),
            ]);
        });
        all
    }
}
