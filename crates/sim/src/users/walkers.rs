//! A tree of directories that two sessions change at once, and sessions that follow names in it by path nodes meanwhile.
//!
//! Whatever a path node says of a way was so at one moment between the question and the answer: each name led to that directory, and the
//! walker might search it (P-2, P-3). It may say less; then it says nothing of what follows.

use super::User;
use super::possible::{Possible, is_unmade};
use super::tree::{Change, Is, Tree, WALKER};
use crate::model::Caller;
use crate::workload::PRIVATE;
use crate::world::{Finished, World};
use onpath_session::fs::{FsOp, FsReply, FsResult, WaysAt};
use onpath_wire::attr::flag;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::name::Name;
use onpath_wire::request::rename;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, VecDeque};

/// Sessions that change the tree.
const CHANGERS: usize = 2;
/// Directories of the tree at most, while one of them is made by each changer.
const DIRECTORIES: usize = 7;
/// Names in each directory at most.
const NAMES: u8 = 3;
/// Names of a question at most.
const DEPTH: usize = 5;
/// The modes of directories: who walks may search them, or not.
const OPEN: u16 = 0o755;
const CLOSED: u16 = 0o750;
/// Permission to search, in an ACL.
const SEARCH: u16 = 1;

/// A question under way.
struct Asked {
    from: InodeId,
    names: Vec<Name>,
    /// The last name is looked up.
    look: bool,
    /// It rests on ways that the walker has kept.
    by_ways: bool,
    /// Since then it may have seen what there was.
    since: usize,
}

/// The user.
pub struct Walkers {
    rng: ChaCha8Rng,
    changers: [usize; CHANGERS],
    home: Name,
    walkers: Vec<usize>,
    /// The directory in which all happens; none before it is made.
    top: InodeId,
    /// Numbers of the calls by which the changers change something.
    changes: [Option<u64>; CHANGERS],
    possible: Possible,
    /// The trees that there may have been, from one beginning or end of a change to the next, as far as questions under way may have
    /// seen them; how many times were forgotten before.
    times: VecDeque<Vec<Tree>>,
    forgotten: usize,
    /// What path nodes say is being made.
    made: Vec<InodeId>,
    asked: BTreeMap<(usize, u64), Asked>,
    closing: bool,
}

impl Walkers {
    /// Begins in new sessions: those that walk keep ways in so many bytes.
    pub fn begin(world: &mut World, seed: u64, walkers: &[usize]) -> Walkers {
        let changers = [(); CHANGERS].map(|()| world.add_session(&[Caller::default()]));
        let home = Name::new(format!("{PRIVATE}w-{}", changers[0]).as_bytes()).expect("a short name");
        let walkers =
            walkers.iter().map(|bytes| world.add_keeping_session(&[Caller::new(WALKER, WALKER)], *bytes)).collect();
        let at = (InodeId::ROOT, home.clone());
        let makes = Change::Make { at, is: Is::Directory, mode: OPEN, by_walker: false };
        let first = world.system_call(changers[0], 0, makes.op());
        Walkers {
            rng: ChaCha8Rng::seed_from_u64(seed ^ 0x3a1c),
            changers,
            home,
            walkers,
            top: InodeId::NONE,
            changes: [Some(first), None],
            possible: Possible::default(),
            times: VecDeque::new(),
            forgotten: 0,
            made: vec![],
            asked: BTreeMap::new(),
            closing: false,
        }
    }

    /// One of the trees that there may be now.
    fn now(&self) -> &Tree {
        self.possible.trees().next().expect("there is always one")
    }

    fn some_name(&mut self) -> Name {
        Name::new(&[b'a' + self.rng.random_range(0..NAMES)]).expect("a short name")
    }

    /// A directory that has an id; with `or_top` perhaps the one in which all happens.
    fn some_directory(&mut self, or_top: bool) -> InodeId {
        let all = self.now().ids().filter(|id| (or_top || *id != self.top) && !is_unmade(*id, CHANGERS));
        let all: Vec<InodeId> = all.collect();
        if all.is_empty() { InodeId::NONE } else { all[self.rng.random_range(0..all.len())] }
    }

