//! A DIR as it is on the disk, loaded for a look at it: nothing is formatted, taken, cut, flushed or started.
//!
//! One that is served tells the same of itself, as of one moment, over its socket.
//!
//! What a start would refuse is collected as *problems*, as many as can be told, so that a check can name them all.

use crate::blocks::{BlockFiles, BlocksError};
use crate::checkpoint::{CheckpointError, Loaded, Piece};
use crate::dir::{self, DirError};
use crate::journal::{self, JournalError, RecoveryReport, Replay};
use crate::state::{DATA_FILE_BLOCKS, State};
use crate::stream::{StreamError, examine};
use onpath_data::DataNode;
use onpath_meta::Shard;
use onpath_store::StoreError;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{NodeId, RecordSeq, Term};
use onpath_wire::superblock::Superblock;
use onpath_wire::tracking::Form;
use std::fs::File;
use std::path::Path;
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
    _lock: Option<File>,
}

/// Looks at the DIR `path`. The error says why it cannot be looked at, or what is wrong with its superblock.
pub fn inspect(path: &Path) -> Result<Inspection, DirError> {
    dir::read_superblock(path)?;
    let lock = dir::lock_to_look(path)?;
    // Again, now that nobody can replace it.
    let superblock = dir::read_superblock(path)?;
    let mut problems: Vec<Problem> = Vec::new();
    let blocks = BlockFiles::inspect(&path.join("data"), superblock.fsid, DATA_FILE_BLOCKS);
    let blocks = blocks.map_err(|error| problems.push(error.into())).ok();
    let files = blocks.as_ref().map_or(0, BlockFiles::files);
    let mut state = State::fresh(&superblock, Term(superblock.next_term), files, false, Form::Owner);
    let mut note = |error| {
        problems.push(Problem::Checkpoint(error));
        Ok(())
    };
    let loaded = state.load(&path.join("checkpoint"), superblock.fsid, &mut note);
    let loaded = loaded.unwrap_or_else(|error| {
        problems.push(error.into());
        Loaded::NOTHING
    });
    let rebooted = dir::rebooted(path);
    if rebooted {
        state.data.begin_tail();
    }
    let mut journal = RecoveryReport::default();
    // Records say nothing to roles whose images are not all there.
    let complete = problems.iter().all(|problem| !matches!(problem, Problem::Checkpoint(_)));
    let replay: &mut dyn Replay = if complete { &mut state } else { &mut |_: NodeId, _: RecordSeq, _: &[u8]| Ok(()) };
    match journal::inspect(&path.join("journal"), superblock.fsid, loaded.from, replay) {
        Ok(report) => journal = report,
        Err(error) => problems.push(error.into()),
    }
    let State { shards, data, .. } = state;
    let served = false;
    Ok(Inspection { superblock, shards, data, loaded, journal, problems, rebooted, served, files, blocks, _lock: lock })
}

/// Asks the process that serves the DIR `path` for its state as of now. It goes on meanwhile.
pub fn inspect_served(path: &Path) -> Result<Inspection, InspectError> {
    let superblock = dir::read_superblock(path)?;
    // Nothing of the data files is looked at, and the number of those that exist comes last.
    let state = State::fresh(&superblock, Term(superblock.next_term), 0, false, Form::Owner);
    let mut told =
        Told { dir: path, state, loaded: Loaded::NOTHING, journal: RecoveryReport::default(), files: 0, problem: None };
    examine(path, &mut |piece, value| told.piece(piece, value))?;
    let Told { state: State { shards, data, .. }, loaded, journal, files, problem, .. } = told;
    // Terms may have been taken since.
    let superblock = dir::read_superblock(path)?;
    let problems = problem.into_iter().collect();
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
        _lock: None,
    })
}

/// What was told so far.
struct Told<'a> {
    dir: &'a Path,
    state: State,
    loaded: Loaded,
    journal: RecoveryReport,
    files: u32,
    problem: Option<Problem>,
}

impl Told<'_> {
    /// Takes a piece; none after the first that is refused.
    fn piece(&mut self, piece: Piece, value: &[u8]) {
        if self.problem.is_some() {
            return;
        }
        let (store, journal) = (self.dir.join("checkpoint"), self.dir.join("journal"));
        match piece {
            Piece::Record { role, seq } => {
                self.journal.records += 1;
                let taken = self.state.record(role, seq, value);
                let refused = |source| JournalError::Replay { file: journal, offset: 0, source };
                self.problem = taken.map_err(refused).err().map(Problem::from);
            }
            Piece::End { from, last, files } => {
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
            object => {
                let taken = self.object(object, value);
                let refused = |source| CheckpointError::Load { file: store, source };
                self.problem = taken.map_err(refused).err().map(Problem::from);
            }
        }
    }

    fn object(&mut self, piece: Piece, value: &[u8]) -> Result<(), StoreError> {
        let address = match &piece {
            Piece::Range { role, .. } | Piece::Rest { role, .. } | Piece::Object { role, .. } => *role,
            _ => unreachable!("the caller has looked"),
        };
        let Some(role) = self.state.role(address) else {
            return Err(StoreError::Contradiction(format!("a piece of {address:?}, which is no role of this DIR")));
        };
        self.loaded.objects += u64::from(!matches!(piece, Piece::Range { .. }));
        match piece {
            Piece::Range { range, upto, .. } => {
                self.loaded.images += 1;
                role.loaded(range, upto);
                Ok(())
            }
            Piece::Rest { range, key, .. } => role.load(range, &key.0, value),
            Piece::Object { key, .. } => role.load_object(&key.0, value),
            _ => unreachable!("the caller has looked"),
        }
    }
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
