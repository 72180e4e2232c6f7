//! What a mount tells of itself: who it is, and what it has done.

use onpath_client::way::Connected;
use onpath_fuse::adapter::Answers;
use onpath_host::sys;
use onpath_wire::codec::Blob;
use onpath_wire::report::{MountIs, MountReport};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the server is told what a mount does.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// A mount of this process.
#[derive(Clone)]
pub(crate) struct Own {
    is: MountIs,
    started: Instant,
    answers: Arc<Answers>,
}

impl Own {
    pub(crate) fn new(mountpoint: &Path, answers: Arc<Answers>) -> io::Result<Own> {
        let text = |text: &[u8]| Blob(text.to_vec());
        let is = MountIs {
            id: sys::random_bytes().map(u64::from_le_bytes)?,
            machine: text(rustix::system::uname().nodename().to_bytes()),
            mountpoint: text(mountpoint.as_os_str().as_bytes()),
            pid: std::process::id(),
            version: text(env!("CARGO_PKG_VERSION").as_bytes()),
            uptime_ms: 0,
        };
        Ok(Own { is, started: Instant::now(), answers })
    }

    /// What it has done so far. Reports of one mount are in the order of their times.
    pub(crate) fn report(&self, leaves: bool) -> MountReport {
        let uptime_ms = self.started.elapsed().as_millis() as u64;
        let is = MountIs { uptime_ms, ..self.is.clone() };
        let (waiting, oldest) = self.answers.waiting();
        let operations = self.answers.meter().operations();
        let answered = operations.iter().flat_map(|kind| &kind.latencies).map(|latency| latency.count).sum();
        let oldest_ms = oldest.as_millis() as u64;
        MountReport { is, leaves, elsewhere: false, answered, waiting, oldest_ms, operations }
    }
}

/// Tells the server of a mount, once a second and when it is dropped.
pub(crate) struct Teller {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Teller {
    pub(crate) fn start(own: Own, connected: Connected) -> io::Result<Teller> {
        let (over, ended) = channel();
        let thread = std::thread::Builder::new().name("teller".into()).spawn(move || {
            while ended.recv_timeout(TOLD_EVERY) == Err(RecvTimeoutError::Timeout) {
                connected.tell(own.report(false));
            }
            connected.tell(own.report(true));
        })?;
        Ok(Teller { over: Some(over), thread: Some(thread) })
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        drop(self.over.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that tells of the mount panicked");
        }
    }
}
