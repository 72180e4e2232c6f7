//! How many random seeds, or schedules, it takes until a checker notices a removed rule.

use super::means::Means;
use onpath_meta::planted::{Planted, plant};
use onpath_sim::explore::{Bounds, Schedule, explore, replay, situation};
use onpath_sim::{SimConfig, run};
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Seeds from one start to the next.
const STRIDE: u64 = 10_000;

/// Seeds, and schedules, after which a removed rule counts as unnoticed.
const SEEDS_MAX: u64 = 1000;
const SCHEDULES_MAX: u64 = 5_000;

/// What became of a removed rule.
pub(crate) struct Noticed {
    /// From each start on: the seeds, or schedules, until a checker noticed it.
    until: Vec<Option<u64>>,
    /// Times that an assertion of a role broke instead.
    pub(crate) panics: u64,
    /// The schedule that it takes.
    schedule: Option<Schedule>,
}

impl Noticed {
    /// Whether there was nothing to notice, for assertions neither.
    pub(crate) fn is_nothing(&self) -> bool {
        self.panics == 0 && self.until.iter().all(Option::is_none)
    }

    /// Starts from which it was noticed.
    fn hits(&self) -> usize {
        self.until.iter().flatten().count()
    }

    pub(crate) fn median(&self) -> String {
        let mut sorted: Vec<u64> = self.until.iter().map(|until| until.unwrap_or(u64::MAX)).collect();
        sorted.sort_unstable();
        match sorted[sorted.len() / 2] {
            u64::MAX => "never".into(),
            median => self.schedule.as_ref().map_or(median.to_string(), |schedule| format!("{median} ({schedule})")),
        }
    }
}

/// Runs at most so many seeds with a rule removed on this thread, from each start until a checker notices it.
fn by_seeds(bug: Option<Planted>, starts: u64, seeds_max: u64, config: fn(u64) -> SimConfig) -> Noticed {
    plant(bug);
    let mut noticed = Noticed { until: vec![], panics: 0, schedule: None };
    for start in 0..starts {
        let mut shows = |seed: &u64| match catch_unwind(|| run(&config(start * STRIDE + seed))) {
            Ok(outcome) => !outcome.violations.is_empty(),
            Err(_) => {
                noticed.panics += 1;
                false
            }
        };
        let found = (1..=seeds_max).find(|seed| shows(seed));
        noticed.until.push(found);
    }
    plant(None);
    noticed
}

/// Explores with a rule removed. The schedule that finds it, in words, finds it again, and finds nothing where the rule is
/// kept.
pub(crate) fn by_schedules(plants: &dyn Fn(bool), name: &str, bounds: Bounds) -> Noticed {
    let situation = situation(name).expect("in the library");
    plants(true);
    let explored = explore(situation, bounds, SCHEDULES_MAX);
    let panics = explored.wrong.iter().filter(|(_, why)| why.starts_with("panic: ")).count() as u64;
    let Some((schedule, why)) = explored.wrong.filter(|_| panics == 0) else {
        plants(false);
        return Noticed { until: vec![None], panics, schedule: None };
    };
    let again = replay(situation, &schedule.to_string().parse().expect("its own words"), None);
    plants(false);
    assert_eq!(again.map(|all| all.first().cloned()), Ok(Some(why)), "{name}");
    // With the rule that schedule may not be possible.
    assert_eq!(replay(situation, &schedule, None).unwrap_or_default(), [""; 0], "{name}, with the rule");
    Noticed { until: vec![Some(explored.schedules)], panics, schedule: Some(schedule) }
}

/// Prints a row for each means, and returns those by which less than half of the starts notice anything. `ONPATH_TEETH_STARTS`: so
/// many starts instead of one.
pub(crate) fn table(means: &[(u8, Planted, Means)]) -> Vec<String> {
    let starts = std::env::var("ONPATH_TEETH_STARTS").map(|n| n.parse().expect("ONPATH_TEETH_STARTS is a number"));
    let starts: u64 = starts.unwrap_or(1);
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(vec![]));
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(rule, bug, by)) = means.get(index) else { return };
            let (what, found) = match by {
                Means::Seeds(shape, config) => {
                    (format!("seeds: {shape}"), by_seeds(Some(bug), starts, SEEDS_MAX, config))
                }
                Means::Explored(name, bounds) => {
                    (format!("schedules: {name}"), by_schedules(&|planted| plant(planted.then_some(bug)), name, bounds))
                }
            };
            rows.lock().expect("no thread panics with it").push((index, format!("R-{rule} | {bug:?} | {what}"), found));
        }
    };
    std::thread::scope(|threads| {
        (0..std::thread::available_parallelism().map_or(1, usize::from)).for_each(|_| drop(threads.spawn(work)));
    });
    let mut rows = rows.into_inner().expect("no thread panics with it");
    rows.sort_by_key(|(index, ..)| *index);
    println!("\n| rule | removed | by | until noticed | starts | assertions |\n|---|---|---|---|---|---|");
    for (_, what, found) in &rows {
        println!("| {what} | {} | {} of {} | {} |", found.median(), found.hits(), found.until.len(), found.panics);
    }
    let missed = rows.into_iter().filter(|(_, _, found)| 2 * found.hits() < found.until.len());
    missed.map(|(_, what, _)| what).collect()
}
