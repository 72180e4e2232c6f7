//! The key that all hosts and clients of a cluster share: 64 hexadecimal digits in a file.

use onpath_host::udp::Key;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Bytes of a key.
const KEY_BYTES: usize = 32;

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
    /// It is no key.
    #[error("key {}: not 64 hexadecimal digits; `onpath cluster init --key-file` draws one", file.display())]
    Malformed {
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
    parse(text.trim()).map(Key::new).ok_or_else(|| KeyError::Malformed { file: file.to_owned() })
}

fn parse(text: &str) -> Option<[u8; KEY_BYTES]> {
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
    key.iter().map(|byte| format!("{byte:02x}")).chain(["\n".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        let key = std::array::from_fn(|i| i as u8 * 7);
        assert_eq!(parse(text(&key).trim()), Some(key));
        for wrong in ["", "12", &"g".repeat(64), &"1".repeat(63), &"é".repeat(32)] {
            assert_eq!(parse(wrong), None);
        }
    }
}
