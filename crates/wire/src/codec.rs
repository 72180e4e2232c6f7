//! The little-endian codec of message bodies and records: fields in order, counts before lists.

use smallvec::SmallVec;
use thiserror::Error;

/// Why bytes are no message or record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// The bytes end inside a field.
    #[error("message is truncated")]
    Truncated,
    /// An enum tag that this version does not know.
    #[error("unknown {what} tag {tag}")]
    UnknownTag {
        /// Which enum.
        what: &'static str,
        /// The tag found.
        tag: u8,
    },
    /// A later field that cannot be passed over, and that this version does not know.
    #[error(
        "{of} has field {tag}, which this version does not know and may not leave out: use the newer Onpath that wrote it"
    )]
    UnknownField {
        /// Of which struct or enum.
        of: &'static str,
        /// The tag found.
        tag: u8,
    },
    /// A count or length above its limit.
    #[error("{what} is {len} long, at most {max} allowed")]
    TooLong {
        /// Which list.
        what: &'static str,
        /// Length found.
        len: u64,
        /// Length allowed.
        max: u64,
    },
    /// A value that is not allowed in its place.
    #[error("bad {0}")]
    Bad(&'static str),
    /// Bytes follow the end of the message.
    #[error("{0} bytes follow the end of the message")]
    Trailing(usize),
    /// Magic, version or checksum of a header do not fit.
    #[error("not an Onpath message of this version: {0}")]
    Foreign(&'static str),
}

/// A cursor over received bytes.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// The next `n` bytes.
    #[inline]
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], WireError> {
        if n > self.rest.len() {
            return Err(WireError::Truncated);
        }
        let (head, rest) = self.rest.split_at(n);
        self.rest = rest;
        Ok(head)
    }

    /// The next `N` bytes as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(*head)
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Refuses bytes after the end.
    pub fn finish(self) -> Result<(), WireError> {
        match self.rest.len() {
            0 => Ok(()),
            n => Err(WireError::Trailing(n)),
        }
    }
}

/// A value with one byte layout.
pub trait Wire: Sized {
    /// Appends the value.
    fn put(&self, out: &mut Vec<u8>);
    /// Reads the value back.
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError>;

    /// The value alone in a buffer.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(96);
        self.put(&mut out);
        out
    }

    /// Reads a buffer that holds this value and nothing else.
    fn from_bytes(bytes: &[u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(bytes);
        let value = Self::take(&mut r)?;
        r.finish()?;
        Ok(value)
    }
}

macro_rules! integer {
    ($($t:ty),*) => {$(
        impl Wire for $t {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            #[inline]
            fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
                Ok(<$t>::from_le_bytes(r.array()?))
            }
        }
    )*};
}
integer!(u8, u16, u32, u64, i8, i16, i32, i64);

impl Wire for bool {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    #[inline]
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        match u8::take(r)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireError::Bad("boolean")),
        }
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        if bool::take(r)? { Ok(Some(T::take(r)?)) } else { Ok(None) }
    }
}

/// Most elements a list in a message may have.
pub const LIST_MAX: usize = 1 << 20;
/// Elements that a list gets room for before they are read: its count may be a lie.
pub(crate) const LIST_ROOM: usize = 4;

#[inline]
fn take_count(r: &mut Reader<'_>) -> Result<usize, WireError> {
    let n = u32::take(r)? as usize;
    // Every element takes at least a byte, so a count beyond the rest is a lie: refuse it before allocating.
    if n > LIST_MAX || n > r.remaining() {
        return Err(WireError::TooLong { what: "list", len: n as u64, max: r.remaining().min(LIST_MAX) as u64 });
    }
    Ok(n)
}

#[inline]
fn put_count(n: usize, out: &mut Vec<u8>) {
    assert!(n <= LIST_MAX, "list of {n} elements does not fit a message");
    (n as u32).put(out);
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_count(self.len(), out);
        self.iter().for_each(|item| item.put(out));
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let n = take_count(r)?;
        let mut list = Vec::with_capacity(n.min(LIST_ROOM));
        for _ in 0..n {
            list.push(T::take(r)?);
        }
        Ok(list)
    }
}