    /// The next change; it succeeds if nobody else is faster.
    fn change(&mut self, world: &mut World, changer: usize) {
        let change = loop {
            if let Some(change) = self.some_change()
                && self.now().refusals(&change).is_empty()
            {
                break change;
            }
        };
        self.changes[changer] = Some(world.system_call(self.changers[changer], 0, change.op()));
        self.possible.begins(changer, change);
        self.note_time();
    }

    fn some_change(&mut self) -> Option<Change> {
        let (dir, parent, name) = (self.some_directory(false), self.some_directory(true), self.some_name());
        let (drawn, exchanges, search) =
            (self.rng.random_range(0..100), self.rng.random_bool(0.5), self.rng.random_range(0..=SEARCH));
        let tree = self.now();
        let (to, is) = ((parent, name), tree.place(dir).cloned());
        let there = tree.child(to.0, &to.1);
        Some(match (drawn, is) {
            (0..30, _) if there.is_none() && tree.ids().count() < DIRECTORIES => {
                Change::Make { at: to, is: Is::Directory, mode: OPEN, by_walker: false }
            }
            (30..45, Some(is)) if tree.is_empty(dir) => Change::Rmdir(is),
            (45..58, Some(_)) => {
                let mode = if tree.mode(dir) == Some(OPEN) { CLOSED } else { OPEN };
                Change::Chmod { id: dir, mode }
            }
            (58..65, Some(_)) => Change::Acl { id: dir, acl: Some((search, tree.mode(dir)?)) },
            (65..70, Some(_)) => Change::Acl { id: dir, acl: None },
            (70..100, Some(from)) if !tree.is_below(parent, dir) && there != Some(dir) => {
                let exchanges = exchanges && there.is_some_and(|there| !tree.is_below(dir, there));
                Change::Rename { from, to, flags: if exchanges { rename::EXCHANGE } else { 0 } }
            }
            _ => return None,
        })
    }

    /// What there may be has changed.
    fn note_time(&mut self) {
        self.times.push_back(self.possible.trees().cloned().collect());
        self.forget();
    }

    /// Forgets what no question under way may have seen.
    fn forget(&mut self) {
        let last = (self.forgotten + self.times.len()).saturating_sub(1);
        let first = self.asked.values().map(|asked| asked.since).min().unwrap_or(last);
        while self.forgotten < first {
            self.times.pop_front();
            self.forgotten += 1;
        }
    }

    /// The directory in which all happens is there.
    fn begun(&mut self, world: &mut World, result: FsResult) {
        let Ok(FsReply::Entry(attr)) = result else {
            world.checker.violation(format!("{:?} is answered {result:?}", self.home));
            self.closing = true;
            return;
        };
        self.top = attr.id;
        // An ACL that others have given the root is inherited, and says who may search: then nobody walks.
        self.closing |= attr.flags & flag::XATTRS != 0 || attr.mode & 0o777 != OPEN;
        self.possible = Possible::only(Tree::of(attr.id, OPEN));
        self.note_time();
        if !self.closing {
            (0..CHANGERS).for_each(|changer| self.change(world, changer));
            (0..self.walkers.len()).for_each(|walker| self.walk(world, self.walkers[walker]));
        }
    }

    fn changed(&mut self, world: &mut World, changer: usize, unique: u64, result: FsResult) {
        if self.changes[changer].take() != Some(unique) {
            return world.checker.violation(format!("{:?} answers what nobody asked", self.home));
        }
        if self.top == InodeId::NONE {
            return self.begun(world, result);
        }
        let before = self.possible.clone();
        let ended = match &result {
            Ok(FsReply::Entry(attr)) => {
                self.is_made(changer, attr.id);
                self.possible.ends(changer, Ok(Some(attr.id)))
            }
            Ok(FsReply::Done | FsReply::Attr { .. }) => self.possible.ends(changer, Ok(None)),
            Err(errno) => self.possible.ends(changer, Err(*errno)),
            _ => false,
        };
        if !ended {
            let why = format!("{:?} #{unique}: a change is answered {result:?}, as in none of {before:?}", self.home);
            world.checker.violation(why);
            // Nothing is known any more.
            self.possible = Possible::only(before.trees().next().expect("there was one").clone());
            self.closing = true;
        }
        if !self.possible.is_making() && !std::mem::take(&mut self.made).is_empty() {
            world.checker.violation(format!("{:?}: a path led to what nobody has made", self.home));
        }
        self.note_time();
        if !self.closing {
            self.change(world, changer);
        }
    }

