//! The session as its host sees it: a [`Role`] between a mount (or any embedding program) and the cluster.

use crate::fs::{FsRequest, FsResult};
use crate::input::on_input;
use crate::ops::run;
use crate::state::{Job, State};
use crate::ways::KeptWays;
use onpath_kernel::{Input, Kernel, Now, Output, Role};
use onpath_wire::caller::Caps;
use onpath_wire::errno::Errno;
use onpath_wire::identity::Identity;
use onpath_wire::ids::{AloneId, InodeId, NodeId, RequestSeq, SessionNumber};
use onpath_wire::limits::SESSION_QUEUE_MAX;
use onpath_wire::map::ClusterMap;
use thiserror::Error;

/// What a session is made from.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Which session it is, from a durable counter: none was it before.
    pub session: SessionNumber,
    /// Cluster (file system) number of the header.
    pub cluster: u32,
    /// Which shard holds which slot.
    pub map: ClusterMap,
    /// `-o soft`: requests to a dead server end with EIO instead of waiting for it.
    pub soft: bool,
    /// Whose access times move.
    pub access_times: AccessTimes,
    /// Replies wait for the disk: an open(2) that creates comes in two halves, so that the wait does not hold the directory up.
    pub in_halves: bool,
    /// Its mount caches answers while no other session is there, and obeys [`SessionOut::Share`].
    pub caches: bool,
    /// Who it is, if hosts let it be nobody else: whoever its callers are, it asks as that. Then it does not cache, nor open in halves, for
    /// which it would have to be believed.
    pub identity: Option<Identity>,
    /// Ways that it keeps for those of its callers who name files by paths.
    pub kept_ways: KeptWays,
}

/// When reading moves access times, as of mount(8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessTimes {
    /// Never (noatime, or a read-only mount).
    pub never: bool,
    /// Not those of directories (nodiratime).
    pub not_of_directories: bool,
    /// At every read (strictatime), and not only after a change or a day (relatime).
    pub always: bool,
}

/// What a session wants to know of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallerQuestion {
    /// Thread id.
    pub pid: u32,
    /// The user id that the caller's request tells. Whoever has another one by now asked with ids that are not its own.
    pub uid: u32,
    /// Which capabilities decide: bits of [`onpath_wire::caller::cap`], each of which is enough.
    pub caps: u32,
    /// A supplementary group that decides unless one of `caps` is there, the first one if several do; none if groups do not.
    pub group: Option<u32>,
}

/// What can be seen of a caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadCaller {
    /// All supplementary gids, where they were read: none if they cannot be.
    pub groups: Option<Vec<u32>>,
    /// Capabilities: not had where they cannot be seen, not known where they were not asked for.
    pub caps: Caps,
}

/// Inputs of a session.
#[derive(Debug)]
pub enum SessionIn {
    /// A request of the mount.
    Fs(FsRequest),
    /// The answer to [`SessionOut::ReadCaller`].
    Caller {
        /// Of the question.
        ticket: u64,
        /// What was read.
        read: ReadCaller,
    },
    /// The answer to [`SessionOut::HowItWaits`].
    WaitsAs {
        /// Of the question.
        ticket: u64,
        /// Whether it waits for a lock of its process (F_SETLKW), and not for one of an open file; nothing if that cannot be seen.
        process: Option<bool>,
    },
    /// What [`SessionOut::Share`] asks for is done.
    Shared,
    /// The mount goes by other options now (`mount -o remount,…`): whose access times move.
    AccessTimes(AccessTimes),
    /// What [`SessionOut::WriteBack`] asks for is done.
    WrittenBack {
        /// The inode.
        id: InodeId,
    },
    /// The stream to this peer was rebuilt: what is open there is sent again.
    PeerReset(NodeId),
    /// The answer to [`SessionOut::Expired`], or news of the host: from now on it is this session, as which it joins.
    Anew {
        /// None was it before.
        session: SessionNumber,
    },
    /// Leave the file system; ends with [`SessionOut::Lost`] of [`LostReason::Detached`].
    Shutdown,
}

