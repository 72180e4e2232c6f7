//! System calls through real sessions: a user works alone, in a directory of their own, through two mounts in turn, and
//! knows exactly what every call must answer – names, sizes, bytes, and which blocks have bytes or are reserved. After a call has returned on one mount the other
//! serves nothing older, whatever late copies the network still holds. Users run beside the raw clients.

use super::User;
use super::known::{Expect, KEEP_SIZE, Known, PUNCH_HOLE, Xattr, ZERO_RANGE};
use crate::workload::PRIVATE;
use crate::world::{Finished, World};
use bytes::Bytes;
use onpath_session::fs::{FsOp, FsReply, Handle, OpenMode};
use onpath_wire::attr::AttrWire;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{Cookie, InodeId};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::request::{SetAttr, rename, set};
use onpath_wire::xattr::{CAPABILITY, DIRECTORY_SUM, XattrName};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Largest file that is made, bytes.
const FILE_BYTES: u64 = 80_000;
/// Modes of fallocate(2).
const MODES: [u32; 5] = [0, KEEP_SIZE, PUNCH_HOLE | KEEP_SIZE, ZERO_RANGE, ZERO_RANGE | KEEP_SIZE];
/// Files that a session keeps about.
const FILES: usize = 6;

/// A user of two sessions.
pub struct Private {
    sessions: Vec<usize>,
    /// Through which the call under way goes.
    side: usize,
    rng: ChaCha8Rng,
    home: Name,
    dir: InodeId,
    dir_handles: [Option<Handle>; 2],
    files: Vec<Known>,
    names: u32,
    awaited: Option<(u64, Expect)>,
    closing: bool,
}

impl Private {
    /// Begins in a new session of `world`.
    pub fn begin(world: &mut World, seed: u64) -> Private {
        let session = world.add_session(&[crate::model::Caller::default()]);
        let home = Name::new(format!("{PRIVATE}{session}").as_bytes()).expect("a short name");
        let mut private = Private {
            sessions: vec![session],
            side: 0,
            rng: ChaCha8Rng::seed_from_u64(seed),
            home: home.clone(),
            dir: InodeId::NONE,
            dir_handles: [None; 2],
            files: vec![],
            names: 0,
            awaited: None,
            closing: false,
        };
        let make = FsOp::Make {
            parent: InodeId::ROOT,
            name: home,
            kind: Kind::Directory,
            mode: 0o755,
            umask: 0,
            rdev: 0,
            target: vec![],
        };
        private.call(world, make, Expect::MakeDir);
        private
    }

    /// Whether both mounts are there.
    fn has_both_mounts(&self) -> bool {
        self.sessions.len() == 2 && self.dir_handles[1].is_some()
    }

    fn call(&mut self, world: &mut World, op: FsOp, expect: Expect) {
        let unique = world.system_call(self.sessions[self.side], 0, op);
        self.awaited = Some((unique, expect));
    }

    fn home_text(&self) -> String {
        String::from_utf8_lossy(self.home.as_bytes()).into_owned()
    }

