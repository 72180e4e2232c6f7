//! The operations: one file a family, each a straight line of questions to shards and data nodes.

mod allocate;
pub(crate) mod alone;
pub(crate) mod anew;
mod attr;
mod copy;
mod deadlock;
mod dir;
pub(crate) mod exact;
pub(crate) mod halves;
pub(crate) mod hot;
pub(crate) mod kept;
pub(crate) mod later;
mod lease;
pub(crate) mod lock;
mod misc;
mod namei;
pub(crate) mod open;
pub(crate) mod pages;
mod read;
mod restore;
mod seek;
mod stale;
mod sum;
mod write;
mod xattr;

use crate::fs::{FsOp, FsRequest, FsResult};
use crate::input::finish;
use crate::op::Op;
use crate::running::Slot;
use crate::state::{Job, State};
use onpath_kernel::Cx;
use onpath_wire::errno::Errno;
use onpath_wire::inode::Kind;

/// Turns a job into its operation.
pub(crate) async fn run(cx: Cx<State>, job: Job) {
    match job {
        Job::Fs(slot, request) => serve(cx, slot, request).await,
        // Rare ones are boxed, so that the place of an operation stays as small as the common ones need.
        other => Box::pin(background(Op::background(cx), other)).await,
    }
}

async fn background(mut op: Op, job: Job) {
    match job {
        Job::Fs(..) => unreachable!("requests are served above"),
        Job::Attach { again } => lease::attach(&mut op, again).await,
        Job::Renew => lease::renew(&mut op).await,
        Job::AskAlone => alone::ask_now(&mut op).await,
        Job::HandBack(id) => alone::hand_back(&mut op, id).await,
        Job::Visit => lease::visit(&op).await,
        Job::Detach => lease::detach(&mut op).await,
        Job::Reopen => anew::reopen(&mut op).await,
        Job::Restore { shard, term } => restore::restore(&op, shard, term).await,
        Job::RegisterOpens => restore::register(&op).await,
        Job::Relock => restore::relock(&op).await,
        Job::HearWays => namei::hear_ways(&mut op).await,
        Job::AskKept { node } => kept::ask(&op, node).await,
        Job::HearToken { dir } => hot::hear_token(&mut op, dir).await,
        Job::Greet { shard } => lease::greet(&mut op, shard).await,
        Job::Resend { shard } => op.with(|core| crate::input::resend(core, shard)),
        Job::Accessed { id } => attr::accessed(&mut op, id).await,
        Job::Close { id } => open::close(&mut op, id).await,
        Job::EndHalves => halves::end(&op).await,
        Job::TellLater => later::tell(&op).await,
        Job::WrittenBack { id, wrote } => pages::tell(&mut op, id, wrote).await,
        Job::Unreserve { id } => write::unreserve(&mut op, id).await,
        Job::WatchLocks => lock::watch(&op).await,
        Job::RenewWait(seq) => lock::renew_wait(op, seq).await,
        Job::CancelWait(seq) => lock::cancel(op, seq, Errno::EINTR).await,
        Job::SeekDeadlock { unique, after_us } => deadlock::seek(op, unique, after_us).await,
        Job::CancelTimeout(seq) => lock::cancel_timeout(&op, seq).await,
        Job::GiveBack { id, lock } => lock::give_back(&mut op, id, lock).await,
        Job::Interrupt { slot, unique } => misc::interrupt(&op, slot, unique).await,
    }
}

/// Serves one request of the mount and answers it.
async fn serve(cx: Cx<State>, slot: Slot, request: FsRequest) {
    let unique = request.unique;
    let mut op = Op::new(cx, slot, request.caller);
    op.by_ways = request.by_ways;
    let mut result = match request.op {
        FsOp::Lookup { parent, name } => Some(namei::lookup(&mut op, parent, name).await),
        FsOp::GetAttr { id, handle } => Some(attr::getattr(&mut op, id, handle).await),
        FsOp::SetLock { handle, lock, wait } => Box::pin(lock::set(&mut op, unique, handle, lock, wait)).await,
        other => Some(Box::pin(serve_more(&mut op, other)).await),
    };
    if op.by_ways.is_some() {
        // Nobody was asked, and so nobody has looked whether the ways are right.
        result = Some(Err(Errno::ERESTART));
    }
    op.with(|core| finish(core, slot, unique, result));
}

