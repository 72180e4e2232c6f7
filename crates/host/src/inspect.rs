//! A DIR as it is on the disk, loaded for a look at it: nothing is formatted, taken, cut, flushed or started.
//!
//! One that is served tells the same of itself, as of one moment, over its socket.
//!
//! What a start would refuse is collected as *problems*, as many as can be told, so that a check can name them all.

use crate::blocks::{BlockFiles, BlocksError};
use crate::boot;
use crate::checkpoint::{CheckpointError, Draft, Loaded, Piece, Store};
use crate::dir::{self, Claim, DirError, Place};
use crate::journal::{self, JournalError, RecoveryReport, Replay};
use crate::progress::{Stage, Watcher};
use crate::state::{DATA_FILE_BLOCKS, State, unreadable};
use crate::stream::{StreamError, examine};
use onpath_data::DataNode;
use onpath_meta::Shard;
use onpath_store::{Changes, Image, ObjectCheck, StoreError};
use onpath_wire::disk::superblock::Superblock;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{NodeId, RecordSeq, Term};
use onpath_wire::shown::Shown;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// What a start would refuse.
#[derive(Debug, Error)]
pub enum Problem {
    /// A part of the checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The journal: nothing after this is known.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The data files.
    #[error(transparent)]
    Blocks(#[from] BlocksError),
    /// The map, of which superblock and journal tell.
    #[error(transparent)]
    Map(DirError),
}

/// Why a DIR cannot be looked at.
#[derive(Debug, Error)]
pub enum InspectError {
    /// It cannot be used.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// The process that serves it does not tell.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// What it tells cannot be kept.
    #[error("the state cannot be kept in {}: {source}; give a directory with more room (--temp)", dir.shown())]
    Temporary {
        /// The directory for temporary files.
        dir: PathBuf,
        /// What is wrong.
        source: CheckpointError,
    },
}

/// The state of a DIR. If nobody serves it, it is locked as long as this lives.
pub struct Inspection {
    /// Its superblock.
    pub superblock: Superblock,
    /// Its shards, loaded and replayed, not started.
    pub shards: Vec<Shard>,
    /// Its data node, loaded and replayed, not started.
    pub data: DataNode,
    /// What was loaded from the checkpoint.
    pub loaded: Loaded,
    /// What was read of the journal, if it could be read.
    pub journal: RecoveryReport,
    /// What a start would refuse; if there is any, the roles do not have all of their state.
    pub problems: Vec<Problem>,
    /// DIR was used last before the machine was started: a power loss may have lost bytes that only the journal has.
    pub rebooted: bool,
    /// It is served meanwhile: this is how it was at one moment.
    pub served: bool,
    files: u32,
    blocks: Option<BlockFiles>,
    _claim: Option<Claim>,
}

/// Looks at the DIR `path`; the watcher is told how far that is. The error says why it cannot be looked at, or what is wrong with its superblock.
pub fn inspect(path: &Path, watcher: Arc<dyn Watcher>) -> Result<Inspection, DirError> {
    dir::read_superblock(path)?;
    let claim = Some(dir::claim_to_look(path)?);
    // Again, now that nobody can replace it.
    let superblock = dir::read_superblock(path)?;
    let mut problems: Vec<Problem> = Vec::new();
    let place = Place::of(path, &superblock);
    let blocks = BlockFiles::inspect(&place.data, superblock.journal_id(), DATA_FILE_BLOCKS);
    let blocks = blocks.map_err(|error| problems.push(error.into())).ok();
    let files = blocks.as_ref().map_or(0, BlockFiles::files);
    let mut state = State::damaged(&superblock, Term(superblock.journal().next_term), watcher);
    let mut note = |error| {
        problems.push(Problem::Checkpoint(error));
        Ok(())
    };
    let loaded = state.look(&place.checkpoint, superblock.journal_id(), &mut note);
    let loaded = loaded.unwrap_or_else(|error| {
        problems.push(error.into());
        Loaded::NOTHING
    });
    let rebooted = boot::is_another(path);
    if rebooted {
        state.data.begin_tail();
    }
    let mut journal = RecoveryReport::default();
    // Records say nothing to roles whose images are not all there.
    let complete = problems.iter().all(|problem| !matches!(problem, Problem::Checkpoint(_)));
    let replay: &mut dyn Replay = if complete { &mut state } else { &mut |_: NodeId, _: RecordSeq, _: &[u8]| Ok(()) };
    match journal::inspect(&place.journal, superblock.journal_id(), loaded.from, replay) {
        Ok(report) => journal = report,
        Err(error) => problems.push(error.into()),
    }
    problems.extend(problems.is_empty().then(|| state.check_map(path).err()).flatten().map(Problem::Map));
    let State { shards, data, .. } = state;
    let served = false;
    Ok(Inspection {
        superblock,
        shards,
        data,
        loaded,
        journal,
        problems,
        rebooted,
        served,
        files,
        blocks,
        _claim: claim,
    })
}

/// Asks the process that serves the DIR `path` for its state as of now. It goes on meanwhile. What its store has is kept in a file in
/// `temp` that goes by itself.
pub fn inspect_served(path: &Path, temp: &Path, watcher: Arc<dyn Watcher>) -> Result<Inspection, InspectError> {
    let superblock = dir::read_superblock(path)?;
    let state = State::damaged(&superblock, Term(superblock.journal().next_term), watcher.clone());
    let temporary = |source| InspectError::Temporary { dir: temp.to_owned(), source };
    let store = Arc::new(Store::temporary(temp, superblock.journal_id()).map_err(temporary)?);
    let mut told = Told {
        place: Place::of(path, &superblock),
        state,
        store: &store,
        draft: Some(store.begin_temporary().map_err(temporary)?),
        checks: BTreeMap::new(),
        ranges: BTreeMap::new(),
        journal: RecoveryReport::default(),
        loaded: Loaded::NOTHING,
        files: 0,
        problem: None,
        failed: None,
    };
    watcher.begin(Stage::of("asking the process that serves it", "objects and records"));
    examine(path, &mut |piece, value| {
        told.piece(piece, value);
        watcher.done(1);
    })?;
    let Told { state, draft, loaded, journal, files, problem, failed, .. } = told;
    drop(draft);
    if let Some(error) = failed {
        return Err(temporary(error));
    }
    // Terms may have been taken since.
    let superblock = dir::read_superblock(path)?;
    let problem = problem.or_else(|| state.check_map(path).err().map(Problem::Map));
    let problems = problem.into_iter().collect();
    let State { shards, data, .. } = state;
    let (rebooted, served) = (false, true);
    Ok(Inspection {
        superblock,
        shards,
        data,
        loaded,
        journal,
        problems,
        rebooted,
        served,
        files,
        blocks: None,
        _claim: None,
    })
}

/// What was told so far.
struct Told<'a> {
    place: Place,
    state: State,
    store: &'a Arc<Store>,
    /// Takes objects; none once they are all there, and records come.
    draft: Option<Draft<'a>>,
    checks: BTreeMap<NodeId, ObjectCheck>,
    ranges: BTreeMap<(NodeId, u32), Image>,
    loaded: Loaded,
    journal: RecoveryReport,
    files: u32,
    problem: Option<Problem>,
    /// Why nothing more is kept.
    failed: Option<CheckpointError>,
}

