//! Operations by their kind, as those tell them who have answered them.

use crate::node::Counters;
use onpath_wire::report::{KINDS_MAX, LATENCY_CLASSES, OperationReport, latency_bound};
use std::collections::BTreeMap;

/// Longest name of a kind of operation, bytes.
const NAME_BYTES_MAX: usize = 24;

/// What there was of one kind of operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    /// Those that were refused.
    pub refused: u64,
    /// Those that failed.
    pub failed: u64,
    /// What all of them took, nanoseconds.
    pub nanoseconds: u64,
    /// All of them by the class of their latency.
    pub latencies: BTreeMap<u8, u64>,
}

/// Operations by their kind.
pub type Operations = BTreeMap<String, Operation>;

impl Operation {
    /// How many there were.
    pub fn count(&self) -> u64 {
        sum(self.latencies.values().copied())
    }

    pub(super) fn add_since(&mut self, now: &Operation, before: &Operation) {
        let add = |sum: &mut u64, now: u64, before: u64| *sum = sum.saturating_add(now.saturating_sub(before));
        add(&mut self.refused, now.refused, before.refused);
        add(&mut self.failed, now.failed, before.failed);
        add(&mut self.nanoseconds, now.nanoseconds, before.nanoseconds);
        for (class, count) in &now.latencies {
            let earlier = before.latencies.get(class).copied().unwrap_or_default();
            add(self.latencies.entry(*class).or_default(), *count, earlier);
        }
    }
}

/// A mount may tell any numbers: a sum of them does not overflow.
fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// Operations as a mount or a role tells them; what is no name of a kind is left out.
pub(crate) fn operations(told: &[OperationReport]) -> Operations {
    let plain = |name: &str| {
        let letters = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        letters && (1..=NAME_BYTES_MAX).contains(&name.len())
    };
    let operation = |told: &OperationReport| {
        let name = String::from_utf8(told.name.0.clone()).ok().filter(|name| plain(name))?;
        let known = told.latencies.iter().filter(|latency| usize::from(latency.class) < LATENCY_CLASSES);
        let latencies = known.map(|latency| (latency.class, latency.count)).collect();
        let OperationReport { refused, failed, nanoseconds, .. } = *told;
        Some((name, Operation { refused, failed, nanoseconds, latencies }))
    };
    told.iter().take(KINDS_MAX).filter_map(operation).collect()
}

/// Adds operations to a sum of others.
pub(crate) fn add(sum: &mut Operations, more: &Operations) {
    for (name, operation) in more {
        sum.entry(name.clone()).or_default().add_since(operation, &Operation::default());
    }
}

/// For each kind, `KIND` operations, `KIND_refused` and `KIND_failed` of them, `KIND_ns` nanoseconds in all, and `KIND_below_NS` of them
/// that took less than NS nanoseconds, but not less than the bound before.
pub(super) fn counters(operations: &Operations) -> Counters {
    let mut all = Counters::new();
    for (name, operation) in operations {
        all.push((name.clone(), operation.count()));
        all.push((format!("{name}_refused"), operation.refused));
        all.push((format!("{name}_failed"), operation.failed));
        all.push((format!("{name}_ns"), operation.nanoseconds));
        let classes = operation.latencies.iter();
        all.extend(classes.map(|(class, count)| (format!("{name}_below_{}", latency_bound((*class).into())), *count)));
    }
    all
}