    fn take(&mut self, expect: Expect, result: Result<FsReply, Errno>) -> Result<(), String> {
        match (expect, result) {
            (Expect::MakeDir, Ok(FsReply::Entry(attr))) => self.dir = attr.id,
            (Expect::OpenDir, Ok(FsReply::Opened(opened))) => self.dir_handles[self.side] = Some(opened.handle),
            (Expect::Create(name, append), Ok(FsReply::Created { attr, opened, fresh: true })) => {
                let mut handles = [None; 2];
                handles[self.side] = Some((opened.handle, append));
                self.files.push(Known { name: Some(name), linkable: false, ..Known::fresh(attr.id, handles) });
            }
            (Expect::TmpFile { append, linkable }, Ok(FsReply::Created { attr, opened, fresh: true }))
                if attr.nlink == 0 =>
            {
                let mut handles = [None; 2];
                handles[self.side] = Some((opened.handle, append));
                self.files.push(Known { name: None, linkable, ..Known::fresh(attr.id, handles) });
            }
            (Expect::Link(file, name), Ok(FsReply::Linked(attr))) if attr.nlink == 1 => {
                (self.files[file].name, self.files[file].linkable) = (Some(name), false);
                return self.compare_size(file, attr.size);
            }
            (Expect::Unlinkable, Err(Errno::ENOENT)) => {}
            (Expect::Exchange(one, other), Ok(FsReply::Done)) => {
                let name = self.files[one].name.take();
                self.files[one].name = std::mem::replace(&mut self.files[other].name, name);
            }
            (Expect::Xattr { file, name, what }, result) => return self.take_xattr(file, name, what, result),
            (Expect::Unlink(file), Ok(FsReply::Done)) => {
                self.files[file].name = None;
                self.forget_if_unreachable(file);
            }
            (Expect::Release(file), Ok(FsReply::Done)) => {
                self.files[file].handles[self.side] = None;
                self.forget_if_unreachable(file);
            }
            (Expect::Open { file, truncate, append }, Ok(FsReply::Opened(opened))) => {
                let known = &mut self.files[file];
                known.handles[self.side] = Some((opened.handle, append));
                if truncate {
                    known.is_changed();
                    known.blocks.truncate(known.bytes.len() as u64, 0);
                    known.bytes.clear();
                }
            }
            (Expect::Rename(file, name), Ok(FsReply::Done)) => self.files[file].name = Some(name),
            (Expect::Lookup(file), Ok(FsReply::Entry(attr))) if attr.id == self.files[file].id => {
                return self.compare_shown(file, &attr);
            }
            (Expect::Missing, Err(Errno::ENOENT) | Ok(FsReply::Missing)) | (Expect::Done, Ok(FsReply::Done)) => {}
            (Expect::List, Ok(FsReply::DirPlus(entries))) => {
                let mut seen: Vec<_> =
                    entries.iter().filter(|(e, _)| e.cookie > Cookie::DOTDOT).map(|(e, _)| e.name.clone()).collect();
                let mut known: Vec<_> = self.files.iter().filter_map(|file| file.name.clone()).collect();
                seen.sort();
                known.sort();
                if seen != known {
                    return Err(format!("lists {seen:?} instead of {known:?}"));
                }
                return entries
                    .iter()
                    .filter_map(|(_, attr)| attr.as_ref())
                    .try_for_each(|attr| self.compare_listed(attr));
            }
            (Expect::Sum, Ok(FsReply::Value(value))) => return self.compare_sum(&String::from_utf8_lossy(&value)),
            (expect, result) => return self.take_data(expect, result),
        }
        Ok(())
    }

    /// The same for what is about a file's bytes.
    fn take_data(&mut self, expect: Expect, result: Result<FsReply, Errno>) -> Result<(), String> {
        match (expect, result) {
            (Expect::Write { file, offset, data }, Ok(FsReply::Written(n))) if n as usize == data.len() => {
                let known = &mut self.files[file];
                known.is_changed();
                let append = known.handles[self.side].is_some_and(|(_, append)| append);
                let offset = if append { known.bytes.len() } else { offset as usize };
                let end = offset + data.len();
                known.bytes.resize(known.bytes.len().max(end), 0);
                known.bytes[offset..end].copy_from_slice(&data);
                known.blocks.write(offset as u64, data.len() as u64);
            }
            (Expect::Allocate { file, mode, offset, bytes }, Ok(FsReply::Done)) => {
                self.files[file].allocate(mode, offset, bytes);
            }
            (Expect::Seek { file, offset, hole }, result) => return self.compare_seek(file, offset, hole, &result),
            (Expect::Copy { from, from_offset, file, offset, bytes }, Ok(FsReply::Copied(n))) => {
                let most = bytes.min((self.files[from].bytes.len() as u64).saturating_sub(from_offset));
                if n > most || (n == 0 && most > 0) {
                    return Err(format!("{n} bytes are copied instead of {most}"));
                }
                if n > 0 {
                    self.copied(from, from_offset, file, offset, n);
                }
            }
            (Expect::Read { file, offset, bytes }, Ok(FsReply::Data(parts))) => {
                return self.compare_bytes(file, offset as usize, bytes, &parts.concat());
            }
            (Expect::Truncate { file, size }, Ok(FsReply::Attr { attr, .. })) => {
                let known = &mut self.files[file];
                known.is_changed();
                known.blocks.truncate(known.bytes.len() as u64, size);
                known.bytes.resize(size as usize, 0);
                return self.compare_size(file, attr.size);
            }
            (Expect::SetTime { file, time }, Ok(FsReply::Attr { attr, .. })) => {
                self.files[file].time = Some((time, true));
                return self.compare_shown(file, &attr);
            }
            (Expect::Size(file), Ok(FsReply::Attr { attr, .. })) => {
                self.files[file].blocks.compare(attr.blocks())?;
                return self.compare_shown(file, &attr);
            }
            (expect, result) => return Err(format!("{} is answered {result:?}", expect.name())),
        }
        Ok(())
    }

