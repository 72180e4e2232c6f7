//! What every operation of a session does: ask a shard, ask the data node, wait inside the session.

use crate::fs::{Caller, WaysAt};
use crate::limits::{
    BUSY_PAUSE_US, CALLER_ROUNDS_MAX, PATH_NODE_PATIENCE_US, PATH_NODE_SILENT_US, SOFT_TIMEOUT_US, UNREACHABLE_US,
};
use crate::ops::exact::Touched;
use crate::ops::{alone, exact, hot, kept};
use crate::running::Slot;
use crate::session::{CallerQuestion, ReadCaller, SessionOut};
use crate::state::{State, WaitKey, header, wake_window, window_has_room};
use bytes::Bytes;
use onpath_kernel::{Answer, Answers, Core, Cx};
use onpath_wire::attr::AttrWire;
use onpath_wire::caller::{self as wire, Caps, Over, cap};
use onpath_wire::data::{DataReply, DataRequest, MergePart};
use onpath_wire::errno::Errno;
use onpath_wire::header::{MessageKind, Position};
use onpath_wire::identity::Identity;
use onpath_wire::ids::{InodeId, NodeId, RequestSeq, Slot as HashSlot};
use onpath_wire::packet::Packet;
use onpath_wire::reply::{DataRef, Reply};
use onpath_wire::request::{Request, RequestBody};

/// One operation: for whom it runs, and what it asks with what is known of the caller.
pub(crate) struct Op {
    pub(crate) cx: Cx<State>,
    pub(crate) slot: Slot,
    pub(crate) caller: Caller,
    body: RequestBody,
    /// What it is asked for was found by ways that the session kept in this state. Its first request says so: whoever answers that has looked
    /// whether they were right then, and the rest of it happens later.
    pub(crate) by_ways: Option<WaysAt>,
    /// Its first request may be answered by a switch that follows the whole path.
    pub(crate) by_path: Option<hot::Walk>,
    /// Sequence number of the last request that was answered; 0: a switch has answered it.
    pub(crate) answered: RequestSeq,
    /// [`State::lock_losses`] when it began.
    lock_losses: u64,
}

/// The answer to a message to a data node. A write is answered by the file's home, unless the node refuses it.
pub(crate) enum DataAnswer {
    Node(DataReply, Bytes),
    Home(Reply),
}

impl Op {
    /// An operation for a request of the mount.
    pub(crate) fn new(cx: Cx<State>, slot: Slot, mut caller: Caller) -> Op {
        let (told, lock_losses) = cx.with(|core| {
            let identity = core.state.config.identity.as_ref();
            if let Some(identity) = identity {
                (caller.uid, caller.gid) = (identity.uid, identity.gid());
            }
            (identity.map_or_else(|| caller.told(), Identity::caller), core.state.lock_losses)
        });
        let body = RequestBody { caller: told, request: Request::Renew };
        Op { cx, slot, caller, body, by_ways: None, by_path: None, answered: RequestSeq(0), lock_losses }
    }

    /// Whether an open(2) that creates comes in two halves.
    pub(crate) fn makes_in_halves(&self) -> bool {
        self.with(|core| core.state.config.in_halves)
    }

    /// An operation of the session itself.
    pub(crate) fn background(cx: Cx<State>) -> Op {
        Op::new(cx, Slot::BACKGROUND, Caller::default())
    }

    /// What is known of the caller.
    pub(crate) fn told(&self) -> &wire::Caller {
        &self.body.caller
    }

