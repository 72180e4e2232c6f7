//! Operations: one file each, straight line: lock → grants → one synchronous step (design.md, "Roles and operations").
//!
//! Nothing here knows how directories are tracked. Errors are checked in the order in which Linux reports them.

mod access;
mod acl;
mod append;
pub(crate) mod bound;
pub(crate) mod create;
pub(crate) mod datapending;
pub(crate) mod filelock;
pub(crate) mod getattr;
pub(crate) mod kinds;
pub(crate) mod link;
pub(crate) mod living;
mod lock;
pub(crate) mod lockgrace;
pub(crate) mod lookup;
pub(crate) mod merge;
pub(crate) mod named;
mod open;
pub(crate) mod opens;
pub(crate) mod pages;
mod readdir;
mod readlink;
mod rename;
mod rmdir;
pub(crate) mod root;
mod setattr;
mod statfs;
mod sync;
mod tmpfile;
pub(crate) mod unlink;
mod xattr;

use crate::dir::epoch::Tracked;
use crate::dir::mark;
use crate::files::table::{self, Looked};
use crate::planted::{self, Planted};
use crate::shard::Job;
use crate::state::packets;
use crate::state::replies::Seen;
use crate::{Core, Cx};
use onpath_wire::caller::Caller;
use onpath_wire::errno::Errno;
use onpath_wire::identity::Refusal;
use onpath_wire::ids::{InodeId, NodeId, RequestSeq, SessionId, SessionNumber};
use onpath_wire::reply::Reply;
use onpath_wire::report::Outcome;
use onpath_wire::request::Request;
use onpath_wire::request::describe::Counted;
use onpath_wire::way::Way;
use smallvec::SmallVec;

/// Who asks, and how to answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Req {
    pub(crate) from: NodeId,
    pub(crate) session: SessionId,
    pub(crate) seq: RequestSeq,
    pub(crate) oldest: RequestSeq,
    /// When it is too late to execute it, ns since 1970.
    pub(crate) until_ns: u64,
    pub(crate) caller: Caller,
    /// Its session is bound, and believed nothing that it could lie about: the inode that it asks about, or the root.
    pub(crate) bound: Option<InodeId>,
    /// It is such a session's, and leaves something here that goes with the session's death: that must live ([`living`]).
    pub(crate) must_live: bool,
    /// What is told with the answer.
    pub(crate) way: Option<Box<Way>>,
    /// What the switch has said of the directory asked about.
    pub(crate) tracked: Tracked,
    /// What it has said of the file.
    pub(crate) looked: Looked,
    /// The answer does not wait for the disk.
    pub(crate) early: bool,
    /// The answer is remembered for repetitions.
    pub(crate) remembered: bool,
    /// As what it is counted, and when it came, monotonic microseconds.
    pub(crate) kind: Counted,
    pub(crate) since_us: u64,
}

impl Req {
    /// Which session asks, of all that had or will have its id.
    pub(crate) fn number(&self) -> SessionNumber {
        SessionNumber::of(self.session, self.seq)
    }
}

/// Why an operation has no ordinary reply.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It failed.
    Errno(Errno),
    /// Membership in these gids decides, or one of these capabilities.
    NeedCaller { gids: SmallVec<[u32; 4]>, caps: u32 },
    /// It was answered before; this was the answer.
    Again(Box<Reply>),
    /// Nobody waits for it any more.
    Over,
    /// Its session may be dead by now: if it lives it asks again.
    Late,
    /// Answered already, in a way of its own.
    Answered,
    /// Its session may not ask that.
    Refused(Refusal),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Errno(errno)
    }
}

impl From<crate::dir::site::Gone> for Stop {
    fn from(_: crate::dir::site::Gone) -> Stop {
        Stop::Errno(Errno::ENOENT)
    }
}

/// The outcome of an operation.
pub(crate) type Step = Result<Reply, Stop>;

