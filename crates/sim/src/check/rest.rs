//! What must be true of all shards and data nodes together when nobody asks anything any more: nothing is left that leads
//! nowhere – names, inodes, entries of listings, bytes – and nothing is still on its way.

use super::Queues;
use crate::model::Model;
use onpath_data::FileSummary;
use onpath_kernel::Gauge;
use onpath_meta::{Survey, SurveyedName};
use onpath_wire::acl::Acl;
use onpath_wire::disk::inode::Inode;
use onpath_wire::ids::{DataId, InodeId, NodeId};
use onpath_wire::inode::Kind;
use onpath_wire::map::ClusterMap;
use onpath_wire::xattr::{ACL_ACCESS, XattrName};
use std::collections::BTreeMap;
use std::iter;

/// Everything that shards and data nodes have.
#[derive(Clone, Debug, Default)]
pub struct Rest {
    /// What each shard has.
    pub shards: Vec<Survey>,
    /// Requests that run at shards.
    pub running: u64,
    /// Generations of files, and at which data node each is.
    pub files: Vec<(NodeId, FileSummary)>,
    /// Writes of which data nodes have still to tell the homes.
    pub merges: usize,
    /// How full the queues and tables of each role, process and session are.
    pub queues: Vec<(NodeId, Vec<Gauge>)>,
}

impl Rest {
    /// What is wrong, by the model's idea of what there is.
    pub fn judge(&self, model: &Model, map: &ClusterMap) -> Vec<String> {
        let mut wrong = vec![];
        self.nothing_is_under_way(&mut wrong);
        self.names(model, &mut wrong);
        self.inodes(model, &mut wrong);
        self.own_names(model, &mut wrong);
        self.directories_of_files(&mut wrong);
        self.xattrs(model, &mut wrong);
        self.listings(model, &mut wrong);
        self.bytes(map, &mut wrong);
        wrong
    }

    fn nothing_is_under_way(&self, wrong: &mut Vec<String>) {
        for Survey { shard, logs, prepared, decided, data_pending, .. } in &self.shards {
            let unapplied: usize = logs.values().map(Vec::len).sum();
            let left = (unapplied, prepared.len(), decided.len(), data_pending.len());
            if left != (0, 0, 0, 0) {
                wrong.push(format!("{shard:?} has left (entries, promises, decisions, trims): {left:?}"));
            }
        }
        if (self.running, self.merges) != (0, 0) {
            wrong.push(format!("{} requests run, {} writes are not merged", self.running, self.merges));
        }
        wrong.extend(self.queues.iter().flat_map(|(node, gauges)| Queues::at_rest(*node, gauges)));
    }

    fn names(&self, model: &Model, wrong: &mut Vec<String>) {
        let names = || self.shards.iter().flat_map(|survey| &survey.names);
        for SurveyedName { parent, name, child, kind } in names() {
            let leads = model.find(*parent, name);
            if leads.is_none_or(|leads| leads.child != *child || leads.kind != *kind) {
                wrong.push(format!("{name:?} in {parent:?} leads to {child:?} instead of {leads:?}"));
            }
        }
        let (names, expected) = (names().count(), model.names_live());
        if names != expected {
            wrong.push(format!("there are {names} names instead of {expected}"));
        }
    }

    fn inodes(&self, model: &Model, wrong: &mut Vec<String>) {
        for survey in &self.shards {
            for Inode { id, nlink, .. } in &survey.inodes {
                let expected = model.node(*id).map_or(0, |node| node.nlink);
                let orphan = survey.orphans.contains(id);
                // Directories count their links with their entries, which is checked where they are asked for.
                if (expected == 0) != orphan || (*nlink == 0) != orphan {
                    wrong.push(format!("{id:?} has {nlink} links instead of {expected}; an orphan: {orphan}"));
                }
            }
        }
    }

    /// A directory's inode has the name that leads to it.
    fn own_names(&self, model: &Model, wrong: &mut Vec<String>) {
        let inodes = self.shards.iter().flat_map(|survey| &survey.inodes);
        let directories = inodes.filter(|inode| inode.is_dir() && inode.nlink > 0 && inode.id != InodeId::ROOT);
        for Inode { id, parent, name, .. } in directories {
            let leads = name.as_ref().and_then(|name| model.find(*parent, name));
            if leads.is_none_or(|leads| leads.child != *id) {
                wrong.push(format!("{id:?} says that it is {name:?} in {parent:?}, which leads to {leads:?}"));
            }
        }
    }

