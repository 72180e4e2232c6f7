//! The counters of a process in the classic text format of Prometheus.

use onpath_host::metrics::{self, BUILD_INFO, Family, GROUPS, Kind, OPERATION_DURATION, OPERATIONS};
use onpath_host::mounts::{Operation, Operations};
use onpath_host::node::{Counters, Node};
use onpath_wire::ids::NodeClass;
use prometheus::TextEncoder;
use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};
use std::collections::BTreeMap;

/// The bounds of histograms are these powers of two, nanoseconds: from 16 µs to 4.3 s.
const BOUNDS: [u32; 10] = [14, 16, 18, 20, 22, 24, 26, 28, 30, 32];
/// Labels of operations: of the mount of this process, of those that tell it, and of its roles.
const ROLES: [&str; 4] = ["mount", "told", "shard", "data"];

/// All counters of a process.
pub(super) fn of(node: &Node, process: &str) -> String {
    let (own, told) = (node.mounts().own_operations(), node.mounts().told_operations());
    let [shard, data] = [NodeClass::Shard, NodeClass::Data].map(|class| node.operations_of(class));
    let mut families = vec![build_info(process)];
    families.extend(described(&node.status()));
    families.extend(operation_families(&[own, told, shard, data]));
    TextEncoder::new().encode_to_string(&families).expect("families have names and metrics")
}

fn label(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}

fn family(name: String, kind: Kind, help: &str, all: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name);
    family.set_help(help.trim_end_matches('.').to_owned());
    family.set_field_type(match kind {
        Kind::Counter => MetricType::COUNTER,
        Kind::Gauge | Kind::Highest => MetricType::GAUGE,
        Kind::Histogram => MetricType::HISTOGRAM,
    });
    family.set_metric(all);
    family
}

fn labelled(family_of: &Family, all: Vec<Metric>) -> MetricFamily {
    family(family_of.name.to_owned(), family_of.kind, family_of.help, all)
}

fn value(kind: Kind, value: f64, labels: Vec<LabelPair>) -> Metric {
    let mut metric = Metric::from_label(labels);
    if kind == Kind::Counter {
        let mut counter = Counter::default();
        counter.set_value(value);
        metric.set_counter(counter);
    } else {
        let mut gauge = Gauge::default();
        gauge.set_value(value);
        metric.set_gauge(gauge);
    }
    metric
}

fn build_info(process: &str) -> MetricFamily {
    let labels = vec![label("process", process), label("version", env!("CARGO_PKG_VERSION"))];
    labelled(&BUILD_INFO, vec![value(Kind::Gauge, 1.0, labels)])
}

/// The counters of each kind of role, all roles of a process together: how many roles it has does not change the number of series.
fn described(status: &[(String, Counters)]) -> Vec<MetricFamily> {
    let mut sums: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for (role, counters) in status {
        let Some(group) = metrics::group(role) else { continue };
        for (name, value) in counters {
            let Some(metric) = group.metric(name) else { continue };
            let sum = sums.entry((group.role, metric.name)).or_default();
            *sum = metric.kind.together(*sum, *value);
        }
    }
    let of_group = |group: &'static metrics::Group| group.metrics.iter().map(move |metric| (group, metric));
    let all = GROUPS.iter().flat_map(of_group);
    let told = all.filter_map(|(group, metric)| {
        let sum = *sums.get(&(group.role, metric.name))? as f64 / metric.unit.divisor();
        Some(family(metric.exposed(group.role), metric.kind, metric.help, vec![value(metric.kind, sum, vec![])]))
    });
    told.collect()
}

fn operation_families(operations: &[Operations; ROLES.len()]) -> Vec<MetricFamily> {
    let (mut counts, mut durations) = (vec![], vec![]);
    for (role, operations) in ROLES.iter().zip(operations) {
        for (name, operation) in operations {
            let labels = || vec![label("operation", name), label("role", role)];
            let done = operation.count().saturating_sub(operation.refused + operation.failed);
            for (result, count) in [("ok", done), ("refused", operation.refused), ("failed", operation.failed)] {
                let labels =
                    [vec![label("operation", name), label("result", result)], vec![label("role", role)]].concat();
                counts.push(value(Kind::Counter, count as f64, labels));
            }
            let mut metric = Metric::from_label(labels());
            metric.set_histogram(histogram(operation));
            durations.push(metric);
        }
    }
    if counts.is_empty() {
        return vec![];
    }
    vec![labelled(&OPERATIONS, counts), labelled(&OPERATION_DURATION, durations)]
}

