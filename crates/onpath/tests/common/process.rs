//! Other processes: lock owners, and children that may be stopped by signals.
#![allow(unsafe_code)]

use super::sys::{R, call, errno};
use super::{PATIENCE, through, wait_until};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::process::Command;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

/// A fork copies the descriptors of every test that runs at that moment; until the child has closed them, their files count as open.
static COPIES: RwLock<()> = RwLock::new(());

/// While this is held no other test's fork has copies of the caller's descriptors: a close is then the last one. Must not be held
/// across [`fork`] or [`spawn`].
pub fn no_copies() -> RwLockReadGuard<'static, ()> {
    COPIES.read().unwrap_or_else(|poison| poison.into_inner())
}

fn copying() -> RwLockWriteGuard<'static, ()> {
    COPIES.write().unwrap_or_else(|poison| poison.into_inner())
}

/// Starts a program; returns when it runs (its copies of descriptors are closed by then).
pub fn spawn(command: &mut Command) -> R<std::process::Child> {
    let _copies = copying();
    command.spawn().map_err(|error| error.raw_os_error().unwrap_or(0))
}

/// Copies a program so that it can be run at once: a descriptor of this process that writes it would be copied by each fork of another test, and
/// the kernel runs nothing that somebody has open to be written.
pub fn copy_program(from: impl AsRef<Path>, to: &Path) {
    let copied = Command::new("cp").arg(from.as_ref()).arg(to).status().expect("cp runs");
    assert!(copied.success(), "cp {} {}", from.as_ref().display(), to.display());
}

/// Runs the closure as another owner of fcntl locks: in a thread with its own, empty table of descriptors (the kernel tells lock owners
/// apart by that table). Descriptors of the caller are not open in it.
pub fn as_process<T: Send>(job: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        spawn_process(scope, job).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// As [`as_process`], but runs beside the caller.
pub fn spawn_process<'scope, T: Send + 'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    job: impl FnOnce() -> T + Send + 'scope,
) -> std::thread::ScopedJoinHandle<'scope, T> {
    assert!(!through::is_on(), "not through a client: a table of descriptors of its own");
    scope.spawn(move || {
        let flags = libc::CLOSE_RANGE_UNSHARE;
        let done = call!(libc::syscall(libc::SYS_close_range, 3, u32::MAX, flags));
        assert_eq!(done, Ok(0), "close_range");
        job()
    })
}

/// A child that does one step of a job each time that it is told to, and holds what the job has opened until this is dropped. What belongs to
/// a mount that is to stand still is held so: a fork of any test closes its copies of this process's descriptors, and each such close waits.
pub struct Steps {
    child: Option<Child>,
    tell: Option<std::io::PipeWriter>,
    answers: std::io::PipeReader,
}

impl Steps {
    /// `job` is called in the child with 0, 1, 2 and so on; step 0 is done when this returns.
    pub fn new(mut job: impl FnMut(u8) -> R) -> Steps {
        let (told, tell) = std::io::pipe().expect("pipe");
        let (answers, answer) = std::io::pipe().expect("pipe");
        let child = fork_keeping(&[told.as_fd(), answer.as_fd()], || {
            for step in 0.. {
                if (&told).read_exact(&mut [0]).is_err() || (&answer).write_all(&[code(job(step)) as u8]).is_err() {
                    break;
                }
            }
            0
        });
        let mut steps = Steps { child: Some(child), tell: Some(tell), answers };
        steps.next().unwrap_or_else(|errno| panic!("step 0 of a child: errno {errno}"));
        steps
    }

    /// The next step, and what came of it.
    pub fn next(&mut self) -> R {
        let mut answer = [0];
        self.tell.as_ref().expect("until this ends").write_all(&[0]).expect("a child that listens");
        self.answers.read_exact(&mut answer).expect("a child that answers");
        if answer == [0] { Ok(()) } else { Err(i32::from(answer[0])) }
    }

    /// What it holds is closed when this returns.
    pub fn end(mut self) {
        self.tell = None;
        assert_eq!(self.child.take().expect("until this ends").wait(), End::Exit(0));
    }
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its closure's value.
    Exit(i32),
    /// The signal that killed it.
    Signal(i32),
}

