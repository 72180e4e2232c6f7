//! The codec of what is stored: fields in order, then fields that came later, each with a tag and a length.
//!
//! Behind the fields of a struct, or of a variant, follow *later fields*: tag 1, length 4, value; tag 0 ends them. Tags grow. A reader
//! passes over a tag that it does not know, unless it is at least [`MANDATORY`]: that one changes what the others mean.

use crate::codec::{Blob, LIST_MAX, LIST_ROOM, Reader, Wire, WireError};
use crate::ids::{
    Cookie, DataId, Generation, InodeId, LogSeq, Lsn, NodeId, RecordSeq, RequestSeq, SessionId, SessionNumber, ShardId,
    Slot, Stamp, Term, TrackingEpoch, TxnId, TxnSeq,
};
use crate::inode::Kind;
use crate::name::Name;
use crate::tracking::{Tracking, TrackingSide};
use crate::xattr::XattrName;
use smallvec::SmallVec;

/// Later fields from this tag on cannot be passed over.
pub const MANDATORY: u8 = 128;

/// A value with one byte layout, which later versions read.
pub trait Stored: Sized {
    /// Appends the value.
    fn store(&self, out: &mut Vec<u8>);
    /// Reads the value back.
    fn load(r: &mut Reader<'_>) -> Result<Self, WireError>;

    /// The value alone in a buffer.
    fn to_stored(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(96);
        self.store(&mut out);
        out
    }

    /// Reads a buffer that holds this value and nothing else.
    fn from_stored(bytes: &[u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(bytes);
        let value = Self::load(&mut r)?;
        r.finish()?;
        Ok(value)
    }
}

/// Values whose layout never changes, so that they are stored as they are sent.
macro_rules! as_sent {
    ($($t:ty),* $(,)?) => {$(
        impl Stored for $t {
            #[inline]
            fn store(&self, out: &mut Vec<u8>) {
                self.put(out);
            }
            #[inline]
            fn load(r: &mut Reader<'_>) -> Result<Self, WireError> {
                <$t>::take(r)
            }
        }
    )*};
}
as_sent!(u8, u16, u32, u64, i8, i16, i32, i64, bool, Blob, Name, XattrName, Kind, Tracking, TrackingSide);
as_sent!(
    Cookie,
    DataId,
    Generation,
    InodeId,
    LogSeq,
    Lsn,
    NodeId,
    RecordSeq,
    RequestSeq,
    SessionId,
    SessionNumber,
    ShardId,
    Slot
);
as_sent!(Stamp, Term, TrackingEpoch, TxnId, TxnSeq);

impl<T: Stored> Stored for Option<T> {
    fn store(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|value| value.store(out));
    }
    fn load(r: &mut Reader<'_>) -> Result<Self, WireError> {
        bool::take(r)?.then(|| T::load(r)).transpose()
    }
}

fn store_all<T: Stored>(list: &[T], out: &mut Vec<u8>) {
    assert!(list.len() <= LIST_MAX, "a list of {} elements is too long", list.len());
    (list.len() as u32).put(out);
    list.iter().for_each(|item| item.store(out));
}

#[inline]
fn load_each<T: Stored>(r: &mut Reader<'_>, mut each: impl FnMut(T)) -> Result<(), WireError> {
    let n = u32::take(r)? as usize;
    // Every element takes at least a byte, so a count beyond the rest is a lie.
    if n > r.remaining().min(LIST_MAX) {
        return Err(WireError::TooLong { what: "list", len: n as u64, max: r.remaining().min(LIST_MAX) as u64 });
    }
    (0..n).try_for_each(|_| T::load(r).map(&mut each))
}

impl<T: Stored> Stored for Vec<T> {
    fn store(&self, out: &mut Vec<u8>) {
        store_all(self, out);
    }
    fn load(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let mut list = Vec::with_capacity(LIST_ROOM);
        load_each(r, |item| list.push(item))?;
        Ok(list)
    }
}

impl<T: Stored, const N: usize> Stored for SmallVec<[T; N]> {
    #[inline]
    fn store(&self, out: &mut Vec<u8>) {
        store_all(self, out);
    }
    #[inline]
    fn load(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let mut list = SmallVec::new();
        load_each(r, |item| list.push(item))?;
        Ok(list)
    }
}

/// Later fields, as they are read.
#[derive(Debug)]
pub struct Fields<'a, 'b> {
    r: &'a mut Reader<'b>,
    of: &'static str,
    last: u8,
}

impl<'a, 'b> Fields<'a, 'b> {
    /// Those of a value of this type, whose other fields are read.
    #[inline]
    pub fn new(r: &'a mut Reader<'b>, of: &'static str) -> Self {
        Fields { r, of, last: 0 }
    }

