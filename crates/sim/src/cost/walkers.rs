//! Looks at paths, of which sessions ask for each step.

use super::clients::Answered;
use super::config::{Load, PathNodes};
use super::looks::{FallBack, Follow, Looks};
use super::model::{Model, Nothing, Until};
use super::result::Measured;
use super::sessions::{Of, STEP_NS};
use super::tree::{Branch, Tree, TreeShape, Who};
use super::work::Kind;
use onpath_session::fs::{FsOp, FsReply, FsResult, WaysAt};
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind as FileKind;
use onpath_wire::name::Name;
use onpath_wire::request::{SetAttr, set};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, VecDeque};

/// After so many times a look is led by ways no more that turn out not to be right, as of a client.
const RESTARTS_MAX: u32 = 3;
/// Paths after which sessions surely keep ways.
const UNKEPT: usize = 8;
#[derive(Clone, Copy, Debug)]
enum Stage {
    Start,
    /// The name of this number is looked up.
    Name(usize),
    /// So many answers are missing.
    All(usize),
    /// A path node is asked, or kept ways.
    Led,
    /// What was asked for.
    Last,
}

/// Something that is asked for at the end of a path.
#[derive(Clone, Debug)]
struct Look {
    walker: u32,
    kind: Kind,
    /// Directories to be followed.
    way: Vec<u32>,
    /// A name in the last of them.
    last: Option<Name>,
    /// The directory that changes, if one does.
    changes: Option<u32>,
    who: Who,
    tells_group: bool,
    follow: Follow,
    stage: Stage,
    /// How far it has come.
    at: InodeId,
    by_ways: Option<WaysAt>,
    /// How often kept ways were not right any more.
    restarts: u32,
    asked_ns: u64,
}

/// Sessions that look, and at what.
pub(super) struct Walkers {
    tree: Tree,
    looks: BTreeMap<u64, Look>,
    plan: Looks,
    rng: ChaCha8Rng,
    /// Whoever has an answer asks on.
    goes_on: bool,
    /// Files that were made, to be removed.
    made: VecDeque<(u32, Name)>,
    number: u64,
    pub(super) missed: u64,
}

impl Walkers {
    /// Nobody looks at anything.
    pub(super) fn none() -> Walkers {
        Walkers {
            tree: Tree::default(),
            looks: BTreeMap::new(),
            plan: Looks::at(2, Follow::Serial, 0),
            rng: ChaCha8Rng::seed_from_u64(0),
            goes_on: false,
            made: VecDeque::new(),
            number: 0,
            missed: 0,
        }
    }
}

impl Model {
    /// Sessions join, as many as the load of the configuration has clients, and one of them makes a tree.
    pub fn make_tree(&mut self, shape: &TreeShape) {
        self.join_sessions();
        let open = SetAttr { valid: set::MODE, mode: 0o777, ..SetAttr::default() };
        let opened = self.call_first(vec![(Who::Root, FsOp::SetAttr { id: InodeId::ROOT, set: open, handle: None })]);
        assert!(opened.iter().all(Result::is_ok), "{opened:?}");
        self.walkers.tree = Tree::new(shape);
        for level in 1..shape.depths.iter().copied().max().unwrap_or(1) {
            let dirs = self.walkers.tree.all_at(level);
            let made = self.call_first(dirs.iter().map(|&dir| self.make_dir(dir)).collect());
            for (dir, made) in dirs.into_iter().zip(made) {
                let Ok(FsReply::Entry(attr)) = made else { panic!("mkdir was answered {made:?}") };
                self.walkers.tree.dirs[dir as usize].id = attr.id;
            }
        }
        for &depth in &shape.depths {
            let dirs = self.walkers.tree.all_at(depth - 1);
            let files = dirs.iter().flat_map(|&dir| (0..Tree::files()).map(move |number| (dir, number)));
            let calls = files.map(|(dir, number)| self.make_file(dir, Tree::file(number))).collect();
            let made = self.call_first(calls);
            assert!(made.iter().all(Result::is_ok), "a file could not be made");
        }
    }

