//! open(2) by the client.

use super::descriptors::{self, Names, What};
use super::{At, Ids, Link, Where, caller, done_by_client};
use crate::common::sys::R;
use libc::{
    O_ACCMODE, O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_NOATIME, O_NOFOLLOW, O_PATH, O_RDONLY, O_RDWR, O_TMPFILE,
    O_TRUNC, O_WRONLY,
};
use onpath_client::blocking::Client;
use onpath_client::{Caller, FileType, OpenOptions};
use std::os::fd::OwnedFd;

impl At {
    pub fn open(&self, flags: i32, mode: u32) -> R<OwnedFd> {
        let (me, access) = (caller(Ids::Effective), flags & O_ACCMODE);
        assert_ne!(access, O_ACCMODE, "not through a client: open for ioctl(2) alone");
        if flags & O_PATH != 0 {
            return self.open_path(&me, flags);
        }
        if flags & O_TMPFILE == O_TMPFILE {
            return self.open_unnamed(&me, flags, mode);
        }
        let link = if flags & O_NOFOLLOW != 0 { Link::Itself } else { Link::Follow };
        if flags & O_DIRECTORY != 0 {
            return match flags & (O_CREAT | O_ACCMODE | O_TRUNC) {
                O_RDONLY => self.open_directory(&me, link),
                made if made & O_CREAT != 0 => Err(libc::EINVAL),
                _ => self.open_directory(&me, link).and(Err(libc::EISDIR)),
            };
        }
        let options = OpenOptions {
            read: access != O_WRONLY,
            write: access != O_RDONLY,
            append: flags & O_APPEND != 0 && access != O_RDONLY,
            truncate: flags & O_TRUNC != 0,
            create: flags & O_CREAT != 0,
            create_new: flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL,
            mode,
            no_follow: flags & O_NOFOLLOW != 0,
            noatime: flags & O_NOATIME != 0,
        };
        let opened = match &self.0 {
            Where::Open(open) => done_by_client(open.inode(&me).open(&options)),
            _ => self.place().and_then(|(client, path)| done_by_client(client.open(&me, path, &options))),
        };
        match opened {
            Err(libc::EISDIR) if flags & (O_CREAT | O_ACCMODE | O_TRUNC) == O_RDONLY => self.open_directory(&me, link),
            opened => {
                let file = opened?;
                let inode = file.inode();
                descriptors::opened(What::File(file), inode, options.append)
            }
        }
    }

    /// The client whose paths begin at the directory that this is.
    fn within(&self, me: &Caller, link: Link) -> R<Client> {
        match &self.0 {
            Where::Open(open) => open.base().cloned().ok_or(libc::ENOTDIR),
            _ => self.place().and_then(|(client, path)| done_by_client(client.within(me, path, link))),
        }
    }

    fn open_directory(&self, me: &Caller, link: Link) -> R<OwnedFd> {
        let base = self.within(me, link)?;
        let names = Names::new(done_by_client(base.list(me, "/", false))?);
        let inode = done_by_client(base.inode(me, "/", Link::Follow))?;
        let up = match &self.0 {
            Where::Path { client, path, .. } => {
                client.stat(me, [path, b"/..".as_slice()].concat()).map_or(0, |up| up.ino)
            }
            _ => 0,
        };
        let what = What::Directory { base, names: names.into(), opener: me.clone(), up };
        descriptors::opened(what, inode, false)
    }

    fn open_path(&self, me: &Caller, flags: i32) -> R<OwnedFd> {
        let link = if flags & O_NOFOLLOW != 0 { Link::Itself } else { Link::Follow };
        let inode = self.inode(link)?;
        let is_directory = done_by_client(inode.stat())?.file_type == FileType::Directory;
        if flags & O_DIRECTORY != 0 && !is_directory {
            return Err(libc::ENOTDIR);
        }
        let base = if is_directory { Some(self.within(me, link)?) } else { None };
        descriptors::opened(What::Path(base), inode, false)
    }

    fn open_unnamed(&self, me: &Caller, flags: i32, mode: u32) -> R<OwnedFd> {
        let (client, path) = self.place()?;
        assert_eq!(flags & O_EXCL, 0, "not through a client: a file that never gets a name");
        if !matches!(flags & O_ACCMODE, O_WRONLY | O_RDWR) {
            return Err(libc::EINVAL);
        }
        // A client says what name it is for.
        let file = done_by_client(client.unnamed(me, [path, b"/unnamed".as_slice()].concat(), mode))?;
        let inode = file.inode();
        descriptors::opened(What::File(file), inode, false)
    }
}
