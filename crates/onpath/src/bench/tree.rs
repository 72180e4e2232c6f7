//! `onpath bench tree PATH`: one large tree or one large directory, as it grows and afterwards: rates tenth by tenth, so that a
//! file system that slows down is seen, pauses, the first entry of a listing, and the memory of whoever serves it.

use super::posix::target::fuse_servers;
use anyhow::{Context, bail};
use clap::{Args, ValueEnum, value_parser};
use onpath_wire::shown::Shown as _;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Most files: their latencies are kept, 4 bytes each.
const FILES_MAX: u64 = 100_000_000;
/// Directories of a directory of directories.
const FAN: usize = 100;
/// Parts of a phase whose rates are told.
const PARTS: usize = 10;
/// Longest file, bytes.
const BYTES_MAX: u64 = 1 << 20;

/// Arguments of `onpath bench tree`.
#[derive(Args, Debug)]
pub(crate) struct TreeArgs {
    /// The directory to measure.
    path: PathBuf,
    /// Files of the tree.
    #[arg(long, default_value_t = 100_000, value_parser = value_parser!(u64).range(1..=FILES_MAX))]
    files: u64,
    /// Files of each directory; 0: all in one.
    #[arg(long, default_value_t = 1_000)]
    fan: u64,
    /// One of so many files has bytes; 0: none.
    #[arg(long, default_value_t = 10)]
    every: u64,
    /// How many bytes such a file has.
    #[arg(long, default_value_t = 100, value_parser = value_parser!(u64).range(1..=BYTES_MAX))]
    bytes: u64,
    /// What to do, in this order. Without create the tree of an earlier run is used; without remove it stays.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "create,stat,absent,list,remove")]
    phases: Vec<TreePhase>,
    /// Name of the directory made in PATH.
    #[arg(long, default_value = "onpath-bench-tree", value_parser = super::posix::plain_name)]
    subdir: String,
    /// Servers of PATH besides those found by their FUSE connection: their memory is told.
    #[arg(long, value_name = "PID")]
    server_pid: Vec<u32>,
    /// Give results as JSON, a line for each phase.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum TreePhase {
    /// Makes the files, one after the other.
    Create,
    /// Looks at each.
    Stat,
    /// Looks for as many names that are not there.
    Absent,
    /// Lists all directories, as `ls -f` and `find` do.
    List,
    /// Removes the files, then the directories.
    Remove,
}

/// What a phase has shown. Times in microseconds.
#[derive(Debug, Serialize)]
struct Shown {
    phase: TreePhase,
    files: u64,
    seconds: f64,
    per_second: f64,
    /// Rates of its parts, files a second.
    parts: Vec<u64>,
    p50_us: u64,
    p99_us: u64,
    p999_us: u64,
    max_us: u64,
    /// Until the first entry of the first listing.
    first_entry_us: Option<u64>,
    /// Resident memory of the servers afterwards, MiB.
    server_mib: u64,
}

struct Tree<'a> {
    args: &'a TreeArgs,
    top: PathBuf,
    servers: Vec<u32>,
    interrupted: Arc<AtomicBool>,
}

pub(crate) fn run(args: &TreeArgs) -> anyhow::Result<()> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, interrupted.clone())?;
    }
    let path = std::path::absolute(&args.path)?;
    let about = fs::metadata(&path).with_context(|| format!("cannot use {}", path.shown()))?;
    if !about.is_dir() {
        bail!("{} is not a directory", path.shown());
    }
    let mut servers = fuse_servers(about.dev());
    servers.extend(&args.server_pid);
    let tree = Tree { args, top: path.join(&args.subdir), servers, interrupted };
    for &phase in &args.phases {
        let shown = tree.phase(phase).with_context(|| format!("in {}", tree.top.shown()))?;
        if args.json {
            println!("{}", serde_json::to_string(&shown)?);
        } else {
            shown.print();
        }
    }
    Ok(())
}

impl Shown {
    fn print(&self) {
        let Shown { phase, files, seconds, per_second, .. } = self;
        let phase = format!("{phase:?}").to_lowercase();
        print!("{phase:<7} {files} files in {seconds:.1} s, {per_second:.0}/s");
        if let Some(first) = self.first_entry_us {
            print!(", first entry after {:.1} ms", first as f64 / 1e3);
        }
        if self.p50_us > 0 {
            print!(", p50 {} µs, p99 {} µs, p99.9 {} µs", self.p50_us, self.p99_us, self.p999_us);
            print!(", longest {:.1} ms", self.max_us as f64 / 1e3);
        }
        println!(", servers {} MiB", self.server_mib);
        let parts: Vec<String> = self.parts.iter().map(u64::to_string).collect();
        if !parts.is_empty() {
            println!("        rates of its tenths: {}", parts.join(" "));
        }
    }
}