    fn make_dir(&self, dir: u32) -> (Who, FsOp) {
        let tree = &self.walkers.tree;
        let (parent, new) = (tree.parent(dir), &tree.dirs[dir as usize]);
        (new.branch.owner(), make(FileKind::Directory, parent, new.name.clone(), new.mode))
    }

    fn make_file(&self, dir: u32, name: Name) -> (Who, FsOp) {
        let parent = &self.walkers.tree.dirs[dir as usize];
        (parent.branch.owner(), make(FileKind::File, parent.id, name, 0o644))
    }

    /// The first session makes these calls; their answers, in order.
    fn call_first(&mut self, calls: Vec<(Who, FsOp)>) -> Vec<FsResult> {
        self.call_all(calls.into_iter().map(|(who, op)| (0, who.asks(false), op)).collect())
    }

    /// Looks once at each way to paths of these depths, as `follow` does, so that all that is kept of them is there. Each session that keeps
    /// something of its own does, and one for each path node.
    pub fn warm(&mut self, depths: &[u32], follow: Follow) {
        let path_nodes = u32::from(self.config.path_nodes.count(self.config.servers));
        let all = self.sessions.number();
        let walkers = match follow {
            Follow::Serial | Follow::Parallel => 1,
            Follow::Led => path_nodes.min(all),
            Follow::Kept => all,
        };
        let mut dirs: Vec<u32> = depths.iter().flat_map(|&depth| self.walkers.tree.all_at(depth - 1)).collect();
        // A session keeps nothing of the first paths that it follows.
        dirs.extend_from_within(..dirs.len().min(UNKEPT));
        for dir in dirs {
            for walker in 0..walkers {
                self.begin_look(self.look(walker, dir, Who::User, follow));
            }
            while !self.walkers.looks.is_empty() {
                self.go_on(&mut Nothing, self.now_ns + STEP_NS, u64::MAX);
            }
        }
    }

    /// Sessions ask, each for so many things at a time as the load says, until `until`; what is under way then is answered before it returns.
    pub fn run_looks(&mut self, looks: &Looks, until: Until) -> Measured {
        let Load::Closed { window, .. } = self.config.load else { panic!("who looks waits for the answer") };
        self.walkers.plan = looks.clone();
        self.walkers.rng = ChaCha8Rng::seed_from_u64(looks.seed);
        self.walkers.goes_on = true;
        self.answered.clear();
        for _ in 0..window {
            (0..self.sessions.number()).for_each(|walker| self.ask_next(walker));
        }
        self.begin_tasks(&mut Nothing);
        if until.warm_ns > 0 {
            self.go_on(&mut Nothing, self.now_ns + until.warm_ns, u64::MAX);
        }
        let measured = self.measure(&mut Nothing, until);
        self.walkers.goes_on = false;
        while !self.walkers.looks.is_empty() {
            self.go_on(&mut Nothing, self.now_ns + STEP_NS, u64::MAX);
        }
        measured
    }

