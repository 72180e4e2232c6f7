//! What a read or write does when its generation or cut is refused: it asks the home, and tries again.
//!
//! Usually the home knows of newer bytes. If it repeats what was refused, then the data node holds writes of a generation
//! that the home has forgotten in a power loss, and will be told so: that takes a moment.

use crate::limits::{STALE_PAUSES_MAX, STALE_ROUNDS_MAX};
use crate::op::Op;
use crate::opens::Known;
use crate::ops::pages;
use crate::ops::read::data_ref;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::reply::DataRef;

/// How often one operation was refused.
#[derive(Default)]
pub(crate) struct Refusals {
    rounds: u32,
    beside_pages: u32,
    pauses: u32,
    paused_since_us: Option<u64>,
}

impl Refusals {
    /// The home knows of newer bytes.
    pub(crate) fn by_home(&mut self) -> Result<(), Errno> {
        self.rounds += 1;
        if self.rounds < STALE_ROUNDS_MAX { Ok(()) } else { Err(Errno::EIO) }
    }

    /// It was done while others may have changed pages in memory: whether it stands. Seldom not, as what they change they have written back
    /// before, and map again when it is done.
    pub(crate) async fn by_pages(&mut self, op: &mut Op, id: InodeId, count: u64) -> Result<bool, Errno> {
        self.beside_pages += 1;
        Ok(!pages::lie_over(op, id, count).await? || self.beside_pages >= STALE_ROUNDS_MAX)
    }

    /// The data node knows of newer bytes than those `under`; asks the home what there is.
    pub(crate) async fn by_node(&mut self, op: &mut Op, id: InodeId, under: DataRef) -> Result<Known, Errno> {
        let known = data_ref(op, id).await?;
        if known.data != under {
            self.by_home()?;
            return Ok(known);
        }
        self.pauses += 1;
        if self.pauses >= STALE_PAUSES_MAX {
            return Err(Errno::EIO);
        }
        let now_us = op.with(|core| core.now.mono_us);
        op.pause(*self.paused_since_us.get_or_insert(now_us)).await?;
        Ok(known)
    }
}
