//! Open files.

use crate::caller::Caller;
use crate::counters::add;
use crate::detached::detached;
use crate::error::{Error, ErrorKind};
use crate::inode::Inode;
use crate::metadata::Metadata;
use crate::names::{self, Replace, Time};
use crate::session::{Asks, Session};
use crate::walk::{self, Found, Last, Link, Place};
use bytes::Bytes;
use onpath_session::fs::{FsOp, FsReply, Handle, OpenMode};
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::limits::IO_BYTES_MAX;
use onpath_wire::name::Name;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Times an open is tried whose name somebody else changes meanwhile.
const ATTEMPTS: usize = 16;
/// Requests of one read or write that are under way at a time.
pub(crate) const AHEAD: usize = 4;

/// How a file is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// It is read.
    pub read: bool,
    /// It is written.
    pub write: bool,
    /// It is written at its end only.
    pub append: bool,
    /// It is made empty.
    pub truncate: bool,
    /// It is made if there is none.
    pub create: bool,
    /// It is made; EEXIST if the name is there, be it of a symbolic link.
    pub create_new: bool,
    /// Permission bits if it is made; those of the caller's umask are taken away.
    pub mode: u32,
    /// ELOOP if its last name is a symbolic link.
    pub no_follow: bool,
    /// Reading leaves its access time alone.
    pub noatime: bool,
}

impl Default for OpenOptions {
    /// For reading.
    fn default() -> OpenOptions {
        OpenOptions {
            read: true,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            mode: 0o666,
            no_follow: false,
            noatime: false,
        }
    }
}

impl OpenOptions {
    /// For writing, made if there is none.
    pub fn create() -> OpenOptions {
        OpenOptions { read: false, write: true, create: true, ..OpenOptions::default() }
    }

    fn is_sound(&self) -> bool {
        let writes = self.write || self.append;
        let only_read = self.read && !self.truncate && !self.create && !self.create_new;
        writes || only_read
    }

    fn open_mode(&self, caller: &Caller) -> OpenMode {
        OpenMode {
            read: self.read,
            write: self.write || self.append,
            exec: false,
            truncate: self.truncate,
            append: self.append,
            exclusive: self.create_new,
            kill_suidgid: self.truncate && !caller.keeps_suid(),
            noatime: self.noatime,
            direct: true,
        }
    }
}

/// A space of a file that is changed as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// There is room for it, and the file ends behind it at least.
    Reserve,
    /// There is room for it; the file ends where it did.
    ReserveKeepSize,
    /// It becomes a hole.
    Punch,
    /// It becomes zeros, for which there is room; the file ends behind it at least.
    Zero,
    /// It becomes zeros, for which there is room; the file ends where it did.
    ZeroKeepSize,
}

impl Allocation {
    /// The mode of fallocate(2).
    fn mode(self) -> u32 {
        match self {
            Allocation::Reserve => 0,
            Allocation::ReserveKeepSize => 1,
            Allocation::Punch => 3,
            Allocation::Zero => 16,
            Allocation::ZeroKeepSize => 17,
        }
    }
}

/// A file that is open. Its calls are done as who has opened it. It is closed when it is dropped.
pub struct File {
    pub(crate) session: Session,
    caller: Caller,
    path: Vec<u8>,
    id: InodeId,
    pub(crate) handle: Handle,
    mode: OpenMode,
    /// For what was opened without a name: where it may get one.
    place: Option<Place>,
    open: bool,
}

impl Drop for File {
    fn drop(&mut self) {
        if self.open && self.session.is_here() {
            self.session.requests.release(self.handle);
        }
    }
}

