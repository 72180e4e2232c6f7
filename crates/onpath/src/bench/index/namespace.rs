//! Trees of directories to fill an index with: made up as the paper's are, or read from this machine.

use super::made;
use anyhow::{Context, ensure};
use onpath_index::{Access, Class, DirId, Directory, Grant};
use onpath_mart::reach;
use onpath_wire::shown::Shown as _;
use serde::Serialize;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of the name of a directory that an index of 40-byte records has inside.
const SHORT_NAME: usize = 13;

/// Directories in some order, without paths: the root is the first one of the order in which they were made, and has number 0.
#[derive(Default)]
pub(super) struct List {
    numbers: Vec<u32>,
    parents: Vec<u32>,
    names: Vec<u8>,
    /// Where each name ends.
    ends: Vec<u32>,
    access: Vec<Access>,
}

impl List {
    fn push(&mut self, number: u32, parent: u32, name: &[u8], access: Access) -> anyhow::Result<()> {
        self.numbers.push(number);
        self.parents.push(parent);
        self.names.extend_from_slice(name);
        self.ends.push(u32::try_from(self.names.len()).context("the names have more than 4 GiB")?);
        self.access.push(access);
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    fn name(&self, at: usize) -> &[u8] {
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.names[begin as usize..self.ends[at] as usize]
    }

    /// As an index is told of it. Only the root is its own parent.
    pub(super) fn directory(&self, at: usize) -> Directory<'_> {
        let (number, parent) = (self.numbers[at], self.parents[at]);
        let parent = if number == 0 { DirId::NONE } else { id(parent) };
        let grant = Grant { term: 1, count: u64::from(number) + 1 };
        Directory { id: id(number), parent, name: self.name(at), access: self.access[at], grant }
    }
}

pub(super) fn id(number: u32) -> DirId {
    DirId(u64::from(number) + 1)
}

/// A tree. Parents have lower numbers than what is below them, and the children of one follow each other.
pub(super) struct Namespace {
    list: List,
    depths: Vec<u16>,
    /// Directories below each, and itself.
    sizes: Vec<u32>,
}

/// What a tree is like: shares are of all directories.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Shape {
    directories: usize,
    pub(super) mean_depth: f64,
    greatest_depth: u16,
    mean_name: f64,
    long_names: f64,
    /// The search bits of all directories on the way and of itself descend from owner to group to others.
    pub(super) descending: f64,
    /// Reachability bits.
    pub(super) user: f64,
    pub(super) group: f64,
    pub(super) other: f64,
}

impl Shape {
    pub(super) fn count(&self) -> String {
        format!("{} directories", self.directories)
    }
}

impl Namespace {
    /// A tree that begins with a root.
    pub(super) fn new(access: Access) -> Namespace {
        let mut tree = Namespace { list: List::default(), depths: vec![0], sizes: vec![] };
        tree.list.push(0, 0, b"", access).expect("no name");
        tree
    }

    /// Adds a directory, and tells its number.
    pub(super) fn push(&mut self, parent: u32, name: &[u8], access: Access) -> anyhow::Result<u32> {
        let number = u32::try_from(self.len()).context("more than 2^32 directories")?;
        self.list.push(number, parent, name, access)?;
        self.depths.push(self.depths[parent as usize] + 1);
        Ok(number)
    }

    /// All are there.
    pub(super) fn finish(mut self) -> Namespace {
        self.sizes = vec![1; self.len()];
        for number in (1..self.len()).rev() {
            let parent = self.parent(number);
            self.sizes[parent] += self.sizes[number];
        }
        self
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn parent(&self, number: usize) -> usize {
        self.list.parents[number] as usize
    }

    pub(super) fn depth(&self, number: usize) -> u16 {
        self.depths[number]
    }

    pub(super) fn size(&self, number: usize) -> u32 {
        self.sizes[number]
    }

    pub(super) fn access(&self, number: usize) -> Access {
        self.list.access[number]
    }

    pub(super) fn set_access(&mut self, number: usize, access: Access) {
        self.list.access[number] = access;
    }

    pub(super) fn directory(&self, number: usize) -> Directory<'_> {
        self.list.directory(number)
    }

    /// Appends the path of a directory.
    pub(super) fn path(&self, mut number: usize, path: &mut Vec<u8>) {
        let mut way = vec![];
        while number > 0 {
            way.push(number);
            number = self.parent(number);
        }
        for number in way.into_iter().rev() {
            path.push(b'/');
            path.extend_from_slice(self.list.name(number));
        }
    }

    /// A list of all in the order of these numbers.
    fn ordered(&self, numbers: &[u32]) -> List {
        let mut list = List::default();
        for &number in numbers {
            let at = number as usize;
            let (name, access) = (self.list.name(at), self.access(at));
            list.push(number, self.list.parents[at], name, access).expect("as many bytes as before");
        }
        list
    }

