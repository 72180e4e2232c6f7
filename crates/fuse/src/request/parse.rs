//! From bytes to [`Request`]. Total: every slice of bytes gives a request or a [`ParseError`].

use std::ffi::CStr;

use zerocopy::{FromBytes, Immutable, KnownLayout};

use super::{Forgets, Header, LockRequest, Operation, Request, SetAttributes, SetTime};
use crate::abi::{self, opcode};
use crate::transport::Payload;

/// Bytes that are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Not even a header: there is nobody to answer.
    #[error("a request of {length} bytes is shorter than its header")]
    NoHeader {
        /// Bytes read.
        length: usize,
    },
    /// A header, but a body that does not fit its opcode: answered with EIO.
    #[error("malformed {} request (opcode {opcode}): {reason}", abi::opcode_name(*opcode))]
    Malformed {
        /// Number of the request.
        unique: u64,
        /// Its opcode.
        opcode: u32,
        /// What is wrong.
        reason: &'static str,
    },
}

type Parsed<T> = Result<T, &'static str>;

/// What is left of the body.
struct Body<'a> {
    rest: &'a [u8],
}

impl<'a> Body<'a> {
    fn take<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Parsed<T> {
        let (value, rest) = T::read_from_prefix(self.rest).map_err(|_| "the argument structure is cut off")?;
        self.rest = rest;
        Ok(value)
    }

    fn string(&mut self) -> Parsed<&'a CStr> {
        let text = CStr::from_bytes_until_nul(self.rest).map_err(|_| "a string is not terminated")?;
        self.rest = &self.rest[text.count_bytes() + 1..];
        Ok(text)
    }

    fn name(&mut self) -> Parsed<&'a CStr> {
        let name = self.string()?;
        match name.to_bytes() {
            [] => Err("a name is empty"),
            bytes if bytes.contains(&b'/') => Err("a name contains '/'"),
            _ => Ok(name),
        }
    }

    fn bytes(&mut self, length: usize) -> Parsed<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or("the data is shorter than announced")?;
        self.rest = rest;
        Ok(bytes)
    }
}

