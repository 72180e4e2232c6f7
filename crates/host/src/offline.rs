//! Changing a DIR that nobody serves: its whole state is recovered, as a start recovers it, changed by records that no role would
//! write, and kept as one checkpoint more. Until that is whole the one before counts.

use crate::blocks::BlockFiles;
use crate::boot;
use crate::checkpoint::{self, Store};
use crate::dir::{self, Dir};
use crate::journal::{Commit, Journal};
use crate::progress::{Stage, Watcher};
use crate::server::{
    self, Alone, CHECKPOINT_BYTES, LOOK_EVERY, ServerBuilder, ServerError, ServerOptions, TrackingOptions,
};
use crate::state::{DATA_FILE_BLOCKS, State, unreadable};
use onpath_data::DataNode;
use onpath_meta::Shard;
use onpath_store::StoreError;
use onpath_store::cold::{class, id_bytes};
use onpath_wire::disk::superblock::Superblock;
use onpath_wire::ids::{InodeId, LogSeq, Lsn, NodeId, RecordSeq, ShardId, Term};
use onpath_wire::tracking::Writes;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One that has come no nearer to rest for so long will not.
const REST_PATIENCE: Duration = Duration::from_secs(60);

/// The state of a DIR, to be changed. Locked as long as this lives.
pub struct Offline {
    dir: Dir,
    blocks: BlockFiles,
    state: State,
    store: Arc<Store>,
    /// The last batch of the journal that the state reflects.
    last: Lsn,
    /// Numbers given out in the terms of this start.
    given: u64,
    _journal: Journal,
}

/// The file system is run for nobody until nothing is on its way between its roles: what a power loss or a kill has left is
/// resolved.
pub fn settle(path: &Path, watcher: &Arc<dyn Watcher>) -> Result<(), ServerError> {
    dir::read_superblock(path)?;
    let options = ServerOptions {
        shards: None,
        secrets: None,
        commit: Commit::Interval(10),
        checkpoint_bytes: CHECKPOINT_BYTES,
        memory_bytes: None,
        path: None,
        tracking: TrackingOptions::default(),
        writes: Writes::Chain,
        deferred: true,
    };
    let alone = ServerBuilder::open(path, options, watcher.clone())?.start_alone()?;
    watcher.begin(Stage::uncounted("bringing it to rest"));
    let (mut least, mut since) = (u64::MAX, Instant::now());
    loop {
        let now = unsettled(&alone);
        if now == 0 {
            break;
        }
        if now < least {
            (least, since) = (now, Instant::now());
        }
        if since.elapsed() > REST_PATIENCE {
            return Err(ServerError::Restless { dir: path.to_owned(), pending: now });
        }
        std::thread::sleep(LOOK_EVERY);
    }
    watcher.begin(Stage::uncounted("writing a checkpoint"));
    alone.checkpointer.give_up_waiting();
    let written = alone.checkpointer.checkpoint();
    alone.checkpointer.stop();
    alone.node.close()?;
    written?;
    Ok(())
}

fn unsettled(alone: &Alone) -> u64 {
    let shards: usize = alone.shards.iter().map(|port| alone.node.with_role(port, |shard| shard.unsettled())).sum();
    let merges = alone.node.with_role(&alone.data, |data| data.pending_merges().len());
    (shards + merges) as u64
}

impl Offline {
    /// Opens a DIR. What a power loss has left is resolved first.
    pub fn open(path: &Path, watcher: &Arc<dyn Watcher>) -> Result<Offline, ServerError> {
        dir::read_superblock(path)?;
        if boot::is_another(path) {
            settle(path, watcher)?;
        }
        let dir = Dir::open(path)?;
        let superblock = dir.superblock();
        let blocks = BlockFiles::open(&dir.place().data, superblock.journal_id(), DATA_FILE_BLOCKS, 0)?;
        let mut state = State::damaged(&superblock, dir.term, watcher.clone());
        checkpoint::adopt(&dir.place().checkpoint, superblock.shards())?;
        let store = Arc::new(Store::open_unserved(&dir.place().checkpoint, superblock.journal_id())?);
        let (_, journal, report) = server::recover(&dir, Commit::Interval(10), &mut state, &store, &unreadable())?;
        Ok(Offline { dir, blocks, state, store, last: report.last, given: 0, _journal: journal })
    }

    /// The superblock.
    pub fn superblock(&self) -> Superblock {
        self.dir.superblock()
    }

    /// Its shards.
    pub fn shards(&self) -> &[Shard] {
        &self.state.shards
    }

    /// Its data node.
    pub fn data(&self) -> &DataNode {
        &self.state.data
    }

    /// Number of data files.
    pub fn files(&self) -> u32 {
        self.blocks.files()
    }

    /// The term of this start: nothing has an id or a position of it.
    pub fn term(&self) -> Term {
        self.dir.term
    }

    /// A number that nothing of this start has.
    fn next(&mut self) -> u64 {
        self.given += 1;
        self.given
    }

    /// A position in a shard's change-logs after all others.
    pub fn next_log_seq(&mut self) -> LogSeq {
        LogSeq(self.term().first_seq() + self.next())
    }

    /// Takes all terms up to this one, so that nothing new is of it.
    pub fn take_terms(&self, upto: Term) -> Result<(), ServerError> {
        self.dir.take_terms(upto)?;
        Ok(())
    }

    /// Takes into memory what the store has of an inode at a shard. Before records that remove what no role would remove so.
    pub fn recall(&mut self, shard: ShardId, inode: InodeId) -> Result<(), ServerError> {
        let address = NodeId::shard(shard);
        let view = self.store.view(address, unreadable())?;
        let Some(role) = self.state.role(address) else { return Ok(()) };
        for class in [class::INODE, class::XATTR, class::FURTHER, class::ENTRY] {
            let mut taken = Ok(());
            view.scan(&[&[class][..], &id_bytes(inode)].concat(), &[], &mut |key, value| {
                taken = role.load_object(key, value);
                taken.is_ok()
            });
            taken.map_err(|source| self.store.refused(source))?;
        }
        Ok(())
    }

    /// Changes a role by a record.
    pub fn record(&mut self, role: NodeId, record: &[u8]) -> Result<(), StoreError> {
        let seq = RecordSeq(self.term().first_seq() + self.next());
        match self.state.role(role) {
            Some(found) => found.replay(seq, record),
            None => Err(StoreError::Contradiction(format!("{role:?} is no role of this DIR"))),
        }
    }

    /// Makes the changed state the checkpoint, at once and durably.
    pub fn keep(mut self, watcher: &dyn Watcher) -> Result<Dir, ServerError> {
        let mut roles = self.state.roles();
        let ranges = roles.iter().map(|(_, role)| u64::from(role.ranges())).sum();
        watcher.begin(Stage::of("writing the checkpoint", "ranges").with_whole(ranges));
        let mut draft = self.store.begin()?;
        for (address, role) in &mut roles {
            for range in 0..role.ranges() {
                draft.put(*address, range, role.image(range))?;
                watcher.done(1);
            }
        }
        draft.commit(Lsn(self.last.0 + 1))?;
        Ok(self.dir)
    }
}
