//! The progress of long work, on a terminal.

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often it is drawn.
const DRAWN_EVERY: Duration = Duration::from_millis(200);

/// A bar or, while the whole is unknown, a counter; nothing where standard error is no terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    unit: &'static str,
    bytes: AtomicU64,
    started: Instant,
}

impl Progress {
    /// `doing` in front of it, such as "removing"; it counts entries.
    pub(crate) fn new(doing: &'static str, quiet: bool) -> Progress {
        Progress::of(doing, "entries", quiet)
    }

    /// The same of other units.
    pub(crate) fn of(doing: &'static str, unit: &'static str, quiet: bool) -> Progress {
        let shown = !quiet && std::io::stderr().is_terminal();
        let bar = if shown { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        let template = format!("{{spinner}} {{prefix}} {{human_pos}} {unit}, {{msg}}{{elapsed}}");
        bar.set_style(ProgressStyle::with_template(&template).expect("a constant template"));
        bar.set_prefix(doing);
        if shown {
            bar.enable_steady_tick(DRAWN_EVERY);
        }
        Progress { bar, unit, bytes: AtomicU64::new(0), started: Instant::now() }
    }

    /// Whether anybody sees it.
    pub(crate) fn is_shown(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// How much there is in all is known now.
    pub(crate) fn set_whole(&self, units: u64) {
        let unit = self.unit;
        let template = format!("{{prefix}} [{{wide_bar}}] {{human_pos}}/{{human_len}} {unit}, {{msg}}{{eta}} left");
        let style = ProgressStyle::with_template(&template).expect("a template of constants");
        self.bar.set_style(style.progress_chars("=> "));
        self.bar.set_length(units);
    }

    /// An entry, or another unit, is done.
    pub(crate) fn entry(&self) {
        self.entries(1);
    }

    /// So many are done.
    pub(crate) fn entries(&self, entries: u64) {
        self.bar.inc(entries);
    }

    /// So many bytes are done.
    pub(crate) fn add_bytes(&self, bytes: u64) {
        let all = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if self.is_shown() {
            self.bar.set_message(format!("{}, ", HumanBytes(all)));
        }
    }

    /// Prints a line on standard error, above the bar.
    pub(crate) fn tell(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Seconds since its start.
    pub(crate) fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

/// Bytes for people.
pub(crate) fn bytes(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}
