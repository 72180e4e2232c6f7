//! The event loop: negotiates, reads requests, hands them to a [`Filesystem`], returns when the mount is gone.
//!
//! Requests run on the reader thread, which is neither pinned nor one of many: on few cores a request that changes threads
//! costs more than it does. Therefore what a handler may send to the kernel before its answer is limited:
//! - [`IncrementEpoch`](crate::transport::Notification) and `InvalidateAttributes` anywhere;
//! - all other notifications from another thread, for which no answer may wait: they block on locks that a request holds
//!   until it is answered.

use std::sync::Arc;

use rustix::io::Errno;

use crate::abi::{self, init};
use crate::reply::Replier;
use crate::request::{Operation, ParseError, Request};
use crate::transport::{MAX_PAGES, MAX_WRITE, RequestBuffer, Transport, TransportError};

/// The INIT flags asked for; those that the kernel does not offer are left out.
pub const INIT_FLAGS: u64 = init::ASYNC_READ
    | init::POSIX_LOCKS
    | init::ATOMIC_O_TRUNC
    | init::EXPORT_SUPPORT
    | init::BIG_WRITES
    | init::DONT_MASK
    | init::FLOCK_LOCKS
    | init::AUTO_INVAL_DATA
    | init::DO_READDIRPLUS
    | init::ASYNC_DIO
    | init::PARALLEL_DIROPS
    | init::ABORT_ERROR
    | init::MAX_PAGES
    | init::HANDLE_KILLPRIV_V2
    | init::INIT_EXT
    | init::CREATE_SUPP_GROUP
    | init::HAS_EXPIRE_ONLY
    | init::DIRECT_IO_ALLOW_MMAP;

/// Asynchronous requests (read-ahead, direct I/O, RELEASE) the kernel may have under way.
const MAX_BACKGROUND: u16 = 64;
/// Number of them at which the kernel calls the mount congested.
const CONGESTION_THRESHOLD: u16 = 48;
/// Most reader threads of one mount.
const READERS_MAX: usize = 64;

/// What answers the requests of a mount.
pub trait Filesystem: Send + Sync {
    /// Answers `request` through `replier`, now or later, from this or another thread. FORGET, INTERRUPT, INIT and DESTROY
    /// do not come here. Must not touch files of the mount itself.
    fn handle(&self, request: Request<'_>, replier: Replier);

    /// The kernel takes back `lookups` of the entries given for `nodeid`.
    fn forget(&self, _nodeid: u64, _lookups: u64) {}

    /// The caller of request `unique` got a signal: answer it soon, EINTR if nothing has happened yet. The request may be
    /// answered already, or (with several readers) not have come yet.
    fn interrupt(&self, _unique: u64) {}

    /// INIT flags to ask for.
    fn init_flags(&self) -> u64 {
        INIT_FLAGS
    }

    /// What was agreed upon, told before the first request.
    fn negotiated(&self, _negotiated: &Negotiated) {}
}

/// What kernel and server agreed upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Minor protocol version, the smaller of both.
    pub minor: u32,
    /// INIT flags in force.
    pub flags: u64,
}

/// How a mount is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// Reader threads, 1 to 64. One is best on few cores.
    pub readers: usize,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self { readers: 1 }
    }
}

/// Why serving ended other than by unmounting.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The device failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The kernel's FUSE is older than Linux 5.4.
    #[error(
        "this kernel speaks FUSE {major}.{minor}; {}.{} or newer (Linux 5.4) is needed",
        abi::KERNEL_VERSION,
        abi::KERNEL_MINOR_VERSION_MIN
    )]
    KernelTooOld {
        /// Major version offered.
        major: u32,
        /// Minor version offered.
        minor: u32,
    },
    /// A number of readers that is not possible.
    #[error("a mount has 1 to {READERS_MAX} reader threads, not {0}")]
    Readers(usize),
    /// A reader thread could not be started.
    #[error("cannot start a reader thread: {0}")]
    Thread(#[source] std::io::Error),
}