/// First thing in the step of every operation that changes something: a retried request gets its first result, a late one is not executed.
pub(crate) fn begin(core: &mut Core, req: &Req) -> Result<(), Stop> {
    let is_over = core.state.buried.contains(req.number()) || req.must_live && !living::lives(core, req.number());
    if is_over {
        return Err(Stop::Over); // its session has ended while this waited
    }
    match core.state.replies.seen(req.session, req.seq) {
        Seen::New if is_late(core, req.until_ns) => Err(Stop::Late),
        Seen::New => Ok(()),
        Seen::Answered(reply) => {
            let reply = Box::new(reply.clone());
            core.state.counters.replayed_replies += 1;
            Err(Stop::Again(reply))
        }
        Seen::Over => Err(Stop::Over),
    }
}

/// Whether a request comes when its session may be dead, and others may have what was its own.
pub(crate) fn is_late(core: &Core, until_ns: u64) -> bool {
    core.state.clock.is_past(until_ns, core.now.wall_ns)
}

/// ENOSPC before any effect when only what frees space is accepted.
pub(crate) fn need_space(core: &Core) -> Result<(), Stop> {
    if core.state.full { Err(Errno::ENOSPC.into()) } else { Ok(()) }
}

/// Runs a job as its operation.
pub(crate) async fn run(cx: Cx, job: Job) {
    match job {
        Job::Request(request) => {
            let (req, request) = *request;
            let outcome = dispatch(&cx, &req, request).await;
            // What was appended may have to wait until readers find it; its locks wait with it.
            let unsent = if cx.with(|core| mark::is_gated(core, cx.op())) {
                Box::pin(mark::pass(&cx, Some((&req, &outcome)))).await
            } else {
                true
            };
            cx.with(|core| conclude(core, &cx, &req, outcome, unsent));
        }
        other => other.run(cx).await,
    }
}

