//! Plants damage on copies of a DIR: flipped bytes, rewritten objects of the checkpoint, and journal records that no shard would write.

use crate::common::server::run;
use onpath_data::FileSummary;
use onpath_host::checkpoint::{CheckpointError, Store};
use onpath_host::inspect::inspect;
use onpath_host::progress::Unwatched;
use onpath_meta::Survey;
use onpath_store::batch::{BatchBuilder, Scanner, Step};
use onpath_store::{Changes, Image, Pair};
use onpath_wire::checksum::crc32c;
use onpath_wire::codec::Wire;
use onpath_wire::disk::Stored;
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::log::Entry;
use onpath_wire::disk::record::{Answer, Counter, Effect, Log, Record};
use onpath_wire::disk::superblock::Superblock;
use onpath_wire::ids::{
    Birth, DataId, InodeId, LogSeq, Lsn, NodeId, RecordSeq, RequestSeq, SessionId, ShardId, Stamp, Term,
};
use onpath_wire::inode::Kind;
use onpath_wire::map::ClusterMap;
use onpath_wire::name::Name;
use serde_json::Value;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Bytes before the first batch of a segment; its salt is at byte 12.
const SEGMENT_HEADER_BYTES: usize = 64;

/// No test makes as many records or entries of change-logs in one start.
const UNUSED: u64 = 1 << 39;

/// A DIR that was used and stopped, and what is in it.
pub(crate) struct Original {
    pub(crate) superblock: Superblock,
    pub(crate) map: ClusterMap,
    pub(crate) surveys: Vec<Survey>,
    pub(crate) files: Vec<FileSummary>,
    /// Records of writes that the data node has not noted as heard of.
    pub(crate) unsettled: Vec<RecordSeq>,
    /// The last birth that a shard has reserved.
    pub(crate) births: u64,
    last: Lsn,
    dir: PathBuf,
}

impl Original {
    pub(crate) fn of(dir: &Path) -> Original {
        let found = inspect(dir, Arc::new(Unwatched)).expect("DIR can be looked at");
        assert!(found.problems.is_empty(), "{:?}", found.problems);
        Original {
            map: found.superblock.map(),
            surveys: found.shards.iter().map(|shard| shard.survey()).collect(),
            files: found.data.files(),
            unsettled: found.data.pending_merges().into_iter().map(|(seq, _)| seq).collect(),
            births: found.shards.iter().map(|shard| shard.reserved(Counter::Births)).max().unwrap_or(0),
            last: found.journal.last,
            superblock: found.superblock.clone(),
            dir: dir.to_owned(),
        }
    }

    /// What a path leads to.
    pub(crate) fn id(&self, path: &str) -> InodeId {
        path.split('/').filter(|name| !name.is_empty()).fold(InodeId::ROOT, |parent, name| {
            let names = self.surveys.iter().flat_map(|survey| &survey.names);
            let found = names.into_iter().find(|n| n.parent == parent && n.name.as_bytes() == name.as_bytes());
            found.unwrap_or_else(|| panic!("no {name} on {path}")).child
        })
    }

    pub(crate) fn inode(&self, path: &str) -> Inode {
        let id = self.id(path);
        let all = self.surveys.iter().flat_map(|survey| &survey.inodes);
        all.into_iter().find(|inode| inode.id == id).expect("names lead to inodes").clone()
    }

    pub(crate) fn home(&self, id: InodeId) -> ShardId {
        self.map.home(id)
    }

    pub(crate) fn site(&self, parent: InodeId, name: &Name) -> ShardId {
        self.map.shard(self.map.site(parent, name.as_bytes()))
    }

    /// A shard that is not this one.
    pub(crate) fn another(&self, shard: ShardId) -> ShardId {
        ShardId((shard.0 + 1) % self.superblock.shards())
    }

    /// A name, new in a directory, whose site is a shard that is not this one.
    pub(crate) fn name_elsewhere(&self, dir: InodeId, not: ShardId) -> Name {
        (0..).map(|n| name(&format!("elsewhere{n}"))).find(|name| self.site(dir, name) != not).expect("hashes spread")
    }

    /// An inode id that nobody has, at home at this shard.
    pub(crate) fn new_id(&self, home: ShardId) -> InodeId {
        let slot = (0..=u16::MAX).map(onpath_wire::ids::Slot).find(|&slot| self.map.shard(slot) == home);
        InodeId::new(slot.expect("every shard has slots"), Birth(1), 0xff00, Kind::File)
    }

