//! The calls of the tests by the client library in place of the kernel, chosen by `ONPATH_THROUGH`.
//!
//! Paths below [`TOP`] are the client's, and so are descriptors that opening them gives: each is the writing end of a pipe, so that the kernel
//! numbers, copies and closes it as it does any other. Who calls is as whom the thread is known to the kernel.

mod attributes;
mod descriptors;
mod names;
mod opening;
mod xattrs;

use super::sys::R;
use descriptors::Description;
use onpath_client::blocking::{Client, Inode};
use onpath_client::{Caller, Counters, Error, Options};
use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

pub use descriptors::sweep;
pub use onpath_client::Link;

/// A directory of the file system under test, which the kernel does not know: what is in it has the same path for the client.
pub const TOP: &str = "/through-a-client";

static CLIENT: OnceLock<Client> = OnceLock::new();

thread_local! {
    /// The working directory of the thread, if it is one of the client's.
    static HERE: RefCell<Option<Client>> = const { RefCell::new(None) };
}

/// How the calls go through a client, if they do: with kept ways, by asking a path node each time, or name by name.
pub fn options() -> Option<Options> {
    let way = std::env::var("ONPATH_THROUGH").ok()?;
    let all = Options::default();
    Some(match way.as_str() {
        "kept" => all,
        "asked" => Options { path_cache: 0, ..all },
        "names" => Options { path_nodes: false, ..all },
        _ => panic!("ONPATH_THROUGH={way} is none of kept, asked and names"),
    })
}

/// From now on what is below [`TOP`] is this client's.
pub fn begin(client: Client) {
    done_by_client(client.mkdir(&Caller::root(), TOP, 0o755)).expect("mkdir of the top");
    assert!(CLIENT.set(client).is_ok(), "one client");
}

/// Ends the session that [`begin`] was given.
pub fn end() {
    sweep();
    if let (Some(client), Some(options)) = (CLIENT.get().cloned(), options()) {
        assert_way(&client.counters(), &options);
        client.close();
    }
}

/// Paths were followed in the way that was chosen: a path node that nobody asks would be noticed by no test.
fn assert_way(done: &Counters, options: &Options) {
    // A few calls need not have followed any path twice.
    if done.requests < REQUESTS_OF_A_SUITE {
        return;
    }
    let (followed, kept) = (done.names_followed > 0, done.paths_kept > 0);
    let wanted = (options.path_nodes, options.path_nodes && options.path_cache > 0);
    assert_eq!((followed, kept), wanted, "of {done:?}");
}

/// More requests than tests that each follow a path once need.
const REQUESTS_OF_A_SUITE: u64 = 1_000;

/// As whom a call is done: with the ids that count for files, or with those that access(2) asks about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ids {
    Effective,
    Real,
}

/// Who the calling thread is to the kernel.
fn caller(ids: Ids) -> Caller {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("a thread has a status");
    let fields = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line of it");
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let number = |text: &str| text.parse::<u32>().expect("a number");
    let bits = |name| u64::from_str_radix(&fields(name)[0], 16).expect("bits");
    // Real, effective, saved, and the one that counts for files.
    let column = if ids == Ids::Real { 0 } else { 3 };
    let id = |name| number(&fields(name)[column]);
    let uid = id("Uid:");
    let capabilities = match ids {
        Ids::Effective => bits("CapEff:"),
        // As access(2) has it.
        Ids::Real => {
            if uid == 0 {
                bits("CapPrm:")
            } else {
                0
            }
        }
    };
    let umask = u32::from_str_radix(&fields("Umask:")[0], 8).expect("octal digits");
    Caller {
        uid,
        gid: id("Gid:"),
        groups: fields("Groups:").iter().map(|gid| number(gid)).collect(),
        capabilities,
        umask,
    }
}

/// The errno that a call has failed with; other failures fail the test.
fn done_by_client<T>(result: Result<T, Error>) -> R<T> {
    result.map_err(|error| error.raw_os_error().unwrap_or_else(|| panic!("{error}")))
}

/// Where a call on a path of the client's begins.
pub struct At(Where);

enum Where {
    /// A path of the client's, and whether it begins at the root of the file system.
    Path { client: Client, path: Vec<u8>, from_root: bool },
    /// What a descriptor has open: its link in /proc.
    Open(Arc<Description>),
    /// It begins at no directory.
    Nowhere,
}

/// What a path from the working directory is to the client, if it is the client's.
pub fn path(path: impl AsRef<Path>) -> Option<At> {
    at(super::sys::cwd(), path)
}

