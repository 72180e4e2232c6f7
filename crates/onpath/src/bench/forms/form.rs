//! The forms that are compared.

use crate::bench::net::servers::Shape;
use std::fmt;
use std::str::FromStr;

/// Who knows that a directory has pending updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Its owner.
    Owner,
    /// The switch.
    Network {
        /// Whether a mark covers later updates too.
        marks: Marks,
        /// Of each hundred directories so many find no room in the switch.
        overflow: u8,
    },
}

/// What a mark covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marks {
    /// Later updates too.
    Sticky,
    /// One update.
    EveryUpdate,
}

impl Marks {
    fn word(self) -> &'static str {
        match self {
            Marks::Sticky => "sticky",
            Marks::EveryUpdate => "every-update",
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Form::Owner => f.write_str("owner"),
            Form::Network { marks, overflow: 0 } => f.write_str(marks.word()),
            Form::Network { marks, overflow } => write!(f, "{}-{overflow}", marks.word()),
        }
    }
}

impl FromStr for Form {
    type Err = String;

    fn from_str(text: &str) -> Result<Form, String> {
        if text == "owner" {
            return Ok(Form::Owner);
        }
        let of = |marks: Marks| text.strip_prefix(marks.word()).map(|rest| (marks, rest));
        let Some((marks, rest)) = of(Marks::Sticky).or_else(|| of(Marks::EveryUpdate)) else {
            return Err("owner, sticky or every-update".to_owned());
        };
        let overflow = match rest.strip_prefix('-') {
            None if rest.is_empty() => Some(0),
            None => None,
            Some(percent) => percent.parse().ok().filter(|&percent: &u8| percent <= 100),
        };
        let overflow = overflow.ok_or_else(|| format!("{}, or {0}-PERCENT from 0 to 100", marks.word()))?;
        Ok(Form::Network { marks, overflow })
    }
}

impl Form {
    /// The hosts: the same processes for every form, where owners track directories with a switch that nobody asks.
    pub(super) fn shape(self, sync: bool) -> Shape<'static> {
        let settings: &[_] = match (self, sync) {
            (Form::Owner, true) => &[],
            (Form::Owner, false) => &[("sync_directories", "never")],
            (Form::Network { marks: Marks::Sticky, .. }, true) => &[("tracking", "network")],
            (Form::Network { marks: Marks::Sticky, .. }, false) => {
                &[("tracking", "network"), ("sync_directories", "never")]
            }
            (Form::Network { marks: Marks::EveryUpdate, .. }, true) => {
                &[("tracking", "network"), ("marks", "every-update")]
            }
            (Form::Network { marks: Marks::EveryUpdate, .. }, false) => {
                &[("tracking", "network"), ("marks", "every-update"), ("sync_directories", "never")]
            }
        };
        Shape { settings, ..Shape::NETWORK }
    }

    /// Of so many directories the first ones, so many, find no room.
    pub(super) fn overflowing(self, directories: usize) -> usize {
        match self {
            Form::Owner => 0,
            Form::Network { overflow, .. } => (directories * usize::from(overflow)).div_ceil(100),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ["owner", "sticky", "every-update", "sticky-25", "every-update-100"] {
            assert_eq!(name.parse::<Form>().unwrap().to_string(), name);
        }
        let form: Form = "sticky-25".parse().unwrap();
        assert_eq!([0, 1, 4, 64].map(|directories| form.overflowing(directories)), [0, 1, 1, 16]);
        assert_eq!("sticky-0".parse(), Ok(Form::Network { marks: Marks::Sticky, overflow: 0 }));
        for name in ["", "switch", "stickyx", "sticky-101", "sticky-", "owner-5", "every-update--1"] {
            assert!(name.parse::<Form>().is_err(), "{name}");
        }
    }
}
