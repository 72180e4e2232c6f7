//! An inode of a file system that is not mounted.

use crate::copy::object::{Facts, Moment, NANOSECONDS, Object, XattrNames};
use crate::remote::errno;
use onpath_client::blocking::{Client, File, Inode as Known};
use onpath_client::{Caller, Link, OpenOptions, SetXattr, Time};
use rustix::io::Errno;
use std::ffi::{CStr, CString};

/// How a copy is made of which this is the inode.
pub(in crate::copy) enum Begun {
    /// It has its name.
    Named,
    /// It gets its name when it is complete.
    Unnamed,
    /// It has another name in that directory, which goes with it unless it has got its own.
    Aside(Client, Caller, Vec<u8>),
}

/// What a name has led to, or what is to get one.
pub(in crate::copy) struct Inode {
    known: Known,
    /// Open for its bytes.
    file: Option<File>,
    is: Facts,
    begun: Begun,
}

impl Drop for Inode {
    fn drop(&mut self) {
        if let Begun::Aside(dir, me, name) = &self.begun {
            // Mostly it has its own name by now.
            _ = dir.unlink(me, name);
        }
    }
}

impl Inode {
    /// What a path leads to; a symbolic link is that itself.
    pub(super) fn find(client: &Client, me: &Caller, path: &[u8]) -> Result<Inode, Errno> {
        let known = client.inode(me, path, Link::Itself).map_err(errno)?;
        let is = (&known.stat().map_err(errno)?).into();
        Ok(Inode { known, file: None, is, begun: Begun::Named })
    }

    /// A file that has no name yet.
    pub(super) fn unnamed(file: File) -> Result<Inode, Errno> {
        let is = (&file.stat().map_err(errno)?).into();
        Ok(Inode { known: file.inode(), file: Some(file), is, begun: Begun::Unnamed })
    }

    pub(super) fn begun(mut self, begun: Begun) -> Inode {
        self.begun = begun;
        self
    }

    pub(super) fn how(&self) -> &Begun {
        &self.begun
    }

    /// The same without its bytes.
    pub(super) fn closed(&self) -> Inode {
        Inode { known: self.known.clone(), file: None, is: self.is, begun: Begun::Named }
    }

    /// Gives it one name more.
    pub(super) fn link(&self, dir: &Client, name: &[u8]) -> Result<(), Errno> {
        self.known.link(dir, name).map_err(errno)
    }

    fn file(&self) -> Result<&File, Errno> {
        self.file.as_ref().ok_or(Errno::BADF)
    }
}

fn time(moment: Moment) -> Time {
    Time::At(moment.seconds.saturating_mul(NANOSECONDS).saturating_add(moment.nanoseconds))
}

impl Object for Inode {
    fn is(&self) -> &Facts {
        &self.is
    }

    fn now(&self) -> Result<Facts, Errno> {
        let is = match &self.file {
            Some(file) => file.stat(),
            None => self.known.stat(),
        };
        Ok((&is.map_err(errno)?).into())
    }

    fn target(&self) -> Result<CString, Errno> {
        CString::new(self.known.readlink().map_err(errno)?).map_err(|_| Errno::INVAL)
    }

    fn open(&self) -> Result<Inode, Errno> {
        let file = self.known.open(&OpenOptions::default()).map_err(errno)?;
        let mut open = self.closed();
        open.file = Some(file);
        Ok(open)
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<usize, Errno> {
        let bytes = self.file()?.read_at(at, buffer.len()).map_err(errno)?;
        let filled = buffer.get_mut(..bytes.len()).ok_or(Errno::IO)?;
        filled.copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn seek(&self, from: u64, hole: bool) -> Result<u64, Errno> {
        self.file()?.seek(from, hole).map_err(errno)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> Result<(), Errno> {
        self.file()?.write_at(at, bytes.to_vec()).map_err(errno)
    }

    fn set_size(&self, bytes: u64) -> Result<(), Errno> {
        self.file()?.truncate(bytes).map_err(errno)
    }

    fn settle(&self) -> Result<(), Errno> {
        self.file()?.sync().map_err(errno)
    }

    /// Hosts may know root as somebody else.
    fn keeps_its_owner(&self) -> bool {
        true
    }

    fn chown(&self, uid: u32, gid: u32) -> Result<(), Errno> {
        self.known.chown(Some(uid), Some(gid)).map_err(errno)
    }

    fn chmod(&self, permissions: u32) -> Result<(), Errno> {
        self.known.chmod(permissions).map_err(errno)
    }

    fn set_times(&self, accessed: Moment, modified: Moment) -> Result<(), Errno> {
        self.known.utimens(time(accessed), time(modified)).map_err(errno)
    }

    fn xattrs(&self) -> Result<XattrNames, Errno> {
        let names = match self.known.listxattr().map_err(errno) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(XattrNames::new()),
            names => names?,
        };
        names.into_iter().map(|name| CString::new(name).map_err(|_| Errno::INVAL)).collect()
    }

    fn xattr(&self, name: &CStr) -> Result<Option<Vec<u8>>, Errno> {
        match self.known.getxattr(name.to_bytes()).map_err(errno) {
            Err(Errno::NODATA) => Ok(None),
            value => value.map(Some),
        }
    }

    fn set_xattr(&self, name: &CStr, value: &[u8]) -> Result<(), Errno> {
        self.known.setxattr(name.to_bytes(), value, SetXattr::Any).map_err(errno)
    }

    fn remove_xattr(&self, name: &CStr) -> Result<(), Errno> {
        self.known.removexattr(name.to_bytes()).map_err(errno)
    }
}
