//! Questions to shards: which directory has a name, and its path part.

use crate::lease;
use crate::planted::{self, Planted};
use crate::state::{State, asked_about, end_question};
use onpath_index::{DirId, Index};
use onpath_kernel::{Answer, Core, Cx};
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{InodeId, NodeId, Term};
use onpath_wire::limits::RECALL_TIMEOUT_US;
use onpath_wire::name::Name;
use onpath_wire::packet::Packet;
use onpath_wire::peer::{GrantResult, PathPart, Peer, part};

/// How often a path part is asked for that recalls overtake.
const TRIES_MAX: usize = 4;

/// The directory that has a name, as its site says, and whether its path part is held since the site is its home too; none if nothing has
/// the name, or no directory, or the site is silent.
pub(crate) async fn directory(cx: &Cx<State>, parent: InodeId, name: &Name) -> Option<(InodeId, bool)> {
    let site = cx.with(|core| {
        core.state.counters.names_asked += 1;
        let map = &core.state.config.map;
        NodeId::shard(map.shard(map.site(parent, name.as_bytes())))
    });
    if !lease::is_given(cx, site).await {
        return None;
    }
    let taken = |core: &Core<State>| core.state.taken.get(&site).copied();
    let before = cx.with(|core| taken(core));
    let answer = call(cx, site, |_| Peer::DirectoryAsk { parent, name: name.clone() }).await;
    let Some((Peer::DirectoryIs { id, part }, term)) = answer else { return None };
    let id = id.filter(|id| id.is_directory())?;
    let is_held = cx.with(|core| {
        let of_home = part.filter(|_| NodeId::shard(core.state.config.map.home(id)) == site);
        of_home.is_some_and(|part| {
            let void = taken(core) != before;
            install(core, id, part, term, Some((parent, name)), void)
        })
    });
    Some((id, is_held))
}

/// A grant has come; whether it counts. `void`: something was taken back since it was asked for.
fn install(
    core: &mut Core<State>,
    dir: InodeId,
    mut part: PathPart,
    home: Term,
    asked_as: Option<(InodeId, &Name)>,
    void: bool,
) -> bool {
    let at = NodeId::shard(core.state.config.map.home(dir));
    if (void || !core.state.leases.is_live(at)) && !planted::is(Planted::OvertakenGrant) {
        core.state.counters.parts_void += 1;
        return false;
    }
    // The grant says where it is: it may have been moved since its name was asked for (schedule K3).
    if let Some((parent, name)) = asked_as.filter(|_| planted::is(Planted::NamedAsAsked)) {
        (part.parent, part.name) = (Some(parent), Some(name.clone()));
    }
    core.state.counters.parts_granted += 1;
    core.state.hold(dir, &part, home);
    true
}

/// Sees to it that the path part of a directory is held, if its home grants it: one question at a time, which serves all who wait for it.
/// Afterwards it may be recalled again at any time. `asked_as`: by which name in which directory it was found.
pub(crate) async fn hold(cx: &Cx<State>, dir: InodeId, asked_as: Option<(InodeId, &Name)>) {
    let asks = cx.with(|core| {
        let asks = !core.state.asking.contains_key(&dir);
        core.state.asking.entry(dir).or_default();
        asks
    });
    if !asks {
        return cx.until(asked_about(dir), |core| (!core.state.asking.contains_key(&dir)).then_some(())).await;
    }
    let home = cx.with(|core| NodeId::shard(core.state.config.map.home(dir)));
    for _ in 0..TRIES_MAX {
        if !lease::is_given(cx, home).await {
            break;
        }
        cx.with(|core| core.state.asking.entry(dir).or_default().void = false);
        let answer = call(cx, home, |nonce| Peer::GrantAsk { dir, parts: part::PATH, nonce }).await;
        let Some((Peer::GrantAnswer { result: GrantResult::Path { part }, .. }, term)) = answer else { break };
        let is_held = cx.with(|core| {
            let void = core.state.asking.get(&dir).is_some_and(|asking| asking.void);
            install(core, dir, part, term, asked_as, void)
        });
        if is_held {
            break;
        }
    }
    cx.with(|core| end_question(core, dir));
}

/// Whether a path part is held.
pub(crate) fn is_held(core: &Core<State>, dir: InodeId) -> bool {
    core.state.index.get(DirId(dir.0)).is_some()
}

/// Asks a shard; its answer and its term. A silent one is not waited for longer than who asks here does.
async fn call(cx: &Cx<State>, to: NodeId, what: impl Fn(u64) -> Peer) -> Option<(Peer, Term)> {
    let deadline_us = cx.with(|core| core.now.mono_us) + RECALL_TIMEOUT_US;
    let make = |core: &mut Core<State>, _: NodeId, seq: onpath_wire::ids::RequestSeq| {
        Packet::new(&core.state.header(MessageKind::Peer, seq), &what(seq.0))
    };
    match cx.call_all(&[to], deadline_us, make).await.pop() {
        Some(Answer::Packet(packet)) => Some((packet.body().ok()?, packet.header().ok()?.term)),
        _ => None,
    }
}
