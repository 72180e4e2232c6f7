//! Several sessions write, truncate, punch and read one file at the same time, each with several calls under way.
//!
//! The file is cut into cells at odd places; a call is about whole cells, and a write fills each with its mark. So every
//! byte read says who wrote it, and the calls about a cell must have an order (see [`History`]). A cell that shows two
//! writers, or ends within, is a torn write.

use super::User;
use super::history::{History, Span};
use super::pattern::{Marks, PIECE_MIN};
use crate::model::Caller;
use crate::workload::PRIVATE;
use crate::world::{Finished, World};
use onpath_session::fs::{FsOp, FsReply, FsResult, Handle, OpenMode};
use onpath_wire::ids::InodeId;
use onpath_wire::limits::{BLOCK_BYTES, CHUNK_BYTES};
use onpath_wire::name::Name;
use onpath_wire::request::{SetAttr, set};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::ops::Range;

/// Cells of the file.
const CELLS: usize = 24;
/// Longest cell, bytes.
const CELL_BYTES_MAX: u64 = 6_000;
/// Most cells of a write.
const WRITE_CELLS_MAX: usize = 5;
/// Modes of fallocate(2) that leave zeros: punch a hole, zero a range with and without a change of the size.
const CLEARING: [u32; 3] = [2 | 1, 16 | 1, 16];
/// Calls that a session has under way.
const LANES: usize = 2;

#[derive(Debug)]
enum Call {
    Open,
    Write { writer: u32, cells: Range<usize> },
    Truncate { from: usize },
    Clear { cells: Range<usize> },
    Read { cells: Range<usize> },
    Sync,
}

/// A thread of a session.
struct Lane {
    session: usize,
    handle: Option<Handle>,
    awaited: Option<(u64, u64, Call)>,
    /// Has read everything once more at the end.
    done: bool,
}

/// The users of one file.
pub struct Writers {
    rng: ChaCha8Rng,
    name: Name,
    id: InodeId,
    lanes: Vec<Lane>,
    /// Where cells begin; the last one is the end.
    bounds: Vec<u64>,
    marks: Marks,
    histories: Vec<History>,
    /// Whether the file is truncated and punched now and then.
    truncates: bool,
    clock: u64,
    closing: bool,
}

impl Writers {
    /// Begins in so many new sessions.
    pub fn begin(world: &mut World, seed: u64, sessions: usize) -> Writers {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let first = if rng.random_bool(0.5) { 0 } else { CHUNK_BYTES - 30_000 };
        // Over a chunk's end a write goes in two parts; a power loss may keep some blocks of a write that nobody was told of.
        let unit = if world.config.power_loss { BLOCK_BYTES } else { CHUNK_BYTES };
        let bounds = bounds(&mut rng, first, unit);
        let truncates = rng.random_bool(0.5);
        let lanes: Vec<_> = (0..sessions).map(|_| world.add_session(&[Caller::default()])).collect();
        let lanes = lanes.iter().flat_map(|session| std::iter::repeat_n(*session, LANES));
        let lanes: Vec<_> = lanes.map(|session| Lane { session, handle: None, awaited: None, done: false }).collect();
        let name = Name::new(format!("{PRIVATE}s-write-{}", lanes[0].session).as_bytes()).expect("a short name");
        let mut writers = Writers {
            rng,
            name,
            id: InodeId::NONE,
            lanes,
            bounds,
            marks: Marks::new(seed),
            histories: vec![History::default(); CELLS],
            truncates,
            clock: 0,
            closing: false,
        };
        let open = OpenMode::READ_WRITE;
        let create = FsOp::Create { parent: InodeId::ROOT, name: writers.name.clone(), mode: 0o644, umask: 0, open };
        writers.call(world, 0, create, Call::Open);
        writers
    }

