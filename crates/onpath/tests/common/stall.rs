//! One thread of another process stands still while the others go on: a disk that takes its time, if it is the thread that flushes.
#![allow(unsafe_code)]

use super::sys::{R, call, errno};
use std::marker::PhantomData;

/// A thread that stands still until it is let go, or its process is killed. Only the thread that has stopped it may let it go.
pub struct Stalled {
    process: u32,
    thread: i32,
    of_this_thread: PhantomData<*const ()>,
}

fn ptrace(request: libc::c_uint, thread: i32) -> R {
    let none = std::ptr::null_mut::<libc::c_void>();
    call!(libc::ptrace(request, thread, none, none)).map(drop)
}

fn wait(thread: i32) -> i32 {
    let mut status = 0;
    // SAFETY: writes one int that lives as long as the call.
    let waited = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL) };
    assert_eq!(waited, thread, "waitpid of a traced thread: errno {}", errno());
    status
}

impl Stalled {
    /// Stops the only thread of that name; the errno if this system does not let anybody do so.
    pub fn new(process: u32, name: &str) -> R<Stalled> {
        let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("the threads of a process");
        let paths = threads.map(|thread| thread.expect("a thread").path());
        let called = |path: &std::path::PathBuf| {
            std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim_end() == name)
        };
        let found: Vec<_> = paths.filter(called).collect();
        let [path] = &found[..] else { panic!("{} threads are called {name}", found.len()) };
        let id = path.file_name().and_then(|id| id.to_str()?.parse().ok()).expect("a thread's id");
        ptrace(libc::PTRACE_SEIZE, id)?;
        ptrace(libc::PTRACE_INTERRUPT, id)?;
        assert!(libc::WIFSTOPPED(wait(id)), "thread {id} has ended");
        Ok(Stalled { process, thread: id, of_this_thread: PhantomData })
    }

    /// Its id.
    pub fn thread(&self) -> i32 {
        self.thread
    }

    /// It goes on.
    pub fn let_go(self) {
        ptrace(libc::PTRACE_DETACH, self.thread).expect("it stands still");
    }

    /// kill -9 of its process, which did not go on.
    pub fn kill(self) {
        // SAFETY: signals a child of this process that was not reaped yet.
        unsafe { libc::kill(self.process as i32, libc::SIGKILL) };
        while !libc::WIFSIGNALED(wait(self.thread)) {}
    }
}
