//! Requests of a session that wait for their answers, each as a future.

use crate::caller::Caller;
use crate::error::{Error, ErrorKind};
use crate::way::Connected;
use futures_channel::oneshot;
use hashbrown::HashMap;
use onpath_host::node::{Effects, Node, Port};
use onpath_session::fs::{FsOp, FsReply, FsRequest, FsResult};
use onpath_session::{ReadCaller, Session, SessionIn, SessionOut};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// A request under way.
struct Waiting {
    caller: Caller,
    answer: oneshot::Sender<FsResult>,
}

#[derive(Default)]
struct Table {
    last: u64,
    waiting: HashMap<u64, Waiting>,
    /// Why the session is over.
    over: Option<String>,
    /// To be told when it is.
    ended: Option<oneshot::Sender<()>>,
}

/// Where requests go.
pub(crate) struct Driven {
    pub(crate) node: Weak<Node>,
    pub(crate) port: Port<Session>,
}

/// The requests of one session.
#[derive(Default)]
pub(crate) struct Requests {
    table: Mutex<Table>,
    driven: OnceLock<Driven>,
    way: OnceLock<Connected>,
}

/// The outputs of the session.
pub(crate) struct Outputs(pub(crate) Arc<Requests>);

impl Requests {
    /// Where requests go from now on; said once.
    pub(crate) fn drive(&self, driven: Driven) {
        assert!(self.driven.set(driven).is_ok(), "a session is driven once");
    }

    /// The way on which the session may be joined anew; said once.
    pub(crate) fn connected(&self, way: Connected) {
        assert!(self.way.set(way).is_ok(), "a session has one way");
    }

    pub(crate) fn way(&self) -> Option<&Connected> {
        self.way.get()
    }

    /// Asks the session. The request is on its way when this returns; the answer of one that nobody waits for is dropped, and a handle
    /// that it opens is closed.
    pub(crate) fn ask(
        &self,
        caller: &Caller,
        op: FsOp,
    ) -> impl Future<Output = Result<FsReply, Error>> + Send + 'static + use<> {
        let asked = self.begin(caller, op);
        async move {
            match asked?.await {
                Ok(result) => Ok(result?),
                Err(oneshot::Canceled) => Err(Error::new(ErrorKind::Over("its process ends".to_owned()))),
            }
        }
    }

    fn begin(&self, caller: &Caller, op: FsOp) -> Result<oneshot::Receiver<FsResult>, Error> {
        let over = |why: &str| Error::new(ErrorKind::Over(why.to_owned()));
        let (answer, answered) = oneshot::channel();
        let unique = {
            let mut table = self.lock();
            if let Some(why) = &table.over {
                return Err(over(why));
            }
            table.last += 1;
            let unique = table.last;
            table.waiting.insert(unique, Waiting { caller: caller.clone(), answer });
            unique
        };
        // The session asks by this number for what decides and is not told with each request.
        let caller = caller.asks(ticket_of(unique));
        match self.submit(SessionIn::Fs(FsRequest { unique, caller, op })) {
            true => Ok(answered),
            false => Err(over("it was closed")),
        }
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

    fn complete(&self, unique: u64, result: FsResult, done: &mut Vec<SessionIn>) {
        let waiting = self.lock().waiting.remove(&unique);
        let Some(waiting) = waiting else { return };
        let unheard = waiting.answer.send(result).err();
        let handle = match unheard {
            Some(Ok(FsReply::Opened(opened) | FsReply::Created { opened, .. })) => opened.handle,
            _ => return,
        };
        let caller = waiting.caller.asks(ticket_of(unique));
        let op = FsOp::Release { handle, flock_owner: None };
        done.push(SessionIn::Fs(FsRequest { unique: self.number(), caller, op }));
    }

    fn number(&self) -> u64 {
        let mut table = self.lock();
        table.last += 1;
        table.last
    }

    fn read_caller(&self, question: &onpath_session::CallerQuestion) -> ReadCaller {
        let table = self.lock();
        let of = table.waiting.iter().find(|(unique, _)| ticket_of(**unique) == question.pid);
        // A request that nobody waits for is nobody's.
        of.map_or_else(|| Caller::default().answer(question), |(_, waiting)| waiting.caller.answer(question))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().expect("requests do not panic")
    }
}

/// By what the session asks for more of the caller of a request: never 0.
fn ticket_of(unique: u64) -> u32 {
    (unique % u64::from(u32::MAX)) as u32 + 1
}

impl Effects<Session> for Outputs {
    fn perform(&self, out: SessionOut, done: &mut Vec<SessionIn>) {
        let Outputs(requests) = self;
        match out {
            SessionOut::Reply { unique, result } => requests.complete(unique, result, done),
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
                requests.way().into_iter().for_each(Connected::begin_anew);
            }
            SessionOut::Lost(reason) => requests.end(&reason.to_string()),
        }
    }
}
