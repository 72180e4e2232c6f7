//! Situations of a file that is lent to its data node (V-1 to V-7): the first session has written it often enough, and others have it open,
//! look at it or set its times.

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
    Situation {
        name: "times-writer",
        about: "the only writer of a lent file writes it, sets its time, and writes it again, while another session looks at it",
        world: LENDS,
        script: Script::Calls(&[&[Call::Write(0, 1), Call::SetTime(5), Call::Write(1, 2)], &[Call::Stat, Call::Look]]),
    },
    Situation {
        name: "times-other",
        about: "a lent file is written twice, while another session sets its time and looks at it, and a third one looks",
        world: LENDS,
        script: Script::Calls(&[
            &[Call::Write(0, 1), Call::Write(1, 2)],
            &[Call::SetTime(5), Call::Stat],
            &[Call::Stat],
        ]),
    },
    Situation {
        name: "times-opened",
        about: "the only writer of a lent file sets its time, while another session opens it, writes it and looks at it",
        world: LENDS,
        script: Script::Calls(&[&[Call::Write(0, 1), Call::SetTime(5)], &[Call::Open, Call::Write(1, 2), Call::Stat]]),
    },
    Situation {
        name: "times-two",
        about: "two sessions write a lent file; one of them sets its time, and both look at it",
        world: LENDS,
        script: Script::Calls(&[&[Call::Write(0, 1), Call::Stat], &[Call::Write(1, 2), Call::SetTime(5), Call::Stat]]),
    },
    Situation {
        name: "times-durable",
        about: "the same as times-writer, where replies wait for the disk",
        world: LENDS_DURABLY,
        script: Script::Calls(&[&[Call::Write(0, 1), Call::SetTime(5), Call::Write(1, 2)], &[Call::Stat, Call::Look]]),
    },
    Situation {
        name: "times-table",
        about: "the same as times-writer, where the table of a switch shows what is pending",
        world: IN_TABLES,
        script: Script::Calls(&[&[Call::Write(0, 1), Call::SetTime(5), Call::Write(1, 2)], &[Call::Stat, Call::Look]]),
    },
    Situation {
        name: "times-table-other",
        about: "the same as times-other, where the table of a switch shows what is pending",
        world: IN_TABLES,
        script: Script::Calls(&[
            &[Call::Write(0, 1), Call::Write(1, 2)],
            &[Call::SetTime(5), Call::Stat],
            &[Call::Stat],
        ]),
    },
    Situation {
        name: "times-table-opened",
        about: "the same as times-opened, where the table of a switch shows what is pending",
        world: IN_TABLES,
        script: Script::Calls(&[&[Call::Write(0, 1), Call::SetTime(5)], &[Call::Open, Call::Write(1, 2), Call::Stat]]),
    },
    Situation {
        name: "times-phases",
        about: "the same as times-writer, where the writer tells the home",
        world: IN_TWO_PHASES,
        script: Script::Calls(&[&[Call::Write(0, 1), Call::SetTime(5), Call::Write(1, 2)], &[Call::Stat, Call::Look]]),
    },
    Situation {
        name: "times-chain",
        about: "the same as times-other, where the home answers writes",
        world: (2, Form::Owner, |_| {}),
        script: Script::Calls(&[
            &[Call::Write(0, 1), Call::Write(1, 2)],
            &[Call::SetTime(5), Call::Stat],
            &[Call::Stat],
        ]),
    },
];
