//! All shards seen as one namespace, with decided transactions carried out in thought.
//!
//! What there is one of for each file, name or directory is in sorted tables that go to temporary files when they are large. In memory are
//! what is on its way, which has bounds of its own, and what is suspicious at first sight.

use super::checks::{placement::Next, xattrs::wrong};
use super::promised::Promised;
use super::sorted::{Sorted, Sorting};
use super::spill::Spill;
use onpath_data::DataNode;
use onpath_host::progress::{Stage, Watcher};
use onpath_meta::{Shard, Survey, Surveyed, SurveyedName};
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::superblock::Superblock;
use onpath_wire::ids::{DataId, InodeId, ShardId, TxnId};
use onpath_wire::inode::Kind;
use onpath_wire::map::ClusterMap;
use onpath_wire::name::Name;
use onpath_wire::stored_struct;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Longest path that is made for a message, names.
const PATH_NAMES_MAX: usize = 512;

stored_struct! {
    /// What a name leads to.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Target {
        /// The inode.
        pub child: InodeId,
        /// Its type.
        pub kind: Kind,
    }
}

stored_struct! {
    /// What a directory lists.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Count {
        /// Entries.
        pub entries: u64,
        /// Those that are directories.
        pub directories: u64,
    }
}

stored_struct! {
    /// What the data node has of a generation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Extent {
        /// Blocks.
        pub blocks: u64,
        /// End of the last one with bytes.
        pub end: u64,
    }
}

/// A name with its directory.
pub(super) type NameOf = (InodeId, Name);

/// An inode with its names, without those that a decided transaction removes.
pub(super) struct Named {
    pub(super) inode: Inode,
    pub(super) count: usize,
    /// The names themselves, if it is a directory.
    pub(super) names: Vec<NameOf>,
    /// Else in which directories they are, and how many in each.
    pub(super) dirs: Dirs,
    /// In which it says that it has further ones, beside the one that the inode itself tells of.
    pub(super) further: Dirs,
}

/// Directories with a number each, in order.
pub(super) type Dirs = Vec<(InodeId, u32)>;

/// How many objects there are, and blocks that inodes count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Objects {
    pub(super) inodes: u64,
    pub(super) names: u64,
    pub(super) entries: u64,
    pub(super) blocks: u64,
}

/// One namespace.
pub(super) struct View {
    pub(super) map: ClusterMap,
    pub(super) next: Next,
    /// Of inodes, names, listings and attributes there are here only those that are at a wrong place, of an unknown term, of no inode,
    /// or wrong in themselves.
    pub(super) surveys: Vec<Survey>,
    /// Inodes at their homes.
    pub(super) inodes: Sorted<InodeId, Inode>,
    /// Names at their sites.
    pub(super) names: Sorted<NameOf, Target>,
    /// The same by inode, without those that a decided transaction removes.
    by_inode: Sorted<(InodeId, NameOf), Kind>,
    /// At homes of files: how many further names they have in a directory, beside the one that the inode tells of.
    further: Sorted<(InodeId, InodeId), u32>,
    /// Entries at the homes of their directories.
    pub(super) listed: Sorted<NameOf, Target>,
    /// What directories list at their homes, if anything.
    pub(super) counts: Sorted<InodeId, Count>,
    /// What the data node has.
    pub(super) files: Sorted<DataId, Extent>,
    /// The data node's index contradicts itself nowhere.
    pub(super) index_is_sound: bool,
    /// Decisions on their way.
    pub(super) decided: BTreeSet<TxnId>,
    pub(super) promised: Promised,
    pub(super) objects: Objects,
    spill: Rc<Spill>,
}

/// The same, and the watcher is told of each object.
fn counted(watcher: &dyn Watcher, mut each: impl FnMut(Surveyed)) -> impl FnMut(Surveyed) {
    move |object| {
        watcher.done(1);
        each(object);
    }
}

/// Whether an inode is a directory that is not removed.
pub(super) fn is_living_directory(inode: &Inode) -> bool {
    inode.is_dir() && inode.nlink > 0
}

