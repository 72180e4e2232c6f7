//! What descriptors of the client's have open, and calls on it.
#![allow(unsafe_code)]

use super::super::sys::{Entry, R, Stat, Time, errno};
use super::attributes::{change_times, stat_of};
use super::{Ids, Open, caller, done_by_client};
use onpath_client::blocking::{Client, File, Inode, Listing};
use onpath_client::{Allocation, Caller};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{PipeReader, PipeWriter};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

/// What is open, as all copies of a descriptor share it.
pub struct Description {
    what: What,
    inode: Inode,
    append: bool,
    /// Of a directory the number of entries before it.
    position: Mutex<u64>,
}

pub enum What {
    File(File),
    Directory {
        base: Client,
        names: Mutex<Names>,
        opener: Caller,
        up: u64,
    },
    /// It is opened with O_PATH; with what begins at it if it is a directory.
    Path(Option<Client>),
}

/// A directory as far as it has been read.
pub struct Names {
    listing: Listing,
    read: Vec<Entry>,
    ended: bool,
}

/// The reading end of the pipe that stands for a description, which is hung up when all descriptors of it are closed.
struct Held {
    end: PipeReader,
    open: Arc<Description>,
}

/// By device and inode number of the pipe.
static TABLE: LazyLock<Mutex<HashMap<(u64, u64), Held>>> = LazyLock::new(Mutex::default);

fn table() -> MutexGuard<'static, HashMap<(u64, u64), Held>> {
    // What a test that fails was doing with it is over.
    TABLE.lock().unwrap_or_else(|poison| poison.into_inner())
}

fn fstat(fd: BorrowedFd) -> Option<libc::stat> {
    // SAFETY: all zeros is a value of it, and the call writes one that outlives it.
    let mut raw: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let told = unsafe { libc::fstat(fd.as_raw_fd(), &mut raw) };
    (told == 0).then_some(raw)
}

fn key(fd: BorrowedFd) -> Option<(u64, u64)> {
    let raw = fstat(fd)?;
    (raw.st_mode & libc::S_IFMT == libc::S_IFIFO).then_some((raw.st_dev, raw.st_ino))
}

/// Whether there is anything at that descriptor, be it of the client or not.
pub fn is_open(fd: BorrowedFd) -> bool {
    fstat(fd).is_some()
}

pub fn of(fd: BorrowedFd) -> Option<Arc<Description>> {
    let key = key(fd)?;
    table().get(&key).map(|held| held.open.clone())
}

/// The same of a descriptor that is known by its number.
pub fn of_number(fd: i32) -> Option<Arc<Description>> {
    // SAFETY: it is only asked about, and a number that nothing is open at is refused.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) }).and_then(of)
}

/// Closes what has no descriptor any more.
pub fn sweep() {
    let mut table = table();
    let (keys, mut polled): (Vec<_>, Vec<_>) = table
        .iter()
        .map(|(key, held)| (*key, libc::pollfd { fd: held.end.as_raw_fd(), events: 0, revents: 0 }))
        .unzip();
    // SAFETY: the kernel writes to as many structures as it is told of.
    let found = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, 0) };
    assert!(found >= 0, "poll: errno {}", errno());
    for (key, _) in keys.iter().zip(polled).filter(|(_, polled)| polled.revents & libc::POLLHUP != 0) {
        let open = table.remove(key).expect("just seen").open;
        // Else another thread's call on it has not returned yet.
        if let Ok(Description { what: What::File(file), .. }) = Arc::try_unwrap(open) {
            done_by_client(file.close()).expect("close");
        }
    }
}

/// A descriptor of what a call has opened.
pub fn opened(what: What, inode: Inode, append: bool) -> R<OwnedFd> {
    let (end, descriptor): (PipeReader, PipeWriter) =
        std::io::pipe().map_err(|error| error.raw_os_error().unwrap_or(0))?;
    let open = Arc::new(Description { what, inode, append, position: Mutex::default() });
    table().insert(key(descriptor.as_fd()).expect("a pipe"), Held { end, open });
    Ok(descriptor.into())
}

impl Description {
    /// What is open, for a caller of now.
    pub fn inode(&self, caller: &Caller) -> Inode {
        self.inode.by(caller)
    }

    /// What paths begin at, if it is a directory.
    pub fn base(&self) -> Option<&Client> {
        match &self.what {
            What::Directory { base, .. } => Some(base),
            What::Path(base) => base.as_ref(),
            What::File(_) => None,
        }
    }

    pub fn is_path(&self) -> bool {
        matches!(self.what, What::Path(_))
    }
}

impl Names {
    pub fn new(listing: Listing) -> Names {
        Names { listing, read: Vec::new(), ended: false }
    }