    /// A file's inode and its further names tell in which directories its names are, each as often as there are some.
    fn directories_of_files(&self, wrong: &mut Vec<String>) {
        let mut named: BTreeMap<InodeId, Vec<InodeId>> = BTreeMap::new();
        for SurveyedName { parent, child, .. } in self.shards.iter().flat_map(|survey| &survey.names) {
            named.entry(*child).or_default().push(*parent);
        }
        for survey in &self.shards {
            let mut further = survey.further.clone();
            for inode in survey.inodes.iter().filter(|inode| !inode.is_dir() && inode.nlink > 0) {
                let more = further.remove(&inode.id).unwrap_or_default();
                let more = more.into_iter().flat_map(|(dir, names)| iter::repeat_n(dir, names as usize));
                let mut told: Vec<InodeId> = iter::once(inode.parent).chain(more).collect();
                let mut there = named.remove(&inode.id).unwrap_or_default();
                told.sort_unstable();
                there.sort_unstable();
                if told != there {
                    wrong.push(format!("{:?} says that its names are in {told:?}, they are in {there:?}", inode.id));
                }
            }
            if !further.is_empty() {
                wrong.push(format!("no files with names are those of {further:?}"));
            }
        }
    }

    /// Extended attributes, ACLs as the permission bits complete them.
    fn xattrs(&self, model: &Model, wrong: &mut Vec<String>) {
        let none = Vec::new();
        for survey in &self.shards {
            for inode in survey.inodes.iter().filter(|inode| inode.nlink > 0) {
                let Some(node) = model.node(inode.id) else { continue }; // said above
                let shown = |(name, value): &(XattrName, Vec<u8>)| {
                    let acl = (name.as_bytes() == ACL_ACCESS).then(|| Acl::from_xattr(value).ok().flatten()).flatten();
                    (name.clone(), acl.map_or_else(|| value.clone(), |acl| acl.with_mode(inode.mode).to_xattr()))
                };
                let there: Vec<_> = survey.xattrs.get(&inode.id).unwrap_or(&none).iter().map(shown).collect();
                if there != node.shown_xattrs() {
                    wrong.push(format!("{:?} has {there:?} instead of {:?}", inode.id, node.shown_xattrs()));
                }
            }
        }
    }

    fn listings(&self, model: &Model, wrong: &mut Vec<String>) {
        let directories = |survey: &Survey| {
            let directories = survey.inodes.iter().filter(|inode| inode.kind == Kind::Directory);
            directories.map(|inode| (inode.id, inode.entries)).collect::<BTreeMap<InodeId, u64>>()
        };
        for survey in &self.shards {
            let directories = directories(survey);
            for (id, entries) in &survey.listings {
                if !directories.contains_key(id) {
                    wrong.push(format!("{id:?} is no directory and has {} entries", entries.len()));
                }
            }
            for (id, counted) in directories {
                let listed = survey.listings.get(&id).map_or(0, Vec::len) as u64;
                let expected = model.list(id, 0).count() as u64;
                if (counted, listed) != (expected, expected) {
                    wrong.push(format!("{id:?} counts {counted} entries and lists {listed} instead of {expected}"));
                }
            }
        }
    }

