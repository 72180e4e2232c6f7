//! Keyed hashes: nobody who does not know the key can choose names or directories that collide.

use crate::types::DirId;
use core::fmt;
use core::hash::Hasher;
use siphasher::sip::SipHasher13;

/// The key of an index, drawn for it: it need not last longer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u8; 16]);

impl Secret {
    /// The key of these bytes.
    pub const fn new(bytes: [u8; 16]) -> Secret {
        Secret(bytes)
    }

    /// SipHash-1-3 of (parent, name): the parent has eight bytes, so no two pairs are hashed alike.
    #[inline]
    pub(crate) fn of_name(&self, parent: DirId, name: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.0);
        hasher.write_u64(parent.0);
        hasher.write(name);
        hasher.finish()
    }

    /// SipHash-1-3 of a number that is no parent of anything: ids are below 2^53.
    #[inline]
    pub(crate) fn of_number(&self, number: u64) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.0);
        hasher.write_u64(number | 1 << 63);
        hasher.finish()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_and_are_not_shown() {
        let (one, other) = (Secret::new([1; 16]), Secret::new([2; 16]));
        assert_ne!(one.of_name(DirId(5), b"a"), other.of_name(DirId(5), b"a"));
        assert_ne!(one.of_name(DirId(5), b"a"), one.of_name(DirId(6), b"a"));
        assert_ne!(one.of_number(5), one.of_name(DirId(5), b""));
        assert_eq!(alloc::format!("{one:?}"), "Secret(hidden)");
    }
}
