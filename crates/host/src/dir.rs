//! The layout of a DIR, and what may be opened as one (design.md, "Durability").
//!
//! `superblock` (identity, version, shape, taken terms; replaced by rename), `lock` (flock of the one process
//! that may use the DIR, holding its pid), `journal/`, `checkpoint/`, `data/`, `socket`. Terms and session ids
//! are taken in blocks, durably and before any role starts.

mod error;

use crate::boot;
use crate::held::{self, Held};
use crate::known;
use crate::owner::{self, DIR_MODE, Modes};
use crate::shape::Shape;
use crate::sys;
use onpath_wire::checksum::crc32c;
use onpath_wire::codec::Reader;
use onpath_wire::disk::Stored;
use onpath_wire::disk::superblock::{
    FEATURE_PART, FEATURES_KNOWN, FORMAT_VERSION, FileStart, Part, SUPERBLOCK_MAGIC, Superblock,
};
use onpath_wire::hash::CookieKey;
use onpath_wire::ids::Term;
use onpath_wire::limits::{SHARDS_MAX, TERM_BLOCK};
use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub use error::DirError;

/// Session ids that a process takes durably at one start.
pub const SESSION_BLOCK: u32 = 1024;
/// Session ids are 24 bits, as they are the number part of an address.
const SESSIONS_MAX: u32 = 1 << 24;
/// Names that may be in a DIR whose format was interrupted: everything but the superblock, which comes last.
const OWN_NAMES: [&str; 10] =
    ["lock", "boot", "superblock.tmp", "hosts.tmp", "hosts", "journal", "checkpoint", "data", "socket", "lost+found"];

fn at<'a>(path: &'a Path, what: &'static str) -> impl Fn(io::Error) -> DirError + use<'a> {
    move |source| DirError::Io { path: path.to_owned(), what, source }
}

/// The part of a file system that a host has, and how its DIR is formatted.
#[derive(Clone, Debug)]
pub struct PartFormat {
    /// Identity of the file system.
    pub fsid: u64,
    /// Key of its cookie hash.
    pub cookie_key: CookieKey,
    /// Number of its shards, on all hosts.
    pub shards: u16,
    /// What this host has.
    pub part: Part,
}

/// A DIR that this process alone may use, until this value is dropped.
#[derive(Debug)]
pub struct Dir {
    path: PathBuf,
    superblock: Mutex<Superblock>,
    part: Option<Part>,
    /// The terms taken at this start: one for each shard, and spare ones.
    pub terms: Range<u32>,
    /// The session ids taken at this start.
    pub sessions: Range<u32>,
    /// Whether this start formatted it.
    pub fresh: bool,
    /// Whether the machine may have lost power since DIR was last in use: it was another boot.
    pub rebooted: bool,
    /// First term of the last start before this one that followed a loss of power; 0 if none did.
    pub last_loss: Term,
    claim: Claim,
}

/// What keeps others from a DIR, and its name for this process.
#[derive(Debug)]
pub(crate) struct Claim {
    lock: Option<File>,
    _held: Arc<Held>,
}

impl Dir {
    /// Opens `path`, formatting it first if it is empty or missing. `shards`: the number to format with, or
    /// to insist on; none for one a core.
    pub fn open_or_format(path: &Path, shards: Option<u16>) -> Result<Dir, DirError> {
        if let Some(asked) = shards.filter(|n| !(1..=SHARDS_MAX).contains(n)) {
            return Err(DirError::ShardsRange { asked });
        }
        let (claim, fresh) = prepare(path, || format(path, shards))?;
        let (superblock, part) = read(path)?;
        refuse_part(path, part.as_ref())?;
        if let Some(asked) = shards.filter(|&n| n != superblock.shards) {
            return Err(DirError::Shards { path: path.to_owned(), have: superblock.shards, asked });
        }
        Dir::start(path, claim, (superblock, None), fresh, SESSION_BLOCK)
    }

