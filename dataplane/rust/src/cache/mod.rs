//! The cache: read, fill and invalidate (D-73 to D-110).
//!
//! A packet comes to where it may have to wait, between names and stamp; a read that is not answered yet waits once more before the names of
//! its next level. What waits is a value, so that anything can be made to happen meanwhile.

pub mod control;
pub mod counts;
pub mod locks;
pub mod parser;
mod permission;
pub mod registers;
pub mod tables;

use crate::Port;
use crate::common::copies::{Deliver, Done};
use crate::common::counters::Counter;
use crate::common::planted::{Planted, planted};
use locks::Locks;
use onpath_wire::innet::Cache;
use onpath_wire::innet::cache::{
    CacheResult, EntryValue, Fill, Invalidate, LEVELS_MAX, Levels, ROOT_KEY, ROOT_TOKEN, Read,
};
use parser::Packet;
use permission::{Verdict, judge};
use registers::{Filled, Registers};
use tables::Found;

/// Most passes of a packet: the root's and that of each level (D-91).
pub const PASSES_MAX: usize = 1 + LEVELS_MAX;

/// A packet that is on its way through the switch. It cannot be cloned, and going on consumes it.
#[derive(Debug)]
pub struct Waiting {
    header: Cache,
    at: At,
    /// Passes that it has begun.
    passes: usize,
    /// A read that has raised lock counters.
    locks: bool,
}

impl Waiting {
    /// Whether it is a read that has raised lock counters, some of which it still holds.
    pub fn holds_locks(&self) -> bool {
        self.locks
    }

    /// Whether it waits to begin a further pass, and not in the middle of one.
    pub fn begins_a_pass(&self) -> bool {
        matches!(self.at, At::Names)
    }
}

/// Where a packet waits.
#[derive(Clone, Copy, Debug)]
enum At {
    /// Before the names of its next pass.
    Names,
    /// Before the stamp of what its name has.
    Stamp(Option<Found>),
}

/// How far a packet has come.
#[derive(Debug)]
pub(crate) enum Progress {
    /// It waits.
    Waits(Waiting),
    /// It leaves, with this header.
    Done(Cache, Done),
}

fn done(header: Cache, counter: Counter, result: CacheResult, deliver: Deliver) -> Progress {
    Progress::Done(header, Done { counter, result: result as u8, deliver })
}

/// Whether the next pass is the one of the root's own entry (D-79).
#[inline]
fn of_root(read: &Read) -> bool {
    read.start == 0 && !planted(Planted::D79)
}

/// Key and token that the next pass looks up.
#[inline]
fn next_name(read: &Read) -> (u64, u8) {
    if of_root(read) { (ROOT_KEY, ROOT_TOKEN) } else { read.levels.at(read.level.into()) }
}

/// D-100, D-105: `rule` says of which operation.
fn told(rule: Planted) -> Deliver {
    if planted(rule) { Deliver::Shard } else { Deliver::Destination }
}

impl Registers {
    /// A packet that comes in by a port: what is looked at once, and the names of the first pass.
    #[inline]
    pub(crate) fn arrive(&mut self, packet: &Packet, port: Port) -> Progress {
        let header = *packet.header();
        let (epoch, own) = (header.common().epoch, self.epoch());
        let matches = epoch == own && epoch != 0;
        let mut locks = false;
        match &header {
            Cache::Read(read) => {
                if !matches && !planted(Planted::D76) {
                    return self.not_asked(*read, Counter::ReadOtherEpoch);
                }
                if !self.requesters.may_ask(port, read) {
                    return self.not_asked(*read, Counter::ReadStranger);
                }
                locks = self.lock(read);
            }
            Cache::Fill(_) if !matches && !planted(Planted::D95) => {
                return done(header, Counter::FillOtherEpoch, CacheResult::OtherEpoch, told(Planted::D100));
            }
            Cache::Invalidate(_) if !matches && !planted(Planted::D101) => {
                return done(header, Counter::InvalidateOtherEpoch, CacheResult::OtherEpoch, told(Planted::D105));
            }
            Cache::Fill(_) | Cache::Invalidate(_) => {}
        }
        self.look_up(header, 1, locks)
    }

    /// A packet that has waited, as far as it comes.
    #[inline]
    pub(crate) fn go_on(&mut self, waiting: Waiting) -> Progress {
        let Waiting { passes, locks, .. } = waiting;
        match (waiting.at, waiting.header) {
            (At::Names, header) => self.look_up(header, passes + 1, locks),
            (At::Stamp(found), Cache::Read(read)) => self.read(read, found, passes, locks),
            (At::Stamp(found), Cache::Fill(fill)) => self.fill(fill, found),
            (At::Stamp(found), Cache::Invalidate(entry)) => self.invalidate(entry, found, passes),
        }
    }

    /// Raises the lock counters of a read whose last name has an entry; whether it has.
    fn lock(&mut self, read: &Read) -> bool {
        let Some(last) = usize::from(read.depth).checked_sub(1).filter(|_| self.locks.how != Locks::Off) else {
            return false;
        };
        let found = |level| {
            let (key, token) = read.levels.at(level);
            self.names.find(key, token).map(|found| found.index)
        };
        let is_locked = found(last).is_some();
        if is_locked {
            self.locks.raise(read, found);
        }
        is_locked
    }

