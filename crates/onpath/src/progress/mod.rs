//! Long work shows where it is, always in the same way and on standard error.
//!
//! On a terminal a bar is drawn from the second second on; elsewhere a line is written every ten seconds, by a process that serves as an
//! event of its log. Work that took longer than two seconds ends with a summary. A thread of its own does all of that, so that work
//! which stands still shows it, and counting costs an addition.

mod bar;
mod pace;
mod words;

use bar::Bar;
pub(crate) use bar::above;
use indicatif::{HumanBytes, ProgressDrawTarget};
use onpath_host::progress::{Stage, Unit, Watcher};
use onpath_wire::shown::lines;
use pace::{LONG, Pace};
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use words::Moment;

/// Stages that a summary names; further ones are left out.
const STAGES_MAX: usize = 32;

/// The progress of some work, until it is finished or dropped.
pub(crate) struct Progress {
    shared: Arc<Shared>,
    shower: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    /// In front of the summary: "removing".
    work: &'static str,
    voice: Voice,
    started: Instant,
    state: Mutex<State>,
    wake: Condvar,
    /// Units of the present stage.
    done: AtomicU64,
    /// Bytes of the present stage beside them.
    bytes: AtomicU64,
}

#[derive(Default)]
struct State {
    /// The present stage, and when it began.
    stage: Option<(Stage, Duration)>,
    /// Stages that have begun.
    begun: u32,
    /// What else there is to say of the present one.
    more: Option<String>,
    past: Vec<Moment>,
    over: bool,
}

/// One stage of some work.
#[derive(Clone, Copy)]
pub(crate) struct Present(u32);

/// How lines are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Voice {
    /// Nothing is.
    Quiet,
    /// As a command says something.
    Command,
    /// As events of the log.
    Log,
}

impl Progress {
    /// That of a command; `quiet`: nothing is shown.
    pub(crate) fn new(work: &'static str, quiet: bool) -> Progress {
        Progress::start(work, if quiet { Voice::Quiet } else { Voice::Command })
    }

    /// That of a command that does one thing, and counts things that nobody has counted yet.
    pub(crate) fn counting(work: &'static str, things: &'static str, quiet: bool) -> Progress {
        let progress = Progress::new(work, quiet);
        progress.begin(Stage::of(work, things));
        progress
    }

    /// That of a process that serves, as far as its log has events of level info.
    pub(crate) fn of_server(work: &'static str) -> Progress {
        let logs = tracing::enabled!(tracing::Level::INFO);
        Progress::start(work, if logs { Voice::Log } else { Voice::Quiet })
    }

    fn start(work: &'static str, voice: Voice) -> Progress {
        let shared = Arc::new(Shared {
            work,
            voice,
            started: Instant::now(),
            state: Mutex::default(),
            wake: Condvar::new(),
            done: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        });
        let run = {
            let shared = shared.clone();
            move || shared.show()
        };
        let start = || std::thread::Builder::new().name("progress".into()).spawn(run);
        // Without a thread the work is done all the same.
        let shower = if voice == Voice::Quiet { None } else { start().ok() };
        Progress { shared, shower: Mutex::new(shower) }
    }

    /// What else there is to say of the present stage.
    pub(crate) fn set_more(&self, more: String) {
        self.shared.lock().more = Some(more);
    }

    /// An entry, or another unit, is done.
    pub(crate) fn entry(&self) {
        self.done(1);
    }

