//! Random operations of several users over a small, skewed name space.

use crate::client::Asked;
use crate::model::{Caller, Model};
use onpath_wire::acl::{Acl, AclEntry, Who};
use onpath_wire::caller::{Caps, IdMaps, IdRange, cap};
use onpath_wire::codec::Blob;
use onpath_wire::ids::{Cookie, InodeId, Slot};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::reply::Reply;
use onpath_wire::request::{NewNode, Request, SetAttr, open, rename, set};
use onpath_wire::xattr::{ACL_ACCESS, ACL_DEFAULT, CAPABILITY, XattrName};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use smallvec::SmallVec;
use std::rc::Rc;
use std::sync::Arc;

/// How the operations are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadConfig {
    /// Everything random comes from it.
    pub seed: u64,
    /// Names that the workload keeps about.
    pub names: usize,
    /// Directories that it keeps about.
    pub directories: usize,
    /// Of 100 operations so many read a page of a listing.
    pub readdir_percent: u32,
    /// Of 100 operations so many move a directory into another one, wherever that is.
    pub moves_percent: u32,
    /// Of 100 operations so many rename something, mostly a file.
    pub renames_percent: u32,
    /// Several users with permissions that differ, instead of root alone.
    pub users: bool,
    /// With `users`: root without capabilities, users with some, and roots of user namespaces as well, each as often as root.
    pub capable: bool,
    /// Renames, hard links and removals that span shards.
    pub transactions: bool,
}

impl Default for WorkloadConfig {
    fn default() -> Self {
        WorkloadConfig {
            seed: 1,
            names: 1_500,
            directories: 24,
            readdir_percent: 10,
            moves_percent: 0,
            renames_percent: 0,
            users: true,
            capable: false,
            transactions: true,
        }
    }
}

/// Directories of real sessions, which are nobody else's business.
pub(crate) const PRIVATE: &str = "session";

/// Files without a name that the workload remembers.
const NAMELESS: usize = 4;

fn is_private(name: &Name) -> bool {
    name.as_bytes().starts_with(PRIVATE.as_bytes())
}

/// Callers whose power is not what their uid says.
fn capable() -> Vec<Caller> {
    let with = |uid, gid, had, within| Caller { caps: Caps { within, ..Caps::exactly(had) }, ..Caller::new(uid, gid) };
    let range = |first| SmallVec::from_elem(IdRange { first, count: 2 }, 1);
    let namespace = || Some(Arc::new(IdMaps { uids: range(1002), gids: range(2001) }));
    vec![
        with(0, 0, 0, None),
        with(0, 2001, cap::FOWNER, None),
        with(1001, 2001, cap::DAC_OVERRIDE, None),
        with(1002, 2002, cap::DAC_READ_SEARCH | cap::CHOWN, None),
        with(1003, 2003, cap::FOWNER | cap::FSETID, None),
        with(1002, 2002, cap::ALL, namespace()),
        with(1004, 2004, cap::ALL, namespace()),
    ]
}

/// The source of operations. It looks into the model to know what is there, as a user would remember.
pub struct Workload {
    config: WorkloadConfig,
    rng: ChaCha8Rng,
    callers: Vec<Caller>,
    /// Directories believed to exist; the root first.
    dirs: Vec<InodeId>,
    scans: Vec<(InodeId, Cookie)>,
    /// Files made without a name.
    nameless: Vec<InodeId>,
}

impl Workload {
    /// A workload over an empty file system.
    pub fn new(config: WorkloadConfig) -> Workload {
        let with = |uid, gid, groups: &[u32]| Caller { groups: groups.into(), ..Caller::new(uid, gid) };
        let mut callers = vec![Caller::default()];
        if config.users {
            callers.extend([with(1001, 2001, &[2002]), with(1002, 2002, &[]), with(1003, 2003, &[2001, 2002])]);
        }
        if config.users && config.capable {
            callers.extend(capable());
        }
        let rng = ChaCha8Rng::seed_from_u64(config.seed);
        Workload { config, rng, callers, dirs: vec![InodeId::ROOT], scans: vec![], nameless: vec![] }
    }

    /// The first question: everybody may write into the root.
    pub fn opening() -> Rc<Asked> {
        let to = SetAttr { valid: set::MODE, mode: 0o777, ..SetAttr::default() };
        Asked::new(Caller::default(), Request::SetAttr { id: InodeId::ROOT, set: to })
    }