    /// Looks at and changes the session's state.
    #[inline]
    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut Core<State>) -> T) -> T {
        self.cx.with(f)
    }

    /// Asks the shard to which the request goes, until it has time; tells more of the caller if that decides. A failure is the error.
    pub(crate) fn ask(&mut self, request: Request) -> impl Future<Output = Result<Reply, Errno>> {
        self.ask_at(self.slot_of(&request), request)
    }

    /// The slot to which a request goes.
    fn slot_of(&self, request: &Request) -> HashSlot {
        self.with(|core| request.describe().about.slot(&core.state.config.map))
    }

    /// Asks the shard that holds `slot`.
    pub(crate) async fn ask_at(&mut self, slot: HashSlot, request: Request) -> Result<Reply, Errno> {
        self.body.request = request;
        match self.exchange(slot).await? {
            // Boxed, because it is rare: what an operation holds while it waits stays small.
            Reply::Busy => Box::pin(self.ask_again(slot)).await,
            reply => Ok(reply),
        }
    }

    async fn ask_again(&mut self, at: HashSlot) -> Result<Reply, Errno> {
        let since_us = self.with(|core| core.now.mono_us);
        loop {
            self.pause(since_us).await?;
            match self.exchange(at).await? {
                Reply::Busy => {}
                reply => return Ok(reply),
            }
        }
    }

    /// Lets a busy shard have a moment. The caller's signal ends that when the shard has been busy for long.
    pub(crate) async fn pause(&self, since_us: u64) -> Result<(), Errno> {
        let now_us = self.with(|core| core.now.mono_us);
        self.cx.sleep_until(now_us + BUSY_PAUSE_US).await;
        self.is_wanted(since_us)
    }

    /// The caller's signal ends with EINTR what has taken long.
    pub(crate) fn is_wanted(&self, since_us: u64) -> Result<(), Errno> {
        self.with(|core| {
            let long = core.now.mono_us >= since_us + UNREACHABLE_US;
            let interrupted = core.state.running.get(self.slot).is_some_and(|running| running.interrupted);
            if long && interrupted { Err(Errno::EINTR) } else { Ok(()) }
        })
    }

    /// Asks the shard to which the request goes, which may be busy.
    pub(crate) fn ask_once(&mut self, request: Request) -> impl Future<Output = Result<Reply, Errno>> {
        let slot = self.slot_of(&request);
        self.body.request = request;
        self.exchange(slot)
    }

    /// Asks, and tells more of the caller if that decides.
    async fn exchange(&mut self, at: HashSlot) -> Result<Reply, Errno> {
        let (leased, touched) = {
            let what = self.body.request.describe();
            (what.leased, exact::touched(&what))
        };
        if leased {
            self.may_act().await?;
        }
        for _ in 0..CALLER_ROUNDS_MAX {
            let to = self.with(|core| core.state.shard_at(at));
            let made_at = self.made_at(to)?;
            let walk = match self.by_path.take() {
                None if made_at.is_none() => self.with(|core| hot::walk(core, &self.body.request)),
                path => path,
            };
            // Boxed, because most requests ask no switch.
            if let Some(walk) = walk
                && let Some(reply) = Box::pin(self.ask_switch(&walk, (to, at), made_at)).await?
            {
                return Ok(reply);
            }
            self.with(|core| exact::begin_request(core, touched));
            let answered = self
                .call(to, |core, seq| {
                    let tracking = core.state.tracking(to);
                    let mut header = header(core, MessageKind::Request, to, at, seq);
                    header.of_request_mut().into_iter().for_each(|asked| asked.made_at = made_at);
                    self.body.packet(&header, to, tracking, &core.state.config.map)
                })
                .await;
            if touched != Touched::Nothing {
                self.with(|core| exact::end_request(core, touched));
            }
            let (seq, packet) = answered?;
            self.answered = seq;
            let reply = packet.body::<Reply>().map_err(|_| Errno::EIO)?;
            let reply = self.with(|core| hot::told(core, &self.body.request, reply))?;
            let reply = self.with(|core| core.state.take_ticket(reply)).ok_or(Errno::EIO)?;
            match self.understood(to, reply)? {
                Reply::NeedCaller { gids, caps } => Box::pin(self.read_caller(&gids, caps)).await?,
                reply => {
                    self.with(|core| kept::note(core, &self.body.request.describe(), &packet, &reply));
                    return Ok(if let Reply::CreatedLent { .. } = reply { reply } else { reply.plain() });
                }
            }
        }
        Err(Errno::EACCES)
    }

    /// What a shard says to a request, unless it refuses that.
    fn understood(&self, to: NodeId, reply: Reply) -> Result<Reply, Errno> {
        match reply {
            Reply::Failed { errno } => Err(errno),
            Reply::Refused { .. } => Err(Errno::EPERM),
            Reply::Behind { now, dirs } => {
                let shard = to.as_shard().ok_or(Errno::EIO)?;
                self.with(|core| core.state.ways.behind(shard, now, dirs.as_deref()));
                Err(Errno::ERESTART)
            }
            reply => Ok(reply),
        }
    }

    /// Asks the switch, which passes on to the home what it does not answer; nothing if the home is to be asked directly.
    async fn ask_switch(
        &mut self,
        walk: &hot::Walk,
        (to, at): (NodeId, HashSlot),
        made_at: Option<Position>,
    ) -> Result<Option<Reply>, Errno> {
        let make = |core: &mut Core<State>, _: NodeId, seq| {
            let mut header = header(core, MessageKind::Request, to, at, seq);
            header.of_request_mut().into_iter().for_each(|asked| asked.made_at = made_at);
            walk.through(core, Packet::new(&header, &self.body), &self.body.caller, to)
        };
        let Some(Answer::Packet(packet)) = self.call_until(to, hot::PATIENCE_US, make).await? else {
            self.with(hot::silent);
            return Ok(None);
        };
        let RequestBody { caller, request } = &self.body;
        let reply = match packet.answered_by_cache() {
            Some(answer) => {
                self.answered = RequestSeq(0);
                self.with(|core| hot::heard(core, walk, request, caller, answer))
            }
            None => {
                self.answered = packet.header().map_err(|_| Errno::EIO)?.seq;
                let reply = packet.body::<Reply>().map_err(|_| Errno::EIO)?;
                Some(self.with(|core| hot::told(core, request, reply))?)
            }
        };
        match reply.map(|reply| self.understood(to, reply)).transpose()? {
            Some(Reply::NeedCaller { gids, caps }) => {
                self.read_caller(&gids, caps).await?;
                Ok(None)
            }
            reply => Ok(reply),
        }
    }

    /// How far a shard was heard when ways were followed on which the next request rests.
    fn made_at(&mut self, to: NodeId) -> Result<Option<Position>, Errno> {
        let Some(at) = self.by_ways.take() else { return Ok(None) };
        let shard = to.as_shard().ok_or(Errno::EIO)?;
        self.with(|core| core.state.ways.heard(at, shard)).map(Some).ok_or(Errno::ERESTART)
    }

    /// Asks a path node, and tells it more of the caller if that decides. Nothing if it does not answer now: then it is not asked for a
    /// while, and shards say what it would have said. Which of several that is differs from session to session. With the answer comes who has
    /// answered: it, or the site of the last name.
    pub(crate) async fn ask_path_node(&mut self, request: Request) -> Result<Option<(Reply, NodeId)>, Errno> {
        self.body.request = request;
        for _ in 0..CALLER_ROUNDS_MAX {
            let Some((place, to)) = self.with(|core| core.state.path_node(core.now.mono_us)) else { return Ok(None) };
            let deadline_us = self.admit(1).await?.min(self.with(|core| core.now.mono_us) + PATH_NODE_PATIENCE_US);
            let make = |core: &mut Core<State>, _, seq| {
                self.note_call(core, seq);
                let slot = self.body.request.describe().about.slot(&core.state.config.map);
                Packet::new(&header(core, MessageKind::Request, to, slot, seq), &self.body)
            };
            let Some(Answer::Packet(packet)) = self.cx.call_all(&[to], deadline_us, make).await.pop() else {
                self.with(|core| {
                    core.state.paths_silent_until_us[place] = core.now.mono_us + PATH_NODE_SILENT_US;
                });
                return Ok(None);
            };
            let reply = packet.body::<Reply>().map_err(|_| Errno::EIO)?;
            match self.with(|core| hot::told(core, &self.body.request, reply))? {
                Reply::Failed { errno } => return Err(errno),
                Reply::Refused { .. } => return Err(Errno::EPERM),
                Reply::NeedCaller { gids, caps } => Box::pin(self.read_caller(&gids, caps)).await?,
                reply => return Ok(Some((reply, packet.header().map_err(|_| Errno::EIO)?.source))),
            }
        }
        Err(Errno::EACCES)
    }

    /// Asks the data node of a file until it has time for it.
    pub(crate) async fn ask_data(&self, id: InodeId, request: DataRequest, bulk: Bytes) -> Result<DataAnswer, Errno> {
        match self.ask_data_once(id, &request, bulk.clone()).await {
            Err(Errno::EAGAIN) => Box::pin(self.ask_data_again(id, &request, bulk)).await,
            answered => answered,
        }
    }

    async fn ask_data_again(&self, id: InodeId, request: &DataRequest, bulk: Bytes) -> Result<DataAnswer, Errno> {
        let since_us = self.with(|core| core.now.mono_us);
        loop {
            self.pause(since_us).await?;
            match self.ask_data_once(id, request, bulk.clone()).await {
                Err(Errno::EAGAIN) => {}
                answered => return answered,
            }
        }
    }

    async fn ask_data_once(&self, id: InodeId, request: &DataRequest, bulk: Bytes) -> Result<DataAnswer, Errno> {
        if request.describe().writes {
            self.may_act().await?;
        }
        let to = self.with(|core| core.state.config.map.data(id));
        let (_, packet) = self
            .call(to, |core, seq| {
                let header = header(core, MessageKind::Data, to, id.slot(), seq);
                if core.state.config.identity.is_none() {
                    return Packet::with_bulk(&header, request, bulk);
                }
                Packet::with_bulk(&header, &core.state.with_tickets(request.clone()), bulk)
            })
            .await?;
        self.with(|core| kept::note_of(core, id, &packet));
        data_answer(packet)
    }

    /// Waits until the session has a lease: without one, others may have been given what it had, and nobody executes what it asks for
    /// . That ends with the caller's signal, and with `soft` after its time. What began before locks were lost changes nothing more.
    async fn may_act(&self) -> Result<(), Errno> {
        let as_before = |core: &Core<State>| core.state.lock_losses == self.lock_losses;
        if self.with(|core| core.state.lease.holds(core.now) && as_before(core)) {
            return Ok(());
        }
        Box::pin(async {
            let since_us = self.with(|core| core.now.mono_us);
            loop {
                self.pause(since_us).await?;
                let acts = self.with(|core| {
                    let abandoned = core.state.running.get(self.slot).and_then(|running| running.abandoned);
                    let given_up = core.state.config.soft && core.now.mono_us >= since_us + SOFT_TIMEOUT_US;
                    let errno = abandoned.or((given_up || !as_before(core)).then_some(Errno::EIO));
                    errno.map_or(Ok(core.state.lease.holds(core.now)), Err)
                })?;
                if acts {
                    return Ok(());
                }
            }
        })
        .await
    }

    /// Sends one message and waits for its answer.
    async fn call(
        &self,
        to: NodeId,
        make: impl FnOnce(&mut Core<State>, RequestSeq) -> Packet,
    ) -> Result<(RequestSeq, Packet), Errno> {
        let deadline_us = self.admit(1).await?;
        let (mut make, mut sent) = (Some(make), RequestSeq(0));
        let first = |core: &mut Core<State>, _, seq| {
            sent = seq;
            self.note_call(core, seq);
            (make.take().expect("one call"))(core, seq)
        };
        match self.cx.call_all(&[to], deadline_us, first).await.pop() {
            Some(Answer::Packet(packet)) => Ok((sent, packet)),
            // With `soft` it is given up; it may still be executed.
            _ => {
                self.with(alone::doubt);
                Err(Errno::EIO)
            }
        }
    }

    /// Sends a message that changes nothing, and waits for its answer at most for so long, microseconds.
    pub(crate) async fn call_until(
        &self,
        to: NodeId,
        patience_us: u64,
        mut make: impl FnMut(&mut Core<State>, NodeId, RequestSeq) -> Packet,
    ) -> Result<Option<Answer>, Errno> {
        let deadline_us = self.admit(1).await?.min(self.with(|core| core.now.mono_us) + patience_us);
        let make = |core: &mut Core<State>, to, seq| {
            self.note_call(core, seq);
            make(core, to, seq)
        };
        Ok(self.cx.call_all(&[to], deadline_us, make).await.pop())
    }

    /// Sends several messages at once; an answer that timed out (`soft`) is the caller's to judge.
    pub(crate) async fn call_all(
        &self,
        peers: &[NodeId],
        mut make: impl FnMut(&mut Core<State>, NodeId, RequestSeq) -> Packet,
    ) -> Result<Answers, Errno> {
        let deadline_us = self.admit(peers.len()).await?;
        let make = |core: &mut Core<State>, to, seq| {
            self.note_call(core, seq);
            make(core, to, seq)
        };
        Ok(self.cx.call_all(peers, deadline_us, make).await)
    }

    /// Waits until the window has room for so many calls; says when they are given up.
    async fn admit(&self, calls: usize) -> Result<u64, Errno> {
        let slot = self.slot;
        let (room, deadline_us) = self.with(|core| {
            if let Some(running) = core.state.running.get(slot) {
                running.calls = 0;
                if let Some(errno) = running.abandoned {
                    return Err(errno);
                }
            }
            let soft = core.state.config.soft && slot != Slot::BACKGROUND;
            let deadline_us = if soft { core.now.mono_us + SOFT_TIMEOUT_US } else { u64::MAX };
            Ok((window_has_room(core, calls, slot), deadline_us))
        })?;
        if !room {
            Box::pin(self.wait(WaitKey::Window, |core| {
                let room = window_has_room(core, calls, slot);
                core.state.window_full |= !room;
                room.then_some(())
            }))
            .await?;
        }
        Ok(deadline_us)
    }

    /// An interrupt finds the calls of its request by this.
    fn note_call(&self, core: &mut Core<State>, seq: RequestSeq) {
        let now_us = core.now.mono_us;
        if let Some(running) = core.state.running.get(self.slot) {
            if running.calls == 0 {
                (running.first_call, running.since_us) = (seq, now_us);
            }
            running.calls += 1;
        }
    }

    /// Waits inside the session until `look` finds what it looks for, or the request is abandoned.
    pub(crate) async fn wait<T>(
        &self,
        key: WaitKey,
        mut look: impl FnMut(&mut Core<State>) -> Option<T>,
    ) -> Result<T, Errno> {
        let (slot, key) = (self.slot, key.hash());
        let mut first = true;
        self.cx
            .until(key, |core| {
                let now_us = core.now.mono_us;
                if let Some(running) = core.state.running.get(slot) {
                    if let Some(errno) = running.abandoned {
                        running.parked = None;
                        return Some(Err(errno));
                    }
                    if first {
                        running.since_us = now_us;
                    }
                    running.parked = Some(key);
                }
                first = false;
                let found = look(core)?;
                if let Some(running) = core.state.running.get(slot) {
                    running.parked = None;
                }
                Some(Ok(found))
            })
            .await
    }

    /// Waits for a turn that only one operation has at a time.
    pub(crate) async fn take_turn(&self, key: WaitKey) -> Result<(), Errno> {
        self.wait(key, |core| core.state.turns.insert(key.hash()).then_some(())).await
    }

    /// Lets the next one have the turn.
    pub(crate) fn end_turn(&self, key: WaitKey) {
        self.with(|core| end_turn(core, key));
    }

    /// Whether what the caller does to a file leaves it setuid and setgid.
    pub(crate) async fn keeps_suid(&mut self) -> Result<bool, Errno> {
        if self.body.caller.caps.any(cap::FSETID, Over::All).is_none() {
            Box::pin(self.read_caller(&[], cap::FSETID)).await?;
        }
        Ok(self.body.caller.caps.any(cap::FSETID, Over::All) == Some(true))
    }

    /// Learns whether the caller is a member of these gids, or has one of these capabilities. A caller without a process is none and has none.
    pub(crate) async fn read_caller(&mut self, gids: &[u32], caps: u32) -> Result<(), Errno> {
        let Caller { pid, uid, .. } = self.caller;
        let identity = |core: &mut Core<State>| {
            core.state.config.identity.as_ref().map(|is| (is.gids.to_vec(), Caps::exactly(is.caps)))
        };
        let known = self.with(identity);
        let is_known = known.is_some();
        let (groups, caps_of) = known.unwrap_or_else(|| (Vec::new(), Caps::exactly(0)));
        let mut read = ReadCaller { groups: Some(groups), caps: caps_of };
        if pid != 0 && !is_known {
            let question = CallerQuestion { pid, uid, caps, group: gids.first().copied() };
            let ticket = self.with(|core| {
                core.state.last_ticket += 1;
                let ticket = core.state.last_ticket;
                core.state.callers.insert(ticket, None);
                core.emit(SessionOut::ReadCaller { ticket, question });
                ticket
            });
            let look = |core: &mut Core<State>| core.state.callers.get_mut(&ticket).and_then(Option::take);
            let answer = self.wait(WaitKey::Read(ticket), look).await;
            self.with(|core| core.state.callers.remove(&ticket));
            read = answer?;
        }
        let known = &mut self.body.caller;
        if caps != 0 {
            known.caps = read.caps;
        }
        let Some(all) = read.groups else { return Ok(()) };
        for gid in gids {
            if known.groups.member.contains(gid) || known.groups.stranger.contains(gid) {
                continue;
            }
            if all.contains(gid) {
                known.groups.member.push(*gid);
            } else {
                known.groups.stranger.push(*gid);
            }
        }
        Ok(())
    }
}

