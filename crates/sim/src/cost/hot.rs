//! Requests for files by their paths, most of them for few (Fletch §VIII): sessions that keep ways ask the shards, and by the switch if that
//! has a cache.

use super::clients::Answered;
use super::config::Load;
use super::model::{Event, Model, Nothing, Until};
use super::names::{NamedDir, Names, NamesShape, OWNER, Picks, name};
use super::result::Measured;
use super::sessions::{Of, STEP_NS};
use super::tree::Who;
use super::walkers::make;
use super::work::Kind;
use crate::world::role::{Role, Stimulus};
use onpath_controller::ControllerIn;
use onpath_session::fs::{FsOp, FsReply, FsResult, Handle, OpenMode, WaysAt};
use onpath_wire::errno::Errno;
use onpath_wire::ids::{InodeId, NodeId};
use onpath_wire::inode::Kind as FileKind;
use onpath_wire::name::Name;
use onpath_wire::request::{SetAttr, set};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, VecDeque};

/// Bytes of a page of a listing.
const PAGE_BYTES: u32 = 4_096;
/// A switch that is told to answer does so for everybody after this time, ns.
const BEGINS_NS: u64 = 3_000_000_000;
/// Longer than sessions of an open load pause, ns.
const PAUSES_NS: u64 = 5_000_000;
/// Names that a controller is told at a time to give entries.
const ADMITTED_AT_ONCE: usize = 1_024;

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Requests {
    /// Kinds and their shares, of all of which they are a part.
    pub shares: Vec<(Kind, f64)>,
    /// Which files: by a power law with this exponent; 0: all alike.
    pub skew: f64,
    /// How often the files that were asked for least have become the hottest ones, so many at a time ([`HOT_IN`](crate::cost::HOT_IN)).
    pub hot_in: u32,
    /// An open is more than a look: the file is opened and closed.
    pub opens: bool,
    /// What is drawn at random comes from it.
    pub seed: u64,
}

/// How far a request has come.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Its path is followed, to the directory or to its end.
    Path,
    /// What was asked for is done.
    End,
    /// A directory is listed.
    Listing(Handle),
}

/// A request under way.
#[derive(Clone, Debug)]
struct Asked {
    session: u32,
    kind: Kind,
    /// Where it is, the root if in none.
    dir: Option<u32>,
    name: Name,
    /// Its new name.
    to: Option<Name>,
    stage: Stage,
    asked_ns: u64,
}

/// Who asks, and for what.
pub(super) struct HotFiles {
    names: Names,
    picks: Option<Picks>,
    plan: Vec<(Kind, f64)>,
    opens: bool,
    under_way: BTreeMap<u64, Asked>,
    /// Files and directories that were made, to be removed or to get other names.
    made: VecDeque<(Option<u32>, Name)>,
    made_dirs: VecDeque<(Option<u32>, Name)>,
    rng: ChaCha8Rng,
    /// Whoever has an answer asks on, or time goes on until somebody asks.
    pub(super) goes_on: bool,
    number: u64,
}

impl HotFiles {
    /// Nobody asks for anything.
    pub(super) fn none() -> HotFiles {
        HotFiles {
            names: Names::default(),
            picks: None,
            plan: vec![],
            opens: false,
            under_way: BTreeMap::new(),
            made: VecDeque::new(),
            made_dirs: VecDeque::new(),
            rng: ChaCha8Rng::seed_from_u64(0),
            goes_on: false,
            number: 0,
        }
    }

    fn new_name(&mut self) -> Name {
        self.number += 1;
        name(&format!("new-{}", self.number))
    }

    /// What a session asks for next.
    fn draw(&mut self, session: u32, now_ns: u64) -> Asked {
        let picks = self.picks.as_ref().expect("files are picked");
        let file = picks.pick(&mut self.rng);
        let mut drawn = self.rng.random_range(0.0..self.plan.iter().map(|(_, share)| share).sum());
        let mut kind = self.plan[0].0;
        for (one, share) in &self.plan {
            kind = *one;
            if drawn < *share {
                break;
            }
            drawn -= share;
        }
        let picked = &self.names.files[file as usize];
        let (mut dir, mut name, mut to) = (picked.dir, picked.name.clone(), None);
        // What was removed is asked for by nobody: what is removed or named anew is what this run has made.
        let made = match kind {
            Kind::Unlink | Kind::Rename => self.made.pop_front(),
            Kind::Rmdir => self.made_dirs.pop_front(),
            _ => None,
        };
        match (kind, made) {
            (Kind::Unlink | Kind::Rename | Kind::Rmdir, Some(made)) => {
                (dir, name) = made;
                to = (kind == Kind::Rename).then(|| self.new_name());
            }
            (Kind::Unlink | Kind::Rename | Kind::Create, None) => {
                (kind, name) = (Kind::Create, self.new_name());
            }
            (Kind::Rmdir | Kind::Mkdir, None) => (kind, name) = (Kind::Mkdir, self.new_name()),
            _ => {}
        }
        Asked { session, kind, dir, name, to, stage: Stage::Path, asked_ns: now_ns }
    }
}

