//! The file of secrets that all hosts and clients of a cluster share: lines `NAME = VALUE`, of which `key` is the one that seals messages.
//!
//! Lines of other names are somebody else's. A file with 64 hexadecimal digits and nothing else is a key, too.

use onpath_host::udp::Key;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Bytes of a key.
const KEY_BYTES: usize = 32;
/// The name of its line.
const KEY: &str = "key";

/// Why a key cannot be used.
#[derive(Debug, Error)]
pub(crate) enum KeyError {
    /// It cannot be read.
    #[error("key {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others may read it.
    #[error("key {} can be read by others (mode {mode:03o}): chmod 600 it, and draw a new one if somebody may have", file.display())]
    Open {
        /// The file.
        file: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A line is none.
    #[error("key {}:{line}: {why}; `onpath cluster init` draws a key and writes such a file", file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It has no key.
    #[error("key {}: no line `{KEY} = …`; `onpath cluster init` draws a key and writes such a file", file.display())]
    Missing {
        /// The file.
        file: PathBuf,
    },
}

/// Reads a key.
pub(crate) fn read(file: &Path) -> Result<Key, KeyError> {
    let at = |source| KeyError::Read { file: file.to_owned(), source };
    let mode = std::fs::metadata(file).map_err(at)?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Open { file: file.to_owned(), mode });
    }
    let text = std::fs::read_to_string(file).map_err(at)?;
    match parse(&text) {
        Ok(Some(key)) => Ok(Key::new(key)),
        Ok(None) => Err(KeyError::Missing { file: file.to_owned() }),
        Err((line, why)) => Err(KeyError::Malformed { file: file.to_owned(), line, why }),
    }
}

/// The key in a file; an error is the number of a line and what is wrong with it.
fn parse(text: &str) -> Result<Option<[u8; KEY_BYTES]>, (usize, &'static str)> {
    if let Some(key) = digits(text.trim()) {
        return Ok(Some(key));
    }
    let mut found = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line.split_once('=').ok_or((number, "not NAME = VALUE"))?;
        if name.trim() != KEY {
            continue;
        }
        let key = digits(value.trim()).ok_or((number, "a key has 64 hexadecimal digits"))?;
        if found.replace(key).is_some() {
            return Err((number, "a second key"));
        }
    }
    Ok(found)
}

fn digits(text: &str) -> Option<[u8; KEY_BYTES]> {
    let digits = text.as_bytes();
    let mut key = [0; KEY_BYTES];
    if digits.len() != 2 * KEY_BYTES {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
        let [high, low] = [pair[0], pair[1]].map(|digit| (digit as char).to_digit(16));
        *byte = (high? << 4 | low?) as u8;
    }
    Some(key)
}

/// What a file with this key holds.
pub(crate) fn text(key: &[u8; KEY_BYTES]) -> String {
    let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "# Secrets of a cluster of Onpath, the same file on every host and client, mode 600; docs/cluster.md describes it.\n\
         {KEY} = {digits}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        let key = std::array::from_fn(|i| i as u8 * 7);
        let text = text(&key);
        assert_eq!(parse(&text), Ok(Some(key)));
        let line = text.lines().last().unwrap();
        let bare = line.strip_prefix("key = ").unwrap();
        for same in [bare.to_owned(), format!("{bare}\n"), format!("other=1\n\n key={bare} \n# key = 7\n")] {
            assert_eq!(parse(&same), Ok(Some(key)), "{same}");
        }
        assert_eq!(parse(&format!("{line}\n{line}\n")), Err((2, "a second key")));
        for (wrong, at) in [("12", 1), ("a = b\nkey = 12", 2), (&*format!("key = {}", "é".repeat(32)), 1)] {
            assert_eq!(parse(wrong).unwrap_err().0, at, "{wrong}");
        }
        for none in ["", "# nothing\n", "other = 12"] {
            assert_eq!(parse(none), Ok(None));
        }
    }
}
