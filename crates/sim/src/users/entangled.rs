//! Several sessions lock places of several files, one after the other and waiting for each: they come to wait for each other in
//! circles. Each circle ends, since everybody is answered in the end, and nobody is told of a deadlock (EDEADLK) who never
//! was in one.

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

/// Files; their homes differ where there are several shards.
const FILES: usize = 3;
/// Threads of a session that lock on their own account.
const LANES: usize = 2;
/// Locks that a thread takes before it lets go of all.
const LOCKS_MAX: usize = 3;

const OPEN: OpenMode = OpenMode::READ_WRITE;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Create(usize),
    Open(usize),
    Lock(usize, FileLock),
    Unlock(usize),
}

struct Lane {
    session: usize,
    handles: Vec<Option<Handle>>,
    awaited: Option<(u64, Call)>,
    /// What it holds, and of which file.
    held: Vec<(usize, FileLock)>,
    /// What it waits for was part of a circle at some moment.
    entangled: bool,
    /// It lets go of all.
    leaves: bool,
}

/// The sessions.
pub struct Entangled {
    rng: ChaCha8Rng,
    name: String,
    ids: Vec<InodeId>,
    lanes: Vec<Lane>,
    closing: bool,
    /// Calls that were answered, and deadlocks that were told.
    answers: u32,
    deadlocks: u64,
}

impl Entangled {
    /// Begins with so many sessions.
    pub fn begin(world: &mut World, seed: u64, sessions: usize) -> Entangled {
        let sessions: Vec<_> = (0..sessions).map(|_| world.add_session(&[Caller::default()])).collect();
        let lane = |&session: &usize| Lane {
            session,
            handles: vec![None; FILES],
            awaited: None,
            held: vec![],
            entangled: false,
            leaves: false,
        };
        let lanes: Vec<_> = sessions.iter().flat_map(|session| std::iter::repeat_n(session, LANES)).map(lane).collect();
        let name = format!("{PRIVATE}s-tangle-{}", lanes[0].session);
        let rng = ChaCha8Rng::seed_from_u64(seed);
        let mut entangled = Entangled { rng, name, ids: vec![], lanes, closing: false, answers: 0, deadlocks: 0 };
        entangled.create(world);
        entangled
    }

    /// Calls that were answered.
    pub fn answers(&self) -> u32 {
        self.answers
    }

    /// Deadlocks that were told.
    pub fn deadlocks(&self) -> u64 {
        self.deadlocks
    }

    fn create(&mut self, world: &mut World) {
        let file = self.ids.len();
        let name = Name::new(format!("{}-{file}", self.name).as_bytes()).expect("a short name");
        let create = FsOp::Create { parent: InodeId::ROOT, name, mode: 0o644, umask: 0, open: OPEN };
        self.call(world, 0, create, Call::Create(file));
    }

    fn call(&mut self, world: &mut World, lane: usize, op: FsOp, call: Call) {
        let unique = world.system_call(self.lanes[lane].session, 0, op);
        self.lanes[lane].awaited = Some((unique, call));
    }

    fn waits_for(&self, lane: usize) -> Option<(usize, FileLock)> {
        match self.lanes[lane].awaited {
            Some((_, Call::Lock(file, lock))) => Some((file, lock)),
            _ => None,
        }
    }

    /// Lanes that hold what this one waits for. Whoever waits has been told of everything that it holds.
    fn blockers(&self, lane: usize) -> Vec<usize> {
        self.waits_for(lane).map_or(vec![], |(file, lock)| self.holders(lane, file, &lock))
    }

    /// Other lanes that hold what conflicts with a lock.
    fn holders(&self, lane: usize, file: usize, lock: &FileLock) -> Vec<usize> {
        let clash = |held: &(usize, FileLock)| {
            held.0 == file
                && (held.1.kind == LockKind::Write || lock.kind == LockKind::Write)
                && held.1.start <= lock.end
                && lock.start <= held.1.end
        };
        (0..self.lanes.len()).filter(|&other| other != lane && self.lanes[other].held.iter().any(clash)).collect()
    }

    fn is_in_a_circle(&self, lane: usize) -> bool {
        let (mut seen, mut next) = (vec![], self.blockers(lane));
        while let Some(at) = next.pop() {
            if at == lane {
                return true;
            }
            if !seen.contains(&at) {
                seen.push(at);
                next.extend(self.blockers(at));
            }
        }
        false
    }

    fn look(&mut self) {
        for lane in 0..self.lanes.len() {
            self.lanes[lane].entangled |= self.is_in_a_circle(lane);
        }
    }

