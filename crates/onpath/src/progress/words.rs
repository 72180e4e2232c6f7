//! How far work is, in words. No clock: who uses it gives the time.

use indicatif::{HumanBytes, HumanCount};
use onpath_host::progress::{Stage, Unit};
use std::time::Duration;

/// How far a stage is at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) stage: Stage,
    /// Units that are done.
    pub(super) done: u64,
    /// Bytes that are done, if they are counted beside another unit.
    pub(super) bytes: u64,
    /// What else there is to say, such as whom it waits for.
    pub(super) more: Option<String>,
    /// Since the stage began.
    pub(super) took: Duration,
}

impl Moment {
    /// Units a second.
    pub(super) fn per_second(&self) -> u64 {
        let seconds = self.took.as_secs_f64();
        if seconds > 0.0 { (self.done as f64 / seconds) as u64 } else { 0 }
    }

    /// Per cent of the whole, if that is known.
    pub(super) fn percent(&self) -> Option<u64> {
        let whole = self.stage.whole.filter(|whole| *whole > 0)?;
        Some((u128::from(self.done.min(whole)) * 100 / u128::from(whole)) as u64)
    }

    /// How long the rest takes at the speed of before, if the whole is known and something is done.
    pub(super) fn left(&self) -> Option<Duration> {
        let rest = self.stage.whole?.checked_sub(self.done)?;
        let each = self.took.as_secs_f64() / (self.done > 0).then_some(self.done as f64)?;
        Duration::try_from_secs_f64(each * rest as f64).ok()
    }

    /// Whether there is anything to count.
    fn is_counted(&self) -> bool {
        self.stage.unit != Unit::Nothing && (self.done > 0 || self.stage.whole.is_some())
    }

    fn amount(&self, count: u64) -> String {
        match self.stage.unit {
            Unit::Bytes => HumanBytes(count).to_string(),
            Unit::Things(_) | Unit::Nothing => HumanCount(count).to_string(),
        }
    }

    /// How far it is, and how long it may take: "500 of 1,000 entries (50 %), 50/s, 10 s left".
    pub(super) fn words(&self) -> String {
        let mut all = self.counts();
        if self.is_counted() {
            all.push(format!("{}/s", self.amount(self.per_second())));
            all.extend(self.left().map(|left| format!("{} left", duration(left))));
        }
        all.extend(self.more.clone());
        all.join(", ")
    }

    /// What was done, as far as it counts anything: "1,000 entries, 12.50 MiB".
    pub(super) fn counts(&self) -> Vec<String> {
        let name = match self.stage.unit {
            Unit::Bytes => String::new(),
            Unit::Things(name) => format!(" {name}"),
            Unit::Nothing => return Vec::new(),
        };
        let mut all = Vec::new();
        if let Some((whole, percent)) = self.stage.whole.zip(self.percent()) {
            all.push(format!("{} of {}{name} ({percent} %)", self.amount(self.done), self.amount(whole)));
        } else if self.is_counted() || self.bytes == 0 {
            all.push(format!("{}{name}", self.amount(self.done)));
        }
        if self.bytes > 0 {
            all.push(HumanBytes(self.bytes).to_string());
        }
        all
    }
}

/// A line about work that goes on: "removing for 10 s: 12,340 entries, 1,234/s". A stage that is not called as the work is named.
pub(super) fn line(work: &str, moment: Option<&Moment>, now: Duration) -> String {
    let doing = moment.map(|moment| moment.stage.doing).filter(|doing| *doing != work);
    let far = moment.map(Moment::words).filter(|words| !words.is_empty());
    let all: Vec<String> = doing.map(str::to_owned).into_iter().chain(far).collect();
    let begin = format!("{work} for {}", duration(now));
    if all.is_empty() { begin } else { format!("{begin}: {}", all.join(", ")) }
}

/// What work that is over has done: "removing took 12 s: 1,000 entries". Of stages that are not called as the work is, those are left out
/// that took no time and counted nothing.
pub(super) fn summary(work: &str, took: Duration, stages: &[Moment]) -> String {
    let stage = |past: &Moment| {
        let counts = Moment { stage: Stage { whole: None, ..past.stage }, ..past.clone() }.counts().join(", ");
        let is_nothing = past.done == 0 && past.bytes == 0;
        match (past.stage.doing == work, counts.is_empty()) {
            (true, _) => counts,
            (false, _) if is_nothing && past.took < Duration::from_secs(1) => String::new(),
            (false, true) => format!("{} {}", past.stage.doing, duration(past.took)),
            (false, false) => format!("{} {} ({counts})", past.stage.doing, duration(past.took)),
        }
    };
    let stages: Vec<String> = stages.iter().map(stage).filter(|words| !words.is_empty()).collect();
    let begin = format!("{work} took {}", duration(took));
    if stages.is_empty() { begin } else { format!("{begin}: {}", stages.join(", ")) }
}

