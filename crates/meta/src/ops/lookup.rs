//! LOOKUP: finds a name.
//!
//! Semantics: search permission on the directory; attributes exact, except times, size and nlink of a directory
//! (LOOKUP never collects: design.md, "The life of an update").
//! Locks: the name and a local inode, shared. Journals: nothing. Rules: R-5, R-15 (through the grant).

use super::{Req, Step, Stop, named};
use crate::dir::holders::Holder;
use crate::dir::{owner, site};
use crate::state::packets;
use crate::{Core, Cx, access};
use onpath_kernel::Mode;
use onpath_store::Named;
use onpath_wire::attr::AttrWire;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{InodeId, RequestSeq};
use onpath_wire::name::Name;
use onpath_wire::peer::{Access, Peer, part};
use onpath_wire::reply::{DataRef, Reply};

pub(crate) async fn run(cx: &Cx, req: &Req, parent: InodeId, name: &Name) -> Step {
    let at = named::here(cx, parent, name)?;
    named::lock_name_shown(cx, &at, Mode::Shared).await;
    let mut at_home = None;
    loop {
        let dir = site::grant(cx, parent, part::ACCESS).await?;
        match cx.with(|core| step(core, req, dir, &at, at_home))? {
            Ok(reply) => return Ok(reply),
            // The inode lives elsewhere: ask its home while the name is ours, then decide afresh.
            Err(elsewhere) => at_home = Some(named::read_home(cx, elsewhere).await),
        }
    }
}

/// A path node asks which directory has a name (P-2), and is granted that one's path part if this is its home too: it would ask for that next.
/// Who may search its directory is for the path node to say.
pub(crate) async fn directory(cx: &Cx, from: Holder, seq: RequestSeq, parent: InodeId, name: &Name) {
    let Ok(at) = named::here(cx, parent, name) else { return };
    named::lock(cx, &at, Mode::Shared).await;
    // As of a lookup: names are shown when the owner has applied what a former term appended.
    let is_there = site::grant(cx, parent, part::ACCESS).await.is_ok();
    cx.with(|core| {
        let found = core.state.names.get(&at).filter(|found| is_there && found.child.is_directory());
        let id = found.map(|found| found.child);
        let part = id.and_then(|id| owner::path_part_now(core, cx.op(), from, id));
        packets::answer_call(core, cx.op(), from.node, seq, &Peer::DirectoryIs { id, part });
    });
}

type AtHome = Option<Option<(AttrWire, DataRef)>>;

fn step(
    core: &mut Core,
    req: &Req,
    dir: Access,
    at: &Named<'_>,
    at_home: AtHome,
) -> Result<Result<Reply, InodeId>, Stop> {
    access::search(req, &dir)?;
    let Some(found) = core.state.names.get(at) else {
        return if access::searchable(&dir) { Ok(Ok(Reply::Missing)) } else { Err(Errno::ENOENT.into()) };
    };
    let (mut attr, data) = match (core.state.inodes.shown(found.child), at_home) {
        (Some(shown), _) | (None, Some(Some(shown))) => shown,
        (None, None) => return Ok(Err(found.child)),
        (None, Some(None)) => return Err(Errno::ESTALE.into()),
    };
    access::mark(&dir, &mut attr);
    Ok(Ok(Reply::Entry { attr, data, created: false }))
}
