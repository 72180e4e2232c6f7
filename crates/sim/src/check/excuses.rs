//! Excuses: what looks wrong and is let pass, since faults or the model's own ignorance may explain it. Each is counted by its kind, and a run
//! may have no more of them than what it has done and suffered accounts for: a checker that excuses nearly everything sees nothing.
//!
//! No excuses, and not counted: what the model leaves open until it is told (times), and values of which each is right
//! (bytes that were written and not synced when power was lost).

use super::Checker;
use serde::Serialize;
use std::ops::AddAssign;

/// Why something passes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Excuse {
    /// An answer is right for an earlier moment since the question.
    Earlier,
    /// A recorded change that may be gated counts as exposed, since an answer shows it.
    Shown,
    /// A request over several shards fails for another true reason than the model's first.
    Reason,
    /// An inode without links is said to be gone.
    Gone,
    /// The model does not know what is answered: what only users of sessions can tell.
    Unknown,
    /// A lock is refused, or given up: whoever asked for it judges that.
    Lock,
    /// A request to the registry of sessions is answered otherwise than the model does.
    Registry,
    /// A request is put off that needs a lease, when that of its session is over by the shard's clock, or that may come to wait, when
    /// too many do.
    Busy,
    /// A write that nobody has recorded is refused.
    Refused,
    /// There is no space, where disks were full.
    NoSpace,
    /// The answer to a change that a power loss took back.
    LostAnswer,
    /// An acknowledged change is taken back by a power loss.
    LostChange,
    /// A power loss takes the bytes of a write, and not the size and times that the home has learned of it.
    Hollow,
    /// A write that a power loss took back is heard of once more.
    Revived,
    /// A kill takes a revived write back again.
    LostAgain,
    /// A power loss has made a file shorter.
    Shortened,
    /// Answers are not judged again after a crash: too many others came since.
    Forgotten,
    /// A sync says that something was lost, after a power loss.
    Unsynced,
    /// A call of a session that is about to die fails.
    Mortal,
}

/// What a run has done and suffered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Load {
    /// Answers that were taken, and calls of users that were answered.
    pub answers: u64,
    /// Crashes that may lose what was acknowledged.
    pub losses: u64,
    /// All crashes.
    pub crashes: u64,
    /// Times of full disks.
    pub fulls: u64,
}

impl AddAssign for Load {
    fn add_assign(&mut self, other: Load) {
        self.answers += other.answers;
        self.losses += other.losses;
        self.crashes += other.crashes;
        self.fulls += other.fulls;
    }
}

/// Number of kinds.
const KINDS: usize = Excuse::ALL.len();

impl Excuse {
    /// All of them.
    pub const ALL: [Excuse; 19] = [
        Excuse::Earlier,
        Excuse::Shown,
        Excuse::Reason,
        Excuse::Gone,
        Excuse::Unknown,
        Excuse::Lock,
        Excuse::Registry,
        Excuse::Busy,
        Excuse::Refused,
        Excuse::NoSpace,
        Excuse::LostAnswer,
        Excuse::LostChange,
        Excuse::Hollow,
        Excuse::Revived,
        Excuse::LostAgain,
        Excuse::Shortened,
        Excuse::Forgotten,
        Excuse::Unsynced,
        Excuse::Mortal,
    ];

