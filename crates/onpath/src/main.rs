//! The `onpath` command.

mod bench;
mod cli;
mod dev;
mod explore;
mod fsck;
mod inspect;
mod mount;
mod mounted;
mod signals;
mod sim;
mod status;

use clap::Parser;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = cli::Cli::parse();
    cli::start_log(&args.log);
    match cli::run(args.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("onpath: {error:#}");
            ExitCode::from(cli::exit_code(&error))
        }
    }
}
