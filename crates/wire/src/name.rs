//! File names: 1 to 255 bytes of anything but `/` and NUL.

use crate::codec::{Reader, Wire, WireError};
use crate::errno::Errno;
use crate::limits::NAME_BYTES_MAX;
use smallvec::SmallVec;
use std::fmt;

/// A checked file name; "." and ".." are none.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(SmallVec<[u8; 24]>);

impl Clone for Name {
    #[inline]
    fn clone(&self) -> Name {
        Name(SmallVec::from_slice(&self.0)) // one copy; the derived one goes byte by byte
    }
}

impl Name {
    /// Checks `bytes` as a name: ENAMETOOLONG, ENOENT for none, EINVAL for a separator, ".", or "..".
    pub fn new(bytes: &[u8]) -> Result<Name, Errno> {
        if bytes.len() > NAME_BYTES_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        if bytes.is_empty() {
            return Err(Errno::ENOENT);
        }
        if bytes == b"." || bytes == b".." || bytes.iter().any(|&b| b == b'/' || b == 0) {
            return Err(Errno::EINVAL);
        }
        Ok(Name(SmallVec::from_slice(bytes)))
    }

    /// "." as a listing shows it; no request can name it.
    pub fn dot() -> Name {
        Name(SmallVec::from_slice(b"."))
    }

    /// ".." as a listing shows it; no request can name it.
    pub fn dot_dot() -> Name {
        Name(SmallVec::from_slice(b".."))
    }

    /// The bytes of the name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl Wire for Name {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.0.len() as u8);
        out.extend_from_slice(&self.0);
    }
    #[inline]
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let n = u8::take(r)?;
        Name::new(r.bytes(n as usize)?).map_err(|_| WireError::Bad("file name"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        assert!(Name::new(&[b'x'; 255]).is_ok());
        assert_eq!(Name::new(&[b'x'; 256]), Err(Errno::ENAMETOOLONG));
        assert_eq!(Name::new(b""), Err(Errno::ENOENT));
        for bad in [&b"."[..], b"..", b"a/b", b"a\0"] {
            assert_eq!(Name::new(bad), Err(Errno::EINVAL));
        }
        let name = Name::new(b"caf\xe9").unwrap();
        assert_eq!(Name::from_bytes(&name.to_bytes()), Ok(name));
        assert!(Name::from_bytes(&[1, b'/']).is_err());
    }
}
