//! Both sides of a copy on a file system that is not mounted: directories in which paths of a client begin, and inodes known by their numbers.
//!
//! A copy that is made there needs no mark and has no parts. A file is written without a name, and gets one when its bytes, attributes and
//! times are there and durable: whatever is lost afterwards, what has the name is complete. What is killed before leaves nothing at all.

mod argument;
mod inode;

pub(super) use argument::Argument;

use super::links::First;
use super::object::{Destination, Facts, Object, Place, Source};
use super::special::is_copy;
use super::staging::{self, Key};
use crate::remote::{WalkedTree, errno, unlike};
use crate::walk::{Failure, to, to_copy};
use inode::{Begun, Inode};
use onpath_client::blocking::{Client, Listing};
use onpath_client::{Caller, Error, FileType as Kind, Link, Replace, Time};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Source for WalkedTree {
    type Object = Inode;

    fn find(&self, dir: &Self::Dir, name: &CStr) -> Result<Inode, Errno> {
        Inode::find(dir.within(), self.caller(), name.to_bytes())
    }

    fn itself(&self, dir: &Self::Dir) -> Result<Inode, Errno> {
        Inode::find(dir.within(), self.caller(), b"/")
    }
}

/// Names and keys of the copies that are under way into a directory by a mount: it is unfinished itself.
///
/// # Errors
/// It cannot be listed.
pub(super) fn under_way(top: &Client, me: &Caller) -> Result<Vec<(CString, Key)>, Error> {
    let (mut found, mut listing) = (Vec::new(), top.list(me, "/", false)?);
    while let Some(page) = listing.next()? {
        for entry in page {
            let Some(name) = CString::new(entry.name).ok().filter(|name| staging::is_named_so(name)) else { continue };
            let key = || {
                let dir = Inode::find(top, me, name.to_bytes()).ok()?;
                let within = top.within(me, name.to_bytes(), Link::Itself).ok()?;
                let mark = Inode::find(&within, me, staging::MARK.to_bytes()).ok()?;
                Some(staging::read(&name, dir.is(), &mark)?.0)
            };
            let key = key();
            found.extend(key.map(|key| (name, key)));
        }
    }
    Ok(found)
}

/// A directory that becomes a copy, and as whom.
pub(super) struct Imported {
    top: Client,
    me: Caller,
}

/// A directory of it. It is open while it is filled, so that it can be brought to stable storage whatever mode it has got.
pub(super) struct Directory {
    within: Client,
    open: Listing,
}

/// A name that is to be made.
pub(super) struct Name {
    dir: Client,
    path: PathBuf,
    name: CString,
}

impl Place for Name {
    fn path(&self) -> PathBuf {
        self.path.join(OsStr::from_bytes(self.name.to_bytes()))
    }
}

/// For `map_err`: the failure of an action on a copy.
fn to_there(action: &'static str) -> impl Fn(Error) -> Failure {
    move |error| Failure::of_copy(action, errno(error))
}

impl Imported {
    /// Modes are those of the sources, whatever the umask is.
    pub(super) fn new(top: Client, me: &Caller) -> Imported {
        Imported { top, me: Caller { umask: 0, ..me.clone() } }
    }

    fn open(&self, within: Client) -> Result<Directory, Errno> {
        let open = within.list(&self.me, "/", false).map_err(errno)?;
        Ok(Directory { within, open })
    }

    /// Gives an inode a name, in place of what has it; what is there keeps it until then.
    fn give(&self, inode: &Inode, dir: &Client, name: &CStr) -> Result<(), Errno> {
        match inode.link(dir, name.to_bytes()) {
            Err(Errno::EXIST) => {}
            result => return result,
        }
        let aside = unlike().into_bytes();
        inode.link(dir, &aside)?;
        self.rename(dir, &aside, name)
    }

    fn rename(&self, dir: &Client, aside: &[u8], name: &CStr) -> Result<(), Errno> {
        let renamed = dir.rename(&self.me, aside, name.to_bytes(), Replace::Yes).map_err(errno);
        renamed.inspect_err(|_| {
            // What cannot take the place of what is there goes again.
            _ = dir.unlink(&self.me, aside);
        })
    }

    /// Makes what is no file and no directory: its inode number.
    fn node(&self, dir: &Client, name: &[u8], source: &Facts, target: Option<&CStr>) -> Result<u64, Errno> {
        let kind = match source.kind {
            FileType::Fifo => Kind::Fifo,
            FileType::Socket => Kind::Socket,
            FileType::CharacterDevice => Kind::CharDevice,
            FileType::BlockDevice => Kind::BlockDevice,
            FileType::Symlink => Kind::Symlink,
            _ => return Err(Errno::OPNOTSUPP),
        };
        let made = match target {
            Some(target) => dir.symlink(&self.me, name, target.to_bytes()),
            None => {
                let rdev = u32::try_from(source.rdev).map_err(|_| Errno::INVAL)?;
                dir.mknod(&self.me, name, kind, 0o600, rdev)
            }
        };
        made.map(|made| made.ino).map_err(errno)
    }
}

impl Destination for Imported {
    type Object = Inode;
    type Dir = Directory;
    type Name = Name;
    type Made = Arc<Inode>;

    fn top(&self) -> Result<Directory, Errno> {
        self.open(self.top.clone())
    }