impl End {
    fn of(status: i32) -> End {
        if libc::WIFSIGNALED(status) {
            End::Signal(libc::WTERMSIG(status))
        } else {
            End::Exit(libc::WEXITSTATUS(status))
        }
    }
}

/// A forked child; killed and reaped on drop.
pub struct Child {
    pid: i32,
    reaped: bool,
}

/// Forks; the child runs the closure, with no descriptor of the parent but 0, 1 and 2, and exits with its value (0 to 255; 101 after a
/// panic). The closure should make system calls and little else.
pub fn fork(job: impl FnOnce() -> i32) -> Child {
    fork_keeping(&[], job)
}

/// As [`fork`], the child keeps these descriptors too.
pub fn fork_keeping(keep: &[BorrowedFd], job: impl FnOnce() -> i32) -> Child {
    let keep = keep.iter().map(|fd| fd.as_raw_fd() as u32).collect();
    fork_and(|| keep, job)
}

/// As [`fork`], the child keeps all sockets, those of other tests too.
pub fn fork_with_sockets(job: impl FnOnce() -> i32) -> Child {
    fork_and(sockets, job)
}

fn sockets() -> Vec<u32> {
    let all = std::fs::read_dir("/proc/self/fd").expect("descriptors").filter_map(Result::ok);
    let is_socket =
        |path: &std::path::Path| std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"));
    all.filter(|fd| is_socket(&fd.path()))
        .filter_map(|fd| fd.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2)
        .collect()
}

/// `keep` is asked in the child.
fn fork_and(keep: impl FnOnce() -> Vec<u32>, job: impl FnOnce() -> i32) -> Child {
    // The child would have a session of its own, and what is open would stay the parent's.
    assert!(!through::is_on(), "not through a client: a forked process");
    let _copies = copying();
    let (mut closed, closing) = std::io::pipe().expect("pipe");
    // SAFETY: the child runs the closure in its copy of the memory and leaves by _exit, so no destructor or test code runs twice.
    let pid = unsafe { libc::fork() };
    assert_ne!(pid, -1, "fork: errno {}", errno());
    if pid == 0 {
        // A shell that runs the tests in the background has them ignore it.
        // SAFETY: sets how this process takes a signal.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
        let mut keep = keep();
        keep.sort_unstable();
        close_all_but(&keep);
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).unwrap_or(101);
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(code) }
    }
    drop(closing);
    let _ = std::io::Read::read(&mut closed, &mut [0]);
    Child { pid, reaped: false }
}

fn close_all_but(keep: &[u32]) {
    let mut start = 3;
    for &fd in keep {
        close_range(start, fd - 1);
        start = fd + 1;
    }
    close_range(start, u32::MAX);
}

fn close_range(first: u32, last: u32) {
    if first <= last {
        assert_eq!(call!(libc::syscall(libc::SYS_close_range, first, last, 0)), Ok(0), "close_range");
    }
}

/// 0 for success, else the errno: what a child may exit with.
pub fn code<T>(result: R<T>) -> i32 {
    result.err().unwrap_or(0)
}

/// Forks, runs the closure, and tells how it ended.
pub fn in_child(job: impl FnOnce() -> i32) -> End {
    fork(job).wait()
}

impl Child {
    pub fn pid(&self) -> i32 {
        self.pid
    }

    pub fn signal(&self, signal: i32) {
        assert_eq!(call!(libc::kill(self.pid, signal)), Ok(0), "kill({}, {signal})", self.pid);
    }

    /// Waits for the end; fails the test when it does not come.
    pub fn wait(mut self) -> End {
        let mut end = None;
        wait_until("the child ends", || {
            end = self.poll();
            end.is_some()
        });
        end.expect("just seen")
    }

    /// How the child ended, if it did.
    pub fn poll(&mut self) -> Option<End> {
        let mut status = 0;
        let reaped = call!(libc::waitpid(self.pid, &mut status, libc::WNOHANG)).expect("waitpid");
        if reaped == 0 {
            return None;
        }
        self.reaped = true;
        Some(End::of(status))
    }

    /// Waits until the child is blocked inside the given system call; fails the test when it ends instead.
    pub fn wait_blocked_in(&self, syscall: i64) {
        self.wait_blocked(syscall, &[]);
    }