    fn take_xattr(
        &mut self,
        file: usize,
        name: XattrName,
        what: Xattr,
        result: Result<FsReply, Errno>,
    ) -> Result<(), String> {
        let xattrs = &mut self.files[file].xattrs;
        match (what, result) {
            (Xattr::Set(value), Ok(FsReply::Done)) => drop(xattrs.insert(name, value)),
            (Xattr::Get, Ok(FsReply::Value(value))) if xattrs.get(&name) == Some(&value) => {}
            (Xattr::Remove, Ok(FsReply::Done)) if xattrs.remove(&name).is_some() => {}
            (Xattr::Get | Xattr::Remove, Err(Errno::ENODATA)) if !xattrs.contains_key(&name) => {}
            (_, result) => return Err(format!("{name:?} of {:?} is answered {result:?}", self.files[file].id)),
        }
        Ok(())
    }

    fn forget_if_unreachable(&mut self, file: usize) {
        if self.files[file].name.is_none() && self.files[file].handles == [None; 2] {
            self.files.remove(file);
        }
    }

    fn compare_shown(&self, file: usize, attr: &AttrWire) -> Result<(), String> {
        if let Some((time, stays)) = self.files[file].time.filter(|(time, stays)| (attr.mtime == *time) != *stays) {
            return Err(format!("mtime {} after {time} was set, and stays: {stays}", attr.mtime));
        }
        self.compare_size(file, attr.size)
    }

    /// What a listing tells of one of the files, if it tells it, is what a stat would.
    fn compare_listed(&self, attr: &AttrWire) -> Result<(), String> {
        let file = self.files.iter().position(|file| file.id == attr.id);
        let file = file.ok_or_else(|| format!("lists {:?}", attr.id))?;
        self.compare_shown(file, attr).map_err(|why| format!("lists {:?} with {why}", attr.id))
    }

    fn compare_size(&self, file: usize, size: u64) -> Result<(), String> {
        let expected = self.files[file].bytes.len() as u64;
        if size == expected { Ok(()) } else { Err(format!("size {size} instead of {expected}")) }
    }

    /// What the named files amount to, but for the blocks.
    fn compare_sum(&self, told: &str) -> Result<(), String> {
        let named: Vec<_> = self.files.iter().filter(|file| file.name.is_some()).collect();
        let (files, bytes) = (named.len(), named.iter().map(|file| file.bytes.len()).sum::<usize>());
        let begins = format!("entries {files}\nfiles {files}\ndirectories 0\nothers 0\nbytes {bytes}\nallocated ");
        let fits = told.starts_with(&begins) && told.ends_with("\nlinked 0\n");
        if fits { Ok(()) } else { Err(format!("sums up to {told:?} instead of {begins:?}")) }
    }

    fn compare_seek(
        &self,
        file: usize,
        offset: u64,
        hole: bool,
        result: &Result<FsReply, Errno>,
    ) -> Result<(), String> {
        let known = &self.files[file];
        let expected = known.blocks.seek(offset, hole, known.bytes.len() as u64);
        match (expected, result) {
            (None, Err(Errno::ENXIO)) => Ok(()),
            (Some(at), Ok(FsReply::Position(found))) if at == *found => Ok(()),
            _ => Err(format!("seek from {offset} (hole: {hole}) gives {result:?} instead of {expected:?}")),
        }
    }

