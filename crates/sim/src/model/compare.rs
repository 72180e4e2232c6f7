//! Whether an answer of the system is the model's.

use super::decide::{Decided, Shape};
use super::{Model, Node};
use onpath_wire::attr::AttrWire;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{Cookie, InodeId};
use onpath_wire::inode::Kind;
use onpath_wire::reply::{DirEntry, Reply};
use onpath_wire::request::Request;

/// Bytes that an entry of a page counts beside its name.
const ENTRY_BYTES: usize = 32;

/// Why an answer is wrong.
pub type Mismatch = String;

/// Of which moment the times in an answer are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Of the present one.
    Now,
    /// Of it, or of one since the question, and the inode has changed in between.
    NowOrBefore,
    /// Of one that is over, or of who knows when.
    Elsewhere,
}

/// The answer to a request whose change was applied, as of that moment.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Its shape, the id of a new inode filled in.
    pub shape: Shape,
    /// The inode that it shows, as it was.
    node: Option<(InodeId, Node)>,
    created: bool,
}

impl Model {
    /// Notes the answer of this shape right after its change was applied; `created`: the id of a new inode.
    pub fn expect(&self, shape: Shape, created: Option<InodeId>) -> Expected {
        let shape = match shape {
            Shape::Entry { id: None, exact } => Shape::Entry { id: created, exact },
            other => other,
        };
        let id = match shape {
            Shape::Entry { id, .. } => id,
            Shape::Attr { id, .. } | Shape::Written { id } => Some(id),
            _ => None,
        };
        let node = id.map(|id| (id, self.nodes[&id].clone()));
        Expected { shape, node, created: created.is_some() }
    }

    /// Compares the answer to a change with what was noted when it happened.
    pub fn compare_expected(&mut self, expected: &Expected, reply: &Reply) -> Result<(), Mismatch> {
        match (&expected.shape, reply, &expected.node) {
            (Shape::Entry { exact, .. }, Reply::Entry { attr, created, .. }, Some((id, node))) => {
                if *created != expected.created {
                    return Err(format!("says created: {created}"));
                }
                compare_node(*id, node, attr, *exact)?;
                // Of a link the home tells the time of change later.
                if *created {
                    self.pin(*id, attr, Some(node), *exact);
                }
                Ok(())
            }
            (Shape::Attr { exact, .. }, Reply::Attr { attr, .. }, Some((id, node))) => {
                compare_node(*id, node, attr, *exact)?;
                self.pin(*id, attr, Some(node), *exact);
                Ok(())
            }
            (
                Shape::Written { .. },
                Reply::Written { size } | Reply::WrittenLent { size, .. } | Reply::WrittenBesidePages { size, .. },
                Some((_, node)),
            ) if *size == node.size => Ok(()),
            // Of the right kind, the checker has seen.
            (Shape::Done, Reply::Done, _) | (Shape::Any, _, _) => Ok(()),
            _ => Err(format!("answered {reply:?} instead of {:?}", expected.shape)),
        }
    }

    /// Compares the answer to a change of attributes by who knows the end of the file (V-7): its home may not have heard of his last writes,
    /// so size and times are those of before them. He himself is shown more.
    pub fn compare_known_end(&mut self, expected: &Expected, reply: &Reply) -> Result<(), Mismatch> {
        match (&expected.shape, reply, &expected.node) {
            (Shape::Attr { .. }, Reply::Attr { attr, .. }, Some((id, node))) if attr.size <= node.visible_size() => {
                let mut node = node.clone();
                for (time, seen) in
                    [(&mut node.atime, attr.atime), (&mut node.mtime, attr.mtime), (&mut node.ctime, attr.ctime)]
                {
                    *time = super::Time::exact(seen);
                }
                compare_node(*id, &node, &AttrWire { size: node.visible_size(), ..*attr }, false)
            }
            _ => Err(format!("answered {reply:?} instead of {:?}", expected.shape)),
        }
    }

