//! What there is to know of a request, said once for each kind: everybody who sends, admits, answers, repeats or checks requests
//! derives from it how. The match has no arm for "all others", and every row says everything, so a new request is thought through
//! before it compiles.

use super::{LockKind, NewNode, Request, open};
use crate::ids::{InodeId, Slot};
use crate::map::{COORDINATOR_SLOT, ClusterMap};
use crate::name::Name;

crate::kinds! {
    /// What an operation of a shard is counted as: a request, or what a data node tells of a write.
    pub enum Counted {
        Lookup "lookup", GetAttr "getattr", SetAttr "setattr", Create "create", Link "link", Unlink "unlink", Rmdir "rmdir",
        Rename "rename", Open "open", Release "release", ReadDir "readdir", ReadLink "readlink", Access "access",
        StatFs "statfs", Lock "lock", Append "append", Sync "sync", Session "session", GetXattr "getxattr",
        SetXattr "setxattr", Pages "pages", Merge "merge",
    }
}

/// A name in a directory.
pub type NameIn<'a> = (InodeId, &'a Name);

/// What a request is about, which is where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About<'a> {
    /// A name: goes to its site.
    Name(NameIn<'a>),
    /// A name that a file gets besides those it has: goes to the site of the new one.
    NameOf(InodeId, NameIn<'a>),
    /// A name and the one that it becomes: goes to the site of the new one.
    Names(NameIn<'a>, NameIn<'a>),
    /// An inode: goes to its home.
    Inode(InodeId),
    /// Inodes of one shard: goes there.
    Inodes(&'a [InodeId]),
    /// A directory, and a slot for an inode that gets no name in it: goes to the slot's shard.
    Slot(InodeId, Slot),
    /// The session itself: goes to the coordinator's shard.
    Session,
    /// A shard as such: the sender chooses which.
    Shard,
    /// Names from a directory on: goes to a path node.
    Path(InodeId),
}

impl<'a> About<'a> {
    /// The slot by which it is routed; of a shard as such, unless the sender chooses another one, that of the coordinator.
    #[inline]
    pub fn slot(self, map: &ClusterMap) -> Slot {
        match self {
            About::Name((parent, name)) | About::NameOf(_, (parent, name)) | About::Names(_, (parent, name)) => {
                map.site(parent, name.as_bytes())
            }
            About::Inode(id) => id.slot(),
            About::Inodes(ids) => ids.first().copied().unwrap_or(InodeId::ROOT).slot(),
            About::Slot(_, slot) => slot,
            About::Session | About::Shard => COORDINATOR_SLOT,
            About::Path(from) => from.slot(),
        }
    }

    /// The names in it, with their directories.
    #[inline]
    pub fn names(self) -> impl Iterator<Item = NameIn<'a>> {
        let names = match self {
            About::Name(name) | About::NameOf(_, name) => [Some(name), None],
            About::Names(from, to) => [Some(from), Some(to)],
            About::Inode(_) | About::Inodes(_) | About::Slot(..) | About::Session | About::Shard | About::Path(_) => {
                [None, None]
            }
        };
        names.into_iter().flatten()
    }

    /// The one inode that it names by its id, other than as the directory of a name.
    #[inline]
    pub fn inode(self) -> Option<InodeId> {
        match self {
            About::NameOf(id, _) | About::Inode(id) | About::Slot(id, _) => Some(id),
            About::Name(_) | About::Names(..) | About::Inodes(_) | About::Session | About::Shard | About::Path(_) => {
                None
            }
        }
    }
}

/// What may be different when a request has been executed: a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changes(u16);

impl Changes {
    /// Nothing.
    pub const NOTHING: Changes = Changes(0);
    /// The names that it is about, and with them their directories.
    pub const NAMES: Changes = Changes(1);
    /// Attributes of the inode that it names, by which the data identity, size and extended attributes of a file are meant too.
    pub const ATTRIBUTES: Changes = Changes(2);
    /// Attributes of files that it does not name.
    pub const OTHERS: Changes = Changes(4);
    /// There is an inode more.
    pub const INODES: Changes = Changes(8);
    /// Its session has something open from then on.
    pub const OPENS: Changes = Changes(16);
    /// Its session has something open no more.
    pub const CLOSES: Changes = Changes(32);
    /// Its session has the end of the file from then on.
    pub const RESERVES: Changes = Changes(64);
    /// Its session gives the end of the file back.
    pub const UNRESERVES: Changes = Changes(128);
    /// Its session takes a file lock, or frees one.
    pub const LOCKS: Changes = Changes(256);
    /// Its session gives up waiting for a file lock, or all that an owner has.
    pub const DROPS: Changes = Changes(512);
    /// What is known of a file lock that waits.
    pub const WAITS: Changes = Changes(1024);
    /// Which sessions may have changed pages of a file in memory.
    pub const PAGES: Changes = Changes(2048);
    /// What the coordinator knows of the session.
    pub const SESSION: Changes = Changes(4096);

    /// What does harm if it is done twice, or what its session must know for certain.
    const ONCE: Changes = Changes::NAMES
        .and(Changes::ATTRIBUTES)
        .and(Changes::OTHERS)
        .and(Changes::INODES)
        .and(Changes::CLOSES)
        .and(Changes::SESSION);

    /// Both.
    #[inline]
    pub const fn and(self, other: Changes) -> Changes {
        Changes(self.0 | other.0)
    }

    /// These, if `condition` holds.
    #[inline]
    const fn only_if(self, condition: bool) -> Changes {
        if condition { self } else { Changes::NOTHING }
    }

    /// Whether one of `any` is among them.
    #[inline]
    pub const fn has(self, any: Changes) -> bool {
        self.0 & any.0 != 0
    }
}

/// What becomes of a request that comes once more under its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeated {
    /// It is executed again: it changes nothing.
    Executed,
    /// It is executed again: what it says then is what it has said.
    Said,
    /// It gets its first result, which is remembered.
    Remembered,
}