    /// Tag and value of the next one; `None` at the end.
    #[inline]
    pub fn next_field(&mut self) -> Result<Option<(u8, Reader<'b>)>, WireError> {
        let tag = u8::take(self.r)?;
        if tag == 0 {
            return Ok(None);
        }
        if tag <= self.last {
            return Err(WireError::Bad("order of later fields"));
        }
        self.last = tag;
        let length = u32::take(self.r)? as usize;
        Ok(Some((tag, Reader::new(self.r.bytes(length)?))))
    }

    /// One that is not known.
    pub fn unknown(&self, tag: u8) -> Result<(), WireError> {
        if tag < MANDATORY { Ok(()) } else { Err(WireError::UnknownField { of: self.of, tag }) }
    }
}

/// Appends a later field.
pub fn store_field<T: Stored>(tag: u8, value: &T, out: &mut Vec<u8>) {
    out.push(tag);
    let at = out.len();
    0u32.put(out);
    value.store(out);
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// Defines a struct that is stored: its fields in order, then those that came later, which are `Option`s with growing tags.
#[macro_export]
macro_rules! stored_struct {
    ($(#[$m:meta])* pub struct $name:ident {
        $($(#[$fm:meta])* pub $f:ident : $t:ty),* $(,)?
        $(; $($(#[$lm:meta])* $tag:literal => pub $l:ident : Option<$lt:ty>),* $(,)?)?
    }) => {
        $(#[$m])*
        pub struct $name { $($(#[$fm])* pub $f: $t,)* $($($(#[$lm])* pub $l: Option<$lt>),*)? }
        impl $crate::disk::Stored for $name {
            #[inline]
            fn store(&self, out: &mut Vec<u8>) {
                $($crate::disk::Stored::store(&self.$f, out);)*
                $($(if let Some(later) = &self.$l { $crate::disk::store_field($tag, later, out); })*)?
                out.push(0);
            }
            #[inline]
            fn load(r: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::codec::WireError> {
                $(let $f = <$t as $crate::disk::Stored>::load(r)?;)*
                $($(let mut $l = None;)*)?
                let mut later = $crate::disk::Fields::new(r, stringify!($name));
                #[allow(clippy::never_loop, unused_mut, unused_variables, reason = "some have no later fields")]
                while let Some((tag, mut value)) = later.next_field()? {
                    match tag {
                        $($($tag => {
                            $l = Some(<$lt as $crate::disk::Stored>::load(&mut value)?);
                            value.finish()?;
                        })*)?
                        tag => later.unknown(tag)?,
                    }
                }
                Ok($name { $($f,)* $($($l),*)? })
            }
        }
    };
}

/// Defines an enum that is stored: a one-byte tag, the variant's fields in order, and its later fields, as [`stored_struct!`](crate::stored_struct)
/// has them.
#[macro_export]
macro_rules! stored_enum {
    ($(#[$m:meta])* pub enum $name:ident {
        $($(#[$vm:meta])* $tag:literal => $v:ident $({
            $($(#[$fm:meta])* $f:ident : $t:ty),* $(,)?
            $(; $($(#[$lm:meta])* $ltag:literal => $l:ident : Option<$lt:ty>),* $(,)?)?
        })?),* $(,)?
    }) => {
        $(#[$m])*
        pub enum $name {
            $($(#[$vm])* $v $({ $($(#[$fm])* $f: $t,)* $($($(#[$lm])* $l: Option<$lt>),*)? })?),*
        }
        impl $crate::disk::Stored for $name {
            fn store(&self, out: &mut Vec<u8>) {
                match self {
                    $($name::$v $({ $($f,)* $($($l),*)? })? => {
                        out.push($tag);
                        $($($crate::disk::Stored::store($f, out);)*)?
                        $($($(if let Some(later) = $l { $crate::disk::store_field($ltag, later, out); })*)?)?
                    })*
                }
                out.push(0);
            }
            fn load(r: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::codec::WireError> {
                match <u8 as $crate::codec::Wire>::take(r)? {
                    $($tag => {
                        $($(let $f = <$t as $crate::disk::Stored>::load(r)?;)*)?
                        $($($(let mut $l = None;)*)?)?
                        let mut later = $crate::disk::Fields::new(r, stringify!($name));
                        #[allow(unused_mut, unused_variables, reason = "most have no later fields")]
                        while let Some((tag, mut value)) = later.next_field()? {
                            match tag {
                                $($($($ltag => {
                                    $l = Some(<$lt as $crate::disk::Stored>::load(&mut value)?);
                                    value.finish()?;
                                })*)?)?
                                tag => later.unknown(tag)?,
                            }
                        }
                        Ok($name::$v $({ $($f,)* $($($l),*)? })?)
                    })*
                    tag => Err($crate::codec::WireError::UnknownTag { what: stringify!($name), tag }),
                }
            }
        }
    };
}

#[cfg(test)]
#[allow(unreachable_pub, reason = "the macros define what is public")]
mod tests {
    use super::*;

    stored_struct! {
        /// As it was.
        #[derive(Debug, PartialEq, Eq)]
        pub struct Before {
            /// A field.
            pub a: u16,
        }
    }

    stored_struct! {
        /// As it is later.
        #[derive(Debug, PartialEq, Eq)]
        pub struct Later {
            /// A field.
            pub a: u16;
            /// One that may be passed over.
            3 => pub b: Option<Vec<u8>>,
            /// One that may not.
            130 => pub c: Option<u32>,
        }
    }

    stored_enum! {
        /// Variants have later fields too.
        #[derive(Debug, PartialEq, Eq)]
        pub enum Choice {
            /// With a field.
            1 => One {
                /// A field.
                a: u16,
            },
            /// Without.
            2 => Two,
        }
    }

    #[test]
    fn what_was_stored_before_is_read() {
        let bytes = Before { a: 7 }.to_stored();
        assert_eq!(bytes, [7, 0, 0]);
        assert_eq!(Later::from_stored(&bytes), Ok(Later { a: 7, b: None, c: None }));
    }

    #[test]
    fn what_may_be_passed_over_is() {
        let later = Later { a: 7, b: Some(vec![1, 2]), c: None };
        let bytes = later.to_stored();
        assert_eq!(bytes, [7, 0, 3, 6, 0, 0, 0, 2, 0, 0, 0, 1, 2, 0]);
        assert_eq!(Later::from_stored(&bytes), Ok(later));
        assert_eq!(Before::from_stored(&bytes), Ok(Before { a: 7 }));
    }

    #[test]
    fn what_may_not_be_passed_over_is_refused_by_name() {
        let later = Later { a: 7, b: None, c: Some(1) };
        assert_eq!(Later::from_stored(&later.to_stored()).as_ref(), Ok(&later));
        let refused = Before::from_stored(&later.to_stored());
        assert_eq!(refused, Err(WireError::UnknownField { of: "Before", tag: 130 }));
    }

    #[test]
    fn variants_have_later_fields_and_unknown_ones_are_refused() {
        assert_eq!(Choice::from_stored(&[1, 7, 0, 9, 1, 0, 0, 0, 5, 0]), Ok(Choice::One { a: 7 }));
        assert_eq!(Choice::Two.to_stored(), [2, 0]);
        let refused = Choice::from_stored(&[2, 200, 0, 0, 0, 0, 0]);
        assert_eq!(refused, Err(WireError::UnknownField { of: "Choice", tag: 200 }));
        assert_eq!(Choice::from_stored(&[3, 0]), Err(WireError::UnknownTag { what: "Choice", tag: 3 }));
    }

    stored_enum! {
        /// The same as it is later.
        #[derive(Debug, PartialEq, Eq)]
        pub enum LaterChoice {
            /// With a field and two more.
            1 => One {
                /// A field.
                a: u16;
                /// One that may be passed over.
                4 => b: Option<u8>,
                /// Another one.
                9 => c: Option<u8>,
            },
            /// Without.
            2 => Two,
        }
    }

    #[test]
    fn a_variant_without_its_later_fields_is_as_before() {
        let before = Choice::One { a: 7 }.to_stored();
        assert_eq!(LaterChoice::One { a: 7, b: None, c: None }.to_stored(), before);
        assert_eq!(LaterChoice::from_stored(&before), Ok(LaterChoice::One { a: 7, b: None, c: None }));
        let later = LaterChoice::One { a: 7, b: None, c: Some(5) };
        assert_eq!(later.to_stored(), [1, 7, 0, 9, 1, 0, 0, 0, 5, 0]);
        assert_eq!(Choice::from_stored(&later.to_stored()), Ok(Choice::One { a: 7 }));
        assert_eq!(LaterChoice::from_stored(&later.to_stored()), Ok(later));
        assert_eq!(LaterChoice::from_stored(&[1, 7, 0, 9, 2, 0, 0, 0, 5, 6, 0]), Err(WireError::Trailing(1)));
        let disordered = [1, 7, 0, 9, 1, 0, 0, 0, 5, 4, 1, 0, 0, 0, 6, 0];
        assert_eq!(LaterChoice::from_stored(&disordered), Err(WireError::Bad("order of later fields")));
    }

    #[test]
    fn damage_is_told() {
        assert_eq!(Later::from_stored(&[7, 0]), Err(WireError::Truncated));
        let twice = [7, 0, 3, 4, 0, 0, 0, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(Later::from_stored(&twice), Err(WireError::Bad("order of later fields")));
        assert_eq!(Later::from_stored(&[7, 0, 130, 5, 0, 0, 0, 1, 0, 0, 0, 9, 0]), Err(WireError::Trailing(1)));
        assert!(matches!(Vec::<u8>::from_stored(&[9, 0, 0, 0, 1]), Err(WireError::TooLong { .. })));
        assert_eq!(Later::from_stored(&[7, 0, 3, 0xff, 0xff, 0xff, 0xff]), Err(WireError::Truncated));
    }
}
