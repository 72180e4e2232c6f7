//! The command line.

mod arguments;
mod groups;

use crate::progress::AboveBar;
use crate::walk::Undone;
use crate::{
    bench, cluster, copy, dev, explore, format, fsck, generate, inspect, mount, remote, reshape, serve, sim, status,
    switch, top, tree, umount,
};
use clap::error::ContextValue;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use onpath_client::way::WayError;
use onpath_fuse::mount::{MountError, OptionError, ParsedOptions};
use onpath_host::dir::DirError;
use onpath_host::member::MemberError;
use onpath_host::server::ServerError;
use onpath_host::stream::StreamError;
use onpath_host::udp::{JoinError, Wait};
use onpath_wire::shown::{lines, words};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use arguments::ArgumentError;
pub(crate) use arguments::{directory, told};

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

impl LogArgs {
    /// To log from that level on, if the environment does not say otherwise.
    pub(crate) fn of_level(level: &str) -> LogArgs {
        let log = std::env::var("ONPATH_LOG").unwrap_or_else(|_| level.to_owned());
        LogArgs { log, log_json: std::env::var_os("ONPATH_LOG_JSON").is_some() }
    }
}

/// The whole command line.
pub(crate) fn command() -> clap::Command {
    groups::grouped(Cli::command())
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Makes an empty file system in DIR without serving it.
    Format(format::FormatArgs),
    /// Runs a whole file system in one process, its state in DIR, and mounts it.
    Dev(dev::DevArgs),
    /// Runs the roles of one host of a cluster.
    Serve(serve::ServeArgs),
    /// Writes and shows the configuration of a cluster.
    Cluster(cluster::ClusterArgs),
    /// Mounts a file system that `onpath dev` serves once more, or one that `onpath serve` serves.
    Mount(mount::MountArgs),
    /// Unmounts it, also when its server is gone.
    Umount(umount::UmountArgs),
    /// Shows how a file system is: healthy or not and why, capacity, mounts, hosts, what is pending, what is slow.
    Status(status::StatusArgs),
    /// Shows what a running file system does: operations with rates and latencies, collects, gates, journal.
    Top(top::TopArgs),
    /// Shows what a path of a file system is, without a mount.
    Stat(remote::stat::StatArgs),
    /// Lists directories, without a mount.
    Ls(remote::ls::LsArgs),
    /// Prints files, without a mount.
    Cat(remote::cat::CatArgs),
    /// Makes directories, without a mount.
    Mkdir(remote::mkdir::MkdirArgs),
    /// Removes files and directories, without a mount.
    Rm(remote::rm::RmArgs),
    /// Copies files of a file system to this machine, without a mount.
    Get(remote::get::GetArgs),
    /// Copies files of this machine into a file system, without a mount: each as a whole or not at all.
    Put(remote::put::PutArgs),
    /// Renames files and directories, without a mount.
    Mv(remote::mv::MvArgs),
    /// Makes links, without a mount.
    Ln(remote::ln::LnArgs),
    /// Changes times of files and makes empty ones, without a mount.
    Touch(remote::touch::TouchArgs),
    /// Draws directories with all that is in them, without a mount.
    Tree(remote::tree::TreeArgs),
    /// Prints paths that begin with a word, for completions of shells.
    #[command(hide = true)]
    CompletePath(remote::complete::CompleteArgs),
    /// Sums up trees: files, directories, bytes.
    Du(tree::du::DuArgs),
    /// Shows the space of mounted file systems.
    Df(tree::df::DfArgs),
    /// Finds entries of trees by name, kind, size, age or owner, or sums them up.
    Find(tree::find::FindArgs),
    /// Removes trees, in parallel.
    Rmr(tree::rmr::RmrArgs),
    /// Changes permission bits, of whole trees with -R.
    Chmod(tree::chmod::ChmodArgs),
    /// Changes owner and group, of whole trees with -R.
    Chown(tree::chown::ChownArgs),
    /// Copies a directory into a file system, mounted or not: in parallel, resumable.
    Import(copy::CopyArgs),
    /// Copies a directory out of a file system, mounted or not: in parallel, resumable.
    Export(copy::CopyArgs),
    /// Checks a file system, running or not; with --repair it puts right what it can.
    Fsck(fsck::FsckArgs),
    /// Gives a file system that is not running another number of shards.
    Reshape(reshape::ReshapeArgs),
    /// Shows what the shards know of a directory: who holds parts of it, what is pending.
    Inspect(inspect::InspectArgs),
    /// Puts the in-network program into the kernel, on network devices.
    Switch(switch::SwitchArgs),
    /// Runs the same roles on virtual time from a seed and checks every answer.
    Sim(sim::SimArgs),
    /// Runs every schedule of a small situation within bounds, on virtual time, and checks every answer.
    Explore(explore::ExploreArgs),
    /// Measures file systems from outside.
    Bench(bench::BenchArgs),
    /// Prints what makes a shell complete commands.
    Completions(generate::CompletionsArgs),
    /// Writes the manual pages into DIR.
    Man(generate::ManArgs),
}

