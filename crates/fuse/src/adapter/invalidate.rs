//! Dropping cached pages. The kernel blocks such a notification while a READ or WRITE of the page waits for its answer, so
//! it comes from a thread of its own and nobody waits for it.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use onpath_wire::ids::InodeId;

use super::nodes::node_id;
use crate::transport::{Notification, Transport};

#[derive(Default)]
struct Queue {
    /// Each inode once: bounded by the inodes that the session has open.
    inodes: BTreeSet<InodeId>,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<InodeId> {
        let queue = self.queue();
        let idle = |queue: &mut Queue| queue.inodes.is_empty() && !queue.closed;
        let mut queue = self.changed.wait_while(queue, idle).unwrap_or_else(PoisonError::into_inner);
        if queue.closed { None } else { queue.inodes.pop_first() }
    }
}

/// The thread that tells the kernel to drop the pages of inodes.
pub struct Invalidator {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Invalidator {
    /// Starts the thread for the mount behind `transport`.
    pub fn start(transport: Arc<dyn Transport>) -> std::io::Result<Invalidator> {
        let shared = Arc::<Shared>::default();
        let of_thread = Arc::clone(&shared);
        let run = move || {
            while let Some(inode) = of_thread.next() {
                let notification = Notification::InvalidateData { inode: node_id(inode), offset: 0, length: 0 };
                if let Err(error) = transport.notify(notification) {
                    tracing::warn!(%error, %inode, "cached pages stay");
                }
            }
        };
        let thread = std::thread::Builder::new().name("fuse-invalidate".to_owned()).spawn(run)?;
        Ok(Invalidator { shared, thread: Some(thread) })
    }

    /// Drops the cached pages and attributes of `inode` soon.
    pub fn invalidate(&self, inode: InodeId) {
        self.shared.queue().inodes.insert(inode);
        self.shared.changed.notify_one();
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
