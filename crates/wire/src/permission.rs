//! Who may read, write or search: owner, ACL, group, others, and the capabilities that pass them (acl(5), capabilities(7)).
//!
//! What is known of a caller may not be enough: then the answer says what is to be asked, and nothing is decided.

use crate::acl::{Acl, AclEntry, Acls, Who};
use crate::attr::AttrWire;
use crate::caller::{Caller, Over, cap};
use crate::disk::inode::Inode;
use crate::inode::Kind;
use crate::limits::NEED_GROUPS_MAX;
use crate::peer::Access;
use smallvec::{SmallVec, smallvec};

/// r, w, x as in access(2).
pub const READ: u16 = 4;
/// Write.
pub const WRITE: u16 = 2;
/// Execute or search.
pub const EXEC: u16 = 1;

/// What decides, and is not known of the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// Whether it is a member of these: at most [`NEED_GROUPS_MAX`].
    pub gids: SmallVec<[u32; 4]>,
    /// Or whether it has one of these: bits of [`cap`].
    pub caps: u32,
}

/// Owner, group, mode and access ACL of anything.
#[derive(Clone, Copy, Debug)]
pub struct Owned<'a> {
    /// Permission bits.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Access ACL, if it has one.
    pub acl: Option<&'a Acl>,
}

impl<'a> Owned<'a> {
    /// Those of an inode with these ACLs.
    pub fn of(i: &Inode, acls: Option<&'a Acls>) -> Owned<'a> {
        Owned { mode: i.mode, uid: i.uid, gid: i.gid, acl: acls.and_then(|acls| acls.access.as_ref()) }
    }

    /// Those of attributes with these ACLs.
    pub fn shown(a: &AttrWire, acls: Option<&'a Acls>) -> Owned<'a> {
        Owned { mode: a.mode, uid: a.uid, gid: a.gid, acl: acls.and_then(|acls| acls.access.as_ref()) }
    }
}

impl<'a> From<&'a Access> for Owned<'a> {
    fn from(a: &'a Access) -> Owned<'a> {
        Owned { mode: a.mode, uid: a.uid, gid: a.gid, acl: a.acls.as_ref().and_then(|acls| acls.access.as_ref()) }
    }
}

/// Whether the caller may do all of `want` (bits r, w, x).
///
/// # Errors
/// What is to be asked.
pub fn may(caller: &Caller, what: Owned<'_>, kind: Kind, want: u16) -> Result<bool, Unknown> {
    let over = Over::Inode(what.uid, what.gid);
    any(caller, by_class(caller, what, want), overriding(kind, what.mode, want), over)
}

/// Whether the caller is a member of `gid`.
///
/// # Errors
/// Nobody knows.
pub fn in_group(caller: &Caller, gid: u32) -> Result<bool, Unknown> {
    if caller.gid == gid || caller.groups.member.contains(&gid) {
        Ok(true)
    } else if caller.groups.stranger.contains(&gid) {
        Ok(false)
    } else {
        Err(Unknown { gids: smallvec![gid], caps: 0 })
    }
}

/// Whether the caller may by `otherwise` or has one of `caps`.
///
/// # Errors
/// Where both are open, both are to be asked at once.
pub fn any(caller: &Caller, otherwise: Result<bool, Unknown>, caps: u32, over: Over) -> Result<bool, Unknown> {
    if caps == 0 || matches!(otherwise, Ok(true)) {
        return otherwise;
    }
    match caller.caps.any(caps, over) {
        Some(true) => Ok(true),
        Some(false) => otherwise,
        None => {
            let unknown = otherwise.err().unwrap_or_default();
            Err(Unknown { caps: unknown.caps | caps, ..unknown })
        }
    }
}

/// The capabilities each of which passes permission bits. Nobody executes what nobody may execute.
fn overriding(kind: Kind, mode: u16, want: u16) -> u32 {
    let directory = kind == Kind::Directory;
    let reads = if directory { want & WRITE == 0 } else { want == READ };
    let overrides = directory || want & EXEC == 0 || mode & 0o111 != 0;
    (if reads { cap::DAC_READ_SEARCH } else { 0 }) | if overrides { cap::DAC_OVERRIDE } else { 0 }
}

/// Whether the caller may as owner, by ACL, as group or as other.
fn by_class(caller: &Caller, what: Owned<'_>, want: u16) -> Result<bool, Unknown> {
    let class = |shift: u16| (what.mode >> shift & 7) & want == want;
    if caller.uid == what.uid {
        Ok(class(6))
    } else if let Some(acl) = what.acl.filter(|_| what.mode & 0o070 != 0) {
        by_acl(caller, what, acl, want) // Linux does not look into an ACL whose mask allows nothing
    } else if class(3) == class(0) {
        Ok(class(0)) // membership does not decide
    } else if in_group(caller, what.gid)? {
        Ok(class(3))
    } else {
        Ok(class(0))
    }
}

/// What an ACL says to those who do not own the file (acl(5), ACCESS CHECK ALGORITHM). The mask is the mode's group part.
fn by_acl(caller: &Caller, what: Owned<'_>, acl: &Acl, want: u16) -> Result<bool, Unknown> {
    let allows = |entry: &AclEntry| entry.perm & (what.mode >> 3) & want == want;
    if let Some(user) = acl.entries().iter().find(|e| e.who == Who::User(caller.uid)) {
        return Ok(allows(user));
    }
    let (mut member, mut unknown) = (false, SmallVec::<[(u32, bool); 4]>::new());
    for entry in acl.entries() {
        let gid = match entry.who {
            Who::OwningGroup => what.gid,
            Who::Group(gid) => gid,
            _ => continue,
        };
        match in_group(caller, gid) {
            Ok(true) if allows(entry) => return Ok(true),
            Ok(here) => member |= here,
            Err(_) => unknown.push((gid, allows(entry))),
        }
    }
    let otherwise = !member && what.mode & want == want;
    if unknown.iter().all(|(_, allowed)| *allowed == otherwise) {
        return Ok(otherwise); // membership does not decide
    }
    Err(Unknown { gids: unknown.iter().take(NEED_GROUPS_MAX).map(|(gid, _)| *gid).collect(), caps: 0 })
}
