//! Schedules: where a course of events leaves the usual one, in words that lead back to it.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// Something other than the next thing happens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Choice {
    /// The next thing waits until it is named.
    Postpone,
    /// Of the things that wait, the n-th happens.
    Release(u8),
    /// Nothing else is left, but time passes, until something is under way again or all is answered.
    Wait,
    /// The next message is lost.
    Lose,
    /// The next message arrives; a copy of it waits until it is named.
    Double,
    /// A process dies, by a kill or by a power loss, and starts again.
    Die {
        /// Which.
        process: u8,
        /// It loses what was not flushed.
        power: bool,
    },
    /// The next thing happens, and its process dies instead of its n-th output.
    DieAt {
        /// Which output, from 0.
        output: u8,
        /// It loses what was not flushed.
        power: bool,
    },
    /// The switch reboots.
    Reboot,
}

/// How much may go other than usual.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Bounds {
    /// Things that wait while others happen.
    pub late: u8,
    /// Times at which time passes although something waits.
    pub waits: u8,
    /// Messages lost.
    pub lost: u8,
    /// Messages doubled.
    pub doubled: u8,
    /// Kills of a process.
    pub kills: u8,
    /// Power losses of a process.
    pub powers: u8,
    /// Reboots of the switch.
    pub reboots: u8,
}

impl Bounds {
    /// What remains of them after a choice; nothing if it is beyond them.
    pub(super) fn without(mut self, choice: Choice) -> Option<Bounds> {
        let left = match choice {
            Choice::Release(_) => return Some(self),
            Choice::Postpone => &mut self.late,
            Choice::Wait => &mut self.waits,
            Choice::Lose => &mut self.lost,
            Choice::Double => &mut self.doubled,
            Choice::Die { power: false, .. } | Choice::DieAt { power: false, .. } => &mut self.kills,
            Choice::Die { power: true, .. } | Choice::DieAt { power: true, .. } => &mut self.powers,
            Choice::Reboot => &mut self.reboots,
        };
        *left = left.checked_sub(1)?;
        Some(self)
    }

    /// Whether nothing is less than in `other`.
    pub(super) fn covers(&self, other: &Bounds) -> bool {
        let all = |b: &Bounds| [b.late, b.waits, b.lost, b.doubled, b.kills, b.powers, b.reboots];
        all(self).into_iter().zip(all(other)).all(|(mine, its)| mine >= its)
    }
}

impl Display for Choice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let how = |power| if power { "power" } else { "kill" };
        match *self {
            Choice::Postpone => write!(f, "late"),
            Choice::Release(n) => write!(f, "release{n}"),
            Choice::Wait => write!(f, "wait"),
            Choice::Lose => write!(f, "lose"),
            Choice::Double => write!(f, "double"),
            Choice::Die { process, power } => write!(f, "{}{process}", how(power)),
            Choice::DieAt { output, power } => write!(f, "{}-at{output}", how(power)),
            Choice::Reboot => write!(f, "reboot"),
        }
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Choice, String> {
        let number = |prefix: &str| text.strip_prefix(prefix).and_then(|n| n.parse().ok());
        let named = match text {
            "late" => Some(Choice::Postpone),
            "wait" => Some(Choice::Wait),
            "lose" => Some(Choice::Lose),
            "double" => Some(Choice::Double),
            "reboot" => Some(Choice::Reboot),
            _ => number("release").map(Choice::Release),
        };
        let death = |(prefix, power)| {
            let at = number(&format!("{prefix}-at")).map(|output| Choice::DieAt { output, power });
            at.or(number(prefix).map(|process| Choice::Die { process, power }))
        };
        let found = named.or_else(|| [("kill", false), ("power", true)].into_iter().find_map(death));
        found.ok_or_else(|| {
            format!(
                "{text:?} is no choice: give late, releaseN, wait, lose, double, killN, kill-atN, powerN, power-atN or reboot"
            )
        })
    }
}

/// The choices other than the usual ones, each with the number of the step at which it is made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Schedule(pub Vec<(u16, Choice)>);

impl Schedule {
    /// The same with one more.
    pub(super) fn and(&self, step: u16, choice: Choice) -> Schedule {
        let mut choices = Vec::with_capacity(self.0.len() + 1);
        choices.extend_from_slice(&self.0);
        choices.push((step, choice));
        Schedule(choices)
    }
}

impl Display for Schedule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.0.iter().map(|(step, choice)| format!("{step}:{choice}")).collect();
        f.write_str(&if words.is_empty() { "usual".into() } else { words.join(",") })
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Schedule, String> {
        if text == "usual" {
            return Ok(Schedule::default());
        }
        let one = |word: &str| {
            let (step, choice) = word.split_once(':').ok_or_else(|| format!("{word:?}: give STEP:CHOICE"))?;
            let step = step.parse().map_err(|_| format!("{step:?} is no number of a step"))?;
            Ok((step, choice.parse()?))
        };
        let choices: Vec<_> = text.split(',').map(one).collect::<Result<_, String>>()?;
        match choices.is_sorted_by(|(a, _), (b, _)| a < b) {
            true => Ok(Schedule(choices)),
            false => Err("steps must grow from choice to choice".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_schedule_lead_back_to_it() {
        let words = "0:late,3:release2,4:lose,5:wait,9:double,11:kill1,12:power-at7,400:reboot,401:kill-at0,402:power0";
        assert_eq!(words.parse::<Schedule>().unwrap().to_string(), words);
        assert_eq!("usual".parse::<Schedule>().unwrap(), Schedule::default());
        for wrong in ["1:fly", "late", "x:late", "3:late,3:lose", ""] {
            assert!(wrong.parse::<Schedule>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn bounds_count_down() {
        let bounds = Bounds { late: 1, ..Bounds::default() };
        let none = bounds.without(Choice::Postpone).unwrap();
        assert_eq!((none, none.without(Choice::Postpone)), (Bounds::default(), None));
        assert_eq!(none.without(Choice::Release(3)), Some(none));
        assert!(bounds.covers(&none) && !none.covers(&bounds));
    }
}