async fn dispatch(cx: &Cx, req: &Req, mut request: Request) -> Step {
    if req.must_live {
        living::known(cx, req).await?;
    }
    if req.bound.is_some() {
        request = cx.with(|core| bound::believed(core, req, request))?;
    }
    match request {
        Request::Lookup { parent, name } => lookup::run(cx, req, parent, &name).await,
        // A path node's, and one whose way was taken out.
        Request::Resolve { .. } | Request::LookupLed { .. } => Err(Errno::EOPNOTSUPP.into()),
        Request::GetAttr { id } => getattr::run(cx, req, id).await,
        Request::SetAttr { id, set } => setattr::run(cx, req, id, set).await,
        Request::Create { parent, name, node } => create::run(cx, req, parent, &name, &node).await,
        Request::Link { id, parent, name } => Box::pin(link::run(cx, req, id, parent, name)).await,
        Request::Unlink { parent, name } => unlink::run(cx, req, parent, &name).await,
        Request::Rmdir { parent, name } => rmdir::run(cx, req, parent, &name).await,
        Request::Rename { from_parent, from, parent, name, flags } => {
            let what = rename::Rename { from_parent, from, parent, name, flags, whiteout: None };
            Box::pin(rename::run(cx, req, what)).await
        }
        Request::Open { id, flags } => open::run(cx, req, id, flags).await,
        Request::OpenAgain { id, flags, ticket } => open::again(cx, req, id, flags, &ticket).await,
        Request::Release { id } => opens::release(cx, req, id).await,
        Request::ReadDir { id, after, bytes } => readdir::run(cx, req, id, after, bytes).await,
        Request::ReadLink { id } => readlink::run(cx, id).await,
        Request::Access { id, mask } => access::run(cx, req, id, mask).await,
        Request::Learn { writes, record } => table::brought(cx, req, writes, record),
        Request::StatFs => statfs::run(cx),
        Request::Kept => cx.with(|core| Ok(Reply::Kept { since: core.state.kept_since, upto: core.state.kept })),
        Request::GetAttrs { ids } => Box::pin(getattr::many(cx, &ids)).await,
        Request::SetLock { id, lock, wait, again } => lock::set(cx, req, id, lock, wait, again).await,
        Request::TestLock { id, lock } => lock::test(cx, req, id, lock).await,
        Request::CancelLock { id, lock } => lock::cancel(cx, req, id, lock),
        Request::DropLocks { id, flock, owner } => lock::drop_owner(cx, req, id, flock, owner),
        Request::ConfirmWait { id, lock } => lock::confirm(cx, req, id, lock),
        Request::LockWaits { of } => lock::waits(cx, &of),
        Request::Reserve { id } => append::reserve(cx, req, id).await,
        Request::Unreserve { id } => append::unreserve(cx, req, id),
        Request::WriteBack { id, changed_at } => pages::write_back(cx, req, id, changed_at).await,
        Request::WrittenBack { id, wrote } => pages::unchanged(cx, req, id, wrote),
        Request::Map { id } => pages::map(cx, req, id).await,
        Request::Sync { id } => sync::run(cx, req, id).await,
        Request::Attach { again } => Box::pin(crate::coord::sessions::attach(cx, req, again)).await,
        Request::Renew => crate::coord::sessions::renew(cx, req),
        Request::RenewAlone => crate::coord::alone::renew(cx, req),
        Request::HandBack { alone } => crate::coord::alone::handed_back(cx, req, alone),
        Request::Detach { gone } => crate::coord::sessions::detach(cx, req, gone),
        Request::DataRef { id } => getattr::data_ref(cx, req, id).await,
        Request::SetXattr { id, name, value, flags } => {
            Box::pin(xattr::change(cx, req, id, name, xattr::Change::Set(value, flags))).await
        }
        Request::GetXattr { id, name } => xattr::get(cx, req, id, &name).await,
        Request::ListXattr { id } => xattr::list(cx, req, id).await,
        Request::RemoveXattr { id, name, open_for_write } => {
            Box::pin(xattr::change(cx, req, id, name, xattr::Change::Remove { open_for_write })).await
        }
        Request::TmpFile { parent, slot, node } => tmpfile::run(cx, req, parent, slot, &node).await,
    }
}

/// Ends a request; its reply is sent if it is `unsent`.
fn conclude(core: &mut Core, cx: &Cx, req: &Req, outcome: Step, unsent: bool) {
    core.state.running.remove(&(req.session, req.seq));
    let reply = match outcome {
        Ok(reply) => reply,
        Err(Stop::Errno(errno)) => Reply::Failed { errno },
        Err(Stop::NeedCaller { gids, caps }) => Reply::NeedCaller { gids, caps },
        Err(Stop::Refused(why)) => Reply::Refused { why },
        Err(Stop::Late) => Reply::Busy,
        Err(Stop::Again(reply)) => {
            // Its record is one of those so far, which no lock tells: whoever hears of the change only now learns from a later
            // fsync if it is lost.
            let all = core.state.record_seq;
            core.rest_on(cx.op(), all);
            return packets::reply(core, cx.op(), req, &reply);
        }
        Err(Stop::Answered) => return kinds::count(core, req.kind, req.since_us, Outcome::Ok),
        Err(Stop::Over) => return,
    };
    kinds::count_reply(core, req, &reply);
    // What left no record is remembered all the same, a question too: the client goes on under another number, and a
    // late copy of this request must not be executed then. A queued lock is not answered yet. Of who has not joined nothing is remembered.
    if req.remembered
        && (!req.must_live || living::lives(core, req.number()))
        && !planted::is(Planted::ForgetfulOfFailures)
        && reply != Reply::Queued
        && matches!(core.state.replies.seen(req.session, req.seq), Seen::New)
    {
        core.state.replies.remember(req.session, req.seq, req.oldest, reply.clone(), false);
    }
    if unsent {
        packets::reply(core, cx.op(), req, &reply);
    }
}
