//! A file that one user alone changes, by any mount, and what power losses may leave of it.

use crate::cluster::load::shared;
use crate::cluster::past::{Losses, Past};
use crate::common::check::{done, errno_name};
use crate::common::random::Random;
use crate::common::sys::{self, R};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes of a cell of a file: two are in a block, and a power loss leaves each whole.
const CELL: usize = 2048;
/// Cells of a file.
const CELLS: usize = 12;
/// Cells of a write.
const WRITE_MAX: usize = 4;
/// Names of a file.
const NAMES_MAX: usize = 3;

/// Paths of a file below the top, sorted.
pub(crate) type Names = Vec<PathBuf>;

/// A regular file that one keeper alone uses, by any mount.
pub(crate) struct File {
    /// How all its names begin.
    pub(crate) key: String,
    pub(crate) names: Past<Names>,
    named: usize,
    /// Directories with names of it that no fsync covers.
    unsynced: BTreeSet<PathBuf>,
    size: Past<usize>,
    cells: Vec<Past<u64>>,
    versions: u64,
    /// Power losses after which it was looked at.
    pub(crate) seen: usize,
    pub(crate) changes_left: usize,
}

/// What a cell of a file holds: its file, its place and the number of the write, again and again.
fn cell_bytes(key: &str, cell: usize, version: u64) -> Vec<u8> {
    let mut unit = format!("{key} {cell} {version}").into_bytes();
    unit.resize(32, b'.');
    unit.repeat(CELL / unit.len())
}

/// Which write a cell shows; 0: none.
fn version_of(key: &str, cell: usize, bytes: &[u8]) -> Result<u64, String> {
    if bytes.iter().all(|&byte| byte == 0) {
        return Ok(0);
    }
    let unit = String::from_utf8_lossy(&bytes[..32.min(bytes.len())]).into_owned();
    let version = unit.trim_end_matches('.').rsplit(' ').next().and_then(|word| word.parse().ok());
    match version {
        Some(version) if cell_bytes(key, cell, version) == bytes => Ok(version),
        _ => Err(format!("cell {cell} holds bytes of no write: {unit:?}…")),
    }
}

/// Whether a sync says that something is lost, as it may once power was.
fn says_lost(synced: R, losses: &Losses) -> bool {
    match synced {
        Err(libc::EIO) if losses.count() > 0 => true,
        other => {
            done("a sync", other);
            false
        }
    }
}

impl File {
    pub(crate) fn new(key: String, seen: usize, changes_left: usize) -> File {
        let cells = (0..CELLS).map(|_| Past::new(0)).collect();
        let (names, size, unsynced) = (Past::new(vec![]), Past::new(0), BTreeSet::new());
        File { key, names, named: 0, unsynced, size, cells, versions: 0, seen, changes_left }
    }

    /// So many changes more are made to it.
    pub(crate) fn taken_up(mut self, changes: usize) -> File {
        self.changes_left = changes;
        self
    }

    fn fresh_path(&mut self, random: &mut Random) -> PathBuf {
        self.named += 1;
        let path = Path::new(random.of(&shared())).join(format!("{}-{}", self.key, self.named));
        self.unsynced.insert(path.parent().expect("a directory").to_owned());
        path
    }

    /// One change, or a sync. It may fail only if a power loss has taken what it was about.
    pub(crate) fn change(&mut self, top: &Path, losses: &Losses, random: &mut Random) {
        let before = self.names.clone();
        let missing = match before.now().first() {
            None => self.create(top, losses, random),
            Some(_) => {
                let path = random.of(before.now()).clone();
                self.change_at(&path, top, losses, random).map_err(|errno| (path, errno))
            }
        };
        if let Err((path, errno)) = missing {
            let explained = losses.count() > self.seen
                && [libc::ENOENT, libc::ESTALE].contains(&errno)
                && before.possible(losses.last()).iter().any(|(names, _)| !names.contains(&path));
            assert!(explained, "{} of {}: {}", path.display(), self.key, errno_name(errno));
        }
    }

    fn create(&mut self, top: &Path, losses: &Losses, random: &mut Random) -> Result<(), (PathBuf, i32)> {
        let path = self.fresh_path(random);
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
        sys::open(top.join(&path), flags, 0o644).map_err(|errno| (path.clone(), errno))?;
        self.names.changes(losses.count() > self.seen, |_| Some(vec![path.clone()]));
        Ok(())
    }

