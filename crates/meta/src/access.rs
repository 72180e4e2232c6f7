//! Permission rules (design.md, "Sessions"): decided by the shards, never by sessions.
//!
//! uid, gid, groups and capabilities are the session's word, as with AUTH_SYS; uid 0 by itself means nothing. Where
//! membership in a gid or a capability decides and is not known, the answer is [`Stop::NeedCaller`], before any effect. ACLs
//! are evaluated as acl(5) and Linux do, capabilities as capabilities(7) and user_namespaces(7).

use crate::ops::{Req, Stop};
use onpath_wire::attr::{AttrWire, flag};
use onpath_wire::caller::{Over, cap};
use onpath_wire::disk::inode::Inode;
use onpath_wire::errno::Errno;
use onpath_wire::inode::Kind;
use onpath_wire::peer::Access;
use onpath_wire::permission::{self, Unknown};
pub(crate) use onpath_wire::permission::{EXEC, Owned, READ, WRITE};

/// setuid bit.
pub(crate) const SETUID: u16 = 0o4000;
/// setgid bit.
pub(crate) const SETGID: u16 = 0o2000;
/// Sticky bit.
pub(crate) const STICKY: u16 = 0o1000;

impl From<Unknown> for Stop {
    fn from(Unknown { gids, caps }: Unknown) -> Stop {
        Stop::NeedCaller { gids, caps }
    }
}

/// Whether the caller is a member of `gid`.
pub(crate) fn in_group(req: &Req, gid: u32) -> Result<bool, Stop> {
    Ok(permission::in_group(&req.caller, gid)?)
}

/// A check as a yes or no.
pub(crate) fn is_allowed(checked: Result<(), Stop>) -> Result<bool, Stop> {
    match checked {
        Ok(()) => Ok(true),
        Err(Stop::Errno(_)) => Ok(false),
        Err(stop) => Err(stop),
    }
}

/// Whether the caller may by `otherwise` or has one of `caps`. Where both are open, both are asked for at once.
pub(crate) fn any(req: &Req, otherwise: Result<bool, Stop>, caps: u32, over: Over) -> Result<bool, Stop> {
    let otherwise = match otherwise {
        Ok(may) => Ok(may),
        Err(Stop::NeedCaller { gids, caps }) => Err(Unknown { gids, caps }),
        Err(stop) => return Err(stop),
    };
    Ok(permission::any(&req.caller, otherwise, caps, over)?)
}

/// `errno` unless the caller may by `otherwise` or has one of `caps`.
pub(crate) fn or_capable(
    req: &Req,
    otherwise: Result<bool, Stop>,
    caps: u32,
    over: Over,
    errno: Errno,
) -> Result<(), Stop> {
    if any(req, otherwise, caps, over)? { Ok(()) } else { Err(errno.into()) }
}