pub(crate) async fn open(
    asks: &Asks<'_>,
    session: &Session,
    path: &[u8],
    options: &OpenOptions,
) -> Result<File, Error> {
    if !options.is_sound() {
        return Err(Errno::EINVAL.into());
    }
    let caller = asks.caller;
    let (mode, creates) = (options.open_mode(caller), options.create || options.create_new);
    let link = if options.create_new || options.no_follow { Link::Itself } else { Link::Follow };
    for _ in 0..ATTEMPTS {
        let place = match walk::find(asks, path, link, creates).await? {
            Found::Inode(_) | Found::Exact(..) if options.create_new => return Err(Errno::EEXIST.into()),
            Found::Inode(attr) | Found::Exact(attr, _) => {
                match attr.kind {
                    Kind::File => {}
                    Kind::Directory => return Err(Errno::EISDIR.into()),
                    Kind::Symlink => return Err(Errno::ELOOP.into()),
                    // Whoever has them open is a process of one machine.
                    _ => return Err(Errno::ENXIO.into()),
                }
                if creates && caller.uid != attr.uid && asks.levels().keeps(&attr) {
                    return Err(Errno::EACCES.into());
                }
                check_noatime(asks, attr.id, attr.uid, mode).await?;
                match asks.ask(FsOp::Open { id: attr.id, mode }).await {
                    Ok(FsReply::Opened(opened)) => {
                        return Ok(File::new(session, caller, path, attr.id, opened.handle, mode));
                    }
                    Ok(_) => return Err(Errno::EIO.into()),
                    // Removed after it was found: it is looked for again.
                    Err(error) if error.is(Errno::ENOENT) || error.is(Errno::ESTALE) => continue,
                    Err(error) => return Err(error),
                }
            }
            Found::Missing(place) => place,
        };
        let Last::Name(name) = place.last else { return Err(Errno::EISDIR.into()) };
        let (permissions, umask) = ((options.mode & 0o7777) as u16, (caller.umask & 0o777) as u16);
        let op = FsOp::Create { parent: place.dir, name, mode: permissions, umask, open: mode };
        match asks.ask(op).await {
            Ok(FsReply::Created { attr, opened, .. }) => {
                return Ok(File::new(session, caller, path, attr.id, opened.handle, mode));
            }
            Ok(_) => return Err(Errno::EIO.into()),
            // Somebody else has made the name, and it is not a plain file of one's own.
            Err(error) if error.is(Errno::ESTALE) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::ESTALE.into())
}

/// O_NOATIME is for who owns the file, and for who has CAP_FOWNER. As the kernel has it, permissions are looked at first.
async fn check_noatime(asks: &Asks<'_>, id: InodeId, owner: u32, mode: OpenMode) -> Result<(), Error> {
    if !mode.noatime || asks.caller.uid == owner || asks.caller.acts_as_owner() {
        return Ok(());
    }
    let mask = if mode.read { 4 } else { 0 } | if mode.write { 2 } else { 0 };
    asks.ask(FsOp::Access { id, mask }).await?;
    Err(Errno::EPERM.into())
}

/// Opens the file that is known by its id, and by its owner's.
pub(crate) async fn opened(
    asks: &Asks<'_>,
    session: &Session,
    path: &[u8],
    (id, owner): (InodeId, u32),
    options: &OpenOptions,
) -> Result<File, Error> {
    if !options.is_sound() {
        return Err(Errno::EINVAL.into());
    }
    let mode = options.open_mode(asks.caller);
    check_noatime(asks, id, owner, mode).await?;
    match asks.ask(FsOp::Open { id, mode }).await? {
        FsReply::Opened(opened) => Ok(File::new(session, asks.caller, path, id, opened.handle, mode)),
        _ => Err(Errno::EIO.into()),
    }
}

/// A file without a name, in the directory of `path`.
pub(crate) async fn unnamed(asks: &Asks<'_>, session: &Session, path: &[u8], mode: u32) -> Result<File, Error> {
    let caller = asks.caller;
    let place = walk::place(asks, path).await?;
    if !matches!(place.last, Last::Name(_)) || place.slash {
        return Err(Errno::EISDIR.into());
    }
    let (permissions, umask) = ((mode & 0o7777) as u16, (caller.umask & 0o777) as u16);
    let open = OpenMode { direct: true, ..OpenMode::READ_WRITE };
    match asks.ask(FsOp::TmpFile { parent: place.dir, mode: permissions, umask, open }).await? {
        FsReply::Created { attr, opened, .. } => {
            let mut file = File::new(session, caller, path, attr.id, opened.handle, open);
            file.place = Some(place);
            Ok(file)
        }
        _ => Err(Errno::EIO.into()),
    }
}

impl File {
    fn new(session: &Session, caller: &Caller, path: &[u8], id: InodeId, handle: Handle, mode: OpenMode) -> File {
        let (session, caller, path) = (session.clone(), caller.clone(), path.to_vec());
        File { session, caller, path, id, handle, mode, place: None, open: true }
    }

    pub(crate) fn asks(&self) -> Result<Asks<'_>, Error> {
        match self.session.is_here() {
            true => Ok(self.session.asks(&self.caller)),
            false => Err(Error::new(ErrorKind::Forked)),
        }
    }

    /// The same with an error that names the file.
    pub(crate) fn named<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        result.map_err(|error| error.at(&self.session.name, &self.path))
    }

    /// Bytes from `offset` on: fewer than `bytes` at the end of the file only, as many as fit into memory.
    ///
    /// # Errors
    /// As pread(2).
    pub async fn read_at(&self, offset: u64, bytes: usize) -> Result<Bytes, Error> {
        self.named(self.read(offset, bytes).await)
    }

    async fn read(&self, offset: u64, bytes: usize) -> Result<Bytes, Error> {
        let asks = self.asks()?;
        let mut parts = Vec::new();
        let mut under_way = VecDeque::new();
        let (mut next, end) = (offset, offset.saturating_add(bytes as u64));
        loop {
            while next < end && under_way.len() < AHEAD {
                let n = (end - next).min(IO_BYTES_MAX as u64) as u32;
                let op = FsOp::Read { handle: self.handle, offset: next, bytes: n, page: false };
                under_way.push_back((n, asks.ask(op)));
                next += u64::from(n);
            }
            let Some((n, read)) = under_way.pop_front() else { break };
            let part = joined(read.await?)?;
            let is_last = part.len() < n as usize;
            parts.push(part);
            if is_last {
                break;
            }
        }
        let whole = if parts.len() == 1 { parts.remove(0) } else { parts.concat().into() };
        add(&asks.requests.counting.read_bytes, whole.len() as u64);
        Ok(whole)
    }

    /// Writes all of `data` at `offset`; a future that is dropped, or an error, may leave a part of it written, as pwrite(2) does.
    /// Of a file that was opened for appending it goes to the end, whatever the offset; up to 1 MiB arrives in one piece there.
    ///
    /// # Errors
    /// As pwrite(2).
    pub async fn write_at(&self, offset: u64, data: impl Into<Bytes>) -> Result<(), Error> {
        let data = data.into();
        self.named(self.write(offset, data).await)
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), Error> {
        let asks = self.asks()?;
        let mut written = 0;
        while written < data.len() {
            let piece = data.slice(written..data.len().min(written + IO_BYTES_MAX));
            let n = self.begin_write(&asks, offset + written as u64, piece).await?;
            if n == 0 {
                return Err(Errno::EIO.into());
            }
            written += n;
        }
        Ok(())
    }

    pub(crate) fn begin_write(
        &self,
        asks: &Asks<'_>,
        offset: u64,
        data: Bytes,
    ) -> impl Future<Output = Result<usize, Error>> + Send + 'static + use<> {
        let (handle, append, kill_suidgid) = (self.handle, self.mode.append, !self.caller.keeps_suid());
        let asked = asks.ask(FsOp::Write { handle, offset, data, append, kill_suidgid, page: false });
        let requests = asks.requests.clone();
        async move {
            match asked.await? {
                FsReply::Written(n) => {
                    add(&requests.counting.written_bytes, n.into());
                    Ok(n as usize)
                }
                _ => Err(Errno::EIO.into()),
            }
        }
    }

    /// What the file is now.
    ///
    /// # Errors
    /// As fstat(2).
    pub async fn stat(&self) -> Result<Metadata, Error> {
        let told = async {
            let op = FsOp::GetAttr { id: self.id, handle: Some(self.handle) };
            match self.asks()?.ask(op).await? {
                FsReply::Attr { attr, btime } => Ok(Metadata::of(&attr, Some(btime))),
                _ => Err(Errno::EIO.into()),
            }
        };
        self.named(told.await)
    }

    /// Makes it shorter, or longer by zeros.
    ///
    /// # Errors
    /// As ftruncate(2). EINVAL: it is not open for writing.
    pub async fn truncate(&self, size: u64) -> Result<(), Error> {
        let truncated = async {
            // Without a handle for writing the home would look at permissions, as for truncate(2).
            if !self.mode.write {
                return Err(Errno::EINVAL.into());
            }
            let asks = self.asks()?;
            let op = FsOp::SetAttr { id: self.id, set: names::resized(&asks, size), handle: Some(self.handle) };
            asks.ask(op).await.map(drop)
        };
        self.named(truncated.await)
    }

    /// Changes its permission bits.
    ///
    /// # Errors
    /// As fchmod(2).
    pub async fn chmod(&self, mode: u32) -> Result<(), Error> {
        self.inode().chmod(mode).await
    }

    /// Changes its owner or group.
    ///
    /// # Errors
    /// As fchown(2).
    pub async fn chown(&self, uid: Option<u32>, gid: Option<u32>) -> Result<(), Error> {
        self.inode().chown(uid, gid).await
    }

    /// Changes its times.
    ///
    /// # Errors
    /// As futimens(3).
    pub async fn utimens(&self, atime: Time, mtime: Time) -> Result<(), Error> {
        self.inode().utimens(atime, mtime).await
    }

    /// Returns when what was written is durable.
    ///
    /// # Errors
    /// As fsync(2).
    pub async fn sync(&self) -> Result<(), Error> {
        let handle = self.handle;
        let synced = async { self.asks()?.ask(FsOp::Fsync { handle }).await.map(drop) };
        self.named(synced.await)
    }

    /// Changes `bytes` bytes from `offset` on as a whole.
    ///
    /// # Errors
    /// As fallocate(2).
    pub async fn allocate(&self, how: Allocation, offset: u64, bytes: u64) -> Result<(), Error> {
        if bytes == 0 {
            return self.named(Err(Errno::EINVAL.into()));
        }
        let op = FsOp::Allocate { handle: self.handle, mode: how.mode(), offset, bytes };
        let done = async { self.asks()?.ask(op).await.map(drop) };
        self.named(done.await)
    }

    /// Where the next data begins from `offset` on, or with `hole` the next hole. ENXIO behind the last.
    ///
    /// # Errors
    /// As lseek(2).
    pub async fn seek(&self, offset: u64, hole: bool) -> Result<u64, Error> {
        let found = async {
            match self.asks()?.ask(FsOp::Seek { handle: self.handle, offset, hole }).await? {
                FsReply::Position(at) => Ok(at),
                _ => Err(Errno::EIO.into()),
            }
        };
        self.named(found.await)
    }

    /// Copies bytes of another file of the same session to this one, between the servers. Says how many: fewer at the end of `from`, or
    /// where the copy is long.
    ///
    /// # Errors
    /// As copy_file_range(2). EBADF: this one is open for appending. EXDEV: `from` is of another session.
    pub async fn copy_from(&self, from: &File, from_offset: u64, offset: u64, bytes: u64) -> Result<u64, Error> {
        let copied = async {
            if !Arc::ptr_eq(&self.session.running, &from.session.running) {
                return Err(Errno::EXDEV.into());
            }
            if self.mode.append {
                return Err(Errno::EBADF.into());
            }
            let op = FsOp::Copy { from: from.handle, from_offset, handle: self.handle, offset, bytes };
            match self.asks()?.ask(op).await? {
                FsReply::Copied(n) => Ok(n),
                _ => Err(Errno::EIO.into()),
            }
        };
        self.named(copied.await)
    }

    /// Gives a file without a name ([`Client::unnamed`](crate::Client::unnamed)) the one that it was opened for. With [`Replace::Yes`] what
    /// has that name loses it; nobody sees the name missing meanwhile. If this process ends in between, another name may be left:
    /// `.NAME.onpath-…`.
    ///
    /// # Errors
    /// As linkat(2) and rename(2). EINVAL: the file has a name, or is to change places.
    pub async fn take_name(&mut self, replace: Replace) -> Result<(), Error> {
        let taken = async {
            self.asks()?;
            let Some(Place { dir, last: Last::Name(name), .. }) = self.place.clone() else {
                return Err(Errno::EINVAL.into());
            };
            if replace == Replace::Exchange {
                return Err(Errno::EINVAL.into());
            }
            let (session, caller, id) = (self.session.clone(), self.caller.clone(), self.id);
            // Once begun it is done, or the other name would be left where this future is dropped.
            let taking = detached(async move { take(&session.asks(&caller), id, dir, name, replace).await });
            taking.await.unwrap_or_else(|| Err(Error::new(ErrorKind::Over("it was closed".to_owned()))))
        };
        let result = taken.await;
        if result.is_ok() {
            self.place = None;
        }
        self.named(result)
    }

    /// Closes it, and returns when that is done.
    ///
    /// # Errors
    /// As close(2): nothing that was written is lost by it.
    pub async fn close(mut self) -> Result<(), Error> {
        let handle = self.handle;
        let closed = async {
            let asks = self.session.is_here().then(|| self.session.asks(&self.caller));
            let asks = asks.ok_or_else(|| Error::new(ErrorKind::Forked))?;
            self.open = false;
            asks.ask(FsOp::Release { handle, flock_owner: None }).await.map(drop)
        };
        let result = closed.await;
        self.named(result)
    }

    /// The same file, to read and change what it has beside its bytes: as long as it is open this does not need a name either.
    pub fn inode(&self) -> Inode {
        Inode::new(&self.session, &self.caller, &self.path, self.id, Kind::File)
    }

    /// Where it is, as it was opened.
    pub fn path(&self) -> &[u8] {
        &self.path
    }
}

