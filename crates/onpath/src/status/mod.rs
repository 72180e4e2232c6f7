//! `onpath status`: how a file system is, on one screen.

mod counters;
mod health;
mod inspection;
mod reading;
mod screen;
mod summary;

pub(crate) use counters::table;
pub(crate) use inspection::inspection;
pub(crate) use reading::{adds_up, is_cluster, mounts_of, reports_of};

use crate::cli::{clear, say};
use crate::signals;
use clap::Args;
use health::State;
use reading::{Look, Reading};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use summary::Summary;

/// Within this time something is said, whatever hangs.
const ANSWERED_WITHIN: Duration = Duration::from_millis(4_800);
/// In none of them anything is told.
const NO_ROUND: u64 = u64::MAX;

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
    /// Go on, and show it every so many seconds; Ctrl-C ends it, with the exit code of what it has shown last.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3_600))]
    watch: Option<u64>,
}

/// What comes while it is waited.
#[derive(Clone)]
enum Event {
    /// What is to be said in this round, and how the file system is; or why that cannot be told.
    Told(u64, Result<(String, State), String>),
    /// Somebody wants it to end.
    Over,
}

pub(crate) fn run(args: StatusArgs) -> anyhow::Result<()> {
    let (sender, receiver) = channel();
    if args.watch.is_some() {
        signals::forward(sender.clone(), Event::Over)?;
    }
    let mut shown = State::Healthy;
    for round in 0.. {
        let begun = Instant::now();
        ask(&args, round, sender.clone(), begun)?;
        let (text, state) = match next(&receiver, round, begun + ANSWERED_WITHIN) {
            // An error is an error here, whatever the codes of other commands.
            Some(Event::Told(_, said)) => said.map_err(anyhow::Error::msg)?,
            Some(Event::Over) => break,
            None => told(&args, &Reading::of_nothing(&args.what))?,
        };
        if args.watch.is_some() {
            clear();
        }
        say(&text);
        shown = state;
        let Some(seconds) = args.watch else { break };
        if next(&receiver, NO_ROUND, begun + Duration::from_secs(seconds)).is_some() {
            break;
        }
    }
    end(shown);
    Ok(())
}

/// Ends the process with the code of that state, unless that is 0.
fn end(state: State) {
    if state != State::Healthy {
        std::process::exit(i32::from(state.exit_code()));
    }
}

/// What is told in this round, or that it is over, if it comes by then.
fn next(receiver: &Receiver<Event>, round: u64, end: Instant) -> Option<Event> {
    loop {
        match receiver.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(Event::Told(late, _)) if late != round => {} // it hung when it was waited for
            Ok(event) => return Some(event),
            Err(_) => return None,
        }
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

/// What is shown of a cluster whose hosts tell this.
#[cfg(feature = "fuzzing")]
pub(crate) fn shown(reports: &[serde_json::Value]) -> String {
    let reading = reading::of_reports(reports);
    let summary = Summary::of(&reading);
    let counters = counters::of(&reading).to_string();
    screen::text(&summary)
        + &table(&counters).unwrap_or_default()
        + &serde_json::to_string(&summary).unwrap_or_default()
}

/// Asks whoever has to do with it. What does not come in time is left out.
fn ask(args: &StatusArgs, round: u64, sender: Sender<Event>, begun: Instant) -> anyhow::Result<()> {
    let args = args.clone();
    // It may wait for a disk or a mount that hangs, and then goes with this process.
    std::thread::Builder::new().name("status".into()).spawn(move || {
        let end = begun + ANSWERED_WITHIN - Duration::from_millis(200);
        let how = Look { end, rates: !args.counters };
        let reading = reading::read(&args.what, args.key_file.as_deref(), how);
        let said = reading.and_then(|reading| told(&args, &reading));
        _ = sender.send(Event::Told(round, said.map_err(|error| crate::cli::told(&error))));
    })?;
    Ok(())
}