    /// A session asks for what the plan says.
    fn ask_next(&mut self, walker: u32) {
        let Walkers { plan, rng, tree, made, .. } = &mut self.walkers;
        let depth = plan.depths[rng.random_range(0..plan.depths.len())];
        let mut follow = plan.follow;
        let (mut branch, mut tells_group) = (Branch::Plain, false);
        let kind = plan.shares.kind(rng.random_range(0.0..1.0));
        let falls_back = rng.random_range(0.0..1.0);
        if let Some((why, share)) = plan.fall_back {
            tells_group = why == FallBack::GroupTold;
            if kind == Kind::Look && falls_back < share {
                match why {
                    FallBack::Checked => branch = Branch::Odd,
                    FallBack::Group | FallBack::GroupTold => branch = Branch::Group,
                    FallBack::Shards => follow = Follow::Serial,
                }
            }
        }
        let dirs = tree.level(branch, depth - 1);
        let dir = dirs[rng.random_range(0..dirs.len())];
        let file = Tree::file(rng.random_range(0..Tree::files()));
        let removes = if kind == Kind::Unlink { made.pop_front() } else { None };
        let mut look = self.look(walker, removes.as_ref().map_or(dir, |(dir, _)| *dir), Who::User, follow);
        look.tells_group = tells_group;
        look.kind = kind;
        match (kind, removes) {
            (Kind::Look, _) => look.last = Some(file),
            (Kind::Unlink, Some((_, name))) => look.last = Some(name),
            // There is nothing to remove yet.
            (Kind::Create | Kind::Unlink | Kind::Mkdir, _) => {
                look.kind = if kind == Kind::Unlink { Kind::Create } else { kind };
                look.last = Some(self.new_name());
            }
            (Kind::Rename, _) => {
                (look.changes, look.last) = (look.way.pop(), Some(self.new_name()));
            }
            _ => look.changes = Some(dir),
        }
        self.begin_look(look);
    }

    fn new_name(&mut self) -> Name {
        self.walkers.number += 1;
        Name::new(format!("new-{}", self.walkers.number).as_bytes()).expect("a short name")
    }

    /// A look at a file in this directory.
    fn look(&self, walker: u32, dir: u32, who: Who, follow: Follow) -> Look {
        Look {
            walker,
            kind: Kind::Look,
            way: self.walkers.tree.way(dir),
            last: Some(Tree::file(0)),
            changes: None,
            who,
            tells_group: false,
            follow,
            stage: Stage::Start,
            at: InodeId::ROOT,
            by_ways: None,
            restarts: 0,
            asked_ns: self.now_ns,
        }
    }

    fn begin_look(&mut self, look: Look) {
        self.walkers.number += 1;
        let id = self.walkers.number;
        self.walkers.looks.insert(id, look);
        self.start(id);
    }

    /// Asks for one step of a look.
    fn ask_for(&mut self, id: u64, stage: Stage, op: FsOp) {
        let look = self.walkers.looks.get_mut(&id).expect("it is under way");
        look.stage = stage;
        let by_ways = look.by_ways.take();
        let (walker, caller) = (look.walker, look.who.asks(look.tells_group));
        self.call(walker, caller, op, by_ways, Of::Look(id));
    }

    fn start(&mut self, id: u64) {
        let look = self.walkers.looks.get_mut(&id).expect("it is under way");
        look.at = InodeId::ROOT;
        let look = look.clone();
        let mut names = self.walkers.tree.names(&look.way);
        match look.follow {
            Follow::Serial => self.next_name(id, 0),
            Follow::Parallel => self.ask_at_once(id, &look, names),
            Follow::Led | Follow::Kept => {
                let forwards = self.config.path_nodes != PathNodes::Central && look.kind == Kind::Look;
                names.extend(look.last.filter(|_| forwards));
                let kept = look.follow == Follow::Kept && look.restarts < RESTARTS_MAX;
                self.ask_for(id, Stage::Led, FsOp::Resolve { from: InodeId::ROOT, names, look: forwards, kept });
            }
        }
    }

    fn ask_at_once(&mut self, id: u64, look: &Look, names: Vec<Name>) {
        let tree = &self.walkers.tree;
        let mut asks: Vec<(InodeId, Name)> = look.way.iter().map(|&dir| tree.parent(dir)).zip(names).collect();
        let end = look.way.last().map_or(InodeId::ROOT, |&dir| tree.dirs[dir as usize].id);
        asks.extend(look.last.iter().filter(|_| look.kind == Kind::Look).map(|last| (end, last.clone())));
        self.walkers.looks.get_mut(&id).expect("it is under way").at = end;
        let stage = Stage::All(asks.len());
        asks.into_iter().for_each(|(parent, name)| self.ask_for(id, stage, FsOp::Lookup { parent, name }));
    }

