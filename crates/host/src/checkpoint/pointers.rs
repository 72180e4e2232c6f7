//! Pointers in the file of a store. The store's library takes memory for as large a page as a pointer tells of, up to 4 GiB, before it
//! reads the page and finds that its checksum is another one, and a process that lacks this memory ends. So a pointer that is damaged
//! must not come to it:
//!
//! * When a store is opened, what leads to the roots of its tables is read and checked here first ([`check`]).
//! * When it reads on, a page whose pointers lead out of the file is an error ([`check_page`]).
//!
//! A pointer of a branch that is damaged, but leads to a place in the file, still takes as much memory as that place is large. What is
//! there cannot be compared with its checksum here: of a transaction under way the library writes branches before what they point to,
//! and without checksums. When all of a file is looked at, the library compares the checksum of a branch before it follows it.
//!
//! | at | what the header has, little-endian |
//! |---|---|
//! | 0 | 9 bytes that all such files begin with |
//! | 9 | flags |
//! | 12, 16, 20 | bytes of a page, pages before the data of a region, pages of a region |
//! | 64, 192 | two states: version, whether there are a root of the tables and one of the library's own, both; at 112 a checksum |
//!
//! A root, as a child of a branch, is a pointer and the checksum of the page that it leads to (XXH3, 128 bits).

use super::{CheckpointError, at};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_128;

const HEADER_BYTES: usize = 320;
const MAGIC: &[u8] = b"redb\x1a\x0a\xa9\x0d\x0a";
const FLAGS_AT: usize = 9;
const GEOMETRY_AT: usize = 12;
/// Flag: the second state is the one that counts.
const SECOND: u8 = 1;
/// Flag: the file was not closed.
const UNCLOSED: u8 = 2;
/// Flag: the state that counts was durable before it did.
const TWO_PHASE: u8 = 4;

const STATES_AT: usize = 64;
const STATE_BYTES: usize = 128;
const STATE_VERSION: u8 = 3;
/// Where a state says whether it has a root, and where that is.
const ROOTS_AT: [(usize, usize); 2] = [(1, 8), (2, 40)];
const STATE_CHECKSUM_AT: usize = 112;

const PAGE_BYTES: u64 = 4096;
const REGION_PAGES: u32 = 1 << 20;
const REGION_BYTES: u64 = PAGE_BYTES * REGION_PAGES as u64;
/// Kinds of pages, by their first byte.
const LEAF: u8 = 1;
const BRANCH: u8 = 2;
/// Where the description of a table says whether it has a root, and where that is.
const TABLE_ROOT_AT: (usize, usize) = (9, 10);

/// Why a file cannot be given to the library.
enum Fault {
    Io(io::Error),
    Damaged(String),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Io(error)
    }
}

fn damaged<T>(why: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Damaged(why.into()))
}

/// What a pointer leads to, and what is there.
#[derive(Clone, Copy)]
struct Child {
    pointer: u64,
    checksum: u128,
}

impl Child {
    /// Where that begins and ends. A pointer has the number of a page among those of its size in the lowest 20 bits, its region in
    /// the next 20, and the exponent of its size in the highest 5.
    fn range(self) -> (u64, u64) {
        let exponent = self.pointer >> 59;
        let number = self.pointer & (0xf_ffff >> exponent);
        let region = (self.pointer >> 20) & 0xf_ffff;
        let bytes = PAGE_BYTES << exponent;
        let begin = PAGE_BYTES + region * REGION_BYTES + number * bytes;
        (begin, begin + bytes)
    }

