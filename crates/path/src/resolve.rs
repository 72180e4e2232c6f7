//! Following names (P-2, P-3).

use crate::node::{answer, forward};
use crate::planted::{self, Planted};
use crate::state::{Asked, By, Job, State};
use crate::{ask, lease, load};
use onpath_index::{Access, Check, Class, DirId, End, Index, Part, Search};
use onpath_kernel::{Core, Cx};
use onpath_wire::caller::Caller;
use onpath_wire::ids::InodeId;
use onpath_wire::name::Name;
use onpath_wire::permission::{self, Unknown};
use onpath_wire::reply::Reply;
use onpath_wire::way::{Searchable, Way, WayDir, may_search};

/// Runs a job as its operation.
pub(crate) async fn run(cx: Cx<State>, job: Job) {
    let asked = match job {
        Job::Resolve(asked) => asked,
        Job::Lease(home) => return lease::keep(&cx, home).await,
        Job::Load(home) => return load::load(&cx, home).await,
    };
    let (ways, last) =
        if asked.look { asked.names.split_at(asked.names.len() - 1) } else { (&asked.names[..], &[][..]) };
    let (reply, by) = resolve(&cx, &asked, ways).await;
    cx.with(|core| {
        let (to, seq) = asked.key();
        core.state.running.remove(&(to, seq));
        core.state.counters.count(by);
        match (reply, last) {
            (Reply::Resolved { dir, names, way }, [last]) if names as usize == ways.len() => {
                forward(core, &asked, dir, last.clone(), way);
            }
            (reply, _) => answer(core, to, seq, &reply),
        }
    });
}

/// How a walk goes on.
enum Next {
    /// It has ended: this is the answer, and what of what is held has said so.
    Done(Reply, By),
    /// The directory from which it goes is not held.
    Start,
    /// The name of this number is not held in this directory.
    Name(InodeId, usize),
}

/// Walks in what is held, and asks for what is missing, until it ends in one look: then everything on the way is true at the same time.
async fn resolve(cx: &Cx<State>, asked: &Asked, names: &[Name]) -> (Reply, By) {
    let from = asked.from;
    let path = names.iter().map(Name::as_bytes).collect::<Vec<_>>().join(&b'/');
    // As many questions as there are names, and some more since others move and remove what is on the way.
    let mut questions = names.len() + 1 + names.len() / 2;
    let mut no_directory = None;
    let mut is_asked = false;
    loop {
        let next = cx.with(|core| look(core, asked, &path, names));
        match next {
            Next::Done(reply, by) => return (reply, if is_asked { By::Shards } else { by }),
            Next::Start if questions > 0 && no_directory != Some((from, 0)) => {
                ask::hold(cx, from, None).await;
                if !cx.with(|core| ask::is_held(core, from)) {
                    no_directory = Some((from, 0));
                }
            }
            Next::Start => return (Reply::Resolved { dir: from, names: 0, way: None }, By::Shards),
            Next::Name(dir, at) if questions > 0 && no_directory != Some((dir, at)) => {
                let name = &names[at];
                match ask::directory(cx, dir, name).await {
                    Some((_, true)) => {}
                    Some((id, false)) => ask::hold(cx, id, Some((dir, name))).await,
                    // What it is counts for this request alone (schedule K2).
                    None => no_directory = Some((dir, at)),
                }
            }
            Next::Name(dir, at) => return (Reply::Resolved { dir, names: at as u32, way: None }, By::Shards),
        }
        questions = questions.saturating_sub(1);
        is_asked = true;
    }
}

fn look(core: &mut Core<State>, asked: &Asked, path: &[u8], names: &[Name]) -> Next {
    let dirs = if asked.tell { Vec::with_capacity(names.len() + 1) } else { vec![] };
    let mut searcher = Searcher { caller: &asked.caller, unknown: None, tells: asked.tell, dirs };
    let from = DirId(asked.from.0);
    let walk = core.state.index.walk(from, path, &mut searcher);
    let by = if walk.speculated { By::Bits } else { By::Checks };
    let Some(last) = walk.last else { return Next::Start };
    let (dir, depth) = (InodeId(last.id.0), walk.depth);
    match (walk.end, searcher.unknown) {
        (End::Unknown, Some(Unknown { gids, caps })) => Next::Done(Reply::NeedCaller { gids, caps }, by),
        (End::Missing, _) if depth < names.len() => Next::Name(dir, depth),
        _ => {
            let way = asked.tell.then(|| way(core, from, &last, searcher.dirs, depth)).flatten();
            Next::Done(Reply::Resolved { dir, names: depth as u32, way }, by)
        }
    }
}

/// What is told of a way. `dirs`: those that were searched, which the last one need not be.
fn way(core: &Core<State>, from: DirId, last: &Part, mut dirs: Vec<WayDir>, depth: usize) -> Option<Way> {
    if dirs.len() == depth {
        dirs.push(way_dir(last.id, &last.access));
    }
    let begin = core.state.index.get(from)?;
    let name = core.state.index.name(from).filter(|_| begin.parent != DirId::NONE);
    let name = name.map(|name| Name::new(name.as_bytes())).transpose().ok()?;
    Some(Way { parent: InodeId(begin.parent.0), name, dirs })
}

fn way_dir(id: DirId, access: &Access) -> WayDir {
    let &Access { mode, uid, gid, acl } = access;
    WayDir { id: InodeId(id.0), access: Searchable { mode, uid, gid, acl } }
}

/// Who walks.
struct Searcher<'a> {
    caller: &'a Caller,
    /// What decides and is not known of the caller.
    unknown: Option<Unknown>,
    /// The way is to be told.
    tells: bool,
    /// The directories that were searched, if so.
    dirs: Vec<WayDir>,
}

impl Check for Searcher<'_> {
    fn search(&mut self, id: DirId, access: &Access) -> Search {
        let dir = way_dir(id, access);
        if self.tells {
            self.dirs.push(dir);
        }
        match may_search(self.caller, dir.access) {
            Ok(true) => Search::Allowed,
            Ok(false) => Search::Denied,
            Err(Some(_)) if planted::is(Planted::AnyGroup) => Search::Allowed,
            Err(unknown) => {
                self.unknown = unknown;
                Search::Unknown
            }
        }
    }

    fn class(&self, access: &Access) -> Option<Class> {
        // What is told of a way is found where each directory is looked at.
        if self.tells {
            return None;
        }
        if self.caller.uid == access.uid {
            return Some(Class::Owner);
        }
        permission::in_group(self.caller, access.gid).ok().map(|is| if is { Class::Group } else { Class::Other })
    }
}