    /// Opens the DIR of one host of a cluster, formatting it first if it is empty or missing.
    pub fn open_or_format_part(path: &Path, wanted: &PartFormat) -> Result<Dir, DirError> {
        let (claim, fresh) = prepare(path, || format_part(path, wanted))?;
        let (superblock, part) = read(path)?;
        fits(path, &superblock, part.as_ref(), wanted)?;
        Dir::start(path, claim, (superblock, part), fresh, SESSION_BLOCK)
    }

    /// Opens an existing DIR.
    pub fn open(path: &Path) -> Result<Dir, DirError> {
        Dir::existing(path, SESSION_BLOCK)
    }

    /// Opens an existing DIR to change it while nobody has sessions: those of before stay the last that were given out.
    pub(crate) fn open_unserved(path: &Path) -> Result<Dir, DirError> {
        Dir::existing(path, 0)
    }

    fn existing(path: &Path, sessions: u32) -> Result<Dir, DirError> {
        read_superblock(path)?;
        let claim = claim(path, owner::hold(path)?)?;
        Dir::start(path, claim, (read_superblock(path)?, None), false, sessions)
    }

    fn start(
        path: &Path,
        claim: Claim,
        (superblock, part): (Superblock, Option<Part>),
        fresh: bool,
        sessions: u32,
    ) -> Result<Dir, DirError> {
        let (another_boot, last_loss) = boot::look(path).map_err(at(path, "look at the boot"))?;
        let rebooted = another_boot && !fresh;
        let terms = u32::from(superblock.shards) + TERM_BLOCK;
        let superblock = Mutex::new(superblock);
        let mut dir = Dir {
            path: path.to_owned(),
            superblock,
            part,
            terms: 0..0,
            sessions: 0..0,
            fresh,
            rebooted,
            last_loss,
            claim,
        };
        (dir.terms, dir.sessions) = dir.take(terms, sessions)?;
        if fresh {
            dir.note_boot()?;
        }
        Ok(dir)
    }

    /// Remembers the present boot. What a loss of power has left must be known durably before: later starts do not look for it.
    pub(crate) fn note_boot(&self) -> Result<(), DirError> {
        let loss = if self.rebooted { Term(self.terms.start) } else { self.last_loss };
        boot::note(&self.path, loss).map_err(at(&self.path, "note the boot"))
    }

    /// Takes further terms and session ids, durably.
    pub fn take(&self, terms: u32, sessions: u32) -> Result<(Range<u32>, Range<u32>), DirError> {
        let mut held = self.superblock.lock().expect("no panic while the superblock is held");
        let mut next = held.clone();
        let used_up = |what| DirError::UsedUp { path: self.path.clone(), what };
        next.next_term = next.next_term.checked_add(terms).filter(|&t| t <= Term::MAX.0 + 1).ok_or(used_up("terms"))?;
        next.next_session =
            next.next_session.checked_add(sessions).filter(|&s| s <= SESSIONS_MAX).ok_or(used_up("session ids"))?;
        write_superblock(&self.path, &next, self.part.as_ref())?;
        let taken = (held.next_term..next.next_term, held.next_session..next.next_session);
        *held = next;
        Ok(taken)
    }

    /// From now on there are so many shards.
    pub(crate) fn set_shards(&self, shards: u16) -> Result<(), DirError> {
        let mut held = self.superblock.lock().expect("no panic while the superblock is held");
        let next = Superblock { shards, ..held.clone() };
        write_superblock(&self.path, &next, self.part.as_ref())?;
        *held = next;
        Ok(())
    }

    /// Tells whoever wants DIR next that this process will let go of it soon.
    pub fn ending(&self) {
        let Some(lock) = &self.claim.lock else { return };
        let told = lock.write_all_at(format!("{} {ENDING}\n", std::process::id()).as_bytes(), 0);
        if let Err(error) = told {
            tracing::debug!(%error, "nobody hears that this process is ending"); // who waits for it waits less long
        }
    }