fn histogram(operation: &Operation) -> Histogram {
    let nanoseconds = |count: u64| count as f64 / 1e9;
    let buckets = BOUNDS.map(|power| {
        // Four classes a power of two: these are all below it.
        let below = operation.latencies.range(..u8::try_from(4 * power).expect("few classes"));
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(nanoseconds(1 << power));
        bucket.set_cumulative_count(below.fold(0, |sum: u64, (_, count)| sum.saturating_add(*count)));
        bucket
    });
    let mut histogram = Histogram::default();
    histogram.set_bucket(buckets.into());
    histogram.set_sample_count(operation.count());
    histogram.set_sample_sum(nanoseconds(operation.nanoseconds));
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::data::DataCounted;
    use onpath_wire::report::{KINDS_MAX, LATENCY_CLASSES, latency_class};
    use onpath_wire::request::describe::Counted;

    /// Series of one process, whatever happens.
    const SERIES_MAX: usize = 2_100;

    fn series(families: &[MetricFamily]) -> usize {
        let text = TextEncoder::new().encode_to_string(families).expect("text");
        text.lines().filter(|line| !line.starts_with('#')).count()
    }

    #[test]
    fn a_process_has_a_bounded_number_of_series() {
        let all = |group: &metrics::Group| group.metrics.iter().map(|metric| (metric.name.to_owned(), 7)).collect();
        let roles = GROUPS
            .iter()
            .flat_map(|group| (0..300).map(move |number| (format!("{}-{number}", group.role), all(group))));
        let status: Vec<(String, Counters)> = roles.collect();
        let operation = Operation {
            latencies: (0..LATENCY_CLASSES as u8).map(|class| (class, 1)).collect(),
            ..Operation::default()
        };
        let operations = |kinds: usize| -> Operations {
            (0..kinds).map(|number| (format!("operation{number}"), operation.clone())).collect()
        };
        let all = [KINDS_MAX, KINDS_MAX, Counted::NAMES.len(), DataCounted::NAMES.len()].map(operations);
        let families = [described(&status), operation_families(&all)].concat();
        assert!(series(&families) <= SERIES_MAX, "{}", series(&families));
    }

    #[test]
    fn the_document_names_what_roles_count() {
        let (_, documented) = OPERATIONS.labels.iter().find(|(label, _)| *label == "operation").expect("a label");
        for name in Counted::NAMES.iter().chain(DataCounted::NAMES) {
            assert!(documented.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn latencies_are_in_the_buckets_that_they_belong_to() {
        let latencies = [100, 5_000, 1 << 20, u64::MAX].map(|nanoseconds| (latency_class(nanoseconds) as u8, 1));
        let operation =
            Operation { refused: 1, latencies: latencies.into(), nanoseconds: 3_000_000_000, ..Operation::default() };
        let none = Operations::new;
        let families =
            operation_families(&[Operations::from([("lookup".to_owned(), operation)]), none(), none(), none()]);
        let text = TextEncoder::new().encode_to_string(&families).expect("text");
        for line in [
            "onpath_operations_total{operation=\"lookup\",result=\"ok\",role=\"mount\"} 3",
            "onpath_operations_total{operation=\"lookup\",result=\"refused\",role=\"mount\"} 1",
            "onpath_operation_duration_seconds_bucket{operation=\"lookup\",role=\"mount\",le=\"0.000016384\"} 2",
            "onpath_operation_duration_seconds_bucket{operation=\"lookup\",role=\"mount\",le=\"0.001048576\"} 2",
            "onpath_operation_duration_seconds_bucket{operation=\"lookup\",role=\"mount\",le=\"0.004194304\"} 3",
            "onpath_operation_duration_seconds_bucket{operation=\"lookup\",role=\"mount\",le=\"+Inf\"} 4",
            "onpath_operation_duration_seconds_sum{operation=\"lookup\",role=\"mount\"} 3",
        ] {
            assert!(text.lines().any(|told| told == line), "{line}\n{text}");
        }
    }
}
