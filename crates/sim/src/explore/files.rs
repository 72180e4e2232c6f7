//! Calls of real sessions about one file: of a few cells, which are written and cut, and behind them of what is appended. What is
//! written is marked, so that reads can be judged; so are locks, as those who make these calls see them.
//!
//! The file's home is shard 1 and the data node is with shard 0, so everything between them is on the network.

use super::callers::next_finished;
use super::locks::Locks;
use super::times::{Timed, Times};
use crate::model::Caller;
use crate::scenario::Scenario;
use crate::users::history::{History, Span};
use crate::users::pattern::Marks;
use crate::users::pieces::{Pieces, ToEnd};
use crate::world::{Finished, World};
use bytes::Bytes;
use onpath_session::fs::{FsOp, FsReply, FsResult, Handle, OpenMode};
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::limits::SESSION_LEASE_MS;
use onpath_wire::name::Name;
use onpath_wire::request::{LockKind, SetAttr, set};
use std::collections::VecDeque;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const CELLS: usize = 3;
/// Where cells begin, and the end: two in the first block, one that is the second.
const BOUNDS: [u64; CELLS + 1] = [0, 1_000, 4_096, 8_192];
/// Bytes of an append.
const PIECE_BYTES: usize = 1_000;
/// Bytes asked for by a read: more than there are.
const READ_BYTES: u32 = 1 << 16;
/// How the file is opened.
const MODE: OpenMode = OpenMode::READ_WRITE;
/// Virtual time in which a session that is not heard of is declared dead, ns.
const SILENCE_NS: u64 = 3 * SESSION_LEASE_MS * 1_000_000 / 2;

/// A call of a session about the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// These cells are written: from the first up to, and without, the second.
    Write(usize, usize),
    /// The file ends where this cell begins.
    Truncate(usize),
    /// Everything is read.
    Read,
    /// The file is synced.
    Sync,
    /// It is opened: so it is not from the beginning, by this session.
    Open,
    /// Its attributes are asked for, perhaps by who does not have it open.
    Stat,
    /// It is looked up, and its attributes shown.
    Look,
    /// Its modification time is set, perhaps by who does not have it open.
    SetTime(i64),
    /// A piece is written at the end (O_APPEND).
    Append,
    /// The file's name is removed; it stays open.
    Unlink,
    /// The file is locked, as soon as nobody else has it locked.
    Lock,
    /// The file is locked if nobody else has it locked.
    TryLock,
    /// The lock is given back.
    Unlock,
    /// The caller of the lock that was asked for gets a signal, perhaps before the answer comes.
    Cancel,
    /// The session dies.
    Die,
    /// For longer than a lease nobody hears that the session lives.
    Silence,
    /// The session dies, perhaps before the call before this one is answered.
    DieSoon,
}

impl Call {
    /// Whether this is done without waiting for the answer of the call before.
    fn is_soon(self) -> bool {
        matches!(self, Call::Cancel | Call::DieSoon)
    }

    /// Whether somebody is shown times.
    fn is_timed(self) -> bool {
        matches!(self, Call::Stat | Call::Look | Call::SetTime(_))
    }

    /// Whether this is about what is open.
    fn is_of_open(self) -> bool {
        !self.is_timed() && !matches!(self, Call::Open | Call::Unlink)
    }
}

/// Whether a session has the file open from the beginning: it does something with it, and does not open it later.
fn is_open(program: &[Call]) -> bool {
    program.iter().any(|call| call.is_of_open()) && !program.contains(&Call::Open)
}

/// What each session calls, one thing after the other.
pub(super) type Calls = &'static [&'static [Call]];

/// A session, which may have the file open.
struct Holder {
    session: usize,
    handle: Option<Handle>,
    dead: bool,
    /// It may be declared dead: then its calls fail.
    silent: bool,
    calls: VecDeque<Call>,
    /// The call under way: its number, when it was made, and whose mark it writes.
    awaited: Option<(u64, u64, Call, u32)>,
}