impl Tree<'_> {
    fn directory(&self, number: usize) -> PathBuf {
        match self.args.fan {
            0 => self.top.clone(),
            _ => self.top.join((number / FAN).to_string()).join(number.to_string()),
        }
    }

    fn path(&self, file: usize, absent: bool) -> PathBuf {
        let directory = self.directory(file.checked_div(self.args.fan as usize).unwrap_or(0));
        directory.join(format!("{}{file:09}", if absent { "absent-" } else { "file-" }))
    }

    fn directories(&self) -> usize {
        self.args.files.checked_div(self.args.fan).map_or(0, |whole| whole as usize + 1)
    }

    fn has_bytes(&self, file: usize) -> bool {
        self.args.every > 0 && (file as u64).is_multiple_of(self.args.every)
    }

    fn phase(&self, phase: TreePhase) -> anyhow::Result<Shown> {
        match phase {
            TreePhase::Create => self.create(),
            TreePhase::Stat => self.each(phase, |tree, file| {
                let about = fs::symlink_metadata(tree.path(file, false))?;
                let bytes = if tree.has_bytes(file) { tree.args.bytes } else { 0 };
                if about.len() != bytes {
                    bail!("{} has {} bytes, not {bytes}", tree.path(file, false).shown(), about.len());
                }
                Ok(())
            }),
            TreePhase::Absent => self.each(phase, |tree, file| match fs::exists(tree.path(file, true))? {
                true => bail!("{} is there", tree.path(file, true).shown()),
                false => Ok(()),
            }),
            TreePhase::List => self.list(),
            TreePhase::Remove => self.remove(),
        }
    }

    fn create(&self) -> anyhow::Result<Shown> {
        fs::create_dir(&self.top).context("cannot make it: remove it, or choose another name with --subdir")?;
        for number in 0..self.directories() {
            fs::create_dir_all(self.directory(number))?;
        }
        let bytes = vec![7u8; self.args.bytes as usize];
        self.each(TreePhase::Create, |tree, file| {
            let mut made = File::options().write(true).create_new(true).open(tree.path(file, false))?;
            if tree.has_bytes(file) {
                made.write_all(&bytes)?;
            }
            Ok(())
        })
    }

    fn remove(&self) -> anyhow::Result<Shown> {
        let shown = self.each(TreePhase::Remove, |tree, file| Ok(fs::remove_file(tree.path(file, false))?))?;
        fs::remove_dir_all(&self.top)?;
        Ok(shown)
    }

    /// Does something to every file.
    fn each(&self, phase: TreePhase, mut act: impl FnMut(&Self, usize) -> anyhow::Result<()>) -> anyhow::Result<Shown> {
        let files = self.args.files as usize;
        let part = files.div_ceil(PARTS);
        let mut took = Vec::with_capacity(files);
        let mut parts = Vec::new();
        let (begin, mut part_begin) = (Instant::now(), Instant::now());
        for file in 0..files {
            let one = Instant::now();
            act(self, file)?;
            took.push(u32::try_from(one.elapsed().as_micros()).unwrap_or(u32::MAX));
            if (file + 1) % part == 0 {
                parts.push((part as f64 / part_begin.elapsed().as_secs_f64()) as u64);
                part_begin = Instant::now();
                if self.interrupted.load(Ordering::Relaxed) {
                    bail!("interrupted");
                }
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        took.sort_unstable();
        let at = |share: f64| u64::from(took[(files as f64 * share) as usize]);
        Ok(Shown {
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: u64::from(took[files - 1]),
            parts,
            ..self.shown(phase, files as u64, seconds)
        })
    }

    fn shown(&self, phase: TreePhase, files: u64, seconds: f64) -> Shown {
        Shown {
            phase,
            files,
            seconds,
            per_second: files as f64 / seconds,
            parts: vec![],
            p50_us: 0,
            p99_us: 0,
            p999_us: 0,
            max_us: 0,
            first_entry_us: None,
            server_mib: self.servers.iter().map(|server| resident_kib(*server)).sum::<u64>() >> 10,
        }
    }

    /// Lists everything; every file is there once, and nothing else is.
    fn list(&self) -> anyhow::Result<Shown> {
        let (begin, mut first, mut files) = (Instant::now(), None, 0);
        let mut directories = vec![self.top.clone()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory)? {
                let entry = entry?;
                first.get_or_insert_with(|| begin.elapsed());
                if entry.file_type()?.is_dir() { directories.push(entry.path()) } else { files += 1 }
            }
        }
        if files != self.args.files {
            bail!("{files} files are listed, {} are there", self.args.files);
        }
        let first_entry_us = first.map(|first| first.as_micros() as u64);
        Ok(Shown { first_entry_us, ..self.shown(TreePhase::List, files, begin.elapsed().as_secs_f64()) })
    }
}

/// Resident memory of a process; 0 if it is gone.
fn resident_kib(process: u32) -> u64 {
    let status = fs::read_to_string(Path::new("/proc").join(process.to_string()).join("status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
