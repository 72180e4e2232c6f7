//! Sessions whose kernels cache while they are alone, and that come and go: one lives, another one joins, either leaves, with or
//! without a word. They look at the same names and at the modification times of the files that these lead to, and change them.
//!
//! A name leads to each file at most once, since only new files take names over, and every time that is set is another one: so
//! names and times are registers, and each has a [`History`]. An answer of a kernel is judged as one that was asked for and given in
//! the moment in which it was used. What a session that went was doing may have happened at any later time.

use super::cells::Cells;
use super::{History, User};
use crate::model::Caller;
use crate::users::history::Span;
use crate::workload::PRIVATE;
use crate::world::{Finished, World};
use onpath_session::fs::{FsOp, FsReply, FsResult, Handle};
use onpath_wire::errno::Errno;
use onpath_wire::ids::{Cookie, InodeId};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::request::{SetAttr, set};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

/// Names that are looked at.
const NAMES: usize = 3;
/// Files whose times are set.
const FILES_MAX: usize = 6;
/// Answers of kernels after which a session is asked.
const CACHED_MAX: usize = 6;
/// Answers of one session, or of both, until one of them leaves or another one joins.
const STAY_ANSWERS: std::ops::Range<u32> = 5..60;
/// The first time that is set, ns: long ago, so that no clock shows it.
const TIMES_NS: i64 = 1_000_000_000;
/// An answer that never comes.
const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
enum Call {
    MakeDir,
    Look(usize),
    OpenDir,
    List(Handle),
    CloseDir,
    Stat(InodeId),
    Set(InodeId, u32),
    Make(u32),
    Put(usize, u32),
}

struct Lane {
    session: usize,
    /// Number, when it was asked, and what.
    awaited: Option<(u64, u64, Call)>,
    leaves: bool,
}

/// The sessions.
pub struct Cachers {
    rng: ChaCha8Rng,
    home: Name,
    dir: InodeId,
    lanes: Vec<Lane>,
    /// Servers die: then the first session stays, and only it writes. What one that has gone had written in its last moments a restarted
    /// data node may tell of once more, when nobody waits for it any more.
    steady: bool,
    /// Answers until something is different.
    stay: u32,
    /// Files by number, the newest last, and their numbers.
    files: Vec<InodeId>,
    numbers: BTreeMap<InodeId, u32>,
    last: u32,
    names: Vec<History>,
    times: BTreeMap<InodeId, History>,
    /// The file that they write and read beside that.
    cells: Cells,
    clock: u64,
    closing: bool,
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a short name")
}

impl Cachers {
    /// Begins with one session.
    pub fn begin(world: &mut World, seed: u64) -> Cachers {
        let session = world.add_caching_session(&[Caller::default()]);
        let home = name(&format!("{PRIVATE}s-alone-{session}"));
        let mut cachers = Cachers {
            rng: ChaCha8Rng::seed_from_u64(seed),
            home: home.clone(),
            dir: InodeId::NONE,
            lanes: vec![Lane { session, awaited: None, leaves: false }],
            steady: world.config.crash_every > 0,
            stay: 30,
            files: vec![],
            numbers: BTreeMap::new(),
            last: 0,
            names: (0..NAMES).map(|_| History::default()).collect(),
            times: BTreeMap::new(),
            cells: Cells::new(seed, session),
            clock: 0,
            closing: false,
        };
        let (parent, kind) = (InodeId::ROOT, Kind::Directory);
        let make = FsOp::Make { parent, name: home, kind, mode: 0o755, umask: 0, rdev: 0, target: vec![] };
        cachers.call(world, 0, make, Call::MakeDir);
        cachers.cells.join(world, session, true);
        cachers
    }

    fn call(&mut self, world: &mut World, lane: usize, op: FsOp, call: Call) {
        self.clock += 1;
        let unique = world.system_call(self.lanes[lane].session, 0, op);
        self.lanes[lane].awaited = Some((unique, self.clock, call));
    }

    /// What a kernel answers by itself is asked and answered now.
    fn now(&mut self) -> Span {
        self.clock += 2;
        Span { asked: self.clock - 1, answered: self.clock }
    }

    /// Looks at a name, and at the file that it leads to, as far as the kernel knows; true if a session was asked.
    fn look(&mut self, world: &mut World, lane: usize) -> Result<bool, String> {
        let (session, at) = (self.lanes[lane].session, self.rng.random_range(0..NAMES));
        let looked = name(&format!("n{at}"));
        let Some(found) = world.cached_name(session, self.dir, &looked) else {
            self.call(world, lane, FsOp::Lookup { parent: self.dir, name: looked }, Call::Look(at));
            return Ok(true);
        };
        let span = self.now();
        self.saw_name(at, found, span)?;
        let Some(id) = found else { return Ok(false) };
        let Some(attr) = world.cached_attributes(session, id) else {
            self.call(world, lane, FsOp::GetAttr { id, handle: None }, Call::Stat(id));
            return Ok(true);
        };
        let span = self.now();
        self.saw_time(id, attr.mtime, span);
        Ok(false)
    }

