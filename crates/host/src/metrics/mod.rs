//! Every counter of the program, described once: what `onpath status` and `onpath top` show, what Prometheus scrapes, and
//! docs/metrics.md come from these tables. A counter without a line here is not shown (`metrics::every_counter_is_described`).

mod labelled;
mod table;

pub use labelled::{BUILD_INFO, FAMILIES, Family, OPERATION_DURATION, OPERATIONS};
pub use table::GROUPS;

/// How values of a metric go on, and how those of several roles of a process become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Never becomes less while the process lives; added up.
    Counter,
    /// Is as it is now; added up.
    Gauge,
    /// Is as it is now; the highest one counts.
    Highest,
    /// Observations by their size.
    Histogram,
}

impl Kind {
    /// What Prometheus calls it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge | Kind::Highest => "gauge",
            Kind::Histogram => "histogram",
        }
    }

    /// The values of two roles as one.
    pub fn together(self, one: u64, other: u64) -> u64 {
        match self {
            Kind::Highest => one.max(other),
            Kind::Counter | Kind::Gauge | Kind::Histogram => one.saturating_add(other),
        }
    }
}

/// In what a metric is counted; names of times end in the unit, and metrics tell seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Number,
    /// Bytes.
    Bytes,
    /// Microseconds, `_us`.
    Microseconds,
    /// Milliseconds, `_ms`.
    Milliseconds,
    /// Seconds.
    Seconds,
}

impl Unit {
    /// What is shown of it.
    pub fn word(self) -> &'static str {
        match self {
            Unit::Number => "",
            Unit::Bytes => "bytes",
            Unit::Microseconds | Unit::Milliseconds | Unit::Seconds => "seconds",
        }
    }

    /// How many of them are one of what metrics tell.
    pub fn divisor(self) -> f64 {
        match self {
            Unit::Number | Unit::Bytes | Unit::Seconds => 1.0,
            Unit::Milliseconds => 1e3,
            Unit::Microseconds => 1e6,
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            Unit::Microseconds => "_us",
            Unit::Milliseconds => "_ms",
            Unit::Number | Unit::Bytes | Unit::Seconds => "",
        }
    }
}

/// One counter.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// What the status calls it.
    pub name: &'static str,
    /// How it goes on.
    pub kind: Kind,
    /// In what it is counted.
    pub unit: Unit,
    /// What it counts.
    pub help: &'static str,
}

/// The counters of one kind of role, or of a part of the runtime.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// What the status calls it, without a number.
    pub role: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Its counters.
    pub metrics: &'static [Metric],
}

impl Metric {
    /// What Prometheus calls it.
    pub fn exposed(&self, role: &str) -> String {
        let stem = self.name.strip_suffix(self.unit.suffix()).unwrap_or(self.name);
        let unit = if self.unit.suffix().is_empty() { "" } else { "_seconds" };
        let total = if self.kind == Kind::Counter { "_total" } else { "" };
        format!("onpath_{role}_{stem}{unit}{total}")
    }
}

/// The counters of a role that the status calls so, as `shard-3`.
pub fn group(role: &str) -> Option<&'static Group> {
    let plain = role.split('-').next()?;
    GROUPS.iter().find(|group| group.role == plain)
}

impl Group {
    /// The counter of that name.
    pub fn metric(&self, name: &str) -> Option<&'static Metric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_line_is_complete_and_has_a_name_of_its_own() {
        let mut names: BTreeSet<String> = FAMILIES.iter().map(|family| family.name.to_owned()).collect();
        let mut lines = FAMILIES.len();
        for group in GROUPS {
            for metric in group.metrics {
                lines += 1;
                names.insert(metric.exposed(group.role));
                assert!(metric.help.ends_with('.') && metric.help.len() > 8, "{}: {:?}", metric.name, metric.help);
                let time = metric.name.ends_with("_us") || metric.name.ends_with("_ms");
                assert_eq!(time, !metric.unit.suffix().is_empty(), "{}", metric.name);
                assert_eq!(metric.name.contains("bytes"), metric.unit == Unit::Bytes, "{}", metric.name);
            }
        }
        assert_eq!(names.len(), lines);
    }

    #[test]
    fn times_are_told_in_seconds_and_counters_end_in_total() {
        let group = group("shard-12").expect("shards");
        let exposed = |name: &str| group.metric(name).map(|metric| metric.exposed(group.role));
        assert_eq!(exposed("longest_upkeep_us").as_deref(), Some("onpath_shard_longest_upkeep_seconds"));
        assert_eq!(exposed("requests").as_deref(), Some("onpath_shard_requests_total"));
        assert_eq!(exposed("inodes").as_deref(), Some("onpath_shard_inodes"));
    }
}
