//! The store of a checkpoint: one file of ordered tables (`redb`), changed by one transaction a checkpoint.
//!
//! | table | key | value |
//! |---|---|---|
//! | `head` | 0 | whose it is, and from which lsn the journal is replayed over it |
//! | `head` | 1 | bytes of all objects with their keys |
//! | `ranges` | role, range | the last record that the range's objects reflect |
//! | `rest` | role, range, key | objects that are loaded at a start |
//! | `objects-ROLE` | key | objects that are read when they are asked for |
//!
//! Values end with a checksum of key and value (CRC-32C), so that bytes that have changed on the disk are noticed when they are read.

use super::beside;
use super::compact::Compaction;
use super::pages::{Look, Pages, Room};
use super::pointers;
use super::{CheckpointError, at};
use crate::held;
use crate::sys;
use onpath_store::{Changes, Cold, Image, Pair, StoreError};
use onpath_wire::checksum::crc32c;
use onpath_wire::disk::Stored;
use onpath_wire::disk::superblock::JournalId;
use onpath_wire::ids::{Lsn, NodeId, RecordSeq};
use onpath_wire::shown::Shown;
use onpath_wire::stored_struct;
use redb::{
    Builder, Database, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable, ReadableTableMetadata, Table,
    TableDefinition, TableError, TableHandle, WriteTransaction,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// "OnpStore", little-endian.
const MAGIC: u64 = u64::from_le_bytes(*b"OnpStore");
const VERSION: u32 = 2;
/// Name of the file.
pub(super) const FILE_NAME: &str = "objects.redb";
/// Changes of a role that are put into the store together, bytes: sorted, so that what shares pages is written once.
const DRAFT_BYTES: usize = 32 << 20;
/// Most pages of the file that are kept in memory, bytes.
const CACHE_BYTES: usize = 32 << 20;

pub(super) type Bytes = &'static [u8];
pub(super) const HEAD: TableDefinition<'_, u32, Bytes> = TableDefinition::new("head");
/// Key of the bytes of all objects in [`HEAD`].
const LIVE: u32 = 1;
pub(super) const RANGES: TableDefinition<'_, (u32, u32), u64> = TableDefinition::new("ranges");
pub(super) const REST: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("rest");

stored_struct! {
    /// What a store says of itself.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Head {
        /// [`MAGIC`].
        pub magic: u64,
        /// [`VERSION`].
        pub version: u32,
        /// Whose it is.
        pub journal: JournalId,
        /// The first lsn that is replayed over it.
        pub from: Lsn,
    }
}

/// The store of a DIR.
pub struct Store {
    pub(super) db: Database,
    file: PathBuf,
    journal: JournalId,
    pub(super) room: Arc<Room>,
}

/// What ends the process when the store does not give back what was written.
pub type OnDamage = Arc<dyn Fn(&str) + Send + Sync>;

fn prefix(role: NodeId, range: u32) -> Vec<u8> {
    [role.0.to_be_bytes(), range.to_be_bytes()].concat()
}

/// What the names of the tables of objects begin with; the role follows.
pub(super) const OBJECTS: &str = "objects-";

fn table_name(role: NodeId) -> String {
    format!("{OBJECTS}{:08x}", role.0)
}

fn sealed(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = value.to_vec();
    seal(key, &mut bytes);
    bytes
}

fn seal(key: &[u8], value: &mut Vec<u8>) {
    let crc = checksum(key, value);
    value.extend_from_slice(&crc.to_le_bytes());
}

fn checksum(key: &[u8], value: &[u8]) -> u32 {
    crc32c(key).rotate_left(1) ^ crc32c(value)
}

pub(super) fn unsealed<'a>(key: &[u8], bytes: &'a [u8]) -> Option<&'a [u8]> {
    let (value, crc) = bytes.split_last_chunk::<4>()?;
    (checksum(key, value).to_le_bytes() == *crc).then_some(value)
}

/// What a store says of itself.
pub(super) fn head_of(store: &Store, bytes: &[u8]) -> Result<Head, CheckpointError> {
    let bytes = unsealed(b"head", bytes).ok_or_else(|| store.damaged("its head does not check"))?;
    let head = Head::from_stored(bytes).map_err(|error| store.damaged(error))?;
    if head.magic == MAGIC { Ok(head) } else { Err(store.damaged("it is no store of Onpath")) }
}

