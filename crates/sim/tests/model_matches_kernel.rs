//! The model against the kernel's own file system: random operations of several users, errno and attributes compared.
//!
//! Needs root (to act as other users); skipped with a reason otherwise.
#![allow(unsafe_code)] // helpers that change the thread's file-system user

use crate::callers::{become_user, capable, users};
use onpath_sim::model::{Caller, Model, Plan, Shape};
use onpath_wire::acl::{Acl, AclEntry, Who};
use onpath_wire::caller::{Over, cap};
use onpath_wire::codec::Blob;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{Birth, Cookie, InodeId, Slot};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::request::{NewNode, Request, SetAttr, open, rename, set};
use onpath_wire::secrets::Secrets;
use onpath_wire::xattr::{ACL_ACCESS, ACL_DEFAULT, XattrName};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::HashMap;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

/// Operations without `ONPATH_MODEL_OPERATIONS`.
const OPERATIONS: usize = 1_000_000;
/// Trees that are changed at the same time, each from its own seed.
const TREES: usize = 4;
const NAMES: u32 = 6;
const INODES_MAX: usize = 120;

struct Local {
    fds: HashMap<InodeId, File>,
}

fn last_errno() -> Errno {
    Errno::from_raw(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

fn result(code: libc::c_int) -> Result<(), Errno> {
    if code < 0 { Err(last_errno()) } else { Ok(()) }
}

fn cname(name: &Name) -> CString {
    CString::new(name.as_bytes()).expect("names have no NUL")
}

fn xattr_cname(name: &XattrName) -> CString {
    CString::new(name.as_bytes()).expect("names have no NUL")
}

/// The names that are tried. A thread that gives up its file-system user keeps the capabilities for other namespaces.
fn xattr_names() -> [XattrName; 4] {
    [&b"user.a"[..], b"user.b", ACL_ACCESS, ACL_DEFAULT].map(|name| XattrName::new(name).expect("a name"))
}

impl Local {
    fn fd(&self, id: InodeId) -> libc::c_int {
        self.fds[&id].as_raw_fd()
    }

    fn magic(&self, id: InodeId) -> CString {
        CString::new(format!("/proc/self/fd/{}", self.fd(id))).expect("no NUL")
    }

    fn run(&self, request: &Request) -> Result<(), Errno> {
        // SAFETY: every pointer is to a live CString or timespec array; descriptors are open O_PATH files.
        unsafe {
            match request {
                Request::Lookup { parent, name } => {
                    let mut stat = std::mem::zeroed();
                    result(libc::fstatat(self.fd(*parent), cname(name).as_ptr(), &mut stat, libc::AT_SYMLINK_NOFOLLOW))
                }
                Request::Create { parent, name, node } => self.create(*parent, name, node),
                Request::Link { id, parent, name } => result(libc::linkat(
                    libc::AT_FDCWD,
                    self.magic(*id).as_ptr(),
                    self.fd(*parent),
                    cname(name).as_ptr(),
                    libc::AT_SYMLINK_FOLLOW,
                )),
                Request::Unlink { parent, name } => result(libc::unlinkat(self.fd(*parent), cname(name).as_ptr(), 0)),
                Request::Rmdir { parent, name } => {
                    result(libc::unlinkat(self.fd(*parent), cname(name).as_ptr(), libc::AT_REMOVEDIR))
                }
                Request::Rename { from_parent, from, parent, name, flags } => result(libc::syscall(
                    libc::SYS_renameat2,
                    self.fd(*from_parent),
                    cname(from).as_ptr(),
                    self.fd(*parent),
                    cname(name).as_ptr(),
                    *flags,
                ) as libc::c_int),
                Request::Open { id, flags } => self.open(*id, *flags),
                Request::SetAttr { id, set } => self.setattr(*id, set),
                Request::Access { id, mask } => result(libc::syscall(
                    libc::SYS_faccessat2,
                    self.fd(*id),
                    c"".as_ptr(),
                    *mask,
                    libc::AT_EMPTY_PATH | libc::AT_EACCESS,
                ) as libc::c_int),
                Request::ReadLink { id } => {
                    let mut buffer = [0u8; 128];
                    let n = libc::readlinkat(self.fd(*id), c"".as_ptr(), buffer.as_mut_ptr().cast(), buffer.len());
                    // The kernel says ENOENT for an empty path that is no symlink; readlink(2) of a name says EINVAL.
                    result(n as libc::c_int).map_err(|e| if e == Errno::ENOENT { Errno::EINVAL } else { e })
                }
                Request::SetXattr { id, name, value, flags } => {
                    let (path, name, value) = (self.magic(*id), xattr_cname(name), &value.0);
                    let (bytes, flags) = (value.as_ptr().cast(), *flags as libc::c_int);
                    result(libc::setxattr(path.as_ptr(), name.as_ptr(), bytes, value.len(), flags))
                }
                Request::GetXattr { id, name } => self.xattr(*id, name).map(drop),
                Request::RemoveXattr { id, name, .. } => {
                    result(libc::removexattr(self.magic(*id).as_ptr(), xattr_cname(name).as_ptr()))
                }
                other => panic!("not part of this test: {other:?}"),
            }
        }
    }

    fn xattr(&self, id: InodeId, name: &XattrName) -> Result<Vec<u8>, Errno> {
        let mut value = vec![0u8; 1024];
        let (path, name) = (self.magic(id), xattr_cname(name));
        // SAFETY: live CStrings, and a buffer with its length.
        let n = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
        result(n as libc::c_int)?;
        value.truncate(n as usize);
        Ok(value)
    }

    fn create(&self, parent: InodeId, name: &Name, node: &NewNode) -> Result<(), Errno> {
        let (dir, name) = (self.fd(parent), cname(name));
        // SAFETY: pointers to live CStrings; umask is set back by the next create.
        unsafe {
            libc::umask(libc::mode_t::from(node.umask));
            match node.kind {
                Kind::Directory => result(libc::mkdirat(dir, name.as_ptr(), node.mode.into())),
                Kind::Symlink => {
                    let target = CString::new(node.target.0.as_slice()).expect("no NUL");
                    result(libc::symlinkat(target.as_ptr(), dir, name.as_ptr()))
                }
                Kind::File if node.open != 0 => {
                    let excl = if node.open & open::EXCLUSIVE != 0 { libc::O_EXCL } else { 0 };
                    let trunc = if node.open & open::TRUNCATE != 0 { libc::O_TRUNC } else { 0 };
                    let flags = libc::O_CREAT | libc::O_RDWR | libc::O_NONBLOCK | libc::O_NOFOLLOW | excl | trunc;
                    let fd = libc::openat(dir, name.as_ptr(), flags, libc::c_uint::from(node.mode));
                    result(fd)?;
                    result(libc::close(fd))
                }
                kind => result(libc::mknodat(dir, name.as_ptr(), kind.mode_bits() | u32::from(node.mode), 0)),
            }
        }
    }

    fn open(&self, id: InodeId, flags: u32) -> Result<(), Errno> {
        let mode = match (flags & open::READ != 0, flags & open::WRITE != 0) {
            (true, true) => libc::O_RDWR,
            (false, true) => libc::O_WRONLY,
            _ => libc::O_RDONLY,
        };
        let trunc = if flags & open::TRUNCATE != 0 { libc::O_TRUNC } else { 0 };
        // SAFETY: a live CString; the descriptor is closed at once.
        unsafe {
            let fd = libc::open(self.magic(id).as_ptr(), mode | trunc | libc::O_NONBLOCK);
            result(fd)?;
            result(libc::close(fd))
        }
    }

    fn setattr(&self, id: InodeId, to: &SetAttr) -> Result<(), Errno> {
        let path = self.magic(id);
        let has = |bits: u32| to.valid & bits != 0;
        let time = |wanted: u32, now: u32, value: i64| libc::timespec {
            tv_sec: value.div_euclid(1_000_000_000),
            tv_nsec: match (has(wanted), has(now)) {
                (false, _) => libc::UTIME_OMIT,
                (_, true) => libc::UTIME_NOW,
                _ => value.rem_euclid(1_000_000_000),
            },
        };
        // SAFETY: a live CString and array.
        unsafe {
            if has(set::SIZE) {
                return result(libc::truncate(path.as_ptr(), to.size as i64));
            }
            if has(set::MODE) {
                return result(libc::chmod(path.as_ptr(), to.mode.into()));
            }
            if has(set::UID | set::GID) {
                let pick = |bit: u32, id: u32| if has(bit) { id } else { u32::MAX };
                let (uid, gid) = (pick(set::UID, to.uid), pick(set::GID, to.gid));
                return result(libc::fchownat(self.fd(id), c"".as_ptr(), uid, gid, libc::AT_EMPTY_PATH));
            }
            let times = [time(set::ATIME, set::ATIME_NOW, to.atime), time(set::MTIME, set::MTIME_NOW, to.mtime)];
            result(libc::utimensat(libc::AT_FDCWD, path.as_ptr(), times.as_ptr(), 0))
        }
    }
}

struct Test {
    callers: Vec<Caller>,
    rng: ChaCha8Rng,
    model: Model,
    local: Local,
    /// Inodes that were created, perhaps gone by now.
    known: Vec<InodeId>,
    /// Inodes created so far.
    count: u32,
    /// Operations that both have answered.
    answered: usize,
}

impl Test {
    fn pick(&mut self, dirs_only: bool) -> InodeId {
        loop {
            let index = self.rng.random_range(0..self.known.len());
            let id = self.known[index];
            match self.model.node(id).filter(|node| node.nlink > 0) {
                None => {
                    self.known.swap_remove(index);
                    self.local.fds.remove(&id);
                }
                Some(node) if !dirs_only || node.is_dir() => return id,
                Some(_) => {}
            }
        }
    }

    fn name(&mut self) -> Name {
        Name::new(format!("n{}", self.rng.random_range(0..NAMES)).as_bytes()).unwrap()
    }

    fn mode(&mut self) -> u16 {
        const MODES: [u16; 10] = [0o755, 0o777, 0o1777, 0o2775, 0o2777, 0o700, 0o644, 0o6755, 0o2745, 0o070];
        if self.rng.random_bool(0.2) { self.rng.random_range(0..0o10000) } else { MODES[self.rng.random_range(0..10)] }
    }

    fn request(&mut self) -> Request {
        let (parent, name, id) = (self.pick(true), self.name(), self.pick(false));
        match self.rng.random_range(0..100) {
            0..8 => Request::Lookup { parent, name },
            8..40 => Request::Create { parent, name, node: self.new_node() },
            40..47 => Request::Link { id, parent, name },
            47..57 => Request::Unlink { parent, name },
            57..64 => Request::Rmdir { parent, name },
            64..76 => Request::Rename {
                from_parent: self.pick(true),
                from: self.name(),
                parent,
                name,
                flags: self.rename_flags(),
            },
            76..82 => Request::Open { id, flags: [1, 2, 3, 1 | 2 | 8, 2 | 8][self.rng.random_range(0..5)] },
            82..85 => Request::Access { id, mask: self.rng.random_range(0..8) },
            85..86 => Request::ReadLink { id },
            86..92 => self.xattr(id, parent),
            _ => Request::SetAttr { id, set: self.setattr() },
        }
    }

    fn rename_flags(&mut self) -> u32 {
        match self.rng.random_range(0..20) {
            0..4 => rename::NOREPLACE,
            4..10 => rename::EXCHANGE,
            10..12 => rename::WHITEOUT,
            12 => rename::WHITEOUT | rename::NOREPLACE,
            13 => rename::EXCHANGE | [rename::WHITEOUT, rename::NOREPLACE][self.rng.random_range(0..2)],
            _ => 0,
        }
    }

    fn new_node(&mut self) -> NewNode {
        let kind =
            [Kind::Directory, Kind::Directory, Kind::Directory, Kind::File, Kind::File, Kind::Symlink, Kind::Fifo]
                [self.rng.random_range(0..7)];
        let umask = [0, 0o022, 0o077][self.rng.random_range(0..3)];
        let opens = [0, 3, 3 | open::EXCLUSIVE, 3 | open::TRUNCATE][self.rng.random_range(0..4)];
        let open = if kind == Kind::File { opens } else { 0 };
        let target = Blob(if kind == Kind::Symlink { b"nowhere".to_vec() } else { vec![] });
        NewNode { kind, mode: self.mode(), umask, rdev: 0, target, open }
    }

    fn xattr(&mut self, id: InodeId, dir: InodeId) -> Request {
        let name = xattr_names()[self.rng.random_range(0..4)].clone();
        let id = if name.as_bytes() == ACL_DEFAULT && self.rng.random_bool(0.8) { dir } else { id };
        match self.rng.random_range(0..8) {
            0 => Request::GetXattr { id, name },
            1 | 2 => Request::RemoveXattr { id, name, open_for_write: false },
            _ if name.as_bytes().starts_with(b"user.") => {
                let value = Blob(vec![self.rng.random(); self.rng.random_range(0..20)]);
                Request::SetXattr { id, name, value, flags: self.rng.random_range(0..4) }
            }
            _ => Request::SetXattr { id, name, value: Blob(self.acl()), flags: 0 },
        }
    }

    fn acl(&mut self) -> Vec<u8> {
        let named = [Who::User(1001), Who::User(1002), Who::OwningGroup, Who::Group(2001), Who::Group(2002), Who::Mask];
        let shape = self.rng.random_range(0..4);
        let mut entries = vec![Who::Owner];
        for who in named {
            let chosen = match who {
                Who::OwningGroup => true,
                Who::Mask => shape > 0,
                _ => shape > 1 && self.rng.random_bool(0.5),
            };
            entries.extend(chosen.then_some(who));
        }
        entries.push(Who::Other);
        let entry = |who| AclEntry { who, perm: self.rng.random_range(0..8) };
        Acl::new(entries.into_iter().map(entry).collect()).expect("entries in order").to_xattr()
    }

    fn setattr(&mut self) -> SetAttr {
        let mut to = SetAttr { mode: self.mode(), size: self.rng.random_range(0..10_000), ..SetAttr::default() };
        to.uid = [0, 1001, 1002][self.rng.random_range(0..3)];
        to.gid = [0, 2001, 2002, 2003][self.rng.random_range(0..4)];
        to.atime = self.rng.random_range(0..2_000_000_000_000_000_000);
        to.mtime = self.rng.random_range(-1_000_000_000..2_000_000_000_000_000_000);
        let both = set::ATIME | set::MTIME;
        to.valid = [
            set::MODE,
            set::MODE,
            set::UID,
            set::GID,
            set::UID | set::GID,
            set::SIZE,
            both,
            both | set::ATIME_NOW | set::MTIME_NOW,
            set::MTIME,
            set::ATIME | set::ATIME_NOW,
        ][self.rng.random_range(0..10)];
        to
    }

    fn step(&mut self) {
        let step = self.answered;
        let mut request = self.request();
        let caller = self.callers[self.rng.random_range(0..self.callers.len())].clone();
        say_that_suid_goes(&caller, &mut request);
        if self.out_of_scope(&caller, &request) {
            return;
        }
        let mut decided = self.model.decide(&caller, &request);
        if let (Request::Create { node, .. }, Ok(Plan { answer: Shape::Entry { id: Some(id), .. }, .. })) =
            (&request, &decided)
        {
            decided = self.model.decide(&caller, &Request::Open { id: *id, flags: node.open });
        }
        self.answered += 1;
        become_user(&caller);
        let local = self.local.run(&request);
        become_user(&Caller::default());
        let expected = decided.as_ref().map(|_| ()).map_err(|e| *e);
        assert_eq!(local, expected, "step {step}: {caller:?} {request:?}; left: the kernel");
        let Ok(plan) = decided else { return };
        self.count += 1;
        let kind = match &request {
            Request::Create { node, .. } => node.kind,
            Request::Rename { .. } => Kind::CharDevice, // a whiteout
            _ => Kind::File,
        };
        let id = InodeId::new(Slot(9), Birth(1 + (self.count >> 16)), self.count as u16, kind);
        self.model.apply(&plan.change, Some(id)).expect("a fresh id");
        if let Request::Create { parent, name, .. } = &request
            && self.model.node(id).is_some()
        {
            self.keep(id, *parent, name);
        }
        if let Request::Rename { from_parent, from, .. } = &request
            && self.model.node(id).is_some()
        {
            self.keep(id, *from_parent, from); // a whiteout
        }
        for id in touched(&request).chain([id]) {
            self.compare(id, step, &request);
        }
        if step.is_multiple_of(1000) {
            self.compare_all(step);
        }
    }

    /// Requests that reach the kernel in another form than through a path, or for which its answer is a setting.
    fn out_of_scope(&self, caller: &Caller, request: &Request) -> bool {
        let kind = |id: &InodeId| self.model.node(*id).unwrap().kind;
        let sgid_only = |id: &InodeId| self.model.node(*id).unwrap().mode & 0o2010 == 0o2000;
        match request {
            // setgid without group execution: whether it goes depends on who asks; Onpath keeps it.
            Request::SetAttr { id, set: to } if to.valid & (set::SIZE | set::UID | set::GID) != 0 && sgid_only(id) => {
                true
            }
            Request::Open { id, flags } if flags & open::KILL_SUIDGID != 0 && sgid_only(id) => true,
            Request::SetAttr { id, .. } => kind(id) == Kind::Symlink || kind(id) == Kind::Fifo,
            // A name without an inode's own path is the link's, not the target's.
            Request::SetXattr { id, .. } | Request::GetXattr { id, .. } | Request::RemoveXattr { id, .. } => {
                kind(id) == Kind::Symlink
            }
            // A FIFO without a reader cannot be opened for writing (ENXIO): that is the kernel's own business.
            Request::Open { id, flags } if kind(id) == Kind::Fifo => flags & open::WRITE != 0,
            // So is a device without a driver.
            Request::Open { id, .. } => kind(id) == Kind::CharDevice,
            // The model has protected_hardlinks = 1, as usual.
            Request::Link { id, .. } => {
                let uid = self.model.node(*id).unwrap().uid;
                let owner = caller.uid == uid || caller.has(cap::FOWNER, Over::Uid(uid));
                !owner && !HARDLINKS_PROTECTED.with(|protected| *protected)
            }
            Request::Create { parent, name, node } => {
                node.kind == Kind::Directory && self.model.ids().len() > INODES_MAX
                    || self
                        .model
                        .find(*parent, name)
                        .is_some_and(|l| node.open != 0 && (l.kind != Kind::File || sgid_only(&l.child)))
            }
            _ => false,
        }
    }

    fn keep(&mut self, id: InodeId, parent: InodeId, name: &Name) {
        let path = format!("/proc/self/fd/{}/{}", self.local.fd(parent), String::from_utf8_lossy(name.as_bytes()));
        let file = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path).unwrap();
        self.local.fds.insert(id, file);
        self.known.push(id);
    }

    fn compare(&self, id: InodeId, step: usize, request: &Request) {
        let (Some(node), Some(file)) = (self.model.node(id), self.local.fds.get(&id)) else { return };
        let meta = file.metadata().unwrap();
        let seen = (meta.mode(), meta.uid(), meta.gid(), meta.nlink());
        let expected = (node.kind.mode_bits() | u32::from(node.mode), node.uid, node.gid, u64::from(node.nlink));
        assert_eq!(seen, expected, "step {step}: {request:?} of {node:?}; left: the kernel");
        if !node.is_dir() {
            assert_eq!(meta.size(), node.visible_size(), "step {step}: {request:?}");
        }
        if matches!(request, Request::Create { .. } | Request::SetXattr { .. } | Request::SetAttr { .. })
            && node.kind != Kind::Symlink
        {
            self.compare_xattrs(id, step, request);
        }
        if node.mtime.exact {
            assert_eq!(meta.mtime() * 1_000_000_000 + meta.mtime_nsec(), node.mtime.value, "step {step}: {request:?}");
        }
    }

    fn compare_xattrs(&self, id: InodeId, step: usize, request: &Request) {
        for name in xattr_names() {
            let local = self.local.xattr(id, &name);
            let model = self.model.decide(&Caller::default(), &Request::GetXattr { id, name: name.clone() });
            let model = model.map(|plan| match plan.answer {
                Shape::Value { value } => value.to_vec(),
                other => panic!("{other:?}"),
            });
            assert_eq!(local, model, "step {step}: {name:?} of {id:?} after {request:?}; left: the kernel");
        }
    }

    fn compare_all(&self, step: usize) {
        for id in self.model.ids() {
            let request = Request::GetAttr { id };
            self.compare(id, step, &request);
            if !self.model.node(id).unwrap().is_dir() {
                continue;
            }
            let path = format!("/proc/self/fd/{}", self.local.fd(id));
            let mut local: Vec<_> = std::fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name()).collect();
            local.sort();
            let mut model: Vec<_> = self.model.list(id, 0).map(|((_, _, name), _)| name.clone()).collect();
            model.sort();
            assert!(
                local.iter().map(|n| n.as_encoded_bytes()).eq(model.iter().map(|n| n.as_bytes())),
                "{local:?} {model:?}"
            );
            assert_eq!(model.len() as u64, self.model.node(id).unwrap().entries);
        }
    }
}

