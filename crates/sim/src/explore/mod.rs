//! Systematic exploration: every course of events of a small situation that differs from the usual one in so many places.
//!
//! The roles are the real ones. In the usual course messages arrive in the order of their causes (a logical clock), disks are
//! done when asked, and nothing fails. A [`Schedule`] says where that is left: something waits while others happen, a
//! message is lost or doubled, a process dies and starts again, the switch reboots. [`explore`] tries *all* schedules within
//! [`Bounds`]: roles cannot be copied, so each is run from the beginning, and ended early where it comes to a state that was
//! seen with no less left to go wrong. A *state* is what every place has heard in which order, what is under way, and what the
//! checker knows; steps of different places commute.
//!
//! What waits comes directly before another step of its receiver, or when nothing else is left; so do deaths and reboots.

mod beginnings;
mod callers;
mod course;
mod files;
mod lent;
mod locks;
mod paths;
mod schedule;
mod situations;
mod times;

pub use schedule::{Bounds, Choice, Schedule};
pub use situations::{Situation, situation, situations};

use course::Course;
use hashbrown::HashMap;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What an exploration has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// Schedules run.
    pub schedules: u64,
    /// Different states seen.
    pub states: u64,
    /// Schedules that were followed to the end and compared with the model; the others came to states seen before.
    pub endings: u64,
    /// Steps made.
    pub steps: u64,
    /// Whether there are no more schedules within the bounds.
    pub complete: bool,
    /// A schedule after which something was wrong, and what.
    pub wrong: Option<(Schedule, String)>,
}

/// What is left to go wrong, of those who came to a state.
type Seen = HashMap<u64, SmallVec<[Bounds; 1]>>;

/// Schedules to be run, by the number of their choices that cost something.
#[derive(Default)]
struct Agenda {
    by_cost: Vec<VecDeque<(Schedule, Bounds)>>,
}

impl Agenda {
    fn push(&mut self, schedule: Schedule, left: Bounds) {
        let cost = schedule.0.iter().filter(|(_, choice)| !matches!(choice, Choice::Release(_))).count();
        if self.by_cost.len() <= cost {
            self.by_cost.resize_with(cost + 1, VecDeque::new);
        }
        self.by_cost[cost].push_back((schedule, left));
    }

    fn pop(&mut self) -> Option<(Schedule, Bounds)> {
        self.by_cost.iter_mut().find_map(VecDeque::pop_front)
    }
}

/// Whether a state is new, or was only seen with less left.
fn is_new(seen: &mut Seen, state: u64, left: Bounds) -> bool {
    let before = seen.entry(state).or_default();
    if before.iter().any(|other| other.covers(&left)) {
        return false;
    }
    before.retain(|other| !left.covers(other));
    before.push(left);
    true
}

/// Runs all schedules of a situation within `bounds`, those with fewer choices first, at most `schedules_max` of them; ends at
/// the first that goes wrong. A panic is something wrong.
pub fn explore(situation: &Situation, bounds: Bounds, schedules_max: u64) -> Explored {
    let (mut seen, mut agenda, mut explored) = (Seen::new(), Agenda::default(), Explored::default());
    agenda.push(Schedule::default(), bounds);
    while let Some((schedule, left)) = agenda.pop() {
        if explored.schedules == schedules_max {
            explored.states = seen.len() as u64;
            return explored;
        }
        explored.schedules += 1;
        let run = AssertUnwindSafe(|| one(situation, &schedule, left, &mut seen, &mut agenda, &mut explored));
        let wrong = catch_unwind(run).unwrap_or_else(|panic| Some(format!("panic: {}", text(&*panic))));
        if let Some(why) = wrong {
            explored.states = seen.len() as u64;
            explored.wrong = Some((schedule, why));
            return explored;
        }
    }
    explored.states = seen.len() as u64;
    explored.complete = true;
    explored
}

/// Runs one schedule and goes on as usual until it comes to a state seen before or to the end; what is wrong then.
fn one(
    situation: &Situation,
    schedule: &Schedule,
    left: Bounds,
    seen: &mut Seen,
    agenda: &mut Agenda,
    explored: &mut Explored,
) -> Option<String> {
    let mut course = Course::begin(situation, None);
    assert!(course.follow(schedule), "{schedule} was possible a moment ago");
    let mut ended = false;
    while !ended {
        if course.is_wrong() || !is_new(seen, course.state(), left) {
            break;
        }
        let here = course.step();
        let push = |choice, agenda: &mut Agenda| {
            let left = left.without(choice).expect("within the bounds");
            agenda.push(schedule.and(here, choice), left);
        };
        course.others(&left).into_iter().for_each(|choice| push(choice, agenda));
        ended = !course.usual();
        let deaths = if ended { vec![] } else { course.deaths(&left) };
        deaths.into_iter().for_each(|choice| push(choice, agenda));
    }
    explored.steps += u64::from(course.step());
    explored.endings += u64::from(ended);
    (course.is_wrong() || ended).then(|| course.end()).and_then(|wrong| wrong.into_iter().next())
}

fn text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without words").into()
}

/// Runs one schedule to its end and tells it; what was wrong.
///
/// # Errors
/// The schedule is not possible in this situation.
pub fn replay(
    situation: &Situation,
    schedule: &Schedule,
    narrator: Option<Box<dyn FnMut(String)>>,
) -> Result<Vec<String>, String> {
    let mut course = Course::begin(situation, narrator);
    if !course.follow(schedule) {
        return Err(format!("{schedule}: step {} does not allow that choice in this situation", course.step()));
    }
    while !course.is_wrong() && course.usual() {}
    Ok(course.end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Follows a schedule and then the usual course, and notes which state comes after which; the choices that there were.
    fn walk(situation: &Situation, schedule: &Schedule, left: Bounds, after: &mut BTreeMap<u64, u64>) -> Vec<Schedule> {
        let mut course = Course::begin(situation, None);
        assert!(course.follow(schedule));
        let (mut state, mut others) = (course.state(), vec![]);
        loop {
            others.extend(course.others(&left).into_iter().map(|choice| schedule.and(course.step(), choice)));
            if !course.usual() {
                return others;
            }
            let next = course.state();
            let before = after.insert(state, next);
            assert!(
                before.is_none_or(|before| before == next),
                "{schedule}: one state, two futures at {}",
                course.step()
            );
            state = next;
        }
    }

    /// Runs that come to the same state go on alike, so nothing is lost when one of them is ended there.
    #[test]
    fn equal_states_have_equal_futures() {
        let late = Bounds { late: 1, doubled: 1, ..Bounds::default() };
        for name in ["readdir", "chmod", "rename-owner", "appends", "lock-cancel", "append-death", "false-death"] {
            let (situation, mut after) = (situation(name).expect("in the library"), BTreeMap::new());
            let (mut runs, mut steps) = (0, 0);
            for first in walk(situation, &Schedule::default(), late, &mut after) {
                let left = late.without(first.0[0].1).expect("within the bounds");
                for second in walk(situation, &first, Bounds { doubled: 0, ..left }, &mut after) {
                    walk(situation, &second, Bounds::default(), &mut after);
                    runs += 1;
                    steps += u64::from(second.0[1].0);
                }
            }
            assert!(runs > 50 && (after.len() as u64) < steps, "{name}: {runs} runs, {} states", after.len());
        }
    }
}
