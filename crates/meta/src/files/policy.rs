//! When a file is lent (V-13): after some writes in a row of one session, more of them if it was recalled lately, and never while others may
//! have changed pages of it in memory.
//!
//! Volatile and bounded: what is forgotten costs a few more writes that the home answers.

use super::holders;
use crate::Core;
use crate::ops::pages;
use hashbrown::HashMap;
use onpath_wire::data::MergePart;
use onpath_wire::ids::{InodeId, SessionId};
use onpath_wire::reply::Reply;

/// Writes in a row after which a file is lent, at first and at most.
const ROW: u16 = 2;
const ROW_MAX: u16 = 256;
/// Files of which something is remembered.
const FILES_MAX: usize = 4_096;

/// What is remembered of the writers of a file.
#[derive(Clone, Copy, Debug)]
struct Writer {
    session: SessionId,
    /// Its writes since another one wrote, or the file was recalled.
    row: u16,
    /// How many are wanted.
    wanted: u16,
}

/// The writers of files.
#[derive(Debug, Default)]
pub(crate) struct Policy(HashMap<InodeId, Writer>);

impl Policy {
    fn of(&mut self, id: InodeId, session: SessionId) -> &mut Writer {
        if self.0.len() >= FILES_MAX && !self.0.contains_key(&id) {
            self.0.clear();
        }
        self.0.entry(id).or_insert(Writer { session, row: 0, wanted: ROW })
    }

    /// A session has written; whether the file is lent now.
    fn wrote(&mut self, id: InodeId, session: SessionId) -> bool {
        let writer = self.of(id, session);
        if writer.session != session {
            (writer.session, writer.row) = (session, 0);
        }
        writer.row = writer.row.saturating_add(1);
        writer.row >= writer.wanted
    }
}

/// Somebody wanted to know of a file that was lent.
pub(crate) fn recalled(core: &mut Core, id: InodeId) {
    let writer = core.state.lending.of(id, SessionId(0));
    writer.wanted = writer.wanted.saturating_mul(2).min(ROW_MAX);
    writer.row = 0;
}

/// The answer to a write of which the home has just learned, with the part of the file if that is given.
pub(crate) fn written(core: &mut Core, id: InodeId, session: SessionId, reply: Reply) -> Reply {
    let Reply::Written { size } = reply else { return reply };
    if !core.state.config.gives_parts
        || !core.state.lending.wrote(id, session)
        || pages::may_be_changed(core, id, session)
    {
        return reply;
    }
    match holders::give(core, id) {
        Some(part @ MergePart { .. }) => Reply::WrittenLent { size, part },
        None => reply,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_writer_gets_the_part_and_two_in_turns_do_not() {
        let (id, mut policy) = (InodeId(7), Policy::default());
        assert!(!policy.wrote(id, SessionId(1)));
        assert!(policy.wrote(id, SessionId(1)));
        for session in [2, 1, 2, 1] {
            assert!(!policy.wrote(id, SessionId(session)));
        }
    }

    #[test]
    fn what_is_remembered_of_writers_is_bounded() {
        let mut policy = Policy::default();
        for id in 0..3 * FILES_MAX as u64 {
            policy.wrote(InodeId(id), SessionId(1));
            assert!(policy.0.len() <= FILES_MAX);
        }
    }
}