    fn itself(&self, dir: &Directory) -> Result<Inode, Errno> {
        Inode::find(&dir.within, &self.me, b"/")
    }

    fn find(&self, dir: &Directory, name: &CStr) -> Result<Inode, Errno> {
        Inode::find(&dir.within, &self.me, name.to_bytes())
    }

    fn directory(&self, parent: &Directory, name: &CStr) -> Result<(Directory, bool), Failure> {
        let (me, name) = (&self.me, name.to_bytes());
        let made = match parent.within.mkdir(me, name, 0o700).map_err(errno) {
            Ok(made) => Some(made.ino),
            Err(Errno::EXIST) => None,
            Err(errno) => return Err(Failure::of_copy("make the copy of", errno)),
        };
        let within = parent.within.within(me, name, Link::Itself);
        let within = within.map_err(to_there("make the copy of (something else has its name)"))?;
        let is = within.lstat(me, "/").map_err(to_there("stat the copy of"))?;
        if made.is_some_and(|made| made != is.ino) {
            return Err(Failure::of_copy("make the copy of (somebody has put another one in its place)", Errno::STALE));
        }
        if is.permissions & 0o700 != 0o700 {
            // Complete already, and closed to its owner: it is opened until it is complete again.
            within.chmod(me, "/", is.permissions | 0o700).map_err(to_there("open the copy of"))?;
        }
        Ok((self.open(within).map_err(to_copy("open the copy of"))?, made.is_none()))
    }

    fn begin(&self, dir: &Directory, name: &CStr, _source: &Facts) -> Result<Inode, Failure> {
        let file = dir.within.unnamed(&self.me, name.to_bytes(), 0o600);
        file.map_err(errno).and_then(Inode::unnamed).map_err(to_copy("make the copy of"))
    }

    fn make(&self, dir: &Directory, name: &CStr, source: &Facts, target: Option<&CStr>) -> Result<Inode, Failure> {
        let aside = unlike().into_bytes();
        let (made, begun) = match self.node(&dir.within, name.to_bytes(), source, target) {
            Err(Errno::EXIST) => {
                let made = self.node(&dir.within, &aside, source, target);
                (made, Begun::Aside(dir.within.clone(), self.me.clone(), aside))
            }
            made => (made, Begun::Named),
        };
        let ino = made.map_err(to_copy("make the copy of"))?;
        let named = match &begun {
            Begun::Aside(.., aside) => aside,
            _ => name.to_bytes(),
        };
        let found = Inode::find(&dir.within, &self.me, named).map_err(to_copy("make the copy of"))?;
        if found.is().id.1 != ino || !is_copy(&found, source, target) {
            let action = "make the copy of (somebody has put something else in its place)";
            return Err(Failure::of_copy(action, Errno::STALE));
        }
        Ok(found.begun(begun))
    }

    fn place(&self, dir: &Directory, name: &CStr, _source: &Facts, begun: &Inode) -> Result<(), Failure> {
        match begun.how() {
            Begun::Unnamed => {
                begun.settle().map_err(to_copy("bring to stable storage the copy of"))?;
                self.give(begun, &dir.within, name)
            }
            Begun::Aside(_, _, aside) => self.rename(&dir.within, aside, name),
            Begun::Named => Ok(()),
        }
        .map_err(to_copy("name the copy of"))
    }

    /// What has no name is gone when it is closed.
    fn discard(&self, _dir: &Directory, _name: &CStr, _source: &Facts) -> Result<(), Failure> {
        Ok(())
    }

    fn made(&self, object: &Inode) -> Result<Arc<Inode>, Failure> {
        Ok(Arc::new(object.closed()))
    }

    fn name(&self, dir: &Directory, path: &Path, name: &CStr) -> Result<Name, Failure> {
        Ok(Name { dir: dir.within.clone(), path: path.to_owned(), name: name.to_owned() })
    }

    fn link(&self, first: &First<Imported>, dir: &Directory, name: &Name) -> Result<bool, Failure> {
        let of = first.made.get().ok_or(Errno::NOENT).map_err(to("find the first copy of"))?;
        match dir.within.lstat(&self.me, name.name.to_bytes()).map_err(errno) {
            Ok(there) if there.ino == of.is().id.1 => return Ok(false),
            Ok(_) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(Failure::of_copy("stat the copy of", errno)),
        }
        self.give(of, &dir.within, &name.name).map_err(to_copy("link"))?;
        Ok(true)
    }

    /// The directory has got its times already, and keeps them.
    fn link_later(&self, first: &First<Imported>, name: &Name) -> Result<bool, Failure> {
        let dir = self.open(name.dir.clone()).map_err(to_copy("open the directory of"))?;
        let is = dir.within.lstat(&self.me, "/").map_err(to_there("stat the directory of"))?;
        let made = self.link(first, &dir, name)?;
        let (accessed, modified) = (Time::At(is.atime), Time::At(is.mtime));
        let set = dir.within.utimens(&self.me, "/", accessed, modified, Link::Itself);
        set.map_err(to_there("give its times to the directory of"))?;
        self.complete(&dir)?;
        Ok(made)
    }

    fn filled(&self, _dir: &Directory, _was_there: bool) -> Result<(), Failure> {
        Ok(())
    }

    fn complete(&self, dir: &Directory) -> Result<(), Failure> {
        dir.open.sync().map_err(to_there("bring to stable storage the copy of"))
    }
}