    fn saw_name(&mut self, at: usize, found: Option<InodeId>, span: Span) -> Result<(), String> {
        let number =
            found.map(|id| self.numbers.get(&id).copied().ok_or(format!("n{at} leads to {id:?}"))).transpose()?;
        self.names[at].read(number, span);
        Ok(())
    }

    fn saw_time(&mut self, id: InodeId, mtime: i64, span: Span) {
        let number = u32::try_from(mtime - TIMES_NS).ok().filter(|number| *number <= self.last);
        self.times.entry(id).or_default().read(number, span);
    }

    fn next(&mut self, world: &mut World, lane: usize) -> Result<(), String> {
        for _ in 0..CACHED_MAX {
            if self.rng.random_bool(0.15) {
                break;
            }
            if self.look(world, lane)? {
                return Ok(());
            }
        }
        if self.rng.random_bool(0.1) {
            self.call(world, lane, FsOp::OpenDir { id: self.dir, noatime: true }, Call::OpenDir);
            return Ok(());
        }
        self.last += 1;
        let number = self.last;
        if self.files.is_empty() || self.rng.random_bool(0.25) {
            let made = name(&format!("t{number}"));
            let create = FsOp::Make {
                parent: self.dir,
                name: made,
                kind: Kind::File,
                mode: 0o644,
                umask: 0,
                rdev: 0,
                target: vec![],
            };
            self.call(world, lane, create, Call::Make(number));
        } else {
            let first = self.files.len().saturating_sub(FILES_MAX);
            let id = self.files[self.rng.random_range(first..self.files.len())];
            let set = SetAttr { valid: set::MTIME, mtime: TIMES_NS + i64::from(number), ..SetAttr::default() };
            self.call(world, lane, FsOp::SetAttr { id, set, handle: None }, Call::Set(id, number));
        }
        Ok(())
    }

    fn take(&mut self, world: &mut World, lane: usize, call: Call, span: Span, result: FsResult) -> Result<(), String> {
        match (call, result) {
            (Call::MakeDir, Ok(FsReply::Entry(attr))) => self.dir = attr.id,
            // With an ACL inherited from the root, not everybody may search the directory: then a missing name is just an error.
            (Call::Look(at), Ok(FsReply::Missing) | Err(Errno::ENOENT)) => self.saw_name(at, None, span)?,
            (Call::Look(at), Ok(FsReply::Entry(attr))) => {
                self.saw_name(at, Some(attr.id), span)?;
                self.saw_time(attr.id, attr.mtime, span);
            }
            (Call::OpenDir, Ok(FsReply::Opened(opened))) => {
                let list = FsOp::ReadDirPlus { handle: opened.handle, after: Cookie(0), bytes: 65_536 };
                self.call(world, lane, list, Call::List(opened.handle));
            }
            (Call::List(handle), Ok(FsReply::DirPlus(entries))) => {
                for at in 0..NAMES {
                    let looked = name(&format!("n{at}"));
                    let found = entries.iter().find(|(entry, _)| entry.name == looked);
                    self.saw_name(at, found.map(|(entry, _)| entry.child), span)?;
                    if let Some(attr) = found.and_then(|(_, attr)| attr.as_ref()) {
                        self.saw_time(attr.id, attr.mtime, span);
                    }
                }
                self.call(world, lane, FsOp::ReleaseDir { handle }, Call::CloseDir);
            }
            (Call::CloseDir, Ok(FsReply::Done)) => {}
            (Call::Stat(id), Ok(FsReply::Attr { attr, .. })) => self.saw_time(id, attr.mtime, span),
            (Call::Set(id, number), Ok(FsReply::Attr { .. })) => {
                self.times.entry(id).or_default().write(number, span);
            }
            // Another file has taken its name over.
            (Call::Stat(_) | Call::Set(..), Err(Errno::ESTALE)) => {}
            (Call::Make(number), Ok(FsReply::Entry(attr))) => {
                self.numbers.insert(attr.id, number);
                self.files.push(attr.id);
                let at = self.rng.random_range(0..NAMES);
                let (from, to) = (name(&format!("t{number}")), name(&format!("n{at}")));
                let (from_parent, parent) = (self.dir, self.dir);
                let put = FsOp::Rename { from_parent, from, parent, name: to, flags: 0 };
                self.call(world, lane, put, Call::Put(at, number));
            }
            (Call::Put(at, number), Ok(FsReply::Done)) => self.names[at].write(number, span),
            (call, result) => return Err(format!("{call:?} is answered {result:?}")),
        }
        Ok(())
    }

