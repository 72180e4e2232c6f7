//! A whole file system in one process: DIR is recovered into its metadata shards and data node, which then serve.

use crate::blocks::{BlockFiles, BlocksError};
use crate::checkpoint::{self, CheckpointError, Checkpointer, Loaded, OnDamage, Pace, Store};
use crate::dir::{Dir, DirError, PartFormat};
use crate::huge::HugePages;
use crate::journal::{Commit, Journal, JournalError, Options, RecoveryReport};
use crate::known::Next;
use crate::node::{HostHooks, NoEffects, Node, NodeBuilder, Port};
use crate::progress::{Stage, Watcher};
use crate::report::report;
use crate::roles::{Disk, add_controller};
use crate::state::{DATA_FILE_BLOCKS, Serving, State};
use crate::stream::{ServerConfig, StreamError, StreamServer, status_json};
use crate::sys;
use onpath_data::DataNode;
use onpath_meta::{Replayed, Shard, SyncPolicy};
pub use onpath_path::IndexKind;
use onpath_path::{PathConfig, PathNode};
use onpath_session::{AccessTimes, KeptWays, SessionConfig};
use onpath_switch::{Switch, SwitchConfig};
use onpath_wire::disk::record::Counter;
use onpath_wire::header::{Header, MessageKind};
use onpath_wire::ids::{Birth, NodeId, RequestSeq, SessionNumber, Term};
use onpath_wire::packet::Packet;
use onpath_wire::request::{Request, RequestBody};
use onpath_wire::secrets::Secrets;
use onpath_wire::shown::Shown;
use onpath_wire::tracking::{Form, Switches, Writes};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Room that data leaves to the journal on the file system below, bytes.
pub const DATA_RESERVE_BYTES: u64 = 4 << 20;

/// Journal bytes between two checkpoints, at most.
pub const CHECKPOINT_BYTES: u64 = 64 << 20;
/// Bytes that may be free in the file of the checkpoint's store, whatever is in it.
const WASTE_BYTES: u64 = 16 << 20;
/// A checkpoint is due at the latest when the journal has taken this share of the disk below DIR.
const CHECKPOINT_SHARE: u64 = 8;
/// How often it is looked whether what is on its way has arrived.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long a server that stops waits for its last writes to be settled, which is a matter of a tenth of a second.
const SETTLED_WITHIN: Duration = Duration::from_secs(2);

/// How a file system is run.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// Number of shards to format with, or to insist on.
    pub shards: Option<u16>,
    /// The secrets to format with; none: they are drawn.
    pub secrets: Option<Secrets>,
    /// When a change is on stable storage.
    pub commit: Commit,
    /// Journal bytes between two checkpoints.
    pub checkpoint_bytes: u64,
    /// Bytes of memory that names, inodes and listings may take; what is more stays on the disk. None: no limit.
    pub memory_bytes: Option<u64>,
    /// The path node of this process, if there is one.
    pub path: Option<PathOptions>,
    /// How directories are tracked.
    pub tracking: TrackingOptions,
    /// Who answers writes of files.
    pub writes: Writes,
    /// Data nodes tell homes of answered writes of many files together, a little later; else of each file alone, at once.
    pub deferred: bool,
}

/// A path node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathOptions {
    /// Bytes of memory that it may take.
    pub memory: u64,
    /// In what it keeps directories.
    pub index: IndexKind,
    /// It asks for all of them when it starts.
    pub loads: bool,
}

/// How directories are tracked.
#[derive(Clone, Copy, Debug)]
pub struct TrackingOptions {
    /// The form that there shall be; for the network form a software switch runs in the process.
    pub form: Form,
    /// The switches that there shall be, of a cluster.
    pub switches: Switches,
    /// An acknowledged mark covers later updates too; else every update is marked.
    pub sticky_marks: bool,
    /// Which directories go into *sync*.
    pub sync: SyncPolicy,
    /// The tables of switches may show pending writes of files: sizes and times go through them unsealed.
    pub files: bool,
}

impl Default for TrackingOptions {
    fn default() -> TrackingOptions {
        let (form, switches) = Default::default();
        TrackingOptions { form, switches, sticky_marks: true, sync: SyncPolicy::Auto, files: true }
    }
}

