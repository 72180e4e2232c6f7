//! Files whose names a switch answers for: one session makes each of them longer and longer, gives it another name now and then or another
//! file its name, and closes and opens their directory, while others look for them, ask for their attributes, open and read them. Whoever asks is
//! shown no less than what had returned before, and what anybody had been shown; who has a file open reads it also when its name is gone; nobody
//! finds anything in a directory that is closed, and everybody may in one that is open.

use super::User;
use crate::model::Caller;
use crate::workload::PRIVATE;
use crate::world::{Finished, World};
use onpath_session::fs::{FsOp, FsReply, FsResult, Handle, OpenMode};
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::request::{SetAttr, set};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const FILES: usize = 3;
/// Of so many answers one is followed by a name that the controller is to give an entry.
const ADMITS_EVERY: u32 = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    MakeDirectory,
    Create(usize),
    /// The directory is open to others afterwards.
    Mode(bool),
    Grow(usize),
    Rename(usize),
    Remove(usize),
    LookupDirectory,
    /// What the name led to, after so many changes of the directory had begun.
    Lookup(usize, InodeId, u64),
    /// No size below this one may be shown.
    Stat(usize, InodeId, u64),
    Open(usize, InodeId),
    /// No fewer bytes than these may be read.
    Read(u64),
    Close,
}

/// Most bytes that are read at once.
const READ_BYTES: u32 = 4_096;

struct File {
    id: InodeId,
    /// Its name is being removed, and then given to another file.
    gone: bool,
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
    dir: InodeId,
    /// Whether it is open to others, as of the last change, and how many changes of it have begun; the last one may not have returned.
    is_open: bool,
    changes: u64,
    changing: bool,
    files: Vec<File>,
    sessions: Vec<usize>,
    /// What each has open: a file, and what it is at least long.
    open: Vec<Option<(Handle, InodeId, u64)>>,
    awaited: Vec<Option<(u64, Call)>>,
    answers: u32,
    closing: bool,
}

impl Hot {
    /// Begins with so many sessions.
    pub fn begin(world: &mut World, seed: u64, sessions: usize) -> Hot {
        let caller = |session| Caller::new(1_000 * session as u32, 1_000);
        let sessions: Vec<usize> = (0..sessions).map(|session| world.add_session(&[caller(session)])).collect();
        let (open, awaited) = (vec![None; sessions.len()], vec![None; sessions.len()]);
        let name = format!("{PRIVATE}s-hot-{}", sessions[0]);
        let rng = ChaCha8Rng::seed_from_u64(seed);
        let (dir, is_open, changes, changing) = (InodeId::ROOT, true, 0, false);
        let files = vec![];
        let mut hot = Hot {
            rng,
            name,
            dir,
            is_open,
            changes,
            changing,
            files,
            sessions,
            open,
            awaited,
            answers: 0,
            closing: false,
        };
        let (name, kind, mode) = (hot.directory(), Kind::Directory, 0o711);
        let make = FsOp::Make { parent: dir, name, kind, mode, umask: 0, rdev: 0, target: vec![] };
        hot.call(world, 0, make, Call::MakeDirectory);
        hot
    }

    fn directory(&self) -> Name {
        Name::new(self.name.as_bytes()).expect("a short name")
    }

    fn name(&self, file: usize, second: bool) -> Name {
        Name::new(format!("{}-{file}-{second}", self.name).as_bytes()).expect("a short name")
    }

    fn call(&mut self, world: &mut World, place: usize, op: FsOp, call: Call) {
        let unique = world.system_call(self.sessions[place], 0, op);
        self.awaited[place] = Some((unique, call));
    }

    fn create(&mut self, world: &mut World, file: usize) {
        let (parent, name, kind) = (self.dir, self.name(file, false), Kind::File);
        let make = FsOp::Make { parent, name, kind, mode: 0o644, umask: 0, rdev: 0, target: vec![] };
        self.call(world, 0, make, Call::Create(file));
    }

