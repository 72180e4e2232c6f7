//! What a switch answers (C-2): names that homes have lent to its cache, and the attributes of the files to which they lead. A controller says
//! that the switch answers this session, and homes with which token a name is asked for. Now and then the session asks by the switch for a name
//! that has none, so that it counts what is wanted. What the switch does not answer it passes on to the home, and a switch that is silent is
//! not asked again before its controller speaks.

use crate::op::Op;
use crate::ops::alone;
use crate::planted::{self, Planted};
use crate::state::{Job, State};
use crate::ways::Led;
use hashbrown::HashMap;
use onpath_kernel::{Core, Need, Now};
use onpath_wire::attr::{AttrWire, flag};
use onpath_wire::cached::{Hot, NameIn};
use onpath_wire::caller::{Caller, Over, cap};
use onpath_wire::errno::Errno;
use onpath_wire::header::{Header, MessageKind};
use onpath_wire::ids::{Generation, InodeId, NodeId, RecordSeq, RequestSeq, Stamp, TrackingEpoch};
use onpath_wire::innet::cache::{Asker, CacheResult, LEVELS_MAX, Purpose, wants};
use onpath_wire::innet::{Cache, InNet};
use onpath_wire::inode::Kind;
use onpath_wire::limits::{CACHE_PERIOD_MS, HOT_NAMES_MAX, OPENS_PER_SESSION_MAX, WANTED_NAMES_MAX};
use onpath_wire::name::Name;
use onpath_wire::packet::Packet;
use onpath_wire::peer::Peer;
use onpath_wire::reply::{DataRef, Reply};
use onpath_wire::request::{Request, open};
use smallvec::SmallVec;

/// A switch answers at once, and a home that it passes a request on to soon after: who waits longer asks the home itself, microseconds.
pub(crate) const PATIENCE_US: u64 = 20_000;
/// Of so many questions for names without a token one goes by the switch: a controller's threshold counts these.
const SAMPLE: u32 = 8;
/// A controller that has not spoken for so long is gone, microseconds.
const SPEAKS_WITHIN_US: u64 = 3 * CACHE_PERIOD_MS * 1_000;

/// The name by which an inode was found.
#[derive(Clone, Debug)]
struct Found {
    parent: InodeId,
    name: Name,
    key: u64,
    /// 0: the switch has no entry of it, as far as this session knows.
    token: u8,
    /// Birth time of the inode, which the switch does not know.
    btime: i64,
    /// The last change and the last access of which its home has told.
    ctime: i64,
    atime: i64,
}

/// What the session knows of the switch with the cache, and of names in it.
#[derive(Debug, Default)]
pub(crate) struct HotNames {
    /// Who answers in which epoch; 0: nobody.
    switch: NodeId,
    epoch: u16,
    /// As long as its controller is believed to live, monotonic microseconds.
    until_us: u64,
    /// Inodes found by a name in this epoch.
    found: HashMap<InodeId, Found>,
    /// The same by the keys of the names.
    keys: HashMap<u64, InodeId>,
    /// Questions for names without a token.
    without: u32,
    /// A directory's token is asked for.
    hears: bool,
}

/// Keys and tokens of names, from the top.
type Levels = SmallVec<[(u64, u8); 2]>;

/// How a question goes by the switch.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    pub(crate) switch: NodeId,
    epoch: u16,
    start: InodeId,
    levels: Levels,
    purpose: Purpose,
    /// The inode to which the last name has led, and its birth time, which the switch does not know.
    last: (InodeId, i64),
}

impl HotNames {
    /// A controller says that its switch answers in this epoch.
    fn answers(&mut self, switch: NodeId, epoch: u16, now: Now) {
        if !self.hear(switch, epoch) {
            return;
        }
        self.until_us = now.mono_us + SPEAKS_WITHIN_US;
    }

    /// An epoch is heard of; whether it is the present one. Tokens of earlier ones are void (C-8).
    fn hear(&mut self, switch: NodeId, epoch: u16) -> bool {
        if self.epoch != 0 && TrackingEpoch(self.epoch).is_after(TrackingEpoch(epoch)) {
            return false;
        }
        if (self.switch, self.epoch) != (switch, epoch) {
            (self.switch, self.epoch) = (switch, epoch);
            self.found.values_mut().for_each(|found| found.token = 0);
        }
        true
    }

    /// Whether the switch answers this session.
    fn is_on(&self, now: Now) -> bool {
        now.mono_us < self.until_us
    }

