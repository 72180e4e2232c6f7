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
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Planted>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug for everything that runs on this thread.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Planted>) {
    PLANTED.with(|planted| planted.set(bug));
}

/// Whether this rule is removed.
#[cfg(feature = "planted")]
pub(crate) fn is(bug: Planted) -> bool {
    PLANTED.with(|planted| planted.get() == Some(bug))
}

/// Whether this rule is removed: never in a real build.
#[cfg(not(feature = "planted"))]
pub(crate) const fn is(_: Planted) -> bool {
    false
}
