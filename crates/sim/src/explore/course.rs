//! One course of events: the usual one, but for what a schedule says.

use super::callers::Callers;
use super::files::Files;
use super::paths::Walkers;
use super::schedule::{Bounds, Choice, Schedule};
use super::situations::{Script, Situation};
use crate::audit;
use crate::scenario::Scenario;
use crate::world::{Commit, Death, Place, Thing, World};
use std::collections::BTreeMap;

/// Steps after which a course is left to itself: what is not answered by then waits for long timers.
const STEPS_MAX: u16 = 600;

/// Answers to others, in the usual course, while somebody waits for one.
const OVERTAKEN_MAX: u32 = 8;

/// A world that somebody steers.
pub(super) struct Course {
    world: World,
    callers: Callers,
    step: u16,
    /// Nothing was chosen yet.
    usual: bool,
}

/// What is usually done next.
#[derive(Clone, Copy)]
enum Next {
    /// This item of the pool happens.
    Item(usize),
    /// The first of what waits happens.
    Late,
    /// Virtual time goes on to the next timer.
    Time,
    /// Everything is answered and nothing under way.
    End,
}

impl Course {
    /// The beginning of a situation.
    pub(super) fn begin(situation: &Situation, narrator: Option<Box<dyn FnMut(String)>>) -> Course {
        let mut sc = Scenario::of(situation.world());
        let (mut asked, mut callers) = (BTreeMap::new(), Callers::None);
        if let Script::Requests(_) = situation.script {
            sc.all_have_births();
        }
        match &situation.script {
            Script::Requests(programs) | Script::FirstRequests(programs) => {
                for program in programs(&mut sc) {
                    asked.insert(sc.client(), program);
                }
            }
            Script::Calls(calls) => callers = Callers::Files(Box::new(Files::open(&mut sc, calls))),
            Script::Paths(scene) => callers = Callers::Walkers(Box::new(Walkers::begin(&mut sc, scene))),
        }
        sc.go_on();
        sc.world.narrator = narrator;
        sc.world.steer(asked);
        callers.threads().into_iter().for_each(|thread| sc.world.will_call(thread));
        Course { world: sc.world, callers, step: 0, usual: true }
    }

    /// A hash of the state; see [`World::state`].
    pub(super) fn state(&self) -> u64 {
        self.world.state() ^ self.callers.digest()
    }

    fn is_answered(&self) -> bool {
        self.world.is_answered() && self.callers.is_answered()
    }

    /// An item of the pool happens; perhaps its process dies on the way.
    fn perform(&mut self, index: usize, death: Option<Death>) {
        let calls = self.world.perform(index, death);
        if let Some(thread) = calls
            && self.callers.call_next(&mut self.world, thread)
        {
            self.world.will_call(thread);
        }
    }

    /// A step was made.
    fn made(&mut self) {
        self.step += 1;
        while let Some(finished) = self.world.finished() {
            if let Some(thread) = self.callers.answered(&mut self.world, finished) {
                self.world.will_call(thread);
            }
        }
    }

    /// The number of the next step.
    pub(super) fn step(&self) -> u16 {
        self.step
    }

