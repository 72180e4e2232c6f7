//! Calls of real sessions about one file of a few cells: what is written is marked, so that reads can be judged.
//!
//! The file's home is shard 1 and the data node is with shard 0, so everything between them is on the network.

use crate::model::Caller;
use crate::scenario::Scenario;
use crate::users::history::{History, Span};
use crate::users::pattern::Marks;
use crate::world::{Finished, World};
use onpath_session::fs::{FsOp, FsReply, FsResult, Handle, OpenMode};
use onpath_wire::ids::InodeId;
use onpath_wire::request::{SetAttr, set};
use std::collections::VecDeque;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const CELLS: usize = 3;
/// Where cells begin, and the end: two in the first block, one that is the second.
const BOUNDS: [u64; CELLS + 1] = [0, 1_000, 4_096, 8_192];
/// Virtual time in which a call is answered when nothing goes wrong, ns.
const ANSWERED_NS: u64 = 60_000_000_000;

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
}

/// What each session calls, one thing after the other.
pub(super) type Calls = &'static [&'static [Call]];

/// A session with the file open.
struct Holder {
    session: usize,
    handle: Handle,
    calls: VecDeque<Call>,
    /// The call under way: its number, when it was made, and whose mark it writes.
    awaited: Option<(u64, u64, Call, u32)>,
}

/// The sessions and what they have seen.
pub(super) struct Files {
    id: InodeId,
    holders: Vec<Holder>,
    marks: Marks,
    histories: [History; CELLS],
    truncated: bool,
    clock: u64,
    digest: u64,
}

fn bytes(cells: Range<usize>) -> u64 {
    BOUNDS[cells.end] - BOUNDS[cells.start]
}

impl Files {
    /// Opens a file in as many sessions as there are programs, and writes to all of it.
    pub(super) fn open(sc: &mut Scenario, calls: Calls) -> Files {
        let name = sc.name_at(InodeId::ROOT, 1, "file");
        let (mut id, mut holders) = (InodeId::NONE, vec![]);
        let mode = OpenMode { read: true, write: true, ..OpenMode::default() };
        for program in calls {
            let session = sc.world.add_session(&[Caller::default()]);
            let op = match id {
                InodeId::NONE => {
                    let (parent, name) = (InodeId::ROOT, name.clone());
                    FsOp::Create { parent, name, mode: 0o644, umask: 0, open: mode }
                }
                id => FsOp::Open { id, mode },
            };
            let handle = match answer(&mut sc.world, session, op) {
                Ok(FsReply::Created { attr, opened, .. }) => {
                    id = attr.id;
                    opened.handle
                }
                Ok(FsReply::Opened(opened)) => opened.handle,
                other => panic!("open is answered {other:?}"),
            };
            holders.push(Holder { session, handle, calls: program.iter().copied().collect(), awaited: None });
        }
        let truncated = calls.iter().any(|program| program.iter().any(|call| matches!(call, Call::Truncate(_))));
        let histories = [(); CELLS].map(|()| History::default());
        let mut files = Files { id, holders, marks: Marks::new(1), histories, truncated, clock: 0, digest: 0 };
        files.call(&mut sc.world, 0, Call::Write(0, CELLS));
        files.wait(&mut sc.world, false);
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

    /// A session makes its next call.
    pub(super) fn call_next(&mut self, world: &mut World, session: usize) {
        let index = self.holders.iter().position(|holder| holder.session == session).expect("a session of ours");
        if let Some(call) = self.holders[index].calls.pop_front() {
            self.call(world, index, call);
        }
    }

    fn call(&mut self, world: &mut World, index: usize, call: Call) {
        let Holder { session, handle, .. } = self.holders[index];
        self.ticks(session);
        let mut mark = 0;
        let op = match call {
            Call::Write(from, to) => {
                mark = self.marks.writer();
                let data = self.marks.piece(mark, bytes(from..to) as usize);
                FsOp::Write { handle, offset: BOUNDS[from], data, append: false, kill_suidgid: false }
            }
            Call::Truncate(from) => {
                let valid = set::SIZE | set::OPEN_FOR_WRITE;
                let set = SetAttr { valid, size: BOUNDS[from], ..SetAttr::default() };
                FsOp::SetAttr { id: self.id, set, handle: Some(handle) }
            }
            Call::Read => FsOp::Read { handle, offset: 0, bytes: bytes(0..CELLS) as u32 },
            Call::Sync => FsOp::Fsync { handle },
        };
        let unique = world.system_call(session, 0, op);
        self.holders[index].awaited = Some((unique, self.clock, call, mark));
    }

    /// A call is answered; the session that made it, if it has another one to make.
    pub(super) fn answered(&mut self, world: &mut World, finished: Finished) -> Option<usize> {
        let Finished { session, unique, result } = finished;
        self.ticks(session);
        let holder = self.holders.iter_mut().find(|holder| holder.session == session)?;
        let Some((_, asked, call, mark)) = holder.awaited.take_if(|(awaited, ..)| *awaited == unique) else {
            world.checker.violation(format!("session {session} answers what nobody asked"));
            return None;
        };
        let goes_on = !holder.calls.is_empty();
        if let Err(why) = self.take(call, mark, Span { asked, answered: self.clock }, result) {
            world.checker.violation(why);
        }
        goes_on.then_some(session)
    }

    fn take(&mut self, call: Call, mark: u32, span: Span, result: FsResult) -> Result<(), String> {
        match (call, result) {
            (Call::Write(from, to), Ok(FsReply::Written(n))) if u64::from(n) == bytes(from..to) => {
                self.histories[from..to].iter_mut().for_each(|history| history.write(mark, span));
            }
            (Call::Truncate(from), Ok(FsReply::Attr { .. })) => {
                self.histories[from..].iter_mut().for_each(|history| history.clear(span));
            }
            (Call::Read, Ok(FsReply::Data(parts))) => return self.seen(&parts.concat(), span),
            (Call::Sync, Ok(FsReply::Done)) => {}
            (call, result) => return Err(format!("{call:?} is answered {result:?}")),
        }
        Ok(())
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
        Ok(())
    }

    /// Everything is called and answered in peace; what is wrong with the answers.
    pub(super) fn end(mut self, world: &mut World) -> Vec<String> {
        for index in 0..self.holders.len() {
            if self.holders[index].awaited.is_none() {
                self.call_next(world, self.holders[index].session);
            }
        }
        self.wait(world, true);
        for index in 0..self.holders.len() {
            self.call(world, index, Call::Read);
            self.wait(world, true);
        }
        let judged = self.histories.iter().enumerate();
        judged.filter_map(|(cell, h)| h.judge(self.truncated).err().map(|why| format!("cell {cell}: {why}"))).collect()
    }

    /// Waits until nothing is under way, in peace; sessions make their next calls if they go on.
    fn wait(&mut self, world: &mut World, goes_on: bool) {
        while self.holders.iter().any(|holder| holder.awaited.is_some()) {
            let Some(finished) = next_finished(world) else {
                return world.checker.violation("a call is not answered in peace".into());
            };
            if let Some(session) = self.answered(world, finished).filter(|_| goes_on) {
                self.call_next(world, session);
            }
        }
    }
}

fn next_finished(world: &mut World) -> Option<Finished> {
    let until_ns = world.now_ns() + ANSWERED_NS;
    loop {
        if let Some(finished) = world.finished() {
            return Some(finished);
        }
        if world.step(until_ns).is_none() && world.now_ns() >= until_ns {
            return None;
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
