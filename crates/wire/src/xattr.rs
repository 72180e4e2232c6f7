//! Names of extended attributes (xattr(7)): 1 to 255 bytes, the namespace first.

use crate::codec::{Reader, Wire, WireError};
use crate::errno::Errno;
use crate::limits::XATTR_NAME_BYTES_MAX;
use smallvec::SmallVec;
use std::fmt;

/// Name of the access ACL.
pub const ACL_ACCESS: &[u8] = b"system.posix_acl_access";
/// Name of the default ACL.
pub const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";
/// Name of the file capabilities, which a write, truncate or chown takes away.
pub const CAPABILITY: &[u8] = b"security.capability";
/// What the entries of a directory amount to: made by sessions, kept nowhere, never set nor listed. Its value are lines of a word and a
/// number.
pub const DIRECTORY_SUM: &[u8] = b"onpath.dir";

/// Bits of `Request::SetXattr::flags`, those of setxattr(2).
pub mod flag {
    /// XATTR_CREATE: EEXIST if the attribute exists.
    pub const CREATE: u32 = 1;
    /// XATTR_REPLACE: ENODATA if it does not.
    pub const REPLACE: u32 = 2;
}

/// Who may do what with an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namespace {
    /// Programs' own, as the permission bits of the file say.
    User,
    /// Only root sees and sets it.
    Trusted,
    /// Everybody reads it, root sets it.
    Security,
    /// The access ACL.
    AclAccess,
    /// The default ACL of a directory.
    AclDefault,
}

/// A checked name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct XattrName(SmallVec<[u8; 32]>);

impl XattrName {
    /// Checks `bytes` as a name: ERANGE if it is none or too long, EINVAL for a NUL.
    pub fn new(bytes: &[u8]) -> Result<XattrName, Errno> {
        if bytes.is_empty() || bytes.len() > XATTR_NAME_BYTES_MAX {
            return Err(Errno::ERANGE);
        }
        if bytes.contains(&0) {
            return Err(Errno::EINVAL);
        }
        Ok(XattrName(SmallVec::from_slice(bytes)))
    }

    /// That of file capabilities.
    pub fn capability() -> XattrName {
        XattrName(SmallVec::from_slice(CAPABILITY))
    }

    /// Its namespace: EOPNOTSUPP for one that Onpath does not have, EINVAL if nothing follows it.
    pub fn namespace(&self) -> Result<Namespace, Errno> {
        match self.as_bytes() {
            ACL_ACCESS => return Ok(Namespace::AclAccess),
            ACL_DEFAULT => return Ok(Namespace::AclDefault),
            _ => {}
        }
        let known =
            [(&b"user."[..], Namespace::User), (b"trusted.", Namespace::Trusted), (b"security.", Namespace::Security)];
        let found = known.into_iter().find(|(prefix, _)| self.0.starts_with(prefix));
        match found.ok_or(Errno::EOPNOTSUPP)? {
            (prefix, _) if prefix.len() == self.0.len() => Err(Errno::EINVAL),
            (_, namespace) => Ok(namespace),
        }
    }

    /// The bytes of the name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for XattrName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl Wire for XattrName {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.0.len() as u8);
        out.extend_from_slice(&self.0);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let n = usize::from(u8::take(r)?);
        XattrName::new(r.bytes(n)?).map_err(|_| WireError::Bad("name of an extended attribute"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        let namespace = |name: &[u8]| XattrName::new(name).and_then(|name| name.namespace());
        assert_eq!(namespace(b"user.x"), Ok(Namespace::User));
        assert_eq!(namespace(b"trusted.x"), Ok(Namespace::Trusted));
        assert_eq!(namespace(CAPABILITY), Ok(Namespace::Security));
        assert_eq!(namespace(ACL_ACCESS), Ok(Namespace::AclAccess));
        assert_eq!(namespace(ACL_DEFAULT), Ok(Namespace::AclDefault));
        for (name, errno) in [
            (&b""[..], Errno::ERANGE),
            (&[b'u'; 256], Errno::ERANGE),
            (b"user.", Errno::EINVAL),
            (b"user", Errno::EOPNOTSUPP),
            (b"system.x", Errno::EOPNOTSUPP),
            (b"system.posix_acl_accessory", Errno::EOPNOTSUPP),
            (b"user.a\0b", Errno::EINVAL),
        ] {
            assert_eq!(namespace(name), Err(errno), "{name:?}");
        }
        let name = XattrName::new(&[b'u'; 255]).unwrap();
        assert_eq!(XattrName::from_bytes(&name.to_bytes()), Ok(name));
        assert!(XattrName::from_bytes(&[0]).is_err());
    }
}