    fn copied(&mut self, from: usize, from_offset: u64, file: usize, offset: u64, n: u64) {
        let source = &self.files[from];
        let bytes = source.bytes[from_offset as usize..(from_offset + n) as usize].to_vec();
        let blocks = (from != file).then(|| source.blocks.clone());
        let known = &mut self.files[file];
        known.is_changed();
        let (start, end) = (offset as usize, (offset + n) as usize);
        known.bytes.resize(known.bytes.len().max(end), 0);
        known.bytes[start..end].copy_from_slice(&bytes);
        known.blocks.copy(blocks.as_ref(), from_offset, offset, n);
    }

    fn compare_bytes(&self, file: usize, offset: usize, asked: usize, got: &[u8]) -> Result<(), String> {
        let bytes = &self.files[file].bytes;
        let expected = &bytes[offset.min(bytes.len())..(offset + asked).min(bytes.len())];
        if got == expected {
            return Ok(());
        }
        let at = got.iter().zip(expected).position(|(a, b)| a != b);
        Err(format!(
            "{:?}: read({offset}, {asked}) gives {} bytes instead of {}; first difference at {at:?}",
            self.files[file].id,
            got.len(),
            expected.len()
        ))
    }

    fn next(&mut self, world: &mut World) {
        if self.dir_handles == [None; 2] {
            self.sessions.push(world.add_session(&[crate::model::Caller::default()]));
        }
        self.side = if self.has_both_mounts() { self.rng.random_range(0..2) } else { 1 };
        if self.dir_handles[self.side].is_none() {
            return self.call(world, FsOp::OpenDir { id: self.dir, noatime: false }, Expect::OpenDir);
        }
        let room = self.files.len() < FILES;
        let file = if self.files.is_empty() { 0 } else { self.rng.random_range(0..self.files.len()) };
        let dice = self.rng.random_range(0..100);
        if self.files.is_empty() || (room && dice < 12) {
            return self.create(world);
        }
        let known = &self.files[file];
        match (known.handles[self.side], known.name.clone()) {
            (Some((handle, append)), name) => match dice {
                0..26 => self.write(world, file, handle, append),
                26..33 => self.allocate(world, file, handle),
                33..37 => {
                    let (offset, hole) = (self.rng.random_range(0..FILE_BYTES), self.rng.random_bool(0.5));
                    self.call(world, FsOp::Seek { handle, offset, hole }, Expect::Seek { file, offset, hole });
                }
                37..40 if !append => self.copy(world, file, handle),
                37..40 => self.read(world, file, handle),
                40..62 => self.read(world, file, handle),
                62..72 => self.truncate(world, file, handle),
                72 => self.call(world, FsOp::Fsync { handle }, Expect::Done),
                73..75 => {
                    let time = self.rng.random_range(1..1_000_000);
                    let set = SetAttr { valid: set::MTIME, mtime: time, ..SetAttr::default() };
                    let op = FsOp::SetAttr { id: self.files[file].id, set, handle: Some(handle) };
                    self.call(world, op, Expect::SetTime { file, time });
                }
                75..78 => self.xattr(world, file),
                78..80 => self.call(world, FsOp::GetAttr { id: self.files[file].id, handle: None }, Expect::Size(file)),
                80..86 => self.call(world, FsOp::Release { handle, flock_owner: None }, Expect::Release(file)),
                _ => self.by_name(world, file, name, dice),
            },
            (None, name) if dice < 40 => self.by_name(world, file, name, 86 + dice % 14),
            (None, _) => {
                let (truncate, append) = (dice.is_multiple_of(3), dice.is_multiple_of(5));
                let mode = OpenMode { read: true, write: true, truncate, append, ..OpenMode::default() };
                let id = self.files[file].id;
                self.call(world, FsOp::Open { id, mode }, Expect::Open { file, truncate, append });
            }
        }
    }

