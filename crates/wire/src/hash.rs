//! The hash of what nobody chooses: ids. Names, which users choose, are hashed with secrets ([`crate::secrets`]).

use crate::ids::InodeId;

/// Hash of an inode id for tables and locks.
#[inline]
pub fn inode_hash(id: InodeId) -> u64 {
    let mut x = id.0 ^ (id.0 >> 32);
    x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ (x >> 29)
}
