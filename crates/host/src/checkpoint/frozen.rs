//! One state of a store, piece by piece, whatever is committed meanwhile.

use super::CheckpointError;
use super::run::Checkpointer;
use super::store::{Bytes, HEAD, Head, OBJECTS, RANGES, REST, Store, guarded, head_of};
use crate::journal::Hold;
use onpath_wire::codec::Blob;
use onpath_wire::ids::{Lsn, NodeId, RecordSeq};
use onpath_wire::wire_enum;
use redb::{
    Key, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition,
    TableError, TableHandle, Value,
};

wire_enum! {
    /// A piece of the durable state of a file system; its value, where it has one, comes beside it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Piece {
        /// How much of a role's past the store has of a range. All of these come first.
        1 => Range {
            /// The role.
            role: NodeId,
            /// Its range.
            range: u32,
            /// The last record.
            upto: RecordSeq,
        },
        /// An object that is loaded at a start.
        2 => Rest {
            /// The role.
            role: NodeId,
            /// Its range.
            range: u32,
            /// Key; the value is its own.
            key: Blob,
        },
        /// An object that is read when it is asked for.
        3 => Object {
            /// The role.
            role: NodeId,
            /// Key; the value is its own.
            key: Blob,
        },
        /// A record of the journal; the value is the record. After all objects.
        4 => Record {
            /// The role.
            role: NodeId,
            /// Its number.
            seq: RecordSeq,
        },
        /// There is no more.
        5 => End {
            /// The journal was replayed from here.
            from: Lsn,
            /// Up to here.
            last: Lsn,
            /// Data files that exist.
            files: u32,
        },
        /// Something cannot be read; the value says why, in words. There is no more.
        6 => Damage {
            /// Of the journal, else of the store.
            journal: bool,
        },
    }
}

/// What takes pieces and their values.
pub(super) type Pieces<'a> = dyn FnMut(&Piece, &[u8]) -> Result<(), CheckpointError> + 'a;

/// One state of a store.
pub struct Frozen<'a> {
    store: &'a Store,
    transaction: ReadTransaction,
}

impl Store {
    /// The present state. Whatever is committed later does not change it.
    pub fn frozen(&self) -> Result<Frozen<'_>, CheckpointError> {
        let transaction = guarded(self.file(), || self.db.begin_read())?;
        Ok(Frozen { store: self, transaction })
    }
}

impl Frozen<'_> {
    /// A table, if it was ever written to.
    pub(super) fn table<K: Key + 'static, V: Value + 'static>(
        &self,
        definition: TableDefinition<'_, K, V>,
    ) -> Result<Option<ReadOnlyTable<K, V>>, CheckpointError> {
        guarded(self.store.file(), || match self.transaction.open_table(definition) {
            Ok(table) => Ok(Some(table)),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(redb::Error::from(error)),
        })
    }

    /// What it says of itself; none if no checkpoint was ever completed.
    pub fn head(&self) -> Result<Option<Head>, CheckpointError> {
        let Some(table) = self.table(HEAD)? else { return Ok(None) };
        let bytes = guarded(self.store.file(), || table.get(0))?;
        bytes.map(|bytes| head_of(self.store, bytes.value())).transpose()
    }

    /// Number of objects.
    pub fn objects(&self) -> Result<u64, CheckpointError> {
        let file = self.store.file();
        let mut all = self.table(REST)?.map_or(Ok(0), |rest| guarded(file, || rest.len()))?;
        for (name, _) in self.object_tables()? {
            let table = self.table(TableDefinition::<Bytes, Bytes>::new(&name))?;
            all += table.map_or(Ok(0), |table| guarded(file, || table.len()))?;
        }
        Ok(all)
    }

    /// The tables of objects and their roles.
    pub(super) fn object_tables(&self) -> Result<Vec<(String, NodeId)>, CheckpointError> {
        let names: Vec<String> = guarded(self.store.file(), || {
            Ok::<_, redb::Error>(self.transaction.list_tables()?.map(|table| table.name().to_owned()).collect())
        })?;
        let role = |name: &str| u32::from_str_radix(name.strip_prefix(OBJECTS)?, 16).ok().map(NodeId);
        Ok(names.into_iter().filter_map(|name| role(&name).map(|role| (name, role))).collect())
    }

    /// Shows ranges, the objects that are loaded at a start, and all others.
    pub fn all(&self, each: &mut Pieces<'_>) -> Result<(), CheckpointError> {
        let file = self.store.file();
        if let Some(ranges) = self.table(RANGES)? {
            let mut entries = guarded(file, || ranges.iter())?;
            while let Some((key, upto)) = guarded(file, || entries.next().transpose())? {
                let (role, range) = key.value();
                each(&Piece::Range { role: NodeId(role), range, upto: RecordSeq(upto.value()) }, &[])?;
            }
        }
        if let Some(rest) = self.table(REST)? {
            self.store.scan(&rest, &[], &mut |key, value| {
                let (Some((role, short)), value) = (key.split_first_chunk::<4>(), value?) else {
                    return Err(self.store.damaged("an object without a role"));
                };
                let Some((range, short)) = short.split_first_chunk::<4>() else {
                    return Err(self.store.damaged("an object without a range"));
                };
                let (role, range) = (NodeId(u32::from_be_bytes(*role)), u32::from_be_bytes(*range));
                each(&Piece::Rest { role, range, key: Blob(short.to_vec()) }, value)
            })?;
        }
        for (name, role) in self.object_tables()? {
            let Some(table) = self.table(TableDefinition::<Bytes, Bytes>::new(&name))? else { continue };
            self.store
                .scan(&table, &[], &mut |key, value| each(&Piece::Object { role, key: Blob(key.to_vec()) }, value?))?;
        }
        Ok(())
    }
}

/// What of a file system that is served can be read while it goes on: its store, and the journal that follows.
pub(super) struct Examined<'a> {
    /// The store.
    pub store: Frozen<'a>,
    /// What is in the store, in words of the journal.
    pub from: Lsn,
    /// The journal.
    pub journal: Hold,
}

impl Checkpointer {
    /// Shows all pieces of the durable state as of now, while everybody goes on; `files`: data files that exist then. An error is
    /// that of `each`: what cannot be read is a piece itself.
    pub fn examine(&self, files: &dyn Fn() -> u32, each: &mut Pieces<'_>) -> Result<(), CheckpointError> {
        self.with_examined(&mut |examined| {
            let mut failed = None;
            let read = examined.store.all(&mut |piece, value| each(piece, value).inspect_err(|_| failed = Some(())));
            if failed.is_some() {
                return read;
            }
            if let Err(error) = read {
                return each(&Piece::Damage { journal: false }, error.to_string().as_bytes());
            }
            let mut stopped = None;
            let mut record = |role: NodeId, seq: RecordSeq, record: &[u8]| {
                if stopped.is_none() {
                    stopped = each(&Piece::Record { role, seq }, record).err();
                }
                Ok(())
            };
            let read = examined.journal.replay(&mut record);
            match (stopped, read) {
                (Some(error), _) => Err(error),
                (None, Err(error)) => each(&Piece::Damage { journal: true }, error.to_string().as_bytes()),
                (None, Ok(report)) => each(&Piece::End { from: examined.from, last: report.last, files: files() }, &[]),
            }
        })
    }
}