/// Why a file system does not start.
#[derive(Debug, Error)]
pub enum ServerError {
    /// DIR cannot be used.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The data files cannot be used.
    #[error(transparent)]
    Blocks(#[from] BlocksError),
    /// The checkpoint cannot be used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Other processes cannot attach.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// Something is on its way between roles and does not arrive.
    #[error("{} does not come to rest: {pending} messages, transactions or removals are left; run `onpath fsck`", dir.shown())]
    Restless {
        /// DIR.
        dir: PathBuf,
        /// How many.
        pending: u64,
    },
    /// All sessions that there can be have been.
    #[error("no number of a session is left in this format")]
    NoSession,
    /// The operating system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}

/// A file system that is recovered but does not serve yet.
pub struct ServerBuilder {
    /// What recovery did.
    pub report: RecoveryReport,
    /// Roles of the process; sessions may be added.
    pub builder: NodeBuilder,
    dir: Dir,
    shards: Vec<Port<Shard>>,
    data: Port<DataNode>,
    blocks: Arc<BlockFiles>,
    journal: Journal,
    store: Arc<Store>,
    options: ServerOptions,
    /// Numbers of all path nodes of the file system.
    path_nodes: Vec<u16>,
    first_birth: Birth,
    /// It takes the place of a lost one, which must be known durably before anybody is told.
    begins_above: bool,
}

/// A file system that serves.
pub struct Server {
    /// Its directory, locked.
    pub dir: Arc<Dir>,
    /// Its runtime.
    pub node: Arc<Node>,
    /// Its shards.
    pub shards: Vec<Port<Shard>>,
    /// Its data node.
    pub data: Port<DataNode>,
    /// Numbers of sessions to come, if the coordinator is here.
    pub sessions: Option<Arc<Sessions>>,
    /// The birth of the first inodes of this start.
    pub first_birth: Birth,
    checkpointer: Arc<Checkpointer>,
    streams: StreamServer,
}

/// A file system that runs, with nobody who could ask it for anything.
pub(crate) struct Alone {
    pub(crate) dir: Dir,
    pub(crate) node: Arc<Node>,
    pub(crate) shards: Vec<Port<Shard>>,
    pub(crate) data: Port<DataNode>,
    blocks: Arc<BlockFiles>,
    pub(crate) checkpointer: Arc<Checkpointer>,
}

impl ServerBuilder {
    /// Opens DIR, formats it if it is empty, and recovers its state; the watcher is told how far that is.
    pub fn open(path: &Path, options: ServerOptions, watcher: Arc<dyn Watcher>) -> Result<ServerBuilder, ServerError> {
        let dir = Dir::open_or_format(path, options.shards, options.secrets)?;
        let path_nodes = options.path.map(|_| dir.shape().data_node).into_iter().collect();
        ServerBuilder::of_dir(dir, Next::default(), path_nodes, options, watcher)
    }

    /// Opens the DIR of one host of a cluster, formats it if it is empty, and recovers its state. It gives out nothing before `begin`;
    /// `path_nodes` are those of all hosts.
    pub fn open_part(
        path: &Path,
        wanted: &PartFormat,
        begin: Next,
        path_nodes: Vec<u16>,
        options: ServerOptions,
        watcher: Arc<dyn Watcher>,
    ) -> Result<ServerBuilder, ServerError> {
        ServerBuilder::of_dir(Dir::open_or_format_part(path, wanted, begin.term)?, begin, path_nodes, options, watcher)
    }

    fn of_dir(
        dir: Dir,
        begin: Next,
        path_nodes: Vec<u16>,
        options: ServerOptions,
        watcher: Arc<dyn Watcher>,
    ) -> Result<ServerBuilder, ServerError> {
        let (superblock, mut shape) = (dir.superblock(), dir.shape());
        shape.map = shape.map.with_path_nodes(&path_nodes);
        let blocks = Arc::new(BlockFiles::open(
            &dir.place().data,
            superblock.journal_id(),
            DATA_FILE_BLOCKS,
            DATA_RESERVE_BYTES,
        )?);
        let serving = Serving {
            // Messages to other hosts wait for the disk, whatever clients wait for.
            track: options.commit == Commit::Sync || !shape.whole,
            outlived: options.commit != Commit::Sync && !shape.whole,
            tracking: options.tracking,
            writes: options.writes,
            deferred: options.deferred,
            shows_files: options.writes == Writes::Visible && options.tracking.files,
        };
        let mut state = State::fresh(&superblock, shape, dir.term, blocks.files(), serving, watcher.clone());
        checkpoint::adopt(&dir.place().checkpoint, superblock.shards())?;
        let store = Arc::new(Store::open(&dir.place().checkpoint, superblock.journal_id())?);
        let (loaded, journal, report) = recover(&dir, options.commit, &mut state, &store, &on_damage())?;
        let interrupted = checkpoint::clear_interrupted(&dir.place().checkpoint);
        let (now, reserved) = (sys::now(), state.next_birth());
        let first_birth = reserved.max(begin.birth);
        let State { mut shards, mut data, shape, .. } = state;
        watcher.begin(Stage::of("comparing what the journal has written last", "blocks"));
        // Hosts count births on their own.
        let since = if shape.whole { first_birth } else { Birth::NEVER };
        let started = data.start(now, since, &mut |file, offset, block| {
            watcher.done(1);
            blocks.read_block(file, offset, block)
        });
        // A power loss may have taken files of which the tail of the journal keeps places. From now on a checkpoint names their blocks.
        blocks.make_files(started.files)?;
        let cut = report.tail_cut.as_ref().map(|cut| format!("{}:{}: {}", cut.file.shown(), cut.offset, cut.why));
        let mut replayed = Replayed::default();
        shards.iter().for_each(|shard| replayed += shard.replayed());
        tracing::debug!(
            checkpoint_objects = loaded.objects,
            checkpoint_interrupted = u64::from(interrupted),
            batches = report.batches,
            records = report.records,
            names = replayed.names,
            collects = replayed.collects,
            renames = replayed.renames,
            transactions = replayed.transactions,
            tail_cut = cut,
            restored_blocks = started.restored_blocks,
            "recovered"
        );
        shards.iter_mut().for_each(|shard| shard.start(now, first_birth));
        // A later start begins above what a lost directory has given out, too.
        let mut begins_above = false;
        if begin.birth > reserved && !shards.is_empty() {
            shards[0].reserve(Counter::Births, u64::from(begin.birth.0 - 1));
            begins_above = true;
        }
        let coordinator = shape.place(shape.map.coordinator());
        if let Some(shard) = coordinator.filter(|_| begin.session != SessionNumber::NONE) {
            shards[shard].reserve(Counter::Sessions, begin.session.0 - 1);
            begins_above = true;
        }
        let mut builder = NodeBuilder::new();
        // The data node runs first: what it has found of lost blocks is recorded, and told to the homes, before a shard says or
        // records anything.
        let data = builder.add(shape.data(), data, Disk(blocks.clone()));
        let numbered = shape.shards.iter().zip(shards);
        let shards: Vec<_> =
            numbered.map(|(&number, shard)| builder.add(NodeId::shard(number), shard, NoEffects)).collect();
        if let Some(PathOptions { memory, index, loads }) = options.path {
            let node = NodeId::path(shape.data_node);
            let key = sys::random_bytes().map_err(|source| ServerError::Io { what: "random bytes", source })?;
            let (map, cluster, memory_bytes) = (shape.map.clone(), superblock.fsid as u32, memory as usize);
            let config = PathConfig { node, cluster, map, term: dir.term, key, memory_bytes, index, loads };
            builder.add(node, PathNode::new(config, HugePages), NoEffects);
        }
        if !shape.whole {
            builder.among_others();
        } else if options.tracking.form == Form::Network {
            let switch = SwitchConfig::whole(NodeId::SWITCH, superblock.fsid as u32, u64::from(dir.term.0));
            builder.add(NodeId::SWITCH, Switch::new(switch), NoEffects);
        }
        Ok(ServerBuilder {
            report,
            builder,
            dir,
            shards,
            data,
            blocks,
            journal,
            store,
            options,
            path_nodes,
            first_birth,
            begins_above,
        })
    }

    /// Adds a controller, by which the switch of this process answers hot metadata from its cache.
    pub fn add_controller(&mut self) {
        let superblock = self.dir.superblock();
        let of_map = (superblock.shards(), self.dir.shape().map.coordinator());
        add_controller(&mut self.builder, (0, superblock.fsid as u32), of_map, Some(NodeId::SWITCH));
    }

    /// What a session of this process is made from, which ends with it. The file system is whole.
    pub fn session(&mut self, soft: bool) -> Result<SessionConfig, ServerError> {
        let superblock = self.dir.superblock();
        let shape = self.dir.shape();
        let place = shape.place(shape.map.coordinator()).filter(|_| shape.whole).expect("a whole file system");
        let session = self.builder.with_role(&self.shards[place], Shard::take_resident);
        Ok(SessionConfig {
            session: session.ok_or(ServerError::NoSession)?,
            cluster: superblock.fsid as u32,
            map: superblock.map().with_path_nodes(&self.path_nodes),
            soft,
            access_times: AccessTimes::default(),
            in_halves: self.options.commit == Commit::Sync,
            caches: false,
            identity: None,
            kept_ways: KeptWays::default(),
        })
    }

    /// Begins to run, for nobody.
    pub(crate) fn start_alone(self) -> Result<Alone, ServerError> {
        let hooks = Arc::new(Hooks { blocks: self.blocks.clone() });
        let node = self.builder.start(self.options.commit, Some(self.journal), hooks);
        if self.begins_above {
            node.flush()?;
        }
        if self.dir.rebooted && node.flush().is_ok() {
            self.dir.note_boot()?;
        }
        let (total, _) = sys::space(self.dir.path())
            .map_err(|source| ServerError::Io { what: "look at the file system below DIR", source })?;
        let pace = Pace {
            journal_bytes: self.options.checkpoint_bytes.min(total / CHECKPOINT_SHARE),
            memory_bytes: self.options.memory_bytes.unwrap_or(u64::MAX),
            waste_bytes: WASTE_BYTES,
        };
        let checkpoint = self.dir.place().checkpoint;
        let checkpointer =
            Arc::new(Checkpointer::start(&node, &checkpoint, self.store, on_damage(), pace, self.report.bytes));
        let path = self.dir.path().to_owned();
        node.add_status(
            "disk".into(),
            Box::new(move || {
                let (size, free) = sys::space(&path).unwrap_or_default();
                vec![("size_bytes".into(), size), ("free_bytes".into(), free)]
            }),
        );
        Ok(Alone { dir: self.dir, node, shards: self.shards, data: self.data, blocks: self.blocks, checkpointer })
    }

    /// Begins to serve, other processes too.
    pub fn start(self) -> Result<Server, ServerError> {
        let (commit, first_birth) = (self.options.commit, self.first_birth);
        let path_nodes = self.path_nodes.clone();
        let Alone { dir, node, shards, data, blocks, checkpointer } = self.start_alone()?;
        let (shape, dir) = (dir.shape(), Arc::new(dir));
        let coordinator = shape.map.coordinator();
        let sessions = shape.place(coordinator).map(|place| Arc::new(Sessions::new(&node, &shards[place])));
        let term = dir.term;
        let whole = shape.whole;
        let config = ServerConfig {
            dir: dir.path().to_owned(),
            fsid: dir.superblock().fsid,
            shards: dir.superblock().shards(),
            path_nodes,
            placement: dir.superblock().secrets.placement,
            passes: dir.superblock().secrets.inner.passes(),
            sync: commit == Commit::Sync,
            new_session: {
                let sessions = sessions.clone().filter(|_| whole);
                Box::new(move || sessions.as_ref().map_or_else(|| Err(NOT_WHOLE.to_owned()), |all| all.next()))
            },
            known_session: {
                let sessions = sessions.clone().filter(|_| whole);
                Box::new(move |session| sessions.as_ref().is_some_and(|all| all.was_given(session)))
            },
            detach: Box::new(move |session| (NodeId::shard(coordinator), detach(session, term))),
            status: {
                let node = node.clone();
                Box::new(move || report(&node).to_string())
            },
            examine: {
                let (checkpointer, blocks) = (checkpointer.clone(), blocks.clone());
                Box::new(move |each| checkpointer.examine(&|| blocks.files(), each))
            },
            inspect: {
                let node = node.clone();
                Box::new(move |dir| status_json(&node.inspect(dir)))
            },
        };
        let streams = StreamServer::start(&node, config)?;
        Ok(Server { dir, node, shards, data, sessions, first_birth, checkpointer, streams })
    }
}

/// What who would attach to the directory of one host of many is told.
const NOT_WHOLE: &str = "this directory holds a part of a file system of several hosts: mount onpath://HOST/ instead";

/// Numbers of sessions that are taken durably together.
const SESSION_BLOCK: u32 = 64;

/// Numbers of sessions, none of which was ever given out before.
pub struct Sessions {
    node: Weak<Node>,
    coordinator: Port<Shard>,
    left: Mutex<Vec<SessionNumber>>,
}

impl Sessions {
    fn new(node: &Arc<Node>, coordinator: &Port<Shard>) -> Sessions {
        Sessions { node: Arc::downgrade(node), coordinator: coordinator.clone(), left: Mutex::default() }
    }

    /// Another one, for whoever joins; takes further ones durably when those that were taken are used up.
    pub fn next(&self) -> Result<SessionNumber, String> {
        let mut left = self.left.lock().expect("a counter does not panic");
        if left.is_empty() {
            let node = self.node()?;
            let mut taken = node.with_role(&self.coordinator, |shard| shard.take_sessions(SESSION_BLOCK));
            // If another thread runs the shard now, it lets go of it when what was recorded is in the journal.
            node.with_role(&self.coordinator, |_| ());
            node.flush().map_err(|error| error.to_string())?;
            taken.reverse();
            *left = taken;
        }
        left.pop().ok_or_else(|| ServerError::NoSession.to_string())
    }

    /// Another one for a session of this process.
    pub fn next_resident(&self) -> Result<SessionNumber, String> {
        let taken = self.node()?.with_role(&self.coordinator, Shard::take_resident);
        taken.ok_or_else(|| ServerError::NoSession.to_string())
    }

    /// The last one that is taken.
    pub fn taken(&self) -> SessionNumber {
        let taken =
            self.node().map(|node| node.with_role(&self.coordinator, |shard| shard.reserved(Counter::Sessions)));
        SessionNumber(taken.unwrap_or(0))
    }

    fn was_given(&self, session: SessionNumber) -> bool {
        session <= self.taken()
    }

    fn node(&self) -> Result<Arc<Node>, String> {
        self.node.upgrade().ok_or_else(|| "the file system stops".to_owned())
    }
}

/// Fail-stop: what the store does not give back must not look as if it had never been.
fn on_damage() -> OnDamage {
    Arc::new(|why| {
        tracing::error!(why, "the checkpoint cannot be read; this process ends so that nothing false is answered");
        std::process::exit(74);
    })
}

/// Attaches the checkpoint and replays the journal.
pub(crate) fn recover(
    dir: &Dir,
    commit: Commit,
    state: &mut State,
    store: &Arc<Store>,
    damage: &OnDamage,
) -> Result<(Loaded, Journal, RecoveryReport), ServerError> {
    let loaded = state.attach(store, damage)?;
    if dir.rebooted {
        // Only a power loss can have lost bytes of the data files whose records the journal still has; which of these
        // were durable all the same, later batches say.
        state.begin_tail();
    }
    let place = dir.place();
    let below = |source| ServerError::Io { what: "look at the file system below DIR", source };
    let journal_options = Options::for_dir(&place.journal, dir.superblock().journal_id(), commit).map_err(below)?;
    let (journal, report) = Journal::recover(&place.journal, journal_options, loaded.from, state)?;
    state.check_map(dir.path())?;
    Ok((loaded, journal, report))
}

/// The message that ends a session on behalf of a client that is gone.
fn detach(session: SessionNumber, term: Term) -> Packet {
    let last = session.request(RequestSeq(u64::MAX)); // which it has never reached
    let mut header = Header::new(MessageKind::Request, NodeId::session(session.id()), last);
    header.term = term;
    Packet::new(&header, &RequestBody::of_session(Request::Detach { gone: true }))
}

impl Server {
    /// Says that this process will soon let go of DIR, so that a next one waits.
    pub fn ending(&self) {
        self.dir.ending();
    }

    /// Lets other processes go (their sessions live on), writes a checkpoint, and stops serving.
    pub fn stop(mut self) -> Result<(), ServerError> {
        self.ending();
        self.streams.stop();
        self.let_writes_settle();
        self.checkpointer.give_up_waiting();
        let written = self.checkpointer.checkpoint();
        self.checkpointer.stop();
        self.node.close()?;
        written?;
        Ok(())
    }

    /// What homes have heard of writes is recorded a moment later. So the next start has nothing to tell them again.
    fn let_writes_settle(&self) {
        let patience = Instant::now() + SETTLED_WITHIN;
        let open = || self.node.with_role(&self.data, |data| !data.pending_merges().is_empty());
        while open() && Instant::now() < patience {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

struct Hooks {
    blocks: Arc<BlockFiles>,
}

impl HostHooks for Hooks {
    fn flush_data(&self) -> io::Result<()> {
        self.blocks.flush_all()
    }

    fn space(&self, full: bool) {
        tracing::warn!(full, "the disk below DIR");
    }

    /// Fail-stop: what was not durable may be lost, so nothing more may be promised (design.md, "Durability").
    fn failed(&self, why: &str) {
        tracing::error!(why, "the journal has failed; this process ends so that nothing false is acknowledged");
        std::process::exit(74);
    }
}
