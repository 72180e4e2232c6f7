//! What the kernel may cache while the session is alone in the file system.
//!
//! Answers carry a validity of [`CACHED_MS`] as long as the session says that it is alone, else none. What the kernel forgets by
//! itself when this mount changes something is its business; what it does not, or not surely, is here:
//! - *Names* are given only below directories that everybody may search, since nobody checks who finds a name in the cache. When that ends –
//!   chmod, an ACL, a name that moves below another directory – every name is made void, or, where that would take away what is
//!   mounted on names of ours, the answer waits until they are void by themselves.
//! - *Attributes of a directory* are given only in answers to questions for them, which are exact, and only if no name was changed
//!   meanwhile. The kernel marks a directory whose names it changes, but an answer of before that it handles later clears the mark:
//!   so it is told as well, once for each time that it was given attributes.
//! - *Attributes of files* whose changes the kernel does not number (extended attributes, fallocate, copies, pages of mappings): told as well.
//! - Files with setuid or setgid bits, which a write clears: never.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use hashbrown::HashMap;
use onpath_session::fs::describe::{Changed, FsDescription};
use onpath_session::fs::{FsOp, FsReply, FsResult};
use onpath_wire::attr::{AttrWire, flag};
use onpath_wire::errno::Errno;
use onpath_wire::inode::Kind;
use onpath_wire::limits::{CACHED_MS, CACHED_SLACK_MS};
use rustix::time::{ClockId, clock_gettime};

use super::nodes::{common, is_apart, node_id};
use super::protected::depends;
use crate::request::{Operation, Request};

/// How long a cached answer may be used in all, microseconds.
const USED_US: u64 = (CACHED_MS + CACHED_SLACK_MS) * 1_000;
/// Directories that are remembered for having something cached; when there are more, all are forgotten, and count as if they had.
const REMEMBERED_MAX: usize = 4_096;
/// setuid and setgid.
const SUID_SGID: u16 = 0o6000;

/// The clock of the session.
pub(super) fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000 + now.tv_nsec.cast_unsigned() / 1_000
}

/// Whether answers may be cached now. Looked at for every answer, changed rarely.
#[derive(Default)]
pub(super) struct Gate {
    /// The time of being alone, 0 if there is none, and when it ends.
    alone: AtomicU64,
    alone_until_us: AtomicU64,
    /// Until when the kernel may use what it was given.
    used_until_us: AtomicU64,
    /// The last time of being alone that is over; what the session says may come late.
    over: Mutex<u64>,
    writing: RwLock<()>,
}

impl Gate {
    /// The session is alone until then.
    pub(super) fn open(&self, alone: u64, until_us: u64) {
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        if alone > *over {
            self.alone_until_us.fetch_max(until_us, Ordering::SeqCst);
            self.alone.store(alone, Ordering::SeqCst);
        }
    }

    /// No answer is given to be cached any more, but for those that are being written.
    pub(super) fn shut(&self, upto: u64) {
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        *over = upto.max(*over);
        self.alone.store(0, Ordering::SeqCst);
    }

    /// Waits for these; then says for how long the kernel may go on using what it was given.
    pub(super) fn drain(&self) -> Duration {
        drop(self.writing.write().unwrap_or_else(PoisonError::into_inner));
        Duration::from_micros(self.used_until_us.load(Ordering::SeqCst).saturating_sub(now_us()))
    }

    /// An answer is about to be written.
    pub(super) fn begin(&self) -> RwLockReadGuard<'_, ()> {
        self.writing.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// For how long the answer may be cached to a request that came in this time of being alone; asked after [`Gate::begin`]. What was
    /// answered before the session was alone may not be true any more.
    fn valid(&self, came: u64) -> Duration {
        if came == 0 || self.alone.load(Ordering::SeqCst) != came {
            return Duration::ZERO;
        }
        let now_us = now_us();
        if now_us >= self.alone_until_us.load(Ordering::SeqCst) {
            return Duration::ZERO;
        }
        self.used_until_us.fetch_max(now_us + USED_US, Ordering::SeqCst);
        Duration::from_millis(CACHED_MS)
    }

    /// Whether the kernel may have something cached.
    fn is_used(&self) -> bool {
        let until_us = self.used_until_us.load(Ordering::Relaxed);
        until_us > 0 && now_us() < until_us
    }
}

