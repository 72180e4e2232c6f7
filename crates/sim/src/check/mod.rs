//! The checker: every answer against the model, exactly, by witnesses.
//!
//! The witness of a change is the moment at which its record is appended; changes have one order, that of their
//! witnesses. The witness of a read or a failure is the moment at which a shard puts its reply out, or, if the
//! model says otherwise then, any moment since it was asked (the log of changes is walked back to find one). Where
//! changes are gated, their witness is the moment at which they are exposed.
//! Operations are linearizable if every accepted reply has a witness between question and answer.

mod crashes;
mod digest;
mod excuses;
mod gated;
mod kinds;
mod log;
mod own;
mod promises;
mod queues;
mod reply;
mod rest;
mod writes;

pub use excuses::{Excuse, Excuses, Load};
pub use queues::Queues;
pub use rest::Rest;

use crate::client::{Asked, Write};
use crate::model::{Caller, Decided, Expected, Model};
use gated::Gated;
use log::Log;
use onpath_kernel::Gauge;
use onpath_wire::data::{DataReply, DataRequest};
use onpath_wire::disk::Stored;
use onpath_wire::disk::record::{Answer, Effect, Record};
use onpath_wire::errno::Errno;
use onpath_wire::header::{HEADER_BYTES, MessageKind};
use onpath_wire::ids::{InodeId, NodeId, RequestSeq, SessionId};
use onpath_wire::map::ClusterMap;
use onpath_wire::packet::Packet;
use onpath_wire::reply::Reply;
use onpath_wire::request::{Request, RequestBody, set};
use onpath_wire::secrets::CookieKey;
use promises::Promises;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use writes::{Learned, write_of};
use xxhash_rust::xxh3::xxh3_64;

/// Violations after which no more are noted.
const VIOLATIONS_MAX: usize = 20;
/// Changes between two looks at what of the log may be forgotten.
const TRIM_EVERY: u64 = 256;

/// A request that a client waits for.
struct Pending {
    seq: RequestSeq,
    asked: Rc<Asked>,
    /// Position in the log of changes when it was asked.
    invoked: u64,
    /// Its change.
    witness: Option<Witness>,
    /// Hashes of replies found right, and whether each stands for the change.
    valid: SmallVec<[(u64, bool); 2]>,
    /// Hashes of replies that stood for a change which a power loss took back after they may have left.
    excused: SmallVec<[u64; 1]>,
    /// The hash of its reply that has left with a mark.
    on_mark: Option<u64>,
    /// What was recorded for it rests on what others had lost by then.
    is_lost: bool,
    /// Times of full disks that were over when it was asked.
    fulls: u64,
    /// Its session has brought the home what a data node has recorded of it: R-17 holds for that, too.
    brought: bool,
    /// A power loss has taken its bytes, and its home has the rest: it is done again when it is repeated.
    hollow: bool,
}

impl Pending {
    fn new(seq: RequestSeq, asked: Rc<Asked>, invoked: u64, fulls: u64) -> Pending {
        let (valid, excused) = (SmallVec::new(), SmallVec::new());
        Pending {
            seq,
            asked,
            invoked,
            witness: None,
            valid,
            excused,
            on_mark: None,
            is_lost: false,
            fulls,
            brought: false,
            hollow: false,
        }
    }
}

/// What is known of a session.
#[derive(Default)]
struct Known {
    pending: Vec<Pending>,
    /// The highest request seen.
    highest: RequestSeq,
}

struct Witness {
    /// Position in the log of changes.
    position: u64,
    expected: Expected,
}

/// Counters of the checker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Changes witnessed.
    pub changes: u64,
    /// Replies compared.
    pub replies: u64,
    /// Unacknowledged or, after a power loss, acknowledged changes that a crash took back.
    pub taken_back: u64,
    /// Changes that were answered before others had their promises of them on stable storage.
    pub intentions: u64,
    /// Answers accepted by clients.
    pub accepted: u64,
    /// Ways that path nodes have led to their ends, and those of them that did not lead there all the while.
    pub ways: u64,
    /// See there.
    pub ways_changed: u64,
    /// Requests that rested on ways which a session had kept.
    pub ways_kept: u64,
    /// Those of them that were not executed, since the ways might not be right any more.
    pub ways_behind: u64,
}

