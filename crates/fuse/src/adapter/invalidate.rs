//! Telling the kernel what to forget. It blocks a notification about pages while a READ or WRITE of one of them waits for its
//! answer, so these come from a thread of its own and nobody waits for them. Names and attributes are made void from anywhere.
//!
//! When everything is to be forgotten because another session joins (FUSE: leases, not notifications alone): nothing is given to be
//! cached any more, answers in flight are written, names are made void, inodes with handles are told one by one, and the
//! rest runs out; then names are made void once more, since those of a listing count from when a program's thread takes them over, which
//! may be late. Making names void takes mounts on them away, so where there are any their time runs out as well.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use onpath_wire::ids::InodeId;
use onpath_wire::limits::{CACHED_MS, CACHED_SLACK_MS};

use super::caching::Before;
use super::nodes::node_id;
use crate::transport::{Notification, Transport};

/// How long the kernel uses what it was given.
const USED: Duration = Duration::from_millis(CACHED_MS + CACHED_SLACK_MS);

/// Something to be done by the thread.
type Task = Box<dyn FnOnce() + Send>;

/// Whether something is mounted on names of this mount.
pub type Covered = Box<dyn Fn() -> bool + Send + Sync>;

#[derive(Default)]
struct Queue {
    /// Each inode once: bounded by the inodes that the session has open.
    inodes: BTreeSet<InodeId>,
    /// What another session, or a chmod, waits for, and from when on: bounded by the requests of the mount.
    tasks: Vec<(Instant, Task)>,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// What the thread does next.
enum Next {
    Inode(InodeId),
    Task(Task),
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<Next> {
        let mut queue = self.queue();
        loop {
            let now = Instant::now();
            if let Some(due) = queue.tasks.iter().position(|(at, _)| *at <= now || queue.closed) {
                return Some(Next::Task(queue.tasks.remove(due).1));
            }
            if queue.closed {
                return None;
            }
            if let Some(inode) = queue.inodes.pop_first() {
                return Some(Next::Inode(inode));
            }
            let first = queue.tasks.iter().map(|(at, _)| *at).min();
            queue = match first {
                None => self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Some(at) => self.changed.wait_timeout(queue, at - now).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    fn add(&self, at: Instant, task: Task) {
        self.queue().tasks.push((at, task));
        self.changed.notify_one();
    }
}

/// Tells the kernel of a mount what to forget.
pub struct Invalidator {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    kernel: Arc<Kernel>,
}

/// The mount.
struct Kernel {
    transport: Arc<dyn Transport>,
    covered: Covered,
}

impl Kernel {
    fn tell(&self, notification: Notification<'_>) -> bool {
        match self.transport.notify(notification) {
            Ok(_) => true,
            Err(error) => {
                tracing::debug!(%error, ?notification, "the kernel was not told");
                false
            }
        }
    }

    /// Makes all names void at once; false if their time must run out, since the kernel is older than Linux 6.16 or something is mounted on
    /// names of ours.
    fn forget_names(&self) -> bool {
        !(self.covered)() && self.tell(Notification::IncrementEpoch)
    }

    /// Makes the attributes of open inodes void, and cached pages where that is asked for.
    fn forget_inodes(&self, open: &[(InodeId, bool)], pages: bool) {
        for (inode, cached) in open {
            let inode = node_id(*inode);
            self.tell(match pages && *cached {
                true => Notification::InvalidateData { inode, offset: 0, length: 0 },
                false => Notification::InvalidateAttributes { inode },
            });
        }
    }
}

impl Invalidator {
    /// Starts the thread for the mount behind `transport`.
    pub fn start(transport: Arc<dyn Transport>, covered: Covered) -> std::io::Result<Invalidator> {
        let (shared, kernel) = (Arc::<Shared>::default(), Arc::new(Kernel { transport, covered }));
        let (of_thread, told) = (Arc::clone(&shared), Arc::clone(&kernel));
        let run = move || {
            while let Some(next) = of_thread.next() {
                match next {
                    Next::Task(task) => task(),
                    Next::Inode(inode) => told.forget_inodes(&[(inode, true)], true),
                }
            }
        };
        let thread = std::thread::Builder::new().name("fuse-invalidate".to_owned()).spawn(run)?;
        Ok(Invalidator { shared, thread: Some(thread), kernel })
    }

    /// Drops the cached pages and attributes of `inode` soon.
    pub fn invalidate(&self, inode: InodeId) {
        self.shared.queue().inodes.insert(inode);
        self.shared.changed.notify_one();
    }

    /// Goes on when the kernel has written back, and dropped, the pages of `inode`: what is mapped is dirty again only after another fault.
    pub(super) fn written_back(&self, inode: InodeId, go_on: impl FnOnce() + Send + 'static) {
        let kernel = Arc::clone(&self.kernel);
        let write_back = move || {
            kernel.forget_inodes(&[(inode, true)], true);
            go_on();
        };
        self.shared.add(Instant::now(), Box::new(write_back));
    }

    /// Gives an answer when the kernel has forgotten what is to be forgotten before.
    pub(super) fn before(&self, before: &Before, give: impl FnOnce() + Send + 'static) {
        for &inode in &before.attributes {
            self.kernel.tell(Notification::InvalidateAttributes { inode });
        }
        if !before.names {
            return give();
        }
        let (kernel, shared) = (Arc::clone(&self.kernel), Arc::clone(&self.shared));
        let forget = move || match kernel.forget_names() {
            true => give(),
            false => shared.add(Instant::now() + USED, Box::new(give)),
        };
        self.shared.add(Instant::now(), Box::new(forget));
    }

    /// Everything is forgotten, then `done` is called. `drain` waits until answers that are being written are, and says for how long what
    /// was given may be used.
    pub(super) fn share(
        &self,
        open: Vec<(InodeId, bool)>,
        drain: impl FnOnce() -> Duration + Send + 'static,
        done: impl FnOnce() + Send + 'static,
    ) {
        let (kernel, shared) = (Arc::clone(&self.kernel), Arc::clone(&self.shared));
        let forget = move || {
            let used = drain();
            let over = Instant::now() + used;
            if !used.is_zero() {
                kernel.forget_names();
                kernel.forget_inodes(&open, true);
            }
            let done = move || {
                if !used.is_zero() {
                    kernel.forget_names();
                }
                done();
            };
            shared.add(over, Box::new(done));
        };
        self.shared.add(Instant::now(), Box::new(forget));
    }

    /// Names and the attributes of these inodes are forgotten soon.
    pub(super) fn forget(&self, open: Vec<(InodeId, bool)>) {
        let kernel = Arc::clone(&self.kernel);
        let forget = move || {
            kernel.forget_names();
            kernel.forget_inodes(&open, false);
        };
        self.shared.add(Instant::now(), Box::new(forget));
    }
}

impl Drop for Invalidator {
    /// Waits for a notification under way: all requests must be answered, or the mount gone, before this.
    fn drop(&mut self) {
        self.shared.queue().closed = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the invalidating thread has panicked");
        }
    }
}
