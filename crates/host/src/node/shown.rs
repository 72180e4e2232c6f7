//! What a process shows of itself: counters of its roles and of itself, and what else others add.

use super::{CounterSource, Counters, Node, cell};
use crate::mounts::{self, Mounts, Operations};
use crate::report::Section;
use onpath_wire::ids::NodeClass;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The counter by which a role tells what its bounded tables take, bytes.
const TABLE_BYTES: &str = "table_bytes";

impl Node {
    /// The status has these counters too, until they are removed.
    pub fn add_status(&self, name: String, source: CounterSource) {
        self.sources.lock().expect("sources do not panic").insert(name, source);
    }

    /// The status does not have the counters of that name any more; what they were in the end.
    pub fn remove_status(&self, name: &str) -> Option<Counters> {
        let source = self.sources.lock().expect("sources do not panic").remove(name);
        source.map(|source| source())
    }

    /// The report has this part too.
    pub fn add_section(&self, name: &'static str, section: Section) {
        self.sections.lock().expect("sections do not panic").insert(name, section);
    }

    /// Further parts of the report, by their names.
    pub(crate) fn sections(&self) -> Vec<(&'static str, serde_json::Value)> {
        self.sections.lock().expect("sections do not panic").iter().map(|(name, section)| (*name, section())).collect()
    }

    /// The mounts that this process knows.
    pub fn mounts(&self) -> &Mounts {
        &self.mounts
    }

    /// What the roles of a class have answered, all of the process together.
    pub fn operations_of(&self, class: NodeClass) -> Operations {
        let mut sum = Operations::new();
        let roles = self.cells.iter().enumerate().filter(|(_, cell)| cell.address().class() == Some(class));
        for (index, cell) in roles {
            mounts::add(&mut sum, &mounts::operations(&cell.operations()));
            self.resume(index);
        }
        sum
    }

    /// For how long it has run.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Counters of all roles, then of the runtime and the journal.
    pub fn status(&self) -> Vec<(String, Counters)> {
        let mut all = vec![];
        for (index, cell) in self.cells.iter().enumerate() {
            all.push((cell::name(cell.address()), cell.status()));
            self.resume(index);
        }
        let of_roles: u64 = all
            .iter()
            .flat_map(|(_, counters)| counters)
            .filter(|(name, _)| name == TABLE_BYTES)
            .map(|(_, bytes)| bytes)
            .sum();
        let (held, held_bytes) = {
            let gate = self.gate.lock().expect("the gate does not panic");
            (gate.len() as u64, gate.held().map(|held| cell::packet_bytes(&held.packet)).sum::<u64>())
        };
        let (mut waiting, mut waiting_bytes) = (0, 0);
        for (messages, bytes) in self.cells.iter().map(|cell| cell.waiting_messages()) {
            waiting += messages;
            waiting_bytes += bytes;
        }
        let runtime = [
            ("messages_lost", self.lost.load(Ordering::Relaxed)),
            ("timer_woken", self.timer.woken()),
            ("messages_waiting", waiting),
            ("outputs_held", held),
            ("disk_full", u64::from(self.full.load(Ordering::Relaxed))),
            ("messages_bytes", waiting_bytes + held_bytes),
            ("bounded_bytes", of_roles + waiting_bytes + held_bytes),
            ("uptime_ms", self.uptime().as_millis() as u64),
        ];
        all.push(("host".into(), runtime.map(|(name, value)| (name.into(), value)).into()));
        if let Some(journal) = &self.journal {
            let s = journal.status();
            let counters = [
                ("appended_lsn", s.appended.0),
                ("durable_lsn", s.durable.0),
                ("bytes", s.bytes),
                ("segments", s.segments),
                ("flushes", s.flushes),
                ("prepared_inline", s.prepared_inline),
            ];
            all.push(("journal".into(), counters.map(|(name, value)| (name.into(), value)).into()));
        }
        let sources = self.sources.lock().expect("sources do not panic");
        all.extend(sources.iter().map(|(name, source)| (name.clone(), source())));
        drop(sources);
        all.extend(self.mounts.status());
        all
    }
}