/// An answer without a change that a client has taken, to be judged once more if a crash takes changes back.
struct Taken {
    asked: Rc<Asked>,
    reply: Reply,
    invoked: u64,
    /// Position in the log of changes when it was taken.
    end: u64,
}

/// Answers remembered to be judged once more.
const TAKEN_MAX: usize = 1_024;

/// The checker.
pub struct Checker {
    map: ClusterMap,
    /// The model, as of now.
    pub model: Model,
    log: Log,
    sessions: BTreeMap<SessionId, Known>,
    /// The truth about callers of sessions, by uid.
    users: BTreeMap<u32, Caller>,
    /// The last answers without a change that clients have taken.
    taken: VecDeque<Taken>,
    /// Where the last one was taken that is remembered no more.
    forgotten: u64,
    /// Writes that a power loss took back; the session may have its answer. Where the data node's record survives the home's,
    /// the home hears of them once more.
    reviving: BTreeMap<(SessionId, RequestSeq), Rc<Asked>>,
    /// Those that it has heard of once more, for nobody who waits: a crash that comes before anybody is told takes them back again.
    revived: BTreeSet<(SessionId, RequestSeq)>,
    /// Writes whose records a power loss took from data nodes that had answered them, or were about to.
    gone: BTreeMap<log::At, (SessionId, RequestSeq, Rc<Asked>)>,
    /// That files were read, told by sessions that have left before they were answered.
    left: BTreeMap<(SessionId, RequestSeq), Rc<Asked>>,
    /// Power was lost where commits are not awaited.
    lost_power: bool,
    sizes: own::Sizes,
    /// What participants have promised.
    promises: Promises,
    /// Changes that are recorded and not exposed, in the order of their records.
    gated: VecDeque<Gated>,
    /// What homes have learned of writes that data nodes have answered.
    learned: VecDeque<Learned>,
    /// Times of full disks that began, and those at this moment.
    fulls: (u64, u64),
    /// A hash of what happened in which order, and of a sum of hashes of what was asked and answered meanwhile.
    digest: (u64, u64),
    /// How full everything was.
    pub queues: Queues,
    /// What looked wrong and passed.
    pub excuses: Excuses,
    suffered: Load,
    /// What was found wrong.
    pub violations: Vec<String>,
    /// Counters.
    pub checks: Checks,
}

impl Checker {
    /// A checker of an empty file system with this map in so many processes.
    pub fn new(cookie_key: CookieKey, map: ClusterMap, processes: usize) -> Checker {
        Checker {
            map,
            model: Model::new(cookie_key),
            log: Log::new(processes),
            sessions: BTreeMap::new(),
            users: BTreeMap::new(),
            taken: VecDeque::new(),
            forgotten: 0,
            reviving: BTreeMap::new(),
            revived: BTreeSet::new(),
            gone: BTreeMap::new(),
            left: BTreeMap::new(),
            lost_power: false,
            sizes: own::Sizes::default(),
            promises: Promises::default(),
            gated: VecDeque::new(),
            learned: VecDeque::new(),
            fulls: (0, 0),
            digest: (0, 0),
            queues: Queues::default(),
            excuses: Excuses::default(),
            suffered: Load::default(),
            violations: vec![],
            checks: Checks::default(),
        }
    }