    fn by_name(&mut self, world: &mut World, file: usize, name: Option<Name>, dice: u32) {
        let (parent, Some(name)) = (self.dir, name) else {
            let Known { id, linkable, handles, .. } = self.files[file];
            if dice < 93 && handles[self.side].is_some() {
                let name = self.new_name();
                let expect = if linkable { Expect::Link(file, name.clone()) } else { Expect::Unlinkable };
                return self.call(world, FsOp::Link { id, parent: self.dir, name }, expect);
            }
            let name = Name::new(b"nothing").expect("a short name");
            return self.call(world, FsOp::Lookup { parent: self.dir, name }, Expect::Missing);
        };
        match dice {
            86..90 => self.call(world, FsOp::Unlink { parent, name }, Expect::Unlink(file)),
            90..93 => {
                let other = self.rng.random_range(0..self.files.len());
                if let Some(to) = self.files[other].name.clone().filter(|_| other != file && dice == 90) {
                    let flags = rename::EXCHANGE;
                    let op = FsOp::Rename { from_parent: parent, from: name, parent, name: to, flags };
                    return self.call(world, op, Expect::Exchange(file, other));
                }
                let to = self.new_name();
                let op = FsOp::Rename { from_parent: parent, from: name, parent, name: to.clone(), flags: 0 };
                self.call(world, op, Expect::Rename(file, to));
            }
            93..97 => self.call(world, FsOp::Lookup { parent, name }, Expect::Lookup(file)),
            99 => {
                let name = XattrName::new(DIRECTORY_SUM).expect("a short name");
                self.call(world, FsOp::GetXattr { id: self.dir, name, probe: false }, Expect::Sum);
            }
            _ => {
                let handle = self.dir_handles[self.side].expect("opened first");
                let op = FsOp::ReadDirPlus { handle, after: Cookie(0), bytes: 65_536 };
                self.call(world, op, Expect::List);
            }
        }
    }

    fn new_name(&mut self) -> Name {
        self.names += 1;
        Name::new(format!("file{}", self.names).as_bytes()).expect("a short name")
    }

    fn create(&mut self, world: &mut World) {
        let name = self.new_name();
        let append = self.rng.random_bool(0.2);
        let open = OpenMode { read: true, write: true, append, ..OpenMode::default() };
        if self.rng.random_bool(0.2) {
            let linkable = self.rng.random_bool(0.8);
            let open = OpenMode { exclusive: !linkable, ..open };
            let op = FsOp::TmpFile { parent: self.dir, mode: 0o644, umask: 0, open };
            return self.call(world, op, Expect::TmpFile { append, linkable });
        }
        let op = FsOp::Create { parent: self.dir, name: name.clone(), mode: 0o644, umask: 0, open };
        self.call(world, op, Expect::Create(name, append));
    }