    /// The shard has answered a read that was missed, and the answer passes: what that still holds is lowered.
    pub(crate) fn replied(&mut self, read: &Read) {
        self.locks.over(read, read.level.into());
    }

    /// D-80.
    fn look_up(&mut self, header: Cache, passes: usize, locks: bool) -> Progress {
        let (key, token) = match &header {
            Cache::Read(read) => next_name(read),
            Cache::Fill(fill) => (fill.key, fill.token),
            Cache::Invalidate(entry) => (entry.key, entry.token),
        };
        Progress::Waits(Waiting { header, at: At::Stamp(self.names.find(key, token)), passes, locks })
    }

    /// D-76 to D-78, D-109.
    fn not_asked(&mut self, read: Read, counter: Counter) -> Progress {
        if planted(Planted::D109) {
            self.counts.missed(last_key(&read), self.report);
        }
        done(Cache::Read(read), counter, CacheResult::Miss, missed_to(&read))
    }

    /// A pass from the stamp on (D-81 to D-94).
    fn read(&mut self, read: Read, found: Option<Found>, passes: usize, locks: bool) -> Progress {
        let root = of_root(&read);
        let last = !root && usize::from(read.level) + 1 == usize::from(read.depth);
        let value = found.and_then(|found| Some((found.index, self.gate(found.index).read(found.number)?)));
        let Some((index, bytes)) = value else { return self.missed(read) };
        let value = EntryValue::of_bytes(&bytes);
        match judge(&read, &value, last) {
            Verdict::Passed if last => {
                self.counts.hit(index);
                self.unlock(locks, &read);
                let deliver = if planted(Planted::D92) { Deliver::Destination } else { Deliver::Node(read.requester) };
                let answer = Cache::Read(Read { levels: Levels(bytes), ..read });
                done(answer, Counter::ReadAnswered, CacheResult::Answered, deliver)
            }
            Verdict::Passed if passes < PASSES_MAX => {
                if planted(Planted::D110) {
                    self.counts.hit(index);
                }
                if locks && !root {
                    self.locks.passed(&read, read.level.into());
                }
                let start = if planted(Planted::D91) { read.start } else { value.id };
                let header = Cache::Read(Read { start, level: read.level.wrapping_add(u8::from(!root)), ..read });
                Progress::Waits(Waiting { header, at: At::Names, passes, locks })
            }
            Verdict::Denied if !planted(Planted::D93) => {
                self.counts.hit(index);
                self.unlock(locks, &read);
                let deliver = Deliver::Node(read.requester);
                done(Cache::Read(read), Counter::ReadDenied, CacheResult::Denied, deliver)
            }
            Verdict::Passed | Verdict::Denied | Verdict::Unknown => self.missed(read),
        }
    }

    /// A read is over that had raised lock counters.
    fn unlock(&mut self, locks: bool, read: &Read) {
        if locks {
            self.locks.over(read, read.level.into());
        }
    }

    /// D-94, D-106 to D-108.
    fn missed(&mut self, read: Read) -> Progress {
        let key = if planted(Planted::D106) { read.levels.at(0).0 } else { last_key(&read) };
        let header = Cache::Read(read);
        if self.counts.missed(key, self.report) {
            let deliver = Deliver::DestinationAnd(self.report.node);
            return done(header, Counter::ReadReported, CacheResult::Miss, deliver);
        }
        done(header, Counter::ReadMissed, CacheResult::Miss, missed_to(&read))
    }

    /// D-96 to D-100.
    fn fill(&mut self, fill: Fill, found: Option<Found>) -> Progress {
        let filled = match found.filter(|found| found.number == fill.number || planted(Planted::D96)) {
            Some(found) => self.gate(found.index).fill(found.number, fill.revision, &fill.value.0),
            None => Filled::NotThere,
        };
        let (counter, result) = match filled {
            Filled::Done => (Counter::FillDone, CacheResult::Filled),
            Filled::NotNewer => (Counter::FillNotNewer, CacheResult::NotNewer),
            Filled::NotThere => (Counter::FillNotThere, CacheResult::NotThere),
        };
        done(Cache::Fill(fill), counter, result, told(Planted::D100))
    }

    /// D-102 to D-105.
    fn invalidate(&mut self, entry: Invalidate, found: Option<Found>, passes: usize) -> Progress {
        let found = found.filter(|found| found.number == entry.number || planted(Planted::D104));
        if passes < locks::PASSES_MAX && found.is_some_and(|found| self.locks.is_read(found.index)) {
            return Progress::Waits(Waiting { header: Cache::Invalidate(entry), at: At::Names, passes, locks: false });
        }
        let cleared = found.is_some_and(|found| self.gate(found.index).invalidate(found.number, entry.revision));
        let (counter, result) = match cleared {
            true => (Counter::InvalidateDone, CacheResult::Cleared),
            false => (Counter::InvalidateNotThere, CacheResult::NotThere),
        };
        done(Cache::Invalidate(entry), counter, result, told(Planted::D105))
    }
}

/// D-94.
fn missed_to(read: &Read) -> Deliver {
    if planted(Planted::D94) { Deliver::Node(read.requester) } else { Deliver::Destination }
}

/// The key that a miss is counted by (D-106).
fn last_key(read: &Read) -> u64 {
    read.levels.at(usize::from(read.depth).saturating_sub(1)).0
}