    fn silent(&mut self) {
        self.until_us = 0;
    }

    fn learn(&mut self, id: InodeId, found: Found) {
        if self.found.len() >= HOT_NAMES_MAX && !self.found.contains_key(&id) {
            self.make_room();
        }
        self.keys.insert(found.key, id);
        if let Some(before) = self.found.insert(id, found)
            && self.found[&id].key != before.key
        {
            self.keys.remove(&before.key);
        }
    }

    /// Forgets names that the switch does not have; all, if it has nearly all of them.
    fn make_room(&mut self) {
        self.found.retain(|_, found| found.token != 0);
        if self.found.len() > HOT_NAMES_MAX / 8 * 7 {
            self.found.clear();
        }
        let found = &self.found;
        self.keys.retain(|_, id| found.contains_key(id));
    }

    fn set_token(&mut self, id: InodeId, hot: Option<Hot>) {
        let token = match hot {
            Some(hot) if self.hear(hot.switch, hot.epoch) => hot.token,
            _ => 0,
        };
        if let Some(found) = self.found.get_mut(&id) {
            found.token = token;
        }
    }

    /// A home has told what an inode is like.
    fn see(&mut self, attr: &AttrWire) {
        if let Some(found) = self.found.get_mut(&attr.id) {
            (found.ctime, found.atime) = (attr.ctime, attr.atime);
        }
    }

    /// Whether an answer of the switch is of before an access of which the home has told: only these move while the switch goes on to answer.
    fn is_of_before_an_access(&self, attr: &AttrWire) -> bool {
        self.found.get(&attr.id).is_some_and(|found| found.ctime == attr.ctime && attr.atime < found.atime)
    }

    fn forget(&mut self, id: InodeId) {
        if let Some(found) = self.found.remove(&id) {
            self.keys.remove(&found.key);
        }
    }

    /// Whether a name with this token is asked for by the switch now.
    fn goes(&mut self, token: u8) -> bool {
        if token == 0 {
            self.without = self.without.wrapping_add(1);
        }
        token != 0 || self.without.is_multiple_of(SAMPLE)
    }

    /// The level of the last name of a walk, the inode to which that has led, and its birth time.
    fn last(&self, key: u64) -> ((u64, u8), (InodeId, i64)) {
        let id = self.keys.get(&key).copied().unwrap_or_default();
        let found = self.found.get(&id).filter(|found| found.key == key);
        found.map_or(((key, 0), (id, 0)), |found| ((key, found.token), (id, found.btime)))
    }

    fn name_of(&self, key: u64) -> Option<NameIn> {
        let found = self.found.get(self.keys.get(&key)?)?;
        Some(NameIn { parent: found.parent, name: found.name.clone() })
    }
}

/// A controller says that the switch answers, and asks for names.
pub(crate) fn controller(core: &mut Core<State>, header: &Header, packet: &Packet) {
    let Ok(Peer::CacheOn { switch, epoch, wanted }) = packet.body() else { return };
    if header.kind() != MessageKind::Peer || epoch == 0 {
        return;
    }
    let now = core.now;
    core.state.hot.answers(NodeId::switch(switch), epoch, now);
    if header.seq != RequestSeq(0) {
        let known = wanted.iter().take(WANTED_NAMES_MAX).filter_map(|&key| core.state.hot.name_of(key));
        let body = Peer::CacheNames { names: known.collect() };
        let mut answer = Header::new(MessageKind::PeerAnswer, core.state.node, header.seq);
        answer.cluster = core.state.config.cluster;
        core.send_after(header.source, Packet::new(&answer, &body), RecordSeq(0), Need::ByDestination);
    }
}

/// Takes what a home has told of a name out of its reply.
pub(crate) fn told(core: &mut Core<State>, request: &Request, reply: Reply) -> Result<Reply, Errno> {
    let (hot, reply) = match reply {
        Reply::Hot { hot, reply } => (Some(hot), Reply::inside(&reply).ok_or(Errno::EIO)?),
        reply => (None, reply),
    };
    if !core.state.hot.is_on(core.now) {
        return Ok(reply);
    }
    match (request, &reply) {
        (Request::Lookup { parent, name }, Reply::Entry { attr, data, .. }) => {
            let key = core.state.config.map.placement().cache_key(*parent, name.as_bytes());
            let (name, btime) = (name.clone(), data.btime);
            let found = Found { parent: *parent, name, key, token: 0, btime, ctime: attr.ctime, atime: attr.atime };
            core.state.hot.learn(attr.id, found);
            core.state.hot.set_token(attr.id, hot);
        }
        (Request::GetAttr { id }, Reply::Attr { attr, .. }) => {
            core.state.hot.set_token(*id, hot);
            core.state.hot.see(attr);
        }
        (_, Reply::Attr { attr, .. }) => core.state.hot.see(attr),
        _ => {}
    }
    Ok(reply)
}

