//! Requests of a session that wait for their answers, each as a future.

use crate::caller::Caller;
use crate::counters::{Counters, Counting, add};
use crate::error::{Error, ErrorKind};
use crate::way::Connected;
use futures_channel::oneshot;
use hashbrown::HashMap;
use onpath_host::node::{Effects, Node, Port};
use onpath_session::fs::{FsOp, FsReply, FsRequest, FsResult, Handle, WaysAt};
use onpath_session::protected::Levels;
use onpath_session::{CallerQuestion, ReadCaller, Session, SessionIn, SessionOut};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// Requests under way at a time; more are refused.
const UNDER_WAY_MAX: usize = 1 << 16;

/// A request under way.
struct Waiting {
    caller: Caller,
    answer: oneshot::Sender<Answered>,
}

/// An answer on its way to who waits for it. If nobody takes it, what it has opened is closed.
struct Answered {
    result: Option<FsResult>,
    requests: Weak<Requests>,
}

impl Drop for Answered {
    fn drop(&mut self) {
        let handle = match self.result.take() {
            Some(Ok(FsReply::Opened(opened) | FsReply::Created { opened, .. })) => opened.handle,
            _ => return,
        };
        self.requests.upgrade().into_iter().for_each(|requests| requests.release(handle));
    }
}

#[derive(Default)]
struct Table {
    /// Of the latest request: also what the session asks by for what decides and is not told with each request, so never 0.
    last: u32,
    waiting: HashMap<u32, Waiting>,
    /// The last group that has decided what a caller may.
    decided: Option<u32>,
    /// Why the session is over.
    over: Option<String>,
    /// To be told when it is.
    ended: Option<oneshot::Sender<()>>,
}

impl Table {
    fn next(&mut self) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1).max(1);
            if !self.waiting.contains_key(&self.last) {
                return self.last;
            }
        }
    }
}

/// Where requests go.
pub(crate) struct Driven {
    pub(crate) node: Weak<Node>,
    pub(crate) port: Port<Session>,
}

/// The requests of one session.
pub(crate) struct Requests {
    table: Mutex<Table>,
    driven: OnceLock<Driven>,
    way: OnceLock<Connected>,
    /// What this host protects of others' files.
    pub(crate) levels: Levels,
    pub(crate) counting: Counting,
}

/// The outputs of the session.
pub(crate) struct Outputs(pub(crate) Arc<Requests>);

impl Requests {
    pub(crate) fn new() -> Requests {
        Requests {
            table: Mutex::default(),
            driven: OnceLock::new(),
            way: OnceLock::new(),
            levels: Levels::read(|file| std::fs::read_to_string(file).ok()),
            counting: Counting::default(),
        }
    }

    /// Where requests go from now on; said once.
    pub(crate) fn drive(&self, driven: Driven) {
        assert!(self.driven.set(driven).is_ok(), "a session is driven once");
    }

    /// What the session has done.
    pub(crate) fn counters(&self) -> Counters {
        let mut counters = self.counting.read();
        let driven = self.driven.get().and_then(|driven| Some((driven.node.upgrade()?, &driven.port)));
        let status = driven.map(|(node, port)| node.with_role(port, |session| session.status())).unwrap_or_default();
        for (name, value) in status {
            match name {
                "ways_followed" => counters.paths_kept = value,
                "ways_behind" => counters.paths_behind = value,
                _ => {}
            }
        }
        counters
    }

    /// The way on which the session may be joined anew; said once.
    pub(crate) fn connected(&self, way: Connected) {
        assert!(self.way.set(way).is_ok(), "a session has one way");
    }

    pub(crate) fn way(&self) -> Option<&Connected> {
        self.way.get()
    }

