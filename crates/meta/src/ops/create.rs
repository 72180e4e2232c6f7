//! create, mkdir, mknod, symlink: a name and its inode are born together at the name's site (SwitchFS §5.2.1).
//!
//! Semantics: search and write permission on the directory; umask, or the directory's default ACL instead; group and setgid inherited from a setgid
//! directory; O_CREAT without O_EXCL finds an existing file (which the session then opens at its home).
//! Locks: the name, exclusive. Journals: inode, name, change-log entry. Rules.

use super::{Req, Step, Stop, acl, bound, named, need_space, opens};
use crate::dir::site::{self, Gone};
use crate::files::policy;
use crate::state::births;
use crate::state::commit::{Effects, commit};
use crate::{Core, Cx, access};
use onpath_kernel::{Mode, OpId};
use onpath_store::Named;
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::record::{Answer, Effect};
use onpath_wire::errno::Errno;
use onpath_wire::ids::{InodeId, Stamp};
use onpath_wire::inode::Kind;
use onpath_wire::limits::TARGET_BYTES_MAX;
use onpath_wire::name::Name;
use onpath_wire::peer::{Access, part};
use onpath_wire::reply::Reply;
use onpath_wire::request::{NewNode, open};

pub(crate) async fn run(cx: &Cx, req: &Req, parent: InodeId, name: &Name, node: &NewNode) -> Step {
    let at = named::here(cx, parent, name)?;
    named::lock_name_shown(cx, &at, Mode::Exclusive).await;
    let mut at_home = None;
    loop {
        let dir = site::grant(cx, parent, part::BOTH).await;
        match cx.with(|core| step(core, cx.op(), req, dir, &at, node))? {
            Outcome::Reply(reply) => return Ok(reply),
            Outcome::NoId => births::more(cx).await?,
            Outcome::Exists(id, dir) => match at_home.take() {
                Some(Some((attr, data))) => return Ok(entry(&dir, Reply::Entry { attr, data, created: false })),
                Some(None) => return Err(Errno::ESTALE.into()),
                None => at_home = Some(named::read_home(cx, id).await),
            },
        }
    }
}

enum Outcome {
    Reply(Reply),
    /// The name exists in this directory, and its inode lives elsewhere.
    Exists(InodeId, Access),
    /// There is no room for new inodes yet.
    NoId,
}

fn step(
    core: &mut Core,
    op: OpId,
    req: &Req,
    dir: Result<Access, Gone>,
    at: &Named<'_>,
    node: &NewNode,
) -> Result<Outcome, Stop> {
    opens::begin_open(core, req, node.open)?;
    let dir = dir?;
    access::search(req, &dir)?;
    if let Some(found) = core.state.names.get(at) {
        if node.open == 0 || node.open & open::EXCLUSIVE != 0 {
            return Err(Errno::EEXIST.into());
        }
        return Ok(match core.state.inodes.shown(found.child) {
            Some((attr, data)) => Outcome::Reply(entry(&dir, Reply::Entry { attr, data, created: false })),
            None => Outcome::Exists(found.child, dir),
        });
    }
    access::modify(req, &dir)?;
    if node.kind != Kind::Symlink && !node.target.0.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    if node.target.0.len() > TARGET_BYTES_MAX {
        return Err(Errno::ENAMETOOLONG.into());
    }
    let (mode, acls) = acl::inherited(&dir, node);
    let mode = mode_of(req, &dir, node, mode)?;
    need_space(core)?;
    let Some(id) = core.state.new_inode_id(at.slot(), node.kind) else { return Ok(Outcome::NoId) };
    let (parent, name) = (at.parent(), at.name());
    let stamp = core.state.clock.stamp(core.now.wall_ns);
    let mut inode = newborn(req, id, &dir, parent, node, mode, stamp);
    inode.name = inode.is_dir().then(|| name.clone());
    let log = core.state.log(parent, 1, i8::from(node.kind == Kind::Directory));
    let mut effects: Effects = vec![
        Effect::PutInode { inode },
        Effect::PutName { parent, name: name.clone(), child: id, kind: node.kind, log },
    ];
    effects.extend(acls.into_iter().map(|(name, value)| Effect::SetXattr { id, name, value }));
    if node.open & open::REGISTER != 0 {
        core.state.opens.register(id, req.session, node.open & open::MAP != 0, bound::rights(node.open))?;
    }
    let reply = commit(core, op, req, stamp, Answer::Entry { id, created: true }, effects);
    let reply = entry(&dir, reply);
    Ok(Outcome::Reply(policy::created(core, req, node, reply)))
}

/// The reply, with what is to be said of the directory.
fn entry(dir: &Access, mut reply: Reply) -> Reply {
    if let Reply::Entry { attr, .. } = &mut reply {
        access::mark(dir, attr);
    }
    reply
}

/// Permission bits that are `mode` after the umask or the default ACL, with what a setgid directory adds and takes.
pub(super) fn mode_of(req: &Req, dir: &Access, node: &NewNode, mode: u16) -> Result<u16, Stop> {
    let inherits = dir.mode & access::SETGID != 0;
    match node.kind {
        Kind::Symlink => Ok(0o777),
        // Of the bits beyond rwx only the sticky one is the caller's to give.
        Kind::Directory => Ok(mode & 0o1777 | if inherits { access::SETGID } else { 0 }),
        // Nobody gives away a group that is not theirs; as in Linux the umask does not change what was asked for.
        _ if inherits && node.mode & 0o2010 == 0o2010 && !access::keeps_setgid(req, dir.uid, dir.gid)? => {
            Ok(mode & !access::SETGID)
        }
        _ => Ok(mode),
    }
}

/// A new inode of the caller's, or of a setgid directory's group.
pub(crate) fn newborn(
    req: &Req,
    id: InodeId,
    dir: &Access,
    parent: InodeId,
    node: &NewNode,
    mode: u16,
    stamp: Stamp,
) -> Inode {
    let now = stamp.0 as i64;
    let mut inode = Inode::new(id, node.kind);
    inode.mode = mode;
    inode.uid = req.caller.uid;
    inode.gid = if dir.mode & access::SETGID != 0 { dir.gid } else { req.caller.gid };
    (inode.atime, inode.mtime, inode.ctime, inode.btime) = (now, now, now, now);
    inode.mtime_stamp = stamp;
    inode.rdev = node.rdev;
    inode.parent = parent;
    inode.target = node.target.clone();
    inode
}
