//! `onpath fsck DIR`: checks a file system and changes nothing.
//!
//! The state is loaded as a start would load it, but no role is started. A process that serves DIR is asked for it, as of one
//! moment, and goes on. Then `checks` compares what the shards and the
//! data node say of the same things. What a start resolves by itself (half done transactions, entries on their way,
//! a torn end of the journal) is no fault. `repair` changes something, if it is asked to.

mod cancel;
mod checks;
mod code;
mod disk;
mod promised;
mod repair;
mod report;
mod sorted;
mod spill;
mod view;

use crate::cli::{directory, try_say};
use crate::dev::parse_bytes;
use crate::progress::Progress;
use anyhow::Context;
use clap::Args;
use onpath_host::dir::DirError;
use onpath_host::inspect::{InspectError, Inspection, inspect, inspect_served};
use onpath_host::progress::{Stage, Watcher};
use onpath_host::stream::StreamError;
use onpath_wire::shown::Shown;
use report::{Checked, Report};
use spill::Spill;
use std::fmt;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use view::{Objects, View};

/// Exit code: faults were repaired.
const EXIT_REPAIRED: u8 = 1;
/// Exit code: there are faults.
const EXIT_FAULTS: u8 = 4;
/// Exit code: the check could not be made.
const EXIT_FAILED: u8 = 8;
/// Exit code: wrong use.
pub(crate) const EXIT_USAGE: u8 = 16;
/// Exit code: cancelled by a signal.
const EXIT_CANCELLED: u8 = 32;
/// Memory for what is compared, unless another bound is given.
const MEMORY: &str = "128M";
/// Least memory for that, bytes.
const MEMORY_MIN: u64 = 16 << 10;
/// The name of the command.
pub(crate) const NAME: &str = "fsck";

/// Arguments of `onpath fsck`.
#[derive(Args, Debug)]
#[command(after_long_help = code::table(), after_help = code::EXIT_CODES)]
pub(crate) struct FsckArgs {
    /// The DIR of a file system, running or not.
    dir: PathBuf,
    /// Put right what can be without losing anything; nobody may serve DIR. Without it nothing is changed.
    #[arg(long)]
    repair: bool,
    /// Also read every block of every file and compare its checksum.
    #[arg(long)]
    data: bool,
    /// Print one JSON object: faults, notes, and what was checked.
    #[arg(long)]
    json: bool,
    /// Memory for what is compared, as 64M or 1G; what is more goes to temporary files.
    #[arg(long, env = "ONPATH_FSCK_MEMORY", value_parser = parse_memory, value_name = "BYTES", default_value = MEMORY)]
    memory: u64,
    /// Directory for temporary files [default: the system's].
    #[arg(long, env = "ONPATH_FSCK_TEMP", value_name = "DIR")]
    temp: Option<PathBuf>,
    /// Show no progress.
    #[arg(short, long)]
    quiet: bool,
}

fn parse_memory(text: &str) -> Result<u64, String> {
    parse_bytes(text, MEMORY_MIN)
}

/// Why `onpath fsck` does not exit with 0.
#[derive(Debug)]
enum FsckError {
    Faults { dir: PathBuf, count: u64, first: String, repaired: usize },
    Repaired { dir: PathBuf, count: usize },
    Failed(anyhow::Error),
}

impl fmt::Display for FsckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FsckError::Repaired { dir, count } => write!(f, "{}: {count} changes have repaired it", dir.shown()),
            FsckError::Faults { dir, count: 1, first, .. } => write!(f, "{}: {first}", dir.shown()),
            FsckError::Faults { dir, count, first, .. } => {
                write!(f, "{}: {count} faults; the first: {first}", dir.shown())
            }
            FsckError::Failed(error) => write!(f, "{error:#}"),
        }
    }
}

impl std::error::Error for FsckError {}

/// The exit code of an error, if it is one of this command.
pub(crate) fn exit_code(error: &anyhow::Error) -> Option<u8> {
    error.downcast_ref::<FsckError>().map(|error| match error {
        FsckError::Faults { repaired: 0, .. } => EXIT_FAULTS,
        FsckError::Faults { .. } => EXIT_FAULTS | EXIT_REPAIRED,
        FsckError::Repaired { .. } => EXIT_REPAIRED,
        FsckError::Failed(_) => EXIT_FAILED,
    })
}

