//! Several sessions lock one file, with flock(2) and with ranges of fcntl(2), waiting or not, and one of them dies: nobody
//! holds what conflicts with what another one surely holds, nobody is refused without a reason, and whoever waits gets
//! its turn (the end of the simulation finds those who never do).

use super::User;
use crate::model::Caller;
use crate::workload::PRIVATE;
use crate::world::{Finished, World};
use onpath_session::fs::{FsOp, FsReply, FsResult, Handle, OpenMode};
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::name::Name;
use onpath_wire::request::{FileLock, LockKind};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Threads of a session that lock on their own account.
const LANES: usize = 2;
/// Answers after which the last session dies.
const DIES_AFTER: u32 = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Open,
    Lock {
        wait: bool,
    },
    /// Something else, at another shard, while the lock is held.
    Look,
    Unlock,
}

struct Lane {
    session: usize,
    handle: Option<Handle>,
    awaited: Option<(u64, Call)>,
    /// What it asks for, holds or gives back.
    lock: Option<FileLock>,
    /// Surely held: from the answer on, until it is given back.
    held: bool,
    /// Somebody else had what conflicts, perhaps, while this one asked.
    excused: bool,
    dead: bool,
}

/// Whether two owners cannot have both.
fn conflict(a: &FileLock, b: &FileLock) -> bool {
    a.flock == b.flock
        && a.start <= b.end
        && b.start <= a.end
        && (a.kind == LockKind::Write || b.kind == LockKind::Write)
}

/// The users of one file.
pub struct Lockers {
    rng: ChaCha8Rng,
    name: Name,
    id: InodeId,
    lanes: Vec<Lane>,
    answers: u32,
    closing: bool,
}

impl Lockers {
    /// Begins in so many new sessions.
    pub fn begin(world: &mut World, seed: u64, sessions: usize) -> Lockers {
        let sessions: Vec<_> = (0..sessions).map(|_| world.add_session(&[Caller::default()])).collect();
        let lanes = sessions.iter().flat_map(|session| std::iter::repeat_n(*session, LANES));
        let lane = |session| Lane {
            session,
            handle: None,
            awaited: None,
            lock: None,
            held: false,
            excused: false,
            dead: false,
        };
        let lanes: Vec<_> = lanes.map(lane).collect();
        let name = Name::new(format!("{PRIVATE}s-lock-{}", lanes[0].session).as_bytes()).expect("a short name");
        let rng = ChaCha8Rng::seed_from_u64(seed);
        let mut lockers = Lockers { rng, name: name.clone(), id: InodeId::NONE, lanes, answers: 0, closing: false };
        let open = OpenMode::READ_WRITE;
        let create = FsOp::Create { parent: InodeId::ROOT, name, mode: 0o644, umask: 0, open };
        lockers.call(world, 0, create, Call::Open);
        lockers
    }

    fn call(&mut self, world: &mut World, lane: usize, op: FsOp, call: Call) {
        let unique = world.system_call(self.lanes[lane].session, 0, op);
        self.lanes[lane].awaited = Some((unique, call));
    }

    /// Whether somebody else has what conflicts with this lane's lock, surely or perhaps.
    fn others(&self, lane: usize, surely: bool) -> bool {
        let Some(mine) = &self.lanes[lane].lock else { return false };
        let has = |(other, them): (usize, &Lane)| {
            other != lane && (!surely || them.held) && them.lock.is_some_and(|lock| conflict(mine, &lock))
        };
        self.lanes.iter().enumerate().any(has)
    }

    /// Somebody has begun or ended something: whoever asks now may be refused for it.
    fn excuse(&mut self) {
        for lane in 0..self.lanes.len() {
            self.lanes[lane].excused |= self.others(lane, false);
        }
    }

    fn take(&mut self, lane: usize, call: Call, result: FsResult) -> Result<(), String> {
        match (call, result) {
            (Call::Open, Ok(FsReply::Created { attr, opened, fresh: true })) => {
                self.id = attr.id;
                self.lanes[lane].handle = Some(opened.handle);
            }
            (Call::Open, Ok(FsReply::Opened(opened))) => self.lanes[lane].handle = Some(opened.handle),
            (Call::Lock { .. }, Ok(FsReply::Done)) => {
                if self.others(lane, true) {
                    return Err(format!("{:?} is granted, which another one holds", self.lanes[lane].lock));
                }
                self.lanes[lane].held = true;
            }
            (Call::Lock { wait: false }, Err(Errno::EAGAIN)) => {
                if !self.lanes[lane].excused {
                    return Err(format!("{:?} is refused, which nobody else has", self.lanes[lane].lock));
                }
                self.lanes[lane].lock = None;
            }
            (Call::Look, Ok(FsReply::Attr { .. })) => {}
            (Call::Unlock, Ok(FsReply::Done)) => self.lanes[lane].lock = None,
            (call, result) => return Err(format!("{call:?} is answered {result:?}")),
        }
        Ok(())
    }

