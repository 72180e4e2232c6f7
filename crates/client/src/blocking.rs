//! The calls of a client for threads, which wait.

use crate::caller::Caller;
use crate::client::Options;
use crate::counters::Counters;
use crate::error::Error;
use crate::file::{Allocation, OpenOptions};
use crate::listing::Entry;
use crate::metadata::Metadata;
use crate::names::{Replace, SetXattr, Time};
use crate::source::Source;
use crate::walk::Link;
use bytes::Bytes;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// What is written at a time of what [`Writer::copy_from`] reads, bytes.
const PIECE_BYTES: usize = 1 << 20;

/// Wakes a thread that waits for a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// A session of a file system. Clones are the same session.
#[derive(Clone)]
pub struct Client(pub(crate) crate::Client);

impl Client {
    /// Begins a session. `source`: a DIR, or `onpath://HOST[:PORT][,HOST[:PORT]…]/`.
    ///
    /// # Errors
    /// There is no such file system, or it does not let this process in.
    pub fn connect(source: &str, options: &Options) -> Result<Client, Error> {
        let (source, _) = Source::parse(source)?;
        Client::connect_to(&source, options)
    }

    /// The same with a source that is parsed already.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_to(source: &Source, options: &Options) -> Result<Client, Error> {
        crate::Client::connect_here(source, options).map(Client)
    }

    /// The same session, with paths that begin at a directory.
    ///
    /// # Errors
    /// As [`within`](crate::Client::within).
    pub fn within(&self, caller: &Caller, path: impl AsRef<[u8]> + Send, link: Link) -> Result<Client, Error> {
        wait(self.0.within(caller, path, link)).map(Client)
    }

    /// Moves a name to a path that begins where those of `there` do.
    ///
    /// # Errors
    /// As [`rename_to`](crate::Client::rename_to).
    pub fn rename_to(
        &self,
        caller: &Caller,
        path: impl AsRef<[u8]> + Send,
        there: &Client,
        to: &[u8],
        replace: Replace,
    ) -> Result<(), Error> {
        wait(self.0.rename_to(caller, path, &there.0, to, replace))
    }

    /// What the file system is called: the DIR, or the URL of its hosts.
    pub fn source(&self) -> String {
        self.0.source()
    }

    /// What the session has done.
    pub fn counters(&self) -> Counters {
        self.0.counters()
    }

    /// Ends the session, also for its other clones.
    pub fn close(self) {
        wait(self.0.close());
    }
}

