//! Following names (P-2, P-3).

use crate::node::{answer, forward};
use crate::state::{Asked, Job, State};
use crate::{ask, lease};
use onpath_index::{Access, Check, DirId, End, Index, Search};
use onpath_kernel::Cx;
use onpath_wire::caller::{Caller, Over, cap};
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::permission::{self, Owned, Unknown};
use onpath_wire::reply::Reply;

/// Runs a job as its operation.
pub(crate) async fn run(cx: Cx<State>, job: Job) {
    let (asked, from, names, look) = match job {
        Job::Resolve { asked, from, names, look } => (asked, from, names, look),
        Job::Lease(home) => return lease::keep(&cx, home).await,
    };
    let (ways, last) = if look { names.split_at(names.len() - 1) } else { (&names[..], &[][..]) };
    let reply = resolve(&cx, &asked, from, ways).await;
    cx.with(|core| {
        let (to, seq) = asked.key();
        core.state.running.remove(&(to, seq));
        core.state.counters.resolved += 1;
        match (reply, last) {
            (Reply::Resolved { dir, names }, [last]) if names as usize == ways.len() => {
                forward(core, &asked, dir, last.clone());
            }
            (reply, _) => answer(core, to, seq, &reply),
        }
    });
}

/// How a walk goes on.
enum Next {
    /// It has ended: this is the answer.
    Done(Reply),
    /// The directory from which it goes is not held.
    Start,
    /// The name of this number is not held in this directory.
    Name(InodeId, usize),
}

/// Walks in what is held, and asks for what is missing, until it ends in one look: then everything on the way is true at the same time.
async fn resolve(cx: &Cx<State>, asked: &Asked, from: InodeId, names: &[Name]) -> Reply {
    let path = names.iter().map(Name::as_bytes).collect::<Vec<_>>().join(&b'/');
    // As many questions as there are names, and some more since others move and remove what is on the way.
    let mut questions = names.len() + 1 + names.len() / 2;
    let mut no_directory = None;
    let mut held = 1;
    loop {
        let next = cx.with(|core| look(core, &asked.caller, from, &path, names.len()));
        match next {
            Next::Done(reply) => {
                cx.with(|core| core.state.counters.held += held);
                return reply;
            }
            Next::Start if questions > 0 && no_directory != Some((from, 0)) => {
                ask::hold(cx, from, None).await;
                if !cx.with(|core| ask::is_held(core, from)) {
                    no_directory = Some((from, 0));
                }
            }
            Next::Start => return Reply::Resolved { dir: from, names: 0 },
            Next::Name(dir, at) if questions > 0 && no_directory != Some((dir, at)) => {
                let name = &names[at];
                match ask::directory(cx, dir, name).await {
                    Some((_, true)) => {}
                    Some((id, false)) => ask::hold(cx, id, Some((dir, name))).await,
                    // What it is counts for this request alone (schedule K2).
                    None => no_directory = Some((dir, at)),
                }
            }
            Next::Name(dir, at) => return Reply::Resolved { dir, names: at as u32 },
        }
        questions = questions.saturating_sub(1);
        held = 0;
    }
}

fn look(core: &mut onpath_kernel::Core<State>, caller: &Caller, from: InodeId, path: &[u8], names: usize) -> Next {
    let mut searcher = Searcher { caller, unknown: None };
    let walk = core.state.index.walk(DirId(from.0), path, &mut searcher);
    let Some(last) = walk.last else { return Next::Start };
    let dir = InodeId(last.id.0);
    match (walk.end, searcher.unknown) {
        (End::Unknown, Some(Unknown { gids, caps })) => Next::Done(Reply::NeedCaller { gids, caps }),
        (End::Missing, _) if walk.depth < names => Next::Name(dir, walk.depth),
        _ => Next::Done(Reply::Resolved { dir, names: walk.depth as u32 }),
    }
}

/// Who walks.
struct Searcher<'a> {
    caller: &'a Caller,
    /// What decides and is not known of the caller.
    unknown: Option<Unknown>,
}

impl Check for Searcher<'_> {
    fn search(&mut self, _: DirId, access: &Access) -> Search {
        let &Access { mode, uid, gid, acl } = access;
        if acl && self.caller.uid != uid {
            // What the ACL says the shards know; it keeps nobody out who may search everything.
            let passes = self.caller.caps.any(cap::DAC_OVERRIDE | cap::DAC_READ_SEARCH, Over::Inode(uid, gid));
            return if passes == Some(true) { Search::Allowed } else { Search::Unknown };
        }
        let what = Owned { mode, uid, gid, acl: None };
        match permission::may(self.caller, what, Kind::Directory, permission::EXEC) {
            Ok(true) => Search::Allowed,
            Ok(false) => Search::Denied,
            Err(unknown) => {
                self.unknown = Some(unknown);
                Search::Unknown
            }
        }
    }
}