impl<'a> Request<'a> {
    /// Reads the request in `buffer`, which holds exactly the bytes of one read of the device.
    pub fn parse(buffer: Payload<'a>) -> Result<Request<'a>, ParseError> {
        let bytes = buffer.as_slice();
        let (head, rest) =
            abi::InHeader::read_from_prefix(bytes).map_err(|_| ParseError::NoHeader { length: bytes.len() })?;
        let malformed = |reason| ParseError::Malformed { unique: head.unique, opcode: head.opcode, reason };
        if head.len as usize != bytes.len() {
            return Err(malformed("the header states another length"));
        }
        let extensions_at = rest.len().checked_sub(usize::from(head.total_extlen) * 8);
        let (body, extensions) =
            rest.split_at(extensions_at.ok_or_else(|| malformed("extensions longer than the body"))?);
        let supplementary_group = supplementary_group(extensions).map_err(malformed)?;
        let operation = operation(&head, Body { rest: body }, buffer).map_err(malformed)?;
        let abi::InHeader { opcode, unique, nodeid, uid, gid, pid, .. } = head;
        let header = Header { opcode, unique, nodeid, uid, gid, pid };
        Ok(Request { header, supplementary_group, operation })
    }
}

/// The first group of an `EXT_GROUPS` extension (the kernel sends one at most).
fn supplementary_group(extensions: &[u8]) -> Parsed<Option<u32>> {
    let mut body = Body { rest: extensions };
    while !body.rest.is_empty() {
        let head: abi::ExtHeader = body.take()?;
        let length =
            (head.size as usize).checked_sub(size_of::<abi::ExtHeader>()).ok_or("an extension is too short")?;
        let mut extension = Body { rest: body.bytes(length)? };
        if head.kind == abi::EXT_GROUPS && extension.take::<u32>()? > 0 {
            return Ok(Some(extension.take()?));
        }
    }
    Ok(None)
}

fn operation<'a>(head: &abi::InHeader, mut body: Body<'a>, buffer: Payload<'a>) -> Parsed<Operation<'a>> {
    match head.opcode {
        opcode::LOOKUP
        | opcode::UNLINK
        | opcode::RMDIR
        | opcode::SYMLINK
        | opcode::MKNOD
        | opcode::MKDIR
        | opcode::RENAME
        | opcode::RENAME2
        | opcode::LINK => name_operation(head.opcode, &mut body),
        opcode::OPEN
        | opcode::OPENDIR
        | opcode::CREATE
        | opcode::TMPFILE
        | opcode::FLUSH
        | opcode::RELEASE
        | opcode::RELEASEDIR
        | opcode::FSYNC
        | opcode::FSYNCDIR => handle_operation(head.opcode, &mut body),
        opcode::READ
        | opcode::READDIR
        | opcode::READDIRPLUS
        | opcode::WRITE
        | opcode::FALLOCATE
        | opcode::LSEEK
        | opcode::COPY_FILE_RANGE
        | opcode::COPY_FILE_RANGE_64 => data_operation(head.opcode, &mut body, buffer),
        opcode::SETXATTR | opcode::GETXATTR | opcode::LISTXATTR | opcode::REMOVEXATTR => {
            xattr_operation(head.opcode, &mut body)
        }
        opcode::GETLK | opcode::SETLK | opcode::SETLKW => lock_operation(head.opcode, &mut body),
        opcode::GETATTR | opcode::STATX | opcode::SETATTR | opcode::READLINK | opcode::ACCESS | opcode::STATFS => {
            attribute_operation(head.opcode, &mut body)
        }
        _ => control_operation(head.opcode, &mut body),
    }
}

fn name_operation<'a>(code: u32, body: &mut Body<'a>) -> Parsed<Operation<'a>> {
    Ok(match code {
        opcode::LOOKUP => Operation::Lookup { name: body.name()? },
        opcode::UNLINK => Operation::Unlink { name: body.name()? },
        opcode::RMDIR => Operation::Rmdir { name: body.name()? },
        opcode::SYMLINK => Operation::Symlink { name: body.name()?, target: body.string()? },
        opcode::MKNOD => {
            let arg: abi::MknodIn = body.take()?;
            Operation::Mknod { name: body.name()?, mode: arg.mode, umask: arg.umask, device: arg.rdev }
        }
        opcode::MKDIR => {
            let arg: abi::MkdirIn = body.take()?;
            Operation::Mkdir { name: body.name()?, mode: arg.mode, umask: arg.umask }
        }
        opcode::LINK => {
            let arg: abi::LinkIn = body.take()?;
            Operation::Link { inode: arg.oldnodeid, name: body.name()? }
        }
        _ => {
            let (new_parent, flags) = if code == opcode::RENAME {
                (body.take::<abi::RenameIn>()?.newdir, 0)
            } else {
                let arg: abi::Rename2In = body.take()?;
                (arg.newdir, arg.flags)
            };
            Operation::Rename { name: body.name()?, new_parent, new_name: body.name()?, flags }
        }
    })
}

fn handle_operation<'a>(code: u32, body: &mut Body<'a>) -> Parsed<Operation<'a>> {
    Ok(match code {
        opcode::OPEN | opcode::OPENDIR => {
            let arg: abi::OpenIn = body.take()?;
            match code {
                opcode::OPENDIR => Operation::Opendir { flags: arg.flags },
                _ => Operation::Open { flags: arg.flags, kill_suidgid: arg.open_flags & abi::OPEN_KILL_SUIDGID != 0 },
            }
        }
        opcode::CREATE => {
            let arg: abi::CreateIn = body.take()?;
            let kill_suidgid = arg.open_flags & abi::OPEN_KILL_SUIDGID != 0;
            Operation::Create { name: body.name()?, flags: arg.flags, mode: arg.mode, umask: arg.umask, kill_suidgid }
        }
        // A name follows, but it is the kernel's placeholder "/".
        opcode::TMPFILE => {
            let arg: abi::CreateIn = body.take()?;
            Operation::Tmpfile { flags: arg.flags, mode: arg.mode, umask: arg.umask }
        }
        opcode::FLUSH => {
            let arg: abi::FlushIn = body.take()?;
            Operation::Flush { handle: arg.fh, lock_owner: arg.lock_owner }
        }
        opcode::RELEASE | opcode::RELEASEDIR => {
            let arg: abi::ReleaseIn = body.take()?;
            let flock_owner = (arg.release_flags & abi::RELEASE_FLOCK_UNLOCK != 0).then_some(arg.lock_owner);
            match code {
                opcode::RELEASEDIR => Operation::Releasedir { handle: arg.fh, flags: arg.flags },
                _ => Operation::Release { handle: arg.fh, flags: arg.flags, flock_owner },
            }
        }
        _ => {
            let arg: abi::FsyncIn = body.take()?;
            let (handle, data_only) = (arg.fh, arg.fsync_flags & abi::FSYNC_FDATASYNC != 0);
            match code {
                opcode::FSYNCDIR => Operation::Fsyncdir { handle, data_only },
                _ => Operation::Fsync { handle, data_only },
            }
        }
    })
}

