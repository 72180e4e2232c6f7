//! A whole file system in one process: DIR is recovered into its metadata shards and data node, which then serve.

use crate::blocks::{BlockFiles, BlocksError};
use crate::dir::{Dir, DirError};
use crate::journal::{Commit, Journal, JournalError, Options, RecoveryReport};
use crate::node::{HostHooks, NoEffects, Node, NodeBuilder, Port};
use crate::roles::Disk;
use crate::sys;
use onpath_data::{DataConfig, DataNode};
use onpath_meta::{Shard, ShardConfig};
use onpath_session::SessionConfig;
use onpath_store::{Recoverable, StoreError};
use onpath_wire::ids::{Lsn, NodeClass, NodeId, RecordSeq, SessionId, ShardId, Term};
use onpath_wire::map::ClusterMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use thiserror::Error;

/// Blocks of one data file: 1 GiB.
const DATA_FILE_BLOCKS: u32 = 1 << 18;
/// Room that data leaves to the journal on the file system below, bytes.
const DATA_RESERVE_BYTES: u64 = 4 << 20;

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
    commit: Commit,
    sessions: std::ops::Range<u32>,
}

/// A file system that serves.
pub struct Server {
    /// Its directory, locked.
    pub dir: Dir,
    /// Its runtime.
    pub node: Arc<Node>,
    /// Its shards.
    pub shards: Vec<Port<Shard>>,
    /// Its data node.
    pub data: Port<DataNode>,
}

impl ServerBuilder {
    /// Opens DIR, formats it if it is empty, and recovers its state.
    pub fn open(path: &Path, shards: Option<u16>, commit: Commit) -> Result<ServerBuilder, ServerError> {
        let dir = Dir::open_or_format(path, shards)?;
        let superblock = dir.superblock();
        let map = ClusterMap::even(superblock.shards);
        let blocks = Arc::new(BlockFiles::open(&dir.data(), superblock.fsid, DATA_FILE_BLOCKS, DATA_RESERVE_BYTES)?);
        let mut roles: Vec<Shard> = (0..superblock.shards)
            .map(|shard| {
                Shard::new(ShardConfig {
                    shard: ShardId(shard),
                    map: map.clone(),
                    term: Term(dir.terms.start + u32::from(shard)),
                    cookie_key: superblock.cookie_key,
                    cluster: superblock.fsid as u32,
                    track_unsynced: commit == Commit::Sync,
                })
            })
            .collect();
        let mut data = DataNode::new(DataConfig {
            node: 0,
            term: Term(dir.terms.start + u32::from(superblock.shards)),
            map,
            cluster: superblock.fsid as u32,
            file_blocks: DATA_FILE_BLOCKS,
            files: blocks.files(),
        });
        let options = Options::for_dir(&dir.journal(), superblock.fsid, commit)
            .map_err(|source| ServerError::Io { what: "look at the file system below DIR", source })?;
        data.begin_tail();
        let mut replay = |role: NodeId, seq: RecordSeq, record: &[u8]| match role.class() {
            Some(NodeClass::Data) => data.replay(seq, record),
            _ => match role.as_shard().and_then(|shard| roles.get_mut(shard.0 as usize)) {
                Some(shard) => shard.replay(seq, record),
                None => Err(StoreError::Contradiction(format!("a record of {role:?}, which is no role of this DIR"))),
            },
        };
        let (journal, report) = Journal::recover(&dir.journal(), options, Lsn(1), &mut replay)?;
        let now = sys::now();
        let started = data.start(now, &mut |file, offset, block| blocks.read_block(file, offset, block));
        tracing::info!(
            batches = report.batches,
            records = report.records,
            tail_cut =
                report.tail_cut.as_ref().map(|cut| format!("{}:{}: {}", cut.file.display(), cut.offset, cut.why)),
            restored_blocks = started.restored_blocks,
            "recovered"
        );
        roles.iter_mut().for_each(|shard| shard.start(now));
        let mut builder = NodeBuilder::new();
        let data = builder.add(NodeId::data(0), data, Disk(blocks.clone()));
        let shards = (0u16..)
            .zip(roles)
            .map(|(number, shard)| builder.add(NodeId::shard(ShardId(number)), shard, NoEffects))
            .collect();
        let sessions = dir.sessions.clone();
        Ok(ServerBuilder { report, builder, dir, shards, data, blocks, journal, commit, sessions })
    }

    /// What a session of this process is made from; its id was never used before.
    pub fn session(&mut self, soft: bool) -> SessionConfig {
        let superblock = self.dir.superblock();
        SessionConfig {
            session: SessionId(self.sessions.next().expect("a block of ids was taken")),
            cluster: superblock.fsid as u32,
            map: ClusterMap::even(superblock.shards),
            soft,
        }
    }

    /// Begins to serve.
    pub fn start(self) -> Server {
        let hooks = Arc::new(Hooks { blocks: self.blocks });
        let node = self.builder.start(self.commit, Some(self.journal), hooks);
        Server { dir: self.dir, node, shards: self.shards, data: self.data }
    }
}

impl Server {
    /// Makes everything durable and stops serving.
    pub fn stop(self) -> Result<(), JournalError> {
        let flushed = self.node.journal().map_or(Ok(Lsn(0)), Journal::flush_wait);
        self.node.stop();
        flushed.map(|_| ())
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

    /// Fail-stop: what was not durable may be lost, so nothing more may be promised (DESIGN §4).
    fn failed(&self, why: &str) {
        tracing::error!(why, "the journal has failed; this process ends so that nothing false is acknowledged");
        std::process::exit(74);
    }
}
