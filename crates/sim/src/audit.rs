//! Peace, and then everything: after the weather has calmed the whole namespace is read and compared.

use crate::client::Asked;
use crate::model::Caller;
use crate::users::User;
use crate::world::{Finished, World};
use onpath_wire::ids::{Cookie, InodeId};
use onpath_wire::limits::SESSION_LEASE_MS;
use onpath_wire::reply::Reply;
use onpath_wire::request::Request;

/// Virtual time for what is under way to come to rest, ns: longer than any retry or idle push, and than the grace after
/// a restart, in which orphans are kept.
const REST_NS: u64 = 2 * SESSION_LEASE_MS * 1_000_000;
/// Virtual time in which nearly everything of a small world comes to rest, ns.
const SOON_NS: u64 = 1_000_000_000;
/// Virtual time after which a question that roles ask each other now and then is answered, ns.
const MOMENT_NS: u64 = 1_000_000;
/// Virtual time after which an operation that is not answered counts as stuck, ns.
const STUCK_NS: u64 = 60_000_000_000;

/// Ends the bad weather, waits until every operation is answered, and reads everything. Returns the number of
/// operations answered meanwhile.
pub fn settle(world: &mut World, users: &mut [Box<dyn User>]) -> u64 {
    settle_within(world, users, &[REST_NS])
}

/// The same for a small world, in which it is looked whether everything has come to rest already.
pub(crate) fn settle_soon(world: &mut World) {
    settle_within(world, &mut [], &[SOON_NS, SOON_NS, REST_NS]);
}

/// What is found when one of these times has passed counts if it is still so after the last one.
fn settle_within(world: &mut World, users: &mut [Box<dyn User>], rests_ns: &[u64]) -> u64 {
    world.calm();
    users.iter_mut().for_each(|user| user.close());
    let mut answered = 0;
    while world.clients.iter().any(|client| client.waiting() > 0) || !users.iter().all(|user| user.is_idle()) {
        match (world.step(world.now_ns() + STUCK_NS), world.finished()) {
            (None, None) => {
                world.checker.violation("an operation is not answered in peace".into());
                return answered;
            }
            (None, Some(finished)) => pass_on(world, users, finished),
            (Some(_), _) => {}
        }
        answered += 1;
    }
    for why in users.iter().flat_map(|user| user.judge()) {
        world.checker.violation(why);
    }
    let mut wrong = vec![];
    for (rest_ns, rests_left) in
        rests_ns.iter().copied().chain([MOMENT_NS; 4]).zip((0..rests_ns.len()).rev().chain([0; 4]))
    {
        let until_ns = world.now_ns() + rest_ns;
        while world.step(until_ns).is_some() {}
        wrong = at_rest(world);
        // In the grace after a restart orphans are kept.
        let orphans = || world.rest().shards.iter().any(|survey| !survey.orphans.is_empty());
        if wrong.is_empty() && (rests_left == 0 || !orphans()) {
            break;
        }
    }
    wrong.into_iter().for_each(|why| world.checker.violation(why));
    let auditor = world.add_client();
    for id in world.checker.model.ids() {
        audit_inode(world, auditor, id);
    }
    if world.checker.violations.is_empty() {
        audit_counts(world, auditor, users.iter().map(|user| user.orphans()).sum());
    }
    answered
}

/// What is wrong when nothing moves any more.
fn at_rest(world: &mut World) -> Vec<String> {
    world.checker.expose_all();
    let mut wrong = world.rest().judge(&world.checker.model, world.map());
    let (alive, registered) = (world.sessions_alive(), world.sessions_registered());
    if alive != registered {
        wrong.push(format!("{registered} sessions are registered, {alive} are alive"));
    }
    wrong
}

/// There are as many inodes as names lead to, and orphans only where somebody has them open.
fn audit_counts(world: &mut World, client: usize, orphans: u64) {
    let mut inodes = 0;
    for shard in world.map().clone().all() {
        world.submit_to(client, shard, Asked::new(Caller::default(), Request::StatFs));
        match world.step(world.now_ns() + STUCK_NS).map(|done| done.reply) {
            Some(Reply::StatFs { inodes: here, .. }) => inodes += here,
            other => world.checker.violation(format!("statfs of {shard:?} is answered {other:?}")),
        }
    }
    let expected = world.checker.model.inodes_live() as u64 + orphans;
    if inodes != expected {
        world
            .checker
            .violation(format!("the shards have {inodes} inodes instead of {expected} ({orphans} of them orphans)"));
    }
}

/// Gives a finished system call to the user who made it.
pub fn pass_on(world: &mut World, users: &mut [Box<dyn User>], finished: Finished) {
    match users.iter_mut().find(|user| user.has(finished.session)) {
        Some(user) => user.answered(world, finished),
        None => world.checker.violation(format!("nobody asked for {finished:?}")),
    }
}

/// Asks and waits; nothing if no answer comes.
fn ask(world: &mut World, client: usize, request: Request) -> Option<Reply> {
    world.submit(client, Asked::new(Caller::default(), request.clone()));
    let done = world.step(world.now_ns() + STUCK_NS);
    if done.is_none() {
        world.checker.violation(format!("{request:?} is not answered in peace"));
    }
    done.map(|done| done.reply)
}

fn audit_inode(world: &mut World, client: usize, id: InodeId) {
    if world.checker.violations.is_empty() {
        let Some(Reply::Attr { attr, .. }) = ask(world, client, Request::GetAttr { id }) else {
            world.checker.violation(format!("{id:?} has no attributes"));
            return;
        };
        if attr.kind == onpath_wire::inode::Kind::Directory {
            audit_directory(world, client, id);
        }
    }
}

fn audit_directory(world: &mut World, client: usize, id: InodeId) {
    let mut after = Cookie(0);
    loop {
        let page = ask(world, client, Request::ReadDir { id, after, bytes: 4096 });
        let Some(Reply::Dir { entries, end, .. }) = page else {
            world.checker.violation(format!("{id:?} cannot be listed"));
            return;
        };
        for entry in &entries {
            after = entry.cookie;
            let name = entry.name.clone();
            if !matches!(ask(world, client, Request::Lookup { parent: id, name }), Some(Reply::Entry { .. })) {
                world.checker.violation(format!("{:?} of {id:?} cannot be found", entry.name));
            }
        }
        if end || entries.is_empty() || !world.checker.violations.is_empty() {
            return;
        }
    }
}
