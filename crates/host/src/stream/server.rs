//! The serving end: accepts streams, makes each a session, and lets the session die with its stream.

use super::conn::Conn;
use super::examine::{Examination, tell};
use super::peer;
use super::{Control, MAGIC, Received, StreamError, VERSION, receive, send_control};
use crate::bound;
use crate::held;
use crate::node::{Counters, Link, Node};
use crate::seldom::Seldom;
use crate::sys::{self, Peer};
use crate::udp::may_send;
use onpath_wire::codec::Blob;
use onpath_wire::identity::{Bound, Holder, Identity};
use onpath_wire::ids::{InodeId, NodeId, SessionId, SessionNumber};
use onpath_wire::packet::Packet;
use onpath_wire::secrets::{Pass, PassKey, Placement};
use rustix::fs::{Mode, OFlags};
use std::collections::HashMap;
use std::io::{self, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Streams at the same time.
const STREAMS_MAX: usize = 256;
/// Those of users who are neither root nor the owner of DIR: these two always find room.
const STREAMS_OF_OTHERS_MAX: usize = 192;
/// Those of one such user.
const STREAMS_OF_USER_MAX: usize = 16;
/// A client that has not said hello after so long is dropped.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes read at once.
const READ_BYTES: usize = 256 << 10;

/// What the serving end needs to know.
pub struct ServerConfig {
    /// The DIR whose `socket` it listens on.
    pub dir: PathBuf,
    /// The file system.
    pub fsid: u64,
    /// Number of shards.
    pub shards: u16,
    /// Its path nodes.
    pub path_nodes: Vec<u16>,
    /// At which slot a name is.
    pub placement: Placement,
    /// Whether replies leave when they are durable.
    pub sync: bool,
    /// A session that nobody was before.
    pub new_session: Box<dyn Fn() -> Result<SessionNumber, String> + Send + Sync>,
    /// The key of what shows whose a session is.
    pub passes: PassKey,
    /// Whether this session was ever given out.
    pub known_session: Box<dyn Fn(SessionNumber) -> bool + Send + Sync>,
    /// The message that ends a session, and to whom it goes (the coordinator's shard).
    pub detach: Box<dyn Fn(SessionNumber) -> (NodeId, Packet) + Send + Sync>,
    /// The status as JSON text.
    pub status: Box<dyn Fn() -> String + Send + Sync>,
    /// What the roles know of a directory, as JSON text.
    pub inspect: Box<dyn Fn(InodeId) -> String + Send + Sync>,
    /// Shows the durable state.
    pub examine: Box<Examination>,
}

#[derive(Default)]
struct Counts {
    accepted: AtomicU64,
    refused: AtomicU64,
    malformed: AtomicU64,
    /// Messages under another source than the stream's session, or to whom no session may speak.
    foreign: AtomicU64,
    /// Requests of users who may not ask that.
    disallowed: AtomicU64,
}

/// Streams of users who are neither root nor the owner of DIR, also those that have not said hello.
#[derive(Debug, Default)]
struct Others {
    all: usize,
    by_uid: HashMap<u32, usize>,
}

impl Others {
    /// Counts one more; says why not if there are too many.
    fn enter(&mut self, uid: u32) -> Result<(), String> {
        let mine = self.by_uid.get(&uid).copied().unwrap_or(0);
        if mine >= STREAMS_OF_USER_MAX {
            return Err(format!("uid {uid} has {STREAMS_OF_USER_MAX} streams open"));
        }
        if self.all >= STREAMS_OF_OTHERS_MAX {
            return Err(format!("{STREAMS_OF_OTHERS_MAX} streams of users are open"));
        }
        self.all += 1;
        self.by_uid.insert(uid, mine + 1);
        Ok(())
    }

    fn leave(&mut self, uid: u32) {
        self.all -= 1;
        if let Some(mine) = self.by_uid.get_mut(&uid) {
            *mine -= 1;
            if *mine == 0 {
                self.by_uid.remove(&uid);
            }
        }
    }
}

struct Shared {
    config: ServerConfig,
    owner: u32,
    node: Arc<Node>,
    listener: UnixListener,
    /// Open streams by session.
    open: Mutex<HashMap<SessionId, Arc<Conn>>>,
    streams: AtomicU64,
    others: Mutex<Others>,
    stopped: AtomicBool,
    counts: Counts,
    refusals: Seldom,
}

/// The serving end of `DIR/socket`.
pub struct StreamServer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct SessionLink(Arc<Conn>);

impl Link for SessionLink {
    fn send(&self, to: NodeId, packet: Packet) {
        self.0.send(to, packet);
    }
}

impl StreamServer {
    /// Listens. The DIR is locked by this process, so a socket found there is a leftover.
    pub fn start(node: &Arc<Node>, config: ServerConfig) -> Result<StreamServer, StreamError> {
        let path = config.dir.join("socket");
        let at = |source| StreamError::Socket { path: path.clone(), source };
        let (listener, owner) = listen(&config.dir, &path).map_err(at)?;
        let shared = Arc::new(Shared {
            config,
            owner,
            node: node.clone(),
            listener,
            open: Mutex::default(),
            streams: AtomicU64::new(0),
            others: Mutex::default(),
            stopped: AtomicBool::new(false),
            counts: Counts::default(),
            refusals: Seldom::default(),
        });
        let thread = {
            let shared = shared.clone();
            std::thread::Builder::new().name("accept".into()).spawn(move || accept(&shared)).map_err(at)?
        };
        Ok(StreamServer { shared, thread: Some(thread) })
    }

    /// Counters.
    pub fn status(&self) -> Counters {
        let c = &self.shared.counts;
        let open = self.shared.open.lock().expect("the table does not panic");
        let lost = open.values().map(|conn| conn.lost.load(Ordering::Relaxed)).sum();
        [
            ("streams", open.len() as u64),
            ("accepted", c.accepted.load(Ordering::Relaxed)),
            ("refused", c.refused.load(Ordering::Relaxed)),
            ("malformed", c.malformed.load(Ordering::Relaxed)),
            ("foreign", c.foreign.load(Ordering::Relaxed)),
            ("disallowed", c.disallowed.load(Ordering::Relaxed)),
            ("lost", lost),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Refuses new streams and ends those that are open, without ending their sessions: they come again.
    pub fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.shared.stopped.store(true, Ordering::Release);
        sys::stop_listening(&self.shared.listener);
        if thread.join().is_err() {
            tracing::error!("the accepting thread panicked");
        }
        self.shared.open.lock().expect("the table does not panic").values().for_each(|conn| conn.close());
        // It may be gone with its DIR.
        let _ = held::remove(&self.shared.config.dir.join("socket"));
    }
}

impl Drop for StreamServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn listen(dir: &Path, path: &Path) -> io::Result<(UnixListener, u32)> {
    match held::remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let folder = held::folder(dir)?;
    let listener = UnixListener::bind(format!("/proc/self/fd/{}/socket", folder.as_raw_fd()))?;
    // Who may attach is decided by credentials, with an answer that says so.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let socket = rustix::fs::openat(&folder, "socket", flags, Mode::empty())?;
    let open = format!("/proc/self/fd/{}", socket.as_raw_fd());
    std::fs::set_permissions(open, std::fs::Permissions::from_mode(0o666))?;
    Ok((listener, rustix::fs::fstat(&folder)?.st_uid))
}

fn accept(shared: &Arc<Shared>) {
    while !shared.stopped.load(Ordering::Acquire) {
        let stream = match shared.listener.accept() {
            Ok((stream, _)) => stream,
            Err(_) if shared.stopped.load(Ordering::Acquire) => return,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a stream");
                // Out of descriptors, say: give others time to close some.
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
        };
        let serve = {
            let shared = shared.clone();
            move || serve(&shared, stream)
        };
        if let Err(error) = std::thread::Builder::new().name("stream".into()).spawn(serve) {
            tracing::warn!(%error, "no thread for a stream");
        }
    }
}

/// One stream, from its hello to its end.
fn serve(shared: &Arc<Shared>, mut stream: UnixStream) {
    let streams = shared.streams.fetch_add(1, Ordering::AcqRel);
    let peer = sys::peer(&stream).map_err(StreamError::Io);
    let other = peer.as_ref().ok().map(|peer| peer.uid).filter(|uid| !shared.is_trusted(*uid));
    let counted = other.map_or(Ok(()), |uid| shared.others().enter(uid));
    let result = match (&counted, peer) {
        (Err(why), _) => Err(refusal(why, true)),
        (Ok(()), Err(error)) => Err(error),
        (Ok(()), Ok(peer)) if streams < STREAMS_MAX as u64 => greet(shared, &mut stream, peer),
        (Ok(()), Ok(_)) => Err(refusal(format!("{STREAMS_MAX} streams are open"), true)),
    };
    match result {
        Ok(Some(welcomed)) => run(shared, welcomed, stream),
        Ok(None) => {}
        Err(error) => {
            shared.counts.refused.fetch_add(1, Ordering::Relaxed);
            if let Some(times) = shared.refusals.times(Instant::now()) {
                tracing::warn!(%error, times, "a client is refused");
            }
            let refused = |why: String, retry| Control::Refused { why: Blob(why.into_bytes()), retry };
            let answer = match error {
                StreamError::Refused { why, retry } => refused(why, retry),
                StreamError::UnknownSession(session) => Control::Unknown { session },
                other => refused(other.to_string(), false),
            };
            // It may not listen any more.
            let _ = send_control(&mut stream, &answer);
        }
    }
    if let (Some(uid), Ok(())) = (other, counted) {
        shared.others().leave(uid);
    }
    shared.streams.fetch_sub(1, Ordering::AcqRel);
}

impl Shared {
    /// Whether that user may name any caller, and see all there is.
    fn is_trusted(&self, uid: u32) -> bool {
        uid == 0 || uid == self.owner
    }

    fn others(&self) -> MutexGuard<'_, Others> {
        self.others.lock().expect("counting does not panic")
    }
}

/// Who was let in.
struct Welcomed {
    pass: Pass,
    identity: Option<Identity>,
}

const BEGUN_BY_ANOTHER: &str = "the session was begun by somebody else, who alone goes on with it";

fn refusal(why: impl Into<String>, retry: bool) -> StreamError {
    StreamError::Refused { why: why.into(), retry }
}

fn check_version(magic: u64, version: u32) -> Result<(), StreamError> {
    if magic != MAGIC {
        return Err(refusal("this is no Onpath client", false));
    }
    if version != VERSION {
        return Err(refusal(
            format!("client has version {version}, server {VERSION}: use the same onpath for both"),
            false,
        ));
    }
    Ok(())
}

/// Checks who comes, and welcomes it as a session; nothing if it only had a question.
fn greet(shared: &Shared, stream: &mut UnixStream, peer: Peer) -> Result<Option<Welcomed>, StreamError> {
    stream.set_read_timeout(Some(HELLO_TIMEOUT))?;
    let hello = receive(stream)?;
    let config = &shared.config;
    let (magic, version) = match &hello {
        Received::Control(
            Control::Hello { magic, version, .. }
            | Control::Status { magic, version }
            | Control::Inspect { magic, version, .. }
            | Control::Examine { magic, version },
        ) => (*magic, *version),
        _ => return Err(StreamError::Unexpected("the first frame is a hello")),
    };
    check_version(magic, version)?;
    let (fsid, before) = match hello {
        Received::Control(Control::Hello { fsid, pass, .. }) => (fsid, pass),
        Received::Control(question) => {
            if !shared.is_trusted(peer.uid) {
                let (uid, owner) = (peer.uid, shared.owner);
                let why = format!("uid {uid} is neither root nor the owner (uid {owner}) of the directory");
                return Err(refusal(why, false));
            }
            match question {
                Control::Status { .. } => {
                    let json = Blob((config.status)().into_bytes());
                    send_control(stream, &Control::StatusIs { json })?;
                }
                Control::Inspect { dir, .. } => {
                    let json = Blob((config.inspect)(dir).into_bytes());
                    send_control(stream, &Control::StatusIs { json })?;
                }
                _ => tell(stream, &config.examine)?,
            }
            return Ok(None);
        }
        Received::Message(..) => return Err(StreamError::Unexpected("the first frame is a hello")),
    };
    if fsid != 0 && fsid != config.fsid {
        return Err(refusal("the directory now holds another file system: unmount and mount again", false));
    }
    let identity = (!shared.is_trusted(peer.uid)).then(|| peer::identity(stream, peer)).transpose()?;
    let pass = match before.session {
        SessionNumber::NONE => {
            let session = (config.new_session)().map_err(|why| refusal(why, false))?;
            config.passes.pass(session, Holder::User { uid: peer.uid })
        }
        // Whoever has begun it goes on with it, and nobody else.
        _ if !config.passes.gave(&before) || before.holder != (Holder::User { uid: peer.uid }) => {
            return Err(refusal(BEGUN_BY_ANOTHER, false));
        }
        session if !(config.known_session)(session) => return Err(StreamError::UnknownSession(session)),
        _ => before,
    };
    if shared.open.lock().expect("the table does not panic").contains_key(&pass.session.id()) {
        return Err(refusal(format!("session {} still has a stream", pass.session), true));
    }
    stream.set_read_timeout(None)?;
    Ok(Some(Welcomed { pass, identity }))
}

fn run(shared: &Arc<Shared>, welcomed: Welcomed, stream: UnixStream) {
    let Welcomed { pass, identity } = welcomed;
    let session = pass.session;
    let Ok(sending) = stream.try_clone() else { return };
    let conn = Arc::new(Conn::new(sending));
    {
        let mut open = shared.open.lock().expect("the table does not panic");
        if open.contains_key(&session.id()) || shared.stopped.load(Ordering::Acquire) {
            return;
        }
        open.insert(session.id(), conn.clone());
    }
    shared.counts.accepted.fetch_add(1, Ordering::Relaxed);
    let address = NodeId::session(session.id());
    let link: Arc<dyn Link> = Arc::new(SessionLink(conn.clone()));
    let config = &shared.config;
    let welcome = Control::Welcome {
        fsid: config.fsid,
        pass,
        identity: identity.clone(),
        shards: config.shards,
        path_nodes: config.path_nodes.clone(),
        placement: config.placement,
        sync: config.sync,
    };
    conn.send(NodeId(0), super::control(&welcome));
    shared.node.attach(address, link.clone());
    let writer = {
        let conn = conn.clone();
        std::thread::Builder::new().name("stream-send".into()).spawn(move || conn.run())
    };
    let bound = identity.map(|identity| Bound { session, identity });
    let ended = match &writer {
        Ok(_) => serve_messages(shared, session, bound.as_ref(), (&stream, &conn)),
        Err(_) => StreamError::Unexpected("no thread for the sending half"),
    };
    if !matches!(ended, StreamError::Ended | StreamError::Io(_)) {
        shared.counts.malformed.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%session, error = %ended, "a stream is closed");
    }
    conn.close();
    shared.node.mounts().left(session);
    shared.node.detach(address, &link);
    shared.open.lock().expect("the table does not panic").remove(&session.id());
    // When this process stops, its sessions live on in the next one.
    if !shared.stopped.load(Ordering::Acquire) {
        let (to, packet) = (config.detach)(session);
        shared.node.deliver(to, packet);
    }
    if writer.is_ok_and(|writer| writer.join().is_err()) {
        tracing::error!("a sending thread panicked");
    }
}

