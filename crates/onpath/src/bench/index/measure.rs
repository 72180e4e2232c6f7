//! What is asked of an index, and what it took.

use super::made::Random;
use super::namespace::{List, Namespace, id};
use anyhow::{Context, ensure};
use onpath_index::{Access, Ask, Check, Class, DirId, Directory, End, Grant, Index, LANES, Search, Walk};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Depths at which directories are looked up.
const DEPTHS: [u16; 3] = [4, 8, 12];
/// Directories that are looked up again and again where they are hot.
const HOT: usize = 1_024;
/// A change is repeated until this has passed or it was done so often.
const CHANGE_TIME: Duration = Duration::from_millis(200);
const CHANGES: usize = 100;

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
pub(super) enum Case {
    /// Millions of directories a second, each before what is below it.
    LoadSorted,
    /// The same, in any order.
    LoadShuffled,
    /// Bytes a directory that were written to.
    Bytes,
    /// ns: a walk from the root, by who may search everything.
    Lookup { depth: u16, hot: bool, at_once: usize },
    /// ns: as the owner of the directory, or as the member of its group, at any depth.
    As { who: Who },
    /// Share of these walks for which reachability bits were enough.
    Speculated { who: Who },
    /// µs: with so many directories below, itself included.
    Rename { size: u32 },
    /// µs: mode and grant of a directory.
    Chmod { size: u32 },
}

/// Who looks a directory up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Who {
    Owner,
    Member,
    Other,
}

impl Who {
    const ALL: [Who; 3] = [Who::Owner, Who::Member, Who::Other];

    /// Such a caller of this directory.
    fn caller(self, access: &Access) -> Caller {
        const NOBODY: u32 = u32::MAX - 1;
        match self {
            Who::Owner => Caller { uid: access.uid, gid: access.gid },
            Who::Member => Caller { uid: NOBODY, gid: access.gid },
            Who::Other => Caller { uid: NOBODY, gid: NOBODY },
        }
    }
}

impl Case {
    pub(super) fn unit(self) -> &'static str {
        match self {
            Case::LoadSorted | Case::LoadShuffled => "M/s",
            Case::Bytes => "B",
            Case::Lookup { .. } | Case::As { .. } => "ns",
            Case::Speculated { .. } => "share",
            Case::Rename { .. } | Case::Chmod { .. } => "µs",
        }
    }

    pub(super) fn name(self) -> String {
        match self {
            Case::LoadSorted => "load, parents first".to_owned(),
            Case::LoadShuffled => "load, in any order".to_owned(),
            Case::Bytes => "memory of a directory".to_owned(),
            Case::Lookup { depth, hot, at_once } => {
                let (hot, at_once) =
                    (if hot { "hot" } else { "uniform" }, if at_once == 1 { "" } else { ", 8 at once" });
                format!("lookup, depth {depth}, {hot}{at_once}")
            }
            Case::As { who } => format!("lookup as {}", who.name()),
            Case::Speculated { who } => format!("of these by bits alone, {}", who.name()),
            Case::Rename { size } => format!("rename with {size} directories"),
            Case::Chmod { size } => format!("chmod above {size} directories"),
        }
    }
}

impl Who {
    fn name(self) -> &'static str {
        match self {
            Who::Owner => "owner",
            Who::Member => "member of the group",
            Who::Other => "other",
        }
    }
}

/// Somebody whose groups are known.
#[derive(Clone, Copy)]
struct Caller {
    uid: u32,
    gid: u32,
}

impl Caller {
    #[inline]
    fn of(&self, access: &Access) -> Class {
        if self.uid == access.uid {
            Class::Owner
        } else if self.gid == access.gid {
            Class::Group
        } else {
            Class::Other
        }
    }
}

impl Check for Caller {
    #[inline]
    fn search(&mut self, _: DirId, access: &Access) -> Search {
        let shift = match self.of(access) {
            Class::Owner => 6,
            Class::Group => 3,
            Class::Other => 0,
        };
        if access.mode >> shift & 1 == 1 { Search::Allowed } else { Search::Denied }
    }

    #[inline]
    fn class(&self, access: &Access) -> Option<Class> {
        Some(self.of(access))
    }
}

