//! Lock and wait keys: hashes of names, inodes, directories' grants and transactions.

use onpath_kernel::Key;
use onpath_store::Named;
use onpath_wire::hash::inode_hash;
use onpath_wire::ids::{InodeId, SessionId, SessionNumber, TxnId};
use onpath_wire::innet::Fingerprint;

/// Lock of a name.
pub(crate) fn name(at: &Named<'_>) -> Key {
    Key(at.hash())
}

/// Lock of an inode.
pub(crate) fn inode(id: InodeId) -> Key {
    Key(inode_hash(id))
}

/// Where operations wait for the grants, jobs and recovered entries of a directory.
pub(crate) fn grants(dir: InodeId) -> u64 {
    inode_hash(dir) ^ 0x6772_616e_7473_0001
}

/// Where operations wait for pages that sessions have changed in memory, and who maps pages for a write.
pub(crate) fn pages(id: InodeId) -> u64 {
    inode_hash(id) ^ 0x7061_6765_7300_0007
}

/// Where operations wait for a merge part that another one takes back.
pub(crate) fn parts(id: InodeId) -> u64 {
    inode_hash(id) ^ 0x6d65_7267_6500_000b
}

/// Where operations wait until an epoch of the cache is over.
pub(crate) const CACHED: u64 = 0x6361_6368_6564_000d;

/// Where operations wait until merge parts of former terms are taken back.
pub(crate) const FORMER_PARTS: u64 = 0x666f_726d_6572_000c;

/// Where gated updates of a group of directories wait for their exposure.
pub(crate) fn group(group: Fingerprint) -> u64 {
    inode_hash(InodeId(u64::from(group.index()) << 32 | u64::from(group.tag()))) ^ 0x6772_6f75_7000_0005
}

/// Where a transaction's participant waits for the decision.
pub(crate) fn txn(txn: TxnId) -> u64 {
    (txn.seq.0 ^ u64::from(txn.coordinator.0) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Where whoever answers a recall waits for prepared records of a directory.
pub(crate) fn doubt(dir: InodeId) -> u64 {
    inode_hash(dir) ^ 0x646f_7562_7400_0002
}

/// Where directory renames wait for their turn.
pub(crate) const RENAME_TURN: u64 = 0x7265_6e61_6d65_0003;

/// Where renames of directories wait that have a deep tree to walk through.
pub(crate) const CLIMB: u64 = 0x636c_696d_6200_0009;

/// Where tests of file locks wait for the end of the grace.
pub(crate) const LOCK_GRACE: u64 = 0x6c6f_636b_7300_0005;

/// Where creations wait for a birth of which inodes may be.
pub(crate) const BIRTH: u64 = 0x6269_7274_6800_0008;

/// Where sessions wait that want to join while another one is alone.
pub(crate) const ALONE: u64 = 0x616c_6f6e_6500_0006;

/// Where the deaths of a session wait.
pub(crate) fn session(session: SessionId) -> u64 {
    u64::from(session.0) ^ 0x7365_7373_696f_0004
}

/// Where requests wait until it is known whether their bound session lives.
pub(crate) fn living(session: SessionNumber) -> u64 {
    session.0 ^ 0x6c69_7669_6e67_000a
}