/// Delivers what the session sends, until its stream ends; `bound`: if it acts as somebody alone.
fn serve_messages(
    shared: &Shared,
    session: SessionNumber,
    bound: Option<&Bound>,
    (stream, conn): (&UnixStream, &Conn),
) -> StreamError {
    let address = NodeId::session(session.id());
    let mut from = BufReader::with_capacity(READ_BYTES, stream);
    loop {
        match receive(&mut from) {
            Ok(Received::Message(to, mut packet)) if may_send(address, to, &packet) => {
                packet.bound = bound.is_some();
                match bound.and_then(|bound| bound::refusal(bound, to, &packet)) {
                    None => shared.node.deliver(to, packet),
                    Some(refusal) => {
                        shared.counts.disallowed.fetch_add(1, Ordering::Relaxed);
                        conn.send(address, refusal);
                    }
                }
            }
            // Whoever has a mount is root, or the owner.
            Ok(Received::Control(Control::Report { report })) if bound.is_none() => {
                shared.node.mounts().tell_by_stream(session, &report)
            }
            Ok(Received::Message(..) | Received::Control(Control::Report { .. })) => {
                shared.counts.foreign.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Received::Control(_)) => return StreamError::Unexpected("a control frame after the hello"),
            Err(error) => return error,
        }
    }
}
