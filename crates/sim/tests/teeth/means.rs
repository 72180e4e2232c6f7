//! By what means a checker notices each removed rule.

use crate::shapes;
use onpath_meta::planted::Planted;
use onpath_sim::SimConfig;
use onpath_sim::explore::Bounds;

/// What is run until a checker notices something.
#[derive(Clone, Copy)]
pub(crate) enum Means {
    /// Random seeds of a shape of this name.
    Seeds(&'static str, fn(u64) -> SimConfig),
    /// Every schedule of this situation within these bounds.
    Explored(&'static str, Bounds),
}

const NONE: Bounds = Bounds { late: 0, waits: 0, lost: 0, doubled: 0, kills: 0, powers: 0, reboots: 0 };
const LATE: Bounds = Bounds { late: 1, waits: 1, ..NONE };
const DOUBLED: Bounds = Bounds { doubled: 1, ..NONE };
const KILLS: Bounds = Bounds { kills: 1, ..NONE };
const POWERS: Bounds = Bounds { powers: 1, ..NONE };

const OWNER: Means = Means::Seeds("owner form", shapes::hostile);
const NETWORK: Means = Means::Seeds("network form", shapes::network);
const WRITERS: Means = Means::Seeds("writers", shapes::writers);
const POWERLESS: Means = Means::Seeds("writers, power losses", shapes::writers_that_lose_power);
const DIRECTORIES: Means = Means::Seeds("directories, power losses", shapes::directories_that_lose_power);
const LOCKERS: Means = Means::Seeds("lockers", shapes::lockers);
const MORTALS: Means = Means::Seeds("sessions that die", shapes::mortals);
const CACHERS: Means = Means::Seeds("sessions that cache", shapes::cachers);
const TIGHT: Means = Means::Seeds("little room", shapes::tight);

const TABLES: Means = Means::Seeds("lent files, tables", shapes::lent_in_tables);
const LENT_TO_MANY: Means = Means::Seeds("lent files, many writers", shapes::lent_to_many);
const LENT: Means = Means::Seeds("lent files", shapes::lent);
const CACHED: Means = Means::Seeds("hot files", shapes::cached);
const PATHS: Means = Means::Seeds("paths", shapes::paths);

const LATE_COPIES: Means = Means::Seeds("late copies", shapes::late_copies);
const RESTARTS: Means = Means::Seeds("restarts", shapes::restarts);
const STORMS: Means = Means::Seeds("storms of renames", shapes::storms);
const CLIMBS: Means = Means::Seeds("moves in deep trees", shapes::climbs);
const RENAMES: Means = Means::Seeds("renames, power losses", shapes::renames_that_lose_power);
const POWER_LOSSES: Means = Means::Seeds("power losses", shapes::power_losses);
const FORGERS: Means = Means::Seeds("forged acknowledgements", shapes::forgers);
const LATE_ROUNDS: Means = Means::Seeds("late rounds", shapes::late_rounds);
const COPIED_COLLECTS: Means = Means::Seeds("copied collects", shapes::copied_collects);
const NETWORK_RESTARTS: Means = Means::Seeds("restarts, network form", shapes::network_restarts);

const fn explored(situation: &'static str, bounds: Bounds) -> Means {
    Means::Explored(situation, bounds)
}

/// Each rule, what is removed of it, and by what means that is noticed.
pub(crate) const MEANS: &[(u8, Planted, Means)] = &[
    (1, Planted::ExposedUnmarked, NETWORK),
    (1, Planted::ExposedUnmarked, explored("two-sites", NONE)),
    (2, Planted::AnyRound, LATE_ROUNDS),
    (2, Planted::AnyRound, explored("answered-round", NONE)),
    (2, Planted::CollectWithoutEntries, NETWORK),
    (2, Planted::AbandonedForgotten, explored("given-up", NONE)),
    (2, Planted::OneOfGroup, NETWORK),
    (2, Planted::OneOfGroup, explored("group", LATE)),
    (3, Planted::NoHold, NETWORK),
    (3, Planted::NoHold, explored("collect", LATE)),
    (3, Planted::HoldLowered, COPIED_COLLECTS),
    (3, Planted::HoldLowered, explored("copied-collect", LATE)),
    (4, Planted::NoCollect, OWNER),
    (4, Planted::NoCollect, NETWORK),
    (5, Planted::ForgetfulOfFailures, LATE_COPIES),
    (5, Planted::ForgetfulOfFailures, explored("refused", DOUBLED)),
    (5, Planted::UnlockedWhileGated, NETWORK),
    (5, Planted::UnsettledTransactions, NETWORK),
    (5, Planted::UnsettledTransactions, explored("rename", LATE)),
    (6, Planted::GenerationOutlivesCollect, NETWORK),
    (6, Planted::GenerationOutlivesCollect, explored("collect", LATE)),
    (6, Planted::AnyMark, FORGERS),
    (7, Planted::AnyEpochsMark, explored("former-mark", LATE)),
    (7, Planted::AnyEpochsNormal, explored("back-for-owners", NONE)),
    (7, Planted::AnyEpochsRemove, explored("former-epoch", NONE)),
    (7, Planted::CompleteTooEarly, NETWORK_RESTARTS),
    (7, Planted::CompleteTooEarly, explored("not-marked-again", NONE)),
    (7, Planted::SitesFirst, explored("gone-for-sites", NONE)),
    (8, Planted::AppliedTwice, OWNER),
    (8, Planted::AppliedTwice, explored("sync", DOUBLED)),
    (8, Planted::FloorOverEntries, TIGHT),
    (8, Planted::FloorOverEntries, explored("floor", LATE)),
    (9, Planted::FirstOperation, OWNER),
    (9, Planted::FirstOperation, explored("compaction", NONE)),
    (10, Planted::MarkNotTaken, NETWORK),
    (11, Planted::PushedUnnoticed, NETWORK),
    (11, Planted::InodeUnnoticed, explored("moved", LATE)),
    (12, Planted::EqualRemoves, LATE_ROUNDS),
    (12, Planted::TermUnannounced, explored("former-term", NONE)),
    (13, Planted::GrantDuringCollect, OWNER),
    (13, Planted::GrantDuringCollect, NETWORK),
    (13, Planted::OvertakenGrant, OWNER),
    (13, Planted::RecallWithoutEntries, OWNER),
    (13, Planted::RecallWaitsForMark, explored("no-marks", NONE)),
    (14, Planted::ChmodWithoutRecall, explored("closed", LATE)),
    (14, Planted::RmdirWithoutRecall, OWNER),
    (14, Planted::RmdirWithoutRecall, explored("mkdir-rmdir", LATE)),
    (15, Planted::EmptyTableAfterRestart, OWNER),
    (15, Planted::EmptyTableAfterRestart, explored("two-sites", KILLS)),
    (15, Planted::OneKnownForBoth, explored("looked", KILLS)),
    (15, Planted::ShownTooEarly, explored("unmarked", NONE)),
    (16, Planted::PushBeforeDurable, POWER_LOSSES),
    (16, Planted::PushBeforeDurable, explored("idle", POWERS)),
    (17, Planted::AnyTerm, OWNER),
    (17, Planted::AnyTerm, explored("create-unlink", KILLS)),
    (17, Planted::LocksWithoutGrace, LOCKERS),
    (17, Planted::LocksWithoutGrace, explored("locks", KILLS)),
    (17, Planted::OrphansWithoutGrace, MORTALS),
    (17, Planted::OrphansWithoutGrace, explored("unlinked", KILLS)),
    (17, Planted::DeadReturn, explored("false-death", KILLS)),
    (18, Planted::BirthlessIds, RESTARTS),
    (18, Planted::BirthlessIds, explored("rename-again", KILLS)),
    (19, Planted::HeldStamp, explored("held-stamp", NONE)),
    (20, Planted::TrimsOvertake, explored("trims", LATE)),
    (20, Planted::CutBeforeDurable, POWERLESS),
    (21, Planted::JoinsWhileAlone, CACHERS),
    (23, Planted::PromiseWithoutDoubt, OWNER),
    (23, Planted::DecisionWithoutLook, OWNER),
    (23, Planted::AttemptWithoutParts, explored("starving", NONE)),
    (23, Planted::PrepareAfterEnd, LATE_COPIES),
    (23, Planted::PrepareAfterEnd, explored("rename-again", Bounds { lost: 1, doubled: 1, ..NONE })),
    (23, Planted::PromiseWithoutLocks, RESTARTS),
    (23, Planted::PromiseWithoutLocks, explored("three-names", KILLS)),
    (23, Planted::TurnsForgotten, STORMS),
    (23, Planted::TurnsForgotten, explored("turn", NONE)),
    (23, Planted::ClimbUnverified, CLIMBS),
    (14, Planted::MovedWithoutRecall, PATHS),
    (14, Planted::WaysKept, PATHS),
    (14, Planted::ForgottenHereOnly, PATHS),
    (14, Planted::AnyPosition, PATHS),
    (23, Planted::GrantedWhileMoving, PATHS),
    // V-2: what is lent is asked back before it is shown.
    (4, Planted::ShownWithoutRecall, LENT),
    (4, Planted::ShownWithoutRecall, explored("times-writer", NONE)),
    (4, Planted::ListedUncollected, LENT),
    (21, Planted::WriterNotAlone, LENT_TO_MANY),
    (21, Planted::WriterNotAlone, explored("times-two", LATE)),
    // V-11: an answer of a table counts when its epoch is complete.
    (7, Planted::TableTooEarly, TABLES),
    // C-6, C-7: what is lent is cleared before it changes, also by a home that has forgotten what it has lent.
    (4, Planted::ChangesUncleared, CACHED),
    (4, Planted::ChangesUncleared, explored("hot-chmod", NONE)),
    (15, Planted::LentForgotten, CACHED),
    (15, Planted::LentForgotten, explored("hot-anew", NONE)),
    (25, Planted::IntentionUnconfirmed, RENAMES),
    (25, Planted::IntentionUnconfirmed, explored("rename-owner", POWERS)),
    (25, Planted::PromisedAnew, RENAMES),
    (25, Planted::PromisesUntold, DIRECTORIES),
    // Of no numbered rule: what fsync of a directory says, leases of sessions (design.md, "Sessions"), and bounds of queues.
    (0, Planted::SyncWithoutCollect, DIRECTORIES),
    (0, Planted::CreateUntold, DIRECTORIES),
    (0, Planted::LocksOutliveSession, MORTALS),
    (0, Planted::LocksOutliveSession, explored("lease", NONE)),
    (0, Planted::UpdatesWithoutRoom, TIGHT),
    (0, Planted::UpdatesWithoutRoom, explored("room", NONE)),
    (0, Planted::CutsRemembered, WRITERS),
    (0, Planted::CutsRemembered, explored("write-truncate", NONE)),
];
