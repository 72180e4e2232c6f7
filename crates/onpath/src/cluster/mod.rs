//! Clusters: their configuration, and the commands that write and show it.

mod add;
pub(crate) mod config;
pub(crate) mod init;
mod keys;
mod rotate;
mod status;

use clap::{Args, Subcommand};

/// Arguments of `onpath cluster`.
#[derive(Args, Debug)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Subcommand, Debug)]
enum ClusterCommand {
    /// Writes the configuration of a new cluster.
    Init(init::InitArgs),
    /// Adds a host to a configuration.
    Add(add::AddArgs),
    /// Changes the key that seals all messages, and gives clients keys of their own, while hosts and mounts go on.
    #[command(subcommand)]
    Key(keys::KeyCommand),
    /// Shows a configuration, and which of its hosts answer.
    Status(status::StatusArgs),
}

pub(crate) fn run(args: ClusterArgs) -> anyhow::Result<()> {
    match args.command {
        ClusterCommand::Init(args) => init::run(args),
        ClusterCommand::Add(args) => add::run(args),
        ClusterCommand::Key(command) => keys::run(command),
        ClusterCommand::Status(args) => status::run(args),
    }
}
