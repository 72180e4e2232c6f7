//! Which kinds of answers a request may get at all, whatever is in them.

use crate::client::Asked;
use onpath_wire::reply::Reply;
use onpath_wire::request::{LockKind, Request};

/// Whether an answer is of a kind that answers this question.
pub(super) fn may_answer(asked: &Asked, reply: &Reply) -> bool {
    let request = &asked.body.request;
    match reply {
        _ if asked.write.is_some() => answers_write(reply),
        // of any request, whatever it is.
        Reply::NewTerm { .. } => true,
        // Of any that rests on ways.
        Reply::Behind { .. } => true,
        Reply::Failed { .. } => !matches!(request, Request::StatFs | Request::GetAttrs { .. } | Request::Kept),
        Reply::NeedCaller { .. } => depends_on_caller(request),
        // Too much is under way, or the lease of its session is over.
        Reply::Busy => request.describe().waits || request.describe().leased,
        _ => is_result(request, reply),
    }
}

/// Of a write of bytes, which its data node tells the home.
fn answers_write(reply: &Reply) -> bool {
    matches!(
        reply,
        Reply::Written { .. }
            | Reply::WrittenLent { .. }
            | Reply::WrittenBesidePages { .. }
            | Reply::Stale { .. }
            | Reply::Failed { .. }
    )
}

/// Whether it may turn on who asks.
fn depends_on_caller(request: &Request) -> bool {
    match request {
        Request::Lookup { .. }
        | Request::LookupLed { .. }
        | Request::SetAttr { .. }
        | Request::Create { .. }
        | Request::Link { .. }
        | Request::Unlink { .. }
        | Request::Rmdir { .. }
        | Request::Rename { .. }
        | Request::TmpFile { .. }
        | Request::Open { .. }
        | Request::OpenAgain { .. }
        | Request::Access { .. }
        | Request::SetXattr { .. }
        | Request::GetXattr { .. }
        | Request::ListXattr { .. }
        | Request::RemoveXattr { .. }
        | Request::Resolve { .. } => true,
        Request::GetAttr { .. }
        | Request::DataRef { .. }
        | Request::GetAttrs { .. }
        | Request::ReadDir { .. }
        | Request::ReadLink { .. }
        | Request::Release { .. }
        | Request::StatFs
        | Request::SetLock { .. }
        | Request::TestLock { .. }
        | Request::CancelLock { .. }
        | Request::DropLocks { .. }
        | Request::ConfirmWait { .. }
        | Request::LockWaits { .. }
        | Request::Reserve { .. }
        | Request::Unreserve { .. }
        | Request::Sync { .. }
        | Request::Attach { .. }
        | Request::Renew
        | Request::RenewAlone
        | Request::HandBack { .. }
        | Request::Detach { .. }
        | Request::Kept
        | Request::WriteBack { .. }
        | Request::WrittenBack { .. }
        | Request::Learn { .. }
        | Request::Map { .. } => false,
    }
}

