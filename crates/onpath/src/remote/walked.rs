//! A file system that is not mounted, as a tree that is walked.

use super::name::{Target, joined};
use crate::tree::rmr::refuse_through;
use crate::walk::{Attributes, Tree};
use anyhow::ensure;
use onpath_client::blocking::{Client, Listing};
use onpath_client::{Caller, Entry, Error, ErrorKind, FileType, Link, Metadata};
use onpath_wire::shown::Shown;
use rustix::fs::FileType as Kind;
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What stands for the device of a file system that has none, before the number that this process gives it.
const DEVICE: u64 = 1 << 63;

/// What the words of a command stand for on one file system.
pub(crate) enum Ground {
    /// Paths of this system.
    Here(Vec<PathBuf>),
    /// Of one that is not mounted, as the words named them.
    There(WalkedTree, Vec<PathBuf>),
}

impl Ground {
    /// Nothing is done on it any more: its session ends.
    pub(crate) fn leave(&self) {
        if let Ground::There(tree, _) = self {
            tree.client.clone().close();
        }
    }
}

/// A file system that is not mounted.
pub(crate) struct WalkedTree {
    client: Client,
    me: Caller,
    /// In front of the paths of its roots, as the words had it.
    prefix: Vec<u8>,
    /// A root that is a symbolic link stands for what it leads to.
    follow: bool,
    device: u64,
}

/// An open directory.
pub(crate) struct Opened {
    pub(super) within: Client,
    /// That it may be read was found out by opening it; it is read once.
    listing: Mutex<Option<Listing>>,
}

impl Opened {
    /// The directory, in which paths begin.
    pub(crate) fn within(&self) -> &Client {
        &self.within
    }
}

/// The names of an open directory.
pub(crate) struct Names {
    listing: Listing,
    page: std::vec::IntoIter<Entry>,
}

/// What a walk goes by; a session that is over is a connection that is.
pub(crate) fn errno(error: Error) -> Errno {
    match error.kind() {
        ErrorKind::Local(error) => Errno::from_io_error(error).unwrap_or(Errno::IO),
        _ => error.raw_os_error().map_or(Errno::NOTCONN, Errno::from_raw_os_error),
    }
}

fn kind(of: FileType) -> Kind {
    match of {
        FileType::File => Kind::RegularFile,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharDevice => Kind::CharacterDevice,
        FileType::BlockDevice => Kind::BlockDevice,
    }
}

impl WalkedTree {
    /// That of a target, the file system of that number.
    pub(crate) fn of(target: &Target, me: &Caller, follow: bool, number: usize) -> WalkedTree {
        let (client, prefix) = (target.client.clone(), target.prefix.clone().into_bytes());
        let device = DEVICE + number as u64;
        WalkedTree { client, me: me.clone(), prefix, follow, device }
    }

    /// A directory that is its root already; `told` is its path for messages alone.
    pub(crate) fn opened(top: Client, me: &Caller, told: &Path) -> WalkedTree {
        let prefix = told.as_os_str().as_bytes().to_vec();
        WalkedTree { client: top, me: me.clone(), prefix, follow: false, device: DEVICE }
    }

    /// As whom it is walked.
    pub(crate) fn caller(&self) -> &Caller {
        &self.me
    }

    fn attributes(&self, is: &Metadata) -> Attributes {
        Attributes {
            device: self.device,
            inode: is.ino,
            kind: kind(is.file_type),
            permissions: is.permissions,
            links: is.nlink.into(),
            uid: is.uid,
            gid: is.gid,
            bytes: is.size,
            blocks: is.blocks,
            mtime: is.mtime.div_euclid(1_000_000_000),
        }
    }

    /// The path of a root, as the file system has it.
    fn path<'a>(&self, name: &'a [u8]) -> &'a [u8] {
        match name.strip_prefix(self.prefix.as_slice()).unwrap_or(name) {
            b"" => b"/",
            path => path,
        }
    }

    /// Where a name is looked up, by which path, and whether a symbolic link stands for what it leads to.
    fn place<'a>(&'a self, dir: Option<&'a Opened>, name: &'a CStr) -> (&'a Client, &'a [u8], Link) {
        match dir {
            Some(dir) => (&dir.within, name.to_bytes(), Link::Itself),
            None if self.follow => (&self.client, self.path(name.to_bytes()), Link::Follow),
            None => (&self.client, self.path(name.to_bytes()), Link::Itself),
        }
    }

    fn look(&self, (client, path, link): (&Client, &[u8], Link)) -> Result<Attributes, Errno> {
        let is = match link {
            Link::Follow => client.stat(&self.me, path),
            Link::Itself => client.lstat(&self.me, path),
        };
        is.map(|is| self.attributes(&is)).map_err(errno)
    }

    /// Whether a root is there, or nobody knows.
    pub(crate) fn is_there(&self, root: &Path) -> bool {
        let is = self.client.lstat(&self.me, self.path(root.as_os_str().as_bytes()));
        !matches!(is.map_err(errno), Err(Errno::NOENT | Errno::NOTDIR))
    }

    /// Nobody means to remove a file system, the directory in which something is, or what a symbolic link leads to.
    ///
    /// # Errors
    /// The path names one of these.
    pub(crate) fn refuse(&self, root: &Path) -> anyhow::Result<()> {
        let path = self.path(root.as_os_str().as_bytes());
        let last = path.rsplit(|byte| *byte == b'/').find(|name| !name.is_empty()).unwrap_or_default();
        ensure!(!last.is_empty(), "{} is the root of everything: refused", root.shown());
        ensure!(last != b"." && last != b"..", "{} is refused: name the directory itself", root.shown());
        let look = |named: &Path| self.client.lstat(&self.me, self.path(named.as_os_str().as_bytes()));
        refuse_through(root, |named| look(named).map_or(true, |is| is.is_dir()))
    }
}

