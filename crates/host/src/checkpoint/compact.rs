//! Giving space back. The file of the store keeps what it once took; when most of that is free, what is in use is copied into a new
//! file, in the order of the keys and a few objects at a time. Checkpoints go on between two of these steps, and change what has been
//! copied already in both. When all is copied the new file is renamed to the name of the old one, of which it has the same state, so
//! either may be found after a power loss. A copy that does not come so far is left out: nothing counts of it.

use super::beside::copy;
use super::frozen::Frozen;
use super::pages::Room;
use super::store::{Bytes, HEAD, RANGES, REST, Store, guarded, put_objects, unsealed};
use super::{CheckpointError, at};
use crate::held;
use onpath_store::Pair;
use onpath_wire::disk::superblock::JournalId;
use redb::{Key, ReadableTable, TableDefinition, Value, WriteTransaction};
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// Bytes of objects that are copied in a step, about.
const STEP_BYTES: usize = 1 << 20;
/// A store is copied when its file takes so many times what its objects do.
const WASTE_TIMES: u64 = 3;
/// Most bytes that a copy takes for each byte of its objects.
const COPY_TIMES: u64 = 2;

/// Whether a file of `allocated` bytes shall be copied of which `live` bytes are in use; `least` bytes may be free in any.
pub(super) fn is_wasteful(allocated: u64, live: u64, least: u64) -> bool {
    allocated >= live.saturating_mul(WASTE_TIMES).saturating_add(least)
}

/// Bytes that must be free on the disk before a copy begins: what it takes, and as much besides as would be in vain in any store.
pub(super) fn room_needed(live: u64, least: u64) -> u64 {
    live.saturating_mul(COPY_TIMES).saturating_add(least)
}

/// A copy under way.
pub(super) struct Compaction {
    transaction: WriteTransaction,
    new: Store,
    file: File,
    /// Table and key up to which all is copied.
    upto: (String, Option<Vec<u8>>),
    /// Why what a checkpoint has changed is not in the copy.
    failed: Option<CheckpointError>,
    unfinished: Unfinished,
}

/// A file that goes unless it takes another name.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = held::remove(&self.0);
    }
}

impl Compaction {
    /// Begins a copy in `dir`.
    pub(super) fn begin(dir: &Path, journal: JournalId) -> Result<Compaction, CheckpointError> {
        let path = copy(dir);
        match held::remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&path)(error)),
            _ => {}
        }
        let unfinished = Unfinished(path.clone());
        let new = Store::open_file(path.clone(), journal, Room::none())?;
        let file = held::open(&path).map_err(at(&path))?;
        let mut transaction = guarded(&path, || new.db.begin_write())?;
        transaction.set_quick_repair(true);
        Ok(Compaction { transaction, new, file, upto: (String::new(), None), failed: None, unfinished })
    }

    /// Copies some more of `old`, and makes it durable; false if that is all that there is at present.
    pub(super) fn step(&mut self, old: &Store) -> Result<bool, CheckpointError> {
        self.failed.take().map_or(Ok(()), Err)?;
        // A checkpoint that lacks room ends it.
        held::look(&self.unfinished.0).map_err(at(&self.unfinished.0))?;
        let frozen = old.frozen()?;
        let mut left = STEP_BYTES;
        for (name, _) in frozen.object_tables()? {
            if name < self.upto.0 {
                continue;
            }
            if name > self.upto.0 {
                self.upto = (name, None);
            }
            let batch = self.next_batch(old, &frozen, &mut left)?;
            guarded(self.new.file(), || put_objects(&self.transaction, &self.upto.0, &[], &batch, &mut |_| true))?;
            self.upto.1 = batch.into_iter().next_back().map(|(key, _)| key).or(self.upto.1.take());
            if left == 0 {
                break;
            }
        }
        // So that there is never much that the last step must wait for.
        self.file.sync_data().map_err(at(self.new.file()))?;
        Ok(left == 0)
    }

    /// The objects that come next in the table that is copied, as they are stored; takes their bytes from those that are `left`.
    fn next_batch(&self, old: &Store, frozen: &Frozen<'_>, left: &mut usize) -> Result<Vec<Pair>, CheckpointError> {
        let (name, after) = &self.upto;
        let mut batch = Vec::new();
        let Some(table) = frozen.table(TableDefinition::<Bytes, Bytes>::new(name))? else { return Ok(batch) };
        let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut entries = guarded(old.file(), || table.range::<&[u8]>((from, Bound::Unbounded)))?;
        while *left > 0
            && let Some((key, value)) = guarded(old.file(), || entries.next().transpose())?
        {
            let (key, value) = (key.value(), value.value());
            if unsealed(key, value).is_none() {
                return Err(old.damaged(format!("the object {key:02x?} does not check")));
            }
            *left = left.saturating_sub(key.len() + value.len());
            batch.push((key.to_vec(), value.to_vec()));
        }
        Ok(batch)
    }

    /// A checkpoint has changed these objects of a table.
    pub(super) fn put(&mut self, table: &str, removed: &[Vec<u8>], put: &[Pair]) {
        if table > self.upto.0.as_str() || self.failed.is_some() || !self.unfinished.0.exists() {
            return;
        }
        let all = table < self.upto.0.as_str();
        let upto = self.upto.1.as_deref();
        let mut copied = |key: &[u8]| all || upto.is_some_and(|upto| key <= upto);
        let done = guarded(self.new.file(), || put_objects(&self.transaction, table, removed, put, &mut copied));
        self.failed = done.err();
    }

    /// The whole copy: durable, and with the name of `old`, though that is not durable yet. Nothing has changed since the last step.
    pub(super) fn finish(self, old: &Store) -> Result<Store, CheckpointError> {
        let Compaction { transaction, new, unfinished, .. } = self;
        let (journal, frozen) = (new.journal(), old.frozen()?);
        copy_table(old, &frozen, &transaction, REST)?;
        copy_table(old, &frozen, &transaction, RANGES)?;
        copy_table(old, &frozen, &transaction, HEAD)?;
        guarded(new.file(), || transaction.commit())?;
        // Closed, it lets go of what it has at its end.
        drop(new);
        let whole = Store::open_file(unfinished.0.clone(), journal, Room::none())?;
        if whole.head()? != frozen.head()? {
            return Err(whole.damaged("it is not the copy that was written"));
        }
        held::rename(&unfinished.0, old.file()).map_err(at(&unfinished.0))?;
        Ok(whole.named(old.file()))
    }
}

fn copy_table<K: Key + 'static, V: Value + 'static>(
    old: &Store,
    frozen: &Frozen<'_>,
    to: &WriteTransaction,
    definition: TableDefinition<'_, K, V>,
) -> Result<(), CheckpointError> {
    let Some(table) = frozen.table(definition)? else { return Ok(()) };
    guarded(old.file(), || {
        let mut to = to.open_table(definition)?;
        for entry in table.iter()? {
            let (key, value) = entry?;
            to.insert(key.value(), value.value())?;
        }
        Ok::<_, redb::Error>(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mostly_free_is_wasteful() {
        assert!(!is_wasteful(1 << 20, 0, 2 << 20), "small ones never are");
        assert!(is_wasteful(3 << 20, 0, 2 << 20));
        assert!(!is_wasteful(300, 99, 10) && is_wasteful(307, 99, 10));
        assert!(!is_wasteful(u64::MAX - 1, u64::MAX, 1));
        assert_eq!(room_needed(100, 10), 210);
    }
}
