//! Times that the command line names, as touch(1) takes them.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use onpath_client::Time;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

/// A time of `-d`: `now`, `@SECONDS`, or a date with or without the time of day and the offset of its zone, such as `2026-11-26 14:52:01.5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Date(pub(super) Time);

/// A time of `-t`: `[[CC]YY]MMDDhhmm[.ss]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(pub(super) Time);

fn at(time: Timestamp) -> Option<Time> {
    i64::try_from(time.as_nanosecond()).ok().map(Time::At)
}

/// Of this machine's zone.
fn local(time: DateTime) -> Option<Timestamp> {
    TimeZone::system().to_timestamp(time).ok()
}

fn date(text: &str) -> Option<Time> {
    if text == "now" {
        return Some(Time::Now);
    }
    if let Some(seconds) = text.strip_prefix('@') {
        let (whole, part) = seconds.split_once('.').unwrap_or((seconds, "0"));
        let nanoseconds: i64 = format!("{part:0<9}").get(..9)?.parse().ok().filter(|part| *part >= 0)?;
        return whole.parse::<i64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanoseconds).map(Time::At);
    }
    let with_offset: Option<Timestamp> = text.parse().ok();
    at(with_offset.or_else(|| local(text.parse().ok()?))?)
}

fn stamp(text: &str) -> Option<Time> {
    let (digits, seconds) = text.split_once('.').unwrap_or((text, "00"));
    if !digits.bytes().chain(seconds.bytes()).all(|byte| byte.is_ascii_digit()) || seconds.len() != 2 {
        return None;
    }
    let number = |from: usize, to: usize| digits[from..to].parse::<i16>().ok();
    let rest = digits.len().checked_sub(8)?;
    let year = match rest {
        0 => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
            Timestamp::from_second(now.as_secs().cast_signed()).ok()?.to_zoned(TimeZone::system()).year()
        }
        // As POSIX divides the centuries.
        2 => number(0, 2).map(|year| year + if year < 69 { 2000 } else { 1900 })?,
        4 => number(0, 4)?,
        _ => return None,
    };
    let part = |at: usize| number(rest + at, rest + at + 2).map(|part| part as i8); // two digits
    let time = DateTime::new(year, part(0)?, part(2)?, part(4)?, part(6)?, seconds.parse().ok()?, 0).ok()?;
    at(local(time)?)
}

impl FromStr for Date {
    type Err = String;

    fn from_str(text: &str) -> Result<Date, String> {
        date(text).map(Date).ok_or_else(|| {
            format!("{text:?} is no time: give now, @SECONDS, or a date such as 2026-11-26, 2026-11-26 14:52 or 2026-11-26T14:52:01Z")
        })
    }
}

impl FromStr for Stamp {
    type Err = String;

    fn from_str(text: &str) -> Result<Stamp, String> {
        stamp(text).map(Stamp).ok_or_else(|| format!("{text:?} is no time: give [[CC]YY]MMDDhhmm[.ss]"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_understood_or_refused() {
        let ns = |text: &str| match text.parse::<Date>() {
            Ok(Date(Time::At(ns))) => ns,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(ns("@12.5"), 12_500_000_000);
        assert_eq!(ns("@-1"), -1_000_000_000);
        assert_eq!(ns("1970-01-01T00:00:01Z"), 1_000_000_000);
        assert_eq!(ns("1970-01-01 01:00:01+01:00"), 1_000_000_000);
        assert_eq!(ns("2026-11-26 14:52") - ns("2026-11-26"), (14 * 3_600 + 52 * 60) * 1_000_000_000);
        assert_eq!("now".parse(), Ok(Date(Time::Now)));
        for text in ["", "yesterday", "@", "@x", "@1.-5", "2026-13-01", "@99999999999999"] {
            assert!(text.parse::<Date>().is_err(), "{text}");
        }
    }

    #[test]
    fn stamps_are_understood_or_refused() {
        let same = |text: &str, date: &str| {
            let (Stamp(stamp), Date(date)) = (text.parse().unwrap(), date.parse().unwrap());
            assert_eq!(stamp, date, "{text}");
        };
        same("202611261452.07", "2026-11-26 14:52:07");
        same("2611261452", "2026-11-26 14:52");
        same("9911261452", "1999-11-26 14:52");
        assert!("01020304".parse::<Stamp>().is_ok());
        for text in ["", "0102030", "0102030405060708", "01020304.5", "13020304", "0102é304", "-1020304"] {
            assert!(text.parse::<Stamp>().is_err(), "{text}");
        }
    }
}
