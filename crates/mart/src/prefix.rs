//! Bytes that all keys below a node have in common: path compression.

use alloc::boxed::Box;

/// Bytes that a node has itself. The paper has 15, and keeps the rest in whole keys at the leaves; here the rest lies beside the node, so
/// that no node depends on where it hangs.
const SHORT_MAX: usize = 22;

/// See the file's comment.
#[derive(Debug)]
pub(crate) enum Prefix {
    Short { len: u8, bytes: [u8; SHORT_MAX] },
    Long(Box<[u8]>),
}

const _: () = assert!(size_of::<Prefix>() == 24);

impl Default for Prefix {
    fn default() -> Prefix {
        Prefix::Short { len: 0, bytes: [0; SHORT_MAX] }
    }
}

impl Prefix {
    pub(crate) fn new(parts: &[&[u8]]) -> Prefix {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if len > SHORT_MAX {
            return Prefix::Long(parts.concat().into_boxed_slice());
        }
        let (mut bytes, mut at) = ([0; SHORT_MAX], 0);
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        Prefix::Short { len: len as u8, bytes }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Prefix::Short { len, bytes } => &bytes[..usize::from(*len)],
            Prefix::Long(bytes) => bytes,
        }
    }

    /// Bytes that lie beside the node.
    pub(crate) fn beside(&self) -> usize {
        match self {
            Prefix::Short { .. } => 0,
            Prefix::Long(bytes) => bytes.len(),
        }
    }
}
