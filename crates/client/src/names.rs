//! Calls on paths. Where a path may end with a slash, a dot or nothing at all, the errors are those of the kernel.

use crate::error::Error;
use crate::metadata::{FileType, Metadata};
use crate::session::{Asks, Session, restarting};
use crate::walk::{self, Last, Link, Place};
use onpath_session::fs::{FsOp, FsReply};
use onpath_wire::attr::AttrWire;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::limits::TARGET_BYTES_MAX;
use onpath_wire::name::Name;
use onpath_wire::request::{SetAttr, rename as bits, set};
use onpath_wire::xattr::XattrName;

/// What a rename does with a name that is there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replace {
    /// The new name leads to what is renamed; what it led to loses that name.
    #[default]
    Yes,
    /// EEXIST.
    No,
    /// Both change places. Both have to be there.
    Exchange,
}

/// What setting an extended attribute does with one that is there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetXattr {
    /// It is there afterwards, whether or not it was.
    #[default]
    Any,
    /// EEXIST if it is there: XATTR_CREATE.
    Create,
    /// ENODATA unless it is there: XATTR_REPLACE.
    Replace,
}

/// A time to set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Time {
    /// It stays as it is.
    #[default]
    Keep,
    /// The present, as the file system's clock has it.
    Now,
    /// Nanoseconds since 1970.
    At(i64),
}

/// What a file system has room for, in blocks of 4,096 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Blocks in all.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Inodes in use.
    pub inodes: u64,
}

fn unexpected<T>() -> Result<T, Error> {
    Err(Errno::EIO.into())
}

pub(crate) async fn stat(asks: &Asks<'_>, path: &[u8], link: Link) -> Result<Metadata, Error> {
    match walk::look(asks, path, link).await? {
        (attr, Some(btime)) => Ok(Metadata::of(&attr, Some(btime))),
        (attr, None) => of_inode(asks, attr.id).await,
    }
}

pub(crate) async fn of_inode(asks: &Asks<'_>, id: InodeId) -> Result<Metadata, Error> {
    match asks.ask(FsOp::GetAttr { id, handle: None }).await? {
        FsReply::Attr { attr, btime } => Ok(Metadata::of(&attr, Some(btime))),
        _ => unexpected(),
    }
}

/// The directory that a path leads to.
pub(crate) async fn directory(asks: &Asks<'_>, path: &[u8], link: Link) -> Result<InodeId, Error> {
    let attr = walk::resolve(asks, path, link).await?;
    if attr.kind != Kind::Directory {
        return Err(Errno::ENOTDIR.into());
    }
    Ok(attr.id)
}

pub(crate) async fn access(asks: &Asks<'_>, path: &[u8], mask: u32) -> Result<(), Error> {
    let attr = walk::resolve(asks, path, Link::Follow).await?;
    if mask & !7 != 0 {
        return Err(Errno::EINVAL.into());
    }
    if mask == 0 {
        return Ok(());
    }
    asks.ask(FsOp::Access { id: attr.id, mask }).await.map(drop)
}

pub(crate) async fn readlink(asks: &Asks<'_>, path: &[u8]) -> Result<Vec<u8>, Error> {
    let attr = walk::resolve(asks, path, Link::Itself).await?;
    if attr.kind != Kind::Symlink {
        return Err(Errno::EINVAL.into());
    }
    walk::target(asks, attr.id).await
}

/// The directory and name of what is to be made there, which a slash may follow if it is a directory.
async fn free_place(asks: &Asks<'_>, path: &[u8], is_dir: bool) -> Result<(InodeId, Name), Error> {
    let Place { dir, last, slash } = walk::place(asks, path).await?;
    let Last::Name(name) = last else { return Err(Errno::EEXIST.into()) };
    if slash && !is_dir {
        walk::lookup(asks, dir, &name).await?;
        return Err(Errno::EEXIST.into());
    }
    Ok((dir, name))
}

/// What is made: its kind, the number of a device, the target of a symbolic link.
struct Node<'a> {
    kind: Kind,
    mode: u32,
    rdev: u32,
    target: &'a [u8],
}

async fn make(asks: &Asks<'_>, path: &[u8], node: Node<'_>) -> Result<Metadata, Error> {
    let (parent, name) = free_place(asks, path, node.kind == Kind::Directory).await?;
    let (mode, umask) = ((node.mode & 0o7777) as u16, (asks.caller.umask & 0o777) as u16);
    let Node { kind, rdev, target, .. } = node;
    let op = FsOp::Make { parent, name, kind, mode, umask, rdev, target: target.to_vec() };
    match asks.ask(op).await? {
        FsReply::Entry(attr) => Ok(Metadata::of(&attr, None)),
        _ => unexpected(),
    }
}

