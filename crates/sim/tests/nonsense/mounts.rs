//! Real sessions, each with a mount that asks for whatever a kernel may ask for.

use super::Dice;
use super::questions::{lock, name, xattr};
use onpath_kernel::{Input, Now, Output, Role};
use onpath_session::fs::{Caller, FsOp, FsReply, FsRequest, FsResult, Handle, OpenMode};
use onpath_session::{AccessTimes, KeptWays, ReadCaller, Session, SessionConfig, SessionIn, SessionOut};
use onpath_wire::caller::{Caps, cap};
use onpath_wire::ids::{Cookie, InodeId, NodeId, SessionId, SessionNumber};
use onpath_wire::inode::Kind;
use onpath_wire::map::ClusterMap;
use onpath_wire::packet::Packet;
use onpath_wire::request::SetAttr;
use std::collections::HashMap;

/// Requests of a mount that are under way; beyond, it asks nothing.
const ASKED_MAX: usize = 24;
/// Handles of a mount; beyond, it closes one.
const HANDLES_MAX: usize = 12;
/// Outputs that one input may make.
const OUTPUTS_MAX: usize = 200_000;
/// Bytes of a read or write.
const BYTES_MAX: usize = 20_000;

/// What a mount waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Open,
    OpenDir,
    Other,
}

/// One session and its mount.
pub(crate) struct Mount {
    pub(crate) node: NodeId,
    session: Session,
    unique: u64,
    asked: HashMap<u64, (Asked, [Option<Handle>; 2])>,
    files: Vec<Handle>,
    dirs: Vec<Handle>,
    cookies: Vec<Cookie>,
    /// The session is over.
    pub(crate) lost: bool,
    /// Requests that were answered, and those of them without an error.
    pub(crate) answered: u64,
    pub(crate) done: u64,
}

/// What one input made.
#[derive(Default)]
pub(crate) struct Made {
    pub(crate) sends: Vec<(NodeId, Packet)>,
    pub(crate) ids: Vec<InodeId>,
}

impl Mount {
    pub(crate) fn new(session: SessionId, cluster: u32, map: &ClusterMap, dice: &mut Dice) -> Mount {
        let config = SessionConfig {
            session: SessionNumber(session.0.into()),
            cluster,
            map: map.clone(),
            soft: dice.percent(30),
            access_times: AccessTimes { always: dice.percent(30), ..AccessTimes::default() },
            in_halves: dice.percent(50),
            caches: dice.percent(50),
            identity: None,
            kept_ways: KeptWays::default(),
        };
        Mount {
            node: NodeId::session(session),
            session: Session::new(config),
            unique: 0,
            asked: HashMap::new(),
            files: vec![],
            dirs: vec![],
            cookies: vec![Cookie(0)],
            lost: false,
            answered: 0,
            done: 0,
        }
    }

    /// A message has come.
    pub(crate) fn hear(&mut self, now: Now, packet: Packet) -> Made {
        self.handle(now, Input::Packet(packet))
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Now) -> Made {
        match self.session.next_deadline() {
            Some(at_us) if at_us <= now.mono_us => self.handle(now, Input::Tick),
            _ => Made::default(),
        }
    }

    /// Somebody uses the mount; these inodes have been seen.
    pub(crate) fn ask(&mut self, now: Now, ids: &[InodeId], dice: &mut Dice) -> Made {
        if self.asked.len() >= ASKED_MAX {
            // Somebody has waited long enough.
            let unique = *self.asked.keys().min().expect("somebody waits");
            self.unique += 1;
            let op = FsOp::Interrupt { unique };
            let request = FsRequest { unique: self.unique, caller: Caller::default(), op, by_ways: None };
            return self.handle(now, Input::Own(SessionIn::Fs(request)));
        }
        if dice.below(400) == 0 {
            return self.handle(now, Input::Own(SessionIn::Shutdown));
        }
        if dice.percent(2) {
            let peers = [NodeId::data(0), NodeId(0)];
            return self.handle(now, Input::Own(SessionIn::PeerReset(*dice.one(&peers))));
        }
        let (op, asked) = self.op(ids, dice);
        self.unique += 1;
        let caller = Caller { uid: *dice.one(&[0, 0, 1_000]), gid: 0, pid: 7, ..Caller::default() };
        if !matches!(op, FsOp::Interrupt { .. }) {
            self.asked.insert(self.unique, (asked, handles(&op)));
        }
        let request = FsRequest { unique: self.unique, caller, op, by_ways: None };
        self.handle(now, Input::Own(SessionIn::Fs(request)))
    }

