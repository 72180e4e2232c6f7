//! Rules of paths, each removed once, and missed by the exploration of a small situation of paths.

use super::table::by_schedules;
use super::{of_sessions_by_seeds, planted};
use onpath_meta::planted::{Planted, plant};
use onpath_path::Planted as OfPath;
use onpath_session::Planted as OfSession;
use onpath_sim::explore::Bounds;
use std::collections::BTreeSet;

/// Of whom a rule is removed.
#[derive(Clone, Copy, Debug)]
enum Removed {
    Home(Planted),
    Path(OfPath),
    Session(OfSession),
}

const USUAL: Bounds = Bounds { late: 0, waits: 0, lost: 0, doubled: 0, kills: 0, powers: 0, reboots: 0 };
const LATE: Bounds = Bounds { late: 1, ..USUAL };
const LOST: Bounds = Bounds { lost: 1, ..USUAL };

/// Each rule, what is removed of it, and in which situation that is noticed.
const MEANS: &[(&str, Removed, &str, Bounds)] = &[
    ("P-1", Removed::Path(OfPath::KeepsRecalled), "path-chmod", USUAL),
    ("P-1", Removed::Path(OfPath::LeadsBeyondLease), "path-cut-off", USUAL),
    ("P-1", Removed::Path(OfPath::LeaseFromAnswer), "path-late-lease", USUAL),
    ("P-1", Removed::Home(Planted::MovedWithoutRecall), "path-two-nodes", USUAL),
    ("P-1", Removed::Home(Planted::ChmodWithoutRecall), "path-chmod", USUAL),
    ("P-1", Removed::Home(Planted::RmdirWithoutRecall), "path-rmdir", USUAL),
    ("P-1", Removed::Home(Planted::GrantedWhileMoving), "path-promised", USUAL),
    ("P-1", Removed::Home(Planted::ForgottenLeases), "path-cut-off-anew", USUAL),
    ("P-1", Removed::Path(OfPath::GivenUpUnanswered), "path-room", USUAL),
    ("P-2", Removed::Path(OfPath::OvertakenGrant), "path-chmod-cold", LATE),
    ("P-2", Removed::Path(OfPath::NamedAsAsked), "path-rename-cold", LATE),
    ("P-3", Removed::Path(OfPath::AnyGroup), "path-group-given", USUAL),
    ("P-5", Removed::Home(Planted::WaysKept), "way-closed", USUAL),
    ("P-5", Removed::Home(Planted::ForgottenHereOnly), "way-closed", USUAL),
    ("P-5", Removed::Home(Planted::ForgottenTooEarly), "way-chmod", LATE),
    ("P-5", Removed::Home(Planted::BehindAlthoughDone), "way-make", LOST),
    ("P-5", Removed::Home(Planted::AnyPosition), "way-closed", USUAL),
    ("P-5", Removed::Session(OfSession::KeepsLateWays), "way-late", LATE),
    ("P-5", Removed::Session(OfSession::RestsOnFormerWay), "way-former", LATE),
    ("P-5", Removed::Session(OfSession::PresentPosition), "way-anew", USUAL),
    ("P-6", Removed::Path(OfPath::OvertakenLoad), "path-load", USUAL),
    ("P-6", Removed::Path(OfPath::CopiedLoad), "path-load-copied", USUAL),
    ("P-6", Removed::Path(OfPath::CopiedLoad), "path-load-given-up", USUAL),
    ("C-2", Removed::Session(OfSession::SearchUnasked), "hot-search", USUAL),
];

/// What is removed of homes.
pub(crate) fn of_homes() -> impl Iterator<Item = Planted> {
    MEANS.iter().filter_map(|(_, removed, ..)| match removed {
        Removed::Home(bug) => Some(*bug),
        Removed::Path(_) | Removed::Session(_) => None,
    })
}

#[test]
fn exploration_misses_every_rule_of_paths() {
    let (mut of_paths, mut of_sessions) = (BTreeSet::new(), of_sessions_by_seeds().collect::<BTreeSet<_>>());
    for (_, removed, ..) in MEANS {
        match removed {
            Removed::Path(bug) => _ = of_paths.insert(format!("{bug:?}")),
            Removed::Session(bug) => _ = of_sessions.insert(format!("{bug:?}")),
            Removed::Home(_) => {}
        }
    }
    assert_eq!(of_paths, planted(include_str!("../../../path/src/planted.rs")));
    assert_eq!(of_sessions, planted(include_str!("../../../session/src/planted.rs")));
    let mut missed = vec![];
    println!("\n| rule | removed | situation | schedules until noticed | assertions |\n|---|---|---|---|---|");
    for (rule, removed, name, bounds) in MEANS {
        let plants = |planted: bool| match removed {
            Removed::Home(bug) => plant(planted.then_some(*bug)),
            Removed::Path(bug) => onpath_path::plant(planted.then_some(*bug)),
            Removed::Session(bug) => onpath_session::plant(planted.then_some(*bug)),
        };
        let found = by_schedules(&plants, name, *bounds);
        println!("| {rule} | {removed:?} | {name} | {} | {} |", found.median(), found.panics);
        if found.is_nothing() {
            missed.push((removed, name));
        }
    }
    assert!(missed.is_empty(), "no schedule notices {missed:?}");
}
