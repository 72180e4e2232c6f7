//! Bugs that tests plant, to see that they are noticed.
//!
//! Without the feature `planted` every question is answered "no" at compile time.

/// A rule that can be removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// P-1: what was recalled is answered from all the same.
    KeepsRecalled,
    /// P-2, R-13: a grant counts that a recall has overtaken.
    OvertakenGrant,
    /// P-2: a directory is filed where it was looked for, whatever its grant says (schedule K3).
    NamedAsAsked,
    /// P-1: what was granted is answered from when the lease is over.
    LeadsBeyondLease,
    /// P-1: a lease counts from when its answer comes.
    LeaseFromAnswer,
    /// P-6: what a home has granted with all others counts although it has taken something back since (schedule K7).
    OvertakenLoad,
    /// P-6: what a home has granted with all others counts once more, when a copy of it comes (schedule K7b).
    CopiedLoad,
    /// P-1: what was given up for want of room is not given back, since it is not there.
    GivenUpUnanswered,
    /// P-3: who may be in a group is believed to be.
    AnyGroup,
}

onpath_kernel::planted!();