/// How threads wait for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WaitMode {
    /// In the kernel.
    Block,
    /// They look again and again, and keep a CPU busy.
    Spin,
}

impl WaitMode {
    /// The word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            WaitMode::Block => "block",
            WaitMode::Spin => "spin",
        }
    }

    /// What an endpoint is told.
    pub(crate) fn of_endpoint(self) -> Wait {
        match self {
            WaitMode::Block => Wait::Block,
            WaitMode::Spin => Wait::Spin,
        }
    }
}

/// What a mount may cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CacheMode {
    /// Names and attributes for a second, while it is the only mount of the file system.
    Alone,
    /// Neither; every stat asks.
    None,
}

impl CacheMode {
    /// Whether a mount caches, by its options, or else by the command line.
    pub(crate) fn chosen(self, options: &ParsedOptions) -> anyhow::Result<bool> {
        let option = options.own.iter().rfind(|(name, _)| name == "cache").map(|(_, value)| value.as_deref());
        Ok(match option {
            None => self == CacheMode::Alone,
            Some(Some("alone")) => true,
            Some(Some("none")) => false,
            Some(other) => {
                anyhow::bail!("mount option cache={}: use cache=alone or cache=none", other.unwrap_or_default())
            }
        })
    }
}

/// When a change is on stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CommitMode {
    /// Replies leave when the operating system has the change; stable storage follows within the interval.
    Interval,
    /// Replies leave when the change is on stable storage.
    Sync,
}

/// How directories are tracked (design.md, "The life of an update").
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TrackingForm {
    /// By their owners: no switch needed.
    Owner,
    /// By a dirty set in the network.
    Network,
}

/// Who answers writes of files (design.md, "Writes that data nodes answer").
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Writes {
    /// The home of the file, which hears of each from the data node.
    Chain,
    /// The data node, if the file is lent to it; whoever asks the home is shown it.
    Visible,
    /// The home, which hears of it from the client, after that has heard from the data node: slower, to compare with.
    TwoPhase,
}

impl Writes {
    /// As it is written in a configuration.
    pub(crate) fn word(self) -> String {
        self.to_possible_value().expect("none is hidden").get_name().to_owned()
    }
}

impl From<Writes> for onpath_wire::tracking::Writes {
    fn from(writes: Writes) -> Self {
        match writes {
            Writes::Chain => Self::Chain,
            Writes::Visible => Self::Visible,
            Writes::TwoPhase => Self::TwoPhase,
        }
    }
}

impl From<onpath_wire::tracking::Writes> for Writes {
    fn from(writes: onpath_wire::tracking::Writes) -> Self {
        match writes {
            onpath_wire::tracking::Writes::Chain => Self::Chain,
            onpath_wire::tracking::Writes::Visible => Self::Visible,
            onpath_wire::tracking::Writes::TwoPhase => Self::TwoPhase,
        }
    }
}

pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Dev(args) => dev::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Cluster(args) => cluster::run(args),
        Command::Mount(args) => mount::run(args),
        Command::Status(args) => status::run(args),
        Command::Fsck(args) => fsck::run(args),
        Command::Reshape(args) => reshape::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Switch(args) => switch::run(args),
        Command::Sim(args) => sim::run(args),
        Command::Explore(args) => explore::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Format(args) => format::run(args),
        Command::Umount(args) => umount::run(args),
        Command::Top(args) => top::run(args),
        Command::Stat(args) => remote::stat::run(args),
        Command::Ls(args) => remote::ls::run(args),
        Command::Cat(args) => remote::cat::run(args),
        Command::Mkdir(args) => remote::mkdir::run(args),
        Command::Rm(args) => remote::rm::run(args),
        Command::Get(args) => remote::get::run(args),
        Command::Put(args) => remote::put::run(args),
        Command::Mv(args) => remote::mv::run(args),
        Command::Ln(args) => remote::ln::run(args),
        Command::Touch(args) => remote::touch::run(args),
        Command::Tree(args) => remote::tree::run(args),
        Command::CompletePath(args) => remote::complete::run(args),
        Command::Du(args) => tree::du::run(args),
        Command::Df(args) => tree::df::run(args),
        Command::Find(args) => tree::find::run(args),
        Command::Rmr(args) => tree::rmr::run(args),
        Command::Chmod(args) => tree::chmod::run(args),
        Command::Chown(args) => tree::chown::run(args),
        Command::Import(args) => copy::import(args),
        Command::Export(args) => copy::export(args),
        Command::Completions(args) => generate::completions(args),
        Command::Man(args) => generate::man(args),
    }
}

