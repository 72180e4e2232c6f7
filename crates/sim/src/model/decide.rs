//! What a request does and answers in the present state, nothing being changed.

use super::access::{R, W, X, owns, permits, without_suid_sgid, without_suid_sgid_by};
use super::{Caller, Model, Node};
use onpath_wire::errno::Errno;
use onpath_wire::ids::{Cookie, InodeId};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::request::{NewNode, Request, open};
use std::sync::Arc;

/// A change of the namespace.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// None.
    Nothing,
    /// A new inode under a new name; its id is the system's choice.
    Create {
        /// Directory.
        parent: InodeId,
        /// Name.
        name: Name,
        /// The inode.
        node: Box<Node>,
    },
    /// A new inode without a name.
    Nameless {
        /// The inode.
        node: Box<Node>,
    },
    /// A further name.
    Link {
        /// The inode.
        id: InodeId,
        /// Directory.
        parent: InodeId,
        /// Name.
        name: Name,
    },
    /// A name goes, that of an empty directory or of anything else.
    Remove {
        /// Directory.
        parent: InodeId,
        /// Name.
        name: Name,
        /// The inode it led to.
        id: InodeId,
    },
    /// A name moves.
    Rename {
        /// Old directory.
        from_parent: InodeId,
        /// Old name.
        from: Name,
        /// New directory.
        parent: InodeId,
        /// New name.
        name: Name,
        /// The inode.
        id: InodeId,
        /// What the new name led to.
        replaced: Option<InodeId>,
        /// What stays under the old name (RENAME_WHITEOUT).
        whiteout: Option<Box<Node>>,
    },
    /// Two names change places.
    Exchange {
        /// One directory.
        from_parent: InodeId,
        /// Its name.
        from: Name,
        /// The other directory.
        parent: InodeId,
        /// Its name.
        name: Name,
    },
    /// New attributes.
    Attributes {
        /// The inode.
        id: InodeId,
        /// All of it, as it will be.
        node: Box<Node>,
    },
}

impl Change {
    /// Whether an inode comes with it, whose id is the system's choice.
    pub fn makes_an_inode(&self) -> bool {
        matches!(self, Change::Create { .. } | Change::Nameless { .. } | Change::Rename { whiteout: Some(_), .. })
    }
}

/// The shape of a successful answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `Done`.
    Done,
    /// `Entry`; no id: of the inode that the change creates.
    Entry {
        /// The inode.
        id: Option<InodeId>,
        /// Exact in everything; else a directory's times, links and size may be old (LOOKUP).
        exact: bool,
    },
    /// `Attr`.
    Attr {
        /// The inode.
        id: InodeId,
        /// Exact in everything; else a directory's times, links and size may be old.
        exact: bool,
    },
    /// `Dir`.
    Dir {
        /// Directory.
        id: InodeId,
        /// Entries after this position.
        after: Cookie,
        /// Most bytes.
        bytes: u32,
    },
    /// `Written`.
    Written {
        /// The file.
        id: InodeId,
    },
    /// `Target`.
    Target {
        /// The symlink.
        id: InodeId,
    },
    /// `Value`, of these bytes.
    Value {
        /// The bytes.
        value: Arc<Vec<u8>>,
    },
    /// Anything: the model does not speak of it.
    Any,
}

/// What a request that succeeds does and answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Its change.
    pub change: Change,
    /// Its answer.
    pub answer: Shape,
}

/// The decision on a request.
pub type Decided = Result<Plan, Errno>;

fn reads(answer: Shape) -> Decided {
    Ok(Plan { change: Change::Nothing, answer })
}