/// What a request does to what the kernel has cached.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Touches {
    /// Directories of which it changes names; 0 is none.
    directories: [u64; 2],
    /// Inodes whose attributes it changes without the kernel's numbering that.
    inodes: [u64; 2],
    /// It may take the right to search this directory, or to follow names in it, away from somebody.
    closes: u64,
    /// A name moves from one directory to another (both ways if they are exchanged).
    moves: bool,
}

impl Touches {
    /// Those of a kernel's request, which is this one for the session.
    pub(super) fn of(request: &Request<'_>, op: &FsOp) -> Touches {
        let node = request.header.nodeid;
        let FsDescription { directories, changed, closes, .. } = op.describe();
        let inodes = match (changed, &request.operation) {
            (Changed::Unnoticed, Operation::CopyFileRange { to_inode, .. }) => [node, *to_inode],
            (Changed::Unnoticed, _) => [common(node), 0],
            // Changes through a node of its own are not the kernel's to number for the other one.
            (Changed::Noticed, _) if is_apart(node) => [common(node), 0],
            (Changed::Noticed | Changed::Nothing, _) => [0, 0],
        };
        Touches {
            directories: directories.map(|directory| directory.map_or(0, node_id)),
            inodes,
            closes: if closes { node } else { 0 },
            moves: directories[1].is_some(),
        }
    }

    fn changes_names(&self) -> bool {
        self.directories[0] != 0
    }
}

/// What is to be told to the kernel before an answer.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// Inodes whose attributes it is to forget.
    pub(super) attributes: Vec<u64>,
    /// All names are void.
    pub(super) names: bool,
}

impl Before {
    pub(super) fn is_nothing(&self) -> bool {
        self.attributes.is_empty() && !self.names
    }
}

/// When a request came, among the changes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Came {
    alone: u64,
    changes: u64,
    closings: u64,
}

impl Came {
    /// Whether the session was alone.
    pub(super) fn is_alone(&self) -> bool {
        self.alone != 0
    }
}

/// How an answer may be cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Valid {
    pub(super) name: Duration,
    pub(super) attributes: Duration,
}

/// What the kernel was given, directory by directory, and which changes are under way.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// Changes of names that began, and that are not answered yet.
    changes: u64,
    changing: u32,
    /// Times that a directory may not have been searchable by everybody any more.
    closings: u64,
    /// Directories whose attributes it has, and until when.
    attributes: HashMap<u64, u64>,
    /// Directories below which it has names, and until when.
    names: HashMap<u64, u64>,
    /// Until when it may have names below others.
    forgotten_us: u64,
}

impl Given {
    /// A request comes.
    pub(super) fn begin(&mut self, touches: &Touches, gate: &Gate) -> Came {
        if touches.changes_names() {
            self.changes += 1;
            self.changing += 1;
        }
        Came { alone: gate.alone.load(Ordering::SeqCst), changes: self.changes, closings: self.closings }
    }

    /// It is about to be answered: what is to be told before.
    pub(super) fn end(&mut self, touches: &Touches, gate: &Gate, result: &FsResult) -> Before {
        if touches.changes_names() {
            self.changing -= 1;
        }
        let closes = touches.closes != 0 && !is_searchable(result);
        let closed = closes && self.has_names(touches.closes, now_us());
        if closes {
            self.closings += 1;
            self.names.remove(&touches.closes);
        }
        let mut before = Before::default();
        if !gate.is_used() {
            return before;
        }
        let now_us = now_us();
        let had = |node: &&u64| self.attributes.remove(*node).is_some_and(|until_us| now_us < until_us);
        before.attributes.extend(touches.directories.iter().filter(|node| **node != 0).filter(had));
        before.attributes.extend(touches.inodes.iter().filter(|node| **node != 0));
        let may_be_done = matches!(result, Ok(_) | Err(Errno::EIO | Errno::EINTR));
        let moved =
            touches.moves && may_be_done && touches.directories.iter().any(|node| !self.names.contains_key(node));
        before.names = closed || moved;
        before
    }

    fn has_names(&self, directory: u64, now_us: u64) -> bool {
        now_us < self.forgotten_us.max(self.names.get(&directory).copied().unwrap_or_default())
    }

