//! How lists for people name owners, sizes, modes and times, as ls(1) does.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use onpath_client::{FileType, Metadata};
use std::collections::HashMap;
use std::process::{Command, Stdio};

/// Names of users and groups, by their ids; each is asked for once.
#[derive(Default)]
pub(super) struct Names {
    known: HashMap<(&'static str, u32), String>,
}

impl Names {
    pub(super) fn user(&mut self, uid: u32) -> String {
        self.of("passwd", uid)
    }

    pub(super) fn group(&mut self, gid: u32) -> String {
        self.of("group", gid)
    }

    fn of(&mut self, database: &'static str, id: u32) -> String {
        self.known.entry((database, id)).or_insert_with(|| look_up(database, id)).clone()
    }
}

/// By getent(1), which asks whatever service this host has for names; a number where nobody has a name.
fn look_up(database: &str, id: u32) -> String {
    let asked = Command::new("getent").args([database, &id.to_string()]).stdin(Stdio::null()).output();
    let line = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let name = line.split(':').next().filter(|name| !name.is_empty()).map(str::to_owned);
    name.unwrap_or_else(|| id.to_string())
}

/// Bytes with at most three digits and a unit of 1,024, rounded up.
pub(super) fn human(bytes: u64) -> String {
    let mut units = ["", "K", "M", "G", "T", "P", "E"].into_iter();
    let (mut unit, mut size) = (units.next().unwrap_or_default(), bytes as f64);
    while size >= 1024.0
        && let Some(next) = units.next()
    {
        (unit, size) = (next, size / 1024.0);
    }
    let tenths = (size * 10.0).ceil() / 10.0;
    if unit.is_empty() || tenths >= 10.0 { format!("{}{unit}", size.ceil()) } else { format!("{tenths:.1}{unit}") }
}

/// Type and permissions: `drwxr-xr-x`.
pub(super) fn mode(is: &Metadata) -> String {
    let kind = match is.file_type {
        FileType::File => '-',
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        FileType::Fifo => 'p',
        FileType::Socket => 's',
        FileType::CharDevice => 'c',
        FileType::BlockDevice => 'b',
    };
    let mut text = String::from(kind);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = is.permissions >> shift;
        text.push(if bits & 4 == 0 { '-' } else { 'r' });
        text.push(if bits & 2 == 0 { '-' } else { 'w' });
        text.push(match (bits & 1 != 0, is.permissions & special != 0) {
            (false, false) => '-',
            (true, false) => 'x',
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
        });
    }
    text
}

/// Half of a year, the mean one of the Gregorian calendar, seconds.
const HALF_A_YEAR: i64 = 31_556_952 / 2;

/// The time of nanoseconds since 1970: of the last half year with its hour, of others with their year.
pub(super) fn time(ns: i64, now: Timestamp, zone: &TimeZone) -> String {
    let Ok(at) = Timestamp::from_nanosecond(ns.into()) else { return ns.div_euclid(1_000_000_000).to_string() };
    let age = now.as_second() - at.as_second();
    let form = if (0..HALF_A_YEAR).contains(&age) { "%b %e %H:%M" } else { "%b %e  %Y" };
    at.to_zoned(zone.clone()).strftime(form).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short_and_never_too_small() {
        for (bytes, text) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1.0K"),
            (1025, "1.1K"),
            (10_239, "10K"),
            (10_241, "11K"),
            (5 << 20, "5.0M"),
            (u64::MAX, "16E"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }

    #[test]
    fn recent_times_have_an_hour_and_others_a_year() {
        let now: Timestamp = "2026-11-26T15:00:00Z".parse().unwrap();
        let shown = |text: &str| {
            let at: Timestamp = text.parse().unwrap();
            time(at.as_nanosecond() as i64, now, &TimeZone::UTC)
        };
        assert_eq!(shown("2026-11-05T01:02:03Z"), "Nov  5 01:02");
        assert_eq!(shown("2025-01-15T01:02:03Z"), "Jan 15  2025");
        assert_eq!(shown("2027-01-15T01:02:03Z"), "Jan 15  2027");
    }
}
