//! What `onpath find` looks for.

use rustix::fs::FileType;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

/// Bytes with an optional suffix: 10, 4k, 1.5 is not one, 20M, 3G, 1T.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size(pub(super) u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let (digits, shift) = match text.char_indices().last() {
            Some((at, 'k' | 'K')) => (&text[..at], 10),
            Some((at, 'M')) => (&text[..at], 20),
            Some((at, 'G')) => (&text[..at], 30),
            Some((at, 'T')) => (&text[..at], 40),
            _ => (text, 0),
        };
        let bytes = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(1 << shift));
        bytes.map(Size).ok_or_else(|| format!("{text:?} is no size: give bytes, or a number with k, M, G or T"))
    }
}

/// A number with its unit: s, m, h, d or w.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Age(pub(super) Duration);

impl FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Age, String> {
        let wrong = || format!("{text:?} is no age: give a number with s, m, h, d or w");
        let (at, unit) = text.char_indices().last().ok_or_else(wrong)?;
        let seconds: u64 = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            'w' => 604_800,
            _ => return Err(wrong()),
        };
        let seconds = text[..at].parse::<u64>().ok().and_then(|count| count.checked_mul(seconds));
        seconds.map(|seconds| Age(Duration::from_secs(seconds))).ok_or_else(wrong)
    }
}

/// A letter as find(1) has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(pub(super) FileType);

const KINDS: [(char, FileType); 7] = [
    ('f', FileType::RegularFile),
    ('d', FileType::Directory),
    ('l', FileType::Symlink),
    ('p', FileType::Fifo),
    ('s', FileType::Socket),
    ('b', FileType::BlockDevice),
    ('c', FileType::CharacterDevice),
];

/// The letter of a kind.
pub(super) fn letter(kind: FileType) -> char {
    KINDS.iter().find(|(_, known)| *known == kind).map_or('?', |(letter, _)| *letter)
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        let found = KINDS.iter().find(|(letter, _)| text.chars().eq([*letter]));
        found.map(|(_, kind)| Kind(*kind)).ok_or_else(|| format!("{text:?} is none of f, d, l, p, s, b, c"))
    }
}

/// Whether a name fits a pattern of `*`, `?`, `[abc]`, `[a-z]`, `[!abc]` and `\`, over bytes.
pub(crate) fn fits(pattern: &[u8], name: &[u8]) -> bool {
    // Where to go on if what follows the last star does not fit.
    let mut retry: Option<(usize, usize)> = None;
    let (mut p, mut n) = (0, 0);
    while n < name.len() {
        if pattern.get(p) == Some(&b'*') {
            retry = Some((p + 1, n));
            p += 1;
            continue;
        }
        match one(&pattern[p..], name[n]) {
            Some(used) => (p, n) = (p + used, n + 1),
            None => match retry {
                Some((after_star, from)) => {
                    retry = Some((after_star, from + 1));
                    (p, n) = (after_star, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// How many bytes of the pattern stand for that byte.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', rest @ ..] => match set(rest, byte) {
            Some((true, used)) => Some(used + 1),
            Some((false, _)) => None,
            None => (byte == b'[').then_some(1),
        },
        [literal, ..] => (*literal == byte).then_some(1),
    }
}

/// Whether the byte is in the set behind `[`, and the set's length with its `]`.
fn set(rest: &[u8], byte: u8) -> Option<(bool, usize)> {
    let negated = matches!(rest.first(), Some(b'!' | b'^'));
    let start = usize::from(negated);
    let end = start + 1 + rest.get(start + 1..)?.iter().position(|byte| *byte == b']')?;
    let mut members = &rest[start..end];
    let mut found = false;
    while let [first, tail @ ..] = members {
        members = match tail {
            [b'-', last, after @ ..] => {
                found |= (*first..=*last).contains(&byte);
                after
            }
            _ => {
                found |= *first == byte;
                tail
            }
        };
    }
    Some((found != negated, end + 1))
}

/// Seconds since 1970 of a moment that long ago.
pub(super) fn ago(age: Age) -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(age.0).as_secs().cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*.rs", "main.rs", true),
            ("*.rs", "main.rs.bak", false),
            ("a*b*c", "axxbyybzc", true),
            ("a*b*c", "axxbyybz", false),
            ("?", "", false),
            ("f[0-9]", "f7", true),
            ("f[!0-9]", "f7", false),
            ("[]x]", "]", true),
            ("[", "[", true),
            (r"\*", "*", true),
            (r"\*", "x", false),
            ("a**", "a", true),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn sizes_and_ages() {
        assert_eq!("4k".parse(), Ok(Size(4096)));
        assert_eq!("2G".parse(), Ok(Size(2 << 30)));
        assert_eq!("7".parse(), Ok(Size(7)));
        assert!(["", "k", "1.5k", "9999999999999T"].iter().all(|text| text.parse::<Size>().is_err()));
        assert_eq!("2d".parse(), Ok(Age(Duration::from_secs(172_800))));
        assert!(["", "d", "3", "3y"].iter().all(|text| text.parse::<Age>().is_err()));
    }
}
