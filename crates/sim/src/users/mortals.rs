//! Sessions that die, one after another, in the middle of what they do: with files open that have no name any more, with
//! locks, and with appends under way. One session survives: in the end it gets every lock, finds every append that was
//! acknowledged and none in parts, and nothing is left of the dead (the audit counts inodes and sessions).

use super::User;
use super::pattern::{Marks, PIECE_MIN};
use crate::check::Excuse;
use crate::model::Caller;
use crate::workload::PRIVATE;
use crate::world::{Finished, World};
use onpath_session::fs::{FsOp, FsReply, FsResult, Handle, OpenMode};
use onpath_wire::ids::InodeId;
use onpath_wire::name::Name;
use onpath_wire::request::{FileLock, LockKind};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;

/// Answers after which a session dies.
const LIFE_ANSWERS: std::ops::Range<u32> = 3..60;
/// Longest append, bytes.
const PIECE_BYTES_MAX: usize = 3_000;
/// Bytes of each read of the survivor at the end.
const READ_BYTES: u32 = 60_000;

const OPEN: OpenMode = OpenMode { append: true, ..OpenMode::READ_WRITE };

/// What a thread of a mortal session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Files that lose their names while they are open.
    Nameless,
    Locks,
    Appends,
}

const WORK: [Work; 3] = [Work::Nameless, Work::Locks, Work::Appends];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Open,
    Unlink,
    Link,
    Write,
    Lock,
    Unlock,
    Append(u32),
    /// Of the survivor.
    Create,
    Sync,
    Try,
    AllLocks,
    Read(u64),
}

/// A thread: of the mortal, or, without work, of the survivor.
struct Lane {
    session: usize,
    work: Option<Work>,
    handle: Option<Handle>,
    name: Option<Name>,
    /// Of a file that never had a name.
    tmpfile: Option<InodeId>,
    locked: bool,
    awaited: Option<(u64, Call)>,
}

/// The sessions.
pub struct Mortals {
    rng: ChaCha8Rng,
    name: Name,
    id: InodeId,
    survivor: Lane,
    mortal: Vec<Lane>,
    /// Sessions still to be born.
    unborn: usize,
    answers_left: u32,
    names: u32,
    marks: Marks,
    lengths: Vec<usize>,
    /// Appends that were acknowledged; none if appends are not judged.
    acknowledged: Option<BTreeSet<u32>>,
    settled: bool,
    closing: bool,
    done: bool,
}

fn lane(session: usize, work: Option<Work>) -> Lane {
    Lane { session, work, handle: None, name: None, tmpfile: None, locked: false, awaited: None }
}

impl Mortals {
    /// Begins with a survivor; so many sessions come and die. `appends`: whether they are judged.
    pub fn begin(world: &mut World, seed: u64, deaths: usize, appends: bool) -> Mortals {
        let session = world.add_session(&[Caller::default()]);
        let name = Name::new(format!("{PRIVATE}s-mortal-{session}").as_bytes()).expect("a short name");
        let mut mortals = Mortals {
            rng: ChaCha8Rng::seed_from_u64(seed),
            name: name.clone(),
            id: InodeId::NONE,
            survivor: lane(session, None),
            mortal: vec![],
            unborn: deaths,
            answers_left: 0,
            names: 0,
            marks: Marks::new(seed),
            lengths: vec![],
            acknowledged: appends.then(BTreeSet::new),
            settled: false,
            closing: false,
            done: false,
        };
        let create = FsOp::Create { parent: InodeId::ROOT, name, mode: 0o644, umask: 0, open: OPEN };
        mortals.call(world, None, create, Call::Create);
        mortals
    }

    fn lane(&mut self, index: Option<usize>) -> &mut Lane {
        match index {
            Some(index) => &mut self.mortal[index],
            None => &mut self.survivor,
        }
    }

    fn call(&mut self, world: &mut World, index: Option<usize>, op: FsOp, call: Call) {
        let unique = world.system_call(self.lane(index).session, 0, op);
        self.lane(index).awaited = Some((unique, call));
    }

    /// The next session begins, if there is one left.
    fn birth(&mut self, world: &mut World) {
        self.mortal.clear();
        if self.unborn == 0 || self.closing {
            return;
        }
        self.unborn -= 1;
        self.answers_left = self.rng.random_range(LIFE_ANSWERS);
        let session = world.add_session(&[Caller::default()]);
        self.mortal = WORK.into_iter().map(|work| lane(session, Some(work))).collect();
        (0..self.mortal.len()).for_each(|index| self.mortal_goes_on(world, index));
    }

