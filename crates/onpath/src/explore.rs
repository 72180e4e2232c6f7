//! `onpath explore`: every schedule of a small situation within bounds, on virtual time, every answer checked.

use crate::cli::say;
use clap::Args;
use onpath_sim::explore::{Bounds, Explored, Schedule, Situation, explore, replay, situation, situations};
use serde::Serialize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Instant;

/// Arguments of `onpath explore`.
#[derive(Args, Debug)]
pub(crate) struct ExploreArgs {
    /// Names of situations, or `all`; without any, they are listed.
    situations: Vec<String>,
    /// Things that may wait while others happen.
    #[arg(long, default_value_t = 0)]
    late: u8,
    /// Times at which time may pass although something waits.
    #[arg(long, default_value_t = 0)]
    waits: u8,
    /// Messages that may be lost.
    #[arg(long, default_value_t = 0)]
    lost: u8,
    /// Messages that may be doubled.
    #[arg(long, default_value_t = 0)]
    doubled: u8,
    /// Kills of processes.
    #[arg(long, default_value_t = 0)]
    kills: u8,
    /// Power losses of processes.
    #[arg(long, default_value_t = 0)]
    powers: u8,
    /// Reboots of the switch.
    #[arg(long, default_value_t = 0)]
    reboots: u8,
    /// Give up after so many schedules of a situation.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    schedules_max: u64,
    /// Explore so many situations at the same time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: u16,
    /// Run only this schedule of one situation, and tell everything that happens.
    #[arg(long, value_parser = |text: &str| text.parse::<Schedule>())]
    schedule: Option<Schedule>,
}

/// The line of a situation.
#[derive(Serialize)]
struct Line {
    situation: &'static str,
    schedules: u64,
    states: u64,
    endings: u64,
    steps: u64,
    complete: bool,
    seconds: f64,
}

impl ExploreArgs {
    fn bounds(&self) -> Bounds {
        Bounds {
            late: self.late,
            waits: self.waits,
            lost: self.lost,
            doubled: self.doubled,
            kills: self.kills,
            powers: self.powers,
            reboots: self.reboots,
        }
    }

    fn chosen(&self) -> anyhow::Result<Vec<&'static Situation>> {
        if self.situations.iter().any(|name| name == "all") {
            return Ok(situations().collect());
        }
        let found = |name: &String| {
            situation(name).ok_or_else(|| anyhow::anyhow!("{name:?} is no situation; `onpath explore` lists them"))
        };
        self.situations.iter().map(found).collect()
    }
}

pub(crate) fn run(args: ExploreArgs) -> anyhow::Result<()> {
    let chosen = args.chosen()?;
    if chosen.is_empty() {
        situations().for_each(|situation| say(&format!("{:<20} {}", situation.name, situation.about)));
        return Ok(());
    }
    if let Some(schedule) = &args.schedule {
        let [one] = chosen[..] else { anyhow::bail!("--schedule: give exactly one situation") };
        return tell(one, schedule);
    }
    let (next, mut wrong) = (AtomicUsize::new(0), vec![]);
    std::thread::scope(|threads| {
        let (sender, explored) = channel();
        for _ in 0..args.jobs {
            let (sender, next, chosen, args) = (sender.clone(), &next, &chosen, &args);
            threads.spawn(move || {
                while let Some(situation) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let begun = Instant::now();
                    let explored = explore(situation, args.bounds(), args.schedules_max);
                    let _ = sender.send((*situation, explored, begun.elapsed().as_secs_f64()));
                }
            });
        }
        drop(sender);
        explored.iter().for_each(|(situation, explored, seconds)| wrong.extend(report(situation, &explored, seconds)));
    });
    match wrong.first() {
        Some(first) => anyhow::bail!("{} situations went wrong: {first}", wrong.len()),
        None => Ok(()),
    }
}

/// Says what was explored; what was wrong, and how to see it.
fn report(situation: &Situation, explored: &Explored, seconds: f64) -> Option<String> {
    let Explored { schedules, states, endings, steps, complete, .. } = *explored;
    let line = Line { situation: situation.name, schedules, states, endings, steps, complete, seconds };
    say(&serde_json::to_string(&line).expect("numbers and text are JSON"));
    let (schedule, why) = explored.wrong.as_ref()?;
    say(&format!("violation: {why}\nreplay it with: onpath explore {} --schedule {schedule}", situation.name));
    Some(format!("{}: {why}", situation.name))
}

/// Runs one schedule and tells what happens.
fn tell(situation: &Situation, schedule: &Schedule) -> anyhow::Result<()> {
    let narrator = Box::new(|line: String| say(&line));
    let wrong = replay(situation, schedule, Some(narrator)).map_err(|why| anyhow::anyhow!("--schedule {why}"))?;
    wrong.iter().for_each(|why| say(&format!("violation: {why}")));
    anyhow::ensure!(wrong.is_empty(), "the schedule found {} violations", wrong.len());
    Ok(())
}