    /// Compares an answer without a change with the present state. What it tells of the times is kept as `seen` says.
    pub fn compare(&mut self, decided: &Decided, reply: &Reply, seen: Seen) -> Result<(), Mismatch> {
        let shape = match (decided, reply) {
            (Err(errno), Reply::Failed { errno: said }) if same_errno(*errno, *said) => return Ok(()),
            (Err(errno), _) => return Err(format!("answered {reply:?} instead of {errno}")),
            (Ok(plan), Reply::Failed { errno }) => {
                return Err(format!("failed with {errno} instead of {:?}", plan.answer));
            }
            (Ok(plan), _) => &plan.answer,
        };
        match (shape, reply) {
            // Of the right kind, the checker has seen.
            (Shape::Any, _) | (Shape::Done, Reply::Done) => Ok(()),
            // Found by the name's site, which may have asked the inode's home a while ago: not the last word on times.
            (&Shape::Entry { id: Some(id), exact }, Reply::Entry { attr, created: false, .. }) => {
                self.compare_attr(id, attr, exact, Seen::Elsewhere)
            }
            (&Shape::Attr { id, exact }, Reply::Attr { attr, .. }) => self.compare_attr(id, attr, exact, seen),
            (Shape::Value { value: expected }, Reply::Value { value }) if **expected == value.0 => Ok(()),
            (Shape::Target { id }, Reply::Target { target, .. }) => match &self.nodes[id].target {
                Some(expected) if **expected == target.0 => Ok(()),
                _ => Err("another target".into()),
            },
            (&Shape::Dir { id, after, bytes }, Reply::Dir { parent, entries, end, .. }) => {
                self.compare_page(id, after, bytes, *parent, entries, *end)
            }
            _ => Err(format!("answered {reply:?} instead of {shape:?}")),
        }
    }

    /// An inode without links may be reclaimed at any time: whether `reply` says that the one that `request`
    /// is about is gone.
    pub fn may_be_gone(&self, request: &Request, reply: &Reply) -> bool {
        let Reply::Failed { errno: Errno::ENOENT | Errno::ESTALE } = reply else { return false };
        let removed = |id: InodeId| self.nodes.get(&id).is_none_or(|node| node.nlink == 0);
        let about = request.describe().about;
        about.inode().into_iter().chain(about.names().map(|(parent, _)| parent)).any(removed)
    }

    fn compare_attr(&mut self, id: InodeId, attr: &AttrWire, exact: bool, seen: Seen) -> Result<(), Mismatch> {
        compare_node(id, &self.nodes[&id], attr, exact)?;
        match seen {
            Seen::Now => self.pin(id, attr, None, exact),
            Seen::NowOrBefore => {
                let node = self.nodes.get_mut(&id).expect("just compared");
                if exact || attr.kind != Kind::Directory {
                    node.told = node.told.max(attr.ctime); // whatever changes from now on changes later
                    if !node.ctime.exact {
                        node.ctime.value = node.ctime.value.max(attr.ctime - 1); // it only grows
                    }
                }
            }
            Seen::Elsewhere => {}
        }
        Ok(())
    }

    /// Keeps times that were seen for the first time, unless the inode has changed since `as_of`.
    fn pin(&mut self, id: InodeId, attr: &AttrWire, as_of: Option<&Node>, exact: bool) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if as_of.is_some_and(|then| then != node) || (node.is_dir() && !exact) {
            return;
        }
        for (time, seen) in
            [(&mut node.atime, attr.atime), (&mut node.mtime, attr.mtime), (&mut node.ctime, attr.ctime)]
        {
            *time = super::Time::exact(seen);
        }
    }

    fn compare_page(
        &self,
        dir: InodeId,
        after: Cookie,
        bytes: u32,
        parent: InodeId,
        entries: &[DirEntry],
        end: bool,
    ) -> Result<(), Mismatch> {
        let node = &self.nodes[&dir];
        if node.parent != parent && node.nlink > 0 {
            return Err(format!("parent {parent:?} instead of {:?}", node.parent));
        }
        let used: usize = entries.iter().map(|entry| entry.name.as_bytes().len() + ENTRY_BYTES).sum();
        if used > bytes as usize && entries.len() > 1 {
            return Err(format!("a page of {used} bytes where {bytes} were asked"));
        }
        if entries.is_empty() && !end {
            return Err("an empty page that is not the last".into());
        }
        let mut expected = self.list(dir, after.hash47() + 1);
        let mut last = after;
        for entry in entries {
            let Some(((_, hash, name), leads)) = expected.next() else {
                return Err(format!("shows {:?}, which is not there", entry.name));
            };
            let same = *name == entry.name && leads.child == entry.child && leads.kind == entry.kind;
            if !same || entry.cookie.hash47() != *hash {
                return Err(format!("shows {entry:?} instead of {name:?} = {leads:?}"));
            }
            if entry.cookie <= last {
                return Err(format!("entries out of order at {:?}", entry.name));
            }
            last = entry.cookie;
        }
        match (end, expected.next()) {
            (true, Some(((_, _, name), _))) => Err(format!("misses {name:?}")),
            (false, None) => Err("says that more follows".into()),
            _ => Ok(()),
        }
    }
}

/// ENOENT and ESTALE both say that an inode is gone.
fn same_errno(model: Errno, said: Errno) -> bool {
    model == said
        || (model == Errno::ESTALE && said == Errno::ENOENT)
        || (model == Errno::ENOENT && said == Errno::ESTALE)
}

