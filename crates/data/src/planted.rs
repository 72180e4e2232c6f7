//! Rules of the protocol that tests can remove here, to see that they are missed.

/// A rule that is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// V-3: a part counts although its home has taken it back.
    FloorsForgotten,
    /// V-3a: after a restart parts count before their home has said which it gave last (schedule G1).
    PartsOfFormerLife,
    /// V-3: a home that takes a part back is told of no writes.
    HandsOverNothing,
    /// V-1: a part is taken up while the home has yet to answer writes of the file that it was told.
    TakesUpBesideChain,
    /// V-6: a repeated write that this node has answered is told to the home.
    AnsweredForgotten,
    /// V-8: what is installed for one file overwrites what is pending of another one.
    InstallsOverOthers,
    /// V-2: with a table, too, the session is answered directly.
    AnswersPastTable,
    /// V-2: in two phases, too, the session is answered directly.
    AnswersInOnePhase,
}

onpath_kernel::planted!();