    fn mortal_goes_on(&mut self, world: &mut World, index: usize) {
        let lane = &self.mortal[index];
        match (lane.work.expect("a mortal works"), lane.handle) {
            (Work::Nameless, None) if self.rng.random_bool(0.5) => {
                let tmpfile = FsOp::TmpFile { parent: InodeId::ROOT, mode: 0o600, umask: 0, open: OPEN };
                self.call(world, Some(index), tmpfile, Call::Open);
            }
            (Work::Nameless, None) => {
                let name = self.new_name(index);
                self.mortal[index].name = Some(name.clone());
                let create = FsOp::Create { parent: InodeId::ROOT, name, mode: 0o600, umask: 0, open: OPEN };
                self.call(world, Some(index), create, Call::Open);
            }
            (Work::Nameless, Some(handle)) => match self.mortal[index].name.take() {
                Some(name) => {
                    let unlink = FsOp::Unlink { parent: InodeId::ROOT, name };
                    self.call(world, Some(index), unlink, Call::Unlink);
                }
                None if self.mortal[index].tmpfile.is_some() && self.rng.random_bool(0.2) => {
                    let id = self.mortal[index].tmpfile.take().expect("just seen");
                    let link = FsOp::Link { id, parent: InodeId::ROOT, name: self.new_name(index) };
                    self.call(world, Some(index), link, Call::Link);
                }
                None => {
                    // A few writes, then the next file; this one stays open until the session dies.
                    self.mortal[index].handle = Some(handle).filter(|_| self.rng.random_bool(0.7));
                    let data = vec![7; self.rng.random_range(1..9_000)].into();
                    let write = FsOp::Write { handle, offset: 0, data, append: true, kill_suidgid: false, page: false };
                    self.call(world, Some(index), write, Call::Write);
                }
            },
            (_, None) => self.call(world, Some(index), FsOp::Open { id: self.id, mode: OPEN }, Call::Open),
            (Work::Locks, Some(handle)) => {
                let locked = lane.locked;
                let (kind, call) =
                    if locked { (LockKind::Unlock, Call::Unlock) } else { (LockKind::Write, Call::Lock) };
                let lock = FileLock { owner: 1, pid: 1, flock: false, kind, ..self.place() };
                self.call(world, Some(index), FsOp::SetLock { handle, lock, wait: true }, call);
            }
            (Work::Appends, Some(handle)) => self.append(world, Some(index), handle),
        }
    }

    fn new_name(&mut self, index: usize) -> Name {
        self.names += 1;
        let name = format!("{PRIVATE}s-nameless-{}-{}", self.mortal[index].session, self.names);
        Name::new(name.as_bytes()).expect("a short name")
    }

    /// Each mortal locks a place of its own.
    fn place(&self) -> FileLock {
        let start = self.unborn as u64 * 10;
        FileLock { owner: 2, pid: 2, flock: false, kind: LockKind::Write, start, end: start + 9 }
    }

    fn append(&mut self, world: &mut World, index: Option<usize>, handle: Handle) {
        let writer = self.marks.writer();
        let length = self.rng.random_range(PIECE_MIN..=PIECE_BYTES_MAX);
        self.lengths.push(length);
        let data = self.marks.piece(writer, length);
        let write = FsOp::Write { handle, offset: 0, data, append: true, kill_suidgid: false, page: false };
        self.call(world, index, write, Call::Append(writer));
    }

    fn survivor_goes_on(&mut self, world: &mut World, before: Call) {
        let handle = self.survivor.handle.expect("created first");
        match (before, self.closing) {
            (Call::Create, _) => self.call(world, None, FsOp::Fsync { handle }, Call::Sync),
            (Call::Try, _) if self.survivor.locked => {
                let lock = FileLock { kind: LockKind::Unlock, start: 0, end: u64::MAX, ..self.place() };
                self.call(world, None, FsOp::SetLock { handle, lock, wait: false }, Call::Unlock);
            }
            (Call::AllLocks, _) => self.read(world, 0),
            (Call::Read(_), _) => self.done = true,
            (_, true) => {
                let lock = FileLock { start: 0, end: u64::MAX, ..self.place() };
                self.call(world, None, FsOp::SetLock { handle, lock, wait: true }, Call::AllLocks);
            }
            _ if self.rng.random_bool(0.5) => self.append(world, None, handle),
            _ => {
                let lock = self.place();
                self.call(world, None, FsOp::SetLock { handle, lock, wait: false }, Call::Try);
            }
        }
    }

    fn read(&mut self, world: &mut World, offset: u64) {
        let handle = self.survivor.handle.expect("created first");
        self.call(world, None, FsOp::Read { handle, offset, bytes: READ_BYTES, page: false }, Call::Read(offset));
    }