impl Store {
    /// Opens the store in `dir`, or makes one that was never written.
    pub fn open(dir: &Path, journal: JournalId) -> Result<Store, CheckpointError> {
        Store::open_file(dir.join(FILE_NAME), journal, Room::new(dir))
    }

    /// The same for a file system that nobody uses: a full disk is an error, since nobody would make room.
    pub fn open_unserved(dir: &Path, journal: JournalId) -> Result<Store, CheckpointError> {
        Store::open_file(dir.join(FILE_NAME), journal, Room::unserved(dir))
    }

    /// Makes a store of another number of shards in `dir`, which counts when the superblock says so. A full disk is an error.
    pub fn create_reshaped(dir: &Path, shards: u16, journal: JournalId) -> Result<Store, CheckpointError> {
        let store = Store::open_file(beside::reshaped(dir, shards), journal, Room::unserved(dir))?;
        sys::sync_dir(dir).map_err(at(dir))?;
        Ok(store)
    }

    pub(super) fn open_file(path: PathBuf, journal: JournalId, room: Arc<Room>) -> Result<Store, CheckpointError> {
        let file = held::open_or_create(&path).map_err(at(&path))?;
        Store::of(file, path, journal, room)?.checked()
    }

    fn of(file: File, path: PathBuf, journal: JournalId, room: Arc<Room>) -> Result<Store, CheckpointError> {
        pointers::check(&file, &path)?;
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES);
        let db = guarded(&path, || builder.create_with_backend(Pages { file, room: room.clone() }))?;
        Ok(Store { db, file: path, journal, room })
    }

    /// Makes a store in an unlinked file in `dir`, which nobody else sees and no power loss leaves. A full disk is an error.
    pub fn temporary(dir: &Path, journal: JournalId) -> Result<Store, CheckpointError> {
        let file = tempfile::tempfile_in(dir).map_err(at(dir))?;
        Store::of(file, dir.to_owned(), journal, Room::none())
    }

    /// Looks at the store in `dir`, of so many shards, and changes nothing; none if there is none. All of the file is checked.
    pub fn look(dir: &Path, shards: u16, journal: JournalId) -> Result<Option<Store>, CheckpointError> {
        let new = beside::reshaped(dir, shards);
        let path = if held::exists(&new).map_err(at(&new))? { new } else { dir.join(FILE_NAME) };
        let file = match held::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(at(&path))?,
        };
        pointers::check(&file, &path)?;
        let look = Look::new(file).map_err(at(&path))?;
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
        let db = guarded(&path, || builder.create_with_backend(look))?;
        Store { db, file: path, journal, room: Room::none() }.checked().map(Some)
    }

    fn checked(self) -> Result<Store, CheckpointError> {
        if let Some(head) = self.head()? {
            if head.version != VERSION {
                return Err(CheckpointError::Version { file: self.file, found: head.version });
            }
            if head.journal != self.journal {
                return Err(CheckpointError::Foreign { file: self.file });
            }
        }
        Ok(self)
    }

    /// Its file has this name now.
    pub(super) fn named(self, file: &Path) -> Store {
        Store { file: file.to_owned(), ..self }
    }

    /// Bytes that the file takes on the disk.
    pub(super) fn allocated(&self) -> u64 {
        held::look(&self.file).map_or(0, |about| about.blocks() * 512)
    }

    /// Bytes of all objects with their keys; none if no checkpoint of this version was ever completed.
    pub(super) fn live(&self) -> Result<Option<u64>, CheckpointError> {
        let Some(table) = self.table(HEAD)? else { return Ok(None) };
        let Some(bytes) = guarded(&self.file, || table.get(LIVE))? else { return Ok(None) };
        let live = unsealed(b"live", bytes.value()).and_then(|live| Some(u64::from_le_bytes(live.try_into().ok()?)));
        live.map(Some).ok_or_else(|| self.damaged("what it says of its size does not check"))
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Whose it is.
    pub fn journal(&self) -> JournalId {
        self.journal
    }

    /// A role does not take an object.
    pub(crate) fn refused(&self, source: StoreError) -> CheckpointError {
        CheckpointError::Load { file: self.file.clone(), source }
    }

    pub(super) fn damaged(&self, why: impl ToString) -> CheckpointError {
        CheckpointError::Store { file: self.file.clone(), why: why.to_string() }
    }

    /// A table of the present state, if it was ever written to.
    fn table<K: redb::Key + 'static, V: redb::Value + 'static>(
        &self,
        definition: TableDefinition<'_, K, V>,
    ) -> Result<Option<ReadOnlyTable<K, V>>, CheckpointError> {
        guarded(&self.file, || match self.db.begin_read()?.open_table(definition) {
            Ok(table) => Ok(Some(table)),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(redb::Error::from(error)),
        })
    }

    /// What the store says of itself; none if no checkpoint was ever completed.
    pub fn head(&self) -> Result<Option<Head>, CheckpointError> {
        let Some(table) = self.table(HEAD)? else { return Ok(None) };
        let Some(bytes) = guarded(&self.file, || table.get(0))? else { return Ok(None) };
        head_of(self, bytes.value()).map(Some)
    }

    /// The last records that the ranges of all roles reflect.
    pub fn ranges(&self) -> Result<BTreeMap<(NodeId, u32), RecordSeq>, CheckpointError> {
        let Some(table) = self.table(RANGES)? else { return Ok(BTreeMap::new()) };
        guarded(&self.file, || {
            let all = table.iter()?.map(|entry| {
                let (key, value) = entry?;
                let (role, range) = key.value();
                Ok::<_, redb::Error>(((NodeId(role), range), RecordSeq(value.value())))
            });
            all.collect()
        })
    }

    /// Shows the objects of a range that are loaded at a start; those that do not check go to `damaged`.
    pub fn rest(&self, role: NodeId, range: u32, each: &mut Each<'_>) -> Result<(), CheckpointError> {
        let Some(table) = self.table(REST)? else { return Ok(()) };
        self.scan(&table, &prefix(role, range), each)
    }

    /// The same for the objects of a role that may be read one by one.
    pub fn objects(&self, role: NodeId, each: &mut Each<'_>) -> Result<(), CheckpointError> {
        let name = table_name(role);
        let Some(table) = self.table(TableDefinition::<Bytes, Bytes>::new(&name))? else { return Ok(()) };
        self.scan(&table, &[], each)
    }

    pub(super) fn scan(
        &self,
        table: &impl ReadableTable<Bytes, Bytes>,
        prefix: &[u8],
        each: &mut Each<'_>,
    ) -> Result<(), CheckpointError> {
        let mut entries = guarded(&self.file, || table.range::<&[u8]>(prefix..))?;
        while let Some((key, value)) = guarded(&self.file, || entries.next().transpose())? {
            let Some(short) = key.value().strip_prefix(prefix) else { break };
            let value = unsealed(key.value(), value.value());
            each(short, value.ok_or_else(|| self.damaged(format!("the object {:02x?} does not check", key.value()))))?;
        }
        Ok(())
    }

    /// What the store has of a role's objects now.
    pub fn view(self: &Arc<Store>, role: NodeId, on_damage: OnDamage) -> Result<Arc<dyn Cold>, CheckpointError> {
        let name = table_name(role);
        let table = self.table(TableDefinition::<Bytes, Bytes>::new(&name))?;
        Ok(Arc::new(View { table, store: self.clone(), on_damage }))
    }

    /// Begins a checkpoint.
    pub fn begin(&self) -> Result<Draft<'_>, CheckpointError> {
        let mut transaction = guarded(&self.file, || self.db.begin_write())?;
        // So a start after a kill reads nothing but the head.
        transaction.set_quick_repair(true);
        Ok(self.draft(transaction))
    }

    /// Begins the only checkpoint of a temporary store.
    pub fn begin_temporary(&self) -> Result<Draft<'_>, CheckpointError> {
        let mut transaction = guarded(&self.file, || self.db.begin_write())?;
        guarded(&self.file, || transaction.set_durability(Durability::None))?;
        Ok(self.draft(transaction))
    }

    fn draft(&self, transaction: WriteTransaction) -> Draft<'_> {
        let changes = Changes::default();
        Draft { store: self, transaction, role: NodeId(0), changes, bytes: 0, written: 0, growth: 0, copy: None }
    }
}

