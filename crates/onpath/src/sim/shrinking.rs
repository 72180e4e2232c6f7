//! The search for a smaller run that goes wrong, told as it goes.

use super::command::command;
use crate::cli::say;
use onpath_sim::{SimConfig, shrink};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Longest search for a smaller run.
const SHRINK: Duration = Duration::from_secs(120);
/// Runs of that search.
const SHRINK_RUNS: u32 = 1_000;
/// Last lines of the story that are told.
const STORY_LINES: usize = 400;

/// Shrinks a run that goes wrong, and tells the smallest one found. What an assertion said on the way is not its story.
pub(super) fn shrink_and_tell(config: &SimConfig, plain: bool) -> anyhow::Result<()> {
    let (begun, mut runs) = (Instant::now(), 0);
    let go_on = || {
        runs += 1;
        runs <= SHRINK_RUNS && begun.elapsed() < SHRINK
    };
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let found =
        shrink::shrink(config, plain, go_on, |case| say(&format!("fails: {}", command(&case.config, case.plain))));
    let told = Rc::new(RefCell::new(VecDeque::new()));
    if let Some(case) = &found {
        let told = told.clone();
        let narrator = move |line| {
            let mut story = told.borrow_mut();
            story.push_back(line);
            if story.len() > STORY_LINES {
                story.pop_front();
            }
        };
        // An assertion that fails ends the story, as it ended the run.
        let tell = AssertUnwindSafe(|| onpath_sim::run::run_narrated(&case.config, Some(Box::new(narrator))));
        let _ = std::panic::catch_unwind(tell);
    }
    std::panic::set_hook(hook);
    let case = found.ok_or_else(|| anyhow::anyhow!("the run does not fail again: it depends on more than its seed"))?;
    told.borrow().iter().for_each(say);
    say(&format!("violation: {}", case.violation));
    say(&format!("smallest of {runs} runs: {} --narrate", command(&case.config, case.plain)));
    Ok(())
}
