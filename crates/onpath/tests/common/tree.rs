//! Whole trees: what is in them, and whether two are the same.

use super::check::errno_name;
use super::sys;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Which times a comparison looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// None.
    Ignored,
    /// mtime of everything, directories included.
    Mtime,
}

/// A tree as text: one line an object, by its path from the top.
pub type Listing = BTreeMap<PathBuf, String>;

/// Lists everything below `top` (and `top` itself): kind, mode, owner, size, content's hash, symlink target, and mtime if wanted.
pub fn list(top: &Path, times: Times) -> Listing {
    let mut listing = Listing::new();
    let mut todo = vec![PathBuf::new()];
    while let Some(relative) = todo.pop() {
        let path = top.join(&relative);
        let stat = sys::lstat(&path).unwrap_or_else(|errno| panic!("lstat {}: {}", path.display(), errno_name(errno)));
        if stat.kind() == libc::S_IFDIR {
            let names =
                sys::names(&path).unwrap_or_else(|errno| panic!("readdir {}: {}", path.display(), errno_name(errno)));
            todo.extend(names.into_iter().map(|name| relative.join(name)));
        }
        listing.insert(relative, describe(&path, &stat, times));
    }
    listing
}

fn describe(path: &Path, stat: &sys::Stat, times: Times) -> String {
    let mut line = format!("{:o} {}:{}", stat.mode, stat.uid, stat.gid);
    match stat.kind() {
        libc::S_IFREG => {
            let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
            line += &format!(" nlink {} size {} content {:016x}", stat.nlink, stat.size, hash(&bytes));
            assert_eq!(bytes.len() as i64, stat.size, "size of {}", path.display());
        }
        libc::S_IFLNK => {
            let target =
                std::fs::read_link(path).unwrap_or_else(|error| panic!("readlink {}: {error}", path.display()));
            line += &format!(" → {:016x} {}", hash(target.as_os_str().as_bytes()), target.display());
        }
        libc::S_IFDIR => line += &format!(" nlink {}", stat.nlink),
        _ => line += &format!(" rdev {}", stat.rdev),
    }
    if times == Times::Mtime {
        line += &format!(" mtime {}.{:09}", stat.mtime.s, stat.mtime.ns);
    }
    line
}

/// FNV-1a: enough to tell different contents apart, the same everywhere.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Fails the test unless both trees are the same; shows the first differences.
pub fn assert_same(what: &str, expected: &Listing, got: &Listing) {
    let mut differences = Vec::new();
    for (path, line) in expected {
        match got.get(path) {
            None => differences.push(format!("{}: missing (expected {line})", path.display())),
            Some(other) if other != line => {
                differences.push(format!("{}: expected {line}, got {other}", path.display()))
            }
            Some(_) => {}
        }
    }
    differences.extend(
        got.iter()
            .filter(|(path, _)| !expected.contains_key(*path))
            .map(|(path, line)| format!("{}: too much ({line})", path.display())),
    );
    let shown = differences.len().min(20);
    assert!(
        differences.is_empty(),
        "{what}: {} differences of {} objects:\n{}",
        differences.len(),
        expected.len(),
        differences[..shown].join("\n")
    );
}
