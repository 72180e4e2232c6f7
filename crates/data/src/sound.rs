//! Whether what was stored names blocks that there can be. All arithmetic on blocks rests on that, so it is asked of every record and
//! object before anything is done with it.

use crate::content::{KEEP_ALL, KEEP_NONE};
use onpath_wire::WireError;
use onpath_wire::disk::block::{BlockRange, DataRecord, Extent, Mapping, ReservedRun};
use onpath_wire::limits::FILE_BYTES_MAX;

type Sound = Result<(), WireError>;

/// A run of blocks of a file in a run of places; the highest number of a place stands for a hole.
fn run(start: u32, phys: u32, len: usize) -> bool {
    let Ok(len) = u32::try_from(len) else { return false };
    start.checked_add(len.saturating_sub(1)).is_some() && phys.checked_add(len).is_some() && phys < u32::MAX
}

/// Blocks with bytes.
pub(crate) fn extents(extents: &[Extent]) -> Sound {
    let sound = |extent: &Extent| run(extent.start, extent.phys, extent.crcs.len());
    if extents.iter().all(sound) { Ok(()) } else { Err(WireError::Bad("blocks beyond the last one")) }
}

/// Places without bytes.
pub(crate) fn reserved(runs: &[ReservedRun]) -> Sound {
    let sound = |of: &ReservedRun| of.len > 0 && run(of.start, of.phys, of.len as usize);
    if runs.iter().all(sound) { Ok(()) } else { Err(WireError::Bad("places beyond the last one")) }
}

/// The place of one block; `least`: so many of its bytes count.
pub(crate) fn mapping(at: Mapping, least: u16) -> Sound {
    let sound = run(0, at.phys, 1) && (least..=KEEP_ALL).contains(&at.keep);
    if sound { Ok(()) } else { Err(WireError::Bad("place of a block")) }
}

/// A record of an index.
pub(crate) fn record(record: &DataRecord) -> Sound {
    match record {
        DataRecord::Written { extents: new, .. } => extents(new),
        DataRecord::Changed { hole, extents: new, reserved: kept, .. } => {
            if hole.is_some_and(|BlockRange { first, last }| first > last) {
                return Err(WireError::Bad("hole that ends before it begins"));
            }
            extents(new).and_then(|()| reserved(kept))
        }
        DataRecord::Trimmed { size, .. } if *size > FILE_BYTES_MAX => Err(WireError::Bad("size of a file")),
        DataRecord::Restored { to, .. } => to.map_or(Ok(()), |to| mapping(to, KEEP_NONE)),
        DataRecord::Trimmed { .. }
        | DataRecord::Dropped { .. }
        | DataRecord::Voided { .. }
        | DataRecord::Settled { .. }
        | DataRecord::Floor { .. }
        | DataRecord::Reserved { .. }
        | DataRecord::PowerLost { .. } => Ok(()),
    }
}
