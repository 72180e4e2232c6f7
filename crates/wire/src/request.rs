//! What a session asks of a metadata shard; [`describe`] says what there is to know of each kind of request.

pub mod describe;

use crate::caller::Caller;
use crate::codec::Blob;
use crate::data::Answered;
use crate::header::Header;
use crate::ids::{AloneId, Cookie, InodeId, NodeId, RecordSeq, SessionId, Slot};
use crate::innet::InNet;
use crate::inode::Kind;
use crate::map::ClusterMap;
use crate::name::Name;
use crate::packet::Packet;
use crate::ticket::Ticket;
use crate::tracking::{Form, Tracking};
use crate::way::Way;
use crate::xattr::XattrName;
use crate::{wire_enum, wire_struct};
use describe::Description;

/// Bits of [`SetAttr::valid`].
pub mod set {
    /// Change permission bits.
    pub const MODE: u32 = 1;
    /// Change the owner.
    pub const UID: u32 = 2;
    /// Change the group.
    pub const GID: u32 = 4;
    /// Change the size.
    pub const SIZE: u32 = 8;
    /// Change the access time.
    pub const ATIME: u32 = 16;
    /// Change the modification time.
    pub const MTIME: u32 = 32;
    /// The access time is the present.
    pub const ATIME_NOW: u32 = 64;
    /// The modification time is the present.
    pub const MTIME_NOW: u32 = 128;
    /// Clear setuid and setgid as a write does. Without SIZE only if the caller is the owner or root: a chown that keeps both ids.
    pub const KILL_SUIDGID: u32 = 256;
    /// Only the access time, because of a read: needs no permission and is no change (relatime).
    pub const READ: u32 = 1024;
    /// The size is changed through a descriptor open for writing: permission was checked at open.
    pub const OPEN_FOR_WRITE: u32 = 512;
    /// The session knows the end of what it has written to the file since its home has shown the size last: it has had it open since then.
    pub const KNOWS_END: u32 = 2048;
}

wire_struct! {
    /// A change of attributes.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SetAttr {
        /// Which fields count: bits of [`set`].
        pub valid: u32,
        /// Permission bits.
        pub mode: u16,
        /// Owner.
        pub uid: u32,
        /// Group.
        pub gid: u32,
        /// Size in bytes.
        pub size: u64,
        /// Access time, ns since 1970.
        pub atime: i64,
        /// Modification time, ns since 1970.
        pub mtime: i64,
    }
}

/// Bits of [`NewNode::open`] and `Request::Open::flags`.
pub mod open {
    /// Open for reading.
    pub const READ: u32 = 1;
    /// Open for writing.
    pub const WRITE: u32 = 2;
    /// Open for execution: needs x instead of r.
    pub const EXEC: u32 = 4;
    /// O_TRUNC.
    pub const TRUNCATE: u32 = 8;
    /// O_EXCL.
    pub const EXCLUSIVE: u32 = 16;
    /// Register the open at the inode's home; without it only permissions are checked.
    pub const REGISTER: u32 = 32;
    /// Opened again after a restart of the shard: permissions were checked before.
    pub const AGAIN: u32 = 64;
    /// Clear setuid and setgid with O_TRUNC.
    pub const KILL_SUIDGID: u32 = 128;
    /// Of a create: answered before its record is durable, whatever the commit mode. What is made is opened next.
    pub const EARLY: u32 = 256;
    /// The file was made by the same open(2): its permissions do not count.
    pub const MADE: u32 = 512;
    /// The session may change pages of the file in memory, through a shared mapping, until it says `WrittenBack` or has closed it.
    pub const MAP: u32 = 1024;
}

/// Bits of `Request::Rename::flags`.
pub mod rename {
    /// RENAME_NOREPLACE.
    pub const NOREPLACE: u32 = 1;
    /// RENAME_EXCHANGE: both names are there and change places.
    pub const EXCHANGE: u32 = 2;
    /// RENAME_WHITEOUT: a character device 0/0 stays under the old name.
    pub const WHITEOUT: u32 = 4;

    /// Whether renameat2(2) knows these flags together.
    pub fn is_known(flags: u32) -> bool {
        flags & !(NOREPLACE | EXCHANGE | WHITEOUT) == 0 && (flags & EXCHANGE == 0 || flags == EXCHANGE)
    }
}

wire_struct! {
    /// The inode that create, mkdir, mknod or symlink makes.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct NewNode {
        /// File type.
        pub kind: Kind,
        /// Permission bits before the umask.
        pub mode: u16,
        /// The caller's umask.
        pub umask: u16,
        /// Device number.
        pub rdev: u32,
        /// Target of a symlink.
        pub target: Blob,
        /// Bits of [`open`] when the file is opened as well (open(2) with O_CREAT), else 0.
        pub open: u32,
    }
}

