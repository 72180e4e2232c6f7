//! Whether the effects of a record of the journal can be applied to the state that is there. What lives makes none that cannot, so it is
//! asked in replay only, of each effect before it is applied.

use crate::state::State;
use crate::state::apply::Wants;
use crate::state::recover::{GLOBAL_RANGE, range_of};
use onpath_store::{Inodes, StoreError};
use onpath_wire::disk::record::{Effect, Log};
use onpath_wire::disk::txn::{Found, Part};
use onpath_wire::ids::{InodeId, LogSeq, Stamp};
use onpath_wire::limits::{BLOCK_BYTES, FILE_BYTES_MAX};

/// Blocks of a file of the most bytes.
const BLOCKS_MAX: u64 = FILE_BYTES_MAX / BLOCK_BYTES;

/// The last one that times have room for. Clocks follow it, so they need room for more.
const STAMP_MAX: Stamp = Stamp(i64::MAX as u64);

type Sound = Result<(), StoreError>;

fn ensure(fits: bool, what: impl FnOnce() -> String) -> Sound {
    if fits { Ok(()) } else { Err(StoreError::Contradiction(what())) }
}

fn ensure_inode(id: InodeId) -> Sound {
    ensure(id.is_some(), || "an inode without a number".to_owned())
}

/// The sum of all blocks has room for that.
fn ensure_blocks(id: InodeId, blocks: u64) -> Sound {
    ensure(blocks <= BLOCKS_MAX, || format!("{id:?} has {blocks} blocks"))
}

/// Whether a clock may follow it: no shard's own one comes so far.
pub(super) fn is_stamp(stamp: Stamp) -> bool {
    stamp <= STAMP_MAX
}

/// The same of a record.
pub(super) fn ensure_stamp(stamp: Stamp) -> Sound {
    ensure(is_stamp(stamp), || format!("a stamp of {} ns, which no clock gives", stamp.0))
}

/// Whether of each part of a transaction was found what was asked.
pub(super) fn fits(parts: &[Part], found: &[Found]) -> bool {
    let fits = |(part, found): (&Part, &Found)| match (part, found) {
        (Part::Inode { id, .. }, Found::Inode { attributes, .. }) => attributes.id == *id,
        (Part::Source { .. } | Part::Swap { .. }, Found::Source { child, .. }) => child.is_some(),
        (Part::Put { .. } | Part::Asked { .. }, Found::Source { .. }) => true,
        _ => false,
    };
    parts.len() == found.len() && parts.iter().zip(found).all(fits)
}

impl State {
    /// Says why an effect cannot be applied to the ranges that want it.
    pub(super) fn check(&mut self, effect: &Effect, wants: &impl Wants) -> Sound {
        match effect {
            Effect::PutName { parent, child, log, .. } | Effect::DropName { parent, child, log, .. } => {
                ensure_inode(*parent)?;
                ensure_inode(*child)?;
                self.check_log(*parent, *log, wants)
            }
            Effect::PutInode { inode } => {
                Inodes::check(inode).map_err(|source| StoreError::Undecodable { what: "inode of a record", source })?;
                ensure_blocks(inode.id, inode.blocks)
            }
            Effect::Merged { data, blocks, stamp, .. } => {
                stamp.map_or(Ok(()), ensure_stamp)?;
                ensure_blocks(data.inode, *blocks)
            }
            Effect::DataDone { data, blocks, .. } => ensure_blocks(data.inode, *blocks),
            Effect::AppliedLog { dir, dcount, dnlink, entries, .. } => {
                ensure_inode(*dir)?;
                entries.iter().try_for_each(|entry| ensure_inode(entry.child))?;
                if wants.wants(range_of(dir.slot())) { self.check_counts(*dir, *dcount, *dnlink) } else { Ok(()) }
            }
            Effect::Prepared { txn, parts, found } if wants.wants(GLOBAL_RANGE) => {
                ensure(fits(parts, found), || format!("{txn:?} is prepared without what was asked"))?;
                ensure(self.txns.promise(*txn).is_none(), || format!("{txn:?} is prepared twice"))
            }
            _ => Ok(()),
        }
    }

    /// The directory's part of a changed name.
    fn check_log(&mut self, dir: InodeId, log: Log, wants: &impl Wants) -> Sound {
        if log.seq == LogSeq(0) {
            let wanted = wants.wants(range_of(dir.slot()));
            return if wanted { self.check_counts(dir, log.dcount.into(), log.dnlink.into()) } else { Ok(()) };
        }
        let follows = self.dirs.last_entry(dir).is_none_or(|last| last < log.seq);
        ensure(follows || !wants.wants(GLOBAL_RANGE), || {
            format!("{} in the change-log of {dir:?}: positions grow", log.seq.0)
        })
    }

    /// A directory that is there has no fewer than 0 entries, and links that fit their number.
    fn check_counts(&mut self, dir: InodeId, dcount: i64, dnlink: i64) -> Sound {
        let Some(inode) = self.inodes.get(dir) else { return Ok(()) };
        let entries = inode.entries.checked_add_signed(dcount);
        let nlink = i64::from(inode.nlink).checked_add(dnlink).and_then(|nlink| u32::try_from(nlink).ok());
        ensure(inode.is_dir() && entries.is_some() && nlink.is_some(), || {
            let (entries, nlink) = (inode.entries, inode.nlink);
            format!("{dcount} entries and {dnlink} links more for {dir:?}, which has {entries} and {nlink}")
        })
    }
}
