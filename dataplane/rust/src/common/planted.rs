//! Planted bugs: each removes one rule of SPEC.md, so that `tests/teeth.rs` can show that a vector of that rule notices.
//!
//! Without the feature `planted` every question is answered "no" at compile time.

macro_rules! bugs {
    ($($(#[$doc:meta])* $rule:ident = $number:literal),* $(,)?) => {
        /// A rule that is removed, by its number.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Planted { $($(#[$doc])* $rule = $number),* }
        impl Planted {
            /// One bug for each rule.
            pub const ALL: &[Planted] = &[$(Planted::$rule),*];
        }
    };
}

bugs! {
    /// The UDP port is not looked at.
    D1 = 1,
    /// What is missing of a header is taken for 0.
    D2 = 2,
    /// The version is not looked at.
    D3 = 3,
    /// The cluster is not looked at.
    D4 = 4,
    /// The structure is not looked at.
    D5 = 5,
    /// An unknown operation is taken for a query.
    D6 = 6,
    /// Reserved bits are not looked at.
    D7 = 7,
    /// A shard beyond the registers is taken modulo their number.
    D8 = 8,
    /// An index beyond the registers is taken modulo their number.
    D9 = 9,
    /// Tag 0 is a tag.
    D10 = 10,
    /// Answered packets are executed again.
    D11 = 11,
    /// The set is chosen by other bits.
    D12 = 12,
    /// The destination stays in copies.
    D16 = 16,
    /// Without a route copies leave by port 0.
    D17 = 17,
    /// Only the first array is queried.
    D18 = 18,
    /// The complete bit is not looked at.
    D19 = 19,
    /// The first array is not used.
    D20 = 20,
    /// Later copies of a tag stay.
    D21 = 21,
    /// A tag that is there already takes another register.
    D22 = 22,
    /// A mark is acknowledged to the client alone.
    D23 = 23,
    /// The client hears of a full set.
    D24 = 24,
    /// Inserts of any epoch count.
    D26 = 26,
    /// Only the first array is removed from.
    D27 = 27,
    /// The counter stays.
    D28 = 28,
    /// An equal sequence is newer.
    D29 = 29,
    /// Removes of lower terms count.
    D30 = 30,
    /// Removes of terms not announced count.
    D31 = 31,
    /// All shards share one pair.
    D32 = 32,
    /// Removes of any epoch take out.
    D33 = 33,
    /// A remove goes back to its sender.
    D34 = 34,
    /// A new epoch stays complete.
    D37 = 37,
    /// Any epoch completes the present one.
    D38 = 38,
    /// Raise zeroes and lowers.
    D39 = 39,
    /// Clear while an epoch runs.
    D40 = 40,
    /// Node 0 has a route.
    D41 = 41,
    /// Terms and counters survive a reboot.
    D42 = 42,
    /// Copies that are lost are not counted.
    D43 = 43,
    /// Anybody may change registers.
    D44 = 44,
    /// Fingerprint 0 is one.
    D45 = 45,
    /// Position 0 is one.
    D46 = 46,
    /// The entry is chosen by other bits.
    D47 = 47,
    /// Positions are compared as they are.
    D48 = 48,
    /// An entry in which nothing was is at position 0.
    D49 = 49,
    /// An install is not executed again.
    D50 = 50,
    /// An install is executed after its clear.
    D51 = 51,
    /// What an occupied entry keeps is not overwritten.
    D52 = 52,
    /// An install is told to the session alone.
    D53 = 53,
    /// The session hears of an install without effect.
    D54 = 54,
    /// Installs of any epoch take effect.
    D55 = 55,
    /// A look does not compare fingerprints.
    D56 = 56,
    /// The table's complete bit is not looked at.
    D57 = 57,
    /// A clear does not compare positions.
    D58 = 58,
    /// A clear forgets the position.
    D59 = 59,
    /// Clears of another epoch free nothing.
    D60 = 60,
    /// A clear goes back to its sender.
    D61 = 61,
    /// An epoch of the dirty set is one of the table.
    D62 = 62,
    /// A new epoch of the table stays complete.
    D63 = 63,
    /// Any epoch completes the present one of the table.
    D64 = 64,
    /// The table is emptied while an epoch runs.
    D65 = 65,
    /// A reboot leaves the entries.
    D66 = 66,
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Planted>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug for every switch on this thread.
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