fn data_operation<'a>(code: u32, body: &mut Body<'a>, buffer: Payload<'a>) -> Parsed<Operation<'a>> {
    Ok(match code {
        opcode::READ | opcode::READDIR | opcode::READDIRPLUS => {
            let abi::ReadIn { fh: handle, offset, size, read_flags, lock_owner, flags, .. } = body.take()?;
            let lock_owner = (read_flags & abi::READ_LOCKOWNER != 0).then_some(lock_owner);
            match code {
                opcode::READDIR => Operation::Readdir { handle, offset, size },
                opcode::READDIRPLUS => Operation::Readdirplus { handle, offset, size },
                _ => Operation::Read { handle, offset, size, flags, lock_owner },
            }
        }
        opcode::WRITE => {
            let arg: abi::WriteIn = body.take()?;
            Operation::Write {
                handle: arg.fh,
                offset: arg.offset,
                data: buffer.part(body.bytes(arg.size as usize)?),
                flags: arg.flags,
                lock_owner: (arg.write_flags & abi::WRITE_LOCKOWNER != 0).then_some(arg.lock_owner),
                kill_suidgid: arg.write_flags & abi::WRITE_KILL_SUIDGID != 0,
                from_cache: arg.write_flags & abi::WRITE_CACHE != 0,
            }
        }
        opcode::FALLOCATE => {
            let arg: abi::FallocateIn = body.take()?;
            Operation::Fallocate { handle: arg.fh, offset: arg.offset, length: arg.length, mode: arg.mode }
        }
        opcode::LSEEK => {
            let arg: abi::LseekIn = body.take()?;
            Operation::Lseek { handle: arg.fh, offset: arg.offset.cast_signed(), whence: arg.whence }
        }
        _ => {
            let arg: abi::CopyFileRangeIn = body.take()?;
            Operation::CopyFileRange {
                handle: arg.fh_in,
                offset: arg.off_in,
                to_inode: arg.nodeid_out,
                to_handle: arg.fh_out,
                to_offset: arg.off_out,
                length: arg.len,
                flags: arg.flags,
                wide: code == opcode::COPY_FILE_RANGE_64,
            }
        }
    })
}

fn xattr_operation<'a>(code: u32, body: &mut Body<'a>) -> Parsed<Operation<'a>> {
    Ok(match code {
        opcode::SETXATTR => {
            let arg: abi::SetxattrIn = body.take()?;
            Operation::Setxattr { name: body.string()?, value: body.bytes(arg.size as usize)?, flags: arg.flags }
        }
        opcode::GETXATTR => {
            let arg: abi::GetxattrIn = body.take()?;
            Operation::Getxattr { name: body.string()?, size: arg.size }
        }
        opcode::LISTXATTR => Operation::Listxattr { size: body.take::<abi::GetxattrIn>()?.size },
        _ => Operation::Removexattr { name: body.string()? },
    })
}

fn lock_operation<'a>(code: u32, body: &mut Body<'a>) -> Parsed<Operation<'a>> {
    let arg: abi::LkIn = body.take()?;
    let lock = LockRequest {
        handle: arg.fh,
        owner: arg.owner,
        start: arg.lk.start,
        end: arg.lk.end,
        kind: arg.lk.kind,
        pid: arg.lk.pid,
        flock: arg.lk_flags & abi::LK_FLOCK != 0,
    };
    Ok(match code {
        opcode::GETLK => Operation::Getlk(lock),
        _ => Operation::Setlk { lock, wait: code == opcode::SETLKW },
    })
}

