//! The calls of a client, as futures.

use crate::blocking;
use crate::caller::Caller;
use crate::counters::Counters;
use crate::error::Error;
use crate::file::{self, File, OpenOptions};
use crate::inode::Inode;
use crate::listing::{self, Listing, Sorted};
use crate::metadata::{FileType, Metadata};
use crate::names::{self, Replace, SetXattr, Space, Time};
use crate::session::{Running, Session, restarting};
use crate::source::Source;
use crate::walk::{self, Link};
use crate::whole::{Reader, Writer};
use arc_swap::ArcSwap;
use futures_channel::oneshot;
use onpath_session::SessionIn;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How a client comes in.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file with the key of the cluster, if it has one.
    pub key_file: Option<PathBuf>,
    /// For how long a host that answers is looked for.
    pub patience: Duration,
    /// Path nodes are asked to follow paths, where there are any; else each name is looked up by itself.
    pub path_nodes: bool,
    /// Bytes of memory for what path nodes have told of directories, by which the session follows most paths without asking anybody; with 0 it
    /// asks for each path.
    pub path_cache: usize,
}

impl Default for Options {
    /// No key, ten seconds, path nodes, and 4 MiB.
    fn default() -> Options {
        Options { key_file: None, patience: Duration::from_secs(10), path_nodes: true, path_cache: 4 << 20 }
    }
}

/// A session of a file system. Clones are the same session, which ends with the last of them and of its files.
///
/// After fork(2) the child has a session of its own from its first call on; files that were open stay the parent's.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    /// Where its paths begin, if not at the root of the file system, and what that is called.
    base: Option<(InodeId, Arc<str>)>,
}

struct Shared {
    source: Source,
    options: Options,
    /// The session of the process that looks.
    running: ArcSwap<Running>,
}

impl Client {
    /// Begins a session.
    ///
    /// # Errors
    /// There is no such file system, or it does not let this process in.
    pub async fn connect(source: Source, options: Options) -> Result<Client, Error> {
        let running = begin(&source, &options).await?;
        Ok(Client::of(source, options, running))
    }

    /// The same on this thread, which waits.
    pub(crate) fn connect_here(source: &Source, options: &Options) -> Result<Client, Error> {
        let running = Running::begin(source, options)?;
        Ok(Client::of(source.clone(), options.clone(), running))
    }

    fn of(source: Source, options: Options, running: Running) -> Client {
        let running = ArcSwap::from_pointee(running);
        Client { shared: Arc::new(Shared { source, options, running }), base: None }
    }

    /// The session of this process, and where paths begin.
    pub(crate) async fn session(&self) -> Result<Session, Error> {
        let running = self.running().await?;
        let (root, name) = self.base.clone().unwrap_or_else(|| (InodeId::ROOT, running.name.clone()));
        Ok(Session { running, root, name })
    }

    /// The session of this process.
    async fn running(&self) -> Result<Arc<Running>, Error> {
        let running = self.shared.running.load_full();
        if running.is_here() {
            return Ok(running);
        }
        let own = Arc::new(begin(&self.shared.source, &self.shared.options).await?);
        let before = self.shared.running.compare_and_swap(&running, own.clone());
        Ok(if Arc::ptr_eq(&before, &running) { own } else { before.clone() })
    }

    /// The same session, with paths that begin at a directory, which it stays whatever becomes of its names: as a descriptor of it does for
    /// openat(2) and the like. Neither "..", nor a slash or a symbolic link in such a path leads above it.
    ///
    /// # Errors
    /// As open(2) with O_DIRECTORY, and as with O_NOFOLLOW too where that is [`Link::Itself`].
    pub async fn within(&self, caller: &Caller, path: impl AsRef<[u8]> + Send, link: Link) -> Result<Client, Error> {
        let (path, session) = (path.as_ref(), self.session().await?);
        let is = restarting!(session, caller, |asks| names::directory(asks, path, link));
        let id = is.map_err(|error| error.at(&session.name, path))?;
        let name = format!("{}/{}", session.name, String::from_utf8_lossy(path).trim_matches('/'));
        Ok(Client { shared: self.shared.clone(), base: Some((id, name.trim_end_matches('/').into())) })
    }