/// A bit for each type of inodes that cannot have all of these attributes.
fn wrong_kinds(set: &[(onpath_wire::xattr::XattrName, Vec<u8>)]) -> u32 {
    let is_wrong = |kind: &Kind| set.iter().any(|(name, value)| wrong(*kind, name, value).is_some());
    KINDS.iter().filter(|kind| is_wrong(kind)).fold(0, |bits, kind| bits | 1 << kind.d_type())
}

const KINDS: [Kind; 7] =
    [Kind::Fifo, Kind::CharDevice, Kind::Directory, Kind::BlockDevice, Kind::File, Kind::Symlink, Kind::Socket];

impl View {
    /// Whoever uses it must ask afterwards whether `spill` is sound. There are so many data `files`.
    pub(super) fn new(
        superblock: &Superblock,
        shards: &[Shard],
        data: &DataNode,
        files: u32,
        spill: &Rc<Spill>,
        watcher: &dyn Watcher,
    ) -> View {
        let map = superblock.map();
        let next = Next::of(superblock, shards);
        let (mut inodes, mut names, mut listed) = (Sorting::new(spill), Sorting::new(spill), Sorting::new(spill));
        let mut attributes: Sorting<InodeId, u32> = Sorting::new(spill);
        let mut further: Sorting<(InodeId, InodeId), u32> = Sorting::new(spill);
        let mut objects = Objects::default();
        let mut surveys = Vec::new();
        watcher.begin(Stage::of("sorting", "objects"));
        for (number, shard) in (0u16..).map(ShardId).zip(shards) {
            let mut odd = Survey::default();
            let rest = shard.survey_each(&mut counted(watcher, |object| match object {
                Surveyed::Inode(inode) => {
                    objects.inodes += 1;
                    objects.blocks += inode.blocks;
                    let home = map.home(inode.id) == number;
                    if home {
                        inodes.push(&inode.id, &inode);
                    }
                    if !home || next.never_given(&inode).is_some() || !inode.id.is_of(inode.kind) {
                        odd.inodes.push(inode);
                    }
                }
                Surveyed::Xattrs(id, set) if map.home(id) == number => attributes.push(&id, &wrong_kinds(&set)),
                Surveyed::Xattrs(id, set) => _ = odd.xattrs.insert(id, set),
                Surveyed::Further(id, dir, names) if map.home(id) == number => further.push(&(id, dir), &names),
                Surveyed::Further(id, dir, names) => odd.further.entry(id).or_default().push((dir, names)),
                Surveyed::Name(name) => {
                    objects.names += 1;
                    if map.shard(map.site(name.parent, name.name.as_bytes())) == number {
                        let SurveyedName { parent, name, child, kind } = name;
                        names.push(&(parent, name), &Target { child, kind });
                    } else {
                        odd.names.push(name);
                    }
                }
                Surveyed::Entry(dir, entry) => {
                    objects.entries += 1;
                    if map.home(dir) == number {
                        listed.push(&(dir, entry.name), &Target { child: entry.child, kind: entry.kind });
                    } else {
                        odd.listings.entry(dir).or_default().push(entry);
                    }
                }
            }));
            let Survey { inodes, names, listings, xattrs, further, .. } = odd;
            let mut survey = Survey { inodes, names, listings, xattrs, further, ..rest };
            survey.sort();
            surveys.push(survey);
        }
        let mut of_data = Sorting::new(spill);
        let index_is_sound = data.survey(files, &mut |file| {
            of_data.push(&file.data, &Extent { blocks: file.blocks, end: file.end });
        });
        let (inodes, names, listed) = (inodes.finish(), names.finish(), listed.finish());
        odd_attributes(&inodes, &attributes.finish(), &map, shards, &mut surveys);
        let further = further.finish();
        odd_further(&inodes, &further, &map, &mut surveys);
        let decided: BTreeSet<TxnId> = surveys.iter().flat_map(|s| s.decided.iter().map(|(txn, _)| *txn)).collect();
        let promised = Promised::of(&surveys, &decided, &map);
        let by_inode = by_inode(&names, &promised, spill);
        let (counts, files) = (counts(&listed, spill), of_data.finish());
        View {
            map,
            next,
            surveys,
            inodes,
            names,
            by_inode,
            further,
            listed,
            counts,
            files,
            index_is_sound,
            decided,
            promised,
            objects,
            spill: spill.clone(),
        }
    }

