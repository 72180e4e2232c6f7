//! Modes as chmod(1) takes them: octal, or clauses such as `u+rwX,go-w`.

use std::str::FromStr;

/// What becomes of permission bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ModeChange {
    Absolute(u32),
    Clauses(Vec<Clause>),
}

/// One of `u+rw`, `g=u`, `a-x`, ….
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clause {
    /// Bits of the classes it is about.
    who: u32,
    operator: char,
    bits: Bits,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bits {
    /// Bits of all classes, and whether X was among them.
    Given { bits: u32, search: bool },
    /// Those of another class: 6, 3 or 0, its shift.
    Copied(u32),
}

const USER: u32 = 0o4700;
const GROUP: u32 = 0o2070;
const OTHER: u32 = 0o1007;
const EXECUTE: u32 = 0o111;

impl FromStr for ModeChange {
    type Err = String;

    fn from_str(text: &str) -> Result<ModeChange, String> {
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777);
            return mode.map(ModeChange::Absolute).ok_or_else(|| format!("{text} is no octal mode up to 7777"));
        }
        let clauses: Option<Vec<Vec<Clause>>> = text.split(',').map(clause).collect();
        let clauses =
            clauses.ok_or_else(|| format!("{text:?} is no mode: give octal digits, or clauses such as u+rwX,go-w"));
        clauses.map(|clauses| ModeChange::Clauses(clauses.concat()))
    }
}

/// `[ugoa]*([-+=][rwxXst]*|[-+=][ugo])+`
fn clause(text: &str) -> Option<Vec<Clause>> {
    let operators = ['+', '-', '='];
    let at = text.find(operators)?;
    let (classes, mut rest) = text.split_at(at);
    let mut who = 0;
    for class in classes.chars() {
        who |= match class {
            'u' => USER,
            'g' => GROUP,
            'o' => OTHER,
            'a' => 0o7777,
            _ => return None,
        };
    }
    let who = if classes.is_empty() { 0o7777 } else { who };
    let mut clauses = Vec::new();
    while let Some(operator) = rest.chars().next() {
        let tail = &rest[1..];
        let end = tail.find(operators).unwrap_or(tail.len());
        clauses.push(Clause { who, operator, bits: bits(&tail[..end])? });
        rest = &tail[end..];
    }
    Some(clauses)
}

fn bits(letters: &str) -> Option<Bits> {
    match letters {
        "u" => return Some(Bits::Copied(6)),
        "g" => return Some(Bits::Copied(3)),
        "o" => return Some(Bits::Copied(0)),
        _ => {}
    }
    let (mut bits, mut search) = (0, false);
    for letter in letters.chars() {
        match letter {
            'r' => bits |= 0o444,
            'w' => bits |= 0o222,
            'x' => bits |= EXECUTE,
            's' => bits |= 0o6000,
            't' => bits |= 0o1000,
            'X' => search = true,
            _ => return None,
        }
    }
    Some(Bits::Given { bits, search })
}

impl ModeChange {
    /// The bits of `mode` (without its file type) afterwards.
    pub(crate) fn apply(&self, mode: u32, is_dir: bool) -> u32 {
        match self {
            ModeChange::Absolute(mode) => *mode,
            ModeChange::Clauses(clauses) => {
                clauses.iter().fold(mode & 0o7777, |mode, clause| clause.apply(mode, is_dir))
            }
        }
    }
}

impl Clause {
    fn apply(&self, mode: u32, is_dir: bool) -> u32 {
        let bits = match self.bits {
            Bits::Copied(shift) => ((mode >> shift) & 7) * EXECUTE,
            Bits::Given { bits, search } => {
                let searchable = search && (is_dir || mode & EXECUTE != 0);
                bits | if searchable { EXECUTE } else { 0 }
            }
        };
        let bits = bits & self.who;
        // As chmod(1) does: the set-id bits of a directory stay unless they are named.
        let kept = if is_dir { !self.who | 0o6000 } else { !self.who };
        match self.operator {
            '+' => mode | bits,
            '-' => mode & !bits,
            _ => mode & kept | bits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(text: &str, mode: u32, is_dir: bool) -> u32 {
        text.parse::<ModeChange>().unwrap_or_else(|error| panic!("{error}")).apply(mode, is_dir)
    }

    #[test]
    fn as_chmod_does() {
        for (text, before, is_dir, after) in [
            ("750", 0o644, false, 0o750),
            ("u+x", 0o644, false, 0o744),
            ("a+X", 0o644, false, 0o644),
            ("a+X", 0o744, false, 0o755),
            ("a+X", 0o700, true, 0o711),
            ("go-w,u=rw", 0o777, false, 0o655),
            ("g=u", 0o640, false, 0o660),
            ("o=", 0o777, false, 0o770),
            ("u+s,+t", 0o755, false, 0o5755),
            ("g+s", 0o755, true, 0o2755),
            ("a=rx", 0o2777, true, 0o2555),
            ("u-r+w", 0o400, false, 0o200),
        ] {
            assert_eq!(changed(text, before, is_dir), after, "{text} on {before:o}");
        }
        for text in ["", "999", "77777", "u", "u*x", "z+x", "u+q"] {
            assert!(text.parse::<ModeChange>().is_err(), "{text}");
        }
    }
}