/// What takes objects of a store.
pub type Each<'a> = dyn FnMut(&[u8], Result<&[u8], CheckpointError>) -> Result<(), CheckpointError> + 'a;

/// A checkpoint under way.
pub struct Draft<'a> {
    store: &'a Store,
    transaction: WriteTransaction,
    /// Whose `changes` are yet to be put into the store.
    role: NodeId,
    changes: Changes,
    bytes: usize,
    /// Objects written and removed so far.
    written: u64,
    /// Bytes by which all objects together have grown.
    growth: i64,
    /// What is copied of the store changes too.
    copy: Option<&'a mut Compaction>,
}

impl<'a> Draft<'a> {
    /// A copy that is made of the store takes part in it.
    pub(super) fn with(self, copy: Option<&'a mut Compaction>) -> Draft<'a> {
        Draft { copy, ..self }
    }

    /// Takes the image of a range.
    pub fn put(&mut self, role: NodeId, range: u32, image: Image) -> Result<(), CheckpointError> {
        let Image { upto, changes, rest } = image;
        self.change(role, changes)?;
        let (changed, growth) = guarded(&self.store.file, || {
            let mut table = self.transaction.open_table(REST)?;
            let changed = put_rest(&mut table, &prefix(role, range), &rest)?;
            self.transaction.open_table(RANGES)?.insert((role.0, range), upto.0)?;
            Ok::<_, redb::Error>(changed)
        })?;
        self.written += changed;
        self.growth += growth;
        Ok(())
    }

    /// Takes changes of a role's objects.
    pub fn change(&mut self, role: NodeId, Changes { put, removed }: Changes) -> Result<(), CheckpointError> {
        if role != self.role {
            self.put_changes()?;
            self.role = role;
        }
        self.bytes += put.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        self.bytes += removed.iter().map(Vec::len).sum::<usize>();
        self.changes.put.extend(put);
        self.changes.removed.extend(removed);
        if self.bytes >= DRAFT_BYTES { self.put_changes() } else { Ok(()) }
    }

    /// Puts the changes taken so far into the store. Ranges have different keys, and a key that is removed and put is put.
    fn put_changes(&mut self) -> Result<(), CheckpointError> {
        let Changes { mut put, mut removed } = std::mem::take(&mut self.changes);
        self.bytes = 0;
        self.written += (put.len() + removed.len()) as u64;
        put.sort_unstable();
        removed.sort_unstable();
        if put.is_empty() && removed.is_empty() {
            return Ok(());
        }
        put.iter_mut().for_each(|(key, value)| seal(key, value));
        let name = table_name(self.role);
        self.growth +=
            guarded(&self.store.file, || put_objects(&self.transaction, &name, &removed, &put, &mut |_| true))?;
        if let Some(copy) = &mut self.copy {
            copy.put(&name, &removed, &put);
        }
        Ok(())
    }

    /// Makes it the checkpoint, durably: the journal is replayed from `from`. Returns how many objects were written and removed.
    pub fn commit(mut self, from: Lsn) -> Result<u64, CheckpointError> {
        self.put_changes()?;
        let head = Head { magic: MAGIC, version: VERSION, journal: self.store.journal, from };
        let before = self.store.live()?;
        guarded(&self.store.file, || {
            let live = match before {
                Some(before) => before.saturating_add_signed(self.growth),
                None => stored_bytes(&self.transaction)?,
            };
            let mut table = self.transaction.open_table(HEAD)?;
            table.insert(0, sealed(b"head", &head.to_stored()).as_slice())?;
            table.insert(LIVE, sealed(b"live", &live.to_le_bytes()).as_slice())?;
            drop(table);
            self.transaction.commit().map_err(redb::Error::from)
        })?;
        Ok(self.written)
    }
}

/// Removes objects of a table and puts others, those of them whose keys are `wanted`; by how many bytes all together grow.
pub(super) fn put_objects(
    transaction: &WriteTransaction,
    table: &str,
    removed: &[Vec<u8>],
    put: &[Pair],
    wanted: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<i64, redb::Error> {
    let mut table = transaction.open_table(TableDefinition::<Bytes, Bytes>::new(table))?;
    let mut growth = 0;
    for key in removed.iter().filter(|key| wanted(key)) {
        growth += change(&mut table, key, None)?;
    }
    for (key, value) in put.iter().filter(|(key, _)| wanted(key)) {
        growth += change(&mut table, key, Some(value))?;
    }
    Ok(growth)
}

/// Gives a key this value, or none; by how many bytes all objects grow.
fn change(table: &mut Table<'_, Bytes, Bytes>, key: &[u8], value: Option<&[u8]>) -> Result<i64, redb::Error> {
    let old = match value {
        Some(value) => table.insert(key, value)?,
        None => table.remove(key)?,
    };
    let bytes = |value: &[u8]| (key.len() + value.len()) as i64;
    Ok(value.map_or(0, bytes) - old.map_or(0, |old| bytes(old.value())))
}

/// Bytes of all objects, counted: for a store that was written before they were kept.
fn stored_bytes(transaction: &WriteTransaction) -> Result<u64, redb::Error> {
    let mut all = transaction.open_table(REST)?.stats()?.stored_bytes();
    let names: Vec<String> = transaction.list_tables()?.map(|table| table.name().to_owned()).collect();
    for name in names.iter().filter(|name| name.starts_with(OBJECTS)) {
        all += transaction.open_table(TableDefinition::<Bytes, Bytes>::new(name))?.stats()?.stored_bytes();
    }
    Ok(all)
}

/// Makes `pairs` all that there is with this prefix; how many objects that has changed, and by how many bytes all grow.
fn put_rest(table: &mut Table<'_, Bytes, Bytes>, prefix: &[u8], pairs: &[Pair]) -> Result<(u64, i64), redb::Error> {
    let mut new: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for (key, value) in pairs {
        let key = [prefix, key].concat();
        let value = sealed(&key, value);
        new.insert(key, value);
    }
    let mut gone: Vec<Vec<u8>> = Vec::new();
    for entry in table.range::<&[u8]>(prefix..)? {
        let (key, value) = entry?;
        if !key.value().starts_with(prefix) {
            break;
        }
        match new.get(key.value()) {
            Some(same) if same == value.value() => _ = new.remove(key.value()),
            Some(_) => {}
            None => gone.push(key.value().to_vec()),
        }
    }
    let mut growth = 0;
    for key in &gone {
        growth += change(table, key, None)?;
    }
    for (key, value) in &new {
        growth += change(table, key, Some(value))?;
    }
    Ok(((gone.len() + new.len()) as u64, growth))
}

/// Runs a step of the library, which may panic on a file that something else has changed.
pub(super) fn guarded<T, E: Into<redb::Error>>(
    file: &Path,
    act: impl FnOnce() -> Result<T, E>,
) -> Result<T, CheckpointError> {
    let error = match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(done)) => return Ok(done),
        Ok(Err(error)) => error.into(),
        Err(_) => redb::Error::Corrupted("a page is not what its checksum says".into()),
    };
    Err(match error {
        // Of an end that comes too soon the file is to blame, not the disk.
        redb::Error::Io(source) if source.kind() != io::ErrorKind::UnexpectedEof => {
            CheckpointError::Io { path: file.to_owned(), source }
        }
        redb::Error::UpgradeRequired(found) => CheckpointError::Version { file: file.to_owned(), found: found.into() },
        error => CheckpointError::Store { file: file.to_owned(), why: error.to_string() },
    })
}

