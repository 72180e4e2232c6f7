//! A session that runs in this process, and what it is asked on behalf of a caller.

use crate::caller::Caller;
use crate::client::Options;
use crate::counters::add;
use crate::error::Error;
use crate::requests::{Driven, Outputs, Requests};
use crate::source::Source;
use crate::way::Way;
use onpath_host::journal::Commit;
use onpath_host::member::NoJournal;
use onpath_host::node::{Node, NodeBuilder};
use onpath_host::udp::Wait;
use onpath_session::fs::{FsOp, FsReply, WaysAt};
use onpath_session::protected::Levels;
use onpath_session::{AccessTimes, KeptWays, SessionConfig, SessionIn};
use onpath_wire::errno::Errno;
use onpath_wire::ids::{InodeId, NodeId};
use std::hash::{BuildHasher, RandomState};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often a call begins again by kept ways; then it goes without.
const RESTARTS_MAX: u32 = 3;

/// A session that runs in this process.
pub(crate) struct Running {
    pub(crate) requests: Arc<Requests>,
    node: Arc<Node>,
    /// What the file system is called.
    pub(crate) name: Arc<str>,
    /// Whether there is somebody to follow names.
    has_path_node: bool,
    /// The process that began it: a fork of that has none of its threads.
    process: u32,
}

impl Running {
    /// Begins a session on this thread, which waits.
    pub(crate) fn begin(source: &Source, options: &Options) -> Result<Running, Error> {
        let key_file = options.key_file.as_deref();
        let way = match source {
            Source::Dir(dir) => Way::find(dir, None, options.patience)?,
            Source::Hosts(hosts, name) => Way::to_hosts(hosts, key_file, options.patience, name.clone())?,
        };
        let (name, there) = (Arc::from(way.source()), way.there());
        let session = onpath_session::Session::new(SessionConfig {
            session: there.session,
            cluster: there.fsid as u32,
            map: there.map.clone(),
            soft: false,
            access_times: AccessTimes::default(),
            in_halves: false,
            caches: false,
            identity: there.identity.clone(),
            kept_ways: kept_ways(options),
        });
        let has_path_node = options.path_nodes && there.map.has_path_nodes();
        let requests = Arc::new(Requests::new());
        let mut builder = NodeBuilder::new();
        let port = builder.add(NodeId::session(there.session.id()), session, Outputs(requests.clone()));
        // This process has no records: whether a reply may leave is decided where they are.
        let node = builder.start(Commit::Interval(1), None, Arc::new(NoJournal));
        requests.drive(Driven { node: Arc::downgrade(&node), port: port.clone() });
        let over = {
            let requests = Arc::downgrade(&requests);
            Arc::new(move |why: &str| requests.upgrade().into_iter().for_each(|requests| requests.end(why)))
        };
        let connected = way.connect(&node, &port, over, Wait::Block)?;
        requests.connected(connected);
        Ok(Running { requests, node, name, has_path_node, process: std::process::id() })
    }

    /// Whether the process is still the one that began it.
    pub(crate) fn is_here(&self) -> bool {
        self.process == std::process::id()
    }
}

/// A session whose paths begin at a directory of the file system.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) running: Arc<Running>,
    pub(crate) root: InodeId,
    /// What that directory is called.
    pub(crate) name: Arc<str>,
}

impl Session {
    pub(crate) fn asks<'a>(&'a self, caller: &'a Caller) -> Asks<'a> {
        let Running { requests, has_path_node, .. } = &*self.running;
        let (by_ways, restarts) = (AtomicU64::new(0), 0);
        Asks { requests, caller, root: self.root, has_path_node: *has_path_node, by_ways, restarts }
    }
}

/// How a session keeps ways.
fn kept_ways(options: &Options) -> KeptWays {
    let mut key = [0; 16];
    let (low, high) = key.split_at_mut(8);
    low.copy_from_slice(&RandomState::new().hash_one(0).to_le_bytes());
    high.copy_from_slice(&RandomState::new().hash_one(1).to_le_bytes());
    KeptWays { bytes: if options.path_nodes { options.path_cache } else { 0 }, key }
}

impl Deref for Session {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let (requests, node) = (self.requests.clone(), self.node.clone());
        if !self.is_here() {
            // Threads and sockets are the parent's, who ends them: here nothing of it is ever dropped.
            _ = ManuallyDrop::new((requests, node));
            return;
        }
        let end = move || {
            requests.submit(SessionIn::Shutdown);
            requests.end("it was closed");
            requests.way().into_iter().for_each(crate::way::Connected::stop);
            node.stop();
        };
        // Stopping waits for threads.
        if std::thread::Builder::new().name("onpath-close".into()).spawn(end).is_err() {
            self.requests.end("it was closed");
        }
    }
}

/// A session, as whom it is asked, and what one call on a path rests on.
pub(crate) struct Asks<'a> {
    pub(crate) requests: &'a Arc<Requests>,
    pub(crate) caller: &'a Caller,
    /// Where paths begin.
    pub(crate) root: InodeId,
    /// Whether there is somebody to follow names.
    pub(crate) has_path_node: bool,
    /// The state of the kept ways that have led here, until a request says so; 0 if none have.
    by_ways: AtomicU64,
    /// How often the call has begun again, since kept ways were not right any more.
    restarts: u32,
}

impl Asks<'_> {
    pub(crate) fn ask(&self, op: FsOp) -> impl Future<Output = Result<FsReply, Error>> + Send + 'static + use<> {
        // To follow more names nobody is asked for anything there.
        let is_way = matches!(op, FsOp::Resolve { .. });
        let by_ways = if is_way { None } else { WaysAt::of(self.by_ways.swap(0, Ordering::Relaxed)) };
        self.requests.ask(self.caller, op, by_ways)
    }

    /// Whether kept ways may lead.
    pub(crate) fn keeps(&self) -> bool {
        self.restarts < RESTARTS_MAX
    }

    /// Kept ways have led here in this state. Of several the first counts: the others are no older.
    pub(crate) fn led_by(&self, at: WaysAt) {
        _ = self.by_ways.compare_exchange(0, at.number(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether a call is to be made once more, from its path on: kept ways were not right, or nobody has looked whether they were. Nothing has
    /// happened then. After some times none are followed.
    pub(crate) fn restarts<T>(&mut self, done: &Result<T, Error>) -> bool {
        let is_unseen = std::mem::take(self.by_ways.get_mut()) != 0;
        let restarts = is_unseen || done.as_ref().is_err_and(|error| error.is(Errno::ERESTART));
        self.restarts += u32::from(restarts);
        restarts && self.restarts <= RESTARTS_MAX
    }

    pub(crate) fn levels(&self) -> Levels {
        self.requests.levels
    }

    pub(crate) fn count_lookup(&self) {
        add(&self.requests.counting.lookups, 1);
    }

    pub(crate) fn count_followed(&self, names: usize) {
        add(&self.requests.counting.names_followed, names as u64);
    }
}

/// Makes a call on a path, again from its beginning as long as [`Asks::restarts`] says so.
macro_rules! restarting {
    ($session:expr, $caller:expr, |$asks:ident| $call:expr) => {{
        let mut asks = $session.asks($caller);
        loop {
            let $asks = &asks;
            let done = $call.await;
            if !asks.restarts(&done) {
                break done;
            }
        }
    }};
}
pub(crate) use restarting;