    pub(crate) fn data(&self, path: &str) -> FileSummary {
        let inode = self.inode(path);
        let data = DataId { inode: inode.id, generation: inode.generation };
        *self.files.iter().find(|file| file.data == data).expect("the file has bytes")
    }

    /// A copy to damage.
    pub(crate) fn copy(&self) -> Copy {
        let place = tempfile::Builder::new().prefix("onpath-fsck-").tempdir_in(self.dir.parent().expect("a parent"));
        let place = place.expect("a temporary directory");
        let path = place.path().join("state");
        let status = Command::new("cp").args(["-a", "--sparse=always"]).arg(&self.dir).arg(&path).status();
        assert!(status.expect("cp runs").success(), "cp of DIR");
        // Of the last start, so that the next one is newer.
        let term = Term(self.superblock.journal().next_term - 1);
        let original = (self.surveys.clone(), self.files.clone());
        Copy {
            _place: place,
            path,
            original,
            next: Cell::new(Lsn(self.last.0 + 1)),
            seq: Cell::new(term.first_seq() + UNUSED),
        }
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a name")
}

/// A copy of a DIR; removed on drop.
pub(crate) struct Copy {
    _place: tempfile::TempDir,
    path: PathBuf,
    original: (Vec<Survey>, Vec<FileSummary>),
    next: Cell<Lsn>,
    seq: Cell<u64>,
}

impl Copy {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A number that no record and no change-log has.
    pub(crate) fn new_seq(&self) -> u64 {
        self.seq.set(self.seq.get() + 1);
        self.seq.get()
    }

    /// How a changed name reaches its directory from this shard; the position is a new one.
    pub(crate) fn log(&self, of: &Original, parent: InodeId, shard: ShardId, dcount: i8, dnlink: i8) -> Log {
        let seq = if of.home(parent) == shard { LogSeq(0) } else { LogSeq(self.new_seq()) };
        Log { seq, dcount, dnlink }
    }

    /// Lets a shard have recorded this.
    pub(crate) fn record(&self, shard: ShardId, effects: impl IntoIterator<Item = Effect>) {
        let record = Record {
            stamp: Stamp(1),
            session: SessionId(0),
            request: RequestSeq(0),
            oldest: RequestSeq(0),
            uid: 0,
            answer: Answer::Nothing,
            effects: effects.into_iter().collect(),
        };
        self.append(NodeId::shard(shard), &record.to_stored());
    }

    /// Appends a record to the journal, whoever's and whatever it is; gives its number.
    pub(crate) fn append(&self, role: NodeId, record: &[u8]) -> RecordSeq {
        let seq = RecordSeq(self.new_seq());
        let lsn = self.next.replace(Lsn(self.next.get().0 + 1));
        let (file, mut bytes, salt, offset) = self.journal_end(lsn);
        let mut batch = BatchBuilder::default();
        batch.push(seq, record);
        batch.seal(role, lsn, Lsn(lsn.0 - 1), salt);
        bytes[offset..offset + batch.bytes().len()].copy_from_slice(batch.bytes());
        fs::write(file, bytes).expect("write of a segment");
        seq
    }

    /// Where batch `next` belongs: the segment, its bytes, its salt, the offset.
    fn journal_end(&self, next: Lsn) -> (PathBuf, Vec<u8>, u32, usize) {
        for file in self.files("journal", "seg") {
            let bytes = fs::read(&file).expect("read of a segment");
            let salt = u32::from_le_bytes(bytes[12..16].try_into().expect("four bytes"));
            let mut scanner = Scanner::new(&bytes[SEGMENT_HEADER_BYTES..], salt, None);
            let end = loop {
                match scanner.step() {
                    Step::Batch(_) => {}
                    Step::End => break None,
                    Step::Tail { offset, .. } | Step::Damage { offset, .. } => break Some(offset),
                }
            };
            if let Some(offset) = end.filter(|_| scanner.next_lsn().is_none_or(|lsn| lsn == next)) {
                return (file, bytes, salt, SEGMENT_HEADER_BYTES + offset);
            }
        }
        panic!("the journal has no end at {next}");
    }

    /// Files of a subdirectory with this extension, in order.
    pub(crate) fn files(&self, sub: &str, extension: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path.join("journals/1").join(sub))
            .expect("list")
            .map(|entry| entry.expect("entry").path());
        let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
        files.sort();
        files
    }