    /// The superblock as it is now.
    pub fn superblock(&self) -> Superblock {
        self.superblock.lock().expect("no panic while the superblock is held").clone()
    }

    /// Which roles it holds.
    pub fn shape(&self) -> Shape {
        Shape::of(&self.superblock(), self.part.as_ref())
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the journal is.
    pub fn journal(&self) -> PathBuf {
        self.path.join("journal")
    }

    /// Where checkpoints are.
    pub fn checkpoint(&self) -> PathBuf {
        self.path.join("checkpoint")
    }

    /// Where data nodes keep their files.
    pub fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    /// Where other processes attach.
    pub fn socket(&self) -> PathBuf {
        self.path.join("socket")
    }
}

/// Makes the directory and locks it; `format` is called if it holds nothing yet, of which the second result tells.
fn prepare(path: &Path, format: impl FnOnce() -> Result<(), DirError>) -> Result<(Claim, bool), DirError> {
    let made = match DirBuilder::new().mode(DIR_MODE).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        made => made.map(|()| true).map_err(at(path, "create"))?,
    };
    let held = owner::hold(path)?;
    if made {
        // Whatever the umask.
        held.set_mode(DIR_MODE).map_err(at(path, "change the mode of"))?;
    }
    let formatted = held::exists(&path.join("superblock")).map_err(at(path, "look for a superblock"))?;
    if !formatted {
        refuse_foreign(path)?;
    }
    let claim = claim(path, held)?;
    if !formatted {
        format()?;
    }
    Ok((claim, !formatted))
}

/// Locks a DIR in which everything is its owner's.
fn claim(path: &Path, held: Arc<Held>) -> Result<Claim, DirError> {
    owner::check(&held, path, Modes::Close)?;
    Ok(Claim { lock: Some(take_lock(path)?), _held: held })
}

fn refuse_part(path: &Path, part: Option<&Part>) -> Result<(), DirError> {
    part.map_or(Ok(()), |_| Err(DirError::Part { path: path.to_owned() }))
}

/// Whether a DIR is the part of a file system that is wanted.
fn fits(path: &Path, superblock: &Superblock, part: Option<&Part>, wanted: &PartFormat) -> Result<(), DirError> {
    let list = |part: Option<&Part>| part.map_or("all".to_owned(), |part| format!("{:?}", part.shards));
    let data = |part: Option<&Part>| part.map_or("0".to_owned(), |part| part.data_node.to_string());
    let spread = |part: Option<&Part>| part.map_or("0".to_owned(), |part| format!("{:?}", part.data_nodes));
    let asked = Some(&wanted.part);
    let facts = [
        ("the file system", format!("{:016x}", superblock.fsid), format!("{:016x}", wanted.fsid)),
        ("the number of shards", superblock.shards.to_string(), wanted.shards.to_string()),
        ("the list of its shards", list(part), list(asked)),
        ("the number of its data node", data(part), data(asked)),
        ("the list of data nodes", spread(part), spread(asked)),
    ];
    match facts.into_iter().find(|(_, have, asked)| have != asked) {
        Some((what, have, asked)) => Err(DirError::OtherPart { path: path.to_owned(), what, have, asked }),
        None => Ok(()),
    }
}

fn refuse_foreign(path: &Path) -> Result<(), DirError> {
    for found in held::list(path).map_err(at(path, "list"))? {
        let name = found.file_name().unwrap_or_default().to_string_lossy();
        if !OWN_NAMES.contains(&name.as_ref()) {
            return Err(DirError::NotEmpty { path: path.to_owned(), found: name.into_owned() });
        }
    }
    Ok(())
}

