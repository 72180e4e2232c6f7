//! What is brought to each path: a tree of small files and an archive of it.

use anyhow::{Context, bail};
use onpath_wire::shown::Shown;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Files of one directory of the tree.
const FILES_PER_DIRECTORY: u32 = 50;
/// Directories of one directory of the tree.
const DIRECTORIES_PER_DIRECTORY: u32 = 20;
/// Sizes of files repeat after so many; the mean is about 2 KiB.
const SIZES: [usize; 8] = [120, 700, 0, 3000, 1500, 200, 9000, 2000];

/// The tree and its archive; gone with the value.
#[derive(Debug)]
pub(super) struct Material {
    top: PathBuf,
    pub(super) files: u32,
}

impl Material {
    /// Makes a tree of that many files below `parent`, and its archive.
    pub(super) fn new(parent: &Path, files: u32) -> anyhow::Result<Material> {
        let top = parent.join(format!("onpath-bench-{}", std::process::id()));
        fs::create_dir(&top).with_context(|| format!("cannot make {}", top.shown()))?;
        let material = Material { top, files };
        for file in 0..files {
            let directory = file / FILES_PER_DIRECTORY;
            let parent = material.tree().join(format!("part{}", directory / DIRECTORIES_PER_DIRECTORY));
            let directory = parent.join(format!("directory{directory}"));
            if file % FILES_PER_DIRECTORY == 0 {
                fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.shown()))?;
            }
            let path = directory.join(format!("file{file}.txt"));
            fs::write(&path, text(file)).with_context(|| format!("cannot write {}", path.shown()))?;
        }
        let archive = material.archive();
        program(&material.tree(), "tar", &["-cf".as_ref(), archive.as_ref(), ".".as_ref()])?;
        Ok(material)
    }

    pub(super) fn tree(&self) -> PathBuf {
        self.top.join("tree")
    }

    pub(super) fn archive(&self) -> PathBuf {
        self.top.join("tree.tar")
    }
}

impl Drop for Material {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.top) {
            eprintln!("onpath: could not remove {}: {error}", self.top.shown());
        }
    }
}

/// Some lines, no two files alike.
fn text(file: u32) -> String {
    let size = SIZES[file as usize % SIZES.len()];
    format!("line of file {file}\n").chars().cycle().take(size).collect()
}

/// Runs a program in `directory` to its end, its output thrown away; an error unless it succeeds.
pub(super) fn program(directory: &Path, name: &str, words: &[&std::ffi::OsStr]) -> anyhow::Result<()> {
    let mut command = Command::new(name);
    command.args(words).current_dir(directory).stdin(Stdio::null()).stdout(Stdio::null());
    // git looks at nobody's settings and asks for no optional lock.
    command.env("HOME", "/nonexistent").env("GIT_CONFIG_NOSYSTEM", "1").env("LC_ALL", "C");
    let status = command.status().with_context(|| format!("cannot start {name}: is it installed?"))?;
    if !status.success() {
        bail!("{name} in {} ended with {status}", directory.shown());
    }
    Ok(())
}