    /// Flips a bit.
    pub(crate) fn flip(&self, file: impl AsRef<Path>, offset: usize) {
        use std::os::unix::fs::FileExt;
        let file = fs::OpenOptions::new().read(true).write(true).open(self.path.join(file)).expect("open");
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset as u64).expect("read");
        file.write_all_at(&[byte[0] ^ 0x10], offset as u64).expect("write");
    }

    /// Writes a superblock with its checksum.
    pub(crate) fn write_superblock(&self, superblock: &Superblock) {
        let mut bytes = superblock.to_stored();
        crc32c(&bytes).put(&mut bytes);
        fs::write(self.path.join("superblock"), bytes).expect("write of the superblock");
    }

    /// Changes the objects of the first role for which `change` does so, among those that are read one by one.
    pub(crate) fn rewrite_objects(&self, mut change: impl FnMut(NodeId, &mut Vec<Pair>) -> bool) {
        let store = self.store();
        for (place, upto) in store.ranges().expect("ranges").into_iter().filter(|((_, range), _)| *range == 0) {
            let mut put = Vec::new();
            store.objects(place.0, &mut |key, value| collect(&mut put, key, value)).expect("objects");
            let removed = put.iter().map(|(key, _)| key.clone()).collect();
            if change(place.0, &mut put) {
                let mut rest = Vec::new();
                store.rest(place.0, place.1, &mut |key, value| collect(&mut rest, key, value)).expect("the rest");
                return write(&store, place, Image { upto, changes: Changes { put, removed }, rest });
            }
        }
        panic!("no object was changed");
    }

    /// Changes the other objects of the first range for which `change` does so.
    pub(crate) fn rewrite_range(&self, mut change: impl FnMut(NodeId, u32, &mut Vec<Pair>) -> bool) {
        let store = self.store();
        for ((role, range), upto) in store.ranges().expect("ranges") {
            let mut rest = Vec::new();
            store.rest(role, range, &mut |key, value| collect(&mut rest, key, value)).expect("the rest");
            if change(role, range, &mut rest) {
                return write(&store, (role, range), Image { upto, changes: Changes::default(), rest });
            }
        }
        panic!("no range was changed");
    }

    /// The store of the checkpoint.
    fn store(&self) -> Store {
        let superblock = onpath_host::dir::read_superblock(&self.path).expect("the superblock");
        Store::open(&self.path.join("journals/1/checkpoint"), superblock.journal_id()).expect("the store")
    }

    /// Runs fsck, which must find exactly this kind of fault, and change nothing.
    pub(crate) fn expect_fault(&self, code: &str, args: &[&str]) -> Vec<Value> {
        self.expect_faults(&[code], args)
    }

    /// The same for faults that come together.
    pub(crate) fn expect_faults(&self, wanted: &[&str], args: &[&str]) -> Vec<Value> {
        let (exit, found) = self.fsck(args);
        let faults = found["faults"].as_array().expect("a list").clone();
        let codes: BTreeSet<&str> = faults.iter().map(|fault| fault["code"].as_str().expect("a code")).collect();
        assert_eq!(codes, wanted.iter().copied().collect(), "{found:#}");
        assert_eq!(exit, Some(4), "{found:#}");
        self.expect_repair(wanted, args);
        faults
    }

    /// What can be repaired is, and then nothing is wrong; else nothing changes.
    fn expect_repair(&self, wanted: &[&str], args: &[&str]) {
        let before = fingerprint(&self.path);
        let (exit, found) = self.fsck_that(&[&["--repair"], TINY, args].concat());
        if !wanted.iter().any(|code| REPAIRED.contains(code)) {
            assert_eq!(exit, Some(4), "{found:#}");
            assert_eq!(before, fingerprint(&self.path), "a repair that was none has changed something");
            return;
        }
        if !wanted.iter().all(|code| REPAIRED.contains(code)) {
            assert!(matches!(exit, Some(4 | 5)), "{wanted:?}: {found:#}");
            return;
        }
        assert_eq!((exit, &found["clean"]), (Some(1), &Value::Bool(true)), "{wanted:?}: {found:#}");
        assert!(found["repaired"].as_array().is_some_and(|all| !all.is_empty()), "{found:#}");
        self.expect_clean(&[]);
        self.expect_untouched();
    }

    /// All but a few objects are what they were before the damage.
    fn expect_untouched(&self) {
        let now = Original::of(&self.path);
        let inodes = |surveys: &[Survey]| surveys.iter().flat_map(|s| s.inodes.clone()).collect::<Vec<_>>();
        let names = |surveys: &[Survey]| surveys.iter().flat_map(|s| s.names.clone()).collect::<Vec<_>>();
        let xattrs = |surveys: &[Survey]| surveys.iter().flat_map(|s| s.xattrs.clone()).collect::<BTreeMap<_, _>>();
        let (then, then_files) = &self.original;
        let (inodes_now, names_now) = (inodes(&now.surveys), names(&now.surveys));
        let changed = inodes(then).into_iter().filter(|inode| !inodes_now.contains(inode)).collect::<Vec<_>>();
        let gone = names(then).into_iter().filter(|name| !names_now.contains(name)).collect::<Vec<_>>();
        assert!(changed.len() <= 4 && gone.len() <= 2, "{changed:?} {gone:?}");
        assert_eq!(xattrs(&now.surveys), xattrs(then));
        assert!(then_files.iter().filter(|file| !now.files.contains(file)).count() <= 1);
    }

    /// Runs fsck, which must find nothing but this note.
    pub(crate) fn expect_note(&self, code: &str, args: &[&str]) {
        let (exit, found) = self.fsck(args);
        assert_eq!(found["faults"], Value::Array(vec![]), "{found:#}");
        assert_eq!(exit, Some(0), "{found:#}");
        let notes = found["notes"].as_array().expect("a list");
        assert!(notes.iter().any(|note| note["code"] == code), "no {code}: {found:#}");
    }

    /// Runs fsck, which must find no fault.
    pub(crate) fn expect_clean(&self, args: &[&str]) {
        let (exit, found) = self.fsck(args);
        assert_eq!((exit, &found["clean"]), (Some(0), &Value::Bool(true)), "{found:#}");
    }

    fn fsck(&self, args: &[&str]) -> (Option<i32>, Value) {
        let before = fingerprint(&self.path);
        let found = self.fsck_that(args);
        assert_eq!(found, self.fsck_that(&[TINY, args].concat()), "with little memory and with more");
        assert_eq!(before, fingerprint(&self.path), "fsck has changed something");
        found
    }

    pub(crate) fn fsck_that(&self, args: &[&str]) -> (Option<i32>, Value) {
        let words = ["fsck", "--json"].into_iter().chain(args.iter().copied()).map(AsRef::as_ref);
        let output = run(words.chain([self.path.as_os_str()]));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!errors.contains("panicked"), "{errors}");
        let found = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"));
        (output.status.code(), found)
    }
}

