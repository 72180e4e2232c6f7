//! Several sessions append to one file at the same time and read it: every append is there once and whole, none lies over
//! another or leaves a gap, their order keeps to the times between which they were under way, and what was once seen at
//! a place stays there.

use super::User;
use super::history::Span;
use super::pattern::{Marks, PIECE_MIN};
use super::pieces::{Pieces, ToEnd};
use crate::model::Caller;
use crate::workload::PRIVATE;
use crate::world::{Finished, World};
use onpath_session::fs::{FsOp, FsReply, FsResult, Handle, OpenMode};
use onpath_wire::ids::InodeId;
use onpath_wire::name::Name;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Longest piece appended, bytes.
const PIECE_BYTES_MAX: usize = 5_000;
/// Bytes asked for by a read.
const READ_BYTES: u32 = 60_000;
/// Calls that a session has under way.
const LANES: usize = 2;

const OPEN: OpenMode = OpenMode { append: true, ..OpenMode::READ_WRITE };

#[derive(Debug)]
enum Call {
    Open,
    Append(u32),
    Read(u64),
}

struct Lane {
    session: usize,
    handle: Option<Handle>,
    awaited: Option<(u64, u64, Call)>,
}

/// The users of one file.
pub struct Appenders {
    rng: ChaCha8Rng,
    name: Name,
    id: InodeId,
    lanes: Vec<Lane>,
    marks: Marks,
    pieces: Pieces,
    clock: u64,
    closing: bool,
    /// The last read, at the end, found nothing more.
    complete: bool,
}

impl Appenders {
    /// Begins in so many new sessions.
    pub fn begin(world: &mut World, seed: u64, sessions: usize) -> Appenders {
        let sessions: Vec<_> = (0..sessions).map(|_| world.add_session(&[Caller::default()])).collect();
        let lanes = sessions.iter().flat_map(|session| std::iter::repeat_n(*session, LANES));
        let lanes: Vec<_> = lanes.map(|session| Lane { session, handle: None, awaited: None }).collect();
        let name = Name::new(format!("{PRIVATE}s-append-{}", lanes[0].session).as_bytes()).expect("a short name");
        let mut appenders = Appenders {
            rng: ChaCha8Rng::seed_from_u64(seed),
            name,
            id: InodeId::NONE,
            lanes,
            marks: Marks::new(seed),
            pieces: Pieces::default(),
            clock: 0,
            closing: false,
            complete: false,
        };
        let (parent, name) = (InodeId::ROOT, appenders.name.clone());
        let create = FsOp::Create { parent, name, mode: 0o644, umask: 0, open: OPEN };
        appenders.call(world, 0, create, Call::Open);
        appenders
    }

    fn call(&mut self, world: &mut World, lane: usize, op: FsOp, call: Call) {
        self.clock += 1;
        let unique = world.system_call(self.lanes[lane].session, 0, op);
        self.lanes[lane].awaited = Some((unique, self.clock, call));
    }

    fn take(&mut self, lane: usize, asked: u64, call: Call, result: FsResult) -> Result<(), String> {
        let span = Span { asked, answered: self.clock };
        match (call, result) {
            (Call::Open, Ok(FsReply::Created { attr, opened, fresh: true })) => {
                self.id = attr.id;
                self.lanes[lane].handle = Some(opened.handle);
            }
            (Call::Open, Ok(FsReply::Opened(opened))) => self.lanes[lane].handle = Some(opened.handle),
            (Call::Append(writer), Ok(FsReply::Written(n)))
                if u64::from(n) == self.pieces.lengths[writer as usize - 1] =>
            {
                self.pieces.spans.insert(writer, span);
                self.complete = false; // a read at the end may have been before this
            }
            (Call::Read(offset), Ok(FsReply::Data(parts))) => return self.seen(offset, &parts.concat(), span),
            (call, result) => return Err(format!("{call:?} is answered {result:?}")),
        }
        Ok(())
    }

    fn seen(&mut self, offset: u64, bytes: &[u8], span: Span) -> Result<(), String> {
        let to_end = bytes.len() < READ_BYTES as usize;
        self.pieces.read(&self.marks, offset, bytes, to_end)?;
        if to_end {
            self.pieces.to_end.push(ToEnd { span, end: offset + bytes.len() as u64 });
            self.complete = self.closing && bytes.is_empty() && self.pieces.all_before(span);
        }
        Ok(())
    }

    fn next(&mut self, world: &mut World, lane: usize) {
        let Some(handle) = self.lanes[lane].handle else {
            return self.call(world, lane, FsOp::Open { id: self.id, mode: OPEN }, Call::Open);
        };
        if self.rng.random_bool(0.4) {
            return self.read(world, lane, handle);
        }
        let writer = self.marks.writer();
        let length = self.rng.random_range(PIECE_MIN..=PIECE_BYTES_MAX);
        self.pieces.lengths.push(length as u64);
        let data = self.marks.piece(writer, length);
        // The kernel's idea of the end is a guess.
        let op = FsOp::Write {
            handle,
            offset: self.rng.random_range(0..10_000),
            data,
            append: true,
            kill_suidgid: false,
            page: false,
        };
        self.call(world, lane, op, Call::Append(writer));
    }

    /// Reads from the end of what is known, or at the beginning of some piece.
    fn read(&mut self, world: &mut World, lane: usize, handle: Handle) {
        let end = self.pieces.seen.last_key_value().map_or(0, |(offset, (length, _))| offset + length);
        let from = self.rng.random_range(0..=end);
        let offset = match self.rng.random_bool(0.5) || self.closing {
            true => end,
            false => self.pieces.seen.range(from..).next().map_or(end, |(offset, _)| *offset),
        };
        self.call(world, lane, FsOp::Read { handle, offset, bytes: READ_BYTES, page: false }, Call::Read(offset));
    }
}

impl User for Appenders {
    fn has(&self, session: usize) -> bool {
        self.lanes.iter().any(|lane| lane.session == session)
    }

    fn answered(&mut self, world: &mut World, finished: Finished) {
        self.clock += 1;
        let awaits = |lane: &Lane| {
            let unique = lane.awaited.as_ref().map(|(unique, ..)| *unique);
            lane.session == finished.session && unique == Some(finished.unique)
        };
        let Some(lane) = self.lanes.iter().position(awaits) else {
            return world.checker.violation(format!("{:?} answers what nobody asked", self.name));
        };
        let (_, asked, call) = self.lanes[lane].awaited.take().expect("just seen");
        let first = self.id == InodeId::NONE;
        if let Err(why) = self.take(lane, asked, call, finished.result) {
            return world.checker.violation(format!("{:?}: {why}", self.name));
        }
        if !self.closing {
            self.next(world, lane);
            if first {
                (1..self.lanes.len()).for_each(|lane| self.next(world, lane));
            }
        } else if !self.complete && self.lanes.iter().all(|lane| lane.awaited.is_none()) {
            // Nobody appends any more: one reads the rest.
            if let Some(handle) = self.lanes[lane].handle {
                self.read(world, lane, handle);
            }
        }
    }

    fn close(&mut self) {
        self.closing = true;
    }

    fn is_idle(&self) -> bool {
        self.lanes.iter().all(|lane| lane.awaited.is_none())
    }

    fn judge(&self) -> Vec<String> {
        self.pieces.judge().err().map(|why| format!("{:?}: {why}", self.name)).into_iter().collect()
    }
}
