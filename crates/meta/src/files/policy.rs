//! When a file is lent (V-13): at its birth, or after some writes that nobody looked at, more of them if it was recalled lately, and never
//! while others may have changed pages of it in memory. Who writes a lent file by its home gets its part, too.
//!
//! A session of whose files somebody wants to know at once gets none at birth for a while, longer each time: a recall costs more than the
//! first write saves. Volatile and bounded: what is forgotten costs a few more writes that the home answers, or a few more recalls.

use super::holders::{self, Lending};
use crate::Core;
use crate::ops::{Req, pages};
use hashbrown::HashMap;
use onpath_wire::ids::{InodeId, SessionId};
use onpath_wire::reply::Reply;
use onpath_wire::request::{NewNode, open};

/// Writes of anybody, since somebody wanted to know of the file, after which it is lent, at first and at most.
const ROW: u16 = 2;
const ROW_MAX: u16 = 256;
/// Files of which something is remembered, and sessions.
const FILES_MAX: usize = 4_096;
const SESSIONS_MAX: usize = 4_096;
/// Files of a session that are not lent at birth after one was recalled, at first and at most.
const APART: u16 = 2;
const APART_MAX: u16 = 512;

/// What is remembered of the writes of a file.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Those that the home has answered since the file was recalled.
    writes: u16,
    /// How many are wanted.
    wanted: u16,
}

impl Row {
    /// Of the same file, of which somebody wanted to know.
    fn recalled(self) -> Row {
        Row { writes: 0, wanted: self.wanted.saturating_mul(2).min(ROW_MAX) }
    }
}

/// What is remembered of the files that a session has made and that were lent at birth.
#[derive(Clone, Copy, Debug, Default)]
struct Maker {
    /// So many of the next ones are not lent.
    left: u16,
    /// Files that are not lent after the last recall, or half of that after as many that were given back.
    apart: u16,
    /// Files that were given back since.
    given_back: u16,
}

/// The writes of files, and who makes them.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    rows: HashMap<InodeId, Row>,
    makers: HashMap<SessionId, Maker>,
}

impl Policy {
    fn row(&mut self, id: InodeId) -> &mut Row {
        if self.rows.len() >= FILES_MAX && !self.rows.contains_key(&id) {
            self.rows.clear();
        }
        self.rows.entry(id).or_insert(Row { writes: 0, wanted: ROW })
    }

    fn maker(&mut self, session: SessionId) -> &mut Maker {
        if self.makers.len() >= SESSIONS_MAX && !self.makers.contains_key(&session) {
            self.makers.clear();
        }
        self.makers.entry(session).or_default()
    }

    /// Somebody has written; whether the file is lent now.
    fn wrote(&mut self, id: InodeId) -> bool {
        let row = self.row(id);
        row.writes = row.writes.saturating_add(1);
        row.writes >= row.wanted
    }

    /// A session has made a file; whether it is lent now.
    fn made(&mut self, session: SessionId) -> bool {
        let maker = self.maker(session);
        let lent = maker.left == 0;
        maker.left = maker.left.saturating_sub(1);
        lent
    }

    /// One that was lent at birth was recalled.
    fn recalled_at_birth(&mut self, session: SessionId) {
        let maker = self.maker(session);
        maker.apart = maker.apart.saturating_mul(2).clamp(APART, APART_MAX);
        (maker.left, maker.given_back) = (maker.apart, 0);
    }

    /// Nobody has asked for one until it was at rest.
    fn given_back(&mut self, session: SessionId) {
        let maker = self.maker(session);
        maker.given_back += 1;
        if maker.given_back >= maker.apart {
            (maker.apart, maker.given_back) = (maker.apart / 2, 0);
        }
    }
}

/// Somebody wanted to know of a file that was lent.
pub(crate) fn recalled(core: &mut Core, id: InodeId, lending: Option<Lending>) {
    if let Some(lending) = lending.filter(|lending| lending.at_birth) {
        return core.state.lending.recalled_at_birth(lending.session);
    }
    let row = core.state.lending.row(id);
    *row = row.recalled();
}

/// A data node has given a part back.
pub(crate) fn returned(core: &mut Core, lending: Option<Lending>) {
    if let Some(lending) = lending.filter(|lending| lending.at_birth) {
        core.state.lending.given_back(lending.session);
    }
}

/// The answer to a write of which the home has just learned, with the part of the file if that is given.
pub(crate) fn written(core: &mut Core, id: InodeId, session: SessionId, reply: Reply) -> Reply {
    let Reply::Written { size } = reply else { return reply };
    if !core.state.config.writes.lends() || pages::may_be_changed(core, id, session) {
        return reply;
    }
    let is_wanted = core.state.lending.wrote(id);
    if !is_wanted && core.state.lent.of(id).is_none() {
        return reply;
    }
    match holders::give(core, id, session, false) {
        Some(part) => Reply::WrittenLent { size, part },
        None => reply,
    }
}

/// The answer to the request that has made a file and opened it, with its part if that is given. Data nodes do not believe bound sessions.
pub(crate) fn created(core: &mut Core, req: &Req, node: &NewNode, reply: Reply) -> Reply {
    const WRITES: u32 = open::REGISTER | open::WRITE;
    let Reply::Entry { attr, data, created: true } = reply else { return reply };
    if !core.state.config.writes.lends()
        || node.open & WRITES != WRITES
        || req.bound.is_some()
        || !core.state.lending.made(req.session)
    {
        return reply;
    }
    match holders::give(core, attr.id, req.session, true) {
        Some(part) => Reply::CreatedLent { attr, data, part },
        None => reply,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_writes_gets_the_part_until_somebody_wants_to_know() {
        let (id, mut policy) = (InodeId(7), Policy::default());
        let not_lent = |policy: &mut Policy| (0..).take_while(|_| !policy.wrote(id)).count();
        assert_eq!((not_lent(&mut policy), not_lent(&mut policy)), (1, 0));
        for more in [4, 8] {
            let row = policy.row(id);
            *row = row.recalled();
            assert_eq!(not_lent(&mut policy), more - 1);
        }
    }

    #[test]
    fn what_is_remembered_of_writers_is_bounded() {
        let mut policy = Policy::default();
        for id in 0..3 * FILES_MAX as u64 {
            policy.wrote(InodeId(id));
            policy.made(SessionId(id as u32));
            assert!(policy.rows.len() <= FILES_MAX && policy.makers.len() <= SESSIONS_MAX);
        }
    }

    #[test]
    fn whose_files_are_recalled_gets_fewer_at_birth() {
        let (maker, mut policy) = (SessionId(1), Policy::default());
        let not_lent = |policy: &mut Policy| (0..).take_while(|_| !policy.made(maker)).count();
        assert_eq!(not_lent(&mut policy), 0);
        for apart in [2, 4, 8] {
            policy.recalled_at_birth(maker);
            assert_eq!(not_lent(&mut policy), apart);
        }
        assert!(policy.made(SessionId(2)), "others have nothing to do with that");
        // As many that nobody asked for halve it: 8, then 4, then 2.
        (0..12).for_each(|_| policy.given_back(maker));
        policy.recalled_at_birth(maker);
        assert_eq!(not_lent(&mut policy), 4);
        (0..100).for_each(|_| policy.recalled_at_birth(maker));
        assert_eq!(not_lent(&mut policy), usize::from(APART_MAX));
    }
}
