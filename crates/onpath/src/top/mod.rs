//! `onpath top`: what a running file system does, from two readings of its counters.

mod reading;

use crate::cli::{clear, say};
use crate::inspect::serving;
use crate::status::{is_cluster, reports_of};
use clap::Args;
use onpath_host::stream::{ANSWER_WITHIN, request_status};
use onpath_wire::shown::Shown;
use reading::{Interval, Reading};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Arguments of `onpath top`.
#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// The DIR of a running `onpath dev` or of a host of a cluster, a path on a mount, the configuration of a cluster, or
    /// onpath://HOST[,HOST…]/ of its hosts.
    what: PathBuf,
    /// The key of the cluster, where neither a DIR nor its configuration is given.
    #[arg(long, env = "ONPATH_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
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

/// What is shown when processes tell this, and have told nothing before.
#[cfg(feature = "fuzzing")]
pub(crate) fn shown(reports: &[serde_json::Value]) -> String {
    let interval = Interval::new(&Reading::of(&[]), &Reading::of(reports), Duration::from_secs(1));
    format!("{}{interval}", interval.json())
}

pub(crate) fn run(args: TopArgs) -> anyhow::Result<()> {
    // A directory is looked for once, the hosts of a cluster each time.
    let dir = if is_cluster(&args.what)? { None } else { Some(serving(&args.what)?) };
    let interval = Duration::from_millis(args.interval_ms);
    let read = || -> anyhow::Result<(Instant, Reading)> {
        let reports = match &dir {
            Some(dir) => vec![serde_json::from_str(&request_status(dir, ANSWER_WITHIN)?)?],
            None => reports_of(&args.what, args.key_file.as_deref(), ANSWER_WITHIN)?,
        };
        Ok((Instant::now(), Reading::of(&reports)))
    };
    let mut before = read()?;
    loop {
        std::thread::sleep(interval.saturating_sub(before.0.elapsed()));
        let now = read()?;
        let shown = Interval::new(&before.1, &now.1, now.0 - before.0);
        if args.json {
            say(&shown.json().to_string());
        } else {
            if !args.once {
                clear();
            }
            say(&format!("{}: {:.1} s\n{shown}", args.what.shown(), (now.0 - before.0).as_secs_f64()));
        }
        if args.once {
            return Ok(());
        }
        before = now;
    }
}
