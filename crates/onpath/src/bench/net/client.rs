//! The client: a session on UDP as a mount has it, without the mount. It asks for the next thing where the last answer has arrived, on the
//! thread that has received it, as a mount gives answers to the kernel.

use super::place::bind_to;
use super::servers::Servers;
use crate::cli::WaitMode;
use anyhow::{Context, anyhow, ensure};
use onpath_client::way::{Connected, Way};
use onpath_host::journal::Commit;
use onpath_host::member::NoJournal;
use onpath_host::node::{Effects, Node, NodeBuilder, Port};
use onpath_session::fs::{Caller, FsOp, FsReply, FsRequest, FsResult, Handle, OpenMode};
use onpath_session::{AccessTimes, KeptWays, ReadCaller, Session, SessionConfig, SessionIn, SessionOut};
use onpath_wire::caller::{Caps, cap};
use onpath_wire::ids::{InodeId, NodeId};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// The inodes and handles in answers, in the order of arrival.
pub(in crate::bench) type Found = [(InodeId, Option<Handle>)];

/// What the request of a number asks for, when something was found.
pub(in crate::bench) type Ask = Box<dyn Fn(usize, &Found) -> FsOp + Send>;

/// Things to ask for, one after the other or several at a time.
pub(in crate::bench) struct Load {
    pub(in crate::bench) count: usize,
    pub(in crate::bench) window: usize,
    /// What the request of that number asks for, when this was found.
    pub(in crate::bench) ask: Ask,
    /// Whether how long it takes is of interest.
    pub(in crate::bench) timed: fn(usize) -> bool,
}

/// What came of it.
pub(in crate::bench) struct Outcome {
    /// How long each timed request took, ns.
    pub(in crate::bench) latencies: Vec<u32>,
    /// Requests a second.
    pub(in crate::bench) rate: f64,
    /// The inodes and handles in the answers, in the order of arrival. That of an open tells no inode.
    pub(in crate::bench) found: Vec<(InodeId, Option<Handle>)>,
}

struct Running {
    load: Load,
    begin: Instant,
    /// When each place of the window asked.
    asked: Vec<Instant>,
    next: usize,
    answered: usize,
    outcome: Outcome,
}

impl Running {
    fn op(&self, number: usize) -> FsOp {
        (self.load.ask)(number, &self.outcome.found)
    }

    fn ask(&mut self, place: usize) -> Option<SessionIn> {
        let number = self.next;
        if number >= self.load.count {
            return None;
        }
        self.next += 1;
        let unique = (number * self.load.window + place) as u64 + 1;
        let request = FsRequest { unique, caller: Caller::default(), op: self.op(number), by_ways: None };
        self.asked[place] = Instant::now(); // what the echo sends is made before its clock is read, too
        Some(SessionIn::Fs(request))
    }

    /// An answer has come; what is asked for next.
    fn answer(&mut self, unique: u64, result: FsResult) -> Result<Option<SessionIn>, String> {
        let now = Instant::now();
        let (number, place) = ((unique as usize - 1) / self.load.window, (unique as usize - 1) % self.load.window);
        if (self.load.timed)(number) {
            self.outcome.latencies.push((now - self.asked[place]).as_nanos() as u32);
        }
        match result {
            Ok(FsReply::Entry(attr) | FsReply::Attr { attr, .. }) => self.outcome.found.push((attr.id, None)),
            Ok(FsReply::Created { attr, opened, .. }) => self.outcome.found.push((attr.id, Some(opened.handle))),
            Ok(FsReply::Opened(opened)) => self.outcome.found.push((InodeId::default(), Some(opened.handle))),
            Ok(_) => {}
            Err(errno) => return Err(format!("{:?} of the measurement: {errno}", self.op(number))),
        }
        self.answered += 1;
        Ok(self.ask(place))
    }
}

/// What the session's outputs do.
#[derive(Clone)]
struct Loop {
    running: Arc<Mutex<Option<Running>>>,
    over: Sender<Result<Outcome, String>>,
}

