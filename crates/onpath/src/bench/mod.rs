//! `onpath bench`: what file systems cost, measured from outside, and the floor to compare them with; the cost model of clusters.

mod beside;
mod builds;
mod cache;
mod cost;
mod floor;
mod forms;
mod index;
mod keys;
mod net;
mod paths;
mod posix;
mod programs;
mod tree;
mod writes;

use clap::{Args, Subcommand};
use onpath_wire::secrets::Secrets;

/// Arguments of `onpath bench`.
#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Subcommand, Debug)]
enum BenchCommand {
    /// Measures metadata operations on one or more directories, in turn, and compares them.
    Posix(posix::PosixArgs),
    /// Measures what people run (tar, find, git, rsync, ls, rm), large files and direct I/O on one or more directories, in turn.
    Programs(programs::ProgramsArgs),
    /// Makes one large tree or directory, looks at it and removes it: rates as it grows, pauses, memory of the server.
    Tree(tree::TreeArgs),
    /// Mounts a bare passthrough to DIR at MNT until Ctrl-C: the least that any mount costs.
    Floor(floor::FloorArgs),
    /// Measures the constants of the cost model on this machine, with the real code.
    Calibrate(cost::CalibrateArgs),
    /// Models clusters of any size: prints a table for each case.
    Model(cost::ModelArgs),
    /// Compares what the cost model predicts for one process with the real one.
    Validate(cost::ValidateArgs),
    /// Measures requests over UDP to servers of its own, beside a bare echo, in turn.
    Net(net::NetArgs),
    /// Looks at paths of several depths without a mount: name by name, by a path node that has to ask, and by one that knows the way; in turn.
    Paths(paths::PathsArgs),
    /// Compares who may know that a directory has pending updates: its owner, or a switch that may be full; over UDP, in turn.
    Forms(forms::FormsArgs),
    /// Compares who answers write(2) and when its home hears of it: latency, CPU, records, flushes; over UDP, in turn.
    Writes(writes::WritesArgs),
    /// Compares looks at hot metadata that a switch answers with the same that shards answer: latency, CPU; over UDP, in turn.
    Cache(cache::CacheArgs),
    /// Compares the indexes that a path node can have, in turn: memory, loads, lookups, renames.
    Index(index::IndexArgs),
    /// Compares what clients cost hosts by the keys that they have: none, one for any user, one with an owner; over UDP, in turn.
    Keys(keys::KeysArgs),
    /// The other process of an echo of `bench net`.
    #[command(hide = true)]
    Echo(net::EchoArgs),
    /// One process of `bench posix`.
    #[command(hide = true)]
    Worker(posix::WorkerArgs),
}

/// The secrets of file systems that are made for a measurement: names are at the same places each time.
fn fixed_secrets() -> Secrets {
    Secrets::of_seed(0x4f6e_7061_7468)
}

pub(crate) fn run(args: BenchArgs) -> anyhow::Result<()> {
    match args.command {
        BenchCommand::Posix(args) => posix::run(args),
        BenchCommand::Programs(args) => programs::run(&args),
        BenchCommand::Tree(args) => tree::run(&args),
        BenchCommand::Floor(args) => floor::run(args),
        BenchCommand::Calibrate(args) => cost::calibrate(args),
        BenchCommand::Model(args) => cost::model(args),
        BenchCommand::Validate(args) => cost::validate(args),
        BenchCommand::Net(args) => net::run(&args),
        BenchCommand::Paths(args) => paths::run(&args),
        BenchCommand::Forms(args) => forms::run(&args),
        BenchCommand::Writes(args) => writes::run(&args),
        BenchCommand::Cache(args) => cache::run(&args),
        BenchCommand::Index(args) => index::run(&args),
        BenchCommand::Keys(args) => keys::run(&args),
        BenchCommand::Echo(args) => net::serve_echo(&args),
        BenchCommand::Worker(args) => posix::work(&args),
    }
}
