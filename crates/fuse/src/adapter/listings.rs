//! Whether listings are worth the attributes that they may carry.
//!
//! An entry with attributes costs about ten times one without, and spares a LOOKUP, which costs about ten times that again: worth it for
//! `ls -l`, `find -size` or `rm -r`, wasted on a plain scan. So one entry in [`SAMPLE`] is left without, and who looks that one up
//! shows that the others are used as well. After [`UNUSED_MAX`] entries of which none was, listings are plain until somebody looks up
//! an entry that they have sampled.

use onpath_session::fs::FsReply;
use onpath_wire::hash::name_hash;
use onpath_wire::ids::{Cookie, InodeId};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::reply::DirEntry;

/// One entry in so many is given without attributes.
const SAMPLE: u32 = 64;
/// So many entries are given with attributes that nobody seems to use: more than programs read before they look at the first (fts(3): 10,000).
const UNUSED_MAX: u32 = 16_384;
/// Entries whose LOOKUP would tell: of more than [`UNUSED_MAX`] entries, and of many plain pages.
const SAMPLES: usize = 512;

/// What became of the entries of listings.
#[derive(Debug)]
pub(super) struct Usage {
    /// Entries given with attributes since somebody was seen to use them.
    unused: u32,
    /// Hashes of names that were given without, the oldest overwritten.
    samples: [u64; SAMPLES],
    next: usize,
}

impl Default for Usage {
    fn default() -> Self {
        Usage { unused: 0, samples: [0; SAMPLES], next: 0 }
    }
}

impl Usage {
    /// Whether the next page is to have attributes.
    pub(super) fn is_likely(&self) -> bool {
        self.unused < UNUSED_MAX
    }

    /// A name is looked up.
    pub(super) fn looked_up(&mut self, directory: InodeId, name: &Name) {
        if self.unused > 0 && self.samples.contains(&name_hash(directory, name.as_bytes())) {
            self.unused = 0;
        }
    }

    /// A page is about to be given: takes the attributes of its samples away.
    pub(super) fn sample(&mut self, directory: InodeId, page: &mut FsReply) {
        // Directories are looked up by those who look at nothing else, as they go down.
        let tells = |entry: &DirEntry| entry.cookie > Cookie::DOTDOT && entry.kind != Kind::Directory;
        match page {
            FsReply::Dir(entries) => {
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
    }

    fn add(&mut self, directory: InodeId, entry: &DirEntry) {
        self.samples[self.next] = name_hash(directory, entry.name.as_bytes());
        self.next = (self.next + 1) % SAMPLES;
    }
}
