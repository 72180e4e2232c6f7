//! What a home knows of the writes that data nodes answer by themselves: of each file up to which position, and which were refused.
//!
//! Positions are counted by a data node for all its files, and the first write of a record says which one it follows: a record that
//! leaves some out contradicts the state. Up to a data node's floor all writes are applied and trimmed, so what a file's inode says of
//! those is forgotten: by nobody at once, but whenever the inode is written or shown.

use crate::state::State;
use onpath_store::StoreError;
use onpath_wire::disk::inode::{Inode, Refused};
use onpath_wire::disk::record::Effect;
use onpath_wire::ids::{InodeId, LogSeq, Stamp};
use onpath_wire::inode::Kind;

/// Several writes of a file, which follow one another, as a record tells of them.
struct Writes<'a> {
    base: LogSeq,
    last: LogSeq,
    stamp: Stamp,
    refused: &'a [LogSeq],
}

impl<'a> Writes<'a> {
    /// From the later fields of a record; `stamp`: that of the record, if none is among them. None if the record is of one write without a position.
    #[inline]
    fn of(
        (base, last): (Option<LogSeq>, Option<LogSeq>),
        newest: Option<Stamp>,
        refused: Option<&'a Refused>,
        stamp: Stamp,
    ) -> Result<Option<Writes<'a>>, StoreError> {
        let refused = refused.map_or(&[][..], Refused::positions);
        let Some(last) = last else {
            let alone = base.is_none() && newest.is_none() && refused.is_empty();
            return if alone { Ok(None) } else { Err(contradiction("writes without the position of the last one")) };
        };
        let writes = Writes { base: base.unwrap_or_default(), last, stamp: newest.unwrap_or(stamp), refused };
        let within = |position: &LogSeq| writes.base < *position && *position <= last;
        if writes.base > last || !refused.iter().all(within) {
            return Err(contradiction("positions of writes that do not follow one another"));
        }
        Ok(Some(writes))
    }
}

fn contradiction(what: &str) -> StoreError {
    StoreError::Contradiction(what.to_owned())
}

impl State {
    /// Up to here all writes of a file are known, whatever its inode says.
    fn floor_of(&self, file: InodeId) -> LogSeq {
        self.dirs.floor(self.config.map.data(file))
    }

    /// An inode without what is forgotten of its writes.
    pub(crate) fn remembered(&self, mut inode: Inode) -> Inode {
        if inode.merged.is_some() || inode.refused.is_some() {
            let floor = self.floor_of(inode.id);
            inode.merged = inode.merged.filter(|upto| *upto > floor);
            inode.refused = above(floor, inode.refused);
        }
        inode
    }

    /// Applies *Merged*: bytes of a file were written.
    #[inline]
    pub(super) fn apply_merged(&mut self, stamp: Stamp, effect: &Effect) -> Result<(), StoreError> {
        let Effect::Merged { data, size, blocks, version, kill_suidgid, base, last, stamp: newest, refused, cut: _ } =
            effect
        else {
            unreachable!("{effect:?} is applied elsewhere")
        };
        let several = Writes::of((*base, *last), *newest, refused.as_ref(), stamp)?;
        let stamp = several.map_or(Ok(stamp), |writes| self.learn_writes(data.inode, &writes))?;
        self.inodes.merged(data.inode, *size, *blocks, *version, *kill_suidgid, stamp);
        Ok(())
    }

    /// Writes of a file become known: what becomes of its times. Those of a file that is gone are over.
    fn learn_writes(&mut self, file: InodeId, writes: &Writes<'_>) -> Result<Stamp, StoreError> {
        let Some(inode) = self.inodes.get(file).filter(|inode| inode.kind == Kind::File) else {
            return Ok(writes.stamp);
        };
        let (inode, floor) = (self.remembered(inode), self.floor_of(file));
        let known = inode.merged.unwrap_or_default().max(floor);
        let Writes { base, last, stamp, refused } = *writes;
        if base > known {
            let what = format!("writes of {file:?} after position {}, of which {} are known", base.0, known.0);
            return Err(StoreError::Contradiction(what));
        }
        let mut all = inode.refused.as_ref().map_or(&[][..], Refused::positions).to_vec();
        all.extend(refused.iter().filter(|position| **position > floor));
        all.sort_unstable();
        all.dedup();
        let refused =
            Refused::of(all).map_err(|error| StoreError::Contradiction(format!("writes of {file:?}: {error}")))?;
        let known = last.max(known);
        self.inodes.set_writes(file, (known > floor).then_some(known), refused);
        self.clock.replayed(stamp);
        Ok(stamp)
    }
}

/// Those of them that the floor has not passed.
fn above(floor: LogSeq, refused: Option<Refused>) -> Option<Refused> {
    let left = refused?.positions().iter().copied().filter(|position| *position > floor).collect();
    Refused::of(left).expect("a part of what is in order")
}
