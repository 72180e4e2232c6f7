//! Whether an answer is right: of a change by what was noted when it happened, else by the model at some moment since the question; and
//! what excuses it if not.

use super::log::Log;
use super::{Excuse, Pending};
use crate::client::Asked;
use crate::model::{Change, Model, Seen, Shape};
use onpath_wire::caller::Over;
use onpath_wire::errno::Errno;
use onpath_wire::reply::Reply;
use onpath_wire::request::{Request, set};

/// Whether a reply is right, or what excuses it.
pub(super) fn judge(
    model: &mut Model,
    log: &mut Log,
    pending: &Pending,
    reply: &Reply,
) -> Result<Option<Excuse>, String> {
    let asked = &pending.asked;
    match reply {
        // Of one that rests on ways its user knows whether that is right.
        Reply::NewTerm { .. } | Reply::Queued | Reply::Behind { .. } => return Ok(None),
        Reply::Led { reply, .. } => {
            let reply = Reply::inside(reply).ok_or("is answered a way and no answer")?;
            return judge(model, log, pending, &reply);
        }
        Reply::NeedCaller { gids, caps } => return caller_is_open(asked, gids, *caps).map(|()| None),
        _ => {}
    }
    if let Some(witness) = &pending.witness {
        let knows_end = matches!(asked.body.request, Request::SetAttr { set, .. } if set.valid & set::KNOWS_END != 0);
        let compared = match model.compare_expected(&witness.expected, reply) {
            Err(_) if knows_end => model.compare_known_end(&witness.expected, reply),
            compared => compared,
        };
        return compared.map(|()| None);
    }
    if asked.write.is_some() {
        let refused = matches!(reply, Reply::Stale { .. } | Reply::Failed { .. });
        let wrong = || format!("a write that nobody recorded is answered {reply:?}");
        return refused.then_some(Some(Excuse::Refused)).ok_or_else(wrong);
    }
    let request = &asked.body.request;
    // It speaks of two moments, of the way and of the last name: its user judges it.
    let of_two_moments = matches!(request, Request::Resolve { look: true, .. });
    let refused = matches!(reply, Reply::Missing | Reply::Failed { errno: Errno::ENOENT | Errno::EACCES });
    if of_two_moments && refused {
        return Ok(None);
    }
    // An answer that is right now may be older: then it does not tell the times of now.
    let changed = request.describe().about.inode().is_some_and(|id| log.touches(id, pending.invoked));
    let now = unchanged(model, asked, reply, if changed { Seen::NowOrBefore } else { Seen::Now });
    let Err(why) = now else { return now };
    if request.describe().is_of_session() {
        return Ok(Some(Excuse::Registry));
    }
    let found =
        log.search_back(model, pending.invoked, |model| unchanged(model, asked, reply, Seen::Elsewhere).is_ok());
    if found { Ok(Some(Excuse::Earlier)) } else { Err(why) }
}

/// Whether a reply without a record is right in the model's present state, or what excuses it.
pub(super) fn unchanged(model: &mut Model, asked: &Asked, reply: &Reply, seen: Seen) -> Result<Option<Excuse>, String> {
    let (caller, request) = (&asked.caller, &asked.body.request);
    let decided = model.decide(caller, request);
    let any = matches!(&decided, Ok(plan) if plan.answer == Shape::Any);
    let changes = matches!(&decided, Ok(plan) if plan.change != Change::Nothing) && !any;
    let fits = match changes {
        false => model.compare(&decided, reply, seen),
        true => Err(format!("is answered {reply:?} but changed nothing")),
    };
    let Err(why) = fits else { return Ok(any.then_some(Excuse::Unknown)) };
    if model.may_be_gone(request, reply) {
        return Ok(Some(Excuse::Gone));
    }
    match (&decided, request, reply) {
        // Whoever asked for the lock, and perhaps gave it up, knows whether that is right.
        (_, Request::SetLock { .. }, Reply::Failed { errno: Errno::EAGAIN | Errno::EINTR }) => Ok(Some(Excuse::Lock)),
        // Of those that may be put off at all.
        (_, _, Reply::Busy) => Ok(Some(Excuse::Busy)),
        (Err(_), _, Reply::Failed { errno }) if model.is_reason(caller, request, *errno) => Ok(Some(Excuse::Reason)),
        _ => Err(why),
    }
}

/// Where disks are full whatever needs space may be refused, but not what frees it.
pub(super) fn no_space(asked: &Asked) -> Result<(), String> {
    if asked.write.is_some() || asked.body.request.describe().space {
        return Ok(());
    }
    Err("is refused for want of space, of which it needs none".into())
}

/// Only what the request does not say of its caller may be asked for.
fn caller_is_open(asked: &Asked, gids: &[u32], caps: u32) -> Result<(), String> {
    let said = &asked.body.caller.groups;
    if asked.body.caller.caps.any(caps, Over::All).is_some() && caps != 0 {
        return Err(format!("asks about capabilities {caps:#x}"));
    }
    let known = |gid: &u32| *gid == asked.caller.gid || said.member.contains(gid) || said.stranger.contains(gid);
    if gids.is_empty() && caps == 0 || gids.len() > onpath_wire::limits::NEED_GROUPS_MAX || gids.iter().any(known) {
        return Err(format!("asks about groups {gids:?}"));
    }
    Ok(())
}
