//! POSIX ACLs (acl(5)) in the binary form of the kernel's extended attributes: version 2, then entries of 8 bytes.

use crate::codec::{Blob, Reader, Wire, WireError};
use crate::errno::Errno;
use std::sync::Arc;

const VERSION: u32 = 2;
const HEADER_BYTES: usize = 4;
const ENTRY_BYTES: usize = 8;
/// The id of entries that name nobody.
const NOBODY: u32 = u32::MAX;

/// Whom an entry is about, in the order of an ACL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// The owner of the file.
    Owner,
    /// A user.
    User(u32),
    /// The group of the file.
    OwningGroup,
    /// A group.
    Group(u32),
    /// The most that all but the owner and the others may.
    Mask,
    /// Everybody else.
    Other,
}

impl Who {
    fn of(tag: u16, id: u32) -> Option<Who> {
        Some(match tag {
            0x01 => Who::Owner,
            0x02 if id != NOBODY => Who::User(id),
            0x04 => Who::OwningGroup,
            0x08 if id != NOBODY => Who::Group(id),
            0x10 => Who::Mask,
            0x20 => Who::Other,
            _ => return None,
        })
    }

    fn tag_and_id(self) -> (u16, u32) {
        match self {
            Who::Owner => (0x01, NOBODY),
            Who::User(id) => (0x02, id),
            Who::OwningGroup => (0x04, NOBODY),
            Who::Group(id) => (0x08, id),
            Who::Mask => (0x10, NOBODY),
            Who::Other => (0x20, NOBODY),
        }
    }

    /// Owners, users, groups: each kind of entry comes after those of the kinds before it.
    fn rank(self) -> u16 {
        self.tag_and_id().0
    }
}

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclEntry {
    /// Whom it is about.
    pub who: Who,
    /// What they may: 4 r, 2 w, 1 x.
    pub perm: u16,
}

/// A valid ACL: one entry each for owner, owning group and others, a mask if users or groups are named, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    entries: Vec<AclEntry>,
}

impl Acl {
    /// Reads the value of an attribute; none if it has no entries, which removes the ACL. EINVAL if it is no ACL, EOPNOTSUPP if
    /// it has another version.
    pub fn from_xattr(value: &[u8]) -> Result<Option<Acl>, Errno> {
        if value.is_empty() {
            return Ok(None);
        }
        let (version, rest) = value.split_first_chunk::<HEADER_BYTES>().ok_or(Errno::EINVAL)?;
        if u32::from_le_bytes(*version) != VERSION {
            return Err(Errno::EOPNOTSUPP);
        }
        if !rest.len().is_multiple_of(ENTRY_BYTES) {
            return Err(Errno::EINVAL);
        }
        if rest.is_empty() {
            return Ok(None);
        }
        let entries: Option<Vec<AclEntry>> = rest.chunks_exact(ENTRY_BYTES).map(entry).collect();
        Acl::new(entries.ok_or(Errno::EINVAL)?).map(Some)
    }

    /// Checks entries as an ACL, else EINVAL. Like the kernel it does not mind a user or group that is named twice.
    pub fn new(entries: Vec<AclEntry>) -> Result<Acl, Errno> {
        let once = |who: Who| entries.iter().filter(|e| e.who == who).count();
        let named = entries.iter().any(|e| matches!(e.who, Who::User(_) | Who::Group(_)));
        let ordered = entries.is_sorted_by_key(|e| e.who.rank());
        let base = [Who::Owner, Who::OwningGroup, Who::Other].into_iter().all(|who| once(who) == 1);
        let mask = once(Who::Mask);
        let valid = ordered && base && mask <= 1 && (mask == 1 || !named) && entries.iter().all(|e| e.perm <= 7);
        if valid { Ok(Acl { entries }) } else { Err(Errno::EINVAL) }
    }

    /// The entries in order.
    pub fn entries(&self) -> &[AclEntry] {
        &self.entries
    }

    /// What the entries of this kind may; the first one's.
    fn perm(&self, who: Who) -> Option<u16> {
        self.entries.iter().find(|e| e.who == who).map(|e| e.perm)
    }

    /// Whether permission bits say the same: nobody is named, and there is no mask.
    pub fn is_minimal(&self) -> bool {
        self.perm(Who::Mask).is_none()
    }

    /// The permission bits that go with it as an access ACL: the group's are the mask.
    pub fn mode(&self) -> u16 {
        let group = self.perm(Who::Mask).or(self.perm(Who::OwningGroup)).unwrap_or_default();
        self.perm(Who::Owner).unwrap_or_default() << 6 | group << 3 | self.perm(Who::Other).unwrap_or_default()
    }

    /// The same with the owner's, the mask's and the others' permissions from permission bits, which chmod(2) may have changed.
    pub fn with_mode(&self, mode: u16) -> Acl {
        let mut acl = self.clone();
        let minimal = self.is_minimal();
        for entry in &mut acl.entries {
            match entry.who {
                Who::Owner => entry.perm = mode >> 6 & 7,
                Who::Mask => entry.perm = mode >> 3 & 7,
                Who::OwningGroup if minimal => entry.perm = mode >> 3 & 7,
                Who::Other => entry.perm = mode & 7,
                _ => {}
            }
        }
        acl
    }

