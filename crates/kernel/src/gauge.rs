//! How full the queues and tables of a role are, for checks that they stay within their bounds and come to rest.

/// One queue or table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauge {
    /// Its name.
    pub name: &'static str,
    /// Things in it.
    pub len: u64,
    /// Its bound.
    pub max: u64,
    /// It is empty when nobody asks anything any more.
    pub transient: bool,
}

impl Gauge {
    /// Something that empties itself: what waits, and what is under way.
    pub fn queue(name: &'static str, len: usize, max: usize) -> Gauge {
        Gauge { name, len: len as u64, max: max as u64, transient: true }
    }

    /// Something that is kept.
    pub fn table(name: &'static str, len: usize, max: usize) -> Gauge {
        Gauge { name, len: len as u64, max: max as u64, transient: false }
    }
}