/// So little memory that most of what is compared goes to temporary files.
const TINY: &[&str] = &["--memory", "16K"];

/// Kinds of faults that are repaired.
const REPAIRED: &[&str] = &[
    "F20", "F21", "F22", "F23", "F24", "F25", "F26", "F27", "F28", "F29", "F30", "F31", "F32", "F33", "F34", "F35",
    "F36", "F37", "F38", "F39", "F40", "F41", "F42", "F44", "F50", "F51", "F53",
];

/// Names, sizes and times of everything in a DIR.
fn fingerprint(dir: &Path) -> Vec<(PathBuf, u64, std::time::SystemTime)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).expect("list").map(|entry| entry.expect("an entry")) {
        let about = entry.metadata().expect("stat");
        all.push((entry.path(), about.len(), about.modified().expect("a time")));
        if about.is_dir() {
            all.extend(fingerprint(&entry.path()));
        }
    }
    all.sort();
    all
}

fn collect(pairs: &mut Vec<Pair>, key: &[u8], value: Result<&[u8], CheckpointError>) -> Result<(), CheckpointError> {
    value.map(|value| pairs.push((key.to_vec(), value.to_vec())))
}

fn write(store: &Store, (role, range): (NodeId, u32), image: Image) {
    let head = store.head().expect("the head").expect("a checkpoint");
    let mut draft = store.begin().expect("a transaction");
    draft.put(role, range, image).expect("put");
    draft.commit(head.from).expect("commit");
}

/// An entry of a change-log that puts a name.
pub(crate) fn entry(seq: LogSeq, name: &Name, child: InodeId, kind: Kind) -> Entry {
    Entry { seq, stamp: Stamp(1), put: true, name: name.clone(), child, kind, dcount: 1, dnlink: 0 }
}