    /// Moves a name to a path that begins where those of `there` do, as renameat2(2) has a directory for each. `there` is of the same session
    /// ([`within`](Client::within)).
    ///
    /// # Errors
    /// As renameat2(2). EXDEV: `there` is of another session.
    ///
    /// ```no_run
    /// # use onpath_client::*;
    /// # async fn example(client: &Client, me: &Caller) -> Result<(), Error> {
    /// let (inbox, done) = (client.within(me, "/inbox", Link::Follow).await?, client.within(me, "/done", Link::Follow).await?);
    /// inbox.rename_to(me, "job", &done, b"job", Replace::No).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn rename_to(
        &self,
        caller: &Caller,
        path: impl AsRef<[u8]> + Send,
        there: &Client,
        to: &[u8],
        replace: Replace,
    ) -> Result<(), Error> {
        let (path, session) = (path.as_ref(), self.session().await?);
        let root = there.base.as_ref().map_or(InodeId::ROOT, |(root, _)| *root);
        let renamed: Result<(), Error> = if Arc::ptr_eq(&self.shared, &there.shared) {
            restarting!(session, caller, |asks| names::rename(asks, path, root, to, replace))
        } else {
            Err(Errno::EXDEV.into())
        };
        renamed.map_err(|error| error.at(&session.name, path))
    }

    /// What the file system is called: the DIR, or the URL of its hosts.
    pub fn source(&self) -> String {
        self.shared.running.load().name.to_string()
    }

    /// What the session of this process has done.
    pub fn counters(&self) -> Counters {
        self.shared.running.load().requests.counters()
    }

    /// Ends the session, also for its other clones: what it has open is given up at once.
    pub async fn close(self) {
        let running = self.shared.running.load_full();
        if running.is_here() {
            let ended = running.requests.ended();
            if running.requests.submit(SessionIn::Shutdown) {
                _ = ended.await;
            }
        }
    }
}

/// Begins a session on a thread of its own: looking for a host waits for sockets, which a future must not.
async fn begin(source: &Source, options: &Options) -> Result<Running, Error> {
    let (begun, when) = oneshot::channel();
    let (source, options) = (source.clone(), options.clone());
    let begin = move || _ = begun.send(Running::begin(&source, &options));
    let thread = std::thread::Builder::new().name("onpath-connect".into()).spawn(begin);
    thread.map_err(crate::way::WayError::from)?;
    when.await.expect("the thread answers")
}

/// The first of some types.
macro_rules! first {
    ($first:ty $(, $others:ty)*) => {
        $first
    };
}

/// Calls on a path, of both clients.
macro_rules! calls {
    (($session:ident, $caller:ident, $path:ident, $asks:ident)
        $($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) -> $result:ty $(as $waits:ty)?, $example:literal = $does:expr;)*
    ) => {
        impl Client {
            $(
                $(#[$doc])*
                #[doc = concat!(
                    "\n\n```no_run\n# use onpath_client::*;\n# async fn example(client: &Client, me: &Caller) -> Result<(), Error> {\n",
                    $example, ".await?;\n# Ok(())\n# }\n```"
                )]
                pub async fn $name(
                    &self,
                    $caller: &Caller,
                    path: impl AsRef<[u8]> + Send,
                    $($arg: $type,)*
                ) -> Result<$result, Error> {
                    let ($path, $session) = (path.as_ref(), self.session().await?);
                    let done: Result<$result, Error> = restarting!($session, $caller, |$asks| $does);
                    done.map_err(|error| error.at(&$session.name, $path))
                }
            )*
        }

        impl blocking::Client {
            $(
                $(#[$doc])*
                #[doc = concat!(
                    "\n\n```no_run\n# use onpath_client::{*, blocking::Client};\n# fn example(client: &Client, me: &Caller) -> Result<(), Error> {\n",
                    $example, "?;\n# Ok(())\n# }\n```"
                )]
                pub fn $name(
                    &self,
                    caller: &Caller,
                    path: impl AsRef<[u8]> + Send,
                    $($arg: $type,)*
                ) -> Result<first!($($waits,)? $result), Error> {
                    blocking::wait(self.0.$name(caller, path, $($arg,)*)).map(Into::into)
                }
            )*
        }
    };
}

