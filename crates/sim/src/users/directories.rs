//! One user of one directory where power is lost and commits are not awaited: what was there when the directory was synced is there
//! afterwards; whatever was made, removed or renamed since may have happened or not, name by name. A sync after a power loss is
//! answered only if all that was acknowledged is there, else by EIO, once; and never by EIO if nothing was acknowledged between the sync
//! before and the power loss.
//!
//! What is documented and not judged: EIO may come although the disk had come further than anybody knows.

use super::User;
use super::lossy::Lossy;
use crate::check::Excuse;
use crate::model::Caller;
use crate::workload::PRIVATE;
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

/// The user.
pub struct Directories {
    rng: ChaCha8Rng,
    session: usize,
    home: Name,
    dir: InodeId,
    handle: Option<Handle>,
    /// What making a file that exists is answered.
    exists: Errno,
    /// The call under way, and how often power had been lost when it began.
    awaited: Option<(u64, u64, Call)>,
    losses: u64,
    /// Something was acknowledged since the last sync.
    unsynced: bool,
    /// Power was lost when something was.
    excused: bool,
    names: Vec<Lossy<Leads>>,
    settled: bool,
    closing: bool,
    done: bool,
}

impl Directories {
    /// Begins in a new session. The world may lose power once everybody [`User::is_settled`].
    pub fn begin(world: &mut World, seed: u64) -> Directories {
        let session = world.add_session(&[Caller::default()]);
        let home = Name::new(format!("{PRIVATE}s-directory-{session}").as_bytes()).expect("a short name");
        let mut user = Directories {
            rng: ChaCha8Rng::seed_from_u64(seed ^ 0xd1),
            session,
            home: home.clone(),
            dir: InodeId::NONE,
            handle: None,
            // Where files come in halves the kernel is to look before it says EEXIST.
            exists: if world.config.in_halves { Errno::ESTALE } else { Errno::EEXIST },
            awaited: None,
            losses: 0,
            unsynced: false,
            excused: false,
            names: vec![Lossy::new(None); NAMES],
            settled: false,
            closing: false,
            done: false,
        };
        let make = user.make(InodeId::ROOT, home, Kind::Directory);
        user.call(world, make, Call::MakeHome);
        user
    }

    fn make(&self, parent: InodeId, name: Name, kind: Kind) -> FsOp {
        FsOp::Make { parent, name, kind, mode: 0o755, umask: 0, rdev: 0, target: vec![] }
    }

    fn name(&self, index: usize) -> Name {
        Name::new(format!("n{index}").as_bytes()).expect("a short name")
    }

    fn call(&mut self, world: &mut World, op: FsOp, call: Call) {
        let unique = world.system_call(self.session, 0, op);
        let home = &self.home;
        world.narrate(|| format!("{home:?}: #{unique} is {call:?}"));
        self.awaited = Some((unique, world.counters.power_losses, call));
    }