    /// The shard's survey.
    pub(super) fn survey(&self, shard: ShardId) -> Option<&Survey> {
        self.surveys.get(shard.0 as usize)
    }

    /// Where tables for its use go.
    pub(super) fn spill(&self) -> &Rc<Spill> {
        &self.spill
    }

    /// The directory, if it exists and is not removed.
    pub(super) fn directory(&self, id: InodeId) -> Option<Inode> {
        self.inodes.get(&id).filter(is_living_directory)
    }

    /// Inodes with their names, in order.
    pub(super) fn named(&self) -> impl Iterator<Item = Named> {
        let (mut all, mut told) = (self.by_inode.iter().peekable(), self.further.iter().peekable());
        self.inodes.iter().map(move |(id, inode)| {
            let mut named = Named { inode, count: 0, names: Vec::new(), dirs: Dirs::new(), further: Dirs::new() };
            while all.next_if(|((child, _), _)| *child < id).is_some() {}
            while let Some(((_, of), _)) = all.next_if(|((child, _), _)| *child == id) {
                named.count += 1;
                match named.dirs.last_mut() {
                    _ if named.inode.is_dir() => named.names.push(of),
                    Some((dir, names)) if *dir == of.0 => *names += 1,
                    _ => named.dirs.push((of.0, 1)),
                }
            }
            while told.next_if(|((file, _), _)| *file < id).is_some() {}
            while let Some(((_, dir), names)) = told.next_if(|((file, _), _)| *file == id) {
                named.further.push((dir, names));
            }
            named
        })
    }

    /// Names by inode, without those that a decided transaction removes.
    pub(super) fn by_inode(&self) -> impl Iterator<Item = (InodeId, NameOf)> {
        self.by_inode.iter().map(|(key, _)| key)
    }

    /// Names of an inode.
    pub(super) fn names_of(&self, id: InodeId) -> impl Iterator<Item = NameOf> {
        let from = self.by_inode.from(&id).map(|(key, _)| key);
        from.take_while(move |(child, _)| *child == id).map(|(_, of)| of)
    }

    /// Shows `each` name that does not lead to an inode of its type or is in no living directory, in order, unless a decided
    /// transaction will have changed it.
    pub(super) fn doubtful_names(&self, each: &mut dyn FnMut(&NameOf, Target)) {
        let mut doubtful: Sorting<NameOf, bool> = Sorting::new(&self.spill);
        let mut inodes = self.inodes.iter().peekable();
        for ((child, of), kind) in self.by_inode.iter() {
            while inodes.next_if(|(id, _)| *id < child).is_some() {}
            if inodes.peek().is_none_or(|(id, inode)| *id != child || inode.kind != kind) {
                doubtful.push(&of, &true);
            }
        }
        let mut directories = self.inodes.iter().filter(|(_, inode)| is_living_directory(inode)).peekable();
        for (of, _) in self.names.iter() {
            while directories.next_if(|(id, _)| *id < of.0).is_some() {}
            if directories.peek().is_none_or(|(id, _)| *id != of.0) {
                doubtful.push(&of, &true);
            }
        }
        let mut last = None;
        for (of, _) in doubtful.finish().iter() {
            let promised = self.promised.names.contains(&of) || self.promised.swaps.contains_key(&of);
            if last.as_ref() != Some(&of)
                && !promised // it goes or changes, and its inode may have gone before
                && let Some(target) = self.names.get(&of)
            {
                each(&of, target);
            }
            last = Some(of);
        }
    }