/// Whether it is what a request is answered that was executed.
fn is_result(request: &Request, reply: &Reply) -> bool {
    match request {
        Request::Lookup { .. } | Request::LookupLed { .. } => matches!(reply, Reply::Entry { .. } | Reply::Missing),
        // Whether that is so only its user knows.
        Request::Resolve { names, look, tell, .. } => match reply {
            Reply::Resolved { names: followed, .. } => *followed as usize <= names.len(),
            Reply::Entry { .. } | Reply::Missing => *look,
            Reply::Led { reply, .. } => {
                let is_told = matches!(Reply::inside(reply), Some(Reply::Entry { .. } | Reply::Missing));
                *look && *tell && is_told
            }
            _ => false,
        },
        Request::Create { .. } => matches!(reply, Reply::Entry { .. } | Reply::CreatedLent { .. }),
        Request::Link { .. } | Request::TmpFile { .. } => matches!(reply, Reply::Entry { .. }),
        Request::GetAttr { .. }
        | Request::SetAttr { .. }
        | Request::Open { .. }
        | Request::OpenAgain { .. }
        | Request::DataRef { .. }
        | Request::SetXattr { .. }
        | Request::RemoveXattr { .. } => matches!(reply, Reply::Attr { .. }),
        Request::Unlink { .. }
        | Request::Rmdir { .. }
        | Request::Rename { .. }
        | Request::Release { .. }
        | Request::Access { .. }
        | Request::DropLocks { .. }
        | Request::ConfirmWait { .. }
        | Request::Unreserve { .. }
        | Request::Sync { .. }
        | Request::Renew
        | Request::HandBack { .. }
        | Request::Detach { .. }
        | Request::WrittenBack { .. }
        | Request::Map { .. } => *reply == Reply::Done,
        Request::ReadDir { .. } => matches!(reply, Reply::Dir { .. }),
        Request::ReadLink { .. } => matches!(reply, Reply::Target { .. }),
        Request::StatFs => matches!(reply, Reply::StatFs { .. }),
        // One place for each that was asked about.
        Request::GetAttrs { ids } => matches!(reply, Reply::Attrs { attrs } if attrs.len() == ids.len()),
        // Whoever asks for a lock may wait for it; who does not want to, for the end of the grace after a restart.
        Request::SetLock { lock, again, .. } => match reply {
            Reply::Done => true,
            Reply::Queued | Reply::Granted => !again && lock.kind != LockKind::Unlock,
            _ => false,
        },
        Request::TestLock { .. } => matches!(reply, Reply::LockIs { .. }),
        Request::CancelLock { .. } => matches!(reply, Reply::Done | Reply::Granted),
        Request::LockWaits { .. } => matches!(reply, Reply::LockWaits { .. }),
        Request::Reserve { .. } => matches!(reply, Reply::Reserved { .. }),
        Request::Attach { .. } => matches!(reply, Reply::Attached { .. }),
        Request::RenewAlone => matches!(reply, Reply::Renewed { .. }),
        Request::Kept => matches!(reply, Reply::Kept { .. }),
        Request::GetXattr { .. } | Request::ListXattr { .. } => matches!(reply, Reply::Value { .. }),
        Request::WriteBack { .. } => matches!(reply, Reply::PagesBack { .. }),
        // The home answers as the data node.
        Request::Learn { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Write;
    use crate::model::Caller;
    use onpath_wire::ids::{AloneId, InodeId, RecordSeq, SessionId, Term};
    use onpath_wire::reply::DataRef;
    use onpath_wire::request::{FileLock, RequestBody};
    use std::rc::Rc;

    fn asked(request: Request) -> Rc<Asked> {
        Asked::new(Caller::default(), request)
    }

    fn lock(kind: LockKind, again: bool) -> Request {
        let lock = FileLock { flock: false, kind, start: 0, end: 9, owner: 1, pid: 1 };
        Request::SetLock { id: InodeId::ROOT, lock, wait: false, again }
    }

    /// Answers whose contents the model does not know, each with a question that it answers.
    fn unknown() -> Vec<(Request, Reply)> {
        let id = InodeId::ROOT;
        vec![
            (Request::StatFs, Reply::StatFs { inodes: 1, blocks: 1 }),
            (Request::GetAttrs { ids: vec![id] }, Reply::Attrs { attrs: vec![None] }),
            (lock(LockKind::Write, false), Reply::Done),
            (Request::LockWaits { of: vec![] }, Reply::LockWaits { edges: vec![] }),
            (Request::Reserve { id }, Reply::Reserved { offset: 0, data: DataRef::default() }),
            (Request::Attach { again: false }, Reply::Attached { session: SessionId(1), lease_ms: 1 }),
            (Request::RenewAlone, Reply::Renewed { alone: AloneId(0) }),
            (Request::Kept, Reply::Kept { since: Term(1), upto: RecordSeq(0) }),
            (Request::WriteBack { id, changed_at: None }, Reply::PagesBack { again: false }),
        ]
    }

    #[test]
    fn an_answer_to_another_question_is_none() {
        let all = unknown();
        for (n, (request, _)) in all.iter().enumerate() {
            let right =
                |(m, (_, reply)): (usize, &(Request, Reply))| may_answer(&asked(request.clone()), reply) == (n == m);
            assert!(all.iter().enumerate().all(right), "{request:?}");
        }
    }

    #[test]
    fn only_what_waits_or_needs_a_lease_is_put_off() {
        let id = InodeId::ROOT;
        for request in [lock(LockKind::Read, false), Request::GetAttr { id }, Request::Map { id }] {
            assert!(may_answer(&asked(request), &Reply::Busy));
        }
        for request in
            [Request::Release { id }, Request::StatFs, Request::Renew, Request::WrittenBack { id, wrote: true }]
        {
            assert!(!may_answer(&asked(request), &Reply::Busy));
        }
    }

    #[test]
    fn who_has_a_lock_or_frees_it_does_not_wait_for_it() {
        for reply in [Reply::Queued, Reply::Granted] {
            assert!(may_answer(&asked(lock(LockKind::Write, false)), &reply));
            assert!(!may_answer(&asked(lock(LockKind::Write, true)), &reply));
            assert!(!may_answer(&asked(lock(LockKind::Unlock, false)), &reply));
        }
    }

    #[test]
    fn a_write_is_answered_otherwise_than_a_question_about_its_file() {
        let body = RequestBody::of_session(Request::DataRef { id: InodeId::ROOT });
        let write = Asked { caller: Caller::default(), body, write: Some(Write { end: 1, kill_suidgid: false }) };
        let question = asked(Request::DataRef { id: InodeId::ROOT });
        for reply in [Reply::Written { size: 1 }, Reply::Stale { data: DataRef::default() }] {
            assert!(may_answer(&write, &reply) && !may_answer(&question, &reply));
        }
        assert!(!may_answer(&write, &Reply::Done));
    }
}
