//! A client session behind the mount: kernel requests become session requests, session answers become replies.
//!
//! The settings of a mount:
//! - node ids stand for inode ids, which never repeat: generation 0;
//! - names and attributes are valid for no time at all, so that no mount serves an older one, unless the session is alone in the file
//!   system (`caching`);
//! - directory listings carry attributes only then, and as long as somebody uses them (`listings`): the kernel would throw them away
//!   (entries without have node id 0);
//! - a handle bypasses the page cache if another session has the file open or the session says so, else pages are kept as long as size and
//!   modification time say so;
//! - every close of a file is told (FLUSH), by which the record locks of its process go; one that drops none costs no message;
//! - before the modification time of a file is set that may be mapped, its dirty pages are written back (`mappable`);
//! - who may not open a FIFO, socket or device, or follow a symlink (`protected`), gets another node for it (`nodes`).
//!
//! What the session does not offer is answered ENOSYS once, after which the kernel does without.

mod answer;
mod asleep;
mod beside;
mod caching;
mod caller;
mod capabilities;
mod convert;
mod interrupts;
mod invalidate;
mod listings;
mod mappable;
mod meter;
mod nodes;
mod numbers;
mod orphaned;
mod protected;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Duration;

use hashbrown::HashMap;
use onpath_session::fs::{Caller, FsOp, FsReply, FsRequest, FsResult};

use onpath_wire::errno::Errno;
use onpath_wire::ids::{AloneId, InodeId};
use onpath_wire::report::Outcome;

use crate::abi::init;
use crate::reply::Replier;
use crate::request::{Operation, Request};
use crate::serve::{Filesystem, INIT_FLAGS, Negotiated};

use beside::{Beside, Mapping};
use caching::{Came, Gate, Given, Touches, Valid};
#[cfg(feature = "fuzzing")]
pub(crate) use caller::read_texts;
pub use caller::{read_caller, sees_all_processes, waits_as_process};
use interrupts::Interrupts;
pub use invalidate::{Covered, Invalidator};
use listings::Usage;
use mappable::Mappable;
pub use meter::Meter;
use meter::Timing;
use nodes::inode_id;
pub use numbers::Numbers;
use orphaned::Last;

/// What runs the client session of a mount.
pub trait SessionDriver: Send + Sync {
    /// Takes a request. Its answer goes to [`Answers::complete`] from any thread, possibly before this returns. An
    /// interrupt has no answer.
    fn submit(&self, request: FsRequest);
}

/// What is to be done with the answer to a request.
#[derive(Debug)]
enum Expected {
    /// Nothing special.
    Simple,
    /// Totals of the file system.
    Totals,
    /// Attributes that were asked for.
    Attributes,
    /// The same with the time of birth.
    Statx,
    /// A name: that it is missing may be cached, else it is ENOENT.
    Name,
    /// Bytes copied, as a 64-bit number or not.
    Copy {
        wide: bool,
    },
    /// Whether a handle of a file, of a file without a name or of a directory was asked for; `read_write`: that can be mapped to be written.
    OpenFile {
        read_write: bool,
    },
    OpenNameless {
        read_write: bool,
    },
    OpenDirectory,
    /// Value or list of extended attributes, of at most `size` bytes; 0 asks how many there are.
    Xattr {
        size: u32,
    },
    /// A page of a listing, of at most `size` bytes; `plus` for READDIRPLUS.
    Page {
        size: u32,
        plus: bool,
    },
}

/// A request about to be submitted.
struct Prepared {
    replier: Replier,
    request: FsRequest,
    expected: Expected,
}

/// What is kept of a request while the session has it.
struct Pending {
    replier: Replier,
    expected: Expected,
    timing: Timing,
    node: u64,
    /// Who asks: user id, and thread id, 0 if unknown.
    uid: u32,
    pid: u32,
    touches: Touches,
    came: Came,
    mapping: Mapping,
}

/// Requests under way, and what the kernel was given to cache.
#[derive(Default)]
struct Table {
    /// By number. The kernel bounds them: its background limit, and one for each thread of a program.
    pending: HashMap<u64, Pending>,
    given: Given,
    usage: Usage,
    last: Last,
    mappable: Mappable,
    beside: Beside,
}

/// The requests of one mount that the session has not answered yet.
#[derive(Default)]
pub struct Answers {
    table: Mutex<Table>,
    gate: Gate,
    kernel: OnceLock<Invalidator>,
    meter: Meter,
    numbers: Numbers,
    /// The kernel decides about permissions as well.
    kernel_decides: AtomicBool,
}

