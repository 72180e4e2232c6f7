//! One user of one file where power is lost and commits are not awaited: what was synced is there afterwards; whatever was
//! written, truncated, punched or acknowledged since may be there or not, cell by cell – the old bytes or new ones, never others
//! and never parts of both. A sync after a power loss is answered only if all that was acknowledged is there, else by EIO, once.
//! Cells lie within blocks, at odd places.

use super::User;
use super::line::{self, Call as _, Heard, Line, Then};
use super::lossy::Lossy;
use super::pattern::{Marks, PIECE_MIN};
use crate::world::{Finished, World};
use onpath_session::fs::{FsOp, FsReply, FsResult, Handle, OpenMode};
use onpath_wire::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::limits::BLOCK_BYTES;
use onpath_wire::request::{SetAttr, set};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::ops::Range;

/// Cells of the file.
const CELLS: usize = 20;
/// Longest cell, bytes.
const CELL_BYTES_MAX: u64 = 3_000;

/// What a cell may show: nobody's bytes or those of a write.
type Value = Option<u32>;

#[derive(Debug)]
enum Call {
    Create,
    Write { writer: u32, cells: Range<usize> },
    Truncate { from: usize },
    Clear { cells: Range<usize> },
    Read { cells: Range<usize> },
    Reserve,
    Sync,
}

impl line::Call for Call {
    fn is_sync(&self) -> bool {
        matches!(self, Call::Sync)
    }
}

/// The user.
pub struct Durable {
    rng: ChaCha8Rng,
    line: Line<Call>,
    id: InodeId,
    handle: Option<Handle>,
    /// Power was lost since the last sync began, as far as the processes that ended knew.
    excused: bool,
    bounds: Vec<u64>,
    marks: Marks,
    cells: Vec<Lossy<Value>>,
}

impl Durable {
    /// Begins in a new session. The world may lose power once everybody [`Durable::is_settled`].
    pub fn begin(world: &mut World, seed: u64) -> Durable {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut bounds = vec![0];
        while bounds.len() <= CELLS {
            let last: u64 = bounds[bounds.len() - 1];
            let (next, end) =
                (last + rng.random_range(PIECE_MIN as u64..=CELL_BYTES_MAX), (last + 1).next_multiple_of(BLOCK_BYTES));
            bounds.push(if next + PIECE_MIN as u64 > end { end } else { next });
        }
        let mut durable = Durable {
            rng,
            line: Line::begin(world, "durable"),
            id: InodeId::NONE,
            handle: None,
            excused: false,
            bounds,
            marks: Marks::new(seed),
            cells: vec![Lossy::new(None); CELLS],
        };
        let (name, open) = (durable.line.name.clone(), OpenMode::READ_WRITE);
        let create = FsOp::Create { parent: InodeId::ROOT, name, mode: 0o644, umask: 0, open };
        durable.line.call(world, create, Call::Create);
        durable
    }

    fn take(&mut self, call: Call, sure: bool, result: FsResult) -> Result<(), String> {
        match (call, result) {
            (Call::Create, Ok(FsReply::Created { attr, opened, fresh: true })) => {
                (self.id, self.handle) = (attr.id, Some(opened.handle));
            }
            (Call::Write { writer, cells }, Ok(FsReply::Written(n)))
                if u64::from(n) == self.bounds[cells.end] - self.bounds[cells.start] =>
            {
                self.cells[cells].iter_mut().for_each(|cell| cell.change(&[Some(writer)], sure));
            }
            (Call::Truncate { from }, Ok(FsReply::Attr { .. })) => {
                self.cells[from..].iter_mut().for_each(|cell| cell.change(&[None], sure));
            }
            (Call::Clear { cells }, Ok(FsReply::Done)) => {
                self.cells[cells].iter_mut().for_each(|cell| cell.change(&[None], sure));
            }
            (Call::Reserve, Ok(FsReply::Done)) => {}
            (Call::Sync, Ok(FsReply::Done)) => {
                let mut cells = self.cells.iter_mut().enumerate();
                return cells.try_for_each(|(n, cell)| cell.synced(sure).map_err(|why| format!("cell {n} {why}")));
            }
            (Call::Sync, Err(Errno::EIO)) if self.excused => {
                self.cells.iter_mut().for_each(Lossy::gone);
            }
            (Call::Read { cells }, Ok(FsReply::Data(parts))) => return self.seen(cells, &parts.concat(), sure),
            (call, result) => return Err(format!("{call:?} is answered {result:?}")),
        }
        Ok(())
    }

