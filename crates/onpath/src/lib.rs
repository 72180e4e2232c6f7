//! The `onpath` command: its program, `src/main.rs`, only calls it.

mod background;
mod bench;
mod cli;
mod cluster;
mod copy;
mod dev;
mod explore;
mod format;
mod fsck;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod generate;
mod helper;
mod inspect;
mod kernel_switch;
mod metrics;
mod mount;
mod mounted;
mod progress;
mod remote;
mod reshape;
mod serve;
mod signals;
mod sim;
mod status;
mod switch;
mod teller;
mod top;
mod tree;
mod umount;
mod walk;

use clap::FromArgMatches;
use std::process::ExitCode;

/// Runs the command that the process was called with.
pub fn main() -> ExitCode {
    if helper::is_called(std::env::args_os().next()) {
        return helper::main();
    }
    let args = match cli::command().try_get_matches().and_then(|found| cli::Cli::from_arg_matches(&found)) {
        Ok(args) => args,
        Err(error) => return cli::usage(error),
    };
    cli::start_log(&args.log);
    match cli::run(args.command) {
        Ok(()) => {
            background::forget_empty_log();
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("onpath: {}", cli::told(&error));
            ExitCode::from(cli::exit_code(&error))
        }
    }
}