/// Serves the mount behind `transport` until it is unmounted. Reads on the calling thread, and on `readers - 1` more.
/// `mounted` runs once, when INIT has been answered and before the next request is read.
pub fn serve<F: Filesystem + ?Sized>(
    transport: &Arc<dyn Transport>,
    filesystem: &F,
    options: ServeOptions,
    mounted: impl FnOnce(),
) -> Result<(), ServeError> {
    if !(1..=READERS_MAX).contains(&options.readers) {
        return Err(ServeError::Readers(options.readers));
    }
    let mut buffer = RequestBuffer::default();
    let Some(negotiated) = wait_for_init(transport, filesystem.init_flags(), &mut buffer)? else {
        return Ok(());
    };
    tracing::debug!(minor = negotiated.minor, flags = negotiated.flags, "mounted");
    filesystem.negotiated(&negotiated);
    mounted();
    std::thread::scope(|scope| {
        let mut others = Vec::new();
        for number in 1..options.readers {
            let transport = transport.another_reader()?;
            let reader = move || read_requests(&transport, filesystem, &mut RequestBuffer::default());
            let builder = std::thread::Builder::new().name(format!("fuse-reader-{number}"));
            others.push(builder.spawn_scoped(scope, reader).map_err(ServeError::Thread)?);
        }
        let mut result = read_requests(transport, filesystem, &mut buffer);
        for other in others {
            match other.join() {
                Ok(ended) => result = result.and(ended),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(result?)
    })
}

fn read_requests<F: Filesystem + ?Sized>(
    transport: &Arc<dyn Transport>,
    filesystem: &F,
    buffer: &mut RequestBuffer,
) -> Result<(), TransportError> {
    while transport.read_request(buffer)? {
        match Request::parse(buffer.request()) {
            Ok(request) => dispatch(transport, filesystem, request),
            Err(error) => refuse(transport, error),
        }
    }
    Ok(())
}

fn refuse(transport: &Arc<dyn Transport>, error: ParseError) {
    tracing::warn!(%error, "request refused");
    if let ParseError::Malformed { unique, opcode, .. } = error
        && !matches!(opcode, abi::opcode::FORGET | abi::opcode::BATCH_FORGET)
    {
        Replier::new(unique, Arc::clone(transport)).error(Errno::IO);
    }
}

fn dispatch<F: Filesystem + ?Sized>(transport: &Arc<dyn Transport>, filesystem: &F, request: Request<'_>) {
    let header = request.header;
    match request.operation {
        Operation::Forget { lookups } => filesystem.forget(header.nodeid, lookups),
        Operation::BatchForget { forgets } => {
            forgets.iter().for_each(|one| filesystem.forget(one.nodeid, one.nlookup));
        }
        Operation::Interrupt { unique } => filesystem.interrupt(unique),
        Operation::Destroy => Replier::new(header.unique, Arc::clone(transport)).ok(),
        Operation::Unknown { .. } => Replier::new(header.unique, Arc::clone(transport)).error(Errno::NOSYS),
        Operation::Init { .. } => Replier::new(header.unique, Arc::clone(transport)).error(Errno::IO),
        _ => filesystem.handle(request, Replier::new(header.unique, Arc::clone(transport))),
    }
}

/// Answers INIT, which is the first request. `None`: unmounted before.
fn wait_for_init(
    transport: &Arc<dyn Transport>,
    wanted: u64,
    buffer: &mut RequestBuffer,
) -> Result<Option<Negotiated>, ServeError> {
    while transport.read_request(buffer)? {
        let request = match Request::parse(buffer.request()) {
            Ok(request) => request,
            Err(error) => {
                refuse(transport, error);
                continue;
            }
        };
        let replier = Replier::new(request.header.unique, Arc::clone(transport));
        let Operation::Init { major, minor, max_readahead, flags } = request.operation else {
            replier.error(Errno::IO);
            continue;
        };
        if major > abi::KERNEL_VERSION {
            // The kernel answers our major version with another INIT.
            replier.init(&abi::InitOut {
                major: abi::KERNEL_VERSION,
                minor: abi::KERNEL_MINOR_VERSION,
                ..Default::default()
            });
            continue;
        }
        if major < abi::KERNEL_VERSION || minor < abi::KERNEL_MINOR_VERSION_MIN {
            replier.error(Errno::PROTO);
            return Err(ServeError::KernelTooOld { major, minor });
        }
        let (out, negotiated) = negotiate(minor, max_readahead, flags & wanted);
        replier.init(&out);
        return Ok(Some(negotiated));
    }
    Ok(None)
}

fn negotiate(minor: u32, max_readahead: u32, flags: u64) -> (abi::InitOut, Negotiated) {
    let minor = minor.min(abi::KERNEL_MINOR_VERSION);
    let out = abi::InitOut {
        major: abi::KERNEL_VERSION,
        minor,
        max_readahead,
        flags: (flags & u64::from(u32::MAX)) as u32,
        max_background: MAX_BACKGROUND,
        congestion_threshold: CONGESTION_THRESHOLD,
        max_write: MAX_WRITE,
        time_gran: 1,
        max_pages: MAX_PAGES,
        flags2: (flags >> 32) as u32,
        ..abi::InitOut::default()
    };
    (out, Negotiated { minor, flags })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_are_fatal_or_wrong_are_not_asked_for() {
        let forbidden = init::WRITEBACK_CACHE
            | init::CACHE_SYMLINKS
            | init::READDIRPLUS_AUTO
            | init::NO_OPEN_SUPPORT
            | init::NO_OPENDIR_SUPPORT
            | init::POSIX_ACL
            | init::SETXATTR_EXT
            | init::ALLOW_IDMAP
            | init::SECURITY_CTX
            | init::PASSTHROUGH;
        assert_eq!(INIT_FLAGS & forbidden, 0);
    }

    #[test]
    fn flags_above_bit_31_travel_in_flags2() {
        let (out, negotiated) = negotiate(99, 1, INIT_FLAGS);
        assert_eq!(u64::from(out.flags) | u64::from(out.flags2) << 32, INIT_FLAGS);
        assert_eq!(negotiated.minor, abi::KERNEL_MINOR_VERSION);
        assert_eq!(size_of::<abi::InitOut>(), 64);
    }
}