    fn seen(&mut self, cells: Range<usize>, bytes: &[u8], sure: bool) -> Result<(), String> {
        let first = self.bounds[cells.start];
        for cell in cells {
            let (start, end) = ((self.bounds[cell] - first) as usize, (self.bounds[cell + 1] - first) as usize);
            let value = match bytes.len() {
                len if len <= start => Ok(None),
                len if len < end => Err(format!("ends after {} bytes", len - start)),
                _ => self.marks.read(&bytes[start..end]),
            };
            value
                .and_then(|value| self.cells[cell].shows(|is| *is == value, sure))
                .map_err(|why| format!("cell {cell} {why}"))?;
        }
        Ok(())
    }

    fn next(&mut self, world: &mut World) {
        let handle = self.handle.expect("created first");
        if !self.line.is_settled() {
            return self.line.call(world, FsOp::Fsync { handle }, Call::Sync);
        }
        let start = self.rng.random_range(0..CELLS);
        let cells = start..self.rng.random_range(start + 1..=(start + 6).min(CELLS));
        match self.rng.random_range(0..100) {
            0..50 => {
                let writer = self.marks.writer();
                let mut bytes = vec![];
                for cell in cells.clone() {
                    self.marks.put(writer, (self.bounds[cell + 1] - self.bounds[cell]) as usize, &mut bytes);
                }
                let (offset, data) = (self.bounds[start], bytes.into());
                let op = FsOp::Write { handle, offset, data, append: false, kill_suidgid: false, page: false };
                self.line.call(world, op, Call::Write { writer, cells });
            }
            50..58 => {
                let to =
                    SetAttr { valid: set::SIZE | set::OPEN_FOR_WRITE, size: self.bounds[start], ..SetAttr::default() };
                let op = FsOp::SetAttr { id: self.id, set: to, handle: Some(handle) };
                self.line.call(world, op, Call::Truncate { from: start });
            }
            58..64 => {
                let mode = [2 | 1, 16 | 1][self.rng.random_range(0..2)];
                let op = self.allocate(handle, mode, &cells);
                self.line.call(world, op, Call::Clear { cells });
            }
            64..68 => {
                let mode = self.rng.random_range(0..2);
                let op = self.allocate(handle, mode, &cells);
                self.line.call(world, op, Call::Reserve);
            }
            68..76 => self.line.call(world, FsOp::Fsync { handle }, Call::Sync),
            _ => self.read(world, cells),
        }
    }

    fn allocate(&self, handle: Handle, mode: u32, cells: &Range<usize>) -> FsOp {
        let (offset, bytes) = (self.bounds[cells.start], self.bounds[cells.end] - self.bounds[cells.start]);
        FsOp::Allocate { handle, mode, offset, bytes }
    }

    fn read(&mut self, world: &mut World, cells: Range<usize>) {
        let handle = self.handle.expect("created first");
        let (offset, bytes) = (self.bounds[cells.start], (self.bounds[cells.end] - self.bounds[cells.start]) as u32);
        self.line.call(world, FsOp::Read { handle, offset, bytes, page: false }, Call::Read { cells });
    }
}

impl User for Durable {
    fn has(&self, session: usize) -> bool {
        self.line.has(session)
    }

    fn answered(&mut self, world: &mut World, finished: Finished) {
        let Some(heard) = self.line.hears(world, finished) else { return };
        let Heard { unique, call, result, lost, sure, doubted, undoubted } = heard;
        if lost {
            self.cells.iter_mut().for_each(Lossy::lost);
        }
        self.excused |= doubted;
        let synced = call.is_sync();
        if let Err(why) = self.take(call, sure, result) {
            return self.line.is_wrong(world, unique, &why);
        }
        if synced {
            self.line.settle();
            self.excused = !undoubted;
        }
        match self.line.then(self.handle.is_some()) {
            Then::Next => self.next(world),
            Then::Last => self.read(world, 0..CELLS),
            Then::Nothing => {}
        }
    }

    fn close(&mut self) {
        self.line.close();
    }

    fn is_idle(&self) -> bool {
        self.line.is_idle()
    }

    fn is_settled(&self) -> bool {
        self.line.is_settled()
    }
}
