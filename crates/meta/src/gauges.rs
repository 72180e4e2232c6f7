//! How full the queues and tables of a shard are: each has a bound, and what waits or is under way comes to an end.

use crate::ops::datapending::Drops;
use crate::shard::Shard;
use crate::state::State;
use onpath_kernel::Gauge;
use onpath_wire::limits::{GRANTS_HELD_MAX, MERGE_PARTS_MAX, OPERATIONS_MAX};

impl Shard {
    /// Its queues and tables, between inputs.
    pub fn gauges(&self) -> Vec<Gauge> {
        let concealed = self.kernel.with(|core| core.state.dirs.concealed);
        let mut all = self.kernel.gauges(false, concealed).to_vec();
        self.kernel.with(|core| core.state.gauges(&mut all));
        all
    }

    /// What it has yet to tell others, and what it waits to hear: 0 when it is at rest.
    pub fn unsettled(&self) -> usize {
        self.kernel.with(|core| {
            let state = &core.state;
            let promises = state.txns.all_prepared().count() + state.txns.all_decided().count();
            let drops = state.drops_waiting() + state.unreclaimed.len();
            state.dirs.pending() + state.data_pending.len() + drops + promises
        })
    }
}

impl State {
    /// Files that are gone, of which data nodes are to be told together.
    fn drops_waiting(&self) -> usize {
        self.drops.values().map(Drops::waiting).sum()
    }

    fn gauges(&self, all: &mut Vec<Gauge>) {
        // The queues below hold operations, or what an operation works on.
        let operations = 2 * OPERATIONS_MAX;
        all.extend([
            Gauge::queue("requests", self.running.len(), OPERATIONS_MAX),
            Gauge::queue("files to be dropped", self.drops_waiting(), self.config.bounds.drops),
            Gauge::queue("files not dropped yet", self.drops_pending, self.config.bounds.drops),
            Gauge::queue("orphans that wait for room", self.unreclaimed.len(), self.orphans.len()),
            Gauge::queue("cuts not durable", self.raised.len(), operations),
            Gauge::table("files lent to data nodes", self.lent.len(), MERGE_PARTS_MAX),
            Gauge::table("grants held", self.dirs.held_order.len(), GRANTS_HELD_MAX),
        ]);
        self.dirs.gauges(operations, &self.config.bounds, all);
        self.marks.gauges(operations, all);
        self.txns.gauges(operations, all);
        self.replies.gauges(all);
        self.opens.gauges(all);
        self.filelocks.gauges(all);
        self.buried.gauges(all);
        self.living.gauges(all);
        self.coordinator.gauges(operations, all);
    }
}
