//! `onpath touch [-c] [-a] [-m] [-d DATE | -t STAMP | -r PATH] PATH…`

use super::when::{Date, Stamp};
use super::{AtArgs, Target, Work, is};
use clap::Args;
use onpath_client::{Error, Link, OpenOptions, Time};
use rustix::io::Errno;
use std::ffi::OsString;

/// Arguments of `onpath touch`.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct TouchArgs {
    #[arg(help = paths!("Files that get the present time, and are made if there are none"), required = true, value_name = "PATH")]
    paths: Vec<OsString>,
    /// Make no files.
    #[arg(short = 'c', long)]
    no_create: bool,
    /// The access time alone.
    #[arg(short = 'a')]
    accessed: bool,
    /// The modification time alone.
    #[arg(short = 'm')]
    modified: bool,
    /// This time: now, @SECONDS, or a date with or without time and zone.
    #[arg(short, long, value_name = "DATE", conflicts_with_all = ["stamp", "reference"])]
    date: Option<Date>,
    /// This time, as [[CC]YY]MMDDhhmm[.ss].
    #[arg(short = 't', value_name = "STAMP", conflicts_with = "reference")]
    stamp: Option<Stamp>,
    /// The times of another file.
    #[arg(short, long, value_name = "PATH")]
    reference: Option<OsString>,
    /// Of a symbolic link its own times.
    #[arg(short = 'h', long)]
    no_dereference: bool,
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    #[command(flatten)]
    at: AtArgs,
}

pub(crate) fn run(args: TouchArgs) -> anyhow::Result<()> {
    let mut work = args.at.begin();
    let (atime, mtime) = match (&args.reference, args.date, args.stamp) {
        (Some(word), ..) => {
            let target = work.one(word)?;
            let is = target.client.stat(&work.me, &target.path)?;
            (Time::At(is.atime), Time::At(is.mtime))
        }
        (None, Some(Date(time)), _) | (None, None, Some(Stamp(time))) => (time, time),
        (None, None, None) => (Time::Now, Time::Now),
    };
    let both = args.accessed == args.modified;
    let times = (
        if both || args.accessed { atime } else { Time::Keep },
        if both || args.modified { mtime } else { Time::Keep },
    );
    for target in work.targets(&args.paths)? {
        let touched = touch(&work, &args, &target, times);
        work.told(touched);
    }
    work.end()
}

fn touch(work: &Work, args: &TouchArgs, target: &Target, (atime, mtime): (Time, Time)) -> Result<(), Error> {
    let link = if args.no_dereference { Link::Itself } else { Link::Follow };
    let set = || target.client.utimens(&work.me, &target.path, atime, mtime, link);
    match set() {
        Err(error) if is(&error, Errno::NOENT) && args.no_create => Ok(()),
        Err(error) if is(&error, Errno::NOENT) && !args.no_dereference => {
            target.client.open(&work.me, &target.path, &OpenOptions::create())?.close()?;
            set()
        }
        result => result,
    }
}
