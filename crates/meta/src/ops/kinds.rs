//! As what an operation is counted, and how it ended.

use super::Req;
use crate::Core;
use onpath_wire::errno::Errno;
use onpath_wire::reply::Reply;
use onpath_wire::report::Outcome;
use onpath_wire::request::Request;

onpath_kernel::kinds! {
    Lookup "lookup", GetAttr "getattr", SetAttr "setattr", Create "create", Link "link", Unlink "unlink", Rmdir "rmdir",
    Rename "rename", Open "open", Release "release", ReadDir "readdir", ReadLink "readlink", Access "access", StatFs "statfs",
    Lock "lock", Append "append", Sync "sync", Session "session", GetXattr "getxattr", SetXattr "setxattr", Pages "pages",
    Merge "merge",
}

impl Kind {
    pub(crate) fn of(request: &Request) -> Kind {
        match request {
            Request::Lookup { .. } => Kind::Lookup,
            Request::GetAttr { .. } | Request::GetAttrs { .. } | Request::DataRef { .. } => Kind::GetAttr,
            Request::SetAttr { .. } => Kind::SetAttr,
            Request::Create { .. } | Request::TmpFile { .. } => Kind::Create,
            Request::Link { .. } => Kind::Link,
            Request::Unlink { .. } => Kind::Unlink,
            Request::Rmdir { .. } => Kind::Rmdir,
            Request::Rename { .. } => Kind::Rename,
            Request::Open { .. } => Kind::Open,
            Request::Release { .. } => Kind::Release,
            Request::ReadDir { .. } => Kind::ReadDir,
            Request::ReadLink { .. } => Kind::ReadLink,
            Request::Access { .. } => Kind::Access,
            Request::StatFs => Kind::StatFs,
            Request::SetLock { .. }
            | Request::TestLock { .. }
            | Request::CancelLock { .. }
            | Request::DropLocks { .. }
            | Request::ConfirmWait { .. }
            | Request::LockWaits { .. } => Kind::Lock,
            Request::Reserve { .. } | Request::Unreserve { .. } => Kind::Append,
            Request::Sync { .. } => Kind::Sync,
            Request::Attach { .. }
            | Request::Renew
            | Request::RenewAlone
            | Request::HandBack { .. }
            | Request::Kept
            | Request::Detach => Kind::Session,
            Request::GetXattr { .. } | Request::ListXattr { .. } => Kind::GetXattr,
            Request::SetXattr { .. } | Request::RemoveXattr { .. } => Kind::SetXattr,
            Request::WriteBack { .. } | Request::WrittenBack { .. } | Request::Map { .. } => Kind::Pages,
        }
    }
}

/// An operation that began then has ended.
pub(crate) fn count(core: &mut Core, kind: Kind, since_us: u64, outcome: Outcome) {
    let took_us = core.now.mono_us.saturating_sub(since_us);
    core.state.meter.count(kind as usize, took_us, outcome);
}

/// A request has got this reply. One that is asked again for it is counted then.
pub(super) fn count_reply(core: &mut Core, req: &Req, reply: &Reply) {
    let outcome = match reply {
        Reply::Failed { errno } => Outcome::of(&Err::<(), Errno>(*errno)),
        Reply::NeedCaller { .. } | Reply::Busy | Reply::NewTerm { .. } | Reply::Stale { .. } => return,
        _ => Outcome::Ok,
    };
    count(core, req.kind, req.since_us, outcome);
}
