//! Listings of directories.

use crate::caller::Caller;
use crate::error::{Error, ErrorKind};
use crate::metadata::{FileType, Metadata};
use crate::session::{Asks, Session, restarting};
use crate::walk::{self, Link};
use onpath_session::fs::{FsOp, FsReply, Handle};
use onpath_wire::errno::Errno;
use onpath_wire::ids::{Cookie, InodeId};
use onpath_wire::inode::Kind;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// What a page of a listing is asked for, bytes.
const PAGE_BYTES: u32 = 64 << 10;
/// Names that [`Sorted`] keeps.
const SORTED_MAX: usize = 1 << 16;

/// A name of a directory, and what it led to when its page was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Any bytes but a slash and NUL, at most 255.
    pub name: Vec<u8>,
    /// Inode number.
    pub ino: u64,
    /// What it leads to.
    pub file_type: FileType,
    /// Its attributes, if they were asked for and the caller may search the directory.
    pub metadata: Option<Metadata>,
}

/// A directory that is being read, page after page. Names that are there from its beginning to its end come once.
pub struct Listing {
    session: Session,
    caller: Caller,
    path: Vec<u8>,
    id: InodeId,
    handle: Handle,
    after: Cookie,
    attributes: bool,
}

impl Drop for Listing {
    fn drop(&mut self) {
        if self.session.is_here() {
            self.session.requests.release(self.handle);
        }
    }
}

pub(crate) async fn open(asks: &Asks<'_>, session: &Session, path: &[u8], attributes: bool) -> Result<Listing, Error> {
    let attr = walk::resolve(asks, path, Link::Follow).await?;
    if attr.kind != Kind::Directory {
        return Err(Errno::ENOTDIR.into());
    }
    match asks.ask(FsOp::OpenDir { id: attr.id, noatime: false }).await? {
        FsReply::Opened(opened) => {
            let (session, caller, path) = (session.clone(), asks.caller.clone(), path.to_vec());
            // "." and ".." are nobody's names.
            let (handle, after) = (opened.handle, Cookie::DOTDOT);
            Ok(Listing { session, caller, path, id: attr.id, handle, after, attributes })
        }
        _ => Err(Errno::EIO.into()),
    }
}

impl Listing {
    /// The next entries; none at the end.
    ///
    /// # Errors
    /// As getdents(2).
    pub async fn next(&mut self) -> Result<Option<Vec<Entry>>, Error> {
        match self.page().await {
            Ok(page) => Ok(page),
            Err(error) => Err(error.at(&self.session.name, &self.path)),
        }
    }

    /// Returns when the directory is durable, with its names.
    ///
    /// # Errors
    /// As fsync(2).
    pub async fn sync(&self) -> Result<(), Error> {
        if !self.session.is_here() {
            return Err(Error::new(ErrorKind::Forked));
        }
        let synced = self.session.asks(&self.caller).ask(FsOp::Fsync { handle: self.handle }).await;
        synced.map(drop).map_err(|error| error.at(&self.session.name, &self.path))
    }

    async fn page(&mut self) -> Result<Option<Vec<Entry>>, Error> {
        if !self.session.is_here() {
            return Err(Error::new(ErrorKind::Forked));
        }
        let asks = self.session.asks(&self.caller);
        let (handle, after, bytes) = (self.handle, self.after, PAGE_BYTES);
        let op = match self.attributes {
            true => FsOp::ReadDirPlus { handle, after, bytes },
            false => FsOp::ReadDir { handle, after, bytes },
        };
        let page = match asks.ask(op).await? {
            FsReply::Dir(entries) => entries.into_iter().map(|entry| (entry, None)).collect(),
            FsReply::DirPlus(entries) => entries,
            _ => return Err(Errno::EIO.into()),
        };
        let Some((last, _)) = page.last() else { return Ok(None) };
        let next = last.cookie;
        // Attributes that a page has not told are asked for name by name, all at once.
        let asked: Vec<_> = page
            .into_iter()
            .map(|(entry, attr)| {
                let wanted = self.attributes && attr.is_none();
                let lookup = wanted.then(|| asks.ask(FsOp::Lookup { parent: self.id, name: entry.name.clone() }));
                (entry, attr, lookup)
            })
            .collect();
        let mut entries = Vec::with_capacity(asked.len());
        for (entry, attr, lookup) in asked {
            let attr = match lookup {
                None => attr,
                Some(lookup) => match lookup.await {
                    Ok(FsReply::Entry(attr)) => Some(attr),
                    // It is gone.
                    Ok(_) => continue,
                    Err(error) if error.is(Errno::ENOENT) => continue,
                    Err(error) if error.is(Errno::EACCES) => None,
                    Err(error) => return Err(error),
                },
            };
            entries.push(Entry {
                name: entry.name.as_bytes().to_vec(),
                ino: entry.child.0,
                file_type: entry.kind.into(),
                metadata: attr.map(|attr| Metadata::of(&attr, None)),
            });
        }
        // Only now: who drops this future reads the page again.
        self.after = next;
        Ok(Some(entries))
    }
}

