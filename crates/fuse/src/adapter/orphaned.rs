//! What a mount answers by itself while its server is gone: attributes of the root, and totals. umount(8) asks for both before it unmounts,
//! and would wait for a server that never comes back. What was known last is told.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashSet;
use onpath_session::fs::{Caller, FsOp, FsReply, FsRequest, FsResult, Totals};
use onpath_wire::attr::AttrWire;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;

use super::interrupts::INTERRUPT_BIT;
use super::nodes::inode_id;
use super::{Answers, Expected, SessionDriver};

/// What was told last, and which requests have had it.
#[derive(Default)]
pub(super) struct Last {
    root: Option<(AttrWire, i64)>,
    totals: Totals,
    /// Requests that the session still has.
    answered: HashSet<u64>,
}

impl Last {
    /// Keeps an answer that may be asked for.
    pub(super) fn remember(&mut self, expected: &Expected, node: u64, result: &FsResult) {
        match (expected, result) {
            (Expected::Attributes | Expected::Statx, Ok(FsReply::Attr { attr, btime })) if is_root(node) => {
                self.root = Some((*attr, *btime));
            }
            (Expected::Totals, Ok(FsReply::StatFs(totals))) => self.totals = *totals,
            _ => {}
        }
    }

    /// Whether a request was answered without the session, whose answer comes now.
    pub(super) fn was_answered(&mut self, unique: u64) -> bool {
        self.answered.remove(&unique)
    }

    fn reply(&self, expected: &Expected, node: u64) -> Option<FsReply> {
        match expected {
            Expected::Attributes | Expected::Statx if is_root(node) => {
                let (attr, btime) = self.root.unwrap_or_else(|| (unseen(), 0));
                Some(FsReply::Attr { attr, btime })
            }
            Expected::Totals => Some(FsReply::StatFs(self.totals)),
            _ => None,
        }
    }
}

fn is_root(node: u64) -> bool {
    inode_id(node) == InodeId::ROOT
}

/// A root of which nothing was asked yet.
fn unseen() -> AttrWire {
    AttrWire {
        id: InodeId::ROOT,
        kind: Kind::Directory,
        flags: 0,
        mode: 0o755,
        uid: 0,
        gid: 0,
        nlink: 2,
        size: 0,
        mtime: 0,
        ctime: 0,
        atime: 0,
        blocks_or_rdev: 0,
    }
}

impl Answers {
    /// Answers what the server, which is gone, was asked so long ago, if it can be told without it. The session is told that nobody waits.
    pub fn answer_alone(self: &Arc<Self>, older: Duration, driver: &impl SessionDriver) {
        let mut replies = Vec::new();
        {
            let mut table = self.table();
            for (&unique, pending) in table.pending.iter().filter(|(_, pending)| pending.timing.is_older(older)) {
                replies.extend(table.last.reply(&pending.expected, pending.node).map(|reply| (unique, reply)));
            }
            table.last.answered.extend(replies.iter().map(|(unique, _)| *unique));
        }
        for (unique, reply) in replies {
            self.complete(unique, Ok(reply));
            let op = FsOp::Interrupt { unique };
            driver.submit(FsRequest { unique: unique | INTERRUPT_BIT, caller: Caller::default(), op, by_ways: None });
        }
    }
}