    /// Reads on until there is an entry of that number; false if there is none.
    fn reach(&mut self, number: usize) -> R<bool> {
        while self.read.len() <= number && !self.ended {
            let page = done_by_client(self.listing.next())?;
            self.ended = page.is_none();
            for entry in page.into_iter().flatten() {
                let kind = sys_kind(entry.file_type);
                self.add(&OsString::from_vec(entry.name), entry.ino, kind);
            }
        }
        Ok(number < self.read.len())
    }

    fn add(&mut self, name: &OsString, ino: u64, kind: u8) {
        let next = self.read.len() as i64 + 1;
        self.read.push(Entry { ino, next, kind, name: name.clone() });
    }
}

fn sys_kind(file_type: onpath_client::FileType) -> u8 {
    use onpath_client::FileType::*;
    match file_type {
        Fifo => libc::DT_FIFO,
        CharDevice => libc::DT_CHR,
        Directory => libc::DT_DIR,
        BlockDevice => libc::DT_BLK,
        File => libc::DT_REG,
        Symlink => libc::DT_LNK,
        Socket => libc::DT_SOCK,
    }
}

/// What getdents64 wants for an entry, bytes.
fn dirent_bytes(entry: &Entry) -> usize {
    (19 + entry.name.len() + 1).next_multiple_of(8)
}

impl Open {
    fn position(&self) -> MutexGuard<'_, u64> {
        self.0.position.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    fn now(&self) -> Inode {
        self.0.inode(&caller(Ids::Effective))
    }

    /// The file that is open; the errno if it is a directory.
    fn file(&self, of_directory: i32) -> R<&File> {
        match &self.0.what {
            What::File(file) => Ok(file),
            What::Directory { .. } => Err(of_directory),
            What::Path(_) => Err(libc::EBADF),
        }
    }

    pub fn stat(&self) -> R<Stat> {
        match &self.0.what {
            What::File(file) => done_by_client(file.stat()).map(|is| stat_of(&is)),
            _ => done_by_client(self.now().stat()).map(|is| stat_of(&is)),
        }
    }

    /// The inode, of a descriptor that may change it.
    fn changed(&self) -> R<Inode> {
        if self.0.is_path() { Err(libc::EBADF) } else { Ok(self.now()) }
    }

    pub fn chmod(&self, mode: u32) -> R {
        done_by_client(self.changed()?.chmod(mode))
    }

    pub fn chown(&self, uid: u32, gid: u32) -> R {
        let given = |id| Some(id).filter(|id| *id != u32::MAX);
        done_by_client(self.changed()?.chown(given(uid), given(gid)))
    }

    pub fn utimens(&self, times: [Time; 2]) -> R {
        change_times(times, |atime, mtime| {
            self.changed()?.utimens(atime, mtime).map_or_else(|error| done_by_client(Err(error)), Ok)
        })
    }

    pub fn truncate(&self, size: i64) -> R {
        let size = u64::try_from(size).map_err(|_| libc::EINVAL)?;
        done_by_client(self.file(libc::EINVAL)?.truncate(size))
    }

    pub fn pread(&self, count: usize, offset: i64) -> R<Vec<u8>> {
        let offset = u64::try_from(offset).map_err(|_| libc::EINVAL)?;
        done_by_client(self.file(libc::EISDIR)?.read_at(offset, count)).map(|bytes| bytes.to_vec())
    }

    pub fn read(&self, count: usize) -> R<Vec<u8>> {
        let mut position = self.position();
        let bytes = self.pread(count, *position as i64)?;
        *position += bytes.len() as u64;
        Ok(bytes)
    }

    pub fn pwrite(&self, bytes: &[u8], offset: i64) -> R<usize> {
        let offset = u64::try_from(offset).map_err(|_| libc::EINVAL)?;
        done_by_client(self.file(libc::EBADF)?.write_at(offset, bytes.to_vec())).map(|()| bytes.len())
    }

    pub fn write(&self, bytes: &[u8]) -> R<usize> {
        let mut position = self.position();
        let written = self.pwrite(bytes, *position as i64)?;
        *position = if self.0.append { self.stat()?.size as u64 } else { *position + written as u64 };
        Ok(written)
    }

    pub fn lseek(&self, offset: i64, whence: i32) -> R<i64> {
        if matches!(self.0.what, What::Directory { .. }) {
            return self.seek_names(offset, whence);
        }
        let (file, mut position) = (self.file(libc::EBADF)?, self.position());
        let to = match whence {
            libc::SEEK_SET => Some(offset),
            libc::SEEK_CUR => offset.checked_add(*position as i64),
            libc::SEEK_END => offset.checked_add(self.stat()?.size),
            libc::SEEK_DATA | libc::SEEK_HOLE => {
                let from = u64::try_from(offset).map_err(|_| libc::ENXIO)?;
                Some(done_by_client(file.seek(from, whence == libc::SEEK_HOLE))? as i64)
            }
            _ => None,
        };
        let to = to.filter(|to| *to >= 0).ok_or(libc::EINVAL)?;
        *position = to as u64;
        Ok(to)
    }

