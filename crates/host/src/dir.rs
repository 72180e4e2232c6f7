//! The layout of a DIR, and what may be opened as one (design.md, "Durability").
//!
//! `superblock` (identity, version, shape, taken terms; replaced by rename), `lock` (flock of the one process
//! that may use the DIR, holding its pid), `journals/N/{journal,checkpoint,data}`, `socket`. A term is taken a start, durably and before
//! any role starts.

mod error;
mod superblock;

use crate::boot;
use crate::held::{self, Held};
use crate::known;
use crate::owner::{self, DIR_MODE, Modes};
use crate::shape::Shape;
use crate::sys;
use onpath_wire::disk::superblock::{
    FEATURE_PART, FORMAT_VERSION, JournalEntry, SUPERBLOCK_MAGIC, Superblock, journal_of_host,
};
use onpath_wire::ids::Term;
use onpath_wire::limits::SHARDS_MAX;
use onpath_wire::secrets::{Inner, Placement, Secrets};
use onpath_wire::shown::Shown;
use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub use error::DirError;
pub(crate) use superblock::is_part;
#[cfg(feature = "fuzzing")]
pub(crate) use superblock::parse as parse_superblock;
pub use superblock::read_superblock;
use superblock::{read, roles, shards_at, write_superblock};

/// Names that may be in a DIR whose format was interrupted: everything but the superblock, which comes last.
const OWN_NAMES: [&str; 8] =
    ["lock", "boot", "superblock.tmp", "hosts.tmp", "hosts", "journals", "socket", "lost+found"];
/// What the directory of a journal has.
const OF_A_JOURNAL: [&str; 3] = ["journal", "checkpoint", "data"];

fn at<'a>(path: &'a Path, what: &'static str) -> impl Fn(io::Error) -> DirError + use<'a> {
    move |source| DirError::Io { path: path.to_owned(), what, source }
}

/// The part of a file system that a host has, and how its DIR is formatted.
#[derive(Clone, Debug)]
pub struct PartFormat {
    /// Identity of the file system.
    pub fsid: u64,
    /// Its secrets, as far as who opens the DIR knows them: one that is formatted has its own.
    pub secrets: Option<Secrets>,
    /// Number of the host; its data node has the same.
    pub host: u16,
    /// Numbers of the hosts of all shards, in order.
    pub shard_hosts: Vec<u16>,
    /// The data nodes among which files are spread, in order; never empty.
    pub data_nodes: Vec<u16>,
}

/// A DIR that this process alone may use, until this value is dropped.
#[derive(Debug)]
pub struct Dir {
    path: PathBuf,
    superblock: Mutex<Superblock>,
    /// The term taken at this start, of all roles.
    pub term: Term,
    /// Whether this start formatted it.
    pub fresh: bool,
    /// Whether the machine may have lost power since DIR was last in use: it was another boot.
    pub rebooted: bool,
    claim: Claim,
}

/// Where a journal is, with what belongs to it.
#[derive(Clone, Debug)]
pub struct Place {
    /// The segments.
    pub journal: PathBuf,
    /// The checkpoints.
    pub checkpoint: PathBuf,
    /// The data files.
    pub data: PathBuf,
}

impl Place {
    /// That of the only journal of the DIR `path`.
    pub fn of(path: &Path, superblock: &Superblock) -> Place {
        let [journal, checkpoint, data] = OF_A_JOURNAL.map(|name| folder(path, superblock.journal()).join(name));
        Place { journal, checkpoint, data }
    }
}

/// The directory of a journal.
fn folder(path: &Path, journal: &JournalEntry) -> PathBuf {
    path.join("journals").join(journal.number.to_string())
}

/// What keeps others from a DIR, and its name for this process.
#[derive(Debug)]
pub(crate) struct Claim {
    lock: Option<File>,
    _held: Arc<Held>,
}

impl Dir {
    /// Opens `path`, formatting it first if it is empty or missing. `shards`: the number to format with, or
    /// to insist on; none for one a core. `secrets`: those to format with; none to draw them.
    pub fn open_or_format(path: &Path, shards: Option<u16>, secrets: Option<Secrets>) -> Result<Dir, DirError> {
        if let Some(asked) = shards.filter(|n| !(1..=SHARDS_MAX).contains(n)) {
            return Err(DirError::ShardsRange { asked });
        }
        let (claim, fresh) = prepare(path, || format(path, shards, secrets))?;
        let superblock = read_superblock(path)?;
        if let Some(asked) = shards.filter(|&n| n != superblock.shards()) {
            return Err(DirError::Shards { path: path.to_owned(), have: superblock.shards(), asked });
        }
        Dir::start(path, claim, superblock, fresh)
    }

