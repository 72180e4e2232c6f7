//! A tree of directories that one session changes, and sessions that follow names in it by path nodes meanwhile.
//!
//! Whatever a path node says of a way was so at one moment between the question and the answer: each name led to that directory, and the
//! walker might search it (P-2, P-3). It may say less; then it says nothing of what follows.

use super::User;
use crate::model::Caller;
use crate::workload::PRIVATE;
use crate::world::{Finished, World};
use onpath_session::fs::{FsOp, FsReply, FsResult, WaysAt};
use onpath_wire::attr::flag;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::request::{SetAttr, rename, set};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, VecDeque};

/// Directories of the tree at most.
const DIRECTORIES: usize = 7;
/// Names in each directory at most.
const NAMES: u8 = 3;
/// Names of a question at most.
const DEPTH: usize = 5;
/// Who walks owns nothing.
const WALKER: u32 = 4_001;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Directory {
    parent: InodeId,
    name: Name,
    mode: u16,
}

/// The tree at one time, by ids. What is being made has no id yet, and stands under none.
#[derive(Clone, Debug, Default)]
struct Tree {
    top: InodeId,
    directories: BTreeMap<InodeId, Directory>,
}

impl Tree {
    fn child(&self, parent: InodeId, name: &Name) -> Option<InodeId> {
        let has = |(_, dir): &(&InodeId, &Directory)| dir.parent == parent && dir.name == *name && parent.is_some();
        self.directories.iter().find(has).map(|(id, _)| *id)
    }

    fn has(&self, id: InodeId) -> bool {
        id == self.top || self.directories.contains_key(&id)
    }

    fn is_empty(&self, id: InodeId) -> bool {
        self.directories.values().all(|dir| dir.parent != id)
    }

    fn is_below(&self, mut id: InodeId, top: InodeId) -> bool {
        while id != top {
            match self.directories.get(&id) {
                Some(dir) => id = dir.parent,
                None => return false,
            }
        }
        true
    }

    /// Whether a walker may look up a name in it.
    fn is_open(&self, id: InodeId) -> bool {
        id == self.top || self.directories.get(&id).is_some_and(|dir| dir.mode & 1 != 0)
    }

    /// Where these names lead a walker.
    fn follow(&self, from: InodeId, names: &[Name]) -> Option<InodeId> {
        names.iter().try_fold(Some(from).filter(|from| self.has(*from))?, |dir, name| {
            if self.is_open(dir) { self.child(dir, name) } else { None }
        })
    }

    /// A way from the top to a directory.
    fn way(&self, mut id: InodeId) -> Vec<Name> {
        let mut names = vec![];
        while let Some(dir) = self.directories.get(&id) {
            names.push(dir.name.clone());
            id = dir.parent;
        }
        names.reverse();
        names
    }
}

/// A question under way.
struct Asked {
    from: InodeId,
    names: Vec<Name>,
    /// The last name is looked up.
    look: bool,
    /// It rests on ways that the walker has kept.
    by_ways: bool,
    /// The first tree that may have been seen.
    since: usize,
}

/// The user.
pub struct Walkers {
    rng: ChaCha8Rng,
    changer: usize,
    home: Name,
    walkers: Vec<usize>,
    /// Trees that may still have been seen, and how many were forgotten before them. The last one is that of all returned changes.
    trees: VecDeque<Tree>,
    forgotten: usize,
    /// The change under way, and the tree when it is done.
    change: Option<(u64, Tree)>,
    /// What path nodes say is being made.
    made: Option<InodeId>,
    asked: BTreeMap<(usize, u64), Asked>,
    closing: bool,
}

impl Walkers {
    /// Begins in new sessions: those that walk keep ways in so many bytes.
    pub fn begin(world: &mut World, seed: u64, walkers: &[usize]) -> Walkers {
        let changer = world.add_session(&[Caller::default()]);
        let home = Name::new(format!("{PRIVATE}w-{changer}").as_bytes()).expect("a short name");
        let walkers =
            walkers.iter().map(|bytes| world.add_keeping_session(&[Caller::new(WALKER, WALKER)], *bytes)).collect();
        let mut user = Walkers {
            rng: ChaCha8Rng::seed_from_u64(seed ^ 0x3a1c),
            changer,
            home: home.clone(),
            walkers,
            trees: VecDeque::from([Tree::default()]),
            forgotten: 0,
            change: None,
            made: None,
            asked: BTreeMap::new(),
            closing: false,
        };
        let make = user.make(InodeId::ROOT, home);
        user.begin_change(world, make, Tree::default());
        user
    }

    fn make(&self, parent: InodeId, name: Name) -> FsOp {
        FsOp::Make { parent, name, kind: Kind::Directory, mode: 0o755, umask: 0, rdev: 0, target: vec![] }
    }

    fn now(&self) -> &Tree {
        self.trees.back().expect("there is always one")
    }

    fn begin_change(&mut self, world: &mut World, op: FsOp, then: Tree) {
        let unique = world.system_call(self.changer, 0, op);
        self.change = Some((unique, then));
    }

