//! Pages of files that sessions change in memory, through shared mappings (mmap(2)).
//!
//! A kernel writes a page back as a whole, when it likes, and so lays over what another session has written into the same page what this
//! one had there before. Therefore: before a session changes bytes of a file, every other one that may have changed pages of it
//! writes them back and forgets them. From then on that session has none until it says `Map` again, which waits for the write. A
//! write whose session did not know of pages is told so when it is merged, and is done once more. Who does not answer in time is not
//! waited for. A file that one session has open costs nothing.
//!
//! Volatile: a session tells with what it opens again whether it may have changed pages. Locks: none, as pages that are written back
//! need the inode's. Journals: nothing.

use super::opens::Pages;
use super::{Req, Step, begin};
use crate::files::holders;
use crate::shard::Job;
use crate::state::keys;
use crate::{Core, Cx};
use hashbrown::HashMap;
use onpath_kernel::{Mode, Need};
use onpath_wire::ids::{InodeId, NodeId, RecordSeq, RequestSeq, SessionId};
use onpath_wire::reply::Reply;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// How often a session is asked to write back, microseconds.
const ASK_US: u64 = 50_000;
/// How long it is waited for, microseconds.
const ANSWER_US: u64 = 1_000_000;
/// How long a session that wants to map pages again waits for a write for which it wrote them back, microseconds.
const WRITING_US: u64 = 100_000;
/// Writes that are noted; those of further ones may have to be done twice.
const WRITING_MAX: usize = 4_096;

/// Who waits for pages, and for whom those wait that map pages.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    waiting: HashMap<InodeId, Waiting>,
    /// Sessions that are about to change bytes of a file, and until when that counts, microseconds.
    writing: BTreeMap<(InodeId, SessionId), u64>,
    /// How often pages were written back in this term.
    written_back: u32,
}

/// Who waits until the pages of one file are written back.
#[derive(Debug, Default)]
struct Waiting {
    sessions: SmallVec<[SessionId; 1]>,
    /// Others are being asked, until the end of this round: then who has not answered is not waited for.
    asking: bool,
    round: u32,
}

impl Writers {
    fn begin(&mut self, id: InodeId, session: SessionId, now_us: u64) {
        if self.writing.len() >= WRITING_MAX {
            self.writing.retain(|_, until_us| now_us < *until_us);
        }
        if self.writing.len() < WRITING_MAX {
            self.writing.insert((id, session), now_us + WRITING_US);
        }
    }

    /// Whether another session is about to change bytes of a file.
    fn are_others(&self, id: InodeId, session: SessionId, now_us: u64) -> bool {
        let mut of_file = self.writing.range((id, SessionId(0))..=(id, SessionId(u32::MAX)));
        of_file.any(|((_, writer), until_us)| *writer != session && now_us < *until_us)
    }
}

/// Whether another session may change pages of a file of which its home hears only when they are written back, or that is not known yet.
pub(crate) fn may_be_changed(core: &Core, id: InodeId, session: SessionId) -> bool {
    let others = |holder: &super::opens::Holder| holder.session != session && holder.pages != Pages::Unchanged;
    core.state.opens.in_grace() || core.state.opens.holders(id).iter().any(others)
}

/// Whether another session may have changed pages of a file.
fn is_changed(core: &Core, id: InodeId, session: SessionId) -> bool {
    let holders = core.state.opens.holders(id);
    holders.iter().any(|holder| holder.session != session && holder.pages == Pages::Changed)
}

/// `WriteBack`: the session is about to change bytes. After a restart it is waited for until others have said what they have.
pub(crate) async fn write_back(cx: &Cx, req: &Req, id: InodeId, changed_at: Option<u64>) -> Step {
    written_back(cx, req, id, true).await;
    cx.with(|core| {
        let again = changed_at.is_some_and(|then| lie_over(then, count(core)));
        if changed_at.is_some() && !again {
            end(core, id, req.session);
        }
        Ok(Reply::PagesBack { again })
    })
}

/// Whether pages have been written back since they had been `then` times. Sessions tell a restarted home again that they have written some.
fn lie_over(then: u64, now: u64) -> bool {
    let same_term = then >> 32 == now >> 32;
    if same_term { now != then } else { now as u32 > 0 }
}

/// How often pages were written back, and in which term.
fn count(core: &Core) -> u64 {
    u64::from(core.state.config.term.0) << 32 | u64::from(core.state.writers.written_back)
}

/// Waits until no other session has changed pages of a file: from then on [`merged`] or [`end`] is waited for before one maps them again.
pub(crate) async fn written_back(cx: &Cx, req: &Req, id: InodeId, grace: bool) {
    let session = req.session;
    let is_wanted = move |core: &Core| is_changed(core, id, session) || grace && core.state.opens.in_grace();
    let round = cx.with(|core| {
        if !is_wanted(core) {
            if core.state.opens.holders(id).len() > 1 {
                core.state.writers.begin(id, session, core.now.mono_us);
            }
            return None;
        }
        let waiting = core.state.writers.waiting.entry(id).or_default();
        waiting.sessions.push(session);
        let round = waiting.round;
        if !std::mem::replace(&mut waiting.asking, true) {
            core.start(Job::WriteBack(id));
        }
        Some(round)
    });
    let Some(round) = round else { return };
    cx.until(keys::pages(id), |core| {
        let over = core.state.writers.waiting.get(&id).is_none_or(|waiting| waiting.round != round);
        (over || !is_wanted(core)).then_some(())
    })
    .await;
    cx.with(|core| {
        let writers = &mut core.state.writers;
        if let Some(waiting) = writers.waiting.get_mut(&id) {
            let at = waiting.sessions.iter().position(|waits| *waits == session).expect("added above");
            waiting.sessions.swap_remove(at);
            if waiting.sessions.is_empty() {
                writers.waiting.remove(&id);
            }
        }
        writers.begin(id, session, core.now.mono_us);
    });
}

