//! What a bound session shows to a data node: its home's word that it has opened the file (as block tokens of HDFS do). Hosts of one file
//! system make and know the keyed hash in it without asking each other, also after a restart.

use crate::ids::{DataId, SessionNumber};
use crate::secrets::TicketKey;
use crate::wire_struct;

/// Bits of [`Ticket::rights`].
pub mod right {
    /// It may be read.
    pub const READ: u8 = 1;
    /// It may be written.
    pub const WRITE: u8 = 2;
}

wire_struct! {
    /// A session has opened a file. It names whose bytes those are, and under which cut they may be asked for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Ticket {
        /// Whose bytes.
        pub data: DataId,
        /// The cut.
        pub cut: u32,
        /// Bits of [`right`].
        pub rights: u8,
        /// Until when it counts, seconds since 1970.
        pub until_s: u32,
        /// A keyed hash of all that and of the session. Who guesses one has a chance of 2^-64.
        pub hash: u64,
    }
}

impl Ticket {
    /// That of a session.
    pub fn new(
        key: &TicketKey,
        session: SessionNumber,
        (data, cut): (DataId, u32),
        rights: u8,
        until_s: u32,
    ) -> Ticket {
        let ticket = Ticket { data, cut, rights, until_s, hash: 0 };
        Ticket { hash: key.hash(session, &ticket), ..ticket }
    }

    /// Whether it was made for that session with this key.
    pub fn is_of(&self, key: &TicketKey, session: SessionNumber) -> bool {
        key.hash(session, self) == self.hash
    }

    /// Whether it gives all of these rights.
    pub fn gives(&self, rights: u8) -> bool {
        self.rights & rights == rights
    }

    /// Whether it still counts at this wall time; clocks of hosts may be apart.
    pub fn counts_at(&self, wall_ns: u64) -> bool {
        wall_ns / 1_000_000_000 <= u64::from(self.until_s) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Generation, InodeId};
    use crate::secrets::Secrets;

    #[test]
    fn a_ticket_is_of_one_session_and_says_one_thing() {
        let [key, other] = [1, 2].map(|seed| Secrets::of_seed(seed).inner.tickets());
        let data = DataId { inode: InodeId(7), generation: Generation(3) };
        let (session, later) = (SessionNumber(5), SessionNumber(5 + (1 << 24) - 1));
        let ticket = Ticket::new(&key, session, (data, 4), right::READ, 100);
        assert!(ticket.is_of(&key, session) && !ticket.is_of(&key, later) && !ticket.is_of(&other, session));
        assert!(ticket.gives(right::READ) && !ticket.gives(right::WRITE) && !ticket.gives(right::READ | right::WRITE));
        assert!(ticket.counts_at(101_999_999_999) && !ticket.counts_at(102_000_000_000));
        for lie in [
            Ticket { data: DataId { inode: InodeId(8), ..data }, ..ticket },
            Ticket { data: DataId { generation: Generation(4), ..data }, ..ticket },
            Ticket { cut: 5, ..ticket },
            Ticket { rights: right::READ | right::WRITE, ..ticket },
            Ticket { until_s: 101, ..ticket },
            Ticket { hash: ticket.hash ^ 1, ..ticket },
        ] {
            assert!(!lie.is_of(&key, session), "{lie:?}");
        }
    }
}
