//! What the loader and the scanner refuse, as findings that name file and offset.

use super::code::Code;
use super::report::{Finding, Report};
use onpath_host::blocks::BlocksError;
use onpath_host::checkpoint::CheckpointError;
use onpath_host::dir::DirError;
use onpath_host::inspect::{Inspection, Problem};
use onpath_host::journal::JournalError;
use onpath_meta::{DISORDERED_LOG, WRONG_COOKIE};
use onpath_store::StoreError;
use std::io;
use std::path::Path;

/// What is wrong with the superblock; nothing if the error is about something else.
pub(super) fn superblock(error: &DirError) -> Option<Finding> {
    let finding = |code| Finding::new(code, error.to_string());
    match error {
        DirError::Superblock { path, .. } => Some(finding(Code::Superblock).file(path)),
        DirError::Version { path, .. } | DirError::Features { path, .. } => {
            Some(finding(Code::Version).file(&path.join("superblock")))
        }
        _ => None,
    }
}

/// A role refused to hold what the disk says.
pub(super) fn contradiction(dir: &Path, assertion: &str) -> Finding {
    let message = format!("the checkpoint and the journal contradict each other: {assertion}");
    Finding::new(Code::Record, message).file(&dir.join("journals"))
}

/// Everything that a start would refuse, and the torn tail.
pub(super) fn problems(inspection: &Inspection, report: &mut Report) {
    report.checked.shards = inspection.shards.len() as u64;
    report.checked.images = inspection.loaded.images;
    report.checked.journal_records = inspection.journal.records;
    for problem in &inspection.problems {
        report.add(match problem {
            Problem::Checkpoint(error) => checkpoint(error),
            Problem::Journal(error) => journal(error),
            Problem::Blocks(error) => blocks(error),
            Problem::Map(error) => Finding::new(Code::Superblock, error.to_string()),
        });
    }
    if let Some(cut) = &inspection.journal.tail_cut {
        let message = format!("the journal ends in a torn batch: {}", cut.why);
        report.add(Finding::new(Code::TornTail, message).file(&cut.file).offset(cut.offset));
    }
}

fn checkpoint(error: &CheckpointError) -> Finding {
    let finding = |code| Finding::new(code, error.to_string());
    match error {
        CheckpointError::Store { file, .. } => finding(Code::Store).file(file),
        CheckpointError::Foreign { file } => finding(Code::Foreign).file(file),
        CheckpointError::Version { file, .. } => finding(Code::Version).file(file),
        CheckpointError::Load { file, source } => finding(object(source)).file(file),
        CheckpointError::Shape { file, .. } => finding(Code::ImageMissing).file(file),
        CheckpointError::Journal(error) => journal(error),
        CheckpointError::Io { path, source } if source.kind() == io::ErrorKind::NotFound => {
            finding(Code::ImageMissing).file(path)
        }
        CheckpointError::Io { path, .. } => finding(Code::Unreadable).file(path),
    }
}

fn object(error: &StoreError) -> Code {
    match error {
        StoreError::Undecodable { source, .. } if *source == WRONG_COOKIE => Code::Cookie,
        StoreError::Undecodable { source, .. } if *source == DISORDERED_LOG => Code::LogOrder,
        _ => Code::ImageObject,
    }
}

fn journal(error: &JournalError) -> Finding {
    let finding = |code| Finding::new(code, error.to_string());
    match error {
        JournalError::Damage { file, offset, .. } => finding(Code::Journal).file(file).offset(*offset),
        JournalError::Foreign { file, .. } => finding(Code::Foreign).file(file),
        JournalError::Version { file, .. } => finding(Code::Version).file(file),
        JournalError::Missing { dir, .. } => finding(Code::Segment).file(dir),
        JournalError::Replay { file, offset, .. } => finding(Code::Record).file(file).offset(*offset),
        JournalError::Stopped(_) => finding(Code::Journal),
        JournalError::Io { path, .. } => finding(Code::Unreadable).file(path),
    }
}

fn blocks(error: &BlocksError) -> Finding {
    let finding = |code| Finding::new(code, error.to_string());
    match error {
        BlocksError::Io { path, .. } => finding(Code::Unreadable).file(path),
        BlocksError::Missing { path } => finding(Code::DataFile).file(path),
        BlocksError::Damaged { path, .. } => finding(Code::DataFile).file(path).offset(0),
        BlocksError::Version { path, .. } => finding(Code::Version).file(path),
        BlocksError::Foreign { path, .. } => finding(Code::Foreign).file(path),
    }
}