    fn take(&mut self, place: usize, call: Call, result: FsResult) -> Result<(), String> {
        match (call, result) {
            (Call::Create(file), Ok(FsReply::Entry(attr))) => {
                let made = File { id: attr.id, gone: false, second: false, told: 0, returned: 0, shown: 0 };
                match self.files.get_mut(file) {
                    Some(before) => *before = made,
                    None => self.files.push(made),
                }
            }
            (Call::Grow(file), Ok(FsReply::Attr { .. })) => self.files[file].returned = self.files[file].told,
            (Call::Rename(_) | Call::Remove(_) | Call::Close, Ok(FsReply::Done)) => {}
            (Call::MakeDirectory, Ok(FsReply::Entry(attr))) => self.dir = attr.id,
            (Call::LookupDirectory, Ok(FsReply::Entry(attr))) if attr.id == self.dir => {}
            // Others may close the root.
            (Call::LookupDirectory, Err(Errno::EACCES)) => {}
            (Call::Mode(open), Ok(FsReply::Attr { .. })) => (self.is_open, self.changing) = (open, false),
            (Call::Lookup(file, id, changes), found) => {
                let same = changes == self.changes && !self.changing;
                let is_it = |found: InodeId| self.files[file].gone || self.files[file].id != id || found == id;
                match found {
                    Err(Errno::EACCES) if !same || !self.is_open => {}
                    // It has its other name for the moment.
                    Ok(FsReply::Missing) | Err(Errno::ENOENT) if !same || self.is_open => {}
                    Ok(FsReply::Entry(attr)) if is_it(attr.id) && (!same || self.is_open) => {}
                    found => return Err(format!("file {file} looked for, open {}: {found:?}", self.is_open)),
                }
            }
            // Another file has its name by now, or will have.
            (Call::Stat(file, id, _), _) if self.files[file].id != id || self.files[file].gone => {}
            (Call::Open(file, id), Err(Errno::ESTALE)) if self.files[file].id != id || self.files[file].gone => {}
            (Call::Open(file, id), Ok(FsReply::Opened(opened))) => {
                let same = self.files[file].id == id;
                let least = if same { self.files[file].returned.max(self.files[file].shown) } else { 0 };
                self.open[place] = Some((opened.handle, id, least));
            }
            (Call::Read(least), Ok(FsReply::Data(parts))) => {
                let bytes: usize = parts.iter().map(|part| part.len()).sum();
                if (bytes as u64) < least.min(READ_BYTES.into()) {
                    return Err(format!("{bytes} bytes read of at least {least}"));
                }
            }
            (Call::Stat(file, _, least), Ok(FsReply::Attr { attr, .. })) => {
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
            if let Some((handle, ..)) = self.open[place].take() {
                self.call(world, place, FsOp::Release { handle, flock_owner: None }, Call::Close);
            }
            return;
        }
        let file = self.rng.random_range(0..FILES);
        let (id, second) = (self.files[file].id, self.files[file].second);
        if place > 0 {
            return match self.rng.random_range(0..24) {
                16.. => {
                    let mode = OpenMode { read: true, direct: true, ..OpenMode::default() };
                    let (op, call) = match self.open[place] {
                        None => (FsOp::Open { id, mode }, Call::Open(file, id)),
                        Some((handle, id, least)) if self.rng.random_bool(0.7) => {
                            let known = self.files.iter().find(|file| file.id == id && !file.gone);
                            let least = known.map_or(least, |file| file.returned.max(file.shown));
                            self.open[place] = Some((handle, id, least));
                            (FsOp::Read { handle, offset: 0, bytes: READ_BYTES, page: false }, Call::Read(least))
                        }
                        Some((handle, ..)) => {
                            self.open[place] = None;
                            (FsOp::Release { handle, flock_owner: None }, Call::Close)
                        }
                    };
                    self.call(world, place, op, call)
                }
                0 => {
                    let lookup = FsOp::Lookup { parent: InodeId::ROOT, name: self.directory() };
                    self.call(world, place, lookup, Call::LookupDirectory)
                }
                1..=5 => {
                    let lookup = FsOp::Lookup { parent: self.dir, name: self.name(file, second) };
                    // One that is under way may happen before or after.
                    let changes = if self.changing { u64::MAX } else { self.changes };
                    self.call(world, place, lookup, Call::Lookup(file, id, changes))
                }
                _ => {
                    let least = self.files[file].returned.max(self.files[file].shown);
                    self.call(world, place, FsOp::GetAttr { id, handle: None }, Call::Stat(file, id, least))
                }
            };
        }
        if let Some(file) = self.files.iter().position(|file| file.gone) {
            return self.create(world, file);
        }
        if self.rng.random_bool(0.1) {
            self.files[file].gone = true;
            let remove = FsOp::Unlink { parent: self.dir, name: self.name(file, second) };
            return self.call(world, 0, remove, Call::Remove(file));
        }
        if self.rng.random_bool(0.2) {
            self.files[file].second = !second;
            let (from_parent, parent) = (self.dir, self.dir);
            let (from, name) = (self.name(file, second), self.name(file, !second));
            return self.call(world, 0, FsOp::Rename { from_parent, from, parent, name, flags: 0 }, Call::Rename(file));
        }
        if self.rng.random_bool(0.1) {
            let open = !self.is_open;
            (self.changes, self.changing) = (self.changes + 1, true);
            let set = SetAttr { valid: set::MODE, mode: if open { 0o711 } else { 0o700 }, ..SetAttr::default() };
            return self.call(world, 0, FsOp::SetAttr { id: self.dir, set, handle: None }, Call::Mode(open));
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
        if let Err(why) = self.take(place, call, finished.result) {
            return world.checker.violation(format!("{} session {place}: {why}", self.name));
        }
        if self.files.len() < FILES {
            return self.create(world, self.files.len());
        }
        if self.answers.is_multiple_of(ADMITS_EVERY) {
            let file = self.rng.random_range(0..FILES);
            world.admit(InodeId::ROOT, Some(self.directory()));
            world.admit(self.dir, Some(self.name(file, self.files[file].second)));
        }
        let begins =
            self.files.len() == FILES && matches!(call, Call::Create(_)) && self.awaited.iter().all(Option::is_none);
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
