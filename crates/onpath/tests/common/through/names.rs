//! Calls that make, remove and move names, by the client.

use super::{At, Ids, Link, Where, caller, done_by_client};
use crate::common::sys::R;
use onpath_client::{FileType, Replace};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

impl At {
    pub fn mkdir(&self, mode: u32) -> R {
        let (client, path) = self.place()?;
        done_by_client(client.mkdir(&caller(Ids::Effective), path, mode)).map(drop)
    }

    pub fn rmdir(&self) -> R {
        let (client, path) = self.place()?;
        done_by_client(client.rmdir(&caller(Ids::Effective), path))
    }

    pub fn unlink(&self) -> R {
        let (client, path) = self.place()?;
        done_by_client(client.unlink(&caller(Ids::Effective), path))
    }

    pub fn unlinkat(&self, flags: i32) -> R {
        match flags {
            0 => self.unlink(),
            libc::AT_REMOVEDIR => self.rmdir(),
            _ => Err(libc::EINVAL),
        }
    }

    pub fn rename(&self, to: &At, flags: u32) -> R {
        let ((client, from), (there, to)) = (self.place()?, to.place()?);
        let replace = match flags {
            0 => Replace::Yes,
            libc::RENAME_NOREPLACE => Replace::No,
            libc::RENAME_EXCHANGE => Replace::Exchange,
            _ => panic!("not through a client: a rename of flags {flags:#x}"),
        };
        done_by_client(client.rename_to(&caller(Ids::Effective), from, there, to, replace))
    }

    pub fn link(&self, new: &At, flags: i32) -> R {
        let me = caller(Ids::Effective);
        let (there, name) = new.place()?;
        match (&self.0, flags) {
            (Where::Open(_), libc::AT_SYMLINK_FOLLOW | libc::AT_EMPTY_PATH) | (_, libc::AT_SYMLINK_FOLLOW) => {
                done_by_client(self.inode(Link::Follow)?.link(there, name))
            }
            (_, 0) if self.is_from_root() != new.is_from_root() => {
                done_by_client(self.inode(Link::Itself)?.link(there, name))
            }
            (_, 0) => {
                let (client, path) = self.place()?;
                done_by_client(client.link(&me, path, name)).map(drop)
            }
            _ => Err(libc::EINVAL),
        }
    }

    pub fn symlink(&self, target: &Path) -> R {
        let (client, path) = self.place()?;
        done_by_client(client.symlink(&caller(Ids::Effective), path, target.as_os_str().as_bytes())).map(drop)
    }

    pub fn readlink(&self, bytes: usize) -> R<OsString> {
        let (client, path) = self.place()?;
        if bytes == 0 {
            return Err(libc::EINVAL);
        }
        let mut target = done_by_client(client.readlink(&caller(Ids::Effective), path))?;
        target.truncate(bytes);
        Ok(OsString::from_vec(target))
    }

    pub fn mknod(&self, mode: u32, dev: u64) -> R {
        let (client, path) = self.place()?;
        let file_type = match mode & libc::S_IFMT {
            0 | libc::S_IFREG => FileType::File,
            libc::S_IFIFO => FileType::Fifo,
            libc::S_IFSOCK => FileType::Socket,
            libc::S_IFCHR => FileType::CharDevice,
            libc::S_IFBLK => FileType::BlockDevice,
            libc::S_IFDIR => FileType::Directory,
            libc::S_IFLNK => FileType::Symlink,
            _ => return Err(libc::EINVAL),
        };
        done_by_client(client.mknod(&caller(Ids::Effective), path, file_type, mode & 0o7777, dev as u32)).map(drop)
    }
}