    /// Remembers what an answer teaches.
    pub fn learn(&mut self, asked: &Asked, reply: &Reply) {
        match (&asked.body.request, reply) {
            (Request::Lookup { name, .. } | Request::Create { name, .. }, Reply::Entry { attr, .. })
                if attr.kind == Kind::Directory && !is_private(name) && !self.dirs.contains(&attr.id) =>
            {
                self.dirs.push(attr.id);
            }
            (Request::TmpFile { .. }, Reply::Entry { attr, .. }) if self.nameless.len() < NAMELESS => {
                self.nameless.push(attr.id);
            }
            (Request::ReadDir { id, .. }, Reply::Dir { entries, end: false, .. }) if self.scans.len() < 8 => {
                self.scans.extend(entries.last().map(|entry| (*id, entry.cookie)));
            }
            _ => {}
        }
    }

    /// The next question.
    pub fn next(&mut self, model: &Model) -> Rc<Asked> {
        let request = self.request(model);
        let caller = if self.config.capable || self.rng.random_range(0..4) == 0 {
            self.rng.random_range(0..self.callers.len())
        } else {
            0
        };
        Asked::new(self.callers[caller].clone(), request)
    }

    fn dir(&mut self, model: &Model) -> InodeId {
        // The smaller of two draws: earlier directories are busier.
        let n = self.dirs.len();
        let index = self.rng.random_range(0..n).min(self.rng.random_range(0..n));
        let dir = self.dirs[index];
        if index > 0 && model.node(dir).is_none_or(|node| node.nlink == 0) && self.rng.random_range(0..4) == 0 {
            self.dirs.swap_remove(index); // removed; go on asking for a while
        }
        dir
    }

    fn name(&mut self, prefix: char) -> Name {
        let n = (2 * self.config.names / self.config.directories).max(4);
        let index = self.rng.random_range(0..n).min(self.rng.random_range(0..n * 2));
        Name::new(format!("{prefix}{index}").as_bytes()).expect("a short name")
    }

    /// A name with its inode that is there now, near a random place of a directory's listing.
    fn living(&mut self, model: &Model, dir: InodeId) -> Option<(Name, InodeId, Kind)> {
        let from = self.rng.random_range(0..1u64 << 47);
        let found = model.list(dir, from).next().or_else(|| model.list(dir, 0).next());
        let found = found.filter(|((_, _, name), _)| !is_private(name));
        found.map(|((_, _, name), leads)| (name.clone(), leads.child, leads.kind))
    }

    fn request(&mut self, model: &Model) -> Request {
        let parent = self.dir(model);
        if self.config.moves_percent > 0 && self.rng.random_range(0..100) < self.config.moves_percent {
            return self.move_directory(model, parent);
        }
        if self.config.renames_percent > 0 && self.rng.random_range(0..100) < self.config.renames_percent {
            return self.rename(model, parent);
        }
        let dice = self.rng.random_range(0..100);
        if dice < self.config.readdir_percent {
            return self.readdir(parent);
        }
        let crowded = model.names_live() > self.config.names;
        let dice = self.rng.random_range(0..100);
        match (dice, crowded) {
            (0..40, false) | (0..10, true) => self.create(model, parent),
            (40..52, false) | (10..52, true) => self.remove(model, parent),
            (52..54, _) => self.rmdir(model, parent),
            (54..62, _) if self.config.transactions => self.rename(model, parent),
            (62..65, _) if self.config.transactions => self.link(model, parent),
            (65..80, _) => Request::Lookup { parent, name: self.some_name(model, parent) },
            (80..84, _) => Request::GetAttr { id: parent },
            _ => self.by_id(model, parent),
        }
    }

    fn readdir(&mut self, id: InodeId) -> Request {
        let bytes = [256, 512, 1024, 2048][self.rng.random_range(0..4)];
        match self.scans.pop() {
            Some((id, after)) if self.rng.random_bool(0.5) => Request::ReadDir { id, after, bytes },
            _ => Request::ReadDir { id, after: Cookie(0), bytes },
        }
    }

    fn some_name(&mut self, model: &Model, parent: InodeId) -> Name {
        match self.living(model, parent) {
            Some((name, _, _)) if self.rng.random_bool(0.8) => name,
            _ => self.name('f'),
        }
    }

