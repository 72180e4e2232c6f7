//! How many random seeds it takes until a checker notices a removed rule.

use onpath_meta::planted::{Planted, plant};
use onpath_sim::{SimConfig, run};
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Seeds from one start to the next.
const STRIDE: u64 = 10_000;

/// What became of a bug under random seeds.
pub(crate) struct Noticed {
    /// From each start on: the seeds until a checker noticed it.
    seeds: Vec<Option<u64>>,
    /// Seeds in which an assertion of a role broke instead.
    panics: u64,
}

impl Noticed {
    /// Whether there was nothing to notice, for assertions neither.
    pub(crate) fn is_nothing(&self) -> bool {
        self.panics == 0 && self.missed() == self.seeds.len()
    }

    /// Starts from which it was not noticed.
    fn missed(&self) -> usize {
        self.seeds.iter().filter(|seeds| seeds.is_none()).count()
    }

    fn median(&self, seeds_max: u64) -> String {
        let mut sorted: Vec<u64> = self.seeds.iter().map(|seeds| seeds.unwrap_or(u64::MAX)).collect();
        sorted.sort_unstable();
        match sorted[sorted.len() / 2] {
            u64::MAX => format!("> {seeds_max}"),
            median => median.to_string(),
        }
    }
}

/// Runs seeds with a bug on this thread, from each start until a checker notices it.
pub(crate) fn noticed(bug: Option<Planted>, starts: u64, seeds_max: u64, config: fn(u64) -> SimConfig) -> Noticed {
    plant(bug);
    let mut noticed = Noticed { seeds: vec![], panics: 0 };
    for start in 0..starts {
        let mut shows = |seed: &u64| match catch_unwind(|| run(&config(start * STRIDE + seed))) {
            Ok(outcome) => !outcome.violations.is_empty(),
            Err(_) => {
                noticed.panics += 1;
                false
            }
        };
        let found = (1..=seeds_max).find(|seed| shows(seed));
        noticed.seeds.push(found);
    }
    plant(None);
    noticed
}

/// Prints a row for each bug, and returns those that were noticed from less than half of the starts. `ONPATH_TEETH_STARTS`: so
/// many starts instead of one.
pub(crate) fn table(
    form: &str,
    bugs: &[Planted],
    seeds_max: u64,
    config: impl Fn(Planted) -> fn(u64) -> SimConfig + Sync,
) -> Vec<Planted> {
    let starts = std::env::var("ONPATH_TEETH_STARTS").map(|n| n.parse().expect("ONPATH_TEETH_STARTS is a number"));
    let starts: u64 = starts.unwrap_or(1);
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(vec![]));
    let work = || {
        while let Some(&bug) = bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = noticed(Some(bug), starts, seeds_max, config(bug));
            rows.lock().expect("no thread panics with it").push((rule(bug), bug, found));
        }
    };
    std::thread::scope(|threads| {
        (0..std::thread::available_parallelism().map_or(1, usize::from)).for_each(|_| drop(threads.spawn(work)));
    });
    let mut rows = rows.into_inner().expect("no thread panics with it");
    rows.sort_by_key(|(rule, bug, _)| (*rule, format!("{bug:?}")));
    for (rule, bug, found) in &rows {
        let (median, hits, panics) = (found.median(seeds_max), starts as usize - found.missed(), found.panics);
        println!("| R-{rule} | {bug:?} | {form} | {median} | {hits} of {starts} | {panics} |");
    }
    let missed = rows.into_iter().filter(|(_, _, found)| 2 * found.missed() > starts as usize);
    missed.map(|(_, bug, _)| bug).collect()
}

/// The rule that a bug removes.
fn rule(bug: Planted) -> u8 {
    use Planted as P;
    match bug {
        P::ExposedUnmarked => 1,
        P::AnyRound | P::CollectWithoutEntries | P::AbandonedForgotten | P::OneOfGroup => 2,
        P::NoHold | P::HoldLowered => 3,
        P::NoCollect => 4,
        P::ForgetfulOfFailures | P::UnlockedWhileGated | P::UnsettledTransactions => 5,
        P::GenerationOutlivesCollect => 6,
        P::AnyEpochsMark | P::AnyEpochsNormal | P::CompleteTooEarly | P::SitesFirst | P::AnyEpochsRemove => 7,
        P::AppliedTwice => 8,
        P::MarkNotTaken => 10,
        P::PushedUnnoticed | P::InodeUnnoticed => 11,
        P::TermUnannounced | P::EqualRemoves => 12,
        P::GrantDuringCollect | P::OvertakenGrant | P::RecallWithoutEntries | P::RecallWaitsForMark => 13,
        P::ChmodWithoutRecall | P::RmdirWithoutRecall => 14,
        P::EmptyTableAfterRestart | P::OneKnownForBoth | P::ShownTooEarly => 15,
        P::PushBeforeDurable => 16,
        P::AnyTerm | P::LocksWithoutGrace => 17,
        P::HeldStamp => 19,
        P::TrimsOvertake | P::CutBeforeDurable | P::ReservationWithoutFence => 20,
        P::PromiseWithoutDoubt
        | P::DecisionWithoutLook
        | P::AttemptWithoutParts
        | P::PrepareAfterEnd
        | P::PromiseWithoutLocks => 23,
    }
}
