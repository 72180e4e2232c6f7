//! `onpath top DIR`: what a running file system does, from two readings of its counters.

mod reading;

use crate::cli::say;
use crate::inspect::serving;
use clap::Args;
use onpath_host::stream::request_status;
use reading::{Interval, Reading};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Goes to the upper left corner and clears what is below.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Arguments of `onpath top`.
#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// The DIR of the running `onpath dev`, or a path on a mount of it.
    dir: PathBuf,
    /// Milliseconds between two readings.
    #[arg(short, long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    interval_ms: u64,
    /// Print one interval, then end.
    #[arg(long)]
    once: bool,
    /// Print one JSON object for each interval, a line each.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: TopArgs) -> anyhow::Result<()> {
    let dir = serving(&args.dir)?;
    let interval = Duration::from_millis(args.interval_ms);
    let clear = if std::io::stdout().is_terminal() && !args.once { CLEAR } else { "" };
    let read =
        || -> anyhow::Result<(Instant, Reading)> { Ok((Instant::now(), Reading::parse(&request_status(&dir)?)?)) };
    let mut before = read()?;
    loop {
        std::thread::sleep(interval.saturating_sub(before.0.elapsed()));
        let now = read()?;
        let shown = Interval::new(&before.1, &now.1, now.0 - before.0);
        if args.json {
            say(&shown.json().to_string());
        } else {
            say(&format!("{clear}{}: {:.1} s\n{shown}", dir.display(), (now.0 - before.0).as_secs_f64()));
        }
        if args.once {
            return Ok(());
        }
        before = now;
    }
}