    /// What the survivor is answered is right.
    fn survivor_takes(&mut self, world: &mut World, call: Call, result: FsResult) -> Result<(), String> {
        match (call, result) {
            (Call::Create, Ok(FsReply::Created { attr, opened, fresh: true })) => {
                (self.id, self.survivor.handle) = (attr.id, Some(opened.handle));
            }
            (Call::Sync, Ok(FsReply::Done)) => {
                self.settled = true;
                self.birth(world);
            }
            (Call::Try, result) => {
                self.survivor.locked = result.is_ok();
                if !matches!(result, Ok(FsReply::Done) | Err(onpath_wire::Errno::EAGAIN)) {
                    return Err(format!("a lock is answered {result:?}"));
                }
            }
            (Call::Unlock, Ok(FsReply::Done)) => self.survivor.locked = false,
            (Call::AllLocks, Ok(FsReply::Done)) => {}
            (Call::Append(writer), Ok(FsReply::Written(n))) if n as usize == self.lengths[writer as usize - 1] => {
                self.acknowledged.as_mut().map(|all| all.insert(writer));
            }
            (Call::Read(offset), Ok(FsReply::Data(parts))) => {
                let bytes = parts.concat();
                let read = self.see(offset, &bytes)?;
                if bytes.len() == READ_BYTES as usize {
                    self.read(world, offset + read);
                } else if let Some(lost) = self.acknowledged.as_ref().and_then(BTreeSet::first) {
                    return Err(format!("append {lost} is lost"));
                }
            }
            (call, result) => return Err(format!("{call:?} is answered {result:?}")),
        }
        Ok(())
    }

    /// Whole appends, one behind the other; how many bytes of them.
    fn see(&mut self, offset: u64, bytes: &[u8]) -> Result<u64, String> {
        let mut at = 0;
        let Some(acknowledged) = &mut self.acknowledged else { return Ok(bytes.len() as u64) };
        while bytes.len() - at >= PIECE_BYTES_MAX || (bytes.len() < READ_BYTES as usize && at < bytes.len()) {
            let writer =
                self.marks.whose(&bytes[at..]).ok_or_else(|| format!("at {at} of {offset} no append begins"))?;
            let piece =
                bytes.get(at..at + self.lengths[writer as usize - 1]).ok_or("the file ends within an append")?;
            self.marks.read(piece)?;
            acknowledged.remove(&writer);
            at += piece.len();
        }
        Ok(at as u64)
    }

    fn mortal_takes(&mut self, world: &mut World, index: usize, call: Call, result: FsResult) {
        let lane = &mut self.mortal[index];
        if result.is_err() {
            world.checker.excuse(Excuse::Mortal);
        }
        match (call, result) {
            (Call::Open, Ok(FsReply::Created { attr, opened, .. })) => {
                lane.handle = Some(opened.handle);
                lane.tmpfile = (attr.nlink == 0).then_some(attr.id);
            }
            (Call::Open, Ok(FsReply::Opened(opened))) => lane.handle = Some(opened.handle),
            (Call::Lock, result) => lane.locked = result.is_ok(),
            (Call::Unlock, _) => lane.locked = false,
            (Call::Append(writer), Ok(FsReply::Written(_))) => {
                self.acknowledged.as_mut().map(|all| all.insert(writer));
            }
            // A power loss may take away what it has made.
            (_, Err(_)) => (lane.handle, lane.name) = (None, None),
            _ => {}
        }
        self.answers_left = self.answers_left.saturating_sub(1);
        if self.answers_left == 0 {
            self.death(world);
            self.birth(world);
        } else {
            self.mortal_goes_on(world, index);
        }
    }

    fn death(&mut self, world: &mut World) {
        if let Some(lane) = self.mortal.first() {
            world.kill_session(lane.session);
        }
        self.mortal.clear();
    }
}

impl User for Mortals {
    fn has(&self, session: usize) -> bool {
        self.survivor.session == session || self.mortal.iter().any(|lane| lane.session == session)
    }

    fn answered(&mut self, world: &mut World, finished: Finished) {
        let asked = |lane: &Lane| lane.awaited.is_some_and(|(unique, _)| unique == finished.unique);
        if self.survivor.session != finished.session {
            let Some(index) = self.mortal.iter().position(asked) else {
                return world.checker.violation(format!("{:?} answers what nobody asked", self.name));
            };
            let (_, call) = self.mortal[index].awaited.take().expect("just seen");
            return self.mortal_takes(world, index, call, finished.result);
        }
        let Some((_, call)) = self.survivor.awaited.take().filter(|(unique, _)| *unique == finished.unique) else {
            return world.checker.violation(format!("{:?} answers what nobody asked", self.name));
        };
        if self.closing {
            self.death(world);
        }
        if let Err(why) = self.survivor_takes(world, call, finished.result) {
            return world.checker.violation(format!("{:?}: {why}", self.name));
        }
        if self.survivor.awaited.is_none() {
            self.survivor_goes_on(world, call);
        }
    }

    fn close(&mut self) {
        self.closing = true;
    }

    fn is_idle(&self) -> bool {
        self.done
    }

    fn is_settled(&self) -> bool {
        self.settled
    }
}
