//! `onpath status`: how a file system is, on one screen.

mod counters;
mod health;
mod reading;
mod screen;
mod summary;

pub(crate) use counters::table;
pub(crate) use reading::{is_cluster, reports_of};

use crate::cli::say;
use clap::Args;
use health::State;
use reading::{Look, Reading};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use summary::Summary;

/// Within this time something is said, whatever hangs.
const ANSWERED_WITHIN: Duration = Duration::from_millis(4_800);
/// Goes to the upper left corner and clears what is below.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Arguments of `onpath status`.
#[derive(Args, Clone, Debug)]
pub(crate) struct StatusArgs {
    /// The DIR of a running `onpath dev` or of a host of a cluster, a path on a mount, the configuration of a cluster, or
    /// onpath://HOST[,HOST…]/ of its hosts.
    what: PathBuf,
    /// The key of the cluster, where neither a DIR nor its configuration is given.
    #[arg(long, env = "ONPATH_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Show all counters instead.
    #[arg(long)]
    counters: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Go on, and show it every so many seconds.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3_600))]
    watch: Option<u64>,
}

pub(crate) fn run(args: StatusArgs) -> anyhow::Result<()> {
    loop {
        let begun = Instant::now();
        // An error is an error here, whatever the codes of other commands.
        let reading = read(&args).map_err(|error| anyhow::anyhow!(crate::cli::told(&error)))?;
        if args.watch.is_some() && std::io::stdout().is_terminal() {
            say(&format!("{CLEAR}{}", told(&args, &reading)?.0));
        } else {
            let (text, state) = told(&args, &reading)?;
            say(&text);
            if args.watch.is_none() {
                end(state);
                return Ok(());
            }
        }
        let pause = Duration::from_secs(args.watch.unwrap_or_default());
        std::thread::sleep(pause.saturating_sub(begun.elapsed()));
    }
}

/// Ends the process with the code of that state, unless that is 0.
fn end(state: State) {
    if state != State::Healthy {
        std::process::exit(i32::from(state.exit_code()));
    }
}

/// What is to be said, and how the file system is.
fn told(args: &StatusArgs, reading: &Reading) -> anyhow::Result<(String, State)> {
    let summary = Summary::of(reading);
    if !args.counters {
        let text = if args.json { serde_json::to_string(&summary)? } else { screen::text(&summary) };
        return Ok((text, summary.state));
    }
    if summary.state == State::Down {
        return Ok((screen::text(&summary), State::Down));
    }
    // Whoever asks for counters gets them, however that is which they tell of.
    let counters = counters::of(reading);
    Ok((if args.json { counters.to_string() } else { table(&counters.to_string())? }, State::Healthy))
}

/// Asks whoever has to do with it. What does not come in time is left out.
fn read(args: &StatusArgs) -> anyhow::Result<Reading> {
    let (sender, receiver) = channel();
    let asked = args.clone();
    let begun = Instant::now();
    // It may wait for a disk or a mount that hangs, and then goes with this process.
    std::thread::Builder::new().name("status".into()).spawn(move || {
        let end = begun + ANSWERED_WITHIN - Duration::from_millis(200);
        let how = Look { end, rates: !asked.counters };
        _ = sender.send(reading::read(&asked.what, asked.key_file.as_deref(), how));
    })?;
    match receiver.recv_timeout(ANSWERED_WITHIN) {
        Ok(reading) => reading,
        Err(_) => Ok(Reading::of_nothing(&args.what)),
    }
}