/// How a request goes by the switch, if that may answer it now. Who is alone keeps what homes say of names, and the switch does not say that it
/// may.
pub(crate) fn walk(core: &mut Core<State>, request: &Request) -> Option<Walk> {
    if !core.state.hot.is_on(core.now) || alone::is_alone(core) {
        return None;
    }
    let (hot, may_open) = (&core.state.hot, core.state.opened_by_switch.len() < OPENS_PER_SESSION_MAX);
    let (start, levels, purpose, last): (InodeId, Levels, Purpose, _) = match request {
        Request::GetAttr { id } | Request::DataRef { id } | Request::Open { id, .. } if !id.is_directory() => {
            let found = hot.found.get(id)?;
            let purpose = match request {
                Request::GetAttr { .. } => Purpose::Stat,
                Request::Open { flags, .. } if flags & !(open::READ | open::REGISTER) == 0 && may_open => Purpose::Open,
                Request::Open { .. } => return None,
                _ => Purpose::Size,
            };
            (found.parent, Levels::from_iter([(found.key, found.token)]), purpose, (*id, found.btime))
        }
        Request::Lookup { parent, name } => {
            let (level, last) = hot.last(core.state.config.map.placement().cache_key(*parent, name.as_bytes()));
            // The switch looks whether the caller may search the directory: as a level of its own, or by the root's own entry.
            let (start, levels) = match *parent {
                parent if planted::is(Planted::SearchUnasked) => (parent, Levels::from_iter([level])),
                InodeId::ROOT => (InodeId(0), Levels::from_iter([level])),
                parent => {
                    let dir = hot.found.get(&parent)?;
                    (dir.parent, Levels::from_iter([(dir.key, dir.token), level]))
                }
            };
            (start, levels, Purpose::Lookup, last)
        }
        _ => return None,
    };
    let (switch, epoch) = (hot.switch, hot.epoch);
    goes(core, Walk { switch, epoch, start, levels, purpose, last })
}

/// How a path from the root goes by the switch, if all directories on it are known by name and lead to this one. The switch looks at each.
pub(crate) fn path(
    core: &mut Core<State>,
    caller: &Caller,
    (from, names): (InodeId, &[Name]),
    dir: InodeId,
) -> Option<Walk> {
    if from != InodeId::ROOT || names.len() > LEVELS_MAX || !core.state.hot.is_on(core.now) {
        return None;
    }
    let placement = core.state.config.map.placement();
    let (last, above) = names.split_last()?;
    let (mut parent, mut levels) = (from, Levels::new());
    for (place, name) in above.iter().enumerate() {
        let key = placement.cache_key(parent, name.as_bytes());
        if !core.state.hot.keys.contains_key(&key) {
            let Led::To(id, _) = core.state.ways.follow(caller, from, &names[..=place]) else { return None };
            let name = name.clone();
            core.state.hot.learn(id, Found { parent, name, key, token: 0, btime: 0, ctime: 0, atime: 0 });
        }
        let hot = &core.state.hot;
        parent = *hot.keys.get(&key)?;
        levels.push((key, hot.found.get(&parent)?.token));
    }
    let hot = &core.state.hot;
    let (level, last) = hot.last(placement.cache_key(parent, last.as_bytes()));
    levels.push(level);
    let (switch, epoch, start) = (hot.switch, hot.epoch, InodeId(0));
    let walk = (parent == dir).then_some(Walk { switch, epoch, start, levels, purpose: Purpose::Lookup, last })?;
    goes(core, walk)
}

/// Whether this question goes by the switch now; one that lacks tokens of directories alone hears of one more.
fn goes(core: &mut Core<State>, walk: Walk) -> Option<Walk> {
    let (last, above) = walk.levels.split_last()?;
    let without = above.iter().find(|(_, token)| *token == 0).map(|(key, _)| *key);
    let hot = &mut core.state.hot;
    if !hot.goes(if without.is_some() { 0 } else { last.1 }) {
        return None;
    }
    if last.1 != 0
        && let Some(dir) = without.and_then(|key| hot.keys.get(&key).copied())
        && !std::mem::replace(&mut hot.hears, true)
    {
        core.start(Job::HearToken { dir });
    }
    Some(walk)
}

