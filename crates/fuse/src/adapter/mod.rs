//! A client session behind the mount: kernel requests become session requests, session answers become replies.
//!
//! The settings of a mount that may not be alone in the file system, whatever the session knows:
//! - node ids stand for inode ids, which never repeat: generation 0;
//! - every name and attribute is valid for no time at all, so that no mount serves an older one;
//! - directory listings carry no attributes (node id 0): the kernel would throw them away;
//! - a handle bypasses the page cache if another session has the file open or the session says so, else pages are kept as long as size and
//!   modification time say so;
//! - a file that CREATE made needs no FLUSH at close, as nobody else can hold locks by this handle; locks taken by it go
//!   with the handle.
//!
//! What the session does not offer is answered ENOSYS once, after which the kernel does without.

mod answer;
mod caller;
mod convert;
mod invalidate;
mod meter;
mod nodes;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use onpath_session::fs::{Caller, FsOp, FsRequest, FsResult};

use crate::reply::Replier;
use crate::request::{Operation, Request};
use crate::serve::Filesystem;

pub use caller::{supplementary_groups, waits_as_process};
pub use invalidate::Invalidator;
pub use meter::Meter;
use meter::Timing;

/// Marks the number of an interrupt, as the kernel does; requests have even numbers.
const INTERRUPT_BIT: u64 = 1;

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
    /// Attributes with the time of birth.
    Statx,
    /// Bytes copied, as a 64-bit number or not.
    Copy {
        wide: bool,
    },
    /// Whether a handle of a file, of a file without a name or of a directory was asked for.
    OpenFile,
    OpenNameless,
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
}

/// The requests of one mount that the session has not answered yet.
#[derive(Default)]
pub struct Answers {
    /// By number. The kernel bounds them: its background limit, and one for each thread of a program.
    pending: Mutex<HashMap<u64, Pending>>,
    meter: Meter,
}

impl Answers {
    fn pending(&self) -> MutexGuard<'_, HashMap<u64, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands in the answer to request `unique`.
    pub fn complete(&self, unique: u64, result: FsResult) {
        let pending = self.pending().remove(&unique);
        let Some(Pending { replier, expected, timing }) = pending else {
            tracing::warn!(unique, "an answer to no request");
            return;
        };
        answer::answer(replier, expected, result);
        self.meter.count(timing);
    }

    /// What was answered, and how soon.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }
}

/// The file system of a client session.
pub struct SessionFilesystem<D> {
    driver: D,
    answers: Arc<Answers>,
}

impl<D: SessionDriver> SessionFilesystem<D> {
    /// `answers` is where `driver` hands in answers.
    pub fn new(driver: D, answers: Arc<Answers>) -> Self {
        Self { driver, answers }
    }
}

impl<D: SessionDriver> Filesystem for SessionFilesystem<D> {
    fn handle(&self, request: Request<'_>, replier: Replier) {
        if let Operation::Access { mask: 0 } = request.operation {
            return replier.ok(); // F_OK: the kernel has looked the name up just now
        }
        let timing = Timing::start(request.header.opcode);
        let Some(prepared) = convert::convert(&request, replier) else { return };
        let Prepared { replier, request, expected } = prepared;
        self.answers.pending().insert(request.unique, Pending { replier, expected, timing });
        self.driver.submit(request);
    }

    /// Also of requests that are answered, or that another reader has yet to hand in: the session sorts that out.
    fn interrupt(&self, unique: u64) {
        let op = FsOp::Interrupt { unique };
        self.driver.submit(FsRequest { unique: unique | INTERRUPT_BIT, caller: Caller::default(), op });
    }
}
