//! The system call that a thread is in. The kernel shows it only of a thread that is asleep. Who asks a mount wakes it first and goes to sleep
//! then, which on a busy machine can be a good while later; until then its question cannot be decided.

use super::caller::read_proc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

/// What is waited for it to sleep. It has no answer before, so that this harms nobody else.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it is looked at, first and in the end.
const LOOK_AGAIN: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(5)];
/// Threads that are looked at; of those beyond it nothing can be seen.
const WATCHED_MAX: usize = 1_024;

struct Watched {
    pid: u32,
    until: Instant,
    then: Box<dyn FnOnce(&str) + Send>,
}

/// As long as there are any, a thread looks at them.
static WATCHED: Mutex<Vec<Watched>> = Mutex::new(Vec::new());

fn watched() -> MutexGuard<'static, Vec<Watched>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The system call of thread `pid` as in `/proc/PID/syscall`, empty where it cannot be seen; nothing yet if it is not asleep.
pub(super) fn look_at(pid: u32) -> Poll<String> {
    let call = read_proc(pid, "syscall").and_then(|call| String::from_utf8(call).ok()).unwrap_or_default();
    if call.trim_end() == "running" { Poll::Pending } else { Poll::Ready(call) }
}

/// Calls `then` with the system call of thread `pid` when that is asleep, or empty if it does not come to that; in another thread. Gives it
/// back if too many are waited for.
pub(super) fn wait<F: FnOnce(&str) + Send + 'static>(pid: u32, then: F) -> Result<(), F> {
    let mut watched = watched();
    if watched.len() == WATCHED_MAX || watched.is_empty() && !start() {
        return Err(then);
    }
    watched.push(Watched { pid, until: Instant::now() + PATIENCE, then: Box::new(then) });
    Ok(())
}

/// What the call of thread `pid` says to `read`: at once if it can be seen, else `later` hears of it, in another thread.
pub(super) fn read_call<T>(
    pid: u32,
    read: impl Fn(&str) -> T + Clone + Send + 'static,
    later: impl FnOnce(T) + Send + 'static,
) -> Poll<T> {
    match look_at(pid) {
        Poll::Ready(call) => Poll::Ready(read(&call)),
        Poll::Pending => {
            let reads = read.clone();
            match wait(pid, move |call| later(reads(call))) {
                Ok(()) => Poll::Pending,
                Err(_) => Poll::Ready(read("")),
            }
        }
    }
}

/// Starts the thread, which ends when nothing is watched any more; whether it could be started.
fn start() -> bool {
    thread::Builder::new().name("callers".into()).spawn(watch).is_ok()
}

fn watch() {
    let mut pause = LOOK_AGAIN[0];
    loop {
        thread::sleep(pause);
        let mut all = watched();
        let now = Instant::now();
        let mut seen = Vec::new();
        for at in (0..all.len()).rev() {
            match look_at(all[at].pid) {
                Poll::Ready(call) => seen.push((all.swap_remove(at).then, call)),
                Poll::Pending if all[at].until <= now => seen.push((all.swap_remove(at).then, String::new())),
                Poll::Pending => {}
            }
        }
        let last = all.is_empty();
        drop(all);
        pause = if seen.is_empty() { (2 * pause).min(LOOK_AGAIN[1]) } else { LOOK_AGAIN[0] };
        seen.into_iter().for_each(|(then, call)| then(&call));
        if last {
            return;
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, mpsc};

    /// A thread that runs until it is told to sleep, and ends then when it is told so.
    pub(in super::super) fn runner() -> (u32, Arc<AtomicBool>, mpsc::Sender<()>, thread::JoinHandle<()>) {
        let (say, said) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let sleep = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&sleep);
        let runs = move || {
            say.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            while !told.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            ended.recv().unwrap();
        };
        let runner = thread::spawn(runs);
        (said.recv().unwrap(), sleep, end, runner)
    }

    #[test]
    fn who_does_not_sleep_yet_is_waited_for() {
        let (pid, sleep, end, runner) = runner();
        let (say, said) = mpsc::channel();
        assert!(read_call(pid, str::to_owned, move |call| say.send(call).unwrap()).is_pending());
        assert_eq!(said.try_recv(), Err(mpsc::TryRecvError::Empty));
        sleep.store(true, Ordering::Relaxed);
        let call = said.recv().unwrap();
        assert!(call.starts_with(&format!("{} ", libc::SYS_futex)), "{call}");
        end.send(()).unwrap();
        runner.join().unwrap();
    }

    #[test]
    fn who_never_sleeps_is_not_seen() {
        let (pid, sleep, end, runner) = runner();
        let (say, said) = mpsc::channel();
        assert!(read_call(pid, str::to_owned, move |call| say.send(call).unwrap()).is_pending());
        assert_eq!(said.recv().unwrap(), "");
        sleep.store(true, Ordering::Relaxed);
        end.send(()).unwrap();
        runner.join().unwrap();
        assert_eq!(read_call(u32::MAX, str::to_owned, drop), Poll::Ready(String::new()), "there is none");
    }
}