pub(crate) fn run(args: FsckArgs) -> anyhow::Result<()> {
    let cancel = cancel::watch().map_err(FsckError::Failed)?;
    let work = if args.repair { "checking and repairing" } else { "checking" };
    let progress = Arc::new(Progress::new(work, args.quiet));
    let dir = directory(&args.dir).map_err(FsckError::Failed)?;
    let (watcher, data): (Arc<dyn Watcher>, bool) = (progress.clone(), args.data);
    let temp = args.temp.unwrap_or_else(std::env::temp_dir);
    let spill = Spill::new(&temp, args.memory);
    let mut report = check(&dir, &temp, &spill, data, &watcher).map_err(FsckError::Failed)?;
    let mut repaired = repair::Repaired::new();
    if args.repair && report.fault_kinds().keys().any(|code| repair::policy::of(*code).is_ok()) {
        cancel.reached(cancel::REPAIRING);
        repaired = mend(&dir, &report, &spill, &watcher).map_err(FsckError::Failed)?;
        cancel.reached(if repaired.is_empty() { cancel::CHECKING } else { cancel::REPAIRED });
        let before =
            std::mem::replace(&mut report, check(&dir, &temp, &spill, data, &watcher).map_err(FsckError::Failed)?)
                .fault_kinds();
        let after = report.fault_kinds();
        // Terms are taken, and torn ends cut, when it is opened.
        for code in before.into_keys().filter(|code| !after.contains_key(code)) {
            if !repaired.iter().any(|(of, _)| *of == code) {
                repaired.push((code, "opening it has put it right".to_owned()));
            }
        }
    }
    report.repaired = repaired;
    progress.finish();
    let words = if args.json { report.json(&dir).to_string() } else { report.to_string() };
    match try_say(&words) {
        // A reader that has gone away does not make it clean: the exit code tells.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            return Err(FsckError::Failed(anyhow::Error::new(error).context("standard output")).into());
        }
        _ => {}
    }
    let repaired = report.repaired.len();
    match report.first_fault() {
        None if repaired == 0 => Ok(()),
        None => Err(FsckError::Repaired { dir, count: repaired }.into()),
        Some(first) => {
            Err(FsckError::Faults { dir, count: report.faults(), first: first.to_string(), repaired }.into())
        }
    }
}

/// Repairs what was found.
fn mend(dir: &Path, found: &Report, spill: &Rc<Spill>, watcher: &Arc<dyn Watcher>) -> anyhow::Result<repair::Repaired> {
    anyhow::ensure!(!found.checked.served, "{} is served: stop it first, then repair it", dir.shown());
    anyhow::ensure!(found.checked.namespace, "not all of the state can be read, so nothing can be repaired");
    match quietly(|| repair::repair(dir, spill, watcher)) {
        Ok(repaired) => repaired.context("cannot be repaired"),
        Err(panic) => anyhow::bail!("cannot be repaired, and nothing was changed: {panic}"),
    }
}

fn check(dir: &Path, temp: &Path, spill: &Rc<Spill>, data: bool, watcher: &Arc<dyn Watcher>) -> anyhow::Result<Report> {
    let mut report = Report::default();
    let inspected = quietly(|| match inspect(dir, watcher.clone()) {
        Err(in_use @ DirError::InUse { .. }) => match inspect_served(dir, temp, watcher.clone()) {
            // Starting, stopping, or not a server: nobody can be asked.
            Err(InspectError::Stream(StreamError::NotServed { .. })) => Err(in_use.into()),
            asked => asked,
        },
        looked => Ok(looked?),
    });
    let inspection = match inspected {
        Err(panic) => {
            report.add(disk::contradiction(dir, &panic));
            return Ok(report);
        }
        Ok(Err(error)) => {
            let finding = if let InspectError::Dir(error) = &error { disk::superblock(error) } else { None };
            report.add(finding.ok_or(error).context("cannot be checked")?);
            return Ok(report);
        }
        Ok(Ok(inspection)) => inspection,
    };
    if inspection.served && data {
        anyhow::bail!("{} is served: --data reads blocks while nobody writes them; stop it first", dir.shown());
    }
    report.checked.served = inspection.served;
    disk::problems(&inspection, &mut report);
    if inspection.problems.is_empty() {
        let checked = quietly(|| everything(&inspection, spill, data, &**watcher, &mut report));
        checked.map_err(anyhow::Error::msg).context("cannot be checked")?;
        spill.sound().context("cannot be checked")?;
    }
    Ok(report)
}

/// With `data` every block is read.
fn everything(inspection: &Inspection, spill: &Rc<Spill>, data: bool, watcher: &dyn Watcher, report: &mut Report) {
    let Inspection { superblock, shards, data: node, .. } = inspection;
    let view = View::new(superblock, shards, node, inspection.files(), spill, watcher);
    let Objects { inodes, names, entries, blocks } = view.objects;
    report.checked = Checked { namespace: true, inodes, names, entries, data, ..report.checked };
    checks::run(&view, node, watcher, report);
    if data {
        watcher.begin(Stage::of("reading the files", "blocks").with_whole(blocks));
    }
    checks::data::blocks(&view, inspection, data.then_some(watcher), report);
}

/// Runs `work`; a failed assertion of a role, which refuses to hold such a state, is caught and given as its message.
fn quietly<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let result = catch_unwind(AssertUnwindSafe(work));
    std::panic::set_hook(hook);
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap_or_default()
    })
}