    fn bytes(&self, map: &ClusterMap, wrong: &mut Vec<String>) {
        let inodes = self.shards.iter().flat_map(|survey| &survey.inodes);
        let mut blocks: BTreeMap<DataId, u64> = inodes
            .filter(|inode| inode.kind == Kind::File)
            .map(|inode| (DataId { inode: inode.id, generation: inode.generation }, inode.blocks))
            .collect();
        for (node, file) in &self.files {
            if *node != map.data(file.data.inode) {
                wrong.push(format!("{:?} is at {node:?}, which is not its data node", file.data));
            }
            match blocks.remove(&file.data) {
                Some(counted) if counted == file.blocks => {}
                Some(counted) => {
                    wrong.push(format!("{:?} counts {counted} blocks, {} are there", file.data, file.blocks));
                }
                None if file.blocks > 0 => {
                    wrong.push(format!("{:?} is no file's, and has {} blocks", file.data, file.blocks));
                }
                None => {}
            }
        }
        for (data, counted) in blocks.into_iter().filter(|(_, counted)| *counted > 0) {
            wrong.push(format!("{data:?} counts {counted} blocks, none are there"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Caller;
    use onpath_wire::codec::Blob;
    use onpath_wire::ids::{Birth, Cookie, Generation, LogSeq, ShardId, Slot, Stamp, TxnId, TxnSeq};
    use onpath_wire::name::Name;
    use onpath_wire::peer::LogEntry;
    use onpath_wire::reply::DirEntry;
    use onpath_wire::request::{NewNode, Request};
    use onpath_wire::secrets::{CookieKey, Secrets};

    fn key() -> CookieKey {
        Secrets::of_seed(3).inner.listings()
    }

    fn id() -> InodeId {
        InodeId::new(Slot(1), Birth(1), 1, Kind::File)
    }

    fn name(name: &str) -> Name {
        Name::new(name.as_bytes()).expect("short")
    }

    /// The file "a" of two blocks in the root, at one shard.
    fn rest() -> (Rest, Model) {
        let mut model = Model::new(key());
        let node = NewNode { kind: Kind::File, mode: 0o644, umask: 0, rdev: 0, target: Blob::default(), open: 0 };
        let create = Request::Create { parent: InodeId::ROOT, name: name("a"), node };
        let plan = model.decide(&Caller::default(), &create).expect("allowed");
        model.apply(&plan.change, Some(id())).expect("a fresh id");
        let root = Inode { nlink: 2, entries: 1, ..Inode::new(InodeId::ROOT, Kind::Directory) };
        let file = Inode { nlink: 1, blocks: 2, parent: InodeId::ROOT, ..Inode::new(id(), Kind::File) };
        let named = SurveyedName { parent: InodeId::ROOT, name: name("a"), child: id(), kind: Kind::File };
        let entry = DirEntry { child: id(), kind: Kind::File, cookie: key().cookie(b"a"), name: name("a") };
        let survey = Survey {
            inodes: vec![root, file],
            names: vec![named],
            listings: [(InodeId::ROOT, vec![entry])].into(),
            ..Survey::default()
        };
        let data = DataId { inode: id(), generation: Generation(0) };
        let bytes = FileSummary { data, cut: 0, blocks: 2, end: 8_192 };
        (Rest { shards: vec![survey], files: vec![(NodeId::data(0), bytes)], ..Rest::default() }, model)
    }

    fn map() -> ClusterMap {
        ClusterMap::even(1, Secrets::of_seed(7).placement)
    }

    /// What is said when `spoil` has been done to a right state.
    fn spoilt(spoil: impl FnOnce(&mut Rest)) -> String {
        let (mut rest, model) = rest();
        spoil(&mut rest);
        rest.judge(&model, &map()).join("; ")
    }

    #[test]
    fn a_right_state_passes() {
        assert_eq!(spoilt(|_| {}), "");
    }

    #[test]
    fn what_leads_nowhere_is_found() {
        let stray = SurveyedName { parent: InodeId::ROOT, name: name("b"), child: id(), kind: Kind::File };
        assert!(spoilt(|rest| rest.shards[0].names.push(stray)).contains("\"b\""));
        assert!(spoilt(|rest| rest.shards[0].names.clear()).contains("0 names instead of 1"));
        let lost = Inode { nlink: 1, ..Inode::new(InodeId::new(Slot(1), Birth(1), 9, Kind::File), Kind::File) };
        assert!(spoilt(|rest| rest.shards[0].inodes.push(lost)).contains("1 links instead of 0"));
        assert!(spoilt(|rest| rest.shards[0].orphans.push(id())).contains("an orphan: true"));
    }

    #[test]
    fn attributes_that_nobody_has_set_are_found() {
        let name = XattrName::new(b"user.a").expect("a name");
        assert!(spoilt(|rest| drop(rest.shards[0].xattrs.insert(id(), vec![(name, vec![1])]))).contains("user.a"));
    }

    #[test]
    fn listings_that_do_not_fit_are_found() {
        assert!(spoilt(|rest| rest.shards[0].inodes[0].entries = 2).contains("counts 2 entries and lists 1"));
        assert!(spoilt(|rest| rest.shards[0].listings.clear()).contains("lists 0 instead of 1"));
        let entry = DirEntry { child: id(), kind: Kind::File, cookie: Cookie(9), name: name("x") };
        assert!(spoilt(|rest| drop(rest.shards[0].listings.insert(id(), vec![entry]))).contains("is no directory"));
    }

    #[test]
    fn a_directory_that_is_called_otherwise_is_found() {
        for (parent, own, fits) in [
            (InodeId::ROOT, Some("d"), true),
            (InodeId::ROOT, Some("e"), false),
            (InodeId::ROOT, Some("a"), false),
            (InodeId::ROOT, None, false),
            (id(), Some("d"), false),
        ] {
            let (mut rest, mut model) = rest();
            let dir = InodeId::new(Slot(1), Birth(1), 2, Kind::Directory);
            let target = Blob::default();
            let node = NewNode { kind: Kind::Directory, mode: 0o755, umask: 0, rdev: 0, target, open: 0 };
            let create = Request::Create { parent: InodeId::ROOT, name: name("d"), node };
            let plan = model.decide(&Caller::default(), &create).expect("allowed");
            model.apply(&plan.change, Some(dir)).expect("a fresh id");
            rest.shards[0].inodes.push(Inode { parent, name: own.map(name), ..Inode::new(dir, Kind::Directory) });
            let said = rest.judge(&model, &map()).join("; ");
            assert_eq!(!said.contains("says that it is"), fits, "{own:?} in {parent:?}: {said}");
        }
    }

    #[test]
    fn directories_that_a_file_does_not_tell_of_are_found() {
        let other = InodeId::new(Slot(1), Birth(1), 2, Kind::Directory);
        assert!(spoilt(|rest| rest.shards[0].inodes[1].parent = other).contains("says that its names are in"));
        let further = |rest: &mut Rest| drop(rest.shards[0].further.insert(id(), vec![(InodeId::ROOT, 1)]));
        assert!(spoilt(further).contains("says that its names are in"));
        let of_nothing = |rest: &mut Rest| drop(rest.shards[0].further.insert(other, vec![(InodeId::ROOT, 1)]));
        assert!(spoilt(of_nothing).contains("no files with names"));
    }

    #[test]
    fn bytes_that_are_nobodys_and_blocks_that_are_not_there_are_found() {
        assert!(spoilt(|rest| rest.files[0].1.blocks = 3).contains("counts 2 blocks, 3 are there"));
        assert!(spoilt(|rest| rest.files[0].0 = NodeId::data(1)).contains("is not its data node"));
        assert!(spoilt(|rest| rest.files.clear()).contains("none are there"));
        assert!(spoilt(|rest| rest.files[0].1.data.generation = Generation(7)).contains("is no file's"));
    }

    #[test]
    fn what_is_still_under_way_is_found() {
        assert!(spoilt(|rest| rest.running = 1).contains("1 requests run"));
        assert!(spoilt(|rest| rest.merges = 1).contains("1 writes are not merged"));
        let held = vec![Gauge::queue("groups held", 1, 9)];
        assert!(
            spoilt(|rest| rest.queues.push((NodeId::shard(ShardId(0)), held))).contains("1 groups held left at rest")
        );
        let log = |rest: &mut Rest| drop(rest.shards[0].logs.insert(InodeId::ROOT, vec![entry()]));
        assert!(spoilt(log).contains("(1, 0, 0, 0)"));
        let decided =
            |rest: &mut Rest| rest.shards[0].decided.push((TxnId { coordinator: ShardId(0), seq: TxnSeq(1) }, vec![]));
        assert!(spoilt(decided).contains("(0, 0, 1, 0)"));
    }

    fn entry() -> LogEntry {
        LogEntry {
            seq: LogSeq(1),
            stamp: Stamp(1),
            put: true,
            name: name("a"),
            child: id(),
            kind: Kind::File,
            dcount: 1,
            dnlink: 0,
        }
    }
}