impl Loop {
    fn answered(&self, unique: u64, result: FsResult) -> Option<SessionIn> {
        let mut place = self.running.lock().expect("the measurement does not panic");
        let running = place.as_mut()?;
        let next = running.answer(unique, result);
        let over = match next {
            Ok(next) if running.answered < running.load.count => return next,
            Ok(_) => {
                running.outcome.rate = running.load.count as f64 / running.begin.elapsed().as_secs_f64();
                Ok(())
            }
            Err(why) => Err(why),
        };
        let done = place.take().map(|running| over.map(|()| running.outcome));
        done.into_iter().for_each(|done| _ = self.over.send(done));
        None
    }
}

impl Effects<Session> for Loop {
    fn perform(&self, out: SessionOut, done: &mut Vec<SessionIn>) {
        match out {
            SessionOut::Reply { unique, result } => done.extend(self.answered(unique, result)),
            SessionOut::ReadCaller { ticket, .. } => {
                let read = ReadCaller { groups: Some(vec![]), caps: Caps::exactly(cap::ALL) };
                done.push(SessionIn::Caller { ticket, read });
            }
            SessionOut::HowItWaits { ticket, .. } => done.push(SessionIn::WaitsAs { ticket, process: None }),
            SessionOut::Share { .. } => done.push(SessionIn::Shared),
            SessionOut::WriteBack { id } => done.push(SessionIn::WrittenBack { id }),
            SessionOut::Lost(reason) => _ = self.over.send(Err(reason.to_string())),
            SessionOut::Expired => _ = self.over.send(Err("the session was declared dead".to_owned())),
            SessionOut::Attached
            | SessionOut::Alone { .. }
            | SessionOut::Forget { .. }
            | SessionOut::Invalidate { .. } => {}
        }
    }
}

/// A session on UDP.
pub(in crate::bench) struct Client {
    node: Arc<Node>,
    session: Port<Session>,
    connected: Connected,
    running: Arc<Mutex<Option<Running>>>,
    over: Receiver<Result<Outcome, String>>,
    /// The file system, as messages name it.
    pub(in crate::bench) cluster: u32,
}

impl Client {
    /// Joins the cluster of these servers; its threads are bound to a CPU.
    pub(in crate::bench) fn start(servers: &Servers, wait: WaitMode, cpu: usize) -> anyhow::Result<Client> {
        bind_to(cpu)?;
        let way = Way::find(Path::new(&servers.url), servers.key_file.as_deref(), PATIENCE)?;
        let there = way.there();
        let cluster = there.fsid as u32;
        let session = Session::new(SessionConfig {
            session: there.session,
            cluster,
            map: there.map,
            soft: false,
            access_times: AccessTimes::default(),
            in_halves: there.sync,
            caches: false,
            identity: None,
            kept_ways: KeptWays::default(),
        });
        let (sender, over) = channel();
        let running = Arc::new(Mutex::new(None));
        let mut builder = NodeBuilder::new();
        let address = NodeId::session(there.session.id());
        let session = builder.add(address, session, Loop { running: running.clone(), over: sender });
        let node = builder.start(Commit::Interval(1), None, Arc::new(NoJournal));
        // A session that is refused asks for nothing more, and the measurement ends with what it waits for.
        let connected = way.connect(&node, &session, Arc::new(|_| ()), wait.of_endpoint())?;
        Ok(Client { node, session, connected, running, over, cluster })
    }

    /// Asks for all of a load.
    pub(in crate::bench) fn run(&self, load: Load) -> anyhow::Result<Outcome> {
        let (now, window) = (Instant::now(), load.window);
        let outcome = Outcome { latencies: Vec::with_capacity(load.count), rate: 0.0, found: vec![] };
        let running = Running { asked: vec![now; window], begin: now, next: 0, answered: 0, outcome, load };
        *self.running.lock().expect("the measurement does not panic") = Some(running);
        for place in 0..window {
            let first = {
                let mut running = self.running.lock().expect("the measurement does not panic");
                running.as_mut().and_then(|running| running.ask(place))
            };
            first.into_iter().for_each(|first| self.node.submit(&self.session, first));
        }
        let done = self.over.recv_timeout(PATIENCE).context("the servers do not answer")?;
        done.map_err(|why| anyhow!(why))
    }

