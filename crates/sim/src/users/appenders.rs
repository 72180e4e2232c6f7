//! Several sessions append to one file at the same time and read it: every append is there once and whole, none lies over
//! another or leaves a gap, their order keeps to the times between which they were under way, and what was once seen at
//! a place stays there.

use super::User;
use super::history::Span;
use super::pattern::{Marks, PIECE_MIN};
use crate::model::Caller;
use crate::workload::PRIVATE;
use crate::world::{Finished, World};
use onpath_session::fs::{FsOp, FsReply, FsResult, Handle, OpenMode};
use onpath_wire::ids::InodeId;
use onpath_wire::name::Name;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

/// Longest piece appended, bytes.
const PIECE_BYTES_MAX: usize = 5_000;
/// Bytes asked for by a read.
const READ_BYTES: u32 = 60_000;
/// Calls that a session has under way.
const LANES: usize = 2;

const OPEN: OpenMode = OpenMode {
    read: true,
    write: true,
    exec: false,
    truncate: false,
    append: true,
    exclusive: false,
    kill_suidgid: false,
};

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

/// A read that came to the end of the file.
struct ToEnd {
    span: Span,
    end: u64,
}

/// Which piece lies where, and when its append was under way.
#[derive(Default)]
struct Pieces {
    /// Length and append, by offset.
    seen: BTreeMap<u64, (u64, u32)>,
    lengths: Vec<u64>,
    spans: BTreeMap<u32, Span>,
    to_end: Vec<ToEnd>,
}

impl Pieces {
    /// A piece was seen: always the same one at the same place.
    fn see(&mut self, offset: u64, writer: u32) -> Result<(), String> {
        let length = self.lengths[writer as usize - 1];
        match self.seen.insert(offset, (length, writer)) {
            Some((_, before)) if before != writer => Err(format!("at {offset} was append {before}, now {writer}")),
            _ => Ok(()),
        }
    }

    /// Whether every append had returned when this was asked: an earlier read at the end may have missed some.
    fn all_before(&self, read: Span) -> bool {
        self.spans.values().all(|append| append.before(read))
    }

    /// What is wrong after everything was read to the end.
    fn judge(&self) -> Result<(), String> {
        let mut expected = 0;
        let mut places = BTreeMap::new();
        for (&offset, &(length, writer)) in &self.seen {
            if offset != expected {
                return Err(format!("append {writer} lies at {offset} instead of {expected}"));
            }
            if places.insert(writer, offset).is_some() {
                return Err(format!("append {writer} is there twice"));
            }
            expected = offset + length;
        }
        if let Some(lost) = self.spans.keys().find(|writer| !places.contains_key(writer)) {
            return Err(format!("append {lost} is lost"));
        }
        // In the order of the file nobody may have been asked after a later one was answered.
        let mut latest = (0, 0);
        for &(_, writer) in self.seen.values() {
            let Some(span) = self.spans.get(&writer) else { continue };
            if span.answered < latest.0 {
                return Err(format!("append {writer} was answered before {} was asked, and lies behind it", latest.1));
            }
            latest = latest.max((span.asked, writer));
        }
        for read in &self.to_end {
            let missed = |(writer, span): &(&u32, &Span)| span.before(read.span) && places[writer] >= read.end;
            if let Some((writer, _)) = self.spans.iter().find(missed) {
                return Err(format!("{:?} ends at {} without append {writer}", read.span, read.end));
            }
        }
        Ok(())
    }
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
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            if rest.len() < PIECE_MIN && !to_end {
                break;
            }
            let place = offset + at as u64;
            let writer = self.marks.whose(rest).ok_or_else(|| format!("at {place}: no append begins here"))?;
            let length = self.pieces.lengths[writer as usize - 1] as usize;
            if rest.len() < length && to_end {
                return Err(format!("at {place}: the file ends within append {writer}"));
            }
            self.marks.read(&rest[..length.min(rest.len())]).map_err(|why| format!("at {place}: {why}"))?;
            self.pieces.see(place, writer)?;
            at += length;
        }
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
        let op =
            FsOp::Write { handle, offset: self.rng.random_range(0..10_000), data, append: true, kill_suidgid: false };
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
        self.call(world, lane, FsOp::Read { handle, offset, bytes: READ_BYTES }, Call::Read(offset));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(appends: &[(u64, u64)], seen: &[(u64, u32)]) -> Result<(), String> {
        let mut pieces = Pieces { lengths: vec![10; appends.len()], ..Pieces::default() };
        for (index, &(asked, answered)) in appends.iter().enumerate() {
            pieces.spans.insert(index as u32 + 1, Span { asked, answered });
        }
        for &(offset, writer) in seen {
            pieces.see(offset, writer)?;
        }
        pieces.judge()
    }

    #[test]
    fn an_append_is_there_once_in_order_and_without_a_gap() {
        pieces(&[(1, 2), (3, 4)], &[(0, 1), (10, 2), (0, 1)]).unwrap();
        pieces(&[(1, 4), (2, 3)], &[(0, 1), (10, 2)]).unwrap();
        pieces(&[(1, 4), (2, 3)], &[(0, 2), (10, 1)]).unwrap();
        assert!(pieces(&[(1, 2), (3, 4)], &[(0, 1)]).is_err(), "one is lost");
        assert!(pieces(&[(1, 2), (3, 4)], &[(0, 2), (10, 1)]).is_err(), "in the wrong order");
        assert!(pieces(&[(1, 2), (3, 4)], &[(0, 1), (20, 2)]).is_err(), "with a gap");
        assert!(pieces(&[(1, 2), (3, 4)], &[(0, 1), (10, 2), (20, 1)]).is_err(), "one twice");
        assert!(pieces(&[(1, 2), (3, 4)], &[(0, 1), (0, 2), (10, 2)]).is_err(), "one in the place of another");
    }

    #[test]
    fn a_read_that_was_asked_before_an_append_returned_is_not_the_last_one() {
        let mut pieces = Pieces::default();
        pieces.spans.insert(1, Span { asked: 1, answered: 3 });
        assert!(
            !pieces.all_before(Span { asked: 2, answered: 4 }) && pieces.all_before(Span { asked: 4, answered: 5 })
        );
    }

    #[test]
    fn a_read_to_the_end_shows_what_was_appended_before_it() {
        let mut pieces = Pieces { lengths: vec![10], ..Pieces::default() };
        pieces.spans.insert(1, Span { asked: 1, answered: 2 });
        pieces.see(0, 1).unwrap();
        pieces.to_end.push(ToEnd { span: Span { asked: 2, answered: 5 }, end: 0 });
        pieces.judge().unwrap();
        pieces.to_end.push(ToEnd { span: Span { asked: 3, answered: 5 }, end: 0 });
        assert!(pieces.judge().is_err());
    }
}