/// The bytes of a read in one piece.
pub(crate) fn joined(reply: FsReply) -> Result<Bytes, Error> {
    let FsReply::Data(mut parts) = reply else { return Err(Errno::EIO.into()) };
    match parts.len() {
        1 => Ok(parts.remove(0)),
        _ => Ok(parts.concat().into()),
    }
}

/// Gives an inode that name in a directory.
async fn take(asks: &Asks<'_>, id: InodeId, dir: InodeId, name: Name, replace: Replace) -> Result<(), Error> {
    match names::named(asks, id, dir, name.clone()).await {
        Err(error) if error.is(Errno::EEXIST) && replace == Replace::Yes => {}
        result => return result,
    }
    let aside = loop {
        let aside = beside(&name);
        match names::named(asks, id, dir, aside.clone()).await {
            Err(error) if error.is(Errno::EEXIST) => {}
            result => break result.map(|()| aside)?,
        }
    };
    let op = FsOp::Rename { from_parent: dir, from: aside.clone(), parent: dir, name, flags: 0 };
    let renamed = asks.ask(op).await.map(drop);
    if renamed.is_err() {
        _ = asks.ask(FsOp::Unlink { parent: dir, name: aside }).await;
    }
    renamed
}

/// A name that nobody uses, for a moment.
fn beside(name: &Name) -> Name {
    let unlike = RandomState::new().hash_one(std::process::id());
    let name = &name.as_bytes()[..name.as_bytes().len().min(200)];
    Name::new(&[b".", name, format!(".onpath-{unlike:016x}").as_bytes()].concat()).expect("short, and no dots alone")
}