    fn change_at(&mut self, path: &Path, top: &Path, losses: &Losses, random: &mut Random) -> R {
        let at = top.join(path);
        let seen = self.seen;
        let lost = || losses.count() > seen;
        let names = self.names.now().len();
        match random.below(100) {
            0..45 => {
                let fd = sys::open(&at, libc::O_WRONLY, 0)?;
                let from = random.below(CELLS);
                let to = CELLS.min(from + 1 + random.below(WRITE_MAX));
                let version = self.versions + 1;
                let bytes: Vec<u8> = (from..to).flat_map(|cell| cell_bytes(&self.key, cell, version)).collect();
                assert_eq!(sys::pwrite(&fd, &bytes, (from * CELL) as i64)?, bytes.len(), "a write is whole");
                let lost = lost();
                self.versions = version;
                self.cells[from..to].iter_mut().for_each(|cell| cell.becomes(version));
                // Linux sends what begins within a page that it has not got up to the end of that page first, and then the rest.
                let first = if from % 2 == 1 { from + 1 } else { to };
                for to in [first, to] {
                    self.size.changes(lost, |&size| Some(size.max(to)));
                }
            }
            45..50 => {
                let fd = sys::open(&at, libc::O_WRONLY, 0)?;
                let size = random.below(CELLS);
                sys::ftruncate(&fd, (size * CELL) as i64)?;
                let lost = lost();
                self.size.becomes(size);
                self.cells[size..].iter_mut().for_each(|cell| cell.becomes(0));
                // That a file became shorter, but not empty, is on stable storage at once.
                if size > 0 && !lost && self.size.states.iter().rev().skip(1).all(|(before, _)| *before > size) {
                    self.size.synced();
                    self.cells[size..].iter_mut().for_each(Past::synced);
                }
            }
            50..68 => {
                let (old, new) = (path.to_owned(), self.fresh_path(random));
                sys::rename(at, top.join(&new))?;
                self.names.changes(lost(), |names| {
                    let others = names.iter().filter(|name| **name != old);
                    names.contains(&old).then(|| sorted(others.chain([&new])))
                });
            }
            68..76 if names < NAMES_MAX => {
                let new = self.fresh_path(random);
                sys::link(at, top.join(&new))?;
                // What is linked is the inode that was found under the name, whatever a power loss has made of that name since.
                let lost = lost();
                self.names.changes(lost, |names| {
                    let found = if lost { !names.is_empty() } else { names.iter().any(|name| name == path) };
                    found.then(|| sorted(names.iter().chain([&new])))
                });
            }
            76..81 if names > 1 || random.below(4) == 0 => {
                sys::unlink(at)?;
                self.unsynced.insert(path.parent().expect("a directory").to_owned());
                self.names.changes(lost(), |names| {
                    let others = names.iter().filter(|name| *name != path);
                    names.iter().any(|name| name == path).then(|| sorted(others))
                });
            }
            81..91 => {
                let fd = sys::open(&at, libc::O_WRONLY, 0)?;
                let synced = if random.below(2) == 0 { sys::fsync(&fd) } else { sys::fdatasync(&fd) };
                // What is lost may have been changed by this mount or by another one, which does not tell.
                let is_lost = says_lost(synced, losses);
                if !is_lost && !lost() {
                    self.size.synced();
                    self.cells.iter_mut().for_each(Past::synced);
                }
            }
            _ => {
                let mut is_lost = false;
                for dir in &self.unsynced {
                    let dir = done("open", sys::open(top.join(dir), libc::O_RDONLY, 0));
                    is_lost |= says_lost(sys::fsync(dir), losses);
                }
                if !is_lost && !lost() {
                    self.names.synced();
                    self.unsynced.clear();
                }
            }
        }
        Ok(())
    }

    /// It is looked at after so many power losses: what those before have taken does not come back any more.
    pub(crate) fn saw(&mut self, losses: usize) {
        self.seen = losses;
        self.size.late.clear();
        self.cells.iter_mut().for_each(|cell| cell.late.clear());
    }

    /// Looks at what the last power loss has left; how many changes that has taken.
    pub(crate) fn look(&mut self, top: &Path, begin: Instant) -> Result<usize, String> {
        let possible = self.names.possible(begin).iter().flat_map(|(names, _)| names).cloned().collect();
        let (names, bytes) = loop {
            let Sample { names, bytes, sizes } = Sample::take(top, &possible)?;
            if !sizes.is_sorted() {
                return Err(format!("sizes, one after the other, are {sizes:?}"));
            }
            // A data node may just have told of it once more.
            if sizes.first() == sizes.last() {
                break (names, bytes);
            }
        };
        let mut lost = self.names.left(&names, begin, true).map_err(|why| format!("names: {why}"))?;
        if names.is_empty() {
            return Ok(lost);
        }
        if bytes.len() % CELL != 0 {
            return Err(format!("{} bytes are read", bytes.len()));
        }
        lost += self.size.left(&(bytes.len() / CELL), begin, false).map_err(|why| format!("size in cells: {why}"))?;
        let shown = bytes.chunks(CELL).chain(std::iter::repeat(&[][..]));
        for (n, (cell, bytes)) in self.cells.iter_mut().zip(shown).enumerate() {
            let version = version_of(&self.key, n, bytes)?;
            lost += cell.left(&version, begin, false).map_err(|why| format!("cell {n}: {why}"))?;
        }
        Ok(lost)
    }
}

/// What there is of a file.
struct Sample {
    names: Names,
    bytes: Vec<u8>,
    /// Each name's, and the number of bytes, in the order in which they were asked for.
    sizes: Vec<i64>,
}

impl Sample {
    /// Asks for each of these names, and for all bytes.
    fn take(top: &Path, possible: &BTreeSet<PathBuf>) -> Result<Sample, String> {
        let mut found = BTreeMap::new();
        for path in possible {
            match sys::lstat(top.join(path)) {
                Ok(stat) => _ = found.insert(path.clone(), stat),
                Err(libc::ENOENT) => {}
                Err(errno) => return Err(format!("lstat of {}: {}", path.display(), errno_name(errno))),
            }
        }
        let (names, mut sizes): (Names, Vec<i64>) = found.iter().map(|(path, stat)| (path.clone(), stat.size)).unzip();
        let Some((path, stat)) = found.first_key_value() else { return Ok(Sample { names, bytes: vec![], sizes }) };
        for (path, other) in &found {
            let (is, wanted) = ((other.ino, other.nlink), (stat.ino, names.len() as u64));
            if is != wanted {
                return Err(format!("{} has inode and links {is:?} instead of {wanted:?}", path.display()));
            }
        }
        let bytes = std::fs::read(top.join(path)).map_err(|error| format!("read of {}: {error}", path.display()))?;
        sizes.push(bytes.len() as i64);
        Ok(Sample { names, bytes, sizes })
    }
}

pub(crate) fn sorted<'a>(names: impl Iterator<Item = &'a PathBuf>) -> Names {
    names.cloned().collect::<BTreeSet<_>>().into_iter().collect()
}
