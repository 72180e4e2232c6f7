//! Files whose names a switch answers for: one session makes each of them longer and longer, and gives it another name now and then, while
//! others ask for its attributes. Whoever asks is shown no less than what had returned before, and what anybody had been shown.

use super::User;
use crate::model::Caller;
use crate::workload::PRIVATE;
use crate::world::{Finished, World};
use onpath_session::fs::{FsOp, FsReply, FsResult, OpenMode};
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::name::Name;
use onpath_wire::request::{SetAttr, set};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const FILES: usize = 3;
/// Of so many answers one is followed by a name that the controller is to give an entry.
const ADMITS_EVERY: u32 = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Create(usize),
    Grow(usize),
    Rename(usize),
    Lookup(usize),
    /// No size below this one may be shown.
    Stat(usize, u64),
}

struct File {
    id: InodeId,
    /// By which of its two names it is known.
    second: bool,
    /// The size that it was told to have, the last one that is known to be there, and the largest that anybody was shown.
    told: u64,
    returned: u64,
    shown: u64,
}

/// The sessions; the first one makes the changes.
pub struct Hot {
    rng: ChaCha8Rng,
    name: String,
    files: Vec<File>,
    sessions: Vec<usize>,
    awaited: Vec<Option<(u64, Call)>>,
    answers: u32,
    closing: bool,
}

impl Hot {
    /// Begins with so many sessions.
    pub fn begin(world: &mut World, seed: u64, sessions: usize) -> Hot {
        let sessions: Vec<usize> = (0..sessions).map(|_| world.add_session(&[Caller::default()])).collect();
        let (name, awaited) = (format!("{PRIVATE}s-hot-{}", sessions[0]), vec![None; sessions.len()]);
        let rng = ChaCha8Rng::seed_from_u64(seed);
        let mut hot = Hot { rng, name, files: vec![], sessions, awaited, answers: 0, closing: false };
        hot.create(world);
        hot
    }

    fn name(&self, file: usize, second: bool) -> Name {
        Name::new(format!("{}-{file}-{second}", self.name).as_bytes()).expect("a short name")
    }

    fn call(&mut self, world: &mut World, place: usize, op: FsOp, call: Call) {
        let unique = world.system_call(self.sessions[place], 0, op);
        self.awaited[place] = Some((unique, call));
    }

    fn create(&mut self, world: &mut World) {
        let file = self.files.len();
        let (name, open) = (self.name(file, false), OpenMode { direct: true, ..OpenMode::READ_WRITE });
        let create = FsOp::Create { parent: InodeId::ROOT, name, mode: 0o644, umask: 0, open };
        self.call(world, 0, create, Call::Create(file));
    }

    fn take(&mut self, call: Call, result: FsResult) -> Result<(), String> {
        match (call, result) {
            (Call::Create(_), Ok(FsReply::Created { attr, fresh: true, .. })) => {
                self.files.push(File { id: attr.id, second: false, told: 0, returned: 0, shown: 0 });
            }
            (Call::Grow(file), Ok(FsReply::Attr { .. })) => self.files[file].returned = self.files[file].told,
            (Call::Rename(_), Ok(FsReply::Done)) => {}
            // It has its other name for the moment.
            (Call::Lookup(_), Ok(FsReply::Missing) | Err(Errno::ENOENT)) => {}
            (Call::Lookup(file), Ok(FsReply::Entry(attr))) if attr.id == self.files[file].id => {}
            (Call::Stat(file, least), Ok(FsReply::Attr { attr, .. })) => {
                let File { id, told, shown, .. } = &mut self.files[file];
                if attr.id != *id || !(least..=*told).contains(&attr.size) {
                    return Err(format!("file {file} has {} bytes, at least {least} and at most {told}", attr.size));
                }
                *shown = attr.size.max(*shown);
            }
            (call, result) => return Err(format!("{call:?} is answered {result:?}")),
        }
        Ok(())
    }

    fn next(&mut self, world: &mut World, place: usize) {
        if self.closing {
            return;
        }
        let file = self.rng.random_range(0..FILES);
        let (id, second) = (self.files[file].id, self.files[file].second);
        if place > 0 {
            let lookup = self.rng.random_bool(0.25);
            return match lookup {
                true => {
                    let lookup = FsOp::Lookup { parent: InodeId::ROOT, name: self.name(file, second) };
                    self.call(world, place, lookup, Call::Lookup(file))
                }
                false => {
                    let least = self.files[file].returned.max(self.files[file].shown);
                    self.call(world, place, FsOp::GetAttr { id, handle: None }, Call::Stat(file, least))
                }
            };
        }
        if self.rng.random_bool(0.2) {
            self.files[file].second = !second;
            let (from_parent, parent) = (InodeId::ROOT, InodeId::ROOT);
            let (from, name) = (self.name(file, second), self.name(file, !second));
            return self.call(world, 0, FsOp::Rename { from_parent, from, parent, name, flags: 0 }, Call::Rename(file));
        }
        self.files[file].told += 1;
        let set = SetAttr { valid: set::SIZE, size: self.files[file].told, ..SetAttr::default() };
        self.call(world, 0, FsOp::SetAttr { id, set, handle: None }, Call::Grow(file));
    }
}

impl User for Hot {
    fn has(&self, session: usize) -> bool {
        self.sessions.contains(&session)
    }

    fn answered(&mut self, world: &mut World, finished: Finished) {
        let place = self.sessions.iter().position(|session| *session == finished.session).expect("one of ours");
        let Some((_, call)) = self.awaited[place].take_if(|(unique, _)| *unique == finished.unique) else {
            return world.checker.violation(format!("{} answers what nobody asked", self.name));
        };
        self.answers += 1;
        if let Err(why) = self.take(call, finished.result) {
            return world.checker.violation(format!("{} session {place}: {why}", self.name));
        }
        if self.files.len() < FILES {
            return self.create(world);
        }
        if self.answers.is_multiple_of(ADMITS_EVERY) {
            let file = self.rng.random_range(0..FILES);
            world.admit(InodeId::ROOT, Some(self.name(file, self.files[file].second)));
        }
        let begins = matches!(call, Call::Create(_));
        (0..if begins { self.sessions.len() } else { 0 }).for_each(|other| self.next(world, other));
        if !begins {
            self.next(world, place);
        }
    }

    fn close(&mut self) {
        self.closing = true;
    }

    fn is_idle(&self) -> bool {
        self.awaited.iter().all(Option::is_none)
    }
}