    fn handle(&mut self, now: Now, input: Input<SessionIn>) -> Made {
        let mut made = Made::default();
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            self.session.handle(now, input);
            let mut count = 0;
            while let Some(output) = self.session.poll_output() {
                count += 1;
                assert!(count < OUTPUTS_MAX, "a session does not come to an end");
                match output {
                    Output::Send { to, packet, .. } => made.sends.push((to, packet)),
                    Output::Own(own) => inputs.extend(self.own(own, &mut made).map(Input::Own)),
                    Output::Append { .. } | Output::Flush => panic!("a session has no journal"),
                }
            }
        }
        made
    }

    /// What a host of a session does with its outputs.
    fn own(&mut self, output: SessionOut, made: &mut Made) -> Option<SessionIn> {
        match output {
            SessionOut::Reply { unique, result } => self.answer(unique, result, made),
            SessionOut::ReadCaller { ticket, .. } => {
                return Some(SessionIn::Caller {
                    ticket,
                    read: ReadCaller { groups: Some(vec![4, 5, 1_000]), caps: Caps::exactly(cap::FOWNER) },
                });
            }
            SessionOut::HowItWaits { ticket, .. } => {
                return Some(SessionIn::WaitsAs { ticket, process: Some(true) });
            }
            SessionOut::Share { .. } => return Some(SessionIn::Shared),
            SessionOut::WriteBack { id } => return Some(SessionIn::WrittenBack { id }),
            SessionOut::Lost(_) | SessionOut::Expired => self.lost = true,
            SessionOut::Attached | SessionOut::Alone { .. } | SessionOut::Forget { .. } => {}
            SessionOut::Invalidate { .. } => {}
        }
        None
    }

    fn answer(&mut self, unique: u64, result: FsResult, made: &mut Made) {
        let (asked, _) = self.asked.remove(&unique).unwrap_or_else(|| panic!("request {unique} is answered twice"));
        self.answered += 1;
        let Ok(reply) = result else { return };
        self.done += 1;
        match (asked, reply) {
            (Asked::Open, FsReply::Opened(opened)) => self.files.push(opened.handle),
            (Asked::OpenDir, FsReply::Opened(opened)) => self.dirs.push(opened.handle),
            (_, FsReply::Created { attr, opened, .. }) => {
                made.ids.push(attr.id);
                self.files.push(opened.handle);
            }
            (_, FsReply::Entry(attr) | FsReply::Linked(attr)) => made.ids.push(attr.id),
            (_, FsReply::Dir(entries)) => self.cookies.extend(entries.last().map(|entry| entry.cookie)),
            (_, FsReply::DirPlus(entries)) => made.ids.extend(entries.iter().map(|(entry, _)| entry.child)),
            _ => {}
        }
        let surplus = self.cookies.len().saturating_sub(64);
        self.cookies.drain(..surplus);
    }

    fn op(&mut self, ids: &[InodeId], dice: &mut Dice) -> (FsOp, Asked) {
        let id = *dice.one(ids);
        // What is still used is not closed.
        let used: Vec<Handle> = self.asked.values().flat_map(|(_, handles)| handles).flatten().copied().collect();
        let idle = |handle: &Handle| !used.contains(handle);
        if self.files.len() > HANDLES_MAX
            && let Some(at) = self.files.iter().position(idle)
        {
            let handle = self.files.swap_remove(at);
            return (FsOp::Release { handle, flock_owner: dice.percent(50).then_some(1) }, Asked::Other);
        }
        if self.dirs.len() > HANDLES_MAX
            && let Some(at) = self.dirs.iter().position(idle)
        {
            return (FsOp::ReleaseDir { handle: self.dirs.swap_remove(at) }, Asked::Other);
        }
        let op = match dice.below(10) {
            0..3 if !self.files.is_empty() => self.of_file(dice),
            3 if !self.dirs.is_empty() => self.of_dir(dice),
            4 => {
                let mode = open_mode(dice);
                return (FsOp::Open { id, mode }, Asked::Open);
            }
            5 => return (FsOp::OpenDir { id, noatime: dice.percent(30) }, Asked::OpenDir),
            _ => self.of_names(ids, dice),
        };
        (op, Asked::Other)
    }

    fn of_names(&self, ids: &[InodeId], dice: &mut Dice) -> FsOp {
        let (id, name) = (*dice.one(ids), name(dice));
        let parent = if dice.percent(60) { InodeId::ROOT } else { *dice.one(ids) };
        let (mode, umask) = (0o755, 0o22);
        match dice.below(22) {
            0 | 1 => FsOp::Lookup { parent, name },
            2 if dice.percent(50) => FsOp::LookupId { id },
            2 => FsOp::LookupParent { id },
            3 => FsOp::GetAttr { id, handle: self.files.first().copied().filter(|_| dice.percent(50)) },
            4 => {
                let valid = dice.next() as u32 & 0x7ff;
                let set = SetAttr { valid, mode: 0o640, size: dice.below(40_000) as u64, ..SetAttr::default() };
                FsOp::SetAttr { id, set, handle: None }
            }
            5 => FsOp::ReadLink { id },
            6..9 => {
                let kind = *dice.one(&[Kind::Directory, Kind::Directory, Kind::Symlink, Kind::Fifo]);
                let target = if kind == Kind::Symlink { b"over/there".to_vec() } else { vec![] };
                FsOp::Make { parent, name, kind, mode, umask, rdev: 0, target }
            }
            9..12 => FsOp::Create { parent, name, mode: 0o644, umask, open: open_mode(dice) },
            12 => FsOp::TmpFile { parent, mode: 0o600, umask, open: OpenMode::READ_WRITE },
            13 => FsOp::Link { id, parent, name },
            14 => FsOp::Unlink { parent, name },
            15 => FsOp::Rmdir { parent, name },
            16 => {
                let (from_parent, from) = (*dice.one(ids), super::questions::name(dice));
                FsOp::Rename { from_parent, from, parent, name, flags: *dice.one(&[0, 0, 1, 2, 4]) }
            }
            17 if dice.percent(50) => FsOp::StatFs,
            17 => FsOp::Access { id, mask: 4 },
            18 => FsOp::SetXattr { id, name: xattr(dice), value: vec![1; dice.below(40)], flags: 0 },
            19 => FsOp::GetXattr { id, name: xattr(dice), probe: dice.percent(50) },
            20 => FsOp::ListXattr { id },
            _ => FsOp::Interrupt { unique: self.unique.saturating_sub(dice.below(8) as u64) },
        }
    }

    fn of_file(&self, dice: &mut Dice) -> FsOp {
        let handle = *dice.one(&self.files);
        let (offset, count) = (dice.below(60_000) as u64, 1 + dice.below(BYTES_MAX));
        match dice.below(14) {
            0..4 => {
                let data = vec![5; count].into();
                FsOp::Write {
                    handle,
                    offset,
                    data,
                    append: dice.percent(30),
                    kill_suidgid: dice.percent(10),
                    page: false,
                }
            }
            4..7 => FsOp::Read { handle, offset, bytes: count as u32, page: false },
            7 => FsOp::Allocate { handle, mode: *dice.one(&[0, 1, 3, 16]), offset, bytes: count as u64 },
            8 => FsOp::Seek { handle, offset, hole: dice.percent(50) },
            9 => {
                let (from, from_offset) = (*dice.one(&self.files), dice.below(60_000) as u64);
                FsOp::Copy { from, from_offset, handle, offset, bytes: count as u64 }
            }
            10 => FsOp::Fsync { handle },
            11 => FsOp::Flush { handle, lock_owner: dice.below(4) as u64 },
            12 => FsOp::TestLock { handle, lock: lock(dice) },
            _ => FsOp::SetLock { handle, lock: lock(dice), wait: dice.percent(50) },
        }
    }

    fn of_dir(&self, dice: &mut Dice) -> FsOp {
        let (handle, after, bytes) = (*dice.one(&self.dirs), *dice.one(&self.cookies), dice.below(8_192) as u32);
        match dice.below(5) {
            0 | 1 => FsOp::ReadDir { handle, after, bytes },
            2 | 3 => FsOp::ReadDirPlus { handle, after, bytes },
            _ => FsOp::Fsync { handle },
        }
    }
}

/// The handles that a request uses.
fn handles(op: &FsOp) -> [Option<Handle>; 2] {
    match *op {
        FsOp::GetAttr { handle, .. } => [handle, None],
        FsOp::Copy { from, handle, .. } => [Some(from), Some(handle)],
        FsOp::Write { handle, .. }
        | FsOp::Read { handle, .. }
        | FsOp::Allocate { handle, .. }
        | FsOp::Seek { handle, .. }
        | FsOp::Fsync { handle }
        | FsOp::Flush { handle, .. }
        | FsOp::TestLock { handle, .. }
        | FsOp::SetLock { handle, .. }
        | FsOp::ReadDir { handle, .. }
        | FsOp::ReadDirPlus { handle, .. } => [Some(handle), None],
        _ => [None, None],
    }
}

fn open_mode(dice: &mut Dice) -> OpenMode {
    let mut flag = |percent| dice.percent(percent);
    OpenMode {
        read: flag(80),
        write: flag(70),
        truncate: flag(10),
        append: flag(20),
        exclusive: flag(20),
        noatime: flag(20),
        direct: flag(10),
        ..OpenMode::READ_WRITE
    }
}
