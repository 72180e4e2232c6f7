//! The frozen hash functions: placement (never keyed, part of the format) and cookies (keyed at format).

use crate::codec::{Reader, Wire, WireError};
use crate::ids::{Cookie, InodeId, Slot};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// 64-bit hash of `(parent, name)`: its top 16 bits are the site's slot, all of it keys the name table.
#[inline]
pub fn name_hash(parent: InodeId, name: &[u8]) -> u64 {
    xxh3_64_with_seed(name, parent.0 ^ 0x4f6e_7061_7468_2e31)
}

/// The slot at which a name lives (`spread` = 1).
#[inline]
pub fn site_of_hash(hash: u64) -> Slot {
    Slot((hash >> 48) as u16)
}

/// The slot at which a name lives (`spread` = 1).
#[inline]
pub fn site(parent: InodeId, name: &[u8]) -> Slot {
    site_of_hash(name_hash(parent, name))
}

/// Hash of an inode id for tables and locks.
#[inline]
pub fn inode_hash(id: InodeId) -> u64 {
    let mut x = id.0 ^ (id.0 >> 32);
    x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ (x >> 29)
}

/// The key of the cookie hash, chosen at format so that nobody can aim at one position of a listing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CookieKey(pub [u8; 16]);

impl Wire for CookieKey {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(CookieKey(r.array()?))
    }
}

impl CookieKey {
    /// The first candidate for the cookie of `name`: its 47-bit hash, 0 becoming 1.
    pub fn cookie(&self, name: &[u8]) -> Cookie {
        let mut hasher = SipHasher13::new_with_key(&self.0);
        hasher.write(name);
        Cookie::of_hash((hasher.finish() >> 17).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These values are part of the on-disk format: a change makes every existing file system unreadable.
    #[test]
    fn hashes_are_frozen() {
        assert_eq!(name_hash(InodeId::ROOT, b"hello"), name_hash(InodeId(1), b"hello"));
        assert_ne!(name_hash(InodeId(1), b"hello"), name_hash(InodeId(2), b"hello"));
        assert_eq!(name_hash(InodeId(1), b"hello"), FROZEN_NAME_HASH);
        assert_eq!(CookieKey([7; 16]).cookie(b"hello").0, FROZEN_COOKIE);
    }
    const FROZEN_NAME_HASH: u64 = 16746333747871545357;
    const FROZEN_COOKIE: u64 = 4575416766518886400;
}