wire_enum! {
    /// Kinds of file lock.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LockKind {
        /// Shared.
        1 => Read,
        /// Exclusive.
        2 => Write,
        /// Remove.
        3 => Unlock,
    }
}

wire_struct! {
    /// A file lock: who, which bytes, how.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FileLock {
        /// flock(2) (a space of its own) instead of fcntl(2).
        pub flock: bool,
        /// Read, write or unlock.
        pub kind: LockKind,
        /// First byte.
        pub start: u64,
        /// Last byte, inclusive.
        pub end: u64,
        /// The owner within the session.
        pub owner: u64,
        /// Process id, as F_GETLK reports it.
        pub pid: u32,
    }
}

wire_struct! {
    /// Whose fcntl locks: numbers of owners are a session's own.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Locker {
        /// The session.
        pub session: SessionId,
        /// The owner within it.
        pub owner: u64,
    }
}

wire_enum! {
    /// A request. Operations by name go to the name's site, operations by id to the inode's home.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Request {
        /// Finds a name. → `Entry`
        1 => Lookup {
            /// Directory.
            parent: InodeId,
            /// Name in it.
            name: Name,
        },
        /// Attributes of an inode; of a directory exact (collects). → `Attr`
        2 => GetAttr {
            /// Inode.
            id: InodeId,
        },
        /// Changes attributes. → `Attr`
        3 => SetAttr {
            /// Inode.
            id: InodeId,
            /// What to change.
            set: SetAttr,
        },
        /// create, mkdir, mknod, symlink. → `Entry`
        4 => Create {
            /// Directory.
            parent: InodeId,
            /// Name in it.
            name: Name,
            /// The new inode.
            node: NewNode,
        },
        /// A further name for a file; sent to the new name's site. → `Entry`
        5 => Link {
            /// The file.
            id: InodeId,
            /// Directory of the new name.
            parent: InodeId,
            /// New name.
            name: Name,
        },
        /// Removes a name that is no directory. → `Done`
        6 => Unlink {
            /// Directory.
            parent: InodeId,
            /// Name in it.
            name: Name,
        },
        /// Removes an empty directory. → `Done`
        7 => Rmdir {
            /// Directory that holds it.
            parent: InodeId,
            /// Name in it.
            name: Name,
        },
        /// Renames; sent to the destination name's site. → `Done`
        8 => Rename {
            /// Source directory.
            from_parent: InodeId,
            /// Source name.
            from: Name,
            /// Destination directory.
            parent: InodeId,
            /// Destination name.
            name: Name,
            /// Bits of [`rename`].
            flags: u32,
        },
        /// Checks permissions and registers the session's open. → `Attr`
        9 => Open {
            /// Inode.
            id: InodeId,
            /// Bits of [`open`].
            flags: u32,
        },
        /// Registers again, after a restart of the shard, what a bound session had opened: the ticket of that shows it, also when it
        /// counts no more. → `Attr`
        46 => OpenAgain {
            /// Inode.
            id: InodeId,
            /// Bits of [`open`].
            flags: u32,
            /// What the session was given when it opened it.
            ticket: Ticket,
        },
        /// The session has closed its last handle of the inode. → `Done`
        10 => Release {
            /// Inode.
            id: InodeId,
        },
        /// A page of a listing. → `Dir`
        11 => ReadDir {
            /// Directory.
            id: InodeId,
            /// Entries after this cookie.
            after: Cookie,
            /// Most bytes of names plus 32 an entry.
            bytes: u32,
        },
        /// Target of a symlink. → `Target`
        12 => ReadLink {
            /// Symlink.
            id: InodeId,
        },
        /// access(2): bits 4 r, 2 w, 1 x. → `Done`
        13 => Access {
            /// Inode.
            id: InodeId,
            /// Permissions asked.
            mask: u32,
        },
        /// Inodes of this shard. → `StatFs`
        14 => StatFs,
        /// Attributes of many inodes of one shard (directories inexact), for readdir with attributes. → `Attrs`
        15 => GetAttrs {
            /// Inodes.
            ids: Vec<InodeId>,
        },
        /// Takes or frees a file lock. → `Done` when granted, `Queued` when `wait`, else EAGAIN; `Busy` while others may
        /// still take again what they held
        16 => SetLock {
            /// Inode.
            id: InodeId,
            /// The lock.
            lock: FileLock,
            /// Wait for it: the answer is `Queued`, `Granted` follows.
            wait: bool,
            /// Held in a former term of the shard, and taken again.
            again: bool,
        },
        /// F_GETLK. → `LockIs`, or `Busy` as for `SetLock`
        17 => TestLock {
            /// Inode.
            id: InodeId,
            /// The lock to test.
            lock: FileLock,
        },
        /// Gives up waiting; the home decides the race. → `Done` (given up) or `Granted`
        18 => CancelLock {
            /// Inode.
            id: InodeId,
            /// The waiting lock.
            lock: FileLock,
        },
        /// All locks of an owner on a file are dropped (close). → `Done`
        19 => DropLocks {
            /// Inode.
            id: InodeId,
            /// flock(2) or fcntl(2) locks.
            flock: bool,
            /// Owner within the session.
            owner: u64,
        },
        /// Reserves the end of a file for one O_APPEND write. → `Reserved`
        20 => Reserve {
            /// Inode.
            id: InodeId,
        },
        /// Gives a reservation back without a write. → `Done`
        21 => Unreserve {
            /// Inode.
            id: InodeId,
        },
        /// fsync: answered when all that the inode's home has recorded of it is durable. → `Done`
        22 => Sync {
            /// Inode.
            id: InodeId,
        },
        /// Joins the file system (to the coordinator's shard). → `Attached`
        23 => Attach {
            /// It has joined before, and goes on after a restart of the coordinator.
            again: bool,
        },
        /// Extends the session's lease (to the coordinator's shard). → `Done`
        24 => Renew,
        /// Leaves; everything held is dropped (to the coordinator's shard). → `Done`
        25 => Detach {
            /// It is its host that says so, of a client that is gone.
            gone: bool,
        },
        /// Which bytes a file has: its data identity, cut and size. → `Attr`
        26 => DataRef {
            /// Inode.
            id: InodeId,
        },
        /// Sets an extended attribute. → `Attr`
        27 => SetXattr {
            /// Inode.
            id: InodeId,
            /// Name of the attribute.
            name: XattrName,
            /// Its value.
            value: Blob,
            /// Bits of [`crate::xattr::flag`].
            flags: u32,
        },
        /// Value of an extended attribute. → `Value`
        28 => GetXattr {
            /// Inode.
            id: InodeId,
            /// Name of the attribute.
            name: XattrName,
        },
        /// Names of the extended attributes that the caller may see, each with a NUL behind it. → `Value`
        29 => ListXattr {
            /// Inode.
            id: InodeId,
        },
        /// Removes an extended attribute. → `Attr`
        30 => RemoveXattr {
            /// Inode.
            id: InodeId,
            /// Name of the attribute.
            name: XattrName,
            /// The session has the file open for writing: the caller may take its capabilities, as a write does.
            open_for_write: bool,
        },
        /// open(2) with O_TMPFILE: a file without a name, to be linked later unless `open::EXCLUSIVE` is set. → `Entry`
        32 => TmpFile {
            /// The directory that it is asked for in.
            parent: InodeId,
            /// The slot of its id, one of the receiver's.
            slot: Slot,
            /// The new inode.
            node: NewNode,
        },
        /// The session's lock that waits is a process's, and not that of an open file: it counts in searches for deadlocks. → `Done`
        33 => ConfirmWait {
            /// Inode.
            id: InodeId,
            /// The waiting lock.
            lock: FileLock,
        },
        /// For whom do these wait, by confirmed waits at this shard? → `LockWaits`
        34 => LockWaits {
            /// At most [`crate::limits::LOCKERS_ASKED_MAX`].
            of: Vec<Locker>,
        },
        /// As `Renew`, by a session whose mount caches while no other session is there. → `Renewed`
        40 => RenewAlone,
        /// Nothing that the mount has cached before is used any more: another session may join. → `Done`
        41 => HandBack {
            /// This time of being alone, and all before, are over.
            alone: AloneId,
        },
        /// Which records of former terms are there. → `Kept`
        42 => Kept,
        /// This session is about to change bytes of a file: what others have changed of it in memory is to be written back before.
        /// → `PagesBack`
        43 => WriteBack {
            /// Inode.
            id: InodeId,
            /// They were changed already, when pages had been written back so often (`WrittenBesidePages`).
            changed_at: Option<u64>,
        },
        /// This session has no page of a file in memory any more that could be changed there. → `Done`
        44 => WrittenBack {
            /// Inode.
            id: InodeId,
            /// Pages were written.
            wrote: bool,
        },
        /// To a path node: follows names from a directory, as far as directories have them that the caller may search. → `Resolved`; with `look`,
        /// if all but the last one lead to directories, what the site of that one says to a `Lookup` in the last of them
        47 => Resolve {
            /// The directory in which the first name is.
            from: InodeId,
            /// Names, one behind the other.
            names: Vec<Name>,
            /// The last name is looked up.
            look: bool,
            /// The answer tells the way.
            tell: bool,
        },
        /// A path node's, in the name of who has asked it to tell the way: what `Lookup` says. → `Led`
        48 => LookupLed {
            /// Parent directory.
            parent: InodeId,
            /// Name.
            name: Name,
            /// What is told.
            way: Way,
        },
        /// This session may change pages of a file in memory again. → `Done`, when no write is under way for which it wrote them back
        45 => Map {
            /// Inode.
            id: InodeId,
        },
        /// What a data node has recorded for this session (`Recorded`), under the number of that write. The home answers `Written` in
        /// the name of the data node.
        49 => Learn {
            /// That.
            writes: Answered,
            /// On which record of the data node that rests.
            record: RecordSeq,
        },
    }
}

