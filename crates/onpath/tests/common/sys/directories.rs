//! Directories.
#![allow(unsafe_code)]

use super::super::through;
use super::{R, call, open};
use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// One entry as getdents64 gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub ino: u64,
    /// Where the next getdents after this entry starts.
    pub next: i64,
    pub kind: u8,
    pub name: OsString,
}

/// One getdents64 into a buffer of that many bytes; empty at the end.
pub fn getdents(fd: impl AsFd, bytes: usize) -> R<Vec<Entry>> {
    if let Some(open) = through::of(&fd) {
        return open.getdents(bytes);
    }
    let mut buffer = vec![0_u8; bytes];
    let got = call!(libc::syscall(libc::SYS_getdents64, fd.as_fd().as_raw_fd(), buffer.as_mut_ptr(), bytes))?;
    let mut rest = &buffer[..got as usize];
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let length = usize::from(u16::from_ne_bytes([rest[16], rest[17]]));
        let name = rest[19..length].split(|&b| b == 0).next().unwrap_or_default();
        entries.push(Entry {
            ino: u64::from_ne_bytes(rest[..8].try_into().expect("8 bytes")),
            next: i64::from_ne_bytes(rest[8..16].try_into().expect("8 bytes")),
            kind: rest[18],
            name: OsString::from_vec(name.to_vec()),
        });
        rest = &rest[length..];
    }
    Ok(entries)
}

/// All entries from the descriptor's position on, "." and ".." left out.
pub fn entries(fd: impl AsFd) -> R<Vec<Entry>> {
    let mut all = Vec::new();
    loop {
        let page = getdents(&fd, 32 << 10)?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page.into_iter().filter(|e| e.name != "." && e.name != ".."));
    }
}

/// The sorted names in a directory, "." and ".." left out.
pub fn names(path: impl AsRef<Path>) -> R<Vec<OsString>> {
    let dir = open(path, libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    let mut names: Vec<OsString> = entries(dir)?.into_iter().map(|e| e.name).collect();
    names.sort();
    Ok(names)
}