/// All of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description<'a> {
    /// Where it goes, and which names and inodes are concerned.
    pub about: About<'a>,
    /// What may be different afterwards.
    pub changes: Changes,
    /// What becomes of a repetition.
    pub repeated: Repeated,
    /// It may come to wait for something, and so is refused while too many do. Not so those by which a session comes back after a
    /// restart, or gives something up: a session sends few of them at a time.
    pub waits: bool,
    /// It is executed only while its session has a lease: it changes something or takes a lock. Not so what is about the session
    /// itself, gives something up, or takes again what a restarted shard has forgotten, which that shard judges by who lives.
    pub leased: bool,
    /// Its session takes again what a former term has forgotten.
    pub again: bool,
    /// Its answer does not wait for the disk, whatever the commit mode: a request whose answer does follows.
    pub early: bool,
    /// It may be refused for want of space.
    pub space: bool,
    /// It reads the names or attributes of its inode as they are now: of a directory, all that is pending is collected before.
    pub collects: bool,
    /// What it is counted as.
    pub counted: Counted,
}

impl Description<'_> {
    /// Whether a session that goes on under another id may ask it once more there, without knowing whether it was executed before.
    #[inline]
    pub fn may_be_asked_anew(&self) -> bool {
        !self.again && !self.changes.has(Changes::ONCE)
    }

    /// Whether its session must know what has become of it: what it knows of the file system may not be true afterwards.
    #[inline]
    pub fn matters(&self) -> bool {
        self.changes.has(Changes::ONCE.and(Changes::OPENS).and(Changes::RESERVES))
    }

    /// Whether a result of it is remembered for repetitions.
    #[inline]
    pub fn is_remembered(&self) -> bool {
        self.repeated == Repeated::Remembered
    }

    /// Whether it is about the session itself, whose death the coordinator knows best.
    #[inline]
    pub fn is_of_session(&self) -> bool {
        self.about == About::Session
    }
}

/// In the rows below: true, and false.
const X: bool = true;
const O: bool = false;

/// waits, leased, again, early, space, collects.
type Row = [bool; 6];

#[inline(always)]
fn say<'a>(about: About<'a>, changes: Changes, repeated: Repeated, row: Row, counted: Counted) -> Description<'a> {
    let [waits, leased, again, early, space, collects] = row;
    Description { about, changes, repeated, waits, leased, again, early, space, collects, counted }
}