impl Answers {
    /// No requests yet; the answers will show inode numbers so.
    pub fn with_numbers(numbers: Numbers) -> Answers {
        Answers { numbers, ..Answers::default() }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the kernel is told what to forget; set once, when there is a mount.
    pub fn attach(&self, kernel: Invalidator) {
        assert!(self.kernel.set(kernel).is_ok(), "one mount a session");
    }

    /// Hands in the answer to request `unique`.
    pub fn complete(self: &Arc<Self>, unique: u64, mut result: FsResult) {
        if self.kernel_decides.load(Ordering::Relaxed) {
            protected::leave_to_kernel(&mut result);
        }
        if !protected::matters(&result) {
            return self.give(unique, result, false);
        }
        let asked =
            self.table().pending.get(&unique).map(|pending| (pending.uid, pending.pid, nodes::is_apart(pending.node)));
        let Some((uid, pid, apart)) = asked else { return self.give(unique, result, false) };
        let Some(refused) = protected::question(&mut result, uid, apart) else {
            return self.give(unique, result, false);
        };
        let answers = Arc::clone(self);
        let decide = move |call: &str, late| {
            answers.give(unique, if refused(call) { Err(Errno::EACCES) } else { result }, late);
        };
        match asleep::look_at(pid) {
            Poll::Ready(call) => decide(&call, false),
            Poll::Pending => {
                if let Err(decide) = asleep::wait(pid, move |call| decide(call, true)) {
                    decide("");
                }
            }
        }
    }

    /// `late`: the session has said more since it said this, so that it is not to be cached.
    fn give(&self, unique: u64, mut result: FsResult, late: bool) {
        let _writing = self.gate.begin();
        let mut table = self.table();
        let Some(pending) = table.pending.remove(&unique) else {
            let answered = table.last.was_answered(unique);
            drop(table);
            if answered {
                return;
            }
            tracing::warn!(unique, "an answer to no request");
            return;
        };
        let Pending { replier, expected, timing, node, uid: _, pid: _, touches, came, mapping } = pending;
        if let (Mapping::Possible, Ok(FsReply::Opened(opened))) = (mapping, &result) {
            table.beside.opened(node, opened.shared);
        }
        let before = table.given.end(&touches, &self.gate, &result);
        if let (Expected::Page { plus: true, .. }, Ok(page)) = (&expected, &mut result) {
            table.usage.sample(inode_id(node), page);
        }
        table.last.remember(&expected, node, &result);
        table.mappable.opened(&expected, node, &result);
        let question = matches!(expected, Expected::Attributes | Expected::Statx);
        let valid = match &result {
            // One that has to wait comes when nobody knows whether the session is still alone.
            Ok(reply) if !before.names && !late => table.given.validity(reply, &self.gate, node, came, question),
            _ => Valid::default(),
        };
        drop(table);
        let outcome = Outcome::of(&result);
        let numbers = self.numbers;
        let give = move || answer::answer(replier, expected, result, valid, numbers);
        match self.kernel.get() {
            Some(kernel) if !before.is_nothing() => kernel.before(&before, give),
            _ => give(),
        }
        self.meter.count(timing, outcome);
    }

    /// The session is alone in the file system, for a time of this number, until then in microseconds of its clock: the kernel may
    /// cache.
    pub fn alone(&self, alone: AloneId, until_us: u64) {
        self.gate.open(alone.0, until_us);
    }

    /// Another session wants to join: nothing is given to be cached any more, in no time up to this number. `done` is called, by another
    /// thread, when the kernel uses nothing that it was given before; false if that is so now. `open`: inodes of which there
    /// are handles, and whether they may have cached pages.
    pub fn share(
        self: &Arc<Self>,
        upto: AloneId,
        open: Vec<(InodeId, bool)>,
        done: impl FnOnce() + Send + 'static,
    ) -> bool {
        self.gate.shut(upto.0);
        let answers = Arc::clone(self);
        let Some(kernel) = self.kernel.get() else { return false };
        kernel.share(open, move || answers.gate.drain(), done);
        true
    }

    /// Writes back what was changed of an inode in memory, and forgets it; then `done` is called, by another thread. False if there is no
    /// kernel that could have anything.
    pub fn write_back(&self, inode: InodeId, done: impl FnOnce() + Send + 'static) -> bool {
        let Some(kernel) = self.kernel.get() else { return false };
        kernel.written_back(inode, done);
        true
    }

    /// What the kernel was given may not be true any more.
    pub fn forget(&self, open: Vec<(InodeId, bool)>) {
        if let Some(kernel) = self.kernel.get() {
            kernel.forget(open);
        }
    }

    /// Cached pages of an inode are stale.
    pub fn invalidate(&self, inode: InodeId) {
        if let Some(kernel) = self.kernel.get() {
            kernel.invalidate(inode);
        }
    }

    /// Thread id of who waits for the answer to request `unique`.
    fn caller(&self, unique: u64) -> Option<u32> {
        self.table().pending.get(&unique).map(|pending| pending.pid)
    }

    /// How many requests wait for their answers, and for how long the oldest one has; who waits for a lock may wait for ever.
    pub fn waiting(&self) -> (u32, Duration) {
        let table = self.table();
        let oldest =
            table.pending.values().filter(|pending| !pending.timing.is_of_lock()).map(|pending| pending.timing.age());
        (table.pending.len() as u32, oldest.max().unwrap_or_default())
    }

    /// What was answered, and how soon.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }
}

/// The file system of a client session.
pub struct SessionFilesystem<D> {
    driver: Arc<D>,
    answers: Arc<Answers>,
    interrupts: Interrupts<D>,
    init_flags: u64,
}

impl<D: SessionDriver + 'static> SessionFilesystem<D> {
    /// `answers` is where `driver` hands in answers.
    pub fn new(driver: D, answers: Arc<Answers>) -> Self {
        let driver = Arc::new(driver);
        let interrupts = Interrupts::new(Arc::clone(&driver), Arc::clone(&answers));
        Self { interrupts, driver, answers, init_flags: INIT_FLAGS }
    }

