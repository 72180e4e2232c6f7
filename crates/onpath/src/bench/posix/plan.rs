//! What is measured: cases (processes, directory, size) and the phases of each.

use anyhow::bail;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One kind of operation, done once on every file (or directory) of a case, or as often on one of them, before the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Phase {
    /// open(O_CREAT | O_EXCL), write unless the size is 0, close.
    Create,
    /// lstat.
    Stat,
    /// lstat of the same file again and again.
    Restat,
    /// open, one read, close.
    Read,
    /// open and close of the same file again and again.
    Reopen,
    /// rename to another name of the same directory.
    Rename,
    /// unlink.
    Unlink,
    /// mkdir.
    Mkdir,
    /// rmdir.
    Rmdir,
}

impl Phase {
    /// All phases in the order in which they run.
    pub(super) const ALL: [Phase; 9] = [
        Phase::Create,
        Phase::Stat,
        Phase::Restat,
        Phase::Read,
        Phase::Reopen,
        Phase::Rename,
        Phase::Unlink,
        Phase::Mkdir,
        Phase::Rmdir,
    ];

    /// Whether it works on files, not directories.
    fn is_of_files(self) -> bool {
        !matches!(self, Phase::Mkdir | Phase::Rmdir)
    }

    /// What this phase cannot do without: what makes its objects and what removes them.
    fn needs(self) -> [Phase; 2] {
        if self.is_of_files() { [Phase::Create, Phase::Unlink] } else { [Phase::Mkdir, Phase::Rmdir] }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Create => "create",
            Phase::Stat => "stat",
            Phase::Restat => "stat-again",
            Phase::Read => "open-read-close",
            Phase::Reopen => "open-close-again",
            Phase::Rename => "rename",
            Phase::Unlink => "unlink",
            Phase::Mkdir => "mkdir",
            Phase::Rmdir => "rmdir",
        })
    }
}

/// Where the processes of a case work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Layout {
    /// Each in a directory of its own.
    Unique,
    /// All in the same directory.
    Shared,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Layout::Unique { "unique" } else { "shared" })
    }
}

/// One combination of what is varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Case {
    /// Processes at work at the same time.
    pub(super) processes: u32,
    /// Where they work.
    pub(super) directory: Layout,
    /// Size of the files, bytes.
    pub(super) bytes: u64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} processes, {} directory, {} bytes", self.processes, self.directory, self.bytes)
    }
}

/// All cases with their phases, in order. Directories have no size, so they are made in the first size only; one
/// process has no others to share with, so `Shared` is left out for it unless nothing else is asked.
pub(super) fn cases(
    processes: &[u32],
    layouts: &[Layout],
    sizes: &[u64],
    phases: &[Phase],
) -> anyhow::Result<Vec<(Case, Vec<Phase>)>> {
    let needed: Vec<Phase> = phases.iter().flat_map(|phase| phase.needs()).chain(phases.iter().copied()).collect();
    let mut cases = vec![];
    for &processes in processes {
        for &directory in layouts {
            if processes == 1 && directory == Layout::Shared && layouts.len() > 1 {
                continue;
            }
            for (nth, &bytes) in sizes.iter().enumerate() {
                let wanted = |phase: &Phase| needed.contains(phase) && (nth == 0 || phase.is_of_files());
                let phases: Vec<Phase> = Phase::ALL.into_iter().filter(wanted).collect();
                let case = Case { processes, directory, bytes };
                if cases.iter().any(|(other, _)| *other == case) {
                    bail!("{case} is asked for twice: name every number of processes, directory and size once");
                }
                if !phases.is_empty() {
                    cases.push((case, phases));
                }
            }
        }
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_come_with_what_they_need_and_directories_once() {
        let plan = cases(&[1, 4], &[Layout::Unique, Layout::Shared], &[0, 4096], &[Phase::Stat, Phase::Mkdir]).unwrap();
        assert_eq!(plan.len(), 6, "one process has no shared directory");
        let files = [Phase::Create, Phase::Stat, Phase::Unlink];
        assert_eq!(plan[0].1, [&files[..], &[Phase::Mkdir, Phase::Rmdir]].concat());
        assert_eq!(plan[1].1, files);
        assert!(cases(&[1, 1], &[Layout::Unique], &[0], &[Phase::Stat]).is_err());
    }
}