/// Outputs of a session.
#[derive(Debug)]
pub enum SessionOut {
    /// The answer to a request.
    Reply {
        /// Of the request.
        unique: u64,
        /// The answer.
        result: FsResult,
    },
    /// What is there to know of this thread? Answered by [`SessionIn::Caller`].
    ReadCaller {
        /// To be given back.
        ticket: u64,
        /// What.
        question: CallerQuestion,
    },
    /// For which kind of fcntl lock does this thread wait? The kernel does not say. Answered by [`SessionIn::WaitsAs`].
    HowItWaits {
        /// To be given back.
        ticket: u64,
        /// Thread id.
        pid: u32,
    },
    /// The session is part of the file system.
    Attached,
    /// No other session is in the file system: until then, monotonic microseconds, answers may be given to be cached for
    /// [`CACHED_MS`](onpath_wire::limits::CACHED_MS).
    Alone {
        /// Number of this time of being alone.
        alone: AloneId,
        /// When that ends, unless it is said anew.
        until_us: u64,
    },
    /// Another session wants to join: from now on nothing is given to be cached, and what was is forgotten. Answered by
    /// [`SessionIn::Shared`] when nothing that was cached can be used any more.
    Share {
        /// All times of being alone up to this number are over.
        upto: AloneId,
        /// The inodes of which there are handles, and whether pages of them may be cached.
        open: Vec<(InodeId, bool)>,
    },
    /// What was cached may not be true any more, as a server has lost what it had answered: names and the attributes of these inodes.
    Forget {
        /// The inodes of which there are handles, and whether pages of them may be cached.
        open: Vec<(InodeId, bool)>,
    },
    /// Cached pages of this inode are stale although size and mtime do not show it (mtime was set back elsewhere).
    Invalidate {
        /// The inode.
        id: InodeId,
    },
    /// Another session is about to change bytes of this inode: pages that were changed in memory are to be written back, and all
    /// forgotten. Answered by [`SessionIn::WrittenBack`].
    WriteBack {
        /// The inode.
        id: InodeId,
    },
    /// The session was declared dead while nobody heard of it, its locks and opens are gone. Answered by [`SessionIn::Anew`] as soon
    /// as there is another id; requests wait until then.
    Expired,
    /// The session is over; every further request ends with ENOTCONN.
    Lost(LostReason),
}

/// Why a session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LostReason {
    /// It was told to leave.
    #[error("the session has left the file system")]
    Detached,
    /// The coordinator refused it.
    #[error("the coordinator refused the session: {0}")]
    Refused(Errno),
}

/// A client session.
pub struct Session {
    pub(crate) kernel: Kernel<State>,
    started: bool,
}

impl Session {
    /// A session that attaches itself at its first input; requests wait until it has.
    pub fn new(config: SessionConfig) -> Session {
        let kernel = Kernel::new(State::new(config), RequestSeq(0), false, run);
        Session { kernel, started: false }
    }

    /// Named counters, for `onpath status`.
    pub fn status(&self) -> Vec<(&'static str, u64)> {
        let places = self.kernel.places() as u64;
        self.kernel.with(|core| core.state.status(places))
    }

    /// Whether another request is welcome; a mount that reads on all the same gets EAGAIN for it.
    pub fn has_room(&self) -> bool {
        self.kernel.with(|core| core.state.queue.len() < SESSION_QUEUE_MAX)
    }
}

impl Role for Session {
    type In = SessionIn;
    type Out = SessionOut;

    fn handle(&mut self, now: Now, input: Input<SessionIn>) {
        if !self.started {
            self.started = true;
            self.kernel.handle(now, Input::Tick, |core, _| core.start(Job::Attach { again: false }));
        }
        self.kernel.handle(now, input, on_input);
    }

    fn poll_output(&mut self) -> Option<Output<SessionOut>> {
        self.kernel.poll_output()
    }

    fn next_deadline(&self) -> Option<u64> {
        if self.started { self.kernel.next_deadline() } else { Some(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::limits::memory;
    use onpath_wire::secrets::Secrets;

    #[test]
    fn a_place_for_an_operation_is_as_small_as_said() {
        let config = SessionConfig {
            session: SessionNumber(1),
            cluster: 0,
            map: ClusterMap::even(1, Secrets::of_seed(0).placement),
            soft: false,
            access_times: AccessTimes::default(),
            in_halves: false,
            caches: false,
            identity: None,
            kept_ways: KeptWays::default(),
        };
        let place = Session::new(config).kernel.place_bytes() as u64;
        // What rarely waits is boxed, and no larger than what is not.
        assert!(2 * place <= memory::REQUEST_AT_SESSION, "{place} bytes");
    }
}