/// Whether a path is followed to its last name, of which all is told, and not to the directory of that.
fn ends_there(kind: Kind) -> bool {
    matches!(kind, Kind::Open | Kind::Stat | Kind::Chmod)
}

/// What follows names from the root, by kept ways.
fn resolve(names: Vec<Name>, look: bool) -> FsOp {
    FsOp::Resolve { from: InodeId::ROOT, names, look, kept: true }
}

impl Model {
    /// Sessions join, as many as the load of the configuration has clients, one of them makes the tree, and all know the ways in it.
    pub fn make_names(&mut self, shape: &NamesShape) {
        self.join_sessions();
        let open = SetAttr { valid: set::MODE, mode: 0o777, ..SetAttr::default() };
        let root = Who::Root.asks(false);
        self.call_all(vec![(0, root, FsOp::SetAttr { id: InodeId::ROOT, set: open, handle: None })]);
        self.hot.names = Names::new(shape, self.config.seed);
        for level in 1..shape.depth {
            let dirs = self.hot.names.level(level);
            let ops = dirs.iter().map(|&dir| {
                let NamedDir { parent, name, .. } = &self.hot.names.dirs[dir as usize];
                make(FileKind::Directory, self.hot.names.id(*parent), name.clone(), 0o755)
            });
            let made = self.all_by_first(ops.collect());
            for (dir, id) in dirs.into_iter().zip(made) {
                self.hot.names.dirs[dir as usize].id = id;
            }
        }
        let names = &self.hot.names;
        let ops = names.files.iter().map(|file| make(FileKind::File, names.id(file.dir), file.name.clone(), 0o644));
        let made = self.all_by_first(ops.collect());
        self.hot.names.files.iter_mut().zip(made).for_each(|(file, id)| file.id = id);
        self.know_ways();
    }

    /// The first session makes these; their ids, in order.
    fn all_by_first(&mut self, ops: Vec<FsOp>) -> Vec<InodeId> {
        let made = self.call_all(ops.into_iter().map(|op| (0, OWNER.asks(false), op)).collect());
        let id = |made: FsResult| match made {
            Ok(FsReply::Entry(attr)) => attr.id,
            other => panic!("a name was answered {other:?}"),
        };
        made.into_iter().map(id).collect()
    }

    /// Each session follows the way to each directory until it keeps it.
    fn know_ways(&mut self) {
        let names = &self.hot.names;
        let ways: Vec<Vec<Name>> = (0..names.dirs.len() as u32).map(|dir| names.way(Some(dir))).collect();
        for _ in 0..2 {
            for session in 0..self.sessions.number() {
                let calls = ways.iter().map(|way| (session, OWNER.asks(false), resolve(way.clone(), false)));
                self.call_all(calls.collect());
            }
        }
    }

    /// From now on the switch answers from its cache. It is given the hottest files and all directories, and every session hears of them.
    ///
    /// # Panics
    /// A name is not lent.
    pub fn answer_by_switch(&mut self) {
        self.tell_controller(ControllerIn::Switch(Some(NodeId::SWITCH)));
        self.rest(BEGINS_NS);
        let names = &self.hot.names;
        let dirs = names.dirs.iter().map(|dir| (names.id(dir.parent), dir.name.clone()));
        let files = names.files[..names.hot].iter().map(|file| (names.id(file.dir), file.name.clone()));
        let all: Vec<(InodeId, Name)> = dirs.chain(files).collect();
        self.tell_controller(ControllerIn::Admit { parent: InodeId(0), name: None });
        let mut wanted = 1;
        for some in all.chunks(ADMITTED_AT_ONCE) {
            wanted += some.len() as u64;
            for (parent, name) in some.iter().cloned() {
                self.tell_controller(ControllerIn::Admit { parent, name: Some(name) });
            }
            while self.controller_counts("names_admitted") < wanted {
                self.rest(STEP_NS);
                let refused = self.controller_counts("names_not_admitted");
                assert_eq!(refused, 0, "all names can be lent");
            }
        }
        for session in 0..self.sessions.number() {
            let looks = all.iter().map(|(parent, name)| FsOp::Lookup { parent: *parent, name: name.clone() });
            let found = self.call_all(looks.map(|look| (session, OWNER.asks(false), look)).collect());
            assert!(found.iter().all(Result::is_ok), "a name is not found");
        }
    }

