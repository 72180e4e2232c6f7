//! A file that sessions write, truncate and read which come and go, each with several calls under way: alone they know its size
//! without asking. As in [`Writers`](super::Writers) every byte says who wrote it, and the calls about a cell must have an order.

use super::history::{History, Span};
use super::pattern::Marks;
use crate::workload::PRIVATE;
use crate::world::{Finished, World};
use onpath_session::fs::{FsOp, FsReply, FsResult, Handle, OpenMode};
use onpath_wire::ids::InodeId;
use onpath_wire::limits::BLOCK_BYTES;
use onpath_wire::name::Name;
use onpath_wire::request::{SetAttr, set};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::ops::Range;

/// Where cells begin, and the last one ends: none is in two blocks, of which a power loss may keep one.
const BOUNDS: [u64; 7] =
    [0, 1_000, BLOCK_BYTES, BLOCK_BYTES + 50, 2 * BLOCK_BYTES, 2 * BLOCK_BYTES + 4_000, 3 * BLOCK_BYTES];
const CELLS: usize = BOUNDS.len() - 1;
/// Calls that a session has under way.
const LANES: usize = 2;

#[derive(Debug)]
enum Call {
    Open,
    Write { writer: u32, cells: Range<usize> },
    Truncate { from: usize },
    Read { cells: Range<usize> },
}

#[derive(Debug)]
struct Lane {
    session: usize,
    handle: Option<Handle>,
    /// Number, when it was asked, and what.
    awaited: Option<(u64, u64, Call)>,
    writes: bool,
    leaves: bool,
}

/// The file.
pub(super) struct Cells {
    rng: ChaCha8Rng,
    name: Name,
    id: InodeId,
    lanes: Vec<Lane>,
    marks: Marks,
    histories: Vec<History>,
    /// Whether the file is truncated now and then.
    truncates: bool,
    clock: u64,
}

impl Cells {
    pub(super) fn new(seed: u64, session: usize) -> Cells {
        let mut rng = ChaCha8Rng::seed_from_u64(!seed);
        let truncates = rng.random_bool(0.5);
        let name = Name::new(format!("{PRIVATE}s-cells-{session}").as_bytes()).expect("a short name");
        let histories = vec![History::default(); CELLS];
        Cells { rng, name, id: InodeId::NONE, lanes: vec![], marks: Marks::new(seed), histories, truncates, clock: 0 }
    }

    /// A session begins, which reads and truncates only unless it `writes`.
    pub(super) fn join(&mut self, world: &mut World, session: usize, writes: bool) {
        for _ in 0..LANES {
            self.lanes.push(Lane { session, handle: None, awaited: None, writes, leaves: false });
            self.next(world, self.lanes.len() - 1);
        }
    }

    /// A session, or all of them, begin nothing any more.
    pub(super) fn end(&mut self, session: Option<usize>) {
        for lane in self.lanes.iter_mut().filter(|lane| session.is_none_or(|session| lane.session == session)) {
            lane.leaves = true;
        }
    }

    /// Whether nothing is under way in a session, or in all.
    pub(super) fn is_idle(&self, session: Option<usize>) -> bool {
        let mut lanes = self.lanes.iter().filter(|lane| session.is_none_or(|session| lane.session == session));
        lanes.all(|lane| lane.awaited.is_none())
    }

    /// A session has gone; nobody hears what becomes of what it was doing.
    pub(super) fn gone(&mut self, session: usize) {
        let gone = |lane: &mut Lane| lane.session == session;
        for (_, asked, call) in self.lanes.extract_if(.., gone).filter_map(|lane| lane.awaited) {
            let span = Span { asked, answered: u64::MAX };
            match call {
                Call::Write { writer, cells } => cells.for_each(|cell| self.histories[cell].write(writer, span)),
                Call::Truncate { from } => self.histories[from..].iter_mut().for_each(|history| history.clear(span)),
                Call::Open | Call::Read { .. } => {}
            }
        }
    }

    /// Takes an answer; nothing if it is to somebody else's question.
    pub(super) fn answered(&mut self, world: &mut World, finished: &Finished) -> Option<Result<(), String>> {
        let awaits = |lane: &Lane| {
            let awaited = lane.awaited.as_ref();
            lane.session == finished.session && awaited.is_some_and(|(unique, ..)| *unique == finished.unique)
        };
        let lane = self.lanes.iter().position(awaits)?;
        self.clock += 1;
        let (_, asked, call) = self.lanes[lane].awaited.take().expect("just seen");
        let span = Span { asked, answered: self.clock };
        let (name, clock, unique) = (&self.name, self.clock, finished.unique);
        world.narrate(|| format!("{name:?} at {clock}: #{unique} is answered: {call:?} of {asked}"));
        let taken = self.take(lane, span, call, &finished.result);
        if taken.is_ok() && !self.lanes[lane].leaves {
            self.next(world, lane);
        }
        Some(taken.map_err(|why| format!("{:?}: {why}", self.name)))
    }

