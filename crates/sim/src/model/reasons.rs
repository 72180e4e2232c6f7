//! All reasons for which a request that spans shards may fail now: POSIX leaves their order open, and a
//! transaction meets them in the order of its participants.

use super::access::{W, X, is_sticky, permits};
use super::decide::may_link;
use super::{Caller, Model, Node};
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::name::Name;
use onpath_wire::request::{Request, rename};

impl Model {
    /// Whether `errno` is one of the true reasons for which `request` fails.
    pub fn is_reason(&self, caller: &Caller, request: &Request, errno: Errno) -> bool {
        match request {
            Request::Rename { from_parent, from, parent, name, flags } => {
                self.rename_reasons(caller, (*from_parent, from), (*parent, name), *flags).contains(&errno)
            }
            Request::Link { id, parent, name } => self.link_reasons(caller, *id, *parent, name).contains(&errno),
            Request::Unlink { parent, name } => self.remove_reasons(caller, *parent, name, false).contains(&errno),
            Request::Rmdir { parent, name } => self.remove_reasons(caller, *parent, name, true).contains(&errno),
            _ => false,
        }
    }

    /// Why no name of `dir` may change.
    fn dir_reasons(&self, caller: &Caller, dir: InodeId, found: &mut Vec<Errno>) {
        match self.node(dir) {
            None => found.push(Errno::ENOENT),
            Some(node) if !node.is_dir() => found.push(Errno::ENOTDIR),
            Some(node) => {
                found.extend((node.nlink == 0).then_some(Errno::ENOENT));
                found.extend((!permits(caller, node, W | X)).then_some(Errno::EACCES));
            }
        }
    }

    fn sticky(&self, caller: &Caller, dir: InodeId, child: &Node) -> Option<Errno> {
        let dir = self.node(dir)?;
        is_sticky(caller, dir, child).then_some(Errno::EPERM)
    }

    fn victim_reasons(&self, caller: &Caller, dir: InodeId, child: &Node, as_dir: bool, found: &mut Vec<Errno>) {
        found.extend(self.sticky(caller, dir, child));
        found.extend((as_dir && !child.is_dir()).then_some(Errno::ENOTDIR));
        found.extend((!as_dir && child.is_dir()).then_some(Errno::EISDIR));
        found.extend((as_dir && child.entries > 0).then_some(Errno::ENOTEMPTY));
    }

    fn remove_reasons(&self, caller: &Caller, parent: InodeId, name: &Name, as_dir: bool) -> Vec<Errno> {
        let mut found = vec![];
        self.dir_reasons(caller, parent, &mut found);
        match self.child(parent, name) {
            Err(errno) => found.push(errno),
            Ok((_, child)) => self.victim_reasons(caller, parent, child, as_dir, &mut found),
        }
        found
    }

    fn link_reasons(&self, caller: &Caller, id: InodeId, parent: InodeId, name: &Name) -> Vec<Errno> {
        let mut found = vec![];
        self.dir_reasons(caller, parent, &mut found);
        found.extend(self.find(parent, name).map(|_| Errno::EEXIST));
        match self.node(id) {
            None => found.extend([Errno::ENOENT, Errno::ESTALE]),
            Some(node) if node.is_dir() => found.push(Errno::EPERM),
            Some(node) => {
                found.extend((node.nlink == 0 && !node.linkable).then_some(Errno::ENOENT));
                found.extend((!may_link(caller, node)).then_some(Errno::EPERM));
            }
        }
        found
    }

    fn rename_reasons(
        &self,
        caller: &Caller,
        (from_parent, from): (InodeId, &Name),
        (parent, name): (InodeId, &Name),
        flags: u32,
    ) -> Vec<Errno> {
        let mut found = vec![];
        self.dir_reasons(caller, from_parent, &mut found);
        self.dir_reasons(caller, parent, &mut found);
        let target = self.find(parent, name);
        let exchanges = flags & rename::EXCHANGE != 0;
        found.extend((exchanges && flags != rename::EXCHANGE).then_some(Errno::EINVAL));
        found.extend((exchanges && target.is_none()).then_some(Errno::ENOENT));
        found.extend((target.is_some() && flags & rename::NOREPLACE != 0).then_some(Errno::EEXIST));
        if let Ok((_, old)) = self.child(parent, name) {
            found.extend(self.sticky(caller, parent, old));
            found.extend((!exchanges && old.entries > 0).then_some(Errno::ENOTEMPTY));
        }
        let Ok((id, node)) = self.child(from_parent, from) else {
            found.push(Errno::ENOENT);
            return found;
        };
        self.victim_reasons(caller, from_parent, node, node.is_dir(), &mut found);
        found.retain(|errno| !(*errno == Errno::ENOTEMPTY && node.is_dir()));
        found.extend((node.is_dir() && self.is_ancestor(id, parent)).then_some(Errno::EINVAL));
        let stays = |node: &Node| node.is_dir() && from_parent != parent && !permits(caller, node, W);
        found.extend(stays(node).then_some(Errno::EACCES));
        if let Some(target) = target {
            let old = self.node(target.child).expect("names lead to inodes");
            if exchanges {
                found.extend(stays(old).then_some(Errno::EACCES));
                found.extend(self.is_ancestor(target.child, from_parent).then_some(Errno::EINVAL));
                return found;
            }
            self.victim_reasons(caller, parent, old, node.is_dir(), &mut found);
            found.extend((self.is_ancestor(target.child, from_parent) || old.entries > 0).then_some(Errno::ENOTEMPTY));
        }
        found
    }
}