    /// What a changer has made has an id, also where it was before that was known.
    fn is_made(&mut self, changer: usize, id: InodeId) {
        self.made.retain(|made| *made != id);
        let unmade = super::possible::unmade(changer);
        self.times.iter_mut().flatten().for_each(|tree| tree.names_made(unmade, id));
    }

    fn walk(&mut self, world: &mut World, walker: usize) {
        let from = if self.rng.random_bool(0.7) { self.top } else { self.some_directory(true) };
        let mut names = match self.some_directory(false) {
            to if to.is_some() && from == self.top && self.rng.random_bool(0.8) => self.now().way(to),
            _ => vec![],
        };
        while names.is_empty() || names.len() < DEPTH && self.rng.random_bool(0.4) {
            names.push(self.some_name());
        }
        let look = self.rng.random_bool(0.5);
        let unique = world.system_call(walker, 0, FsOp::Resolve { from, names: names.clone(), look, kept: true });
        let since = self.forgotten + self.times.len() - 1;
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
        let seen: Vec<&[Tree]> = self.times.iter().skip(since - self.forgotten).map(Vec::as_slice).collect();
        let known = |id: InodeId| seen.iter().copied().flatten().any(|tree| tree.has(id));
        let is_it = |is: Option<InodeId>, id: InodeId| match is {
            Some(unmade) if is_unmade(unmade, CHANGERS) => id.is_some() && !known(id),
            is => is == Some(id),
        };
        let leads = |tree: &Tree, names: &[Name], to: InodeId| is_it(tree.follow(from, names), to);
        // All but the last name are followed at one moment, and the last one is looked up later.
        let (ways, last) = names.split_at(names.len() - 1);
        let looked = |right: &dyn Fn(&Tree, InodeId) -> bool| {
            let later = |at: usize, dir| seen[at..].iter().copied().flatten().any(|tree| right(tree, dir));
            let led = |at: usize| seen[at].iter().filter_map(|tree| tree.follow(from, ways));
            (0..seen.len()).any(|at| led(at).any(|dir| later(at, dir)))
        };
        let (fits, led) = match &result {
            Ok(FsReply::Resolved { dir, names: followed, .. }) if !by_ways => {
                let follows = |tree: &Tree| leads(tree, &names[..*followed], *dir);
                let fits = *followed == 0 && *dir == from || seen.iter().copied().flatten().any(follows);
                (*followed <= names.len() && fits, Some((*dir, *followed)))
            }
            Ok(FsReply::Entry(attr)) if look => {
                let has = |tree: &Tree, dir| tree.is_open(dir) && is_it(tree.child(dir, &last[0]), attr.id);
                (looked(&has), Some((attr.id, names.len())))
            }
            Ok(FsReply::Missing) | Err(Errno::ENOENT) if look => {
                (looked(&|tree, dir| tree.is_open(dir) && tree.child(dir, &last[0]).is_none() || !tree.has(dir)), None)
            }
            Err(Errno::EACCES) if look => (looked(&|tree, dir| tree.has(dir) && !tree.is_open(dir)), None),
            _ => (false, None),
        };
        if !fits {
            let why =
                format!("{names:?} from {from:?}, look: {look}, are answered {result:?}, right in none of {seen:?}");
            world.checker.violation(format!("{:?} #{unique}: {why}", self.home));
        }
        if let Some((dir, followed)) = led.filter(|(_, followed)| fits && *followed > 0) {
            let whole = followed == names.len();
            let always = seen.iter().copied().flatten().all(|tree| leads(tree, &names[..followed], dir));
            let is_new = dir.is_some() && !known(dir);
            let checks = &mut world.checker.checks;
            checks.ways += u64::from(whole);
            checks.ways_changed += u64::from(whole && !always);
            self.made.extend(is_new.then_some(dir));
        }
        self.forget();
        true
    }
}

impl User for Walkers {
    fn has(&self, session: usize) -> bool {
        self.changers.contains(&session) || self.walkers.contains(&session)
    }

    fn answered(&mut self, world: &mut World, Finished { session, unique, result }: Finished) {
        if let Some(changer) = self.changers.iter().position(|changer| *changer == session) {
            self.changed(world, changer, unique, result);
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
        self.changes.iter().all(Option::is_none) && self.asked.is_empty()
    }
}
