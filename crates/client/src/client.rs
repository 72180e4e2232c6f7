//! The calls of a client, as futures.

use crate::caller::Caller;
use crate::error::Error;
use crate::requests::{Driven, Outputs, Requests};
use crate::source::Source;
use crate::walk::{self, Last};
use crate::way::Way;
use futures_channel::oneshot;
use onpath_host::journal::Commit;
use onpath_host::member::NoJournal;
use onpath_host::node::{Node, NodeBuilder};
use onpath_host::udp::Wait;
use onpath_session::fs::{FsOp, FsReply};
use onpath_session::{AccessTimes, Session, SessionConfig, SessionIn};
use onpath_wire::attr::AttrWire;
use onpath_wire::errno::Errno;
use onpath_wire::ids::NodeId;
use onpath_wire::inode::Kind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How a client comes in.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file with the key of the cluster, if it has one.
    pub key_file: Option<PathBuf>,
    /// For how long a host that answers is looked for.
    pub patience: Duration,
}

impl Default for Options {
    /// No key, and ten seconds.
    fn default() -> Options {
        Options { key_file: None, patience: Duration::from_secs(10) }
    }
}

/// What kind of file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum FileType {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    CharDevice,
    BlockDevice,
}

/// What stat(2) tells. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Inode number: the same in each mount.
    pub ino: u64,
    /// What it is.
    pub file_type: FileType,
    /// Permission bits including setuid, setgid and sticky.
    pub permissions: u32,
    /// Number of its names; of a directory 2 and its subdirectories.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Blocks of 512 bytes that it takes.
    pub blocks: u64,
    /// Of a device: major and minor number, as the kernel packs them.
    pub rdev: u64,
    /// Access time.
    pub atime: i64,
    /// Modification time.
    pub mtime: i64,
    /// Change time.
    pub ctime: i64,
    /// When it was made.
    pub btime: i64,
}

impl Metadata {
    fn of(attr: &AttrWire, btime: i64) -> Metadata {
        let file_type = match attr.kind {
            Kind::File => FileType::File,
            Kind::Directory => FileType::Directory,
            Kind::Symlink => FileType::Symlink,
            Kind::Fifo => FileType::Fifo,
            Kind::Socket => FileType::Socket,
            Kind::CharDevice => FileType::CharDevice,
            Kind::BlockDevice => FileType::BlockDevice,
        };
        let is_device = matches!(file_type, FileType::CharDevice | FileType::BlockDevice);
        let (blocks, rdev) = if is_device { (0, attr.blocks_or_rdev) } else { (attr.blocks_or_rdev, 0) };
        let AttrWire { id, mode, nlink, uid, gid, size, atime, mtime, ctime, .. } = *attr;
        let permissions = u32::from(mode);
        Metadata { ino: id.0, file_type, permissions, nlink, uid, gid, size, blocks, rdev, atime, mtime, ctime, btime }
    }

    /// Type and permissions as st_mode has them.
    pub fn mode(&self) -> u32 {
        let file_type = match self.file_type {
            FileType::Fifo => 0o010_000,
            FileType::CharDevice => 0o020_000,
            FileType::Directory => 0o040_000,
            FileType::BlockDevice => 0o060_000,
            FileType::File => 0o100_000,
            FileType::Symlink => 0o120_000,
            FileType::Socket => 0o140_000,
        };
        file_type | self.permissions
    }
}

/// A session of a file system. Clones are the same session, which ends with the last of them.
#[derive(Clone)]
pub struct Client {
    session: Arc<Running>,
}

/// A session that runs in this process.
struct Running {
    requests: Arc<Requests>,
    node: Arc<Node>,
    /// What the file system is called.
    name: String,
}

impl Client {
    /// Begins a session.
    ///
    /// # Errors
    /// There is no such file system, or it does not let this process in.
    pub async fn connect(source: Source, options: Options) -> Result<Client, Error> {
        let (connected, when) = oneshot::channel();
        // Looking for a host waits for sockets, which a future must not.
        let look = move || _ = connected.send(Client::connect_here(&source, &options));
        let thread = std::thread::Builder::new().name("onpath-connect".into()).spawn(look);
        thread.map_err(crate::way::WayError::from)?;
        when.await.expect("the thread answers")
    }

    /// The same on this thread, which waits.
    pub(crate) fn connect_here(source: &Source, options: &Options) -> Result<Client, Error> {
        let key_file = options.key_file.as_deref();
        let way = match source {
            Source::Dir(dir) => Way::find(dir, None, options.patience)?,
            Source::Hosts(hosts, name) => Way::to_hosts(hosts, key_file, options.patience, name.clone())?,
        };
        let (name, there) = (way.source(), way.there());
        let session = Session::new(SessionConfig {
            session: there.session,
            cluster: there.fsid as u32,
            map: there.map.clone(),
            soft: false,
            access_times: AccessTimes::default(),
            in_halves: false,
            caches: false,
        });
        let requests = Arc::new(Requests::default());
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
        Ok(Client { session: Arc::new(Running { requests, node, name }) })
    }

    /// What the file system is called: the DIR, or the URL of its hosts.
    pub fn source(&self) -> &str {
        &self.session.name
    }

    /// What a path leads to; a symbolic link at its end is followed.
    ///
    /// # Errors
    /// As stat(2).
    pub async fn stat(&self, caller: &Caller, path: impl AsRef<[u8]> + Send) -> Result<Metadata, Error> {
        self.metadata(caller, path.as_ref(), Last::Follow).await
    }

    /// What a path leads to; a symbolic link at its end is what is told of.
    ///
    /// # Errors
    /// As lstat(2).
    pub async fn symlink_metadata(&self, caller: &Caller, path: impl AsRef<[u8]> + Send) -> Result<Metadata, Error> {
        self.metadata(caller, path.as_ref(), Last::Keep).await
    }

    async fn metadata(&self, caller: &Caller, path: &[u8], last: Last) -> Result<Metadata, Error> {
        let requests = &self.session.requests;
        let told = async {
            let attr = walk::resolve(requests, caller, path, last).await?;
            match requests.ask(caller, FsOp::GetAttr { id: attr.id, handle: None }).await? {
                FsReply::Attr { attr, btime } => Ok(Metadata::of(&attr, btime)),
                _ => Err(Error::from(Errno::EIO)),
            }
        };
        told.await.map_err(|error| error.at(&self.session.name, path))
    }

    /// Ends the session, also for its other clones: what it has open and locked is given up at once.
    pub async fn close(self) {
        let ended = self.session.requests.ended();
        if self.session.requests.submit(SessionIn::Shutdown) {
            _ = ended.await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let (requests, node) = (self.requests.clone(), self.node.clone());
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