impl Told<'_> {
    /// Takes a piece; none after the first that is refused.
    fn piece(&mut self, piece: Piece, value: &[u8]) {
        if self.problem.is_some() || self.failed.is_some() {
            return;
        }
        let Place { journal, checkpoint: store, .. } = self.place.clone();
        match piece {
            Piece::Range { role, range, upto } => {
                self.loaded.images += 1;
                self.ranges.insert((role, range), Image { upto, changes: Changes::default(), rest: Vec::new() });
            }
            Piece::Rest { role, range, key } => {
                self.loaded.objects += 1;
                match self.ranges.get_mut(&(role, range)) {
                    Some(image) => image.rest.push((key.0, value.to_vec())),
                    None => self.contradicts(format!("a piece of a range {range} of {role:?} that was not told of")),
                }
            }
            Piece::Object { role, key } => self.object(role, key.0, value),
            Piece::Record { role, seq } if self.attach() => {
                self.journal.records += 1;
                let taken = self.state.record(role, seq, value);
                let refused = |source| JournalError::Replay { file: journal, offset: 0, source };
                self.problem = taken.map_err(refused).err().map(Problem::from);
            }
            Piece::Record { .. } => {}
            Piece::End { from, last, files } => {
                self.attach();
                (self.loaded.from, self.journal.last, self.files) = (from, last, files);
            }
            Piece::Damage { journal: true } => {
                let why = String::from_utf8_lossy(value).into_owned();
                self.problem = Some(JournalError::Damage { file: journal, offset: 0, why }.into());
            }
            Piece::Damage { journal: false } => {
                let why = String::from_utf8_lossy(value).into_owned();
                self.problem = Some(CheckpointError::Store { file: store, why }.into());
            }
        }
    }

    fn contradicts(&mut self, why: String) {
        self.refuse(StoreError::Contradiction(why));
    }

    fn refuse(&mut self, source: StoreError) {
        self.problem = Some(CheckpointError::Load { file: self.place.checkpoint.clone(), source }.into());
    }

    fn object(&mut self, address: NodeId, key: Vec<u8>, value: &[u8]) {
        self.loaded.objects += 1;
        let Some(role) = self.state.role(address) else {
            return self.contradicts(format!("a piece of {address:?}, which is no role of this DIR"));
        };
        let check = self.checks.entry(address).or_insert_with(|| role.object_check());
        if let Err(error) = check(&key, value) {
            return self.refuse(error);
        }
        let Some(draft) = &mut self.draft else {
            return self.contradicts(format!("a piece of {address:?} after records"));
        };
        let changes = Changes { put: vec![(key, value.to_vec())], removed: Vec::new() };
        self.failed = draft.change(address, changes).err();
    }

    /// What was told so far is what the roles have below them; false if it cannot be.
    fn attach(&mut self) -> bool {
        let Some(draft) = self.draft.take() else { return true };
        let ranges = std::mem::take(&mut self.ranges);
        if ranges.is_empty() {
            return true; // there was no checkpoint yet
        }
        let attached = keep(draft, ranges).and_then(|()| self.state.attach(self.store, &unreadable()));
        match attached {
            Ok(_) => return true,
            Err(CheckpointError::Load { source, .. }) => self.refuse(source),
            Err(shape @ CheckpointError::Shape { .. }) => self.problem = Some(shape.into()),
            Err(error) => self.failed = Some(error),
        }
        false
    }
}

fn keep(mut draft: Draft<'_>, ranges: BTreeMap<(NodeId, u32), Image>) -> Result<(), CheckpointError> {
    for ((role, range), image) in ranges {
        draft.put(role, range, image)?;
    }
    draft.commit(Loaded::NOTHING.from).map(drop)
}

impl Inspection {
    /// Number of data files.
    pub fn files(&self) -> u32 {
        self.files
    }

    /// Reads one block of a data file.
    pub fn read_block(&self, file: u32, offset: u64, block: &mut [u8]) -> Result<(), Errno> {
        self.blocks.as_ref().ok_or(Errno::EIO)?.read_block(file, offset, block)
    }
}