    /// A session goes; nobody hears what becomes of what it was doing.
    fn gone(&mut self, lane: usize) {
        let never = |asked| Span { asked, answered: NEVER };
        let Lane { session, awaited, .. } = self.lanes.remove(lane);
        self.cells.gone(session);
        match awaited {
            Some((_, asked, Call::Set(id, number))) => self.times.entry(id).or_default().write(number, never(asked)),
            Some((_, asked, Call::Put(at, number))) => self.names[at].write(number, never(asked)),
            _ => {}
        }
    }

    /// A session that is to leave does so when nothing of it is under way.
    fn leave_if_idle(&mut self, world: &mut World, session: usize) {
        let leaves = |lane: &Lane| lane.session == session && lane.leaves && lane.awaited.is_none();
        if let Some(lane) = self.lanes.iter().position(leaves).filter(|_| self.cells.is_idle(Some(session))) {
            world.leave_session(session);
            self.gone(lane);
        }
    }

    /// Somebody comes or goes.
    fn turn(&mut self, world: &mut World) {
        self.stay = self.rng.random_range(STAY_ANSWERS);
        let staying = self.lanes.iter().filter(|lane| !lane.leaves).count();
        if staying > 1 {
            let lane = self.rng.random_range(usize::from(self.steady)..self.lanes.len());
            if self.rng.random_bool(0.02) {
                world.kill_session(self.lanes[lane].session);
                self.gone(lane);
            } else {
                self.lanes[lane].leaves = true;
                self.cells.end(Some(self.lanes[lane].session));
            }
        } else if self.lanes.len() < 3 {
            let session = world.add_caching_session(&[Caller::default()]);
            self.lanes.push(Lane { session, awaited: None, leaves: false });
            self.cells.join(world, session, !self.steady);
            let lane = self.lanes.len() - 1;
            if let Err(why) = self.next(world, lane) {
                world.checker.violation(why);
            }
        }
    }
}

impl User for Cachers {
    fn has(&self, session: usize) -> bool {
        self.lanes.iter().any(|lane| lane.session == session)
    }

    fn answered(&mut self, world: &mut World, finished: Finished) {
        if let Some(taken) = self.cells.answered(world, &finished) {
            if let Err(why) = taken {
                world.checker.violation(why);
            }
            return self.leave_if_idle(world, finished.session);
        }
        self.clock += 1;
        let awaits = |lane: &Lane| {
            lane.session == finished.session && lane.awaited.is_some_and(|(unique, ..)| unique == finished.unique)
        };
        let Some(lane) = self.lanes.iter().position(awaits) else {
            return world.checker.violation(format!("{:?} answers what nobody asked", self.home));
        };
        let (_, asked, call) = self.lanes[lane].awaited.take().expect("just seen");
        let span = Span { asked, answered: self.clock };
        let mut taken = self.take(world, lane, call, span, finished.result);
        if taken.is_ok() && self.lanes[lane].awaited.is_none() {
            if self.lanes[lane].leaves {
                self.leave_if_idle(world, finished.session);
            } else if !self.closing {
                taken = self.next(world, lane);
            }
        }
        if let Err(why) = taken {
            return world.checker.violation(format!("{:?}: {why}", self.home));
        }
        self.stay = self.stay.saturating_sub(1);
        if self.stay == 0 && !self.closing && !self.files.is_empty() {
            self.turn(world);
        }
    }

    fn close(&mut self) {
        self.closing = true;
        self.cells.end(None);
    }

    fn is_idle(&self) -> bool {
        self.lanes.iter().all(|lane| lane.awaited.is_none()) && self.cells.is_idle(None)
    }

    fn is_settled(&self) -> bool {
        self.dir != InodeId::NONE
    }

    fn judge(&self) -> Vec<String> {
        let names = self.names.iter().enumerate().map(|(at, history)| (format!("n{at}"), history));
        let times = self.times.iter().map(|(id, history)| (format!("the time of {id:?}"), history));
        let judged = names.chain(times).filter_map(|(what, history)| Some((what, history.judge(false).err()?)));
        let judged = judged.map(|(what, why)| format!("{:?}: {what}: {why}", self.home));
        judged.chain(self.cells.judge()).collect()
    }
}
