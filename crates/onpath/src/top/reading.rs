//! Counters of a running file system, and what happened between two readings of them.

use crate::status::{adds_up, mounts_of};
use comfy_table::{CellAlignment, Table, presets};
use onpath_wire::shown::Shown;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Latencies of a kind of operation: how many were below a bound (nanoseconds) but not below the one before.
type Latencies = BTreeMap<u64, u64>;

/// Counters of shards that are shown as rates.
const RATES: [&str; 8] =
    ["requests", "records", "collects", "collects_answered", "pushes", "updates_gated", "marks_sent", "transactions"];

/// Counters of shards that are shown as they are.
const LEVELS: [&str; 6] =
    ["requests_running", "updates_gated_now", "entries_pending", "inodes", "inodes_open", "sessions"];

/// What percentiles are shown.
const PERCENTILES: [(&str, f64); 3] = [("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999)];

/// The counters at one time, summed over roles of a kind.
#[derive(Debug, Default)]
pub(super) struct Reading {
    shards: BTreeMap<String, u64>,
    journal: BTreeMap<String, u64>,
    operations: BTreeMap<String, Kind>,
    unsorted: Option<Unsorted>,
}

/// What is known of operations where the host is missing that mounts tell of what kind they are.
#[derive(Clone, Debug)]
struct Unsorted {
    host: String,
    mounts: usize,
    per_second: f64,
}

impl Unsorted {
    fn of(reports: &[Value]) -> Option<Unsorted> {
        if reports.iter().any(adds_up) {
            return None;
        }
        let mounts = mounts_of(reports.iter());
        let per_second = mounts.iter().filter_map(|mount| mount["per_second"].as_f64()).sum();
        let has_first = |host: &&Value| host["shards"].as_array().into_iter().flatten().any(|shard| shard == 0);
        let host = reports.iter().find_map(|report| report["hosts"].as_array()?.iter().find(has_first))?;
        Some(Unsorted { host: host["name"].as_str()?.to_owned(), mounts: mounts.len(), per_second })
    }
}

#[derive(Clone, Debug, Default)]
struct Kind {
    count: u64,
    nanoseconds: u64,
    latencies: Latencies,
}

/// Adds to a sum as far as it goes: nobody knows what others tell.
fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

impl Reading {
    /// That of all processes together that have told these reports.
    pub(super) fn of(reports: &[Value]) -> Reading {
        let mut reading = Reading { unsorted: Unsorted::of(reports), ..Reading::default() };
        for (role, counters) in reports.iter().filter_map(|report| report["counters"].as_object()).flatten() {
            for (counter, value) in counters.as_object().into_iter().flatten() {
                let value = value.as_u64().unwrap_or_default();
                match role.split('-').next() {
                    Some("shard") => add(reading.shards.entry(counter.clone()).or_default(), value),
                    Some("journal") => add(reading.journal.entry(counter.clone()).or_default(), value),
                    Some("mount" | "told") => reading.operation(counter, value),
                    _ => {}
                }
            }
        }
        reading
    }

    fn operation(&mut self, counter: &str, value: u64) {
        if counter.ends_with("_refused") || counter.ends_with("_failed") {
            return;
        }
        if let Some((name, bound)) = counter.split_once("_below_") {
            let bound = bound.parse().unwrap_or(u64::MAX);
            add(self.operations.entry(name.to_owned()).or_default().latencies.entry(bound).or_default(), value);
        } else if let Some(name) = counter.strip_suffix("_ns") {
            add(&mut self.operations.entry(name.to_owned()).or_default().nanoseconds, value);
        } else {
            add(&mut self.operations.entry(counter.to_owned()).or_default().count, value);
        }
    }
}

/// What happened between two readings.
pub(super) struct Interval {
    seconds: f64,
    operations: Vec<(String, Kind)>,
    rates: Vec<(&'static str, u64)>,
    levels: Vec<(&'static str, u64)>,
    journal_bytes: u64,
    flushes: u64,
    /// Batches that are not on stable storage.
    volatile_batches: u64,
    segments: u64,
    unsorted: Option<Unsorted>,
}

impl Interval {
    /// A counter that went down belongs to a mount that has left: it counts as nothing.
    pub(super) fn new(before: &Reading, now: &Reading, took: Duration) -> Interval {
        let count = |map: &BTreeMap<String, u64>, name: &str| map.get(name).copied().unwrap_or_default();
        let more = |name: &str| count(&now.shards, name).saturating_sub(count(&before.shards, name));
        let journal = |name: &str| count(&now.journal, name).saturating_sub(count(&before.journal, name));
        let nothing = Kind::default();
        let operations = now.operations.iter().map(|(name, kind)| {
            let earlier = before.operations.get(name).unwrap_or(&nothing);
            (name.clone(), kind.since(earlier))
        });
        let mut operations: Vec<_> = operations.filter(|(_, kind)| kind.count > 0).collect();
        operations.sort_by_key(|(_, kind)| std::cmp::Reverse(kind.count));
        Interval {
            seconds: took.as_secs_f64().max(f64::EPSILON),
            operations,
            rates: RATES.map(|name| (name, more(name))).into(),
            levels: LEVELS.map(|name| (name, count(&now.shards, name))).into(),
            journal_bytes: journal("bytes"),
            flushes: journal("flushes"),
            volatile_batches: count(&now.journal, "appended_lsn").saturating_sub(count(&now.journal, "durable_lsn")),
            segments: count(&now.journal, "segments"),
            unsorted: now.unsorted.clone(),
        }
    }

    fn rate(&self, count: u64) -> f64 {
        count as f64 / self.seconds
    }

    pub(super) fn json(&self) -> Value {
        let operations: Map<String, Value> = self
            .operations
            .iter()
            .map(|(name, kind)| {
                let mut all = json!({
                    "count": kind.count,
                    "per_second": self.rate(kind.count),
                    "mean_us": kind.mean_us(),
                });
                for (percentile, part) in PERCENTILES {
                    all[percentile] = json!(kind.percentile_us(part));
                }
                (name.clone(), all)
            })
            .collect();
        let rates: Map<String, Value> =
            self.rates.iter().map(|(name, count)| ((*name).to_owned(), json!(self.rate(*count)))).collect();
        let levels: Map<String, Value> =
            self.levels.iter().map(|(name, level)| ((*name).to_owned(), json!(level))).collect();
        let unsorted = self.unsorted.as_ref().map(
            |unsorted| json!({ "host": unsorted.host, "mounts": unsorted.mounts, "per_second": unsorted.per_second }),
        );
        json!({
            "seconds": self.seconds,
            "operations": operations,
            "operations_of_unknown_kind": unsorted,
            "per_second": rates,
            "now": levels,
            "journal": {
                "bytes_per_second": self.rate(self.journal_bytes),
                "flushes_per_second": self.rate(self.flushes),
                "volatile_batches": self.volatile_batches,
                "segments": self.segments,
            },
        })
    }
}

impl Kind {
    fn since(&self, earlier: &Kind) -> Kind {
        let latencies = self.latencies.iter().map(|(bound, count)| {
            let before = earlier.latencies.get(bound).copied().unwrap_or_default();
            (*bound, count.saturating_sub(before))
        });
        Kind {
            count: self.count.saturating_sub(earlier.count),
            nanoseconds: self.nanoseconds.saturating_sub(earlier.nanoseconds),
            latencies: latencies.collect(),
        }
    }

    fn mean_us(&self) -> f64 {
        self.nanoseconds as f64 / 1000.0 / self.count.max(1) as f64
    }

    /// The bound below which that part of them was.
    fn percentile_us(&self, part: f64) -> f64 {
        let all: u64 = self.latencies.values().fold(0, |sum, count| sum.saturating_add(*count));
        let rank = (all as f64 * part).ceil() as u64;
        let mut seen = 0_u64;
        for (bound, count) in &self.latencies {
            seen = seen.saturating_add(*count);
            if seen >= rank {
                return *bound as f64 / 1000.0;
            }
        }
        0.0
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        table.set_header(["operation", "per second", "mean µs", "p50 µs <", "p99 µs <", "p99.9 µs <"]);
        for (name, kind) in &self.operations {
            let numbers = [self.rate(kind.count), kind.mean_us()].into_iter();
            let numbers = numbers.chain(PERCENTILES.map(|(_, part)| kind.percentile_us(part)));
            table
                .add_row(std::iter::once(name.shown().to_string()).chain(numbers.map(|number| format!("{number:.1}"))));
        }
        table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        match &self.unsorted {
            Some(Unsorted { host, mounts, per_second }) => writeln!(
                f,
                "{per_second:.0} operations per second through {mounts} mounts; of which kind, only host {} is told, which does not tell",
                host.shown()
            )?,
            None if self.operations.is_empty() => writeln!(f, "no operations through mounts")?,
            None => writeln!(f, "{table}")?,
        }
        let rates = self.rates.iter().map(|(name, count)| format!("{name} {:.0}", self.rate(*count)));
        writeln!(f, "shards, per second: {}", rates.collect::<Vec<_>>().join(", "))?;
        let levels = self.levels.iter().map(|(name, level)| format!("{name} {level}"));
        writeln!(f, "shards, now: {}", levels.collect::<Vec<_>>().join(", "))?;
        write!(
            f,
            "journal: {:.0} bytes and {:.1} flushes per second, {} batches not on stable storage, {} segments",
            self.rate(self.journal_bytes),
            self.rate(self.flushes),
            self.volatile_batches,
            self.segments
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_what_is_told_do_not_overflow() {
        let role = json!({"requests": u64::MAX, "lookup": u64::MAX, "lookup_ns": u64::MAX, "lookup_below_9": u64::MAX});
        let all =
            json!({"counters": {"shard-0": role, "shard-1": role, "mount-1": role, "mount-2": role, "journal": role}});
        let interval = Interval::new(&Reading::default(), &Reading::of(&[all.clone(), all]), Duration::from_secs(1));
        assert_eq!(interval.rates[0], ("requests", u64::MAX));
        assert!(!interval.to_string().is_empty() && !interval.json().is_null());
    }

    #[test]
    fn an_interval_is_the_difference_of_two_readings() {
        let before =
            r#"{"counters":{"mount":{"lookup":10,"lookup_ns":1000,"lookup_below_128":10},"shard-0":{"requests":5}}}"#;
        let now = r#"{"counters":{"mount":{"lookup":14,"lookup_ns":9000,"lookup_below_128":11,"lookup_below_4096":3,
            "create":1,"create_ns":7,"create_below_8":1},"shard-0":{"requests":7,"inodes":3},"shard-1":{"requests":2},
            "journal":{"appended_lsn":9,"durable_lsn":7}}}"#;
        let read = |text| Reading::of(&[serde_json::from_str(text).expect("JSON")]);
        let shown = Interval::new(&read(before), &read(now), Duration::from_secs(2)).json();
        let lookup = &shown["operations"]["lookup"];
        assert_eq!((lookup["per_second"].as_f64(), lookup["mean_us"].as_f64()), (Some(2.0), Some(2.0)));
        assert_eq!((lookup["p50_us"].as_f64(), lookup["p99_us"].as_f64()), (Some(4.096), Some(4.096)));
        assert_eq!(shown["operations"]["create"]["count"].as_u64(), Some(1));
        assert_eq!(shown["per_second"]["requests"].as_f64(), Some(2.0));
        assert_eq!(shown["now"]["inodes"].as_u64(), Some(3));
        assert_eq!(shown["journal"]["volatile_batches"].as_u64(), Some(2));
    }
}