    fn take(&mut self, call: Call, sure: bool, result: FsResult) -> Result<(), String> {
        match (call, result) {
            (Call::MakeHome, Ok(FsReply::Entry(attr))) => self.dir = attr.id,
            (Call::Open, Ok(FsReply::Opened(opened))) => self.handle = Some(opened.handle),
            (Call::Sync, Ok(FsReply::Done)) => return self.each(|name| name.synced(sure)),
            (Call::Sync, Err(Errno::EIO)) if self.excused => self.names.iter_mut().for_each(Lossy::gone),
            (Call::Make(index), Ok(FsReply::Entry(attr))) => {
                return self.changes(index, sure, |was| was.is_none().then_some(Some(attr.id)));
            }
            (Call::Make(index), Err(errno)) if errno == self.exists => {
                return self.shows(index, sure, |is| is.is_some());
            }
            (Call::Remove(index), Ok(FsReply::Done)) => {
                return self.changes(index, sure, |was| was.is_some().then_some(None));
            }
            (Call::Remove(index) | Call::Look(index), Ok(FsReply::Missing) | Err(Errno::ENOENT)) => {
                return self.shows(index, sure, |is| is.is_none());
            }
            (Call::Look(index), Ok(FsReply::Entry(attr))) => {
                return self.shows(index, sure, |is| *is == Some(attr.id));
            }
            (Call::Rename(from, to), Ok(FsReply::Done)) => {
                let moved: Vec<Leads> = self.names[from].may_be().iter().copied().filter(Option::is_some).collect();
                self.changes(from, sure, |was| was.is_some().then_some(None))?;
                self.names[to].change(&moved, sure);
                self.unsynced = true;
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

    /// A change of a name was acknowledged: what comes of what was there, if that is what the change needs.
    fn changes(&mut self, index: usize, sure: bool, to: impl Fn(Leads) -> Option<Leads>) -> Result<(), String> {
        let mut values: Vec<Leads> = self.names[index].may_be().iter().filter_map(|was| to(*was)).collect();
        values.dedup();
        if values.is_empty() {
            return Err(format!("n{index} is one of {:?}", self.names[index].may_be()));
        }
        self.names[index].change(&values, sure);
        self.unsynced = true;
        Ok(())
    }

    fn shows(&mut self, index: usize, sure: bool, is: impl Fn(&Leads) -> bool) -> Result<(), String> {
        self.names[index].shows(is, sure).map_err(|why| format!("n{index} {why}"))
    }

    fn next(&mut self, world: &mut World) {
        let Some(handle) = self.handle else {
            return self.call(world, FsOp::OpenDir { id: self.dir, noatime: true }, Call::Open);
        };
        if !self.settled {
            return self.call(world, FsOp::Fsync { handle }, Call::Sync);
        }
        let (index, other) = (self.rng.random_range(0..NAMES), self.rng.random_range(0..NAMES));
        let (parent, name) = (self.dir, self.name(index));
        match self.rng.random_range(0..100) {
            0..35 => {
                let op = self.make(parent, name, Kind::File);
                self.call(world, op, Call::Make(index));
            }
            35..55 => self.call(world, FsOp::Unlink { parent, name }, Call::Remove(index)),
            55..68 if index != other => {
                let op = FsOp::Rename { from_parent: parent, from: name, parent, name: self.name(other), flags: 0 };
                self.call(world, op, Call::Rename(index, other));
            }
            55..78 => self.call(world, FsOp::Lookup { parent, name }, Call::Look(index)),
            78..84 => self.list(world, handle),
            _ => self.call(world, FsOp::Fsync { handle }, Call::Sync),
        }
    }

    fn list(&mut self, world: &mut World, handle: Handle) {
        self.call(world, FsOp::ReadDirPlus { handle, after: Cookie(0), bytes: LIST_BYTES }, Call::List);
    }
}

impl User for Directories {
    fn has(&self, session: usize) -> bool {
        self.session == session
    }

    fn answered(&mut self, world: &mut World, finished: Finished) {
        let Some((unique, asked, call)) = self.awaited.take().filter(|(unique, ..)| *unique == finished.unique) else {
            return world.checker.violation(format!("{:?} answers what nobody asked", self.home));
        };
        let losses = world.counters.power_losses;
        if std::mem::replace(&mut self.losses, losses) != losses {
            self.names.iter_mut().for_each(Lossy::lost);
            self.excused |= self.unsynced || matches!(call, Call::Make(_) | Call::Remove(_) | Call::Rename(..));
        }
        if call == Call::Sync && matches!(finished.result, Err(Errno::EIO)) {
            world.checker.excuse(Excuse::Unsynced);
        }
        if let Err(why) = self.take(call, asked == losses, finished.result) {
            return world.checker.violation(format!("{:?} #{unique}: {why}", self.home));
        }
        if call == Call::Sync {
            (self.settled, self.unsynced, self.excused) = (true, false, false);
        }
        if !self.closing {
            self.next(world);
        } else if let (Some(handle), false) = (self.handle, std::mem::replace(&mut self.done, true)) {
            self.list(world, handle);
        }
    }

    fn close(&mut self) {
        self.closing = true;
    }

    fn is_idle(&self) -> bool {
        self.awaited.is_none()
    }

    fn is_settled(&self) -> bool {
        self.settled
    }
}
