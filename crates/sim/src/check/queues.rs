//! Queues stay bounded: no queue or table of a role, and no queue of a process, has more in it than its bound, and what waits or
//! is under way is over when nobody asks anything any more.

use onpath_kernel::Gauge;
use onpath_wire::ids::NodeId;
use std::collections::BTreeMap;

/// The most that each queue and table ever had in it, and what of that was too much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    highest: BTreeMap<&'static str, u64>,
}

impl Queues {
    /// Notes how full everything of `node` is; what is wrong with that for the first time.
    pub fn look(&mut self, node: NodeId, gauges: &[Gauge]) -> Vec<String> {
        let mut wrong = vec![];
        for gauge in gauges {
            let highest = self.highest.entry(gauge.name).or_default();
            if gauge.len > gauge.max && gauge.len > *highest {
                wrong.push(format!("{node:?} has {} {}, at most {} are allowed", gauge.len, gauge.name, gauge.max));
            }
            *highest = gauge.len.max(*highest);
        }
        wrong
    }

    /// What `node` still has though nobody asks anything any more.
    pub fn at_rest(node: NodeId, gauges: &[Gauge]) -> Vec<String> {
        let left = gauges.iter().filter(|gauge| gauge.transient && gauge.len > 0);
        left.map(|gauge| format!("{node:?} has {} {} left at rest", gauge.len, gauge.name)).collect()
    }

    /// The most that each had in it, by name.
    pub fn highest(&self) -> &BTreeMap<&'static str, u64> {
        &self.highest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_its_bound_is_found_once_for_each_height() {
        let (mut queues, node) = (Queues::default(), NodeId::data(0));
        let full = |len| [Gauge::queue("letters", len, 3), Gauge::table("stamps", 2, 2)];
        assert_eq!(queues.look(node, &full(3)), Vec::<String>::new());
        let wrong = queues.look(node, &full(4));
        assert_eq!(wrong.len(), 1);
        assert!(wrong[0].contains("4 letters, at most 3 are allowed"), "{wrong:?}");
        assert!(queues.look(node, &full(4)).is_empty());
        assert_eq!(queues.highest()["letters"], 4);
    }

    #[test]
    fn what_waits_must_be_gone_at_rest_and_what_is_kept_need_not() {
        let gauges = [Gauge::queue("letters", 1, 3), Gauge::table("stamps", 2, 2), Gauge::queue("parcels", 0, 1)];
        let wrong = Queues::at_rest(NodeId::data(0), &gauges);
        assert!(wrong.len() == 1 && wrong[0].contains("1 letters left at rest"), "{wrong:?}");
    }
}