    fn some_name(&mut self) -> Name {
        Name::new(&[b'a' + self.rng.random_range(0..NAMES)]).expect("a short name")
    }

    fn some_directory(&mut self, or_top: bool) -> InodeId {
        let tree = self.now();
        let mut all: Vec<InodeId> = tree.directories.keys().copied().collect();
        all.extend(or_top.then_some(tree.top));
        if all.is_empty() { InodeId::NONE } else { all[self.rng.random_range(0..all.len())] }
    }

    /// The next change that will succeed.
    fn change(&mut self, world: &mut World) {
        loop {
            let (dir, parent, name) = (self.some_directory(false), self.some_directory(true), self.some_name());
            let tree = self.now().clone();
            let there = tree.child(parent, &name);
            let mut then = tree.clone();
            let is = tree.directories.get(&dir).cloned();
            let (op, then) = match (self.rng.random_range(0..100), is) {
                (0..30, _) if there.is_none() && tree.directories.len() < DIRECTORIES => {
                    let made = Directory { parent, name: name.clone(), mode: 0o755 };
                    then.directories.insert(InodeId::NONE, made);
                    (self.make(parent, name), then)
                }
                (30..45, Some(is)) if tree.is_empty(dir) => {
                    then.directories.remove(&dir);
                    (FsOp::Rmdir { parent: is.parent, name: is.name }, then)
                }
                (45..65, Some(is)) => {
                    let mode = if is.mode & 1 == 0 { 0o755 } else { 0o750 };
                    then.directories.get_mut(&dir).expect("it is there").mode = mode;
                    let set = SetAttr { valid: set::MODE, mode, ..SetAttr::default() };
                    (FsOp::SetAttr { id: dir, set, handle: None }, then)
                }
                (65..100, Some(is)) if !tree.is_below(parent, dir) && there != Some(dir) => {
                    let exchanges = there.is_some_and(|there| !tree.is_below(dir, there)) && self.rng.random_bool(0.5);
                    match there {
                        Some(other) if exchanges => {
                            let other = then.directories.get_mut(&other).expect("it is there");
                            (other.parent, other.name) = (is.parent, is.name.clone());
                        }
                        Some(other) if tree.is_empty(other) => _ = then.directories.remove(&other),
                        Some(_) => continue,
                        None => {}
                    }
                    let moved = then.directories.get_mut(&dir).expect("it is there");
                    (moved.parent, moved.name) = (parent, name.clone());
                    let flags = if exchanges { rename::EXCHANGE } else { 0 };
                    let (from_parent, from) = (is.parent, is.name);
                    (FsOp::Rename { from_parent, from, parent, name, flags }, then)
                }
                _ => continue,
            };
            return self.begin_change(world, op, then);
        }
    }

    fn changed(&mut self, world: &mut World, unique: u64, result: FsResult) {
        let Some((_, mut then)) = self.change.take().filter(|(awaited, _)| *awaited == unique) else {
            return world.checker.violation(format!("{:?} answers what nobody asked", self.home));
        };
        match result {
            Ok(FsReply::Entry(attr)) if then.top == InodeId::NONE => {
                then.top = attr.id;
                // An ACL that others have given the root is inherited, and says who may search: then nobody walks.
                self.closing |= attr.flags & flag::XATTRS != 0 || attr.mode & 0o777 != 0o755;
            }
            Ok(FsReply::Entry(attr)) => {
                let made = then.directories.remove(&InodeId::NONE).expect("one is made");
                then.directories.insert(attr.id, made);
                if self.made.take().is_some_and(|made| made != attr.id) {
                    world.checker.violation(format!("{:?}: a path led to what is not {:?}", self.home, attr.id));
                }
            }
            Ok(FsReply::Done | FsReply::Attr { .. }) => {}
            other => world.checker.violation(format!("{:?} #{unique}: a change is answered {other:?}", self.home)),
        }
        self.trees.push_back(then);
        self.forget();
    }

    /// Forgets trees that no question under way may have seen.
    fn forget(&mut self) {
        let last = self.forgotten + self.trees.len() - 1;
        let first = self.asked.values().map(|asked| asked.since).min().unwrap_or(last);
        while self.forgotten < first {
            self.trees.pop_front();
            self.forgotten += 1;
        }
    }

    fn walk(&mut self, world: &mut World, walker: usize) {
        if self.now().top == InodeId::NONE {
            return;
        }
        let from = if self.rng.random_bool(0.7) { self.now().top } else { self.some_directory(true) };
        let mut names = match self.some_directory(false) {
            to if to.is_some() && from == self.now().top && self.rng.random_bool(0.8) => self.now().way(to),
            _ => vec![],
        };
        while names.is_empty() || names.len() < DEPTH && self.rng.random_bool(0.4) {
            names.push(self.some_name());
        }
        let look = self.rng.random_bool(0.5);
        let unique = world.system_call(walker, 0, FsOp::Resolve { from, names: names.clone(), look, kept: true });
        let since = self.forgotten + self.trees.len() - 1;
        self.asked.insert((walker, unique), Asked { from, names, look, by_ways: false, since });
    }