thread_local! {
    static HARDLINKS_PROTECTED: bool =
        std::fs::read_to_string("/proc/sys/fs/protected_hardlinks").is_ok_and(|s| s.trim() != "0");
}

/// The kernel itself clears setuid and setgid for callers without CAP_FSETID; a request says so.
fn say_that_suid_goes(caller: &Caller, request: &mut Request) {
    if caller.has(cap::FSETID, Over::All) {
        return;
    }
    match request {
        Request::SetAttr { set: to, .. } if to.valid & set::SIZE != 0 => to.valid |= set::KILL_SUIDGID,
        Request::Open { flags, .. } if *flags & open::TRUNCATE != 0 => *flags |= open::KILL_SUIDGID,
        Request::Create { node, .. } if node.open & open::TRUNCATE != 0 => node.open |= open::KILL_SUIDGID,
        _ => {}
    }
}

fn touched(request: &Request) -> impl Iterator<Item = InodeId> {
    let ids = match request {
        Request::Create { parent, .. } | Request::Unlink { parent, .. } | Request::Rmdir { parent, .. } => {
            [*parent, *parent]
        }
        Request::Link { id, parent, .. } => [*id, *parent],
        Request::Rename { from_parent, parent, .. } => [*from_parent, *parent],
        Request::Open { id, .. }
        | Request::SetAttr { id, .. }
        | Request::SetXattr { id, .. }
        | Request::RemoveXattr { id, .. } => [*id, *id],
        _ => [InodeId::ROOT; 2],
    };
    ids.into_iter()
}