/// For people: "12 s", "2 min 5 s", "3 h 4 min".
pub(super) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: Stage = Stage::of("removing", "entries");

    fn after(seconds: u64, stage: Stage, done: u64) -> Moment {
        Moment { stage, done, bytes: 0, more: None, took: Duration::from_secs(seconds) }
    }

    #[test]
    fn an_unknown_whole_has_counts_and_a_rate() {
        assert_eq!(after(10, ENTRIES, 12_340).words(), "12,340 entries, 1,234/s");
        assert_eq!(Moment { bytes: 3 << 20, ..after(10, ENTRIES, 20) }.words(), "20 entries, 3.00 MiB, 2/s");
        assert_eq!(after(10, ENTRIES, 0).words(), "0 entries");
        let bytes = Stage { unit: Unit::Bytes, ..ENTRIES };
        assert_eq!(after(2, bytes, 1 << 20).words(), "1.00 MiB, 512.00 KiB/s");
    }

    #[test]
    fn a_known_whole_has_per_cent_and_the_time_left() {
        let known = ENTRIES.with_whole(1_000);
        assert_eq!(after(10, known, 500).words(), "500 of 1,000 entries (50 %), 50/s, 10 s left");
        assert_eq!(after(10, known, 0).words(), "0 of 1,000 entries (0 %), 0/s");
        // What was counted before may have grown.
        assert_eq!(after(10, known, 1_001).words(), "1,001 of 1,000 entries (100 %), 100/s");
        assert_eq!(after(1, ENTRIES.with_whole(0), 0).words(), "0 entries, 0/s");
        let bytes = Stage { unit: Unit::Bytes, ..ENTRIES }.with_whole(4 << 30);
        assert_eq!(after(10, bytes, 1 << 30).words(), "1.00 GiB of 4.00 GiB (25 %), 102.40 MiB/s, 30 s left");
        assert_eq!(after(1, ENTRIES.with_whole(u64::MAX), u64::MAX - 1).percent(), Some(99));
    }

    #[test]
    fn a_line_names_the_work_and_its_stage() {
        let stage = Stage::uncounted("waiting for hosts");
        let waiting = Moment { more: Some("b and c are silent".into()), ..after(10, stage, 0) };
        let now = Duration::from_secs(20);
        assert_eq!(line("waiting for hosts", Some(&waiting), now), "waiting for hosts for 20 s: b and c are silent");
        assert_eq!(line("starting", Some(&waiting), now), "starting for 20 s: waiting for hosts, b and c are silent");
        assert_eq!(line("starting", Some(&after(10, stage, 0)), now), "starting for 20 s: waiting for hosts");
        assert_eq!(line("starting", None, now), "starting for 20 s");
        assert_eq!(line("removing", Some(&after(20, ENTRIES, 40)), now), "removing for 20 s: 40 entries, 2/s");
        assert_eq!(summary("waiting for hosts", now, std::slice::from_ref(&waiting)), "waiting for hosts took 20 s");
        assert_eq!(summary("starting", now, &[waiting]), "starting took 20 s: waiting for hosts 10 s");
    }

    #[test]
    fn a_summary_names_stages_that_are_parts() {
        let took = Duration::from_secs(125);
        assert_eq!(summary("removing", took, &[after(125, ENTRIES, 7)]), "removing took 2 min 5 s: 7 entries");
        assert_eq!(summary("formatting", took, &[]), "formatting took 2 min 5 s");
        let journal = Stage { doing: "replaying the journal", unit: Unit::Bytes, whole: Some(1 << 20) };
        let moved = Stage::of("moving", "objects");
        let none = Stage::of("loading the checkpoint", "objects");
        let said =
            summary("reshaping", took, &[after(0, none, 0), after(65, journal, 1 << 20), after(60, moved, 1_000)]);
        let wanted = "replaying the journal 1 min 5 s (1.00 MiB), moving 1 min 0 s (1,000 objects)";
        assert_eq!(said, format!("reshaping took 2 min 5 s: {wanted}"));
        assert_eq!(duration(Duration::from_secs(3 * 3_600 + 4 * 60 + 5)), "3 h 4 min");
    }
}
