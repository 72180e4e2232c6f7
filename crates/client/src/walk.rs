//! From a path to an inode, as path_resolution(7) says: a path node leads through directories by one request, else names are looked up one by
//! one.

use crate::error::Error;
use crate::session::Asks;
use onpath_session::fs::{FsOp, FsReply};
use onpath_wire::attr::AttrWire;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::limits::NAMES_FOLLOWED_MAX;
use onpath_wire::name::Name;
use std::collections::VecDeque;

/// Bytes of a path, as PATH_MAX without its NUL.
const PATH_BYTES_MAX: usize = 4_095;
/// Symbolic links of one resolution.
const LINKS_MAX: u32 = 40;

/// Search permission, for access(2).
const SEARCH: u32 = 1;

/// What becomes of a symbolic link at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// It is followed.
    Follow,
    /// It is what is meant.
    Itself,
}

/// The last component of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    Name(Name),
    /// "."
    Here,
    /// ".."
    Up,
    /// There is none: the path is the root.
    Root,
}

/// Where a name is, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) dir: InodeId,
    pub(crate) last: Last,
    /// Whether a slash follows: it has to be a directory.
    pub(crate) slash: bool,
}

/// What a path leads to.
pub(crate) enum Found {
    Inode(AttrWire),
    /// Nothing of it is older than the call: what it is, and when it was made.
    Exact(AttrWire, i64),
    Missing(Place),
}

/// A component. Of a path that ends with a slash the last one says that there is a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Name(Vec<u8>),
    Here,
    Up,
    IsDirectory,
}

/// The parts of a path: none of an empty one.
fn parts(path: &[u8]) -> impl DoubleEndedIterator<Item = Part> + '_ {
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).map(|name| match name {
        b"." => Part::Here,
        b".." => Part::Up,
        name => Part::Name(name.to_vec()),
    });
    names.chain(path.ends_with(b"/").then_some(Part::IsDirectory))
}

/// How a walk ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// At what the path leads to, which has to be there.
    Inode,
    /// The same, but the last name may be missing: it is made then, as no directory.
    Create,
    /// At the directory of the last name, which is not looked up.
    Before,
}

/// What a path leads to, from where paths begin.
pub(crate) async fn resolve(asks: &Asks<'_>, path: &[u8], link: Link) -> Result<AttrWire, Error> {
    Ok(look(asks, path, link).await?.0)
}

/// The same; and when it was made, if all of it is as of now.
pub(crate) async fn look(asks: &Asks<'_>, path: &[u8], link: Link) -> Result<(AttrWire, Option<i64>), Error> {
    match walk(asks, asks.root, path, link, End::Inode).await? {
        Found::Inode(attr) => Ok((attr, None)),
        Found::Exact(attr, btime) => Ok((attr, Some(btime))),
        Found::Missing(_) => Err(Errno::ENOENT.into()),
    }
}

/// What a path leads to, or with `create` where it would be made.
pub(crate) async fn find(asks: &Asks<'_>, path: &[u8], link: Link, create: bool) -> Result<Found, Error> {
    walk(asks, asks.root, path, link, if create { End::Create } else { End::Inode }).await
}

/// Where the last name of a path is or would be.
pub(crate) async fn place(asks: &Asks<'_>, path: &[u8]) -> Result<Place, Error> {
    place_from(asks, asks.root, path).await
}

/// The same of a path that begins at another directory.
pub(crate) async fn place_from(asks: &Asks<'_>, root: InodeId, path: &[u8]) -> Result<Place, Error> {
    match walk(asks, root, path, Link::Itself, End::Before).await? {
        Found::Missing(place) => Ok(place),
        Found::Inode(root) | Found::Exact(root, _) => Ok(Place { dir: root.id, last: Last::Root, slash: false }),
    }
}

/// Where a walk is.
enum At {
    /// At a directory of which nothing else is known.
    Directory(InodeId),
    Inode(AttrWire),
    Exact(AttrWire, i64),
}

