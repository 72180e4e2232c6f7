//! How requests come in and replies go out: the trait, and its implementation on `/dev/fuse`.
//!
//! One read gives one request, one writev one reply: header and payload, the payload where it lies.

use std::fmt;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use bytes::Bytes;
use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::abi;

/// Largest WRITE accepted and largest READ asked for, in bytes.
pub const MAX_WRITE: u32 = 1 << 20;
/// The same in pages of 4 KiB (`fs.fuse.max_pages_limit` of the kernel).
pub const MAX_PAGES: u16 = 256;
/// Room for a WRITE of [`MAX_WRITE`] bytes with its headers; the kernel wants at least 8 KiB.
const REQUEST_BYTES: usize = MAX_WRITE as usize + 4096;
/// Buffers a reader keeps while their payloads are still in use elsewhere.
const SPARE_BUFFERS_MAX: usize = 4;
/// Payloads up to this many bytes are copied rather than kept with their buffer of 1 MiB.
const PAYLOAD_COPY_MAX: usize = 64 << 10;

/// What can go wrong with the device.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// Reading a request failed for another reason than the end of the mount.
    #[error("cannot read a request from /dev/fuse: {0}")]
    Read(#[source] Errno),
    /// The kernel refused a reply.
    #[error("the kernel refused the reply to request {unique}: {source}")]
    Reply {
        /// Number of the request.
        unique: u64,
        /// Why.
        #[source]
        source: Errno,
    },
    /// The kernel refused a notification.
    #[error("the kernel refused a notification of kind {code}: {source}")]
    Notify {
        /// Code of the notification, `abi::notify`.
        code: i32,
        /// Why.
        #[source]
        source: Errno,
    },
    /// A second descriptor of the same mount could not be had.
    #[error("cannot open another reader of the mount: {0}")]
    Clone(#[source] Errno),
}

/// Where one request is read into; reused for the next unless a [`Payload`] was kept.
#[derive(Debug)]
pub struct RequestBuffer {
    memory: Arc<Vec<u8>>,
    spare: Vec<Arc<Vec<u8>>>,
    length: usize,
}

impl Default for RequestBuffer {
    fn default() -> Self {
        Self { memory: Arc::new(vec![0; REQUEST_BYTES]), spare: Vec::new(), length: 0 }
    }
}

impl RequestBuffer {
    /// Memory to read into: the last one, a spare one, or a new one if payloads of all are still in use.
    fn writable(&mut self) -> &mut [u8] {
        self.length = 0;
        if Arc::get_mut(&mut self.memory).is_none() {
            let free = self.spare.iter_mut().position(|spare| Arc::get_mut(spare).is_some());
            let next = match free {
                Some(index) => self.spare.swap_remove(index),
                None => Arc::new(vec![0; REQUEST_BYTES]),
            };
            let kept = std::mem::replace(&mut self.memory, next);
            if self.spare.len() < SPARE_BUFFERS_MAX {
                self.spare.push(kept);
            }
        }
        Arc::get_mut(&mut self.memory).map_or(&mut [], Vec::as_mut_slice)
    }

    /// The bytes of the request that was read.
    pub fn request(&self) -> Payload<'_> {
        Payload { bytes: &self.memory[..self.length], memory: Some(&self.memory) }
    }
}

/// Bytes inside a request, which can be kept beyond it.
#[derive(Clone, Copy)]
pub struct Payload<'a> {
    bytes: &'a [u8],
    memory: Option<&'a Arc<Vec<u8>>>,
}

/// A kept payload: the buffer it lies in, and where.
struct Kept {
    memory: Arc<Vec<u8>>,
    start: usize,
    length: usize,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }
}

impl<'a> Payload<'a> {
    /// Bytes that do not come from a request buffer.
    pub fn borrowed(bytes: &'a [u8]) -> Self {
        Self { bytes, memory: None }
    }

    /// `part`, which must lie inside this payload, with the same memory.
    pub(crate) fn part(self, part: &'a [u8]) -> Self {
        debug_assert!(self.bytes.as_ptr_range().start <= part.as_ptr_range().start);
        debug_assert!(part.as_ptr_range().end <= self.bytes.as_ptr_range().end);
        Self { bytes: part, memory: self.memory }
    }

