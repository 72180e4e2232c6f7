//! What the kernel makes of an open(2) that creates where a mount knows no CREATE: a mknod and an open, and a lookup before the open
//! where the mknod is answered ESTALE.

use super::World;
use onpath_session::fs::{FsOp, FsReply, FsResult};
use onpath_wire::attr::AttrWire;
use onpath_wire::errno::Errno;
use onpath_wire::inode::Kind;

/// Such an open under way.
pub(super) struct Half {
    unique: u64,
    caller: usize,
    /// The whole.
    create: FsOp,
    under_way: Call,
}

enum Call {
    Mknod,
    Lookup,
    /// What is opened, and whether the mknod has made it.
    Open(Box<AttrWire>, bool),
}

impl World {
    /// What the session is asked instead of `op`, if that is an open(2) that creates and comes in two halves.
    pub(super) fn first_half(&mut self, session: usize, unique: u64, caller: usize, op: FsOp) -> FsOp {
        if !self.config.in_halves || !matches!(op, FsOp::Create { .. }) {
            return op;
        }
        let first = mknod(&op);
        self.sessions[session].halves.push(Half { unique, caller, create: op, under_way: Call::Mknod });
        first
    }

    /// The answer to the whole, or who asks for what next.
    pub(super) fn next_half(
        &mut self,
        session: usize,
        unique: u64,
        result: FsResult,
    ) -> Result<FsResult, (usize, FsOp)> {
        let halves = &mut self.sessions[session].halves;
        let Some(at) = halves.iter().position(|half| half.unique == unique) else { return Ok(result) };
        let half = halves.swap_remove(at);
        let FsOp::Create { parent, name, open, .. } = &half.create else { unreachable!("only these have halves") };
        let (under_way, op) = match (half.under_way, result) {
            (Call::Mknod | Call::Open(..), Err(Errno::ESTALE)) => {
                (Call::Lookup, FsOp::Lookup { parent: *parent, name: name.clone() })
            }
            (Call::Lookup, Ok(FsReply::Missing)) => (Call::Mknod, mknod(&half.create)),
            (Call::Lookup, Ok(FsReply::Entry(_))) if open.exclusive => return Ok(Err(Errno::EEXIST)),
            (call @ (Call::Mknod | Call::Lookup), Ok(FsReply::Entry(attr))) => {
                let op = FsOp::Open { id: attr.id, mode: *open };
                (Call::Open(Box::new(attr), matches!(call, Call::Mknod)), op)
            }
            (Call::Open(attr, fresh), Ok(FsReply::Opened(opened))) => {
                return Ok(Ok(FsReply::Created { attr: *attr, opened, fresh }));
            }
            (_, result) => return Ok(result),
        };
        let caller = half.caller;
        self.sessions[session].halves.push(Half { under_way, ..half });
        Err((caller, op))
    }
}

fn mknod(create: &FsOp) -> FsOp {
    let FsOp::Create { parent, name, mode, umask, .. } = create.clone() else { unreachable!("only these have halves") };
    FsOp::Make { parent, name, kind: Kind::File, mode, umask, rdev: 0, target: vec![] }
}
