//! What the threads of a walk hand over to each other.

use super::{Node, Tree};
use rustix::fs::FileType;
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Work for one thread.
pub(super) enum Job<T: Tree, D> {
    /// Everything at the path of a root.
    Root(PathBuf),
    /// Everything at that name.
    Directory(Arc<Node<T, D>>, CString),
    /// Entries of one directory, none of them a directory.
    Bundle(Arc<Node<T, D>>, Vec<(CString, FileType)>),
}

/// The work that waits. Threads add to it only while another one has nothing to do, so it holds few more jobs than there are threads,
/// the roots aside.
pub(super) struct Pool<T: Tree, D> {
    jobs: Mutex<Jobs<T, D>>,
    wake: Condvar,
    /// Threads without work, less the jobs that wait.
    hungry: AtomicUsize,
    cancelled: AtomicBool,
    threads: usize,
}

struct Jobs<T: Tree, D> {
    waiting: Vec<Job<T, D>>,
    idle: usize,
}

impl<T: Tree, D> Pool<T, D> {
    pub(super) fn new(threads: usize) -> Pool<T, D> {
        let jobs = Mutex::new(Jobs { waiting: Vec::new(), idle: 0 });
        Pool { jobs, wake: Condvar::new(), hungry: AtomicUsize::new(0), cancelled: AtomicBool::new(false), threads }
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs<T, D>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, jobs: &Jobs<T, D>) {
        self.hungry.store(jobs.idle.saturating_sub(jobs.waiting.len()), Ordering::Relaxed);
    }

    /// Whether a thread waits for work. A hint: it may be outdated by the time it is read.
    pub(super) fn is_hungry(&self) -> bool {
        self.hungry.load(Ordering::Relaxed) > 0
    }

    pub(super) fn add(&self, job: Job<T, D>) {
        let mut jobs = self.jobs();
        jobs.waiting.push(job);
        self.count(&jobs);
        self.wake.notify_one();
    }

    /// The next job; none when all threads have nothing to do.
    pub(super) fn next(&self) -> Option<Job<T, D>> {
        let mut jobs = self.jobs();
        loop {
            if let Some(job) = jobs.waiting.pop() {
                self.count(&jobs);
                return Some(job);
            }
            jobs.idle += 1;
            if jobs.idle == self.threads {
                self.wake.notify_all();
                return None;
            }
            self.count(&jobs);
            jobs = self.wake.wait(jobs).unwrap_or_else(PoisonError::into_inner);
            if jobs.idle == self.threads {
                return None;
            }
            jobs.idle -= 1;
        }
    }

    /// Nothing more is visited; the walk ends soon.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}