    fn take(&mut self, lane: usize, call: Call, result: FsResult) -> Result<(), String> {
        match (call, result) {
            (Call::Create(file), Ok(FsReply::Created { attr, opened, fresh: true })) => {
                self.ids.push(attr.id);
                self.lanes[lane].handles[file] = Some(opened.handle);
            }
            (Call::Open(file), Ok(FsReply::Opened(opened))) => self.lanes[lane].handles[file] = Some(opened.handle),
            (Call::Lock(file, lock), Ok(FsReply::Done)) => {
                if let Some(other) = self.holders(lane, file, &lock).first() {
                    return Err(format!("{lock:?} is granted, which lane {other} holds"));
                }
                let held = &mut self.lanes[lane].held;
                held.retain(|(of, before)| *of != file || before.start != lock.start);
                held.push((file, lock));
            }
            (Call::Lock(..), Err(Errno::EDEADLK)) if self.lanes[lane].entangled => {
                self.deadlocks += 1;
                self.lanes[lane].leaves = true;
            }
            (Call::Unlock(file), Ok(FsReply::Done)) => self.lanes[lane].held.retain(|(of, _)| *of != file),
            (call, result) => return Err(format!("{call:?} is answered {result:?}")),
        }
        Ok(())
    }

    fn next(&mut self, world: &mut World, lane: usize) {
        let here = &mut self.lanes[lane];
        if let Some(file) = here.handles.iter().position(Option::is_none) {
            let open = FsOp::Open { id: self.ids[file], mode: OPEN };
            return self.call(world, lane, open, Call::Open(file));
        }
        here.leaves |= here.held.len() >= LOCKS_MAX || self.closing;
        here.leaves &= !here.held.is_empty();
        if here.leaves {
            return self.unlock(world, lane);
        }
        if self.closing {
            return;
        }
        let file = self.rng.random_range(0..FILES);
        let kind = if self.rng.random_bool(0.7) { LockKind::Write } else { LockKind::Read };
        let start = self.rng.random_range(0..2) * 10;
        let lock = FileLock { flock: false, kind, start, end: start + 9, owner: lane as u64 + 1, pid: lane as u32 + 1 };
        self.lanes[lane].entangled = false;
        // What is no more than read from now on may be read by others before the answer comes.
        let same = |held: &&mut (usize, FileLock)| held.0 == file && held.1.start == start && kind == LockKind::Read;
        self.lanes[lane].held.iter_mut().filter(same).for_each(|held| held.1.kind = kind);
        let handle = self.lanes[lane].handles[file].expect("opened first");
        self.call(world, lane, FsOp::SetLock { handle, lock, wait: true }, Call::Lock(file, lock));
    }

    /// Lets go of everything of a file.
    fn unlock(&mut self, world: &mut World, lane: usize) {
        let (file, lock) = self.lanes[lane].held[0];
        let lock = FileLock { kind: LockKind::Unlock, start: 0, end: u64::MAX, ..lock };
        let handle = self.lanes[lane].handles[file].expect("opened first");
        // Others may get it before the answer comes.
        self.lanes[lane].held.retain(|(of, _)| *of != file);
        self.call(world, lane, FsOp::SetLock { handle, lock, wait: false }, Call::Unlock(file));
    }
}

impl User for Entangled {
    fn has(&self, session: usize) -> bool {
        self.lanes.iter().any(|lane| lane.session == session)
    }

    fn answered(&mut self, world: &mut World, finished: Finished) {
        let awaits = |lane: &Lane| {
            let unique = lane.awaited.map(|(unique, _)| unique);
            lane.session == finished.session && unique == Some(finished.unique)
        };
        let Some(lane) = self.lanes.iter().position(awaits) else {
            return world.checker.violation(format!("{} answers what nobody asked", self.name));
        };
        let (_, call) = self.lanes[lane].awaited.take().expect("just seen");
        self.answers += 1;
        if let Err(why) = self.take(lane, call, finished.result) {
            return world.checker.violation(format!("{} lane {lane}: {why}", self.name));
        }
        if self.ids.len() < FILES {
            return self.create(world);
        }
        self.next(world, lane);
        if matches!(call, Call::Create(_)) {
            (1..self.lanes.len()).for_each(|lane| self.next(world, lane));
        }
        self.look();
    }

    fn close(&mut self) {
        self.closing = true;
    }

    fn is_idle(&self) -> bool {
        self.lanes.iter().all(|lane| lane.awaited.is_none() && lane.held.is_empty())
    }
}