#[test]
fn random_operations_of_five_users_end_as_on_the_local_file_system() {
    compare_trees(1, users);
}

#[test]
fn random_operations_of_capable_callers_end_as_on_the_local_file_system() {
    compare_trees(5, capable);
}

/// `share`: one operation of so many that are wanted.
fn compare_trees(share: usize, callers: fn() -> Vec<Caller>) {
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } != 0 {
        // Past libtest, which would hide it.
        onpath_testing::skipped("model_matches_kernel", "acting as other users needs root");
        return;
    }
    let wanted =
        std::env::var("ONPATH_MODEL_OPERATIONS").map(|n| n.parse().expect("ONPATH_MODEL_OPERATIONS is a number"));
    let operations: usize = wanted.unwrap_or(OPERATIONS) / share;
    std::thread::scope(|threads| {
        (1..=TREES as u64)
            .for_each(|seed| drop(threads.spawn(move || compare_tree(seed, operations.div_ceil(TREES), callers()))));
    });
    println!("{operations} operations were answered alike");
}

/// Random operations from a seed on a fresh directory, by this thread.
fn compare_tree(seed: u64, operations: usize, callers: Vec<Caller>) {
    // SAFETY: no memory is concerned: this thread gets a umask of its own.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_FS) }, 0, "a umask of its own for a thread");
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(dir.path(), Some(0), Some(0)).unwrap();
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let root = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(dir.path()).unwrap();
    let mut test = Test {
        callers,
        rng: ChaCha8Rng::seed_from_u64(seed),
        model: Model::new(Secrets::of_seed(3).inner.listings()),
        local: Local { fds: HashMap::from([(InodeId::ROOT, root)]) },
        known: vec![InodeId::ROOT],
        count: 0,
        answered: 0,
    };
    let open_up = SetAttr { valid: set::MODE, mode: 0o777, ..SetAttr::default() };
    let request = Request::SetAttr { id: InodeId::ROOT, set: open_up };
    let plan = test.model.decide(&Caller::default(), &request).unwrap();
    test.model.apply(&plan.change, None).unwrap();
    test.local.run(&request).unwrap();
    while test.answered < operations {
        test.step();
    }
    test.compare_all(operations);
}

