//! What clients ask, drawn so that all of it happens: names come and go, files are written, locked and cut.

use super::Dice;
use onpath_wire::codec::Blob;
use onpath_wire::data::{Allocation, DataRequest};
use onpath_wire::ids::{AloneId, Cookie, DataId, Generation, InodeId, SessionId, Slot};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::reply::{DataRef, DirEntry, Reply};
use onpath_wire::request::{FileLock, LockKind, Locker, NewNode, Request, SetAttr};
use onpath_wire::xattr::XattrName;

/// How many inodes, and contents, are remembered.
const KNOWN_MAX: usize = 256;

/// What the answers have told.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) ids: Vec<InodeId>,
    pub(crate) contents: Vec<(InodeId, DataRef)>,
    cookies: Vec<Cookie>,
    alone: AloneId,
}

fn remember<T: PartialEq>(all: &mut Vec<T>, one: T, dice: &mut Dice) {
    if all.len() < KNOWN_MAX {
        all.push(one);
    } else {
        let at = dice.below(KNOWN_MAX);
        all[at] = one;
    }
}

pub(crate) fn name(dice: &mut Dice) -> Name {
    Name::new(format!("n{}", dice.below(80)).as_bytes()).expect("a name")
}

fn node(dice: &mut Dice) -> NewNode {
    let kind =
        *dice.one(&[Kind::Directory, Kind::Directory, Kind::File, Kind::File, Kind::File, Kind::Symlink, Kind::Fifo]);
    let target = if kind == Kind::Symlink { b"over/there".to_vec() } else { vec![] };
    let mode = *dice.one(&[0o755, 0o644, 0o1777, 0o2777]);
    let open = if kind == Kind::File { dice.below(64) as u32 } else { 0 };
    NewNode { kind, mode, umask: 0o022, rdev: 0, target: Blob(target), open }
}

pub(crate) fn lock(dice: &mut Dice) -> FileLock {
    let start = dice.below(8) as u64;
    FileLock {
        flock: dice.percent(20),
        kind: *dice.one(&[LockKind::Read, LockKind::Write, LockKind::Unlock]),
        start,
        end: start + dice.below(8) as u64,
        owner: dice.below(4) as u64,
        pid: 7,
    }
}

impl Known {
    pub(crate) fn new() -> Known {
        Known { ids: vec![InodeId::ROOT], contents: vec![], cookies: vec![Cookie(0)], alone: AloneId(0) }
    }

    pub(crate) fn hear(&mut self, reply: &Reply, dice: &mut Dice) {
        match reply {
            Reply::Entry { attr, data, .. } | Reply::Attr { attr, data, .. } => {
                remember(&mut self.ids, attr.id, dice);
                if data.generation != Generation(0) {
                    remember(&mut self.contents, (attr.id, *data), dice);
                }
            }
            Reply::Dir { entries, .. } => {
                if let Some(DirEntry { cookie, .. }) = entries.last() {
                    remember(&mut self.cookies, *cookie, dice);
                }
            }
            Reply::Renewed { alone } => self.alone = *alone,
            _ => {}
        }
        self.ids[0] = InodeId::ROOT;
    }

    /// An inode that somebody has seen.
    pub(crate) fn see(&mut self, id: InodeId, dice: &mut Dice) {
        remember(&mut self.ids, id, dice);
        self.ids[0] = InodeId::ROOT;
    }

    fn id(&self, dice: &mut Dice) -> InodeId {
        *dice.one(&self.ids)
    }

    /// A directory, often enough.
    fn dir(&self, dice: &mut Dice) -> InodeId {
        if dice.percent(50) { InodeId::ROOT } else { self.id(dice) }
    }