impl Walk {
    /// Puts the question for the switch in front of a request.
    pub(crate) fn through(&self, core: &Core<State>, packet: Packet, caller: &Caller, to: NodeId) -> Packet {
        let asker = Asker { requester: core.state.node, uid: caller.uid, gid: caller.gid };
        let has = |caps| caller.caps.any(caps, Over::All) == Some(true);
        let mut wanted = if self.purpose == Purpose::Open { wants::READ } else { 0 };
        if has(cap::DAC_OVERRIDE | cap::DAC_READ_SEARCH) {
            wanted |= wants::READS_ALL;
        }
        if has(cap::DAC_OVERRIDE) {
            wanted |= wants::WRITES_ALL;
        }
        let from = (self.start.0, &self.levels[..]);
        let cluster = core.state.config.cluster;
        packet.through(self.switch, InNet::read(cluster, self.epoch, from, (self.purpose, wanted), asker, to))
    }
}

/// What the switch has said to a request that it has sent back: a reply, or nothing if the home is to be asked all the same.
pub(crate) fn heard(
    core: &mut Core<State>,
    walk: &Walk,
    request: &Request,
    caller: &Caller,
    answer: &Cache,
) -> Option<Reply> {
    if answer.result() == Some(CacheResult::Denied) {
        let nothing_helps = caller.caps.any(cap::DAC_OVERRIDE | cap::DAC_READ_SEARCH, Over::All) == Some(false);
        return nothing_helps.then_some(Reply::Failed { errno: Errno::EACCES });
    }
    let value = answer.answer()?;
    let ((id, btime), attr) = (walk.last, value.attr());
    let Some(mut attr) = attr.filter(|attr| attr.id == id) else {
        core.state.hot.forget(id); // the name leads elsewhere by now, of which more is to be known than the switch says
        return None;
    };
    let opens = matches!(request, Request::Open { .. });
    if core.state.hot.is_of_before_an_access(&attr) || opens && attr.kind != Kind::File {
        return None;
    }
    let now = core.now;
    core.state.observe(Stamp(attr.ctime as u64), now);
    let data = DataRef { generation: Generation(value.generation), cut: value.cut, btime };
    if attr.id.is_directory() {
        attr.flags |= flag::UNSETTLED; // its owner knows times, size and links
    }
    Some(match request {
        Request::Lookup { .. } => Reply::Entry { attr, data, created: false },
        _ => Reply::Attr { attr, data, shared: true },
    })
}

/// Asks the home of a directory with which token that is asked for: a switch that is asked for a name in it is asked for both.
pub(crate) async fn hear_token(op: &mut Op, dir: InodeId) {
    // The reply's token is kept as that of any other.
    let _ = op.ask(Request::GetAttr { id: dir }).await;
    op.with(|core| core.state.hot.hears = false);
}

/// The switch has not answered in time.
pub(crate) fn silent(core: &mut Core<State>) {
    core.state.hot.silent();
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::ids::{Birth, Slot};
    use onpath_wire::inode::Kind;

    fn learn(names: &mut HotNames, number: usize, token: u8) -> InodeId {
        let (id, text) = (InodeId::new(Slot(1), Birth(1), number as u16, Kind::File), format!("{number}"));
        let name = Name::new(text.as_bytes()).expect("a name");
        names.learn(
            id,
            Found { parent: InodeId::ROOT, name, key: number as u64 + 1, token, btime: 0, ctime: 0, atime: 0 },
        );
        id
    }

    /// Who looks at many names still asks by the switch for those that it has.
    #[test]
    fn what_the_switch_has_is_forgotten_last() {
        let mut names = HotNames::default();
        let hot: Vec<InodeId> = (0..100).map(|number| learn(&mut names, number, 1)).collect();
        (100..3 * HOT_NAMES_MAX).for_each(|number| _ = learn(&mut names, number, 0));
        assert!(names.found.len() <= HOT_NAMES_MAX && names.keys.len() == names.found.len());
        assert!(hot.iter().all(|id| names.found[id].token == 1 && names.keys[&names.found[id].key] == *id));
        (0..2 * HOT_NAMES_MAX).for_each(|number| _ = learn(&mut names, number, 1));
        assert!(names.found.len() <= HOT_NAMES_MAX && names.keys.len() == names.found.len(), "those are too many");
    }
}
