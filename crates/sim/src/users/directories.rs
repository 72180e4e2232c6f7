//! One user of one directory where power is lost and commits are not awaited: what was there when the directory was synced is there
//! afterwards; whatever was made, removed or renamed since may have happened or not, name by name. A sync after a power loss is
//! answered only if all that was acknowledged is there, else by EIO, once; and never by EIO if nothing was acknowledged between the sync
//! before and the power loss.
//!
//! What is documented and not judged: EIO may come although the disk had come further than anybody knows. A process that is killed before
//! it has noted that it serves after a loss of power does not know whether there was another one.

use super::User;
use super::line::{self, Call as _, Heard, Line, Then};
use super::lossy::Lossy;
use crate::world::{Finished, World};
use onpath_session::fs::{FsOp, FsReply, FsResult, Handle};
use onpath_wire::Errno;
use onpath_wire::ids::{Cookie, InodeId};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Names of the directory.
const NAMES: usize = 8;
/// Bytes asked for by a listing: more than there are.
const LIST_BYTES: u32 = 1 << 16;

/// What a name leads to.
type Leads = Option<InodeId>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    MakeHome,
    Open,
    Sync,
    Make(usize),
    Remove(usize),
    Rename(usize, usize),
    Look(usize),
    List,
}

impl Call {
    /// Whether it changes the directory.
    fn changes(self) -> bool {
        matches!(self, Call::Make(_) | Call::Remove(_) | Call::Rename(..))
    }
}

impl line::Call for Call {
    fn is_sync(&self) -> bool {
        *self == Call::Sync
    }
}

/// The user.
pub struct Directories {
    rng: ChaCha8Rng,
    line: Line<Call>,
    dir: InodeId,
    handle: Option<Handle>,
    /// What making a file that exists is answered.
    exists: Errno,
    /// Something was acknowledged since the last sync.
    unsynced: bool,
    /// Power was lost when something was, as far as the processes that ended knew.
    excused: bool,
    names: Vec<Lossy<Leads>>,
}

fn make(parent: InodeId, name: Name, kind: Kind) -> FsOp {
    FsOp::Make { parent, name, kind, mode: 0o755, umask: 0, rdev: 0, target: vec![] }
}

impl Directories {
    /// Begins in a new session. The world may lose power once everybody [`User::is_settled`].
    pub fn begin(world: &mut World, seed: u64) -> Directories {
        let mut user = Directories {
            rng: ChaCha8Rng::seed_from_u64(seed ^ 0xd1),
            line: Line::begin(world, "directory"),
            dir: InodeId::NONE,
            handle: None,
            // Where files come in halves the kernel is to look before it says EEXIST.
            exists: if world.config.in_halves { Errno::ESTALE } else { Errno::EEXIST },
            unsynced: false,
            excused: false,
            names: vec![Lossy::new(None); NAMES],
        };
        let home = user.line.name.clone();
        user.line.call(world, make(InodeId::ROOT, home, Kind::Directory), Call::MakeHome);
        user
    }

    fn name(&self, index: usize) -> Name {
        Name::new(format!("n{index}").as_bytes()).expect("a short name")
    }

    fn take(&mut self, call: Call, sure: bool, result: FsResult) -> Result<(), String> {
        match (call, result) {
            (Call::MakeHome, Ok(FsReply::Entry(attr))) => self.dir = attr.id,
            (Call::Open, Ok(FsReply::Opened(opened))) => self.handle = Some(opened.handle),
            (Call::Sync, Ok(FsReply::Done)) => return self.each(|name| name.synced(sure)),
            (Call::Sync, Err(Errno::EIO)) if self.excused => self.names.iter_mut().for_each(Lossy::gone),
            (Call::Make(index), Ok(FsReply::Entry(attr))) => {
                return self.changes(index, sure, Option::is_none, Some(attr.id));
            }
            (Call::Make(index), Err(errno)) if errno == self.exists => {
                return self.shows(index, sure, |is| is.is_some());
            }
            (Call::Remove(index), Ok(FsReply::Done)) => {
                return self.changes(index, sure, Option::is_some, None);
            }
            (Call::Remove(index) | Call::Look(index), Ok(FsReply::Missing) | Err(Errno::ENOENT)) => {
                return self.shows(index, sure, |is| is.is_none());
            }
            (Call::Look(index), Ok(FsReply::Entry(attr))) => {
                return self.shows(index, sure, |is| *is == Some(attr.id));
            }
            (Call::Rename(from, to), Ok(FsReply::Done)) => {
                let moved: Vec<Leads> = self.names[from].may_be().iter().copied().filter(Option::is_some).collect();
                self.changes(from, sure, Option::is_some, None)?;
                self.names[to].change(&moved, sure);
            }
            (Call::Rename(from, _), Err(Errno::ENOENT)) => return self.shows(from, sure, |is| is.is_none()),
            (Call::List, Ok(FsReply::DirPlus(entries))) => {
                for index in 0..NAMES {
                    let name = self.name(index);
                    let found = entries.iter().find(|(entry, _)| entry.name == name).map(|(entry, _)| entry.child);
                    self.shows(index, sure, |is| *is == found)?;
                }
                let known = entries.iter().filter(|(entry, _)| entry.cookie > Cookie::DOTDOT).count();
                let named = (0..NAMES).map(|index| self.name(index));
                let ours = named.filter(|name| entries.iter().any(|(entry, _)| entry.name == *name)).count();
                if known != ours {
                    return Err(format!("lists {entries:?}"));
                }
            }
            (call, result) => return Err(format!("{call:?} is answered {result:?}")),
        }
        Ok(())
    }