    fn write(&mut self, world: &mut World, file: usize, handle: Handle, append: bool) {
        let len = [1, 100, 4096, 9_000][self.rng.random_range(0..4)];
        let known = &self.files[file];
        let offset = if append {
            known.bytes.len() as u64
        } else {
            let block = self.rng.random_range(0..FILE_BYTES / 4096) * 4096;
            if self.rng.random_bool(0.5) { block } else { self.rng.random_range(0..FILE_BYTES) }
        };
        let seed: u8 = self.rng.random();
        let data: Bytes = (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect::<Vec<_>>().into();
        let op = FsOp::Write { handle, offset, data: data.clone(), append, kill_suidgid: false, page: false };
        self.call(world, op, Expect::Write { file, offset, data });
    }

    fn read(&mut self, world: &mut World, file: usize, handle: Handle) {
        let (offset, bytes) = match self.rng.random_bool(0.5) {
            true => (0, 131_072),
            false => (self.rng.random_range(0..FILE_BYTES), self.rng.random_range(1..20_000)),
        };
        let expect = Expect::Read { file, offset, bytes: bytes as usize };
        self.call(world, FsOp::Read { handle, offset, bytes, page: false }, expect);
    }

    fn allocate(&mut self, world: &mut World, file: usize, handle: Handle) {
        let mode = MODES[self.rng.random_range(0..MODES.len())];
        let offset = self.rng.random_range(0..FILE_BYTES);
        let bytes = [1, 5_000, 4096, 20_000][self.rng.random_range(0..4)];
        let offset = if self.rng.random_bool(0.5) { offset / 4096 * 4096 } else { offset };
        let expect = Expect::Allocate { file, mode, offset, bytes };
        self.call(world, FsOp::Allocate { handle, mode, offset, bytes }, expect);
    }

    /// Copies from a file that is open on this side, perhaps the same one.
    fn copy(&mut self, world: &mut World, file: usize, handle: Handle) {
        let open: Vec<usize> = (0..self.files.len()).filter(|&i| self.files[i].handles[self.side].is_some()).collect();
        let from = open[self.rng.random_range(0..open.len())];
        let (source, _) = self.files[from].handles[self.side].expect("just seen");
        let unit = if self.rng.random_bool(0.5) { 4096 } else { 1 };
        let mut place = || self.rng.random_range(0..FILE_BYTES / 2) / unit * unit;
        let (from_offset, offset) = (place(), place());
        let most = if from == file { from_offset.abs_diff(offset) } else { FILE_BYTES / 2 };
        let bytes = most.min([100, 4096, 40_000][self.rng.random_range(0..3)]);
        let expect = Expect::Copy { from, from_offset, file, offset, bytes };
        self.call(world, FsOp::Copy { from: source, from_offset, handle, offset, bytes }, expect);
    }

    fn xattr(&mut self, world: &mut World, file: usize) {
        let names = [&b"user.a"[..], b"user.b", b"trusted.c", CAPABILITY];
        let name = XattrName::new(names[self.rng.random_range(0..names.len())]).expect("a short name");
        let id = self.files[file].id;
        match self.rng.random_range(0..8) {
            0..3 if name.as_bytes() != CAPABILITY => {
                let value = vec![self.rng.random(); self.rng.random_range(0..300)];
                let op = FsOp::SetXattr { id, name: name.clone(), value: value.clone(), flags: 0 };
                self.call(world, op, Expect::Xattr { file, name, what: Xattr::Set(value) });
            }
            3 => {
                let op = FsOp::RemoveXattr { id, name: name.clone() };
                self.call(world, op, Expect::Xattr { file, name, what: Xattr::Remove });
            }
            _ => {
                let op = FsOp::GetXattr { id, name: name.clone(), probe: false };
                self.call(world, op, Expect::Xattr { file, name, what: Xattr::Get });
            }
        }
    }

    fn truncate(&mut self, world: &mut World, file: usize, handle: Handle) {
        let size = if self.rng.random_bool(0.2) { 0 } else { self.rng.random_range(0..FILE_BYTES) };
        let to = SetAttr { valid: set::SIZE | set::OPEN_FOR_WRITE, size, ..SetAttr::default() };
        let op = FsOp::SetAttr { id: self.files[file].id, set: to, handle: Some(handle) };
        self.call(world, op, Expect::Truncate { file, size });
    }
}

impl User for Private {
    fn has(&self, session: usize) -> bool {
        self.sessions.contains(&session)
    }

    fn answered(&mut self, world: &mut World, finished: Finished) {
        let Some((unique, expect)) = self.awaited.take() else {
            return world.checker.violation(format!("{} answers what nobody asked", self.home_text()));
        };
        if unique != finished.unique {
            return world.checker.violation(format!("{} answers another request", self.home_text()));
        }
        if let Err(why) = self.take(expect, finished.result) {
            return world.checker.violation(format!("{} #{unique}: {why}", self.home_text()));
        }
        if !self.closing {
            self.next(world);
        }
    }

    fn close(&mut self) {
        self.closing = true;
    }

    fn is_idle(&self) -> bool {
        self.awaited.is_none()
    }

    fn orphans(&self) -> u64 {
        self.files.iter().filter(|file| file.name.is_none()).count() as u64
    }
}
