//! The attaching end: one session in this process, its peers behind the stream.
//!
//! When the stream ends (the server restarts), it connects again as its session, with growing pauses; then
//! the session sends again what it waits for. Meanwhile its messages are lost, which the session expects. A session that was declared dead
//! goes on as another one.

use super::conn::Conn;
use super::{Control, MAGIC, Received, StreamError, VERSION, control, receive, send_control};
use crate::dir;
use crate::node::{Link, Node};
use onpath_wire::identity::Identity;
use onpath_wire::ids::{InodeId, NodeId, SessionNumber};
use onpath_wire::packet::Packet;
use onpath_wire::report::MountReport;
use onpath_wire::secrets::{Pass, Placement};
use onpath_wire::shown::{Shown, words};
use rustix::fs::{Mode, OFlags};
use std::io::{self, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// First pause before connecting again; doubled up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(10);
/// Longest pause before connecting again.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// A server that has not answered a first frame after so long is left.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Bytes read at once.
const READ_BYTES: usize = 256 << 10;

/// What a client is told about its stream.
pub trait ClientHooks: Send + Sync {
    /// The stream was rebuilt: messages may be lost on both ways, all peers may have restarted.
    fn reset(&self, node: &Node);
    /// The session was declared dead; from now on it is this one.
    fn renamed(&self, node: &Node, session: SessionNumber);
    /// The server will not have this session again; nothing more will come.
    fn refused(&self, node: &Node, why: &StreamError);
}

/// What the server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The file system.
    pub fsid: u64,
    /// This process's session, and what shows that it is.
    pub pass: Pass,
    /// Who it is, unless it may say for each request who asks.
    pub identity: Option<Identity>,
    /// Number of shards, evenly spread.
    pub shards: u16,
    /// Its path nodes.
    pub path_nodes: Vec<u16>,
    /// At which slot a name is.
    pub placement: Placement,
    /// Whether replies leave when they are durable.
    pub sync: bool,
}

/// A stream to the process that serves a DIR.
pub struct StreamClient {
    dir: PathBuf,
    /// What the server said.
    pub welcome: Welcome,
    stream: UnixStream,
}

pub(super) fn connect(dir: &Path) -> Result<UnixStream, StreamError> {
    let stream = reach(dir).map_err(|source| {
        let start = match dir::is_part(dir) {
            true => "this host's `onpath serve`".to_owned(),
            false => format!("`onpath dev {}`", dir.shown()),
        };
        StreamError::NotServed { dir: dir.to_owned(), start, source }
    })?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    Ok(stream)
}

/// Connects to the socket of a DIR, of whose owner nothing but the name of that socket is needed: no link is followed to it, and the DIR
/// need not be readable.
fn reach(dir: &Path) -> io::Result<UnixStream> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let folder = rustix::fs::open(dir, flags | OFlags::DIRECTORY, Mode::empty())?;
    let socket = rustix::fs::openat(folder, "socket", flags | OFlags::NOFOLLOW, Mode::empty())?;
    UnixStream::connect(format!("/proc/self/fd/{}", socket.as_raw_fd()))
}

/// Reads the server's answer to a first frame.
pub(super) fn answer(stream: &mut UnixStream) -> Result<Control, StreamError> {
    match receive(stream)? {
        Received::Control(Control::Refused { why, retry }) => Err(StreamError::Refused { why: words(&why.0), retry }),
        Received::Control(Control::Unknown { session }) => Err(StreamError::UnknownSession(session)),
        Received::Control(control) => Ok(control),
        Received::Message(..) => Err(StreamError::Unexpected("a message before the welcome")),
    }
}

/// Sends a first frame and reads the server's answer. A server that refuses may have said so, and left, before the frame is written.
pub(super) fn ask(stream: &mut UnixStream, question: &Control) -> Result<Control, StreamError> {
    let sent = send_control(stream, question);
    match (answer(stream), sent) {
        (Err(StreamError::Io(_)), Err(error)) => Err(error.into()),
        (answer, _) => answer,
    }
}

fn hello(dir: &Path, fsid: u64, pass: Pass) -> Result<(UnixStream, Welcome), StreamError> {
    let mut stream = connect(dir)?;
    let hello = Control::Hello { magic: MAGIC, version: VERSION, fsid, pass };
    let Control::Welcome { fsid, pass, identity, shards, path_nodes, placement, sync } = ask(&mut stream, &hello)?
    else {
        return Err(StreamError::Unexpected("the answer to a hello is a welcome"));
    };
    stream.set_read_timeout(None)?;
    Ok((stream, Welcome { fsid, pass, identity, shards, path_nodes, placement, sync }))
}

