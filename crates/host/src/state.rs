//! The roles of a DIR while nobody serves them: made fresh, then given the checkpoint and the journal. What starts a
//! file system (`server`) and what only looks at one (`inspect`) do this alike.

use crate::blocks::FILES_MAX;
use crate::checkpoint::{self, CheckpointError, Loaded, OnDamage, OnError, Store};
use crate::dir::DirError;
use crate::journal::{Given, Replay};
use crate::progress::Watcher;
use crate::replay::{self, Lane, Lines, Replaying};
use crate::server::TrackingOptions;
use crate::shape::Shape;
use onpath_data::{DataConfig, DataNode};
use onpath_meta::{Shard, ShardBounds, ShardConfig};
use onpath_store::{Ahead, Cold, Recoverable, StoreError};
use onpath_wire::disk::map::MapImage;
use onpath_wire::disk::superblock::{JournalId, Superblock};
use onpath_wire::ids::{Birth, NodeClass, NodeId, RecordSeq, ShardId, Term};
use onpath_wire::tracking::Writes;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Blocks of one data file: 1 GiB.
pub(crate) const DATA_FILE_BLOCKS: u32 = 1 << 18;

/// All roles with durable state of one DIR.
pub(crate) struct State {
    /// Which roles these are.
    pub(crate) shape: Shape,
    pub(crate) shards: Vec<Shard>,
    pub(crate) data: DataNode,
    /// What the roles read of the store until they run.
    ahead: BTreeMap<NodeId, Arc<Ahead>>,
    /// Told how far loading and replaying are.
    watcher: Arc<dyn Watcher>,
}

/// How shards serve.
#[derive(Default)]
pub(crate) struct Serving {
    /// Outputs may have to wait for the disk.
    pub(crate) track: bool,
    /// See [`ShardConfig::outlived`].
    pub(crate) outlived: bool,
    /// How directories shall be tracked.
    pub(crate) tracking: TrackingOptions,
    /// See [`ShardConfig::writes`].
    pub(crate) writes: Writes,
    /// See [`DataConfig::deferred`].
    pub(crate) deferred: bool,
    /// See [`ShardConfig::shows_files`].
    pub(crate) shows_files: bool,
}

impl State {
    /// The roles without state, in this term; `files` data files exist.
    pub(crate) fn fresh(
        superblock: &Superblock,
        shape: Shape,
        term: Term,
        files: u32,
        serving: Serving,
        watcher: Arc<dyn Watcher>,
    ) -> State {
        let Serving { track, outlived, tracking, writes, deferred, shows_files } = serving;
        let cluster = superblock.fsid as u32;
        let shard = |&shard: &ShardId| {
            Shard::new(ShardConfig {
                shard,
                map: shape.map.clone(),
                term,
                // Hosts count births on their own.
                one_journal: shape.whole,
                ends_path_nodes: shape.whole,
                inner: superblock.secrets.inner,
                cluster,
                track_unsynced: track,
                outlived,
                form: tracking.form,
                switches: tracking.switches,
                sync: tracking.sync,
                sticky_marks: tracking.sticky_marks,
                writes,
                shows_files,
                bounds: ShardBounds::default(),
            })
        };
        let data = DataNode::new(DataConfig {
            node: shape.data_node,
            term,
            map: shape.map.clone(),
            cluster,
            file_blocks: DATA_FILE_BLOCKS,
            files,
            tickets: superblock.secrets.inner.tickets(),
            outlived,
            deferred,
        });
        State { shards: shape.shards.iter().map(shard).collect(), data, shape, ahead: BTreeMap::new(), watcher }
    }

    /// The first birth that the shards have not reserved.
    pub(crate) fn next_birth(&self) -> Birth {
        onpath_meta::next_birth(&self.shards)
    }

    /// The same for a look at what may be damaged. Of a data file that is missing the check of files tells, by each block that was there.
    pub(crate) fn damaged(superblock: &Superblock, term: Term, watcher: Arc<dyn Watcher>) -> State {
        State::fresh(superblock, Shape::of(superblock), term.min(Term::MAX), FILES_MAX, Serving::default(), watcher)
    }

    /// Attaches the checkpoint in `dir` after a look at all of it; `on_error` as for [`checkpoint::look`].
    pub(crate) fn look(
        &mut self,
        dir: &Path,
        journal: JournalId,
        on_error: &mut OnError<'_>,
    ) -> Result<Loaded, CheckpointError> {
        let (mut ahead, damage) = (BTreeMap::new(), unreadable());
        let mut view = |store: &Arc<Store>, role| view(store, role, &damage, &mut ahead);
        let watcher = self.watcher.clone();
        let looked = checkpoint::look(dir, journal, &mut self.roles(), &mut view, on_error, &*watcher)?;
        self.ahead = ahead;
        Ok(looked)
    }