/// A directory in the byte order of its names, from a copy that is taken when it is first asked for and whenever it has come to an end: at most
/// 65,536 names at a time, whatever the size of the directory.
pub struct Sorted {
    session: Session,
    caller: Caller,
    path: Vec<u8>,
    /// The names behind `from`, sorted.
    names: Vec<Entry>,
    from: Option<Vec<u8>>,
    /// All names behind `from` are there.
    complete: bool,
    taken: bool,
}

/// The largest first.
struct ByName(Entry);

impl PartialEq for ByName {
    fn eq(&self, other: &ByName) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for ByName {}

impl PartialOrd for ByName {
    fn partial_cmp(&self, other: &ByName) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByName {
    fn cmp(&self, other: &ByName) -> Ordering {
        self.0.name.cmp(&other.0.name)
    }
}

impl Sorted {
    pub(crate) fn new(asks: &Asks<'_>, session: &Session, path: &[u8]) -> Sorted {
        let (session, caller, path) = (session.clone(), asks.caller.clone(), path.to_vec());
        Sorted { session, caller, path, names: Vec::new(), from: None, complete: false, taken: false }
    }

    /// The `k` names that follow `name` in byte order, which need not be there; without `name` the first ones. Fewer: there are no more.
    ///
    /// # Errors
    /// As opendir(3) and getdents(2).
    pub async fn after(&mut self, name: Option<&[u8]>, k: usize) -> Result<Vec<Entry>, Error> {
        let k = k.min(SORTED_MAX);
        if !self.has(name, k) {
            let taken = self.take(name).await;
            taken.map_err(|error| error.at(&self.session.name, &self.path))?;
        }
        Ok(self.names[self.begin(name)..].iter().take(k).cloned().collect())
    }

    /// Where the names behind `name` begin in the copy.
    fn begin(&self, name: Option<&[u8]>) -> usize {
        name.map_or(0, |name| self.names.partition_point(|entry| entry.name.as_slice() <= name))
    }

    fn has(&self, name: Option<&[u8]>, k: usize) -> bool {
        self.taken && name >= self.from.as_deref() && (self.complete || self.names.len() - self.begin(name) >= k)
    }

    async fn take(&mut self, name: Option<&[u8]>) -> Result<(), Error> {
        if !self.session.is_here() {
            return Err(Error::new(ErrorKind::Forked));
        }
        let Sorted { session, caller, path, .. } = &*self;
        let mut listing = restarting!(session, caller, |asks| open(asks, session, path, false))?;
        let (mut least, mut complete) = (BinaryHeap::new(), true);
        while let Some(page) = listing.page().await? {
            for entry in page.into_iter().filter(|entry| Some(entry.name.as_slice()) > name) {
                least.push(ByName(entry));
                if least.len() > SORTED_MAX {
                    least.pop();
                    complete = false;
                }
            }
        }
        self.names = least.into_sorted_vec().into_iter().map(|ByName(entry)| entry).collect();
        (self.from, self.complete, self.taken) = (name.map(<[u8]>::to_vec), complete, true);
        Ok(())
    }
}