    /// A name of an inode: one in the directory that it tells of first, if there is one.
    fn name_of(&self, id: InodeId) -> Option<NameOf> {
        let parent = self.inodes.get(&id).map(|inode| inode.parent);
        let known = self.names_of(id).find(|(dir, _)| Some(*dir) == parent);
        known.or_else(|| self.names_of(id).next())
    }

    /// A path of an inode, if names lead to it from the root.
    pub(super) fn path(&self, id: InodeId) -> Option<String> {
        let mut names = Vec::new();
        let mut at = id;
        while at != InodeId::ROOT {
            let (parent, name) = self.name_of(at)?;
            names.push(String::from_utf8_lossy(name.as_bytes()).into_owned());
            at = parent;
            if names.len() > PATH_NAMES_MAX {
                return None;
            }
        }
        names.reverse();
        Some(format!("/{}", names.join("/")))
    }

    /// A path of a name.
    pub(super) fn path_in(&self, parent: InodeId, name: &Name) -> Option<String> {
        let name = String::from_utf8_lossy(name.as_bytes());
        self.path(parent).map(|path| if path == "/" { format!("/{name}") } else { format!("{path}/{name}") })
    }
}

/// Takes those attributes into the surveys whose inodes are not there or cannot have them.
fn odd_attributes(
    inodes: &Sorted<InodeId, Inode>,
    attributes: &Sorted<InodeId, u32>,
    map: &ClusterMap,
    shards: &[Shard],
    surveys: &mut [Survey],
) {
    let mut odd: BTreeMap<ShardId, BTreeSet<InodeId>> = BTreeMap::new();
    let mut inodes = inodes.iter().peekable();
    for (id, wrong_kinds) in attributes.iter() {
        while inodes.next_if(|(other, _)| *other < id).is_some() {}
        let fits = |(other, inode): &(InodeId, Inode)| *other == id && wrong_kinds >> inode.kind.d_type() & 1 == 0;
        if !inodes.peek().is_some_and(fits) {
            odd.entry(map.home(id)).or_default().insert(id);
        }
    }
    for (number, ids) in odd {
        let xattrs = &mut surveys[number.0 as usize].xattrs;
        shards[number.0 as usize].survey_each(&mut |object| {
            if let Surveyed::Xattrs(id, set) = object
                && ids.contains(&id)
            {
                xattrs.insert(id, set);
            }
        });
    }
}

/// Takes those further names into the surveys that are of no file.
fn odd_further(
    inodes: &Sorted<InodeId, Inode>,
    further: &Sorted<(InodeId, InodeId), u32>,
    map: &ClusterMap,
    surveys: &mut [Survey],
) {
    let mut inodes = inodes.iter().peekable();
    for ((id, dir), names) in further.iter() {
        while inodes.next_if(|(other, _)| *other < id).is_some() {}
        if !inodes.peek().is_some_and(|(other, inode)| *other == id && !inode.is_dir()) {
            surveys[map.home(id).0 as usize].further.entry(id).or_default().push((dir, names));
        }
    }
}

fn by_inode(names: &Sorted<NameOf, Target>, promised: &Promised, spill: &Rc<Spill>) -> Sorted<(InodeId, NameOf), Kind> {
    let mut all = Sorting::new(spill);
    for (of, target) in names.iter().filter(|(of, _)| !promised.names.contains(of)) {
        let Target { child, kind } = promised.swaps.get(&of).copied().unwrap_or(target);
        all.push(&(child, of), &kind);
    }
    all.finish()
}

fn counts(listed: &Sorted<NameOf, Target>, spill: &Rc<Spill>) -> Sorted<InodeId, Count> {
    let mut counts = Sorting::new(spill);
    let mut of: Option<(InodeId, Count)> = None;
    for ((dir, _), Target { kind, .. }) in listed.iter() {
        if let Some((last, count)) = of.take_if(|(last, _)| *last != dir) {
            counts.push(&last, &count);
        }
        let (_, count) = of.get_or_insert((dir, Count::default()));
        count.entries += 1;
        count.directories += u64::from(kind == Kind::Directory);
    }
    of.into_iter().for_each(|(last, count)| counts.push(&last, &count));
    counts.finish()
}