fn compare_node(id: InodeId, node: &Node, attr: &AttrWire, exact: bool) -> Result<(), Mismatch> {
    let identity = (id, node.kind, node.mode, node.uid, node.gid);
    let seen = (attr.id, attr.kind, attr.mode, attr.uid, attr.gid);
    if identity != seen {
        return Err(format!("shows {seen:?} instead of {identity:?}"));
    }
    if node.is_dir() && !exact {
        return Ok(());
    }
    let numbers = (node.nlink, node.visible_size(), node.rdev);
    let seen = (attr.nlink, attr.size, attr.rdev());
    if numbers != seen {
        return Err(format!("{id:?}: (nlink, size, rdev) are {seen:?} instead of {numbers:?}"));
    }
    for (what, time, seen) in
        [("atime", node.atime, attr.atime), ("mtime", node.mtime, attr.mtime), ("ctime", node.ctime, attr.ctime)]
    {
        if !time.allows(seen) {
            return Err(format!("{id:?}: {what} is {seen}, expected {time:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Caller, Model};
    use onpath_wire::codec::Blob;
    use onpath_wire::ids::{Birth, Slot};
    use onpath_wire::inode::Kind;
    use onpath_wire::name::Name;
    use onpath_wire::request::NewNode;
    use onpath_wire::secrets::Secrets;

    /// Applies a change; what its answer must be.
    fn change(model: &mut Model, request: &Request, id: Option<InodeId>) -> Expected {
        let plan = model.decide(&Caller::default(), request).expect("allowed");
        model.apply(&plan.change, id).expect("a fresh id");
        model.expect(plan.answer, id)
    }

    fn name(name: &str) -> Name {
        Name::new(name.as_bytes()).expect("short")
    }

    fn attr(id: InodeId, ctime: i64) -> AttrWire {
        AttrWire {
            id,
            kind: Kind::File,
            flags: 0,
            mode: 0o644,
            uid: 0,
            gid: 0,
            nlink: 1,
            size: 0,
            mtime: 4,
            ctime,
            atime: 4,
            blocks_or_rdev: 0,
        }
    }

    /// The answer to a create comes after a rename, of which the model knows no more than that it came later.
    #[test]
    fn a_late_answer_does_not_tell_the_times_of_a_later_change() {
        let mut model = Model::new(Secrets::of_seed(3).inner.listings());
        let id = InodeId::new(Slot(1), Birth(1), 1, Kind::File);
        let node = NewNode { kind: Kind::File, mode: 0o644, umask: 0, rdev: 0, target: Blob::default(), open: 0 };
        let create = Request::Create { parent: InodeId::ROOT, name: name("a"), node };
        let created = change(&mut model, &create, Some(id));
        let rename = Request::Rename {
            from_parent: InodeId::ROOT,
            from: name("a"),
            parent: InodeId::ROOT,
            name: name("b"),
            flags: 0,
        };
        change(&mut model, &rename, None);
        let late = Reply::Entry { attr: attr(id, 4), data: Default::default(), created: true };
        model.compare_expected(&created, &late).unwrap();
        let look = model.decide(&Caller::default(), &Request::GetAttr { id });
        let now = |ctime| Reply::Attr { attr: attr(id, ctime), data: Default::default(), shared: false };
        model.compare(&look, &now(9), Seen::Now).unwrap();
        assert!(model.compare(&look, &now(10), Seen::Now).is_err(), "seen once, it stays");
    }

    /// A directory was looked at while it changed. Which moment's times were told is not known, but what changes then changes later.
    #[test]
    fn a_change_after_a_look_is_later_than_what_was_told() {
        let mut model = Model::new(Secrets::of_seed(3).inner.listings());
        let look = |model: &Model| model.decide(&Caller::default(), &Request::GetAttr { id: InodeId::ROOT });
        let shown = |model: &Model, time| {
            let (root, id) = (model.node(InodeId::ROOT).expect("is there"), InodeId::ROOT);
            let (kind, mode, nlink, size) = (Kind::Directory, root.mode, root.nlink, root.visible_size());
            let attr = AttrWire { id, kind, mode, nlink, size, mtime: time, atime: time, ..attr(id, time) };
            Reply::Attr { attr, data: Default::default(), shared: false }
        };
        let (told, decided) = (shown(&model, 9), look(&model));
        model.compare(&decided, &told, Seen::NowOrBefore).unwrap();
        let node = NewNode { kind: Kind::File, mode: 0o644, umask: 0, rdev: 0, target: Blob::default(), open: 0 };
        let create = Request::Create { parent: InodeId::ROOT, name: name("a"), node };
        change(&mut model, &create, Some(InodeId::new(Slot(1), Birth(1), 1, Kind::File)));
        let (same, later, decided) = (shown(&model, 9), shown(&model, 10), look(&model));
        assert!(model.compare(&decided, &same, Seen::Now).is_err(), "the time has not moved on");
        model.compare(&decided, &later, Seen::Now).unwrap();
    }
}