    /// Servers follow the path of each name that they are asked for, or clients do, by ways that they keep.
    pub fn servers_follow(&mut self, they_do: bool) {
        self.config.followed = if they_do { self.hot.names.directories() } else { 0 };
    }

    fn tell_controller(&mut self, what: ControllerIn) {
        let place = self.controller_at.expect("the switch has a cache");
        self.give(place, Stimulus::Told(what), false);
        self.begin_tasks(&mut Nothing);
    }

    /// A figure of the controller.
    fn controller_counts(&self, figure: &str) -> u64 {
        let place = self.controller_at.expect("the switch has a cache");
        let Role::Controller(controller) = &self.places[usize::from(place)].role else {
            unreachable!("it is the controller's place")
        };
        controller.status().into_iter().find(|(name, _)| *name == figure).map_or(0, |(_, count)| count)
    }

    /// Sessions ask, as the load of the configuration has it, until `until`; what is under way then is answered before it returns.
    pub fn run_requests(&mut self, requests: &Requests, until: Until) -> Measured {
        let load = self.config.load;
        self.run_requests_under(load, requests, until)
    }

    /// The same under another load of as many clients.
    pub fn run_requests_under(&mut self, load: Load, requests: &Requests, until: Until) -> Measured {
        self.clients.load = load;
        self.hot.picks = Some(Picks::new(&self.hot.names, requests.skew, requests.hot_in));
        (self.hot.plan, self.hot.opens) = (requests.shares.clone(), requests.opens);
        self.hot.rng = ChaCha8Rng::seed_from_u64(requests.seed);
        self.hot.goes_on = true;
        self.answered.clear();
        for session in 0..self.sessions.number() {
            match (load, self.pause_ns()) {
                (Load::Closed { window, .. }, _) => (0..window).for_each(|_| self.request(session)),
                (_, pause_ns) => self.at(pause_ns.unwrap_or(0), Event::Ask(session)),
            }
        }
        self.begin_tasks(&mut Nothing);
        if until.warm_ns > 0 {
            self.go_on(&mut Nothing, self.now_ns + until.warm_ns, u64::MAX);
        }
        let measured = self.measure(&mut Nothing, until);
        self.hot.goes_on = false;
        while !self.hot.under_way.is_empty() {
            self.go_on(&mut Nothing, self.now_ns + STEP_NS, u64::MAX);
        }
        self.rest(PAUSES_NS); // nobody's pause lasts into what comes next
        measured
    }

    /// A session of an open load asks, and will again.
    pub(super) fn request_and_pause(&mut self, session: u32) {
        self.request(session);
        if let Some(pause_ns) = self.pause_ns() {
            self.at(pause_ns, Event::Ask(session));
        }
    }

    /// A session asks for what the plan says.
    fn request(&mut self, session: u32) {
        let asked = self.hot.draw(session, self.now_ns);
        self.hot.number += 1;
        let id = self.hot.number;
        let (dir, ends) = (asked.dir, ends_there(asked.kind));
        let mut way = self.hot.names.way(dir);
        way.extend(ends.then(|| asked.name.clone()));
        self.hot.under_way.insert(id, asked);
        if way.is_empty() {
            return self.at_end(id, InodeId::ROOT, None);
        }
        self.ask_hot(id, resolve(way, ends), None);
    }

    fn ask_hot(&mut self, id: u64, op: FsOp, by_ways: Option<WaysAt>) {
        let session = self.hot.under_way[&id].session;
        self.call(session, OWNER.asks(false), op, by_ways, Of::Hot(id));
    }

