//! Ctrl-C ends a check, and a repair before it is kept or after: it is one step.

use super::{EXIT_CANCELLED, EXIT_REPAIRED};
use crate::progress::above;
use crate::signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc;

/// Nothing is changed.
pub(super) const CHECKING: u8 = 0;
/// A repair is under way: it will have happened or not.
pub(super) const REPAIRING: u8 = 1;
/// A repair has happened.
pub(super) const REPAIRED: u8 = 2;

/// How far the command is, for whoever cancels it.
pub(super) struct Cancel(Arc<AtomicU8>);

impl Cancel {
    /// It has come so far.
    pub(super) fn reached(&self, stage: u8) {
        self.0.store(stage, Ordering::Release);
    }
}

/// From now on SIGINT and SIGTERM end the process as cancelled.
pub(super) fn watch() -> anyhow::Result<Cancel> {
    let stage = Arc::new(AtomicU8::new(CHECKING));
    let seen = stage.clone();
    let (sender, signals) = mpsc::channel();
    signals::forward(sender, ())?;
    std::thread::Builder::new().name("cancel".into()).spawn(move || {
        if signals.recv().is_ok() {
            let (code, left) = match seen.load(Ordering::Acquire) {
                CHECKING => (EXIT_CANCELLED, "nothing was changed"),
                REPAIRING => (EXIT_CANCELLED, "the repair has happened or has not: check again"),
                _ => (EXIT_CANCELLED | EXIT_REPAIRED, "the repair has happened: check again"),
            };
            above(|| eprintln!("onpath: cancelled; {left}"));
            std::process::exit(i32::from(code));
        }
    })?;
    Ok(Cancel(stage))
}