    fn leads_out_of(self, file_bytes: u64) -> bool {
        self.range().1 > file_bytes
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    array(bytes, at).map(|four| u32::from_le_bytes(four) as usize)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

fn u128_at(bytes: &[u8], at: usize) -> Option<u128> {
    array(bytes, at).map(u128::from_le_bytes)
}

/// Keys of a branch or a leaf.
fn keys(page: &[u8]) -> Option<usize> {
    array(page, 2).map(|two| u16::from_le_bytes(two).into())
}

/// The children of a branch: all checksums, then all pointers.
fn children(page: &[u8]) -> Option<Vec<Child>> {
    let all = keys(page)? + 1;
    let child = |n| Some(Child { checksum: u128_at(page, 8 + 16 * n)?, pointer: u64_at(page, 8 + 16 * all + 8 * n)? });
    (0..all).map(child).collect()
}

/// The bytes of a page that its checksum is of; of a page of a tree whose keys and values have lengths of their own.
fn used(page: &[u8]) -> Option<&[u8]> {
    let keys = keys(page)?;
    let last = keys.checked_sub(1)?;
    let end = match page[0] {
        LEAF => u32_at(page, 4 + 4 * keys + 4 * last)?,
        BRANCH => u32_at(page, 8 + 24 * (keys + 1) + 4 * last)?,
        _ => return None,
    };
    page.get(..end)
}

/// Pointers to the roots of the tables that a leaf of their names has.
fn table_roots(leaf: &[u8]) -> Option<Vec<u64>> {
    let keys = keys(leaf)?;
    let mut begin = u32_at(leaf, 4 * keys)?;
    let mut roots = Vec::new();
    for n in 0..keys {
        let end = u32_at(leaf, 4 + 4 * keys + 4 * n)?;
        let table = leaf.get(begin..end)?;
        if *table.get(TABLE_ROOT_AT.0)? != 0 {
            roots.push(u64_at(table, TABLE_ROOT_AT.1)?);
        }
        begin = end;
    }
    Some(roots)
}

/// Checks what leads to the roots of all tables, and that these are in the file. One that is empty will be made a store.
pub(super) fn check(file: &File, path: &Path) -> Result<(), CheckpointError> {
    check_file(file).map_err(|fault| match fault {
        Fault::Io(source) => at(path)(source),
        Fault::Damaged(why) => CheckpointError::Store { file: path.to_owned(), why },
    })
}

fn check_file(file: &File) -> Result<(), Fault> {
    let file_bytes = file.metadata()?.len();
    if file_bytes == 0 {
        return Ok(());
    }
    let mut header = [0; HEADER_BYTES];
    if file_bytes < HEADER_BYTES as u64 {
        return damaged("it ends inside its header");
    }
    file.read_exact_at(&mut header, 0)?;
    for root in roots(&header)? {
        check_names(file, file_bytes, root)?;
    }
    Ok(())
}

/// The roots of the trees of names of tables. But for the states, the header has no checksum: it is compared with what all stores have.
fn roots(header: &[u8; HEADER_BYTES]) -> Result<Vec<Child>, Fault> {
    if !header.starts_with(MAGIC) {
        return damaged("it is no store of Onpath");
    }
    let flags = header[FLAGS_AT];
    let at = |second: bool| STATES_AT + usize::from(second) * STATE_BYTES;
    if [false, true].iter().any(|&second| header[at(second)] != STATE_VERSION) {
        // The library tells what version it is, and reads no page of it.
        return Ok(vec![]);
    }
    // All states are written in two phases. Of a file that denies it the library would follow the older state, too, whose checksum may be
    // wrong: in other files that is what a write was at when it was cut off.
    if flags & !(SECOND | UNCLOSED) != TWO_PHASE {
        return damaged(format!("the flags in its header are {flags:#04x}, which no store has"));
    }
    let geometry = [0, 4, 8].map(|at| u32_at(header, GEOMETRY_AT + at).unwrap_or(0));
    if geometry != [PAGE_BYTES as usize, 0, REGION_PAGES as usize] {
        return damaged(format!("its header tells of pages and regions of {geometry:?}, which no store has"));
    }
    let state = &header[at(flags & SECOND != 0)..][..STATE_BYTES];
    if u128_at(state, STATE_CHECKSUM_AT) != Some(xxh3_128(&state[..STATE_CHECKSUM_AT])) {
        return damaged("what its header tells of its tables does not check");
    }
    let there = ROOTS_AT.iter().filter(|(flag, _)| state[*flag] != 0);
    let root =
        |(_, at): &(usize, usize)| Some(Child { pointer: u64_at(state, *at)?, checksum: u128_at(state, at + 8)? });
    Ok(there.filter_map(root).collect())
}

/// Checks the tree of the names of tables below `root`.
fn check_names(file: &File, file_bytes: u64, root: Child) -> Result<(), Fault> {
    let mut next = vec![root];
    let mut pages = file_bytes / PAGE_BYTES;
    while let Some(child) = next.pop() {
        let (begin, end) = child.range();
        if child.leads_out_of(file_bytes) || pages == 0 {
            return damaged(OUT);
        }
        pages -= 1;
        let mut page = vec![0; (end - begin) as usize];
        file.read_exact_at(&mut page, begin)?;
        if used(&page).map(xxh3_128) != Some(child.checksum) {
            return damaged(format!("the page at {begin} does not check"));
        }
        if page[0] == BRANCH {
            next.extend(children(&page).into_iter().flatten());
            continue;
        }
        let out = |pointer| Child { pointer, checksum: 0 }.leads_out_of(file_bytes);
        if table_roots(&page).is_none_or(|roots| roots.into_iter().any(out)) {
            return damaged(OUT);
        }
    }
    Ok(())
}

/// What is wrong with a page whose pointers cannot be followed.
const OUT: &str = "a page points beyond the end of the file";

/// Checks the pointers of a page of whichever tree. Its checksum is known to nobody here: the library compares it when all of the file is
/// looked at. Objects have their own.
pub(super) fn check_page(page: &[u8], file_bytes: impl FnOnce() -> io::Result<u64>) -> io::Result<()> {
    if page.first() != Some(&BRANCH) {
        return Ok(());
    }
    let file_bytes = file_bytes()?;
    match children(page) {
        Some(all) if !all.iter().any(|child| child.leads_out_of(file_bytes)) => Ok(()),
        // As if it had been read.
        _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, OUT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::Store;
    use onpath_store::{Changes, Image};
    use onpath_wire::disk::superblock::JournalId;
    use onpath_wire::ids::{Lsn, NodeId, RecordSeq, ShardId};
    use std::fs;

    const JOURNAL: JournalId = JournalId { fsid: 7, number: 1, created: 9 };
    const SHARD: ShardId = ShardId(0);
    /// Exponent of the size of a page in the highest byte of a pointer, and of how large a one nothing of this file is.
    const EXPONENT: u8 = 17 << 3;

    /// A store with two states and branches, in a file by itself.
    struct Made {
        dir: tempfile::TempDir,
        whole: Vec<u8>,
    }

    impl Made {
        fn new() -> Made {
            let dir = tempfile::tempdir().unwrap();
            let store = Store::open_unserved(dir.path(), JOURNAL).unwrap();
            for lsn in 1..4 {
                let mut draft = store.begin().unwrap();
                let object = |number: u32| (number.to_be_bytes().to_vec(), vec![lsn as u8; 400]);
                let changes = Changes { put: (0..200).map(object).collect(), removed: vec![] };
                draft.put(NodeId::shard(SHARD), 0, Image { upto: RecordSeq(lsn), changes, rest: vec![] }).unwrap();
                draft.commit(Lsn(lsn)).unwrap();
            }
            drop(store);
            let whole = fs::read(dir.path().join("objects.redb")).unwrap();
            Made { dir, whole }
        }

        /// What becomes of it with these changes: when it is looked at, and when it is opened and all objects are read.
        fn read(&self, change: impl FnOnce(&mut [u8])) -> [Result<usize, String>; 2] {
            let mut bytes = self.whole.clone();
            change(&mut bytes);
            let (dir, path) = (self.dir.path(), self.dir.path().join("objects.redb"));
            let count = |store: Store| {
                let mut found = 0;
                store.objects(NodeId::shard(SHARD), &mut |_, value| value.map(|_| found += 1)).map(|()| found)
            };
            fs::write(&path, &bytes).unwrap();
            let looked = Store::look(dir, 1, JOURNAL).and_then(|store| count(store.expect("there is a store")));
            fs::write(&path, &bytes).unwrap();
            let opened = Store::open_unserved(dir, JOURNAL).and_then(count);
            [looked, opened].map(|read| read.map_err(|error| error.to_string()))
        }

        /// It is refused in these words, looked at and opened.
        fn expect_refused(&self, why: &str, change: impl FnOnce(&mut [u8])) {
            for read in self.read(change) {
                let error = read.expect_err(why);
                assert!(error.contains(why) && error.contains("objects.redb") && error.contains("backup"), "{error}");
            }
        }

        fn second(&self) -> bool {
            self.whole[FLAGS_AT] & SECOND != 0
        }

        fn state(&self, counts: bool) -> usize {
            STATES_AT + usize::from(self.second() == counts) * STATE_BYTES
        }

        /// Where the page is that the root of the tables leads to.
        fn names(&self) -> usize {
            let pointer = u64_at(&self.whole, self.state(true) + 8).unwrap();
            Child { pointer, checksum: 0 }.range().0 as usize
        }
    }

    #[test]
    fn what_is_whole_is_read() {
        let made = Made::new();
        assert_eq!(made.read(|_| {}), [Ok(200), Ok(200)]);
        // What a kill leaves of the state that was being written.
        assert_eq!(made.read(|bytes| bytes[made.state(false) + 47] ^= EXPONENT), [Ok(200), Ok(200)]);
        assert_eq!(made.read(|bytes| bytes[FLAGS_AT] |= UNCLOSED), [Ok(200), Ok(200)]);
    }

    /// The library goes back to the older state when the newer one does not check, whether that checks or not, and takes as much memory as
    /// it tells.
    #[test]
    fn an_older_state_that_does_not_check_is_not_followed() {
        let made = Made::new();
        let (older, names) = (made.state(false), made.names());
        made.expect_refused("flags in its header", |bytes| {
            bytes[FLAGS_AT] &= !TWO_PHASE;
            bytes[older + 47] ^= EXPONENT;
            bytes[names + 20] ^= 1;
        });
    }

    #[test]
    fn a_header_of_another_shape_is_refused() {
        let made = Made::new();
        made.expect_refused("no store of Onpath", |bytes| bytes[4] ^= 1);
        for bit in 2..8 {
            made.expect_refused("flags in its header", |bytes| bytes[FLAGS_AT] ^= 1 << bit);
        }
        for at in GEOMETRY_AT..GEOMETRY_AT + 12 {
            made.expect_refused("pages and regions", |bytes| bytes[at] ^= 4);
        }
        made.expect_refused("does not check", |bytes| bytes[made.state(true) + 15] ^= EXPONENT);
    }

    #[test]
    fn pointers_to_tables_are_checked_before_they_are_followed() {
        let made = Made::new();
        let names = made.names();
        let roots = table_roots(&made.whole[names..names + PAGE_BYTES as usize]).unwrap();
        assert!(roots.len() >= 3, "head, ranges and objects");
        for root in roots {
            let inside = made.whole[names..].windows(8).position(|bytes| bytes == root.to_le_bytes()).unwrap();
            made.expect_refused("does not check", |bytes| bytes[names + inside + 7] ^= EXPONENT);
        }
    }

    #[test]
    fn a_branch_that_points_out_of_the_file_is_not_followed() {
        let made = Made::new();
        let mut branches = 0;
        let [looked, opened] = made.read(|bytes| {
            for page in bytes.chunks_exact_mut(PAGE_BYTES as usize).skip(1).filter(|page| page[0] == BRANCH) {
                let all = keys(page).unwrap() + 1;
                (0..all).for_each(|n| page[8 + 16 * all + 8 * n + 7] ^= EXPONENT);
                branches += 1;
            }
        });
        assert!(branches > 0);
        assert!(looked.unwrap_err().contains("corrupted"), "its checksum is another one");
        assert!(opened.unwrap_err().contains(OUT));
    }
}
