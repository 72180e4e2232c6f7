//! Permission rules (DESIGN §6): decided by the shards, never by sessions.
//!
//! uid, gid and groups are the session's word, as with AUTH_SYS. Where membership in a gid decides and is not
//! known, the answer is [`Stop::NeedGroups`], before any effect. ACLs are evaluated as acl(5) and Linux do.

use crate::ops::{Req, Stop};
use onpath_wire::acl::{Acl, AclEntry, Acls, Who};
use onpath_wire::attr::{AttrWire, flag};
use onpath_wire::errno::Errno;
use onpath_wire::inode::{Inode, Kind};
use onpath_wire::limits::NEED_GROUPS_MAX;
use onpath_wire::peer::Access;
use smallvec::{SmallVec, smallvec};

/// r, w, x as in access(2).
pub(crate) const READ: u16 = 4;
/// Write.
pub(crate) const WRITE: u16 = 2;
/// Execute or search.
pub(crate) const EXEC: u16 = 1;

/// setuid bit.
pub(crate) const SETUID: u16 = 0o4000;
/// setgid bit.
pub(crate) const SETGID: u16 = 0o2000;
/// Sticky bit.
pub(crate) const STICKY: u16 = 0o1000;

/// Owner, group, mode and access ACL of anything.
#[derive(Clone, Copy)]
pub(crate) struct Owned<'a> {
    mode: u16,
    uid: u32,
    gid: u32,
    acl: Option<&'a Acl>,
}

