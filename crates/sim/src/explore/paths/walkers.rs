//! The sessions of a situation of paths, and what they see.

use super::history::{Called, Moment, judge};
use super::scene::{Act, Of, Placed, Program, Scene};
use super::walk::{Told, Walk};
use crate::explore::callers::next_finished;
use crate::model::Caller;
use crate::scenario::Scenario;
use crate::users::tree::{Change, GROUP, Is, Tree, WALKER};
use crate::world::{Finished, Thread, World};
use onpath_session::fs::{FsOp, FsReply, FsResult, WaysAt};
use onpath_wire::ids::InodeId;
use onpath_wire::name::Name;
use onpath_wire::request::rename;
use smallvec::smallvec;
use std::collections::VecDeque;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Callers of a session: who changes the tree, and who walks in it.
const CHANGES: usize = 0;
const WALKS: usize = 1;
/// Bytes for ways.
const KEPT_BYTES: usize = 1 << 20;
/// How often a path is followed before it counts as known.
const TIMES: usize = 4;
/// The mode of what is made.
const MODE: u16 = 0o755;

/// What a session does.
enum Doing {
    Nothing,
    /// A change; the path that what it makes has then, if that is a directory.
    Change(Change, Option<&'static str>),
    Walk(Walk),
}

/// A thread of a session.
struct Actor {
    session: usize,
    acts: VecDeque<Act>,
    doing: Doing,
    /// The call under way: its number, and when the first call was made that is judged with it.
    awaited: Option<(u64, u64)>,
    /// When the call before was made, if it is judged with the next one.
    since: Option<u64>,
}

/// The threads of all sessions.
pub(crate) struct Walkers {
    placed: Placed,
    begin: Tree,
    actors: Vec<Actor>,
    /// Paths that are followed in the end.
    paths: Vec<&'static str>,
    calls: Vec<Called>,
    clock: u64,
    digest: u64,
}

impl Walkers {
    /// Puts everything where it is to be, and begins the sessions.
    pub(crate) fn begin(sc: &mut Scenario, scene: &Scene) -> Walkers {
        let callers = [Caller::default(), Caller { groups: smallvec![GROUP], ..Caller::new(WALKER, WALKER) }];
        let mut actors: Vec<Actor> = vec![];
        for Program { of, acts } in scene.programs {
            let session = match of {
                Of::Asking => sc.world.add_keeping_session(&callers, 0),
                Of::Keeping => sc.world.add_keeping_session(&callers, KEPT_BYTES),
                Of::Same => actors.last().expect("a session is before it").session,
            };
            let (acts, doing) = (acts.iter().copied().collect(), Doing::Nothing);
            actors.push(Actor { session, acts, doing, awaited: None, since: None });
        }
        sc.go_on();
        let mut placed = Placed::new(sc, scene.tree);
        let mut sessions: Vec<usize> = actors.iter().map(|actor| actor.session).collect();
        sessions.dedup();
        for path in scene.known {
            sessions
                .iter()
                .flat_map(|session| [session; TIMES])
                .for_each(|session| follow(sc, *session, placed.way(path)));
        }
        (scene.begin)(sc, &mut placed);
        let acts = scene.programs.iter().flat_map(|program| program.acts);
        let paths = acts.filter_map(|act| match act {
            Act::Walk(path) | Act::MakeAt(path) | Act::Lead(path) | Act::Look(path) => Some(*path),
            _ => None,
        });
        let mut paths: Vec<_> = paths.collect();
        paths.sort_unstable();
        paths.dedup();
        let begin = placed.tree.clone();
        Walkers { placed, begin, actors, paths, calls: vec![], clock: 0, digest: 0 }
    }

    /// The threads, all of which have something to do.
    pub(crate) fn threads(&self) -> impl Iterator<Item = Thread> + '_ {
        (0..self.actors.len()).map(|index| self.thread(index))
    }

    fn thread(&self, index: usize) -> Thread {
        Thread { session: self.actors[index].session, number: index as u32 }
    }

    /// Whether everything is done.
    pub(crate) fn is_answered(&self) -> bool {
        self.actors.iter().all(Actor::is_done)
    }