    fn next(&mut self, world: &mut World, lane: usize, before: Option<Call>) {
        let Some(handle) = self.lanes[lane].handle else {
            let mode = OpenMode::READ_WRITE;
            return self.call(world, lane, FsOp::Open { id: self.id, mode }, Call::Open);
        };
        match (self.lanes[lane].lock, before) {
            (Some(_), Some(Call::Lock { .. } | Call::Look)) if self.rng.random_bool(0.6) => {
                self.call(world, lane, FsOp::GetAttr { id: InodeId::ROOT, handle: None }, Call::Look);
            }
            (Some(lock), _) => {
                self.lanes[lane].held = false;
                let lock = FileLock { kind: LockKind::Unlock, ..lock };
                self.call(world, lane, FsOp::SetLock { handle, lock, wait: false }, Call::Unlock);
            }
            (None, _) if self.closing => {}
            (None, _) => self.lock(world, lane, handle),
        }
    }

    fn lock(&mut self, world: &mut World, lane: usize, handle: Handle) {
        let flock = self.rng.random_bool(0.4);
        let start = self.rng.random_range(0..4) * 10;
        let (start, end) = if flock { (0, u64::MAX) } else { (start, start + self.rng.random_range(0..25)) };
        let kind = if self.rng.random_bool(0.5) { LockKind::Write } else { LockKind::Read };
        let (owner, pid) = (lane as u64 + 1, lane as u32 + 1);
        let (lock, wait) = (FileLock { owner, pid, flock, kind, start, end }, self.rng.random_bool(0.6));
        let target = &mut self.lanes[lane];
        (target.lock, target.held, target.excused) = (Some(lock), false, false);
        self.excuse();
        self.call(world, lane, FsOp::SetLock { handle, lock, wait }, Call::Lock { wait });
    }

    /// The last session dies with its locks; others may be refused for them until its lease is over.
    fn die(&mut self, world: &mut World) {
        let session = self.lanes[self.lanes.len() - 1].session;
        world.kill_session(session);
        for lane in self.lanes.iter_mut().filter(|lane| lane.session == session) {
            (lane.awaited, lane.held, lane.dead) = (None, false, true);
        }
    }
}

impl User for Lockers {
    fn has(&self, session: usize) -> bool {
        self.lanes.iter().any(|lane| lane.session == session)
    }

    fn answered(&mut self, world: &mut World, finished: Finished) {
        let awaits = |lane: &Lane| {
            let unique = lane.awaited.map(|(unique, _)| unique);
            lane.session == finished.session && unique == Some(finished.unique)
        };
        let Some(lane) = self.lanes.iter().position(awaits) else {
            return world.checker.violation(format!("{:?} answers what nobody asked", self.name));
        };
        let (_, call) = self.lanes[lane].awaited.take().expect("just seen");
        let first = self.id == InodeId::NONE;
        if let Err(why) = self.take(lane, call, finished.result) {
            return world.checker.violation(format!("{:?} lane {lane}: {why}", self.name));
        }
        self.answers += 1;
        self.next(world, lane, Some(call));
        if first {
            (1..self.lanes.len()).for_each(|lane| self.next(world, lane, None));
        }
        if self.answers == DIES_AFTER {
            self.die(world);
        }
    }

    fn close(&mut self) {
        self.closing = true;
    }

    fn is_idle(&self) -> bool {
        self.lanes.iter().all(|lane| lane.dead || lane.awaited.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(flock: bool, kind: LockKind, start: u64, end: u64) -> FileLock {
        FileLock { owner: 1, pid: 1, flock, kind, start, end }
    }

    #[test]
    fn only_writers_of_the_same_bytes_conflict() {
        let write = lock(false, LockKind::Write, 10, 19);
        assert!(conflict(&write, &lock(false, LockKind::Read, 19, 30)));
        assert!(!conflict(&write, &lock(false, LockKind::Write, 20, 30)), "other bytes");
        assert!(!conflict(&write, &lock(true, LockKind::Write, 0, u64::MAX)), "flock has a space of its own");
        let read = lock(false, LockKind::Read, 0, 99);
        assert!(!conflict(&read, &read), "readers share");
    }
}