/// What the store has of a role's objects, as of one checkpoint.
struct View {
    table: Option<ReadOnlyTable<Bytes, Bytes>>,
    /// Stays open until nobody reads it, also when another one counts.
    store: Arc<Store>,
    on_damage: OnDamage,
}

impl View {
    /// Fail-stop: what the disk does not give back must not look as if it had never been.
    fn sound<T, E: Into<redb::Error>>(&self, act: impl FnOnce() -> Result<T, E>) -> T {
        guarded(&self.store.file, act).unwrap_or_else(|error| self.fail(&error.to_string()))
    }

    fn fail(&self, why: &str) -> ! {
        (self.on_damage)(why);
        panic!("{why}");
    }

    fn value<'a>(&self, key: &[u8], bytes: &'a [u8]) -> &'a [u8] {
        unsealed(key, bytes).unwrap_or_else(|| {
            self.fail(&format!("{}: an object does not check; run `onpath fsck`", self.store.file.shown()))
        })
    }
}

impl Cold for View {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let table = self.table.as_ref()?;
        let found = self.sound(|| table.get(key))?;
        Some(self.value(key, found.value()).to_vec())
    }

    fn scan(&self, prefix: &[u8], from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        let Some(table) = &self.table else { return };
        let mut entries = self.sound(|| table.range::<&[u8]>(prefix.max(from)..));
        while let Some((key, value)) = self.sound(|| entries.next().transpose()) {
            if !key.value().starts_with(prefix) || !each(key.value(), self.value(key.value(), value.value())) {
                break;
            }
        }
    }
}