    /// Asks the session. The request is on its way when this returns, and is done whether or not somebody waits for its answer.
    pub(crate) fn ask(
        self: &Arc<Self>,
        caller: &Caller,
        op: FsOp,
        by_ways: Option<WaysAt>,
    ) -> impl Future<Output = Result<FsReply, Error>> + Send + 'static + use<> {
        let asked = self.begin(caller, op, by_ways);
        async move {
            match asked?.await {
                Ok(mut answered) => Ok(answered.result.take().expect("taken once")?),
                Err(oneshot::Canceled) => Err(Error::new(ErrorKind::Over("it was closed".to_owned()))),
            }
        }
    }

    fn begin(&self, caller: &Caller, op: FsOp, by_ways: Option<WaysAt>) -> Result<oneshot::Receiver<Answered>, Error> {
        let over = |why: &str| Error::new(ErrorKind::Over(why.to_owned()));
        let (answer, answered) = oneshot::channel();
        let (number, decided) = {
            let mut table = self.lock();
            if let Some(why) = &table.over {
                return Err(over(why));
            }
            if table.waiting.len() >= UNDER_WAY_MAX {
                return Err(Error::new(ErrorKind::Busy));
            }
            let number = table.next();
            table.waiting.insert(number, Waiting { caller: caller.clone(), answer });
            (number, table.decided)
        };
        add(&self.counting.requests, 1);
        let caller = caller.asks(number, decided, self.levels);
        match self.submit(SessionIn::Fs(FsRequest { unique: number.into(), caller, op, by_ways })) {
            true => Ok(answered),
            false => Err(over("it was closed")),
        }
    }

    /// Closes a handle. Nobody waits for it.
    pub(crate) fn release(&self, handle: Handle) {
        let unique = self.lock().next().into();
        let caller = Caller::default().asks(0, None, self.levels);
        let op = FsOp::Release { handle, flock_owner: None };
        self.submit(SessionIn::Fs(FsRequest { unique, caller, op, by_ways: None }));
    }

    /// Gives something to the session; false if that is gone.
    pub(crate) fn submit(&self, input: SessionIn) -> bool {
        let driven = self.driven.get().and_then(|driven| Some((driven.node.upgrade()?, &driven.port)));
        driven.map(|(node, port)| node.submit(port, input)).is_some()
    }

    /// The session is over; what waits fails.
    pub(crate) fn end(&self, why: &str) {
        let (waiting, ended) = {
            let mut table = self.lock();
            table.over.get_or_insert_with(|| why.to_owned());
            (std::mem::take(&mut table.waiting), table.ended.take())
        };
        drop(waiting);
        ended.into_iter().for_each(|ended| _ = ended.send(()));
    }

    /// Resolves when the session is over.
    pub(crate) fn ended(&self) -> oneshot::Receiver<()> {
        let (ended, when) = oneshot::channel();
        let mut table = self.lock();
        if table.over.is_none() {
            table.ended = Some(ended);
        }
        when
    }

    fn complete(self: &Arc<Self>, unique: u64, result: FsResult) {
        let waiting = self.lock().waiting.remove(&(unique as u32)); // given as such
        let Some(waiting) = waiting else { return };
        add(&self.counting.errors, u64::from(result.is_err()));
        let answered = Answered { result: Some(result), requests: Arc::downgrade(self) };
        let unheard = waiting.answer.send(answered).is_err();
        add(&self.counting.abandoned, u64::from(unheard));
    }

    fn read_caller(&self, question: &CallerQuestion) -> ReadCaller {
        let mut table = self.lock();
        table.decided = question.group.or(table.decided);
        let of = table.waiting.get(&question.pid);
        // A request that nobody waits for is nobody's.
        of.map_or_else(|| Caller::default().answer(), |waiting| waiting.caller.answer())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().expect("requests do not panic")
    }
}

impl Effects<Session> for Outputs {
    fn perform(&self, out: SessionOut, done: &mut Vec<SessionIn>) {
        let Outputs(requests) = self;
        match out {
            SessionOut::Reply { unique, result } => requests.complete(unique, result),
            SessionOut::ReadCaller { ticket, question } => {
                done.push(SessionIn::Caller { ticket, read: requests.read_caller(&question) });
            }
            SessionOut::HowItWaits { ticket, .. } => done.push(SessionIn::WaitsAs { ticket, process: Some(false) }),
            // Nothing is cached here.
            SessionOut::Share { .. } => done.push(SessionIn::Shared),
            SessionOut::WriteBack { id } => done.push(SessionIn::WrittenBack { id }),
            SessionOut::Attached
            | SessionOut::Alone { .. }
            | SessionOut::Forget { .. }
            | SessionOut::Invalidate { .. } => {}
            SessionOut::Expired => {
                tracing::warn!("the session was declared dead while nobody heard of it; joining again");
                add(&requests.counting.joined_anew, 1);
                requests.way().into_iter().for_each(Connected::begin_anew);
            }
            SessionOut::Lost(reason) => requests.end(&reason.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else each path through a directory that a group decides about is followed twice.
    #[test]
    fn a_group_that_has_decided_is_told_with_what_is_asked_next() {
        let requests = Requests::new();
        let member = Caller { uid: 1_000, gid: 100, groups: vec![50, 60], ..Caller::default() };
        let told =
            |requests: &Requests, caller: &Caller| caller.asks(1, requests.lock().decided, requests.levels).known_group;
        assert_eq!(told(&requests, &member), None, "nothing is known yet");
        let (answer, _answered) = oneshot::channel();
        requests.lock().waiting.insert(1, Waiting { caller: member.clone(), answer });
        let asked = |group| requests.read_caller(&CallerQuestion { pid: 1, uid: 1_000, caps: 0, group });
        assert_eq!(asked(Some(60)).groups, Some(vec![50, 60]));
        assert_eq!(told(&requests, &member), Some(60));
        asked(None);
        assert_eq!(told(&requests, &member), Some(60), "capabilities were asked for, and no group");
        asked(Some(70));
        assert_eq!(told(&requests, &member), None, "the caller is no member of the last one");
        let stranger = Caller { uid: 1_001, gid: 70, ..Caller::default() };
        assert_eq!(told(&requests, &stranger), None, "only supplementary groups are told apart");
    }
}