    /// Asks for one thing and gives the inode of the answer.
    pub(in crate::bench) fn one(&self, op: &FsOp) -> anyhow::Result<InodeId> {
        let op = op.clone();
        let outcome =
            self.run(Load { count: 1, window: 1, ask: Box::new(move |_, _| op.clone()), timed: |_| false })?;
        outcome.found.first().map(|(id, _)| *id).context("an answer without an inode")
    }

    /// Makes a directory in the root.
    pub(in crate::bench) fn directory(&self, name: &str) -> anyhow::Result<InodeId> {
        let (parent, name) = (InodeId::ROOT, plain(name));
        let kind = Kind::Directory;
        self.one(&FsOp::Make { parent, name, kind, mode: 0o755, umask: 0, rdev: 0, target: vec![] })
    }

    /// Closes what a load has opened.
    pub(in crate::bench) fn close(&self, found: &[(InodeId, Option<Handle>)]) -> anyhow::Result<()> {
        let handles: Vec<Handle> = found.iter().filter_map(|(_, handle)| *handle).collect();
        let (count, window) = (handles.len(), 64);
        let ask = move |number: usize, _: &Found| FsOp::Release { handle: handles[number], flock_owner: None };
        ensure!(count > 0, "nothing was opened");
        self.run(Load { count, window, ask: Box::new(ask), timed: |_| false }).map(drop)
    }

    /// Datagrams and bytes that were sent and received.
    pub(in crate::bench) fn traffic(&self) -> Traffic {
        let status = self.node.status();
        let transport = status.into_iter().find(|(name, _)| name == "transport");
        let all: BTreeMap<String, u64> = transport.into_iter().flat_map(|(_, counters)| counters).collect();
        let of = |wanted: &str| all.get(wanted).copied().unwrap_or_default();
        let sent = (of("datagrams_sent"), of("bytes_sent"));
        Traffic { sent, received: (of("datagrams_received"), of("bytes_received")) }
    }

    /// Leaves.
    pub(in crate::bench) fn stop(self) -> anyhow::Result<()> {
        self.connected.stop();
        Ok(self.node.close()?)
    }
}

/// Datagrams and bytes each way.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Traffic {
    sent: (u64, u64),
    received: (u64, u64),
}

impl Traffic {
    /// Mean bytes of what was sent and received since then.
    pub(in crate::bench) fn bytes_since(&self, before: Traffic) -> (usize, usize) {
        let mean = |now: (u64, u64), then: (u64, u64)| ((now.1 - then.1) / (now.0 - then.0).max(1)) as usize;
        (mean(self.sent, before.sent), mean(self.received, before.received))
    }

    /// Bytes that each of so many requests has sent and received since then.
    pub(in crate::bench) fn bytes_each(&self, before: Traffic, requests: usize) -> (usize, usize) {
        let each = |now: (u64, u64), then: (u64, u64)| (now.1 - then.1) as usize / requests.max(1);
        (each(self.sent, before.sent), each(self.received, before.received))
    }

    /// Datagrams sent and received since then.
    pub(in crate::bench) fn datagrams_since(&self, before: Traffic) -> u64 {
        self.sent.0 - before.sent.0 + self.received.0 - before.received.0
    }
}

/// Looks at one inode.
pub(in crate::bench) fn getattr(id: InodeId) -> FsOp {
    FsOp::GetAttr { id, handle: None }
}

/// Makes and opens a file.
pub(in crate::bench) fn create(parent: InodeId, prefix: &str, number: usize) -> FsOp {
    create_named(parent, plain(&format!("{prefix}{number}")))
}

/// The same under this name.
pub(super) fn create_named(parent: InodeId, name: Name) -> FsOp {
    FsOp::Create { parent, name, mode: 0o644, umask: 0, open: OpenMode { exclusive: true, ..OpenMode::READ_WRITE } }
}

fn plain(name: &str) -> Name {
    Name::new(name.as_bytes()).expect("a plain name")
}