    fn create(&mut self, _: &Model, parent: InodeId) -> Request {
        if self.config.transactions && self.rng.random_range(0..24) == 0 {
            return self.tmpfile(parent);
        }
        let mkdir = self.dirs.len() < self.config.directories || self.rng.random_range(0..20) == 0;
        let kind = match self.rng.random_range(0..20) {
            _ if mkdir => Kind::Directory,
            0 => Kind::Symlink,
            1 => Kind::Fifo,
            _ => Kind::File,
        };
        let opens = [0, 0, open::WRITE | open::EXCLUSIVE, open::WRITE][self.rng.random_range(0..4)];
        let mode = match kind {
            Kind::Directory => [0o777, 0o777, 0o1777, 0o755, 0o6777][self.rng.random_range(0..5)],
            _ => [0o644, 0o666, 0o6755, 0o600][self.rng.random_range(0..4)],
        };
        let umask = [0, 0, 0o022, 0o077][if kind == Kind::Directory { 0 } else { self.rng.random_range(0..4) }];
        let target = Blob(if kind == Kind::Symlink { b"over/there".to_vec() } else { vec![] });
        let open = if kind == Kind::File { opens } else { 0 };
        let node = NewNode { kind, mode, umask, rdev: 0, target, open };
        Request::Create { parent, name: self.name(if mkdir { 'd' } else { 'f' }), node }
    }

    /// Nobody has it open, so it goes by itself unless somebody is quick to link it.
    fn tmpfile(&mut self, parent: InodeId) -> Request {
        let open = [0, 0, 0, open::EXCLUSIVE][self.rng.random_range(0..4)];
        let mode = [0o644, 0o2755][self.rng.random_range(0..2)];
        let node = NewNode { kind: Kind::File, mode, umask: 0o022, rdev: 0, target: Blob::default(), open };
        Request::TmpFile { parent, slot: Slot(self.rng.random()), node }
    }

    fn remove(&mut self, model: &Model, parent: InodeId) -> Request {
        let name = self.some_name(model, parent);
        Request::Unlink { parent, name }
    }

    fn rmdir(&mut self, model: &Model, parent: InodeId) -> Request {
        let name = match self.living(model, parent) {
            Some((name, _, Kind::Directory)) => name,
            _ => self.name('d'),
        };
        Request::Rmdir { parent, name }
    }

    fn rename(&mut self, model: &Model, from_parent: InodeId) -> Request {
        let parent = if self.rng.random_bool(0.5) { self.dir(model) } else { from_parent };
        let from = self.some_name(model, from_parent);
        let flags = match self.rng.random_range(0..32) {
            0..4 => rename::NOREPLACE,
            4..12 => rename::EXCHANGE,
            12..14 => rename::WHITEOUT,
            14 => rename::WHITEOUT | rename::NOREPLACE,
            15 => rename::EXCHANGE | rename::NOREPLACE,
            _ => 0,
        };
        let onto = flags & rename::EXCHANGE != 0 || self.rng.random_range(0..4) == 0;
        let name = if onto { self.some_name(model, parent) } else { self.name('f') };
        Request::Rename { from_parent, from, parent, name, flags }
    }

    fn move_directory(&mut self, model: &Model, from_parent: InodeId) -> Request {
        let is_directory = |of: &Option<(Name, InodeId, Kind)>| matches!(of, Some((.., Kind::Directory)));
        let found = (0..8).map(|_| self.living(model, from_parent)).find(is_directory).flatten();
        let from = found.map_or_else(|| self.name('d'), |(name, ..)| name);
        let parent = self.dir(model);
        if self.rng.random_range(0..6) == 0 {
            let found = (0..4).map(|_| self.living(model, parent)).find(is_directory).flatten();
            let name = found.map_or_else(|| self.some_name(model, parent), |(name, ..)| name);
            return Request::Rename { from_parent, from, parent, name, flags: rename::EXCHANGE };
        }
        Request::Rename { from_parent, from, parent, name: self.name('d'), flags: 0 }
    }

