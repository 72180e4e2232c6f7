//! A tree of directories in which paths are looked at, and who looks.

use onpath_session::ReadCaller;
use onpath_session::fs::Caller;
use onpath_wire::caller::{Caps, cap};
use onpath_wire::ids::InodeId;
use onpath_wire::name::Name;

/// Files at the end of each way.
const FILES: u32 = 4;
/// The group that decides in [`Branch::Group`].
const GROUP: u32 = 50;

/// Parts of a tree that differ in who may search them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Branch {
    /// Whoever looks owns all of it, and its bits descend: reachability bits say so.
    Plain,
    /// The same below directories whose bits do not descend, so that each directory is checked.
    Odd,
    /// It is another's. A group may search it, which is not known of who looks until it is asked for.
    Group,
}

impl Branch {
    const ALL: [Branch; 3] = [Branch::Plain, Branch::Odd, Branch::Group];

    /// The mode of its directories at this level, from 1 on.
    fn mode(self, level: u32) -> u16 {
        match self {
            Branch::Odd if level == 1 => 0o705,
            Branch::Plain | Branch::Odd => 0o755,
            Branch::Group => 0o770,
        }
    }

    pub(super) fn owner(self) -> Who {
        if self == Branch::Group { Who::Other } else { Who::User }
    }
}

/// How large a tree is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeShape {
    /// Directories in each directory, as long as a level has fewer than `width`.
    pub fanout: u32,
    /// Most directories of a level.
    pub width: u32,
    /// Names of the paths that can be looked at: at least 2 of each.
    pub depths: Vec<u32>,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Root,
    User,
    Other,
}

impl Who {
    /// The caller of whose thread id.
    pub(super) fn of(pid: u32) -> Who {
        [Who::Root, Who::User, Who::Other][(pid - 1) as usize]
    }

    /// What a request tells of it.
    pub(super) fn asks(self, tells_group: bool) -> Caller {
        let (uid, gid) = [(0, 0), (1_000, 100), (2_000, GROUP)][self as usize];
        let known_group = tells_group.then_some(GROUP);
        Caller { uid, gid, pid: self as u32 + 1, known_group, free_links: false }
    }

    /// What is there to know of it.
    pub(super) fn read(self) -> ReadCaller {
        let (groups, caps) = match self {
            Who::Root => (vec![], cap::ALL),
            Who::User => (vec![GROUP], 0),
            Who::Other => (vec![], 0),
        };
        ReadCaller { groups: Some(groups), caps: Caps::exactly(caps) }
    }
}

/// A directory of the tree.
#[derive(Clone, Debug)]
pub(super) struct TreeDir {
    /// None before it is made.
    pub(super) id: InodeId,
    pub(super) parent: Option<u32>,
    pub(super) name: Name,
    pub(super) branch: Branch,
    pub(super) mode: u16,
}

/// The tree.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    pub(super) dirs: Vec<TreeDir>,
    /// By branch and level.
    levels: Vec<Vec<Vec<u32>>>,
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a short name")
}

impl Tree {
    /// One whose directories are still to be made.
    pub(super) fn new(shape: &TreeShape) -> Tree {
        let mut tree = Tree::default();
        let deepest = shape.depths.iter().copied().max().unwrap_or(0);
        assert!(shape.depths.iter().all(|&depth| depth >= 2), "a file in a directory is the least");
        for branch in Branch::ALL {
            let mut levels: Vec<Vec<u32>> = vec![];
            for level in 1..deepest {
                let above = levels.last().cloned().unwrap_or_default();
                let count = (above.len().max(1) as u32 * shape.fanout).min(shape.width).max(1);
                let mut made = vec![];
                for number in 0..count {
                    made.push(tree.dirs.len() as u32);
                    tree.dirs.push(TreeDir {
                        id: InodeId::NONE,
                        parent: (!above.is_empty()).then(|| above[number as usize % above.len()]),
                        name: name(&format!("{branch:?}-{level}-{number}")),
                        branch,
                        mode: branch.mode(level),
                    });
                }
                levels.push(made);
            }
            tree.levels.push(levels);
        }
        tree
    }

    /// The directories of a branch at a level, from 1 on.
    pub(super) fn level(&self, branch: Branch, level: u32) -> &[u32] {
        &self.levels[branch as usize][level as usize - 1]
    }

    /// All directories of a level, from 1 on.
    pub(super) fn all_at(&self, level: u32) -> Vec<u32> {
        self.levels.iter().flat_map(|levels| levels.get(level as usize - 1)).flatten().copied().collect()
    }

    /// The names of the files at the end of a way.
    pub(super) fn file(number: u32) -> Name {
        name(&format!("file-{}", number % FILES))
    }

    pub(super) fn files() -> u32 {
        FILES
    }

    /// A directory's parent.
    pub(super) fn parent(&self, dir: u32) -> InodeId {
        self.dirs[dir as usize].parent.map_or(InodeId::ROOT, |parent| self.dirs[parent as usize].id)
    }

    /// The directories on the way to one, and it.
    pub(super) fn way(&self, dir: u32) -> Vec<u32> {
        let mut way: Vec<u32> = std::iter::successors(Some(dir), |&dir| self.dirs[dir as usize].parent).collect();
        way.reverse();
        way
    }

    /// The names of these directories.
    pub(super) fn names(&self, way: &[u32]) -> Vec<Name> {
        way.iter().map(|&dir| self.dirs[dir as usize].name.clone()).collect()
    }
}