async fn serve_more(op: &mut Op, request: FsOp) -> FsResult {
    match request {
        FsOp::LookupId { id } => namei::lookup_id(op, id).await,
        FsOp::Resolve { from, names, look, kept } => namei::resolve(op, from, names, look, kept).await,
        FsOp::LookupParent { id } => namei::lookup_parent(op, id).await,
        FsOp::Make { parent, name, kind: Kind::File, mode, umask, .. } if op.makes_in_halves() => {
            halves::first(op, parent, name, mode, umask).await
        }
        FsOp::Create { .. } if op.makes_in_halves() => Err(Errno::ENOSYS),
        FsOp::Make { parent, name, kind, mode, umask, rdev, target } => {
            namei::make(op, parent, name, namei::node(kind, mode, umask, rdev, target)).await
        }
        FsOp::Create { parent, name, mode, umask, open } => open::create(op, parent, name, mode, umask, open).await,
        FsOp::TmpFile { parent, mode, umask, open } => open::tmpfile(op, parent, mode, umask, open).await,
        FsOp::Link { id, parent, name } => namei::link(op, id, parent, name).await,
        FsOp::Unlink { parent, name } => namei::unlink(op, parent, name).await,
        FsOp::Rmdir { parent, name } => namei::rmdir(op, parent, name).await,
        FsOp::Rename { from_parent, from, parent, name, flags } => {
            namei::rename(op, (from_parent, from), (parent, name), flags).await
        }
        FsOp::SetAttr { id, set, handle } => attr::setattr(op, id, set, handle).await,
        FsOp::ReadLink { id } => attr::readlink(op, id).await,
        FsOp::Access { id, mask } => attr::access(op, id, mask).await,
        FsOp::Open { id, mode } => open::open(op, id, mode).await,
        FsOp::OpenDir { id, noatime } => open::opendir(op, id, noatime).await,
        FsOp::Flush { handle, lock_owner } => open::flush(op, handle, lock_owner).await,
        FsOp::Release { handle, flock_owner } => open::release(op, handle, flock_owner).await,
        FsOp::ReleaseDir { handle } => open::release(op, handle, None).await,
        FsOp::Read { handle, offset, bytes, page } => read::read(op, handle, offset, bytes, page).await,
        FsOp::Write { handle, offset, data, append, kill_suidgid, page } => {
            let at = if append { write::At::End } else { write::At::Offset(offset) };
            write::write(op, handle, at, data, write::How { kill_suidgid, append, page }).await
        }
        FsOp::Allocate { handle, mode, offset, bytes } => allocate::allocate(op, handle, mode, offset, bytes).await,
        FsOp::Seek { handle, offset, hole } => seek::seek(op, handle, offset, hole).await,
        FsOp::Copy { from, from_offset, handle, offset, bytes } => {
            copy::copy(op, (from, from_offset), (handle, offset), bytes).await
        }
        FsOp::Fsync { handle } => misc::fsync(op, handle).await,
        FsOp::ReadDir { handle, after, bytes } => dir::readdir(op, handle, after, bytes).await,
        FsOp::ReadDirPlus { handle, after, bytes } => dir::readdir_plus(op, handle, after, bytes).await,
        FsOp::StatFs => misc::statfs(op).await,
        FsOp::SetXattr { id, name, value, flags } => xattr::set(op, id, name, value, flags).await,
        FsOp::GetXattr { id, name, probe } => xattr::get(op, id, name, probe).await,
        FsOp::ListXattr { id } => xattr::list(op, id).await,
        FsOp::RemoveXattr { id, name } => xattr::remove(op, id, name).await,
        FsOp::TestLock { handle, lock } => lock::test(op, handle, lock).await,
        FsOp::Lookup { .. } | FsOp::GetAttr { .. } | FsOp::SetLock { .. } | FsOp::Interrupt { .. } => {
            unreachable!("served by its own path")
        }
    }
}
