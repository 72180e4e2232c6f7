//! Bugs that tests plant, to see that they are noticed.
//!
//! Without the feature `planted` every question is answered "no" at compile time.

/// A rule that can be removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// P-5: a way is kept that was told before more was heard of changes (schedules K6a, K6b).
    KeepsLateWays,
    /// P-5: a request is made that rests on a way which was followed before more was heard of changes.
    RestsOnFormerWay,
    /// P-5: a repetition says how far its shard is heard now, not when the request was made (schedule K6).
    PresentPosition,
    /// C-2: the switch does not look whether the caller may search the directory of a name.
    SearchUnasked,
}

onpath_kernel::planted!();