wire_struct! {
    /// A request with its caller: the body of a [`crate::MessageKind::Request`].
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RequestBody {
        /// Who asks.
        pub caller: Caller,
        /// What is asked.
        pub request: Request,
    }
}

impl Request {
    /// Takes the way out of a [`Request::LookupLed`], which becomes a [`Request::Lookup`].
    pub fn take_way(&mut self) -> Option<Way> {
        if !matches!(self, Request::LookupLed { .. }) {
            return None;
        }
        match std::mem::replace(self, Request::Renew) {
            Request::LookupLed { parent, name, way } => {
                *self = Request::Lookup { parent, name };
                Some(way)
            }
            _ => unreachable!("looked at"),
        }
    }

    /// The directory whose listing or attributes it reads, or the file of which it is shown what writes change.
    fn reads(&self) -> Option<InodeId> {
        let Description { about, collects, .. } = self.describe();
        match self {
            Request::DataRef { id } | Request::Open { id, .. } => Some(*id).filter(|id| !id.is_directory()),
            Request::Sync { .. } => about.inode().filter(|id| id.is_directory()),
            _ => about.inode().filter(|_| collects),
        }
    }
}

impl RequestBody {
    /// A request of the session itself, which needs no permission.
    pub fn of_session(request: Request) -> RequestBody {
        RequestBody { caller: Caller::default(), request }
    }

