//! Bugs that tests plant, to see that they are noticed.
//!
//! Without the feature `planted` every question is answered "no" at compile time.

/// A rule that can be removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// Bits are computed for ways whose permissions do not descend from owner to group to others.
    NoDescent,
    /// Bits stay what they are when something on the way changes.
    StaysValid,
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: core::cell::Cell<Option<Planted>> = const { core::cell::Cell::new(None) };
}

/// Plants a bug on this thread.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Planted>) {
    PLANTED.with(|planted| planted.set(bug));
}

/// Whether this rule is removed.
#[cfg(feature = "planted")]
pub(crate) fn planted(bug: Planted) -> bool {
    PLANTED.with(|planted| planted.get() == Some(bug))
}

/// Whether this rule is removed: never in a real build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub(crate) const fn planted(_: Planted) -> bool {
    false
}
