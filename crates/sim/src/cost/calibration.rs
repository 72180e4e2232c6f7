//! Constants of the cost model: nanoseconds of virtual CPU for each input of a role, and what the machine around it takes.

use super::label::Features;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Cost of the inputs of one label: `base + entries * entry + records * record + replies * reply`, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Of the input itself: decoding, starting or waking its operation, messages to other shards, ns.
    pub base_ns: f64,
    /// Of each change-log entry that comes in or goes out, ns.
    pub entry_ns: f64,
    /// Of each record that is made and applied to the state, ns.
    pub record_ns: f64,
    /// Of each operation that is answered, ns.
    pub reply_ns: f64,
    /// Inputs measured.
    pub samples: u64,
}

impl Line {
    /// Cost of an input, ns.
    pub fn cost_ns(&self, features: Features) -> f64 {
        let Features { entries, records, replies } = features;
        self.base_ns
            + self.entry_ns * f64::from(entries)
            + self.record_ns * f64::from(records)
            + self.reply_ns * f64::from(replies)
    }
}

/// Everything that is measured on a machine. Times are nanoseconds of CPU of one core, unless said otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// What was measured, for people.
    pub machine: String,
    /// Costs of the roles' inputs, by label.
    pub inputs: BTreeMap<String, Line>,
    /// Of the runtime for each input of a role, whoever sent it.
    pub dispatch_ns: f64,
    /// Of appending one record to the journal.
    pub journal_ns: f64,
    /// Of sending a message to another server.
    pub send_ns: f64,
    /// Of receiving one.
    pub receive_ns: f64,
    /// Of reading or writing a block of a data file that is in memory.
    #[serde(default)]
    pub disk_ns: f64,
    /// A flush of the journal, elapsed.
    pub flush_ns: f64,
}

impl Calibration {
    /// Nothing costs anything: what is left is the network and the order of messages.
    pub fn free() -> Calibration {
        Calibration { machine: "costs nothing".into(), ..Calibration::default() }
    }

    /// The constants that `bench model` uses unless it is told others; see docs/internals/cost-model.md.
    ///
    /// # Panics
    /// Never: the file is part of the program, and a test reads it.
    pub fn reference() -> Calibration {
        serde_json::from_str(include_str!("reference.json")).expect("the reference is well-formed")
    }

    /// Cost of an input, ns; nothing if its label was never measured and others were.
    pub fn input_ns(&self, label: &str, features: Features) -> Option<u64> {
        if self.inputs.is_empty() {
            return Some(0);
        }
        self.inputs.get(label).map(|line| line.cost_ns(features).round() as u64)
    }
}