/// EACCES unless the caller may do all of `want` (bits r, w, x).
pub(crate) fn check(req: &Req, what: Owned<'_>, kind: Kind, want: u16) -> Result<(), Stop> {
    if permission::may(&req.caller, what, kind, want)? { Ok(()) } else { Err(Errno::EACCES.into()) }
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

/// EPERM if the directory is sticky and the caller owns neither it nor the child, whose owner and group these are.
pub(crate) fn sticky(req: &Req, dir: &Access, child: (u32, u32)) -> Result<(), Stop> {
    if dir.mode & STICKY != 0 { sticky_of(req, dir.uid, child) } else { Ok(()) }
}

/// The same of a sticky directory of `owner`'s.
pub(crate) fn sticky_of(req: &Req, owner: u32, (uid, gid): (u32, u32)) -> Result<(), Stop> {
    let owns = [owner, uid].contains(&req.caller.uid);
    or_capable(req, Ok(owns), cap::FOWNER, Over::Inode(uid, gid), Errno::EPERM)
}

/// The directory's owner if its sticky bit matters for the caller.
pub(crate) fn sticky_owner(dir: &Access) -> Option<u32> {
    (dir.mode & STICKY != 0).then_some(dir.uid)
}

/// EPERM unless the caller owns what is `uid`'s, or passes as its owner.
pub(crate) fn owner(req: &Req, uid: u32) -> Result<(), Stop> {
    or_capable(req, Ok(req.caller.uid == uid), cap::FOWNER, Over::Uid(uid), Errno::EPERM)
}

/// Whether the caller may leave setgid on what has this owner and group.
pub(crate) fn keeps_setgid(req: &Req, uid: u32, gid: u32) -> Result<bool, Stop> {
    any(req, in_group(req, gid), cap::FSETID, Over::Inode(uid, gid))
}

/// Mode of a file after a truncation or a chown. setgid without group x, a lock mark of old, goes only if the caller is not in the group.
pub(crate) fn without_suid(req: &Req, inode: &Inode) -> Result<u16, Stop> {
    let mark = inode.mode & (SETGID | 0o010) == SETGID;
    let stays = mark && keeps_setgid(req, inode.uid, inode.gid)?;
    Ok(inode.mode & !(SETUID | if stays { 0 } else { SETGID }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::caller::{Caller, Caps, Groups};
    use onpath_wire::ids::InodeId;
    use smallvec::smallvec;

    fn req(uid: u32, gid: u32) -> Req {
        with(uid, gid, Groups::default(), 0)
    }
    fn with(uid: u32, gid: u32, groups: Groups, caps: u32) -> Req {
        Req { caller: Caller { uid, gid, groups, caps: Caps::exactly(caps), ..Caller::default() }, ..Req::default() }
    }
    fn stranger(gid: u32) -> Groups {
        Groups { stranger: smallvec![gid], ..Groups::default() }
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
        assert!(matches!(file(&req(11, 21), 0o040, READ), Err(Stop::NeedCaller { gids, caps: 0 }) if gids[..] == [20]));
        assert!(file(&req(11, 21), 0o044, READ).is_ok(), "membership does not decide");
        let stranger = with(11, 21, stranger(20), 0);
        assert!(matches!(file(&stranger, 0o040, READ), Err(Stop::Errno(Errno::EACCES))));
    }

    #[test]
    fn what_is_not_known_is_asked_for_at_once_and_only_where_it_decides() {
        let unknown = |uid, gid| Req { caller: Caller { uid, gid, ..Caller::default() }, ..Req::default() };
        let need = |checked| match checked {
            Err(Stop::NeedCaller { gids, caps }) => (gids.to_vec(), caps),
            other => panic!("{other:?}"),
        };
        let both = cap::DAC_OVERRIDE | cap::DAC_READ_SEARCH;
        assert_eq!(need(check(&unknown(0, 0), owned(0o640), Kind::File, READ)), (vec![20], both));
        assert_eq!(need(check(&unknown(0, 0), owned(0o600), Kind::File, WRITE)), (vec![], cap::DAC_OVERRIDE));
        assert!(check(&unknown(0, 0), owned(0o644), Kind::File, READ).is_ok());
        assert!(check(&unknown(10, 0), owned(0o600), Kind::File, READ).is_ok());
        assert!(matches!(check(&unknown(0, 0), owned(0o600), Kind::File, EXEC), Err(Stop::Errno(Errno::EACCES))));
        assert_eq!(need(owner(&unknown(0, 0), 10)), (vec![], cap::FOWNER));
        assert!(owner(&unknown(10, 0), 10).is_ok());
        let capable = with(0, 0, Groups::default(), cap::DAC_OVERRIDE);
        assert!(check(&capable, owned(0o640), Kind::File, READ).is_ok(), "then membership does not matter");
    }

    #[test]
    fn capabilities_pass_as_they_say() {
        let may = |caps, mode, kind, want| {
            let who = with(11, 21, stranger(20), caps);
            is_allowed(check(&who, owned(mode), kind, want)).expect("all is known")
        };
        for want in [READ, WRITE, READ | WRITE, EXEC, READ | EXEC, READ | WRITE | EXEC] {
            for kind in [Kind::File, Kind::Directory] {
                let dir = kind == Kind::Directory;
                assert!(!may(cap::FOWNER | cap::CHOWN, 0, kind, want));
                assert!(may(cap::DAC_OVERRIDE, 0o100, kind, want));
                assert_eq!(may(cap::DAC_OVERRIDE, 0, kind, want), dir || want & EXEC == 0, "{kind:?} {want}");
                let reads = if dir { want & WRITE == 0 } else { want == READ };
                assert_eq!(may(cap::DAC_READ_SEARCH, 0o100, kind, want), reads, "{kind:?} {want}");
            }
        }
        assert!(!may(0, 0, Kind::File, READ) && may(0, 0, Kind::File, 0));
        let root = with(0, 0, stranger(20), 0);
        assert!(check(&root, owned(0o770), Kind::File, READ).is_err(), "uid 0 means nothing");
        assert!(owner(&root, 10).is_err() && owner(&with(11, 21, stranger(20), cap::FOWNER), 10).is_ok());
    }

    #[test]
    fn sticky_directories_protect_foreign_children() {
        let dir = Access { mode: 0o1777, uid: 10, gid: 20, acls: None };
        assert!(sticky(&req(11, 1), &dir, (11, 1)).is_ok());
        assert!(sticky(&req(10, 1), &dir, (11, 1)).is_ok());
        assert!(sticky(&req(12, 1), &dir, (11, 1)).is_err());
        assert!(sticky(&req(12, 1), &Access { mode: 0o777, ..dir }, (11, 1)).is_ok());
    }

    #[test]
    fn suid_and_executable_sgid_go_and_a_lock_mark_goes_for_strangers() {
        let file = |mode| Inode { mode, gid: 20, ..Inode::new(InodeId(9), Kind::File) };
        let capable = with(0, 0, Groups::default(), cap::FSETID);
        let stranger = with(10, 30, stranger(20), 0);
        for (who, mark) in [(req(10, 20), 0o2745), (capable, 0o2745), (stranger, 0o745)] {
            assert!(matches!(without_suid(&who, &file(0o6755)), Ok(0o755)));
            assert!(matches!(without_suid(&who, &file(0o6745)), Ok(mode) if mode == mark));
        }
        assert!(
            matches!(without_suid(&req(10, 30), &file(0o2745)), Err(Stop::NeedCaller { gids, .. }) if gids[..] == [20])
        );
        assert!(matches!(without_suid(&req(10, 30), &file(0o4745)), Ok(0o745)));
    }
}
