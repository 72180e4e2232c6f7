//! The bar on a terminal. There is one at most, and whatever else is printed goes above it.

use super::words::{Moment, duration};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The bar that is drawn now.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

fn shown() -> MutexGuard<'static, Option<ProgressBar>> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A bar while it is known how much there is in all; else what is done so far.
pub(super) struct Bar {
    bar: ProgressBar,
    /// What is written before and behind it. It is read when the bar is drawn, which is once for each moment.
    words: Arc<Mutex<[String; 2]>>,
}

impl Bar {
    pub(super) fn new() -> Bar {
        Bar { bar: ProgressBar::hidden(), words: Arc::default() }
    }

    fn style(&self, template: &str) -> ProgressStyle {
        let word = |place: usize| {
            let words = self.words.clone();
            move |_: &ProgressState, out: &mut dyn Write| {
                let words = words.lock().unwrap_or_else(PoisonError::into_inner);
                _ = out.write_str(&words[place]); // to memory
            }
        };
        let style = ProgressStyle::with_template(template).expect("a constant template");
        style.with_key("doing", word(0)).with_key("far", word(1)).progress_chars("=> ")
    }

    /// Draws it; the first time it appears.
    pub(super) fn draw(&self, work: &str, moment: Option<&Moment>, now: Duration) {
        let far = moment.map(Moment::words).filter(|words| !words.is_empty());
        let far = far.map_or_else(|| duration(now), |far| format!("{far}, {}", duration(now)));
        let doing = moment.map_or(work, |moment| moment.stage.doing).to_owned();
        *self.words.lock().unwrap_or_else(PoisonError::into_inner) = [doing, far];
        let whole = moment.and_then(|moment| moment.stage.whole);
        self.bar.set_style(self.style(match whole {
            Some(_) => "{doing} [{wide_bar}] {far}",
            None => "{spinner} {doing} {far}",
        }));
        shown().get_or_insert_with(|| {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.clone()
        });
        self.bar.update(|state| {
            state.set_len(whole.unwrap_or_default());
            state.set_pos(moment.map_or(0, |moment| moment.done));
        });
    }

    /// Takes it away.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
        *shown() = None;
    }
}

/// Prints something while no bar is in the way.
pub(crate) fn above<T>(print: impl FnOnce() -> T) -> T {
    let bar = shown().clone();
    match bar {
        Some(bar) => bar.suspend(print),
        None => print(),
    }
}