    /// A hash of which calls were made and answered, in which order.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    fn ticks(&mut self, index: usize) {
        self.clock += 1;
        self.digest = xxh3_64_with_seed(&index.to_le_bytes(), self.digest);
    }

    /// A thread makes its next call.
    pub(crate) fn call_next(&mut self, world: &mut World, thread: Thread) {
        let index = thread.number as usize;
        self.ticks(index);
        if matches!(self.actors[index].doing, Doing::Nothing) {
            let Some(act) = self.actors[index].acts.pop_front() else { return };
            self.actors[index].doing = self.does(act);
        }
        let (caller, (op, by_ways)) = match &self.actors[index].doing {
            Doing::Change(change, _) => (CHANGES, (change.op(), None)),
            Doing::Walk(walk) => (WALKS, walk.next()),
            Doing::Nothing => unreachable!("just begun"),
        };
        let unique = call(world, thread.session, caller, op, by_ways);
        let actor = &mut self.actors[index];
        actor.awaited = Some((unique, actor.since.take().unwrap_or(self.clock)));
    }

    fn does(&self, act: Act) -> Doing {
        let (place, id) = (|path| self.placed.place(path), |path| self.placed.id(path));
        let make = |path, is| Change::Make { at: place(path), is, mode: MODE, by_walker: false };
        let makes = if let Act::Mkdir(path) = act { Some(path) } else { None };
        let change = match act {
            Act::Walk(path) => return Doing::Walk(Walk::look(self.placed.way(path))),
            Act::MakeAt(path) => return Doing::Walk(Walk::make(self.placed.way(path))),
            Act::Lead(path) => return Doing::Walk(Walk::lead(self.placed.way(path))),
            Act::Look(path) => return Doing::Walk(Walk::look_in(place(path))),
            Act::Stat(path) => return Doing::Walk(Walk::stat(id(path))),
            Act::Rename(from, to) => Change::Rename { from: place(from), to: place(to), flags: 0 },
            Act::Exchange(from, to) => Change::Rename { from: place(from), to: place(to), flags: rename::EXCHANGE },
            Act::Chmod(path, mode) => Change::Chmod { id: id(path), mode },
            Act::Chgrp(path, of_group) => Change::Chgrp { id: id(path), of_group },
            Act::Acl(path, walks) => Change::Acl { id: id(path), acl: Some((walks, MODE)) },
            Act::Mkdir(path) => make(path, Is::Directory),
            Act::Create(path) => make(path, Is::File),
            Act::Symlink(path, target) => {
                Change::Make { at: place(path), is: Is::Link(target.into()), mode: 0o777, by_walker: false }
            }
            Act::Link(path, to) => Change::Link { id: id(path), at: place(to) },
            Act::Unlink(path) => Change::Unlink(place(path)),
            Act::Rmdir(path) => Change::Rmdir(place(path)),
        };
        Doing::Change(change, makes)
    }

    /// A call is answered; the thread that made it, if it has another one to make.
    pub(crate) fn answered(&mut self, world: &mut World, finished: Finished) -> Option<Thread> {
        let Finished { session, unique, result } = finished;
        let asked = |actor: &Actor| actor.session == session && actor.awaited.is_some_and(|(call, _)| call == unique);
        let Some(index) = self.actors.iter().position(asked) else {
            world.checker.violation(format!("session {session} answers what nobody asked"));
            return None;
        };
        self.ticks(index);
        let (_, since) = self.actors[index].awaited.take().expect("as was looked for");
        match self.take(index, since, result) {
            Ok(moments) if moments.is_empty() => {}
            Ok(moments) => self.calls.push(Called { session, asked: since, answered: self.clock, moments }),
            Err(why) => {
                world.checker.violation(why);
                self.actors[index].doing = Doing::Nothing;
            }
        }
        (!self.actors[index].is_done()).then(|| self.thread(index))
    }

    /// What an answer says.
    fn take(&mut self, index: usize, since: u64, result: FsResult) -> Result<Vec<Moment>, String> {
        let actor = &mut self.actors[index];
        match &mut actor.doing {
            Doing::Change(change, makes) => {
                let (change, makes) = (change.clone(), *makes);
                actor.doing = Doing::Nothing;
                let result = match result {
                    Ok(FsReply::Entry(attr) | FsReply::Attr { attr, .. } | FsReply::Linked(attr)) => Ok(attr.id),
                    Ok(FsReply::Done) => Ok(InodeId::NONE),
                    Err(errno) => Err(errno),
                    other => return Err(format!("{change:?} is answered {other:?}")),
                };
                if let (Some(path), Ok(id)) = (makes, result) {
                    self.placed.ids.insert(path, id);
                }
                Ok(vec![Moment::Changes { change, result }])
            }
            Doing::Walk(walk) => {
                let told = walk.take(&self.placed.names, result)?;
                if walk.is_over() {
                    actor.doing = Doing::Nothing;
                }
                Ok(match told {
                    Told::Moments(moments) => moments,
                    Told::Nothing => vec![],
                    Told::Later => {
                        actor.since = Some(since);
                        vec![]
                    }
                })
            }
            Doing::Nothing => Err("nothing was asked".into()),
        }
    }

    /// Everything is done in peace, and all paths are followed once more by everybody; what is wrong with the answers.
    pub(crate) fn end(mut self, world: &mut World) -> Vec<String> {
        for index in 0..self.actors.len() {
            self.actors[index].acts.extend(self.paths.iter().map(|path| Act::Walk(path)));
            if self.actors[index].awaited.is_none() {
                self.call_next(world, self.thread(index));
            }
        }
        while !self.is_answered() {
            let Some(finished) = next_finished(world) else {
                return vec!["a call is not answered in peace".into()];
            };
            if let Some(thread) = self.answered(world, finished) {
                self.call_next(world, thread);
            }
        }
        judge(&self.begin, &self.calls).err().into_iter().collect()
    }
}

impl Actor {
    fn is_done(&self) -> bool {
        self.acts.is_empty() && self.awaited.is_none() && matches!(self.doing, Doing::Nothing)
    }
}

/// A path is followed in peace by who walks, and is there.
pub(super) fn follow(sc: &mut Scenario, session: usize, names: Vec<Name>) {
    asks(sc, session, FsOp::Resolve { from: InodeId::ROOT, names, look: false, kept: true });
    sc.go_on();
}

/// Who walks asks for what is there, in peace.
pub(super) fn asks(sc: &mut Scenario, session: usize, op: FsOp) {
    let unique = sc.world.system_call(session, WALKS, op);
    let answer = next_finished(&mut sc.world).filter(|finished| finished.unique == unique);
    answer.expect("an answer comes").result.expect("it is there");
}

fn call(world: &mut World, session: usize, caller: usize, op: FsOp, by_ways: Option<WaysAt>) -> u64 {
    match by_ways {
        Some(at) => world.system_call_by_ways(session, caller, op, at),
        None => world.system_call(session, caller, op),
    }
}