    /// Attaches the checkpoint of a store.
    pub(crate) fn attach(&mut self, store: &Arc<Store>, damage: &OnDamage) -> Result<Loaded, CheckpointError> {
        let mut ahead = BTreeMap::new();
        let mut view = |role| view(store, role, damage, &mut ahead);
        let watcher = self.watcher.clone();
        let loaded = checkpoint::attach(store, &mut self.roles(), &mut view, &*watcher)?;
        self.ahead = ahead;
        Ok(loaded)
    }

    /// Whether the map that the coordinator keeps is that of the superblock, whatever its epoch.
    pub(crate) fn check_map(&self, path: &Path) -> Result<(), DirError> {
        let Some(kept) = self.shards.iter().find_map(Shard::map) else { return Ok(()) };
        let of_superblock = MapImage { epoch: kept.epoch, ..MapImage::of(&self.shape.map) };
        if kept == of_superblock {
            return Ok(());
        }
        let [kept, told] = [kept, of_superblock].map(|map| map.to_string());
        Err(DirError::Map { path: path.to_owned(), kept, told })
    }

    /// Power was lost: what is replayed from now on was not known to be durable when the last process ended.
    pub(crate) fn begin_tail(&mut self) {
        self.data.power_was_lost();
        self.data.begin_tail();
        self.shards.iter_mut().for_each(Shard::begin_tail);
    }

    /// The role of an address.
    pub(crate) fn role(&mut self, address: NodeId) -> Option<&mut dyn Recoverable> {
        match address.as_shard() {
            Some(shard) => self.shard(shard).map(|shard| shard as &mut dyn Recoverable),
            None => (address == self.shape.data()).then_some(&mut self.data as &mut dyn Recoverable),
        }
    }

    fn shard(&mut self, shard: ShardId) -> Option<&mut Shard> {
        self.shape.place(shard).map(|place| &mut self.shards[place])
    }

    /// All roles by address.
    pub(crate) fn roles(&mut self) -> Vec<(NodeId, &mut dyn Recoverable)> {
        let mut all: Vec<(NodeId, &mut dyn Recoverable)> = Vec::new();
        for (&number, shard) in self.shape.shards.iter().zip(self.shards.iter_mut()) {
            all.push((NodeId::shard(number), shard));
        }
        all.push((self.shape.data(), &mut self.data));
        all.sort_by_key(|(address, _)| *address);
        all
    }
}

/// What the store has of a role, to be read ahead while it is replayed.
fn view(
    store: &Arc<Store>,
    role: NodeId,
    damage: &OnDamage,
    ahead: &mut BTreeMap<NodeId, Arc<Ahead>>,
) -> Result<Arc<dyn Cold>, CheckpointError> {
    let view = Arc::new(Ahead::new(store.view(role, damage.clone())?));
    ahead.insert(role, view.clone());
    Ok(view)
}

/// Nobody serves it: who looks catches that.
pub(crate) fn unreadable() -> OnDamage {
    Arc::new(|why| panic!("{why}"))
}

impl Replay for State {
    fn record(&mut self, role: NodeId, seq: RecordSeq, record: &[u8]) -> Result<(), StoreError> {
        match role.class() {
            Some(NodeClass::Data) => self.data.replay(seq, record),
            _ => match role.as_shard().and_then(|shard| self.shard(shard)) {
                Some(shard) => shard.replay(seq, record),
                None => Err(StoreError::Contradiction(format!("a record of {role:?}, which is no role of this DIR"))),
            },
        }
    }

    fn was_durable(&mut self, role: NodeId, seq: RecordSeq) {
        match role.as_shard() {
            Some(shard) => self.shard(shard).into_iter().for_each(|shard| shard.tail_was_durable(seq)),
            None => self.data.tail_was_durable(seq),
        }
    }

    fn watcher(&self) -> &dyn Watcher {
        &*self.watcher
    }

    fn window(&mut self, window: &[Given<'_>]) -> Result<(), (usize, StoreError)> {
        let mut of: BTreeMap<NodeId, Lines<'_>> = BTreeMap::new();
        for (place, given) in window.iter().enumerate() {
            let (Given::Record(role, ..) | Given::Durable(role, _)) = given;
            let data = self.shape.data();
            let role = if role.class() == Some(NodeClass::Data) { data } else { *role };
            of.entry(role).or_default().push((place, *given));
        }
        let shards = self.shape.shards.iter().zip(&mut self.shards);
        let shards = shards.map(|(&number, shard)| (NodeId::shard(number), shard as &mut dyn Replaying));
        let all = [(self.shape.data(), &mut self.data as &mut dyn Replaying)].into_iter().chain(shards);
        let lanes = all.filter_map(|(address, role)| {
            of.remove(&address).map(|lines| Lane { role, lines, ahead: self.ahead.get(&address) })
        });
        let lanes: Vec<Lane<'_>> = lanes.collect();
        let stranger = of.into_iter().map(|(role, lines)| {
            (lines[0].0, StoreError::Contradiction(format!("a record of {role:?}, which is no role of this DIR")))
        });
        let errors = stranger.chain(replay::run(lanes));
        errors.min_by_key(|(place, _)| *place).map_or(Ok(()), Err)
    }
}