    /// So many bytes are done, beside the units.
    pub(crate) fn add_bytes(&self, bytes: u64) {
        self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The present stage, for [`Progress::foresee`].
    pub(crate) fn present(&self) -> Present {
        Present(self.shared.lock().begun)
    }

    /// Counts beside the work how much of a stage there is, once the work has taken so long that it is shown. `count` may ask whether that
    /// stage is over meanwhile, so that its result is of no use.
    pub(crate) fn foresee(&self, stage: Present, count: impl FnOnce(&(dyn Fn() -> bool + Sync)) -> u64) {
        if !self.gets_long(stage) {
            return;
        }
        let whole = count(&|| self.is_over(stage));
        let mut state = self.shared.lock();
        if state.begun == stage.0
            && let Some((stage, _)) = &mut state.stage
        {
            stage.whole = Some(whole);
        }
    }

    fn is_over(&self, stage: Present) -> bool {
        let state = self.shared.lock();
        state.over || state.begun != stage.0
    }

    /// Waits until the work has taken so long that it is shown; false if the stage is over before, or nothing is shown.
    fn gets_long(&self, stage: Present) -> bool {
        let mut state = self.shared.lock();
        while self.shared.voice != Voice::Quiet && !state.over && state.begun == stage.0 {
            let left = LONG.saturating_sub(self.shared.started.elapsed());
            if left.is_zero() {
                return true;
            }
            state = self.shared.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    /// Another process goes on with the work and shows it: here nothing more is.
    pub(crate) fn hand_over(&self) {
        self.end();
    }

    /// The work is done: the bar goes, and if it took long a summary says what was done.
    pub(crate) fn finish(&self) {
        self.end();
        let took = self.shared.started.elapsed();
        if took >= LONG {
            self.shared.sum_up(took);
        }
    }

    fn end(&self) {
        {
            let mut state = self.shared.lock();
            self.shared.put_aside(&mut state);
            state.over = true;
        }
        self.shared.wake.notify_all();
        let shower = self.shower.lock().unwrap_or_else(PoisonError::into_inner).take();
        // One that has panicked shows nothing any more.
        shower.into_iter().for_each(|shower| _ = shower.join());
    }

    /// Seconds since its start.
    pub(crate) fn seconds(&self) -> f64 {
        self.shared.started.elapsed().as_secs_f64()
    }
}

impl Watcher for Progress {
    fn begin(&self, stage: Stage) {
        let mut state = self.shared.lock();
        self.shared.put_aside(&mut state);
        state.begun += 1;
        state.stage = Some((stage, self.shared.started.elapsed()));
        drop(state);
        self.shared.wake.notify_all();
    }

    fn whole(&self, units: u64) {
        if let Some((stage, _)) = &mut self.shared.lock().stage {
            stage.whole = Some(units);
        }
    }

    fn done(&self, units: u64) {
        self.shared.done.fetch_add(units, Ordering::Relaxed);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far the present stage is.
    fn moment(&self, state: &State, now: Duration) -> Option<Moment> {
        let (stage, since) = state.stage?;
        Some(Moment {
            stage,
            done: self.done.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            more: state.more.clone(),
            took: now.saturating_sub(since),
        })
    }

    /// The present stage is over.
    fn put_aside(&self, state: &mut State) {
        let past = self.moment(state, self.started.elapsed());
        state.past.extend(past.filter(|_| state.past.len() < STAGES_MAX));
        (state.stage, state.more) = (None, None);
        self.done.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// Shows how far it is, again and again until it is over.
    fn show(&self) {
        let mut face = Face::new(self.voice);
        let mut pace = face.pace();
        let mut state = self.lock();
        while !state.over {
            let now = self.started.elapsed();
            state = match pace.wait(now) {
                Some(wait) => self.wake.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0,
                None => {
                    let moment = self.moment(&state, now);
                    drop(state);
                    face.show(self.work, moment.as_ref(), now);
                    self.lock()
                }
            };
        }
        drop(state);
        face.clear();
    }

    fn sum_up(&self, took: Duration) {
        let state = self.lock();
        match self.voice {
            Voice::Quiet => {}
            Voice::Command => tell(&format!("onpath: {}", words::summary(self.work, took, &state.past))),
            Voice::Log => tracing::info!(took_s = took.as_secs(), "{}", words::summary(self.work, took, &state.past)),
        }
    }
}

/// How it is shown.
enum Face {
    /// On a terminal.
    Bar(Bar),
    /// Elsewhere.
    Lines(Voice),
}

impl Face {
    fn new(voice: Voice) -> Face {
        // Hidden where there is no terminal, or one that cannot move its cursor.
        if ProgressDrawTarget::stderr().is_hidden() { Face::Lines(voice) } else { Face::Bar(Bar::new()) }
    }

    fn pace(&self) -> Pace {
        match self {
            Face::Bar(_) => Pace::of_bar(),
            Face::Lines(_) => Pace::of_lines(),
        }
    }

    fn show(&mut self, work: &'static str, moment: Option<&Moment>, now: Duration) {
        match self {
            Face::Bar(bar) => bar.draw(work, moment, now),
            Face::Lines(Voice::Log) => log(work, moment, now),
            Face::Lines(_) => tell(&format!("onpath: {}", words::line(work, moment, now))),
        }
    }

    fn clear(self) {
        if let Face::Bar(bar) = self {
            bar.clear();
        }
    }
}

/// The event of a process that serves.
fn log(work: &'static str, moment: Option<&Moment>, now: Duration) {
    let unit = moment.and_then(|moment| match moment.stage.unit {
        Unit::Bytes => Some("bytes"),
        Unit::Things(name) => Some(name),
        Unit::Nothing => None,
    });
    let counted = moment.filter(|_| unit.is_some());
    tracing::info!(
        doing = moment.map_or(work, |moment| moment.stage.doing),
        for_s = now.as_secs(),
        done = counted.map(|moment| moment.done),
        whole = counted.and_then(|moment| moment.stage.whole),
        unit,
        percent = counted.and_then(Moment::percent),
        per_second = counted.map(Moment::per_second),
        left_s = moment.and_then(Moment::left).map(|left| left.as_secs()),
        more = moment.and_then(|moment| moment.more.as_deref()),
        "{work} goes on"
    );
}

/// Prints a line on standard error, above the bar. If nobody reads that any more the work goes on all the same.
pub(crate) fn tell(line: &str) {
    // One write: a log that several processes have must not get parts of lines.
    let line = format!("{}\n", lines(line));
    _ = above(|| io::stderr().write_all(line.as_bytes()));
}

/// Standard error, above the bar: where the log goes, an event at a time. It has no colours, so that nothing in it is for the terminal.
pub(crate) struct AboveBar;

impl Write for AboveBar {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        above(|| io::stderr().write_all(lines(&text).as_bytes()))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Bytes for people.
pub(crate) fn bytes(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}