    /// Whether ways that a walker keeps are right says whoever is asked next.
    fn look_by_ways(&mut self, world: &mut World, walker: usize, op: FsOp, at: WaysAt, asked: Asked) {
        let unique = world.system_call_by_ways(walker, 0, op, at);
        self.asked.insert((walker, unique), asked);
    }

    /// A walk is answered; whether it is over.
    fn walked_to(&mut self, world: &mut World, walker: usize, unique: u64, result: FsResult) -> bool {
        let Some(Asked { from, mut names, look, by_ways, since }) = self.asked.remove(&(walker, unique)) else {
            world.checker.violation(format!("{:?}: a walk is answered that nobody asked for", self.home));
            return true;
        };
        if let Ok(FsReply::Resolved { dir, by_ways: Some(at), .. }) = result {
            let name = self.some_name();
            names.push(name.clone());
            let asked = Asked { from, names, look: true, by_ways: true, since };
            self.look_by_ways(world, walker, FsOp::Lookup { parent: dir, name }, at, asked);
            return false;
        }
        let checks = &mut world.checker.checks;
        checks.ways_kept += u64::from(by_ways);
        if by_ways && matches!(result, Err(Errno::ERESTART)) {
            checks.ways_behind += 1;
            self.forget();
            return true;
        }
        let seen: Vec<&Tree> = self.trees.iter().skip(since - self.forgotten).collect();
        let with_change: Vec<&Tree> = seen.iter().copied().chain(self.change.as_ref().map(|(_, then)| then)).collect();
        let known = |id: InodeId| seen.iter().any(|tree| tree.directories.contains_key(&id) || tree.top == id);
        let leads = |tree: &Tree, names: &[Name], to: InodeId| match tree.follow(from, names) {
            Some(InodeId::NONE) => to.is_some() && !known(to),
            way => way == Some(to),
        };
        // All but the last name are followed at one moment, and the last one is looked up later.
        let (ways, last) = names.split_at(names.len() - 1);
        let looked = |right: &dyn Fn(&Tree, InodeId) -> bool| {
            let led = with_change.iter().enumerate().filter_map(|(at, tree)| Some((at, tree.follow(from, ways)?)));
            led.into_iter().any(|(at, dir)| with_change[at..].iter().any(|tree| right(tree, dir)))
        };
        let (fits, led) = match &result {
            Ok(FsReply::Resolved { dir, names: followed, .. }) if !by_ways => {
                let follows = |tree: &&&Tree| leads(tree, &names[..*followed], *dir);
                let fits = *followed == 0 && *dir == from || with_change.iter().any(|tree| follows(&tree));
                (*followed <= names.len() && fits, Some((*dir, *followed)))
            }
            Ok(FsReply::Entry(attr)) if look => {
                let is_it = |tree: &Tree, dir| {
                    tree.is_open(dir)
                        && match tree.child(dir, &last[0]) {
                            Some(InodeId::NONE) => !known(attr.id),
                            child => child == Some(attr.id),
                        }
                };
                (looked(&is_it), Some((attr.id, names.len())))
            }
            Ok(FsReply::Missing) | Err(Errno::ENOENT) if look => {
                (looked(&|tree, dir| tree.is_open(dir) && tree.child(dir, &last[0]).is_none() || !tree.has(dir)), None)
            }
            Err(Errno::EACCES) if look => (looked(&|tree, dir| tree.has(dir) && !tree.is_open(dir)), None),
            _ => (false, None),
        };
        if let Some((dir, followed)) = led.filter(|(_, followed)| fits && *followed > 0) {
            let whole = followed == names.len();
            let always = seen.iter().all(|tree| leads(tree, &names[..followed], dir));
            if dir.is_some() && !known(dir) {
                self.made = Some(dir);
            }
            let checks = &mut world.checker.checks;
            checks.ways += u64::from(whole);
            checks.ways_changed += u64::from(whole && !always);
        }
        if !fits {
            let why = format!(
                "{names:?} from {from:?}, look: {look}, are answered {result:?}, right in none of {with_change:?}"
            );
            world.checker.violation(format!("{:?} #{unique}: {why}", self.home));
        }
        self.forget();
        true
    }
}

impl User for Walkers {
    fn has(&self, session: usize) -> bool {
        self.changer == session || self.walkers.contains(&session)
    }

    fn answered(&mut self, world: &mut World, Finished { session, unique, result }: Finished) {
        let first = self.now().top == InodeId::NONE;
        if session == self.changer {
            self.changed(world, unique, result);
            if !self.closing {
                self.change(world);
            }
            if first && !self.closing {
                (0..self.walkers.len()).for_each(|walker| self.walk(world, self.walkers[walker]));
            }
        } else {
            let is_over = self.walked_to(world, session, unique, result);
            if is_over && !self.closing {
                self.walk(world, session);
            }
        }
    }

    fn close(&mut self) {
        self.closing = true;
    }

    fn is_idle(&self) -> bool {
        self.change.is_none() && self.asked.is_empty()
    }
}