impl Changes {
    /// Of an open with these bits of [`open`].
    #[inline]
    const fn of_open(flags: u32) -> Changes {
        let opens = Changes::OPENS.only_if(flags & open::REGISTER != 0);
        let pages = Changes::PAGES.only_if(flags & open::MAP != 0);
        opens.and(pages).and(Changes::ATTRIBUTES.only_if(flags & (open::TRUNCATE | open::KILL_SUIDGID) != 0))
    }

    /// Of a request that makes this inode.
    #[inline]
    const fn of_new(node: &NewNode) -> Changes {
        let pages = Changes::PAGES.only_if(node.open & open::MAP != 0);
        Changes::INODES.and(pages).and(Changes::OPENS.only_if(node.open & open::REGISTER != 0))
    }
}

impl Request {
    /// What there is to know of it. Whoever calls uses a few columns, and pays for these only.
    #[inline(always)]
    pub fn describe(&self) -> Description<'_> {
        use About::{Inode, Inodes, Name, NameOf, Names, Session, Shard};
        use Counted as C;
        use Repeated::{Executed, Remembered, Said};
        use Request as Q;
        const NOTHING: Changes = Changes::NOTHING;
        const NAMES: Changes = Changes::NAMES;
        const ATTRIBUTES: Changes = Changes::ATTRIBUTES;
        const OTHERS: Changes = Changes::OTHERS;
        const PAGES: Changes = Changes::PAGES;
        const SESSION: Changes = Changes::SESSION;
        // The columns: waits, leased, again, early, space, collects.
        match self {
            Q::Lookup { parent, name } => say(Name((*parent, name)), NOTHING, Executed, [X, O, O, O, O, O], C::Lookup),
            Q::LookupLed { parent, name, .. } => {
                say(Name((*parent, name)), NOTHING, Executed, [X, O, O, O, O, O], C::Lookup)
            }
            Q::GetAttr { id } => say(Inode(*id), NOTHING, Executed, [X, O, O, O, O, X], C::GetAttr),
            Q::GetAttrs { ids } => say(Inodes(ids), NOTHING, Executed, [O, O, O, O, O, O], C::GetAttr),
            Q::DataRef { id } => say(Inode(*id), NOTHING, Executed, [X, O, O, O, O, O], C::GetAttr),
            Q::SetAttr { id, .. } => say(Inode(*id), ATTRIBUTES, Remembered, [X, X, O, O, X, O], C::SetAttr),
            Q::Create { parent, name, node } => {
                let (changes, early) = (NAMES.and(Changes::of_new(node)), node.open & open::EARLY != 0);
                say(Name((*parent, name)), changes, Remembered, [X, X, O, early, X, O], C::Create)
            }
            Q::TmpFile { parent, slot, node } => {
                say(About::Slot(*parent, *slot), Changes::of_new(node), Remembered, [X, X, O, O, X, O], C::Create)
            }
            Q::Link { id, parent, name } => {
                say(NameOf(*id, (*parent, name)), NAMES.and(ATTRIBUTES), Remembered, [X, X, O, O, X, O], C::Link)
            }
            Q::Unlink { parent, name } => {
                say(Name((*parent, name)), NAMES.and(OTHERS), Remembered, [X, X, O, O, O, O], C::Unlink)
            }
            Q::Rmdir { parent, name } => say(Name((*parent, name)), NAMES, Remembered, [X, X, O, O, O, O], C::Rmdir),
            Q::Rename { from_parent, from, parent, name, .. } => {
                let about = Names((*from_parent, from), (*parent, name));
                say(about, NAMES.and(OTHERS), Remembered, [X, X, O, O, X, O], C::Rename)
            }
            Q::Open { id, flags } => {
                let again = flags & open::AGAIN != 0;
                say(Inode(*id), Changes::of_open(*flags), Remembered, [!again, !again, again, O, O, O], C::Open)
            }
            Q::OpenAgain { id, flags, .. } => {
                say(Inode(*id), Changes::of_open(*flags), Remembered, [O, O, X, O, O, O], C::Open)
            }
            Q::Release { id } => say(Inode(*id), Changes::CLOSES, Remembered, [O, O, O, O, O, O], C::Release),
            Q::ReadDir { id, .. } => say(Inode(*id), NOTHING, Executed, [X, O, O, O, O, X], C::ReadDir),
            Q::ReadLink { id } => say(Inode(*id), NOTHING, Executed, [X, O, O, O, O, O], C::ReadLink),
            Q::Access { id, .. } => say(Inode(*id), NOTHING, Executed, [X, O, O, O, O, O], C::Access),
            Q::SetLock { id, lock, again, .. } => {
                let takes = !again && lock.kind != LockKind::Unlock;
                say(Inode(*id), Changes::LOCKS, Remembered, [takes, takes, *again, O, O, O], C::Lock)
            }
            Q::TestLock { id, .. } => say(Inode(*id), NOTHING, Executed, [X, O, O, O, O, O], C::Lock),
            Q::CancelLock { id, .. } => say(Inode(*id), Changes::DROPS, Remembered, [O, O, O, O, O, O], C::Lock),
            Q::DropLocks { id, .. } => say(Inode(*id), Changes::DROPS, Remembered, [O, O, O, O, O, O], C::Lock),
            Q::ConfirmWait { id, .. } => say(Inode(*id), Changes::WAITS, Said, [O, O, O, O, O, O], C::Lock),
            Q::LockWaits { .. } => say(Shard, NOTHING, Executed, [O, O, O, O, O, O], C::Lock),
            Q::Reserve { id } => say(Inode(*id), Changes::RESERVES, Remembered, [X, X, O, O, O, O], C::Append),
            Q::Unreserve { id } => say(Inode(*id), Changes::UNRESERVES, Remembered, [O, O, O, O, O, O], C::Append),
            Q::Sync { id } => say(Inode(*id), NOTHING, Executed, [X, O, O, O, O, X], C::Sync),
            Q::SetXattr { id, .. } => say(Inode(*id), ATTRIBUTES, Remembered, [X, X, O, O, X, O], C::SetXattr),
            Q::GetXattr { id, .. } => say(Inode(*id), NOTHING, Executed, [X, O, O, O, O, O], C::GetXattr),
            Q::ListXattr { id } => say(Inode(*id), NOTHING, Executed, [X, O, O, O, O, O], C::GetXattr),
            Q::RemoveXattr { id, .. } => say(Inode(*id), ATTRIBUTES, Remembered, [X, X, O, O, O, O], C::SetXattr),
            Q::WriteBack { id, .. } => say(Inode(*id), NOTHING, Executed, [X, O, O, O, O, O], C::Pages),
            Q::WrittenBack { id, .. } => say(Inode(*id), PAGES, Remembered, [O, O, O, O, O, O], C::Pages),
            Q::Resolve { from, .. } => say(About::Path(*from), NOTHING, Executed, [X, O, O, O, O, O], C::Lookup),
            Q::Map { id } => say(Inode(*id), PAGES, Remembered, [X, O, O, O, O, O], C::Pages),
            Q::Learn { writes, .. } => say(Inode(writes.data.inode), NOTHING, Executed, [O, O, O, O, O, O], C::Merge),
            Q::StatFs => say(Shard, NOTHING, Executed, [O, O, O, O, O, O], C::StatFs),
            Q::Kept => say(Shard, NOTHING, Executed, [O, O, O, O, O, O], C::Session),
            Q::Attach { .. } => say(Session, SESSION, Remembered, [O, O, O, O, O, O], C::Session),
            Q::Renew => say(Session, SESSION, Said, [O, O, O, O, O, O], C::Session),
            Q::RenewAlone => say(Session, SESSION, Said, [O, O, O, O, O, O], C::Session),
            Q::HandBack { .. } => say(Session, SESSION, Said, [O, O, O, O, O, O], C::Session),
            Q::Detach { .. } => say(Session, SESSION, Remembered, [O, O, O, O, O, O], C::Session),
        }
    }
}

#[cfg(test)]
mod tests;
