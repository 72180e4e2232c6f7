//! From a path to an inode, component by component, as path_resolution(7) says.

use crate::caller::Caller;
use crate::error::Error;
use crate::requests::Requests;
use onpath_session::fs::{FsOp, FsReply};
use onpath_wire::attr::AttrWire;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use std::collections::VecDeque;

/// Bytes of a path, as PATH_MAX without its NUL.
const PATH_BYTES_MAX: usize = 4_095;
/// Symbolic links of one resolution.
const LINKS_MAX: u32 = 40;

/// Search permission, for access(2).
const SEARCH: u32 = 1;

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// A symbolic link at its end is followed.
    Follow,
    /// It is what is found.
    Keep,
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

/// What a path leads to, from the root.
pub(crate) async fn resolve(requests: &Requests, caller: &Caller, path: &[u8], last: Last) -> Result<AttrWire, Error> {
    check(path)?;
    let mut todo: VecDeque<Part> = parts(path).collect();
    let (mut at, mut links) = (attr_of(requests, caller, InodeId::ROOT).await?, 0);
    while let Some(part) = todo.pop_front() {
        if at.kind != Kind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        match part {
            Part::IsDirectory => {}
            Part::Here => search(requests, caller, at.id).await?,
            Part::Up => {
                search(requests, caller, at.id).await?;
                at = entry(requests.ask(caller, FsOp::LookupParent { id: at.id }).await?)?;
            }
            Part::Name(name) => {
                let name = Name::new(&name).map_err(|_| Errno::ENAMETOOLONG)?;
                let found = entry(requests.ask(caller, FsOp::Lookup { parent: at.id, name }).await?)?;
                if found.kind != Kind::Symlink || todo.is_empty() && last == Last::Keep {
                    at = found;
                    continue;
                }
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::ELOOP.into());
                }
                let target = match requests.ask(caller, FsOp::ReadLink { id: found.id }).await? {
                    FsReply::Target(target) => target,
                    _ => return Err(Errno::EIO.into()),
                };
                check(&target)?;
                if target.starts_with(b"/") {
                    at = attr_of(requests, caller, InodeId::ROOT).await?;
                }
                parts(&target).rev().for_each(|part| todo.push_front(part));
            }
        }
    }
    Ok(at)
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
pub(crate) async fn attr_of(requests: &Requests, caller: &Caller, id: InodeId) -> Result<AttrWire, Error> {
    match requests.ask(caller, FsOp::GetAttr { id, handle: None }).await? {
        FsReply::Attr { attr, .. } => Ok(attr),
        _ => Err(Errno::EIO.into()),
    }
}

/// Whether the caller may search a directory of which no name is looked up.
async fn search(requests: &Requests, caller: &Caller, id: InodeId) -> Result<(), Error> {
    requests.ask(caller, FsOp::Access { id, mask: SEARCH }).await.map(drop)
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