    /// Opens the DIR of one host of a cluster, formatting it first if it is empty or missing. Terms before `first_term` count as taken.
    pub fn open_or_format_part(path: &Path, wanted: &PartFormat, first_term: Term) -> Result<Dir, DirError> {
        let (claim, fresh) = prepare(path, || format_part(path, wanted))?;
        known::refuse_old(path)?; // before it takes a term
        let mut superblock = read(path)?;
        fits(path, &superblock, wanted)?;
        superblock.journals[0].next_term = superblock.journal().next_term.max(first_term.0);
        Dir::start(path, claim, superblock, fresh)
    }

    /// Opens an existing DIR.
    pub fn open(path: &Path) -> Result<Dir, DirError> {
        read_superblock(path)?;
        let claim = claim(path, owner::hold(path)?)?;
        Dir::start(path, claim, read_superblock(path)?, false)
    }

    fn start(path: &Path, claim: Claim, superblock: Superblock, fresh: bool) -> Result<Dir, DirError> {
        let rebooted = !fresh && boot::look(path).map_err(at(path, "look at the boot"))?;
        let (term, superblock) = (Term(superblock.journal().next_term), Mutex::new(superblock));
        let dir = Dir { path: path.to_owned(), superblock, term, fresh, rebooted, claim };
        dir.take_terms(term)?;
        if fresh {
            dir.note_boot()?;
        }
        Ok(dir)
    }

    /// Remembers the present boot. What a loss of power has left must be known durably before: later starts do not look for it.
    pub(crate) fn note_boot(&self) -> Result<(), DirError> {
        boot::note(&self.path).map_err(at(&self.path, "note the boot"))
    }

    /// Takes all terms up to this one, durably.
    pub fn take_terms(&self, upto: Term) -> Result<(), DirError> {
        if upto > Term::MAX {
            return Err(DirError::UsedUp { path: self.path.clone() });
        }
        self.change(|next| {
            let next_term = &mut next.journals[0].next_term;
            *next_term = (*next_term).max(upto.0 + 1);
        })
    }

    /// From now on there are so many shards.
    pub(crate) fn set_shards(&self, shards: u16) -> Result<(), DirError> {
        self.change(|next| {
            next.shard_hosts = vec![next.host; shards.into()];
            next.journals[0].roles = roles(&next.shard_hosts, next.host);
        })
    }