impl Model {
    /// Decides a request. What neither changes nor shows the namespace is answered [`Shape::Any`].
    pub fn decide(&self, caller: &Caller, request: &Request) -> Decided {
        match request {
            Request::Lookup { parent, name } | Request::LookupLed { parent, name, .. } => {
                self.searchable(caller, *parent)?;
                let (id, _) = self.child(*parent, name)?;
                reads(Shape::Entry { id: Some(id), exact: false })
            }
            Request::GetAttr { id } | Request::DataRef { id } => {
                self.existing(*id)?;
                reads(Shape::Attr { id: *id, exact: matches!(request, Request::GetAttr { .. }) })
            }
            Request::SetAttr { id, set } => self.decide_setattr(caller, *id, set),
            Request::Create { parent, name, node } => self.decide_create(caller, *parent, name, node),
            Request::Link { id, parent, name } => self.decide_link(caller, *id, *parent, name),
            Request::Unlink { parent, name } => self.decide_remove(caller, *parent, name, false),
            Request::Rmdir { parent, name } => self.decide_remove(caller, *parent, name, true),
            Request::Rename { from_parent, from, parent, name, flags } => {
                self.decide_rename(caller, (*from_parent, from), (*parent, name), *flags)
            }
            Request::TmpFile { parent, node, .. } => self.decide_nameless(caller, *parent, node),
            Request::Open { id, flags } | Request::OpenAgain { id, flags, .. } => self.decide_open(caller, *id, *flags),
            Request::ReadDir { id, after, bytes } => {
                if !self.existing(*id)?.is_dir() {
                    return Err(Errno::ENOTDIR);
                }
                reads(Shape::Dir { id: *id, after: *after, bytes: *bytes })
            }
            Request::ReadLink { id } => match self.existing(*id)?.kind {
                Kind::Symlink => reads(Shape::Target { id: *id }),
                _ => Err(Errno::EINVAL),
            },
            Request::Access { id, mask } => {
                let node = self.existing(*id)?;
                if permits(caller, node, *mask as u16 & 7) { reads(Shape::Done) } else { Err(Errno::EACCES) }
            }
            Request::SetXattr { id, name, value, flags } => self.decide_set_xattr(caller, *id, name, &value.0, *flags),
            Request::GetXattr { id, name } => self.decide_get_xattr(caller, *id, name),
            Request::ListXattr { id } => self.decide_list_xattr(caller, *id),
            Request::RemoveXattr { id, name, open_for_write } => {
                self.decide_remove_xattr(caller, *id, name, *open_for_write)
            }
            Request::Release { .. }
            | Request::StatFs
            | Request::GetAttrs { .. }
            | Request::SetLock { .. }
            | Request::TestLock { .. }
            | Request::CancelLock { .. }
            | Request::DropLocks { .. }
            | Request::ConfirmWait { .. }
            | Request::LockWaits { .. }
            | Request::Reserve { .. }
            | Request::Unreserve { .. }
            | Request::Sync { .. }
            | Request::Attach { .. }
            | Request::Renew
            | Request::RenewAlone
            | Request::HandBack { .. }
            | Request::Detach { .. }
            | Request::Kept
            | Request::Resolve { .. }
            | Request::WriteBack { .. }
            | Request::WrittenBack { .. }
            | Request::Learn { .. }
            | Request::Map { .. } => reads(Shape::Any),
        }
    }

    /// Decides a write of bytes, as its home hears of it: size, times, setuid and setgid.
    pub fn decide_write(&self, id: InodeId, end: u64, kill_suidgid: bool) -> Decided {
        let mut node = self.existing(id)?.clone();
        node.size = node.size.max(end);
        node.modify();
        node.without_capabilities();
        if kill_suidgid {
            node.mode = without_suid_sgid(node.mode);
        }
        Ok(Plan { change: Change::Attributes { id, node: Box::new(node) }, answer: Shape::Written { id } })
    }

    /// The inode of an id; ESTALE where there is none.
    pub(super) fn existing(&self, id: InodeId) -> Result<&Node, Errno> {
        self.nodes.get(&id).ok_or(Errno::ESTALE)
    }

    fn decide_create(&self, caller: &Caller, parent: InodeId, name: &Name, new: &NewNode) -> Decided {
        let dir = self.searchable(caller, parent)?;
        if let Some(found) = self.find(parent, name) {
            if new.open == 0 || new.open & open::EXCLUSIVE != 0 {
                return Err(Errno::EEXIST);
            }
            // O_CREAT of what exists is a lookup; the open that follows is a request of its own.
            return reads(Shape::Entry { id: Some(found.child), exact: false });
        }
        self.may_add(caller, dir)?;
        let node = Box::new(inherit(caller, dir, parent, new));
        let answer = Shape::Entry { id: None, exact: true };
        Ok(Plan { change: Change::Create { parent, name: name.clone(), node }, answer })
    }

    fn decide_nameless(&self, caller: &Caller, parent: InodeId, new: &NewNode) -> Decided {
        let dir = self.searchable(caller, parent)?;
        self.may_add(caller, dir)?;
        let linkable = new.open & open::EXCLUSIVE == 0;
        let node = Box::new(Node { nlink: 0, linkable, ..inherit(caller, dir, parent, new) });
        Ok(Plan { change: Change::Nameless { node }, answer: Shape::Entry { id: None, exact: true } })
    }