    fn call(&mut self, world: &mut World, lane: usize, op: FsOp, call: Call) {
        self.clock += 1;
        let unique = world.system_call(self.lanes[lane].session, 0, op);
        let (name, clock) = (&self.name, self.clock);
        world.narrate(|| format!("{name:?} at {clock}: #{unique} is {call:?}"));
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
            (Call::Write { writer, cells }, Ok(FsReply::Written(n)))
                if u64::from(n) == self.bounds[cells.end] - self.bounds[cells.start] =>
            {
                cells.for_each(|cell| self.histories[cell].write(writer, span));
            }
            (Call::Truncate { from }, Ok(FsReply::Attr { .. })) => {
                self.histories[from..].iter_mut().for_each(|history| history.clear(span));
            }
            (Call::Clear { cells }, Ok(FsReply::Done)) => cells.for_each(|cell| self.histories[cell].clear(span)),
            (Call::Read { cells }, Ok(FsReply::Data(parts))) => return self.seen(cells, &parts.concat(), span),
            (Call::Sync, Ok(FsReply::Done)) => {}
            (call, result) => return Err(format!("{call:?} is answered {result:?}")),
        }
        Ok(())
    }

    /// Takes what a read showed of these cells.
    fn seen(&mut self, cells: Range<usize>, bytes: &[u8], span: Span) -> Result<(), String> {
        let first = self.bounds[cells.start];
        for cell in cells {
            let (start, end) = ((self.bounds[cell] - first) as usize, (self.bounds[cell + 1] - first) as usize);
            let value = match bytes.len() {
                len if len <= start => None,
                len if len < end => return Err(format!("cell {cell} ends within, after {} bytes", len - start)),
                _ => self.marks.read(&bytes[start..end]).map_err(|why| format!("cell {cell} shows {why}"))?,
            };
            self.histories[cell].read(value, span);
        }
        Ok(())
    }

    fn next(&mut self, world: &mut World, lane: usize) {
        let Some(handle) = self.lanes[lane].handle else {
            let mode = OpenMode::READ_WRITE;
            return self.call(world, lane, FsOp::Open { id: self.id, mode }, Call::Open);
        };
        match self.rng.random_range(0..100) {
            0..42 => self.write(world, lane, handle),
            42..46 if self.truncates => self.clear(world, lane, handle),
            46..50 if self.truncates => {
                let from = self.rng.random_range(0..CELLS);
                let to =
                    SetAttr { valid: set::SIZE | set::OPEN_FOR_WRITE, size: self.bounds[from], ..SetAttr::default() };
                let op = FsOp::SetAttr { id: self.id, set: to, handle: Some(handle) };
                self.call(world, lane, op, Call::Truncate { from });
            }
            50..54 => self.call(world, lane, FsOp::Fsync { handle }, Call::Sync),
            _ => {
                let cells = self.cells(CELLS);
                self.read(world, lane, handle, cells);
            }
        }
    }

    /// Neighbouring cells.
    fn cells(&mut self, most: usize) -> Range<usize> {
        let start = self.rng.random_range(0..CELLS);
        start..self.rng.random_range(start + 1..=(start + most).min(CELLS))
    }

    fn write(&mut self, world: &mut World, lane: usize, handle: Handle) {
        let cells = self.cells(WRITE_CELLS_MAX);
        let writer = self.marks.writer();
        let mut bytes = vec![];
        for cell in cells.clone() {
            self.marks.put(writer, (self.bounds[cell + 1] - self.bounds[cell]) as usize, &mut bytes);
        }
        let offset = self.bounds[cells.start];
        let op = FsOp::Write { handle, offset, data: bytes.into(), append: false, kill_suidgid: false, page: false };
        self.call(world, lane, op, Call::Write { writer, cells });
    }

    /// Punches or zeroes some cells.
    fn clear(&mut self, world: &mut World, lane: usize, handle: Handle) {
        let cells = self.cells(CELLS);
        let mode = CLEARING[self.rng.random_range(0..CLEARING.len())];
        let (offset, bytes) = (self.bounds[cells.start], self.bounds[cells.end] - self.bounds[cells.start]);
        self.call(world, lane, FsOp::Allocate { handle, mode, offset, bytes }, Call::Clear { cells });
    }

    fn read(&mut self, world: &mut World, lane: usize, handle: Handle, cells: Range<usize>) {
        let (offset, bytes) = (self.bounds[cells.start], (self.bounds[cells.end] - self.bounds[cells.start]) as u32);
        self.call(world, lane, FsOp::Read { handle, offset, bytes, page: false }, Call::Read { cells });
    }
}

/// Where cells begin: at odd places, but one at the end of each `unit`.
fn bounds(rng: &mut ChaCha8Rng, first: u64, unit: u64) -> Vec<u64> {
    let mut bounds = vec![first];
    while bounds.len() <= CELLS {
        let last = *bounds.last().expect("begun");
        let next = last + rng.random_range(PIECE_MIN as u64..=CELL_BYTES_MAX);
        let unit_end = (last + 1).next_multiple_of(unit);
        let near = next > unit_end || (next < unit_end && next + PIECE_MIN as u64 > unit_end);
        bounds.push(if near { unit_end } else { next });
    }
    bounds
}

impl User for Writers {
    fn has(&self, session: usize) -> bool {
        self.lanes.iter().any(|lane| lane.session == session)
    }

    fn answered(&mut self, world: &mut World, finished: Finished) {
        self.clock += 1;
        let awaits = |lane: &Lane| {
            lane.session == finished.session
                && lane.awaited.as_ref().is_some_and(|(unique, ..)| *unique == finished.unique)
        };
        let Some(lane) = self.lanes.iter().position(awaits) else {
            return world.checker.violation(format!("{:?} answers what nobody asked", self.name));
        };
        let (_, asked, call) = self.lanes[lane].awaited.take().expect("just seen");
        let (name, clock, unique) = (&self.name, self.clock, finished.unique);
        world.narrate(|| format!("{name:?} at {clock}: #{unique} is answered: {call:?} of {asked}"));
        let first = self.id == InodeId::NONE;
        if let Err(why) = self.take(lane, asked, call, finished.result) {
            return world.checker.violation(format!("{:?}: {why}", self.name));
        }
        if !self.closing {
            self.next(world, lane);
            if first {
                (1..self.lanes.len()).for_each(|lane| self.next(world, lane));
            }
        } else if let (Some(handle), false) = (self.lanes[lane].handle, self.lanes[lane].done) {
            self.lanes[lane].done = true;
            self.read(world, lane, handle, 0..CELLS);
        }
    }

    fn close(&mut self) {
        self.closing = true;
    }

    fn is_idle(&self) -> bool {
        self.lanes.iter().all(|lane| lane.awaited.is_none())
    }

    fn judge(&self) -> Vec<String> {
        let judged = self.histories.iter().enumerate();
        judged
            .filter_map(|(cell, h)| {
                h.judge(self.truncates).err().map(|why| format!("{:?} cell {cell}: {why}", self.name))
            })
            .collect()
    }
}