    /// Encodes the message. One that reads a directory asks the switch on its way whether it has pending updates, in the
    /// tracking epoch of its owner, if that has the network form; one that reads a file, whether it has pending writes (V-9).
    pub fn packet(&self, header: &Header, to: NodeId, tracking: Tracking, map: &ClusterMap) -> Packet {
        let packet = Packet::new(header, self);
        match self.request.reads() {
            Some(id) if tracking.form == Form::Network && id.is_directory() => {
                let group = map.fingerprint(id);
                let query = InNet::query(header.cluster, tracking.epoch_of(group), group, to);
                packet.through(tracking.switch_of(group), query)
            }
            Some(id) if tracking.has_files() => {
                let entry = map.entry(id);
                let (switch, epoch) = tracking.table_of(entry);
                packet.through(switch, InNet::look(header.cluster, epoch, entry, to))
            }
            _ => packet,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Birth, RequestSeq, Slot, TrackingEpoch};
    use crate::innet::Structure;
    use crate::{MessageKind, secrets::Secrets};

    #[test]
    fn a_switch_is_asked_on_the_way_of_what_it_knows() {
        let id = |kind| InodeId::new(Slot(1), Birth(1), 1, kind);
        let requests = |id| [Request::GetAttr { id }, Request::Sync { id }];
        let (file, directory) = (id(Kind::File), id(Kind::Directory));
        assert_eq!(requests(directory).map(|request| request.reads()), [Some(directory); 2]);
        assert_eq!(requests(file).map(|request| request.reads()), [Some(file), None]);
        assert_eq!(Request::Open { id: file, flags: 0 }.reads(), Some(file));
        assert_eq!(Request::GetAttr { id: InodeId::ROOT }.reads(), Some(InodeId::ROOT));
        let (map, home) = (ClusterMap::even(1, Secrets::of_seed(1).placement), NodeId(1 << 24));
        let header = Header::new(MessageKind::Request, NodeId(3 << 24), RequestSeq(1));
        let asks = |id, form, files| {
            let tracking = Tracking { epoch: TrackingEpoch(7), form, files, ..Tracking::default() };
            let packet = RequestBody::of_session(Request::GetAttr { id }).packet(&header, home, tracking, &map);
            packet.innet.map(|innet| innet.structure())
        };
        assert_eq!(asks(file, Form::Network, true), Some(Structure::Visibility));
        assert_eq!(asks(directory, Form::Network, true), Some(Structure::DirtySet));
        assert_eq!([asks(file, Form::Network, false), asks(directory, Form::Owner, true)], [None, None]);
    }
}