impl At {
    /// The directory that it is.
    fn directory(&self) -> Result<InodeId, Errno> {
        match self {
            At::Directory(id) => Ok(*id),
            At::Inode(attr) if attr.kind == Kind::Directory => Ok(attr.id),
            At::Inode(_) | At::Exact(..) => Err(Errno::ENOTDIR),
        }
    }
}

async fn walk(asks: &Asks<'_>, root: InodeId, path: &[u8], link: Link, end: End) -> Result<Found, Error> {
    check(path)?;
    let mut todo: VecDeque<Part> = parts(path).collect();
    let (mut at, mut links) = (At::Directory(root), 0);
    while !todo.is_empty() {
        at = lead(asks, at, &mut todo, link, end).await?;
        let dir = match at.directory() {
            Ok(dir) => dir,
            Err(_) if todo.is_empty() => break,
            Err(errno) => return Err(errno.into()),
        };
        let Some(part) = todo.pop_front() else { break };
        // The target of a symbolic link on the way may end with a slash, too.
        let slash = todo.len() == 1 && todo.front() == Some(&Part::IsDirectory);
        let is_last = todo.is_empty() || slash;
        let here = |last| Found::Missing(Place { dir, last, slash });
        match part {
            Part::IsDirectory => {}
            Part::Here | Part::Up if is_last && end == End::Before => {
                let last = if part == Part::Here { Last::Here } else { Last::Up };
                return search(asks, dir).await.map(|()| here(last));
            }
            Part::Here => search(asks, dir).await?,
            Part::Up => {
                search(asks, dir).await?;
                // As after chroot(2): nothing leads above where paths begin.
                if dir == root {
                    continue;
                }
                at = At::Inode(entry(asks.ask(FsOp::LookupParent { id: dir }).await?)?);
            }
            Part::Name(name) => {
                let name = Name::new(&name).map_err(|_| Errno::ENAMETOOLONG)?;
                if is_last && end == End::Before {
                    return Ok(here(Last::Name(name)));
                }
                if slash && end == End::Create {
                    return Err(Errno::EISDIR.into());
                }
                let found = match lookup(asks, dir, &name).await {
                    Err(error) if is_last && end == End::Create && error.is(Errno::ENOENT) => {
                        return Ok(here(Last::Name(name)));
                    }
                    found => found?,
                };
                if found.kind != Kind::Symlink || todo.is_empty() && link == Link::Itself {
                    at = At::Inode(found);
                    continue;
                }
                links += 1;
                check_links(links)?;
                if asks.caller.uid != found.uid && asks.levels().keeps(&found) {
                    return Err(Errno::EACCES.into());
                }
                let target = target(asks, found.id).await?;
                check(&target)?;
                if target.starts_with(b"/") {
                    at = At::Directory(root);
                }
                parts(&target).rev().for_each(|part| todo.push_front(part));
            }
        }
    }
    Ok(match at {
        At::Inode(attr) => Found::Inode(attr),
        At::Exact(attr, btime) => Found::Exact(attr, btime),
        At::Directory(id) => Found::Inode(attr_of(asks, id).await?),
    })
}

/// Lets a path node lead from a directory, as far as it can: on to another one, or to what the last of the names is. What it has led through
/// is taken from what is to do.
async fn lead(asks: &Asks<'_>, at: At, todo: &mut VecDeque<Part>, link: Link, end: End) -> Result<At, Error> {
    let from = at.directory()?;
    let name = |part: &Part| match part {
        Part::Name(name) => Name::new(name).ok(),
        _ => None,
    };
    let mut names: Vec<Name> = todo.iter().map_while(name).take(NAMES_FOLLOWED_MAX).collect();
    let count = names.len();
    if !asks.has_path_node || count < 2 {
        return Ok(at);
    }
    let kept = asks.keeps();
    if end == End::Inode {
        match asks.ask(FsOp::Resolve { from, names: names.clone(), look: true, kept }).await? {
            FsReply::Resolved { dir, names, .. } => return Ok(led(asks, at, todo, dir, names)),
            reply => {
                let (found, btime) = match reply {
                    FsReply::Attr { attr, btime } => (attr, Some(btime)),
                    reply => (entry(reply)?, None),
                };
                // A link that is to be followed leads on from where it is, which that does not say.
                if found.kind != Kind::Symlink || count == todo.len() && link == Link::Itself {
                    asks.count_followed(count);
                    todo.drain(..count);
                    return Ok(btime.map_or(At::Inode(found), |btime| At::Exact(found, btime)));
                }
            }
        }
    }
    names.pop();
    match asks.ask(FsOp::Resolve { from, names, look: false, kept }).await? {
        FsReply::Resolved { dir, names, by_ways } => {
            by_ways.into_iter().for_each(|at| asks.led_by(at));
            Ok(led(asks, at, todo, dir, names))
        }
        _ => Err(Errno::EIO.into()),
    }
}

