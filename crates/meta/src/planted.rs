//! Planted bugs: each removes one rule, so that the simulator can show that it would notice (ARCHITECTURE.md, "The simulator").
//!
//! Without the feature `planted` every question is answered "no" at compile time.

/// A rule that is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// grants are given while a collect runs (schedules C1, schedule D1).
    GrantDuringCollect,
    /// a grant counts although a recall overtook it (schedules C10, schedule C14 (c)).
    OvertakenGrant,
    /// a recall takes the part but not the entries (schedule D3).
    RecallWithoutEntries,
    /// what is applied already is applied again (schedule C11).
    AppliedTwice,
    /// readers do not collect.
    NoCollect,
    /// chmod does not recall the access parts.
    ChmodWithoutRecall,
    /// rmdir does not recall what others may append.
    RmdirWithoutRecall,
    /// P-1: a rename leaves the path parts of the directory that it moves where they are.
    MovedWithoutRecall,
    /// P-1: path parts are granted of what a prepared rename moves (schedule K4).
    GrantedWhileMoving,
    /// P-5: clients are not told that ways through a directory are to be forgotten.
    WaysKept,
    /// P-5: only the home itself tells them.
    ForgottenHereOnly,
    /// P-5: they are told before path nodes are asked to let go (schedule K1).
    ForgottenTooEarly,
    /// P-5: a copy of a request that was executed is behind all the same (schedule K5).
    BehindAlthoughDone,
    /// P-5: requests by ways are executed whatever their session has not heard.
    AnyPosition,
    /// P-1: a home that has begun anew waits for no lease that it gave before.
    ForgottenLeases,
    /// a restarted owner believes that nobody holds anything (schedules D2, schedule F6).
    EmptyTableAfterRestart,
    /// both tables count as known when one is (schedule F6).
    OneKnownForBoth,
    /// names of a former term are shown before their owner has applied them.
    ShownTooEarly,
    /// failures and answers without a record are forgotten.
    ForgetfulOfFailures,
    /// requests of another term are executed (schedule D9).
    AnyTerm,
    /// a promise does not make recalls wait (schedule F1).
    PromiseWithoutDoubt,
    /// the decision does not look again (schedule F2).
    DecisionWithoutLook,
    /// recalls never wait for an attempt.
    AttemptWithoutParts,
    /// an acknowledgement counts whoever says it, of whatever mark.
    AnyMark,
    /// a late copy of Prepare is prepared again (schedule F4).
    PrepareAfterEnd,
    /// a restarted participant forgets its locks.
    PromiseWithoutLocks,
    /// an intention is carried out although nobody has asked whether the promises are there.
    IntentionUnconfirmed,
    /// a participant that has started again takes a question of before for a new one.
    PromisedAnew,
    /// the answer does not name the promises on which it rests.
    PromisesUntold,
    /// a restarted coordinator module gives a turn at moving directories while one of before goes on.
    TurnsForgotten,
    /// what a move has seen of the tree before its turn counts although it has moved since.
    ClimbUnverified,
    /// the floor is raised above entries that are not applied.
    FloorOverEntries,
    /// a restarted home reclaims inodes without a name before sessions have opened them again.
    OrphansWithoutGrace,
    /// a restarted home grants locks before those of its former term are taken again.
    LocksWithoutGrace,
    /// Whoever was declared dead takes again what it had when a shard has started again.
    DeadReturn,
    /// An fsync of a directory does not let those flush who hold entries of it.
    SyncWithoutCollect,
    /// The answer to a create does not name its record, so that no fsync of the directory says that it was lost.
    CreateUntold,
    /// The death of a session leaves its file locks to nobody.
    LocksOutliveSession,
    /// Updates do not wait until there is room in the change-logs.
    UpdatesWithoutRoom,
    /// A queue keeps what is over: of cuts that became durable.
    CutsRemembered,
    /// a later trim of a file overtakes an earlier one.
    TrimsOvertake,
    /// sessions hear of a cut that a power loss may still take back.
    CutBeforeDurable,
    /// a push does not rest on its records.
    PushBeforeDurable,
    /// an update is exposed before its mark is acknowledged.
    ExposedUnmarked,
    /// an answer to an earlier round of a collect counts (schedule C3).
    AnyRound,
    /// a holder that has answered a collect goes on exposing updates (schedule C1).
    NoHold,
    /// an acknowledgement outlives a collect (schedules C10, schedule D4).
    GenerationOutlivesCollect,
    /// acknowledgements of an earlier epoch count (schedule C8).
    AnyEpochsMark,
    /// what was pushed is shown although the switch's answer is older (schedule C2).
    PushedUnnoticed,
    /// a directory's own inode is changed although the switch's answer is older.
    InodeUnnoticed,
    /// what a holder has answered to a collect is not applied.
    CollectWithoutEntries,
    /// a collect that was given up counts as one that was completed.
    AbandonedForgotten,
    /// of a group only the holders of the directory that is read are asked.
    OneOfGroup,
    /// a copy of an earlier collect lowers the hold.
    HoldLowered,
    /// an update that waits for its mark has no locks.
    UnlockedWhileGated,
    /// an answer "normal" of another epoch is believed.
    AnyEpochsNormal,
    /// an epoch is complete before everything held is marked in it (schedule C6).
    CompleteTooEarly,
    /// sites learn of an epoch before owners do (schedule C12).
    SitesFirst,
    /// the switch removes for an epoch that is over (schedule C7).
    AnyEpochsRemove,
    /// of several operations on a name the first one remains.
    FirstOperation,
    /// the owner takes a mark and goes on believing the switch.
    MarkNotTaken,
    /// the switch does not hear of a new term.
    TermUnannounced,
    /// the switch does not look at the counter of a remove (schedule C4).
    EqualRemoves,
    /// a recall waits until marks are acknowledged (schedule D7).
    RecallWaitsForMark,
    /// the ids of all starts are of the same birth.
    BirthlessIds,
    /// what was stamped while its site held leaves its directory's time as it is.
    HeldStamp,
    /// a session joins before the one that is alone has handed back what its mount has cached.
    JoinsWhileAlone,
    /// V-2: the home shows what it knows of a file that is lent.
    ShownWithoutRecall,
    /// V-2: a listing tells attributes of lent files without asking their data nodes.
    ListedUncollected,
    /// V-7: a session changes times beside the writes of others that have the file open.
    WriterNotAlone,
    /// V-11: the table is complete before data nodes have said that homes have learned what was answered before.
    TableTooEarly,
    /// C-6: what a switch answers for is changed without clearing its entry.
    ChangesUncleared,
    /// C-7: a home that has started again forgets that it may have lent names.
    LentForgotten,
    /// R-5 of changes that show in two places: one half is exposed while the other is gated.
    UnsettledTransactions,
}

onpath_kernel::planted!();
