//! The command line.

use crate::{bench, dev, explore, fsck, inspect, mount, sim, status};
use clap::{Args, Parser, Subcommand, ValueEnum};
use onpath_fuse::mount::MountError;
use std::path::PathBuf;

/// A POSIX distributed file system whose metadata is coordinated on the network path.
#[derive(Parser, Debug)]
#[command(name = "onpath", version, about, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) log: LogArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// How to log.
#[derive(Args, Debug)]
pub(crate) struct LogArgs {
    /// What to log: error, warn, info, debug, trace, or directives such as onpath_host=debug.
    #[arg(long, global = true, env = "ONPATH_LOG", default_value = "info")]
    log: String,
    /// Log one JSON object a line.
    #[arg(long, global = true, env = "ONPATH_LOG_JSON")]
    log_json: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Runs a whole file system in one process, its state in DIR, and mounts it.
    Dev(dev::DevArgs),
    /// Mounts a file system that `onpath dev` serves once more.
    Mount(mount::MountArgs),
    /// Shows the counters of a running file system.
    Status(status::StatusArgs),
    /// Checks a file system that is not running, and changes nothing.
    Fsck(fsck::FsckArgs),
    /// Shows what the shards know of a directory: who holds parts of it, what is pending.
    Inspect(inspect::InspectArgs),
    /// Runs the same roles on virtual time from a seed and checks every answer.
    Sim(sim::SimArgs),
    /// Runs every schedule of a small situation within bounds, on virtual time, and checks every answer.
    Explore(explore::ExploreArgs),
    /// Measures file systems from outside.
    Bench(bench::BenchArgs),
}

/// When a change is on stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CommitMode {
    /// Replies leave when the operating system has the change; stable storage follows within the interval.
    Interval,
    /// Replies leave when the change is on stable storage.
    Sync,
}

/// How directories are tracked (DESIGN §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TrackingForm {
    /// By their owners: no switch needed.
    Owner,
    /// By a dirty set in the network.
    Network,
}

pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Dev(args) => dev::run(args),
        Command::Mount(args) => mount::run(args),
        Command::Status(args) => status::run(args),
        Command::Fsck(args) => fsck::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Sim(args) => sim::run(args),
        Command::Explore(args) => explore::run(args),
        Command::Bench(args) => bench::run(args),
    }
}

pub(crate) fn start_log(args: &LogArgs) {
    let filter = tracing_subscriber::EnvFilter::try_new(&args.log).unwrap_or_else(|error| {
        eprintln!("onpath: --log {:?}: {error}; using info", args.log);
        tracing_subscriber::EnvFilter::new("info")
    });
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if args.log_json { builder.json().init() } else { builder.init() }
}

/// Exit codes as mount(8) gives them: 1 wrong use or permissions, 2 system, 32 mount failed; fsck has its own.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    if let Some(code) = fsck::exit_code(error) {
        return code;
    }
    if error.downcast_ref::<MountError>().is_some() { 32 } else { 1 }
}

/// A path argument that must be absolute afterwards, whatever the working directory becomes.
pub(crate) fn absolute(path: &std::path::Path) -> anyhow::Result<PathBuf> {
    Ok(std::path::absolute(path)?)
}

/// Prints a line; a reader that has gone away (`onpath … | head`) ends the program quietly.
pub(crate) fn say(line: &str) {
    use std::io::Write;
    if let Err(error) = writeln!(std::io::stdout(), "{line}") {
        let code = if error.kind() == std::io::ErrorKind::BrokenPipe { 0 } else { 2 };
        std::process::exit(code);
    }
}
