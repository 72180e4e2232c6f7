//! The steps: what each needs, does and leaves.

use super::files;
use super::material::{Material, program};
use anyhow::Context;
use clap::ValueEnum;
use onpath_wire::shown::Shown;
use serde::Serialize;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// One thing that people do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Step {
    /// `tar -xf` of the tree.
    TarX,
    /// `find` through it, names only.
    Find,
    /// `find -size`, which looks at every file.
    FindSize,
    /// `rsync -a` of what is there already.
    RsyncNoop,
    /// `git status` of it, everything committed.
    GitStatus,
    /// `rm -rf` of it.
    RmTree,
    /// Creates of empty files in one directory.
    CreateFlat,
    /// `ls -l` of that directory.
    LsFlat,
    /// `rm -rf` of it.
    RmFlat,
    /// A large file in pieces of 1 MiB, and fdatasync.
    Write,
    /// The same file read.
    Read,
    /// Another file in pieces of 4 KiB, one behind the other, and fdatasync.
    SmallWrites,
    /// Random writes of 4 KiB into the large file with O_DIRECT.
    DirectWrite,
    /// Random reads of 4 KiB with O_DIRECT.
    DirectRead,
}

impl Step {
    /// All steps in their order.
    pub(super) const ALL: [Step; 14] = [
        Step::TarX,
        Step::Find,
        Step::FindSize,
        Step::RsyncNoop,
        Step::GitStatus,
        Step::RmTree,
        Step::CreateFlat,
        Step::LsFlat,
        Step::RmFlat,
        Step::Write,
        Step::Read,
        Step::SmallWrites,
        Step::DirectWrite,
        Step::DirectRead,
    ];

    /// Steps without which this one cannot be.
    pub(super) fn needs(self) -> &'static [Step] {
        match self {
            Step::TarX | Step::CreateFlat | Step::Write | Step::SmallWrites => &[],
            Step::Find | Step::FindSize | Step::RsyncNoop | Step::GitStatus | Step::RmTree => &[Step::TarX],
            Step::LsFlat | Step::RmFlat => &[Step::CreateFlat],
            Step::Read | Step::DirectWrite | Step::DirectRead => &[Step::Write],
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("no step is hidden").get_name())
    }
}

/// One path in one round.
#[derive(Debug)]
pub(super) struct Place<'a> {
    top: PathBuf,
    material: &'a Material,
    mib: u32,
    small: u32,
}

impl Place<'_> {
    pub(super) fn new<'a>(top: &Path, material: &'a Material, mib: u32, small: u32) -> Place<'a> {
        Place { top: top.to_owned(), material, mib, small }
    }

    fn tree(&self) -> PathBuf {
        self.top.join("tree")
    }

    fn flat(&self) -> PathBuf {
        self.top.join("flat")
    }

    fn large(&self) -> PathBuf {
        self.top.join("large")
    }

    fn small_writes(&self) -> PathBuf {
        self.top.join("small-writes")
    }

    /// How many files, MiB, or reads and writes a step is about.
    pub(super) fn operations(&self, step: Step) -> u32 {
        match step {
            Step::Write | Step::Read => self.mib,
            Step::SmallWrites | Step::DirectWrite | Step::DirectRead => self.small,
            _ => self.material.files,
        }
    }

    /// What is not measured.
    pub(super) fn prepare(&self, step: Step) -> anyhow::Result<()> {
        let make = |path: PathBuf| fs::create_dir(&path).with_context(|| format!("cannot make {}", path.shown()));
        match step {
            Step::TarX => make(self.tree()),
            Step::CreateFlat => make(self.flat()),
            Step::GitStatus => {
                let git = |words: &str| {
                    let words: Vec<&OsStr> = words.split(' ').map(OsStr::new).collect();
                    program(&self.tree(), "git", &words)
                };
                git("init -q -b main")?;
                git("add -A")?;
                // Many new objects would be packed in the background, beside what is measured.
                git("-c gc.auto=0 -c user.name=bench -c user.email=bench@localhost commit -q -m all")?;
                // Nothing is so young that git would have to read it again.
                std::thread::sleep(std::time::Duration::from_secs(1));
                git("status --porcelain")
            }
            // What git keeps there is as many files again.
            Step::RmTree => program(&self.tree(), "rm", &["-rf", ".git"].map(OsStr::new)),
            _ => Ok(()),
        }
    }

    /// What is measured.
    pub(super) fn run(&self, step: Step) -> anyhow::Result<()> {
        let (tree, flat) = (self.tree(), self.flat());
        let o = OsStr::new;
        match step {
            Step::TarX => program(&tree, "tar", &[o("-xf"), self.material.archive().as_ref()]),
            Step::Find => program(&tree, "find", &[o(".")]),
            Step::FindSize => program(&tree, "find", &[o("."), o("-size"), o("+1000k")]),
            Step::RsyncNoop => {
                let mut from = self.material.tree().into_os_string();
                from.push("/");
                program(&tree, "rsync", &[o("-a"), &from, o("./")])
            }
            Step::GitStatus => program(&tree, "git", &["status", "--porcelain"].map(o)),
            Step::RmTree => program(&self.top, "rm", &["-rf", "tree"].map(o)),
            Step::CreateFlat => files::create(&flat, self.material.files),
            Step::LsFlat => program(&flat, "ls", &[o("-l")]),
            Step::RmFlat => program(&self.top, "rm", &["-rf", "flat"].map(o)),
            Step::Write => files::write(&self.large(), self.mib),
            Step::Read => files::read(&self.large(), self.mib),
            Step::SmallWrites => files::small_writes(&self.small_writes(), self.small),
            Step::DirectWrite => files::direct_write(&self.large(), self.mib, self.small),
            Step::DirectRead => files::direct_read(&self.large(), self.mib, self.small),
        }
    }

    /// Removes what is left.
    pub(super) fn clean_up(&self) -> anyhow::Result<()> {
        program(&self.top, "rm", &["-rf", "tree", "flat", "large", "small-writes"].map(OsStr::new))
    }
}
