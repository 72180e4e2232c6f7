//! A DIR as it is on the disk, loaded for a look at it: nothing is formatted, taken, cut, flushed or started.
//!
//! What a start would refuse is collected as *problems*, as many as can be told, so that a check can name them all.

use crate::blocks::{BlockFiles, BlocksError};
use crate::checkpoint::{CheckpointError, Loaded};
use crate::dir::{self, DirError};
use crate::journal::{self, JournalError, RecoveryReport, Replay};
use crate::state::{DATA_FILE_BLOCKS, State};
use onpath_data::DataNode;
use onpath_meta::Shard;
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

/// The state of a DIR that nobody uses. Locked as long as this lives.
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
    let State { shards, data } = state;
    Ok(Inspection { superblock, shards, data, loaded, journal, problems, rebooted, blocks, _lock: lock })
}

impl Inspection {
    /// Number of data files.
    pub fn files(&self) -> u32 {
        self.blocks.as_ref().map_or(0, BlockFiles::files)
    }

    /// Reads one block of a data file.
    pub fn read_block(&self, file: u32, offset: u64, block: &mut [u8]) -> Result<(), Errno> {
        self.blocks.as_ref().ok_or(Errno::EIO)?.read_block(file, offset, block)
    }
}
