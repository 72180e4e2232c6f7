//! `onpath bench`: what file systems cost, measured from outside, and the floor to compare them with.

mod floor;
mod posix;

use clap::{Args, Subcommand};

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
    /// Mounts a bare passthrough to DIR at MNT until Ctrl-C: the least that any mount costs.
    Floor(floor::FloorArgs),
    /// One process of `bench posix`.
    #[command(hide = true)]
    Worker(posix::WorkerArgs),
}

pub(crate) fn run(args: BenchArgs) -> anyhow::Result<()> {
    match args.command {
        BenchCommand::Posix(args) => posix::run(args),
        BenchCommand::Floor(args) => floor::run(args),
        BenchCommand::Worker(args) => posix::work(&args),
    }
}
