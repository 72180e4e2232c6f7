//! What the entries of a directory amount to, as its servers say.

use crate::walk::Tree;
use onpath_wire::xattr::DIRECTORY_SUM;
use std::ffi::CString;

/// Longest answer that is understood, bytes: a handful of words and numbers.
const VALUE_BYTES_MAX: usize = 1024;

/// Its own entries, all together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) files: u64,
    pub(super) directories: u64,
    pub(super) others: u64,
    /// Sizes of files.
    pub(super) bytes: u64,
    /// What everything but the directories takes on disk.
    pub(super) allocated: u64,
    /// Entries that may have further names.
    linked: u64,
}

impl Sum {
    /// Of an open directory. None on other file systems, for who may not list or search it, and where names of other directories have
    /// to be known, too: then each entry is to be looked at.
    pub(super) fn of<T: Tree>(tree: &T, dir: &T::Dir) -> Option<Sum> {
        let name = CString::new(DIRECTORY_SUM).expect("no zero in a name");
        let value = tree.attribute(dir, &name, VALUE_BYTES_MAX)?;
        Sum::parse(&value).filter(|sum| sum.linked == 0)
    }

    fn parse(value: &[u8]) -> Option<Sum> {
        let text = std::str::from_utf8(value).ok()?;
        let of = |word: &str| {
            let mut rows = text.lines().filter_map(|line| line.split_once(' '));
            rows.find(|(key, _)| *key == word)?.1.parse().ok()
        };
        Some(Sum {
            files: of("files")?,
            directories: of("directories")?,
            others: of("others")?,
            bytes: of("bytes")?,
            allocated: of("allocated")?,
            linked: of("linked")?,
        })
    }
}

#[cfg(feature = "fuzzing")]
pub(super) fn parse(value: &[u8]) {
    Sum::parse(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_sums_are_understood() {
        let value = "entries 6\nfiles 1\ndirectories 2\nothers 3\nbytes 4\nallocated 5\nlinked 6\n";
        let sum = Sum { files: 1, directories: 2, others: 3, bytes: 4, allocated: 5, linked: 6 };
        assert_eq!(Sum::parse(value.as_bytes()).as_ref(), Some(&sum));
        assert_eq!(Sum::parse(format!("{value}what a later server says\nmore 7\n").as_bytes()), Some(sum));
        for (part, instead) in
            [("linked 6\n", ""), ("files 1", "files -1"), ("bytes 4", "bytes"), ("others", "\u{fffd}")]
        {
            assert_eq!(Sum::parse(value.replace(part, instead).as_bytes()), None, "{instead}");
        }
        assert_eq!(Sum::parse(b"files \xff"), None);
    }
}
