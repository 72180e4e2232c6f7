//! What a record will ask the store for when it is replayed, so that the host can fetch it for many records at once. What is
//! overlooked here is asked for one by one, so this follows `apply` and need not be exact.

use crate::state::State;
use onpath_wire::disk::record::{Effect, Log, Record};
use onpath_wire::ids::{InodeId, LogSeq};
use onpath_wire::name::Name;

impl State {
    /// Adds beginnings of keys.
    pub(crate) fn foresee(&self, record: &Record, asks: &mut Vec<Vec<u8>>) {
        let born = record.stamp.0 as i64;
        for effect in &record.effects {
            match effect {
                Effect::PutName { parent, name, log, .. } => self.foresee_entry(*parent, name, *log, asks),
                Effect::DropName { parent, name, log, .. } => {
                    asks.extend(self.names.foresee(*parent, name.as_bytes()));
                    self.foresee_entry(*parent, name, *log, asks);
                }
                Effect::AppliedLog { dir, entries, .. } => {
                    asks.extend(entries.iter().filter_map(|entry| self.listings.foresee(*dir, entry.name.as_bytes())));
                }
                Effect::PutInode { inode } if inode.btime == born => {}
                Effect::PutInode { inode } => asks.extend(self.inodes.foresee(inode.id)),
                Effect::DropInode { id }
                | Effect::SetXattr { id, .. }
                | Effect::RemoveXattr { id, .. }
                | Effect::Accessed { id, .. } => asks.extend(self.inodes.foresee(*id)),
                Effect::Merged { data, .. } | Effect::DataDone { data, .. } => {
                    asks.extend(self.inodes.foresee(data.inode))
                }
                _ => {}
            }
        }
    }

    /// The directory's part of a change of a name, if it is applied at once.
    fn foresee_entry(&self, parent: InodeId, name: &Name, log: Log, asks: &mut Vec<Vec<u8>>) {
        if log.seq == LogSeq(0) {
            asks.extend(self.listings.foresee(parent, name.as_bytes()));
        }
    }
}