    /// How the attributes of `attr`, just asked for, may be cached.
    fn attributes(&mut self, attr: &AttrWire, node: u64, came: Came, valid: Duration) -> Duration {
        if attr.kind != Kind::Directory {
            return if is_stable(attr) { valid } else { Duration::ZERO };
        }
        if self.changing > 0 || self.changes != came.changes || attr.flags & flag::UNSETTLED != 0 {
            return Duration::ZERO;
        }
        if self.attributes.len() >= REMEMBERED_MAX {
            let now_us = now_us();
            self.attributes.retain(|_, until_us| now_us < *until_us);
        }
        if self.attributes.len() >= REMEMBERED_MAX {
            return Duration::ZERO;
        }
        self.attributes.insert(node, now_us() + USED_US);
        valid
    }

    /// Whether a name below `parent` may be cached.
    fn name(&mut self, flags: u8, parent: u64, came: Came, valid: Duration) -> Duration {
        if flags & flag::SEARCHABLE == 0 || self.closings != came.closings {
            return Duration::ZERO;
        }
        let until_us = now_us() + USED_US;
        if self.names.len() >= REMEMBERED_MAX && !self.names.contains_key(&parent) {
            self.names.clear();
            self.forgotten_us = until_us;
        }
        self.names.insert(parent, until_us);
        valid
    }

    /// How the answer to a request for `node` may be cached. `question`: it asked for attributes.
    pub(super) fn validity(&mut self, reply: &FsReply, gate: &Gate, node: u64, came: Came, question: bool) -> Valid {
        let valid = gate.valid(came.alone);
        if valid.is_zero() {
            return Valid::default();
        }
        let (name, attributes) = match reply {
            FsReply::Entry(attr) | FsReply::Created { attr, fresh: true, .. } if attr.nlink > 0 => {
                let name = if depends(attr) { Duration::ZERO } else { self.name(attr.flags, node, came, valid) };
                (name, named(attr, valid))
            }
            // The kernel does not look whether it has newer attributes than these.
            FsReply::Linked(attr) if depends(attr) => return Valid::default(),
            FsReply::Linked(attr) => (self.name(attr.flags, node, came, valid), Duration::ZERO),
            FsReply::Missing => (self.name(flag::SEARCHABLE, node, came, valid), Duration::ZERO),
            // Of each entry as of an `Entry`; none has attributes if not everybody may search the directory.
            FsReply::DirPlus(entries) if entries.iter().any(|(_, attr)| attr.is_some()) => {
                (self.name(flag::SEARCHABLE, node, came, valid), valid)
            }
            FsReply::Attr { .. } if is_apart(node) => return Valid::default(),
            FsReply::Attr { attr, .. } if question || attr.kind != Kind::Directory => {
                (Duration::ZERO, self.attributes(attr, node, came, valid))
            }
            _ => return Valid::default(),
        };
        Valid { name, attributes }
    }
}

/// For how long the attributes in an answer by name are valid: those of a directory are not exact.
pub(super) fn named(attr: &AttrWire, valid: Duration) -> Duration {
    let apart = attr.flags & flag::APART != 0;
    if is_stable(attr) && attr.kind != Kind::Directory && !apart { valid } else { Duration::ZERO }
}

/// Whether attributes stay as they are unless this mount changes them, and the kernel notices when it does.
fn is_stable(attr: &AttrWire) -> bool {
    let suid = attr.kind == Kind::File && attr.mode & SUID_SGID != 0;
    attr.flags & flag::UNSETTLED == 0 && attr.nlink > 0 && !suid
}

/// Whether everybody may (still) search the directory whose mode or ACL was to be changed, and no name in it is protected (`protected`); nobody
/// knows what an ACL says.
fn is_searchable(result: &FsResult) -> bool {
    const ALL: u16 = 0o111;
    const WRITABLE: u16 = 0o022;
    const STICKY: u16 = 0o1000;
    match result {
        Ok(FsReply::Attr { attr, .. }) => {
            let protects = attr.mode & STICKY != 0 && attr.mode & WRITABLE != 0;
            let searchable = attr.mode & ALL == ALL && attr.flags & flag::XATTRS == 0;
            attr.kind != Kind::Directory || searchable && !protects
        }
        Ok(_) | Err(Errno::EIO | Errno::EINTR) => false,
        Err(_) => true,
    }
}
