//! statfs: this shard's share of the totals.

use super::Step;
use crate::Cx;
use onpath_wire::reply::Reply;

pub(crate) fn run(cx: &Cx) -> Step {
    cx.with(|core| Ok(Reply::StatFs { inodes: core.state.inodes.len(), blocks: core.state.inodes.blocks() }))
}