impl Holder {
    /// Closes the file, as long as the session lives.
    fn close(self, world: &mut World) -> Result<(), String> {
        if self.dead || world.is_dead(self.session) {
            return Ok(());
        }
        let Some(handle) = self.handle else { return Ok(()) };
        let release = FsOp::Release { handle, flock_owner: Some(Locks::OWNER) };
        let unique = world.system_call(self.session, 0, release);
        let released =
            next_finished(world).filter(|finished| finished.unique == unique).map(|finished| finished.result);
        match released {
            Some(Ok(FsReply::Done)) => Ok(()),
            Some(Err(_)) if self.silent => Ok(()),
            other => Err(format!("close of session {} is answered {other:?}", self.session)),
        }
    }
}

/// The sessions and what they have seen.
pub(super) struct Files {
    id: InodeId,
    name: Name,
    holders: Vec<Holder>,
    marks: Marks,
    histories: [History; CELLS],
    /// What was appended: places count from the end of the cells.
    pieces: Pieces,
    locks: Locks,
    /// If anybody asks for times.
    times: Option<Times>,
    truncated: bool,
    clock: u64,
    digest: u64,
}

fn bytes(cells: Range<usize>) -> u64 {
    BOUNDS[cells.end] - BOUNDS[cells.start]
}

impl Files {
    /// Makes a file, opens it in the sessions that have it open, one for each program, and writes to all of it.
    pub(super) fn open(sc: &mut Scenario, calls: Calls) -> Files {
        let name = sc.name_at(InodeId::ROOT, 1, "file");
        let (mut id, mut holders, mut times) = (InodeId::NONE, vec![], None);
        let asked = calls.iter().any(|program| program.iter().any(|call| call.is_timed()));
        for program in calls {
            let session = sc.world.add_session(&[Caller::default()]);
            let calls = program.iter().copied().collect();
            let op = match id {
                InodeId::NONE => {
                    let (parent, name) = (InodeId::ROOT, name.clone());
                    FsOp::Create { parent, name, mode: 0o644, umask: 0, open: MODE }
                }
                id if is_open(program) => FsOp::Open { id, mode: MODE },
                _ => {
                    holders.push(Holder { session, handle: None, dead: false, silent: false, calls, awaited: None });
                    continue;
                }
            };
            let handle = match answer(&mut sc.world, session, op) {
                Ok(FsReply::Created { attr, opened, .. }) => {
                    id = attr.id;
                    times = asked.then(|| Times::new((&attr).into()));
                    opened.handle
                }
                Ok(FsReply::Opened(opened)) => opened.handle,
                other => panic!("open is answered {other:?}"),
            };
            let handle = Some(handle);
            holders.push(Holder { session, handle, dead: false, silent: false, calls, awaited: None });
        }
        let truncated = calls.iter().any(|program| program.iter().any(|call| matches!(call, Call::Truncate(_))));
        let histories = [(); CELLS].map(|()| History::default());
        let (pieces, locks) = (Pieces::default(), Locks::new(holders.len()));
        let marks = Marks::new(1);
        let mut files =
            Files { id, name, holders, marks, histories, pieces, locks, times, truncated, clock: 0, digest: 0 };
        // The data node is lent the file after the second write; with the first one it has asked the home which part that gave last.
        for _ in 0..if sc.world.config.writes.lends() { 3 } else { 1 } {
            files.call(&mut sc.world, 0, Call::Write(0, CELLS));
            files.wait(&mut sc.world, false);
        }
        files
    }

