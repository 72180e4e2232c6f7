//! What mounts have told of themselves ([`onpath_wire::report`]): who they are, and what all of them have done.

mod operations;
mod told;

pub use operations::{Operation, Operations};
pub(crate) use operations::{add, operations};
pub use told::{LEFT_AFTER, MOUNTS_MAX};

use crate::node::Counters;
use crate::sys;
use onpath_wire::ids::{SessionId, SessionNumber};
use onpath_wire::report::{MountIs, MountReport};
use operations::counters;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use told::{Teller, Told, Way};

/// A mount that has told who it is.
#[derive(Clone, Debug)]
pub struct Mounted {
    /// Who it is.
    pub is: MountIs,
    /// Its present session.
    pub session: SessionId,
    /// What the key is called that it has come with; none of who has the cluster's, or needs none.
    pub key: Option<Arc<str>>,
    /// When it was last heard of, monotonic microseconds.
    pub heard_us: u64,
    /// Operations that it has answered.
    pub operations: u64,
    /// Operations a second between its last two reports; of the mount of this process 0, since whoever asks can look twice.
    pub per_second: f64,
    /// Requests that wait for their answers.
    pub waiting: u32,
    /// For how long the oldest of them has waited, milliseconds.
    pub oldest_ms: u64,
    /// It is that of this process.
    pub is_own: bool,
}

/// Tells what the mount of this process has done.
pub type OwnSource = Box<dyn Fn() -> MountReport + Send + Sync>;

/// The mounts that a process knows.
pub struct Mounts {
    own: OnceLock<(SessionId, OwnSource)>,
    told: Mutex<Told>,
}

impl Default for Mounts {
    fn default() -> Self {
        Mounts { own: OnceLock::new(), told: Mutex::new(Told::since(sys::mono_us())) }
    }
}

impl Mounts {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().expect("sums do not panic")
    }

    /// There is a mount in this process; said once.
    pub fn have_own(&self, session: SessionId, source: OwnSource) {
        assert!(self.own.set((session, source)).is_ok(), "one mount a process");
    }

    /// A mount of another host, which has come with the key of that name if it has one of its own, tells what it has done.
    pub fn tell(&self, session: SessionNumber, key: Option<Arc<str>>, report: &MountReport) {
        self.told().tell(Teller { session, key, way: Way::Datagrams }, report, sys::mono_us());
    }

    /// A mount of this machine tells it by a stream, whose end [`Mounts::left`] tells.
    pub fn tell_by_stream(&self, session: SessionNumber, report: &MountReport) {
        self.told().tell(Teller { session, key: None, way: Way::Stream }, report, sys::mono_us());
    }

    /// The stream of that session is over, and so is its mount, unless it tells more.
    pub fn left(&self, session: SessionNumber) {
        self.told().left(session);
    }

    /// What the mount of this process has done.
    pub fn own_operations(&self) -> Operations {
        self.own.get().map(|(_, source)| operations(&source().operations)).unwrap_or_default()
    }

    /// What all other mounts have done that have told.
    pub fn told_operations(&self) -> Operations {
        self.told().sum().clone()
    }

    /// All mounts that have not left.
    pub fn present(&self) -> Vec<Mounted> {
        let now_us = sys::mono_us();
        let own = self.own.get().map(|(session, source)| {
            let report = source();
            Mounted {
                session: *session,
                key: None,
                heard_us: now_us,
                operations: report.answered,
                per_second: 0.0,
                waiting: report.waiting,
                oldest_ms: report.oldest_ms,
                is: report.is,
                is_own: true,
            }
        });
        let mut all: Vec<Mounted> = own.into_iter().chain(self.told().present(now_us)).collect();
        all.sort_by_key(|mounted| mounted.session);
        all
    }

    /// Counters of the mount of this process, and of all others together, and of those who told them.
    pub fn status(&self) -> Vec<(String, Counters)> {
        let own = self.own.get().map(|_| ("mount".to_owned(), counters(&self.own_operations())));
        let mut told = self.told();
        let [present, silent] = told.counted(sys::mono_us());
        let totals =
            [("present", present + u64::from(own.is_some())), ("silent", silent), ("reports_refused", told.refused())];
        let sum = told.sum();
        let told = (!sum.is_empty()).then(|| ("told".to_owned(), counters(sum)));
        let totals = ("mounts".to_owned(), totals.map(|(name, value)| (name.to_owned(), value)).into());
        own.into_iter().chain(told).chain([totals]).collect()
    }
}
