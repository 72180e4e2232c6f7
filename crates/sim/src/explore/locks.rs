//! Who surely has a file locked, as the sessions see it that lock it: from the answer on until they give it back.

use onpath_wire::request::{FileLock, LockKind};

/// What a session has of the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lock {
    /// Surely.
    held: bool,
    /// Perhaps: it was asked for and is not surely given back.
    has: bool,
    /// Somebody else perhaps had it while this one asked.
    excused: bool,
    /// Whoever asked got a signal.
    cancelled: bool,
}

/// The lock of one file, of each session that has it open.
#[derive(Debug)]
pub(super) struct Locks(Vec<Lock>);

impl Locks {
    /// Who locks, within a session.
    pub(super) const OWNER: u64 = 1;

    /// Nobody has it.
    pub(super) fn new(sessions: usize) -> Locks {
        Locks(vec![Lock::default(); sessions])
    }

    /// flock(2) of the file.
    pub(super) fn whole(kind: LockKind) -> FileLock {
        FileLock { flock: true, kind, start: 0, end: u64::MAX, owner: Locks::OWNER, pid: 1 }
    }

    fn others(&self, index: usize) -> impl Iterator<Item = &Lock> {
        self.0.iter().enumerate().filter(move |(other, _)| *other != index).map(|(_, lock)| lock)
    }

    /// A session asks for it: whoever asks now may be refused for that.
    pub(super) fn asked(&mut self, index: usize) {
        let excused = self.others(index).any(|other| other.has);
        self.0.iter_mut().for_each(|lock| lock.excused |= lock.has);
        self.0[index] = Lock { has: true, excused, ..Lock::default() };
    }

    /// Who asks gets a signal.
    pub(super) fn cancelled(&mut self, index: usize) {
        self.0[index].cancelled = true;
    }

    /// A session has stopped waiting for it.
    pub(super) fn interrupted(&mut self, index: usize) -> Result<(), String> {
        let waited = std::mem::take(&mut self.0[index]);
        if waited.cancelled { Ok(()) } else { Err("whoever waits for a lock is interrupted without a signal".into()) }
    }

    /// A session has it.
    pub(super) fn granted(&mut self, index: usize) -> Result<(), String> {
        if self.others(index).any(|other| other.held) {
            return Err("a lock is granted that another session holds".into());
        }
        self.0[index].held = true;
        Ok(())
    }

    /// A session does not get it.
    pub(super) fn refused(&mut self, index: usize) -> Result<(), String> {
        let refused = std::mem::take(&mut self.0[index]);
        if refused.excused { Ok(()) } else { Err("a lock is refused that nobody else has".into()) }
    }

    /// A session begins to give it back.
    pub(super) fn gives_back(&mut self, index: usize) {
        self.0[index].held = false;
    }

    /// A session has given it back.
    pub(super) fn gave_back(&mut self, index: usize) {
        self.0[index] = Lock::default();
    }

    /// A session dies: others are refused for it until that is known.
    pub(super) fn dies(&mut self, index: usize) {
        self.0[index].held = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_do_not_hold_it_and_nobody_is_refused_without_a_reason() {
        let mut locks = Locks::new(2);
        locks.asked(0);
        locks.granted(0).unwrap();
        locks.asked(1);
        assert!(locks.granted(1).is_err());
        locks.refused(1).unwrap();
        locks.gives_back(0);
        locks.gave_back(0);
        locks.asked(1);
        assert!(locks.refused(1).is_err());
    }

    #[test]
    fn the_dead_hold_nothing_but_others_may_be_refused_for_them() {
        let mut locks = Locks::new(2);
        locks.asked(0);
        locks.granted(0).unwrap();
        locks.dies(0);
        locks.asked(1);
        locks.refused(1).unwrap();
        locks.asked(1);
        locks.granted(1).unwrap();
    }

    #[test]
    fn who_gets_a_signal_may_get_it_all_the_same() {
        let mut locks = Locks::new(1);
        locks.asked(0);
        assert!(locks.interrupted(0).is_err());
        locks.asked(0);
        locks.cancelled(0);
        locks.interrupted(0).unwrap();
        locks.asked(0);
        locks.cancelled(0);
        locks.granted(0).unwrap();
    }
}
