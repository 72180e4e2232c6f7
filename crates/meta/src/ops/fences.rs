//! Of which files a write may be under way that a forgotten reservation of O_APPEND allowed.
//!
//! A restart forgets all reservations, the death of a session those that it had. Nobody lists their files: every file born
//! by then is in doubt, until its next reservation has shut such writes out. So all that is remembered is that moment, and the
//! files settled since; a file that is forgotten among them is only fenced once more.

use hashbrown::HashSet;
use onpath_kernel::Gauge;
use onpath_wire::ids::{InodeId, Stamp};

/// Settled files remembered; beyond, all are forgotten.
const SETTLED_MAX: usize = 1 << 16;

/// Which files are in doubt.
#[derive(Debug, Default)]
pub(crate) struct Fences {
    /// When a reservation was last forgotten.
    forgotten: Stamp,
    /// Of the files born by then, those fenced since.
    settled: HashSet<InodeId>,
}

impl Fences {
    /// A reservation may have been forgotten at `now`, the last stamp given out.
    pub(crate) fn doubt(&mut self, now: Stamp) {
        self.forgotten = now;
        self.settled.clear();
    }

    /// Whether the next reservation of a file born at `btime` must shut out writes of earlier ones.
    pub(crate) fn needed(&self, id: InodeId, btime: i64) -> bool {
        btime <= self.forgotten.0 as i64 && !self.settled.contains(&id)
    }

    /// Such writes are shut out.
    pub(crate) fn settled(&mut self, id: InodeId) {
        if self.settled.len() >= SETTLED_MAX {
            self.settled.clear();
        }
        self.settled.insert(id);
    }

    /// Its table.
    pub(crate) fn gauges(&self, all: &mut Vec<Gauge>) {
        all.push(Gauge::table("files fenced", self.settled.len(), SETTLED_MAX));
    }

    /// The file is gone for good.
    pub(crate) fn gone(&mut self, id: InodeId) {
        self.settled.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: InodeId = InodeId(7);

    #[test]
    fn a_file_is_in_doubt_until_it_is_fenced_and_when_a_reservation_is_forgotten_again() {
        let mut fences = Fences::default();
        fences.doubt(Stamp(100));
        assert!(fences.needed(FILE, 100) && !fences.needed(FILE, 101), "born since, it had no reservation then");
        fences.settled(FILE);
        assert!(!fences.needed(FILE, 100) && fences.needed(InodeId(8), 100));
        fences.doubt(Stamp(200));
        assert!(fences.needed(FILE, 100) && fences.needed(InodeId(8), 150));
    }

    #[test]
    fn the_table_is_bounded_and_what_it_forgets_is_fenced_once_more() {
        let mut fences = Fences::default();
        fences.doubt(Stamp(100));
        for id in 0..3 * SETTLED_MAX as u64 {
            fences.settled(InodeId(id));
            assert!(!fences.needed(InodeId(id), 1), "the one just fenced is known");
        }
        assert!(fences.settled.len() <= SETTLED_MAX, "{} files", fences.settled.len());
        assert!(fences.needed(InodeId(0), 1));
    }

    #[test]
    fn files_that_are_gone_are_not_remembered() {
        let mut fences = Fences::default();
        fences.settled(FILE);
        fences.gone(FILE);
        assert!(fences.settled.is_empty());
    }
}