impl<T: Wire, const N: usize> Wire for SmallVec<[T; N]> {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        put_count(self.len(), out);
        self.iter().for_each(|item| item.put(out));
    }
    #[inline]
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        // Short, mostly empty lists: pushing beats what collecting prepares.
        let mut list = SmallVec::new();
        for _ in 0..take_count(r)? {
            list.push(T::take(r)?);
        }
        Ok(list)
    }
}

/// Bytes of bounded length, such as a symlink's target.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Blob(pub Vec<u8>);

impl Wire for Blob {
    fn put(&self, out: &mut Vec<u8>) {
        put_count(self.0.len(), out);
        out.extend_from_slice(&self.0);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let n = take_count(r)?;
        Ok(Blob(r.bytes(n)?.to_vec()))
    }
}

/// Refuses what cannot be true of a value that was decoded.
#[inline(always)]
pub fn checked<T>(value: T, holds: impl FnOnce(&T) -> bool, what: &'static str) -> Result<T, WireError> {
    if holds(&value) { Ok(value) } else { Err(WireError::Bad(what)) }
}

/// Defines a struct whose layout is its fields in order. One whose fields may contradict each other names, behind `where`, the function that
/// holds of every value, and what is said of others: those are not decoded.
#[macro_export]
macro_rules! wire_struct {
    ($(#[$m:meta])* pub struct $name:ident { $($(#[$fm:meta])* pub $f:ident : $t:ty),* $(,)? }
    $(where $holds:path, else $what:literal)?) => {
        $(#[$m])*
        pub struct $name { $($(#[$fm])* pub $f: $t),* }
        impl $crate::codec::Wire for $name {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) { $(self.$f.put(out);)* let _ = out; }
            #[inline]
            fn take(r: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::codec::WireError> {
                let value = $name { $($f: <$t as $crate::codec::Wire>::take(r)?),* };
                $(let value = $crate::codec::checked(value, $holds, $what)?;)?
                Ok(value)
            }
        }
    };
}

/// Defines an enum whose layout is a one-byte tag and the variant's fields in order; `where` as for a struct.
#[macro_export]
macro_rules! wire_enum {
    ($(#[$m:meta])* pub enum $name:ident {
        $($(#[$vm:meta])* $tag:literal => $v:ident $({ $($(#[$fm:meta])* $f:ident : $t:ty),* $(,)? })?),* $(,)?
    } $(where $holds:path, else $what:literal)?) => {
        $(#[$m])*
        pub enum $name { $($(#[$vm])* $v $({ $($(#[$fm])* $f: $t),* })?),* }
        impl $crate::codec::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $($name::$v $({ $($f),* })? => { out.push($tag); $($($f.put(out);)*)? })*
                }
            }
            fn take(r: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::codec::WireError> {
                let value = match <u8 as $crate::codec::Wire>::take(r)? {
                    $($tag => $name::$v $({ $($f: <$t as $crate::codec::Wire>::take(r)?),* })?,)*
                    tag => return Err($crate::codec::WireError::UnknownTag { what: stringify!($name), tag }),
                };
                $(let value = $crate::codec::checked(value, $holds, $what)?;)?
                Ok(value)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_round_trip_and_lies_are_refused() {
        let list = vec![1u32, 2, 3];
        assert_eq!(Vec::<u32>::from_bytes(&list.to_bytes()), Ok(list));
        assert!(matches!(Vec::<u32>::from_bytes(&[0xff; 8]), Err(WireError::TooLong { .. })));
        assert_eq!(u32::from_bytes(&[1, 2, 3]), Err(WireError::Truncated));
        assert_eq!(u8::from_bytes(&[1, 2]), Err(WireError::Trailing(1)));
        assert_eq!(Option::<u8>::from_bytes(&[2, 2]), Err(WireError::Bad("boolean")));
    }
}