    fn decide_link(&self, caller: &Caller, id: InodeId, parent: InodeId, name: &Name) -> Decided {
        let dir = self.searchable(caller, parent)?;
        if self.find(parent, name).is_some() {
            return Err(Errno::EEXIST);
        }
        let node = self.existing(id)?;
        if !may_link(caller, node) {
            return Err(Errno::EPERM);
        }
        self.may_add(caller, dir)?;
        if node.is_dir() {
            return Err(Errno::EPERM);
        }
        if node.nlink == 0 && !node.linkable {
            return Err(Errno::ENOENT);
        }
        let answer = Shape::Entry { id: Some(id), exact: true };
        Ok(Plan { change: Change::Link { id, parent, name: name.clone() }, answer })
    }

    fn decide_remove(&self, caller: &Caller, parent: InodeId, name: &Name, as_dir: bool) -> Decided {
        let dir = self.searchable(caller, parent)?;
        let (id, child) = self.child(parent, name)?;
        self.may_remove(caller, dir, child, as_dir)?;
        if child.is_dir() && child.entries > 0 {
            return Err(Errno::ENOTEMPTY);
        }
        Ok(Plan { change: Change::Remove { parent, name: name.clone(), id }, answer: Shape::Done })
    }

    fn decide_open(&self, caller: &Caller, id: InodeId, flags: u32) -> Decided {
        let node = self.existing(id)?;
        let answer = Shape::Attr { id, exact: false };
        if flags & (open::AGAIN | open::MADE) != 0 {
            return reads(answer);
        }
        let writes = flags & (open::WRITE | open::TRUNCATE) != 0;
        match node.kind {
            Kind::Symlink => return Err(Errno::ELOOP),
            Kind::Directory if writes => return Err(Errno::EISDIR),
            Kind::Directory if flags & open::EXEC != 0 => return Err(Errno::EACCES),
            _ => {}
        }
        let bit = |flag: u32, want: u16| if flags & flag != 0 { want } else { 0 };
        let want = bit(open::READ, R) | bit(open::WRITE | open::TRUNCATE, W) | bit(open::EXEC, X);
        if !permits(caller, node, want) {
            return Err(Errno::EACCES);
        }
        if flags & open::TRUNCATE == 0 || node.kind != Kind::File {
            return reads(answer);
        }
        let mut node = node.clone();
        node.size = 0;
        node.modify();
        node.without_capabilities();
        if flags & open::KILL_SUIDGID != 0 {
            node.mode = without_suid_sgid_by(caller, &node);
        }
        Ok(Plan { change: Change::Attributes { id, node: Box::new(node) }, answer })
    }
}

/// A file that is not the caller's must be an ordinary one that they may read and write (protected_hardlinks).
pub(super) fn may_link(caller: &Caller, node: &Node) -> bool {
    let special = node.kind != Kind::File || node.mode & 0o4000 != 0 || node.mode & 0o2010 == 0o2010;
    owns(caller, node) || (!special && permits(caller, node, R | W))
}

/// The inode that `caller` makes in `dir`: umask or default ACL, setgid inheritance.
pub(super) fn inherit(caller: &Caller, dir: &Node, parent: InodeId, new: &NewNode) -> Node {
    let inherits = dir.mode & 0o2000 != 0;
    let gid = if inherits { dir.gid } else { caller.gid };
    let mut node = Node { uid: caller.uid, gid, ..Model::blank(new.kind, new.mode & 0o7777) };
    if !node.inherit_acl(dir, new.mode & 0o7777) {
        node.mode &= !(new.umask & 0o777);
    }
    let mut mode = node.mode;
    match new.kind {
        Kind::Directory => mode = mode & 0o1777 | if inherits { 0o2000 } else { 0 },
        Kind::Symlink => mode = 0o777,
        // The kernel looks before it applies the umask.
        _ if inherits && new.mode & 0o2010 == 0o2010 && !caller.keeps_setgid(dir, gid) => mode &= !0o2000,
        _ => {}
    }
    node.mode = mode;
    match new.kind {
        Kind::Directory => node.parent = parent,
        Kind::Symlink => node.target = Some(Arc::new(new.target.0.clone())),
        Kind::CharDevice | Kind::BlockDevice => node.rdev = new.rdev,
        _ => {}
    }
    node
}