/// Lets the next one have a turn.
pub(crate) fn end_turn(core: &mut Core<State>, key: WaitKey) {
    let had = core.state.turns.remove(&key.hash());
    assert!(had, "a turn ends once");
    core.wake(key.hash());
}

/// Reads the answer to a message to a data node.
pub(crate) fn data_answer(packet: Packet) -> Result<DataAnswer, Errno> {
    let header = packet.header().map_err(|_| Errno::EIO)?;
    if header.kind() == MessageKind::DataReply {
        match packet.body::<DataReply>().map_err(|_| Errno::EIO)? {
            DataReply::Failed { errno } => Err(errno),
            DataReply::Refused { .. } => Err(Errno::EPERM),
            reply => Ok(DataAnswer::Node(reply, packet.bulk)),
        }
    } else {
        match packet.body::<Reply>().map_err(|_| Errno::EIO)? {
            Reply::Failed { errno } => Err(errno),
            Reply::Refused { .. } => Err(Errno::EPERM),
            reply => Ok(DataAnswer::Home(reply)),
        }
    }
}

/// The entry of a reply; anything else is a broken server.
pub(crate) fn entry(reply: Reply) -> Result<(AttrWire, DataRef, bool), Errno> {
    match reply {
        Reply::Entry { attr, data, created } => Ok((attr, data, created)),
        _ => Err(Errno::EIO),
    }
}

/// The same of what this request may have made, and the part that is lent of it.
pub(crate) fn born(reply: Reply) -> Result<(AttrWire, DataRef, bool, Option<MergePart>), Errno> {
    match reply {
        Reply::CreatedLent { attr, data, part } => Ok((attr, data, true, Some(part))),
        reply => entry(reply).map(|(attr, data, created)| (attr, data, created, None)),
    }
}

/// The attributes of a reply; anything else is a broken server.
pub(crate) fn attr(reply: Reply) -> Result<(AttrWire, DataRef, bool), Errno> {
    match reply {
        Reply::Attr { attr, data, shared } => Ok((attr, data, shared)),
        _ => Err(Errno::EIO),
    }
}

/// Expects `Done`.
pub(crate) fn done(reply: Reply) -> Result<(), Errno> {
    match reply {
        Reply::Done => Ok(()),
        _ => Err(Errno::EIO),
    }
}

/// Answers a request of the mount.
pub(crate) fn answer(core: &mut Core<State>, unique: u64, result: crate::fs::FsResult) {
    core.emit(SessionOut::Reply { unique, result });
    wake_window(core);
}