    /// The bytes, for as long as the request is borrowed.
    pub fn as_slice(&self) -> &'a [u8] {
        self.bytes
    }

    /// The bytes, for good. Large ones are not copied: the request's buffer stays in use until they are dropped.
    pub fn to_bytes(&self) -> Bytes {
        match self.memory {
            Some(memory) if self.bytes.len() > PAYLOAD_COPY_MAX => {
                let start = self.bytes.as_ptr().addr() - memory.as_ptr().addr();
                Bytes::from_owner(Kept { memory: Arc::clone(memory), start, length: self.bytes.len() })
            }
            _ => Bytes::copy_from_slice(self.bytes),
        }
    }
}

impl fmt::Debug for Payload<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes.len())
    }
}

/// A message to the kernel that answers nothing. Which of them may block where: rules in [`crate::serve`].
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "fields are named after what they are")]
pub enum Notification<'a> {
    /// Every cached name is to be looked up again (Linux 6.16). Never blocks.
    IncrementEpoch,
    /// Forget the attributes of an inode. Never blocks.
    InvalidateAttributes { inode: u64 },
    /// Forget attributes and cached bytes `offset..offset + length` (`length` 0: to the end). Blocks while a READ or WRITE
    /// of such a page waits for its reply.
    InvalidateData { inode: u64, offset: i64, length: i64 },
    /// Look the name up again before the next use (`expire_only`, mounts on it survive), or drop it. Blocks while a request
    /// holds the directory's lock.
    InvalidateEntry { parent: u64, name: &'a [u8], expire_only: bool },
    /// The name is gone: drop it, tell watchers. Blocks while a request holds the directory's lock.
    Delete { parent: u64, child: u64, name: &'a [u8] },
}

/// Requests in, replies and notifications out. Replies may be sent from any thread.
pub trait Transport: Send + Sync {
    /// Waits for the next request. `Ok(false)`: the file system is unmounted (or the connection aborted), no more will come.
    fn read_request(&self, buffer: &mut RequestBuffer) -> Result<bool, TransportError>;

    /// Answers request `unique`: `error` is 0 and `parts` are the answer, or `error` (positive) says why not and `parts` is
    /// empty. A request that the kernel has given up in the meantime is no error.
    fn reply(&self, unique: u64, error: i32, parts: &[&[u8]]) -> Result<(), TransportError>;

    /// Tells the kernel something. `Ok(false)`: it did not know the inode or name (nothing to invalidate).
    fn notify(&self, notification: Notification<'_>) -> Result<bool, TransportError>;

    /// A transport of the same mount for one more reader thread.
    fn another_reader(&self) -> Result<Arc<dyn Transport>, TransportError>;
}

/// The transport on `/dev/fuse`.
#[derive(Debug)]
pub struct DevFuse {
    device: OwnedFd,
}

/// Replies of up to this many parts need no memory for the list of parts.
const REPLY_PARTS_INLINE: usize = 7;
/// Replies of more parts (the kernel's IOV_MAX less the header) are joined before they are sent.
const REPLY_PARTS_MAX: usize = 1023;

impl DevFuse {
    /// `device` is an open `/dev/fuse` that is, or is about to be, given to mount(2).
    pub fn new(device: OwnedFd) -> Self {
        Self { device }
    }

    fn send(&self, unique: u64, error: i32, parts: &[&[u8]]) -> Result<(), Errno> {
        let payload: usize = parts.iter().map(|part| part.len()).sum();
        let len = u32::try_from(size_of::<abi::OutHeader>() + payload).map_err(|_| Errno::TOOBIG)?;
        let header = abi::OutHeader { len, error, unique };
        if parts.len() > REPLY_PARTS_INLINE {
            return self.send_many(&header, parts);
        }
        let mut slices = [IoSlice::new(&[]); REPLY_PARTS_INLINE + 1];
        slices[0] = IoSlice::new(header.as_bytes());
        for (slice, part) in slices[1..].iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
        }
        rustix::io::writev(&self.device, &slices[..=parts.len()]).map(drop)
    }

    #[cold]
    fn send_many(&self, header: &abi::OutHeader, parts: &[&[u8]]) -> Result<(), Errno> {
        let joined;
        let mut slices = vec![IoSlice::new(header.as_bytes())];
        if parts.len() > REPLY_PARTS_MAX {
            joined = parts.concat();
            slices.push(IoSlice::new(&joined));
        } else {
            slices.extend(parts.iter().map(|part| IoSlice::new(part)));
        }
        rustix::io::writev(&self.device, &slices).map(drop)
    }
}

impl AsFd for DevFuse {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl Transport for DevFuse {
    fn read_request(&self, buffer: &mut RequestBuffer) -> Result<bool, TransportError> {
        loop {
            match rustix::io::read(&self.device, buffer.writable()) {
                Ok(length) => {
                    buffer.length = length;
                    return Ok(length > 0);
                }
                // ENOENT: the request was interrupted before it could be copied; the kernel has dropped it.
                Err(Errno::INTR | Errno::NOENT | Errno::AGAIN) => {}
                Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(false),
                Err(error) => return Err(TransportError::Read(error)),
            }
        }
    }

    fn reply(&self, unique: u64, error: i32, parts: &[&[u8]]) -> Result<(), TransportError> {
        loop {
            return match self.send(unique, -error, parts) {
                // ENOENT: the caller is gone. ENODEV, ECONNABORTED: so is the mount; the readers see it too.
                Ok(()) | Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => Ok(()),
                Err(Errno::INTR) => continue,
                Err(source) => Err(TransportError::Reply { unique, source }),
            };
        }
    }

    fn notify(&self, notification: Notification<'_>) -> Result<bool, TransportError> {
        use abi::notify as code;
        let length = |name: &[u8]| u32::try_from(name.len()).unwrap_or(u32::MAX);
        let send = |code, parts: &[&[u8]]| match self.send(0, code, parts) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => Ok(false),
            Err(source) => Err(TransportError::Notify { code, source }),
        };
        match notification {
            Notification::IncrementEpoch => send(code::INC_EPOCH, &[]),
            Notification::InvalidateAttributes { inode } => {
                let out = abi::NotifyInvalInodeOut { ino: inode, off: -1, len: 0 };
                send(code::INVAL_INODE, &[out.as_bytes()])
            }
            Notification::InvalidateData { inode, offset, length } => {
                let out = abi::NotifyInvalInodeOut { ino: inode, off: offset.max(0), len: length };
                send(code::INVAL_INODE, &[out.as_bytes()])
            }
            Notification::InvalidateEntry { parent, name, expire_only } => {
                let flags = if expire_only { code::EXPIRE_ONLY } else { 0 };
                let out = abi::NotifyInvalEntryOut { parent, namelen: length(name), flags };
                send(code::INVAL_ENTRY, &[out.as_bytes(), name, &[0]])
            }
            Notification::Delete { parent, child, name } => {
                let out = abi::NotifyDeleteOut { parent, child, namelen: length(name), padding: 0 };
                send(code::DELETE, &[out.as_bytes(), name, &[0]])
            }
        }
    }

    fn another_reader(&self) -> Result<Arc<dyn Transport>, TransportError> {
        Ok(Arc::new(DevFuse::new(clone_device::clone(&self.device).map_err(TransportError::Clone)?)))
    }
}

/// FUSE_DEV_IOC_CLONE, the one call of this crate that the safe wrappers lack.
mod clone_device {
    #![allow(unsafe_code)]

    use std::os::fd::{AsRawFd, OwnedFd};

    use rustix::fs::{Mode, OFlags, open};
    use rustix::io::Errno;
    use rustix::ioctl::{Setter, ioctl, opcode};

    /// A new descriptor of `/dev/fuse` on the connection of `device`.
    pub(super) fn clone(device: &OwnedFd) -> Result<OwnedFd, Errno> {
        const FUSE_DEV_IOC_CLONE: rustix::ioctl::Opcode = opcode::read::<u32>(229, 0);
        let another = open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let source = u32::try_from(device.as_raw_fd()).map_err(|_| Errno::BADF)?;
        // SAFETY: the opcode takes a pointer to a u32 that the kernel reads only, which is what `Setter` passes.
        unsafe { ioctl(&another, Setter::<FUSE_DEV_IOC_CLONE, u32>::new(source)) }?;
        Ok(another)
    }
}
