//! Whether listings are worth the attributes that they may carry.
//!
//! An entry with attributes costs about ten times one without, and spares a LOOKUP, which costs about ten times that again: worth it for
//! `ls -l`, `find -size` or `rm -r`, wasted on a plain scan. So one entry in [`SAMPLE`] is left without, and who looks that one up
//! shows that the others are used as well. After as many as are allowed of which none was, listings are plain until somebody looks up one
//! of theirs; then more are allowed, since there are programs that read all of a directory before they look at the first entry.

use onpath_session::fs::FsReply;
use onpath_wire::ids::{Cookie, InodeId};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::reply::DirEntry;
use std::hash::{BuildHasher, RandomState};

/// One entry in so many is given without attributes.
const SAMPLE: u32 = 256;
/// So many entries are allowed at first: more than fts(3) reads before it looks at one, 10,000.
const ALLOWED: u32 = 1 << 14;
/// So many at most: each may take a kilobyte of the kernel's memory, until that has better use for it.
const ALLOWED_MAX: u32 = 1 << 18;
/// After so many unused ones, with attributes or without, it is as at first.
const UNUSED_MAX: u32 = 1 << 20;
/// Samples that are remembered: all of the entries that may be allowed.
const SAMPLES: usize = (ALLOWED_MAX / SAMPLE) as usize;

/// What became of the entries of listings.
#[derive(Debug)]
pub(super) struct Usage {
    /// Entries given since somebody was seen to use them.
    unused: u32,
    /// So many of them may have attributes.
    allowed: u32,
    /// Hashes of names that were given without, the oldest overwritten.
    samples: [u64; SAMPLES],
    next: usize,
    hasher: RandomState,
}

impl Default for Usage {
    fn default() -> Self {
        Usage { unused: 0, allowed: ALLOWED, samples: [0; SAMPLES], next: 0, hasher: RandomState::new() }
    }
}

impl Usage {
    /// Whether the next page is to have attributes.
    pub(super) fn is_likely(&self) -> bool {
        self.unused < self.allowed
    }

    /// A name is looked up.
    pub(super) fn looked_up(&mut self, directory: InodeId, name: &Name) {
        if self.unused > 0 && self.samples.contains(&self.hash(directory, name)) {
            if !self.is_likely() {
                self.allowed = ALLOWED_MAX.min(self.allowed * 4);
            }
            self.unused = 0;
        }
    }

    /// A page is about to be given: takes the attributes of its samples away.
    pub(super) fn sample(&mut self, directory: InodeId, page: &mut FsReply) {
        // Directories are looked up by those who look at nothing else, as they go down.
        let tells = |entry: &DirEntry| entry.cookie > Cookie::DOTDOT && entry.kind != Kind::Directory;
        match page {
            FsReply::Dir(entries) => {
                self.unused = self.unused.saturating_add(entries.len() as u32);
                entries.iter().find(|entry| tells(entry)).into_iter().for_each(|entry| self.add(directory, entry));
            }
            FsReply::DirPlus(entries) => {
                for (entry, attr) in entries.iter_mut().filter(|(entry, attr)| attr.is_some() && tells(entry)) {
                    self.unused += 1;
                    if self.unused.is_multiple_of(SAMPLE) {
                        *attr = None;
                        self.add(directory, entry);
                    }
                }
            }
            _ => {}
        }
        if self.unused >= UNUSED_MAX {
            self.allowed = ALLOWED;
        }
    }

    fn hash(&self, directory: InodeId, name: &Name) -> u64 {
        self.hasher.hash_one((directory.0, name.as_bytes()))
    }

    fn add(&mut self, directory: InodeId, entry: &DirEntry) {
        self.samples[self.next] = self.hash(directory, &entry.name);
        self.next = (self.next + 1) % SAMPLES;
    }
}
