//! What a million files cost in memory, all tables together: at most 200 bytes each (design.md, "Objects and places").
//!
//! Run with `--nocapture` to see the parts, and with `--release` for times that mean something.

use onpath_store::{Inodes, Listings, Memory, NameValue, Names};
use onpath_wire::disk::inode::Inode;
use onpath_wire::ids::{Birth, Generation, InodeId, Stamp};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::secrets::Secrets;
use std::time::Instant;

const FILES: u64 = 1_000_000;
const BYTES_A_FILE_MAX: f64 = 200.0;
const BIRTH: i64 = 1_790_000_000_000_000_000;

struct Shard {
    names: Names,
    inodes: Inodes,
    listings: Listings,
    counts: Vec<u32>,
}

impl Shard {
    fn new() -> Shard {
        let Secrets { placement, inner } = Secrets::of_seed(9);
        let (names, inodes) = (Names::new(placement, inner.names()), Inodes::default());
        Shard { names, inodes, listings: Listings::new(inner.listings()), counts: vec![0; 1 << 16] }
    }

    /// A directory or file as create leaves it; returns its id.
    fn create(&mut self, parent: InodeId, name: &[u8], kind: Kind, now: i64) -> InodeId {
        let name_there = Name::new(name).expect("a name");
        let at = self.names.at(parent, &name_there);
        let count = &mut self.counts[at.slot().0 as usize];
        *count += 1;
        let child = InodeId::new(at.slot(), Birth(5), *count as u16, kind);
        self.names.put(&at, NameValue { child, kind });
        let stamp = Stamp(now as u64);
        let (mtime_stamp, generation) = (stamp, Generation(5 << 32 | u64::from(*count)));
        let times = Inode { atime: now, mtime: now, ctime: now, btime: now, mtime_stamp, ..Inode::new(child, kind) };
        self.inodes.put(&Inode { mode: 0o644, uid: 1000, gid: 100, parent, generation, ..times }, true);
        self.listings.put(parent, name, child, kind);
        self.inodes.touch_dir(parent, 1, 0, stamp);
        child
    }

    fn report(&self, title: &str, objects: u64) -> f64 {
        let bytes = |memory: Memory| memory.total() as f64 / FILES as f64;
        let parts = [self.names.memory(), self.inodes.memory(), self.listings.memory()];
        let total: f64 = parts.iter().copied().map(bytes).sum();
        println!("{title}: {total:.1} bytes a file, {:.1} an object", total * FILES as f64 / objects as f64);
        for (what, part) in ["names", "inodes", "listings"].into_iter().zip(parts) {
            let (free, tables) = (part.free as f64 / FILES as f64, part.tables as f64 / FILES as f64);
            println!("  {what:9} {:6.1}  (tables {tables:.1}, free {free:.1})", bytes(part));
        }
        total
    }
}

fn name(i: u64) -> [u8; 20] {
    let mut name = *b"file.............dat";
    let digits = format!("{i:012}");
    name[4..16].copy_from_slice(digits.as_bytes());
    name
}

/// `dirs` directories with a million written files in all.
fn fill(dirs: u64) -> f64 {
    let mut shard = Shard::new();
    let begin = Instant::now();
    let parents: Vec<InodeId> =
        (0..dirs).map(|i| shard.create(InodeId::ROOT, &name(i), Kind::Directory, BIRTH)).collect();
    let files: Vec<InodeId> = (0..FILES)
        .map(|i| shard.create(parents[(i % dirs) as usize], &name(i), Kind::File, BIRTH + i as i64))
        .collect();
    let created = begin.elapsed();
    let empty = shard.report(&format!("{dirs} directories, empty files"), FILES + dirs);
    let begin = Instant::now();
    for (i, &file) in files.iter().enumerate() {
        assert!(shard.inodes.merged(file, 10_000, 3, 1, false, Stamp(BIRTH as u64 + FILES + i as u64)));
    }
    let merged = begin.elapsed();
    let written = shard.report(&format!("{dirs} directories, written files"), FILES + dirs);
    println!("  create {} ns, merge {} ns", created.as_nanos() as u64 / FILES, merged.as_nanos() as u64 / FILES);
    assert_eq!((shard.names.len(), shard.inodes.len()), (FILES + dirs, FILES + dirs));
    assert_eq!(parents.iter().map(|&dir| shard.listings.len(dir)).sum::<u64>(), FILES);
    empty.max(written)
}

#[test]
fn a_file_takes_at_most_200_bytes() {
    for dirs in [1, 1_000] {
        let bytes = fill(dirs);
        assert!(bytes <= BYTES_A_FILE_MAX, "{bytes} bytes a file in {dirs} directories");
    }
}