    /// What a new inode gets from this default ACL of its directory when it is to have `mode`: its permission bits, and its
    /// access ACL unless those say the same (acl(5), OBJECT CREATION AND DEFAULT ACLs).
    pub fn inherited(&self, mode: u16) -> (u16, Option<Acl>) {
        let mode = mode & !0o777 | mode & self.mode();
        (mode, (!self.is_minimal()).then(|| self.with_mode(mode)))
    }

    /// The value of the attribute.
    pub fn to_xattr(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(HEADER_BYTES + self.entries.len() * ENTRY_BYTES);
        value.extend_from_slice(&VERSION.to_le_bytes());
        for entry in &self.entries {
            let (tag, id) = entry.who.tag_and_id();
            value.extend_from_slice(&tag.to_le_bytes());
            value.extend_from_slice(&entry.perm.to_le_bytes());
            value.extend_from_slice(&id.to_le_bytes());
        }
        value
    }
}

fn entry(bytes: &[u8]) -> Option<AclEntry> {
    let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let id = u32::from_le_bytes(*bytes.last_chunk().expect("an entry has 8 bytes"));
    Some(AclEntry { who: Who::of(u16_at(0), id)?, perm: u16_at(2) })
}

impl Wire for Acl {
    fn put(&self, out: &mut Vec<u8>) {
        Blob(self.to_xattr()).put(out);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let value = Blob::take(r)?;
        Acl::from_xattr(&value.0).ok().flatten().ok_or(WireError::Bad("ACL"))
    }
}

crate::wire_struct! {
    /// The ACLs of an inode.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Acls {
        /// Who may what, where the permission bits do not say all: it has a mask. What it says of the owner, the mask and the
        /// others is void, the permission bits count.
        pub access: Option<Acl>,
        /// What is made in the directory begins with this.
        pub default: Option<Acl>,
    }
}

impl Wire for Arc<Acls> {
    fn put(&self, out: &mut Vec<u8>) {
        Acls::put(self, out);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Arc::new(Acls::take(r)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(entries: &[(Who, u16)]) -> Result<Acl, Errno> {
        Acl::new(entries.iter().map(|&(who, perm)| AclEntry { who, perm }).collect())
    }

    const MINIMAL: [(Who, u16); 3] = [(Who::Owner, 6), (Who::OwningGroup, 4), (Who::Other, 0)];

    #[test]
    fn only_valid_acls_are_taken() {
        use Who::{Group, Mask, Other, Owner, OwningGroup, User};
        assert!(acl(&MINIMAL).unwrap().is_minimal());
        let named = [(Owner, 7), (User(1), 7), (User(1), 0), (OwningGroup, 5), (Group(2), 4), (Mask, 6), (Other, 1)];
        let named = acl(&named).unwrap();
        assert_eq!((named.mode(), named.is_minimal()), (0o761, false));
        assert_eq!(Acl::from_xattr(&named.to_xattr()), Ok(Some(named)));
        for wrong in [
            &[(Owner, 7), (OwningGroup, 5)][..],
            &[(Owner, 7), (OwningGroup, 5), (Other, 8)],
            &[(Owner, 7), (User(1), 7), (OwningGroup, 5), (Other, 0)],
            &[(OwningGroup, 5), (Owner, 7), (Other, 0)],
            &[(Owner, 7), (Owner, 7), (OwningGroup, 5), (Other, 0)],
            &[(Owner, 7), (OwningGroup, 5), (Mask, 5), (Mask, 5), (Other, 0)],
        ] {
            assert_eq!(acl(wrong), Err(Errno::EINVAL), "{wrong:?}");
        }
    }

    #[test]
    fn values_that_are_no_acl_are_refused() {
        let value = acl(&MINIMAL).unwrap().to_xattr();
        assert_eq!(Acl::from_xattr(&[]), Ok(None));
        assert_eq!(Acl::from_xattr(&value[..4]), Ok(None));
        assert_eq!(Acl::from_xattr(&value[..3]), Err(Errno::EINVAL));
        assert_eq!(Acl::from_xattr(&value[..11]), Err(Errno::EINVAL));
        assert_eq!(Acl::from_xattr(&[1, 0, 0, 0]), Err(Errno::EOPNOTSUPP));
        let mut unknown = value;
        unknown[4] = 3;
        assert_eq!(Acl::from_xattr(&unknown), Err(Errno::EINVAL));
    }

    #[test]
    fn a_new_inode_has_no_more_than_the_default_acl_and_the_mode_allow() {
        let (mode, access) = acl(&MINIMAL).unwrap().inherited(0o4777);
        assert_eq!((mode, access), (0o4640, None));
        let default =
            acl(&[(Who::Owner, 7), (Who::User(1), 7), (Who::OwningGroup, 5), (Who::Mask, 7), (Who::Other, 5)]);
        let (mode, access) = default.unwrap().inherited(0o640);
        let access = access.unwrap();
        assert_eq!((mode, access.mode()), (0o640, 0o640));
        assert_eq!((access.perm(Who::User(1)), access.perm(Who::OwningGroup)), (Some(7), Some(5)));
    }
}
