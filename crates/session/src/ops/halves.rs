//! open(2) that creates, in two halves: a mknod and an open.
//!
//! The kernel holds the directory's lock while a CREATE or MKNOD is under way, but not during an OPEN. Where answers wait for the
//! disk (`commit = sync`) a mount would so make one file of a directory a flush, however many programs make some. So there is no
//! CREATE: the kernel sends MKNOD, which is answered at once, and the OPEN of the same thread, whose answer waits like any other.
//! A file that is made under such an open is open from the first half on. The first answer is the one exception to R-16; that of the second
//! half keeps it.

use crate::fs::{Caller, FsReply, FsResult, OpenMode};
use crate::limits::{HALVES_MAX, HALVES_US};
use crate::op::{Op, entry};
use crate::ops::open::{add, left};
use crate::ops::pages;
use crate::state::{Job, State};
use onpath_kernel::Core;
use onpath_wire::attr::{AttrWire, flag};
use onpath_wire::codec::Blob;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::request::{NewNode, Request, open};
use std::collections::VecDeque;

/// A file whose second half has not come yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Half {
    pub(crate) id: InodeId,
    by: Thread,
    until_us: u64,
}

/// A thread that opens. Its number may be another user's thread's by the time of the second half.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Thread {
    uid: u32,
    pid: u32,
}

impl Thread {
    /// None if the number is not known: then it is the same for all threads of all other pid namespaces.
    fn of(caller: &Caller) -> Option<Thread> {
        (caller.pid != 0).then_some(Thread { uid: caller.uid, pid: caller.pid })
    }
}

/// Those of a session, the oldest first: at most [`HALVES_MAX`].
pub(crate) type Halves = VecDeque<Half>;

/// The first half, or mknod(2) of a file, which looks the same. A name that exists is ESTALE: the kernel looks again, and then opens
/// it or says EEXIST, as the caller wants it; it has not told us which.
pub(crate) async fn first(op: &mut Op, parent: InodeId, name: Name, mode: u16, umask: u16) -> FsResult {
    let open = open::REGISTER | open::EXCLUSIVE | open::EARLY;
    let node = NewNode { kind: Kind::File, mode, umask, rdev: 0, target: Blob::default(), open };
    let reply = op.ask(Request::Create { parent, name, node }).await;
    let (mut attr, ..) = entry(reply.map_err(|errno| if errno == Errno::EEXIST { Errno::ESTALE } else { errno })?)?;
    attr.flags &= !flag::SEARCHABLE; // not cached by name, so that what is no second half begins with a LOOKUP
    let by = Thread::of(&op.caller);
    op.with(|core| {
        core.state.opens.enter(attr.id)?.registered = true;
        let Some(by) = by else {
            left(core, attr.id);
            return Ok(FsReply::Entry(attr));
        };
        if core.state.halves.len() >= HALVES_MAX {
            forget_oldest(core);
        }
        let until_us = core.now.mono_us + HALVES_US;
        core.state.halves.push_back(Half { id: attr.id, by, until_us });
        if core.state.halves.len() == 1 {
            core.start(Job::EndHalves);
        }
        Ok(FsReply::Entry(attr))
    })
}

/// The second half, if this is one: the file is the caller's whatever its mode, and keeps what somebody may have written already.
pub(crate) async fn second(op: &mut Op, id: InodeId, mode: OpenMode) -> Option<FsResult> {
    let (by, pid) = (Thread::of(&op.caller)?, op.caller.pid);
    op.with(|core| take(core, id, by))?;
    let map = if mode.maps() { open::MAP } else { 0 };
    if mode.maps() {
        op.with(|core| pages::begin_open(core, id));
    }
    let result = op.ask(Request::Open { id, flags: open::MADE | map }).await.and_then(crate::op::attr);
    Some(op.with(|core| match result {
        Ok((attr, data, shared)) => {
            let direct = shared || mode.append || !mode.read; // as for a CREATE
            let handle = add(core, &attr, data, mode, direct, pid);
            Ok(FsReply::Opened(crate::fs::Opened { handle, shared: direct }))
        }
        Err(errno) => {
            if mode.maps() {
                pages::end_open(core, id);
            }
            left(core, id);
            Err(errno)
        }
    }))
}

fn take(core: &mut Core<State>, id: InodeId, by: Thread) -> Option<Half> {
    let at = core.state.halves.iter().position(|half| (half.id, half.by) == (id, by))?;
    core.state.halves.remove(at)
}

/// A thread has looked a name up: what it opens then it has not made in the same call.
pub(crate) fn looked_up(core: &mut Core<State>, attr: &AttrWire, caller: &Caller) {
    if core.state.halves.is_empty() {
        return;
    }
    if Thread::of(caller).and_then(|by| take(core, attr.id, by)).is_some() {
        left(core, attr.id);
    }
}

/// Whether the second half of a file's open may still come: then it is not to be cached by name.
pub(crate) fn is_one(core: &Core<State>, id: InodeId) -> bool {
    core.state.halves.iter().any(|half| half.id == id)
}

fn forget_oldest(core: &mut Core<State>) {
    if let Some(half) = core.state.halves.pop_front() {
        left(core, half.id);
    }
}

/// Closes what mknod(2) has made, a while later. Runs while there is any.
pub(crate) async fn end(op: &Op) {
    while let Some(until_us) = op.with(|core| core.state.halves.front().map(|half| half.until_us)) {
        op.cx.sleep_until(until_us).await;
        op.with(|core| {
            let now_us = core.now.mono_us;
            while core.state.halves.front().is_some_and(|half| half.until_us <= now_us) {
                forget_oldest(core);
            }
        });
    }
}