/// The same before an operation of this home that changes bytes; then locks the inode for it.
pub(crate) async fn lock_written_back(cx: &Cx, req: &Req, id: InodeId) {
    loop {
        written_back(cx, req, id, false).await;
        super::named::lock_inode(cx, id, Mode::Exclusive).await;
        holders::revoke(cx, id).await;
        if !cx.with(|core| is_changed(core, id, req.session)) {
            return;
        }
        cx.unlock_all();
    }
}

/// Asks for pages as long as somebody waits for them.
pub(crate) async fn ask(cx: &Cx, id: InodeId) {
    let end_us = cx.with(|core| core.now.mono_us) + ANSWER_US;
    loop {
        let next_us = cx.with(|core| {
            let now_us = core.now.mono_us;
            core.wake(keys::pages(id)); // who had changed pages may be dead
            let waiting = core.state.writers.waiting.get_mut(&id)?;
            let of_others = |session: SessionId| waiting.sessions.iter().any(|waits| *waits != session);
            let holders = core.state.opens.holders(id).iter();
            let asked: Vec<SessionId> = holders
                .filter(|holder| holder.pages != Pages::Unchanged && of_others(holder.session))
                .map(|holder| holder.session)
                .collect();
            if now_us >= end_us {
                (waiting.asking, waiting.round) = (false, waiting.round + 1);
                for session in asked {
                    core.state.opens.set_pages(id, session, Pages::Silent);
                    core.state.counters.pages_given_up += 1;
                }
                return None;
            }
            for session in asked {
                let packet = core.state.reply_packet(RequestSeq(0), &Reply::WriteBack { id });
                core.send_after(NodeId::session(session), packet, RecordSeq(0), Need::ByDestination);
                core.state.counters.pages_asked += 1;
            }
            Some(now_us + ASK_US)
        });
        let Some(next_us) = next_us else { return };
        cx.sleep_until(next_us).await;
    }
}

/// `WrittenBack`: the session has no changed pages of a file.
pub(crate) fn unchanged(cx: &Cx, req: &Req, id: InodeId, wrote: bool) -> Step {
    cx.with(|core| {
        begin(core, req)?;
        core.state.writers.written_back = core.state.writers.written_back.wrapping_add(u32::from(wrote));
        core.state.opens.set_pages(id, req.session, Pages::Unchanged);
        core.wake(keys::pages(id));
        Ok(Reply::Done)
    })
}

/// `Map`: the session may change pages of a file again.
pub(crate) async fn map(cx: &Cx, req: &Req, id: InodeId) -> Step {
    let waits_until_us = cx.with(|core| {
        begin(core, req)?;
        let until_us = core.now.mono_us + WRITING_US;
        let waits = core.state.writers.are_others(id, req.session, core.now.mono_us);
        if waits {
            core.start(Job::WakePages(id, until_us));
        }
        Ok::<_, super::Stop>(waits.then_some(until_us))
    })?;
    if let Some(until_us) = waits_until_us {
        cx.until(keys::pages(id), |core| {
            let now_us = core.now.mono_us;
            (now_us >= until_us || !core.state.writers.are_others(id, req.session, now_us)).then_some(())
        })
        .await;
    }
    // From now on others' writes must hear of it.
    super::named::lock_inode(cx, id, Mode::Shared).await;
    holders::revoke(cx, id).await;
    cx.with(|core| changed(core, id, req.session));
    Ok(Reply::Done)
}

/// A session that has a file open may change pages of it from now on.
pub(crate) fn changed(core: &mut Core, id: InodeId, session: SessionId) {
    core.state.opens.set_pages(id, session, Pages::Changed);
}

/// A session has changed bytes of a file: others may map pages of it again.
pub(crate) fn end(core: &mut Core, id: InodeId, session: SessionId) {
    if !core.state.writers.writing.is_empty() && core.state.writers.writing.remove(&(id, session)).is_some() {
        core.wake(keys::pages(id));
    }
}

/// The answer to a write that is merged.
pub(crate) fn merged(core: &mut Core, id: InodeId, session: SessionId, reply: Reply) -> Reply {
    end(core, id, session);
    match reply {
        Reply::Written { size } if is_changed(core, id, session) => {
            Reply::WrittenBesidePages { size, count: count(core) }
        }
        reply => reply,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_done_again_if_pages_were_written_back_since() {
        let count = |term: u64, pages: u64| term << 32 | pages;
        for (then, now, over) in [
            (count(5, 4), count(5, 4), false),
            (count(5, 4), count(5, 5), true),
            (count(4, 4), count(5, 0), false),
            (count(4, 1), count(5, 1), true),
        ] {
            assert_eq!(lie_over(then, now), over, "{then:x} {now:x}");
        }
    }
}