fn take_lock(path: &Path) -> Result<File, DirError> {
    let name = path.join("lock");
    let file = held::open_or_create(&name).map_err(at(&name, "open"))?;
    let mut file = lock(path, &name, file)?;
    let write_pid = |file: &mut File| {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    // The pid only serves the message to others: a full disk must not keep anybody from starting.
    match write_pid(&mut file) {
        Err(error) if !sys::is_no_space(&error) => Err(at(&name, "write")(error)),
        _ => Ok(file),
    }
}

/// Keeps others from using DIR while somebody looks at it, and changes nothing: a lock file that is not there is held by
/// nobody.
pub(crate) fn claim_to_look(path: &Path) -> Result<Claim, DirError> {
    let held = owner::hold(path)?;
    owner::check(&held, path, Modes::Leave)?;
    let name = path.join("lock");
    let lock = match held::open(&name) {
        Ok(file) => Some(lock(path, &name, file)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(at(&name, "open")(error)),
    };
    Ok(Claim { lock, _held: held })
}

/// Takes the lock, for which one who says that it is ending is waited for. One who does not may not have noticed yet that its mount is
/// gone, or be killed.
fn lock(path: &Path, name: &Path, mut file: File) -> Result<File, DirError> {
    let (begun, mut told) = (Instant::now(), false);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(at(name, "lock")(error)),
            Err(TryLockError::WouldBlock) => {}
        }
        let Holder { pid, ending } = Holder::read(&mut file).map_err(at(name, "read"))?;
        if begun.elapsed() >= if ending { ENDS_WITHIN } else { NOTICES_WITHIN } {
            return Err(DirError::InUse { path: path.to_owned(), pid });
        }
        if ending && !std::mem::replace(&mut told, true) {
            tracing::warn!(dir = %path.display(), pid, "waiting for the process that has served it, which is ending");
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The second word of a lock file whose process is ending.
const ENDING: &str = "ending";
/// How long a process that is ending is waited for: it writes a checkpoint.
const ENDS_WITHIN: Duration = Duration::from_secs(30);
/// Within this a process notices that its mount is gone.
const NOTICES_WITHIN: Duration = Duration::from_secs(1);
/// How often it is looked whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Who holds the lock of a DIR, as it says itself.
struct Holder {
    pid: String,
    ending: bool,
}

impl Holder {
    fn read(file: &mut File) -> io::Result<Holder> {
        let mut text = String::new();
        file.rewind()?;
        file.read_to_string(&mut text)?;
        let mut words = text.split_whitespace();
        let pid = words.next().unwrap_or("(unknown)").to_owned();
        // What a process that is gone has said is still there while somebody else holds the lock who serves nothing.
        let ending = words.next() == Some(ENDING) && Path::new("/proc").join(&pid).exists();
        Ok(Holder { pid, ending })
    }
}

/// Whether the process that serves DIR, if there is one, is about to end.
pub fn is_ending(path: &Path) -> bool {
    let holder = held::open(&path.join("lock")).and_then(|mut file| Holder::read(&mut file));
    holder.is_ok_and(|holder| holder.ending)
}

fn format(path: &Path, shards: Option<u16>) -> Result<(), DirError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(usize::from(SHARDS_MAX));
    let fsid = u64::from_le_bytes(sys::random_bytes().map_err(at(path, "random bytes"))?);
    let cookie_key = CookieKey(sys::random_bytes().map_err(at(path, "random bytes"))?);
    format_as(path, fsid, cookie_key, shards.unwrap_or(cores as u16), None)
}

fn format_part(path: &Path, wanted: &PartFormat) -> Result<(), DirError> {
    known::format(path)?; // before the superblock, with which the directory is formatted
    format_as(path, wanted.fsid, wanted.cookie_key, wanted.shards, Some(&wanted.part))
}

fn format_as(path: &Path, fsid: u64, cookie_key: CookieKey, shards: u16, part: Option<&Part>) -> Result<(), DirError> {
    for sub in ["journal", "checkpoint", "data"] {
        let sub = path.join(sub);
        held::make_folder(&sub).map_err(at(&sub, "create"))?;
    }
    let superblock = Superblock {
        magic: SUPERBLOCK_MAGIC,
        version: FORMAT_VERSION,
        features: if part.is_some() { FEATURE_PART } else { 0 },
        fsid,
        shards,
        cookie_key,
        next_term: 1,
        next_session: 1,
        formatted: sys::now().wall_ns,
    };
    write_superblock(path, &superblock, part)?;
    match path.parent().filter(|p| !p.as_os_str().is_empty()) {
        Some(parent) => sys::sync_dir(parent).map_err(at(parent, "sync")),
        None => Ok(()),
    }
}

fn write_superblock(path: &Path, superblock: &Superblock, part: Option<&Part>) -> Result<(), DirError> {
    let mut bytes = superblock.to_stored();
    if let Some(part) = part {
        part.store(&mut bytes);
    }
    bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
    replace_file(path, "superblock", &bytes).map_err(|(file, source)| at(&file, "write")(source))
}

/// Replaces a file of `dir` by one with these contents, durably and atomically.
pub(crate) fn replace_file(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), (PathBuf, io::Error)> {
    let (tmp, to) = (dir.join(format!("{name}.tmp")), dir.join(name));
    let write = || {
        let mut file = held::create(&tmp)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|error| (tmp.clone(), error))?;
    held::rename(&tmp, &to).and_then(|()| sys::sync_dir(dir)).map_err(|error| (to, error))
}

/// Reads and checks the superblock of a DIR that holds a whole file system, without locking it.
pub fn read_superblock(path: &Path) -> Result<Superblock, DirError> {
    let (superblock, part) = read(path)?;
    refuse_part(path, part.as_ref())?;
    Ok(superblock)
}

/// Whether a DIR is known to hold a part of a file system of several hosts.
pub(crate) fn is_part(path: &Path) -> bool {
    read(path).is_ok_and(|(_, part)| part.is_some())
}

/// Reads and checks the superblock of a DIR, and which part of a file system it holds if that is not all.
fn read(path: &Path) -> Result<(Superblock, Option<Part>), DirError> {
    let name = path.join("superblock");
    let bytes = match held::read(&name) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Err(DirError::NotOnpath { path: path.to_owned() });
        }
        other => other.map_err(at(&name, "read"))?,
    };
    let damaged = |why: String| DirError::Superblock { path: name.clone(), why };
    let Some(FileStart { magic, version, features }) = FileStart::of(&bytes) else {
        return Err(damaged(format!("{} bytes are too few", bytes.len())));
    };
    if magic != SUPERBLOCK_MAGIC {
        return Err(damaged("it does not begin with Onpath's magic number".into()));
    }
    if version != FORMAT_VERSION {
        return Err(DirError::Version { path: path.to_owned(), found: version });
    }
    if features & !FEATURES_KNOWN != 0 {
        return Err(DirError::Features { path: path.to_owned(), unknown: features & !FEATURES_KNOWN, version });
    }
    let (body, crc) = bytes.split_last_chunk::<4>().expect("longer than 20 bytes");
    if crc32c(body) != u32::from_le_bytes(*crc) {
        return Err(damaged("checksum mismatch".into()));
    }
    let decode = || {
        let mut reader = Reader::new(body);
        let superblock = Superblock::load(&mut reader)?;
        let part = if superblock.features & FEATURE_PART != 0 { Some(Part::load(&mut reader)?) } else { None };
        reader.finish()?;
        Ok((superblock, part))
    };
    let (superblock, part) = decode().map_err(|error: onpath_wire::WireError| damaged(error.to_string()))?;
    if !(1..=SHARDS_MAX).contains(&superblock.shards) {
        return Err(damaged(format!("{} shards", superblock.shards)));
    }
    let foreign = |part: &Part| part.data_nodes.is_empty() || part.shards.iter().any(|&s| s >= superblock.shards);
    if part.as_ref().is_some_and(foreign) {
        return Err(damaged("the part that it names is none of this file system".into()));
    }
    Ok((superblock, part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn rewrite(dir: &Path, change: impl FnOnce(&mut Superblock)) {
        let mut superblock = read_superblock(dir).unwrap();
        change(&mut superblock);
        write_superblock(dir, &superblock, None).unwrap();
    }

    #[test]
    fn terms_and_sessions_are_never_given_twice() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("new");
        let first = Dir::open_or_format(&path, Some(3)).unwrap();
        assert!(first.fresh && first.terms.start == 1 && first.sessions.start == 1);
        assert_eq!(first.terms.len() as u32, 3 + TERM_BLOCK);
        let more = first.take(2, 1).unwrap();
        assert_eq!(more.0, first.terms.end..first.terms.end + 2);
        let fsid = first.superblock().fsid;
        drop(first);
        let second = Dir::open_or_format(&path, None).unwrap();
        assert!(!second.fresh && second.terms.start == more.0.end && second.sessions.start == more.1.end);
        assert_eq!((second.superblock().shards, second.superblock().fsid), (3, fsid));
    }

    #[test]
    fn a_dir_has_one_user() {
        let tmp = tempfile::tempdir().unwrap();
        let _first = Dir::open_or_format(tmp.path(), None).unwrap();
        let error = Dir::open_or_format(tmp.path(), None).unwrap_err();
        assert!(matches!(&error, DirError::InUse { pid, .. } if *pid == std::process::id().to_string()));
        assert!(error.to_string().contains("in use by process"), "{error}");
    }

    #[test]
    fn foreign_directories_are_left_alone() {
        let tmp = tempfile::tempdir().unwrap();
        assert!(matches!(Dir::open(tmp.path()), Err(DirError::NotOnpath { .. })));
        fs::write(tmp.path().join("thesis.tex"), "x").unwrap();
        let error = Dir::open_or_format(tmp.path(), None).unwrap_err();
        assert!(matches!(&error, DirError::NotEmpty { found, .. } if found == "thesis.tex"), "{error}");
        assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 1, "nothing was left behind");
        let missing = tmp.path().join("a/b");
        assert!(matches!(Dir::open_or_format(&missing, None), Err(DirError::Io { .. })));
    }

    #[test]
    fn an_interrupted_format_is_taken_up() {
        let tmp = tempfile::tempdir().unwrap();
        fs::create_dir(tmp.path().join("journal")).unwrap();
        fs::write(tmp.path().join("superblock.tmp"), "torn").unwrap();
        assert!(Dir::open_or_format(tmp.path(), Some(1)).unwrap().fresh);
    }

    #[test]
    fn other_shapes_and_versions_are_named() {
        let tmp = tempfile::tempdir().unwrap();
        drop(Dir::open_or_format(tmp.path(), Some(2)).unwrap());
        let error = Dir::open_or_format(tmp.path(), Some(4)).unwrap_err();
        assert!(matches!(error, DirError::Shards { have: 2, asked: 4, .. }));
        assert!(error.to_string().contains("onpath reshape") && error.to_string().contains("--shards 4`"), "{error}");
        assert!(matches!(Dir::open_or_format(tmp.path(), Some(0)), Err(DirError::ShardsRange { asked: 0 })));
        rewrite(tmp.path(), |s| s.features = 0x80);
        let error = Dir::open_or_format(tmp.path(), None).unwrap_err();
        assert!(matches!(error, DirError::Features { unknown: 0x80, .. }), "{error}");
        rewrite_raw(tmp.path(), 12, 0);
        rewrite_raw(tmp.path(), 8, 9);
        let error = Dir::open_or_format(tmp.path(), None).unwrap_err();
        assert!(matches!(error, DirError::Version { found: 9, .. }), "{error}");
        rewrite_raw(tmp.path(), 8, FORMAT_VERSION as u8);
        rewrite_raw(tmp.path(), 30, 0xee);
        let error = Dir::open_or_format(tmp.path(), None).unwrap_err();
        assert!(matches!(error, DirError::Superblock { .. }), "{error}");
    }

    fn rewrite_raw(dir: &Path, at: usize, byte: u8) {
        let mut bytes = fs::read(dir.join("superblock")).unwrap();
        bytes[at] = byte;
        fs::write(dir.join("superblock"), bytes).unwrap();
    }
}