impl<'a> Owned<'a> {
    /// Those of an inode with these ACLs.
    pub(crate) fn of(i: &Inode, acls: Option<&'a Acls>) -> Owned<'a> {
        Owned { mode: i.mode, uid: i.uid, gid: i.gid, acl: acls.and_then(|acls| acls.access.as_ref()) }
    }

    /// Those of attributes with these ACLs.
    pub(crate) fn shown(a: &AttrWire, acls: Option<&'a Acls>) -> Owned<'a> {
        Owned { mode: a.mode, uid: a.uid, gid: a.gid, acl: acls.and_then(|acls| acls.access.as_ref()) }
    }
}

impl<'a> From<&'a Access> for Owned<'a> {
    fn from(a: &'a Access) -> Owned<'a> {
        Owned { mode: a.mode, uid: a.uid, gid: a.gid, acl: a.acls.as_ref().and_then(|acls| acls.access.as_ref()) }
    }
}

/// Whether the caller is a member of `gid`.
pub(crate) fn in_group(req: &Req, gid: u32) -> Result<bool, Stop> {
    if req.gid == gid || req.groups.member.contains(&gid) {
        Ok(true)
    } else if req.groups.stranger.contains(&gid) {
        Ok(false)
    } else {
        Err(Stop::NeedGroups(smallvec![gid]))
    }
}

/// EACCES unless the caller may do all of `want` (bits r, w, x).
pub(crate) fn check(req: &Req, what: Owned<'_>, kind: Kind, want: u16) -> Result<(), Stop> {
    let any_x = what.mode & 0o111 != 0;
    if req.uid == 0 {
        // uid 0 passes, but executes only what somebody may execute.
        let refused = want & EXEC != 0 && kind != Kind::Directory && !any_x;
        return if refused { Err(Errno::EACCES.into()) } else { Ok(()) };
    }
    let class = |shift: u16| (what.mode >> shift & 7) & want == want;
    let allowed = if req.uid == what.uid {
        class(6)
    } else if let Some(acl) = what.acl.filter(|_| what.mode & 0o070 != 0) {
        by_acl(req, what, acl, want)? // Linux does not look into an ACL whose mask allows nothing
    } else if class(3) == class(0) {
        class(0) // membership does not decide
    } else if in_group(req, what.gid)? {
        class(3)
    } else {
        class(0)
    };
    if allowed { Ok(()) } else { Err(Errno::EACCES.into()) }
}

/// What an ACL says to those who do not own the file (acl(5), ACCESS CHECK ALGORITHM). The mask is the mode's group part.
fn by_acl(req: &Req, what: Owned<'_>, acl: &Acl, want: u16) -> Result<bool, Stop> {
    let allows = |entry: &AclEntry| entry.perm & (what.mode >> 3) & want == want;
    if let Some(user) = acl.entries().iter().find(|e| e.who == Who::User(req.uid)) {
        return Ok(allows(user));
    }
    let (mut member, mut unknown) = (false, SmallVec::<[(u32, bool); 4]>::new());
    for entry in acl.entries() {
        let gid = match entry.who {
            Who::OwningGroup => what.gid,
            Who::Group(gid) => gid,
            _ => continue,
        };
        match in_group(req, gid) {
            Ok(true) if allows(entry) => return Ok(true),
            Ok(here) => member |= here,
            Err(_) => unknown.push((gid, allows(entry))),
        }
    }
    let otherwise = !member && what.mode & want == want;
    if unknown.iter().all(|(_, allowed)| *allowed == otherwise) {
        return Ok(otherwise); // membership does not decide
    }
    Err(Stop::NeedGroups(unknown.iter().take(NEED_GROUPS_MAX).map(|(gid, _)| *gid).collect()))
}

/// Search permission on a directory.
pub(crate) fn search(req: &Req, dir: &Access) -> Result<(), Stop> {
    check(req, dir.into(), Kind::Directory, EXEC)
}

/// Whether everybody may search a directory, now and until its access part changes.
pub(crate) fn searchable(dir: &Access) -> bool {
    const ALL: u16 = 0o111;
    dir.mode & ALL == ALL && dir.acls.as_ref().is_none_or(|acls| acls.access.is_none())
}

/// Says of an answer by name what is to be known of its directory: whether everybody may search it, and what fs.protected_* look at.
pub(crate) fn mark(dir: &Access, attr: &mut AttrWire) {
    let of_others = attr.uid != dir.uid;
    attr.flags |= flags(dir) & if of_others { u8::MAX } else { flag::SEARCHABLE };
}

/// The same of all names in it, whoever owns their inodes.
pub(crate) fn flags(dir: &Access) -> u8 {
    let sticky = match (dir.mode & STICKY != 0, dir.mode & 0o022) {
        (false, _) | (_, 0) => 0,
        (true, 0o020) => flag::STICKY_FOR_GROUP,
        (true, _) => flag::STICKY_FOR_ALL,
    };
    sticky | if searchable(dir) { flag::SEARCHABLE } else { 0 }
}

/// Permission to add or remove names in a directory.
pub(crate) fn modify(req: &Req, dir: &Access) -> Result<(), Stop> {
    check(req, dir.into(), Kind::Directory, WRITE | EXEC)
}

/// EPERM if the directory is sticky and the caller owns neither it nor the child.
pub(crate) fn sticky(req: &Req, dir: &Access, child_uid: u32) -> Result<(), Stop> {
    let refused = dir.mode & STICKY != 0 && ![0, child_uid, dir.uid].contains(&req.uid);
    if refused { Err(Errno::EPERM.into()) } else { Ok(()) }
}

/// The directory's owner if its sticky bit matters for the caller.
pub(crate) fn sticky_owner(dir: &Access) -> Option<u32> {
    (dir.mode & STICKY != 0).then_some(dir.uid)
}

/// EPERM unless the caller owns the inode.
pub(crate) fn owner(req: &Req, uid: u32) -> Result<(), Stop> {
    if req.uid == 0 || req.uid == uid { Ok(()) } else { Err(Errno::EPERM.into()) }
}

/// Mode of a file after a truncation or a chown. setgid without group x, a lock mark of old, goes only if the caller is not in the group.
pub(crate) fn without_suid(req: &Req, inode: &Inode) -> Result<u16, Stop> {
    let mark = inode.mode & (SETGID | 0o010) == SETGID;
    let stays = mark && (req.uid == 0 || in_group(req, inode.gid)?);
    Ok(inode.mode & !(SETUID | if stays { 0 } else { SETGID }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::ids::InodeId;
    use onpath_wire::request::Groups;

    fn req(uid: u32, gid: u32) -> Req {
        Req { uid, gid, ..Req::default() }
    }
    fn owned(mode: u16) -> Owned<'static> {
        Owned { mode, uid: 10, gid: 20, acl: None }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let file = |who: &Req, mode, want| check(who, owned(mode), Kind::File, want);
        assert!(file(&req(10, 1), 0o400, READ).is_ok());
        assert!(matches!(file(&req(10, 20), 0o077, READ), Err(Stop::Errno(Errno::EACCES))), "owner before group");
        assert!(file(&req(11, 20), 0o040, READ).is_ok());
        assert!(matches!(file(&req(11, 20), 0o007, READ), Err(Stop::Errno(Errno::EACCES))), "group before other");
        assert!(matches!(file(&req(11, 21), 0o040, READ), Err(Stop::NeedGroups(_))));
        assert!(file(&req(11, 21), 0o044, READ).is_ok(), "membership does not decide");
        let stranger = Req { groups: Groups { member: smallvec![], stranger: smallvec![20] }, ..req(11, 21) };
        assert!(matches!(file(&stranger, 0o040, READ), Err(Stop::Errno(Errno::EACCES))));
    }

    #[test]
    fn root_executes_only_what_is_executable() {
        assert!(check(&req(0, 0), owned(0), Kind::File, READ | WRITE).is_ok());
        assert!(check(&req(0, 0), owned(0o600), Kind::File, EXEC).is_err());
        assert!(check(&req(0, 0), owned(0), Kind::Directory, EXEC).is_ok());
    }

    #[test]
    fn sticky_directories_protect_foreign_children() {
        let dir = Access { mode: 0o1777, uid: 10, gid: 20, acls: None };
        assert!(sticky(&req(11, 1), &dir, 11).is_ok());
        assert!(sticky(&req(10, 1), &dir, 11).is_ok());
        assert!(sticky(&req(12, 1), &dir, 11).is_err());
        assert!(sticky(&req(12, 1), &Access { mode: 0o777, ..dir }, 11).is_ok());
    }

    #[test]
    fn suid_and_executable_sgid_go_and_a_lock_mark_goes_for_strangers() {
        let file = |mode| Inode { mode, gid: 20, ..Inode::new(InodeId(9), Kind::File) };
        let stranger = Req { groups: Groups { stranger: smallvec![20], ..Groups::default() }, ..req(10, 30) };
        for (who, mark) in [(req(10, 20), 0o2745), (req(0, 0), 0o2745), (stranger, 0o745)] {
            assert!(matches!(without_suid(&who, &file(0o6755)), Ok(0o755)));
            assert!(matches!(without_suid(&who, &file(0o6745)), Ok(mode) if mode == mark));
        }
        assert!(matches!(without_suid(&req(10, 30), &file(0o2745)), Err(Stop::NeedGroups(gids)) if gids[..] == [20]));
        assert!(matches!(without_suid(&req(10, 30), &file(0o4745)), Ok(0o745)));
    }
}