    pub(crate) fn question(&self, dice: &mut Dice) -> Request {
        let (id, parent, name) = (self.id(dice), self.dir(dice), name(dice));
        match dice.below(36) {
            0..=7 => Request::Create { parent, name, node: node(dice) },
            8 => Request::Lookup { parent, name },
            9 => Request::GetAttr { id },
            10 | 11 => Request::SetAttr {
                id,
                set: SetAttr {
                    valid: dice.next() as u32 & 0x7ff,
                    mode: dice.next() as u16 & 0o7777,
                    size: dice.below(40_000) as u64,
                    ..SetAttr::default()
                },
            },
            12 => Request::Link { id, parent, name },
            13 => Request::Unlink { parent, name },
            14 => Request::Rmdir { parent, name },
            15..=17 => Request::Rename {
                from_parent: self.dir(dice),
                from: self::name(dice),
                parent,
                name,
                flags: *dice.one(&[0, 0, 1, 2, 4]),
            },
            18 => Request::Open { id, flags: dice.below(1_024) as u32 },
            19 => Request::Release { id },
            20 => Request::ReadDir { id: parent, after: *dice.one(&self.cookies), bytes: dice.below(8_192) as u32 },
            21 => Request::ReadLink { id },
            22 => Request::Access { id, mask: dice.below(8) as u32 },
            23 => Request::GetAttrs { ids: (0..dice.below(5)).map(|_| self.id(dice)).collect() },
            24 | 25 => Request::SetLock { id, lock: lock(dice), wait: dice.percent(50), again: dice.percent(5) },
            26 => match dice.below(4) {
                0 => Request::TestLock { id, lock: lock(dice) },
                1 => Request::CancelLock { id, lock: lock(dice) },
                2 => Request::ConfirmWait { id, lock: lock(dice) },
                _ => Request::LockWaits { of: vec![Locker { session: SessionId(dice.below(5) as u32), owner: 1 }] },
            },
            27 => Request::DropLocks { id, flock: dice.percent(20), owner: dice.below(4) as u64 },
            28 => Request::Reserve { id },
            29 => Request::Unreserve { id },
            30 => Request::Sync { id },
            31 => match dice.below(30) {
                0 => Request::Attach { again: false },
                1 => Request::Detach { gone: false },
                2 | 5 | 6 => Request::RenewAlone,
                3 | 7 => Request::HandBack { alone: self.alone },
                4 | 8 => Request::StatFs,
                _ => Request::Renew,
            },
            32 => Request::DataRef { id },
            33 => Request::SetXattr { id, name: xattr(dice), value: Blob(vec![1; dice.below(40)]), flags: 0 },
            34 => match dice.below(3) {
                0 => Request::GetXattr { id, name: xattr(dice) },
                1 => Request::ListXattr { id },
                _ => Request::RemoveXattr { id, name: xattr(dice), open_for_write: true },
            },
            _ => Request::TmpFile { parent, slot: Slot(dice.next() as u16), node: node(dice) },
        }
    }

    /// What a data node is asked, with bytes of a write.
    pub(crate) fn of_data(&self, dice: &mut Dice) -> Option<(DataRequest, usize)> {
        if self.contents.is_empty() {
            return None;
        }
        let content = |(inode, data): (InodeId, DataRef)| (DataId { inode, generation: data.generation }, data.cut);
        let (data, cut) = content(*dice.one(&self.contents));
        let (from, from_cut) = content(*dice.one(&self.contents));
        let (offset, bytes) = (dice.below(60_000) as u64, 1 + dice.below(20_000));
        let (n, kill_suidgid) = (bytes as u32, dice.percent(20));
        Some(match dice.below(9) {
            0..=3 => {
                (DataRequest::Write { data, cut, offset, kill_suidgid, append: dice.percent(20), part: None }, bytes)
            }
            4 => (DataRequest::Read { data, cut, offset, bytes: n }, 0),
            5 => {
                let how = *dice.one(&[Allocation::Reserve, Allocation::Punch, Allocation::Zero]);
                (DataRequest::Allocate { data, cut, offset, bytes: n.into(), how, end: 0, kill_suidgid }, 0)
            }
            6 => (DataRequest::Seek { data, cut, offset, hole: dice.percent(50) }, 0),
            7 => {
                let from_offset = dice.below(60_000) as u64;
                (DataRequest::Copy { data, cut, offset, from, from_cut, from_offset, bytes: n, kill_suidgid }, 0)
            }
            _ => (dice.one(&[DataRequest::Sync { data }, DataRequest::Space]).clone(), 0),
        })
    }

    /// Words by which a message may be about something that is there.
    pub(crate) fn words(&self) -> Vec<u64> {
        let ids = self.ids.iter().map(|id| id.0);
        ids.chain(self.contents.iter().map(|(_, data)| data.generation.0)).collect()
    }
}

pub(crate) fn xattr(dice: &mut Dice) -> XattrName {
    let names = ["user.a", "user.b", "system.posix_acl_access", "system.posix_acl_default", "trusted.x"];
    XattrName::new(dice.one(&names).as_bytes()).expect("a name")
}
