//! `onpath cat PATH…`: the bytes of files, one after the other.

use super::{AtArgs, Target, Work};
use clap::Args;
use onpath_client::Error;
use std::ffi::OsString;
use std::io::{ErrorKind, Write, stdout};

/// Arguments of `onpath cat`.
#[derive(Args, Debug)]
pub(crate) struct CatArgs {
    #[arg(help = paths!("Files"), required = true, value_name = "PATH")]
    paths: Vec<OsString>,
    #[command(flatten)]
    at: AtArgs,
}

pub(crate) fn run(args: CatArgs) -> anyhow::Result<()> {
    let mut work = args.at.begin();
    for target in work.targets(&args.paths)? {
        let read = print(&work, &target);
        work.told(read);
    }
    work.end()
}

pub(super) fn print(work: &Work, target: &Target) -> Result<(), Error> {
    let mut reader = target.client.get(&work.me, &target.path)?;
    let mut output = stdout().lock();
    while let Some(bytes) = reader.next()? {
        written(output.write_all(&bytes));
    }
    written(output.flush());
    Ok(())
}

/// What becomes of writing to standard output: a reader that has gone away ends the program quietly.
fn written(result: std::io::Result<()>) {
    match result {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            eprintln!("onpath: cannot write to standard output: {error}");
            std::process::exit(1);
        }
    }
}