pub(crate) async fn mkdir(asks: &Asks<'_>, path: &[u8], mode: u32) -> Result<Metadata, Error> {
    // As mkdir(2): setuid and setgid are the parent's to give.
    make(asks, path, Node { kind: Kind::Directory, mode: mode & 0o1777, rdev: 0, target: b"" }).await
}

pub(crate) async fn mknod(
    asks: &Asks<'_>,
    path: &[u8],
    file_type: FileType,
    mode: u32,
    rdev: u32,
) -> Result<Metadata, Error> {
    let kind = file_type.kind();
    match kind {
        Kind::Directory => return Err(Errno::EPERM.into()),
        Kind::Symlink => return Err(Errno::EINVAL.into()),
        _ => {}
    }
    if matches!(kind, Kind::CharDevice | Kind::BlockDevice) && asks.caller.capabilities & CAP_MKNOD == 0 {
        return Err(Errno::EPERM.into());
    }
    make(asks, path, Node { kind, mode, rdev, target: b"" }).await
}

/// What mknod(2) asks for devices, which the kernel does before it asks a mount.
const CAP_MKNOD: u64 = 1 << 27;

pub(crate) async fn symlink(asks: &Asks<'_>, path: &[u8], target: &[u8]) -> Result<Metadata, Error> {
    match target {
        [] => return Err(Errno::ENOENT.into()),
        _ if target.len() > TARGET_BYTES_MAX => return Err(Errno::ENAMETOOLONG.into()),
        _ if target.contains(&0) => return Err(Errno::EINVAL.into()),
        _ => {}
    }
    make(asks, path, Node { kind: Kind::Symlink, mode: 0o777, rdev: 0, target }).await
}

pub(crate) async fn link(asks: &Asks<'_>, path: &[u8], new: &[u8]) -> Result<Metadata, Error> {
    let attr = walk::resolve(asks, path, Link::Itself).await?;
    let (parent, name) = free_place(asks, new, false).await.map_err(|error| error.about(new))?;
    named(asks, attr.id, parent, name)
        .await
        .map_err(|error| if is_in_the_way(&error) { error.about(new) } else { error })?;
    of_inode(asks, attr.id).await
}

/// Whether what has a name already is the reason.
fn is_in_the_way(error: &Error) -> bool {
    [Errno::EEXIST, Errno::ENOTEMPTY, Errno::EISDIR].iter().any(|errno| error.is(*errno))
}

/// Gives an inode a further name, a path of a session.
pub(crate) async fn link_inode(asks: &Asks<'_>, id: InodeId, there: &Session, new: &[u8]) -> Result<(), Error> {
    restarting!(there, asks.caller, |asks| async {
        let (parent, name) = free_place(asks, new, false).await?;
        named(asks, id, parent, name).await
    })
}

/// Gives an inode a further name.
pub(crate) async fn named(asks: &Asks<'_>, id: InodeId, parent: InodeId, name: Name) -> Result<(), Error> {
    asks.ask(FsOp::Link { id, parent, name }).await.map(drop)
}

pub(crate) async fn unlink(asks: &Asks<'_>, path: &[u8]) -> Result<(), Error> {
    let Place { dir: parent, last, slash } = walk::place(asks, path).await?;
    let Last::Name(name) = last else { return Err(Errno::EISDIR.into()) };
    if slash {
        let attr = walk::lookup(asks, parent, &name).await?;
        return Err(if attr.kind == Kind::Directory { Errno::EISDIR } else { Errno::ENOTDIR }.into());
    }
    asks.ask(FsOp::Unlink { parent, name }).await.map(drop)
}

pub(crate) async fn rmdir(asks: &Asks<'_>, path: &[u8]) -> Result<(), Error> {
    let Place { dir: parent, last, .. } = walk::place(asks, path).await?;
    let name = match last {
        Last::Name(name) => name,
        Last::Here => return Err(Errno::EINVAL.into()),
        Last::Up => return Err(Errno::ENOTEMPTY.into()),
        Last::Root => return Err(Errno::EBUSY.into()),
    };
    asks.ask(FsOp::Rmdir { parent, name }).await.map(drop)
}