/// The calls of a type that wait, by those of the one with futures.
macro_rules! waiting {
    ($(#[$doc:meta])* $type:ident { $($(#[$of:meta])* $(($m:tt))? $name:ident($($arg:ident: $argument:ty),*) -> $result:ty;)* }) => {
        $(#[$doc])*
        pub struct $type(pub(crate) crate::$type);

        impl From<crate::$type> for $type {
            fn from(of: crate::$type) -> $type {
                $type(of)
            }
        }

        impl $type {
            $(
                $(#[$of])*
                #[doc = concat!("\n\n# Errors\nAs [`", stringify!($name), "`](crate::", stringify!($type), "::", stringify!($name), ").")]
                #[allow(clippy::should_implement_trait)]
                pub fn $name(&$($m)? self, $($arg: $argument),*) -> Result<$result, Error> {
                    wait(self.0.$name($($arg),*))
                }
            )*
        }
    };
}

waiting! {
    /// A file that is open, as [`crate::File`].
    File {
        /// Bytes from `offset` on: fewer than `bytes` at the end of the file only.
        read_at(offset: u64, bytes: usize) -> Bytes;
        /// Writes all of `data` at `offset`.
        write_at(offset: u64, data: impl Into<Bytes>) -> ();
        /// What the file is now.
        stat() -> Metadata;
        /// Makes it shorter, or longer by zeros.
        truncate(size: u64) -> ();
        /// Changes its permission bits.
        chmod(mode: u32) -> ();
        /// Changes its owner or group.
        chown(uid: Option<u32>, gid: Option<u32>) -> ();
        /// Changes its times.
        utimens(atime: Time, mtime: Time) -> ();
        /// Returns when what was written is durable.
        sync() -> ();
        /// Changes `bytes` bytes from `offset` on as a whole.
        allocate(how: Allocation, offset: u64, bytes: u64) -> ();
        /// Where the next data begins from `offset` on, or with `hole` the next hole.
        seek(offset: u64, hole: bool) -> u64;
        /// Gives a file without a name the one that it was opened for.
        (mut) take_name(replace: Replace) -> ();
    }
}

waiting! {
    /// What a path has led to, as [`crate::Inode`].
    #[derive(Clone)]
    Inode {
        /// What it is now.
        stat() -> Metadata;
        /// Changes its permission bits.
        chmod(mode: u32) -> ();
        /// Changes its owner or group.
        chown(uid: Option<u32>, gid: Option<u32>) -> ();
        /// Changes its times.
        utimens(atime: Time, mtime: Time) -> ();
        /// The target of a symbolic link.
        readlink() -> Vec<u8>;
        /// The value of an extended attribute.
        getxattr(name: &[u8]) -> Vec<u8>;
        /// Sets an extended attribute.
        setxattr(name: &[u8], value: &[u8], how: SetXattr) -> ();
        /// The names of its extended attributes.
        listxattr() -> Vec<Vec<u8>>;
        /// Removes an extended attribute.
        removexattr(name: &[u8]) -> ();
    }
}

impl Inode {
    /// The same inode, for calls that are done as another caller.
    #[must_use]
    pub fn by(&self, caller: &Caller) -> Inode {
        Inode(self.0.by(caller))
    }

    /// Opens it, if it is a file.
    ///
    /// # Errors
    /// As [`open`](crate::Inode::open).
    pub fn open(&self, options: &OpenOptions) -> Result<File, Error> {
        wait(self.0.open(options)).map(File)
    }

    /// Gives it one name more.
    ///
    /// # Errors
    /// As [`link`](crate::Inode::link).
    pub fn link(&self, client: &Client, new: &[u8]) -> Result<(), Error> {
        wait(self.0.link(&client.0, new))
    }
}

impl File {
    /// The same file, to read and change what it has beside its bytes.
    pub fn inode(&self) -> Inode {
        Inode(self.0.inode())
    }

    /// Copies bytes of another file of the same session to this one, between the servers.
    ///
    /// # Errors
    /// As [`copy_from`](crate::File::copy_from).
    pub fn copy_from(&self, from: &File, from_offset: u64, offset: u64, bytes: u64) -> Result<u64, Error> {
        wait(self.0.copy_from(&from.0, from_offset, offset, bytes))
    }

    /// Closes it, and returns when that is done.
    ///
    /// # Errors
    /// As [`close`](crate::File::close).
    pub fn close(self) -> Result<(), Error> {
        wait(self.0.close())
    }
}

waiting! {
    /// A directory that is being read, as [`crate::Listing`].
    Listing {
        /// The next entries; none at the end.
        (mut) next() -> Option<Vec<Entry>>;
        /// Returns when the directory is durable.
        sync() -> ();
    }
}

waiting! {
    /// A directory in the byte order of its names, as [`crate::Sorted`].
    Sorted {
        /// The `k` names that follow `name` in byte order.
        (mut) after(name: Option<&[u8]>, k: usize) -> Vec<Entry>;
    }
}

waiting! {
    /// A file that is read from its beginning to its end, as [`crate::Reader`].
    Reader {
        /// The next bytes; none at the end.
        (mut) next() -> Option<Bytes>;
    }
}

impl Reader {
    /// What is read, when all of it is written to `to`.
    ///
    /// # Errors
    /// As read(2), or of `to`.
    pub fn copy_to(&mut self, to: &mut impl io::Write) -> Result<u64, Error> {
        let mut copied = 0;
        while let Some(bytes) = self.next()? {
            to.write_all(&bytes)?;
            copied += bytes.len() as u64;
        }
        Ok(copied)
    }
}

waiting! {
    /// A file that is written as a whole, as [`crate::Writer`].
    Writer {
        /// Adds bytes at the end.
        (mut) write(data: impl Into<Bytes>) -> ();
    }
}

impl Writer {
    /// Adds all that `from` has.
    ///
    /// # Errors
    /// As write(2), or of `from`.
    pub fn copy_from(&mut self, from: &mut impl io::Read) -> Result<u64, Error> {
        let mut copied = 0;
        loop {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            let n = io::Read::read_to_end(&mut io::Read::take(&mut *from, PIECE_BYTES as u64), &mut piece)?;
            if n == 0 {
                return Ok(copied);
            }
            self.write(piece)?;
            copied += n as u64;
        }
    }

    /// Changes the times of the file, when all that was added so far is written.
    ///
    /// # Errors
    /// As write(2) and futimens(3).
    pub fn utimens(&mut self, atime: Time, mtime: Time) -> Result<(), Error> {
        wait(async {
            self.0.flush().await?;
            self.0.file().utimens(atime, mtime).await
        })
    }

    /// Gives the file its name when all of it is written, and with `sync` when all of it is durable. Says what it is.
    ///
    /// # Errors
    /// As [`finish`](crate::Writer::finish).
    pub fn finish(self, sync: bool) -> Result<Metadata, Error> {
        wait(self.0.finish(sync))
    }
}