    /// The sessions that have something to call.
    pub(super) fn sessions(&self) -> impl Iterator<Item = usize> + '_ {
        self.holders.iter().filter(|holder| !holder.calls.is_empty()).map(|holder| holder.session)
    }

    /// Whether every call is made and answered.
    pub(super) fn is_answered(&self) -> bool {
        self.holders.iter().all(|holder| holder.calls.is_empty() && holder.awaited.is_none())
    }

    /// A hash of which calls were made and answered, in which order.
    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    fn ticks(&mut self, session: usize) {
        self.clock += 1;
        self.digest = xxh3_64_with_seed(&session.to_le_bytes(), self.digest);
    }

    /// A session makes its next call; whether it makes another one soon.
    pub(super) fn call_next(&mut self, world: &mut World, session: usize) -> bool {
        let index = self.holders.iter().position(|holder| holder.session == session).expect("a session of ours");
        let Some(call) = self.holders[index].calls.pop_front() else { return false };
        if world.is_dead(session) {
            self.dies(index);
            return false;
        }
        self.call(world, index, call);
        self.is_soon(index) || call == Call::Silence && !self.holders[index].calls.is_empty()
    }

    fn is_soon(&self, index: usize) -> bool {
        self.holders[index].calls.front().is_some_and(|call| call.is_soon())
    }

    /// A session makes the calls that it can make.
    fn call_on(&mut self, world: &mut World, index: usize) {
        let waits = |files: &Files| files.holders[index].awaited.is_some() && !files.is_soon(index);
        while !waits(self) && !self.holders[index].calls.is_empty() {
            self.call_next(world, self.holders[index].session);
        }
    }

    /// A caller gets a signal, or its session dies.
    fn interrupt(&mut self, world: &mut World, index: usize, call: Call) {
        let holder = &mut self.holders[index];
        match call {
            Call::Cancel => {
                if let Some((unique, .., Call::Lock, _)) = holder.awaited {
                    self.locks.cancelled(index);
                    world.system_call(holder.session, 0, FsOp::Interrupt { unique });
                }
            }
            Call::Silence => {
                holder.silent = true;
                self.locks.dies(index);
                world.silence_session(holder.session, SILENCE_NS);
            }
            _ => {
                world.kill_session(holder.session);
                self.dies(index);
            }
        }
    }

    /// A session is dead, and knows it.
    fn dies(&mut self, index: usize) {
        let holder = &mut self.holders[index];
        (holder.dead, holder.awaited) = (true, None);
        holder.calls.clear();
        self.locks.dies(index);
    }

    /// The bytes of a new writer.
    fn written(&mut self, len: usize) -> (u32, Bytes) {
        let mark = self.marks.writer();
        self.pieces.lengths.push(len as u64);
        (mark, self.marks.piece(mark, len))
    }

    fn call(&mut self, world: &mut World, index: usize, call: Call) {
        let Holder { session, handle: opened, .. } = self.holders[index];
        let handle = || opened.expect("it has the file open");
        self.ticks(session);
        let mut mark = 0;
        let op = match call {
            Call::Write(from, to) => {
                let data;
                (mark, data) = self.written(bytes(from..to) as usize);
                FsOp::Write {
                    handle: handle(),
                    offset: BOUNDS[from],
                    data,
                    append: false,
                    kill_suidgid: false,
                    page: false,
                }
            }
            Call::Append => {
                let data;
                (mark, data) = self.written(PIECE_BYTES);
                FsOp::Write { handle: handle(), offset: 0, data, append: true, kill_suidgid: false, page: false }
            }
            Call::Unlink => FsOp::Unlink { parent: InodeId::ROOT, name: self.name.clone() },
            Call::Lock | Call::TryLock => {
                self.locks.asked(index);
                FsOp::SetLock { handle: handle(), lock: Locks::whole(LockKind::Write), wait: call == Call::Lock }
            }
            Call::Unlock => {
                self.locks.gives_back(index);
                FsOp::SetLock { handle: handle(), lock: Locks::whole(LockKind::Unlock), wait: false }
            }
            Call::Cancel | Call::Silence | Call::Die | Call::DieSoon => return self.interrupt(world, index, call),
            Call::Truncate(from) => {
                let valid = set::SIZE | set::OPEN_FOR_WRITE;
                let set = SetAttr { valid, size: BOUNDS[from], ..SetAttr::default() };
                FsOp::SetAttr { id: self.id, set, handle: opened }
            }
            Call::Read => FsOp::Read { handle: handle(), offset: 0, bytes: READ_BYTES, page: false },
            Call::Sync => FsOp::Fsync { handle: handle() },
            Call::Open => FsOp::Open { id: self.id, mode: MODE },
            Call::Stat => FsOp::GetAttr { id: self.id, handle: opened },
            Call::Look => FsOp::Lookup { parent: InodeId::ROOT, name: self.name.clone() },
            Call::SetTime(mtime) => {
                let set = SetAttr { valid: set::MTIME, mtime, ..SetAttr::default() };
                FsOp::SetAttr { id: self.id, set, handle: opened }
            }
        };
        let unique = world.system_call(session, 0, op);
        self.holders[index].awaited = Some((unique, self.clock, call, mark));
    }

    /// A call is answered; the session that made it, if it has another one to make.
    pub(super) fn answered(&mut self, world: &mut World, finished: Finished) -> Option<usize> {
        let Finished { session, unique, result } = finished;
        self.ticks(session);
        let index = self.holders.iter().position(|holder| holder.session == session)?;
        let holder = &mut self.holders[index];
        let Some((_, asked, call, mark)) = holder.awaited.take_if(|(awaited, ..)| *awaited == unique) else {
            world.checker.violation(format!("session {session} answers what nobody asked"));
            return None;
        };
        if holder.silent && result.is_err() {
            self.dies(index);
            return None;
        }
        // What is done soon is on its way already.
        let goes_on = holder.calls.iter().any(|call| !call.is_soon());
        if let Err(why) = self.take(index, call, mark, Span { asked, answered: self.clock }, result) {
            world.checker.violation(why);
        }
        goes_on.then_some(session)
    }

    fn take(&mut self, index: usize, call: Call, mark: u32, span: Span, result: FsResult) -> Result<(), String> {
        match (call, result) {
            (Call::Write(from, to), Ok(FsReply::Written(n))) if u64::from(n) == bytes(from..to) => {
                self.histories[from..to].iter_mut().for_each(|history| history.write(mark, span));
                self.timed(span, Timed::Written);
            }
            (Call::SetTime(value), Ok(FsReply::Attr { attr, .. })) => {
                self.timed(span, Timed::Set(value, (&attr).into()));
            }
            (Call::Stat, Ok(FsReply::Attr { attr, .. })) | (Call::Look, Ok(FsReply::Entry(attr))) => {
                self.timed(span, Timed::Looked((&attr).into()));
            }
            (Call::Open, Ok(FsReply::Opened(opened))) => self.holders[index].handle = Some(opened.handle),
            (Call::Truncate(from), Ok(FsReply::Attr { .. })) => {
                self.histories[from..].iter_mut().for_each(|history| history.clear(span));
            }
            (Call::Read, Ok(FsReply::Data(parts))) => return self.seen(&parts.concat(), span),
            (Call::Append, Ok(FsReply::Written(n))) if n as usize == PIECE_BYTES => {
                self.pieces.spans.insert(mark, span);
            }
            (Call::Lock | Call::TryLock, Ok(FsReply::Done)) => return self.locks.granted(index),
            (Call::Lock, Err(Errno::EINTR)) => return self.locks.interrupted(index),
            (Call::TryLock, Err(Errno::EAGAIN)) => return self.locks.refused(index),
            (Call::Unlock, Ok(FsReply::Done)) => self.locks.gave_back(index),
            (Call::Sync | Call::Unlink, Ok(FsReply::Done)) => {}
            (call, result) => return Err(format!("{call:?} is answered {result:?}")),
        }
        Ok(())
    }

    fn timed(&mut self, span: Span, timed: Timed) {
        self.times.iter_mut().for_each(|times| times.answered(span, timed));
    }

    /// Takes what a read of everything showed.
    fn seen(&mut self, read: &[u8], span: Span) -> Result<(), String> {
        for (cell, history) in self.histories.iter_mut().enumerate() {
            let (start, end) = (BOUNDS[cell] as usize, BOUNDS[cell + 1] as usize);
            let value = match read.len() {
                len if len <= start => None,
                len if len < end => return Err(format!("cell {cell} ends within, after {} bytes", len - start)),
                _ => self.marks.read(&read[start..end]).map_err(|why| format!("cell {cell} shows {why}"))?,
            };
            history.read(value, span);
        }
        let appended = read.get(BOUNDS[CELLS] as usize..).unwrap_or_default();
        self.pieces.to_end.push(ToEnd { span, end: appended.len() as u64 });
        self.pieces.read(&self.marks, 0, appended, true)
    }

    /// Everything is called and answered in peace; what is wrong with the answers.
    pub(super) fn end(mut self, world: &mut World) -> Vec<String> {
        (0..self.holders.len()).for_each(|index| self.call_on(world, index));
        self.outlast_silence(world);
        self.wait(world, true);
        for index in 0..self.holders.len() {
            let Holder { session, handle, dead, .. } = self.holders[index];
            if dead || world.is_dead(session) {
                continue;
            }
            let looks = self.times.is_some().then_some(Call::Stat);
            for call in handle.map(|_| Call::Read).into_iter().chain(looks) {
                self.call(world, index, call);
                self.wait(world, true);
            }
        }
        let judged = self.histories.iter().enumerate();
        let mut wrong: Vec<_> = judged
            .filter_map(|(cell, h)| h.judge(self.truncated).err().map(|why| format!("cell {cell}: {why}")))
            .collect();
        wrong.extend(self.pieces.judge().err());
        wrong.extend(self.times.and_then(|times| times.judge().err()));
        wrong.extend(self.holders.into_iter().filter_map(|holder| holder.close(world).err()));
        wrong
    }

    /// Waits until those who are not heard of know that they are dead. Who was heard of in time, since the coordinator had started again,
    /// gives its lock back.
    fn outlast_silence(&mut self, world: &mut World) {
        let until_ns = world.now_ns() + 2 * SILENCE_NS;
        let silent: Vec<_> = (0..self.holders.len()).filter(|index| self.holders[*index].silent).collect();
        for index in silent {
            while !world.is_dead(self.holders[index].session) && world.now_ns() < until_ns {
                world.step(until_ns);
                if let Some(finished) = world.finished() {
                    self.finishes(world, finished);
                }
            }
            self.holders[index].calls.push_back(Call::Unlock);
            self.call_on(world, index);
        }
    }

    /// A call is answered in peace; its session makes its next ones.
    fn finishes(&mut self, world: &mut World, finished: Finished) {
        let session = self.answered(world, finished);
        if let Some(index) = self.holders.iter().position(|holder| Some(holder.session) == session) {
            self.call_on(world, index);
        }
    }

    /// Waits until nothing is under way, in peace; sessions make their next calls if they go on.
    fn wait(&mut self, world: &mut World, goes_on: bool) {
        while self.holders.iter().any(|holder| holder.awaited.is_some()) {
            let Some(finished) = next_finished(world) else {
                return world.checker.violation("a call is not answered in peace".into());
            };
            if goes_on {
                self.finishes(world, finished);
            } else {
                self.answered(world, finished);
            }
        }
    }
}

/// A call in a calm world.
fn answer(world: &mut World, session: usize, op: FsOp) -> FsResult {
    let unique = world.system_call(session, 0, op);
    let finished = next_finished(world).expect("an answer comes");
    assert_eq!(finished.unique, unique, "one call at a time");
    finished.result
}