/// Asks the process that serves `dir` for its report ([`crate::report`]), which it gives within that time; JSON text.
pub fn request_status(dir: &Path, patience: Duration) -> Result<String, StreamError> {
    request(dir, &Control::Status { magic: MAGIC, version: VERSION }, patience)
}

/// Asks the process that serves `dir` what its roles know of a directory; JSON text.
pub fn request_inspection(dir: &Path, of: InodeId) -> Result<String, StreamError> {
    request(dir, &Control::Inspect { magic: MAGIC, version: VERSION, dir: of }, ANSWER_WITHIN)
}

fn request(dir: &Path, question: &Control, patience: Duration) -> Result<String, StreamError> {
    let mut stream = connect(dir)?;
    stream.set_read_timeout(Some(patience))?;
    match ask(&mut stream, question)? {
        Control::StatusIs { json } => Ok(String::from_utf8_lossy(&json.0).into_owned()),
        _ => Err(StreamError::Unexpected("the answer to a status request is the status")),
    }
}

struct Shared {
    dir: PathBuf,
    welcome: Welcome,
    node: Arc<Node>,
    hooks: Box<dyn ClientHooks>,
    /// The present session; none while it needs another id.
    session: Mutex<Pass>,
    conn: Mutex<Option<Arc<Conn>>>,
    stopped: AtomicBool,
    pause: Mutex<()>,
    wake: Condvar,
}

impl Shared {
    fn session(&self) -> Pass {
        *self.session.lock().expect("a pass does not panic")
    }

    fn set_session(&self, pass: Pass) {
        *self.session.lock().expect("a pass does not panic") = pass;
    }
}

/// The way to all roles behind the stream.
struct ServerLink(Arc<Shared>);

impl Link for ServerLink {
    fn send(&self, to: NodeId, packet: Packet) {
        let conn = self.0.conn.lock().expect("the connection does not panic").clone();
        if let Some(conn) = conn {
            conn.send(to, packet);
        }
    }
}

/// A running client. Dropping it ends the stream, and with it the session.
pub struct Attached {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl StreamClient {
    /// Connects to the process that serves `dir` as a new session.
    pub fn connect(dir: &Path) -> Result<StreamClient, StreamError> {
        let (stream, welcome) = hello(dir, 0, Pass::default())?;
        Ok(StreamClient { dir: dir.to_owned(), welcome, stream })
    }

    /// Carries messages between `node`, which runs the session of [`Self::welcome`], and the server.
    pub fn start(self, node: &Arc<Node>, hooks: impl ClientHooks + 'static) -> Result<Attached, StreamError> {
        let conn = Arc::new(Conn::new(self.stream.try_clone()?));
        let shared = Arc::new(Shared {
            dir: self.dir,
            session: Mutex::new(self.welcome.pass),
            welcome: self.welcome,
            node: node.clone(),
            hooks: Box::new(hooks),
            conn: Mutex::new(Some(conn.clone())),
            stopped: AtomicBool::new(false),
            pause: Mutex::new(()),
            wake: Condvar::new(),
        });
        node.attach_default(Arc::new(ServerLink(shared.clone())));
        let stream = self.stream;
        let run = {
            let shared = shared.clone();
            move || run(&shared, stream, conn)
        };
        let thread = std::thread::Builder::new().name("stream".into()).spawn(run)?;
        // What the session said before there was a way is lost.
        shared.hooks.reset(node);
        Ok(Attached { shared, thread: Mutex::new(Some(thread)) })
    }
}

impl Attached {
    /// Tells the server what the mount of this process has done; lost if it is gone.
    pub fn tell(&self, report: MountReport) {
        let conn = self.shared.conn.lock().expect("the connection does not panic").clone();
        if let Some(conn) = conn {
            conn.send(NodeId(0), control(&Control::Report { report }));
        }
    }

    /// The session was declared dead: the stream is rebuilt for another one, and [`ClientHooks::renamed`] says which.
    pub fn begin_anew(&self) {
        self.shared.set_session(Pass::default());
        if let Some(conn) = self.shared.conn.lock().expect("the connection does not panic").as_ref() {
            conn.close();
        }
    }