    fn call(&mut self, world: &mut World, lane: usize, op: FsOp, call: Call) {
        self.clock += 1;
        let unique = world.system_call(self.lanes[lane].session, 0, op);
        let (name, clock) = (&self.name, self.clock);
        world.narrate(|| format!("{name:?} at {clock}: #{unique} is {call:?}"));
        self.lanes[lane].awaited = Some((unique, self.clock, call));
    }

    fn next(&mut self, world: &mut World, lane: usize) {
        let open = OpenMode::READ_WRITE;
        let Some(handle) = self.lanes[lane].handle else {
            let op = match self.id {
                InodeId::NONE => {
                    FsOp::Create { parent: InodeId::ROOT, name: self.name.clone(), mode: 0o644, umask: 0, open }
                }
                id => FsOp::Open { id, mode: open },
            };
            return self.call(world, lane, op, Call::Open);
        };
        let start = self.rng.random_range(0..CELLS);
        let cells = start..self.rng.random_range(start + 1..=CELLS);
        let (offset, end) = (BOUNDS[cells.start], BOUNDS[cells.end]);
        match self.rng.random_range(0..100) {
            0..25 if self.lanes[lane].writes => {
                let writer = self.marks.writer();
                let mut data = vec![];
                for cell in cells.clone() {
                    self.marks.put(writer, (BOUNDS[cell + 1] - BOUNDS[cell]) as usize, &mut data);
                }
                let op =
                    FsOp::Write { handle, offset, data: data.into(), append: false, kill_suidgid: false, page: false };
                self.call(world, lane, op, Call::Write { writer, cells });
            }
            25..30 if self.truncates => {
                let valid = set::SIZE | set::OPEN_FOR_WRITE;
                let set = SetAttr { valid, size: offset, ..SetAttr::default() };
                let op = FsOp::SetAttr { id: self.id, set, handle: Some(handle) };
                self.call(world, lane, op, Call::Truncate { from: cells.start });
            }
            _ => {
                let op = FsOp::Read { handle, offset, bytes: (end - offset) as u32, page: true };
                self.call(world, lane, op, Call::Read { cells });
            }
        }
    }

    fn take(&mut self, lane: usize, span: Span, call: Call, result: &FsResult) -> Result<(), String> {
        match (call, result) {
            (Call::Open, Ok(FsReply::Created { attr, opened, .. })) => {
                self.id = attr.id;
                self.lanes[lane].handle = Some(opened.handle);
            }
            (Call::Open, Ok(FsReply::Opened(opened))) => self.lanes[lane].handle = Some(opened.handle),
            (Call::Write { writer, cells }, Ok(FsReply::Written(n)))
                if u64::from(*n) == BOUNDS[cells.end] - BOUNDS[cells.start] =>
            {
                cells.for_each(|cell| self.histories[cell].write(writer, span));
            }
            (Call::Truncate { from }, Ok(FsReply::Attr { .. })) => {
                self.histories[from..].iter_mut().for_each(|history| history.clear(span));
            }
            (Call::Read { cells }, Ok(FsReply::Data(parts))) => return self.seen(cells, &parts.concat(), span),
            (call, result) => return Err(format!("{call:?} is answered {result:?}")),
        }
        Ok(())
    }

    /// Takes what a read showed of these cells.
    fn seen(&mut self, cells: Range<usize>, bytes: &[u8], span: Span) -> Result<(), String> {
        let first = BOUNDS[cells.start];
        for cell in cells {
            let (start, end) = ((BOUNDS[cell] - first) as usize, (BOUNDS[cell + 1] - first) as usize);
            let value = match bytes.len() {
                len if len <= start => None,
                len if len < end => return Err(format!("cell {cell} ends within, after {} bytes", len - start)),
                _ => self.marks.read(&bytes[start..end]).map_err(|why| format!("cell {cell} shows {why}"))?,
            };
            self.histories[cell].read(value, span);
        }
        Ok(())
    }

    pub(super) fn judge(&self) -> Vec<String> {
        let judged = self.histories.iter().enumerate();
        let wrong = judged.filter_map(|(cell, history)| Some((cell, history.judge(self.truncates).err()?)));
        wrong.map(|(cell, why)| format!("{:?} cell {cell}: {why}", self.name)).collect()
    }
}