    pub fn sync(&self) -> R {
        match &self.0.what {
            What::File(file) => done_by_client(file.sync()),
            What::Directory { names, .. } => done_by_client(lock(names).listing.sync()),
            What::Path(_) => Err(libc::EBADF),
        }
    }

    pub fn allocate(&self, mode: i32, offset: i64, length: i64) -> R {
        let (Ok(offset), Ok(length)) = (u64::try_from(offset), u64::try_from(length)) else { return Err(libc::EINVAL) };
        let keep = libc::FALLOC_FL_KEEP_SIZE;
        let how = match mode & !keep {
            0 if mode & keep == 0 => Allocation::Reserve,
            0 => Allocation::ReserveKeepSize,
            libc::FALLOC_FL_PUNCH_HOLE if mode & keep != 0 => Allocation::Punch,
            libc::FALLOC_FL_ZERO_RANGE if mode & keep == 0 => Allocation::Zero,
            libc::FALLOC_FL_ZERO_RANGE => Allocation::ZeroKeepSize,
            // The library has no word for it.
            _ => return Err(libc::EOPNOTSUPP),
        };
        done_by_client(self.file(libc::EBADF)?.allocate(how, offset, length))
    }

    /// copy_file_range(2) between the positions of both.
    pub fn copy(&self, from: &Open, count: usize) -> R<usize> {
        let (mut source, mut target) = (from.position(), self.position());
        let copied = self.copy_range(from, *source as i64, *target as i64, count, 0)?;
        *source += copied as u64;
        *target += copied as u64;
        Ok(copied)
    }

    pub fn copy_range(&self, from: &Open, from_offset: i64, offset: i64, count: usize, flags: u32) -> R<usize> {
        let (Ok(from_offset), Ok(offset)) = (u64::try_from(from_offset), u64::try_from(offset)) else {
            return Err(libc::EINVAL);
        };
        if flags != 0 {
            return Err(libc::EINVAL);
        }
        let (from, to) = (from.file(libc::EISDIR)?, self.file(libc::EISDIR)?);
        done_by_client(to.copy_from(from, from_offset, offset, count as u64)).map(|copied| copied as usize)
    }

    pub fn getdents(&self, bytes: usize) -> R<Vec<Entry>> {
        let (names, up) = match &self.0.what {
            What::Directory { names, up, .. } => (names, *up),
            What::File(_) => return Err(libc::ENOTDIR),
            What::Path(_) => return Err(libc::EBADF),
        };
        let (mut names, mut position) = (lock(names), self.position());
        if names.read.is_empty() {
            let own = self.stat()?.ino;
            names.add(&".".into(), own, libc::DT_DIR);
            names.add(&"..".into(), up, libc::DT_DIR);
        }
        let (mut page, mut left) = (Vec::new(), bytes);
        while names.reach(*position as usize)? {
            let entry = &names.read[*position as usize];
            let Some(rest) = left.checked_sub(dirent_bytes(entry)) else {
                return if page.is_empty() { Err(libc::EINVAL) } else { Ok(page) };
            };
            left = rest;
            page.push(entry.clone());
            *position += 1;
        }
        Ok(page)
    }

    /// lseek of a directory, to where an entry has said or to its beginning.
    fn seek_names(&self, offset: i64, whence: i32) -> R<i64> {
        let What::Directory { base, names, opener, .. } = &self.0.what else { return Err(libc::EBADF) };
        let (mut names, mut position) = (lock(names), self.position());
        match (whence, u64::try_from(offset)) {
            (libc::SEEK_SET, Ok(0)) => {
                *names = Names::new(done_by_client(base.list(opener, "/", false))?);
                *position = 0;
            }
            (libc::SEEK_SET, Ok(offset)) => *position = offset,
            (libc::SEEK_CUR, Ok(0)) => {}
            _ => return Err(libc::EINVAL),
        }
        Ok(*position as i64)
    }

    pub fn setxattr(&self, name: &[u8], value: &[u8]) -> R {
        done_by_client(self.changed()?.setxattr(name, value, onpath_client::SetXattr::Any))
    }

    pub fn getxattr(&self, name: &[u8]) -> R<Vec<u8>> {
        done_by_client(self.changed()?.getxattr(name))
    }

    pub fn removexattr(&self, name: &[u8]) -> R {
        done_by_client(self.changed()?.removexattr(name))
    }
}

fn lock(names: &Mutex<Names>) -> MutexGuard<'_, Names> {
    names.lock().unwrap_or_else(|poison| poison.into_inner())
}