    /// All as a walk of the tree finds them: each before what is below it, and that before what is beside it.
    pub(super) fn sorted(&self) -> List {
        let mut first = vec![0u32; self.len()];
        for number in (1..self.len()).rev() {
            first[self.parent(number)] = number as u32; // the children of one follow each other
        }
        let (mut order, mut rest) = (Vec::with_capacity(self.len()), vec![0u32]);
        while let Some(number) = rest.pop() {
            order.push(number);
            let begin = first[number as usize] as usize;
            let children = (begin..self.len()).take_while(|&at| begin > 0 && self.parent(at) == number as usize);
            let from = rest.len();
            rest.extend(children.map(|at| at as u32));
            rest[from..].reverse();
        }
        self.ordered(&order)
    }

    /// All in any order: children before their parents too.
    pub(super) fn shuffled(&self) -> List {
        let mut random = made::Random::new(7);
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, random.below(at as u64 + 1) as usize);
        }
        self.ordered(&order)
    }

    pub(super) fn shape(&self) -> Shape {
        let count = self.len() as f64;
        let share = |of: &dyn Fn(usize) -> bool| (0..self.len()).filter(|&number| of(number)).count() as f64 / count;
        let way = |number: usize| {
            let above = |&at: &usize| (at > 0).then(|| self.parent(at));
            std::iter::successors(above(&number), above)
        };
        let bits =
            |number: usize, class: Class| reach(&self.access(number), way(number).map(|at| self.access(at))).has(class);
        let descends = |number: usize| {
            let Access { mode, acl, .. } = self.access(number);
            let (user, group, other) = (mode >> 6 & 1, mode >> 3 & 1, mode & 1);
            user >= group && group >= other && !acl
        };
        Shape {
            directories: self.len(),
            mean_depth: self.depths.iter().map(|&depth| f64::from(depth)).sum::<f64>() / count,
            greatest_depth: self.depths.iter().copied().max().unwrap_or(0),
            mean_name: self.list.names.len() as f64 / count,
            long_names: share(&|number| self.list.name(number).len() > SHORT_NAME),
            descending: share(&|number| descends(number) && way(number).all(descends)),
            user: share(&|number| bits(number, Class::Owner)),
            group: share(&|number| bits(number, Class::Group)),
            other: share(&|number| bits(number, Class::Other)),
        }
    }

    /// The directories of a tree of this machine, as often as it takes to have `at_least`: copies are below srv/TEAM/PROJECT/SNAPSHOT.
    pub(super) fn read(path: &Path, at_least: Option<usize>) -> anyhow::Result<Namespace> {
        let one = read_once(path)?;
        let copies = at_least.map_or(1, |wanted| wanted.div_ceil(one.len()));
        if copies == 1 {
            return Ok(one.finish());
        }
        let open = Access { mode: 0o755, ..Access::default() };
        let mut tree = Namespace::new(open);
        let mut level = vec![tree.push(0, b"srv", open)?];
        for (name, fan) in [("team", 12), ("project", 12), ("snapshot", copies.div_ceil(144))] {
            let mut next = vec![];
            for above in level {
                for number in 0..fan {
                    next.push(tree.push(above, format!("{name}{number:02}").as_bytes(), open)?);
                }
            }
            level = next;
        }
        // Level by level, so that the children of one follow each other.
        let mut at: Vec<Vec<u32>> = level.into_iter().take(copies).map(|top| vec![top]).collect();
        let mut begin = 1;
        while begin < one.len() {
            let depth = one.depth(begin);
            let end = (begin..one.len()).find(|&number| one.depth(number) > depth).unwrap_or(one.len());
            for copy in &mut at {
                for number in begin..end {
                    let above = copy[one.parent(number)];
                    copy.push(tree.push(above, one.list.name(number), one.access(number))?);
                }
            }
            begin = end;
        }
        Ok(tree.finish())
    }
}

/// What cannot be read is left out, as it would be of an index.
fn read_once(path: &Path) -> anyhow::Result<Namespace> {
    let access = |about: &fs::Metadata| Access {
        mode: (about.mode() & 0o7777) as u16,
        uid: about.uid(),
        gid: about.gid(),
        acl: false,
    };
    let about = fs::metadata(path).with_context(|| format!("cannot read {}", path.shown()))?;
    ensure!(about.is_dir(), "{} is not a directory", path.shown());
    let mut tree = Namespace::new(access(&about));
    let mut paths: Vec<PathBuf> = vec![path.to_owned()];
    let mut number = 0;
    while number < paths.len() {
        let mut names: Vec<_> = fs::read_dir(&paths[number])
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| entry.file_name())
            .collect();
        names.sort();
        for name in names {
            let below = paths[number].join(&name);
            let Ok(about) = fs::symlink_metadata(&below) else { continue };
            tree.push(number as u32, name.as_bytes(), access(&about))?;
            paths.push(below);
        }
        number += 1;
    }
    Ok(tree)
}
