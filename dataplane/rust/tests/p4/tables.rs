//! The decision tables of the P4 form, read from its text.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4")
}

pub(crate) fn text(name: &str) -> String {
    let path = dir().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn without_comments(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// What an element of a key matches.
pub(crate) type Mask = (u64, u64);

/// An entry of a decision table: keys, action, arguments.
pub(crate) struct Entry {
    pub(crate) keys: Vec<Mask>,
    pub(crate) action: String,
    pub(crate) arguments: Vec<u64>,
}

pub(crate) struct Tables {
    pub(crate) constants: BTreeMap<String, u64>,
}

impl Tables {
    pub(crate) fn read() -> Tables {
        let mut tables = Tables { constants: BTreeMap::new() };
        for name in ["common/innet.p4", "common/headers.p4", "cache/innet.p4", "cache/headers.p4"] {
            for line in without_comments(&text(name)).lines().filter_map(|line| line.strip_prefix("const bit<")) {
                let (name, value) = line.split_once("> ").and_then(|(_, rest)| rest.split_once(" = ")).expect(line);
                if let Some(value) = tables.number(value.trim_end_matches(';')) {
                    tables.constants.insert(name.to_owned(), value);
                }
            }
        }
        tables
    }

    pub(crate) fn number(&self, word: &str) -> Option<u64> {
        let word = word.trim().trim_start_matches("(bit<8>)");
        let digits = word.split_once('w').map_or(word, |(_, digits)| digits);
        match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => digits.parse().ok().or_else(|| self.constants.get(word).copied()),
        }
    }

    fn mask(&self, word: &str) -> Mask {
        let value = |word: &str| self.number(word).unwrap_or_else(|| panic!("{word:?} is no number"));
        match word.trim() {
            "_" => (0, 0),
            word => {
                word.split_once("&&&").map_or_else(|| (value(word), u64::MAX), |(of, mask)| (value(of), value(mask)))
            }
        }
    }

    /// The entries of the one decision table of a file, and its default action.
    pub(crate) fn entries(&self, file: &str) -> (Vec<Entry>, String) {
        self.entries_of(file, "")
    }

    /// The same of one table of several. Lines of the preprocessor are left out.
    pub(crate) fn entries_of(&self, file: &str, table: &str) -> (Vec<Entry>, String) {
        let text = without_comments(&text(file));
        let text: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let text = text.join("\n");
        let text = text.split(&format!("table {table}")).nth(1).expect("a table");
        let body = text.split("const entries = {").nth(1).expect("entries");
        let default = body.split("const default_action = ").nth(1).and_then(|rest| rest.split('(').next());
        let entries = body.split("\n        }").next().expect("an end").split(";\n").filter(|line| line.contains("):"));
        let entry = |line: &str| {
            let (keys, call) = line.rsplit_once("): ").expect(line);
            let keys = keys.trim().strip_prefix('(').expect(line).split(',').map(|word| self.mask(word)).collect();
            let (action, arguments) = call.split_once('(').expect(line);
            let arguments = arguments.trim_end_matches([';', ')']).split(',').filter(|word| !word.trim().is_empty());
            let arguments = arguments.map(|word| self.number(word).expect(line)).collect();
            Entry { keys, action: action.to_owned(), arguments }
        };
        (entries.map(entry).collect(), default.expect("a default").to_owned())
    }

    pub(crate) fn value(&self, name: &str) -> u64 {
        self.constants[name]
    }
}

/// The first entry that these values match.
pub(crate) fn lookup<'t>(entries: &'t [Entry], values: &[u64]) -> Option<&'t Entry> {
    entries.iter().find(|entry| {
        assert_eq!(entry.keys.len(), values.len(), "elements of a key");
        entry.keys.iter().zip(values).all(|((value, mask), is)| is & mask == value & mask)
    })
}