/// A path node has led through so many names.
fn led(asks: &Asks<'_>, at: At, todo: &mut VecDeque<Part>, dir: InodeId, names: usize) -> At {
    asks.count_followed(names);
    todo.drain(..names);
    if names == 0 { at } else { At::Directory(dir) }
}

/// The inode of a name in a directory.
pub(crate) async fn lookup(asks: &Asks<'_>, dir: InodeId, name: &Name) -> Result<AttrWire, Error> {
    asks.count_lookup();
    entry(asks.ask(FsOp::Lookup { parent: dir, name: name.clone() }).await?)
}

/// The target of a symbolic link.
pub(crate) async fn target(asks: &Asks<'_>, id: InodeId) -> Result<Vec<u8>, Error> {
    match asks.ask(FsOp::ReadLink { id }).await? {
        FsReply::Target(target) => Ok(target),
        _ => Err(Errno::EIO.into()),
    }
}

fn check_links(links: u32) -> Result<(), Errno> {
    if links > LINKS_MAX { Err(Errno::ELOOP) } else { Ok(()) }
}

fn check(path: &[u8]) -> Result<(), Errno> {
    match path {
        [] => Err(Errno::ENOENT),
        path if path.len() > PATH_BYTES_MAX => Err(Errno::ENAMETOOLONG),
        path if path.contains(&0) => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

/// The present attributes of an inode.
pub(crate) async fn attr_of(asks: &Asks<'_>, id: InodeId) -> Result<AttrWire, Error> {
    match asks.ask(FsOp::GetAttr { id, handle: None }).await? {
        FsReply::Attr { attr, .. } => Ok(attr),
        _ => Err(Errno::EIO.into()),
    }
}

/// Whether the caller may search a directory of which no name is looked up.
pub(crate) async fn search(asks: &Asks<'_>, id: InodeId) -> Result<(), Error> {
    asks.ask(FsOp::Access { id, mask: SEARCH }).await.map(drop)
}

fn entry(reply: FsReply) -> Result<AttrWire, Error> {
    match reply {
        FsReply::Entry(attr) => Ok(attr),
        FsReply::Missing => Err(Errno::ENOENT.into()),
        _ => Err(Errno::EIO.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_parts() {
        let all = |path: &str| parts(path.as_bytes()).collect::<Vec<_>>();
        let name = |name: &str| Part::Name(name.as_bytes().to_vec());
        assert_eq!(all("/a//b"), [name("a"), name("b")]);
        assert_eq!(all("a/./../b/"), [name("a"), Part::Here, Part::Up, name("b"), Part::IsDirectory]);
        assert_eq!(all("/"), [Part::IsDirectory]);
        assert_eq!(all(""), []);
    }

    #[test]
    fn paths_that_no_kernel_takes_are_refused() {
        assert_eq!(check(b""), Err(Errno::ENOENT));
        assert_eq!(check(&[b'a'; PATH_BYTES_MAX + 1]), Err(Errno::ENAMETOOLONG));
        assert_eq!(check(&[b'a'; PATH_BYTES_MAX]), Ok(()));
        assert_eq!(check(b"a\0b"), Err(Errno::EINVAL));
    }
}