#[test]
fn a_change_can_be_taken_back_and_put_forward() {
    let mut model = Model::new(Secrets::of_seed(3).inner.listings());
    let name = |n: &str| Name::new(n.as_bytes()).unwrap();
    let root = Caller::default();
    let node = NewNode { kind: Kind::File, mode: 0o644, umask: 0, rdev: 0, target: Blob::default(), open: 0 };
    let id = InodeId::new(Slot(1), Birth(1), 1, Kind::File);
    let create = Request::Create { parent: InodeId::ROOT, name: name("a"), node };
    let plan = model.decide(&root, &create).unwrap();
    model.apply(&plan.change, Some(id)).unwrap();
    let before = model.node(InodeId::ROOT).cloned();
    let remove = model.decide(&root, &Request::Unlink { parent: InodeId::ROOT, name: name("a") }).unwrap();
    let mut delta = model.apply(&remove.change, None).unwrap();
    assert!(model.find(InodeId::ROOT, &name("a")).is_none());
    model.swap(&mut delta);
    assert_eq!(model.find(InodeId::ROOT, &name("a")).unwrap().child, id);
    assert_eq!(model.node(InodeId::ROOT).cloned(), before);
    model.swap(&mut delta);
    assert!(model.find(InodeId::ROOT, &name("a")).is_none());
    assert_eq!(model.list(InodeId::ROOT, Cookie(0).hash47()).count(), 0);
}
