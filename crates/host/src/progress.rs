//! How far long work is: whoever does it tells whoever shows it, which is the command.

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Things of this name, as in "12 objects".
    Things(&'static str),
    /// Nothing: how far it is nobody knows.
    Nothing,
}

/// A part of long work, of which it is counted how much is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// As in "replaying the journal".
    pub doing: &'static str,
    /// What is counted.
    pub unit: Unit,
    /// How much there is in all, if that is known.
    pub whole: Option<u64>,
}

impl Stage {
    /// One that counts things, nobody knows how many.
    pub const fn of(doing: &'static str, things: &'static str) -> Stage {
        Stage { doing, unit: Unit::Things(things), whole: None }
    }

    /// One of which nobody knows how far it is.
    pub const fn uncounted(doing: &'static str) -> Stage {
        Stage { doing, unit: Unit::Nothing, whole: None }
    }

    /// The same when it is known how much there is.
    pub const fn with_whole(self, whole: u64) -> Stage {
        Stage { whole: Some(whole), ..self }
    }
}

/// Who is told how far work is, by any of its threads.
pub trait Watcher: Send + Sync {
    /// A stage begins; the one before is over.
    fn begin(&self, stage: Stage);
    /// It is known better now how much of the stage there is in all.
    fn whole(&self, units: u64);
    /// So many units more of the stage are done.
    fn done(&self, units: u64);
}

/// Nobody is told.
pub struct Unwatched;

impl Watcher for Unwatched {
    fn begin(&self, _stage: Stage) {}
    fn whole(&self, _units: u64) {}
    fn done(&self, _units: u64) {}
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Notes the stages, and how much of each was done.
    #[derive(Default)]
    pub(crate) struct Noted(Mutex<Vec<(Stage, u64)>>);

    impl Noted {
        pub(crate) fn stages(&self) -> Vec<(Stage, u64)> {
            self.0.lock().unwrap().clone()
        }

        fn present(&self, change: impl FnOnce(&mut (Stage, u64))) {
            change(self.0.lock().unwrap().last_mut().expect("a stage has begun"));
        }
    }

    impl Watcher for Noted {
        fn begin(&self, stage: Stage) {
            self.0.lock().unwrap().push((stage, 0));
        }
        fn whole(&self, units: u64) {
            self.present(|(stage, _)| stage.whole = Some(units));
        }
        fn done(&self, units: u64) {
            self.present(|(_, done)| *done += units);
        }
    }
}