    /// What the switch has counted.
    #[cfg(test)]
    pub(super) fn switch_counters(&self) -> BTreeMap<&'static str, u64> {
        self.world.switch_counters()
    }

    /// Whether anything was found wrong.
    pub(super) fn is_wrong(&self) -> bool {
        !self.world.checker.violations.is_empty()
    }

    fn next(&self) -> Next {
        match self.world.pool().iter().position(|item| !item.late) {
            _ if self.step >= STEPS_MAX => Next::End,
            Some(index) => Next::Item(index),
            None if !self.world.pool().is_empty() => Next::Late,
            None if self.is_answered() => Next::End,
            None => Next::Time,
        }
    }

    /// Does what is usually done next; false at the end.
    pub(super) fn usual(&mut self) -> bool {
        match self.next() {
            Next::End => return false,
            Next::Item(index) => self.perform(index, None),
            Next::Late => self.perform(0, None),
            Next::Time => self.world.pass_time(),
        }
        self.made();
        true
    }

    /// Makes a choice; false if it cannot be made here.
    pub(super) fn choose(&mut self, choice: Choice) -> bool {
        self.usual = false;
        let (step, next) = (self.step, self.next());
        let world = &mut self.world;
        world.narrate(|| format!("step {step}: {choice}"));
        let message = |world: &World, index: usize| matches!(world.pool()[index].thing, Thing::Message(_));
        match (choice, next) {
            (Choice::Postpone, Next::Item(index)) => world.postpone(index),
            (Choice::Lose, Next::Item(index)) if message(world, index) => world.lose_item(index),
            (Choice::Double, Next::Item(index)) if message(world, index) => {
                world.double(index);
                self.perform(index, None);
            }
            (Choice::DieAt { output, power }, Next::Item(_) | Next::Late) => {
                let index = if let Next::Item(index) = next { index } else { 0 };
                self.perform(index, Some(Death { output: output.into(), power }));
            }
            (Choice::Release(n), _) => {
                let Some(index) = waiting(world).nth(n.into()) else { return false };
                self.perform(index, None);
            }
            (Choice::Wait, Next::Late) => world.pass_time_until_something_happens(),
            (Choice::Die { process, power }, _) if usize::from(process) < world.processes() => {
                world.die(process.into(), power);
            }
            (Choice::Reboot, _) if world.has_switch() => world.reboot_switch(),
            _ => return false,
        }
        self.made();
        true
    }

    /// What else could happen than the next thing, as far as that is a step of the same place; where nothing is next but the
    /// passing of time, whatever can happen at all.
    pub(super) fn others(&self, left: &Bounds) -> Vec<Choice> {
        if self.step >= STEPS_MAX {
            return vec![];
        }
        let world = &self.world;
        let item = match self.next() {
            Next::Item(index) => Some(&world.pool()[index]),
            Next::Late | Next::Time | Next::End => None,
        };
        let mut choices = vec![];
        if matches!(self.next(), Next::Late) {
            choices.push(Choice::Wait);
        }
        for (n, index) in waiting(world).enumerate() {
            let late = &world.pool()[index];
            let copies = waiting(world).take(n).any(|other| world.pool()[other].key == late.key);
            let asks = matches!(late.thing, Thing::Ask(_) | Thing::Call(_));
            if !copies && (asks || item.is_none_or(|item| item.place == late.place)) {
                choices.push(Choice::Release(n as u8));
            }
        }
        if let Some(item) = item {
            choices.push(Choice::Postpone);
            if matches!(item.thing, Thing::Message(_)) {
                choices.extend([Choice::Lose, Choice::Double]);
            }
        }
        let here = |place| item.is_none_or(|item| item.place == place);
        for process in (0..world.processes()).filter(|process| here(Place::Process(*process as u16))) {
            choices.extend([false, true].map(|power| Choice::Die { process: process as u8, power }));
        }
        if world.has_switch() && here(Place::Switch) {
            choices.push(Choice::Reboot);
        }
        choices.retain(|choice| self.allows(left, *choice));
        choices
    }

    /// Deaths in the middle of the usual step that was just made.
    pub(super) fn deaths(&self, left: &Bounds) -> Vec<Choice> {
        let leaving = self.world.leaving().iter().enumerate().filter(|(_, leaves)| **leaves);
        let both = leaving.flat_map(|(n, _)| [false, true].map(|power| Choice::DieAt { output: n as u8, power }));
        both.filter(|choice| self.allows(left, *choice)).collect()
    }

    /// Whether a choice is within the bounds. A power loss may take back bytes that nobody synced, of which the users of a file know
    /// nothing.
    fn allows(&self, left: &Bounds, choice: Choice) -> bool {
        let power = matches!(choice, Choice::Die { power: true, .. } | Choice::DieAt { power: true, .. });
        let loses = power && self.callers.judge_what_was_acknowledged() && self.world.config.commit != Commit::Sync;
        !loses && left.without(choice).is_some()
    }

    /// Follows a schedule to its last choice; false if one of them cannot be made.
    pub(super) fn follow(&mut self, schedule: &Schedule) -> bool {
        for (step, choice) in &schedule.0 {
            while self.step < *step {
                if !self.usual() {
                    return false;
                }
            }
            if self.step != *step || !self.choose(*choice) {
                return false;
            }
        }
        true
    }

    /// In the usual course nobody waits for what stays away, nor for all others.
    fn judge_waiting(&mut self) {
        let (programs, overtaken) = (self.world.programs_are_answered(), self.world.most_overtaken());
        let answered = programs && (!self.callers.walk() || self.callers.is_answered());
        if !answered {
            self.world.checker.violation("a request waits for what stays away".into());
        }
        if overtaken > OVERTAKEN_MAX {
            self.world.checker.violation(format!("{overtaken} others are answered while one waits"));
        }
    }

    /// Lets everything come to rest and compares it; what was wrong.
    pub(super) fn end(mut self) -> Vec<String> {
        if self.usual {
            self.judge_waiting();
        }
        if !self.is_wrong() {
            self.world.let_run();
            let callers = std::mem::replace(&mut self.callers, Callers::None);
            let wrong = callers.end(&mut self.world);
            wrong.into_iter().for_each(|why| self.world.checker.violation(why));
            audit::settle_soon(&mut self.world);
        }
        std::mem::take(&mut self.world.checker.violations)
    }
}

/// Items of the pool that wait until they are named.
fn waiting(world: &World) -> impl Iterator<Item = usize> + '_ {
    world.pool().iter().enumerate().filter(|(_, item)| item.late).map(|(index, _)| index)
}
