//! What a run of the model measured.

use super::work::Kind;
use std::collections::BTreeMap;

/// Latencies of one kind of operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    /// In order, ns.
    sorted: Vec<u64>,
}

impl Latencies {
    pub(crate) fn new(mut all: Vec<u64>) -> Latencies {
        all.sort_unstable();
        Latencies { sorted: all }
    }

    /// Operations.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// The least latency that at least this share of the operations did not exceed, ns; 0 without operations.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let rank = (share * self.sorted.len() as f64).ceil() as usize;
        self.sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
    }

    /// Their mean, ns; 0 without operations.
    pub fn mean_ns(&self) -> f64 {
        self.sorted.iter().sum::<u64>() as f64 / (self.sorted.len() as f64).max(1.0)
    }
}

/// What happened in the measured part of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Virtual time, ns.
    pub took_ns: u64,
    /// Operations by kind.
    pub kinds: BTreeMap<Kind, Latencies>,
    /// Share of each server's cores that was busy; that of a path node or of the tracking, if there is one, comes behind those of shards, that
    /// of a controller last.
    pub utilisation: Vec<f64>,
    /// Inputs of roles, by label.
    pub inputs: BTreeMap<&'static str, u64>,
    /// Messages between servers, clients and the switch; through it they are two.
    pub messages: u64,
    /// CPU of sessions, ns; it keeps no server busy.
    pub sessions_ns: u64,
    /// Paths that led nowhere, since somebody has just renamed what was on the way.
    pub missed: u64,
    /// Writes of files that their data nodes have answered; homes have answered the others.
    pub written: u64,
    /// What the switch counted.
    pub switched: BTreeMap<&'static str, u64>,
    /// Inputs whose label was never calibrated: they cost nothing but dispatch.
    pub unknown: u64,
}

impl Measured {
    /// Operations of a kind a second.
    pub fn rate(&self, kind: Kind) -> f64 {
        self.kinds.get(&kind).map_or(0.0, |all| all.count() as f64 * 1e9 / self.took_ns.max(1) as f64)
    }

    /// Latencies of everything.
    pub fn all(&self) -> Latencies {
        Latencies::new(self.kinds.values().flat_map(|all| all.sorted.iter().copied()).collect())
    }

    /// Latencies of a kind.
    pub fn of(&self, kind: Kind) -> Latencies {
        self.kinds.get(&kind).cloned().unwrap_or_default()
    }
}