/// The same from a directory on.
pub fn at(dir: impl AsFd, path: impl AsRef<Path>) -> Option<At> {
    let (client, path, dir) = (CLIENT.get()?, path.as_ref(), dir.as_fd());
    sweep();
    let bytes = || path.as_os_str().as_bytes().to_vec();
    let is_cwd = dir.as_raw_fd() == libc::AT_FDCWD;
    // An empty path is nobody's.
    if path.starts_with(TOP) || is_cwd && bytes().is_empty() {
        return Some(At(Where::Path { client: client.clone(), path: bytes(), from_root: true }));
    }
    if path.is_absolute() {
        return linked(path).map(|open| At(Where::Open(open)));
    }
    if is_cwd {
        return here().map(|here| At(Where::Path { client: here, path: bytes(), from_root: false }));
    }
    let open = descriptors::of(dir)?;
    Some(At(match open.base() {
        _ if bytes().is_empty() => Where::Open(open),
        Some(base) => Where::Path { client: base.clone(), path: bytes(), from_root: false },
        None => Where::Nowhere,
    }))
}

/// Both paths of a call. One of the client's and one of the kernel's is nothing that a client can answer.
pub fn both(one: impl AsRef<Path>, other: impl AsRef<Path>) -> Option<(At, At)> {
    both_at(super::sys::cwd(), one, other)
}

/// The same; the first one from a directory on.
pub fn both_at(dir: impl AsFd, one: impl AsRef<Path>, other: impl AsRef<Path>) -> Option<(At, At)> {
    pair(at(dir, one), path(other))
}

/// What both descriptors of a call have open.
pub fn both_of(one: impl AsFd, other: impl AsFd) -> Option<(Open, Open)> {
    // What is not open the kernel refuses, whatever the other one is.
    if [one.as_fd(), other.as_fd()].into_iter().any(|fd| !descriptors::is_open(fd)) {
        return None;
    }
    pair(of(one), of(other))
}

fn pair<T>(one: Option<T>, other: Option<T>) -> Option<(T, T)> {
    match (one, other) {
        (None, None) => None,
        (Some(one), Some(other)) => Some((one, other)),
        _ => panic!("not through a client: a call on two file systems"),
    }
}

/// What the path of a descriptor in /proc leads to.
fn linked(path: &Path) -> Option<Arc<Description>> {
    let number = ["/proc/thread-self/fd", "/proc/self/fd"].iter().find_map(|fds| path.strip_prefix(fds).ok())?;
    descriptors::of_number(number.to_str()?.parse().ok()?)
}

/// What a descriptor of the client's has open.
pub struct Open(Arc<Description>);

pub fn of(fd: impl AsFd) -> Option<Open> {
    CLIENT.get()?;
    sweep();
    descriptors::of(fd.as_fd()).map(Open)
}

/// Fails the test if it asks something of a descriptor that only the kernel can do.
#[track_caller]
pub fn kernel_only(fd: impl AsFd) {
    assert!(of(fd).is_none(), "not through a client: only the kernel does this");
}

/// The same of a path.
#[track_caller]
pub fn kernel_only_path(at: impl AsRef<Path>) {
    assert!(path(at).is_none(), "not through a client: only the kernel does this");
}

/// Whether calls go through a client.
pub fn is_on() -> bool {
    CLIENT.get().is_some()
}

/// The working directory of this thread, if it is one of the client's: what a thread that it begins starts with.
pub fn here() -> Option<Client> {
    HERE.with_borrow(Clone::clone)
}

/// The working directory of this thread is that one, or none of the client's.
pub fn enter(here: Option<Client>) {
    HERE.set(here);
}

impl At {
    fn place(&self) -> R<(&Client, &[u8])> {
        match &self.0 {
            Where::Path { client, path, .. } => Ok((client, path)),
            Where::Open(_) => panic!("not through a client: a link of /proc"),
            Where::Nowhere => Err(libc::ENOTDIR),
        }
    }

    fn is_from_root(&self) -> bool {
        matches!(self.0, Where::Path { from_root: true, .. })
    }

    fn inode(&self, link: Link) -> R<Inode> {
        if let Where::Open(open) = &self.0 {
            return Ok(open.inode(&caller(Ids::Effective)));
        }
        let (client, path) = self.place()?;
        done_by_client(client.inode(&caller(Ids::Effective), path, link))
    }

    /// chdir(2).
    pub fn chdir(&self) -> R {
        let (client, path) = self.place()?;
        let me = caller(Ids::Effective);
        let here = done_by_client(client.within(&me, path, Link::Follow))?;
        done_by_client(here.access(&me, "/", libc::X_OK as u32))?;
        enter(Some(here));
        Ok(())
    }
}