    /// Notes something wrong.
    pub fn violation(&mut self, what: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(what);
        }
    }

    /// How full the queues and tables of a node are.
    pub fn look(&mut self, node: NodeId, gauges: &[Gauge]) {
        let wrong = self.queues.look(node, gauges);
        wrong.into_iter().for_each(|what| self.violation(what));
    }

    /// A session asks.
    pub fn asked(&mut self, session: SessionId, seq: RequestSeq, asked: Rc<Asked>) {
        self.meanwhile([1, session.0.into(), seq.0]);
        let (invoked, fulls) = (self.log.end(), self.fulls_over());
        let known = self.sessions.entry(session).or_default();
        known.highest = known.highest.max(seq);
        known.pending.push(Pending::new(seq, asked, invoked, fulls));
    }

    /// The disks of a process are full from now on.
    pub fn full_begins(&mut self) {
        self.fulls = (self.fulls.0 + 1, self.fulls.1 + 1);
    }

    /// They have space again.
    pub fn full_ends(&mut self) {
        self.fulls.1 -= 1;
    }

    /// Times of full disks that are over.
    pub fn fulls_over(&self) -> u64 {
        self.fulls.0 - self.fulls.1
    }

    /// Whether disks were full since so many times of full disks were over.
    pub fn was_full(&self, since: u64) -> bool {
        self.fulls.0 > since
    }

    /// The truth about a caller of sessions.
    pub fn knows(&mut self, caller: &Caller) {
        self.users.insert(caller.uid, caller.clone());
    }

    /// A session sends a message: perhaps a request for the first time; and it waits no more for those before its oldest.
    pub fn sent_by_session(&mut self, packet: &Packet) {
        let Ok(header) = packet.header() else { return self.violation("a session sends what is no packet".into()) };
        let Some(session) = header.source.as_session() else { return };
        let asked = match header.kind() {
            MessageKind::Request => packet.body::<RequestBody>().ok().map(|body| (body, None)),
            MessageKind::Data => packet.body::<DataRequest>().ok().and_then(|request| write_of(&request, packet)),
            _ => None,
        };
        let Some((body, write)) = asked else { return };
        if matches!(body.request, Request::Detach { .. }) {
            self.leaves(session);
        }
        self.retire(session, header.oldest());
        self.brings(session, header.seq, &body.request);
        if self.sessions.entry(session).or_default().highest < header.seq {
            let (uid, gid) = (body.caller.uid, body.caller.gid);
            let known = self.users.get(&uid).filter(|user| user.gid == gid);
            let caller = known.cloned().unwrap_or_else(|| Caller::new(uid, gid));
            self.asked(session, header.seq, Rc::new(Asked { caller, body, write }));
        }
    }

    /// A session leaves without waiting until it is known what it has read: that may become known later.
    fn leaves(&mut self, session: SessionId) {
        let Some(known) = self.sessions.get(&session) else { return };
        let is_read =
            |p: &&Pending| matches!(p.asked.body.request, Request::SetAttr { set, .. } if set.valid & set::READ != 0);
        let unanswered = known.pending.iter().filter(|p| p.witness.is_none() && p.valid.is_empty()).filter(is_read);
        self.left.extend(unanswered.map(|p| ((session, p.seq), p.asked.clone())));
    }

    /// A session has its answers to everything before `oldest`.
    fn retire(&mut self, session: SessionId, oldest: RequestSeq) {
        let known = self.sessions.entry(session).or_default();
        while let Some(index) = known.pending.iter().position(|p| p.seq < oldest) {
            let pending = known.pending.swap_remove(index);
            self.checks.accepted += 1;
            if let Some(witness) = pending.witness {
                self.log.acknowledge(witness.position);
            }
        }
    }

    /// A process has journaled a record at `lsn`.
    pub fn appended(&mut self, process: usize, lsn: u64, by: NodeId, bytes: &[u8]) {
        let record = match Record::from_stored(bytes) {
            Ok(record) => record,
            Err(error) => return self.violation(format!("{by:?} journals what does not decode: {error}")),
        };
        self.promises.note(by, (process, lsn), &record);
        self.learns(by, &record, (process, lsn));
        self.locked_by(by, &record);
        if record.session.0 == 0 || record.answer == Answer::Nothing {
            self.own_work(by, &record, (process, lsn));
            return self.sizes.note(&record, (process, lsn));
        }
        self.sizes.note(&record, (process, lsn));
        match Gated::of(by, (process, lsn), &record, &self.map) {
            Some(gated) => {
                self.happened([2, record.session.0.into(), record.request.0]);
                self.gated.push_back(gated);
            }
            None => self.happens(by, &record, (process, lsn), None),
        }
    }

    /// A recorded change is exposed.
    fn happens(&mut self, by: NodeId, record: &Record, at: (usize, u64), write: Option<log::At>) {
        self.happened([3, record.session.0.into(), record.request.0]);
        let Some(known) = self.sessions.get_mut(&record.session) else { return };
        let reviving = self.reviving.remove(&(record.session, record.request));
        if let Some(asked) = reviving.filter(|_| known.pending.iter().all(|p| p.seq != record.request)) {
            self.revived.insert((record.session, record.request));
            self.excuses.add(Excuse::Revived);
            known.pending.push(Pending::new(record.request, asked, self.log.end(), self.fulls.0));
        }
        if let Some(asked) = self.left.remove(&(record.session, record.request))
            && known.pending.iter().all(|p| p.seq != record.request)
        {
            known.pending.push(Pending::new(record.request, asked, self.log.end(), self.fulls.0));
        }
        let Some(pending) = known.pending.iter_mut().find(|p| p.seq == record.request) else {
            let what = format!("{by:?} executes {:?}/{} which nobody waits for", record.session, record.request);
            return self.violation(what);
        };
        let rests_on = promises::rests_on(&self.promises, by, record);
        self.checks.intentions += u64::from(rests_on.as_ref().is_none_or(|all| !all.is_empty()));
        self.checks.changes += 1;
        let outcome = match rests_on {
            // What is lost with the promise may be what has made it right, so the model is not asked.
            None => is_lost_at_once(pending).map(|()| self.checks.taken_back += 1),
            Some(rests_on) => {
                let rests_on = std::iter::once(at).chain(rests_on).collect();
                witness(&mut self.model, &mut self.log, pending, record, (rests_on, write))
            }
        };
        if let Err(why) = outcome {
            let what = format!("{by:?} {:?}/{} {:?}: {why}", record.session, record.request, pending.asked);
            self.violation(what);
        }
        if self.log.end().is_multiple_of(TRIM_EVERY) {
            self.trim();
        }
    }

    fn trim(&mut self) {
        let oldest =
            self.sessions.values().flat_map(|known| &known.pending).map(|p| p.invoked).min().unwrap_or(self.log.end());
        self.log.trim(oldest);
        self.model.forget_removed(|_| false);
    }

    /// A shard has put out a reply, whether or not it will get through the output gate.
    pub fn emitted(&mut self, by: NodeId, to: NodeId, packet: &Packet) {
        let Ok(header) = packet.header() else { return self.violation(format!("{by:?} sends what is no packet")) };
        let session = to.as_session().expect("replies go to sessions");
        if header.kind() == MessageKind::DataReply && matches!(packet.body(), Ok(DataReply::Written { .. })) {
            self.installed(packet);
            self.replied(session, header.seq);
        }
        if header.kind() != MessageKind::Reply {
            return;
        }
        if !matches!(packet.body(), Ok(Reply::NewTerm { .. } | Reply::Queued)) {
            self.replied(session, header.seq);
        }
        let Some(known) = self.sessions.get_mut(&session) else { return };
        let Some(pending) = known.pending.iter_mut().find(|p| p.seq == header.seq) else { return };
        let hash = xxh3_64(&packet.head[HEADER_BYTES..]);
        let excused = pending.excused.contains(&hash);
        if pending.valid.iter().any(|(valid, change)| *valid == hash && *change == pending.witness.is_some()) {
            return;
        }
        self.checks.replies += 1;
        let asked = pending.asked.clone();
        self.meanwhile([session.0.into(), header.seq.0, hash]);
        let mut outcome = self.judge(session, header.seq, packet);
        while outcome.is_err() && !excused && self.shown_by(&asked.body.request, packet) {
            self.excuse(Excuse::Shown);
            outcome = self.judge(session, header.seq, packet);
        }
        let Some(pending) = self.pending(session, header.seq) else { return };
        match outcome {
            Ok(excuse) => {
                pending.valid.push((hash, pending.witness.is_some()));
                pending.excused.extend((excuse == Some(Excuse::LostAnswer)).then_some(hash));
                excuse.into_iter().for_each(|excuse| self.excuse(excuse));
            }
            Err(_) if excused => self.excuse(Excuse::LostAnswer),
            Err(why) => {
                let what = format!("{by:?} {session:?}/{} {:?}: {why}", header.seq, pending.asked);
                self.violation(what);
            }
        }
    }

    fn pending(&mut self, session: SessionId, seq: RequestSeq) -> Option<&mut Pending> {
        self.sessions.get_mut(&session)?.pending.iter_mut().find(|p| p.seq == seq)
    }

    fn judge(&mut self, session: SessionId, seq: RequestSeq, packet: &Packet) -> Result<Option<Excuse>, String> {
        let reply = packet.body::<Reply>().map_err(|error| format!("a reply that does not decode: {error}"))?;
        let pending = self.sessions.get(&session).and_then(|known| known.pending.iter().find(|p| p.seq == seq));
        let pending = pending.expect("looked up before");
        let reply = reply.plain();
        if !pending.may_get(&reply) {
            return Err(format!("is answered {reply:?}, which answers no such question"));
        }
        if pending.is_lost && pending.witness.is_none() && self.lost_power && reply == Reply::Done {
            return Ok(Some(Excuse::LostAnswer));
        }
        let reply = as_uncached(reply);
        let full = self.fulls.0 > pending.fulls && pending.witness.is_none();
        if full && reply == (Reply::Failed { errno: Errno::ENOSPC }) {
            return reply::no_space(&pending.asked).map(|()| Some(Excuse::NoSpace));
        }
        reply::judge(&mut self.model, &mut self.log, pending, &reply)
    }

    /// A client takes a reply for good.
    pub fn accepted(&mut self, session: SessionId, seq: RequestSeq, packet: &Packet, reply: &Reply) {
        let pending = &mut self.sessions.entry(session).or_default().pending;
        let index = pending.iter().position(|p| p.seq == seq).expect("a client accepts what it asked");
        let pending = pending.swap_remove(index);
        self.checks.accepted += 1;
        self.meanwhile([4, session.0.into(), seq.0]);
        let hash = xxh3_64(&packet.head[HEADER_BYTES..]);
        let valid = pending.valid.iter().find(|(valid, change)| *valid == hash && *change == pending.witness.is_some());
        match valid {
            None if pending.excused.contains(&hash) => self.excuse(Excuse::LostAnswer),
            None => {
                let what = format!("{session:?}/{seq} {:?} accepts {reply:?}, which was never right", pending.asked);
                return self.violation(what);
            }
            Some(_) => {}
        }
        match pending.witness {
            Some(witness) => self.log.acknowledge(witness.position),
            None if pending.excused.contains(&hash) => {}
            None if self.log.anything_volatile() => {
                let (invoked, end) = (pending.invoked, self.log.end());
                self.taken.push_back(Taken { asked: pending.asked, reply: reply.clone(), invoked, end });
                if self.taken.len() > TAKEN_MAX {
                    let lasting = self.log.lasting();
                    self.taken.retain(|taken| taken.end > lasting);
                }
                if self.taken.len() > TAKEN_MAX {
                    self.forgotten = self.taken.pop_front().map_or(0, |taken| taken.end);
                }
            }
            None => {}
        }
    }
}