    /// Ends the stream, and with it the session.
    pub fn stop(&self) {
        self.shared.stopped.store(true, Ordering::Release);
        drop(self.shared.pause.lock().expect("the pause does not panic"));
        self.shared.wake.notify_all();
        if let Some(conn) = self.shared.conn.lock().expect("the connection does not panic").take() {
            conn.close();
        }
        let thread = self.thread.lock().expect("stopping does not panic").take();
        if thread.is_some_and(|thread| thread.thread().id() != std::thread::current().id() && thread.join().is_err()) {
            tracing::error!("the stream's thread panicked");
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Attached {
    /// Whether the server is gone now.
    pub fn is_lost(&self) -> bool {
        self.shared.conn.lock().expect("the connection does not panic").is_none()
    }
}

/// Serves one stream after another.
fn run(shared: &Arc<Shared>, stream: UnixStream, conn: Arc<Conn>) {
    let mut current = Some((stream, conn));
    while let Some((stream, conn)) = current.take() {
        let ended = serve(shared, &stream, &conn);
        *shared.conn.lock().expect("the connection does not panic") = None;
        conn.close();
        if shared.stopped.load(Ordering::Acquire) {
            return;
        }
        tracing::warn!(dir = %shared.dir.shown(), error = %ended, "the server is gone; trying to reach it again");
        current = again(shared);
        if current.is_some() {
            tracing::info!(dir = %shared.dir.shown(), "the server is back");
            shared.hooks.reset(&shared.node);
        }
    }
}

fn serve(shared: &Shared, stream: &UnixStream, conn: &Arc<Conn>) -> StreamError {
    let writer = {
        let conn = conn.clone();
        std::thread::Builder::new().name("stream-send".into()).spawn(move || conn.run())
    };
    let writer = match writer {
        Ok(writer) => writer,
        Err(error) => return error.into(),
    };
    let session = NodeId::session(shared.session().session.id());
    let mut from = BufReader::with_capacity(READ_BYTES, stream);
    let ended = loop {
        match receive(&mut from) {
            Ok(Received::Message(to, packet)) if to == session => shared.node.deliver(to, packet),
            Ok(_) => break StreamError::Unexpected("a frame that is not for this session"),
            Err(error) => break error,
        }
    };
    conn.close();
    if writer.join().is_err() {
        tracing::error!("a sending thread panicked");
    }
    ended
}

/// Connects again under the same session id, or another one where that is dead; nothing when stopped or refused for good.
fn again(shared: &Shared) -> Option<(UnixStream, Arc<Conn>)> {
    let mut pause = PAUSE;
    loop {
        let held = shared.pause.lock().expect("the pause does not panic");
        if shared.stopped.load(Ordering::Acquire) {
            return None;
        }
        drop(shared.wake.wait_timeout(held, pause).expect("the pause does not panic"));
        if shared.stopped.load(Ordering::Acquire) {
            return None;
        }
        match attach_again(shared) {
            Ok((_, conn)) if shared.stopped.load(Ordering::Acquire) => {
                conn.close();
                return None;
            }
            Ok(attached) => return Some(attached),
            Err(StreamError::UnknownSession(session)) => {
                tracing::warn!(%session, "the session was declared dead");
                shared.set_session(Pass::default());
            }
            Err(error @ StreamError::Refused { retry: false, .. }) => {
                tracing::error!(%error, "the session is over");
                shared.hooks.refused(&shared.node, &error);
                return None;
            }
            Err(error) => tracing::debug!(%error, "the server is not back yet"),
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

fn attach_again(shared: &Shared) -> Result<(UnixStream, Arc<Conn>), StreamError> {
    let before = shared.session();
    let (stream, welcome) = hello(&shared.dir, shared.welcome.fsid, before)?;
    if welcome.shards != shared.welcome.shards {
        return Err(StreamError::Refused { why: "the number of shards has changed".into(), retry: false });
    }
    if welcome.identity != shared.welcome.identity {
        return Err(StreamError::Refused {
            why: "the server takes this process for another user now".into(),
            retry: false,
        });
    }
    let conn = Arc::new(Conn::new(stream.try_clone()?));
    *shared.conn.lock().expect("the connection does not panic") = Some(conn.clone());
    if before.session != welcome.pass.session {
        let session = welcome.pass.session;
        tracing::warn!(%session, "goes on as another session");
        shared.set_session(welcome.pass);
        shared.hooks.renamed(&shared.node, session);
    }
    Ok((stream, conn))
}