    /// Its name in what a run tells.
    pub fn name(self) -> &'static str {
        match self {
            Excuse::Earlier => "earlier",
            Excuse::Shown => "shown",
            Excuse::Reason => "reason",
            Excuse::Gone => "gone",
            Excuse::Unknown => "unknown",
            Excuse::Lock => "lock",
            Excuse::Registry => "registry",
            Excuse::Busy => "busy",
            Excuse::Refused => "refused",
            Excuse::NoSpace => "no_space",
            Excuse::LostAnswer => "lost_answer",
            Excuse::LostChange => "lost_change",
            Excuse::Hollow => "hollow",
            Excuse::Revived => "revived",
            Excuse::LostAgain => "lost_again",
            Excuse::Shortened => "shortened",
            Excuse::Forgotten => "forgotten",
            Excuse::Unsynced => "unsynced",
            Excuse::Mortal => "mortal",
        }
    }

    /// How many a run may have: of 100 answers, and of 100 crashes, crashes that may lose something, and times of full disks. More than
    /// the worst of twenty thousand seeds of either form needs.
    fn rates(self) -> [u64; 4] {
        match self {
            Excuse::Earlier => [2, 100, 0, 0],
            Excuse::Shown | Excuse::Reason => [1, 0, 0, 0],
            Excuse::Gone => [3, 0, 0, 0],
            Excuse::Unknown => [90, 0, 0, 0],
            // Who tries again and again for a lock that another one keeps is refused each time.
            Excuse::Lock => [9, 0, 0, 0],
            Excuse::Registry => [0, 50, 0, 0],
            Excuse::Busy => [0, 20, 0, 0],
            Excuse::Refused => [6, 0, 0, 0],
            Excuse::NoSpace => [0, 0, 0, 60_000],
            Excuse::LostAnswer => [0, 0, 300, 0],
            Excuse::LostChange => [4, 0, 30_000, 0],
            Excuse::Revived | Excuse::Shortened => [0, 0, 100, 0],
            Excuse::LostAgain | Excuse::Forgotten => [0, 20, 0, 0],
            Excuse::Hollow => [0, 100, 200, 0],
            Excuse::Unsynced => [0, 0, 200, 0],
            Excuse::Mortal => [0, 0, 100, 0],
        }
    }

    /// So many a run may have, whatever it has done: small ones are no statistics.
    fn few(self) -> u64 {
        match self {
            Excuse::Earlier
            | Excuse::Shown
            | Excuse::Registry
            | Excuse::Busy
            | Excuse::Revived
            | Excuse::LostAgain
            | Excuse::Forgotten
            | Excuse::Mortal => 6,
            Excuse::Reason | Excuse::Shortened => 15,
            Excuse::Gone
            | Excuse::Unknown
            | Excuse::Lock
            | Excuse::Refused
            | Excuse::NoSpace
            | Excuse::LostAnswer
            | Excuse::LostChange
            | Excuse::Hollow
            | Excuse::Unsynced => 30,
        }
    }

    /// The most that a run, or several runs together, of this load may have.
    pub fn bound(self, load: &Load) -> u64 {
        let [answers, crashes, losses, fulls] = self.rates();
        let hundredfold = load.answers * answers + load.crashes * crashes + load.losses * losses + load.fulls * fulls;
        self.few() + hundredfold / 100
    }
}

/// How often each kind was needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Excuses([u64; KINDS]);

impl Excuses {
    /// Counts one.
    pub fn add(&mut self, excuse: Excuse) {
        self.0[excuse as usize] += 1;
    }

    /// How many of a kind there were.
    pub fn of(&self, excuse: Excuse) -> u64 {
        self.0[excuse as usize]
    }

    /// Those that there were, by name.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Excuse::ALL.into_iter().map(|excuse| (excuse.name(), self.of(excuse))).filter(|(_, count)| *count > 0)
    }

    /// Of which kinds there were more than a run of this load may have.
    pub fn judge(&self, load: &Load) -> Vec<String> {
        let over = Excuse::ALL.into_iter().filter(|excuse| self.of(*excuse) > excuse.bound(load));
        let tell = |excuse: Excuse| {
            let (count, bound) = (self.of(excuse), excuse.bound(load));
            format!("{count} times {} is the excuse, at most {bound} are allowed of {load:?}", excuse.name())
        };
        over.map(tell).collect()
    }
}

impl Extend<Excuses> for Excuses {
    fn extend<T: IntoIterator<Item = Excuses>>(&mut self, others: T) {
        for other in others {
            self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
        }
    }
}

impl Checker {
    /// Something that looks wrong passes.
    pub fn excuse(&mut self, excuse: Excuse) {
        self.excuses.add(excuse);
    }

    /// What this run has done and suffered so far, with so many calls of users answered.
    pub fn load(&self, calls: u64) -> Load {
        Load { answers: self.checks.accepted + calls, fulls: self.fulls.0, ..self.suffered }
    }

    /// Says which excuses were needed too often.
    pub fn judge_excuses(&mut self, calls: u64) {
        let wrong = self.excuses.judge(&self.load(calls));
        wrong.into_iter().for_each(|what| self.violation(what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_place_of_its_own() {
        let mut excuses = Excuses::default();
        for (times, excuse) in (1..).zip(Excuse::ALL) {
            (0..times).for_each(|_| excuses.add(excuse));
        }
        assert!((1..).zip(Excuse::ALL).all(|(times, excuse)| excuses.of(excuse) == times));
        assert_eq!(excuses.named().count(), KINDS);
    }

    #[test]
    fn more_than_is_accounted_for_is_told() {
        for excuse in Excuse::ALL {
            let load = Load { answers: 1_000, ..Load::default() };
            let mut excuses = Excuses::default();
            (0..excuse.bound(&load)).for_each(|_| excuses.add(excuse));
            assert_eq!(excuses.judge(&load), Vec::<String>::new());
            excuses.add(excuse);
            let wrong = excuses.judge(&load);
            assert!(wrong.len() == 1 && wrong[0].contains(excuse.name()), "{wrong:?}");
        }
    }
}
