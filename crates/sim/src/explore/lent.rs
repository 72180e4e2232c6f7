//! Situations of a file that is lent to its data node (V-1 to V-7): the first session has written it often enough, and others have it open.

use super::files::Call;
use super::situations::{Script, Situation};
use crate::world::{Commit, WorldConfig};
use onpath_wire::tracking::{Form, Writes};

const LENDS: (u16, Form, fn(&mut WorldConfig)) = (2, Form::Owner, |config| config.writes = Writes::Visible);
const LENDS_DURABLY: (u16, Form, fn(&mut WorldConfig)) = (2, Form::Owner, |config| {
    (config.writes, config.commit) = (Writes::Visible, Commit::Sync);
});

const IN_TABLES: (u16, Form, fn(&mut WorldConfig)) = (2, Form::Network, LENDS.2);
const IN_TWO_PHASES: (u16, Form, fn(&mut WorldConfig)) = (2, Form::Owner, |config| config.writes = Writes::TwoPhase);

pub(super) const OF_LENT: &[Situation] = &[
    Situation {
        name: "lent-read",
        about: "a lent file is written twice, and another session reads it",
        world: LENDS,
        script: Script::Calls(&[&[Call::Write(1, 3), Call::Write(0, 1)], &[Call::Read, Call::Read]]),
    },
    Situation {
        name: "lent-truncate",
        about: "a lent file is written, cut by another session, written again by the first one, and read",
        world: LENDS,
        script: Script::Calls(&[&[Call::Write(1, 3), Call::Write(2, 3)], &[Call::Truncate(1), Call::Read]]),
    },
    Situation {
        name: "lent-writers",
        about: "two sessions write a lent file while a third reads it; replies wait for the disk",
        world: LENDS_DURABLY,
        script: Script::Calls(&[&[Call::Write(0, 2)], &[Call::Write(1, 3), Call::Sync], &[Call::Read]]),
    },
    Situation {
        name: "lent-append",
        about: "a lent file is written while another session appends to it and reads it",
        world: LENDS,
        script: Script::Calls(&[&[Call::Write(0, 2), Call::Write(2, 3)], &[Call::Append, Call::Read]]),
    },
    Situation {
        name: "lent-unlinked",
        about: "a lent file is written, loses its name and its writer, and is written and read by another session",
        world: LENDS,
        script: Script::Calls(&[&[Call::Write(0, 2), Call::Die], &[Call::Unlink, Call::Write(1, 2), Call::Read]]),
    },
    Situation {
        name: "lent-table-read",
        about: "the same as lent-read, where the table of a switch shows what is pending",
        world: IN_TABLES,
        script: Script::Calls(&[&[Call::Write(1, 3), Call::Write(0, 1)], &[Call::Read, Call::Read]]),
    },
    Situation {
        name: "lent-table-truncate",
        about: "the same as lent-truncate, where the table of a switch shows what is pending",
        world: IN_TABLES,
        script: Script::Calls(&[&[Call::Write(1, 3), Call::Write(2, 3)], &[Call::Truncate(1), Call::Read]]),
    },
    Situation {
        name: "lent-phases",
        about: "a lent file whose writer tells the home is written, cut by another session, and read",
        world: IN_TWO_PHASES,
        script: Script::Calls(&[&[Call::Write(0, 2), Call::Write(1, 3)], &[Call::Truncate(1), Call::Read]]),
    },
];