    fn each(&mut self, mut what: impl FnMut(&mut Lossy<Leads>) -> Result<(), String>) -> Result<(), String> {
        let mut names = self.names.iter_mut().enumerate();
        names.try_for_each(|(index, name)| what(name).map_err(|why| format!("n{index} {why}")))
    }

    /// A name was changed to this, for which it must have been so before.
    fn changes(&mut self, index: usize, sure: bool, was: impl Fn(&Leads) -> bool, to: Leads) -> Result<(), String> {
        let name = &mut self.names[index];
        if !name.may_be().iter().any(was) {
            return Err(format!("n{index} is one of {:?}", name.may_be()));
        }
        name.change(&[to], sure);
        self.unsynced = true;
        Ok(())
    }

    fn shows(&mut self, index: usize, sure: bool, is: impl Fn(&Leads) -> bool) -> Result<(), String> {
        self.names[index].shows(is, sure).map_err(|why| format!("n{index} {why}"))
    }

    fn next(&mut self, world: &mut World) {
        let Some(handle) = self.handle else {
            return self.line.call(world, FsOp::OpenDir { id: self.dir, noatime: true }, Call::Open);
        };
        if !self.line.is_settled() {
            return self.line.call(world, FsOp::Fsync { handle }, Call::Sync);
        }
        let (index, other) = (self.rng.random_range(0..NAMES), self.rng.random_range(0..NAMES));
        let (parent, name) = (self.dir, self.name(index));
        match self.rng.random_range(0..100) {
            0..35 => {
                self.line.call(world, make(parent, name, Kind::File), Call::Make(index));
            }
            35..55 => self.line.call(world, FsOp::Unlink { parent, name }, Call::Remove(index)),
            55..68 if index != other => {
                let op = FsOp::Rename { from_parent: parent, from: name, parent, name: self.name(other), flags: 0 };
                self.line.call(world, op, Call::Rename(index, other));
            }
            55..78 => self.line.call(world, FsOp::Lookup { parent, name }, Call::Look(index)),
            78..84 => self.list(world, handle),
            _ => self.line.call(world, FsOp::Fsync { handle }, Call::Sync),
        }
    }

    fn list(&mut self, world: &mut World, handle: Handle) {
        self.line.call(world, FsOp::ReadDirPlus { handle, after: Cookie(0), bytes: LIST_BYTES }, Call::List);
    }
}

impl User for Directories {
    fn has(&self, session: usize) -> bool {
        self.line.has(session)
    }

    fn answered(&mut self, world: &mut World, finished: Finished) {
        let Some(heard) = self.line.hears(world, finished) else { return };
        let Heard { unique, call, result, lost, sure, doubted, .. } = heard;
        if lost {
            self.names.iter_mut().for_each(Lossy::lost);
        }
        self.excused |= doubted && (self.unsynced || call.changes());
        if let Err(why) = self.take(call, sure, result) {
            return self.line.is_wrong(world, unique, &why);
        }
        if call.is_sync() {
            self.line.settle();
            (self.unsynced, self.excused) = (false, false);
        }
        match (self.line.then(self.handle.is_some()), self.handle) {
            (Then::Next, _) => self.next(world),
            (Then::Last, Some(handle)) => self.list(world, handle),
            (Then::Last, None) | (Then::Nothing, _) => {}
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