/// Who may search everything.
#[inline]
fn all(_: DirId, _: &Access) -> Search {
    Search::Allowed
}

/// Paths to look up, one after the other.
struct Paths {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    targets: Vec<u32>,
}

impl Paths {
    /// So many lookups of these directories, chosen by chance.
    fn new(tree: &Namespace, of: &[u32], lookups: usize, random: &mut Random) -> Paths {
        let mut paths = Paths { bytes: vec![], ends: vec![], targets: vec![] };
        for _ in 0..lookups {
            let target = of[random.below(of.len() as u64) as usize];
            tree.path(target as usize, &mut paths.bytes);
            paths.ends.push(paths.bytes.len());
            paths.targets.push(target);
        }
        paths
    }

    fn len(&self) -> usize {
        self.targets.len()
    }

    fn get(&self, at: usize) -> &[u8] {
        &self.bytes[at.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[at]]
    }

    fn is_found(&self, at: usize, walk: &Walk) -> bool {
        walk.end == End::Found && walk.last.is_some_and(|part| part.id == id(self.targets[at]))
    }
}

/// Everything that an index is asked for: the same for each.
pub(super) struct Work {
    pub(super) tree: Namespace,
    sorted: List,
    shuffled: List,
    lookups: Vec<(u16, bool, Paths)>,
    anywhere: Paths,
    /// Directories with about 10, 100, … below.
    subtrees: Vec<usize>,
}

impl Work {
    pub(super) fn new(tree: Namespace, lookups: usize) -> Work {
        let mut random = Random::new(2);
        let mut of_depths = vec![];
        for depth in DEPTHS {
            let of: Vec<u32> =
                (0..tree.len()).filter(|&number| tree.depth(number) == depth).map(|number| number as u32).collect();
            if of.is_empty() {
                continue;
            }
            let hot: Vec<u32> = (0..HOT).map(|_| of[random.below(of.len() as u64) as usize]).collect();
            of_depths.push((depth, false, Paths::new(&tree, &of, lookups, &mut random)));
            of_depths.push((depth, true, Paths::new(&tree, &hot, lookups, &mut random)));
        }
        let any: Vec<u32> = (0..tree.len() as u32).collect();
        let anywhere = Paths::new(&tree, &any, lookups, &mut random);
        let subtrees = (1..8).filter_map(|power| near(&tree, 10u32.pow(power))).collect();
        Work { sorted: tree.sorted(), shuffled: tree.shuffled(), lookups: of_depths, anywhere, subtrees, tree }
    }

    /// All measurements of an index that `make` makes.
    pub(super) fn measure<I: Index>(&self, make: impl Fn() -> I) -> anyhow::Result<Vec<(Case, f64)>> {
        let mut index = make();
        let shuffled = load(&mut index, &self.shuffled)?;
        drop(index);
        let mut index = make();
        let sorted = load(&mut index, &self.sorted)?;
        let bytes = index.memory().touched as f64 / self.tree.len() as f64;
        let mut all = vec![(Case::LoadSorted, sorted), (Case::LoadShuffled, shuffled), (Case::Bytes, bytes)];
        for (depth, hot, paths) in &self.lookups {
            for at_once in [1, LANES] {
                let case = Case::Lookup { depth: *depth, hot: *hot, at_once };
                all.push((case, lookups(&mut index, paths, at_once)?));
            }
        }
        for who in Who::ALL {
            let (ns, share) = self.lookups_as(&mut index, who);
            all.push((Case::As { who }, ns));
            all.push((Case::Speculated { who }, share));
        }
        for &number in &self.subtrees {
            let size = self.tree.size(number);
            all.push((Case::Rename { size }, self.rename(&mut index, number)?));
            all.push((Case::Chmod { size }, self.chmod(&mut index, number)?));
        }
        ensure!(lookups(&mut index, &self.anywhere, 1)? > 0.0, "all is at its place again");
        Ok(all)
    }