fn attribute_operation<'a>(code: u32, body: &mut Body<'a>) -> Parsed<Operation<'a>> {
    let handle = |flags: u32, fh: u64| (flags & abi::GETATTR_FH != 0).then_some(fh);
    Ok(match code {
        opcode::GETATTR => {
            let arg: abi::GetattrIn = body.take()?;
            Operation::Getattr { handle: handle(arg.getattr_flags, arg.fh) }
        }
        opcode::STATX => {
            let arg: abi::StatxIn = body.take()?;
            Operation::Statx { handle: handle(arg.getattr_flags, arg.fh), flags: arg.sx_flags, mask: arg.sx_mask }
        }
        opcode::SETATTR => Operation::Setattr(set_attributes(&body.take()?)?),
        opcode::READLINK => Operation::Readlink,
        opcode::ACCESS => Operation::Access { mask: body.take::<abi::AccessIn>()?.mask },
        _ => Operation::Statfs,
    })
}

fn set_attributes(arg: &abi::SetattrIn) -> Parsed<SetAttributes> {
    use abi::fattr;
    let has = |bit: u32| arg.valid & bit != 0;
    let time = |bit, now_bit, seconds: u64, nanoseconds: u32| match (has(bit), has(now_bit)) {
        (_, true) => Ok(Some(SetTime::Now)),
        (true, false) if nanoseconds >= 1_000_000_000 => Err("nanoseconds out of range"),
        (true, false) => Ok(Some(SetTime::At { seconds: seconds.cast_signed(), nanoseconds })),
        (false, false) => Ok(None),
    };
    Ok(SetAttributes {
        handle: has(fattr::FH).then_some(arg.fh),
        mode: has(fattr::MODE).then_some(arg.mode),
        uid: has(fattr::UID).then_some(arg.uid),
        gid: has(fattr::GID).then_some(arg.gid),
        size: has(fattr::SIZE).then_some(arg.size),
        atime: time(fattr::ATIME, fattr::ATIME_NOW, arg.atime, arg.atimensec)?,
        mtime: time(fattr::MTIME, fattr::MTIME_NOW, arg.mtime, arg.mtimensec)?,
        ctime: time(fattr::CTIME, 0, arg.ctime, arg.ctimensec)?,
        lock_owner: has(fattr::LOCKOWNER).then_some(arg.lock_owner),
        kill_suidgid: has(fattr::KILL_SUIDGID),
    })
}

fn control_operation<'a>(code: u32, body: &mut Body<'a>) -> Parsed<Operation<'a>> {
    Ok(match code {
        opcode::FORGET => Operation::Forget { lookups: body.take::<abi::ForgetIn>()?.nlookup },
        opcode::BATCH_FORGET => {
            let count = body.take::<abi::BatchForgetIn>()?.count as usize;
            let length = count.checked_mul(size_of::<abi::ForgetOne>()).ok_or("too many inodes")?;
            Operation::BatchForget { forgets: Forgets(body.bytes(length)?) }
        }
        opcode::INTERRUPT => Operation::Interrupt { unique: body.take::<abi::InterruptIn>()?.unique },
        opcode::INIT => {
            let arg: abi::InitIn = body.take()?;
            let low = u64::from(arg.flags);
            let high = match low & abi::init::INIT_EXT {
                0 => 0,
                _ => u64::from(body.take::<abi::InitInExt>()?.flags2),
            };
            Operation::Init {
                major: arg.major,
                minor: arg.minor,
                max_readahead: arg.max_readahead,
                flags: low | high << 32,
            }
        }
        opcode::DESTROY => Operation::Destroy,
        opcode::IOCTL => {
            let arg: abi::IoctlIn = body.take()?;
            Operation::Ioctl {
                handle: arg.fh,
                flags: arg.flags,
                command: arg.cmd,
                argument: arg.arg,
                input: body.bytes(arg.in_size as usize)?,
                output_size: arg.out_size,
            }
        }
        opcode::POLL => {
            let arg: abi::PollIn = body.take()?;
            Operation::Poll { handle: arg.fh, poll_handle: arg.kh, flags: arg.flags, events: arg.events }
        }
        _ => Operation::Unknown { opcode: code },
    })
}