/// Moves a name; the new path begins at `root`.
pub(crate) async fn rename(
    asks: &Asks<'_>,
    from: &[u8],
    root: InodeId,
    to: &[u8],
    replace: Replace,
) -> Result<(), Error> {
    let old = walk::place(asks, from).await?;
    let new = match walk::place_from(asks, root, to).await {
        Ok(new) => new,
        Err(error) => {
            walk::search(asks, old.dir).await?;
            return Err(error.about(to));
        }
    };
    let flags = replace.bits();
    let (Last::Name(name), Last::Name(new_name)) = (&old.last, &new.last) else {
        // Whether the directories may be searched is looked at first.
        walk::search(asks, old.dir).await?;
        walk::search(asks, new.dir).await.map_err(|error| error.about(to))?;
        let exists = replace == Replace::No && matches!(old.last, Last::Name(_));
        return Err(if exists { Errno::EEXIST } else { Errno::EBUSY }.into());
    };
    let (name, new_name) = (name.clone(), new_name.clone());
    // Only directories may have a slash behind their name.
    if old.slash || new.slash {
        walk::search(asks, old.dir).await?;
        walk::search(asks, new.dir).await.map_err(|error| error.about(to))?;
        let source = walk::lookup(asks, old.dir, &name).await?;
        let target = match (replace, walk::lookup(asks, new.dir, &new_name).await) {
            (Replace::No, Ok(_)) => return Err(Error::from(Errno::EEXIST).about(to)),
            (Replace::Exchange, target) => Some(target.map_err(|error| error.about(to))?),
            (_, Err(error)) if !error.is(Errno::ENOENT) => return Err(error.about(to)),
            _ => None,
        };
        let not_dir = |attr: &AttrWire| attr.kind != Kind::Directory;
        let wrong = match &target {
            Some(target) => old.slash && not_dir(&source) || new.slash && not_dir(target),
            None => not_dir(&source),
        };
        if wrong {
            return Err(Errno::ENOTDIR.into());
        }
    }
    let op = FsOp::Rename { from_parent: old.dir, from: name.clone(), parent: new.dir, name: new_name, flags };
    let Err(error) = asks.ask(op).await else { return Ok(()) };
    // Of an exchange either may be what is missing.
    let is_missing = replace == Replace::Exchange && error.is(Errno::ENOENT);
    let is_about_new = is_in_the_way(&error) || is_missing && walk::lookup(asks, old.dir, &name).await.is_ok();
    Err(if is_about_new { error.about(to) } else { error })
}

impl Replace {
    fn bits(self) -> u32 {
        match self {
            Replace::Yes => 0,
            Replace::No => bits::NOREPLACE,
            Replace::Exchange => bits::EXCHANGE,
        }
    }
}

/// Changes attributes of what a path leads to.
async fn set(asks: &Asks<'_>, path: &[u8], link: Link, set: SetAttr) -> Result<(), Error> {
    let attr = walk::resolve(asks, path, link).await?;
    change(asks, attr.id, set).await
}

pub(crate) async fn change(asks: &Asks<'_>, id: InodeId, set: SetAttr) -> Result<(), Error> {
    asks.ask(FsOp::SetAttr { id, set, handle: None }).await.map(drop)
}

pub(crate) async fn chmod(asks: &Asks<'_>, path: &[u8], mode: u32) -> Result<(), Error> {
    let valid = set::MODE;
    set(asks, path, Link::Follow, SetAttr { valid, mode: (mode & 0o7777) as u16, ..SetAttr::default() }).await
}

pub(crate) async fn chown(
    asks: &Asks<'_>,
    path: &[u8],
    uid: Option<u32>,
    gid: Option<u32>,
    link: Link,
) -> Result<(), Error> {
    set(asks, path, link, owners(uid, gid)).await
}

pub(crate) fn owners(uid: Option<u32>, gid: Option<u32>) -> SetAttr {
    let bit = |id: Option<u32>, bit| if id.is_some() { bit } else { 0 };
    let changes = bit(uid, set::UID) | bit(gid, set::GID);
    // One that keeps both ids clears setuid and setgid all the same.
    let valid = if changes == 0 { set::KILL_SUIDGID } else { changes };
    SetAttr { valid, uid: uid.unwrap_or(0), gid: gid.unwrap_or(0), ..SetAttr::default() }
}