pub(crate) fn start_log(args: &LogArgs) {
    let filter = tracing_subscriber::EnvFilter::try_new(&args.log).unwrap_or_else(|error| {
        eprintln!("onpath: --log {:?}: {error}; using info", args.log);
        tracing_subscriber::EnvFilter::new("info")
    });
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| AboveBar);
    if args.log_json { builder.json().init() } else { builder.init() }
}

/// Exit codes as mount(8) gives them: 1 wrong use, not permitted, or something was left undone; 2 system; 32 the mount failed. fsck has
/// its own; `status` ends with 3 or 4 if a file system is degraded or down, `ls` with 2 if a path cannot be looked at.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    if let Some(code) = fsck::exit_code(error) {
        return code;
    }
    if let Some(undone) = error.downcast_ref::<Undone>() {
        return undone.code();
    }
    match error.downcast_ref::<MountError>() {
        Some(MountError::NotRoot) => return 1,
        Some(_) => return 32,
        None => {}
    }
    if error.is::<ArgumentError>() {
        return 32;
    }
    if error.is::<OptionError>() {
        return 1;
    }
    if error.is::<JoinError>() || error.is::<MemberError>() {
        return 32;
    }
    if remote::is_out_of_reach(error) {
        return 32;
    }
    if error.is::<WayError>() || error.is::<StreamError>() || error.is::<ServerError>() || error.is::<DirError>() {
        32
    } else {
        1
    }
}

/// Prints what clap has to say: help that was asked for, or what is wrong with the command line.
pub(crate) fn usage(mut error: clap::Error) -> ExitCode {
    on_one_line(&mut error);
    // Where its words cannot be printed, the exit code has to do.
    _ = match error.use_stderr() {
        true => write!(std::io::stderr(), "{}", lines(&error.render().to_string())),
        false => error.print(),
    };
    let called = || command().ignore_errors(true).try_get_matches().ok()?.subcommand_name().map(str::to_owned);
    ExitCode::from(match error.use_stderr() {
        false => 0,
        true if called().as_deref() == Some(fsck::NAME) => fsck::EXIT_USAGE,
        // 1 would be an error, and what is above 2 tells how a file system is.
        true if matches!(called().as_deref(), Some("status" | "ls")) => 2,
        true => 1,
    })
}

/// Makes a terminal go to its upper left corner and clear what is below; what is said next is shown there.
pub(crate) fn clear() {
    let mut output = std::io::stdout().lock();
    if output.is_terminal() {
        _ = output.write_all(b"\x1b[H\x1b[J"); // what is said next fails too
    }
}

/// Words of the command line that an error repeats may be names that a pattern of the shell gave, which others chose.
fn on_one_line(error: &mut clap::Error) {
    let given = error.context().filter_map(|(kind, value)| match value {
        ContextValue::String(text) => Some((kind, words(text.as_bytes()))),
        _ => None,
    });
    let given: Vec<_> = given.collect();
    for (kind, text) in given {
        error.insert(kind, ContextValue::String(text));
    }
}

/// A path argument that must be absolute afterwards, whatever the working directory becomes.
pub(crate) fn absolute(path: &std::path::Path) -> anyhow::Result<PathBuf> {
    Ok(std::path::absolute(path)?)
}

/// Prints a line, or several: to a program as they are, to a terminal without what it would obey.
pub(crate) fn try_say(line: &(impl AsRef<[u8]> + ?Sized)) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    if output.is_terminal() {
        output.write_all(lines(&String::from_utf8_lossy(line.as_ref())).as_bytes())?;
    } else {
        output.write_all(line.as_ref())?;
    }
    output.write_all(b"\n")
}

/// Prints a line; a reader that has gone away (`onpath … | head`) ends the program quietly.
pub(crate) fn say(line: &(impl AsRef<[u8]> + ?Sized)) {
    if let Err(error) = try_say(line) {
        let code = if error.kind() == std::io::ErrorKind::BrokenPipe { 0 } else { 2 };
        std::process::exit(code);
    }
}