/// Applies the change that a record witnesses.
fn witness(
    model: &mut Model,
    log: &mut Log,
    pending: &mut Pending,
    record: &Record,
    rests_on: (SmallVec<[(usize, u64); 1]>, Option<log::At>),
) -> Result<(), String> {
    let may_be_again = std::mem::take(&mut pending.hollow);
    if pending.witness.is_some() && !may_be_again {
        return Err("is executed twice".into());
    }
    let asked = &pending.asked;
    let plan = match decide(model, asked) {
        Ok(plan) => plan,
        Err(errno) => return Err(format!("succeeds instead of {errno}")),
    };
    let created = if plan.change.makes_an_inode() { born(model, &asked.body.request, record) } else { None };
    let delta = model.apply(&plan.change, created)?;
    let expected = model.expect(plan.answer, created);
    // Also what changes nothing that the model knows, such as an attach: a crash may take it back.
    let position = log.push((record.session, record.request), asked.clone(), rests_on, created, delta);
    pending.witness = Some(Witness { position, expected });
    Ok(())
}

/// What was recorded for a request rests on what others have lost: it never happens, and the answer that is under way is what a loss of
/// power took.
fn is_lost_at_once(pending: &mut Pending) -> Result<(), String> {
    if pending.witness.is_some() {
        return Err("is executed twice".into());
    }
    pending.is_lost = true;
    Ok(())
}

/// The model's decision on a question.
pub(crate) fn decide(model: &Model, asked: &Asked) -> Decided {
    match (&asked.write, &asked.body.request) {
        (Some(write), Request::DataRef { id }) => model.decide_write(*id, write.end, write.kill_suidgid),
        (_, request) => model.decide(&asked.caller, request),
    }
}

/// The inode that a record makes: of a create the one that its name leads to, else the one that was not there before.
fn born(model: &Model, request: &Request, record: &Record) -> Option<InodeId> {
    record.effects.iter().find_map(|effect| match effect {
        Effect::PutName { child, .. } if matches!(request, Request::Create { .. }) => Some(*child),
        Effect::PutInode { inode } if model.node(inode.id).is_none() => Some(inode.id),
        _ => None,
    })
}

/// The same answer to whoever does not cache that a name is missing.
pub(crate) fn as_uncached(reply: Reply) -> Reply {
    if reply == Reply::Missing { Reply::Failed { errno: Errno::ENOENT } } else { reply.plain() }
}