    /// ns a lookup by such callers, who may be denied, and how many of them bits alone let through.
    fn lookups_as<I: Index>(&self, index: &mut I, who: Who) -> (f64, f64) {
        let paths = &self.anywhere;
        let callers: Vec<Caller> =
            paths.targets.iter().map(|&target| who.caller(&self.tree.access(target as usize))).collect();
        let (mut ns, mut speculated) = (0.0, 0);
        for _ in 0..2 {
            // The first time bits are computed.
            speculated = 0;
            let begin = Instant::now();
            for (at, caller) in callers.iter().enumerate() {
                let walk = index.walk(DirId::ROOT, paths.get(at), &mut { *caller });
                speculated += usize::from(walk.speculated);
            }
            ns = begin.elapsed().as_nanos() as f64 / paths.len() as f64;
        }
        (ns, speculated as f64 / paths.len() as f64)
    }

    /// µs of a rename to another directory, and back.
    fn rename<I: Index>(&self, index: &mut I, number: usize) -> anyhow::Result<f64> {
        let here = self.tree.directory(number);
        let there = Directory { parent: DirId::ROOT, name: b"onpath-bench-index-renamed", ..here };
        changes(|turn| {
            let done = index.bind(if turn { &there } else { &here })?;
            ensure!(done.before.is_some() && done.displaced.is_none(), "{:?} was renamed: {done:?}", here.id);
            Ok(())
        })
    }

    fn chmod<I: Index>(&self, index: &mut I, number: usize) -> anyhow::Result<f64> {
        let Directory { id, access, grant, .. } = self.tree.directory(number);
        let other = Access { mode: access.mode ^ 0o4, ..access };
        changes(|turn| {
            let (access, count) = if turn { (other, grant.count + 1) } else { (access, grant.count) };
            ensure!(index.set_access(id, access, Grant { count, ..grant })?, "{id:?} is held");
            Ok(())
        })
    }
}

/// The directory that has nearest to so many below; none if it is less than half or more than twice as many.
fn near(tree: &Namespace, size: u32) -> Option<usize> {
    let near = (1..tree.len()).min_by_key(|&number| tree.size(number).abs_diff(size))?;
    (size / 2..=2 * size).contains(&tree.size(near)).then_some(near)
}

/// Millions of directories a second.
fn load<I: Index>(index: &mut I, list: &List) -> anyhow::Result<f64> {
    let begin = Instant::now();
    for at in 0..list.len() {
        let directory = list.directory(at);
        let bound = index.bind(&directory).with_context(|| format!("{} are held", index.len()))?;
        ensure!(bound.displaced.is_none(), "two directories have one name: {directory:?}");
    }
    Ok(list.len() as f64 / begin.elapsed().as_secs_f64() / 1e6)
}

/// ns a lookup.
fn lookups<I: Index>(index: &mut I, paths: &Paths, at_once: usize) -> anyhow::Result<f64> {
    let mut missed = 0;
    let begin = Instant::now();
    if at_once == 1 {
        for at in 0..paths.len() {
            let walk = index.walk(DirId::ROOT, paths.get(at), &mut { all });
            missed += usize::from(!paths.is_found(at, &walk));
        }
    } else {
        for from in (0..paths.len()).step_by(at_once) {
            let mut asks: [_; LANES] = std::array::from_fn(|lane| {
                let path = if from + lane < paths.len() { paths.get(from + lane) } else { b"" };
                Ask::new(DirId::ROOT, path, all)
            });
            let some = at_once.min(paths.len() - from);
            index.walk_many(&mut asks[..some]);
            missed +=
                asks[..some].iter().enumerate().filter(|(lane, ask)| !paths.is_found(from + lane, &ask.walk)).count();
        }
    }
    let ns = begin.elapsed().as_nanos() as f64 / paths.len() as f64;
    ensure!(missed == 0, "{missed} of {} directories are not where they are", paths.len());
    Ok(ns)
}

/// The median of changes there and back, µs.
fn changes(mut change: impl FnMut(bool) -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let (begin, mut took) = (Instant::now(), vec![]);
    while took.len() < 2 || took.len() < CHANGES && begin.elapsed() < CHANGE_TIME {
        for turn in [true, false] {
            let one = Instant::now();
            change(turn)?;
            took.push(one.elapsed().as_nanos() as f64 / 1e3);
        }
    }
    took.sort_by(f64::total_cmp);
    Ok(f64::midpoint(took[(took.len() - 1) / 2], took[took.len() / 2]))
}
