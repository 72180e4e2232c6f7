//! What the headers of all structures share: the first 16 bytes, and how each is read and written.

use super::InNet;
use crate::codec::WireError;

/// Bytes that the headers of all structures share.
pub const INNET_COMMON_BYTES: usize = 16;
/// Version of this layout.
pub const INNET_VERSION: u8 = 1;
/// UDP port of packets that begin with an in-network header, unless configured otherwise.
pub const INNET_UDP_PORT: u16 = 4797;
/// Bytes of the longest header.
pub const INNET_BYTES_MAX: usize = {
    let (mut max, mut at) = (INNET_COMMON_BYTES, 0);
    while at < Structure::ALL.len() {
        let bytes = Structure::ALL[at].header_bytes_max();
        max = if bytes > max { bytes } else { max };
        at += 1;
    }
    max
};

/// Bytes of the header that begins with this one, the common ones among them: its structure says, and of the cache its operation.
/// Nothing if there is no such.
#[inline]
pub fn header_bytes(code: u8) -> Option<usize> {
    match Structure::of_byte(code)? {
        Structure::Cache => super::cache::CacheOp::of_code(code & 0xf).map(super::cache::CacheOp::header_bytes),
        other => Some(other.header_bytes_max()),
    }
}

/// A field of a header, for generators and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InNetField {
    /// Its name in every language.
    pub name: &'static str,
    /// Its first byte.
    pub at: usize,
    /// Its length, bytes.
    pub bytes: usize,
}

/// An enum of one-byte codes.
macro_rules! codes {
    ($(#[$m:meta])* pub enum $name:ident { $($(#[$vm:meta])* $code:literal => $v:ident),* $(,)? }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$vm])* $v = $code),* }
        impl $name {
            /// Every value.
            pub const ALL: &[$name] = &[$($name::$v),*];
            /// The value of a code.
            #[inline]
            pub fn of_code(code: u8) -> Option<$name> {
                match code { $($code => Some($name::$v),)* _ => None }
            }
        }
    };
}

codes! {
    /// What a switch keeps. 4 will never be, since what hosts send each other without a switch begins with it.
    pub enum Structure {
        /// The dirty set.
        1 => DirtySet,
        /// The visibility table.
        2 => Visibility,
        /// The cache.
        3 => Cache,
    }
}

impl Structure {
    /// The structure of a header that begins with this byte.
    #[inline]
    pub fn of_byte(code: u8) -> Option<Structure> {
        Structure::of_code(code >> 4)
    }

    /// Bytes of its longest header, the common ones among them.
    const fn header_bytes_max(self) -> usize {
        match self {
            Structure::DirtySet => super::DirtySet::BYTES,
            Structure::Visibility => super::Visibility::BYTES,
            Structure::Cache => super::cache::Read::BYTES,
        }
    }

    /// The code of one of its operations.
    pub(super) const fn code(self, op: u8) -> u8 {
        (self as u8) << 4 | op
    }
}

/// A struct whose fields are big-endian integers at these byte positions, with `FIELDS`, their layout.
macro_rules! fields {
    ($(#[$m:meta])* pub struct $name:ident: $bytes:literal { $($(#[$fm:meta])* $at:literal => pub $f:ident : $t:ty),* $(,)? }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
        pub struct $name { $($(#[$fm])* pub $f: $t),* }
        impl $name {
            /// Bytes of it.
            pub const BYTES: usize = $bytes;
            /// All fields, by position.
            pub const FIELDS: &[$crate::innet::InNetField] =
                &[$($crate::innet::InNetField { name: stringify!($f), at: $at, bytes: size_of::<$t>() }),*];
            /// As it is encoded.
            #[inline]
            pub fn bytes(&self) -> [u8; $bytes] {
                let mut bytes = [0; $bytes];
                $(bytes[$at..$at + size_of::<$t>()].copy_from_slice(&self.$f.to_be_bytes());)*
                bytes
            }
            /// The fields as they are encoded: nothing is checked.
            #[inline]
            pub fn of_bytes(bytes: &[u8; $bytes]) -> $name {
                $name { $($f: <$t>::from_be_bytes(*bytes[$at..].first_chunk().expect("inside the header"))),* }
            }
        }
    };
}

/// The header of a structure: the common fields, and behind them its own.
macro_rules! header {
    ($(#[$m:meta])* pub struct $name:ident: $bytes:literal { $($own:tt)* }) => {
        $crate::innet::common::fields! {
            $(#[$m])*
            pub struct $name: $bytes {
                /// Structure (high four bits) and operation.
                0 => pub code: u8,
                /// What the switch answers; 0 until it has.
                1 => pub result: u8,
                /// Epoch of the sender.
                2 => pub epoch: u16,
                /// [`INNET_VERSION`](crate::innet::INNET_VERSION).
                4 => pub version: u8,
                /// Reserved, 0.
                5 => pub flags: u8,
                /// The shard that sends, if the operation needs it.
                6 => pub shard: u16,
                /// Number of the file system.
                8 => pub cluster: u32,
                /// Node to which the packet goes, 0 for none.
                12 => pub destination: u32,
                $($own)*
            }
        }
        impl $name {
            /// What it has in common with all others.
            #[inline]
            pub fn common(&self) -> $crate::innet::Common {
                let $name { code, result, epoch, version, flags, shard, cluster, destination, .. } = *self;
                $crate::innet::Common { code, result, epoch, version, flags, shard, cluster, destination }
            }
        }
    };
}
pub(super) use {codes, fields, header};

header! {
    /// What all headers begin with.
    pub struct Common: 16 {}
}

/// An encoded header of any structure: so many bytes as that has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InNetBytes {
    bytes: [u8; INNET_BYTES_MAX],
    length: usize,
}

impl InNetBytes {
    /// Those of a header.
    #[inline]
    pub(super) fn of<const N: usize>(header: &[u8; N]) -> InNetBytes {
        let mut bytes = [0; INNET_BYTES_MAX];
        bytes[..N].copy_from_slice(header);
        InNetBytes { bytes, length: N }
    }
}

impl std::ops::Deref for InNetBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Where a header ends in a payload that begins with one: its structure says.
///
/// # Errors
/// No structure that is known, or too few bytes for its header.
#[inline]
fn end_of_header(payload: &[u8]) -> Result<usize, WireError> {
    let code = *payload.first().ok_or(WireError::Truncated)?;
    let bytes = header_bytes(code).ok_or(WireError::Foreign("structure of the in-network header"))?;
    if payload.len() < bytes { Err(WireError::Truncated) } else { Ok(bytes) }
}

impl InNet {
    /// Splits a received payload into header and message.
    ///
    /// # Errors
    /// Too few bytes for a header, or a header of another version or of no structure that is known.
    pub fn split(payload: &[u8]) -> Result<(InNet, &[u8]), WireError> {
        let (header, message) = payload.split_at(end_of_header(payload)?);
        Ok((InNet::of_bytes(header)?, message))
    }

    /// The same, of a message that may be changed.
    ///
    /// # Errors
    /// As [`InNet::split`].
    pub fn split_mut(payload: &mut [u8]) -> Result<(InNet, &mut [u8]), WireError> {
        let (header, message) = payload.split_at_mut(end_of_header(payload)?);
        Ok((InNet::of_bytes(header)?, message))
    }
}