calls! {
    (session, caller, path, asks)

    /// What a path leads to; a symbolic link at its end is followed.
    ///
    /// # Errors
    /// As stat(2).
    stat() -> Metadata, "let is = client.stat(me, \"/a/file\")"
        = names::stat(asks, path, Link::Follow);

    /// What a path leads to; a symbolic link at its end is what is told of.
    ///
    /// # Errors
    /// As lstat(2).
    lstat() -> Metadata, "let is = client.lstat(me, \"/a/link\")"
        = names::stat(asks, path, Link::Itself);

    /// Whether the caller may read (4), write (2) or execute and search (1) what a path leads to: their sum; 0 asks whether it is there.
    ///
    /// # Errors
    /// As access(2).
    access(mask: u32) -> (), "client.access(me, \"/a/file\", 4 | 2)"
        = names::access(asks, path, mask);

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// As readlink(2).
    readlink() -> Vec<u8>, "let target = client.readlink(me, \"/a/link\")"
        = names::readlink(asks, path);

    /// What a path leads to, to be read and changed whatever becomes of its names.
    ///
    /// # Errors
    /// As open(2) with O_PATH, and as with O_NOFOLLOW too with [`Link::Itself`].
    inode(link: Link) -> Inode as blocking::Inode, "let link = client.inode(me, \"/a/link\", Link::Itself)"
        = async { walk::resolve(asks, path, link).await.map(|attr| Inode::new(&session, caller, path, attr.id, attr.kind)) };

    /// Makes a directory.
    ///
    /// # Errors
    /// As mkdir(2).
    mkdir(mode: u32) -> Metadata, "client.mkdir(me, \"/a/new\", 0o777)"
        = names::mkdir(asks, path, mode);

    /// Makes a file, FIFO, socket or device. `rdev`: of a device, as makedev(3) puts it together.
    ///
    /// # Errors
    /// As mknod(2).
    mknod(file_type: FileType, mode: u32, rdev: u32) -> Metadata, "client.mknod(me, \"/a/fifo\", FileType::Fifo, 0o600, 0)"
        = names::mknod(asks, path, file_type, mode, rdev);

    /// Makes a symbolic link to `target`.
    ///
    /// # Errors
    /// As symlink(2).
    symlink(target: &[u8]) -> Metadata, "client.symlink(me, \"/a/link\", b\"file\")"
        = names::symlink(asks, path, target);

    /// Gives a file the further name `new`; of a symbolic link it is the link that gets it.
    ///
    /// # Errors
    /// As link(2).
    link(new: &[u8]) -> Metadata, "client.link(me, \"/a/file\", b\"/a/second\")"
        = names::link(asks, path, new);

    /// Removes a name of what is no directory.
    ///
    /// # Errors
    /// As unlink(2).
    unlink() -> (), "client.unlink(me, \"/a/file\")"
        = names::unlink(asks, path);

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As rmdir(2).
    rmdir() -> (), "client.rmdir(me, \"/a/new\")"
        = names::rmdir(asks, path);

    /// Gives what a path leads to the name `to` in place of its own.
    ///
    /// # Errors
    /// As renameat2(2).
    rename(to: &[u8], replace: Replace) -> (), "client.rename(me, \"/a/file\", b\"/b/file\", Replace::No)"
        = names::rename(asks, path, asks.root, to, replace);

    /// Changes permission bits.
    ///
    /// # Errors
    /// As chmod(2).
    chmod(mode: u32) -> (), "client.chmod(me, \"/a/file\", 0o640)"
        = names::chmod(asks, path, mode);

    /// Changes owner and group; what is `None` stays.
    ///
    /// # Errors
    /// As chown(2), and as lchown(2) with [`Link::Itself`].
    chown(uid: Option<u32>, gid: Option<u32>, link: Link) -> (), "client.chown(me, \"/a/file\", Some(1000), None, Link::Follow)"
        = names::chown(asks, path, uid, gid, link);

    /// Changes access and modification time.
    ///
    /// # Errors
    /// As utimensat(2).
    utimens(atime: Time, mtime: Time, link: Link) -> (), "client.utimens(me, \"/a/file\", Time::Keep, Time::Now, Link::Follow)"
        = names::utimens(asks, path, atime, mtime, link);

    /// Makes a file shorter, or longer by zeros.
    ///
    /// # Errors
    /// As truncate(2).
    truncate(size: u64) -> (), "client.truncate(me, \"/a/file\", 0)"
        = names::truncate(asks, path, size);

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// As getxattr(2), and as lgetxattr(2) with [`Link::Itself`].
    getxattr(name: &[u8], link: Link) -> Vec<u8>, "let value = client.getxattr(me, \"/a/file\", b\"user.what\", Link::Follow)"
        = names::getxattr(asks, path, name, link);

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// As setxattr(2), and as lsetxattr(2) with [`Link::Itself`].
    setxattr(name: &[u8], value: &[u8], how: SetXattr, link: Link) -> (),
        "client.setxattr(me, \"/a/file\", b\"user.what\", b\"this\", SetXattr::Any, Link::Follow)"
        = names::setxattr(asks, path, name, value, how, link);

    /// The names of the extended attributes.
    ///
    /// # Errors
    /// As listxattr(2), and as llistxattr(2) with [`Link::Itself`].
    listxattr(link: Link) -> Vec<Vec<u8>>, "let names = client.listxattr(me, \"/a/file\", Link::Follow)"
        = names::listxattr(asks, path, link);

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// As removexattr(2), and as lremovexattr(2) with [`Link::Itself`].
    removexattr(name: &[u8], link: Link) -> (), "client.removexattr(me, \"/a/file\", b\"user.what\", Link::Follow)"
        = names::removexattr(asks, path, name, link);

    /// What the file system has room for.
    ///
    /// # Errors
    /// As statfs(2).
    statfs() -> Space, "let space = client.statfs(me, \"/\")"
        = names::statfs(asks, path);

    /// Opens a file, or makes it.
    ///
    /// # Errors
    /// As open(2). EISDIR: of a directory, which [`list`](Self::list) reads, also for reading. ENXIO: of a FIFO, a socket or a device. EINVAL: of
    /// options that contradict each other.
    open(options: &OpenOptions) -> File as blocking::File, "let file = client.open(me, \"/a/file\", &OpenOptions::create())"
        = file::open(asks, &session, path, options);

    /// Makes a file without a name. It gets that of the path by `take_name`, and is gone if it is closed before.
    ///
    /// # Errors
    /// As open(2) with O_TMPFILE.
    unnamed(mode: u32) -> File as blocking::File, "let file = client.unnamed(me, \"/a/file\", 0o666)"
        = file::unnamed(asks, &session, path, mode);

    /// Reads a directory, with `attributes` also those of each entry.
    ///
    /// # Errors
    /// As opendir(3).
    list(attributes: bool) -> Listing as blocking::Listing, "let entries = client.list(me, \"/a\", true)"
        = listing::open(asks, &session, path, attributes);

    /// Reads a directory in the byte order of its names.
    ///
    /// # Errors
    /// ENOENT and the like come with its first names.
    sorted() -> Sorted as blocking::Sorted, "let names = client.sorted(me, \"/a\")"
        = async { Ok(Sorted::new(asks, &session, path)) };

    /// Reads a file from its beginning to its end.
    ///
    /// # Errors
    /// As open(2).
    get() -> Reader as blocking::Reader, "let bytes = client.get(me, \"/a/file\")"
        = async { file::open(asks, &session, path, &OpenOptions::default()).await.map(Reader::new) };

    /// Writes a file as a whole: it gets its name when all of it is there, and until then the name leads to what it led to. A symbolic link of that
    /// name is replaced, not followed. `mode`: its permission bits, without those of the caller's umask.
    ///
    /// # Errors
    /// As open(2) with O_TMPFILE.
    put(mode: u32, replace: Replace) -> Writer as blocking::Writer, "let file = client.put(me, \"/a/file\", 0o666, Replace::Yes)"
        = async { file::unnamed(asks, &session, path, mode).await.map(|file| Writer::new(file, replace)) };

    /// All bytes of a file, which may be `most` at most.
    ///
    /// # Errors
    /// As open(2) and read(2). EFBIG: it is longer.
    read(most: usize) -> Vec<u8>, "let bytes = client.read(me, \"/a/file\", 1 << 20)" = async {
        let file = file::open(asks, &session, path, &OpenOptions::default()).await?;
        let (mut reader, mut all) = (Reader::new(file), Vec::new());
        while let Some(bytes) = reader.next().await? {
            if bytes.len() > most - all.len() {
                return Err(Errno::EFBIG.into());
            }
            all.extend_from_slice(&bytes);
        }
        Ok(all)
    };
}