pub(crate) async fn utimens(asks: &Asks<'_>, path: &[u8], atime: Time, mtime: Time, link: Link) -> Result<(), Error> {
    let times = times(atime, mtime);
    let attr = walk::resolve(asks, path, link).await?;
    if times.valid == 0 { Ok(()) } else { change(asks, attr.id, times).await }
}

pub(crate) fn times(atime: Time, mtime: Time) -> SetAttr {
    let time = |time, bit, now_bit| match time {
        Time::Keep => (0, 0),
        Time::Now => (bit | now_bit, 0),
        Time::At(ns) => (bit, ns),
    };
    let (accessed, atime) = time(atime, set::ATIME, set::ATIME_NOW);
    let (modified, mtime) = time(mtime, set::MTIME, set::MTIME_NOW);
    SetAttr { valid: accessed | modified, atime, mtime, ..SetAttr::default() }
}

pub(crate) async fn truncate(asks: &Asks<'_>, path: &[u8], size: u64) -> Result<(), Error> {
    let attr = walk::resolve(asks, path, Link::Follow).await?;
    match attr.kind {
        Kind::File => change(asks, attr.id, resized(asks, size)).await,
        Kind::Directory => Err(Errno::EISDIR.into()),
        _ => Err(Errno::EINVAL.into()),
    }
}

pub(crate) fn resized(asks: &Asks<'_>, size: u64) -> SetAttr {
    let kill = if asks.caller.keeps_suid() { 0 } else { set::KILL_SUIDGID };
    SetAttr { valid: set::SIZE | kill, size, ..SetAttr::default() }
}

pub(crate) async fn getxattr(asks: &Asks<'_>, path: &[u8], name: &[u8], link: Link) -> Result<Vec<u8>, Error> {
    let id = walk::resolve(asks, path, link).await?.id;
    value(asks, id, name).await
}

/// An extended attribute of an inode.
pub(crate) async fn value(asks: &Asks<'_>, id: InodeId, name: &[u8]) -> Result<Vec<u8>, Error> {
    match asks.ask(FsOp::GetXattr { id, name: XattrName::new(name)?, probe: false }).await? {
        FsReply::Value(value) => Ok(value),
        _ => unexpected(),
    }
}

pub(crate) async fn setxattr(
    asks: &Asks<'_>,
    path: &[u8],
    name: &[u8],
    value: &[u8],
    how: SetXattr,
    link: Link,
) -> Result<(), Error> {
    let id = walk::resolve(asks, path, link).await?.id;
    set_value(asks, id, name, value, how).await
}

pub(crate) async fn set_value(
    asks: &Asks<'_>,
    id: InodeId,
    name: &[u8],
    value: &[u8],
    how: SetXattr,
) -> Result<(), Error> {
    let flags = match how {
        SetXattr::Any => 0,
        SetXattr::Create => 1,
        SetXattr::Replace => 2,
    };
    asks.ask(FsOp::SetXattr { id, name: XattrName::new(name)?, value: value.to_vec(), flags }).await.map(drop)
}

pub(crate) async fn listxattr(asks: &Asks<'_>, path: &[u8], link: Link) -> Result<Vec<Vec<u8>>, Error> {
    let id = walk::resolve(asks, path, link).await?.id;
    values(asks, id).await
}

/// The names of the extended attributes of an inode.
pub(crate) async fn values(asks: &Asks<'_>, id: InodeId) -> Result<Vec<Vec<u8>>, Error> {
    match asks.ask(FsOp::ListXattr { id }).await? {
        FsReply::Value(names) => {
            Ok(names.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
        }
        _ => unexpected(),
    }
}

pub(crate) async fn removexattr(asks: &Asks<'_>, path: &[u8], name: &[u8], link: Link) -> Result<(), Error> {
    let id = walk::resolve(asks, path, link).await?.id;
    remove_value(asks, id, name).await
}

pub(crate) async fn remove_value(asks: &Asks<'_>, id: InodeId, name: &[u8]) -> Result<(), Error> {
    asks.ask(FsOp::RemoveXattr { id, name: XattrName::new(name)? }).await.map(drop)
}

pub(crate) async fn statfs(asks: &Asks<'_>, path: &[u8]) -> Result<Space, Error> {
    walk::resolve(asks, path, Link::Follow).await?;
    match asks.ask(FsOp::StatFs).await? {
        FsReply::StatFs(totals) => {
            let onpath_session::fs::Totals { blocks, blocks_free, inodes } = totals;
            Ok(Space { blocks, blocks_free, inodes })
        }
        _ => unexpected(),
    }
}