impl Iterator for Names {
    type Item = Result<(CString, Kind), Errno>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.page.next() {
                return Some(CString::new(entry.name).map(|name| (name, kind(entry.file_type))).map_err(|_| Errno::IO));
            }
            match self.listing.next() {
                Ok(Some(page)) => self.page = page.into_iter(),
                Ok(None) => return None,
                Err(error) => return Some(Err(errno(error))),
            }
        }
    }
}

impl Tree for WalkedTree {
    type Dir = Opened;
    type Names = Names;

    fn root(&self, path: &Path, _follow: bool) -> Result<PathBuf, Errno> {
        Ok(path.to_owned())
    }

    fn told(&self, path: PathBuf) -> PathBuf {
        if !self.prefix.is_empty() {
            return path;
        }
        let path = path.as_os_str().as_bytes();
        let path = joined(self.client.source().as_bytes(), path.strip_prefix(b"/").unwrap_or(path));
        PathBuf::from(OsStr::from_bytes(&path))
    }

    fn open(&self, dir: Option<&Opened>, name: &CStr) -> Result<(Opened, Attributes), Errno> {
        let (client, path, link) = self.place(dir, name);
        let within = client.within(&self.me, path, link).map_err(errno)?;
        let listing = within.list(&self.me, "/", false).map_err(errno)?;
        let is = self.look((&within, b"/", Link::Itself))?;
        Ok((Opened { within, listing: Mutex::new(Some(listing)) }, is))
    }

    fn names(&self, dir: &Opened) -> Result<Names, Errno> {
        let opened = dir.listing.lock().unwrap_or_else(PoisonError::into_inner).take();
        let listing = match opened {
            Some(listing) => listing,
            None => dir.within.list(&self.me, "/", false).map_err(errno)?,
        };
        Ok(Names { listing, page: Vec::new().into_iter() })
    }

    fn stat(&self, dir: Option<&Opened>, name: &CStr) -> Result<Attributes, Errno> {
        self.look(self.place(dir, name))
    }

    fn remove(&self, dir: Option<&Opened>, name: &CStr, is_dir: bool) -> Result<(), Errno> {
        let (client, path, _) = self.place(dir, name);
        if is_dir { client.rmdir(&self.me, path) } else { client.unlink(&self.me, path) }.map_err(errno)
    }

    fn chmod(
        &self,
        dir: Option<&Opened>,
        name: &CStr,
        mode: &dyn Fn(&Attributes) -> Option<u32>,
    ) -> Result<Option<Attributes>, Errno> {
        let place = self.place(dir, name);
        let is = self.look(place)?;
        let Some(mode) = (is.kind != Kind::Symlink).then(|| mode(&is)).flatten() else { return Ok(None) };
        // A symbolic link that somebody puts there meanwhile leads to nothing but what is below the directory.
        place.0.chmod(&self.me, place.1, mode).map_err(errno)?;
        Ok(Some(is))
    }

    fn chmod_dir(&self, dir: &Opened, mode: &dyn Fn(&Attributes) -> Option<u32>) -> Result<Option<Attributes>, Errno> {
        let is = self.look((&dir.within, b"/", Link::Itself))?;
        let Some(mode) = mode(&is) else { return Ok(None) };
        dir.within.chmod(&self.me, "/", mode).map_err(errno)?;
        Ok(Some(is))
    }

    fn chown(&self, dir: Option<&Opened>, name: &CStr, uid: Option<u32>, gid: Option<u32>) -> Result<(), Errno> {
        let (client, path, link) = self.place(dir, name);
        client.chown(&self.me, path, uid, gid, link).map_err(errno)
    }

    fn attribute(&self, dir: &Opened, name: &CStr, bytes_max: usize) -> Option<Vec<u8>> {
        let value = dir.within.getxattr(&self.me, "/", name.to_bytes(), Link::Follow).ok()?;
        (value.len() <= bytes_max).then_some(value)
    }
}