    /// Changes the superblock, durably or not at all.
    fn change(&self, how: impl FnOnce(&mut Superblock)) -> Result<(), DirError> {
        let mut held = self.superblock.lock().expect("no panic while the superblock is held");
        let mut next = held.clone();
        how(&mut next);
        write_superblock(&self.path, &next)?;
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
        Shape::of(&self.superblock())
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where its journal is, with what belongs to it.
    pub fn place(&self) -> Place {
        Place::of(&self.path, &self.superblock())
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

/// Whether a DIR is the part of a file system that is wanted.
fn fits(path: &Path, superblock: &Superblock, wanted: &PartFormat) -> Result<(), DirError> {
    let kind = |is_part: bool| if is_part { "a part" } else { "all of it" }.to_owned();
    let here = |hosts: &[u16]| format!("{:?}", shards_at(hosts, wanted.host).collect::<Vec<_>>());
    let facts = [
        ("the file system", format!("{:016x}", superblock.fsid), format!("{:016x}", wanted.fsid)),
        ("what it holds of the file system", kind(superblock.is_part()), kind(true)),
        ("the number of shards", superblock.shards().to_string(), wanted.shard_hosts.len().to_string()),
        ("the list of its shards", here(&superblock.shard_hosts), here(&wanted.shard_hosts)),
        ("the list of the shards' hosts", format!("{:?}", superblock.shard_hosts), format!("{:?}", wanted.shard_hosts)),
        ("the number of its host", superblock.host.to_string(), wanted.host.to_string()),
        ("the list of data nodes", format!("{:?}", superblock.data_nodes), format!("{:?}", wanted.data_nodes)),
    ];
    match facts.into_iter().find(|(_, have, asked)| have != asked) {
        Some((what, have, asked)) => Err(DirError::OtherPart { path: path.to_owned(), what, have, asked }),
        None if wanted.secrets.is_some_and(|wanted| wanted != superblock.secrets) => {
            Err(DirError::OtherSecrets { path: path.to_owned() })
        }
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
            tracing::warn!(dir = %path.shown(), pid, "waiting for the process that has served it, which is ending");
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

/// Draws the secrets of a new file system.
pub fn draw_secrets() -> io::Result<Secrets> {
    let (placement, inner) = (Placement::new(sys::random_bytes()?), Inner::new(sys::random_bytes()?));
    let unlikely = io::Error::other;
    Ok(Secrets { placement: placement.map_err(unlikely)?, inner: inner.map_err(unlikely)? })
}

/// A number of its own, never 0.
fn draw(path: &Path) -> Result<u64, DirError> {
    let bytes = sys::random_bytes().map_err(at(path, "random bytes"))?;
    Ok(u64::from_le_bytes(bytes).max(1))
}

fn format(path: &Path, shards: Option<u16>, secrets: Option<Secrets>) -> Result<(), DirError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(usize::from(SHARDS_MAX));
    let fsid = draw(path)?;
    let secrets = secrets.map_or_else(draw_secrets, Ok).map_err(at(path, "random bytes"))?;
    let shard_hosts = vec![0; shards.unwrap_or(cores as u16).into()];
    let all = PartFormat { fsid, secrets: Some(secrets), host: 0, shard_hosts, data_nodes: vec![0] };
    format_as(path, &all, (draw(path)?, secrets), 0)
}

fn format_part(path: &Path, wanted: &PartFormat) -> Result<(), DirError> {
    let secrets = wanted.secrets.ok_or_else(|| DirError::NoSecrets { path: path.to_owned() })?;
    let id = draw(path)?;
    known::format(path, id)?; // before the superblock, with which the directory is formatted
    format_as(path, wanted, (id, secrets), FEATURE_PART)
}

fn format_as(path: &Path, wanted: &PartFormat, (id, secrets): (u64, Secrets), features: u64) -> Result<(), DirError> {
    let journal = JournalEntry {
        number: journal_of_host(wanted.host),
        created: draw(path)?,
        copies: 1,
        next_term: 1,
        roles: roles(&wanted.shard_hosts, wanted.host),
    };
    let place = folder(path, &journal);
    let above = [path.join("journals"), place.clone()];
    for made in above.into_iter().chain(OF_A_JOURNAL.map(|name| place.join(name))) {
        held::make_folder(&made).map_err(at(&made, "create"))?;
    }
    for changed in [&place, &path.join("journals")] {
        sys::sync_dir(changed).map_err(at(changed, "sync"))?;
    }
    let superblock = Superblock {
        magic: SUPERBLOCK_MAGIC,
        version: FORMAT_VERSION,
        features,
        fsid: wanted.fsid,
        dir: id,
        host: wanted.host,
        shard_hosts: wanted.shard_hosts.clone(),
        data_nodes: wanted.data_nodes.clone(),
        secrets,
        journals: vec![journal],
        formatted: sys::now().wall_ns,
    };
    write_superblock(path, &superblock)?;
    match path.parent().filter(|p| !p.as_os_str().is_empty()) {
        Some(parent) => sys::sync_dir(parent).map_err(at(parent, "sync")),
        None => Ok(()),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn rewrite(dir: &Path, change: impl FnOnce(&mut Superblock)) {
        let mut superblock = read_superblock(dir).unwrap();
        change(&mut superblock);
        write_superblock(dir, &superblock).unwrap();
    }

    #[test]
    fn terms_are_never_given_twice() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("new");
        let first = Dir::open_or_format(&path, Some(3), None).unwrap();
        assert!(first.fresh && first.term == Term(1));
        first.take_terms(Term(7)).unwrap();
        let fsid = first.superblock().fsid;
        drop(first);
        let second = Dir::open_or_format(&path, None, None).unwrap();
        assert!(!second.fresh && second.term == Term(8));
        assert_eq!((second.superblock().shards(), second.superblock().fsid), (3, fsid));
    }

    #[test]
    fn a_dir_has_one_user() {
        let tmp = tempfile::tempdir().unwrap();
        let _first = Dir::open_or_format(tmp.path(), None, None).unwrap();
        let error = Dir::open_or_format(tmp.path(), None, None).unwrap_err();
        assert!(matches!(&error, DirError::InUse { pid, .. } if *pid == std::process::id().to_string()));
        assert!(error.to_string().contains("in use by process"), "{error}");
    }

    #[test]
    fn foreign_directories_are_left_alone() {
        let tmp = tempfile::tempdir().unwrap();
        assert!(matches!(Dir::open(tmp.path()), Err(DirError::NotOnpath { .. })));
        fs::write(tmp.path().join("thesis.tex"), "x").unwrap();
        let error = Dir::open_or_format(tmp.path(), None, None).unwrap_err();
        assert!(matches!(&error, DirError::NotEmpty { found, .. } if found == "thesis.tex"), "{error}");
        assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 1, "nothing was left behind");
        let missing = tmp.path().join("a/b");
        assert!(matches!(Dir::open_or_format(&missing, None, None), Err(DirError::Io { .. })));
    }

    #[test]
    fn an_interrupted_format_is_taken_up() {
        let tmp = tempfile::tempdir().unwrap();
        fs::create_dir_all(tmp.path().join("journals/1/checkpoint")).unwrap();
        fs::write(tmp.path().join("superblock.tmp"), "torn").unwrap();
        assert!(Dir::open_or_format(tmp.path(), Some(1), None).unwrap().fresh);
    }

    #[test]
    fn other_shapes_and_versions_are_named() {
        let tmp = tempfile::tempdir().unwrap();
        drop(Dir::open_or_format(tmp.path(), Some(2), None).unwrap());
        let error = Dir::open_or_format(tmp.path(), Some(4), None).unwrap_err();
        assert!(matches!(error, DirError::Shards { have: 2, asked: 4, .. }));
        assert!(error.to_string().contains("onpath reshape") && error.to_string().contains("--shards 4`"), "{error}");
        assert!(matches!(Dir::open_or_format(tmp.path(), Some(0), None), Err(DirError::ShardsRange { asked: 0 })));
        let sound = read_superblock(tmp.path()).unwrap();
        for (change, says) in [
            ((|s| s.journals.push(s.journals[0].clone())) as fn(&mut Superblock), "2 journals"),
            (|s| s.journals.clear(), "0 journals"),
            (|s| s.journals[0].copies = 3, "3 copies"),
            (|s| s.journals[0].number = 0, "number is not its host's"),
            (|s| s.journals[0].next_term = 0, "term 0"),
            (|s| s.journals[0].roles.truncate(2), "not its host's"),
            (|s| s.journals[0].roles.swap(0, 1), "not its host's"),
            (|s| s.shard_hosts.push(0), "not its host's"),
            (|s| s.shard_hosts.push(1), "other hosts"),
            (|s| s.shard_hosts.clear(), "0 shards"),
            (|s| s.data_nodes.clear(), "data nodes []"),
        ] {
            rewrite(tmp.path(), change);
            let error = Dir::open_or_format(tmp.path(), None, None).unwrap_err();
            assert!(matches!(error, DirError::Superblock { .. }) && error.to_string().contains(says), "{error}");
            write_superblock(tmp.path(), &sound).unwrap();
        }
        rewrite(tmp.path(), |s| s.features = 0x80);
        let error = Dir::open_or_format(tmp.path(), None, None).unwrap_err();
        assert!(matches!(error, DirError::Features { unknown: 0x80, .. }), "{error}");
        rewrite_raw(tmp.path(), 12, 0);
        rewrite_raw(tmp.path(), 8, 9);
        let error = Dir::open_or_format(tmp.path(), None, None).unwrap_err();
        assert!(matches!(error, DirError::Version { found: 9, .. }), "{error}");
        rewrite_raw(tmp.path(), 8, FORMAT_VERSION as u8);
        rewrite_raw(tmp.path(), 30, 0xee);
        let error = Dir::open_or_format(tmp.path(), None, None).unwrap_err();
        assert!(matches!(error, DirError::Superblock { .. }), "{error}");
    }

    #[test]
    fn a_directory_keeps_its_secrets() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("new");
        let part = |secrets| PartFormat { fsid: 7, secrets, host: 1, shard_hosts: vec![1], data_nodes: vec![1] };
        let [ours, others] = [1, 2].map(Secrets::of_seed);
        let error = Dir::open_or_format_part(&path, &part(None), Term(0)).unwrap_err();
        assert!(matches!(error, DirError::NoSecrets { .. }), "{error}");
        for secrets in [Some(ours), Some(ours), None] {
            let dir = Dir::open_or_format_part(&path, &part(secrets), Term(0)).unwrap();
            assert_eq!((dir.superblock().secrets, dir.shape().map.placement()), (ours, ours.placement));
        }
        let mixed = Secrets { placement: ours.placement, inner: others.inner };
        for other in [others, mixed] {
            let error = Dir::open_or_format_part(&path, &part(Some(other)), Term(0)).unwrap_err();
            assert!(matches!(error, DirError::OtherSecrets { .. }), "{error}");
        }
        // Each directory that is formatted for itself draws its own.
        let drawn = [0, 1].map(|n| {
            let dir = Dir::open_or_format(&tmp.path().join(n.to_string()), Some(2), None).unwrap();
            dir.superblock().secrets
        });
        assert!(drawn[0].placement != drawn[1].placement && drawn[0].inner != drawn[1].inner);
    }

    fn rewrite_raw(dir: &Path, at: usize, byte: u8) {
        let mut bytes = fs::read(dir.join("superblock")).unwrap();
        bytes[at] = byte;
        fs::write(dir.join("superblock"), bytes).unwrap();
    }
}