    /// The same where it waits for a lock by fcntl: other locks it may have asked for before without waiting.
    pub fn wait_blocked_for_lock(&self) {
        self.wait_blocked(libc::SYS_fcntl, &[libc::F_SETLKW, libc::F_OFD_SETLKW]);
    }

    /// `second`: one of these must be the second argument, if there are any.
    fn wait_blocked(&self, syscall: i64, second: &[i32]) {
        let proc_dir = format!("/proc/{}", self.pid);
        let deadline = Instant::now() + PATIENCE;
        while !blocked_in(&proc_dir, syscall, second) {
            let read = |name| std::fs::read_to_string(format!("{proc_dir}/{name}")).unwrap_or_default();
            let stat = read("stat");
            if stat.contains(") Z ") {
                // The last field is the wait status.
                let status = stat.trim_end().rsplit(' ').next().and_then(|field| field.parse().ok()).unwrap_or(0);
                panic!("the child should block in call {syscall} but ended with {:?}", End::of(status));
            }
            assert!(
                Instant::now() < deadline,
                "the child should block in call {syscall} but is in {:?}",
                read("syscall")
            );
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        // SAFETY: signals and reaps a child of our own.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        let deadline = Instant::now() + PATIENCE;
        while self.poll().is_none() && Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

/// Whether the process or thread of this directory of /proc is blocked in the given system call; `second` as above.
pub fn blocked_in(proc_dir: &str, syscall: i64, second: &[i32]) -> bool {
    let stat = std::fs::read_to_string(format!("{proc_dir}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    let call = std::fs::read_to_string(format!("{proc_dir}/syscall")).unwrap_or_default();
    let fields: Vec<&str> = call.split(' ').collect();
    let argument = || fields.get(2).and_then(|field| i32::from_str_radix(field.trim_start_matches("0x"), 16).ok());
    matches!(state, Some('S' | 'D'))
        && fields[0] == syscall.to_string()
        && (second.is_empty() || argument().is_some_and(|argument| second.contains(&argument)))
}

/// Whether a thread that stands still was stopped in the given system call.
pub fn is_in(process: u32, thread: i32, syscall: i64) -> bool {
    let call = std::fs::read_to_string(format!("/proc/{process}/task/{thread}/syscall")).unwrap_or_default();
    call.split(' ').next() == Some(&syscall.to_string())
}

/// The calling thread's id.
pub fn thread_id() -> i32 {
    call!(libc::syscall(libc::SYS_gettid)).expect("gettid cannot fail") as i32
}

/// Whether a thread of this process is blocked in the given system call.
pub fn thread_blocked_in(thread: i32, syscall: i64) -> bool {
    blocked_in(&format!("/proc/self/task/{thread}"), syscall, &[])
}

/// Sends a signal to a process that the test started, if it is still there.
pub fn send(pid: i32, signal: i32) {
    let sent = call!(libc::kill(pid, signal));
    assert!(matches!(sent, Ok(0) | Err(libc::ESRCH)), "kill({pid}, {signal}): {sent:?}");
}

/// Sends a signal to one thread of this process.
pub fn signal_thread(thread: i32, signal: i32) {
    let pid = std::process::id();
    assert_eq!(call!(libc::syscall(libc::SYS_tgkill, pid, thread, signal)), Ok(0), "tgkill");
}

extern "C" fn do_nothing(_signal: i32) {}

/// Keeps the signal from the calling thread.
pub fn block(signal: i32) {
    // SAFETY: an all-zero set is valid to be emptied.
    let blocked = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut())
    };
    assert_eq!(blocked, 0, "pthread_sigmask");
}

/// Makes the signal interrupt system calls (a handler without SA_RESTART).
pub fn interrupt_by(signal: i32) {
    // SAFETY: an all-zero sigaction is valid; the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = do_nothing as extern "C" fn(i32) as usize;
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

/// Sets a limit of the calling process; only for forked children.
pub fn set_limit(resource: u32, value: u64) {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    assert_eq!(call!(libc::setrlimit(resource, &limit)), Ok(0));
}

/// Ignores a signal in the calling process; only for forked children.
pub fn ignore(signal: i32) {
    // SAFETY: changes a disposition of this process only.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}