    /// Does what is asked for at the end of a path.
    fn at_end(&mut self, id: u64, parent: InodeId, by_ways: Option<WaysAt>) {
        let asked = self.hot.under_way.get_mut(&id).expect("it is under way");
        asked.stage = Stage::End;
        let name = asked.name.clone();
        let op = match (asked.kind, asked.to.clone()) {
            (Kind::Create, _) => make(FileKind::File, parent, name, 0o644),
            (Kind::Mkdir, _) => make(FileKind::Directory, parent, name, 0o755),
            (Kind::Unlink, _) => FsOp::Unlink { parent, name },
            (Kind::Rmdir, _) => FsOp::Rmdir { parent, name },
            (Kind::Rename, Some(to)) => FsOp::Rename { from_parent: parent, from: name, parent, name: to, flags: 0 },
            (Kind::Statdir, _) => FsOp::GetAttr { id: parent, handle: None },
            (Kind::Readdir, _) => FsOp::OpenDir { id: parent, noatime: true },
            (kind, _) => unreachable!("{} of what?", kind.name()),
        };
        self.ask_hot(id, op, by_ways);
    }

    /// An answer to a step of a request.
    pub(super) fn hot_answered(&mut self, id: u64, result: FsResult) {
        let asked = &self.hot.under_way[&id];
        match (asked.stage, asked.kind, result) {
            (Stage::Path, kind, Ok(FsReply::Resolved { dir, by_ways, .. })) if !ends_there(kind) => {
                self.at_end(id, dir, by_ways);
            }
            (Stage::Path, Kind::Chmod, Ok(FsReply::Entry(attr) | FsReply::Attr { attr, .. })) => {
                let set = SetAttr { valid: set::MODE, mode: attr.mode ^ 0o020, ..SetAttr::default() };
                self.hot.under_way.get_mut(&id).expect("it is under way").stage = Stage::End;
                self.ask_hot(id, FsOp::SetAttr { id: attr.id, set, handle: None }, None);
            }
            (Stage::Path, Kind::Open, Ok(FsReply::Entry(attr) | FsReply::Attr { attr, .. })) if self.hot.opens => {
                self.hot.under_way.get_mut(&id).expect("it is under way").stage = Stage::End;
                let mode = OpenMode { read: true, noatime: true, ..OpenMode::default() };
                self.ask_hot(id, FsOp::Open { id: attr.id, mode }, None);
            }
            (Stage::End, Kind::Open, Ok(FsReply::Opened(opened))) => {
                let (session, close) = (asked.session, FsOp::Release { handle: opened.handle, flock_owner: None });
                self.call(session, OWNER.asks(false), close, None, Of::Nobody);
                self.finish_hot(id, true);
            }
            (Stage::End, Kind::Readdir, Ok(FsReply::Opened(opened))) => {
                let handle = opened.handle;
                self.hot.under_way.get_mut(&id).expect("it is under way").stage = Stage::Listing(handle);
                let list = FsOp::ReadDir { handle, after: Default::default(), bytes: PAGE_BYTES };
                self.ask_hot(id, list, None);
            }
            (Stage::Listing(handle), _, result) => {
                let session = asked.session;
                self.call(session, OWNER.asks(false), FsOp::ReleaseDir { handle }, None, Of::Nobody);
                self.finish_hot(id, result.is_ok());
            }
            (Stage::Path | Stage::End, _, Err(Errno::ERESTART)) => {
                let asked = self.hot.under_way.get_mut(&id).expect("it is under way");
                asked.stage = Stage::Path;
                let way = self.hot.names.way(asked.dir);
                self.ask_hot(id, resolve(way, false), None);
            }
            (_, _, result) => self.finish_hot(id, result.is_ok()),
        }
    }

    fn finish_hot(&mut self, id: u64, is_done: bool) {
        let asked = self.hot.under_way.remove(&id).expect("it is under way");
        let Asked { session, kind, dir, name, to, asked_ns, .. } = asked;
        match kind {
            Kind::Create if is_done => self.hot.made.push_back((dir, name)),
            Kind::Mkdir if is_done => self.hot.made_dirs.push_back((dir, name)),
            Kind::Rename if is_done => self.hot.made.push_back((dir, to.unwrap_or(name))),
            _ => {}
        }
        if self.measuring {
            self.walkers.missed += u64::from(!is_done);
            self.answered.push(Answered { kind, latency_ns: self.now_ns - asked_ns });
        }
        if self.hot.goes_on && !self.clients.is_open() {
            self.request(session);
        }
    }
}