    /// The kernel decides about permissions as well, by mode, ACL and capabilities. It asks for attributes and ACLs of all directories on the
    /// way that it may not have cached.
    #[must_use]
    pub fn with_default_permissions(mut self) -> Self {
        self.init_flags |= init::POSIX_ACL;
        self
    }
}

impl<D: SessionDriver + 'static> Filesystem for SessionFilesystem<D> {
    fn handle(&self, request: Request<'_>, replier: Replier) {
        if let Operation::Access { mask: 0 } = request.operation {
            return replier.ok(); // F_OK: the kernel has looked the name up just now
        }
        let timing = Timing::start(request.header.opcode);
        let node = request.header.nodeid;
        let mapping = Mapping::of(&request.operation);
        let Some(prepared) = convert::convert(&request, replier) else { return };
        let touches = Touches::of(&request, &prepared.request.op);
        let Prepared { replier, mut request, expected } = prepared;
        let mut table = self.answers.table();
        let came = table.given.begin(&touches, &self.answers.gate);
        let write_back = table.mappable.asks(&request.op);
        match &request.op {
            FsOp::Lookup { parent, name } => table.usage.looked_up(*parent, name),
            &FsOp::ReadDirPlus { handle, after, bytes } if !came.is_alone() || !table.usage.is_likely() => {
                request.op = FsOp::ReadDir { handle, after, bytes };
            }
            _ => {}
        }
        let Caller { uid, pid, .. } = request.caller;
        let told = mapping == Mapping::WrittenBack && table.beside.written_back(node);
        let pending = Pending { replier, expected, timing, node, uid, pid, touches, came, mapping };
        table.pending.insert(request.unique, pending);
        drop(table);
        if told {
            tracing::warn!(
                inode = node,
                "a file is written through a shared mapping while another mount has it open: mounts do not see each other's stores, \
                 and of two in the same page one is lost (docs/semantics.md)"
            );
        }
        match (write_back, self.answers.kernel.get()) {
            (Some(inode), Some(kernel)) => {
                let driver = Arc::clone(&self.driver);
                kernel.written_back(inode, move || driver.submit(request));
            }
            _ => self.driver.submit(request),
        }
    }

    fn interrupt(&self, unique: u64) {
        self.interrupts.interrupt(unique);
    }

    fn init_flags(&self) -> u64 {
        self.init_flags
    }

    fn negotiated(&self, negotiated: &Negotiated) {
        self.answers.kernel_decides.store(negotiated.flags & init::POSIX_ACL != 0, Ordering::Relaxed);
    }
}
