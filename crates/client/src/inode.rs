//! What a path has led to, whatever becomes of its names.

use crate::caller::Caller;
use crate::client::Client;
use crate::error::{Error, ErrorKind};
use crate::file::{File, OpenOptions, opened};
use crate::metadata::{FileType, Metadata};
use crate::names::{self, SetXattr, Time};
use crate::session::{Asks, Session};
use crate::walk;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::request::{SetAttr, set};
use std::sync::Arc;

/// What a path has led to: everything is done to this very one, as by a descriptor of open(2) with O_PATH, whatever has got its name since. Nothing
/// is held open by it: if its last name goes and nobody has it open, it is ENOENT or ESTALE.
#[derive(Clone)]
pub struct Inode {
    session: Session,
    caller: Caller,
    path: Vec<u8>,
    id: InodeId,
    kind: Kind,
}

impl Inode {
    pub(crate) fn new(session: &Session, caller: &Caller, path: &[u8], id: InodeId, kind: Kind) -> Inode {
        Inode { session: session.clone(), caller: caller.clone(), path: path.to_vec(), id, kind }
    }

    /// The same inode, for calls that are done as another caller.
    #[must_use]
    pub fn by(&self, caller: &Caller) -> Inode {
        Inode { caller: caller.clone(), ..self.clone() }
    }

    fn asks(&self) -> Result<Asks<'_>, Error> {
        match self.session.is_here() {
            true => Ok(self.session.asks(&self.caller)),
            false => Err(Error::new(ErrorKind::Forked)),
        }
    }

    fn named<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        result.map_err(|error| error.at(&self.session.name, &self.path))
    }

    async fn change(&self, set: SetAttr) -> Result<(), Error> {
        let changed = async { names::change(&self.asks()?, self.id, set).await };
        self.named(changed.await)
    }

    /// What it is now.
    ///
    /// # Errors
    /// As fstat(2).
    pub async fn stat(&self) -> Result<Metadata, Error> {
        let told = async { names::of_inode(&self.asks()?, self.id).await };
        self.named(told.await)
    }

    /// Changes its permission bits.
    ///
    /// # Errors
    /// As fchmodat(2). EOPNOTSUPP: a symbolic link, which has none.
    pub async fn chmod(&self, mode: u32) -> Result<(), Error> {
        if self.kind == Kind::Symlink {
            return self.named(Err(Errno::EOPNOTSUPP.into()));
        }
        self.change(SetAttr { valid: set::MODE, mode: (mode & 0o7777) as u16, ..SetAttr::default() }).await
    }

    /// Changes its owner or group; of a symbolic link its own.
    ///
    /// # Errors
    /// As lchown(2).
    pub async fn chown(&self, uid: Option<u32>, gid: Option<u32>) -> Result<(), Error> {
        self.change(names::owners(uid, gid)).await
    }

    /// Changes its times; of a symbolic link its own.
    ///
    /// # Errors
    /// As utimensat(2).
    pub async fn utimens(&self, atime: Time, mtime: Time) -> Result<(), Error> {
        match names::times(atime, mtime) {
            SetAttr { valid: 0, .. } => Ok(()),
            times => self.change(times).await,
        }
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// As readlink(2).
    pub async fn readlink(&self) -> Result<Vec<u8>, Error> {
        let target = async { walk::target(&self.asks()?, self.id).await };
        self.named(target.await)
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// As lgetxattr(2).
    pub async fn getxattr(&self, name: &[u8]) -> Result<Vec<u8>, Error> {
        let value = async { names::value(&self.asks()?, self.id, name).await };
        self.named(value.await)
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// As lsetxattr(2).
    pub async fn setxattr(&self, name: &[u8], value: &[u8], how: SetXattr) -> Result<(), Error> {
        let done = async { names::set_value(&self.asks()?, self.id, name, value, how).await };
        self.named(done.await)
    }

    /// The names of its extended attributes.
    ///
    /// # Errors
    /// As llistxattr(2).
    pub async fn listxattr(&self) -> Result<Vec<Vec<u8>>, Error> {
        let listed = async { names::values(&self.asks()?, self.id).await };
        self.named(listed.await)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// As lremovexattr(2).
    pub async fn removexattr(&self, name: &[u8]) -> Result<(), Error> {
        let done = async { names::remove_value(&self.asks()?, self.id, name).await };
        self.named(done.await)
    }

    /// Opens it, if it is a file. Options by which names are made mean nothing.
    ///
    /// # Errors
    /// As open(2). EISDIR: a directory. ELOOP: a symbolic link. ENXIO: a FIFO, a socket or a device.
    pub async fn open(&self, options: &OpenOptions) -> Result<File, Error> {
        let file = async {
            let asks = self.asks()?;
            let is = names::of_inode(&asks, self.id).await?;
            match is.file_type {
                FileType::File => opened(&asks, &self.session, &self.path, (self.id, is.uid), options).await,
                FileType::Directory => Err(Errno::EISDIR.into()),
                FileType::Symlink => Err(Errno::ELOOP.into()),
                _ => Err(Errno::ENXIO.into()),
            }
        };
        self.named(file.await)
    }

    /// Gives it one name more: `new`, a path of `client`, which is of the same session.
    ///
    /// # Errors
    /// As linkat(2). EXDEV: `client` is of another session.
    pub async fn link(&self, client: &Client, new: &[u8]) -> Result<(), Error> {
        let linked = async {
            let asks = self.asks()?;
            let there = client.session().await?;
            if !Arc::ptr_eq(&self.session.running, &there.running) {
                return Err(Errno::EXDEV.into());
            }
            names::link_inode(&asks, self.id, &there, new).await.map_err(|error| error.about(new))
        };
        self.named(linked.await)
    }
}