    /// Looks the name of this number up, or does what is done at the end.
    fn next_name(&mut self, id: u64, at: usize) {
        let look = &self.walkers.looks[&id];
        match look.way.get(at) {
            Some(&dir) => {
                let (parent, name) = (look.at, self.walkers.tree.dirs[dir as usize].name.clone());
                self.ask_for(id, Stage::Name(at), FsOp::Lookup { parent, name });
            }
            None => self.last(id),
        }
    }

    /// Asks for what is asked for at the end of the path.
    fn last(&mut self, id: u64) {
        let look = self.walkers.looks[&id].clone();
        let (parent, tree) = (look.at, &self.walkers.tree);
        let changes = look.changes.map(|dir| &tree.dirs[dir as usize]);
        let op = match (look.kind, look.last, changes) {
            (Kind::Create, Some(name), _) => make(FileKind::File, parent, name, 0o644),
            (Kind::Mkdir, Some(name), _) => make(FileKind::Directory, parent, name, 0o755),
            (Kind::Unlink, Some(name), _) => FsOp::Unlink { parent, name },
            (Kind::Rename, Some(name), Some(dir)) => {
                FsOp::Rename { from_parent: parent, from: dir.name.clone(), parent, name, flags: 0 }
            }
            (Kind::Chmod, _, Some(dir)) => {
                let set = SetAttr { valid: set::MODE, mode: dir.mode ^ 0o020, ..SetAttr::default() };
                FsOp::SetAttr { id: parent, set, handle: None }
            }
            (_, Some(name), _) => FsOp::Lookup { parent, name },
            (kind, ..) => unreachable!("{} of what?", kind.name()),
        };
        self.ask_for(id, Stage::Last, op);
    }

    /// An answer to a step of a look.
    pub(super) fn look_answered(&mut self, id: u64, result: FsResult) {
        let look = self.walkers.looks.get_mut(&id).expect("it is under way");
        match (look.stage, result) {
            (Stage::All(left), _) if left > 1 => look.stage = Stage::All(left - 1),
            (Stage::All(_), _) if look.kind != Kind::Look => self.last(id),
            (Stage::Name(at), Ok(FsReply::Entry(attr))) => {
                look.at = attr.id;
                self.next_name(id, at + 1);
            }
            (Stage::Led, Ok(FsReply::Resolved { dir, names, by_ways })) => {
                (look.at, look.by_ways) = (dir, by_ways);
                self.next_name(id, names);
            }
            (Stage::Last, Err(Errno::ERESTART)) => {
                look.restarts += 1;
                self.start(id);
            }
            (stage, result) => {
                let is_there = matches!(stage, Stage::Last | Stage::Led | Stage::All(_))
                    && matches!(result, Ok(FsReply::Entry(_) | FsReply::Attr { .. } | FsReply::Done));
                self.finish(id, is_there);
            }
        }
    }

    fn finish(&mut self, id: u64, is_there: bool) {
        let look = self.walkers.looks.remove(&id).expect("it is under way");
        let Walkers { tree, made, missed, .. } = &mut self.walkers;
        *missed += u64::from(!is_there && self.measuring);
        let changed = look.changes.map(|dir| &mut tree.dirs[dir as usize]);
        match (look.kind, look.last, changed) {
            (Kind::Create, Some(name), _) if is_there => made.extend(look.way.last().map(|&dir| (dir, name))),
            (Kind::Rename, Some(name), Some(dir)) if is_there => dir.name = name,
            (Kind::Chmod, _, Some(dir)) if is_there => dir.mode ^= 0o020,
            _ => {}
        }
        if self.measuring {
            self.answered.push(Answered { kind: look.kind, latency_ns: self.now_ns - look.asked_ns });
        }
        if self.walkers.goes_on {
            self.ask_next(look.walker);
        }
    }
}

pub(super) fn make(kind: FileKind, parent: InodeId, name: Name, mode: u16) -> FsOp {
    FsOp::Make { parent, name, kind, mode, umask: 0, rdev: 0, target: vec![] }
}
