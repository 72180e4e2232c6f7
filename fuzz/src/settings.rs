//! Configurations, keys, command lines, and what other processes tell people.

use crate::memory::{at_most, for_input};
use onpath::fuzzing;
use std::ffi::OsString;
use std::hint::black_box;
use std::os::unix::ffi::OsStringExt;

/// What the description of the command line, or a table on a terminal, takes.
const TABLES: usize = 16 << 20;
/// Bytes of memory for one of a document.
const A_BYTE: usize = 2_048;

/// A configuration of a cluster, a file of keys, a URL: whatever a text is.
pub fn configuration(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let wrong = at_most(A_BYTE * text.len() + (1 << 16), || fuzzing::cluster(text));
    assert!(wrong.is_none_or(|wrong| !wrong.is_empty()));
    if let Some(again) = for_input(text.len(), || fuzzing::key_file(text)) {
        assert_eq!(fuzzing::key_file(&again).as_ref(), Some(&again), "what was read can be written and read again");
    }
    let places = for_input(text.len(), || fuzzing::url(text)).unwrap_or_default();
    assert!(places.iter().all(|(name, port)| !name.is_empty() && *port != 0));
}

/// A command line, its words ended by zeros: one of `onpath`, one of the mount helper, and words of tools for trees.
pub fn command_line(input: &[u8]) {
    let words = |name: &str| {
        let given = input.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec()));
        [OsString::from(name)].into_iter().chain(given).collect::<Vec<_>>()
    };
    match input.first() {
        Some(b'!') => fuzzing::tree(&input[1..]),
        Some(b'@') => {
            black_box(at_most(TABLES + A_BYTE * input.len(), || fuzzing::mount_helper(words("mount.onpath"))));
        }
        _ => {
            black_box(at_most(TABLES + A_BYTE * input.len(), || fuzzing::command_line(words("onpath"))));
        }
    }
}

/// What other processes tell: reports, which are shown, requests of those who scrape, marks of unfinished copies.
pub fn told(input: &[u8]) {
    let Some((&kind, bytes)) = input.split_first() else { return };
    match kind & 3 {
        0 => assert!(!for_input(bytes.len(), || fuzzing::scrape(bytes)).is_empty()),
        1 => {
            black_box(for_input(bytes.len(), || fuzzing::mark(bytes)));
        }
        _ => {
            let Ok(text) = std::str::from_utf8(bytes) else { return };
            let texts: Vec<&str> = text.split('\0').collect();
            black_box(at_most(TABLES + A_BYTE * text.len(), || fuzzing::reports(&texts)));
        }
    }
}