    fn link(&mut self, model: &Model, from: InodeId) -> Request {
        if !self.nameless.is_empty() && self.rng.random_range(0..2) == 0 {
            let id = self.nameless.swap_remove(0);
            return Request::Link { id, parent: self.dir(model), name: self.name('l') };
        }
        let id = self.living(model, from).map_or(from, |(_, id, _)| id);
        Request::Link { id, parent: self.dir(model), name: self.name('l') }
    }

    fn by_id(&mut self, model: &Model, parent: InodeId) -> Request {
        let id = self.living(model, parent).map_or(parent, |(_, id, _)| id);
        match self.rng.random_range(0..8) {
            0 => Request::SetAttr { id, set: self.setattr() },
            1 => Request::Open { id, flags: [open::READ, open::WRITE, open::EXEC][self.rng.random_range(0..3)] },
            2 => Request::Access { id, mask: self.rng.random_range(0..8) },
            3 => Request::ReadLink { id },
            4 if self.rng.random_range(0..4) == 0 => Request::SetAttr { id: parent, set: self.setattr() },
            5 => self.xattr(id),
            6 if self.rng.random_range(0..4) == 0 => self.acl(parent),
            _ => Request::GetAttr { id },
        }
    }

    fn xattr(&mut self, id: InodeId) -> Request {
        let names = [&b"user.a"[..], b"user.b", b"user.c", b"trusted.a", CAPABILITY, ACL_ACCESS, ACL_DEFAULT, b"user."];
        let name = XattrName::new(names[self.rng.random_range(0..names.len())]).expect("a short name");
        match self.rng.random_range(0..8) {
            0..4 if [ACL_ACCESS, ACL_DEFAULT].contains(&name.as_bytes()) => self.acl(id),
            0..4 => {
                let value = Blob(vec![self.rng.random(); [0, 7, 100][self.rng.random_range(0..3)]]);
                Request::SetXattr { id, name, value, flags: [0, 0, 1, 2][self.rng.random_range(0..4)] }
            }
            4 | 5 => Request::GetXattr { id, name },
            6 => Request::ListXattr { id },
            _ => Request::RemoveXattr { id, name, open_for_write: self.rng.random_bool(0.5) },
        }
    }

    /// Sets a random ACL, now and then none.
    fn acl(&mut self, id: InodeId) -> Request {
        let name = XattrName::new([ACL_ACCESS, ACL_DEFAULT][self.rng.random_range(0..2)]).expect("a short name");
        let named = [Who::User(1001), Who::User(1002), Who::OwningGroup, Who::Group(2001), Who::Group(2002), Who::Mask];
        let shape = self.rng.random_range(0..8);
        let kept = |who: &Who| match who {
            Who::OwningGroup => true,
            Who::Mask => shape > 0,
            _ => shape > 1,
        };
        let middle = named
            .into_iter()
            .filter(kept)
            .filter(|who| matches!(who, Who::OwningGroup | Who::Mask) || self.rng.random_bool(0.5));
        let all: Vec<Who> = [Who::Owner].into_iter().chain(middle).chain([Who::Other]).collect();
        let perms = [7, 7, 7, 5, 3, 0];
        let entry = |who| AclEntry { who, perm: perms[self.rng.random_range(0..6)] };
        let acl = Acl::new(all.into_iter().map(entry).collect()).expect("entries in order");
        let value = Blob(if self.rng.random_range(0..8) == 0 { vec![] } else { acl.to_xattr() });
        Request::SetXattr { id, name, value, flags: 0 }
    }

    fn setattr(&mut self) -> SetAttr {
        let valid = [
            set::MODE,
            set::UID,
            set::GID,
            set::MTIME | set::ATIME,
            set::MTIME | set::MTIME_NOW | set::ATIME | set::ATIME_NOW,
            set::READ | set::ATIME | set::ATIME_NOW,
        ];
        let (uids, gids) = ([0, 0, 1001, 1002], [0, 2001, 2002, 2003]);
        SetAttr {
            valid: valid[self.rng.random_range(0..6)],
            mode: [0o777, 0o777, 0o1777, 0o2777, 0o770, 0o6755][self.rng.random_range(0..6)],
            uid: uids[self.rng.random_range(0..4)],
            gid: gids[self.rng.random_range(0..4)],
            size: 0,
            atime: self.rng.random_range(0..2_000_000_000_000_000_000),
            mtime: self.rng.random_range(0..2_000_000_000_000_000_000),
        }
    }
}
