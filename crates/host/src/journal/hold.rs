//! Reading the journal of a process that serves: what is read is not released meanwhile, and the end is where the last append was.

use super::recover::read_held;
use super::{Journal, JournalError, RecoveryReport, Replay, Shared};
use onpath_wire::ids::Lsn;
use std::path::PathBuf;
use std::sync::Arc;

/// What may not be released: a number for each holder, and from where on.
#[derive(Debug, Default)]
pub(super) struct Holds {
    last: u64,
    all: Vec<(u64, Lsn)>,
}

impl Holds {
    /// What may be released when nobody but the holders needs anything below `from`. A full disk ends all holds: whoever writes
    /// needs the room more than whoever reads.
    pub(super) fn bound(&mut self, from: Lsn, full: bool) -> Lsn {
        if full {
            self.all.clear();
        }
        self.all.iter().map(|(_, held)| *held).fold(from, Lsn::min)
    }
}

/// The journal from some batch on, up to what was appended when the hold began. It stays until this is dropped, or the disk is full.
pub struct Hold {
    shared: Arc<Shared>,
    id: u64,
    from: Lsn,
    segments: Vec<PathBuf>,
    end: u64,
}

impl Journal {
    /// Holds everything from `from` on, of which nothing is released yet.
    pub fn hold(&self, from: Lsn) -> Hold {
        let mut append = self.shared.append.lock().expect("appending does not panic");
        append.holds.last += 1;
        let id = append.holds.last;
        append.holds.all.push((id, from));
        let closed = append.closed.iter().filter(|closed| closed.end > from).map(|closed| closed.path.clone());
        let segments = closed.chain([append.segment.path.clone()]).collect();
        Hold { shared: self.shared.clone(), id, from, segments, end: append.at as u64 }
    }
}

impl Hold {
    /// Gives every record that is held to `replay`.
    pub fn replay(&self, replay: &mut dyn Replay) -> Result<RecoveryReport, JournalError> {
        let read = read_held(&self.segments, self.end, self.shared.options.journal, self.from, replay);
        let append = self.shared.append.lock().expect("appending does not panic");
        if append.holds.all.iter().any(|(id, _)| *id == self.id) {
            return read;
        }
        Err(JournalError::Stopped(
            "for whoever reads it: the disk is full and its segments are needed; try again".into(),
        ))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut append = self.shared.append.lock().expect("appending does not panic");
        append.holds.all.retain(|(id, _)| *id != self.id);
    }
}
